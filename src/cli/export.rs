//! `hdse export`: a trained model as files that others can read.

use std::path::PathBuf;

use serde_json::json;

use super::output::{Output, object, thousands};
use super::train::trained;
use crate::train::directory::{SeedDirectory, write_json, write_text};
use crate::train::record::{DataRecord, hash, open};
use crate::{Error, Result};

#[derive(clap::Args)]
pub(super) struct Options {
    /// The folder of a finished run
    run: PathBuf,
    /// The folder to write; RUN/export by default
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Which seed of the run; its first by default
    #[arg(long)]
    seed: Option<u64>,
}

pub(super) fn run(options: &Options, output: &Output) -> Result<()> {
    let directory = &options.run;
    let (config, seeds) = open(directory)?;
    let seed = options.seed.unwrap_or(seeds.first);
    let data = DataRecord::read(directory)?;
    let model = trained(&config, &hash(&config, &data.hash)?, directory, seed)?;
    let outcome = SeedDirectory::create(directory, seed)?.outcome()?;
    let folder = options.output.clone().unwrap_or_else(|| directory.join("export"));
    std::fs::create_dir_all(&folder).map_err(|e| Error::io("cannot make", &folder, e))?;
    model.save(&folder.join("model.safetensors"), true)?;
    write_json(&folder.join("config.json"), &config)?;
    let metric = config.train.metric.name();
    let result = outcome.map_or("This run is not finished.".to_string(), |outcome| {
        format!(
            "Test {metric} {:.4}, validation {metric} {:.4}, at epoch {} of {} (best by validation), seed {seed}.",
            outcome.test_metric, outcome.val_metric, outcome.best_epoch, config.train.epochs
        )
    });
    let label = data.label.map_or(String::new(), |label| format!(" ({label})"));
    let card = format!(
        "# {} on {}\n\n{} parameters, distance bias `{}` with {} level(s) above the graph, coarsener `{}`.\n\n\
         Data: {}{label}. {result}\n\n\
         `model.safetensors` has PyTorch's parameter names and layouts, and the model's configuration as metadata;\n\
         `hdse::nn::Model::open` reads it. `config.json` is the whole experiment.\n",
        config.model.backbone,
        config.data.set,
        thousands(model.parameters.count() as u64),
        serde_json::to_value(config.model.bias)
            .ok()
            .and_then(|v| v.as_str().map(String::from))
            .unwrap_or_default(),
        config.model.levels,
        config.hierarchy.coarsener,
        config.data.set,
    );
    write_text(&folder.join("README.md"), &card)?;
    let path = folder.display().to_string();
    output.result(
        || object([("output", json!(path)), ("seed", json!(seed))]),
        || format!("wrote model.safetensors, config.json and README.md to {path}\n"),
    )
}
