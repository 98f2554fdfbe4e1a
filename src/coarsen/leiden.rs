//! `leiden`: Louvain's method with a step that keeps communities connected. Move nodes as
//! [`louvain`](super::louvain) does; then *refine*: within each community start again from single
//! nodes and merge only what is well connected to the rest of it; merge these parts into nodes, which
//! start in the community they came from. So a part that joined too early can leave as a whole.
//!
//! A part S of community C counts as well connected if
//!
//! w(S, C − S) ≥ γ K_S (K_C − K_S) / 2m
//!
//! with w the weight between, K the total degree, γ the resolution. A single node that is well connected
//! joins the well connected part that gains it most modularity, if none is lost (the greedy form of the
//! published rule, which draws by gain).
//!
//! The whole is repeated from its own result, `iterations` times or until nothing changes.
//!
//! Traag, Waltman & van Eck, "From Louvain to Leiden: guaranteeing well-connected communities",
//! Scientific Reports 2019.
//!
//! * **Complexity**: O(m) per sweep, few sweeps.
//! * **Connected communities**, always: the result is checked, and taken apart where it should not be.
//! * **Determinism**: nodes are visited in an order drawn from the seed, ties go by a number drawn from
//!   it; the same result for any number of threads. Sensitive to labels, less than `louvain`;
//!   `docs/relabelling.md` has figures.
//!
//! ```
//! use hdse::coarsen::{self, Context};
//! use hdse::Graph;
//! let (graph, _) = Graph::from_pairs(6, &[(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3)])?;
//! let partition = coarsen::parse("leiden:iterations=5")?.coarsen(&graph, &Context::default())?;
//! assert_eq!(partition.cluster_of(), [0, 0, 0, 1, 1, 1]);
//! # Ok::<(), hdse::Error>(())
//! ```

use rayon::prelude::*;

use super::louvain::{Modularity, RESOLUTION, degrees, merge, resolution};
use super::moving::{Moving, PARALLEL, Table, Tables, Until};
use super::{Coarsener, Context, Entry, Parameter};
use crate::rng::Stream;
use crate::{Graph, Partition, Result};

/// Leiden's method; see the [module documentation](self).
pub struct Leiden {
    /// γ: above 1 for smaller, below 1 for larger communities.
    pub resolution: f64,
    /// How often to start again from the result.
    pub iterations: usize,
}

impl Default for Leiden {
    fn default() -> Self {
        Leiden { resolution: 1.0, iterations: 2 }
    }
}

pub(super) const ENTRY: Entry = Entry {
    name: "leiden",
    summary: "as louvain, with refined, always connected communities",
    citation: "Traag, Waltman & van Eck 2019",
    complexity: "O(m) per sweep",
    nanoseconds: |n, m| 500.0 * n + 400.0 * m,
    version: 1,
    parameters: &[
        RESOLUTION,
        Parameter {
            name: "iterations",
            default: "2",
            help: "how often to start again from the result, at most; ≥ 1",
        },
    ],
    make: |arguments| {
        let resolution = resolution(arguments)?;
        let valid = |i: &usize| *i >= 1;
        let iterations = arguments.take_or("iterations", 2, "a whole number ≥ 1", valid)?;
        Ok(Box::new(Leiden { resolution, iterations }))
    },
};

impl Coarsener for Leiden {
    fn coarsen(&self, graph: &Graph, context: &Context<'_>) -> Result<Partition> {
        let mut stream = context.stream("leiden");
        let mut communities = Partition::singletons(graph.num_nodes());
        for _ in 0..self.iterations {
            let next = self.iterate(graph, &communities, &mut stream, context)?;
            if std::mem::replace(&mut communities, next) == communities {
                break;
            }
        }
        Ok(connected(graph, communities))
    }

    fn describe(&self) -> String {
        format!("leiden:resolution={},iterations={}", self.resolution, self.iterations)
    }
}

impl Leiden {
    fn iterate(
        &self,
        graph: &Graph,
        start: &Partition,
        stream: &mut Stream,
        context: &Context<'_>,
    ) -> Result<Partition> {
        let mut mass = degrees(graph);
        let worth = Modularity::new(self.resolution, &mass);
        let mut until = Until { gain: worth.tolerance(graph), ..Until::NO_MOVE_IS_LEFT };
        // The part that every node of the graph is in, and the community every part starts in.
        let mut part_of = Partition::singletons(graph.num_nodes());
        let mut start = start.cluster_of().to_vec();
        let mut merged: Option<Graph> = None;
        loop {
            let current = merged.as_ref().unwrap_or(graph);
            let mut moving = Moving::new(current, &mass, start, worth, stream);
            moving.run(until, stream, context)?;
            let communities = moving.communities();
            if communities.num_clusters() == current.num_nodes() {
                return Ok(Partition::by_first_node(part_of.cluster_of()));
            }
            let mut parts = refine(current, &mass, &communities, worth.scale, stream);
            if parts.num_clusters() == current.num_nodes() {
                parts = communities.clone();
            }
            start = vec![0; parts.num_clusters()];
            for (&part, &community) in parts.cluster_of().iter().zip(communities.cluster_of()) {
                start[part as usize] = community;
            }
            mass = merge(&mass, &parts);
            part_of = part_of.compose(&parts);
            merged = Some(current.contract(&parts));
            until.gain /= 10.0;
        }
    }
}

/// The parts of every community. `scale` is γ / 2m.
fn refine(
    graph: &Graph,
    mass: &[f64],
    communities: &Partition,
    scale: f64,
    stream: &mut Stream,
) -> Partition {
    let n = graph.num_nodes();
    // Nodes by community, within each in an order drawn by seed; a node's place there is its number.
    let mut order: Vec<u32> = (0..n as u32).collect();
    stream.shuffle(&mut order);
    let mut ends: Vec<usize> = communities.sizes().iter().map(|&size| size as usize).collect();
    let mut end = 0;
    for slot in &mut ends {
        end += std::mem::replace(slot, end);
    }
    let mut nodes = vec![0; n];
    let mut place = vec![0; n];
    for u in order {
        let cursor = &mut ends[communities.cluster_of()[u as usize] as usize];
        nodes[*cursor] = u;
        place[u as usize] = *cursor as u32;
        *cursor += 1;
    }

    let mut part: Vec<u32> = (0..n as u32).collect();
    let mut rest = &mut part[..];
    let mut start = 0;
    let mut jobs = Vec::with_capacity(ends.len());
    for &end in &ends {
        let (own, others) = rest.split_at_mut(end - start);
        rest = others;
        jobs.push(Job { graph, mass, nodes: &nodes[start..end], place: &place, start, part: own });
        start = end;
    }
    if graph.targets().len() < PARALLEL {
        let tables = Tables::new(n, 1);
        tables.with(|table| jobs.into_iter().for_each(|job| job.run(scale, table)));
    } else {
        let tables = Tables::new(n, rayon::current_num_threads());
        jobs.into_par_iter().for_each(|job| tables.with(|table| job.run(scale, table)));
    }
    let of_nodes: Vec<u32> = place.iter().map(|&place| part[place as usize]).collect();
    Partition::by_first_node(&of_nodes)
}

/// The refinement of one community. Its nodes, and their parts, are numbered from `start`.
struct Job<'a> {
    graph: &'a Graph,
    mass: &'a [f64],
    nodes: &'a [u32],
    place: &'a [u32],
    start: usize,
    /// Part of every node.
    part: &'a mut [u32],
}

impl Job<'_> {
    fn run(self, scale: f64, table: &mut Table) {
        if self.nodes.len() == 1 {
            return;
        }
        let inside = |u: u32| {
            let local = |v: u32| (self.place[v as usize] as usize).wrapping_sub(self.start);
            let size = self.nodes.len();
            let edges = self.graph.weighted_neighbors(u);
            edges.map(move |(v, w)| (local(v), f64::from(w))).filter(move |&(v, _)| v < size)
        };
        let mut total: Vec<f64> = self.nodes.iter().map(|&u| self.mass[u as usize]).collect();
        let all: f64 = total.iter().sum();
        // Weight from every part to the rest of the community.
        let sum = |&u: &u32| inside(u).map(|(_, w)| w).sum();
        let mut outward: Vec<f64> = self.nodes.iter().map(sum).collect();
        let mut alone = vec![true; self.nodes.len()];
        let well = |outward: f64, mass: f64| outward >= scale * mass * (all - mass);
        for (i, &u) in self.nodes.iter().enumerate() {
            let mass = total[i];
            if !alone[i] || !well(outward[i], mass) {
                continue;
            }
            for (v, w) in inside(u) {
                table.add(self.part[v] - self.start as u32, w);
            }
            let mut best = None;
            for &c in &table.keys {
                let (c, weight) = (c as usize, table.weight[c as usize]);
                let gain = weight - scale * mass * total[c];
                let higher = best.is_none_or(|(_, highest)| gain > highest);
                if weight > 0.0 && gain >= 0.0 && higher && well(outward[c], total[c]) {
                    best = Some((c, gain));
                }
            }
            if let Some((c, _)) = best {
                outward[c] += outward[i] - 2.0 * table.weight[c];
                total[c] += mass;
                self.part[i] = (self.start + c) as u32;
                alone[i] = false;
                alone[c] = false;
            }
            table.clear();
        }
    }
}

/// Takes communities apart that are not connected.
fn connected(graph: &Graph, communities: Partition) -> Partition {
    let of = communities.cluster_of();
    let mut component = vec![u32::MAX; of.len()];
    let (mut count, mut stack) = (0, Vec::new());
    for root in 0..of.len() as u32 {
        if component[root as usize] != u32::MAX {
            continue;
        }
        component[root as usize] = count;
        stack.push(root);
        while let Some(u) = stack.pop() {
            for &v in graph.neighbors(u) {
                if component[v as usize] == u32::MAX && of[v as usize] == of[u as usize] {
                    component[v as usize] = count;
                    stack.push(v);
                }
            }
        }
        count += 1;
    }
    if count as usize == communities.num_clusters() {
        return communities;
    }
    Partition::by_first_node(&component)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Seed;

    #[test]
    fn parts_lie_within_communities_and_hang_together() {
        let mut stream = Seed(1).stream("test", 0, 0);
        for _ in 0..100 {
            let n = 2 + stream.below(40) as usize;
            let mut node = || stream.below(n as u64) as u32;
            let pairs: Vec<(u32, u32)> = (0..2 * n).map(|_| (node(), node())).collect();
            let (graph, _) = Graph::from_pairs(n, &pairs).unwrap();
            let labels: Vec<u32> = (0..n).map(|_| stream.below(4) as u32).collect();
            let communities = Partition::by_first_node(&labels);
            let mass = degrees(&graph);
            let scale = Modularity::new(1.0, &mass).scale;
            let parts = refine(&graph, &mass, &communities, scale, &mut stream);
            assert_eq!(connected(&graph, parts.clone()), parts);
            let members = parts.members();
            for part in 0..parts.num_clusters() as u32 {
                let nodes = members.of(part);
                assert!(nodes.iter().all(|&u| labels[u as usize] == labels[nodes[0] as usize]));
            }
        }
    }

    #[test]
    fn what_is_not_connected_is_taken_apart() {
        let (graph, _) = Graph::from_pairs(5, &[(0, 1), (2, 3)]).unwrap();
        let together = Partition::new(vec![0, 0, 0, 1, 1]).unwrap();
        assert_eq!(connected(&graph, together).cluster_of(), [0, 0, 1, 2, 3]);
    }
}
