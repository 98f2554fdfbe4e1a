//! Graphs in and results out: samples, file formats, data sets, encoded sets on disk.
//!
//! [`read`] takes a path, `-` for standard input, or the name of a generated set, and gives a
//! [`GraphSet`]; [`sets`] lists data sets to train on, split and checked. What kind of file it is, is told by its name, else by its first bytes; gzip is
//! recognised and undone for every format. Sizes that a file states are checked before anything is
//! allocated, and a mistake is reported with file, row and reason.

pub mod arrays;
mod atomic;
mod edge_list;
pub mod encoded;
mod formats;
mod gml;
mod graph_file;
mod graphml;
mod jsonl;
mod matrix_market;
mod metis;
pub mod nodes;
mod numpy;
#[cfg(feature = "parquet")]
mod parquet;
mod sample;
pub mod sets;
mod single;
mod source;
pub mod store;
mod tu;

pub use atomic::AtomicFile;
pub use formats::{FORMATS, Format, GraphOut, Reader};
pub use graph_file::{open_graph_file, write_graph_file};
#[cfg(feature = "parquet")]
pub use parquet::write_clusters_parquet;
#[cfg(all(feature = "parquet", feature = "cli", feature = "train"))]
pub(crate) use parquet::write_table;
pub use sample::{Edges, Matrix, Sample, Values};
pub use source::Source;

use std::path::Path;

use crate::error::{Context as _, did_you_mean};
use crate::graph::Repairs;
use crate::graph::named::named;
use crate::{Error, Graph, MemoryLimit, Result};

/// A set of graphs, possibly of one.
#[derive(Clone, Debug)]
pub struct GraphSet {
    /// The graphs in order.
    pub samples: Vec<Sample>,
    /// Number of the first sample within the whole input; not 0 for a shard.
    pub first: usize,
    /// Graphs in the whole input.
    pub total: usize,
    /// blake3 of the input's bytes, in hexadecimal.
    pub hash: String,
    /// Original node ids, where a single graph had to be relabelled: entry i is node i.
    pub ids: Option<Vec<String>>,
}

impl GraphSet {
    /// blake3 of the graphs themselves, whatever file they came from: nodes, neighbours, weights.
    pub fn content_hash(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for sample in &self.samples {
            let graph = &sample.graph;
            hasher.update(&(graph.num_nodes() as u64).to_le_bytes());
            hasher.update(&[u8::from(graph.is_weighted())]);
            hasher.update(bytemuck::cast_slice(graph.offsets()));
            hasher.update(bytemuck::cast_slice(graph.targets()));
            hasher.update(bytemuck::cast_slice(graph.weights().unwrap_or_default()));
        }
        hasher.finalize().to_hex().to_string()
    }

    /// What was mended in all graphs together.
    pub fn repairs(&self) -> Repairs {
        let mut sum = Repairs::default();
        for sample in &self.samples {
            sum += sample.repairs;
        }
        sum
    }
}

/// How to read.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// Format by name; told from the file otherwise.
    pub format: Option<&'static Format>,
    /// Read node and edge features and targets too, not only the graphs.
    pub features: bool,
    /// Only the part `index` of `count` equal parts of the set.
    pub shard: Option<Shard>,
    /// The most memory to take.
    pub limit: MemoryLimit,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions { format: None, features: true, shard: None, limit: MemoryLimit::default() }
    }
}

/// Part `index` (from 0) of `count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which part, from 0.
    pub index: usize,
    /// How many parts.
    pub count: usize,
}

impl Shard {
    /// Reads `i/N` with i from 0 to N − 1.
    pub fn parse(text: &str) -> Result<Shard> {
        let parts =
            text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        match parts {
            Some((index, count)) if index < count => Ok(Shard { index, count }),
            _ => Err(Error::config(format!(
                "`{text}` is no shard; write i/N with i from 0 to N − 1, for instance 0/4"
            ))),
        }
    }

    /// The items of this part among `total`.
    pub fn range(self, total: usize) -> std::ops::Range<usize> {
        let at = |i| (total as u128 * i as u128 / self.count as u128) as usize;
        at(self.index)..at(self.index + 1)
    }
}

/// Reads a path, `-`, the name of a generated set, or `named:NAME` for a [named graph](crate::graph::named).
///
/// ```
/// use hdse::data::{ReadOptions, read};
/// let set = read("community-small", &ReadOptions::default())?;
/// assert_eq!(set.samples.len(), 100);
/// # Ok::<(), hdse::Error>(())
/// ```
pub fn read(input: &str, options: &ReadOptions) -> Result<GraphSet> {
    if let Some(set) = sets::generated().find(|set| set.entry().name == input) {
        return read_generated(set, options);
    }
    if let Some(name) = input.strip_prefix("named:") {
        return read_named(name, options);
    }
    if input != "-" && !std::path::Path::new(input).exists() {
        let names: Vec<&str> = sets::generated().map(|set| set.entry().name).collect();
        let hint = did_you_mean(input, names.iter().copied());
        return Err(Error::config(format!(
            "no file `{input}`, nor a generated set of that name{hint} (sets: {})",
            names.join(", ")
        )));
    }
    if input != "-"
        && let Some(set) = read_path(Path::new(input), options)?
    {
        return Ok(set);
    }
    read_source(&Source::load(input, options.limit)?, options)
}

/// A graph that has a name; its bytes are the name.
fn read_named(name: &str, options: &ReadOptions) -> Result<GraphSet> {
    let graph = named(name)?;
    let arcs = graph.edges().map(|(u, v, _)| (u, v)).collect();
    let single = single::Single { num_nodes: graph.num_nodes(), arcs, ..Default::default() };
    single.into_set(&Source::from_bytes(name, name.into(), options.limit)?, options)
}

/// All samples of a generated set: those for training, validation and test, of seed 0.
fn read_generated(set: &dyn sets::Dataset, options: &ReadOptions) -> Result<GraphSet> {
    let options_of_set = sets::LoadOptions { limit: options.limit, ..Default::default() };
    let splits = set.load(&options_of_set)?;
    let hash = splits.hash.clone();
    let mut samples = splits.into_samples();
    let total = samples.len();
    let range = options.shard.map_or(0..total, |shard| shard.range(total));
    let first = range.start;
    samples = samples.drain(range).collect();
    Ok(GraphSet { samples, first, total, hash, ids: None })
}

/// Reads graphs from bytes, plain or gzipped; `name` tells the format where the bytes do not, and stands
/// in messages.
pub fn read_bytes(name: &str, bytes: Vec<u8>, options: &ReadOptions) -> Result<GraphSet> {
    read_source(&Source::from_bytes(name, bytes, options.limit)?, options)
}

fn read_source(source: &Source, options: &ReadOptions) -> Result<GraphSet> {
    let format = match options.format {
        Some(format) => format,
        None => formats::detect(source)?,
    };
    // What parsing takes for each byte of text: names, pairs and tables of what was seen.
    let per_byte = if format.name == "parquet" { 3 } else { 8 };
    options.limit.check(
        source.bytes().len() as u128 * per_byte,
        &format!("parsing {}", source.name()),
        "raise `--max-memory`, or import it on a larger machine (`hdse graph import`)",
    )?;
    match format.read {
        Reader::Bytes(read) => read(source, options).context(|| source.name().to_string()),
        Reader::Path => Err(Error::data(format!(
            "{} can't be read as {}; a graph file must be a plain file, not gzipped",
            source.name(),
            format.name
        ))),
        Reader::None => {
            Err(Error::config(format!("{}: format `{}` can't be read", source.name(), format.name)))
        }
    }
}

/// Formats that are a folder, or that are mapped instead of read.
fn read_path(path: &Path, options: &ReadOptions) -> Result<Option<GraphSet>> {
    let wanted = |name: &str| options.format.is_none_or(|f| f.name == name);
    if wanted("tu")
        && let Some(arcs) = tu::find(path)
    {
        return tu::read(&arcs, options).context(|| path.display().to_string()).map(Some);
    }
    let mut magic = [0; 8];
    let mut file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(e) => return Err(Error::io("cannot read", path, e)),
    };
    if !wanted("hgraph")
        || std::io::Read::read_exact(&mut file, &mut magic).is_err()
        || magic != *graph_file::MAGIC
    {
        return Ok(None);
    }
    let (graph, hash) = open_graph_file(path)?;
    let samples = match options.shard {
        Some(shard) if shard.range(1).is_empty() => Vec::new(),
        _ => vec![Sample::bare(arcs_of(&graph, options), graph, Default::default())],
    };
    let first = options.shard.map_or(0, |s| s.range(1).start);
    let ids = ids_beside(path, samples.first().map_or(0, |s| s.graph.num_nodes()));
    Ok(Some(GraphSet { samples, first, total: 1, hash, ids }))
}

/// The ids that `hdse graph import` left beside a graph file, if they are those of its nodes.
fn ids_beside(path: &Path, nodes: usize) -> Option<Vec<String>> {
    let mut name = path.as_os_str().to_owned();
    name.push(".ids.txt");
    let text = std::fs::read_to_string(name).ok()?;
    let ids: Vec<String> = text.lines().map(str::to_string).collect();
    (ids.len() == nodes && nodes > 0).then_some(ids)
}

/// Both directions of every edge, if features are wanted.
fn arcs_of(graph: &Graph, options: &ReadOptions) -> Edges {
    if options.features { both_directions(graph) } else { Edges::default() }
}

/// Both directions of every edge, by source, then target.
fn both_directions(graph: &Graph) -> Edges {
    let sources = (0..graph.num_nodes() as u32)
        .flat_map(|u| std::iter::repeat_n(u, graph.degree(u)))
        .collect();
    Edges { sources, targets: graph.targets().to_vec() }
}

/// The format that a file name ends in, `.gz` aside, if it is a known one.
pub fn format_of_file(name: &str) -> Option<&'static Format> {
    formats::by_file_name(name)
}

/// The format called `name`.
///
/// # Errors
/// If there is none; the nearest name is suggested.
pub fn format_by_name(name: &str) -> Result<&'static Format> {
    formats::by_name(name)
}

/// Content hash of samples that come from no file: nodes, arcs, features and targets of every graph.
fn hash_samples<'a>(samples: impl Iterator<Item = &'a Sample>) -> String {
    let mut hasher = blake3::Hasher::new();
    for sample in samples {
        hasher.update(&(sample.graph.num_nodes() as u64).to_le_bytes());
        hasher.update(&(sample.edges.sources.len() as u64).to_le_bytes());
        hasher.update(bytemuck::cast_slice(&sample.edges.sources));
        hasher.update(bytemuck::cast_slice(&sample.edges.targets));
        let columns = [&sample.node_feat, &sample.edge_attr, &sample.pos];
        let values = columns.map(|column| column.as_ref().map(|matrix| &matrix.values));
        for values in values.into_iter().chain([sample.y.as_ref()]) {
            let bytes: &[u8] = match values {
                None => &[],
                Some(Values::Int(values)) => bytemuck::cast_slice(values),
                Some(Values::Float(values)) => bytemuck::cast_slice(values),
            };
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        }
    }
    hasher.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_cover_everything_once() {
        for total in [0, 1, 5, 100, 101] {
            for count in [1, 2, 3, 7, 200] {
                let all: Vec<usize> =
                    (0..count).flat_map(|index| Shard { index, count }.range(total)).collect();
                assert_eq!(all, (0..total).collect::<Vec<_>>());
            }
        }
        for wrong in ["", "3", "3/3", "-1/2", "a/b", "0/0"] {
            assert!(Shard::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn unknown_inputs_are_explained() {
        let error = read("comunity-small", &ReadOptions::default()).unwrap_err();
        assert!(error.to_string().contains("did you mean `community-small`?"), "{error}");
    }
}
