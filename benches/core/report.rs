//! docs/benchmarks.md from criterion's results.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::sets::Set;

const ROWS: &[(&str, &str)] = &[
    ("distances", "both levels, graph to bytes"),
    ("codes", "distances to codes"),
    ("graph from pairs", "arcs to graph"),
    ("newman", "coarsener `newman`"),
    ("louvain", "coarsener `louvain`"),
    ("random", "coarsener `random`"),
];

/// Writes the page if all results are there, as after a full `cargo bench`.
pub fn write(sets: &[Set]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let results = target_folder().join("criterion");
    let mut text = String::from(
        "# Benchmarks\n\n\
         Written by `make bench`; do not edit. Median time per graph on one thread, as criterion\n\
         measured it. Machines differ and are noisy: compare columns of one table, not tables.\n\n",
    );
    let _ = writeln!(text, "Machine: {}, {}.\n", cpu(), std::env::consts::OS);
    let names: Vec<&str> = sets.iter().map(|s| s.name).collect();
    let _ = writeln!(text, "| µs per graph | {} |", names.join(" | "));
    let _ = writeln!(text, "|---|{}", "---:|".repeat(sets.len()));
    let mean =
        |count: &dyn Fn(&Set) -> usize, set: &Set| count(set) as f64 / set.graphs.len() as f64;
    let nodes = |set: &Set| set.graphs.iter().map(|g| g.num_nodes()).sum();
    let edges = |set: &Set| set.graphs.iter().map(|g| g.num_edges()).sum();
    for (label, count) in
        [("nodes (mean)", &nodes as &dyn Fn(&Set) -> usize), ("edges (mean)", &edges)]
    {
        let cells: Vec<String> = sets.iter().map(|s| format!("{:.1}", mean(count, s))).collect();
        let _ = writeln!(text, "| *{label}* | {} |", cells.join(" | "));
    }
    let mut found = 0;
    for (group, label) in ROWS {
        let cells: Vec<String> = sets
            .iter()
            .map(|set| match median(&results, group, set.name) {
                Some(nanoseconds) => {
                    found += 1;
                    format!("{:.2}", nanoseconds / 1000.0 / set.graphs.len() as f64)
                }
                None => "–".to_string(),
            })
            .collect();
        let _ = writeln!(text, "| {label} | {} |", cells.join(" | "));
    }
    if found == 0 {
        return;
    }
    let page = root.join("docs/benchmarks.md");
    match std::fs::write(&page, text) {
        Ok(()) => println!("wrote {}", page.display()),
        Err(e) => eprintln!("cannot write {}: {e}", page.display()),
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
