//! GOAT with hierarchical distances: attention from every node to clusters, beside message passing (Kong et al. 2023 in the
//! form of Luo et al. 2024, their section on large graphs).
//!
//! ```text
//! z = W (drop relu BN (W x))
//! layer   c_k = mean of z over cluster k      q = W_q W_p z      k = W_k c      v = W_v c
//!         z = softmax(q·k/√w + bias[distance of clusters] + log |cluster|) v
//!         z = drop relu BN W₂ (drop relu BN W₁ z)                   no residual
//! local   x → message passing
//! out     W (z + local)       or the mean of both predictions, or W [z; local]
//! ```
//!
//! Distances to clusters are those of levels c to K; level 0 is not there. The paper's ablations are one key each: `bias =
//! "none"`, `clusters.projection = "codebook"` or `"linformer"`, `local = "none"`. With `local = { sampled = … }` the model is another one,
//! in a [file of its own](super::sampled_goat).

use burn::tensor::Tensor;

use super::batch::{Batch, Structure};
use super::bias::Bias;
use super::branch::{Branch, added};
use super::cluster_attention::{ClusterAttention, Input, InputNetwork, codebook_of};
use super::config::{GlobalInput, Local, Mix, ModelConfig, NodeInput};
use super::layers::{BatchNorm, Dropout, Linear};
use super::ops::dense::{normalised, normalised_linear, normalised_rows};
use super::parameters::Scope;
use super::pass::Pass;
use super::sampled_goat::SampledGoat;
use super::states::States;
use super::{Backbone, BackboneEntry};
use crate::{Error, Result};

pub(super) const ENTRY: BackboneEntry = BackboneEntry {
    name: "goat",
    summary: "GOAT: attention from nodes to clusters beside message passing, for one large graph",
    citation: "Kong et al. 2023; Luo et al. 2024",
    make: |scope, config| match config.local.sampled() {
        Some(sizes) => Ok(Box::new(SampledGoat::new(scope, config, sizes)?)),
        None => Ok(Box::new(Goat::new(scope, config)?)),
    },
};

/// The model.
#[derive(Clone, Debug)]
pub struct Goat {
    node: NodeInput,
    input: Option<InputNetwork>,
    bias: Option<Bias>,
    layers: Vec<Layer>,
    local: Option<Branch>,
    out: Linear,
    mix: Mix,
    weight: Option<f64>,
}

#[derive(Clone, Debug)]
struct Layer {
    attention: ClusterAttention,
    feed_forward: Option<[(Linear, BatchNorm, Dropout); 2]>,
}

impl Goat {
    /// A model with its parameters in `scope`.
    pub fn new(scope: &mut Scope, config: &ModelConfig) -> Result<Goat> {
        check(config)?;
        let ModelConfig { dim, outputs, dropout, .. } = *config;
        let inputs = width(config)?;
        let from_features = config.clusters.input == GlobalInput::Features;
        if from_features && config.layers > 1 {
            return Err(Error::config(
                "`clusters.input = \"features\"` is for one layer; take \"network\", or `layers = 1`",
            ));
        }
        let input = (!from_features).then(|| InputNetwork {
            first: Linear::new(scope.at("fc_in1"), inputs, dim),
            norm: BatchNorm::new(scope.at("norm_in"), dim),
            dropout: Dropout::new(scope, dropout),
            second: Linear::new(scope.at("fc_in2"), dim, dim),
        });
        let bias = ClusterAttention::shared_bias(scope, config)?;
        let from = if from_features { inputs } else { dim };
        let layers = (0..config.layers).map(|number| {
            let mut scope = scope.at("layers");
            let mut scope = scope.at(number);
            Ok(Layer {
                attention: ClusterAttention::new(&mut scope, config, bias.as_ref(), from)?,
                feed_forward: config.clusters.feed_forward.then(|| {
                    [("ff1", "norm1"), ("ff2", "norm2")].map(|(map, norm)| {
                        let map = Linear::new(scope.at(map), dim, dim);
                        (
                            map,
                            BatchNorm::new(scope.at(norm), dim),
                            Dropout::new(&mut scope, dropout),
                        )
                    })
                }),
            })
        });
        let layers = layers.collect::<Result<Vec<Layer>>>()?;
        let mix = config.branch.mix;
        let local = config.local != Local::None;
        let (local_width, out_width) = match mix {
            Mix::Sum => (dim, dim),
            Mix::Average => (outputs, dim),
            Mix::Concat => {
                let width = config.branch.dim.unwrap_or(dim);
                (width, if local { dim + width } else { dim })
            }
        };
        let local = local
            .then(|| Branch::new(scope, config, &config.local, [inputs, local_width]))
            .transpose()?;
        let out = Linear::new(scope.at("out"), out_width, outputs);
        let (node, weight) = (config.node.clone(), config.branch.weight);
        Ok(Goat { node, input, bias, layers, local, out, mix, weight })
    }
}

impl Backbone for Goat {
    fn forward(&self, pass: &Pass, batch: &Batch) -> Result<Tensor<2>> {
        let structure = &batch.structure()?;
        let features = States::of(batch, &self.node)?;
        let mut z = match &self.input {
            Some(network) => Input::Network(network, features.through(pass, &network.first)),
            None => Input::States(features.clone()),
        };
        let bias = self.bias.as_ref();
        let bias = bias.map(|bias| bias.of_codebook(pass, codebook_of(batch)?)).transpose()?;
        for (number, layer) in self.layers.iter().enumerate() {
            let is_last = number + 1 == self.layers.len();
            let made = layer.forward(pass, batch, number, z, bias.as_ref(), is_last)?;
            pass.record(|| format!("layers.{number}.h"), &made);
            z = Input::States(States::Made(made));
        }
        let z = z.ready(pass).tensor(pass);
        let prediction = self.mixed(pass, structure, z, &features);
        pass.record(|| "pred".into(), &prediction);
        Ok(prediction)
    }
}

impl Goat {
    /// Predictions of both branches.
    fn mixed(
        &self,
        pass: &Pass,
        structure: &Structure,
        z: Tensor<2>,
        features: &States,
    ) -> Tensor<2> {
        let Some(local) = &self.local else { return self.out.of_many(pass, z) };
        let local = local.forward(pass, structure, features);
        pass.record(|| "local.h".into(), &local);
        match self.mix {
            Mix::Sum => self.out.of_many(pass, added(z, local, self.weight)),
            Mix::Average => (self.out.of_many(pass, z) + local) * 0.5,
            Mix::Concat => self.out.of_many(pass, Tensor::cat(vec![z, local], 1)),
        }
    }
}

impl Layer {
    /// States after this layer; of the last, only those that are asked for.
    fn forward(
        &self,
        pass: &Pass,
        batch: &Batch,
        number: usize,
        z: Input,
        bias: Option<&Tensor<2>>,
        is_last: bool,
    ) -> Result<Tensor<2>> {
        let early = pass.wanted_early(is_last);
        let Some([(map1, norm1, drop1), (map2, norm2, drop2)]) = &self.feed_forward else {
            let attended =
                self.attention.forward(pass, batch, number, &z.ready(pass), bias, early)?;
            pass.record(|| format!("layers.{number}.attn"), &attended);
            return Ok(if is_last && early.is_none() { pass.chosen(attended) } else { attended });
        };
        let x = match self.attention.is_folded(pass, batch, &z, map1) {
            true => self.attention.folded(pass, batch, z, bias, map1, early)?,
            false => {
                let z = z.ready(pass);
                let attended = self.attention.forward(pass, batch, number, &z, bias, early)?;
                pass.record(|| format!("layers.{number}.attn"), &attended);
                map1.of_many(pass, attended)
            }
        };
        let (weight, shift) = map2.params(pass);
        let x = normalised_linear(pass, x, (norm1, *drop1), weight, shift);
        Ok(match is_last && early.is_none() {
            true => normalised_rows(pass, x, norm2, *drop2),
            false => normalised(pass, x, norm2, *drop2),
        })
    }
}

/// Checks what every model of nodes needs.
pub(super) fn check(config: &ModelConfig) -> Result<()> {
    config.check()?;
    use super::config::{EdgeInput, Encoding, Head, Pool};
    let name = &config.backbone;
    if config.pool != Pool::None || config.head != Head::Plain(1) {
        return Err(Error::config(format!(
            "{name} predicts of nodes by one linear map; write `pool = \"none\"` and `head = {{ plain = 1 }}`"
        )));
    }
    // Walks go with samples, which `ModelConfig::check` has seen to.
    let encoding = matches!(config.encoding, Encoding::None | Encoding::Node2Vec(_));
    if config.edge != EdgeInput::None || !encoding {
        return Err(Error::config(format!(
            "{name} reads neither `edge` nor `encoding`; leave them out"
        )));
    }
    Ok(())
}

/// Features of a node.
pub(super) fn width(config: &ModelConfig) -> Result<usize> {
    match config.node {
        NodeInput::Linear(width) => Ok(width),
        _ => Err(Error::config(format!(
            "{} reads real numbers; write `node = {{ linear = N }}`",
            config.backbone
        ))),
    }
}
