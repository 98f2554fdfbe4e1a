//! GraphSAGE with the mean: y_i = W_l mean_{j→i} x_j + b + W_r x_i (Hamilton, Ying & Leskovec 2017). The
//! mean over no arcs is 0.

use burn::tensor::Tensor;

use super::mean;
use crate::nn::batch::Structure;
use crate::nn::layers::Linear;
use crate::nn::ops::rows::gather;
use crate::nn::parameters::{Init, Scope};
use crate::nn::pass::Pass;

/// The layer; parameters `lin_l` (with bias) and `lin_r` (without).
#[derive(Clone, Debug)]
pub struct Sage {
    neighbours: Linear,
    own: Linear,
}

impl Sage {
    /// `inputs` → `outputs` numbers per node.
    pub fn new(mut scope: Scope, inputs: usize, outputs: usize) -> Sage {
        let neighbours = Linear::new(scope.at("lin_l"), inputs, outputs);
        let own = Linear::unbiased(scope.at("lin_r"), inputs, outputs, Init::fan_in(inputs));
        Sage { neighbours, own }
    }

    /// `[nodes, inputs]` → `[nodes, outputs]`.
    pub fn forward(&self, pass: &Pass, structure: &Structure, x: Tensor<2>) -> Tensor<2> {
        let messages = gather(pass, &structure.by_source, x.clone());
        let means = mean(pass, &structure.by_target, messages);
        self.neighbours.forward(pass, means) + self.own.forward(pass, x)
    }
}
