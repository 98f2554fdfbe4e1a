//! A dense block with everything kept that the searches from its nodes found, so that taking an edge
//! away costs only what changes.
//!
//! Seen from source s, the edge between u and v lies on shortest paths only if d(u) ≠ d(v); say u is
//! the nearer one. If v has another neighbour as near as u, no distance changes: path counts change at
//! v and below, dependencies change at v's side of the graph and on the way back to s, and flows change
//! at the edges above these nodes. In a dense graph of diameter two or three that is a small part of
//! it. If v has no other but one beside it, and none of those below hang on v alone, v moves down a layer
//! by itself, which is as cheap. Else the search from s is made anew.
//!
//! A node that is left with one edge no longer belongs to the block: it is folded into its neighbour's
//! weight, which changes no flow. When a bridge elsewhere is taken away, one node of the block loses
//! weight, and that is an update of the same kind.
//!
//! Lee, Choi & Chung, "Efficient algorithms for updating betweenness centrality in fully dynamic graphs",
//! Information Sciences 2016, update Girvan-Newman this way, component by component; here it is block by
//! block.

use std::cmp::Ordering;

use super::adjacency::Adjacency;
use super::search::{SCALED_FROM, Search, UNSEEN, View};
use crate::Result;
use crate::monitor::{self, Monitor};

/// Nodes from which a block is worth keeping, and edges per node.
const WORTH_NODES: usize = 8;
const WORTH_EDGES: usize = 2;
/// Updates after which all is computed anew, so that rounding does not add up.
const RENEW: usize = 1_000;

#[derive(Default)]
pub(super) struct Kept {
    /// The graph's numbers of the nodes.
    nodes: Vec<u32>,
    graph: Adjacency,
    /// 0 for nodes that were folded into others.
    weight: Vec<f64>,
    /// Ends by edge, in this block's numbers.
    ends: Vec<(u32, u32)>,
    /// Flow by edge, from all sources.
    flow: Vec<f64>,
    /// One row per source.
    distance: Vec<u32>,
    paths: Vec<f64>,
    dependency: Vec<f64>,
    /// Nodes and edges that are left.
    nodes_left: usize,
    edges_left: usize,
    updates: usize,
    search: Search,
    touched: Touched,
}

/// Nodes whose path count or dependency changes, by distance, with what they were before.
#[derive(Default)]
struct Touched {
    mark: Vec<Mark>,
    paths: Vec<f64>,
    dependency: Vec<f64>,
    layers: Vec<Vec<u32>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Mark {
    No,
    Dependency,
    Paths,
}

impl Kept {
    /// Memory for a block, in bytes.
    pub fn bytes(nodes: usize) -> usize {
        20 * nodes * nodes
    }

    /// Whether a block of this size is to be kept.
    pub fn is_worth(nodes: usize, edges: usize) -> bool {
        (WORTH_NODES..SCALED_FROM).contains(&nodes) && edges >= WORTH_EDGES * nodes
    }

    /// Takes a block: its nodes with their weights, and the ends of its edges.
    pub fn fill(
        &mut self,
        nodes: &[u32],
        weight: &[f64],
        ends: &[(u32, u32)],
        monitor: &dyn Monitor,
    ) -> Result<()> {
        let n = nodes.len();
        nodes.clone_into(&mut self.nodes);
        weight.clone_into(&mut self.weight);
        ends.clone_into(&mut self.ends);
        self.graph.fill(n, ends.iter().copied());
        (self.nodes_left, self.edges_left) = (n, ends.len());
        for values in [&mut self.paths, &mut self.dependency] {
            values.clear();
            values.resize(n * n, 0.0);
        }
        self.distance.clear();
        self.distance.resize(n * n, UNSEEN);
        self.touched.mark.clear();
        self.touched.mark.resize(n, Mark::No);
        self.touched.paths.resize(n, 0.0);
        self.touched.dependency.resize(n, 0.0);
        self.renew(monitor)
    }

    /// Number of nodes it was filled with.
    pub fn capacity(&self) -> usize {
        self.nodes.len()
    }

    /// Number of nodes and edges that are left.
    pub fn size(&self) -> (usize, usize) {
        (self.nodes_left, self.edges_left)
    }

    /// Flow along every edge that is left, from all sources.
    pub fn flow(&self) -> &[f64] {
        &self.flow
    }

    /// Takes an edge away that is no bridge; nodes that are left with one edge are folded.
    pub fn remove(&mut self, edge: u32, monitor: &dyn Monitor) -> Result<()> {
        let (a, b) = self.ends[edge as usize];
        self.take(edge);
        self.flow[edge as usize] = 0.0;
        let n = self.weight.len();
        for source in 0..n as u32 {
            if self.weight[source as usize] == 0.0 {
                continue;
            }
            let row = source as usize * n;
            let (to_a, to_b) = (self.distance[row + a as usize], self.distance[row + b as usize]);
            let (above, below) = match to_a.cmp(&to_b) {
                Ordering::Less => (a, b),
                Ordering::Equal => continue,
                Ordering::Greater => (b, a),
            };
            if self.has_neighbor_at(row, below, self.distance[row + above as usize], None) {
                self.update(source, above, below);
            } else if self.can_sink(row, below) {
                self.sink(source, above, below);
            } else {
                monitor::check(monitor)?;
                self.replace(source);
            }
        }
        for end in [a, b] {
            self.fold(end);
        }
        self.count_update(monitor)
    }

    /// Sets the weights of all nodes to what they have become. False if that would take a new search.
    pub fn reweigh(
        &mut self,
        weight_of: impl Fn(u32) -> f64,
        monitor: &dyn Monitor,
    ) -> Result<bool> {
        let changed =
            |i: &usize| self.weight[*i] > 0.0 && weight_of(self.nodes[*i]) != self.weight[*i];
        let mut all = (0..self.nodes.len()).filter(changed);
        let (first, second) = (all.next(), all.next());
        drop(all);
        match (first, second) {
            (None, _) => Ok(true),
            (Some(_), Some(_)) => Ok(false),
            (Some(node), None) => {
                self.set_weight(node, weight_of(self.nodes[node]));
                self.count_update(monitor)?;
                Ok(true)
            }
        }
    }

    fn take(&mut self, edge: u32) {
        self.graph.remove(edge, self.ends[edge as usize]);
        self.edges_left -= 1;
    }

    fn count_update(&mut self, monitor: &dyn Monitor) -> Result<()> {
        self.updates += 1;
        if self.updates == RENEW { self.renew(monitor) } else { Ok(()) }
    }

    /// Lets the only neighbour of a node stand for it, and so on.
    fn fold(&mut self, mut node: u32) {
        while let &[entry] = self.graph.row(node) {
            let into = entry.node as usize;
            self.take(entry.edge);
            self.nodes_left -= 1;
            let weight = std::mem::take(&mut self.weight[node as usize]);
            self.weight[into] += weight;
            for row in self.dependency.chunks_exact_mut(self.nodes.len()) {
                row[into] -= weight;
            }
            node = entry.node;
        }
    }

    fn set_weight(&mut self, node: usize, weight: f64) {
        let change = weight - std::mem::replace(&mut self.weight[node], weight);
        self.add_flows(node as u32, change);
        let n = self.nodes.len();
        for source in (0..n).filter(|&s| s != node) {
            if self.weight[source] == 0.0 {
                continue;
            }
            let Kept { graph, weight, flow, distance, paths, dependency, touched, .. } = self;
            let mut view = view(source as u32, n, distance, paths, dependency);
            let layer = view.distance[node] as usize;
            touched.push_above(node as u32, layer, &view);
            // As if it was the dependency that changed: the sum with the weight counts.
            touched.dependency[node] -= change;
            touched.climb(layer, graph, weight, weight[source], &mut view, flow);
        }
    }

    /// All searches anew.
    fn renew(&mut self, monitor: &dyn Monitor) -> Result<()> {
        self.updates = 0;
        self.flow.clear();
        self.flow.resize(self.ends.len(), 0.0);
        for source in 0..self.weight.len() as u32 {
            if self.weight[source as usize] > 0.0 {
                monitor::check(monitor)?;
                self.add(source);
            }
        }
        Ok(())
    }

    /// Makes the search from a node and adds its flows.
    fn add(&mut self, source: u32) {
        let Kept { graph, weight, flow, distance, paths, dependency, search, .. } = self;
        let mut view = view(source, weight.len(), distance, paths, dependency);
        search.forward::<false>(graph, source, &mut view);
        let factor = weight[source as usize];
        search.backward::<false>(graph, weight, &mut view, |edge, amount| {
            flow[edge as usize] += factor * amount;
        });
    }

    /// Makes the search from a node anew.
    fn replace(&mut self, source: u32) {
        self.add_flows(source, -self.weight[source as usize]);
        self.add(source);
    }

    /// Adds what flows from a node, by what is known, times a factor.
    fn add_flows(&mut self, source: u32, factor: f64) {
        let n = self.weight.len();
        let Kept { graph, weight, flow, distance, paths, dependency, .. } = self;
        let view = view(source, n, distance, paths, dependency);
        for v in 0..n as u32 {
            let layer = view.distance[v as usize];
            let share = (weight[v as usize] + view.dependency[v as usize]) / view.paths[v as usize];
            for entry in graph.row(v) {
                let u = entry.node as usize;
                if view.distance[u] + 1 == layer {
                    flow[entry.edge as usize] += factor * view.paths[u] * share;
                }
            }
        }
    }

    /// Whether a node has a neighbour in a layer, besides `but`.
    fn has_neighbor_at(&self, row: usize, node: u32, layer: u32, but: Option<u32>) -> bool {
        let mut neighbors = self.graph.row(node).iter().map(|entry| entry.node);
        neighbors.any(|v| self.distance[row + v as usize] == layer && Some(v) != but)
    }

    /// Whether a node that lost its last neighbour above has one beside, and those below have another
    /// above: then it moves down a layer, and is the only one that moves.
    fn can_sink(&self, row: usize, node: u32) -> bool {
        let layer = self.distance[row + node as usize];
        let mut neighbors = self.graph.row(node).iter().map(|entry| entry.node);
        self.has_neighbor_at(row, node, layer, None)
            && neighbors.all(|v| {
                self.distance[row + v as usize] <= layer
                    || self.has_neighbor_at(row, v, layer, Some(node))
            })
    }

    /// Distances stay: only what depends on the paths through the edge changes.
    fn update(&mut self, source: u32, above: u32, below: u32) {
        let n = self.weight.len();
        let Kept { graph, weight, flow, distance, paths, dependency, touched, .. } = self;
        let mut view = view(source, n, distance, paths, dependency);
        let layer = view.distance[below as usize] as usize;
        touched.lose_flow(above, below, weight, &mut view);
        touched.push(below, layer, Mark::Paths);
        let last = touched.descend(layer, graph, &mut view);
        touched.climb(last, graph, weight, weight[source as usize], &mut view, flow);
    }

    /// `below` moves down a layer: nodes there lose paths, and it is reached from those beside it.
    fn sink(&mut self, source: u32, above: u32, below: u32) {
        let n = self.weight.len();
        let Kept { graph, weight, flow, distance, paths, dependency, touched, .. } = self;
        let mut view = view(source, n, distance, paths, dependency);
        let factor = weight[source as usize];
        let layer = view.distance[below as usize] as usize;
        touched.lose_flow(above, below, weight, &mut view);
        let mut sum = 0.0;
        for entry in graph.row(below) {
            let v = entry.node as usize;
            if view.distance[v] as usize == layer {
                sum += view.paths[v];
            } else {
                let share = (weight[v] + view.dependency[v]) / view.paths[v];
                flow[entry.edge as usize] -= factor * view.paths[below as usize] * share;
                touched.push(entry.node, layer + 1, Mark::Paths);
            }
        }
        view.distance[below as usize] += 1;
        view.paths[below as usize] = sum;
        view.dependency[below as usize] = 0.0;
        let last = touched.descend(layer + 1, graph, &mut view).max(layer + 1);
        touched.push(below, layer + 1, Mark::Dependency);
        // So that what it sent to those now above it before counts as nothing.
        touched.dependency[below as usize] = -weight[below as usize];
        touched.climb(last, graph, weight, factor, &mut view, flow);
    }
}

impl Touched {
    fn push(&mut self, node: u32, layer: usize, mark: Mark) {
        if self.mark[node as usize] == Mark::No {
            self.mark[node as usize] = mark;
            if self.layers.len() <= layer {
                self.layers.resize_with(layer + 1, Vec::new);
            }
            self.layers[layer].push(node);
        }
    }

    /// A node whose dependency is about to change.
    fn push_above(&mut self, node: u32, layer: usize, view: &View<'_>) {
        if self.mark[node as usize] == Mark::No {
            self.dependency[node as usize] = view.dependency[node as usize];
            self.push(node, layer, Mark::Dependency);
        }
    }

    /// Takes from `above` what came to it from `below`.
    fn lose_flow(&mut self, above: u32, below: u32, weight: &[f64], view: &mut View<'_>) {
        self.push_above(above, view.distance[above as usize] as usize, view);
        let x = below as usize;
        let share = (weight[x] + view.dependency[x]) / view.paths[x];
        view.dependency[above as usize] -= view.paths[above as usize] * share;
    }

    /// Counts paths anew to the nodes touched in layer `first` and to all reached through them; returns
    /// the last layer that has any.
    fn descend(&mut self, first: usize, graph: &Adjacency, view: &mut View<'_>) -> usize {
        let mut layer = first;
        while self.layers.get(layer).is_some_and(|nodes| !nodes.is_empty()) {
            for i in 0..self.layers[layer].len() {
                let v = self.layers[layer][i];
                self.paths[v as usize] = view.paths[v as usize];
                self.dependency[v as usize] = view.dependency[v as usize];
                let mut sum = 0.0;
                for entry in graph.row(v) {
                    let u = entry.node;
                    let d = view.distance[u as usize] as usize;
                    if d + 1 == layer {
                        sum += view.paths[u as usize];
                    } else if d == layer + 1 {
                        self.push(u, d, Mark::Paths);
                    }
                }
                view.paths[v as usize] = sum;
            }
            layer += 1;
        }
        layer - 1
    }

    /// Changes flows above all touched nodes, those in layer `last` first, and dependencies of what is
    /// above; then nothing is touched any more.
    fn climb(
        &mut self,
        last: usize,
        graph: &Adjacency,
        weight: &[f64],
        factor: f64,
        view: &mut View<'_>,
        flow: &mut [f64],
    ) {
        for layer in (1..=last).rev() {
            for i in 0..self.layers[layer].len() {
                let v = self.layers[layer][i];
                let x = v as usize;
                let share = (weight[x] + view.dependency[x]) / view.paths[x];
                let old_share = (weight[x] + self.dependency[x]) / self.paths_before(x, view);
                for entry in graph.row(v) {
                    let u = entry.node as usize;
                    if view.distance[u] as usize + 1 == layer {
                        self.push_above(entry.node, layer - 1, view);
                        let old = self.paths_before(u, view) * old_share;
                        let change = view.paths[u] * share - old;
                        flow[entry.edge as usize] += factor * change;
                        view.dependency[u] += change;
                    }
                }
            }
        }
        self.clear();
    }

    fn paths_before(&self, node: usize, view: &View<'_>) -> f64 {
        match self.mark[node] {
            Mark::Paths => self.paths[node],
            _ => view.paths[node],
        }
    }

    fn clear(&mut self) {
        for layer in &mut self.layers {
            for node in layer.drain(..) {
                self.mark[node as usize] = Mark::No;
            }
        }
    }
}

/// One row of all three tables.
fn view<'a>(
    source: u32,
    n: usize,
    distance: &'a mut [u32],
    paths: &'a mut [f64],
    dependency: &'a mut [f64],
) -> View<'a> {
    let row = source as usize * n..(source as usize + 1) * n;
    View {
        distance: &mut distance[row.clone()],
        paths: &mut paths[row.clone()],
        dependency: &mut dependency[row],
    }
}
