//! Messages that are sums, added up in several ways at once: the middle of principal neighbourhood aggregation.
//!
//! ```text
//! m_a = p_target(a) + q_source(a) + e_a          y_i = [⊕₁, ⊕₂, …] of m_a over the arcs a that end at i
//! ```
//!
//! with ⊕ mean, sum, largest or smallest, column by column; without arcs, 0. Messages are never written down: the backward pass
//! needs the number of arcs and, for the largest and smallest, which arc it was, the first of several.

use std::sync::Arc;

use burn::tensor::Tensor;

use super::rows::{Groups, gather, max, sum};
use super::{Kept, Operation, apply};
use crate::nn::batch::Structure;
use crate::nn::fused::Team;
use crate::nn::message::{Aggregator, mean};
use crate::nn::pass::Pass;
use crate::simd::{Kernel, Simd, Vector};

/// Aggregates side by side: terms of targets and sources `[nodes, 2 width]` and of arcs `[arcs, width]` →
/// `[nodes, aggregators × width]`.
pub fn aggregate(
    pass: &Pass,
    structure: &Structure,
    ends: Tensor<2>,
    arcs: Option<Tensor<2>>,
    aggregators: &[Aggregator],
) -> Tensor<2> {
    let (sources, targets) = (&structure.by_source, &structure.by_target);
    if pass.is_composed() || targets.of_row().is_empty() {
        return composed(pass, [sources, targets], ends, arcs, aggregators);
    }
    let kernel = Arc::new(Aggregate {
        sources: sources.clone(),
        targets: targets.clone(),
        aggregators: aggregators.to_vec(),
        width: ends.dims()[1] / 2,
        has_arcs: arcs.is_some(),
        simd: pass.simd(),
        team: pass.team().clone(),
    });
    let given = arcs.is_some();
    let terms = arcs.unwrap_or_else(|| Tensor::zeros([1, 1], pass.device()));
    apply(&kernel, [ends, terms]).unwrap_or_else(|[ends, terms]| {
        composed(pass, [sources, targets], ends, given.then_some(terms), aggregators)
    })
}

fn composed(
    pass: &Pass,
    [sources, targets]: [&Arc<Groups>; 2],
    ends: Tensor<2>,
    arcs: Option<Tensor<2>>,
    aggregators: &[Aggregator],
) -> Tensor<2> {
    let width = ends.dims()[1] / 2;
    let mut messages = gather(pass, targets, ends.clone().narrow(1, 0, width))
        + gather(pass, sources, ends.narrow(1, width, width));
    if let Some(arcs) = arcs {
        messages = messages + arcs;
    }
    aggregated(pass, targets, &messages, aggregators)
}

/// The same of messages that are written down: `[arcs, width]` → `[nodes, aggregators × width]`.
pub fn aggregated(
    pass: &Pass,
    targets: &Arc<Groups>,
    messages: &Tensor<2>,
    aggregators: &[Aggregator],
) -> Tensor<2> {
    let each = aggregators.iter().map(|aggregator| {
        let messages = messages.clone();
        match aggregator {
            Aggregator::Mean => mean(pass, targets, messages),
            Aggregator::Sum => sum(pass, targets, messages),
            Aggregator::Max => max(pass, targets, messages),
            Aggregator::Min => max(pass, targets, messages.neg()).neg(),
        }
    });
    Tensor::cat(each.collect(), 1)
}

#[derive(Debug)]
struct Aggregate {
    sources: Arc<Groups>,
    targets: Arc<Groups>,
    aggregators: Vec<Aggregator>,
    width: usize,
    has_arcs: bool,
    simd: Simd,
    team: Arc<Team>,
}

impl Operation<2> for Aggregate {
    /// For the largest and for the smallest, the arc of every node and column; empty if they are not asked for.
    type Saved = [Vec<u32>; 2];
    const KEEPS_INPUTS: bool = false;

    fn shape(&self, _: [[usize; 2]; 2]) -> [usize; 2] {
        [self.targets.len(), self.aggregators.len() * self.width]
    }

    fn forward(&self, [ends, terms]: [&[f32]; 2]) -> (Vec<f32>, [Vec<u32>; 2]) {
        let Aggregate { width, simd, .. } = *self;
        let nodes = self.targets.len();
        let columns = self.aggregators.len() * width;
        let mut y = vec![0.0; nodes * columns];
        let wants = [Aggregator::Max, Aggregator::Min].map(|kind| self.aggregators.contains(&kind));
        let mut which = wants.map(|wanted| vec![u32::MAX; if wanted { nodes * width } else { 0 }]);
        let piece = nodes.div_ceil(PIECES).max(1);
        let [largest, smallest] = &mut which;
        let empty = || (0..).map(|_| &mut [][..]);
        let pieces = y.chunks_mut(piece * columns);
        let largest: Box<dyn Iterator<Item = &mut [u32]>> =
            if wants[0] { Box::new(largest.chunks_mut(piece * width)) } else { Box::new(empty()) };
        let smallest: Box<dyn Iterator<Item = &mut [u32]>> =
            if wants[1] { Box::new(smallest.chunks_mut(piece * width)) } else { Box::new(empty()) };
        let pieces: Vec<_> = pieces.zip(largest).zip(smallest).enumerate().collect();
        self.team.each(pieces, |(number, ((y, largest), smallest))| {
            let first = number * piece;
            simd.run(Forward { of: self, first, ends, terms, y, which: [largest, smallest] });
        });
        (y, which)
    }

    fn backward(&self, kept: Kept<'_, [Vec<u32>; 2], 2>, gradient: &[f32]) -> [Vec<f32>; 2] {
        let Aggregate { width, simd, .. } = *self;
        let mut by_arc = vec![0.0; self.targets.of_row().len() * width];
        self.team.share_rows(&mut by_arc, width, |first, by_arc| {
            simd.run(Backward { of: self, first, gradient, which: kept.saved, by_arc });
        });
        let mut by_ends = vec![0.0; self.targets.len() * 2 * width];
        self.team.share_rows(&mut by_ends, 2 * width, |first, rows| {
            let groups = [&*self.targets, &*self.sources];
            simd.run(AddUp { groups, width, first, by_arc: &by_arc, rows });
        });
        [by_ends, if self.has_arcs { by_arc } else { vec![0.0] }]
    }
}

/// Pieces that nodes are shared out in.
const PIECES: usize = 64;

struct Forward<'a> {
    of: &'a Aggregate,
    first: usize,
    ends: &'a [f32],
    terms: &'a [f32],
    y: &'a mut [f32],
    which: [&'a mut [u32]; 2],
}

impl Kernel for Forward<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Aggregate { width, ref sources, ref targets, ref aggregators, has_arcs, .. } = *self.of;
        let [most, least] = self.which;
        let (mut sums, mut message) = (vec![0.0; width], vec![0.0; width]);
        let mut ends = [vec![0.0; width], vec![0.0; width]];
        for (row, y) in self.y.chunks_exact_mut(aggregators.len() * width).enumerate() {
            let node = self.first + row;
            let arcs = targets.rows(node);
            if arcs.is_empty() {
                continue;
            }
            let own = &self.ends[node * 2 * width..][..width];
            sums.fill(0.0);
            ends[0].fill(f32::NEG_INFINITY);
            ends[1].fill(f32::INFINITY);
            for &arc in arcs {
                let arc_row = arc as usize;
                let source = sources.of_row()[arc_row] as usize;
                let other = &self.ends[source * 2 * width + width..][..width];
                let pair = own.iter().zip(other);
                message.iter_mut().zip(pair).for_each(|(m, (p, q))| *m = p + q);
                if has_arcs {
                    let term = &self.terms[arc_row * width..][..width];
                    message.iter_mut().zip(term).for_each(|(m, e)| *m += e);
                }
                sums.iter_mut().zip(&message).for_each(|(sum, m)| *sum += m);
                if !most.is_empty() {
                    let which = &mut most[row * width..][..width];
                    for ((best, which), &m) in ends[0].iter_mut().zip(which).zip(&message) {
                        let better = m > *best || *which == u32::MAX;
                        *best = if better { m } else { *best };
                        *which = if better { arc } else { *which };
                    }
                }
                if !least.is_empty() {
                    let which = &mut least[row * width..][..width];
                    for ((best, which), &m) in ends[1].iter_mut().zip(which).zip(&message) {
                        let better = m < *best || *which == u32::MAX;
                        *best = if better { m } else { *best };
                        *which = if better { arc } else { *which };
                    }
                }
            }
            let share = 1.0 / arcs.len() as f32;
            for (aggregator, y) in aggregators.iter().zip(y.chunks_exact_mut(width)) {
                match aggregator {
                    Aggregator::Sum => y.copy_from_slice(&sums),
                    Aggregator::Max => y.copy_from_slice(&ends[0]),
                    Aggregator::Min => y.copy_from_slice(&ends[1]),
                    Aggregator::Mean => {
                        y.iter_mut().zip(&sums).for_each(|(y, sum)| *y = sum * share);
                    }
                }
            }
        }
    }
}

struct Backward<'a> {
    of: &'a Aggregate,
    first: usize,
    gradient: &'a [f32],
    which: &'a [Vec<u32>; 2],
    by_arc: &'a mut [f32],
}

impl Kernel for Backward<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Aggregate { width, ref targets, ref aggregators, .. } = *self.of;
        for (row, by_arc) in self.by_arc.chunks_exact_mut(width).enumerate() {
            let arc = (self.first + row) as u32;
            let node = targets.of_row()[arc as usize] as usize;
            let columns = aggregators.len() * width;
            let gradient = &self.gradient[node * columns..][..columns];
            for (aggregator, dy) in aggregators.iter().zip(gradient.chunks_exact(width)) {
                match aggregator {
                    Aggregator::Sum => by_arc.iter_mut().zip(dy).for_each(|(sum, dy)| *sum += dy),
                    Aggregator::Mean => {
                        let share = 1.0 / targets.rows(node).len() as f32;
                        by_arc.iter_mut().zip(dy).for_each(|(sum, dy)| *sum += dy * share);
                    }
                    Aggregator::Max | Aggregator::Min => {
                        let which = &self.which[usize::from(*aggregator == Aggregator::Min)];
                        let which = &which[node * width..][..width];
                        for ((sum, dy), &which) in by_arc.iter_mut().zip(dy).zip(which) {
                            *sum += if which == arc { *dy } else { 0.0 };
                        }
                    }
                }
            }
        }
    }
}

/// For every node, the sums over the arcs that end there and over those that start there.
struct AddUp<'a> {
    groups: [&'a Groups; 2],
    width: usize,
    first: usize,
    by_arc: &'a [f32],
    rows: &'a mut [f32],
}

impl Kernel for AddUp<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        for (row, halves) in self.rows.chunks_exact_mut(2 * self.width).enumerate() {
            for (groups, sum) in self.groups.iter().zip(halves.chunks_exact_mut(self.width)) {
                for &arc in groups.rows(self.first + row) {
                    let own = &self.by_arc[arc as usize * self.width..][..self.width];
                    sum.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::differences::{check, random, ways};
    use super::*;

    #[test]
    fn aggregates_have_their_derivatives() {
        // Node 3 receives nothing; node 0 gets two messages from node 1.
        let sources = Groups::new(vec![1, 1, 2, 4, 0, 3, 4], 5);
        let targets = Groups::new(vec![0, 0, 0, 1, 2, 4, 4], 5);
        let all = [Aggregator::Mean, Aggregator::Sum, Aggregator::Max, Aggregator::Min];
        for (simd, team) in ways() {
            for (aggregators, width, has_arcs) in
                [(&all[..], 3, true), (&all[..3], 8, true), (&all[..2], 11, false)]
            {
                let terms = if has_arcs { 7 * width } else { 1 };
                let inputs = [random(5 * 2 * width, [-1.0, 1.0], 1), random(terms, [-1.0, 1.0], 2)];
                let operation = Aggregate {
                    sources: sources.clone(),
                    targets: targets.clone(),
                    aggregators: aggregators.to_vec(),
                    width,
                    has_arcs,
                    simd,
                    team: team.clone(),
                };
                check(&operation, &inputs);
            }
        }
    }
}
