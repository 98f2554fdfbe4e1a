//! Eigenvalues of a tridiagonal block, by counting.
//!
//! The number of eigenvalues below x is the number of negative pivots of T − x I,
//!
//! q_i = d_i − x − e_(i−1)² / q_(i−1)
//!
//! (Sylvester's law of inertia), and the computed count is the exact one of a matrix that differs from T in
//! the last bits. So an eigenvalue can be closed in on from both sides, whatever its neighbours are.
//! Eight points are counted at a time, which hides that each quotient waits for the one before: an
//! interval shrinks ninefold per pass.

use super::Block;

/// Points that are counted in one pass.
const POINTS: usize = 8;

/// The `count` smallest eigenvalues, ascending, within 2⁻⁵² of the norm.
pub(super) fn smallest(block: &Block<'_>, count: usize, norm: f64) -> Vec<f64> {
    let size = block.diagonal.len();
    if size == 1 {
        return block.diagonal.iter().copied().take(count).collect();
    }
    let count = count.min(size);
    let squares: Vec<f64> = block.beside.iter().map(|e| e * e).collect();
    // Every eigenvalue lies within the norm (Gershgorin); the margin is for rounding.
    let (mut lower, mut upper) = (vec![-1.01 * norm; count], vec![1.01 * norm; count]);
    let width = norm * f64::EPSILON;
    for j in 0..count {
        while upper[j] - lower[j] > width {
            let step = (upper[j] - lower[j]) / (POINTS + 1) as f64;
            let points: [f64; POINTS] = std::array::from_fn(|p| lower[j] + (p + 1) as f64 * step);
            // At the last bits points may coincide with the ends; then there is nothing more to learn.
            if points[0] <= lower[j] || points[POINTS - 1] >= upper[j] {
                break;
            }
            for (point, below) in points.into_iter().zip(count_below(block, &squares, &points)) {
                // What was learned about one eigenvalue holds for all before or after it.
                upper[..below.min(count)].iter_mut().for_each(|bound| *bound = bound.min(point));
                lower[below.min(count)..].iter_mut().for_each(|bound| *bound = bound.max(point));
            }
        }
    }
    let mut values: Vec<f64> = lower.iter().zip(&upper).map(|(l, u)| l + (u - l) / 2.0).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// How many eigenvalues lie below each of the points.
fn count_below(block: &Block<'_>, squares: &[f64], points: &[f64; POINTS]) -> [usize; POINTS] {
    // A pivot of zero counts as negative, which moves an entry by less than any rounding. Squares are
    // at most 1e100 here, so no quotient overflows.
    const TINY: f64 = 1e-200;
    let mut pivots = [1.0; POINTS];
    let mut counts = [0u64; POINTS];
    let mut square = 0.0;
    for (i, &d) in block.diagonal.iter().enumerate() {
        for lane in 0..POINTS {
            let pivot = d - points[lane] - square / pivots[lane];
            let pivot = if pivot.abs() < TINY { -TINY } else { pivot };
            pivots[lane] = pivot;
            counts[lane] += u64::from(pivot < 0.0);
        }
        square = squares.get(i).copied().unwrap_or(0.0);
    }
    counts.map(|count| count as usize)
}
