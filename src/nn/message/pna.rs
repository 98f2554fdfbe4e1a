//! Principal neighbourhood aggregation: several ways of adding up messages at once (Corso et al. 2020), with the
//! identity scaler. For each tower, on its share of the columns,
//!
//! ```text
//! m_ij = M [x_i, x_j, W_e e_ij]        y_i = U [x_i, ⊕₁ m_ij, ⊕₂ m_ij, …]
//! ```
//!
//! then towers side by side through one more map. Without arcs, every aggregate is 0.

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::nn::batch::Structure;
use crate::nn::layers::Linear;
use crate::nn::ops::MANY;
use crate::nn::ops::dense::linear;
use crate::nn::ops::messages::{aggregate, aggregated};
use crate::nn::ops::rows::gather;
use crate::nn::parameters::Scope;
use crate::nn::pass::Pass;

/// A way of adding up messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Aggregator {
    /// Their mean.
    Mean,
    /// Their sum.
    Sum,
    /// The largest, column by column.
    Max,
    /// The smallest, column by column.
    Min,
}

/// The layer; parameters `edge_encoder`, `pre_nns.T.0`, `post_nns.T.0`, `lin`.
#[derive(Clone, Debug)]
pub struct Pna {
    edge: Option<Linear>,
    messages: Vec<Linear>,
    updates: Vec<Linear>,
    output: Linear,
    aggregators: Vec<Aggregator>,
    divide: bool,
}

/// Shape of a [`Pna`] layer.
#[derive(Clone, Debug)]
pub struct PnaShape {
    /// Numbers per node, before.
    pub inputs: usize,
    /// Numbers per node, after.
    pub outputs: usize,
    /// Numbers per arc, if arcs have features.
    pub edges: Option<usize>,
    /// Number of towers.
    pub towers: usize,
    /// Whether a tower gets its share of the input columns, or all of them.
    pub divide: bool,
    /// How messages are added up.
    pub aggregators: Vec<Aggregator>,
}

impl Pna {
    /// A layer of this shape; towers divide the outputs, and the inputs if they share them.
    pub fn new(mut scope: Scope, shape: &PnaShape) -> Pna {
        let PnaShape { inputs, outputs, edges, towers, divide, aggregators } = shape.clone();
        let width = if divide { inputs / towers } else { inputs };
        let edge = edges.map(|edges| Linear::new(scope.at("edge_encoder"), edges, width));
        let parts = if edge.is_some() { 3 } else { 2 };
        let messages = (0..towers)
            .map(|tower| Linear::new(scope.at("pre_nns").at(tower).at(0), parts * width, width))
            .collect();
        let updates = (0..towers)
            .map(|tower| {
                let inputs = (aggregators.len() + 1) * width;
                Linear::new(scope.at("post_nns").at(tower).at(0), inputs, outputs / towers)
            })
            .collect();
        let output = Linear::new(scope.at("lin"), outputs, outputs);
        Pna { edge, messages, updates, output, aggregators, divide }
    }

    /// Nodes `[nodes, inputs]` and arcs `[arcs, edges]` → `[nodes, outputs]`.
    ///
    /// # Panics
    /// If the layer has arc features and `e` is none.
    pub fn forward(
        &self,
        pass: &Pass,
        structure: &Structure,
        x: Tensor<2>,
        e: Option<Tensor<2>>,
    ) -> Tensor<2> {
        let e = self
            .edge
            .as_ref()
            .map(|edge| edge.of_many(pass, e.expect("a layer with arc features needs them")));
        let towers = self.messages.iter().zip(&self.updates).enumerate();
        let outputs = towers.map(|(tower, (message, update))| {
            let width = x.dims()[1] / self.messages.len();
            let own =
                if self.divide { x.clone().narrow(1, tower * width, width) } else { x.clone() };
            if pass.is_composed() || x.dims()[0] < MANY {
                let ends = [&structure.by_target, &structure.by_source]
                    .map(|ends| gather(pass, ends, own.clone()));
                let all = ends.into_iter().chain(e.clone()).collect();
                let messages = message.forward(pass, Tensor::cat(all, 1));
                let aggregates =
                    aggregated(pass, &structure.by_target, &messages, &self.aggregators);
                return update.forward(pass, Tensor::cat(vec![own, aggregates], 1));
            }
            // A map of [x_i, x_j, e] is the sum of maps of each, of which two are per node.
            let (weight, bias) = message.params(pass);
            let [outputs, width] = [weight.dims()[0], own.dims()[1]];
            let part = |number: usize| weight.clone().narrow(1, number * width, width);
            let both = Tensor::cat(vec![part(0), part(1)], 0);
            let bias = Tensor::cat(vec![bias, Tensor::zeros([outputs], pass.device())], 0);
            let ends = linear(pass, own.clone(), both, Some(bias));
            let arcs = e.clone().map(|e| linear(pass, e, part(2), None));
            let aggregates = aggregate(pass, structure, ends, arcs, &self.aggregators);
            update.of_many(pass, Tensor::cat(vec![own, aggregates], 1))
        });
        let outputs = Tensor::cat(outputs.collect(), 1);
        match x.dims()[0] < MANY {
            true => self.output.forward(pass, outputs),
            false => self.output.of_many(pass, outputs),
        }
    }
}
