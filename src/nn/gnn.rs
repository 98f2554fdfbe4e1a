//! Graph neural networks by themselves, and a network that does not look at the graph: what global attention is measured
//! against. Layers as in the local branch of those (`branch.rs`), the last of which predicts.

use burn::tensor::Tensor;

use super::batch::Batch;
use super::branch::Branch;
use super::config::{Local, ModelConfig, NodeInput};
use super::goat::{check, width};
use super::parameters::Scope;
use super::pass::Pass;
use super::states::States;
use super::{Backbone, BackboneEntry};
use crate::Result;

pub(super) const GCN: BackboneEntry = BackboneEntry {
    name: "gcn",
    summary: "graph convolutions alone, for one large graph",
    citation: "Kipf & Welling 2017",
    make: |scope, config| Ok(Box::new(Gnn::new(scope, config, Local::Gcn)?)),
};

pub(super) const SAGE: BackboneEntry = BackboneEntry {
    name: "sage",
    summary: "GraphSAGE with means, for one large graph",
    citation: "Hamilton, Ying & Leskovec 2017",
    make: |scope, config| Ok(Box::new(Gnn::new(scope, config, Local::Sage)?)),
};

pub(super) const GAT: BackboneEntry = BackboneEntry {
    name: "gat",
    summary: "graph attention along arcs alone, for one large graph",
    citation: "Veličković et al. 2018",
    make: |scope, config| Ok(Box::new(Gnn::new(scope, config, Local::Gat)?)),
};

pub(super) const MLP: BackboneEntry = BackboneEntry {
    name: "mlp",
    summary: "linear maps alone: what features say without the graph",
    citation: "Rosenblatt 1958",
    make: |scope, config| Ok(Box::new(Gnn::new(scope, config, Local::None)?)),
};

/// The model; the number of layers is that of `branch`.
#[derive(Clone, Debug)]
pub struct Gnn {
    node: NodeInput,
    branch: Branch,
}

impl Gnn {
    /// Layers of one kind, with their parameters in `scope`.
    pub fn new(scope: &mut Scope, config: &ModelConfig, kind: Local) -> Result<Gnn> {
        check(config)?;
        let ends = [width(config)?, config.outputs];
        Ok(Gnn { node: config.node.clone(), branch: Branch::new(scope, config, &kind, ends)? })
    }
}

impl Backbone for Gnn {
    fn forward(&self, pass: &Pass, batch: &Batch) -> Result<Tensor<2>> {
        let structure = &batch.structure()?;
        let features = States::of(batch, &self.node)?;
        Ok(self.branch.forward(pass, structure, &features))
    }
}
