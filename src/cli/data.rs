//! `hdse data`: data sets to train on.

mod node_set;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::{Value, json};

use super::input::NameParser;
use super::output::{Output, count, object, thousands};
use super::{fetch, list};
use crate::data::nodes;
use crate::data::sets::{
    self, Columns, Entry, LoadOptions, Pinned, SPLITS, Splits, Statistics, sources,
};
use crate::graph::Repairs;
use crate::rng::Seed;
use crate::{Error, MemoryLimit, Result};

#[derive(clap::Args)]
pub(super) struct Options {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// List all data sets
    List {
        /// Print a Markdown table, as in the documentation
        #[arg(long, conflicts_with = "json")]
        markdown: bool,
    },
    /// Say what is known of a set: task, statistics, licence, where it comes from
    Info(Name),
    /// Load a set and compare it with what is published; exit code 1 if it can't be used
    Check(Check),
    /// Fetch a set over the network into the folder of all sets; goes on where it was interrupted
    Fetch(fetch::Fetch),
    /// Put files of a set that are at hand into the folder of all sets
    Import(fetch::Import),
}

#[derive(clap::Args)]
pub(super) struct Name {
    /// The set (`hdse data list`)
    #[arg(value_name = "NAME", value_parser = NameParser::Sets)]
    pub(super) name: String,
}

#[derive(clap::Args)]
struct Check {
    #[command(flatten)]
    name: Name,
    /// The folder with its files, or the file if it is one; by default one inside the folder of all sets
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// Graphs to generate for training, validation and test
    #[arg(long, value_name = "TRAIN,VAL,TEST", value_parser = parse_graphs)]
    graphs: Option<[usize; 3]>,
    /// Seed of a generated set
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

pub(super) fn run(options: &Options, limit: MemoryLimit, output: &Output) -> Result<()> {
    match &options.verb {
        Verb::List { markdown } => list::sets().print(*markdown, output),
        Verb::Info(Name { name }) => match nodes::find(name) {
            Some(entry) => node_set::info(entry, output),
            None => info(sets::by_name(name)?.entry(), output),
        },
        Verb::Check(options) => check(options, limit, output),
        Verb::Fetch(options) => fetch::fetch(options, limit, output),
        Verb::Import(options) => fetch::import(options, limit, output),
    }
}

/// `1000,200,200` → graphs of the three splits.
fn parse_graphs(text: &str) -> Result<[usize; 3]> {
    let numbers: Option<Vec<usize>> =
        text.split(',').map(|part| part.trim().parse().ok()).collect();
    numbers.and_then(|numbers| numbers.try_into().ok()).ok_or_else(|| {
        Error::config(format!("`{text}` is not three numbers of graphs; write 1000,200,200"))
    })
}

fn features(columns: Columns) -> String {
    match columns {
        Columns::None => "none".to_string(),
        Columns::Types(counts) => {
            let counts: Vec<String> = counts.iter().map(usize::to_string).collect();
            format!("whole numbers, of {} types", counts.join(", "))
        }
        Columns::OneHot(width) => format!("one of {width} types, one-hot"),
        Columns::Reals(1) => "a real number".to_string(),
        Columns::Reals(width) => format!("{width} real numbers"),
    }
}

fn info(entry: &Entry, output: &Output) -> Result<()> {
    let published = entry.published;
    let files = match entry.folders.first() {
        None => "none; generated from a seed".to_string(),
        Some(folder) => {
            format!("train, val, test (.parquet, .jsonl, .jsonl.gz) in HDSE_DATA/{folder}")
        }
    };
    let source = sources::of(entry.name);
    let urls = source.map(|source| source.urls).unwrap_or_default();
    let fetched = match source {
        None => "not needed".to_string(),
        Some(source) if urls.is_empty() => {
            format!("not by itself: {} ({})", source.remark, source.page)
        }
        Some(source) => format!("{}, from {}", source.remark, source.page),
    };
    output.result(
        || {
            object([
                ("name", json!(entry.name)),
                ("summary", json!(entry.summary)),
                ("task", json!(entry.task)),
                ("metric", json!(entry.metric)),
                ("node_features", json!(entry.nodes.width())),
                ("arc_features", json!(entry.arcs.width())),
                ("published", json!(published)),
                ("generated", json!(entry.generated)),
                ("folders", json!(entry.folders)),
                ("licence", json!(entry.licence)),
                ("citation", json!(entry.citation)),
                ("source", json!(entry.source)),
                ("urls", json!(urls)),
            ])
        },
        || {
            let rows = [
                ("target", entry.task.to_string()),
                ("metric", entry.metric.to_string()),
                ("of a node", features(entry.nodes)),
                ("of an arc", features(entry.arcs)),
                ("graphs", published.graphs.map(|n| thousands(n as u64)).join(" / ")),
                ("nodes per graph", format!("{:.2}", published.mean_nodes)),
                ("arcs per graph", format!("{:.2}", published.mean_arcs)),
                ("files", files),
                ("fetched", fetched),
                ("licence", entry.licence.to_string()),
                ("citation", entry.citation.to_string()),
                ("source", entry.source.to_string()),
            ];
            let lines = rows.iter().map(|(name, value)| format!("  {name:<15}  {value}\n"));
            format!("{}: {}\n{}", entry.name, entry.summary, lines.collect::<String>())
        },
    )
}

fn check(options: &Check, limit: MemoryLimit, output: &Output) -> Result<()> {
    let how = LoadOptions {
        path: options.path.clone(),
        graphs: options.graphs,
        seed: Seed(options.seed),
        limit,
        ..LoadOptions::of_user()
    };
    if let Some(entry) = nodes::find(&options.name.name) {
        return node_set::report(entry, &entry.load(&how)?, output);
    }
    let set = sets::by_name(&options.name.name)?;
    report(set.entry(), &set.load(&how)?, None, output)
}

/// Puts a set beside what is published, and says where it lies if that is news.
pub(super) fn report(
    entry: &Entry,
    splits: &Splits,
    place: Option<(&Path, &[Pinned])>,
    output: &Output,
) -> Result<()> {
    let found = splits.statistics();
    let notes = notes(splits);
    output.result(
        || {
            let notes: Vec<Value> =
                notes.iter().map(|(number, what)| json!({"count": number, "what": what})).collect();
            let place = place.map(|(folder, files)| {
                [("folder", json!(folder.display().to_string())), ("files", json!(files))]
            });
            object(place.into_iter().flatten().chain([
                ("name", json!(entry.name)),
                ("found", json!(found)),
                ("published", json!(entry.published)),
                ("label", json!(splits.label)),
                ("notes", json!(notes)),
                ("blake3", json!(splits.hash)),
            ]))
        },
        || {
            let mut text = format!("{:<15}  {:>12}  {:>12}\n", entry.name, "here", "published");
            for (name, here, there) in comparison(&found, &entry.published) {
                text += &format!("{name:<15}  {here:>12}  {there:>12}\n");
            }
            text += &format!("\ntarget  {}\n", splits.task);
            let official = "none: as published";
            text += &format!("label   {}\n", splits.label.as_deref().unwrap_or(official));
            text += &format!("blake3  {}\n", splits.hash);
            for (number, what) in &notes {
                text += &format!("note    {}\n", count(*number, what));
            }
            if let Some((folder, _)) = place {
                text += &format!("folder  {}\n", folder.display());
            }
            text
        },
    )
}

/// Lines of found and published statistics.
fn comparison(found: &Statistics, published: &Statistics) -> Vec<(String, String, String)> {
    let graphs = found.graphs.into_iter().zip(published.graphs).map(|(n, m)| [n as u64, m as u64]);
    let mut lines: Vec<(String, String, String)> = (SPLITS.iter().zip(graphs))
        .map(|(split, [n, m])| (format!("{split} graphs"), thousands(n), thousands(m)))
        .collect();
    for (name, here, there) in [
        ("nodes per graph", found.mean_nodes, published.mean_nodes),
        ("arcs per graph", found.mean_arcs, published.mean_arcs),
    ] {
        lines.push((name.to_string(), format!("{here:.2}"), format!("{there:.2}")));
    }
    lines
}

/// What is worth knowing of samples that can be used, with how often it occurs.
fn notes(splits: &Splits) -> Vec<(u64, &'static str)> {
    let samples = || splits.parts().into_iter().flatten();
    let mut repairs = Repairs::default();
    samples().for_each(|sample| repairs += sample.repairs);
    let targets = samples().filter_map(|sample| sample.y.as_ref());
    let missing = targets.flat_map(|y| y.to_floats()).filter(|y| y.is_nan()).count() as u64;
    let all = [
        (repairs.self_loops, "self-loop"),
        (repairs.duplicates, "repeated arc"),
        (repairs.one_way, "one-way arc"),
        (missing, "missing label"),
    ];
    all.into_iter().filter(|&(number, _)| number > 0).collect()
}
