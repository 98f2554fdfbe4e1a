//! Clusters that follow the nodes instead of the graph: a codebook by moving averages, as of GOAT (Kong et al. 2023), after van
//! den Oord et al. 2017.
//!
//! States are normalised column by column, x̂ = (x − mean) / √(variance + ε), and each node belongs to the nearest of a few
//! codes. In training, after they have been used, sizes and sums move a hundredth of the way to those of the batch,
//!
//! ```text
//! n_k ← 0.99 n_k + 0.01 |{i: k_i = k}|     s_k ← 0.99 s_k + 0.01 Σ_{i: k_i = k} x̂_i     e_k = s_k / ñ_k
//! ```
//!
//! with ñ the sizes, none of them 0 (Laplace smoothing). Codes have no derivative. What nodes attend to is e_k taken back to
//! the scale of the states.

use burn::tensor::Tensor;

use super::clusters::Clusters;
use super::layers::EPSILON;
use super::parameters::{Init, Param, Scope};
use super::pass::{Pass, matrix, values};

/// The part of an average that stays in a step.
const DECAY: f64 = 0.99;
/// What statistics of columns move by.
const MOMENTUM: f64 = 0.1;

/// The codes of one layer, all running statistics.
#[derive(Clone, Debug)]
pub struct Codebook {
    sums: Param,
    sizes: Param,
    mean: Param,
    variance: Param,
    count: usize,
    width: usize,
}

impl Codebook {
    /// `count` codes of `width` numbers, drawn from a normal distribution.
    pub fn new(mut scope: Scope, count: usize, width: usize) -> Codebook {
        Codebook {
            sums: scope.statistic_from("sums", &[count, width], Init::Normal(1.0)),
            sizes: scope.statistic("sizes", &[count], 1.0),
            mean: scope.statistic("running_mean", &[width], 0.0),
            variance: scope.statistic("running_var", &[width], 1.0),
            count,
            width,
        }
    }

    /// The cluster of every node, and the codes on the scale of the states.
    pub fn forward(&self, pass: &Pass, x: &Tensor<2>) -> (Clusters, Tensor<2>) {
        let Codebook { count, width, .. } = *self;
        let number = |param: Param| pass.parameters().values(pass.parameters().entry(param));
        let codes = smoothed(number(self.sums), number(self.sizes), width);
        let x = values(x.clone().detach());
        let (mean, variance) = match pass.is_training() {
            true => moments(&x, width),
            false => {
                let double = |of: &[f32]| of.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
                (double(number(self.mean)), double(number(self.variance)))
            }
        };
        let scale: Vec<f64> = variance.iter().map(|v| 1.0 / (v + EPSILON).sqrt()).collect();
        let normal: Vec<f32> = x
            .iter()
            .enumerate()
            .map(|(i, &x)| ((f64::from(x) - mean[i % width]) * scale[i % width]) as f32)
            .collect();
        let of_node: Vec<u32> =
            normal.chunks_exact(width).map(|row| nearest(row, &codes, width)).collect();
        let back = codes.iter().enumerate();
        let back =
            back.map(|(i, &code)| (f64::from(code) / scale[i % width] + mean[i % width]) as f32);
        let states = matrix(back.collect(), [count, width], pass.device());
        if pass.is_training() {
            self.update(pass, &of_node, &normal, &mean, &variance);
        }
        (Clusters::new(of_node, count, None), states)
    }

    /// Moves averages towards the batch.
    fn update(&self, pass: &Pass, of_node: &[u32], normal: &[f32], mean: &[f64], variance: &[f64]) {
        let mut sizes = vec![0.0; self.count];
        let mut sums = vec![0.0; self.count * self.width];
        for (&cluster, row) in of_node.iter().zip(normal.chunks_exact(self.width)) {
            sizes[cluster as usize] += 1.0;
            let sum = &mut sums[cluster as usize * self.width..][..self.width];
            sum.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x));
        }
        let moved = |param: Param, new: &[f64], decay: f64| {
            let old = pass.parameters().values(pass.parameters().entry(param));
            let moved =
                |(&old, new): (&f32, &f64)| (f64::from(old) * decay + new * (1.0 - decay)) as f32;
            pass.update(param, old.iter().zip(new).map(moved).collect());
        };
        moved(self.sizes, &sizes, DECAY);
        moved(self.sums, &sums, DECAY);
        moved(self.mean, mean, 1.0 - MOMENTUM);
        moved(self.variance, variance, 1.0 - MOMENTUM);
    }
}

/// Sums divided by sizes, of which none is 0.
fn smoothed(sums: &[f32], sizes: &[f32], width: usize) -> Vec<f32> {
    let total: f64 = sizes.iter().map(|&size| f64::from(size)).sum();
    let few = EPSILON * sizes.len() as f64;
    let size = |size: f32| (f64::from(size) + EPSILON) / (total + few) * total;
    let rows = sums.chunks_exact(width).zip(sizes);
    rows.flat_map(|(row, &of)| row.iter().map(move |&sum| (f64::from(sum) / size(of)) as f32))
        .collect()
}

/// The code nearest to a row; the first of several.
fn nearest(row: &[f32], codes: &[f32], width: usize) -> u32 {
    let distance =
        |code: &[f32]| -> f32 { code.iter().zip(row).map(|(c, x)| (c - x).powi(2)).sum() };
    let all = codes.chunks_exact(width).map(distance).enumerate();
    all.reduce(|best, next| if next.1 < best.1 { next } else { best })
        .map_or(0, |best| best.0 as u32)
}

/// Mean and variance of every column.
fn moments(x: &[f32], width: usize) -> (Vec<f64>, Vec<f64>) {
    let rows = (x.len() / width).max(1) as f64;
    let mut mean = vec![0.0; width];
    x.iter().enumerate().for_each(|(i, &x)| mean[i % width] += f64::from(x) / rows);
    let mut variance = vec![0.0; width];
    let squares =
        x.iter().enumerate().map(|(i, &x)| (i % width, (f64::from(x) - mean[i % width]).powi(2)));
    squares.for_each(|(column, square)| variance[column] += square / rows);
    (mean, variance)
}
