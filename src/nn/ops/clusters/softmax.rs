//! The softmax of a tile, forward with the largest score so far carried along, and backward from its logarithm.

use crate::rng::Coins;
use crate::simd::{Kernel, Vector, WIDTH};

/// From scores of a tile to powers, which dropout may take out; sums and largest scores are carried along.
pub(super) struct Powers<'a> {
    /// Columns, and from a row to the next.
    pub size: [usize; 2],
    /// Rows of bias, and which of them each row has.
    pub bias: (&'a [f32], &'a [u32]),
    pub scores: &'a mut [f32],
    pub largest: &'a mut [f32],
    pub sums: &'a mut [f32],
    /// What is left of earlier sums.
    pub factors: &'a mut [f32],
    pub coins: Option<(&'a Coins, u32, &'a [u32])>,
}

impl Kernel for Powers<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let (bias, which) = self.bias;
        let [columns, stride] = self.size;
        for (row, scores) in self.scores.chunks_exact_mut(stride).enumerate() {
            let scores = &mut scores.as_chunks_mut::<WIDTH>().0[..columns / WIDTH];
            let bias = &bias[which[row] as usize * stride..].as_chunks::<WIDTH>().0[..scores.len()];
            // SAFETY: eight numbers each.
            unsafe {
                let mut largest = V::splat(self.largest[row]);
                for (score, bias) in scores.iter_mut().zip(bias) {
                    let sum = V::load(score.as_ptr()).add(V::load(bias.as_ptr()));
                    sum.store(score.as_mut_ptr());
                    largest = largest.max(sum);
                }
                let largest = largest.largest();
                let shift = V::splat(largest);
                let mut sum = V::splat(0.0);
                for (number, score) in scores.iter_mut().enumerate() {
                    let mut power = V::load(score.as_ptr()).sub(shift).exp();
                    sum = sum.add(power);
                    if let Some((coins, first, firsts)) = self.coins {
                        let first = first.wrapping_add(firsts[row]);
                        power = power.toss(coins, first.wrapping_add((number * WIDTH) as u32));
                    }
                    power.store(score.as_mut_ptr());
                }
                let factor = (self.largest[row] - largest).exp();
                self.factors[row] = factor;
                self.sums[row] = self.sums[row] * factor + sum.sum();
                self.largest[row] = largest;
            }
        }
    }
}

/// From scores and derivatives by weights after dropout to these weights and derivatives by scores.
pub(super) struct Derivatives<'a> {
    /// Columns, and from a row to the next.
    pub size: [usize; 2],
    pub bias: (&'a [f32], &'a [u32]),
    pub scores: &'a mut [f32],
    pub by_weight: &'a mut [f32],
    pub logarithms: &'a [f32],
    /// Σ p dp of each row, unless all clusters are in this tile.
    pub means: Option<&'a [f32]>,
    pub coins: Option<(&'a Coins, u32, &'a [u32])>,
}

impl Kernel for Derivatives<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let (bias, which) = self.bias;
        let [columns, stride] = self.size;
        let rows =
            self.scores.chunks_exact_mut(stride).zip(self.by_weight.chunks_exact_mut(stride));
        for (row, (scores, by_weight)) in rows.enumerate() {
            let scores = &mut scores.as_chunks_mut::<WIDTH>().0[..columns / WIDTH];
            let by_weight = by_weight.as_chunks_mut::<WIDTH>().0;
            let bias = bias[which[row] as usize * stride..].as_chunks::<WIDTH>().0;
            let coins =
                self.coins.map(|(coins, first, firsts)| (coins, first.wrapping_add(firsts[row])));
            let tossed = |x: V, number: usize| match coins {
                // SAFETY: as the caller's.
                Some((coins, first)) => unsafe {
                    x.toss(coins, first.wrapping_add((number * WIDTH) as u32))
                },
                None => x,
            };
            // SAFETY: eight numbers each.
            unsafe {
                let shift = V::splat(self.logarithms[row]);
                let mut sum = V::splat(0.0);
                let all = scores.iter_mut().zip(by_weight.iter_mut()).zip(bias).enumerate();
                for (number, ((score, by_weight), bias)) in all {
                    let total = V::load(score.as_ptr()).add(V::load(bias.as_ptr()));
                    let weight = total.sub(shift).exp();
                    let by = tossed(V::load(by_weight.as_ptr()), number);
                    sum = by.mul_add(weight, sum);
                    weight.store(score.as_mut_ptr());
                    by.store(by_weight.as_mut_ptr());
                }
                let mean = V::splat(self.means.map_or_else(|| sum.sum(), |means| means[row]));
                for (number, (score, by_weight)) in scores.iter_mut().zip(by_weight).enumerate() {
                    let weight = V::load(score.as_ptr());
                    tossed(weight, number).store(score.as_mut_ptr());
                    let by = V::load(by_weight.as_ptr());
                    by.sub(mean).mul(weight).store(by_weight.as_mut_ptr());
                }
            }
        }
    }
}
