//! The one graph type: undirected, simple, compressed sparse rows.
//!
//! A [`Graph`] is made from any list of pairs. Pairs are symmetrised, self-loops and repeated
//! pairs dropped, and [`Repairs`] says how many, so that everything downstream may rely on sorted
//! neighbour lists without repeats. Ids are `u32`, offsets `u64`: a graph of 111 M nodes and
//! 3.2 G entries fits the types.
//!
//! ```
//! use hdse::Graph;
//! //   0 - 1
//! //   | /
//! //   2   3 - 4      one pair given twice, one self-loop
//! let (graph, repairs) = Graph::from_pairs(5, &[(0, 1), (1, 2), (2, 0), (3, 4), (3, 4), (4, 4)])?;
//! assert_eq!(graph.neighbors(1), [0, 2]);
//! assert_eq!((repairs.duplicates, repairs.self_loops), (1, 1));
//! assert_eq!(graph.components().num_clusters(), 2);
//! # Ok::<(), hdse::Error>(())
//! ```
//!
//! Weights are optional. The weight of an edge is the sum over all its listings in either
//! direction, that is A + Aᵀ; a list that gives every edge in both directions therefore doubles
//! all weights alike, which changes no partition, modularity or cut fraction.

mod build;
pub mod named;
pub mod properties;

use rayon::prelude::*;

use self::build::{PARALLEL, Rows, check_nodes};
use crate::buffer::Buffer;
use crate::partition::Partition;
use crate::{Error, Result};

/// The most nodes a graph may have: one bit of an id is needed while building.
pub const MAX_NODES: usize = (1 << 31) - 1;

/// An undirected simple graph in compressed sparse rows, optionally weighted.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    offsets: Buffer<u64>,
    targets: Buffer<u32>,
    weights: Option<Buffer<f32>>,
}

/// What had to be mended to make a list of pairs a simple undirected graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    /// Pairs (v, v), dropped.
    pub self_loops: u64,
    /// Pairs listed before in the same direction, dropped (weights summed).
    pub duplicates: u64,
    /// Edges listed in one direction only; the other was added.
    pub one_way: u64,
}

impl std::ops::AddAssign for Repairs {
    fn add_assign(&mut self, other: Repairs) {
        self.self_loops += other.self_loops;
        self.duplicates += other.duplicates;
        self.one_way += other.one_way;
    }
}

impl Graph {
    /// Builds an unweighted graph on `num_nodes` nodes from pairs in any order.
    ///
    /// # Errors
    /// If an id is not below `num_nodes`; the message names the pair.
    pub fn from_pairs(num_nodes: usize, pairs: &[(u32, u32)]) -> Result<(Graph, Repairs)> {
        let valid = |&(u, v): &(u32, u32)| (u.max(v) as usize) < num_nodes;
        if let Some(at) = pairs.iter().position(|pair| !valid(pair)) {
            let (u, v) = pairs[at];
            return Err(out_of_range(at, u, v, num_nodes));
        }
        if pairs.len() < PARALLEL {
            let pairs = || pairs.iter().map(|&(u, v)| (u, v, 1.0));
            return build::sequential::<u32, _>(num_nodes, pairs);
        }
        Graph::from_stream(num_nodes, false, || pairs.par_iter().map(|&(u, v)| (u, v, 1.0)))
    }

    /// Builds a weighted graph; `weights` is aligned with `pairs`.
    ///
    /// # Errors
    /// If an id is not below `num_nodes`, or a weight is negative, infinite or not a number.
    pub fn from_weighted_pairs(
        num_nodes: usize,
        pairs: &[(u32, u32)],
        weights: &[f32],
    ) -> Result<(Graph, Repairs)> {
        if pairs.len() != weights.len() {
            return Err(Error::data(format!("{} pairs, {} weights", pairs.len(), weights.len())));
        }
        for (at, (&(u, v), &w)) in pairs.iter().zip(weights).enumerate() {
            if u.max(v) as usize >= num_nodes {
                return Err(out_of_range(at, u, v, num_nodes));
            }
            check_weight(w).map_err(|e| e.context(format!("pair {at} ({u}, {v})")))?;
        }
        let triples = || pairs.par_iter().zip(weights).map(|(&(u, v), &w)| (u, v, w));
        if pairs.len() < PARALLEL {
            let triples = || pairs.iter().zip(weights).map(|(&(u, v), &w)| (u, v, w));
            return build::sequential::<u64, _>(num_nodes, triples);
        }
        Graph::from_stream(num_nodes, true, triples)
    }

    /// Builds from a stream of (node, node, weight) in parallel, with no copy of the pairs: the
    /// stream is asked for twice, once to count degrees and once to place entries. The result does
    /// not depend on the order or the thread count.
    ///
    /// Ids must be below `num_nodes` and weights finite and not negative; weights are ignored
    /// unless `weighted`.
    ///
    /// # Errors
    /// If an id is out of range.
    pub fn from_stream<S, I>(
        num_nodes: usize,
        weighted: bool,
        stream: S,
    ) -> Result<(Graph, Repairs)>
    where
        S: Fn() -> I,
        I: ParallelIterator<Item = (u32, u32, f32)>,
    {
        if weighted {
            build::parallel::<u64, _, _>(num_nodes, stream)
        } else {
            build::parallel::<u32, _, _>(num_nodes, stream)
        }
    }

    /// Number of nodes.
    #[inline]
    pub fn num_nodes(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Number of undirected edges.
    #[inline]
    pub fn num_edges(&self) -> usize {
        self.targets.len() / 2
    }

    /// Neighbours of `node`, ascending.
    #[inline]
    pub fn neighbors(&self, node: u32) -> &[u32] {
        &self.targets[self.row(node)]
    }

    /// Number of neighbours.
    #[inline]
    pub fn degree(&self, node: u32) -> usize {
        self.row(node).len()
    }

    /// Whether edges carry weights.
    pub fn is_weighted(&self) -> bool {
        self.weights.is_some()
    }

    /// Neighbours of `node` with the weight of the edge, 1 where the graph has no weights.
    #[inline]
    pub fn weighted_neighbors(&self, node: u32) -> impl Iterator<Item = (u32, f32)> {
        let row = self.row(node);
        let weights = self.weights.as_ref().map(|w| &w[row.clone()]);
        let weight = move |i: usize| weights.map_or(1.0, |w| w[i]);
        self.targets[row].iter().enumerate().map(move |(i, &v)| (v, weight(i)))
    }

    /// Tells every neighbour of `node` with the weight of the edge: as
    /// Weights of the edges to [`neighbors`](Graph::neighbors), if edges have some.
    #[inline]
    pub(crate) fn neighbor_weights(&self, node: u32) -> Option<&[f32]> {
        self.weights.as_ref().map(|weights| &weights[self.row(node)])
    }

    /// [`weighted_neighbors`](Graph::weighted_neighbors), without a question per neighbour whether there
    /// are weights.
    #[inline]
    pub(crate) fn for_each_neighbor(&self, node: u32, mut tell: impl FnMut(u32, f64)) {
        let row = self.row(node);
        match &self.weights {
            None => self.targets[row].iter().for_each(|&v| tell(v, 1.0)),
            Some(weights) => {
                let pairs = self.targets[row.clone()].iter().zip(&weights[row]);
                pairs.for_each(|(&v, &w)| tell(v, w.into()));
            }
        }
    }

    /// Every edge once, as (smaller id, larger id, weight), ascending.
    pub fn edges(&self) -> impl Iterator<Item = (u32, u32, f32)> {
        (0..self.num_nodes() as u32).flat_map(move |u| {
            self.weighted_neighbors(u).filter(move |&(v, _)| u < v).map(move |(v, w)| (u, v, w))
        })
    }

    /// Start of every neighbour list, and the end of the last: n + 1 numbers.
    #[inline]
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// All neighbour lists, one after another.
    #[inline]
    pub fn targets(&self) -> &[u32] {
        &self.targets
    }

    /// The same graph without its weights.
    pub fn without_weights(mut self) -> Graph {
        self.weights = None;
        self
    }

    #[inline]
    fn row(&self, node: u32) -> std::ops::Range<usize> {
        self.offsets[node as usize] as usize..self.offsets[node as usize + 1] as usize
    }

    /// Connected components, numbered by their smallest node. O(n + m).
    pub fn components(&self) -> Partition {
        self.components_by(|_, _| true)
    }

    /// Components that only some of the edges make: those whose ends `joins` approves.
    pub(crate) fn components_by(&self, joins: impl Fn(u32, u32) -> bool) -> Partition {
        const UNSEEN: u32 = u32::MAX;
        let mut component = vec![UNSEEN; self.num_nodes()];
        let mut stack = Vec::new();
        let mut count = 0;
        for root in 0..self.num_nodes() as u32 {
            if component[root as usize] != UNSEEN {
                continue;
            }
            component[root as usize] = count;
            stack.push(root);
            while let Some(u) = stack.pop() {
                for &v in self.neighbors(u) {
                    if component[v as usize] == UNSEEN && joins(u, v) {
                        component[v as usize] = count;
                        stack.push(v);
                    }
                }
            }
            count += 1;
        }
        Partition::trusted(component, count as usize)
    }

    /// The subgraph on `nodes`, which become 0, 1, … in the order given.
    ///
    /// # Errors
    /// If a node is out of range or listed twice.
    pub fn induced(&self, nodes: &[u32]) -> Result<Graph> {
        const ABSENT: u32 = u32::MAX;
        let mut local = vec![ABSENT; self.num_nodes()];
        for (i, &u) in nodes.iter().enumerate() {
            match local.get_mut(u as usize) {
                None => {
                    let n = self.num_nodes();
                    return Err(Error::data(format!("node {u} is out of range for {n} nodes")));
                }
                Some(slot) if *slot == ABSENT => *slot = i as u32,
                Some(_) => return Err(Error::data(format!("node {u} is listed twice"))),
            }
        }
        let mut result = Rows::new(nodes.len(), self.is_weighted());
        let mut row = Vec::new();
        for &u in nodes {
            row.clear();
            let kept = self.weighted_neighbors(u).map(|(v, w)| (local[v as usize], w));
            row.extend(kept.filter(|&(v, _)| v != ABSENT));
            row.sort_unstable_by_key(|&(v, _)| v);
            result.push(row.iter().copied());
        }
        Ok(result.into())
    }

    /// The quotient graph: clusters become nodes, adjacent if any edge crosses between them. The
    /// weight of a quotient edge is the total weight of the edges it stands for (their number,
    /// where the graph has no weights). Edges inside a cluster vanish. O(n + m).
    pub fn contract(&self, partition: &Partition) -> Graph {
        assert_eq!(partition.num_nodes(), self.num_nodes(), "a partition of this graph");
        let cluster_of = partition.cluster_of();
        let count = partition.num_clusters();
        let members = partition.members();
        let rows = |clusters: std::ops::Range<usize>| {
            // Dense accumulator and list of touched keys: no hashing, fixed summation order.
            let mut sum = vec![0f64; count];
            let mut keys = Vec::new();
            let mut part = Rows::new(clusters.len(), true);
            if clusters.len() == count {
                // All rows at once: a small graph, where growing would take most of the time.
                part.reserve(self.targets.len().min(count * count));
            }
            for c in clusters {
                for &u in members.of(c as u32) {
                    self.for_each_neighbor(u, |v, w| {
                        let d = cluster_of[v as usize];
                        if d as usize != c {
                            // Zero weights still make an edge.
                            if sum[d as usize] == 0.0 {
                                keys.push(d);
                            }
                            sum[d as usize] += w;
                        }
                    });
                }
                keys.sort_unstable();
                keys.dedup();
                part.push(keys.iter().map(|&d| (d, sum[d as usize].min(f32::MAX.into()) as f32)));
                for d in keys.drain(..) {
                    sum[d as usize] = 0.0;
                }
            }
            part
        };
        if self.targets.len() < PARALLEL {
            return rows(0..count).into();
        }
        let chunk = count.div_ceil(8 * rayon::current_num_threads()).max(1);
        let starts: Vec<usize> = (0..count).step_by(chunk).collect();
        let parts: Vec<Rows> =
            starts.into_par_iter().map(|s| rows(s..(s + chunk).min(count))).collect();
        let mut result = Rows::new(count, true);
        for part in &parts {
            result.append(part);
        }
        result.into()
    }

    /// Takes compressed sparse rows that already are a simple undirected graph, without a copy: those
    /// of [`offsets`](Graph::offsets), [`targets`](Graph::targets) and [`weights`](Graph::weights).
    ///
    /// # Errors
    /// If offsets do not fit, a row is not sorted, or an entry is out of range, a self-loop or lacks
    /// its reverse.
    pub fn from_sorted_rows(
        offsets: Vec<u64>,
        targets: Vec<u32>,
        weights: Option<Vec<f32>>,
    ) -> Result<Graph> {
        Graph::from_rows(offsets.into(), targets.into(), weights.map(Buffer::from))
    }

    /// The same of rows that are owned or mapped.
    pub(crate) fn from_rows(
        offsets: Buffer<u64>,
        targets: Buffer<u32>,
        weights: Option<Buffer<f32>>,
    ) -> Result<Graph> {
        let broken = |why: String| Err(Error::data(why));
        if offsets.first() != Some(&0)
            || offsets.last() != Some(&(targets.len() as u64))
            || weights.as_ref().is_some_and(|w| w.len() != targets.len())
            || !offsets.is_sorted()
        {
            return broken("row offsets do not fit the entries".into());
        }
        check_nodes(offsets.len() - 1)?;
        let graph = Graph { offsets, targets, weights };
        let n = graph.num_nodes() as u32;
        let bad = (0..n).into_par_iter().find_first(|&u| {
            let row = graph.neighbors(u);
            let lacks_reverse =
                |&v: &u32| v >= n || v == u || graph.weight(v, u) != graph.weight(u, v);
            !row.is_sorted_by(|a, b| a < b) || row.iter().any(lacks_reverse)
        });
        match bad {
            Some(u) => {
                broken(format!("the neighbours of node {u} are not those of a simple graph"))
            }
            None => Ok(graph),
        }
    }

    /// Weight of an edge, if it is there; 1 in a graph without weights.
    pub fn weight(&self, u: u32, v: u32) -> Option<f32> {
        let at = self.neighbors(u).binary_search(&v).ok()?;
        Some(self.weights.as_ref().map_or(1.0, |w| w[self.row(u).start + at]))
    }

    /// Weights of all entries of [`Graph::targets`], if the graph has any.
    pub fn weights(&self) -> Option<&[f32]> {
        self.weights.as_deref()
    }
}

/// A weight must be a finite number that is not negative.
pub(crate) fn check_weight(weight: f32) -> Result<()> {
    if weight.is_finite() && weight >= 0.0 {
        return Ok(());
    }
    Err(Error::data(format!("weight {weight} is not a finite number ≥ 0; drop or clean this edge")))
}

pub(crate) fn out_of_range(at: usize, u: u32, v: u32, num_nodes: usize) -> Error {
    Error::data(format!(
        "pair {at} ({u}, {v}) is out of range: with {num_nodes} nodes, ids run from 0 to {}",
        num_nodes as i64 - 1
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Seed;

    #[test]
    fn repairs_are_counted() {
        let pairs = [(0, 1), (1, 0), (0, 1), (2, 2), (3, 2), (3, 2), (1, 3)];
        let (graph, repairs) = Graph::from_pairs(4, &pairs).unwrap();
        assert_eq!(
            graph.edges().map(|(u, v, _)| (u, v)).collect::<Vec<_>>(),
            [(0, 1), (1, 3), (2, 3)]
        );
        assert_eq!(repairs, Repairs { self_loops: 1, duplicates: 2, one_way: 2 });
    }

    #[test]
    fn rows_make_the_graph_again() {
        let (graph, _) =
            Graph::from_weighted_pairs(4, &[(0, 1), (3, 1), (2, 0)], &[1.0, 2.0, 0.5]).unwrap();
        let rows = |targets: &[u32]| {
            let weights = graph.weights().map(<[f32]>::to_vec);
            Graph::from_sorted_rows(graph.offsets().to_vec(), targets.to_vec(), weights)
        };
        assert_eq!(rows(graph.targets()).unwrap(), graph);
        assert!(rows(&[2, 1, 0, 3, 0, 1]).unwrap_err().is_data());
        assert!(rows(&[1, 2]).unwrap_err().is_data());
        assert!(Graph::from_sorted_rows(vec![], vec![], None).unwrap_err().is_data());
    }

    #[test]
    fn weights_of_all_listings_sum() {
        let (graph, _) =
            Graph::from_weighted_pairs(3, &[(0, 1), (1, 0), (0, 1), (2, 1)], &[1.0, 2.0, 4.0, 0.5])
                .unwrap();
        assert_eq!(graph.edges().collect::<Vec<_>>(), [(0, 1, 7.0), (1, 2, 0.5)]);
    }

    #[test]
    fn bad_pairs_and_weights_are_refused() {
        let error = Graph::from_pairs(3, &[(0, 1), (1, 3)]).unwrap_err();
        assert!(error.to_string().contains("pair 1 (1, 3)"), "{error}");
        for weight in [f32::NAN, f32::INFINITY, -1.0] {
            assert!(Graph::from_weighted_pairs(2, &[(0, 1)], &[weight]).is_err());
        }
        assert!(Graph::from_weighted_pairs(2, &[(0, 1), (1, 0)], &[3e38, 3e38]).is_err());
    }

    #[test]
    fn parallel_build_equals_sequential() {
        let mut stream = Seed(1).stream("test", 0, 0);
        let n = 3_000;
        let pairs: Vec<(u32, u32)> =
            (0..100_000).map(|_| (stream.below(n) as u32, stream.below(n) as u32)).collect();
        let weights: Vec<f32> = (0..pairs.len()).map(|_| stream.unit() as f32).collect();
        let plain = || pairs.iter().map(|&(u, v)| (u, v, 1.0));
        let weighted = || pairs.iter().zip(&weights).map(|(&(u, v), &w)| (u, v, w));
        assert!(pairs.len() >= PARALLEL);
        assert_eq!(
            Graph::from_pairs(n as usize, &pairs).unwrap(),
            build::sequential::<u32, _>(n as usize, plain).unwrap()
        );
        assert_eq!(
            Graph::from_weighted_pairs(n as usize, &pairs, &weights).unwrap(),
            build::sequential::<u64, _>(n as usize, weighted).unwrap()
        );
        let stream = || pairs.par_iter().map(|&(u, v)| (u, v + 1, 1.0));
        assert!(Graph::from_stream(n as usize, false, stream).is_err());
    }

    #[test]
    fn contraction_counts_edges_in_parallel_too() {
        let mut stream = Seed(2).stream("test", 0, 0);
        let n = 2_000u64;
        let pairs: Vec<(u32, u32)> =
            (0..80_000).map(|_| (stream.below(n) as u32, stream.below(n) as u32)).collect();
        let (graph, _) = Graph::from_pairs(n as usize, &pairs).unwrap();
        let labels: Vec<u32> = (0..n as u32).map(|u| u % 37).collect();
        let partition = Partition::new(labels.clone()).unwrap();
        let quotient = graph.contract(&partition);
        let mut counts = std::collections::BTreeMap::new();
        for (u, v, _) in graph.edges() {
            let (a, b) = (labels[u as usize], labels[v as usize]);
            if a != b {
                *counts.entry((a.min(b), a.max(b))).or_insert(0.0) += 1.0;
            }
        }
        let got: Vec<_> = quotient.edges().map(|(u, v, w)| ((u, v), w)).collect();
        assert_eq!(got, counts.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn induced_subgraph_keeps_the_given_order() {
        let (graph, _) = Graph::from_weighted_pairs(
            5,
            &[(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)],
            &[1., 2., 3., 4., 5.],
        )
        .unwrap();
        let sub = graph.induced(&[4, 0, 3]).unwrap();
        assert_eq!(sub.edges().collect::<Vec<_>>(), [(0, 1, 5.0), (0, 2, 4.0)]);
        assert!(graph.induced(&[1, 1]).is_err());
        assert!(graph.induced(&[5]).is_err());
    }

    #[test]
    fn components_of_isolated_nodes() {
        let (graph, _) = Graph::from_pairs(4, &[(1, 3)]).unwrap();
        assert_eq!(graph.components().cluster_of(), [0, 1, 2, 1]);
        assert_eq!(Graph::from_pairs(0, &[]).unwrap().0.components().num_clusters(), 0);
    }
}
