//! What the folder of a run says of itself, for whoever goes on with it or reports on it.
//!
//! | file | holds |
//! |---|---|
//! | `config.toml` | the experiment; what makes a folder a run |
//! | `seeds.json` | [`Seeds`] that were asked for |
//! | `data.json` | [`DataRecord`]: hash and label of the data |
//! | `environment.json` | [`Environment`]: program, machine, command |
//! | `seed-N/cost.json` | [`Cost`]: time and memory so far |
//!
//! Lines of epochs and results are in [`directory`](super::directory).

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::directory::{EpochLine, Outcome, SeedDirectory, write_json, write_text};
use super::environment::Environment;
use crate::config::Config;
use crate::{Error, Result};

/// Seeds of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seeds {
    /// The first.
    pub first: u64,
    /// How many.
    pub count: u64,
}

impl Seeds {
    /// One after another.
    pub fn all(&self) -> impl Iterator<Item = u64> + use<> {
        self.first..self.first.saturating_add(self.count)
    }
}

/// What was trained on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataRecord {
    /// blake3 of everything that was read.
    pub hash: String,
    /// In what it differs from the official set.
    pub label: Option<String>,
}

impl DataRecord {
    /// That of a run directory.
    pub fn read(directory: &Path) -> Result<DataRecord> {
        read_json(&directory.join("data.json"))
    }

    /// Refuses data that a run was not begun with.
    pub fn check(&self, directory: &Path) -> Result<()> {
        if DataRecord::read(directory)?.hash == self.hash {
            return Ok(());
        }
        Err(Error::data(format!(
            "the data has changed since {} was begun; restore it, or begin a new run",
            directory.display()
        )))
    }
}

/// What a seed has taken so far, stretches that were lost to kills aside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Epochs that were trained and evaluated.
    pub epochs: u64,
    /// Seconds of them.
    pub seconds: f64,
    /// Processor seconds of them, where one thread did all the work and the system tells.
    pub cpu_seconds: Option<f64>,
    /// Threads that did the work.
    pub threads: usize,
    /// The most memory that the process had, with whatever else it did.
    pub peak_bytes: Option<u64>,
}

/// A run as it was read.
#[derive(Clone, Debug)]
pub struct Record {
    /// Name of its folder.
    pub name: String,
    /// The experiment.
    pub config: Config,
    /// What was trained on.
    pub data: DataRecord,
    /// Seeds that were asked for.
    pub seeds: Vec<SeedRecord>,
}

/// A seed of a run; as JSON, without its epochs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeedRecord {
    /// The seed.
    pub seed: u64,
    /// Epochs so far.
    #[serde(skip)]
    pub lines: Vec<EpochLine>,
    /// What it came to, if it is finished.
    pub outcome: Option<Outcome>,
    /// What it has taken.
    pub cost: Option<Cost>,
}

impl Record {
    /// Reads a run directory.
    ///
    /// # Errors
    /// If it is none, or a file in it is broken.
    pub fn read(directory: &Path) -> Result<Record> {
        let (config, seeds) = open(directory)?;
        let data = DataRecord::read(directory)?;
        let seeds =
            seeds.all().map(|seed| SeedRecord::read(directory, seed)).collect::<Result<_>>()?;
        let name = directory.file_name().map(|name| name.to_string_lossy().into_owned());
        Ok(Record { name: name.unwrap_or_default(), config, data, seeds })
    }

    /// What finished seeds came to.
    pub fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        self.seeds.iter().filter_map(|seed| seed.outcome.as_ref())
    }

    /// Stands for configuration and data.
    pub fn hash(&self) -> Result<String> {
        hash(&self.config, &self.data.hash)
    }
}

impl SeedRecord {
    fn read(run: &Path, seed: u64) -> Result<SeedRecord> {
        let directory = SeedDirectory::at(run, seed);
        let (lines, outcome) = (directory.lines()?, directory.outcome()?);
        Ok(SeedRecord { seed, lines, outcome, cost: directory.cost() })
    }
}

/// Makes a run directory; where it was not run here, nothing is said of program and machine.
///
/// # Errors
/// If a file cannot be written.
pub fn create(
    directory: &Path,
    config: &Config,
    seeds: &Seeds,
    data: &DataRecord,
    environment: Option<&Environment>,
) -> Result<()> {
    std::fs::create_dir_all(directory).map_err(|e| {
        Error::io("cannot make", directory, format!("{e}; give another folder with -o"))
    })?;
    write_json(&directory.join("seeds.json"), seeds)?;
    write_json(&directory.join("data.json"), data)?;
    if let Some(environment) = environment {
        write_json(&directory.join("environment.json"), environment)?;
    }
    // What makes the folder a run comes last.
    write_text(&directory.join("config.toml"), &config.to_toml()?)
}

/// Refuses a run directory of other settings.
///
/// # Errors
/// If that is what it is.
pub fn check_settings(directory: &Path, config: &Config) -> Result<Seeds> {
    let (kept, seeds) = open(directory)?;
    if kept != *config {
        return Err(Error::config(format!(
            "{} holds a run with other settings; give another folder with -o",
            directory.display()
        )));
    }
    Ok(seeds)
}

/// Gives a run directory so many seeds from 0, if it has fewer.
///
/// # Errors
/// If it is of other settings or data.
pub fn extend(directory: &Path, config: &Config, seeds: u64, data: &DataRecord) -> Result<()> {
    let kept = check_settings(directory, config)?;
    data.check(directory)?;
    let count = kept.count.max(seeds);
    write_json(&directory.join("seeds.json"), &Seeds { first: 0, count })
}

/// The experiment of a run directory and its seeds.
///
/// # Errors
/// If it is no run directory.
pub fn open(directory: &Path) -> Result<(Config, Seeds)> {
    let path = directory.join("config.toml");
    if !path.is_file() {
        let reason = "it has no config.toml, so it is no run; name a folder that `hdse train` made";
        return Err(Error::io("cannot open", directory, reason));
    }
    Ok((Config::read(&path, &[])?, read_json(&directory.join("seeds.json"))?))
}

/// Stands for everything that determines a run, but for its seed.
pub fn hash(config: &Config, data: &str) -> Result<String> {
    let mut config = config.clone();
    // Where files lie makes no difference.
    config.data.path = None;
    let text = format!("{} {data}", config.to_toml()?);
    Ok(blake3::hash(text.as_bytes()).to_hex().to_string())
}

/// A file of JSON.
pub fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let text = std::fs::read_to_string(path).map_err(|e| Error::io("cannot read", path, e))?;
    serde_json::from_str(&text).map_err(|e| {
        Error::data(format!("{}: {e}; restore it, or begin a new run", path.display()))
    })
}
