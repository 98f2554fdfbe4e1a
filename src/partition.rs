//! A partition φ: every node in exactly one cluster, no cluster empty.
//!
//! ```
//! use hdse::{Graph, Partition};
//! let (graph, _) = Graph::from_pairs(6, &[(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (0, 3)])?;
//! let triangles = Partition::new(vec![0, 0, 0, 1, 1, 1])?;
//! let quality = triangles.quality(&graph);
//! assert_eq!(quality.cut, 1.0);
//! assert!((quality.modularity - 5.0 / 14.0).abs() < 1e-12);
//! # Ok::<(), hdse::Error>(())
//! ```

use serde::Serialize;

use crate::{Error, Graph, Result};

/// Cluster of every node; ids are 0, 1, …, and each occurs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    cluster_of: Vec<u32>,
    num_clusters: usize,
}

impl Partition {
    /// Takes cluster ids as they are.
    ///
    /// # Errors
    /// If the ids are not exactly 0, 1, …, C − 1; the message names the first missing one.
    pub fn new(cluster_of: Vec<u32>) -> Result<Self> {
        let num_clusters = cluster_of.iter().max().map_or(0, |&m| m as usize + 1);
        // A surjection needs at least as many nodes as clusters: no allocation by a wild id.
        if num_clusters > cluster_of.len() {
            return Err(Error::data(format!(
                "cluster id {} among {} nodes leaves clusters empty; number clusters 0, 1, 2, …",
                num_clusters - 1,
                cluster_of.len()
            )));
        }
        let mut used = vec![false; num_clusters];
        for &c in &cluster_of {
            used[c as usize] = true;
        }
        if let Some(empty) = used.iter().position(|&u| !u) {
            return Err(Error::data(format!(
                "cluster {empty} of {num_clusters} has no node; number clusters 0, 1, 2, …"
            )));
        }
        Ok(Partition { cluster_of, num_clusters })
    }

    /// Takes any labels and numbers the clusters by ascending label.
    pub fn from_labels<T: Ord>(labels: &[T]) -> Self {
        let mut distinct: Vec<&T> = labels.iter().collect();
        distinct.sort_unstable();
        distinct.dedup();
        let rank = |label| distinct.binary_search(&label).expect("every label was collected");
        let cluster_of = labels.iter().map(|label| rank(label) as u32).collect();
        Partition { cluster_of, num_clusters: distinct.len() }
    }

    /// Takes small non-negative labels and numbers the clusters by their first node. O(n + max).
    pub(crate) fn by_first_node(labels: &[u32]) -> Self {
        const NEW: u32 = u32::MAX;
        let mut rank = vec![NEW; labels.iter().max().map_or(0, |&m| m as usize + 1)];
        let mut count = 0;
        let mut number = |&label: &u32| {
            let slot = &mut rank[label as usize];
            if *slot == NEW {
                *slot = count;
                count += 1;
            }
            *slot
        };
        let cluster_of = labels.iter().map(&mut number).collect();
        Partition { cluster_of, num_clusters: count as usize }
    }

    /// For callers that number clusters correctly by construction.
    pub(crate) fn trusted(cluster_of: Vec<u32>, num_clusters: usize) -> Self {
        let partition = Partition { cluster_of, num_clusters };
        debug_assert!(Partition::new(partition.cluster_of.clone()).is_ok_and(|p| p == partition));
        partition
    }

    /// Every node alone.
    pub fn singletons(num_nodes: usize) -> Self {
        Partition { cluster_of: (0..num_nodes as u32).collect(), num_clusters: num_nodes }
    }

    /// Number of nodes.
    pub fn num_nodes(&self) -> usize {
        self.cluster_of.len()
    }

    /// Number of clusters.
    pub fn num_clusters(&self) -> usize {
        self.num_clusters
    }

    /// Cluster of every node.
    pub fn cluster_of(&self) -> &[u32] {
        &self.cluster_of
    }

    /// Number of nodes in every cluster.
    pub fn sizes(&self) -> Vec<u32> {
        let mut sizes = vec![0; self.num_clusters];
        for &c in &self.cluster_of {
            sizes[c as usize] += 1;
        }
        sizes
    }

    /// Nodes of every cluster, ascending.
    pub fn members(&self) -> Members {
        let mut offsets = vec![0; self.num_clusters + 1];
        for &c in &self.cluster_of {
            offsets[c as usize + 1] += 1;
        }
        for c in 0..self.num_clusters {
            offsets[c + 1] += offsets[c];
        }
        let mut cursor = offsets.clone();
        let mut nodes = vec![0; self.cluster_of.len()];
        for (node, &c) in self.cluster_of.iter().enumerate() {
            nodes[cursor[c as usize]] = node as u32;
            cursor[c as usize] += 1;
        }
        Members { offsets, nodes }
    }

    /// Clusters of clusters: the partition of the nodes that `coarser`, a partition of these
    /// clusters, induces.
    pub fn compose(&self, coarser: &Partition) -> Partition {
        assert_eq!(coarser.num_nodes(), self.num_clusters, "a partition of these clusters");
        let cluster_of = self.cluster_of.iter().map(|&c| coarser.cluster_of[c as usize]).collect();
        Partition { cluster_of, num_clusters: coarser.num_clusters }
    }

    /// Mean of the rows of `features` (`[n, width]`) over every cluster: `[C, width]`.
    pub fn mean(&self, features: &[f32], width: usize) -> Vec<f32> {
        assert_eq!(features.len(), self.num_nodes() * width, "one row per node");
        let mut sums = vec![0f64; self.num_clusters * width];
        for (node, &c) in self.cluster_of.iter().enumerate() {
            let row = &features[node * width..][..width];
            for (sum, &x) in sums[c as usize * width..].iter_mut().zip(row) {
                *sum += f64::from(x);
            }
        }
        let sizes = self.sizes();
        sums.iter().enumerate().map(|(i, sum)| (sum / f64::from(sizes[i / width])) as f32).collect()
    }

    /// How good this partition of `graph` is.
    pub fn quality(&self, graph: &Graph) -> Quality {
        assert_eq!(self.num_nodes(), graph.num_nodes(), "a partition of this graph");
        let mut degree = vec![0f64; self.num_clusters];
        let (mut total, mut cut) = (0f64, 0f64);
        for (u, v, w) in graph.edges() {
            let (a, b) = (self.cluster_of[u as usize], self.cluster_of[v as usize]);
            let w = f64::from(w);
            degree[a as usize] += w;
            degree[b as usize] += w;
            total += w;
            cut += if a == b { 0.0 } else { w };
        }
        let expected: f64 = degree.iter().map(|d| (d / (2.0 * total)).powi(2)).sum();
        let largest = self.sizes().into_iter().max().unwrap_or(0);
        let average = self.num_nodes() as f64 / self.num_clusters.max(1) as f64;
        let ratio = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
        Quality {
            clusters: self.num_clusters,
            cut,
            cut_fraction: ratio(cut, total),
            modularity: if total > 0.0 { (total - cut) / total - expected } else { 0.0 },
            imbalance: ratio(f64::from(largest), average),
        }
    }
}

/// Nodes grouped by cluster; see [`Partition::members`].
#[derive(Clone, Debug)]
pub struct Members {
    offsets: Vec<usize>,
    nodes: Vec<u32>,
}

impl Members {
    /// Nodes of one cluster, ascending.
    pub fn of(&self, cluster: u32) -> &[u32] {
        &self.nodes[self.offsets[cluster as usize]..self.offsets[cluster as usize + 1]]
    }
}

/// Measures of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quality {
    /// Number of clusters.
    pub clusters: usize,
    /// Total weight of the edges between clusters.
    pub cut: f64,
    /// `cut` over the total weight of all edges; 0 without edges.
    pub cut_fraction: f64,
    /// Newman's modularity Σ_c (w_c / m − (deg_c / 2m)²); 0 without edges.
    pub modularity: f64,
    /// Largest cluster over the average one.
    pub imbalance: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_must_be_contiguous() {
        assert!(Partition::new(vec![0, 2, 0]).is_err());
        assert!(Partition::new(vec![0, u32::MAX]).is_err());
        assert_eq!(Partition::new(vec![]).unwrap().num_clusters(), 0);
        assert_eq!(Partition::from_labels(&[9, 2, 9]).cluster_of(), [1, 0, 1]);
        assert_eq!(Partition::by_first_node(&[9, 2, 9]).cluster_of(), [0, 1, 0]);
    }

    #[test]
    fn mean_is_per_cluster() {
        let p = Partition::new(vec![1, 0, 1]).unwrap();
        assert_eq!(p.mean(&[1., 10., 2., 20., 3., 30.], 2), [2., 20., 2., 20.]);
        assert_eq!(p.sizes(), [1, 2]);
        assert_eq!(p.members().of(1), [0, 2]);
    }

    #[test]
    fn composition_follows_both_maps() {
        let fine = Partition::new(vec![0, 1, 2, 2]).unwrap();
        let coarse = Partition::new(vec![0, 1, 0]).unwrap();
        assert_eq!(fine.compose(&coarse).cluster_of(), [0, 1, 0, 0]);
    }

    #[test]
    fn quality_without_edges_is_zero() {
        let (graph, _) = Graph::from_pairs(3, &[]).unwrap();
        let q = Partition::new(vec![0, 0, 1]).unwrap().quality(&graph);
        assert_eq!((q.modularity, q.cut_fraction), (0.0, 0.0));
        assert!((q.imbalance - 4.0 / 3.0).abs() < 1e-12);
    }
}
