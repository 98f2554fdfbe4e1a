//! `hdse predict`: what a trained model says of new graphs.

use std::io::Write as _;
use std::path::PathBuf;

use serde_json::json;

use super::output::{Output, count, object};
use super::progress::Progress;
use super::train::{DataRecord, open, trained};
use crate::data::{AtomicFile, ReadOptions, read};
use crate::nn::{Batch, Pass, values};
use crate::train::examples::examples;
use crate::{Error, MemoryLimit, Result};

#[derive(clap::Args)]
pub(super) struct Options {
    /// The folder of a finished run
    run: PathBuf,
    /// Graphs with the features that the model reads
    input: String,
    /// The file to write: a line of JSON for every graph
    #[arg(long, short, value_name = "OUT")]
    output: PathBuf,
    /// Which seed of the run; its first by default
    #[arg(long)]
    seed: Option<u64>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

pub(super) fn run(options: &Options, limit: MemoryLimit, output: &Output) -> Result<()> {
    let (directory, config, seeds) = open(&options.run)?;
    let seed = options.seed.unwrap_or(seeds.first);
    let hash = super::train::hash(&config, &DataRecord::read(&directory)?.hash)?;
    let model = trained(&config, &hash, &directory, seed)?;
    let read_options = ReadOptions { limit, ..ReadOptions::default() };
    let samples = read(&options.input, &read_options)?.samples;
    let progress = Progress::new(samples.len() as u64, "graphs", output);
    let examples = examples(&config, &samples, 0, limit, &progress)?;
    drop(progress);

    let progress = Progress::new(examples.len() as u64, "graphs", output);
    let mut file = AtomicFile::create(&options.output, options.force)?;
    let problem = |e| Error::io("cannot write", &options.output, e);
    for (number, chunk) in examples.chunks(config.train.batch_size).enumerate() {
        crate::monitor::check(&progress)?;
        let batch = Batch { targets: None, ..Batch::merge(&chunk.iter().collect::<Vec<_>>())? };
        let pass = Pass::eval(&model.parameters).limited(limit);
        let rows = values(model.backbone.forward(&pass, &batch)?);
        let mut rows = rows.chunks_exact(config.model.outputs);
        let node_level = config.model.pool == crate::nn::config::Pool::None;
        for (i, &size) in batch.sizes.iter().enumerate() {
            let take = if node_level { size } else { 1 };
            let predictions: Vec<&[f32]> = rows.by_ref().take(take).collect();
            let graph = number * config.train.batch_size + i;
            let line = match node_level {
                true => json!({ "graph": graph, "predictions": predictions }),
                false => json!({ "graph": graph, "prediction": predictions[0] }),
            };
            file.write_all(format!("{line}\n").as_bytes()).map_err(problem)?;
        }
        crate::monitor::Monitor::advance(&progress, chunk.len() as u64);
    }
    file.commit()?;
    drop(progress);
    let (path, graphs) = (options.output.display().to_string(), examples.len() as u64);
    output.result(
        || {
            let fields = [("output", json!(path)), ("graphs", json!(graphs))];
            object(fields.into_iter().chain(output.resources()))
        },
        || format!("wrote {path}: predictions of {}\n", count(graphs, "graph")),
    )
}
