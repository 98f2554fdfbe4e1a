//! Attention over sampled neighbours: the local branch of GOAT as it was (Kong et al. 2023).
//!
//! Target t reads the nodes j that were sampled for it, itself among them, with heads as wide as states,
//!
//! ```text
//! s_tj = q_t · k_j / √dim + b[hops of j] − log |{nodes sampled for t as many hops away}|      y_t = Σ_j softmax_j(s_t) v_j
//! ```
//!
//! A hop counts as one node, so to speak, however many were sampled there, until b has learned otherwise; it starts at 0.
//!
//! Targets are few and sampled nodes many, so keys and values are not made. As q · (K x + k) = (Kᵀ q) · x + q · k, the last term of which is
//! the same for all nodes of a target, and Σ_j w_j (V x_j + v) = V Σ_j w_j x_j + v Σ_j w_j, targets are mapped instead. It is the same
//! function; the plain form is what is traced, composed and read.

use std::sync::Arc;

use burn::tensor::Tensor;

use super::layers::{Dropout, Linear};
use super::ops::dense::linear;
use super::ops::has_kernels;
use super::ops::rows::{gather, max, sum};
use super::ops::samples::attend_samples;
use super::parameters::{Init, Param, Scope};
use super::pass::{Pass, matrix};
use super::samples::Samples;

/// The layer; maps `q`, `k`, `v`, and the table `hop_emb`.
#[derive(Clone, Debug)]
pub(super) struct SampledAttention {
    query: Linear,
    key: Linear,
    value: Linear,
    hops: Param,
    dropout: Dropout,
    heads: usize,
    width: usize,
}

impl SampledAttention {
    /// `width` → `heads` × `width` numbers, from up to `hops` hops away.
    pub(super) fn new(
        mut scope: Scope,
        [width, heads, hops]: [usize; 3],
        dropout: f64,
    ) -> SampledAttention {
        let mut map = |name: &str| Linear::new(scope.at(name), width, heads * width);
        let [query, key, value] = ["q", "k", "v"].map(&mut map);
        let hops = scope.at("hop_emb").parameter("weight", &[hops + 1, heads], Init::Constant(0.0));
        let dropout = Dropout::new(&mut scope, dropout);
        SampledAttention { query, key, value, hops, dropout, heads, width }
    }

    /// States of all rows, of which the first are targets: `[rows, width]` → `[targets, heads × width]`.
    pub(super) fn forward(&self, pass: &Pass, samples: &Arc<Samples>, x: &Tensor<2>) -> Tensor<2> {
        let own = x.clone().narrow(0, 0, samples.targets());
        let query = self.query.of_many(pass, own);
        match pass.is_fused() && has_kernels(x) {
            true => self.folded(pass, samples, query.clone(), x),
            false => None,
        }
        .unwrap_or_else(|| self.plain(pass, samples, query, x))
    }

    fn plain(&self, pass: &Pass, samples: &Samples, query: Tensor<2>, x: &Tensor<2>) -> Tensor<2> {
        let (heads, width, pairs) = (self.heads, self.width, samples.len());
        let (targets, rows) = (samples.by_target(), samples.by_row());
        let [key, value] =
            [&self.key, &self.value].map(|map| gather(pass, rows, map.of_many(pass, x.clone())));
        let products = gather(pass, targets, query) * key;
        let products = products.reshape([pairs, heads, width]).sum_dim(2).reshape([pairs, heads]);
        let prior = matrix(samples.prior().to_vec(), [pairs, 1], pass.device());
        let bias = gather(pass, samples.by_hop(), pass.param::<2>(self.hops));
        let scores = products / (width as f32).sqrt() + bias + prior;
        let largest = max(pass, targets, scores.clone().detach()).detach();
        let powers = (scores - gather(pass, targets, largest)).exp();
        let sums = sum(pass, targets, powers.clone());
        let weights = powers / gather(pass, targets, sums); // [pairs, heads]
        pass.record(|| "local.attention".into(), &weights);
        let weights = self.dropout.forward(pass, weights).reshape([pairs, heads, 1]);
        let read = value.reshape([pairs, heads, width]) * weights;
        sum(pass, targets, read.reshape([pairs, heads * width]))
    }

    fn folded(
        &self,
        pass: &Pass,
        samples: &Arc<Samples>,
        query: Tensor<2>,
        x: &Tensor<2>,
    ) -> Option<Tensor<2>> {
        let (heads, width) = (self.heads, self.width);
        let [key, value] = [&self.key, &self.value].map(|map| pass.param::<2>(map.weight));
        let of_head = |x: &Tensor<2>, axis, head| x.clone().narrow(axis, head * width, width);
        let asked = (0..heads).map(|head| {
            linear(pass, of_head(&query, 1, head), of_head(&key, 0, head).transpose(), None)
        });
        let asked = Tensor::cat(asked.collect(), 1);
        let scale = 1.0 / (width as f32).sqrt();
        let inputs = [asked, x.clone(), pass.param::<2>(self.hops)];
        let read = attend_samples(pass, samples, scale, inputs, self.dropout)?;
        let (_, shift) = self.value.params(pass);
        let shift = shift.unsqueeze::<2>();
        let given = (0..heads).map(|head| {
            let sums = read.clone().narrow(1, heads * width + head, 1); // [targets, 1]
            let mapped = linear(pass, of_head(&read, 1, head), of_head(&value, 0, head), None);
            mapped + sums.matmul(of_head(&shift, 1, head))
        });
        Some(Tensor::cat(given.collect(), 1))
    }
}
