//! `hdse graph`: single graphs as files, without coarsening anything.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::{Value, json};

use super::input::{FormatParser, IdsFile, InputOptions};
use super::output::{Output, count, object, thousands};
use crate::data::{Format, GraphOut, GraphSet, Sample, format_of_file};
use crate::{Error, MemoryLimit, Result};

#[derive(clap::Args)]
pub(super) struct Options {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Turn a graph into our own file (.hgraph), which later runs map instead of parsing
    Import(Target),
    /// Print counts, degrees and components
    Info(Input),
    /// Read everything and say what is wrong or was repaired; exit code 1 if it can't be used
    Check(Input),
    /// Write a graph in another format, told by the name of the output
    Convert(Target),
}

#[derive(clap::Args)]
struct Input {
    #[command(flatten)]
    input: InputOptions,
}

#[derive(clap::Args)]
struct Target {
    #[command(flatten)]
    input: InputOptions,
    /// The file to write
    #[arg(long, short, value_name = "OUT")]
    output: PathBuf,
    /// Format of the output; told from its name by default
    #[arg(long, value_parser = FormatParser::Graphs)]
    format: Option<&'static Format>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

pub(super) fn run(options: &Options, limit: MemoryLimit, output: &Output) -> Result<()> {
    match &options.verb {
        Verb::Import(target) => write(target, Some("hgraph"), limit, output),
        Verb::Convert(target) => write(target, None, limit, output),
        Verb::Info(input) => info(&input.input, limit, output),
        Verb::Check(input) => check(&input.input, limit, output),
    }
}

pub(super) fn only_graph<'a>(set: &'a GraphSet, input: &str) -> Result<&'a Sample> {
    match &set.samples[..] {
        [sample] => Ok(sample),
        samples => Err(Error::config(format!(
            "`{input}` holds {}; this is for a single one",
            count(samples.len() as u64, "graph")
        ))),
    }
}

fn write(target: &Target, format: Option<&str>, limit: MemoryLimit, output: &Output) -> Result<()> {
    let format = match (format, target.format) {
        (Some(name), _) => crate::data::format_by_name(name)?,
        (None, Some(format)) => format,
        (None, None) => by_name(&target.output)?,
    };
    let write = format.write_graph.ok_or_else(|| {
        Error::config(format!(
            "graphs are not written as `{}`; `hdse list formats` shows what is",
            format.name
        ))
    })?;
    let file = target.input.create(&target.output, target.force)?;
    let set = target.input.read(None, limit, output)?;
    let sample = only_graph(&set, target.input.name())?;
    // Formats that hold names need no file beside them.
    let nameless = matches!(format.name, "metis" | "matrix-market" | "npz" | "hgraph");
    let beside = nameless.then_some(target.output.as_path());
    let ids = IdsFile::open(&set, beside, target.force)?;
    let isolated = (0..sample.graph.num_nodes() as u32).filter(|&u| sample.graph.degree(u) == 0);
    let isolated = isolated.count() as u64;
    if isolated > 0 && matches!(format.name, "edge-list" | "parquet") {
        output.note(&format!(
            "{} without edges can't stand in a list of edges and are left out",
            count(isolated, "node")
        ));
    }
    let out = GraphOut { graph: &sample.graph, ids: set.ids.as_deref(), attributes: &[] };
    write(&out, file)?;
    ids.write(&set, output)?;
    let path = target.output.display().to_string();
    let graph = &sample.graph;
    output.result(
        || {
            let fields = [
                ("output", json!(path)),
                ("nodes", json!(graph.num_nodes())),
                ("edges", json!(graph.num_edges())),
            ];
            object(fields.into_iter().chain(output.resources()))
        },
        || {
            format!(
                "wrote {path}: {}, {} ({:.1} s)\n",
                count(graph.num_nodes() as u64, "node"),
                count(graph.num_edges() as u64, "edge"),
                output.seconds()
            )
        },
    )
}

fn by_name(path: &Path) -> Result<&'static Format> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.ends_with(".gz") {
        return Err(Error::config(format!("`{name}`: output is not gzipped; drop the .gz")));
    }
    format_of_file(&name).ok_or_else(|| {
        Error::config(format!("`{name}` does not tell a format; `hdse list formats` shows all"))
    })
}

fn info(input: &InputOptions, limit: MemoryLimit, output: &Output) -> Result<()> {
    let set = input.read(None, limit, output)?;
    let graphs = || set.samples.iter().map(|s| &*s.graph);
    let nodes: u64 = graphs().map(|g| g.num_nodes() as u64).sum();
    let edges: u64 = graphs().map(|g| g.num_edges() as u64).sum();
    let degrees = || graphs().flat_map(|g| (0..g.num_nodes() as u32).map(|u| g.degree(u) as u64));
    let components = graphs().map(|g| g.components());
    let (mut parts, mut largest) = (0, 0);
    for partition in components {
        parts += partition.num_clusters() as u64;
        largest = largest.max(partition.sizes().into_iter().max().unwrap_or(0));
    }
    let rows: Vec<(&'static str, Value)> = vec![
        ("graphs", json!(set.samples.len())),
        ("nodes", json!(nodes)),
        ("edges", json!(edges)),
        ("weighted", json!(graphs().any(|g| g.is_weighted()))),
        ("min_degree", json!(degrees().min().unwrap_or(0))),
        ("mean_degree", json!(2.0 * edges as f64 / nodes.max(1) as f64)),
        ("max_degree", json!(degrees().max().unwrap_or(0))),
        ("isolated_nodes", json!(degrees().filter(|&d| d == 0).count())),
        ("components", json!(parts)),
        ("largest_component", json!(largest)),
        ("blake3", json!(set.hash)),
    ];
    output.result(
        || object(rows.clone()),
        || {
            let cell = |value: &Value| match (value.as_u64(), value.as_f64(), value) {
                (Some(number), ..) => thousands(number),
                (_, Some(number), _) => format!("{number:.2}"),
                (.., Value::Bool(yes)) => if *yes { "yes" } else { "no" }.to_string(),
                (.., other) => other.as_str().unwrap_or_default().to_string(),
            };
            let line = |(name, value): &(&str, Value)| {
                format!("{:<18} {}\n", name.replace('_', " "), cell(value))
            };
            rows.iter().map(line).collect()
        },
    )
}

fn check(input: &InputOptions, limit: MemoryLimit, output: &Output) -> Result<()> {
    let set = input.read_whole(limit)?;
    let repairs = set.repairs();
    output.result(
        || {
            object([
                ("graphs", json!(set.samples.len())),
                ("self_loops", json!(repairs.self_loops)),
                ("duplicates", json!(repairs.duplicates)),
                ("one_way", json!(repairs.one_way)),
                ("relabelled", json!(set.ids.is_some())),
            ])
        },
        || {
            let mut text = format!("good: {}\n", count(set.samples.len() as u64, "graph"));
            for (number, what) in [
                (repairs.self_loops, "self-loop, dropped"),
                (repairs.duplicates, "repeated edge, merged"),
                (repairs.one_way, "edge listed in one direction, taken as both"),
            ] {
                if number > 0 {
                    text += &format!("  {} × {what}\n", thousands(number));
                }
            }
            if set.ids.is_some() {
                text += "  ids are not 0 … n − 1; outputs list them in a file of their own\n";
            }
            text
        },
    )
}
