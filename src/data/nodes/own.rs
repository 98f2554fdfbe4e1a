//! A node set of one's own: every part in a file of its own.
//!
//! | part | files |
//! |---|---|
//! | edges | anything that [`read`](crate::data::read) takes for one graph: an edge list, a Parquet table of edges, `.npy` |
//! | features | a row per node: `.npy`, `.parquet`, or text |
//! | targets | a row per node: one class (-1, `nan` or nothing if unknown), or several labels |
//! | splits | JSON, `{"train": [ids], "val": [ids], "test": [ids]}`, called by the name of the file |
//!
//! A node's id is the number of its row, from 0, in all of them. Edges that name nodes otherwise can't be matched with rows and are
//! refused; numbers with gaps are fine, since nodes without an edge have rows too.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::draft::{Draft, labels, matrix};
use super::{Features, NodeSet, Split, table};
use crate::data::numpy::Array;
use crate::data::{Edges, GraphSet, ReadOptions, Source, read};
use crate::error::Context as _;
use crate::{Error, MemoryLimit, Result};

/// Where the parts of a set lie.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Own {
    /// Edges.
    pub edges: PathBuf,
    /// Whether an edge means one direction, from its first node to its second.
    #[serde(default)]
    pub directed: bool,
    /// Features of nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<PathBuf>,
    /// Classes or labels of nodes.
    pub targets: PathBuf,
    /// Splits.
    #[serde(default)]
    pub splits: Vec<PathBuf>,
}

impl Own {
    /// The same with paths inside `folder`.
    pub fn inside(&self, folder: &Path) -> Own {
        Own {
            edges: folder.join(&self.edges),
            directed: self.directed,
            features: self.features.as_ref().map(|path| folder.join(path)),
            targets: folder.join(&self.targets),
            splits: self.splits.iter().map(|path| folder.join(path)).collect(),
        }
    }
}

/// Loads a set that is not in the list.
///
/// # Errors
/// If a file is missing or broken, or they do not refer to the same nodes.
pub fn load(own: &Own, limit: MemoryLimit) -> Result<NodeSet> {
    let mut hasher = blake3::Hasher::new();
    let (targets, hash) = numbers(&own.targets, limit)?;
    hasher.update(hash.as_bytes());
    let nodes = targets.shape.first().copied().unwrap_or(0);
    let features = match &own.features {
        None => Features::None,
        Some(path) => {
            let (array, hash) = numbers(path, limit)?;
            hasher.update(hash.as_bytes());
            Features::Dense(matrix(array).context(|| path.display().to_string())?)
        }
    };
    let name = own.edges.to_string_lossy();
    let set = read(&name, &ReadOptions { limit, ..ReadOptions::default() })?;
    hasher.update(set.hash.as_bytes());
    let (y, width) = labels(targets);
    let draft = Draft {
        nodes,
        edges: edges(set).context(|| name.to_string())?,
        directed: own.directed,
        edge_attr: None,
        features,
        y,
        labels: width,
        years: None,
        species: None,
        splits: Vec::new(),
        hash: String::new(),
    };
    let mut set = draft.finish(limit)?;
    for path in &own.splits {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let text = std::fs::read_to_string(path).map_err(|e| Error::io("cannot read", path, e))?;
        let split = Split::from_json(&name, &text, nodes)?;
        if set.splits.iter().any(|other| other.name == split.name) {
            return Err(Error::config(format!("two splits are called `{}`", split.name)));
        }
        hasher.update(split.blake3.as_bytes());
        set.splits.push(split);
    }
    // Who trains on what is part of the data.
    set.hash = hasher.finalize().to_hex().to_string();
    Ok(set)
}

/// The arcs in terms of rows: where reading gave nodes new numbers, back to the ones they had.
fn edges(set: GraphSet) -> Result<Edges> {
    let GraphSet { mut samples, ids, .. } = set;
    let (Some(sample), true) = (samples.pop(), samples.is_empty()) else {
        return Err(Error::data("several graphs; a node set has one"));
    };
    if sample.graph.is_weighted() {
        return Err(Error::data("edges with weights, which node sets have not; leave them out"));
    }
    let mut edges = sample.edges;
    if let Some(ids) = ids {
        let row = |id: &String| {
            id.parse::<u32>().map_err(|_| {
                Error::data(format!("node `{id}`; edges need the numbers of rows, from 0"))
            })
        };
        let rows: Vec<u32> = ids.iter().map(row).collect::<Result<_>>()?;
        let ends = edges.sources.iter_mut().chain(&mut edges.targets);
        ends.for_each(|end| *end = rows[*end as usize]);
    }
    Ok(edges)
}

/// Numbers in a file of any kind, and its blake3.
fn numbers(path: &Path, limit: MemoryLimit) -> Result<(Array, String)> {
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    if ending != "npy" && ending != "parquet" {
        return table::read(path, limit);
    }
    let source = Source::load(&path.to_string_lossy(), limit)?;
    let array = match ending.as_str() {
        "npy" => Array::read(source.bytes(), source.bytes().len() as u64, limit),
        _ => parquet(&source, limit),
    };
    Ok((array.context(|| path.display().to_string())?, source.hash().to_string()))
}

#[cfg(feature = "parquet")]
fn parquet(source: &Source, limit: MemoryLimit) -> Result<Array> {
    crate::data::parquet::read_numbers(source, limit)
}

#[cfg(not(feature = "parquet"))]
fn parquet(_: &Source, _: MemoryLimit) -> Result<Array> {
    Err(Error::config("this program was built without Parquet; build it with `--features parquet`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn ids_are_rows_in_all_files() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| write(folder.path(), name, text);
        let own = Own {
            // Nodes 0, 1 and 4 have no edge.
            edges: write("edges.txt", "5 2\n2 3\n"),
            directed: true,
            features: Some(write("x.csv", "0,0\n1,1\n2,2\n3,3\n4,4\n5,5\n")),
            targets: write("y.txt", "0\n1\n0\n1\n-1\n2\n"),
            splits: vec![write("mine.json", r#"{"train": [5, 2], "val": [3], "test": [0, 1]}"#)],
        };
        let set = load(&own, MemoryLimit::NONE).unwrap();
        assert_eq!((&set.edges.sources[..], &set.edges.targets[..]), (&[5, 2][..], &[2, 3][..]));
        assert_eq!(set.graph.neighbors(2), [3, 5]);
        assert_eq!((set.num_nodes(), set.histogram()), (6, vec![2, 2, 1]));
        assert_eq!(set.splits[0].name, "mine");
        assert_eq!(set.splits[0].train, [2, 5]);
        let Features::Dense(features) = &set.features else { panic!() };
        assert_eq!(features.values.to_floats()[10..], [5.0, 5.0]);

        let explain = |own: &Own| format!("{:#}", load(own, MemoryLimit::NONE).unwrap_err());
        let words = Own { edges: write("words.txt", "a b\nb c\n"), ..own.clone() };
        assert!(explain(&words).contains("node `a`; edges need the numbers of rows"));
        let weights = Own { edges: write("weights.txt", "0 1 0.5\n"), ..own.clone() };
        assert!(explain(&weights).contains("edges with weights"));
        let far = Own { edges: write("far.txt", "0 6\n"), ..own.clone() };
        assert!(explain(&far).contains("arc 0 (0 → 6) is out of range for 6 nodes"));
        let short = Own { features: Some(write("s.csv", "1\n2\n")), ..own.clone() };
        assert!(explain(&short).contains("2 rows of features of nodes for 6"));
        let twice = Own { splits: [own.splits.clone(), own.splits.clone()].concat(), ..own };
        assert!(explain(&twice).contains("two splits are called `mine`"));
    }

    #[cfg(feature = "parquet")]
    #[test]
    fn tables_and_arrays_will_do() {
        use std::sync::Arc;

        use arrow_array::{ArrayRef, Float32Array, UInt32Array};

        use crate::data::AtomicFile;
        use crate::data::parquet::write_table;

        let folder = tempfile::tempdir().unwrap();
        let table = |name: &str, columns: Vec<(&str, ArrayRef)>| {
            let path = folder.path().join(name);
            write_table(columns, AtomicFile::create(&path, false).unwrap()).unwrap();
            path
        };
        let ids = |ids: &[u32]| Arc::new(UInt32Array::from(ids.to_vec())) as ArrayRef;
        let reals = |reals: &[f32]| Arc::new(Float32Array::from(reals.to_vec())) as ArrayRef;
        let mut targets = b"\x93NUMPY\x01\x00\x46\x00".to_vec();
        targets.extend(
            format!("{:<69}\n", "{'descr': '|i1', 'fortran_order': False, 'shape': (4,), }")
                .bytes(),
        );
        targets.extend([1, 0, 0xff, 1]);
        let path = folder.path().join("y.npy");
        std::fs::write(&path, targets).unwrap();
        let own = Own {
            // Node 1 has no edge.
            edges: table("e.parquet", vec![("source", ids(&[3, 2])), ("target", ids(&[2, 0]))]),
            features: Some(table(
                "x.parquet",
                vec![("a", reals(&[0.0, 1.0, 2.0, 3.0])), ("b", reals(&[0.5; 4]))],
            )),
            targets: path,
            ..Own::default()
        };
        let set = load(&own, MemoryLimit::NONE).unwrap();
        assert_eq!(set.graph.edges().collect::<Vec<_>>(), [(0, 2, 1.0), (2, 3, 1.0)]);
        assert_eq!(set.classes(), Some(&[1, 0, -1, 1][..]));
        let Features::Dense(features) = &set.features else { panic!() };
        assert_eq!(features.values.to_floats()[4..], [2.0, 0.5, 3.0, 0.5]);
    }
}
