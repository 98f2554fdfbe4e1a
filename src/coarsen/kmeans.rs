//! Points into k groups around centres: k-means, seeded by k-means++.
//!
//! Lloyd's rounds until nothing changes: every point goes to the nearest centre, every centre to the mean of its points. A
//! centre that loses all its points moves to the point that is farthest from its own, so there are always k groups.
//!
//! Lloyd, IEEE Trans. Inf. Theory 28, 1982; Arthur & Vassilvitskii, "k-means++", SODA 2007.
//!
//! O(nkw) for a round over n points of w numbers.

use crate::Result;
use crate::monitor::{Monitor, check};
use crate::rng::Stream;

/// Rounds, at most.
const ROUNDS: usize = 100;

/// How near a point is to a centre; the larger, the nearer.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Nearness {
    /// By distance.
    Euclidean,
    /// By the angle seen from 0. Points and centres at 0 are at right angles to everything.
    Cosine,
}

/// Rows of equal width.
pub(super) struct Points {
    pub numbers: Vec<f64>,
    pub width: usize,
}

impl Points {
    pub(super) fn row(&self, point: usize) -> &[f64] {
        &self.numbers[point * self.width..][..self.width]
    }

    pub(super) fn len(&self) -> usize {
        self.numbers.len() / self.width.max(1)
    }
}

/// Groups of `points`, 0 to `count` − 1, none of them empty. There are at least `count` points.
pub(super) fn kmeans(
    points: &Points,
    count: usize,
    stream: &mut Stream,
    monitor: &dyn Monitor,
) -> Result<Vec<u32>> {
    let start = plus_plus(points, count, stream);
    lloyd(points, start, Nearness::Euclidean, monitor)
}

/// Numbers of `count` different points: each drawn by its squared distance from those before.
fn plus_plus(points: &Points, count: usize, stream: &mut Stream) -> Vec<usize> {
    let n = points.len();
    let mut chosen = vec![stream.below(n as u64) as usize];
    let mut distances: Vec<f64> =
        (0..n).map(|i| distance(points.row(i), points.row(chosen[0]))).collect();
    while chosen.len() < count {
        let total: f64 = distances.iter().sum();
        let mut left = stream.unit() * total;
        let drawn = distances.iter().position(|&d| {
            left -= d;
            d > 0.0 && left <= 0.0
        });
        // All points coincide with chosen ones: any other will do.
        let next = drawn.or_else(|| (0..n).find(|i| !chosen.contains(i))).unwrap_or(0);
        chosen.push(next);
        for (i, nearest) in distances.iter_mut().enumerate() {
            *nearest = nearest.min(distance(points.row(i), points.row(next)));
        }
    }
    chosen
}

/// Rounds from centres at the points `start`.
pub(super) fn lloyd(
    points: &Points,
    start: Vec<usize>,
    nearness: Nearness,
    monitor: &dyn Monitor,
) -> Result<Vec<u32>> {
    let (n, width, count) = (points.len(), points.width, start.len());
    let mut centres: Vec<f64> = start.iter().flat_map(|&i| points.row(i)).copied().collect();
    let mut group = vec![u32::MAX; n];
    let mut near = vec![0.0; n];
    for _ in 0..ROUNDS {
        check(monitor)?;
        let mut changed = false;
        for i in 0..n {
            let row = points.row(i);
            let (mut best, mut most) = (0, f64::NEG_INFINITY);
            for (c, centre) in centres.chunks_exact(width).enumerate() {
                let found = match nearness {
                    Nearness::Euclidean => -distance(row, centre),
                    Nearness::Cosine => cosine(row, centre),
                };
                if found > most {
                    (best, most) = (c as u32, found);
                }
            }
            changed |= group[i] != best;
            group[i] = best;
            near[i] = most;
        }
        changed |= fill_empty(&mut group, &mut near, count);
        if !changed {
            break;
        }
        let mut sizes = vec![0.0; count];
        centres.fill(0.0);
        for (i, &c) in group.iter().enumerate() {
            sizes[c as usize] += 1.0;
            let centre = &mut centres[c as usize * width..][..width];
            centre.iter_mut().zip(points.row(i)).for_each(|(sum, x)| *sum += x);
        }
        for (centre, size) in centres.chunks_exact_mut(width).zip(sizes) {
            centre.iter_mut().for_each(|sum| *sum /= size);
        }
    }
    Ok(group)
}

/// Gives every empty group the point that is farthest from its centre and not alone.
fn fill_empty(group: &mut [u32], near: &mut [f64], count: usize) -> bool {
    let mut sizes = vec![0u32; count];
    group.iter().for_each(|&c| sizes[c as usize] += 1);
    let mut changed = false;
    for empty in 0..count {
        if sizes[empty] > 0 {
            continue;
        }
        let free = (0..group.len()).filter(|&i| sizes[group[i] as usize] > 1);
        let Some(farthest) = free.min_by(|&a, &b| near[a].total_cmp(&near[b])) else { break };
        sizes[group[farthest] as usize] -= 1;
        sizes[empty] = 1;
        group[farthest] = empty as u32;
        near[farthest] = f64::INFINITY;
        changed = true;
    }
    changed
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum()
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let lengths = (dot(a, a) * dot(b, b)).sqrt();
    if lengths > 0.0 { dot(a, b) / lengths } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Seed;
    use proptest::prelude::*;

    fn stream() -> Stream {
        Seed(3).stream("kmeans", 0, 0)
    }

    #[test]
    fn heaps_are_found() {
        let heaps = [0.0, 0.1, 0.2, 10.0, 10.1, 20.0, 20.1, 20.2];
        let points = Points { numbers: heaps.to_vec(), width: 1 };
        let found = kmeans(&points, 3, &mut stream(), &()).unwrap();
        let expected = [0, 0, 0, 1, 1, 2, 2, 2];
        let same = |i: usize, j: usize| (found[i] == found[j]) == (expected[i] == expected[j]);
        assert!((0..8).all(|i| (0..8).all(|j| same(i, j))), "{found:?}");
    }

    #[test]
    fn angles_ignore_length() {
        let points =
            Points { numbers: vec![1.0, 0.0, 9.0, 0.1, 0.0, 1.0, 0.1, 7.0, 0.0, 0.0], width: 2 };
        let found = lloyd(&points, vec![0, 2], Nearness::Cosine, &()).unwrap();
        assert_eq!(found[..4], [0, 0, 1, 1]);
    }

    proptest! {
        #[test]
        fn no_group_is_empty(values in prop::collection::vec(-2i8..3, 2..40), count in 1usize..12) {
            let numbers: Vec<f64> = values.iter().map(|&x| f64::from(x)).collect();
            let points = Points { numbers, width: 1 };
            let count = count.min(points.len());
            let mut found = kmeans(&points, count, &mut stream(), &()).unwrap();
            found.sort_unstable();
            found.dedup();
            prop_assert_eq!(found.len(), count);
        }
    }
}
