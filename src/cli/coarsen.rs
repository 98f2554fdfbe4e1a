//! `hdse coarsen`: partition a graph, or build its hierarchy.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde_json::json;

use super::encode::levels_parser;
use super::input::{IdsFile, InputOptions, NameParser, warn_if_slow};
use super::output::{Output, count, object};
use super::progress::Progress;
use crate::coarsen::loukas::spectral_error;
use crate::coarsen::{Context, parse};
use crate::data::{AtomicFile, GraphOut, GraphSet, Sample, format_of_file};
use crate::distance::MaxDistance;
use crate::encode::{Encoder, Partitions};
use crate::monitor::{Monitor as _, check};
use crate::partition::Quality;
use crate::rng::Seed;
use crate::{Error, Hierarchy, MemoryLimit, Result};

#[derive(clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    input: InputOptions,
    /// The file to write. By default one cluster id per line, a line per node (as METIS does);
    /// .json the hierarchy, .parquet a column per level, .graphml and .gexf the graph with its
    /// clusters. Nothing is written without it
    #[arg(long, short, value_name = "PART")]
    output: Option<PathBuf>,
    /// How to group nodes, as NAME or NAME:key=value,...; `hdse list coarseners` shows all
    #[arg(long, short, value_name = "NAME[:key=value,...]", value_parser = NameParser::Coarseners)]
    coarsener: String,
    /// Number of levels K
    #[arg(long, short = 'k', value_name = "K", default_value_t = 1)]
    #[arg(value_parser = levels_parser())]
    levels: u8,
    /// Seed of all random choices
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Tell how well clusters keep the K lowest frequencies of the graphs, too: the restricted spectral
    /// approximation error, 0 if nothing is lost
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(2..=1000))]
    spectral_error: Option<u16>,
    /// Predict memory, disk and time, and stop
    #[arg(long)]
    estimate: bool,
    /// Replace files that exist
    #[arg(long)]
    force: bool,
}

/// What kind of file the partition goes to.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Lines,
    Json,
    Graph,
    #[cfg(feature = "parquet")]
    Parquet,
}

impl Kind {
    fn of(path: &Path, levels: usize) -> Result<Kind> {
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("");
        match extension {
            "json" => Ok(Kind::Json),
            "graphml" | "gexf" => Ok(Kind::Graph),
            #[cfg(feature = "parquet")]
            "parquet" => Ok(Kind::Parquet),
            "gz" => Err(Error::config("output is not gzipped; drop the .gz")),
            _ if levels == 1 => Ok(Kind::Lines),
            _ => Err(Error::config(format!(
                "a line per node holds one level, not {levels}; write .json or .parquet"
            ))),
        }
    }
}

pub(super) fn run(options: &Options, limit: MemoryLimit, output: &Output) -> Result<()> {
    let coarsener = parse(&options.coarsener)?;
    let levels = usize::from(options.levels);
    if levels == 0 {
        return Err(Error::config("`--levels 0` leaves nothing to coarsen"));
    }
    let target = match &options.output {
        Some(path) => {
            let kind = Kind::of(path, levels)?;
            Some((kind, options.input.create(path, options.force)?))
        }
        None => None,
    };
    let set = options.input.read(None, limit, output)?;
    let single = matches!(target, Some((Kind::Json | Kind::Graph, _)));
    if single && set.samples.len() != 1 {
        return Err(Error::config(format!(
            "`{}` holds {}; this kind of file holds one",
            options.input.name(),
            count(set.samples.len() as u64, "graph")
        )));
    }
    let ids = IdsFile::open(&set, options.output.as_deref(), options.force)?;
    warn_if_slow(&options.coarsener, &set, output);
    if options.estimate {
        let encoder = Encoder {
            partitions: Partitions::Coarsener(coarsener),
            levels,
            max_distance: MaxDistance::default(),
            seed: Seed(options.seed),
            limit,
        };
        return super::estimate::coarsen(&encoder, &set, output);
    }

    let progress = Progress::new(set.samples.len() as u64, "graphs coarsened", output);
    let build = |(number, sample): (usize, &Sample)| -> Result<Hierarchy> {
        check(&progress)?;
        let context = Context {
            seed: Seed(options.seed),
            graph: number as u64,
            level: 1,
            monitor: &progress,
            limit,
        };
        let hierarchy = Hierarchy::build(&sample.graph, coarsener.as_ref(), levels, &context)?;
        progress.advance(1);
        Ok(hierarchy)
    };
    let built: Vec<Result<Hierarchy>> = set.samples.par_iter().enumerate().map(build).collect();
    drop(progress);
    let hierarchies = built.into_iter().collect::<Result<Vec<_>>>()?;

    if let Some((kind, file)) = target {
        write(kind, file, &set, &hierarchies, &coarsener.describe())?;
        if kind != Kind::Graph {
            ids.write(&set, output)?;
        }
    }
    let errors = match options.spectral_error {
        Some(vectors) => Some(spectral_errors(&set, &hierarchies, levels, vectors.into(), limit)?),
        None => None,
    };
    let qualities: Vec<Quality> = (1..=levels).map(|k| together(&set, &hierarchies, k)).collect();
    output.result(
        || {
            let first = &qualities[0];
            let mut fields = vec![
                ("clusters", json!(first.clusters)),
                ("cut", json!(first.cut)),
                ("cut_fraction", json!(first.cut_fraction)),
                ("modularity", json!(first.modularity)),
                ("imbalance", json!(first.imbalance)),
                ("graphs", json!(set.samples.len())),
                ("coarsener", json!(coarsener.describe())),
            ];
            if levels > 1 {
                fields.push(("levels", json!(qualities)));
            }
            if let Some(errors) = &errors {
                fields.push(("spectral_error", json!(errors)));
            }
            object(fields.into_iter().chain(output.resources()))
        },
        || {
            let mut text = String::new();
            for (k, quality) in qualities.iter().enumerate() {
                if levels > 1 {
                    let _ = write!(text, "level {}: ", k + 1);
                }
                let _ = writeln!(
                    text,
                    "{}, modularity {:.4}, cut {:.1} % of edge weight, imbalance {:.2}",
                    count(quality.clusters as u64, "cluster"),
                    quality.modularity,
                    100.0 * quality.cut_fraction,
                    quality.imbalance,
                );
                if let Some((mean, worst)) = errors.as_ref().map(|errors| errors[k]) {
                    let _ = match set.samples.len() {
                        1 => writeln!(text, "spectral error {mean:.4}"),
                        _ => writeln!(
                            text,
                            "spectral error {mean:.4} on average, {worst:.4} at most"
                        ),
                    };
                }
            }
            let wrote = options.output.as_ref().map_or_else(
                || "nothing written; name a file with -o".to_string(),
                |path| format!("wrote {}", path.display()),
            );
            text + &format!("{wrote} ({:.1} s)\n", output.seconds())
        },
    )
}

fn write(
    kind: Kind,
    mut file: AtomicFile,
    set: &GraphSet,
    hierarchies: &[Hierarchy],
    coarsener: &str,
) -> Result<()> {
    let text = match kind {
        Kind::Lines => {
            let mut text = String::new();
            for id in hierarchies.iter().flat_map(|h| h.ancestors(1).into_owned()) {
                let _ = writeln!(text, "{id}");
            }
            text
        }
        Kind::Json => hierarchy_json(&hierarchies[0], coarsener),
        Kind::Graph => {
            let hierarchy = &hierarchies[0];
            let attributes: Vec<(String, Vec<u32>)> = (1..=hierarchy.levels())
                .map(|k| (format!("level_{k}"), hierarchy.ancestors(k).into_owned()))
                .collect();
            let out = GraphOut {
                graph: &set.samples[0].graph,
                ids: set.ids.as_deref(),
                attributes: &attributes,
            };
            let name = file.path().to_string_lossy().into_owned();
            let write = format_of_file(&name).and_then(|format| format.write_graph);
            return write.expect("chosen by its ending")(&out, file);
        }
        #[cfg(feature = "parquet")]
        Kind::Parquet => return crate::data::write_clusters_parquet(hierarchies, file),
    };
    file.write_all(text.as_bytes()).map_err(|e| Error::io("cannot write", file.path(), e))?;
    file.commit()
}

/// The hierarchy as JSON: for every level, the cluster of each node of the level below.
fn hierarchy_json(hierarchy: &Hierarchy, coarsener: &str) -> String {
    let level = |(k, level): (usize, &crate::hierarchy::Level)| {
        let edges: Vec<(u32, u32, f32)> = level.graph.edges().collect();
        json!({
            "level": k + 1,
            "clusters": level.partition.num_clusters(),
            "partition": level.partition.cluster_of(),
            "edges": edges,
        })
    };
    let value = json!({
        "hdse": env!("CARGO_PKG_VERSION"),
        "coarsener": coarsener,
        "nodes": hierarchy.num_nodes(),
        "levels": hierarchy.built().iter().enumerate().map(level).collect::<Vec<_>>(),
        "stopped_early": hierarchy.built().len() < hierarchy.levels(),
    });
    format!("{value}\n")
}

/// How far low frequencies are lost at every level: mean over graphs, and the most.
fn spectral_errors(
    set: &GraphSet,
    hierarchies: &[Hierarchy],
    levels: usize,
    vectors: usize,
    limit: MemoryLimit,
) -> Result<Vec<(f64, f64)>> {
    let of_level = |level: usize| {
        let pairs = set.samples.par_iter().zip(hierarchies);
        let errors: Vec<f64> = pairs
            .map(|(sample, hierarchy)| {
                spectral_error(&sample.graph, &hierarchy.partition(level), vectors, limit)
            })
            .collect::<Result<_>>()?;
        let mean = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
        Ok((mean, errors.into_iter().fold(0.0, f64::max)))
    };
    (1..=levels).map(of_level).collect()
}

/// One figure for a set: clusters and cuts add up, modularity is the mean over graphs, imbalance
/// the worst.
fn together(set: &GraphSet, hierarchies: &[Hierarchy], level: usize) -> Quality {
    let graphs: Vec<Quality> = set
        .samples
        .par_iter()
        .zip(hierarchies)
        .map(|(sample, hierarchy)| hierarchy.partition(level).quality(&sample.graph))
        .collect();
    let weight = |s: &Sample| s.graph.edges().map(|(_, _, w)| f64::from(w)).sum::<f64>();
    let total: f64 = set.samples.iter().map(weight).sum();
    let cut = graphs.iter().map(|q| q.cut).sum();
    Quality {
        clusters: graphs.iter().map(|q| q.clusters).sum(),
        cut,
        cut_fraction: if total > 0.0 { cut / total } else { 0.0 },
        modularity: graphs.iter().map(|q| q.modularity).sum::<f64>() / graphs.len().max(1) as f64,
        imbalance: graphs.iter().map(|q| q.imbalance).fold(0.0, f64::max),
    }
}
