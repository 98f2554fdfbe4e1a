//! Helpers shared by the tests.

use hdse::Graph;
use hdse::rng::Seed;

/// A graph of `n` nodes and about `edges` random edges.
pub fn random_graph(n: u32, edges: u32, seed: u64) -> Graph {
    let mut stream = Seed(seed).stream("test", n.into(), edges.into());
    let mut node = || stream.below(n.into()) as u32;
    let pairs: Vec<(u32, u32)> = (0..edges).map(|_| (node(), node())).collect();
    Graph::from_pairs(n as usize, &pairs).unwrap().0
}

/// A graph of the given pairs.
pub fn graph(n: usize, pairs: &[(u32, u32)]) -> Graph {
    Graph::from_pairs(n, pairs).unwrap().0
}
