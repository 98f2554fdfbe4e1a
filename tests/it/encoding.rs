//! Laws of node encodings, on random graphs.

use crate::support::graph;
use hdse::MemoryLimit;
use hdse::encoding::{
    Laplacian, LaplacianEncoding, SelfLoops, Walk, arc_degrees, degrees, random_walk, relative_walk,
};
use hdse::rng::Seed;
use proptest::prelude::*;

const STEPS: usize = 7;
const LAPLACIANS: [Laplacian; 2] = [Laplacian::Combinatorial, Laplacian::Normalised];

/// Nodes, then arcs, one-way and repeated ones and loops among them.
fn arcs() -> impl Strategy<Value = (usize, Vec<(u32, u32)>)> {
    (1..30u32).prop_flat_map(|n| (Just(n as usize), proptest::collection::vec((0..n, 0..n), 0..60)))
}

fn walk(n: usize, arcs: &[(u32, u32)], loops: SelfLoops) -> Walk {
    let (sources, targets): (Vec<u32>, Vec<u32>) = arcs.iter().copied().unzip();
    Walk::new(n, &sources, &targets, loops).unwrap()
}

fn returns(n: usize, arcs: &[(u32, u32)]) -> Vec<f32> {
    random_walk(&walk(n, arcs, SelfLoops::Keep), STEPS, MemoryLimit::NONE).unwrap()
}

fn all_pairs(n: usize, arcs: &[(u32, u32)], loops: SelfLoops) -> Vec<f32> {
    relative_walk(&walk(n, arcs, loops), STEPS + 1, MemoryLimit::NONE).unwrap()
}

fn frequencies(n: usize, arcs: &[(u32, u32)], laplacian: Laplacian) -> LaplacianEncoding {
    LaplacianEncoding::new(&graph(n, arcs), laplacian, n, 0, MemoryLimit::NONE).unwrap()
}

/// Powers of D⁻¹A, multiplied out: [n, n, STEPS + 1].
fn slow_powers(n: usize, arcs: &[(u32, u32)]) -> Vec<f64> {
    let mut transition = vec![0.0; n * n];
    for &(u, v) in arcs {
        let degree = arcs.iter().filter(|arc| arc.0 == u).count() as f64;
        transition[u as usize * n + v as usize] += 1.0 / degree;
    }
    let mut power: Vec<f64> = (0..n * n).map(|i| f64::from(i / n == i % n)).collect();
    let mut out = vec![0.0; n * n * (STEPS + 1)];
    for k in 0..=STEPS {
        (0..n * n).for_each(|pair| out[pair * (STEPS + 1) + k] = power[pair]);
        let entry = |pair: usize| {
            (0..n).map(|w| power[pair / n * n + w] * transition[w * n + pair % n]).sum()
        };
        power = (0..n * n).map(entry).collect();
    }
    out
}

/// Σ v vᵀ over the eigenvalues within 1e-7 of `value`: what no choice of vectors changes.
fn projector(found: &LaplacianEncoding, n: usize, value: f64) -> Vec<f64> {
    let columns: Vec<usize> = (0..n).filter(|&k| (found.values[k] - value).abs() <= 1e-7).collect();
    let entry = |u: usize, k: usize| f64::from(found.vectors[u * n + k]);
    let pair = |i: usize| columns.iter().map(|&k| entry(i / n, k) * entry(i % n, k)).sum();
    (0..n * n).map(pair).collect()
}

fn random_order(n: usize, seed: u64) -> Vec<u32> {
    let mut to: Vec<u32> = (0..n as u32).collect();
    Seed(seed).stream("relabel", 0, 0).shuffle(&mut to);
    to
}

fn renamed(arcs: &[(u32, u32)], to: &[u32]) -> Vec<(u32, u32)> {
    arcs.iter().map(|&(u, v)| (to[u as usize], to[v as usize])).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn walks_are_powers_of_the_transition_matrix((n, arcs) in arcs()) {
        let without: Vec<(u32, u32)> = arcs.iter().copied().filter(|(u, v)| u != v).collect();
        for (loops, kept) in [(SelfLoops::Keep, &arcs), (SelfLoops::Drop, &without)] {
            let expected = slow_powers(n, kept);
            let found = all_pairs(n, &arcs, loops);
            prop_assert_eq!(found.len(), expected.len());
            prop_assert!(found.iter().zip(&expected).all(|(&a, b)| (f64::from(a) - b).abs() <= 1e-6));
        }
        // The diagonal of all pairs, without the power 0.
        let pairs = all_pairs(n, &arcs, SelfLoops::Keep);
        let diagonal = (0..n).flat_map(|u| &pairs[u * (n + 1) * (STEPS + 1)..][1..=STEPS]);
        prop_assert_eq!(diagonal.copied().collect::<Vec<_>>(), returns(n, &arcs));
    }

    #[test]
    fn order_of_arcs_does_not_matter((n, arcs) in arcs(), seed in any::<u64>()) {
        let mut again = arcs.clone();
        Seed(seed).stream("test", 0, 0).shuffle(&mut again);
        prop_assert_eq!(returns(n, &arcs), returns(n, &again));
    }

    #[test]
    fn relabelling_permutes_walks((n, arcs) in arcs(), seed in any::<u64>()) {
        let to = random_order(n, seed);
        let other = renamed(&arcs, &to);
        let (before, after) = (returns(n, &arcs), returns(n, &other));
        let (pairs, after_pairs) = (all_pairs(n, &arcs, SelfLoops::Drop), all_pairs(n, &other, SelfLoops::Drop));
        let width = STEPS + 1;
        for u in 0..n {
            let image = to[u] as usize;
            for k in 0..STEPS {
                prop_assert!((before[u * STEPS + k] - after[image * STEPS + k]).abs() <= 1e-6);
            }
            for (v, &to) in to.iter().enumerate() {
                let (here, there) = (u * n + v, image * n + to as usize);
                for k in 0..width {
                    let (a, b) = (pairs[here * width + k], after_pairs[there * width + k]);
                    prop_assert!((a - b).abs() <= 1e-6);
                }
            }
        }
    }

    #[test]
    fn relabelling_permutes_projectors((n, arcs) in arcs(), seed in any::<u64>()) {
        let to = random_order(n, seed);
        for laplacian in LAPLACIANS {
            let before = frequencies(n, &arcs, laplacian);
            let after = frequencies(n, &renamed(&arcs, &to), laplacian);
            for (&a, &b) in before.values.iter().zip(&after.values) {
                prop_assert!((a - b).abs() <= 1e-10);
                let (p, q) = (projector(&before, n, a), projector(&after, n, a));
                for (u, v) in (0..n).flat_map(|u| (0..n).map(move |v| (u, v))) {
                    let image = to[u] as usize * n + to[v] as usize;
                    prop_assert!((p[u * n + v] - q[image]).abs() <= 1e-5);
                }
            }
        }
    }

    #[test]
    fn nodes_apart_change_nothing((n, arcs) in arcs()) {
        let alone = returns(n, &arcs);
        let with = returns(n + 1, &arcs);
        prop_assert_eq!(&alone[..], &with[..n * STEPS]);
        prop_assert_eq!(&with[n * STEPS..], [0.0; STEPS]);
        // Between all the others.
        let apart: Vec<(u32, u32)> = arcs.iter().map(|&(u, v)| (2 * u + 1, 2 * v + 1)).collect();
        let spread = returns(2 * n + 1, &apart);
        for u in 0..n {
            prop_assert_eq!(&alone[u * STEPS..][..STEPS], &spread[(2 * u + 1) * STEPS..][..STEPS]);
        }
        // One more zero, or one more one; all other vectors bit by bit.
        for (laplacian, value) in LAPLACIANS.into_iter().zip([0.0, 1.0]) {
            let (before, after) = (frequencies(n, &arcs, laplacian), frequencies(n + 1, &arcs, laplacian));
            let own = (0..=n).filter(|k| after.vectors[n * (n + 1) + k] != 0.0).collect::<Vec<_>>();
            prop_assert_eq!(own.len(), 1);
            prop_assert_eq!(after.values[own[0]], value);
            let mut values = after.values.clone();
            values.remove(own[0]);
            prop_assert_eq!(&before.values, &values);
            for u in 0..n {
                let mut row = after.vectors[u * (n + 1)..][..=n].to_vec();
                row.remove(own[0]);
                prop_assert_eq!(&before.vectors[u * n..][..n], row);
            }
        }
    }

    #[test]
    fn a_disjoint_union_has_the_encodings_of_both((n, first) in arcs(), (m, second) in arcs()) {
        let shifted = second.iter().map(|&(u, v)| (u + n as u32, v + n as u32));
        let both: Vec<(u32, u32)> = first.iter().copied().chain(shifted).collect();
        prop_assert_eq!(returns(n + m, &both), [returns(n, &first), returns(m, &second)].concat());
        for laplacian in LAPLACIANS {
            let [a, b] = [(n, &first), (m, &second)].map(|(n, arcs)| frequencies(n, arcs, laplacian));
            let mut values = [&a.values[..], &b.values[..]].concat();
            values.sort_by(f64::total_cmp);
            prop_assert_eq!(frequencies(n + m, &both, laplacian).values, values);
        }
    }

    #[test]
    fn fewer_frequencies_are_the_first_of_all(
        (n, arcs) in arcs(),
        columns in 0usize..12,
        skip in 0usize..4,
    ) {
        for laplacian in LAPLACIANS {
            let whole = frequencies(n, &arcs, laplacian);
            let few = LaplacianEncoding::new(&graph(n, &arcs), laplacian, columns, skip, MemoryLimit::NONE).unwrap();
            prop_assert_eq!(few.count, columns.min(n.saturating_sub(skip)));
            for k in 0..columns {
                let column: Vec<f32> = few.vectors.iter().skip(k).step_by(columns).copied().collect();
                if k >= few.count {
                    prop_assert_eq!(few.values[k], 0.0);
                    prop_assert!(column.iter().all(|&x| x == 0.0));
                    continue;
                }
                prop_assert!((few.values[k] - whole.values[k + skip]).abs() <= 1e-12);
                // The sign: the first of the largest entries is positive, unless rounding to single
                // precision hides which one that is.
                let largest = column.iter().fold(0.0f32, |most, x| most.max(x.abs()));
                let within = |part: f32| column.iter().position(|x| x.abs() >= largest * (1.0 - part));
                let first = within(0.7e-6).unwrap();
                prop_assert!(column[first] > 0.0 || within(1.3e-6) != Some(first));
                let length: f32 = column.iter().map(|x| x * x).sum();
                prop_assert!((length - 1.0).abs() <= 1e-5);
            }
        }
    }

    #[test]
    fn degrees_are_counts((n, arcs) in arcs(), maximum in 0u32..6) {
        let (sources, targets): (Vec<u32>, Vec<u32>) = arcs.iter().copied().unzip();
        for ends in [&sources, &targets] {
            let found = arc_degrees(n, ends, maximum).unwrap();
            let count = |u: usize| ends.iter().filter(|&&v| v as usize == u).count() as u32;
            prop_assert!((0..n).all(|u| found[u] == count(u).min(maximum)));
        }
        let graph = graph(n, &arcs);
        let found = degrees(&graph, maximum);
        prop_assert!((0..n).all(|u| found[u] == (graph.degree(u as u32) as u32).min(maximum)));
    }
}

#[test]
fn laplacians_too_large_are_refused() {
    let path: Vec<(u32, u32)> = (1..1000).map(|v| (v - 1, v)).collect();
    let encode = |n: usize, limit: u64| {
        let limit = MemoryLimit(limit);
        LaplacianEncoding::new(&graph(n, &path), Laplacian::Combinatorial, 3, 0, limit)
    };
    let error = encode(1000, 8_000_000).unwrap_err();
    assert!(error.is_memory());
    assert!(error.to_string().contains("component of 1000 nodes needs 7.7 MiB"), "{error}");
    // Only components count: more nodes apart are no more matrix.
    assert_eq!(encode(20_000, 10_000_000).unwrap().count, 3);
}

#[test]
fn wrong_arcs_are_refused() {
    let new = |sources: &[u32], targets: &[u32]| Walk::new(3, sources, targets, SelfLoops::Keep);
    let error = new(&[0, 1], &[1, 3]).unwrap_err();
    assert!(error.is_data());
    assert!(error.to_string().contains("pair 1 (1, 3) is out of range"), "{error}");
    assert!(new(&[0, 1], &[1]).unwrap_err().is_data());
}
