//! Graph convolution: y = D^-1/2 (A + I) D^-1/2 x Wᵀ + b, with D the number of arcs that end at a node,
//! plus 1 (Kipf & Welling 2017). Loops among the arcs are left out, since every node gets one.

use std::sync::Arc;

use burn::tensor::Tensor;

use crate::nn::batch::Structure;
use crate::nn::layers::{Dropout, Linear};
use crate::nn::ops::propagate::{propagate, propagate_to};
use crate::nn::ops::rectify::rectified;
use crate::nn::ops::rows::Groups;
use crate::nn::parameters::{Init, Param, Scope};
use crate::nn::pass::Pass;
use crate::nn::states::States;

/// The layer; parameters `lin.weight` and `bias`.
#[derive(Clone, Debug)]
pub struct Gcn {
    bias: Param,
    map: Linear,
}

impl Gcn {
    /// `inputs` → `outputs` numbers per node.
    pub fn new(mut scope: Scope, inputs: usize, outputs: usize) -> Gcn {
        let bias = scope.parameter("bias", &[outputs], Init::Constant(0.0));
        let init = Init::xavier_uniform(inputs, outputs);
        Gcn { bias, map: Linear::unbiased(scope.at("lin"), inputs, outputs, init) }
    }

    /// `[nodes, inputs]` → `[nodes, outputs]`.
    pub fn forward(&self, pass: &Pass, structure: &Structure, x: &States) -> Tensor<2> {
        self.mixed(pass, structure, x) + pass.param::<1>(self.bias).unsqueeze()
    }

    /// The same without b.
    fn mixed(&self, pass: &Pass, structure: &Structure, x: &States) -> Tensor<2> {
        // Of features that never change, the sums over arcs do not either: D^-1/2 (A + I) D^-1/2 x comes first.
        let convolved = match x {
            States::Given(features) if !pass.is_composed() => structure.convolved(pass, features),
            _ => None,
        };
        match convolved {
            Some(features) => States::Given(features).through(pass, &self.map),
            None => propagate(pass, structure.convolution(), x.through(pass, &self.map)),
        }
    }

    /// Some rows of it, which are summed up before they are mapped.
    pub fn of_rows(
        &self,
        pass: &Pass,
        structure: &Structure,
        x: Tensor<2>,
        rows: &Arc<Groups>,
    ) -> Tensor<2> {
        let mixed = propagate_to(pass, structure.convolution(), x, rows);
        self.map.of_many(pass, mixed) + pass.param::<1>(self.bias).unsqueeze()
    }

    /// drop(relu(·)) of it.
    pub fn activated(
        &self,
        pass: &Pass,
        structure: &Structure,
        x: &States,
        dropout: Dropout,
    ) -> Tensor<2> {
        let mixed = self.mixed(pass, structure, x);
        rectified(pass, mixed, pass.param(self.bias), dropout)
    }
}
