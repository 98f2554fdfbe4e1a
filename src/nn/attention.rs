//! Multi-head attention among the nodes of each graph, with PyTorch's packed projection.

use burn::tensor::Tensor;

use super::batch::Structure;
use super::layers::{Dropout, Linear, project};
use super::ops::attention::{Inputs, Pairs, attention};
use super::parameters::{Init, Param, Scope};
use super::pass::Pass;
use std::sync::Arc;

/// Query, key and value by one map `in_proj_weight` `[3 × width, width]`, attention, `out_proj`.
#[derive(Clone, Debug)]
pub struct MultiHead {
    pub(super) weight: Param,
    pub(super) bias: Param,
    pub(super) output: Linear,
    pub(super) dropout: Dropout,
    heads: usize,
}

impl MultiHead {
    /// Attention with `heads` heads on rows of `width`, dropout on its weights.
    pub fn new(mut scope: Scope, width: usize, heads: usize, dropout: f64) -> MultiHead {
        let init = Init::xavier_uniform(width, 3 * width);
        let weight = scope.parameter("in_proj_weight", &[3 * width, width], init);
        let bias = scope.parameter("in_proj_bias", &[3 * width], Init::Constant(0.0));
        let output = Linear::zero_bias(scope.at("out_proj"), width, width, Init::fan_in(width));
        MultiHead { weight, bias, output, dropout: Dropout::new(&mut scope, dropout), heads }
    }

    /// `[nodes, width]` → `[nodes, width]`; `table` is the bias `[codes, heads]`. Weights are traced
    /// under `name`.
    pub fn forward(
        &self,
        pass: &Pass,
        structure: &Structure,
        x: Tensor<2>,
        table: Option<Tensor<2>>,
        name: impl Fn() -> String,
    ) -> Tensor<2> {
        let packed = project(x, pass.param(self.weight), Some(pass.param(self.bias)));
        let mut parts = packed.chunk(3, 1).into_iter();
        let mut part = || parts.next().expect("three parts");
        let inputs = Inputs { query: part(), key: part(), value: part() };
        let pairs = &structure.pairs;
        let mixed = attend(pass, pairs, self.heads, inputs, table, self.dropout, name);
        self.output.forward(pass, mixed)
    }
}

/// Attention with dropout on its weights.
pub(super) fn attend(
    pass: &Pass,
    pairs: &Arc<Pairs>,
    heads: usize,
    inputs: Inputs,
    table: Option<Tensor<2>>,
    dropout: Dropout,
    name: impl Fn() -> String,
) -> Tensor<2> {
    attention(pass, pairs, heads, inputs, table, dropout.coins(pass), name)
}
