//! Graph convolution: y = D^-1/2 (A + I) D^-1/2 x Wᵀ + b, with D the number of arcs that end at a node,
//! plus 1 (Kipf & Welling 2017). Loops among the arcs are left out, since every node gets one.

use burn::tensor::Tensor;

use crate::nn::batch::Structure;
use crate::nn::layers::Linear;
use crate::nn::ops::rows::{gather, sum};
use crate::nn::parameters::{Init, Param, Scope};
use crate::nn::pass::{Pass, matrix};

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
    pub fn forward(&self, pass: &Pass, structure: &Structure, x: Tensor<2>) -> Tensor<2> {
        let [sources, targets] = structure.looped();
        let scale: Vec<f32> = targets.sizes().map(|size| 1.0 / (size as f32).sqrt()).collect();
        let ends = sources.of_row().iter().zip(targets.of_row());
        let factors: Vec<f32> =
            ends.map(|(&u, &v)| scale[u as usize] * scale[v as usize]).collect();
        let factors = matrix(factors, [sources.of_row().len(), 1], pass.device());
        let messages = gather(pass, sources, self.map.forward(pass, x)) * factors;
        sum(pass, targets, messages) + pass.param::<1>(self.bias).unsqueeze()
    }
}
