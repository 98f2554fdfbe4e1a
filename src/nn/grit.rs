//! GRIT: attention that learns from all pairs of nodes, whose states change from layer to layer (Ma et al. 2023), with the distance bias.
//!
//! Pairs begin with the probabilities of random walks, P_ij = (I, M, M², …)_ij with M = D⁻¹A, nodes with those of the way back, and
//! pairs that are arcs with their features besides. A layer, for every head,
//!
//! ```text
//! s_ij = (Q x_i + K x_j) ∘ E_w e_ij           ê_ij = relu(√s⁺ − √s⁻ + E_b e_ij)
//! p_i  = softmax_j( clamp(a · ê_ij, ±5) + bias )
//! y_i  = Σ_j p_ij (V x_j) + V_e Σ_j p_ij ê_ij           h = y ∘ t₁ + log(1 + degree) y ∘ t₂
//! x ← BN(x + O_h h)        e ← BN(e + O_e ê)            x ← BN(x + W₂ relu(W₁ x))
//! ```
//!
//! The bias is added after the clamp, which would cut off what is far. All that belongs to pairs takes n² numbers times the width: that is the
//! cost of the model. On the CPU, what a layer does to pairs is one operation (`ops/pairs.rs`), which keeps their states and nothing else.
//!
//! Ma, Lin, Lim, Romero-Soriano, Dokania, Coates, Torr & Lim, "Graph Inductive Biases in Transformers without Message Passing", ICML
//! 2023.

use std::sync::Arc;

use burn::tensor::{Tensor, activation};

use super::batch::{Batch, Structure};
use super::bias::Bias;
use super::config::{Encoding, Local, ModelConfig};
use super::encoder::FeatureEncoder;
use super::head::Predictor;
use super::layers::{BatchNorm, Dropout, FeedForward, Linear};
use super::ops::dense::linear;
use super::ops::pairs::{self, CLAMP, States, TINY};
use super::ops::rows::{Groups, gather, max, sum};
use super::parameters::{Init, Param, Scope};
use super::pass::{Pass, matrix, positions};
use super::{Backbone, BackboneEntry, record_bias};
use crate::{Error, Result};

pub(super) const ENTRY: BackboneEntry = BackboneEntry {
    name: "grit",
    summary: "GRIT: attention that learns from all pairs of nodes, whose states change from layer to layer",
    citation: "Ma et al. 2023",
    make: |scope, config| Ok(Box::new(Grit::new(scope, config)?)),
};

/// The model.
#[derive(Clone, Debug)]
pub struct Grit {
    nodes: FeatureEncoder,
    arcs: Option<FeatureEncoder>,
    /// Walks back to a node, and between the nodes of a pair.
    walks: [Linear; 2],
    powers: usize,
    bias: Option<Bias>,
    layers: Vec<Layer>,
    head: Predictor,
    dim: usize,
}

/// What all layers read besides states.
struct Around<'a> {
    structure: &'a Structure,
    bias: Option<&'a Tensor<2>>,
    degrees: &'a Tensor<2>,
}

#[derive(Clone, Debug)]
struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    /// For every head, factors and then terms.
    pair: Linear,
    /// a: `[width of a head, heads, 1]`.
    score: Param,
    /// V_e: `[width of a head, heads, width of a head]`.
    attended_pairs: Param,
    /// t₁ and t₂: `[1, dim, 2]`.
    degree: Param,
    output: Linear,
    pair_output: Linear,
    weight_dropout: Dropout,
    dropout: Dropout,
    pair_dropout: Dropout,
    norm: BatchNorm,
    pair_norm: BatchNorm,
    feed_forward: FeedForward,
    feed_forward_norm: BatchNorm,
    bias: Option<Linear>,
    heads: usize,
    width: usize,
}

impl Grit {
    /// A model with its parameters in `scope`.
    pub fn new(scope: &mut Scope, config: &ModelConfig) -> Result<Grit> {
        config.check()?;
        let Encoding::Rrwp { steps: powers } = config.encoding else {
            return Err(Error::config(
                "the backbone grit begins with random walks between all nodes; set `encoding = { rrwp = { steps = N } }`",
            ));
        };
        if config.local != Local::None || config.degree_scale.is_some() {
            return Err(Error::config(
                "the backbone grit has no message passing, and a scale of degrees of its own; leave out `local` and `degree_scale`",
            ));
        }
        let dim = config.dim;
        let nodes = FeatureEncoder::nodes(scope, &config.node, dim, true);
        let arcs = FeatureEncoder::arcs(scope, &config.edge, dim);
        let walks = ["rrwp_node", "rrwp_pair"]
            .map(|name| Linear::unbiased(scope.at(name), powers, dim, xavier(powers, dim)));
        let bias = Bias::new(scope, config)?;
        let layers = (0..config.layers)
            .map(|number| {
                let alike = if config.identical_layers { 0 } else { number };
                let mut scope = scope.at("layers");
                Layer::new(scope.like(number, alike), config, bias.as_ref())
            })
            .collect();
        let head = Predictor::new(scope, config);
        Ok(Grit { nodes, arcs, walks, powers, bias, layers, head, dim })
    }

    /// First states of all pairs: `[pairs, dim]`.
    fn pairs(
        &self,
        pass: &Pass,
        batch: &Batch,
        structure: &Structure,
        walks: &[f32],
    ) -> Result<Tensor<2>> {
        let pairs = structure.pairs.len();
        let e = self.walks[1]
            .of_many(pass, matrix(walks.to_vec(), [pairs, self.powers], pass.device()));
        let Some(arcs) = &self.arcs else { return Ok(e) };
        let features = batch.edge_features.as_ref();
        let of_arcs = arcs.forward(pass, features, batch.num_arcs(), "edge features")?;
        Ok(e + sum(pass, structure.arc_pairs(), of_arcs))
    }
}

impl Backbone for Grit {
    fn forward(&self, pass: &Pass, batch: &Batch) -> Result<Tensor<2>> {
        let structure = &batch.structure()?;
        let features = batch.node_features.as_ref();
        let x = self.nodes.forward(pass, features, batch.num_nodes(), "node features")?;
        let has_layers = pairs::has_layers(pass, &x);
        // Layers keep one number for each number of a state, and have a few besides; by tensor operations they keep some eight.
        let (numbers, layers) =
            if has_layers { (1, self.layers.len() + 3) } else { (8, self.layers.len()) };
        pass.check_pairs(structure.pairs.len(), (numbers * self.dim).div_ceil(2), layers)?;
        let walks = structure.walks.as_ref().filter(|walks| walks.powers == self.powers).ok_or_else(|| {
            Error::data("the model reads random walks between all nodes, but the batch has none; `prepare` asks for them")
        })?;
        let back = walks.diagonal(&structure.pairs);
        let back = matrix(back, [batch.num_nodes(), self.powers], pass.device());
        let mut x = x + self.walks[0].forward(pass, back);
        let mut e = self.pairs(pass, batch, structure, &walks.values)?;
        pass.record(|| "encoder.h".into(), &x);
        pass.record(|| "encoder.e".into(), &e);
        let bias = self.bias.as_ref().map(|bias| bias.forward(pass, batch)).transpose()?;
        let degrees =
            structure.by_target.sizes().map(|degree| (1.0 + degree as f32).ln()).collect();
        let degrees = matrix(degrees, [batch.num_nodes(), 1], pass.device());
        let around = Around { structure, bias: bias.as_ref(), degrees: &degrees };
        if has_layers {
            let mut states = States::First(e);
            for (number, layer) in self.layers.iter().enumerate() {
                let is_last = number + 1 == self.layers.len();
                (x, states) = layer.forward(pass, &around, number, x, states, !is_last);
            }
            return Ok(self.head.forward(pass, structure, x));
        }
        for (number, layer) in self.layers.iter().enumerate() {
            (x, e) = layer.composed(pass, &around, number, x, e);
            pass.record(|| format!("layers.{number}.h"), &x);
            pass.record(|| format!("layers.{number}.e"), &e);
        }
        Ok(self.head.forward(pass, structure, x))
    }
}

fn xavier(inputs: usize, outputs: usize) -> Init {
    Init::Normal((2.0 / (inputs + outputs) as f64).sqrt())
}

impl Layer {
    fn new(mut scope: Scope, config: &ModelConfig, bias: Option<&Bias>) -> Layer {
        let (dim, heads) = (config.dim, config.heads);
        let width = dim / heads;
        let mut feed_forward =
            FeedForward::new(&mut scope, dim, config.feed_forward * dim, config.dropout);
        feed_forward.outer = Dropout::new(&mut scope, 0.0);
        Layer {
            query: Linear::zero_bias(scope.at("Q"), dim, dim, xavier(dim, dim)),
            key: Linear::unbiased(scope.at("K"), dim, dim, xavier(dim, dim)),
            value: Linear::unbiased(scope.at("V"), dim, dim, xavier(dim, dim)),
            pair: Linear::zero_bias(scope.at("E"), dim, 2 * dim, xavier(dim, 2 * dim)),
            score: scope.parameter("Aw", &[width, heads, 1], xavier(heads, width)),
            attended_pairs: scope.parameter(
                "Ve",
                &[width, heads, width],
                xavier(heads * width, width * width),
            ),
            degree: scope.parameter("deg_coef", &[1, dim, 2], xavier(2 * dim, 2)),
            output: Linear::new(scope.at("O_h"), dim, dim),
            pair_output: Linear::new(scope.at("O_e"), dim, dim),
            weight_dropout: Dropout::new(&mut scope, config.attention_dropout),
            dropout: Dropout::new(&mut scope, config.dropout),
            pair_dropout: Dropout::new(&mut scope, config.dropout),
            norm: BatchNorm::new(scope.at("norm1_h"), dim),
            pair_norm: BatchNorm::new(scope.at("norm1_e"), dim),
            feed_forward,
            feed_forward_norm: BatchNorm::new(scope.at("norm2_h"), dim),
            bias: bias.map(|bias| bias.layer(&mut scope, heads)),
            heads,
            width,
        }
    }

    /// New states of nodes, and of pairs if these are read.
    fn forward(
        &self,
        pass: &Pass,
        around: &Around,
        number: usize,
        x: Tensor<2>,
        states: States,
        is_read: bool,
    ) -> (Tensor<2>, States) {
        let dim = self.heads * self.width;
        let ends = [&self.query, &self.key, &self.value].map(|map| map.of_many(pass, x.clone()));
        let inputs = pairs::Inputs {
            ends,
            make: self.pair.params(pass),
            score: self.score(pass),
            table: self.table(pass, around, number),
            output: self.pair_output.params(pass),
            heads: self.heads,
            coins: [self.weight_dropout.coins(pass), self.pair_dropout.coins(pass)],
        };
        let of = &around.structure.pairs;
        let (both, states) = pairs::layer(pass, of, states, inputs, &self.pair_norm, is_read);
        let attended = (both.clone().narrow(1, 0, dim), both.narrow(1, dim, dim));
        (self.update_nodes(pass, around, x, attended), states)
    }

    /// The same of tensor operations.
    fn composed(
        &self,
        pass: &Pass,
        around: &Around,
        number: usize,
        x: Tensor<2>,
        e: Tensor<2>,
    ) -> (Tensor<2>, Tensor<2>) {
        let table = self.table(pass, around, number);
        let seen = self.seen(pass, around.structure, &x, &e);
        let value = self.value.of_many(pass, x.clone());
        let attended = self.attend(pass, around.structure, number, &seen, table, value);
        let x = self.update_nodes(pass, around, x, attended);
        let seen = self.pair_dropout.forward(pass, seen);
        (x, self.pair_norm.forward(pass, e + self.pair_output.of_many(pass, seen)))
    }

    /// The bias of every code: `[codes, heads]`.
    fn table(&self, pass: &Pass, around: &Around, number: usize) -> Option<Tensor<2>> {
        let (map, bias) = self.bias.as_ref().zip(around.bias)?;
        let table = map.forward(pass, bias.clone());
        record_bias(pass, around.structure, number, &table);
        Some(table)
    }

    /// a, head by head: `[1, dim]`.
    fn score(&self, pass: &Pass) -> Tensor<2> {
        pass.param::<3>(self.score).swap_dims(0, 1).reshape([1, self.heads * self.width])
    }

    /// New states of nodes, from what nodes and what pairs gave.
    fn update_nodes(
        &self,
        pass: &Pass,
        around: &Around,
        x: Tensor<2>,
        (of_nodes, of_pairs): (Tensor<2>, Tensor<2>),
    ) -> Tensor<2> {
        let attended = self.dropout.forward(pass, of_nodes + self.of_pairs(pass, of_pairs));
        let dim = self.heads * self.width;
        let factor =
            |place: usize| pass.param::<3>(self.degree).narrow(2, place, 1).reshape([1, dim]);
        let scaled = attended.clone() * around.degrees.clone() * factor(1);
        let attended = attended * factor(0) + scaled;
        let x = self.norm.forward(pass, x + self.output.of_many(pass, attended));
        let y = x.clone() + self.feed_forward.forward(pass, x);
        self.feed_forward_norm.forward(pass, y)
    }

    /// ê of all pairs: `[pairs, dim]`.
    fn seen(&self, pass: &Pass, structure: &Structure, x: &Tensor<2>, e: &Tensor<2>) -> Tensor<2> {
        let (pairs, dim) = (e.dims()[0], self.heads * self.width);
        let asked = self.query.of_many(pass, x.clone());
        let found = self.key.of_many(pass, x.clone());
        // Factors of all heads, then terms of all heads.
        let (weight, bias) = self.pair.params(pass);
        let order = (0..2 * dim).map(|row| {
            let (kind, column) = (row / dim, row % dim);
            (column / self.width * 2 * self.width + kind * self.width + column % self.width) as i64
        });
        let order = positions(order.collect(), pass.device());
        let (weight, bias) = (weight.select(0, order.clone()), bias.select(0, order));
        let made = linear(pass, e.clone(), weight, Some(bias));
        let [queries, keys] = structure.pair_ends();
        let part = |first: usize| made.clone().slice([0..pairs, first..first + dim]);
        let s = (gather(pass, queries, asked) + gather(pass, keys, found)) * part(0);
        activation::relu(signed_root(s) + part(dim))
    }

    /// What nodes and what pairs give, weighed: `[nodes, dim]` each.
    fn attend(
        &self,
        pass: &Pass,
        structure: &Structure,
        number: usize,
        seen: &Tensor<2>,
        table: Option<Tensor<2>>,
        value: Tensor<2>,
    ) -> (Tensor<2>, Tensor<2>) {
        let [queries, keys] = structure.pair_ends();
        let mut scores = self.scores(pass, seen);
        if let Some(table) = table {
            let codes = structure.codes_of_pairs(table.dims()[0]);
            scores = scores + gather(pass, codes, table);
        }
        let weights = self.weights(pass, queries, scores);
        pass.record(|| format!("layers.{number}.attention"), &weights);
        let weights = self.by_column(self.weight_dropout.forward(pass, weights));
        let of_nodes = sum(pass, queries, weights.clone() * gather(pass, keys, value));
        (of_nodes, sum(pass, queries, weights * seen.clone()))
    }

    /// a · ê of every head, cut off: `[pairs, heads]`.
    fn scores(&self, pass: &Pass, seen: &Tensor<2>) -> Tensor<2> {
        let pairs = seen.dims()[0];
        let products = (seen.clone() * self.score(pass)).reshape([pairs, self.heads, self.width]);
        products.sum_dim(2).reshape([pairs, self.heads]).clamp(-CLAMP, CLAMP)
    }

    /// Softmax over the pairs of every first node.
    fn weights(&self, pass: &Pass, queries: &Arc<Groups>, scores: Tensor<2>) -> Tensor<2> {
        let largest = max(pass, queries, scores.clone().detach());
        let raised = (scores - gather(pass, queries, largest)).exp();
        let total = sum(pass, queries, raised.clone()) + TINY;
        raised / gather(pass, queries, total)
    }

    /// A number for every head, for all columns of the head.
    fn by_column(&self, weights: Tensor<2>) -> Tensor<2> {
        let pairs = weights.dims()[0];
        let each = weights.reshape([pairs, self.heads, 1]).repeat_dim(2, self.width);
        each.reshape([pairs, self.heads * self.width])
    }

    /// V_e of what was attended to, head by head.
    fn of_pairs(&self, pass: &Pass, attended: Tensor<2>) -> Tensor<2> {
        let map = pass.param::<3>(self.attended_pairs);
        let heads = (0..self.heads).map(|head| {
            let own = attended.clone().narrow(1, head * self.width, self.width);
            own.matmul(map.clone().narrow(1, head, 1).reshape([self.width, self.width]))
        });
        Tensor::cat(heads.collect(), 1)
    }
}

/// √s for what is positive, −√−s for what is negative; its derivative at 0 is taken as 0.
fn signed_root(s: Tensor<2>) -> Tensor<2> {
    let zero = s.clone().equal_elem(0.0);
    let sign = s.clone().detach().sign();
    s.abs().mask_fill(zero, 1.0).sqrt() * sign
}
