//! The random walk on arcs, advanced for eight targets at once.
//!
//! P = D⁻¹A with A the number of arcs from u to v and D the out-degrees. Column v of P^k holds the
//! probabilities to be at v after k steps, by where the walk began; the next column is
//!
//! (P c)_u = mean of c_v over all arcs u → v,
//!
//! a sum over the row of u. Eight columns stand side by side, so that one pass over the arcs serves
//! all eight and the processor adds several at a time, while every column is summed in the order in
//! which it would be alone.

use crate::graph::out_of_range;
use crate::{Error, Result};

/// Columns that advance together.
pub(super) const LANES: usize = 8;

/// One number of each of the columns.
pub(super) type Lanes = [f64; LANES];

/// What becomes of arcs from a node to itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SelfLoops {
    /// They are steps that stay, and count in the degree.
    #[default]
    Keep,
    /// They are left out, of the degree too.
    Drop,
}

/// The transition matrix P = D⁻¹A of a random walk along arcs.
///
/// Repeated arcs count as often as they are given. A walk at a node without arcs ends there: its row of
/// P is zero.
///
/// ```
/// use hdse::encoding::{SelfLoops, Walk};
/// let walk = Walk::new(3, &[0, 0, 0], &[0, 1, 1], SelfLoops::Drop)?;
/// assert_eq!(walk.row(0), [1, 1]);
/// assert!(Walk::new(3, &[0], &[3], SelfLoops::Keep).is_err());
/// # Ok::<(), hdse::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    offsets: Vec<usize>,
    targets: Vec<u32>,
}

impl Walk {
    /// The walk on `num_nodes` nodes along arcs from `sources` to `targets`, in any order: rows are
    /// sorted, so results do not depend on it. O(n + m log of the largest degree).
    ///
    /// # Errors
    /// If the lists differ in length, or an id is not below `num_nodes`.
    pub fn new(
        num_nodes: usize,
        sources: &[u32],
        targets: &[u32],
        self_loops: SelfLoops,
    ) -> Result<Walk> {
        if sources.len() != targets.len() {
            return Err(Error::data(format!(
                "{} sources and {} targets; the two lists must be equally long",
                sources.len(),
                targets.len()
            )));
        }
        let arcs = || sources.iter().copied().zip(targets.iter().copied());
        if let Some(at) = arcs().position(|(u, v)| u.max(v) as usize >= num_nodes) {
            return Err(out_of_range(at, sources[at], targets[at], num_nodes));
        }
        let kept = || arcs().filter(|&(u, v)| u != v || self_loops == SelfLoops::Keep);
        let mut offsets = vec![0; num_nodes + 1];
        for (u, _) in kept() {
            offsets[u as usize + 1] += 1;
        }
        for u in 0..num_nodes {
            offsets[u + 1] += offsets[u];
        }
        let mut next = offsets.clone();
        let mut placed = vec![0; offsets[num_nodes]];
        for (u, v) in kept() {
            placed[next[u as usize]] = v;
            next[u as usize] += 1;
        }
        for u in 0..num_nodes {
            placed[offsets[u]..offsets[u + 1]].sort_unstable();
        }
        Ok(Walk { offsets, targets: placed })
    }

    /// Number of nodes.
    pub fn num_nodes(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Number of arcs that are walked along.
    pub fn num_arcs(&self) -> usize {
        self.targets.len()
    }

    /// Where the arcs of `node` lead, ascending, repeated arcs repeatedly.
    pub fn row(&self, node: u32) -> &[u32] {
        &self.targets[self.offsets[node as usize]..self.offsets[node as usize + 1]]
    }

    /// Columns `first`, `first + 1`, … of P⁰, the unit vectors.
    pub(super) fn begin(&self, first: usize, columns: &mut [Lanes]) {
        columns.fill([0.0; LANES]);
        for (lane, column) in columns.iter_mut().skip(first).take(LANES).enumerate() {
            column[lane] = 1.0;
        }
    }

    /// Columns of P^(k+1) from those of P^k.
    pub(super) fn step(&self, from: &[Lanes], to: &mut [Lanes]) {
        for (ends, cell) in self.offsets.windows(2).zip(to) {
            let row = &self.targets[ends[0]..ends[1]];
            let mut sum = [0.0; LANES];
            for &v in row {
                for (lane, &number) in sum.iter_mut().zip(&from[v as usize]) {
                    *lane += number;
                }
            }
            let share = if row.is_empty() { 0.0 } else { 1.0 / row.len() as f64 };
            *cell = sum.map(|lane| lane * share);
        }
    }
}
