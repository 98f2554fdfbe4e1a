//! `hdse reproduce`: an experiment of the paper, its numbers beside ours.
//!
//! Every row is a run in a folder of its own. Seeds run side by side, one thread each, and a run that is there is
//! not computed again: the same command goes on after any stop, and writes the same page from finished runs. What was settled
//! at first, above all how many epochs fit a budget, is kept in `plan.json`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rayon::prelude::*;
use serde_json::json;

use super::examples::{Loaded, rehearse};
use super::input::NameParser;
use super::list;
use super::output::{Output, count, object};
use super::progress::{self, Progress};
use super::train::{Run, create};
use super::{core_neighbourhood, efficiency, properties, runtime};
use crate::config::Config;
use crate::data::sets;
use crate::data::{AtomicFile, Shard};
use crate::experiments::{self, Experiment, Row};
use crate::nn::fused::Team;
use crate::report::results::Results;
use crate::report::{Plan, Report};
use crate::train::directory::{Outcome, SeedDirectory, write_json, write_text};
use crate::train::pace::pace;
use crate::train::record::{DataRecord, Seeds, check_settings, extend, hash};
use crate::{Error, MemoryLimit, Result};

/// Hours of `--quick`, preparation aside.
const QUICK: f64 = 3.5 / 60.0;
/// Training nodes of `--quick`, some ten thousand molecules.
const QUICK_NODES: f64 = 250_000.0;
/// What a forecast is taken by: steps are slower where memory is shared with more of them.
const CAUTION: f64 = 1.1;

/// Experiments without runs to keep, as they are listed.
pub(super) const MEASURED: [[&str; 5]; 4] =
    [runtime::LISTED, efficiency::LISTED, properties::LISTED, core_neighbourhood::LISTED];

#[derive(clap::Args)]
pub(super) struct Options {
    /// Which experiment; `list` shows all
    #[arg(value_parser = NameParser::Experiments)]
    experiment: String,
    /// Only these rows, such as off,hdse
    #[arg(long, value_name = "ROW", value_delimiter = ',')]
    rows: Vec<String>,
    /// Fewer or more epochs than the paper, warm-up in proportion
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    epochs: Option<u64>,
    /// How many seeds for every row
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: Option<u64>,
    /// As many epochs as all runs together can do in so many hours on this machine, the same for all
    #[arg(long, value_name = "HOURS", conflicts_with = "epochs")]
    budget: Option<f64>,
    /// A first look: one seed, a few minutes, not all graphs where there are many
    #[arg(long, conflicts_with_all = ["epochs", "budget"])]
    quick: bool,
    /// Only part I of N of the runs, counted from 0; copy the folders together for the table
    #[arg(long, value_name = "I/N", value_parser = Shard::parse)]
    shard: Option<Shard>,
    /// The folder of the runs; runs/EXPERIMENT by default. What is done there is not done again
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Keep results in this small file, too, and take what it holds as done: to go on on another machine
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// Write the table as a page of Markdown, too, anew after each run
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

pub(super) fn run(options: &Options, limit: MemoryLimit, output: &Output) -> Result<()> {
    if options.experiment == "list" {
        return list::experiments().print(false, output);
    }
    for file in [&options.page, &options.results].into_iter().flatten() {
        // Not after hours.
        drop(AtomicFile::create(file, true)?);
    }
    if let Some(budget) = options.budget.filter(|hours| !(*hours > 0.0 && hours.is_finite())) {
        return Err(Error::config(format!(
            "`--budget {budget}`: take a number of hours, more than 0"
        )));
    }
    if let Some([name, ..]) = MEASURED.iter().find(|[name, ..]| *name == options.experiment) {
        return measure(name, options, limit, output);
    }
    let experiment = experiments::by_name(&options.experiment)?;
    let rows = experiment.choose(&options.rows)?;
    let folder = options.output.clone().unwrap_or_else(|| default_folder(options, experiment));
    let work = Work { options, experiment, rows, folder, limit, output };
    if let Some(file) = options.results.as_deref().filter(|file| file.exists()) {
        let results = Results::read(file)?;
        work.check_plan(&results.plan, file, "another file")?;
        results.unpack(&work.folder)?;
    }
    let plan = work.train()?;
    work.report(&plan)
}

/// What is measured in one go.
fn measure(name: &str, options: &Options, limit: MemoryLimit, output: &Output) -> Result<()> {
    let Options { rows, epochs, seeds, budget, quick, shard, output: folder, .. } = options;
    let Options { results, page, .. } = options;
    let is_plain = rows.is_empty() && epochs.is_none() && seeds.is_none() && budget.is_none();
    if !is_plain || *quick || shard.is_some() || folder.is_some() || results.is_some() {
        return Err(Error::config(format!(
            "`{name}` keeps no runs: of the options, it takes `--page` only"
        )));
    }
    match name {
        runtime::NAME => runtime::run(page.as_deref(), limit, output),
        efficiency::NAME => efficiency::run(page.as_deref(), limit, output),
        core_neighbourhood::NAME => core_neighbourhood::run(page.as_deref(), limit, output),
        _ => properties::run(page.as_deref(), limit, output),
    }
}

fn default_folder(options: &Options, experiment: &Experiment) -> PathBuf {
    let kind = match options {
        Options { quick: true, .. } => "-quick".to_string(),
        Options { budget: Some(hours), .. } => format!("-{hours}-hours"),
        Options { epochs: Some(epochs), .. } => format!("-{epochs}-epochs"),
        _ => String::new(),
    };
    Path::new("runs").join(format!("{}{kind}", experiment.name))
}

/// What was asked for.
struct Work<'a> {
    options: &'a Options,
    experiment: &'static Experiment,
    rows: Vec<&'static Row>,
    folder: PathBuf,
    limit: MemoryLimit,
    output: &'a Output,
}

/// A row whose data is ready.
struct Ready {
    number: usize,
    config: Config,
    examples: crate::train::examples::Prepared,
    data: DataRecord,
}

impl Work<'_> {
    /// What settles the number of epochs.
    fn settled_by(&self) -> String {
        match self.options {
            Options { epochs: Some(epochs), .. } => format!("--epochs {epochs}"),
            Options { budget: Some(hours), .. } => format!("--budget {hours}"),
            Options { quick: true, .. } => "--quick".to_string(),
            _ => String::new(),
        }
    }

    /// Refuses a plan that was settled in another way than is asked for.
    fn check_plan(&self, kept: &Plan, place: &Path, other: &str) -> Result<()> {
        if kept.experiment == self.experiment.name && kept.settled_by == self.settled_by() {
            return Ok(());
        }
        let how = match kept.settled_by.as_str() {
            "" => "as published".to_string(),
            how => format!("with `{how}`"),
        };
        Err(Error::config(format!(
            "{} holds `{}` {how}, {} for every run; say the same, or give {other}",
            place.display(),
            kept.experiment,
            count(kept.epochs, "epoch")
        )))
    }

    /// Does all runs that are not done.
    fn train(&self) -> Result<Plan> {
        let kept = Plan::read(&self.folder)?;
        if let Some(kept) = &kept {
            self.check_plan(kept, &self.folder, "another folder with -o")?;
        }
        let Options { budget, quick, shard, .. } = self.options;
        let hours = budget.or(quick.then_some(QUICK)).filter(|_| kept.is_none());
        if hours.is_some() && shard.is_some() {
            return Err(Error::config(
                "machines would choose different numbers of epochs for `--budget`; run without `--shard` first, or give `--epochs`",
            ));
        }
        let mut plan = self.plan(kept.as_ref())?;
        let (mut ready, limit) = self.prepare_all(&plan)?;
        progress::allow_to_finish();
        if let Some(hours) = hours {
            plan.epochs = self.fit(&ready, hours, plan.epochs, limit)?;
            for ready in &mut ready {
                ready.config = self.config(ready.number, Some(plan.epochs), plan.graphs)?;
            }
        }
        std::fs::create_dir_all(&self.folder).map_err(|e| {
            Error::io("cannot make", &self.folder, format!("{e}; give another folder with -o"))
        })?;
        // Before the first run, so that the same command goes on with the same epochs whatever happens.
        write_json(&Plan::path(&self.folder), &plan)?;
        let begin = |ready| self.begin(ready, &plan);
        let runs = ready.into_iter().map(begin).collect::<Result<Vec<_>>>()?;
        self.run_all(&runs, &plan, limit)?;
        Ok(plan)
    }

    /// What is to be done, in so far as it is known before anything is measured; what was settled before stays.
    fn plan(&self, kept: Option<&Plan>) -> Result<Plan> {
        let graphs = match kept {
            Some(kept) => kept.graphs,
            None => self.options.quick.then(|| self.few_graphs()).flatten(),
        };
        let epochs = match (kept, self.options.epochs) {
            (Some(kept), _) => kept.epochs,
            (None, Some(epochs)) => epochs,
            (None, None) => self.config(0, None, graphs)?.train.epochs,
        };
        // What was there before stays in the table.
        let was = |row: &Row| kept.is_some_and(|kept| kept.rows.contains(&row.id));
        let asked = |row: &Row| self.rows.iter().any(|asked| asked.id == row.id);
        let rows = self.experiment.rows.iter().filter(|row| was(row) || asked(row));
        let mut plan = Plan {
            experiment: self.experiment.name.clone(),
            rows: rows.map(|row| row.id.clone()).collect(),
            epochs,
            seeds: kept.map_or(0, |kept| kept.seeds).max(self.seeds()),
            graphs,
            settled_by: self.settled_by(),
            command: String::new(),
        };
        plan.command = self.command(&plan);
        Ok(plan)
    }

    /// Seeds of every row that are asked for.
    fn seeds(&self) -> u64 {
        let Options { seeds, quick, .. } = self.options;
        seeds.unwrap_or(if *quick { 1 } else { self.experiment.seeds })
    }

    /// Where runs of a row are.
    fn directory(&self, number: usize) -> PathBuf {
        self.folder.join(&self.rows[number].id)
    }

    /// Seeds of a row that this machine is to do and has not done.
    fn pending(&self, number: usize) -> impl Iterator<Item = u64> {
        let directory = self.directory(number);
        let is_done =
            move |seed| matches!(SeedDirectory::at(&directory, seed).outcome(), Ok(Some(_)));
        // So that every machine gets some of every row.
        let is_mine = move |seed: u64| {
            let shard = self.options.shard;
            shard.is_none_or(|shard| (number + seed as usize) % shard.count == shard.index)
        };
        (0..self.seeds()).filter(move |&seed| is_mine(seed) && !is_done(seed))
    }

    /// The data of all rows that have something to do, which is kept until the last run, and the memory that it leaves.
    fn prepare_all(&self, plan: &Plan) -> Result<(Vec<Ready>, MemoryLimit)> {
        let (mut all, mut limit) = (Vec::new(), self.limit);
        for number in 0..self.rows.len() {
            if self.pending(number).next().is_some() {
                let ready = self.prepare(number, plan, limit).map_err(|error| {
                    if !error.is_memory() || all.is_empty() {
                        return error;
                    }
                    error.context(format!(
                        "row `{}`, beside {} before it (`--rows` takes a few at a time)",
                        self.rows[number].id,
                        count(all.len() as u64, "row")
                    ))
                })?;
                limit = limit.beside(ready.examples.bytes());
                all.push(ready);
            } else if self.directory(number).join("config.toml").exists() {
                let config = self.config(number, Some(plan.epochs), plan.graphs)?;
                check_settings(&self.directory(number), &config)?;
            }
        }
        if let Some(Ready { config, data: DataRecord { label: Some(label), .. }, .. }) = all.first()
        {
            self.output.note(&format!("{}: {label}", config.data.set));
        }
        Ok((all, limit))
    }

    /// Makes the folder of a row, or takes the one that is there.
    fn begin(&self, ready: Ready, plan: &Plan) -> Result<(usize, Run)> {
        let Ready { number, config, examples, data } = ready;
        let (directory, seeds) = (self.directory(number), self.seeds());
        if plan.run(&self.folder, &self.rows[number].id).is_none() {
            create(&directory, &config, &Seeds { first: 0, count: seeds }, &data)?;
        } else {
            extend(&directory, &config, seeds, &data)?;
        }
        let hash = hash(&config, &data.hash)?;
        Ok((number, Run::begin(directory, config, examples, hash, self.team()?)?))
    }

    /// Who trains a run: side by side, one thread each, runs are done sooner than one after another by all threads.
    fn team(&self) -> Result<Team> {
        match self.rows.len() as u64 * self.seeds() {
            1 => Team::current(),
            _ => Ok(Team::default()),
        }
    }

    /// Does all seeds of these rows that are not done.
    fn run_all(&self, runs: &[(usize, Run)], plan: &Plan, limit: MemoryLimit) -> Result<()> {
        // Seeds last, and one job after another: a stop leaves the same seeds of all rows.
        let of_seed = |seed| {
            let is_pending = move |number| self.pending(number).any(|other| other == seed);
            let runs = runs.iter().filter(move |(number, _)| is_pending(*number));
            runs.map(move |(number, run)| (run, self.rows[*number], seed))
        };
        let jobs: Vec<(&Run, &Row, u64)> = (0..self.seeds()).flat_map(of_seed).collect();
        let steps = jobs.iter().map(|(run, ..)| run.steps()).sum::<Result<u64>>()?;
        let progress = Progress::new(steps, "steps", self.output);
        let file = Mutex::new(());
        let done = jobs.into_iter().par_bridge().map(|job| {
            self.one(job, limit, &progress)?;
            let _alone = file.lock();
            self.keep(plan)
        });
        done.collect::<Result<()>>().map_err(|error| match error.is_interrupted() {
            true => Error::interrupted_but("interrupted; the same command goes on"),
            false => error,
        })
    }

    /// Writes results so far to their file and to the page.
    fn keep(&self, plan: &Plan) -> Result<()> {
        if let Some(file) = &self.options.results {
            Results::of_folder(&self.folder, plan)?.write(file)?;
        }
        if let Some(page) = &self.options.page {
            let report = Report::of_folder(&self.folder, plan, None)?;
            write_text(page, &report.to_markdown())?;
        }
        Ok(())
    }

    fn one(
        &self,
        (run, row, seed): (&Run, &Row, u64),
        limit: MemoryLimit,
        progress: &Progress,
    ) -> Result<()> {
        let metric = run.config.train.metric.name();
        let say = |text: String| {
            progress.line(&format!("{}, seed {seed}: {text}", row.name), self.output)
        };
        let Outcome { val_metric, test_metric, .. } =
            run.seed(seed, limit, progress, self.output, &|line| {
                if let (true, Some(val)) = (self.output.verbose, line.val_metric) {
                    say(format!("epoch {}, val {metric} {val:.4}", line.epoch));
                }
            })?;
        say(format!("val {metric} {val_metric:.4}, test {test_metric:.4}"));
        Ok(())
    }

    /// The configuration of a row, as it is run.
    fn config(&self, number: usize, epochs: Option<u64>, graphs: Option<usize>) -> Result<Config> {
        let mut config = self.rows[number].config(self.experiment)?;
        config.data.graphs = graphs;
        Ok(epochs.map_or(config.clone(), |epochs| config.shortened(epochs)))
    }

    fn prepare(&self, number: usize, plan: &Plan, limit: MemoryLimit) -> Result<Ready> {
        let config = self.config(number, Some(plan.epochs), plan.graphs)?;
        let set = Loaded::read(&config, limit)?;
        set.check(&config, limit)?;
        let data = set.record();
        let examples = set.prepare(&config, limit, self.output)?;
        rehearse(&config, &examples, 0..plan.seeds, limit.beside(examples.bytes()))?;
        Ok(Ready { number, config, examples, data })
    }

    /// Graphs of every part for a first look, if the set has more.
    fn few_graphs(&self) -> Option<usize> {
        let set = sets::by_name(&self.config(0, None, None).ok()?.data.set).ok()?;
        let published = set.entry().published;
        let few = (QUICK_NODES / published.mean_nodes / 100.0).ceil() as usize * 100;
        (few < published.graphs[0]).then_some(few)
    }

    /// How many epochs all runs can do in so many hours.
    fn fit(&self, ready: &[Ready], hours: f64, recipe: u64, limit: MemoryLimit) -> Result<u64> {
        self.output.note("measuring how long epochs take");
        let silent = Progress::new(0, "steps of measurement", self.output);
        let (rows, threads, seeds) =
            (ready.len(), rayon::current_num_threads(), self.seeds() as usize);
        let jobs = rows * seeds;
        let measure = |job: usize| {
            let Ready { config, examples, .. } = &ready[job % rows];
            let team = Arc::new(self.team()?);
            pace(config, examples.of_seed(0)?.batches(), limit, &team, &silent)
        };
        // As many at once as there will be, which share caches and memory.
        let measured = (0..rows.max(threads.min(jobs))).into_par_iter().with_max_len(1);
        let measured = measured.map(measure).collect::<Result<Vec<f64>>>()?;
        drop(silent);
        let of_row = |row| longest(measured.iter().skip(row).step_by(rows));
        let paces: Vec<f64> = (0..rows).map(of_row).collect();
        for (ready, pace) in ready.iter().zip(&paces) {
            let name = &self.rows[ready.number].name;
            self.output.detail(|| format!("{name}: some {pace:.2} s per epoch"));
        }
        // All threads are busy until the last round, which may be incomplete.
        let rounds = jobs.div_ceil(threads) as f64;
        let shared = paces.iter().sum::<f64>() * seeds as f64 / threads as f64;
        let epoch = shared.max(longest(&paces) * rounds) * CAUTION;
        let epochs = ((hours * 3600.0 / epoch) as u64).min(recipe);
        if epochs == 0 {
            return Err(Error::config(format!(
                "one epoch of every run takes some {:.2} hours; raise `--budget`, or take fewer `--rows` or `--seeds`",
                epoch / 3600.0
            )));
        }
        self.output.note(&format!(
            "{} for every run, of the recipe's {recipe}: some {:.1} minutes in all",
            count(epochs, "epoch"),
            epochs as f64 * epoch / 60.0
        ));
        Ok(epochs)
    }

    /// The line that makes the table, wherever its runs and its page are kept.
    fn command(&self, plan: &Plan) -> String {
        let mut line = format!("hdse reproduce {}", self.experiment.name);
        if plan.rows.len() < self.experiment.rows.len() {
            line += &format!(" --rows {}", plan.rows.join(","));
        }
        if !plan.settled_by.is_empty() {
            line += &format!(" {}", plan.settled_by);
        }
        line + &format!(" --seeds {}", plan.seeds)
    }

    /// What all runs came to, those of other machines included.
    fn report(&self, plan: &Plan) -> Result<()> {
        if !plan.rows.iter().any(|row| plan.run(&self.folder, row).is_some()) {
            self.output.note("this part has no run, and there is none of another one yet");
            return Ok(());
        }
        self.keep(plan)?;
        let report = Report::of_folder(&self.folder, plan, None)?;
        let place = self.folder.display().to_string();
        self.output.result(
            || {
                let fields = [
                    ("experiment", json!(self.experiment.name)),
                    ("report", report.to_json()),
                    ("runs", json!(place)),
                ];
                object(fields.into_iter().chain(self.output.resources()))
            },
            || {
                let more = format!("`hdse report {place} --format html` draws the curves");
                format!("{}\nthe runs are in {place}; {more}\n", report.to_text())
            },
        )
    }
}

fn longest<'a>(paces: impl IntoIterator<Item = &'a f64>) -> f64 {
    paces.into_iter().copied().fold(0.0, f64::max)
}
