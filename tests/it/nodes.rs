//! Node sets: real files beside published counts, and beside numbers from numpy and scipy; miniature folders of
//! the Open Graph Benchmark; sets of one's own; damaged files.

use std::path::{Path, PathBuf};

use hdse::MemoryLimit;
use hdse::data::nodes::{self, Features, NodeSet, Own, Split};
use hdse::data::sets::{LoadOptions, Target};
use hdse::rng::Seed;
use serde_json::Value;

use crate::support::find;

const LIMIT: MemoryLimit = MemoryLimit::NONE;

fn json(path: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn count(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}

fn load(name: &str, path: &str) -> NodeSet {
    let options = LoadOptions { path: Some(path.into()), ..LoadOptions::default() };
    nodes::by_name(name).unwrap().load(&options).unwrap()
}

/// Σ (node · (class + 1)): changes if two nodes of different class change places.
fn checksum(set: &NodeSet) -> i64 {
    let classes = set.classes().unwrap().iter().enumerate();
    classes.map(|(node, &class)| node as i64 * (class + 1)).sum()
}

#[test]
fn planetoid_is_as_published() {
    let Some(folder) = find("planetoid") else { return };
    let expected = json(&format!("{folder}/expected.json"));
    // Classes, checksum of classes, entries and their sum, checksum of entries (7 · node + column): by scipy.
    let known: [(&str, &[usize], i64, usize, f64, u64); 3] = [
        ("cora", &[351, 217, 418, 818, 426, 298, 180], 14_171_671, 49_216, 49_216.0, 502_449_799),
        (
            "citeseer",
            &[249, 590, 668, 701, 596, 508],
            20_378_545,
            105_165,
            105_165.0,
            1_414_322_958,
        ),
        ("pubmed", &[4103, 7739, 7875], 425_389_938, 988_031, 38_716.295, 68_223_086_759),
    ];
    for (name, histogram, classes, entries, sum, places) in known {
        let set = load(name, &folder);
        let expected = &expected[name];
        assert_eq!(set.label, None, "{name}");
        assert_eq!(set.num_nodes(), count(&expected["num_nodes"]), "{name}");
        assert_eq!(set.edges.sources.len(), count(&expected["listed_arcs"]), "{name}");
        assert_eq!(set.repairs.self_loops as usize, count(&expected["listed_self_loops"]));
        assert_eq!(set.graph.num_edges(), count(&expected["edges_undirected"]), "{name}");
        assert_eq!(set.features.width(), count(&expected["num_features"]), "{name}");
        assert_eq!(set.task.target, Target::Classes(count(&expected["num_classes"])), "{name}");
        assert_eq!(set.unlabelled(), count(&expected["missing_test_rows"]), "{name}");
        let isolated = (0..set.num_nodes() as u32).filter(|&node| set.graph.degree(node) == 0);
        assert_eq!(isolated.count(), count(&expected["isolated"]), "{name}");
        let homophily = set.edge_homophily().unwrap();
        assert!((homophily - expected["edge_homophily"].as_f64().unwrap()).abs() < 5e-5, "{name}");
        assert_eq!((set.histogram(), checksum(&set)), (histogram.to_vec(), classes), "{name}");

        let Features::Sparse(features) = &set.features else { panic!("{name} is sparse") };
        assert_eq!(features.values().len(), entries, "{name}");
        let found: f64 = features.values().iter().map(|&x| f64::from(x)).sum();
        assert!((found - sum).abs() < 1e-3, "{name}: {found}");
        let place = |node: usize| {
            let columns = features.row(node).0.iter();
            columns.map(move |&column| node as u64 * 7 + u64::from(column)).sum::<u64>()
        };
        assert_eq!((0..set.num_nodes()).map(place).sum::<u64>(), places, "{name}");

        let sizes = ["train", "val", "test"].map(|part| count(&expected[part]));
        for split in ["public", "paper", "random-0"] {
            assert_eq!(set.split(split).unwrap().sizes(), sizes, "{name} {split}");
        }
        let (train, rows) = (set.split("public").unwrap().train, count(&expected["train"]) as u32);
        assert_eq!(train, (0..rows).collect::<Vec<_>>(), "{name}");
        test_nodes_share_words(name, &set);
    }
}

/// Neighbours have words in common. Where both are for test, they do so only if rows were put in place.
fn test_nodes_share_words(name: &str, set: &NodeSet) {
    let Features::Sparse(features) = &set.features else { panic!() };
    let test = set.split("public").unwrap().test;
    let common = |u: u32, v: u32| {
        let (left, right) = (features.row(u as usize).0, features.row(v as usize).0);
        left.iter().filter(|column| right.binary_search(column).is_ok()).count() as f64
    };
    let inside = |node: u32| test.binary_search(&node).is_ok();
    let pairs: Vec<(u32, u32)> = set
        .graph
        .edges()
        .map(|(u, v, _)| (u, v))
        .filter(|&(u, v)| inside(u) && inside(v))
        .collect();
    assert!(pairs.len() > 100, "{name}: {}", pairs.len());
    let mean = |words: &dyn Fn(usize) -> f64| {
        (0..pairs.len()).map(words).sum::<f64>() / pairs.len() as f64
    };
    let near = mean(&|i| common(pairs[i].0, pairs[i].1));
    let far = mean(&|i| common(pairs[i].0, test[i * 7919 % test.len()]));
    assert!(near > 1.3 * far, "{name}: {near:.2} words in common, {far:.2} of any two");
}

#[test]
fn the_split_of_the_paper_is_the_one_that_was_drawn() {
    let Some(file) = find("planetoid/split-random20-seed123.json") else { return };
    let drawn = json(&file);
    for name in ["cora", "citeseer", "pubmed"] {
        let set = load(name, Path::new(&file).parent().unwrap().to_str().unwrap());
        let split = set.split("paper").unwrap();
        let text = drawn[name].to_string();
        let again = Split::from_json("paper", &text, set.num_nodes()).unwrap();
        assert_eq!(split, again, "{name}");
        // Twenty of each class, if CiteSeer's nodes without class are of class 0.
        let set = set.with_unknown_as(0);
        let classes = set.classes().unwrap();
        let mut counts = vec![0; set.histogram().len()];
        split.train.iter().for_each(|&node| counts[classes[node as usize] as usize] += 1);
        assert!(counts.iter().all(|&count| count == 20), "{name}: {counts:?}");
    }
}

#[test]
fn heterophilous_graphs_are_as_published() {
    let Some(folder) = find("heterophilous") else { return };
    let expected = json(&format!("{folder}/expected.json"));
    // Classes, sum of features, nodes of the last split and their sums: by numpy.
    let known: [(&str, [usize; 5], f64, [usize; 3], [u64; 3]); 5] = [
        (
            "actor",
            [853, 1337, 1630, 1815, 1965],
            40_977.0,
            [3648, 2432, 1520],
            [13_855_526, 9_257_236, 5_763_438],
        ),
        (
            "chameleon_filtered",
            [242, 134, 209, 164, 141],
            9903.0,
            [426, 278, 186],
            [194_478, 123_673, 77_454],
        ),
        (
            "squirrel_filtered",
            [756, 516, 397, 321, 233],
            32_481.0,
            [1074, 733, 416],
            [1_177_591, 833_123, 459_039],
        ),
        (
            "chameleon",
            [456, 460, 453, 521, 387],
            29_157.0,
            [1092, 729, 456],
            [1_248_519, 836_031, 506_676],
        ),
        (
            "squirrel",
            [1042, 1040, 1039, 1040, 1040],
            93_477.0,
            [2496, 1664, 1041],
            [6_494_792, 4_356_893, 2_670_915],
        ),
    ];
    for (name, histogram, sum, last, ids) in known {
        let path = PathBuf::from(format!("{folder}/{name}.npz"));
        let set = nodes::load_heterophilous(&path, LIMIT).unwrap();
        let expected = &expected[name];
        assert_eq!(set.num_nodes(), count(&expected["num_nodes"]), "{name}");
        assert_eq!(set.edges.sources.len(), count(&expected["edges"]), "{name}");
        assert_eq!(set.graph.num_edges(), count(&expected["edges"]), "{name}");
        assert_eq!(set.features.width(), count(&expected["num_features"]), "{name}");
        let homophily = set.edge_homophily().unwrap();
        assert!((homophily - expected["edge_homophily"].as_f64().unwrap()).abs() < 6e-4, "{name}");
        assert_eq!(set.histogram(), histogram, "{name}");
        let Features::Dense(features) = &set.features else { panic!("{name} is dense") };
        let found: f64 = features.values.to_floats().iter().map(|&x| f64::from(x)).sum();
        assert_eq!(found, sum, "{name}");
        assert_eq!(set.splits.len(), 10, "{name}");
        let first = expected["train_val_test"].as_array().unwrap();
        let first: Vec<usize> = first.iter().map(count).collect();
        assert_eq!(set.split("0").unwrap().sizes().to_vec(), first, "{name}");
        let split = set.split("9").unwrap();
        assert_eq!(split.sizes(), last, "{name}");
        let sum = |nodes: &[u32]| nodes.iter().map(|&node| u64::from(node)).sum::<u64>();
        assert_eq!(split.parts().map(sum), ids, "{name}");
    }
    // By name, squirrels and chameleons are without nodes that occur twice.
    for name in ["actor", "squirrel", "chameleon"] {
        assert_eq!(load(name, &folder).label, None, "{name}");
    }
    let label = load("squirrel", &format!("{folder}/squirrel.npz")).label.unwrap();
    assert!(label.starts_with("5201 nodes instead of 2223"), "{label}");
}

#[test]
fn folders_of_the_open_graph_benchmark() {
    let Some(folder) = find("ogbn-mini") else { return };
    let arxiv = load("ogbn-arxiv", &folder);
    assert!(arxiv.directed);
    assert_eq!((arxiv.num_nodes(), arxiv.edges.sources.len()), (2000, 10_132));
    assert_eq!((arxiv.edges.sources[0], arxiv.edges.targets[0]), (0, 670));
    assert_eq!((arxiv.features.width(), arxiv.histogram()), (16, vec![400; 5]));
    // 81 % of the edges are inside classes: arcs and classes mean the same nodes.
    assert!((arxiv.edge_homophily().unwrap() - 0.81).abs() < 0.01);
    let time = arxiv.split("time").unwrap();
    assert_eq!(time.sizes(), [1128, 356, 516]);
    let years = arxiv.years.as_ref().unwrap();
    for (part, range) in time.parts().into_iter().zip([0..=2017, 2018..=2018, 2019..=9999]) {
        assert!(part.iter().all(|&node| range.contains(&years[node as usize])));
    }
    let label = arxiv.label.as_ref().unwrap();
    assert!(label.starts_with("2000 nodes instead of 169343, "), "{label}");

    // The same graph and features in binary, with fewer classes known.
    let binary = load("ogbn-papers100m", &find("ogbn-mini-bin").unwrap());
    assert_eq!(binary.edges, arxiv.edges);
    assert_eq!(binary.graph, arxiv.graph);
    assert_eq!((&binary.years, binary.unlabelled()), (&arxiv.years, 771));
    let (Features::Dense(left), Features::Dense(right)) = (&binary.features, &arxiv.features)
    else {
        panic!("both are dense")
    };
    let pairs = left.values.to_floats().into_iter().zip(right.values.to_floats());
    assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-5));
    let classes = binary.classes().unwrap().iter().zip(arxiv.classes().unwrap());
    assert!(classes.into_iter().all(|(&here, &there)| here == -1 || here == there));
    let split = binary.split("time").unwrap();
    assert_eq!(split.sizes(), [687, 227, 315]);
    let known = binary.classes().unwrap();
    assert!(split.parts().into_iter().flatten().all(|&node| known[node as usize] >= 0));

    let products = load("ogbn-products", &find("ogbn-mini-products").unwrap());
    assert!(!products.directed && products.years.is_none());
    assert_eq!(products.graph, arxiv.graph);
    assert_eq!(products.split("sales_ranking").unwrap().sizes(), [160, 40, 1800]);
}

#[test]
fn proteins_have_labels_species_and_features_of_arcs() {
    let Some(folder) = find("ogbn-mini-proteins") else { return };
    let set = load("ogbn-proteins", &folder);
    assert_eq!((set.task.target, &set.features), (Target::Labels(12), &Features::None));
    let mut positives = vec![0.0; 12];
    for (at, x) in set.y.to_floats().into_iter().enumerate() {
        positives[at % 12] += x;
    }
    let known = [466., 990., 797., 645., 440., 1125., 698., 604., 1206., 783., 592., 207.];
    assert_eq!(positives, known);
    let attributes = set.edge_attr.as_ref().unwrap();
    assert_eq!((attributes.width, attributes.values.len()), (8, 10_132 * 8));
    let sum: f64 = attributes.values.to_floats().iter().map(|&x| f64::from(x)).sum();
    assert!((sum - 16_188.346).abs() < 1e-2, "{sum}");
    let (species, split) = (set.species.as_ref().unwrap(), set.split("species").unwrap());
    assert_eq!(split.sizes(), [1500, 250, 250]);
    let of = |nodes: &[u32], kind: i64| nodes.iter().all(|&node| species[node as usize] == kind);
    assert!(of(&split.val, 10_090) && of(&split.test, 511_145));
    assert!(set.split("random-0").unwrap_err().to_string().contains("no split `random-0`"));
}

#[test]
fn years_of_arxiv_are_classes() {
    let Some(folder) = find("ogbn-mini") else { return };
    let set = load("arxiv-year", &folder);
    // By numpy.nanquantile.
    assert_eq!((set.histogram(), checksum(&set)), (vec![337, 226, 565, 356, 516], 6_500_290));
    assert_eq!(set.splits.len(), 5);
    assert!(set.splits.iter().all(|split| split.sizes() == [1000, 500, 500]));
    assert_ne!(set.splits[0].blake3, set.splits[1].blake3);
    assert_eq!(set.split("half-3").unwrap(), set.splits[3]);
}

/// A set written into files of its own comes back, whatever order its edges are in.
#[test]
fn parts_in_files_of_their_own_are_the_same_set() {
    let Some(folder) = find("ogbn-mini") else { return };
    let set = load("ogbn-arxiv", &folder);
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let mut arcs: Vec<(u32, u32)> =
        set.edges.sources.iter().copied().zip(set.edges.targets.iter().copied()).collect();
    // Without the edges of node 0, which leaves a gap in the ids.
    arcs.retain(|&(u, v)| u != 0 && v != 0);
    Seed(0).stream("test", 0, 0).shuffle(&mut arcs);
    let Features::Dense(features) = &set.features else { panic!() };
    let rows = features.values.to_floats();
    let row = |row: &[f32]| row.iter().map(f32::to_string).collect::<Vec<_>>().join(",") + "\n";
    let own = Own {
        edges: write("edges.txt", arcs.iter().map(|(u, v)| format!("{u}\t{v}\n")).collect()),
        directed: true,
        features: Some(write("x.csv", rows.chunks(16).map(row).collect())),
        targets: write("y.txt", set.classes().unwrap().iter().map(|y| format!("{y}\n")).collect()),
        splits: vec![write("time.json", set.split("time").unwrap().to_json())],
    };
    let again = nodes::load_own(&own, LIMIT).unwrap();
    assert_eq!(again.num_nodes(), 2000);
    assert_eq!((&again.y, &again.features), (&set.y, &set.features));
    assert_eq!(again.splits, set.splits);
    let edges: Vec<_> = set.graph.edges().filter(|&(u, _, _)| u != 0).collect();
    assert_eq!(again.graph.edges().collect::<Vec<_>>(), edges);
    assert_eq!(again.graph.degree(0), 0);
}

/// Small folders, each file damaged in many ways.
#[test]
fn damaged_folders_never_panic() {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        ("raw/edge.csv", "0,1\n1,2\n2,3\n"),
        ("raw/num-node-list.csv", "4\n"),
        ("raw/num-edge-list.csv", "3\n"),
        ("raw/node-feat.csv", "0.5,1\n1,2\n3,4\n5,6\n"),
        ("raw/edge-feat.csv", "1\n2\n3\n"),
        ("raw/node-label.csv", "0\n1\nnan\n1\n"),
        ("raw/node_year.csv", "2010\n2011\n2012\n2013\n"),
        ("split/time/train.csv", "0\n3\n"),
        ("split/time/valid.csv", "1\n"),
        ("split/time/test.csv", "2\n"),
    ];
    for inner in ["raw", "split/time"] {
        std::fs::create_dir_all(folder.path().join(inner)).unwrap();
    }
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let load = || nodes::load_ogb(folder.path(), true, MemoryLimit(64 << 20));
    let set = load().unwrap();
    assert_eq!((set.num_nodes(), set.histogram()), (4, vec![1, 2]));
    let mut stream = Seed(3).stream("mutate", 0, 0);
    for (name, text) in files {
        let mut accepted = 0;
        for _ in 0..200 {
            let mut bad = text.as_bytes().to_vec();
            crate::mutations::mutate(&mut bad, &mut stream);
            std::fs::write(folder.path().join(name), bad).unwrap();
            accepted += usize::from(load().is_ok());
        }
        assert!(accepted < 180, "{name}: {accepted} of 200 are still sets");
        std::fs::write(folder.path().join(name), text).unwrap();
    }
}
