//! `hdse encode`: hierarchies and distances of a graph set, or of one large graph.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::{Value, json};

use super::input::{
    FormatParser, IdsFile, InputOptions, NameParser, refuse_same, set_format, warn_if_slow,
};
use super::output::{Output, count, object, thousands};
use super::progress::Progress;
use crate::data::arrays::{self, ArraySpec, Dtype};
use crate::data::encoded::{self, Chunk, Metadata};
use crate::data::store::Store;
use crate::data::{AtomicFile, Format, GraphSet, Shard, Source};
use crate::distance::{Codes, HighLevel, MaxDistance};
use crate::encode::{Encoder, Partitions, Summary, partitions_from_ids, write_clusters};
use crate::error::Context as _;
use crate::rng::Seed;
use crate::{Error, MemoryLimit, Result, coarsen};

#[derive(clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    input: InputOptions,
    /// The file to write. Without it, only a summary is printed
    #[arg(long, short, value_name = "OUT")]
    output: Option<PathBuf>,
    /// How to group nodes, as NAME or NAME:key=value,...; `hdse list coarseners` shows all
    #[arg(long, short, value_name = "NAME[:key=value,...]", value_parser = NameParser::Coarseners)]
    #[arg(default_value = "newman", conflicts_with = "partition")]
    coarsener: String,
    /// Given clusters instead of a coarsener: one id per line, a file per level. Further levels may
    /// number nodes or the clusters below
    #[arg(long, value_name = "FILE")]
    partition: Vec<PathBuf>,
    /// Number of levels K above the graph [default: 1, or the number of --partition files]
    #[arg(long, short = 'k', value_name = "K", value_parser = levels_parser())]
    levels: Option<u8>,
    /// Clip distances at L, at most 254; one value, or one per level as 30/10
    #[arg(long, short = 'l', value_name = "L", default_value = "30")]
    #[arg(value_parser = MaxDistance::parse)]
    max_distance: MaxDistance,
    /// Only distances between clusters, from level C up: for one graph too large for all pairs
    #[arg(long, value_name = "C", conflicts_with = "shard")]
    high_level: Option<usize>,
    /// Seed of all random choices
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Encode part I (from 0) of N only, into OUT with .I-of-N before its suffix
    #[arg(long, value_name = "I/N", value_parser = Shard::parse)]
    shard: Option<Shard>,
    /// Format of the output; told from its name by default
    #[arg(long, value_parser = FormatParser::Sets)]
    format: Option<&'static Format>,
    /// Keep the result in the store (`hdse store info`) and take it from there if it was computed
    /// before; OUT, if given, becomes a copy
    #[arg(long, conflicts_with_all = ["shard", "high_level"])]
    store: bool,
    /// Predict memory, disk and time, and stop
    #[arg(long)]
    estimate: bool,
    /// Replace files that exist
    #[arg(long)]
    force: bool,
}

pub(super) fn run(options: &Options, limit: MemoryLimit, output: &Output) -> Result<()> {
    // Find mistakes before long work.
    let out = match &options.output {
        Some(path) => Some(Target::new(path, options)?),
        None if options.format.is_some() => {
            return Err(Error::config("`--format` is of no use without an output; add -o"));
        }
        None => None,
    };
    let given = options.partition.iter().map(|p| read_ids(p, limit)).collect::<Result<Vec<_>>>()?;
    let levels = match (options.levels.map(usize::from), given.len()) {
        (None, 0) => 1,
        (None, files) => files,
        (Some(levels), 0) => levels,
        (Some(levels), files) if levels == files => files,
        (Some(levels), files) => {
            return Err(Error::config(format!(
                "`--levels {levels}` and {files} `--partition` file(s); give one file per level"
            )));
        }
    };
    if options.max_distance.len() > levels + 1 {
        return Err(Error::config(format!(
            "`--max-distance` has {} values, but there are only levels 0 to {levels}",
            options.max_distance.len()
        )));
    }
    if let Some(c) = options.high_level
        && !(1..=levels).contains(&c)
    {
        return Err(Error::config(format!(
            "`--high-level {c}` needs a level between 1 and `--levels` ({levels})"
        )));
    }
    let coarsener = coarsen::parse(&options.coarsener)?;

    let (mut set, partitions) = if given.is_empty() {
        let set = options.input.read(options.shard, limit, output)?;
        warn_if_slow(&options.coarsener, &set, output);
        (set, Partitions::Coarsener(coarsener))
    } else {
        let set = options.input.read(None, limit, output)?;
        let (ids, hashes): (Vec<_>, Vec<_>) = given.into_iter().unzip();
        let description = format!("given:{}", hashes.join("/"));
        let names: Vec<_> = options.partition.iter().map(|p| p.display().to_string()).collect();
        let of_graph = partitions_from_ids(&set, &ids).context(|| names.join(", "))?;
        (set, Partitions::Given { description, of_graph })
    };
    if let Some(shard) = options.shard
        && !options.partition.is_empty()
    {
        let range = shard.range(set.total);
        set.first = range.start;
        set.samples = set.samples.drain(range).collect();
    }
    let encoder = Encoder {
        partitions,
        levels,
        max_distance: options.max_distance.clone(),
        seed: Seed(options.seed),
        limit,
    };
    if options.estimate {
        return match options.high_level {
            Some(_) => super::estimate::coarsen(&encoder, &set, output),
            None => super::estimate::encode(&encoder, &set, output),
        };
    }
    let metadata = Metadata {
        shard: options.shard.map(|s| format!("{}/{}", s.index, s.count)),
        ..encoder.metadata(&set, options.high_level)
    };
    match options.high_level {
        Some(level) => high_level(level, &encoder, &set, &metadata, out, options, output),
        None if options.store => stored(&encoder, &set, &metadata, out, options, output),
        None => graph_set(&encoder, &set, &metadata, out, options, output),
    }
}

/// A number of levels that makes sense: each at least halves a graph that is worth coarsening.
pub(super) fn levels_parser() -> clap::builder::RangedI64ValueParser<u8> {
    clap::value_parser!(u8).range(0..=64)
}

/// A file to write, opened before the work starts.
struct Target {
    file: AtomicFile,
    format: &'static str,
}

impl Target {
    fn new(path: &Path, options: &Options) -> Result<Target> {
        let format = match options.format {
            Some(format) => format.name,
            None => set_format(path)?.name,
        };
        if options.high_level.is_some() && format == "parquet" {
            return Err(Error::config(
                "high-level distances are arrays, not rows; write safetensors or npz",
            ));
        }
        let path = match options.shard {
            Some(shard) => shard_path(path, shard),
            None => path.to_path_buf(),
        };
        for partition in &options.partition {
            refuse_same(partition, &path)?;
        }
        Ok(Target { file: options.input.create(&path, options.force)?, format })
    }
}

/// `zinc.npz` → `zinc.0-of-4.npz`.
fn shard_path(path: &Path, shard: Shard) -> PathBuf {
    let part = format!("{}-of-{}", shard.index, shard.count);
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(match path.extension() {
        Some(suffix) => format!("{stem}.{part}.{}", suffix.to_string_lossy()),
        None => format!("{stem}.{part}"),
    })
}

/// Cluster ids, one per line, and a short hash of the file.
fn read_ids(path: &Path, limit: MemoryLimit) -> Result<(Vec<u64>, String)> {
    let source = Source::load(&path.to_string_lossy(), limit)
        .map_err(|e| e.context("a partition needs one cluster id per line"))?;
    let parse = |(line, text): (usize, &str)| {
        text.trim().parse::<u64>().map_err(|_| {
            Error::data(format!(
                "line {}: `{}` is not a cluster id; expected one whole number per line",
                line + 1,
                text.trim().replace(char::is_control, " ")
            ))
        })
    };
    let lines = source.text()?.lines().enumerate();
    let ids = lines.filter(|(_, text)| !text.trim().is_empty()).map(parse);
    let ids = ids.collect::<Result<_>>().context(|| path.display().to_string())?;
    Ok((ids, source.hash()[..16].to_string()))
}

fn graph_set(
    encoder: &Encoder,
    set: &GraphSet,
    metadata: &Metadata,
    out: Option<Target>,
    options: &Options,
    output: &Output,
) -> Result<()> {
    let num_nodes: Vec<u32> = set.samples.iter().map(|s| s.graph.num_nodes() as u32).collect();
    let path = out.as_ref().map(|target| target.file.path().to_path_buf());
    let mut writer = match out {
        Some(target) => Some(encoded::create(target.format, target.file, metadata, &num_nodes)?),
        None => None,
    };
    let ids = IdsFile::open(set, path.as_deref(), options.force)?;
    let distinct = Mutex::new(Vec::new());
    let progress = Progress::new(set.samples.len() as u64, "graphs", output);
    let summary = encoder.encode_set(set, &progress, |chunk: Chunk| match &mut writer {
        Some(writer) => writer.push(&chunk),
        None => {
            let width = encoder.levels + 1;
            let mut rows = distinct.lock().unwrap_or_else(|e| e.into_inner());
            // A piece at a time: codes of all pairs would be several times the distances.
            for piece in chunk.distances.chunks(width << 20) {
                rows.extend_from_slice(Codes::from_tuples(piece, width).codebook().rows());
                *rows = Codes::from_tuples(&rows, width).codebook().rows().to_vec();
            }
            Ok(())
        }
    })?;
    drop(progress);
    if let Some(writer) = writer {
        writer.finish()?;
        ids.write(set, output)?;
    }
    let distinct = distinct.into_inner().unwrap_or_default().len() / (encoder.levels + 1);
    let wrote = Wrote::new(path)?;
    output.result(
        || {
            let mut fields = summary_json(&summary, metadata);
            fields.extend(wrote.json());
            if wrote.path.is_none() {
                fields.push(("distinct_tuples", json!(distinct)));
            }
            object(fields.into_iter().chain(output.resources()))
        },
        || {
            let mut text = summary_text(options.input.name(), &summary, metadata);
            if wrote.path.is_none() {
                text += &format!("{distinct} distinct distance tuples\n");
            }
            text + &wrote.text(output)
        },
    )
}

/// Takes the result from the store, or computes it there; OUT is a copy.
fn stored(
    encoder: &Encoder,
    set: &GraphSet,
    metadata: &Metadata,
    out: Option<Target>,
    options: &Options,
    output: &Output,
) -> Result<()> {
    let ids = IdsFile::open(set, out.as_ref().map(|t| t.file.path()), options.force)?;
    let num_nodes: Vec<u32> = set.samples.iter().map(|s| s.graph.num_nodes() as u32).collect();
    let compute = |file: AtomicFile| {
        let progress = Progress::new(set.samples.len() as u64, "graphs", output);
        let mut writer = encoded::create("safetensors", file, metadata, &num_nodes)?;
        encoder.encode_set(set, &progress, |chunk| writer.push(&chunk))?;
        writer.finish()
    };
    let store = Store::of_user()?;
    let content = set.content_hash();
    let held = store.get_or_compute(&content, metadata, |text| output.note(text), compute)?;
    let (entry, found) = (&held.path, held.found);
    let path = out.as_ref().map(|target| target.file.path().to_path_buf());
    if let Some(target) = out {
        let mut reader = encoded::open(entry)?;
        let mut writer = encoded::create(target.format, target.file, metadata, &num_nodes)?;
        while let Some(chunk) = reader.next()? {
            writer.push(&chunk)?;
        }
        writer.finish()?;
        ids.write(set, output)?;
    }
    let wrote = Wrote::new(path)?;
    output.result(
        || {
            let fields = [
                ("graphs", json!(set.samples.len())),
                ("coarsener", json!(metadata.coarsener)),
                ("store", json!(entry.display().to_string())),
                ("found", json!(found)),
            ];
            object(fields.into_iter().chain(wrote.json()).chain(output.resources()))
        },
        || {
            let how = if found { "found in the store" } else { "computed and stored" };
            let copy = if wrote.path.is_some() { wrote.text(output) } else { String::new() };
            format!("{how}: {}\n{copy}", entry.display())
        },
    )
}

fn summary_json(summary: &Summary, metadata: &Metadata) -> Vec<(&'static str, Value)> {
    let levels: Vec<Value> = summary
        .levels
        .iter()
        .map(|l| json!({"clusters": l.clusters, "farthest": l.farthest, "disconnected": l.disconnected}))
        .collect();
    vec![
        ("graphs", json!(summary.graphs)),
        ("nodes", json!(summary.nodes)),
        ("edges", json!(summary.edges)),
        ("pairs", json!(summary.pairs)),
        ("levels", json!(levels)),
        ("stopped_early", json!(summary.stopped_early)),
        ("coarsener", json!(metadata.coarsener)),
    ]
}

fn summary_text(input: &str, summary: &Summary, metadata: &Metadata) -> String {
    let graphs = summary.graphs.max(1) as f64;
    let mut text = format!(
        "{input}: {}, {}, {}; {}\n\n",
        count(summary.graphs as u64, "graph"),
        count(summary.nodes, "node"),
        count(summary.edges, "edge"),
        metadata.coarsener
    );
    text += "level  clusters per graph  farthest pair  disconnected graphs\n";
    for (k, level) in summary.levels.iter().enumerate() {
        text += &format!(
            "{k:>5}  {:>18.2}  {:>13}  {:>19}\n",
            level.clusters as f64 / graphs,
            level.farthest,
            thousands(level.disconnected as u64)
        );
    }
    text.push('\n');
    if summary.stopped_early > 0 {
        text += &format!(
            "{} stopped shrinking before level {}; further levels repeat the last one\n",
            count(summary.stopped_early as u64, "graph"),
            metadata.levels
        );
    }
    text
}

/// The file written, if any.
struct Wrote {
    path: Option<PathBuf>,
    bytes: u64,
}

impl Wrote {
    fn new(path: Option<PathBuf>) -> Result<Wrote> {
        let bytes = match &path {
            Some(path) => {
                std::fs::metadata(path).map_err(|e| Error::io("cannot read", path, e))?.len()
            }
            None => 0,
        };
        Ok(Wrote { path, bytes })
    }

    fn json(&self) -> Vec<(&'static str, Value)> {
        match &self.path {
            Some(path) => {
                vec![("output", json!(path.display().to_string())), ("bytes", json!(self.bytes))]
            }
            None => Vec::new(),
        }
    }

    fn text(&self, output: &Output) -> String {
        match &self.path {
            Some(path) => format!(
                "wrote {} ({}) in {:.1} s\n",
                path.display(),
                crate::memory::human(self.bytes.into()),
                output.seconds()
            ),
            None => "nothing written; name a file with -o\n".to_string(),
        }
    }
}

fn high_level(
    level: usize,
    encoder: &Encoder,
    set: &GraphSet,
    metadata: &Metadata,
    out: Option<Target>,
    options: &Options,
    output: &Output,
) -> Result<()> {
    let [sample] = &set.samples[..] else {
        return Err(Error::config(format!(
            "`--high-level` is for one large graph, and `{}` holds {}",
            options.input.name(),
            set.samples.len()
        )));
    };
    let path = out.as_ref().map(|target| target.file.path().to_path_buf());
    let ids = IdsFile::open(set, path.as_deref(), options.force)?;
    let progress = Progress::new(1, "coarsening", output);
    let hierarchy = encoder.hierarchy(&sample.graph, 0, &progress)?;
    let clip = &encoder.max_distance;
    let high =
        HighLevel::watched(&sample.graph, &hierarchy, level, clip, encoder.limit, &progress)?;
    drop(progress);
    let nodes = sample.graph.num_nodes();
    let clusters = high.num_clusters();
    if let Some(target) = out {
        let mut specs = vec![ArraySpec::new("cluster_of", Dtype::U32, &[nodes, encoder.levels])];
        specs.extend(
            (level..=encoder.levels).map(|k| {
                ArraySpec::new(format!("distances.{k}"), Dtype::U8, &[clusters, clusters])
            }),
        );
        let mut arrays = arrays::create(target.format, target.file, specs, &metadata.to_json())?;
        let mut cluster_of = vec![0; nodes * encoder.levels];
        write_clusters(&hierarchy, &mut cluster_of);
        arrays.begin(0)?;
        arrays.write(bytemuck::cast_slice(&cluster_of))?;
        for k in level..=encoder.levels {
            arrays.begin(1 + k - level)?;
            arrays.write(high.table(k))?;
        }
        arrays.finish()?;
        ids.write(set, output)?;
    }
    let sizes: Vec<usize> = (0..=encoder.levels).map(|k| hierarchy.num_clusters(k)).collect();
    let stopped = hierarchy.built().len() < hierarchy.levels();
    let wrote = Wrote::new(path)?;
    output.result(
        || {
            let fields = [
                ("nodes", json!(nodes)),
                ("edges", json!(sample.graph.num_edges())),
                ("clusters", json!(&sizes[1..])),
                ("stopped_early", json!(stopped)),
                ("coarsener", json!(metadata.coarsener)),
            ];
            object(fields.into_iter().chain(wrote.json()).chain(output.resources()))
        },
        || {
            let mut text = format!(
                "{}: {}, {}; {}\n\nlevel  clusters\n",
                options.input.name(),
                count(nodes as u64, "node"),
                count(sample.graph.num_edges() as u64, "edge"),
                metadata.coarsener
            );
            for (k, &size) in sizes.iter().enumerate() {
                text += &format!("{k:>5}  {:>8}\n", thousands(size as u64));
            }
            text.push('\n');
            if stopped {
                text += &format!(
                    "the graph stopped shrinking after level {}\n",
                    hierarchy.built().len()
                );
            }
            text + &wrote.text(output)
        },
    )
}
