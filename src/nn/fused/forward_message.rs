//! The forward pass of message passing, for one lane.

use super::clock::Kind;
use super::gated_gcn::{self, MAPS, Results};
use super::gine;
use super::network::Place;
use super::norm::{Affine, activate};
use super::phase::{At, Own, Worker};
use super::product::{Biased, Relu, Residual};
use super::stack::{fit, tosses};

impl Worker<'_> {
    /// GINE, up to the BatchNorm after it.
    pub(super) fn gine(&mut self, at: &At, own: &mut Own) {
        let (simd, width, rows) = (self.simd(), self.width(), own.lane.rows());
        let space = &mut *own.space;
        let count = rows * width;
        let kept = &mut space.layers[self.stack.kept(at.number)];
        let (x, local) = (&kept.x[..count], &mut kept.local);
        let [first, second] = &at.packed.local[..] else { unreachable!("two maps") };
        self.clock.to(Kind::Message);
        let arcs = &space.arcs[..own.lane.num_arcs() * width];
        gine::forward(simd, own.lane, width, [x, arcs], fit(&mut local.first, count));
        self.clock.to(Kind::Forward);
        let hidden = fit(&mut local.second, count);
        let relu = Relu { out: hidden, stride: width, bias: first.bias(), tosses: None };
        first.forward(simd, rows, &local.first, width, relu);
        let residual = Residual {
            out: fit(&mut local.out, count),
            residual: x,
            stride: width,
            bias: second.bias(),
            scales: None,
            tosses: tosses(at.coins.local.as_ref(), &space.firsts[0]),
        };
        second.forward(simd, rows, &local.second, width, residual);
        self.share(own.number, Place::Local, &local.out[..count]);
    }

    /// GatedGCN, up to its own BatchNorms.
    pub(super) fn gated_maps(&mut self, at: &At, own: &mut Own) {
        let (simd, width) = (self.simd(), self.width());
        let (rows, num_arcs) = (own.lane.rows(), own.lane.num_arcs());
        let space = &mut *own.space;
        let count = rows * width;
        let kept = &mut space.layers[self.stack.kept(at.number)];
        let local = &mut kept.local;
        let [nodes, arcs] = &at.packed.local[..] else { unreachable!("two maps") };
        self.clock.to(Kind::Forward);
        let maps = fit(&mut local.first, MAPS * count);
        let biased = Biased { out: maps, stride: MAPS * width, bias: nodes.bias() };
        nodes.forward(simd, rows, &kept.x[..count], width, biased);
        let gates = fit(&mut local.second, num_arcs * width);
        let biased = Biased { out: gates, stride: width, bias: arcs.bias() };
        arcs.forward(simd, num_arcs, &local.arcs, width, biased);
        self.clock.to(Kind::Message);
        let gate = at.packed.gate.is_some().then(|| {
            let gate_values = fit(&mut local.gate, num_arcs);
            at.packed.edge_gate().forward(&space.distances, gate_values);
            &*gate_values
        });
        let results = Results {
            gates,
            inverse: fit(&mut local.inverse, count),
            received: fit(&mut local.received, count),
            update: fit(&mut local.update, count),
        };
        gated_gcn::forward(simd, own.lane, width, &local.first, gate, results);
        self.share(own.number, Place::Node, &local.update[..count]);
        self.share(own.number, Place::Edge, &local.second[..num_arcs * width]);
    }

    /// GatedGCN: the new states of nodes and arcs.
    pub(super) fn gated_states(&mut self, at: &At, own: &mut Own, [node, edge]: [&Affine; 2]) {
        self.clock.to(Kind::Norm);
        let (simd, coins, width) = (self.simd(), at.coins, self.width());
        let space = &mut *own.space;
        let (count, arcs) = (own.lane.rows() * width, own.lane.num_arcs() * width);
        let kept = &mut space.layers[self.stack.kept(at.number)];
        let local = &mut kept.local;
        let drop = tosses(coins.local.as_ref(), &space.firsts[0]);
        let out = fit(&mut local.out, count);
        activate(simd, Some(&kept.x[..count]), (&local.update[..count], node), drop, out);
        self.share(own.number, Place::Local, &local.out[..count]);
        if at.number + 1 < self.layers() {
            self.clock.to(Kind::Norm);
            let drop = tosses(coins.edge.as_ref(), &space.firsts[2]);
            let next = fit(&mut space.temporary[0], arcs);
            activate(simd, Some(&local.arcs[..arcs]), (&local.second[..arcs], edge), drop, next);
            let next = &mut space.layers[self.stack.kept(at.number + 1)].local.arcs;
            std::mem::swap(next, &mut space.temporary[0]);
        }
    }
}
