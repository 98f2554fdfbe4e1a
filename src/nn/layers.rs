//! The layers that every network is made of, with PyTorch's definitions, names and initial values.

use burn::tensor::Tensor;

use super::ops::dense::linear;
use super::ops::layer_norm::layer_normalised;
use super::ops::norm::normalise;
use super::ops::rectify::rectified;
use super::ops::rows::{Groups, gather};
use super::parameters::{Init, Param, Scope};
use super::pass::{Pass, matrix, values};
use crate::rng::Coins;

/// y = x Wᵀ + b, with W as `weight` `[outputs, inputs]`.
#[derive(Clone, Debug)]
pub struct Linear {
    pub(super) weight: Param,
    pub(super) bias: Option<Param>,
}

impl Linear {
    /// Weights and bias uniform in ±1/√inputs.
    pub fn new(mut scope: Scope, inputs: usize, outputs: usize) -> Linear {
        let init = Init::fan_in(inputs);
        let weight = scope.parameter("weight", &[outputs, inputs], init);
        Linear { weight, bias: Some(scope.parameter("bias", &[outputs], init)) }
    }

    /// No bias, weights as `init` says.
    pub fn unbiased(mut scope: Scope, inputs: usize, outputs: usize, init: Init) -> Linear {
        Linear { weight: scope.parameter("weight", &[outputs, inputs], init), bias: None }
    }

    /// Weights as `init` says, bias 0.
    pub fn zero_bias(mut scope: Scope, inputs: usize, outputs: usize, init: Init) -> Linear {
        let weight = scope.parameter("weight", &[outputs, inputs], init);
        Linear { weight, bias: Some(scope.parameter("bias", &[outputs], Init::Constant(0.0))) }
    }

    /// Weight and bias of a map that has both.
    ///
    /// # Panics
    /// If it has no bias.
    pub(super) fn params(&self, pass: &Pass) -> (Tensor<2>, Tensor<1>) {
        (pass.param(self.weight), pass.param(self.bias.expect("a map with a bias")))
    }

    /// Numbers of outputs and inputs.
    pub(super) fn shape(&self, pass: &Pass) -> [usize; 2] {
        let shape = &pass.parameters().entry(self.weight).shape;
        [shape[0], shape[1]]
    }

    /// `[rows, inputs]` → `[rows, outputs]`.
    pub fn forward(&self, pass: &Pass, x: Tensor<2>) -> Tensor<2> {
        let bias = self.bias.map(|bias| pass.param::<1>(bias));
        project(x, pass.param(self.weight), bias)
    }

    /// The same for many rows: by our own products, shared out among the team.
    pub fn of_many(&self, pass: &Pass, x: Tensor<2>) -> Tensor<2> {
        let bias = self.bias.map(|bias| pass.param::<1>(bias));
        linear(pass, x, pass.param(self.weight), bias)
    }
}

/// x Wᵀ + b.
pub(super) fn project(x: Tensor<2>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<2> {
    if x.dims()[0] == 0 {
        // Broadcasting over no rows panics in burn-flex 0.22.
        return Tensor::zeros([0, weight.dims()[0]], &x.device());
    }
    let y = x.matmul(weight.transpose());
    match bias {
        Some(bias) => y + bias.unsqueeze(),
        None => y,
    }
}

/// A learned row for each of a few ids.
#[derive(Clone, Debug)]
pub struct Embedding {
    weight: Param,
    count: usize,
}

impl Embedding {
    /// Rows from `init`; PyTorch's is normal with deviation 1.
    pub fn new(mut scope: Scope, count: usize, width: usize, init: Init) -> Embedding {
        Embedding { weight: scope.parameter("weight", &[count, width], init), count }
    }

    /// Number of ids.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The row of every id: `[ids, width]`.
    ///
    /// # Panics
    /// If an id is not below the number of ids.
    pub fn forward(&self, pass: &Pass, ids: Vec<u32>) -> Tensor<2> {
        gather(pass, &Groups::new(ids, self.count), pass.param(self.weight))
    }
}

pub(super) const EPSILON: f64 = 1e-5;

/// Every column shifted and scaled to mean 0 and variance 1 over the rows of the batch, then scaled and
/// shifted as learned (Ioffe & Szegedy 2015). In evaluation by running statistics, which move by a
/// tenth in every training pass.
#[derive(Clone, Debug)]
pub struct BatchNorm {
    pub(super) weight: Param,
    pub(super) bias: Param,
    pub(super) running_mean: Param,
    pub(super) running_var: Param,
}

impl BatchNorm {
    const MOMENTUM: f64 = 0.1;

    /// Scale 1, shift 0.
    pub fn new(mut scope: Scope, width: usize) -> BatchNorm {
        BatchNorm {
            weight: scope.parameter("weight", &[width], Init::Constant(1.0)),
            bias: scope.parameter("bias", &[width], Init::Constant(0.0)),
            running_mean: scope.statistic("running_mean", &[width], 0.0),
            running_var: scope.statistic("running_var", &[width], 1.0),
        }
    }

    /// `[rows, width]` → `[rows, width]`. Without rows there is nothing to do or to learn; of a single
    /// row, the variance is 0 and the running variance stays.
    pub fn forward(&self, pass: &Pass, x: Tensor<2>) -> Tensor<2> {
        let [rows, _] = x.dims();
        if rows == 0 {
            return x;
        }
        let [weight, bias] = [self.weight, self.bias].map(|param| pass.param::<1>(param));
        if !pass.is_training() {
            let [mean, variance] =
                [self.running_mean, self.running_var].map(|param| pass.param::<1>(param));
            let scaled = (x - mean.unsqueeze()) / variance.add_scalar(EPSILON).sqrt().unsqueeze();
            return scaled * weight.unsqueeze() + bias.unsqueeze();
        }
        if let Some((y, moments)) = normalise(pass, &x, &weight, &bias, EPSILON) {
            self.update(pass, rows, &moments.mean, &moments.variance);
            return y;
        }
        let mean = x.clone().mean_dim(0); // [1, width]
        let centred = x - mean.clone();
        let variance = centred.clone().square().mean_dim(0); // [1, width]
        let double = |tensor: Tensor<2>| -> Vec<f64> {
            values(tensor.detach()).into_iter().map(f64::from).collect()
        };
        self.update(pass, rows, &double(mean), &double(variance.clone()));
        let scaled = centred / variance.add_scalar(EPSILON).sqrt();
        scaled * weight.unsqueeze() + bias.unsqueeze()
    }

    /// Moves the running statistics towards those of the batch, of so many rows.
    pub(super) fn update(&self, pass: &Pass, rows: usize, mean: &[f64], variance: &[f64]) {
        let moved = |param, new: &[f64], factor: f64| {
            let old = pass.parameters().values(pass.parameters().entry(param));
            let momentum = Self::MOMENTUM;
            let moved = |(&old, &new): (&f32, &f64)| {
                (f64::from(old) * (1.0 - momentum) + new * factor * momentum) as f32
            };
            pass.update(param, old.iter().zip(new).map(moved).collect());
        };
        if rows > 0 {
            moved(self.running_mean, mean, 1.0);
        }
        if rows > 1 {
            moved(self.running_var, variance, rows as f64 / (rows as f64 - 1.0));
        }
    }
}

/// Every row shifted and scaled to mean 0 and variance 1, then scaled and shifted as learned (Ba, Kiros
/// & Hinton 2016).
#[derive(Clone, Debug)]
pub struct LayerNorm {
    weight: Param,
    bias: Param,
}

impl LayerNorm {
    /// Scale 1, shift 0.
    pub fn new(mut scope: Scope, width: usize) -> LayerNorm {
        LayerNorm {
            weight: scope.parameter("weight", &[width], Init::Constant(1.0)),
            bias: scope.parameter("bias", &[width], Init::Constant(0.0)),
        }
    }

    /// Scale and shift.
    pub(super) fn params(&self, pass: &Pass) -> [Tensor<1>; 2] {
        [self.weight, self.bias].map(|param| pass.param(param))
    }

    /// `[rows, width]` → `[rows, width]`.
    pub fn forward(&self, pass: &Pass, x: Tensor<2>) -> Tensor<2> {
        layer_normalised(pass, x, self, false, Dropout::NONE)
    }

    /// The same of tensor operations.
    pub(super) fn composed(&self, pass: &Pass, x: Tensor<2>) -> Tensor<2> {
        let centred = x.clone() - x.mean_dim(1);
        let variance = centred.clone().square().mean_dim(1); // [rows, 1]
        let scaled = centred / variance.add_scalar(EPSILON).sqrt();
        let [weight, bias] = self.params(pass);
        scaled * weight.unsqueeze() + bias.unsqueeze()
    }
}

/// In training, sets numbers to 0 at random and scales up the others (Srivastava et al. 2014). Masks
/// follow seed, step and the place of the layer in the model, and nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    rate: f64,
    site: u64,
}

impl Dropout {
    /// Drops nothing.
    pub const NONE: Dropout = Dropout { rate: 0.0, site: 0 };

    /// Drops with probability `rate`.
    pub fn new(scope: &mut Scope, rate: f64) -> Dropout {
        Dropout { rate, site: scope.dropout_site() }
    }

    /// Applies the mask of this pass.
    pub fn forward(&self, pass: &Pass, x: Tensor<2>) -> Tensor<2> {
        let [rows, width] = x.dims();
        match self.mask(pass, rows * width) {
            Some(mask) => x * matrix(mask, [rows, width], pass.device()),
            None => x,
        }
    }

    /// The coins of this pass; none if nothing drops.
    pub(super) fn coins(&self, pass: &Pass) -> Option<Coins> {
        pass.coins(self.site, self.rate)
    }

    /// The factors of this pass; none if nothing drops.
    pub fn mask(&self, pass: &Pass, count: usize) -> Option<Vec<f32>> {
        pass.mask(self.site, self.rate, count)
    }
}

/// Linear, ReLU, dropout, linear, dropout: `ff1`, `ff2`.
#[derive(Clone, Debug)]
pub struct FeedForward {
    pub(super) first: Linear,
    pub(super) second: Linear,
    pub(super) inner: Dropout,
    pub(super) outer: Dropout,
}

impl FeedForward {
    /// `width` → `hidden` → `width`. Its maps are in `scope` itself.
    pub fn new(scope: &mut Scope, width: usize, hidden: usize, dropout: f64) -> FeedForward {
        FeedForward {
            first: Linear::new(scope.at("ff1"), width, hidden),
            second: Linear::new(scope.at("ff2"), hidden, width),
            inner: Dropout::new(scope, dropout),
            outer: Dropout::new(scope, dropout),
        }
    }

    /// `[rows, width]` → `[rows, width]`.
    pub fn forward(&self, pass: &Pass, x: Tensor<2>) -> Tensor<2> {
        let (weight, bias) = self.first.params(pass);
        let hidden = rectified(pass, linear(pass, x, weight, None), bias, self.inner);
        self.outer.forward(pass, self.second.of_many(pass, hidden))
    }
}

/// Rows divided by their Euclidean length, or by 1e-12 if that is larger.
pub fn normalise_rows(x: Tensor<2>) -> Tensor<2> {
    // Clamped before the root, whose derivative at 0 is infinite.
    let squares = x.clone().square().sum_dim(1).clamp_min(1e-24); // [rows, 1]
    x / squares.sqrt()
}
