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
//! Attention is inside each graph, so it serves sets of many graphs, too: nodes are then encoded and predictions made as those
//! of the other backbones are. It has no weights between pairs that a bias could be added to.
//!
//! With `clusters.projection` it attends to clusters instead, with the distance bias if they come from coarsening; the
//! released HDSE code for ogbn-papers100M is that with a codebook. With `branch.initial` the local branch is that of
//! SGFormer for large graphs: every layer reads what a linear map made of the features, x₀, beside what it has
//! received, and adds it,
//!
//! ```text
//! x₀ = drop relu BN (W x)      x ← drop relu BN (W [Â x; x₀]) + x₀
//! ```

use burn::tensor::Tensor;

use super::batch::{Batch, Structure};
use super::bias::Bias;
use super::branch::{Branch, added};
use super::cluster_attention::{ClusterAttention, codebook_of};
use super::config::{
    BiasKind, EdgeInput, Encoding, Head, Local, Mix, ModelConfig, NodeInput, Pool,
};
use super::encoder::{FeatureEncoder, PositionEncoder};
use super::goat;
use super::head::Predictor;
use super::layers::{BatchNorm, Dropout, LayerNorm, Linear};
use super::ops::dense::normalised;
use super::ops::layer_norm::layer_normalised;
use super::ops::linear_attention::linear_attention;
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
    ends: Ends,
    input: (Linear, LayerNorm, Dropout),
    bias: Option<Bias>,
    layers: Vec<Layer>,
    local: LocalBranch,
    weight: Option<f64>,
}

/// What it reads, and how it predicts.
#[derive(Clone, Debug)]
enum Ends {
    /// Features of one large graph; one linear map.
    Large { input: NodeInput, out: Linear },
    /// Many graphs.
    Many { nodes: FeatureEncoder, positions: PositionEncoder, head: Predictor },
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
        let inputs = if is_of_many(config) { dim } else { goat::width(config)? };
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
        let ends = Ends::new(scope, config)?;
        Ok(SgFormer { ends, input, bias, layers, local, weight: config.branch.weight })
    }
}

impl Backbone for SgFormer {
    fn forward(&self, pass: &Pass, batch: &Batch) -> Result<Tensor<2>> {
        let structure = &batch.structure()?;
        let features = self.ends.states(pass, batch, structure)?;
        let (map, norm, dropout) = &self.input;
        let mut z = layer_normalised(pass, features.through(pass, map), norm, true, *dropout);
        let bias = self.bias.as_ref();
        let bias = bias.map(|bias| bias.of_codebook(pass, codebook_of(batch)?)).transpose()?;
        for (number, layer) in self.layers.iter().enumerate() {
            let attended = match &layer.attention {
                Attention::Nodes { query, key, value, heads } => {
                    let [query, key, value] =
                        [query, key, value].map(|map| map.of_many(pass, z.clone()));
                    linear_attention(pass, structure, *heads, [query, key, value])
                }
                Attention::Clusters(attention) => {
                    let states = States::Made(z.clone());
                    attention.forward(pass, batch, number, &states, bias.as_ref(), None)?
                }
            };
            z = layer_normalised(pass, (attended + z) * 0.5, &layer.norm, false, layer.dropout);
            pass.record(|| format!("layers.{number}.h"), &z);
        }
        let z = pass.chosen(z);
        let local = self.local.forward(pass, structure, &features);
        let z = match local {
            Some(local) => added(z, local, self.weight),
            None => z,
        };
        Ok(match &self.ends {
            Ends::Large { out, .. } => out.of_many(pass, z),
            Ends::Many { head, .. } => head.forward(pass, structure, z),
        })
    }
}

/// Whether it is for sets of many graphs: whatever a model of one large graph does not have.
fn is_of_many(config: &ModelConfig) -> bool {
    let reads_features = matches!(config.node, NodeInput::Linear(_));
    let predicts_of_nodes = config.pool == Pool::None && config.head == Head::Plain(1);
    !reads_features || !predicts_of_nodes || config.encoding != Encoding::None
}

fn check(config: &ModelConfig) -> Result<()> {
    if !is_of_many(config) {
        return goat::check(config);
    }
    config.check()?;
    let wrong = [
        (config.edge != EdgeInput::None, "reads no `edge`; leave it out"),
        (
            matches!(config.encoding, Encoding::EsLapPe { .. }),
            "has no edge gate for `encoding.eslappe`; take `lappe`",
        ),
        (
            config.clusters.projection.is_some(),
            "attends to clusters in one large graph only; leave out `clusters`",
        ),
        (
            config.bias != BiasKind::None,
            "has no weights between pairs of nodes; write `bias = \"none\"`",
        ),
    ];
    match wrong.iter().find(|(is_wrong, _)| *is_wrong) {
        Some((_, what)) => Err(Error::config(format!("sgformer {what}"))),
        None => Ok(()),
    }
}

impl Ends {
    fn new(scope: &mut Scope, config: &ModelConfig) -> Result<Ends> {
        if !is_of_many(config) {
            let out = Linear::new(scope.at("out"), config.dim, config.outputs);
            return Ok(Ends::Large { input: config.node.clone(), out });
        }
        let mut encoder = scope.at("encoder");
        let (positions, taken) =
            PositionEncoder::columns(&mut encoder, &config.encoding, config.dim)?;
        let nodes = FeatureEncoder::nodes(&mut encoder, &config.node, config.dim - taken, true);
        Ok(Ends::Many { nodes, positions, head: Predictor::new(scope, config) })
    }

    fn states(&self, pass: &Pass, batch: &Batch, structure: &Structure) -> Result<States> {
        let (nodes, positions) = match self {
            Ends::Large { input, .. } => return States::of(batch, input),
            Ends::Many { nodes, positions, .. } => (nodes, positions),
        };
        let features = batch.node_features.as_ref();
        let x = nodes.forward(pass, features, batch.num_nodes(), "node features")?;
        Ok(States::Made(match positions.forward(pass, batch, structure)? {
            Some(columns) => Tensor::cat(vec![x, columns], 1),
            None => x,
        }))
    }
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
