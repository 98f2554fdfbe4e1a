//! A limit to the length of the whole gradient.
//!
//! Gradients longer than c in the L2 norm over all parameters are shortened to about c: every element is
//! multiplied by min(1, c / (‖g‖ + 10⁻⁶)) (Pascanu, Mikolov & Bengio, ICML 2013; the 10⁻⁶ is PyTorch's). The
//! sum of squares is `f64` in eight interleaved parts of blocks of a fixed size, so it has the same bits on every
//! machine and for any number of threads, and cannot overflow.
//!
//! ```
//! use hdse::train::clip_norm;
//! let mut gradients = [3.0, 4.0];
//! assert_eq!(clip_norm(&mut gradients, 1.0), 5.0); // the norm before
//! assert!((gradients[0] - 0.6).abs() < 1e-6 && (gradients[1] - 0.8).abs() < 1e-6);
//! ```

use std::sync::Mutex;

use crate::nn::fused::Team;
use crate::simd::{Kernel, Simd, Vector};

/// Parts of the sum; enough that additions need not wait for each other.
const PARTS: usize = 8;
/// Numbers summed by one thread at a time.
const BLOCK: usize = 1 << 15;

/// Shortens gradients to L2 norm `max_norm` if they are longer, and gives the norm they had.
///
/// Gradients within the limit keep every bit; with an infinite `max_norm` this only measures. If the norm is
/// infinite or NaN, as it is when a gradient is, they are left alone too: there is nothing to rescue, and the
/// caller sees from the result that it should stop or skip the step. A `max_norm` that is negative or NaN
/// counts as such a failure, with NaN as the result.
pub fn clip_norm(gradients: &mut [f32], max_norm: f64) -> f64 {
    let (norm, factor) = measure(&Team::default(), gradients, max_norm);
    if factor < 1.0 {
        gradients.iter_mut().for_each(|gradient| *gradient *= factor);
    }
    norm
}

/// The norm of gradients, measured by a team, and what to multiply them by.
pub(crate) fn measure(team: &Team, gradients: &[f32], max_norm: f64) -> (f64, f32) {
    if max_norm.is_nan() || max_norm < 0.0 {
        return (f64::NAN, 1.0);
    }
    let norm = norm(team, gradients);
    let factor = (max_norm / (norm + 1e-6)) as f32;
    (norm, if norm.is_finite() { factor.min(1.0) } else { 1.0 })
}

/// The L2 norm.
fn norm(team: &Team, numbers: &[f32]) -> f64 {
    let blocks: Vec<(&[f32], Mutex<f64>)> =
        numbers.chunks(BLOCK).map(|block| (block, Mutex::new(0.0))).collect();
    let simd = Simd::detect();
    team.share(blocks.len(), |own| {
        for (numbers, sum) in &blocks[own] {
            let mut squares = 0.0;
            simd.run(Squares { numbers, sum: &mut squares });
            *sum.lock().expect("no other thread has this block") = squares;
        }
    });
    let sum = |(_, sum): (&[f32], Mutex<f64>)| sum.into_inner().unwrap_or(f64::NAN);
    blocks.into_iter().map(sum).sum::<f64>().sqrt()
}

struct Squares<'a> {
    numbers: &'a [f32],
    sum: &'a mut f64,
}

impl Kernel for Squares<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let mut sums = [0.0f64; PARTS];
        let (chunks, rest) = self.numbers.as_chunks::<PARTS>();
        for chunk in chunks {
            for (sum, &number) in sums.iter_mut().zip(chunk) {
                *sum += f64::from(number) * f64::from(number);
            }
        }
        for (sum, &number) in sums.iter_mut().zip(rest) {
            *sum += f64::from(number) * f64::from(number);
        }
        *self.sum = sums.iter().sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bits(numbers: &[f32]) -> Vec<u32> {
        numbers.iter().map(|number| number.to_bits()).collect()
    }

    proptest! {
        #[test]
        fn long_gradients_shrink_and_short_ones_stay(
            gradients in proptest::collection::vec(-10f32..10.0, 0..50), max_norm in 0.0..20f64
        ) {
            let before: f64 = gradients.iter().map(|&g| f64::from(g).powi(2)).sum::<f64>().sqrt();
            let mut clipped = gradients.clone();
            let found = clip_norm(&mut clipped, max_norm);
            prop_assert!((found - before).abs() <= 1e-12 * before);
            if before + 1e-6 < max_norm {
                prop_assert_eq!(bits(&clipped), bits(&gradients));
            } else {
                let factor = (max_norm / (before + 1e-6)).min(1.0);
                for (a, b) in clipped.iter().zip(&gradients) {
                    prop_assert!((f64::from(*a) - f64::from(*b) * factor).abs() < 1e-5);
                }
                prop_assert!(norm(&Team::default(), &clipped) <= max_norm * (1.0 + 1e-6));
            }
        }
    }

    #[test]
    fn the_norm_does_not_depend_on_threads() {
        let numbers: Vec<f32> = (0..200_001).map(|i| (i % 977) as f32 * 1e-3).collect();
        let one = norm(&Team::default(), &numbers);
        for threads in [2, 3] {
            let team = Team::new(threads).unwrap();
            assert_eq!(norm(&team, &numbers).to_bits(), one.to_bits());
        }
    }

    #[test]
    fn what_is_not_finite_is_told_and_left() {
        for bad in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            let mut gradients = [1.0, bad, 2.0];
            let norm = clip_norm(&mut gradients, 1.0);
            assert!(norm == f64::INFINITY || bad.is_nan() && norm.is_nan());
            assert_eq!(bits(&gradients), bits(&[1.0, bad, 2.0]));
        }
    }

    #[test]
    fn extremes_have_a_norm() {
        let mut gradients = [f32::MAX; 4];
        assert_eq!(clip_norm(&mut gradients, f64::INFINITY), 2.0 * f64::from(f32::MAX));
        assert_eq!(gradients, [f32::MAX; 4]);
        assert_eq!(clip_norm(&mut [], 1.0), 0.0);
        assert_eq!(clip_norm(&mut gradients, 0.0), 2.0 * f64::from(f32::MAX));
        assert_eq!(gradients, [0.0; 4]);
        for limit in [-1.0, f64::NAN] {
            let mut gradients = [3.0];
            assert!(clip_norm(&mut gradients, limit).is_nan());
            assert_eq!(gradients, [3.0]);
        }
    }
}
