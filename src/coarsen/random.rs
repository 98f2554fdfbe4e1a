//! `random`: the control. Nodes are dealt to clusters at random, so whatever a model gains over
//! this partition it owes to *which* nodes belong together, not to there being clusters.
//!
//! Either k parts of equal size (`clusters`, or `ratio` · n), or, with `like=NAME`, as many clusters
//! of the same sizes as another coarsener finds on the same graph.
//!
//! * **Complexity**: O(n), plus the other coarsener for `like`.
//! * **Determinism**: by seed, graph number and level. Not label-invariant, on purpose.
//!
//! ```
//! use hdse::coarsen::{self, Context};
//! use hdse::Graph;
//! let (graph, _) = Graph::from_pairs(10, &[(0, 1)])?;
//! let partition = coarsen::parse("random:clusters=4")?.coarsen(&graph, &Context::default())?;
//! let mut sizes = partition.sizes();
//! sizes.sort();
//! assert_eq!(sizes, [2, 2, 3, 3]);
//! # Ok::<(), hdse::Error>(())
//! ```

use super::parts::{self, Parts};
use super::{Coarsener, Context, Entry, Parameter, parse};
use crate::error::Context as _;
use crate::{Error, Graph, Partition, Result};

/// Random clusters; see the [module documentation](self).
pub enum Random {
    /// This many parts of equal size.
    Parts(Parts),
    /// The cluster sizes that another coarsener finds.
    Like(Box<dyn Coarsener>),
}

pub(super) const ENTRY: Entry = Entry {
    name: "random",
    summary: "control: random clusters of equal sizes, or of another coarsener's sizes",
    citation: "the control of this project's experiments",
    complexity: "O(n)",
    nanoseconds: |n, _| 10.0 * n,
    bytes: |n, _| 16.0 * n,
    version: 1,
    parameters: &[
        parts::CLUSTERS,
        parts::RATIO,
        Parameter { name: "like", default: "-", help: "coarsener whose cluster sizes to keep" },
    ],
    make: |arguments| {
        let parts = Parts::take(arguments)?;
        let plain = |name: &String| !name.contains(':');
        let name = "the name of a coarsener, which then has its default parameters";
        let like = arguments.take_or("like", String::new(), name, plain)?;
        if !like.is_empty() && matches!(parts, Parts::Clusters(_)) {
            return Err(Error::config("random takes `clusters` or `like`, not both"));
        }
        Ok(Box::new(match like.as_str() {
            name if !name.is_empty() => Random::Like(parse(name).context(|| "random:like".into())?),
            _ => Random::Parts(parts),
        }))
    },
};

impl Coarsener for Random {
    fn coarsen(&self, graph: &Graph, context: &Context<'_>) -> Result<Partition> {
        let n = graph.num_nodes();
        let mut labels: Vec<u32> = match self {
            Random::Parts(parts) => {
                let count = parts.count(n, context.level);
                (0..n).map(|i| (i % count) as u32).collect()
            }
            Random::Like(other) => other.coarsen(graph, context)?.cluster_of().to_vec(),
        };
        context.stream("random").shuffle(&mut labels);
        Ok(Partition::by_first_node(&labels))
    }

    fn describe(&self) -> String {
        match self {
            Random::Parts(parts) => format!("random:{}", parts.describe()),
            Random::Like(other) => {
                let other = other.describe();
                format!("random:like={}", other.split(':').next().unwrap_or(&other))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_keeps_the_sizes() {
        let ring: Vec<(u32, u32)> = (0..24).map(|u| (u, (u + 1) % 24)).collect();
        let (graph, _) = Graph::from_pairs(24, &ring).unwrap();
        let context = Context::default();
        let sorted = |spec| {
            let mut sizes = parse(spec).unwrap().coarsen(&graph, &context).unwrap().sizes();
            sizes.sort_unstable();
            sizes
        };
        assert_eq!(sorted("random:like=louvain"), sorted("louvain"));
        assert!(sorted("louvain").len() > 1);
    }

    #[test]
    fn never_more_clusters_than_nodes() {
        let (graph, _) = Graph::from_pairs(3, &[]).unwrap();
        let many = Random::Parts(9.into()).coarsen(&graph, &Context::default()).unwrap();
        assert_eq!(many.num_clusters(), 3);
    }
}
