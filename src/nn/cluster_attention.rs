//! Attention from nodes to clusters: how nodes become clusters, what distances to them mean, and two ways to compute it.
//!
//! Clusters come from coarsening the graph, which has distances, from a codebook or from a learned matrix. The plain way maps
//! all nodes to queries and what they read onwards; the folded way maps the clusters instead ([`attend_folded`]).

use std::borrow::Cow;
use std::sync::Arc;

use burn::tensor::Tensor;

use super::batch::Batch;
use super::bias::Bias;
use super::clusters::Clusters;
use super::codebook::Codebook;
use super::config::{BiasKind, ClusterConfig, ModelConfig, Pooling, Projection};
use super::layers::{BatchNorm, Dropout, Embedding, Linear};
use super::ops::clusters::{ClusterInputs, Folded, attend, attend_folded, folds, pool, prior};
use super::ops::dense::{normalised, normalised_linear};
use super::ops::has_kernels;
use super::ops::rows::{Groups, gather};
use super::parameters::{Init, Param, Scope};
use super::pass::{Pass, matrix, positions, values};
use super::states::States;
use crate::distance::{self, MaxDistance};
use crate::{Error, Result};

/// `fc_in1`, `norm_in`, `fc_in2`.
#[derive(Clone, Debug)]
pub(super) struct InputNetwork {
    pub first: Linear,
    pub norm: BatchNorm,
    pub dropout: Dropout,
    pub second: Linear,
}

/// What goes into a layer.
pub(super) enum Input<'a> {
    /// The input network after its first map.
    Network(&'a InputNetwork, Tensor<2>),
    States(States),
}

impl Input<'_> {
    /// As states.
    pub(super) fn ready(self, pass: &Pass) -> States {
        match self {
            Input::Network(InputNetwork { norm, dropout, second, .. }, x) => {
                let (weight, bias) = second.params(pass);
                let z = normalised_linear(pass, x, (norm, *dropout), weight, bias);
                pass.record(|| "encoder.h".into(), &z);
                States::Made(z)
            }
            Input::States(states) => states,
        }
    }
}

/// The distances of a batch's clusters.
pub(super) fn codebook_of(batch: &Batch) -> Result<&distance::Codebook> {
    let codes = batch.clusters.as_ref().and_then(|clusters| clusters.codes());
    codes.map(distance::Codes::codebook).ok_or_else(|| {
        Error::data(
            "the model has a distance bias, but the batch has no distances between clusters",
        )
    })
}

/// Attention from nodes to clusters, with what makes clusters of nodes.
#[derive(Clone, Debug)]
pub(super) struct ClusterAttention {
    /// W_p and W_q; W_q alone where the first is left out.
    query: (Option<Linear>, Linear),
    key: Linear,
    value: Linear,
    bias: LayerBias,
    projection: LayerProjection,
    weight_dropout: Dropout,
    heads: usize,
    size_prior: bool,
    pooling: Pooling,
}

/// The bias of a layer.
#[derive(Clone, Debug)]
pub(super) enum LayerBias {
    None,
    /// What all layers share, through a map of this one.
    Shared(Linear),
    /// `dist_emb`, `dist_lin`: a table, and a map to one number for all heads.
    Scalar(Embedding, Linear, u8),
    /// `dist_lin`: factors of the distances, for all heads.
    Slope(Linear, MaxDistance, usize),
}

#[derive(Clone, Debug)]
enum LayerProjection {
    Coarsening,
    Codebook(Codebook),
    /// `[clusters, nodes]`.
    Linformer(Param, usize),
}

impl ClusterAttention {
    /// The part of the bias that all layers share.
    pub(super) fn shared_bias(scope: &mut Scope, config: &ModelConfig) -> Result<Option<Bias>> {
        let ClusterConfig { level, .. } = config.clusters;
        let projection = config.clusters.projection();
        let shared = matches!(config.bias, BiasKind::Linear | BiasKind::Mlp);
        if config.bias == BiasKind::None || projection != Projection::Coarsening {
            return Ok(None);
        }
        if level == 0 || level > config.levels {
            return Err(Error::config(format!(
                "`clusters.level` is {level}, and `levels` {}; take a level from 1 to that",
                config.levels
            )));
        }
        shared.then(|| Bias::from_level(scope, config, level)).transpose()
    }

    /// Attention to clusters for states of `from` numbers.
    pub(super) fn new(
        scope: &mut Scope,
        config: &ModelConfig,
        shared: Option<&Bias>,
        from: usize,
    ) -> Result<ClusterAttention> {
        let ModelConfig { dim, heads, ref clusters, .. } = *config;
        let count = || {
            clusters.count.ok_or_else(|| {
                Error::config("`clusters.count` must say how many clusters are learned; add it")
            })
        };
        let projection = match clusters.projection() {
            Projection::Coarsening => LayerProjection::Coarsening,
            Projection::Codebook => {
                LayerProjection::Codebook(Codebook::new(scope.at("codebook"), count()?, from))
            }
            Projection::Linformer => {
                let nodes = clusters.nodes.ok_or_else(|| {
                    Error::config("`clusters.nodes` must say how many nodes the graph has; add it")
                })?;
                let init = Init::fan_in(nodes);
                LayerProjection::Linformer(
                    scope.parameter("projection", &[count()?, nodes], init),
                    nodes,
                )
            }
        };
        let bias = LayerBias::new(scope, config, shared)?;
        let proj = config.clusters.extra_map.then(|| Linear::new(scope.at("proj"), from, dim));
        let inputs = if proj.is_some() { dim } else { from };
        Ok(ClusterAttention {
            query: (proj, Linear::new(scope.at("q"), inputs, dim)),
            key: Linear::new(scope.at("k"), from, dim),
            value: Linear::new(scope.at("v"), from, dim),
            bias,
            projection,
            weight_dropout: Dropout::new(scope, config.attention_dropout),
            heads,
            size_prior: clusters.size_prior,
            pooling: clusters.pooling,
        })
    }

    /// Whether few clusters are mapped instead of many nodes, which is the same: see [`attend_folded`].
    pub(super) fn is_folded(&self, pass: &Pass, batch: &Batch, z: &Input, next: &Linear) -> bool {
        // In evaluation there are no derivatives to be had from kernels.
        let differentiable = pass.is_training() || !pass.device().is_autodiff();
        let of_graph = matches!(self.projection, LayerProjection::Coarsening);
        let (true, true, true, Pooling::Mean, Some(clusters)) =
            (pass.is_fused(), differentiable, of_graph, self.pooling, &batch.clusters)
        else {
            return false;
        };
        let (states, before) = match z {
            Input::Network(_, x) => (x, true),
            Input::States(States::Made(z)) => (z, false),
            Input::States(States::Given(_)) => return false,
        };
        let inputs = states.dims()[1];
        let [outputs, width] = next.shape(pass);
        let maps = 1 + usize::from(before);
        let mapped = width * (maps * inputs + outputs);
        let size = [self.heads, inputs, outputs];
        has_kernels(states) && folds(size, clusters.len(), width / self.heads, mapped)
    }

    /// What follows the attention makes of it, with the maps of nodes before and after it folded into keys and values. Only
    /// `rows` ask, if they are given.
    pub(super) fn folded(
        &self,
        pass: &Pass,
        batch: &Batch,
        z: Input,
        shared: Option<&Tensor<2>>,
        next: &Linear,
        rows: Option<&Arc<Groups>>,
    ) -> Result<Tensor<2>> {
        let (states, before) = match z {
            Input::Network(InputNetwork { norm, dropout, second, .. }, x) => {
                (normalised(pass, x, norm, *dropout), Some(second))
            }
            Input::States(states) => (states.tensor(pass), None),
        };
        let clusters = self.clusters(batch)?;
        let heads = self.heads;
        let mut means = pool(pass, clusters, states.clone(), self.pooling);
        // q = A x + a
        let (mut map, mut shift) = self.query_map(pass);
        if let Some(before) = before {
            means = before.forward(pass, means);
            let (weight, bias) = before.params(pass);
            shift = times(map.clone(), bias) + shift;
            map = map.matmul(weight);
        }
        let key = self.key.forward(pass, means.clone());
        let value = self.value.forward(pass, means);
        let (after, start) = next.params(pass);
        let [outputs, width] = after.dims();
        let (inputs, width) = (map.dims()[1], width / heads);
        let head = |head: usize| {
            let own = |x: &Tensor<2>, axis| x.clone().narrow(axis, head * width, width);
            let key = own(&key, 1);
            let shift = shift.clone().narrow(0, head * width, width);
            let added = times(key.clone(), shift).unsqueeze_dim::<2>(1);
            let value = own(&value, 1).matmul(own(&after, 1).transpose());
            (key.matmul(own(&map, 0)), added, value)
        };
        let (mut keys, mut shifts, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for (key, shift, value) in (0..heads).map(head) {
            keys.push(key);
            shifts.push(shift);
            values.push(value);
        }
        let scale = 1.0 / (width as f32).sqrt();
        let (states, asking) = asking(pass, states, clusters, rows);
        let folded = Folded {
            states,
            key: Tensor::cat(keys, 1),
            shift: Tensor::cat(shifts, 1) * scale,
            value: Tensor::cat(values, 1),
            start: start.unsqueeze(),
            bias: self.bias.table(pass, clusters, shared, heads, 0),
        };
        let prior = prior(clusters, self.size_prior);
        let size = [heads, inputs, outputs];
        attend_folded(pass, &asking, size, folded, scale, &prior, self.weight_dropout)
            .ok_or_else(|| Error::data("there are no kernels on this device"))
    }

    /// Two maps in a row are one: (W_q W_p) z + (W_q b_p + b_q).
    fn query_map(&self, pass: &Pass) -> (Tensor<2>, Tensor<1>) {
        let (weight, bias) = self.query.1.params(pass);
        match &self.query.0 {
            Some(first) => {
                let (inner, shift) = first.params(pass);
                (weight.clone().matmul(inner), times(weight, shift) + bias)
            }
            None => (weight, bias),
        }
    }

    /// The clusters of a batch.
    fn clusters<'b>(&self, batch: &'b Batch) -> Result<&'b Clusters> {
        let missing = || Error::data("the model attends to clusters, but the batch has none");
        batch.clusters.as_deref().ok_or_else(missing)
    }

    /// What nodes read from clusters: `[nodes, dim]`; only `rows` do, if they are given.
    pub(super) fn forward(
        &self,
        pass: &Pass,
        batch: &Batch,
        number: usize,
        z: &States,
        shared: Option<&Tensor<2>>,
        rows: Option<&Arc<Groups>>,
    ) -> Result<Tensor<2>> {
        let (weight, bias) = self.query_map(pass);
        let query = z.project(pass, weight, Some(bias));
        let nodes = query.dims()[0];
        let (clusters, states) = match &self.projection {
            LayerProjection::Coarsening => {
                let clusters = self.clusters(batch)?;
                (clusters.clone(), pool(pass, clusters, z.tensor(pass), self.pooling))
            }
            LayerProjection::Codebook(codes) => codes.forward(pass, &z.tensor(pass)),
            LayerProjection::Linformer(projection, all) => {
                let projection = pass.param::<2>(*projection);
                let count = projection.dims()[0];
                let projection = match &batch.ids {
                    Some(ids) if ids.iter().any(|&id| id as usize >= *all) => {
                        return Err(Error::data(format!(
                            "`clusters.nodes` is {all}, but the graph has more; set it to their number"
                        )));
                    }
                    Some(ids) => {
                        let ids = ids.iter().map(|&id| i64::from(id)).collect();
                        projection.select(1, positions(ids, pass.device()))
                    }
                    None => projection,
                };
                if projection.dims()[1] != nodes {
                    return Err(Error::data(format!(
                        "`clusters.nodes` is {all}, but the graph has {nodes}; set it to that"
                    )));
                }
                (Clusters::whole(nodes, count), projection.matmul(z.tensor(pass)))
            }
        };
        let bias = self.bias.table(pass, &clusters, shared, self.heads, number);
        let (query, asking) = asking(pass, query, &clusters, rows);
        let inputs = ClusterInputs {
            query,
            key: self.key.of_many(pass, states.clone()),
            value: self.value.of_many(pass, states),
            bias,
        };
        let prior = match self.projection {
            // These clusters have no nodes of their own, so all weigh the same.
            LayerProjection::Linformer(..) => vec![0.0; clusters.len()],
            _ => prior(&clusters, self.size_prior),
        };
        Ok(attend(pass, &asking, self.heads, inputs, &prior, self.weight_dropout))
    }
}

impl LayerBias {
    /// The bias of a layer, by what all layers share.
    pub(super) fn new(
        scope: &mut Scope,
        config: &ModelConfig,
        shared: Option<&Bias>,
    ) -> Result<LayerBias> {
        let ModelConfig { dim, heads, levels, ref clusters, .. } = *config;
        let count = levels + 1 - clusters.level.min(levels + 1);
        Ok(match (config.bias, shared, clusters.projection()) {
            (_, Some(shared), _) => LayerBias::Shared(shared.layer(scope, heads)),
            (BiasKind::Scalar, _, Projection::Coarsening) if count == 1 => {
                let clip = config.max_distance.per_level(levels)?.at(clusters.level);
                let rows = usize::from(clip) + 1;
                let table = Embedding::new(scope.at("dist_emb"), rows, dim, Init::Normal(1.0));
                LayerBias::Scalar(table, Linear::new(scope.at("dist_lin"), dim, 1), clip)
            }
            (BiasKind::Scalar, _, Projection::Coarsening) => {
                return Err(Error::config(
                    "`bias = \"scalar\"` has a table for one level; take mlp or linear, or `levels = 1`",
                ));
            }
            (BiasKind::Slope, _, Projection::Coarsening) => {
                let clip = config.max_distance.per_level(levels)?;
                LayerBias::Slope(Linear::new(scope.at("dist_lin"), count, 1), clip, clusters.level)
            }
            _ => LayerBias::None,
        })
    }

    /// The bias of every code and head, in layer `number`.
    pub(super) fn table(
        &self,
        pass: &Pass,
        clusters: &Clusters,
        shared: Option<&Tensor<2>>,
        heads: usize,
        number: usize,
    ) -> Option<Tensor<2>> {
        let codes = clusters.codes()?;
        let book = codes.codebook();
        let table = match self {
            LayerBias::None => return None,
            LayerBias::Shared(map) => map.forward(pass, shared?.clone()),
            LayerBias::Scalar(table, map, clip) => {
                let rows = book.rows().chunks_exact(book.width());
                let rows = rows.map(|row| u32::from(row[0].min(*clip))).collect();
                map.forward(pass, table.forward(pass, rows)).repeat_dim(1, heads)
            }
            LayerBias::Slope(map, clip, lowest) => {
                let rows = book.rows().chunks_exact(book.width());
                let clipped = |row: &[u8]| {
                    let levels = row.iter().enumerate();
                    levels
                        .map(|(k, &d)| f32::from(d.min(clip.at(lowest + k))))
                        .collect::<Vec<f32>>()
                };
                let distances: Vec<f32> = rows.flat_map(clipped).collect();
                let distances = matrix(distances, [book.len(), book.width()], pass.device());
                map.forward(pass, distances).repeat_dim(1, heads)
            }
        };
        if pass.is_traced() {
            let numbers = values(table.clone().detach());
            let row = |code: u32| numbers[code as usize * heads..][..heads].to_vec();
            let all: Vec<f32> = codes.iter().flat_map(row).collect();
            pass.record_values(format!("layers.{number}.bias"), [codes.len(), heads], all);
        }
        Some(table)
    }
}

/// The rows that ask, with the clusters they belong to.
fn asking<'c>(
    pass: &Pass,
    states: Tensor<2>,
    clusters: &'c Clusters,
    rows: Option<&Arc<Groups>>,
) -> (Tensor<2>, Cow<'c, Clusters>) {
    let Some(rows) = rows else { return (states, Cow::Borrowed(clusters)) };
    let of_node = clusters.nodes().of_row();
    let of_row = rows.of_row().iter().map(|&node| of_node[node as usize]).collect();
    (gather(pass, rows, states), Cow::Owned(clusters.with_nodes(of_row)))
}

/// A matrix times a vector.
fn times(matrix: Tensor<2>, vector: Tensor<1>) -> Tensor<1> {
    matrix.matmul(vector.unsqueeze_dim::<2>(1)).squeeze_dim::<1>(1)
}
