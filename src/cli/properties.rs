//! `hdse reproduce set-properties`: sizes, clustering coefficients and diameters of all sets at hand, beside those of the paper.

use std::path::Path;

use rayon::prelude::*;
use serde_json::json;

use super::output::{Output, object, thousands};
use super::progress::Progress;
use crate::data::nodes;
use crate::data::sets::{self, LoadOptions};
use crate::experiments::published::{self, PAPER};
use crate::graph::Graph;
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
                let arcs = samples.iter().map(|sample| sample.edges.sources.len()).sum();
                let graphs: Vec<&Graph> = samples.iter().map(|sample| &*sample.graph).collect();
                found.push(measure(name, &graphs, arcs, label, output)?);
            }
            Err(error) => left_out.push(absent(name, error)?),
        }
    }
    for entry in nodes::ALL {
        match entry.load(&options) {
            Ok(set) => {
                let arcs = set.edges.sources.len();
                found.push(measure(entry.name, &[&set.graph], arcs, set.label.clone(), output)?);
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

fn measure(
    set: &'static str,
    graphs: &[&Graph],
    arcs: usize,
    label: Option<String>,
    output: &Output,
) -> Result<Properties> {
    let progress = Progress::new(graphs.len() as u64, &format!("graphs of {set}"), output);
    let each = graphs.par_iter().map(|graph| {
        check(&progress)?;
        let small = graph.num_nodes() as f64 * graph.num_edges() as f64 <= MOST;
        let found = (graph.clustering(), small.then(|| graph.diameter()));
        progress.advance(1);
        Ok(found)
    });
    let each = each.collect::<Result<Vec<(f64, Option<u32>)>>>()?;
    let count = graphs.len().max(1) as f64;
    let mean = |of: &dyn Fn(&Graph) -> usize| {
        graphs.iter().map(|graph| of(graph)).sum::<usize>() as f64 / count
    };
    let diameters: Option<Vec<u32>> = each.iter().map(|(_, diameter)| *diameter).collect();
    Ok(Properties {
        set,
        graphs: graphs.len(),
        nodes: mean(&Graph::num_nodes),
        edges: mean(&Graph::num_edges),
        arcs: arcs as f64 / count,
        clustering: each.iter().map(|(clustering, _)| clustering).sum::<f64>() / count,
        diameters: diameters.map(|all| {
            let sum: f64 = all.iter().map(|&diameter| f64::from(diameter)).sum();
            (sum / count, all.iter().copied().max().unwrap_or(0))
        }),
        label,
    })
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
        "Clustering coefficient: mean over nodes of the share of pairs of neighbours that are joined (Watts & Strogatz), then over graphs.",
        "Diameter: the largest distance between two nodes that are connected at all.",
    ] {
        text += &format!("* {note}\n");
    }
    text += &format!(
        "* Paper: {PAPER}, tables 8 (statistics), 15 (diameters), 20 (clustering coefficients).\n"
    );
    for of in found {
        if let Some(label) = &of.label {
            text += &format!("* {}: {label}.\n", of.set);
        }
    }
    if !left_out.is_empty() {
        text += &format!("* Not at hand: {}.\n", left_out.join(", "));
    }
    text
}
