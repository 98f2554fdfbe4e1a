//! The models of configs/: their sizes, and that the lists are complete.

use std::path::PathBuf;

use super::configs;
use hdse::config::Config;
use hdse::data::nodes;
use hdse::data::sets::{self, Level, Task};
use hdse::nn::config::BiasKind;
use hdse::nn::{ALL, Model, ModelConfig};
use hdse::rng::Seed;
use hdse::train::fit;

/// The models of configs/: released count, and which of its parameters are never used, or of what is not here.
const RELEASED: &[(&str, usize, &[(&str, usize)])] = &[
    ("gps-zinc", 439_989, &[("LayerNorm of the bias", 128), ("key maps of the bias", 2_600)]),
    ("gps-mnist", 125_201, &[("LayerNorm of the bias", 104), ("key maps of the bias", 636)]),
    ("gps-cifar10", 122_549, &[("LayerNorm of the bias", 104), ("key maps of the bias", 636)]),
    ("gps-pattern", 352_695, &[("LayerNorm of the bias", 128), ("key maps of the bias", 1_560)]),
    ("gps-cluster", 523_718, &[("LayerNorm of the bias", 96), ("key maps of the bias", 6_272)]),
    ("gps-peptides-func", 505_434, &[("LayerNorm of the bias", 32)]),
    ("gps-peptides-struct", 505_963, &[("LayerNorm of the bias", 32)]),
    ("gt-zinc", 388_593, &[("structure extractor, edge embedding, LayerNorm", 175_744)]),
    ("gt-mnist", 386_586, &[("structure extractor, LayerNorm", 175_648)]),
    ("gt-cifar10", 386_714, &[("structure extractor, LayerNorm", 175_648)]),
    ("gt-pattern", 386_098, &[("structure extractor, LayerNorm", 175_616)]),
    ("gt-cluster", 577_574, &[("structure extractor, LayerNorm", 265_056)]),
    (
        "sat-zinc",
        505_617,
        &[("norm and map inside the extractor", 25_728), ("LayerNorm of the bias", 128)],
    ),
    ("sat-pattern", 831_922, &[("LayerNorm of the bias", 128)]),
    ("sat-cluster", 750_374, &[("LayerNorm of the bias", 96)]),
    ("goat-cora", 505_224, &[("BatchNorm of message passing", 256)]),
    ("goat-citeseer", 1_086_215, &[("BatchNorm of message passing", 256)]),
    ("goat-pubmed", 265_860, &[("BatchNorm of message passing", 256)]),
    ("goat-actor", 376_710, &[("message passing, which is switched off", 136_192)]),
    ("goat-squirrel", 880_264, &[("BatchNorm of message passing", 256)]),
    ("goat-chameleon", 940_680, &[("BatchNorm of message passing", 256)]),
    ("goat-ogbn-proteins", 457_954, &[]),
    ("goat-ogbn-products", 853_041, &[]),
    (
        "goat-arxiv-year",
        1_235_607,
        &[("the map of a skip connection, which is switched off", 66_048)],
    ),
    ("goat-ogbn-papers100M", 704_684, &[]),
];

/// What the models of the paper's tables have here: a true network in the bias, distances to 30.
const OURS: &[(&str, usize)] = &[
    ("gps-zinc", 438_541),
    ("gps-mnist", 124_714),
    ("gps-cifar10", 122_046),
    ("gps-pattern", 350_985),
    ("gps-cluster", 515_958),
    ("gps-peptides-func", 505_402),
    ("gps-peptides-struct", 506_251),
    ("gt-community-small", 39_762),
    ("gt-peptides-func", 327_722),
    ("gt-peptides-struct", 327_819),
    ("gt-zinc", 222_385),
    ("gt-mnist", 220_602),
    ("gt-cifar10", 220_730),
    ("gt-pattern", 220_018),
    ("gt-cluster", 318_134),
    ("sat-zinc", 489_297),
    ("sat-pattern", 841_330),
    ("sat-cluster", 755_894),
    ("grit-zinc", 490_897),
    ("grit-mnist", 111_458),
    ("grit-cifar10", 108_806),
    ("grit-pattern", 495_377),
    ("grit-cluster", 445_574),
    ("grit-peptides-func", 469_370),
    ("grit-peptides-struct", 477_067),
    ("sgformer-zinc", 295_781),
    ("sgformer-pattern", 316_209),
    ("sgformer-cluster", 317_302),
    ("goat-cora", 521_867),
    ("goat-citeseer", 1_102_600),
    ("goat-pubmed", 282_116),
    ("goat-actor", 393_095),
    ("goat-squirrel", 888_584),
    ("goat-chameleon", 949_000),
    ("goat-ogbn-proteins", 478_690),
    ("goat-ogbn-arxiv", 954_705),
    ("goat-arxiv-year", 171_273),
    ("goat-ogbn-products", 1_345_843),
    ("goat-ogbn-papers100M", 778_925),
];

/// The model of a file in configs/.
pub fn preset(name: &str) -> ModelConfig {
    let path = crate::support::checkout().join("configs").join(name);
    let text = std::fs::read_to_string(path.with_extension("toml")).unwrap();
    assert!(text.lines().count() <= 30, "{name} is longer than a page");
    Config::parse(&text, name, &[]).unwrap_or_else(|e| panic!("{e:#}")).model
}

#[test]
fn presets_have_the_published_numbers_of_parameters() {
    let count = |name: &str| Model::new(&preset(name), Seed(0)).unwrap().parameters.count();
    for (name, released, dead) in RELEASED {
        let live = count(&format!("reference/{name}"));
        let dead: usize = dead.iter().map(|(_, count)| count).sum();
        assert_eq!(live + dead, *released, "{name}: {live} live");
    }
    let found = OURS.iter().map(|(name, _)| (*name, count(name)));
    assert_eq!(found.collect::<Vec<_>>(), OURS);
}

#[test]
fn plain_grit_has_its_published_numbers_of_parameters() {
    let published = [
        ("zinc", 473_473),
        ("mnist", 102_138),
        ("cifar10", 99_486),
        ("pattern", 477_953),
        ("cluster", 431_670),
        ("peptides-func", 443_338),
    ];
    for (set, count) in published {
        let mut config = preset(&format!("grit-{set}"));
        config.bias = BiasKind::None;
        assert_eq!(Model::new(&config, Seed(0)).unwrap().parameters.count(), count, "{set}");
    }
}

#[test]
fn every_preset_is_listed() {
    let folder = crate::support::checkout().join("configs");
    let names = |folder: PathBuf| -> Vec<String> {
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files = files.filter(|path| path.extension().is_some_and(|e| e == "toml"));
        let mut names: Vec<String> =
            files.map(|path| path.file_stem().unwrap().to_string_lossy().into()).collect();
        names.sort();
        names
    };
    let listed = |all: Vec<&str>| -> Vec<String> {
        let mut all: Vec<String> = all.into_iter().map(String::from).collect();
        all.sort();
        all
    };
    assert_eq!(names(folder.join("reference")), listed(RELEASED.iter().map(|r| r.0).collect()));
    assert_eq!(names(folder), listed(OURS.iter().map(|r| r.0).collect()));
}

#[test]
fn backbones_are_listed_once() {
    let mut names: Vec<&str> = ALL.iter().map(|entry| entry.name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), ALL.len());
    let tested = [configs(), super::nodes::configs()].concat();
    for name in names {
        assert!(tested.iter().any(|config| config.backbone == name), "no test of {name}");
    }
}

#[test]
fn burn_stays_in_nn_and_train() {
    let mut folders = vec![crate::support::checkout().join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                if name != "nn" && name != "train" {
                    folders.push(path);
                }
            } else if name.ends_with(".rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(!text.contains("burn"), "{}", path.display());
            }
        }
    }
}

#[test]
fn presets_fit_their_sets() {
    for folder in ["configs", "configs/reference"] {
        let folder = crate::support::checkout().join(folder);
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        for path in files.filter(|path| path.extension().is_some_and(|ending| ending == "toml")) {
            let config = Config::read(&path, &[]).unwrap();
            let limit = hdse::MemoryLimit(1 << 30);
            let fits = match nodes::find(&config.data.set) {
                None => {
                    let task = sets::by_name(&config.data.set).unwrap().entry().task;
                    fit::graphs(&config, task, limit)
                }
                Some(entry) => {
                    let task = Task { level: Level::Node, target: entry.published.target };
                    // Proteins have the features of their arcs.
                    let width =
                        if entry.published.features == 0 { 8 } else { entry.published.features };
                    fit::nodes(&config, task, [entry.published.nodes, width], limit)
                }
            };
            fits.unwrap_or_else(|e| panic!("{}: {e:#}", path.display()));
        }
    }
}
