//! Pairs of graphs: what refinement tells apart, and partitions by exact Girvan-Newman runs.

use super::Fixture;
use crate::expressive::{given, refined};
use hdse::coarsen::{self, Context};
use hdse::expressive::Distance;
use hdse::{Graph, Partition};

fn graph(fixture: &Fixture, name: &str, nodes: usize) -> Graph {
    let edges = fixture.ints(&format!("in.{name}.edges"));
    // Results are in the sidecar; what they are of counts as compared.
    fixture.mark(&format!("in.{name}.edges"));
    let (sources, targets) = edges.split_at(edges.len() / 2);
    let pairs: Vec<(u32, u32)> =
        sources.iter().zip(targets).map(|(&u, &v)| (u as u32, v as u32)).collect();
    crate::support::graph(nodes, &pairs)
}

pub fn check(fixture: &Fixture) {
    let pairs = fixture.config["pairs"].as_object().expect("pairs in the config");
    assert!(!pairs.is_empty());
    for (name, expected) in pairs {
        let of = |side: &str, place: usize| {
            let nodes = expected["nodes"][place].as_u64().unwrap() as usize;
            graph(fixture, &format!("{name}.{side}"), nodes)
        };
        let graphs = [of("a", 0), of("b", 1)];
        let graphs = [&graphs[0], &graphs[1]];
        let flag = |key: &str| expected[key].as_bool().unwrap_or_else(|| panic!("{name}: {key}"));
        let plain = refined(&graphs, &Distance::Adjacency);
        assert_eq!(plain.groups.num_clusters() == 2, flag("separated_by_1wl"), "{name}");
        let hops = refined(&graphs, &Distance::Hops);
        assert_eq!(hops.groups.num_clusters() == 2, flag("separated_by_gdwl_spd"), "{name}");
        let colors = Partition::from_labels(&hops.colors.concat()).num_clusters();
        assert_eq!(Some(colors as u64), expected["colours_at_stability_spd"].as_u64(), "{name}");
        let after_one = *hops.history.get(1).unwrap_or(&1);
        assert_eq!(after_one == 1, flag("distance_row_histograms_equal"), "{name}");
        if flag("isomorphic") {
            let resistance = refined(&graphs, &Distance::Resistance);
            assert_eq!(resistance.groups.num_clusters(), 1, "{name}");
        }
    }
    for (clusters, expected) in fixture.config["exact_gn_levels"].as_object().expect("levels") {
        exact_runs(fixture, clusters.parse().unwrap(), expected);
    }
}

/// Partitions of both graphs of Proposition 1, those of the fixture and one of ours.
fn exact_runs(fixture: &Fixture, clusters: usize, expected: &serde_json::Value) {
    let (mut graphs, mut partitions) = (Vec::new(), Vec::new());
    for (side, name) in [("a", "dodecahedron"), ("b", "desargues")] {
        let graph = graph(fixture, &format!("dodecahedron-desargues.{side}"), 20);
        let runs = fixture.ints(&format!("in.exact_gn.{name}.k{clusters}"));
        fixture.mark(&format!("in.exact_gn.{name}.k{clusters}"));
        for run in runs.chunks_exact(20) {
            graphs.push(graph.clone());
            partitions.push(Partition::from_labels(run));
        }
        let spec = format!("newman:exact=true,ties=random,clusters={clusters}");
        let ours = coarsen::parse(&spec).unwrap().coarsen(&graph, &Context::default()).unwrap();
        graphs.push(graph);
        partitions.push(ours);
    }
    let encoder = given(partitions);
    let found = refined(&graphs.iter().collect::<Vec<_>>(), &Distance::Hierarchy(&encoder));
    let [dodecahedra, desargues] = [0, 7].map(|start| &found.groups.cluster_of()[start..start + 7]);
    assert_eq!(expected["pairs_dodecahedron_desargues_separated"], "36/36");
    assert!(dodecahedra.iter().all(|group| !desargues.contains(group)), "{clusters} clusters");
    for (key, groups) in [
        ("dodecahedron_runs_separated_from_run_0", dodecahedra),
        ("desargues_runs_separated_from_run_0", desargues),
    ] {
        let differ = groups[1..6].iter().filter(|&&group| group != groups[0]).count();
        assert_eq!(expected[key], format!("{differ}/5"), "{clusters} clusters: {key}");
        // From 4 clusters on, ties decide.
        if clusters < 4 {
            assert_eq!(groups[6], groups[0], "{clusters} clusters: our own run");
        }
    }
}
