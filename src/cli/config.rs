//! `hdse config`: what an experiment is made of.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::json;

use super::list::Table;
use super::output::Output;
use crate::Result;
use crate::config::{Config, KEYS, Key};
use crate::error::unknown;

#[derive(clap::Args)]
pub(super) struct Options {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Say what keys mean, what they may hold and what they hold unless told
    Explain {
        /// A key or a section, such as model.bias or train; all if none is given
        key: Option<String>,
        /// Print a Markdown table, as in the documentation
        #[arg(long, conflicts_with = "json")]
        markdown: bool,
    },
    /// Print an experiment with all values filled in, as `hdse train` would run it
    Show {
        /// A TOML file, or the folder of a run
        config: PathBuf,
        /// Change a key, such as model.dim=32
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
        /// Fewer or more epochs than the experiment has, warm-up in proportion
        #[arg(long, value_name = "N")]
        #[arg(value_parser = clap::value_parser!(u64).range(1..))]
        epochs: Option<u64>,
    },
    /// Print the keys in which two experiments differ, with all values filled in
    Diff {
        /// A TOML file, or the folder of a run
        first: PathBuf,
        /// Another
        second: PathBuf,
    },
}

pub(super) fn run(options: &Options, output: &Output) -> Result<()> {
    match &options.verb {
        Verb::Explain { key, markdown } => explain(key.as_deref(), *markdown, output),
        Verb::Show { config, set, epochs } => {
            let mut config = read(config, set)?;
            if let Some(epochs) = *epochs {
                config = config.shortened(epochs);
            }
            let text = config.to_toml()?;
            output.result(|| json!(config), || text)
        }
        Verb::Diff { first, second } => diff(first, second, output),
    }
}

fn read(path: &Path, changes: &[String]) -> Result<Config> {
    match path.is_dir() {
        true => Config::read(&path.join("config.toml"), changes),
        false => Config::read(path, changes),
    }
}

fn explain(name: Option<&str>, markdown: bool, output: &Output) -> Result<()> {
    let asked = |key: &&Key| {
        name.is_none_or(|name| {
            key.name == name
                || key.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
        })
    };
    let found: Vec<&Key> = KEYS.iter().filter(asked).collect();
    if found.is_empty() {
        let names = KEYS.iter().map(|key| key.name);
        let name = name.unwrap_or_default();
        return Err(unknown("key", name, names, "`hdse config explain` shows all"));
    }
    let row = |key: &&Key| {
        let default = key.default.unwrap_or("must be given");
        [key.name, key.help, key.values, default].map(String::from).to_vec()
    };
    let head = vec!["name", "meaning", "values", "unless told"];
    Table { head, rows: found.iter().map(row).collect() }.print(markdown, output)
}

fn diff(first: &Path, second: &Path, output: &Output) -> Result<()> {
    let found = read(first, &[])?.differences(&read(second, &[])?)?;
    let show = |value: &Option<toml::Value>| {
        value.as_ref().map_or("–".to_string(), |value| value.to_string())
    };
    output.result(
        || {
            let rows =
                found.iter().map(|(key, a, b)| json!({ "key": key, "first": a, "second": b }));
            rows.collect()
        },
        || {
            let cells: Vec<[String; 3]> =
                found.iter().map(|(key, a, b)| [key.clone(), show(a), show(b)]).collect();
            let width = |column: usize| {
                cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
            };
            let (keys, values) = (width(0), width(1));
            let line = |[key, a, b]: &[String; 3]| format!("{key:<keys$}  {a:<values$}  {b}\n");
            match cells.is_empty() {
                true => "no difference\n".to_string(),
                false => cells.iter().map(line).collect(),
            }
        },
    )
}
