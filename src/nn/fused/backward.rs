//! The backward pass of a stack, phase by phase.
//!
//! The mirror image of the forward pass. Every group of lanes has its own derivatives by the parameters of the layer at
//! hand; in the phase after, all threads add up those of all groups, each a share of the parameters, group after
//! group. Two sets of them take turns, so nobody writes what another reads.

use std::sync::{Mutex, RwLockWriteGuard};

use super::attention;
use super::backward_message::InnerNorm;
use super::clock::Kind;
use super::network::Place;
use super::norm::{self, Statistics, backward, derivative_sums};
use super::phase::{At, Own, Worker};
use super::product::{Gate, Store};
use super::stack::{Inputs, Stack, UNBROKEN, fit, gather, scatter, tosses};
use super::team::share;
use super::weights::Slot;

/// Derivatives by all inputs and by the parameters.
#[derive(Debug)]
pub struct Gradients {
    pub nodes: Vec<f32>,
    pub arcs: Vec<f32>,
    pub bias: Vec<f32>,
    pub positions: Vec<f32>,
    pub parameters: Vec<f32>,
}

/// What all threads write to, each its own part.
struct Sums<'a> {
    /// For each layer, a share of its parameters for each thread.
    shares: Vec<Vec<Mutex<&'a mut [f32]>>>,
    /// Derivatives by parameters of BatchNorms: where they go, and what.
    norms: Mutex<Vec<(usize, Vec<f32>)>>,
}

impl Stack {
    /// All derivatives, from those by the result.
    pub fn differentiate(&self, inputs: Inputs, by_out: &[f32]) -> Gradients {
        assert!(self.training, "statistics of the batch are needed");
        let mut workspace = self.workspace.lock().expect(UNBROKEN);
        let workspace = &mut *workspace;
        let mut parameters = self.team.zeros(self.parameters);
        let mut sums = Sums { shares: Vec::new(), norms: Mutex::default() };
        let members = self.team.size().min(self.lanes.groups());
        let mut rest = &mut parameters[..];
        let mut at = 0;
        for layer in &workspace.layers {
            let range = layer.read().expect(UNBROKEN).range.clone();
            let (_, from) = rest.split_at_mut(range.start - at);
            let (mut own, after) = from.split_at_mut(range.len());
            (rest, at) = (after, range.end);
            let mut shares = Vec::new();
            for thread in 0..members {
                let (share, others) = own.split_at_mut(share(range.len(), thread, members).len());
                shares.push(Mutex::new(share));
                own = others;
            }
            sums.shares.push(shares);
        }
        let shared = &*workspace;
        self.team.run(self.lanes.groups(), |member| {
            Worker::new(self, shared, member).differentiate(by_out, &sums);
        });
        for (start, numbers) in sums.norms.into_inner().expect(UNBROKEN) {
            parameters[start..][..numbers.len()].copy_from_slice(&numbers);
        }
        let factor = (self.network.heads().width as f64).sqrt();
        let clock = workspace.clocks[0].get_mut().expect(UNBROKEN);
        clock.to(Kind::Bias);
        let bias = workspace.bias.backward(self.simd, factor, &mut parameters);
        clock.stop();

        let [dim, width] = [self.network.dim, self.network.width()];
        let mut gradients = Gradients {
            nodes: vec![0.0; inputs.nodes.len()],
            arcs: vec![0.0; inputs.arcs.len()],
            bias: if bias.is_empty() { vec![0.0; inputs.bias.len()] } else { bias },
            positions: vec![0.0; inputs.positions.len()],
            parameters,
        };
        for (lane, space) in self.lanes.all().iter().zip(&mut workspace.lanes) {
            let space = space.get_mut().expect(UNBROKEN);
            scatter(&lane.nodes, &space.x, width, &mut gradients.nodes, dim);
            if self.network.has_arcs() {
                scatter(&lane.arcs, &space.by_arcs, width, &mut gradients.arcs, dim);
            }
            if self.network.has_gate() {
                let columns = inputs.positions.len() / self.lanes.rows();
                for (arc, &by_distance) in
                    space.by_distances.iter().enumerate().take(lane.num_arcs())
                {
                    let row = |row: u32| lane.nodes[row as usize] as usize * columns;
                    let (target, source) = (row(lane.targets[arc]), row(lane.sources[arc]));
                    for column in 0..columns {
                        let apart =
                            inputs.positions[target + column] - inputs.positions[source + column];
                        gradients.positions[target + column] += 2.0 * by_distance * apart;
                        gradients.positions[source + column] -= 2.0 * by_distance * apart;
                    }
                }
            }
        }
        gradients
    }
}

impl<'a> Worker<'a> {
    /// All layers on this thread's lanes, from the last to the first.
    fn differentiate(mut self, by_out: &[f32], sums: &Sums) {
        self.clock.to(Kind::Copy);
        let own = &mut self.own()[..];
        let (dim, width) = (self.stack.network.dim, self.width());
        for own in &mut *own {
            let space = &mut *own.space;
            gather(&own.lane.nodes, by_out, dim, &mut space.x, width);
            fit(&mut space.by_arcs, own.lane.num_arcs() * width).fill(0.0);
            fit(&mut space.by_distances, own.lane.num_arcs()).fill(0.0);
        }
        let last = self.layers() - 1;
        self.share_output_sums(last, own);
        self.meet();
        for number in (0..=last).rev() {
            let at = &self.at(number);
            self.feed_phase(at, own, sums);
            if number < last {
                self.reduce(number + 1, sums);
            }
            self.meet();
            self.branch_phase(at, own, sums);
            if number > 0 {
                self.share_output_sums(number - 1, own);
            }
            self.meet();
        }
        self.reduce(0, sums);
        self.clock.stop();
    }

    /// What the BatchNorm after a layer needs to go on.
    fn share_output_sums(&mut self, number: usize, own: &mut [Own]) {
        self.clock.to(Kind::Norm);
        let (simd, width) = (self.simd(), self.width());
        let statistics = self.statistics(number, Place::Output);
        for own in own {
            let count = own.lane.rows() * width;
            let (x, out) = (&own.space.x[..count], &own.space.layers[number].out[..count]);
            self.workspace.exchanges[Place::Output as usize].put(own.number, 2 * width, |place| {
                derivative_sums(simd, x, [(out, &*statistics)], place);
            });
        }
    }

    /// Back through the feed-forward network, up to the BatchNorms of both branches.
    fn feed_phase(&mut self, at: &At, own: &mut [Own], sums: &Sums) {
        let (simd, width) = (self.simd(), self.width());
        let found = self.workspace.exchanges[Place::Output as usize].sum(2 * width);
        let output = self.statistics(at.number, Place::Output);
        let constants = self.norm_back(at, Place::Output, &output, found.split_at(width), sums);
        let [attention, local] =
            [Place::Attention, Place::Local].map(|place| self.statistics(at.number, place));
        for own in own {
            self.feed_back(at, own, &constants);
            self.clock.to(Kind::Norm);
            let kept = &own.space.layers[at.number];
            let count = own.lane.rows() * width;
            let x = &own.space.x[..count];
            let attended = (&kept.attended[..count], &*attention);
            let branches = &self.workspace.branches;
            if at.has_local() {
                let of = [attended, (&kept.local.out[..count], &*local)];
                branches.put(own.number, 3 * width, |place| derivative_sums(simd, x, of, place));
            } else {
                let of = [attended];
                branches.put(own.number, 2 * width, |place| derivative_sums(simd, x, of, place));
            }
        }
    }

    /// Back through attention and message passing, to the states that the layer began with.
    fn branch_phase(&mut self, at: &At, own: &mut [Own], sums: &Sums) {
        let width = self.width();
        let count = if at.has_local() { 3 } else { 2 };
        let found = self.workspace.branches.sum(count * width);
        let (by_y, products) = found.split_at(width);
        let constants = |place: Place, products| {
            let statistics = self.statistics(at.number, place);
            self.norm_back(at, place, &statistics, (by_y, products), sums)
        };
        let by_attention = constants(Place::Attention, &products[..width]);
        let by_local = at.has_local().then(|| constants(Place::Local, &products[width..]));
        let gated = at.is_gated().then(|| self.gated_norms(at));
        for own in &mut *own {
            if let Some(by_local) = &by_local {
                self.local_norm_back(at, own, by_local);
            }
            // Message passing needs the derivative by y, too, which this replaces.
            self.attention_back(at, own, &by_attention);
            match &gated {
                Some(norms) => self.gated_sums(at, own, norms),
                None if at.has_local() => self.gine_back(at, own),
                None => {}
            }
        }
        let Some(norms) = gated else { return };
        self.meet();
        let constants = norms.each_ref().map(|InnerNorm { place, statistics, .. }| {
            let found = self.workspace.exchanges[*place as usize].sum(2 * width);
            self.norm_back(at, *place, statistics, found.split_at(width), sums)
        });
        for own in own {
            self.gated_back(at, own, &constants);
        }
    }

    /// Constants of the way back through a BatchNorm, from sums over all rows: of derivatives, and of their products with
    /// the rows. The first thread keeps the derivatives by its weight and bias.
    fn norm_back(
        &self,
        at: &At,
        place: Place,
        statistics: &Statistics,
        (by_y, products): (&[f64], &[f64]),
        sums: &Sums,
    ) -> norm::Backward {
        let norm = at.packed.norm(place);
        if self.member.number == 0 {
            let dim = self.stack.network.dim;
            let by_weight = statistics.by_weight(products).take(dim).collect();
            let by_bias = by_y[..dim].iter().map(|&sum| sum as f32).collect();
            let mut norms = sums.norms.lock().expect(UNBROKEN);
            norms.extend([(norm.places[0], by_weight), (norm.places[1], by_bias)]);
        }
        statistics.backward(&norm.weight, by_y, products)
    }

    /// From the derivative by the state after the layer to that by y, in its place.
    fn feed_back(&mut self, at: &At, own: &mut Own, constants: &norm::Backward) {
        self.clock.to(Kind::Norm);
        let (simd, network, coins) = (self.simd(), &*self.stack.network, at.coins);
        let (rows, width, hidden_width) =
            (own.lane.rows(), network.width(), network.hidden_width());
        let mut gradients = self.gradients(at, own);
        let mut into = slot(&mut gradients, at, own);
        let space = &mut *own.space;
        let count = rows * width;
        let kept = &space.layers[at.number];
        let [by_out, dropped, by_hidden, ..] = &mut space.temporary;
        let by_out = fit(by_out, count);
        let dropped = fit(dropped, count);
        let drop = tosses(coins.outer.as_ref(), &space.firsts[0]);
        let has_drop = drop.is_some();
        let with = drop.map(|drop| (drop, &mut *dropped));
        backward(simd, constants, [&space.x[..count], &kept.out[..count]], by_out, with);
        let through = if has_drop { &*dropped } else { &*by_out };
        let [first, second] = &at.packed.feed_forward;
        self.clock.to(Kind::Gradient);
        second.gradient(simd, rows, through, &kept.hidden, hidden_width, into.again());
        self.clock.to(Kind::Backward);
        let by_hidden = fit(by_hidden, rows * hidden_width);
        let factor = coins.inner.map_or(1.0, |coins| coins.keep());
        let gate = Gate { out: by_hidden, kept: &kept.hidden, stride: hidden_width, factor };
        second.backward(simd, rows, through, gate);
        self.clock.to(Kind::Gradient);
        first.gradient(simd, rows, by_hidden, &kept.y, width, into);
        self.clock.to(Kind::Backward);
        first.backward(simd, rows, by_hidden, Store::adding(by_out, width));
        space.x[..count].copy_from_slice(by_out);
    }

    /// Through attention: replaces the derivative by y with what goes to x this way. The first two temporary buffers hold what
    /// goes to message passing.
    fn attention_back(&mut self, at: &At, own: &mut Own, constants: &norm::Backward) {
        self.clock.to(Kind::Norm);
        let (simd, network, coins) = (self.simd(), &*self.stack.network, at.coins);
        let (lane, rows, width, heads) =
            (own.lane, own.lane.rows(), network.width(), network.heads());
        let mut gradients = self.gradients(at, own);
        let mut into = slot(&mut gradients, at, own);
        let space = &mut *own.space;
        let count = rows * width;
        let kept = &space.layers[at.number];
        let [_, _, by_sum, dropped, by_mixed, by_packed] = &mut space.temporary;
        let by_sum = fit(by_sum, count);
        let dropped = fit(dropped, count);
        let drop = tosses(coins.attention.as_ref(), &space.firsts[0]);
        let has_drop = drop.is_some();
        let with = drop.map(|drop| (drop, &mut *dropped));
        backward(simd, constants, [&space.x[..count], &kept.attended[..count]], by_sum, with);
        if network.degree_scale {
            if !has_drop {
                dropped.copy_from_slice(by_sum);
            }
            for (row, scale) in dropped.chunks_exact_mut(width).zip(&space.scales) {
                row.iter_mut().for_each(|d| *d *= scale);
            }
        }
        let through = if has_drop || network.degree_scale { &*dropped } else { &*by_sum };
        self.clock.to(Kind::Gradient);
        let out_stride = heads.out_stride;
        at.packed.output.gradient(simd, rows, through, &kept.mixed, out_stride, into.again());
        self.clock.to(Kind::Backward);
        let by_mixed = fit(by_mixed, rows * out_stride);
        at.packed.output.backward(simd, rows, through, Store::new(by_mixed, out_stride));
        self.clock.to(Kind::Attention);
        let by_packed = fit(by_packed, rows * heads.stride);
        let mut backward = |by_bias: Option<&mut [f64]>| {
            attention::backward(
                simd,
                heads,
                &lane.spans,
                &kept.packed,
                &kept.weights,
                by_mixed,
                coins.weights.as_ref(),
                by_packed,
                by_bias,
                &mut space.scratch,
            );
        };
        let (group, first_of_group) = own.group;
        match at.layer.bias {
            Some(_) => {
                let codes = self.stack.codes;
                self.workspace.by_bias.put(group, codes * heads.count, |by_bias| {
                    if first_of_group {
                        by_bias.fill(0.0);
                    }
                    backward(Some(by_bias));
                });
            }
            None => backward(None),
        }
        self.clock.to(Kind::Gradient);
        at.packed.attention.gradient(simd, rows, by_packed, &kept.x, width, into);
        self.clock.to(Kind::Backward);
        at.packed.attention.backward(simd, rows, by_packed, Store::adding(by_sum, width));
        space.x[..count].copy_from_slice(by_sum);
    }

    /// Where a lane's group has its derivatives by the parameters of a layer.
    pub(super) fn gradients(&self, at: &At, own: &Own) -> RwLockWriteGuard<'a, Vec<f32>> {
        self.workspace.gradients[own.group.0][at.number % 2].write().expect(UNBROKEN)
    }

    /// Adds up what lanes have found for a layer: a share of its parameters, and, one thread, its bias.
    fn reduce(&mut self, number: usize, sums: &Sums) {
        self.clock.to(Kind::Reduce);
        let (stack, workspace, member) = (self.stack, self.workspace, self.member);
        let shares = &sums.shares[number];
        let mut share = shares[member.number].lock().expect(UNBROKEN);
        let length = workspace.layers[number].read().expect(UNBROKEN).range.len();
        let start = member.share(length).start;
        let groups = workspace.gradients.iter().take(stack.lanes.groups());
        let groups: Vec<_> =
            groups.map(|gradients| gradients[number % 2].read().expect(UNBROKEN)).collect();
        // A piece at a time, which stays in the cache while groups are added.
        const PIECE: usize = 1024;
        for (piece, sums) in share.chunks_mut(PIECE).enumerate() {
            let from = start + piece * PIECE;
            for (number, gradients) in groups.iter().enumerate() {
                let own = &gradients[from..][..sums.len()];
                match number {
                    0 => sums.copy_from_slice(own),
                    _ => sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += own),
                }
            }
        }
        if stack.network.layers[number].bias.is_some() && number % member.of() == member.number {
            let sum = workspace.by_bias.sum(stack.codes * stack.network.heads);
            workspace.bias.keep(number, sum);
        }
    }
}

/// Where a lane puts its derivatives by the parameters of a layer: added to those of its group, which begin with its first lane.
pub(super) fn slot<'a>(numbers: &'a mut Vec<f32>, at: &At, own: &Own) -> Slot<'a> {
    let numbers = fit(numbers, at.packed.range.len());
    Slot { numbers, start: at.packed.range.start, add: !own.group.1 }
}
