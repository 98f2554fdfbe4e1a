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
    /// Per layer from 1: whether its path counts were divided by [`HUGE`].
    shrunk: Vec<bool>,
}

/// What is known of every node, seen from one source.
pub(super) struct View<'a> {
    pub distance: &'a mut [u32],
    pub paths: &'a mut [f64],
    pub dependency: &'a mut [f64],
}

/// From how many nodes on path counts could overflow, and are scaled layer by layer; only ratios
/// between layers matter. The paths between two nodes number at most the product of the sizes of the
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
        self.shrunk.clear();
        let (mut head, mut layer_end, mut most) = (0, 1, 1.0);
        while head < self.order.len() {
            if SCALED && head == layer_end {
                layer_end = self.order.len();
                self.shrunk.push(most > HUGE);
                if most > HUGE {
                    for &v in &self.order[head..layer_end] {
                        view.paths[v as usize] /= HUGE;
                    }
                    most = 1.0;
                }
            }
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
                    view.paths[v as usize] += paths;
                    if SCALED {
                        most = most.max(view.paths[v as usize]);
                    }
                }
            }
        }
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
            let mut share =
                (weight[v as usize] + view.dependency[v as usize]) / view.paths[v as usize];
            if SCALED && self.shrunk[layer as usize - 1] {
                share /= HUGE;
            }
            for entry in graph.row(v) {
                let u = entry.node as usize;
                if view.distance[u] + 1 == layer {
                    let amount = view.paths[u] * share;
                    flow(entry.edge, amount);
                    view.dependency[u] += amount;
                }
            }
        }
    }
}
