//! `louvain`: move single nodes to the neighbouring community that raises modularity most, merge
//! communities into nodes, repeat.
//!
//! Moving node i from its own community into c changes modularity by a positive multiple of
//!
//! w(i, c) − γ k_i K_c / 2m
//!
//! with w(i, c) the weight between i and c, k_i the weighted degree, K_c the total degree of c
//! without i, 2m the total degree and γ the resolution. A merged node keeps the weight inside it
//! as a self-loop, counted twice in its degree (S A Sᵀ).
//!
//! Blondel, Guillaume, Lambiotte & Lefebvre, "Fast unfolding of communities in large networks",
//! J. Stat. Mech. 2008.
//!
//! * **Complexity**: O(m) per sweep, few sweeps.
//! * **Determinism**: nodes are visited in an order drawn from the seed; ties go to the community
//!   with the smallest id. Sensitive to labels: relabelled copies of a graph often get another
//!   partition of nearly equal modularity.
//!
//! ```
//! use hdse::coarsen::{self, Context};
//! use hdse::Graph;
//! let (graph, _) = Graph::from_pairs(6, &[(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3)])?;
//! let partition = coarsen::parse("louvain")?.coarsen(&graph, &Context::default())?;
//! assert_eq!(partition.cluster_of(), [0, 0, 0, 1, 1, 1]);
//! # Ok::<(), hdse::Error>(())
//! ```

use std::collections::VecDeque;

use super::{Coarsener, Context, Entry, Parameter};
use crate::rng::Stream;
use crate::{Graph, Partition, Result, monitor};

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

pub(super) const ENTRY: Entry = Entry {
    name: "louvain",
    summary: "greedy modularity: move nodes, merge communities, repeat",
    citation: "Blondel, Guillaume, Lambiotte & Lefebvre 2008",
    complexity: "O(m) per sweep",
    nanoseconds: |n, m| 200.0 * n + 150.0 * m,
    version: 1,
    parameters: &[Parameter {
        name: "resolution",
        default: "1",
        help: "number > 0; larger means more and smaller communities",
    }],
    make: |arguments| {
        let valid = |r: &f64| *r > 0.0 && r.is_finite();
        let resolution = arguments.take_or("resolution", 1.0, "a number > 0", valid)?;
        Ok(Box::new(Louvain { resolution }))
    },
};

impl Coarsener for Louvain {
    fn coarsen(&self, graph: &Graph, context: &Context<'_>) -> Result<Partition> {
        let n = graph.num_nodes();
        let mut stream = context.stream("louvain");
        let mut partition = Partition::singletons(n);
        let mut loops = vec![0.0; n];
        let mut merged: Option<Graph> = None;
        loop {
            monitor::check(context.monitor)?;
            let current = merged.as_ref().unwrap_or(graph);
            let communities = move_nodes(current, &loops, self.resolution, &mut stream);
            if communities.num_clusters() == current.num_nodes() {
                return Ok(Partition::by_first_node(partition.cluster_of()));
            }
            loops = merge_loops(current, &loops, &communities);
            partition = partition.compose(&communities);
            merged = Some(current.contract(&communities));
        }
    }

    fn describe(&self) -> String {
        format!("louvain:resolution={}", self.resolution)
    }
}

/// Moves nodes between communities until no move of a single node gains. `loops[i]` is the weight
/// inside node i.
fn move_nodes(graph: &Graph, loops: &[f64], resolution: f64, stream: &mut Stream) -> Partition {
    let n = graph.num_nodes();
    let strength = |u: u32| graph.weighted_neighbors(u).map(|(_, w)| f64::from(w)).sum::<f64>();
    let degree: Vec<f64> = (0..n as u32).map(|u| strength(u) + 2.0 * loops[u as usize]).collect();
    let total: f64 = degree.iter().sum();
    let mut community: Vec<u32> = (0..n as u32).collect();
    if total == 0.0 {
        return Partition::singletons(n);
    }
    let mut community_degree = degree.clone();

    // Only nodes with a neighbour that moved are looked at again.
    let mut order: Vec<u32> = (0..n as u32).collect();
    stream.shuffle(&mut order);
    let mut queue = VecDeque::from(order);
    let mut queued = vec![true; n];
    let mut weight_to = vec![0f64; n];
    let mut neighbors: Vec<u32> = Vec::new();

    while let Some(u) = queue.pop_front() {
        queued[u as usize] = false;
        let own = community[u as usize];
        for (v, w) in graph.weighted_neighbors(u) {
            let c = community[v as usize];
            if weight_to[c as usize] == 0.0 {
                neighbors.push(c);
            }
            weight_to[c as usize] += f64::from(w);
        }
        community_degree[own as usize] -= degree[u as usize];
        let factor = resolution * degree[u as usize] / total;
        let gain = |c: u32| weight_to[c as usize] - factor * community_degree[c as usize];
        let mut best = own;
        let mut best_gain = gain(own);
        for &c in &neighbors {
            // A margin against rounding, so that equal moves never alternate.
            let margin = 1e-12 * degree[u as usize];
            let g = gain(c);
            if g > best_gain + margin || (g > best_gain - margin && best != own && c < best) {
                (best, best_gain) = (c, g);
            }
        }
        community_degree[best as usize] += degree[u as usize];
        for c in neighbors.drain(..) {
            weight_to[c as usize] = 0.0;
        }
        if best != own {
            community[u as usize] = best;
            for &v in graph.neighbors(u) {
                if community[v as usize] != best && !queued[v as usize] {
                    queued[v as usize] = true;
                    queue.push_back(v);
                }
            }
        }
    }
    Partition::by_first_node(&community)
}

/// Weight inside every community: loops of its members and edges between them.
fn merge_loops(graph: &Graph, loops: &[f64], communities: &Partition) -> Vec<f64> {
    let of = communities.cluster_of();
    let mut merged = vec![0.0; communities.num_clusters()];
    for (u, inside) in loops.iter().enumerate() {
        merged[of[u] as usize] += inside;
    }
    for (u, v, w) in graph.edges() {
        if of[u as usize] == of[v as usize] {
            merged[of[u as usize] as usize] += f64::from(w);
        }
    }
    merged
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
    fn merging_keeps_total_degree() {
        let graph = ring_of_cliques(5, 5);
        let communities = Partition::new((0..25).map(|u| u / 5).collect()).unwrap();
        let loops = merge_loops(&graph, &[0.0; 25], &communities);
        assert_eq!(loops, [10.0; 5]);
        let merged = graph.contract(&communities);
        let crossing: f64 = merged.edges().map(|(_, _, w)| f64::from(w)).sum();
        assert_eq!(crossing + loops.iter().sum::<f64>(), graph.num_edges() as f64);
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
