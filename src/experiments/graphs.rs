//! Sets of many graphs: the paper's tables of benchmark sets, of long-range sets, of synthetic graphs, and its ablations.
//!
//! Beside every model with HDSE are its controls, which differ in nothing else and share its seeds:
//!
//! | row | what it is |
//! |---|---|
//! | `off` | the plain backbone |
//! | `spd` | hop distances alone |
//! | `random` | distances of a random partition with clusters of the same sizes |
//! | `hdse` | distances of all levels |

use super::published::find;
use super::{Experiment, Row, configuration};
use crate::config::Config;

/// Runs of a row unless told; the paper has five, its released commands four.
const SEEDS: u64 = 4;

/// Sets of the tables of benchmark sets and of long-range sets.
const SETS: [(&str, &str, u32); 7] = [
    ("zinc", "penalised log P of molecules (ZINC)", 2),
    ("mnist", "digits, as graphs of superpixels (MNIST)", 2),
    ("cifar10", "pictures, as graphs of superpixels (CIFAR10)", 2),
    ("pattern", "nodes of a hidden pattern in block models (PATTERN)", 2),
    ("cluster", "blocks of nodes in block models (CLUSTER)", 2),
    ("peptides-func", "functions of peptides", 3),
    ("peptides-struct", "structure of peptides", 3),
];

/// Backbones as files and as tables call them.
const BACKBONES: [(&str, &str); 4] =
    [("gt", "GT"), ("gps", "GraphGPS"), ("sat", "SAT"), ("grit", "GRIT")];

/// One experiment for each set and backbone, and what the paper varies.
pub(super) fn all() -> Vec<Experiment> {
    let mut all = vec![community_small()];
    for (backbone, model) in BACKBONES {
        for (set, summary, table) in SETS {
            let with = format!("{model} + HDSE");
            if configuration(&format!("{backbone}-{set}")).is_some()
                || find(table, set, &with).is_some()
            {
                all.push(with_controls(backbone, model, set, summary, table));
            }
        }
    }
    all.extend(["zinc", "pattern", "cluster"].map(sgformer));
    all.push(coarseners("gps", "GraphGPS"));
    all.push(coarseners("sat", "SAT"));
    all.push(levels());
    all.extend(["peptides-func", "peptides-struct"].map(lengths));
    all
}

fn with_controls(backbone: &str, model: &str, set: &str, summary: &str, table: u32) -> Experiment {
    let file = format!("{backbone}-{set}");
    let coarsener = configured(&file).map_or(String::new(), |config| config.hierarchy.coarsener);
    let levels = configured(&file).map_or(1, |config| config.model.levels);
    let name = coarsener.split(':').next().unwrap_or("");
    let with = format!("{model} + HDSE");
    let of = |model: &str| find(table, set, model);
    let random = Row::new("random", &format!("{model} + random partition"), &[])
        .set(format!("hierarchy.coarsener=random:like={name}"));
    let off = Row::new("off", model, &["model.bias=none"]).published(of(model));
    let rows = match levels {
        // The paper's own row has hop distances alone.
        0 => vec![
            off,
            Row::new("spd", &with, &[]).published(of(&with)),
            random.set("model.levels=1"),
            Row::new("hdse", &format!("{with}, K = 1"), &["model.levels=1"]),
        ],
        _ => {
            let spd = find(13, set, &format!("{with} (K = 0)"));
            vec![
                off,
                Row::new("spd", &format!("{model} + SPD"), &["model.levels=0"]).published(spd),
                random,
                Row::new("hdse", &with, &[]).published(of(&with)),
            ]
        }
    };
    Experiment {
        name: format!("{set}-{backbone}"),
        summary: format!("{summary}, by {model}"),
        rows,
        table,
        seeds: SEEDS,
        ..Experiment::of(&file)
    }
}

/// A row of the table of benchmark sets by itself: its attention has no place for a bias of pairs.
fn sgformer(set: &str) -> Experiment {
    let model = "SGFormer";
    let summary =
        SETS.iter().find(|(name, ..)| *name == set).map_or(set, |(_, summary, _)| summary);
    Experiment {
        name: format!("{set}-sgformer"),
        summary: format!("{summary}, by {model}"),
        rows: vec![Row::new("off", model, &[]).published(find(2, set, model))],
        table: 2,
        seeds: SEEDS,
        remark: "The paper gives no settings of this row: training is that of GraphGPS.".into(),
        ..Experiment::of(&format!("sgformer-{set}"))
    }
}

fn configured(file: &str) -> Option<Config> {
    Config::parse(configuration(file)?, file, &[]).ok()
}

fn community_small() -> Experiment {
    let set = "community-small";
    let row = |id: &str, name: &str, changes: &[&str]| {
        Row::new(id, name, changes).published(find(18, set, name))
    };
    Experiment {
        name: set.into(),
        summary: "communities of nodes in small graphs, by GT".into(),
        rows: vec![
            row("off", "GT", &["model.bias=none"]),
            row("spd", "GT + SPD", &["model.levels=0"]),
            row("random", "GT + random partition", &["hierarchy.coarsener=random:like=louvain"]),
            row("hdse", "GT + HDSE", &[]),
        ],
        table: 18,
        seeds: 5,
        remark: "Which community is called 0 is arbitrary: accuracy is taken up to a swap of the two within each graph, \
                 and guessing reaches about 60 %."
            .into(),
        ..Experiment::of("gt-community-small")
    }
}

/// All coarseners with their defaults.
fn coarseners(backbone: &str, model: &str) -> Experiment {
    let mut rows =
        vec![Row::new("off", model, &["model.bias=none"]).published(find(4, "zinc", model))];
    let file = format!("{backbone}-zinc");
    let own = configured(&file).map_or(String::new(), |config| config.hierarchy.coarsener);
    for entry in crate::coarsen::ALL {
        let id = entry.name;
        let row = Row::new(id, &format!("{model} + HDSE, {id}"), &[]);
        let row = match id {
            id if id == own => row,
            "random" => row.set(format!("hierarchy.coarsener=random:like={own}")),
            id => row.set(format!("hierarchy.coarsener={id}")),
        };
        rows.push(row.published(find(4, "zinc", &format!("{model} + HDSE ({id})"))));
    }
    Experiment {
        name: format!("zinc-coarseners-{backbone}"),
        summary: format!("which coarsener is best on ZINC, by {model}"),
        rows,
        table: 4,
        seeds: SEEDS,
        ..Experiment::of(&file)
    }
}

/// How many levels.
fn levels() -> Experiment {
    let mut rows = vec![
        Row::new("off", "GraphGPS", &["model.bias=none"]).published(find(2, "zinc", "GraphGPS")),
    ];
    for k in 0..=3 {
        let row = Row::new(&format!("k{k}"), &format!("GraphGPS + HDSE, K = {k}"), &[]);
        let row = if k == 1 { row } else { row.set(format!("model.levels={k}")) };
        rows.push(row.published(find(13, "zinc", &format!("GraphGPS + HDSE (K = {k})"))));
    }
    Experiment {
        name: "zinc-levels-gps".into(),
        summary: "how many levels are best on ZINC, by GraphGPS".into(),
        rows,
        table: 13,
        seeds: SEEDS,
        ..Experiment::of("gps-zinc")
    }
}

/// How far distances are told apart.
fn lengths(set: &str) -> Experiment {
    let row = |length: u32| {
        let row = Row::new(&format!("l{length}"), &format!("GraphGPS + HDSE, L = {length}"), &[]);
        let row = if length == 30 { row } else { row.set(format!("model.max_distance={length}")) };
        row.published(find(16, set, &format!("GraphGPS + HDSE (L = {length})")))
    };
    let off = Row::new("off", "GraphGPS", &["model.bias=none"]).published(find(3, set, "GraphGPS"));
    Experiment {
        name: format!("{set}-lengths-gps"),
        summary: format!("how far distances are told apart on {set}, by GraphGPS"),
        rows: [off].into_iter().chain([20, 30, 50].map(row)).collect(),
        table: 16,
        seeds: SEEDS,
        ..Experiment::of(&format!("gps-{set}"))
    }
}
