//! numpy files: `.npy` with pairs of node ids; `.npz` with `edges` or `edge_index`, or a sparse matrix as
//! `scipy.sparse.save_npz` writes it.
//!
//! | arrays | meaning |
//! |---|---|
//! | `edges` [m, 2] or `edge_index` [2, m] | arcs |
//! | `weights` [m], `num_nodes`, `node_features` [n, f], `node_labels` [n] | optional |
//! | `format`, `shape`, `data`, `indices`, `indptr` (csr, csc) or `row`, `col` (coo) | scipy |
//!
//! No pickled object is ever loaded.

use std::io::{Cursor, Read, Seek};

use npyz::{NpyFile, Order};
use zip::ZipArchive;

use super::single::{Single, check_size};
use super::{GraphSet, Matrix, ReadOptions, Source, Values};
use crate::graph::{MAX_NODES, check_weight};
use crate::{Error, MemoryLimit, Result};

pub(super) fn read_npy(source: &Source, options: &ReadOptions) -> Result<GraphSet> {
    let array = Array::read(source.bytes(), source.bytes().len() as u64, options.limit)?;
    let single = Single { arcs: array.pairs("the array")?, ..Single::default() };
    with_nodes(single, None, options)?.into_set(source, options)
}

pub(super) fn read_npz(source: &Source, options: &ReadOptions) -> Result<GraphSet> {
    let mut file = File::open(Cursor::new(source.bytes()), options.limit)?;
    let single = if file.has("indptr") || file.has("row") {
        scipy(&mut file, options)?
    } else {
        let (name, transposed) = match (file.has("edges"), file.has("edge_index")) {
            (true, _) => ("edges", false),
            (_, true) => ("edge_index", true),
            _ => {
                return Err(Error::data(format!(
                    "no array `edges` or `edge_index`, and no scipy matrix; it has: {}",
                    file.names().join(", ")
                )));
            }
        };
        let edges = file.array(name)?;
        // Either layout is understood by shape; the name decides when both would do.
        let arcs = match edges.shape[..] {
            [2, 2] if transposed => edges.by_rows().pairs(name)?,
            _ => edges.pairs(name)?,
        };
        let count = match file.has("num_nodes") {
            true => file.array("num_nodes")?.ints("num_nodes")?.first().copied(),
            false => None,
        };
        let mut single = Single { arcs, ..Single::default() };
        if file.has("weights") {
            single.weights = Some(weights(&file.array("weights")?, single.arcs.len())?);
        }
        let mut rows = None;
        // Read even when features are not wanted: they tell the number of nodes.
        if file.has("node_features") && (options.features || !file.has("node_labels")) {
            let array = file.array("node_features")?;
            let [height, width] = array.shape[..] else {
                return Err(Error::data("`node_features` needs two axes"));
            };
            rows = Some(height);
            single.node_feat = Some(Matrix { width, values: array.values });
        }
        if file.has("node_labels") {
            let labels = file.array("node_labels")?;
            rows = rows.or(labels.shape.first().copied());
            single.y = Some(labels.values);
        }
        with_nodes(single, count.or(rows.map(|r| r as i64)), options)?
    };
    single.into_set(source, options)
}

/// Sets the number of nodes: as stated, else one more than the largest id.
fn with_nodes(mut single: Single, stated: Option<i64>, options: &ReadOptions) -> Result<Single> {
    let least = single.arcs.iter().map(|&(u, v)| u.max(v) as usize + 1).max().unwrap_or(0);
    single.num_nodes = match stated {
        None => least,
        Some(n) if n >= least as i64 && n <= MAX_NODES as i64 => n as usize,
        Some(n) => {
            return Err(Error::data(format!(
                "{n} nodes are stated, but node {} occurs",
                least as i64 - 1
            )));
        }
    };
    check_size(single.num_nodes, single.arcs.len(), options)?;
    let rows = |values: &Values, width: usize| values.len() == single.num_nodes * width;
    let fits = single.node_feat.as_ref().is_none_or(|m| rows(&m.values, m.width))
        && single.y.as_ref().is_none_or(|y| rows(y, 1));
    if !fits {
        return Err(Error::data(format!(
            "`node_features` or `node_labels` do not have a row for each of {} nodes",
            single.num_nodes
        )));
    }
    Ok(single)
}

fn weights(array: &Array, arcs: usize) -> Result<Vec<f32>> {
    let weights = array.floats();
    if weights.len() != arcs {
        return Err(Error::data(format!("{} weights for {arcs} edges", weights.len())));
    }
    for (i, &weight) in weights.iter().enumerate() {
        check_weight(weight).map_err(|e| e.context(format!("edge {i}")))?;
    }
    Ok(weights)
}

/// A matrix as `scipy.sparse.save_npz` writes it.
fn scipy<R: Read + Seek>(file: &mut File<R>, options: &ReadOptions) -> Result<Single> {
    let shape = file.array("shape")?.ints("shape")?;
    let [rows, columns] = shape[..] else { return Err(Error::data("`shape` needs two numbers")) };
    if rows != columns || rows < 1 || rows > MAX_NODES as i64 {
        return Err(Error::data(format!("a {rows} × {columns} matrix; a graph's is square")));
    }
    let id = |id: i64| match u32::try_from(id) {
        Ok(id) if i64::from(id) < rows => Ok(id),
        _ => Err(Error::data(format!("index {id} in a {rows} × {rows} matrix"))),
    };
    let data = file.array("data")?;
    check_size(rows as usize, data.values.len(), options)?;
    let arcs: Vec<(u32, u32)> = if file.has("indptr") {
        let offsets = file.array("indptr")?.ints("indptr")?;
        let indices = file.array("indices")?.ints("indices")?;
        let fits = offsets.len() == rows as usize + 1
            && offsets.first() == Some(&0)
            && offsets.last() == Some(&(indices.len() as i64))
            && offsets.is_sorted();
        if !fits {
            return Err(Error::data("`indptr` does not fit `indices` and `shape`"));
        }
        let row = |u: usize| {
            let columns = &indices[offsets[u] as usize..offsets[u + 1] as usize];
            columns.iter().map(move |&v| Ok((u as u32, id(v)?)))
        };
        (0..rows as usize).flat_map(row).collect::<Result<_>>()?
    } else {
        let (from, to) = (file.array("row")?.ints("row")?, file.array("col")?.ints("col")?);
        if from.len() != to.len() {
            return Err(Error::data("`row` and `col` differ in length"));
        }
        from.iter().zip(&to).map(|(&u, &v)| Ok((id(u)?, id(v)?))).collect::<Result<_>>()?
    };
    let weights = weights(&data, arcs.len())?;
    // A matrix of ones is a plain graph.
    let weights = weights.iter().any(|&w| w != 1.0).then_some(weights);
    Ok(Single { num_nodes: rows as usize, arcs, weights, is_matrix: true, ..Single::default() })
}

/// The arrays of an npz file.
pub(super) struct File<R> {
    zip: ZipArchive<R>,
    limit: MemoryLimit,
}

impl<R: Read + Seek> File<R> {
    pub(super) fn open(reader: R, limit: MemoryLimit) -> Result<File<R>> {
        let zip = ZipArchive::new(reader).map_err(broken)?;
        Ok(File { zip, limit })
    }

    pub(super) fn names(&self) -> Vec<String> {
        let names = self.zip.file_names().flatten();
        names.map(|name| name.trim_end_matches(".npy").to_string()).collect()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.names().iter().any(|n| n == name)
    }

    pub(super) fn array(&mut self, name: &str) -> Result<Array> {
        let entry = self
            .zip
            .by_name(&format!("{name}.npy"))
            .map_err(|_| Error::data(format!("no array `{name}`")))?;
        let size = entry.size();
        Array::read(entry, size, self.limit).map_err(|e| e.context(format!("array `{name}`")))
    }
}

fn broken(why: impl std::fmt::Display) -> Error {
    Error::data(format!("not a readable numpy file: {why}"))
}

/// Numbers of any type with their shape, row-major.
pub(super) struct Array {
    pub(super) shape: Vec<usize>,
    pub(super) values: Values,
}

impl Array {
    /// Reads an npy file of at most `size` bytes.
    pub(super) fn read(reader: impl Read, size: u64, limit: MemoryLimit) -> Result<Array> {
        let file = NpyFile::new(reader.take(size)).map_err(broken)?;
        let by_columns = file.order() != Order::C && file.shape().len() > 1;
        if by_columns && file.shape().len() != 2 {
            return Err(Error::data("more than two axes, stored in Fortran order"));
        }
        let mut count = 1u64;
        for &axis in file.shape() {
            count = count.checked_mul(axis).ok_or_else(|| broken("its shape overflows"))?;
        }
        // Every number takes at least a byte in the file, so a lying header is caught here.
        if count > size {
            return Err(broken("its shape is larger than the file"));
        }
        limit.check(u128::from(count) * 8, "the array", "raise `--max-memory`")?;
        let shape: Vec<usize> = file.shape().iter().map(|&axis| axis as usize).collect();
        let kind = file.dtype().descr();
        let kind = kind.trim_matches(|c| "'<>|=".contains(c)).to_string();
        macro_rules! load {
            ($type:ty, $convert:expr) => {{
                let data = file.data::<$type>().map_err(broken)?;
                data.map(|x| x.map($convert)).collect::<Result<Vec<_>, _>>().map_err(broken)?
            }};
        }
        let values = match kind.as_str() {
            "i8" => Values::Int(load!(i64, |x| x)),
            "i4" => Values::Int(load!(i32, i64::from)),
            "i2" => Values::Int(load!(i16, i64::from)),
            "i1" => Values::Int(load!(i8, i64::from)),
            "u8" => Values::Int(load!(u64, |x| i64::try_from(x).unwrap_or(i64::MAX))),
            "u4" => Values::Int(load!(u32, i64::from)),
            "u2" => Values::Int(load!(u16, i64::from)),
            "u1" => Values::Int(load!(u8, i64::from)),
            "b1" => Values::Int(load!(bool, i64::from)),
            "f4" => Values::Float(load!(f32, |x| x)),
            "f8" => Values::Float(load!(f64, |x| x as f32)),
            other => return Err(Error::data(format!("type `{other}` is not a kind of number"))),
        };
        let array = Array { shape, values };
        Ok(if by_columns { array.by_rows() } else { array })
    }

    /// An array of two axes that was read column by column.
    pub(super) fn by_rows(self) -> Array {
        fn reorder<T: Copy>(values: &[T], rows: usize, columns: usize) -> Vec<T> {
            let cells = (0..rows).flat_map(|i| (0..columns).map(move |j| j * rows + i));
            cells.map(|cell| values[cell]).collect()
        }
        let (rows, columns) = (self.shape[0], self.shape[1]);
        let values = match &self.values {
            Values::Int(v) => Values::Int(reorder(v, rows, columns)),
            Values::Float(v) => Values::Float(reorder(v, rows, columns)),
        };
        Array { shape: self.shape, values }
    }

    pub(super) fn ints(&self, name: &str) -> Result<Vec<i64>> {
        match &self.values {
            Values::Int(values) => Ok(values.clone()),
            Values::Float(_) => {
                Err(Error::data(format!("`{name}` holds real numbers; it needs whole ones")))
            }
        }
    }

    fn floats(&self) -> Vec<f32> {
        match &self.values {
            Values::Int(values) => values.iter().map(|&x| x as f32).collect(),
            Values::Float(values) => values.clone(),
        }
    }

    /// Pairs from shape [m, 2], or [2, m] with m other than 2.
    pub(super) fn pairs(&self, name: &str) -> Result<Vec<(u32, u32)>> {
        let values = self.ints(name)?;
        let id = |id: i64| match u32::try_from(id) {
            Ok(id) if (id as usize) < MAX_NODES => Ok(id),
            _ => Err(Error::data(format!("`{name}` holds {id}, which is no node id"))),
        };
        match self.shape[..] {
            [_, 2] => {
                let pairs = values.as_chunks::<2>().0;
                pairs.iter().map(|&[u, v]| Ok((id(u)?, id(v)?))).collect()
            }
            [2, count] => {
                let (sources, targets) = values.split_at(count);
                sources.iter().zip(targets).map(|(&u, &v)| Ok((id(u)?, id(v)?))).collect()
            }
            _ => Err(Error::data(format!(
                "`{name}` has shape {:?}; it needs [m, 2] or [2, m]",
                self.shape
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let mut header =
            format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
        header.push_str(&" ".repeat(64 - (10 + header.len() + 1) % 64));
        header.push('\n');
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    fn ints(values: &[i64]) -> Vec<u8> {
        npy("<i8", &format!("({},)", values.len()), bytemuck::cast_slice(values))
    }

    fn npz(arrays: &[(&str, Vec<u8>)]) -> Result<GraphSet> {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes) in arrays {
            let options = zip::write::SimpleFileOptions::default()
                .compression_method(zip::CompressionMethod::Deflated);
            zip.start_file(format!("{name}.npy"), options).unwrap();
            zip.write_all(bytes).unwrap();
        }
        let bytes = zip.finish().unwrap().into_inner();
        read_npz(&Source::test("t.npz", &bytes), &ReadOptions::default())
    }

    fn scipy(indices: &[i64], indptr: &[i64], data: &[f64]) -> Result<GraphSet> {
        npz(&[
            ("shape", ints(&[3, 3])),
            ("indices", ints(indices)),
            ("indptr", ints(indptr)),
            ("data", npy("<f8", &format!("({},)", data.len()), bytemuck::cast_slice(data))),
            ("format", npy("|S3", "()", b"csr")),
        ])
    }

    fn edges(set: GraphSet) -> Vec<(u32, u32, f32)> {
        set.samples[0].graph.edges().collect()
    }

    #[test]
    fn scipy_matrices_are_graphs() {
        let plain = scipy(&[1, 0, 2, 1], &[0, 1, 3, 4], &[1.0; 4]).unwrap();
        assert!(!plain.samples[0].graph.is_weighted());
        assert_eq!(edges(plain), [(0, 1, 1.0), (1, 2, 1.0)]);
        let weighted = scipy(&[1, 0, 2], &[0, 1, 3, 3], &[2.0, 2.0, 5.0]).unwrap();
        assert_eq!(edges(weighted), [(0, 1, 2.0), (1, 2, 5.0)]);
        for (indices, indptr) in [
            (&[1i64, 0, 3, 1][..], &[0i64, 1, 3, 4][..]),
            (&[1, 0, 2, 1], &[0, 1, 3, 5]),
            (&[1, 0, 2, 1], &[0, 3, 1, 4]),
            (&[1, 0, -2, 1], &[0, 1, 3, 4]),
            (&[1, 0, 2, 1], &[0, 1, 4]),
        ] {
            assert!(scipy(indices, indptr, &[1.0; 4]).is_err(), "{indices:?} {indptr:?}");
        }
    }

    #[test]
    fn edges_with_nodes_features_and_labels() {
        let pairs = npy("<i4", "(2, 2)", bytemuck::cast_slice(&[0i32, 1, 1, 2]));
        let set = npz(&[("edges", pairs.clone()), ("node_labels", ints(&[7, 8, 9, 9]))]).unwrap();
        assert_eq!(set.samples[0].graph.num_nodes(), 4);
        assert_eq!(edges(set), [(0, 1, 1.0), (1, 2, 1.0)]);
        // By columns, the same numbers are the arcs 0 → 1 and 1 → 2.
        let set = npz(&[("edge_index", pairs.clone())]).unwrap();
        assert_eq!(set.samples[0].edges.sources, [0, 1]);
        let empty = npy("<f4", "(4, 0)", &[]);
        let set = npz(&[("edges", pairs.clone()), ("node_features", empty)]).unwrap();
        assert_eq!(set.samples[0].graph.num_nodes(), 4);
        assert!(npz(&[("edges", pairs), ("num_nodes", ints(&[2]))]).is_err());
        assert!(npz(&[("other", ints(&[2]))]).is_err());
    }
}
