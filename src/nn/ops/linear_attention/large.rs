//! One large graph: a few large products, in blocks of rows that stay in the cache.
//!
//! With lengths |q|, |k| of queries and keys as wholes, c = 1 / (|q| |k|), and for every head M = [kᵀ v | kᵀ 1],
//!
//! ```text
//! forward     [a | b] = c q M      y = (a + n v) / (b + n)
//! backward    u = dy / (b + n)     e = −u · y      dM = c qᵀ [u | e]      g = Σ a · u + Σ b e
//!             dq = c [u | e] Mᵀ − q g / |q|²      [dv | ·] = n u + k dM      dk = [v | 1] dMᵀ − k g / |k|²
//! ```
//!
//! The terms with g are what the lengths add. M and dM are sums over all nodes, made of a fixed number of parts.

use super::SHORTEST;
use crate::nn::fused::Team;
use crate::nn::fused::product::{Left, Right, Store, outer, pack, product};
use crate::nn::ops::PARTS;
use crate::nn::ops::dense::{BLOCK, add_columns};
use crate::simd::{Kernel, Simd, Vector, WIDTH, add_scaled, dot};

/// What attention in one graph comes to.
pub(super) struct Large<'a> {
    /// Queries, keys and values, `[nodes, heads × width]`.
    inputs: [&'a [f32]; 3],
    heads: usize,
    width: usize,
    /// Squares of |q| and |k|.
    squares: [f32; 2],
    /// M of every head, `[width, width + 8]`; all columns but the first of the last eight are 0.
    sums: Vec<f32>,
    team: &'a Team,
    simd: Simd,
}

impl<'a> Large<'a> {
    pub fn new(
        (team, simd): (&'a Team, Simd),
        [heads, width]: [usize; 2],
        inputs: [&'a [f32]; 3],
    ) -> Large<'a> {
        let mut large =
            Large { inputs, heads, width, squares: [0.0; 2], sums: Vec::new(), team, simd };
        let (columns, wide) = (large.columns(), large.wide());
        let [query, key, value] = inputs;
        let piece = large.piece(columns);
        let part = || (large.zeros(), vec![0.0; columns], [0.0; 2]);
        let mut parts: Vec<(Vec<f32>, Vec<f64>, [f64; 2])> =
            query.chunks(piece).map(|_| part()).collect();
        let places = query.chunks(piece).zip(key.chunks(piece)).zip(value.chunks(piece));
        team.each(places.zip(&mut parts), |(((query, key), value), (sums, keys, squares))| {
            let rows = key.len() / columns;
            *squares = [query, key]
                .map(|x| x.chunks_exact(columns).map(|row| f64::from(dot(row, row))).sum());
            add_columns(simd, key, keys);
            for (head, sums) in sums.chunks_exact_mut(width * wide).enumerate() {
                let [key, value] = [key, value].map(|x| (&x[head * width..], columns));
                outer(simd, [rows, width, width], key, value, (sums, wide), false);
            }
        });
        let mut sums = large.zeros();
        let (mut keys, mut squares) = (vec![0.0; columns], [0.0; 2]);
        for part in &parts {
            sums.iter_mut().zip(&part.0).for_each(|(sum, own)| *sum += own);
            keys.iter_mut().zip(&part.1).for_each(|(sum, own)| *sum += own);
            squares.iter_mut().zip(part.2).for_each(|(sum, own)| *sum += own);
        }
        for (row, sum) in sums.chunks_exact_mut(wide).zip(&keys) {
            row[width] = *sum as f32;
        }
        large.squares = squares.map(|sum| (sum as f32).max(SHORTEST));
        large.sums = sums;
        large
    }

    /// Adds to `y`, which is `[nodes, width]`.
    pub fn forward(&self, y: &mut [f32]) {
        let Large { inputs: [query, _, value], width, simd, .. } = *self;
        let (columns, wide) = (self.columns(), self.wide());
        let maps = self.packed(&self.sums);
        self.team.share_rows(y, width, |first, y| {
            let mut mixed = vec![0.0; BLOCK * wide];
            for (number, y) in y.chunks_mut(BLOCK * width).enumerate() {
                let first = (first + number * BLOCK) * columns;
                for (head, map) in maps.iter().enumerate() {
                    let mixed = &mut mixed[..y.len() / width * wide];
                    self.mix(map, &query[first + head * width..], mixed);
                    let value = (&value[first + head * width..], columns);
                    simd.run(Divide { mixed, width, value, shares: self.shares(), y });
                }
            }
        });
    }

    /// Derivatives by queries, keys and values, which are zeros, from that by `y`.
    pub fn backward(&self, upstream: &[f32], [by_query, by_key, by_value]: [&mut [f32]; 3]) {
        let Large { inputs: [query, _, value], width, simd, .. } = *self;
        let (columns, wide) = (self.columns(), self.wide());
        let (maps, turned) = (self.packed(&self.sums), self.packed_transposed(&self.sums));
        let piece = self.piece(columns);
        let mut parts: Vec<(Vec<f32>, f64)> =
            query.chunks(piece).map(|_| (self.zeros(), 0.0)).collect();
        let places = by_query.chunks_mut(piece).zip(by_value.chunks_mut(piece)).enumerate();
        self.team.each(
            places.zip(&mut parts),
            |((number, (by_query, by_value)), (sums, along))| {
                let mut both = vec![0.0; BLOCK * wide];
                let blocks = by_query.chunks_mut(BLOCK * columns);
                for (block, (by_query, by_value)) in
                    blocks.zip(by_value.chunks_mut(BLOCK * columns)).enumerate()
                {
                    let first = number * piece / columns + block * BLOCK;
                    let rows = by_query.len() / columns;
                    let upstream = &upstream[first * width..][..rows * width];
                    let both = &mut both[..rows * wide];
                    for (head, sums) in sums.chunks_exact_mut(width * wide).enumerate() {
                        let column = head * width;
                        let query = &query[first * columns + column..];
                        self.mix(&maps[head], query, both);
                        let value = (&value[first * columns + column..], columns);
                        let by_value = (&mut by_value[column..], columns);
                        let shares = self.shares();
                        simd.run(Derive { both, width, value, shares, upstream, by_value, along });
                        let out = Store {
                            factor: self.scale(),
                            ..Store::new(&mut by_query[column..], columns)
                        };
                        let map = Right::packed(&turned[head], wide);
                        product(simd, [rows, width, wide], Left::rows(both, wide), map, out);
                        let size = [rows, width, wide];
                        outer(simd, size, (query, columns), (both, wide), (sums, wide), block > 0);
                    }
                }
            },
        );
        let (mut sums, mut along) = (self.zeros(), 0.0);
        for part in &parts {
            sums.iter_mut().zip(&part.0).for_each(|(sum, own)| *sum += own);
            along += part.1;
        }
        sums.iter_mut().for_each(|sum| *sum *= self.scale());
        self.through_sums(&sums, along, [by_query, by_key, by_value]);
    }

    /// Adds what comes by way of sums over all nodes, and of lengths.
    fn through_sums(
        &self,
        sums: &[f32],
        along: f64,
        [by_query, by_key, by_value]: [&mut [f32]; 3],
    ) {
        let Large { inputs: [query, key, value], width, simd, .. } = *self;
        let (columns, wide) = (self.columns(), self.wide());
        let (maps, turned) = (self.packed(sums), self.packed_transposed(sums));
        let of_keys: Vec<f32> = sums.chunks_exact(wide).map(|row| row[width]).collect();
        // The shortest length is a constant.
        let of_length = |square: f32| {
            if square > SHORTEST { (-along / f64::from(square)) as f32 } else { 0.0 }
        };
        let [of_query, of_key] = self.squares.map(of_length);
        let piece = BLOCK * columns;
        let places = by_query.chunks_mut(piece).zip(by_key.chunks_mut(piece));
        let places = places.zip(by_value.chunks_mut(piece)).enumerate();
        self.team.each(places, |(number, ((by_query, by_key), by_value))| {
            let rows = by_query.len() / columns;
            let [query, key, value] =
                [query, key, value].map(|x| &x[number * piece..][..rows * columns]);
            simd.run(AddRows { sum: by_query, factor: of_query, rows: query, shift: &[] });
            simd.run(AddRows { sum: by_key, factor: of_key, rows: key, shift: &of_keys });
            for head in 0..self.heads {
                let column = head * width;
                let add = |from: &[f32], map: Right, into: &mut [f32]| {
                    let (from, into) = (Left::rows(&from[column..], columns), &mut into[column..]);
                    product(simd, [rows, width, width], from, map, Store::adding(into, columns));
                };
                add(key, Right::packed(&maps[head], width), by_value);
                add(value, Right::packed(&turned[head], wide), by_key);
            }
        });
    }

    /// c q M of one head.
    fn mix(&self, map: &[f32], query: &[f32], mixed: &mut [f32]) {
        let (width, wide) = (self.width, self.wide());
        let rows = mixed.len() / wide;
        let out = Store { factor: self.scale(), ..Store::new(mixed, wide) };
        let query = Left::rows(query, self.columns());
        product(self.simd, [rows, wide, width], query, Right::packed(map, width), out);
    }

    fn columns(&self) -> usize {
        self.heads * self.width
    }

    fn wide(&self) -> usize {
        self.width + WIDTH
    }

    fn zeros(&self) -> Vec<f32> {
        vec![0.0; self.columns() * self.wide()]
    }

    /// Numbers of a part, in rows of `columns`.
    fn piece(&self, columns: usize) -> usize {
        let rows = self.inputs[0].len() / columns;
        rows.div_ceil(PARTS).next_multiple_of(BLOCK) * columns
    }

    fn scale(&self) -> f32 {
        let [query, key] = self.squares.map(f32::sqrt);
        1.0 / (query * key)
    }

    /// n, and what heads are divided by.
    fn shares(&self) -> [f32; 2] {
        [(self.inputs[0].len() / self.columns()) as f32, self.heads as f32]
    }

    /// Matrices of all heads in panels.
    fn packed(&self, sums: &[f32]) -> Vec<Vec<f32>> {
        let (width, wide) = (self.width, self.wide());
        let packed = |matrix: &[f32]| {
            let mut panels = Vec::new();
            pack(matrix, wide, [width, wide], &mut panels);
            panels
        };
        sums.chunks_exact(width * wide).map(packed).collect()
    }

    /// The same of their transposes.
    fn packed_transposed(&self, sums: &[f32]) -> Vec<Vec<f32>> {
        let (width, wide) = (self.width, self.wide());
        let packed = |matrix: &[f32]| {
            let turned: Vec<f32> =
                (0..width * wide).map(|i| matrix[i % width * wide + i / width]).collect();
            let mut panels = Vec::new();
            pack(&turned, width, [wide, width], &mut panels);
            panels
        };
        sums.chunks_exact(width * wide).map(packed).collect()
    }
}

/// y += (a + n v) / (b + n) / heads
struct Divide<'a> {
    /// [a | b], rows of `width` + 8.
    mixed: &'a [f32],
    width: usize,
    /// Values, and how far their rows are apart.
    value: (&'a [f32], usize),
    shares: [f32; 2],
    y: &'a mut [f32],
}

impl Kernel for Divide<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let ([count, heads], width) = (self.shares, self.width);
        let rows = self.mixed.chunks_exact(width + WIDTH).zip(self.value.0.chunks(self.value.1));
        for ((mixed, value), y) in rows.zip(self.y.chunks_exact_mut(width)) {
            let share = 1.0 / ((mixed[width] + count) * heads);
            let parts = mixed.as_chunks::<WIDTH>().0.iter().zip(value.as_chunks::<WIDTH>().0);
            for ((mixed, value), y) in parts.zip(y.as_chunks_mut::<WIDTH>().0) {
                // SAFETY: eight numbers each.
                unsafe {
                    let value = V::load(value.as_ptr());
                    let above = value.mul_add(V::splat(count), V::load(mixed.as_ptr()));
                    let sum = above.mul_add(V::splat(share), V::load(y.as_ptr()));
                    sum.store(y.as_mut_ptr());
                }
            }
        }
    }
}

/// [u | e] in place of [a | b]; n u as the derivative by values; Σ a · u + Σ b e.
struct Derive<'a> {
    both: &'a mut [f32],
    width: usize,
    value: (&'a [f32], usize),
    shares: [f32; 2],
    upstream: &'a [f32],
    by_value: (&'a mut [f32], usize),
    along: &'a mut f64,
}

impl Kernel for Derive<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let ([count, heads], width) = (self.shares, self.width);
        let rows = self.both.chunks_exact_mut(width + WIDTH).zip(self.value.0.chunks(self.value.1));
        let rows = rows.zip(self.upstream.chunks_exact(width));
        for (((both, value), upstream), by_value) in
            rows.zip(self.by_value.0.chunks_mut(self.by_value.1))
        {
            let (mixed, below) = both.split_at_mut(width);
            let below = &mut below[0];
            let under = *below + count;
            let parts = mixed.as_chunks_mut::<WIDTH>().0.iter_mut();
            let parts = parts.zip(value.as_chunks::<WIDTH>().0);
            let parts = parts.zip(upstream.as_chunks::<WIDTH>().0);
            // SAFETY: eight numbers each.
            unsafe {
                let share = V::splat(1.0 / (under * heads));
                let [mut by_above, mut by_mixed] = [V::splat(0.0); 2];
                for (((mixed, value), upstream), by_value) in
                    parts.zip(by_value.as_chunks_mut::<WIDTH>().0)
                {
                    let a = V::load(mixed.as_ptr());
                    let above = V::load(value.as_ptr()).mul_add(V::splat(count), a);
                    let u = V::load(upstream.as_ptr()).mul(share);
                    by_above = u.mul_add(above, by_above);
                    by_mixed = u.mul_add(a, by_mixed);
                    u.store(mixed.as_mut_ptr());
                    u.mul(V::splat(count)).store(by_value.as_mut_ptr());
                }
                let e = -by_above.sum() / under;
                *self.along += f64::from(by_mixed.sum()) + f64::from(*below * e);
                *below = e;
            }
        }
    }
}

/// sum += factor · rows + shift; the shift, if there is one, is the same for every row.
struct AddRows<'a> {
    sum: &'a mut [f32],
    factor: f32,
    rows: &'a [f32],
    shift: &'a [f32],
}

impl Kernel for AddRows<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        add_scaled(self.sum, self.factor, self.rows);
        if !self.shift.is_empty() {
            let rows = self.sum.chunks_exact_mut(self.shift.len());
            rows.for_each(|sum| add_scaled(sum, 1.0, self.shift));
        }
    }
}
