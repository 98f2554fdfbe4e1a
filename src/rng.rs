//! One seed, many independent random streams.
//!
//! A stream is ChaCha8 keyed by *(seed, name, index)* with the counter block chosen by a second
//! index, so `(0, "coarsen", graph 7, level 2)` gives the same numbers on every platform, for any
//! thread count and in any order of evaluation. Nothing here reads the clock or global state, and
//! sampling is written out so that a dependency update can't change results.
//!
//! ```
//! use hdse::rng::Seed;
//! let mut a = Seed(0).stream("coarsen", 7, 2);
//! let mut b = Seed(0).stream("coarsen", 7, 2);
//! assert_eq!(a.next_u64(), b.next_u64());
//! assert_ne!(a.next_u64(), Seed(0).stream("coarsen", 7, 3).next_u64());
//! ```

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// The seed of a run, from which every stream is derived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Seed {
    /// The stream of `name` (at most 16 bytes) for two indices, such as graph and level.
    pub fn stream(self, name: &str, first: u64, second: u64) -> Stream {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&self.0.to_le_bytes());
        key[8..16].copy_from_slice(&first.to_le_bytes());
        key[16..16 + name.len()].copy_from_slice(name.as_bytes());
        let mut rng = ChaCha8Rng::from_seed(key);
        rng.set_stream(second);
        Stream(rng)
    }
}

/// Scatters the bits of a number, for choices that need no stream of their own (the finishing step of
/// SplitMix64: Steele, Lea & Flood 2014).
pub(crate) fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

/// The number in `[0, 1)` that random bits stand for.
pub(crate) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// Odd constants of [`Coins`]; the last two are of a hash of 32 bits with little bias, found by search
/// (Wellons, "Prospecting for hash functions", and those who went on).
pub(crate) const MIX: [u32; 3] = [0x9E37_79B9, 0x21F0_AAAD, 0xD35A_2D97];

/// Biased coins by number: any of them can be tossed at any time, eight at once, and comes out the same.
///
/// ```
/// use hdse::rng::Seed;
/// let coins = Seed(0).coins("dropout", 3, 1, 0.25);
/// assert_eq!(coins.factor(7), coins.factor(7));
/// let dropped = (0..10_000).filter(|&i| coins.factor(i) == 0.0).count();
/// assert!((2_300..2_700).contains(&dropped));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coins {
    pub(crate) keys: [u32; 2],
    pub(crate) threshold: u32,
    pub(crate) keep: f32,
}

impl Seed {
    /// Coins that fall on 0 with probability `rate`, to within 2⁻³², and else on 1 / (1 - rate). Keyed like a stream.
    pub fn coins(self, name: &str, first: u64, second: u64, rate: f64) -> Coins {
        let bits = self.stream(name, first, second).next_u64();
        Coins {
            keys: [bits as u32, (bits >> 32) as u32],
            threshold: (rate * 2f64.powi(32)) as u32,
            keep: if rate < 1.0 { (1.0 / (1.0 - rate)) as f32 } else { 0.0 },
        }
    }
}

impl Coins {
    /// What coin `number` falls on.
    #[inline]
    pub fn factor(&self, number: u32) -> f32 {
        let bits = number.wrapping_mul(MIX[0]).wrapping_add(self.keys[0]);
        let bits = (bits ^ (bits >> 16)).wrapping_mul(MIX[1]);
        let bits = (bits ^ (bits >> 15)).wrapping_add(self.keys[1]).wrapping_mul(MIX[2]);
        if (bits ^ (bits >> 15)) < self.threshold { 0.0 } else { self.keep }
    }

    /// 1 / (1 - rate)
    pub fn keep(&self) -> f32 {
        self.keep
    }
}

/// A reproducible sequence of random numbers.
#[derive(Clone, Debug)]
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A uniform number in `0..bound`, without bias (Lemire's multiply-and-reject).
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "below needs a positive bound");
        let mut wide = u128::from(self.next_u64()) * u128::from(bound);
        // The division is needed only where a number could be rejected.
        if (wide as u64) < bound {
            let threshold = bound.wrapping_neg() % bound;
            while (wide as u64) < threshold {
                wide = u128::from(self.next_u64()) * u128::from(bound);
            }
        }
        (wide >> 64) as u64
    }

    /// A uniform number in `[0, 1)` with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        unit(self.next_u64())
    }

    /// Shuffles in place (Fisher-Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_numbers_never_change() {
        let mut s = Seed(42).stream("test", 1, 2);
        let first = [s.next_u64(), s.below(1000), s.below(1000)];
        assert_eq!(first, [13_710_361_138_666_846_291, 679, 487]);
    }

    #[test]
    fn names_indices_and_seeds_are_independent() {
        let first = |s: u64, n: &str, a, b| Seed(s).stream(n, a, b).next_u64();
        let all = [
            first(0, "a", 0, 0),
            first(1, "a", 0, 0),
            first(0, "b", 0, 0),
            first(0, "a", 1, 0),
            first(0, "a", 0, 1),
        ];
        for i in 0..all.len() {
            for j in 0..i {
                assert_ne!(all[i], all[j]);
            }
        }
    }

    #[test]
    fn below_is_uniform() {
        let mut s = Seed(0).stream("test", 0, 0);
        let mut counts = [0u32; 6];
        for _ in 0..60_000 {
            counts[s.below(6) as usize] += 1;
        }
        assert!(counts.iter().all(|&c| (9_500..10_500).contains(&c)), "{counts:?}");
    }

    #[test]
    fn shuffle_permutes() {
        let mut items: Vec<u32> = (0..100).collect();
        Seed(3).stream("test", 0, 0).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
