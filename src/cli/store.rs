//! `hdse store`: results that were computed before, encoded sets and vectors of node2vec.

use std::fs;
use std::path::PathBuf;

use clap::Subcommand;
use serde_json::{Value, json};

use super::output::{Output, count, object};
use crate::data::store::{Entry, Store, remove, vectors_folder};
use crate::memory::human;
use crate::{Error, Result};

#[derive(clap::Args)]
pub(super) struct Options {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Say where the store lies and what it holds
    Info,
    /// Remove damaged entries and what killed processes left
    Clean {
        /// Remove everything
        #[arg(long)]
        all: bool,
    },
    /// Read every entry and compare it with its hash; exit code 1 if one is damaged
    Verify,
}

pub(super) fn run(options: &Options, output: &Output) -> Result<()> {
    let store = Store::of_user()?;
    match options.verb {
        Verb::Info => info(&store, output),
        Verb::Clean { all } => clean(&store, all, output),
        Verb::Verify => verify(&store, output),
    }
}

fn bytes(entry: &Entry) -> u64 {
    entry.content.as_ref().map_or(0, |manifest| manifest.bytes)
}

/// Vectors of nodes that training keeps, and their bytes.
fn vectors() -> Result<Vec<(PathBuf, u64)>> {
    let folder = vectors_folder()?;
    let problem = |e| Error::io("cannot read", &folder, e);
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let file = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.map_err(problem)?;
        Ok((entry.path(), entry.metadata().map_err(problem)?.len()))
    };
    fs::read_dir(&folder).map_err(problem)?.map(file).collect()
}

fn info(store: &Store, output: &Output) -> Result<()> {
    let entries = store.entries(false)?;
    let total: u64 = entries.iter().map(bytes).sum();
    let vectors = vectors()?;
    let kept: u64 = vectors.iter().map(|(_, bytes)| bytes).sum();
    let describe = |entry: &Entry| -> Value {
        match &entry.content {
            Ok(m) => json!({
                "key": entry.key, "bytes": m.bytes, "coarsener": m.metadata.coarsener,
                "levels": m.metadata.levels, "graphs": m.metadata.graphs, "seed": m.metadata.seed,
            }),
            Err(e) => json!({"key": entry.key, "error": format!("{e:#}")}),
        }
    };
    output.result(
        || {
            object([
                ("folder", json!(store.folder().display().to_string())),
                ("bytes", json!(total)),
                ("entries", entries.iter().map(describe).collect()),
                ("vectors", json!({"files": vectors.len(), "bytes": kept})),
            ])
        },
        || {
            let mut text = format!(
                "{}: {}, {}\n",
                store.folder().display(),
                match entries.len() {
                    1 => "1 entry".to_string(),
                    n => format!("{n} entries"),
                },
                human(total.into())
            );
            for entry in &entries {
                text += &match &entry.content {
                    Ok(m) => format!(
                        "  {}  {:>10}  {}, {}, {} of {}\n",
                        entry.key.get(..12).unwrap_or(&entry.key),
                        human(m.bytes.into()),
                        count(m.metadata.graphs as u64, "graph"),
                        m.metadata.coarsener,
                        count(m.metadata.levels as u64, "level"),
                        &m.metadata.input_blake3[..12.min(m.metadata.input_blake3.len())],
                    ),
                    Err(e) => format!("  {}  {e:#}\n", entry.key),
                };
            }
            if !vectors.is_empty() {
                let files = count(vectors.len() as u64, "file");
                text += &format!("vectors of node2vec: {files}, {}\n", human(kept.into()));
            }
            text
        },
    )
}

fn clean(store: &Store, all: bool, output: &Output) -> Result<()> {
    let entries = store.entries(!all)?;
    let mut gone: Vec<&Entry> = Vec::new();
    for entry in entries.iter().filter(|e| all || e.content.is_err()) {
        match store.remove(&entry.key)? {
            true => gone.push(entry),
            false => output.note(&format!("entry {} is in use and stays", entry.key)),
        }
    }
    let mut leftovers: Vec<PathBuf> = store.leftovers()?;
    let mut freed: u64 = gone.iter().map(|e| bytes(e)).sum();
    if all {
        for (path, bytes) in vectors()? {
            leftovers.push(path);
            freed += bytes;
        }
    }
    for path in &leftovers {
        remove(path)?;
    }
    output.result(
        || {
            object([
                ("removed_entries", json!(gone.len())),
                ("removed_files", json!(leftovers.len())),
                ("bytes", json!(freed)),
            ])
        },
        || {
            format!(
                "removed {} of {} entries ({}) and {}\n",
                gone.len(),
                entries.len(),
                human(freed.into()),
                count(leftovers.len() as u64, "other file")
            )
        },
    )
}

fn verify(store: &Store, output: &Output) -> Result<()> {
    let entries = store.entries(true)?;
    let damaged: Vec<String> = entries
        .iter()
        .filter_map(|e| e.content.as_ref().err().map(|error| format!("{error:#}")))
        .collect();
    let leftovers = store.leftovers()?.len();
    if let Some(first) = damaged.first() {
        return Err(Error::data(format!(
            "{} of {} entries are damaged, the first: {first}; `hdse store clean` removes them",
            damaged.len(),
            entries.len()
        )));
    }
    output.result(
        || object([("entries", json!(entries.len())), ("leftovers", json!(leftovers))]),
        || {
            format!(
                "good: {} entries, {}\n",
                entries.len(),
                count(leftovers as u64, "leftover file")
            )
        },
    )
}
