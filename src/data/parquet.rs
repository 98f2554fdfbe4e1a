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
//! A table without these columns but with `source` and `target` (or `src`/`dst`, `from`/`to`, `u`/`v`) is
//! one graph, a row per edge, with an optional `weight`; ids may be numbers or text.
//!
//! Lists are matched by position, so the names of inner fields do not matter. Row groups are
//! decoded in parallel, and only the columns that are wanted.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, Float32Array, OffsetSizeTrait, RecordBatch, StringArray, UInt32Array,
};
use arrow_schema::{DataType, Schema};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use rayon::prelude::*;

use super::numpy::Array as Numeric;
use super::sample::{Lists, NodeBudget, Numbers, Row, check_num_nodes};
use super::single::{label_numbers, label_words};
use super::{AtomicFile, GraphOut, GraphSet, ReadOptions, Sample, Source, Values};
use crate::error::{Context as _, catch};
use crate::graph::check_weight;
use crate::{Error, Hierarchy, MemoryLimit, Result};

pub(super) fn read(source: &Source, options: &ReadOptions) -> Result<GraphSet> {
    let bytes = Bytes::from_owner(SharedBytes(source.shared()));
    let metadata = guarded(|| ArrowReaderMetadata::load(&bytes, Default::default()))?;
    let wanted: &[&str] = match options.features {
        true => &["num_nodes", "edge_index", "node_feat", "edge_attr", "pos", "y"],
        false => &["num_nodes", "edge_index"],
    };
    let schema = metadata.schema();
    if schema.column_with_name("num_nodes").is_none()
        && let Some(columns) = EdgeColumns::find(schema)
    {
        return read_edges(source, &bytes, metadata.clone(), &columns, options);
    }
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
    let all_nodes = NodeBudget::default();
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
            let made = samples_of(&batch, row, &all_nodes, options)?;
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

struct SharedBytes(Arc<Vec<u8>>);

impl AsRef<[u8]> for SharedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The columns of a table of edges.
struct EdgeColumns {
    source: usize,
    target: usize,
    weight: Option<usize>,
}

impl EdgeColumns {
    fn find(schema: &Schema) -> Option<EdgeColumns> {
        let column =
            |name: &str| schema.fields().iter().position(|f| f.name().eq_ignore_ascii_case(name));
        let names = [("source", "target"), ("src", "dst"), ("from", "to"), ("u", "v")];
        let (source, target) = names.iter().find_map(|(u, v)| Some((column(u)?, column(v)?)))?;
        Some(EdgeColumns { source, target, weight: column("weight") })
    }
}

/// One graph from a table with a row per edge: `source`, `target` and, if it is there, `weight`.
fn read_edges(
    source: &Source,
    bytes: &Bytes,
    metadata: ArrowReaderMetadata,
    columns: &EdgeColumns,
    options: &ReadOptions,
) -> Result<GraphSet> {
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(bytes.clone(), metadata);
    let mut reader = guarded(|| builder.with_batch_size(1 << 16).build())?;
    let (mut numbers, mut words, mut weights) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(batch) = guarded(|| reader.next().transpose())? {
        let (from, to) = (batch.column(columns.source), batch.column(columns.target));
        match (words_of("source", from)?, words_of("target", to)?) {
            (Some(from), Some(to)) => {
                words.extend(from.into_iter().zip(to).flat_map(|(u, v)| [u, v]));
            }
            _ => {
                let ids = |name, array| match numbers_of(name, array)? {
                    Values::Int(ids) => Ok(ids),
                    Values::Float(_) => Err(Error::data(format!("column `{name}` is not whole"))),
                };
                let id = |id: i64| {
                    u64::try_from(id).map_err(|_| Error::data(format!("node id {id} is negative")))
                };
                for (u, v) in ids("source", from)?.into_iter().zip(ids("target", to)?) {
                    numbers.push(id(u)?);
                    numbers.push(id(v)?);
                }
            }
        }
        if let Some(column) = columns.weight {
            match numbers_of("weight", batch.column(column))? {
                Values::Int(values) => weights.extend(values.into_iter().map(|w| w as f32)),
                Values::Float(values) => weights.extend(values),
            }
        }
    }
    for (row, &weight) in weights.iter().enumerate() {
        check_weight(weight).context(|| format!("row {row}"))?;
    }
    let labels = match words.is_empty() {
        true => label_numbers(numbers),
        false => label_words(words.iter().map(String::as_str)),
    };
    let weights = columns.weight.is_some().then_some(weights);
    labels.into_single(weights).into_set(source, options)
}

/// A table of numbers, a row per node: columns of numbers or of lists of equal length, side by side.
pub(super) fn read_numbers(source: &Source, limit: MemoryLimit) -> Result<Numeric> {
    let bytes = Bytes::from_owner(SharedBytes(source.shared()));
    let builder = guarded(|| ParquetRecordBatchReaderBuilder::try_new(bytes.clone()))?;
    let mut reader = guarded(|| builder.with_batch_size(1 << 12).build())?;
    let (mut width, mut rows) = (0, 0);
    let mut parts = Vec::new();
    while let Some(batch) = guarded(|| reader.next().transpose())? {
        let schema = batch.schema();
        let columns: Vec<Scalars> = (schema.fields().iter().zip(batch.columns()))
            .map(|(field, array)| Scalars::new(field.name(), array))
            .collect::<Result<_>>()?;
        let mut ints = Some(Vec::new());
        let mut floats = Vec::new();
        for row in 0..batch.num_rows() {
            let before = floats.len();
            for column in &columns {
                match column.row(row) {
                    Numbers::Int(values) => {
                        floats.extend(values.iter().map(|&x| x as f32));
                        ints.iter_mut().for_each(|ints| ints.extend(values));
                    }
                    Numbers::Float(values) => {
                        floats.extend(values);
                        ints = None;
                    }
                }
            }
            let found = floats.len() - before;
            if rows + row == 0 {
                width = found;
            } else if found != width {
                return Err(Error::data(format!(
                    "row {}: {found} numbers, but the first has {width}",
                    rows + row
                )));
            }
        }
        rows += batch.num_rows();
        limit.check(rows as u128 * width as u128 * 12, "the table", "raise `--max-memory`")?;
        parts.push(ints.map_or(Values::Float(floats), Values::Int));
    }
    let ints = |part: &Values| match part {
        Values::Int(values) => Some(values.clone()),
        Values::Float(_) => None,
    };
    let values = match parts.iter().map(ints).collect::<Option<Vec<_>>>() {
        Some(ints) => Values::Int(ints.concat()),
        None => Values::Float(parts.iter().flat_map(Values::to_floats).collect()),
    };
    Ok(Numeric { shape: vec![rows, width], values })
}

/// The graph as a table of edges: `source`, `target` and, where there are any, `weight`. Isolated nodes
/// do not appear.
pub(super) fn write_graph(out: &GraphOut<'_>, file: AtomicFile) -> Result<()> {
    let edges: Vec<(u32, u32, f32)> = out.graph.edges().collect();
    let name = |pick: fn(&(u32, u32, f32)) -> u32| -> ArrayRef {
        match out.ids {
            Some(ids) => Arc::new(StringArray::from_iter_values(
                edges.iter().map(|edge| &ids[pick(edge) as usize]),
            )),
            None => Arc::new(UInt32Array::from_iter_values(edges.iter().map(pick))),
        }
    };
    let mut columns = vec![("source", name(|e| e.0)), ("target", name(|e| e.1))];
    if out.graph.is_weighted() {
        columns
            .push(("weight", Arc::new(Float32Array::from_iter_values(edges.iter().map(|e| e.2)))));
    }
    write_table(columns, file)
}

/// Clusters of every node as a table: `graph`, `node`, `level_1`, …, a row per node.
pub fn write_clusters_parquet(hierarchies: &[Hierarchy], file: AtomicFile) -> Result<()> {
    let levels = hierarchies.iter().map(Hierarchy::levels).max().unwrap_or(0);
    let column = |values: Vec<u32>| -> ArrayRef { Arc::new(UInt32Array::from(values)) };
    let graphs = || hierarchies.iter().enumerate();
    let mut columns = vec![
        (
            "graph".to_string(),
            column(graphs().flat_map(|(g, h)| vec![g as u32; h.num_nodes()]).collect()),
        ),
        ("node".into(), column(graphs().flat_map(|(_, h)| 0..h.num_nodes() as u32).collect())),
    ];
    for level in 1..=levels {
        let clusters = graphs().flat_map(|(_, h)| h.ancestors(level).into_owned()).collect();
        columns.push((format!("level_{level}"), column(clusters)));
    }
    write_table(columns, file)
}

/// Writes columns of equal length under their names.
pub(crate) fn write_table<S: AsRef<str>>(
    columns: Vec<(S, ArrayRef)>,
    file: AtomicFile,
) -> Result<()> {
    let path = file.path().to_path_buf();
    let problem = |e: &dyn std::fmt::Display| Error::io("cannot write", &path, e);
    let batch = RecordBatch::try_from_iter(columns).map_err(|e| problem(&e))?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .build();
    let mut writer =
        ArrowWriter::try_new(file, batch.schema(), Some(properties)).map_err(|e| problem(&e))?;
    writer.write(&batch).map_err(|e| problem(&e))?;
    writer.into_inner().map_err(|e| problem(&e))?.commit()
}

/// The Parquet library returns errors for most broken files and panics on a few.
pub(super) fn guarded<T, E: std::fmt::Display>(work: impl FnOnce() -> Result<T, E>) -> Result<T> {
    match catch(work) {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => {
            Err(Error::data(format!("not a readable Parquet file: {error}; get the file again")))
        }
        None => Err(Error::data(
            "not a readable Parquet file: its structure is broken; get the file again",
        )),
    }
}

fn samples_of(
    batch: &RecordBatch,
    first: usize,
    all_nodes: &NodeBudget,
    options: &ReadOptions,
) -> Result<Vec<Sample>> {
    let column = |name: &str| batch.column_by_name(name);
    let required = |name: &str| column(name).expect("checked when the file was opened");
    let num_nodes = Scalars::new("num_nodes", required("num_nodes"))?;
    let Values::Int(num_nodes) = num_nodes.values else {
        return Err(Error::data("column `num_nodes` holds real numbers; it needs whole ones"));
    };
    for (row, &n) in num_nodes.iter().enumerate() {
        check_num_nodes(n)
            .and_then(|n| all_nodes.take(n, options.limit))
            .context(|| format!("row {}", first + row))?;
    }
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
            // Missing labels: some writers put nulls where others put NaN.
            Some((rows, inner)) if name == "y" && inner.null_count() > 0 => {
                let mut values = plain_numbers(name, &inner)?.to_floats();
                let missing = values.iter_mut().enumerate().filter(|(i, _)| inner.is_null(*i));
                missing.for_each(|(_, value)| *value = f32::NAN);
                Ok(Scalars { rows, values: Values::Float(values) })
            }
            Some((rows, inner)) => Ok(Scalars { rows, values: numbers_of(name, &inner)? }),
            None => {
                Ok(Scalars { rows: (0..=array.len()).collect(), values: numbers_of(name, array)? })
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
        let (lists, inner) = match list(&middle) {
            Some(inner) => inner,
            // Some collections write rows of one number as the number itself.
            None if name != "edge_index" => ((0..=middle.len()).collect(), middle),
            None => return Err(wrong()),
        };
        Ok(Nested { rows, lists, values: numbers_of(name, &inner)? })
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
        nulls => Err(Error::data(format!(
            "column `{name}` has {nulls} missing value(s); leave such rows out"
        ))),
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

/// The texts of a column of any kind of text, or nothing if it is not one.
fn words_of(name: &str, array: &ArrayRef) -> Result<Option<Vec<String>>> {
    fn all<'a>(words: impl Iterator<Item = Option<&'a str>>) -> Vec<String> {
        words.flatten().map(str::to_string).collect()
    }
    no_nulls(name, array)?;
    Ok(match array.data_type() {
        DataType::Utf8 => Some(all(array.as_string::<i32>().iter())),
        DataType::LargeUtf8 => Some(all(array.as_string::<i64>().iter())),
        DataType::Utf8View => Some(all(array.as_string_view().iter())),
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary();
            let values = words_of(name, dictionary.values())?;
            values.map(|values| {
                dictionary.normalized_keys().into_iter().map(|key| values[key].clone()).collect()
            })
        }
        _ => None,
    })
}

fn numbers_of(name: &str, array: &ArrayRef) -> Result<Values> {
    no_nulls(name, array)?;
    plain_numbers(name, array)
}

/// The numbers of a column; any for missing ones.
fn plain_numbers(name: &str, array: &ArrayRef) -> Result<Values> {
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
        DataType::UInt64 => {
            let values = array.as_primitive::<UInt64Type>().values();
            let value = |&x: &u64| {
                i64::try_from(x).map_err(|_| Error::data(format!("column `{name}` holds {x}")))
            };
            Values::Int(values.iter().map(value).collect::<Result<_>>()?)
        }
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

#[cfg(test)]
mod tests {
    use arrow_array::types::Int64Type;
    use arrow_array::{FixedSizeListArray, Int64Array};

    use super::*;

    fn numbers(columns: Vec<(&str, ArrayRef)>) -> Result<Numeric> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        write_table(columns, AtomicFile::create(&path, false).unwrap()).unwrap();
        let source = Source::load(&path.to_string_lossy(), MemoryLimit::NONE).unwrap();
        read_numbers(&source, MemoryLimit::NONE)
    }

    #[test]
    fn columns_and_lists_stand_side_by_side() {
        let whole: ArrayRef = Arc::new(Int64Array::from(vec![7, 8]));
        let pairs = [Some([Some(1), Some(2)]), Some([Some(3), Some(4)])];
        let pairs: ArrayRef =
            Arc::new(FixedSizeListArray::from_iter_primitive::<Int64Type, _, _>(pairs, 2));
        let array = numbers(vec![("a", whole.clone()), ("b", pairs.clone())]).unwrap();
        assert_eq!(array.shape, [2, 3]);
        assert_eq!(array.values, Values::Int(vec![7, 1, 2, 8, 3, 4]));
        let real: ArrayRef = Arc::new(Float32Array::from(vec![0.5, 1.5]));
        let array = numbers(vec![("b", pairs), ("c", real)]).unwrap();
        assert_eq!(array.values, Values::Float(vec![1.0, 2.0, 0.5, 3.0, 4.0, 1.5]));
        let words: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
        assert!(numbers(vec![("w", words)]).is_err());
    }
}
