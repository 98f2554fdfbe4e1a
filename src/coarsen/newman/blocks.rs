//! Betweenness block by block.
//!
//! A *block* is a maximal piece of the graph that no single node holds together: a bridge, a ring, a
//! system of fused rings, a dense core. Paths between two blocks all pass the nodes where blocks meet,
//! so within a block it is enough to know how many nodes of the component hang on each of its nodes,
//! that one included: the *weight* w. With W nodes in the component,
//!
//! * a bridge with s nodes on one side has betweenness 2 s (W − s);
//! * in a ring, paths run both ways around: sums of weights, no search;
//! * elsewhere, searches within the block, from node s to node t, count w_s · w_t paths.
//!
//! Taking a bridge away changes weights in its component, but no block. Taking any other edge away
//! changes its own block and no other. Blocks and weights come from one depth-first walk (Hopcroft &
//! Tarjan, "Efficient algorithms for graph manipulation", 1973), linear in the component. Dense blocks
//! are [kept](super::kept) and updated.
//!
//! Molecules are bridges and small rings: a step is linear there, where searching from every node is
//! quadratic.

use std::collections::BTreeMap;

use super::adjacency::Adjacency;
use super::components::Components;
use super::kept::Kept;
use super::search::{SCALED_FROM, Search, View};
use super::{Dissolve, ROUNDING};
use crate::monitor::{self, Monitor};
use crate::{Graph, Result};

/// Most bytes for kept blocks together; others are searched anew.
pub(super) const KEEP_BYTES: usize = 1 << 30;

/// Number of a block that is a bridge.
const BRIDGE: u32 = 0;

pub(super) struct Blocks<'a> {
    graph: &'a Graph,
    monitor: &'a dyn Monitor,
    ends: Vec<(u32, u32)>,
    left: Adjacency,
    /// Of every edge that is left, every pair of nodes counted once from each end.
    pub betweenness: Vec<f64>,
    /// Number of the block of every edge.
    block: Vec<u32>,
    /// Position of every edge in its block, if that is kept.
    position: Vec<u32>,
    next_block: u32,
    kept: BTreeMap<u32, Kept>,
    /// Bytes of memory that may still be used for kept blocks.
    left_to_keep: usize,
    pub components: Components,
    highest: Vec<Highest>,
    walk: Walk,
    piece: Piece,
}

/// The highest betweenness in a component, and all edges that have it but for rounding.
#[derive(Default)]
struct Highest {
    value: f64,
    edges: Vec<u32>,
}

impl<'a> Dissolve<'a> for Blocks<'a> {
    fn new(graph: &'a Graph, monitor: &'a dyn Monitor) -> Result<Self> {
        let n = graph.num_nodes();
        let (left, ends) = Adjacency::of_graph(graph);
        let components = Components::new(graph);
        let mut this = Blocks {
            graph,
            monitor,
            betweenness: vec![0.0; ends.len()],
            block: vec![BRIDGE; ends.len()],
            position: Vec::new(),
            next_block: BRIDGE + 1,
            kept: BTreeMap::new(),
            left_to_keep: KEEP_BYTES,
            highest: Vec::with_capacity(components.count()),
            components,
            walk: Walk::new(n),
            piece: Piece::default(),
            ends,
            left,
        };
        for c in 0..this.components.count() as u32 {
            this.highest.push(Highest::default());
            this.walk.run(&this.left, this.components.nodes(c)[0]);
            this.accumulate(None)?;
            this.find_highest(c);
        }
        Ok(this)
    }

    fn ends(&self) -> &[(u32, u32)] {
        &self.ends
    }

    fn components(&self) -> &Components {
        &self.components
    }

    fn tied(&self, edges: &mut Vec<u32>) {
        let highest = self.highest.iter().map(|h| h.value).fold(0.0, f64::max);
        let least = highest * (1.0 - ROUNDING);
        edges.clear();
        for component in self.highest.iter().filter(|h| h.value >= least) {
            let tied = component.edges.iter().filter(|&&e| self.betweenness[e as usize] >= least);
            edges.extend(tied);
        }
    }

    fn remove(&mut self, edge: u32) -> Result<bool> {
        let (u, v) = self.ends[edge as usize];
        let component = self.components.of(u);
        let block = self.block[edge as usize];
        self.left.remove(edge, (u, v));
        if block == BRIDGE {
            self.walk.run(&self.left, u);
            self.accumulate(None)?;
            let first = std::mem::take(&mut self.walk.order);
            self.walk.run(&self.left, v);
            self.accumulate(None)?;
            let new = self.components.split(self.graph, &self.left, &first, &self.walk.order);
            self.walk.spare = first;
            self.highest.push(Highest::default());
            self.find_highest(new);
        } else {
            self.walk.run(&self.left, u);
            self.accumulate(Some((edge, block)))?;
        }
        self.find_highest(component);
        Ok(block == BRIDGE)
    }
}

impl Blocks<'_> {
    fn find_highest(&mut self, component: u32) {
        let nodes = self.components.nodes(component);
        // Every edge once, from the end that has the smaller number.
        let edges = nodes.iter().flat_map(|&u| {
            self.left.row(u).iter().filter(move |entry| entry.node > u).map(|entry| entry.edge)
        });
        let Highest { value, edges: tied } = &mut self.highest[component as usize];
        *value = 0.0;
        tied.clear();
        for edge in edges {
            let b = self.betweenness[edge as usize];
            debug_assert!(b.is_finite());
            if b >= *value * (1.0 - ROUNDING) {
                if b * (1.0 - ROUNDING) > *value {
                    tied.clear();
                }
                *value = value.max(b);
                tied.push(edge);
            }
        }
    }

    /// Betweenness of all edges that the walk has passed; if one was `removed` from a block, only of
    /// those in that block.
    fn accumulate(&mut self, removed: Option<(u32, u32)>) -> Result<()> {
        if let Some((edge, block)) = removed
            && let Some(kept) = self.kept.get_mut(&block)
        {
            kept.remove(self.position[edge as usize], self.monitor)?;
        }
        let walk = &self.walk;
        let total = walk.order.len() as f64;
        let mut start = 0;
        for found in &walk.blocks {
            let edges = &walk.block_edges[start..found.end];
            start = found.end;
            let first = edges[0] as usize;
            if let &[_] = edges {
                let below = f64::from(walk.nodes[found.below as usize].size);
                self.betweenness[first] = 2.0 * below * (total - below);
                self.block[first] = BRIDGE;
                continue;
            }
            let old = self.block[first];
            if removed.is_some_and(|(_, changed)| changed != old) {
                continue;
            }
            self.piece.fill(walk, found, edges, &self.ends, total);
            let size = (self.piece.nodes.len(), edges.len());
            let worth = Kept::is_worth(size.0, size.1);
            if let Some(kept) = self.kept.get_mut(&old)
                && worth
                && kept.size() == size
                && kept.reweigh(|node| self.piece.weight_of(node), self.monitor)?
            {
                for &e in edges {
                    let position = self.position[e as usize] as usize;
                    self.betweenness[e as usize] = kept.flow()[position];
                }
                continue;
            }
            if let Some(kept) = self.kept.remove(&old) {
                self.left_to_keep += Kept::bytes(kept.capacity());
            }
            let number = self.next_block;
            self.next_block = number.wrapping_add(1).max(BRIDGE + 1);
            for &e in edges {
                self.block[e as usize] = number;
            }
            let flow = if size.0 == size.1 {
                self.piece.around();
                &self.piece.flow
            } else if worth && Kept::bytes(size.0) <= self.left_to_keep {
                self.left_to_keep -= Kept::bytes(size.0);
                self.position.resize(self.ends.len(), 0);
                for (i, &e) in edges.iter().enumerate() {
                    self.position[e as usize] = i as u32;
                }
                let kept = self.kept.entry(number).or_default();
                let Piece { nodes, weight, ends, .. } = &self.piece;
                kept.fill(nodes, weight, ends, self.monitor)?;
                kept.flow()
            } else {
                self.piece.search(self.monitor)?;
                &self.piece.flow
            };
            for (&e, &flow) in edges.iter().zip(flow) {
                self.betweenness[e as usize] = flow;
            }
        }
        Ok(())
    }
}

/// A depth-first walk through one component, and the blocks it found.
struct Walk {
    nodes: Vec<Visit>,
    /// Nodes in the order of the walk.
    order: Vec<u32>,
    blocks: Vec<Found>,
    /// Edges of all blocks, one after another.
    block_edges: Vec<u32>,
    path: Vec<u32>,
    open: Vec<u32>,
    spare: Vec<u32>,
}

#[derive(Clone, Copy, Default)]
struct Visit {
    /// Place in the order of the walk, from 1; 0 before.
    place: u32,
    /// Lowest place that the nodes walked from here have an edge to.
    low: u32,
    /// Number of nodes walked from here, this one included.
    size: u32,
    /// Entries of the row that are done.
    done: u32,
    /// Edge it was reached by.
    edge: u32,
}

struct Found {
    /// Where its edges end.
    end: usize,
    /// Its node nearest to the start of the walk, and the one reached from there.
    top: u32,
    below: u32,
}

const NO_EDGE: u32 = u32::MAX;

impl Walk {
    fn new(num_nodes: usize) -> Walk {
        Walk {
            nodes: vec![Visit::default(); num_nodes],
            order: Vec::new(),
            blocks: Vec::new(),
            block_edges: Vec::new(),
            path: Vec::new(),
            open: Vec::new(),
            spare: Vec::new(),
        }
    }

    fn visit(&mut self, node: u32, edge: u32) {
        self.order.push(node);
        self.path.push(node);
        let place = self.order.len() as u32;
        self.nodes[node as usize] = Visit { place, low: place, size: 1, done: 0, edge };
    }

    fn run(&mut self, graph: &Adjacency, root: u32) {
        if self.order.capacity() == 0 {
            std::mem::swap(&mut self.order, &mut self.spare);
        }
        self.order.clear();
        self.blocks.clear();
        self.block_edges.clear();
        self.visit(root, NO_EDGE);
        while let Some(&u) = self.path.last() {
            let visit = &mut self.nodes[u as usize];
            if let Some(entry) = graph.row(u).get(visit.done as usize) {
                visit.done += 1;
                if entry.edge == visit.edge {
                    continue;
                }
                let place = self.nodes[entry.node as usize].place;
                let visit = &mut self.nodes[u as usize];
                if place == 0 {
                    self.open.push(entry.edge);
                    self.visit(entry.node, entry.edge);
                } else if place < visit.place {
                    self.open.push(entry.edge);
                    visit.low = visit.low.min(place);
                }
                continue;
            }
            let Visit { low, size, edge, .. } = *visit;
            self.path.pop();
            if let Some(&top) = self.path.last() {
                let above = &mut self.nodes[top as usize];
                above.size += size;
                above.low = above.low.min(low);
                if low >= above.place {
                    loop {
                        let last = self.open.pop().expect("the edge to here is open");
                        self.block_edges.push(last);
                        if last == edge {
                            break;
                        }
                    }
                    self.blocks.push(Found { end: self.block_edges.len(), top, below: u });
                }
            }
        }
        // Places of nodes that are visited again are written anew; all others must read as unseen.
        for &u in &self.order {
            self.nodes[u as usize].place = 0;
        }
    }
}

/// A block on its own: nodes 0, 1, … with weights, edges 0, 1, ….
#[derive(Default)]
struct Piece {
    nodes: Vec<u32>,
    weight: Vec<f64>,
    ends: Vec<(u32, u32)>,
    flow: Vec<f64>,
    /// Number in the block, by node.
    local: Vec<u32>,
    graph: Adjacency,
    search: Search,
    distance: Vec<u32>,
    paths: Vec<f64>,
    dependency: Vec<f64>,
    /// Weights three times around a ring, and their running sum.
    rounds: Vec<f64>,
    sums: Vec<f64>,
}

impl Piece {
    fn fill(&mut self, walk: &Walk, found: &Found, edges: &[u32], ends: &[(u32, u32)], total: f64) {
        let size = |node: u32| f64::from(walk.nodes[node as usize].size);
        if self.local.len() < walk.nodes.len() {
            self.local.resize(walk.nodes.len(), 0);
        }
        self.nodes.clear();
        self.weight.clear();
        // The end that was reached by an edge, if one was.
        let reached = |edge: u32| {
            let (u, v) = ends[edge as usize];
            let by = |node: u32| walk.nodes[node as usize].edge == edge;
            if by(u) { Some((v, u)) } else { by(v).then_some((u, v)) }
        };
        for &edge in edges {
            if let Some((_, node)) = reached(edge) {
                self.local[node as usize] = self.nodes.len() as u32;
                self.nodes.push(node);
                self.weight.push(size(node));
            }
        }
        self.local[found.top as usize] = self.nodes.len() as u32;
        self.nodes.push(found.top);
        self.weight.push(total);
        // What hangs on a node is what was walked from there, less what was within the block.
        for &edge in edges {
            if let Some((from, node)) = reached(edge) {
                self.weight[self.local[from as usize] as usize] -= size(node);
            }
        }
        self.ends.clear();
        let local = |node: u32| self.local[node as usize];
        self.ends.extend(edges.iter().map(|&e| {
            let (u, v) = ends[e as usize];
            (local(u), local(v))
        }));
        self.flow.clear();
        self.flow.resize(edges.len(), 0.0);
    }

    fn weight_of(&self, node: u32) -> f64 {
        self.weight[self.local[node as usize] as usize]
    }

    /// A ring. The walk left its edges in order around: node i lies between edges i and i + 1, the last
    /// node between the last edge and edge 0.
    ///
    /// Of k nodes, each reaches the h = (k − 1) / 2 ahead of it on this way. With P the running sum of
    /// weights, edge e carries from the nodes i = e − h … e − 1 behind it Σ w_i (P(i + h) − P(e − 1)),
    /// and as much the other way. The node opposite, if k is even, is reached by both ways alike.
    fn around(&mut self) {
        let k = self.weight.len();
        let (half, even) = ((k - 1) / 2, k.is_multiple_of(2));
        let Piece { weight: once, rounds, sums, flow, .. } = self;
        rounds.clear();
        for _ in 0..3 {
            rounds.extend_from_slice(once);
        }
        sums.clear();
        sums.extend(rounds.iter().scan(0.0, |sum, w| {
            *sum += w;
            Some(*sum)
        }));
        let weight = |i: usize| rounds[i];
        // Sums over the nodes behind edge k, then moved ahead edge by edge.
        let (mut ahead, mut behind, mut opposite) = (0.0, 0.0, 0.0);
        let term = |i: usize| weight(i) * sums[i + half];
        let pair = |i: usize| if even { weight(i) * weight(i + k / 2) } else { 0.0 };
        for i in k - half..k {
            ahead += term(i);
            behind += weight(i);
        }
        for i in k - k / 2..k {
            opposite += pair(i);
        }
        for e in k..2 * k {
            flow[e - k] = 2.0 * (ahead - sums[e - 1] * behind) + opposite;
            ahead += term(e) - term(e - half);
            behind += weight(e) - weight(e - half);
            opposite += pair(e) - pair(e - k / 2);
        }
    }

    /// Any block: a search from every node.
    fn search(&mut self, monitor: &dyn Monitor) -> Result<()> {
        self.graph.fill(self.weight.len(), self.ends.iter().copied());
        match self.weight.len() < SCALED_FROM {
            true => self.search_as::<false>(monitor),
            false => self.search_as::<true>(monitor),
        }
    }

    fn search_as<const SCALED: bool>(&mut self, monitor: &dyn Monitor) -> Result<()> {
        let n = self.weight.len();
        self.distance.resize(n, 0);
        self.paths.resize(n, 0.0);
        self.dependency.resize(n, 0.0);
        let Piece { weight, flow, graph, search, distance, paths, dependency, .. } = self;
        let mut view = View {
            distance: &mut distance[..n],
            paths: &mut paths[..n],
            dependency: &mut dependency[..n],
        };
        for source in 0..n {
            monitor::check(monitor)?;
            search.forward::<SCALED>(graph, source as u32, &mut view);
            let factor = weight[source];
            search.backward::<SCALED>(graph, weight, &mut view, |edge, amount| {
                flow[edge as usize] += factor * amount;
            });
        }
        Ok(())
    }
}
