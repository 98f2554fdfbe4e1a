//! Graph attention: y_i = Σ_j α_ij W x_j + b over the arcs j → i and a loop at i, with
//! α_i = softmax_j leaky_relu(a_src · W x_j + a_dst · W x_i), slope 0.2, heads side by side (Veličković et
//! al. 2018). Loops among the arcs are left out, since every node gets one.

use burn::tensor::{Tensor, activation};

use crate::nn::batch::Structure;
use crate::nn::layers::{Dropout, Linear};
use crate::nn::ops::rows::{gather, max, sum};
use crate::nn::parameters::{Init, Param, Scope};
use crate::nn::pass::Pass;
use crate::nn::states::States;

/// The layer; parameters `att_src`, `att_dst`, `bias`, `lin.weight`.
#[derive(Clone, Debug)]
pub struct Gat {
    source: Param,
    target: Param,
    bias: Param,
    map: Linear,
    dropout: Dropout,
    heads: usize,
    width: usize,
}

impl Gat {
    /// `inputs` → `heads` × `width` numbers per node, dropout on the weights.
    pub fn new(mut scope: Scope, inputs: usize, heads: usize, width: usize, dropout: f64) -> Gat {
        let attention = Init::xavier_uniform(heads, width);
        let map = Init::xavier_uniform(inputs, heads * width);
        Gat {
            source: scope.parameter("att_src", &[1, heads, width], attention),
            target: scope.parameter("att_dst", &[1, heads, width], attention),
            bias: scope.parameter("bias", &[heads * width], Init::Constant(0.0)),
            map: Linear::unbiased(scope.at("lin"), inputs, heads * width, map),
            dropout: Dropout::new(&mut scope, dropout),
            heads,
            width,
        }
    }

    /// `[nodes, inputs]` → `[nodes, heads × width]`.
    pub fn forward(&self, pass: &Pass, structure: &Structure, x: &States) -> Tensor<2> {
        let [sources, targets] = structure.looped();
        let (heads, width, arcs) = (self.heads, self.width, sources.of_row().len());
        let mapped = x.through(pass, &self.map); // [nodes, heads × width]
        let nodes = mapped.dims()[0];
        let score = |vector: Param| -> Tensor<2> {
            let products = mapped.clone().reshape([nodes, heads, width]) * pass.param::<3>(vector);
            products.sum_dim(2).reshape([nodes, heads])
        };
        let scores =
            gather(pass, sources, score(self.source)) + gather(pass, targets, score(self.target)); // [arcs, heads]
        let scores = activation::leaky_relu(scores, 0.2);
        let largest = max(pass, targets, scores.clone().detach()).detach();
        let powers = (scores - gather(pass, targets, largest)).exp();
        let sums = sum(pass, targets, powers.clone()).add_scalar(1e-16);
        let weights = self.dropout.forward(pass, powers / gather(pass, targets, sums));
        let messages = gather(pass, sources, mapped).reshape([arcs, heads, width])
            * weights.reshape([arcs, heads, 1]);
        let mixed = sum(pass, targets, messages.reshape([arcs, heads * width]));
        mixed + pass.param::<1>(self.bias).unsqueeze()
    }
}
