//! Attention over sampled rows, where targets are few and the rows that they attend to are many.
//!
//! With t(p), r(p) and n(p) the target, the row and the hop of pair p, and m the factors of dropout, head h reads
//!
//! ```text
//! s_ph = q_th · x_r / √w + b_h[n(p)] + prior_p      w_ph = softmax of s_h over the pairs of t      y_th = Σ_p m_ph w_ph x_r      z_th = Σ_p m_ph w_ph
//! ```
//!
//! All heads read the same rows: keys and values are maps of these, and `sampled_attention.rs` takes the maps to the targets'
//! side. The backward pass goes over targets, then over rows, each with its pairs in order, so that no two writers meet. Weights are
//! kept, one number per pair and head.

use std::sync::Arc;

use burn::tensor::Tensor;

use super::{Kept, Operation, apply};
use crate::nn::fused::Team;
use crate::nn::layers::Dropout;
use crate::nn::pass::Pass;
use crate::nn::samples::Samples;
use crate::rng::Coins;
use crate::simd::{add_scaled, dot};

/// Targets that are worked through together.
const BLOCK: usize = 32;

/// Queries `[targets, heads × width]`, rows `[rows, width]` and a bias `[hops + 1, heads]` → `[targets, heads × width + heads]`: what heads
/// read, then the sums of their weights. `scale` multiplies products. None where there is no kernel.
pub fn attend_samples(
    pass: &Pass,
    samples: &Arc<Samples>,
    scale: f32,
    inputs: [Tensor<2>; 3],
    dropout: Dropout,
) -> Option<Tensor<2>> {
    let (heads, width) = (inputs[2].dims()[1], inputs[1].dims()[1]);
    let (coins, team) = (dropout.coins(pass), pass.team().clone());
    let kernel = Arc::new(Attend { samples: samples.clone(), heads, width, scale, coins, team });
    apply(&kernel, inputs).ok()
}

#[derive(Debug)]
struct Attend {
    samples: Arc<Samples>,
    heads: usize,
    /// Of one head, and of a row.
    width: usize,
    scale: f32,
    coins: Option<Coins>,
    team: Arc<Team>,
}

impl Attend {
    /// Numbers of a row of the output.
    fn columns(&self) -> usize {
        self.heads * (self.width + 1)
    }

    fn factor(&self, pair: usize, head: usize) -> f32 {
        self.coins.as_ref().map_or(1.0, |coins| coins.factor((pair * self.heads + head) as u32))
    }

    fn row<'a>(&self, x: &'a [f32], pair: usize) -> &'a [f32] {
        &x[self.samples.by_row().of_row()[pair] as usize * self.width..][..self.width]
    }

    /// Runs `work` on blocks of targets, with the first of each, its rows of `wide` and its pairs' numbers.
    fn by_targets(
        &self,
        (wide, columns): (&mut [f32], usize),
        mut pairs: &mut [f32],
        work: impl Fn(usize, &mut [f32], &mut [f32]) + Sync,
    ) {
        let targets = self.samples.by_target();
        let mut blocks = Vec::new();
        for (number, wide) in wide.chunks_mut(BLOCK * columns).enumerate() {
            let first = number * BLOCK;
            let count = (first..first + wide.len() / columns).map(|t| targets.rows(t).len());
            let (own, rest) = pairs.split_at_mut(count.sum::<usize>() * self.heads);
            pairs = rest;
            blocks.push((first, wide, own));
        }
        self.team.each(blocks, |(first, wide, own)| work(first, wide, own));
    }

    /// The weights of a target's pairs, head by head, and what it reads.
    fn read(
        &self,
        target: usize,
        [query, x, bias]: [&[f32]; 3],
        y: &mut [f32],
        weights: &mut [f32],
    ) {
        let (heads, width) = (self.heads, self.width);
        let pairs = self.samples.by_target().rows(target);
        let Some(&first) = pairs.first() else { return };
        let hops = self.samples.by_hop().of_row();
        let query = &query[target * heads * width..][..heads * width];
        for (weights, &pair) in weights.chunks_exact_mut(heads).zip(pairs) {
            let row = self.row(x, pair as usize);
            let bias = &bias[hops[pair as usize] as usize * heads..][..heads];
            let prior = self.samples.prior()[pair as usize];
            let heads = query.chunks_exact(width).zip(bias);
            for (weight, (query, bias)) in weights.iter_mut().zip(heads) {
                *weight = dot(query, row) * self.scale + bias + prior;
            }
        }
        for head in 0..heads {
            softmax(weights, head, heads);
        }
        let (read, sums) = y.split_at_mut(heads * width);
        for (weights, pair) in weights.chunks_exact(heads).zip(first as usize..) {
            let row = self.row(x, pair);
            for (head, read) in read.chunks_exact_mut(width).enumerate() {
                let weight = weights[head] * self.factor(pair, head);
                add_scaled(read, weight, row);
                sums[head] += weight;
            }
        }
    }

    /// Makes the derivatives by scores of weights, and gives those by the query.
    fn by_scores(
        &self,
        target: usize,
        (x, gradient): (&[f32], &[f32]),
        query: &mut [f32],
        weights: &mut [f32],
    ) {
        let (heads, width) = (self.heads, self.width);
        let pairs = self.samples.by_target().rows(target);
        let Some(&first) = pairs.first() else { return };
        let (by_read, by_sums) =
            gradient[target * self.columns()..][..self.columns()].split_at(heads * width);
        let mut along = vec![0.0; heads];
        let mut by_weights = vec![0.0; weights.len()];
        let rows = by_weights.chunks_exact_mut(heads).zip(weights.chunks_exact(heads));
        for ((by_weights, weights), pair) in rows.zip(first as usize..) {
            let row = self.row(x, pair);
            for (head, by_read) in by_read.chunks_exact(width).enumerate() {
                let by = (dot(by_read, row) + by_sums[head]) * self.factor(pair, head);
                by_weights[head] = by;
                along[head] += by * weights[head];
            }
        }
        let rows = by_weights.chunks_exact(heads).zip(weights.chunks_exact_mut(heads));
        for ((by_weights, weights), pair) in rows.zip(first as usize..) {
            let row = self.row(x, pair);
            for (head, query) in query.chunks_exact_mut(width).enumerate() {
                weights[head] *= by_weights[head] - along[head];
                add_scaled(query, weights[head] * self.scale, row);
            }
        }
    }
}

impl Operation<3> for Attend {
    /// Weights, before dropout.
    type Saved = Vec<f32>;

    fn shape(&self, _: [[usize; 2]; 3]) -> [usize; 2] {
        [self.samples.targets(), self.columns()]
    }

    fn forward(&self, inputs: [&[f32]; 3]) -> (Vec<f32>, Vec<f32>) {
        let (columns, heads) = (self.columns(), self.heads);
        let mut y = vec![0.0; self.samples.targets() * columns];
        let mut weights = vec![0.0; self.samples.len() * heads];
        self.by_targets((&mut y, columns), &mut weights, |first, y, mut weights| {
            for (target, y) in (first..).zip(y.chunks_exact_mut(columns)) {
                let count = self.samples.by_target().rows(target).len() * heads;
                let (own, rest) = weights.split_at_mut(count);
                self.read(target, inputs, y, own);
                weights = rest;
            }
        });
        (y, weights)
    }

    fn backward(&self, kept: Kept<'_, Vec<f32>, 3>, gradient: &[f32]) -> [Vec<f32>; 3] {
        let (heads, width) = (self.heads, self.width);
        let [query, x, bias] = kept.inputs;
        let mut by_query = vec![0.0; query.len()];
        let mut by_scores = kept.saved.clone();
        let columns = heads * width;
        self.by_targets((&mut by_query, columns), &mut by_scores, |first, query, mut scores| {
            for (target, query) in (first..).zip(query.chunks_exact_mut(columns)) {
                let count = self.samples.by_target().rows(target).len() * heads;
                let (own, rest) = scores.split_at_mut(count);
                self.by_scores(target, (x, gradient), query, own);
                scores = rest;
            }
        });
        let mut by_x = vec![0.0; x.len()];
        let targets = self.samples.by_target().of_row();
        self.team.share_rows(&mut by_x, width, |first, rows| {
            for (number, row) in (first..).zip(rows.chunks_exact_mut(width)) {
                for &pair in self.samples.by_row().rows(number) {
                    let (pair, target) = (pair as usize, targets[pair as usize] as usize);
                    for head in 0..heads {
                        let at = pair * heads + head;
                        let query = &query[target * columns + head * width..][..width];
                        add_scaled(row, by_scores[at] * self.scale, query);
                        let read = &gradient[target * self.columns() + head * width..][..width];
                        add_scaled(row, kept.saved[at] * self.factor(pair, head), read);
                    }
                }
            }
        });
        let mut by_bias = vec![0.0; bias.len()];
        for (hop, row) in by_bias.chunks_exact_mut(heads).enumerate() {
            let pairs = self.samples.by_hop().rows(hop);
            for (head, by) in row.iter_mut().enumerate() {
                let each =
                    pairs.iter().map(|&pair| f64::from(by_scores[pair as usize * heads + head]));
                *by = each.sum::<f64>() as f32;
            }
        }
        [by_query, by_x, by_bias]
    }
}

/// Softmax of every `step`-th number from `first` on.
fn softmax(scores: &mut [f32], first: usize, step: usize) {
    let own = || (first..scores.len()).step_by(step);
    let largest = own().map(|i| scores[i]).fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for i in (first..scores.len()).step_by(step) {
        scores[i] = (scores[i] - largest).exp();
        sum += scores[i];
    }
    for i in (first..scores.len()).step_by(step) {
        scores[i] /= sum;
    }
}

#[cfg(test)]
mod tests {
    use super::super::differences::{check, random, two_threads};
    use super::*;
    use crate::nn::samples::Sampled;
    use crate::rng::Seed;

    /// Targets with few rows, with many, with themselves alone, and with none.
    fn samples() -> Arc<Samples> {
        let mut stream = Seed(4).stream("samples", 0, 0);
        let mut pairs = Vec::new();
        for (target, count) in [(0, 3), (1, 0), (3, 9), (4, 1)] {
            pairs.push(Sampled { target, row: target, hop: 0 });
            for _ in 0..count {
                let [row, hop] = [9, 2].map(|most| stream.below(most) as u32);
                pairs.push(Sampled { target, row, hop: hop + 1 });
            }
        }
        Arc::new(Samples::new([5, 9, 2], pairs))
    }

    #[test]
    fn it_has_its_derivatives() {
        for (heads, width, rate) in [(1, 4, 0.0), (2, 9, 0.3), (3, 8, 0.3)] {
            let coins = (rate > 0.0).then(|| Seed(1).coins("test", 0, 0, rate));
            let (samples, team) = (samples(), two_threads());
            let kernel = Attend { samples, heads, width, scale: 0.7, coins, team };
            let inputs = [(5 * heads * width, 1), (9 * width, 2), (3 * heads, 3)];
            check(&kernel, &inputs.map(|(count, seed)| random(count, [-1.0, 1.0], seed)));
        }
    }

    #[test]
    fn more_targets_than_a_block() {
        let team = two_threads();
        let pairs = (0..100).map(|target| Sampled { target, row: 99 - target, hop: 0 }).collect();
        let samples = Arc::new(Samples::new([100, 100, 0], pairs));
        let kernel = Attend { samples, heads: 2, width: 3, scale: 1.0, coins: None, team };
        let x = random(300, [-1.0, 1.0], 5);
        let (y, weights) = kernel.forward([&random(600, [-1.0, 1.0], 6), &x, &[0.0, 0.0]]);
        assert!(weights.iter().all(|&weight| weight == 1.0));
        for (target, y) in y.chunks_exact(8).enumerate() {
            let row = &x[(99 - target) * 3..][..3];
            assert_eq!(y, [row, row, &[1.0, 1.0]].concat());
        }
    }
}
