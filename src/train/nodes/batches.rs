//! Batches of the nodes of one graph, for one split.

use super::NodeGraph;
use super::rows::pick;
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

    /// A part of the graph and what its predictions are held against.
    fn batch(&self, part: Part, rows: &[u32]) -> Result<(Batch, Goal)> {
        Ok((self.graph.part(rows)?, goal(self.graph, &self.part_of, part, rows)))
    }

    fn has(&self, part: Part, rows: &[u32]) -> bool {
        rows.iter().any(|&row| self.part_of[row as usize] == Some(part))
    }

    /// The rows of all batches of an epoch that have something to learn from.
    fn deal(
        &self,
        epoch: &Epoch,
        size: usize,
    ) -> impl Iterator<Item = Vec<u32>> + Send + use<'_, 'a> {
        let order = order(self.part_of.len(), epoch.seed, epoch.number);
        let sorted = |rows: &[usize]| {
            let mut rows: Vec<u32> = rows.iter().map(|&row| row as u32).collect();
            rows.sort_unstable();
            rows
        };
        let batches: Vec<Vec<u32>> = order.chunks(size).map(sorted).collect();
        batches.into_iter().filter(|rows| self.has(Part::Train, rows))
    }

    /// Hands runs of rows that `is_wanted` to `work`, one after another, or all rows at once.
    fn runs(
        &self,
        settings: &TrainConfig,
        is_wanted: impl Fn(&[u32]) -> bool + Sync,
        mut work: impl FnMut(&Batch, &[u32]) -> Result<()>,
    ) -> Result<()> {
        let all: Vec<u32> = (0..self.part_of.len() as u32).collect();
        if let (None, Some(whole)) = (settings.eval_batch_size, &self.graph.whole) {
            return work(whole, &all);
        }
        let size = settings.eval_batch_size.unwrap_or(all.len());
        let runs = all.chunks(size).filter(|rows| is_wanted(rows));
        ahead(runs.map(|rows| Ok((self.graph.part(rows)?, rows))), |(batch, rows)| {
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
        self.runs(
            settings,
            |_| true,
            |batch, _| {
                all.extend(values(backbone.forward(&pass()?, batch)?));
                Ok(())
            },
        )?;
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
        Ok(self.graph.steps(settings))
    }

    fn epoch(&self, epoch: &Epoch, first: u64, work: Work) -> Result<()> {
        let Some(size) = epoch.settings.batch_size else {
            let missing = || Error::data("the whole graph was not made ready");
            let whole = self.graph.whole.as_ref().ok_or_else(missing)?;
            return if first == 0 {
                work(whole, &self.goals[Part::Train as usize])
            } else {
                Ok(())
            };
        };
        let batches = self.deal(epoch, size).skip(first as usize);
        ahead(batches.map(|rows| self.batch(Part::Train, &rows)), |(batch, goal)| {
            work(&batch, &goal)
        })
    }

    fn part(&self, part: Part, settings: &TrainConfig, _: bool, work: Work) -> Result<()> {
        self.runs(
            settings,
            |rows| self.has(part, rows),
            |batch, rows| match rows.len() == self.part_of.len() {
                true => work(batch, &self.goals[part as usize]),
                false => work(batch, &goal(self.graph, &self.part_of, part, rows)),
            },
        )
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
        let rows = 0..self.part_of.len() as u32;
        let rows = rows.filter(|&row| self.part_of[row as usize] == Some(part)).take(FEW);
        let (batch, goal) = self.batch(part, &rows.collect::<Vec<_>>())?;
        work(&batch, &goal)?;
        let targets = self.goals[part as usize].targets.clone();
        Ok((targets.len() / self.graph.width, vec![targets]))
    }
}
