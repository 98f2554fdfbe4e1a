//! Return probabilities of random walks, eight nodes at a time.
//!
//! Time O(steps · n · m / 8) vector operations, in parallel on large graphs; working memory 128 · n bytes
//! per thread. Blocks of nodes share nothing, so threads do not enter the result.

use rayon::prelude::*;

use super::walk::{LANES, Lanes, Walk};
use crate::{Error, MemoryLimit, Result};

/// Additions from which on blocks of nodes are given to several threads.
const PARALLEL: usize = 1 << 22;

/// The random-walk encoding: row u, of [n, steps], holds the probabilities that a walk from u is at u
/// after 1, 2, …, steps steps,
///
/// RWSE_u = (P_uu, (P²)_uu, …, (P^steps)_uu),  P = D⁻¹A.
///
/// Isomorphic nodes have equal rows, up to the rounding of sums in another order.
///
/// Dwivedi, Luu, Laurent, Bengio & Bresson, "Graph Neural Networks with Learnable Structural and
/// Positional Representations", ICLR 2022.
///
/// ```
/// use hdse::MemoryLimit;
/// use hdse::encoding::{SelfLoops, Walk, random_walk};
/// // A one-way ring of three: back after three steps, and only then.
/// let ring = Walk::new(3, &[0, 1, 2], &[1, 2, 0], SelfLoops::Keep)?;
/// assert_eq!(random_walk(&ring, 4, MemoryLimit::default())?[..4], [0.0, 0.0, 1.0, 0.0]);
/// # Ok::<(), hdse::Error>(())
/// ```
///
/// # Errors
/// If `steps` is 0, or the result needs more bytes than `limit`.
pub fn random_walk(walk: &Walk, steps: usize, limit: MemoryLimit) -> Result<Vec<f32>> {
    if steps == 0 {
        return Err(Error::config("a random-walk encoding needs at least one step"));
    }
    let n = walk.num_nodes();
    limit.check(
        (n as u128) * (4 * steps as u128 + 128),
        &format!("{steps} steps from {n} nodes"),
        "take fewer steps",
    )?;
    let mut out = vec![0.0; n * steps];
    let block = |tables: &mut [Vec<Lanes>; 2], (index, rows): (usize, &mut [f32])| {
        returns(walk, index * LANES, steps, rows, tables);
    };
    let tables = || [(); 2].map(|()| vec![[0.0; LANES]; n]);
    if n.saturating_mul(walk.num_arcs()) < PARALLEL {
        let mut tables = tables();
        out.chunks_mut(LANES * steps).enumerate().for_each(|item| block(&mut tables, item));
    } else {
        out.par_chunks_mut(LANES * steps).enumerate().for_each_init(tables, block);
    }
    Ok(out)
}

/// The rows of nodes `first`, `first + 1`, ….
fn returns(
    walk: &Walk,
    first: usize,
    steps: usize,
    rows: &mut [f32],
    [from, to]: &mut [Vec<Lanes>; 2],
) {
    walk.begin(first, from);
    for step in 0..steps {
        walk.step(from, to);
        for (lane, row) in rows.chunks_mut(steps).enumerate() {
            row[step] = to[first + lane][lane] as f32;
        }
        std::mem::swap(from, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::SelfLoops;
    use crate::rng::Seed;

    fn random(n: u32, arcs: usize) -> Walk {
        let mut stream = Seed(1).stream("test", 0, 0);
        let mut ends = || (0..arcs).map(|_| stream.below(n.into()) as u32).collect::<Vec<_>>();
        Walk::new(n as usize, &ends(), &ends(), SelfLoops::Keep).unwrap()
    }

    #[test]
    fn threads_do_not_change_the_result() {
        let walk = random(2_100, 4_000);
        assert!(walk.num_nodes() * walk.num_arcs() >= PARALLEL);
        let parallel = random_walk(&walk, 5, MemoryLimit::NONE).unwrap();
        let mut one_by_one = vec![0.0; parallel.len()];
        let mut tables = [(); 2].map(|()| vec![[0.0; LANES]; walk.num_nodes()]);
        for (index, rows) in one_by_one.chunks_mut(LANES * 5).enumerate() {
            returns(&walk, index * LANES, 5, rows, &mut tables);
        }
        assert_eq!(parallel, one_by_one);
    }

    #[test]
    fn impossible_requests_are_refused() {
        let walk = random(10, 20);
        assert!(random_walk(&walk, 0, MemoryLimit::NONE).unwrap_err().is_config());
        assert!(random_walk(&walk, usize::MAX, MemoryLimit(1 << 40)).unwrap_err().is_memory());
    }

    #[test]
    fn loops_stay_or_go() {
        let (sources, targets) = ([0, 0, 1], [0, 1, 0]);
        let rows = |loops| {
            let walk = Walk::new(3, &sources, &targets, loops).unwrap();
            random_walk(&walk, 2, MemoryLimit::NONE).unwrap()
        };
        assert_eq!(rows(SelfLoops::Keep), [0.5, 0.75, 0.0, 0.5, 0.0, 0.0]);
        assert_eq!(rows(SelfLoops::Drop), [0.0, 1.0, 0.0, 1.0, 0.0, 0.0]);
    }
}
