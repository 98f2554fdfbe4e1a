//! What this machine can do: the rate of a plain matrix product.

use std::time::Instant;

use crate::nn::{cpu, matrix, values};

/// Rows and columns of the product.
const SIZE: usize = 512;
/// How often it is made; the fastest counts.
const REPEATS: usize = 20;

/// GFLOP/s of matrix products on all threads at once, each with its own.
pub(super) fn peak() -> f64 {
    let rate = |_: rayon::BroadcastContext<'_>| {
        let best = (0..REPEATS).map(|_| seconds()).fold(f64::INFINITY, f64::min);
        2.0 * SIZE.pow(3) as f64 / best * 1e-9
    };
    rayon::broadcast(rate).into_iter().sum()
}

/// Seconds of one product on one thread. Burn's is the fastest here so far; a faster kernel takes its place, so
/// that the peak is never below what steps can reach.
fn seconds() -> f64 {
    let operand = || matrix(vec![1.0; SIZE * SIZE], [SIZE, SIZE], &cpu());
    let (a, b) = (operand(), operand());
    let clock = Instant::now();
    let product = a.matmul(b);
    let seconds = clock.elapsed().as_secs_f64();
    std::hint::black_box(values(product));
    seconds
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_rate_is_found() {
        let found = super::peak();
        assert!(found.is_finite() && found > 0.0, "{found}");
    }
}
