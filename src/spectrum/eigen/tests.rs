//! The definition of eigenvalues, a slow solver, and matrices that are known to be hard.

use super::*;
use crate::rng::Seed;
use crate::{Graph, MemoryLimit, encoding::Laplacian};
use proptest::prelude::*;

/// Eigenvalues by Jacobi rotations: slow, and right for every symmetric matrix.
fn jacobi(mut a: Vec<f64>, n: usize) -> Vec<f64> {
    for _ in 0..60 {
        for (p, q) in (0..n).flat_map(|q| (0..q).map(move |p| (p, q))) {
            if a[p * n + q] == 0.0 {
                continue;
            }
            let angle = (a[q * n + q] - a[p * n + p]) / (2.0 * a[p * n + q]);
            let t = angle.signum() / (angle.abs() + (angle * angle + 1.0).sqrt());
            let c = 1.0 / (t * t + 1.0).sqrt();
            let s = t * c;
            for k in 0..n {
                let (x, y) = (a[k * n + p], a[k * n + q]);
                (a[k * n + p], a[k * n + q]) = (c * x - s * y, s * x + c * y);
            }
            for k in 0..n {
                let (x, y) = (a[p * n + k], a[q * n + k]);
                (a[p * n + k], a[q * n + k]) = (c * x - s * y, s * x + c * y);
            }
        }
    }
    let mut values: Vec<f64> = (0..n).map(|i| a[i * n + i]).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Checks the `count` smallest pairs of a matrix: Av = λv, unit length, orthogonality.
fn check(matrix: &[f64], n: usize, count: usize) -> Vec<f64> {
    let pairs = smallest(matrix.to_vec(), n, count, f64::INFINITY);
    assert_eq!(pairs.len(), count.min(n));
    for (i, pair) in pairs.iter().enumerate() {
        assert!(i == 0 || pairs[i - 1].value <= pair.value, "ascending");
        for (row, x) in matrix.chunks(n).zip(&pair.vector) {
            let residual = dot(row, &pair.vector) - pair.value * x;
            assert!(residual.abs() <= 1e-10, "pair {i} of {n}: residual {residual:e}");
        }
        for (j, other) in pairs[..=i].iter().enumerate() {
            let off = dot(&pair.vector, &other.vector) - f64::from(i == j);
            assert!(off.abs() <= 1e-10, "pairs {i} and {j} of {n}: {off:e}");
        }
    }
    pairs.into_iter().map(|pair| pair.value).collect()
}

/// Checks all pairs, and a few, against the slow solver.
fn check_all(matrix: &[f64], n: usize) {
    let expected = jacobi(matrix.to_vec(), n);
    for count in [n, 3] {
        let found = check(matrix, n, count);
        for (i, (a, b)) in found.iter().zip(&expected).enumerate() {
            assert!((a - b).abs() <= 1e-10, "value {i} of {n} is {a}, expected {b}");
        }
    }
}

fn check_graph(n: usize, pairs: &[(u32, u32)]) {
    let (graph, _) = Graph::from_pairs(n, pairs).unwrap();
    for laplacian in [Laplacian::Combinatorial, Laplacian::Normalised] {
        check_all(&laplacian.matrix(&graph, MemoryLimit::NONE).unwrap(), n);
    }
}

/// `copies` of a graph side by side.
fn copies(n: u32, pairs: &[(u32, u32)], copies: u32) -> (usize, Vec<(u32, u32)>) {
    let shifted = |c: u32| pairs.iter().map(move |&(u, v)| (u + c * n, v + c * n));
    ((n * copies) as usize, (0..copies).flat_map(shifted).collect())
}

/// A tridiagonal matrix written out.
fn tridiagonal(diagonal: &[f64], beside: &[f64]) -> Vec<f64> {
    let n = diagonal.len();
    let mut matrix = vec![0.0; n * n];
    for i in 0..n {
        matrix[i * n + i] = diagonal[i];
        if i + 1 < n {
            matrix[i * n + i + 1] = beside[i];
            matrix[(i + 1) * n + i] = beside[i];
        }
    }
    matrix
}

#[test]
fn symmetric_graphs_have_equal_eigenvalues() {
    for n in 1..26u32 {
        let all = (0..n).flat_map(|v| (0..v).map(move |u| (u, v)));
        let size = n as usize;
        check_graph(size, &[]);
        check_graph(size, &all.clone().collect::<Vec<_>>()); // complete
        check_graph(size, &(1..n).map(|v| (0, v)).collect::<Vec<_>>()); // star
        check_graph(size, &(1..n).map(|v| (v - 1, v)).collect::<Vec<_>>()); // path
        check_graph(size, &(0..n).map(|v| (v, (v + 1) % n)).collect::<Vec<_>>()); // ring
        check_graph(size, &(1..n).map(|v| ((v - 1) / 2, v)).collect::<Vec<_>>()); // binary tree
        check_graph(size, &all.filter(|(u, v)| (u + v) % 2 == 1).collect::<Vec<_>>()); // bipartite
    }
    let cube: Vec<(u32, u32)> =
        (0..32).flat_map(|u| (0..5).map(move |bit| (u, u ^ (1 << bit)))).collect();
    check_graph(32, &cube);
    for (n, pairs) in [(1, vec![]), (2, vec![(0, 1)]), (3, vec![(0, 1), (1, 2), (2, 0)])] {
        let (n, pairs) = copies(n, &pairs, 15);
        check_graph(n, &pairs);
        check_graph(n + 3, &pairs); // and isolated nodes
    }
}

#[test]
fn eigenvalues_that_nearly_agree_have_orthogonal_vectors() {
    // Wilkinson's matrix of 21 rows, whose largest eigenvalues agree in pairs to fifteen digits; then
    // copies of it, joined by entries from negligible to not.
    let one: Vec<f64> = (0..21).map(|i| f64::from(i - 10i32).abs()).collect();
    check_all(&tridiagonal(&one, &[1.0; 20]), 21);
    for glue in [1e-15, 1e-14, 1e-13, 1e-12, 1e-10, 1e-8, 1e-6, 1e-3] {
        let diagonal = one.repeat(5);
        let beside: Vec<f64> =
            (1..diagonal.len()).map(|i| if i % 21 == 0 { glue } else { 1.0 }).collect();
        check_all(&tridiagonal(&diagonal, &beside), diagonal.len());
        // All eigenvalues within `glue`, coupled throughout.
        check_all(&tridiagonal(&[2.0; 60], &[glue; 59]), 60);
    }
}

#[test]
fn large_and_lopsided_graphs() {
    // A clique with a long tail: eigenvalues from 1e-5 to 150, and a multiple one.
    let mut lollipop: Vec<(u32, u32)> =
        (0..150).flat_map(|v| (0..v).map(move |u| (u, v))).collect();
    lollipop.extend((150..300).map(|v| (v - 1, v)));
    let star: Vec<(u32, u32)> = (1..300).map(|v| (0, v)).collect();
    let grid: Vec<(u32, u32)> = (0..300u32)
        .flat_map(|u| [(u, u + 1, u % 20 < 19), (u, u + 20, u < 280)])
        .filter_map(|(u, v, inside)| inside.then_some((u, v)))
        .collect();
    let (_, rings) = copies(6, &[(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)], 50);
    for pairs in [lollipop, star, grid, rings] {
        let (graph, _) = Graph::from_pairs(300, &pairs).unwrap();
        for laplacian in [Laplacian::Combinatorial, Laplacian::Normalised] {
            let matrix = laplacian.matrix(&graph, MemoryLimit::NONE).unwrap();
            check(&matrix, 300, 300);
            check(&matrix, 300, 12);
        }
    }
}

#[test]
fn trivial_matrices() {
    assert!(smallest(Vec::new(), 0, 3, f64::INFINITY).is_empty());
    check_all(&[0.0], 1);
    check_all(&[-3.0], 1);
    check_all(&[0.0; 16], 4);
    check_all(&[2.0, 1.0, 1.0, 2.0], 2);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn random_graphs(n in 1u32..45, per_node in 0.0f64..4.0, copied in 1u32..4, seed in any::<u64>()) {
        let mut stream = Seed(seed).stream("test", 0, 0);
        let edges = (f64::from(n) * per_node) as usize;
        let mut node = || stream.below(n.into()) as u32;
        let pairs: Vec<(u32, u32)> = (0..edges).map(|_| (node(), node())).collect();
        let (n, pairs) = copies(n, &pairs, copied);
        check_graph(n, &pairs);
    }

    #[test]
    fn random_matrices(n in 1usize..30, levels in 1u64..5, seed in any::<u64>()) {
        // Few distinct entries, so that some matrices are singular or have equal eigenvalues.
        let mut stream = Seed(seed).stream("test", 0, 0);
        let mut matrix = vec![0.0; n * n];
        for (i, j) in (0..n).flat_map(|i| (0..=i).map(move |j| (i, j))) {
            let entry = stream.below(2 * levels + 1) as f64 - levels as f64;
            (matrix[i * n + j], matrix[j * n + i]) = (entry, entry);
        }
        check_all(&matrix, n);
    }
}
