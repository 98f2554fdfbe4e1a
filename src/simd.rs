//! Eight numbers at a time.
//!
//! A [`Kernel`] is written once, over a [`Vector`], and compiled several times: for AVX2 with FMA and for AVX-512, which
//! are asked for when the program runs, and for what every processor has. On the latter the eight numbers are an
//! array, and the compiler uses what instructions it may. All give the same results but for rounding: a
//! fused multiply-add rounds once. AVX-512 gives the bits of AVX2: its registers hold sixteen numbers, which only
//! kernels use that say so ([`Kernel::run_wide`]), and none of which are added up across.

use crate::rng::Coins;

/// Numbers in a vector.
pub const WIDTH: usize = 8;

/// `count` rounded up to whole vectors.
pub fn padded(count: usize) -> usize {
    count.next_multiple_of(WIDTH)
}

/// A scalar product, of sums side by side.
#[inline(always)]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (a, b) = (a.chunks_exact(WIDTH), b.chunks_exact(WIDTH));
    let rest: f32 = a.remainder().iter().zip(b.remainder()).map(|(a, b)| a * b).sum();
    let mut sums = [0.0; WIDTH];
    for (a, b) in a.zip(b) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f32>() + rest
}

/// `sum += factor * row`
#[inline(always)]
pub fn add_scaled(sum: &mut [f32], factor: f32, row: &[f32]) {
    for (sum, value) in sum.iter_mut().zip(row) {
        *sum += factor * value;
    }
}

/// Which instructions to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Simd(Level);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// Those of every processor of the architecture.
    Portable,
    /// AVX2 and FMA, which are there.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// The same and AVX-512.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// Work on vectors.
pub trait Kernel: Sized {
    /// Does it.
    ///
    /// # Safety
    /// The processor has the instructions of `V`.
    unsafe fn run<V: Vector>(self);

    /// Does it with AVX-512, to be written anew where sixteen numbers at a time pay.
    ///
    /// # Safety
    /// The processor has AVX-512.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn run_wide(self) {
        // SAFETY: what has AVX-512 has AVX2.
        unsafe { self.run::<std::arch::x86_64::__m256>() }
    }
}

impl Simd {
    /// The best that this processor has.
    pub fn detect() -> Simd {
        Simd::all().last().unwrap_or(Simd::portable())
    }

    /// All that this processor has, the best last.
    pub fn all() -> impl Iterator<Item = Simd> {
        let levels = [
            Some(Level::Portable),
            #[cfg(target_arch = "x86_64")]
            (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"))
                .then_some(Level::Avx2),
            #[cfg(target_arch = "x86_64")]
            avx512::is_there().then_some(Level::Avx512),
        ];
        levels.into_iter().flatten().map(Simd)
    }

    /// What every processor has.
    pub fn portable() -> Simd {
        Simd(Level::Portable)
    }

    /// Runs a kernel with these instructions.
    pub fn run(self, kernel: impl Kernel) {
        match self.0 {
            // SAFETY: arrays need no instructions.
            Level::Portable => unsafe { kernel.run::<Array>() },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: only `all` makes this one, where it has found the instructions.
            Level::Avx2 => unsafe { avx2::run(kernel) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the same.
            Level::Avx512 => unsafe { avx512::run(kernel) },
        }
    }
}

/// Eight numbers.
///
/// # Safety
/// All functions need the instructions of the type; pointers are to eight numbers.
pub trait Vector: Copy {
    unsafe fn splat(x: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn sub(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    unsafe fn div(self, other: Self) -> Self;
    /// `self * factor + sum`
    unsafe fn mul_add(self, factor: Self, sum: Self) -> Self;
    unsafe fn max(self, other: Self) -> Self;
    unsafe fn abs(self) -> Self;
    unsafe fn sqrt(self) -> Self;
    /// The size of `self`, which must not be negative, with the sign of `other`.
    unsafe fn with_sign_of(self, other: Self) -> Self;
    /// `self` where `test` is above 0, else 0.
    unsafe fn where_positive(self, test: Self) -> Self;
    /// eˣ within 2 units in the last place, 0 below -87.
    unsafe fn exp(self) -> Self;
    /// `table[index]` for eight indices.
    unsafe fn gather(table: *const f32, indices: *const u32) -> Self;
    /// `self` times the factors of coins `first` to `first + 7`.
    unsafe fn toss(self, coins: &Coins, first: u32) -> Self;
    /// Rows as columns.
    unsafe fn transpose(rows: [Self; WIDTH]) -> [Self; WIDTH];

    #[inline(always)]
    unsafe fn to_array(self) -> [f32; WIDTH] {
        let mut array = [0.0; WIDTH];
        // SAFETY: eight numbers.
        unsafe { self.store(array.as_mut_ptr()) };
        array
    }

    /// The sum of all eight, in halves.
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        // SAFETY: as the caller's.
        let [a, b, c, d, e, f, g, h] = unsafe { self.to_array() };
        ((a + e) + (c + g)) + ((b + f) + (d + h))
    }

    /// The largest of all eight.
    #[inline(always)]
    unsafe fn largest(self) -> f32 {
        // SAFETY: as the caller's.
        let [a, b, c, d, e, f, g, h] = unsafe { self.to_array() };
        (a.max(e).max(c.max(g))).max(b.max(f).max(d.max(h)))
    }

    /// 1 / (1 + e⁻ˣ)
    #[inline(always)]
    unsafe fn sigmoid(self) -> Self {
        // SAFETY: as the caller's.
        unsafe {
            let one = Self::splat(1.0);
            one.div(one.add(Self::splat(0.0).sub(self).exp()))
        }
    }
}

/// What is multiplied and added at a time in products and sums of rows: eight numbers, or more where registers are wider.
///
/// # Safety
/// All functions need the instructions of the type; pointers are to as many numbers as it has.
pub trait Lanes: Copy {
    /// Eight of them.
    type Vector: Vector;
    /// All, by eights.
    type Eights: IntoIterator<Item = Self::Vector>;
    /// How many.
    const COUNT: usize;
    unsafe fn splat(x: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// `self * factor + sum`
    unsafe fn mul_add(self, factor: Self, sum: Self) -> Self;
    unsafe fn eights(self) -> Self::Eights;
}

// SAFETY, for all of it: as the caller's.
impl<V: Vector> Lanes for V {
    type Vector = V;
    type Eights = [V; 1];
    const COUNT: usize = WIDTH;
    #[inline(always)]
    unsafe fn splat(x: f32) -> V {
        unsafe { <V as Vector>::splat(x) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> V {
        unsafe { <V as Vector>::load(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { Vector::store(self, to) }
    }
    #[inline(always)]
    unsafe fn mul_add(self, factor: V, sum: V) -> V {
        unsafe { Vector::mul_add(self, factor, sum) }
    }
    #[inline(always)]
    unsafe fn eights(self) -> [V; 1] {
        [self]
    }
}

/// ln 2 in two parts, the first with few bits, so that small multiples of it are exact.
const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
/// 1/7!, 1/6!, …, 1/1!, 1/0!
const INVERSE_FACTORIALS: [f32; 8] =
    [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0];
/// Below, eˣ is taken for 0; above the second, for e to that.
const EXP_RANGE: [f32; 2] = [-87.0, 88.0];

/// A vector as an array.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
struct Array([f32; WIDTH]);

impl Array {
    #[inline(always)]
    fn zip(self, other: Array, f: impl Fn(f32, f32) -> f32) -> Array {
        Array(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }
}

impl Vector for Array {
    #[inline(always)]
    unsafe fn splat(x: f32) -> Array {
        Array([x; WIDTH])
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Array {
        // SAFETY: eight numbers, by contract.
        Array(unsafe { from.cast::<[f32; WIDTH]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: eight numbers, by contract.
        unsafe { to.cast::<[f32; WIDTH]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Array) -> Array {
        self.zip(other, |a, b| a + b)
    }
    #[inline(always)]
    unsafe fn sub(self, other: Array) -> Array {
        self.zip(other, |a, b| a - b)
    }
    #[inline(always)]
    unsafe fn mul(self, other: Array) -> Array {
        self.zip(other, |a, b| a * b)
    }
    #[inline(always)]
    unsafe fn div(self, other: Array) -> Array {
        self.zip(other, |a, b| a / b)
    }
    #[inline(always)]
    unsafe fn mul_add(self, factor: Array, sum: Array) -> Array {
        // Without the instruction, a fused multiply-add is a slow function.
        let fused = cfg!(target_arch = "aarch64");
        let one = |a: f32, b: f32, c: f32| if fused { a.mul_add(b, c) } else { a * b + c };
        Array(std::array::from_fn(|i| one(self.0[i], factor.0[i], sum.0[i])))
    }
    #[inline(always)]
    unsafe fn max(self, other: Array) -> Array {
        self.zip(other, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    unsafe fn abs(self) -> Array {
        Array(self.0.map(f32::abs))
    }
    #[inline(always)]
    unsafe fn sqrt(self) -> Array {
        Array(self.0.map(f32::sqrt))
    }
    #[inline(always)]
    unsafe fn with_sign_of(self, other: Array) -> Array {
        self.zip(other, f32::copysign)
    }
    #[inline(always)]
    unsafe fn where_positive(self, test: Array) -> Array {
        self.zip(test, |a, b| if b > 0.0 { a } else { 0.0 })
    }
    #[inline(always)]
    unsafe fn exp(self) -> Array {
        Array(self.0.map(|x| {
            let clamped = x.clamp(EXP_RANGE[0], EXP_RANGE[1]);
            let whole = (clamped * std::f32::consts::LOG2_E).round_ties_even();
            let rest = (clamped - whole * LN_2[0]) - whole * LN_2[1];
            let power = INVERSE_FACTORIALS.iter().fold(0.0, |sum, term| sum * rest + term);
            let scale = f32::from_bits(((whole as i32 + 127) as u32) << 23);
            // NaN passes through the comparison.
            if x < EXP_RANGE[0] { 0.0 } else { power * scale }
        }))
    }
    #[inline(always)]
    unsafe fn gather(table: *const f32, indices: *const u32) -> Array {
        // SAFETY: indices lie in the table, by contract.
        Array(std::array::from_fn(|i| unsafe { *table.add(*indices.add(i) as usize) }))
    }
    #[inline(always)]
    unsafe fn toss(self, coins: &Coins, first: u32) -> Array {
        Array(std::array::from_fn(|i| self.0[i] * coins.factor(first.wrapping_add(i as u32))))
    }
    #[inline(always)]
    unsafe fn transpose(rows: [Array; WIDTH]) -> [Array; WIDTH] {
        std::array::from_fn(|c| Array(std::array::from_fn(|r| rows[r].0[c])))
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use super::{EXP_RANGE, INVERSE_FACTORIALS, Kernel, LN_2, Vector};
    use crate::rng::{Coins, MIX};

    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn run<K: Kernel>(kernel: K) {
        // SAFETY: these instructions are there, or this function had not been called.
        unsafe { kernel.run::<__m256>() }
    }

    // SAFETY, for all of it: the instructions are there and pointers are to eight numbers, by contract.
    impl Vector for __m256 {
        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            unsafe { _mm256_set1_ps(x) }
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            unsafe { _mm256_loadu_ps(from) }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe { _mm256_storeu_ps(to, self) }
        }
        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            unsafe { _mm256_add_ps(self, other) }
        }
        #[inline(always)]
        unsafe fn sub(self, other: Self) -> Self {
            unsafe { _mm256_sub_ps(self, other) }
        }
        #[inline(always)]
        unsafe fn mul(self, other: Self) -> Self {
            unsafe { _mm256_mul_ps(self, other) }
        }
        #[inline(always)]
        unsafe fn div(self, other: Self) -> Self {
            unsafe { _mm256_div_ps(self, other) }
        }
        #[inline(always)]
        unsafe fn mul_add(self, factor: Self, sum: Self) -> Self {
            unsafe { _mm256_fmadd_ps(self, factor, sum) }
        }
        #[inline(always)]
        unsafe fn max(self, other: Self) -> Self {
            unsafe { _mm256_max_ps(self, other) }
        }
        #[inline(always)]
        unsafe fn abs(self) -> Self {
            unsafe { _mm256_andnot_ps(Self::splat(-0.0), self) }
        }
        #[inline(always)]
        unsafe fn sqrt(self) -> Self {
            unsafe { _mm256_sqrt_ps(self) }
        }
        #[inline(always)]
        unsafe fn with_sign_of(self, other: Self) -> Self {
            unsafe { _mm256_or_ps(self, _mm256_and_ps(Self::splat(-0.0), other)) }
        }
        #[inline(always)]
        unsafe fn where_positive(self, test: Self) -> Self {
            unsafe {
                let positive = _mm256_cmp_ps::<_CMP_GT_OQ>(test, _mm256_setzero_ps());
                _mm256_and_ps(self, positive)
            }
        }
        #[inline(always)]
        unsafe fn exp(self) -> Self {
            unsafe {
                let [low, high] = EXP_RANGE.map(|x| _mm256_set1_ps(x));
                // NaN as the second operand passes through.
                let clamped = _mm256_min_ps(high, _mm256_max_ps(low, self));
                let scaled = _mm256_mul_ps(clamped, Self::splat(std::f32::consts::LOG2_E));
                let whole =
                    _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(scaled);
                let rest = _mm256_fnmadd_ps(whole, Self::splat(LN_2[0]), clamped);
                let rest = _mm256_fnmadd_ps(whole, Self::splat(LN_2[1]), rest);
                let mut power = Self::splat(INVERSE_FACTORIALS[0]);
                for &term in &INVERSE_FACTORIALS[1..] {
                    power = _mm256_fmadd_ps(power, rest, Self::splat(term));
                }
                let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(whole), _mm256_set1_epi32(127));
                let scale = _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent));
                let tiny = _mm256_cmp_ps::<_CMP_LT_OQ>(self, low);
                _mm256_andnot_ps(tiny, _mm256_mul_ps(power, scale))
            }
        }
        #[inline(always)]
        unsafe fn sum(self) -> f32 {
            unsafe {
                let four =
                    _mm_add_ps(_mm256_castps256_ps128(self), _mm256_extractf128_ps::<1>(self));
                let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
                _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
            }
        }
        #[inline(always)]
        unsafe fn largest(self) -> f32 {
            unsafe {
                let four =
                    _mm_max_ps(_mm256_castps256_ps128(self), _mm256_extractf128_ps::<1>(self));
                let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
                _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
            }
        }
        #[inline(always)]
        unsafe fn gather(table: *const f32, indices: *const u32) -> Self {
            unsafe {
                let indices = _mm256_loadu_si256(indices.cast());
                _mm256_i32gather_ps::<4>(table, indices)
            }
        }
        #[inline(always)]
        unsafe fn toss(self, coins: &Coins, first: u32) -> Self {
            unsafe {
                let word = |bits: u32| _mm256_set1_epi32(bits as i32);
                let count = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
                let index = _mm256_add_epi32(word(first), count);
                let bits =
                    _mm256_add_epi32(_mm256_mullo_epi32(index, word(MIX[0])), word(coins.keys[0]));
                let bits = _mm256_xor_si256(bits, _mm256_srli_epi32::<16>(bits));
                let bits = _mm256_mullo_epi32(bits, word(MIX[1]));
                let bits = _mm256_xor_si256(bits, _mm256_srli_epi32::<15>(bits));
                let bits = _mm256_add_epi32(bits, word(coins.keys[1]));
                let bits = _mm256_mullo_epi32(bits, word(MIX[2]));
                let bits = _mm256_xor_si256(bits, _mm256_srli_epi32::<15>(bits));
                // Comparison is of signed numbers.
                let half = 1 << 31;
                let threshold = word(coins.threshold ^ half);
                let drops = _mm256_cmpgt_epi32(threshold, _mm256_xor_si256(bits, word(half)));
                let kept = _mm256_mul_ps(self, Self::splat(coins.keep));
                _mm256_andnot_ps(_mm256_castsi256_ps(drops), kept)
            }
        }
        #[inline(always)]
        unsafe fn transpose(rows: [Self; 8]) -> [Self; 8] {
            unsafe {
                let [a, b, c, d, e, f, g, h] = rows;
                // Pairs of rows, then fours within each half, then both halves.
                let pair = |x, y| [_mm256_unpacklo_ps(x, y), _mm256_unpackhi_ps(x, y)];
                let four = |[x0, x1]: [Self; 2], [y0, y1]: [Self; 2]| {
                    [
                        _mm256_shuffle_ps::<0x44>(x0, y0),
                        _mm256_shuffle_ps::<0xEE>(x0, y0),
                        _mm256_shuffle_ps::<0x44>(x1, y1),
                        _mm256_shuffle_ps::<0xEE>(x1, y1),
                    ]
                };
                let upper = four(pair(a, b), pair(c, d));
                let lower = four(pair(e, f), pair(g, h));
                std::array::from_fn(|i| match i {
                    0..4 => _mm256_permute2f128_ps::<0x20>(upper[i], lower[i]),
                    _ => _mm256_permute2f128_ps::<0x31>(upper[i - 4], lower[i - 4]),
                })
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::*;

    use super::{Kernel, Lanes, WIDTH};

    pub fn is_there() -> bool {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
    }

    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx2,fma")]
    pub unsafe fn run<K: Kernel>(kernel: K) {
        // SAFETY: these instructions are there, or this function had not been called.
        unsafe { kernel.run_wide() }
    }

    // SAFETY, for all of it: the instructions are there and pointers are to sixteen numbers, by contract.
    impl Lanes for __m512 {
        type Vector = __m256;
        type Eights = [__m256; 2];
        const COUNT: usize = 2 * WIDTH;
        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            unsafe { _mm512_set1_ps(x) }
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            unsafe { _mm512_loadu_ps(from) }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe { _mm512_storeu_ps(to, self) }
        }
        #[inline(always)]
        unsafe fn mul_add(self, factor: Self, sum: Self) -> Self {
            unsafe { _mm512_fmadd_ps(self, factor, sum) }
        }
        #[inline(always)]
        unsafe fn eights(self) -> [__m256; 2] {
            unsafe { [_mm512_castps512_ps256(self), _mm512_extractf32x8_ps::<1>(self)] }
        }
    }
}
