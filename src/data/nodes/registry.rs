//! Node sets that are known by name: what is published of them, and where their files go.
//!
//! As with sets of graphs, a copy that differs from what is published is used and gets a label that says how.
//!
//! `arxiv-year` is ogbn-arxiv with other targets (Lim et al., Large Scale Learning on Non-Homophilous Graphs, NeurIPS 2021): the year of
//! a paper, in five classes by the quantiles ⅕, ⅖, ⅗ and ⅘ of all years. Years are whole and many papers share one,
//! so the classes are only roughly even.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::known::*;
use super::{NodeSet, heterophilous, ogb, planetoid};
use crate::data::Values;
use crate::data::sets::{LoadOptions, Target};
use crate::error::{Context as _, unknown};
use crate::{Error, Result};

/// What is known of a node set without loading it.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The name to choose it by.
    pub name: &'static str,
    /// Names of its folder inside the folder of all sets, the usual one first.
    pub folders: &'static [&'static str],
    /// Its files, as they are to be placed in that folder.
    pub files: &'static str,
    /// One line for lists.
    pub summary: &'static str,
    /// What tables report.
    pub metric: &'static str,
    /// The split of the paper's protocol.
    pub protocol: &'static str,
    /// Statistics of the official set.
    pub published: Statistics,
    /// Licence, as its publishers state it.
    pub licence: &'static str,
    /// Who made it.
    pub citation: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    pub(super) layout: Layout,
}

/// How files are to be read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Layout {
    Planetoid,
    Npz(&'static str),
    Ogb {
        directed: bool,
    },
    /// As of ogbn-arxiv, with years for classes.
    Years,
}

/// Counts of a node set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Statistics {
    /// Nodes.
    pub nodes: usize,
    /// Arcs as files list them.
    pub arcs: usize,
    /// Undirected edges without self-loops, where that is published.
    pub edges: Option<usize>,
    /// Features of a node.
    pub features: usize,
    /// What is predicted of a node.
    pub target: Target,
    /// Nodes for training, validation and test in the first split.
    pub split: Option<[usize; 3]>,
}

impl Statistics {
    /// Counts everything.
    pub fn of(set: &NodeSet) -> Statistics {
        Statistics {
            nodes: set.num_nodes(),
            arcs: set.edges.sources.len(),
            edges: Some(set.graph.num_edges()),
            features: set.features.width(),
            target: set.task.target,
            split: set.splits.first().map(super::Split::sizes),
        }
    }

    /// How these differ from the official ones, if they do.
    fn label(&self, official: &Statistics) -> Option<String> {
        let mut parts = Vec::new();
        let mut compare = |what: &str, here: usize, there: usize| {
            if here != there {
                parts.push(format!("{here} {what} instead of {there}"));
            }
        };
        compare("nodes", self.nodes, official.nodes);
        compare("arcs", self.arcs, official.arcs);
        if let (Some(here), Some(there)) = (self.edges, official.edges) {
            compare("edges", here, there);
        }
        compare("features", self.features, official.features);
        let (here, there) = (targets(self.target), targets(official.target));
        compare(there.1, here.0, there.0);
        if official.split.is_some() && self.split != official.split {
            let sizes = |split: Option<[usize; 3]>| {
                split.map_or("none".into(), |sizes| sizes.map(|n| n.to_string()).join(" / "))
            };
            parts.push(format!(
                "other splits ({} of {} nodes)",
                sizes(self.split),
                sizes(official.split)
            ));
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// How many there are, and of what.
fn targets(target: Target) -> (usize, &'static str) {
    match target {
        Target::Classes(count) => (count, "classes"),
        Target::Labels(count) => (count, "labels"),
        Target::Regression(count) => (count, "numbers"),
    }
}

/// Every node set, in the order of the documentation.
pub const ALL: &[Entry] = &[
    CORA, CITESEER, PUBMED, ACTOR, SQUIRREL, CHAMELEON, ARXIV, ARXIV_YEAR, PRODUCTS, PROTEINS,
    PAPERS100M,
];

/// The node set called `name`, if there is one.
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.name == name)
}

/// The node set called `name`.
///
/// # Errors
/// If there is none; the nearest name is suggested.
pub fn by_name(name: &str) -> Result<&'static Entry> {
    find(name).ok_or_else(|| {
        let names = ALL.iter().map(|entry| entry.name);
        unknown("node set", name, names, "`hdse data list` shows all")
    })
}

impl Entry {
    /// The split of the paper's protocol as a name for a seed, `{seed}` in place of the seed.
    pub fn split(&self) -> String {
        match self.protocol {
            "0 to 9" => "{seed}".to_string(),
            protocol => protocol.replace("SEED", "{seed}"),
        }
    }

    /// Reads its files and checks them.
    ///
    /// # Errors
    /// If files are missing or broken, or do not fit together.
    pub fn load(&self, options: &LoadOptions) -> Result<NodeSet> {
        self.load_unnamed(options).context(|| format!("set `{}`", self.name))
    }

    fn load_unnamed(&self, options: &LoadOptions) -> Result<NodeSet> {
        if options.graphs.is_some() {
            return Err(Error::config("it is one graph, read from files"));
        }
        let path = self.locate(options)?;
        let mut set = match self.layout {
            Layout::Planetoid => planetoid::load(&path, self.name, options.limit),
            Layout::Npz(_) => heterophilous::load(&path, options.limit),
            Layout::Ogb { directed } => ogb::load(&path, directed, options.limit),
            Layout::Years => ogb::load(&path, true, options.limit).and_then(by_years),
        }
        .map_err(|error| match error.is_config() {
            true => self.explain(error),
            false => error,
        })?;
        set.label = Statistics::of(&set).label(&self.published);
        Ok(set)
    }

    /// The folder or file to read.
    fn locate(&self, options: &LoadOptions) -> Result<PathBuf> {
        if let Some(path) = &options.path {
            let inside = |path: PathBuf| path.exists().then_some(path);
            return match self.layout {
                Layout::Npz(file) if path.is_dir() => inside(path.join(file)),
                // As PyTorch Geometric unpacks it.
                Layout::Planetoid if !planetoid::is_in(path, self.name) => {
                    inside(path.join("raw")).or_else(|| inside(path.clone()))
                }
                _ => inside(path.clone()),
            }
            .ok_or_else(|| {
                self.explain(Error::config(format!("nothing to read at {}", path.display())))
            });
        }
        let Some(home) = &options.home else {
            return Err(self.explain(Error::config("no folder is named")));
        };
        let candidates = || self.folders.iter().map(|folder| home.join(folder));
        let found = candidates().find_map(|folder| self.inside(&folder));
        found.ok_or_else(|| {
            let looked: Vec<String> = candidates().map(|path| path.display().to_string()).collect();
            self.explain(Error::config(format!("it is not in {}", looked.join(" or "))))
        })
    }

    /// What to read in a folder, if it has the set.
    fn inside(&self, folder: &Path) -> Option<PathBuf> {
        match self.layout {
            Layout::Planetoid => planetoid::is_in(folder, self.name).then(|| folder.to_path_buf()),
            Layout::Npz(file) => Some(folder.join(file)).filter(|file| file.is_file()),
            Layout::Ogb { .. } | Layout::Years => ogb::is_in(folder).then(|| folder.to_path_buf()),
        }
    }

    /// Adds what files are expected, where, and where they are from.
    fn explain(&self, error: Error) -> Error {
        Error::config(format!(
            "{error}; it needs {}, in the folder given with `--path` or in {}/ inside the folder that \
             HDSE_DATA names; get them from {}",
            self.files,
            self.folders.first().copied().unwrap_or(self.name),
            self.source
        ))
    }
}

/// Classes of arxiv-year.
const YEARS: usize = 5;

/// Puts years in the place of classes, and draws splits: those of the set are by year.
fn by_years(mut set: NodeSet) -> Result<NodeSet> {
    let years =
        set.years.as_ref().ok_or_else(|| Error::config("no file node_year.csv.gz in raw"))?;
    set.y = Values::Int(quantiles(years, YEARS));
    set.task.target = Target::Classes(YEARS);
    set.splits.clear();
    for seed in 0..5 {
        let split = set.split(&format!("half-{seed}"))?;
        set.splits.push(split);
    }
    Ok(set)
}

/// The class of every value among `count` by even quantiles: how many of the bounds between classes, linearly
/// interpolated, it reaches.
fn quantiles(values: &[i64], count: usize) -> Vec<i64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().saturating_sub(1);
    let bound = |k: usize| {
        let place = k as f64 / count as f64 * last as f64;
        let (low, high) = (sorted[place as usize] as f64, sorted[(place as usize + 1).min(last)]);
        low + (high as f64 - low) * place.fract()
    };
    let bounds: Vec<f64> = match sorted.is_empty() {
        true => Vec::new(),
        false => (1..count).map(bound).collect(),
    };
    let class = |&value: &i64| bounds.iter().filter(|&&bound| value as f64 >= bound).count() as i64;
    values.iter().map(class).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_complete_and_names_unique() {
        let graph_sets = crate::data::sets::ALL.iter().map(|set| set.entry().name);
        let mut names: Vec<&str> = ALL.iter().map(|entry| entry.name).chain(graph_sets).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for entry in ALL {
            assert!(entry.source.starts_with("https://"), "{}", entry.name);
            assert!(!entry.folders.is_empty() && entry.published.nodes > 0, "{}", entry.name);
            for text in [entry.summary, entry.metric, entry.files, entry.licence, entry.citation] {
                assert!(!text.is_empty(), "{}", entry.name);
            }
        }
        let error = by_name("coora").unwrap_err();
        assert!(error.to_string().contains("did you mean `cora`?"), "{error}");
    }

    #[test]
    fn years_become_classes_by_quantiles() {
        // By numpy.quantile: 2.8, 4.6, 6.4 and 8.2.
        let years: Vec<i64> = (1..=10).collect();
        assert_eq!(quantiles(&years, 5), [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]);
        // Bounds 0, 0, 0.6 and 2.6: whoever is on a bound is above it, and classes may be empty.
        assert_eq!(quantiles(&[0, 0, 0, 0, 1, 3, 3], 5), [2, 2, 2, 2, 3, 4, 4]);
        assert!(quantiles(&[], 5).is_empty());
    }

    #[test]
    fn missing_files_are_explained() {
        let folder = tempfile::tempdir().unwrap();
        let home = Some(folder.path().to_path_buf());
        for entry in ALL {
            let options = LoadOptions { home: home.clone(), ..LoadOptions::default() };
            let error = entry.load(&options).unwrap_err();
            let text = format!("{error:#}");
            assert!(error.is_config() && text.starts_with(&format!("set `{}`: ", entry.name)));
            assert!(text.contains(entry.files) && text.contains(entry.folders[0]), "{text}");
            let path = Some(folder.path().join("absent"));
            let options = LoadOptions { path, ..LoadOptions::default() };
            let text = format!("{:#}", entry.load(&options).unwrap_err());
            assert!(text.contains("nothing to read at") && text.contains(entry.files), "{text}");
        }
    }

    #[test]
    fn labels_say_what_differs() {
        let official = CORA.published;
        assert_eq!(official.label(&official), None);
        let found = Statistics { nodes: 5, split: None, ..official };
        let text = "5 nodes instead of 2708, other splits (none of 140 / 500 / 1000 nodes)";
        assert_eq!(found.label(&official).unwrap(), text);
        let found = Statistics { target: Target::Classes(3), ..official };
        assert_eq!(found.label(&official).unwrap(), "3 classes instead of 7");
    }
}
