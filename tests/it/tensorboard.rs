//! Event files as TensorBoard reads them. `HDSE_PYTHON` names an interpreter that has it
//! (`pip install tensorboard`); without one the test says "skipped".

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use hdse::train::EventWriter;

/// Curves by tag, points as (time, step, value).
type Curves = BTreeMap<String, Vec<(f64, u64, f32)>>;

/// The interpreter, if it has TensorBoard.
fn interpreter() -> Option<OsString> {
    let python = std::env::var_os("HDSE_PYTHON")?;
    let has_it = Command::new(&python).args(["-c", "import tensorboard"]).output();
    has_it.is_ok_and(|output| output.status.success()).then_some(python)
}

fn read_by_tensorboard(python: &OsString, folder: &Path) -> Curves {
    let script = crate::support::checkout().join("tests/python/read_events.py");
    let output = Command::new(python).arg(script).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    println!("{}", String::from_utf8_lossy(&output.stdout));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn tensorboard_reads_a_resumed_run() {
    let Some(python) = interpreter() else {
        println!("skipped: HDSE_PYTHON names no interpreter with tensorboard");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let time = |step: u64| 1_700_000_000.25 + step as f64;
    let mut expected = Curves::new();
    let mut add = |events: &mut EventWriter, step: u64, tag: &str, value: f32, counts: bool| {
        events.scalar(time(step), step, tag, value).unwrap();
        if counts {
            expected.entry(tag.to_string()).or_default().push((time(step), step, value));
        }
    };

    // Killed after step 5, resumed from a checkpoint before step 3.
    let mut events = EventWriter::create(folder.path(), 1_700_000_000, Some("h")).unwrap();
    for step in 0..6 {
        add(&mut events, step, "train/loss", 0.1 * step as f32, step < 3);
    }
    add(&mut events, 2, "ä", f32::MIN_POSITIVE, true);
    let mut events = EventWriter::create(folder.path(), 1_700_000_000, Some("h")).unwrap();
    events.restart(time(3), 3).unwrap();
    for step in 3..2000 {
        add(&mut events, step, "train/loss", -(step as f32), true);
    }
    add(&mut events, 1 << 40, "validation/mae", f32::MAX, true);

    assert_eq!(read_by_tensorboard(&python, folder.path()), expected);
}

/// A run of the command, killed between epochs and resumed, has every epoch once.
#[cfg(feature = "cli")]
#[test]
fn tensorboard_reads_what_the_command_writes() {
    use crate::train_command::{Experiment, epochs, start, succeed, wait};
    let Some(python) = interpreter() else {
        println!("skipped: HDSE_PYTHON names no interpreter with tensorboard");
        return;
    };
    let experiment = Experiment::new();
    let run = experiment.run("run");
    let mut child = start(&["train", &experiment.config, "--epochs", "60", "-o", &run]);
    for last in [3, 9] {
        wait(&mut child, || epochs(&run) > last);
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().code(), None, "the kill came too late");
        child = start(&["train", "--resume", &run]);
    }
    assert!(child.wait().unwrap().success());
    // Once more, when there is nothing left to do.
    succeed(&["train", "--resume", &run]);

    let folder = Path::new(&run).join("seed-0");
    let curves = read_by_tensorboard(&python, &folder.join("tensorboard"));
    let lines = std::fs::read_to_string(folder.join("metrics.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let keys = [
        ("train/loss", "train_loss"),
        ("train/rate", "rate"),
        ("val/loss", "val_loss"),
        ("val/accuracy", "val_metric"),
    ];
    assert_eq!((lines.len(), curves.len()), (60, keys.len()));
    for (tag, key) in keys {
        let found: Vec<(u64, f32)> =
            curves[tag].iter().map(|&(_, step, value)| (step, value)).collect();
        let point = |line: &serde_json::Value| {
            (line["epoch"].as_u64().unwrap(), line[key].as_f64().unwrap() as f32)
        };
        assert_eq!(found, lines.iter().map(point).collect::<Vec<_>>(), "{tag}");
    }
}
