//! `loukas`: contract what the graph's lowest frequencies change least by. Local variation coarsening.
//!
//! Let U hold the K lowest eigenvectors of L = D − W, Λ their eigenvalues, and let Π replace every entry of a vector by the mean over its
//! cluster. A partition keeps the low frequencies well if
//!
//! ε = ‖L^½ (I − Π) U Λ^(−½)‖ is small ([`spectral_error`]): then ‖x − Πx‖ ≤ ε‖x‖, lengths by L, for every x that U spans.
//!
//! Every set C of nodes adds its own part to that, and sets with a small part per node saved are contracted first:
//!
//! cost(C) = ‖L_C^½ (I − Π_C) A‖² / (|C| − 1), where L_C is L with edges inside C as they are, those that leave it counted twice, and
//! nothing else.
//!
//! At first A = U Λ^(−½). Sets are taken in the order of their costs if they do not overlap, until as few clusters are left as were asked for or
//! no set fits; then the graph is contracted, and sets of clusters are looked at, with A = B (Bᵀ L B)^(−½) for the means B of A. `edges` looks
//! at the two ends of edges; `neighbourhoods` at nodes with all neighbours, of which those that are taken drop out, and at edges
//! when no neighbourhood is small enough any more. Where disjoint edges save next to nothing, because a few hubs are in all of them, edges
//! are joined in the same order without regard to overlap.
//!
//! Components are never merged, and edges of weight 0 hold nothing together: a graph of very many components keeps more clusters than were asked
//! for, and its large ones become single clusters first.
//!
//! `variant=algebraic-jc` is what the paper's released code uses: edges in the order of max (x(u) − x(v))² over K random vectors x that 20
//! rounds of x ← ½x + ½D⁻¹Wx made smooth, level by level until one saves at most two nodes. That code cuts off small differences in
//! single precision, where on dense graphs all edges end up equal; here they are compared as they are.
//!
//! Loukas, "Graph reduction with spectral and cut guarantees", JMLR 20, 2019; algebraic distances: Ron, Safro &
//! Brandt, "Relaxation-based coarsening and multiscale graph organization", Multiscale Model. Simul. 9, 2011.
//!
//! * **Complexity**: the eigenvectors as in [`spectral`](super::spectral), then O(m (K + log m)) per level for edges, O(K² Σ d + K³ n) for neighbourhoods.
//! * **Determinism**: `algebraic-jc` by seed, the others by the graph alone. Equal costs go by the numbering of nodes.
//!
//! ```
//! use hdse::coarsen::{self, Context};
//! use hdse::Graph;
//! let (graph, _) = Graph::from_pairs(6, &[(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3)])?;
//! // Two triangles joined by an edge: twins are merged first, and nothing low is lost by that.
//! let partition = coarsen::parse("loukas:clusters=4")?.coarsen(&graph, &Context::default())?;
//! assert_eq!(partition.cluster_of(), [0, 0, 1, 2, 3, 3]);
//! let error = coarsen::loukas::spectral_error(&graph, &partition, 2, Default::default())?;
//! assert!(error < 1e-6, "{error}");
//! # Ok::<(), hdse::Error>(())
//! ```

mod algebraic;
mod edges;
#[cfg(test)]
mod tests;

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::str::FromStr;

use self::edges::{Edge, joined, matched};
use super::parts::{self, Parts};
use super::{Coarsener, Context, Entry, Parameter};
use crate::monitor::check;
use crate::spectrum::{Laplacian, Matrix, Request, eigen};
use crate::{Graph, MemoryLimit, Partition, Result};

/// Local variation coarsening; see the [module documentation](self).
pub struct Loukas {
    /// How many clusters.
    pub parts: Parts,
    /// Which sets of nodes are looked at.
    pub variant: Variant,
    /// Eigenvectors, or random vectors, K.
    pub vectors: usize,
}

impl Default for Loukas {
    fn default() -> Self {
        Loukas { parts: Parts::default(), variant: Variant::Edges, vectors: VECTORS }
    }
}

const VECTORS: usize = 10;
/// A level that saves less than this part of the nodes does not get far: the graph has hubs.
const STALLED: usize = 16;
/// Components up to this size are solved as whole matrices.
const DENSE: usize = 320;
/// And where the frequencies themselves are asked for.
const DENSE_STRICT: usize = 2048;

/// Which sets of nodes are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Ends of edges.
    Edges,
    /// Nodes with all neighbours.
    Neighbourhoods,
    /// Ends of edges, by algebraic distance.
    AlgebraicJc,
}

impl FromStr for Variant {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "edges" => Ok(Variant::Edges),
            "neighbourhoods" => Ok(Variant::Neighbourhoods),
            "algebraic-jc" => Ok(Variant::AlgebraicJc),
            _ => Err(()),
        }
    }
}

impl Variant {
    fn name(self) -> &'static str {
        match self {
            Variant::Edges => "edges",
            Variant::Neighbourhoods => "neighbourhoods",
            Variant::AlgebraicJc => "algebraic-jc",
        }
    }
}

pub(super) const ENTRY: Entry = Entry {
    name: "loukas",
    summary: "contract what the lowest frequencies change least by",
    citation: "Loukas 2019",
    complexity: "O(n³), n ≤ 320; above, eigenvectors and O(m (K + log m)) per level",
    nanoseconds: |n, m| {
        let vectors = if n <= 320.0 { 0.6 * n.powi(3) } else { 2000.0 * (m + 10.0 * n) };
        vectors + 2000.0 * m
    },
    bytes: |n, m| 700.0 * n + 60.0 * m,
    version: 2,
    parameters: &[
        parts::CLUSTERS,
        parts::RATIO,
        Parameter {
            name: "variant",
            default: "edges",
            help: "edges, neighbourhoods or algebraic-jc",
        },
        Parameter { name: "vectors", default: "10", help: "frequencies that are kept" },
    ],
    make: |arguments| {
        let parts = Parts::take(arguments)?;
        let variant = arguments.take("variant", "edges, neighbourhoods or algebraic-jc")?;
        let few = |count: &usize| (2..=1000).contains(count);
        let vectors =
            arguments.take_or("vectors", VECTORS, "a whole number from 2 to 1000", few)?;
        Ok(Box::new(Loukas { parts, variant: variant.unwrap_or(Variant::Edges), vectors }))
    },
};

impl Coarsener for Loukas {
    fn coarsen(&self, graph: &Graph, context: &Context<'_>) -> Result<Partition> {
        let target = self.parts.count(graph.num_nodes(), context.level);
        match self.variant {
            Variant::AlgebraicJc => algebraic::partition(graph, target, self.vectors, context),
            _ => self.local_variation(graph, target, context),
        }
    }

    fn describe(&self) -> String {
        let Loukas { parts, variant, vectors } = self;
        let vectors = match *vectors {
            VECTORS => String::new(),
            vectors => format!(",vectors={vectors}"),
        };
        format!("loukas:{},variant={}{vectors}", parts.describe(), variant.name())
    }
}

impl Loukas {
    fn local_variation(
        &self,
        graph: &Graph,
        target: usize,
        context: &Context<'_>,
    ) -> Result<Partition> {
        let mut partition = Partition::singletons(graph.num_nodes());
        if target == graph.num_nodes() || graph.num_edges() == 0 {
            return Ok(partition);
        }
        let mut level =
            Level { rows: frequencies(graph, self.vectors, false, context)?, graph: graph.clone() };
        if level.rows.width == 0 {
            return Ok(partition);
        }
        let mut edges_only = self.variant == Variant::Edges;
        while level.graph.num_nodes() > target {
            check(context.monitor)?;
            let n = level.graph.num_nodes();
            let save = n - target;
            let mut step = match edges_only {
                true => matched(n, level.edges(), save),
                false => level.take(level.neighbourhoods(), save),
            };
            let saved = n - step.num_clusters();
            if edges_only && saved < save && saved < n / STALLED {
                step = joined(n, level.edges(), save);
            }
            if step.num_clusters() < n {
                partition = partition.compose(&step);
                level = level.contracted(&step);
            } else if edges_only {
                break;
            } else {
                edges_only = true;
            }
        }
        Ok(Partition::by_first_node(partition.cluster_of()))
    }
}

/// A row of numbers for every node.
struct Rows {
    numbers: Vec<f64>,
    width: usize,
}

impl Rows {
    fn of(&self, node: u32) -> &[f64] {
        &self.numbers[node as usize * self.width..][..self.width]
    }

    /// The mean row of every cluster.
    fn means(&self, partition: &Partition) -> Rows {
        let width = self.width;
        let sizes = partition.sizes();
        let mut numbers = vec![0.0; partition.num_clusters() * width];
        for (u, &c) in partition.cluster_of().iter().enumerate() {
            let size = f64::from(sizes[c as usize]);
            let mean = &mut numbers[c as usize * width..][..width];
            mean.iter_mut().zip(self.of(u as u32)).for_each(|(sum, x)| *sum += x / size);
        }
        Rows { numbers, width }
    }
}

/// U Λ^(−½) of the lowest `vectors` frequencies, and of as many more as there are further components. Columns of frequency 0 are left out:
/// they are 0.
fn frequencies(graph: &Graph, vectors: usize, strict: bool, context: &Context<'_>) -> Result<Rows> {
    let n = graph.num_nodes();
    let count = vectors.saturating_add(graph.components().num_clusters() - 1).min(n);
    let (dense, tolerance) = if strict { (DENSE_STRICT, 1e-10) } else { (DENSE, 1e-7) };
    let Context { limit, monitor, .. } = *context;
    let request = Request { count, dense, tolerance, strict, limit, monitor };
    let matrix = Matrix::weighted(graph, Laplacian::Combinatorial);
    let spectrum = matrix.lowest(&request)?;
    let largest = matrix.degrees().iter().fold(0.0, |a: f64, &b| a.max(b));
    let pairs: Vec<_> = spectrum.pairs().filter(|(pair, _)| pair.value > 1e-10 * largest).collect();
    let width = pairs.len();
    let mut numbers = vec![0.0; n * width];
    for (column, (pair, nodes)) in pairs.into_iter().enumerate() {
        let scale = 1.0 / pair.value.sqrt();
        for (&u, x) in nodes.iter().zip(&pair.vector) {
            numbers[u as usize * width + column] = x * scale;
        }
    }
    Ok(Rows { numbers, width })
}

/// Nodes that might be contracted.
struct Candidate {
    cost: f64,
    nodes: Vec<u32>,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.cost.total_cmp(&other.cost).then_with(|| self.nodes.cmp(&other.nodes))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

/// A graph on the way to the coarse one, with A.
struct Level {
    graph: Graph,
    rows: Rows,
}

impl Level {
    /// Ends of edges. I − Π leaves half the difference a of both rows, so L_C is taken along one direction only, and its norm there
    /// is (w + (weight that leaves) / 2) · ‖a‖².
    fn edges(&self) -> Vec<Edge> {
        let degree = |u: u32| self.graph.weighted_neighbors(u).map(|(_, w)| f64::from(w)).sum();
        let degrees: Vec<f64> = (0..self.graph.num_nodes() as u32).map(degree).collect();
        let candidate = |(u, v, w): (u32, u32, f32)| {
            let pairs = self.rows.of(u).iter().zip(self.rows.of(v));
            let square: f64 = pairs.map(|(a, b)| (a - b).powi(2)).sum();
            let leaving = degrees[u as usize] + degrees[v as usize] - 2.0 * f64::from(w);
            Edge::new((f64::from(w) + leaving / 2.0) * square, u, v)
        };
        self.graph.edges().map(candidate).collect()
    }

    fn neighbourhoods(&self) -> Vec<Candidate> {
        let around = |u: u32| {
            let mut nodes = self.graph.neighbors(u).to_vec();
            let place = nodes.partition_point(|&v| v < u);
            nodes.insert(place, u);
            nodes
        };
        let all = (0..self.graph.num_nodes() as u32).filter(|&u| self.graph.degree(u) > 0);
        all.map(|u| self.candidate(around(u))).collect()
    }

    /// Nodes, ascending, with what it costs to contract them.
    fn candidate(&self, nodes: Vec<u32>) -> Candidate {
        let width = self.rows.width;
        let share = 1.0 / nodes.len() as f64;
        let mut mean = vec![0.0; width];
        for &u in &nodes {
            mean.iter_mut().zip(self.rows.of(u)).for_each(|(sum, x)| *sum += share * x);
        }
        // Yᵀ L_C Y for Y = (I − Π) A, edge by edge.
        let mut matrix = vec![0.0; width * width];
        let mut add = |weight: f64, y: &[f64]| {
            for (row, a) in matrix.chunks_exact_mut(width).zip(y) {
                row.iter_mut().zip(y).for_each(|(sum, b)| *sum += weight * a * b);
            }
        };
        let mut y = vec![0.0; width];
        for &u in &nodes {
            let mut leaving = 0.0;
            self.graph.for_each_neighbor(u, |v, w| {
                if nodes.binary_search(&v).is_err() {
                    leaving += w;
                } else if u < v {
                    let pairs = self.rows.of(u).iter().zip(self.rows.of(v));
                    y.iter_mut().zip(pairs).for_each(|(y, (a, b))| *y = a - b);
                    add(w, &y);
                }
            });
            let pairs = self.rows.of(u).iter().zip(&mean);
            y.iter_mut().zip(pairs).for_each(|(y, (a, b))| *y = a - b);
            add(2.0 * leaving, &y);
        }
        let norm = largest_eigenvalue(matrix, width);
        Candidate { cost: norm / (nodes.len() - 1) as f64, nodes }
    }

    /// Takes the cheapest sets that do not overlap, to save at most `save` nodes.
    fn take(&self, sets: Vec<Candidate>, mut save: usize) -> Partition {
        let n = self.graph.num_nodes();
        let mut cluster: Vec<u32> = (0..n as u32).collect();
        let mut taken = vec![false; n];
        let mut waiting: BinaryHeap<Reverse<Candidate>> = sets.into_iter().map(Reverse).collect();
        while let Some(Reverse(set)) = waiting.pop() {
            if save == 0 {
                break;
            }
            let free: Vec<u32> =
                set.nodes.iter().copied().filter(|&u| !taken[u as usize]).collect();
            if free.len() < set.nodes.len() {
                if free.len() > 1 {
                    waiting.push(Reverse(self.candidate(free)));
                }
            } else if free.len() - 1 <= save {
                save -= free.len() - 1;
                for &u in &free {
                    taken[u as usize] = true;
                    cluster[u as usize] = free[0];
                }
            }
        }
        Partition::by_first_node(&cluster)
    }

    /// The graph of clusters; B are means over clusters, A = B (Bᵀ L B)^(−½).
    fn contracted(&self, step: &Partition) -> Level {
        let graph = self.graph.contract(step);
        let means = self.rows.means(step);
        let width = means.width;
        let root = inverse_root(quadratic(&graph, &means), width);
        let mut numbers = vec![0.0; means.numbers.len()];
        let rows = numbers.chunks_exact_mut(width).zip(means.numbers.chunks_exact(width));
        for (row, mean) in rows {
            for (j, entry) in row.iter_mut().enumerate() {
                *entry = mean.iter().enumerate().map(|(i, x)| x * root[i * width + j]).sum();
            }
        }
        Level { graph, rows: Rows { numbers, width } }
    }
}

/// Xᵀ L X, edge by edge.
fn quadratic(graph: &Graph, rows: &Rows) -> Vec<f64> {
    let width = rows.width;
    let mut matrix = vec![0.0; width * width];
    let mut y = vec![0.0; width];
    for (u, v, w) in graph.edges() {
        let pairs = rows.of(u).iter().zip(rows.of(v));
        y.iter_mut().zip(pairs).for_each(|(y, (a, b))| *y = a - b);
        for (row, a) in matrix.chunks_exact_mut(width).zip(&y) {
            row.iter_mut().zip(&y).for_each(|(sum, b)| *sum += f64::from(w) * a * b);
        }
    }
    matrix
}

fn largest_eigenvalue(matrix: Vec<f64>, size: usize) -> f64 {
    let negative = matrix.into_iter().map(|x| -x).collect();
    let found = eigen::smallest(negative, size, 1, f64::INFINITY);
    found.first().map_or(0.0, |pair| (-pair.value).max(0.0))
}

/// M^(−½) on the space where the symmetric matrix M is positive, 0 elsewhere.
fn inverse_root(matrix: Vec<f64>, size: usize) -> Vec<f64> {
    let pairs = eigen::smallest(matrix, size, size, f64::INFINITY);
    let largest = pairs.last().map_or(0.0, |pair| pair.value);
    let mut root = vec![0.0; size * size];
    for pair in pairs.iter().filter(|pair| pair.value > 1e-10 * largest) {
        let scale = 1.0 / pair.value.sqrt();
        for (row, a) in root.chunks_exact_mut(size).zip(&pair.vector) {
            row.iter_mut().zip(&pair.vector).for_each(|(sum, b)| *sum += scale * a * b);
        }
    }
    root
}

/// The restricted spectral approximation error of a partition: the smallest ε with ‖x − Πx‖ ≤ ε‖x‖, lengths by L, for all x in the
/// span of the lowest `vectors` eigenvectors of L (for a disconnected graph, as many more as there are further components). 0 if nothing
/// low is lost, and above 1 possible.
///
/// # Errors
/// If eigenvectors take more memory than `limit`, or are too close together to be found.
pub fn spectral_error(
    graph: &Graph,
    partition: &Partition,
    vectors: usize,
    limit: MemoryLimit,
) -> Result<f64> {
    if graph.num_edges() == 0 {
        return Ok(0.0);
    }
    let context = Context { limit, ..Context::default() };
    let mut lost = frequencies(graph, vectors, true, &context)?;
    let (means, width) = (lost.means(partition), lost.width);
    if width == 0 {
        return Ok(0.0);
    }
    for (row, &c) in lost.numbers.chunks_exact_mut(width).zip(partition.cluster_of()) {
        row.iter_mut().zip(means.of(c)).for_each(|(x, mean)| *x -= mean);
    }
    Ok(largest_eigenvalue(quadratic(graph, &lost), width).sqrt())
}
