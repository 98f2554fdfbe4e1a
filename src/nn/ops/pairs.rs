//! Attention that learns from pairs of nodes: the two kernels of [`GRIT`](crate::nn::grit).
//!
//! [`seen`] makes ê of what nodes and pairs say, [`attend`] weighs and adds up. Both walk graph by graph. Of pairs nothing is kept but what goes in and
//! comes out, factors and terms, and one weight for every pair and head:
//!
//! ```text
//! [f_ij, t_ij] = W e_ij + c
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
use super::dense::{BLOCK, Part, add_columns, packed};
use super::rows::add;
use super::{Kept, Operation, PARTS, apply};
use crate::nn::fused::Team;
use crate::nn::fused::product::{Biased, PANEL, Store};
use crate::nn::fused::weights::Slot;
use crate::nn::pass::Pass;
use crate::simd::{Kernel, Simd, Vector, WIDTH, add_scaled, dot};

/// Scores are cut off here, before the bias.
pub const CLAMP: f32 = 5.0;
/// What keeps a sum of weights from 0.
pub const TINY: f32 = 1e-16;

/// ê: queries and keys `[nodes, dim]`, states of pairs `[pairs, inputs]`, the map of these to factors and then terms `[2 dim, inputs]` and its
/// bias `[1, 2 dim]` → `[pairs, dim]`. None where kernels can't be used.
pub fn seen(pass: &Pass, pairs: &Arc<Pairs>, inputs: [Tensor<2>; 5]) -> Option<Tensor<2>> {
    let (width, own) = (inputs[0].dims()[1], inputs[2].dims()[1]);
    let fits = [2 * width, own].iter().all(|count| count.is_multiple_of(PANEL));
    if pass.is_composed() || !fits {
        return None;
    }
    let (pairs, simd, team) = (pairs.clone(), pass.simd(), pass.team().clone());
    apply(&Arc::new(Seen { pairs, width, inputs: own, simd, team }), inputs).ok()
}

#[derive(Debug)]
struct Seen {
    pairs: Arc<Pairs>,
    width: usize,
    /// Numbers of the state of a pair.
    inputs: usize,
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

impl Operation<5> for Seen {
    /// Factors and terms of all pairs.
    type Saved = Vec<f32>;

    fn shape(&self, shapes: [[usize; 2]; 5]) -> [usize; 2] {
        [shapes[2][0], self.width]
    }

    fn forward(&self, [query, key, e, weight, bias]: [&[f32]; 5]) -> (Vec<f32>, Vec<f32>) {
        let Seen { width, inputs, simd, .. } = *self;
        let map = packed(weight, bias, inputs, false);
        let room = |(_, pairs): &Graph| [pairs.len() * width, pairs.len() * 2 * width];
        let [seen, made] = self.team.make_all(self.pairs.graphs(), room, |graph, fresh| {
            let (nodes, pairs) = graph;
            for first in pairs.clone().step_by(BLOCK) {
                let count = BLOCK.min(pairs.end - first);
                let [seen, made] = fresh;
                let (seen, made) = (seen.next(count * width), made.next(count * 2 * width));
                let e = &e[first * inputs..][..count * inputs];
                let stride = 2 * width;
                let out = Biased { out: &mut *made, stride, bias: map.bias() };
                map.forward(simd, count, e, inputs, out);
                let block = Block { nodes: nodes.clone(), first: first - pairs.start, width };
                simd.run(SeenForward { block, ends: [query, key], made, seen });
            }
        });
        (seen, made)
    }

    fn backward(&self, kept: Kept<'_, Vec<f32>, 5>, gradient: &[f32]) -> [Vec<f32>; 5] {
        let Seen { width, inputs, simd, .. } = *self;
        let [query, key, e, weight, bias] = kept.inputs;
        let map = packed(weight, &[], inputs, true);
        let [mut by_query, mut by_key] = [query, key].map(|ends| vec![0.0; ends.len()]);
        let nodes = || self.pairs.graphs().map(|graph| graph.0);
        let ends = pieces(&mut by_query, nodes(), width).into_iter();
        let ends = ends.zip(pieces(&mut by_key, nodes(), width));
        let mut graphs: Vec<_> = self.pairs.graphs().zip(ends).collect();
        // Graphs differ more in size than rows do: smaller parts are shared out more evenly.
        let each = graphs.len().div_ceil(4 * PARTS).max(1);
        let sizes = [weight.len(), bias.len(), 0];
        let parts = graphs.chunks_mut(each).map(|graphs| (graphs, Part::new(0, 0, sizes)));
        let mut parts: Vec<_> = parts.collect();
        let room = |(graphs, _): &&mut (&mut [(Graph, _)], Part)| {
            graphs.iter().map(|((_, pairs), _)| pairs.len() * inputs).sum()
        };
        let by_e = self.team.make(&mut parts, room, |(graphs, part), by_e| {
            let mut by_made = vec![0.0; BLOCK * 2 * width];
            for ((nodes, pairs), (by_query, by_key)) in graphs.iter_mut() {
                for first in pairs.clone().step_by(BLOCK) {
                    let count = BLOCK.min(pairs.end - first);
                    let by_made = &mut by_made[..count * 2 * width];
                    let block = Block { nodes: nodes.clone(), first: first - pairs.start, width };
                    simd.run(SeenBackward {
                        block,
                        ends: [query, key],
                        made: &kept.saved[first * 2 * width..][..count * 2 * width],
                        gradient: &gradient[first * width..][..count * width],
                        by_ends: [by_query, by_key],
                        by_made,
                    });
                    add_columns(simd, by_made, &mut part.by_bias);
                    let slot = Slot { numbers: &mut part.gradient, start: 0, add: true };
                    let e = &e[first * inputs..][..count * inputs];
                    map.gradient(simd, count, by_made, e, inputs, slot);
                    let out = by_e.next(count * inputs);
                    map.backward(simd, count, by_made, Store::new(out, inputs));
                }
            }
        });
        let (mut by_weight, mut by_bias) = (vec![0.0; weight.len()], vec![0.0; bias.len()]);
        for (_, part) in &parts {
            add(&mut by_weight, &part.gradient);
            by_bias.iter_mut().zip(&part.by_bias).for_each(|(sum, own)| *sum += own);
        }
        let by_bias = by_bias.into_iter().map(|sum: f64| sum as f32).collect();
        [by_query, by_key, by_e, by_weight, by_bias]
    }
}

/// Pairs of a graph with these nodes, from the first one on.
struct Block {
    nodes: Range<usize>,
    first: usize,
    width: usize,
}

impl Block {
    /// The nodes of a pair, counted in the graph.
    #[inline(always)]
    fn ends(&self, pair: usize) -> [usize; 2] {
        let size = self.nodes.len();
        [(self.first + pair) / size, (self.first + pair) % size]
    }

    /// Their rows among those of all nodes.
    #[inline(always)]
    fn rows<'a>(&self, [query, key]: [&'a [f32]; 2], [i, j]: [usize; 2]) -> [&'a [f32]; 2] {
        let row = |node: usize| (self.nodes.start + node) * self.width..;
        [&query[row(i)][..self.width], &key[row(j)][..self.width]]
    }
}

struct SeenForward<'a> {
    block: Block,
    /// Queries and keys.
    ends: [&'a [f32]; 2],
    made: &'a [f32],
    seen: &'a mut [f32],
}

impl Kernel for SeenForward<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let SeenForward { block, ends, made, seen } = self;
        let width = block.width;
        let rows = made.chunks_exact(2 * width).zip(seen.chunks_exact_mut(width));
        for (pair, (made, seen)) in rows.enumerate() {
            let [query, key] = block.rows(ends, block.ends(pair));
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
    block: Block,
    ends: [&'a [f32]; 2],
    made: &'a [f32],
    gradient: &'a [f32],
    /// Of the nodes of the graph.
    by_ends: [&'a mut [f32]; 2],
    by_made: &'a mut [f32],
}

impl Kernel for SeenBackward<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let SeenBackward { block, ends, made, gradient, by_ends, by_made } = self;
        let [by_query, by_key] = by_ends;
        let width = block.width;
        let rows = made.chunks_exact(2 * width).zip(gradient.chunks_exact(width));
        let rows = rows.zip(by_made.chunks_exact_mut(2 * width));
        for (pair, ((made, dy), by_made)) in rows.enumerate() {
            let [i, j] = block.ends(pair);
            let [query, key] = block.rows(ends, [i, j]);
            let (factors, terms) = made.split_at(width);
            let (by_factors, by_terms) = by_made.split_at_mut(width);
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
            for width in [8, 16] {
                let (pairs, inputs) = (Pairs::new(NODES.to_vec(), None), PANEL);
                let [query, key] = [1, 2].map(|seed| random(8 * width, [0.5, 1.5], seed));
                // Away from the kinks: states and weights of factors are positive, terms beyond any root.
                let e = random(PAIRS * inputs, [0.5, 1.0], 3);
                let sign = |row: usize| if row.is_multiple_of(3) { -1.0 } else { 1.0 };
                let weight = random(2 * width * inputs, [0.02, 0.05], 4).into_iter().enumerate();
                let weight = weight.map(|(place, weight)| sign(place / inputs) * weight);
                let bias =
                    (0..2 * width).map(|row| if row < width { 0.0 } else { 3.0 * sign(row) });
                let numbers = [query, key, e, weight.collect(), bias.collect()];
                let team = team.clone();
                check(&Seen { pairs, width, inputs, simd, team }, &numbers);
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
