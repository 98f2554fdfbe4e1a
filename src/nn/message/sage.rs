//! GraphSAGE with the mean: y_i = W_l mean_{j→i} x_j + b + W_r x_i (Hamilton, Ying & Leskovec 2017). The
//! mean over no arcs is 0.

use burn::tensor::Tensor;

use crate::nn::batch::Structure;
use crate::nn::layers::Linear;
use crate::nn::ops::propagate::propagate;
use crate::nn::parameters::{Init, Scope};
use crate::nn::pass::Pass;
use crate::nn::states::States;

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
    pub fn forward(&self, pass: &Pass, structure: &Structure, x: &States) -> Tensor<2> {
        let own = x.through(pass, &self.own);
        let arcs = structure.means();
        let neighbours = match x {
            States::Made(x) => self.neighbours.of_many(pass, propagate(pass, arcs, x.clone())),
            // The mean of what is mapped is the map of the mean, and features may be many.
            States::Given(_) => {
                let mapped = x.project(pass, pass.param(self.neighbours.weight), None);
                let bias = self.neighbours.bias.map(|bias| pass.param::<1>(bias).unsqueeze());
                let means = propagate(pass, arcs, mapped);
                bias.map_or_else(|| means.clone(), |bias| means.clone() + bias)
            }
        };
        neighbours + own
    }
}
