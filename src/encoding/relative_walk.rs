//! Random-walk probabilities of all pairs.
//!
//! Time O(powers · n · (m / 8 + n)); the result is all but 128 · n bytes of the memory. One thread: sets of
//! graphs are parallel over graphs, and a graph whose pairs fit into memory is small.

use super::walk::{LANES, Walk};
use crate::{Error, MemoryLimit, Result};

/// The relative random-walk encoding of all pairs, [n, n, powers]: entry (u, v, k) is the probability that
/// a walk from u is at v after k steps,
///
/// RRWP_uv = (I, P, P², …, P^(powers − 1))_uv,  P = D⁻¹A.
///
/// Its diagonal, without k = 0, is the encoding of [`random_walk`](super::random_walk).
///
/// Ma, Lin, Lim, Romero-Soriano, Dokania, Coates, Torr & Lim, "Graph Inductive Biases in Transformers
/// without Message Passing", ICML 2023.
///
/// ```
/// use hdse::MemoryLimit;
/// use hdse::encoding::{SelfLoops, Walk, relative_walk};
/// let path = Walk::new(3, &[0, 1, 1, 2], &[1, 0, 2, 1], SelfLoops::Drop)?;
/// let pairs = relative_walk(&path, 3, MemoryLimit::default())?;
/// assert_eq!(pairs[..3], [1.0, 0.0, 0.5]); // from 0 to 0
/// assert_eq!(pairs[3..6], [0.0, 1.0, 0.0]); // from 0 to 1
/// # Ok::<(), hdse::Error>(())
/// ```
///
/// # Errors
/// If `powers` is 0, or the result needs more bytes than `limit`.
pub fn relative_walk(walk: &Walk, powers: usize, limit: MemoryLimit) -> Result<Vec<f32>> {
    if powers == 0 {
        return Err(Error::config("a relative random-walk encoding needs at least one power"));
    }
    let n = walk.num_nodes();
    let pairs = (n as u128).pow(2);
    limit.check(
        pairs.saturating_mul(4 * powers as u128),
        &format!("{powers} walk probabilities for all pairs of {n} nodes"),
        "take fewer powers, use return probabilities (`random_walk`), or raise `--max-memory`",
    )?;
    let mut out = vec![0.0; n * n * powers];
    let [mut from, mut to] = [(); 2].map(|()| vec![[0.0; LANES]; n]);
    for first in (0..n).step_by(LANES) {
        walk.begin(first, &mut from);
        for power in 0..powers {
            for (row, numbers) in out.chunks_exact_mut(n * powers).zip(&from) {
                let cells = row[first * powers + power..].iter_mut().step_by(powers);
                cells.zip(numbers).for_each(|(cell, &number)| *cell = number as f32);
            }
            walk.step(&from, &mut to);
            std::mem::swap(&mut from, &mut to);
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::SelfLoops;

    #[test]
    fn impossible_requests_are_refused() {
        let walk = Walk::new(1000, &[], &[], SelfLoops::Keep).unwrap();
        assert!(relative_walk(&walk, 0, MemoryLimit::NONE).unwrap_err().is_config());
        let error = relative_walk(&walk, 4, MemoryLimit(15_999_999)).unwrap_err();
        assert!(error.is_memory(), "{error}");
        assert!(relative_walk(&walk, 4, MemoryLimit(16_000_000)).is_ok());
        assert!(relative_walk(&walk, usize::MAX, MemoryLimit(1 << 40)).unwrap_err().is_memory());
    }

    #[test]
    fn no_nodes_have_no_pairs() {
        let walk = Walk::new(0, &[], &[], SelfLoops::Keep).unwrap();
        assert!(relative_walk(&walk, 4, MemoryLimit::NONE).unwrap().is_empty());
    }
}
