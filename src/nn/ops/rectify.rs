//! y = drop(relu(x + b)) over many rows. What was above 0 and was kept is above 0 in y, so the backward pass needs y alone.

use std::sync::Arc;

use burn::tensor::{Tensor, activation};

use super::dense::BLOCK;
use super::{Kept, Operation, PARTS, apply};
use crate::nn::fused::Team;
use crate::nn::layers::Dropout;
use crate::nn::pass::Pass;
use crate::rng::Coins;
use crate::simd::{Kernel, Simd, Vector, WIDTH};

/// drop(relu(x + b)): `[rows, width]` → `[rows, width]`.
pub fn rectified(pass: &Pass, x: Tensor<2>, bias: Tensor<1>, dropout: Dropout) -> Tensor<2> {
    let width = x.dims()[1];
    let composed = |[x, row]: [Tensor<2>; 2]| dropout.forward(pass, activation::relu(x + row));
    let inputs = [x, bias.unsqueeze()];
    if pass.is_composed() || !width.is_multiple_of(WIDTH) {
        return composed(inputs);
    }
    let (coins, simd, team) = (dropout.coins(pass), pass.simd(), pass.team().clone());
    apply(&Arc::new(Rectify { width, coins, simd, team }), inputs).unwrap_or_else(composed)
}

#[derive(Debug)]
struct Rectify {
    width: usize,
    coins: Option<Coins>,
    simd: Simd,
    team: Arc<Team>,
}

impl Operation<2> for Rectify {
    type Saved = ();
    const KEEPS_INPUTS: bool = false;
    const KEEPS_OUTPUT: bool = true;

    fn shape(&self, shapes: [[usize; 2]; 2]) -> [usize; 2] {
        shapes[0]
    }

    fn forward(&self, [x, bias]: [&[f32]; 2]) -> (Vec<f32>, ()) {
        let Rectify { width, ref coins, simd, .. } = *self;
        let y = self.team.make_rows(x.len() / width, width, |first, y| {
            let x = &x[first * width..][..y.len()];
            simd.run(Forward { x, bias, first, coins: coins.as_ref(), y });
        });
        (y, ())
    }

    fn backward(&self, kept: Kept<'_, (), 2>, gradient: &[f32]) -> [Vec<f32>; 2] {
        let Rectify { width, simd, .. } = *self;
        let keep = self.coins.as_ref().map_or(1.0, Coins::keep);
        let rows = (gradient.len() / width).div_ceil(PARTS).max(1) * width;
        let mut sums = vec![vec![0.0; width]; PARTS];
        let parts = kept.output.chunks(rows).zip(gradient.chunks(rows)).zip(&mut sums);
        let room = |((_, dy), _): &((_, &[f32]), _)| dy.len();
        let by_x = self.team.make(parts, room, |((y, dy), sums), by_x| {
            let block = BLOCK * width;
            for (y, dy) in y.chunks(block).zip(dy.chunks(block)) {
                simd.run(Backward { y, dy, keep, dx: by_x.next(dy.len()), sums });
            }
        });
        let mut by_bias = vec![0.0; width];
        for sums in &sums {
            by_bias.iter_mut().zip(sums).for_each(|(sum, own): (&mut f64, &f64)| *sum += own);
        }
        [by_x, by_bias.into_iter().map(|sum| sum as f32).collect()]
    }
}

struct Forward<'a> {
    x: &'a [f32],
    bias: &'a [f32],
    first: usize,
    coins: Option<&'a Coins>,
    y: &'a mut [f32],
}

impl Kernel for Forward<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let width = self.bias.len();
        let bias = self.bias.as_chunks::<WIDTH>().0;
        let rows = self.x.chunks_exact(width).zip(self.y.chunks_exact_mut(width));
        for (row, (x, y)) in rows.enumerate() {
            let coin = ((self.first + row) as u32).wrapping_mul(width as u32);
            let (x, y) = (x.as_chunks::<WIDTH>().0, y.as_chunks_mut::<WIDTH>().0);
            for (block, ((x, bias), y)) in x.iter().zip(bias).zip(y).enumerate() {
                // SAFETY: eight numbers each.
                unsafe {
                    let sum = V::load(x.as_ptr()).add(V::load(bias.as_ptr()));
                    let mut positive = sum.max(V::splat(0.0));
                    if let Some(coins) = self.coins {
                        positive = positive.toss(coins, coin.wrapping_add((block * WIDTH) as u32));
                    }
                    positive.store(y.as_mut_ptr());
                }
            }
        }
    }
}

struct Backward<'a> {
    y: &'a [f32],
    dy: &'a [f32],
    keep: f32,
    dx: &'a mut [f32],
    sums: &'a mut [f64],
}

impl Kernel for Backward<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let width = self.sums.len();
        let rows = self.y.chunks_exact(width).zip(self.dy.chunks_exact(width));
        for ((y, dy), dx) in rows.zip(self.dx.chunks_exact_mut(width)) {
            let (y, dy) = (y.as_chunks::<WIDTH>().0, dy.as_chunks::<WIDTH>().0);
            let out = dx.as_chunks_mut::<WIDTH>().0;
            let sums = self.sums.as_chunks_mut::<WIDTH>().0;
            for (((y, dy), dx), sums) in y.iter().zip(dy).zip(out).zip(sums) {
                // SAFETY: eight numbers each.
                unsafe {
                    let dy = V::load(dy.as_ptr()).mul(V::splat(self.keep));
                    dy.where_positive(V::load(y.as_ptr())).store(dx.as_mut_ptr());
                }
                sums.iter_mut().zip(dx).for_each(|(sum, x)| *sum += f64::from(*x));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::differences::{check, random, ways};
    use super::*;
    use crate::rng::Seed;

    #[test]
    fn what_is_rectified_has_its_derivatives() {
        for (simd, team) in ways() {
            for coins in [None, Some(Seed(1).coins("dropout", 0, 0, 0.3))] {
                // Far enough from 0 that no difference crosses it.
                let far = |x: f32| if x < 0.0 { x - 0.5 } else { x + 0.5 };
                let x = random(5 * WIDTH, [-1.0, 1.0], 1).into_iter().map(far).collect();
                let inputs = [x, random(WIDTH, [-0.4, 0.4], 3)];
                check(&Rectify { width: WIDTH, coins, simd, team: team.clone() }, &inputs);
            }
        }
    }
}
