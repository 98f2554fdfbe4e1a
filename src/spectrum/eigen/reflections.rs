//! Householder reflections to tridiagonal form, from the last row up.
//!
//! Row i is reflected onto its entry beside the diagonal: with x the entries left of the diagonal,
//!
//! u = x ± ‖x‖ e_(i−1),  h = ‖u‖² / 2,  H = I − u uᵀ / h,
//!
//! and H A H = A − u wᵀ − w uᵀ for w = p − (uᵀp / 2h) u, p = A u / h. Only the lower triangle is kept, and
//! u stays where x was. Each row is read and written as it lies in memory.

use super::{Tridiagonal, add_scaled, dot};

/// The orthogonal matrix Q of A = Q T Qᵀ, as the reflections whose product it is.
pub(super) struct Reflections {
    size: usize,
    /// Row i holds u of the reflection of row i, left of the diagonal.
    rows: Vec<f64>,
    /// h of every row; 0 where nothing was reflected.
    halves: Vec<f64>,
}

impl Reflections {
    /// Makes the lower triangle of `matrix`, [size, size], tridiagonal.
    pub(super) fn new(mut matrix: Vec<f64>, size: usize) -> (Reflections, Tridiagonal) {
        let mut halves = vec![0.0; size];
        let mut diagonal = vec![0.0; size];
        let mut beside = vec![0.0; size.saturating_sub(1)];
        let mut product = vec![0.0; size];
        for i in (0..size).rev() {
            let (above, row) = matrix.split_at_mut(i * size);
            let (x, rest) = row.split_at_mut(i);
            diagonal[i] = rest[0];
            let Some((&mut last, others)) = x.split_last_mut() else { continue };
            let others = dot(others, others);
            // Squares below the smallest normal number belong to entries that are nothing beside any other.
            if others < f64::MIN_POSITIVE {
                beside[i - 1] = last;
                continue;
            }
            let length = (others + last * last).sqrt();
            let signed = if last < 0.0 { -length } else { length };
            x[i - 1] += signed;
            beside[i - 1] = -signed;
            halves[i] = others + last * last + last.abs() * length;
            reflect(above, size, x, halves[i], &mut product[..i]);
        }
        (Reflections { size, rows: matrix, halves }, Tridiagonal { diagonal, beside })
    }

    /// Q times `vector`, in place.
    pub(super) fn carry_back(&self, vector: &mut [f64]) {
        for (i, &half) in self.halves.iter().enumerate().filter(|&(_, &half)| half != 0.0) {
            let u = &self.rows[i * self.size..][..i];
            let part = &mut vector[..i];
            let factor = -dot(u, part) / half;
            add_scaled(part, factor, u);
        }
    }
}

/// H A H for the leading rows of the matrix, as many as `u` has entries.
fn reflect(matrix: &mut [f64], size: usize, u: &[f64], half: f64, product: &mut [f64]) {
    // A u from the lower triangle: row j gives its own entry, and its part of those before.
    product.fill(0.0);
    for j in 0..u.len() {
        let row = &matrix[j * size..][..=j];
        let (before, diagonal) = (&row[..j], row[j]);
        product[j] = dot(before, &u[..j]) + diagonal * u[j];
        add_scaled(&mut product[..j], u[j], before);
    }
    product.iter_mut().for_each(|p| *p /= half);
    let factor = -dot(u, product) / (2.0 * half);
    add_scaled(product, factor, u);
    for j in 0..u.len() {
        let row = &mut matrix[j * size..][..=j];
        let (u_j, w_j) = (u[j], product[j]);
        for ((entry, &u), &w) in row.iter_mut().zip(u).zip(&*product) {
            *entry -= u_j * w + w_j * u;
        }
    }
}
