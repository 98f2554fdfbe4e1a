//! Graphs where neighbours differ, as `.npz` files of Platonov et al. (A Critical Look at the Evaluation of GNNs under
//! Heterophily, ICLR 2023).
//!
//! | array | holds |
//! |---|---|
//! | `node_features` [n, f], `node_labels` [n] | features and classes |
//! | `edges` [m, 2] | every undirected edge once |
//! | `train_masks`, `val_masks`, `test_masks` [splits, n] | which nodes are in each split |
//!
//! Splits are called `0`, `1`, …. `squirrel_filtered.npz` and `chameleon_filtered.npz` are without the nodes that occur
//! twice in the original graphs, often once for training and once for test; the paper's protocol uses these.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

use super::draft::{Draft, arcs, matrix};
use super::{Features, NodeSet};
use crate::data::numpy;
use crate::error::Context as _;
use crate::{Error, MemoryLimit, Result};

/// Reads a file of this layout.
///
/// # Errors
/// If it has other arrays, or they do not fit together.
pub fn load(path: &Path, limit: MemoryLimit) -> Result<NodeSet> {
    let problem = |e| Error::io("cannot read", path, e);
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path).map_err(problem)?).map_err(problem)?;
    let file = File::open(path).map_err(problem)?;
    read(file, hasher.finalize().to_hex().to_string(), limit).context(|| path.display().to_string())
}

fn read(reader: impl Read + Seek, hash: String, limit: MemoryLimit) -> Result<NodeSet> {
    let mut file = numpy::File::open(reader, limit)?;
    let wanted =
        ["node_features", "node_labels", "edges", "train_masks", "val_masks", "test_masks"];
    let missing: Vec<&str> = wanted.into_iter().filter(|name| !file.has(name)).collect();
    if !missing.is_empty() {
        return Err(Error::data(format!(
            "no array {}; it has: {}",
            missing.join(", "),
            file.names().join(", ")
        )));
    }
    let edges =
        file.array("edges").and_then(|array| arcs(array, true)).context(|| "edges".into())?;
    let features = Features::Dense(matrix(file.array("node_features")?)?);
    let y = file.array("node_labels")?;
    let nodes = y.shape.first().copied().unwrap_or(0);
    let mut masks = Vec::new();
    for name in ["train_masks", "val_masks", "test_masks"] {
        let array = file.array(name)?;
        let [count, width] = array.shape[..] else {
            return Err(Error::data(format!("`{name}` needs two axes, splits and nodes")));
        };
        if width != nodes || masks.first().is_some_and(|(first, _)| *first != count) {
            return Err(Error::data(format!(
                "`{name}` has shape {:?}, which does not fit {nodes} nodes or the other masks",
                array.shape
            )));
        }
        masks.push((count, array.ints(name)?));
    }
    let count = masks.first().map_or(0, |(count, _)| *count);
    let part = |mask: &[i64], split: usize| {
        let row = &mask[split * nodes..][..nodes];
        let inside = row.iter().enumerate().filter(|&(_, &inside)| inside != 0);
        inside.map(|(node, _)| node as u32).collect()
    };
    let split = |split: usize| {
        let parts = [0, 1, 2].map(|kind| part(&masks[kind].1, split));
        (split.to_string(), parts)
    };
    let draft = Draft {
        nodes,
        edges,
        directed: false,
        edge_attr: None,
        features,
        y: y.values,
        labels: None,
        years: None,
        species: None,
        splits: (0..count).map(split).collect(),
        hash,
    };
    draft.finish(limit)
}
