//! Hop distances at every level of a hierarchy.
//!
//! The hierarchical distance of two nodes at level k is the number of edges between their level-k
//! clusters in the level-k graph:
//!
//! GHD^k(u, v) = hops in G^k from φ_k(u) to φ_k(v),  GHD^0 = shortest-path distance.
//!
//! Distances are exact, one byte each: values above the clip [`MaxDistance`] are stored as the
//! clip, and [`UNREACHABLE`] (255) means there is no path. They are kept at cluster size and
//! lifted to node pairs on reading, so level k costs |V^k|² bytes.
//!
//! * [`Distances`]: all pairs of nodes, all levels.
//! * [`HighLevel`]: clusters only, for graphs too large for all pairs of nodes.
//! * [`Codes`]: one small integer per pair into the list of distinct distance tuples.
//! * [`all_pairs`], [`between`]: plain hop distances of one graph.
//!
//! Luo, Li, Liu, Zhang, Guo & Wang, "Enhancing Graph Transformers with Hierarchical Distance
//! Structural Encoding", NeurIPS 2024.
//!
//! ```
//! use hdse::coarsen::{self, Context};
//! use hdse::distance::{Codes, Distances, MaxDistance, UNREACHABLE};
//! use hdse::{Graph, Hierarchy, MemoryLimit};
//! // A path of four nodes, and an isolated one.
//! let (graph, _) = Graph::from_pairs(5, &[(0, 1), (1, 2), (2, 3)])?;
//! let newman = coarsen::parse("newman")?;
//! let hierarchy = Hierarchy::build(&graph, newman.as_ref(), 1, &Context::default())?;
//! let distances =
//!     Distances::new(&graph, &hierarchy, &MaxDistance::default(), MemoryLimit::default())?;
//! assert_eq!(distances.get(0, 0, 3), 3); // three hops apart,
//! assert_eq!(distances.get(1, 0, 3), 1); // in neighbouring clusters {0, 1} and {2, 3}
//! assert_eq!(distances.get(0, 0, 4), UNREACHABLE);
//! let codes = Codes::new(&distances);
//! assert_eq!(codes.codebook().row(codes.get(3)), [3, 1]); // pair (0, 3)
//! # Ok::<(), hdse::Error>(())
//! ```

mod bfs;
mod codes;
mod high_level;

pub use bfs::{Scratch, all_pairs, all_pairs_into, between};
pub use codes::{Codebook, Codes};
pub use high_level::HighLevel;

use crate::monitor::Monitor;
use crate::{Error, Graph, Hierarchy, MemoryLimit, Result};

/// Stored where no path exists.
pub const UNREACHABLE: u8 = 255;

/// The clip L of every level: a distance above it is stored as L.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaxDistance(Vec<u8>);

impl std::fmt::Display for MaxDistance {
    /// As [`MaxDistance::parse`] reads it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let clips: Vec<String> = self.0.iter().map(u8::to_string).collect();
        f.write_str(&clips.join("/"))
    }
}

impl Default for MaxDistance {
    /// 30 at every level, the paper's value.
    fn default() -> Self {
        MaxDistance(vec![30])
    }
}

impl MaxDistance {
    /// One value per level from level 0 on; the last one holds for all further levels.
    ///
    /// # Errors
    /// If there is none, or one is 0 or above 254.
    pub fn new(per_level: &[usize]) -> Result<Self> {
        if per_level.is_empty() {
            return Err(Error::config("a maximum distance needs at least one value"));
        }
        let check = |&l: &usize| match l {
            1..=254 => Ok(l as u8),
            _ => Err(Error::config(format!(
                "maximum distance {l} is not between 1 and 254 (255 stands for unreachable)"
            ))),
        };
        Ok(MaxDistance(per_level.iter().map(check).collect::<Result<_>>()?))
    }

    /// Reads `30` or, one per level, `30/10`.
    pub fn parse(text: &str) -> Result<Self> {
        let number = |part: &str| {
            part.trim().parse().map_err(|_| {
                Error::config(format!(
                    "`{text}` is not a maximum distance; write 30, or 30/10 for one per level"
                ))
            })
        };
        MaxDistance::new(&text.split('/').map(number).collect::<Result<Vec<usize>>>()?)
    }

    /// How many values were given.
    #[expect(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The clip at `level`.
    pub fn at(&self, level: usize) -> u8 {
        self.0[level.min(self.0.len() - 1)]
    }
}

/// Distances between all pairs of nodes at levels 0 to K, kept at cluster size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distances {
    num_nodes: usize,
    tables: Vec<Table>,
}

/// All-pairs distances of one level.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Table {
    /// Row of every node in `hops`; empty at level 0, where nodes are their own row.
    ancestors: Vec<u32>,
    clusters: usize,
    hops: Vec<u8>, // [clusters, clusters]
}

impl Distances {
    /// Computes all levels of `hierarchy`, which was built on `graph`.
    ///
    /// # Errors
    /// If the result needs more bytes than `limit`.
    pub fn new(
        graph: &Graph,
        hierarchy: &Hierarchy,
        max_distance: &MaxDistance,
        limit: MemoryLimit,
    ) -> Result<Self> {
        let scratch = &mut Scratch::default();
        Distances::with_scratch(graph, hierarchy, max_distance, limit, scratch, &())
    }

    /// [`Distances::new`] with working memory that is reused from graph to graph, until `monitor` asks
    /// to stop.
    pub fn with_scratch(
        graph: &Graph,
        hierarchy: &Hierarchy,
        max_distance: &MaxDistance,
        limit: MemoryLimit,
        scratch: &mut Scratch,
        monitor: &dyn Monitor,
    ) -> Result<Self> {
        assert_eq!(graph.num_nodes(), hierarchy.num_nodes(), "a hierarchy on this graph");
        let square = |k| (hierarchy.num_clusters(k) as u128).pow(2);
        let bytes = (0..=hierarchy.levels()).map(square).sum();
        limit.check(
            bytes,
            &format!("all pairs of {} nodes", graph.num_nodes()),
            "use high-level distances (`--high-level 1`), a subset of sources and targets \
             (`distance::between`), or a higher `--max-memory`",
        )?;
        let mut tables: Vec<Table> = Vec::with_capacity(hierarchy.levels() + 1);
        for level in 0..=hierarchy.levels() {
            let index = hierarchy.level_index(level);
            // A level that was not built repeats the last one.
            let repeats = level > 0
                && index == hierarchy.level_index(level - 1)
                && max_distance.at(level) == max_distance.at(level - 1);
            if repeats {
                tables.push(tables[level - 1].clone());
                continue;
            }
            let graph = hierarchy.graph(graph, level);
            let clusters = graph.num_nodes();
            let mut hops = vec![0; clusters * clusters];
            all_pairs_into(graph, max_distance.at(level), &mut hops, scratch, monitor)?;
            let ancestors = match index {
                0 => Vec::new(),
                _ => hierarchy.ancestors(level).into_owned(),
            };
            tables.push(Table { ancestors, clusters, hops });
        }
        Ok(Distances { num_nodes: graph.num_nodes(), tables })
    }

    /// Number of nodes.
    pub fn num_nodes(&self) -> usize {
        self.num_nodes
    }

    /// Number of levels K above the graph; every pair has K + 1 distances.
    pub fn levels(&self) -> usize {
        self.tables.len() - 1
    }

    /// Distance of `u` and `v` at `level`.
    pub fn get(&self, level: usize, u: u32, v: u32) -> u8 {
        let table = &self.tables[level];
        let row = |node: u32| table.ancestors.get(node as usize).map_or(node, |&a| a) as usize;
        table.hops[row(u) * table.clusters + row(v)]
    }

    /// Distances at `level` between all of its clusters, row by row.
    pub fn table(&self, level: usize) -> &[u8] {
        &self.tables[level].hops
    }

    /// Writes the distances of all pairs to `out`, `[n · n, K + 1]` with the level last.
    pub fn lift_into(&self, out: &mut [u8]) {
        let n = self.num_nodes;
        assert_eq!(out.len(), n * n * self.tables.len(), "n · n · (K + 1) bytes");
        match self.tables.len() {
            1 => out.copy_from_slice(&self.tables[0].hops),
            2 => self.lift::<2>(out),
            3 => self.lift::<3>(out),
            4 => self.lift::<4>(out),
            width => {
                for level in 0..width {
                    let cells = out.iter_mut().skip(level).step_by(width);
                    for (pair, cell) in cells.enumerate() {
                        *cell = self.get(level, (pair / n) as u32, (pair % n) as u32);
                    }
                }
            }
        }
    }

    fn lift<const WIDTH: usize>(&self, out: &mut [u8]) {
        let n = self.num_nodes;
        let (cells, _) = out.as_chunks_mut::<WIDTH>();
        for (level, table) in self.tables.iter().enumerate() {
            for u in 0..n {
                let cells = &mut cells[u * n..][..n];
                if table.ancestors.is_empty() {
                    for (cell, &d) in cells.iter_mut().zip(&table.hops[u * n..][..n]) {
                        cell[level] = d;
                    }
                } else {
                    let row = table.ancestors[u] as usize * table.clusters;
                    let row = &table.hops[row..][..table.clusters];
                    for (cell, &v) in cells.iter_mut().zip(&table.ancestors) {
                        cell[level] = row[v as usize];
                    }
                }
            }
        }
    }

    /// The distances of all pairs, `[n · n, K + 1]` with the level last.
    pub fn lifted(&self) -> Vec<u8> {
        let mut out = vec![0; self.num_nodes * self.num_nodes * self.tables.len()];
        self.lift_into(&mut out);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Partition;

    #[test]
    fn clip_is_per_level() {
        let clip = MaxDistance::parse("30/10").unwrap();
        assert_eq!([clip.at(0), clip.at(1), clip.at(7)], [30, 10, 10]);
        for wrong in ["", "0", "255", "30/", "a", "-3"] {
            assert!(MaxDistance::parse(wrong).unwrap_err().is_config(), "{wrong}");
        }
    }

    #[test]
    fn lifting_agrees_with_single_reads_at_every_width() {
        let n = 70u32;
        let pairs: Vec<(u32, u32)> = (1..n).map(|v| (v / 3, v)).collect();
        let (graph, _) = Graph::from_pairs(n as usize, &pairs).unwrap();
        for levels in 0..6 {
            let mut size = n;
            let halve = |size: &mut u32| {
                let ids = (0..*size).map(|u| u / 2).collect();
                *size = size.div_ceil(2);
                Partition::new(ids).unwrap()
            };
            let partitions = (0..levels).map(|_| halve(&mut size)).collect();
            let hierarchy = Hierarchy::from_partitions(&graph, partitions).unwrap();
            let d = Distances::new(&graph, &hierarchy, &MaxDistance::default(), MemoryLimit::NONE)
                .unwrap();
            let lifted = d.lifted();
            for (i, &x) in lifted.iter().enumerate() {
                let (pair, level) = (i / (levels + 1), i % (levels + 1));
                let (u, v) = (pair as u32 / n, pair as u32 % n);
                assert_eq!(x, d.get(level, u, v));
            }
        }
    }

    #[test]
    fn too_many_pairs_are_refused() {
        let (graph, _) = Graph::from_pairs(100, &[]).unwrap();
        let flat = Hierarchy::flat(100);
        let error =
            Distances::new(&graph, &flat, &MaxDistance::default(), MemoryLimit(9_999)).unwrap_err();
        assert!(error.is_memory());
        assert!(error.to_string().contains("all pairs of 100 nodes needs 9.8 KiB"), "{error}");
    }
}
