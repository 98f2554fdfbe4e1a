//! Biased attention inside a graph, head by head, forward and backward.
//!
//! ```text
//! s = q kᵀ/√w + bias[code]     p = softmax(s)     y = (m ⊙ p) v
//! dp = m ⊙ (dy vᵀ)   ds = p ⊙ (dp − Σ p dp)   dv = (m ⊙ p)ᵀ dy   dq = ds k/√w   dk = dsᵀ q/√w
//! ```
//!
//! Weights that dropout took out are kept with a minus sign, so the backward pass tosses no coin again.
//! Scores are rows padded to whole vectors; keys, and in the backward pass values, are turned so that a row of
//! scores is a sum of rows. The bias is looked up in a table with a row for each head, and its derivative
//! is added up for all heads at once: `[codes, heads]`, in double precision since many pairs share a code.

use super::lanes::{Span, Spans};
use super::product::{Left, Right, Store, product};
use super::stack::fit;
use crate::rng::Coins;
use crate::simd::{Kernel, Simd, Vector, WIDTH, padded};

/// How heads lie in rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Heads.
    pub count: usize,
    /// Numbers of a head.
    pub width: usize,
    /// From a row of queries, keys and values to the next.
    pub stride: usize,
    /// From a row of results to the next.
    pub out_stride: usize,
}

impl Heads {
    /// Numbers of a head with those that fill the last vector.
    pub fn padded(&self) -> usize {
        padded(self.width)
    }

    /// First column of a head's query (0), key (1) or value (2).
    fn column(&self, part: usize, head: usize) -> usize {
        (part * self.count + head) * self.padded()
    }

    /// What scores are multiplied by.
    pub fn scale(&self) -> f32 {
        1.0 / (self.width as f32).sqrt()
    }
}

/// Memory for one graph and all its heads.
#[derive(Debug, Default)]
pub struct Scratch {
    turned: Vec<f32>,
    dropped: Vec<f32>,
    scores: Vec<f32>,
}

/// Attention inside graphs: `mixed` from `packed` = queries, keys, values; `weights` are kept.
#[expect(clippy::too_many_arguments, reason = "all of it is one operation")]
pub fn forward(
    simd: Simd,
    heads: Heads,
    spans: &Spans,
    packed: &[f32],
    bias: Option<(&[f32], usize)>,
    coins: Option<&Coins>,
    weights: &mut [f32],
    mixed: &mut [f32],
    scratch: &mut Scratch,
) {
    for span in &spans.graphs {
        let (size, stride) = (span.size(), span.stride());
        let rows = span.rows.start * heads.stride;
        for head in 0..heads.count {
            let weights = &mut weights[place(heads, span, head)..][..span.pairs()];
            turn(simd, &packed[rows + heads.column(1, head)..], heads, size, &mut scratch.turned);
            let queries = Left::rows(&packed[rows + heads.column(0, head)..], heads.stride);
            let keys = Right::rows(&scratch.turned, stride);
            let size3 = [size, stride, heads.width];
            product(simd, size3, queries, keys, Store::new(weights, stride));
            let bias = bias.map(|(tables, codes)| {
                (&tables[head * codes..][..codes], &spans.codes[span.pairs..][..span.pairs()])
            });
            let first = first_coin(heads, span, head);
            let drop = coins.map(|coins| (coins, first, fit(&mut scratch.dropped, span.pairs())));
            simd.run(Softmax { size, stride, scale: heads.scale(), bias, weights, drop });
            let weights = if coins.is_some() { &scratch.dropped[..] } else { weights };
            let values = Right::rows(&packed[rows + heads.column(2, head)..], heads.stride);
            let out = &mut mixed[span.rows.start * heads.out_stride + head * heads.padded()..];
            let size3 = [size, heads.padded(), size];
            let store = Store::new(out, heads.out_stride);
            product(simd, size3, Left::rows(weights, stride), values, store);
        }
    }
}

/// The derivatives by `packed`, from those by `mixed`; those by the bias are added to `by_bias`, times √w.
#[expect(clippy::too_many_arguments, reason = "all of it is one operation")]
pub fn backward(
    simd: Simd,
    heads: Heads,
    spans: &Spans,
    packed: &[f32],
    weights: &[f32],
    by_mixed: &[f32],
    coins: Option<&Coins>,
    by_packed: &mut [f32],
    by_bias: Option<&mut [f64]>,
    scratch: &mut Scratch,
) {
    let mut by_bias = by_bias;
    for span in &spans.graphs {
        let (size, stride) = (span.size(), span.stride());
        let rows = span.rows.start * heads.stride;
        fit(&mut scratch.scores, heads.count * span.pairs());
        for head in 0..heads.count {
            let weights = &weights[place(heads, span, head)..][..span.pairs()];
            let by_mixed = &by_mixed[span.rows.start * heads.out_stride + head * heads.padded()..];
            let scores = &mut scratch.scores[head * span.pairs()..][..span.pairs()];

            turn(simd, &packed[rows + heads.column(2, head)..], heads, size, &mut scratch.turned);
            let gradients = Left::rows(by_mixed, heads.out_stride);
            let values = Right::rows(&scratch.turned, stride);
            product(
                simd,
                [size, stride, heads.width],
                gradients,
                values,
                Store::new(scores, stride),
            );
            let scale = heads.scale();
            let drop = coins.map(|coins| (coins.keep(), fit(&mut scratch.dropped, span.pairs())));
            simd.run(BackSoftmax { size, stride, scale, weights, scores, drop });
            let dropped = if coins.is_some() { &scratch.dropped[..] } else { weights };
            let turned = Left::transposed(dropped, stride);
            let right = Right::rows(by_mixed, heads.out_stride);
            let out = &mut by_packed[rows + heads.column(2, head)..];
            let size3 = [size, heads.padded(), size];
            product(simd, size3, turned, right, Store::new(out, heads.stride));

            let keys = Right::rows(&packed[rows + heads.column(1, head)..], heads.stride);
            let out = &mut by_packed[rows + heads.column(0, head)..];
            let left = Left::rows(scores, stride);
            product(simd, size3, left, keys, Store::new(out, heads.stride));
            let queries = Right::rows(&packed[rows + heads.column(0, head)..], heads.stride);
            let out = &mut by_packed[rows + heads.column(1, head)..];
            let left = Left::transposed(scores, stride);
            product(simd, size3, left, queries, Store::new(out, heads.stride));
        }
        if let Some(by_bias) = &mut by_bias {
            let codes = &spans.codes[span.pairs..][..span.pairs()];
            histogram(heads.count, size, stride, codes, &scratch.scores, by_bias);
        }
    }
}

/// Where the weights of a graph's head are.
fn place(heads: Heads, span: &Span, head: usize) -> usize {
    span.pairs * heads.count + head * span.pairs()
}

/// The number of the coin of a head's first pair: pairs are counted without padding, graph by graph, head by head.
fn first_coin(heads: Heads, span: &Span, head: usize) -> u32 {
    (span.batch_pairs * heads.count + head * span.size() * span.size()) as u32
}

/// The rows of one head as columns, `[width, size padded]`; padding is zero.
fn turn(simd: Simd, rows: &[f32], heads: Heads, size: usize, turned: &mut Vec<f32>) {
    let stride = padded(size);
    let turned = fit(turned, heads.padded() * stride);
    assert!((size - 1) * heads.stride + heads.padded() <= rows.len(), "all rows of the head");
    simd.run(Turn { rows, row_stride: heads.stride, width: heads.padded(), size, turned });
}

struct Turn<'a> {
    rows: &'a [f32],
    row_stride: usize,
    width: usize,
    size: usize,
    turned: &'a mut [f32],
}

impl Kernel for Turn<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let stride = padded(self.size);
        for start in (0..self.size).step_by(WIDTH) {
            for column in (0..self.width).step_by(WIDTH) {
                // SAFETY: `turn` has checked the rows; the turned matrix has whole vectors.
                unsafe {
                    let block = std::array::from_fn(|r| {
                        if start + r < self.size {
                            V::load(self.rows.as_ptr().add((start + r) * self.row_stride + column))
                        } else {
                            V::splat(0.0)
                        }
                    });
                    for (c, row) in V::transpose(block).into_iter().enumerate() {
                        row.store(self.turned.as_mut_ptr().add((column + c) * stride + start));
                    }
                }
            }
        }
    }
}

struct Softmax<'a> {
    size: usize,
    stride: usize,
    scale: f32,
    /// The table of the head, and the codes of the graph.
    bias: Option<(&'a [f32], &'a [u32])>,
    weights: &'a mut [f32],
    /// Coins, the first of the graph and head, and where dropped weights go.
    drop: Option<(&'a Coins, u32, &'a mut [f32])>,
}

impl Kernel for Softmax<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(mut self) {
        // SAFETY: rows are whole vectors; codes lie in the table, as `Lanes` and the stack see to.
        unsafe {
            let scale = V::splat(self.scale);
            for row in 0..self.size {
                let scores = &mut self.weights[row * self.stride..][..self.stride];
                let mut largest = V::splat(f32::NEG_INFINITY);
                let full = self.size / WIDTH * WIDTH;
                for column in (0..self.stride).step_by(WIDTH) {
                    let place = scores.as_mut_ptr().add(column);
                    let mut score = V::load(place).mul(scale);
                    if let Some((table, codes)) = self.bias {
                        let codes = codes.as_ptr().add(row * self.stride + column);
                        score = score.add(V::gather(table.as_ptr(), codes));
                    }
                    score.store(place);
                    if column == full {
                        scores[self.size..].fill(f32::NEG_INFINITY);
                        score = V::load(place);
                    }
                    largest = largest.max(score);
                }
                let largest = V::splat(largest.largest());
                let mut sum = V::splat(0.0);
                for column in (0..self.stride).step_by(WIDTH) {
                    let place = scores.as_mut_ptr().add(column);
                    let power = V::load(place).sub(largest).exp();
                    power.store(place);
                    sum = sum.add(power);
                }
                let factor = V::splat(1.0 / sum.sum());
                match &mut self.drop {
                    None => {
                        for column in (0..self.stride).step_by(WIDTH) {
                            let place = scores.as_mut_ptr().add(column);
                            V::load(place).mul(factor).store(place);
                        }
                    }
                    Some((coins, first, dropped)) => {
                        let first = first.wrapping_add((row * self.size) as u32);
                        let dropped = dropped.as_mut_ptr().add(row * self.stride);
                        for column in (0..self.stride).step_by(WIDTH) {
                            let place = scores.as_mut_ptr().add(column);
                            let weight = V::load(place).mul(factor);
                            let kept = weight.toss(coins, first.wrapping_add(column as u32));
                            kept.store(dropped.add(column));
                            // Twice the weight where it is kept, minus the weight.
                            let twice = weight.add(weight).where_positive(kept);
                            twice.sub(weight).store(place);
                        }
                    }
                }
            }
        }
    }
}

struct BackSoftmax<'a> {
    size: usize,
    stride: usize,
    scale: f32,
    /// Negative where dropped.
    weights: &'a [f32],
    /// Derivatives by dropped weights, then by scores, times the scale.
    scores: &'a mut [f32],
    /// What dropout multiplied by, and where weights go as it left them.
    drop: Option<(f32, &'a mut [f32])>,
}

impl Kernel for BackSoftmax<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(mut self) {
        // SAFETY: all have all rows, in whole vectors.
        unsafe {
            let (zero, scale) = (V::splat(0.0), V::splat(self.scale));
            for row in 0..self.size {
                let weights = self.weights.as_ptr().add(row * self.stride);
                let scores = self.scores.as_mut_ptr().add(row * self.stride);
                let mut sum = zero;
                match &mut self.drop {
                    None => {
                        for column in (0..self.stride).step_by(WIDTH) {
                            let weight = V::load(weights.add(column));
                            sum = V::load(scores.add(column)).mul_add(weight, sum);
                        }
                        let mean = V::splat(sum.sum());
                        for column in (0..self.stride).step_by(WIDTH) {
                            let weight = V::load(weights.add(column)).mul(scale);
                            let score = V::load(scores.add(column)).sub(mean);
                            score.mul(weight).store(scores.add(column));
                        }
                    }
                    Some((keep, dropped)) => {
                        let keep = V::splat(*keep);
                        let dropped = dropped.as_mut_ptr().add(row * self.stride);
                        for column in (0..self.stride).step_by(WIDTH) {
                            let signed = V::load(weights.add(column));
                            let kept = signed.max(zero).mul(keep);
                            kept.store(dropped.add(column));
                            sum = V::load(scores.add(column)).mul_add(kept, sum);
                        }
                        let mean = V::splat(sum.sum());
                        for column in (0..self.stride).step_by(WIDTH) {
                            let signed = V::load(weights.add(column));
                            let weight = signed.max(zero.sub(signed)).mul(scale);
                            let score = V::load(scores.add(column)).mul(keep);
                            let score = score.where_positive(signed).sub(mean);
                            score.mul(weight).store(scores.add(column));
                        }
                    }
                }
            }
        }
    }
}

/// Adds the derivatives of pairs to those of their codes, all heads together.
fn histogram(
    heads: usize,
    size: usize,
    stride: usize,
    codes: &[u32],
    scores: &[f32],
    sums: &mut [f64],
) {
    let pairs = size * stride;
    for row in 0..size {
        let pairs_of_row = row * stride..row * stride + size;
        let codes = &codes[pairs_of_row.clone()];
        let mut head = 0;
        // Four heads at a time, if there are as many.
        while head + 4 <= heads {
            let rows: [&[f32]; 4] =
                std::array::from_fn(|h| &scores[(head + h) * pairs..][pairs_of_row.clone()]);
            for (column, &code) in codes.iter().enumerate() {
                let sums = &mut sums[code as usize * heads + head..][..4];
                for (sum, row) in sums.iter_mut().zip(rows) {
                    *sum += f64::from(row[column]);
                }
            }
            head += 4;
        }
        for head in head..heads {
            let scores = &scores[head * pairs..][pairs_of_row.clone()];
            for (&code, &score) in codes.iter().zip(scores) {
                sums[code as usize * heads + head] += f64::from(score);
            }
        }
    }
}
