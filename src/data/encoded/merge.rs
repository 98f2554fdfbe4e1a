//! Joining the parts of a set that was encoded with `--shard`.

use std::path::{Path, PathBuf};

use super::{Metadata, SetReader, create, open};
use crate::data::AtomicFile;
use crate::monitor::{Monitor, check};
use crate::{Error, Result};

/// Joins shards, given in any order, into `file`: what a run without `--shard` would have written,
/// byte for byte. Returns the number of graphs.
///
/// # Errors
/// If a part is missing, given twice, or was made with other parameters or from another input.
pub fn merge(
    parts: &[PathBuf],
    format: &str,
    file: AtomicFile,
    monitor: &dyn Monitor,
) -> Result<usize> {
    let mut opened: Vec<(usize, &Path, Box<dyn SetReader>)> = Vec::new();
    let mut whole: Option<Metadata> = None;
    for path in parts {
        let reader = open(path)?;
        let name = path.display();
        if reader.metadata().kind != "graph-set" {
            return Err(Error::config(format!("{name} holds {}", reader.metadata().kind)));
        }
        let Some(shard) = reader.metadata().shard()? else {
            return Err(Error::config(format!("{name} is a whole set, not a shard")));
        };
        let metadata = Metadata { shard: None, ..reader.metadata().clone() };
        match &whole {
            None => whole = Some(metadata),
            Some(first) if *first == metadata => {}
            Some(first) => {
                return Err(Error::config(format!(
                    "{name} does not belong with {}: {}",
                    parts[0].display(),
                    difference(first, &metadata)
                )));
            }
        }
        if shard.count != parts.len() {
            return Err(Error::config(format!(
                "{name} is one of {} shards, but {} files are given; give every shard once",
                shard.count,
                parts.len()
            )));
        }
        if let Some((_, other, _)) = opened.iter().find(|(index, ..)| *index == shard.index) {
            return Err(Error::config(format!(
                "{name} and {} are both shard {}",
                other.display(),
                shard.index
            )));
        }
        opened.push((shard.index, path, reader));
    }
    let metadata = whole.ok_or_else(|| Error::config("no shard to merge"))?;
    opened.sort_by_key(|(index, ..)| *index);
    let num_nodes: Vec<u32> =
        opened.iter().flat_map(|(_, _, reader)| reader.num_nodes().to_vec()).collect();
    if num_nodes.len() != metadata.graphs {
        return Err(Error::data(format!(
            "the shards hold {} graphs together, but the set has {}",
            num_nodes.len(),
            metadata.graphs
        )));
    }
    let mut writer = create(format, file, &metadata, &num_nodes)?;
    for (_, path, reader) in &mut opened {
        while let Some(chunk) = reader.next().map_err(|e| e.context(path.display().to_string()))? {
            check(monitor)?;
            writer.push(&chunk)?;
            monitor.advance(chunk.num_nodes.len() as u64);
        }
    }
    writer.finish()?;
    Ok(metadata.graphs)
}

/// The first parameter in which two sets differ.
fn difference(a: &Metadata, b: &Metadata) -> String {
    let value = |m: &Metadata| serde_json::to_value(m).unwrap_or_default();
    let (a, b) = (value(a), value(b));
    let keys = a.as_object().into_iter().flat_map(|o| o.keys());
    let differing = keys.filter(|key| a[key.as_str()] != b[key.as_str()]);
    let text = differing
        .map(|key| format!("{key} is {} there, {} here", a[key.as_str()], b[key.as_str()]));
    text.collect::<Vec<_>>().join("; ")
}
