//! Linear maps of many rows, with what comes before them: y = a(x) Wᵀ + b, where a(x) is x, or
//! drop(relu(BatchNorm(x))).
//!
//! Rows are worked through in blocks that stay in the cache, blocks are shared out among the team. What comes before
//! the map is done to a block just before its product, forward and backward: normalised states are never stored. Sums
//! over all rows (derivatives of weights, statistics) are made of a fixed number of parts, each summed in order, so
//! that they are the same for any number of threads.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use burn::tensor::{Tensor, activation};

use super::rows::{Groups, gather};
use super::{Kept, Operation, PARTS, apply, has_kernels};
use crate::nn::fused::Team;
use crate::nn::fused::norm::{self, Affine, Statistics};
use crate::nn::fused::product::{Biased, Store, Tosses};
use crate::nn::fused::weights::{Map, Rows, Run, Slot};
use crate::nn::layers::{BatchNorm, Dropout, project};
use crate::nn::pass::Pass;
use crate::rng::Coins;
use crate::simd::{Kernel, Simd, Vector, WIDTH, padded};

/// Rows that are worked through together.
pub(super) const BLOCK: usize = 96;

/// x Wᵀ + b: `[rows, inputs]` → `[rows, outputs]`.
pub fn linear(pass: &Pass, x: Tensor<2>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<2> {
    let [rows, inputs] = x.dims();
    if pass.is_composed() || rows == 0 || inputs == 0 || !has_kernels(&x) {
        return project(x, weight, bias);
    }
    let kernel = Dense::new(pass, &weight, bias.is_some(), None);
    let nothing = || Tensor::zeros([1, 1], pass.device());
    let row = bias.clone().map_or_else(nothing, Tensor::unsqueeze);
    let inputs = [x, weight, row, nothing(), nothing()];
    apply(&kernel, inputs).unwrap_or_else(|[x, weight, ..]| project(x, weight, bias))
}

/// The map of drop(relu(BatchNorm(x))).
pub fn normalised_linear(
    pass: &Pass,
    x: Tensor<2>,
    (norm, dropout): (&BatchNorm, Dropout),
    weight: Tensor<2>,
    bias: Tensor<1>,
) -> Tensor<2> {
    let Some(before) = Before::new(pass, &x, norm, dropout) else {
        let x = dropout.forward(pass, activation::relu(norm.forward(pass, x)));
        return linear(pass, x, weight, Some(bias));
    };
    let rows = x.dims()[0];
    let kernel = Dense::new(pass, &weight, true, Some(before));
    let [scale, shift] = [norm.weight, norm.bias].map(|param| pass.param::<1>(param).unsqueeze());
    let y = apply(&kernel, [x, weight, bias.unsqueeze(), scale, shift]);
    kernel.before.iter().for_each(|before| before.update(pass, norm, rows));
    y.unwrap_or_else(|_| unreachable!("kernels are there"))
}

/// drop(relu(BatchNorm(x))): `[rows, width]` → `[rows, width]`.
pub fn normalised(pass: &Pass, x: Tensor<2>, norm: &BatchNorm, dropout: Dropout) -> Tensor<2> {
    normalise_some(pass, x, norm, dropout, None)
}

/// The rows of that which the pass asks for; statistics are of all.
pub fn normalised_rows(pass: &Pass, x: Tensor<2>, norm: &BatchNorm, dropout: Dropout) -> Tensor<2> {
    normalise_some(pass, x, norm, dropout, pass.wanted())
}

fn normalise_some(
    pass: &Pass,
    x: Tensor<2>,
    norm: &BatchNorm,
    dropout: Dropout,
    wanted: Option<&Arc<Groups>>,
) -> Tensor<2> {
    let Some(before) = Before::new(pass, &x, norm, dropout) else {
        let y = dropout.forward(pass, activation::relu(norm.forward(pass, x)));
        return match wanted {
            Some(rows) => gather(pass, rows, y),
            None => y,
        };
    };
    let [rows, width] = x.dims();
    let (simd, team) = (pass.simd(), pass.team().clone());
    let kernel = Arc::new(Normalised { before, width, wanted: wanted.cloned(), simd, team });
    let [scale, shift] = [norm.weight, norm.bias].map(|param| pass.param::<1>(param).unsqueeze());
    let y = apply(&kernel, [x, scale, shift]);
    kernel.before.update(pass, norm, rows);
    y.unwrap_or_else(|_| unreachable!("kernels are there"))
}

/// BatchNorm, ReLU and dropout of a pass.
#[derive(Debug)]
struct Before {
    coins: Option<Coins>,
    /// In evaluation.
    running: Option<Statistics>,
    /// Of the batch, in training.
    found: OnceLock<Statistics>,
}

impl Before {
    /// None where kernels can't be used.
    fn new(pass: &Pass, x: &Tensor<2>, norm: &BatchNorm, dropout: Dropout) -> Option<Before> {
        let [rows, width] = x.dims();
        // In evaluation there are no derivatives to be had from here.
        let differentiable = pass.is_training() || !pass.device().is_autodiff();
        let fits = rows > 0 && width.is_multiple_of(WIDTH);
        if pass.is_composed() || !fits || !differentiable || !has_kernels(x) {
            return None;
        }
        let running = (!pass.is_training()).then(|| {
            let [mean, variance] = [norm.running_mean, norm.running_var].map(|param| {
                let values = pass.parameters().values(pass.parameters().entry(param));
                values.iter().map(|&value| f64::from(value)).collect()
            });
            Statistics { mean, variance, rows: rows as f64 }
        });
        Some(Before { coins: dropout.coins(pass), running, found: OnceLock::new() })
    }

    /// The statistics to normalise by.
    fn statistics(&self, team: &Team, simd: Simd, x: &[f32], width: usize) -> &Statistics {
        let found = || self.found.get_or_init(|| statistics(team, simd, x, width));
        self.running.as_ref().unwrap_or_else(found)
    }

    fn update(&self, pass: &Pass, norm: &BatchNorm, rows: usize) {
        if let Some(found) = self.found.get() {
            norm.update(pass, rows, &found.mean, &found.variance);
        }
    }
}

/// Mean and variance of every column of `x`.
pub(super) fn statistics(team: &Team, simd: Simd, x: &[f32], width: usize) -> Statistics {
    let mut blocks = vec![0.0; (x.len() / width).div_ceil(BLOCK) * 2 * width];
    let pairs = x.chunks(BLOCK * width).zip(blocks.chunks_exact_mut(2 * width));
    team.each(pairs, |(rows, place)| norm::moments(simd, rows, width, place));
    Statistics::of_parts(width, |tell| {
        for (rows, place) in x.chunks(BLOCK * width).zip(blocks.chunks_exact(2 * width)) {
            tell(rows.len() / width, place);
        }
    })
}

/// What becomes of rows before they are mapped.
#[derive(Clone, Copy, Debug)]
struct Active<'a> {
    affine: &'a Affine,
    coins: Option<&'a Coins>,
}

impl Active<'_> {
    /// Numbers of the first coins of rows.
    fn firsts(rows: impl Iterator<Item = usize>, width: usize) -> Vec<u32> {
        rows.map(|row| (row as u32).wrapping_mul(width as u32)).collect()
    }

    fn forward(&self, simd: Simd, firsts: &[u32], x: &[f32], out: &mut [f32]) {
        let tosses = self.coins.map(|coins| Tosses { coins, firsts });
        norm::activate(simd, None, (x, self.affine), tosses, out);
    }

    /// The derivative by what BatchNorm made.
    fn backward(&self, simd: Simd, firsts: &[u32], x: &[f32], dy: &[f32], out: &mut [f32]) {
        let tosses = self.coins.map(|coins| Tosses { coins, firsts });
        norm::deactivate(simd, dy, (x, self.affine), tosses, out);
    }
}

/// A map packed for products: weights `[outputs, inputs]`, and a bias of as many as there are outputs, or none.
pub(super) fn packed(weight: &[f32], bias: &[f32], inputs: usize, backward: bool) -> Map {
    let outputs = weight.len() / inputs;
    let bias_at = (!bias.is_empty()).then_some(weight.len());
    let rows = Rows { weight: 0, bias: bias_at, count: outputs, column: 0 };
    let mut map = Map::new(inputs, vec![Run { from: 0, count: inputs, column: 0 }], vec![rows]);
    map.pack(&[weight, bias].concat(), backward);
    map
}

/// Rows of `from` numbers as rows of `to`: shortened, or filled up with zeros.
pub(super) fn restrided(values: &[f32], from: usize, to: usize) -> Cow<'_, [f32]> {
    if from == to {
        return values.into();
    }
    let mut rows = vec![0.0; values.len() / from * to];
    let common = from.min(to);
    for (row, values) in rows.chunks_exact_mut(to).zip(values.chunks_exact(from)) {
        row[..common].copy_from_slice(&values[..common]);
    }
    rows.into()
}

/// y = a(x) Wᵀ + b
fn forward_rows(
    (team, simd): (&Team, Simd),
    map: &Map,
    active: Option<Active>,
    (x, inputs): (&[f32], usize),
    outputs: usize,
) -> Vec<f32> {
    let padded = map.outputs();
    team.make_rows(x.len() / inputs, outputs, |first, y| {
        let mut normal = vec![0.0; if active.is_some() { BLOCK * inputs } else { 0 }];
        let mut wide = vec![0.0; if padded == outputs { 0 } else { BLOCK * padded }];
        for (number, y) in y.chunks_mut(BLOCK * outputs).enumerate() {
            let (first, rows) = (first + number * BLOCK, y.len() / outputs);
            let mut x = &x[first * inputs..][..rows * inputs];
            if let Some(active) = active {
                let firsts = Active::firsts(first..first + rows, inputs);
                active.forward(simd, &firsts, x, &mut normal[..rows * inputs]);
                x = &normal[..rows * inputs];
            }
            if padded == outputs {
                map.forward(
                    simd,
                    rows,
                    x,
                    inputs,
                    Biased { out: y, stride: outputs, bias: map.bias() },
                );
                continue;
            }
            let out = &mut wide[..rows * padded];
            map.forward(simd, rows, x, inputs, Biased { out, stride: padded, bias: map.bias() });
            for (y, wide) in y.chunks_exact_mut(outputs).zip(wide.chunks_exact(padded)) {
                y.copy_from_slice(&wide[..outputs]);
            }
        }
    })
}

/// y = x Wᵀ + b for rows that get no derivative.
pub(super) fn map_rows(
    by: (&Team, Simd),
    [weight, bias]: [&[f32]; 2],
    (x, inputs): (&[f32], usize),
) -> Vec<f32> {
    let outputs = weight.len() / inputs;
    forward_rows(by, &packed(weight, bias, inputs, false), None, (x, inputs), outputs)
}

/// The rows of one part of a sum over all rows.
pub(super) struct Part {
    pub first: usize,
    pub count: usize,
    /// Derivatives by weights.
    pub gradient: Vec<f32>,
    /// Derivatives by the bias.
    pub by_bias: Vec<f64>,
    /// Σ dy and Σ dy (x − mean).
    sums: Vec<f64>,
}

impl Part {
    /// With so many derivatives by weights and by the bias, and sums, all 0.
    pub fn new(first: usize, count: usize, [weights, bias, sums]: [usize; 3]) -> Part {
        let [by_bias, sums] = [bias, sums].map(|count| vec![0.0; count]);
        Part { first, count, gradient: vec![0.0; weights], by_bias, sums }
    }

    /// The rows.
    pub fn rows(&self) -> Range<usize> {
        self.first..self.first + self.count
    }
}

/// Adds up the columns of rows. In double precision: a bias before BatchNorm has a derivative of zero.
pub(super) fn add_columns(simd: Simd, rows: &[f32], sums: &mut [f64]) {
    simd.run(AddColumns { rows, sums });
}

struct AddColumns<'a> {
    rows: &'a [f32],
    sums: &'a mut [f64],
}

impl Kernel for AddColumns<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        for row in self.rows.chunks_exact(self.sums.len()) {
            self.sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x));
        }
    }
}

/// The parts that so many rows are summed up in.
pub(super) fn parts(rows: usize, sizes: [usize; 3]) -> Vec<Part> {
    let count = rows.div_ceil(PARTS).next_multiple_of(BLOCK);
    let part = |first: usize| Part::new(first, count.min(rows - first), sizes);
    (0..rows).step_by(count.max(1)).map(part).collect()
}

/// What comes of going back through a map: derivatives by weights, bias and x, the last before BatchNorm is taken into account, whose sums
/// are beside them.
struct Back {
    by_weight: Vec<f32>,
    by_bias: Vec<f32>,
    by_x: Vec<f32>,
    sums: Vec<f64>,
}

/// All derivatives; those by x are empty unless they are wanted.
fn backward_rows(
    (team, simd): (&Team, Simd),
    map: &Map,
    before: Option<(Active, &Statistics)>,
    (x, inputs): (&[f32], usize),
    (dy, outputs): (&[f32], usize),
    wants_x: bool,
) -> Back {
    let padded = map.outputs();
    let wide_inputs = inputs.next_multiple_of(2 * WIDTH);
    let width_of_sums = if before.is_some() { 2 * inputs } else { 0 };
    let sizes = [inputs * outputs, outputs, width_of_sums];
    let mut all = parts(x.len() / inputs, sizes);
    let room = |part: &&mut Part| if wants_x { part.count * inputs } else { 0 };
    let by_x = team.make(&mut all, room, |part, by_x| {
        let mut normal = vec![0.0; if before.is_some() { BLOCK * inputs } else { 0 }];
        let mut wide = vec![0.0; if padded == outputs { 0 } else { BLOCK * padded }];
        let mut wide_x = vec![0.0; if wide_inputs == inputs { 0 } else { BLOCK * wide_inputs }];
        let mut block_sums = vec![0.0; width_of_sums];
        for start in (0..part.count).step_by(BLOCK) {
            let (first, rows) = (part.first + start, BLOCK.min(part.count - start));
            let x = &x[first * inputs..][..rows * inputs];
            let mut dy = &dy[first * outputs..][..rows * outputs];
            add_columns(simd, dy, &mut part.by_bias);
            if padded != outputs {
                for (wide, dy) in wide.chunks_exact_mut(padded).zip(dy.chunks_exact(outputs)) {
                    wide[..outputs].copy_from_slice(dy);
                }
                dy = &wide[..rows * padded];
            }
            let mut mapped = x;
            if let Some((active, _)) = before {
                let firsts = Active::firsts(first..first + rows, inputs);
                active.forward(simd, &firsts, x, &mut normal[..rows * inputs]);
                mapped = &normal[..rows * inputs];
            }
            let slot = Slot { numbers: &mut part.gradient, start: 0, add: start > 0 };
            map.gradient(simd, rows, dy, mapped, inputs, slot);
            if !wants_x {
                continue;
            }
            let out = by_x.next(rows * inputs);
            if wide_inputs == inputs {
                map.backward(simd, rows, dy, Store::new(out, inputs));
            } else {
                map.backward(
                    simd,
                    rows,
                    dy,
                    Store::new(&mut wide_x[..rows * wide_inputs], wide_inputs),
                );
                for (out, wide) in
                    out.chunks_exact_mut(inputs).zip(wide_x.chunks_exact(wide_inputs))
                {
                    out.copy_from_slice(&wide[..inputs]);
                }
            }
            if let Some((active, statistics)) = before {
                let firsts = Active::firsts(first..first + rows, inputs);
                let copy = &mut normal[..out.len()];
                copy.copy_from_slice(out);
                active.backward(simd, &firsts, x, copy, out);
                norm::derivative_sums(simd, out, [(x, statistics)], &mut block_sums);
                part.sums.iter_mut().zip(&block_sums).for_each(|(sum, own)| *sum += own);
            }
        }
    });
    let mut by_weight = vec![0.0; inputs * outputs];
    let (mut by_bias, mut sums) = (vec![0.0; outputs], vec![0.0; width_of_sums]);
    for part in &all {
        by_weight.iter_mut().zip(&part.gradient).for_each(|(sum, own)| *sum += own);
        by_bias.iter_mut().zip(&part.by_bias).for_each(|(sum, own)| *sum += own);
        sums.iter_mut().zip(&part.sums).for_each(|(sum, own)| *sum += own);
    }
    let by_bias = by_bias.into_iter().map(|sum: f64| sum as f32).collect();
    Back { by_weight, by_bias, by_x, sums }
}

/// The derivatives by weights and bias for rows that get none.
pub(super) fn weight_gradient(
    by: (&Team, Simd),
    weight: &[f32],
    x: (&[f32], usize),
    dy: (&[f32], usize),
) -> [Vec<f32>; 2] {
    let map = packed(weight, &[], x.1, false);
    let back = backward_rows(by, &map, None, x, dy, false);
    [back.by_weight, back.by_bias]
}

/// The derivative by x, from that by what BatchNorm made of it, in place; and those by scale and shift.
pub(super) fn through_norm(
    (team, simd): (&Team, Simd),
    statistics: &Statistics,
    scale: &[f32],
    (x, width): (&[f32], usize),
    dy: &mut [f32],
    sums: &[f64],
) -> [Vec<f32>; 2] {
    let (sums, products) = sums.split_at(width);
    let constants = statistics.backward(scale, sums, products);
    team.share_rows(dy, width, |first, dy| {
        let mut copy = vec![0.0; BLOCK * width];
        for (number, dy) in dy.chunks_mut(BLOCK * width).enumerate() {
            let copy = &mut copy[..dy.len()];
            copy.copy_from_slice(dy);
            let x = &x[(first + number * BLOCK) * width..][..dy.len()];
            norm::backward(simd, &constants, [copy, x], dy, None);
        }
    });
    let shift = sums.iter().map(|&sum| sum as f32).collect();
    [statistics.by_weight(products).collect(), shift]
}

#[derive(Debug)]
struct Dense {
    outputs: usize,
    inputs: usize,
    biased: bool,
    before: Option<Before>,
    simd: Simd,
    team: Arc<Team>,
}

impl Dense {
    fn new(pass: &Pass, weight: &Tensor<2>, biased: bool, before: Option<Before>) -> Arc<Dense> {
        let [outputs, inputs] = weight.dims();
        let (simd, team) = (pass.simd(), pass.team().clone());
        Arc::new(Dense { outputs, inputs, biased, before, simd, team })
    }

    fn bias<'a>(&self, bias: &'a [f32]) -> &'a [f32] {
        if self.biased { bias } else { &[] }
    }
}

impl Operation<5> for Dense {
    type Saved = Affine;

    fn shape(&self, shapes: [[usize; 2]; 5]) -> [usize; 2] {
        [shapes[0][0], self.outputs]
    }

    fn forward(&self, [x, weight, bias, scale, shift]: [&[f32]; 5]) -> (Vec<f32>, Affine) {
        let Dense { outputs, simd, .. } = *self;
        // Products take whole vectors.
        let inputs = padded(self.inputs);
        let [x, weight] = [x, weight].map(|rows| restrided(rows, self.inputs, inputs));
        let (x, weight) = (&x[..], &weight[..]);
        let affine = match &self.before {
            Some(before) => before.statistics(&self.team, simd, x, inputs).forward(scale, shift),
            None => Affine::default(),
        };
        let active =
            self.before.as_ref().map(|b| Active { affine: &affine, coins: b.coins.as_ref() });
        let map = packed(weight, self.bias(bias), inputs, false);
        let y = forward_rows((&self.team, simd), &map, active, (x, inputs), outputs);
        (y, affine)
    }

    fn backward(&self, kept: Kept<'_, Affine, 5>, gradient: &[f32]) -> [Vec<f32>; 5] {
        let [x, weight, _, scale, _] = kept.inputs;
        let Dense { outputs, simd, .. } = *self;
        let inputs = padded(self.inputs);
        let [x, weight] = [x, weight].map(|rows| restrided(rows, self.inputs, inputs));
        let (x, weight) = (&x[..], &weight[..]);
        let by = (&*self.team, simd);
        let before = self.before.as_ref().map(|before| {
            let active = Active { affine: kept.saved, coins: before.coins.as_ref() };
            (active, before.statistics(&self.team, simd, x, inputs))
        });
        let map = packed(weight, &[], inputs, true);
        let dy = (gradient, outputs);
        let Back { by_weight, by_bias, mut by_x, sums } =
            backward_rows(by, &map, before, (x, inputs), dy, true);
        let by_bias = if self.biased { by_bias } else { vec![0.0] };
        let [by_scale, by_shift] = match before {
            Some((_, statistics)) => {
                through_norm(by, statistics, scale, (x, inputs), &mut by_x, &sums)
            }
            None => [vec![0.0], vec![0.0]],
        };
        let [by_x, by_weight] = [by_x, by_weight].map(|rows| match inputs == self.inputs {
            true => rows,
            false => restrided(&rows, inputs, self.inputs).into_owned(),
        });
        [by_x, by_weight, by_bias, by_scale, by_shift]
    }
}

#[derive(Debug)]
struct Normalised {
    before: Before,
    width: usize,
    /// The rows to make; all if not given.
    wanted: Option<Arc<Groups>>,
    simd: Simd,
    team: Arc<Team>,
}

impl Normalised {
    /// The number of rows to make, and the row of x that each is.
    fn rows(&self, x: &[f32]) -> (usize, impl Fn(usize) -> usize + '_) {
        let wanted = self.wanted.as_ref().map(|rows| rows.of_row());
        let count = wanted.map_or(x.len() / self.width, <[u32]>::len);
        (count, move |row| wanted.map_or(row, |rows| rows[row] as usize))
    }

    /// Rows of x from `first` on, and the coins of each.
    fn block<'x>(&self, x: &'x [f32], first: usize, count: usize) -> (Cow<'x, [f32]>, Vec<u32>) {
        let (width, (_, row)) = (self.width, self.rows(x));
        let firsts = Active::firsts((first..first + count).map(&row), width);
        let rows = match self.wanted {
            Some(_) => (first..first + count)
                .flat_map(|i| &x[row(i) * width..][..width])
                .copied()
                .collect(),
            None => Cow::from(&x[first * width..][..count * width]),
        };
        (rows, firsts)
    }
}

impl Operation<3> for Normalised {
    type Saved = Affine;

    fn shape(&self, shapes: [[usize; 2]; 3]) -> [usize; 2] {
        let [rows, width] = shapes[0];
        [self.wanted.as_ref().map_or(rows, |rows| rows.of_row().len()), width]
    }

    fn forward(&self, [x, scale, shift]: [&[f32]; 3]) -> (Vec<f32>, Affine) {
        let Normalised { before, width, simd, team, .. } = self;
        let affine = before.statistics(team, *simd, x, *width).forward(scale, shift);
        let active = Active { affine: &affine, coins: before.coins.as_ref() };
        let y = team.make_rows(self.rows(x).0, *width, |first, y| {
            let (x, firsts) = self.block(x, first, y.len() / width);
            active.forward(*simd, &firsts, &x, y);
        });
        (y, affine)
    }

    fn backward(&self, kept: Kept<'_, Affine, 3>, gradient: &[f32]) -> [Vec<f32>; 3] {
        let [x, scale, _] = kept.inputs;
        let Normalised { before, width, simd, team, .. } = self;
        let (width, simd) = (*width, *simd);
        let statistics = before.statistics(team, simd, x, width);
        let active = Active { affine: kept.saved, coins: before.coins.as_ref() };
        let mut all = parts(self.rows(x).0, [0, 0, 2 * width]);
        let room = |part: &&mut Part| part.count * width;
        let mut by_x = team.make(&mut all, room, |part, by_y| {
            let mut block_sums = vec![0.0; 2 * width];
            let dy = &gradient[part.first * width..][..part.count * width];
            for (number, dy) in dy.chunks(BLOCK * width).enumerate() {
                let (x, firsts) = self.block(x, part.first + number * BLOCK, dy.len() / width);
                let by_y = by_y.next(dy.len());
                active.backward(simd, &firsts, &x, dy, by_y);
                norm::derivative_sums(simd, by_y, [(&*x, statistics)], &mut block_sums);
                part.sums.iter_mut().zip(&block_sums).for_each(|(sum, own)| *sum += own);
            }
        });
        let mut sums = vec![0.0; 2 * width];
        for part in &all {
            sums.iter_mut().zip(&part.sums).for_each(|(sum, own)| *sum += own);
        }
        if let Some(rows) = &self.wanted {
            let mut every = vec![0.0; x.len()];
            for (&row, own) in rows.of_row().iter().zip(by_x.chunks_exact(width)) {
                let place = &mut every[row as usize * width..][..width];
                place.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
            }
            by_x = every;
        }
        let by = (&**team, simd);
        let [by_scale, by_shift] =
            through_norm(by, statistics, scale, (x, width), &mut by_x, &sums);
        [by_x, by_scale, by_shift]
    }
}
