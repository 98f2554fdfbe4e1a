//! Colour refinement (1-dimensional Weisfeiler-Leman) with canonical colour numbers.
//!
//! Nodes start with their degree; each round ranks (own colour, sorted colours of neighbours) until
//! no class splits. Ranks depend on the graph up to isomorphism only, never on node ids, so they
//! break ties the same way in relabelled copies.

use crate::Graph;

/// The stable colour of every node. O(m log n) per round, at most n rounds.
pub(super) fn colors(graph: &Graph) -> Vec<u32> {
    let nodes = 0..graph.num_nodes() as u32;
    let mut signatures: Vec<Vec<u32>> = nodes.map(|u| vec![graph.degree(u) as u32]).collect();
    let mut count = 0;
    loop {
        let (colors, distinct) = rank(&signatures);
        if distinct == count {
            return colors;
        }
        count = distinct;
        for (u, signature) in signatures.iter_mut().enumerate() {
            signature.clear();
            signature.push(colors[u]);
            signature.extend(graph.neighbors(u as u32).iter().map(|&v| colors[v as usize]));
            signature[1..].sort_unstable();
        }
    }
}

fn rank(signatures: &[Vec<u32>]) -> (Vec<u32>, u32) {
    let mut order: Vec<usize> = (0..signatures.len()).collect();
    order.sort_unstable_by_key(|&u| &signatures[u]);
    let mut ranks = vec![0; signatures.len()];
    let mut current = 0;
    for pair in order.windows(2) {
        current += u32::from(signatures[pair[0]] != signatures[pair[1]]);
        ranks[pair[1]] = current;
    }
    (ranks, current + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_follow_relabelling() {
        // A path of five nodes with a pendant triangle, and a shuffled copy.
        let edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 4)];
        let map = [3u32, 6, 0, 5, 1, 4, 2];
        let moved = edges.map(|(u, v): (usize, usize)| (map[u], map[v]));
        let given = edges.map(|(u, v)| (u as u32, v as u32));
        let (a, _) = Graph::from_pairs(7, &given).unwrap();
        let (b, _) = Graph::from_pairs(7, &moved).unwrap();
        let (ca, cb) = (colors(&a), colors(&b));
        for u in 0..7 {
            assert_eq!(ca[u], cb[map[u] as usize]);
        }
        assert_eq!(ca[5], ca[6]);
        assert_ne!(ca[0], ca[1]);
    }

    #[test]
    fn a_cycle_has_one_color() {
        let ring: Vec<(u32, u32)> = (0..9).map(|u| (u, (u + 1) % 9)).collect();
        let (graph, _) = Graph::from_pairs(9, &ring).unwrap();
        assert_eq!(colors(&graph), [0; 9]);
    }
}
