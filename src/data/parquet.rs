//! Graph sets as Parquet, one row per graph, in the schema of the public `graphs-datasets`
//! collections.
//!
//! | column | type | meaning |
//! |---|---|---|
//! | `num_nodes` | integer | number of nodes n |
//! | `edge_index` | list of two lists of integers | sources, targets; ids 0 … n − 1 |
//! | `node_feat` | list of n lists of numbers, optional | one row per node |
//! | `edge_attr` | list of lists of numbers, optional | one row per edge |
//! | `pos` | list of n lists of numbers, optional | coordinates |
//! | `y` | number or list of numbers, optional | targets |
//!
//! Lists are matched by position, so the names of inner fields do not matter. Row groups are
//! decoded in parallel, and only the columns that are wanted.

use std::ops::Range;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type,
};
use arrow_array::{Array, ArrayRef, OffsetSizeTrait, RecordBatch};
use arrow_schema::DataType;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};
use rayon::prelude::*;

use super::sample::{Lists, Numbers, Row, check_num_nodes};
use super::{GraphSet, ReadOptions, Sample, Source, Values};
use crate::error::{Context as _, catch};
use crate::{Error, Result};

pub(super) fn read(source: &Source, options: &ReadOptions) -> Result<GraphSet> {
    let bytes = Bytes::copy_from_slice(source.bytes());
    let metadata = guarded(|| ArrowReaderMetadata::load(&bytes, Default::default()))?;
    let wanted: &[&str] = match options.features {
        true => &["num_nodes", "edge_index", "node_feat", "edge_attr", "pos", "y"],
        false => &["num_nodes", "edge_index"],
    };
    let schema = metadata.schema();
    for required in ["num_nodes", "edge_index"] {
        if schema.column_with_name(required).is_none() {
            let names: Vec<_> = schema.fields().iter().map(|f| f.name().as_str()).collect();
            return Err(Error::data(format!(
                "no column `{required}`; it has: {}",
                names.join(", ")
            )));
        }
    }
    let roots =
        (0..schema.fields().len()).filter(|&i| wanted.contains(&schema.field(i).name().as_str()));
    let projection =
        ProjectionMask::roots(metadata.metadata().file_metadata().schema_descr(), roots);

    let groups = metadata.metadata().row_groups();
    let mut starts = vec![0usize];
    for group in groups {
        let rows = usize::try_from(group.num_rows()).unwrap_or(usize::MAX);
        starts.push(starts[starts.len() - 1].saturating_add(rows));
    }
    let total = starts[groups.len()];
    if total == 0 {
        return Err(Error::data("no row; a graph set needs at least one graph"));
    }
    let range = options.shard.map_or(0..total, |s| s.range(total));
    let wanted: Vec<usize> = (0..groups.len())
        .filter(|&g| starts[g] < range.end && starts[g + 1] > range.start)
        .collect();
    let read_group = |&group: &usize| -> Result<Vec<Sample>> {
        let part: Range<usize> = range.start.max(starts[group]) - starts[group]
            ..range.end.min(starts[group + 1]) - starts[group];
        let batch_rows = 1024.min(part.len());
        let mut reader = guarded(|| {
            ParquetRecordBatchReaderBuilder::new_with_metadata(bytes.clone(), metadata.clone())
                .with_projection(projection.clone())
                .with_row_groups(vec![group])
                .with_offset(part.start)
                .with_limit(part.len())
                .with_batch_size(batch_rows)
                .build()
        })?;
        let mut samples = Vec::new();
        let mut row = starts[group] + part.start;
        while let Some(batch) = guarded(|| reader.next().transpose())? {
            let made = samples_of(&batch, row, options)?;
            row += made.len();
            samples.extend(made);
        }
        if samples.len() != part.len() {
            return Err(Error::data(format!(
                "row group {group} states {} rows but holds {}",
                groups[group].num_rows(),
                samples.len()
            )));
        }
        Ok(samples)
    };
    let parts: Vec<Result<Vec<Sample>>> = wanted.par_iter().map(read_group).collect();
    let mut samples = Vec::new();
    for part in parts {
        samples.extend(part?);
    }
    let hash = source.hash().to_string();
    Ok(GraphSet { samples, first: range.start, total, hash, ids: None })
}

/// The Parquet library returns errors for most broken files and panics on a few.
pub(super) fn guarded<T, E: std::fmt::Display>(work: impl FnOnce() -> Result<T, E>) -> Result<T> {
    match catch(work) {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => Err(Error::data(format!("not a readable Parquet file: {error}"))),
        None => Err(Error::data("not a readable Parquet file: its structure is broken")),
    }
}

fn samples_of(batch: &RecordBatch, first: usize, options: &ReadOptions) -> Result<Vec<Sample>> {
    let column = |name: &str| batch.column_by_name(name);
    let required = |name: &str| column(name).expect("checked when the file was opened");
    let num_nodes = Scalars::new("num_nodes", required("num_nodes"))?;
    let Values::Int(num_nodes) = num_nodes.values else {
        return Err(Error::data("column `num_nodes` holds real numbers; it needs whole ones"));
    };
    let mut nodes = 0u128;
    for (row, &n) in num_nodes.iter().enumerate() {
        nodes += check_num_nodes(n).context(|| format!("row {}", first + row))? as u128;
    }
    options.limit.check(
        nodes * 16,
        &format!("rows {first} to {} with {nodes} nodes", first + num_nodes.len() - 1),
        "check `num_nodes`, or raise `--max-memory`",
    )?;
    let nested = |name: &'static str| column(name).map(|a| Nested::new(name, a)).transpose();
    let edge_index = Nested::new("edge_index", required("edge_index"))?;
    let node_feat = nested("node_feat")?;
    let edge_attr = nested("edge_attr")?;
    let pos = nested("pos")?;
    let y = column("y").map(|a| Scalars::new("y", a)).transpose()?;
    let sample = |row: usize| {
        Row {
            num_nodes: num_nodes[row],
            edge_index: edge_index.row(row),
            node_feat: node_feat.as_ref().map(|c| c.row(row)),
            edge_attr: edge_attr.as_ref().map(|c| c.row(row)),
            pos: pos.as_ref().map(|c| c.row(row)),
            y: y.as_ref().map(|c| c.row(row)),
        }
        .into_sample()
        .context(|| format!("row {}", first + row))
    };
    // Collected in order, so that the first bad row is the one reported.
    let samples: Vec<Result<Sample>> = (0..num_nodes.len()).into_par_iter().map(sample).collect();
    samples.into_iter().collect()
}

/// A column of numbers, or of lists of numbers.
struct Scalars {
    rows: Vec<usize>,
    values: Values,
}

/// A column of lists of lists of numbers.
struct Nested {
    rows: Vec<usize>,
    lists: Vec<usize>,
    values: Values,
}

impl Scalars {
    fn new(name: &str, array: &ArrayRef) -> Result<Scalars> {
        no_nulls(name, array)?;
        match list(array) {
            Some((rows, inner)) => Ok(Scalars { rows, values: numbers(name, &inner)? }),
            None => {
                Ok(Scalars { rows: (0..=array.len()).collect(), values: numbers(name, array)? })
            }
        }
    }

    fn row(&self, row: usize) -> Numbers<'_> {
        let range = self.rows[row]..self.rows[row + 1];
        match &self.values {
            Values::Int(v) => Numbers::Int(&v[range]),
            Values::Float(v) => Numbers::Float(&v[range]),
        }
    }
}

impl Nested {
    fn new(name: &str, array: &ArrayRef) -> Result<Nested> {
        let wrong = || {
            Error::data(format!(
                "column `{name}` is {}; it needs lists of lists of numbers",
                array.data_type()
            ))
        };
        no_nulls(name, array)?;
        let (rows, middle) = list(array).ok_or_else(wrong)?;
        no_nulls(name, &middle)?;
        let (lists, inner) = list(&middle).ok_or_else(wrong)?;
        Ok(Nested { rows, lists, values: numbers(name, &inner)? })
    }

    fn row(&self, row: usize) -> Lists<'_> {
        let values = match &self.values {
            Values::Int(v) => Numbers::Int(v),
            Values::Float(v) => Numbers::Float(v),
        };
        Lists { offsets: &self.lists[self.rows[row]..=self.rows[row + 1]], values }
    }
}

fn no_nulls(name: &str, array: &ArrayRef) -> Result<()> {
    match array.null_count() {
        0 => Ok(()),
        nulls => Err(Error::data(format!("column `{name}` has {nulls} missing value(s)"))),
    }
}

/// Offsets and content of a list column of any kind.
fn list(array: &ArrayRef) -> Option<(Vec<usize>, ArrayRef)> {
    fn of<O: OffsetSizeTrait>(array: &ArrayRef) -> (Vec<usize>, ArrayRef) {
        let list = array.as_list::<O>();
        (list.offsets().iter().map(|o| o.as_usize()).collect(), list.values().clone())
    }
    match array.data_type() {
        DataType::List(_) => Some(of::<i32>(array)),
        DataType::LargeList(_) => Some(of::<i64>(array)),
        DataType::FixedSizeList(_, size) => {
            let size = *size as usize;
            let offsets = (0..=array.len()).map(|i| i * size).collect();
            Some((offsets, array.as_fixed_size_list().values().clone()))
        }
        _ => None,
    }
}

fn numbers(name: &str, array: &ArrayRef) -> Result<Values> {
    no_nulls(name, array)?;
    macro_rules! ints {
        ($type:ty) => {
            Values::Int(array.as_primitive::<$type>().values().iter().map(|&x| x.into()).collect())
        };
    }
    Ok(match array.data_type() {
        DataType::Int64 => ints!(Int64Type),
        DataType::Int32 => ints!(Int32Type),
        DataType::Int16 => ints!(Int16Type),
        DataType::Int8 => ints!(Int8Type),
        DataType::UInt32 => ints!(UInt32Type),
        DataType::UInt16 => ints!(UInt16Type),
        DataType::UInt8 => ints!(UInt8Type),
        DataType::Float32 => Values::Float(array.as_primitive::<Float32Type>().values().to_vec()),
        DataType::Float64 => {
            let values = array.as_primitive::<Float64Type>().values();
            Values::Float(values.iter().map(|&x| x as f32).collect())
        }
        other => {
            return Err(Error::data(format!("column `{name}` holds {other}, not numbers")));
        }
    })
}
