//! What a stack is made of: which parameters its layers have, and how their columns lie.
//!
//! A layer is attention, maybe message passing beside it, and a feed-forward network, each with a residual and a
//! BatchNorm. [`Gps`](crate::nn::gps::Gps) and [`Gt`](crate::nn::gt::Gt) describe theirs with the very layers that
//! the composed path uses.

use std::ops::Range;

use super::attention::Heads;
use super::clock::{Clock, Kind};
use super::gated_gcn::EdgeGate;
use super::norm::Affine;
use super::product::PANEL;
use super::weights::{Map, Rows, Run};
use crate::nn::layers::{BatchNorm, Dropout, Linear};
use crate::nn::parameters::{Param, Parameters};
use crate::simd::padded;

/// Layers that all have the same shape.
#[derive(Debug)]
pub struct Network {
    /// Numbers of a node.
    pub dim: usize,
    /// Heads of the attention.
    pub heads: usize,
    /// Numbers between both maps of the feed-forward network.
    pub hidden: usize,
    /// Numbers of a row of the distance bias before the maps of the layers; 0 without.
    pub bias_width: usize,
    /// Whether attention is divided by the root of the degree.
    pub degree_scale: bool,
    /// The layers.
    pub layers: Vec<Layer>,
}

/// A layer.
#[derive(Clone, Debug)]
pub struct Layer {
    /// Query, key and value: a parameter, which of its parts (of as many rows as a node has numbers), its bias.
    pub packed: [(Param, usize, Option<Param>); 3],
    /// From all heads back to a node.
    pub output: Linear,
    /// On attention weights.
    pub weight_dropout: Dropout,
    /// On the result.
    pub attention_dropout: Dropout,
    /// After the residual.
    pub attention_norm: BatchNorm,
    /// Message passing.
    pub local: Local,
    /// Feed-forward network.
    pub feed_forward: [Linear; 2],
    /// On what is between both maps, and on the result.
    pub feed_forward_dropout: [Dropout; 2],
    /// After the residual.
    pub feed_forward_norm: BatchNorm,
    /// From the distance bias to heads.
    pub bias: Option<Linear>,
}

/// Message passing of a layer.
#[derive(Clone, Debug)]
pub enum Local {
    /// None.
    None,
    /// GINE, with its residual and BatchNorm.
    Gine { maps: [Linear; 2], dropout: Dropout, norm: BatchNorm },
    /// GatedGCN, which has a residual, and the BatchNorm after it.
    GatedGcn {
        /// Own, value, target, source.
        nodes: [Linear; 4],
        arcs: Linear,
        gate: Option<[Linear; 2]>,
        node_norm: BatchNorm,
        edge_norm: BatchNorm,
        node_dropout: Dropout,
        edge_dropout: Dropout,
        norm: BatchNorm,
    },
}

impl Network {
    /// Columns of a node's row.
    pub fn width(&self) -> usize {
        self.dim.next_multiple_of(PANEL)
    }

    /// Columns of a row between both maps of the feed-forward network.
    pub fn hidden_width(&self) -> usize {
        self.hidden.next_multiple_of(PANEL)
    }

    /// How heads lie.
    pub fn heads(&self) -> Heads {
        let width = self.dim / self.heads;
        let all = self.heads * padded(width);
        Heads {
            count: self.heads,
            width,
            stride: (3 * all).next_multiple_of(PANEL),
            out_stride: all.next_multiple_of(PANEL),
        }
    }

    /// Whether arcs have states.
    pub fn has_arcs(&self) -> bool {
        self.layers.iter().any(|layer| !matches!(layer.local, Local::None))
    }

    /// Whether positions go to an edge gate.
    pub fn has_gate(&self) -> bool {
        let gated = |layer: &Layer| matches!(layer.local, Local::GatedGcn { gate: Some(_), .. });
        self.layers.iter().any(gated)
    }
}

/// A layer with its parameters in the form that products want.
#[derive(Debug)]
pub struct Packed {
    /// Where the layer is among all trained numbers.
    pub range: Range<usize>,
    pub attention: Map,
    pub output: Map,
    pub feed_forward: [Map; 2],
    pub local: Vec<Map>,
    /// In the order of [`Place`].
    pub norms: Vec<Norm>,
    /// Where the edge gate's w₁, b₁, w₂ and b₂ are among all trained numbers.
    pub gate: Option<[Range<usize>; 4]>,
    gate_numbers: [Vec<f32>; 4],
}

/// BatchNorms of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// After attention.
    Attention,
    /// After the feed-forward network.
    Output,
    /// After message passing.
    Local,
    /// In GatedGCN, of nodes.
    Node,
    /// In GatedGCN, of arcs.
    Edge,
}

/// All of them.
pub const PLACES: [Place; 5] =
    [Place::Attention, Place::Output, Place::Local, Place::Node, Place::Edge];

/// The numbers of a BatchNorm, padded with zeros.
#[derive(Debug)]
pub struct Norm {
    pub layer: BatchNorm,
    /// Where weight and bias are among all trained numbers.
    pub places: [usize; 2],
    pub weight: Vec<f32>,
    pub bias: Vec<f32>,
    /// By running statistics.
    pub running: Affine,
}

impl Packed {
    /// A layer without numbers yet.
    pub fn new(network: &Network, layer: &Layer, parameters: &Parameters) -> Packed {
        let place = |param: Param| parameters.entry(param).range.clone();
        let (dim, heads) = (network.dim, network.heads());
        let whole = |count: usize| vec![Run { from: 0, count, column: 0 }];
        let rows = |linear: &Linear, column: usize| {
            let count = parameters.entry(linear.weight).shape[0];
            let bias = linear.bias.map(|bias| place(bias).start);
            Rows { weight: place(linear.weight).start, bias, count, column }
        };
        let map =
            |linear: &Linear, inputs: usize| Map::new(inputs, whole(inputs), vec![rows(linear, 0)]);
        let head = |head: usize| Run {
            from: head * heads.width,
            count: heads.width,
            column: head * heads.padded(),
        };
        let packed = layer.packed.iter().enumerate().flat_map(|(part, &(weight, which, bias))| {
            let first = which * dim;
            (0..heads.count).map(move |number| {
                let run = head(number);
                Rows {
                    weight: place(weight).start + (first + run.from) * dim,
                    bias: bias.map(|bias| place(bias).start + first + run.from),
                    count: run.count,
                    column: part * heads.count * heads.padded() + run.column,
                }
            })
        });
        let mut norms = vec![layer.attention_norm.clone(), layer.feed_forward_norm.clone()];
        let local = match &layer.local {
            Local::None => Vec::new(),
            Local::Gine { maps, norm, .. } => {
                norms.push(norm.clone());
                maps.iter().map(|linear| map(linear, dim)).collect()
            }
            Local::GatedGcn { nodes, arcs, node_norm, edge_norm, norm, .. } => {
                norms.extend([norm, node_norm, edge_norm].map(Clone::clone));
                let nodes = nodes.iter().enumerate();
                let nodes = nodes.map(|(i, linear)| rows(linear, i * network.width())).collect();
                vec![Map::new(dim, whole(dim), nodes), map(arcs, dim)]
            }
        };
        let gate = match &layer.local {
            Local::GatedGcn { gate: Some([first, second]), .. } => {
                let bias = |linear: &Linear| linear.bias.expect("its maps have biases");
                let params = [first.weight, bias(first), second.weight, bias(second)];
                Some(params.map(place))
            }
            _ => None,
        };
        let trained = layer.params().into_iter().map(place);
        let range = trained.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
        Packed {
            range: range.unwrap_or(0..0),
            attention: Map::new(dim, whole(dim), packed.collect()),
            output: Map::new(
                dim,
                (0..heads.count).map(head).collect(),
                vec![rows(&layer.output, 0)],
            ),
            feed_forward: [
                map(&layer.feed_forward[0], dim),
                map(&layer.feed_forward[1], network.hidden),
            ],
            local,
            norms: norms
                .into_iter()
                .map(|layer| Norm {
                    places: [layer.weight, layer.bias].map(|param| place(param).start),
                    layer,
                    weight: Vec::new(),
                    bias: Vec::new(),
                    running: Affine::default(),
                })
                .collect(),
            gate,
            gate_numbers: Default::default(),
        }
    }

    /// The BatchNorm of a place.
    pub fn norm(&self, place: Place) -> &Norm {
        &self.norms[place as usize]
    }

    /// The edge gate.
    pub fn edge_gate(&self) -> EdgeGate<'_> {
        let [first, first_bias, second, second_bias] = &self.gate_numbers;
        EdgeGate { first, first_bias, second, second_bias: second_bias[0] }
    }

    /// Takes over the present numbers.
    pub fn pack(
        &mut self,
        parameters: &Parameters,
        width: usize,
        training: bool,
        clock: &mut Clock,
    ) {
        clock.to(Kind::Pack);
        let trained = parameters.trained();
        let maps = [&mut self.attention, &mut self.output].into_iter();
        for map in maps.chain(&mut self.feed_forward).chain(&mut self.local) {
            map.pack(trained, training);
        }
        if let Some(params) = &self.gate {
            self.gate_numbers = params.each_ref().map(|range| trained[range.clone()].to_vec());
        }
        for norm in &mut self.norms {
            let numbers = |param: Param| {
                let mut numbers = parameters.values(parameters.entry(param)).to_vec();
                numbers.resize(width, 0.0);
                numbers
            };
            norm.weight = numbers(norm.layer.weight);
            norm.bias = numbers(norm.layer.bias);
            if !training {
                let single = |param| numbers(param).into_iter().map(f64::from).collect();
                let statistics = super::norm::Statistics {
                    mean: single(norm.layer.running_mean),
                    variance: single(norm.layer.running_var),
                    rows: 0.0,
                };
                norm.running = statistics.forward(&norm.weight, &norm.bias);
            }
        }
    }
}

impl Layer {
    /// All trained parameters.
    fn params(&self) -> Vec<Param> {
        let mut params = Vec::new();
        let linear = |linear: &Linear| [Some(linear.weight), linear.bias];
        let norm = |norm: &BatchNorm| [Some(norm.weight), Some(norm.bias)];
        params.extend(self.packed.iter().flat_map(|&(weight, _, bias)| [Some(weight), bias]));
        params.extend(self.feed_forward.iter().flat_map(linear));
        params.extend(linear(&self.output));
        params.extend(self.bias.iter().flat_map(linear));
        params.extend([&self.attention_norm, &self.feed_forward_norm].into_iter().flat_map(norm));
        match &self.local {
            Local::None => {}
            Local::Gine { maps, norm: after, .. } => {
                params.extend(maps.iter().flat_map(linear).chain(norm(after)));
            }
            Local::GatedGcn { nodes, arcs, gate, node_norm, edge_norm, norm: after, .. } => {
                let maps = nodes.iter().chain([arcs]).chain(gate.iter().flatten());
                params.extend(maps.flat_map(linear));
                params.extend([node_norm, edge_norm, after].into_iter().flat_map(norm));
            }
        }
        params.into_iter().flatten().collect()
    }
}
