//! Encoded graph sets on disk: distances and clusters of every graph, with all parameters.
//!
//! | array | type | shape | meaning |
//! |---|---|---|---|
//! | `num_nodes` | u32 | `[G]` | nodes of every graph |
//! | `node_offsets` | u64 | `[G + 1]` | first node of every graph in `clusters` |
//! | `pair_offsets` | u64 | `[G + 1]` | first pair of every graph in `distances` |
//! | `distances` | u8 | `[pairs, K + 1]` | n · n rows per graph, levels 0 … K; 255 = unreachable |
//! | `clusters` | u32 | `[nodes, K]` | cluster of every node at levels 1 … K, ids local to the graph |
//!
//! In safetensors and npz these are arrays; in Parquet a row is a graph, with columns `num_nodes`,
//! `distances` and `clusters` (flattened lists). The [`Metadata`] lie under the key `hdse` (npz:
//! `metadata.json`). Distances are streamed, so a set may be larger than memory.

mod merge;
#[cfg(feature = "parquet")]
mod parquet;

pub use merge::merge;

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::arrays::{self, ArraySpec, ArrayWriter, Dtype};
use super::{AtomicFile, Shard};
use crate::error::Context as _;
use crate::{Error, Result};

/// Version of the layout described above.
pub const SCHEMA: u32 = 1;

/// Everything that determines an encoded file, besides the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// Version of the layout, [`SCHEMA`].
    pub schema: u32,
    /// Version of this crate.
    pub hdse: String,
    /// `graph-set` or `high-level`.
    pub kind: String,
    /// The coarsener with all parameters.
    pub coarsener: String,
    /// Number of levels K.
    pub levels: usize,
    /// Clip of levels 0 … K.
    pub max_distance: Vec<u8>,
    /// Seed.
    pub seed: u64,
    /// Graphs in the whole input.
    pub graphs: usize,
    /// blake3 of the input.
    pub input_blake3: String,
    /// For high-level distances: the level c whose clusters are rows and columns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high_level: Option<usize>,
    /// For a part of a set: which, as `i/N`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
}

impl Metadata {
    /// As the text that is stored.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("plain data always serialise")
    }

    /// From the text that was stored.
    pub fn from_json(text: &str) -> Result<Metadata> {
        let metadata: Metadata = serde_json::from_str(text)
            .map_err(|e| Error::data(format!("not written by hdse: no readable metadata ({e})")))?;
        if metadata.levels > usize::from(u8::MAX) {
            return Err(Error::data(format!("{} levels can't be", metadata.levels)));
        }
        if metadata.schema != SCHEMA {
            return Err(Error::data(format!(
                "layout version {} is not {SCHEMA}, the one this program knows; encode again",
                metadata.schema
            )));
        }
        Ok(metadata)
    }

    /// The part of a set that the file holds, if it is one.
    pub fn shard(&self) -> Result<Option<Shard>> {
        self.shard.as_deref().map(Shard::parse).transpose()
    }
}

/// The encodings of some consecutive graphs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// Nodes of every graph.
    pub num_nodes: Vec<u32>,
    /// Distances of all pairs of the first graph, then of the next: `[pairs, K + 1]`.
    pub distances: Vec<u8>,
    /// Clusters of all nodes of the first graph, then of the next: `[nodes, K]`.
    pub clusters: Vec<u32>,
}

impl Chunk {
    /// Whether the lengths agree.
    fn check(&self, levels: usize) -> Result<()> {
        let (nodes, pairs) = totals(&self.num_nodes);
        if self.distances.len() as u128 == pairs * (levels as u128 + 1)
            && self.clusters.len() as u128 == nodes * levels as u128
        {
            return Ok(());
        }
        Err(Error::data(format!(
            "{nodes} nodes and {pairs} pairs at {levels} levels, but {} clusters and {} distances",
            self.clusters.len(),
            self.distances.len()
        )))
    }
}

/// Nodes and node pairs of all graphs together.
fn totals(num_nodes: &[u32]) -> (u128, u128) {
    let nodes = num_nodes.iter().map(|&n| u128::from(n)).sum();
    let pairs = num_nodes.iter().map(|&n| u128::from(n).pow(2)).sum();
    (nodes, pairs)
}

/// 0 and the running sums of `sizes`.
fn offsets(sizes: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut sum = 0;
    let sums = sizes.map(|size| {
        sum += size;
        sum
    });
    std::iter::once(0).chain(sums).collect()
}

/// Writes an encoded set graph by graph; the file appears when it is finished.
pub trait SetWriter: Send {
    /// Appends the encodings of the next graphs.
    fn push(&mut self, chunk: &Chunk) -> Result<()>;
    /// Completes the file and moves it into place.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// Opens `file` for an encoded set in `format`; `num_nodes` are those of all graphs to come.
pub fn create(
    format: &str,
    file: AtomicFile,
    metadata: &Metadata,
    num_nodes: &[u32],
) -> Result<Box<dyn SetWriter>> {
    match format {
        #[cfg(feature = "parquet")]
        "parquet" => Ok(Box::new(parquet::Writer::new(file, metadata)?)),
        _ => Ok(Box::new(ArraySetWriter::new(format, file, metadata, num_nodes)?)),
    }
}

/// Distances are streamed; clusters, a thousandth of them, wait for the end.
struct ArraySetWriter {
    arrays: Box<dyn ArrayWriter + Send>,
    num_nodes: Vec<u32>,
    clusters: Vec<u32>,
}

const NODE_OFFSETS: usize = 0;
const PAIR_OFFSETS: usize = 1;
const NUM_NODES: usize = 2;
const CLUSTERS: usize = 3;
const DISTANCES: usize = 4;

impl ArraySetWriter {
    fn new(
        format: &str,
        file: AtomicFile,
        metadata: &Metadata,
        num_nodes: &[u32],
    ) -> Result<ArraySetWriter> {
        let graphs = num_nodes.len();
        let (nodes, pairs) = totals(num_nodes);
        let specs = vec![
            ArraySpec::new("node_offsets", Dtype::U64, &[graphs + 1]),
            ArraySpec::new("pair_offsets", Dtype::U64, &[graphs + 1]),
            ArraySpec::new("num_nodes", Dtype::U32, &[graphs]),
            ArraySpec::new("clusters", Dtype::U32, &[nodes as usize, metadata.levels]),
            ArraySpec::new("distances", Dtype::U8, &[pairs as usize, metadata.levels + 1]),
        ];
        let mut arrays = arrays::create(format, file, specs, &metadata.to_json())?;
        arrays.begin(DISTANCES)?;
        Ok(ArraySetWriter { arrays, num_nodes: num_nodes.to_vec(), clusters: Vec::new() })
    }
}

impl SetWriter for ArraySetWriter {
    fn push(&mut self, chunk: &Chunk) -> Result<()> {
        self.clusters.extend_from_slice(&chunk.clusters);
        self.arrays.write(&chunk.distances)
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        let nodes = || self.num_nodes.iter().map(|&n| u64::from(n));
        let (node_offsets, pair_offsets) = (offsets(nodes()), offsets(nodes().map(|n| n * n)));
        for (array, bytes) in [
            (NODE_OFFSETS, bytemuck::cast_slice(&node_offsets)),
            (PAIR_OFFSETS, bytemuck::cast_slice(&pair_offsets)),
            (NUM_NODES, bytemuck::cast_slice(&self.num_nodes)),
            (CLUSTERS, bytemuck::cast_slice(&self.clusters)),
        ] {
            self.arrays.begin(array)?;
            self.arrays.write(bytes)?;
        }
        self.arrays.finish()
    }
}

/// Reads an encoded set back.
pub trait SetReader {
    /// Its parameters.
    fn metadata(&self) -> &Metadata;
    /// Nodes of every graph.
    fn num_nodes(&self) -> &[u32];
    /// The encodings of the next graphs, until there are none.
    fn next(&mut self) -> Result<Option<Chunk>>;
}

/// Opens an encoded set of any format.
pub fn open(path: &Path) -> Result<Box<dyn SetReader>> {
    if path.is_dir() {
        return Err(Error::config(format!("{} is a directory; name files", path.display())));
    }
    #[cfg(feature = "parquet")]
    if parquet::is_parquet(path)? {
        let reader = parquet::Reader::open(path);
        return Ok(Box::new(reader.map_err(|e| e.context(path.display().to_string()))?));
    }
    Ok(Box::new(ArraySetReader::open(path)?))
}

struct ArraySetReader {
    arrays: Box<dyn arrays::ArrayReader>,
    metadata: Metadata,
    num_nodes: Vec<u32>,
    read: bool,
}

impl ArraySetReader {
    fn open(path: &Path) -> Result<ArraySetReader> {
        let mut arrays = arrays::open(path)?;
        let place = || path.display().to_string();
        let metadata = Metadata::from_json(arrays.metadata()).context(place)?;
        // High-level files have no such array; their kind says what they are.
        let num_nodes = match metadata.kind.as_str() {
            "graph-set" => {
                arrays::expect(arrays.as_ref(), "num_nodes", Dtype::U32, 1).context(place)?;
                words(&arrays.read("num_nodes").context(place)?)
            }
            _ => Vec::new(),
        };
        Ok(ArraySetReader { arrays, metadata, num_nodes, read: false })
    }
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word)).collect()
}

impl SetReader for ArraySetReader {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn num_nodes(&self) -> &[u32] {
        &self.num_nodes
    }

    fn next(&mut self) -> Result<Option<Chunk>> {
        if std::mem::replace(&mut self.read, true) {
            return Ok(None);
        }
        arrays::expect(self.arrays.as_ref(), "distances", Dtype::U8, 2)?;
        arrays::expect(self.arrays.as_ref(), "clusters", Dtype::U32, 2)?;
        let chunk = Chunk {
            num_nodes: self.num_nodes.clone(),
            distances: self.arrays.read("distances")?,
            clusters: words(&self.arrays.read("clusters")?),
        };
        chunk.check(self.metadata.levels)?;
        Ok(Some(chunk))
    }
}
