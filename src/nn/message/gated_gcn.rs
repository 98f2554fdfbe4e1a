//! Gated graph convolution with residuals (Bresson & Laurent 2017; Dwivedi et al. 2023): for arcs j → i
//!
//! ```text
//! g_ij = D x_i + E x_j + C e_ij        s_ij = sigmoid(g_ij) (· r_ij)
//! u_i  = A x_i + Σ_j s_ij ⊙ B x_j / (Σ_j s_ij + 1e-6)
//! x'_i = x_i + drop(relu(BN(u_i)))     e'_ij = e_ij + drop(relu(BN(g_ij)))
//! ```
//!
//! The edge gate r_ij = sigmoid(w₂ · relu(w₁ ‖p_i − p_j‖² + b₁) + b₂) brings in positions p that rotate
//! with the eigenvectors they are made of (Wang et al. 2022).

use burn::tensor::{Tensor, activation};

use crate::nn::batch::Structure;
use crate::nn::layers::{BatchNorm, Dropout, Linear};
use crate::nn::ops::rows::{gather, sum};
use crate::nn::parameters::Scope;
use crate::nn::pass::Pass;

/// The layer; parameters `A` to `E`, `gate.0` and `gate.2`, `bn_node`, `bn_edge`.
#[derive(Clone, Debug)]
pub struct GatedGcn {
    pub(in crate::nn) own: Linear,
    pub(in crate::nn) value: Linear,
    pub(in crate::nn) edge: Linear,
    pub(in crate::nn) target: Linear,
    pub(in crate::nn) source: Linear,
    pub(in crate::nn) gate: Option<(Linear, Linear)>,
    pub(in crate::nn) node_norm: BatchNorm,
    pub(in crate::nn) edge_norm: BatchNorm,
    pub(in crate::nn) node_dropout: Dropout,
    pub(in crate::nn) edge_dropout: Dropout,
}

impl GatedGcn {
    /// Nodes and arcs of `width` numbers, with or without the edge gate.
    pub fn new(mut scope: Scope, width: usize, edge_gate: bool, dropout: f64) -> GatedGcn {
        let mut map = |name| Linear::new(scope.at(name), width, width);
        let [own, value, edge, target, source] = ["A", "B", "C", "D", "E"].map(&mut map);
        let gate = edge_gate.then(|| {
            let mut scope = scope.at("gate");
            (Linear::new(scope.at(0), 1, width), Linear::new(scope.at(2), width, 1))
        });
        GatedGcn {
            own,
            value,
            edge,
            target,
            source,
            gate,
            node_norm: BatchNorm::new(scope.at("bn_node"), width),
            edge_norm: BatchNorm::new(scope.at("bn_edge"), width),
            node_dropout: Dropout::new(&mut scope, dropout),
            edge_dropout: Dropout::new(&mut scope, dropout),
        }
    }

    /// Nodes `[nodes, width]` and arcs `[arcs, width]` → both anew. `positions` `[nodes, any]` are for the
    /// edge gate.
    ///
    /// # Panics
    /// If there is an edge gate and no positions.
    pub fn forward(
        &self,
        pass: &Pass,
        structure: &Structure,
        x: Tensor<2>,
        e: Tensor<2>,
        positions: Option<&Tensor<2>>,
    ) -> (Tensor<2>, Tensor<2>) {
        let (sources, targets) = (&structure.by_source, &structure.by_target);
        let gates = gather(pass, targets, self.target.forward(pass, x.clone()))
            + gather(pass, sources, self.source.forward(pass, x.clone()))
            + self.edge.forward(pass, e.clone());
        let mut weights = activation::sigmoid(gates.clone()); // [arcs, width]
        if let Some((first, second)) = &self.gate {
            let positions = positions.expect("an edge gate needs positions").clone();
            let apart = gather(pass, targets, positions.clone()) - gather(pass, sources, positions);
            let hidden = activation::relu(first.forward(pass, apart.square().sum_dim(1)));
            weights = weights * activation::sigmoid(second.forward(pass, hidden));
        }
        let messages = gather(pass, sources, self.value.forward(pass, x.clone()));
        let received = sum(pass, targets, weights.clone() * messages)
            / sum(pass, targets, weights).add_scalar(1e-6);
        let update = self.own.forward(pass, x.clone()) + received;
        let update = activation::relu(self.node_norm.forward(pass, update));
        let gates = activation::relu(self.edge_norm.forward(pass, gates));
        (x + self.node_dropout.forward(pass, update), e + self.edge_dropout.forward(pass, gates))
    }
}
