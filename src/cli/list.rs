//! `hdse list`: what there is to choose from.

use clap::ValueEnum;
use serde_json::json;

use super::output::{Output, thousands};
use crate::Result;
use crate::coarsen::ALL;
use crate::data::sets::{self, Dataset, Level, Task};
use crate::data::{FORMATS, nodes};
use crate::graph::named;

#[derive(clap::Args)]
pub(super) struct Options {
    /// What to list
    #[arg(value_enum)]
    what: What,
    /// Print a Markdown table, as in the documentation
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    #[cfg(feature = "train")]
    Backbones,
    Coarseners,
    #[cfg(feature = "train")]
    Experiments,
    Formats,
    Graphs,
    Sets,
}

pub(super) fn run(options: &Options, output: &Output) -> Result<()> {
    let table = match options.what {
        #[cfg(feature = "train")]
        What::Backbones => backbones(),
        What::Coarseners => coarseners(),
        #[cfg(feature = "train")]
        What::Experiments => experiments(),
        What::Formats => formats(),
        What::Graphs => graphs(),
        What::Sets => sets(),
    };
    table.print(options.markdown, output)
}

/// What there is to choose from, with a name in the first column.
pub(super) struct Table {
    pub head: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
}

#[cfg(feature = "train")]
fn backbones() -> Table {
    let row = |entry: &crate::nn::BackboneEntry| {
        [entry.name, entry.summary, entry.citation].map(String::from).to_vec()
    };
    Table {
        head: vec!["name", "what it does", "source"],
        rows: crate::nn::ALL.iter().map(row).collect(),
    }
}

fn coarseners() -> Table {
    let row = |entry: &crate::coarsen::Entry| {
        let parameter = |p: &crate::coarsen::Parameter| match p.default {
            "-" => format!("{}: {}", p.name, p.help),
            default => format!("{}={default}: {}", p.name, p.help),
        };
        vec![
            entry.name.to_string(),
            entry.summary.to_string(),
            entry.parameters.iter().map(parameter).collect::<Vec<_>>().join("\n"),
            entry.complexity.to_string(),
            entry.citation.to_string(),
        ]
    };
    Table {
        head: vec!["name", "what it does", "parameters", "time", "source"],
        rows: ALL.iter().map(row).collect(),
    }
}

#[cfg(feature = "train")]
pub(super) fn experiments() -> Table {
    let row = |experiment: &crate::experiments::Experiment| {
        let rows: Vec<&str> = experiment.rows.iter().map(|row| row.id.as_str()).collect();
        let config = match experiment.text {
            Some(_) => format!("configs/{}.toml", experiment.config),
            None => "the backbone is still to come".to_string(),
        };
        vec![
            experiment.name.clone(),
            experiment.summary.clone(),
            rows.join(" "),
            experiment.table.to_string(),
            config,
        ]
    };
    let others = super::reproduce::MEASURED.map(|listed| listed.map(String::from).to_vec());
    Table {
        head: vec!["name", "what it is", "rows", "table", "configuration"],
        rows: crate::experiments::all().iter().map(row).chain(others).collect(),
    }
}

fn formats() -> Table {
    let row = |format: &crate::data::Format| {
        let yes = |b| if b { "yes" } else { "" }.to_string();
        vec![
            format.name.to_string(),
            format.extensions.iter().map(|e| format!(".{e}")).collect::<Vec<_>>().join(" "),
            yes(format.reads()),
            yes(format.write_graph.is_some()),
            yes(format.writes_sets),
            format.summary.to_string(),
        ]
    };
    Table {
        head: vec!["name", "file names", "read", "write graph", "write encoded", "holds"],
        rows: FORMATS.iter().map(row).collect(),
    }
}

fn graphs() -> Table {
    let row = |family: &named::Family| {
        vec![format!("{}{}", family.name, family.parameters), family.summary.to_string()]
    };
    Table { head: vec!["name", "what it is"], rows: named::ALL.iter().map(row).collect() }
}

/// Counts of the three splits.
pub(super) fn sizes(counts: [usize; 3]) -> String {
    counts.map(|count| thousands(count as u64)).join(" / ")
}

pub(super) fn sets() -> Table {
    let row = |set: &&dyn Dataset| {
        let entry = set.entry();
        let published = entry.published;
        vec![
            entry.name.to_string(),
            "many graphs".to_string(),
            entry.summary.to_string(),
            entry.task.to_string(),
            entry.metric.to_string(),
            sizes(published.graphs),
            format!("{:.1}", published.mean_nodes),
            format!("{:.1}", published.mean_arcs),
            if entry.generated { "generated" } else { "files" }.to_string(),
            entry.licence.to_string(),
            format!("{}, {}", entry.citation, entry.source),
        ]
    };
    let node_row = |entry: &nodes::Entry| {
        let published = entry.published;
        let task = Task { level: Level::Node, target: published.target };
        vec![
            entry.name.to_string(),
            "one graph".to_string(),
            entry.summary.to_string(),
            task.to_string(),
            entry.metric.to_string(),
            published.split.map_or("drawn".into(), sizes),
            thousands(published.nodes as u64),
            thousands(published.arcs as u64),
            "files".to_string(),
            entry.licence.to_string(),
            format!("{}, {}", entry.citation, entry.source),
        ]
    };
    Table {
        head: vec![
            "name",
            "kind",
            "holds",
            "target",
            "metric",
            "train / val / test",
            "mean nodes",
            "mean arcs",
            "from",
            "licence",
            "source",
        ],
        rows: sets::ALL.iter().map(row).chain(nodes::ALL.iter().map(node_row)).collect(),
    }
}

impl Table {
    /// As JSON if so asked, else as Markdown or text.
    pub(super) fn print(&self, markdown: bool, output: &Output) -> Result<()> {
        // Asked for by name, so --quiet does not silence it.
        output.print(&match (output.json, markdown) {
            (true, _) => format!("{:#}\n", self.json()),
            (false, true) => self.markdown(),
            (false, false) => self.text(),
        })
    }

    fn json(&self) -> serde_json::Value {
        let object = |row: &Vec<String>| {
            self.head.iter().zip(row).map(|(&key, cell)| (key.to_string(), json!(cell))).collect()
        };
        self.rows.iter().map(object).collect::<Vec<serde_json::Value>>().into()
    }

    fn markdown(&self) -> String {
        let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
        let mut text = line(self.head.clone());
        text += &line(vec!["---"; self.head.len()]).replace(' ', "");
        for row in &self.rows {
            let escaped: Vec<String> =
                row.iter().map(|cell| cell.replace('|', "\\|").replace('\n', "<br>")).collect();
            text += &line(escaped.iter().map(String::as_str).collect());
        }
        text
    }

    /// A paragraph per row: wide tables are no use on a terminal.
    fn text(&self) -> String {
        let mut text = String::new();
        for row in &self.rows {
            text += &format!("{}\n", row[0]);
            let width = self.head[1..].iter().map(|h| h.len()).max().unwrap_or(0);
            for (head, cell) in self.head.iter().zip(row).skip(1).filter(|(_, c)| !c.is_empty()) {
                let mut lines = cell.lines();
                text += &format!("  {head:width$}  {}\n", lines.next().unwrap_or(""));
                for line in lines {
                    text += &format!("  {:width$}  {line}\n", "");
                }
            }
        }
        text
    }
}
