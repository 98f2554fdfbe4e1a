//! Cora, CiteSeer and PubMed as Planetoid published them (Yang, Cohen & Salakhutdinov, Revisiting
//! Semi-Supervised Learning with Graph Embeddings, ICML 2016).
//!
//! Seven pickles and a text file, `ind.NAME.…`:
//!
//! | file | holds |
//! |---|---|
//! | `allx`, `ally` | features and one-hot classes of nodes 0, 1, …, all but those for test |
//! | `tx`, `ty`, `test.index` | those for test, and the node of each of their rows, in no order |
//! | `x`, `y` | the first rows of `allx`, `ally`: those for training |
//! | `graph` | neighbours of every node, with repetitions and self-loops |
//!
//! Test nodes are put at their places. CiteSeer has 15 places without a row: nodes without edges, features or
//! class; they stay, so that ids are those of everybody else.
//!
//! Splits: `public` (`y`, the next 500, `test.index`), and for the three sets by name `paper`, the split of the protocol of
//! SGFormer that the paper follows: 20 per class, 500, 1,000, drawn by PyTorch's generator with seed 123. It comes with
//! the source, since no other generator draws it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::draft::Draft;
use super::pickle::Pickle;
use super::split::Listed;
use super::{Features, NodeSet, Sparse};
use crate::data::numpy::Array;
use crate::data::{Source, Values};
use crate::error::Context as _;
use crate::{Error, MemoryLimit, Result};

/// Ids of the split `paper` of the three sets.
const PAPER: &str = include_str!("splits/random20.json");

/// Nodes for validation in the public split.
const VALIDATION: usize = 500;

/// Files of a set, in the order of its hash.
const PARTS: [&str; 8] = ["x", "y", "tx", "ty", "allx", "ally", "graph", "test.index"];

/// Reads `ind.NAME.x` and its siblings in `folder`.
///
/// # Errors
/// If a file is missing or broken, or they do not fit together.
pub fn load(folder: &Path, name: &str, limit: MemoryLimit) -> Result<NodeSet> {
    let files = Files::read(folder, name, limit)?;
    let mut set = files.draft(limit)?.finish(limit)?;
    let mut known: BTreeMap<String, Listed> = serde_json::from_str(PAPER)
        .map_err(|e| Error::data(format!("the split `paper` that comes with the source: {e}")))?;
    // Another graph of that name has other ids.
    if let Some(listed) = known.remove(name)
        && super::find(name).is_some_and(|entry| entry.published.nodes == set.num_nodes())
    {
        set.splits.push(listed.into_split("paper", set.num_nodes())?);
    }
    Ok(set)
}

/// The bytes of all files.
struct Files {
    folder: PathBuf,
    name: String,
    sources: Vec<Source>,
}

impl Files {
    fn read(folder: &Path, name: &str, limit: MemoryLimit) -> Result<Files> {
        let path = |part: &str| folder.join(format!("ind.{name}.{part}"));
        let missing: Vec<&str> = PARTS.into_iter().filter(|part| !path(part).is_file()).collect();
        if !missing.is_empty() {
            return Err(Error::config(format!(
                "no file ind.{name}.{} in {}",
                missing.join(&format!(", ind.{name}.")),
                folder.display()
            )));
        }
        let load = |part: &&str| Source::load(&path(part).to_string_lossy(), limit);
        let sources = PARTS.iter().map(load).collect::<Result<_>>()?;
        Ok(Files { folder: folder.to_path_buf(), name: name.to_string(), sources })
    }

    fn source(&self, part: &str) -> &Source {
        let mut parts = PARTS.iter().zip(&self.sources);
        parts.find(|(known, _)| **known == part).expect("one of PARTS").1
    }

    /// Does something with a file, and names it in errors.
    fn with<T>(&self, part: &str, work: impl FnOnce(&Source) -> Result<T>) -> Result<T> {
        let path = || self.folder.join(format!("ind.{}.{part}", self.name)).display().to_string();
        work(self.source(part)).context(path)
    }

    fn sparse(&self, part: &str, limit: MemoryLimit) -> Result<Sparse> {
        self.with(part, |source| Pickle::read(source.bytes(), limit)?.sparse(limit))
    }

    /// The classes of one-hot rows; -1 for a row of zeros.
    fn classes(&self, part: &str, limit: MemoryLimit) -> Result<(Vec<i64>, usize)> {
        self.with(part, |source| one_hot(&Pickle::read(source.bytes(), limit)?.array(limit)?))
    }

    fn draft(&self, limit: MemoryLimit) -> Result<Draft> {
        let (all, tested) = (self.sparse("allx", limit)?, self.sparse("tx", limit)?);
        let (classes, count) = self.classes("ally", limit)?;
        let (test_classes, test_count) = self.classes("ty", limit)?;
        let (train, _) = self.classes("y", limit)?;
        let trained = self.sparse("x", limit)?;
        let index = self.with("test.index", index)?;
        let first = all.rows();
        let fits = [
            (first == classes.len(), "allx and ally differ in rows"),
            (tested.rows() == test_classes.len(), "tx and ty differ in rows"),
            (tested.rows() == index.len(), "tx and test.index differ in rows"),
            (all.width() == tested.width(), "allx and tx differ in columns"),
            (count == test_count, "ally and ty differ in columns"),
            (trained.rows() == train.len(), "x and y differ in rows"),
            (classes.starts_with(&train), "y is not the beginning of ally"),
            (train.len() + VALIDATION <= first, "allx has no 500 rows behind those of x"),
            (
                index.iter().all(|&node| node as usize >= first),
                "a node of test.index is among the rows of allx",
            ),
        ];
        if let Some((_, why)) = fits.iter().find(|(fits, _)| !fits) {
            return Err(Error::data(format!("ind.{}: {why}; get the files again", self.name)));
        }
        let nodes = index.iter().max().map_or(first, |&last| last as usize + 1);
        limit.check(nodes as u128 * 24, &format!("{nodes} nodes"), "is test.index of this set?")?;
        let mut row_of = vec![None; nodes - first];
        for (row, &node) in index.iter().enumerate() {
            let place = &mut row_of[node as usize - first];
            if place.replace(row).is_some() {
                return Err(Error::data(format!(
                    "ind.{}.test.index: node {node} is listed twice",
                    self.name
                )));
            }
        }
        let tail = row_of.iter().map(|row| row.map(|row| (&tested, row)));
        let rows = (0..first).map(|row| Some((&all, row))).chain(tail);
        let features = Sparse::gather(all.width(), rows);
        let tail = row_of.iter().map(|row| row.map_or(-1, |row| test_classes[row]));
        let y: Vec<i64> = classes.iter().copied().chain(tail).collect();
        let edges = self.with("graph", |source| {
            Pickle::read(source.bytes(), limit)?.neighbour_lists(nodes, limit)
        })?;
        let end = train.len() as u32;
        let public = [(0..end).collect(), (end..end + VALIDATION as u32).collect(), index];
        let mut hasher = blake3::Hasher::new();
        for source in &self.sources {
            hasher.update(source.hash().as_bytes());
        }
        Ok(Draft {
            nodes,
            edges,
            directed: false,
            edge_attr: None,
            features: Features::Sparse(features),
            y: Values::Int(y),
            labels: None,
            years: None,
            species: None,
            splits: vec![("public".to_string(), public)],
            hash: hasher.finalize().to_hex().to_string(),
        })
    }
}

fn one_hot(array: &Array) -> Result<(Vec<i64>, usize)> {
    let width = match array.shape[..] {
        [_, width] if width > 0 => width,
        ref shape => {
            return Err(Error::data(format!("shape {shape:?}; one-hot rows have two axes")));
        }
    };
    let values = array.values.to_floats();
    let class = |(row, values): (usize, &[f32])| {
        let others = values.iter().filter(|&&x| x != 0.0).count();
        match values.iter().position(|&x| x == 1.0) {
            Some(class) if others == 1 => Ok(class as i64),
            None if others == 0 => Ok(-1),
            _ => Err(Error::data(format!("row {row} is not a one among zeros"))),
        }
    };
    let classes = values.chunks(width).enumerate().map(class).collect::<Result<_>>()?;
    Ok((classes, width))
}

fn index(source: &Source) -> Result<Vec<u32>> {
    let lines = source.text()?.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let id = |(number, line): (usize, &str)| {
        line.trim().parse::<u32>().map_err(|_| {
            let line: String = line.chars().take(40).collect();
            Error::data(format!("line {}: `{line}` is no node id", number + 1))
        })
    };
    lines.map(id).collect()
}

/// Whether the folder has files of the set.
pub(super) fn is_in(folder: &Path, name: &str) -> bool {
    folder.join(format!("ind.{name}.graph")).is_file()
}

#[cfg(test)]
mod tests {
    use super::super::pickle::tests::{csr, ints, lists};
    use super::*;

    /// 503 nodes in `allx`, test nodes 506, 503, 504; 505 has no row.
    fn write(folder: &Path) {
        let write = |part: &str, bytes: Vec<u8>| {
            std::fs::write(folder.join(format!("ind.tiny.{part}")), bytes).unwrap();
        };
        // Node i has the feature i + 1 in its only column.
        let column = |ids: &[i32]| {
            let offsets: Vec<i32> = (0..=ids.len() as i32).collect();
            let values: Vec<f32> = ids.iter().map(|&id| (id + 1) as f32).collect();
            csr([ids.len(), 1], &offsets, &vec![0; ids.len()], &values)
        };
        // Even nodes are of class 0, odd ones of class 1.
        let classes = |ids: &[i32]| {
            let rows: Vec<i32> = ids.iter().flat_map(|id| [1 - id % 2, id % 2]).collect();
            ints(&[ids.len(), 2], &rows)
        };
        let all: Vec<i32> = (0..503).collect();
        for (x, y, ids) in
            [("x", "y", &all[..3]), ("allx", "ally", &all), ("tx", "ty", &[506, 503, 504])]
        {
            write(x, column(ids));
            write(y, classes(ids));
        }
        write("test.index", b"506\n503\n504\n".to_vec());
        write("graph", lists(&[(0, &[503, 0]), (503, &[0, 506]), (506, &[503, 503])]));
    }

    #[test]
    fn test_rows_are_put_in_place() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path());
        let set = load(folder.path(), "tiny", MemoryLimit::NONE).unwrap();
        assert_eq!((set.num_nodes(), set.graph.num_edges()), (507, 2));
        assert_eq!((set.repairs.self_loops, set.repairs.duplicates), (1, 1));
        let Features::Sparse(features) = &set.features else { panic!() };
        for node in 0..507 {
            let expected: &[f32] = &[(node + 1) as f32];
            let expected = if node == 505 { &[] } else { expected };
            assert_eq!(features.row(node).1, expected, "node {node}");
            let class = if node == 505 { -1 } else { node as i64 % 2 };
            assert_eq!(set.classes().unwrap()[node], class, "node {node}");
        }
        let split = set.split("public").unwrap();
        assert_eq!(split.train, [0, 1, 2]);
        assert_eq!((split.val[0], split.val[499]), (3, 502));
        assert_eq!(split.test, [503, 504, 506]);
        assert_eq!(set.splits.len(), 1);
    }

    #[test]
    fn files_that_do_not_fit_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let explain = |part: &str, bytes: &[u8]| {
            write(folder.path());
            std::fs::write(folder.path().join(format!("ind.tiny.{part}")), bytes).unwrap();
            format!("{:#}", load(folder.path(), "tiny", MemoryLimit(1 << 30)).unwrap_err())
        };
        let error = explain("test.index", b"506\n503\n503\n");
        assert!(error.contains("node 503 is listed twice"), "{error}");
        assert!(explain("test.index", b"506\n503\n").contains("tx and test.index differ in rows"));
        assert!(explain("test.index", b"506\n2\n503").contains("among the rows of allx"));
        assert!(
            explain("test.index", b"4294967295\n503\n504").contains("is test.index of this set?")
        );
        assert!(explain("test.index", b"506\nx\n503").contains("line 2: `x` is no node id"));
        let error = explain("graph", &lists(&[(0, &[507])]));
        assert!(error.contains("ind.tiny.graph: neighbours of node 0: node 507"), "{error}");
        let error = explain("ty", &ints(&[3, 2], &[1, 1, 0, 1, 0, 1]));
        assert!(error.contains("ind.tiny.ty: row 0 is not a one among zeros"), "{error}");
        assert!(explain("y", &ints(&[3, 2], &[0, 1, 0, 1, 0, 1])).contains("not the beginning"));
        std::fs::remove_file(folder.path().join("ind.tiny.tx")).unwrap();
        let error = load(folder.path(), "tiny", MemoryLimit::NONE).unwrap_err();
        assert!(error.to_string().starts_with("no file ind.tiny.tx in "), "{error}");
    }

    #[test]
    fn the_split_of_the_paper_comes_along() {
        let known: BTreeMap<String, Listed> = serde_json::from_str(PAPER).unwrap();
        for (name, listed) in known {
            let entry = super::super::find(&name).unwrap();
            let split = listed.into_split("paper", entry.published.nodes).unwrap();
            assert_eq!(split.sizes(), entry.published.split.unwrap(), "{name}");
        }
    }
}
