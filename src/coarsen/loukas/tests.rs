//! Costs by their definition, numbers of clusters, what is kept.

use super::*;
use crate::coarsen::parse;

fn partition(spec: &str, graph: &Graph) -> Partition {
    parse(spec).unwrap().coarsen(graph, &Context::default()).unwrap()
}

fn random(n: u32, m: usize, seed: u64) -> Graph {
    let mut stream = crate::rng::Seed(seed).stream("graph", 0, 0);
    let mut node = || stream.below(n.into()) as u32;
    let mut pairs: Vec<(u32, u32)> = (0..m).map(|_| (node(), node())).collect();
    pairs.extend((1..n).map(|u| (u - 1, u)));
    Graph::from_pairs(n as usize, &pairs).unwrap().0
}

#[test]
fn as_many_clusters_as_were_asked_for() {
    for seed in 0..20 {
        let graph = random(40, 60, seed);
        for variant in ["edges", "neighbourhoods"] {
            for k in [1, 2, 4, 17, 39, 40] {
                let spec = format!("loukas:clusters={k},variant={variant}");
                assert_eq!(partition(&spec, &graph).num_clusters(), k, "{spec}");
            }
        }
    }
}

#[test]
fn nothing_is_contracted_across_components() {
    let pairs = [(0, 1), (1, 2), (3, 4), (4, 5), (5, 3)];
    let (graph, _) = Graph::from_pairs(8, &pairs).unwrap();
    for variant in ["edges", "neighbourhoods", "algebraic-jc"] {
        let found = partition(&format!("loukas:clusters=1,variant={variant}"), &graph);
        assert!(found.num_clusters() >= 4);
        let cluster = found.cluster_of();
        assert!(cluster[..3].iter().all(|c| !cluster[3..].contains(c)), "{cluster:?}");
    }
}

#[test]
fn costs_follow_their_definition() {
    let graph = random(12, 14, 5);
    let rows = frequencies(&graph, 5, true, &Context::default()).unwrap();
    let level = Level { rows, graph: graph.clone() };
    let pairs = level.edges().into_iter().map(|edge| {
        let (u, v) = edge.ends();
        Candidate { cost: edge.cost(), nodes: vec![u, v] }
    });
    for candidate in level.neighbourhoods().into_iter().chain(pairs) {
        let nodes = &candidate.nodes;
        let inside = |v: u32| nodes.contains(&v);
        let weight = |u: u32, v: u32| f64::from(u8::from(graph.neighbors(u).contains(&v)));
        // L_C as a matrix.
        let entry = |u: u32, v: u32| match u == v {
            true => {
                let each = |&v: &u32| if inside(v) { 1.0 } else { 2.0 };
                graph.neighbors(u).iter().map(each).sum()
            }
            false => -weight(u, v),
        };
        let width = level.rows.width;
        let mean =
            |j: usize| nodes.iter().map(|&u| level.rows.of(u)[j]).sum::<f64>() / nodes.len() as f64;
        let y = |u: u32, j: usize| level.rows.of(u)[j] - mean(j);
        let mut matrix = vec![0.0; width * width];
        for (i, j) in (0..width).flat_map(|i| (0..width).map(move |j| (i, j))) {
            for &u in nodes {
                for &v in nodes {
                    matrix[i * width + j] += y(u, i) * entry(u, v) * y(v, j);
                }
            }
        }
        let cost = largest_eigenvalue(matrix, width) / (nodes.len() - 1) as f64;
        assert!((cost - candidate.cost).abs() < 1e-10 * cost.max(1.0), "{nodes:?}");
    }
}

#[test]
fn means_keep_the_frequencies_orthogonal() {
    let graph = random(30, 40, 1);
    let rows = frequencies(&graph, 6, true, &Context::default()).unwrap();
    let level = Level { rows, graph };
    let step = matched(30, level.edges(), 12);
    assert_eq!(step.num_clusters(), 18);
    let next = level.contracted(&step);
    let product = quadratic(&next.graph, &next.rows);
    for (place, entry) in product.iter().enumerate() {
        let expected = f64::from(u8::from(place / next.rows.width == place % next.rows.width));
        assert!((entry - expected).abs() < 1e-9, "{place}: {entry}");
    }
}

#[test]
fn scores_of_dense_graphs_differ() {
    let graph = random(100, 3000, 2);
    let mut stream = crate::rng::Seed(0).stream("loukas", 0, 1);
    let edges = algebraic::distances(&graph, 10, &mut stream);
    let mut found: Vec<u64> = edges.into_iter().map(|edge| edge.cost().to_bits()).collect();
    let edges = found.len();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), edges);
}

#[test]
fn a_partition_into_single_nodes_loses_nothing() {
    let graph = random(25, 30, 3);
    let error = |partition: &Partition| {
        spectral_error(&graph, partition, 10, MemoryLimit::default()).unwrap()
    };
    assert!(error(&Partition::singletons(25)) < 1e-7);
    assert!(
        error(&partition("loukas:ratio=0.5", &graph))
            < error(&partition("random:ratio=0.5", &graph))
    );
}
