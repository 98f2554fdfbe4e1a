//! Lowest frequencies of a graph, component by component: for encodings, and for the coarseners that look at
//! them.
//!
//! No edge joins two components, so the Laplacian of a graph is made of those of its components, and its
//! eigenvectors can be chosen to lie on one component each. The lowest one of a connected graph is known:
//! eigenvalue 0, the vector constant (√degree, normalised). It is kept out of the solver's way, which then never
//! meets the multiple zeros of a disconnected graph; what it finds is orthogonal to the known vector.
//!
//! * [`eigen`]: the whole matrix of a component, O(c³) for c nodes. For small components.
//! * [`lanczos`]: only products of the matrix with vectors, O(edges) each. For large ones.

pub(crate) mod eigen;
mod lanczos;

pub(crate) use eigen::Pair;

use serde::{Deserialize, Serialize};

use crate::monitor::Monitor;
use crate::partition::Members;
use crate::rng::Seed;
use crate::{Error, Graph, MemoryLimit, Result};

/// Which Laplacian of the undirected graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Laplacian {
    /// D − A.
    #[default]
    Combinatorial,
    /// I − D^(−1/2) A D^(−1/2), with 1 on the diagonal for nodes without edges too.
    Normalised,
}

/// What to look for, and how closely.
pub(crate) struct Request<'a> {
    /// How many eigenvectors, those of value 0 included.
    pub count: usize,
    /// Components of more nodes are not written out as matrices.
    pub dense: usize,
    /// Whether to fail where that is not reached, instead of taking what there is.
    pub strict: bool,
    /// How far from an eigenvector what stands for one may be, as a part of the largest eigenvalue; for
    /// components that are not written out.
    pub tolerance: f64,
    pub limit: MemoryLimit,
    pub monitor: &'a dyn Monitor,
}

/// The lowest eigenvalues, ascending, with their vectors, each of unit length on one component.
pub(crate) struct Spectrum {
    components: Members,
    pairs: Vec<(Pair, u32)>,
}

impl Spectrum {
    /// All pairs, with the nodes that the entries of the vector belong to.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&Pair, &[u32])> {
        self.pairs.iter().map(|(pair, component)| (pair, self.components.of(*component)))
    }
}

/// The graph as a Laplacian sees it: degrees, and weights if they count.
pub(crate) struct Matrix<'a> {
    graph: &'a Graph,
    laplacian: Laplacian,
    weighted: bool,
    degrees: Vec<f64>,
    /// 1 / √degree, 0 for nodes without edges.
    roots: Vec<f64>,
}

impl<'a> Matrix<'a> {
    /// With every edge of weight 1.
    pub(crate) fn unweighted(graph: &'a Graph, laplacian: Laplacian) -> Matrix<'a> {
        let degree = |u: u32| graph.degree(u) as f64;
        Matrix::new(graph, laplacian, false, degree)
    }

    /// With the weights of the graph, if it has any.
    pub(crate) fn weighted(graph: &'a Graph, laplacian: Laplacian) -> Matrix<'a> {
        if !graph.is_weighted() {
            return Matrix::unweighted(graph, laplacian);
        }
        let degree = |u: u32| graph.weighted_neighbors(u).map(|(_, w)| f64::from(w)).sum();
        Matrix::new(graph, laplacian, true, degree)
    }

    fn new(
        graph: &'a Graph,
        laplacian: Laplacian,
        weighted: bool,
        degree: impl Fn(u32) -> f64,
    ) -> Matrix<'a> {
        let degrees: Vec<f64> = (0..graph.num_nodes() as u32).map(degree).collect();
        let root = |&degree: &f64| if degree > 0.0 { 1.0 / degree.sqrt() } else { 0.0 };
        let roots = degrees.iter().map(root).collect();
        Matrix { graph, laplacian, weighted, degrees, roots }
    }

    /// Sums of weights around every node.
    pub(crate) fn degrees(&self) -> &[f64] {
        &self.degrees
    }

    /// 1 / √degree of every node, 0 for degree 0.
    pub(crate) fn inverse_roots(&self) -> &[f64] {
        &self.roots
    }

    /// Tells the entries of a row beside the diagonal.
    fn for_each_beside(&self, u: u32, mut tell: impl FnMut(u32, f64)) {
        let root = self.roots[u as usize];
        let entry = |v: u32, w: f64| match self.laplacian {
            Laplacian::Combinatorial => -w,
            Laplacian::Normalised => -w * (root * self.roots[v as usize]),
        };
        match self.weighted {
            true => self.graph.for_each_neighbor(u, |v, w| tell(v, entry(v, w))),
            false => self.graph.neighbors(u).iter().for_each(|&v| tell(v, entry(v, 1.0))),
        }
    }

    fn diagonal(&self, u: u32) -> f64 {
        match self.laplacian {
            Laplacian::Combinatorial => self.degrees[u as usize],
            Laplacian::Normalised => 1.0,
        }
    }

    /// The entries of whole components, [c, c], of whose nodes u is number `local[u]`.
    pub(crate) fn dense(&self, nodes: &[u32], local: &[u32]) -> Vec<f64> {
        let size = nodes.len();
        let mut matrix = vec![0.0; size * size];
        for (row, &u) in matrix.chunks_exact_mut(size.max(1)).zip(nodes) {
            row[local[u as usize] as usize] = self.diagonal(u);
            self.for_each_beside(u, |v, entry| row[local[v as usize] as usize] = entry);
        }
        matrix
    }

    /// The lowest pair of a component.
    fn lowest_of(&self, nodes: &[u32]) -> Pair {
        let entry = |&u: &u32| match self.laplacian {
            Laplacian::Normalised if nodes.len() > 1 => self.degrees[u as usize].sqrt(),
            _ => 1.0,
        };
        let mut vector: Vec<f64> = nodes.iter().map(entry).collect();
        let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
        if length > 0.0 {
            vector.iter_mut().for_each(|x| *x /= length);
        }
        let value = match self.laplacian {
            Laplacian::Normalised if nodes.len() == 1 => 1.0,
            _ => 0.0,
        };
        Pair { value, vector }
    }

    /// No eigenvalue of the component is larger, and those of bipartite graphs reach it.
    fn bound(&self, nodes: &[u32]) -> f64 {
        let degree = nodes.iter().map(|&u| self.degrees[u as usize]).fold(0.0, f64::max);
        match self.laplacian {
            Laplacian::Combinatorial => 2.0 * degree,
            Laplacian::Normalised => 2.0,
        }
    }

    /// The lowest eigenvalues of the graph, and their vectors.
    ///
    /// # Errors
    /// If it takes more memory than `request` allows, or is asked to stop.
    pub(crate) fn lowest(&self, request: &Request<'_>) -> Result<Spectrum> {
        let n = self.graph.num_nodes();
        let parts = self.graph.components();
        let largest = parts.sizes().into_iter().max().unwrap_or(0) as usize;
        let wanted = request.count.min(n);
        request.limit.check(
            bytes(largest, wanted, request.dense) + 16 * n as u128 * wanted as u128,
            &format!("{wanted} eigenvectors of a component of {largest} nodes"),
            "ask for fewer, or raise `--max-memory`",
        )?;
        let components = parts.members();
        let all = 0..parts.num_clusters() as u32;
        let mut pairs: Vec<(Pair, u32)> =
            all.clone().map(|c| (self.lowest_of(components.of(c)), c)).collect();
        keep_lowest(&mut pairs, wanted);
        // Further pairs of a component are positive, and come after all zeros.
        let needed = wanted - pairs.iter().filter(|(pair, _)| pair.value == 0.0).count();
        let mut local = vec![0; n];
        for component in all {
            let nodes = components.of(component);
            let worst = pairs.last().map_or(f64::NEG_INFINITY, |(pair, _)| pair.value);
            let bound = if pairs.len() < wanted { f64::INFINITY } else { worst };
            if nodes.len() < 2 || bound <= 0.0 {
                continue;
            }
            let numbers = 0..nodes.len() as u32;
            nodes.iter().zip(numbers).for_each(|(&u, number)| local[u as usize] = number);
            let further = self.further(nodes, &local, needed, bound, request)?;
            pairs.extend(further.into_iter().map(|pair| (pair, component)));
            keep_lowest(&mut pairs, wanted);
        }
        Ok(Spectrum { components, pairs })
    }

    /// The `count` lowest pairs of a component below `below`, but for the known one.
    fn further(
        &self,
        nodes: &[u32],
        local: &[u32],
        count: usize,
        below: f64,
        request: &Request<'_>,
    ) -> Result<Vec<Pair>> {
        let size = nodes.len();
        let count = count.min(size - 1);
        let known = self.lowest_of(nodes).vector;
        let bound = self.bound(nodes);
        if size <= request.dense || count + 2 >= size {
            let mut matrix = self.dense(nodes, local);
            // Well beyond all others.
            for (row, &u) in matrix.chunks_exact_mut(size).zip(&known) {
                for (entry, &v) in row.iter_mut().zip(&known) {
                    *entry += 1.5 * bound * u * v;
                }
            }
            return Ok(eigen::smallest(matrix, size, count, below));
        }
        // The largest of bound − L are the smallest of L.
        let product = |i: usize, x: &[f64]| {
            let u = nodes[i];
            let mut sum = (bound - self.diagonal(u)) * x[i];
            self.for_each_beside(u, |v, entry| sum -= entry * x[local[v as usize] as usize]);
            sum
        };
        let mut known = vec![known];
        let tolerance = request.tolerance * bound;
        let run = |known: &[Vec<f64>], count: usize| {
            let stream = Seed(0).stream("lanczos", size as u64, known.len() as u64);
            let problem = lanczos::Problem { size, product: &product, known, bound, tolerance };
            let found = lanczos::largest(&problem, count, stream, request.monitor)?;
            if request.strict && !found.converged {
                return Err(Error::data(format!(
                    "eigenvectors of a component of {size} nodes were not found: its eigenvalues are too close together; \
                     ask for fewer, or use what needs none"
                )));
            }
            Ok(found.pairs)
        };
        let mut pairs = run(&known, count)?;
        // One run finds one vector of an eigenvalue that occurs several times, as those of grids do: look whether there
        // is more beside what has been found.
        known.extend(pairs.iter().map(|pair| pair.vector.clone()));
        while known.len() + 2 < size {
            let worst = pairs.last().map_or(f64::NEG_INFINITY, |pair| pair.value) + tolerance;
            let more = run(&known, 1)?;
            if more.iter().all(|pair| pair.value <= worst) {
                break;
            }
            known.extend(more.iter().map(|pair| pair.vector.clone()));
            pairs.extend(more);
            pairs.sort_by(|a, b| b.value.total_cmp(&a.value));
            pairs.truncate(count);
        }
        pairs.iter_mut().for_each(|pair| pair.value = bound - pair.value);
        pairs.retain(|pair| pair.value < below);
        Ok(pairs)
    }
}

/// Working memory for `count` vectors of a component of `size` nodes.
fn bytes(size: usize, count: usize, dense: usize) -> u128 {
    let (size, count) = (size as u128, count as u128);
    match size <= dense as u128 {
        true => 8 * size * size,
        false => 8 * size * lanczos::basis(size as usize, count as usize) as u128 * 2,
    }
}

/// Sorts by value, equal ones as they stand, and keeps the first `count`.
fn keep_lowest(pairs: &mut Vec<(Pair, u32)>, count: usize) {
    pairs.sort_by(|a, b| a.0.value.total_cmp(&b.0.value));
    pairs.truncate(count);
}
