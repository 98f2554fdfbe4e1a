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

use std::sync::Arc;

use burn::tensor::Tensor;

use super::{Kept, Operation, apply, has_kernels};
use crate::nn::pass::{Pass, values};

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
    let [_, width] = x.dims();
    let moments = Moments::new(&values(x.clone().detach()), width);
    let scale = moments.variance.iter().map(|variance| 1.0 / (variance + epsilon).sqrt());
    let kernel = Arc::new(Normalise { mean: moments.mean.clone(), scale: scale.collect() });
    let rows = [weight, bias].map(|row| row.clone().unsqueeze());
    let [weight, bias] = rows;
    let y = apply(&kernel, [x.clone(), weight, bias]).ok()?;
    Some((y, moments))
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
