//! The backward pass of a stack, phase by phase.
//!
//! The mirror image of the forward pass. Every group of lanes has its own derivatives by the parameters of the layer at
//! hand; in the phase after, all threads add up those of all groups, each a share of the parameters, group after
//! group. Two sets of them take turns, so nobody writes what another reads.

use std::sync::Mutex;

use super::attention;
use super::clock::{Clock, Kind};
use super::network::{Layer, Local, Packed, Place};
use super::norm::{Statistics, backward, derivative_sums};
use super::product::{Gate, Store};
use super::stack::{Inputs, Own, Stack, UNBROKEN, Workspace, fit, gather, scatter, tosses};
use super::team::{Member, share};
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
        self.team.run(self.lanes.groups(), |member| {
            self.differentiate_share(workspace, member, by_out, &sums)
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

    fn differentiate_share(
        &self,
        workspace: &Workspace,
        member: Member,
        by_out: &[f32],
        sums: &Sums,
    ) {
        let mut clock = workspace.clocks[member.number].lock().expect(UNBROKEN);
        let clock = &mut *clock;
        clock.to(Kind::Copy);
        let mut own = self.own(workspace, member);
        let (network, width) = (&*self.network, self.network.width());
        for own in &mut own {
            let space = &mut *own.space;
            gather(&own.lane.nodes, by_out, network.dim, &mut space.x, width);
            fit(&mut space.by_arcs, own.lane.num_arcs() * width).fill(0.0);
            fit(&mut space.by_distances, own.lane.num_arcs()).fill(0.0);
        }
        let last = network.layers.len();
        clock.to(Kind::Norm);
        let statistics = self.statistics(workspace, last - 1, Place::Output);
        for own in &mut own {
            self.share_output_sums(workspace, last - 1, own, &statistics);
        }
        self.meet(member, clock);
        for (number, layer) in network.layers.iter().enumerate().rev() {
            let packed = workspace.layers[number].read().expect(UNBROKEN);
            let packed = &*packed;
            // The feed-forward network.
            let exchange = &workspace.exchanges[Place::Output as usize];
            let found = exchange.sum(2 * width);
            let output = self.statistics(workspace, number, Place::Output);
            self.keep_norm(
                member,
                packed,
                Place::Output,
                &output,
                &found[..width],
                &found[width..],
                sums,
            );
            let constants = output.backward(
                &packed.norm(Place::Output).weight,
                &found[..width],
                &found[width..],
            );
            let [attention, local] = [Place::Attention, Place::Local]
                .map(|place| self.statistics(workspace, number, place));
            let has_local = !matches!(layer.local, Local::None);
            for own in &mut own {
                self.feed_back(workspace, clock, packed, number, own, &constants);
                clock.to(Kind::Norm);
                let space = &*own.space;
                let kept = &space.layers[number];
                let count = own.lane.rows() * width;
                let (simd, x) = (self.simd, &space.x[..count]);
                let attended = (&kept.attended[..count], &attention);
                if has_local {
                    let of = [attended, (&kept.local.out[..count], &local)];
                    let branches = &workspace.branches;
                    branches
                        .put(own.number, 3 * width, |place| derivative_sums(simd, x, of, place));
                } else {
                    let of = [attended];
                    let branches = &workspace.branches;
                    branches
                        .put(own.number, 2 * width, |place| derivative_sums(simd, x, of, place));
                }
            }
            if number + 1 < last {
                self.reduce(workspace, clock, member, number + 1, sums);
            }
            self.meet(member, clock);
            // Both branches.
            let branches = if has_local { 2 } else { 1 };
            let found = workspace.branches.sum((branches + 1) * width);
            let (by_y, products) = found.split_at(width);
            let constants = |place: Place, statistics: &Statistics, products: &[f64]| {
                self.keep_norm(member, packed, place, statistics, by_y, products, sums);
                statistics.backward(&packed.norm(place).weight, by_y, products)
            };
            let by_attention = constants(Place::Attention, &attention, &products[..width]);
            let by_local = has_local.then(|| constants(Place::Local, &local, &products[width..]));
            let gated = matches!(layer.local, Local::GatedGcn { .. });
            let [node, edge] = [Place::Node, Place::Edge].map(|place| match gated {
                true => self.statistics(workspace, number, place),
                false => Statistics::default(),
            });
            let affines = gated.then(|| {
                let affine = |place, statistics: &Statistics| {
                    let norm = packed.norm(place);
                    statistics.forward(&norm.weight, &norm.bias)
                };
                [affine(Place::Node, &node), affine(Place::Edge, &edge)]
            });
            for own in &mut own {
                // The derivative by y is needed by both.
                let count = own.lane.rows() * width;
                if let Some(by_local) = &by_local {
                    clock.to(Kind::Norm);
                    let space = &mut *own.space;
                    let [temporary, dropped, ..] = &mut space.temporary;
                    let coins = self.coins[number].local.as_ref().filter(|_| !gated);
                    let dropped = tosses(coins, &space.firsts[0]).map(|t| (t, fit(dropped, count)));
                    let s = &space.layers[number].local.out[..count];
                    let ds = fit(temporary, count);
                    backward(self.simd, by_local, [&space.x[..count], s], ds, dropped);
                }
                self.attention_back(workspace, clock, packed, layer, number, own, &by_attention);
                match &affines {
                    None if has_local => self.gine_back(workspace, clock, packed, number, own),
                    Some(affines) => {
                        self.gated_sums(workspace, clock, number, own, [&node, &edge], affines);
                    }
                    None => {}
                }
            }
            if gated {
                self.meet(member, clock);
                let sum = |place: Place| workspace.exchanges[place as usize].sum(2 * width);
                let [of_node, of_edge] = [Place::Node, Place::Edge].map(sum);
                let constants = |place: Place, statistics: &Statistics, found: &[f64]| {
                    let (sums_found, products) = found.split_at(width);
                    self.keep_norm(member, packed, place, statistics, sums_found, products, sums);
                    statistics.backward(&packed.norm(place).weight, sums_found, products)
                };
                let by_node = constants(Place::Node, &node, &of_node);
                let by_edge = constants(Place::Edge, &edge, &of_edge);
                for own in &mut own {
                    self.gated_back(workspace, clock, packed, number, own, [&by_node, &by_edge]);
                }
            }
            if number > 0 {
                clock.to(Kind::Norm);
                let statistics = self.statistics(workspace, number - 1, Place::Output);
                for own in &mut own {
                    self.share_output_sums(workspace, number - 1, own, &statistics);
                }
            }
            self.meet(member, clock);
        }
        self.reduce(workspace, clock, member, 0, sums);
        clock.stop();
    }

    fn statistics(&self, workspace: &Workspace, layer: usize, place: Place) -> Statistics {
        workspace.statistics[layer][place as usize].read().expect(UNBROKEN).clone()
    }

    /// Keeps the derivatives by weight and bias of a BatchNorm, from sums over all rows.
    #[expect(clippy::too_many_arguments, reason = "one of each")]
    fn keep_norm(
        &self,
        member: Member,
        packed: &Packed,
        place: Place,
        statistics: &Statistics,
        by_y: &[f64],
        products: &[f64],
        sums: &Sums,
    ) {
        if member.number > 0 {
            return;
        }
        let norm = packed.norm(place);
        let by_weight = statistics.by_weight(products).take(self.network.dim).collect();
        let by_bias = by_y[..self.network.dim].iter().map(|&sum| sum as f32).collect();
        let mut norms = sums.norms.lock().expect(UNBROKEN);
        norms.extend([(norm.places[0], by_weight), (norm.places[1], by_bias)]);
    }

    /// What the BatchNorm after the layer needs to go on.
    fn share_output_sums(
        &self,
        workspace: &Workspace,
        number: usize,
        own: &mut Own,
        statistics: &Statistics,
    ) {
        let width = self.network.width();
        let count = own.lane.rows() * width;
        let (x, out) = (&own.space.x[..count], &own.space.layers[number].out[..count]);
        workspace.exchanges[Place::Output as usize].put(own.number, 2 * width, |place| {
            derivative_sums(self.simd, x, [(out, statistics)], place);
        });
    }

    /// From the derivative by the state after the layer to that by y, in its place.
    fn feed_back(
        &self,
        workspace: &Workspace,
        clock: &mut Clock,
        packed: &Packed,
        number: usize,
        own: &mut Own,
        constants: &super::norm::Backward,
    ) {
        clock.to(Kind::Norm);
        let (simd, network, coins) = (self.simd, &*self.network, &self.coins[number]);
        let (rows, width, hidden_width) =
            (own.lane.rows(), network.width(), network.hidden_width());
        let space = &mut *own.space;
        let count = rows * width;
        let kept = &space.layers[number];
        let [by_out, dropped, by_hidden, ..] = &mut space.temporary;
        let by_out = fit(by_out, count);
        let dropped = fit(dropped, count);
        let drop = tosses(coins.outer.as_ref(), &space.firsts[0]);
        let has_drop = drop.is_some();
        let with = drop.map(|drop| (drop, &mut *dropped));
        backward(simd, constants, [&space.x[..count], &kept.out[..count]], by_out, with);
        let through = if has_drop { &*dropped } else { &*by_out };
        let [first, second] = &packed.feed_forward;
        let (group, first_of_group) = own.group;
        let mut gradients = workspace.gradients[group][number % 2].write().expect(UNBROKEN);
        let mut into = slot(&mut gradients, packed, first_of_group);
        clock.to(Kind::Gradient);
        second.gradient(simd, rows, through, &kept.hidden, hidden_width, into.again());
        clock.to(Kind::Backward);
        let by_hidden = fit(by_hidden, rows * hidden_width);
        let factor = coins.inner.map_or(1.0, |coins| coins.keep());
        let gate = Gate { out: by_hidden, kept: &kept.hidden, stride: hidden_width, factor };
        second.backward(simd, rows, through, gate);
        clock.to(Kind::Gradient);
        first.gradient(simd, rows, by_hidden, &kept.y, width, into);
        clock.to(Kind::Backward);
        first.backward(simd, rows, by_hidden, Store::adding(by_out, width));
        space.x[..count].copy_from_slice(by_out);
    }

    /// Through attention: replaces the derivative by y with what goes to x this way.
    #[expect(clippy::too_many_arguments, reason = "the state of a phase")]
    fn attention_back(
        &self,
        workspace: &Workspace,
        clock: &mut Clock,
        packed: &Packed,
        layer: &Layer,
        number: usize,
        own: &mut Own,
        constants: &super::norm::Backward,
    ) {
        clock.to(Kind::Norm);
        let (simd, network, coins) = (self.simd, &*self.network, &self.coins[number]);
        let (lane, rows, width, heads) =
            (own.lane, own.lane.rows(), network.width(), network.heads());
        let space = &mut *own.space;
        let count = rows * width;
        let kept = &space.layers[number];
        // The first two hold what goes to message passing.
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
        let (group, first_of_group) = own.group;
        let mut gradients = workspace.gradients[group][number % 2].write().expect(UNBROKEN);
        let mut into = slot(&mut gradients, packed, first_of_group);
        clock.to(Kind::Gradient);
        let out_stride = heads.out_stride;
        packed.output.gradient(simd, rows, through, &kept.mixed, out_stride, into.again());
        clock.to(Kind::Backward);
        let by_mixed = fit(by_mixed, rows * out_stride);
        packed.output.backward(simd, rows, through, Store::new(by_mixed, out_stride));
        clock.to(Kind::Attention);
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
        match layer.bias {
            Some(_) => workspace.by_bias.put(group, self.codes * heads.count, |by_bias| {
                if first_of_group {
                    by_bias.fill(0.0);
                }
                backward(Some(by_bias));
            }),
            None => backward(None),
        }
        clock.to(Kind::Gradient);
        packed.attention.gradient(simd, rows, by_packed, &kept.x, width, into);
        clock.to(Kind::Backward);
        packed.attention.backward(simd, rows, by_packed, Store::adding(by_sum, width));
        space.x[..count].copy_from_slice(by_sum);
    }

    /// Adds up what lanes have found for a layer: a share of its parameters, and, one thread, its bias.
    fn reduce(
        &self,
        workspace: &Workspace,
        clock: &mut Clock,
        member: Member,
        number: usize,
        sums: &Sums,
    ) {
        clock.to(Kind::Reduce);
        let shares = &sums.shares[number];
        let mut share = shares[member.number].lock().expect(UNBROKEN);
        let length = workspace.layers[number].read().expect(UNBROKEN).range.len();
        let start = member.share(length).start;
        let groups = workspace.gradients.iter().take(self.lanes.groups());
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
        if self.network.layers[number].bias.is_some() && number % member.of() == member.number {
            let sum = workspace.by_bias.sum(self.codes * self.network.heads);
            workspace.bias.keep(number, sum);
        }
    }
}

/// Where a group of lanes puts its derivatives by the parameters of a layer.
pub(super) fn slot<'a>(
    numbers: &'a mut Vec<f32>,
    packed: &Packed,
    first_of_group: bool,
) -> Slot<'a> {
    let numbers = fit(numbers, packed.range.len());
    Slot { numbers, start: packed.range.start, add: !first_of_group }
}
