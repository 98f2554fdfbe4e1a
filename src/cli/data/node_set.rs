//! What `hdse data` says of node sets.

use serde_json::{Value, json};

use crate::Result;
use crate::cli::list::sizes;
use crate::cli::output::{Output, count, object, thousands};
use crate::data::nodes::{Entry, NodeSet, Statistics};
use crate::data::sets::{Level, Task};

pub(super) fn info(entry: &Entry, output: &Output) -> Result<()> {
    let published = entry.published;
    let task = Task { level: Level::Node, target: published.target };
    let folder = entry.folders.first().copied().unwrap_or(entry.name);
    output.result(
        || {
            object([
                ("name", json!(entry.name)),
                ("kind", json!("one graph")),
                ("summary", json!(entry.summary)),
                ("task", json!(task)),
                ("metric", json!(entry.metric)),
                ("protocol", json!(entry.protocol)),
                ("published", json!(published)),
                ("folders", json!(entry.folders)),
                ("files", json!(entry.files)),
                ("licence", json!(entry.licence)),
                ("citation", json!(entry.citation)),
                ("source", json!(entry.source)),
            ])
        },
        || {
            let mut rows = vec![("kind", "one graph".to_string()), ("target", task.to_string())];
            rows.push(("metric", entry.metric.to_string()));
            rows.extend(counts(&published));
            rows.extend([
                ("split of paper", entry.protocol.to_string()),
                ("files", format!("{} in HDSE_DATA/{folder}", entry.files)),
                ("licence", entry.licence.to_string()),
                ("citation", entry.citation.to_string()),
                ("source", entry.source.to_string()),
            ]);
            let lines = rows.iter().map(|(name, value)| format!("  {name:<15}  {value}\n"));
            format!("{}: {}\n{}", entry.name, entry.summary, lines.collect::<String>())
        },
    )
}

/// Statistics that are known, with their names.
fn counts(statistics: &Statistics) -> Vec<(&'static str, String)> {
    let number = |number: usize| thousands(number as u64);
    let mut rows = vec![
        ("nodes", number(statistics.nodes)),
        ("arcs as listed", number(statistics.arcs)),
        ("features", number(statistics.features)),
    ];
    if let Some(edges) = statistics.edges {
        rows.insert(2, ("edges", number(edges)));
    }
    if let Some(split) = statistics.split {
        rows.push(("first split", sizes(split)));
    }
    rows
}

/// Puts a set beside what is published.
pub(super) fn report(entry: &Entry, set: &NodeSet, output: &Output) -> Result<()> {
    let found = Statistics::of(set);
    let notes = notes(set);
    output.result(
        || {
            let notes: Vec<Value> =
                notes.iter().map(|(number, what)| json!({"count": number, "what": what})).collect();
            let split = |split: &crate::data::nodes::Split| {
                json!({"name": split.name, "nodes": split.sizes(), "blake3": split.blake3})
            };
            object([
                ("name", json!(entry.name)),
                ("found", json!(found)),
                ("published", json!(entry.published)),
                ("histogram", json!(set.histogram())),
                ("edge_homophily", json!(set.edge_homophily())),
                ("splits", set.splits.iter().map(split).collect()),
                ("label", json!(set.label)),
                ("notes", json!(notes)),
                ("blake3", json!(set.hash)),
            ])
        },
        || {
            let published = counts(&entry.published);
            let mut text = format!("{:<15}  {:>29}  {:>29}\n", entry.name, "here", "published");
            for (name, here) in counts(&found) {
                let there = published.iter().find(|(known, _)| *known == name);
                let there = there.map_or("", |(_, there)| there);
                text += format!("{name:<15}  {here:>29}  {there:>29}").trim_end();
                text.push('\n');
            }
            text += &format!("\ntarget  {}\n", set.task);
            if let Some(share) = set.edge_homophily() {
                let nodes: Vec<String> =
                    set.histogram().iter().map(|&n| thousands(n as u64)).collect();
                text += &format!("nodes   {} by class\n", nodes.join(", "));
                text += &format!("edges   {:.1} % within a class\n", share * 100.0);
            }
            for split in &set.splits {
                let (name, hash) = (&split.name, &split.blake3[..16]);
                text += &format!("split   {name}: {}, blake3 {hash}…\n", sizes(split.sizes()));
            }
            text += &format!("label   {}\n", set.label.as_deref().unwrap_or("none: as published"));
            text += &format!("blake3  {}\n", set.hash);
            for (number, what) in &notes {
                text += &format!("note    {}\n", count(*number, what));
            }
            text
        },
    )
}

/// What is worth knowing of a set that can be used, with how often it occurs.
fn notes(set: &NodeSet) -> Vec<(u64, &'static str)> {
    let nodes = 0..set.num_nodes() as u32;
    let isolated = nodes.filter(|&node| set.graph.degree(node) == 0).count() as u64;
    let all = [
        (set.repairs.self_loops, "self-loop"),
        (set.repairs.duplicates, "repeated arc"),
        (if set.directed { 0 } else { set.repairs.one_way }, "one-way arc"),
        (isolated, "isolated node"),
        (set.unlabelled() as u64, "unlabelled node"),
    ];
    all.into_iter().filter(|&(number, _)| number > 0).collect()
}
