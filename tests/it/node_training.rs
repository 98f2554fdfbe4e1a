//! Training on the nodes of one graph: it learns, repeats itself, goes on after any stop, and does not depend on how
//! nodes are numbered or dealt to batches.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hdse::MemoryLimit;
use hdse::config::Config;
use hdse::data::nodes::{self, Features, NodeSet, Own, Split};
use hdse::data::sets::LoadOptions;
use hdse::data::{Matrix, Values};
use hdse::monitor::Monitor;
use hdse::nn::fused::Team;
use hdse::nn::{Clusters, Model, Pass};
use hdse::rng::Seed;
use hdse::train::directory::{EpochLine, Outcome};
use hdse::train::examples::{Batches as _, Epoch, Part};
use hdse::train::nodes::NodeGraph;
use hdse::train::run::{Setting, evaluate, rehearse, train};
use proptest::prelude::*;

use crate::support::find;

pub const CONFIG: &str = r#"
hierarchy.coarsener = "louvain"

[data]
set = "mine"
nodes = { edges = "edges.txt", features = "x.csv", targets = "y.txt", splits = ["0.json", "1.json"] }
split = "{seed}"

[model]
backbone = "goat"
layers = 1
dim = 8
heads = 2
dropout = 0.2
attention_dropout = 0.2
local = "gcn"
branch = { layers = 2 }
node = { linear = 4 }
pool = "none"
head = { plain = 1 }
outputs = 3
max_distance = 8

[train]
epochs = 12
loss = "cross-entropy"
metric = "accuracy"
optimizer = { name = "adam", weight_decay = 5e-4 }
schedule = { name = "constant", rate = 1e-2 }
"#;

/// Attention over sampled neighbours, with vectors of random walks.
const SAMPLED: [&str; 4] = [
    "model.local={sampled=[3,2]}",
    "model.branch={}",
    "model.clusters={count=30}",
    "model.encoding={node2vec={dim=6,walk_length=8,context=4,walks=2,epochs=2}}",
];

/// Nodes of [`write_set`].
pub const NODES: u32 = 90;

/// Three communities with noisy features in files of their own, a few classes unknown, two splits.
pub fn write_set(folder: &Path) {
    let mut stream = Seed(0).stream("nodes", 0, 0);
    let class = |node: u32| node % 3;
    let mut edges = String::new();
    for u in 0..NODES {
        for v in 0..u {
            let chance = if class(u) == class(v) { 0.2 } else { 0.01 };
            if stream.unit() < chance {
                edges += &format!("{u} {v}\n");
            }
        }
    }
    let (mut features, mut targets) = (String::new(), String::new());
    for node in 0..NODES {
        let number = |stream: &mut hdse::rng::Stream, i: u32| {
            stream.unit() + if i == class(node) { 0.6 } else { 0.0 }
        };
        let row: Vec<String> = (0..4).map(|i| format!("{:.3}", number(&mut stream, i))).collect();
        features += &format!("{}\n", row.join(","));
        let known = if node % 29 == 28 { -1 } else { i64::from(class(node)) };
        targets += &format!("{known}\n");
    }
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("edges.txt", &edges);
    write("x.csv", &features);
    write("y.txt", &targets);
    for shift in 0..2 {
        let part = |from: u32, to: u32| {
            (0..NODES).filter(|node| (from..to).contains(&((node / 3 + shift) % 10))).collect()
        };
        let parts: [Vec<u32>; 3] = [part(0, 3), part(3, 5), part(5, 10)];
        let split = Split::new(shift.to_string(), parts, NODES as usize).unwrap();
        write(&format!("{shift}.json"), &split.to_json());
    }
}

fn config(changes: &[&str]) -> Config {
    let changes: Vec<String> = changes.iter().map(|change| change.to_string()).collect();
    Config::parse(CONFIG, "test", &changes).unwrap()
}

fn set() -> NodeSet {
    let folder = tempfile::tempdir().unwrap();
    write_set(folder.path());
    let own: &Own = &config(&[]).data.nodes.unwrap();
    nodes::load_own(&own.inside(folder.path()), MemoryLimit::NONE).unwrap()
}

fn graph(config: &Config) -> NodeGraph {
    NodeGraph::new(config, set(), None, MemoryLimit::NONE, &()).unwrap()
}

/// Asks to stop after so many batches.
struct StopAfter(AtomicU64);

impl Monitor for StopAfter {
    fn advance(&self, done: u64) {
        self.0.fetch_sub(done.min(self.0.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    fn stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

fn run(
    config: &Config,
    graph: &NodeGraph,
    directory: &Path,
    threads: usize,
    monitor: &dyn Monitor,
) -> (hdse::Result<Outcome>, Vec<EpochLine>) {
    let mut lines = Vec::new();
    let mut setting = Setting {
        directory,
        hash: "test",
        limit: MemoryLimit::NONE,
        team: &Arc::new(Team::new(threads).unwrap()),
        monitor,
        report: &mut |line| lines.push(line.clone()),
    };
    let examples = graph.of_seed(1).unwrap();
    rehearse(config, &examples, MemoryLimit::NONE).unwrap();
    let outcome = train(config, &examples, 1, &mut setting);
    (outcome, lines)
}

/// The files of a finished run that must not depend on how it came about.
fn files(directory: &Path) -> Vec<Vec<u8>> {
    let read = |name: &str| std::fs::read(directory.join("seed-1").join(name)).unwrap();
    ["metrics.jsonl", "last.safetensors", "best.safetensors", "result.json"].map(read).to_vec()
}

#[test]
fn equal_seeds_give_equal_bytes_and_stops_change_nothing() {
    let sampled = [&SAMPLED[..], &["train.batch_size=9"]].concat();
    for changes in [&[][..], &["train.batch_size=20", "train.eval_batch_size=40"], &sampled] {
        let config = config(&[&["train.epochs=30", "train.eval_every=2"], changes].concat());
        let graph = graph(&config);
        let folder = tempfile::tempdir().unwrap();
        let whole = folder.path().join("whole");
        let (outcome, lines) = run(&config, &graph, &whole, 1, &());
        let outcome = outcome.unwrap();
        assert!(outcome.test_metric > 0.7, "{outcome:?}");
        assert!(lines[29].train_loss < 0.7 * lines[0].train_loss, "{lines:?}");
        let evaluated: Vec<u64> =
            lines.iter().filter(|line| line.val_metric.is_some()).map(|line| line.epoch).collect();
        assert_eq!(evaluated, (0..30).skip(1).step_by(2).collect::<Vec<_>>());

        let by = folder.path().join("by-2");
        run(&config, &graph, &by, 2, &()).0.unwrap();
        assert!(files(&by) == files(&whole), "the same bytes by two threads");

        let stopped = folder.path().join("stopped");
        let mut stops = 0;
        let resumed = loop {
            match run(&config, &graph, &stopped, 1, &StopAfter(7.into())).0 {
                Ok(outcome) => break outcome,
                Err(error) => assert!(error.is_interrupted(), "{error:#}"),
            }
            stops += 1;
        };
        assert!(stops >= 4, "{stops}");
        assert_eq!(resumed, outcome);
        assert!(files(&stopped) == files(&whole), "the same bytes");
    }
}

#[test]
fn every_epoch_deals_all_nodes_to_batches() {
    let config = config(&["train.batch_size=7"]);
    let graph = graph(&config);
    let examples = graph.of_seed(0).unwrap();
    let epoch = |number: u64, first: u64| {
        let settings = &config.train;
        let epoch = Epoch { settings, fused: false, seed: Seed(0), number };
        let mut batches = Vec::new();
        let mut collect = |batch: &hdse::nn::Batch, goal: &hdse::train::examples::Goal| {
            assert!(!goal.targets.is_empty());
            let clusters = batch.clusters.as_ref().unwrap();
            assert!(clusters.nodes().of_row().is_sorted(), "clusters are contiguous");
            batches.push((batch.ids.as_ref().unwrap().to_vec(), goal.targets.clone()));
            Ok(())
        };
        examples.epoch(&epoch, first, &mut collect).unwrap();
        batches
    };
    let batches = epoch(3, 0);
    assert_eq!(batches, epoch(3, 0));
    assert_ne!(batches, epoch(4, 0));
    assert_eq!(batches[5..], epoch(3, 5)[..]);
    let mut nodes: Vec<u32> = batches.iter().flat_map(|(nodes, _)| nodes.clone()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    assert_eq!(nodes.len(), batches.iter().map(|(nodes, _)| nodes.len()).sum::<usize>());
    // Every training node with a class has its turn.
    let targets: usize = batches.iter().map(|(_, targets)| targets.len()).sum();
    let parts = examples.parts();
    assert_eq!(targets, parts.iter().filter(|part| **part == Some(Part::Train)).count());
    assert!(parts.contains(&None), "nodes of unknown class are not scored");
}

#[test]
fn networks_that_do_not_look_at_other_nodes_of_a_batch_do_not_depend_on_batches() {
    let evaluation = |changes: &[&str]| {
        let config = config(changes);
        let graph = graph(&config);
        let model = Model::new(&config.model, Seed(3)).unwrap();
        let setting = Setting {
            directory: Path::new(""),
            hash: "",
            limit: MemoryLimit::NONE,
            team: &Arc::default(),
            monitor: &(),
            report: &mut |_| {},
        };
        let examples = graph.of_seed(0).unwrap();
        let found = evaluate(&config, &model, &examples, Part::Test, &setting).unwrap();
        let pass = || Ok(Pass::eval(&model.parameters));
        let predictions = examples.predict(&config.train, &*model.backbone, pass).unwrap();
        (found, predictions)
    };
    for changes in [&["model.backbone=mlp"][..], &SAMPLED] {
        let (whole, predictions) = evaluation(changes);
        for size in ["1", "7", "89", "90", "1000"] {
            let size = format!("train.eval_batch_size={size}");
            let (found, numbers) = evaluation(&[changes, &[&size]].concat());
            assert!((found.loss - whole.loss).abs() < 1e-5, "{size}");
            assert_eq!(found.metric, whole.metric, "{size}");
            let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-5;
            assert!(numbers.iter().zip(&predictions).all(near), "{size}");
        }
    }
}

/// The same set with node `i` called `names[i]`.
fn relabelled(set: &NodeSet, names: &[u32]) -> NodeSet {
    let moved = |nodes: &[u32]| nodes.iter().map(|&node| names[node as usize]).collect::<Vec<_>>();
    let mut other = set.clone();
    other.edges.sources = moved(&set.edges.sources);
    other.edges.targets = moved(&set.edges.targets);
    let ends = other.edges.sources.iter().copied().zip(other.edges.targets.iter().copied());
    let pairs: Vec<(u32, u32)> = ends.collect();
    other.graph = Arc::new(hdse::Graph::from_pairs(names.len(), &pairs).unwrap().0);
    let Features::Dense(matrix) = &set.features else { panic!("dense") };
    let (width, old) = (matrix.width, matrix.values.to_floats());
    let mut values = vec![0.0; old.len()];
    let mut classes = vec![0; names.len()];
    for (node, &name) in names.iter().enumerate() {
        let place = name as usize * width;
        values[place..place + width].copy_from_slice(&old[node * width..][..width]);
        classes[name as usize] = set.classes().unwrap()[node];
    }
    other.features = Features::Dense(Matrix { width, values: Values::Float(values) });
    other.y = Values::Int(classes);
    let split = |split: &Split| {
        Split::new(split.name.clone(), split.parts().map(moved), names.len()).unwrap()
    };
    other.splits = set.splits.iter().map(split).collect();
    other
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn predictions_follow_the_names_of_nodes(
        seed in any::<u64>(), clusters in 1u32..9, sampled in any::<bool>()
    ) {
        // Samples of all neighbours are the same whatever these are called.
        let all = ["model.local={sampled=[90,90]}", "train.eval_batch_size=17"];
        let all = [&SAMPLED[1..3], &all].concat();
        let changes = if sampled { &all[..] } else { &[] };
        let config = config(&[&["data.split=0"], changes].concat());
        let set = set();
        let mut stream = Seed(seed).stream("names", 0, 0);
        let mut names: Vec<u32> = (0..NODES).collect();
        stream.shuffle(&mut names);
        let mut of: Vec<u32> = (0..NODES).map(|_| stream.below(clusters.into()) as u32).collect();
        // Every cluster has a node.
        (0..clusters).for_each(|cluster| of[cluster as usize] = cluster);
        let hierarchy = |set: &NodeSet, of: Vec<u32>| {
            let partition = hdse::Partition::new(of).unwrap();
            let hierarchy = hdse::Hierarchy::from_partitions(&set.graph, vec![partition]).unwrap();
            let clip = config.model.max_distance.per_level(1).unwrap();
            let limit = MemoryLimit::NONE;
            let high = hdse::distance::HighLevel::new(&set.graph, &hierarchy, 1, &clip, limit);
            Clusters::of(&high.unwrap(), 1)
        };
        let model = Model::new(&config.model, Seed(5)).unwrap();
        let predict = |set: NodeSet, of: Vec<u32>| {
            let clusters = hierarchy(&set, of);
            let graph = NodeGraph::with_clusters(&config, set, Some(clusters)).unwrap();
            let examples = graph.of_seed(0).unwrap();
            let pass = || Ok(Pass::eval(&model.parameters));
            let predictions = examples.predict(&config.train, &*model.backbone, pass).unwrap();
            let mut targets = 0.0;
            examples.part(Part::Test, &config.train, false, &mut |_, goal| {
                targets += goal.targets.to_floats().iter().sum::<f32>();
                Ok(())
            }).unwrap();
            (predictions, examples.parts(), targets)
        };
        let mut moved = vec![0; of.len()];
        names.iter().zip(&of).for_each(|(&name, &cluster)| moved[name as usize] = cluster);
        let (predictions, parts, targets) = predict(set.clone(), of);
        let (others, other_parts, other_targets) = predict(relabelled(&set, &names), moved);
        prop_assert_eq!(targets, other_targets);
        for (node, &name) in names.iter().enumerate() {
            prop_assert_eq!(parts[node], other_parts[name as usize]);
            for i in 0..3 {
                let (a, b) = (predictions[node * 3 + i], others[name as usize * 3 + i]);
                prop_assert!((a - b).abs() < 1e-4, "node {}: {} and {}", node, a, b);
            }
        }
    }
}

#[test]
fn sampled_batches_have_training_nodes_and_what_is_around_them() {
    let config = config(&[&SAMPLED[..], &["train.batch_size=7"]].concat());
    let graph = graph(&config);
    let examples = graph.of_seed(0).unwrap();
    let parts = examples.parts();
    let batches = |number: u64| {
        let epoch = Epoch { settings: &config.train, fused: false, seed: Seed(0), number };
        let mut found = Vec::new();
        let mut collect = |batch: &hdse::nn::Batch, goal: &hdse::train::examples::Goal| {
            let samples = batch.samples.as_ref().unwrap();
            let ids = batch.ids.as_ref().unwrap();
            assert_eq!((goal.targets.len(), ids.len()), (samples.targets(), samples.rows()));
            assert_eq!(batch.positions.as_ref().unwrap().values.len(), 6 * samples.targets());
            let targets = ids[..samples.targets()].to_vec();
            assert!(targets.iter().all(|&node| parts[node as usize] == Some(Part::Train)));
            let rows = samples.by_row().of_row().iter().map(|&row| ids[row as usize]);
            found.push((targets, rows.collect::<Vec<u32>>()));
            Ok(())
        };
        examples.epoch(&epoch, 0, &mut collect).unwrap();
        found
    };
    let first = batches(0);
    assert_eq!(first, batches(0));
    assert_ne!(first, batches(1));
    let mut all: Vec<u32> = first.iter().flat_map(|(targets, _)| targets.clone()).collect();
    all.sort_unstable();
    let expected = (0..NODES).filter(|&node| parts[node as usize] == Some(Part::Train));
    assert_eq!(all, expected.collect::<Vec<u32>>(), "every training node once");
    assert_eq!(examples.steps(&config.train).unwrap(), first.len() as u64);
    let elsewhere = |node: &u32| parts[*node as usize] != Some(Part::Train);
    assert!(first.iter().any(|(_, rows)| rows.iter().any(elsewhere)), "neighbours are of any part");
}

#[test]
fn arcs_have_a_direction_where_they_are_said_to() {
    let arcs = |changes: &[&str]| {
        let config = config(changes);
        let graph = graph(&config);
        let mut arcs = 0;
        let mut count = |batch: &hdse::nn::Batch, _: &hdse::train::examples::Goal| {
            arcs = batch.num_arcs();
            Ok(())
        };
        graph.of_seed(0).unwrap().part(Part::Val, &config.train, false, &mut count).unwrap();
        arcs
    };
    let set = set();
    assert_eq!(arcs(&[]), 2 * set.graph.num_edges());
    assert_eq!(arcs(&["data.directed=true"]), set.edges.sources.len());
}

#[test]
fn splits_follow_seeds() {
    let set = set();
    let name = |name: &str, seed: u64| set.split_of_seed(name, seed).map(|split| split.name);
    assert_eq!(name("{seed}", 3).unwrap(), "1");
    assert_eq!(name("half-{seed}", 3).unwrap(), "half-3");
    assert_eq!(name("0", 3).unwrap(), "0");
    assert!(name("{seed}{seed}", 0).is_err());
}

#[test]
fn cora_is_learned() {
    let Some(path) = find("planetoid") else { return };
    let options = LoadOptions { path: Some(path.into()), ..LoadOptions::default() };
    let set = nodes::by_name("cora").unwrap().load(&options).unwrap();
    let text = include_str!("../../configs/goat-cora.toml");
    let config = Config::parse(text, "cora", &["train.epochs=20".into()]).unwrap();
    let graph = NodeGraph::new(&config, set, None, MemoryLimit::NONE, &()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (outcome, lines) = run(&config, &graph, folder.path(), 2, &());
    let outcome = outcome.unwrap();
    assert!(lines[19].train_loss < 0.5 * lines[0].train_loss, "{lines:?}");
    assert!(outcome.test_metric > 0.6, "{outcome:?}");
}
