//! Matrix products in tiles, with what happens to the result done before it is stored.
//!
//! C = f(A · B) in tiles of 6 rows and 16 columns, whose sums stay in registers: per step along the inner
//! dimension two loads of B, six broadcasts of A, twelve multiply-adds. With AVX-512 tiles have 8 rows and 32 columns: more rows would
//! fit the registers, but only if no broadcast is loaded ahead of its use, and compilers load them ahead. A is read through two strides, so
//! it can be a matrix or its transpose; B is read in panels of 16 columns, from a [`packed`](super::weights)
//! copy or in place. What is done to a tile is an [`Epilogue`]: bias, ReLU, dropout, residual, the mask of a
//! backward pass. Sums run along the inner dimension in order, so a result depends on its row and column alone.

use crate::rng::Coins;
use crate::simd::{Kernel, Lanes, Simd, Vector, WIDTH};

/// Rows of a tile.
const TILE_ROWS: usize = 6;
/// Rows of one of wide registers: sums, columns and one broadcast for each row fit into 32.
#[cfg(target_arch = "x86_64")]
const WIDE_ROWS: usize = 8;
/// Columns of a tile, and of a panel of B.
pub const PANEL: usize = 2 * WIDTH;
/// Inner steps at a time, at most, where the inner dimension is rows of activations: more fall out of the
/// first cache, whose sets repeat every 4 KiB.
const INNER_BLOCK: usize = 128;
/// Rows apart by a multiple of this fall into few places of the first cache, and are copied into panels before use.
const FAR_APART: usize = 128;

/// A matrix to be read with any strides.
#[derive(Clone, Copy, Debug)]
pub struct Left<'a> {
    data: &'a [f32],
    /// From a row to the next.
    row: usize,
    /// From a column to the next.
    column: usize,
}

impl<'a> Left<'a> {
    /// A row-major matrix whose rows are `stride` apart.
    pub fn rows(data: &'a [f32], stride: usize) -> Left<'a> {
        Left { data, row: stride, column: 1 }
    }

    /// The transpose of a row-major matrix whose rows are `stride` apart.
    pub fn transposed(data: &'a [f32], stride: usize) -> Left<'a> {
        Left { data, row: 1, column: stride }
    }
}

/// A matrix in panels of 16 columns.
#[derive(Clone, Copy, Debug)]
pub struct Right<'a> {
    data: &'a [f32],
    /// From a row of a panel to the next.
    row: usize,
    /// From a panel to the next.
    panel: usize,
}

impl<'a> Right<'a> {
    /// A row-major matrix whose rows are `stride` apart, in place.
    pub fn rows(data: &'a [f32], stride: usize) -> Right<'a> {
        Right { data, row: stride, panel: PANEL }
    }

    /// Panels of `rows` rows, one after another.
    pub fn packed(data: &'a [f32], rows: usize) -> Right<'a> {
        Right { data, row: PANEL, panel: rows * PANEL }
    }
}

/// What becomes of eight sums of a row.
pub trait Epilogue {
    /// Refuses to be used for a result of this size.
    fn check(&self, rows: usize, columns: usize);

    /// Takes the sums of columns `column` to `column + 7`.
    ///
    /// # Safety
    /// The processor has the instructions of `V`; row and column are within the size checked.
    unsafe fn put<V: Vector>(&mut self, row: usize, column: usize, sums: V);
}

/// C = f(A · B) with A `[rows, inner]` and B `[inner, columns]`, columns a multiple of 8.
pub fn product<E: Epilogue>(
    simd: Simd,
    [rows, columns, inner]: [usize; 3],
    a: Left,
    b: Right,
    epilogue: E,
) {
    if rows == 0 || columns == 0 {
        return;
    }
    assert!(columns.is_multiple_of(WIDTH), "whole vectors");
    epilogue.check(rows, columns);
    if inner > 0 {
        assert!((rows - 1) * a.row + (inner - 1) * a.column < a.data.len(), "A is large enough");
        let last = (columns - 1) / PANEL;
        let end = last * b.panel + (inner - 1) * b.row + columns - last * PANEL;
        assert!(end <= b.data.len(), "B is large enough");
    }
    simd.run(Product { size: [rows, columns, inner], a, b, epilogue });
}

/// Dᵀ X put into row-major numbers, or added to them: the derivative of a weight from that of its output,
/// D `[rows, outputs]`, and its input, X `[rows, inputs]`, row by row.
pub fn outer(
    simd: Simd,
    [rows, outputs, inputs]: [usize; 3],
    d: (&[f32], usize),
    x: (&[f32], usize),
    into: (&mut [f32], usize),
    add: bool,
) {
    let (gradient, stride) = into;
    if rows == 0 && !add {
        for row in 0..outputs {
            gradient[row * stride..][..inputs].fill(0.0);
        }
    }
    // In equal blocks: a short one costs as much as a long one where tiles begin and end.
    let block = rows.div_ceil(rows.div_ceil(INNER_BLOCK).max(1)).max(1);
    let mut panels = Vec::new();
    for start in (0..rows).step_by(block) {
        let count = block.min(rows - start);
        let a = Left::transposed(&d.0[start * d.1..], d.1);
        let mut b = Right::rows(&x.0[start * x.1..], x.1);
        if x.1 > 0 && x.1.is_multiple_of(FAR_APART) {
            pack(&x.0[start * x.1..], x.1, [count, inputs], &mut panels);
            b = Right::packed(&panels, count);
        }
        let epilogue = Gradient { out: &mut *gradient, stride, inputs, add: add || start > 0 };
        product(simd, [outputs, inputs.next_multiple_of(WIDTH), count], a, b, epilogue);
    }
}

/// Copies the columns of some rows, `stride` apart, into panels for [`Right::packed`]. Columns of the last panel that are
/// not there are zero.
pub fn pack(from: &[f32], stride: usize, [rows, columns]: [usize; 2], panels: &mut Vec<f32>) {
    panels.resize(rows * columns.next_multiple_of(PANEL), 0.0);
    for (number, panel) in panels.chunks_exact_mut((rows * PANEL).max(1)).enumerate() {
        let first = number * PANEL;
        let places = panel.as_chunks_mut::<PANEL>().0;
        if columns - first >= PANEL {
            // A known length is a few moves, no call.
            for (row, place) in places.iter_mut().enumerate() {
                place.copy_from_slice(&from[row * stride + first..][..PANEL]);
            }
            continue;
        }
        let count = columns - first;
        for (row, place) in places.iter_mut().enumerate() {
            place[..count].copy_from_slice(&from[row * stride + first..][..count]);
            place[count..].fill(0.0);
        }
    }
}

struct Product<'a, E> {
    size: [usize; 3],
    a: Left<'a>,
    b: Right<'a>,
    epilogue: E,
}

impl<E: Epilogue> Kernel for Product<'_, E> {
    #[inline(always)]
    unsafe fn run<V: Vector>(mut self) {
        let [_, columns, _] = self.size;
        let mut column = 0;
        // SAFETY: `product` has checked both matrices.
        unsafe {
            while column + PANEL <= columns {
                self.all_rows::<V, TILE_ROWS, 2>(column);
                column += PANEL;
            }
            if column < columns {
                self.all_rows::<V, TILE_ROWS, 1>(column);
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn run_wide(mut self) {
        use std::arch::x86_64::{__m256, __m512};
        let [_, columns, _] = self.size;
        let mut column = 0;
        // SAFETY: the same.
        unsafe {
            while column + 2 * PANEL <= columns {
                self.all_rows::<__m512, WIDE_ROWS, 2>(column);
                column += 2 * PANEL;
            }
            if column + PANEL <= columns {
                self.all_rows::<__m512, WIDE_ROWS, 1>(column);
                column += PANEL;
            }
            if column < columns {
                self.all_rows::<__m256, TILE_ROWS, 1>(column);
            }
        }
    }
}

impl<E: Epilogue> Product<'_, E> {
    /// All rows of so many registers of columns, in tiles of at most `ROWS` rows.
    #[inline(always)]
    unsafe fn all_rows<L: Lanes, const ROWS: usize, const REGISTERS: usize>(
        &mut self,
        column: usize,
    ) {
        let [rows, ..] = self.size;
        let mut row = 0;
        // SAFETY: within both matrices.
        unsafe {
            while row < rows {
                if ROWS > TILE_ROWS && rows - row <= TILE_ROWS {
                    self.tile::<L, TILE_ROWS, REGISTERS>(row, column);
                } else {
                    self.tile::<L, ROWS, REGISTERS>(row, column);
                }
                row += ROWS;
            }
        }
    }

    #[inline(always)]
    unsafe fn tile<L: Lanes, const ROWS: usize, const REGISTERS: usize>(
        &mut self,
        row: usize,
        column: usize,
    ) {
        let [rows, _, inner] = self.size;
        let valid = ROWS.min(rows - row);
        // Rows beyond the last are the last again, and not stored.
        let offsets: [usize; ROWS] = std::array::from_fn(|m| m.min(valid - 1) * self.a.row);
        // Registers of half a panel lie side by side, those of a whole one are of different panels.
        let apart = if L::COUNT < PANEL { L::COUNT } else { self.b.panel };
        // SAFETY: within both matrices; pointers beyond the last step are not read.
        unsafe {
            // Without an inner dimension, neither is read.
            let mut a = self.a.data.as_ptr().wrapping_add(row * self.a.row);
            let mut b = self.b.data.as_ptr().wrapping_add(column / PANEL * self.b.panel);
            let mut sums = [[L::splat(0.0); REGISTERS]; ROWS];
            for _ in 0..inner {
                let columns: [L; REGISTERS] =
                    std::array::from_fn(|v| L::load(b.wrapping_add(v * apart)));
                for (sums, offset) in sums.iter_mut().zip(offsets) {
                    let x = L::splat(*a.add(offset));
                    for (sum, column) in sums.iter_mut().zip(columns) {
                        *sum = x.mul_add(column, *sum);
                    }
                }
                a = a.wrapping_add(self.a.column);
                b = b.wrapping_add(self.b.row);
            }
            // A known number of rows keeps sums in registers.
            if valid == ROWS {
                for (m, sums) in sums.iter().enumerate() {
                    self.put(row + m, column, sums);
                }
            } else {
                for (m, sums) in sums.iter().enumerate().take(valid) {
                    self.put(row + m, column, sums);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn put<L: Lanes>(&mut self, row: usize, column: usize, sums: &[L]) {
        let mut column = column;
        for sums in sums {
            // SAFETY: as the caller's.
            unsafe {
                for eight in sums.eights() {
                    self.epilogue.put(row, column, eight);
                    column += WIDTH;
                }
            }
        }
    }
}

/// Stores sums, or adds them to what is there, times a factor.
#[derive(Debug)]
pub struct Store<'a> {
    /// Where the first row begins.
    pub out: &'a mut [f32],
    /// From a row to the next.
    pub stride: usize,
    /// Add instead of replace.
    pub add: bool,
    /// Multiplies sums.
    pub factor: f32,
}

impl<'a> Store<'a> {
    /// Replaces what is there.
    pub fn new(out: &'a mut [f32], stride: usize) -> Store<'a> {
        Store { out, stride, add: false, factor: 1.0 }
    }

    /// Adds to what is there.
    pub fn adding(out: &'a mut [f32], stride: usize) -> Store<'a> {
        Store { out, stride, add: true, factor: 1.0 }
    }
}

/// Whether rows and columns fit an output.
fn check(out: &[f32], stride: usize, rows: usize, columns: usize) {
    assert!((rows - 1) * stride + columns <= out.len(), "the output is large enough");
}

impl Epilogue for Store<'_> {
    fn check(&self, rows: usize, columns: usize) {
        check(self.out, self.stride, rows, columns);
    }

    #[inline(always)]
    unsafe fn put<V: Vector>(&mut self, row: usize, column: usize, sums: V) {
        // SAFETY: checked.
        unsafe {
            let out = self.out.as_mut_ptr().add(row * self.stride + column);
            let factor = V::splat(self.factor);
            let result =
                if self.add { sums.mul_add(factor, V::load(out)) } else { sums.mul(factor) };
            result.store(out);
        }
    }
}

/// Sums of the first `inputs` columns into unpadded rows.
struct Gradient<'a> {
    out: &'a mut [f32],
    stride: usize,
    inputs: usize,
    add: bool,
}

impl Epilogue for Gradient<'_> {
    fn check(&self, rows: usize, _: usize) {
        check(self.out, self.stride, rows, self.inputs);
    }

    #[inline(always)]
    unsafe fn put<V: Vector>(&mut self, row: usize, column: usize, sums: V) {
        // SAFETY: checked.
        unsafe {
            let out = self.out.as_mut_ptr().add(row * self.stride + column);
            if column + WIDTH <= self.inputs {
                let result = if self.add { sums.add(V::load(out)) } else { sums };
                result.store(out);
            } else {
                for (i, sum) in sums.to_array().into_iter().enumerate().take(self.inputs - column) {
                    *out.add(i) = if self.add { *out.add(i) + sum } else { sum };
                }
            }
        }
    }
}

/// y = sums + bias
#[derive(Debug)]
pub struct Biased<'a> {
    /// The result.
    pub out: &'a mut [f32],
    /// From a row to the next.
    pub stride: usize,
    /// A number for each column.
    pub bias: &'a [f32],
}

impl Epilogue for Biased<'_> {
    fn check(&self, rows: usize, columns: usize) {
        check(self.out, self.stride, rows, columns);
        assert!(columns <= self.bias.len(), "a bias for each column");
    }

    #[inline(always)]
    unsafe fn put<V: Vector>(&mut self, row: usize, column: usize, sums: V) {
        // SAFETY: checked.
        unsafe {
            let y = sums.add(V::load(self.bias.as_ptr().add(column)));
            y.store(self.out.as_mut_ptr().add(row * self.stride + column));
        }
    }
}

/// Coins for the numbers of a matrix: that of row r and column c is number `firsts[r] + c`.
#[derive(Clone, Copy, Debug)]
pub struct Tosses<'a> {
    /// The coins.
    pub coins: &'a Coins,
    /// For each row, the number of its first coin.
    pub firsts: &'a [u32],
}

impl Tosses<'_> {
    /// # Safety
    /// The processor has the instructions of `V`, and `row` a first coin.
    #[inline(always)]
    pub unsafe fn toss<V: Vector>(&self, row: usize, column: usize, x: V) -> V {
        // SAFETY: by contract.
        unsafe { x.toss(self.coins, self.firsts.get_unchecked(row).wrapping_add(column as u32)) }
    }
}

/// y = drop(relu(sums + bias))
#[derive(Debug)]
pub struct Relu<'a> {
    /// The result.
    pub out: &'a mut [f32],
    /// From a row to the next.
    pub stride: usize,
    /// A number for each column.
    pub bias: &'a [f32],
    /// Dropout.
    pub tosses: Option<Tosses<'a>>,
}

impl Epilogue for Relu<'_> {
    fn check(&self, rows: usize, columns: usize) {
        check(self.out, self.stride, rows, columns);
        assert!(columns <= self.bias.len(), "a bias for each column");
        assert!(self.tosses.is_none_or(|t| rows <= t.firsts.len()), "coins for each row");
    }

    #[inline(always)]
    unsafe fn put<V: Vector>(&mut self, row: usize, column: usize, sums: V) {
        // SAFETY: checked.
        unsafe {
            let y = sums.add(V::load(self.bias.as_ptr().add(column))).max(V::splat(0.0));
            let y = match &self.tosses {
                Some(tosses) => tosses.toss(row, column, y),
                None => y,
            };
            y.store(self.out.as_mut_ptr().add(row * self.stride + column));
        }
    }
}

/// y = residual + drop((sums + bias) · scale of the row)
#[derive(Debug)]
pub struct Residual<'a> {
    /// The result.
    pub out: &'a mut [f32],
    /// What is added; rows as far apart as those of the result.
    pub residual: &'a [f32],
    /// From a row to the next.
    pub stride: usize,
    /// A number for each column.
    pub bias: &'a [f32],
    /// A factor for each row.
    pub scales: Option<&'a [f32]>,
    /// Dropout.
    pub tosses: Option<Tosses<'a>>,
}

impl Epilogue for Residual<'_> {
    fn check(&self, rows: usize, columns: usize) {
        check(self.out, self.stride, rows, columns);
        check(self.residual, self.stride, rows, columns);
        assert!(columns <= self.bias.len(), "a bias for each column");
        assert!(self.scales.is_none_or(|scales| rows <= scales.len()), "a scale for each row");
        assert!(self.tosses.is_none_or(|t| rows <= t.firsts.len()), "coins for each row");
    }

    #[inline(always)]
    unsafe fn put<V: Vector>(&mut self, row: usize, column: usize, sums: V) {
        // SAFETY: checked.
        unsafe {
            let place = row * self.stride + column;
            let mut y = sums.add(V::load(self.bias.as_ptr().add(column)));
            if let Some(scales) = self.scales {
                y = y.mul(V::splat(*scales.get_unchecked(row)));
            }
            if let Some(tosses) = &self.tosses {
                y = tosses.toss(row, column, y);
            }
            y.add(V::load(self.residual.as_ptr().add(place)))
                .store(self.out.as_mut_ptr().add(place));
        }
    }
}

/// y = sums · factor where what was kept is above 0: back through ReLU and dropout.
#[derive(Debug)]
pub struct Gate<'a> {
    /// The result.
    pub out: &'a mut [f32],
    /// What the forward pass kept, rows as far apart.
    pub kept: &'a [f32],
    /// From a row to the next.
    pub stride: usize,
    /// 1, or what dropout multiplied by.
    pub factor: f32,
}

impl Epilogue for Gate<'_> {
    fn check(&self, rows: usize, columns: usize) {
        check(self.out, self.stride, rows, columns);
        check(self.kept, self.stride, rows, columns);
    }

    #[inline(always)]
    unsafe fn put<V: Vector>(&mut self, row: usize, column: usize, sums: V) {
        // SAFETY: checked.
        unsafe {
            let place = row * self.stride + column;
            let kept = V::load(self.kept.as_ptr().add(place));
            let y = sums.mul(V::splat(self.factor)).where_positive(kept);
            y.store(self.out.as_mut_ptr().add(place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Seed;

    fn numbers(count: usize, key: u64) -> Vec<f32> {
        let mut stream = Seed(key).stream("product", 0, 0);
        (0..count).map(|_| stream.unit() as f32 - 0.5).collect()
    }

    #[test]
    fn products_of_all_sizes_are_those_of_the_definition() {
        for simd in Simd::all() {
            for [rows, columns, inner] in
                [[1, 8, 1], [5, 16, 3], [6, 24, 16], [7, 48, 20], [13, 8, 64], [20, 64, 0]]
            {
                let (a, b) = (numbers(rows * inner, 1), numbers(inner * columns, 2));
                let at = numbers(rows * inner, 1);
                let turned: Vec<f32> =
                    (0..rows * inner).map(|i| at[i % rows * inner + i / rows]).collect();
                let lefts = [Left::rows(&a, inner), Left::transposed(&turned, rows)];
                for left in lefts {
                    let mut out = vec![7.0; rows * columns];
                    let right = Right::rows(&b, columns);
                    product(
                        simd,
                        [rows, columns, inner],
                        left,
                        right,
                        Store::new(&mut out, columns),
                    );
                    for (i, found) in out.iter().enumerate() {
                        let (row, column) = (i / columns, i % columns);
                        let terms =
                            (0..inner).map(|k| a[row * inner + k] * b[k * columns + column]);
                        let expected: f32 = terms.sum();
                        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
                    }
                }
            }
        }
    }

    #[test]
    fn wide_registers_change_no_bit() {
        for [rows, columns, inner] in
            [[1, 8, 3], [12, 16, 5], [13, 32, 9], [31, 56, 40], [54, 104, 64]]
        {
            let (a, b) = (numbers(rows * inner, 1), numbers(inner * columns, 2));
            let bits = |simd| {
                let mut out = numbers(rows * columns, 3);
                let (left, right) = (Left::rows(&a, inner), Right::rows(&b, columns));
                let store = Store { factor: 0.3, ..Store::adding(&mut out, columns) };
                product(simd, [rows, columns, inner], left, right, store);
                out.into_iter().map(f32::to_bits).collect::<Vec<u32>>()
            };
            // The first has no fused multiply-add.
            let all: Vec<Vec<u32>> = Simd::all().skip(1).map(bits).collect();
            assert!(all.windows(2).all(|two| two[0] == two[1]), "{rows} {columns} {inner}");
        }
    }

    #[test]
    fn derivatives_of_weights_keep_to_their_columns() {
        for simd in Simd::all() {
            for [rows, outputs, inputs] in [[1usize, 3, 5], [97, 13, 20], [200, 6, 52], [0, 2, 3]] {
                let (wide_d, wide_x) = (outputs + 3, inputs.next_multiple_of(16));
                let (d, x) = (numbers(rows * wide_d, 3), numbers(rows * wide_x, 4));
                let mut out = vec![7.0; outputs * (inputs + 1)];
                let into = (&mut out[..], inputs + 1);
                outer(simd, [rows, outputs, inputs], (&d, wide_d), (&x, wide_x), into, false);
                for (i, &found) in out.iter().enumerate() {
                    let (o, c) = (i / (inputs + 1), i % (inputs + 1));
                    let terms = (0..rows).map(|r| d[r * wide_d + o] * x[r * wide_x + c]);
                    let expected: f32 = if c == inputs { 7.0 } else { terms.sum() };
                    assert!((found - expected).abs() < 1e-4, "{found} {expected}");
                }
            }
        }
    }
}
