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
//! joins a well connected part without loss of modularity, drawn with probability ∝ exp(g / θ): g is what
//! is gained, in units of the average edge weight, and θ the `randomness`.
//!
//! The whole is repeated from its own result, at most `iterations` times: until two in a row gain nothing
//! or, on graphs of 32,768 edges and more, until one raises modularity by less than 0.003.
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
use super::moving::{Moving, Table, Until, Workspace, is_large};
use super::{Coarsener, Context, Entry, Parameter};
use crate::rng::{Stream, mix, unit};
use crate::{Graph, Partition, Result};

/// Leiden's method; see the [module documentation](self).
pub struct Leiden {
    /// γ: above 1 for smaller, below 1 for larger communities.
    pub resolution: f64,
    /// How often to start again from the result, at most.
    pub iterations: usize,
    /// θ: how often parts are merged that don't gain most; 0 for never.
    pub randomness: f64,
}

impl Default for Leiden {
    fn default() -> Self {
        Leiden { resolution: 1.0, iterations: 5, randomness: 0.1 }
    }
}

pub(super) const ENTRY: Entry = Entry {
    name: "leiden",
    summary: "as louvain, with refined, always connected communities",
    citation: "Traag, Waltman & van Eck 2019",
    complexity: "O(m) per sweep",
    nanoseconds: |n, m| 1_000.0 * n + 450.0 * m,
    bytes: |n, m| 100.0 * n + 12.0 * m,
    version: 1,
    parameters: &[
        RESOLUTION,
        Parameter {
            name: "iterations",
            default: "5",
            help: "how often to start again from the result, at most; ≥ 1",
        },
        Parameter {
            name: "randomness",
            default: "0.1",
            help: "number ≥ 0; how often parts merge that don't gain most",
        },
    ],
    make: |arguments| {
        let resolution = resolution(arguments)?;
        let valid = |i: &usize| *i >= 1;
        let iterations = arguments.take_or("iterations", 5, "a whole number ≥ 1", valid)?;
        let valid = |r: &f64| *r >= 0.0 && r.is_finite();
        let randomness = arguments.take_or("randomness", 0.1, "a number ≥ 0", valid)?;
        Ok(Box::new(Leiden { resolution, iterations, randomness }))
    },
};

impl Coarsener for Leiden {
    fn coarsen(&self, graph: &Graph, context: &Context<'_>) -> Result<Partition> {
        let degrees = degrees(graph);
        let worth = Modularity::new(self.resolution, &degrees);
        let mut run = Run {
            graph,
            degrees,
            worth,
            theta: self.randomness * worth.mean_weight(graph),
            stream: context.stream("leiden"),
            work: Workspace::default(),
            context,
        };
        let mut communities = Partition::singletons(graph.num_nodes());
        let (mut from, mut quiet) = (From::Nodes, 0);
        for _ in 0..self.iterations {
            let gain = run.iterate(&mut communities, from)?;
            from = if gain == 0.0 { From::Rest } else { From::Result };
            quiet = if gain > ENOUGH * worth.tolerance(graph) { 0 } else { quiet + 1 };
            if quiet == if is_large(graph) { 1 } else { QUIET } {
                break;
            }
        }
        Ok(connected(graph, &communities))
    }

    fn describe(&self) -> String {
        let Leiden { resolution, iterations, randomness } = self;
        format!("leiden:resolution={resolution},iterations={iterations},randomness={randomness}")
    }
}

/// An iteration over a large graph that gains fewer tolerances than this is the last.
const ENOUGH: f64 = 3.0;
/// On a small graph, it is the last of so many in a row that gain nothing: draws differ.
const QUIET: usize = 2;

/// What an iteration starts from.
#[derive(Clone, Copy, PartialEq)]
enum From {
    /// Single nodes.
    Nodes,
    /// The result of an iteration: no merging of whole communities gains, so that if neither nodes nor
    /// the parts of communities have anything to gain, that is all.
    Result,
    /// The result of one that gained nothing: besides, every node is in its best community.
    Rest,
}

/// What stays the same from iteration to iteration.
struct Run<'a> {
    graph: &'a Graph,
    degrees: Vec<f64>,
    worth: Modularity,
    theta: f64,
    stream: Stream,
    work: Workspace,
    context: &'a Context<'a>,
}

impl Run<'_> {
    /// From one partition to a better one; returns how much better it is.
    ///
    fn iterate(&mut self, partition: &mut Partition, from: From) -> Result<f64> {
        let Run { graph, degrees, worth, theta, stream, work, context } = self;
        let mut until = Until { gain: worth.tolerance(graph), ..Until::NO_MOVE_IS_LEFT };
        // The part that every node of the graph is in, and the community every part starts in.
        let mut part_of = Partition::singletons(graph.num_nodes());
        let mut start = partition.cluster_of().to_vec();
        let mut mass = degrees.clone();
        let mut merged: Option<Graph> = None;
        let mut gain = 0.0;
        for level in 0.. {
            let current = merged.as_ref().unwrap_or(graph);
            let communities = if level == 0 && from == From::Rest {
                partition.clone()
            } else {
                let mut moving = Moving::new(current, &mass, start, *worth, stream, work);
                gain += moving.run(until, stream, context)?;
                moving.communities()
            };
            if level == 1 && from != From::Nodes && gain == 0.0 {
                break;
            }
            if communities.num_clusters() == current.num_nodes() {
                *partition = Partition::by_first_node(part_of.cluster_of());
                break;
            }
            let rule = Rule { scale: worth.scale, theta: *theta, salt: stream.next_u64() };
            let mut parts = refine(current, &mass, &communities, &rule, stream, work);
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
        Ok(gain)
    }
}

/// What nodes join which parts by.
struct Rule {
    /// γ / 2m.
    scale: f64,
    theta: f64,
    salt: u64,
}

impl Rule {
    /// Whether a part has enough weight `outward` to the rest of its community.
    fn is_well_connected(&self, outward: f64, mass: f64, community_mass: f64) -> bool {
        outward >= self.scale * mass * (community_mass - mass)
    }

    /// Draws one of `options`, which come with what they gain.
    fn draw(&self, options: &[(u32, f64)], number: u32) -> Option<u32> {
        if let [] | [_] = options {
            return options.first().map(|&(only, _)| only);
        }
        let highest = options.iter().map(|&(_, gain)| gain).fold(f64::NEG_INFINITY, f64::max);
        let chance = |gain: f64| match (gain - highest) / self.theta {
            // 0 / 0 where there is no randomness and nothing gains more.
            x if x > -NEVER => x.exp(),
            x if x.is_nan() => 1.0,
            _ => 0.0,
        };
        let sum: f64 = options.iter().map(|&(_, gain)| chance(gain)).sum();
        let mut left = unit(mix(self.salt ^ u64::from(number))) * sum;
        let drawn = options.iter().find(|&&(_, gain)| {
            left -= chance(gain);
            left < 0.0
        });
        drawn.or(options.last()).map(|&(option, _)| option)
    }
}

/// So many θ below the highest gain, an option is not drawn.
const NEVER: f64 = 30.0;

/// The parts of every community.
fn refine(
    graph: &Graph,
    mass: &[f64],
    communities: &Partition,
    rule: &Rule,
    stream: &mut Stream,
    work: &mut Workspace,
) -> Partition {
    let n = graph.num_nodes();
    // Nodes by community, within each in an order drawn by seed; a node's place there is its number.
    let order = work.order(graph, stream);
    let tables = work.tables(graph);
    let mut ends: Vec<usize> = communities.sizes().iter().map(|&size| size as usize).collect();
    let mut end = 0;
    for slot in &mut ends {
        end += std::mem::replace(slot, end);
    }
    let mut nodes = vec![0; n];
    let mut place = vec![0; n];
    for &u in &order {
        let cursor = &mut ends[communities.cluster_of()[u as usize] as usize];
        nodes[*cursor] = u;
        place[u as usize] = *cursor as u32;
        *cursor += 1;
    }

    let part = |(place, &u): (usize, &u32)| Part {
        of: place as u32,
        alone: true,
        mass: mass[u as usize],
        outward: 0.0,
    };
    let mut parts: Vec<Part> = nodes.iter().enumerate().map(part).collect();
    let mut rest = &mut parts[..];
    let mut start = 0;
    let jobs = ends.iter().map(|&end| {
        let own = rest.split_off_mut(..end - start).expect("communities share out all nodes");
        let job = Job { graph, nodes: &nodes[start..end], place: &place, start };
        start = end;
        (job, own)
    });
    if is_large(graph) {
        let jobs: Vec<(Job<'_>, &mut [Part])> = jobs.collect();
        let run = |(job, parts): (Job<'_>, _)| tables.with(|table| job.run(parts, rule, table));
        jobs.into_par_iter().for_each(run);
    } else {
        tables.with(|table| jobs.for_each(|(job, parts)| job.run(parts, rule, table)));
    }
    work.give_back(order, tables);
    let of_nodes: Vec<u32> = place.iter().map(|&place| parts[place as usize].of).collect();
    Partition::by_first_node(&of_nodes)
}

/// A node, by its place, and the part that started with it.
struct Part {
    /// The part the node is in.
    of: u32,
    /// Whether the node is a part by itself.
    alone: bool,
    /// Total mass of the part.
    mass: f64,
    /// Weight from the part to the rest of its community.
    outward: f64,
}

/// The refinement of one community. Its nodes, and their parts, are numbered from `start`.
struct Job<'a> {
    graph: &'a Graph,
    nodes: &'a [u32],
    place: &'a [u32],
    start: usize,
}

impl Job<'_> {
    /// Tells every neighbour within the community, by its number there, with the weight of the edge.
    #[inline]
    fn inside(&self, node: u32, mut tell: impl FnMut(usize, f64)) {
        self.graph.for_each_neighbor(node, |v, w| {
            let local = (self.place[v as usize] as usize).wrapping_sub(self.start);
            if local < self.nodes.len() {
                tell(local, w);
            }
        });
    }

    fn run(&self, parts: &mut [Part], rule: &Rule, table: &mut Table) {
        if self.nodes.len() == 1 {
            return;
        }
        let all: f64 = parts.iter().map(|part| part.mass).sum();
        for (part, &u) in parts.iter_mut().zip(self.nodes) {
            self.inside(u, |_, w| part.outward += w);
        }
        let well = |part: &Part| rule.is_well_connected(part.outward, part.mass, all);
        let mut options = Vec::with_capacity(8);
        for (i, &u) in self.nodes.iter().enumerate() {
            let Part { alone, mass, outward, .. } = parts[i];
            if !alone || !well(&parts[i]) {
                continue;
            }
            self.inside(u, |v, w| {
                if w > 0.0 {
                    table.add(parts[v].of - self.start as u32, w);
                }
            });
            options.clear();
            for &c in &table.keys {
                let (weight, part) = (table.weight[c as usize], &parts[c as usize]);
                let gain = weight - rule.scale * mass * part.mass;
                if gain >= 0.0 && well(part) {
                    options.push((c, gain));
                }
            }
            if let Some(c) = rule.draw(&options, (self.start + i) as u32) {
                parts[i].of = self.start as u32 + c;
                parts[i].alone = false;
                let joined = &mut parts[c as usize];
                joined.outward += outward - 2.0 * table.weight[c as usize];
                joined.mass += mass;
                joined.alone = false;
            }
            table.clear();
        }
    }
}

/// Takes communities apart that are not connected.
fn connected(graph: &Graph, communities: &Partition) -> Partition {
    let of = communities.cluster_of();
    graph.components_by(|u, v| of[u as usize] == of[v as usize])
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
            let rule = Rule { scale, theta: 0.1, salt: stream.next_u64() };
            let parts =
                refine(&graph, &mass, &communities, &rule, &mut stream, &mut Workspace::default());
            assert_eq!(connected(&graph, &parts), parts);
            let members = parts.members();
            for part in 0..parts.num_clusters() as u32 {
                let nodes = members.of(part);
                assert!(nodes.iter().all(|&u| labels[u as usize] == labels[nodes[0] as usize]));
            }
        }
    }

    #[test]
    fn what_gains_most_is_drawn_most() {
        let options = [(7, 0.2), (8, 0.5), (9, 0.45)];
        let count = |theta: f64, option: u32| {
            let drawn = |salt| Rule { scale: 0.0, theta, salt }.draw(&options, 3) == Some(option);
            (0..1000).filter(|&salt| drawn(salt)).count()
        };
        assert_eq!(count(0.0, 8), 1000);
        let expected = 1000.0 / (1.0 + (-0.5f64).exp() + (-3.0f64).exp());
        assert!((count(0.1, 8) as f64 - expected).abs() < 50.0);
        assert!(count(0.1, 7) > 0);
        assert_eq!(Rule { scale: 0.0, theta: 0.1, salt: 0 }.draw(&[], 0), None);
    }

    #[test]
    fn what_is_not_connected_is_taken_apart() {
        let (graph, _) = Graph::from_pairs(5, &[(0, 1), (2, 3)]).unwrap();
        let together = Partition::new(vec![0, 0, 0, 1, 1]).unwrap();
        assert_eq!(connected(&graph, &together).cluster_of(), [0, 0, 1, 2, 3]);
    }
}
