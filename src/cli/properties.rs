//! `hdse reproduce set-properties`: sizes, clustering coefficients and diameters of all sets at hand, beside those of the paper.

use std::path::Path;

use rayon::prelude::*;
use serde_json::json;

use super::output::{Output, object, thousands};
use super::progress::Progress;
use crate::data::Sample;
use crate::data::nodes::{self, NodeSet};
use crate::data::sets::{self, LoadOptions};
use crate::experiments::published::{self, PAPER};
use crate::graph::Graph;
use crate::graph::properties::Arcs;
use crate::monitor::{Monitor as _, check};
use crate::report::table::{Cell, Table};
use crate::train::directory::write_text;
use crate::{Error, MemoryLimit, Result};

/// What it is called.
pub(super) const NAME: &str = LISTED[0];

/// As it is listed: name, summary, rows, table, configuration.
pub(super) const LISTED: [&str; 5] = [
    "set-properties",
    "sizes, clustering coefficients and diameters of all sets at hand",
    "",
    "8, 15, 20",
    "",
];

/// Nodes × edges of a graph whose diameter is measured, at most.
const MOST: f64 = 1e11;

/// What is known of a set.
struct Properties {
    set: &'static str,
    graphs: usize,
    nodes: f64,
    edges: f64,
    arcs: f64,
    clustering: f64,
    diameters: Option<(f64, u32)>,
    /// The same as if arcs had no direction, where they have.
    undirected: Option<(f64, f64)>,
    label: Option<String>,
}

pub(super) fn run(page: Option<&Path>, limit: MemoryLimit, output: &Output) -> Result<()> {
    let mut found = Vec::new();
    let options = LoadOptions { limit, ..LoadOptions::of_user() };
    let absent = |name: &str, error: Error| match error.is_config() {
        // What is there must be right.
        true => {
            output.detail(|| format!("{name} is left out: {error:#}"));
            Ok(name.to_string())
        }
        false => Err(error),
    };
    let mut left_out = Vec::new();
    for set in sets::ALL
        .iter()
        .filter(|set| !set.entry().generated || set.entry().name == "community-small")
    {
        let name = set.entry().name;
        match set.load(&options) {
            Ok(splits) => {
                let label = splits.label.clone();
                let samples = splits.into_samples();
                found.push(of_graphs(name, &samples, label, output)?);
            }
            Err(error) => left_out.push(absent(name, error)?),
        }
    }
    for entry in nodes::ALL {
        match entry.load(&options) {
            Ok(set) => {
                found.push(of_nodes(&set, entry.name, output));
            }
            Err(error) => left_out.push(absent(entry.name, error)?),
        }
    }
    if found.is_empty() {
        return Err(Error::config("none of the sets is at hand; `hdse data fetch` gets them"));
    }
    if !left_out.is_empty() {
        output.note(&format!("not at hand: {}", left_out.join(", ")));
    }
    let text = markdown(&found, &left_out);
    if let Some(page) = page {
        write_text(page, &text)?;
    }
    output.result(
        || {
            let row = |of: &Properties| {
                json!({
                    "set": of.set, "graphs": of.graphs, "nodes": of.nodes, "edges": of.edges, "arcs": of.arcs,
                    "clustering": of.clustering, "mean_diameter": of.diameters.map(|(mean, _)| mean),
                    "largest_diameter": of.diameters.map(|(_, largest)| largest), "label": of.label,
                })
            };
            let fields = [("experiment", json!(NAME)), ("rows", found.iter().map(row).collect())];
            object(fields.into_iter().chain(output.resources()))
        },
        || table(&found).to_text(),
    )
}

/// Means over graphs, along arcs as files list them.
fn of_graphs(
    set: &'static str,
    samples: &[Sample],
    label: Option<String>,
    output: &Output,
) -> Result<Properties> {
    let progress = Progress::new(samples.len() as u64, &format!("graphs of {set}"), output);
    let each = samples.par_iter().map(|sample| {
        check(&progress)?;
        let graph = &sample.graph;
        let arcs = Arcs::new(graph.num_nodes(), &sample.edges.sources, &sample.edges.targets)?;
        let along = [arcs.clustering(), f64::from(arcs.diameter())];
        progress.advance(1);
        Ok([along[0], along[1], graph.clustering(), f64::from(graph.diameter())])
    });
    let each = each.collect::<Result<Vec<[f64; 4]>>>()?;
    let count = samples.len().max(1) as f64;
    let mean = |of: usize| each.iter().map(|numbers| numbers[of]).sum::<f64>() / count;
    let size = |of: &dyn Fn(&Sample) -> usize| samples.iter().map(of).sum::<usize>() as f64 / count;
    let largest = each.iter().map(|numbers| numbers[1]).fold(0.0, f64::max);
    let is_directed = each.iter().any(|numbers| numbers[1] != numbers[3]);
    Ok(Properties {
        set,
        graphs: samples.len(),
        nodes: size(&|sample| sample.graph.num_nodes()),
        edges: size(&|sample| sample.graph.num_edges()),
        arcs: size(&|sample| sample.edges.sources.len()),
        clustering: mean(0),
        diameters: Some((mean(1), largest as u32)),
        undirected: is_directed.then(|| (mean(2), mean(3))),
        label,
    })
}

/// One graph without direction, as models see it.
fn of_nodes(set: &NodeSet, name: &'static str, output: &Output) -> Properties {
    let graph: &Graph = &set.graph;
    let _progress = Progress::new(1, &format!("graphs of {name}"), output);
    let is_small = graph.num_nodes() as f64 * graph.num_edges() as f64 <= MOST;
    Properties {
        set: name,
        graphs: 1,
        nodes: graph.num_nodes() as f64,
        edges: graph.num_edges() as f64,
        arcs: set.edges.sources.len() as f64,
        clustering: graph.clustering(),
        diameters: is_small
            .then(|| graph.diameter())
            .map(|diameter| (f64::from(diameter), diameter)),
        undirected: None,
        label: set.label.clone(),
    }
}

fn table(found: &[Properties]) -> Table {
    let head = [
        "",
        "graphs",
        "nodes",
        "edges",
        "arcs",
        "paper's edges",
        "clustering",
        "mean diameter",
        "largest diameter",
    ];
    let row = |of: &Properties| {
        let paper = |table: u32, quantity: &str| {
            let cell = published::all().iter().find(|cell| {
                cell.table == table
                    && cell.set == of.set
                    && cell.quantity == quantity
                    && cell.model.is_empty()
            });
            cell.map_or(String::new(), |cell| format!(" ({})", cell.mean))
        };
        let size = |value: f64| {
            if of.graphs == 1 { thousands(value as u64) } else { format!("{value:.1}") }
        };
        let edges = paper(8, "edges");
        let cells = [
            format!("{}{}", thousands(of.graphs as u64), paper(8, "graphs")),
            format!("{}{}", size(of.nodes), paper(8, "nodes")),
            size(of.edges),
            size(of.arcs),
            edges.trim_matches([' ', '(', ')']).to_string(),
            format!("{:.3}{}", of.clustering, paper(20, "clustering coefficient")),
            of.diameters.map_or("–".into(), |(mean, _)| {
                format!("{mean:.2}{}", paper(15, "average diameter"))
            }),
            of.diameters.map_or("–".into(), |(_, largest)| {
                format!("{largest}{}", paper(15, "maximal diameter"))
            }),
        ];
        [Cell::Text(of.set.into())].into_iter().chain(cells.map(Cell::Number)).collect()
    };
    Table { head: head.map(String::from).to_vec(), rows: found.iter().map(row).collect() }
}

fn markdown(found: &[Properties], left_out: &[String]) -> String {
    let mut text = format!(
        "# {NAME}\n\nSets as this project reads them; in brackets what the paper has, where it has it.\n\n\
         Written by `hdse reproduce {NAME}`.\n\n{}\n",
        table(found).to_markdown()
    );
    for note in [
        "Nodes, edges and arcs per graph. Edges: pairs of nodes that are joined, self-loops left out; arcs: what files list, which models pass \
         messages along. The paper counts the one in some sets and the other in others.",
        "Clustering coefficient: mean over nodes of the share of pairs of neighbours that are joined (Watts & Strogatz; Fagiolo where arcs \
         are one-way), then over graphs. Diameter: the largest distance from a node to one that it reaches. Sets of many graphs along \
         arcs as files list them, single graphs without direction.",
    ] {
        text += &format!("* {note}\n");
    }
    text += &format!(
        "* Paper: {PAPER}, tables 8 (statistics), 15 (diameters), 20 (clustering coefficients).\n"
    );
    for of in found {
        if let Some((clustering, diameter)) = of.undirected {
            text += &format!(
                "* {}: some arcs are one-way, and the paper's numbers are those along arcs; without direction the clustering coefficient is \
                 {clustering:.3} and the mean diameter {diameter:.2}.\n",
                of.set
            );
        }
        if let Some(label) = &of.label {
            text += &format!("* {}: {label}.\n", of.set);
        }
    }
    if !left_out.is_empty() {
        text += &format!("* Not at hand: {}.\n", left_out.join(", "));
    }
    text
}
