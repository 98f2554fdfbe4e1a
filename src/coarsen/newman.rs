//! `newman`: the method of Girvan and Newman. Remove the edge that most shortest paths run through,
//! again and again; the graph falls apart along its communities. Of all the partitions on the way,
//! the one of highest modularity is returned (the first one on ties), or the first one with as many
//! clusters as asked for.
//!
//! The betweenness of an edge is the number of shortest paths through it, each of σ_st paths between
//! s and t counting 1/σ_st; it is accumulated source by source (Brandes), and after a removal only
//! in the component that was touched.
//!
//! Symmetric graphs have many edges of equal betweenness. Which one goes first must not hang on
//! rounding or on node ids if isomorphic graphs are to get isomorphic hierarchies, so values within
//! a relative 1e-9 count as equal and among them the edge of smallest colours under colour
//! refinement is taken, then the one of smallest ids; or, with `ties=random`, one drawn by seed.
//!
//! Only part of the way has to be gone. Partitions to come refine the present one. Say component c has
//! e_c of the m edges inside and a share x_c of all degrees. Cut into k parts it loses at least k − 1 of
//! its edges, because it is connected, and its parts have Σ x² ≥ x_c² / k (Cauchy-Schwarz), so whatever is
//! still to come has a modularity of at most
//!
//! Σ_c max_k [ (e_c − k + 1) / m − x_c² / k ].
//!
//! Once that does not exceed the best so far, the best is final.
//!
//! Girvan & Newman, "Community structure in social and biological networks", PNAS 2002; Newman &
//! Girvan, "Finding and evaluating community structure in networks", Phys. Rev. E 2004.
//!
//! * **Weights** are ignored: paths are counted in hops and modularity in edges.
//! * **Complexity**: O(m² n) at worst.
//! * **Determinism**: no randomness with `ties=canonical`. Label-invariant up to edges that colour
//!   refinement can't tell apart.
//!
//! ```
//! use hdse::coarsen::{self, Context};
//! use hdse::Graph;
//! let path: Vec<(u32, u32)> = (0..9).map(|u| (u, u + 1)).collect();
//! let (graph, _) = Graph::from_pairs(10, &path)?;
//! let partition = coarsen::parse("newman")?.coarsen(&graph, &Context::default())?;
//! assert_eq!(partition.cluster_of(), [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]);
//! # Ok::<(), hdse::Error>(())
//! ```

use std::str::FromStr;

use super::refinement::colors;
use super::{Coarsener, Context, Entry, Parameter};
use crate::{Graph, Partition, Result, monitor};

/// Girvan and Newman's method; see the [module documentation](self).
#[derive(Default)]
pub struct Newman {
    /// Which of several edges of equal betweenness is removed.
    pub ties: Ties,
    /// Stop at this many clusters instead of searching for the best modularity.
    pub clusters: Option<usize>,
}

/// Which of several edges of equal betweenness is removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ties {
    /// The one of smallest refinement colours, then of smallest ids.
    #[default]
    Canonical,
    /// One drawn by seed.
    Random,
}

impl FromStr for Ties {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "canonical" => Ok(Ties::Canonical),
            "random" => Ok(Ties::Random),
            _ => Err(()),
        }
    }
}

pub(super) const ENTRY: Entry = Entry {
    name: "newman",
    summary: "Girvan-Newman: remove edges of highest betweenness, keep the best modularity",
    citation: "Girvan & Newman 2002; Newman & Girvan 2004",
    complexity: "O(m² n)",
    nanoseconds: |n, m| 60.0 * n * m + 6.0 * n * (m - n).max(0.0).powi(2),
    version: 1,
    parameters: &[
        Parameter {
            name: "ties",
            default: "canonical",
            help: "canonical or random: which edge of equal betweenness goes first",
        },
        Parameter {
            name: "clusters",
            default: "-",
            help: "stop at this many clusters instead of the best modularity",
        },
    ],
    make: |arguments| {
        let ties = arguments.take("ties", "canonical or random")?.unwrap_or_default();
        let valid = |k: &usize| *k >= 1;
        let clusters = arguments.take_or("clusters", 0, "a whole number ≥ 1", valid)?;
        Ok(Box::new(Newman { ties, clusters: (clusters > 0).then_some(clusters) }))
    },
};

impl Coarsener for Newman {
    fn coarsen(&self, graph: &Graph, context: &Context<'_>) -> Result<Partition> {
        self.dissolve(graph, context, true)
    }

    fn describe(&self) -> String {
        let ties = match self.ties {
            Ties::Canonical => "canonical",
            Ties::Random => "random",
        };
        match self.clusters {
            Some(clusters) => format!("newman:ties={ties},clusters={clusters}"),
            None => format!("newman:ties={ties}"),
        }
    }
}

impl Newman {
    /// Removes edges until nothing better can come or, unless `stop_early`, until none is left.
    fn dissolve(
        &self,
        graph: &Graph,
        context: &Context<'_>,
        stop_early: bool,
    ) -> Result<Partition> {
        let mut state = State::new(graph);
        let mut best = graph.components();
        let (mut best_modularity, mut bound) = state.modularity_and_bound();
        let done = |state: &State, best: f64, bound: f64| match self.clusters {
            Some(clusters) => state.count >= clusters,
            None => stop_early && bound <= best + EQUAL,
        };
        let mut stream = context.stream("newman");
        let mut colors_of_nodes = None;
        while state.alive > 0 && !done(&state, best_modularity, bound) {
            monitor::check(context.monitor)?;
            let ties = state.highest_betweenness();
            let edge = match (&ties[..], self.ties) {
                (&[only], _) => only,
                (_, Ties::Random) => ties[stream.below(ties.len() as u64) as usize],
                (_, Ties::Canonical) => {
                    let colors = colors_of_nodes.get_or_insert_with(|| colors(graph));
                    let key = |&edge: &u32| {
                        let (u, v) = state.ends[edge as usize];
                        let (a, b) = (colors[u as usize], colors[v as usize]);
                        (a.min(b), a.max(b), edge)
                    };
                    ties.iter().copied().min_by_key(key).expect("an edge is left")
                }
            };
            if state.remove(edge) {
                let modularity;
                (modularity, bound) = state.modularity_and_bound();
                if modularity > best_modularity + EQUAL || self.clusters.is_some() {
                    best_modularity = modularity;
                    best = Partition::by_first_node(&state.component);
                }
            }
        }
        Ok(best)
    }
}

/// The graph while edges are removed.
struct State {
    /// Both ends of every edge, ascending.
    ends: Vec<(u32, u32)>,
    left: Adjacency,
    /// Betweenness of every edge that is left; negative once removed.
    betweenness: Vec<f64>,
    /// Number of edges that are left.
    alive: usize,
    /// Component of every node, and how many there are.
    component: Vec<u32>,
    count: usize,
    /// Degree of every node in the whole graph.
    full_degree: Vec<f64>,
    search: Search,
}

/// The edges that are left: the first `degree` entries of every node's row.
struct Adjacency {
    rows: Vec<usize>,
    entries: Vec<(u32, u32)>, // (neighbour, edge)
    degree: Vec<usize>,
}

impl Adjacency {
    fn row(&self, node: u32) -> &[(u32, u32)] {
        &self.entries[self.rows[node as usize]..][..self.degree[node as usize]]
    }

    fn remove(&mut self, node: u32, edge: u32) {
        let at = self.row(node).iter().position(|&(_, e)| e == edge).expect("edge is left");
        let last = self.degree[node as usize] - 1;
        self.entries[self.rows[node as usize]..].swap(at, last);
        self.degree[node as usize] = last;
    }
}

/// Breadth-first search that counts shortest paths, with its working memory.
///
/// Names to symbols (Brandes 2001): `distance` d, `paths` σ, `dependency` δ, `order` S.
struct Search {
    distance: Vec<u32>,
    paths: Vec<f64>,
    dependency: Vec<f64>,
    order: Vec<u32>,
    /// Per layer from 1: whether its path counts were divided by [`HUGE`]; see [`State::is_large`].
    shrunk: Vec<bool>,
}

const UNSEEN: u32 = u32::MAX;
const REMOVED: f64 = -1.0;
const HUGE: f64 = 1e200;
/// Modularities this close are equal but for rounding; the first one stays.
const EQUAL: f64 = 1e-12;

impl Search {
    fn run<const SCALED: bool>(&mut self, graph: &Adjacency, source: u32) {
        for &u in &self.order {
            self.distance[u as usize] = UNSEEN;
            self.paths[u as usize] = 0.0;
            self.dependency[u as usize] = 0.0;
        }
        self.order.clear();
        self.distance[source as usize] = 0;
        self.paths[source as usize] = 1.0;
        self.order.push(source);
        self.shrunk.clear();
        let (mut head, mut layer_end, mut most) = (0, 1, 1.0);
        while head < self.order.len() {
            if SCALED && head == layer_end {
                layer_end = self.order.len();
                self.shrunk.push(most > HUGE);
                if most > HUGE {
                    for &v in &self.order[head..layer_end] {
                        self.paths[v as usize] /= HUGE;
                    }
                    most = 1.0;
                }
            }
            let u = self.order[head];
            head += 1;
            let next = self.distance[u as usize] + 1;
            for &(v, _) in graph.row(u) {
                if self.distance[v as usize] == UNSEEN {
                    self.distance[v as usize] = next;
                    self.order.push(v);
                }
                if self.distance[v as usize] == next {
                    self.paths[v as usize] += self.paths[u as usize];
                    if SCALED {
                        most = most.max(self.paths[v as usize]);
                    }
                }
            }
        }
    }

    /// Share of the dependency of `v` per path to a node one layer nearer.
    fn share<const SCALED: bool>(&self, v: u32) -> f64 {
        let share = (1.0 + self.dependency[v as usize]) / self.paths[v as usize];
        let layer = self.distance[v as usize] as usize;
        if SCALED && self.shrunk[layer - 1] { share / HUGE } else { share }
    }
}

impl State {
    fn new(graph: &Graph) -> State {
        let n = graph.num_nodes();
        let ends: Vec<(u32, u32)> = graph.edges().map(|(u, v, _)| (u, v)).collect();
        let rows: Vec<usize> = graph.offsets().iter().map(|&o| o as usize).collect();
        let mut entries = vec![(0, 0); graph.targets().len()];
        let mut degree = vec![0; n];
        for (edge, &(u, v)) in ends.iter().enumerate() {
            for (from, to) in [(u, v), (v, u)] {
                entries[rows[from as usize] + degree[from as usize]] = (to, edge as u32);
                degree[from as usize] += 1;
            }
        }
        let components = graph.components();
        let mut state = State {
            betweenness: vec![0.0; ends.len()],
            alive: ends.len(),
            full_degree: degree.iter().map(|&d| d as f64).collect(),
            ends,
            left: Adjacency { rows, entries, degree },
            component: components.cluster_of().to_vec(),
            count: components.num_clusters(),
            search: Search {
                distance: vec![UNSEEN; n],
                paths: vec![0.0; n],
                dependency: vec![0.0; n],
                order: Vec::with_capacity(n),
                shrunk: Vec::new(),
            },
        };
        let members = components.members();
        for c in 0..components.num_clusters() as u32 {
            state.accumulate(members.of(c));
        }
        state
    }

    /// Whether path counts could overflow and must be scaled layer by layer; only their ratios
    /// between layers matter. The paths between two nodes number at most the product of the sizes of
    /// the layers between them, so 3^(n / 3): below 1e240 for 1,500 nodes.
    fn is_large(&self) -> bool {
        self.component.len() > 1_500
    }

    /// All edges whose betweenness is the highest, up to rounding.
    fn highest_betweenness(&self) -> Vec<u32> {
        let highest = self.betweenness.iter().copied().fold(0.0, f64::max);
        let least = highest * (1.0 - 1e-9);
        let tied = self.betweenness.iter().enumerate().filter(|&(_, &b)| b >= least);
        tied.map(|(edge, _)| edge as u32).collect()
    }

    /// Removes an edge and updates the betweenness; true if a component fell apart.
    fn remove(&mut self, edge: u32) -> bool {
        let (u, v) = self.ends[edge as usize];
        self.left.remove(u, edge);
        self.left.remove(v, edge);
        self.betweenness[edge as usize] = REMOVED;
        self.alive -= 1;
        self.search.run::<true>(&self.left, u);
        let split = self.search.distance[v as usize] == UNSEEN;
        let side = self.search.order.clone();
        self.accumulate(&side);
        if split {
            self.search.run::<true>(&self.left, v);
            let other = self.search.order.clone();
            for &node in &other {
                self.component[node as usize] = self.count as u32;
            }
            self.count += 1;
            self.accumulate(&other);
        }
        split
    }

    /// Recomputes the betweenness of all edges of the component made of `nodes`.
    fn accumulate(&mut self, nodes: &[u32]) {
        match self.is_large() {
            true => self.accumulate_as::<true>(nodes),
            false => self.accumulate_as::<false>(nodes),
        }
    }

    fn accumulate_as<const SCALED: bool>(&mut self, nodes: &[u32]) {
        for &u in nodes {
            for &(_, edge) in self.left.row(u) {
                self.betweenness[edge as usize] = 0.0;
            }
        }
        for &source in nodes {
            self.search.run::<SCALED>(&self.left, source);
            let search = &mut self.search;
            for i in (1..search.order.len()).rev() {
                let v = search.order[i];
                let share = search.share::<SCALED>(v);
                let above = search.distance[v as usize] - 1;
                for &(u, edge) in self.left.row(v) {
                    if search.distance[u as usize] == above {
                        let flow = search.paths[u as usize] * share;
                        self.betweenness[edge as usize] += flow;
                        search.dependency[u as usize] += flow;
                    }
                }
            }
        }
    }

    /// Modularity of the components in the whole graph, and the most that any refinement of them can
    /// have (see the module documentation).
    fn modularity_and_bound(&self) -> (f64, f64) {
        let m = self.ends.len() as f64;
        if m == 0.0 {
            return (0.0, 0.0);
        }
        let mut degree = vec![0.0; self.count];
        for (&c, d) in self.component.iter().zip(&self.full_degree) {
            degree[c as usize] += d;
        }
        let mut inside = vec![0.0; self.count];
        for &(u, v) in &self.ends {
            let c = self.component[u as usize];
            if c == self.component[v as usize] {
                inside[c as usize] += 1.0;
            }
        }
        let (mut modularity, mut bound) = (0.0, 0.0);
        for (edges, degree) in inside.iter().zip(&degree) {
            let share = degree / (2.0 * m);
            let with = |parts: f64| (edges - parts + 1.0) / m - share * share / parts;
            // Concave in the number of parts, with its maximum at share · √m.
            let parts = (share * m.sqrt()).floor().max(1.0);
            modularity += with(1.0);
            bound += with(parts).max(with(parts + 1.0));
        }
        (modularity, bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Seed;

    fn graph(n: usize, pairs: &[(u32, u32)]) -> Graph {
        Graph::from_pairs(n, pairs).unwrap().0
    }

    fn newman(graph: &Graph) -> Partition {
        Newman::default().coarsen(graph, &Context::default()).unwrap()
    }

    #[test]
    fn betweenness_of_a_path() {
        let state = State::new(&graph(4, &[(0, 1), (1, 2), (2, 3)]));
        // Every pair counts once from each end.
        assert_eq!(state.betweenness, [6.0, 8.0, 6.0]);
    }

    #[test]
    fn betweenness_is_shared_by_equal_paths() {
        let state = State::new(&graph(4, &[(0, 1), (1, 2), (2, 3), (3, 0)]));
        assert_eq!(state.betweenness, [4.0; 4]);
    }

    #[test]
    fn astronomical_numbers_of_paths_do_not_overflow() {
        // Layers of two nodes, fully joined: 2^1100 shortest paths from end to end.
        let layers = 1101;
        let mut pairs = Vec::new();
        for layer in 1..layers {
            for (a, b) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                pairs.push((2 * (layer - 1) + a, 2 * layer + b));
            }
        }
        let ladder = graph(2 * layers as usize, &pairs);
        let state = State::new(&ladder);
        let middle = state.betweenness[state.betweenness.len() / 2];
        // Of 2 × 1101² or so ordered pairs across the middle, each of four edges carries a quarter.
        let expected = 2.0 * (1101.0f64 * 1101.0) / 4.0;
        assert!((middle / expected - 1.0).abs() < 0.01, "{middle} {expected}");
        assert!(state.betweenness.iter().all(|b| b.is_finite()));
    }

    #[test]
    fn stopping_early_changes_nothing() {
        let mut stream = Seed(9).stream("test", 0, 0);
        let mut stopped = 0;
        for round in 0..200 {
            let n = 2 + stream.below(30);
            let edges = n / 2 + stream.below(2 * n);
            let pairs: Vec<(u32, u32)> =
                (0..edges).map(|_| (stream.below(n) as u32, stream.below(n) as u32)).collect();
            let graph = graph(n as usize, &pairs);
            let context = Context { seed: Seed(round), ..Context::default() };
            for ties in [Ties::Canonical, Ties::Random] {
                let newman = Newman { ties, clusters: None };
                let early = newman.dissolve(&graph, &context, true).unwrap();
                assert_eq!(early, newman.dissolve(&graph, &context, false).unwrap());
            }
            let (best, bound) = State::new(&graph).modularity_and_bound();
            stopped += usize::from(bound <= best + EQUAL);
        }
        assert!(stopped < 200);
    }

    #[test]
    fn separates_a_barbell() {
        let mut pairs = vec![(4, 5)];
        for base in [0, 5] {
            for i in 0..5 {
                pairs.extend((0..i).map(|j| (base + i, base + j)));
            }
        }
        let barbell = graph(10, &pairs);
        let partition = newman(&barbell);
        assert_eq!(partition.cluster_of(), [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]);
        assert!((partition.quality(&barbell).modularity - 0.452_381).abs() < 1e-6);
    }

    #[test]
    fn components_are_never_merged() {
        let two = graph(7, &[(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)]);
        assert_eq!(newman(&two).cluster_of(), [0, 0, 0, 1, 1, 1, 2]);
        assert_eq!(newman(&graph(3, &[])).num_clusters(), 3);
        assert_eq!(newman(&graph(0, &[])).num_clusters(), 0);
    }

    #[test]
    fn asks_for_a_number_of_clusters() {
        let path: Vec<(u32, u32)> = (0..9).map(|u| (u, u + 1)).collect();
        let path = graph(10, &path);
        for clusters in 1..=10 {
            let newman = Newman { clusters: Some(clusters), ..Newman::default() };
            let partition = newman.coarsen(&path, &Context::default()).unwrap();
            assert_eq!(partition.num_clusters(), clusters);
        }
    }

    #[test]
    fn relabelling_a_tree_moves_its_clusters_along() {
        // A caterpillar without symmetry.
        let pairs =
            [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (1, 7), (1, 8), (5, 9), (6, 10)];
        let plain = newman(&graph(11, &pairs));
        let mut stream = Seed(5).stream("test", 0, 0);
        for _ in 0..20 {
            let mut map: Vec<u32> = (0..11).collect();
            stream.shuffle(&mut map);
            let moved = pairs.map(|(u, v)| (map[u as usize], map[v as usize]));
            let partition = newman(&graph(11, &moved));
            let back: Vec<u32> = map.iter().map(|&m| partition.cluster_of()[m as usize]).collect();
            assert_eq!(Partition::by_first_node(&back), plain);
        }
    }
}
