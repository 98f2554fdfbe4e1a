//! `hdse reproduce core-neighbourhood`: what the paper's third proposition says, measured.

use std::path::Path;

use rayon::prelude::*;
use serde_json::json;

use super::output::{Output, object};
use super::progress::Progress;
use crate::experiments::published;
use crate::monitor::{self, Monitor as _};
use crate::report::chart::{self, Axes, Curve};
use crate::report::statistics::moments;
use crate::report::table::{Cell, Table};
use crate::rng::Seed;
use crate::train::core_neighbourhood::{Given, Problem, Setting};
use crate::train::directory::write_text;
use crate::{MemoryLimit, Result};

/// What it is called.
pub(super) const NAME: &str = LISTED[0];

/// As it is listed: name, summary, rows, table, configuration.
pub(super) const LISTED: [&str; 5] =
    ["core-neighbourhood", "labels by core neighbourhoods, learned by one layer", "", "", ""];

const SEEDS: u64 = 5;
/// What is changed one at a time.
const BASE: Setting = Setting { nodes: 1000, labels: 100, margin: 2, noise: 0.0 };

/// An axis: what it is called, and its settings with their places.
type Axis = (&'static str, Vec<(f64, Setting)>);

fn axes() -> [Axis; 4] {
    let nodes = |nodes: usize| (nodes as f64, Setting { nodes, ..BASE });
    let labels = |labels: usize| (labels as f64, Setting { labels, ..BASE });
    let margin = |margin: i32| (f64::from(margin), Setting { margin, ..BASE });
    let noise = |noise: f64| (noise, Setting { noise, ..BASE });
    [
        ("known labels", [25, 50, 100, 200, 400].map(labels).to_vec()),
        ("nodes", [250, 500, 1000, 2000].map(nodes).to_vec()),
        ("winning margin", [1, 2, 3, 4].map(margin).to_vec()),
        ("noise", [0.0, 0.1, 0.2, 0.3, 0.4].map(noise).to_vec()),
    ]
}

/// Accuracies on unknown labels, one for each seed.
struct Measured {
    setting: Setting,
    /// In the order of [`Given::ALL`].
    learned: Vec<Vec<f64>>,
    by_hops: Vec<f64>,
    core: f64,
    hops: f64,
}

pub(super) fn run(page: Option<&Path>, limit: MemoryLimit, output: &Output) -> Result<()> {
    let mut settings: Vec<Setting> = Vec::new();
    for (_, points) in axes() {
        for (_, setting) in points {
            if !settings.contains(&setting) {
                settings.push(setting);
            }
        }
    }
    let jobs: Vec<(Setting, u64)> =
        settings.iter().flat_map(|&setting| (0..SEEDS).map(move |seed| (setting, seed))).collect();
    let progress = Progress::new(jobs.len() as u64, "problems", output);
    let one = |&(setting, seed): &(Setting, u64)| {
        let problem = Problem::new(&setting, Seed(seed), limit)?;
        let learned = Given::ALL.map(|given| problem.learn(given, Seed(seed)));
        monitor::check(&progress)?;
        progress.advance(1);
        Ok((learned, problem.by_hops(), problem.core, problem.hops))
    };
    let done = jobs.par_iter().with_max_len(1).map(one).collect::<Result<Vec<_>>>()?;
    drop(progress);
    let of_seeds = done.chunks_exact(SEEDS as usize);
    let measured = settings.iter().zip(of_seeds).map(|(&setting, seeds)| {
        let each = |number: usize| seeds.iter().map(|of| of.0[number]).collect();
        let [core, hops] = [0, 1].map(|which| {
            let counts = seeds.iter().map(|of| [of.2, of.3][which]);
            counts.sum::<f64>() / SEEDS as f64
        });
        Measured {
            setting,
            learned: (0..Given::ALL.len()).map(each).collect(),
            by_hops: seeds.iter().map(|of| of.1).collect(),
            core,
            hops,
        }
    });
    let found: Vec<Measured> = measured.collect();
    if let Some(page) = page {
        write_text(page, &markdown(&found, page))?;
        write_text(&page.with_extension("svg"), &picture(&found))?;
    }
    output.result(
        || {
            let row = |of: &Measured| {
                let Setting { nodes, labels, margin, noise } = of.setting;
                let learned = Given::ALL.iter().zip(&of.learned);
                let learned = learned.map(|(given, seeds)| (given.name(), json!(seeds)));
                json!({
                    "nodes": nodes, "labels": labels, "margin": margin, "noise": noise,
                    "accuracy": object(learned), "majority_by_hops": of.by_hops,
                    "core_nodes": of.core, "nodes_by_hops": of.hops,
                })
            };
            let fields = [("experiment", json!(NAME)), ("rows", found.iter().map(row).collect())];
            object(fields.into_iter().chain(output.resources()))
        },
        || table(&found).to_text(),
    )
}

fn table(found: &[Measured]) -> Table {
    let names = Given::ALL.map(Given::name);
    let head = ["known labels", "nodes", "margin", "noise"].into_iter().chain(names);
    let head = head.chain(["majority at 2 hops", "core nodes", "nodes at 2 hops"]);
    let accuracy = |seeds: &Vec<f64>| {
        let (mean, deviation) = moments(seeds);
        Cell::Number(format!("{:.1} ± {:.1}", mean * 100.0, deviation.unwrap_or(0.0) * 100.0))
    };
    let row = |of: &Measured| {
        let Setting { nodes, labels, margin, noise } = of.setting;
        let numbers =
            [labels.to_string(), nodes.to_string(), margin.to_string(), noise.to_string()];
        let counts = [of.core, of.hops].map(|count| Cell::Number(format!("{count:.1}")));
        let cells = numbers.map(Cell::Number).into_iter();
        cells
            .chain(of.learned.iter().map(accuracy))
            .chain([accuracy(&of.by_hops)])
            .chain(counts)
            .collect()
    };
    Table { head: head.map(String::from).collect(), rows: found.iter().map(row).collect() }
}

fn markdown(found: &[Measured], page: &Path) -> String {
    let picture = page.with_extension("svg");
    let picture = picture.file_name().unwrap_or_default().to_string_lossy();
    format!(
        "# {NAME}\n\nThe label of a node is what most features say of the nodes two hops away in its own cluster. One layer of attention with a number \
         for every distance learns some labels; in the table is its accuracy on all others, in %, mean ± sample standard deviation over {SEEDS} seeds, \
         each with a graph of its own.\n\nWritten by `hdse reproduce {NAME}`.\n\n![accuracy over each axis]({picture})\n\n{}\n\
         * HDSE and SPD: a learned number for every tuple of distances, or for every hop distance; it starts at minus the sum of the distances, so that near nodes \
         count more. *b from 0*: it starts at 0, so that all nodes count alike.\n\
         * How: the start, the rate and the number of steps were chosen on trial runs of single seeds, on other graphs, by their accuracy on all other nodes, after a start at 0 had failed.\n\
         * No distances: plain attention. Core neighbourhood alone: plain attention, but over those nodes only, which the network is told.\n\
         * Majority at 2 hops: how often most features of all nodes two hops away say what the label is; nothing is learned. HDSE tells those of the own cluster from the others.\n\
         * Margin: how many more features speak for the label than against it, at least; nodes with less have no label. Noise: standard deviation on each number of a feature.\n\
         * Stochastic gradient descent on the hinge loss, 1,500 steps of 32 nodes at a rate of 0.9; planted partitions with communities of 25 nodes, which are the clusters.\n\
         * Paper: {}, proposition 3 and its companion, which state no numbers.\n",
        table(found).to_markdown(),
        published::PAPER
    )
}

/// Four charts in two rows.
fn picture(found: &[Measured]) -> String {
    let of = |setting: &Setting| found.iter().find(|of| of.setting == *setting);
    let charts = axes().map(|(label, points)| {
        let curve = |(number, given): (usize, Given)| {
            let point = |(place, setting): &(f64, Setting)| {
                let (mean, deviation) = moments(&of(setting)?.learned[number]);
                let deviation = deviation.unwrap_or(0.0);
                let ends = [mean - deviation, (mean + deviation).min(1.0)];
                Some([*place, mean * 100.0, ends[0] * 100.0, ends[1] * 100.0])
            };
            Curve { name: given.name().into(), points: points.iter().filter_map(point).collect() }
        };
        let curves: Vec<Curve> = Given::ALL.into_iter().enumerate().map(curve).collect();
        (Axes { x: label, y: "accuracy, %", range: Some([40.0, 102.0]) }, curves)
    });
    chart::grid(&charts, 2)
}
