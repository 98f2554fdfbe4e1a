//! Vectors that random walks agree with: nodes that walks visit together get vectors that point the same way.
//!
//! From every node start some walks on the undirected graph, each step to a uniformly drawn neighbour. Every place of a walk is
//! paired with the next `context − 1` ones, and with h the vectors and σ the logistic function, small is made of
//!
//! ```text
//! loss = − mean over pairs (u, v) of log σ(h_u · h_v) − mean over false pairs of log (1 − σ(h_u · h_v))
//! ```
//!
//! False pairs are made alike, of a node followed by nodes drawn uniformly from all. Adam moves the vectors of nodes that a batch has
//! pairs of, and no other ("sparse"); all start from a normal distribution. A walk at a node without neighbours stays there.
//!
//! Walks come from a stream for each epoch and node. A batch is computed walk by walk in parallel, derivatives are added up node
//! by node in the order of walks: the same bytes for any number of threads. Logarithm, cosine (initial vectors) and exponential are
//! those of the platform. Time O(epochs · n · walks · length · context · dim); memory 12 bytes · n · dim for vectors and what Adam
//! remembers, and 4 bytes · (dim + 4) for each place of the walks of a batch.
//!
//! Grover & Leskovec, "node2vec", KDD 2016, with p = q = 1, which is DeepWalk (Perozzi, Al-Rfou & Skiena, KDD 2014) with negative
//! samples; the form here, batch by batch, is that of PyTorch Geometric, which the paper's released code uses.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::monitor::{Monitor, check};
use crate::rng::{Seed, Stream};
use crate::simd::{add_scaled, dot};
use crate::{Error, Graph, MemoryLimit, Result};

/// What Adam remembers of means and of squares, and what it adds to roots.
const BETAS: [f64; 2] = [0.9, 0.999];
const EPSILON: f32 = 1e-8;

/// How vectors are learned; the defaults are those of the paper's released code.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Node2Vec {
    /// Numbers per node.
    pub dim: usize,
    /// Nodes of a walk, its first included.
    pub walk_length: usize,
    /// Nodes of a window: a place is paired with all but the first.
    pub context: usize,
    /// Walks from every node in an epoch.
    pub walks: usize,
    /// False pairs for each pair.
    pub negatives: usize,
    /// Times that walks start from every node.
    pub epochs: usize,
    /// Learning rate of Adam.
    pub rate: f64,
    /// Nodes whose walks make a step.
    pub batch: usize,
}

impl Default for Node2Vec {
    fn default() -> Self {
        Node2Vec {
            dim: 128,
            walk_length: 80,
            context: 20,
            walks: 10,
            negatives: 1,
            epochs: 5,
            rate: 0.01,
            batch: 64,
        }
    }
}

/// Vectors of the nodes of a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedded {
    /// `[nodes, dim]`, row-major.
    pub vectors: Vec<f32>,
    /// The mean loss of every epoch.
    pub losses: Vec<f64>,
}

impl Node2Vec {
    /// Refuses numbers that make no walks.
    pub fn check(&self) -> Result<()> {
        const MOST: usize = 1 << 16;
        let sizes = [
            ("dim", self.dim, 1),
            ("walk_length", self.walk_length, 2),
            ("context", self.context, 2),
            ("walks", self.walks, 1),
            ("negatives", self.negatives, 1),
            ("epochs", self.epochs, 1),
            ("batch", self.batch, 1),
        ];
        for (key, size, least) in sizes {
            if !(least..=MOST).contains(&size) {
                return Err(Error::config(format!(
                    "`{key}` of node2vec is {size}; it must lie between {least} and {MOST}"
                )));
            }
        }
        if self.context > self.walk_length {
            return Err(Error::config(format!(
                "`context` of node2vec is {}, but a walk has {} nodes; take at most that",
                self.context, self.walk_length
            )));
        }
        if !(self.rate > 0.0 && self.rate.is_finite()) {
            return Err(Error::config(format!(
                "`rate` of node2vec is {}; it must be above 0",
                self.rate
            )));
        }
        Ok(())
    }

    /// Bytes that vectors of so many nodes take while they are learned.
    pub fn bytes(&self, nodes: usize) -> u128 {
        let places = self.batch.min(nodes) as u128 * self.paths_per_node() as u128;
        let places = places * self.walk_length as u128;
        12 * nodes as u128 * self.dim as u128 + 4 * places * (self.dim as u128 + 4)
    }

    /// Learns the vectors of all nodes; the monitor hears of every node in every epoch.
    ///
    /// ```
    /// use hdse::encoding::Node2Vec;
    /// use hdse::{Graph, MemoryLimit, rng::Seed};
    /// let (graph, _) = Graph::from_pairs(4, &[(0, 1), (1, 2), (2, 3)])?;
    /// let small = Node2Vec { dim: 8, walk_length: 6, context: 3, epochs: 2, ..Node2Vec::default() };
    /// let found = small.embed(&graph, Seed(0), MemoryLimit::default(), &())?;
    /// assert_eq!((found.vectors.len(), found.losses.len()), (4 * 8, 2));
    /// # Ok::<(), hdse::Error>(())
    /// ```
    ///
    /// # Errors
    /// If numbers make no walks, memory does not suffice, or the monitor asks to stop.
    pub fn embed(
        &self,
        graph: &Graph,
        seed: Seed,
        limit: MemoryLimit,
        monitor: &dyn Monitor,
    ) -> Result<Embedded> {
        self.check()?;
        let nodes = graph.num_nodes();
        limit.check(
            self.bytes(nodes),
            &format!("node2vec of {nodes} nodes"),
            "take a smaller `dim` or `batch` of node2vec, or raise `--max-memory`",
        )?;
        let mut table = Table::new(nodes, self, seed);
        let mut losses = Vec::with_capacity(self.epochs);
        for epoch in 0..self.epochs as u64 {
            let mut order: Vec<u32> = (0..nodes as u32).collect();
            seed.stream("node2vec-order", epoch, 0).shuffle(&mut order);
            let mut loss = 0.0;
            for batch in order.chunks(self.batch) {
                check(monitor)?;
                let paths: Vec<u32> =
                    batch.iter().flat_map(|&node| self.paths(graph, seed, epoch, node)).collect();
                loss += table.step(self, &paths, batch.len()) * batch.len() as f64;
                monitor.advance(batch.len() as u64);
            }
            losses.push(loss / nodes.max(1) as f64);
        }
        Ok(Embedded { vectors: table.vectors, losses })
    }

    fn paths_per_node(&self) -> usize {
        self.walks * (1 + self.negatives)
    }

    /// Pairs of one walk.
    fn pairs(&self) -> usize {
        (self.walk_length - self.context + 1) * (self.context - 1)
    }

    /// The walks from a node in an epoch, each followed by its false ones.
    fn paths(&self, graph: &Graph, seed: Seed, epoch: u64, node: u32) -> Vec<u32> {
        let stream = &mut seed.stream("node2vec-walks", epoch, node.into());
        let mut paths = Vec::with_capacity(self.paths_per_node() * self.walk_length);
        for _ in 0..self.walks {
            walk(graph, stream, node, self.walk_length, &mut paths);
            for _ in 0..self.negatives {
                paths.push(node);
                let any = |_| stream.below(graph.num_nodes() as u64) as u32;
                paths.extend((1..self.walk_length).map(any));
            }
        }
        paths
    }
}

/// Adds the nodes of a walk.
fn walk(graph: &Graph, stream: &mut Stream, start: u32, length: usize, to: &mut Vec<u32>) {
    let mut at = start;
    to.push(at);
    for _ in 1..length {
        let next = graph.neighbors(at);
        if !next.is_empty() {
            at = next[stream.below(next.len() as u64) as usize];
        }
        to.push(at);
    }
}

/// Vectors, with what Adam remembers.
struct Table {
    dim: usize,
    vectors: Vec<f32>,
    means: Vec<f32>,
    squares: Vec<f32>,
    steps: i32,
}

impl Table {
    fn new(nodes: usize, how: &Node2Vec, seed: Seed) -> Table {
        let count = nodes * how.dim;
        let stream = &mut seed.stream("node2vec-start", 0, 0);
        let mut normal = || {
            // Box & Muller 1958; 1 − u keeps the logarithm finite.
            let radius = (-2.0 * (1.0 - stream.unit()).ln()).sqrt();
            (radius * (std::f64::consts::TAU * stream.unit()).cos()) as f32
        };
        let vectors = (0..count).map(|_| normal()).collect();
        let [means, squares] = [(); 2].map(|()| vec![0.0; count]);
        Table { dim: how.dim, vectors, means, squares, steps: 0 }
    }

    fn row(&self, node: u32) -> &[f32] {
        &self.vectors[node as usize * self.dim..][..self.dim]
    }

    /// One step along the derivatives of the loss of these paths, which it gives.
    fn step(&mut self, how: &Node2Vec, paths: &[u32], nodes: usize) -> f64 {
        let (dim, length) = (self.dim, how.walk_length);
        let pairs = (nodes * how.walks * how.pairs()) as f64;
        let mut gradients = vec![0.0; paths.len() * dim];
        let each = gradients.par_chunks_mut(length * dim).zip(paths.par_chunks(length));
        let losses: Vec<f64> = each
            .enumerate()
            .map(|(number, (gradients, path))| {
                let is_true = number % (1 + how.negatives) == 0;
                let pairs = if is_true { pairs } else { pairs * how.negatives as f64 };
                self.of_path(path, how.context, is_true, pairs, gradients)
            })
            .collect();
        // Places by node, in the order of paths.
        let mut places: Vec<u64> =
            paths.iter().zip(0u64..).map(|(&node, place)| u64::from(node) << 32 | place).collect();
        places.par_sort_unstable();
        let groups: Vec<&[u64]> = places.chunk_by(|a, b| a >> 32 == b >> 32).collect();
        let mut sums = vec![0.0; groups.len() * dim];
        sums.par_chunks_mut(dim).zip(&groups).for_each(|(sum, group)| {
            for place in *group {
                let place = (place & u64::from(u32::MAX)) as usize;
                add_scaled(sum, 1.0, &gradients[place * dim..][..dim]);
            }
        });
        self.steps = self.steps.saturating_add(1);
        let [first, second] = BETAS.map(|beta| 1.0 - beta.powi(self.steps));
        let rate = (how.rate * second.sqrt() / first) as f32;
        for (sum, group) in sums.chunks_exact(dim).zip(&groups) {
            self.adam((group[0] >> 32) as usize, sum, rate);
        }
        losses.iter().sum()
    }

    /// The share of a path in the loss, and its derivatives by the vectors of all places.
    fn of_path(
        &self,
        path: &[u32],
        context: usize,
        is_true: bool,
        pairs: f64,
        gradients: &mut [f32],
    ) -> f64 {
        let dim = self.dim;
        let sign = if is_true { 1.0 } else { -1.0 };
        let mut loss = 0.0;
        for first in 0..=path.len() - context {
            let own = self.row(path[first]);
            let (before, after) = gradients.split_at_mut((first + 1) * dim);
            let by_own = &mut before[first * dim..];
            for (other, by_other) in
                path[first + 1..first + context].iter().zip(after.chunks_exact_mut(dim))
            {
                let other = self.row(*other);
                let score = sign * dot(own, other);
                // log (1 + e⁻ˢ), and its derivative, without overflow.
                let power = (-score.abs()).exp();
                loss += f64::from((-score).max(0.0) + power.ln_1p());
                let wrong = if score > 0.0 { power } else { 1.0 } / (1.0 + power);
                let factor = -sign * wrong / pairs as f32;
                add_scaled(by_own, factor, other);
                add_scaled(by_other, factor, own);
            }
        }
        loss / pairs
    }

    /// Moves the vector of a node.
    fn adam(&mut self, node: usize, gradient: &[f32], rate: f32) {
        let row = node * self.dim..(node + 1) * self.dim;
        let [first, second] = BETAS.map(|beta| beta as f32);
        let moments = self.means[row.clone()].iter_mut().zip(&mut self.squares[row.clone()]);
        for ((x, (mean, square)), g) in self.vectors[row].iter_mut().zip(moments).zip(gradient) {
            *mean += (1.0 - first) * (g - *mean);
            *square += (1.0 - second) * (g * g - *square);
            *x -= rate * *mean / (square.sqrt() + EPSILON);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two cliques of eight, joined by an edge, and a node alone.
    fn cliques() -> Graph {
        let clique =
            |first: u32| (first..first + 8).flat_map(move |u| (first..u).map(move |v| (u, v)));
        let pairs: Vec<(u32, u32)> = clique(0).chain(clique(8)).chain([(7, 8)]).collect();
        Graph::from_pairs(17, &pairs).unwrap().0
    }

    const SMALL: Node2Vec = Node2Vec {
        dim: 20,
        walk_length: 10,
        context: 4,
        walks: 10,
        negatives: 2,
        epochs: 30,
        rate: 0.02,
        batch: 5,
    };

    #[test]
    fn nodes_of_a_clique_are_near_each_other_and_the_loss_falls() {
        let found = SMALL.embed(&cliques(), Seed(0), MemoryLimit::NONE, &()).unwrap();
        assert!(found.losses[29] < 0.5 * found.losses[0], "{:?}", found.losses);
        let row = |node: usize| &found.vectors[node * 20..][..20];
        let cosine = |a: usize, b: usize| {
            dot(row(a), row(b)) / (dot(row(a), row(a)) * dot(row(b), row(b))).sqrt()
        };
        for u in 0..16 {
            let mean = |clique: std::ops::Range<usize>| {
                let others: Vec<f32> = clique.filter(|&v| v != u).map(|v| cosine(u, v)).collect();
                others.iter().sum::<f32>() / others.len() as f32
            };
            let [own, other] =
                if u < 8 { [mean(0..8), mean(8..16)] } else { [mean(8..16), mean(0..8)] };
            assert!(own > other + 0.2, "node {u}: {own} and {other}");
        }
        assert!(found.vectors.iter().all(|x| x.is_finite()));
    }

    #[test]
    fn walks_follow_edges_and_stay_where_there_are_none() {
        let graph = cliques();
        for node in 0..17 {
            let paths = SMALL.paths(&graph, Seed(1), 3, node);
            assert_eq!(paths, SMALL.paths(&graph, Seed(1), 3, node));
            assert_ne!(paths, SMALL.paths(&graph, Seed(1), 4, node));
            assert_eq!(paths.len(), 10 * 3 * 10);
            for (number, path) in paths.chunks_exact(10).enumerate() {
                assert_eq!(path[0], node);
                let is_step = |ends: &[u32]| {
                    graph.neighbors(ends[0]).contains(&ends[1]) || (node == 16 && ends[1] == 16)
                };
                assert!(number % 3 > 0 || path.windows(2).all(is_step), "{path:?}");
            }
        }
    }

    #[test]
    fn threads_change_no_byte() {
        let by = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let how = Node2Vec { epochs: 2, ..SMALL };
            pool.install(|| how.embed(&cliques(), Seed(2), MemoryLimit::NONE, &()).unwrap())
        };
        let one = by(1);
        assert_eq!(one, by(2));
        assert_eq!(one, by(3));
        assert!(one.vectors[16 * 20..].iter().all(|x| x.is_finite()), "a node alone has a vector");
    }

    #[test]
    fn steps_go_down_the_loss() {
        // Derivatives against differences, before Adam makes a step of them.
        let graph = cliques();
        let mut table = Table::new(17, &SMALL, Seed(3));
        let path: Vec<u32> = SMALL.paths(&graph, Seed(3), 0, 2)[..20].to_vec();
        let loss = |table: &Table, gradients: &mut [f32]| {
            let (positive, negative) = gradients.split_at_mut(10 * 20);
            table.of_path(&path[..10], 4, true, 21.0, positive)
                + table.of_path(&path[10..], 4, false, 21.0, negative)
        };
        let mut gradients = vec![0.0; 20 * 20];
        loss(&table, &mut gradients);
        for node in 0..17 {
            let places = path.iter().enumerate().filter(|(_, other)| **other == node);
            let expected: f32 = places.map(|(place, _)| gradients[place * 20 + 7]).sum();
            let at = node as usize * 20 + 7;
            let start = table.vectors[at];
            let mut moved = |by: f32| {
                table.vectors[at] = start + by;
                let found = loss(&table, &mut vec![0.0; 20 * 20]);
                table.vectors[at] = start;
                found
            };
            let found = (moved(0.01) - moved(-0.01)) / 0.02;
            assert!((found - f64::from(expected)).abs() < 1e-2, "{node}: {found} {expected}");
        }
    }

    #[test]
    fn impossible_requests_are_refused() {
        let refused = |how: Node2Vec, limit: u64| {
            how.embed(&cliques(), Seed(0), MemoryLimit(limit), &()).unwrap_err().to_string()
        };
        let plenty = 1 << 30;
        assert!(refused(Node2Vec { context: 11, ..SMALL }, plenty).contains("a walk has 10 nodes"));
        assert!(refused(Node2Vec { walks: 0, ..SMALL }, plenty).contains("`walks`"));
        assert!(refused(Node2Vec { rate: f64::NAN, ..SMALL }, plenty).contains("`rate`"));
        assert!(refused(SMALL, 1000).contains("node2vec of 17 nodes needs"));
        struct Stopped;
        impl Monitor for Stopped {
            fn stopped(&self) -> bool {
                true
            }
        }
        let error = SMALL.embed(&cliques(), Seed(0), MemoryLimit::NONE, &Stopped).unwrap_err();
        assert!(error.is_interrupted());
    }
}
