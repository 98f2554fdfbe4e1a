//! Layers of message passing one after another: the local branch of node models, and graph neural networks by
//! themselves.
//!
//! ```text
//! x → layer → [norm → relu → drop → layer]…                       as Kipf & Welling, Hamilton et al., Veličković et al.
//! x → linear → [norm → relu → drop → layer]… → norm → relu → drop      with a stem
//! ```

use burn::tensor::{Tensor, activation};

use super::batch::Structure;
use super::config::{Local, ModelConfig, Norm};
use super::layers::{BatchNorm, Dropout, LayerNorm, Linear};
use super::message::{Gat, Gcn, Sage};
use super::ops::dense::normalised;
use super::ops::layer_norm::layer_normalised;
use super::parameters::Scope;
use super::pass::Pass;
use super::states::States;
use crate::{Error, Result};

/// A sequence of layers.
#[derive(Clone, Debug)]
pub struct Branch {
    stem: Option<(Linear, Between)>,
    /// Each with what follows it.
    layers: Vec<(Layer, Option<Between>)>,
}

#[derive(Clone, Debug)]
enum Layer {
    Gcn(Gcn),
    Sage(Sage),
    Gat(Gat),
    /// No message passing at all.
    Linear(Linear),
}

#[derive(Clone, Debug)]
struct Between {
    norm: Normal,
    dropout: Dropout,
}

#[derive(Clone, Debug)]
enum Normal {
    None,
    Batch(BatchNorm),
    Layer(LayerNorm),
}

impl Branch {
    /// Layers of the kind that `local` says, from `inputs` to `outputs` numbers; linear maps for `none`. Parameters are
    /// under the name of the kind.
    pub fn new(
        scope: &mut Scope,
        config: &ModelConfig,
        local: &Local,
        [inputs, outputs]: [usize; 2],
    ) -> Result<Branch> {
        let name = match local {
            Local::Gcn => "gcn",
            Local::Sage => "sage",
            Local::Gat => "gat",
            Local::None => "mlp",
            _ => {
                return Err(Error::config(format!(
                    "`local` of {} is gcn, sage, gat or none",
                    config.backbone
                )));
            }
        };
        let branch = &config.branch;
        let width = branch.dim.unwrap_or(config.dim);
        let stem = branch.stem.then(|| {
            let map = Linear::new(scope.at(name).at("stem"), inputs, width);
            (map, Between::new(scope, name, 0, config, width))
        });
        let mut from = if branch.stem { width } else { inputs };
        let mut layer = |number: usize| {
            let is_last = number + 1 == branch.layers;
            let to = if is_last { outputs } else { width };
            let layer = Layer::new(scope.at(name), number, local, config, [from, to]);
            let after = !is_last || branch.stem;
            from = to;
            (layer, after.then(|| Between::new(scope, name, number + 1, config, to)))
        };
        let layers = (0..branch.layers).map(&mut layer).collect();
        Ok(Branch { stem, layers })
    }

    /// `[nodes, inputs]` → `[rows that are asked for, outputs]`.
    pub fn forward(&self, pass: &Pass, structure: &Structure, x: &States) -> Tensor<2> {
        let mut x = match &self.stem {
            Some((map, after)) => States::Made(after.forward(pass, x.through(pass, map))),
            None => x.clone(),
        };
        for (number, (layer, after)) in self.layers.iter().enumerate() {
            let is_last = number + 1 == self.layers.len();
            x = States::Made(match (layer, after) {
                (layer, None) if is_last => layer.of_rows(pass, structure, &x),
                // Bias, ReLU and dropout in one go.
                (Layer::Gcn(gcn), Some(Between { norm: Normal::None, dropout })) => {
                    gcn.activated(pass, structure, &x, *dropout)
                }
                (layer, Some(after)) => after.forward(pass, layer.forward(pass, structure, &x)),
                (layer, None) => layer.forward(pass, structure, &x),
            });
            if let (true, Some(_), States::Made(states)) = (is_last, after, &x) {
                x = States::Made(pass.chosen(states.clone()));
            }
        }
        x.tensor(pass)
    }
}

/// The sum of a global and a local branch, or their mean by the weight of the latter.
pub(super) fn added(global: Tensor<2>, local: Tensor<2>, weight: Option<f64>) -> Tensor<2> {
    match weight {
        Some(weight) => global * (1.0 - weight) + local * weight,
        None => global + local,
    }
}

impl Layer {
    fn new(
        mut scope: Scope,
        number: usize,
        local: &Local,
        config: &ModelConfig,
        [inputs, outputs]: [usize; 2],
    ) -> Layer {
        let mut scope = scope.at(number);
        match local {
            Local::Gcn => Layer::Gcn(Gcn::new(scope, inputs, outputs)),
            Local::Sage => Layer::Sage(Sage::new(scope, inputs, outputs)),
            Local::Gat => {
                // Predictions come from one head.
                let heads = if outputs.is_multiple_of(config.heads) { config.heads } else { 1 };
                let (width, dropout) = (outputs / heads, config.attention_dropout);
                Layer::Gat(Gat::new(scope.at("conv"), inputs, heads, width, dropout))
            }
            _ => Layer::Linear(Linear::new(scope.at("lin"), inputs, outputs)),
        }
    }

    /// The rows that are asked for.
    fn of_rows(&self, pass: &Pass, structure: &Structure, x: &States) -> Tensor<2> {
        match (self, x, pass.wanted()) {
            (Layer::Gcn(layer), States::Made(x), Some(rows)) => {
                layer.of_rows(pass, structure, x.clone(), rows)
            }
            (Layer::Linear(layer), States::Made(x), _) => {
                layer.of_many(pass, pass.chosen(x.clone()))
            }
            _ => pass.chosen(self.forward(pass, structure, x)),
        }
    }

    fn forward(&self, pass: &Pass, structure: &Structure, x: &States) -> Tensor<2> {
        match self {
            Layer::Gcn(layer) => layer.forward(pass, structure, x),
            Layer::Sage(layer) => layer.forward(pass, structure, x),
            Layer::Gat(layer) => layer.forward(pass, structure, x),
            Layer::Linear(layer) => x.through(pass, layer),
        }
    }
}

impl Between {
    fn new(
        scope: &mut Scope,
        name: &str,
        number: usize,
        config: &ModelConfig,
        width: usize,
    ) -> Self {
        let dropout = Dropout::new(scope, config.dropout);
        let mut scope = scope.at(format!("{name}_norms"));
        let scope = scope.at(number);
        let norm = match config.branch.norm {
            Norm::None => Normal::None,
            Norm::Batch => Normal::Batch(BatchNorm::new(scope, width)),
            Norm::Layer => Normal::Layer(LayerNorm::new(scope, width)),
        };
        Between { norm, dropout }
    }

    fn forward(&self, pass: &Pass, x: Tensor<2>) -> Tensor<2> {
        match &self.norm {
            Normal::None => self.dropout.forward(pass, activation::relu(x)),
            Normal::Batch(norm) => normalised(pass, x, norm, self.dropout),
            Normal::Layer(norm) => layer_normalised(pass, x, norm, true, self.dropout),
        }
    }
}
