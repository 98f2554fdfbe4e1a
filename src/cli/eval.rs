//! `hdse eval`: a trained model on a part of its set again.

use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;
use serde_json::json;

use super::examples::Loaded;
use super::output::{Output, object};
use super::progress::Progress;
use super::train::trained;
use crate::nn::fused::Team;
use crate::report::statistics::moments;
use crate::train::examples::Part;
use crate::train::record::{hash, open};
use crate::train::run::{Setting, evaluate};
use crate::{MemoryLimit, Result};

#[derive(clap::Args)]
pub(super) struct Options {
    /// The folder of a finished run
    run: PathBuf,
    /// Which part of the set
    #[arg(long, value_enum, default_value = "test")]
    split: Split,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Split {
    Train,
    Val,
    Test,
}

pub(super) fn run(options: &Options, limit: MemoryLimit, output: &Output) -> Result<()> {
    let directory = &options.run;
    let (config, seeds) = open(directory)?;
    let set = Loaded::read(&config, limit)?;
    let record = set.record();
    record.check(directory)?;
    let examples = set.prepare(&config, limit, output)?;
    let limit = limit.beside(examples.bytes());
    let hash = hash(&config, &record.hash)?;
    let part = match options.split {
        Split::Train => Part::Train,
        Split::Val => Part::Val,
        Split::Test => Part::Test,
    };
    let progress = Progress::new(0, "evaluating", output);
    let team = Arc::new(Team::current()?);
    let mut rows = Vec::new();
    for seed in seeds.all() {
        let model = trained(&config, &hash, directory, seed)?;
        let setting = Setting {
            directory,
            hash: &hash,
            limit,
            team: &team,
            monitor: &progress,
            report: &mut |_| {},
        };
        let examples = examples.of_seed(seed)?;
        let found = evaluate(&config, &model, examples.batches(), part, &setting)?;
        rows.push((seed, found));
    }
    drop(progress);
    let metric = config.train.metric.name();
    let (mean, deviation) = moments(&rows.iter().map(|(_, row)| row.metric).collect::<Vec<_>>());
    output.result(
        || {
            let rows = rows
                .iter()
                .map(|(seed, row)| json!({ "seed": seed, "loss": row.loss, "metric": row.metric }));
            let fields = [
                ("split", json!(part.name())),
                ("metric", json!(metric)),
                ("rows", rows.collect()),
                ("mean", json!(mean)),
                ("deviation", json!(deviation)),
                ("label", json!(record.label)),
            ];
            object(fields.into_iter().chain(output.resources()))
        },
        || {
            let mut text = format!("seed      loss  {metric}\n");
            for (seed, row) in &rows {
                text += &format!("{seed:>4}  {:>8.4}  {:.4}\n", row.loss, row.metric);
            }
            let deviation = deviation.map_or(String::new(), |d| format!(" ± {d:.4}"));
            text + &format!("\n{metric} {mean:.4}{deviation}\n")
        },
    )
}
