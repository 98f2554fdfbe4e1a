//! `newman`: the method of Girvan and Newman. Remove the edge that most shortest paths run through,
//! again and again; the graph falls apart along its communities. Of all the partitions on the way,
//! the one of highest modularity is returned (the first one on ties), or the first one with as many
//! clusters as asked for. (A graph of more components than that keeps them all.)
//!
//! The betweenness of an edge is the number of shortest paths through it, each of σ_st paths between
//! s and t counting 1/σ_st. It is computed block by block (`blocks.rs`), in time linear in the size of
//! the component for trees of small rings, as molecules are; dense blocks keep what searches found and
//! update it (`kept.rs`).
//!
//! **Ties.** Symmetric graphs have many edges of equal betweenness. Which one goes first must not hang on
//! rounding or on node ids if isomorphic graphs are to get isomorphic hierarchies, so values within
//! a relative 1e-9 count as equal and among them the edge of smallest colours under colour
//! refinement is taken, then the one of smallest ids; or, with `ties=random`, one drawn by seed. With
//! `exact=true` betweenness is a fraction of whole numbers and only equal values are equal; an error
//! says so where these outgrow 128 bits.
//!
//! **The reference.** The paper's released code removes *all* edges of highest betweenness at once, goes on
//! until a component falls apart, and of equal modularities takes the last: `variant=reference`. It compares
//! floating-point numbers bit by bit, so that rounding decides which edges of a symmetric graph go
//! together; that is not imitated.
//!
//! **Stopping early.** Partitions to come refine the present one. Say component c has e_c of the m
//! edges inside and a share x_c of all degrees. Cut into k parts it loses at least k − 1 of its edges,
//! because it is connected, and its parts have Σ x² ≥ x_c² / k (Cauchy-Schwarz), so it can contribute to
//! a modularity at most
//!
//! max_k [ (e_c − k + 1) / m − x_c² / k ].
//!
//! Also, take a node of degree d that has r of its edges left. If t edges are cut, its part still has
//! r − t of these neighbours, so x ≥ (d + r − t) / 2m there, and (e_c − t) / m − x² is largest for t = 0
//! because d + r ≤ 2m: at most
//!
//! e_c / m − ((d + r) / 2m)².
//!
//! Once the sum over components of the smaller of the two does not exceed the best modularity so far, the
//! best is final. (The first bound decides for molecules, the second for stars.) Modularities are
//! compared as whole numbers, times 4 m².
//!
//! Girvan & Newman, "Community structure in social and biological networks", PNAS 2002; Newman &
//! Girvan, "Finding and evaluating community structure in networks", Phys. Rev. E 2004.
//!
//! * **Weights** are ignored: paths are counted in hops and modularity in edges.
//! * **Complexity**: O(m² n) at worst; O(n) per removed edge where blocks are small. Dense blocks of n
//!   nodes take 20 n² bytes, below 1,500 nodes, and at most 1 GiB together.
//! * **Determinism**: no randomness with `ties=canonical`. Label-invariant up to edges that colour
//!   refinement of the whole graph can't tell apart; `docs/relabelling.md` has figures.
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

mod adjacency;
mod blocks;
mod components;
mod kept;
mod plain;
mod ratio;
mod search;

use std::str::FromStr;

use self::blocks::Blocks;
use self::components::Components;
use self::plain::Plain;
use self::ratio::Ratio;
use super::refinement::colors;
use super::{Coarsener, Context, Entry, Parameter};
use crate::monitor::Monitor;
use crate::rng::Stream;
use crate::{Error, Graph, Partition, Result, monitor};

/// Girvan and Newman's method; see the [module documentation](self).
#[derive(Default)]
pub struct Newman {
    /// Which of several edges of equal betweenness is removed.
    pub ties: Ties,
    /// Stop at this many clusters instead of searching for the best modularity.
    pub clusters: Option<usize>,
    /// Compute betweenness in fractions of whole numbers.
    pub exact: bool,
}

/// Which of several edges of equal betweenness is removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ties {
    /// The one of smallest refinement colours, then of smallest ids.
    #[default]
    Canonical,
    /// One drawn by seed.
    Random,
    /// All of them, and of partitions of equal modularity the last is taken: `variant=reference`.
    All,
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
    complexity: "O(m² n); O(n) per step on trees of rings",
    nanoseconds: |n, m| {
        // Edges beyond a tree are removed from blocks; small ones are updated, large ones searched.
        let per_edge = if n < search::SCALED_FROM as f64 { 1_000.0 * n } else { 4.0 * n * m };
        1_000.0 * n + per_edge * (m - n).max(0.0)
    },
    bytes: |n, m| {
        let block = n.min(search::SCALED_FROM as f64);
        let kept =
            if m >= 2.0 * n { (20.0 * n * block).min(blocks::KEEP_BYTES as f64) } else { 0.0 };
        100.0 * n + 60.0 * m + kept
    },
    version: 2,
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
        Parameter {
            name: "exact",
            default: "false",
            help: "true: betweenness in fractions; for small graphs",
        },
        Parameter {
            name: "variant",
            default: "-",
            help: "reference: as the paper's code, all edges of equal betweenness at once",
        },
    ],
    make: |arguments| {
        let ties: Option<Ties> = arguments.take("ties", "canonical or random")?;
        let valid = |k: &usize| *k >= 1;
        let clusters = arguments.take_or("clusters", 0, "a whole number ≥ 1", valid)?;
        let exact = arguments.take("exact", "true or false")?.unwrap_or(false);
        let known = |variant: &String| variant == "reference";
        let variant = arguments.take_or("variant", String::new(), "reference", known)?;
        let ties = match (variant.as_str(), ties) {
            ("", ties) => ties.unwrap_or_default(),
            (_, None) => Ties::All,
            (_, Some(_)) => {
                return Err(Error::config(
                    "newman:variant=reference removes all edges of equal betweenness; \
                     leave out `ties`",
                ));
            }
        };
        Ok(Box::new(Newman { ties, clusters: (clusters > 0).then_some(clusters), exact }))
    },
};

impl Coarsener for Newman {
    fn coarsen(&self, graph: &Graph, context: &Context<'_>) -> Result<Partition> {
        match self.exact {
            false => self.dissolve::<Blocks<'_>>(graph, context, true),
            true => self.dissolve::<Plain<'_, Ratio>>(graph, context, true),
        }
    }

    fn describe(&self) -> String {
        let mut text = match self.ties {
            Ties::Canonical => "newman:ties=canonical".to_string(),
            Ties::Random => "newman:ties=random".to_string(),
            Ties::All => "newman:variant=reference".to_string(),
        };
        if let Some(clusters) = self.clusters {
            text += &format!(",clusters={clusters}");
        }
        if self.exact {
            text += ",exact=true";
        }
        text
    }
}

/// Betweenness this close, relatively, is equal but for rounding.
const ROUNDING: f64 = 1e-9;

/// A graph whose edges are removed one by one.
trait Dissolve<'a>: Sized {
    fn new(graph: &'a Graph, monitor: &'a dyn Monitor) -> Result<Self>;

    /// Both ends of every edge.
    fn ends(&self) -> &[(u32, u32)];

    fn components(&self) -> &Components;

    /// All edges whose betweenness is the highest; none if no edge is left.
    fn tied(&self, edges: &mut Vec<u32>);

    /// Removes an edge; true if a component fell apart.
    fn remove(&mut self, edge: u32) -> Result<bool>;
}

impl Newman {
    /// Removes edges until nothing better can come or, unless `stop_early`, until none is left.
    fn dissolve<'a, D: Dissolve<'a>>(
        &self,
        graph: &'a Graph,
        context: &'a Context<'a>,
        stop_early: bool,
    ) -> Result<Partition> {
        let mut state = D::new(graph, context.monitor)?;
        let mut best = state.components().modularity();
        let mut best_count = state.components().count();
        let mut choice = Choice { ties: self.ties, colors: None, stream: context.stream("newman") };
        let mut edges = Vec::new();
        loop {
            let components = state.components();
            let done = match (self.clusters, self.ties) {
                (Some(clusters), _) => components.count() >= clusters,
                (None, Ties::All) => stop_early && components.bound() < best,
                (None, _) => stop_early && components.bound() <= best,
            };
            if done {
                break;
            }
            monitor::check(context.monitor)?;
            state.tied(&mut edges);
            if edges.is_empty() {
                break;
            }
            choice.narrow(graph, state.ends(), &mut edges);
            let mut split = false;
            for &edge in &edges {
                split |= state.remove(edge)?;
            }
            if split {
                let components = state.components();
                let better = components.modularity() > best
                    || self.ties == Ties::All && components.modularity() == best;
                if better || self.clusters.is_some() {
                    best = components.modularity();
                    best_count = components.count();
                }
            }
        }
        Ok(state.components().partition(best_count))
    }
}

/// How one of several edges is chosen.
struct Choice {
    ties: Ties,
    colors: Option<Vec<u32>>,
    stream: Stream,
}

impl Choice {
    /// Leaves those of the tied edges that are to be removed.
    fn narrow(&mut self, graph: &Graph, ends: &[(u32, u32)], edges: &mut Vec<u32>) {
        if edges.len() == 1 || self.ties == Ties::All {
            return;
        }
        let chosen = match self.ties {
            Ties::Random => {
                edges.sort_unstable();
                edges[self.stream.below(edges.len() as u64) as usize]
            }
            _ => {
                let colors = self.colors.get_or_insert_with(|| colors(graph));
                let key = |&edge: &u32| {
                    let (u, v) = ends[edge as usize];
                    let (a, b) = (colors[u as usize], colors[v as usize]);
                    (a.min(b), a.max(b), edge)
                };
                edges.iter().copied().min_by_key(key).expect("an edge is left")
            }
        };
        edges.clear();
        edges.push(chosen);
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

    fn betweenness(n: usize, pairs: &[(u32, u32)]) -> Vec<f64> {
        Blocks::new(&graph(n, pairs), &()).unwrap().betweenness
    }

    #[test]
    fn betweenness_of_a_path() {
        // Every pair counts once from each end.
        assert_eq!(betweenness(4, &[(0, 1), (1, 2), (2, 3)]), [6.0, 8.0, 6.0]);
    }

    #[test]
    fn betweenness_is_shared_by_equal_paths() {
        assert_eq!(betweenness(4, &[(0, 1), (1, 2), (2, 3), (3, 0)]), [4.0; 4]);
        assert_eq!(betweenness(5, &[(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]), [6.0; 5]);
    }

    /// Layers of two nodes, fully joined: 2^(layers − 1) shortest paths from end to end.
    fn ladder(layers: u32) -> (usize, Vec<(u32, u32)>) {
        let joins = [(0, 0), (0, 1), (1, 0), (1, 1)];
        let between = |layer| joins.map(|(a, b)| (2 * (layer - 1) + a, 2 * layer + b));
        (2 * layers as usize, (1..layers).flat_map(between).collect())
    }

    #[test]
    fn astronomical_numbers_of_paths_do_not_overflow() {
        let layers = 1101;
        let (nodes, pairs) = ladder(layers);
        let betweenness = betweenness(nodes, &pairs);
        let middle = betweenness[betweenness.len() / 2];
        // Of 2 × 1101² or so ordered pairs across the middle, each of four edges carries a quarter.
        let expected = 2.0 * (1101.0f64 * 1101.0) / 4.0;
        assert!((middle / expected - 1.0).abs() < 0.01, "{middle} {expected}");
        assert!(betweenness.iter().all(|b| b.is_finite()));
    }

    fn random_graph(stream: &mut Stream, most_nodes: u64, most_degree: u64) -> Graph {
        let n = 2 + stream.below(most_nodes - 1);
        let edges = n / 2 + stream.below(n * most_degree / 2);
        let mut node = || stream.below(n) as u32;
        let pairs: Vec<(u32, u32)> = (0..edges).map(|_| (node(), node())).collect();
        graph(n as usize, &pairs)
    }

    #[test]
    fn stopping_early_changes_nothing() {
        let mut stream = Seed(9).stream("test", 0, 0);
        let mut stopped = 0;
        for round in 0..200 {
            let graph = random_graph(&mut stream, 30, 5);
            let context = Context { seed: Seed(round), ..Context::default() };
            for ties in [Ties::Canonical, Ties::Random, Ties::All] {
                let newman = Newman { ties, ..Newman::default() };
                let early = newman.dissolve::<Blocks<'_>>(&graph, &context, true).unwrap();
                let late = newman.dissolve::<Blocks<'_>>(&graph, &context, false).unwrap();
                assert_eq!(early, late);
            }
            let mut state = Blocks::new(&graph, &()).unwrap();
            let (mut tied, mut steps) = (Vec::new(), 0);
            let mut best = state.components.modularity();
            while state.components.bound() > best {
                state.tied(&mut tied);
                state.remove(tied[0]).unwrap();
                best = best.max(state.components.modularity());
                steps += 1;
            }
            stopped += usize::from(steps > 0 && steps < graph.num_edges());
        }
        // Most stop on the way, neither at once nor at the end.
        assert!(stopped > 100, "{stopped}");
    }

    #[test]
    fn few_paths_beside_very_many_do_not_vanish() {
        // A ladder of 2^1399 paths, and a plain path of the same length, joined at both ends.
        let (nodes, mut pairs) = ladder(1_400);
        let (first, last) = (nodes as u32, nodes as u32 + 1_399);
        pairs.extend((first..last).map(|u| (u, u + 1)));
        pairs.extend([(0, first), (1, first), (nodes as u32 - 1, last), (nodes as u32 - 2, last)]);
        let betweenness = betweenness(nodes + 1_400, &pairs);
        assert!(betweenness.iter().all(|b| b.is_finite() && *b > 0.0));
    }

    #[test]
    fn rings_agree_with_the_definition() {
        let mut stream = Seed(6).stream("test", 0, 0);
        for k in 3..14 {
            // A ring with trees of random size on its nodes.
            let mut pairs: Vec<(u32, u32)> = (0..k).map(|u| (u, (u + 1) % k)).collect();
            for node in k..k + 30 {
                pairs.push((stream.below(node.into()) as u32, node));
            }
            let graph = graph(k as usize + 30, &pairs);
            let blocks = Blocks::new(&graph, &()).unwrap();
            let plain = Plain::<f64>::new(&graph, &()).unwrap();
            for (a, b) in blocks.betweenness.iter().zip(&plain.betweenness) {
                assert!((a / b.unwrap() - 1.0).abs() < 1e-14, "{k}: {a} {b:?}");
            }
        }
    }

    /// Removes the same edges from two graphs in step.
    fn compare<'a, A: Dissolve<'a>, B: Dissolve<'a>>(
        graph: &'a Graph,
        check: impl Fn(&A, &B, usize),
    ) {
        let (mut a, mut b) = (A::new(graph, &()).unwrap(), B::new(graph, &()).unwrap());
        let (mut tied_a, mut tied_b) = (Vec::new(), Vec::new());
        for step in 0.. {
            check(&a, &b, step);
            a.tied(&mut tied_a);
            b.tied(&mut tied_b);
            tied_a.sort_unstable();
            assert_eq!(tied_a, tied_b, "step {step}");
            assert_eq!(a.components().modularity(), b.components().modularity());
            assert_eq!(a.components().bound(), b.components().bound());
            let Some(&edge) = tied_a.get(step % tied_a.len().max(1)) else { break };
            assert_eq!(a.remove(edge).unwrap(), b.remove(edge).unwrap());
        }
    }

    #[test]
    fn blocks_agree_with_the_definition_at_every_step() {
        let mut stream = Seed(3).stream("test", 0, 0);
        for round in 0..150 {
            let (nodes, degree) = [(12, 3), (30, 3), (30, 8), (40, 20)][round % 4];
            let graph = random_graph(&mut stream, nodes, degree);
            compare::<Blocks<'_>, Plain<'_, f64>>(&graph, |blocks, plain, step| {
                for (edge, &b) in plain.betweenness.iter().enumerate() {
                    if let Some(expected) = b {
                        let error = (blocks.betweenness[edge] / expected - 1.0).abs();
                        assert!(error < 1e-12, "round {round}, step {step}, edge {edge}: {error}");
                    }
                }
            });
        }
    }

    #[test]
    fn exact_fractions_agree() {
        let mut stream = Seed(4).stream("test", 0, 0);
        for _ in 0..60 {
            let graph = random_graph(&mut stream, 16, 5);
            compare::<Blocks<'_>, Plain<'_, Ratio>>(&graph, |_, _, _| ());
            let exact = Newman { exact: true, ..Newman::default() };
            assert_eq!(exact.coarsen(&graph, &Context::default()).unwrap(), newman(&graph));
        }
    }

    #[test]
    fn fractions_that_outgrow_their_digits_are_an_error() {
        let (nodes, pairs) = ladder(140);
        let graph = graph(nodes, &pairs);
        let exact = Newman { exact: true, ..Newman::default() };
        let error = exact.coarsen(&graph, &Context::default()).unwrap_err().to_string();
        assert!(error.contains("leave out `exact=true`"), "{error}");
    }

    #[test]
    fn the_reference_removes_all_tied_edges() {
        // All edges of a ring are equal: one cluster, or all nodes alone, which is worse.
        let ring: Vec<(u32, u32)> = (0..12).map(|u| (u, (u + 1) % 12)).collect();
        let ring = graph(12, &ring);
        let reference = Newman { ties: Ties::All, ..Newman::default() };
        assert_eq!(reference.coarsen(&ring, &Context::default()).unwrap().num_clusters(), 1);
        assert!(newman(&ring).num_clusters() > 1);
        assert_eq!(reference.describe(), "newman:variant=reference");
        assert!(crate::coarsen::parse("newman:variant=reference,ties=random").is_err());
        assert!(crate::coarsen::parse("newman:variant=referenz").is_err());
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
