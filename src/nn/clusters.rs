//! Clusters that nodes attend to, and how far apart these are.

use std::sync::{Arc, OnceLock};

use super::ops::propagate::Propagation;
use super::ops::rows::Groups;
use crate::distance::{Codes, HighLevel};

/// Nodes by cluster, and a code for the distances between any two clusters. A cluster may have no node, as happens when
/// a batch has only some nodes of a graph.
#[derive(Clone, Debug)]
pub struct Clusters {
    nodes: Arc<Groups>,
    /// Nodes of every cluster in the whole graph.
    graph_sizes: Arc<Vec<u32>>,
    codes: Option<Arc<Codes>>,
    /// The same as numbers of 32 bits.
    numbers: Arc<OnceLock<Arc<Vec<u32>>>>,
    means: OnceLock<Arc<Propagation>>,
}

impl Clusters {
    /// `count` clusters by the cluster of every node; `codes` of all pairs of clusters, row by row, where there are
    /// distances.
    ///
    /// # Panics
    /// If a cluster is not below `count`, or there is not one code for each pair.
    pub fn new(cluster_of: Vec<u32>, count: usize, codes: Option<Codes>) -> Clusters {
        let complete = codes.as_ref().is_none_or(|codes| codes.len() == count * count);
        assert!(complete, "a code for each pair of clusters");
        let nodes = Groups::new(cluster_of, count);
        Clusters {
            graph_sizes: Arc::new(nodes.sizes().map(|size| size as u32).collect()),
            nodes,
            codes: codes.map(Arc::new),
            numbers: Arc::default(),
            means: OnceLock::new(),
        }
    }

    /// `count` clusters that all nodes belong to alike.
    pub(super) fn whole(nodes: usize, count: usize) -> Clusters {
        Clusters::new(vec![0; nodes], count, None)
    }

    /// The clusters of high-level distances, with these.
    pub fn of(distances: &HighLevel, levels: usize) -> Clusters {
        let count = distances.num_clusters();
        let tables: Vec<&[u8]> =
            (distances.level()..=levels).map(|level| distances.table(level)).collect();
        let tuples: Vec<u8> = (0..count * count)
            .flat_map(|pair| tables.iter().map(move |table| table[pair]))
            .collect();
        let codes = Codes::from_tuples(&tuples, tables.len());
        Clusters::new(distances.cluster_of().to_vec(), count, Some(codes))
    }

    /// The same clusters and distances for the nodes that `cluster_of` is about, some of those of the graph.
    ///
    /// # Panics
    /// If a cluster is not below the number of clusters.
    pub fn with_nodes(&self, cluster_of: Vec<u32>) -> Clusters {
        let nodes = Groups::new(cluster_of, self.len());
        let (codes, numbers) = (self.codes.clone(), self.numbers.clone());
        let graph_sizes = self.graph_sizes.clone();
        Clusters { nodes, graph_sizes, codes, numbers, means: OnceLock::new() }
    }

    /// Number of clusters.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no cluster.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Nodes by cluster.
    pub fn nodes(&self) -> &Arc<Groups> {
        &self.nodes
    }

    /// Nodes of every cluster in the whole graph, of which a batch may have some.
    pub fn graph_sizes(&self) -> &[u32] {
        &self.graph_sizes
    }

    /// The mean over the nodes of every cluster; 0 where there is none.
    pub(super) fn means(&self) -> &Arc<Propagation> {
        self.means.get_or_init(|| {
            let scale: Vec<f32> = self.nodes.sizes().map(|size| 1.0 / size.max(1) as f32).collect();
            let cluster_of = self.nodes.of_row();
            let factors = cluster_of.iter().map(|&cluster| scale[cluster as usize]).collect();
            // Node i is the arc from i to its cluster.
            let count = cluster_of.len();
            let each = Groups::new((0..count as u32).collect(), count);
            Arc::new(Propagation::new(each, self.nodes.clone(), factors))
        })
    }

    /// The code of each pair of clusters as a number of 32 bits, row by row.
    pub(super) fn code_numbers(&self) -> Option<Arc<Vec<u32>>> {
        let codes = self.codes.as_ref()?;
        Some(self.numbers.get_or_init(|| Arc::new(codes.iter().collect())).clone())
    }

    /// The code of each pair of clusters, row by row.
    pub fn codes(&self) -> Option<&Codes> {
        self.codes.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distance::MaxDistance;
    use crate::{Graph, Hierarchy, MemoryLimit, Partition};

    #[test]
    fn codes_stand_for_the_distances_of_all_levels() {
        let pairs: Vec<(u32, u32)> = (0..7).map(|node| (node, node + 1)).collect();
        let (path, _) = Graph::from_pairs(8, &pairs).unwrap();
        let fine = Partition::new(vec![0, 0, 1, 1, 2, 2, 3, 3]).unwrap();
        let coarse = Partition::new(vec![0, 0, 1, 1]).unwrap();
        let hierarchy = Hierarchy::from_partitions(&path, vec![fine, coarse]).unwrap();
        let clip = MaxDistance::default();
        let distances = HighLevel::new(&path, &hierarchy, 1, &clip, MemoryLimit::NONE).unwrap();
        let clusters = Clusters::of(&distances, 2);
        let codes = clusters.codes().unwrap();
        let tuple = |a: usize, b: usize| codes.codebook().row(codes.get(a * 4 + b));
        assert_eq!(
            (tuple(0, 3), tuple(0, 1), tuple(2, 2)),
            (&[3, 1][..], &[1, 0][..], &[0, 0][..])
        );
        let some = clusters.with_nodes(vec![3, 3]);
        assert_eq!(
            (some.len(), some.nodes().rows(3), some.nodes().rows(0)),
            (4, &[0, 1][..], &[][..])
        );
        assert_eq!((clusters.graph_sizes(), some.graph_sizes()), (&[2; 4][..], &[2; 4][..]));
    }
}
