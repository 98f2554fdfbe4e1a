//! Encoded sets as Parquet: one row per graph.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{LargeListBuilder, UInt8Builder, UInt32Builder};
use arrow_array::cast::AsArray as _;
use arrow_array::types::{UInt8Type, UInt32Type};
use arrow_array::{Array as _, ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use super::{Chunk, Metadata, SetReader, SetWriter};
use crate::data::AtomicFile;
use crate::data::parquet::guarded;
use crate::{Error, Result};

/// Graphs per row group. Fixed, so that the bytes do not depend on how a set is cut into chunks.
const GROUP: usize = 256;

fn schema() -> Schema {
    let list = |name, item| {
        Field::new(name, DataType::LargeList(Arc::new(Field::new("element", item, false))), false)
    };
    Schema::new(vec![
        Field::new("num_nodes", DataType::UInt32, false),
        list("distances", DataType::UInt8),
        list("clusters", DataType::UInt32),
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
            .set_key_value_metadata(Some(vec![key_value]))
            .build();
        let writer =
            ArrowWriter::try_new(file, Arc::new(schema), Some(properties)).map_err(problem)?;
        Ok(Writer { writer, levels: metadata.levels, pending: Chunk::default() })
    }

    /// Writes the first `graphs` pending graphs as one row group.
    fn flush(&mut self, graphs: usize) -> Result<()> {
        let not_null = |item| Arc::new(Field::new("element", item, false));
        let mut distances =
            LargeListBuilder::new(UInt8Builder::new()).with_field(not_null(DataType::UInt8));
        let mut clusters =
            LargeListBuilder::new(UInt32Builder::new()).with_field(not_null(DataType::UInt32));
        let (mut pair, mut node) = (0, 0);
        for &n in &self.pending.num_nodes[..graphs] {
            let (pairs, nodes) =
                (n as usize * n as usize * (self.levels + 1), n as usize * self.levels);
            distances.values().append_slice(&self.pending.distances[pair..pair + pairs]);
            distances.append(true);
            clusters.values().append_slice(&self.pending.clusters[node..node + nodes]);
            clusters.append(true);
            pair += pairs;
            node += nodes;
        }
        let num_nodes: Vec<u32> = self.pending.num_nodes.drain(..graphs).collect();
        self.pending.distances.drain(..pair);
        self.pending.clusters.drain(..node);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::from(num_nodes)),
            Arc::new(distances.finish()),
            Arc::new(clusters.finish()),
        ];
        let batch = RecordBatch::try_new(Arc::new(schema()), columns).map_err(problem)?;
        self.writer.write(&batch).and_then(|()| self.writer.flush()).map_err(problem)
    }
}

impl SetWriter for Writer {
    fn push(&mut self, chunk: &Chunk) -> Result<()> {
        self.pending.num_nodes.extend_from_slice(&chunk.num_nodes);
        self.pending.distances.extend_from_slice(&chunk.distances);
        self.pending.clusters.extend_from_slice(&chunk.clusters);
        while self.pending.num_nodes.len() >= GROUP {
            self.flush(GROUP)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        let rest = self.pending.num_nodes.len();
        if rest > 0 {
            self.flush(rest)?;
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
            ParquetRecordBatchReaderBuilder::try_new(second)?.with_batch_size(GROUP).build()
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
        let list = |column: usize| {
            let list = batch.column(column).as_list::<i64>();
            let (first, last) = (list.value_offsets()[0], list.value_offsets()[list.len()]);
            list.values().slice(first as usize, (last - first) as usize)
        };
        let chunk = Chunk {
            num_nodes: batch.column(0).as_primitive::<UInt32Type>().values().to_vec(),
            distances: list(1).as_primitive::<UInt8Type>().values().to_vec(),
            clusters: list(2).as_primitive::<UInt32Type>().values().to_vec(),
        };
        chunk.check(self.metadata.levels)?;
        Ok(Some(chunk))
    }
}
