//! `hdse coarsen`: partition a graph.

use std::fmt::Write as _;
use std::path::PathBuf;

use rayon::prelude::*;
use serde_json::json;

use super::encode::{IdsFile, InputOptions, SpecParser, warn_if_slow};
use super::output::{Output, count, object};
use super::progress::Progress;
use crate::coarsen::{Context, parse};
use crate::data::AtomicFile;
use crate::monitor::{Monitor as _, check};
use crate::partition::Quality;
use crate::rng::Seed;
use crate::{Error, MemoryLimit, Partition, Result};

#[derive(clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    input: InputOptions,
    /// The file to write: one cluster id per line, a line per node. Nothing is written without it
    #[arg(long, short, value_name = "PART")]
    output: Option<PathBuf>,
    /// How to group nodes, as NAME or NAME:key=value,...; `hdse list coarseners` shows all
    #[arg(long, short, value_name = "NAME[:key=value,...]", value_parser = SpecParser)]
    coarsener: String,
    /// Seed of all random choices
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Replace files that exist
    #[arg(long)]
    force: bool,
}

pub(super) fn run(options: &Options, limit: MemoryLimit, output: &Output) -> Result<()> {
    let coarsener = parse(&options.coarsener)?;
    let file = match &options.output {
        Some(path) => Some(AtomicFile::create(path, options.force)?),
        None => None,
    };
    let set = options.input.read(None, limit, output)?;
    let ids = IdsFile::open(&set, options.output.as_deref(), options.force)?;
    warn_if_slow(&options.coarsener, &set, output);
    let progress = Progress::new(set.samples.len() as u64, "graphs coarsened", output);
    let one = |(number, sample): (usize, &crate::data::Sample)| -> Result<(Partition, Quality)> {
        check(&progress)?;
        let context = Context {
            seed: Seed(options.seed),
            graph: number as u64,
            level: 1,
            monitor: &progress,
        };
        let partition = coarsener.coarsen(&sample.graph, &context)?;
        let quality = partition.quality(&sample.graph);
        progress.advance(1);
        Ok((partition, quality))
    };
    let done: Vec<Result<(Partition, Quality)>> =
        set.samples.par_iter().enumerate().map(|(i, s)| one((i, s))).collect();
    drop(progress);
    let done = done.into_iter().collect::<Result<Vec<_>>>()?;

    if let Some(mut file) = file {
        let mut text = String::new();
        for id in done.iter().flat_map(|(partition, _)| partition.cluster_of()) {
            let _ = writeln!(text, "{id}");
        }
        std::io::Write::write_all(&mut file, text.as_bytes())
            .map_err(|e| Error::io("cannot write", file.path(), e))?;
        file.commit()?;
    }
    ids.write(&set, output)?;

    let edges: Vec<f64> =
        set.samples.iter().map(|s| s.graph.edges().map(|(_, _, w)| f64::from(w)).sum()).collect();
    let quality = together(&done.iter().map(|(_, q)| *q).collect::<Vec<_>>(), &edges);
    output.result(
        || {
            let fields = [
                ("clusters", json!(quality.clusters)),
                ("cut", json!(quality.cut)),
                ("cut_fraction", json!(quality.cut_fraction)),
                ("modularity", json!(quality.modularity)),
                ("imbalance", json!(quality.imbalance)),
                ("graphs", json!(set.samples.len())),
                ("coarsener", json!(coarsener.describe())),
            ];
            object(fields.into_iter().chain(output.resources()))
        },
        || {
            let wrote = options.output.as_ref().map_or_else(
                || "nothing written; name a file with -o".to_string(),
                |path| format!("wrote {}", path.display()),
            );
            format!(
                "{}, modularity {:.4}, cut {:.1} % of edge weight, imbalance {:.2}\n\
                 {wrote} ({:.1} s)\n",
                count(quality.clusters as u64, "cluster"),
                quality.modularity,
                100.0 * quality.cut_fraction,
                quality.imbalance,
                output.seconds()
            )
        },
    )
}

/// One figure for a set: clusters and cuts add up, modularity is the mean over graphs, imbalance
/// the worst.
fn together(graphs: &[Quality], edges: &[f64]) -> Quality {
    let total: f64 = edges.iter().sum();
    let cut = graphs.iter().map(|q| q.cut).sum();
    Quality {
        clusters: graphs.iter().map(|q| q.clusters).sum(),
        cut,
        cut_fraction: if total > 0.0 { cut / total } else { 0.0 },
        modularity: graphs.iter().map(|q| q.modularity).sum::<f64>() / graphs.len().max(1) as f64,
        imbalance: graphs.iter().map(|q| q.imbalance).fold(0.0, f64::max),
    }
}
