//! Effective resistances, compared exactly.
//!
//! Take every edge as a resistor of one ohm. A current between two nodes passes the nodes where blocks of the graph meet (a *block*
//! is a piece that no single node holds together), so resistances of blocks on the way add up. In a block, with M the
//! inverse of its Laplacian without the row and column of one of its nodes (zeros there),
//!
//! R(u, v) = M_uu + M_vv − 2 M_uv = det L₋ᵤᵥ / det L₋ᵤ,
//!
//! a fraction of whole numbers: the spanning forests of two trees with u and v apart, over the spanning trees (Kirchhoff).
//! These outgrow any machine number, and rounded values can't be compared safely. So R is computed modulo
//! primes. The denominator of any R in a graph divides the product of its blocks' det L₋ᵤ, which is at most that of its
//! diagonals, H (Hadamard); and R is less than the number of nodes, n. Hence two different fractions a/b and c/d with these
//! denominators have 0 < |ad − bc| < n H², and primes whose product is larger can't all divide that: as soon as there are so many,
//! residues are equal if and only if the fractions are.
//!
//! A prime for which a pivot of any graph vanishes is passed over for all. Pivots are quotients of positive determinants, so
//! only finitely many do.
//!
//! Klein & Randić, "Resistance distance", Journal of Mathematical Chemistry 1993. Blocks: Hopcroft & Tarjan, "Efficient
//! algorithms for graph manipulation", 1973.
//!
//! * **Complexity**: O(n² + Σ b³) per prime, b the sizes of blocks, with log₂ (n H²) / 30 primes: two of them for a molecule.
//! * **Determinism**: whole numbers only.

use rayon::prelude::*;

use crate::monitor::{Monitor, check};
use crate::{Graph, Result};

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
    let circuits: Vec<Circuit> = graphs.par_iter().map(|graph| Circuit::new(graph)).collect();
    let largest = circuits.iter().map(Circuit::bits).fold(0.0, f64::max);
    let nodes = circuits.iter().map(|circuit| circuit.nodes).max().unwrap_or(0);
    let mut needed = 1 + ((2.0 * largest + (nodes.max(1) as f64).log2()) / PRIME_BITS) as usize;
    for prime in (1..1u64 << 31).rev().filter(|&number| is_prime(number)) {
        check(monitor)?;
        let residues = circuits.par_iter().map(|circuit| circuit.modulo(prime));
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

/// A graph in blocks.
struct Circuit {
    nodes: usize,
    /// Each hangs on those before it by its first node alone, or begins another component.
    blocks: Vec<Block>,
}

/// A maximal piece that no single node holds together: a bridge, a ring, rings that share edges.
struct Block {
    nodes: Vec<u32>,
    /// Edges as places of their ends in `nodes`, from each end but the first node.
    arcs: Vec<(usize, usize)>,
}

impl Circuit {
    fn new(graph: &Graph) -> Circuit {
        let nodes = graph.num_nodes();
        let mut place = vec![usize::MAX; nodes];
        let block = |nodes: Vec<u32>| {
            nodes.iter().enumerate().for_each(|(at, &u)| place[u as usize] = at);
            let within = |&v: &u32| Some(place[v as usize]).filter(|&at| at != usize::MAX);
            let arcs_of = |(at, &u): (usize, &u32)| {
                graph.neighbors(u).iter().filter_map(within).map(move |other| (at, other))
            };
            let arcs = nodes.iter().enumerate().skip(1).flat_map(arcs_of).collect();
            nodes.iter().for_each(|&u| place[u as usize] = usize::MAX);
            Block { nodes, arcs }
        };
        Circuit { nodes, blocks: blocks(graph).into_iter().map(block).collect() }
    }

    /// log₂ of a bound of all denominators.
    fn bits(&self) -> f64 {
        let of_block = |block: &Block| -> f64 {
            let mut degrees = vec![0u32; block.nodes.len()];
            block.arcs.iter().for_each(|&(at, _)| degrees[at] += 1);
            degrees[1..].iter().map(|&degree| f64::from(degree).log2()).sum()
        };
        self.blocks.iter().map(of_block).sum()
    }

    /// Resistances modulo `prime`; nothing if a pivot vanishes.
    fn modulo(&self, prime: u64) -> Option<Vec<u32>> {
        let n = self.nodes;
        let mut resistance = vec![UNREACHABLE; n * n];
        (0..n).for_each(|u| resistance[u * n + u] = 0);
        // Nodes of this component so far.
        let mut reached: Vec<usize> = Vec::new();
        for Block { nodes, arcs } in &self.blocks {
            let (first, others) = (nodes[0] as usize, &nodes[1..]);
            let is_known = |root: &usize| resistance[root * n + first] != UNREACHABLE;
            if !reached.first().is_some_and(is_known) {
                reached = vec![first];
            }
            let to_first: Vec<u64> =
                reached.iter().map(|w| resistance[w * n + first].into()).collect();
            let inner = others.len();
            let mut laplacian = vec![0; inner * inner];
            for &(at, other) in arcs {
                laplacian[(at - 1) * inner + at - 1] += 1;
                if other > 0 {
                    laplacian[(at - 1) * inner + other - 1] = prime - 1;
                }
            }
            let inverse = inverse(laplacian, prime)?;
            let mut put = |u: usize, v: usize, sum: u64| {
                let residue = (sum % prime) as u32;
                (resistance[u * n + v], resistance[v * n + u]) = (residue, residue);
            };
            for (i, &u) in others.iter().enumerate() {
                let own = inverse[i * inner + i];
                for (j, &v) in others[..i].iter().enumerate() {
                    let shared = prime - inverse[i * inner + j];
                    put(u as usize, v as usize, own + inverse[j * inner + j] + 2 * shared);
                }
                for (&w, &before) in reached.iter().zip(&to_first) {
                    put(u as usize, w, own + before);
                }
            }
            reached.extend(others.iter().map(|&u| u as usize));
        }
        Some(resistance)
    }
}

/// The nodes of every block, each after those that its first node is in, by one depth-first walk.
fn blocks(graph: &Graph) -> Vec<Vec<u32>> {
    const NEW: u32 = u32::MAX;
    let n = graph.num_nodes();
    // When a node was reached, and the earliest that it or what was reached from it is joined to.
    let (mut time, mut low) = (vec![NEW; n], vec![NEW; n]);
    let mut path: Vec<(u32, usize)> = Vec::new();
    let mut open: Vec<u32> = Vec::new();
    let mut blocks = Vec::new();
    let mut now = 0;
    for root in 0..n as u32 {
        if time[root as usize] == NEW {
            path.push((root, 0));
        }
        while let Some((u, next)) = path.last_mut() {
            let at = *u as usize;
            if time[at] == NEW {
                (time[at], low[at]) = (now, now);
                now += 1;
            }
            if let Some(&v) = graph.neighbors(*u).get(*next) {
                *next += 1;
                if time[v as usize] == NEW {
                    open.push(v);
                    path.push((v, 0));
                } else {
                    low[at] = low[at].min(time[v as usize]);
                }
                continue;
            }
            path.pop();
            let Some(&(parent, _)) = path.last() else { break };
            let above = parent as usize;
            low[above] = low[above].min(low[at]);
            if low[at] >= time[above] {
                // What was reached since hangs on the parent alone.
                let start = open.iter().rposition(|&v| v as usize == at).expect("it is open");
                let mut nodes = vec![parent];
                nodes.extend(open.drain(start..));
                blocks.push(nodes);
            }
        }
    }
    blocks.reverse();
    blocks
}

fn is_prime(number: u64) -> bool {
    number > 1 && (2..).take_while(|d| d * d <= number).all(|d| !number.is_multiple_of(d))
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
        Circuit::new(graph).modulo(PRIME).unwrap()
    }

    /// By one matrix for each component.
    fn plain(graph: &Graph) -> Vec<u32> {
        let n = graph.num_nodes();
        let mut resistance = vec![UNREACHABLE; n * n];
        let components = graph.components();
        let members = components.members();
        for component in 0..components.num_clusters() as u32 {
            let nodes = members.of(component);
            let inner = nodes.len() - 1;
            let mut laplacian = vec![0; inner * inner];
            for (i, &u) in nodes[..inner].iter().enumerate() {
                laplacian[i * inner + i] = graph.degree(u) as u64;
                for v in graph.neighbors(u) {
                    let j = nodes.binary_search(v).unwrap();
                    if j < inner {
                        laplacian[i * inner + j] = PRIME - 1;
                    }
                }
            }
            let inverse = inverse(laplacian, PRIME).unwrap();
            let at = |i: usize, j: usize| if i.max(j) < inner { inverse[i * inner + j] } else { 0 };
            for (i, &u) in nodes.iter().enumerate() {
                for (j, &v) in nodes.iter().enumerate() {
                    let sum = at(i, i) + at(j, j) + 2 * (PRIME - at(i, j));
                    resistance[u as usize * n + v as usize] = (sum % PRIME) as u32;
                }
            }
        }
        resistance
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
    fn blocks_add_up() {
        let mut stream = Seed(2).stream("test", 0, 0);
        for n in 1..60u32 {
            // From forests of many pieces to one dense block.
            let pairs: Vec<(u32, u32)> = (0..n * (n % 7) / 3)
                .map(|_| (stream.below(n.into()) as u32, stream.below(n.into()) as u32))
                .collect();
            let (graph, _) = Graph::from_pairs(n as usize, &pairs).unwrap();
            assert_eq!(residues(&graph), plain(&graph), "{pairs:?}");
            let circuit = Circuit::new(&graph);
            let edges: usize = circuit
                .blocks
                .iter()
                .map(|block| {
                    let of_first = block.arcs.iter().filter(|(_, other)| *other == 0).count();
                    (block.arcs.len() + of_first) / 2
                })
                .sum();
            assert_eq!(edges, graph.edges().count(), "every edge is in one block");
        }
    }

    #[test]
    fn bounds_are_those_of_blocks() {
        // A tree has one spanning tree; rings of five and three have fifteen, and bounds of 2^4 and 2^2.
        let tree: Vec<(u32, u32)> = (1..50).map(|v| (v / 3, v)).collect();
        let (tree, _) = Graph::from_pairs(50, &tree).unwrap();
        assert_eq!(Circuit::new(&tree).bits(), 0.0);
        let rings = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 5), (5, 6), (6, 0), (6, 7)];
        let (rings, _) = Graph::from_pairs(8, &rings).unwrap();
        assert_eq!(Circuit::new(&rings).bits(), 6.0);
        // 6/5 to the node of both rings, 2/3 to the bridge, 1.
        assert_eq!(residues(&rings)[2 * 8 + 7], fraction(43, 15));
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
