//! Our own graph file (`.hgraph`): compressed sparse rows that are memory-mapped, not parsed.
//!
//! | bytes | content |
//! |---|---|
//! | 0 … 7 | `HDSEGRPH` |
//! | 8 … 11 | version, u32 = 1 |
//! | 12 … 15 | flags, u32: 1 = weighted |
//! | 16 … 23, 24 … 31 | nodes n, entries (twice the edges), u64 |
//! | 32 … 63 | blake3 of everything after byte 64 and of bytes 8 … 31 |
//! | 64 … | offsets u64 × (n + 1), targets u32 × entries, weights f32 × entries; each section starts at a multiple of 64 |
//!
//! All numbers are little-endian. Reading checks lengths, hash and that the rows are a simple
//! undirected graph, in parallel at memory speed; the graph then uses the mapped pages directly.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;

use super::AtomicFile;
use crate::buffer::Buffer;
use crate::{Error, Graph, Result};

pub(super) const MAGIC: &[u8; 8] = b"HDSEGRPH";
const VERSION: u32 = 1;
const WEIGHTED: u32 = 1;
const HEADER: usize = 64;
const ALIGN: usize = 64;

/// Where the sections of a graph file lie.
struct Layout {
    offsets: std::ops::Range<usize>,
    targets: std::ops::Range<usize>,
    weights: std::ops::Range<usize>,
}

impl Layout {
    /// Nothing if the sizes overflow.
    fn new(nodes: u64, entries: u64, weighted: bool) -> Option<Layout> {
        let section = |start: usize, count: u64, size: usize| {
            let bytes = usize::try_from(count).ok()?.checked_mul(size)?;
            Some(start..start.checked_add(bytes)?)
        };
        let next = |end: usize| end.checked_next_multiple_of(ALIGN);
        let offsets = section(HEADER, nodes.checked_add(1)?, 8)?;
        let targets = section(next(offsets.end)?, entries, 4)?;
        let weights = section(next(targets.end)?, if weighted { entries } else { 0 }, 4)?;
        Some(Layout { offsets, targets, weights })
    }

    fn length(&self) -> usize {
        if self.weights.is_empty() { self.targets.end } else { self.weights.end }
    }
}

/// Writes a graph file.
pub fn write_graph_file(graph: &Graph, file: AtomicFile) -> Result<()> {
    let path = file.path().to_path_buf();
    let problem = |e| Error::io("cannot write", &path, e);
    let (nodes, entries) = (graph.num_nodes() as u64, graph.targets().len() as u64);
    let layout = Layout::new(nodes, entries, graph.is_weighted())
        .ok_or_else(|| Error::data("the graph is too large for a file"))?;
    let mut counts = Vec::new();
    counts.extend(VERSION.to_le_bytes());
    counts.extend(u32::from(graph.is_weighted()).to_le_bytes());
    counts.extend(nodes.to_le_bytes());
    counts.extend(entries.to_le_bytes());
    let zeros = [0; ALIGN];
    let gap = |from: usize, to: usize| &zeros[..to - from];
    let weights: &[u8] = bytemuck::cast_slice(graph.weights().unwrap_or(&[]));
    let before_weights = if weights.is_empty() { layout.targets.end } else { layout.weights.start };
    let sections: [&[u8]; 5] = [
        bytemuck::cast_slice(graph.offsets()),
        gap(layout.offsets.end, layout.targets.start),
        bytemuck::cast_slice(graph.targets()),
        gap(layout.targets.end, before_weights),
        weights,
    ];
    let mut hasher = blake3::Hasher::new();
    for section in sections {
        hasher.update_rayon(section);
    }
    hasher.update(&counts);
    let mut writer = BufWriter::new(file);
    let hash = hasher.finalize();
    let all = [&MAGIC[..], &counts, hash.as_bytes()].into_iter().chain(sections);
    for bytes in all {
        writer.write_all(bytes).map_err(problem)?;
    }
    writer.into_inner().map_err(|e| problem(e.into_error()))?.commit()
}

/// Opens a graph file; gives the graph and its content hash.
///
/// # Errors
/// If it is no graph file, of another version, cut off, or does not match its hash.
pub fn open_graph_file(path: &Path) -> Result<(Graph, String)> {
    open(path).map_err(|e| e.context(path.display().to_string()))
}

fn open(path: &Path) -> Result<(Graph, String)> {
    let problem = |e| Error::io("cannot read", path, e);
    let file = File::open(path).map_err(problem)?;
    // SAFETY: the map is read-only and private to this process. A file that another process changes
    // meanwhile could show other numbers; accesses stay within bounds or panic.
    let map = Arc::new(unsafe { Mmap::map(&file) }.map_err(problem)?);
    let broken = |why: &str| Error::data(format!("not a usable graph file: {why}"));
    if map.len() < HEADER || !map.starts_with(MAGIC) {
        return Err(broken("it does not start with HDSEGRPH"));
    }
    let word = |at: usize| u32::from_le_bytes([map[at], map[at + 1], map[at + 2], map[at + 3]]);
    let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    if word(8) != VERSION {
        return Err(broken(&format!("version {}, and this program reads {VERSION}", word(8))));
    }
    let weighted = word(12) & WEIGHTED != 0;
    let layout = Layout::new(long(16), long(24), weighted)
        .filter(|layout| layout.length() == map.len())
        .ok_or_else(|| broken("its length is not what its header says; it may be cut off"))?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_rayon(&map[HEADER..]);
    hasher.update(&map[8..32]);
    let hash = hasher.finalize();
    if hash.as_bytes()[..] != map[32..64] {
        return Err(broken("its content does not match its hash; it is damaged"));
    }
    let aligned = || broken("its sections are not aligned");
    let graph = Graph::from_rows(
        Buffer::mapped(&map, layout.offsets).ok_or_else(aligned)?,
        Buffer::mapped(&map, layout.targets).ok_or_else(aligned)?,
        match weighted {
            true => Some(Buffer::mapped(&map, layout.weights).ok_or_else(aligned)?),
            false => None,
        },
    )?;
    Ok((graph, hash.to_hex().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(graph: &Graph, path: &Path) {
        write_graph_file(graph, AtomicFile::create(path, true).unwrap()).unwrap();
    }

    #[test]
    fn graphs_come_back_mapped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("g.hgraph");
        let (weighted, _) = Graph::from_weighted_pairs(9, &[(0, 5), (5, 8)], &[0.5, 3.0]).unwrap();
        for graph in [
            weighted.clone(),
            weighted.without_weights(),
            Graph::from_pairs(1, &[]).unwrap().0,
            Graph::from_pairs(0, &[]).unwrap().0,
        ] {
            write(&graph, &path);
            assert_eq!(open_graph_file(&path).unwrap().0, graph);
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("g.hgraph");
        let (graph, _) = Graph::from_weighted_pairs(4, &[(0, 1), (2, 1)], &[1.0, 2.0]).unwrap();
        write(&graph, &path);
        let good = std::fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            std::fs::write(&path, &bad).unwrap();
            assert!(open_graph_file(&path).is_err(), "bit flipped in byte {at}");
            std::fs::write(&path, &good[..at]).unwrap();
            assert!(open_graph_file(&path).is_err(), "cut at {at}");
        }
    }

    /// Damage with a hash made to fit: what a hostile file would hold.
    #[test]
    fn resealed_damage_never_panics() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("g.hgraph");
        let (graph, _) = Graph::from_weighted_pairs(4, &[(0, 1), (2, 1)], &[1.0, 2.0]).unwrap();
        write(&graph, &path);
        let good = std::fs::read(&path).unwrap();
        let mut stream = crate::rng::Seed(0).stream("test", 0, 0);
        for _ in 0..2000 {
            let mut bad = good.clone();
            for _ in 0..=stream.below(2) {
                let at = 8 + stream.below(good.len() as u64 - 8) as usize;
                bad[at] = stream.next_u64() as u8;
            }
            let mut hasher = blake3::Hasher::new();
            hasher.update(&bad[HEADER..]);
            hasher.update(&bad[8..32]);
            let hash = hasher.finalize();
            bad[32..64].copy_from_slice(hash.as_bytes());
            std::fs::write(&path, &bad).unwrap();
            if let Ok((graph, _)) = open_graph_file(&path) {
                graph.components();
            }
        }
    }

    #[test]
    fn rows_that_are_no_graph_are_refused() {
        for (offsets, targets) in [
            (vec![0, 1, 1], vec![1]),             // one-way
            (vec![0, 1, 2], vec![0, 0]),          // loop
            (vec![0, 1, 2], vec![1, 7]),          // out of range
            (vec![0, 2, 3, 4], vec![2, 1, 0, 0]), // unsorted
            (vec![0, 2, 1], vec![1]),             // offsets
            (vec![], vec![]),
        ] {
            assert!(Graph::from_rows(offsets.into(), targets.into(), None).is_err());
        }
    }
}
