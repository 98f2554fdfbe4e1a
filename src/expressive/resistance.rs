//! Effective resistances, compared exactly.
//!
//! Take every edge as a resistor of one ohm. With M the inverse of the Laplacian of a component without the row and column
//! of one of its nodes (zeros there),
//!
//! R(u, v) = M_uu + M_vv − 2 M_uv = det L₋ᵤᵥ / det L₋ᵤ,
//!
//! a fraction of whole numbers: the spanning forests of two trees with u and v apart, over the spanning trees (Kirchhoff).
//! These outgrow any machine number, and rounded values can't be compared safely. So R is computed modulo
//! primes. Determinants of the Laplacian are at most H = ∏ deg (Hadamard), hence two different fractions a/b and c/d have
//! 0 < |ad − bc| < H², and primes whose product is larger can't all divide that: as soon as there are so many, residues are
//! equal if and only if the fractions are.
//!
//! A prime for which a pivot of any graph vanishes is passed over for all. Pivots are quotients of positive determinants, so
//! only finitely many do.
//!
//! Klein & Randić, "Resistance distance", Journal of Mathematical Chemistry 1993.
//!
//! * **Complexity**: O(n³) per prime, with Σ log₂ deg / 15 primes.
//! * **Determinism**: whole numbers only.

use rayon::prelude::*;

use crate::monitor::{Monitor, check};
use crate::{Graph, Partition, Result};

/// The value of pairs without a path; residues are smaller.
const UNREACHABLE: u32 = u32::MAX;

/// Primes lie between 2³⁰ and 2³¹, so that products fit 64 bits.
const PRIME_BITS: f64 = 30.0;

/// Hands on the resistances of all pairs of nodes of every graph modulo one prime after the other. Two pairs of nodes, in
/// any two of the graphs, have equal resistances if and only if all of these are equal.
pub(super) fn for_each_prime(
    graphs: &[&Graph],
    monitor: &dyn Monitor,
    mut tell: impl FnMut(Vec<Vec<u32>>),
) -> Result<()> {
    let components: Vec<Partition> = graphs.par_iter().map(|graph| graph.components()).collect();
    let bits = graphs.iter().map(|graph| bits(graph)).fold(0.0, f64::max);
    let mut needed = 1 + (2.0 * bits / PRIME_BITS) as usize;
    for prime in (1..1u64 << 31).rev().filter(|&number| is_prime(number)) {
        check(monitor)?;
        let pairs = graphs.par_iter().zip(&components);
        let residues = pairs.map(|(graph, components)| modulo(graph, components, prime));
        if let Some(residues) = residues.collect() {
            tell(residues);
            needed -= 1;
        }
        if needed == 0 {
            break;
        }
    }
    Ok(())
}

/// log₂ of a bound of all numerators and denominators.
fn bits(graph: &Graph) -> f64 {
    let degrees = (0..graph.num_nodes() as u32).map(|u| graph.degree(u).max(1) as f64);
    degrees.map(f64::log2).sum()
}

fn is_prime(number: u64) -> bool {
    number > 1 && (2..).take_while(|d| d * d <= number).all(|d| !number.is_multiple_of(d))
}

/// Resistances modulo `prime`; nothing if a pivot vanishes.
fn modulo(graph: &Graph, components: &Partition, prime: u64) -> Option<Vec<u32>> {
    let n = graph.num_nodes();
    let mut resistance = vec![UNREACHABLE; n * n];
    let members = components.members();
    for component in 0..components.num_clusters() as u32 {
        let nodes = members.of(component);
        let inverse = inverse(laplacian(graph, nodes, prime), prime)?;
        // The last node is the one left out: zeros.
        let inner = nodes.len() - 1;
        let at = |i: usize, j: usize| if i.max(j) < inner { inverse[i * inner + j] } else { 0 };
        for (i, &u) in nodes.iter().enumerate() {
            for (j, &v) in nodes.iter().enumerate() {
                let sum = at(i, i) + at(j, j) + 2 * (prime - at(i, j));
                resistance[u as usize * n + v as usize] = (sum % prime) as u32;
            }
        }
    }
    Some(resistance)
}

/// The Laplacian of a component without its last node.
fn laplacian(graph: &Graph, nodes: &[u32], prime: u64) -> Vec<u64> {
    let inner = nodes.len() - 1;
    let mut matrix = vec![0; inner * inner];
    for (i, &u) in nodes[..inner].iter().enumerate() {
        matrix[i * inner + i] = graph.degree(u) as u64;
        for v in graph.neighbors(u) {
            // Members of a component are sorted.
            let j = nodes.binary_search(v).expect("neighbours share a component");
            if j < inner {
                matrix[i * inner + j] = prime - 1;
            }
        }
    }
    matrix
}

/// The inverse of a square matrix in place, by Gauss and Jordan; nothing if a pivot vanishes.
fn inverse(mut matrix: Vec<u64>, prime: u64) -> Option<Vec<u64>> {
    let n = matrix.len().isqrt();
    let mut pivot_row = vec![0; n];
    for k in 0..n {
        let pivot = std::mem::replace(&mut matrix[k * n + k], 1);
        if pivot == 0 {
            return None;
        }
        let reciprocal = power(pivot, prime - 2, prime);
        for (slot, cell) in pivot_row.iter_mut().zip(&mut matrix[k * n..][..n]) {
            *cell = *cell * reciprocal % prime;
            *slot = *cell;
        }
        for (_, row) in matrix.chunks_exact_mut(n).enumerate().filter(|&(i, _)| i != k) {
            let factor = std::mem::take(&mut row[k]);
            if factor == 0 {
                continue;
            }
            for (cell, &of_pivot) in row.iter_mut().zip(&pivot_row) {
                *cell = (*cell + (prime - factor) * of_pivot) % prime;
            }
        }
    }
    Some(matrix)
}

fn power(mut base: u64, mut exponent: u64, prime: u64) -> u64 {
    let mut result = 1;
    while exponent > 0 {
        if exponent % 2 == 1 {
            result = result * base % prime;
        }
        base = base * base % prime;
        exponent /= 2;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::named::named;
    use crate::rng::Seed;

    const PRIME: u64 = (1 << 31) - 1;

    fn residues(graph: &Graph) -> Vec<u32> {
        modulo(graph, &graph.components(), PRIME).unwrap()
    }

    /// a / b modulo the prime.
    fn fraction(a: u64, b: u64) -> u32 {
        (a * power(b, PRIME - 2, PRIME) % PRIME) as u32
    }

    #[test]
    fn known_resistances() {
        // Series, parallel, and Foster: 2 / n between any two of n nodes joined to all.
        assert_eq!(residues(&named("path-4").unwrap())[3], 3);
        assert_eq!(residues(&named("cycles-5").unwrap())[2], fraction(6, 5));
        assert_eq!(residues(&named("complete-7").unwrap())[3], fraction(2, 7));
        let apart = residues(&named("cycles-3-3").unwrap());
        assert_eq!((apart[0], apart[1], apart[3]), (0, fraction(2, 3), UNREACHABLE));
    }

    #[test]
    fn edges_of_a_connected_graph_have_n_less_one_ohms_together() {
        // Foster's theorem.
        let mut stream = Seed(1).stream("test", 0, 0);
        for n in 2..40u32 {
            let mut pairs: Vec<(u32, u32)> =
                (1..n).map(|v| (stream.below(v.into()) as u32, v)).collect();
            pairs.extend((0..n).map(|u| (u, stream.below(n.into()) as u32)));
            let (graph, _) = Graph::from_pairs(n as usize, &pairs).unwrap();
            let found = residues(&graph);
            let of = |(u, v, _): (u32, u32, f32)| u64::from(found[(u * n + v) as usize]);
            assert_eq!(graph.edges().map(of).sum::<u64>() % PRIME, u64::from(n) - 1);
        }
    }

    #[test]
    fn there_are_enough_primes() {
        let graphs = [named("complete-20").unwrap(), named("path-20").unwrap()];
        let mut found = Vec::new();
        let graphs: Vec<&Graph> = graphs.iter().collect();
        for_each_prime(&graphs, &(), |column| found.push(column)).unwrap();
        // 19^20 is 85 bits, and 170 bits take six primes of 30.
        assert_eq!((found.len(), found[0].len(), found[0][0].len()), (6, 2, 400));
    }

    #[test]
    fn largest_primes() {
        let mut primes = (1..1u64 << 31).rev().filter(|&number| is_prime(number));
        assert_eq!(primes.next(), Some(PRIME));
        assert_eq!(primes.next(), Some(2_147_483_629));
    }
}
