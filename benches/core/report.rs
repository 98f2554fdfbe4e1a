//! The section `core` of docs/benchmarks.md, from criterion's results.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::sets::Set;

/// Groups of benches and what they measure; the coarseners follow from their list.
const ROWS: &[(&str, &str)] = &[
    ("distances", "both levels, graph to bytes"),
    ("codes", "distances to codes"),
    ("graph from pairs", "arcs to graph"),
    ("random walk", "return probabilities, 20 steps"),
    ("laplacian", "10 lowest eigenvectors"),
    ("training step", "GraphGPS of ZINC: forward, backward, AdamW; batches of 32"),
    ("encode", "`hdse encode` with `newman`, file to file"),
];

/// Writes the section if every bench has a result, as after a full `cargo bench`.
pub fn write(sets: &[Set]) {
    let results = target_folder().join("criterion");
    let mut rows: Vec<(String, String)> =
        ROWS.iter().map(|(group, label)| (group.to_string(), label.to_string())).collect();
    for entry in hdse::coarsen::ALL {
        rows.push((entry.name.to_string(), format!("coarsener `{}`", entry.name)));
    }
    let names: Vec<&str> = sets.iter().map(|s| s.name).collect();
    let mut text = format!(
        "Median µs per graph on one thread, as criterion measured it (`make bench`). Machine: {}, {}.\n\n",
        cpu(),
        std::env::consts::OS
    );
    let _ = writeln!(text, "| µs per graph | {} |", names.join(" | "));
    let _ = writeln!(text, "|---|{}", "---:|".repeat(sets.len()));
    let mean = |count: &dyn Fn(&Set) -> usize| {
        let cell = |set: &Set| format!("{:.1}", count(set) as f64 / set.graphs.len() as f64);
        sets.iter().map(cell).collect::<Vec<_>>().join(" | ")
    };
    let nodes = |set: &Set| set.graphs.iter().map(|g| g.num_nodes()).sum();
    let edges = |set: &Set| set.graphs.iter().map(|g| g.num_edges()).sum();
    let _ = writeln!(text, "| *nodes (mean)* | {} |", mean(&nodes));
    let _ = writeln!(text, "| *edges (mean)* | {} |", mean(&edges));
    for (group, label) in rows {
        let cells: Vec<String> = sets
            .iter()
            .map(|set| match median(&results, &group, set.name) {
                Some(nanoseconds) => {
                    format!("{:.2}", nanoseconds / 1000.0 / set.graphs.len() as f64)
                }
                None => "–".to_string(),
            })
            .collect();
        if cells.iter().all(|cell| cell == "–") {
            println!("docs/benchmarks.md is left as it is: no result for `{group}`");
            return;
        }
        let _ = writeln!(text, "| {label} | {} |", cells.join(" | "));
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/benchmarks.md");
    let old = std::fs::read_to_string(&page).unwrap_or_default();
    match std::fs::write(&page, replace_section(&old, "core", &text)) {
        Ok(()) => println!("wrote {}", page.display()),
        Err(e) => eprintln!("cannot write {}: {e}", page.display()),
    }
}

/// Several commands own sections of the page, between `<!-- begin NAME -->` and `<!-- end NAME -->`.
fn replace_section(page: &str, name: &str, text: &str) -> String {
    let (begin, end) = (format!("<!-- begin {name} -->\n"), format!("<!-- end {name} -->\n"));
    match (page.find(&begin), page.find(&end)) {
        (Some(from), Some(to)) if from < to => {
            format!("{}{begin}{text}{}", &page[..from], &page[to..])
        }
        _ => format!("{page}\n{begin}{text}{end}"),
    }
}

fn target_folder() -> PathBuf {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("target");
    std::env::var_os("CARGO_TARGET_DIR").map_or(default, PathBuf::from)
}

fn median(results: &Path, group: &str, set: &str) -> Option<f64> {
    let file = results.join(group).join(set).join("new/estimates.json");
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(file).ok()?).ok()?;
    json["median"]["point_estimate"].as_f64()
}

fn cpu() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find(|l| l.starts_with("model name"));
    model.and_then(|l| l.split(": ").nth(1)).unwrap_or(std::env::consts::ARCH).to_string()
}
