//! Batches of the nodes of one graph, for one split.

use super::rows::pick;
use super::{Draw, NodeGraph};
use crate::config::{Config, TrainConfig};
use crate::data::Values;
use crate::data::nodes::Split;
use crate::nn::{Batch, Pass, values};
use crate::train::examples::{Batches, Epoch, Goal, Part, Work, ahead, order};
use crate::{Error, Result};

/// Rows that a rehearsal takes.
const FEW: usize = 64;

/// One graph with a split of its nodes.
#[derive(Debug)]
pub struct NodeExamples<'a> {
    graph: &'a NodeGraph,
    /// The part of every row that is scored.
    part_of: Vec<Option<Part>>,
    /// What the predictions of the whole graph are held against.
    goals: [Goal; 3],
    /// blake3 of the split.
    split: String,
}

impl<'a> NodeExamples<'a> {
    /// The graph with a split.
    ///
    /// # Errors
    /// If no target of a part is known.
    pub(super) fn new(graph: &'a NodeGraph, split: &Split) -> Result<NodeExamples<'a>> {
        let mut part_of = vec![None; graph.rows.len()];
        for (part, nodes) in Part::ALL.into_iter().zip(split.parts()) {
            let rows = nodes.iter().map(|&node| graph.rows.row(node));
            rows.filter(|&row| graph.is_known(row))
                .for_each(|row| part_of[row as usize] = Some(part));
        }
        let all: Vec<u32> = (0..graph.rows.len() as u32).collect();
        for part in Part::ALL {
            if !part_of.contains(&Some(part)) {
                return Err(Error::config(format!(
                    "key `data.split`: split `{}` has no {} node whose target is known; take another",
                    split.name,
                    part.name()
                )));
            }
        }
        let goals = Part::ALL.map(|part| goal(graph, &part_of, part, &all));
        Ok(NodeExamples { graph, part_of, goals, split: split.blake3.clone() })
    }

    /// The part of every node that is scored.
    pub fn parts(&self) -> Vec<Option<Part>> {
        self.graph.rows.by_node(&self.part_of, 1)
    }

    /// A batch of these rows and what its predictions are held against.
    fn batch(&self, part: Part, rows: &[u32], draw: Draw) -> Result<(Batch, Goal)> {
        Ok((self.graph.batch(rows, draw)?, goal(self.graph, &self.part_of, part, rows)))
    }

    /// The rows of a part.
    fn rows(&self, part: Part) -> Vec<u32> {
        let rows = 0..self.part_of.len() as u32;
        rows.filter(|&row| self.part_of[row as usize] == Some(part)).collect()
    }

    fn has(&self, part: Part, rows: &[u32]) -> bool {
        rows.iter().any(|&row| self.part_of[row as usize] == Some(part))
    }

    /// The rows of all batches of an epoch that have something to learn from: of all nodes, or of training nodes alone where
    /// others are sampled around them.
    fn deal(
        &self,
        epoch: &Epoch,
        size: usize,
    ) -> impl Iterator<Item = Vec<u32>> + Send + use<'_, 'a> {
        let dealt = match self.graph.sampler {
            Some(_) => self.rows(Part::Train),
            None => (0..self.part_of.len() as u32).collect(),
        };
        let order = order(dealt.len(), epoch.seed, epoch.number);
        let sorted = |places: &[usize]| {
            let mut rows: Vec<u32> = places.iter().map(|&place| dealt[place]).collect();
            rows.sort_unstable();
            rows
        };
        let batches: Vec<Vec<u32>> = order.chunks(size).map(sorted).collect();
        batches.into_iter().filter(|rows| self.has(Part::Train, rows))
    }

    /// Hands runs of rows that have nodes of the part asked for to `work`, one after another, or all rows at once.
    fn runs(
        &self,
        settings: &TrainConfig,
        part: Option<Part>,
        mut work: impl FnMut(&Batch, &[u32]) -> Result<()>,
    ) -> Result<()> {
        let all: Vec<u32> = match (part, &self.graph.sampler) {
            // What is sampled around nodes does not depend on others.
            (Some(part), Some(_)) => self.rows(part),
            _ => (0..self.part_of.len() as u32).collect(),
        };
        if let (None, Some(whole)) = (settings.eval_batch_size, &self.graph.whole) {
            return work(whole, &all);
        }
        let usual = settings.batch_size.filter(|_| self.graph.sampler.is_some());
        let size = settings.eval_batch_size.or(usual).unwrap_or(all.len());
        let runs = all.chunks(size).filter(|rows| part.is_none_or(|part| self.has(part, rows)));
        ahead(runs.map(|rows| Ok((self.graph.batch(rows, Draw::Eval)?, rows))), |(batch, rows)| {
            work(&batch, rows)
        })
    }

    /// Predictions for all nodes, in their order, by a pass for every batch.
    pub fn predict<'p>(
        &self,
        settings: &TrainConfig,
        backbone: &dyn crate::nn::Backbone,
        pass: impl Fn() -> Result<Pass<'p>>,
    ) -> Result<Vec<f32>> {
        let mut all = Vec::new();
        self.runs(settings, None, |batch, _| {
            all.extend(values(backbone.forward(&pass()?, batch)?));
            Ok(())
        })?;
        let width = all.len() / self.part_of.len().max(1);
        Ok(self.graph.rows.by_node(&all, width))
    }
}

/// What the predictions for these rows are held against.
fn goal(graph: &NodeGraph, part_of: &[Option<Part>], part: Part, rows: &[u32]) -> Goal {
    let chosen = |position: &u32| part_of[rows[*position as usize] as usize] == Some(part);
    let positions: Vec<u32> = (0..rows.len() as u32).filter(chosen).collect();
    let targets = graph.targets(&pick(rows, 1, &positions));
    Goal::of_rows(positions, rows.len(), targets)
}

impl Batches for NodeExamples<'_> {
    fn split(&self) -> Option<&str> {
        Some(&self.split)
    }

    fn steps(&self, settings: &TrainConfig) -> Result<u64> {
        let count = match self.graph.sampler {
            Some(_) => self.goals[Part::Train as usize].targets.len() / self.graph.width,
            None => return Ok(self.graph.steps(settings)),
        };
        Ok(settings.batch_size.map_or(1, |size| count.div_ceil(size) as u64))
    }

    fn epoch(&self, epoch: &Epoch, first: u64, work: Work) -> Result<()> {
        let usual = self.graph.sampler.as_ref().map(|_| self.part_of.len());
        let Some(size) = epoch.settings.batch_size.or(usual) else {
            let missing = || Error::data("the whole graph was not made ready");
            let whole = self.graph.whole.as_ref().ok_or_else(missing)?;
            return if first == 0 {
                work(whole, &self.goals[Part::Train as usize])
            } else {
                Ok(())
            };
        };
        let batches = self.deal(epoch, size).skip(first as usize);
        let draw = Draw::Train(epoch.seed, epoch.number);
        ahead(batches.map(|rows| self.batch(Part::Train, &rows, draw)), |(batch, goal)| {
            work(&batch, &goal)
        })
    }

    fn part(&self, part: Part, settings: &TrainConfig, _: bool, work: Work) -> Result<()> {
        self.runs(settings, Some(part), |batch, rows| match rows.len() == self.part_of.len() {
            true => work(batch, &self.goals[part as usize]),
            false => work(batch, &goal(self.graph, &self.part_of, part, rows)),
        })
    }

    fn describe(&self, epoch: &Epoch, number: u64) -> String {
        let rows =
            epoch.settings.batch_size.and_then(|size| self.deal(epoch, size).nth(number as usize));
        let count = |known: &[Option<Part>]| {
            known.iter().filter(|part| **part == Some(Part::Train)).count()
        };
        match rows {
            Some(rows) => format!("{} training nodes", count(&pick(&self.part_of, 1, &rows))),
            None => format!("{} training nodes", count(&self.part_of)),
        }
    }

    fn rehearse(&self, part: Part, _: &Config, work: Work) -> Result<(usize, Vec<Values>)> {
        let rows: Vec<u32> = self.rows(part).into_iter().take(FEW).collect();
        let (batch, goal) = self.batch(part, &rows, Draw::Eval)?;
        work(&batch, &goal)?;
        let targets = self.goals[part as usize].targets.clone();
        Ok((targets.len() / self.graph.width, vec![targets]))
    }
}
