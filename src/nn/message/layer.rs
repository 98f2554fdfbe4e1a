//! A layer of message passing of any kind, as a configuration names it.

use burn::tensor::Tensor;

use super::{Gat, GatedGcn, Gcn, Gine, Pna, PnaShape, Sage};
use crate::nn::batch::Structure;
use crate::nn::config::{EdgeInput, Encoding, Local, ModelConfig};
use crate::nn::parameters::Scope;
use crate::nn::pass::Pass;
use crate::nn::states::States;
use crate::{Error, Result};

/// A layer of message passing.
#[derive(Clone, Debug)]
pub enum MessageLayer {
    /// Graph convolution.
    Gcn(Gcn),
    /// GraphSAGE.
    Sage(Sage),
    /// Graph attention.
    Gat(Gat),
    /// Graph isomorphism network with edge features.
    Gine(Gine),
    /// Gated graph convolution.
    GatedGcn(GatedGcn),
    /// Principal neighbourhood aggregation.
    Pna(Pna),
}

impl MessageLayer {
    /// The layer that `config.local` names, from `dim` numbers to `dim`, reading `edge_width` numbers per arc.
    pub fn new(scope: Scope, config: &ModelConfig, edge_width: usize) -> Option<MessageLayer> {
        let dim = config.dim;
        let width = dim / config.heads;
        Some(match &config.local {
            // Samples are no messages, and refused where these are needed.
            Local::None | Local::Sampled(_) => return None,
            Local::Gcn => Self::Gcn(Gcn::new(scope, dim, dim)),
            Local::Sage => Self::Sage(Sage::new(scope, dim, dim)),
            Local::Gat => Self::Gat(Gat::new(scope, dim, config.heads, width, 0.0)),
            Local::Gine => Self::Gine(Gine::new(scope, dim, dim, edge_width)),
            Local::GatedGcn => {
                let edge_gate = matches!(config.encoding, Encoding::EsLapPe { .. });
                Self::GatedGcn(GatedGcn::new(scope, dim, edge_gate, config.dropout))
            }
            Local::Pna { towers, aggregators } => {
                let shape = PnaShape {
                    inputs: dim,
                    outputs: dim,
                    edges: (config.edge != EdgeInput::None).then_some(edge_width),
                    towers: *towers,
                    divide: true,
                    aggregators: aggregators.clone(),
                };
                Self::Pna(Pna::new(scope, &shape))
            }
        })
    }

    /// New node states, and arc states that go on to the next layer.
    ///
    /// # Panics
    /// If the layer reads arc states and `e` is none.
    pub fn forward(
        &self,
        pass: &Pass,
        structure: &Structure,
        x: Tensor<2>,
        e: Option<Tensor<2>>,
        positions: Option<&Tensor<2>>,
    ) -> (Tensor<2>, Option<Tensor<2>>) {
        const ARCS: &str = "a layer with arc states needs them";
        match self {
            Self::Gcn(layer) => (layer.forward(pass, structure, &States::Made(x)), e),
            Self::Sage(layer) => (layer.forward(pass, structure, &States::Made(x)), e),
            Self::Gat(layer) => (layer.forward(pass, structure, &States::Made(x)), e),
            Self::Gine(layer) => (layer.forward(pass, structure, x, e.clone().expect(ARCS)), e),
            Self::Pna(layer) => (layer.forward(pass, structure, x, e.clone()), e),
            Self::GatedGcn(layer) => {
                let (x, e) = layer.forward(pass, structure, x, e.expect(ARCS), positions);
                (x, Some(e))
            }
        }
    }
}

/// Refuses arc features that nobody reads, and layers without what they read.
pub fn check_arcs(config: &ModelConfig) -> Result<()> {
    if config.edge == EdgeInput::None && matches!(config.local, Local::Gine | Local::GatedGcn) {
        return Err(Error::config(
            "`local` reads arc states, but `edge` is \"none\"; use `edge = \"dummy\"` for graphs \
             without arc features",
        ));
    }
    if config.edge != EdgeInput::None
        && matches!(config.local, Local::None | Local::Gcn | Local::Sage | Local::Gat)
    {
        return Err(Error::config(
            "`edge` is given, but `local` reads no arc states; leave out `edge`",
        ));
    }
    Ok(())
}
