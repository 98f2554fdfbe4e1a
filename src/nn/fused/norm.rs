//! BatchNorm without a pass of its own.
//!
//! Statistics are taken of rows that have just been computed; what follows reads them through `(s − near) a + c`,
//! and the backward pass through `ds = A dy + D (s − near) + E`, with constants for each column:
//!
//! ```text
//! near = mean as rounded      r = 1/√(variance + ε)
//! a = w r                     c = b − (mean − near) a
//! A = w r                     D = −A r² Σ dy (s − mean) / n      E = −(A Σ dy + D Σ (s − near)) / n
//! ```
//!
//! Sums over rows are in double precision, but for those of a few rows each, and so are the constants. E is computed
//! from A and D as they are rounded and kept in two parts, so that the column of ds sums to zero as exactly as its
//! numbers allow: a shift that BatchNorm takes out again has a derivative of zero, and what rounding leaves of it is
//! all that an adaptive optimiser sees.

use std::sync::RwLock;

use super::product::Tosses;
use super::stack::UNBROKEN;
use crate::nn::layers::EPSILON;
use crate::simd::{Kernel, Simd, Vector, WIDTH};

/// Where the lanes put their sums, to be read by all after a barrier.
#[derive(Debug, Default)]
pub struct Exchange(Vec<RwLock<Vec<f64>>>);

impl Exchange {
    /// The place of one lane, for `count` numbers.
    pub fn put(&self, lane: usize, count: usize, fill: impl FnOnce(&mut [f64])) {
        let mut place = self.0[lane].write().expect(UNBROKEN);
        place.resize(count, 0.0);
        fill(&mut place);
    }

    /// Makes places for so many lanes.
    pub fn resize(&mut self, lanes: usize) {
        self.0.resize_with(lanes, RwLock::default);
    }

    /// Hands the numbers of the lanes to `f`, in order.
    pub fn each(&self, mut f: impl FnMut(usize, &[f64])) {
        for (lane, place) in self.0.iter().enumerate() {
            f(lane, &place.read().expect(UNBROKEN));
        }
    }

    /// The sums of the lanes' numbers.
    pub fn sum(&self, count: usize) -> Vec<f64> {
        let mut sums = vec![0.0; count];
        self.each(|_, numbers| {
            sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
        });
        sums
    }
}

/// Mean and variance of every column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    pub mean: Vec<f64>,
    pub variance: Vec<f64>,
    pub rows: f64,
}

impl Statistics {
    /// Puts together means and sums of squared deviations of the lanes.
    pub fn of_lanes(exchange: &Exchange, width: usize, counts: &[usize]) -> Statistics {
        Statistics::of_parts(width, |tell| {
            // Without arcs, a lane has put nothing.
            exchange.each(|lane, numbers| {
                if counts[lane] > 0 {
                    tell(counts[lane], numbers);
                }
            });
        })
    }

    /// Puts together means and sums of squared deviations of parts, which `each` tells with their numbers of rows
    /// (Chan, Golub & LeVeque 1983).
    pub fn of_parts(width: usize, each: impl Fn(&mut dyn FnMut(usize, &[f64]))) -> Statistics {
        let (mut rows, mut mean, mut variance) = (0.0, vec![0.0; width], vec![0.0; width]);
        each(&mut |count, _| rows += count as f64);
        each(&mut |count, numbers| {
            let share = count as f64 / rows;
            mean.iter_mut().zip(&numbers[..width]).for_each(|(sum, own)| *sum += own * share);
        });
        each(&mut |count, numbers| {
            let (means, squares) = numbers.split_at(width);
            for (c, sum) in variance.iter_mut().enumerate() {
                *sum += (squares[c] + count as f64 * (means[c] - mean[c]).powi(2)) / rows;
            }
        });
        Statistics { mean, variance, rows }
    }

    fn scale(&self, column: usize) -> f64 {
        1.0 / (self.variance[column] + EPSILON).sqrt()
    }

    /// What BatchNorm comes to in this batch.
    pub fn forward(&self, weight: &[f32], bias: &[f32]) -> Affine {
        let mut affine = Affine::default();
        for column in 0..self.mean.len() {
            let a = f64::from(weight[column]) * self.scale(column);
            let near = self.mean[column] as f32;
            let off = self.mean[column] - f64::from(near);
            affine.near.push(near);
            affine.factor.push(a as f32);
            affine.shift.push((f64::from(bias[column]) - off * a) as f32);
        }
        affine
    }

    /// The constants of the backward pass, from Σ dy and Σ dy (s − mean).
    pub fn backward(&self, weight: &[f32], sums: &[f64], products: &[f64]) -> Backward {
        let mut constants = Backward::default();
        for column in 0..self.mean.len() {
            let scale = self.scale(column);
            let near = self.mean[column] as f32;
            let off = self.mean[column] - f64::from(near);
            let a = (f64::from(weight[column]) * scale) as f32;
            let d = (-f64::from(a) * scale * scale * products[column] / self.rows) as f32;
            let e = -(f64::from(a) * sums[column] / self.rows + f64::from(d) * off);
            constants.near.push(near);
            constants.a.push(a);
            constants.d.push(d);
            constants.e.push(e as f32);
            constants.rest.push((e - f64::from(e as f32)) as f32);
        }
        constants
    }

    /// The derivative by the weight: Σ dy x̂.
    pub fn by_weight<'a>(&'a self, products: &'a [f64]) -> impl Iterator<Item = f32> + 'a {
        products.iter().enumerate().map(|(c, product)| (product * self.scale(c)) as f32)
    }
}

/// y = (s − near) · factor + shift, with `near` the mean as rounded: a column of equal numbers comes out exactly.
#[derive(Clone, Debug, Default)]
pub struct Affine {
    near: Vec<f32>,
    factor: Vec<f32>,
    shift: Vec<f32>,
}

impl Affine {
    /// Number of columns.
    fn width(&self) -> usize {
        let width = self.factor.len();
        assert!(width.is_multiple_of(WIDTH), "whole vectors");
        assert_eq!([self.near.len(), self.shift.len()], [width; 2], "one of each for each column");
        width
    }

    /// # Safety
    /// The processor has the instructions of `V`, and `column` to `column + 7` are columns.
    #[inline(always)]
    unsafe fn at<V: Vector>(&self, column: usize, s: V) -> V {
        // SAFETY: by contract.
        unsafe {
            let [near, factor, shift] =
                [&self.near, &self.factor, &self.shift].map(|of| V::load(of.as_ptr().add(column)));
            s.sub(near).mul_add(factor, shift)
        }
    }
}

/// ds = A dy + D (s − near) + E
#[derive(Clone, Debug, Default)]
pub struct Backward {
    near: Vec<f32>,
    a: Vec<f32>,
    d: Vec<f32>,
    e: Vec<f32>,
    rest: Vec<f32>,
}

/// Means and sums of squared deviations of the columns of `rows`.
pub fn moments(simd: Simd, rows: &[f32], width: usize, place: &mut [f64]) {
    simd.run(Moments { rows, width, place });
}

struct Moments<'a> {
    rows: &'a [f32],
    width: usize,
    place: &'a mut [f64],
}

impl Kernel for Moments<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let (means, squares) = self.place.split_at_mut(self.width);
        let blocks = self.width / WIDTH;
        let rows = self.rows.as_chunks::<WIDTH>().0;
        let count = (rows.len() / blocks) as f64;
        let means = means.as_chunks_mut::<WIDTH>().0;
        let squares = squares.as_chunks_mut::<WIDTH>().0;
        for (block, (means, squares)) in means.iter_mut().zip(squares).enumerate() {
            // SAFETY: eight numbers each.
            unsafe {
                let mut sums = Sums::new();
                for row in rows.iter().skip(block).step_by(blocks) {
                    sums.add(V::load(row.as_ptr()));
                }
                let mean = sums.finish().map(|sum| sum / count);
                let rounded = mean.map(|mean| mean as f32);
                let near = V::load(rounded.as_ptr());
                let (mut sums, mut products) = (Sums::new(), Sums::new());
                for row in rows.iter().skip(block).step_by(blocks) {
                    let apart = V::load(row.as_ptr()).sub(near);
                    sums.add(apart);
                    products.add(apart.mul(apart));
                }
                let (off, found) = (sums.finish(), products.finish());
                // What the first sums have lost, and from squares about the rounded mean to those about the mean.
                *means = std::array::from_fn(|c| f64::from(rounded[c]) + off[c] / count);
                *squares = std::array::from_fn(|c| (found[c] - off[c] * off[c] / count).max(0.0));
            }
        }
    }
}

/// Sums of eight columns: of a few rows in single precision, of these sums in double.
struct Sums<V> {
    few: V,
    rows: u32,
    sums: [f64; WIDTH],
}

impl<V: Vector> Sums<V> {
    const FEW: u32 = 8;

    #[inline(always)]
    unsafe fn new() -> Sums<V> {
        // SAFETY: as the caller's.
        Sums { few: unsafe { V::splat(0.0) }, rows: 0, sums: [0.0; WIDTH] }
    }

    #[inline(always)]
    unsafe fn add(&mut self, row: V) {
        // SAFETY: as the caller's.
        unsafe {
            self.few = self.few.add(row);
            self.rows += 1;
            if self.rows == Self::FEW {
                self.flush();
            }
        }
    }

    #[inline(always)]
    unsafe fn flush(&mut self) {
        // SAFETY: as the caller's.
        unsafe {
            let few = self.few.to_array();
            self.sums.iter_mut().zip(few).for_each(|(sum, few)| *sum += f64::from(few));
            (self.few, self.rows) = (V::splat(0.0), 0);
        }
    }

    #[inline(always)]
    unsafe fn finish(mut self) -> [f64; WIDTH] {
        // SAFETY: as the caller's.
        unsafe { self.flush() };
        self.sums
    }
}

/// Σ dy and Σ dy (s − mean), column by column, for `N` BatchNorms of the same dy.
pub fn derivative_sums<const N: usize>(
    simd: Simd,
    dy: &[f32],
    of: [(&[f32], &Statistics); N],
    place: &mut [f64],
) {
    simd.run(DerivativeSums { dy, of, place });
}

struct DerivativeSums<'a, const N: usize> {
    dy: &'a [f32],
    of: [(&'a [f32], &'a Statistics); N],
    place: &'a mut [f64],
}

impl<const N: usize> Kernel for DerivativeSums<'_, N> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let width = self.place.len() / (N + 1);
        let blocks = width / WIDTH;
        let dy = self.dy.as_chunks::<WIDTH>().0;
        let of = self.of.map(|(s, statistics)| (&s.as_chunks::<WIDTH>().0[..dy.len()], statistics));
        for block in 0..blocks {
            // SAFETY: eight numbers each.
            unsafe {
                let means: [[f64; WIDTH]; N] =
                    of.map(|(_, statistics)| statistics.mean.as_chunks().0[block]);
                let rounded = means.map(|mean| mean.map(|mean| mean as f32));
                let near = rounded.each_ref().map(|mean| V::load(mean.as_ptr()));
                let mut sums: Sums<V> = Sums::new();
                let mut products: [Sums<V>; N] = std::array::from_fn(|_| Sums::new());
                for place in (block..dy.len()).step_by(blocks) {
                    let dy = V::load(dy[place].as_ptr());
                    sums.add(dy);
                    for n in 0..N {
                        let apart = V::load(of[n].0[place].as_ptr()).sub(near[n]);
                        products[n].add(dy.mul(apart));
                    }
                }
                let sums = sums.finish();
                self.place[block * WIDTH..][..WIDTH].copy_from_slice(&sums);
                for (n, found) in products.into_iter().enumerate() {
                    let found = found.finish();
                    let place = &mut self.place[(n + 1) * width + block * WIDTH..][..WIDTH];
                    for (c, place) in place.iter_mut().enumerate() {
                        // From the rounded mean to the mean.
                        let off = f64::from(rounded[n][c]) - means[n][c];
                        *place = found[c] + off * sums[c];
                    }
                }
            }
        }
    }
}

/// Rows of `width` numbers, all alike: out = f(row, column, inputs).
trait RowWise {
    /// # Safety
    /// The processor has the instructions of `V`; row and column are within all matrices.
    unsafe fn at<V: Vector>(&mut self, row: usize, column: usize, place: usize);
}

struct Rows<R> {
    rows: usize,
    width: usize,
    each: R,
}

impl<R: RowWise> Kernel for Rows<R> {
    #[inline(always)]
    unsafe fn run<V: Vector>(mut self) {
        for row in 0..self.rows {
            for column in (0..self.width).step_by(WIDTH) {
                // SAFETY: checked by whoever made `each`.
                unsafe { self.each.at::<V>(row, column, row * self.width + column) };
            }
        }
    }
}

/// The sum of BatchNorms.
pub fn apply<const N: usize>(simd: Simd, from: [(&[f32], &Affine); N], y: &mut [f32]) {
    let width = from[0].1.width();
    assert!(from.iter().all(|(s, affine)| s.len() == y.len() && affine.width() == width));
    simd.run(Rows { rows: y.len() / width, width, each: Apply { from, y } });
}

struct Apply<'a, const N: usize> {
    from: [(&'a [f32], &'a Affine); N],
    y: &'a mut [f32],
}

impl<const N: usize> RowWise for Apply<'_, N> {
    #[inline(always)]
    unsafe fn at<V: Vector>(&mut self, _: usize, column: usize, place: usize) {
        // SAFETY: `apply` has checked all sizes.
        unsafe {
            let mut y = V::splat(0.0);
            for (s, affine) in self.from {
                y = y.add(affine.at(column, V::load(s.as_ptr().add(place))));
            }
            y.store(self.y.as_mut_ptr().add(place));
        }
    }
}

/// ds, and if there is dropout before the residual, also ds times its factors.
pub fn backward(
    simd: Simd,
    constants: &Backward,
    [dy, s]: [&[f32]; 2],
    ds: &mut [f32],
    dropped: Option<(Tosses, &mut [f32])>,
) {
    let width = constants.a.len();
    assert!(width.is_multiple_of(WIDTH) && [dy.len(), s.len()] == [ds.len(); 2]);
    let rows = ds.len() / width;
    if let Some((tosses, out)) = &dropped {
        assert!(out.len() == ds.len() && tosses.firsts.len() >= rows, "coins for each row");
    }
    simd.run(Rows { rows, width, each: Back { constants, dy, s, ds, dropped } });
}

struct Back<'a> {
    constants: &'a Backward,
    dy: &'a [f32],
    s: &'a [f32],
    ds: &'a mut [f32],
    dropped: Option<(Tosses<'a>, &'a mut [f32])>,
}

impl RowWise for Back<'_> {
    #[inline(always)]
    unsafe fn at<V: Vector>(&mut self, row: usize, column: usize, place: usize) {
        // SAFETY: `backward` has checked all sizes.
        unsafe {
            let constant = |numbers: &[f32]| V::load(numbers.as_ptr().add(column));
            let Backward { near, a, d, e, rest } = self.constants;
            let at = |numbers: &[f32]| V::load(numbers.as_ptr().add(place));
            let apart = at(self.s).sub(constant(near));
            let ds = at(self.dy)
                .mul_add(constant(a), apart.mul_add(constant(d), constant(e)))
                .add(constant(rest));
            ds.store(self.ds.as_mut_ptr().add(place));
            if let Some((tosses, out)) = &mut self.dropped {
                tosses.toss(row, column, ds).store(out.as_mut_ptr().add(place));
            }
        }
    }
}

/// x + drop(relu(s · factor + shift)), as GatedGCN does after its BatchNorms; without x where there is none.
pub fn activate(
    simd: Simd,
    x: Option<&[f32]>,
    (s, affine): (&[f32], &Affine),
    tosses: Option<Tosses>,
    out: &mut [f32],
) {
    let width = affine.width();
    assert_eq!([x.map_or(out.len(), <[f32]>::len), s.len()], [out.len(); 2]);
    let rows = out.len() / width;
    assert!(tosses.is_none_or(|tosses| tosses.firsts.len() >= rows), "coins for each row");
    simd.run(Rows { rows, width, each: Activate { x, s, affine, tosses, out } });
}

struct Activate<'a> {
    x: Option<&'a [f32]>,
    s: &'a [f32],
    affine: &'a Affine,
    tosses: Option<Tosses<'a>>,
    out: &'a mut [f32],
}

impl RowWise for Activate<'_> {
    #[inline(always)]
    unsafe fn at<V: Vector>(&mut self, row: usize, column: usize, place: usize) {
        // SAFETY: `activate` has checked all sizes.
        unsafe {
            let at = |numbers: &[f32]| V::load(numbers.as_ptr().add(place));
            let normal = self.affine.at(column, at(self.s));
            let mut y = normal.max(V::splat(0.0));
            if let Some(tosses) = &self.tosses {
                y = tosses.toss(row, column, y);
            }
            if let Some(x) = self.x {
                y = y.add(at(x));
            }
            y.store(self.out.as_mut_ptr().add(place));
        }
    }
}

/// The derivative of [`activate`] by the result of BatchNorm.
pub fn deactivate(
    simd: Simd,
    dy: &[f32],
    (s, affine): (&[f32], &Affine),
    tosses: Option<Tosses>,
    out: &mut [f32],
) {
    let width = affine.width();
    assert_eq!([dy.len(), s.len()], [out.len(); 2]);
    let rows = out.len() / width;
    assert!(tosses.is_none_or(|tosses| tosses.firsts.len() >= rows), "coins for each row");
    simd.run(Rows { rows, width, each: Deactivate { dy, s, affine, tosses, out } });
}

struct Deactivate<'a> {
    dy: &'a [f32],
    s: &'a [f32],
    affine: &'a Affine,
    tosses: Option<Tosses<'a>>,
    out: &'a mut [f32],
}

impl RowWise for Deactivate<'_> {
    #[inline(always)]
    unsafe fn at<V: Vector>(&mut self, row: usize, column: usize, place: usize) {
        // SAFETY: `deactivate` has checked all sizes.
        unsafe {
            let at = |numbers: &[f32]| V::load(numbers.as_ptr().add(place));
            let normal = self.affine.at(column, at(self.s));
            let mut dy = at(self.dy);
            if let Some(tosses) = &self.tosses {
                dy = tosses.toss(row, column, dy);
            }
            dy.where_positive(normal).store(self.out.as_mut_ptr().add(place));
        }
    }
}
