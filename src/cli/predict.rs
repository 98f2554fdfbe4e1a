//! `hdse predict`: what a trained model says of new graphs, or of all nodes of the graph that it was trained on.

mod table;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use super::examples::Loaded;
use super::input::refuse_same;
use super::output::{Output, count, object};
use super::progress::Progress;
use super::train::trained;
use crate::config::Config;
use crate::data::{AtomicFile, ReadOptions, nodes, read};
use crate::monitor::{Monitor as _, check};
use crate::nn::config::Pool;
use crate::nn::fused::Team;
use crate::nn::{Batch, Model, Pass, values};
use crate::train::Loss;
use crate::train::examples::{Prepared, examples};
use crate::train::record::{DataRecord, hash, open};
use crate::{Error, MemoryLimit, Result};
use table::{Column, Table};

#[derive(clap::Args)]
pub(super) struct Options {
    /// The folder of a finished run
    run: PathBuf,
    /// Graphs with the features that the model reads; left out for a model of the nodes of one graph
    input: Option<String>,
    /// The file to write: .jsonl with a line for every graph or node, .csv or .parquet with a row for every prediction
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

pub(super) fn run(options: &Options, limit: MemoryLimit, output: &Output) -> Result<()> {
    let directory = &options.run;
    let (config, seeds) = open(directory)?;
    let write = table::writer(&options.output)?;
    if options.probabilities && config.train.loss == Loss::L1 {
        return Err(Error::config(
            "`--probabilities` is for classes and labels, but this model predicts numbers; leave it out",
        ));
    }
    let seed = options.seed.unwrap_or(seeds.first);
    let record = DataRecord::read(directory)?;
    let model = trained(&config, &hash(&config, &record.hash)?, directory, seed)?;
    let is_nodes = config.data.nodes.is_some()
        || config.data.task.is_none() && nodes::find(&config.data.set).is_some();
    let (table, file, unit) = match (&options.input, is_nodes) {
        (Some(input), false) => {
            let (table, file) = graphs(options, input, &config, &model, limit, output)?;
            (table, file, "graph")
        }
        (None, true) => {
            let set = Loaded::read(&config, limit)?;
            set.record().check(directory)?;
            let file = AtomicFile::create(&options.output, options.force)?;
            let examples = set.prepare(&config, limit, output)?;
            let limit = limit.beside(examples.bytes());
            (of_nodes(options, &examples, &config, (&model, seed), limit, output)?, file, "node")
        }
        (None, false) => {
            return Err(Error::config("which graphs? Name a file after the run, or a set"));
        }
        (Some(input), true) => {
            return Err(Error::config(format!(
                "`{input}`: this model is of the nodes of one graph, {}; leave it out",
                config.data.set
            )));
        }
    };
    let (items, units) = (table.items as u64, if unit == "node" { "nodes" } else { "graphs" });
    write(table, file)?;
    let path = options.output.display().to_string();
    output.result(
        || {
            let fields = [("output", json!(path)), (units, json!(items))];
            object(fields.into_iter().chain(output.resources()))
        },
        || format!("wrote {path}: predictions of {}\n", count(items, unit)),
    )
}

/// What is predicted of graphs in a file.
fn graphs(
    options: &Options,
    input: &str,
    config: &Config,
    model: &Model,
    limit: MemoryLimit,
    output: &Output,
) -> Result<(Table, AtomicFile)> {
    let samples = read(input, &ReadOptions { limit, ..ReadOptions::default() })?.samples;
    refuse_same(Path::new(input), &options.output)?;
    let file = AtomicFile::create(&options.output, options.force)?;
    let progress = Progress::new(samples.len() as u64, "graphs", output);
    let examples = examples(config, &samples, 0, limit, &progress)
        .map_err(|e| if e.is_interrupted() { e } else { e.context(input.to_string()) })?;
    let limit = limit.beside(examples.iter().map(Batch::bytes).sum());
    drop(progress);

    let progress = Progress::new(examples.len() as u64, "graphs", output);
    let team = Arc::new(Team::current()?);
    let is_node = config.model.pool == Pool::None;
    let (mut graphs, mut nodes, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    let size = config.train.graphs_per_step()?;
    for (number, chunk) in examples.chunks(size).enumerate() {
        check(&progress)?;
        let batch = Batch { targets: None, ..Batch::merge(&chunk.iter().collect::<Vec<_>>())? };
        let pass = Pass::eval(&model.parameters).limited(limit).by(&team).fused(config.train.fused);
        numbers.extend(values(model.backbone.forward(&pass, &batch)?));
        for (i, &nodes_of) in batch.sizes.iter().enumerate() {
            let rows = if is_node { nodes_of as u32 } else { 1 };
            graphs.extend((0..rows).map(|_| (number * size + i) as u32));
            nodes.extend(0..rows);
        }
        progress.advance(chunk.len() as u64);
    }
    let outputs = config.model.outputs;
    if options.probabilities {
        probabilities(config.train.loss, outputs, &mut numbers);
    }
    let mut columns = vec![("graph".to_string(), Column::Whole(graphs))];
    if is_node {
        columns.push(("node".into(), Column::Whole(nodes)));
    }
    columns.extend(table::outputs(&numbers, outputs));
    Ok((Table { items: examples.len(), is_nested: true, columns }, file))
}

/// What is predicted of the nodes of one graph: for every node its part, and class and score or all labels.
fn of_nodes(
    options: &Options,
    examples: &Prepared,
    config: &Config,
    (model, seed): (&Model, u64),
    limit: MemoryLimit,
    output: &Output,
) -> Result<Table> {
    let Prepared::Nodes(graph) = examples else { return Err(Error::data("no graph with nodes")) };
    let examples = graph.of_seed(seed)?;
    let progress = Progress::new(0, "predicting", output);
    let team = Arc::new(Team::current()?);
    let pass = || {
        check(&progress)?;
        Ok(Pass::eval(&model.parameters).limited(limit).by(&team).fused(config.train.fused))
    };
    let mut numbers = examples.predict(&config.train, &*model.backbone, pass)?;
    let outputs = config.model.outputs;
    if options.probabilities {
        probabilities(config.train.loss, outputs, &mut numbers);
    }
    let parts = examples.parts();
    let names = parts.iter().map(|part| part.map_or("", |part| part.name())).collect();
    let mut columns = vec![
        ("node".to_string(), Column::Whole((0..parts.len() as u32).collect())),
        ("part".into(), Column::Word(names)),
    ];
    match config.train.loss {
        Loss::CrossEntropy | Loss::WeightedCrossEntropy => {
            let best =
                |row: &[f32]| (1..row.len()).fold(0, |b, i| if row[i] > row[b] { i } else { b });
            let rows = || numbers.chunks_exact(outputs);
            let classes = rows().map(|row| best(row) as u32).collect();
            let scores = rows().map(|row| row[best(row)]).collect();
            columns.push(("class".into(), Column::Whole(classes)));
            columns.push(("score".into(), Column::Real(scores)));
        }
        _ => columns.extend(table::outputs(&numbers, outputs)),
    }
    Ok(Table { items: parts.len(), is_nested: false, columns })
}

/// Softmax of the rows of classes, the logistic function of labels.
fn probabilities(loss: Loss, outputs: usize, numbers: &mut [f32]) {
    match loss {
        Loss::L1 => {}
        Loss::CrossEntropy | Loss::WeightedCrossEntropy => {
            for row in numbers.chunks_exact_mut(outputs) {
                let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                row.iter_mut().for_each(|value| *value = (*value - largest).exp());
                let sum: f32 = row.iter().sum();
                row.iter_mut().for_each(|value| *value /= sum);
            }
        }
        Loss::BinaryCrossEntropy | Loss::WeightedBinaryCrossEntropy => {
            numbers.iter_mut().for_each(|value| *value = 1.0 / (1.0 + (-*value).exp()));
        }
    }
}
