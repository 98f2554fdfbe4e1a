//! `hdse train`: one experiment, from data to result.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::examples::{Loaded, place, rehearse};
use super::output::{Output, count, object, thousands};
use super::progress::{self, Progress};
use crate::config::Config;
use crate::nn::Model;
use crate::nn::fused::Team;
use crate::report::statistics::moments;
use crate::rng::Seed;
use crate::train::directory::{EpochLine, Outcome, sweep};
use crate::train::examples::Prepared;
use crate::train::record::{self, DataRecord, Seeds, hash, open};
use crate::train::run::{Setting, train};
use crate::train::{Environment, EventWriter, Metric, checkpoint};
use crate::{Error, MemoryLimit, Result};

#[derive(clap::Args)]
pub(super) struct Options {
    /// The experiment: a TOML file, such as configs/gps-zinc.toml
    #[arg(required_unless_present = "resume", conflicts_with = "resume")]
    config: Option<PathBuf>,
    /// Change a key of the experiment, such as model.dim=32
    #[arg(long, value_name = "KEY=VALUE", conflicts_with = "resume")]
    set: Vec<String>,
    /// Fewer or more epochs than the experiment has, warm-up in proportion
    #[arg(long, value_name = "N", conflicts_with = "resume")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    epochs: Option<u64>,
    /// The first seed
    #[arg(long, default_value_t = 0, conflicts_with = "resume")]
    seed: u64,
    /// How many seeds to train, one after another
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "resume")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// The folder of the run; runs/NAME by default
    #[arg(long, short, value_name = "RUN", conflicts_with = "resume")]
    output: Option<PathBuf>,
    /// Go on with a run that was stopped
    #[arg(long, value_name = "RUN")]
    resume: Option<PathBuf>,
}

pub(super) fn run(options: &Options, limit: MemoryLimit, output: &Output) -> Result<()> {
    let (directory, config, seeds) = match &options.resume {
        Some(directory) => {
            let (config, seeds) = open(directory)?;
            (directory.clone(), config, seeds)
        }
        None => plan(options)?,
    };
    let file = options.config.clone().unwrap_or_else(|| directory.join("config.toml"));
    let named = |e: Error| match e.is_config() {
        true => e.context(file.display().to_string()),
        false => e,
    };
    let set = Loaded::read(&config, limit).map_err(named)?;
    set.check(&config, limit).map_err(named)?;
    let record = set.record();
    if let Some(label) = &record.label {
        output.note(&format!("{}: {label}", config.data.set));
    }
    let examples = set.prepare(&config, limit, output).map_err(named)?;
    let limit = limit.beside(examples.bytes());
    rehearse(&config, &examples, seeds.all(), limit).map_err(|e| match e.is_config() {
        true => named(e),
        false => e.context(place(&config)),
    })?;
    match options.resume {
        Some(_) => record.check(&directory)?,
        // Only now, so that a mistake in the data leaves no folder behind.
        None => create(&directory, &config, &seeds, &record)?,
    }
    let hash = hash(&config, &record.hash)?;
    let run = Run::begin(directory, config, examples, hash, Team::current()?)?;

    // A step and a checkpoint may take longer than other work does to stop.
    progress::allow_to_finish();
    let mut outcomes = Vec::new();
    for seed in seeds.all() {
        let progress = Progress::new(run.steps()?, "steps", output);
        outcomes.push(run.seed(seed, limit, &progress, output, &|line| {
            progress.line(&epoch(&run.config, seed, line), output);
        })?);
    }
    let Run { directory, config, .. } = run;
    let place = directory.display().to_string();
    output.result(
        || {
            let fields = [
                ("run", json!(place)),
                ("set", json!(config.data.set)),
                ("label", json!(record.label)),
                ("metric", json!(config.train.metric.name())),
                ("outcomes", json!(outcomes)),
                ("test", summary(&outcomes)),
            ];
            object(fields.into_iter().chain(output.resources()))
        },
        || table(&config, record.label.as_deref(), &outcomes, &place),
    )
}

/// The experiment that is asked for, and where its run is to be.
fn plan(options: &Options) -> Result<(PathBuf, Config, Seeds)> {
    let path = options.config.as_deref().ok_or_else(|| Error::config("no experiment is given"))?;
    let mut config = Config::read(path, &options.set)?;
    if let Some(epochs) = options.epochs {
        config = config.shortened(epochs);
    }
    let name = path.file_stem().map(|name| name.to_string_lossy().into_owned());
    let directory = options
        .output
        .clone()
        .unwrap_or_else(|| Path::new("runs").join(name.unwrap_or_else(|| "run".into())));
    if directory.join("config.toml").exists() {
        return Err(Error::config(format!(
            "{} holds a run already; go on with it by `hdse train --resume {}`, or give another folder with -o",
            directory.display(),
            directory.display()
        )));
    }
    Ok((directory, config, Seeds { first: options.seed, count: options.seeds }))
}

/// Makes the folder of a run.
pub(super) fn create(
    directory: &Path,
    config: &Config,
    seeds: &Seeds,
    data: &DataRecord,
) -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let environment = Environment::collect(rayon::current_num_threads(), &arguments, now() as u64);
    record::create(directory, config, seeds, data, Some(&environment))
}

/// Keeps other processes out of a run while it is trained. The system lifts the lock when this one ends,
/// however it ends.
fn lock(directory: &Path) -> Result<File> {
    let path = directory.join("config.toml");
    let file = File::open(&path).map_err(|e| Error::io("cannot read", &path, e))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(Error::config(format!(
            "another process trains {}; wait for it, or give another folder with -o",
            directory.display()
        ))),
        // Where a file system has no locks, it goes without.
        _ => Ok(file),
    }
}

/// The model of the best epoch of a seed.
pub(super) fn trained(config: &Config, hash: &str, directory: &Path, seed: u64) -> Result<Model> {
    let best = directory.join(format!("seed-{seed}")).join("best.safetensors");
    if !best.exists() {
        return Err(Error::config(format!(
            "{} has no model of seed {seed} yet; train it with `hdse train --resume {}`",
            directory.display(),
            directory.display()
        )));
    }
    let mut model = Model::new(&config.model, Seed(seed))?;
    let run = crate::train::run::name(hash, seed);
    checkpoint::load(&best, &run, &mut model.parameters, None)?;
    Ok(model)
}

/// An experiment with its graphs, and where it is kept.
pub(super) struct Run {
    pub directory: PathBuf,
    pub config: Config,
    pub examples: Prepared,
    /// Stands for configuration and data.
    pub hash: String,
    team: Arc<Team>,
    /// Keeps other processes out.
    _lock: File,
}

impl Run {
    /// Takes hold of a run directory, and clears away what kills have left half written.
    pub(super) fn begin(
        directory: PathBuf,
        config: Config,
        examples: Prepared,
        hash: String,
        team: Team,
    ) -> Result<Run> {
        let _lock = lock(&directory)?;
        sweep(&directory);
        let team = Arc::new(team);
        Ok(Run { directory, config, examples, hash, team, _lock })
    }

    /// Steps of a seed.
    pub(super) fn steps(&self) -> Result<u64> {
        Ok(self.config.train.epochs * self.examples.steps(&self.config.train)?)
    }

    /// Trains one seed from where it was left; `report` hears of every epoch.
    pub(super) fn seed(
        &self,
        seed: u64,
        limit: MemoryLimit,
        progress: &Progress,
        output: &Output,
        report: &dyn Fn(&EpochLine),
    ) -> Result<Outcome> {
        let Run { directory, config, examples, hash, .. } = self;
        let mut curves = Curves::new(directory, seed);
        let mut failed = None;
        let mut report = |line: &EpochLine| {
            failed = failed.take().or(curves.write(config, line).err());
            report(line);
        };
        let mut setting = Setting {
            directory,
            hash,
            limit,
            team: &self.team,
            monitor: progress,
            report: &mut report,
        };
        let examples = examples.of_seed(seed)?;
        let trained = train(config, examples.batches(), seed, &mut setting);
        let outcome = trained.map_err(|error| match error {
            error if error.is_interrupted() => {
                let run = directory.display();
                Error::interrupted_but(format!(
                    "interrupted; go on with `hdse train --resume {run}`"
                ))
            }
            error if error.is_io() => {
                let run = directory.display();
                error.context(format!(
                    "training has stopped; once this is mended, go on with `hdse train --resume {run}`"
                ))
            }
            error => error,
        })?;
        if let Some(error) = failed {
            output.note(&format!("curves for TensorBoard are incomplete: {error:#}"));
        }
        Ok(outcome)
    }
}

/// Curves for TensorBoard, in the folder of a seed; a file of their own from the first epoch on.
struct Curves {
    folder: PathBuf,
    writer: Option<EventWriter>,
}

impl Curves {
    fn new(directory: &Path, seed: u64) -> Curves {
        let folder = directory.join(format!("seed-{seed}")).join("tensorboard");
        Curves { folder, writer: None }
    }

    fn open(folder: &Path, epoch: u64) -> Result<EventWriter> {
        let resumed = folder.exists();
        let mut writer = EventWriter::create(folder, now() as u64, None)?;
        if resumed {
            // What was written after the last checkpoint is written again.
            writer.restart(now(), epoch)?;
        }
        Ok(writer)
    }

    fn write(&mut self, config: &Config, line: &EpochLine) -> Result<()> {
        let metric = format!("val/{}", config.train.metric.name());
        let curves = [
            ("train/loss", Some(line.train_loss)),
            ("train/rate", Some(line.rate)),
            ("val/loss", line.val_loss),
            (metric.as_str(), line.val_metric),
        ];
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(Curves::open(&self.folder, line.epoch)?),
        };
        for (tag, value) in curves {
            if let Some(value) = value {
                writer.scalar(now(), line.epoch, tag, value as f32)?;
            }
        }
        Ok(())
    }
}

/// Seconds since 1970.
fn now() -> f64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0.0, |duration| duration.as_secs_f64())
}

fn epoch(config: &Config, seed: u64, line: &EpochLine) -> String {
    let mut text = format!("seed {seed} epoch {}: train loss {:.4}", line.epoch, line.train_loss);
    if let (Some(loss), Some(metric)) = (line.val_loss, line.val_metric) {
        let name = config.train.metric.name();
        text += &format!(", val loss {loss:.4}, val {name} {metric:.4}");
    }
    if line.best { text + " *" } else { text }
}

fn tests(outcomes: &[Outcome]) -> Vec<f64> {
    outcomes.iter().map(|outcome| outcome.test_metric).collect()
}

fn summary(outcomes: &[Outcome]) -> Value {
    let (mean, deviation) = moments(&tests(outcomes));
    json!({ "mean": mean, "deviation": deviation })
}

fn table(config: &Config, label: Option<&str>, outcomes: &[Outcome], place: &str) -> String {
    let metric: Metric = config.train.metric;
    let mut text = String::from("seed  best epoch       val      test\n");
    for outcome in outcomes {
        text += &format!(
            "{:>4}  {:>10}  {:>8.4}  {:>8.4}\n",
            outcome.seed, outcome.best_epoch, outcome.val_metric, outcome.test_metric
        );
    }
    let (mean, deviation) = moments(&tests(outcomes));
    let deviation = deviation.map_or(String::new(), |d| format!(" ± {d:.4}"));
    let parameters = outcomes.first().map_or(0, |outcome| outcome.parameters as u64);
    text += &format!(
        "\n{}: test {} {mean:.4}{deviation} over {}; {} parameters\n",
        config.data.set,
        metric.name(),
        count(outcomes.len() as u64, "seed"),
        thousands(parameters)
    );
    if let Some(label) = label {
        text += &format!("({label})\n");
    }
    text += &format!("the run is in {place}\n");
    text
}
