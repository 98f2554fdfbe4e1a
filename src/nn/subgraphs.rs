//! The surroundings of every node, as lists of rows: what SAT's k-subgraph extractor reads.
//!
//! The k-subgraph of node c has the nodes that reach c in at most k arcs, in ascending order, and the arcs between them. Node states
//! are looked up by row, so nothing but lists of 32-bit numbers is kept. Sizes add up to
//! far more than the graph has, so they are counted, and refused if they are too many, before anything is written.
//!
//! Most of it is said many times over. A node deep inside the surroundings of two others gets the same messages in both, and after t
//! layers its state depends on what is within t hops of it. [`Subgraphs::with_levels`] finds, layer by layer, the rows that can't
//! differ: those of one node whose own rows and senders were equal before, over the same arcs. Of ZINC's 27,000 rows in a batch of
//! 128 graphs, 7,000 are left in the first layer, 11,000 in the second and 17,000 in the third.
//!
//! Time O(Σ over nodes of the arcs in its surroundings), for each layer.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::batch::Structure;
use super::ops::messages::Links;
use super::ops::propagate::Propagation;
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
    /// Rows that differ, layer by layer; none if they were not asked for.
    pub levels: Vec<Level>,
    /// For every row, which of the last level it is.
    pub last: Vec<u32>,
}

/// Rows that differ after a layer of message passing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// The row of the level before that each one was; a node before the first.
    pub own: Vec<u32>,
    /// The arc of the whole graph that each arc is.
    pub arcs: Vec<u32>,
    /// Arcs from rows of the level before to those of this one.
    pub edges: Edges,
}

/// Subgraphs of a batch as message passing reads them.
#[derive(Debug)]
pub struct Surroundings {
    lists: Arc<Subgraphs>,
    nodes: usize,
    arcs: usize,
    union: OnceLock<Union>,
    levels: Option<Levels>,
}

/// Rows that differ, as message passing reads them.
#[derive(Debug)]
pub struct Levels {
    /// What every layer reads.
    pub links: Vec<Links>,
    /// From rows of the last level to sums over surroundings.
    pub sums: Arc<Propagation>,
}

/// All rows as message passing reads them.
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

    /// Finds the rows that differ after each of so many layers, in which a message depends on its sender, its receiver
    /// and its arc alone.
    ///
    /// # Errors
    /// If their lists could need more memory than `limit`.
    pub fn with_levels(mut self, layers: usize, limit: MemoryLimit) -> Result<Subgraphs> {
        let rows = self.nodes.len();
        limit.check(
            4 * ((layers as u128 + 3) * rows as u128
                + 3 * (layers as u128 + 2) * self.arcs.len() as u128),
            &format!("rows that differ in surroundings, of {rows} rows in all,"),
            "take fewer hops, `extractor.subtree`, or smaller graphs, or raise the limit",
        )?;
        let arriving = Groups::new(self.edges.targets.clone(), rows);
        // The row of the level before, for every row of all.
        let mut before = self.nodes.clone();
        self.levels.clear();
        for _ in 0..layers {
            let mut level = Level::default();
            let mut known: HashMap<Vec<u32>, u32> = HashMap::new();
            let mut after = Vec::with_capacity(rows);
            for row in 0..rows {
                let arcs = arriving.rows(row);
                let mut key = Vec::with_capacity(1 + 2 * arcs.len());
                key.push(before[row]);
                for &arc in arcs {
                    let source = self.edges.sources[arc as usize];
                    key.extend([self.arcs[arc as usize], before[source as usize]]);
                }
                let next = level.own.len() as u32;
                let found = *known.entry(key).or_insert(next);
                if found == next {
                    level.own.push(before[row]);
                    for &arc in arcs {
                        let source = self.edges.sources[arc as usize];
                        level.arcs.push(self.arcs[arc as usize]);
                        level.edges.sources.push(before[source as usize]);
                        level.edges.targets.push(next);
                    }
                }
                after.push(found);
            }
            self.levels.push(level);
            before = after;
        }
        self.last = before;
        Ok(self)
    }

    /// Bytes of the lists.
    pub fn bytes(&self) -> u128 {
        let of_level = |level: &Level| level.own.len() as u128 + 3 * level.arcs.len() as u128;
        let levels: u128 = self.levels.iter().map(of_level).sum();
        4 * (self.nodes.len() as u128
            + 3 * self.arcs.len() as u128
            + levels
            + self.last.len() as u128)
    }

    /// Those of graphs that are stacked, with the nodes and arcs that each of them has.
    pub fn merge(parts: &[&Subgraphs], nodes: &[usize], arcs: &[usize]) -> Subgraphs {
        let mut all = Subgraphs::default();
        let levels = parts.iter().map(|part| part.levels.len()).min().unwrap_or(0);
        all.levels.resize_with(levels, Level::default);
        let (mut first_node, mut first_arc) = (0, 0);
        for (part, (nodes, arcs)) in parts.iter().zip(nodes.iter().zip(arcs)) {
            let first_row = all.nodes.len() as u32;
            let mut before = first_node;
            for (all, own) in all.levels.iter_mut().zip(&part.levels) {
                let first = all.own.len() as u32;
                all.own.extend(own.own.iter().map(|row| row + before));
                all.arcs.extend(own.arcs.iter().map(|arc| arc + first_arc));
                all.edges.sources.extend(own.edges.sources.iter().map(|row| row + before));
                all.edges.targets.extend(own.edges.targets.iter().map(|row| row + first));
                before = first;
            }
            if levels > 0 {
                all.last.extend(part.last.iter().map(|row| row + before));
            }
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
}

impl Surroundings {
    /// For message passing in a batch with so many nodes and arcs.
    pub fn new(lists: &Arc<Subgraphs>, nodes: usize, arcs: usize) -> Surroundings {
        let levels = (!lists.levels.is_empty()).then(|| Levels::new(lists, nodes, arcs));
        Surroundings { lists: lists.clone(), nodes, arcs, union: OnceLock::new(), levels }
    }

    /// All rows, worked out when they are first asked for.
    pub fn union(&self) -> &Union {
        self.union.get_or_init(|| Union {
            nodes: Groups::new(self.lists.nodes.clone(), self.nodes),
            arcs: Groups::new(self.lists.arcs.clone(), self.arcs),
            structure: Structure::new(&self.lists.sizes, &self.lists.edges, None),
        })
    }

    /// Rows that differ, if they are known for so many layers.
    pub fn levels(&self, layers: usize) -> Option<&Levels> {
        self.levels.as_ref().filter(|levels| levels.links.len() == layers)
    }

    /// Rows and arcs of all.
    pub fn counts(&self) -> [usize; 2] {
        [self.lists.nodes.len(), self.lists.arcs.len()]
    }
}

impl Levels {
    /// Rows of all layers.
    pub fn rows(&self) -> usize {
        self.links.iter().map(|links| links.receiving()).sum()
    }

    fn new(lists: &Subgraphs, nodes: usize, arcs: usize) -> Levels {
        let mut before = nodes;
        let links = |level: &Level| {
            let rows = level.own.len();
            let links = Links::new(
                Some(Groups::new(level.own.clone(), before)),
                Groups::new(level.edges.sources.clone(), before),
                Groups::new(level.edges.targets.clone(), rows),
                Some(Groups::new(level.arcs.clone(), arcs)),
            );
            before = rows;
            links
        };
        let links = lists.levels.iter().map(links).collect();
        let centres = lists.sizes.iter().zip(0..);
        let centres = centres.flat_map(|(&size, centre)| std::iter::repeat_n(centre, size));
        let (last, centres) =
            (Groups::new(lists.last.clone(), before), Groups::new(centres.collect(), nodes));
        let ones = vec![1.0; lists.last.len()];
        Levels { links, sums: Arc::new(Propagation::new(last, centres, ones)) }
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
    fn rows_that_can_not_differ_are_one() {
        // A path of seven nodes, both ways.
        let (sources, targets) = (0..6).flat_map(|u| [(u, u + 1), (u + 1, u)]).unzip();
        let edges = Edges { sources, targets };
        let found = Subgraphs::new(7, &edges, 2, MemoryLimit::NONE).unwrap();
        assert!(found.clone().with_levels(3, MemoryLimit(100)).unwrap_err().is_memory());
        let found = found.with_levels(3, MemoryLimit::NONE).unwrap();
        assert_eq!(found.nodes.len(), 3 + 4 + 5 * 3 + 4 + 3);
        let counts: Vec<usize> = found.levels.iter().map(|level| level.own.len()).collect();
        // In the first layer a node differs by which of its neighbours are there; those at the ends have one only.
        assert_eq!(counts[0], 1 + 2 + 3 * 3 + 2 + 1);
        assert!(counts.is_sorted() && counts[2] <= found.nodes.len(), "{counts:?}");
        // By hand: states are numbers, a layer adds up, and every arc has a factor of its own.
        let arriving = Groups::new(found.edges.targets.clone(), found.nodes.len());
        let mut all: Vec<f64> = found.nodes.iter().map(|&node| f64::from(node) + 0.5).collect();
        let mut few: Vec<f64> = (0..7).map(|node| f64::from(node) + 0.5).collect();
        for level in &found.levels {
            let message =
                |from: &[f64], source: u32, arc: u32| from[source as usize] * f64::from(arc + 2);
            all = (0..all.len())
                .map(|row| {
                    let arcs = arriving.rows(row).iter().map(|&arc| arc as usize);
                    all[row]
                        + arcs
                            .map(|arc| message(&all, found.edges.sources[arc], found.arcs[arc]))
                            .sum::<f64>()
                })
                .collect();
            let mut next: Vec<f64> = level.own.iter().map(|&row| few[row as usize]).collect();
            for (arc, &number) in level.arcs.iter().enumerate() {
                next[level.edges.targets[arc] as usize] +=
                    message(&few, level.edges.sources[arc], number);
            }
            few = next;
        }
        let looked_up: Vec<f64> = found.last.iter().map(|&row| few[row as usize]).collect();
        assert_eq!(looked_up, all);
    }

    #[test]
    fn stacked_graphs_keep_their_own() {
        let edges = Edges { sources: vec![0, 1], targets: vec![1, 0] };
        let of = |nodes, edges| {
            let found = Subgraphs::new(nodes, edges, 2, MemoryLimit::NONE).unwrap();
            found.with_levels(2, MemoryLimit::NONE).unwrap()
        };
        let one = of(2, &edges);
        let two = Edges { sources: vec![0, 1, 2, 3], targets: vec![1, 0, 3, 2] };
        let both = of(4, &two);
        assert_eq!(Subgraphs::merge(&[&one, &one], &[2, 2], &[2, 2]), both);
    }
}
