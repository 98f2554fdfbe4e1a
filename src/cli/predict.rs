//! `hdse predict`: what a trained model says of new graphs.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use super::input::refuse_same;
use super::output::{Output, count, object};
use super::progress::Progress;
use super::train::{DataRecord, open, trained};
use crate::data::{AtomicFile, ReadOptions, read};
use crate::nn::config::Pool;
use crate::nn::fused::Team;
use crate::nn::{Batch, Pass, values};
use crate::train::Loss;
use crate::train::examples::examples;
use crate::{Error, MemoryLimit, Result};

#[derive(clap::Args)]
pub(super) struct Options {
    /// The folder of a finished run
    run: PathBuf,
    /// Graphs with the features that the model reads
    input: String,
    /// The file to write: .jsonl with a line for every graph, .csv or .parquet with a row for every prediction
    #[arg(long, short, value_name = "OUT")]
    output: PathBuf,
    /// Which seed of the run; its first by default
    #[arg(long)]
    seed: Option<u64>,
    /// Probabilities instead of the model's own numbers, for classes and labels
    #[arg(long)]
    probabilities: bool,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

/// Predictions of all graphs, row by row.
struct Table {
    /// Numbers of a row.
    outputs: usize,
    /// The graph of every row.
    graphs: Vec<u32>,
    /// Its node, where predictions are about nodes.
    nodes: Option<Vec<u32>>,
    /// All rows, one after another.
    values: Vec<f32>,
}

pub(super) fn run(options: &Options, limit: MemoryLimit, output: &Output) -> Result<()> {
    let (directory, config, seeds) = open(&options.run)?;
    let write = writer(&options.output)?;
    if options.probabilities && config.train.loss == Loss::L1 {
        return Err(Error::config(
            "`--probabilities` is for classes and labels, but this model predicts numbers; leave it out",
        ));
    }
    let seed = options.seed.unwrap_or(seeds.first);
    let hash = super::train::hash(&config, &DataRecord::read(&directory)?.hash)?;
    let model = trained(&config, &hash, &directory, seed)?;
    let read_options = ReadOptions { limit, ..ReadOptions::default() };
    let samples = read(&options.input, &read_options)?.samples;
    refuse_same(Path::new(&options.input), &options.output)?;
    let file = AtomicFile::create(&options.output, options.force)?;
    let progress = Progress::new(samples.len() as u64, "graphs", output);
    let examples = examples(&config, &samples, 0, limit, &progress)
        .map_err(|e| if e.is_interrupted() { e } else { e.context(options.input.clone()) })?;
    drop(progress);

    let progress = Progress::new(examples.len() as u64, "graphs", output);
    let team = Arc::new(Team::current()?);
    let is_node = config.model.pool == Pool::None;
    let mut table = Table {
        outputs: config.model.outputs,
        graphs: Vec::new(),
        nodes: is_node.then(Vec::new),
        values: Vec::new(),
    };
    for (number, chunk) in examples.chunks(config.train.batch_size).enumerate() {
        crate::monitor::check(&progress)?;
        let batch = Batch { targets: None, ..Batch::merge(&chunk.iter().collect::<Vec<_>>())? };
        let pass = Pass::eval(&model.parameters).limited(limit).by(&team).fused(config.train.fused);
        table.values.extend(values(model.backbone.forward(&pass, &batch)?));
        for (i, &size) in batch.sizes.iter().enumerate() {
            let graph = (number * config.train.batch_size + i) as u32;
            let rows = if is_node { size as u32 } else { 1 };
            table.graphs.extend((0..rows).map(|_| graph));
            table.nodes.iter_mut().for_each(|nodes| nodes.extend(0..rows));
        }
        crate::monitor::Monitor::advance(&progress, chunk.len() as u64);
    }
    if options.probabilities {
        probabilities(config.train.loss, &mut table);
    }
    write(&table, file)?;
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

/// Softmax of the rows of classes, the logistic function of labels.
fn probabilities(loss: Loss, table: &mut Table) {
    match loss {
        Loss::L1 => {}
        Loss::CrossEntropy | Loss::WeightedCrossEntropy => {
            for row in table.values.chunks_exact_mut(table.outputs) {
                let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                row.iter_mut().for_each(|value| *value = (*value - largest).exp());
                let sum: f32 = row.iter().sum();
                row.iter_mut().for_each(|value| *value /= sum);
            }
        }
        Loss::BinaryCrossEntropy | Loss::WeightedBinaryCrossEntropy => {
            table.values.iter_mut().for_each(|value| *value = 1.0 / (1.0 + (-*value).exp()));
        }
    }
}

/// How to write a file of that name.
fn writer(path: &Path) -> Result<fn(&Table, AtomicFile) -> Result<()>> {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    match ending.as_deref() {
        None | Some("jsonl") => Ok(|table, file| write_text(&json_lines(table), file)),
        Some("csv") => Ok(|table, file| write_text(&csv(table), file)),
        #[cfg(feature = "parquet")]
        Some("parquet") => Ok(parquet),
        Some(other) => {
            let ends = if cfg!(feature = "parquet") { ", .csv or .parquet" } else { " or .csv" };
            Err(Error::config(format!(
                "`{}`: predictions are not written as .{other}; end it in .jsonl{ends}",
                path.display()
            )))
        }
    }
}

fn write_text(text: &str, mut file: AtomicFile) -> Result<()> {
    file.write_all(text.as_bytes()).map_err(|e| Error::io("cannot write", file.path(), e))?;
    file.commit()
}

/// A line for every graph, with one row of numbers, or as many as it has nodes.
fn json_lines(table: &Table) -> String {
    let mut text = String::new();
    let mut rows = table.values.chunks_exact(table.outputs);
    for graph in table.graphs.chunk_by(|a, b| a == b) {
        let predictions: Vec<&[f32]> = rows.by_ref().take(graph.len()).collect();
        let line = match table.nodes {
            Some(_) => json!({ "graph": graph[0], "predictions": predictions }),
            None => json!({ "graph": graph[0], "prediction": predictions[0] }),
        };
        let _ = writeln!(text, "{line}");
    }
    text
}

fn csv(table: &Table) -> String {
    let node = if table.nodes.is_some() { ",node" } else { "" };
    let mut text = format!("graph{node}");
    (0..table.outputs).for_each(|i| text += &format!(",output_{i}"));
    for (row, values) in table.values.chunks_exact(table.outputs).enumerate() {
        let _ = write!(text, "\n{}", table.graphs[row]);
        table.nodes.iter().for_each(|nodes| text += &format!(",{}", nodes[row]));
        values.iter().for_each(|value| text += &format!(",{value}"));
    }
    text + "\n"
}

#[cfg(feature = "parquet")]
fn parquet(table: &Table, file: AtomicFile) -> Result<()> {
    use arrow_array::{ArrayRef, Float32Array, UInt32Array};
    let whole = |values: &Vec<u32>| -> ArrayRef { Arc::new(UInt32Array::from(values.clone())) };
    let mut columns = vec![("graph".to_string(), whole(&table.graphs))];
    columns.extend(table.nodes.iter().map(|nodes| ("node".into(), whole(nodes))));
    for i in 0..table.outputs {
        let column = table.values.iter().skip(i).step_by(table.outputs).copied();
        columns.push((format!("output_{i}"), Arc::new(Float32Array::from_iter_values(column))));
    }
    crate::data::write_table(columns, file)
}
