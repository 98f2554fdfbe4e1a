//! Kernels for rows of pairs: those of one node with all nodes of its graph.
//!
//! Numbers of a pair have `wide` columns, whole panels; what there is one of for every head has `lanes`, whole vectors. Columns beyond
//! the last are 0 and stay so; what heads beyond the last weigh is never read.

use super::{CLAMP, TINY};
use crate::rng::Coins;
use crate::simd::{Kernel, Vector, WIDTH};

/// ê of some rows: relu(√u⁺ − √u⁻ + t), u = (q_i + k_j) ∘ f.
pub(super) struct See<'a> {
    pub wide: usize,
    /// Nodes of the graph.
    pub size: usize,
    /// Of the nodes of the rows.
    pub query: &'a [f32],
    /// Of all nodes of the graph.
    pub key: &'a [f32],
    /// Factors, then terms, of every pair.
    pub made: &'a [f32],
    pub seen: &'a mut [f32],
}

impl Kernel for See<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let See { wide, size, query, key, made, seen } = self;
        let rows = made.chunks_exact(size * 2 * wide).zip(seen.chunks_exact_mut(size * wide));
        for (query, (made, seen)) in query.chunks_exact(wide).zip(rows) {
            let pairs = made.chunks_exact(2 * wide).zip(seen.chunks_exact_mut(wide));
            for (key, (made, seen)) in key.chunks_exact(wide).zip(pairs) {
                for c in (0..wide).step_by(WIDTH) {
                    // SAFETY: rows of `wide` numbers each, and twice as many of `made`.
                    unsafe {
                        let at = |row: &[f32]| V::load(row.as_ptr().add(c));
                        let u = at(query).add(at(key)).mul(at(made));
                        let root = u.abs().sqrt().with_sign_of(u);
                        let y = root.add(at(&made[wide..])).max(V::splat(0.0));
                        y.store(seen.as_mut_ptr().add(c));
                    }
                }
            }
        }
    }
}

/// Dropout of rows, whose coins are counted over `width` columns, from pair `first` on.
pub(super) struct Drop<'a> {
    pub coins: &'a Coins,
    pub width: usize,
    pub wide: usize,
    pub first: usize,
    pub numbers: &'a mut [f32],
}

impl Kernel for Drop<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        for (row, numbers) in self.numbers.chunks_exact_mut(self.wide).enumerate() {
            let first = ((self.first + row) as u32).wrapping_mul(self.width as u32);
            for (vector, numbers) in numbers.as_chunks_mut::<WIDTH>().0.iter_mut().enumerate() {
                // SAFETY: eight numbers.
                unsafe {
                    let first = first.wrapping_add((vector * WIDTH) as u32);
                    V::load(numbers.as_ptr()).toss(self.coins, first).store(numbers.as_mut_ptr());
                }
            }
        }
    }
}

/// Coins of the weights of a row.
#[derive(Clone, Copy)]
pub(super) struct Tosses<'a> {
    pub coins: &'a Coins,
    /// Number of the first pair.
    pub first: usize,
    pub heads: usize,
}

impl Tosses<'_> {
    /// `x` times the factors of heads from `lane` on, of pair `j` of the row.
    #[inline(always)]
    unsafe fn toss<V: Vector>(this: &Option<Self>, j: usize, lane: usize, x: V) -> V {
        match this {
            Some(Tosses { coins, first, heads }) => {
                let first = ((first + j) as u32).wrapping_mul(*heads as u32);
                // SAFETY: as the caller's.
                unsafe { x.toss(coins, first.wrapping_add(lane as u32)) }
            }
            None => x,
        }
    }
}

/// Where the scores of a row come from.
#[derive(Clone, Copy)]
pub(super) struct Scores<'a> {
    pub lanes: usize,
    /// a · ê of every pair, rows so far apart.
    pub found: &'a [f32],
    pub stride: usize,
    /// The row of the bias for every pair.
    pub codes: Option<&'a [u32]>,
    pub table: &'a [f32],
}

impl Scores<'_> {
    /// softmax(clamp(a · ê, ±5) + b) for eight heads from `lane` on.
    #[inline(always)]
    unsafe fn weigh<V: Vector>(&self, lane: usize, weights: &mut [f32]) {
        let Scores { lanes, found, stride, codes, table } = *self;
        // SAFETY: eight numbers from `lane` on in all rows.
        unsafe {
            let (mut largest, mut total) = (V::splat(f32::NEG_INFINITY), V::splat(0.0));
            for (j, weights) in weights.chunks_exact_mut(lanes).enumerate() {
                let found = &found[j * stride + lane..][..WIDTH];
                let below = V::splat(0.0).sub(V::load(found.as_ptr())).max(V::splat(-CLAMP));
                let mut score = V::splat(0.0).sub(below).max(V::splat(-CLAMP));
                if let Some(codes) = codes {
                    let bias = &table[codes[j] as usize * lanes + lane..][..WIDTH];
                    score = score.add(V::load(bias.as_ptr()));
                }
                largest = largest.max(score);
                score.store(weights[lane..][..WIDTH].as_mut_ptr());
            }
            for weights in weights.chunks_exact_mut(lanes) {
                let weights = &mut weights[lane..][..WIDTH];
                let power = V::load(weights.as_ptr()).sub(largest).exp();
                total = total.add(power);
                power.store(weights.as_mut_ptr());
            }
            let total = total.add(V::splat(TINY));
            for weights in weights.chunks_exact_mut(lanes) {
                let weights = &mut weights[lane..][..WIDTH];
                V::load(weights.as_ptr()).div(total).store(weights.as_mut_ptr());
            }
        }
    }
}

/// The weights of a row, dropout included.
pub(super) struct Weigh<'a> {
    pub scores: Scores<'a>,
    pub tosses: Option<Tosses<'a>>,
    pub weights: &'a mut [f32],
}

impl Kernel for Weigh<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Weigh { scores, tosses, weights } = self;
        for lane in (0..scores.lanes).step_by(WIDTH) {
            // SAFETY: whole vectors.
            unsafe {
                scores.weigh::<V>(lane, weights);
                for (j, weights) in weights.chunks_exact_mut(scores.lanes).enumerate() {
                    let place = weights[lane..][..WIDTH].as_mut_ptr();
                    Tosses::toss(&tosses, j, lane, V::load(place)).store(place);
                }
            }
        }
    }
}

/// The heads that columns belong to.
#[derive(Clone, Copy)]
pub(super) struct Heads<'a> {
    /// Of every column; of those beyond the last, any.
    pub of_column: &'a [u32],
    /// Whether the columns of a vector all belong to one.
    pub is_even: bool,
}

impl Heads<'_> {
    /// The numbers of heads, for eight columns from `column` on.
    ///
    /// # Safety
    /// There are as many columns, and numbers for all heads.
    #[inline(always)]
    unsafe fn at<V: Vector>(&self, numbers: &[f32], column: usize) -> V {
        // SAFETY: by contract.
        unsafe {
            let heads = self.of_column.as_ptr().add(column);
            if self.is_even {
                V::splat(*numbers.get_unchecked(*heads as usize))
            } else {
                V::gather(numbers.as_ptr(), heads)
            }
        }
    }
}

/// Σ_j p_j v_j, then Σ_j p_j ê_j.
pub(super) struct Attended<'a> {
    pub wide: usize,
    pub lanes: usize,
    pub heads: Heads<'a>,
    pub weights: &'a [f32],
    pub value: &'a [f32],
    pub seen: &'a [f32],
    pub sums: &'a mut [f32],
}

impl Kernel for Attended<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Attended { wide, lanes, heads, weights, value, seen, sums } = self;
        let (of_nodes, of_pairs) = sums.split_at_mut(wide);
        for c in (0..wide).step_by(2 * WIDTH) {
            // SAFETY: whole panels, two vectors each, of rows of `wide` numbers.
            unsafe {
                let mut found = [[V::splat(0.0); 2]; 2];
                let columns = [c, c + WIDTH];
                let pairs = value.chunks_exact(wide).zip(seen.chunks_exact(wide));
                for (weights, (value, seen)) in weights.chunks_exact(lanes).zip(pairs) {
                    for (found, column) in found.iter_mut().zip(columns) {
                        let weight: V = heads.at(weights, column);
                        let rows = [value, seen].map(|row| V::load(row.as_ptr().add(column)));
                        *found = [0, 1].map(|i| weight.mul_add(rows[i], found[i]));
                    }
                }
                for ([of_node, of_pair], column) in found.into_iter().zip(columns) {
                    of_node.store(of_nodes.as_mut_ptr().add(column));
                    of_pair.store(of_pairs.as_mut_ptr().add(column));
                }
            }
        }
    }
}

/// Back through softmax: the weights of a row, dropout included, and the derivatives by its scores before they are cut off. `scores.found` has after
/// the lanes of a · ê those of g′ · ê, with g′ the derivative by what pairs give.
pub(super) struct Unweigh<'a> {
    pub scores: Scores<'a>,
    pub tosses: Option<Tosses<'a>>,
    /// g · v of every pair, with g the derivative by what nodes give.
    pub of_values: &'a [f32],
    pub weights: &'a mut [f32],
    pub by_score: &'a mut [f32],
    /// Added to.
    pub by_table: &'a mut [f64],
}

impl Kernel for Unweigh<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Unweigh { scores, tosses, of_values, weights, by_score, by_table } = self;
        let Scores { lanes, found, stride, codes, .. } = scores;
        for lane in (0..lanes).step_by(WIDTH) {
            // SAFETY: eight numbers from `lane` on in all rows.
            unsafe {
                scores.weigh::<V>(lane, weights);
                let mut mean = V::splat(0.0);
                let pairs = weights.chunks_exact(lanes).zip(by_score.chunks_exact_mut(lanes));
                for (j, (weights, by_score)) in pairs.enumerate() {
                    let of_seen = V::load(found[j * stride + lanes + lane..][..WIDTH].as_ptr());
                    let of_value = V::load(of_values[j * lanes + lane..][..WIDTH].as_ptr());
                    let by_weight = Tosses::toss(&tosses, j, lane, of_seen.add(of_value));
                    let weight = V::load(weights[lane..][..WIDTH].as_ptr());
                    mean = weight.mul_add(by_weight, mean);
                    by_weight.store(by_score[lane..][..WIDTH].as_mut_ptr());
                }
                let pairs = weights.chunks_exact_mut(lanes).zip(by_score.chunks_exact_mut(lanes));
                for (j, (weights, by_score)) in pairs.enumerate() {
                    let place = weights[lane..][..WIDTH].as_mut_ptr();
                    let weight = V::load(place);
                    let by = by_score[lane..][..WIDTH].as_mut_ptr();
                    let by_sum = weight.mul(V::load(by).sub(mean));
                    if let Some(codes) = codes {
                        let sums = &mut by_table[codes[j] as usize * lanes + lane..][..WIDTH];
                        let own = by_sum.to_array();
                        sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += f64::from(own));
                    }
                    let found = V::load(found[j * stride + lane..][..WIDTH].as_ptr());
                    let beyond = found.abs().sub(V::splat(CLAMP));
                    by_sum.sub(by_sum.where_positive(beyond)).store(by);
                    Tosses::toss(&tosses, j, lane, weight).store(place);
                }
            }
        }
    }
}

/// Back through what a row sees: from the derivatives by scores and by ê to those by what E made, and by queries, keys and values.
pub(super) struct Unsee<'a> {
    pub wide: usize,
    pub lanes: usize,
    pub heads: Heads<'a>,
    /// Of the node.
    pub query: &'a [f32],
    /// Of all nodes of the graph.
    pub key: &'a [f32],
    pub made: &'a [f32],
    pub seen: &'a [f32],
    /// Weights, dropout included.
    pub weights: &'a [f32],
    pub by_score: &'a [f32],
    /// a.
    pub score: &'a [f32],
    /// g and g′.
    pub given: &'a [f32],
    /// The derivative by ê as new states have it.
    pub by_seen: &'a [f32],
    pub by_made: &'a mut [f32],
    /// Added to, as what follows is.
    pub by_query: &'a mut [f32],
    pub by_key: &'a mut [f32],
    pub by_value: &'a mut [f32],
    pub by_a: &'a mut [f32],
}

impl Kernel for Unsee<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let (wide, lanes, heads) = (self.wide, self.lanes, self.heads);
        let (by_nodes, by_pairs) = self.given.split_at(wide);
        let query = &self.query[..wide];
        let score = &self.score[..wide];
        let by_query = &mut self.by_query[..wide];
        let by_a = &mut self.by_a[..wide];
        let of_head = self.weights.chunks_exact(lanes).zip(self.by_score.chunks_exact(lanes));
        let of_pair = self.made.chunks_exact(2 * wide).zip(self.seen.chunks_exact(wide));
        let of_pair = of_pair.zip(self.by_seen.chunks_exact(wide));
        let of_end = self.key.chunks_exact(wide).zip(self.by_key.chunks_exact_mut(wide));
        let of_end = of_end.zip(self.by_value.chunks_exact_mut(wide));
        let out = self.by_made.chunks_exact_mut(2 * wide);
        for (((weight, by_score), ((made, seen), by_seen)), (((key, by_key), by_value), by_made)) in
            of_head.zip(of_pair).zip(of_end.zip(out))
        {
            for c in (0..wide).step_by(WIDTH) {
                // SAFETY: rows of `wide` numbers each, and twice as many of `made` and `by_made`.
                unsafe {
                    let at = |row: &[f32]| V::load(row.as_ptr().add(c));
                    let add = |row: &mut [f32], factor: V, x: V| {
                        let place = row.as_mut_ptr().add(c);
                        factor.mul_add(x, V::load(place)).store(place);
                    };
                    let (weight, by_score): (V, V) = (heads.at(weight, c), heads.at(by_score, c));
                    let (seen, factor) = (at(seen), at(made));
                    add(by_value, weight, at(by_nodes));
                    add(by_a, by_score, seen);
                    let by_seen = weight.mul_add(at(by_pairs), at(by_seen));
                    let by_seen = by_score.mul_add(at(score), by_seen).where_positive(seen);
                    let both = at(query).add(at(key));
                    let root = both.mul(factor).abs().sqrt();
                    let by_u = by_seen.mul(V::splat(0.5)).div(root).where_positive(root);
                    by_u.mul(both).store(by_made.as_mut_ptr().add(c));
                    by_seen.store(by_made.as_mut_ptr().add(wide + c));
                    add(by_query, by_u, factor);
                    add(by_key, by_u, factor);
                }
            }
        }
    }
}
