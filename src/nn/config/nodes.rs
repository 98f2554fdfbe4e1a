//! Keys of models of one large graph: `branch` and `clusters`.

use serde::{Deserialize, Serialize};

/// The branch of message passing beside a global one. Layers are joined by normalisation, ReLU and dropout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BranchConfig {
    /// Number of layers.
    pub layers: usize,
    /// Width between layers; `dim` of the model if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dim: Option<usize>,
    /// What comes before ReLU.
    pub norm: Norm,
    /// Whether a linear map comes first; normalisation, ReLU and dropout then come before every layer and after the
    /// last (the released code for ogbn-products).
    pub stem: bool,
    /// How both branches become one.
    pub mix: Mix,
    /// The share of this branch where states are added up; both in full if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Whether every layer reads what a first linear map made, too (`sgformer` for large graphs).
    pub initial: bool,
}

impl Default for BranchConfig {
    fn default() -> Self {
        BranchConfig {
            layers: 2,
            dim: None,
            norm: Norm::None,
            stem: false,
            mix: Mix::Sum,
            weight: None,
            initial: false,
        }
    }
}

/// What normalises states between layers of message passing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Norm {
    /// Nothing.
    #[default]
    None,
    /// BatchNorm.
    Batch,
    /// LayerNorm.
    Layer,
}

/// How a local and a global branch become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mix {
    /// States are added up, then mapped to predictions.
    #[default]
    Sum,
    /// Each is mapped to predictions of its own, which are averaged.
    Average,
    /// States side by side are mapped to predictions.
    Concat,
}

/// Attention from nodes to clusters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterConfig {
    /// How nodes become clusters; by coarsening in `goat`, not at all in `sgformer` unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub projection: Option<Projection>,
    /// The level of the hierarchy whose clusters are attended to.
    pub level: usize,
    /// How many clusters, where they are learned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// Whether the logarithm of a cluster's size is added to its score.
    pub size_prior: bool,
    /// What a cluster's state is of those of its nodes.
    pub pooling: Pooling,
    /// What goes into the first layer.
    pub input: GlobalInput,
    /// Whether a feed-forward network follows the attention in each layer.
    pub feed_forward: bool,
    /// Whether queries are mapped twice, as the released code does.
    pub extra_map: bool,
    /// Nodes of the graph, for a learned matrix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<usize>,
}

impl Default for ClusterConfig {
    fn default() -> Self {
        ClusterConfig {
            projection: None,
            level: 1,
            count: None,
            size_prior: true,
            pooling: Pooling::Mean,
            input: GlobalInput::Network,
            feed_forward: true,
            extra_map: true,
            nodes: None,
        }
    }
}

/// How nodes become clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Projection {
    /// By coarsening the graph: the only one that has distances.
    #[default]
    Coarsening,
    /// By the nearest of a few states, which follow the nodes (Kong et al. 2023: GOAT as it was).
    Codebook,
    /// By a learned matrix (Wang et al. 2020: Linformer).
    Linformer,
}

/// What a cluster's state is of those of its nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// Their mean.
    #[default]
    Mean,
    /// Their sum, divided by the root of their number (the paper's formula).
    Sqrt,
}

/// What goes into the first layer of attention to clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GlobalInput {
    /// Features through a linear map, BatchNorm, ReLU, dropout and a linear map.
    #[default]
    Network,
    /// Features as they are.
    Features,
}

impl ClusterConfig {
    /// How nodes become clusters where there are clusters.
    pub fn projection(&self) -> Projection {
        self.projection.unwrap_or_default()
    }
}
