//! `hdse reproduce`: an experiment of the paper, its numbers beside ours.
//!
//! Every row is a run in a folder of its own. Seeds run side by side, one thread each, and a row that is there is
//! not computed again: the same command goes on after any stop, and writes the same page from finished runs.

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde_json::json;

use super::examples::{Loaded, rehearse};
use super::input::NameParser;
use super::output::{Output, count, object, thousands};
use super::progress::{self, Progress};
use super::runtime;
use super::train::{DataRecord, Run, Seeds, create, hash, moments, open};
use crate::config::Config;
use crate::data::AtomicFile;
use crate::experiments::{self, Experiment, Row};
use crate::nn::fused::Team;
use crate::train::directory::{Outcome, write_json, write_text};
use crate::{Error, MemoryLimit, Result};

#[derive(clap::Args)]
pub(super) struct Options {
    /// Which experiment (`hdse list experiments`)
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
    /// The folder of the runs; runs/EXPERIMENT by default. What is done there is not done again
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Write the table as a page of Markdown, too
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

/// A row with what came of it.
struct Done<'a> {
    row: &'a Row,
    hash: String,
    outcomes: Vec<Outcome>,
}

pub(super) fn run(options: &Options, limit: MemoryLimit, output: &Output) -> Result<()> {
    if let Some(page) = &options.page {
        // Not after hours.
        drop(AtomicFile::create(page, true)?);
    }
    if options.experiment == runtime::NAME {
        let Options { rows, epochs, seeds, output: folder, .. } = options;
        if !rows.is_empty() || epochs.is_some() || seeds.is_some() || folder.is_some() {
            return Err(Error::config(format!(
                "`{}` trains nothing: of the options, it takes `--page` only",
                runtime::NAME
            )));
        }
        return runtime::run(options.page.as_deref(), limit, output);
    }
    let experiment = experiments::by_name(&options.experiment)?;
    let rows = experiment.choose(&options.rows)?;
    let seeds = options.seeds.unwrap_or(experiment.seeds);
    let folder = options.output.clone().unwrap_or_else(|| {
        let epochs = options.epochs.map_or(String::new(), |epochs| format!("-{epochs}-epochs"));
        Path::new("runs").join(format!("{}{epochs}", experiment.name))
    });
    let mut runs = Vec::new();
    let mut record = None;
    for row in &rows {
        let mut config = row.config(experiment)?;
        if let Some(epochs) = options.epochs {
            config = config.shortened(epochs);
        }
        let set = Loaded::read(&config, limit)?;
        set.check(&config, limit)?;
        let data = set.record();
        let examples = set.prepare(&config, limit, output)?;
        rehearse(&config, &examples, 0..seeds, limit)?;
        let directory = folder.join(row.id);
        settle(&directory, &config, seeds, &data)?;
        let hash = hash(&config, &data.hash)?;
        // Runs side by side, one thread each, are done sooner than one after another by all threads.
        let team = if rows.len() as u64 * seeds > 1 { Team::default() } else { Team::current()? };
        runs.push(Run::begin(directory, config, examples, hash, team)?);
        record = Some(data);
    }
    let (Some(record), Some(first)) = (record, runs.first()) else {
        return Err(Error::config("no row was chosen"));
    };
    if let Some(label) = &record.label {
        output.note(&format!("{}: {label}", first.config.data.set));
    }

    progress::allow_to_finish();
    let steps: u64 = runs.iter().map(Run::steps).sum::<Result<u64>>()?;
    let progress = Progress::new(steps * seeds, "steps", output);
    // Seeds of a row last: rows that differ in speed are shared out evenly.
    let jobs: Vec<(usize, u64)> =
        (0..seeds).flat_map(|seed| (0..runs.len()).map(move |row| (row, seed))).collect();
    let one = |(number, seed): (usize, u64)| {
        let run = &runs[number];
        let name = rows[number].name;
        let metric = run.config.train.metric.name();
        let outcome = run.seed(seed, limit, &progress, output, &|line| {
            if let (true, Some(val)) = (output.verbose, line.val_metric) {
                let text = format!("epoch {}, val {metric} {val:.4}", line.epoch);
                progress.line(&format!("{name}, seed {seed}: {text}"), output);
            }
        })?;
        let Outcome { val_metric, test_metric, .. } = outcome;
        let text = format!("val {metric} {val_metric:.4}, test {test_metric:.4}");
        progress.line(&format!("{name}, seed {seed}: {text}"), output);
        Ok(outcome)
    };
    let again = |error: Error| match error.is_interrupted() {
        true => Error::interrupted_but("interrupted; the same command goes on"),
        false => error,
    };
    let outcomes: Vec<Outcome> =
        jobs.into_par_iter().with_max_len(1).map(one).collect::<Result<_>>().map_err(again)?;
    drop(progress);

    let done: Vec<Done> = (rows.iter().zip(&runs).enumerate())
        .map(|(number, (row, run))| Done {
            row,
            hash: run.hash.clone(),
            outcomes: outcomes.iter().skip(number).step_by(rows.len()).cloned().collect(),
        })
        .collect();
    let result = Table { experiment, done: &done, config: &first.config, record: &record, seeds };
    if let Some(page) = &options.page {
        write_text(page, &result.page(&command(options, experiment, seeds, page)))?;
    }
    let place = folder.display().to_string();
    output.result(
        || {
            let rows = done.iter().map(|done| {
                let (mean, deviation) = moments(&done.tests(experiment));
                json!({
                    "row": done.row.id, "name": done.row.name, "run": done.hash,
                    "mean": mean, "deviation": deviation,
                    "published": done.row.published.map(|p| json!({ "mean": p.mean, "deviation": p.deviation })),
                    "outcomes": done.outcomes,
                })
            });
            let fields = [
                ("experiment", json!(experiment.name)),
                ("label", json!(record.label)),
                ("rows", rows.collect()),
                ("runs", json!(place)),
            ];
            object(fields.into_iter().chain(output.resources()))
        },
        || format!("{}\nthe runs are in {place}\n", result.text()),
    )
}

/// Makes the folder of a row, or makes sure that it is of the same experiment.
fn settle(directory: &Path, config: &Config, seeds: u64, data: &DataRecord) -> Result<()> {
    if !directory.join("config.toml").exists() {
        return create(directory, config, &Seeds { first: 0, count: seeds }, data);
    }
    let (_, kept, kept_seeds) = open(directory)?;
    if kept != *config {
        return Err(Error::config(format!(
            "{} holds a run with other settings; give another folder with -o",
            directory.display()
        )));
    }
    data.check(directory)?;
    let count = kept_seeds.count.max(seeds);
    write_json(&directory.join("seeds.json"), &Seeds { first: 0, count })
}

/// The line that makes a page, wherever its runs are kept.
fn command(options: &Options, experiment: &Experiment, seeds: u64, page: &Path) -> String {
    let mut line = format!("hdse reproduce {}", experiment.name);
    if !options.rows.is_empty() {
        line += &format!(" --rows {}", options.rows.join(","));
    }
    if let Some(epochs) = options.epochs {
        line += &format!(" --epochs {epochs}");
    }
    let page = page.file_name().unwrap_or_default().to_string_lossy();
    line + &format!(" --seeds {seeds} --page {page}")
}

impl Done<'_> {
    /// Results on the test graphs, as they are printed.
    fn tests(&self, experiment: &Experiment) -> Vec<f64> {
        self.outcomes.iter().map(|outcome| outcome.test_metric * experiment.scale).collect()
    }
}

/// All that a table says.
struct Table<'a> {
    experiment: &'a Experiment,
    done: &'a [Done<'a>],
    config: &'a Config,
    record: &'a DataRecord,
    seeds: u64,
}

impl Table<'_> {
    /// Lines of cells: row, paper, test, validation.
    fn cells(&self) -> Vec<[String; 4]> {
        let Table { experiment, .. } = self;
        let digits = experiment.digits;
        let line = |done: &Done| {
            let vals: Vec<f64> =
                done.outcomes.iter().map(|o| o.val_metric * experiment.scale).collect();
            let published = done.row.published;
            [
                done.row.name.to_string(),
                published.map_or("–".into(), |p| number(p.mean, Some(p.deviation), digits)),
                in_short(&done.tests(experiment), digits),
                in_short(&vals, digits),
            ]
        };
        self.done.iter().map(line).collect()
    }

    /// What must be known to read the numbers.
    fn remarks(&self) -> Vec<String> {
        let Table { experiment, config, record, seeds, .. } = self;
        let metric = config.train.metric;
        let better = if metric.larger_is_better() { "more" } else { "less" };
        let percent = if experiment.scale == 100.0 { " in %" } else { "" };
        let seeds = match seeds {
            1 => "one seed".to_string(),
            _ => format!("mean ± sample standard deviation of {seeds} seeds"),
        };
        let mut remarks = vec![format!(
            "{}{percent}, {better} is better; test at the best epoch by validation; {seeds}.",
            metric.name()
        )];
        if !experiment.remark.is_empty() {
            remarks.push(experiment.remark.to_string());
        }
        if let Some(from) = config.train.shortened_from {
            remarks.push(format!(
                "{} instead of the recipe's {}, warm-up in proportion: not comparable with the paper's numbers.",
                count(config.train.epochs, "epoch"),
                thousands(from)
            ));
        }
        remarks.push(match &record.label {
            Some(label) => format!("Data: {}, {label}.", config.data.set),
            None => format!("Data: {}, as published.", config.data.set),
        });
        remarks
    }

    /// For a terminal.
    fn text(&self) -> String {
        let cells = self.cells();
        let head = ["", "paper", "test", "val"].map(String::from);
        let width = |column: usize| {
            let lines = cells.iter().chain([&head]);
            lines.map(|cells| cells[column].chars().count()).max().unwrap_or(0)
        };
        let mut text = String::new();
        for line in [&head].into_iter().chain(&cells) {
            let [name, rest @ ..] = line;
            text += &format!("{name:<width$}", width = width(0));
            for (number, cell) in rest.iter().enumerate() {
                text += &format!("  {cell:>width$}", width = width(number + 1));
            }
            text.push('\n');
        }
        text.push('\n');
        for remark in self.remarks() {
            text += &format!("{remark}\n");
        }
        text
    }

    /// For the documentation.
    fn page(&self, command: &str) -> String {
        let Table { experiment, done, record, .. } = self;
        let quoted = |changes: &[&str]| {
            changes.iter().map(|change| format!("`{change}`")).collect::<Vec<_>>().join(" ")
        };
        let changes = match experiment.changes {
            [] => String::new(),
            changes => format!(" with {}", quoted(changes)),
        };
        let mut text = format!(
            "# {}\n\n{}\n\nWritten by `{command}` from [configs/{file}.toml](../../configs/{file}.toml){changes}.\n\n",
            experiment.name,
            capitalised(experiment.summary),
            file = experiment.config,
        );
        text += "| | paper | test | val | best epoch | parameters | changes | run |\n";
        text += "|---|---|---|---|---|---|---|---|\n";
        for (cells, done) in self.cells().iter().zip(*done) {
            let epochs: Vec<String> =
                done.outcomes.iter().map(|outcome| outcome.best_epoch.to_string()).collect();
            let parameters = done.outcomes.first().map_or(0, |outcome| outcome.parameters as u64);
            text += &format!(
                "| {} | {} | {} | {} | `{}` |\n",
                cells.join(" | "),
                epochs.join(", "),
                thousands(parameters),
                quoted(done.row.changes),
                &done.hash[..12]
            );
        }
        text.push('\n');
        for remark in self.remarks() {
            text += &format!("* {remark}\n");
        }
        text += &format!(
            "* Paper: Luo et al., NeurIPS 2024, {}. {}. blake3 of the data `{}`; a run is named by the hash of data \
             and configuration.\n",
            experiment.source,
            match self.seeds {
                1 => "Seed 0".to_string(),
                seeds => format!("Seeds 0 to {}", seeds - 1),
            },
            &record.hash[..12]
        );
        text
    }
}

/// "0.062 ± 0.003".
fn number(mean: f64, deviation: Option<f64>, digits: usize) -> String {
    let deviation = deviation.map_or(String::new(), |d| format!(" ± {d:.digits$}"));
    format!("{mean:.digits$}{deviation}")
}

fn in_short(values: &[f64], digits: usize) -> String {
    let (mean, deviation) = moments(values);
    number(mean, deviation, digits)
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}
