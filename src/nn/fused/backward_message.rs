//! The backward pass of message passing, for one lane.

use std::sync::RwLockReadGuard;

use super::backward::slot;
use super::clock::Kind;
use super::gated_gcn::{self, Derivatives, MAPS};
use super::gine;
use super::network::Place;
use super::norm::{Affine, Backward, Statistics, backward, deactivate, derivative_sums};
use super::phase::{At, Own, Worker};
use super::product::{Gate, Store};
use super::stack::{fit, tosses};

/// A BatchNorm inside of GatedGCN, as the forward pass had it.
#[derive(Debug)]
pub(super) struct InnerNorm<'a> {
    pub place: Place,
    pub statistics: RwLockReadGuard<'a, Statistics>,
    affine: Affine,
}

impl<'a> Worker<'a> {
    /// Back through the BatchNorm after message passing, into the first temporary buffer; in GINE through dropout, too, into the
    /// second.
    pub(super) fn local_norm_back(&mut self, at: &At, own: &mut Own, constants: &Backward) {
        self.clock.to(Kind::Norm);
        let count = own.lane.rows() * self.width();
        let space = &mut *own.space;
        let [by_out, dropped, ..] = &mut space.temporary;
        let coins = at.coins.local.as_ref().filter(|_| !at.is_gated());
        let with = tosses(coins, &space.firsts[0]).map(|tosses| (tosses, fit(dropped, count)));
        let out = &space.layers[at.number].local.out[..count];
        let by_out = fit(by_out, count);
        backward(self.simd(), constants, [&space.x[..count], out], by_out, with);
    }

    /// Through GINE: adds to the derivative by x, and to that by the states of arcs.
    pub(super) fn gine_back(&mut self, at: &At, own: &mut Own) {
        let (simd, width, rows) = (self.simd(), self.width(), own.lane.rows());
        let mut gradients = self.gradients(at, own);
        let mut into = slot(&mut gradients, at, own);
        let space = &mut *own.space;
        let (count, arcs) = (rows * width, own.lane.num_arcs() * width);
        let kept = &space.layers[at.number];
        let local = &kept.local;
        let [by_out, dropped, by_hidden, by_sum, ..] = &mut space.temporary;
        let by_out = &by_out[..count];
        let through = if at.coins.local.is_some() { &dropped[..count] } else { by_out };
        let [first, second] = &at.packed.local[..] else { unreachable!("two maps") };
        self.clock.to(Kind::Gradient);
        second.gradient(simd, rows, through, &local.second, width, into.again());
        self.clock.to(Kind::Backward);
        let by_hidden = fit(by_hidden, count);
        let gate = Gate { out: by_hidden, kept: &local.second, stride: width, factor: 1.0 };
        second.backward(simd, rows, through, gate);
        self.clock.to(Kind::Gradient);
        first.gradient(simd, rows, by_hidden, &local.first, width, into);
        self.clock.to(Kind::Backward);
        let by_sum = fit(by_sum, count);
        first.backward(simd, rows, by_hidden, Store::new(by_sum, width));
        self.clock.to(Kind::Message);
        for (dx, by_out) in space.x[..count].iter_mut().zip(by_out) {
            *dx += by_out;
        }
        let inputs = [&kept.x[..count], &space.arcs[..arcs], &*by_sum];
        gine::backward(simd, own.lane, width, inputs, [&mut space.x, &mut space.by_arcs]);
    }

    /// The BatchNorms of nodes and of arcs inside of GatedGCN.
    pub(super) fn gated_norms(&self, at: &At) -> [InnerNorm<'a>; 2] {
        [Place::Node, Place::Edge].map(|place| {
            let statistics = self.statistics(at.number, place);
            let norm = at.packed.norm(place);
            let affine = statistics.forward(&norm.weight, &norm.bias);
            InnerNorm { place, statistics, affine }
        })
    }

    /// Into GatedGCN as far as its BatchNorms.
    pub(super) fn gated_sums(&mut self, at: &At, own: &mut Own, [node, edge]: &[InnerNorm; 2]) {
        self.clock.to(Kind::Norm);
        let (simd, coins, width) = (self.simd(), at.coins, self.width());
        let lane = own.number;
        let space = &mut *own.space;
        let (count, arcs) = (own.lane.rows() * width, own.lane.num_arcs() * width);
        let local = &space.layers[at.number].local;
        let [by_out, by_normal, by_gates, ..] = &mut space.temporary;
        let by_out = &by_out[..count];
        for (dx, by_out) in space.x[..count].iter_mut().zip(by_out) {
            *dx += by_out;
        }
        let by_normal = fit(by_normal, count);
        let drop = tosses(coins.local.as_ref(), &space.firsts[0]);
        deactivate(simd, by_out, (&local.update[..count], &node.affine), drop, by_normal);
        let exchange = &self.workspace.exchanges[Place::Node as usize];
        exchange.put(lane, 2 * width, |place| {
            derivative_sums(simd, by_normal, [(&local.update[..count], &*node.statistics)], place);
        });
        let by_gates = fit(by_gates, arcs);
        let drop = tosses(coins.edge.as_ref(), &space.firsts[2]);
        deactivate(
            simd,
            &space.by_arcs[..arcs],
            (&local.second[..arcs], &edge.affine),
            drop,
            by_gates,
        );
        let exchange = &self.workspace.exchanges[Place::Edge as usize];
        exchange.put(lane, 2 * width, |place| {
            derivative_sums(simd, by_gates, [(&local.second[..arcs], &*edge.statistics)], place);
        });
    }

    /// Through the rest of GatedGCN: adds to the derivatives by x and by the states of arcs.
    pub(super) fn gated_back(
        &mut self,
        at: &At,
        own: &mut Own,
        [by_node, by_edge]: &[Backward; 2],
    ) {
        self.clock.to(Kind::Norm);
        let (simd, width, rows) = (self.simd(), self.width(), own.lane.rows());
        let mut gradients = self.gradients(at, own);
        let mut into = slot(&mut gradients, at, own);
        let space = &mut *own.space;
        let (count, arcs) = (rows * width, own.lane.num_arcs() * width);
        let kept = &space.layers[at.number];
        let local = &kept.local;
        let [by_update, by_normal, by_gates, all_by_gates, by_maps, by_gate] = &mut space.temporary;
        let by_update = fit(by_update, count);
        backward(simd, by_node, [&by_normal[..count], &local.update[..count]], by_update, None);
        let all = fit(all_by_gates, arcs);
        backward(simd, by_edge, [&by_gates[..arcs], &local.second[..arcs]], all, None);
        self.clock.to(Kind::Message);
        let has_gate = at.packed.gate.is_some();
        let by_maps = fit(by_maps, MAPS * count);
        let mut by_gate = has_gate.then(|| fit(by_gate, own.lane.num_arcs()));
        let of = gated_gcn::Kept {
            maps: &local.first,
            gate: has_gate.then_some(&local.gate[..]),
            gates: &local.second,
            inverse: &local.inverse,
            received: &local.received,
        };
        let derivatives =
            Derivatives { gates: &mut *all, maps: &mut *by_maps, gate: by_gate.as_deref_mut() };
        gated_gcn::backward(simd, own.lane, width, of, by_update, derivatives);
        if let (Some(by_gate), Some(places)) = (by_gate, &at.packed.gate) {
            let by = at.packed.edge_gate().backward(
                &space.distances,
                [&local.gate, by_gate],
                &mut space.by_distances,
            );
            let mut from = &by[..];
            for range in places {
                let (found, others) = from.split_at(range.len());
                let own = &mut into.numbers[range.start - into.start..][..range.len()];
                match into.add {
                    true => own.iter_mut().zip(found).for_each(|(sum, found)| *sum += found),
                    false => own.copy_from_slice(found),
                }
                from = others;
            }
        }
        let [nodes, arc_map] = &at.packed.local[..] else { unreachable!("two maps") };
        self.clock.to(Kind::Gradient);
        nodes.gradient(simd, rows, by_maps, &kept.x, width, into.again());
        let num_arcs = own.lane.num_arcs();
        arc_map.gradient(simd, num_arcs, all, &local.arcs, width, into);
        self.clock.to(Kind::Backward);
        nodes.backward(simd, rows, by_maps, Store::adding(&mut space.x, width));
        arc_map.backward(simd, num_arcs, all, Store::adding(&mut space.by_arcs, width));
    }
}
