//! How many clusters, for coarseners that are told: a share of the nodes, or a number for each level.

use std::str::FromStr;

use super::{Arguments, Parameter};
use crate::Result;

/// How many clusters to make.
#[derive(Clone, Debug, PartialEq)]
pub enum Parts {
    /// This share of the nodes, at least 2 where there are 4 nodes.
    Ratio(f64),
    /// These numbers, one for each level; the last holds for all further levels.
    Clusters(Vec<usize>),
}

impl Default for Parts {
    fn default() -> Self {
        Parts::Ratio(0.1)
    }
}

impl From<usize> for Parts {
    fn from(clusters: usize) -> Self {
        Parts::Clusters(vec![clusters])
    }
}

pub(super) const CLUSTERS: Parameter = Parameter {
    name: "clusters",
    default: "-",
    help: "number of clusters, or one for each level as in 1024/32; overrides ratio",
};
pub(super) const RATIO: Parameter =
    Parameter { name: "ratio", default: "0.1", help: "clusters per node, in (0, 1]" };

/// `1024/32`.
#[derive(Default)]
struct PerLevel(Vec<usize>);

impl FromStr for PerLevel {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let count = |text: &str| text.parse().ok().filter(|&k| k >= 1).ok_or(());
        text.split('/').map(count).collect::<Result<_, ()>>().map(PerLevel)
    }
}

impl Parts {
    /// Takes `clusters` and `ratio` from what was given.
    pub(super) fn take(arguments: &mut Arguments) -> Result<Parts> {
        let clusters =
            arguments.take("clusters", "a whole number ≥ 1, or several as in 1024/32")?;
        let in_range = |r: &f64| *r > 0.0 && *r <= 1.0;
        let ratio = arguments.take_or("ratio", 0.1, "a number in (0, 1]", in_range)?;
        Ok(match clusters {
            Some(PerLevel(clusters)) => Parts::Clusters(clusters),
            None => Parts::Ratio(ratio),
        })
    }

    /// Clusters of a graph of `num_nodes` nodes at `level`, which counts from 1: between 1 and the number of
    /// nodes.
    pub fn count(&self, num_nodes: usize, level: usize) -> usize {
        let wanted = match self {
            Parts::Ratio(ratio) => {
                let least = if num_nodes >= 4 { 2 } else { 1 };
                ((num_nodes as f64 * ratio).ceil() as usize).max(least)
            }
            Parts::Clusters(counts) => {
                let last = counts.len().saturating_sub(1);
                counts.get(level.saturating_sub(1).min(last)).copied().unwrap_or(1)
            }
        };
        wanted.clamp(1, num_nodes.max(1))
    }

    /// As [`take`](Parts::take) reads it.
    pub(super) fn describe(&self) -> String {
        match self {
            Parts::Ratio(ratio) => format!("ratio={ratio}"),
            Parts::Clusters(counts) => {
                let counts: Vec<String> = counts.iter().map(usize::to_string).collect();
                format!("clusters={}", counts.join("/"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_follow_nodes_and_levels() {
        let ratio = Parts::Ratio(0.1);
        let counts = [0, 1, 3, 4, 23, 100].map(|n| ratio.count(n, 1));
        assert_eq!(counts, [1, 1, 1, 2, 3, 10]);
        let listed = Parts::Clusters(vec![1024, 32]);
        assert_eq!([1, 2, 3].map(|level| listed.count(10_000, level)), [1024, 32, 32]);
        assert_eq!(listed.count(5, 1), 5);
    }

    #[test]
    fn lists_are_read_and_written() {
        for spec in ["random:clusters=1024/32", "random:clusters=7", "random:ratio=0.25"] {
            assert_eq!(super::super::parse(spec).unwrap().describe(), spec);
        }
        for spec in ["random:clusters=1024/", "random:clusters=0", "random:clusters=3/x"] {
            let error = super::super::parse(spec).err().unwrap().to_string();
            assert!(error.contains("1024/32"), "{error}");
        }
    }
}
