//! What all readers of one graph share: from arcs to a set of one sample.

use std::collections::HashMap;

use rayon::prelude::*;

use super::{Edges, GraphSet, Matrix, ReadOptions, Sample, Shard, Source, Values};
use crate::{Error, Graph, Result};

/// One graph as a reader finds it.
#[derive(Default)]
pub(super) struct Single {
    pub num_nodes: usize,
    /// Arcs in the order given.
    pub arcs: Vec<(u32, u32)>,
    /// Weights of arcs, checked already.
    pub weights: Option<Vec<f32>>,
    /// Whether arcs are the entries of a matrix, so that (u, v) and (v, u) of equal weight are one
    /// edge of that weight and not two listings that add up.
    pub is_matrix: bool,
    /// Original ids, where they are not 0 … n − 1.
    pub ids: Option<Vec<String>>,
    pub node_feat: Option<Matrix>,
    pub y: Option<Values>,
}

impl Single {
    pub(super) fn into_set(self, source: &Source, options: &ReadOptions) -> Result<GraphSet> {
        let whole = Shard { index: 0, count: 1 };
        let range = options.shard.unwrap_or(whole).range(1);
        let first = range.start;
        let (ids, samples) = match range.is_empty() {
            true => (None, Vec::new()),
            false => {
                let (ids, sample) = self.into_sample(options)?;
                (ids, vec![sample])
            }
        };
        Ok(GraphSet { samples, first, total: 1, hash: source.hash().to_string(), ids })
    }

    fn into_sample(self, options: &ReadOptions) -> Result<(Option<Vec<String>>, Sample)> {
        check_size(self.num_nodes, self.arcs.len(), options)?;
        let matrix = match (&self.weights, self.is_matrix) {
            (Some(weights), true) => Some(matrix_edges(&self.arcs, weights)),
            _ => None,
        };
        let (graph, repairs) = match (&matrix, &self.weights) {
            (Some(edges), _) => {
                Graph::from_weighted_pairs(self.num_nodes, &edges.pairs, &edges.weights)?
            }
            (None, Some(weights)) => {
                Graph::from_weighted_pairs(self.num_nodes, &self.arcs, weights)?
            }
            (None, None) => Graph::from_pairs(self.num_nodes, &self.arcs)?,
        };
        let mut sample = Sample::bare(Edges::default(), graph, repairs);
        if options.features {
            (sample.edges.sources, sample.edges.targets) = self.arcs.into_iter().unzip();
            sample.node_feat = self.node_feat;
            sample.y = self.y;
        }
        Ok((self.ids, sample))
    }
}

/// Refuses a graph that can't fit: 16 bytes per node and per arc while it is built.
pub(super) fn check_size(nodes: usize, arcs: usize, options: &ReadOptions) -> Result<()> {
    if nodes == 0 {
        return Err(Error::data("the graph has no node"));
    }
    options.limit.check(
        (nodes as u128 + arcs as u128) * 16,
        &format!("a graph of {nodes} nodes and {arcs} edges"),
        "check the sizes the file states, or raise `--max-memory`",
    )
}

/// The edges of a weighted matrix.
pub(super) struct MatrixEdges {
    pub pairs: Vec<(u32, u32)>,
    pub weights: Vec<f32>,
    /// Edges whose two directions are not equal.
    pub uneven: usize,
}

/// Takes arcs as entries of a matrix: repeated entries add up; (u, v) and (v, u) of equal weight are one
/// edge of that weight, others add up; entries of weight 0 are no edges.
pub(super) fn matrix_edges(arcs: &[(u32, u32)], weights: &[f32]) -> MatrixEdges {
    let mut entries: Vec<(u32, u32, bool, f32)> =
        arcs.iter().zip(weights).map(|(&(u, v), &w)| (u.min(v), u.max(v), u > v, w)).collect();
    entries.sort_unstable_by_key(|&(u, v, down, w)| (u, v, down, w.to_bits()));
    let mut edges = MatrixEdges { pairs: Vec::new(), weights: Vec::new(), uneven: 0 };
    for edge in entries.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let sum = |down: bool| {
            let side = edge.iter().filter(|e| e.2 == down);
            side.map(|e| f64::from(e.3)).sum::<f64>() as f32
        };
        let (up, down) = (sum(false), sum(true));
        let (u, v) = (edge[0].0, edge[0].1);
        edges.uneven += usize::from(u != v && up != down);
        let weight = if up == down { up } else { up + down };
        if weight > 0.0 {
            edges.pairs.push((u, v));
            edges.weights.push(weight);
        }
    }
    edges
}

/// Nodes named by numbers: 0 … n − 1 stay, others are numbered in ascending order.
pub(super) fn label_numbers(ends: Vec<u64>) -> Labels {
    let mut distinct = ends.clone();
    distinct.par_sort_unstable();
    distinct.dedup();
    let count = distinct.len();
    if distinct.last().is_some_and(|&last| last == count as u64 - 1) {
        let labels = ends.iter().map(|&id| id as u32).collect();
        return Labels { labels, ids: None, count };
    }
    let rank = |id| distinct.binary_search(id).expect("every id was collected") as u32;
    let labels = ends.par_iter().map(rank).collect();
    Labels { labels, ids: Some(distinct.iter().map(u64::to_string).collect()), count }
}

/// Nodes named by words, numbered in order of appearance.
pub(super) fn label_words<'a>(ends: impl Iterator<Item = &'a str>) -> Labels {
    let mut known = HashMap::new();
    let mut ids = Vec::new();
    let label = |id| {
        *known.entry(id).or_insert_with(|| {
            ids.push(String::from(id));
            ids.len() as u32 - 1
        })
    };
    let labels = ends.map(label).collect();
    let count = ids.len();
    Labels { labels, ids: Some(ids), count }
}

/// Numbers of nodes that were named otherwise, source and target of each arc in turn.
pub(super) struct Labels {
    pub labels: Vec<u32>,
    pub ids: Option<Vec<String>>,
    pub count: usize,
}

impl Labels {
    pub(super) fn into_single(self, weights: Option<Vec<f32>>) -> Single {
        let arcs = self.labels.as_chunks::<2>().0.iter().map(|&[u, v]| (u, v)).collect();
        Single { num_nodes: self.count, arcs, weights, ids: self.ids, ..Single::default() }
    }
}

/// A whole number below `bound` from text, for ids that count from `base`.
pub(super) fn parse_id(text: &str, base: u64, bound: usize) -> Result<u32> {
    let last = base + bound as u64 - u64::from(bound > 0);
    match text.parse::<u64>() {
        Ok(id) if id >= base && id - base < bound as u64 => Ok((id - base) as u32),
        Ok(id) => Err(Error::data(format!("node {id} is out of range {base} … {last}"))),
        Err(_) => Err(Error::data(format!("`{text}` is not a node id"))),
    }
}
