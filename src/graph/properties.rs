//! Numbers that describe a graph: how clustered it is, how far apart its nodes are.
//!
//! Both are defined for arcs, of which an undirected graph has one in each direction:
//!
//! ```text
//! clustering   mean over i of  Σ_jk w_ij w_jk w_ki / 2 (d_i (d_i − 1) − 2 b_i)      w_ij arcs between i and j, d_i = Σ_j w_ij,
//!                                                                                    b_i neighbours in both directions
//! diameter     the largest distance along arcs from one node to another that it reaches
//! ```
//!
//! Without one-way arcs, the first is the share of pairs of neighbours that are joined (Watts & Strogatz, "Collective dynamics of
//! 'small-world' networks", Nature 1998); with them it is that of Fagiolo, "Clustering in complex directed networks", Physical
//! Review E 2007. Nodes without pairs of neighbours count as 0.

use super::Graph;
use crate::Result;

impl Graph {
    /// The clustering coefficient. O(Σ over edges of the degrees of their ends).
    ///
    /// ```
    /// let (triangle_with_tail, _) = hdse::Graph::from_pairs(4, &[(0, 1), (1, 2), (2, 0), (0, 3)])?;
    /// assert_eq!(triangle_with_tail.clustering(), (1.0 / 3.0 + 1.0 + 1.0 + 0.0) / 4.0);
    /// # Ok::<(), hdse::Error>(())
    /// ```
    pub fn clustering(&self) -> f64 {
        clustering(self, |_| 2.0)
    }

    /// The largest distance between two nodes that are connected at all; O(n m).
    ///
    /// ```
    /// let (path_and_edge, _) = hdse::Graph::from_pairs(6, &[(0, 1), (1, 2), (2, 3), (4, 5)])?;
    /// assert_eq!(path_and_edge.diameter(), 3);
    /// # Ok::<(), hdse::Error>(())
    /// ```
    pub fn diameter(&self) -> u32 {
        diameter(self.num_nodes(), |node| self.neighbors(node))
    }
}

/// Arcs of a graph, each in its own direction.
#[derive(Clone, Debug)]
pub struct Arcs {
    /// Weights are the number of directions.
    both: Graph,
    offsets: Vec<usize>,
    targets: Vec<u32>,
}

impl Arcs {
    /// Arcs from `sources` to `targets`; loops and repeated ones count for nothing.
    pub fn new(num_nodes: usize, sources: &[u32], targets: &[u32]) -> Result<Arcs> {
        let mut arcs: Vec<(u32, u32)> =
            sources.iter().copied().zip(targets.iter().copied()).collect();
        arcs.retain(|(source, target)| source != target);
        arcs.sort_unstable();
        arcs.dedup();
        let weights = vec![1.0; arcs.len()];
        let (both, _) = Graph::from_weighted_pairs(num_nodes, &arcs, &weights)?;
        let offsets = (0..=num_nodes)
            .map(|node| arcs.partition_point(|arc| (arc.0 as usize) < node))
            .collect();
        Ok(Arcs { both, offsets, targets: arcs.iter().map(|arc| arc.1).collect() })
    }

    /// The clustering coefficient.
    pub fn clustering(&self) -> f64 {
        clustering(&self.both, f64::from)
    }

    /// The largest distance from a node to one that it reaches.
    pub fn diameter(&self) -> u32 {
        let neighbours =
            |node: u32| &self.targets[self.offsets[node as usize]..self.offsets[node as usize + 1]];
        diameter(self.both.num_nodes(), neighbours)
    }
}

/// Clustering, with as many arcs between neighbours as their weight says.
fn clustering(graph: &Graph, arcs: impl Fn(f32) -> f64) -> f64 {
    let mut to_first = vec![0.0; graph.num_nodes()];
    let mut sum = 0.0;
    for node in 0..graph.num_nodes() as u32 {
        let of = |node: u32| {
            graph.weighted_neighbors(node).map(|(other, weight)| (other as usize, arcs(weight)))
        };
        of(node).for_each(|(other, weight)| to_first[other] = weight);
        let walks: f64 = of(node)
            .map(|(other, there)| {
                there * of(other as u32).map(|(third, on)| on * to_first[third]).sum::<f64>()
            })
            .sum();
        let degree: f64 = of(node).map(|(_, weight)| weight).sum();
        let both = of(node).filter(|(_, weight)| *weight > 1.0).count() as f64;
        let pairs = 2.0 * (degree * (degree - 1.0) - 2.0 * both);
        sum += if pairs > 0.0 { walks / pairs } else { 0.0 };
        of(node).for_each(|(other, _)| to_first[other] = 0.0);
    }
    sum / graph.num_nodes().max(1) as f64
}

fn diameter<'a>(nodes: usize, neighbours: impl Fn(u32) -> &'a [u32]) -> u32 {
    let mut search = Search { seen: vec![u32::MAX; nodes], queue: Vec::new() };
    (0..nodes as u32).map(|node| search.eccentricity(node, &neighbours)).max().unwrap_or(0)
}

/// A breadth-first search whose memory is used again.
struct Search {
    /// The last source that has reached a node.
    seen: Vec<u32>,
    queue: Vec<u32>,
}

impl Search {
    /// The distance to the farthest node.
    fn eccentricity<'a>(&mut self, source: u32, neighbours: &impl Fn(u32) -> &'a [u32]) -> u32 {
        self.queue.clear();
        self.queue.push(source);
        self.seen[source as usize] = source;
        let (mut next, mut steps) = (0, 0);
        loop {
            let end = self.queue.len();
            for place in next..end {
                for &other in neighbours(self.queue[place]) {
                    if self.seen[other as usize] != source {
                        self.seen[other as usize] = source;
                        self.queue.push(other);
                    }
                }
            }
            if self.queue.len() == end {
                return steps;
            }
            (next, steps) = (end, steps + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distance::{Distances, MaxDistance};
    use crate::hierarchy::Hierarchy;
    use crate::{MemoryLimit, rng::Seed};

    #[test]
    fn extremes() {
        let (empty, _) = Graph::from_pairs(0, &[]).unwrap();
        assert_eq!((empty.clustering(), empty.diameter()), (0.0, 0));
        let all: Vec<(u32, u32)> = (0..6).flat_map(|a| (0..a).map(move |b| (a, b))).collect();
        let (complete, _) = Graph::from_pairs(6, &all).unwrap();
        assert_eq!((complete.clustering(), complete.diameter()), (1.0, 1));
        let ring: Vec<(u32, u32)> = (0..9).map(|a| (a, (a + 1) % 9)).collect();
        let (ring, _) = Graph::from_pairs(9, &ring).unwrap();
        assert_eq!((ring.clustering(), ring.diameter()), (0.0, 4));
    }

    #[test]
    fn arcs_in_both_directions_are_edges() {
        let pairs = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (5, 3)];
        let (graph, _) = Graph::from_pairs(6, &pairs).unwrap();
        let both = pairs.iter().chain(&[(1, 1)]).flat_map(|&(a, b)| [(a, b), (b, a), (a, b)]);
        let (sources, targets): (Vec<u32>, Vec<u32>) = both.unzip();
        let arcs = Arcs::new(6, &sources, &targets).unwrap();
        assert!((arcs.clustering() - graph.clustering()).abs() < 1e-15);
        assert_eq!(arcs.diameter(), graph.diameter());

        // networkx 3.6: average_clustering and the largest of all_pairs_shortest_path_length of the same arcs.
        let (sources, targets): (Vec<u32>, Vec<u32>) =
            pairs.iter().copied().chain([(1, 0), (5, 4)]).unzip();
        let arcs = Arcs::new(6, &sources, &targets).unwrap();
        assert!((arcs.clustering() - 4.0 / 9.0).abs() < 1e-12, "{}", arcs.clustering());
        assert_eq!(arcs.diameter(), 5);
    }

    #[test]
    fn the_diameter_is_the_largest_distance() {
        let mut stream = Seed(1).stream("pairs", 0, 0);
        for edges in [20, 40, 90] {
            let pairs: Vec<(u32, u32)> =
                (0..edges).map(|_| (stream.below(40) as u32, stream.below(40) as u32)).collect();
            let (graph, _) = Graph::from_pairs(40, &pairs).unwrap();
            let flat = Hierarchy::flat(40);
            let distances =
                Distances::new(&graph, &flat, &MaxDistance::default(), MemoryLimit::default())
                    .unwrap();
            let largest = (0..1600)
                .map(|pair| distances.get(0, pair / 40, pair % 40))
                .filter(|&d| d != 255)
                .max();
            assert_eq!(u32::from(largest.unwrap()), graph.diameter());
        }
    }
}
