//! One large graph with targets on its nodes: node classification.
//!
//! A [`NodeSet`] is the counterpart of a set of many graphs ([`sets`](super::sets)): arcs as given, the undirected
//! [`Graph`], features, targets and named [`Split`]s, all in one space of node ids. Every loader ends in the
//! same check, so that a model can rely on it.
//!
//! | file | reads |
//! |---|---|
//! | `planetoid` | the eight files of Cora, CiteSeer and PubMed, by `pickle` |
//! | `heterophilous` | `.npz` files of Platonov et al., with ten splits |
//! | `ogb` | folders of the Open Graph Benchmark, csv or binary |
//! | `own` | anything else: edges, features, targets and splits in files of their own |
//!
//! [`ALL`] lists the sets that are known by name, with what is published of them.
//!
//! ```no_run
//! use hdse::data::nodes;
//! use hdse::data::sets::LoadOptions;
//! let cora = nodes::by_name("cora")?.load(&LoadOptions::of_user())?;
//! let split = cora.split("paper")?;
//! assert_eq!(split.sizes(), [140, 500, 1000]);
//! # Ok::<(), hdse::Error>(())
//! ```

mod draft;
mod features;
mod heterophilous;
mod known;
mod ogb;
mod own;
mod pickle;
mod planetoid;
mod registry;
mod split;
mod table;

pub use features::{Features, Sparse};
pub use heterophilous::load as load_heterophilous;
pub use ogb::load as load_ogb;
pub use own::{Own, load as load_own};
pub use planetoid::load as load_planetoid;
pub use registry::{ALL, Entry, Statistics, by_name, find};
pub use split::Split;

use std::sync::Arc;

use super::sets::{Target, Task};
use super::{Edges, Matrix, Values};
use crate::graph::Repairs;
use crate::{Error, Graph, Result};

/// One graph with targets on its nodes.
#[derive(Clone, Debug)]
pub struct NodeSet {
    /// Arcs exactly as given.
    pub edges: Edges,
    /// Whether an arc means one direction only, as of citations. Otherwise it stands for both, and some
    /// files list each edge once.
    pub directed: bool,
    /// Features of arcs, one row per arc.
    pub edge_attr: Option<Matrix>,
    /// The undirected simple graph.
    pub graph: Arc<Graph>,
    /// What had to be mended to make `graph` of `edges`.
    pub repairs: Repairs,
    /// Features of nodes.
    pub features: Features,
    /// Targets of nodes: their classes, -1 if unknown, or a row of labels each, NaN if unknown.
    pub y: Values,
    /// What is to be predicted.
    pub task: Task,
    /// The year of every node, where there is one.
    pub years: Option<Vec<i64>>,
    /// The species of every node, where there is one.
    pub species: Option<Vec<i64>>,
    /// Splits that come with the set.
    pub splits: Vec<Split>,
    /// How it differs from the official set, for every table made from it.
    pub label: Option<String>,
    /// blake3 of the files, in hexadecimal.
    pub hash: String,
}

impl NodeSet {
    /// Number of nodes.
    pub fn num_nodes(&self) -> usize {
        self.graph.num_nodes()
    }

    /// The class of every node, -1 if unknown; nothing if targets are labels.
    pub fn classes(&self) -> Option<&[i64]> {
        match (&self.y, self.task.target) {
            (Values::Int(classes), Target::Classes(_)) => Some(classes),
            _ => None,
        }
    }

    /// The split called `name`: one of [`NodeSet::splits`], or one drawn from a seed, such as `random-7`
    /// or `half-0`.
    ///
    /// # Errors
    /// If there is none of that name, or it can't be drawn from these nodes.
    pub fn split(&self, name: &str) -> Result<Split> {
        if let Some(split) = self.splits.iter().find(|split| split.name == name) {
            return Ok(split.clone());
        }
        let drawn = self.classes().and_then(|classes| split::drawn(name, classes));
        drawn.unwrap_or_else(|| {
            let names = || self.splits.iter().map(|split| split.name.as_str());
            let hint = crate::error::did_you_mean(name, names());
            Err(Error::config(format!(
                "no split `{name}`{hint} (splits: {}; of classes also random-SEED and half-SEED)",
                names().collect::<Vec<_>>().join(", ")
            )))
        })
    }

    /// The split for a seed: `{seed}` in `name` stands for it, or for its remainder where that many splits
    /// of such names come with the set. So `{seed}` goes through ten given splits, and `random-{seed}` draws one for every seed.
    ///
    /// # Errors
    /// As [`NodeSet::split`].
    pub fn split_of_seed(&self, name: &str, seed: u64) -> Result<Split> {
        if !name.contains("{seed}") {
            return self.split(name);
        }
        let filled = |number: u64| name.replace("{seed}", &number.to_string());
        let is_given = |name: String| self.splits.iter().any(|split| split.name == name);
        let given = (0..).take_while(|&number| is_given(filled(number))).count() as u64;
        self.split(&filled(seed.checked_rem(given).unwrap_or(seed)))
    }

    /// The same with `class` for every node whose class is unknown.
    ///
    /// PyTorch Geometric gives class 0 to the 15 nodes of CiteSeer that have no row in its files, and the split `paper`
    /// has nine of them: whoever wants its numbers to the last node needs this.
    pub fn with_unknown_as(mut self, class: u32) -> NodeSet {
        if let (Values::Int(classes), Target::Classes(count)) = (&mut self.y, self.task.target)
            && classes.contains(&-1)
        {
            classes.iter_mut().filter(|known| **known < 0).for_each(|known| *known = class.into());
            self.task.target = Target::Classes(count.max(class as usize + 1));
        }
        self
    }

    /// Nodes without any target.
    pub fn unlabelled(&self) -> usize {
        match &self.y {
            Values::Int(classes) => classes.iter().filter(|&&class| class < 0).count(),
            Values::Float(labels) => {
                let width = self.task.target.width().max(1);
                labels.chunks(width).filter(|row| row.iter().all(|x| x.is_nan())).count()
            }
        }
    }

    /// How many nodes each class has.
    pub fn histogram(&self) -> Vec<usize> {
        let Target::Classes(count) = self.task.target else { return Vec::new() };
        let mut counts = vec![0; count];
        for &class in self.classes().unwrap_or_default().iter().filter(|&&class| class >= 0) {
            counts[class as usize] += 1;
        }
        counts
    }

    /// Share of the undirected edges whose ends have the same class; an unknown one never matches.
    pub fn edge_homophily(&self) -> Option<f64> {
        let classes = self.classes()?;
        let same = |&(u, v, _): &(u32, u32, f32)| {
            let class = classes[u as usize];
            class >= 0 && class == classes[v as usize]
        };
        let same = self.graph.edges().filter(same).count();
        Some(same as f64 / self.graph.num_edges().max(1) as f64)
    }
}
