//! What runs came to: tables with tests, learning curves, and the pages made of them.
//!
//! A [`Report`] is made from run directories alone, so the same directories give the same bytes. Runs of one set and metric stand
//! together in a [`Section`]; a run is a [`Line`] with its seeds.
//!
//! | module | what it holds |
//! |---|---|
//! | [`statistics`] | mean ± deviation, Student's t |
//! | [`table`] | a table in text, Markdown, LaTeX and HTML |
//! | [`chart`] | curves as SVG |
//! | [`html`] | the whole report as one web page |
//! | [`page`] | the whole report as Markdown, LaTeX, CSV, JSON or text |
//! | [`results`] | what the runs of an experiment came to, as one small file |

pub mod chart;
pub mod html;
pub mod page;
pub mod results;
pub mod statistics;
pub mod table;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::config::Difference;
use crate::error::unknown;
use crate::experiments::published::Cell;
use crate::experiments::{self, Experiment};
use crate::text::{count, thousands};
use crate::train::Metric;
use crate::train::directory::Outcome;
use crate::train::record::{Cost, Record, read_json};
use crate::{Error, Result};
use results::Results;
use statistics::{Test, moments, paired, welch};

/// Fewer seeds than these say little.
const FEW_SEEDS: usize = 4;

/// What runs came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// What it is called.
    pub title: String,
    /// What it is about, in a sentence, and how it was made: lines of Markdown.
    pub lead: Vec<String>,
    /// Runs of one set and metric each.
    pub sections: Vec<Section>,
}

/// Runs that can be compared.
#[derive(Clone, Debug)]
pub struct Section {
    /// The set.
    pub set: String,
    /// What is measured.
    pub metric: Metric,
    /// Digits after the point.
    pub digits: usize,
    /// The runs.
    pub lines: Vec<Line>,
    /// The line that others are tested against.
    pub baseline: Option<usize>,
    /// What a reader must know.
    pub notes: Vec<String>,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Line {
    /// What it is called.
    pub name: String,
    /// Keys in which it differs from the configuration that it stems from.
    pub changes: Vec<String>,
    /// What was published for it.
    pub published: Option<&'static Cell>,
    /// The run itself.
    pub record: Record,
}

/// What was settled for a folder of an experiment before the first run: file `plan.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The experiment.
    pub experiment: String,
    /// Its rows.
    pub rows: Vec<String>,
    /// Epochs of every run.
    pub epochs: u64,
    /// Seeds of every row.
    pub seeds: u64,
    /// Graphs of every part, if not all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graphs: Option<usize>,
    /// What settled the epochs: `--epochs 25`, `--budget 4`, `--quick`, or nothing for those of the recipe.
    #[serde(default)]
    pub settled_by: String,
    /// The line that makes the table.
    pub command: String,
}

impl Plan {
    /// Where it is in a folder.
    pub fn path(folder: &Path) -> PathBuf {
        folder.join("plan.json")
    }

    /// That of a folder, if it has one.
    pub fn read(folder: &Path) -> Result<Option<Plan>> {
        let path = Plan::path(folder);
        if path.exists() { read_json(&path).map(Some) } else { Ok(None) }
    }

    /// The folder of a row, if it was begun.
    pub fn run(&self, folder: &Path, row: &str) -> Option<PathBuf> {
        Some(folder.join(row)).filter(|run| run.join("config.toml").exists())
    }

    /// This plan with rows and seeds of another one for the same runs.
    pub fn joined(mut self, other: Plan) -> Option<Plan> {
        let settled = |plan: &Plan| {
            (plan.experiment.clone(), plan.epochs, plan.graphs, plan.settled_by.clone())
        };
        if settled(&self) != settled(&other) {
            return None;
        }
        self.seeds = self.seeds.max(other.seeds);
        let new: Vec<String> =
            other.rows.into_iter().filter(|row| !self.rows.contains(row)).collect();
        self.rows.extend(new);
        Some(self)
    }
}

impl Report {
    /// A report on run directories, on folders of them, or on a file of results. `baseline` is the name of the line that others are tested against.
    ///
    /// # Errors
    /// If there is no run, or a file of one is broken, or there is no line of that name.
    pub fn read(paths: &[PathBuf], baseline: Option<&str>) -> Result<Report> {
        if let [file] = paths
            && file.extension().is_some_and(|end| end == "json")
        {
            return Report::of_results(&Results::read(file)?, baseline);
        }
        if let [folder] = paths
            && let Some(plan) = Plan::read(folder)?
        {
            return Report::of_folder(folder, &plan, baseline);
        }
        let mut directories = Vec::new();
        for path in paths {
            let found = runs(path);
            if found.is_empty() {
                let reason = "there is no run in it; name folders that `hdse train` or `hdse reproduce` made";
                return Err(Error::io("cannot report on", path, reason));
            }
            directories.extend(
                found.into_iter().filter(|found| !directories.contains(found)).collect::<Vec<_>>(),
            );
        }
        let names = names(&directories);
        let mut sections: Vec<Section> = Vec::new();
        for (directory, name) in directories.iter().zip(names) {
            let record = Record::read(directory)?;
            let (set, metric) = (record.config.data.set.clone(), record.config.train.metric);
            let place =
                sections.iter().position(|section| section.set == set && section.metric == metric);
            let place = place.unwrap_or_else(|| {
                let digits = if metric.is_percent() { 2 } else { 4 };
                sections.push(Section {
                    set,
                    metric,
                    digits,
                    lines: Vec::new(),
                    baseline: None,
                    notes: Vec::new(),
                });
                sections.len() - 1
            });
            sections[place].lines.push(Line { name, changes: Vec::new(), published: None, record });
        }
        for section in &mut sections {
            section.changes()?;
            section.notes.extend(section.conditions());
        }
        let mut report = Report { title: "Runs".into(), lead: Vec::new(), sections };
        report.choose(baseline)?;
        Ok(report)
    }

    /// A report on the folder of an experiment: its runs so far beside what was published.
    pub fn of_folder(folder: &Path, plan: &Plan, baseline: Option<&str>) -> Result<Report> {
        let record = |row: &str| {
            let run = plan.run(folder, row);
            let mut record = run.map(|run| Record::read(&run)).transpose()?;
            record.iter_mut().for_each(|record| record.seeds.retain(|seed| seed.seed < plan.seeds));
            Ok(record)
        };
        Report::of_experiment(plan, record, baseline)
    }

    /// The same on results that were kept in a file.
    pub fn of_results(results: &Results, baseline: Option<&str>) -> Result<Report> {
        Report::of_experiment(&results.plan, |row| Ok(results.record(row)), baseline)
    }

    fn of_experiment(
        plan: &Plan,
        record: impl Fn(&str) -> Result<Option<Record>>,
        baseline: Option<&str>,
    ) -> Result<Report> {
        let experiment = experiments::by_name(&plan.experiment)?;
        let rows = experiment.choose(&plan.rows)?;
        let (mut lines, mut missing) = (Vec::new(), Vec::new());
        for row in &rows {
            let (name, changes) = (row.name.clone(), row.changes.clone());
            match record(&row.id)? {
                Some(record) => {
                    lines.push(Line { name, changes, published: row.published, record });
                }
                None => missing.push(name),
            }
        }
        let Some(first) = lines.first() else {
            return Err(Error::data(format!("no row of `{}` has been begun", plan.experiment)));
        };
        let (set, metric) =
            (first.record.config.data.set.clone(), first.record.config.train.metric);
        let digits = experiment.digits();
        let mut section = Section { set, metric, digits, lines, baseline: None, notes: Vec::new() };
        section.notes.extend(Some(experiment.remark.clone()).filter(|remark| !remark.is_empty()));
        section.notes.extend(section.conditions());
        section.notes.push(format!("Paper: {}.", experiment.source()));
        if !missing.is_empty() {
            section.notes.push(format!("Still to be run: {}.", missing.join(", ")));
        }
        let mut report = Report {
            title: experiment.name.clone(),
            lead: lead(experiment, plan),
            sections: vec![section],
        };
        let usual = baseline.or_else(|| {
            rows.iter()
                .find(|row| row.id == "off" || row.id == "no-hdse")
                .map(|row| row.name.as_str())
        });
        report.choose(usual)?;
        Ok(report)
    }

    /// Sets the line that others are tested against.
    fn choose(&mut self, baseline: Option<&str>) -> Result<()> {
        let Some(name) = baseline else { return Ok(()) };
        for section in &mut self.sections {
            section.baseline = section.lines.iter().position(|line| line.is_called(name));
        }
        if self.sections.iter().any(|section| section.baseline.is_some()) {
            return Ok(());
        }
        let names: Vec<&str> = self
            .sections
            .iter()
            .flat_map(|section| &section.lines)
            .map(|line| line.name.as_str())
            .collect();
        let all = format!("there are {}", names.join(", "));
        Err(unknown("run", name, names.iter().copied(), &all))
    }
}

/// What an experiment is about, and how its page came to be.
fn lead(experiment: &Experiment, plan: &Plan) -> Vec<String> {
    let mut letters = experiment.summary.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    let changes: Vec<String> =
        experiment.changes.iter().map(|change| format!("`{change}`")).collect();
    let changes =
        if changes.is_empty() { String::new() } else { format!(" with {}", changes.join(" ")) };
    vec![
        format!("{}{}.", first.unwrap_or_default(), letters.as_str()),
        format!(
            "Written by `{}` from [configs/{file}.toml](../../configs/{file}.toml){changes}.",
            plan.command,
            file = experiment.config,
        ),
    ]
}

/// Run directories in a folder, itself or below, by name.
fn runs(folder: &Path) -> Vec<PathBuf> {
    if folder.join("config.toml").is_file() {
        return vec![folder.to_path_buf()];
    }
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut below: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    below.sort();
    below.iter().flat_map(|folder| runs(folder)).collect()
}

/// What runs are called: their folders, with as much of the path as tells them apart.
fn names(directories: &[PathBuf]) -> Vec<String> {
    let tail = |path: &Path, parts: usize| -> String {
        let all: Vec<_> =
            path.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
        all[all.len().saturating_sub(parts)..].join("/")
    };
    let longest = directories.iter().map(|path| path.components().count()).max().unwrap_or(1);
    let tell = |parts: &usize| {
        let mut names: Vec<String> = directories.iter().map(|path| tail(path, *parts)).collect();
        names.sort();
        names.windows(2).all(|pair| pair[0] != pair[1])
    };
    let parts = (1..=longest).find(tell).unwrap_or(longest);
    directories.iter().map(|path| tail(path, parts)).collect()
}

impl Section {
    /// By what results are multiplied for print.
    pub fn scale(&self) -> f64 {
        if self.metric.is_percent() { 100.0 } else { 1.0 }
    }

    /// Results of a line as they are printed.
    pub fn tests(&self, line: &Line) -> Vec<f64> {
        line.record.outcomes().map(|outcome| outcome.test_metric * self.scale()).collect()
    }

    /// A difference as a lead: positive is better.
    fn lead(&self, difference: f64) -> f64 {
        if self.metric.larger_is_better() { difference } else { -difference }
    }

    /// Whether a line is better than the one it is tested against, seed by seed.
    pub fn against_baseline(&self, line: &Line) -> Option<Test> {
        let baseline = &self.lines[self.baseline?];
        if std::ptr::eq(baseline, line) || !line.has_data_of(baseline) {
            return None;
        }
        let differences: Vec<f64> = line
            .record
            .outcomes()
            .filter_map(|ours| {
                let same = |other: &&Outcome| other.seed == ours.seed && other.split == ours.split;
                let other = baseline.record.outcomes().find(same)?;
                Some(self.lead(ours.test_metric - other.test_metric))
            })
            .collect();
        paired(&differences)
    }

    /// Whether a line is better than what was published for it.
    pub fn against_paper(&self, line: &Line) -> Option<Test> {
        let cell = line.published?;
        let (mean, deviation) = cell.numbers()?;
        let ours: Vec<f64> = self.tests(line).iter().map(|&test| self.lead(test)).collect();
        welch(&ours, self.lead(mean), deviation?, cell.runs?)
    }

    /// What was published subtracted from ours.
    pub fn difference(&self, line: &Line) -> Option<f64> {
        let tests = self.tests(line);
        let (mean, _) = line.published?.numbers()?;
        (!tests.is_empty()).then(|| moments(&tests).0 - mean)
    }

    /// Gives every line the keys in which it differs from the first.
    fn changes(&mut self) -> Result<()> {
        let Some(first) = self.lines.first().map(|line| line.record.config.clone()) else {
            return Ok(());
        };
        for line in &mut self.lines {
            let differences = first.differences(&line.record.config)?;
            let word = |(key, _, value): &Difference| match value {
                Some(value) => format!("{key}={value}"),
                None => format!("{key} unset"),
            };
            let differences = differences.iter().filter(|(key, ..)| key != "data.path");
            line.changes = differences.map(word).collect();
        }
        Ok(())
    }

    /// What a reader must know of data, schedules and seeds.
    fn conditions(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let mut note = |text: String| {
            if !notes.contains(&text) {
                notes.push(text);
            }
        };
        for line in &self.lines {
            note(match &line.record.data.label {
                Some(label) => format!("Data: {}, {label}.", self.set),
                None => format!("Data: {}, as published.", self.set),
            });
        }
        for line in &self.lines {
            let train = &line.record.config.train;
            if let Some(from) = train.shortened_from {
                note(format!(
                    "{} instead of the recipe's {}, warm-up in proportion: not comparable with published numbers.",
                    count(train.epochs, "epoch"),
                    thousands(from)
                ));
            }
        }
        notes
    }

    /// What makes numbers doubtful.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let finished = |line: &Line| line.record.outcomes().count();
        // Rows without any are named below.
        let begun = self.lines.iter().map(finished).filter(|&seeds| seeds > 0);
        if let Some(least) = begun.min()
            && least < FEW_SEEDS
        {
            warnings.push(format!(
                "Fewer than {FEW_SEEDS} seeds ({least}): deviations and tests say little."
            ));
        }
        for line in &self.lines {
            let (done, all) = (finished(line), line.record.seeds.len());
            if done < all {
                warnings.push(format!("{}: {done} of {all} seeds are finished.", line.name));
            }
        }
        let Some(first) = self.lines.first() else { return warnings };
        for line in &self.lines {
            if !line.has_data_of(first) {
                warnings
                    .push(format!("{} was trained on other data than {}.", line.name, first.name));
            } else if !line.record.outcomes().all(|ours| {
                let mut same = first.record.outcomes().filter(|other| other.seed == ours.seed);
                same.all(|other| other.split == ours.split)
            }) {
                warnings.push(format!(
                    "{} was trained on other splits than {}.",
                    line.name, first.name
                ));
            }
            let (ours, theirs) =
                (line.record.config.train.epochs, first.record.config.train.epochs);
            if ours != theirs {
                warnings
                    .push(format!("{} has {ours} epochs, {} has {theirs}.", line.name, first.name));
            }
        }
        warnings
    }
}

impl Line {
    /// Whether both were trained and tested on the same graphs.
    fn has_data_of(&self, other: &Line) -> bool {
        let graphs = |line: &Line| (line.record.data.clone(), line.record.config.data.graphs);
        graphs(self) == graphs(other)
    }

    fn is_called(&self, name: &str) -> bool {
        self.name == name || self.record.name == name
    }

    /// What its seeds have cost, those that have come to the end of an epoch.
    fn costs(&self) -> impl Iterator<Item = Cost> {
        self.record.seeds.iter().filter_map(|seed| seed.cost).filter(|cost| cost.epochs > 0)
    }

    /// Seconds of an epoch, evaluation included: of the processor where that is known.
    pub fn seconds_per_epoch(&self) -> Option<f64> {
        let each: Vec<f64> = self
            .costs()
            .map(|cost| cost.cpu_seconds.unwrap_or(cost.seconds) / cost.epochs as f64)
            .collect();
        (!each.is_empty()).then(|| moments(&each).0)
    }

    /// The most memory of a process that trained it.
    pub fn peak_bytes(&self) -> Option<u64> {
        self.costs().filter_map(|cost| cost.peak_bytes).max()
    }
}
