//! Laws of distances, on random graphs and hierarchies.

use hdse::coarsen::{self, Context};
use hdse::distance::{Codes, Distances, MaxDistance, UNREACHABLE};
use hdse::rng::Seed;
use hdse::{Graph, Hierarchy, MemoryLimit, Partition};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

/// A graph of 1 to 90 nodes and up to three nested random partitions.
fn graph_and_hierarchy() -> impl Strategy<Value = (Graph, Hierarchy)> {
    (1usize..90, 0usize..4, any::<u64>(), 0.0f64..2.5).prop_map(|(n, levels, seed, per_node)| {
        let edges = (n as f64 * per_node) as u32;
        let graph = crate::support::random_graph(n as u32, edges, seed);
        let mut stream = Seed(seed).stream("partitions", 0, 0);
        let mut size = n;
        let partitions = (0..levels).map(|_| {
            let parts = 1 + stream.below(size as u64);
            let labels: Vec<u64> = (0..size).map(|_| stream.below(parts)).collect();
            let partition = Partition::from_labels(&labels);
            size = partition.num_clusters();
            partition
        });
        let hierarchy = Hierarchy::from_partitions(&graph, partitions.collect()).unwrap();
        (graph, hierarchy)
    })
}

fn distances(graph: &Graph, hierarchy: &Hierarchy, clip: usize) -> Distances {
    let clip = MaxDistance::new(&[clip]).unwrap();
    Distances::new(graph, hierarchy, &clip, MemoryLimit::NONE).unwrap()
}

fn all_pairs(graph: &Graph) -> Vec<u8> {
    hdse::distance::all_pairs(graph, 30, MemoryLimit::NONE).unwrap()
}

/// Hop distance of one pair by the plainest search there is.
fn hops(graph: &Graph, from: u32, to: u32) -> u8 {
    let mut frontier = vec![from];
    let mut seen = vec![false; graph.num_nodes()];
    seen[from as usize] = true;
    for distance in 0.. {
        if frontier.contains(&to) {
            return distance;
        }
        if frontier.is_empty() {
            break;
        }
        let mut next: Vec<u32> = Vec::new();
        for u in frontier {
            for &v in graph.neighbors(u) {
                if !std::mem::replace(&mut seen[v as usize], true) {
                    next.push(v);
                }
            }
        }
        frontier = next;
    }
    UNREACHABLE
}

/// Level 0 is a metric on every component. Each further level is a pseudometric, as distinct nodes of one cluster are at
/// distance 0, and no larger than the level below.
fn check_laws(place: &str, graph: &Graph, hierarchy: &Hierarchy) -> Result<(), TestCaseError> {
    let d = distances(graph, hierarchy, 254);
    let n = graph.num_nodes() as u32;
    for level in 0..=hierarchy.levels() {
        let place = format!("{place}, level {level}");
        let mut zeros = 0;
        for u in 0..n {
            for v in 0..n {
                let uv = d.get(level, u, v);
                prop_assert_eq!(uv, d.get(level, v, u), "{}: symmetric", place);
                let same = hierarchy.ancestor(level, u) == hierarchy.ancestor(level, v);
                prop_assert_eq!(uv == 0, same, "{}: 0 inside clusters only", place);
                zeros += usize::from(uv == 0);
                for w in (0..n).step_by(7) {
                    let through = u16::from(d.get(level, u, w)) + u16::from(d.get(level, w, v));
                    prop_assert!(u16::from(uv) <= through, "{}: no detour is shorter", place);
                }
                if level > 0 {
                    prop_assert!(uv <= d.get(level - 1, u, v), "{}: not longer", place);
                }
            }
        }
        let is_metric = zeros == n as usize;
        let shrank = hierarchy.num_clusters(level) < n as usize;
        prop_assert_eq!(is_metric, !shrank, "{}: a metric only if nothing is merged", place);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn laws_hold_for_random_partitions((graph, hierarchy) in graph_and_hierarchy()) {
        check_laws("random partitions", &graph, &hierarchy)?;
    }

    #[test]
    fn laws_hold_for_every_coarsener(n in 1..40u32, per_node in 0.0f64..2.5, seed in any::<u64>()) {
        let graph = crate::support::random_graph(n, (f64::from(n) * per_node) as u32, seed);
        for entry in coarsen::ALL {
            let coarsener = coarsen::parse(entry.name).unwrap();
            let context = Context { seed: Seed(seed), ..Context::default() };
            let hierarchy = Hierarchy::build(&graph, coarsener.as_ref(), 3, &context).unwrap();
            check_laws(entry.name, &graph, &hierarchy)?;
        }
    }

    #[test]
    fn clipping_is_a_minimum((graph, hierarchy) in graph_and_hierarchy(), clip in 1usize..20) {
        let (exact, clipped) =
            (distances(&graph, &hierarchy, 254).lifted(), distances(&graph, &hierarchy, clip).lifted());
        for (&e, &c) in exact.iter().zip(&clipped) {
            prop_assert_eq!(c, if e == UNREACHABLE { e } else { e.min(clip as u8) });
        }
    }

    #[test]
    fn every_level_is_hops_in_its_graph((graph, hierarchy) in graph_and_hierarchy()) {
        let d = distances(&graph, &hierarchy, 254);
        let n = graph.num_nodes() as u32;
        for level in 0..=hierarchy.levels() {
            let coarse = hierarchy.graph(&graph, level);
            for (u, v) in (0..n).step_by(5).flat_map(|u| (0..n).map(move |v| (u, v))) {
                let (a, b) = (hierarchy.ancestor(level, u), hierarchy.ancestor(level, v));
                prop_assert_eq!(d.get(level, u, v), hops(coarse, a, b));
            }
        }
    }

    #[test]
    fn relabelling_nodes_permutes_distances((graph, _) in graph_and_hierarchy(), seed in any::<u64>()) {
        let n = graph.num_nodes();
        let mut map: Vec<u32> = (0..n as u32).collect();
        Seed(seed).stream("map", 0, 0).shuffle(&mut map);
        let pairs: Vec<(u32, u32)> =
            graph.edges().map(|(u, v, _)| (map[u as usize], map[v as usize])).collect();
        let moved = crate::support::graph(n, &pairs);
        let (a, b) = (all_pairs(&graph), all_pairs(&moved));
        for (u, v) in (0..n).flat_map(|u| (0..n).map(move |v| (u, v))) {
            prop_assert_eq!(a[u * n + v], b[map[u] as usize * n + map[v] as usize]);
        }
    }

    #[test]
    fn isolated_nodes_change_nothing_else((graph, _) in graph_and_hierarchy(), extra in 1usize..80) {
        let n = graph.num_nodes();
        let pairs: Vec<(u32, u32)> = graph.edges().map(|(u, v, _)| (u, v)).collect();
        let larger = crate::support::graph(n + extra, &pairs);
        let (a, b) = (all_pairs(&graph), all_pairs(&larger));
        for u in 0..n + extra {
            for v in 0..n + extra {
                let expected = match (u < n && v < n, u == v) {
                    (true, _) => a[u * n + v],
                    (false, true) => 0,
                    (false, false) => UNREACHABLE,
                };
                prop_assert_eq!(b[u * (n + extra) + v], expected);
            }
        }
    }

    #[test]
    fn codes_of_a_batch_equal_those_of_its_parts(
        parts in prop::collection::vec(graph_and_hierarchy(), 1..4)
    ) {
        // Equal numbers of levels, as in a batch.
        let levels = parts.iter().map(|(_, h)| h.levels()).min().unwrap();
        let lifted: Vec<Vec<u8>> = parts
            .iter()
            .map(|(graph, h)| {
                let partitions = h.built()[..levels].iter().map(|l| l.partition.clone()).collect();
                let h = Hierarchy::from_partitions(graph, partitions).unwrap();
                distances(graph, &h, 30).lifted()
            })
            .collect();
        let width = levels + 1;
        let codes: Vec<Codes> = lifted.iter().map(|t| Codes::from_tuples(t, width)).collect();
        let merged = Codes::merge(&codes.iter().collect::<Vec<_>>());
        prop_assert_eq!(&merged, &Codes::from_tuples(&lifted.concat(), width));
        let back: Vec<u8> = merged.iter().flat_map(|c| merged.codebook().row(c).to_vec()).collect();
        prop_assert_eq!(back, lifted.concat());
    }
}
