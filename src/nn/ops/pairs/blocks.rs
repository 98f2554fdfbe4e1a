//! Pairs of a batch in the order they are gone through: shares of graphs, and blocks of rows that stay in the cache.

use std::ops::Range;

use super::super::attention::Pairs;
use super::super::dense::BLOCK;
use super::Graph;

/// Parts that graphs are in, at most.
const SHARES: usize = 16;

/// Some graphs in a row.
pub(super) struct Share {
    pub graphs: Vec<Graph>,
    pub nodes: Range<usize>,
    pub pairs: Range<usize>,
}

/// Some rows of pairs of a graph: from nodes `row..row + rows` of it to all.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub nodes: Range<usize>,
    pub row: usize,
    pub rows: usize,
    /// Number of the first pair.
    pub first: usize,
}

impl Block {
    /// Nodes of the graph.
    pub fn size(&self) -> usize {
        self.nodes.len()
    }

    /// Pairs of the block.
    pub fn count(&self) -> usize {
        self.rows * self.size()
    }

    /// Numbers of its pairs, `each` for one.
    pub fn of<'a>(&self, numbers: &'a [f32], each: usize) -> &'a [f32] {
        &numbers[self.first * each..][..self.count() * each]
    }
}

impl Share {
    /// All graphs, in shares with about as many pairs each.
    pub fn all(pairs: &Pairs) -> Vec<Share> {
        let enough = pairs.len().div_ceil(SHARES);
        let mut shares: Vec<Share> = Vec::new();
        for (nodes, own) in pairs.graphs() {
            match shares.last_mut().filter(|share| share.pairs.len() < enough) {
                Some(share) => {
                    share.nodes.end = nodes.end;
                    share.pairs.end = own.end;
                    share.graphs.push((nodes, own));
                }
                None => shares.push(Share {
                    nodes: nodes.clone(),
                    pairs: own.clone(),
                    graphs: vec![(nodes, own)],
                }),
            }
        }
        shares
    }

    pub fn blocks(&self) -> impl Iterator<Item = Block> + '_ {
        let graphs = self.graphs.iter().filter(|(nodes, _)| !nodes.is_empty());
        graphs.flat_map(|(nodes, pairs)| {
            let (size, first) = (nodes.len(), pairs.start);
            let most = (BLOCK / size).max(1);
            (0..size).step_by(most).map(move |row| Block {
                nodes: nodes.clone(),
                row,
                rows: most.min(size - row),
                first: first + row * size,
            })
        })
    }

    /// Pairs of the longest block, and nodes of the largest graph.
    pub fn most(&self) -> [usize; 2] {
        let size = self.graphs.iter().map(|(nodes, _)| nodes.len()).max().unwrap_or(0);
        [self.blocks().map(|block| block.count()).max().unwrap_or(0), size]
    }
}
