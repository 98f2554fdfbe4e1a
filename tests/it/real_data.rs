//! Real data sets, where they are at hand: `HDSE_DATA`, else ../shared/data. Absent ones are named
//! as skipped.

use crate::support::find;
use hdse::data::{GraphSet, ReadOptions, Shard, Values, read};

fn load(file: &str) -> Option<GraphSet> {
    find(file).map(|path| read(&path, &ReadOptions::default()).unwrap())
}

fn totals(set: &GraphSet) -> (usize, usize, usize) {
    let graphs = || set.samples.iter().map(|s| &s.graph);
    (
        set.samples.len(),
        graphs().map(|g| g.num_nodes()).sum(),
        set.samples.iter().map(|s| s.edges.sources.len()).sum(),
    )
}

#[test]
fn zinc_has_its_published_statistics() {
    let mut all = (0, 0, 0);
    for part in ["train", "val", "test"] {
        let Some(set) = load(&format!("zinc/{part}.parquet")) else { return };
        let (graphs, nodes, arcs) = totals(&set);
        all = (all.0 + graphs, all.1 + nodes, all.2 + arcs);
        for sample in &set.samples {
            assert_eq!(sample.repairs, Default::default());
            assert_eq!(2 * sample.graph.num_edges(), sample.edges.sources.len());
            assert_eq!(sample.node_feat.as_ref().unwrap().width, 1);
            assert!(matches!(sample.y, Some(Values::Float(ref y)) if y.len() == 1));
        }
    }
    assert_eq!(all.0, 12_000);
    assert_eq!(format!("{:.2}", all.1 as f64 / 12_000.0), "23.16");
    assert_eq!(format!("{:.2}", all.2 as f64 / 24_000.0), "24.92");
}

#[test]
fn peptides_have_their_published_statistics() {
    let mut all = (0, 0, 0);
    for part in ["train", "val", "test"] {
        let Some(set) = load(&format!("peptides-func/{part}.parquet")) else { return };
        let (graphs, nodes, arcs) = totals(&set);
        all = (all.0 + graphs, all.1 + nodes, all.2 + arcs);
        assert_eq!(set.samples[0].node_feat.as_ref().unwrap().width, 9);
        assert_eq!(set.samples[0].edge_attr.as_ref().unwrap().width, 3);
    }
    assert_eq!(all.0, 15_535);
    assert_eq!(format!("{:.2}", all.1 as f64 / 15_535.0), "150.94");
    assert_eq!(format!("{:.2}", all.2 as f64 / 15_535.0), "307.30");
}

#[test]
fn superpixel_graphs_stay_directed_in_their_arcs() {
    let Some(set) = load("mnist-superpixels/val.parquet") else { return };
    let repairs = set.repairs();
    assert!(repairs.one_way > 0);
    let sample = &set.samples[0];
    // Eight arcs leave every node, in order.
    assert_eq!(sample.edges.sources.len(), 8 * sample.graph.num_nodes());
    assert!(sample.edges.sources.chunks(8).enumerate().all(|(u, c)| c == [u as u32; 8]));
    assert!(2 * sample.graph.num_edges() > sample.edges.sources.len());
}

#[test]
fn every_parquet_set_loads() {
    for set in ["cifar10-superpixels", "pattern", "cluster"] {
        if let Some(set) = load(&format!("{set}/test.parquet")) {
            assert!(!set.samples.is_empty());
        }
    }
    if let Some(set) = load("community-small/all.parquet") {
        assert_eq!(totals(&set), (100, 1528, 7030));
    }
}

#[test]
fn shards_of_a_set_are_its_parts() {
    let Some(path) = find("zinc/test.parquet") else { return };
    let whole = read(&path, &ReadOptions::default()).unwrap();
    let mut seen = 0;
    for index in 0..7 {
        let shard = Some(Shard { index, count: 7 });
        let part = read(&path, &ReadOptions { shard, ..ReadOptions::default() }).unwrap();
        assert_eq!(part.first, seen);
        for sample in &part.samples {
            assert_eq!(sample.graph, whole.samples[seen].graph);
            seen += 1;
        }
    }
    assert_eq!(seen, whole.samples.len());
}

#[test]
fn large_edge_lists_have_their_published_counts() {
    for (file, nodes, edges, loops) in [
        ("com-dblp/dblp.csv.gz", 317_080, 1_049_866, 0),
        ("lfr/LFR_N100000_ad5_mc50_mu0.1.csv.gz", 100_000, 211_185, 1_164),
        ("lfr/LFR_N100000_ad5_mc50_mu0.3.csv.gz", 100_000, 213_774, 711),
    ] {
        let Some(set) = load(file) else { continue };
        let graph = &set.samples[0].graph;
        assert_eq!((graph.num_nodes(), graph.num_edges()), (nodes, edges), "{file}");
        assert_eq!(set.repairs().self_loops, loops, "{file}");
        assert_eq!(set.ids.is_some(), file.contains("dblp"), "{file}");
    }
}

#[test]
fn single_graphs_have_their_published_counts() {
    // Nodes, edges, self-loops.
    for (file, nodes, edges, loops) in [
        ("dimacs10/4elt.graph.gz", 15_606, 45_878, 0),
        ("dimacs10/PGPgiantcompo.graph.gz", 10_680, 24_316, 0),
        ("dimacs10/airfoil1.graph.gz", 4_253, 12_289, 0),
        ("dimacs10/astro-ph.graph.gz", 16_706, 121_251, 0),
        ("dimacs10/celegans_metabolic.graph.gz", 453, 2_025, 0),
        ("dimacs10/copter2.graph.gz", 55_476, 352_238, 0),
        ("dimacs10/delaunay_n15.graph.gz", 32_768, 98_274, 0),
        ("dimacs10/fe_4elt2.graph.gz", 11_143, 32_818, 0),
        ("dimacs10/hep-th.graph.gz", 8_361, 15_751, 0),
        ("dimacs10/jazz.graph.gz", 198, 2_742, 0),
        ("dimacs10/karate.graph.gz", 34, 78, 0),
        ("dimacs10/lesmis.graph.gz", 77, 254, 0),
        ("dimacs10/polblogs.graph.gz", 1_490, 16_715, 0),
        ("dimacs10/power.graph.gz", 4_941, 6_594, 0),
        ("dimacs10/rgg_n_2_15_s0.graph.gz", 32_768, 160_240, 0),
        ("community-graphs/karate.gml.gz", 34, 78, 0),
        ("community-graphs/dolphins.gml.gz", 62, 159, 0),
        ("community-graphs/football.gml.gz", 115, 613, 0),
        ("community-graphs/polbooks.gml.gz", 105, 441, 0),
        ("community-graphs/polblogs.gml.gz", 1_490, 16_715, 3),
        ("ogbn-mini/raw/edge.csv.gz", 2_000, 10_132, 0),
        ("ogbn-mini-products/raw/edge.csv.gz", 2_000, 10_132, 0),
        ("ogbn-mini-proteins/raw/edge.csv.gz", 2_000, 10_132, 0),
        ("ogbn-mini-bin/raw/data.npz", 2_000, 10_132, 0),
    ] {
        let Some(set) = load(file) else { continue };
        let graph = &set.samples[0].graph;
        assert_eq!((graph.num_nodes(), graph.num_edges()), (nodes, edges), "{file}");
        assert_eq!(set.repairs().self_loops, loops, "{file}");
        assert_eq!(set.repairs().duplicates, 0, "{file}");
        assert_eq!(graph.is_weighted(), file.contains("lesmis"), "{file}");
    }
    if let Some(set) = load("community-graphs/football.gml.gz") {
        let Some(Values::Int(classes)) = &set.samples[0].y else { panic!("no classes") };
        assert_eq!(classes.iter().max(), Some(&11));
    }
}

#[test]
fn heterophilous_sets_agree_with_their_expected_counts() {
    let Some(path) = find("heterophilous/expected.json") else { return };
    let expected: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for (name, expected) in expected.as_object().unwrap() {
        let Some(set) = load(&format!("heterophilous/{name}.npz")) else { continue };
        let sample = &set.samples[0];
        assert_eq!(Some(sample.graph.num_nodes() as u64), expected["num_nodes"].as_u64(), "{name}");
        assert_eq!(Some(sample.graph.num_edges() as u64), expected["edges"].as_u64(), "{name}");
        assert_eq!(
            Some(sample.node_feat.as_ref().unwrap().width as u64),
            expected["num_features"].as_u64(),
            "{name}"
        );
    }
}

#[test]
fn enzymes_have_their_published_statistics() {
    let Some(set) = load("tu-official/ENZYMES") else { return };
    assert_eq!(totals(&set), (600, 19_580, 74_564));
    assert_eq!(set.samples[0].node_feat.as_ref().unwrap().width, 18);
    let classes: std::collections::BTreeSet<String> =
        set.samples.iter().map(|s| format!("{:?}", s.y)).collect();
    assert_eq!(classes.len(), 6);
}

/// Predicted memory is within 40 % of what a run takes.
#[cfg(feature = "cli")]
#[test]
fn memory_estimates_are_near() {
    let folder = tempfile::tempdir().unwrap();
    for (file, verb) in [
        ("zinc/train.parquet", "encode -c newman"),
        ("peptides-func/val.parquet", "encode -c louvain"),
        ("com-dblp/dblp.csv.gz", "coarsen -c louvain"),
    ] {
        let Some(path) = find(file) else { continue };
        let run = |extra: &[&str]| -> serde_json::Value {
            let output = std::process::Command::new(env!("CARGO_BIN_EXE_hdse"))
                .current_dir(&folder)
                .args(verb.split(' '))
                .args([&path, "--json"])
                .args(extra)
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            serde_json::from_slice(&output.stdout).unwrap()
        };
        let predicted = run(&["--estimate"])["memory_bytes"].as_f64().unwrap();
        let taken =
            run(&["-o", &format!("{}.out", file.len())])["peak_rss_bytes"].as_f64().unwrap();
        let ratio = predicted / taken;
        println!("{file}: predicted {predicted:e}, taken {taken:e}");
        assert!((0.6..1.4).contains(&ratio), "{file}: {ratio}");
    }
}
