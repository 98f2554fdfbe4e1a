//! Graph isomorphism network with edge features: y_i = N(x_i + Σ_{j→i} relu(x_j + e_ij)), with N two linear
//! maps and a ReLU between them (Hu et al. 2020; ε = 0).

use burn::tensor::{Tensor, activation};

use crate::nn::batch::Structure;
use crate::nn::layers::Linear;
use crate::nn::ops::rows::{gather, sum};
use crate::nn::parameters::Scope;
use crate::nn::pass::Pass;

/// The layer; parameters `nn.0` and `nn.2`.
#[derive(Clone, Debug)]
pub struct Gine {
    pub(in crate::nn) first: Linear,
    pub(in crate::nn) second: Linear,
}

impl Gine {
    /// `width` → `hidden` → `outputs` numbers per node; edge features are as wide as nodes.
    pub fn new(mut scope: Scope, width: usize, hidden: usize, outputs: usize) -> Gine {
        let mut scope = scope.at("nn");
        Gine {
            first: Linear::new(scope.at(0), width, hidden),
            second: Linear::new(scope.at(2), hidden, outputs),
        }
    }

    /// Nodes `[nodes, width]` and arcs `[arcs, width]` → `[nodes, outputs]`.
    pub fn forward(
        &self,
        pass: &Pass,
        structure: &Structure,
        x: Tensor<2>,
        e: Tensor<2>,
    ) -> Tensor<2> {
        let messages = activation::relu(gather(pass, &structure.by_source, x.clone()) + e);
        let received = sum(pass, &structure.by_target, messages);
        let hidden = activation::relu(self.first.forward(pass, x + received));
        self.second.forward(pass, hidden)
    }
}
