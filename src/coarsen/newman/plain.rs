//! Betweenness as it is defined: after every removal, from all nodes of the touched component anew.
//!
//! Written for any kind of number. With fractions it is the arithmetic of `exact`; with `f64` it is
//! what the tests hold the fast form in [`blocks`](super::blocks) against.

use std::collections::VecDeque;

use super::Dissolve;
use super::adjacency::Adjacency;
use super::components::Components;
use super::ratio::Ratio;
use crate::monitor::{self, Monitor};
use crate::{Error, Graph, Result};

/// Arithmetic that may run out of digits.
pub(super) trait Number: Copy + PartialOrd {
    fn whole(number: u32) -> Self;
    fn add(self, other: Self) -> Option<Self>;
    fn mul(self, other: Self) -> Option<Self>;
    fn div(self, other: Self) -> Option<Self>;
    /// Whether this is the highest value or equal to it but for rounding.
    fn ties_with(self, highest: Self) -> bool;
}

/// What the tests compare with.
#[cfg(test)]
impl Number for f64 {
    fn whole(number: u32) -> f64 {
        number.into()
    }
    fn add(self, other: f64) -> Option<f64> {
        Some(self + other)
    }
    fn mul(self, other: f64) -> Option<f64> {
        Some(self * other)
    }
    fn div(self, other: f64) -> Option<f64> {
        Some(self / other)
    }
    fn ties_with(self, highest: f64) -> bool {
        self >= highest * (1.0 - super::ROUNDING)
    }
}

impl Number for Ratio {
    fn whole(number: u32) -> Ratio {
        Ratio::whole(number.into())
    }
    fn add(self, other: Ratio) -> Option<Ratio> {
        Ratio::add(self, other)
    }
    fn mul(self, other: Ratio) -> Option<Ratio> {
        Ratio::mul(self, other)
    }
    fn div(self, other: Ratio) -> Option<Ratio> {
        Ratio::div(self, other)
    }
    fn ties_with(self, highest: Ratio) -> bool {
        self == highest
    }
}

pub(super) struct Plain<'a, N> {
    graph: &'a Graph,
    monitor: &'a dyn Monitor,
    ends: Vec<(u32, u32)>,
    left: Adjacency,
    /// Nothing once removed.
    pub betweenness: Vec<Option<N>>,
    components: Components,
}

impl<'a, N: Number> Dissolve<'a> for Plain<'a, N> {
    fn new(graph: &'a Graph, monitor: &'a dyn Monitor) -> Result<Self> {
        let (left, ends) = Adjacency::of_graph(graph);
        let betweenness = vec![Some(N::whole(0)); ends.len()];
        let components = Components::new(graph);
        let mut this = Plain { graph, monitor, ends, left, betweenness, components };
        for c in 0..this.components.count() as u32 {
            this.accumulate(c)?;
        }
        Ok(this)
    }

    fn ends(&self) -> &[(u32, u32)] {
        &self.ends
    }

    fn components(&self) -> &Components {
        &self.components
    }

    fn tied(&self, edges: &mut Vec<u32>) {
        let left = || (0..).zip(&self.betweenness).filter_map(|(e, b)| b.map(|b| (e, b)));
        let higher = |best: Option<N>, (_, b): (u32, N)| match best {
            Some(best) if best >= b => Some(best),
            _ => Some(b),
        };
        edges.clear();
        if let Some(highest) = left().fold(None, higher) {
            edges.extend(left().filter(|(_, b)| b.ties_with(highest)).map(|(e, _)| e));
        }
    }

    fn remove(&mut self, edge: u32) -> Result<bool> {
        let (u, v) = self.ends[edge as usize];
        self.left.remove(edge, (u, v));
        self.betweenness[edge as usize] = None;
        let (first, second) = (self.reachable(u), self.reachable(v));
        let old = self.components.of(u);
        let split = !first.contains(&v);
        if split {
            let new = self.components.split(self.graph, &self.left, &first, &second);
            self.accumulate(new)?;
        }
        self.accumulate(old)?;
        Ok(split)
    }
}

impl<N: Number> Plain<'_, N> {
    fn reachable(&self, from: u32) -> Vec<u32> {
        let mut seen = vec![false; self.left.num_nodes()];
        seen[from as usize] = true;
        let mut nodes = vec![from];
        let mut next = 0;
        while next < nodes.len() {
            for entry in self.left.row(nodes[next]) {
                if !std::mem::replace(&mut seen[entry.node as usize], true) {
                    nodes.push(entry.node);
                }
            }
            next += 1;
        }
        nodes
    }

    fn accumulate(&mut self, component: u32) -> Result<()> {
        for &u in self.components.nodes(component) {
            for entry in self.left.row(u) {
                self.betweenness[entry.edge as usize] = Some(N::whole(0));
            }
        }
        for &source in self.components.nodes(component) {
            monitor::check(self.monitor)?;
            add_from(source, &self.left, &mut self.betweenness).ok_or_else(|| {
                Error::config(format!(
                    "exact fractions outgrow 128 bits on a graph of {} nodes and {} edges; \
                     leave out `exact=true`",
                    self.graph.num_nodes(),
                    self.graph.num_edges()
                ))
            })?;
        }
        Ok(())
    }
}

/// Adds the shortest paths from one node (Brandes 2001); nothing if numbers run out of digits.
fn add_from<N: Number>(
    source: u32,
    graph: &Adjacency,
    betweenness: &mut [Option<N>],
) -> Option<()> {
    let n = graph.num_nodes();
    let mut distance = vec![u32::MAX; n];
    let mut paths = vec![N::whole(0); n];
    let mut dependency = vec![N::whole(0); n];
    distance[source as usize] = 0;
    paths[source as usize] = N::whole(1);
    let (mut queue, mut order) = (VecDeque::from([source]), Vec::new());
    while let Some(u) = queue.pop_front() {
        order.push(u);
        for v in graph.row(u).iter().map(|entry| entry.node) {
            if distance[v as usize] == u32::MAX {
                distance[v as usize] = distance[u as usize] + 1;
                queue.push_back(v);
            }
            if distance[v as usize] == distance[u as usize] + 1 {
                paths[v as usize] = paths[v as usize].add(paths[u as usize])?;
            }
        }
    }
    for &v in order[1..].iter().rev() {
        let share = N::whole(1).add(dependency[v as usize])?.div(paths[v as usize])?;
        for entry in graph.row(v) {
            let u = entry.node as usize;
            if distance[u] + 1 == distance[v as usize] {
                let flow = paths[u].mul(share)?;
                let sum = &mut betweenness[entry.edge as usize];
                *sum = Some(sum.expect("edge is left").add(flow)?);
                dependency[u] = dependency[u].add(flow)?;
            }
        }
    }
    Some(())
}
