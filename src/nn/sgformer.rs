//! SGFormer: one layer of attention between all nodes in linear time, beside graph convolution (Wu et al. 2023).
//!
//! ```text
//! z₀ = drop relu LN (W x)
//! layer   q, k divided by their length as wholes
//!         a = (V + q (kᵀ V) / n) / (1 + q (kᵀ 1) / n)       heads averaged
//!         z = drop LN ((a + z) / 2)
//! out     W (w · local + (1 − w) · z)
//! ```
//!
//! With `clusters.projection` it attends to clusters instead, with the distance bias if they come from coarsening; the
//! released HDSE code for ogbn-papers100M is that with a codebook. With `branch.initial` the local branch is that of
//! SGFormer for large graphs: every layer reads what a linear map made of the features, x₀, beside what it has
//! received, and adds it,
//!
//! ```text
//! x₀ = drop relu BN (W x)      x ← drop relu BN (W [Â x; x₀]) + x₀
//! ```

use burn::tensor::{Tensor, activation};

use super::batch::{Batch, Structure};
use super::bias::Bias;
use super::branch::{Branch, added};
use super::cluster_attention::{ClusterAttention, codebook_of};
use super::config::{Local, Mix, ModelConfig, NodeInput};
use super::goat::{check, width};
use super::layers::{BatchNorm, Dropout, LayerNorm, Linear};
use super::ops::dense::normalised;
use super::ops::propagate::propagate;
use super::parameters::Scope;
use super::pass::Pass;
use super::states::States;
use super::{Backbone, BackboneEntry};
use crate::{Error, Result};

pub(super) const ENTRY: BackboneEntry = BackboneEntry {
    name: "sgformer",
    summary: "SGFormer: attention between all nodes in linear time beside graph convolution",
    citation: "Wu et al. 2023",
    make: |scope, config| Ok(Box::new(SgFormer::new(scope, config)?)),
};

/// The model.
#[derive(Clone, Debug)]
pub struct SgFormer {
    node: NodeInput,
    input: (Linear, LayerNorm, Dropout),
    bias: Option<Bias>,
    layers: Vec<Layer>,
    local: LocalBranch,
    out: Linear,
    weight: Option<f64>,
}

#[derive(Clone, Debug)]
struct Layer {
    attention: Attention,
    norm: LayerNorm,
    dropout: Dropout,
}

#[derive(Clone, Debug)]
enum Attention {
    Nodes { query: Linear, key: Linear, value: Linear, heads: usize },
    Clusters(ClusterAttention),
}

#[derive(Clone, Debug)]
enum LocalBranch {
    None,
    Layers(Branch),
    Initial { first: (Linear, BatchNorm, Dropout), layers: Vec<(Linear, BatchNorm, Dropout)> },
}

impl SgFormer {
    /// A model with its parameters in `scope`.
    pub fn new(scope: &mut Scope, config: &ModelConfig) -> Result<SgFormer> {
        check(config)?;
        if config.branch.mix != Mix::Sum {
            return Err(Error::config("sgformer adds its branches; leave out `branch.mix`"));
        }
        let ModelConfig { dim, heads, dropout, .. } = *config;
        let inputs = width(config)?;
        let first = Linear::new(scope.at("fc_in"), inputs, dim);
        let norm = LayerNorm::new(scope.at("norm_in"), dim);
        let input = (first, norm, Dropout::new(scope, dropout));
        let to_clusters = config.clusters.projection.is_some();
        let bias = match to_clusters {
            true => ClusterAttention::shared_bias(scope, config)?,
            false => None,
        };
        let layer = |number: usize| {
            let mut scope = scope.at("layers");
            let mut scope = scope.at(number);
            let attention = match to_clusters {
                true => {
                    let attention = ClusterAttention::new(&mut scope, config, bias.as_ref(), dim)?;
                    Attention::Clusters(attention)
                }
                false => {
                    let mut map = |name| Linear::new(scope.at(name), dim, heads * dim);
                    let (query, key, value) = (map("q"), map("k"), map("v"));
                    Attention::Nodes { query, key, value, heads }
                }
            };
            let norm = LayerNorm::new(scope.at("norm"), dim);
            Ok(Layer { attention, norm, dropout: Dropout::new(&mut scope, dropout) })
        };
        let layers = (0..config.layers).map(layer).collect::<Result<_>>()?;
        let local = match (&config.local, config.branch.initial) {
            (Local::None, _) => LocalBranch::None,
            (local, false) => {
                LocalBranch::Layers(Branch::new(scope, config, local, [inputs, dim])?)
            }
            (Local::Gcn, true) => LocalBranch::initial(scope, config, inputs),
            (_, true) => {
                return Err(Error::config(
                    "`branch.initial` is for `local = \"gcn\"`; leave it out",
                ));
            }
        };
        let out = Linear::new(scope.at("out"), dim, config.outputs);
        let weight = config.branch.weight;
        Ok(SgFormer { node: config.node.clone(), input, bias, layers, local, out, weight })
    }
}

impl Backbone for SgFormer {
    fn forward(&self, pass: &Pass, batch: &Batch) -> Result<Tensor<2>> {
        let structure = &batch.structure()?;
        let features = States::of(batch, &self.node)?;
        let (map, norm, dropout) = &self.input;
        let x = norm.forward(pass, features.through(pass, map));
        let mut z = dropout.forward(pass, activation::relu(x));
        let bias = self.bias.as_ref();
        let bias = bias.map(|bias| bias.of_codebook(pass, codebook_of(batch)?)).transpose()?;
        for (number, layer) in self.layers.iter().enumerate() {
            let attended = match &layer.attention {
                Attention::Nodes { query, key, value, heads } => {
                    let [query, key, value] =
                        [query, key, value].map(|map| map.of_many(pass, z.clone()));
                    between_all(query, key, value, *heads)
                }
                Attention::Clusters(attention) => {
                    let states = States::Made(z.clone());
                    attention.forward(pass, batch, number, &states, bias.as_ref())?
                }
            };
            z = layer.dropout.forward(pass, layer.norm.forward(pass, (attended + z) * 0.5));
            pass.record(|| format!("layers.{number}.h"), &z);
        }
        let z = pass.chosen(z);
        let local = self.local.forward(pass, structure, &features);
        let z = match local {
            Some(local) => added(z, local, self.weight),
            None => z,
        };
        Ok(self.out.of_many(pass, z))
    }
}

/// Attention between all nodes, heads averaged: `[nodes, heads × width]` → `[nodes, width]`.
fn between_all(query: Tensor<2>, key: Tensor<2>, value: Tensor<2>, heads: usize) -> Tensor<2> {
    let [nodes, width] = query.dims();
    let width = width / heads;
    let length = |x: &Tensor<2>| x.clone().square().sum().sqrt().unsqueeze::<2>();
    let (query, key) = (query.clone() / length(&query), key.clone() / length(&key));
    let head = |head: usize| {
        let part = |x: &Tensor<2>| x.clone().narrow(1, head * width, width);
        let (query, key, value) = (part(&query), part(&key), part(&value));
        let mixed = query.clone().matmul(key.clone().transpose().matmul(value.clone()));
        let sums = query.matmul(key.sum_dim(0).transpose()); // [nodes, 1]
        (mixed + value * nodes as f32) / (sums + nodes as f32)
    };
    let sum = (0..heads).map(head).reduce(|a, b| a + b).expect("there is a head");
    sum / heads as f32
}

impl LocalBranch {
    fn initial(scope: &mut Scope, config: &ModelConfig, inputs: usize) -> LocalBranch {
        let ModelConfig { dim, dropout, .. } = *config;
        let mut scope = scope.at("gcn");
        let mut layer = |name: String, inputs: usize| {
            let mut scope = scope.at(name);
            let map = Linear::new(scope.at("lin"), inputs, dim);
            (map, BatchNorm::new(scope.at("norm"), dim), Dropout::new(&mut scope, dropout))
        };
        let first = layer("stem".into(), inputs);
        let numbers = 0..config.branch.layers;
        LocalBranch::Initial {
            first,
            layers: numbers.map(|n| layer(n.to_string(), 2 * dim)).collect(),
        }
    }

    fn forward(&self, pass: &Pass, structure: &Structure, features: &States) -> Option<Tensor<2>> {
        match self {
            LocalBranch::None => None,
            LocalBranch::Layers(branch) => Some(branch.forward(pass, structure, features)),
            LocalBranch::Initial { first: (map, norm, dropout), layers } => {
                let start = normalised(pass, features.through(pass, map), norm, *dropout);
                let mut x = start.clone();
                for (map, norm, dropout) in layers {
                    let received = propagate(pass, structure.convolution(), x);
                    let both = Tensor::cat(vec![received, start.clone()], 1);
                    x = normalised(pass, map.of_many(pass, both), norm, *dropout) + start.clone();
                }
                Some(pass.chosen(x))
            }
        }
    }
}
