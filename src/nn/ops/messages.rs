//! Messages that are sums, added up in several ways at once: the middle of principal neighbourhood aggregation.
//!
//! ```text
//! m_a = p_target(a) + q_source(a) + e_a          z_i = [x_i, ⊕₁, ⊕₂, …] of m_a over the arcs a that end at i
//! ```
//!
//! with ⊕ mean, sum, largest or smallest, column by column; without arcs, 0. Rows that receive may be others than those that send:
//! [`Links`] says which one each of them was. Messages are never written down: the backward pass
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

/// Arcs from rows to other rows.
#[derive(Clone, Debug)]
pub struct Links {
    /// The sending row that each receiving one was; the same one if none.
    pub own: Option<Arc<Groups>>,
    /// Arcs by the row that sends.
    pub sources: Arc<Groups>,
    /// Arcs by the row that receives.
    pub targets: Arc<Groups>,
    /// The row of arc terms for every arc; the same one if none.
    pub arcs: Option<Arc<Groups>>,
}

impl Links {
    /// Those of a graph with itself.
    pub fn of(structure: &Structure) -> Links {
        let (sources, targets) = (structure.by_source.clone(), structure.by_target.clone());
        Links { own: None, sources, targets, arcs: None }
    }

    /// The sending row that a receiving one was.
    fn own(&self, row: usize) -> usize {
        self.own.as_ref().map_or(row, |own| own.of_row()[row] as usize)
    }

    /// The receiving rows that a sending one became.
    fn became(&self, row: usize) -> impl Iterator<Item = usize> {
        let (one, some) = match &self.own {
            None => (Some(row), &[][..]),
            Some(own) => (None, own.rows(row)),
        };
        one.into_iter().chain(some.iter().map(|&row| row as usize))
    }

    fn term(&self, arc: usize) -> usize {
        self.arcs.as_ref().map_or(arc, |arcs| arcs.of_row()[arc] as usize)
    }
}

/// States and aggregates side by side: states `[rows, width]`, terms of receivers and senders `[rows, 2 columns]` and of arcs
/// `[arcs, columns]` → `[receiving rows, width + aggregators × columns]`.
pub fn aggregate(
    pass: &Pass,
    links: &Links,
    states: Tensor<2>,
    ends: Tensor<2>,
    terms: Option<Tensor<2>>,
    aggregators: &[Aggregator],
) -> Tensor<2> {
    let composed = |[states, ends, terms]: [Tensor<2>; 3], has_terms: bool| {
        let width = ends.dims()[1] / 2;
        let own = |x: Tensor<2>| match &links.own {
            Some(own) => gather(pass, own, x),
            None => x,
        };
        let mut messages = gather(pass, &links.targets, own(ends.clone().narrow(1, 0, width)))
            + gather(pass, &links.sources, ends.narrow(1, width, width));
        if has_terms {
            messages = messages
                + match &links.arcs {
                    Some(arcs) => gather(pass, arcs, terms),
                    None => terms,
                };
        }
        let aggregates = aggregated(pass, &links.targets, &messages, aggregators);
        Tensor::cat(vec![own(states), aggregates], 1)
    };
    let has_terms = terms.is_some();
    let terms = terms.unwrap_or_else(|| Tensor::zeros([1, 1], pass.device()));
    let kernel = Arc::new(Aggregate {
        links: links.clone(),
        aggregators: aggregators.to_vec(),
        states: states.dims()[1],
        width: ends.dims()[1] / 2,
        has_terms,
        simd: pass.simd(),
        team: pass.team().clone(),
    });
    let inputs = [states, ends, terms];
    if pass.is_composed() || links.targets.of_row().is_empty() {
        return composed(inputs, has_terms);
    }
    apply(&kernel, inputs).unwrap_or_else(|inputs| composed(inputs, has_terms))
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
    links: Links,
    aggregators: Vec<Aggregator>,
    /// Numbers of a state.
    states: usize,
    /// Numbers of a message.
    width: usize,
    has_terms: bool,
    simd: Simd,
    team: Arc<Team>,
}

impl Aggregate {
    fn columns(&self) -> usize {
        self.states + self.aggregators.len() * self.width
    }
}

impl Operation<3> for Aggregate {
    /// For the largest and for the smallest, the arc of every row and column; empty if they are not asked for.
    type Saved = [Vec<u32>; 2];
    const KEEPS_INPUTS: bool = false;

    fn shape(&self, _: [[usize; 2]; 3]) -> [usize; 2] {
        [self.links.targets.len(), self.columns()]
    }

    fn forward(&self, inputs: [&[f32]; 3]) -> (Vec<f32>, [Vec<u32>; 2]) {
        let Aggregate { width, simd, .. } = *self;
        let rows = self.links.targets.len();
        let mut z = vec![0.0; rows * self.columns()];
        let wants = [Aggregator::Max, Aggregator::Min].map(|kind| self.aggregators.contains(&kind));
        let mut which = wants.map(|wanted| vec![u32::MAX; if wanted { rows * width } else { 0 }]);
        let piece = rows.div_ceil(PIECES).max(1);
        let [largest, smallest] = &mut which;
        let empty = || (0..).map(|_| &mut [][..]);
        let pieces = z.chunks_mut(piece * self.columns());
        let largest: Box<dyn Iterator<Item = &mut [u32]>> =
            if wants[0] { Box::new(largest.chunks_mut(piece * width)) } else { Box::new(empty()) };
        let smallest: Box<dyn Iterator<Item = &mut [u32]>> =
            if wants[1] { Box::new(smallest.chunks_mut(piece * width)) } else { Box::new(empty()) };
        let pieces: Vec<_> = pieces.zip(largest).zip(smallest).enumerate().collect();
        self.team.each(pieces, |(number, ((z, largest), smallest))| {
            let first = number * piece;
            simd.run(Forward { of: self, first, inputs, z, which: [largest, smallest] });
        });
        (z, which)
    }

    fn backward(&self, kept: Kept<'_, [Vec<u32>; 2], 3>, gradient: &[f32]) -> [Vec<f32>; 3] {
        let Aggregate { states, width, simd, ref links, .. } = *self;
        let mut by_arc = vec![0.0; links.targets.of_row().len() * width];
        self.team.share_rows(&mut by_arc, width, |first, by_arc| {
            simd.run(Backward { of: self, first, gradient, which: kept.saved, by_arc });
        });
        let before = links.own.as_ref().map_or(links.targets.len(), |own| own.len());
        let mut by_states = vec![0.0; before * states];
        self.team.share_rows(&mut by_states, states, |first, rows| {
            for (row, sum) in rows.chunks_exact_mut(states).enumerate() {
                for became in links.became(first + row) {
                    add(sum, &gradient[became * self.columns()..][..states]);
                }
            }
        });
        let mut by_ends = vec![0.0; before * 2 * width];
        self.team.share_rows(&mut by_ends, 2 * width, |first, rows| {
            simd.run(AddUp { links, width, first, by_arc: &by_arc, rows });
        });
        let by_terms = match &links.arcs {
            _ if !self.has_terms => vec![0.0],
            None => by_arc,
            Some(arcs) => {
                let mut by_terms = vec![0.0; arcs.len() * width];
                self.team.share_rows(&mut by_terms, width, |first, rows| {
                    for (row, sum) in rows.chunks_exact_mut(width).enumerate() {
                        for &arc in arcs.rows(first + row) {
                            add(sum, &by_arc[arc as usize * width..][..width]);
                        }
                    }
                });
                by_terms
            }
        };
        [by_states, by_ends, by_terms]
    }
}

#[inline(always)]
fn add(sum: &mut [f32], row: &[f32]) {
    sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
}

/// Pieces that nodes are shared out in.
const PIECES: usize = 64;

struct Forward<'a> {
    of: &'a Aggregate,
    first: usize,
    inputs: [&'a [f32]; 3],
    z: &'a mut [f32],
    which: [&'a mut [u32]; 2],
}

impl Kernel for Forward<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Aggregate { states, width, ref links, ref aggregators, has_terms, .. } = *self.of;
        let [before, of_ends, terms] = self.inputs;
        let [most, least] = self.which;
        let (mut sums, mut message) = (vec![0.0; width], vec![0.0; width]);
        let mut ends = [vec![0.0; width], vec![0.0; width]];
        for (row, z) in self.z.chunks_exact_mut(self.of.columns()).enumerate() {
            let own = links.own(self.first + row);
            let (state, y) = z.split_at_mut(states);
            state.copy_from_slice(&before[own * states..][..states]);
            let arcs = links.targets.rows(self.first + row);
            if arcs.is_empty() {
                continue;
            }
            let own = &of_ends[own * 2 * width..][..width];
            sums.fill(0.0);
            ends[0].fill(f32::NEG_INFINITY);
            ends[1].fill(f32::INFINITY);
            for &arc in arcs {
                let arc_row = arc as usize;
                let source = links.sources.of_row()[arc_row] as usize;
                let other = &of_ends[source * 2 * width + width..][..width];
                let pair = own.iter().zip(other);
                message.iter_mut().zip(pair).for_each(|(m, (p, q))| *m = p + q);
                if has_terms {
                    let term = &terms[links.term(arc_row) * width..][..width];
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
        let Aggregate { states, width, ref links, ref aggregators, .. } = *self.of;
        let (targets, columns) = (&links.targets, self.of.columns());
        for (row, by_arc) in self.by_arc.chunks_exact_mut(width).enumerate() {
            let arc = (self.first + row) as u32;
            let node = targets.of_row()[arc as usize] as usize;
            let gradient = &self.gradient[node * columns..][states..columns];
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

/// For every sending row, the sums over the arcs that end at what it became, and over those that start there.
struct AddUp<'a> {
    links: &'a Links,
    width: usize,
    first: usize,
    by_arc: &'a [f32],
    rows: &'a mut [f32],
}

impl Kernel for AddUp<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let by_arc = |arc: &u32| &self.by_arc[*arc as usize * self.width..][..self.width];
        for (row, halves) in self.rows.chunks_exact_mut(2 * self.width).enumerate() {
            let (received, sent) = halves.split_at_mut(self.width);
            for became in self.links.became(self.first + row) {
                for arc in self.links.targets.rows(became) {
                    add(received, by_arc(arc));
                }
            }
            for arc in self.links.sources.rows(self.first + row) {
                add(sent, by_arc(arc));
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
        // Row 3 receives nothing; row 0 gets two messages from row 1.
        let sources = Groups::new(vec![1, 1, 2, 4, 0, 3, 4], 5);
        let targets = Groups::new(vec![0, 0, 0, 1, 2, 4, 4], 5);
        let same = Links { own: None, sources: sources.clone(), targets, arcs: None };
        // Six rows that were five, of which one is gone; seven arcs that were three.
        let others = Links {
            own: Some(Groups::new(vec![0, 0, 1, 3, 4, 4], 5)),
            sources,
            targets: Groups::new(vec![0, 0, 1, 1, 2, 4, 5], 6),
            arcs: Some(Groups::new(vec![2, 0, 0, 1, 2, 2, 1], 3)),
        };
        let all = [Aggregator::Mean, Aggregator::Sum, Aggregator::Max, Aggregator::Min];
        for (simd, team) in ways() {
            for (links, aggregators, width, has_terms) in [
                (&same, &all[..], 3, true),
                (&others, &all[..3], 8, true),
                (&others, &all[..], 5, true),
                (&same, &all[..2], 11, false),
            ] {
                let terms = links.arcs.as_ref().map_or(7, |arcs| arcs.len());
                let terms = if has_terms { terms * width } else { 1 };
                let inputs = [
                    random(5 * 4, [-1.0, 1.0], 3),
                    random(5 * 2 * width, [-1.0, 1.0], 1),
                    random(terms, [-1.0, 1.0], 2),
                ];
                let operation = Aggregate {
                    links: links.clone(),
                    aggregators: aggregators.to_vec(),
                    states: 4,
                    width,
                    has_terms,
                    simd,
                    team: team.clone(),
                };
                check(&operation, &inputs);
            }
        }
    }
}
