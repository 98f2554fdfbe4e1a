//! Attention between all nodes of every graph of a batch in linear time, as SGFormer has it (Wu et al. 2023).
//!
//! For a graph of n nodes, with queries q and keys k divided by their length as wholes, all heads together,
//!
//! ```text
//! S = kᵀ v     s = kᵀ 1     y_i = (q_i S + n v_i) / (q_i · s + n)       heads averaged
//! ```
//!
//! which has no place for a bias of pairs. A single node sees itself: y = v, whatever q and k are. A large graph is [a few large
//! products](large). Of graphs of up to some hundred nodes these would be thousands of tiny ones, and weights q_i · k_j of all
//! pairs take no more work than S: the kernel goes from graph to graph with these. It keeps nothing but its inputs.

mod large;

use std::ops::Range;
use std::sync::Arc;

use burn::tensor::Tensor;

use super::pairs::pieces;
use super::{Kept, Operation, apply};
use crate::nn::batch::Structure;
use crate::nn::fused::Team;
use crate::nn::pass::Pass;
use crate::simd::{Simd, WIDTH, add_scaled};
use large::Large;

/// The square of the shortest length that is divided by.
const SHORTEST: f32 = 1e-24;

/// With more nodes, a graph is large.
const LARGE: usize = 512;

/// Queries, keys and values, each `[nodes, heads × width]` → `[nodes, width]`.
pub fn linear_attention(
    pass: &Pass,
    structure: &Structure,
    heads: usize,
    inputs: [Tensor<2>; 3],
) -> Tensor<2> {
    let graphs: Vec<Range<usize>> = structure.pairs.graphs().map(|(nodes, _)| nodes).collect();
    let width = inputs[0].dims()[1] / heads;
    let in_vectors = width.is_multiple_of(WIDTH) || graphs.iter().all(|nodes| nodes.len() <= LARGE);
    if pass.is_composed() || !in_vectors {
        return composed(&graphs, heads, &inputs);
    }
    let (simd, team) = (pass.simd(), pass.team().clone());
    let kernel = Arc::new(LinearAttention { graphs, heads, width, most: LARGE, simd, team });
    apply(&kernel, inputs).unwrap_or_else(|inputs| composed(&kernel.graphs, heads, &inputs))
}

fn composed(graphs: &[Range<usize>], heads: usize, inputs: &[Tensor<2>; 3]) -> Tensor<2> {
    let width = inputs[0].dims()[1] / heads;
    let of_graph = |nodes: &Range<usize>| {
        let count = nodes.len() as f32;
        let mean = |value: &Tensor<2>| {
            let part = |head| value.clone().narrow(1, head * width, width);
            let sum = (0..heads).map(part).reduce(|a, b| a + b).expect("there is a head");
            sum / heads as f32
        };
        let [query, key, value] = inputs.each_ref().map(|x| match graphs.len() {
            1 => x.clone(),
            _ => x.clone().narrow(0, nodes.start, nodes.len()),
        });
        if nodes.len() == 1 {
            return mean(&value);
        }
        let length =
            |x: &Tensor<2>| x.clone().square().sum().clamp_min(SHORTEST).sqrt().unsqueeze::<2>();
        let (query, key) = (query.clone() / length(&query), key.clone() / length(&key));
        let head = |head: usize| {
            let part = |x: &Tensor<2>| x.clone().narrow(1, head * width, width);
            let (query, key, value) = (part(&query), part(&key), part(&value));
            let mixed = query.clone().matmul(key.clone().transpose().matmul(value.clone()));
            let sums = query.matmul(key.sum_dim(0).transpose()); // [nodes, 1]
            (mixed + value * count) / (sums + count)
        };
        let sum = (0..heads).map(head).reduce(|a, b| a + b).expect("there is a head");
        sum / heads as f32
    };
    let mut parts: Vec<Tensor<2>> = graphs.iter().map(of_graph).collect();
    if parts.len() == 1 { parts.swap_remove(0) } else { Tensor::cat(parts, 0) }
}

#[derive(Debug)]
struct LinearAttention {
    graphs: Vec<Range<usize>>,
    heads: usize,
    /// Of one head.
    width: usize,
    /// With more nodes, a graph is large.
    most: usize,
    simd: Simd,
    team: Arc<Team>,
}

impl Operation<3> for LinearAttention {
    type Saved = ();

    fn shape(&self, [[nodes, _], ..]: [[usize; 2]; 3]) -> [usize; 2] {
        [nodes, self.width]
    }

    fn forward(&self, inputs: [&[f32]; 3]) -> (Vec<f32>, ()) {
        let nodes = self.graphs.last().map_or(0, |last| last.end);
        let mut y = vec![0.0; nodes * self.width];
        let parts = self.graphs.iter().zip(self.by_graph(&mut y, self.width));
        let (large, small): (Vec<_>, Vec<_>) = parts.partition(|(nodes, _)| self.is_large(nodes));
        for (nodes, y) in large {
            self.large(inputs, nodes).forward(y);
        }
        self.team.each(small, |(nodes, y)| {
            let lengths = self.lengths(inputs, nodes);
            for head in 0..self.heads {
                if nodes.len() == 1 {
                    let value = &inputs[2][nodes.start * self.heads * self.width..];
                    add_scaled(
                        y,
                        1.0 / self.heads as f32,
                        &value[head * self.width..][..self.width],
                    );
                    continue;
                }
                let block = self.block(inputs, nodes, head, lengths);
                for (i, y) in y.chunks_exact_mut(self.width).enumerate() {
                    let (sum, below) = block.row(i);
                    add_scaled(y, 1.0 / (below * self.heads as f32), &sum);
                }
            }
        });
        (y, ())
    }

    fn backward(&self, kept: Kept<'_, (), 3>, gradient: &[f32]) -> [Vec<f32>; 3] {
        let columns = self.heads * self.width;
        let mut found = kept.inputs.map(|input| vec![0.0; input.len()]);
        let [query, key, value] = &mut found;
        let parts = self.graphs.iter().zip(self.by_graph(query, columns));
        let parts = parts.zip(self.by_graph(key, columns)).zip(self.by_graph(value, columns));
        let (large, small): (Vec<_>, Vec<_>) =
            parts.partition(|(((nodes, _), _), _)| self.is_large(nodes));
        let upstream =
            |nodes: &Range<usize>| &gradient[nodes.start * self.width..nodes.end * self.width];
        for (((nodes, query), key), value) in large {
            self.large(kept.inputs, nodes).backward(upstream(nodes), [query, key, value]);
        }
        self.team.each(small, |(((nodes, query), key), value)| {
            let lengths = self.lengths(kept.inputs, nodes);
            let upstream = upstream(nodes);
            if nodes.len() == 1 {
                for value in value.chunks_exact_mut(self.width) {
                    add_scaled(value, 1.0 / self.heads as f32, upstream);
                }
                return;
            }
            for head in 0..self.heads {
                let block = self.block(kept.inputs, nodes, head, lengths);
                block.backward(self.heads as f32, upstream, [&mut *query, key, value]);
            }
            // Through the division by the length of the whole.
            for ((by, input), length) in [query, key].into_iter().zip(kept.inputs).zip(lengths) {
                let x = &input[nodes.start * columns..nodes.end * columns];
                let is_shortest = length * length <= SHORTEST;
                let along = if is_shortest { 0.0 } else { dot(by, x) / (length * length) };
                for (by, x) in by.iter_mut().zip(x) {
                    *by = (*by - along * x) / length;
                }
            }
        });
        found
    }
}

impl LinearAttention {
    fn is_large(&self, nodes: &Range<usize>) -> bool {
        nodes.len() > self.most
    }

    fn large<'a>(&'a self, inputs: [&'a [f32]; 3], nodes: &Range<usize>) -> Large<'a> {
        let columns = self.heads * self.width;
        let inputs = inputs.map(|x| &x[nodes.start * columns..nodes.end * columns]);
        Large::new((&self.team, self.simd), [self.heads, self.width], inputs)
    }

    /// The rows of every graph.
    fn by_graph<'a>(&self, rows: &'a mut [f32], width: usize) -> Vec<&'a mut [f32]> {
        pieces(rows, self.graphs.iter().cloned(), width)
    }

    /// Of the queries and keys of a graph.
    fn lengths(&self, [query, key, _]: [&[f32]; 3], nodes: &Range<usize>) -> [f32; 2] {
        let columns = self.heads * self.width;
        [query, key].map(|x| {
            let x = &x[nodes.start * columns..nodes.end * columns];
            dot(x, x).max(SHORTEST).sqrt()
        })
    }

    fn block<'a>(
        &self,
        inputs: [&'a [f32]; 3],
        nodes: &Range<usize>,
        head: usize,
        lengths: [f32; 2],
    ) -> Block<'a> {
        let columns = self.heads * self.width;
        let inputs = inputs.map(|x| &x[nodes.start * columns..nodes.end * columns]);
        let count = nodes.len();
        let own = |node: usize| {
            node * columns + head * self.width..node * columns + (head + 1) * self.width
        };
        let mut keys = Vec::new();
        transpose(inputs[1], (0..count).map(own), &mut keys);
        let mut weights = vec![0.0; count * count];
        for (i, row) in weights.chunks_exact_mut(count).enumerate() {
            for (q, keys) in inputs[0][own(i)].iter().zip(keys.chunks_exact(count)) {
                add_scaled(row, q / (lengths[0] * lengths[1]), keys);
            }
        }
        Block {
            inputs,
            lengths,
            count,
            columns,
            first: head * self.width,
            width: self.width,
            weights,
        }
    }
}

/// One head of one graph.
struct Block<'a> {
    /// Rows of this graph.
    inputs: [&'a [f32]; 3],
    lengths: [f32; 2],
    /// Nodes.
    count: usize,
    columns: usize,
    /// Where the columns of this head begin.
    first: usize,
    width: usize,
    /// q_i · k_j
    weights: Vec<f32>,
}

impl Block<'_> {
    /// The columns of this head in the row of a node.
    fn own(&self, node: usize) -> Range<usize> {
        let first = node * self.columns + self.first;
        first..first + self.width
    }

    /// Weights of a node.
    fn weights(&self, node: usize) -> &[f32] {
        &self.weights[node * self.count..][..self.count]
    }

    /// What is above and below the line for a node.
    fn row(&self, node: usize) -> (Vec<f32>, f32) {
        let value = |node: usize| &self.inputs[2][self.own(node)];
        let count = self.count as f32;
        let mut sum: Vec<f32> = value(node).iter().map(|x| x * count).collect();
        for (j, weight) in self.weights(node).iter().enumerate() {
            add_scaled(&mut sum, *weight, value(j));
        }
        (sum, self.weights(node).iter().sum::<f32>() + count)
    }

    /// Adds derivatives by queries and keys as divided, and by values.
    fn backward(
        &self,
        heads: f32,
        upstream: &[f32],
        [by_query, by_key, by_value]: [&mut [f32]; 3],
    ) {
        let [query, key, value] = self.inputs;
        let mut values = Vec::new();
        transpose(value, (0..self.count).map(|node| self.own(node)), &mut values);
        let mut by_weights = vec![0.0; self.count];
        for (i, upstream) in upstream.chunks_exact(self.width).enumerate() {
            let (sum, below) = self.row(i);
            let by_sum: Vec<f32> = upstream.iter().map(|x| x / (below * heads)).collect();
            by_weights.fill(-dot(&by_sum, &sum) / below);
            for (by, values) in by_sum.iter().zip(values.chunks_exact(self.count)) {
                add_scaled(&mut by_weights, *by, values);
            }
            add_scaled(&mut by_value[self.own(i)], self.count as f32, &by_sum);
            for (j, (by, weight)) in by_weights.iter().zip(self.weights(i)).enumerate() {
                add_scaled(&mut by_value[self.own(j)], *weight, &by_sum);
                add_scaled(&mut by_query[self.own(i)], by / self.lengths[1], &key[self.own(j)]);
                add_scaled(&mut by_key[self.own(j)], by / self.lengths[0], &query[self.own(i)]);
            }
        }
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Rows at the given places as columns, `[width, rows]`.
fn transpose(
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

#[cfg(test)]
mod tests {
    use super::super::differences::{check, random, two_threads, ways};
    use super::*;

    fn inputs(nodes: usize, columns: usize) -> [Vec<f32>; 3] {
        [1, 2, 3].map(|seed| random(nodes * columns, [-1.0, 1.0], seed))
    }

    #[test]
    fn it_has_its_derivatives() {
        for (heads, width) in [(1, 4), (3, 5)] {
            let graphs = vec![0..3, 3..4, 4..9];
            let (simd, team) = (Simd::detect(), two_threads());
            let kernel = LinearAttention { graphs, heads, width, most: 9, simd, team };
            check(&kernel, &inputs(9, heads * width));
        }
    }

    #[test]
    fn large_graphs_have_their_derivatives() {
        for (simd, team) in ways() {
            for (heads, width) in [(1, 16), (2, 8)] {
                let graphs = vec![0..5, 5..12, 12..13];
                let team = team.clone();
                let kernel = LinearAttention { graphs, heads, width, most: 4, simd, team };
                check(&kernel, &inputs(13, heads * width));
            }
        }
    }

    #[test]
    fn products_give_what_pairs_give() {
        // Several blocks in every part, the last ones short.
        let (nodes, heads, width) = (1700, 2, 24);
        let inputs = inputs(nodes, heads * width);
        let slices = inputs.each_ref().map(Vec::as_slice);
        let upstream = random(nodes * width, [-1.0, 1.0], 4);
        let found = |most, simd, threads| {
            let team = Arc::new(Team::new(threads).unwrap());
            let graphs = vec![0..nodes - 3, nodes - 3..nodes];
            let kernel = LinearAttention { graphs, heads, width, most, simd, team };
            let y = kernel.forward(slices).0;
            let kept = Kept { inputs: slices, output: &[], saved: &() };
            let [query, key, value] = kernel.backward(kept, &upstream);
            [y, query, key, value]
        };
        let pairs = found(nodes, Simd::detect(), 2);
        for simd in Simd::all() {
            let products = found(4, simd, 2);
            for (ours, theirs) in products.iter().zip(&pairs) {
                let largest = theirs.iter().fold(0.0, |largest: f32, x| largest.max(x.abs()));
                for (a, b) in ours.iter().zip(theirs) {
                    assert!((a - b).abs() <= 2e-5 * largest, "{simd:?}: {a}, by pairs {b}");
                }
            }
            assert!(products == found(4, simd, 1), "{simd:?}: threads change nothing");
        }
    }
}
