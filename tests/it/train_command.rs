//! `hdse train` and what works on its runs, as a user runs them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use hdse::rng::Seed;

pub fn hdse(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hdse"));
    command.args(arguments).stdin(Stdio::null());
    command
}

pub fn succeed(arguments: &[&str]) -> String {
    succeeds(&mut hdse(arguments))
}

pub fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn fail(arguments: &[&str], code: i32) -> String {
    let Output { status, stderr, .. } = hdse(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!(status.code(), Some(code), "{arguments:?}: {error}");
    error
}

/// A small experiment, and where to put its runs.
pub struct Experiment {
    _folder: tempfile::TempDir,
    pub config: String,
    path: PathBuf,
}

impl Experiment {
    pub fn new() -> Experiment {
        let folder = tempfile::tempdir().unwrap();
        let own = crate::support::checkout().join("configs/gt-community-small.toml");
        let text = std::fs::read_to_string(own).unwrap();
        let config = folder.path().join("small.toml");
        let smaller = text.replace("layers = 4", "layers = 1").replace("dim = 32", "dim = 8");
        std::fs::write(&config, smaller).unwrap();
        let path = folder.path().to_path_buf();
        Experiment { config: config.to_string_lossy().into(), path, _folder: folder }
    }

    pub fn run(&self, name: &str) -> String {
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

/// A command whose output nobody reads.
pub fn start(arguments: &[&str]) -> Child {
    hdse(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Epochs that are written down.
pub fn epochs(run: &str) -> usize {
    let lines = std::fs::read_to_string(Path::new(run).join("seed-0/metrics.jsonl"));
    lines.map_or(0, |text| text.lines().count())
}

/// Waits until something is so, or the process has ended.
pub fn wait(child: &mut Child, until: impl FnMut() -> bool) {
    wait_by(child, Duration::from_micros(500), until);
}

/// The same, looking again after every `pause`.
fn wait_by(child: &mut Child, pause: Duration, mut until: impl FnMut() -> bool) {
    while !until() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(pause);
    }
}

/// Names of files that are being written in the folder of the seed.
fn unfinished(run: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(Path::new(run).join("seed-0")) else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(".tmp")).collect()
}

#[test]
fn threads_and_kills_change_nothing() {
    let experiment = Experiment::new();
    let more = ["--set", "train.batch_size=4"];
    // Enough that no machine is through before it is killed.
    let end = "500";
    let whole = experiment.train("whole", end, &[&more[..], &["--threads", "1"]].concat());
    let threads = experiment.train("threads", end, &[&more[..], &["--threads", "2"]].concat());
    assert!(files(&threads) == files(&whole), "the same bytes for two threads");

    let killed = experiment.run("killed");
    let new = ["train", &experiment.config, "--epochs", end, "-o", &killed];
    let new = [&new[..], &more[..]].concat();
    let resume = ["train", "--resume", &killed];
    let mut stream = Seed(0).stream("kill", 0, 0);
    let (mut kill, mut half_written) = (0, 0);
    // More than twenty only if no aim at a checkpoint was good.
    while kill < 20 || half_written == 0 && kill < 60 {
        // Killed before there was a run, it starts anew.
        let exists = Path::new(&killed).join("config.toml").exists();
        let mut child = start(if exists { &resume } else { &new });
        let before = epochs(&killed);
        match kill % 4 {
            // While it starts.
            0 => {}
            // In an epoch.
            1 => wait(&mut child, || epochs(&killed) > before + 1),
            // While a checkpoint is written, which takes a moment on a fast disk: some are missed.
            2 => wait_by(&mut child, Duration::ZERO, || {
                let more = epochs(&killed).saturating_sub(before);
                more > 20 || more > 0 && !unfinished(&killed).is_empty()
            }),
            // Between the line of an epoch and its checkpoint, or soon after.
            _ => wait(&mut child, || epochs(&killed) > before),
        }
        if kill % 4 < 2 {
            std::thread::sleep(Duration::from_millis(stream.below(40)));
        }
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().code(), None, "kill {kill} came too late");
        half_written += usize::from(kill % 4 == 2 && !unfinished(&killed).is_empty());
        kill += 1;
    }
    println!("{kill} kills in {} epochs, {half_written} in a checkpoint", epochs(&killed));
    assert!(half_written > 0);
    succeed(&resume);
    assert!(files(&killed) == files(&whole), "the same bytes after {kill} kills");
    assert_eq!(unfinished(&killed), [""; 0], "what kills left half written is gone");
}

/// Where the last checkpoint is: `epoch` or `batch`.
#[cfg(unix)]
fn position(run: &str, key: &str) -> u64 {
    let bytes = std::fs::read(Path::new(run).join("seed-0/last.safetensors")).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let metadata = header["__metadata__"].as_object().unwrap().values();
    let metadata = metadata.filter_map(|text| serde_json::from_str(text.as_str()?).ok());
    let metadata: Vec<serde_json::Value> = metadata.collect();
    metadata.iter().find_map(|value| value["position"][key].as_u64()).unwrap()
}

#[cfg(unix)]
#[test]
fn stopped_within_an_epoch_it_goes_on_from_there() {
    let experiment = Experiment::new();
    let more = ["--set", "train.batch_size=1"];
    let whole = experiment.train("whole", "160", &more);
    let stopped = experiment.run("stopped");
    let new = ["train", &experiment.config, "--epochs", "160", "-o", &stopped];
    let mut arguments = [&new[..], &more[..]].concat();
    let mut stream = Seed(0).stream("stop", 0, 0);
    let mut within = 0;
    while within < 5 {
        let mut child = start(&arguments);
        let before = epochs(&stopped);
        wait(&mut child, || epochs(&stopped) > before);
        std::thread::sleep(Duration::from_millis(stream.below(20)));
        let signal = if within % 2 == 0 { libc::SIGTERM } else { libc::SIGINT };
        unsafe { libc::kill(child.id() as i32, signal) };
        assert_eq!(child.wait().unwrap().code(), Some(130), "{within} stops within epochs before");
        within += usize::from(position(&stopped, "batch") > 0);
        arguments = vec!["train", "--resume", &stopped];
    }
    let error = {
        let mut child = hdse(&arguments).stderr(Stdio::piped()).spawn().unwrap();
        let before = epochs(&stopped);
        wait(&mut child, || epochs(&stopped) > before);
        // Only one process at a time.
        let error = fail(&arguments, 2);
        assert!(error.contains("another process trains") && error.contains("-o"), "{error}");
        unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
        String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap()
    };
    assert!(error.contains(&format!("go on with `hdse train --resume {stopped}`")), "{error}");
    succeed(&arguments);
    assert!(files(&stopped) == files(&whole), "the same bytes after stops within epochs");
}

/// The command with a limit to the size of files, which fails as a full disk does: in the middle of a write.
#[cfg(unix)]
fn limited(arguments: &[&str], bytes: usize) -> Command {
    use std::os::unix::process::CommandExt as _;
    let mut command = hdse(arguments);
    let limit = move || {
        let limit = libc::rlimit { rlim_cur: bytes as _, rlim_max: bytes as _ };
        // Without the signal, the write itself fails.
        let done = unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            libc::setrlimit(libc::RLIMIT_FSIZE, &limit)
        };
        if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    unsafe { command.pre_exec(limit) };
    command
}

#[cfg(unix)]
fn fail_limited(arguments: &[&str], bytes: usize) -> String {
    let output = limited(arguments, bytes).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
    error
}

#[cfg(unix)]
#[test]
fn a_full_disk_costs_nothing_but_time() {
    let experiment = Experiment::new();
    let whole = experiment.train("whole", "40", &[]);
    let run = experiment.run("full");
    let new = ["train", &experiment.config, "--epochs", "40", "-o", &run];
    let resume = ["train", "--resume", &run];

    // Full from the start: no run yet, and the same command makes it later.
    let error = fail_limited(&new, 10);
    assert!(error.contains("cannot write") && error.contains(&run), "{error}");
    assert!(!Path::new(&run).join("config.toml").exists());
    // Then up to an epoch that is not the best so far: its line is written first.
    let lines = std::fs::read_to_string(Path::new(&whole).join("seed-0/metrics.jsonl")).unwrap();
    let lines: Vec<&str> = lines.lines().collect();
    let mut arguments = &new[..];
    let done = loop {
        let (mut child, before) = (start(arguments), epochs(&run));
        wait(&mut child, || epochs(&run) > before + 1);
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().code(), None, "the kill came too late");
        arguments = &resume;
        let done = position(&run, "epoch") as usize;
        if lines[done].contains("\"best\":false") {
            break done;
        }
    };

    let file = |name: &str| Path::new(&run).join("seed-0").join(name);
    let read =
        || ["last.safetensors", "best.safetensors"].map(|name| std::fs::read(file(name)).unwrap());
    let checkpoints = read();
    let bytes: usize = lines[..done].iter().map(|line| line.len() + 1).sum();
    // Full in the middle of a checkpoint, and in the middle of a line.
    let checkpoint = checkpoints[0].len() - 100;
    for (bytes, name) in [(checkpoint, "last.safetensors"), (bytes + 40, "metrics.jsonl")] {
        let error = fail_limited(&resume, bytes);
        assert!(error.contains("cannot write") && error.contains(name), "{error}");
        assert!(error.contains(&format!("go on with `hdse train --resume {run}`")), "{error}");
        assert!(read() == checkpoints, "checkpoints are as they were");
        assert_eq!(unfinished(&run), [""; 0]);
    }
    succeed(&resume);
    assert!(files(&run) == files(&whole), "the same bytes once there is room");

    let out = experiment.run("out.csv");
    let error = fail_limited(&["predict", &run, "community-small", "-o", &out], 1000);
    assert!(error.contains("cannot write") && error.contains("out.csv"), "{error}");
    assert!(!Path::new(&out).exists());
}

#[test]
fn what_is_in_the_way_is_named() {
    let experiment = Experiment::new();
    let whole = experiment.train("whole", "2", &[]);
    // Curves are a luxury: without them it is trained all the same.
    let run = experiment.train("run", "2", &[]);
    let seed = Path::new(&run).join("seed-0");
    std::fs::remove_dir_all(&seed).unwrap();
    std::fs::create_dir(&seed).unwrap();
    std::fs::write(seed.join("tensorboard"), "").unwrap();
    let output = hdse(&["train", "--resume", &run]).output().unwrap();
    let note = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.success() && note.contains("curves for TensorBoard are incomplete"),
        "{note}"
    );
    assert!(files(&run) == files(&whole));
    // A file where the folder of a seed should be.
    std::fs::remove_dir_all(&seed).unwrap();
    std::fs::write(&seed, "").unwrap();
    let error = fail(&["train", "--resume", &run], 1);
    assert!(error.contains("cannot make") && error.contains("seed-0"), "{error}");
    assert!(error.contains("once this is mended, go on with"), "{error}");
    // Checkpoints that are damaged, or of something else.
    std::fs::remove_file(&seed).unwrap();
    std::fs::create_dir(&seed).unwrap();
    std::fs::write(seed.join("last.safetensors"), "nonsense").unwrap();
    let error = fail(&["train", "--resume", &run], 1);
    assert!(error.contains("last.safetensors"), "{error}");
    let other = experiment.train("other", "2", &["--seed", "1"]);
    std::fs::copy(Path::new(&other).join("seed-1/last.safetensors"), seed.join("last.safetensors"))
        .unwrap();
    let error = fail(&["train", "--resume", &run], 2);
    assert!(
        error.contains("it is of another run") && error.contains("last.safetensors"),
        "{error}"
    );
}

#[test]
fn a_step_is_held_to_what_examples_leave_of_the_memory() {
    let experiment = Experiment::new();
    let four = ["--set", "model.layers=4", "--set", "model.dim=32", "--epochs", "1"];
    let train = |name: &str, memory: &'static str| {
        let out = experiment.run(name);
        [&["train", &experiment.config, "-o", &out, "--max-memory", memory][..], &four]
            .concat()
            .into_iter()
            .map(String::from)
            .collect::<Vec<_>>()
    };
    // A step takes more than half of it, examples some 240 KiB.
    let small = train("small", "600K");
    let error = fail(&small.iter().map(String::as_str).collect::<Vec<_>>(), 1);
    assert!(error.contains("the limit is") && !error.contains("600.0 KiB"), "{error}");
    let large = train("large", "2M");
    succeed(&large.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn a_run_that_diverges_says_where() {
    let experiment = Experiment::new();
    let fast = ["--set", "train.schedule={name='constant',rate=1e30}"];
    let run = experiment.run("diverged");
    let new = ["train", &experiment.config, "--epochs", "2", "-o", &run];
    let error = fail(&[&new[..], &fast].concat(), 1);
    for words in ["NaN", "step 1 (epoch 0, batch 1, training graphs ", "Lower the rate"] {
        assert!(error.contains(words), "{error}");
    }
    // With one batch per epoch, validation is the first to see it.
    let run = experiment.run("one-batch");
    let new = ["train", &experiment.config, "--epochs", "2", "-o", &run];
    let error = fail(&[&new[..], &fast, &["--set", "train.batch_size=1000"]].concat(), 1);
    for words in ["validation after step 0 (end of epoch 0)", "NaN", "lower the rate"] {
        assert!(error.contains(words), "{error}");
    }
}

#[derive(serde::Deserialize)]
struct Predictions {
    predictions: Vec<Vec<f64>>,
}

/// A table of predictions, as text.
fn predicted(run: &str, out: &str, more: &[&str]) -> Vec<Vec<String>> {
    succeed(&[&["predict", run, "community-small", "-o", out], more].concat());
    let text = std::fs::read_to_string(out).unwrap();
    text.lines().map(|line| line.split(',').map(String::from).collect()).collect()
}

#[cfg(feature = "parquet")]
fn predicted_parquet(run: &str, out: &str) -> Vec<Vec<String>> {
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::{Float32Type, UInt32Type};
    succeed(&["predict", run, "community-small", "-o", out]);
    let file = std::fs::File::open(out).unwrap();
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file);
    let batches: Vec<_> = reader.unwrap().build().unwrap().map(Result::unwrap).collect();
    let names = batches[0].schema().fields().iter().map(|field| field.name().clone()).collect();
    let mut table = vec![names];
    for batch in &batches {
        for row in 0..batch.num_rows() {
            let whole = |i| batch.column(i).as_primitive::<UInt32Type>().value(row).to_string();
            let real = |i| batch.column(i).as_primitive::<Float32Type>().value(row).to_string();
            table.push(vec![whole(0), whole(1), real(2), real(3)]);
        }
    }
    table
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
    let numbers: Vec<Vec<f64>> = lines
        .lines()
        .flat_map(|line| serde_json::from_str::<Predictions>(line).unwrap().predictions)
        .collect();
    let table = predicted(&run, &experiment.run("out.csv"), &[]);
    assert_eq!(table[0], ["graph", "node", "output_0", "output_1"]);
    assert_eq!(table.len(), 1 + numbers.len());
    for (row, expected) in table[1..].iter().zip(&numbers) {
        let found: Vec<f32> = row[2..].iter().map(|cell| cell.parse().unwrap()).collect();
        assert_eq!(found, expected.iter().map(|&value| value as f32).collect::<Vec<_>>());
    }
    let chances = predicted(&run, &experiment.run("chances.csv"), &["--probabilities"]);
    for (row, logits) in chances[1..].iter().zip(&numbers) {
        let found: Vec<f64> = row[2..].iter().map(|cell| cell.parse().unwrap()).collect();
        let expected = 1.0 / (1.0 + (logits[1] - logits[0]).exp());
        assert!((found[0] - expected).abs() < 1e-6 && (found[0] + found[1] - 1.0).abs() < 1e-6);
    }
    #[cfg(feature = "parquet")]
    assert_eq!(predicted_parquet(&run, &experiment.run("out.parquet")), table);
    fail(&["predict", &run, "community-small", "-o", &out], 2);

    succeed(&["export", &run, "--seed", "1"]);
    let model = hdse::nn::Model::open(&Path::new(&run).join("export/model.safetensors")).unwrap();
    assert_eq!(model.config.dim, 8);
    let card = std::fs::read_to_string(Path::new(&run).join("export/README.md")).unwrap();
    assert!(card.contains("gt on community-small") && card.contains("seed 1"), "{card}");
}
