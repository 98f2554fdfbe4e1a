//! Probabilities of random walks between all nodes of each graph of a batch: what GRIT begins with.
//!
//! They are computed for each batch, in the thread that stacks it: that takes less than reading them from anywhere, and a set
//! of molecules would need hundreds of megabytes.

use super::ops::attention::Pairs;
use crate::data::Edges;
use crate::encoding::{SelfLoops, Walk, relative_walk};
use crate::{MemoryLimit, Result};

/// (I, M, M², …)_ij for all pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct Walks {
    /// How many powers.
    pub powers: usize,
    /// `[pairs, powers]`.
    pub values: Vec<f32>,
}

impl Walks {
    /// Those of graphs with so many nodes each, along these arcs.
    pub fn new(sizes: &[usize], edges: &Edges, powers: usize) -> Result<Walks> {
        let graphs = sizes.iter().enumerate();
        let of_node: Vec<usize> =
            graphs.flat_map(|(graph, &size)| std::iter::repeat_n(graph, size)).collect();
        let mut own = vec![Edges::default(); sizes.len()];
        let mut firsts = Vec::with_capacity(sizes.len());
        let mut first = 0u32;
        for &size in sizes {
            firsts.push(first);
            first += size as u32;
        }
        for (&source, &target) in edges.sources.iter().zip(&edges.targets) {
            let graph = of_node[source as usize];
            own[graph].sources.push(source - firsts[graph]);
            own[graph].targets.push(target - firsts[graph]);
        }
        let mut values = Vec::new();
        for (&size, edges) in sizes.iter().zip(&own) {
            let walk = Walk::new(size, &edges.sources, &edges.targets, SelfLoops::Keep)?;
            values.extend(relative_walk(&walk, powers, MemoryLimit::NONE)?);
        }
        Ok(Walks { powers, values })
    }

    /// Those from a node to itself: `[nodes, powers]`.
    pub fn diagonal(&self, pairs: &Pairs) -> Vec<f32> {
        let graphs = pairs.node_offsets().windows(2).zip(pairs.pair_offsets());
        let own = graphs.flat_map(|(ends, &start)| {
            let size = ends[1] - ends[0];
            (0..size).map(move |node| start + node * size + node)
        });
        own.flat_map(|pair| &self.values[pair * self.powers..][..self.powers]).copied().collect()
    }
}
