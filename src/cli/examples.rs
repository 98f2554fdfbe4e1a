//! The set of an experiment: read, checked, made ready.

use super::allocator::keep_memory;
use super::output::Output;
use super::progress::Progress;
use crate::config::Config;
use crate::data::Sample;
use crate::data::nodes::{self, NodeSet};
use crate::data::sets::{self, LoadOptions, Splits};
use crate::data::store;
use crate::nn::Batch;
use crate::train::examples::{Examples, Prepared, examples};
use crate::train::nodes::{NodeGraph, width};
use crate::train::record::DataRecord;
use crate::train::{fit, run};
use crate::{Error, MemoryLimit, Result};

/// A set as it was read.
pub(super) enum Loaded {
    Graphs(Splits),
    Nodes(Box<NodeSet>),
}

impl Loaded {
    pub(super) fn read(config: &Config, limit: MemoryLimit) -> Result<Loaded> {
        // Whoever reads a set is going to train on it, or to predict.
        keep_memory();
        let set = Loaded::read_set(config, limit)?;
        match (set, config.data.unknown_class) {
            (Loaded::Nodes(_), Some(class)) if class as usize >= config.model.outputs => {
                Err(Error::config(format!(
                    "key `data.unknown_class` is {class}, but `model.outputs` tells {} classes apart; take a smaller one",
                    config.model.outputs
                )))
            }
            (Loaded::Nodes(set), Some(class)) => {
                Ok(Loaded::Nodes(Box::new(set.with_unknown_as(class))))
            }
            (set, _) => Ok(set),
        }
    }

    fn read_set(config: &Config, limit: MemoryLimit) -> Result<Loaded> {
        let path = config.data.path.clone();
        if let Some(own) = &config.data.nodes {
            let own = path.map_or_else(|| own.clone(), |folder| own.inside(&folder));
            return Ok(Loaded::Nodes(Box::new(nodes::load_own(&own, limit)?)));
        }
        match nodes::find(&config.data.set).filter(|_| config.data.task.is_none()) {
            None => {
                let mut splits = load(config, limit)?;
                if let Some(graphs) = config.data.graphs {
                    splits.shorten(graphs);
                }
                Ok(Loaded::Graphs(splits))
            }
            Some(_) if config.data.graphs.is_some() => Err(Error::config(format!(
                "key `data.graphs` is for sets of many graphs, but `{}` is one; leave it out",
                config.data.set
            ))),
            Some(entry) => {
                let options = LoadOptions { path, limit, ..LoadOptions::of_user() };
                Ok(Loaded::Nodes(Box::new(entry.load(&options)?)))
            }
        }
    }

    /// Whether the experiment fits it.
    pub(super) fn check(&self, config: &Config, limit: MemoryLimit) -> Result<()> {
        match self {
            Loaded::Graphs(splits) => fit::graphs(config, splits.task, limit),
            Loaded::Nodes(set) => {
                fit::nodes(config, set.task, [set.num_nodes(), width(set)], limit)
            }
        }
    }

    pub(super) fn record(&self) -> DataRecord {
        let (hash, label) = match self {
            Loaded::Graphs(splits) => (&splits.hash, &splits.label),
            Loaded::Nodes(set) => (&set.hash, &set.label),
        };
        DataRecord { hash: hash.clone(), label: label.clone() }
    }

    /// All of it made ready, with a bar.
    pub(super) fn prepare(
        self,
        config: &Config,
        limit: MemoryLimit,
        output: &Output,
    ) -> Result<Prepared> {
        match self {
            Loaded::Graphs(splits) => {
                prepare_graphs(config, &splits, limit, output).map(Prepared::Graphs)
            }
            Loaded::Nodes(set) => {
                let walks = config.model.encoding.node2vec();
                let starts = walks.map_or(0, |walks| walks.epochs * set.num_nodes());
                let unit = if starts == 0 { "coarsening" } else { "starts of walks" };
                let progress = Progress::new(starts as u64, unit, output);
                let kept = store::vectors_folder().ok();
                let graph = NodeGraph::new(config, *set, kept.as_deref(), limit, &progress)?;
                Ok(Prepared::Nodes(Box::new(graph)))
            }
        }
    }
}

/// Rehearses the first seed, and makes sure that the others have something to learn from, too.
pub(super) fn rehearse(
    config: &Config,
    examples: &Prepared,
    seeds: impl Iterator<Item = u64>,
    limit: MemoryLimit,
) -> Result<()> {
    for (number, seed) in seeds.enumerate() {
        let examples = examples.of_seed(seed)?;
        if number == 0 {
            run::rehearse(config, examples.batches(), limit)?;
        }
    }
    Ok(())
}

/// The graphs of an experiment.
pub(super) fn load(config: &Config, limit: MemoryLimit) -> Result<Splits> {
    let path = config.data.path.clone();
    let options = LoadOptions { path, limit, ..LoadOptions::of_user() };
    match config.data.task {
        Some(task) => {
            let Some(path) = options.path else {
                return Err(Error::config(
                    "key `data.task` is for a set of your own: say where it is with `data.path`",
                ));
            };
            sets::load_own(&sets::Place::Folder(path), task, limit).map_err(|e| {
                match e.is_config() {
                    true => e.context("[data]"),
                    false => e,
                }
            })
        }
        None => {
            let own = match options.path {
                Some(_) => "; for a set of your own, say what to predict with `data.task`",
                None => "",
            };
            sets::by_name(&config.data.set)
                .map_err(|e| Error::config(format!("key `data.set`: {e}{own}")))?
                .load(&options)
        }
    }
}

/// All graphs made ready, with a bar.
fn prepare_graphs(
    config: &Config,
    splits: &Splits,
    limit: MemoryLimit,
    output: &Output,
) -> Result<Examples> {
    let total = splits.parts().iter().map(|part| part.len() as u64).sum();
    let progress = Progress::new(total, "graphs", output);
    let (mut first, mut limit) = (0, limit);
    let mut part = |name: &str, samples: &[Sample]| {
        let made = prepare_part(config, name, samples, first, limit, &progress)?;
        first += samples.len();
        limit = limit.beside(made.iter().map(Batch::bytes).sum());
        Ok(made)
    };
    Ok(Examples {
        train: part("train", &splits.train)?,
        val: part("val", &splits.val)?,
        test: part("test", &splits.test)?,
    })
}

/// The graphs of one part made ready; `first` is the number of the first within the whole set.
pub(super) fn prepare_part(
    config: &Config,
    name: &str,
    samples: &[Sample],
    first: usize,
    limit: MemoryLimit,
    progress: &Progress,
) -> Result<Vec<Batch>> {
    examples(config, samples, first, limit, progress).map_err(|e| match e.is_interrupted() {
        true => e,
        false => e.context(format!("{}, part `{name}`", place(config))),
    })
}

/// What data is called in messages: its folder if it is given, else its name.
pub(super) fn place(config: &Config) -> String {
    let path = config.data.path.as_ref();
    path.map_or_else(|| format!("set `{}`", config.data.set), |path| path.display().to_string())
}
