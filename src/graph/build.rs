//! Building: from pairs in any order to sorted rows without repeats.
//!
//! Count the degrees, place both halves of every edge, sort each row, merge what repeats. Large inputs
//! are counted and placed by all threads with atomic counters; since rows are sorted afterwards the
//! result does not depend on who came first.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use rayon::prelude::*;

use super::{Graph, MAX_NODES, Repairs};
use crate::buffer::Buffer;
use crate::{Error, Result};

/// Below this many pairs, one thread is faster.
pub(super) const PARALLEL: usize = 1 << 16;

/// One placed half-edge while a graph is built. The key is `neighbour << 1 | reversed`, so that
/// sorting groups the two directions of an edge; weighted entries carry the bits of the weight
/// below the key, which makes their order, and so the sum, independent of the input order.
pub(super) trait Entry: Copy + Ord + Default + Send + Sync {
    const WEIGHTED: bool;
    type Cell: Send + Sync;
    fn new(key: u32, weight: f32) -> Self;
    fn key(self) -> u32;
    fn weight(self) -> f32;
    fn cell() -> Self::Cell;
    fn store(cell: &Self::Cell, entry: Self);
    fn take(cell: Self::Cell) -> Self;
}

impl Entry for u32 {
    const WEIGHTED: bool = false;
    type Cell = AtomicU32;
    fn new(key: u32, _: f32) -> u32 {
        key
    }
    fn key(self) -> u32 {
        self
    }
    fn weight(self) -> f32 {
        1.0
    }
    fn cell() -> AtomicU32 {
        AtomicU32::new(0)
    }
    fn store(cell: &AtomicU32, entry: u32) {
        cell.store(entry, Relaxed);
    }
    fn take(cell: AtomicU32) -> u32 {
        cell.into_inner()
    }
}

impl Entry for u64 {
    const WEIGHTED: bool = true;
    type Cell = AtomicU64;
    fn new(key: u32, weight: f32) -> u64 {
        u64::from(key) << 32 | u64::from(weight.to_bits())
    }
    fn key(self) -> u32 {
        (self >> 32) as u32
    }
    fn weight(self) -> f32 {
        f32::from_bits(self as u32)
    }
    fn cell() -> AtomicU64 {
        AtomicU64::new(0)
    }
    fn store(cell: &AtomicU64, entry: u64) {
        cell.store(entry, Relaxed);
    }
    fn take(cell: AtomicU64) -> u64 {
        cell.into_inner()
    }
}

pub(super) fn check_nodes(num_nodes: usize) -> Result<()> {
    if num_nodes > MAX_NODES {
        return Err(Error::data(format!("{num_nodes} nodes; a graph holds at most {MAX_NODES}")));
    }
    Ok(())
}

pub(super) fn sequential<E, I>(num_nodes: usize, pairs: impl Fn() -> I) -> Result<(Graph, Repairs)>
where
    E: Entry,
    I: Iterator<Item = (u32, u32, f32)>,
{
    check_nodes(num_nodes)?;
    let mut self_loops = 0;
    let mut offsets = vec![0; num_nodes + 1];
    for (u, v, _) in pairs() {
        if u == v {
            self_loops += 1;
        } else {
            offsets[u as usize + 1] += 1;
            offsets[v as usize + 1] += 1;
        }
    }
    accumulate(&mut offsets);
    let mut cursor = offsets.clone();
    let mut entries = vec![E::default(); offsets[num_nodes] as usize];
    let mut place = |u: u32, entry: E| {
        entries[cursor[u as usize] as usize] = entry;
        cursor[u as usize] += 1;
    };
    for (u, v, w) in pairs().filter(|&(u, v, _)| u != v) {
        place(u, E::new(v << 1, w));
        place(v, E::new(u << 1 | 1, w));
    }
    for node in 0..num_nodes {
        entries[offsets[node] as usize..offsets[node + 1] as usize].sort_unstable();
    }
    simplify(offsets, entries, self_loops)
}

pub(super) fn parallel<E, S, I>(num_nodes: usize, stream: S) -> Result<(Graph, Repairs)>
where
    E: Entry,
    S: Fn() -> I,
    I: ParallelIterator<Item = (u32, u32, f32)>,
{
    check_nodes(num_nodes)?;
    let self_loops = AtomicU64::new(0);
    let degrees: Vec<AtomicU64> = (0..=num_nodes).map(|_| AtomicU64::new(0)).collect();
    stream().try_for_each(|(u, v, _)| {
        if u.max(v) as usize >= num_nodes {
            return Err(Error::data(format!(
                "pair ({u}, {v}) is out of range for {num_nodes} nodes"
            )));
        }
        if u == v {
            self_loops.fetch_add(1, Relaxed);
        } else {
            degrees[u as usize + 1].fetch_add(1, Relaxed);
            degrees[v as usize + 1].fetch_add(1, Relaxed);
        }
        Ok(())
    })?;
    let mut offsets: Vec<u64> = degrees.into_iter().map(AtomicU64::into_inner).collect();
    accumulate(&mut offsets);
    let cursor: Vec<AtomicU64> = offsets.iter().map(|&o| AtomicU64::new(o)).collect();
    let mut cells = Vec::new();
    cells.resize_with(offsets[num_nodes] as usize, E::cell);
    stream().filter(|&(u, v, _)| u != v).for_each(|(u, v, w)| {
        let place = |u: u32, entry: E| {
            E::store(&cells[cursor[u as usize].fetch_add(1, Relaxed) as usize], entry);
        };
        place(u, E::new(v << 1, w));
        place(v, E::new(u << 1 | 1, w));
    });
    drop(cursor);
    let mut entries: Vec<E> = cells.into_iter().map(E::take).collect();
    sort_rows(&offsets, &mut entries);
    simplify(offsets, entries, self_loops.into_inner())
}

fn accumulate(offsets: &mut [u64]) {
    let mut sum = 0;
    for offset in offsets {
        sum += *offset;
        *offset = sum;
    }
}

/// Sorts every row of `entries`, halving the rows between threads until a piece is small.
fn sort_rows<E: Entry>(offsets: &[u64], entries: &mut [E]) {
    let rows = offsets.len() - 1;
    if rows <= 1 || entries.len() < PARALLEL {
        for row in offsets.windows(2) {
            let start = (row[0] - offsets[0]) as usize;
            entries[start..(row[1] - offsets[0]) as usize].sort_unstable();
        }
        return;
    }
    let (left, right) = (&offsets[..=rows / 2], &offsets[rows / 2..]);
    let (low, high) = entries.split_at_mut((right[0] - left[0]) as usize);
    rayon::join(|| sort_rows(left, low), || sort_rows(right, high));
}

/// Merges the entries of sorted rows that name the same neighbour, in place.
fn simplify<E: Entry>(
    mut offsets: Vec<u64>,
    mut entries: Vec<E>,
    self_loops: u64,
) -> Result<(Graph, Repairs)> {
    let mut repairs = Repairs { self_loops, ..Repairs::default() };
    let mut write = 0;
    let mut start = 0;
    for u in 0..offsets.len() - 1 {
        let end = offsets[u + 1] as usize;
        let mut read = start;
        while read < end {
            let neighbor = entries[read].key() >> 1;
            let mut listed = [0u64; 2];
            // By direction, so that both ends add up the same way.
            let mut sums = [0.0; 2];
            while read < end && entries[read].key() >> 1 == neighbor {
                let direction = (entries[read].key() & 1) as usize;
                listed[direction] += 1;
                sums[direction] += f64::from(entries[read].weight());
                read += 1;
            }
            let weight = sums[0] + sums[1];
            // Every edge is seen from both ends; report it once.
            if u < neighbor as usize {
                repairs.duplicates += listed.iter().map(|l| l.saturating_sub(1)).sum::<u64>();
                repairs.one_way += u64::from(listed.contains(&0));
            }
            if weight > f64::from(f32::MAX) {
                return Err(Error::data(format!(
                    "the weights of edge ({u}, {neighbor}) add up to {weight:e}, more than fits"
                )));
            }
            entries[write] = E::new(neighbor, weight as f32);
            write += 1;
        }
        start = end;
        offsets[u + 1] = write as u64;
    }
    entries.truncate(write);
    entries.shrink_to_fit();
    let weights = E::WEIGHTED.then(|| entries.iter().map(|e| e.weight()).collect());
    let targets = entries.into_iter().map(E::key).collect();
    Ok((Rows { offsets, targets, weights }.into(), repairs))
}

/// A graph while its rows are written one after another.
pub(super) struct Rows {
    offsets: Vec<u64>,
    targets: Vec<u32>,
    weights: Option<Vec<f32>>,
}

impl Rows {
    pub(super) fn new(nodes: usize, weighted: bool) -> Rows {
        let mut offsets = Vec::with_capacity(nodes + 1);
        offsets.push(0);
        Rows { offsets, targets: Vec::new(), weights: weighted.then(Vec::new) }
    }

    /// Makes room for that many entries.
    pub(super) fn reserve(&mut self, entries: usize) {
        self.targets.reserve(entries);
        if let Some(weights) = &mut self.weights {
            weights.reserve(entries);
        }
    }

    pub(super) fn push(&mut self, row: impl Iterator<Item = (u32, f32)>) {
        for (v, w) in row {
            self.targets.push(v);
            if let Some(weights) = &mut self.weights {
                weights.push(w);
            }
        }
        self.offsets.push(self.targets.len() as u64);
    }

    pub(super) fn append(&mut self, other: &Rows) {
        let base = self.targets.len() as u64;
        self.offsets.extend(other.offsets[1..].iter().map(|o| o + base));
        self.targets.extend_from_slice(&other.targets);
        if let (Some(to), Some(from)) = (&mut self.weights, &other.weights) {
            to.extend_from_slice(from);
        }
    }
}

impl From<Rows> for Graph {
    fn from(rows: Rows) -> Graph {
        Graph {
            offsets: rows.offsets.into(),
            targets: rows.targets.into(),
            weights: rows.weights.map(Buffer::from),
        }
    }
}
