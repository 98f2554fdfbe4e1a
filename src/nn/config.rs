//! What a model is made of: the `[model]` table of a configuration.
//!
//! ```
//! use hdse::nn::ModelConfig;
//! let config: ModelConfig = serde_json::from_str(
//!     r#"{
//!         "backbone": "gps", "dim": 64, "heads": 4, "layers": 10, "local": "gine",
//!         "node": { "types": 28 }, "edge": { "types": 4 },
//!         "encoding": { "rwse": { "steps": 20, "dim": 28 } },
//!         "pool": "sum", "head": "san", "outputs": 1, "attention_dropout": 0.5
//!     }"#,
//! )?;
//! assert_eq!(config.levels, 1);
//! # Ok::<(), serde_json::Error>(())
//! ```

mod nodes;

pub use nodes::{BranchConfig, ClusterConfig, GlobalInput, Mix, Norm, Pooling, Projection};

use serde::{Deserialize, Serialize};

use super::message::Aggregator;
use crate::distance::MaxDistance;
use crate::encoding::{Laplacian, Node2Vec};
use crate::{Error, Result};

/// Everything that determines a model, except its weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// Name of the backbone, one of [`super::ALL`].
    pub backbone: String,
    /// Numbers per node and arc.
    pub dim: usize,
    /// Heads of attention; they share `dim`.
    pub heads: usize,
    /// Number of layers.
    pub layers: usize,
    /// Width of the feed-forward network, in multiples of `dim`.
    #[serde(default = "two")]
    pub feed_forward: usize,
    /// Dropout on node and arc states.
    #[serde(default)]
    pub dropout: f64,
    /// Dropout on attention weights.
    #[serde(default)]
    pub attention_dropout: f64,

    /// Form of the distance bias.
    #[serde(default)]
    pub bias: BiasKind,
    /// How the levels of the bias are put together.
    #[serde(default)]
    pub combine: Combine,
    /// Levels above the graph itself that the bias uses; 0 for hop distances alone.
    #[serde(default = "one")]
    pub levels: usize,
    /// Where distances are clipped: one number, or one for each level.
    #[serde(default)]
    pub max_distance: Clip,
    /// What becomes of unreachable pairs.
    #[serde(default)]
    pub unreachable: Unreachable,
    /// Width of the bias's tables; `dim` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bias_dim: Option<usize>,

    /// Node features.
    pub node: NodeInput,
    /// Arc features.
    #[serde(default)]
    pub edge: EdgeInput,
    /// Positional encoding.
    #[serde(default)]
    pub encoding: Encoding,
    /// Numbers per arc for the extractor of SAT; `dim` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge_dim: Option<usize>,
    /// Message passing beside the attention, or inside the extractor of SAT.
    #[serde(default)]
    pub local: Local,
    /// How SAT makes queries and keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extractor: Option<Extractor>,
    /// The branch of message passing beside the global one (`goat`, `sgformer`), or the whole network (`gcn`, `sage`,
    /// `gat`, `mlp`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub branch: BranchConfig,
    /// Attention from nodes to clusters (`goat`, `sgformer`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub clusters: ClusterConfig,
    /// Whether GT divides attention output by √(1 + degree).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degree_scale: Option<bool>,
    /// Whether all layers start from the same weights.
    #[serde(default)]
    pub identical_layers: bool,

    /// How node states become a graph state; `none` for predictions about nodes.
    pub pool: Pool,
    /// The network that predicts.
    pub head: Head,
    /// Numbers per prediction.
    pub outputs: usize,
}

fn one() -> usize {
    1
}

fn two() -> usize {
    2
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Form of the distance bias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BiasKind {
    /// No bias: the plain backbone.
    None,
    /// Tables and linear maps.
    Linear,
    /// Tables, a linear map with ReLU, linear maps.
    #[default]
    Mlp,
    /// For clusters: in every layer a table and a linear map to one number, the same for all heads (the released code
    /// for graphs of medium size).
    Scalar,
    /// For clusters: in every layer a factor for the distance, the same for all heads (the released code for large
    /// graphs).
    Slope,
}

/// How the levels of the bias, or the frequencies of SignNet, are put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Combine {
    /// Side by side.
    #[default]
    Concat,
    /// Added up.
    Sum,
}

/// What becomes of unreachable pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unreachable {
    /// They count as the largest distance.
    #[default]
    Clip,
    /// They have a row of their own.
    Own,
}

/// Where distances are clipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected one distance, or a list with one for each level")]
pub enum Clip {
    /// The same at all levels.
    All(usize),
    /// One for each level, level 0 first; the last holds for all further ones.
    PerLevel(Vec<usize>),
}

impl Default for Clip {
    fn default() -> Self {
        Clip::All(30)
    }
}

impl Clip {
    /// The clip of levels 0 to `levels`.
    pub fn per_level(&self, levels: usize) -> Result<MaxDistance> {
        let new = |clips: &[usize]| {
            MaxDistance::new(clips).map_err(|e| Error::config(format!("`max_distance`: {e}")))
        };
        match self {
            Clip::All(clip) => new(&[*clip]),
            Clip::PerLevel(clips) if clips.len() > levels + 1 => Err(Error::config(format!(
                "`max_distance` has {} numbers, but there are only levels 0 to {levels}; give one for each",
                clips.len()
            ))),
            Clip::PerLevel(clips) => new(clips),
        }
    }
}

/// Node features.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum NodeInput {
    /// One of so many types.
    Types(usize),
    /// Several columns of types, with so many each; their embeddings are added up (OGB's atoms).
    Atoms(Vec<usize>),
    /// So many real numbers.
    Linear(usize),
    /// The first `columns` of so many real numbers; released GT leaves out coordinates that way.
    Leading {
        /// How many are read.
        columns: usize,
        /// How many there are.
        of: usize,
    },
}

impl NodeInput {
    /// Columns read as real numbers, and columns there are; none where nodes have types.
    pub fn reals(&self) -> Option<(usize, usize)> {
        match *self {
            NodeInput::Types(_) | NodeInput::Atoms(_) => None,
            NodeInput::Linear(columns) => Some((columns, columns)),
            NodeInput::Leading { columns, of } => Some((columns, of)),
        }
    }
}

/// Arc features.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EdgeInput {
    /// Arcs have no features, and the backbone needs none.
    #[default]
    None,
    /// One learned vector for all arcs.
    Dummy,
    /// One of so many types.
    Types(usize),
    /// Several columns of types, with so many each; their embeddings are added up (OGB's bonds).
    Bonds(Vec<usize>),
    /// So many real numbers.
    Linear(usize),
}

/// Positional encoding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Encoding {
    /// None.
    #[default]
    None,
    /// Return probabilities of random walks of 1 to `steps` steps.
    Rwse {
        /// Longest walk.
        steps: usize,
        /// Columns of the node state that it takes; GT adds it to all of them instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dim: Option<usize>,
        /// Whether walks use arcs from a node to itself.
        #[serde(default = "yes")]
        self_loops: bool,
    },
    /// Probabilities of random walks between all nodes, for GRIT.
    Rrwp {
        /// How many powers, with that of no step.
        steps: usize,
    },
    /// Eigenvectors of the Laplacian, with random signs in training.
    LapPe {
        /// How many.
        frequencies: usize,
        /// Columns of the node state that it takes; GT adds it to all of them instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dim: Option<usize>,
        /// Of which Laplacian.
        #[serde(default)]
        laplacian: Laplacian,
        /// How many of the lowest to leave out; 1 leaves out the constant one.
        #[serde(default)]
        skip: usize,
        /// Whether signs are drawn anew for every batch in training: an eigenvector times −1 is one, too.
        #[serde(default = "yes")]
        random_signs: bool,
    },
    /// Eigenvectors of the Laplacian through networks that do not depend on their signs (Lim et al. 2023).
    SignNet {
        /// How many.
        frequencies: usize,
        /// Columns of the node state that it takes; GT adds it to all of them instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dim: Option<usize>,
        /// Of which Laplacian.
        #[serde(default)]
        laplacian: Laplacian,
        /// How many of the lowest to leave out.
        #[serde(default)]
        skip: usize,
        /// Width between layers.
        #[serde(default = "sixty_four")]
        hidden: usize,
        /// Numbers for each frequency.
        #[serde(default = "four")]
        width: usize,
        /// Layers of message passing.
        #[serde(default = "eight")]
        layers: usize,
        /// Linear maps after it.
        #[serde(default = "three")]
        post_layers: usize,
        /// How frequencies are put together.
        #[serde(default)]
        combine: Combine,
    },
    /// Eigenvectors of the Laplacian as positions for the edge gate of GatedGCN, equivariant to
    /// rotations and sign flips (Wang et al. 2022).
    EsLapPe {
        /// How many.
        frequencies: usize,
        /// Of which Laplacian.
        #[serde(default = "normalised")]
        laplacian: Laplacian,
        /// How many of the lowest to leave out.
        #[serde(default)]
        skip: usize,
    },
    /// The number of arcs that end at a node.
    Degree {
        /// Larger ones count as this.
        max: usize,
        /// Columns of the node state that it takes; GT adds it to all of them instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dim: Option<usize>,
    },
    /// Vectors learned from random walks on one large graph, for queries to clusters (`goat` with sampled neighbours).
    Node2Vec(Node2Vec),
}

impl Encoding {
    /// How vectors are learned from random walks, if they are.
    pub fn node2vec(&self) -> Option<&Node2Vec> {
        match self {
            Encoding::Node2Vec(walks) => Some(walks),
            _ => None,
        }
    }
}

fn three() -> usize {
    3
}

fn four() -> usize {
    4
}

fn eight() -> usize {
    8
}

fn sixty_four() -> usize {
    64
}

fn yes() -> bool {
    true
}

fn normalised() -> Laplacian {
    Laplacian::Normalised
}

/// Message passing beside the attention.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Local {
    /// None: attention only.
    #[default]
    None,
    /// Graph convolution.
    Gcn,
    /// GraphSAGE.
    Sage,
    /// Graph attention, with the heads of the model.
    Gat,
    /// Graph isomorphism network with edge features.
    Gine,
    /// Gated graph convolution.
    GatedGcn,
    /// Principal neighbourhood aggregation.
    Pna {
        /// Number of towers; they share `dim`.
        towers: usize,
        /// How messages are added up.
        aggregators: Vec<Aggregator>,
    },
    /// Attention over sampled neighbours, so many of each node in every step, one step per number (`goat`).
    Sampled(Vec<usize>),
}

impl Local {
    /// Neighbours that are sampled of each node, step by step; none where they are not.
    pub fn sampled(&self) -> Option<&[usize]> {
        match self {
            Local::Sampled(sizes) => Some(sizes),
            _ => None,
        }
    }
}

/// How SAT makes queries and keys, by so many layers of message passing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Extractor {
    /// In the graph: states after every layer.
    Subtree(usize),
    /// In the surroundings of every node, of as many hops: their sum.
    Subgraph(usize),
}

impl Extractor {
    /// Layers of message passing.
    pub fn hops(self) -> usize {
        match self {
            Extractor::Subtree(hops) | Extractor::Subgraph(hops) => hops,
        }
    }
}

/// How node states become a graph state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pool {
    /// They do not: predictions are about nodes.
    None,
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
    /// The largest, column by column.
    Max,
}

/// The network that predicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Head {
    /// Three linear maps, halving the width, with ReLU between them.
    San,
    /// So many linear maps, with ReLU and division of rows by their length between them.
    GraphGym(usize),
    /// So many linear maps, with ReLU between them.
    Plain(usize),
}

impl ModelConfig {
    /// Whether the model attends to clusters that a hierarchy gives.
    pub fn attends_to_clusters(&self) -> bool {
        let given = self.clusters.projection == Some(Projection::Coarsening);
        match self.backbone.as_str() {
            "goat" => given || self.clusters.projection.is_none(),
            "sgformer" => given,
            _ => false,
        }
    }

    /// Checks what every backbone needs.
    pub fn check(&self) -> Result<()> {
        const WIDE: usize = 1 << 16;
        const MANY: usize = 1 << 24;
        let length = match self.encoding {
            Encoding::None | Encoding::Node2Vec(_) => 1,
            Encoding::Degree { max, .. } => max,
            Encoding::Rwse { steps, .. } | Encoding::Rrwp { steps } => steps,
            Encoding::LapPe { frequencies, .. }
            | Encoding::SignNet { frequencies, .. }
            | Encoding::EsLapPe { frequencies, .. } => frequencies,
        };
        let signs = match self.encoding {
            Encoding::SignNet { hidden, width, layers, post_layers, .. } => {
                [hidden, width, layers, post_layers]
            }
            _ => [1; 4],
        };
        let maps = match self.head {
            Head::San => 3,
            Head::GraphGym(maps) | Head::Plain(maps) => maps,
        };
        let nodes = match &self.node {
            NodeInput::Atoms(counts) => &counts[..],
            NodeInput::Types(count) | NodeInput::Linear(count) => &[*count],
            NodeInput::Leading { columns, of } => &[*columns, *of],
        };
        let arcs = match &self.edge {
            EdgeInput::None | EdgeInput::Dummy => &[1],
            EdgeInput::Bonds(counts) => &counts[..],
            EdgeInput::Types(count) | EdgeInput::Linear(count) => &[*count],
        };
        // No configuration overflows a size, or asks for more memory than there could be.
        let sizes = [
            ("dim", self.dim, WIDE),
            ("heads", self.heads, WIDE),
            ("layers", self.layers, 1 << 12),
            ("feed_forward", self.feed_forward, 64),
            ("outputs", self.outputs, WIDE),
            ("bias_dim", self.bias_dim.unwrap_or(1), WIDE),
            ("levels + 1", self.levels.saturating_add(1), 64),
            ("encoding", length, WIDE),
            ("encoding.signnet.hidden", signs[0], WIDE),
            ("encoding.signnet.width", signs[1], WIDE),
            ("encoding.signnet.layers", signs[2], 64),
            ("encoding.signnet.post_layers", signs[3], 64),
            ("head", maps, 64),
            ("edge_dim", self.edge_dim.unwrap_or(1), WIDE),
            ("extractor", self.extractor.map_or(1, Extractor::hops), 64),
            ("branch.layers", self.branch.layers, 1 << 12),
            ("branch.dim", self.branch.dim.unwrap_or(1), WIDE),
            ("clusters.count", self.clusters.count.unwrap_or(1), MANY),
            ("clusters.nodes", self.clusters.nodes.unwrap_or(1), 1 << 31),
        ];
        let counts = nodes.iter().map(|&count| ("node", count, MANY));
        let counts = counts.chain(arcs.iter().map(|&count| ("edge", count, MANY)));
        for (key, size, most) in sizes.into_iter().chain(counts) {
            if !(1..=most).contains(&size) {
                return Err(Error::config(format!(
                    "`{key}` is {size}; it must lie between 1 and {most}"
                )));
            }
        }
        if self.backbone != "sat" && (self.extractor.is_some() || self.edge_dim.is_some()) {
            return Err(Error::config(
                "`extractor` and `edge_dim` are for the backbone sat; leave them out",
            ));
        }
        self.check_samples()?;
        if nodes.is_empty() || arcs.is_empty() {
            return Err(Error::config("`node` or `edge` has an empty list of columns"));
        }
        if !self.dim.is_multiple_of(self.heads) {
            return Err(Error::config(format!(
                "`dim` is {}, which {} `heads` cannot share equally; take a multiple of `heads`",
                self.dim, self.heads
            )));
        }
        for (key, rate) in
            [("dropout", self.dropout), ("attention_dropout", self.attention_dropout)]
        {
            if !(0.0..=1.0).contains(&rate) {
                return Err(Error::config(format!(
                    "`{key}` is {rate}; it is a probability, from 0 to 1"
                )));
            }
        }
        if let Some(weight) = self.branch.weight.filter(|weight| !(0.0..=1.0).contains(weight)) {
            return Err(Error::config(format!(
                "`branch.weight` is {weight}; it is a share, from 0 to 1"
            )));
        }
        if let Some((columns, of)) = self.node.reals()
            && columns > of
        {
            return Err(Error::config(format!("`node` reads {columns} of {of} columns")));
        }
        if self.head == Head::San && self.dim < 4 {
            return Err(Error::config("`head = \"san\"` halves `dim` twice; use at least 4"));
        }
        if let Local::Pna { towers, aggregators } = &self.local
            && (*towers == 0 || !self.dim.is_multiple_of(*towers) || aggregators.is_empty())
        {
            return Err(Error::config(format!(
                "`local.pna` needs aggregators, and towers that can share `dim`, {}",
                self.dim
            )));
        }
        if self.bias == BiasKind::None {
            return Ok(());
        }
        self.max_distance.per_level(self.levels).map(|_| ())
    }

    /// Checks what is about sampled neighbours and walks on one large graph.
    fn check_samples(&self) -> Result<()> {
        const MOST_NODES: usize = 1 << 20;
        let sampled = self.local.sampled();
        if sampled.is_some() && self.backbone != "goat" {
            return Err(Error::config(
                "`local.sampled` is for the backbone goat; take gcn, sage, gat or none",
            ));
        }
        if let Some(sizes) = sampled {
            let nodes = sizes.iter().try_fold(1usize, |all, &size| {
                all.checked_mul(size.checked_add(1)?).filter(|&all| size > 0 && all <= MOST_NODES)
            });
            if nodes.is_none() || sizes.is_empty() || sizes.len() > 16 {
                return Err(Error::config(format!(
                    "`local.sampled` is {sizes:?}; give 1 to 16 numbers above 0 that reach at most {MOST_NODES} nodes, such as [20, 10, 5]"
                )));
            }
        }
        let Some(walks) = self.encoding.node2vec() else { return Ok(()) };
        if sampled.is_none() {
            return Err(Error::config(
                "`encoding.node2vec` is for goat with sampled neighbours; add `local = { sampled = [20, 10, 5] }`, or leave it out",
            ));
        }
        walks.check()
    }
}
