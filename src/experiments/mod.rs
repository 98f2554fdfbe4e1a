//! Experiments of the paper: the configuration of each, what its rows change, and what was published.
//!
//! An experiment is a configuration and rows. Every row is the configuration with a few keys changed, so that a
//! model and its controls differ in nothing else: the plain backbone, hop distances alone, a random
//! partition with clusters of the same sizes.
//!
//! Published numbers are those of Luo et al., "Enhancing Graph Transformers with Hierarchical Distance
//! Structural Encoding", NeurIPS 2024, mean and standard deviation on the test part.
//!
//! ```
//! let experiment = hdse::experiments::by_name("zinc-gps")?;
//! let plain = experiment.rows[0].config(experiment)?;
//! assert_eq!(plain.model.bias, hdse::nn::config::BiasKind::None);
//! # Ok::<(), hdse::Error>(())
//! ```

mod nodes;

use crate::Result;
use crate::config::Config;
use crate::error::unknown;

/// Rows that belong side by side.
#[derive(Debug)]
pub struct Experiment {
    /// The name to choose it by.
    pub name: &'static str,
    /// One line for lists.
    pub summary: &'static str,
    /// How long it takes on two cores.
    pub cost: &'static str,
    /// File of the configuration in `configs/`, without its extension.
    pub config: &'static str,
    /// What is in that file.
    pub text: &'static str,
    /// What all rows change.
    pub changes: &'static [&'static str],
    /// What is compared.
    pub rows: &'static [Row],
    /// Where the paper has its numbers.
    pub source: &'static str,
    /// By what results are multiplied for print: 100 for percent.
    pub scale: f64,
    /// Digits after the point.
    pub digits: usize,
    /// Seeds of every row unless told.
    pub seeds: u64,
    /// What a reader of the numbers must know.
    pub remark: &'static str,
}

/// A row of a table.
#[derive(Debug)]
pub struct Row {
    /// The name to choose it by.
    pub id: &'static str,
    /// What tables call it.
    pub name: &'static str,
    /// What it changes: keys of the configuration and values.
    pub changes: &'static [&'static str],
    /// What was published.
    pub published: Option<Published>,
}

/// A published number, as it was printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// Mean over seeds.
    pub mean: f64,
    /// Standard deviation.
    pub deviation: f64,
}

const fn published(mean: f64, deviation: f64) -> Option<Published> {
    Some(Published { mean, deviation })
}

/// Every experiment.
pub const ALL: &[Experiment] = &[
    COMMUNITY_SMALL,
    ZINC_GPS,
    nodes::CORA,
    nodes::CORA_PUBLIC,
    nodes::CORA_RANDOM,
    nodes::CITESEER,
    nodes::CITESEER_PUBLIC,
    nodes::CITESEER_RANDOM,
    nodes::PUBMED,
    nodes::PUBMED_PUBLIC,
    nodes::PUBMED_RANDOM,
    nodes::ACTOR,
    nodes::SQUIRREL,
    nodes::CHAMELEON,
];

const COMMUNITY_SMALL: Experiment = Experiment {
    name: "community-small",
    summary: "communities of nodes in small graphs, by GT",
    cost: "a minute or two",
    config: "gt-community-small",
    text: include_str!("../../configs/gt-community-small.toml"),
    changes: &[],
    rows: &[
        Row {
            id: "off",
            name: "GT",
            changes: &["model.bias=none"],
            published: published(64.7, 1.1),
        },
        Row {
            id: "spd",
            name: "GT + SPD",
            changes: &["model.levels=0"],
            published: published(81.5, 1.7),
        },
        Row {
            id: "random",
            name: "GT + random partition",
            changes: &["hierarchy.coarsener=random:like=louvain"],
            published: None,
        },
        Row { id: "hdse", name: "GT + HDSE", changes: &[], published: published(88.6, 0.9) },
    ],
    source: "table of synthetic graphs (appendix)",
    scale: 100.0,
    digits: 1,
    seeds: 5,
    remark: "Which community is called 0 is arbitrary: accuracy is taken up to a swap of the two within each graph, \
             and guessing reaches about 60 %.",
};

const ZINC_GPS: Experiment = Experiment {
    name: "zinc-gps",
    summary: "penalised log P of molecules (ZINC), by GraphGPS",
    cost: "2,000 epochs of 20 seconds for every row and seed, unless told",
    config: "gps-zinc",
    text: include_str!("../../configs/gps-zinc.toml"),
    changes: &[],
    rows: &[
        Row {
            id: "off",
            name: "GraphGPS",
            changes: &["model.bias=none"],
            published: published(0.070, 0.004),
        },
        Row {
            id: "spd",
            name: "GraphGPS + SPD",
            changes: &["model.levels=0"],
            published: published(0.069, 0.003),
        },
        Row {
            id: "random",
            name: "GraphGPS + random partition",
            changes: &["hierarchy.coarsener=random:like=newman"],
            published: None,
        },
        Row {
            id: "hdse",
            name: "GraphGPS + HDSE",
            changes: &[],
            published: published(0.062, 0.003),
        },
    ],
    source: "tables of the benchmark sets and of maximal levels",
    scale: 1.0,
    digits: 3,
    seeds: 4,
    remark: "",
};

/// The experiment called `name`.
///
/// # Errors
/// If there is none; the nearest name is suggested.
pub fn by_name(name: &str) -> Result<&'static Experiment> {
    ALL.iter().find(|experiment| experiment.name == name).ok_or_else(|| {
        let names = ALL.iter().map(|experiment| experiment.name);
        unknown("experiment", name, names, "`hdse list experiments` shows all")
    })
}

impl Experiment {
    /// Rows called `ids`, in the order of the table; all if none are given.
    ///
    /// # Errors
    /// If there is no row of one of these names; the nearest is suggested.
    pub fn choose(&self, ids: &[String]) -> Result<Vec<&Row>> {
        let names = || self.rows.iter().map(|row| row.id);
        if let Some(id) = ids.iter().find(|id| !names().any(|name| name == *id)) {
            let all = format!("there are {}", names().collect::<Vec<_>>().join(", "));
            return Err(unknown(&format!("row of `{}`", self.name), id, names(), &all));
        }
        let chosen = |row: &&Row| ids.is_empty() || ids.iter().any(|id| id == row.id);
        Ok(self.rows.iter().filter(chosen).collect())
    }
}

impl Row {
    /// The configuration of the experiment with the changes of this row.
    pub fn config(&self, experiment: &Experiment) -> Result<Config> {
        let changes = experiment.changes.iter().chain(self.changes);
        let changes: Vec<String> = changes.map(|change| change.to_string()).collect();
        Config::parse(experiment.text, experiment.config, &changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_configuration_of_its_own() {
        for experiment in ALL {
            let configs: Vec<Config> =
                experiment.rows.iter().map(|row| row.config(experiment).unwrap()).collect();
            for (number, config) in configs.iter().enumerate() {
                assert!(!configs[..number].contains(config), "{} {number}", experiment.name);
            }
            let last = experiment.rows.last().unwrap();
            assert_eq!((last.id, last.changes.len()), ("hdse", 0), "{}", experiment.name);
        }
    }

    #[test]
    fn unknown_names_are_refused_with_the_nearest() {
        let error = by_name("zinc-gsp").unwrap_err().to_string();
        assert!(error.contains("did you mean `zinc-gps`?"), "{error}");
        let zinc = by_name("zinc-gps").unwrap();
        assert_eq!(zinc.choose(&[]).unwrap().len(), 4);
        let chosen = zinc.choose(&["hdse".into(), "off".into()]).unwrap();
        assert_eq!(chosen.iter().map(|row| row.id).collect::<Vec<_>>(), ["off", "hdse"]);
        let error = zinc.choose(&["hsde".into()]).unwrap_err().to_string();
        assert!(error.contains("`hsde`; did you mean `hdse`? there are off"), "{error}");
    }
}
