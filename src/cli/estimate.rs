//! `--estimate`: memory, disk and time of a run, predicted before it.
//!
//! The input is read for real, so what reading takes is measured, not predicted. What follows is
//! predicted from the sizes of the graphs: working memory by counting arrays, disk exactly, time by
//! running a sample of the graphs, or by the coarsener's rough cost where there is only one.

use std::time::{Duration, Instant};

use serde_json::json;

use super::output::{Output, object};
use super::usage;
use crate::data::GraphSet;
use crate::encode::{Encoder, Partitions};
use crate::memory::human;
use crate::{Graph, Result, coarsen};

/// What a run would take.
struct Estimate {
    memory: u64,
    disk: u64,
    seconds: f64,
}

/// Prints the estimate of `hdse encode`.
pub(super) fn encode(encoder: &Encoder, set: &GraphSet, output: &Output) -> Result<()> {
    let width = encoder.levels as u64 + 1;
    let sizes = || set.samples.iter().map(|s| s.graph.num_nodes() as u64);
    let pairs: u64 = sizes().map(|n| n * n).sum();
    let nodes: u64 = sizes().sum();
    let graphs = set.samples.len() as u64;
    let largest = sizes().max().unwrap_or(0);
    let disk = pairs * width + nodes * encoder.levels as u64 * 4 + graphs * 20 + 1024;
    // Two windows at a time, of 8 MiB or one graph; and per thread the tables of a graph.
    let window = (largest * largest * width).max((pairs * width).min(8 << 20));
    let windows = if largest * largest * width >= pairs * width { 1 } else { 2 };
    let threads = (rayon::current_num_threads() as u64).min(graphs);
    let tables = threads * largest * largest * 5 / 4;
    let kept = nodes * encoder.levels as u64 * 4 + graphs * 64;
    let memory = windows * window + tables + kept + coarsening_memory(encoder, set);
    let estimate = Estimate { memory, disk, seconds: seconds(encoder, set)? };
    print(&estimate, output)
}

/// Prints the estimate of `hdse coarsen`, or of high-level distances; their tables are clusters × clusters,
/// and how many clusters there will be nobody knows before.
pub(super) fn coarsen(encoder: &Encoder, set: &GraphSet, output: &Output) -> Result<()> {
    let nodes: u64 = set.samples.iter().map(|s| s.graph.num_nodes() as u64).sum();
    let memory = coarsening_memory(encoder, set) + nodes * 12 * encoder.levels as u64;
    let estimate = Estimate { memory, disk: nodes * 4, seconds: seconds(encoder, set)? };
    print(&estimate, output)
}

/// Working memory of a coarsener and of contraction, on the largest graph, per thread.
fn coarsening_memory(encoder: &Encoder, set: &GraphSet) -> u64 {
    let entry = coarsen::entry(&encoder.describe());
    let size = |graph: &Graph| {
        let (n, m) = (graph.num_nodes() as f64, graph.num_edges() as f64);
        let contraction = 72.0 * n + 12.0 * m;
        // Large graphs are worked on by all threads, each with a table of its own.
        let threads = rayon::current_num_threads() as f64;
        let tables = if m >= 32_768.0 { 8.0 * n * (threads - 1.0) } else { 0.0 };
        entry.map_or(contraction, |entry| (entry.bytes)(n, m).max(contraction) + tables) as u64
    };
    let largest = set.samples.iter().map(|s| size(&s.graph)).max().unwrap_or(0);
    largest * (rayon::current_num_threads() as u64).min(set.samples.len() as u64)
}

/// Time on one core by the rough cost of a kind of coarsener.
pub(super) fn rough_seconds(coarsener: &str, graph: &Graph) -> f64 {
    let (n, m) = (graph.num_nodes() as f64, graph.num_edges() as f64);
    coarsen::entry(coarsener).map_or(10.0 * n, |entry| (entry.nanoseconds)(n, m)) * 1e-9
}

/// Wall time: of a sample spread over the sizes, scaled up; of one graph, by the cost of its kind.
fn seconds(encoder: &Encoder, set: &GraphSet) -> Result<f64> {
    let threads = (rayon::current_num_threads() as f64).min(set.samples.len() as f64).max(1.0);
    let coarsener = encoder.describe();
    let cost = |graph: &Graph| rough_seconds(&coarsener, graph);
    let graphs: Vec<&Graph> = set.samples.iter().map(|s| &*s.graph).collect();
    let predicted: f64 = graphs.iter().map(|g| cost(g)).sum();
    if graphs.len() < 8 || matches!(encoder.partitions, Partitions::Given { .. }) {
        return Ok(predicted / threads);
    }
    // The cost of a kind is rough; a sample of the set itself says how rough.
    let (mut measured, mut expected) = (0.0, 0.0);
    let started = Instant::now();
    for i in 0..64 {
        let at = i * graphs.len() / 64;
        let now = Instant::now();
        encoder.hierarchy(graphs[at], set.first + at, &())?;
        measured += now.elapsed().as_secs_f64();
        expected += cost(graphs[at]);
        if started.elapsed() > Duration::from_secs(2) {
            break;
        }
    }
    Ok(predicted * measured / expected / threads)
}

fn print(estimate: &Estimate, output: &Output) -> Result<()> {
    let usage = usage::now();
    let memory = usage.peak_rss_bytes.max(usage.current_rss_bytes + estimate.memory);
    // Reading is done and its time is known.
    let seconds = output.seconds() + estimate.seconds;
    output.result(
        || {
            object([
                ("memory_bytes", json!(memory)),
                ("disk_bytes", json!(estimate.disk)),
                ("seconds", json!(seconds)),
            ])
        },
        || {
            format!(
                "memory  {}\ndisk    {} at most\ntime    about {} on {} thread(s)\n",
                human(memory.into()),
                human(estimate.disk.into()),
                duration(seconds),
                rayon::current_num_threads()
            )
        },
    )
}

/// "3 s", "12 min", "5.2 h".
pub(super) fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => "1 s".to_string(),
        s if s < 100.0 => format!("{s:.0} s"),
        s if s < 6000.0 => format!("{:.0} min", s / 60.0),
        s if s < 500_000.0 => format!("{:.0} h", s / 3600.0),
        s if s < 50_000_000.0 => format!("{:.0} days", s / 86_400.0),
        s => format!("{:.0} years", s / 31_557_600.0),
    }
}
