//! Numbers that describe a graph: how clustered it is, how far apart its nodes are.

use super::Graph;

impl Graph {
    /// The clustering coefficient: for every node the share of pairs of its neighbours that are joined, 0 where there are none, on
    /// average. O(Σ over edges of the degrees of their ends).
    ///
    /// Watts & Strogatz, "Collective dynamics of 'small-world' networks", Nature 1998.
    ///
    /// ```
    /// let (triangle_with_tail, _) = hdse::Graph::from_pairs(4, &[(0, 1), (1, 2), (2, 0), (0, 3)])?;
    /// assert_eq!(triangle_with_tail.clustering(), (1.0 / 3.0 + 1.0 + 1.0 + 0.0) / 4.0);
    /// # Ok::<(), hdse::Error>(())
    /// ```
    pub fn clustering(&self) -> f64 {
        let mut marked = vec![u32::MAX; self.num_nodes()];
        let mut sum = 0.0;
        for node in 0..self.num_nodes() as u32 {
            let neighbours = self.neighbors(node);
            neighbours.iter().for_each(|&other| marked[other as usize] = node);
            let closed = neighbours.iter().flat_map(|&other| self.neighbors(other));
            let closed = closed.filter(|&&third| marked[third as usize] == node).count();
            let pairs = neighbours.len() * neighbours.len().saturating_sub(1);
            sum += if pairs > 0 { closed as f64 / pairs as f64 } else { 0.0 };
        }
        sum / self.num_nodes().max(1) as f64
    }

    /// The largest distance between two nodes that are connected at all; O(n m).
    ///
    /// ```
    /// let (path_and_edge, _) = hdse::Graph::from_pairs(6, &[(0, 1), (1, 2), (2, 3), (4, 5)])?;
    /// assert_eq!(path_and_edge.diameter(), 3);
    /// # Ok::<(), hdse::Error>(())
    /// ```
    pub fn diameter(&self) -> u32 {
        let mut search = Search { seen: vec![u32::MAX; self.num_nodes()], queue: Vec::new() };
        (0..self.num_nodes() as u32).map(|node| search.eccentricity(self, node)).max().unwrap_or(0)
    }
}

/// A breadth-first search whose memory is used again.
struct Search {
    /// The last source that has reached a node.
    seen: Vec<u32>,
    queue: Vec<u32>,
}

impl Search {
    /// The distance to the farthest node.
    fn eccentricity(&mut self, graph: &Graph, source: u32) -> u32 {
        self.queue.clear();
        self.queue.push(source);
        self.seen[source as usize] = source;
        let (mut next, mut steps) = (0, 0);
        loop {
            let end = self.queue.len();
            for place in next..end {
                for &other in graph.neighbors(self.queue[place]) {
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
