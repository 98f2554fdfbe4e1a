//! Data sets to train on: what there is, where it lies, whether it is the official one.
//!
//! A [`Dataset`] gives [`Splits`]: samples for training, validation and test, the [`Task`], and a label
//! where the samples are not the official ones. Some sets are read from `train`, `val` and `test` files in
//! a folder, the others are generated from a seed. Every sample is checked when it is loaded, and what
//! public copies write in different ways is brought into one form, so that a model can rely on it.
//!
//! | file | sets |
//! |---|---|
//! | `molecules` | `zinc`, `peptides-func`, `peptides-struct` |
//! | `superpixels` | `mnist`, `cifar10` |
//! | `block_model` | `pattern`, `cluster`, and `pattern-gen`, `cluster-gen` after the same recipes |
//! | `community_small` | `community-small` |
//!
//! [`load_own`] reads a set that is not in the list.
//!
//! ```
//! use hdse::data::sets::{self, Level, LoadOptions, Target};
//! let options = LoadOptions { graphs: Some([8, 2, 2]), ..LoadOptions::default() };
//! let splits = sets::by_name("cluster-gen")?.load(&options)?;
//! assert_eq!(splits.train.len(), 8);
//! assert_eq!(splits.task.level, Level::Node);
//! assert_eq!(splits.task.target, Target::Classes(6));
//! assert!(splits.label.unwrap().starts_with("regenerated, subset"));
//! # Ok::<(), hdse::Error>(())
//! ```

mod block_model;
mod check;
mod community_small;
#[cfg(feature = "fetch")]
mod download;
#[cfg(feature = "fetch")]
mod fetch;
mod folder;
mod install;
mod manifest;
mod molecules;
mod names;
pub mod sources;
mod statistics;
mod superpixels;

pub(super) use check::Problems;
#[cfg(feature = "fetch")]
pub use fetch::{Fetch, fetch, planned};
pub use folder::{FromFiles, Place, load_own};
pub use install::{Import, Installed, Listener, import};
pub use manifest::{Manifest, Pinned};
pub use statistics::Statistics;

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Sample, nodes};
use crate::error::{Context as _, unknown};
use crate::rng::Seed;
use crate::{Error, MemoryLimit, Result};

/// Every set, in the order of the documentation.
pub const ALL: &[&dyn Dataset] = &[
    &molecules::ZINC,
    &molecules::PEPTIDES_FUNC,
    &molecules::PEPTIDES_STRUCT,
    &superpixels::MNIST,
    &superpixels::CIFAR10,
    &block_model::PATTERN,
    &block_model::CLUSTER,
    &block_model::PATTERN_GEN,
    &block_model::CLUSTER_GEN,
    &community_small::COMMUNITY_SMALL,
];

/// A set of graphs in three splits.
pub trait Dataset: Sync {
    /// What is known of it without loading anything.
    fn entry(&self) -> &Entry;

    /// Reads or generates all samples and checks them.
    fn load(&self, options: &LoadOptions) -> Result<Splits>;
}

/// What is known of a set without loading it.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The name to choose it by.
    pub name: &'static str,
    /// Names of its folder inside the folder of all sets, the usual one first; empty if generated.
    pub folders: &'static [&'static str],
    /// One line for lists.
    pub summary: &'static str,
    /// What is to be predicted.
    pub task: Task,
    /// What tables report.
    pub metric: &'static str,
    /// Features of nodes.
    pub nodes: Columns,
    /// Features of arcs.
    pub arcs: Columns,
    /// Statistics of the official set, as published.
    pub published: Statistics,
    /// Licence of the official set, as its publishers state it.
    pub licence: &'static str,
    /// Who made it.
    pub citation: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Whether it is generated here instead of read.
    pub generated: bool,
}

/// Features as a model reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    /// None; constant columns that some copies carry are dropped.
    None,
    /// Whole numbers; for every column, how many types there are.
    Types(&'static [usize]),
    /// So many types, each row a one among zeros. Files may hold the type itself.
    OneHot(usize),
    /// So many real numbers. The last ones may be in the column `pos` instead.
    Reals(usize),
}

impl Columns {
    /// Numbers in a row.
    pub fn width(self) -> usize {
        match self {
            Columns::None => 0,
            Columns::Types(counts) => counts.len(),
            Columns::OneHot(width) | Columns::Reals(width) => width,
        }
    }
}

/// What is to be predicted, and of what.
///
/// In a configuration: `task = { level = "graph", target = { classes = 10 } }`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// Of what.
    pub level: Level,
    /// What.
    pub target: Target,
}

/// What a target belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// The whole graph.
    Graph,
    /// Every node.
    Node,
}

/// What a target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// So many real numbers.
    Regression(usize),
    /// One of so many classes, from 0.
    Classes(usize),
    /// So many labels, each 0 or 1, or NaN if it is missing.
    Labels(usize),
}

impl Target {
    /// Numbers in a target.
    pub fn width(self) -> usize {
        match self {
            Target::Regression(width) | Target::Labels(width) => width,
            Target::Classes(_) => 1,
        }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.target {
            Target::Regression(1) => f.write_str("a number"),
            Target::Regression(count) => write!(f, "{count} numbers"),
            Target::Classes(count) => write!(f, "one of {count} classes"),
            Target::Labels(count) => write!(f, "{count} labels"),
        }?;
        f.write_str(match self.level {
            Level::Graph => " per graph",
            Level::Node => " per node",
        })
    }
}

/// How to load a set.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// The folder of this set.
    pub path: Option<PathBuf>,
    /// The folder of all sets, each in a folder of its own; used if `path` is not given.
    pub home: Option<PathBuf>,
    /// Seed of generated sets.
    pub seed: Seed,
    /// Graphs to generate for training, validation and test; the set's own choice otherwise.
    pub graphs: Option<[usize; 3]>,
    /// The most memory to take.
    pub limit: MemoryLimit,
}

impl LoadOptions {
    /// As a user's command loads sets: from [`user_home`].
    pub fn of_user() -> LoadOptions {
        LoadOptions { home: user_home(), ..LoadOptions::default() }
    }
}

/// The folder of a user's sets: the one that `HDSE_DATA` names, else `hdse` in the platform's folder for
/// data (`~/.local/share` on Linux, or `XDG_DATA_HOME`).
pub fn user_home() -> Option<PathBuf> {
    let variable =
        |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || variable("HOME");
    variable("HDSE_DATA").or_else(|| {
        let data = if cfg!(target_os = "macos") {
            home().map(|home| home.join("Library/Application Support"))
        } else if cfg!(windows) {
            variable("LOCALAPPDATA")
        } else {
            variable("XDG_DATA_HOME").or_else(|| home().map(|home| home.join(".local/share")))
        };
        data.map(|data| data.join("hdse"))
    })
}

/// A loaded set.
#[derive(Clone, Debug)]
pub struct Splits {
    /// Samples to train on.
    pub train: Vec<Sample>,
    /// Samples to choose by.
    pub val: Vec<Sample>,
    /// Samples to report.
    pub test: Vec<Sample>,
    /// What is to be predicted.
    pub task: Task,
    /// How the samples differ from the official set, for every table made from them; nothing if they
    /// don't, or if there is no official set.
    pub label: Option<String>,
    /// blake3 of the files, or of the samples if they were generated, in hexadecimal.
    pub hash: String,
}

/// The file beside those of the splits that says what they are instead of the official set.
const LABEL: &str = "label.txt";

/// Names of the splits, in order.
pub const SPLITS: [&str; 3] = ["train", "val", "test"];

impl Splits {
    /// The three splits in order.
    pub fn parts(&self) -> [&[Sample]; 3] {
        [&self.train, &self.val, &self.test]
    }

    /// All samples: those of training, validation, test.
    pub fn into_samples(self) -> Vec<Sample> {
        let mut samples = self.train;
        samples.extend(self.val);
        samples.extend(self.test);
        samples
    }

    /// Keeps the first so many samples of every split, and says so.
    pub fn shorten(&mut self, samples: usize) {
        let before = self.parts().map(<[Sample]>::len);
        for part in [&mut self.train, &mut self.val, &mut self.test] {
            part.truncate(samples);
        }
        if self.parts().map(<[Sample]>::len) != before {
            let said = self.label.as_ref().map_or(String::new(), |label| format!("{label}, "));
            self.label = Some(format!("{said}the first {samples} graphs of every part"));
        }
    }

    /// Counts and averages.
    pub fn statistics(&self) -> Statistics {
        Statistics::of(&self.parts())
    }
}

/// The set called `name`.
///
/// # Errors
/// If there is none; the nearest name is suggested. A node set ([`nodes`]) is none.
pub fn by_name(name: &str) -> Result<&'static dyn Dataset> {
    ALL.iter().copied().find(|set| set.entry().name == name).ok_or_else(|| {
        if let Some(entry) = nodes::find(name) {
            return Error::config(format!(
                "`{name}` is one graph with targets on its nodes, not a set of graphs; its files are put in \
                 place by hand (`hdse data info {name}`), and `hdse data check {name}` and `hdse::data::nodes` read them: {}",
                entry.files
            ));
        }
        let all = ALL.iter().map(|set| set.entry().name);
        let names = all.chain(nodes::ALL.iter().map(|entry| entry.name));
        unknown("data set", name, names, "`hdse data list` shows all")
    })
}

/// The sets that need no files.
pub fn generated() -> impl Iterator<Item = &'static dyn Dataset> {
    ALL.iter().copied().filter(|set| set.entry().generated)
}

/// Samples for training, validation and test.
pub type Parts = [Vec<Sample>; 3];

/// A set that is made from a seed.
pub struct Generated {
    /// What is known of it.
    pub entry: Entry,
    /// Graphs per split unless told.
    pub graphs: [usize; 3],
    /// Makes the samples of the three splits.
    pub make: fn(Seed, [usize; 3]) -> Result<Parts>,
}

impl Dataset for Generated {
    fn entry(&self) -> &Entry {
        &self.entry
    }

    fn load(&self, options: &LoadOptions) -> Result<Splits> {
        let name = || format!("set `{}`", self.entry.name);
        self.generate(options).context(name)
    }
}

impl Generated {
    fn generate(&self, options: &LoadOptions) -> Result<Splits> {
        if let Some(path) = &options.path {
            return Err(Error::config(format!(
                "it is generated and reads no files; leave out its folder ({})",
                path.display()
            )));
        }
        let graphs = options.graphs.unwrap_or(self.graphs);
        if graphs.contains(&0) {
            return Err(Error::config("a split of 0 graphs; every split needs one at least"));
        }
        // Arcs, the undirected graph, features and targets, at the average size of the original.
        let Statistics { mean_nodes, mean_arcs, .. } = self.entry.published;
        let bytes = mean_arcs * 16.0 + mean_nodes * (16.0 + 8.0 * self.entry.nodes.width() as f64);
        let count: u128 = graphs.iter().map(|&count| count as u128).sum();
        options.limit.check(
            count.saturating_mul(bytes as u128),
            &format!("generating {count} graphs"),
            "generate fewer, or raise `--max-memory`",
        )?;
        let mut parts = (self.make)(options.seed, graphs)?;
        let rows = [0, 1, 2].map(|split| vec![(SPLITS[split].to_string(), parts[split].len())]);
        let mut problems = check::Problems::default();
        check::every(&mut parts, &rows, &mut problems, |sample| check::listed(sample, &self.entry));
        problems.into_result()?;
        let hash = super::hash_samples(parts.iter().flatten());
        let found = Statistics::of(&parts);
        let label = statistics::label(&self.entry, &found, Some("regenerated"));
        Ok(folder::splits(parts, self.entry.task, hash, label))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_near_ones_suggested() {
        let mut names: Vec<&str> = ALL.iter().map(|set| set.entry().name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        let error = by_name("zink").err().unwrap();
        assert!(error.to_string().contains("did you mean `zinc`?"), "{error}");
    }

    #[test]
    fn entries_are_complete() {
        for entry in ALL.iter().map(|set| set.entry()) {
            assert_eq!(entry.folders.is_empty(), entry.generated, "{}", entry.name);
            assert!(entry.source.starts_with("https://"), "{}", entry.name);
            for text in [entry.summary, entry.metric, entry.licence, entry.citation] {
                assert!(!text.is_empty(), "{}", entry.name);
            }
        }
    }

    #[test]
    fn tasks_are_read_as_they_are_written() {
        for set in ALL {
            let task = set.entry().task;
            let text = serde_json::to_string(&task).unwrap();
            assert_eq!(serde_json::from_str::<Task>(&text).unwrap(), task, "{text}");
        }
        let text = r#"{"level": "graph", "target": {"classes": 10}}"#;
        let task: Task = serde_json::from_str(text).unwrap();
        assert_eq!(task.to_string(), "one of 10 classes per graph");
    }

    #[test]
    fn impossible_requests_of_generated_sets_are_explained() {
        let set = by_name("pattern-gen").unwrap();
        let load = |options: LoadOptions| format!("{:#}", set.load(&options).unwrap_err());
        let path = Some(PathBuf::from("data"));
        let error = load(LoadOptions { path, ..LoadOptions::default() });
        assert!(error.contains("set `pattern-gen`: it is generated"), "{error}");
        let error = load(LoadOptions { graphs: Some([5, 0, 1]), ..LoadOptions::default() });
        assert!(error.contains("a split of 0 graphs"), "{error}");
        let error = load(LoadOptions { graphs: Some([usize::MAX; 3]), ..LoadOptions::default() });
        assert!(error.contains("generating"), "{error}");
    }
}
