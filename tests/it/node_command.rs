//! `hdse train` and what works on its runs, for the nodes of one graph.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::node_training::{CONFIG, NODES, write_set};
use super::train_command::{epochs, fail, hdse, start, succeed, succeeds, wait};
use crate::support::find;

struct Experiment {
    _folder: tempfile::TempDir,
    config: String,
    path: PathBuf,
}

impl Experiment {
    fn new() -> Experiment {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_path_buf();
        write_set(&path);
        let config = path.join("nodes.toml");
        let place = format!("[data]\npath = {:?}", path.display().to_string());
        std::fs::write(&config, CONFIG.replace("[data]", &place)).unwrap();
        Experiment { config: config.to_string_lossy().into(), path, _folder: folder }
    }

    fn run(&self, name: &str) -> String {
        self.path.join(name).to_string_lossy().into()
    }

    fn train(&self, name: &str, more: &[&str]) -> String {
        let run = self.run(name);
        succeed(&[&["train", &self.config, "-o", &run], more].concat());
        run
    }
}

fn files(run: &str) -> Vec<Vec<u8>> {
    let read = |name: &str| std::fs::read(Path::new(run).join("seed-0").join(name)).unwrap();
    ["metrics.jsonl", "last.safetensors", "best.safetensors", "result.json"].map(read).to_vec()
}

#[test]
fn a_run_can_be_evaluated_and_used() {
    let experiment = Experiment::new();
    let run = experiment.train("run", &["--seeds", "2"]);
    let found: serde_json::Value =
        serde_json::from_str(&succeed(&["eval", &run, "--json"])).unwrap();
    for seed in [0, 1] {
        let result = std::fs::read(Path::new(&run).join(format!("seed-{seed}/result.json")));
        let result: serde_json::Value = serde_json::from_slice(&result.unwrap()).unwrap();
        assert_eq!(found["rows"][seed]["metric"], result["test_metric"]);
    }
    let out = experiment.run("out.csv");
    let said = succeed(&["predict", &run, "-o", &out, "--probabilities"]);
    assert_eq!(said, format!("wrote {out}: predictions of {NODES} nodes\n"));
    let text = std::fs::read_to_string(&out).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows[0], ["node", "part", "class", "score"]);
    assert_eq!(rows.len(), 1 + NODES as usize);
    // Accuracy, as it was reported: of nodes of known class, which follow their numbers.
    let test = rows[1..].iter().filter(|row| row[1] == "test");
    let test: Vec<bool> = test
        .map(|row| row[0].parse::<u32>().unwrap() % 3 == row[2].parse::<u32>().unwrap())
        .collect();
    let right = test.iter().filter(|right| **right).count() as f64 / test.len() as f64;
    assert!((right - found["rows"][0]["metric"].as_f64().unwrap()).abs() < 1e-6);
    assert!(rows[1..].iter().any(|row| row[1].is_empty()), "unknown classes are in no part");
    let scores = rows[1..].iter().map(|row| row[3].parse::<f64>().unwrap());
    assert!(scores.clone().all(|score| (1.0 / 3.0..=1.0).contains(&score)));
    let out = experiment.run("out.jsonl");
    succeed(&["predict", &run, "-o", &out, "--seed", "1"]);
    let line = std::fs::read_to_string(&out).unwrap().lines().next().unwrap().to_string();
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!((line["node"].as_u64(), line["part"].as_str()), (Some(0), Some("train")));
    let error = fail(&["predict", &run, "community-small", "-o", &experiment.run("x")], 2);
    assert!(error.contains("one graph, mine; leave it out"), "{error}");
    succeed(&["export", &run]);
}

#[test]
fn kills_change_nothing() {
    let experiment = Experiment::new();
    let more = ["--epochs", "400"];
    let whole = experiment.train("whole", &more);
    let killed = experiment.run("killed");
    let new = [&["train", &experiment.config, "-o", &killed], &more[..]].concat();
    let resume = ["train", "--resume", &killed];
    for kill in 0..6 {
        let exists = Path::new(&killed).join("config.toml").exists();
        let mut child = start(if exists { &resume } else { &new });
        let before = epochs(&killed);
        wait(&mut child, || epochs(&killed) > before + 2 * kill);
        std::thread::sleep(Duration::from_millis(kill as u64));
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().code(), None, "kill {kill} came too late");
    }
    assert!(epochs(&killed) < 400, "all kills came before the end");
    succeed(&resume);
    assert!(files(&killed) == files(&whole), "the same bytes after kills");
}

#[test]
fn arxiv_year_trains_as_released() {
    let Some(mini) = find("ogbn-mini") else { return };
    let preset = crate::support::checkout().join("configs/reference/goat-arxiv-year.toml");
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run").to_string_lossy().into_owned();
    let path = format!("data.path={mini:?}");
    let preset = preset.to_string_lossy();
    let mut arguments = vec!["train", &*preset, "-o", &run, "--epochs", "6"];
    // Fewer dimensions, clusters and walks: the set has 2,000 nodes with 16 features.
    for change in [
        &path[..],
        "hierarchy.coarsener=louvain",
        "model.node={linear=16}",
        "model.dim=16",
        "model.clusters={count=200}",
        "model.encoding={node2vec={dim=8,walk_length=20,context=5,walks=2,epochs=1}}",
        "train.batch_size=250",
        "train.eval_every=2",
    ] {
        arguments.extend(["--set", change]);
    }
    let home = folder.path().join("home");
    let succeed = |arguments: &[&str]| succeeds(hdse(arguments).env("HDSE_HOME", &home));
    let vectors = || {
        let info: serde_json::Value =
            serde_json::from_str(&succeed(&["store", "info", "--json"])).unwrap();
        info["vectors"].clone()
    };
    succeed(&arguments);
    let kept = serde_json::json!({"files": 1, "bytes": 32 + 4 * 8 * 2_000});
    assert_eq!(vectors(), kept);
    let metrics = std::fs::read_to_string(Path::new(&run).join("seed-0/metrics.jsonl")).unwrap();
    let losses: Vec<f64> = metrics
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|line| line["train_loss"].as_f64().unwrap())
        .collect();
    assert_eq!(losses.len(), 6);
    assert!(losses[5] < losses[0], "{losses:?}");
    let found: serde_json::Value =
        serde_json::from_str(&succeed(&["eval", &run, "--json"])).unwrap();
    let result = std::fs::read(Path::new(&run).join("seed-0/result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_slice(&result).unwrap();
    assert_eq!(found["rows"][0]["metric"], result["test_metric"]);
    let out = folder.path().join("nodes.csv").to_string_lossy().into_owned();
    succeed(&["predict", &run, "-o", &out]);
    assert_eq!(std::fs::read_to_string(&out).unwrap().lines().count(), 2_001);
    assert_eq!(vectors(), kept, "evaluation and prediction have found them");
    succeed(&["store", "clean", "--all"]);
    assert_eq!(vectors()["files"], 0);
}

#[test]
fn mistakes_are_explained() {
    let experiment = Experiment::new();
    let fails = |changes: &[&str], code: i32, words: &[&str]| {
        let run = experiment.run("new");
        let mut arguments = vec!["train", &experiment.config, "-o", &run];
        changes.iter().for_each(|change| arguments.extend(["--set", change]));
        let error = fail(&arguments, code);
        for words in words {
            assert!(error.contains(words), "{changes:?}: {words}: {error}");
        }
        assert!(!Path::new(&run).exists(), "{changes:?} left a folder");
    };
    fails(&["model.outputs=4"], 2, &["nodes.toml", "`model.outputs` is 4", "take 3"]);
    fails(&["model.node={linear=5}"], 2, &["`model.node`", "write { linear = 4 }"]);
    fails(&["data.split=public"], 2, &["`data.split`", "no split `public`", "splits: 0, 1"]);
    fails(&["data.nodes.edges=none.txt"], 2, &["no file", "none.txt"]);
    fails(&["data.nodes.edge=none.txt"], 2, &["unknown field `edge`", "did you mean `edges`?"]);
    fails(&["train.batch_size=0"], 2, &["`train.batch_size` is 0"]);
    fails(&["train.eval_every=0"], 2, &["`train.eval_every` is 0"]);
    fails(&["train.loss=l1"], 2, &["`train.loss` is l1", "take cross-entropy"]);
    fails(&["train.up_to_swap=true", "model.outputs=2"], 2, &["`model.outputs` is 2"]);
    fails(&["model.encoding={rwse={steps=4}}"], 2, &["encoding"]);
    fails(&["model.encoding={node2vec={}}"], 2, &["add `local = { sampled = [20, 10, 5] }`"]);
    let sampled = ["model.local={sampled=[3,2]}", "model.branch={}", "model.clusters={count=1}"];
    fails(&sampled, 2, &["`clusters.count` is 1, but the coarsener made"]);
    fails(&["model.local={sampled=[0]}"], 2, &["`local.sampled` is [0]", "such as [20, 10, 5]"]);
    let absent = ["data.set=ogbn-products", "data.path=/nowhere"];
    let nodes = "data.nodes={edges='e',targets='t'}";
    fails(&[&absent[..], &[nodes]].concat(), 1, &["/nowhere/t"]);

    // A set that is known by name: what files, where, from where.
    let text = std::fs::read_to_string(&experiment.config).unwrap();
    let own =
        text.lines().filter(|line| !line.starts_with("nodes =") && !line.starts_with("path ="));
    let named = experiment.run("named.toml");
    let own: Vec<&str> = own.collect();
    std::fs::write(&named, own.join("\n").replace("\"mine\"", "\"ogbn-products\"")).unwrap();
    let set = "data.path='/nowhere'";
    let error = fail(&["train", &named, "-o", &experiment.run("new"), "--set", set], 2);
    for words in ["set `ogbn-products`", "raw/ and split/", "in ogbn-products/ inside", "https://"]
    {
        assert!(error.contains(words), "{words}: {error}");
    }

    // Keys of nodes with a set of graphs.
    let small = crate::support::checkout().join("configs/gt-community-small.toml");
    let small = small.to_string_lossy();
    for (change, words) in [
        ("data.split=0", "key `data.split` is about the nodes of one graph"),
        ("train.eval_batch_size=8", "key `train.eval_batch_size` is about the nodes of one graph"),
        ("model.local={sampled=[3]}", "`local.sampled` is for the backbone goat"),
        ("model.encoding={node2vec={}}", "`encoding.node2vec` is for goat with sampled neighbours"),
    ] {
        let run = experiment.run("new");
        let error = fail(&["train", &small, "-o", &run, "--set", change], 2);
        assert!(error.contains(words), "{error}");
    }
    let text = std::fs::read_to_string(&*small).unwrap().replace("batch_size = 16\n", "");
    let without = experiment.run("small.toml");
    std::fs::write(&without, text).unwrap();
    let error = fail(&["train", &without, "-o", &experiment.run("new")], 2);
    assert!(error.contains("`train.batch_size` is missing; say how many graphs"), "{error}");
}
