//! A hierarchy: coarsen a graph, contract it, repeat.
//!
//! Level 0 is the graph itself. Level k + 1 partitions the nodes of level k and its graph is the
//! quotient, so every node has one *ancestor* per level. A level that would not shrink any more is
//! not built: it and all later ones equal the last one that did, and [`Hierarchy::built`] tells.
//!
//! ```
//! use hdse::coarsen::{self, Context};
//! use hdse::{Graph, Hierarchy};
//! // Two triangles joined by an edge.
//! let (graph, _) = Graph::from_pairs(6, &[(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3)])?;
//! let newman = coarsen::parse("newman")?;
//! let hierarchy = Hierarchy::build(&graph, newman.as_ref(), 1, &Context::default())?;
//! assert_eq!(hierarchy.ancestors(1).as_ref(), [0, 0, 0, 1, 1, 1]);
//! # Ok::<(), hdse::Error>(())
//! ```

use std::borrow::Cow;

use crate::coarsen::{Coarsener, Context};
use crate::{Error, Graph, Partition, Result};

/// The levels above a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Hierarchy {
    num_nodes: usize,
    requested: usize,
    levels: Vec<Level>,
}

/// One level above the graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Cluster of every node of the level below (φ).
    pub partition: Partition,
    /// The quotient graph; weights are numbers (or total weights) of the edges it stands for.
    pub graph: Graph,
}

impl Hierarchy {
    /// Applies `coarsener` up to `levels` times.
    pub fn build(
        graph: &Graph,
        coarsener: &dyn Coarsener,
        levels: usize,
        context: &Context<'_>,
    ) -> Result<Self> {
        let mut hierarchy = Hierarchy::flat(graph.num_nodes());
        for level in 1..=levels {
            let below = hierarchy.levels.last().map_or(graph, |l| &l.graph);
            let partition = coarsener.coarsen(below, &Context { level, ..*context })?;
            if partition.num_clusters() == below.num_nodes() {
                break;
            }
            let graph = below.contract(&partition);
            hierarchy.levels.push(Level { partition, graph });
        }
        hierarchy.requested = levels;
        Ok(hierarchy)
    }

    /// Takes given partitions: the first of the nodes of `graph`, each further one of the clusters
    /// of the one before.
    ///
    /// # Errors
    /// If a partition has another number of nodes than there are clusters below it.
    pub fn from_partitions(graph: &Graph, partitions: Vec<Partition>) -> Result<Self> {
        let mut hierarchy = Hierarchy::flat(graph.num_nodes());
        hierarchy.requested = partitions.len();
        for (k, partition) in partitions.into_iter().enumerate() {
            let below = hierarchy.levels.last().map_or(graph, |l| &l.graph);
            if partition.num_nodes() != below.num_nodes() {
                return Err(Error::data(format!(
                    "the partition of level {} assigns {} nodes, but level {k} has {}",
                    k + 1,
                    partition.num_nodes(),
                    below.num_nodes()
                )));
            }
            let graph = below.contract(&partition);
            hierarchy.levels.push(Level { partition, graph });
        }
        Ok(hierarchy)
    }

    /// Takes the cluster of every node at levels 1 … K, `[n, K]`, as
    /// [`write_clusters`](crate::encode::write_clusters) writes it. Last levels that repeat the one below
    /// count as not built.
    ///
    /// # Errors
    /// If there is not a number for every node and level, if clusters do not nest, or if the ids of
    /// a level are not exactly 0, 1, …
    pub fn from_clusters(graph: &Graph, clusters: &[u32], levels: usize) -> Result<Self> {
        let n = graph.num_nodes();
        if clusters.len() != n * levels {
            return Err(Error::data(format!(
                "{} cluster ids for {n} nodes at {levels} level(s)",
                clusters.len()
            )));
        }
        let mut hierarchy = Hierarchy::flat(n);
        hierarchy.requested = levels;
        let mut below = Partition::singletons(n);
        for level in 0..levels {
            let ids = clusters.iter().skip(level).step_by(levels).copied().collect();
            let here =
                Partition::new(ids).map_err(|e| e.context(format!("level {}", level + 1)))?;
            let mut of_cluster = vec![None; below.num_clusters()];
            for (node, (&c, &id)) in below.cluster_of().iter().zip(here.cluster_of()).enumerate() {
                if *of_cluster[c as usize].get_or_insert(id) != id {
                    return Err(Error::data(format!(
                        "clusters must nest: node {node} leaves its cluster {c} of level {level} at \
                         level {}",
                        level + 1
                    )));
                }
            }
            let partition = Partition::new(of_cluster.into_iter().flatten().collect())?;
            let graph = hierarchy.graph(graph, level).contract(&partition);
            hierarchy.levels.push(Level { partition, graph });
            below = here;
        }
        let repeats =
            |level: &Level| level.partition == Partition::singletons(level.partition.num_nodes());
        while hierarchy.levels.pop_if(|level| repeats(level)).is_some() {}
        Ok(hierarchy)
    }

    /// No levels above the graph: distances are plain hop distances.
    pub fn flat(num_nodes: usize) -> Self {
        Hierarchy { num_nodes, requested: 0, levels: Vec::new() }
    }

    /// Number of nodes at level 0.
    pub fn num_nodes(&self) -> usize {
        self.num_nodes
    }

    /// Number of levels K asked for.
    pub fn levels(&self) -> usize {
        self.requested
    }

    /// The levels that were built, the finest first; fewer than [`Hierarchy::levels`] if the graph
    /// stopped shrinking.
    pub fn built(&self) -> &[Level] {
        &self.levels
    }

    /// Number of clusters at `level`; level 0 counts nodes.
    pub fn num_clusters(&self, level: usize) -> usize {
        match self.level_index(level) {
            0 => self.num_nodes,
            k => self.levels[k - 1].partition.num_clusters(),
        }
    }

    /// Cluster of `node` at `level`; at level 0, `node` itself.
    pub fn ancestor(&self, level: usize, node: u32) -> u32 {
        self.levels[..self.level_index(level)]
            .iter()
            .fold(node, |id, level| level.partition.cluster_of()[id as usize])
    }

    /// Cluster of every node at `level`.
    pub fn ancestors(&self, level: usize) -> Cow<'_, [u32]> {
        match self.level_index(level) {
            0 => Cow::Owned((0..self.num_nodes as u32).collect()),
            1 => Cow::Borrowed(self.levels[0].partition.cluster_of()),
            k => {
                let mut ids = self.levels[0].partition.cluster_of().to_vec();
                for level in &self.levels[1..k] {
                    for id in &mut ids {
                        *id = level.partition.cluster_of()[*id as usize];
                    }
                }
                Cow::Owned(ids)
            }
        }
    }

    /// The partition of the nodes at `level`.
    pub fn partition(&self, level: usize) -> Partition {
        Partition::trusted(self.ancestors(level).into_owned(), self.num_clusters(level))
    }

    /// Mean of node features (`[n, width]`) over the nodes of every cluster of `level`.
    pub fn mean(&self, level: usize, features: &[f32], width: usize) -> Vec<f32> {
        self.partition(level).mean(features, width)
    }

    /// The graph of `level`; `base` is the graph this hierarchy was built on.
    pub fn graph<'a>(&'a self, base: &'a Graph, level: usize) -> &'a Graph {
        match self.level_index(level) {
            0 => base,
            k => &self.levels[k - 1].graph,
        }
    }

    /// Levels past the last one built repeat it.
    pub(crate) fn level_index(&self, level: usize) -> usize {
        level.min(self.levels.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(n: u32) -> Graph {
        Graph::from_pairs(n as usize, &(1..n).map(|v| (v - 1, v)).collect::<Vec<_>>()).unwrap().0
    }

    struct Halve;
    impl Coarsener for Halve {
        fn coarsen(&self, graph: &Graph, _: &Context<'_>) -> Result<Partition> {
            Partition::new((0..graph.num_nodes() as u32).map(|u| u / 2).collect())
        }
        fn describe(&self) -> String {
            "halve".into()
        }
    }

    #[test]
    fn levels_compose() {
        let graph = path(8);
        let h = Hierarchy::build(&graph, &Halve, 2, &Context::default()).unwrap();
        assert_eq!(h.ancestors(2).as_ref(), [0, 0, 0, 0, 1, 1, 1, 1]);
        assert_eq!((h.ancestor(0, 5), h.ancestor(1, 5), h.ancestor(2, 5)), (5, 2, 1));
        assert_eq!(h.mean(2, &[0., 1., 2., 3., 4., 5., 6., 7.], 1), [1.5, 5.5]);
    }

    #[test]
    fn a_level_that_does_not_shrink_is_not_built() {
        let graph = path(4);
        let h = Hierarchy::build(&graph, &Halve, 5, &Context::default()).unwrap();
        assert_eq!((h.levels(), h.built().len()), (5, 2));
        assert_eq!(h.ancestors(5), h.ancestors(2));
        assert_eq!(h.num_clusters(5), 1);
    }

    #[test]
    fn clusters_of_nodes_make_the_hierarchy_again() {
        let graph = path(9);
        for levels in 0..6 {
            let built = Hierarchy::build(&graph, &Halve, levels, &Context::default()).unwrap();
            let mut clusters = vec![0; 9 * levels];
            crate::encode::write_clusters(&built, &mut clusters);
            assert_eq!(Hierarchy::from_clusters(&graph, &clusters, levels).unwrap(), built);
        }
        // A level that does not shrink, below one that does, stays.
        let late = Hierarchy::from_clusters(&path(2), &[0, 0, 1, 0], 2).unwrap();
        assert_eq!((late.built().len(), late.num_clusters(1), late.num_clusters(2)), (2, 2, 1));
        let wrong = |clusters: &[u32], levels| {
            Hierarchy::from_clusters(&path(3), clusters, levels).unwrap_err()
        };
        assert!(wrong(&[0, 0], 1).is_data());
        assert!(wrong(&[0, 0, 2], 1).is_data());
        let nested = wrong(&[0, 0, 0, 1, 1, 1], 2).to_string();
        assert!(nested.contains("node 1 leaves its cluster 0 of level 1 at level 2"), "{nested}");
    }

    #[test]
    fn given_partitions_are_checked() {
        let graph = path(4);
        let fine = Partition::new(vec![0, 0, 1, 1]).unwrap();
        let wrong = Partition::new(vec![0, 0, 1]).unwrap();
        let error = Hierarchy::from_partitions(&graph, vec![fine, wrong]).unwrap_err();
        assert!(
            error.to_string().contains("level 2 assigns 3 nodes, but level 1 has 2"),
            "{error}"
        );
    }
}
