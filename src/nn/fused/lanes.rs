//! A batch dealt to lanes.
//!
//! The graphs of a batch go to lanes, so that all have about the same work, and few enough rows that what is done
//! to them stays in the cache. Arcs and attention stay inside a graph, so a lane needs nothing of another but the
//! sums of BatchNorm. Lanes are in groups, and lanes of a group add their derivatives by parameters into one
//! place. A thread takes whole groups, however many threads there are; what is computed in a lane, and the order in
//! which lanes and groups are summed, depends on the batch alone. So results are the same bytes for any number
//! of threads.

use std::cmp::Reverse;
use std::ops::Range;

use crate::nn::batch::Structure;
use crate::simd::padded;

/// Groups of lanes, and so threads that are of use, at most.
pub const GROUPS: usize = 8;
/// Rows of a lane, where graphs are small enough.
const ROWS: usize = 80;
/// Rows that a group is worth.
const GROUP_ROWS: usize = 160;

/// A batch as lanes see it.
#[derive(Debug)]
pub struct Lanes {
    lanes: Vec<Lane>,
    /// Lanes of a group.
    per_group: usize,
    rows: usize,
    /// The largest code and one more.
    codes: usize,
}

/// Some graphs of a batch. Rows and arcs are numbered anew.
#[derive(Debug, Default)]
pub struct Lane {
    /// Its graphs.
    pub spans: Spans,
    /// The node of the batch that each row is.
    pub nodes: Vec<u32>,
    /// Arcs by where they end: offsets of rows among arcs.
    pub entering: Vec<u32>,
    /// For each arc, the row where it starts.
    pub sources: Vec<u32>,
    /// For each arc, the row where it ends.
    pub targets: Vec<u32>,
    /// The arc of the batch that each arc is.
    pub arcs: Vec<u32>,
    /// Arcs by where they start: offsets of rows among `leaving_arcs`.
    pub leaving: Vec<u32>,
    /// Arcs in that order.
    pub leaving_arcs: Vec<u32>,
    cost: usize,
}

/// Graphs one after another, and their pairs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Spans {
    /// The graphs.
    pub graphs: Vec<Span>,
    /// The code of each pair, in rows padded to whole vectors; empty if there are none.
    pub codes: Vec<u32>,
}

/// A graph among others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its rows.
    pub rows: Range<usize>,
    /// Where its pairs begin, counted in padded rows.
    pub pairs: usize,
    /// Where its pairs begin in the batch, not padded.
    pub batch_pairs: usize,
}

impl Span {
    /// Number of nodes.
    pub fn size(&self) -> usize {
        self.rows.len()
    }

    /// Numbers of a padded row of pairs.
    pub fn stride(&self) -> usize {
        padded(self.size())
    }

    /// Padded pairs.
    pub fn pairs(&self) -> usize {
        self.size() * self.stride()
    }
}

impl Spans {
    /// Number of padded pairs.
    pub fn pairs(&self) -> usize {
        self.graphs.last().map_or(0, |span| span.pairs + span.pairs())
    }

    /// One more graph: its number of nodes, where its pairs begin in the batch, and their codes.
    pub fn add(&mut self, size: usize, batch_pairs: usize, codes: Option<&[u32]>) {
        let first = self.graphs.last().map_or(0, |span| span.rows.end);
        let span = Span { rows: first..first + size, pairs: self.pairs(), batch_pairs };
        for row in codes.into_iter().flat_map(|codes| codes.chunks_exact(size.max(1))) {
            self.codes.extend_from_slice(row);
            self.codes.resize(self.codes.len() + span.stride() - row.len(), 0);
        }
        self.graphs.push(span);
    }
}

impl Lane {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.nodes.len()
    }

    /// Number of arcs.
    pub fn num_arcs(&self) -> usize {
        self.arcs.len()
    }

    /// Number of padded pairs.
    pub fn pairs(&self) -> usize {
        self.spans.pairs()
    }

    /// Arcs that end at a row.
    pub fn entering(&self, row: usize) -> Range<usize> {
        self.entering[row] as usize..self.entering[row + 1] as usize
    }

    /// Arcs that start at a row.
    pub fn leaving(&self, row: usize) -> &[u32] {
        &self.leaving_arcs[self.leaving[row] as usize..self.leaving[row + 1] as usize]
    }

    fn add(&mut self, structure: &Structure, nodes: Range<usize>, batch_pairs: usize) {
        let first = self.rows();
        let local = |node: u32| (node as usize - nodes.start + first) as u32;
        let codes = structure.pairs.codes();
        let codes = codes.map(|codes| &codes[batch_pairs..][..nodes.len().pow(2)]);
        self.spans.add(nodes.len(), batch_pairs, codes);
        for node in nodes.clone() {
            self.nodes.push(node as u32);
            for &arc in structure.by_target.rows(node) {
                self.sources.push(local(structure.by_source.of_row()[arc as usize]));
                self.targets.push(local(node as u32));
                self.arcs.push(arc);
            }
            self.entering.push(self.arcs.len() as u32);
        }
    }

    /// Arcs by where they start, from those by where they end.
    fn finish(&mut self) {
        let mut leaving = vec![0u32; self.rows() + 1];
        for &source in &self.sources {
            leaving[source as usize + 1] += 1;
        }
        for row in 0..self.rows() {
            leaving[row + 1] += leaving[row];
        }
        let mut next = leaving.clone();
        self.leaving_arcs = vec![0; self.sources.len()];
        for (arc, &source) in self.sources.iter().enumerate() {
            let place = &mut next[source as usize];
            self.leaving_arcs[*place as usize] = arc as u32;
            *place += 1;
        }
        self.leaving = leaving;
    }
}

impl Lanes {
    /// Deals the graphs of a batch, the largest first, each to the lane that has least.
    pub fn new(structure: &Structure) -> Lanes {
        let nodes = structure.pairs.node_offsets();
        let graphs: Vec<Range<usize>> = nodes.windows(2).map(|pair| pair[0]..pair[1]).collect();
        // What is done to a row takes about 100 times what is done to a pair.
        let cost = |graph: usize| graphs[graph].len() * (100 + graphs[graph].len());
        let rows = nodes[nodes.len() - 1];
        let groups = (rows / GROUP_ROWS).clamp(2, GROUPS).min(graphs.len());
        // Groups first: they are what threads take.
        let dealt = deal(&(0..graphs.len()).map(cost).collect::<Vec<_>>(), groups);
        let fewest = dealt.iter().map(Vec::len).min().unwrap_or(0);
        let per_group = (rows / ROWS / groups).clamp(1, fewest.max(1));
        let mut lanes = Vec::with_capacity(groups * per_group);
        for group in dealt {
            let costs: Vec<usize> = group.iter().map(|&graph| cost(graph)).collect();
            for numbers in deal(&costs, per_group) {
                let mut lane = Lane { entering: vec![0], ..Lane::default() };
                for graph in numbers.into_iter().map(|number| group[number]) {
                    lane.cost += cost(graph);
                    let pairs = structure.pairs.pair_offsets()[graph];
                    lane.add(structure, graphs[graph].clone(), pairs);
                }
                lane.finish();
                lanes.push(lane);
            }
        }
        let codes = structure.pairs.codes().into_iter().flatten().max();
        Lanes { lanes, per_group, rows, codes: codes.map_or(0, |&code| code as usize + 1) }
    }

    /// All lanes; every one has a graph.
    pub fn all(&self) -> &[Lane] {
        &self.lanes
    }

    /// Rows of all lanes.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Codes that there are, at most.
    pub fn codes(&self) -> usize {
        self.codes
    }

    /// Number of groups.
    pub fn groups(&self) -> usize {
        self.lanes.len() / self.per_group
    }

    /// The group of a lane, and whether it is the first of its group.
    pub fn group_of(&self, lane: usize) -> (usize, bool) {
        (lane / self.per_group, lane.is_multiple_of(self.per_group))
    }

    /// The lanes of each of so many threads, group after group.
    pub fn shares(&self, threads: usize) -> Vec<Vec<usize>> {
        let groups = self.lanes.chunks(self.per_group);
        let costs: Vec<usize> =
            groups.map(|group| group.iter().map(|lane| lane.cost).sum()).collect();
        let lanes = |group: usize| group * self.per_group..(group + 1) * self.per_group;
        let dealt = deal(&costs, threads).into_iter();
        dealt.map(|groups| groups.into_iter().flat_map(lanes).collect()).collect()
    }
}

/// Deals things to hands, the costliest first, each to the hand that has least; in ascending order.
fn deal(costs: &[usize], hands: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..costs.len()).collect();
    order.sort_by_key(|&thing| (Reverse(costs[thing]), thing));
    let mut dealt = vec![Vec::new(); hands];
    let mut sums = vec![0; hands];
    for thing in order {
        let least = (0..hands).min_by_key(|&hand| (sums[hand], hand)).unwrap_or(0);
        sums[least] += costs[thing];
        dealt[least].push(thing);
    }
    dealt.iter_mut().for_each(|hand| hand.sort_unstable());
    dealt
}
