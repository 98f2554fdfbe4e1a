//! Numbers computed by other software, tensor by tensor.
//!
//! Walks tests/golden, or `HDSE_GOLDEN`, and checks every fixture of a kind that is implemented
//! against its sidecar: each `out.*` and `grad.*` tensor within the sidecar's limits, none left out.
//! Fixtures of other kinds are named as not covered (quality.rs reads those about partitions).
//! Run alone with `cargo test --release --test it golden -- --nocapture`.

#[cfg(feature = "train")]
mod attention;
#[cfg(feature = "train")]
mod bias;
mod distances;
mod encodings;
// Which of its readers are used depends on the features.
#[allow(dead_code)]
mod fixture;
#[cfg(feature = "train")]
mod layers;
#[cfg(feature = "train")]
mod losses;
#[cfg(feature = "train")]
mod metrics;
#[cfg(feature = "train")]
mod models;
#[cfg(feature = "train")]
mod optimizers;
mod pairs;
#[cfg(feature = "train")]
mod training;
#[cfg(feature = "train")]
mod words;

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::support::{golden, own_golden};
use fixture::Fixture;

/// A check of all tensors of one fixture.
type Check = fn(&Fixture);

/// Kinds that tests/golden has fixtures of.
#[cfg(feature = "train")]
const COVERED: &[&str] = &[
    "attention",
    "bias",
    "distances",
    "encodings",
    "layers",
    "losses",
    "metrics",
    "models",
    "optimizers",
    "pairs",
    "training",
];
#[cfg(not(feature = "train"))]
const COVERED: &[&str] = &["distances", "encodings", "pairs"];

/// What checks a fixture, by the sidecar's kind and configuration.
fn check_of(fixture: &Fixture) -> Option<(&'static str, Check)> {
    match fixture.kind {
        #[cfg(feature = "train")]
        1 => Some(("bias", bias::check)),
        #[cfg(feature = "train")]
        2 => Some(("attention", attention::check)),
        #[cfg(feature = "train")]
        3 => Some(("layers", layers::check)),
        #[cfg(feature = "train")]
        4 if models::is_about(fixture) => Some(("models", models::check)),
        5 if encodings::knows(fixture) => Some(("encodings", encodings::check)),
        #[cfg(feature = "train")]
        6 if losses::is_about(fixture) => Some(("losses", losses::check)),
        #[cfg(feature = "train")]
        6 if metrics::is_about(fixture) => Some(("metrics", metrics::check)),
        #[cfg(feature = "train")]
        7 if training::is_about(fixture) => Some(("training", training::check)),
        #[cfg(feature = "train")]
        7 if optimizers::is_about(fixture) => Some(("optimizers", optimizers::check)),
        8 => Some(("distances", distances::check)),
        10 => Some(("pairs", pairs::check)),
        _ => None,
    }
}

#[test]
fn golden_fixtures_agree() {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut not_covered = Vec::new();
    let mut files: Vec<PathBuf> = std::fs::read_dir(golden())
        .unwrap_or_else(|e| panic!("{}: {e}", golden().display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    files.sort();
    for path in files {
        let Some(fixture) = Fixture::open(&path) else {
            not_covered.push(path.file_stem().unwrap().to_string_lossy().into_owned());
            continue;
        };
        let Some((kind, check)) = check_of(&fixture) else {
            not_covered.push(fixture.name);
            continue;
        };
        check(&fixture);
        let (fixtures, total) = counts.entry(kind).or_default();
        *fixtures += 1;
        *total += fixture.finish();
    }
    for (kind, (fixtures, tensors)) in &counts {
        println!("{kind}: {fixtures} fixtures, {tensors} tensors compared");
    }
    if !not_covered.is_empty() {
        println!("not covered: {}", not_covered.join(", "));
    }
    if golden() == own_golden() {
        let covered: Vec<&str> = counts.keys().copied().collect();
        assert_eq!(covered, COVERED, "every implemented kind has fixtures of its own");
    }
    let total: usize = counts.values().map(|(_, tensors)| tensors).sum();
    assert!(total > 0, "no fixture of an implemented kind in {}", golden().display());
}
