//! What becomes of messages: aggregates of rows, and the way back from them to messages, to rows that sent and to terms of arcs.

use super::super::dense::BLOCK;
use super::super::rows::add;
use super::receive::{Receive, Window};
use crate::nn::fused::product::PANEL;
use crate::nn::message::Aggregator;
use crate::simd::{Kernel, Vector, WIDTH, add_scaled};

/// Aggregates of rows from `first` on; and on the way back, what is to be known of them.
pub(super) struct Aggregate<'a> {
    pub of: &'a Receive,
    pub first: usize,
    pub sent: Window<'a>,
    pub terms: &'a [f32],
    pub z: &'a mut [f32],
    pub back: Option<Derivatives<'a>>,
}

/// Derivatives by what rows received and by their aggregates, and records of them to be written.
pub(super) struct Derivatives<'a> {
    pub by_y: &'a [f32],
    pub by_z: &'a [f32],
    pub records: &'a mut [f32],
}

impl Kernel for Aggregate<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Receive { width, outputs, ref links, ref aggregators, has_terms, .. } = *self.of;
        let stride = self.of.sent();
        let mut found = Found::new(width, aggregators);
        let (mut spread, none) = (Spread::new(width), vec![0.0; width]);
        let message = |arc: usize| {
            let source = links.sources.of_row()[arc] as usize - self.sent.first;
            let q = &self.sent.numbers[source * stride + width..][..width];
            let term =
                if has_terms { &self.terms[links.term(arc) * width..][..width] } else { &none };
            (q.as_chunks::<WIDTH>().0, term.as_chunks::<WIDTH>().0)
        };
        let mut back = self.back;
        let rows = self.z.chunks_exact_mut(self.of.columns());
        for (number, z) in rows.enumerate() {
            let row = self.first + number;
            let arcs = links.targets.first(row)..links.targets.first(row + 1);
            if arcs.is_empty() {
                z.fill(0.0);
            } else {
                for arc in arcs.clone() {
                    // SAFETY: by contract.
                    unsafe { found.add::<V>(message(arc), arc == arcs.start) };
                }
                let was = links.was(row) - self.sent.first;
                let p = &self.sent.numbers[was * stride..][..width];
                found.aggregate(aggregators, arcs.len() as f32, p, z);
            }
            let Some(Derivatives { by_y, by_z, records }) = &mut back else { continue };
            let length = outputs + width + arcs.len() * width;
            let record = records.split_off_mut(..length).expect("a record");
            let (own, record) = record.split_at_mut(outputs);
            let (by_p, by_messages) = record.split_at_mut(width);
            own.copy_from_slice(&by_y[number * outputs..][..outputs]);
            by_p.fill(0.0);
            if arcs.is_empty() {
                continue;
            }
            let by_z = &by_z[number * self.of.columns()..][..self.of.columns()];
            spread.start(aggregators, arcs.len() as f32, by_z, by_p);
            for (arc, by_message) in arcs.zip(by_messages.chunks_exact_mut(width)) {
                by_message.copy_from_slice(&spread.by_each);
                // SAFETY: by contract.
                unsafe { found.give::<V>(message(arc), &mut spread.left, by_message) };
            }
        }
    }
}

/// A row of a message in vectors: q and the term of the arc.
type Message<'a> = (&'a [[f32; WIDTH]], &'a [[f32; WIDTH]]);

/// Of the messages to a row, without p: their sum, the largest, and the largest of their negatives.
struct Found {
    sum: Vec<f32>,
    largest: Vec<f32>,
    smallest: Vec<f32>,
    /// Whether anybody asks for the largest, and for the smallest.
    wants: [bool; 2],
}

impl Found {
    fn new(width: usize, aggregators: &[Aggregator]) -> Found {
        let row = || vec![0.0; width];
        let wants = [Aggregator::Max, Aggregator::Min].map(|kind| aggregators.contains(&kind));
        Found { sum: row(), largest: row(), smallest: row(), wants }
    }

    /// Takes a message into account.
    #[inline(always)]
    unsafe fn add<V: Vector>(&mut self, message: Message, is_first: bool) {
        let (q, term) = message;
        let sums = self.sum.as_chunks_mut::<WIDTH>().0;
        let ends = self.largest.as_chunks_mut().0.iter_mut().zip(self.smallest.as_chunks_mut().0);
        for (((q, term), sum), (largest, smallest)) in q.iter().zip(term).zip(sums).zip(ends) {
            let (largest, smallest): (&mut [f32; WIDTH], &mut [f32; WIDTH]) = (largest, smallest);
            // SAFETY: eight numbers each.
            unsafe {
                let m = V::load(q.as_ptr()).add(V::load(term.as_ptr()));
                let negative = V::splat(0.0).sub(m);
                if is_first {
                    m.store(sum.as_mut_ptr());
                    m.store(largest.as_mut_ptr());
                    negative.store(smallest.as_mut_ptr());
                    continue;
                }
                V::load(sum.as_ptr()).add(m).store(sum.as_mut_ptr());
                if self.wants[0] {
                    V::load(largest.as_ptr()).max(m).store(largest.as_mut_ptr());
                }
                if self.wants[1] {
                    V::load(smallest.as_ptr()).max(negative).store(smallest.as_mut_ptr());
                }
            }
        }
    }

    /// Aggregates of a row that so many messages came to, with p added.
    #[inline(always)]
    fn aggregate(&self, aggregators: &[Aggregator], count: f32, p: &[f32], z: &mut [f32]) {
        let share = 1.0 / count;
        for (aggregator, z) in aggregators.iter().zip(z.chunks_exact_mut(p.len())) {
            let z = z.iter_mut().zip(p);
            match aggregator {
                Aggregator::Sum => z.zip(&self.sum).for_each(|((z, p), s)| *z = s + count * p),
                Aggregator::Mean => z.zip(&self.sum).for_each(|((z, p), s)| *z = s * share + p),
                Aggregator::Max => z.zip(&self.largest).for_each(|((z, p), m)| *z = m + p),
                Aggregator::Min => z.zip(&self.smallest).for_each(|((z, p), m)| *z = p - m),
            }
        }
    }

    /// Adds to the derivatives by a message those by the largest and by the smallest, which are `left`, where it is that.
    #[inline(always)]
    unsafe fn give<V: Vector>(
        &self,
        message: Message,
        left: &mut [Vec<f32>; 2],
        by_message: &mut [f32],
    ) {
        let (q, term) = message;
        for (kind, (found, left)) in
            [&self.largest, &self.smallest].into_iter().zip(left).enumerate()
        {
            if !self.wants[kind] {
                continue;
            }
            let sign = if kind == 0 { 1.0 } else { -1.0 };
            let places = left.as_chunks_mut::<WIDTH>().0.iter_mut();
            let places = places.zip(by_message.as_chunks_mut::<WIDTH>().0);
            let found = found.as_chunks::<WIDTH>().0;
            for (((q, term), found), (left, out)) in q.iter().zip(term).zip(found).zip(places) {
                // SAFETY: eight numbers each.
                unsafe {
                    let m = V::load(q.as_ptr()).add(V::load(term.as_ptr())).mul(V::splat(sign));
                    let all = V::load(left.as_ptr());
                    // What is below the largest leaves the derivative to others.
                    let others = all.where_positive(V::load(found.as_ptr()).sub(m));
                    others.store(left.as_mut_ptr());
                    V::load(out.as_ptr()).add(all.sub(others)).store(out.as_mut_ptr());
                }
            }
        }
    }
}

/// Derivatives by aggregates, spread over the messages to a row.
struct Spread {
    /// What each of them gets.
    by_each: Vec<f32>,
    /// What the largest is to get, and what the smallest.
    left: [Vec<f32>; 2],
}

impl Spread {
    fn new(width: usize) -> Spread {
        Spread { by_each: vec![0.0; width], left: [vec![0.0; width], vec![0.0; width]] }
    }

    /// Begins with a row that so many messages came to; adds to the derivatives by p.
    #[inline(always)]
    fn start(&mut self, aggregators: &[Aggregator], count: f32, by_z: &[f32], by_p: &mut [f32]) {
        let Spread { by_each, left: [largest, smallest] } = self;
        [&mut *by_each, largest, smallest].into_iter().for_each(|sums| sums.fill(0.0));
        for (aggregator, by_z) in aggregators.iter().zip(by_z.chunks_exact(by_p.len())) {
            let (of_p, sums, factor) = match aggregator {
                Aggregator::Sum => (count, &mut *by_each, 1.0),
                Aggregator::Mean => (1.0, &mut *by_each, 1.0 / count),
                Aggregator::Max => (1.0, &mut *largest, 1.0),
                Aggregator::Min => (1.0, &mut *smallest, 1.0),
            };
            add_scaled(by_p, of_p, by_z);
            add_scaled(sums, factor, by_z);
        }
    }
}

/// For every sending row, the derivatives by p, q and u: sums over what it became, and over arcs that start there.
pub(super) struct BySent<'a> {
    pub of: &'a Receive,
    pub first: usize,
    pub records: Window<'a>,
    /// Tower by tower.
    pub by_ends: &'a mut [f32],
    pub by_own: &'a mut [f32],
}

impl Kernel for BySent<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Receive { width, outputs, towers, ref links, .. } = *self.of;
        let mut by_ends = vec![0.0; 2 * width];
        for (row, by_own) in self.by_own.chunks_exact_mut(outputs).enumerate() {
            by_ends.fill(0.0);
            by_own.fill(0.0);
            let (by_p, by_q) = by_ends.split_at_mut(width);
            for became in links.became(self.first + row) {
                let place = self.of.record(became) - self.of.record(self.records.first);
                let record = &self.records.numbers[place..][..outputs + width];
                add(by_own, &record[..outputs]);
                add(by_p, &record[outputs..]);
            }
            for &arc in links.sources.rows(self.first + row) {
                add(by_q, self.of.by_message(self.records, arc as usize));
            }
            let panels = width / towers / PANEL;
            for (number, panel) in by_ends.as_chunks::<PANEL>().0.iter().enumerate() {
                // Of p or q, and of a tower.
                let (half, number) = (number / (panels * towers), number % (panels * towers));
                let (tower, number) = (number / panels, number % panels);
                let place = (tower * BLOCK + row) * 2 * panels + half * panels + number;
                self.by_ends[place * PANEL..][..PANEL].copy_from_slice(panel);
            }
        }
    }
}

/// For every row of arc terms, the sum over its arcs.
pub(super) struct ByTerm<'a> {
    pub of: &'a Receive,
    pub first: usize,
    pub records: Window<'a>,
    pub sums: &'a mut [f32],
}

impl Kernel for ByTerm<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        for (row, sums) in self.sums.chunks_exact_mut(self.of.width).enumerate() {
            let row = self.first + row;
            match &self.of.links.arcs {
                None => sums.copy_from_slice(self.of.by_message(self.records, row)),
                Some(arcs) => arcs
                    .rows(row)
                    .iter()
                    .for_each(|&arc| add(sums, self.of.by_message(self.records, arc as usize))),
            }
        }
    }
}
