//! LayerNorm of many rows, with ReLU and dropout after it.
//!
//! ```text
//! x̂ = (x − mean) / √(variance + ε)  of every row      y = drop(relu(w x̂ + b))
//! dx = r (g − mean(g) − x̂ mean(g x̂))                 g = w dy where it passed,  r = 1 / √(variance + ε)
//! ```
//!
//! A row is read from memory once, forward and backward; nothing but x is kept.

use std::sync::Arc;

use burn::tensor::{Tensor, activation};

use super::{Kept, Operation, PARTS, apply};
use crate::nn::fused::Team;
use crate::nn::layers::{Dropout, EPSILON, LayerNorm};
use crate::nn::pass::Pass;
use crate::rng::Coins;
use crate::simd::{Kernel, Simd, Vector, WIDTH};

/// drop(relu(LayerNorm(x))), or without ReLU: `[rows, width]` → `[rows, width]`.
pub fn layer_normalised(
    pass: &Pass,
    x: Tensor<2>,
    norm: &LayerNorm,
    rectify: bool,
    dropout: Dropout,
) -> Tensor<2> {
    let [rows, width] = x.dims();
    let composed = |x: Tensor<2>| {
        let y = norm.composed(pass, x);
        dropout.forward(pass, if rectify { activation::relu(y) } else { y })
    };
    if pass.is_composed() || rows == 0 || !width.is_multiple_of(WIDTH) {
        return composed(x);
    }
    let coins = dropout.coins(pass);
    let (simd, team) = (pass.simd(), pass.team().clone());
    let kernel = Arc::new(Normalise { width, rectify, coins, simd, team });
    let [scale, shift] = norm.params(pass).map(Tensor::unsqueeze);
    apply(&kernel, [x, scale, shift]).unwrap_or_else(|[x, ..]| composed(x))
}

#[derive(Debug)]
struct Normalise {
    width: usize,
    rectify: bool,
    coins: Option<Coins>,
    simd: Simd,
    team: Arc<Team>,
}

impl Operation<3> for Normalise {
    type Saved = ();

    fn shape(&self, shapes: [[usize; 2]; 3]) -> [usize; 2] {
        shapes[0]
    }

    fn forward(&self, [x, scale, shift]: [&[f32]; 3]) -> (Vec<f32>, ()) {
        let mut y = vec![0.0; x.len()];
        self.team.share_rows(&mut y, self.width, |first, y| {
            let x = &x[first * self.width..][..y.len()];
            let rows = Rows { x, first, params: [scale, shift], op: self };
            self.simd.run(Forward { rows, y });
        });
        (y, ())
    }

    fn backward(&self, kept: Kept<'_, (), 3>, gradient: &[f32]) -> [Vec<f32>; 3] {
        let [x, scale, shift] = kept.inputs;
        let width = self.width;
        let mut by_x = vec![0.0; x.len()];
        let piece = (x.len() / width).div_ceil(PARTS).max(1) * width;
        let mut sums = vec![[vec![0.0; width], vec![0.0; width]]; PARTS];
        let places = x.chunks(piece).zip(gradient.chunks(piece)).zip(by_x.chunks_mut(piece));
        self.team.each(places.zip(&mut sums).enumerate(), |(number, (((x, dy), dx), sums))| {
            let first = number * piece / width;
            let rows = Rows { x, first, params: [scale, shift], op: self };
            self.simd.run(Backward { rows, dy, dx, sums });
        });
        let total = |which: usize| {
            let mut total = vec![0.0; width];
            for part in &sums {
                total
                    .iter_mut()
                    .zip(&part[which])
                    .for_each(|(sum, own): (&mut f64, _)| *sum += own);
            }
            total.into_iter().map(|sum| sum as f32).collect()
        };
        [by_x, total(0), total(1)]
    }
}

/// Rows to normalise.
struct Rows<'a> {
    x: &'a [f32],
    /// The number of the first.
    first: usize,
    /// w and b
    params: [&'a [f32]; 2],
    op: &'a Normalise,
}

impl Rows<'_> {
    /// The number of the first coin of a row.
    fn coin(&self, row: usize) -> u32 {
        ((self.first + row) as u32).wrapping_mul(self.op.width as u32)
    }

    /// Mean of a row, and what its deviations are multiplied by.
    #[inline(always)]
    unsafe fn moments<V: Vector>(&self, x: &[[f32; WIDTH]]) -> [f32; 2] {
        // SAFETY: eight numbers each.
        unsafe {
            let count = self.op.width as f32;
            let mut sum = V::splat(0.0);
            for x in x {
                sum = sum.add(V::load(x.as_ptr()));
            }
            let mean = sum.sum() / count;
            let mut squares = V::splat(0.0);
            for x in x {
                let off = V::load(x.as_ptr()).sub(V::splat(mean));
                squares = off.mul_add(off, squares);
            }
            [mean, 1.0 / (squares.sum() / count + EPSILON as f32).sqrt()]
        }
    }
}

struct Forward<'a> {
    rows: Rows<'a>,
    y: &'a mut [f32],
}

impl Kernel for Forward<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Rows { x, params, op, .. } = self.rows;
        let [scale, shift] = params.map(|param| param.as_chunks::<WIDTH>().0);
        let places = x.chunks_exact(op.width).zip(self.y.chunks_exact_mut(op.width));
        for (row, (x, y)) in places.enumerate() {
            let (x, y) = (x.as_chunks::<WIDTH>().0, y.as_chunks_mut::<WIDTH>().0);
            let coin = self.rows.coin(row);
            // SAFETY: eight numbers each.
            unsafe {
                let [mean, factor] = self.rows.moments::<V>(x);
                let params = scale.iter().zip(shift);
                for (block, ((x, (scale, shift)), y)) in x.iter().zip(params).zip(y).enumerate() {
                    let normal = V::load(x.as_ptr()).sub(V::splat(mean)).mul(V::splat(factor));
                    let mut out = normal.mul_add(V::load(scale.as_ptr()), V::load(shift.as_ptr()));
                    if op.rectify {
                        out = out.max(V::splat(0.0));
                    }
                    if let Some(coins) = &op.coins {
                        out = out.toss(coins, coin.wrapping_add((block * WIDTH) as u32));
                    }
                    out.store(y.as_mut_ptr());
                }
            }
        }
    }
}

struct Backward<'a> {
    rows: Rows<'a>,
    dy: &'a [f32],
    dx: &'a mut [f32],
    /// By w and b.
    sums: &'a mut [Vec<f64>; 2],
}

impl Kernel for Backward<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Rows { x, params, op, .. } = self.rows;
        let [scale, shift] = params.map(|param| param.as_chunks::<WIDTH>().0);
        let [by_scale, by_shift] = self.sums.each_mut().map(|sums| sums.as_chunks_mut::<WIDTH>().0);
        let places = x.chunks_exact(op.width).zip(self.dy.chunks_exact(op.width));
        for (row, ((x, dy), dx)) in places.zip(self.dx.chunks_exact_mut(op.width)).enumerate() {
            let (x, dy) = (x.as_chunks::<WIDTH>().0, dy.as_chunks::<WIDTH>().0);
            let dx = dx.as_chunks_mut::<WIDTH>().0;
            let coin = self.rows.coin(row);
            // SAFETY: eight numbers each, as many in every array.
            unsafe {
                let [mean, factor] = self.rows.moments::<V>(x);
                let [mut sum, mut along] = [V::splat(0.0); 2];
                // g, in the place of dx.
                for block in 0..x.len() {
                    let normal =
                        V::load(x[block].as_ptr()).sub(V::splat(mean)).mul(V::splat(factor));
                    let weight = V::load(scale[block].as_ptr());
                    let mut dy = V::load(dy[block].as_ptr());
                    if let Some(coins) = &op.coins {
                        dy = dy.toss(coins, coin.wrapping_add((block * WIDTH) as u32));
                    }
                    if op.rectify {
                        dy = dy
                            .where_positive(normal.mul_add(weight, V::load(shift[block].as_ptr())));
                    }
                    let (of_shift, of_scale) = (dy.to_array(), dy.mul(normal).to_array());
                    for lane in 0..WIDTH {
                        by_shift[block][lane] += f64::from(of_shift[lane]);
                        by_scale[block][lane] += f64::from(of_scale[lane]);
                    }
                    let g = dy.mul(weight);
                    sum = sum.add(g);
                    along = g.mul_add(normal, along);
                    g.store(dx[block].as_mut_ptr());
                }
                let count = op.width as f32;
                let (sum, along) = (V::splat(sum.sum() / count), V::splat(along.sum() / count));
                for (x, dx) in x.iter().zip(dx) {
                    let normal = V::load(x.as_ptr()).sub(V::splat(mean)).mul(V::splat(factor));
                    let inner = V::load(dx.as_ptr()).sub(sum).sub(normal.mul(along));
                    inner.mul(V::splat(factor)).store(dx.as_mut_ptr());
                }
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
    fn it_has_its_derivatives() {
        for (simd, team) in ways() {
            for rectify in [false, true] {
                for coins in [None, Some(Seed(3).coins("norm", 0, 0, 0.4))] {
                    let team = team.clone();
                    let kernel = Normalise { width: 16, rectify, coins, simd, team };
                    let inputs = [
                        random(19 * 16, [-1.0, 2.0], 1),
                        random(16, [0.5, 1.5], 2),
                        random(16, [-0.5, 0.5], 3),
                    ];
                    check(&kernel, &inputs);
                }
            }
        }
    }
}
