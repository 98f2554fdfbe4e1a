//! Graph transformers and their parts.
//!
//! A model is a [`Backbone`], one file each, made from a [`ModelConfig`]; its numbers are
//! [`Parameters`], and a [`Pass`] runs it on a [`Batch`]. Every backbone has the distance bias as one
//! option, so M and M + HDSE are one file and one word of configuration. What is here is composed of
//! tensor operations (burn), plus a few kernels of our own with composed twins ([`attention`],
//! [`gather`], [`sum`], [`softplus`], and in [`BatchNorm`]); it is the definition that faster paths
//! are held to.
//!
//! ```
//! use hdse::data::{Edges, Matrix, Values};
//! use hdse::distance::{Codes, Distances, MaxDistance};
//! use hdse::nn::{Batch, Model, ModelConfig, Pass, values};
//! use hdse::rng::Seed;
//! use hdse::{Graph, Hierarchy, MemoryLimit, coarsen};
//!
//! // Two triangles, joined.
//! let pairs = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (5, 3)];
//! let (graph, _) = Graph::from_pairs(6, &pairs)?;
//! let newman = coarsen::parse("newman")?;
//! let hierarchy = Hierarchy::build(&graph, &*newman, 1, &coarsen::Context::default())?;
//! let clip = MaxDistance::default();
//! let distances = Distances::new(&graph, &hierarchy, &clip, MemoryLimit::NONE)?;
//! let (sources, targets) = pairs.iter().flat_map(|&(u, v)| [(u, v), (v, u)]).unzip();
//! let batch = Batch {
//!     sizes: vec![6],
//!     edges: Edges { sources, targets },
//!     node_features: Some(Matrix { width: 1, values: Values::Int(vec![0, 0, 1, 1, 0, 0]) }),
//!     codes: Some(Codes::new(&distances)),
//!     ..Batch::default()
//! };
//!
//! let config: ModelConfig = serde_json::from_str(
//!     r#"{ "backbone": "gps", "dim": 16, "heads": 4, "layers": 2, "local": "gine",
//!          "node": { "types": 2 }, "edge": "dummy", "pool": "mean", "head": "san", "outputs": 1 }"#,
//! )?;
//! let model = Model::new(&config, Seed(0))?;
//! let pass = Pass::eval(&model.parameters);
//! let prediction = model.backbone.forward(&pass, &batch)?;
//! assert_eq!(values(prediction).len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod attention;
mod batch;
mod bias;
mod branch;
mod cluster_attention;
mod clusters;
mod codebook;
pub mod config;
mod encoder;
pub mod fused;
pub mod gnn;
pub mod goat;
pub mod gps;
pub mod grit;
pub mod gt;
mod head;
mod layers;
pub mod message;
mod ops;
mod parameters;
mod pass;
mod prepare;
mod sampled_attention;
pub mod sampled_goat;
mod samples;
pub mod sat;
pub mod sgformer;
mod sign_net;
mod states;
mod subgraphs;
mod walks;

pub use attention::MultiHead;
pub use batch::{Batch, Settled, Spectrum, Structure};
pub use bias::Bias;
pub use clusters::Clusters;
pub use config::ModelConfig;
pub use layers::{BatchNorm, Dropout, Embedding, FeedForward, LayerNorm, Linear, normalise_rows};
pub use ops::attention::{Inputs, Pairs, attention};
pub use ops::features::FeatureRows;
pub use ops::rows::{Groups, gather, max, sum};
pub use ops::softplus::softplus;
pub use parameters::{Builder, Entry, Init, Param, Parameters, Scope};
pub use pass::{Mode, Pass, Statistics, Traced, cpu, matrix, values, vector};
pub use prepare::prepare;
pub use samples::{Sampled, Samples};
pub use states::States;
pub use subgraphs::Subgraphs;
pub use walks::Walks;

use std::path::Path;

use burn::tensor::Tensor;

use crate::data::arrays;
use crate::error::did_you_mean;
use crate::rng::Seed;
use crate::{Error, Result};

/// A network from a batch to predictions.
pub trait Backbone: std::fmt::Debug + Send + Sync {
    /// `[graphs or nodes, outputs]`.
    fn forward(&self, pass: &Pass, batch: &Batch) -> Result<Tensor<2>>;

    /// Whether its layers can run as one operation.
    fn is_fused(&self) -> bool {
        false
    }
}

/// A backbone that can be chosen by name.
#[derive(Debug)]
pub struct BackboneEntry {
    /// What it is called in configurations.
    pub name: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    /// Who described it.
    pub citation: &'static str,
    /// Makes it, with its parameters in a scope.
    pub make: fn(&mut Scope, &ModelConfig) -> Result<Box<dyn Backbone>>,
}

/// Every backbone.
pub const ALL: &[BackboneEntry] = &[
    gps::ENTRY,
    gt::ENTRY,
    sat::ENTRY,
    grit::ENTRY,
    goat::ENTRY,
    gnn::GCN,
    gnn::SAGE,
    gnn::GAT,
    gnn::MLP,
    sgformer::ENTRY,
];

/// The backbone called `name`.
///
/// # Errors
/// If there is none; the nearest name is suggested.
pub fn backbone(name: &str) -> Result<&'static BackboneEntry> {
    ALL.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let names = || ALL.iter().map(|entry| entry.name);
        let hint = did_you_mean(name, names());
        let all = names().collect::<Vec<_>>().join(", ");
        Error::config(format!("unknown backbone `{name}`{hint} (there are {all})"))
    })
}

/// A backbone with its parameters.
#[derive(Debug)]
pub struct Model {
    /// What it was made from.
    pub config: ModelConfig,
    /// The network.
    pub backbone: Box<dyn Backbone>,
    /// Its numbers.
    pub parameters: Parameters,
}

impl Model {
    /// The model of a configuration, with the initial values of a seed.
    pub fn new(config: &ModelConfig, seed: Seed) -> Result<Model> {
        let entry = backbone(&config.backbone)?;
        let mut builder = Builder::new(seed);
        let backbone = (entry.make)(&mut builder.root(), config)?;
        Ok(Model { config: config.clone(), backbone, parameters: builder.finish() })
    }

    /// Writes parameters and configuration as safetensors.
    pub fn save(&self, path: &Path, replace: bool) -> Result<()> {
        let config = serde_json::to_string(&self.config)
            .map_err(|e| Error::config(format!("the configuration cannot be written: {e}")))?;
        self.parameters.save(path, replace, &config)
    }

    /// Reads a model that [`Model::save`] wrote.
    pub fn open(path: &Path) -> Result<Model> {
        let named = |e: Error| e.context(path.display().to_string());
        let reader = arrays::open(path)?;
        let config: ModelConfig = serde_json::from_str(reader.metadata()).map_err(|e| {
            named(Error::data(format!(
                "it has no configuration of a model in it ({e}); make the model from its configuration \
                 and use `Parameters::load` for weights from elsewhere"
            )))
        })?;
        let mut model = Model::new(&config, Seed(0)).map_err(named)?;
        model.parameters.load(path, "")?;
        Ok(model)
    }
}

/// Traces the bias of a layer, pair by pair: `[pairs, heads]`.
fn record_bias(pass: &Pass, structure: &Structure, layer: usize, table: &Tensor<2>) {
    if let Some(codes) = structure.pairs.codes().filter(|_| pass.is_traced()) {
        let heads = table.dims()[1];
        let table = values(table.clone().detach());
        let row = |&code: &u32| &table[code as usize * heads..][..heads];
        let bias: Vec<f32> = codes.iter().flat_map(row).copied().collect();
        pass.record_values(format!("layers.{layer}.bias"), [codes.len(), heads], bias);
    }
}
