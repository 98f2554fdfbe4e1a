//! The surroundings of every node, as lists of rows: what SAT's k-subgraph extractor reads.
//!
//! The k-subgraph of node c has the nodes that reach c in at most k arcs, in ascending order, and the arcs between them. Node states
//! are looked up by row, so nothing but four lists of 32-bit numbers is kept for each set of surroundings. Sizes add up to
//! far more than the graph has, so they are counted, and refused if they are too many, before anything is written.
//!
//! Time O(Σ over nodes of the arcs in its surroundings).

use std::sync::Arc;

use super::batch::Structure;
use super::ops::rows::Groups;
use crate::data::Edges;
use crate::{MemoryLimit, Result};

/// The k-subgraphs of all nodes, one after another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subgraphs {
    /// Number of nodes of every subgraph.
    pub sizes: Vec<usize>,
    /// The node that each row is.
    pub nodes: Vec<u32>,
    /// The arc of the whole graph that each arc is.
    pub arcs: Vec<u32>,
    /// Arcs between rows.
    pub edges: Edges,
}

/// Subgraphs as message passing reads them.
#[derive(Clone, Debug)]
pub struct Union {
    /// Rows of the nodes that they are.
    pub nodes: Arc<Groups>,
    /// Arcs of the arcs that they are.
    pub arcs: Arc<Groups>,
    /// Arcs between rows; "graphs" are subgraphs.
    pub structure: Structure,
}

impl Subgraphs {
    /// Those of a graph with so many nodes and these arcs.
    ///
    /// # Errors
    /// If the lists need more memory than `limit`.
    pub fn new(nodes: usize, edges: &Edges, hops: usize, limit: MemoryLimit) -> Result<Subgraphs> {
        let arriving = Groups::new(edges.targets.clone(), nodes);
        let leaving = Groups::new(edges.sources.clone(), nodes);
        let mut search = Search { last: vec![0; nodes], now: 0, found: Vec::new() };
        let (mut rows, mut arcs) = (0u128, 0u128);
        for centre in 0..nodes as u32 {
            search.around(centre, hops, &arriving, edges);
            rows += search.found.len() as u128;
            arcs += search
                .found
                .iter()
                .map(|&node| leaving.rows(node as usize).len() as u128)
                .sum::<u128>();
        }
        limit.check(
            4 * (rows + 3 * arcs),
            &format!("surroundings of {hops} hops of {nodes} nodes, {rows} rows in all,"),
            "take fewer hops, `extractor.subtree`, or smaller graphs, or raise the limit",
        )?;
        let mut all = Subgraphs::default();
        let mut row_of = vec![0; nodes];
        for centre in 0..nodes as u32 {
            search.around(centre, hops, &arriving, edges);
            let first = all.nodes.len();
            for (place, &node) in search.found.iter().enumerate() {
                row_of[node as usize] = (first + place) as u32;
            }
            for &source in &search.found {
                for &arc in leaving.rows(source as usize) {
                    let target = edges.targets[arc as usize];
                    if search.last[target as usize] == search.now {
                        all.arcs.push(arc);
                        all.edges.sources.push(row_of[source as usize]);
                        all.edges.targets.push(row_of[target as usize]);
                    }
                }
            }
            all.sizes.push(search.found.len());
            all.nodes.extend(&search.found);
        }
        Ok(all)
    }

    /// Bytes of the lists.
    pub fn bytes(&self) -> u128 {
        4 * (self.nodes.len() as u128 + 3 * self.arcs.len() as u128)
    }

    /// Those of graphs that are stacked, with the nodes and arcs that each of them has.
    pub fn merge(parts: &[&Subgraphs], nodes: &[usize], arcs: &[usize]) -> Subgraphs {
        let mut all = Subgraphs::default();
        let (mut first_node, mut first_arc) = (0, 0);
        for (part, (nodes, arcs)) in parts.iter().zip(nodes.iter().zip(arcs)) {
            let first_row = all.nodes.len() as u32;
            all.sizes.extend(&part.sizes);
            all.nodes.extend(part.nodes.iter().map(|node| node + first_node));
            all.arcs.extend(part.arcs.iter().map(|arc| arc + first_arc));
            all.edges.sources.extend(part.edges.sources.iter().map(|row| row + first_row));
            all.edges.targets.extend(part.edges.targets.iter().map(|row| row + first_row));
            first_node += *nodes as u32;
            first_arc += *arcs as u32;
        }
        all
    }

    /// For message passing in a graph with so many nodes and arcs.
    pub fn union(&self, nodes: usize, arcs: usize) -> Union {
        Union {
            nodes: Groups::new(self.nodes.clone(), nodes),
            arcs: Groups::new(self.arcs.clone(), arcs),
            structure: Structure::new(&self.sizes, &self.edges, None),
        }
    }
}

/// A search against the direction of arcs, whose memory is used again.
struct Search {
    /// The last search that found a node.
    last: Vec<u64>,
    /// The number of this search.
    now: u64,
    found: Vec<u32>,
}

impl Search {
    /// Finds the nodes that reach `centre` in at most `hops` arcs, in ascending order.
    fn around(&mut self, centre: u32, hops: usize, arriving: &Groups, edges: &Edges) {
        self.found.clear();
        self.found.push(centre);
        self.now += 1;
        self.last[centre as usize] = self.now;
        let mut next = 0;
        for _ in 0..hops {
            let end = self.found.len();
            for place in next..end {
                for &arc in arriving.rows(self.found[place] as usize) {
                    let source = edges.sources[arc as usize];
                    if self.last[source as usize] != self.now {
                        self.last[source as usize] = self.now;
                        self.found.push(source);
                    }
                }
            }
            next = end;
        }
        self.found.sort_unstable();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surroundings_are_nodes_in_reach_and_arcs_between_them() {
        // 0 → 1 → 2, and 2 ⇄ 3.
        let edges = Edges { sources: vec![0, 1, 2, 3], targets: vec![1, 2, 3, 2] };
        let found = Subgraphs::new(4, &edges, 1, MemoryLimit::NONE).unwrap();
        assert_eq!(found.sizes, [1, 2, 3, 2]);
        assert_eq!(found.nodes, [0, 0, 1, 1, 2, 3, 2, 3]);
        assert_eq!(found.arcs, [0, 1, 2, 3, 2, 3]);
        assert_eq!(found.edges.sources, [1, 3, 4, 5, 6, 7]);
        assert_eq!(found.edges.targets, [2, 4, 5, 4, 7, 6]);
        let whole = Subgraphs::new(4, &edges, 9, MemoryLimit::NONE).unwrap();
        assert_eq!(whole.sizes, [1, 2, 4, 4]);
        let none = Subgraphs::new(4, &edges, 0, MemoryLimit::NONE).unwrap();
        assert_eq!((&none.nodes[..], none.arcs.len()), (&[0, 1, 2, 3][..], 0));
        let error = Subgraphs::new(4, &edges, 9, MemoryLimit(100)).unwrap_err();
        assert!(error.is_memory() && error.to_string().contains("11 rows"), "{error}");
    }

    #[test]
    fn stacked_graphs_keep_their_own() {
        let edges = Edges { sources: vec![0, 1], targets: vec![1, 0] };
        let one = Subgraphs::new(2, &edges, 2, MemoryLimit::NONE).unwrap();
        let two = Edges { sources: vec![0, 1, 2, 3], targets: vec![1, 0, 3, 2] };
        let both = Subgraphs::new(4, &two, 2, MemoryLimit::NONE).unwrap();
        assert_eq!(Subgraphs::merge(&[&one, &one], &[2, 2], &[2, 2]), both);
    }
}
