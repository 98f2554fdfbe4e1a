//! The largest eigenvalues of a symmetric matrix of which only products with vectors are known.
//!
//! Lanczos' method with thick restarts. A basis grows by multiplying its last vector and making the result orthogonal
//! to all before it; in that basis the matrix is small, and the eigenvectors of the small matrix are good
//! approximations of the outermost ones of the large. When the basis is full, it shrinks to the best of these and
//! grows again. Vectors are made orthogonal twice, to machine precision, so that none is found a second time.
//!
//! Wu & Simon, "Thick-restart Lanczos method for large symmetric eigenvalue problems", SIAM J. Matrix Anal. Appl.
//! 22, 2000.
//!
//! * **Complexity**: a product and 4nb operations per step for a basis of b vectors; the steps are few where wanted
//!   eigenvalues are well apart (communities) and many where they are not (long chains, grids). After [`RESTARTS`] what has
//!   been found is taken as it is.
//! * **Determinism**: the start is drawn from the seed, rows and vectors are shared out among threads whole: the same bytes for
//!   any number of threads. Of an eigenvalue that occurs several times, one run finds one vector.

use rayon::prelude::*;

use super::eigen::{self, Pair, dot};
use crate::Result;
use crate::monitor::{Monitor, check};
use crate::rng::Stream;

/// How often the basis shrinks, at most.
const RESTARTS: usize = 60;
/// Fewer numbers than this are not worth sharing out among threads.
const PARALLEL: usize = 1 << 15;

/// Vectors in the basis, at most, if `count` are wanted.
pub(super) fn basis(size: usize, count: usize) -> usize {
    (2 * count + 24).min(size.saturating_sub(1))
}

/// A matrix, and what is known of it.
pub(super) struct Problem<'a> {
    pub size: usize,
    /// `product(i, x)` is row i of the matrix times x.
    pub product: &'a (dyn Fn(usize, &[f64]) -> f64 + Sync),
    /// Orthogonal eigenvectors that are not wanted.
    pub known: &'a [Vec<f64>],
    /// No eigenvalue is larger.
    pub bound: f64,
    /// How far from an eigenvector what stands for one may be.
    pub tolerance: f64,
}

/// Eigenvalues, descending, with their vectors.
pub(super) struct Found {
    pub pairs: Vec<Pair>,
    /// Whether all are as close as they should be.
    pub converged: bool,
}

/// The `count` largest eigenvalues whose vectors are orthogonal to the known ones.
pub(super) fn largest(
    problem: &Problem<'_>,
    count: usize,
    mut stream: Stream,
    monitor: &dyn Monitor,
) -> Result<Found> {
    let &Problem { size, product, known, bound, tolerance } = problem;
    let most = basis(size, count).min(size - known.len());
    let fixed = known.len();
    let mut vectors: Vec<Vec<f64>> = known.to_vec();
    let random =
        |stream: &mut Stream| -> Vec<f64> { (0..size).map(|_| stream.unit() - 0.5).collect() };
    let mut next = random(&mut stream);
    orthogonalise(&mut next, &vectors);
    normalise(&mut next);
    vectors.push(next);

    // The matrix in the basis without `known`, [most, most].
    let mut small = vec![0.0; most * most];
    let mut kept = 0;
    for restart in 0.. {
        let mut beside = 0.0;
        for j in kept..most {
            check(monitor)?;
            let mut next = multiplied(product, &vectors[fixed + j]);
            let parts = orthogonalise(&mut next, &vectors);
            for (i, part) in parts.into_iter().skip(fixed).enumerate() {
                small[i * most + j] = part;
                small[j * most + i] = part;
            }
            beside = normalise(&mut next);
            if beside <= f64::EPSILON * bound * 16.0 {
                // The basis holds all that its start can reach: go on with another.
                beside = 0.0;
                next = random(&mut stream);
                orthogonalise(&mut next, &vectors);
                normalise(&mut next);
            }
            vectors.push(next);
        }
        // The largest of the small matrix are the smallest of its negative.
        let negative = small.iter().map(|x| -x).collect();
        let ritz = eigen::smallest(negative, most, most, f64::INFINITY);
        let residual = |pair: &Pair| beside * pair.vector[most - 1].abs();
        let done = ritz[..count].iter().all(|pair| residual(pair) <= tolerance);
        if done || restart == RESTARTS {
            let pair = |pair: &Pair| Pair {
                value: -pair.value,
                vector: combined(&vectors[fixed..fixed + most], &pair.vector),
            };
            return Ok(Found { pairs: ritz[..count].iter().map(pair).collect(), converged: done });
        }
        kept = (count + (most - count) / 2).min(most - 1);
        let shrunk: Vec<Vec<f64>> = ritz[..kept]
            .iter()
            .map(|pair| combined(&vectors[fixed..fixed + most], &pair.vector))
            .collect();
        let last = vectors.pop();
        vectors.truncate(fixed);
        vectors.extend(shrunk);
        vectors.extend(last);
        small.fill(0.0);
        for (i, pair) in ritz[..kept].iter().enumerate() {
            small[i * most + i] = -pair.value;
        }
    }
    unreachable!("the last restart returns")
}

fn multiplied(product: &(dyn Fn(usize, &[f64]) -> f64 + Sync), x: &[f64]) -> Vec<f64> {
    match x.len() < PARALLEL {
        true => (0..x.len()).map(|i| product(i, x)).collect(),
        false => (0..x.len()).into_par_iter().with_min_len(1024).map(|i| product(i, x)).collect(),
    }
}

/// Takes out of `x` what lies along `vectors`, twice, and says how much that was.
fn orthogonalise(x: &mut [f64], vectors: &[Vec<f64>]) -> Vec<f64> {
    let mut parts = vec![0.0; vectors.len()];
    for _ in 0..2 {
        let along: Vec<f64> = match x.len() < PARALLEL {
            true => vectors.iter().map(|v| dot(v, x)).collect(),
            false => vectors.par_iter().map(|v| dot(v, x)).collect(),
        };
        let subtract = |start: usize, piece: &mut [f64]| {
            for (v, part) in vectors.iter().zip(&along) {
                piece.iter_mut().zip(&v[start..]).for_each(|(x, v)| *x -= part * v);
            }
        };
        match x.len() < PARALLEL {
            true => subtract(0, x),
            false => {
                let pieces = x.par_chunks_mut(4096).enumerate();
                pieces.for_each(|(number, piece)| subtract(number * 4096, piece));
            }
        }
        parts.iter_mut().zip(along).for_each(|(sum, part)| *sum += part);
    }
    parts
}

/// Makes `x` of unit length and says how long it was.
fn normalise(x: &mut [f64]) -> f64 {
    let length = dot(x, x).sqrt();
    if length > 0.0 {
        x.iter_mut().for_each(|x| *x /= length);
    }
    length
}

/// Σ weight · vector.
fn combined(vectors: &[Vec<f64>], weights: &[f64]) -> Vec<f64> {
    let size = vectors.first().map_or(0, Vec::len);
    let mut sum = vec![0.0; size];
    let add = |start: usize, piece: &mut [f64]| {
        for (vector, weight) in vectors.iter().zip(weights) {
            piece.iter_mut().zip(&vector[start..]).for_each(|(x, v)| *x += weight * v);
        }
    };
    match size < PARALLEL {
        true => add(0, &mut sum),
        false => {
            let pieces = sum.par_chunks_mut(4096).enumerate();
            pieces.for_each(|(number, piece)| add(number * 4096, piece));
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::super::{Laplacian, Matrix, Request};
    use crate::{Graph, MemoryLimit};

    /// The same eigenvalues as from the whole matrix, residuals and angles as small as asked for.
    fn compare(graph: &Graph, laplacian: Laplacian, count: usize, tolerance: f64) {
        let matrix = Matrix::weighted(graph, laplacian);
        let find = |dense| {
            let limit = MemoryLimit::default();
            let request = Request { count, dense, strict: true, tolerance, limit, monitor: &() };
            matrix.lowest(&request).unwrap()
        };
        let (whole, products) = (find(usize::MAX), find(0));
        let values = |found: &super::super::Spectrum| -> Vec<f64> {
            found.pairs().map(|(pair, _)| pair.value).collect()
        };
        let (whole, found) = (values(&whole), values(&products));
        assert_eq!(whole.len(), found.len());
        for (a, b) in whole.iter().zip(&found) {
            assert!((a - b).abs() < 10.0 * tolerance.max(1e-12), "{whole:?}\n{found:?}");
        }
        let vectors: Vec<Vec<f64>> = products
            .pairs()
            .map(|(pair, nodes)| {
                let mut vector = vec![0.0; graph.num_nodes()];
                nodes.iter().zip(&pair.vector).for_each(|(&u, &x)| vector[u as usize] = x);
                vector
            })
            .collect();
        for (i, a) in vectors.iter().enumerate() {
            for (j, b) in vectors.iter().enumerate() {
                let product: f64 = a.iter().zip(b).map(|(x, y)| x * y).sum();
                assert!((product - f64::from(u8::from(i == j))).abs() < 1e-10, "{i} {j}");
            }
        }
    }

    /// Blocks of a few nodes with edges inside likely and others rare.
    fn blocks(n: u32, size: u32, seed: u64) -> Graph {
        let mut stream = crate::rng::Seed(seed).stream("blocks", 0, 0);
        let mut pairs = Vec::new();
        for u in 0..n {
            for v in 0..u {
                let likely = if u / size == v / size { 0.5 } else { 0.01 };
                if stream.unit() < likely {
                    pairs.push((u, v));
                }
            }
        }
        Graph::from_pairs(n as usize, &pairs).unwrap().0
    }

    #[test]
    fn agrees_with_the_whole_matrix() {
        for seed in 0..3 {
            let graph = blocks(240, 40, seed);
            compare(&graph, Laplacian::Normalised, 6, 1e-9);
            compare(&graph, Laplacian::Combinatorial, 4, 1e-9);
        }
    }

    #[test]
    fn components_and_slow_chains_are_found() {
        let path: Vec<(u32, u32)> = (0..119).map(|u| (u, u + 1)).collect();
        compare(&Graph::from_pairs(125, &path).unwrap().0, Laplacian::Normalised, 9, 1e-8);
        let mut two = path.clone();
        two.extend(path.iter().map(|&(u, v)| (u + 120, v + 120)));
        compare(&Graph::from_pairs(240, &two).unwrap().0, Laplacian::Combinatorial, 7, 1e-8);
    }

    #[test]
    fn eigenvalues_that_occur_several_times_are_found_as_often() {
        // A square grid: all frequencies but those of the diagonal come in pairs.
        let at = |x: u32, y: u32| 18 * x + y;
        let mut pairs = Vec::new();
        for (x, y) in (0..18).flat_map(|x| (0..17).map(move |y| (x, y))) {
            pairs.extend([(at(x, y), at(x, y + 1)), (at(y, x), at(y + 1, x))]);
        }
        let (graph, _) = Graph::from_pairs(324, &pairs).unwrap();
        compare(&graph, Laplacian::Combinatorial, 8, 1e-9);
        compare(&graph, Laplacian::Normalised, 11, 1e-9);
    }

    #[test]
    fn scale_changes_nothing() {
        let graph = blocks(120, 30, 7);
        let find = |weight: f32| {
            let (pairs, weights): (Vec<_>, Vec<_>) =
                graph.edges().map(|(u, v, _)| ((u, v), weight)).unzip();
            let (graph, _) = Graph::from_weighted_pairs(120, &pairs, &weights).unwrap();
            let limit = MemoryLimit::default();
            let request =
                Request { count: 5, dense: 0, strict: true, tolerance: 1e-9, limit, monitor: &() };
            let matrix = Matrix::weighted(&graph, Laplacian::Combinatorial);
            let values: Vec<f64> =
                matrix.lowest(&request).unwrap().pairs().map(|(pair, _)| pair.value).collect();
            values.into_iter().map(|value| value / f64::from(weight)).collect::<Vec<_>>()
        };
        for (a, b) in find(1.0).iter().zip(find(1e-20)) {
            assert!((a - b).abs() < 1e-6, "{a} {b}");
        }
    }

    #[test]
    fn weights_count() {
        let graph = blocks(120, 30, 7);
        let (pairs, weights): (Vec<_>, Vec<_>) =
            graph.edges().map(|(u, v, _)| ((u, v), 1.0 + ((u * v) % 5) as f32)).unzip();
        let (graph, _) = Graph::from_weighted_pairs(120, &pairs, &weights).unwrap();
        compare(&graph, Laplacian::Normalised, 5, 1e-9);
    }
}
