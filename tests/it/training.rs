//! Runs of training: they learn, repeat themselves, and go on after any stop.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hdse::MemoryLimit;
use hdse::config::Config;
use hdse::data::{Matrix, ReadOptions, Sample, Values, read};
use hdse::monitor::Monitor;
use hdse::nn::Batch;
use hdse::nn::fused::Team;
use hdse::rng::Seed;
use hdse::train::directory::Outcome;
use hdse::train::examples::{Examples, examples};
use hdse::train::run::{Setting, train};

const CONFIG: &str = r#"
[data]
set = "community-small"

[hierarchy]
coarsener = "louvain"

[model]
backbone = "gt"
layers = 2
dim = 16
heads = 2
dropout = 0.1
attention_dropout = 0.1
node = { linear = 4 }
pool = "none"
head = { plain = 2 }
outputs = 2
max_distance = 8

[train]
epochs = 4
batch_size = 8
loss = "cross-entropy"
metric = "accuracy"
clip_norm = 1.0
up_to_swap = true
optimizer = { name = "adamw" }
schedule = { name = "cosine", rate = 5e-3, warmup = 1 }
"#;

fn config() -> Config {
    Config::parse(CONFIG, "test", &[]).unwrap()
}

/// Small graphs with random features.
fn samples(count: usize) -> Vec<Sample> {
    let mut samples = read("community-small", &ReadOptions::default()).unwrap().samples;
    for (number, sample) in samples.iter_mut().enumerate() {
        let mut stream = Seed(0).stream("features", number as u64, 0);
        let numbers = sample.graph.num_nodes() * 4;
        let values = (0..numbers).map(|_| stream.unit() as f32 - 0.5).collect();
        sample.node_feat = Some(Matrix { width: 4, values: Values::Float(values) });
    }
    samples.into_iter().step_by(100 / count).collect()
}

fn ready(config: &Config) -> Examples {
    let samples = samples(50);
    let part = |from: usize, to: usize| {
        examples(config, &samples[from..to], from, MemoryLimit::NONE, &()).unwrap()
    };
    Examples { train: part(0, 30), val: part(30, 40), test: part(40, 50) }
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

/// Asks to stop at the third look, and counts batches.
#[derive(Default)]
struct Looks {
    looks: AtomicU64,
    batches: AtomicU64,
}

impl Monitor for Looks {
    fn advance(&self, done: u64) {
        self.batches.fetch_add(done, Ordering::Relaxed);
    }

    fn stopped(&self) -> bool {
        self.looks.fetch_add(1, Ordering::Relaxed) % 3 == 2
    }
}

fn run(
    config: &Config,
    examples: &Examples,
    directory: &Path,
    monitor: &dyn Monitor,
) -> hdse::Result<Outcome> {
    run_by(1, config, examples, directory, monitor)
}

fn run_by(
    threads: usize,
    config: &Config,
    examples: &Examples,
    directory: &Path,
    monitor: &dyn Monitor,
) -> hdse::Result<Outcome> {
    let mut setting = Setting {
        directory,
        hash: "test",
        limit: MemoryLimit::NONE,
        team: &Arc::new(Team::new(threads).unwrap()),
        monitor,
        report: &mut |_| {},
    };
    train(config, examples, 1, &mut setting)
}

/// The files of a finished run that must not depend on how it came about.
fn files(directory: &Path) -> Vec<Vec<u8>> {
    let read = |name: &str| std::fs::read(directory.join("seed-1").join(name)).unwrap();
    ["metrics.jsonl", "last.safetensors", "best.safetensors", "result.json"].map(read).to_vec()
}

#[test]
fn equal_seeds_give_equal_bytes_and_stops_change_nothing() {
    let config = config();
    let examples = ready(&config);
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    let outcome = run(&config, &examples, &whole, &()).unwrap();
    assert!(outcome.test_metric > 0.5, "{outcome:?}");

    let again = folder.path().join("again");
    run(&config, &examples, &again, &()).unwrap();
    assert!(files(&again) == files(&whole), "the same bytes");

    for threads in [2, 3] {
        let by = folder.path().join(format!("by-{threads}"));
        run_by(threads, &config, &examples, &by, &()).unwrap();
        assert!(files(&by) == files(&whole), "the same bytes by {threads} threads");
    }

    // Stopped after every third batch, within and between epochs.
    let stopped = folder.path().join("stopped");
    let mut stops = 0;
    let resumed = loop {
        match run(&config, &examples, &stopped, &StopAfter(3.into())) {
            Ok(outcome) => break outcome,
            Err(error) => assert!(error.is_interrupted(), "{error:#}"),
        }
        stops += 1;
        assert!(stops < 20);
    };
    assert!(stops >= 4, "{stops}");
    assert_eq!(resumed, outcome);
    assert!(files(&stopped) == files(&whole), "the same bytes");

    // Stopped in evaluations as well, it makes no step twice: four epochs of four.
    let looked = folder.path().join("looked");
    let looks = Looks::default();
    while let Err(error) = run(&config, &examples, &looked, &looks) {
        assert!(error.is_interrupted(), "{error:#}");
        assert!(looks.looks.load(Ordering::Relaxed) < 100);
    }
    assert_eq!(looks.batches.load(Ordering::Relaxed), 16);
    assert!(files(&looked) == files(&whole), "the same bytes");

    // A finished run is not run again, and its folder not used for another.
    assert_eq!(run(&config, &examples, &stopped, &()).unwrap(), outcome);
}

#[test]
fn graphs_are_held_to_a_limit_of_all_together() {
    let (config, samples) = (config(), samples(50));
    let made = |limit: u64| examples(&config, &samples, 0, MemoryLimit(limit), &());
    let bytes: u128 = made(u64::MAX).unwrap().iter().map(Batch::bytes).sum();
    let pairs: usize = samples.iter().map(|sample| sample.graph.num_nodes().pow(2)).sum();
    assert!(bytes > 2 * pairs as u128, "two bytes a code, and more");
    assert_eq!(made(bytes as u64).unwrap().len(), 50);
    let error = made(bytes as u64 - 1).unwrap_err();
    assert!(error.is_memory(), "{error}");
    assert!(error.to_string().contains("take fewer graphs (`data.graphs`)"), "{error}");
}

#[test]
fn other_runs_checkpoints_are_refused() {
    let config = config();
    let examples = ready(&config);
    let folder = tempfile::tempdir().unwrap();
    let stop = StopAfter(2.into());
    assert!(run(&config, &examples, folder.path(), &stop).unwrap_err().is_interrupted());
    let mut setting = Setting {
        directory: folder.path(),
        hash: "another",
        limit: MemoryLimit::NONE,
        team: &Arc::default(),
        monitor: &(),
        report: &mut |_| {},
    };
    let error = format!("{:#}", train(&config, &examples, 1, &mut setting).unwrap_err());
    assert!(error.contains("another run") && error.contains("last.safetensors"), "{error}");

    // A damaged checkpoint is an error, and left as it is.
    let last = folder.path().join("seed-1/last.safetensors");
    let bytes = std::fs::read(&last).unwrap();
    std::fs::write(&last, &bytes[..bytes.len() / 2]).unwrap();
    let error = format!("{:#}", run(&config, &examples, folder.path(), &()).unwrap_err());
    assert!(error.contains("last.safetensors"), "{error}");
    assert_eq!(std::fs::read(&last).unwrap().len(), bytes.len() / 2);
}

#[test]
fn a_loss_that_is_no_number_names_step_and_graphs() {
    let config = Config::parse(CONFIG, "test", &["train.schedule.rate=1e30".into()]).unwrap();
    let examples = ready(&config);
    let folder = tempfile::tempdir().unwrap();
    let error = format!("{:#}", run(&config, &examples, folder.path(), &()).unwrap_err());
    assert!(error.contains("step") && error.contains("training graphs"), "{error}");
}
