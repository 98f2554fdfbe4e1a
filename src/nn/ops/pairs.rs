//! Attention that learns from pairs of nodes: the two kernels of [`GRIT`](crate::nn::grit).
//!
//! [`seen`] makes ê of what nodes and pairs say, [`attend`] weighs and adds up. Both walk graph by graph. Of pairs nothing is kept but what goes in and
//! comes out, and one weight for every pair and head:
//!
//! ```text
//! s = (q_i + k_j) ∘ f_ij                      ê_ij = relu(√s⁺ − √s⁻ + t_ij)
//! p_i = softmax_j(clamp(a · ê_ij, ±5) + b)     y_i = [Σ_j m_ij p_ij v_j, Σ_j m_ij p_ij ê_ij]
//! ```
//!
//! with m the factors of dropout. The derivative of √ at 0 is taken as 0. Sums over graphs, which are those of a and of the bias b, are in double
//! precision and in the order of graphs.

use std::ops::Range;
use std::sync::Arc;

use burn::tensor::Tensor;

use super::attention::Pairs;
use super::{Kept, Operation, apply};
use crate::nn::fused::Team;
use crate::nn::pass::Pass;
use crate::simd::{Kernel, Simd, Vector, WIDTH, add_scaled, dot};

/// Scores are cut off here, before the bias.
pub const CLAMP: f32 = 5.0;
/// What keeps a sum of weights from 0.
pub const TINY: f32 = 1e-16;

/// ê: queries and keys `[nodes, dim]`, factors and then terms of pairs `[pairs, 2 dim]` → `[pairs, dim]`. None where kernels can't be used.
pub fn seen(pass: &Pass, pairs: &Arc<Pairs>, inputs: [Tensor<2>; 3]) -> Option<Tensor<2>> {
    if pass.is_composed() {
        return None;
    }
    let width = inputs[0].dims()[1];
    let kernel = Seen { pairs: pairs.clone(), width, simd: pass.simd(), team: pass.team().clone() };
    apply(&Arc::new(kernel), inputs).ok()
}

#[derive(Debug)]
struct Seen {
    pairs: Arc<Pairs>,
    width: usize,
    simd: Simd,
    team: Arc<Team>,
}

/// A graph: its nodes and its pairs.
type Graph = (Range<usize>, Range<usize>);

/// Pieces of `numbers`, one for each range, which follow one another; `each` numbers belong to one thing.
pub(super) fn pieces<T>(
    mut numbers: &mut [T],
    ranges: impl Iterator<Item = Range<usize>>,
    each: usize,
) -> Vec<&mut [T]> {
    let mut all = Vec::new();
    for range in ranges {
        let (piece, rest) = std::mem::take(&mut numbers).split_at_mut(range.len() * each);
        all.push(piece);
        numbers = rest;
    }
    all
}

impl Operation<3> for Seen {
    type Saved = ();

    fn shape(&self, shapes: [[usize; 2]; 3]) -> [usize; 2] {
        [shapes[2][0], self.width]
    }

    fn forward(&self, inputs: [&[f32]; 3]) -> (Vec<f32>, ()) {
        let Seen { width, simd, .. } = *self;
        let room = |(_, pairs): &Graph| pairs.len() * width;
        let seen = self.team.make(self.pairs.graphs(), room, |graph, seen| {
            simd.run(SeenForward { graph, width, inputs, seen: seen.rest() });
        });
        (seen, ())
    }

    fn backward(&self, kept: Kept<'_, (), 3>, gradient: &[f32]) -> [Vec<f32>; 3] {
        let Seen { width, simd, .. } = *self;
        let [mut by_query, mut by_key] = [0, 1].map(|input| vec![0.0; kept.inputs[input].len()]);
        let nodes = || self.pairs.graphs().map(|graph| graph.0);
        let ends = pieces(&mut by_query, nodes(), width).into_iter();
        let ends = ends.zip(pieces(&mut by_key, nodes(), width));
        let work = self.pairs.graphs().zip(ends);
        let room = |((_, pairs), _): &(Graph, _)| pairs.len() * 2 * width;
        let by_pair = self.team.make(work, room, |(graph, (by_query, by_key)), by_pair| {
            let by = [by_query, by_key, by_pair.rest()];
            simd.run(SeenBackward { graph, width, inputs: kept.inputs, gradient, by });
        });
        [by_query, by_key, by_pair]
    }
}

struct SeenForward<'a> {
    graph: Graph,
    width: usize,
    inputs: [&'a [f32]; 3],
    seen: &'a mut [f32],
}

impl Kernel for SeenForward<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let SeenForward { graph: (nodes, pairs), width, inputs: [query, key, made], seen } = self;
        let made = &made[pairs.start * 2 * width..pairs.end * 2 * width];
        let size = nodes.len();
        let rows = made.chunks_exact(2 * width).zip(seen.chunks_exact_mut(width));
        for (pair, (made, seen)) in rows.enumerate() {
            let query = &query[(nodes.start + pair / size) * width..][..width];
            let key = &key[(nodes.start + pair % size) * width..][..width];
            let (factors, terms) = made.split_at(width);
            let both = query.iter().zip(key).zip(factors.iter().zip(terms));
            for (seen, ((q, k), (f, t))) in seen.iter_mut().zip(both) {
                let s = (q + k) * f;
                let value = s.abs().sqrt().copysign(s) + t;
                *seen = if value > 0.0 { value } else { 0.0 };
            }
        }
    }
}

struct SeenBackward<'a> {
    graph: Graph,
    width: usize,
    inputs: [&'a [f32]; 3],
    gradient: &'a [f32],
    by: [&'a mut [f32]; 3],
}

impl Kernel for SeenBackward<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let SeenBackward { graph: (nodes, pairs), width, inputs: [query, key, made], gradient, by } =
            self;
        let [by_query, by_key, by_pair] = by;
        let size = nodes.len();
        let made = &made[pairs.start * 2 * width..pairs.end * 2 * width];
        let gradient = &gradient[pairs.start * width..pairs.end * width];
        let rows = made.chunks_exact(2 * width).zip(gradient.chunks_exact(width));
        let rows = rows.zip(by_pair.chunks_exact_mut(2 * width));
        for (pair, ((made, dy), by_pair)) in rows.enumerate() {
            let (i, j) = (pair / size, pair % size);
            let query = &query[(nodes.start + i) * width..][..width];
            let key = &key[(nodes.start + j) * width..][..width];
            let (factors, terms) = made.split_at(width);
            let (by_factors, by_terms) = by_pair.split_at_mut(width);
            let by_query = &mut by_query[i * width..][..width];
            let by_key = &mut by_key[j * width..][..width];
            for c in 0..width {
                let both = query[c] + key[c];
                let s = both * factors[c];
                let root = s.abs().sqrt();
                let dy = if root.copysign(s) + terms[c] > 0.0 { dy[c] } else { 0.0 };
                let ds = if root > 0.0 { dy * 0.5 / root } else { 0.0 };
                by_terms[c] = dy;
                by_factors[c] = ds * both;
                let by_both = ds * factors[c];
                by_query[c] += by_both;
                by_key[c] += by_both;
            }
        }
    }
}

/// What is weighed: ê `[pairs, dim]`, a `[1, dim]`, the bias `[codes, heads]`, values `[nodes, dim]` → `[nodes, 2 dim]`, what nodes and what pairs
/// gave. `mask` has the factors of dropout of every pair and head. None where kernels can't be used.
pub fn attend(
    pass: &Pass,
    pairs: &Arc<Pairs>,
    heads: usize,
    inputs: [Tensor<2>; 4],
    biased: bool,
    mask: Option<Vec<f32>>,
) -> Option<Tensor<2>> {
    if pass.is_composed() || pass.is_traced() {
        return None;
    }
    let width = inputs[0].dims()[1];
    let (simd, team) = (pass.simd(), pass.team().clone());
    let kernel = Attend { pairs: pairs.clone(), heads, width, biased, mask, simd, team };
    apply(&Arc::new(kernel), inputs).ok()
}

#[derive(Debug)]
struct Attend {
    pairs: Arc<Pairs>,
    heads: usize,
    width: usize,
    biased: bool,
    mask: Option<Vec<f32>>,
    simd: Simd,
    team: Arc<Team>,
}

impl Operation<4> for Attend {
    /// Weights `[pairs, heads]`.
    type Saved = Vec<f32>;

    fn shape(&self, shapes: [[usize; 2]; 4]) -> [usize; 2] {
        [shapes[3][0], 2 * self.width]
    }

    fn forward(&self, inputs: [&[f32]; 4]) -> (Vec<f32>, Vec<f32>) {
        let mut y = vec![0.0; inputs[3].len() * 2];
        let mut weights = vec![0.0; self.pairs.len() * self.heads];
        let rows = pieces(&mut y, self.pairs.graphs().map(|graph| graph.0), 2 * self.width);
        let own = pieces(&mut weights, self.pairs.graphs().map(|graph| graph.1), self.heads);
        self.team.each(self.pairs.graphs().zip(rows).zip(own), |((graph, y), weights)| {
            self.simd.run(AttendForward { of: self, graph, inputs, y, weights });
        });
        (y, weights)
    }

    fn backward(&self, kept: Kept<'_, Vec<f32>, 4>, gradient: &[f32]) -> [Vec<f32>; 4] {
        let [_, score, table, value] = kept.inputs;
        let mut by_value = vec![0.0; value.len()];
        let graphs: Vec<Graph> = self.pairs.graphs().collect();
        let mut sums = vec![vec![0.0; score.len() + table.len()]; graphs.len()];
        let value_pieces =
            pieces(&mut by_value, graphs.iter().map(|graph| graph.0.clone()), self.width);
        let work = graphs.iter().cloned().zip(value_pieces).zip(&mut sums);
        let room = |(((_, pairs), _), _): &((Graph, _), _)| pairs.len() * self.width;
        let by_seen = self.team.make(work, room, |((graph, by_value), sums), by_seen| {
            let (kept, by_seen) = ((kept.inputs, &kept.saved[..]), by_seen.rest());
            let of = self;
            self.simd.run(AttendBackward { of, graph, kept, gradient, by_seen, by_value, sums });
        });
        let mut total = vec![0.0; score.len() + table.len()];
        for own in &sums {
            total.iter_mut().zip(own).for_each(|(sum, own): (&mut f64, &f64)| *sum += own);
        }
        let single = |sums: &[f64]| sums.iter().map(|&sum| sum as f32).collect();
        [by_seen, single(&total[..score.len()]), single(&total[score.len()..]), by_value]
    }
}

/// a · ê of every head.
#[inline(always)]
fn dots(seen: &[f32], score: &[f32], dots: &mut [f32]) {
    let own = seen.len() / dots.len();
    let heads = seen.chunks_exact(own).zip(score.chunks_exact(own));
    for (place, (seen, score)) in dots.iter_mut().zip(heads) {
        *place = dot(seen, score);
    }
}

/// eˣ of all numbers, in place.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
unsafe fn raise<V: Vector>(numbers: &mut [f32]) {
    let mut chunks = numbers.chunks_exact_mut(WIDTH);
    // SAFETY: chunks of eight numbers.
    unsafe {
        for chunk in &mut chunks {
            V::load(chunk.as_ptr()).exp().store(chunk.as_mut_ptr());
        }
        let rest = chunks.into_remainder();
        let mut last = [0.0; WIDTH];
        last[..rest.len()].copy_from_slice(rest);
        let last = V::load(last.as_ptr()).exp().to_array();
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

struct AttendForward<'a> {
    of: &'a Attend,
    graph: Graph,
    inputs: [&'a [f32]; 4],
    y: &'a mut [f32],
    weights: &'a mut [f32],
}

impl Kernel for AttendForward<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let AttendForward {
            of,
            graph: (nodes, pairs),
            inputs: [seen, score, table, value],
            y,
            weights,
        } = self;
        let Attend { heads, width, biased, ref mask, .. } = *of;
        let (size, own) = (nodes.len(), width / heads);
        let (mut largest, mut total) = (vec![0.0f32; heads], vec![0.0f32; heads]);
        for (i, y) in y.chunks_exact_mut(2 * width).enumerate() {
            let first = pairs.start + i * size;
            let weights = &mut weights[i * size * heads..][..size * heads];
            for (j, scores) in weights.chunks_exact_mut(heads).enumerate() {
                let seen = &seen[(first + j) * width..][..width];
                dots(seen, score, scores);
                scores.iter_mut().for_each(|score| *score = score.clamp(-CLAMP, CLAMP));
                if biased && let Some(codes) = of.pairs.codes() {
                    let bias = &table[codes[first + j] as usize * heads..][..heads];
                    scores.iter_mut().zip(bias).for_each(|(score, bias)| *score += bias);
                }
            }
            largest.fill(f32::NEG_INFINITY);
            total.fill(0.0);
            for scores in weights.chunks_exact(heads) {
                largest.iter_mut().zip(scores).for_each(|(most, &score)| *most = most.max(score));
            }
            for scores in weights.chunks_exact_mut(heads) {
                scores.iter_mut().zip(&largest).for_each(|(score, most)| *score -= most);
            }
            // SAFETY: the instructions are there, by contract.
            unsafe { raise::<V>(weights) };
            for powers in weights.chunks_exact(heads) {
                total.iter_mut().zip(powers).for_each(|(total, power)| *total += power);
            }
            let (of_nodes, of_pairs) = y.split_at_mut(width);
            for (j, weights) in weights.chunks_exact_mut(heads).enumerate() {
                weights.iter_mut().zip(&total).for_each(|(weight, total)| *weight /= total + TINY);
                let value = &value[(nodes.start + j) * width..][..width];
                let seen = &seen[(first + j) * width..][..width];
                for (head, weight) in weights.iter().enumerate() {
                    let factor = mask.as_ref().map_or(1.0, |mask| mask[(first + j) * heads + head]);
                    let weight = weight * factor;
                    let columns = || head * own..(head + 1) * own;
                    add_scaled(&mut of_nodes[columns()], weight, &value[columns()]);
                    add_scaled(&mut of_pairs[columns()], weight, &seen[columns()]);
                }
            }
        }
    }
}

struct AttendBackward<'a> {
    of: &'a Attend,
    graph: Graph,
    kept: ([&'a [f32]; 4], &'a [f32]),
    gradient: &'a [f32],
    by_seen: &'a mut [f32],
    by_value: &'a mut [f32],
    /// Derivatives by a, then by the bias.
    sums: &'a mut [f64],
}

impl Kernel for AttendBackward<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let AttendBackward { of, graph: (nodes, pairs), kept, gradient, by_seen, by_value, sums } =
            self;
        let ([seen, score, _, value], weights) = kept;
        let Attend { heads, width, biased, ref mask, .. } = *of;
        let (size, own) = (nodes.len(), width / heads);
        let (by_score, by_table) = sums.split_at_mut(width);
        let (mut by_weight, mut found) = (vec![0.0; size * heads], vec![0.0; heads]);
        let (mut of_row, mut mean) = (vec![0.0; width], vec![0.0f32; heads]);
        for i in 0..size {
            let first = pairs.start + i * size;
            let dy = &gradient[(nodes.start + i) * 2 * width..][..2 * width];
            let (by_nodes, by_pairs) = dy.split_at(width);
            mean.fill(0.0);
            for j in 0..size {
                let (value, seen) = (
                    &value[(nodes.start + j) * width..][..width],
                    &seen[(first + j) * width..][..width],
                );
                let by_value = &mut by_value[j * width..][..width];
                let by_seen = &mut by_seen[(i * size + j) * width..][..width];
                for head in 0..heads {
                    let place = (first + j) * heads + head;
                    let factor = mask.as_ref().map_or(1.0, |mask| mask[place]);
                    let weight = weights[place] * factor;
                    let columns = || head * own..(head + 1) * own;
                    let (by_nodes, by_pairs) = (&by_nodes[columns()], &by_pairs[columns()]);
                    add_scaled(&mut by_value[columns()], weight, by_nodes);
                    add_scaled(&mut by_seen[columns()], weight, by_pairs);
                    let sum = dot(by_nodes, &value[columns()]) + dot(by_pairs, &seen[columns()]);
                    by_weight[j * heads + head] = sum * factor;
                    mean[head] += weights[place] * sum * factor;
                }
            }
            of_row.fill(0.0);
            for j in 0..size {
                let seen = &seen[(first + j) * width..][..width];
                let by_seen = &mut by_seen[(i * size + j) * width..][..width];
                dots(seen, score, &mut found);
                for head in 0..heads {
                    let weight = weights[(first + j) * heads + head];
                    let by_score = weight * (by_weight[j * heads + head] - mean[head]);
                    if biased && let Some(codes) = of.pairs.codes() {
                        by_table[codes[first + j] as usize * heads + head] += f64::from(by_score);
                    }
                    if (-CLAMP..=CLAMP).contains(&found[head]) {
                        let columns = || head * own..(head + 1) * own;
                        add_scaled(&mut by_seen[columns()], by_score, &score[columns()]);
                        add_scaled(&mut of_row[columns()], by_score, &seen[columns()]);
                    }
                }
            }
            by_score
                .iter_mut()
                .zip(&of_row)
                .for_each(|(sum, own): (&mut f64, &f32)| *sum += f64::from(*own));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::differences::{check, random, ways};
    use super::*;

    /// Three graphs of 3, 1 and 4 nodes.
    const NODES: [usize; 4] = [0, 3, 4, 8];
    const PAIRS: usize = 9 + 1 + 16;

    #[test]
    fn what_pairs_see_has_its_derivatives() {
        for (simd, team) in ways() {
            for width in [5, 8, 12] {
                let pairs = Pairs::new(NODES.to_vec(), None);
                let [query, key] = [1, 2].map(|seed| random(8 * width, [0.5, 1.5], seed));
                // Away from the kinks: factors from 0, terms beyond any root.
                let sign = random(PAIRS * 2 * width, [-1.0, 1.0], 3);
                let size = random(PAIRS * 2 * width, [0.5, 1.5], 4);
                let pair = sign.iter().zip(size).enumerate().map(|(i, (sign, size))| {
                    sign.signum() * if i / width % 2 == 0 { size } else { 2.5 + size }
                });
                let inputs = [query, key, pair.collect()];
                check(&Seen { pairs, width, simd, team: team.clone() }, &inputs);
            }
        }
    }

    #[test]
    fn attention_over_pairs_has_its_derivatives() {
        let heads = 2;
        let codes = random(PAIRS, [0.0, 4.0], 5).iter().map(|x| *x as u32).collect::<Vec<u32>>();
        let coins = random(PAIRS * heads, [0.0, 2.0], 6);
        let mask: Vec<f32> = coins.iter().map(|x| x.floor() * 2.0).collect();
        for (simd, team) in ways() {
            let cases =
                [(10, true, None, 1.0), (16, true, Some(&mask), 1.0), (24, false, None, 3.0)];
            for (width, biased, mask, scale) in cases {
                let pairs = Pairs::new(NODES.to_vec(), biased.then(|| codes.clone()));
                let inputs = [
                    random(PAIRS * width, [0.0, 1.0], 7),
                    random(width, [-scale, scale], 8),
                    random(4 * heads, [-1.0, 1.0], 9),
                    random(8 * width, [-1.0, 1.0], 10),
                ];
                let operation = Attend {
                    pairs,
                    heads,
                    width,
                    biased,
                    mask: mask.cloned(),
                    simd,
                    team: team.clone(),
                };
                check(&operation, &inputs);
            }
        }
    }
}
