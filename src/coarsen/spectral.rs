//! `spectral`: nodes that vibrate together. The lowest eigenvectors of the normalised Laplacian change slowly along edges; as
//! coordinates, they put nodes of a community close to each other, where k-means finds them.
//!
//! For k clusters of a connected graph, with L v = λ v for the k smallest λ of L = I − D^(−1/2) W D^(−1/2):
//!
//! * node u is the point (v₂(u), …, v_k(u)) / √d(u) (Shi & Malik: cuts relative to the size of both sides), or
//! * (v₁(u), …, v_k(u)) divided by its length (Ng, Jordan & Weiss: the angle only).
//!
//! k-means runs `restarts` times on each, and of all partitions the one with the smallest normalised cut is taken, Σ over
//! clusters of (weight of edges that leave) / (sum of degrees). That is what the eigenvectors relax.
//!
//! The lowest eigenvectors of a disconnected graph lie on one component each, and how many lie on a component is the number of
//! clusters it gets; so no cluster mixes components. If there are more components than clusters, components are put
//! together, the largest first, each where least is.
//!
//! Weights of coarser levels, the numbers of edges between clusters, count.
//!
//! `variant=reference` is the form of the paper's released code: k − 1 eigenvectors of D − A after the first, k-means by angle from k random
//! nodes. Clusters that lose all nodes made that code's centres NaN, and whole graphs collapse; here they take the farthest node.
//!
//! Shi & Malik, "Normalized cuts and image segmentation", PAMI 2000; Ng, Jordan & Weiss, "On spectral
//! clustering", NIPS 2001; von Luxburg, "A tutorial on spectral clustering", Statistics and Computing 2007.
//!
//! * **Complexity**: O(c³) for components of c ≤ 320 nodes, else O(km) per step of Lanczos' method, many where eigenvalues are close
//!   together (grids, chains); k-means O(nk²) per round. Memory 16 (2k + 24) bytes per node.
//! * **Determinism**: by seed, for any number of threads. Signs of eigenvectors change nothing, but where eigenvalues occur several times
//!   (symmetric graphs) the choice of vectors, and with it the partition, depends on the numbering of nodes.
//!
//! ```
//! use hdse::coarsen::{self, Context};
//! use hdse::Graph;
//! let (graph, _) = Graph::from_pairs(6, &[(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3)])?;
//! let partition = coarsen::parse("spectral:clusters=2")?.coarsen(&graph, &Context::default())?;
//! assert_eq!(partition.cluster_of(), [0, 0, 0, 1, 1, 1]);
//! # Ok::<(), hdse::Error>(())
//! ```

use std::str::FromStr;

use rayon::prelude::*;

use super::kmeans::{Nearness, Points, kmeans, lloyd};
use super::parts::{self, Parts};
use super::{Coarsener, Context, Entry, Parameter};
use crate::rng::Seed;
use crate::spectrum::{Laplacian, Matrix, Pair, Request};
use crate::{Graph, Partition, Result};

/// Spectral clustering; see the [module documentation](self).
pub struct Spectral {
    /// How many clusters.
    pub parts: Parts,
    /// Runs of k-means on each kind of points.
    pub restarts: usize,
    /// Which form.
    pub variant: Variant,
}

impl Default for Spectral {
    fn default() -> Self {
        Spectral { parts: Parts::default(), restarts: RESTARTS, variant: Variant::Normalised }
    }
}

const RESTARTS: usize = 5;

/// Components up to this size are solved as whole matrices.
const DENSE: usize = 320;

/// Which form of spectral clustering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// The normalised Laplacian.
    Normalised,
    /// As in the paper's released code.
    Reference,
}

impl FromStr for Variant {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "normalised" => Ok(Variant::Normalised),
            "reference" => Ok(Variant::Reference),
            _ => Err(()),
        }
    }
}

pub(super) const ENTRY: Entry = Entry {
    name: "spectral",
    summary: "k-means on the lowest eigenvectors of the Laplacian",
    citation: "Shi & Malik 2000; Ng, Jordan & Weiss 2001",
    complexity: "O(n³), n ≤ 320; O(km) per step above",
    nanoseconds: |n, m| {
        let k = (0.1 * n).max(2.0);
        let vectors = if n <= 320.0 { 0.6 * n.powi(3) } else { 200.0 * k * (m + n * k) };
        vectors + 20.0 * n * k * k
    },
    bytes: |n, _| 8.0 * n * (2.0 * (2.0 * (0.1 * n).max(2.0) + 24.0)),
    version: 1,
    parameters: &[
        parts::CLUSTERS,
        parts::RATIO,
        Parameter { name: "restarts", default: "5", help: "runs of k-means" },
        Parameter { name: "variant", default: "normalised", help: "normalised or reference" },
    ],
    make: |arguments| {
        let parts = Parts::take(arguments)?;
        let few = |count: &usize| (1..=1000).contains(count);
        let restarts =
            arguments.take_or("restarts", RESTARTS, "a whole number from 1 to 1000", few)?;
        let variant = arguments.take("variant", "normalised or reference")?;
        Ok(Box::new(Spectral { parts, restarts, variant: variant.unwrap_or(Variant::Normalised) }))
    },
};

impl Coarsener for Spectral {
    fn coarsen(&self, graph: &Graph, context: &Context<'_>) -> Result<Partition> {
        let n = graph.num_nodes();
        let count = self.parts.count(n, context.level);
        if count == n {
            return Ok(Partition::singletons(n));
        }
        if count == 1 {
            return Ok(Partition::by_first_node(&vec![0; n]));
        }
        let labels = match self.variant {
            Variant::Normalised => self.normalised(graph, count, context)?,
            Variant::Reference => reference(graph, count, context)?,
        };
        Ok(Partition::by_first_node(&labels))
    }

    fn describe(&self) -> String {
        let parts = self.parts.describe();
        match self.variant {
            Variant::Reference => format!("spectral:{parts},variant=reference"),
            Variant::Normalised if self.restarts == RESTARTS => format!("spectral:{parts}"),
            Variant::Normalised => format!("spectral:{parts},restarts={}", self.restarts),
        }
    }
}

impl Spectral {
    fn normalised(&self, graph: &Graph, count: usize, context: &Context<'_>) -> Result<Vec<u32>> {
        let components = graph.components();
        if components.num_clusters() >= count {
            return Ok(put_together(&components, count));
        }
        let matrix = Matrix::weighted(graph, Laplacian::Normalised);
        let spectrum = matrix.lowest(&request(count, context))?;
        // The pairs of every component, ascending.
        let mut pairs: Vec<Vec<&Pair>> = vec![Vec::new(); components.num_clusters()];
        let mut clusters = vec![1; components.num_clusters()];
        let mut left = count - components.num_clusters();
        for (pair, nodes) in spectrum.pairs() {
            let component = components.cluster_of()[nodes[0] as usize] as usize;
            // The first one of a component is a cluster already.
            if !pairs[component].is_empty() && left > 0 {
                clusters[component] += 1;
                left -= 1;
            }
            pairs[component].push(pair);
        }
        let members = components.members();
        let mut labels = vec![0; graph.num_nodes()];
        let mut first = 0;
        for (component, (pairs, &count)) in pairs.iter().zip(&clusters).enumerate() {
            let nodes = members.of(component as u32);
            let groups = match count {
                1 => vec![0; nodes.len()],
                _ => self.within(graph, &matrix, nodes, &pairs[..count], context, component)?,
            };
            nodes.iter().zip(groups).for_each(|(&u, group)| labels[u as usize] = first + group);
            first += count as u32;
        }
        Ok(labels)
    }

    /// Clusters of a component, as many as there are `pairs`: the best of several runs.
    fn within(
        &self,
        graph: &Graph,
        matrix: &Matrix<'_>,
        nodes: &[u32],
        pairs: &[&Pair],
        context: &Context<'_>,
        component: usize,
    ) -> Result<Vec<u32>> {
        let count = pairs.len();
        let both = [relative(matrix, nodes, pairs), angles(pairs)];
        let seed = Seed(context.stream("spectral").next_u64());
        let run = |number: usize| {
            let mut stream = seed.stream("k-means", component as u64, number as u64);
            let groups = kmeans(&both[number % 2], count, &mut stream, context.monitor)?;
            let cut = normalised_cut(graph, matrix.degrees(), nodes, &groups, count);
            Ok((cut, groups))
        };
        let numbers = 0..2 * self.restarts;
        let runs: Vec<(f64, Vec<u32>)> = match nodes.len() * count < 1 << 14 {
            true => numbers.map(run).collect::<Result<_>>()?,
            false => numbers.into_par_iter().map(run).collect::<Result<_>>()?,
        };
        let best = runs.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
        Ok(best.map_or_else(Vec::new, |(_, groups)| groups))
    }
}

fn request<'a>(count: usize, context: &Context<'a>) -> Request<'a> {
    Request {
        count,
        dense: DENSE,
        tolerance: 1e-5,
        strict: false,
        limit: context.limit,
        monitor: context.monitor,
    }
}

/// (v₂, …, v_k) / √d: the constant first one would change no distance.
fn relative(matrix: &Matrix<'_>, nodes: &[u32], pairs: &[&Pair]) -> Points {
    let width = pairs.len() - 1;
    let mut numbers = Vec::with_capacity(nodes.len() * width);
    for (i, &u) in nodes.iter().enumerate() {
        let root = matrix.inverse_roots()[u as usize];
        numbers.extend(pairs[1..].iter().map(|pair| pair.vector[i] * root));
    }
    Points { numbers, width }
}

/// (v₁, …, v_k), every point at distance 1 from 0.
fn angles(pairs: &[&Pair]) -> Points {
    let width = pairs.len();
    let nodes = pairs[0].vector.len();
    let mut numbers = Vec::with_capacity(nodes * width);
    for i in 0..nodes {
        let length = pairs.iter().map(|pair| pair.vector[i].powi(2)).sum::<f64>().sqrt();
        numbers.extend(pairs.iter().map(|pair| pair.vector[i] / length.max(f64::MIN_POSITIVE)));
    }
    Points { numbers, width }
}

/// Σ over groups of (weight that leaves) / (sum of degrees).
fn normalised_cut(
    graph: &Graph,
    degrees: &[f64],
    nodes: &[u32],
    groups: &[u32],
    count: usize,
) -> f64 {
    let mut inside = vec![0.0; count];
    let mut total = vec![0.0; count];
    // Nodes are ascending.
    let group = |v: u32| nodes.binary_search(&v).map_or(u32::MAX, |place| groups[place]);
    let whole = nodes.len() == graph.num_nodes();
    for (&u, &own) in nodes.iter().zip(groups) {
        total[own as usize] += degrees[u as usize];
        graph.for_each_neighbor(u, |v, w| {
            let other = if whole { groups[v as usize] } else { group(v) };
            if other == own {
                inside[own as usize] += w;
            }
        });
    }
    // A group without weight keeps nothing together.
    let share = |(inside, total): (&f64, f64)| if total > 0.0 { inside / total } else { 0.0 };
    inside.iter().zip(total).map(|pair| 1.0 - share(pair)).sum()
}

/// `count` groups of whole components, the largest dealt first, each where least is.
fn put_together(components: &Partition, count: usize) -> Vec<u32> {
    let sizes = components.sizes();
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|&c| (std::cmp::Reverse(sizes[c]), c));
    let mut heap: std::collections::BinaryHeap<_> =
        (0..count as u32).map(|group| std::cmp::Reverse((0u64, group))).collect();
    let mut group_of = vec![0; sizes.len()];
    for component in order {
        if let Some(std::cmp::Reverse((nodes, group))) = heap.pop() {
            group_of[component] = group;
            heap.push(std::cmp::Reverse((nodes + u64::from(sizes[component]), group)));
        }
    }
    components.cluster_of().iter().map(|&c| group_of[c as usize]).collect()
}

/// The form of the paper's released code.
fn reference(graph: &Graph, count: usize, context: &Context<'_>) -> Result<Vec<u32>> {
    let n = graph.num_nodes();
    let matrix = Matrix::weighted(graph, Laplacian::Combinatorial);
    let spectrum = matrix.lowest(&request(count, context))?;
    let width = count - 1;
    let mut numbers = vec![0.0; n * width];
    for (column, (pair, nodes)) in spectrum.pairs().skip(1).take(width).enumerate() {
        for (&u, x) in nodes.iter().zip(&pair.vector) {
            numbers[u as usize * width + column] = *x;
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    context.stream("spectral").shuffle(&mut order);
    order.truncate(count);
    lloyd(&Points { numbers, width }, order, Nearness::Cosine, context.monitor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coarsen::parse;

    fn partition(spec: &str, n: usize, pairs: &[(u32, u32)]) -> Partition {
        let (graph, _) = Graph::from_pairs(n, pairs).unwrap();
        parse(spec).unwrap().coarsen(&graph, &Context::default()).unwrap()
    }

    /// A ring of cliques of `size` nodes.
    fn cliques(count: u32, size: u32) -> Vec<(u32, u32)> {
        let mut pairs = Vec::new();
        for c in 0..count {
            let nodes = c * size..(c + 1) * size;
            pairs.extend(nodes.clone().flat_map(|u| (c * size..u).map(move |v| (u, v))));
            pairs.push((c * size, ((c + 1) % count) * size + 1));
        }
        pairs
    }

    #[test]
    fn cliques_are_found_by_both_solvers() {
        // 480 nodes are too many for the whole matrix.
        for (count, size) in [(6, 8), (12, 40)] {
            let found = partition(
                &format!("spectral:clusters={count}"),
                (count * size) as usize,
                &cliques(count, size),
            );
            let expected: Vec<u32> = (0..count * size).map(|u| u / size).collect();
            assert_eq!(found.cluster_of(), expected, "{count} cliques of {size}");
        }
    }

    #[test]
    fn components_are_not_mixed_until_they_must_be() {
        // A path of six, a triangle and two single nodes.
        let pairs = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (6, 7), (7, 8), (8, 6)];
        let five = partition("spectral:clusters=5", 11, &pairs);
        assert_eq!(five.num_clusters(), 5);
        assert_eq!(five.cluster_of(), [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 4]);
        let two = partition("spectral:clusters=2", 11, &pairs);
        assert_eq!(two.sizes(), [6, 5].map(|size| size as u32));
        for k in 1..=11 {
            for variant in ["normalised", "reference"] {
                let spec = format!("spectral:clusters={k},variant={variant}");
                assert_eq!(partition(&spec, 11, &pairs).num_clusters(), k, "{spec}");
            }
        }
    }

    #[test]
    fn the_reference_form_never_collapses() {
        for seed in 0..50 {
            let mut stream = crate::rng::Seed(seed).stream("tree", 0, 0);
            let n = 6 + stream.below(30) as u32;
            let tree: Vec<(u32, u32)> =
                (1..n).map(|u| (u, stream.below(u.into()) as u32)).collect();
            let found = partition("spectral:clusters=5,variant=reference", n as usize, &tree);
            assert_eq!(found.num_clusters(), 5);
        }
    }
}
