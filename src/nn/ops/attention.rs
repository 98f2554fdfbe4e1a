//! Softmax attention inside every graph of a ragged batch, with a bias per pair and head.
//!
//! For nodes i, j of one graph and head h with width w,
//!
//! ```text
//! s_ij = q_i · k_j / √w + b_h[code_ij]     p_i = softmax(s_i)     y_i = Σ_j m_ij p_ij v_j
//! ```
//!
//! where m are the factors of dropout. There is no padding to the largest graph, the bias is looked up in a table of distinct
//! codes, and its derivative is a histogram over codes. The kernel is that of [fused layers](crate::nn::fused): graph by graph and
//! head by head, so everything it touches fits the cache for graphs of the usual size; it keeps the weights p
//! (one number per pair and head) for the backward pass. Graphs are in sixteen parts, whatever the number of threads: each has a
//! histogram of its own.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use burn::tensor::{Tensor, activation};

use super::pairs::pieces;
use super::{Kept, Operation, apply};
use crate::nn::fused::Team;
use crate::nn::fused::attention::{Heads, Scratch, backward, forward};
use crate::nn::fused::lanes::Spans;
use crate::nn::pass::{Pass, positions, values, vector};
use crate::rng::Coins;
use crate::simd::{Simd, padded};

/// All ordered pairs of nodes inside every graph: row by row, graph after graph.
#[derive(Debug, PartialEq, Eq)]
pub struct Pairs {
    /// Offsets of graphs among nodes.
    nodes: Vec<usize>,
    /// Offsets of graphs among pairs.
    starts: Vec<usize>,
    /// The row of the bias table for every pair; none if there is no bias.
    codes: Option<Vec<u32>>,
    /// Made when first asked for.
    parts: OnceLock<Vec<Part>>,
}

/// Some graphs in a row, as the kernel wants them.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    nodes: Range<usize>,
    spans: Spans,
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
        Arc::new(Pairs { nodes, starts, codes, parts: OnceLock::new() })
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

    fn parts(&self) -> &[Part] {
        self.parts.get_or_init(|| {
            let graphs: Vec<_> = self.graphs().filter(|(nodes, _)| !nodes.is_empty()).collect();
            let parts = graphs.chunks(graphs.len().div_ceil(PARTS).max(1)).map(|graphs| {
                let mut spans = Spans::default();
                for (nodes, pairs) in graphs {
                    let codes = self.codes().map(|codes| &codes[pairs.clone()]);
                    spans.add(nodes.len(), pairs.start, codes);
                }
                Part { nodes: graphs[0].0.start..graphs[graphs.len() - 1].0.end, spans }
            });
            parts.collect()
        })
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

/// Attention output `[nodes, heads × width]`. `table` is the bias `[codes, heads]`, `coins` those of dropout, counted
/// graph by graph, head by head, row by row. Traced under `name`, as `[pairs, heads]`.
///
/// # Panics
/// If heads do not share the width equally, or there is a table but no codes or a code beyond it.
pub fn attention(
    pass: &Pass,
    pairs: &Arc<Pairs>,
    heads: usize,
    inputs: Inputs,
    table: Option<Tensor<2>>,
    coins: Option<Coins>,
    name: impl Fn() -> String,
) -> Tensor<2> {
    let Inputs { query, key, value } = inputs;
    let width = query.dims()[1];
    assert!(width.is_multiple_of(heads), "heads share the width");
    assert!(table.is_none() || pairs.codes().is_some(), "a bias needs codes");
    if let (Some(table), Some(codes)) = (&table, pairs.codes()) {
        let rows = table.dims()[0];
        assert!(codes.iter().all(|&code| (code as usize) < rows), "codes lie in the table");
    }
    let kernel = Attention {
        pairs: pairs.clone(),
        heads,
        width,
        coins,
        biased: table.is_some(),
        simd: pass.simd(),
        team: pass.team().clone(),
    };
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
    coins: Option<Coins>,
    biased: bool,
    simd: Simd,
    team: Arc<Team>,
}

/// Parts that graphs are shared out in.
const PARTS: usize = 16;

impl Attention {
    fn layout(&self) -> Heads {
        let (count, width) = (self.heads, self.width / self.heads);
        let all = count * padded(width);
        Heads { count, width, stride: 3 * all, out_stride: all }
    }

    /// Matrices side by side, rows of these nodes only, every head in whole vectors.
    fn widened<const N: usize>(&self, nodes: &Range<usize>, inputs: [&[f32]; N]) -> Vec<f32> {
        let Heads { width, out_stride, .. } = self.layout();
        let mut wide = vec![0.0; nodes.len() * N * out_stride];
        for (node, row) in nodes.clone().zip(wide.chunks_exact_mut(N * out_stride)) {
            let own =
                inputs.iter().flat_map(|x| x[node * self.width..][..self.width].chunks(width));
            let places = row.chunks_exact_mut(padded(width));
            places.zip(own).for_each(|(place, own)| place[..width].copy_from_slice(own));
        }
        wide
    }

    /// The way back, from rows of these nodes only.
    fn narrowed<const N: usize>(&self, wide: &[f32], mut outputs: [&mut [f32]; N]) {
        let Heads { width, out_stride, .. } = self.layout();
        for (node, row) in wide.chunks_exact(N * out_stride).enumerate() {
            for (output, row) in outputs.iter_mut().zip(row.chunks_exact(out_stride)) {
                let places = output[node * self.width..][..self.width].chunks_mut(width);
                let own = row.chunks_exact(padded(width));
                places.zip(own).for_each(|(place, own)| place.copy_from_slice(&own[..width]));
            }
        }
    }

    /// Weights with the head as the last axis.
    fn by_pair(&self, weights: &[f32]) -> Vec<f32> {
        let mut by_pair = vec![0.0; self.pairs.len() * self.heads];
        let mut rest = weights;
        for part in self.pairs.parts() {
            let (weights, others) = rest.split_at(part.spans.pairs() * self.heads);
            rest = others;
            for span in &part.spans.graphs {
                let own = &weights[span.pairs * self.heads..][..span.pairs() * self.heads];
                for (head, weights) in own.chunks_exact(span.pairs()).enumerate() {
                    let rows = weights.chunks_exact(span.stride()).map(|row| &row[..span.size()]);
                    for (pair, weight) in rows.flatten().enumerate() {
                        // Negative where dropped.
                        by_pair[(span.batch_pairs + pair) * self.heads + head] = weight.abs();
                    }
                }
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
            let scores =
                part(&query).matmul(part(&key).swap_dims(1, 2)).mul_scalar(self.layout().scale());
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
            let weights = match &self.coins {
                Some(coins) => {
                    let numbers = pairs.start * heads..pairs.end * heads;
                    let mask = numbers.map(|number| coins.factor(number as u32)).collect();
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
        let (heads, parts, codes) = (self.layout(), self.pairs.parts(), table.len() / self.heads);
        let by_head: Vec<f32> =
            (0..table.len()).map(|i| table[i % codes * self.heads + i / codes]).collect();
        let bias = self.biased.then_some((&by_head[..], codes));
        let mut output = vec![0.0; value.len()];
        let outputs = pieces(&mut output, parts.iter().map(|part| part.nodes.clone()), self.width);
        let room = |(part, _): &(&Part, _)| part.spans.pairs() * self.heads;
        let weights = self.team.make(parts.iter().zip(outputs), room, |(part, output), weights| {
            let packed = self.widened(&part.nodes, [query, key, value]);
            let mut mixed = vec![0.0; part.nodes.len() * heads.out_stride];
            forward(
                self.simd,
                heads,
                &part.spans,
                &packed,
                bias,
                self.coins.as_ref(),
                weights.rest(),
                &mut mixed,
                &mut Scratch::default(),
            );
            self.narrowed(&mixed, [output]);
        });
        (output, weights)
    }

    fn backward(&self, kept: Kept<'_, Vec<f32>, 4>, gradient: &[f32]) -> [Vec<f32>; 4] {
        let (heads, parts) = (self.layout(), self.pairs.parts());
        let [query, key, value, table] = kept.inputs;
        let mut by = kept.inputs.map(|input| vec![0.0; input.len()]);
        // Many pairs share a code.
        let mut tables = vec![vec![0f64; table.len()]; parts.len()];
        let [by_query, by_key, by_value, by_table] = &mut by;
        let nodes = || parts.iter().map(|part| part.nodes.clone());
        let rows = [by_query, by_key, by_value].map(|by| pieces(by, nodes(), self.width));
        let [by_query, by_key, by_value] = rows;
        let mut rest = &kept.saved[..];
        let weights = parts.iter().map(|part| {
            let (own, others) = rest.split_at(part.spans.pairs() * self.heads);
            rest = others;
            own
        });
        let by_rows = by_query.into_iter().zip(by_key).zip(by_value);
        let work = parts.iter().zip(weights).zip(by_rows).zip(&mut tables);
        self.team.each(work, |(((part, weights), ((by_query, by_key), by_value)), table)| {
            let packed = self.widened(&part.nodes, [query, key, value]);
            let by_mixed = self.widened(&part.nodes, [gradient]);
            let mut by_packed = vec![0.0; packed.len()];
            backward(
                self.simd,
                heads,
                &part.spans,
                &packed,
                weights,
                &by_mixed,
                self.coins.as_ref(),
                &mut by_packed,
                self.biased.then_some(table),
                &mut Scratch::default(),
            );
            self.narrowed(&by_packed, [by_query, by_key, by_value]);
        });
        for (place, by) in by_table.iter_mut().enumerate() {
            let sum: f64 = tables.iter().map(|table| table[place]).sum();
            // The kernel gives it divided by that.
            *by = (sum * (heads.width as f64).sqrt()) as f32;
        }
        by
    }
}
