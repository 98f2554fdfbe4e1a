//! The smallest eigenvalues of a symmetric matrix, and their eigenvectors.
//!
//! 1. [`reflections`]: Householder reflections make the matrix A = Q T Qᵀ tridiagonal, 4n³/3 operations.
//! 2. T falls apart where an entry beside its diagonal vanishes. Equal eigenvalues lie in different
//!    blocks, whose vectors are orthogonal because they do not overlap.
//! 3. [`bisection`]: the smallest eigenvalues of every block, counted off by Sturm sequences.
//! 4. [`inverse`]: vectors of the few that are wanted, by inverse iteration.
//! 5. The reflections carry the vectors back.
//!
//! Beside the first step, an eigenvalue takes some twenty passes over T, and its vector a few more and O(n²)
//! to carry back. Every step is backward stable; tests hold residuals ‖Av − λv‖ and scalar products of
//! different vectors to 1e-10, on symmetric graphs and on matrices made to be hard.
//!
//! Only sums, products, quotients and square roots in a fixed order: the same bytes on every machine.
//!
//! Wilkinson, "The Algebraic Eigenvalue Problem", Oxford 1965; Barth, Martin & Wilkinson, Numerische
//! Mathematik 9, 1967; Peters & Wilkinson, SIAM Review 21, 1979.

mod bisection;
mod inverse;
mod reflections;
#[cfg(test)]
mod tests;

use std::ops::Range;

use reflections::Reflections;

/// Entries beside the diagonal below this part of the norm are taken for zero: rounding in the
/// reflections is of that order, so a smaller entry says nothing.
const NEGLIGIBLE: f64 = 1.0 / (1u64 << 45) as f64;

/// An eigenvalue and its vector of unit length.
pub(crate) struct Pair {
    pub(crate) value: f64,
    pub(crate) vector: Vec<f64>,
}

/// A symmetric tridiagonal matrix.
pub(super) struct Tridiagonal {
    diagonal: Vec<f64>,
    /// `beside[i]` couples i and i + 1; one fewer than there are rows.
    beside: Vec<f64>,
}

/// The `count` smallest eigenvalues below `bound`, ascending, with their vectors. `matrix` is
/// [size, size] with at least its lower triangle filled.
pub(crate) fn smallest(matrix: Vec<f64>, size: usize, count: usize, bound: f64) -> Vec<Pair> {
    let (reflections, tridiagonal) = Reflections::new(matrix, size);
    let norm = tridiagonal.norm();
    let blocks: Vec<Block<'_>> = tridiagonal.blocks(NEGLIGIBLE * norm).collect();
    let mut wanted: Vec<(f64, usize)> = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        let values = bisection::smallest(block, count, norm);
        wanted.extend(values.into_iter().map(|value| (value, index)));
    }
    wanted.retain(|&(value, _)| value < bound);
    // Stable, so that equal values keep the order of their blocks.
    wanted.sort_by(|a, b| a.0.total_cmp(&b.0));
    wanted.truncate(count);

    let mut parts: Vec<inverse::Part> = Vec::with_capacity(wanted.len());
    for &(value, index) in &wanted {
        let part = inverse::part(&blocks[index], index, value, norm, &parts);
        parts.push(part);
    }
    let whole = |part: inverse::Part| {
        let mut vector = vec![0.0; size];
        vector[blocks[part.block].rows.clone()].copy_from_slice(&part.vector);
        reflections.carry_back(&mut vector);
        Pair { value: part.value, vector }
    };
    parts.into_iter().map(whole).collect()
}

/// Rows of a tridiagonal matrix that no other rows are coupled with.
struct Block<'a> {
    rows: Range<usize>,
    diagonal: &'a [f64],
    beside: &'a [f64],
}

impl Tridiagonal {
    /// The largest sum of absolute entries of a row.
    fn norm(&self) -> f64 {
        let entry = |i: usize| self.beside.get(i).map_or(0.0, |e| e.abs());
        let row =
            |(i, d): (usize, &f64)| d.abs() + entry(i) + if i > 0 { entry(i - 1) } else { 0.0 };
        self.diagonal.iter().enumerate().map(row).fold(0.0, f64::max)
    }

    /// The blocks that are left when entries of at most `negligible` are taken for zero.
    fn blocks(&self, negligible: f64) -> impl Iterator<Item = Block<'_>> {
        let mut start = 0;
        let size = self.diagonal.len();
        (1..=size).filter_map(move |end| {
            if end < size && self.beside[end - 1].abs() > negligible {
                return None;
            }
            let rows = std::mem::replace(&mut start, end)..end;
            let (diagonal, beside) =
                (&self.diagonal[rows.clone()], &self.beside[rows.start..end - 1]);
            Some(Block { rows, diagonal, beside })
        })
    }
}

/// Sum of products. Four running sums: the processor adds them at a time, and their order is the same
/// everywhere.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<4>(), b.as_chunks::<4>());
    let mut sums = [0.0; 4];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..4 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    (sums[0] + sums[2]) + (sums[1] + sums[3]) + rest
}

/// Adds `factor` times `x` to `y`.
fn add_scaled(y: &mut [f64], factor: f64, x: &[f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += factor * x;
    }
}
