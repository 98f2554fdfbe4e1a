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
        let half = match (&self.weights, self.is_matrix) {
            (Some(weights), true) => upper_half(&self.arcs, weights),
            _ => None,
        };
        let (graph, repairs) = match (&half, &self.weights) {
            (Some((pairs, weights)), _) => {
                Graph::from_weighted_pairs(self.num_nodes, pairs, weights)?
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

type WeightedPairs = (Vec<(u32, u32)>, Vec<f32>);

/// The arcs (u, v) with u ≤ v, if for every arc its reverse has the same weight.
pub(super) fn upper_half(arcs: &[(u32, u32)], weights: &[f32]) -> Option<WeightedPairs> {
    let listed = || arcs.iter().zip(weights);
    let mut up: Vec<(u32, u32, u32)> =
        listed().filter(|((u, v), _)| u < v).map(|(&(u, v), w)| (u, v, w.to_bits())).collect();
    let mut down: Vec<(u32, u32, u32)> =
        listed().filter(|((u, v), _)| u > v).map(|(&(u, v), w)| (v, u, w.to_bits())).collect();
    up.sort_unstable();
    down.sort_unstable();
    if up != down {
        return None;
    }
    let half = listed().filter(|((u, v), _)| u <= v).map(|(&arc, &w)| (arc, w));
    Some(half.unzip())
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
