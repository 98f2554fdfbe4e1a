//! Eigenvectors of a tridiagonal block, by inverse iteration.
//!
//! Solving (T − λI) y = x for λ next to an eigenvalue stretches x along its vector by some 10¹⁵ and along
//! others by the inverse of their distance to λ. Starting anywhere, two rounds suffice, and four are made.
//! Where eigenvalues lie close together, what was found before is taken out in every round, twice, because
//! once leaves behind the rounding of what was taken out.

use super::{Block, add_scaled, dot};
use crate::rng::{mix, unit};

/// Rounds of solving.
const ROUNDS: usize = 4;

/// Vectors of eigenvalues farther apart than this part of the norm are orthogonal by themselves, to 1e-12.
const CLOSE: f64 = 1e-3;

/// Solutions are scaled down where they grow beyond this.
const LARGE: f64 = 1e100;

/// An eigenvector of one block.
pub(super) struct Part {
    pub(super) value: f64,
    pub(super) block: usize,
    pub(super) vector: Vec<f64>,
}

/// The vector of `value` in `block`, orthogonal to those of the same block in `earlier`.
pub(super) fn part(
    block: &Block<'_>,
    index: usize,
    value: f64,
    norm: f64,
    earlier: &[Part],
) -> Part {
    let size = block.diagonal.len();
    if size == 1 {
        return Part { value, block: index, vector: vec![1.0] };
    }
    let close = |part: &&Part| part.block == index && value - part.value <= CLOSE * norm;
    let close: Vec<&[f64]> =
        earlier.iter().filter(close).map(|part| part.vector.as_slice()).collect();
    let factors = Factors::new(block, value, norm * f64::EPSILON);
    let mut vector = vec![0.0; size];
    start(&mut vector, close.len());
    for _ in 0..ROUNDS {
        factors.solve(&mut vector);
        normalise(&mut vector);
        for _ in 0..2 {
            for other in &close {
                let factor = -dot(other, &vector);
                add_scaled(&mut vector, factor, other);
            }
        }
        if !normalise(&mut vector) {
            // Nothing left beside what was taken out: somewhere else, then.
            start(&mut vector, size + close.len());
        }
    }
    Part { value, block: index, vector }
}

/// Numbers without a pattern, in [−1, 1).
fn start(vector: &mut [f64], salt: usize) {
    let salt = mix(salt as u64);
    for (i, number) in vector.iter_mut().enumerate() {
        *number = 2.0 * unit(mix(salt ^ i as u64)) - 1.0;
    }
}

/// Scales to unit length; false if there is no length.
fn normalise(vector: &mut [f64]) -> bool {
    let length = dot(vector, vector).sqrt();
    vector.iter_mut().for_each(|number| *number /= length);
    length > 0.0
}

/// T − λI = P L U with rows exchanged so that no multiplier exceeds 1.
struct Factors {
    /// U: its diagonal, the entries beside it, and those one further.
    rows: Vec<[f64; 3]>,
    /// L: the multiplier of every row below the first, and whether it was exchanged with the row above.
    steps: Vec<(f64, bool)>,
}

impl Factors {
    /// Pivots are at least `floor`, since λ is next to an eigenvalue and one of them is about zero.
    fn new(block: &Block<'_>, value: f64, floor: f64) -> Factors {
        let size = block.diagonal.len();
        let beside = |i: usize| block.beside.get(i).copied().unwrap_or(0.0);
        let mut rows = Vec::with_capacity(size);
        let mut steps = Vec::with_capacity(size - 1);
        // The row in work: its diagonal entry and the one beside.
        let (mut diagonal, mut next) = (block.diagonal[0] - value, beside(0));
        for i in 1..size {
            let (below, below_diagonal, below_next) =
                (beside(i - 1), block.diagonal[i] - value, beside(i));
            if diagonal.abs() >= below.abs() {
                let multiplier = below / diagonal;
                rows.push([diagonal, next, 0.0]);
                steps.push((multiplier, false));
                (diagonal, next) = (below_diagonal - multiplier * next, below_next);
            } else {
                let multiplier = diagonal / below;
                rows.push([below, below_diagonal, below_next]);
                steps.push((multiplier, true));
                (diagonal, next) = (next - multiplier * below_diagonal, -multiplier * below_next);
            }
        }
        rows.push([diagonal, 0.0, 0.0]);
        for [pivot, ..] in &mut rows {
            if pivot.abs() < floor {
                *pivot = if *pivot < 0.0 { -floor } else { floor };
            }
        }
        Factors { rows, steps }
    }

    /// Solves in place, up to a positive factor.
    fn solve(&self, x: &mut [f64]) {
        for (i, &(multiplier, exchanged)) in self.steps.iter().enumerate() {
            if exchanged {
                x.swap(i, i + 1);
            }
            x[i + 1] -= multiplier * x[i];
        }
        let (mut after, mut further) = (0.0, 0.0);
        for i in (0..x.len()).rev() {
            let [pivot, beside, beyond] = self.rows[i];
            x[i] = (x[i] - beside * after - beyond * further) / pivot;
            if x[i].abs() > LARGE {
                x.iter_mut().for_each(|number| *number /= LARGE);
                after /= LARGE;
            }
            (after, further) = (x[i], after);
        }
    }
}
