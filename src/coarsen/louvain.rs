//! `louvain`: move single nodes to the neighbouring community that raises modularity most, merge
//! communities into nodes, repeat. When no move is left, go back level by level and let nodes move again
//! between the final communities: some joined theirs when it was still a few nodes (Rotta & Noack,
//! "Multilevel local search algorithms for modularity clustering", 2011).
//!
//! Moving node i from its own community into c changes modularity by a positive multiple of
//!
//! w(i, c) − γ k_i K_c / 2m
//!
//! with w(i, c) the weight between i and c, k_i the weighted degree, K_c the total degree of c
//! without i, 2m the total degree and γ the resolution. A merged node's degree is the sum of its
//! members', so edges inside it count twice, as self-loops do (S A Sᵀ).
//!
//! Graphs of 32,768 edges and more are worked on in parallel (`moving.rs`), and a round of sweeps there ends
//! when one gains less than 0.001 of modularity, a tenth of that at every further level.
//!
//! Blondel, Guillaume, Lambiotte & Lefebvre, "Fast unfolding of communities in large networks",
//! J. Stat. Mech. 2008.
//!
//! * **Complexity**: O(m) per sweep, few sweeps.
//! * **Determinism**: nodes are visited in an order drawn from the seed, ties go by a number drawn from
//!   it; the same result for any number of threads. Sensitive to labels: relabelled copies of a graph
//!   often get another partition of nearly equal modularity; `docs/relabelling.md` has figures.
//! * **Connected communities** are not promised: [`leiden`](super::leiden) does that.
//!
//! ```
//! use hdse::coarsen::{self, Context};
//! use hdse::Graph;
//! let (graph, _) = Graph::from_pairs(6, &[(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3)])?;
//! let partition = coarsen::parse("louvain")?.coarsen(&graph, &Context::default())?;
//! assert_eq!(partition.cluster_of(), [0, 0, 0, 1, 1, 1]);
//! # Ok::<(), hdse::Error>(())
//! ```

use super::moving::{Moving, Until, Workspace, Worth, is_large};
use super::{Arguments, Coarsener, Context, Entry, Parameter};
use crate::{Graph, Partition, Result};

/// Louvain's method; see the [module documentation](self).
pub struct Louvain {
    /// γ: above 1 for smaller, below 1 for larger communities.
    pub resolution: f64,
}

impl Default for Louvain {
    fn default() -> Self {
        Louvain { resolution: 1.0 }
    }
}

pub(super) const RESOLUTION: Parameter = Parameter {
    name: "resolution",
    default: "1",
    help: "number > 0; larger means more and smaller communities",
};

pub(super) fn resolution(arguments: &mut Arguments) -> Result<f64> {
    let valid = |r: &f64| *r > 0.0 && r.is_finite();
    arguments.take_or("resolution", 1.0, "a number > 0", valid)
}

pub(super) const ENTRY: Entry = Entry {
    name: "louvain",
    summary: "greedy modularity: move nodes, merge communities, repeat; and back",
    citation: "Blondel, Guillaume, Lambiotte & Lefebvre 2008",
    complexity: "O(m) per sweep",
    nanoseconds: |n, m| 500.0 * n + 190.0 * m,
    bytes: |n, m| 72.0 * n + 12.0 * m,
    version: 2,
    parameters: &[RESOLUTION],
    make: |arguments| Ok(Box::new(Louvain { resolution: resolution(arguments)? })),
};

impl Coarsener for Louvain {
    fn coarsen(&self, graph: &Graph, context: &Context<'_>) -> Result<Partition> {
        let mut stream = context.stream("louvain");
        let mut mass = degrees(graph);
        let worth = Modularity::new(self.resolution, &mass);
        let mut until = Until { gain: worth.tolerance(graph), ..Until::NO_MOVE_IS_LEFT };

        let mut work = Workspace::default();
        // Up: what was merged at every level, and into what.
        let mut levels: Vec<Level> = Vec::new();
        let mut communities = loop {
            let current = levels.last().map_or(graph, |level| &level.merged);
            let own = (0..current.num_nodes() as u32).collect();
            let mut moving = Moving::new(current, &mass, own, worth, &mut stream, &mut work);
            let gain = moving.run(until, &mut stream, context)?;
            let communities = moving.communities();
            if gain == 0.0 || communities.num_clusters() == current.num_nodes() {
                break Partition::singletons(current.num_nodes());
            }
            let merged = current.contract(&communities);
            let merged_mass = merge(&mass, &communities);
            levels.push(Level {
                mass: std::mem::replace(&mut mass, merged_mass),
                communities,
                merged,
            });
            until.gain /= 10.0;
        };

        // Down: nodes that merged too early move again, now between the final communities.
        while let Some(level) = levels.pop() {
            let current = levels.last().map_or(graph, |level| &level.merged);
            let start = level.communities.compose(&communities).cluster_of().to_vec();
            let mut moving =
                Moving::new(current, &level.mass, start, worth, &mut stream, &mut work);
            moving.run(until, &mut stream, context)?;
            communities = moving.communities();
        }
        Ok(communities)
    }

    fn describe(&self) -> String {
        format!("louvain:resolution={}", self.resolution)
    }
}

/// One step up: nodes of these masses joined these communities, which became a graph.
struct Level {
    mass: Vec<f64>,
    communities: Partition,
    merged: Graph,
}

/// Weighted degree of every node.
pub(super) fn degrees(graph: &Graph) -> Vec<f64> {
    let degree = |u: u32| match graph.weights() {
        None => graph.degree(u) as f64,
        Some(_) => graph.weighted_neighbors(u).map(|(_, w)| f64::from(w)).sum(),
    };
    (0..graph.num_nodes() as u32).map(degree).collect()
}

/// Mass of every community.
pub(super) fn merge(mass: &[f64], communities: &Partition) -> Vec<f64> {
    let mut merged = vec![0.0; communities.num_clusters()];
    for (&c, mass) in communities.cluster_of().iter().zip(mass) {
        merged[c as usize] += mass;
    }
    merged
}

/// Gain in modularity, times the total weight of all edges.
#[derive(Clone, Copy)]
pub(super) struct Modularity {
    /// γ / 2m.
    pub scale: f64,
    total: f64,
}

impl Modularity {
    pub fn new(resolution: f64, degrees: &[f64]) -> Modularity {
        let total: f64 = degrees.iter().sum();
        Modularity { scale: if total > 0.0 { resolution / total } else { 0.0 }, total }
    }

    /// Average weight of the edges of the graph.
    pub fn mean_weight(&self, graph: &Graph) -> f64 {
        self.total / graph.targets().len().max(1) as f64
    }

    /// When the first round of sweeps may stop: having gained less than a thousandth of modularity.
    /// Small graphs go on to the end, which costs nothing there.
    pub fn tolerance(&self, graph: &Graph) -> f64 {
        if is_large(graph) { 1e-3 * self.total / 2.0 } else { 0.0 }
    }
}

impl Worth for Modularity {
    fn worth(&self, weight: f64, mass: f64, others: f64) -> f64 {
        weight - self.scale * mass * others
    }

    const MAY_LEAVE: bool = true;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Seed;

    fn run(graph: &Graph, resolution: f64, seed: u64) -> Partition {
        let context = Context { seed: Seed(seed), ..Context::default() };
        Louvain { resolution }.coarsen(graph, &context).unwrap()
    }

    fn ring_of_cliques(count: u32, size: u32) -> Graph {
        let mut pairs = Vec::new();
        for c in 0..count {
            for i in 0..size {
                pairs.extend((0..i).map(|j| (c * size + i, c * size + j)));
            }
            pairs.push((c * size, (c + 1) % count * size + 1));
        }
        Graph::from_pairs((count * size) as usize, &pairs).unwrap().0
    }

    #[test]
    fn finds_cliques_in_a_ring() {
        let graph = ring_of_cliques(8, 6);
        let expected: Vec<u32> = (0..48).map(|u| u / 6).collect();
        for seed in 0..20 {
            assert_eq!(run(&graph, 1.0, seed).cluster_of(), expected);
        }
    }

    #[test]
    fn resolution_changes_the_scale() {
        let graph = ring_of_cliques(30, 4);
        let (coarse, fine) = (run(&graph, 0.1, 0), run(&graph, 4.0, 0));
        assert!(coarse.num_clusters() < fine.num_clusters());
        assert_eq!(fine.num_clusters(), 30);
    }

    #[test]
    fn heavy_edges_hold_together() {
        // A 4-cycle with two heavy opposite edges.
        let (graph, _) =
            Graph::from_weighted_pairs(4, &[(0, 1), (1, 2), (2, 3), (3, 0)], &[9.0, 1.0, 9.0, 1.0])
                .unwrap();
        assert_eq!(run(&graph, 1.0, 0).cluster_of(), [0, 0, 1, 1]);
    }
}
