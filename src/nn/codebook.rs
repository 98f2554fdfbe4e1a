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
//! the scale of the states. Where clusters of the graph are given, nodes belong to these instead of the nearest code, and the scale is that
//! of the batches so far, which no step changes before its end. Sizes start at 1: from 0, as in the released code, codes of clusters that no
//! batch has had yet would be random numbers divided by next to nothing.

use burn::tensor::Tensor;

use super::clusters::Clusters;
use super::layers::EPSILON;
use super::ops::dense::linear;
use super::parameters::{Init, Param, Scope};
use super::pass::{Pass, matrix, values};

/// The part of an average that stays in a step.
const DECAY: f64 = 0.99;
/// What statistics of columns move by.
const MOMENTUM: f64 = 0.1;
/// Rows whose codes are looked for together.
const BLOCK: usize = 2048;

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

    /// Number of codes.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The codes on the scale of the states of all batches so far, where the cluster of every node is given.
    pub fn assigned(&self, pass: &Pass, x: &Tensor<2>, of_node: &[u32]) -> Tensor<2> {
        let width = self.width;
        let number = |param: Param| pass.parameters().values(pass.parameters().entry(param));
        let mut codes = smoothed(number(self.sums), number(self.sizes), width);
        let (mean, variance) = (number(self.mean), number(self.variance));
        for row in codes.chunks_exact_mut(width) {
            for (code, (&mean, &variance)) in row.iter_mut().zip(mean.iter().zip(variance)) {
                let deviation = (f64::from(variance) + EPSILON).sqrt();
                *code = (f64::from(*code) * deviation + f64::from(mean)) as f32;
            }
        }
        if pass.is_training() {
            let mut x = values(x.clone().detach());
            let (mean, variance) = moments(&x, width);
            normalise(&mut x, &mean, &scale(&variance));
            self.update(pass, of_node, &x, &mean, &variance);
        }
        matrix(codes, [self.count, width], pass.device())
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
        let scale = scale(&variance);
        let mut normal = x;
        normalise(&mut normal, &mean, &scale);
        let of_node = nearest(pass, &normal, &codes, width);
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

/// What columns of these variances are multiplied by.
fn scale(variance: &[f64]) -> Vec<f64> {
    variance.iter().map(|v| 1.0 / (v + EPSILON).sqrt()).collect()
}

fn normalise(x: &mut [f32], mean: &[f64], scale: &[f64]) {
    for row in x.chunks_exact_mut(mean.len()) {
        let columns = row.iter_mut().zip(mean).zip(scale);
        columns.for_each(|((x, mean), scale)| *x = ((f64::from(*x) - mean) * scale) as f32);
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

/// The code nearest to each row, the first of several: that of the largest x·e − |e|² / 2. Rows × codes are there for a block of rows at a time.
fn nearest(pass: &Pass, rows: &[f32], codes: &[f32], width: usize) -> Vec<u32> {
    let half = |code: &[f32]| code.iter().map(|&c| f64::from(c).powi(2)).sum::<f64>() / -2.0;
    let halves: Vec<f32> = codes.chunks_exact(width).map(|code| half(code) as f32).collect();
    let count = halves.len();
    let half = matrix(halves, [1, count], pass.device()).squeeze::<1>();
    let codes = matrix(codes.to_vec(), [count, width], pass.device());
    let mut of_row = Vec::with_capacity(rows.len() / width);
    for block in rows.chunks(BLOCK * width) {
        let block = matrix(block.to_vec(), [block.len() / width, width], pass.device());
        let scores = values(linear(pass, block, codes.clone(), Some(half.clone())));
        of_row.extend(scores.chunks_exact(count).map(first_largest));
    }
    of_row
}

fn first_largest(scores: &[f32]) -> u32 {
    let better = |best: usize, next: usize| if scores[next] > scores[best] { next } else { best };
    (0..scores.len()).reduce(better).map_or(0, |best| best as u32)
}

/// Mean and variance of every column.
fn moments(x: &[f32], width: usize) -> (Vec<f64>, Vec<f64>) {
    let rows = (x.len() / width).max(1) as f64;
    let mut mean = vec![0.0; width];
    for row in x.chunks_exact(width) {
        mean.iter_mut().zip(row).for_each(|(mean, &x)| *mean += f64::from(x) / rows);
    }
    let mut variance = vec![0.0; width];
    for row in x.chunks_exact(width) {
        let columns = variance.iter_mut().zip(&mean).zip(row);
        columns.for_each(|((sum, mean), &x)| *sum += (f64::from(x) - mean).powi(2) / rows);
    }
    (mean, variance)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::parameters::Parameters;
    use crate::nn::pass::{Mode, cpu};
    use crate::rng::Seed;

    #[test]
    fn the_nearest_code_is_the_one_at_the_smallest_distance() {
        let mut stream = Seed(3).stream("codes", 0, 0);
        let mut draw = |count: usize| -> Vec<f32> {
            (0..count).map(|_| stream.unit() as f32 * 4.0 - 2.0).collect()
        };
        let (width, count) = (5, 7);
        let (rows, codes) = (draw(width * (BLOCK + 9)), draw(width * count));
        let parameters = Parameters::default();
        let pass = Pass::new(&parameters, Mode::Eval, &cpu());
        let of_row = nearest(&pass, &rows, &codes, width);
        assert_eq!(of_row.len(), BLOCK + 9);
        for (row, &code) in rows.chunks_exact(width).zip(&of_row) {
            let distance =
                |code: &[f32]| -> f32 { code.iter().zip(row).map(|(c, x)| (c - x).powi(2)).sum() };
            let least = codes.chunks_exact(width).map(distance).fold(f32::MAX, f32::min);
            assert!(distance(&codes[code as usize * width..][..width]) <= least + 1e-5);
        }
        assert_eq!(first_largest(&[1.0, 3.0, 3.0]), 1);
    }

    #[test]
    fn given_clusters_move_towards_the_means_of_their_nodes() {
        let mut builder = crate::nn::Builder::new(Seed(0));
        let codebook = Codebook::new(builder.root(), 3, 2);
        let mut parameters = builder.finish();
        let x = [[1.0, 5.0], [3.0, 5.5], [2.0, -5.0], [6.0, -4.5]];
        for step in 0..3_000 {
            let pass = Pass::new(&parameters, Mode::Train { seed: Seed(0), step }, &cpu());
            let states = matrix(x.concat(), [4, 2], pass.device());
            codebook.assigned(&pass, &states, &[0, 0, 2, 2]);
            pass.statistics().store(&mut parameters);
        }
        let pass = Pass::eval(&parameters);
        let states = matrix(x.concat(), [4, 2], pass.device());
        let codes = values(codebook.assigned(&pass, &states, &[0, 0, 2, 2]));
        for (found, expected) in codes.iter().zip([2.0, 5.25, f32::NAN, f32::NAN, 4.0, -4.75]) {
            assert!(expected.is_nan() || (found - expected).abs() < 1e-2, "{codes:?}");
        }
        assert!(codes.iter().all(|code| code.is_finite()));
    }
}
