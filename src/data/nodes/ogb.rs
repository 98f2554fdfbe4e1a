//! Node sets of the Open Graph Benchmark (Hu et al., NeurIPS 2020), as its archives hold them.
//!
//! ```text
//! raw/edge.csv.gz  num-node-list.csv.gz  num-edge-list.csv.gz      or   raw/data.npz  node-label.npz
//!     node-label.csv.gz  node-feat.csv.gz  edge-feat.csv.gz
//!     node_year.csv.gz  node_species.csv.gz
//! split/NAME/train.csv.gz  valid.csv.gz  test.csv.gz
//! ```
//!
//! Files are comma separated without header; features, years and species are there where the set has any. Node ids are line numbers
//! from 0, in edges, features, targets and splits alike; the folder `mapping` of the archives leads to names outside and is not
//! needed. A column of targets is the class, several are labels; `nan` is unknown. Sets whose archive lists an edge once for both
//! directions (`add_inverse_edge` of the benchmark's own loader) are not directed.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use super::draft::{Draft, arcs, column, labels, matrix};
use super::{Features, NodeSet, table};
use crate::data::numpy::{self, Array};
use crate::error::Context as _;
use crate::{Error, MemoryLimit, Result};

/// Reads the folder of a set. `directed` says whether an arc means one direction.
///
/// # Errors
/// If a file is missing or broken, or they do not fit together.
pub fn load(folder: &Path, directed: bool, limit: MemoryLimit) -> Result<NodeSet> {
    let mut raw = Raw { folder: folder.join("raw"), hasher: blake3::Hasher::new(), limit };
    let parts = match raw.folder.join("data.npz").is_file() {
        true => raw.binary()?,
        false => raw.text()?,
    };
    let splits = raw.splits(&folder.join("split"))?;
    let (y, width) = labels(parts.labels);
    let draft = Draft {
        nodes: parts.nodes,
        edges: parts.edges,
        directed,
        edge_attr: parts.edge_feat.map(matrix).transpose()?,
        features: match parts.node_feat {
            Some(array) => Features::Dense(matrix(array)?),
            None => Features::None,
        },
        y,
        labels: width,
        years: parts.years.map(column).transpose().context(|| "node_year".into())?,
        species: parts.species.map(column).transpose().context(|| "node_species".into())?,
        splits,
        hash: raw.hasher.finalize().to_hex().to_string(),
    };
    draft.finish(limit)
}

/// Whether the folder has files of this layout.
pub(super) fn is_in(folder: &Path) -> bool {
    ["data.npz", "edge.csv.gz", "edge.csv"]
        .iter()
        .any(|file| folder.join("raw").join(file).is_file())
}

/// The folder `raw`, and the hash of what was read.
struct Raw {
    folder: PathBuf,
    hasher: blake3::Hasher,
    limit: MemoryLimit,
}

/// What both layouts hold.
struct Parts {
    nodes: usize,
    edges: crate::data::Edges,
    edge_feat: Option<Array>,
    node_feat: Option<Array>,
    labels: Array,
    years: Option<Array>,
    species: Option<Array>,
}

impl Raw {
    fn text(&mut self) -> Result<Parts> {
        let edges = self.required("edge")?;
        let stated = [self.count("num-node-list")?, self.count("num-edge-list")?];
        if edges.shape[0] != stated[1] {
            return Err(Error::data(format!(
                "edge has {} lines, but num-edge-list states {}",
                edges.shape[0], stated[1]
            )));
        }
        Ok(Parts {
            nodes: stated[0],
            edges: arcs(edges, true).context(|| "edge".into())?,
            edge_feat: self.csv("edge-feat")?,
            node_feat: self.csv("node-feat")?,
            labels: self.required("node-label")?,
            years: self.csv("node_year")?,
            species: match self.csv("node_species")? {
                Some(species) => Some(species),
                // In older archives.
                None => self.csv("species")?,
            },
        })
    }

    fn binary(&mut self) -> Result<Parts> {
        let mut data = self.npz("data.npz")?;
        let mut labels = self.npz("node-label.npz")?;
        let mut optional = |name: &str| match data.has(name) {
            true => data.array(name).map(Some),
            false => Ok(None),
        };
        let required = |array: Option<Array>, name: &str| {
            array.ok_or_else(|| Error::data(format!("data.npz: no array `{name}`")))
        };
        let nodes = single(required(optional("num_nodes_list")?, "num_nodes_list")?)
            .context(|| "num_nodes_list".into())?;
        let edges = required(optional("edge_index")?, "edge_index")?;
        Ok(Parts {
            nodes,
            edges: arcs(edges, false).context(|| "edge_index".into())?,
            edge_feat: optional("edge_feat")?,
            node_feat: optional("node_feat")?,
            years: optional("node_year")?,
            species: optional("node_species")?,
            labels: labels.array("node_label").context(|| "node-label.npz".into())?,
        })
    }

    fn npz(&mut self, name: &str) -> Result<numpy::File<File>> {
        let path = self.folder.join(name);
        let problem = |e| Error::io("cannot read", &path, e);
        self.hasher.update_reader(File::open(&path).map_err(problem)?).map_err(problem)?;
        numpy::File::open(File::open(&path).map_err(problem)?, self.limit)
            .context(|| path.display().to_string())
    }

    /// The table `name`, if it is there.
    fn csv(&mut self, name: &str) -> Result<Option<Array>> {
        let found = csv_path(&self.folder, name);
        found.map(|path| self.table(&path)).transpose()
    }

    fn required(&mut self, name: &str) -> Result<Array> {
        let missing =
            || Error::config(format!("no file {name}.csv.gz in {}", self.folder.display()));
        let path = csv_path(&self.folder, name).ok_or_else(missing)?;
        self.table(&path)
    }

    fn table(&mut self, path: &Path) -> Result<Array> {
        let (array, hash) = table::read(path, self.limit)?;
        self.hasher.update(hash.as_bytes());
        Ok(array)
    }

    fn count(&mut self, name: &str) -> Result<usize> {
        single(self.required(name)?).context(|| name.to_string())
    }

    /// Every folder of splits, by name.
    fn splits(&mut self, folder: &Path) -> Result<Vec<(String, [Vec<u32>; 3])>> {
        let problem = |e| Error::io("cannot read", folder, e);
        let mut names = BTreeSet::new();
        if folder.is_dir() {
            for entry in std::fs::read_dir(folder).map_err(problem)? {
                let entry = entry.map_err(problem)?;
                if entry.path().is_dir() {
                    names.insert(entry.file_name().to_string_lossy().into_owned());
                }
            }
        }
        let mut splits = Vec::new();
        for name in names {
            let mut parts: [Vec<u32>; 3] = Default::default();
            for (part, file) in parts.iter_mut().zip(["train", "valid", "test"]) {
                let path = csv_path(&folder.join(&name), file).ok_or_else(|| {
                    Error::config(format!("no file split/{name}/{file}.csv.gz beside raw"))
                })?;
                let ids = column(self.table(&path)?).and_then(|ids| {
                    let id = |id: i64| {
                        u32::try_from(id).map_err(|_| Error::data(format!("{id} is no node id")))
                    };
                    ids.into_iter().map(id).collect::<Result<_>>()
                });
                *part = ids.context(|| path.display().to_string())?;
            }
            splits.push((name, parts));
        }
        Ok(splits)
    }
}

fn csv_path(folder: &Path, name: &str) -> Option<PathBuf> {
    let paths = [".csv.gz", ".csv"].map(|ending| folder.join(format!("{name}{ending}")));
    paths.into_iter().find(|path| path.is_file())
}

/// The only number of an array: sets of one graph state one.
fn single(array: Array) -> Result<usize> {
    match column(array)?[..] {
        [count] => usize::try_from(count).map_err(|_| Error::data(format!("{count} is no count"))),
        ref counts => Err(Error::data(format!("{} graphs; a node set has one", counts.len()))),
    }
}
