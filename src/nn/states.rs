//! What a layer of a node model reads: features as they are given, or states that another layer made.

use std::sync::Arc;

use burn::tensor::Tensor;

use super::batch::Batch;
use super::config::NodeInput;
use super::layers::Linear;
use super::ops::features::{self, FeatureRows};
use super::pass::{Pass, matrix};
use crate::{Error, Result};

/// A row of numbers for every node.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there are few, and a tensor is passed as it is elsewhere"
)]
pub enum States {
    /// Features, which have no derivative, and may be sparse.
    Given(Arc<FeatureRows>),
    /// What a layer made.
    Made(Tensor<2>),
}

impl States {
    /// The features of a batch, which must be as many as `input` says.
    pub fn of(batch: &Batch, input: &NodeInput) -> Result<States> {
        let NodeInput::Linear(width) = *input else {
            return Err(Error::config(
                "models of nodes read real numbers; write `node = { linear = N }`",
            ));
        };
        let features = match (&batch.features, &batch.node_features) {
            (Some(features), _) => features.clone(),
            (None, Some(matrix)) if matrix.width > 0 => {
                Arc::new(FeatureRows::dense(matrix.width, matrix.values.to_floats()))
            }
            _ => return Err(Error::data("the nodes have no features, which the model reads")),
        };
        if features.width() != width {
            return Err(Error::data(format!(
                "nodes have {} features, but the model reads {width}; set `node = {{ linear = {} }}`",
                features.width(),
                features.width()
            )));
        }
        Ok(States::Given(features))
    }

    /// x Wᵀ + b
    pub fn project(&self, pass: &Pass, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<2> {
        match self {
            States::Given(features) => features::map(pass, features, weight, bias),
            States::Made(x) => super::ops::dense::linear(pass, x.clone(), weight, bias),
        }
    }

    /// What a linear map makes of them.
    pub fn through(&self, pass: &Pass, map: &Linear) -> Tensor<2> {
        self.project(pass, pass.param(map.weight), map.bias.map(|bias| pass.param(bias)))
    }

    /// As a tensor.
    pub fn tensor(&self, pass: &Pass) -> Tensor<2> {
        match self {
            States::Given(rows) => {
                matrix(rows.to_dense(), [rows.rows(), rows.width()], pass.device())
            }
            States::Made(x) => x.clone(),
        }
    }
}
