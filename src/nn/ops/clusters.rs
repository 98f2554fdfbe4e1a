//! Attention from nodes to clusters, never holding nodes × clusters.
//!
//! With c(i) the cluster of node i, head h of width w, and m the factors of dropout,
//!
//! ```text
//! s_ik = q_i · k_k / √w + b_h[code(c(i), k)] + prior_k      p_i = softmax(s_i)      y_i = Σ_k m_ik p_ik v_k
//! ```
//!
//! The bias of a node is that of its cluster, a row of a clusters × clusters table. Nodes are taken cluster by cluster in
//! blocks, clusters in tiles: scores of a block and a tile stay in the cache, their largest and their sum are carried
//! along (online softmax, Milakov & Gimelshein 2018), and what was added up so far is rescaled where a larger
//! score appears. For the backward pass one number per node and head is kept, the logarithm of the sum; scores are
//! computed once more (Dao et al. 2022). The derivative of the bias is a histogram over codes.

mod softmax;
mod tiles;

use std::sync::Arc;

use burn::tensor::{Tensor, activation};

use super::apply;
use super::propagate::propagate;
use crate::nn::clusters::Clusters;
use crate::nn::config::Pooling;
use crate::nn::layers::Dropout;
use crate::nn::pass::{Pass, matrix, positions};
use crate::simd::WIDTH;
use tiles::Tiles;

/// What a cluster without nodes gets as its score: e to that is 0.
const NOTHING: f32 = -1e30;

/// Queries of nodes, keys and values of clusters, each `[.., heads × width]`.
#[derive(Clone, Debug)]
pub struct ClusterInputs {
    /// What nodes ask.
    pub query: Tensor<2>,
    /// What clusters are found by.
    pub key: Tensor<2>,
    /// What clusters give.
    pub value: Tensor<2>,
    /// The bias of every code and head, if there is one.
    pub bias: Option<Tensor<2>>,
}

/// Attention output `[nodes, heads × width]`; `prior` is added to the scores of each cluster.
///
/// # Panics
/// If heads do not share the width equally, there is a bias but no codes, or no prior for each cluster.
pub fn attend(
    pass: &Pass,
    clusters: &Clusters,
    heads: usize,
    inputs: ClusterInputs,
    prior: &[f32],
    dropout: Dropout,
) -> Tensor<2> {
    assert_eq!(prior.len(), clusters.len(), "a prior for each cluster");
    let [_, width] = inputs.query.dims();
    assert!(width.is_multiple_of(heads), "heads share the width");
    assert!(inputs.bias.is_none() || clusters.codes().is_some(), "a bias needs codes");
    if pass.is_composed() || !(width / heads).is_multiple_of(WIDTH) {
        return composed(pass, clusters, heads, inputs, prior, dropout);
    }
    let width = width / heads;
    let how = How { heads, widths: [width; 2], shared: false, scale: 1.0 / (width as f32).sqrt() };
    let kernel = tiles(pass, clusters, &how, inputs.bias.is_some(), prior, dropout);
    let ClusterInputs { query, key, value, bias } = inputs;
    let biased = bias.is_some();
    let nothing = || Tensor::zeros([1, 1], pass.device());
    let bias = bias.unwrap_or_else(nothing);
    let inputs = [query, key, value, bias, nothing(), nothing()];
    apply(&kernel, inputs).unwrap_or_else(|[query, key, value, bias, ..]| {
        let inputs = ClusterInputs { query, key, value, bias: biased.then_some(bias) };
        composed(pass, clusters, heads, inputs, prior, dropout)
    })
}

/// How heads lie in rows.
struct How {
    heads: usize,
    widths: [usize; 2],
    shared: bool,
    scale: f32,
}

fn tiles(
    pass: &Pass,
    clusters: &Clusters,
    how: &How,
    biased: bool,
    prior: &[f32],
    dropout: Dropout,
) -> Arc<Tiles> {
    Arc::new(Tiles {
        nodes: clusters.nodes().clone(),
        codes: clusters.code_numbers().filter(|_| biased),
        prior: prior.to_vec(),
        heads: how.heads,
        widths: how.widths,
        shared: how.shared,
        scale: how.scale,
        coins: dropout.coins(pass),
        simd: pass.simd(),
        team: pass.team().clone(),
    })
}

/// Attention between the maps before and after it.
#[derive(Clone, Debug)]
pub struct Folded {
    /// What nodes are before any map: `[nodes, inputs]`.
    pub states: Tensor<2>,
    /// Keys, taken back through the maps of queries: `[clusters, heads × inputs]`.
    pub key: Tensor<2>,
    /// What the shifts of these maps add to scores: `[clusters, heads]`.
    pub shift: Tensor<2>,
    /// Values, through the map that follows: `[clusters, heads × outputs]`.
    pub value: Tensor<2>,
    /// The shift of that map: `[1, outputs]`.
    pub start: Tensor<2>,
    /// The bias of every code and head, if there is one.
    pub bias: Option<Tensor<2>>,
}

/// Attention whose queries are a map of states, q_h = A_h x + a_h, and whose output goes through another, Σ_h B_h y_h + b. Few
/// clusters are mapped instead of many nodes:
///
/// ```text
/// q_h · k = x · (A_hᵀ k) + a_h · k        Σ_h B_h Σ_k p_hk v_hk + b = Σ_h Σ_k p_hk (B_h v_hk) + b
/// ```
///
/// `scale` multiplies products of states and keys. None where there is no kernel.
pub fn attend_folded(
    pass: &Pass,
    clusters: &Clusters,
    [heads, inputs, outputs]: [usize; 3],
    folded: Folded,
    scale: f32,
    prior: &[f32],
    dropout: Dropout,
) -> Option<Tensor<2>> {
    let how = How { heads, widths: [inputs, outputs], shared: true, scale };
    let kernel = tiles(pass, clusters, &how, folded.bias.is_some(), prior, dropout);
    let Folded { states, key, shift, value, start, bias } = folded;
    let bias = bias.unwrap_or_else(|| Tensor::zeros([1, 1], pass.device()));
    apply(&kernel, [states, key, value, bias, shift, start]).ok()
}

/// Whether attention is cheaper between the maps around it: `mapped` is the number of products of a node and a weight that
/// are saved.
pub fn folds(
    [heads, inputs, outputs]: [usize; 3],
    clusters: usize,
    width: usize,
    mapped: usize,
) -> bool {
    let whole = inputs.is_multiple_of(WIDTH) && outputs.is_multiple_of(WIDTH);
    // A sum over all clusters is known for one tile, or one head.
    let known = clusters <= tiles::TILE || heads == 1;
    whole && known && heads * clusters * (inputs + outputs) < 2 * clusters * heads * width + mapped
}

/// What is added to the scores of each cluster: the logarithm of its size, or nothing. A cluster without nodes never gets
/// any weight.
pub fn prior(clusters: &Clusters, size_prior: bool) -> Vec<f32> {
    prior_of(clusters.nodes().sizes(), size_prior)
}

/// The same for clusters of these sizes.
pub fn prior_of(sizes: impl Iterator<Item = usize>, size_prior: bool) -> Vec<f32> {
    let prior = |size: usize| match (size, size_prior) {
        (0, _) => NOTHING,
        (_, true) => (size as f32).ln(),
        (_, false) => 0.0,
    };
    sizes.map(prior).collect()
}

/// The same of tensor operations, head by head.
fn composed(
    pass: &Pass,
    clusters: &Clusters,
    heads: usize,
    inputs: ClusterInputs,
    prior: &[f32],
    dropout: Dropout,
) -> Tensor<2> {
    let [nodes, width] = inputs.query.dims();
    let (count, width) = (clusters.len(), width / heads);
    let prior = matrix(prior.to_vec(), [1, count], pass.device());
    let mask = dropout.mask(pass, heads * nodes * count);
    let of_node = clusters.nodes().of_row().iter().map(|&cluster| i64::from(cluster)).collect();
    let of_node = positions(of_node, pass.device());
    let codes = clusters
        .codes()
        .map(|codes| positions(codes.iter().map(i64::from).collect(), pass.device()));
    let head = |head: usize| {
        let part = |tensor: &Tensor<2>| tensor.clone().narrow(1, head * width, width);
        let scores = part(&inputs.query).matmul(part(&inputs.key).transpose());
        let mut scores = scores / (width as f32).sqrt() + prior.clone();
        if let (Some(bias), Some(codes)) = (&inputs.bias, &codes) {
            let table = bias.clone().narrow(1, head, 1).select(0, codes.clone());
            scores = scores + table.reshape([count, count]).select(0, of_node.clone());
        }
        let mut weights = activation::softmax(scores, 1);
        if let Some(mask) = &mask {
            let mask = mask[head * nodes * count..][..nodes * count].to_vec();
            weights = weights * matrix(mask, [nodes, count], pass.device());
        }
        weights.matmul(part(&inputs.value))
    };
    Tensor::cat((0..heads).map(head).collect(), 1)
}

/// States of clusters from those of their nodes; 0 for a cluster without nodes: `[nodes, width]` → `[clusters, width]`.
pub fn pool(pass: &Pass, clusters: &Clusters, x: Tensor<2>, pooling: Pooling) -> Tensor<2> {
    let means = propagate(pass, clusters.means(), x);
    match pooling {
        Pooling::Mean => means,
        Pooling::Sqrt => {
            let roots = clusters.nodes().sizes().map(|size| (size as f32).sqrt());
            means * matrix(roots.collect(), [clusters.len(), 1], pass.device())
        }
    }
}
