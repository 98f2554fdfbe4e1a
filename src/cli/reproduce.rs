//! `hdse reproduce`: an experiment of the paper, its numbers beside ours.

use std::path::PathBuf;

use clap::ValueEnum;
use rayon::prelude::*;
use serde_json::json;

use super::output::{Output, object};
use super::progress::Progress;
use super::train::{hash, load, moments, prepare};
use crate::config::Config;
use crate::train::run::{Setting, train};
use crate::{MemoryLimit, Result};

#[derive(clap::Args)]
pub(super) struct Options {
    /// Which experiment
    #[arg(value_enum)]
    experiment: Experiment,
    /// How many seeds for every row
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,
    /// Keep the runs in this folder; they are thrown away otherwise
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Experiment {
    /// Communities of nodes in small graphs, by GT (a minute or two)
    CommunitySmall,
}

/// A row of the table: what it is called, what it changes, and what the paper has.
struct Row {
    name: &'static str,
    changes: &'static [&'static str],
    paper: Option<f64>,
}

const ROWS: &[Row] = &[
    Row { name: "GT", changes: &["model.bias=none"], paper: Some(64.7) },
    Row { name: "GT + SPD", changes: &["model.levels=0"], paper: Some(81.5) },
    Row {
        name: "GT + random partition",
        changes: &["hierarchy.coarsener=random:like=louvain"],
        paper: None,
    },
    Row { name: "GT + HDSE", changes: &[], paper: Some(88.6) },
];

const CONFIG: &str = include_str!("../../configs/gt-community-small.toml");

pub(super) fn run(options: &Options, limit: MemoryLimit, output: &Output) -> Result<()> {
    let Experiment::CommunitySmall = options.experiment;
    let scratch;
    let folder = match &options.output {
        Some(folder) => folder.clone(),
        None => {
            scratch = Scratch::new()?;
            scratch.0.clone()
        }
    };
    let quiet = Progress::new(0, "preparing", output);
    let mut jobs = Vec::new();
    for (number, row) in ROWS.iter().enumerate() {
        let changes: Vec<String> = row.changes.iter().map(|change| change.to_string()).collect();
        let config = Config::parse(CONFIG, "gt-community-small", &changes)?;
        let splits = load(&config, limit)?;
        let examples = prepare(&config, &splits, limit, output)?;
        let hash = hash(&config, &splits.hash)?;
        jobs.push((number, config, examples, hash));
    }
    drop(quiet);
    let steps: u64 = jobs
        .iter()
        .map(|(_, config, examples, _)| {
            config.train.epochs * examples.train.len().div_ceil(config.train.batch_size) as u64
        })
        .sum();
    let progress = Progress::new(steps * options.seeds, "steps", output);
    // One seed on one thread each, so that all cores are used and every run is the same bytes.
    let runs: Vec<(usize, u64)> =
        (0..jobs.len()).flat_map(|job| (0..options.seeds).map(move |seed| (job, seed))).collect();
    let results: Vec<f64> = runs
        .into_par_iter()
        .map(|(job, seed)| {
            let (number, config, examples, hash) = &jobs[job];
            let directory = folder.join(format!("row-{number}"));
            let mut setting = Setting {
                directory: &directory,
                hash,
                limit,
                monitor: &progress,
                report: &mut |_| {},
            };
            Ok(100.0 * train(config, examples, seed, &mut setting)?.test_metric)
        })
        .collect::<Result<_>>()?;
    drop(progress);
    let rows: Vec<(&Row, &[f64])> =
        ROWS.iter().zip(results.chunks(options.seeds as usize)).collect();
    output.result(
        || {
            let rows = rows.iter().map(|(row, values)| {
                let (mean, deviation) = moments(values);
                json!({ "row": row.name, "paper": row.paper, "mean": mean, "deviation": deviation,
                        "values": values })
            });
            let fields = [("experiment", json!("community-small")), ("rows", rows.collect())];
            object(fields.into_iter().chain(output.resources()))
        },
        || table(&rows, options.seeds),
    )
}

fn table(rows: &[(&Row, &[f64])], seeds: u64) -> String {
    let mut text = String::from("accuracy in %           paper  ours\n");
    for (row, values) in rows {
        let (mean, deviation) = moments(values);
        let paper = row.paper.map_or("–".to_string(), |paper| format!("{paper:.1}"));
        let deviation = deviation.map_or(String::new(), |d| format!(" ± {d:.1}"));
        text += &format!("{:<22} {paper:>6}  {mean:.1}{deviation}\n", row.name);
    }
    text += &format!(
        "\ncommunity of every node, up to a swap of the two within each graph; {seeds} seeds, graphs generated here\n"
    );
    text
}

/// A folder that is gone when it is no longer used.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Scratch> {
        let path = std::env::temp_dir().join(format!("hdse-reproduce-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|e| crate::Error::io("cannot make", &path, e))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
