//! Colour refinement (1-dimensional Weisfeiler-Leman) with canonical colour numbers.
//!
//! Nodes start with their degree; each round ranks (own colour, sorted colours of neighbours) until
//! no class splits. Ranks depend on the graph up to isomorphism only, never on node ids, so they
//! break ties the same way in relabelled copies.

use crate::Graph;

/// Rounds that any graph gets, and how much work more rounds may be: long paths would need as many
/// as they have nodes. Colours of an unfinished refinement follow relabelling too.
const ROUNDS: usize = 64;
const WORK: usize = 10_000_000;

/// The stable colour of every node. O(m log n) per round.
pub(super) fn colors(graph: &Graph) -> Vec<u32> {
    let n = graph.num_nodes();
    let mut order: Vec<u32> = (0..n as u32).collect();
    order.sort_unstable_by_key(|&u| graph.degree(u));
    let mut color = vec![0; n];
    let mut count = number(&mut color, &order, |u, v| graph.degree(u) == graph.degree(v));

    // What a node sees: the sorted colours of its neighbours, where the graph has these.
    let mut seen = vec![0; graph.targets().len()];
    let row = |u: u32| {
        let offsets = graph.offsets();
        offsets[u as usize] as usize..offsets[u as usize + 1] as usize
    };
    for _ in 0..ROUNDS + WORK / (n + seen.len()).max(1) {
        for u in 0..n as u32 {
            let own = &mut seen[row(u)];
            for (slot, &v) in own.iter_mut().zip(graph.neighbors(u)) {
                *slot = color[v as usize];
            }
            own.sort_unstable();
        }
        let old = color.clone();
        for class in order.chunk_by_mut(|&u, &v| old[u as usize] == old[v as usize]) {
            class.sort_unstable_by(|&u, &v| seen[row(u)].cmp(&seen[row(v)]));
        }
        let distinct = number(&mut color, &order, |u, v| {
            old[u as usize] == old[v as usize] && seen[row(u)] == seen[row(v)]
        });
        if distinct == count {
            break;
        }
        count = distinct;
    }
    color
}

/// Numbers the classes of a sorted order; returns how many there are.
fn number(color: &mut [u32], order: &[u32], same: impl Fn(u32, u32) -> bool) -> u32 {
    let mut current = 0;
    for class in order.chunk_by(|&u, &v| same(u, v)) {
        for &u in class {
            color[u as usize] = current;
        }
        current += 1;
    }
    current
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
