//! The components of the dissolving graph: their nodes, the modularity they have as a partition of
//! the whole graph, and how much any refinement of them could have.
//!
//! Modularity is kept times 4 m², where it is a whole number: 4 m Σ e_c − Σ d_c², with e_c edges of the
//! whole graph inside component c and d_c the sum of its degrees there. Comparisons are exact.

use super::adjacency::Adjacency;
use crate::{Graph, Partition};

pub(super) struct Components {
    /// Component of every node.
    of: Vec<u32>,
    /// Nodes by component.
    nodes: Vec<u32>,
    list: Vec<Component>,
    num_edges: i128,
    modularity: i128,
    bound: i128,
}

struct Component {
    /// Where its nodes are.
    start: usize,
    len: usize,
    /// The component it came off; itself, if it was there from the start.
    parent: u32,
    inside: i128,
    degree: i128,
    /// Its part of the bound.
    bound: i128,
}

impl Components {
    pub fn new(graph: &Graph) -> Components {
        let components = graph.components();
        let members = components.members();
        let mut this = Components {
            of: components.cluster_of().to_vec(),
            nodes: Vec::with_capacity(graph.num_nodes()),
            list: Vec::with_capacity(components.num_clusters()),
            num_edges: graph.num_edges() as i128,
            modularity: 0,
            bound: 0,
        };
        for c in 0..components.num_clusters() as u32 {
            let nodes = members.of(c);
            let degree: usize = nodes.iter().map(|&u| graph.degree(u)).sum();
            let hub = nodes.iter().map(|&u| 2 * graph.degree(u)).max().unwrap_or(0);
            let mut component = Component {
                start: this.nodes.len(),
                len: nodes.len(),
                parent: c,
                inside: degree as i128 / 2,
                degree: degree as i128,
                bound: 0,
            };
            component.set_bound(this.num_edges, hub as i128);
            this.nodes.extend_from_slice(nodes);
            this.modularity += component.modularity(this.num_edges);
            this.bound += component.bound;
            this.list.push(component);
        }
        this
    }

    pub fn count(&self) -> usize {
        self.list.len()
    }

    pub fn of(&self, node: u32) -> u32 {
        self.of[node as usize]
    }

    pub fn nodes(&self, component: u32) -> &[u32] {
        let Component { start, len, .. } = self.list[component as usize];
        &self.nodes[start..start + len]
    }

    /// Modularity of the components as a partition of the whole graph, times 4 m².
    pub fn modularity(&self) -> i128 {
        self.modularity
    }

    /// The most that any refinement of the components can have, times 4 m².
    pub fn bound(&self) -> i128 {
        self.bound
    }

    /// A component falls into two. The smaller one gets a new number, which is returned; `left` tells
    /// what edges are left.
    pub fn split(&mut self, graph: &Graph, left: &Adjacency, first: &[u32], second: &[u32]) -> u32 {
        let old = self.of(first[0]);
        let new = self.list.len() as u32;
        let (large, small) =
            if first.len() < second.len() { (second, first) } else { (first, second) };
        let start = self.list[old as usize].start;
        self.nodes[start..][..large.len()].copy_from_slice(large);
        self.nodes[start + large.len()..][..small.len()].copy_from_slice(small);

        let (mut inside, mut cut, mut degree) = (0, 0, 0);
        for &u in small {
            self.of[u as usize] = new;
            degree += graph.degree(u) as i128;
        }
        for &v in small.iter().flat_map(|&u| graph.neighbors(u)) {
            inside += i128::from(self.of(v) == new);
            cut += i128::from(self.of(v) == old);
        }
        inside /= 2;

        let m = self.num_edges;
        let hub = |nodes: &[u32]| {
            let size = |&u: &u32| graph.degree(u) as i128 + i128::from(left.degree(u));
            nodes.iter().map(size).max().unwrap_or(0)
        };
        let component = &mut self.list[old as usize];
        self.modularity -= component.modularity(m);
        self.bound -= component.bound;
        component.len = large.len();
        component.inside -= inside + cut;
        component.degree -= degree;
        component.set_bound(m, hub(large));
        let mut other = Component {
            start: start + large.len(),
            len: small.len(),
            parent: old,
            inside,
            degree,
            bound: 0,
        };
        other.set_bound(m, hub(small));
        self.modularity += component.modularity(m) + other.modularity(m);
        self.bound += component.bound + other.bound;
        self.list.push(other);
        new
    }

    /// The components as they were when there were `count`.
    pub fn partition(&self, count: usize) -> Partition {
        let mut then: Vec<u32> = (0..self.list.len() as u32).collect();
        for c in count..self.list.len() {
            then[c] = then[self.list[c].parent as usize];
        }
        let labels: Vec<u32> = self.of.iter().map(|&c| then[c as usize]).collect();
        Partition::by_first_node(&labels)
    }
}

impl Component {
    fn modularity(&self, m: i128) -> i128 {
        4 * m * self.inside - self.degree * self.degree
    }

    /// Both bounds of the parent module's documentation; `hub` is the largest sum of a node's degree in
    /// the whole graph and of the degree that is left to it.
    fn set_bound(&mut self, m: i128, hub: i128) {
        let square = self.degree * self.degree;
        let with = |parts: i128| 4 * m * (self.inside - parts + 1) - square / parts;
        // Concave in the number of parts, with its maximum at d / 2√m; wide enough for rounding.
        let peak = (self.degree as f64 / (2.0 * (m.max(1) as f64).sqrt())) as i128;
        let parts = (peak - 1..=peak + 2).filter(|&k| (1..=self.len as i128).contains(&k));
        // A peak beyond the number of nodes is out of reach: as many parts as nodes, then.
        let by_size = parts.map(with).max().unwrap_or_else(|| with(self.len as i128));
        self.bound = by_size.min(4 * m * self.inside - hub * hub);
    }
}
