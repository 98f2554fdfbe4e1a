//! GraphGPS: message passing and attention side by side, in every layer (Rampášek et al. 2022), with the
//! distance bias in the attention.
//!
//! ```text
//! l = BN(x + drop(local(x, e)))        GatedGCN brings its own residual
//! a = BN(x + drop(attention(x; bias)))
//! y = l + a        x' = BN(y + drop(W₂ drop(relu(W₁ y))))
//! ```

use std::sync::Arc;

use burn::tensor::Tensor;

use super::attention::MultiHead;
use super::batch::{Batch, Structure};
use super::bias::Bias;
use super::config::{Encoding, Local, ModelConfig};
use super::encoder::{FeatureEncoder, PositionEncoder};
use super::fused::network::{self, Network};
use super::fused::{self, Extras};
use super::head::Predictor;
use super::layers::{BatchNorm, Dropout, FeedForward, Linear};
use super::message::{MessageLayer, check_arcs};
use super::parameters::Scope;
use super::pass::Pass;
use super::{Backbone, BackboneEntry, record_bias};
use crate::{Error, Result};

pub(super) const ENTRY: BackboneEntry = BackboneEntry {
    name: "gps",
    summary: "GraphGPS: message passing and attention side by side",
    citation: "Rampášek et al. 2022",
    make: |scope, config| Ok(Box::new(Gps::new(scope, config)?)),
};

/// The model.
#[derive(Clone, Debug)]
pub struct Gps {
    nodes: FeatureEncoder,
    arcs: Option<FeatureEncoder>,
    positions: PositionEncoder,
    /// Whether positions are columns of the node state, or go to the edge gate.
    in_state: bool,
    bias: Option<Bias>,
    layers: Vec<Layer>,
    head: Predictor,
    heads: usize,
    /// The layers as one operation, if they can be.
    network: Option<Arc<Network>>,
}

#[derive(Clone, Debug)]
struct Layer {
    local: Option<MessageLayer>,
    local_dropout: Dropout,
    local_norm: Option<BatchNorm>,
    attention: MultiHead,
    attention_dropout: Dropout,
    attention_norm: BatchNorm,
    feed_forward: FeedForward,
    feed_forward_norm: BatchNorm,
    bias: Option<Linear>,
}

impl Gps {
    /// A model with its parameters in `scope`.
    pub fn new(scope: &mut Scope, config: &ModelConfig) -> Result<Gps> {
        config.check()?;
        let gated = config.local == Local::GatedGcn;
        check_arcs(config)?;
        let edge_gate = matches!(config.encoding, Encoding::EsLapPe { .. });
        if edge_gate && !gated {
            return Err(Error::config(
                "`encoding.eslappe` feeds the edge gate of `local = \"gatedgcn\"` only",
            ));
        }
        if config.degree_scale.is_some() {
            return Err(Error::config("`degree_scale` is for the backbones gt and sat"));
        }
        let mut encoder = scope.at("encoder");
        let (positions, taken) =
            PositionEncoder::columns(&mut encoder, &config.encoding, config.dim)?;
        let nodes = FeatureEncoder::nodes(&mut encoder, &config.node, config.dim - taken, true);
        let arcs = FeatureEncoder::arcs(&mut encoder, &config.edge, config.dim);
        let bias = Bias::new(scope, config)?;
        let layers: Vec<Layer> = (0..config.layers)
            .map(|number| {
                let alike = if config.identical_layers { 0 } else { number };
                let mut scope = scope.at("layers");
                Layer::new(scope.like(number, alike), config, bias.as_ref())
            })
            .collect();
        let head = Predictor::new(scope, config);
        let (in_state, heads) = (!edge_gate, config.heads);
        let described: Option<Vec<network::Layer>> = layers.iter().map(Layer::describe).collect();
        let network = described.map(|layers| {
            Arc::new(Network {
                dim: config.dim,
                heads,
                hidden: config.feed_forward * config.dim,
                bias_width: bias.as_ref().map_or(0, |bias| bias.width),
                degree_scale: false,
                layers,
            })
        });
        Ok(Gps { nodes, arcs, positions, in_state, bias, layers, head, heads, network })
    }
}

impl Backbone for Gps {
    fn is_fused(&self) -> bool {
        self.network.is_some()
    }

    fn forward(&self, pass: &Pass, batch: &Batch) -> Result<Tensor<2>> {
        let structure = &batch.structure()?;
        pass.check_pairs(structure.pairs.len(), self.heads, self.layers.len())?;
        let features = batch.node_features.as_ref();
        let mut x = self.nodes.forward(pass, features, batch.num_nodes(), "node features")?;
        let mut positions = self.positions.forward(pass, batch, structure)?;
        if self.in_state
            && let Some(columns) = positions.take()
        {
            x = Tensor::cat(vec![x, columns], 1);
        }
        let features = batch.edge_features.as_ref();
        let arcs = self.arcs.as_ref();
        let e = arcs.map(|arcs| arcs.forward(pass, features, batch.num_arcs(), "edge features"));
        let mut e = e.transpose()?;
        pass.record(|| "encoder.h".into(), &x);
        if let Some(e) = &e {
            pass.record(|| "encoder.e".into(), e);
        }
        let bias = self.bias.as_ref().map(|bias| bias.forward(pass, batch)).transpose()?;
        if let Some(network) = &self.network {
            let (arcs, bias, positions) = (e.as_ref(), bias.as_ref(), positions.as_ref());
            let extras = Extras { arcs, bias, positions };
            if let Some(x) = fused::run(pass, structure, network, &x, extras) {
                return Ok(self.head.forward(pass, structure, x));
            }
        }
        for (number, layer) in self.layers.iter().enumerate() {
            (x, e) =
                layer.forward(pass, structure, number, x, e, positions.as_ref(), bias.as_ref());
            pass.record(|| format!("layers.{number}.h"), &x);
            if let Some(e) = &e {
                pass.record(|| format!("layers.{number}.e"), e);
            }
        }
        Ok(self.head.forward(pass, structure, x))
    }
}

impl Layer {
    fn new(mut scope: Scope, config: &ModelConfig, bias: Option<&Bias>) -> Layer {
        let (dim, heads, dropout) = (config.dim, config.heads, config.dropout);
        let local = MessageLayer::new(scope.at("local"), config, dim);
        let local_norm = local.is_some().then(|| BatchNorm::new(scope.at("norm_local"), dim));
        Layer {
            local,
            local_dropout: Dropout::new(&mut scope, dropout),
            local_norm,
            attention: MultiHead::new(scope.at("attn"), dim, heads, config.attention_dropout),
            attention_dropout: Dropout::new(&mut scope, dropout),
            attention_norm: BatchNorm::new(scope.at("norm_attn"), dim),
            feed_forward: FeedForward::new(&mut scope, dim, config.feed_forward * dim, dropout),
            feed_forward_norm: BatchNorm::new(scope.at("norm_ff"), dim),
            bias: bias.map(|bias| bias.layer(&mut scope, heads)),
        }
    }

    /// The layer for the fused path, if that knows its message passing.
    fn describe(&self) -> Option<network::Layer> {
        let part = |number: usize| (self.attention.weight, number, Some(self.attention.bias));
        let norm = || self.local_norm.clone().expect("message passing has a BatchNorm");
        let local = match &self.local {
            None => network::Local::None,
            Some(MessageLayer::Gine(gine)) => network::Local::Gine {
                maps: [gine.first.clone(), gine.second.clone()],
                dropout: self.local_dropout,
                norm: norm(),
            },
            Some(MessageLayer::GatedGcn(gated)) => network::Local::GatedGcn {
                nodes: [&gated.own, &gated.value, &gated.target, &gated.source].map(Clone::clone),
                arcs: gated.edge.clone(),
                gate: gated.gate.clone().map(|(first, second)| [first, second]),
                node_norm: gated.node_norm.clone(),
                edge_norm: gated.edge_norm.clone(),
                node_dropout: gated.node_dropout,
                edge_dropout: gated.edge_dropout,
                norm: norm(),
            },
            Some(_) => return None,
        };
        Some(network::Layer {
            packed: [0, 1, 2].map(part),
            output: self.attention.output.clone(),
            weight_dropout: self.attention.dropout,
            attention_dropout: self.attention_dropout,
            attention_norm: self.attention_norm.clone(),
            local,
            feed_forward: [self.feed_forward.first.clone(), self.feed_forward.second.clone()],
            feed_forward_dropout: [self.feed_forward.inner, self.feed_forward.outer],
            feed_forward_norm: self.feed_forward_norm.clone(),
            bias: self.bias.clone(),
        })
    }

    #[expect(clippy::too_many_arguments, reason = "all of it is the state of a layer")]
    fn forward(
        &self,
        pass: &Pass,
        structure: &Structure,
        number: usize,
        x: Tensor<2>,
        e: Option<Tensor<2>>,
        positions: Option<&Tensor<2>>,
        bias: Option<&Tensor<2>>,
    ) -> (Tensor<2>, Option<Tensor<2>>) {
        let table = self.bias.as_ref().zip(bias).map(|(map, bias)| map.forward(pass, bias.clone()));
        if let Some(table) = &table {
            record_bias(pass, structure, number, table);
        }
        let name = || format!("layers.{number}.attention");
        let attended = self.attention.forward(pass, structure, x.clone(), table, name);
        let attended = x.clone() + self.attention_dropout.forward(pass, attended);
        let attended = self.attention_norm.forward(pass, attended);
        let (y, e) = match (&self.local, &self.local_norm) {
            (Some(local), Some(norm)) => {
                let (received, e) = local.forward(pass, structure, x.clone(), e, positions);
                let received = match local {
                    MessageLayer::GatedGcn(_) => received,
                    _ => x + self.local_dropout.forward(pass, received),
                };
                (norm.forward(pass, received) + attended, e)
            }
            _ => (attended, e),
        };
        let y = y.clone() + self.feed_forward.forward(pass, y);
        (self.feed_forward_norm.forward(pass, y), e)
    }
}
