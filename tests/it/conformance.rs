//! What every coarsener promises, for every entry of the list.

use crate::support::{graph, random_graph};
use hdse::coarsen::{self, Context};
use hdse::rng::Seed;
use hdse::{Graph, Hierarchy, Partition};

fn graphs() -> Vec<(&'static str, Graph)> {
    let path = |n: u32| graph(n as usize, &(1..n).map(|v| (v - 1, v)).collect::<Vec<_>>());
    let star = graph(200, &(1..200).map(|v| (0, v)).collect::<Vec<_>>());
    let clique: Vec<(u32, u32)> = (0..25).flat_map(|u| (0..u).map(move |v| (u, v))).collect();
    let triangles: Vec<(u32, u32)> = (0..40)
        .flat_map(|i| [(3 * i, 3 * i + 1), (3 * i + 1, 3 * i + 2), (3 * i + 2, 3 * i)])
        .collect();
    let repeated: Vec<(u32, u32)> = (0..5).flat_map(|_| [(0, 1), (1, 0), (1, 2), (2, 2)]).collect();
    let (weighted, _) = Graph::from_weighted_pairs(
        6,
        &[(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)],
        &[0.0, 5.0, 0.25, 1e6, 1.0, 1e-6],
    )
    .unwrap();
    vec![
        ("no nodes", graph(0, &[])),
        ("one node", graph(1, &[])),
        ("two isolated nodes", graph(2, &[])),
        ("one edge", graph(2, &[(0, 1)])),
        ("path", path(60)),
        ("star", star),
        ("clique", graph(25, &clique)),
        ("many components", graph(121, &triangles)),
        ("repeated pairs and loops", graph(3, &repeated)),
        ("weighted", weighted),
        ("sparse random", random_graph(80, 90, 1)),
        ("dense random", random_graph(40, 300, 2)),
    ]
}

/// Large enough for everything that works in parallel.
fn large() -> Graph {
    random_graph(20_000, 90_000, 3)
}

fn run(spec: &str, graph: &Graph, levels: usize, seed: u64) -> Hierarchy {
    let coarsener = coarsen::parse(spec).unwrap();
    let context = Context { seed: Seed(seed), ..Context::default() };
    Hierarchy::build(graph, coarsener.as_ref(), levels, &context).unwrap()
}

#[test]
fn partitions_are_valid_and_nest() {
    for entry in coarsen::ALL {
        for (name, graph) in graphs() {
            for levels in 1..=3 {
                let hierarchy = run(entry.name, &graph, levels, 0);
                let place = format!("{} on {name}", entry.name);
                assert_eq!(hierarchy.levels(), levels);
                let mut below = graph.num_nodes();
                for level in hierarchy.built() {
                    let partition = &level.partition;
                    assert_eq!(partition.num_nodes(), below, "{place}");
                    Partition::new(partition.cluster_of().to_vec()).expect(&place);
                    assert!(partition.num_clusters() < below, "{place}: levels shrink");
                    assert_eq!(level.graph.num_nodes(), partition.num_clusters(), "{place}");
                    below = partition.num_clusters();
                }
            }
        }
    }
}

#[test]
fn equal_seeds_give_equal_partitions_for_any_thread_count() {
    for entry in coarsen::ALL {
        let mut graphs = graphs();
        if entry.name != "newman" {
            graphs.push(("large", large()));
        }
        for (name, graph) in graphs {
            let with = |threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| run(entry.name, &graph, 3, 7))
            };
            let one = with(1);
            for threads in [1, 2, 7] {
                assert_eq!(with(threads), one, "{} on {name}, {threads} threads", entry.name);
            }
        }
    }
}

#[test]
fn the_list_describes_itself() {
    for entry in coarsen::ALL {
        let described = coarsen::parse(entry.name).unwrap().describe();
        assert!(described.starts_with(entry.name));
        assert_eq!(coarsen::parse(&described).unwrap().describe(), described);
        assert!(!entry.summary.is_empty() && !entry.citation.is_empty());
        assert!(!entry.complexity.is_empty());
    }
    let mut names: Vec<&str> = coarsen::ALL.iter().map(|e| e.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), coarsen::ALL.len());
}
