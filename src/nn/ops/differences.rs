//! Kernels against finite differences, with all sorts of instructions that this processor has.

use std::sync::Arc;

use super::{Kept, Operation};
use crate::nn::fused::Team;
use crate::rng::Seed;
use crate::simd::Simd;

/// So many numbers from `low` to `high`.
pub fn random(count: usize, [low, high]: [f32; 2], seed: u64) -> Vec<f32> {
    let mut stream = Seed(seed).stream("differences", count as u64, 0);
    (0..count).map(|_| low + (high - low) * stream.unit() as f32).collect()
}

/// A team of two.
pub fn two_threads() -> Arc<Team> {
    Arc::new(Team::new(2).unwrap())
}

/// All sorts of instructions, with two threads.
pub fn ways() -> impl Iterator<Item = (Simd, Arc<Team>)> {
    let team = two_threads();
    Simd::all().map(move |simd| (simd, team.clone()))
}

/// Holds the derivatives of Σ uᵢ yᵢ, for random u, against differences.
pub fn check<O: Operation<N>, const N: usize>(operation: &O, inputs: &[Vec<f32>; N]) {
    let slices = |inputs: &[Vec<f32>; N]| operation.forward(inputs.each_ref().map(Vec::as_slice));
    let (output, saved) = slices(inputs);
    let upstream = random(output.len(), [-0.5, 0.5], 99);
    let kept =
        Kept { inputs: inputs.each_ref().map(Vec::as_slice), output: &output, saved: &saved };
    let found = operation.backward(kept, &upstream);
    let loss = |inputs: &[Vec<f32>; N]| -> f64 {
        let products = slices(inputs).0.into_iter().zip(&upstream);
        products.map(|(y, u)| f64::from(y) * f64::from(*u)).sum()
    };
    assert!(found[0].iter().any(|x| *x != 0.0), "{operation:?} depends on nothing");
    let step = 2e-3;
    for (i, found) in found.iter().enumerate() {
        assert_eq!(found.len(), inputs[i].len(), "{operation:?}: input {i}");
        let largest = found.iter().fold(0.0, |largest: f32, x| largest.max(x.abs()));
        for (j, &derivative) in found.iter().enumerate() {
            let at = |change: f32| {
                let mut moved = inputs.clone();
                moved[i][j] += change;
                (loss(&moved), f64::from(moved[i][j]))
            };
            let (above, below) = (at(step), at(-step));
            let expected = (above.0 - below.0) / (above.1 - below.1);
            assert!(
                (f64::from(derivative) - expected).abs() < f64::from(2e-3 * largest + 1e-3),
                "{operation:?}: input {i}[{j}]: {derivative}, by differences {expected}",
            );
        }
    }
}
