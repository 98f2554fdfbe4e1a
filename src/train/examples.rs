//! What a run learns from, batch by batch: graphs made ready once, or [nodes of one graph](super::nodes).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use rayon::prelude::*;

use super::nodes::{NodeExamples, NodeGraph};
use crate::config::{Config, TrainConfig};
use crate::data::sets::SPLITS;
use crate::data::{Sample, Values};
use crate::distance::{Codes, Distances};
use crate::encode::{Encoder, Partitions};
use crate::monitor::{Monitor, check};
use crate::nn::config::{BiasKind, Pool};
use crate::nn::{Batch, Groups, Pass, prepare};
use crate::rng::Seed;
use crate::{Error, MemoryLimit, Result, coarsen};

/// A part of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// To learn from.
    Train,
    /// To choose the best epoch by.
    Val,
    /// To report on.
    Test,
}

impl Part {
    /// All three.
    pub const ALL: [Part; 3] = [Part::Train, Part::Val, Part::Test];

    /// What it is called.
    pub fn name(self) -> &'static str {
        SPLITS[self as usize]
    }
}

/// What predictions of a batch are held against.
#[derive(Clone, Debug)]
pub struct Goal {
    rows: Option<Arc<Groups>>,
    /// Targets, one after another.
    pub targets: Values,
}

impl Goal {
    /// The targets of all predictions of a batch.
    ///
    /// # Errors
    /// If it has none.
    pub fn of(batch: &Batch) -> Result<Goal> {
        let missing = || Error::data("the graphs have no targets (`y`), which training needs");
        Ok(Goal { rows: None, targets: batch.targets.clone().ok_or_else(missing)? })
    }

    /// Targets of these rows of a batch of `nodes` nodes.
    pub fn of_rows(rows: Vec<u32>, nodes: usize, targets: Values) -> Goal {
        Goal { rows: Some(Groups::new(rows, nodes)), targets }
    }

    /// The rows that have targets, if not all have.
    pub fn rows(&self) -> Option<&[u32]> {
        self.rows.as_ref().map(|rows| rows.of_row())
    }

    /// Asks a pass for the predictions that targets are of.
    pub fn asked<'p>(&self, pass: Pass<'p>) -> Pass<'p> {
        match &self.rows {
            Some(rows) => pass.of_rows(rows),
            None => pass,
        }
    }
}

/// An epoch of a run.
#[derive(Clone, Copy, Debug)]
pub struct Epoch<'a> {
    /// How to train.
    pub settings: &'a TrainConfig,
    /// Whether batches are for a model that is fused.
    pub fused: bool,
    /// Seed of the run.
    pub seed: Seed,
    /// Number of the epoch, from 0.
    pub number: u64,
}

/// What is done with a batch.
pub type Work<'a> = &'a mut dyn FnMut(&Batch, &Goal) -> Result<()>;

/// Batches to learn from and to measure by.
pub trait Batches: Send + Sync {
    /// Steps of an epoch; there may be fewer where batches have nothing to learn from.
    fn steps(&self, settings: &TrainConfig) -> Result<u64>;

    /// Hands the training batches of an epoch to `work`, from number `first` on.
    fn epoch(&self, epoch: &Epoch, first: u64, work: Work) -> Result<()>;

    /// Hands a part to `work`, batch by batch.
    fn part(&self, part: Part, settings: &TrainConfig, fused: bool, work: Work) -> Result<()>;

    /// What training batch `number` of an epoch is of, for messages.
    fn describe(&self, epoch: &Epoch, number: u64) -> String;

    /// Hands a small batch of a part to `work`, and gives how many predictions the whole part needs, with their
    /// targets.
    fn rehearse(&self, part: Part, config: &Config, work: Work) -> Result<(usize, Vec<Values>)>;

    /// blake3 of the split, where a set has several.
    fn split(&self) -> Option<&str> {
        None
    }
}

/// A set made ready for training.
pub enum Prepared {
    /// Graphs.
    Graphs(Examples),
    /// Nodes of one graph.
    Nodes(Box<NodeGraph>),
}

impl Prepared {
    /// Bytes of it, what is worked out later aside.
    pub fn bytes(&self) -> u128 {
        match self {
            Prepared::Graphs(examples) => {
                Part::ALL.iter().flat_map(|&part| examples.of(part)).map(Batch::bytes).sum()
            }
            Prepared::Nodes(graph) => graph.bytes(),
        }
    }

    /// Steps of an epoch.
    pub fn steps(&self, settings: &TrainConfig) -> Result<u64> {
        match self {
            Prepared::Graphs(examples) => examples.steps(settings),
            Prepared::Nodes(graph) => Ok(graph.steps(settings)),
        }
    }

    /// What a seed learns from: nodes may be split otherwise for every one.
    pub fn of_seed(&self, seed: u64) -> Result<Seeded<'_>> {
        Ok(match self {
            Prepared::Graphs(examples) => Seeded::Graphs(examples),
            Prepared::Nodes(graph) => Seeded::Nodes(graph.of_seed(seed)?),
        })
    }
}

/// A set made ready for a seed.
pub enum Seeded<'a> {
    /// Graphs.
    Graphs(&'a Examples),
    /// Nodes of one graph.
    Nodes(NodeExamples<'a>),
}

impl Seeded<'_> {
    /// Its batches.
    pub fn batches(&self) -> &dyn Batches {
        match self {
            Seeded::Graphs(examples) => *examples,
            Seeded::Nodes(examples) => examples,
        }
    }
}

/// Examples of all three parts of a set, a batch of one graph each.
#[derive(Clone, Debug, Default)]
pub struct Examples {
    /// To learn from.
    pub train: Vec<Batch>,
    /// To choose the best epoch by.
    pub val: Vec<Batch>,
    /// To report on.
    pub test: Vec<Batch>,
}

impl Examples {
    fn of(&self, part: Part) -> &[Batch] {
        match part {
            Part::Train => &self.train,
            Part::Val => &self.val,
            Part::Test => &self.test,
        }
    }
}

impl Batches for Examples {
    fn steps(&self, settings: &TrainConfig) -> Result<u64> {
        Ok(self.train.len().div_ceil(settings.graphs_per_step()?) as u64)
    }

    fn epoch(&self, epoch: &Epoch, first: u64, work: Work) -> Result<()> {
        let order = order(self.train.len(), epoch.seed, epoch.number);
        let batches = order.chunks(epoch.settings.graphs_per_step()?).skip(first as usize);
        let merge = |numbers: &[usize]| merge(&self.train, numbers, epoch.fused);
        ahead(batches.map(merge), |batch| work(&batch, &Goal::of(&batch)?))
    }

    fn part(&self, part: Part, settings: &TrainConfig, fused: bool, work: Work) -> Result<()> {
        let examples = self.of(part);
        let numbers: Vec<usize> = (0..examples.len()).collect();
        let batches = numbers.chunks(settings.graphs_per_step()?);
        let batches = batches.map(|numbers| merge(examples, numbers, fused));
        ahead(batches, |batch| work(&batch, &Goal::of(&batch)?))
    }

    fn describe(&self, epoch: &Epoch, number: u64) -> String {
        let size = epoch.settings.batch_size.unwrap_or(1);
        let order = order(self.train.len(), epoch.seed, epoch.number);
        let numbers = order.chunks(size).nth(number as usize).unwrap_or_default();
        let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
        format!("training graphs {}", numbers.join(", "))
    }

    fn rehearse(&self, part: Part, config: &Config, work: Work) -> Result<(usize, Vec<Values>)> {
        let part = self.of(part);
        let batch = part.first().ok_or_else(|| Error::data("it has no graphs"))?;
        work(batch, &Goal::of(batch)?)?;
        let is_node = config.model.pool == Pool::None;
        let rows = part.iter().map(|batch| if is_node { batch.num_nodes() } else { 1 });
        Ok((rows.sum(), part.iter().filter_map(|batch| batch.targets.clone()).collect()))
    }
}

/// The order of examples in an epoch.
pub fn order(count: usize, seed: Seed, epoch: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    seed.stream("shuffle", epoch, 0).shuffle(&mut order);
    order
}

/// A batch of these graphs, ready for a model that is fused or not.
pub fn merge(examples: &[Batch], numbers: &[usize], fused: bool) -> Result<Batch> {
    let parts: Vec<&Batch> = numbers.iter().map(|&number| &examples[number]).collect();
    let mut batch = Batch::merge(&parts)?;
    batch.settle(fused)?;
    Ok(batch)
}

/// Makes batches in a thread of its own, two ahead of their use.
pub fn ahead<T: Send>(
    batches: impl Iterator<Item = Result<T>> + Send,
    mut work: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel(2);
        scope.spawn(move || {
            for batch in batches {
                // Nobody listens any more once the work has failed.
                if sender.send(batch).is_err() {
                    return;
                }
            }
        });
        for batch in receiver {
            work(batch?)?;
        }
        Ok(())
    })
}

/// Makes the examples of one part of a set, graphs in parallel, results in order. `first` is the number of
/// the first graph within the whole set, which random choices of a coarsener follow. All of them together are held to
/// `limit`.
pub fn examples(
    config: &Config,
    samples: &[Sample],
    first: usize,
    limit: MemoryLimit,
    monitor: &dyn Monitor,
) -> Result<Vec<Batch>> {
    let encoder = Encoder {
        partitions: Partitions::Coarsener(coarsen::parse(&config.hierarchy.coarsener)?),
        levels: config.model.levels,
        max_distance: config.model.max_distance.per_level(config.model.levels)?,
        seed: Seed(0),
        limit,
    };
    // Of all graphs together.
    let kept = AtomicU64::new(0);
    let example = |(number, sample): (usize, &Sample)| {
        check(monitor)?;
        let codes = match config.model.bias {
            BiasKind::None => None,
            _ => {
                let hierarchy = encoder.hierarchy(&sample.graph, first + number, monitor)?;
                let clip = &encoder.max_distance;
                let distances = Distances::new(&sample.graph, &hierarchy, clip, limit)?;
                Some(Codes::new(&distances))
            }
        };
        let batch = prepare(sample, &config.model, codes, limit);
        monitor.advance(1);
        let batch = batch.map_err(|e| e.context(format!("graph {number} (from 0)")))?;
        let own = batch.bytes() as u64;
        let all = kept.fetch_add(own, Ordering::Relaxed) + own;
        let fewer = match &batch.subgraphs {
            Some(_) => "fewer hops, `extractor.subtree`, or fewer graphs (`data.graphs`)",
            None => "fewer graphs (`data.graphs`)",
        };
        limit.check(
            all.into(),
            &format!("what the model reads of the first {} graphs", number + 1),
            &format!("take {fewer}, or raise `--max-memory`"),
        )?;
        Ok(batch)
    };
    samples.par_iter().enumerate().map(example).collect()
}
