//! Experiments of the paper: the configuration of each, what its rows change, and what was published.
//!
//! An experiment is a configuration and rows. Every row is the configuration with a few keys changed, so that a
//! model and its controls differ in nothing else: the plain backbone, hop distances alone, a random
//! partition with clusters of the same sizes.
//!
//! ```
//! let experiment = hdse::experiments::by_name("zinc-gps")?;
//! let plain = experiment.rows[0].config(experiment)?;
//! assert_eq!(plain.model.bias, hdse::nn::config::BiasKind::None);
//! # Ok::<(), hdse::Error>(())
//! ```

mod graphs;
mod nodes;
pub mod published;

use std::sync::LazyLock;

use published::Cell;

use crate::config::Config;
use crate::error::unknown;
use crate::{Error, Result};

/// Rows that belong side by side.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The name to choose it by.
    pub name: String,
    /// One line for lists.
    pub summary: String,
    /// File of the configuration in `configs/`, without its extension.
    pub config: String,
    /// What is in that file; none if the backbone is still to come.
    pub text: Option<&'static str>,
    /// What all rows change.
    pub changes: Vec<String>,
    /// What is compared, the plain model first and the whole one last.
    pub rows: Vec<Row>,
    /// The table of the paper.
    pub table: u32,
    /// Seeds of every row unless told.
    pub seeds: u64,
    /// What a reader of the numbers must know.
    pub remark: String,
}

/// A row of a table.
#[derive(Clone, Debug)]
pub struct Row {
    /// The name to choose it by.
    pub id: String,
    /// What tables call it.
    pub name: String,
    /// What it changes: keys of the configuration and values.
    pub changes: Vec<String>,
    /// What was published.
    pub published: Option<&'static Cell>,
}

macro_rules! configurations {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("../../configs/", $name, ".toml")))),*]
    };
}

/// Files of `configs/`, as they were when this was built.
const CONFIGURATIONS: [(&str, &str); 39] = configurations!(
    "gt-community-small" "gt-zinc" "gt-mnist" "gt-cifar10" "gt-pattern" "gt-cluster" "gt-peptides-func" "gt-peptides-struct"
    "gps-zinc" "gps-mnist" "gps-cifar10" "gps-pattern" "gps-cluster" "gps-peptides-func" "gps-peptides-struct"
    "sat-zinc" "sat-pattern" "sat-cluster"
    "grit-zinc" "grit-mnist" "grit-cifar10" "grit-pattern" "grit-cluster" "grit-peptides-func" "grit-peptides-struct"
    "sgformer-zinc" "sgformer-pattern" "sgformer-cluster"
    "goat-cora" "goat-citeseer" "goat-pubmed" "goat-actor" "goat-squirrel" "goat-chameleon"
    "goat-ogbn-proteins" "goat-ogbn-arxiv" "goat-arxiv-year" "goat-ogbn-products" "goat-ogbn-papers100M"
);

static ALL: LazyLock<Vec<Experiment>> = LazyLock::new(|| [graphs::all(), nodes::all()].concat());

/// Every experiment.
pub fn all() -> &'static [Experiment] {
    &ALL
}

/// The file of `configs/` called `name`.
fn configuration(name: &str) -> Option<&'static str> {
    CONFIGURATIONS.iter().find(|(file, _)| *file == name).map(|(_, text)| *text)
}

/// The experiment called `name`.
///
/// # Errors
/// If there is none; the nearest name is suggested.
pub fn by_name(name: &str) -> Result<&'static Experiment> {
    all().iter().find(|experiment| experiment.name == name).ok_or_else(|| {
        let names = all().iter().map(|experiment| experiment.name.as_str());
        unknown("experiment", name, names, "`hdse reproduce list` shows all")
    })
}

impl Experiment {
    /// An experiment of a configuration, to be filled in.
    fn of(config: &str) -> Experiment {
        Experiment {
            name: String::new(),
            summary: String::new(),
            config: config.into(),
            text: configuration(config),
            changes: Vec::new(),
            rows: Vec::new(),
            table: 0,
            seeds: 1,
            remark: String::new(),
        }
    }

    /// Rows called `ids`, in the order of the table; all if none are given.
    ///
    /// # Errors
    /// If there is no row of one of these names; the nearest is suggested.
    pub fn choose(&self, ids: &[String]) -> Result<Vec<&Row>> {
        let names = || self.rows.iter().map(|row| row.id.as_str());
        if let Some(id) = ids.iter().find(|id| !names().any(|name| name == *id)) {
            let all = format!("there are {}", names().collect::<Vec<_>>().join(", "));
            return Err(unknown(&format!("row of `{}`", self.name), id, names(), &all));
        }
        let chosen = |row: &&Row| ids.is_empty() || ids.contains(&row.id);
        Ok(self.rows.iter().filter(chosen).collect())
    }

    /// The row called `id`.
    pub fn row(&self, id: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.id == id)
    }

    /// Digits after the point in its table.
    pub fn digits(&self) -> usize {
        let digits = self.rows.iter().filter_map(|row| row.published).map(Cell::digits);
        digits.max().unwrap_or(1)
    }

    /// The table of the paper, in words.
    pub fn source(&self) -> String {
        let about = published::all().iter().find(|cell| cell.table == self.table);
        let about = about.map_or(String::new(), |cell| format!(" ({})", cell.about));
        format!("{}, table {}{about}", published::PAPER, self.table)
    }
}

impl Row {
    fn new(id: &str, name: &str, changes: &[&str]) -> Row {
        let changes = changes.iter().map(|change| change.to_string()).collect();
        Row { id: id.into(), name: name.into(), changes, published: None }
    }

    fn set(mut self, change: impl Into<String>) -> Row {
        self.changes.push(change.into());
        self
    }

    fn published(mut self, cell: Option<&'static Cell>) -> Row {
        self.published = cell;
        self
    }

    /// The configuration of the experiment with the changes of this row.
    ///
    /// # Errors
    /// If the backbone of the experiment is still to come.
    pub fn config(&self, experiment: &Experiment) -> Result<Config> {
        let Some(text) = experiment.text else {
            let backbone = experiment.config.split('-').next().unwrap_or("");
            return Err(Error::config(format!(
                "`{}` needs the backbone `{backbone}`, which is still to come; `hdse list backbones` shows those that are there",
                experiment.name
            )));
        };
        let changes: Vec<String> =
            experiment.changes.iter().chain(&self.changes).cloned().collect();
        Config::parse(text, &experiment.config, &changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_configuration_of_its_own() {
        for (number, experiment) in all().iter().enumerate() {
            let name = &experiment.name;
            assert!(!all()[..number].iter().any(|other| other.name == *name), "{name}");
            assert!(published::all().iter().any(|cell| cell.table == experiment.table), "{name}");
            if experiment.text.is_none() {
                let error = experiment.rows[0].config(experiment).unwrap_err().to_string();
                assert!(error.contains("still to come"), "{error}");
                continue;
            }
            let configs: Vec<Config> =
                experiment.rows.iter().map(|row| row.config(experiment).unwrap()).collect();
            for (number, config) in configs.iter().enumerate() {
                assert!(!configs[..number].contains(config), "{name} {number}");
                let text = config.to_toml().unwrap();
                assert_eq!(&Config::parse(&text, name, &[]).unwrap(), config);
            }
            let changed = experiment.rows.iter().filter(|row| !row.changes.is_empty()).count();
            assert_eq!(
                changed + 1,
                experiment.rows.len(),
                "{name}: one row is the configuration itself"
            );
        }
    }

    #[test]
    fn published_numbers_are_those_of_the_set() {
        for experiment in all().iter().filter(|experiment| experiment.text.is_some()) {
            let set = experiment.rows[0].config(experiment).unwrap().data.set;
            for row in &experiment.rows {
                assert!(
                    row.published.is_none_or(|cell| cell.set == set),
                    "{} {}",
                    experiment.name,
                    row.id
                );
            }
        }
        let zinc = by_name("zinc-gps").unwrap();
        let published: Vec<_> = zinc.rows.iter().map(|row| row.published.map(Cell::text)).collect();
        let published: Vec<&str> =
            published.iter().map(|text| text.as_deref().unwrap_or("–")).collect();
        assert_eq!(published, ["0.070 ± 0.004", "0.069 ± 0.003", "–", "0.062 ± 0.003"]);
        assert_eq!(zinc.digits(), 3);
        assert_eq!(zinc.source(), "Luo et al., NeurIPS 2024, table 2 (benchmark sets)");
    }

    #[test]
    fn every_configuration_is_at_hand() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("configs");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .filter_map(|entry| {
                entry
                    .unwrap()
                    .file_name()
                    .into_string()
                    .unwrap()
                    .strip_suffix(".toml")
                    .map(String::from)
            })
            .collect();
        files.sort();
        let mut listed: Vec<&str> = CONFIGURATIONS.iter().map(|(name, _)| *name).collect();
        listed.sort();
        assert_eq!(files, listed);
    }

    #[test]
    fn unknown_names_are_refused_with_the_nearest() {
        let error = by_name("zinc-gpss").unwrap_err().to_string();
        assert!(error.contains("did you mean `zinc-gps`?"), "{error}");
        let zinc = by_name("zinc-gps").unwrap();
        assert_eq!(zinc.choose(&[]).unwrap().len(), 4);
        let chosen = zinc.choose(&["hdse".into(), "off".into()]).unwrap();
        assert_eq!(chosen.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["off", "hdse"]);
        let error = zinc.choose(&["hsde".into()]).unwrap_err().to_string();
        assert!(error.contains("`hsde`; did you mean `hdse`? there are off"), "{error}");
    }
}
