//! The kernel of a layer.
//!
//! Nothing but states is written down. Rows that no link leads out of, those of a few graphs, are taken together: what they send, what
//! becomes of messages and, on the way back, the derivatives by each message stay in the cache. Within them, blocks of rows are aggregated and mapped;
//! the backward pass does that once more. As p is the same for all messages to a row, it is added to the aggregate instead, and the
//! derivative by it needs no messages either. A large graph is gone through in two passes, with arrays of all rows and arcs between them.

use std::ops::Range;
use std::sync::Arc;

use super::super::dense::{BLOCK, Part, add_columns, packed, parts};
use super::super::rows::add;
use super::super::{Kept, Operation, PARTS};
use super::aggregate::{Aggregate, BySent, ByTerm, Derivatives};
use super::{Links, Stretch};
use crate::nn::fused::Team;
use crate::nn::fused::product::{Epilogue, Store};
use crate::nn::fused::weights::{Map, Rows, Run, Slot};
use crate::nn::message::Aggregator;
use crate::simd::{Kernel, Simd, Vector, WIDTH};

/// What rows receive of others.
#[derive(Debug)]
pub(super) struct Receive {
    pub links: Links,
    pub aggregators: Vec<Aggregator>,
    pub towers: usize,
    /// Numbers of a state, of a message, and of what is received.
    pub inputs: usize,
    pub width: usize,
    pub outputs: usize,
    pub has_terms: bool,
    pub rectify: bool,
    pub simd: Simd,
    pub team: Arc<Team>,
}

/// P and Q tower by tower, and U, of numbers that lie in this order: P, Q, the offset, U.
struct Sending {
    towers: Vec<Map>,
    own: Map,
}

impl Receive {
    /// Numbers of [p, q, u].
    pub(super) fn sent(&self) -> usize {
        2 * self.width + self.outputs
    }

    /// Numbers of all aggregates of a row.
    pub(super) fn columns(&self) -> usize {
        self.aggregators.len() * self.width
    }

    /// Inputs and numbers of a message of a tower.
    fn share(&self) -> [usize; 2] {
        [self.inputs, self.width].map(|count| count / self.towers)
    }

    fn sending(&self, [ends, offset, own]: [&[f32]; 3], backward: bool) -> Sending {
        let [inputs, width] = self.share();
        let all = [ends, offset, own].concat();
        let rows = |weight, bias, count, column| Rows { weight, bias, count, column };
        let map = |inputs, rows| {
            let mut map = Map::new(inputs, vec![Run { from: 0, count: inputs, column: 0 }], rows);
            map.pack(&all, backward);
            map
        };
        let tower = |tower: usize| {
            let row = tower * width;
            let of_receiver = rows(row * inputs, Some(ends.len() + row), width, 0);
            map(inputs, vec![of_receiver, rows((self.width + row) * inputs, None, width, width)])
        };
        let own = rows(ends.len() + offset.len(), None, self.outputs, 0);
        Sending { towers: (0..self.towers).map(tower).collect(), own: map(self.inputs, vec![own]) }
    }

    /// [p, q, u] of rows from `first` on.
    fn send(&self, x: &[f32], maps: &Sending, first: usize, sent: &mut [f32]) {
        let ([inputs, width], stride) = (self.share(), self.sent());
        for (number, sent) in sent.chunks_mut(BLOCK * stride).enumerate() {
            let (first, rows) = (first + number * BLOCK, sent.len() / stride);
            let x = &x[first * self.inputs..][..rows * self.inputs];
            for (tower, map) in maps.towers.iter().enumerate() {
                let out = &mut sent[tower * width..];
                let ends = Ends { out, stride, bias: map.bias(), width, apart: self.width };
                map.forward(self.simd, rows, &x[tower * inputs..], self.inputs, ends);
            }
            let own = Store::new(&mut sent[2 * self.width..], stride);
            maps.own.forward(self.simd, rows, x, self.inputs, own);
        }
    }

    /// That of all rows.
    fn send_all(&self, x: &[f32], maps: &Sending) -> Vec<f32> {
        self.team.make_rows(x.len() / self.inputs, self.sent(), |first, sent| {
            self.send(x, maps, first, sent);
        })
    }

    /// What rows from `first` on receive of what is sent.
    fn receive(&self, map: &Map, sent: Window, terms: &[f32], first: usize, y: &mut [f32]) {
        let (outputs, columns) = (self.outputs, self.columns());
        let mut z = vec![0.0; BLOCK * columns];
        let mut places = Vec::with_capacity(BLOCK);
        for (number, y) in y.chunks_mut(BLOCK * outputs).enumerate() {
            let (first, rows) = (first + number * BLOCK, y.len() / outputs);
            let z = &mut z[..rows * columns];
            self.simd.run(Aggregate { of: self, first, sent, terms, z, back: None });
            places.clear();
            let of_row = |row| (self.links.was(row) - sent.first) * self.sent() + 2 * self.width;
            places.extend((first..first + rows).map(of_row));
            let received = Received {
                out: y,
                stride: outputs,
                bias: map.bias(),
                sent: sent.numbers,
                places: &places,
                rectify: self.rectify,
            };
            map.forward(self.simd, rows, z, columns, received);
        }
    }

    /// Where among all that is said of rows that receive, and of arcs to them, that of a row begins: the derivatives by what it received
    /// and by p, then those by its messages.
    pub(super) fn record(&self, row: usize) -> usize {
        row * (self.outputs + self.width) + self.links.targets.first(row) * self.width
    }

    /// Numbers of the records of some rows.
    fn room(&self, rows: &Range<usize>) -> usize {
        self.record(rows.end) - self.record(rows.start)
    }

    /// The derivatives by the message of an arc.
    pub(super) fn by_message<'a>(&self, records: Window<'a>, arc: usize) -> &'a [f32] {
        let row = self.links.targets.of_row()[arc] as usize;
        let place = (row + 1) * (self.outputs + self.width) + arc * self.width;
        &records.numbers[place - self.record(records.first)..][..self.width]
    }
}

/// Numbers of rows from `first` on.
#[derive(Clone, Copy)]
pub(super) struct Window<'a> {
    pub first: usize,
    pub numbers: &'a [f32],
}

impl Operation<7> for Receive {
    type Saved = ();
    const KEEPS_OUTPUT: bool = true;

    fn shape(&self, _: [[usize; 2]; 7]) -> [usize; 2] {
        [self.links.receiving(), self.outputs]
    }

    fn forward(
        &self,
        [x, ends, offset, own, terms, aggregates, bias]: [&[f32]; 7],
    ) -> (Vec<f32>, ()) {
        let Receive { outputs, ref links, ref team, .. } = *self;
        let maps = self.sending([ends, offset, own], false);
        let map = packed(aggregates, bias, self.columns(), false);
        if let Some(stretches) = links.stretches() {
            let room = |stretch: &&Stretch| stretch.receiving.len() * outputs;
            let y = team.make(stretches, room, |stretch, y| {
                let mut numbers = vec![0.0; stretch.sending.len() * self.sent()];
                self.send(x, &maps, stretch.sending.start, &mut numbers);
                let sent = Window { first: stretch.sending.start, numbers: &numbers };
                self.receive(&map, sent, terms, stretch.receiving.start, y.rest());
            });
            return (y, ());
        }
        let sent = self.send_all(x, &maps);
        let sent = Window { first: 0, numbers: &sent };
        let y = team.make_rows(links.receiving(), outputs, |first, y| {
            self.receive(&map, sent, terms, first, y);
        });
        (y, ())
    }

    fn backward(&self, kept: Kept<'_, (), 7>, gradient: &[f32]) -> [Vec<f32>; 7] {
        let [x, ends, offset, own, terms, aggregates, bias] = kept.inputs;
        let lengths = [aggregates, ends, offset, own].map(<[f32]>::len);
        let back = Back {
            of: self,
            maps: self.sending([ends, offset, own], true),
            map: packed(aggregates, &[], self.columns(), true),
            x,
            terms,
            y: kept.output,
            dy: gradient,
            sizes: [lengths.iter().sum(), bias.len(), 0],
        };
        let (by_x, by_terms, parts) = match self.links.stretches() {
            Some(stretches) => back.by_stretches(stretches),
            None => back.in_two_passes(),
        };
        let mut learned = vec![0.0; back.sizes[0]];
        let mut by_bias = vec![0.0; bias.len()];
        for part in &parts {
            add(&mut learned, &part.gradient);
            by_bias.iter_mut().zip(&part.by_bias).for_each(|(sum, own)| *sum += own);
        }
        let by_bias = by_bias.into_iter().map(|sum: f64| sum as f32).collect();
        let mut rest = learned.into_iter();
        let [by_aggregates, by_ends, by_offset, by_own] =
            lengths.map(|length| rest.by_ref().take(length).collect());
        [by_x, by_ends, by_offset, by_own, by_terms, by_aggregates, by_bias]
    }
}

/// What the way back needs. Derivatives by what was learned are kept in parts, those by A first.
struct Back<'a> {
    of: &'a Receive,
    maps: Sending,
    map: Map,
    x: &'a [f32],
    terms: &'a [f32],
    y: &'a [f32],
    dy: &'a [f32],
    /// Of a part.
    sizes: [usize; 3],
}

impl Back<'_> {
    /// The derivatives by x, by terms and, in parts, by what was learned; a few graphs at a time all the way back.
    fn by_stretches(&self, stretches: &[Stretch]) -> (Vec<f32>, Vec<f32>, Vec<Part>) {
        let Receive { inputs, width, simd, has_terms, ref team, .. } = *self.of;
        let mut by_terms = vec![0.0; self.terms.len()];
        let mut rest = &mut by_terms[..];
        let chunks = stretches.chunks(stretches.len().div_ceil(PARTS)).map(|chunk| {
            let count: usize = chunk.iter().map(|stretch| stretch.terms.len()).sum();
            let count = if has_terms { count * width } else { 0 };
            let by_terms = rest.split_off_mut(..count).expect("a row for every term");
            (chunk, Part::new(0, 0, self.sizes), by_terms)
        });
        let mut chunks: Vec<(&[Stretch], Part, &mut [f32])> = chunks.collect();
        let room = |(chunk, ..): &&mut (&[Stretch], Part, &mut [f32])| {
            chunk.iter().map(|stretch| stretch.sending.len() * inputs).sum()
        };
        let by_x = team.make(&mut chunks, room, |(chunk, part, by_terms), by_x| {
            let (mut sent, mut records) = (Vec::new(), Vec::new());
            for Stretch { sending, receiving, terms } in *chunk {
                sent.resize(sending.len() * self.of.sent(), 0.0);
                self.of.send(self.x, &self.maps, sending.start, &mut sent);
                let sent = Window { first: sending.start, numbers: &sent };
                records.resize(self.of.room(receiving), 0.0);
                self.unreceive(sent, receiving.clone(), &mut records, part);
                let records = Window { first: receiving.start, numbers: &records };
                let out = by_x.next(sending.len() * inputs);
                self.unsend(records, sending.start, out, part);
                if has_terms {
                    let sums = by_terms.split_off_mut(..terms.len() * width);
                    let sums = sums.expect("a row for every term");
                    simd.run(ByTerm { of: self.of, first: terms.start, records, sums });
                }
            }
        });
        let parts = chunks.into_iter().map(|(_, part, _)| part).collect();
        (by_x, by_terms, parts)
    }

    /// The same of rows that can't be told apart by graphs: all the way through aggregates first.
    fn in_two_passes(&self) -> (Vec<f32>, Vec<f32>, Vec<Part>) {
        let Receive { inputs, width, simd, ref links, ref team, .. } = *self.of;
        let sent = self.of.send_all(self.x, &self.maps);
        let sent = Window { first: 0, numbers: &sent };
        let mut of_receiving = parts(links.receiving(), self.sizes);
        let room = |part: &&mut Part| self.of.room(&part.rows());
        let records = team.make(&mut of_receiving, room, |part, records| {
            self.unreceive(sent, part.rows(), records.rest(), part);
        });
        let records = Window { first: 0, numbers: &records };
        let mut of_sending = parts(self.x.len() / inputs, self.sizes);
        let room = |part: &&mut Part| part.count * inputs;
        let by_x = team.make(&mut of_sending, room, |part, by_x| {
            self.unsend(records, part.first, by_x.rest(), part);
        });
        let mut by_terms = vec![0.0; self.terms.len()];
        if self.of.has_terms {
            team.share_rows(&mut by_terms, width, |first, sums| {
                simd.run(ByTerm { of: self.of, first, records, sums });
            });
        }
        of_receiving.append(&mut of_sending);
        (by_x, by_terms, of_receiving)
    }

    /// Goes back through the map of aggregates: writes the records of some rows that receive, and adds to the derivatives by A and b.
    fn unreceive(&self, sent: Window, some: Range<usize>, records: &mut [f32], part: &mut Part) {
        let Receive { outputs, simd, .. } = *self.of;
        let (columns, mut records) = (self.of.columns(), records);
        let mut by_y = vec![0.0; BLOCK * outputs];
        let [mut z, mut by_z] = [(); 2].map(|()| vec![0.0; BLOCK * columns]);
        for first in some.clone().step_by(BLOCK) {
            let rows = BLOCK.min(some.end - first);
            let place = first * outputs..(first + rows) * outputs;
            let by_y = &mut by_y[..rows * outputs];
            by_y.copy_from_slice(&self.dy[place.clone()]);
            if self.of.rectify {
                simd.run(Rectified { y: &self.y[place], dy: by_y });
            }
            add_columns(simd, by_y, &mut part.by_bias);
            let (z, by_z) = (&mut z[..rows * columns], &mut by_z[..rows * columns]);
            self.map.backward(simd, rows, by_y, Store::new(by_z, columns));
            let own = records.split_off_mut(..self.of.room(&(first..first + rows)));
            let records = own.expect("room for all records");
            let back = Some(Derivatives { by_y, by_z, records });
            simd.run(Aggregate { of: self.of, first, sent, terms: self.terms, z, back });
            let numbers = &mut part.gradient[..columns * outputs];
            self.map.gradient(simd, rows, by_y, z, columns, Slot { numbers, start: 0, add: true });
        }
    }

    /// Goes back to rows that send, from `first` on: the derivatives by x; adds to those by what [`Sending`] is made of.
    fn unsend(&self, records: Window, first: usize, by_x: &mut [f32], part: &mut Part) {
        let Receive { inputs, outputs, simd, .. } = *self.of;
        let [share, width] = self.of.share();
        // Of p and q tower by tower, as their maps have them.
        let mut by_ends = vec![0.0; BLOCK * 2 * self.of.width];
        let mut by_own = vec![0.0; BLOCK * outputs];
        let numbers = &mut part.gradient[self.of.columns() * outputs..];
        let mut slot = Slot { numbers, start: 0, add: true };
        for (number, out) in by_x.chunks_mut(BLOCK * inputs).enumerate() {
            let (first, rows) = (first + number * BLOCK, out.len() / inputs);
            let x = &self.x[first * inputs..][..rows * inputs];
            let by_own = &mut by_own[..rows * outputs];
            simd.run(BySent { of: self.of, first, records, by_ends: &mut by_ends, by_own });
            self.maps.own.backward(simd, rows, by_own, Store::new(out, inputs));
            self.maps.own.gradient(simd, rows, by_own, x, inputs, slot.again());
            let of_towers = by_ends.chunks_exact(BLOCK * 2 * width);
            for (tower, (map, by_ends)) in self.maps.towers.iter().zip(of_towers).enumerate() {
                let (x, out) = (&x[tower * share..], &mut out[tower * share..]);
                map.backward(simd, rows, by_ends, Store::adding(out, inputs));
                map.gradient(simd, rows, by_ends, x, inputs, slot.again());
            }
        }
    }
}

/// Sums of a tower, those of p and of q, to where they belong.
struct Ends<'a> {
    out: &'a mut [f32],
    stride: usize,
    bias: &'a [f32],
    /// Numbers of a message of a tower, and of all towers.
    width: usize,
    apart: usize,
}

impl Epilogue for Ends<'_> {
    fn check(&self, rows: usize, columns: usize) {
        assert!((rows - 1) * self.stride + self.apart + self.width <= self.out.len());
        assert!(columns == 2 * self.width && columns <= self.bias.len());
    }

    #[inline(always)]
    unsafe fn put<V: Vector>(&mut self, row: usize, column: usize, sums: V) {
        let place = if column < self.width { column } else { column - self.width + self.apart };
        // SAFETY: checked; half of the columns are of p, the others of q.
        unsafe {
            let y = sums.add(V::load(self.bias.as_ptr().add(column)));
            y.store(self.out.as_mut_ptr().add(row * self.stride + place));
        }
    }
}

/// Sums, u and the bias.
struct Received<'a> {
    out: &'a mut [f32],
    stride: usize,
    bias: &'a [f32],
    sent: &'a [f32],
    /// Where the u of every row begins.
    places: &'a [usize],
    rectify: bool,
}

impl Epilogue for Received<'_> {
    fn check(&self, rows: usize, columns: usize) {
        assert!((rows - 1) * self.stride + columns <= self.out.len());
        assert!(columns <= self.bias.len() && rows <= self.places.len());
        let last = self.places.iter().max().copied().unwrap_or_default();
        assert!(last + columns <= self.sent.len());
    }

    #[inline(always)]
    unsafe fn put<V: Vector>(&mut self, row: usize, column: usize, sums: V) {
        // SAFETY: checked.
        unsafe {
            let own = self.sent.as_ptr().add(*self.places.get_unchecked(row) + column);
            let y = sums.add(V::load(self.bias.as_ptr().add(column))).add(V::load(own));
            let y = if self.rectify { y.max(V::splat(0.0)) } else { y };
            y.store(self.out.as_mut_ptr().add(row * self.stride + column));
        }
    }
}

/// dy where y is positive, else 0.
struct Rectified<'a> {
    y: &'a [f32],
    dy: &'a mut [f32],
}

impl Kernel for Rectified<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let blocks = self.y.as_chunks::<WIDTH>().0.iter().zip(self.dy.as_chunks_mut::<WIDTH>().0);
        for (y, dy) in blocks {
            // SAFETY: eight numbers each.
            unsafe {
                let kept = V::load(dy.as_ptr()).where_positive(V::load(y.as_ptr()));
                kept.store(dy.as_mut_ptr());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::differences::{check, random, ways};
    use super::super::super::rows::Groups;
    use super::*;
    use crate::nn::fused::product::PANEL;

    const ALL: [Aggregator; 4] =
        [Aggregator::Mean, Aggregator::Sum, Aggregator::Max, Aggregator::Min];

    /// Five rows, of which row 3 receives nothing and row 0 gets two messages from row 1.
    fn same() -> Links {
        let sources = Groups::new(vec![1, 1, 2, 4, 0, 3, 4], 5);
        Links::new(None, sources, Groups::new(vec![0, 0, 0, 1, 2, 4, 4], 5), None)
    }

    /// Six rows that were five, of which one is gone; seven arcs that were three.
    fn others() -> Links {
        Links::new(
            Some(Groups::new(vec![0, 0, 1, 3, 4, 4], 5)),
            Groups::new(vec![1, 1, 2, 4, 0, 3, 4], 5),
            Groups::new(vec![0, 0, 1, 1, 2, 4, 5], 6),
            Some(Groups::new(vec![2, 0, 0, 1, 2, 2, 1], 3)),
        )
    }

    #[test]
    fn what_is_received_has_its_derivatives() {
        for (simd, team) in ways() {
            for (links, aggregators, towers, has_terms) in [
                (same(), &ALL[..], 1, true),
                (others(), &ALL[..3], 2, true),
                (others(), &ALL[1..], 1, true),
                (same(), &ALL[..2], 2, false),
            ] {
                let (inputs, width, outputs) = (PANEL * towers, PANEL * towers, PANEL);
                let terms = links.arcs.as_ref().map_or(7, |arcs| arcs.len());
                let terms = if has_terms { terms * width } else { 1 };
                let numbers = [
                    random(5 * inputs, [-3.0, 3.0], 1),
                    random(2 * width * PANEL, [-1.0, 1.0], 2),
                    random(width, [-1.0, 1.0], 3),
                    random(outputs * inputs, [-1.0, 1.0], 4),
                    random(terms, [-1.0, 1.0], 5),
                    random(outputs * aggregators.len() * width, [-0.3, 0.3], 6),
                    random(outputs, [-1.0, 1.0], 7),
                ];
                let operation = Receive {
                    links,
                    aggregators: aggregators.to_vec(),
                    towers,
                    inputs,
                    width,
                    outputs,
                    has_terms,
                    rectify: false,
                    simd,
                    team: team.clone(),
                };
                check(&operation, &numbers);
            }
        }
    }
}
