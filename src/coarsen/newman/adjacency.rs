//! A graph whose edges can be taken away.

use crate::Graph;

/// Neighbours by node; the first `degree` entries of a node's row are those that are left.
#[derive(Default)]
pub(super) struct Adjacency {
    rows: Vec<u32>,
    degree: Vec<u32>,
    entries: Vec<Entry>,
}

/// A neighbour, and the edge that leads to it.
#[derive(Clone, Copy, Default)]
pub(super) struct Entry {
    pub node: u32,
    pub edge: u32,
}

impl Adjacency {
    /// All edges of a graph, numbered in the order of [`Graph::edges`], with both ends of each.
    pub fn of_graph(graph: &Graph) -> (Adjacency, Vec<(u32, u32)>) {
        let ends: Vec<(u32, u32)> = graph.edges().map(|(u, v, _)| (u, v)).collect();
        let mut adjacency = Adjacency::default();
        adjacency.fill(graph.num_nodes(), ends.iter().copied());
        (adjacency, ends)
    }

    /// Takes nodes 0 … n − 1 and edges 0, 1, …; what was there before is forgotten.
    pub fn fill(&mut self, nodes: usize, ends: impl Iterator<Item = (u32, u32)> + Clone) {
        self.degree.clear();
        self.degree.resize(nodes, 0);
        for (u, v) in ends.clone() {
            self.degree[u as usize] += 1;
            self.degree[v as usize] += 1;
        }
        self.rows.clear();
        let mut start = 0;
        for degree in &mut self.degree {
            self.rows.push(start);
            start += std::mem::take(degree);
        }
        self.entries.clear();
        self.entries.resize(start as usize, Entry::default());
        for (edge, (u, v)) in ends.enumerate() {
            for (from, to) in [(u, v), (v, u)] {
                let at = self.rows[from as usize] + self.degree[from as usize];
                self.entries[at as usize] = Entry { node: to, edge: edge as u32 };
                self.degree[from as usize] += 1;
            }
        }
    }

    pub fn num_nodes(&self) -> usize {
        self.degree.len()
    }

    pub fn degree(&self, node: u32) -> u32 {
        self.degree[node as usize]
    }

    pub fn row(&self, node: u32) -> &[Entry] {
        &self.entries[self.rows[node as usize] as usize..][..self.degree[node as usize] as usize]
    }

    /// Takes an edge away.
    pub fn remove(&mut self, edge: u32, (u, v): (u32, u32)) {
        for node in [u, v] {
            let at = self.row(node).iter().position(|e| e.edge == edge).expect("edge is left");
            let last = self.degree[node as usize] - 1;
            self.entries[self.rows[node as usize] as usize..].swap(at, last as usize);
            self.degree[node as usize] = last;
        }
    }
}
