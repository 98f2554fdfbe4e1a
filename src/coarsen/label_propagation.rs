//! `label-propagation`: every node joins the cluster most of its neighbours are in, again and again,
//! as long as there is room. The cheapest way to find clusters: a few passes over the edges.
//!
//! Node i moves to the cluster c of highest weight w(i, c) between them, if that is more than to its
//! own, and if c has fewer than `max_size` nodes. Without a limit labels tend to flood dense graphs, and
//! one cluster is no hierarchy, so the limit is 2√n unless given: about √n clusters of about √n nodes.
//!
//! Around a hub with more neighbours than fit, most nodes would stay alone. Single nodes that would
//! join the same full cluster, if they could, are put together instead (*two-hop* clustering).
//!
//! Raghavan, Albert & Kumara, "Near linear time algorithm to detect community structures in large-scale
//! networks", Phys. Rev. E 2007; with a size limit: Meyerhenke, Sanders & Schulz, "Partitioning
//! complex networks via size-constrained clustering", SEA 2014; two-hop: LaSalle et al., "Improving
//! graph partitioning for modern graphs and architectures", IA³ 2015.
//!
//! * **Complexity**: O(m) per sweep, at most `sweeps`.
//! * **Determinism**: nodes are visited in an order drawn from the seed, ties go by a number drawn from
//!   it; the same result for any number of threads. Sensitive to labels; `docs/relabelling.md` has
//!   figures.
//!
//! ```
//! use hdse::coarsen::{self, Context};
//! use hdse::Graph;
//! let (graph, _) = Graph::from_pairs(6, &[(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3)])?;
//! let spec = "label-propagation:max_size=3";
//! let partition = coarsen::parse(spec)?.coarsen(&graph, &Context::default())?;
//! assert!(partition.sizes().iter().all(|&size| size <= 3));
//! # Ok::<(), hdse::Error>(())
//! ```

use std::str::FromStr;

use super::moving::{Moving, Until, Workspace, Worth};
use super::{Coarsener, Context, Entry, Parameter};
use crate::rng::mix;
use crate::{Graph, Partition, Result};

/// Label propagation; see the [module documentation](self).
pub struct LabelPropagation {
    /// How large clusters may become.
    pub max_size: MaxSize,
    /// Passes over all nodes, at most.
    pub sweeps: usize,
}

impl Default for LabelPropagation {
    fn default() -> Self {
        LabelPropagation { max_size: MaxSize::Root, sweeps: SWEEPS }
    }
}

const SWEEPS: usize = 10;

/// How large a cluster may become.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MaxSize {
    /// 2√n nodes.
    #[default]
    Root,
    /// So many nodes, at least one.
    Nodes(usize),
    /// Any size.
    Unlimited,
}

impl FromStr for MaxSize {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "none" => Ok(MaxSize::Unlimited),
            _ => match text.parse() {
                Ok(nodes) if nodes > 0 => Ok(MaxSize::Nodes(nodes)),
                _ => Err(()),
            },
        }
    }
}

impl MaxSize {
    fn of(self, num_nodes: usize) -> f64 {
        match self {
            MaxSize::Root => (2.0 * (num_nodes as f64).sqrt()).ceil(),
            MaxSize::Nodes(nodes) => nodes.max(1) as f64,
            MaxSize::Unlimited => f64::INFINITY,
        }
    }
}

pub(super) const ENTRY: Entry = Entry {
    name: "label-propagation",
    summary: "join the cluster most neighbours are in, up to a size limit",
    citation: "Raghavan, Albert & Kumara 2007; Meyerhenke, Sanders & Schulz 2014",
    complexity: "O(m) per sweep",
    nanoseconds: |n, m| 200.0 * n + 250.0 * m,
    bytes: |n, _| 60.0 * n,
    version: 1,
    parameters: &[
        Parameter {
            name: "max_size",
            default: "-",
            help: "most nodes in a cluster, or none for no limit; 2√n if not given",
        },
        Parameter { name: "sweeps", default: "10", help: "passes over all nodes, at most" },
    ],
    make: |arguments| {
        let size = "a whole number ≥ 1, or none";
        let max_size = arguments.take("max_size", size)?.unwrap_or_default();
        let sweeps = arguments.take_or("sweeps", SWEEPS, "a whole number ≥ 1", |s| *s >= 1)?;
        Ok(Box::new(LabelPropagation { max_size, sweeps }))
    },
};

impl Coarsener for LabelPropagation {
    fn coarsen(&self, graph: &Graph, context: &Context<'_>) -> Result<Partition> {
        let n = graph.num_nodes();
        let limit = self.max_size.of(n);
        let mut stream = context.stream("propagation");
        let mass = vec![1.0; n];
        let own = (0..n as u32).collect();
        let mut work = Workspace::default();
        let room = Room { limit };
        let mut moving = Moving::new(graph, &mass, own, room, &mut stream, &mut work);
        moving.run(Until { gain: 0.0, sweeps: self.sweeps }, &mut stream, context)?;
        let clusters = moving.communities();
        if limit.is_infinite() {
            return Ok(clusters);
        }
        Ok(two_hop(graph, &clusters, limit as usize, stream.next_u64()))
    }

    fn describe(&self) -> String {
        let sweeps = self.sweeps;
        match self.max_size {
            MaxSize::Root => format!("label-propagation:sweeps={sweeps}"),
            MaxSize::Nodes(n) => format!("label-propagation:max_size={n},sweeps={sweeps}"),
            MaxSize::Unlimited => format!("label-propagation:max_size=none,sweeps={sweeps}"),
        }
    }
}

/// A cluster is worth the weight to it, if it has room.
struct Room {
    limit: f64,
}

impl Worth for Room {
    fn worth(&self, weight: f64, mass: f64, others: f64) -> f64 {
        if others + mass <= self.limit { weight } else { f64::NEG_INFINITY }
    }

    const MAY_LEAVE: bool = false;
}

/// Puts single nodes together that are drawn to the same cluster, which is full.
fn two_hop(graph: &Graph, clusters: &Partition, limit: usize, salt: u64) -> Partition {
    let of = clusters.cluster_of();
    let sizes = clusters.sizes();
    let mut drawn: Vec<(u32, u32)> = Vec::new();
    let mut weights: Vec<(u32, f64)> = Vec::new();
    for u in 0..graph.num_nodes() as u32 {
        if sizes[of[u as usize] as usize] > 1 || graph.degree(u) == 0 {
            continue;
        }
        weights.clear();
        weights.extend(graph.weighted_neighbors(u).map(|(v, w)| (of[v as usize], w.into())));
        weights.sort_unstable_by_key(|&(c, _)| c);
        let sums = weights.chunk_by(|a, b| a.0 == b.0).map(|same| {
            let weight: f64 = same.iter().map(|&(_, w)| w).sum();
            (weight, mix(salt ^ u64::from(same[0].0)), same[0].0)
        });
        let most = sums.max_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let full = |c: u32| sizes[c as usize] as usize >= limit;
        drawn.extend(most.filter(|&(w, _, c)| w > 0.0 && full(c)).map(|(_, _, c)| (c, u)));
    }
    drawn.sort_unstable();
    let mut labels = of.to_vec();
    let alike = drawn.chunk_by(|a, b| a.0 == b.0);
    for group in alike.flat_map(|alike| alike.chunks(limit)) {
        for &(_, u) in group {
            labels[u as usize] = of[group[0].1 as usize];
        }
    }
    Partition::by_first_node(&labels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coarsen::parse;

    fn run(spec: &str, graph: &Graph) -> Partition {
        parse(spec).unwrap().coarsen(graph, &Context::default()).unwrap()
    }

    fn star(leaves: u32) -> Graph {
        let pairs: Vec<(u32, u32)> = (1..=leaves).map(|v| (0, v)).collect();
        Graph::from_pairs(leaves as usize + 1, &pairs).unwrap().0
    }

    #[test]
    fn leaves_of_a_hub_are_put_together() {
        // The hub's cluster takes ten nodes, the other 91 go by tens.
        let sizes = run("label-propagation:max_size=10", &star(100)).sizes();
        assert_eq!(sizes.len(), 11);
        assert!(sizes.iter().all(|&size| size <= 10));
        assert_eq!(run("label-propagation:max_size=none", &star(100)).num_clusters(), 1);
        assert_eq!(run("label-propagation", &star(99)).num_clusters(), 5);
    }

    #[test]
    fn cliques_become_clusters() {
        let mut pairs = Vec::new();
        for base in (0..60).step_by(6) {
            pairs.extend((0..6).flat_map(|i| (0..i).map(move |j| (base + i, base + j))));
            pairs.push((base, (base + 6) % 60));
        }
        let (graph, _) = Graph::from_pairs(60, &pairs).unwrap();
        let partition = run("label-propagation:max_size=6", &graph);
        assert!(partition.quality(&graph).cut_fraction < 0.3);
    }

    #[test]
    fn limits_are_checked() {
        for spec in ["max_size=0", "max_size=-3", "max_size=all", "sweeps=0"] {
            assert!(parse(&format!("label-propagation:{spec}")).is_err());
        }
    }
}
