//! The graphs that are measured.

use std::path::PathBuf;

use hdse::Graph;
use hdse::data::{ReadOptions, Shard, read};

/// Some graphs of one kind.
pub struct Set {
    pub name: &'static str,
    /// What to read it from.
    pub input: String,
    /// Which part of it.
    pub options: ReadOptions,
    pub graphs: Vec<Graph>,
    /// Too many edges for `newman` within a bench.
    pub dense: bool,
}

/// Every set that is there; the generated one always is.
pub fn all() -> Vec<Set> {
    let mut sets = vec![load("community-small", "community-small", 100, false)];
    for (name, file, count, dense) in [
        ("zinc", "zinc/train.parquet", 1000, false),
        ("peptides-func", "peptides-func/val.parquet", 100, false),
        ("mnist-superpixels", "mnist-superpixels/val.parquet", 100, true),
        ("pattern", "pattern/val.parquet", 50, true),
    ] {
        let path = data_folder().join(file);
        if path.exists() {
            sets.push(load(name, &path.to_string_lossy(), count, dense));
        } else {
            println!("skipped {name}: no {}", path.display());
        }
    }
    sets
}

fn data_folder() -> PathBuf {
    std::env::var_os("HDSE_DATA").map_or_else(|| "../shared/data".into(), PathBuf::from)
}

fn load(name: &'static str, input: &str, count: usize, dense: bool) -> Set {
    let whole = ReadOptions { features: false, ..ReadOptions::default() };
    let total = read(input, &whole).expect("a readable set").total;
    let shard = Some(Shard { index: 0, count: (total / count).max(1) });
    let options = ReadOptions { shard, ..whole };
    let set = read(input, &options).expect("a readable set");
    let graphs = set.samples.into_iter().map(|s| (*s.graph).clone()).collect();
    Set { name, input: input.to_string(), options, graphs, dense }
}
