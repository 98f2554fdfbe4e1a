//! Stochastic block models: find the nodes of a pattern, or the block of every node.
//!
//! | set | blocks | p inside | p between | of a node | target of a node |
//! |---|---|---|---|---|---|
//! | `pattern` | 5 and a hidden pattern | 0.5 | 0.35; 0.5 to the pattern | random signal 0, 1 or 2 | whether of the pattern |
//! | `cluster` | 6 | 0.55 | 0.25 | block + 1 for one node per block, else 0 | block |
//!
//! Blocks and patterns have 5 to 34 nodes. There are 100 patterns, each a fixed random graph with a fixed
//! signal. Features are one-hot, 3 and 7 wide; files may hold the class instead. Nodes are in random order.
//!
//! `pattern-gen` and `cluster-gen` draw such graphs from a seed, a tenth of the published number unless told:
//! every graph from a stream of its own, so a larger set begins with the smaller one. Graph i hides pattern
//! i mod 100. They are equal to the official sets in distribution, not graph by graph.
//!
//! Dwivedi et al., "Benchmarking Graph Neural Networks", JMLR 2023. Time O(n²) per graph.

use rayon::prelude::*;

use super::{Columns, Entry, FromFiles, Generated, Level, Parts, Statistics, Target, Task};
use crate::data::{Matrix, Sample, Values, both_directions};
use crate::rng::{Seed, Stream};
use crate::{Graph, Result};

/// Nodes of a block: the least, and one more than the most.
const SIZES: std::ops::Range<u64> = 5..35;

/// Patterns that are hidden in graphs of `pattern`.
const PATTERNS: u64 = 100;

pub(super) const PATTERN: FromFiles = FromFiles {
    entry: Entry {
        name: "pattern",
        folders: &["pattern"],
        summary: "block models with a hidden pattern: which nodes belong to it",
        task: Task { level: Level::Node, target: Target::Classes(2) },
        metric: "class-average-sbm",
        nodes: Columns::OneHot(3),
        arcs: Columns::None,
        published: Statistics {
            graphs: [10_000, 2_000, 2_000],
            mean_nodes: 118.9,
            mean_arcs: 6_078.6,
        },
        licence: "MIT",
        citation: "Dwivedi et al., Benchmarking Graph Neural Networks, JMLR 2023",
        source: "https://github.com/graphdeeplearning/benchmarking-gnns",
        generated: false,
    },
    origin: |parts| unless_complete(parts, PATTERN.entry.published),
};

pub(super) const CLUSTER: FromFiles = FromFiles {
    entry: Entry {
        name: "cluster",
        folders: &["cluster"],
        summary: "block models of six blocks: the block of every node, one node of each being told",
        task: Task { level: Level::Node, target: Target::Classes(6) },
        nodes: Columns::OneHot(7),
        published: Statistics {
            graphs: [10_000, 1_000, 1_000],
            mean_nodes: 117.2,
            mean_arcs: 4_301.8,
        },
        ..PATTERN.entry
    },
    origin: |parts| unless_complete(parts, CLUSTER.entry.published),
};

pub(super) const PATTERN_GEN: Generated = Generated {
    entry: Entry {
        name: "pattern-gen",
        folders: &[],
        summary: "as pattern, generated from a seed, a tenth as many unless told",
        generated: true,
        ..PATTERN.entry
    },
    graphs: [1_000, 200, 200],
    make: |seed, graphs| make(graphs, |split, index| pattern(seed, split, index)),
};

pub(super) const CLUSTER_GEN: Generated = Generated {
    entry: Entry {
        name: "cluster-gen",
        folders: &[],
        summary: "as cluster, generated from a seed, a tenth as many unless told",
        generated: true,
        ..CLUSTER.entry
    },
    graphs: [1_000, 100, 100],
    make: |seed, graphs| make(graphs, |split, index| cluster(seed, split, index)),
};

/// The recipes are public, and their graphs look alike: an incomplete copy may be part of the official set or
/// made anew.
fn unless_complete(parts: &Parts, published: Statistics) -> Option<&'static str> {
    let complete = Statistics::of(parts).graphs == published.graphs;
    (!complete).then_some("perhaps regenerated")
}

/// Samples of three splits by split and index.
fn make(graphs: [usize; 3], sample: impl Fn(u64, u64) -> Result<Sample> + Sync) -> Result<Parts> {
    let mut parts = [Vec::new(), Vec::new(), Vec::new()];
    for (split, (part, count)) in parts.iter_mut().zip(graphs).enumerate() {
        let indices = (0..count as u64).into_par_iter();
        *part = indices.map(|index| sample(split as u64, index)).collect::<Result<_>>()?;
    }
    Ok(parts)
}

fn block_size(stream: &mut Stream) -> usize {
    (SIZES.start + stream.below(SIZES.end - SIZES.start)) as usize
}

/// The block of every node: as many blocks as asked for, one after another.
fn blocks(count: usize, stream: &mut Stream) -> Vec<usize> {
    (0..count).flat_map(|block| vec![block; block_size(stream)]).collect()
}

/// Pairs of nodes, each there with the probability for it.
fn draw_pairs(
    nodes: std::ops::Range<usize>,
    probability: impl Fn(usize, usize) -> f64,
    stream: &mut Stream,
) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    for u in nodes {
        for v in 0..u {
            if stream.unit() < probability(u, v) {
                pairs.push((v, u));
            }
        }
    }
    pairs
}

/// A graph of `pattern`: five blocks and a pattern that is joined to them.
fn pattern(seed: Seed, split: u64, index: u64) -> Result<Sample> {
    let hidden = Hidden::new(seed, index % PATTERNS);
    let stream = &mut seed.stream("pattern-graph", index, split);
    let blocks = blocks(5, stream);
    let hosts = blocks.len();
    let inside = |u: usize, v: usize| if blocks[u] == blocks[v] { 0.5 } else { 0.35 };
    let mut pairs = draw_pairs(0..hosts, inside, stream);
    let mut signal: Vec<i64> = (0..hosts).map(|_| stream.below(3) as i64).collect();
    for u in 0..hidden.signal.len() {
        for v in 0..hosts {
            if stream.unit() < 0.5 {
                pairs.push((v, hosts + u));
            }
        }
    }
    pairs.extend(hidden.pairs.iter().map(|&(v, u)| (hosts + v, hosts + u)));
    signal.extend(&hidden.signal);
    let target = (0..signal.len()).map(|node| i64::from(node >= hosts)).collect();
    shuffled(&pairs, signal, 3, target, stream)
}

/// A pattern to hide, the same in all graphs of a seed.
struct Hidden {
    pairs: Vec<(usize, usize)>,
    signal: Vec<i64>,
}

impl Hidden {
    fn new(seed: Seed, number: u64) -> Hidden {
        let stream = &mut seed.stream("pattern-hidden", number, 0);
        let size = block_size(stream);
        let pairs = draw_pairs(0..size, |_, _| 0.5, stream);
        Hidden { pairs, signal: (0..size).map(|_| stream.below(3) as i64).collect() }
    }
}

/// A graph of `cluster`: six blocks, one node of each being told.
fn cluster(seed: Seed, split: u64, index: u64) -> Result<Sample> {
    let stream = &mut seed.stream("cluster-graph", index, split);
    let blocks = blocks(6, stream);
    let inside = |u: usize, v: usize| if blocks[u] == blocks[v] { 0.55 } else { 0.25 };
    let pairs = draw_pairs(0..blocks.len(), inside, stream);
    let mut told = vec![0; blocks.len()];
    let mut start = 0;
    for members in blocks.chunk_by(|a, b| a == b) {
        let chosen = start + stream.below(members.len() as u64) as usize;
        told[chosen] = blocks[chosen] as i64 + 1;
        start += members.len();
    }
    let target = blocks.iter().map(|&block| block as i64).collect();
    shuffled(&pairs, told, 7, target, stream)
}

/// The sample with its nodes in random order and types as one-hot rows.
fn shuffled(
    pairs: &[(usize, usize)],
    types: Vec<i64>,
    width: usize,
    target: Vec<i64>,
    stream: &mut Stream,
) -> Result<Sample> {
    let nodes = types.len();
    let mut order: Vec<usize> = (0..nodes).collect();
    stream.shuffle(&mut order);
    let mut place = vec![0; nodes];
    for (new, &old) in order.iter().enumerate() {
        place[old] = new as u32;
    }
    let pairs: Vec<(u32, u32)> = pairs.iter().map(|&(u, v)| (place[u], place[v])).collect();
    let (graph, _) = Graph::from_pairs(nodes, &pairs)?;
    let mut sample = Sample::bare(both_directions(&graph), graph, Default::default());
    let mut one_hot = vec![0; nodes * width];
    for (new, &old) in order.iter().enumerate() {
        one_hot[new * width + types[old] as usize] = 1;
    }
    sample.node_feat = Some(Matrix { width, values: Values::Int(one_hot) });
    sample.y = Some(Values::Int(order.iter().map(|&old| target[old]).collect()));
    Ok(sample)
}

#[cfg(test)]
mod tests {
    use super::super::{Dataset as _, LoadOptions};
    use super::*;

    fn load(set: &Generated, graphs: [usize; 3]) -> Parts {
        let options = LoadOptions { graphs: Some(graphs), ..LoadOptions::default() };
        let splits = set.load(&options).unwrap();
        [splits.train, splits.val, splits.test]
    }

    fn classes(sample: &Sample) -> &[i64] {
        let Some(Values::Int(classes)) = &sample.y else { panic!("no classes") };
        classes
    }

    /// Share of pairs that are edges, for pairs with equal and with different classes.
    fn densities(samples: &[Sample]) -> [f64; 2] {
        let (mut edges, mut pairs) = ([0.0; 2], [0.0; 2]);
        for sample in samples {
            let classes = classes(sample);
            let kind = |u: usize, v: usize| usize::from(classes[u] != classes[v]);
            for u in 0..classes.len() {
                for v in 0..u {
                    pairs[kind(u, v)] += 1.0;
                }
            }
            for (u, v, _) in sample.graph.edges() {
                edges[kind(u as usize, v as usize)] += 1.0;
            }
        }
        [edges[0] / pairs[0], edges[1] / pairs[1]]
    }

    #[test]
    fn cluster_follows_its_recipe() {
        let [train, ..] = load(&CLUSTER_GEN, [200, 1, 1]);
        let [inside, between] = densities(&train);
        assert!((inside - 0.55).abs() < 0.01, "{inside}");
        assert!((between - 0.25).abs() < 0.01, "{between}");
        for sample in &train {
            let Some(Matrix { width: 7, values: Values::Int(rows) }) = &sample.node_feat else {
                panic!("not seven wide")
            };
            let mut told = [0; 7];
            for (row, &class) in rows.chunks(7).zip(classes(sample)) {
                let kind = row.iter().position(|&x| x == 1).unwrap();
                told[kind] += 1;
                assert!(kind == 0 || kind as i64 == class + 1);
            }
            assert_eq!(told[1..], [1; 6]);
            let sizes = (0..6).map(|c| classes(sample).iter().filter(|&&k| k == c).count());
            assert!(sizes.into_iter().all(|size| SIZES.contains(&(size as u64))));
        }
    }

    #[test]
    fn pattern_follows_its_recipe() {
        let [train, ..] = load(&PATTERN_GEN, [300, 1, 1]);
        // Pairs of pattern and host nodes are joined with one half; inside, hosts are mixed.
        let [inside, between] = densities(&train);
        assert!((between - 0.5).abs() < 0.01, "{between}");
        assert!((0.36..0.41).contains(&inside), "{inside}");
        // Graphs 0, 100 and 200 hide the same pattern: as many edges and the same signal.
        let hidden = |sample: &Sample| {
            let classes = classes(sample);
            let edges = sample.graph.edges();
            let inside = edges.filter(|&(u, v, _)| classes[u as usize] + classes[v as usize] == 2);
            let Some(Matrix { values: Values::Int(rows), .. }) = &sample.node_feat else {
                panic!("no features")
            };
            let mut signal = [0; 3];
            for (row, _) in rows.chunks(3).zip(classes).filter(|&(_, &class)| class == 1) {
                for (sum, &x) in signal.iter_mut().zip(row) {
                    *sum += x;
                }
            }
            (inside.count(), signal)
        };
        assert_eq!(hidden(&train[0]), hidden(&train[100]));
        assert_eq!(hidden(&train[0]), hidden(&train[200]));
        assert_ne!(hidden(&train[0]), hidden(&train[1]));
        assert_ne!(train[0].graph, train[100].graph);
    }

    #[test]
    fn larger_sets_begin_with_smaller_ones() {
        for set in [&PATTERN_GEN, &CLUSTER_GEN] {
            let (small, large) = (load(set, [3, 2, 1]), load(set, [5, 3, 4]));
            for (small, large) in small.iter().zip(&large) {
                for (a, b) in small.iter().zip(large) {
                    assert_eq!((&a.edges, &a.node_feat, &a.y), (&b.edges, &b.node_feat, &b.y));
                }
            }
            assert_ne!(large[0][0].edges, large[1][0].edges);
        }
    }
}
