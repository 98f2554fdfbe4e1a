//! One format to another and back: whatever a format can carry comes back.

use std::path::Path;

use hdse::Graph;
use hdse::data::{
    AtomicFile, FORMATS, Format, GraphOut, GraphSet, ReadOptions, format_of_file, read,
};

/// What a format carries besides edges.
struct Carries {
    weights: bool,
    fractions: bool,
    ids: bool,
    isolated: bool,
}

fn carries(format: &str) -> Carries {
    let [weights, fractions, ids, isolated] = match format {
        "metis" => [true, false, false, true],
        "matrix-market" | "npz" | "hgraph" => [true, true, false, true],
        "gml" | "graphml" => [true, true, true, true],
        "edge-list" | "parquet" => [true, true, true, false],
        other => panic!("say what {other} carries"),
    };
    Carries { weights, fractions, ids, isolated }
}

fn write(path: &Path, graph: &Graph, ids: Option<&[String]>) {
    let name = path.file_name().unwrap().to_string_lossy();
    let write = format_of_file(&name).unwrap().write_graph.unwrap();
    let out = GraphOut { graph, ids, attributes: &[] };
    write(&out, AtomicFile::create(path, true).unwrap()).unwrap();
}

fn load(path: &Path) -> GraphSet {
    read(&path.to_string_lossy(), &ReadOptions::default()).unwrap()
}

fn readable_and_writable() -> impl Iterator<Item = &'static Format> {
    FORMATS.iter().filter(|f| f.reads() && f.write_graph.is_some())
}

/// Edges by the names of their ends, so that relabelling does not matter.
fn edges(graph: &Graph, ids: Option<&[String]>) -> Vec<(String, String, f32)> {
    let name = |u: u32| ids.map_or_else(|| u.to_string(), |ids| ids[u as usize].clone());
    let mut edges: Vec<(String, String, f32)> = graph
        .edges()
        .map(|(u, v, w)| {
            let (a, b) = (name(u), name(v));
            if a < b { (a, b, w) } else { (b, a, w) }
        })
        .collect();
    edges.sort_by(|a, b| a.partial_cmp(b).unwrap());
    edges
}

#[test]
fn every_pair_of_formats() {
    let folder = tempfile::tempdir().unwrap();
    let base = crate::support::random_graph(40, 70, 5);
    let pairs: Vec<(u32, u32)> = base.edges().map(|(u, v, _)| (u, v)).collect();
    let names: Vec<String> = (0..45).map(|i| format!("node-{}", (i * 7) % 45)).collect();
    let mut checked = 0;
    for isolated in [0, 5] {
        // Without isolated nodes every node has an edge to its successor.
        let mut pairs = pairs.clone();
        pairs.extend((1..40).map(|v| (v - 1, v)));
        for weight in [None, Some(1.0f32), Some(0.125)] {
            let n = 40 + isolated;
            let graph = match weight {
                None => Graph::from_pairs(n, &pairs).unwrap().0,
                Some(unit) => {
                    let weights: Vec<f32> =
                        (0..pairs.len()).map(|i| unit * (1 + i % 9) as f32).collect();
                    Graph::from_weighted_pairs(n, &pairs, &weights).unwrap().0
                }
            };
            for ids in [None, Some(&names[..n])] {
                for first in readable_and_writable() {
                    for second in readable_and_writable() {
                        let fits = |format: &Format| {
                            let c = carries(format.name);
                            (weight.is_none() || c.weights)
                                && (weight != Some(0.125) || c.fractions)
                                && (ids.is_none() || c.ids)
                                && (isolated == 0 || c.isolated)
                        };
                        if !fits(first) || !fits(second) {
                            continue;
                        }
                        let a = folder.path().join(format!("a.{}", first.extensions[0]));
                        let b = folder.path().join(format!("b.{}", second.extensions[0]));
                        write(&a, &graph, ids);
                        let middle = load(&a);
                        write(&b, &middle.samples[0].graph, middle.ids.as_deref());
                        let last = load(&b);
                        let place = format!("{} to {}", first.name, second.name);
                        let found = &last.samples[0].graph;
                        assert_eq!(found.num_nodes(), n, "{place}");
                        assert_eq!(found.is_weighted(), weight.is_some(), "{place}");
                        assert_eq!(
                            edges(found, last.ids.as_deref()),
                            edges(&graph, ids),
                            "{place}"
                        );
                        checked += 1;
                    }
                }
            }
        }
    }
    assert!(checked > 200, "{checked}");
}
