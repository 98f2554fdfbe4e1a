//! Encoded sets as Parquet: one row per graph.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{LargeBinaryBuilder, LargeListBuilder, UInt32Builder};
use arrow_array::cast::AsArray as _;
use arrow_array::types::UInt32Type;
use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use super::{Chunk, Metadata, SetReader, SetWriter};
use crate::data::AtomicFile;
use crate::data::parquet::guarded;
use crate::{Error, Result};

/// A row group ends after this many graphs or bytes of distances, whichever comes first. Counted graph
/// by graph, so that the bytes do not depend on how a set is cut into chunks.
const GROUP: usize = 256;
const GROUP_BYTES: usize = 32 << 20;

fn schema() -> Schema {
    let clusters = Field::new("element", DataType::UInt32, false);
    Schema::new(vec![
        Field::new("num_nodes", DataType::UInt32, false),
        // Bytes, not a list: Parquet spends several bytes of memory on every item of a list.
        Field::new("distances", DataType::LargeBinary, false),
        Field::new("clusters", DataType::LargeList(Arc::new(clusters)), false),
    ])
}

pub(super) struct Writer {
    writer: ArrowWriter<AtomicFile>,
    levels: usize,
    pending: Chunk,
}

fn problem(e: impl std::fmt::Display) -> Error {
    Error::io("cannot write", "the Parquet file", e)
}

impl Writer {
    pub(super) fn new(file: AtomicFile, metadata: &Metadata) -> Result<Writer> {
        // Beside the file's own metadata, the Arrow schema carries it: that is where pyarrow looks.
        let text = metadata.to_json();
        let schema = schema().with_metadata(HashMap::from([("hdse".to_string(), text.clone())]));
        let key_value = KeyValue::new("hdse".to_string(), text);
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_dictionary_enabled(false)
            .set_statistics_enabled(EnabledStatistics::None)
            .set_key_value_metadata(Some(vec![key_value]))
            .build();
        let writer =
            ArrowWriter::try_new(file, Arc::new(schema), Some(properties)).map_err(problem)?;
        Ok(Writer { writer, levels: metadata.levels, pending: Chunk::default() })
    }

    /// Writes the pending graphs as one row group.
    fn flush(&mut self) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        let element = Arc::new(Field::new("element", DataType::UInt32, false));
        let mut distances = LargeBinaryBuilder::new();
        let mut clusters = LargeListBuilder::new(UInt32Builder::new()).with_field(element);
        let (mut pair, mut node) = (0, 0);
        for &n in &pending.num_nodes {
            let (pairs, nodes) = self.sizes(n);
            distances.append_value(&pending.distances[pair..pair + pairs]);
            clusters.values().append_slice(&pending.clusters[node..node + nodes]);
            clusters.append(true);
            pair += pairs;
            node += nodes;
        }
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::from(pending.num_nodes)),
            Arc::new(distances.finish()),
            Arc::new(clusters.finish()),
        ];
        let batch = RecordBatch::try_new(Arc::new(schema()), columns).map_err(problem)?;
        self.writer.write(&batch).and_then(|()| self.writer.flush()).map_err(problem)
    }

    /// Bytes of distances and numbers of clusters of a graph of `n` nodes.
    fn sizes(&self, n: u32) -> (usize, usize) {
        (n as usize * n as usize * (self.levels + 1), n as usize * self.levels)
    }
}

impl SetWriter for Writer {
    fn push(&mut self, chunk: &Chunk) -> Result<()> {
        let (mut pair, mut node) = (0, 0);
        for &n in &chunk.num_nodes {
            let (pairs, nodes) = self.sizes(n);
            if pairs > i32::MAX as usize {
                return Err(Error::data(format!(
                    "distances of {n} nodes are more than a Parquet cell holds; write safetensors"
                )));
            }
            self.pending.num_nodes.push(n);
            self.pending.distances.extend_from_slice(&chunk.distances[pair..pair + pairs]);
            self.pending.clusters.extend_from_slice(&chunk.clusters[node..node + nodes]);
            pair += pairs;
            node += nodes;
            if self.pending.num_nodes.len() == GROUP || self.pending.distances.len() >= GROUP_BYTES
            {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        if !self.pending.num_nodes.is_empty() {
            self.flush()?;
        }
        self.writer.into_inner().map_err(problem)?.commit()
    }
}

pub(super) fn is_parquet(path: &Path) -> Result<bool> {
    let mut magic = [0; 4];
    let mut file = File::open(path).map_err(|e| Error::io("cannot read", path, e))?;
    Ok(file.read_exact(&mut magic).is_ok() && &magic == b"PAR1")
}

pub(super) struct Reader {
    reader: ParquetRecordBatchReader,
    metadata: Metadata,
    num_nodes: Vec<u32>,
}

impl Reader {
    pub(super) fn open(path: &Path) -> Result<Reader> {
        let file = || File::open(path).map_err(|e| Error::io("cannot read", path, e));
        let (first, second) = (file()?, file()?);
        let builder = guarded(|| ParquetRecordBatchReaderBuilder::try_new(first))?;
        let pairs = builder.metadata().file_metadata().key_value_metadata();
        let text = pairs.and_then(|pairs| pairs.iter().find(|kv| kv.key == "hdse"));
        let metadata = Metadata::from_json(text.and_then(|kv| kv.value.as_deref()).unwrap_or(""))?;
        if builder.schema().fields() != schema().fields() {
            return Err(Error::data("its columns are not those of an encoded set"));
        }
        let mask = ProjectionMask::roots(builder.parquet_schema(), [0]);
        let mut sizes = guarded(|| builder.with_projection(mask).build())?;
        let mut num_nodes = Vec::new();
        while let Some(batch) = guarded(|| sizes.next().transpose())? {
            num_nodes.extend_from_slice(batch.column(0).as_primitive::<UInt32Type>().values());
        }
        let reader = guarded(|| {
            ParquetRecordBatchReaderBuilder::try_new(second)?.with_batch_size(16).build()
        })?;
        Ok(Reader { reader, metadata, num_nodes })
    }
}

impl SetReader for Reader {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn num_nodes(&self) -> &[u32] {
        &self.num_nodes
    }

    fn next(&mut self) -> Result<Option<Chunk>> {
        let Some(batch) = guarded(|| self.reader.next().transpose())? else { return Ok(None) };
        let distances = batch.column(1).as_binary::<i64>();
        let clusters = batch.column(2).as_list::<i64>();
        let range = |offsets: &[i64]| offsets[0] as usize..offsets[offsets.len() - 1] as usize;
        let numbers = clusters.values().as_primitive::<UInt32Type>().values();
        let chunk = Chunk {
            num_nodes: batch.column(0).as_primitive::<UInt32Type>().values().to_vec(),
            distances: distances.value_data()[range(distances.value_offsets())].to_vec(),
            clusters: numbers[range(clusters.value_offsets())].to_vec(),
        };
        chunk.check(self.metadata.levels)?;
        Ok(Some(chunk))
    }
}
