//! GT: a plain graph transformer (Dwivedi & Bresson 2021, in the form of Chen, O'Bray & Borgwardt 2022 without their
//! structure extractor), with the distance bias in the attention.
//!
//! ```text
//! o = W_o softmax(q·k/√w + bias) v / √(1 + degree)
//! x = BN(x + drop(o))        x' = BN(x + drop(W₂ drop(relu(W₁ x))))
//! ```
//!
//! It reads no arcs but for the degree; structure comes from the encoding and the bias.

use std::sync::Arc;

use burn::tensor::Tensor;

use super::attention::attend;
use super::batch::{Batch, Structure};
use super::bias::Bias;
use super::config::{EdgeInput, Local, ModelConfig};
use super::encoder::{FeatureEncoder, PositionEncoder};
use super::fused::network::{self, Network};
use super::fused::{self, Extras};
use super::head::Predictor;
use super::layers::{BatchNorm, Dropout, FeedForward, Linear};
use super::ops::attention::Inputs;
use super::parameters::{Init, Scope};
use super::pass::{Pass, matrix};
use super::{Backbone, BackboneEntry, record_bias};
use crate::{Error, Result};

pub(super) const ENTRY: BackboneEntry = BackboneEntry {
    name: "gt",
    summary: "GT: attention only",
    citation: "Dwivedi & Bresson 2021; Chen, O'Bray & Borgwardt 2022",
    make: |scope, config| Ok(Box::new(Gt::new(scope, config)?)),
};

/// The model.
#[derive(Clone, Debug)]
pub struct Gt {
    nodes: FeatureEncoder,
    positions: PositionEncoder,
    bias: Option<Bias>,
    layers: Vec<Layer>,
    head: Predictor,
    heads: usize,
    degree_scale: bool,
    /// The layers as one operation.
    network: Arc<Network>,
}

/// A layer, of GT or of SAT.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    /// Key, then query.
    key_query: Linear,
    value: Linear,
    output: Linear,
    weight_dropout: Dropout,
    attention_dropout: Dropout,
    attention_norm: BatchNorm,
    feed_forward: FeedForward,
    feed_forward_norm: BatchNorm,
    bias: Option<Linear>,
    heads: usize,
}

impl Gt {
    /// A model with its parameters in `scope`.
    pub fn new(scope: &mut Scope, config: &ModelConfig) -> Result<Gt> {
        config.check()?;
        if config.edge != EdgeInput::None || config.local != Local::None {
            return Err(Error::config(
                "the backbone gt reads no arcs; leave out `edge` and `local`",
            ));
        }
        let nodes = FeatureEncoder::nodes(scope, &config.node, config.dim, false);
        let positions = PositionEncoder::added(scope, &config.encoding, config.dim)?;
        let bias = Bias::new(scope, config)?;
        let layers: Vec<Layer> = (0..config.layers)
            .map(|number| {
                let alike = if config.identical_layers { 0 } else { number };
                let mut scope = scope.at("layers");
                Layer::new(scope.like(number, alike), config, bias.as_ref())
            })
            .collect();
        let head = Predictor::new(scope, config);
        let degree_scale = config.degree_scale.unwrap_or(true);
        let heads = config.heads;
        let network = Arc::new(Network {
            dim: config.dim,
            heads,
            hidden: config.feed_forward * config.dim,
            bias_width: bias.as_ref().map_or(0, |bias| bias.width),
            degree_scale,
            layers: layers.iter().map(Layer::describe).collect(),
        });
        Ok(Gt { nodes, positions, bias, layers, head, heads, degree_scale, network })
    }
}

impl Backbone for Gt {
    fn is_fused(&self) -> bool {
        true
    }

    fn forward(&self, pass: &Pass, batch: &Batch) -> Result<Tensor<2>> {
        let structure = &batch.structure()?;
        pass.check_pairs(structure.pairs.len(), self.heads, self.layers.len())?;
        let features = batch.node_features.as_ref();
        let mut x = self.nodes.forward(pass, features, batch.num_nodes(), "node features")?;
        if let Some(positions) = self.positions.forward(pass, batch, structure)? {
            x = x + positions;
        }
        pass.record(|| "encoder.h".into(), &x);
        let bias = self.bias.as_ref().map(|bias| bias.forward(pass, batch)).transpose()?;
        let extras = Extras { bias: bias.as_ref(), ..Extras::default() };
        if let Some(x) = fused::run(pass, structure, &self.network, &x, extras) {
            return Ok(self.head.forward(pass, structure, x));
        }
        let scale = self.degree_scale.then(|| degree_scale(pass, structure));
        for (number, layer) in self.layers.iter().enumerate() {
            let (bias, scale) = (bias.as_ref(), scale.as_ref());
            x = layer.forward(pass, structure, number, x.clone(), x, bias, scale);
            pass.record(|| format!("layers.{number}.h"), &x);
        }
        Ok(self.head.forward(pass, structure, x))
    }
}

/// 1 / √(1 + degree) of every node.
pub(super) fn degree_scale(pass: &Pass, structure: &Structure) -> Tensor<2> {
    let degrees = structure.by_source.sizes();
    let scale = degrees.map(|degree| 1.0 / (1.0 + degree as f32).sqrt()).collect();
    matrix(scale, [structure.by_source.len(), 1], pass.device())
}

impl Layer {
    pub(super) fn new(mut scope: Scope, config: &ModelConfig, bias: Option<&Bias>) -> Layer {
        let (dim, heads, dropout) = (config.dim, config.heads, config.dropout);
        let mut map = |name, outputs| {
            let init = Init::xavier_uniform(dim, outputs);
            Linear::unbiased(scope.at(name), dim, outputs, init)
        };
        let (key_query, value) = (map("to_qk", 2 * dim), map("to_v", dim));
        Layer {
            key_query,
            value,
            output: Linear::new(scope.at("out_proj"), dim, dim),
            weight_dropout: Dropout::new(&mut scope, config.attention_dropout),
            attention_dropout: Dropout::new(&mut scope, dropout),
            attention_norm: BatchNorm::new(scope.at("norm1"), dim),
            feed_forward: FeedForward::new(&mut scope, dim, config.feed_forward * dim, dropout),
            feed_forward_norm: BatchNorm::new(scope.at("norm2"), dim),
            bias: bias.map(|bias| bias.layer(&mut scope, heads)),
            heads,
        }
    }

    /// The layer for the fused path.
    fn describe(&self) -> network::Layer {
        network::Layer {
            packed: [
                (self.key_query.weight, 1, None),
                (self.key_query.weight, 0, None),
                (self.value.weight, 0, None),
            ],
            output: self.output.clone(),
            weight_dropout: self.weight_dropout,
            attention_dropout: self.attention_dropout,
            attention_norm: self.attention_norm.clone(),
            local: network::Local::None,
            feed_forward: [self.feed_forward.first.clone(), self.feed_forward.second.clone()],
            feed_forward_dropout: [self.feed_forward.inner, self.feed_forward.outer],
            feed_forward_norm: self.feed_forward_norm.clone(),
            bias: self.bias.clone(),
        }
    }

    /// New states; queries and keys are of `compared`.
    #[expect(clippy::too_many_arguments, reason = "what a layer reads")]
    pub(super) fn forward(
        &self,
        pass: &Pass,
        structure: &Structure,
        number: usize,
        x: Tensor<2>,
        compared: Tensor<2>,
        bias: Option<&Tensor<2>>,
        scale: Option<&Tensor<2>>,
    ) -> Tensor<2> {
        let table = self.bias.as_ref().zip(bias).map(|(map, bias)| map.forward(pass, bias.clone()));
        if let Some(table) = &table {
            record_bias(pass, structure, number, table);
        }
        let width = x.dims()[1];
        let key_query = self.key_query.of_many(pass, compared);
        let inputs = Inputs {
            key: key_query.clone().narrow(1, 0, width),
            query: key_query.narrow(1, width, width),
            value: self.value.of_many(pass, x.clone()),
        };
        let name = || format!("layers.{number}.attention");
        let pairs = &structure.pairs;
        let mixed = attend(pass, pairs, self.heads, inputs, table, self.weight_dropout, name);
        let mut attended = self.output.of_many(pass, mixed);
        if let Some(scale) = scale {
            attended = attended * scale.clone();
        }
        let x = x + self.attention_dropout.forward(pass, attended);
        let x = self.attention_norm.forward(pass, x);
        let y = x.clone() + self.feed_forward.forward(pass, x);
        self.feed_forward_norm.forward(pass, y)
    }
}
