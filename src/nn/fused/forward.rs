//! The forward pass of a stack, phase by phase.
//!
//! Between two barriers a thread works through its lanes; all that a phase does to a lane is done while its rows
//! are in the cache. A layer has two phases, branches and feed-forward, and GatedGCN one more between them:
//! wherever a BatchNorm needs sums over all lanes.

use super::attention;
use super::clock::{Clock, Kind};
use super::gated_gcn::{self, MAPS, Results};
use super::gine;
use super::network::{Layer, Local, Packed, Place};
use super::norm::{Affine, Exchange, activate, apply, moments};
use super::product::{Biased, Relu, Residual};
use super::stack::{Inputs, Kept, Own, Stack, UNBROKEN, Workspace, fit, gather, scatter, tosses};
use super::team::Member;

impl Stack {
    /// The states of nodes after all layers.
    pub fn compute(&self, inputs: Inputs) -> Vec<f32> {
        let mut workspace = self.workspace.lock().expect(UNBROKEN);
        let workspace = &mut *workspace;
        let clock = workspace.clocks[0].get_mut().expect(UNBROKEN);
        clock.to(Kind::Bias);
        workspace.bias.forward(self.simd, inputs.bias, self.codes);
        clock.stop();
        let workspace = &*workspace;
        self.team.run(self.lanes.groups(), |member| self.compute_share(workspace, member, inputs));
        let (width, padded) = (self.network.dim, self.network.width());
        let mut out = vec![0.0; self.lanes.rows() * width];
        for (lane, space) in self.lanes.all().iter().zip(&workspace.lanes) {
            scatter(&lane.nodes, &space.lock().expect(UNBROKEN).x, padded, &mut out, width);
        }
        out
    }

    fn compute_share(&self, workspace: &Workspace, member: Member, inputs: Inputs) {
        let mut clock = workspace.clocks[member.number].lock().expect(UNBROKEN);
        let clock = &mut *clock;
        clock.to(Kind::Copy);
        let mut own = self.own(workspace, member);
        for own in &mut own {
            self.enter(own, inputs);
        }
        let mut before: Option<Affine> = None;
        for (number, layer) in self.network.layers.iter().enumerate() {
            let packed = workspace.layers[number].read().expect(UNBROKEN);
            let normalise = |place| self.normalise(workspace, member, number, place);
            for own in &mut own {
                self.branches(workspace, clock, &packed, layer, number, own, before.as_ref());
            }
            self.meet(member, clock);
            if let Local::GatedGcn { .. } = layer.local {
                let [node, edge] = [Place::Node, Place::Edge].map(normalise);
                for own in &mut own {
                    self.gated_states(workspace, clock, number, own, [&node, &edge]);
                }
                self.meet(member, clock);
            }
            let attention = normalise(Place::Attention);
            let local = match layer.local {
                Local::None => None,
                _ => Some(normalise(Place::Local)),
            };
            for own in &mut own {
                self.feed(workspace, clock, &packed, number, own, &attention, local.as_ref());
            }
            self.meet(member, clock);
            before = Some(normalise(Place::Output));
        }
        clock.to(Kind::Norm);
        let before = before.expect("there is a layer");
        for own in &mut own {
            let space = &mut *own.space;
            let count = own.lane.rows() * self.network.width();
            let last = &space.layers[self.kept(self.network.layers.len() - 1)];
            apply(self.simd, [(&last.out[..count], &before)], fit(&mut space.x, count));
        }
        clock.stop();
    }

    /// Meets the others, if there are statistics to share.
    pub(super) fn meet(&self, member: Member, clock: &mut Clock) {
        if self.training {
            clock.to(Kind::Wait);
            member.meet();
            clock.to(Kind::Norm);
        }
    }

    /// Puts the inputs of a lane in place.
    fn enter(&self, own: &mut Own, inputs: Inputs) {
        let (network, lane) = (&*self.network, own.lane);
        let space = &mut *own.space;
        let layers = if self.training { network.layers.len() } else { 1 };
        space.layers.resize_with(space.layers.len().max(layers), Kept::default);
        let first = |rows: &[u32], width: usize, firsts: &mut Vec<u32>| {
            firsts.clear();
            firsts.extend(rows.iter().map(|row| row.wrapping_mul(width as u32)));
        };
        let dropped = |pick: fn(&super::stack::LayerCoins) -> bool| self.coins.iter().any(pick);
        if dropped(|coins| {
            coins.attention.is_some() || coins.outer.is_some() || coins.local.is_some()
        }) {
            first(&lane.nodes, network.dim, &mut space.firsts[0]);
        }
        if dropped(|coins| coins.inner.is_some()) {
            first(&lane.nodes, network.hidden, &mut space.firsts[1]);
        }
        if dropped(|coins| coins.edge.is_some()) {
            first(&lane.arcs, network.dim, &mut space.firsts[2]);
        }
        if network.degree_scale {
            let degree = |row: usize| lane.leaving(row).len() as f32;
            space.scales.clear();
            space.scales.extend((0..lane.rows()).map(|row| 1.0 / (1.0 + degree(row)).sqrt()));
        }
        let [dim, width] = [network.dim, network.width()];
        let Some(first) = space.layers.first_mut() else { return };
        gather(&lane.nodes, inputs.nodes, dim, &mut first.x, width);
        match network.layers.first().map(|layer| &layer.local) {
            Some(Local::Gine { .. }) => {
                gather(&lane.arcs, inputs.arcs, dim, &mut space.arcs, width);
            }
            Some(Local::GatedGcn { .. }) => {
                gather(&lane.arcs, inputs.arcs, dim, &mut first.local.arcs, width);
            }
            Some(Local::None) | None => {}
        }
        if network.has_gate() {
            let width = inputs.positions.len() / self.lanes.rows();
            let row =
                |row: u32| &inputs.positions[lane.nodes[row as usize] as usize * width..][..width];
            let apart = |(&a, &b): (&f32, &f32)| (a - b) * (a - b);
            let ends = lane.sources.iter().zip(&lane.targets);
            space.distances.clear();
            let squares =
                |(&s, &t): (&u32, &u32)| row(t).iter().zip(row(s)).map(apart).sum::<f32>();
            space.distances.extend(ends.map(squares));
        }
    }

    /// Attention and message passing, up to the BatchNorms after them.
    #[expect(clippy::too_many_arguments, reason = "the state of a phase")]
    fn branches(
        &self,
        workspace: &Workspace,
        clock: &mut Clock,
        packed: &Packed,
        layer: &Layer,
        number: usize,
        own: &mut Own,
        before: Option<&Affine>,
    ) {
        let (simd, network, coins) = (self.simd, &*self.network, &self.coins[number]);
        let (lane, rows, width, heads) =
            (own.lane, own.lane.rows(), network.width(), network.heads());
        let space = &mut *own.space;
        let count = rows * width;
        clock.to(Kind::Norm);
        if let Some(before) = before {
            let (earlier, later) = space.layers.split_at_mut(self.kept(number));
            match earlier.last() {
                Some(earlier) => {
                    let x = fit(&mut later[0].x, count);
                    apply(simd, [(&earlier.out[..count], before)], x);
                }
                None => {
                    let Kept { x, out, .. } = &mut later[0];
                    apply(simd, [(&out[..count], before)], fit(x, count));
                }
            }
        }
        let kept = &mut space.layers[self.kept(number)];
        let x = &kept.x[..count];
        clock.to(Kind::Forward);
        let into = fit(&mut kept.packed, rows * heads.stride);
        let biased = Biased { out: into, stride: heads.stride, bias: packed.attention.bias() };
        packed.attention.forward(simd, rows, x, width, biased);
        clock.to(Kind::Attention);
        let bias = layer.bias.is_some().then(|| (workspace.bias.tables(number), self.codes));
        let weights = fit(&mut kept.weights, lane.pairs() * heads.count);
        let mixed = fit(&mut kept.mixed, rows * heads.out_stride);
        let scratch = &mut space.scratch;
        let drop = coins.weights.as_ref();
        attention::forward(
            simd,
            heads,
            &lane.spans,
            &kept.packed,
            bias,
            drop,
            weights,
            mixed,
            scratch,
        );
        clock.to(Kind::Forward);
        let residual = Residual {
            out: fit(&mut kept.attended, count),
            residual: x,
            stride: width,
            bias: packed.output.bias(),
            scales: network.degree_scale.then_some(&space.scales),
            tosses: tosses(coins.attention.as_ref(), &space.firsts[0]),
        };
        packed.output.forward(simd, rows, mixed, heads.out_stride, residual);
        self.share(workspace, clock, own.number, Place::Attention, &kept.attended[..count]);

        let local = &mut kept.local;
        match &layer.local {
            Local::None => {}
            Local::Gine { .. } => {
                let [first, second] = &packed.local[..] else { unreachable!("two maps") };
                clock.to(Kind::Message);
                let arcs = &space.arcs[..lane.num_arcs() * width];
                gine::forward(simd, lane, width, [x, arcs], fit(&mut local.first, count));
                clock.to(Kind::Forward);
                let hidden = fit(&mut local.second, count);
                let relu = Relu { out: hidden, stride: width, bias: first.bias(), tosses: None };
                first.forward(simd, rows, &local.first, width, relu);
                let residual = Residual {
                    out: fit(&mut local.out, count),
                    residual: x,
                    stride: width,
                    bias: second.bias(),
                    scales: None,
                    tosses: tosses(coins.local.as_ref(), &space.firsts[0]),
                };
                second.forward(simd, rows, &local.second, width, residual);
                self.share(workspace, clock, own.number, Place::Local, &local.out[..count]);
            }
            Local::GatedGcn { gate, .. } => {
                let [nodes, arcs] = &packed.local[..] else { unreachable!("two maps") };
                let maps = fit(&mut local.first, MAPS * count);
                let biased = Biased { out: maps, stride: MAPS * width, bias: nodes.bias() };
                nodes.forward(simd, rows, x, width, biased);
                let gates = fit(&mut local.second, lane.num_arcs() * width);
                let biased = Biased { out: gates, stride: width, bias: arcs.bias() };
                arcs.forward(simd, lane.num_arcs(), &local.arcs, width, biased);
                clock.to(Kind::Message);
                let gate = gate.is_some().then(|| {
                    let gate_values = fit(&mut local.gate, lane.num_arcs());
                    packed.edge_gate().forward(&space.distances, gate_values);
                    &*gate_values
                });
                let results = Results {
                    gates,
                    inverse: fit(&mut local.inverse, count),
                    received: fit(&mut local.received, count),
                    update: fit(&mut local.update, count),
                };
                gated_gcn::forward(simd, lane, width, &local.first, gate, results);
                self.share(workspace, clock, own.number, Place::Node, &local.update[..count]);
                let gates = &local.second[..lane.num_arcs() * width];
                self.share(workspace, clock, own.number, Place::Edge, gates);
            }
        }
    }

    /// Leaves the moments of a lane's rows for all to read.
    fn share(
        &self,
        workspace: &Workspace,
        clock: &mut Clock,
        lane: usize,
        place: Place,
        rows: &[f32],
    ) {
        if self.training && !rows.is_empty() {
            clock.to(Kind::Norm);
            let width = self.network.width();
            let exchange: &Exchange = &workspace.exchanges[place as usize];
            exchange.put(lane, 2 * width, |place| moments(self.simd, rows, width, place));
        }
    }

    /// GatedGCN: the new states of nodes and arcs.
    fn gated_states(
        &self,
        workspace: &Workspace,
        clock: &mut Clock,
        number: usize,
        own: &mut Own,
        [node, edge]: [&Affine; 2],
    ) {
        clock.to(Kind::Norm);
        let (simd, coins, width) = (self.simd, &self.coins[number], self.network.width());
        let space = &mut *own.space;
        let (count, arcs) = (own.lane.rows() * width, own.lane.num_arcs() * width);
        let kept = &mut space.layers[self.kept(number)];
        let local = &mut kept.local;
        let drop = tosses(coins.local.as_ref(), &space.firsts[0]);
        let out = fit(&mut local.out, count);
        activate(simd, Some(&kept.x[..count]), (&local.update[..count], node), drop, out);
        self.share(workspace, clock, own.number, Place::Local, &local.out[..count]);
        if number + 1 < self.network.layers.len() {
            clock.to(Kind::Norm);
            let drop = tosses(coins.edge.as_ref(), &space.firsts[2]);
            let next = fit(&mut space.temporary[0], arcs);
            activate(simd, Some(&local.arcs[..arcs]), (&local.second[..arcs], edge), drop, next);
            let next = &mut space.layers[self.kept(number + 1)].local.arcs;
            std::mem::swap(next, &mut space.temporary[0]);
        }
    }

    /// The sum of both branches through the feed-forward network.
    #[expect(clippy::too_many_arguments, reason = "the state of a phase")]
    fn feed(
        &self,
        workspace: &Workspace,
        clock: &mut Clock,
        packed: &Packed,
        number: usize,
        own: &mut Own,
        attention: &Affine,
        local: Option<&Affine>,
    ) {
        clock.to(Kind::Norm);
        let (simd, network, coins) = (self.simd, &*self.network, &self.coins[number]);
        let (rows, width, hidden_width) =
            (own.lane.rows(), network.width(), network.hidden_width());
        let space = &mut *own.space;
        let count = rows * width;
        let kept = &mut space.layers[self.kept(number)];
        let y = fit(&mut kept.y, count);
        let attended = (&kept.attended[..count], attention);
        match local {
            Some(local) => apply(simd, [(&kept.local.out[..count], local), attended], y),
            None => apply(simd, [attended], y),
        }
        clock.to(Kind::Forward);
        let [first, second] = &packed.feed_forward;
        let relu = Relu {
            out: fit(&mut kept.hidden, rows * hidden_width),
            stride: hidden_width,
            bias: first.bias(),
            tosses: tosses(coins.inner.as_ref(), &space.firsts[1]),
        };
        first.forward(simd, rows, y, width, relu);
        let residual = Residual {
            out: fit(&mut kept.out, count),
            residual: y,
            stride: width,
            bias: second.bias(),
            scales: None,
            tosses: tosses(coins.outer.as_ref(), &space.firsts[0]),
        };
        second.forward(simd, rows, &kept.hidden, hidden_width, residual);
        self.share(workspace, clock, own.number, Place::Output, &kept.out[..count]);
    }
}
