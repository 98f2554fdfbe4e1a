//! `algebraic-jc`: edges whose ends random vectors, made smooth along edges, tell apart least.
//!
//! Twelve vectors, of which ten are needed, are smoothed at once. A node's numbers lie side by side, so that each step is twelve sums at a time; every sum has its own
//! order whatever the width of the machine's registers.

use std::borrow::Cow;

use super::edges::{Edge, matched};
use crate::coarsen::Context;
use crate::monitor::check;
use crate::rng::Stream;
use crate::simd::{Kernel, Simd, Vector};
use crate::{Graph, Partition, Result};

/// Rounds of smoothing.
const SWEEPS: usize = 20;
/// Levels, and the nodes that a level must save more than.
const LEVELS: usize = 20;
const TOO_FEW: usize = 2;

/// Vectors that are smoothed at once: ten, and what fills registers.
const WIDTH: usize = 12;

/// One number of each of some vectors.
type Row = [f64; WIDTH];

/// Contracts edges level by level down to `target` nodes, or until a level saves next to nothing.
pub(super) fn partition(
    graph: &Graph,
    target: usize,
    vectors: usize,
    context: &Context<'_>,
) -> Result<Partition> {
    let mut partition = Partition::singletons(graph.num_nodes());
    if graph.num_nodes() <= target {
        return Ok(partition);
    }
    let mut graph = Cow::Borrowed(graph);
    let mut stream = context.stream("loukas");
    for _ in 0..LEVELS {
        check(context.monitor)?;
        let n = graph.num_nodes();
        let step = matched(n, distances(&graph, vectors, &mut stream), n - target);
        if step.num_clusters() + TOO_FEW >= n {
            break;
        }
        partition = partition.compose(&step);
        if step.num_clusters() <= target {
            break;
        }
        graph = Cow::Owned(graph.contract(&step));
    }
    Ok(partition)
}

/// All edges, the cost of each the largest square of a difference between its ends.
pub(super) fn distances(graph: &Graph, vectors: usize, stream: &mut Stream) -> Vec<Edge> {
    let mut largest = vec![0.0; graph.num_edges()];
    for first in (0..vectors).step_by(WIDTH) {
        let rows = smoothed(graph, vectors - first, stream);
        Simd::detect().run(Farthest { graph, rows: &rows, largest: &mut largest });
    }
    let mut edges = Vec::with_capacity(largest.len());
    let mut costs = largest.into_iter();
    for_each_edge(graph, |u, v| edges.extend(costs.next().map(|cost| Edge::new(cost, u, v))));
    edges
}

/// Raises the cost of every edge to the largest square of a difference between its ends.
struct Farthest<'a> {
    graph: &'a Graph,
    rows: &'a [Row],
    largest: &'a mut [f64],
}

impl Kernel for Farthest<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Farthest { graph, rows, largest } = self;
        let larger = |a: f64, b: f64| if a > b { a } else { b };
        let mut slots = largest.iter_mut();
        for_each_edge(graph, |u, v| {
            let (x, y) = (&rows[u as usize], &rows[v as usize]);
            let squares: Row = std::array::from_fn(|k| (x[k] - y[k]) * (x[k] - y[k]));
            // Four at a time, then the four.
            let four: [f64; 4] =
                std::array::from_fn(|k| larger(larger(squares[k], squares[k + 4]), squares[k + 8]));
            if let Some(slot) = slots.next() {
                *slot = larger(*slot, larger(larger(four[0], four[1]), larger(four[2], four[3])));
            }
        });
    }
}

fn for_each_edge(graph: &Graph, mut tell: impl FnMut(u32, u32)) {
    for u in 0..graph.num_nodes() as u32 {
        let near = graph.neighbors(u);
        near[near.partition_point(|&v| v < u)..].iter().for_each(|&v| tell(u, v));
    }
}

/// Random vectors, at most `count` of them, after rounds of x ← ½x + ½D⁻¹Wx; further columns are 0.
fn smoothed(graph: &Graph, count: usize, stream: &mut Stream) -> Vec<Row> {
    let n = graph.num_nodes();
    let draw =
        |k: usize, stream: &mut Stream| if k < count { bell(stream.next_u64()) } else { 0.0 };
    let mut rows: Vec<Row> = Vec::with_capacity(n);
    rows.extend((0..n).map(|_| std::array::from_fn(|k| draw(k, stream))));
    let half_share = |u: u32| {
        let mut total = 0.0;
        graph.for_each_neighbor(u, |_, w| total += w);
        if total > 0.0 { 0.5 / total } else { 0.0 }
    };
    let shares: Vec<f64> = (0..n as u32).map(half_share).collect();
    let mut next = rows.clone();
    for _ in 0..SWEEPS {
        Simd::detect().run(Sweep { graph, shares: &shares, rows: &rows, next: &mut next });
        std::mem::swap(&mut rows, &mut next);
    }
    rows
}

/// One round of smoothing, with wide registers where there are some; they round alike.
struct Sweep<'a> {
    graph: &'a Graph,
    shares: &'a [f64],
    rows: &'a [Row],
    next: &'a mut [Row],
}

impl Kernel for Sweep<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Sweep { graph, shares, rows, next } = self;
        for (u, (row, share)) in next.iter_mut().zip(shares).enumerate() {
            // Two sums, so that an addition need not wait for the one before.
            let [mut sums, mut others] = [Row::default(); 2];
            let (pairs, last) = graph.neighbors(u as u32).as_chunks::<2>();
            let add = |sums: &mut Row, v: u32, w: f64| {
                let near = &rows[v as usize];
                (0..WIDTH).for_each(|k| sums[k] += w * near[k]);
            };
            match graph.neighbor_weights(u as u32) {
                None => {
                    for [a, b] in pairs {
                        add(&mut sums, *a, 1.0);
                        add(&mut others, *b, 1.0);
                    }
                    last.iter().for_each(|v| add(&mut sums, *v, 1.0));
                }
                Some(weights) => {
                    let (by_pair, last_weight) = weights.as_chunks::<2>();
                    for ([a, b], [p, q]) in pairs.iter().zip(by_pair) {
                        add(&mut sums, *a, (*p).into());
                        add(&mut others, *b, (*q).into());
                    }
                    let last = last.iter().zip(last_weight);
                    last.for_each(|(v, w)| add(&mut sums, *v, (*w).into()));
                }
            }
            *row = std::array::from_fn(|k| (sums[k] + others[k]) * share + 0.5 * rows[u][k]);
        }
    }
}

/// A number whose distribution is nearly a bell curve around 0, as wide as it may be: the sum of four uniform ones. Every machine adds
/// whole numbers alike.
fn bell(bits: u64) -> f64 {
    let parts = [bits, bits >> 16, bits >> 32, bits >> 48].map(|part| (part & 0xFFFF) as i64);
    (parts.into_iter().sum::<i64>() - 2 * 0xFFFF) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Seed;

    #[test]
    fn numbers_are_nearly_normal() {
        let mut stream = Seed(0).stream("test", 0, 0);
        let drawn: Vec<f64> = (0..40_000).map(|_| bell(stream.next_u64())).collect();
        let moment = |k: i32| drawn.iter().map(|x| x.powi(k)).sum::<f64>() / drawn.len() as f64;
        let deviation = moment(2).sqrt();
        assert!((deviation / f64::from(1 << 16) - (1f64 / 3.0).sqrt()).abs() < 0.01);
        assert!(moment(1).abs() < 0.02 * deviation);
        assert!((moment(4) / moment(2).powi(2) - 2.7).abs() < 0.1);
    }

    /// More vectors than a row holds, on weighted edges, beside x ← ½x + ½D⁻¹Wx written as a matrix.
    #[test]
    fn distances_follow_their_definition() {
        let (n, vectors) = (9, 13);
        let pairs = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (5, 6), (6, 3), (1, 6)];
        let weights = [1.0, 2.5, 0.25, 7.0, 1.0, 3.0, 0.5, 1.5, 2.0];
        let (graph, _) = Graph::from_weighted_pairs(n, &pairs, &weights).unwrap();
        let mut stream = Seed(1).stream("test", 0, 0);
        let mut same = stream.clone();
        let mut columns = vec![vec![0.0; n]; vectors];
        for block in columns.chunks_mut(WIDTH) {
            for u in 0..n {
                block.iter_mut().for_each(|x| x[u] = bell(same.next_u64()));
            }
        }
        let degree = |u: u32| graph.weighted_neighbors(u).map(|(_, w)| f64::from(w)).sum::<f64>();
        let entry = |u: u32, v: u32| f64::from(graph.weight(u, v).unwrap_or(0.0));
        for x in &mut columns {
            for _ in 0..SWEEPS {
                let step = |u: u32| {
                    let around: f64 = (0..n as u32).map(|v| entry(u, v) * x[v as usize]).sum();
                    0.5 * x[u as usize] + 0.5 * around / degree(u).max(1e-9)
                };
                *x = (0..n as u32).map(step).collect();
            }
        }
        let found = distances(&graph, vectors, &mut stream);
        assert_eq!(stream.next_u64(), same.next_u64());
        assert_eq!(found.len(), pairs.len());
        for edge in found {
            let (u, v) = edge.ends();
            let squares = columns.iter().map(|x| (x[u as usize] - x[v as usize]).powi(2));
            let expected = squares.fold(0.0, f64::max);
            assert!((edge.cost() / expected - 1.0).abs() < 1e-9, "{u} {v}");
        }
    }
}
