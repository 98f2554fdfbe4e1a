//! High-level distances D^c: from nodes to clusters, stored as clusters × clusters.
//!
//! On a graph of a million nodes all pairs are out of reach, but the distance of node v to a
//! level-c cluster depends on v's cluster alone. So [`HighLevel`] keeps the cluster of every node
//! and one |V^c|² table per level k = c … K: a megabyte for a thousand clusters, whatever n is.

use super::{MaxDistance, Scratch, all_pairs_into};
use crate::monitor::Monitor;
use crate::{Error, Graph, Hierarchy, MemoryLimit, Result};

/// Distances between level-c clusters at levels c to K, and the cluster of every node.
///
/// ```
/// use hdse::distance::{HighLevel, MaxDistance};
/// use hdse::{Graph, Hierarchy, MemoryLimit, Partition};
/// let (path, _) = Graph::from_pairs(6, &[(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)])?;
/// let pairs = Partition::new(vec![0, 0, 1, 1, 2, 2])?;
/// let hierarchy = Hierarchy::from_partitions(&path, vec![pairs])?;
/// let high = HighLevel::new(&path, &hierarchy, 1, &MaxDistance::default(), MemoryLimit::default())?;
/// assert_eq!(high.table(1), [0, 1, 2, 1, 0, 1, 2, 1, 0]);
/// assert_eq!(high.get(1, 5, 0), 2); // node 5 to cluster 0
/// # Ok::<(), hdse::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HighLevel {
    level: usize,
    cluster_of: Vec<u32>,
    num_clusters: usize,
    tables: Vec<Vec<u8>>,
}

impl HighLevel {
    /// Computes the tables of levels `level` to K; `level` 0 gives all pairs of nodes.
    ///
    /// # Errors
    /// If the hierarchy has no such level, or the tables need more bytes than `limit`.
    pub fn new(
        graph: &Graph,
        hierarchy: &Hierarchy,
        level: usize,
        max_distance: &MaxDistance,
        limit: MemoryLimit,
    ) -> Result<Self> {
        HighLevel::watched(graph, hierarchy, level, max_distance, limit, &())
    }

    /// [`HighLevel::new`], until `monitor` asks to stop.
    pub fn watched(
        graph: &Graph,
        hierarchy: &Hierarchy,
        level: usize,
        max_distance: &MaxDistance,
        limit: MemoryLimit,
        monitor: &dyn Monitor,
    ) -> Result<Self> {
        if level > hierarchy.levels() {
            return Err(Error::config(format!(
                "high-level distances from level {level}, but the hierarchy has {} levels",
                hierarchy.levels()
            )));
        }
        let num_clusters = hierarchy.num_clusters(level);
        let count = (hierarchy.levels() - level + 1) as u128;
        limit.check(
            count * (num_clusters as u128).pow(2),
            &format!("all pairs of {num_clusters} clusters at {count} level(s)"),
            "start at a coarser level, ask for fewer clusters, or raise `--max-memory`",
        )?;
        let mut scratch = Scratch::default();
        let mut table = |k: usize| -> Result<Vec<u8>> {
            let graph = hierarchy.graph(graph, k);
            let size = graph.num_nodes();
            let mut hops = vec![0; size * size];
            all_pairs_into(graph, max_distance.at(k), &mut hops, &mut scratch, monitor)?;
            if hierarchy.level_index(k) == hierarchy.level_index(level) {
                return Ok(hops);
            }
            // Lift from the clusters of level k to those of `level` through the maps between.
            let up = |c: u32| {
                hierarchy.built()[hierarchy.level_index(level)..hierarchy.level_index(k)]
                    .iter()
                    .fold(c, |id, l| l.partition.cluster_of()[id as usize])
            };
            let rows: Vec<usize> = (0..num_clusters as u32).map(|c| up(c) as usize).collect();
            let lifted = rows.iter().flat_map(|&r| rows.iter().map(move |&s| r * size + s));
            Ok(lifted.map(|i| hops[i]).collect())
        };
        let tables = (level..=hierarchy.levels()).map(&mut table).collect::<Result<_>>()?;
        let cluster_of = hierarchy.ancestors(level).into_owned();
        Ok(HighLevel { level, cluster_of, num_clusters, tables })
    }

    /// The level c whose clusters are the rows and columns.
    pub fn level(&self) -> usize {
        self.level
    }

    /// Number of level-c clusters.
    pub fn num_clusters(&self) -> usize {
        self.num_clusters
    }

    /// Level-c cluster of every node.
    pub fn cluster_of(&self) -> &[u32] {
        &self.cluster_of
    }

    /// Distances at level `k` ≥ c between all level-c clusters, row by row.
    pub fn table(&self, k: usize) -> &[u8] {
        &self.tables[k - self.level]
    }

    /// Distance at level `k` ≥ c from `node` to a level-c cluster.
    pub fn get(&self, k: usize, node: u32, cluster: u32) -> u8 {
        let row = self.cluster_of[node as usize] as usize * self.num_clusters;
        self.table(k)[row + cluster as usize]
    }
}
