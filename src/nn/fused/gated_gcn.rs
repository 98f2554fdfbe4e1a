//! Sums over arcs for GatedGCN, and back. For arcs j → i, with maps a, b, d, t of the nodes and c of the arcs,
//!
//! ```text
//! g_ij = d_i + t_j + c_ij      s_ij = sigmoid(g_ij) r_ij
//! n_i = Σ_j s_ij + 10⁻⁶        y_i = Σ_j s_ij ⊙ b_j / n_i       u_i = a_i + y_i
//! ```
//!
//! where r is the edge gate, a number for each arc, or 1. The four maps of a node lie side by side. Forward and most
//! of backward run over the arcs that enter a row; what goes to sources runs over those that leave it.

use super::lanes::Lane;
use crate::simd::{Kernel, Simd, Vector, WIDTH};

/// Columns of the maps: own, value, target, source.
pub const MAPS: usize = 4;

/// What the forward pass makes, in rows of `width` numbers; `gates` holds c before.
#[derive(Debug)]
pub struct Results<'a> {
    /// g, for arcs.
    pub gates: &'a mut [f32],
    /// 1/n, for nodes.
    pub inverse: &'a mut [f32],
    /// y, for nodes.
    pub received: &'a mut [f32],
    /// u, for nodes.
    pub update: &'a mut [f32],
}

/// Everything from the maps of nodes, `[rows, 4 × width]`, and the edge gate.
pub fn forward(
    simd: Simd,
    lane: &Lane,
    width: usize,
    maps: &[f32],
    gate: Option<&[f32]>,
    results: Results,
) {
    let (rows, arcs) = (lane.rows() * width, lane.num_arcs());
    assert!(width.is_multiple_of(WIDTH) && maps.len() >= MAPS * rows, "four maps");
    let Results { gates, inverse, received, update } = &results;
    assert!(gates.len() >= arcs * width && gate.is_none_or(|gate| gate.len() >= arcs), "arcs");
    assert!([inverse, received, update].iter().all(|of| of.len() >= rows), "nodes");
    simd.run(Forward { lane, width, maps, gate, results });
}

struct Forward<'a> {
    lane: &'a Lane,
    width: usize,
    maps: &'a [f32],
    gate: Option<&'a [f32]>,
    results: Results<'a>,
}

impl Kernel for Forward<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self { lane, width, maps, gate, results } = self;
        let Results { gates, inverse, received, update } = results;
        for row in 0..lane.rows() {
            for column in (0..width).step_by(WIDTH) {
                // SAFETY: sizes are checked, and sources are rows of the lane.
                unsafe {
                    let map = |which: usize, row: usize| {
                        V::load(maps.as_ptr().add((row * MAPS + which) * width + column))
                    };
                    let target = map(2, row);
                    let (mut weights, mut values) = (V::splat(1e-6), V::splat(0.0));
                    for arc in lane.entering(row) {
                        let source = lane.sources[arc] as usize;
                        let place = gates.as_mut_ptr().add(arc * width + column);
                        let g = V::load(place).add(target).add(map(3, source));
                        g.store(place);
                        let mut weight = g.sigmoid();
                        if let Some(gate) = gate {
                            weight = weight.mul(V::splat(gate[arc]));
                        }
                        weights = weights.add(weight);
                        values = weight.mul_add(map(1, source), values);
                    }
                    let one = V::splat(1.0).div(weights);
                    let mean = values.mul(one);
                    let place = row * width + column;
                    one.store(inverse.as_mut_ptr().add(place));
                    mean.store(received.as_mut_ptr().add(place));
                    mean.add(map(0, row)).store(update.as_mut_ptr().add(place));
                }
            }
        }
    }
}

/// What the forward pass kept.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    /// Maps of nodes.
    pub maps: &'a [f32],
    /// The edge gate.
    pub gate: Option<&'a [f32]>,
    /// g
    pub gates: &'a [f32],
    /// 1/n
    pub inverse: &'a [f32],
    /// y
    pub received: &'a [f32],
}

/// Where derivatives go.
#[derive(Debug)]
pub struct Derivatives<'a> {
    /// By g: those from elsewhere before, all of them after.
    pub gates: &'a mut [f32],
    /// By the maps of nodes.
    pub maps: &'a mut [f32],
    /// By the edge gate, if there is one.
    pub gate: Option<&'a mut [f32]>,
}

/// From the derivatives by u, all others.
pub fn backward(
    simd: Simd,
    lane: &Lane,
    width: usize,
    kept: Kept,
    by_update: &[f32],
    into: Derivatives,
) {
    let (rows, arcs) = (lane.rows() * width, lane.num_arcs());
    let Kept { maps, gate, gates, inverse, received } = kept;
    let Derivatives { gates: by_gates, maps: by_maps, gate: by_gate } = into;
    assert!(width.is_multiple_of(WIDTH), "whole vectors");
    assert!(maps.len().min(by_maps.len()) >= MAPS * rows, "four maps");
    assert!(gates.len().min(by_gates.len()) >= arcs * width, "a row for each arc");
    assert!([inverse, received, by_update].iter().all(|of| of.len() >= rows), "nodes");
    let by_gate = by_gate.unwrap_or_default();
    assert!(gate.is_none_or(|gate| gate.len() >= arcs && by_gate.len() >= arcs), "gates");
    simd.run(Backward { lane, width, kept, by_update, by_gates, by_maps, by_gate });
}

struct Backward<'a> {
    lane: &'a Lane,
    width: usize,
    kept: Kept<'a>,
    by_update: &'a [f32],
    by_gates: &'a mut [f32],
    by_maps: &'a mut [f32],
    by_gate: &'a mut [f32],
}

impl Kernel for Backward<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self { lane, width, kept, by_update, by_gates, by_maps, by_gate } = self;
        let Kept { maps, gate, gates, inverse, received } = kept;
        by_gate.fill(0.0);
        // SAFETY, for both loops: sizes are checked, and ends of arcs are rows of the lane.
        for row in 0..lane.rows() {
            for column in (0..width).step_by(WIDTH) {
                unsafe {
                    let place = row * width + column;
                    let at = |of: &[f32], place: usize| V::load(of.as_ptr().add(place));
                    let by_own = at(by_update, place);
                    // Of Σ s ⊙ b, and of Σ s.
                    let by_values = by_own.mul(at(inverse, place));
                    let by_weights = V::splat(0.0).sub(by_values.mul(at(received, place)));
                    let mut by_target = V::splat(0.0);
                    for arc in lane.entering(row) {
                        let source = lane.sources[arc] as usize;
                        let value = at(maps, (source * MAPS + 1) * width + column);
                        let weight = at(gates, arc * width + column).sigmoid();
                        let mut by_weight = by_values.mul_add(value, by_weights);
                        if let Some(gate) = gate {
                            by_gate[arc] += by_weight.mul(weight).sum();
                            by_weight = by_weight.mul(V::splat(gate[arc]));
                        }
                        let slope = weight.mul(V::splat(1.0).sub(weight));
                        let place = by_gates.as_mut_ptr().add(arc * width + column);
                        let by_g = by_weight.mul_add(slope, V::load(place));
                        by_g.store(place);
                        by_target = by_target.add(by_g);
                    }
                    let out = by_maps.as_mut_ptr().add(row * MAPS * width + column);
                    by_own.store(out);
                    by_target.store(out.add(2 * width));
                }
            }
        }
        for row in 0..lane.rows() {
            for column in (0..width).step_by(WIDTH) {
                unsafe {
                    let at = |of: &[f32], place: usize| V::load(of.as_ptr().add(place));
                    let (mut by_value, mut by_source) = (V::splat(0.0), V::splat(0.0));
                    for &arc in lane.leaving(row) {
                        let arc = arc as usize;
                        let place = lane.targets[arc] as usize * width + column;
                        let mut weight = at(gates, arc * width + column).sigmoid();
                        if let Some(gate) = gate {
                            weight = weight.mul(V::splat(gate[arc]));
                        }
                        let by_values = at(by_update, place).mul(at(inverse, place));
                        by_value = weight.mul_add(by_values, by_value);
                        by_source = by_source.add(at(by_gates, arc * width + column));
                    }
                    let out = by_maps.as_mut_ptr().add(row * MAPS * width + column);
                    by_value.store(out.add(width));
                    by_source.store(out.add(3 * width));
                }
            }
        }
    }
}

/// The edge gate of a layer: r = sigmoid(w₂ · relu(w₁ q + b₁) + b₂), with q the squared distance of both ends.
#[derive(Clone, Copy, Debug)]
pub struct EdgeGate<'a> {
    /// w₁
    pub first: &'a [f32],
    /// b₁
    pub first_bias: &'a [f32],
    /// w₂
    pub second: &'a [f32],
    /// b₂
    pub second_bias: f32,
}

impl EdgeGate<'_> {
    fn hidden(&self, column: usize, q: f32) -> f32 {
        (self.first[column] * q + self.first_bias[column]).max(0.0)
    }

    /// r of every arc.
    pub fn forward(&self, distances: &[f32], gate: &mut [f32]) {
        for (r, &q) in gate.iter_mut().zip(distances) {
            let mut sum = 0.0;
            for (column, weight) in self.second.iter().enumerate() {
                sum += weight * self.hidden(column, q);
            }
            *r = 1.0 / (1.0 + (-(sum + self.second_bias)).exp());
        }
    }

    /// Adds the derivatives by q, and gives those by w₁, b₁, w₂ and b₂, one after another.
    pub fn backward(
        &self,
        distances: &[f32],
        [gate, by_gate]: [&[f32]; 2],
        by_distances: &mut [f32],
    ) -> Vec<f32> {
        let width = self.second.len();
        let mut sums = vec![0.0; 3 * width + 1];
        for (arc, &q) in distances.iter().enumerate() {
            let by_sum = by_gate[arc] * gate[arc] * (1.0 - gate[arc]);
            for column in 0..width {
                let hidden = self.hidden(column, q);
                sums[2 * width + column] += by_sum * hidden;
                if hidden > 0.0 {
                    let by_hidden = by_sum * self.second[column];
                    sums[column] += by_hidden * q;
                    sums[width + column] += by_hidden;
                    by_distances[arc] += by_hidden * self.first[column];
                }
            }
            sums[3 * width] += by_sum;
        }
        sums
    }
}
