//! `hdse encode`: hierarchies and distances of a graph set, or of one large graph.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use serde_json::{Value, json};

use super::output::{Output, count, object, thousands};
use super::progress::Progress;
use crate::data::arrays::{self, ArraySpec, Dtype};
use crate::data::encoded::{self, Chunk, Metadata, SCHEMA};
use crate::data::{AtomicFile, FORMATS, Format, GraphSet, ReadOptions, Shard, Source};
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
    #[arg(long, short, value_name = "NAME[:key=value,...]", value_parser = SpecParser)]
    #[arg(default_value = "newman", conflicts_with = "partition")]
    coarsener: String,
    /// Given clusters instead of a coarsener: one id per line, a file per level. Further levels may
    /// number nodes or the clusters below
    #[arg(long, value_name = "FILE")]
    partition: Vec<PathBuf>,
    /// Number of levels K above the graph [default: 1, or the number of --partition files]
    #[arg(long, short = 'k', value_name = "K")]
    levels: Option<usize>,
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
    /// Replace files that exist
    #[arg(long)]
    force: bool,
}

/// Where graphs come from.
#[derive(clap::Args)]
pub(super) struct InputOptions {
    /// A file, `-` for standard input, or the name of a generated set (`hdse list sets`)
    #[arg(value_name = "INPUT")]
    input: String,
    /// Format of the input; told from its name and first bytes by default
    #[arg(long, value_parser = FormatParser::Input)]
    input_format: Option<&'static Format>,
}

impl InputOptions {
    /// What the user called it.
    pub(super) fn name(&self) -> &str {
        &self.input
    }

    /// Reads the graphs, or a part of them, and says what was repaired.
    pub(super) fn read(
        &self,
        shard: Option<Shard>,
        limit: MemoryLimit,
        output: &Output,
    ) -> Result<GraphSet> {
        let options = ReadOptions { format: self.input_format, features: false, shard, limit };
        let set = crate::data::read(&self.input, &options)?;
        output.repairs(set.repairs());
        output.detail(|| {
            let graphs = count(set.samples.len() as u64, "graph");
            format!("read {graphs} in {:.2} s", output.seconds())
        });
        Ok(set)
    }

    /// Reads everything, features and targets too.
    pub(super) fn read_whole(&self, limit: MemoryLimit) -> Result<GraphSet> {
        let options = ReadOptions { format: self.input_format, limit, ..ReadOptions::default() };
        crate::data::read(&self.input, &options)
    }
}

/// Any text, with the names of all coarseners for help and completions.
#[derive(Clone)]
pub(super) struct SpecParser;

impl TypedValueParser for SpecParser {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(coarsen::ALL.iter().map(|e| PossibleValue::new(e.name).help(e.summary))))
    }
}

/// The name of a format that can do what is needed.
#[derive(Clone, Copy)]
pub(super) enum FormatParser {
    /// Be read.
    Input,
    /// Hold a single graph.
    Graphs,
    /// Hold an encoded set.
    Sets,
}

impl FormatParser {
    fn formats(self) -> impl Iterator<Item = &'static Format> {
        FORMATS.iter().filter(move |format| match self {
            FormatParser::Input => format.reads(),
            FormatParser::Graphs => format.write_graph.is_some(),
            FormatParser::Sets => format.writes_sets,
        })
    }
}

impl TypedValueParser for FormatParser {
    type Value = &'static Format;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<&'static Format, clap::Error> {
        let parser = clap::builder::PossibleValuesParser::new(self.formats().map(|f| f.name));
        let name = parser.parse_ref(command, argument, value)?;
        let found = self.formats().find(|f| f.name == name);
        Ok(found.expect("only listed names are accepted"))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.formats().map(|f| PossibleValue::new(f.name).help(f.summary))))
    }
}

pub(super) fn run(options: &Options, limit: MemoryLimit, output: &Output) -> Result<()> {
    // Find mistakes before long work.
    let out = match &options.output {
        Some(path) => Some(Target::new(path, options)?),
        None => None,
    };
    let given = options.partition.iter().map(|p| read_ids(p, limit)).collect::<Result<Vec<_>>>()?;
    let levels = match (options.levels, given.len()) {
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
        let of_graph = partitions_from_ids(&set, &ids)?;
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
    let metadata = Metadata {
        schema: SCHEMA,
        hdse: env!("CARGO_PKG_VERSION").to_string(),
        kind: if options.high_level.is_some() { "high-level" } else { "graph-set" }.to_string(),
        coarsener: encoder.describe(),
        levels,
        max_distance: (0..=levels).map(|k| options.max_distance.at(k)).collect(),
        seed: options.seed,
        graphs: set.total,
        input_blake3: set.hash.clone(),
        high_level: options.high_level,
        shard: options.shard.map(|s| format!("{}/{}", s.index, s.count)),
    };
    match options.high_level {
        Some(level) => high_level(level, &encoder, &set, &metadata, out, options, output),
        None => graph_set(&encoder, &set, &metadata, out, options, output),
    }
}

/// A file to write, opened before the work starts.
struct Target {
    file: AtomicFile,
    format: &'static str,
}

impl Target {
    fn new(path: &Path, options: &Options) -> Result<Target> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let format = match (options.format, crate::data::format_of_file(&name)) {
            (Some(format), _) => format.name,
            (None, Some(format)) if format.writes_sets => format.name,
            (None, Some(format)) => {
                return Err(Error::config(format!(
                    "`{name}` looks like {}, which can't hold encoded graphs; end it in \
                     .safetensors, .npz or .parquet, or say `--format`",
                    format.name
                )));
            }
            (None, None) => "safetensors",
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
        Ok(Target { file: AtomicFile::create(&path, options.force)?, format })
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
    let source = Source::load(&path.to_string_lossy(), limit)?;
    let parse = |(line, text): (usize, &str)| {
        text.trim().parse::<u64>().map_err(|_| {
            Error::data(format!(
                "line {}: `{}` is not a cluster id; expected one whole number per line",
                line + 1,
                text.trim()
            ))
        })
    };
    let lines = source.text()?.lines().enumerate();
    let ids = lines.filter(|(_, text)| !text.trim().is_empty()).map(parse);
    let ids = ids.collect::<Result<_>>().context(|| path.display().to_string())?;
    Ok((ids, source.hash()[..16].to_string()))
}

/// Says so when a choice will take very long.
pub(super) fn warn_if_slow(coarsener: &str, set: &GraphSet, output: &Output) {
    let largest = set.samples.iter().map(|s| s.graph.num_edges()).max().unwrap_or(0);
    if coarsener.starts_with("newman") && largest > 20_000 {
        output.note(&format!(
            "newman takes time in the square of the edges, and there are {}; louvain is fast",
            thousands(largest as u64)
        ));
    }
}

/// The file beside the output that lists the original ids of relabelled nodes: line i is node i.
pub(super) struct IdsFile(Option<AtomicFile>);

impl IdsFile {
    /// Opened before long work, if nodes were relabelled and there is an output.
    pub(super) fn open(set: &GraphSet, output: Option<&Path>, force: bool) -> Result<IdsFile> {
        match (&set.ids, output) {
            (Some(_), Some(path)) => {
                let mut name = path.as_os_str().to_owned();
                name.push(".ids.txt");
                Ok(IdsFile(Some(AtomicFile::create(Path::new(&name), force)?)))
            }
            _ => Ok(IdsFile(None)),
        }
    }

    /// Written after the output is.
    pub(super) fn write(self, set: &GraphSet, output: &Output) -> Result<()> {
        let (Some(mut file), Some(ids)) = (self.0, &set.ids) else { return Ok(()) };
        let path = file.path().to_path_buf();
        let text: String = ids.iter().flat_map(|id| [id.as_str(), "\n"]).collect();
        file.write_all(text.as_bytes()).map_err(|e| Error::io("cannot write", &path, e))?;
        file.commit()?;
        output.note(&format!("nodes were relabelled; {} lists their ids in order", path.display()));
        Ok(())
    }
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
            let codes = Codes::from_tuples(&chunk.distances, encoder.levels + 1);
            let mut rows = distinct.lock().unwrap_or_else(|e| e.into_inner());
            rows.extend_from_slice(codes.codebook().rows());
            *rows = Codes::from_tuples(&rows, encoder.levels + 1).codebook().rows().to_vec();
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
            let mut text = summary_text(&options.input.input, &summary, metadata);
            if wrote.path.is_none() {
                text += &format!("{distinct} distinct distance tuples\n");
            }
            text + &wrote.text(output)
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
            options.input.input,
            set.samples.len()
        )));
    };
    let path = out.as_ref().map(|target| target.file.path().to_path_buf());
    let ids = IdsFile::open(set, path.as_deref(), options.force)?;
    let progress = Progress::new(1, "coarsening", output);
    let hierarchy = encoder.hierarchy(&sample.graph, 0, &progress)?;
    let high =
        HighLevel::new(&sample.graph, &hierarchy, level, &encoder.max_distance, encoder.limit)?;
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
                options.input.input,
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
