//! The forward pass of a stack, phase by phase.
//!
//! Between two barriers a thread works through its lanes; all that a phase does to a lane is done while its rows
//! are in the cache. A layer has two phases, branches and feed-forward, and GatedGCN one more between them:
//! wherever a BatchNorm needs sums over all lanes.

use super::attention;
use super::clock::Kind;
use super::network::{Local, Place};
use super::norm::{Affine, apply, moments};
use super::phase::{At, Own, Worker};
use super::product::{Biased, Relu, Residual};
use super::stack::{Inputs, Kept, LayerCoins, Stack, UNBROKEN, fit, gather, scatter, tosses};

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
        self.team.run(self.lanes.groups(), |member| {
            Worker::new(self, workspace, member).compute(inputs);
        });
        let (width, padded) = (self.network.dim, self.network.width());
        let mut out = vec![0.0; self.lanes.rows() * width];
        for (lane, space) in self.lanes.all().iter().zip(&workspace.lanes) {
            scatter(&lane.nodes, &space.lock().expect(UNBROKEN).x, padded, &mut out, width);
        }
        out
    }
}

impl Worker<'_> {
    /// All layers on this thread's lanes.
    fn compute(mut self, inputs: Inputs) {
        self.clock.to(Kind::Copy);
        let mut own = self.own();
        for own in &mut own {
            self.enter(own, inputs);
        }
        let mut before: Option<Affine> = None;
        for number in 0..self.layers() {
            let at = &self.at(number);
            for own in &mut own {
                self.begin(at, own, before.as_ref());
                self.attend(at, own);
                match at.layer.local {
                    Local::None => {}
                    Local::Gine { .. } => self.gine(at, own),
                    Local::GatedGcn { .. } => self.gated_maps(at, own),
                }
            }
            self.meet();
            if at.is_gated() {
                let [node, edge] =
                    [Place::Node, Place::Edge].map(|place| self.normalise(at, place));
                for own in &mut own {
                    self.gated_states(at, own, [&node, &edge]);
                }
                self.meet();
            }
            let attention = self.normalise(at, Place::Attention);
            let local = at.has_local().then(|| self.normalise(at, Place::Local));
            for own in &mut own {
                self.feed(at, own, &attention, local.as_ref());
            }
            self.meet();
            before = Some(self.normalise(at, Place::Output));
        }
        self.clock.to(Kind::Norm);
        let before = before.expect("there is a layer");
        let last = self.stack.kept(self.layers() - 1);
        for own in &mut own {
            let space = &mut *own.space;
            let count = own.lane.rows() * self.width();
            let out = &space.layers[last].out[..count];
            apply(self.simd(), [(out, &before)], fit(&mut space.x, count));
        }
        self.clock.stop();
    }

    /// Puts the inputs of a lane in place.
    fn enter(&self, own: &mut Own, inputs: Inputs) {
        let (stack, network, lane) = (self.stack, &*self.stack.network, own.lane);
        let space = &mut *own.space;
        let layers = if stack.training { network.layers.len() } else { 1 };
        space.layers.resize_with(space.layers.len().max(layers), Kept::default);
        let first = |rows: &[u32], width: usize, firsts: &mut Vec<u32>| {
            firsts.clear();
            firsts.extend(rows.iter().map(|row| row.wrapping_mul(width as u32)));
        };
        let dropped = |pick: fn(&LayerCoins) -> bool| stack.coins.iter().any(pick);
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
            let width = inputs.positions.len() / stack.lanes.rows();
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

    /// The states that a layer begins with: those after the layer before it, normalised.
    fn begin(&mut self, at: &At, own: &mut Own, before: Option<&Affine>) {
        self.clock.to(Kind::Norm);
        let Some(before) = before else { return };
        let count = own.lane.rows() * self.width();
        let (earlier, later) = own.space.layers.split_at_mut(self.stack.kept(at.number));
        let Kept { x, out, .. } = &mut later[0];
        // In evaluation all layers have the same place.
        let out = earlier.last().map_or(&*out, |earlier| &earlier.out);
        apply(self.simd(), [(&out[..count], before)], fit(x, count));
    }

    /// Attention, up to the BatchNorm after it.
    fn attend(&mut self, at: &At, own: &mut Own) {
        let (simd, network, coins) = (self.simd(), &*self.stack.network, at.coins);
        let (lane, rows, width, heads) =
            (own.lane, own.lane.rows(), network.width(), network.heads());
        let space = &mut *own.space;
        let count = rows * width;
        let kept = &mut space.layers[self.stack.kept(at.number)];
        let x = &kept.x[..count];
        self.clock.to(Kind::Forward);
        let into = fit(&mut kept.packed, rows * heads.stride);
        let biased = Biased { out: into, stride: heads.stride, bias: at.packed.attention.bias() };
        at.packed.attention.forward(simd, rows, x, width, biased);
        self.clock.to(Kind::Attention);
        let tables = || (self.workspace.bias.tables(at.number), self.stack.codes);
        let weights = fit(&mut kept.weights, lane.pairs() * heads.count);
        let mixed = fit(&mut kept.mixed, rows * heads.out_stride);
        attention::forward(
            simd,
            heads,
            &lane.spans,
            &kept.packed,
            at.layer.bias.is_some().then(tables),
            coins.weights.as_ref(),
            weights,
            mixed,
            &mut space.scratch,
        );
        self.clock.to(Kind::Forward);
        let residual = Residual {
            out: fit(&mut kept.attended, count),
            residual: x,
            stride: width,
            bias: at.packed.output.bias(),
            scales: network.degree_scale.then_some(&space.scales),
            tosses: tosses(coins.attention.as_ref(), &space.firsts[0]),
        };
        at.packed.output.forward(simd, rows, mixed, heads.out_stride, residual);
        self.share(own.number, Place::Attention, &kept.attended[..count]);
    }

    /// Leaves the moments of a lane's rows for all to read.
    pub(super) fn share(&mut self, lane: usize, place: Place, rows: &[f32]) {
        if self.stack.training && !rows.is_empty() {
            self.clock.to(Kind::Norm);
            let (simd, width) = (self.simd(), self.width());
            let exchange = &self.workspace.exchanges[place as usize];
            exchange.put(lane, 2 * width, |place| moments(simd, rows, width, place));
        }
    }

    /// The sum of both branches through the feed-forward network.
    fn feed(&mut self, at: &At, own: &mut Own, attention: &Affine, local: Option<&Affine>) {
        self.clock.to(Kind::Norm);
        let (simd, network, coins) = (self.simd(), &*self.stack.network, at.coins);
        let (rows, width, hidden_width) =
            (own.lane.rows(), network.width(), network.hidden_width());
        let space = &mut *own.space;
        let count = rows * width;
        let kept = &mut space.layers[self.stack.kept(at.number)];
        let y = fit(&mut kept.y, count);
        let attended = (&kept.attended[..count], attention);
        match local {
            Some(local) => apply(simd, [(&kept.local.out[..count], local), attended], y),
            None => apply(simd, [attended], y),
        }
        self.clock.to(Kind::Forward);
        let [first, second] = &at.packed.feed_forward;
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
        self.share(own.number, Place::Output, &kept.out[..count]);
    }
}
