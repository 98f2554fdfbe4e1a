//! Normalising columns by the statistics of the batch: the training half of BatchNorm.
//!
//! ```text
//! x̂ = (x − mean) / √(variance + ε)      y = w x̂ + b
//! dx = w / √(variance + ε) · (dy − mean(dy) − x̂ mean(dy x̂))
//! ```
//!
//! Sums over rows are in double precision. A shift that BatchNorm takes out again has a derivative of zero,
//! and what rounding leaves of it is all that an adaptive optimiser sees; summed in single precision,
//! biases before a BatchNorm wander off.

use std::sync::{Arc, OnceLock};

use burn::tensor::Tensor;

use super::dense::{BLOCK, statistics};
use super::{Kept, MANY, Operation, apply, has_kernels};
use crate::nn::fused::Team;
use crate::nn::fused::norm::{self as fused, Statistics};
use crate::nn::layers::EPSILON;
use crate::nn::pass::{Pass, values};
use crate::simd::{Simd, WIDTH};

/// Mean and variance of every column.
#[derive(Clone, Debug)]
pub struct Moments {
    /// Mean.
    pub mean: Vec<f64>,
    /// Variance, divided by the number of rows.
    pub variance: Vec<f64>,
}

impl Moments {
    /// The moments of `[rows, width]`.
    fn new(rows: &[f32], width: usize) -> Moments {
        let count = (rows.len() / width) as f64;
        let mut mean = vec![0.0; width];
        for row in rows.chunks_exact(width) {
            mean.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x));
        }
        mean.iter_mut().for_each(|sum| *sum /= count);
        let mut variance = vec![0.0; width];
        for row in rows.chunks_exact(width) {
            for ((sum, &x), mean) in variance.iter_mut().zip(row).zip(&mean) {
                *sum += (f64::from(x) - mean).powi(2);
            }
        }
        variance.iter_mut().for_each(|sum| *sum /= count);
        Moments { mean, variance }
    }
}

/// Columns normalised, scaled and shifted, and the moments used; none on devices without our kernels.
///
/// # Panics
/// If there are no rows or no columns.
pub fn normalise(
    pass: &Pass,
    x: &Tensor<2>,
    weight: &Tensor<1>,
    bias: &Tensor<1>,
    epsilon: f64,
) -> Option<(Tensor<2>, Moments)> {
    if pass.is_composed() || !has_kernels(x) {
        return None;
    }
    let [rows, width] = x.dims();
    if rows >= MANY && width.is_multiple_of(WIDTH) && epsilon == EPSILON {
        let (simd, team) = (pass.simd(), pass.team().clone());
        let kernel = Arc::new(InVectors { width, found: OnceLock::new(), simd, team });
        let rows = [weight, bias].map(|row| row.clone().unsqueeze());
        let [weight, bias] = rows;
        let y = apply(&kernel, [x.clone(), weight, bias]).ok()?;
        let Statistics { mean, variance, .. } = kernel.found.get()?.clone();
        return Some((y, Moments { mean, variance }));
    }
    let moments = Moments::new(&values(x.clone().detach()), width);
    let scale = moments.variance.iter().map(|variance| 1.0 / (variance + epsilon).sqrt());
    let kernel = Arc::new(Normalise { mean: moments.mean.clone(), scale: scale.collect() });
    let rows = [weight, bias].map(|row| row.clone().unsqueeze());
    let [weight, bias] = rows;
    let y = apply(&kernel, [x.clone(), weight, bias]).ok()?;
    Some((y, moments))
}

/// Columns in whole vectors, rows shared out among the team.
#[derive(Debug)]
struct InVectors {
    width: usize,
    found: OnceLock<Statistics>,
    simd: Simd,
    team: Arc<Team>,
}

impl Operation<3> for InVectors {
    type Saved = ();

    fn shape(&self, shapes: [[usize; 2]; 3]) -> [usize; 2] {
        shapes[0]
    }

    fn forward(&self, [x, weight, bias]: [&[f32]; 3]) -> (Vec<f32>, ()) {
        let InVectors { width, simd, ref team, .. } = *self;
        let statistics = self.found.get_or_init(|| statistics(team, simd, x, width));
        let affine = statistics.forward(weight, bias);
        let y = team.make_rows(x.len() / width, width, |first, y| {
            fused::apply(simd, [(&x[first * width..][..y.len()], &affine)], y);
        });
        (y, ())
    }

    fn backward(&self, kept: Kept<'_, (), 3>, gradient: &[f32]) -> [Vec<f32>; 3] {
        let [x, weight, _] = kept.inputs;
        let InVectors { width, simd, ref team, .. } = *self;
        let statistics = self.found.get_or_init(|| statistics(team, simd, x, width));
        let piece = BLOCK * width;
        let mut blocks = vec![0.0; gradient.len().div_ceil(piece) * 2 * width];
        let places =
            gradient.chunks(piece).zip(x.chunks(piece)).zip(blocks.chunks_exact_mut(2 * width));
        team.each(places, |((dy, x), place)| {
            fused::derivative_sums(simd, dy, [(x, statistics)], place);
        });
        let mut sums = vec![0.0; 2 * width];
        for block in blocks.chunks_exact(2 * width) {
            sums.iter_mut().zip(block).for_each(|(sum, own)| *sum += own);
        }
        let (sums, products) = sums.split_at(width);
        let constants = statistics.backward(weight, sums, products);
        let by_x = team.make_rows(x.len() / width, width, |first, by_x| {
            let [dy, x] = [gradient, x].map(|rows| &rows[first * width..][..by_x.len()]);
            fused::backward(simd, &constants, [dy, x], by_x, None);
        });
        let by_bias = sums.iter().map(|&sum| sum as f32).collect();
        [by_x, statistics.by_weight(products).collect(), by_bias]
    }
}

#[derive(Debug)]
struct Normalise {
    mean: Vec<f64>,
    /// 1 / √(variance + ε)
    scale: Vec<f64>,
}

impl Normalise {
    fn width(&self) -> usize {
        self.mean.len()
    }

    /// x̂ of column `c`.
    fn centred(&self, x: f32, c: usize) -> f64 {
        (f64::from(x) - self.mean[c]) * self.scale[c]
    }
}

impl Operation<3> for Normalise {
    type Saved = ();

    fn shape(&self, shapes: [[usize; 2]; 3]) -> [usize; 2] {
        shapes[0]
    }

    fn forward(&self, [x, weight, bias]: [&[f32]; 3]) -> (Vec<f32>, ()) {
        let mut y = Vec::with_capacity(x.len());
        for row in x.chunks_exact(self.width()) {
            y.extend(row.iter().enumerate().map(|(c, &x)| {
                (self.centred(x, c) * f64::from(weight[c]) + f64::from(bias[c])) as f32
            }));
        }
        (y, ())
    }

    fn backward(&self, kept: Kept<'_, (), 3>, gradient: &[f32]) -> [Vec<f32>; 3] {
        let [x, weight, _] = kept.inputs;
        let width = self.width();
        let count = (x.len() / width) as f64;
        let (mut sum, mut product) = (vec![0.0; width], vec![0.0; width]);
        for (row, gradient) in x.chunks_exact(width).zip(gradient.chunks_exact(width)) {
            for (c, (&x, &dy)) in row.iter().zip(gradient).enumerate() {
                sum[c] += f64::from(dy);
                product[c] += f64::from(dy) * self.centred(x, c);
            }
        }
        let mut by_x = Vec::with_capacity(x.len());
        for (row, gradient) in x.chunks_exact(width).zip(gradient.chunks_exact(width)) {
            by_x.extend(row.iter().zip(gradient).enumerate().map(|(c, (&x, &dy))| {
                let inner = f64::from(dy) - (sum[c] + self.centred(x, c) * product[c]) / count;
                (f64::from(weight[c]) * self.scale[c] * inner) as f32
            }));
        }
        let single = |sums: Vec<f64>| sums.into_iter().map(|sum| sum as f32).collect();
        [by_x, single(product), single(sum)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Seed;

    #[test]
    fn vectors_and_double_precision_agree() {
        let (rows, width) = (1001, 24);
        let mut stream = Seed(5).stream("norm", 0, 0);
        let mut draw = |count: usize, far: f64| -> Vec<f32> {
            (0..count).map(|_| (stream.unit() - 0.5 + far) as f32).collect()
        };
        let (x, gradient) = (draw(rows * width, 7.0), draw(rows * width, 0.0));
        let (weight, bias) = (draw(width, 1.0), draw(width, 0.0));
        let inputs = [&x[..], &weight, &bias];
        let Moments { mean, variance } = Moments::new(&x, width);
        let scale = variance.iter().map(|variance| 1.0 / (variance + EPSILON).sqrt()).collect();
        let slow = Normalise { mean, scale };
        for (simd, threads) in [(Simd::detect(), 1), (Simd::detect(), 3), (Simd::portable(), 2)] {
            let team = Arc::new(Team::new(threads).unwrap());
            let fast = InVectors { width, found: OnceLock::new(), simd, team };
            let near = |ours: &[f32], theirs: &[f32]| {
                let largest = theirs.iter().fold(1e-6, |largest: f32, x| largest.max(x.abs()));
                ours.iter().zip(theirs).all(|(a, b)| (a - b).abs() <= 2e-6 * largest)
            };
            assert!(near(&fast.forward(inputs).0, &slow.forward(inputs).0), "{simd:?}");
            let kept = || Kept { inputs, output: &[], saved: &() };
            let (ours, theirs) =
                (fast.backward(kept(), &gradient), slow.backward(kept(), &gradient));
            for (ours, theirs) in ours.iter().zip(&theirs) {
                assert!(near(ours, theirs), "{simd:?}");
            }
        }
    }
}
