//! Lowest frequencies of a graph, component by component.
//!
//! No edge joins two components, so the Laplacian of a graph is made of those of its components, and its
//! eigenvectors can be chosen to lie on one component each. The lowest one of a connected graph is known:
//! eigenvalue 0, the vector constant (√degree, normalised). It is moved out of the way by adding a
//! multiple of its projector, which leaves all others as they are; the solver then never meets the
//! multiple zeros of a disconnected graph, and what it finds is orthogonal to the known vector.
//!
//! Time O(c³) for every component of c nodes, some 4c³/3 multiplications and additions; memory 8 bytes · c²
//! for the largest.

use serde::{Deserialize, Serialize};

use super::eigen::{self, Pair};
use crate::{Graph, MemoryLimit, Result};

/// Entries within this part of the largest count as equally large when a sign is chosen.
const EQUAL: f64 = 1e-6;

/// Which Laplacian of the undirected graph; weights are not looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Laplacian {
    /// D − A.
    #[default]
    Combinatorial,
    /// I − D^(−1/2) A D^(−1/2), with 1 on the diagonal for nodes without edges too.
    Normalised,
}

impl Laplacian {
    /// The whole matrix, [n, n].
    ///
    /// # Errors
    /// If it needs more bytes than `limit`.
    pub fn matrix(self, graph: &Graph, limit: MemoryLimit) -> Result<Vec<f64>> {
        let nodes: Vec<u32> = (0..graph.num_nodes() as u32).collect();
        check(nodes.len(), 0, limit)?;
        Ok(self.of_nodes(graph, &nodes, &nodes))
    }

    /// The matrix of the nodes of whole components, ascending, of which node u is number `local[u]`.
    fn of_nodes(self, graph: &Graph, nodes: &[u32], local: &[u32]) -> Vec<f64> {
        let size = nodes.len();
        let mut matrix = vec![0.0; size * size];
        for (row, &u) in matrix.chunks_exact_mut(size.max(1)).zip(nodes) {
            let degree = graph.degree(u) as f64;
            row[local[u as usize] as usize] = match self {
                Laplacian::Combinatorial => degree,
                Laplacian::Normalised => 1.0,
            };
            for &v in graph.neighbors(u) {
                row[local[v as usize] as usize] = match self {
                    Laplacian::Combinatorial => -1.0,
                    Laplacian::Normalised => -1.0 / (degree * graph.degree(v) as f64).sqrt(),
                };
            }
        }
        matrix
    }

    /// The lowest pair of a component.
    fn lowest(self, graph: &Graph, nodes: &[u32]) -> Pair {
        let entry = |&u: &u32| match self {
            Laplacian::Normalised if nodes.len() > 1 => (graph.degree(u) as f64).sqrt(),
            _ => 1.0,
        };
        let vector: Vec<f64> = nodes.iter().map(entry).collect();
        let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
        let value = match self {
            Laplacian::Normalised if nodes.len() == 1 => 1.0,
            _ => 0.0,
        };
        Pair { value, vector: vector.into_iter().map(|x| x / length).collect() }
    }

    /// A number well above all eigenvalues of a component: those are at most twice the largest entry of
    /// the diagonal, and bipartite ones reach that.
    fn beyond(self, graph: &Graph, nodes: &[u32]) -> f64 {
        let degree = nodes.iter().map(|&u| graph.degree(u)).max().unwrap_or(0);
        match self {
            Laplacian::Combinatorial => 3.0 * degree as f64,
            Laplacian::Normalised => 3.0,
        }
    }
}

/// The lowest frequencies of a graph and their vectors.
///
/// Lv = λv for the Laplacian L, smallest λ first, ‖v‖ = 1. A small λ belongs to a vector that changes
/// slowly along edges, such as the position along a chain.
///
/// *Which vector.* v and −v are equally good. The sign is chosen so that the entry of largest magnitude is
/// positive, the first of them if several are within 1e-6 of it. That makes results reproducible and, where
/// one entry is the largest, independent of the numbering of nodes. It does not where vectors are
/// antisymmetric (a path read from either end), and it says nothing about eigenvalues that occur several
/// times: there every rotation of the vectors is as good, and symmetric graphs have many. Those of
/// different components lie on one component each, in the order of the first nodes; inside a component
/// the choice depends on the numbering. Models should flip signs at random in training, or use what does
/// not depend on the choice, such as Σ v vᵀ over equal λ.
///
/// A disconnected graph has the value 0 once for every component, and `skip` = 1 leaves out that of the
/// first only. Under [`Laplacian::Normalised`] a node without edges has the value 1.
///
/// Dwivedi & Bresson, "A Generalization of Transformer Networks to Graphs", 2021; Belkin & Niyogi, Neural
/// Computation 15, 2003.
///
/// ```
/// use hdse::encoding::{Laplacian, LaplacianEncoding};
/// use hdse::{Graph, MemoryLimit};
/// let (path, _) = Graph::from_pairs(3, &[(0, 1), (1, 2)])?;
/// let found = LaplacianEncoding::new(&path, Laplacian::Combinatorial, 4, 1, MemoryLimit::default())?;
/// assert_eq!(found.count, 2); // of four asked for: three nodes have three, and one was skipped
/// assert!((found.values[0] - 1.0).abs() < 1e-12 && (found.values[1] - 3.0).abs() < 1e-12);
/// let first: Vec<f32> = found.vectors.iter().step_by(4).copied().collect();
/// assert!((first[0] - 0.5f32.sqrt()).abs() < 1e-6 && first[1].abs() < 1e-6); // from end to end
/// assert_eq!(found.vectors[2..4], [0.0, 0.0]);
/// # Ok::<(), hdse::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LaplacianEncoding {
    /// Eigenvalues, ascending, one per column; 0 from column `count` on. In full precision, so that equal
    /// ones (within 1e-9 or so) can be told from close ones.
    pub values: Vec<f64>,
    /// Eigenvectors in columns, [n, columns]; 0 from column `count` on.
    pub vectors: Vec<f32>,
    /// How many columns are filled: all, unless the graph has too few nodes.
    pub count: usize,
}

impl LaplacianEncoding {
    /// The `columns` smallest eigenvalues after the first `skip`.
    ///
    /// # Errors
    /// If matrix and result need more bytes than `limit`.
    pub fn new(
        graph: &Graph,
        laplacian: Laplacian,
        columns: usize,
        skip: usize,
        limit: MemoryLimit,
    ) -> Result<LaplacianEncoding> {
        let n = graph.num_nodes();
        let components = graph.components();
        let largest = components.sizes().into_iter().max().unwrap_or(0);
        let wanted = skip.saturating_add(columns).min(n);
        check(largest as usize, n as u128 * (4 * columns as u128 + 16 * wanted as u128), limit)?;
        let members = components.members();
        let members: Vec<&[u32]> =
            (0..components.num_clusters() as u32).map(|c| members.of(c)).collect();

        let mut found: Vec<(Pair, &[u32])> =
            members.iter().map(|&nodes| (laplacian.lowest(graph, nodes), nodes)).collect();
        keep_lowest(&mut found, wanted);
        let mut local = vec![0; n];
        for &nodes in &members {
            // Further pairs of a component are positive; with zeros enough, no matrix is needed.
            let worst = found.last().map_or(f64::NEG_INFINITY, |(pair, _)| pair.value);
            let bound = if found.len() < wanted { f64::INFINITY } else { worst };
            if nodes.len() < 2 || bound <= 0.0 {
                continue;
            }
            let numbers = 0..nodes.len() as u32;
            nodes.iter().zip(numbers).for_each(|(&u, number)| local[u as usize] = number);
            let pairs = further(laplacian, graph, nodes, &local, wanted, bound);
            found.extend(pairs.into_iter().map(|pair| (pair, nodes)));
            keep_lowest(&mut found, wanted);
        }
        let found = found.get(skip.min(wanted)..).unwrap_or_default();
        Ok(columns_of(found, n, columns))
    }
}

/// The `count` lowest pairs of a component below `bound`, but for the known one.
fn further(
    laplacian: Laplacian,
    graph: &Graph,
    nodes: &[u32],
    local: &[u32],
    count: usize,
    bound: f64,
) -> Vec<Pair> {
    let size = nodes.len();
    let mut matrix = laplacian.of_nodes(graph, nodes, local);
    let known = laplacian.lowest(graph, nodes).vector;
    let beyond = laplacian.beyond(graph, nodes);
    for (row, &u) in matrix.chunks_exact_mut(size).zip(&known) {
        for (entry, &v) in row.iter_mut().zip(&known) {
            *entry += beyond * u * v;
        }
    }
    eigen::smallest(matrix, size, count.min(size - 1), bound)
}

/// Sorts by value, equal ones as they stand, and keeps the first `count`.
fn keep_lowest(found: &mut Vec<(Pair, &[u32])>, count: usize) {
    found.sort_by(|a, b| a.0.value.total_cmp(&b.0.value));
    found.truncate(count);
}

/// Pairs as columns, signs chosen.
fn columns_of(found: &[(Pair, &[u32])], n: usize, columns: usize) -> LaplacianEncoding {
    let mut values = vec![0.0; columns];
    let mut vectors = vec![0.0; n * columns];
    for (column, (pair, nodes)) in found.iter().enumerate() {
        values[column] = pair.value;
        let sign = sign_of(&pair.vector);
        for (&u, x) in nodes.iter().zip(&pair.vector) {
            vectors[u as usize * columns + column] = (sign * x) as f32;
        }
    }
    LaplacianEncoding { values, vectors, count: found.len() }
}

/// What makes the entry of largest magnitude positive, the first of them.
fn sign_of(vector: &[f64]) -> f64 {
    let largest = vector.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    let first = vector.iter().find(|x| x.abs() >= largest * (1.0 - EQUAL));
    if first.is_some_and(|&x| x < 0.0) { -1.0 } else { 1.0 }
}

/// Asks for the matrix of a component of `size` nodes, and for `more` bytes.
fn check(size: usize, more: u128, limit: MemoryLimit) -> Result<()> {
    limit.check(
        8 * (size as u128).pow(2) + more,
        &format!("the Laplacian of a component of {size} nodes"),
        "use random-walk encodings (`random_walk`), or raise `--max-memory`",
    )
}
