//! Softmax attention inside every graph of a ragged batch, with a bias per pair and head.
//!
//! For nodes i, j of one graph and head h with width w,
//!
//! ```text
//! s_ij = q_i · k_j / √w + b_h[code_ij]     p_i = softmax(s_i)     y_i = Σ_j m_ij p_ij v_j
//! ```
//!
//! where m are the factors of dropout. There is no padding, the bias is looked up in a table of distinct
//! codes, and its derivative is a histogram over codes. The kernel walks graph by graph and head by
//! head, so everything it touches fits the cache for graphs of the usual size; it keeps the weights p
//! (one number per pair and head) for the backward pass. Graphs are in sixteen parts, whatever the number of threads: each has a
//! histogram of its own.

use std::ops::Range;
use std::sync::Arc;

use burn::tensor::{Tensor, activation};

use super::pairs::pieces;
use super::{Kept, Operation, apply};
use crate::nn::fused::Team;
use crate::nn::pass::{Pass, positions, values, vector};
use crate::simd::add_scaled;

/// All ordered pairs of nodes inside every graph: row by row, graph after graph.
#[derive(Debug, PartialEq, Eq)]
pub struct Pairs {
    /// Offsets of graphs among nodes.
    nodes: Vec<usize>,
    /// Offsets of graphs among pairs.
    starts: Vec<usize>,
    /// The row of the bias table for every pair; none if there is no bias.
    codes: Option<Vec<u32>>,
}

impl Pairs {
    /// The pairs of graphs with these offsets among nodes.
    ///
    /// # Panics
    /// If there are codes, but not one for every pair.
    pub fn new(nodes: Vec<usize>, codes: Option<Vec<u32>>) -> Arc<Pairs> {
        let mut starts = vec![0];
        for pair in nodes.windows(2) {
            starts.push(starts[starts.len() - 1] + (pair[1] - pair[0]).pow(2));
        }
        let pairs = starts[starts.len() - 1];
        assert!(codes.as_ref().is_none_or(|codes| codes.len() == pairs), "a code for every pair");
        Arc::new(Pairs { nodes, starts, codes })
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.starts[self.starts.len() - 1]
    }

    /// Whether there is no pair.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows of the bias table, pair by pair.
    pub fn codes(&self) -> Option<&[u32]> {
        self.codes.as_deref()
    }

    /// Offsets of graphs among nodes.
    pub(in crate::nn) fn node_offsets(&self) -> &[usize] {
        &self.nodes
    }

    /// Offsets of graphs among pairs.
    pub(in crate::nn) fn pair_offsets(&self) -> &[usize] {
        &self.starts
    }

    /// For every graph, its nodes and its pairs.
    pub(in crate::nn) fn graphs(&self) -> impl Iterator<Item = (Range<usize>, Range<usize>)> + '_ {
        let ranges = |offsets: &[usize]| offsets[0]..offsets[1];
        self.nodes.windows(2).map(ranges).zip(self.starts.windows(2).map(ranges))
    }
}

/// Queries, keys and values, each `[nodes, heads × width]`.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// What nodes ask.
    pub query: Tensor<2>,
    /// What nodes are found by.
    pub key: Tensor<2>,
    /// What nodes give.
    pub value: Tensor<2>,
}

/// Attention output `[nodes, heads × width]`. `table` is the bias `[codes, heads]`, `mask` the factors
/// of dropout, graph by graph, head by head, row by row. Traced under `name`, as `[pairs, heads]`.
///
/// # Panics
/// If heads do not share the width equally, there is a table but no codes or a code beyond it, or the mask
/// has not one factor for every pair and head.
pub fn attention(
    pass: &Pass,
    pairs: &Arc<Pairs>,
    heads: usize,
    inputs: Inputs,
    table: Option<Tensor<2>>,
    mask: Option<Vec<f32>>,
    name: impl Fn() -> String,
) -> Tensor<2> {
    let Inputs { query, key, value } = inputs;
    let width = query.dims()[1];
    assert!(width.is_multiple_of(heads), "heads share the width");
    assert!(table.is_none() || pairs.codes().is_some(), "a bias needs codes");
    assert!(
        mask.as_ref().is_none_or(|mask| mask.len() == pairs.len() * heads),
        "a factor for each"
    );
    let (pairs_of, team) = (pairs.clone(), pass.team().clone());
    let kernel = Attention { pairs: pairs_of, heads, width, mask, biased: table.is_some(), team };
    let table = table.unwrap_or_else(|| Tensor::zeros([1, heads], pass.device()));
    if pass.is_traced() {
        let inputs = [&query, &key, &value, &table].map(|tensor| values(tensor.clone().detach()));
        let (_, weights) = kernel.forward(inputs.each_ref().map(|values| &values[..]));
        pass.record_values(name(), [pairs.len(), heads], kernel.by_pair(&weights));
    }
    if pass.is_composed() {
        return kernel.composed(pass, [query, key, value, table]);
    }
    let kernel = Arc::new(kernel);
    apply(&kernel, [query, key, value, table])
        .unwrap_or_else(|inputs| kernel.composed(pass, inputs))
}

#[derive(Debug)]
struct Attention {
    pairs: Arc<Pairs>,
    heads: usize,
    /// Of all heads together.
    width: usize,
    mask: Option<Vec<f32>>,
    biased: bool,
    team: Arc<Team>,
}

/// Parts that graphs are shared out in.
const PARTS: usize = 16;

/// Some graphs in a row.
struct Part {
    graphs: Range<usize>,
    /// All their nodes.
    nodes: Range<usize>,
    /// All their pairs.
    pairs: Range<usize>,
}

/// One graph and head: what the kernel works on at a time.
struct Block {
    nodes: Range<usize>,
    head: usize,
    /// Columns of this head.
    columns: Range<usize>,
    /// Where its weights are, `[nodes, nodes]`.
    weights: Range<usize>,
    /// Where its codes are.
    codes: Range<usize>,
}

impl Attention {
    fn parts(&self) -> Vec<Part> {
        let count = self.pairs.nodes.len() - 1;
        let each = count.div_ceil(PARTS).max(1);
        let part = |first: usize| {
            let graphs = first..count.min(first + each);
            let of = |offsets: &[usize]| offsets[graphs.start]..offsets[graphs.end];
            Part { nodes: of(&self.pairs.nodes), pairs: of(&self.pairs.starts), graphs }
        };
        (0..count).step_by(each).map(part).collect()
    }

    /// Graphs of a part, head by head.
    fn blocks(&self, graphs: Range<usize>) -> impl Iterator<Item = Block> + '_ {
        let width = self.width / self.heads;
        let some = self.pairs.graphs().skip(graphs.start).take(graphs.len());
        some.flat_map(move |(nodes, codes)| {
            (0..self.heads).map(move |head| {
                let start = codes.start * self.heads + head * codes.len();
                Block {
                    nodes: nodes.clone(),
                    head,
                    columns: head * width..(head + 1) * width,
                    weights: start..start + codes.len(),
                    codes: codes.clone(),
                }
            })
        })
    }

    fn scale(&self) -> f32 {
        1.0 / ((self.width / self.heads) as f32).sqrt()
    }

    /// Weights with the head as the last axis.
    fn by_pair(&self, weights: &[f32]) -> Vec<f32> {
        let mut by_pair = vec![0.0; weights.len()];
        for block in self.blocks(0..self.pairs.nodes.len() - 1) {
            for (&weight, pair) in weights[block.weights].iter().zip(block.codes) {
                by_pair[pair * self.heads + block.head] = weight;
            }
        }
        by_pair
    }

    /// The same of tensor operations, graph by graph.
    fn composed(&self, pass: &Pass, [query, key, value, table]: [Tensor<2>; 4]) -> Tensor<2> {
        let (heads, width) = (self.heads, self.width / self.heads);
        let outputs = self.pairs.graphs().map(|(nodes, pairs)| {
            let size = nodes.len();
            let part = |tensor: &Tensor<2>| -> Tensor<3> {
                let rows = tensor.clone().slice_dim(0, nodes.clone());
                rows.reshape([size, heads, width]).swap_dims(0, 1) // [heads, size, width]
            };
            let scores = part(&query).matmul(part(&key).swap_dims(1, 2)).mul_scalar(self.scale());
            let scores = match &self.pairs.codes {
                Some(codes) if self.biased => {
                    let codes = codes[pairs.clone()].iter().map(|&code| i64::from(code));
                    let codes = positions(codes.collect(), pass.device());
                    let bias = table.clone().select(0, codes); // [size², heads]
                    scores + bias.swap_dims(0, 1).reshape([heads, size, size])
                }
                _ => scores,
            };
            let weights = activation::softmax(scores, 2);
            let weights = match &self.mask {
                Some(mask) => {
                    let mask = mask[pairs.start * heads..pairs.end * heads].to_vec();
                    weights * vector(mask, pass.device()).reshape([heads, size, size])
                }
                None => weights,
            };
            weights.matmul(part(&value)).swap_dims(0, 1).reshape([size, heads * width])
        });
        Tensor::cat(outputs.collect(), 0)
    }
}

impl Operation<4> for Attention {
    type Saved = Vec<f32>;

    fn shape(&self, shapes: [[usize; 2]; 4]) -> [usize; 2] {
        shapes[2]
    }

    fn forward(&self, [query, key, value, table]: [&[f32]; 4]) -> (Vec<f32>, Vec<f32>) {
        let mut output = vec![0.0; value.len()];
        let mut weights = vec![0.0; self.pairs.len() * self.heads];
        let parts = self.parts();
        let outputs = pieces(&mut output, parts.iter().map(|part| part.nodes.clone()), self.width);
        let own = pieces(&mut weights, parts.iter().map(|part| part.pairs.clone()), self.heads);
        let work = parts.iter().zip(outputs).zip(own);
        self.team.each(work, |((part, output), weights)| {
            self.forward_part(part, [query, key, value, table], output, weights);
        });
        (output, weights)
    }

    fn backward(&self, kept: Kept<'_, Vec<f32>, 4>, gradient: &[f32]) -> [Vec<f32>; 4] {
        let mut by = kept.inputs.map(|input| vec![0.0; input.len()]);
        let parts = self.parts();
        // Many pairs share a code.
        let mut tables = vec![vec![0f64; kept.inputs[3].len()]; parts.len()];
        let [by_query, by_key, by_value, by_table] = &mut by;
        let nodes = || parts.iter().map(|part| part.nodes.clone());
        let rows = [by_query, by_key, by_value].map(|by| pieces(by, nodes(), self.width));
        let [by_query, by_key, by_value] = rows;
        let work = parts.iter().zip(by_query).zip(by_key).zip(by_value).zip(&mut tables);
        self.team.each(work, |((((part, by_query), by_key), by_value), table)| {
            self.backward_part(part, &kept, gradient, [by_query, by_key, by_value], table);
        });
        for (place, by) in by_table.iter_mut().enumerate() {
            *by = tables.iter().map(|table| table[place]).sum::<f64>() as f32;
        }
        by
    }
}

impl Attention {
    fn forward_part(
        &self,
        part: &Part,
        [query, key, value, table]: [&[f32]; 4],
        output: &mut [f32],
        weights: &mut [f32],
    ) {
        let mut keys = Vec::new();
        for block in self.blocks(part.graphs.clone()) {
            let size = block.nodes.len();
            let row = |node: usize| {
                let start = (block.nodes.start + node) * self.width;
                start + block.columns.start..start + block.columns.end
            };
            transpose(key, (0..size).map(row), &mut keys);
            let first = block.weights.start - part.pairs.start * self.heads;
            for i in 0..size {
                let weights = &mut weights[first + i * size..][..size];
                for (c, &q) in query[row(i)].iter().enumerate() {
                    add_scaled(weights, q * self.scale(), &keys[c * size..][..size]);
                }
                if let Some(codes) = self.pairs.codes().filter(|_| self.biased) {
                    let codes = &codes[block.codes.clone()][i * size..][..size];
                    for (weight, &code) in weights.iter_mut().zip(codes) {
                        *weight += table[code as usize * self.heads + block.head];
                    }
                }
                softmax(weights);
                let output = &mut output[part.own(row(i), self.width)];
                for (j, &weight) in weights.iter().enumerate() {
                    let factor = self.factor(&block, i * size + j);
                    add_scaled(output, weight * factor, &value[row(j)]);
                }
            }
        }
    }

    fn backward_part(
        &self,
        part: &Part,
        Kept { inputs: [query, key, value, _], saved: weights, .. }: &Kept<'_, Vec<f32>, 4>,
        gradient: &[f32],
        [by_query, by_key, by_value]: [&mut [f32]; 3],
        by_table: &mut [f64],
    ) {
        let (mut values, mut by_score) = (Vec::new(), Vec::new());
        for block in self.blocks(part.graphs.clone()) {
            let own = |row: Range<usize>| part.own(row, self.width);
            let size = block.nodes.len();
            let row = |node: usize| {
                let start = (block.nodes.start + node) * self.width;
                start + block.columns.start..start + block.columns.end
            };
            transpose(value, (0..size).map(row), &mut values);
            for i in 0..size {
                let weights = &weights[block.weights.clone()][i * size..][..size];
                by_score.clear();
                by_score.resize(size, 0.0);
                for (c, &g) in gradient[row(i)].iter().enumerate() {
                    add_scaled(&mut by_score, g, &values[c * size..][..size]);
                }
                for (j, (by_score, &weight)) in by_score.iter_mut().zip(weights).enumerate() {
                    let factor = self.factor(&block, i * size + j);
                    add_scaled(&mut by_value[own(row(j))], weight * factor, &gradient[row(i)]);
                    *by_score *= factor;
                }
                let mean: f32 = weights.iter().zip(&by_score).map(|(p, g)| p * g).sum();
                for (by_score, &weight) in by_score.iter_mut().zip(weights) {
                    *by_score = weight * (*by_score - mean);
                }
                if let Some(codes) = self.pairs.codes().filter(|_| self.biased) {
                    let codes = &codes[block.codes.clone()][i * size..][..size];
                    for (&by_score, &code) in by_score.iter().zip(codes) {
                        by_table[code as usize * self.heads + block.head] += f64::from(by_score);
                    }
                }
                for (j, &by_score) in by_score.iter().enumerate() {
                    let by_score = by_score * self.scale();
                    add_scaled(&mut by_query[own(row(i))], by_score, &key[row(j)]);
                    add_scaled(&mut by_key[own(row(j))], by_score, &query[row(i)]);
                }
            }
        }
    }

    /// The factor of dropout for a pair of the block.
    fn factor(&self, block: &Block, pair: usize) -> f32 {
        self.mask.as_ref().map_or(1.0, |mask| mask[block.weights.start + pair])
    }
}

impl Part {
    /// Where numbers of a row lie among those of this part.
    fn own(&self, row: Range<usize>, width: usize) -> Range<usize> {
        row.start - self.nodes.start * width..row.end - self.nodes.start * width
    }
}

/// Rows at the given places as columns, `[width, rows]`.
pub(super) fn transpose(
    matrix: &[f32],
    rows: impl ExactSizeIterator<Item = Range<usize>>,
    columns: &mut Vec<f32>,
) {
    let count = rows.len();
    for (r, row) in rows.enumerate() {
        columns.resize(row.len() * count, 0.0);
        for (c, &value) in matrix[row].iter().enumerate() {
            columns[c * count + r] = value;
        }
    }
}

/// Softmax in place; the largest is taken off first, so that nothing overflows.
fn softmax(scores: &mut [f32]) {
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for score in &mut *scores {
        *score = (*score - largest).exp();
        sum += *score;
    }
    for score in scores {
        *score /= sum;
    }
}
