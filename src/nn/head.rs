//! From node states to predictions: pooling, then a small network.

use burn::tensor::{Tensor, activation};

use super::batch::Structure;
use super::config::{Head, ModelConfig, Pool};
use super::layers::{Linear, normalise_rows};
use super::message::mean;
use super::ops::rows::{max, sum};
use super::parameters::Scope;
use super::pass::Pass;

/// Pooling and the network that predicts; parameters `head.N`, where N counts maps and what is between.
#[derive(Clone, Debug)]
pub struct Predictor {
    pool: Pool,
    maps: Vec<Linear>,
    normalise: bool,
}

impl Predictor {
    /// The predictor of a configuration.
    pub fn new(scope: &mut Scope, config: &ModelConfig) -> Predictor {
        let dim = config.dim;
        let (hidden, between) = match config.head {
            Head::San => (vec![dim / 2, dim / 4], 2),
            Head::Plain(maps) => (vec![dim; maps - 1], 2),
            Head::GraphGym(maps) => (vec![dim; maps - 1], 3),
        };
        let mut scope = scope.at("head");
        let mut inputs = dim;
        let maps = hidden.into_iter().chain([config.outputs]).enumerate().map(|(i, outputs)| {
            let map = Linear::new(scope.at(i * between), inputs, outputs);
            inputs = outputs;
            map
        });
        let maps = maps.collect();
        Predictor { pool: config.pool, maps, normalise: matches!(config.head, Head::GraphGym(_)) }
    }

    /// Nodes `[nodes, dim]` → `[graphs or nodes, outputs]`.
    pub fn forward(&self, pass: &Pass, structure: &Structure, x: Tensor<2>) -> Tensor<2> {
        let mut x = match self.pool {
            Pool::None => x,
            Pool::Sum => sum(pass, &structure.by_graph, x),
            Pool::Mean => mean(pass, &structure.by_graph, x),
            Pool::Max => max(pass, &structure.by_graph, x),
        };
        for (i, map) in self.maps.iter().enumerate() {
            if i > 0 {
                x = activation::relu(x);
                if self.normalise {
                    x = normalise_rows(x);
                }
            }
            x = map.forward(pass, x);
        }
        x
    }
}
