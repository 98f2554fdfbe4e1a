//! What every coarsener promises, for every entry of the list.

use crate::support::{graph, partition, random_graph};
use hdse::coarsen::{self, Context};
use hdse::rng::Seed;
use hdse::{Graph, Hierarchy, Partition};
use proptest::prelude::*;

/// Those whose clusters hang together.
const CONNECTED: &[&str] = &["newman", "leiden"];

fn ring(n: u32) -> Graph {
    graph(n as usize, &(0..n).map(|v| (v, (v + 1) % n)).collect::<Vec<_>>())
}

fn path(n: u32) -> Graph {
    graph(n as usize, &(1..n).map(|v| (v - 1, v)).collect::<Vec<_>>())
}

fn star(leaves: u32) -> Graph {
    graph(leaves as usize + 1, &(1..=leaves).map(|v| (0, v)).collect::<Vec<_>>())
}

fn clique(n: u32) -> Graph {
    graph(n as usize, &(0..n).flat_map(|u| (0..u).map(move |v| (u, v))).collect::<Vec<_>>())
}

/// Triangles, then nodes without edges.
fn triangles(count: u32, isolated: u32) -> Graph {
    let triangle = |i: u32| [(3 * i, 3 * i + 1), (3 * i + 1, 3 * i + 2), (3 * i + 2, 3 * i)];
    graph((3 * count + isolated) as usize, &(0..count).flat_map(triangle).collect::<Vec<_>>())
}

/// A random graph with weights from 1 to 1e6, evenly by magnitude, every tenth edge of weight 0 and
/// every tenth node without edges.
fn spread_weights(n: u32, edges: u32, seed: u64) -> Graph {
    let mut stream = Seed(seed).stream("weights", n.into(), edges.into());
    let mut node = || loop {
        let node = stream.below(n.into()) as u32;
        if node % 10 != 9 {
            return node;
        }
    };
    let pairs: Vec<(u32, u32)> = (0..edges).map(|_| (node(), node())).collect();
    let weight =
        |i: u32| if i.is_multiple_of(10) { 0.0 } else { 10f64.powf(6.0 * stream.unit()) as f32 };
    let weights: Vec<f32> = (0..edges).map(weight).collect();
    Graph::from_weighted_pairs(n as usize, &pairs, &weights).unwrap().0
}

fn graphs() -> Vec<(&'static str, Graph)> {
    let repeated: Vec<(u32, u32)> = (0..5).flat_map(|_| [(0, 1), (1, 0), (1, 2), (2, 2)]).collect();
    let weighted = |weights: &[f32; 6]| {
        let ring = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)];
        Graph::from_weighted_pairs(7, &ring, weights).unwrap().0
    };
    vec![
        ("no nodes", graph(0, &[])),
        ("one node", graph(1, &[])),
        ("two isolated nodes", graph(2, &[])),
        ("one edge", graph(2, &[(0, 1)])),
        ("path", path(60)),
        ("star", star(199)),
        ("clique", clique(60)),
        ("thousands of components", triangles(2_500, 2_500)),
        ("repeated pairs and loops", graph(3, &repeated)),
        ("weighted", weighted(&[0.0, 5.0, 0.25, 1e6, 1.0, 1e-6])),
        ("weights of 0 only", weighted(&[0.0; 6])),
        ("tiny and huge weights", weighted(&[1e-30, 1e-24, 1e-30, 1e30, 1e24, 1e30])),
        ("weights from 1 to 1e6", spread_weights(80, 250, 4)),
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

/// Every level partitions the one below it into fewer clusters; those that should are connected.
fn check(place: &str, hierarchy: &Hierarchy, graph: &Graph, connected: bool) {
    let mut below = graph;
    for level in hierarchy.built() {
        let partition = &level.partition;
        assert_eq!(partition.num_nodes(), below.num_nodes(), "{place}");
        Partition::new(partition.cluster_of().to_vec()).expect(place);
        assert!(partition.num_clusters() < below.num_nodes(), "{place}: levels shrink");
        assert_eq!(level.graph.num_nodes(), partition.num_clusters(), "{place}");
        if connected {
            assert_eq!(pieces(below, partition), partition.num_clusters(), "{place}: connected");
        }
        below = &level.graph;
    }
}

/// Number of components without the edges between clusters; as many as clusters if each of them is
/// connected.
fn pieces(graph: &Graph, partition: &Partition) -> usize {
    let of = |node: u32| partition.cluster_of()[node as usize];
    let within: Vec<(u32, u32)> =
        graph.edges().filter(|&(u, v, _)| of(u) == of(v)).map(|(u, v, _)| (u, v)).collect();
    crate::support::graph(graph.num_nodes(), &within).components().num_clusters()
}

#[test]
fn partitions_are_valid_and_nest() {
    for entry in coarsen::ALL {
        for (name, graph) in graphs() {
            for levels in 1..=3 {
                let hierarchy = run(entry.name, &graph, levels, 0);
                assert_eq!(hierarchy.levels(), levels);
                let place = format!("{} on {name}", entry.name);
                check(&place, &hierarchy, &graph, CONNECTED.contains(&entry.name));
            }
        }
    }
}

/// Eigenvectors of long chains take long.
fn has_eigenvectors(name: &str) -> bool {
    ["spectral", "loukas"].contains(&name)
}

/// The coarsener for a large graph: thousands of eigenvectors are not what `spectral` is for.
fn for_large(name: &str) -> &str {
    if name == "spectral" { "spectral:clusters=16/4" } else { name }
}

/// Sizes at which anything quadratic, or recursive, shows. The first levels of three are what one
/// or two would be, so only three are built.
#[test]
fn large_graphs_are_coarsened() {
    let graphs = [("star", star(100_000)), ("path", path(1_000_000)), ("ring", ring(1_000_000))];
    let fewer = [("star", star(20_000)), ("path", path(3_000)), ("ring", ring(3_000))];
    for entry in coarsen::ALL {
        for (name, graph) in if has_eigenvectors(entry.name) { &fewer } else { &graphs } {
            let start = std::time::Instant::now();
            let hierarchy = run(for_large(entry.name), graph, 3, 0);
            println!("{} on a large {name}: {:?}", entry.name, start.elapsed());
            let place = format!("{} on a large {name}", entry.name);
            check(&place, &hierarchy, graph, CONNECTED.contains(&entry.name));
        }
    }
}

/// Level k is the same however many levels are asked for, so checks of three levels hold for one.
#[test]
fn fewer_levels_are_the_first_of_more() {
    for entry in coarsen::ALL {
        for (name, graph) in graphs() {
            let three = run(entry.name, &graph, 3, 5);
            for levels in 1..=2 {
                let built = run(entry.name, &graph, levels, 5);
                let first = &three.built()[..three.built().len().min(levels)];
                assert_eq!(built.built(), first, "{} on {name}", entry.name);
            }
        }
    }
}

#[test]
fn repeated_pairs_change_nothing() {
    for entry in coarsen::ALL {
        for (name, once) in graphs().into_iter().filter(|(_, graph)| !graph.is_weighted()) {
            let pairs: Vec<(u32, u32)> =
                once.edges().flat_map(|(u, v, _)| [(u, v), (v, u)].repeat(3)).collect();
            let often = graph(once.num_nodes(), &pairs);
            let [once, often] = [once, often].map(|graph| run(entry.name, &graph, 3, 1));
            assert_eq!(once, often, "{} on {name}", entry.name);
        }
    }
}

#[test]
fn label_propagation_keeps_to_its_largest_size() {
    let mut graphs = graphs();
    graphs.push(("large", large()));
    for (name, graph) in graphs {
        for seed in 0..5 {
            let sizes = partition("label-propagation:max_size=7", &graph, seed).sizes();
            assert!(sizes.iter().all(|&size| size <= 7), "{name}, seed {seed}: {sizes:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn clusters_are_connected(n in 2..60u32, edges in 0..200u32, seed in any::<u64>()) {
        for name in CONNECTED {
            let weighted = spread_weights(n, edges, seed);
            check(name, &run(name, &weighted, 3, seed), &weighted, true);
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
            let spec = if name == "large" { for_large(entry.name) } else { entry.name };
            let with = |threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| run(spec, &graph, 3, 7))
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
