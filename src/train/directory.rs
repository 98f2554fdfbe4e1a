//! The folder of a run: what was asked for, what came out, and how to go on.
//!
//! ```text
//! run/
//!   config.toml         the experiment, all values filled in
//!   environment.json    program, machine, command
//!   seed-0/
//!     metrics.jsonl     a line for every epoch; the same bytes for the same seed
//!     last.safetensors  checkpoint to resume from
//!     best.safetensors  checkpoint of the best epoch by validation
//!     cost.json         time and memory so far
//!     result.json       once finished
//!   seed-1/ …
//! ```

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::record::{Cost, read_json};
use crate::data::AtomicFile;
use crate::{Error, Result};

/// The folder of one seed.
#[derive(Clone, Debug)]
pub struct SeedDirectory {
    path: PathBuf,
}

/// A line of metrics.jsonl.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochLine {
    /// Number of the epoch, from 0.
    pub epoch: u64,
    /// Steps of the optimiser so far.
    pub step: u64,
    /// Learning rate of its last step.
    pub rate: f64,
    /// Mean training loss.
    pub train_loss: f64,
    /// Loss in validation, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub val_loss: Option<f64>,
    /// Metric in validation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub val_metric: Option<f64>,
    /// Whether it is the best so far.
    pub best: bool,
}

/// What a seed came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// The best epoch by validation, from 0.
    pub best_epoch: u64,
    /// Its metric in validation.
    pub val_metric: f64,
    /// Its metric on the test part, looked at once.
    pub test_metric: f64,
    /// Its loss on the test part.
    pub test_loss: f64,
    /// Number of trained parameters.
    pub parameters: usize,
    /// blake3 of the split, where a set has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
}

impl SeedDirectory {
    /// The folder of a seed, which need not be there.
    pub fn at(run: &Path, seed: u64) -> SeedDirectory {
        SeedDirectory { path: run.join(format!("seed-{seed}")) }
    }

    /// The folder of a seed, made if it is not there.
    pub fn create(run: &Path, seed: u64) -> Result<SeedDirectory> {
        let directory = SeedDirectory::at(run, seed);
        let path = &directory.path;
        fs::create_dir_all(path).map_err(|e| Error::io("cannot make", path, e))?;
        Ok(directory)
    }

    /// Removes what a killed process left half written.
    pub fn sweep(&self) {
        sweep(&self.path);
    }

    /// The checkpoint to resume from.
    pub fn last(&self) -> PathBuf {
        self.path.join("last.safetensors")
    }

    /// The checkpoint of the best epoch.
    pub fn best(&self) -> PathBuf {
        self.path.join("best.safetensors")
    }

    /// The lines so far.
    pub fn metrics(&self) -> PathBuf {
        self.path.join("metrics.jsonl")
    }

    /// Epochs so far; a line that a kill has cut short is left out.
    pub fn lines(&self) -> Result<Vec<EpochLine>> {
        let path = self.metrics();
        let Ok(text) = fs::read_to_string(&path) else { return Ok(Vec::new()) };
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let line = |(number, line): (usize, &str)| {
            serde_json::from_str(line)
                .map_err(|e| Error::data(format!("{}, line {}: {e}", path.display(), number + 1)))
        };
        whole.lines().enumerate().map(line).collect()
    }

    /// What the seed has taken so far, if that is known.
    pub fn cost(&self) -> Option<Cost> {
        read_json(&self.path.join("cost.json")).ok()
    }

    /// Writes what it has taken. A kill leaves the old or the new one; it is not worth waiting for the disk.
    pub fn write_cost(&self, cost: &Cost) -> Result<()> {
        let path = self.path.join("cost.json");
        let problem = |e| Error::io("cannot write", &path, e);
        let text = serde_json::to_string_pretty(cost)
            .map_err(|e| Error::data(format!("{}: {e}", path.display())))?;
        let beside = self.path.join(".cost.json.tmp");
        fs::write(&beside, format!("{text}\n")).map_err(problem)?;
        fs::rename(&beside, &path).map_err(problem)
    }

    /// What it came to, if it is finished.
    pub fn outcome(&self) -> Result<Option<Outcome>> {
        let path = self.path.join("result.json");
        let Ok(text) = fs::read_to_string(&path) else { return Ok(None) };
        let outcome = serde_json::from_str(&text);
        outcome.map(Some).map_err(|e| Error::data(format!("{}: {e}", path.display())))
    }

    /// Writes what it came to.
    pub fn finish(&self, outcome: &Outcome) -> Result<()> {
        write_json(&self.path.join("result.json"), outcome)
    }

    /// Appends the line of an epoch.
    pub fn append(&self, line: &EpochLine) -> Result<()> {
        let path = self.metrics();
        let problem = |e| Error::io("cannot write", &path, e);
        let text = serde_json::to_string(line)
            .map_err(|e| Error::data(format!("{}: {e}", path.display())))?;
        let mut file =
            fs::OpenOptions::new().create(true).append(true).open(&path).map_err(problem)?;
        file.write_all(format!("{text}\n").as_bytes()).map_err(problem)
    }

    /// Makes the lines as safe as the checkpoint that is about to follow them.
    pub fn sync(&self) -> Result<()> {
        let path = self.metrics();
        let Ok(file) = fs::OpenOptions::new().append(true).open(&path) else { return Ok(()) };
        file.sync_data().map_err(|e| Error::io("cannot write", &path, e))
    }

    /// Keeps the lines of complete epochs below `epochs`, as a resumed run writes the others again.
    pub fn keep(&self, epochs: u64) -> Result<()> {
        let path = self.metrics();
        let Ok(text) = fs::read_to_string(&path) else { return Ok(()) };
        let epoch =
            |line: &str| serde_json::from_str::<EpochLine>(line).map(|line| line.epoch).ok();
        let kept = text.lines().filter(|line| epoch(line).is_some_and(|epoch| epoch < epochs));
        let kept: String = kept.map(|line| format!("{line}\n")).collect();
        if kept != text {
            write_text(&path, &kept)?;
        }
        Ok(())
    }
}

/// Removes what a killed process left half written in a folder that no other one writes to.
pub fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') && name.ends_with(".tmp") {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Writes a file of JSON, all of it or nothing.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|e| Error::data(format!("{}: {e}", path.display())))?;
    write_text(path, &format!("{text}\n"))
}

/// Writes a text, all of it or nothing.
pub fn write_text(path: &Path, text: &str) -> Result<()> {
    let mut file = AtomicFile::create(path, true)?;
    file.write_all(text.as_bytes()).map_err(|e| Error::io("cannot write", path, e))?;
    file.commit()
}
