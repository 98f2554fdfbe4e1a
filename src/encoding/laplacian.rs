//! Lowest frequencies of a graph as an encoding of its nodes. [`spectrum`](crate::spectrum) finds them.

use crate::spectrum::{Laplacian, Matrix, Pair, Request};
use crate::{Graph, MemoryLimit, Result};

/// Entries within this part of the largest count as equally large when a sign is chosen.
const EQUAL: f64 = 1e-6;

/// Components up to this size are solved as whole matrices, to machine precision.
const DENSE: usize = 4096;

impl Laplacian {
    /// The whole matrix, [n, n]. Weights are not looked at.
    ///
    /// # Errors
    /// If it needs more bytes than `limit`.
    pub fn matrix(self, graph: &Graph, limit: MemoryLimit) -> Result<Vec<f64>> {
        let nodes: Vec<u32> = (0..graph.num_nodes() as u32).collect();
        limit.check(
            8 * (nodes.len() as u128).pow(2),
            &format!("the Laplacian of {} nodes", nodes.len()),
            "raise `--max-memory`",
        )?;
        Ok(Matrix::unweighted(graph, self).dense(&nodes, &nodes))
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
/// first only. Under [`Laplacian::Normalised`] a node without edges has the value 1. Weights are not looked at.
///
/// Components of more than 4,096 nodes are not written out as matrices; where their eigenvalues are too close together to be
/// found that way (long chains), that is an error.
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
        let wanted = skip.saturating_add(columns).min(n);
        let request = Request {
            count: wanted,
            dense: DENSE,
            tolerance: 1e-12,
            strict: true,
            limit,
            monitor: &(),
        };
        let found = Matrix::unweighted(graph, laplacian).lowest(&request)?;
        let found: Vec<(&Pair, &[u32])> = found.pairs().skip(skip.min(wanted)).collect();
        Ok(columns_of(&found, n, columns))
    }
}

/// Pairs as columns, signs chosen.
fn columns_of(found: &[(&Pair, &[u32])], n: usize, columns: usize) -> LaplacianEncoding {
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
