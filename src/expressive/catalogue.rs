//! Pairs of graphs that are hard to tell apart, and how a distance fares on them.
//!
//! No two graphs of a pair are isomorphic, and the plain test tells none of them apart. A distance that hangs
//! on a hierarchy may tell apart even copies of one graph, numbered differently, so both graphs of a pair are
//! judged with many copies: each has its set of signatures. One signature each is what a sound test gives.

use super::{Distance, Refinement, refine};
use crate::graph::named::named;
use crate::monitor::Monitor;
use crate::rng::Seed;
use crate::{Graph, MemoryLimit, Result};

/// Two named graphs, and what they are.
pub struct Pair {
    /// What makes them hard.
    pub kind: &'static str,
    /// The names of both.
    pub names: [&'static str; 2],
}

const fn pair(kind: &'static str, first: &'static str, second: &'static str) -> Pair {
    Pair { kind, names: [first, second] }
}

/// The pairs, in the order of the documentation.
pub const PAIRS: &[Pair] = &[
    pair("molecules", "decalin", "bicyclopentyl"),
    pair("molecules", "prism-4", "cuneane"),
    pair("regular", "cycles-6", "cycles-3-3"),
    pair("regular", "prism-3", "bipartite-3-3"),
    pair("regular", "prism-5", "moebius-5"),
    pair("regular", "prism-6", "moebius-6"),
    pair("regular", "circulant-13-1-5", "circulant-13-1-3"),
    pair("regular", "circulant-41-1-2", "circulant-41-1-3"),
    pair("distance-regular", "dodecahedron", "desargues"),
    pair("strongly regular", "rook-4", "shrikhande"),
    pair("strongly regular", "latin-4", "latin-klein"),
    pair("strongly regular", "triangular-8", "chang-1"),
    pair("strongly regular", "triangular-8", "chang-2"),
    pair("strongly regular", "triangular-8", "chang-3"),
    pair("strongly regular", "chang-1", "chang-2"),
    pair("strongly regular", "chang-2", "chang-3"),
    pair("Cai-Fürer-Immerman", "cfi-complete-4", "twisted-cfi-complete-4"),
    pair("Cai-Fürer-Immerman", "cfi-bipartite-3-3", "twisted-cfi-bipartite-3-3"),
    pair("Cai-Fürer-Immerman", "cfi-prism-3", "twisted-cfi-prism-3"),
    pair("Cai-Fürer-Immerman", "cfi-petersen", "twisted-cfi-petersen"),
];

/// What became of the copies of two graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Distinct signatures of either graph.
    pub signatures: [usize; 2],
    /// Those that occur for both.
    pub common: usize,
}

impl Verdict {
    /// Whether no copy of the one looked like a copy of the other.
    pub fn told_apart(&self) -> bool {
        self.common == 0
    }

    /// Whether copies of one graph all looked alike.
    pub fn is_sound(&self) -> bool {
        self.signatures == [1, 1]
    }
}

/// Compares so many renumbered copies of two graphs.
///
/// # Errors
/// As [`refine`].
pub fn judge(
    graphs: [&Graph; 2],
    distance: &Distance<'_>,
    copies: usize,
    seed: Seed,
    limit: MemoryLimit,
    monitor: &dyn Monitor,
) -> Result<Verdict> {
    let all = graphs.map(|graph| renumbered(graph, copies, seed));
    let all: Vec<&Graph> = all.iter().flatten().collect();
    let found = refine(&all, distance, limit, monitor)?;
    let [first, second] = [0..copies, copies..2 * copies].map(|range| signatures(&found, range));
    let common = first.iter().filter(|signature| second.contains(signature)).count();
    Ok(Verdict { signatures: [first.len(), second.len()], common })
}

/// Both graphs of a pair.
///
/// # Errors
/// If one has no name.
pub fn graphs(pair: &Pair) -> Result<[Graph; 2]> {
    Ok([named(pair.names[0])?, named(pair.names[1])?])
}

/// How many of so many renumbered copies of a graph look different from itself: 0 for a sound test.
///
/// # Errors
/// As [`refine`].
pub fn mistaken(
    graph: &Graph,
    distance: &Distance<'_>,
    copies: usize,
    seed: Seed,
    limit: MemoryLimit,
) -> Result<usize> {
    let all = renumbered(graph, copies + 1, seed);
    let found = refine(&all.iter().collect::<Vec<_>>(), distance, limit, &())?;
    let group = found.groups.cluster_of();
    Ok(group.iter().filter(|&&other| other != group[0]).count())
}

/// The graph itself, and copies with their nodes numbered at random.
pub fn renumbered(graph: &Graph, count: usize, seed: Seed) -> Vec<Graph> {
    let copy = |number: usize| {
        let mut order: Vec<u32> = (0..graph.num_nodes() as u32).collect();
        if number > 0 {
            seed.stream("renumbered", number as u64, 0).shuffle(&mut order);
        }
        graph.induced(&order).expect("every node is listed once")
    };
    (0..count).map(copy).collect()
}

/// The distinct signatures of a range of graphs.
fn signatures(found: &Refinement, range: std::ops::Range<usize>) -> Vec<u32> {
    let mut groups = found.groups.cluster_of()[range].to_vec();
    groups.sort_unstable();
    groups.dedup();
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_test_tells_no_pair_apart() {
        for pair in PAIRS {
            let [first, second] = graphs(pair).unwrap();
            let of = |distance: Distance<'_>| {
                judge([&first, &second], &distance, 3, Seed(0), MemoryLimit::NONE, &()).unwrap()
            };
            let plain = of(Distance::Adjacency);
            assert_eq!(plain, Verdict { signatures: [1, 1], common: 1 }, "{:?}", pair.names);
            for distance in [Distance::Hops, Distance::Resistance] {
                assert!(of(distance).is_sound(), "{:?}", pair.names);
            }
        }
    }

    #[test]
    fn copies_are_isomorphic() {
        let graph = named("decalin").unwrap();
        for copy in renumbered(&graph, 5, Seed(3)) {
            let degrees = |graph: &Graph| {
                let mut all: Vec<usize> = (0..10).map(|u| graph.degree(u)).collect();
                all.sort_unstable();
                all
            };
            assert_eq!((copy.num_edges(), degrees(&copy)), (11, degrees(&graph)));
        }
        assert_eq!(renumbered(&graph, 1, Seed(3))[0], graph);
    }
}
