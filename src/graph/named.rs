//! Graphs by name: those that theorems and counterexamples speak of.
//!
//! A name is that of a family and its numbers, `circulant-13-1-5`. `cfi-NAME` and `twisted-cfi-NAME` are
//! built on another named graph. [`ALL`] lists the families; every command takes `named:NAME` where it
//! takes a file.
//!
//! Cai, Fürer and Immerman's construction puts a gadget in the place of every node of its base. Node v of
//! degree d gets a node for each even subset S of its edges, and two nodes (e, 0), (e, 1) for each edge e;
//! S is joined to (e, 1) if it holds e and to (e, 0) otherwise. The gadgets at both ends of e are joined
//! 0 to 0 and 1 to 1, and crosswise at one edge of the twisted graph. A connected base gives two graphs
//! that are not isomorphic, and one of large treewidth two that refinement can't tell apart unless it keeps many nodes in mind at once.
//!
//! Cai, Fürer & Immerman, "An optimal lower bound on the number of variables for graph identification",
//! Combinatorica 1992; Chang, "Association schemes of partially balanced block designs", 1960 (switched
//! triangular graphs); Shrikhande, "The uniqueness of the L₂ association scheme", 1959.
//!
//! ```
//! use hdse::graph::named::named;
//! let desargues = named("desargues")?;
//! assert_eq!((desargues.num_nodes(), desargues.num_edges()), (20, 30));
//! assert_eq!(desargues, named("petersen-10-3")?);
//! assert!(named("dessargues").unwrap_err().to_string().contains("did you mean `desargues`?"));
//! # Ok::<(), hdse::Error>(())
//! ```

use super::Graph;
use crate::error::unknown;
use crate::{Error, Result};

/// Nodes, then pairs.
type Pairs = (u32, Vec<(u32, u32)>);

/// Graphs of one kind.
pub struct Family {
    /// The first part of their names.
    pub name: &'static str,
    /// What follows it.
    pub parameters: &'static str,
    /// One line for lists.
    pub summary: &'static str,
    make: Make,
}

/// How a graph of a family is made; nothing if its parameters make no sense.
enum Make {
    Numbers(fn(&[u32]) -> Option<Pairs>),
    Base(fn(&Graph) -> Option<Pairs>),
}

/// More nodes are not worth a name.
const MOST: u32 = 1000;

/// Letters of a name.
const LONGEST: usize = 100;

/// The same for graphs whose nodes are pairs.
const MOST_PAIRED: u32 = 32;

/// Nodes and degree of the base of a CFI graph.
const MOST_BASE: usize = 64;
const MOST_DEGREE: usize = 8;

/// Every family.
pub const ALL: &[Family] = &[
    family("dodecahedron", "", "corners and edges of the dodecahedron", |numbers| match numbers {
        [] => generalized_petersen(10, 2),
        _ => None,
    }),
    family("desargues", "", "points and lines of Desargues' theorem", |numbers| match numbers {
        [] => generalized_petersen(10, 3),
        _ => None,
    }),
    family(
        "petersen",
        "[-N-K]",
        "a ring of N nodes joined to one of steps of K; 5 and 2",
        |numbers| match *numbers {
            [] => generalized_petersen(5, 2),
            [n, k] => generalized_petersen(n, k),
            _ => None,
        },
    ),
    family("cycles", "-N[-N...]", "rings of so many nodes, side by side", |numbers| {
        let fits = !numbers.is_empty() && numbers.iter().all(|n| (3..=MOST).contains(n));
        fits.then(|| cycles(numbers))
    }),
    family("path", "-N", "a path of N nodes", |numbers| match *numbers {
        [n @ 1..=MOST] => Some((n, (1..n).map(|v| (v - 1, v)).collect())),
        _ => None,
    }),
    family("complete", "-N", "all pairs of N nodes", |numbers| match *numbers {
        [n @ 1..=MOST] => Some(joined(n, |_, _| true)),
        _ => None,
    }),
    family("bipartite", "-N-M", "all pairs across N and M nodes", |numbers| match *numbers {
        [n @ 1..=MOST, m @ 1..=MOST] => Some(joined(n + m, |u, v| (u < n) != (v < n))),
        _ => None,
    }),
    family("prism", "-N", "two rings of N nodes, joined", |numbers| match *numbers {
        [n] => generalized_petersen(n, 1),
        _ => None,
    }),
    family(
        "moebius",
        "-N",
        "a ring of 2 N nodes, opposite ones joined",
        |numbers| match *numbers {
            [n @ 2..=MOST] => Some(circulant(2 * n, &[1, n])),
            _ => None,
        },
    ),
    family("circulant", "-N-J[-J...]", "N nodes, joined to those J further", |numbers| {
        let (&n, jumps) = numbers.split_first()?;
        let fits = n <= MOST && !jumps.is_empty() && jumps.iter().all(|&j| j > 0 && j < n);
        fits.then(|| circulant(n, jumps))
    }),
    family("rook", "-N", "moves of a rook on N × N squares", |numbers| match *numbers {
        [n @ 1..=MOST_PAIRED] => Some(joined(n * n, |u, v| u / n == v / n || u % n == v % n)),
        _ => None,
    }),
    family("shrikhande", "", "4 × 4 squares on a torus, one diagonal", |numbers| {
        let step = |u: u32, v: u32| ((v / 4 + 4 - u / 4) % 4, (v % 4 + 4 - u % 4) % 4);
        let near = [(0, 1), (0, 3), (1, 0), (3, 0), (1, 1), (3, 3)];
        numbers.is_empty().then(|| joined(16, |u, v| near.contains(&step(u, v))))
    }),
    family("triangular", "-N", "edges of the complete graph that meet", |numbers| match *numbers {
        [n @ 2..=MOST_PAIRED] => Some(switched(n, &[])),
        _ => None,
    }),
    family("chang", "-I", "triangular-8, switched; I from 1 to 3", |numbers| match numbers {
        [1] => Some(switched(8, &[(0, 1), (2, 3), (4, 5), (6, 7)])),
        [2] => Some(switched(8, &cycles(&[8]).1)),
        [3] => Some(switched(8, &cycles(&[3, 5]).1)),
        _ => None,
    }),
    family("latin", "-N", "cells of the addition table of N numbers", |numbers| match *numbers {
        [n @ 1..=MOST_PAIRED] => Some(latin(n, |row, column| (row + column) % n)),
        _ => None,
    }),
    family("latin-klein", "", "cells of the table of Klein's four-group", |numbers| {
        numbers.is_empty().then(|| latin(4, |row, column| row ^ column))
    }),
    family("decalin", "", "two rings of six atoms that share a bond", |numbers| {
        let (n, mut pairs) = cycles(&[10]);
        pairs.push((0, 5));
        numbers.is_empty().then_some((n, pairs))
    }),
    family("bicyclopentyl", "", "two rings of five atoms and a bond", |numbers| {
        let (n, mut pairs) = cycles(&[5, 5]);
        pairs.push((0, 5));
        numbers.is_empty().then_some((n, pairs))
    }),
    family("cuneane", "", "a wedge of eight atoms; cubane is prism-4", |numbers| {
        let (n, mut pairs) = cycles(&[8]);
        pairs.extend([(0, 2), (1, 5), (3, 7), (4, 6)]);
        numbers.is_empty().then_some((n, pairs))
    }),
    Family {
        name: "cfi",
        parameters: "-NAME",
        summary: "Cai, Fürer and Immerman's graph on another one",
        make: Make::Base(|base| cfi(base, false)),
    },
    Family {
        name: "twisted-cfi",
        parameters: "-NAME",
        summary: "the same with one edge crossed",
        make: Make::Base(|base| cfi(base, true)),
    },
];

const fn family(
    name: &'static str,
    parameters: &'static str,
    summary: &'static str,
    make: fn(&[u32]) -> Option<Pairs>,
) -> Family {
    Family { name, parameters, summary, make: Make::Numbers(make) }
}

/// The graph of that name.
///
/// # Errors
/// If there is no such family (the nearest one is suggested), or its numbers make no graph.
pub fn named(name: &str) -> Result<Graph> {
    if name.len() > LONGEST {
        return Err(Error::config(format!(
            "a name of {} letters is none; `hdse list graphs` shows all",
            name.len()
        )));
    }
    let wrong = |family: &Family| {
        Error::config(format!(
            "`{name}` is no graph; write {}{} with numbers that make sense and are not too large",
            family.name, family.parameters
        ))
    };
    let on_base = |family: &&Family| matches!(family.make, Make::Base(_));
    for family in ALL.iter().filter(on_base) {
        let base = name.strip_prefix(family.name).and_then(|rest| rest.strip_prefix('-'));
        if let (Some(base), Make::Base(make)) = (base, &family.make) {
            return build(make(&named(base)?).ok_or_else(|| wrong(family))?);
        }
    }
    let (family, numbers) = split(name);
    let found = ALL.iter().find(|entry| entry.name == family);
    match found.map(|entry| (entry, &entry.make)) {
        Some((entry, Make::Numbers(make))) => build(make(&numbers).ok_or_else(|| wrong(entry))?),
        Some((entry, Make::Base(_))) => Err(wrong(entry)),
        None => {
            let names = ALL.iter().map(|entry| entry.name);
            Err(unknown("named graph", &family, names, "`hdse list graphs` shows all"))
        }
    }
}

fn build((nodes, pairs): Pairs) -> Result<Graph> {
    Ok(Graph::from_pairs(nodes as usize, &pairs)?.0)
}

/// `circulant-13-1-5` → "circulant" and its numbers.
fn split(name: &str) -> (String, Vec<u32>) {
    let parts: Vec<&str> = name.split('-').collect();
    let is_number = |part: &&&str| part.parse::<u32>().is_ok();
    let count = parts.iter().rev().take_while(is_number).count();
    let (words, numbers) = parts.split_at(parts.len() - count);
    (words.join("-"), numbers.iter().filter_map(|part| part.parse().ok()).collect())
}

/// All pairs that `adjacent` approves.
fn joined(n: u32, adjacent: impl Fn(u32, u32) -> bool) -> Pairs {
    let pairs = (0..n).flat_map(|u| (u + 1..n).map(move |v| (u, v)));
    (n, pairs.filter(|&(u, v)| adjacent(u, v)).collect())
}

fn circulant(n: u32, jumps: &[u32]) -> Pairs {
    (n, jumps.iter().flat_map(|&jump| (0..n).map(move |u| (u, (u + jump) % n))).collect())
}

fn cycles(lengths: &[u32]) -> Pairs {
    let mut pairs = Vec::new();
    let mut first = 0;
    for &length in lengths {
        pairs.extend((0..length).map(|u| (first + u, first + (u + 1) % length)));
        first += length;
    }
    (first, pairs)
}

/// Nodes 0 … n − 1 are a ring, the others its partners, joined in steps of k.
fn generalized_petersen(n: u32, k: u32) -> Option<Pairs> {
    let fits = (3..=MOST).contains(&n) && k > 0 && k < n;
    let spokes = move |u: u32| [(u, (u + 1) % n), (u, u + n), (u + n, (u + k) % n + n)];
    fits.then(|| (2 * n, (0..n).flat_map(spokes).collect()))
}

/// Pairs of n things, joined if they share one; between `set` and the other pairs, if they do not.
fn switched(n: u32, set: &[(u32, u32)]) -> Pairs {
    let things: Vec<(u32, u32)> = joined(n, |_, _| true).1;
    let is_in = |&(a, b): &(u32, u32)| set.contains(&(a, b)) || set.contains(&(b, a));
    joined(things.len() as u32, |u, v| {
        let (x, y) = (things[u as usize], things[v as usize]);
        let share = x.0 == y.0 || x.0 == y.1 || x.1 == y.0 || x.1 == y.1;
        share != (is_in(&x) != is_in(&y))
    })
}

/// Cells of a Latin square, joined if they share row, column or symbol.
fn latin(n: u32, symbol: impl Fn(u32, u32) -> u32) -> Pairs {
    joined(n * n, |u, v| {
        let (row, column) = ((u / n, v / n), (u % n, v % n));
        let symbols = (symbol(row.0, column.0), symbol(row.1, column.1));
        row.0 == row.1 || column.0 == column.1 || symbols.0 == symbols.1
    })
}

/// See the module documentation; the first edge is the one that is crossed.
fn cfi(base: &Graph, twisted: bool) -> Option<Pairs> {
    let n = base.num_nodes() as u32;
    let fits = n as usize <= MOST_BASE && (0..n).all(|v| base.degree(v) <= MOST_DEGREE);
    if !fits || base.num_edges() == 0 {
        return None;
    }
    let mut pairs = Vec::new();
    let mut count = 0;
    // Of every node, the first of its two nodes per edge, in the order of its neighbours.
    let mut ports = Vec::new();
    for v in 0..n {
        let degree = base.degree(v) as u32;
        ports.push(count);
        let first = count;
        count += 2 * degree;
        for subset in (0u32..1 << degree).filter(|subset| subset.count_ones() % 2 == 0) {
            pairs.extend((0..degree).map(|e| (count, first + 2 * e + (subset >> e & 1))));
            count += 1;
        }
    }
    let port = |from: u32, to: u32| {
        let place = base.neighbors(from).binary_search(&to).expect("an edge");
        ports[from as usize] + 2 * place as u32
    };
    for (number, (u, v, _)) in base.edges().enumerate() {
        let crossed = u32::from(twisted && number == 0);
        let (a, b) = (port(u, v), port(v, u));
        pairs.extend([(a, b + crossed), (a + 1, b + (1 - crossed))]);
    }
    Some((count, pairs))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn degrees(name: &str) -> (usize, Vec<usize>) {
        let graph = named(name).unwrap();
        let mut degrees: Vec<usize> =
            (0..graph.num_nodes() as u32).map(|u| graph.degree(u)).collect();
        degrees.sort_unstable();
        degrees.dedup();
        (graph.num_nodes(), degrees)
    }

    /// Common neighbours of two nodes.
    fn common(graph: &Graph, u: u32, v: u32) -> usize {
        graph.neighbors(u).iter().filter(|w| graph.neighbors(v).contains(w)).count()
    }

    #[test]
    fn strongly_regular_graphs_are() {
        // Nodes, degree, common neighbours of joined nodes and of others.
        for (name, n, degree, near, far) in [
            ("rook-4", 16, 6, 2, 2),
            ("shrikhande", 16, 6, 2, 2),
            ("triangular-8", 28, 12, 6, 4),
            ("chang-1", 28, 12, 6, 4),
            ("chang-2", 28, 12, 6, 4),
            ("chang-3", 28, 12, 6, 4),
            ("latin-4", 16, 9, 4, 6),
            ("latin-klein", 16, 9, 4, 6),
            ("petersen", 10, 3, 0, 1),
        ] {
            assert_eq!(degrees(name), (n, vec![degree]), "{name}");
            let graph = named(name).unwrap();
            for (u, v) in joined(n as u32, |_, _| true).1 {
                let expected = if graph.neighbors(u).contains(&v) { near } else { far };
                assert_eq!(common(&graph, u, v), expected, "{name}: {u}, {v}");
            }
        }
    }

    #[test]
    fn families_have_their_degrees() {
        for (name, n, of) in [
            ("dodecahedron", 20, &[3][..]),
            ("cycles-3-4", 7, &[2]),
            ("moebius-4", 8, &[3]),
            ("prism-4", 8, &[3]),
            ("cuneane", 8, &[3]),
            ("circulant-41-1-9", 41, &[4]),
            ("bipartite-2-3", 5, &[2, 3]),
            ("decalin", 10, &[2, 3]),
            ("bicyclopentyl", 10, &[2, 3]),
            ("cfi-complete-4", 40, &[3]),
            ("twisted-cfi-bipartite-3-3", 60, &[3]),
            ("cfi-cfi-cycles-3", 108, &[2]),
        ] {
            let (nodes, found) = degrees(name);
            assert_eq!((nodes, &found[..]), (n, of), "{name}");
        }
    }

    #[test]
    fn cuneane_has_two_triangles_and_two_squares() {
        let graph = named("cuneane").unwrap();
        let all = joined(8, |_, _| true).1;
        let edge = |&(u, v): &(u32, u32)| graph.neighbors(u).contains(&v);
        let on_edges: usize =
            all.iter().filter(|e| edge(e)).map(|&(u, v)| common(&graph, u, v)).sum();
        let squares = |&(u, v): &(u32, u32)| {
            common(&graph, u, v) * common(&graph, u, v).saturating_sub(1) / 2
        };
        assert_eq!(on_edges / 3, 2);
        assert_eq!(all.iter().map(squares).sum::<usize>() / 2, 2);
    }

    #[test]
    fn twists_cancel_in_pairs() {
        // A crossed ring of one gadget each way is one ring of twice the length.
        assert_eq!(named("cfi-cycles-3").unwrap().components().num_clusters(), 2);
        assert_eq!(named("twisted-cfi-cycles-3").unwrap().components().num_clusters(), 1);
    }

    #[test]
    fn wrong_names_are_explained() {
        for (name, message) in [
            ("dodecahedrom", "did you mean `dodecahedron`?"),
            ("rook", "write rook-N"),
            ("rook-99", "not too large"),
            ("cfi", "write cfi-NAME"),
            ("cfi-path-1", "write cfi-NAME"),
            ("cfi-complete-40", "write cfi-NAME"),
            ("circulant-5-5", "write circulant-N-J"),
            ("", "unknown named graph"),
        ] {
            let error = named(name).unwrap_err();
            assert!(error.is_config() && error.to_string().contains(message), "{name}: {error}");
        }
    }
}
