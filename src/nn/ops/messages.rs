//! Messages that are sums, added up in several ways at once, and mapped: a layer of principal neighbourhood aggregation.
//!
//! ```text
//! [p, q, u] = [P x, Q x, U x]                    of every row that sends
//! m_a = p_was(i) + q_source(a) + e_a             of every arc a to i
//! y_i = A [⊕₁ m_a, ⊕₂ m_a, …] + u_was(i) + b     of every row that receives, 0 where it is negative if that is asked for
//! ```
//!
//! with ⊕ mean, sum, largest or smallest, column by column; without arcs, 0. P and Q can consist of towers: each maps its share of the
//! columns. Rows that receive may be others than those that send: [`Links`] says which one each of them was.

use std::ops::Range;
use std::sync::Arc;

use burn::tensor::{Tensor, activation};

use super::rows::{Groups, gather, max, sum};
use super::{PARTS, apply, has_kernels};
use crate::nn::batch::Structure;
use crate::nn::fused::product::PANEL;
use crate::nn::layers::project;
use crate::nn::message::{Aggregator, mean};
use crate::nn::pass::{Pass, matrix};

use receive::Receive;

mod aggregate;
mod receive;

/// Arcs from rows to other rows, in the order of those that receive.
#[derive(Clone, Debug)]
pub struct Links {
    /// The sending row that each receiving one was; the same one if none.
    own: Option<Arc<Groups>>,
    /// Arcs by the row that sends.
    sources: Arc<Groups>,
    /// Arcs by the row that receives.
    targets: Arc<Groups>,
    /// The row of arc terms for every arc; the same one if none.
    arcs: Option<Arc<Groups>>,
    stretches: Arc<Vec<Stretch>>,
}

/// Rows, and rows of arc terms, that no link leads out of.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stretch {
    sending: Range<usize>,
    receiving: Range<usize>,
    terms: Range<usize>,
}

/// Receiving rows of a stretch, at least: what is sent to so many and said of them stays in the second cache.
const STRETCH: usize = 192;

impl Links {
    /// Arcs between rows.
    ///
    /// # Panics
    /// If arcs are not in the order of the rows that receive.
    pub fn new(
        own: Option<Arc<Groups>>,
        sources: Arc<Groups>,
        targets: Arc<Groups>,
        arcs: Option<Arc<Groups>>,
    ) -> Links {
        assert!(targets.of_row().is_sorted(), "arcs are in the order of the rows that receive");
        let mut links = Links { own, sources, targets, arcs, stretches: Arc::default() };
        links.stretches = Arc::new(links.cut());
        links
    }

    /// Those of a graph with itself.
    pub(in crate::nn) fn of(structure: &Structure) -> Links {
        let (sources, targets) = (&structure.by_source, &structure.by_target);
        if targets.of_row().is_sorted() {
            return Links::new(None, sources.clone(), targets.clone(), None);
        }
        let order: Vec<u32> =
            (0..targets.len()).flat_map(|node| targets.rows(node)).copied().collect();
        let in_order = |ends: &Groups| {
            let of_arc = order.iter().map(|&arc| ends.of_row()[arc as usize]).collect();
            Groups::new(of_arc, ends.len())
        };
        let (sources, targets) = (in_order(sources), in_order(targets));
        let arcs = order.len();
        Links::new(None, sources, targets, Some(Groups::new(order, arcs)))
    }

    /// Cuts rows where no link leads across, which is where graphs end.
    fn cut(&self) -> Vec<Stretch> {
        let rows = self.receiving();
        let terms = self.arcs.as_ref().map_or(self.targets.of_row().len(), |arcs| arcs.len());
        // Rows that send and rows of terms that a receiving row has to do with, from the first to the last.
        let reach = |row: usize| {
            let arcs = self.targets.first(row)..self.targets.first(row + 1);
            let sources = self.sources.of_row()[arcs.clone()].iter().map(|&row| row as usize);
            let was = self.was(row);
            let (low, high) = sources.fold((was, was), |(a, b), s| (a.min(s), b.max(s)));
            let of_arcs = arcs.map(|arc| self.term(arc));
            let (first, last) = of_arcs.fold((terms, 0), |(a, b), t| (a.min(t), b.max(t + 1)));
            [(low, high + 1), (first, last)]
        };
        let reaches: Vec<_> = (0..rows).map(reach).collect();
        let mut firsts = [self.sources.len(), terms];
        let mut after = vec![firsts; rows + 1];
        for row in (0..rows).rev() {
            firsts = [0, 1].map(|kind: usize| firsts[kind].min(reaches[row][kind].0));
            after[row] = firsts;
        }
        let (mut stretches, mut start, mut lasts) = (Vec::new(), [0; 3], [0; 2]);
        for row in 1..=rows {
            lasts = [0, 1].map(|kind: usize| lasts[kind].max(reaches[row - 1][kind].1));
            let is_apart = lasts[0] <= after[row][0] && lasts[1] <= after[row][1];
            if row < rows && !(is_apart && row - start[0] >= STRETCH) {
                continue;
            }
            // What nobody has to do with belongs to the stretch before.
            let end = [row, after[row][0], after[row][1]];
            let [receiving, sending, terms] = [0, 1, 2].map(|kind: usize| start[kind]..end[kind]);
            stretches.push(Stretch { sending, receiving, terms });
            start = end;
        }
        stretches
    }

    /// Stretches, if they are enough to be shared out.
    fn stretches(&self) -> Option<&[Stretch]> {
        (self.stretches.len() >= PARTS).then_some(&self.stretches)
    }

    /// Number of rows that receive.
    pub fn receiving(&self) -> usize {
        self.targets.len()
    }

    /// The sending row that a receiving one was.
    fn was(&self, row: usize) -> usize {
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

    /// The row of arc terms that an arc has.
    fn term(&self, arc: usize) -> usize {
        self.arcs.as_ref().map_or(arc, |arcs| arcs.of_row()[arc] as usize)
    }
}

/// What a layer has learned, of all its towers.
#[derive(Clone, Debug)]
pub struct Maps {
    /// P above Q: `[2 × width, inputs of a tower]`.
    pub ends: Tensor<2>,
    /// Added to p: `[width]`.
    pub offset: Tensor<1>,
    /// U: `[outputs, inputs]`.
    pub own: Tensor<2>,
    /// A: `[outputs, aggregators × width]`.
    pub aggregates: Tensor<2>,
    /// b: `[outputs]`.
    pub bias: Tensor<1>,
}

/// States `[sending rows, inputs]` and terms of arcs `[arcs, width]` → `[receiving rows, outputs]`.
pub fn receive(
    pass: &Pass,
    links: &Links,
    x: Tensor<2>,
    terms: Option<Tensor<2>>,
    maps: Maps,
    aggregators: &[Aggregator],
    rectify: bool,
) -> Tensor<2> {
    let (inputs, [ends, share], outputs) = (x.dims()[1], maps.ends.dims(), maps.own.dims()[0]);
    let (width, mut towers) = (ends / 2, inputs / share);
    let whole = |count: usize| count > 0 && count.is_multiple_of(PANEL);
    let mut maps = maps;
    if !(whole(share) && whole(width / towers)) {
        maps.ends = spread(pass, maps.ends, towers);
        towers = 1;
    }
    let sizes = [inputs, width, outputs];
    let has_work = !sizes.contains(&0) && !links.targets.of_row().is_empty();
    if pass.is_composed() || !has_work || !has_kernels(&x) {
        maps.ends = spread(pass, maps.ends, towers);
        return composed(pass, links, x, terms, maps, aggregators, rectify);
    }
    if !sizes.into_iter().all(whole) {
        let wide = |tensor, pieces| widened(pass, tensor, pieces);
        let row = |numbers: Tensor<1>| wide_rows(pass, numbers.unsqueeze()).flatten(0, 1);
        let maps = Maps {
            ends: wide(maps.ends, [2, 1]),
            offset: row(maps.offset),
            own: wide(maps.own, [1, 1]),
            aggregates: wide(maps.aggregates, [1, aggregators.len()]),
            bias: row(maps.bias),
        };
        let (x, terms) = (wide_rows(pass, x), terms.map(|terms| wide_rows(pass, terms)));
        return receive(pass, links, x, terms, maps, aggregators, rectify).narrow(1, 0, outputs);
    }
    let kernel = Arc::new(Receive {
        links: links.clone(),
        aggregators: aggregators.to_vec(),
        towers,
        inputs,
        width,
        outputs,
        has_terms: terms.is_some(),
        rectify,
        simd: pass.simd(),
        team: pass.team().clone(),
    });
    let Maps { ends, offset, own, aggregates, bias } = maps;
    let terms = terms.unwrap_or_else(|| Tensor::zeros([1, 1], pass.device()));
    let inputs = [x, ends, offset.unsqueeze(), own, terms, aggregates, bias.unsqueeze()];
    apply(&kernel, inputs).unwrap_or_else(|_| unreachable!("kernels are there"))
}

/// Rows with columns of 0 as far as whole panels.
fn wide_rows(pass: &Pass, rows: Tensor<2>) -> Tensor<2> {
    let [count, width] = rows.dims();
    let missing = width.next_multiple_of(PANEL) - width;
    if missing == 0 {
        return rows;
    }
    Tensor::cat(vec![rows, Tensor::zeros([count, missing], pass.device())], 1)
}

/// A map whose rows and columns are so many pieces each, all of which are filled up with zeros to whole panels.
fn widened(pass: &Pass, map: Tensor<2>, [of_rows, of_columns]: [usize; 2]) -> Tensor<2> {
    let columns = |map: Tensor<2>, pieces: usize| {
        let [rows, columns] = map.dims();
        let wide = wide_rows(pass, map.reshape([rows * pieces, columns / pieces]));
        let columns = wide.dims()[1] * pieces;
        wide.reshape([rows, columns])
    };
    columns(columns(map, of_columns).transpose(), of_rows).transpose()
}

/// Maps of towers `[rows, inputs of a tower]` as one of all columns, of which each tower reads its share. Rows are those of all towers, twice.
fn spread(pass: &Pass, maps: Tensor<2>, towers: usize) -> Tensor<2> {
    if towers == 1 {
        return maps;
    }
    let [rows, share] = maps.dims();
    let of_tower = rows / 2 / towers;
    let is_own = (0..rows).flat_map(|row| {
        (0..share * towers).map(move |column| row / of_tower % towers == column / share)
    });
    let mask = is_own.map(|is_own| f32::from(u8::from(is_own))).collect();
    maps.repeat_dim(1, towers) * matrix(mask, [rows, share * towers], pass.device())
}

fn composed(
    pass: &Pass,
    links: &Links,
    x: Tensor<2>,
    terms: Option<Tensor<2>>,
    maps: Maps,
    aggregators: &[Aggregator],
    rectify: bool,
) -> Tensor<2> {
    let Maps { ends, offset, own, aggregates, bias } = maps;
    let width = offset.dims()[0];
    let of_receiving = |x: Tensor<2>| match &links.own {
        Some(own) => gather(pass, own, x),
        None => x,
    };
    let offset = Tensor::cat(vec![offset.clone(), offset.zeros_like()], 0);
    let ends = project(x.clone(), ends, Some(offset));
    let mut messages = gather(pass, &links.targets, of_receiving(ends.clone().narrow(1, 0, width)))
        + gather(pass, &links.sources, ends.narrow(1, width, width));
    if let Some(terms) = terms {
        messages = messages
            + match &links.arcs {
                Some(arcs) => gather(pass, arcs, terms),
                None => terms,
            };
    }
    let z = aggregated(pass, &links.targets, &messages, aggregators);
    let y = project(z, aggregates, Some(bias)) + of_receiving(project(x, own, None));
    if rectify { activation::relu(y) } else { y }
}

/// Aggregates of messages that are written down: `[arcs, width]` → `[nodes, aggregators × width]`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_end_where_no_link_leads_across() {
        // Three graphs. In each, two rows that become STRETCH, and one that nobody has to do with; two arcs to the first row.
        let all = |rows: &[u32], size: u32| -> Vec<u32> {
            (0..3).flat_map(|graph| rows.iter().map(move |row| graph * size + row)).collect()
        };
        let own: Vec<u32> = (0..STRETCH as u32).map(|row| row % 2).collect();
        let links = |sources: Vec<u32>| {
            Links::new(
                Some(Groups::new(all(&own, 3), 9)),
                Groups::new(sources, 9),
                Groups::new(all(&[0, 0], STRETCH as u32), 3 * STRETCH),
                Some(Groups::new(all(&[1, 0], 2), 6)),
            )
        };
        let expected = |number: usize| Stretch {
            sending: number * 3..number * 3 + 3,
            receiving: number * STRETCH..(number + 1) * STRETCH,
            terms: number * 2..number * 2 + 2,
        };
        let found = links(all(&[0, 1], 3));
        assert_eq!(*found.stretches, [0, 1, 2].map(expected));
        // A link from the last graph to the second leaves two stretches.
        let found = links(vec![0, 1, 3, 7, 6, 7]);
        let both = Stretch { sending: 3..9, receiving: STRETCH..3 * STRETCH, terms: 2..6 };
        assert_eq!(*found.stretches, [expected(0), both]);
    }
}
