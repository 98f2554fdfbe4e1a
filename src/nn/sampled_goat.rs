//! GOAT as it was, with clusters of the graph: attention over sampled neighbours beside attention to moving averages (Kong et al. 2023;
//! the released code of Luo et al. 2024 for arxiv-year).
//!
//! ```text
//! z      = W (drop relu BN (W x))                                of targets and of all nodes sampled for them
//! local  = attention over sampled neighbours                     heads × dim numbers per target
//! u      = [W_p z; node2vec]                                     of targets
//! global = softmax(W_q u · W_k e_k / √dim + log |cluster k| + bias[distance of clusters]) W_v e_k'      heads × dim numbers
//! out    = W drop relu BN W₂ drop relu BN W₁ [local; global]
//! ```
//!
//! e_k is a moving average of u over the nodes of cluster k in the batches so far (`codebook.rs`), e_k' its first dim numbers. A batch has
//! few nodes of a cluster, or none, so means over batches would not do. Cluster sizes are those of the whole graph: in the released code
//! nodes that are never trained on count for clusters drawn at random.

use std::sync::Arc;

use burn::tensor::Tensor;

use super::Backbone;
use super::batch::Batch;
use super::bias::Bias;
use super::cluster_attention::{ClusterAttention, Input, InputNetwork, LayerBias, codebook_of};
use super::clusters::Clusters;
use super::codebook::Codebook;
use super::config::{BranchConfig, ClusterConfig, ModelConfig, NodeInput, Projection};
use super::goat::{check, width};
use super::layers::{BatchNorm, Dropout, Linear};
use super::ops::clusters::{ClusterInputs, attend, prior_of};
use super::ops::dense::{normalised_linear, normalised_rows};
use super::parameters::Scope;
use super::pass::{Pass, matrix};
use super::sampled_attention::SampledAttention;
use super::samples::Samples;
use super::states::States;
use crate::{Error, Result};

/// The model.
#[derive(Clone, Debug)]
pub struct SampledGoat {
    node: NodeInput,
    input: InputNetwork,
    bias: Option<Bias>,
    local: SampledAttention,
    global: Global,
    feed_forward: [(Linear, BatchNorm, Dropout); 2],
    out: Linear,
    hops: usize,
}

impl SampledGoat {
    /// A model with its parameters in `scope`, for neighbourhoods of these sizes.
    pub fn new(scope: &mut Scope, config: &ModelConfig, sizes: &[usize]) -> Result<SampledGoat> {
        check(config)?;
        check_keys(config)?;
        let ModelConfig { dim, heads, outputs, dropout, attention_dropout, .. } = *config;
        let input = InputNetwork {
            first: Linear::new(scope.at("fc_in1"), width(config)?, dim),
            norm: BatchNorm::new(scope.at("norm_in"), dim),
            dropout: Dropout::new(scope, dropout),
            second: Linear::new(scope.at("fc_in2"), dim, dim),
        };
        let bias = ClusterAttention::shared_bias(scope, config)?;
        let hops = sizes.len();
        let local = SampledAttention::new(scope.at("local"), [dim, heads, hops], attention_dropout);
        let mut layers = scope.at("layers");
        let mut layer = layers.at(0);
        let global = Global::new(&mut layer, config, bias.as_ref())?;
        let widths = [("1", 2 * heads * dim, heads * dim), ("2", heads * dim, dim)];
        let feed_forward = widths.map(|(number, from, to)| {
            let map = Linear::new(layer.at(format!("ff{number}")), from, to);
            let norm = BatchNorm::new(layer.at(format!("norm{number}")), to);
            (map, norm, Dropout::new(&mut layer, dropout))
        });
        let out = Linear::new(scope.at("out"), dim, outputs);
        let node = config.node.clone();
        Ok(SampledGoat { node, input, bias, local, global, feed_forward, out, hops })
    }

    /// The samples of a batch.
    fn samples<'b>(&self, batch: &'b Batch) -> Result<&'b Arc<Samples>> {
        let samples = batch.samples.as_ref().ok_or_else(|| {
            Error::data("the model attends to sampled neighbours, but the batch has none")
        })?;
        match samples.hops() == self.hops {
            true => Ok(samples),
            false => Err(Error::data(format!(
                "neighbours are sampled up to {} hops away, but the model reads {}; sample as `local.sampled` says",
                samples.hops(),
                self.hops
            ))),
        }
    }
}

impl Backbone for SampledGoat {
    fn forward(&self, pass: &Pass, batch: &Batch) -> Result<Tensor<2>> {
        batch.structure()?;
        let samples = self.samples(batch)?;
        let features = States::of(batch, &self.node)?;
        let first = features.through(pass, &self.input.first);
        let z = Input::Network(&self.input, first).ready(pass).tensor(pass);
        let bias = self.bias.as_ref();
        let bias = bias.map(|bias| bias.of_codebook(pass, codebook_of(batch)?)).transpose()?;
        let own = z.clone().narrow(0, 0, samples.targets());
        let global = self.global.forward(pass, batch, own, bias.as_ref())?;
        let local = self.local.forward(pass, samples, &z);
        pass.record(|| "local.h".into(), &local);
        pass.record(|| "layers.0.attn".into(), &global);
        let [(map1, norm1, drop1), (map2, norm2, drop2)] = &self.feed_forward;
        let x = map1.of_many(pass, Tensor::cat(vec![local, global], 1));
        let (weight, shift) = map2.params(pass);
        let x = normalised_linear(pass, x, (norm1, *drop1), weight, shift);
        let x = normalised_rows(pass, x, norm2, *drop2);
        pass.record(|| "layers.0.h".into(), &x);
        let prediction = self.out.of_many(pass, x);
        pass.record(|| "pred".into(), &prediction);
        Ok(prediction)
    }
}

/// Attention to moving averages of clusters: `proj`, `q`, `k`, `v`, `codebook`, and the bias.
#[derive(Clone, Debug)]
struct Global {
    proj: Linear,
    query: Linear,
    key: Linear,
    value: Linear,
    bias: LayerBias,
    codes: Codebook,
    dropout: Dropout,
    heads: usize,
    dim: usize,
    /// Numbers per node that node2vec gives.
    position: usize,
    size_prior: bool,
}

impl Global {
    fn new(scope: &mut Scope, config: &ModelConfig, shared: Option<&Bias>) -> Result<Global> {
        let ModelConfig { dim, heads, ref clusters, .. } = *config;
        let count = clusters.count.ok_or_else(|| {
            Error::config(
                "`clusters.count` must say how many clusters the coarsener makes, at most; add it",
            )
        })?;
        let position = config.encoding.node2vec().map_or(0, |walks| walks.dim);
        let (wide, all) = (dim + position, heads * dim);
        Ok(Global {
            bias: LayerBias::new(scope, config, shared)?,
            proj: Linear::new(scope.at("proj"), dim, dim),
            query: Linear::new(scope.at("q"), wide, all),
            key: Linear::new(scope.at("k"), wide, all),
            value: Linear::new(scope.at("v"), dim, all),
            codes: Codebook::new(scope.at("codebook"), count, wide),
            dropout: Dropout::new(scope, config.attention_dropout),
            heads,
            dim,
            position,
            size_prior: clusters.size_prior,
        })
    }

    /// What targets, which have states `[targets, dim]`, read from clusters: `[targets, heads × dim]`.
    fn forward(
        &self,
        pass: &Pass,
        batch: &Batch,
        own: Tensor<2>,
        shared: Option<&Tensor<2>>,
    ) -> Result<Tensor<2>> {
        let targets = own.dims()[0];
        let clusters = self.clusters(batch, targets)?;
        let mut asked = self.proj.of_many(pass, own);
        if self.position > 0 {
            asked = Tensor::cat(vec![asked, self.positions(pass, batch, targets)?], 1);
        }
        let codes = self.codes.assigned(pass, &asked, clusters.nodes().of_row());
        let codes = codes.narrow(0, 0, clusters.len());
        let inputs = ClusterInputs {
            query: self.query.of_many(pass, asked),
            key: self.key.of_many(pass, codes.clone()),
            value: self.value.of_many(pass, codes.narrow(1, 0, self.dim)),
            bias: self.bias.table(pass, &clusters, shared, self.heads, 0),
        };
        let sizes = clusters.graph_sizes().iter().map(|&size| size as usize);
        let prior = prior_of(sizes, self.size_prior);
        Ok(attend(pass, &clusters, self.heads, inputs, &prior, self.dropout))
    }

    /// The clusters of targets.
    fn clusters(&self, batch: &Batch, targets: usize) -> Result<Clusters> {
        let missing = || Error::data("the model attends to clusters, but the batch has none");
        let clusters = batch.clusters.as_ref().ok_or_else(missing)?;
        if clusters.len() > self.codes.count() {
            return Err(Error::config(format!(
                "`clusters.count` is {}, but the coarsener made {} clusters; set it to that",
                self.codes.count(),
                clusters.len()
            )));
        }
        Ok(clusters.with_nodes(clusters.nodes().of_row()[..targets].to_vec()))
    }

    /// Positions of targets: `[targets, position]`.
    fn positions(&self, pass: &Pass, batch: &Batch, targets: usize) -> Result<Tensor<2>> {
        let found = batch.positions.as_ref().filter(|found| found.width == self.position);
        let found = found.ok_or_else(|| {
            Error::data(format!(
                "the model reads {} numbers per node of `encoding.node2vec`, which the batch has not",
                self.position
            ))
        })?;
        Ok(matrix(found.values.to_floats(), [targets, self.position], pass.device()))
    }
}

/// Refuses keys that this form of the model does not read.
fn check_keys(config: &ModelConfig) -> Result<()> {
    let kept = ClusterConfig {
        projection: config.clusters.projection,
        level: config.clusters.level,
        count: config.clusters.count,
        size_prior: config.clusters.size_prior,
        ..ClusterConfig::default()
    };
    let wrong = if config.layers != 1 {
        Some("has one layer; write `layers = 1`")
    } else if config.branch != BranchConfig::default() {
        Some("is no branch of message passing; leave out `branch`")
    } else if !matches!(config.clusters.projection, None | Some(Projection::Coarsening)) {
        Some("goes with clusters of the graph; leave out `clusters.projection`")
    } else if config.clusters != kept {
        Some(
            "goes with moving averages of clusters; of `clusters`, give `count`, `level` and `size_prior` only",
        )
    } else {
        None
    };
    wrong.map_or(Ok(()), |wrong| Err(Error::config(format!("`local.sampled` {wrong}"))))
}
