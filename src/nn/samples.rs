//! Who attends to whom where neighbours are sampled: pairs of a target and a row of the batch, with hops.

use std::sync::Arc;

use super::ops::rows::Groups;

/// A target and a row that it attends to, so many hops away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// The target, which is a row.
    pub target: u32,
    /// The row attended to.
    pub row: u32,
    /// From 0, the target itself.
    pub hop: u32,
}

/// The pairs of a batch whose first rows are targets, in the order of these.
#[derive(Debug, PartialEq)]
pub struct Samples {
    by_target: Arc<Groups>,
    by_row: Arc<Groups>,
    by_hop: Arc<Groups>,
    /// − log of how many rows the target of a pair has at its hop.
    prior: Vec<f32>,
}

impl Samples {
    /// Pairs of so many targets and rows, with hops from 0 to `hops`.
    ///
    /// # Panics
    /// If targets are more than rows, or a pair has a number that is out of range.
    pub fn new([targets, rows, hops]: [usize; 3], mut pairs: Vec<Sampled>) -> Samples {
        assert!(targets <= rows, "targets are rows");
        pairs.sort_by_key(|pair| pair.target);
        let kinds = hops + 1;
        let place = |pair: &Sampled| pair.target as usize * kinds + pair.hop as usize;
        let mut counts = vec![0u32; targets * kinds];
        pairs.iter().for_each(|pair| counts[place(pair)] += 1);
        let prior = pairs.iter().map(|pair| -(counts[place(pair)] as f32).ln()).collect();
        let of = |part: fn(&Sampled) -> u32, count: usize| {
            Groups::new(pairs.iter().map(part).collect(), count)
        };
        Samples {
            by_target: of(|pair| pair.target, targets),
            by_row: of(|pair| pair.row, rows),
            by_hop: of(|pair| pair.hop, kinds),
            prior,
        }
    }

    /// Number of targets.
    pub fn targets(&self) -> usize {
        self.by_target.len()
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.by_row.len()
    }

    /// Hops, at most.
    pub fn hops(&self) -> usize {
        self.by_hop.len() - 1
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.prior.len()
    }

    /// Whether there is no pair.
    pub fn is_empty(&self) -> bool {
        self.prior.is_empty()
    }

    /// Pairs by target, in this order.
    pub fn by_target(&self) -> &Arc<Groups> {
        &self.by_target
    }

    /// Pairs by the row that is attended to.
    pub fn by_row(&self) -> &Arc<Groups> {
        &self.by_row
    }

    /// Pairs by hop.
    pub fn by_hop(&self) -> &Arc<Groups> {
        &self.by_hop
    }

    /// − log of how many rows the target of each pair has at its hop.
    pub fn prior(&self) -> &[f32] {
        &self.prior
    }
}
