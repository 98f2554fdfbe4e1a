//! Vectors of nodes from random walks, kept once they are learned.
//!
//! Learning takes longer than many a training (the better part of an hour on arxiv-year), and all runs on a graph want the same vectors:
//! other rows and seeds of an experiment, runs that go on, evaluation, prediction. So they are kept in a folder, in a
//! file named by all that determines them: graph, settings, seed, version of the method, and platform, whose logarithm and
//! cosine are used. A file holds the blake3 of what follows, then `[nodes, dim]` numbers, little-endian; one
//! that is damaged is learned again.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::data::AtomicFile;
use crate::encoding::Node2Vec;
use crate::monitor::Monitor;
use crate::rng::Seed;
use crate::{Error, Graph, MemoryLimit, Result};

/// To be raised with every change of what [`Node2Vec::embed`] gives.
const VERSION: u32 = 1;

/// Vectors of all nodes, `[nodes, dim]`: those of `folder` if they are there, else learned, and kept there. Without a folder, nothing is
/// kept.
pub(super) fn positions(
    walks: &Node2Vec,
    graph: &Graph,
    folder: Option<&Path>,
    limit: MemoryLimit,
    monitor: &dyn Monitor,
) -> Result<Vec<f32>> {
    let seed = Seed(0);
    let Some(folder) = folder else {
        return Ok(walks.embed(graph, seed, limit, monitor)?.vectors);
    };
    let path = path(walks, graph, seed, folder);
    if let Some(vectors) = read(&path, graph.num_nodes() * walks.dim) {
        return Ok(vectors);
    }
    // Not after an hour.
    drop(create(&path)?);
    let vectors = walks.embed(graph, seed, limit, monitor)?.vectors;
    let mut file = create(&path)?;
    let bytes: Vec<u8> = vectors.iter().flat_map(|x| x.to_le_bytes()).collect();
    file.write_all(blake3::hash(&bytes).as_bytes())
        .and_then(|()| file.write_all(&bytes))
        .map_err(|e| Error::io("cannot write", &path, e))?;
    file.commit()?;
    Ok(vectors)
}

/// Where vectors are kept.
fn path(walks: &Node2Vec, graph: &Graph, Seed(seed): Seed, folder: &Path) -> PathBuf {
    let settings = serde_json::to_string(walks).expect("plain data always serialise");
    let platform = format!("{} {}", std::env::consts::ARCH, std::env::consts::OS);
    let mut hasher = blake3::Hasher::new();
    hasher.update(format!("node2vec {VERSION} {platform} {seed} {settings}").as_bytes());
    hasher.update(bytemuck::cast_slice(graph.offsets()));
    hasher.update(bytemuck::cast_slice(graph.targets()));
    folder.join(format!("{}.f32", hasher.finalize().to_hex()))
}

/// What a file holds, if it is whole.
fn read(path: &Path, count: usize) -> Option<Vec<f32>> {
    let length = fs::metadata(path).ok()?.len();
    if length != blake3::OUT_LEN as u64 + 4 * count as u64 {
        return None;
    }
    let bytes = fs::read(path).ok()?;
    let (hash, bytes) = bytes.split_at_checked(blake3::OUT_LEN)?;
    if blake3::hash(bytes).as_bytes() != hash {
        return None;
    }
    let (numbers, _) = bytes.as_chunks::<4>();
    Some(numbers.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect())
}

fn create(path: &Path) -> Result<AtomicFile> {
    let folder = path.parent().unwrap_or(path);
    let problem = |e: String| Error::io("cannot keep vectors of node2vec in", folder, e);
    let otherwise = "set HDSE_HOME to a folder that can be written to";
    fs::create_dir_all(folder).map_err(|e| problem(format!("{e}; {otherwise}")))?;
    AtomicFile::create(path, true).map_err(|e| problem(format!("{e}; {otherwise}")))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Counts what was learned.
    #[derive(Default)]
    struct Learned(AtomicU64);

    impl Monitor for Learned {
        fn advance(&self, done: u64) {
            self.0.fetch_add(done, Ordering::Relaxed);
        }
    }

    #[test]
    fn vectors_are_learned_once_unless_something_changes_or_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        let graph = |edges: &[(u32, u32)]| Graph::from_pairs(5, edges).unwrap().0;
        let ring = graph(&[(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]);
        let walks =
            Node2Vec { dim: 3, walk_length: 4, context: 2, epochs: 1, ..Node2Vec::default() };
        let find = |walks: &Node2Vec, graph: &Graph, kept: Option<&Path>| {
            let learned = Learned::default();
            let found = positions(walks, graph, kept, MemoryLimit::NONE, &learned).unwrap();
            (found, learned.0.into_inner() > 0)
        };
        let (vectors, learned) = find(&walks, &ring, Some(&path));
        assert!(learned && vectors.len() == 15);
        assert_eq!(find(&walks, &ring, None), (vectors.clone(), true));
        assert_eq!(find(&walks, &ring, Some(&path)), (vectors.clone(), false));
        assert!(find(&Node2Vec { walks: 3, ..walks }, &ring, Some(&path)).1);
        assert!(find(&walks, &graph(&[(0, 1), (1, 2), (2, 3), (3, 4)]), Some(&path)).1);

        let files = || fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
        assert_eq!(files().count(), 3, "nothing but what was kept");
        for file in files() {
            let mut bytes = fs::read(&file).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            fs::write(file, bytes).unwrap();
        }
        assert_eq!(find(&walks, &ring, Some(&path)), (vectors.clone(), true));
        assert_eq!(find(&walks, &ring, Some(&path)), (vectors, false));
    }

    #[test]
    fn a_folder_that_cannot_be_is_told_before_anything_is_learned() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let (graph, learned) = (Graph::from_pairs(2, &[(0, 1)]).unwrap().0, Learned::default());
        let found =
            positions(&Node2Vec::default(), &graph, Some(&file), MemoryLimit::NONE, &learned);
        let error = format!("{:#}", found.unwrap_err());
        assert!(error.contains("HDSE_HOME"), "{error}");
        assert_eq!(learned.0.into_inner(), 0);
    }
}
