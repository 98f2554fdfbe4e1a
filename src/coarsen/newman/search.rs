//! Shortest paths from one node, counted, and what flows along them (Brandes 2001), with a weight per
//! node for the nodes it stands for.
//!
//! Names to symbols: `distance` d, `paths` σ, `dependency` δ, `order` S.

use super::adjacency::Adjacency;

pub(super) const UNSEEN: u32 = u32::MAX;

/// Working memory of a search.
#[derive(Default)]
pub(super) struct Search {
    pub order: Vec<u32>,
    /// Of every node: how often its path count was divided by [`HUGE`].
    scale: Vec<u32>,
}

/// What is known of every node, seen from one source.
pub(super) struct View<'a> {
    pub distance: &'a mut [u32],
    pub paths: &'a mut [f64],
    pub dependency: &'a mut [f64],
}

/// From how many nodes on path counts could overflow, and are divided where they grow huge; only ratios
/// of neighbours matter. The paths between two nodes number at most the product of the sizes of the
/// layers between them, so 3^(n / 3): below 1e240 for 1,500 nodes.
pub(super) const SCALED_FROM: usize = 1_500;
const HUGE: f64 = 1e200;

impl Search {
    /// Distances and path counts from `source` to all nodes.
    pub fn forward<const SCALED: bool>(
        &mut self,
        graph: &Adjacency,
        source: u32,
        view: &mut View<'_>,
    ) {
        view.distance.fill(UNSEEN);
        view.paths.fill(0.0);
        view.distance[source as usize] = 0;
        view.paths[source as usize] = 1.0;
        self.order.clear();
        self.order.push(source);
        if SCALED {
            self.scale.clear();
            self.scale.resize(graph.num_nodes(), 0);
        }
        let mut head = 0;
        while head < self.order.len() {
            let u = self.order[head];
            head += 1;
            let next = view.distance[u as usize] + 1;
            let paths = view.paths[u as usize];
            for v in graph.row(u).iter().map(|entry| entry.node) {
                if view.distance[v as usize] == UNSEEN {
                    view.distance[v as usize] = next;
                    self.order.push(v);
                }
                if view.distance[v as usize] == next {
                    if SCALED {
                        self.add_scaled(u, v, view.paths);
                    } else {
                        view.paths[v as usize] += paths;
                    }
                }
            }
        }
    }

    /// Adds the paths to `u` to those to `v`.
    fn add_scaled(&mut self, u: u32, v: u32, paths: &mut [f64]) {
        let (u, v) = (u as usize, v as usize);
        let (of_u, of_v) = (self.scale[u], self.scale[v]);
        let sum =
            paths[u] / huge(of_v.saturating_sub(of_u)) + paths[v] / huge(of_u.saturating_sub(of_v));
        self.scale[v] = of_u.max(of_v) + u32::from(sum > HUGE);
        paths[v] = if sum > HUGE { sum / HUGE } else { sum };
    }

    /// What flows along every edge from the source: `flow` is told edge and amount.
    pub fn backward<const SCALED: bool>(
        &self,
        graph: &Adjacency,
        weight: &[f64],
        view: &mut View<'_>,
        mut flow: impl FnMut(u32, f64),
    ) {
        view.dependency.fill(0.0);
        for &v in self.order[1..].iter().rev() {
            let layer = view.distance[v as usize];
            let share = (weight[v as usize] + view.dependency[v as usize]) / view.paths[v as usize];
            for entry in graph.row(v) {
                let u = entry.node as usize;
                if view.distance[u] + 1 == layer {
                    let mut amount = view.paths[u] * share;
                    if SCALED {
                        amount /= huge(self.scale[v as usize] - self.scale[u]);
                    }
                    flow(entry.edge, amount);
                    view.dependency[u] += amount;
                }
            }
        }
    }
}

/// [`HUGE`] to the power of `times`: 1, itself, or infinity.
fn huge(times: u32) -> f64 {
    match times {
        0 => 1.0,
        1 => HUGE,
        _ => f64::INFINITY,
    }
}
