//! Coarseners: graph in, partition out.
//!
//! A coarsener only decides which nodes belong together; contracting and stacking levels is
//! [`Hierarchy`](crate::Hierarchy)'s work. [`ALL`] lists every algorithm: the command's choices,
//! its help, the documentation tables and the conformance tests are made from it. To add one,
//! write a file with a struct and its [`Entry`], then add the two lines below that name it.
//!
//! Written as text, a coarsener is `name` or `name:key=value,key=value`:
//!
//! ```
//! use hdse::coarsen;
//! let louvain = coarsen::parse("louvain:resolution=0.5")?;
//! assert_eq!(louvain.describe(), "louvain:resolution=0.5");
//! let error = coarsen::parse("luvain").err().unwrap();
//! assert!(error.to_string().contains("did you mean `louvain`?"));
//! # Ok::<(), hdse::Error>(())
//! ```

mod arguments;
mod kmeans;
pub mod label_propagation;
pub mod leiden;
pub mod loukas;
pub mod louvain;
#[cfg(feature = "metis")]
pub mod metis;
mod moving;
pub mod newman;
mod parts;
pub mod random;
mod refinement;
pub mod spectral;

pub use arguments::{Arguments, Parameter};
pub use label_propagation::{LabelPropagation, MaxSize};
pub use leiden::Leiden;
pub use loukas::Loukas;
pub use louvain::Louvain;
#[cfg(feature = "metis")]
pub use metis::Metis;
pub use newman::{Newman, Ties};
pub use parts::Parts;
pub use random::Random;
pub use spectral::Spectral;

use crate::error::unknown;
use crate::monitor::Monitor;
use crate::rng::{Seed, Stream};
use crate::{Error, Graph, MemoryLimit, Partition, Result};

/// Every coarsener, in the order of the documentation.
pub const ALL: &[Entry] = &[
    newman::ENTRY,
    louvain::ENTRY,
    leiden::ENTRY,
    label_propagation::ENTRY,
    #[cfg(feature = "metis")]
    metis::ENTRY,
    spectral::ENTRY,
    loukas::ENTRY,
    random::ENTRY,
];

/// An algorithm that groups the nodes of a graph.
pub trait Coarsener: Send + Sync {
    /// A partition of the nodes. The same graph and context give the same partition, for any
    /// number of threads.
    fn coarsen(&self, graph: &Graph, context: &Context<'_>) -> Result<Partition>;

    /// Name and every parameter, in the form [`parse`] reads. It identifies results.
    fn describe(&self) -> String;
}

/// What a coarsener may use besides the graph.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The seed of the run.
    pub seed: Seed,
    /// Number of the graph within its set.
    pub graph: u64,
    /// The level that is being made, from 1.
    pub level: usize,
    /// Whom to tell about progress, and who may ask to stop.
    pub monitor: &'a dyn Monitor,
    /// The most memory to take.
    pub limit: MemoryLimit,
}

impl Default for Context<'_> {
    /// Seed 0, the first level, and the memory that is free now. Asking the system for that takes longer than a small graph: for many
    /// of these, make one context and change its `graph`.
    fn default() -> Self {
        Context { seed: Seed(0), graph: 0, level: 1, monitor: &(), limit: MemoryLimit::default() }
    }
}

impl Context<'_> {
    /// Random numbers of this graph and level; `name` keeps different uses apart.
    pub fn stream(&self, name: &str) -> Stream {
        self.seed.stream(name, self.graph, self.level as u64)
    }
}

/// An algorithm as it is listed and made from text.
pub struct Entry {
    /// The name to choose it by.
    pub name: &'static str,
    /// One line for lists and help.
    pub summary: &'static str,
    /// Where it was published.
    pub citation: &'static str,
    /// Running time in nodes n and edges m.
    pub complexity: &'static str,
    /// Rough time on one core for n nodes and m edges, in nanoseconds; for estimates.
    pub nanoseconds: fn(n: f64, m: f64) -> f64,
    /// Rough working memory for n nodes and m edges, in bytes; for estimates.
    pub bytes: fn(n: f64, m: f64) -> f64,
    /// Raised whenever the same input may give another partition, so that stored results are not
    /// taken for new ones.
    pub version: u32,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// Makes it from its parameters.
    pub make: fn(&mut Arguments) -> Result<Box<dyn Coarsener>>,
}

/// The entry of the coarsener that `spec` names, whatever its parameters.
pub fn entry(spec: &str) -> Option<&'static Entry> {
    let name = spec.split(':').next().unwrap_or(spec);
    ALL.iter().find(|entry| entry.name == name)
}

/// Makes the coarsener that `spec` describes.
///
/// # Errors
/// If the name or a key is unknown (the nearest one is suggested), or a value is wrong.
pub fn parse(spec: &str) -> Result<Box<dyn Coarsener>> {
    let (name, arguments) = spec.split_once(':').unwrap_or((spec, ""));
    let entry = entry(spec).ok_or_else(|| {
        if name == "metis" {
            return Error::config(
                "this program was built without METIS; build it with the feature `metis`",
            );
        }
        unknown("coarsener", name, ALL.iter().map(|e| e.name), "`hdse list coarseners` shows all")
    })?;
    let mut arguments = Arguments::parse(entry, arguments)?;
    let coarsener = (entry.make)(&mut arguments)?;
    debug_assert!(arguments.is_used_up(), "{name} reads every parameter it lists");
    Ok(coarsener)
}
