//! Messages that are sums, added up in several ways at once: the middle of principal neighbourhood aggregation.
//!
//! ```text
//! m_a = p_target(a) + q_source(a) + e_a          z_i = [⊕₁, ⊕₂, …] of m_a over the arcs a that end at i
//! ```
//!
//! with ⊕ mean, sum, largest or smallest, column by column; without arcs, 0. Rows that receive may be others than those that send:
//! [`Links`] says which one each of them was. Messages are never written down: the backward pass
//! needs the number of arcs and, for the largest and smallest, which arc it was, the first of several.

use std::sync::Arc;

use burn::tensor::Tensor;

use super::dense::BLOCK;
use super::rows::{AddRows, Groups, add, gather, max, sum};
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

/// Aggregates side by side: terms of receivers and senders `[rows, 2 columns]` and of arcs `[arcs, columns]` →
/// `[receiving rows, aggregators × columns]`.
pub fn aggregate(
    pass: &Pass,
    links: &Links,
    ends: Tensor<2>,
    terms: Option<Tensor<2>>,
    aggregators: &[Aggregator],
) -> Tensor<2> {
    let composed = |[ends, terms]: [Tensor<2>; 2], has_terms: bool| {
        let width = ends.dims()[1] / 2;
        let received = ends.clone().narrow(1, 0, width);
        let received = match &links.own {
            Some(own) => gather(pass, own, received),
            None => received,
        };
        let mut messages = gather(pass, &links.targets, received)
            + gather(pass, &links.sources, ends.narrow(1, width, width));
        if has_terms {
            messages = messages
                + match &links.arcs {
                    Some(arcs) => gather(pass, arcs, terms),
                    None => terms,
                };
        }
        aggregated(pass, &links.targets, &messages, aggregators)
    };
    let has_terms = terms.is_some();
    let terms = terms.unwrap_or_else(|| Tensor::zeros([1, 1], pass.device()));
    let kernel = Arc::new(Aggregate {
        links: links.clone(),
        aggregators: aggregators.to_vec(),
        width: ends.dims()[1] / 2,
        has_terms,
        simd: pass.simd(),
        team: pass.team().clone(),
    });
    let inputs = [ends, terms];
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
    /// Numbers of a message.
    width: usize,
    has_terms: bool,
    simd: Simd,
    team: Arc<Team>,
}

impl Aggregate {
    fn columns(&self) -> usize {
        self.aggregators.len() * self.width
    }
}

impl Operation<2> for Aggregate {
    /// For the largest and for the smallest, the arc of every row and column; empty if they are not asked for.
    type Saved = [Vec<u32>; 2];
    const KEEPS_INPUTS: bool = false;

    fn shape(&self, _: [[usize; 2]; 2]) -> [usize; 2] {
        [self.links.targets.len(), self.columns()]
    }

    fn forward(&self, inputs: [&[f32]; 2]) -> (Vec<f32>, [Vec<u32>; 2]) {
        let Aggregate { width, simd, .. } = *self;
        let rows = self.links.targets.len();
        let wants = [Aggregator::Max, Aggregator::Min].map(|kind| self.aggregators.contains(&kind));
        let mut which = wants.map(|wanted| vec![0; if wanted { rows * width } else { 0 }]);
        let [largest, smallest] = &mut which;
        let mut rest = [&mut largest[..], &mut smallest[..]];
        let pieces = (0..rows).step_by(BLOCK).map(|first| {
            let count = BLOCK.min(rows - first);
            let which = rest.each_mut().map(|rest| {
                rest.split_off_mut(..(count * width).min(rest.len())).unwrap_or_default()
            });
            (first, which)
        });
        let room = |(first, _): &(usize, _)| BLOCK.min(rows - first) * self.columns();
        let z = self.team.make(pieces, room, |(first, which), z| {
            simd.run(Forward { of: self, first, inputs, z: z.rest(), which });
        });
        (z, which)
    }

    fn backward(&self, kept: Kept<'_, [Vec<u32>; 2], 2>, gradient: &[f32]) -> [Vec<f32>; 2] {
        let Aggregate { width, simd, ref links, .. } = *self;
        let by_arc = self.team.make_rows(links.targets.of_row().len(), width, |first, by_arc| {
            simd.run(Backward { of: self, first, gradient, which: kept.saved, by_arc });
        });
        let before = links.own.as_ref().map_or(links.targets.len(), |own| own.len());
        let by_ends = self.team.make_rows(before, 2 * width, |first, rows| {
            simd.run(ByEnds { links, width, first, by_arc: &by_arc, rows });
        });
        let by_terms = match &links.arcs {
            _ if !self.has_terms => vec![0.0],
            None => by_arc,
            Some(arcs) => self.team.make_rows(arcs.len(), width, |first, rows| {
                simd.run(AddRows { groups: arcs, first, from: &by_arc, width, sums: rows });
            }),
        };
        [by_ends, by_terms]
    }
}

struct Forward<'a> {
    of: &'a Aggregate,
    first: usize,
    inputs: [&'a [f32]; 2],
    z: &'a mut [f32],
    which: [&'a mut [u32]; 2],
}

impl Kernel for Forward<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Aggregate { width, ref links, ref aggregators, has_terms, .. } = *self.of;
        let [of_ends, terms] = self.inputs;
        let [most, least] = self.which;
        let (mut sums, mut message) = (vec![0.0; width], vec![0.0; width]);
        let mut ends = [vec![0.0; width], vec![0.0; width]];
        for (row, z) in self.z.chunks_exact_mut(self.of.columns()).enumerate() {
            let own = links.own(self.first + row);
            let arcs = links.targets.rows(self.first + row);
            let own = &of_ends[own * 2 * width..][..width];
            for (number, &arc) in arcs.iter().enumerate() {
                let arc_row = arc as usize;
                let source = links.sources.of_row()[arc_row] as usize;
                let other = &of_ends[source * 2 * width + width..][..width];
                let pair = own.iter().zip(other);
                message.iter_mut().zip(pair).for_each(|(m, (p, q))| *m = p + q);
                if has_terms {
                    let term = &terms[links.term(arc_row) * width..][..width];
                    add(&mut message, term);
                }
                if number == 0 {
                    sums.copy_from_slice(&message);
                } else {
                    add(&mut sums, &message);
                }
                for (kind, which) in [&mut *most, &mut *least].into_iter().enumerate() {
                    if which.is_empty() {
                        continue;
                    }
                    let which = &mut which[row * width..][..width];
                    let best = &mut ends[kind][..];
                    if number == 0 {
                        best.copy_from_slice(&message);
                        which.fill(arc);
                        continue;
                    }
                    for ((best, which), &m) in best.iter_mut().zip(which).zip(&message) {
                        let better = if kind == 0 { m > *best } else { m < *best };
                        *best = if better { m } else { *best };
                        *which = if better { arc } else { *which };
                    }
                }
            }
            if arcs.is_empty() {
                continue;
            }
            let share = 1.0 / arcs.len() as f32;
            for (aggregator, y) in aggregators.iter().zip(z.chunks_exact_mut(width)) {
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
        let Aggregate { width, ref links, ref aggregators, .. } = *self.of;
        let (targets, columns) = (&links.targets, self.of.columns());
        for (row, by_arc) in self.by_arc.chunks_exact_mut(width).enumerate() {
            let arc = (self.first + row) as u32;
            let node = targets.of_row()[arc as usize] as usize;
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

/// For every sending row, the sums over the arcs that end at what it became, and over those that start there.
struct ByEnds<'a> {
    links: &'a Links,
    width: usize,
    first: usize,
    by_arc: &'a [f32],
    rows: &'a mut [f32],
}

impl Kernel for ByEnds<'_> {
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
                (&others, &all[..], 21, true),
                (&others, &all[..], 5, true),
                (&same, &all[..2], 11, false),
            ] {
                let terms = links.arcs.as_ref().map_or(7, |arcs| arcs.len());
                let terms = if has_terms { terms * width } else { 1 };
                let inputs = [random(5 * 2 * width, [-1.0, 1.0], 1), random(terms, [-1.0, 1.0], 2)];
                let operation = Aggregate {
                    links: links.clone(),
                    aggregators: aggregators.to_vec(),
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
