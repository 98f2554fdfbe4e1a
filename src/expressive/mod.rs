//! What distances can tell apart: the Weisfeiler-Leman test with generalised distances.
//!
//! All nodes start with one colour, or that of their type. In every round a node looks at all nodes u, itself too, and its new
//! colour stands for the multiset of what it sees,
//!
//! colour(v) ← {{ (D(v, u), colour(u)) : u ∈ V }},
//!
//! until no two nodes of equal colour see different things. The sorted colours of a graph are its
//! *signature*. Isomorphic graphs have equal signatures for every D that depends on the graph alone, so
//! different ones prove that two graphs differ; equal ones prove nothing. The finer D is, the more is told
//! apart, and a graph transformer that sees D as a bias of its attention tells apart no more than this
//! test (Zhang et al.; Propositions 1 and 2 of the paper).
//!
//! | [`Distance`] | D(v, u) |
//! |---|---|
//! | `Adjacency` | same node, neighbours or neither: the plain test, 1-WL |
//! | `Hops` | shortest-path distance |
//! | `Resistance` | effective resistance, every edge being one ohm; exact (`resistance.rs`) |
//! | `Hierarchy` | hops and distances at all levels of a hierarchy: HDSE |
//!
//! **Soundness.** A hierarchy is chosen by a coarsener, and where a graph has several that are equally good,
//! numbering or chance decides. Two copies of one graph may then get different ones, and D may tell
//! them apart although they are isomorphic. `docs/expressiveness.md` has how often.
//!
//! **Colours are ranks, not hashes.** Graphs of one size are refined together: what their nodes see is sorted, and
//! the place among all distinct sights is the new colour. Nothing can collide. Graphs of different sizes
//! never see the same.
//!
//! Zhang, Luo, Wang & He, "Rethinking the expressive power of GNNs via graph biconnectivity", ICLR 2023; Weisfeiler &
//! Leman, 1968.
//!
//! * **Weights** are ignored.
//! * **Complexity**: O(n² log n) per graph and round besides distances; rounds are few, at most n. Memory is 24 bytes and a
//!   byte for each level for every pair of nodes of all graphs of one size.
//! * **Determinism**: the same for any number of threads; which graphs are told apart does not depend on their order or
//!   numbering, hierarchies aside.
//!
//! ```
//! use hdse::expressive::{Distance, refine};
//! use hdse::graph::named::named;
//! use hdse::MemoryLimit;
//! let (triangles, hexagon) = (named("cycles-3-3")?, named("cycles-6")?);
//! let groups = |distance| {
//!     let found = refine(&[&triangles, &hexagon], &distance, MemoryLimit::NONE, &());
//!     Ok::<usize, hdse::Error>(found?.groups.num_clusters())
//! };
//! assert_eq!(groups(Distance::Adjacency)?, 1);
//! assert_eq!(groups(Distance::Hops)?, 2);
//! # Ok::<(), hdse::Error>(())
//! ```

pub mod catalogue;
mod resistance;

use rayon::prelude::*;

use crate::distance::{Distances, MaxDistance, Scratch};
use crate::encode::Encoder;
use crate::monitor::{Monitor, check};
use crate::{Error, Graph, Hierarchy, MemoryLimit, Partition, Result};

/// What nodes see of each other.
#[derive(Clone, Copy)]
pub enum Distance<'a> {
    /// Same node, neighbours, neither.
    Adjacency,
    /// Shortest-path distance, up to 254 hops; more count as 254.
    Hops,
    /// Effective resistance.
    Resistance,
    /// The distances of all levels, with the clips of the encoder.
    Hierarchy(&'a Encoder),
}

impl Distance<'_> {
    /// Bytes for a pair while distances are made codes, besides the codes.
    fn bytes(&self) -> u128 {
        match self {
            Distance::Hierarchy(encoder) => encoder.levels as u128 + 1,
            _ => 0,
        }
    }

    /// Its name in tables, with the hierarchy it is of.
    pub fn describe(&self) -> String {
        match self {
            Distance::Adjacency => "adjacency".into(),
            Distance::Hops => "spd".into(),
            Distance::Resistance => "resistance".into(),
            Distance::Hierarchy(encoder) => {
                format!("hdse {}, K = {}", encoder.describe(), encoder.levels)
            }
        }
    }
}

/// Stable colours of graphs.
#[derive(Clone, Debug, PartialEq)]
pub struct Refinement {
    /// Graphs of equal signature, numbered by their first graph.
    pub groups: Partition,
    /// The colour of every node of every graph; equal colours are equal in any two graphs.
    pub colors: Vec<Vec<u32>>,
    /// How many groups there are after 0, 1, … rounds. Before the first, graphs differ in size and types alone;
    /// the last round is the last that changed anything.
    pub history: Vec<usize>,
}

impl Refinement {
    /// Rounds until no more groups are told apart.
    pub fn rounds(&self) -> usize {
        let last = self.groups.num_clusters();
        self.history.iter().take_while(|&&groups| groups < last).count()
    }

    /// Distinct colours in a graph.
    pub fn num_colors(&self, graph: usize) -> usize {
        Partition::from_labels(&self.colors[graph]).num_clusters()
    }
}

/// Refines the colours of all graphs until they are stable. The number of a graph in `graphs` is the one that
/// an [`Encoder`] knows it by.
///
/// # Errors
/// If a coarsener fails, or the pairs of all graphs of one size need more than `limit`.
pub fn refine(
    graphs: &[&Graph],
    distance: &Distance<'_>,
    limit: MemoryLimit,
    monitor: &dyn Monitor,
) -> Result<Refinement> {
    let alike: Vec<Vec<u32>> = graphs.iter().map(|graph| vec![0; graph.num_nodes()]).collect();
    refine_from(graphs, &alike, distance, limit, monitor)
}

/// [`refine`], with nodes that differ from the start: a type for every node of every graph.
///
/// # Errors
/// As [`refine`].
///
/// # Panics
/// If there is not a type for every node.
pub fn refine_from(
    graphs: &[&Graph],
    types: &[Vec<u32>],
    distance: &Distance<'_>,
    limit: MemoryLimit,
    monitor: &dyn Monitor,
) -> Result<Refinement> {
    assert!(types.iter().map(Vec::len).eq(graphs.iter().map(|graph| graph.num_nodes())));
    let sizes: Vec<usize> = graphs.iter().map(|graph| graph.num_nodes()).collect();
    let sizes = Partition::from_labels(&sizes);
    let members = sizes.members();
    let mut colors = vec![Vec::new(); graphs.len()];
    let mut signature = vec![0; graphs.len()];
    let (mut all_colors, mut all_groups) = (0, 0);
    let mut histories: Vec<Vec<usize>> = Vec::new();
    for size in 0..sizes.num_clusters() as u32 {
        let numbers = members.of(size);
        let pairs = (graphs[numbers[0] as usize].num_nodes() as u128).pow(2);
        limit.check(
            (24 + distance.bytes()) * pairs * numbers.len() as u128,
            &format!("comparing all pairs of nodes of {} graphs", numbers.len()),
            "compare fewer graphs, or raise `--max-memory`",
        )?;
        let codes = codes(graphs, numbers, distance, limit, monitor)?;
        let mut class = Class::new(numbers.iter().map(|&number| &types[number as usize]), codes);
        histories.push(class.refine(monitor)?);
        let groups = class.groups();
        for (place, &number) in numbers.iter().enumerate() {
            signature[number as usize] = all_groups + groups.cluster_of()[place];
            let own = std::mem::take(&mut class.colors[place]);
            colors[number as usize] = own.into_iter().map(|color| all_colors + color).collect();
        }
        all_groups += groups.num_clusters() as u32;
        all_colors += class.count as u32;
    }
    let rounds = histories.iter().map(Vec::len).max().unwrap_or(1);
    let after =
        |round: usize| histories.iter().map(move |history| history[round.min(history.len() - 1)]);
    Ok(Refinement {
        groups: Partition::by_first_node(&signature),
        colors,
        history: (0..rounds).map(|round| after(round).sum()).collect(),
    })
}

/// Graphs of one size.
struct Class {
    nodes: usize,
    /// For each graph, D of all pairs as numbers that are equal for equal values.
    codes: Vec<Vec<u32>>,
    /// For each graph, colours of its nodes: 0, 1, … below `count`.
    colors: Vec<Vec<u32>>,
    count: usize,
}

impl Class {
    fn new<'a>(types: impl Iterator<Item = &'a Vec<u32>>, codes: Vec<Vec<u32>>) -> Class {
        let mut colors: Vec<Vec<u32>> = types.cloned().collect();
        let nodes = colors.first().map_or(0, Vec::len);
        let distinct = Partition::from_labels(&colors.concat());
        for (color, &rank) in colors.iter_mut().flatten().zip(distinct.cluster_of()) {
            *color = rank;
        }
        Class { nodes, codes, colors, count: distinct.num_clusters() }
    }

    /// Graphs of equal signature.
    fn groups(&self) -> Partition {
        let sorted = |colors: &Vec<u32>| {
            let mut colors = colors.clone();
            colors.sort_unstable();
            colors
        };
        Partition::from_labels(&self.colors.par_iter().map(sorted).collect::<Vec<_>>())
    }

    /// Rounds until nothing changes; gives the number of groups after each.
    fn refine(&mut self, monitor: &dyn Monitor) -> Result<Vec<usize>> {
        let mut history = vec![self.groups().num_clusters()];
        loop {
            check(monitor)?;
            let pairs = self.codes.par_iter().zip(&self.colors);
            let sights: Vec<Vec<u64>> =
                pairs.map(|(codes, colors)| sights(codes, colors)).collect();
            // Empty graphs have no rows, and no row is of width 0.
            let width = self.nodes.max(1);
            let mut distinct: Vec<&[u64]> =
                sights.iter().flat_map(|sights| sights.chunks_exact(width)).collect();
            distinct.par_sort_unstable();
            distinct.dedup();
            if distinct.len() == self.count {
                return Ok(history);
            }
            self.count = distinct.len();
            let rank = |row: &[u64]| {
                distinct.binary_search(&row).expect("every sight was collected") as u32
            };
            let ranks = |sights: &Vec<u64>| sights.chunks_exact(width).map(rank).collect();
            self.colors = sights.par_iter().map(ranks).collect();
            history.push(self.groups().num_clusters());
        }
    }
}

/// For every node, the sorted (distance, colour) of all nodes. A node's own distance is no other's, so its
/// colour is part of what it sees.
fn sights(codes: &[u32], colors: &[u32]) -> Vec<u64> {
    let mut sights = Vec::with_capacity(codes.len());
    for row in codes.chunks_exact(colors.len().max(1)) {
        let start = sights.len();
        sights.extend(row.iter().zip(colors).map(|(&d, &color)| joint(d, color)));
        sights[start..].sort_unstable();
    }
    sights
}

/// Two numbers as one, in the same order.
fn joint(first: u32, second: u32) -> u64 {
    u64::from(first) << 32 | u64::from(second)
}

/// D of all pairs of nodes of some of the graphs, which have one size, as numbers that are equal for equal values.
fn codes(
    graphs: &[&Graph],
    numbers: &[u32],
    distance: &Distance<'_>,
    limit: MemoryLimit,
    monitor: &dyn Monitor,
) -> Result<Vec<Vec<u32>>> {
    let own: Vec<&Graph> = numbers.iter().map(|&number| graphs[number as usize]).collect();
    let codes = match distance {
        Distance::Adjacency => {
            let mut codes = empty_codes(&own);
            let column: Vec<Vec<u32>> = own.par_iter().map(|graph| adjacency(graph)).collect();
            add_column(&mut codes, &column);
            codes
        }
        Distance::Hops => {
            let flat = |place: usize| Ok(Hierarchy::flat(own[place].num_nodes()));
            of_levels(&own, flat, &MaxDistance::new(&[254])?, limit, monitor)?
        }
        Distance::Resistance => {
            let mut codes = empty_codes(&own);
            let add = |column: Vec<Vec<u32>>| add_column(&mut codes, &column);
            resistance::for_each_prime(&own, monitor, add)?;
            codes
        }
        Distance::Hierarchy(encoder) => {
            let build =
                |place: usize| encoder.hierarchy(own[place], numbers[place] as usize, monitor);
            of_levels(&own, build, &encoder.max_distance, limit, monitor)?
        }
    };
    monitor.advance(own.len() as u64);
    Ok(codes)
}

/// 0 for a node and itself, 1 for neighbours, 2 for others.
fn adjacency(graph: &Graph) -> Vec<u32> {
    let n = graph.num_nodes();
    let mut seen = vec![2; n * n];
    for u in 0..n {
        seen[u * n + u] = 0;
        for &v in graph.neighbors(u as u32) {
            seen[u * n + v as usize] = 1;
        }
    }
    seen
}

/// Codes of the distances at all levels of a hierarchy on every graph.
fn of_levels(
    graphs: &[&Graph],
    hierarchy: impl Fn(usize) -> Result<Hierarchy> + Sync,
    clip: &MaxDistance,
    limit: MemoryLimit,
    monitor: &dyn Monitor,
) -> Result<Vec<Vec<u32>>> {
    let measure = |scratch: &mut Scratch, (place, graph): (usize, &&Graph)| {
        check(monitor)?;
        let hierarchy = hierarchy(place)?;
        let found = Distances::with_scratch(graph, &hierarchy, clip, limit, scratch, monitor)?;
        Ok((found.levels() + 1, found.lifted()))
    };
    let tuples: Vec<Result<(usize, Vec<u8>)>> =
        graphs.par_iter().enumerate().map_init(Scratch::default, measure).collect();
    let tuples = tuples.into_iter().collect::<Result<Vec<_>>>()?;
    let width = tuples[0].0;
    if let Some(other) = tuples.iter().position(|of| of.0 != width) {
        return Err(Error::data(format!(
            "hierarchies have {} and {} levels, in the first graph and graph {other} of one size; give all the same number",
            width - 1,
            tuples[other].0 - 1
        )));
    }
    let mut codes = empty_codes(graphs);
    for level in 0..width {
        let column = |(width, tuples): &(usize, Vec<u8>)| {
            tuples.iter().skip(level).step_by(*width).map(|&d| d.into()).collect()
        };
        add_column(&mut codes, &tuples.par_iter().map(column).collect::<Vec<Vec<u32>>>());
    }
    Ok(codes)
}

/// Codes of pairs of which nothing is known.
fn empty_codes(graphs: &[&Graph]) -> Vec<Vec<u32>> {
    graphs.iter().map(|graph| vec![0; graph.num_nodes().pow(2)]).collect()
}

/// Tells pairs apart by one more value: a new code is the rank of (code, value) in all graphs.
fn add_column(codes: &mut [Vec<u32>], column: &[Vec<u32>]) {
    let distinct = |(codes, values): (&Vec<u32>, &Vec<u32>)| {
        let mut own: Vec<u64> = codes.iter().zip(values).map(|(&c, &v)| joint(c, v)).collect();
        own.sort_unstable();
        own.dedup();
        own
    };
    let mut all: Vec<u64> = codes.par_iter().zip(column).flat_map_iter(distinct).collect();
    all.par_sort_unstable();
    all.dedup();
    codes.par_iter_mut().zip(column).for_each(|(codes, values)| {
        for (code, &value) in codes.iter_mut().zip(values) {
            let place = all.binary_search(&joint(*code, value));
            *code = place.expect("every pair was collected") as u32;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::named::named;

    fn groups(names: &[&str], distance: &Distance<'_>) -> Refinement {
        let graphs: Vec<Graph> = names.iter().map(|name| named(name).unwrap()).collect();
        refine(&graphs.iter().collect::<Vec<_>>(), distance, MemoryLimit::NONE, &()).unwrap()
    }

    #[test]
    fn a_path_is_refined_from_its_ends() {
        let found = groups(&["path-7"], &Distance::Adjacency);
        assert_eq!(found.num_colors(0), 4);
        let colors = &found.colors[0];
        assert!((0..7).all(|u| colors[u] == colors[6 - u]));
        // Ends, their neighbours, and the middle: three rounds.
        assert_eq!(found.history, [1, 1, 1, 1]);
        assert_eq!(found.rounds(), 0);
    }

    #[test]
    fn sizes_differ_before_the_first_round() {
        let found = groups(&["path-3", "cycles-3", "path-3", "cycles-4"], &Distance::Hops);
        assert_eq!(found.groups.cluster_of(), [0, 1, 0, 2]);
        assert_eq!(found.history[..2], [2, 3]);
        assert_eq!(found.colors[0], found.colors[2]);
        let shared =
            |a: usize, b: usize| found.colors[a].iter().any(|c| found.colors[b].contains(c));
        assert!(!shared(0, 1) && !shared(1, 3));
    }

    #[test]
    fn no_graphs_and_graphs_without_nodes() {
        assert_eq!(groups(&[], &Distance::Hops).groups.num_clusters(), 0);
        let empty = Graph::from_pairs(0, &[]).unwrap().0;
        for distance in [Distance::Adjacency, Distance::Hops, Distance::Resistance] {
            let found = refine(&[&empty, &empty], &distance, MemoryLimit::NONE, &()).unwrap();
            assert_eq!((found.groups.num_clusters(), found.num_colors(0)), (1, 0));
        }
    }

    #[test]
    fn types_are_seen() {
        let path = named("path-3").unwrap();
        let of = |types: [[u32; 3]; 2]| {
            let types = types.map(|types| types.to_vec());
            let limit = MemoryLimit::NONE;
            refine_from(&[&path, &path], &types, &Distance::Adjacency, limit, &()).unwrap()
        };
        assert_eq!(of([[7, 7, 9], [9, 7, 7]]).groups.num_clusters(), 1);
        assert_eq!(of([[7, 7, 9], [7, 7, 8]]).history[0], 2);
        let later = of([[7, 7, 9], [7, 9, 7]]);
        assert_eq!((later.history[0], later.rounds(), later.num_colors(0)), (1, 1, 3));
    }

    #[test]
    fn too_many_pairs_are_refused() {
        let graph = named("path-100").unwrap();
        let error = refine(&[&graph; 3], &Distance::Hops, MemoryLimit(300_000), &()).unwrap_err();
        assert!(error.is_memory(), "{error}");
    }
}
