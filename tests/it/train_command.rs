//! `hdse train` and what works on its runs, as a user runs them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use hdse::rng::Seed;

fn hdse(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hdse"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn succeed(arguments: &[&str]) -> String {
    let output = hdse(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn fail(arguments: &[&str], code: i32) -> String {
    let Output { status, stderr, .. } = hdse(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!(status.code(), Some(code), "{arguments:?}: {error}");
    error
}

/// A small experiment, and where to put its runs.
struct Experiment {
    _folder: tempfile::TempDir,
    config: String,
    path: PathBuf,
}

impl Experiment {
    fn new() -> Experiment {
        let folder = tempfile::tempdir().unwrap();
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/gt-community-small.toml");
        let text = std::fs::read_to_string(own).unwrap();
        let config = folder.path().join("small.toml");
        let smaller = text.replace("layers = 4", "layers = 1").replace("dim = 32", "dim = 8");
        std::fs::write(&config, smaller).unwrap();
        let path = folder.path().to_path_buf();
        Experiment { config: config.to_string_lossy().into(), path, _folder: folder }
    }

    fn run(&self, name: &str) -> String {
        self.path.join(name).to_string_lossy().into()
    }

    fn train(&self, name: &str, epochs: &str, more: &[&str]) -> String {
        let run = self.run(name);
        succeed(&[&["train", &self.config, "--epochs", epochs, "-o", &run], more].concat());
        run
    }
}

/// The files of a run that must not depend on how it came about.
fn files(run: &str) -> Vec<Vec<u8>> {
    let read = |name: &str| std::fs::read(Path::new(run).join("seed-0").join(name)).unwrap();
    ["metrics.jsonl", "last.safetensors", "best.safetensors", "result.json"].map(read).to_vec()
}

#[test]
fn threads_and_kills_change_nothing() {
    let experiment = Experiment::new();
    let whole = experiment.train("whole", "80", &["--threads", "1"]);
    let threads = experiment.train("threads", "80", &["--threads", "2"]);
    assert!(files(&threads) == files(&whole), "the same bytes for two threads");

    let killed = experiment.run("killed");
    let mut stream = Seed(0).stream("kill", 0, 0);
    let mut arguments = vec!["train", &experiment.config, "--epochs", "80", "-o", &killed];
    let mut kills = 0;
    loop {
        let mut child =
            hdse(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(20 + stream.below(200)));
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "after {kills} kills");
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        // Killed before there was a run, it starts anew.
        if Path::new(&killed).join("config.toml").exists() {
            arguments = vec!["train", "--resume", &killed];
        }
        // An unlucky machine may never get through an epoch in that time.
        if kills == 20 {
            succeed(&arguments);
            break;
        }
    }
    println!("{kills} kills");
    assert!(kills > 0);
    assert!(files(&killed) == files(&whole), "the same bytes after {kills} kills");
}

#[test]
fn a_run_can_be_evaluated_used_and_given_away() {
    let experiment = Experiment::new();
    let run = experiment.train("run", "4", &["--seeds", "2"]);
    let found: serde_json::Value =
        serde_json::from_str(&succeed(&["eval", &run, "--json"])).unwrap();
    let result = std::fs::read(Path::new(&run).join("seed-1/result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_slice(&result).unwrap();
    assert_eq!(found["rows"][1]["metric"], result["test_metric"]);
    assert_eq!(found["rows"][1]["seed"], 1);

    let out = experiment.run("out.jsonl");
    succeed(&["predict", &run, "community-small", "-o", &out]);
    let lines = std::fs::read_to_string(&out).unwrap();
    assert_eq!(lines.lines().count(), 100);
    let line: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert!(line["predictions"].as_array().unwrap().len() >= 12);
    fail(&["predict", &run, "community-small", "-o", &out], 2);

    succeed(&["export", &run, "--seed", "1"]);
    let model = hdse::nn::Model::open(&Path::new(&run).join("export/model.safetensors")).unwrap();
    assert_eq!(model.config.dim, 8);
    let card = std::fs::read_to_string(Path::new(&run).join("export/README.md")).unwrap();
    assert!(card.contains("gt on community-small") && card.contains("seed 1"), "{card}");
}

#[test]
fn mistakes_are_named() {
    let experiment = Experiment::new();
    let run = experiment.train("run", "1", &[]);
    let config = experiment.config.as_str();
    let nowhere = experiment.run("nowhere");
    let missing = experiment.run("missing.toml");
    let file = experiment.run("small.toml");
    let under_file = format!("{file}/run");
    for (arguments, code, words) in [
        (vec!["train", config, "-o", &run], 2, "holds a run already"),
        (vec!["train", &missing], 1, "missing.toml"),
        (vec!["train", "--resume", &nowhere], 1, "is no run to resume"),
        (
            vec!["train", config, "-o", &nowhere, "--set", "model.layer=2"],
            2,
            "did you mean `layers`?",
        ),
        (
            vec!["train", config, "-o", &nowhere, "--set", "data.set=zink"],
            2,
            "did you mean `zinc`?",
        ),
        (vec!["train", config, "-o", &nowhere, "--set", "model.node={linear=3}"], 1, "3 column(s)"),
        (
            vec!["train", config, "-o", &nowhere, "--set", "hierarchy.coarsener=luvain"],
            2,
            "louvain",
        ),
        (vec!["train", config, "-o", &nowhere, "--set", "train.loss=l2"], 2, "`l1`"),
        (vec!["train", config, "-o", &nowhere, "--set", "train.metric=acuracy"], 2, "accuracy"),
        (vec!["train", config, "-o", &nowhere, "--set", "train.batch_size=0"], 2, "batch_size"),
        (vec!["train", config, "-o", &nowhere, "--set", "dim"], 2, "has no value"),
        (vec!["train", config, "-o", &under_file], 1, "cannot make"),
        (vec!["eval", &nowhere], 1, "is no run"),
        (vec!["predict", &run, &missing, "-o", &nowhere], 2, "missing.toml"),
        (vec!["predict", &run, "community-small", "-o", &nowhere, "--seed", "7"], 2, "seed 7"),
    ] {
        let error = fail(&arguments, code);
        assert!(error.contains(words), "{arguments:?}: {error}");
        assert!(!Path::new(&nowhere).exists(), "{arguments:?} leaves nothing behind");
    }
}
