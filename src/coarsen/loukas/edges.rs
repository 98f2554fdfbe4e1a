//! Edges in the order of what it costs to contract them, and two ways to take the cheapest.

use crate::Partition;

/// An edge and its cost in one number, which sorts by cost and then by the ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Edge(u128);

impl Edge {
    pub(super) fn new(cost: f64, u: u32, v: u32) -> Edge {
        // Bits of numbers above 0 grow with them, those of numbers below 0 shrink: these are turned round.
        let bits = cost.to_bits();
        let order = if cost.is_sign_negative() { !bits } else { bits | 1 << 63 };
        Edge(u128::from(order) << 64 | u128::from(u) << 32 | u128::from(v))
    }

    #[cfg(test)]
    pub(super) fn cost(self) -> f64 {
        let order = (self.0 >> 64) as u64;
        f64::from_bits(if order >> 63 == 1 { order ^ 1 << 63 } else { !order })
    }

    pub(super) fn ends(self) -> (u32, u32) {
        ((self.0 >> 32) as u32, self.0 as u32)
    }
}

/// Joins the ends of the cheapest edges that do not touch, to save at most `save` of `n` nodes.
///
/// Edges are sorted a few at a time, twice as many each time: on dense graphs the first of them touch nearly all others.
pub(super) fn matched(n: usize, mut edges: Vec<Edge>, mut save: usize) -> Partition {
    let mut partner: Vec<u32> = (0..n as u32).collect();
    let mut taken = vec![false; n];
    let mut few = n;
    while save > 0 && !edges.is_empty() {
        few = edges.len().min(2 * few);
        if few < edges.len() {
            edges.select_nth_unstable(few);
        }
        edges[..few].sort_unstable();
        for (u, v) in edges.drain(..few).map(Edge::ends) {
            if save > 0 && !taken[u as usize] && !taken[v as usize] {
                taken[u as usize] = true;
                taken[v as usize] = true;
                partner[v as usize] = u;
                save -= 1;
            }
        }
        edges.retain(|edge| {
            let (u, v) = edge.ends();
            !taken[u as usize] && !taken[v as usize]
        });
    }
    Partition::by_first_node(&partner)
}

/// Joins the ends of the cheapest edges whether or not they were joined with others before, to save at most `save` of `n`
/// nodes. For hubs, which can be matched with one neighbour only.
pub(super) fn joined(n: usize, mut edges: Vec<Edge>, mut save: usize) -> Partition {
    edges.sort_unstable();
    let mut parent: Vec<u32> = (0..n as u32).collect();
    let root = |parent: &mut [u32], mut u: u32| {
        while parent[u as usize] != u {
            parent[u as usize] = parent[parent[u as usize] as usize];
            u = parent[u as usize];
        }
        u
    };
    for (u, v) in edges.into_iter().map(Edge::ends) {
        let (u, v) = (root(&mut parent, u), root(&mut parent, v));
        if u != v && save > 0 {
            parent[u.max(v) as usize] = u.min(v);
            save -= 1;
        }
    }
    let labels: Vec<u32> = (0..n as u32).map(|u| root(&mut parent, u)).collect();
    Partition::by_first_node(&labels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Seed;

    #[test]
    fn edges_sort_by_cost_and_then_by_ends() {
        let mut stream = Seed(0).stream("test", 0, 0);
        let mut given = vec![(0.0, 1, 2), (0.0, 1, 3), (-0.0, 5, 6), (-1e-20, 0, 9), (-1.0, 7, 8)];
        given.extend((0..200).map(|_| {
            let cost = (stream.unit() - 0.5) * 1e3f64.powi(stream.below(9) as i32 - 4);
            (cost, stream.below(5) as u32, 5 + stream.below(5) as u32)
        }));
        let mut edges: Vec<Edge> =
            given.iter().map(|&(cost, u, v)| Edge::new(cost, u, v)).collect();
        edges.sort_unstable();
        given.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        let parts = |edge: &Edge| (edge.cost().to_bits(), edge.ends());
        let expected = given.iter().map(|&(cost, u, v)| (cost.to_bits(), (u, v)));
        assert!(edges.iter().map(parts).eq(expected));
    }

    /// Sorting a few edges at a time finds what going through all of them finds.
    #[test]
    fn the_cheapest_edges_are_matched() {
        for seed in 0..50 {
            let mut stream = Seed(seed).stream("test", 0, 0);
            let n = 4 + stream.below(20) as u32;
            // Costs that are often equal.
            let pairs = (0..n).flat_map(|u| (u + 1..n).map(move |v| (u, v)));
            let mut edges: Vec<Edge> =
                pairs.map(|(u, v)| Edge::new(stream.below(30) as f64, u, v)).collect();
            for save in 0..=n as usize / 2 {
                stream.shuffle(&mut edges);
                let found = matched(n as usize, edges.clone(), save);
                let mut sorted = edges.clone();
                sorted.sort();
                let (mut labels, mut left): (Vec<u32>, _) = ((0..n).collect(), save);
                let mut free = vec![true; n as usize];
                for (u, v) in sorted.into_iter().map(Edge::ends) {
                    if left > 0 && free[u as usize] && free[v as usize] {
                        (free[u as usize], free[v as usize]) = (false, false);
                        labels[v as usize] = u;
                        left -= 1;
                    }
                }
                assert_eq!(found, Partition::by_first_node(&labels));
            }
        }
    }
}
