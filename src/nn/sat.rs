//! SAT: attention between nodes that are compared by their surroundings (Chen, O'Bray & Borgwardt 2022), with the distance bias.
//!
//! A layer is one of [`GT`](super::gt) whose queries and keys are of structure-aware states; values are of the states themselves.
//!
//! ```text
//! k-subtree     h₀ = x, hₜ = relu(MP hₜ₋₁)                            s = W BN [h₀, h₁, …, h_k]
//! k-subgraph    the same within the k-hop surroundings of each node     s = W BN [x, Σ over them of h_k]
//! ```
//!
//! MP is any layer of message passing. Surroundings are lists of rows ([`Subgraphs`](super::Subgraphs)); they have some times the nodes
//! of the graph, and that is what a step takes. With PNA, only rows that differ are computed.

use burn::tensor::{Tensor, activation};

use super::batch::{Batch, Structure};
use super::bias::Bias;
use super::config::{Extractor, Local, ModelConfig};
use super::encoder::{FeatureEncoder, PositionEncoder};
use super::gt::{self, degree_scale};
use super::head::Predictor;
use super::layers::{BatchNorm, Linear};
use super::message::{MessageLayer, check_arcs};
use super::ops::propagate::propagate;
use super::ops::rows::{gather, sum};
use super::parameters::Scope;
use super::pass::Pass;
use super::subgraphs::{Levels, Surroundings, Union};
use super::{Backbone, BackboneEntry};
use crate::{Error, Result};

pub(super) const ENTRY: BackboneEntry = BackboneEntry {
    name: "sat",
    summary: "SAT: attention between nodes compared by their surroundings",
    citation: "Chen, O'Bray & Borgwardt 2022",
    make: |scope, config| Ok(Box::new(Sat::new(scope, config)?)),
};

/// The model.
#[derive(Clone, Debug)]
pub struct Sat {
    nodes: FeatureEncoder,
    arcs: Option<FeatureEncoder>,
    positions: PositionEncoder,
    bias: Option<Bias>,
    layers: Vec<(Structural, gt::Layer)>,
    head: Predictor,
    heads: usize,
    dim: usize,
    degree_scale: bool,
    reads_subgraphs: bool,
}

/// From states to structure-aware states.
#[derive(Clone, Debug)]
struct Structural {
    messages: Vec<MessageLayer>,
    norm: BatchNorm,
    output: Linear,
}

impl Sat {
    /// A model with its parameters in `scope`.
    pub fn new(scope: &mut Scope, config: &ModelConfig) -> Result<Sat> {
        config.check()?;
        check_arcs(config)?;
        let Some(extractor) = config.extractor else {
            return Err(Error::config(
                "the backbone sat needs `extractor`: { subtree = K } or { subgraph = K }; without surroundings it is gt",
            ));
        };
        if matches!(config.local, Local::None | Local::GatedGcn) {
            return Err(Error::config(
                "the extractor of sat needs message passing that keeps no states of arcs: set `local` to pna, gcn, sage, gat or gine",
            ));
        }
        let edge_width = config.edge_dim.unwrap_or(config.dim);
        let nodes = FeatureEncoder::nodes(scope, &config.node, config.dim, false);
        let arcs = FeatureEncoder::arcs(scope, &config.edge, edge_width);
        let positions = PositionEncoder::added(scope, &config.encoding, config.dim)?;
        let bias = Bias::new(scope, config)?;
        let layers = (0..config.layers)
            .map(|number| {
                let alike = if config.identical_layers { 0 } else { number };
                let mut scope = scope.at("layers");
                let mut scope = scope.like(number, alike);
                let structural =
                    Structural::new(scope.at("extractor"), config, extractor, edge_width);
                (structural, gt::Layer::new(scope, config, bias.as_ref()))
            })
            .collect();
        Ok(Sat {
            nodes,
            arcs,
            positions,
            bias,
            layers,
            head: Predictor::new(scope, config),
            heads: config.heads,
            dim: config.dim,
            degree_scale: config.degree_scale.unwrap_or(true),
            reads_subgraphs: matches!(extractor, Extractor::Subgraph(_)),
        })
    }
}

impl Backbone for Sat {
    fn forward(&self, pass: &Pass, batch: &Batch) -> Result<Tensor<2>> {
        let structure = &batch.structure()?;
        pass.check_pairs(structure.pairs.len(), self.heads, self.layers.len())?;
        let around = structure.surroundings.as_deref().filter(|_| self.reads_subgraphs);
        if self.reads_subgraphs && around.is_none() {
            return Err(Error::data(
                "the model reads the surroundings of every node, but the batch has none; `prepare` finds them",
            ));
        }
        let features = batch.node_features.as_ref();
        let mut x = self.nodes.forward(pass, features, batch.num_nodes(), "node features")?;
        if let Some(positions) = self.positions.forward(pass, batch, structure)? {
            x = x + positions;
        }
        let features = batch.edge_features.as_ref();
        let arcs = self.arcs.as_ref();
        let e = arcs.map(|arcs| arcs.forward(pass, features, batch.num_arcs(), "edge features"));
        let e = e.transpose()?;
        let within = match around {
            None => Within::Graph,
            Some(around) => Within::new(pass, around, &self.layers[0].0),
        };
        match (within, around) {
            // States of all rows that differ are kept; messages and aggregates are not.
            (Within::Levels(levels), _) => {
                pass.check_rows(levels.rows(), 0, self.dim, self.layers.len())?;
            }
            (Within::Union(_), Some(around)) => {
                let [rows, arcs] = around.counts();
                let hops = self.layers[0].0.messages.len() * self.layers.len();
                pass.check_rows(rows, arcs, self.dim, hops)?;
            }
            _ => {}
        }
        let e = match within {
            Within::Union(union) => e.map(|e| gather(pass, &union.arcs, e)),
            _ => e,
        };
        pass.record(|| "encoder.h".into(), &x);
        let bias = self.bias.as_ref().map(|bias| bias.forward(pass, batch)).transpose()?;
        let scale = self.degree_scale.then(|| degree_scale(pass, structure));
        for (number, (structural, layer)) in self.layers.iter().enumerate() {
            let surroundings = structural.forward(pass, structure, within, &x, e.as_ref());
            pass.record(|| format!("layers.{number}.struct"), &surroundings);
            let (bias, scale) = (bias.as_ref(), scale.as_ref());
            x = layer.forward(pass, structure, number, x, surroundings, bias, scale);
            pass.record(|| format!("layers.{number}.h"), &x);
        }
        Ok(self.head.forward(pass, structure, x))
    }
}

/// Where messages are passed.
#[derive(Clone, Copy, Debug)]
enum Within<'a> {
    /// In the graph.
    Graph,
    /// In the surroundings of all nodes.
    Union(&'a Union),
    /// The same, of rows that can't differ one.
    Levels(&'a Levels),
}

impl<'a> Within<'a> {
    fn new(pass: &Pass, around: &'a Surroundings, of: &Structural) -> Within<'a> {
        let levels = around.levels(of.messages.len());
        let is_pna = |layer: &MessageLayer| matches!(layer, MessageLayer::Pna(_));
        match levels.filter(|_| !pass.is_composed() && of.messages.iter().all(is_pna)) {
            Some(levels) => Within::Levels(levels),
            None => Within::Union(around.union()),
        }
    }
}

impl Structural {
    fn new(
        mut scope: Scope,
        config: &ModelConfig,
        extractor: Extractor,
        edge_width: usize,
    ) -> Structural {
        let messages = (0..extractor.hops())
            .filter_map(|hop| MessageLayer::new(scope.at("gnn").at(hop), config, edge_width))
            .collect();
        let width = config.dim
            * match extractor {
                Extractor::Subtree(hops) => hops + 1,
                Extractor::Subgraph(_) => 2,
            };
        Structural {
            messages,
            norm: BatchNorm::new(scope.at("bn"), width),
            output: Linear::new(scope.at("out_proj"), width, config.dim),
        }
    }

    fn forward(
        &self,
        pass: &Pass,
        structure: &Structure,
        within: Within,
        x: &Tensor<2>,
        e: Option<&Tensor<2>>,
    ) -> Tensor<2> {
        let mut known = vec![x.clone()];
        let receive = |layer: &MessageLayer, within: &Structure, h: Tensor<2>| {
            activation::relu(layer.forward(pass, within, h, e.cloned(), None).0)
        };
        match within {
            Within::Graph => {
                for layer in &self.messages {
                    let h = receive(layer, structure, known[known.len() - 1].clone());
                    known.push(h);
                }
            }
            Within::Union(union) => {
                let mut h = gather(pass, &union.nodes, x.clone());
                for layer in &self.messages {
                    h = receive(layer, &union.structure, h);
                }
                known.push(sum(pass, &union.structure.by_graph, h));
            }
            Within::Levels(levels) => {
                let mut h = x.clone();
                for (layer, links) in self.messages.iter().zip(&levels.links) {
                    let MessageLayer::Pna(pna) = layer else { unreachable!("told by `Within`") };
                    h = pna.along(pass, links, h, e.cloned(), true);
                }
                known.push(propagate(pass, &levels.sums, h));
            }
        }
        self.output.forward(pass, self.norm.forward(pass, Tensor::cat(known, 1)))
    }
}
