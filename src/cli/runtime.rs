//! `hdse reproduce coarsening-runtime`: how long the paper's coarseners take on whole sets, distances included.

use std::path::Path;

use rayon::prelude::*;
use serde_json::json;

use super::output::{Output, object, thousands};
use super::progress::Progress;
use super::usage;
use crate::data::Sample;
use crate::data::sets::{self, LoadOptions};
use crate::distance::{Distances, MaxDistance};
use crate::encode::{Encoder, Partitions};
use crate::experiments::published::{self, PAPER};
use crate::monitor::{Monitor as _, check};
use crate::rng::Seed;
use crate::train::Environment;
use crate::train::directory::write_text;
use crate::{Error, MemoryLimit, Result, coarsen};

/// What it is called.
pub(super) const NAME: &str = LISTED[0];

/// As it is listed: name, summary, rows, table, configuration.
pub(super) const LISTED: [&str; 5] =
    ["coarsening-runtime", "how long the paper's coarseners take on whole sets", "", "17", ""];

/// Sets of the paper's table.
const SETS: [&str; 4] = ["zinc", "pattern", "mnist", "peptides-func"];

/// All coarseners of the paper; the first three are in its table.
const COARSENERS: [&str; 5] = ["metis", "newman", "louvain", "spectral", "loukas"];

/// A cell of the table.
struct Time {
    /// Processor time for all graphs at hand.
    seconds: f64,
    /// How many.
    graphs: usize,
    /// And in the whole set.
    published: usize,
}

impl Time {
    /// For the whole set, if its other graphs are like those at hand.
    fn whole(&self) -> f64 {
        self.seconds * self.published as f64 / self.graphs as f64
    }
}

pub(super) fn run(page: Option<&Path>, limit: MemoryLimit, output: &Output) -> Result<()> {
    let mut labels = Vec::new();
    let mut rows: Vec<(&str, Vec<Time>)> = Vec::new();
    for name in SETS {
        let set = sets::by_name(name)?;
        let options = LoadOptions { limit, ..LoadOptions::of_user() };
        let splits = match set.load(&options) {
            Ok(splits) => splits,
            // Not at hand. What is there must be right.
            Err(error) if error.is_config() => {
                output.note(&format!("{name} is left out: {error:#}"));
                continue;
            }
            Err(error) => return Err(error),
        };
        labels.extend(splits.label.as_ref().map(|label| format!("{name}: {label}.")));
        let published = set.entry().published.graphs.iter().sum();
        let samples = splits.into_samples();
        let mut times = Vec::new();
        for coarsener in COARSENERS {
            let seconds = measure(coarsener, &samples, limit, output)?;
            let time = Time { seconds, graphs: samples.len(), published };
            output.note(&format!("{name}, {coarsener}: {}", human(time.whole())));
            times.push(time);
        }
        rows.push((name, times));
    }
    if rows.is_empty() {
        return Err(Error::config(
            "none of the sets is at hand; `hdse data import` takes their files",
        ));
    }
    if let Some(page) = page {
        write_text(page, &markdown(&rows, &labels))?;
    }
    output.result(
        || {
            let row = |(name, times): &(&str, Vec<Time>)| {
                let of = |(coarsener, time): (&&str, &Time)| {
                    let value = json!({ "cpu_seconds": time.seconds, "graphs": time.graphs, "whole_set": time.whole() });
                    (coarsener.to_string(), value)
                };
                let times = COARSENERS.iter().zip(times).map(of).collect::<serde_json::Map<_, _>>();
                json!({ "set": name, "times": times })
            };
            let fields = [("experiment", json!(NAME)), ("rows", rows.iter().map(row).collect())];
            object(fields.into_iter().chain(output.resources()))
        },
        || markdown(&rows, &labels),
    )
}

/// Processor time to coarsen all graphs once and to measure both levels.
fn measure(name: &str, samples: &[Sample], limit: MemoryLimit, output: &Output) -> Result<f64> {
    let encoder = Encoder {
        partitions: Partitions::Coarsener(coarsen::parse(name)?),
        levels: 1,
        max_distance: MaxDistance::default(),
        seed: Seed(0),
        limit,
    };
    let progress = Progress::new(samples.len() as u64, &format!("graphs by {name}"), output);
    let before = usage::now().cpu_seconds;
    samples.par_iter().enumerate().try_for_each(|(number, sample)| {
        check(&progress)?;
        let hierarchy = encoder.hierarchy(&sample.graph, number, &progress)?;
        Distances::new(&sample.graph, &hierarchy, &encoder.max_distance, limit)?;
        progress.advance(1);
        Ok::<(), Error>(())
    })?;
    Ok(usage::now().cpu_seconds - before)
}

fn markdown(rows: &[(&str, Vec<Time>)], labels: &[String]) -> String {
    let mut text = format!(
        "# {NAME}\n\nProcessor time to coarsen all graphs of a set and to measure the distances of both levels, "
    );
    text += "for the number of graphs in the published set; in brackets what the paper has.\n\n";
    text += &format!("Written by `hdse reproduce {NAME} --page {NAME}.md`.\n\n");
    text += &format!("| | graphs | here | {} |\n", COARSENERS.join(" | "));
    text += &format!("|---|---|---|{}\n", "---|".repeat(COARSENERS.len()));
    for (name, times) in rows {
        let cell = |(coarsener, time): (&&str, &Time)| {
            let paper = published::find(17, name, coarsener).map_or(String::new(), |cell| {
                format!(" ({} {})", cell.mean, if cell.quantity == "hours" { "h" } else { "s" })
            });
            format!("{}{paper}", human(time.whole()))
        };
        let cells: Vec<String> = COARSENERS.iter().zip(times).map(cell).collect();
        let (graphs, published) =
            times.first().map_or((0, 0), |time| (time.graphs, time.published));
        text += &format!(
            "| {name} | {} | {} | {} |\n",
            thousands(published as u64),
            thousands(graphs as u64),
            cells.join(" | ")
        );
    }
    let environment = Environment::collect(rayon::current_num_threads(), &[], 0);
    let processor = environment.cpu.unwrap_or_else(|| environment.arch.clone());
    text += &format!(
        "\n* One core of {processor}. Coarseners with their defaults (`hdse list coarseners`).\n"
    );
    text += &format!("* Paper: {PAPER}, table 17 (coarsening runtime); processor not stated.\n");
    text += "* Where fewer graphs are at hand than published, times are scaled to the published number.\n";
    for label in labels {
        text += &format!("* {label}\n");
    }
    text
}

/// "31 s", "4.2 min", "1.6 h".
fn human(seconds: f64) -> String {
    match seconds {
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.1} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}
