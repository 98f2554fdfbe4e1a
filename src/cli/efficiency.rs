//! `hdse reproduce efficiency`: what an epoch takes with HDSE and without, beside the paper's times on a graphics card.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;

use super::examples::Loaded;
use super::output::{Output, object};
use super::progress::Progress;
use super::usage;
use crate::experiments::{self, published};
use crate::nn::fused::Team;
use crate::report::page::{bytes, seconds};
use crate::report::table::{Cell, Table};
use crate::train::Environment;
use crate::train::directory::write_text;
use crate::train::pace::pace;
use crate::{Error, MemoryLimit, Result};

/// What it is called.
pub(super) const NAME: &str = LISTED[0];

/// As it is listed: name, summary, rows, table, configuration.
pub(super) const LISTED: [&str; 5] =
    ["efficiency", "what an epoch takes with HDSE and without", "", "6", ""];

/// Experiments, and the rows that are measured.
const ROWS: [(&str, &[&str]); 9] = [
    ("pubmed-goat", &["sgformer", "no-hdse", "hdse"]),
    ("ogbn-proteins-goat", &["sgformer", "no-hdse", "hdse"]),
    ("ogbn-arxiv-goat", &["sgformer", "no-hdse", "hdse"]),
    ("zinc-gps", &["off", "hdse"]),
    ("mnist-gps", &["off", "hdse"]),
    ("cifar10-gps", &["off", "hdse"]),
    ("pattern-gps", &["off", "hdse"]),
    ("cluster-gps", &["off", "hdse"]),
    ("peptides-func-gps", &["off", "hdse"]),
];

struct Measured {
    set: String,
    name: String,
    paper: Option<String>,
    seconds: f64,
    peak_bytes: Option<u64>,
    label: Option<String>,
}

pub(super) fn run(page: Option<&Path>, limit: MemoryLimit, output: &Output) -> Result<()> {
    let mut found = Vec::new();
    let mut left_out = Vec::new();
    let team = Arc::new(Team::current()?);
    for (name, ids) in ROWS {
        let experiment = experiments::by_name(name)?;
        for &id in ids {
            let Some(row) = experiment.row(id) else { continue };
            let config = row.config(experiment)?;
            let set = config.data.set.clone();
            let loaded = match Loaded::read(&config, limit) {
                Ok(loaded) => loaded,
                // Not at hand. What is there must be right.
                Err(error) if error.is_config() => {
                    output.detail(|| format!("{set} is left out: {error:#}"));
                    left_out.push(set);
                    break;
                }
                Err(error) => return Err(error),
            };
            let label = loaded.record().label;
            let examples = loaded.prepare(&config, limit, output)?;
            let examples = examples.of_seed(0)?;
            let apart = usage::forget_peak();
            let progress = Progress::new(0, &format!("steps of {name}, {id}"), output);
            let seconds = pace(&config, examples.batches(), limit, &team, &progress)?;
            drop(progress);
            let peak_bytes = apart.then(|| usage::now().peak_rss_bytes);
            let paper = match published::find(6, &set, &row.name) {
                Some(cell) if cell.quantity.starts_with("milliseconds") => {
                    cell.mean.parse::<f64>().ok().map(|time| format!("{:.4}", time / 1e3))
                }
                Some(cell) => Some(cell.mean.to_string()),
                None => None,
            };
            output.note(&format!("{set}, {}: {seconds:.3} s per epoch", row.name));
            found.push(Measured { set, name: row.name.clone(), paper, seconds, peak_bytes, label });
        }
    }
    if found.is_empty() {
        return Err(Error::config("none of the sets is at hand; `hdse data fetch` gets them"));
    }
    if let Some(page) = page {
        write_text(page, &markdown(&found, &left_out, team.size()))?;
    }
    output.result(
        || {
            let row = |of: &Measured| {
                json!({
                    "set": of.set, "name": of.name, "published_seconds": of.paper, "seconds": of.seconds,
                    "peak_bytes": of.peak_bytes, "label": of.label,
                })
            };
            let fields = [("experiment", json!(NAME)), ("rows", found.iter().map(row).collect())];
            object(fields.into_iter().chain(output.resources()))
        },
        || table(&found).to_text(),
    )
}

fn table(found: &[Measured]) -> Table {
    let head = ["", "set", "paper, s", "here, s", "ratio to the first", "memory"];
    let row = |of: &Measured| {
        let first = found
            .iter()
            .find(|other| other.set == of.set)
            .map_or(of.seconds, |first| first.seconds);
        vec![
            Cell::Text(of.name.clone()),
            Cell::Text(of.set.clone()),
            Cell::Number(of.paper.clone().unwrap_or_else(|| "–".into())),
            Cell::Number(seconds(of.seconds)),
            Cell::Number(format!("{:.2}", of.seconds / first)),
            Cell::Number(of.peak_bytes.map_or("–".into(), bytes)),
        ]
    };
    Table { head: head.map(String::from).to_vec(), rows: found.iter().map(row).collect() }
}

fn markdown(found: &[Measured], left_out: &[String], threads: usize) -> String {
    let environment = Environment::collect(threads, &[], 0);
    let processor = environment.cpu.unwrap_or_else(|| environment.arch.clone());
    let mut text = format!(
        "# {NAME}\n\nSeconds of an epoch, validation included, extrapolated from some seconds of it.\n\nWritten by `hdse reproduce {NAME}`.\n\n{}\n",
        table(found).to_markdown()
    );
    text += &format!(
        "* Here: {threads} threads of {processor}. Paper: {}, table 6 (efficiency) and text, an RTX 3090.\n",
        published::PAPER
    );
    text += "* Memory: the most of the process while it was measured, its data included.\n";
    let mut labels: Vec<String> = Vec::new();
    for of in found {
        let label = of.label.as_ref().map(|label| format!("* {}: {label}.\n", of.set));
        labels.extend(label.filter(|label| !labels.contains(label)));
    }
    text += &labels.concat();
    if !left_out.is_empty() {
        text += &format!("* Not at hand: {}.\n", left_out.join(", "));
    }
    text
}
