//! `metis`: k parts of nearly equal size with few edges between them, by the METIS library.
//!
//! METIS coarsens by matching heavy edges, cuts the small graph it arrives at, and refines on the way
//! back. `method=kway` cuts into k parts at once, `recursive` into two again and again: better on small graphs,
//! slower for large k. Coarser levels keep the number of edges between clusters as weights, and METIS cuts
//! few of these.
//!
//! METIS leaves parts empty when k is not far below n. An empty part takes half of the largest one, so that
//! there are always k, or n if that is less. Components are not kept apart.
//!
//! Karypis & Kumar, "A fast and high quality multilevel scheme for partitioning irregular graphs", SIAM
//! J. Sci. Comput. 20, 1998.
//!
//! * **Complexity**: O(m + k log k) in practice; some 40 bytes per entry of the neighbour lists.
//! * **Determinism**: METIS draws from the C library's `rand`, of which a process has one. A lock is
//!   held from seeding to result: graphs of a set are partitioned one after another, whatever the number of
//!   threads, and other C code that calls `rand` at that time changes the result. `rand` differs between platforms,
//!   so the same bytes are promised on one platform only.
//! * **Limits**: fewer than 2³¹ entries in the neighbour lists, that is 2³⁰ edges.
//!
//! ```
//! use hdse::coarsen::{self, Context};
//! use hdse::Graph;
//! let (graph, _) = Graph::from_pairs(6, &[(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3)])?;
//! let partition = coarsen::parse("metis:clusters=2")?.coarsen(&graph, &Context::default())?;
//! assert_eq!(partition.quality(&graph).cut, 1.0);
//! # Ok::<(), hdse::Error>(())
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use ::metis::{Idx, option};

use super::parts::{self, Parts};
use super::{Coarsener, Context, Entry, Parameter};
use crate::monitor::check;
use crate::{Error, Graph, Partition, Result};

/// METIS; see the [module documentation](self).
pub struct Metis {
    /// How many parts.
    pub parts: Parts,
    /// How they are made.
    pub method: Method,
    /// How much larger than the average a part may be: 0.03 for three percent.
    pub imbalance: f64,
    /// Partitions to make, of which the best is taken.
    pub tries: usize,
    /// Rounds of refinement at every level.
    pub rounds: usize,
}

impl Default for Metis {
    fn default() -> Self {
        let parts = Parts::default();
        Metis { parts, method: Method::Kway, imbalance: 0.03, tries: 1, rounds: 10 }
    }
}

/// How METIS makes parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// All at once.
    Kway,
    /// In two, again and again.
    Recursive,
}

impl FromStr for Method {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "kway" => Ok(Method::Kway),
            "recursive" => Ok(Method::Recursive),
            _ => Err(()),
        }
    }
}

impl Method {
    fn name(self) -> &'static str {
        match self {
            Method::Kway => "kway",
            Method::Recursive => "recursive",
        }
    }
}

pub(super) const ENTRY: Entry = Entry {
    name: "metis",
    summary: "k parts of nearly equal size with few edges between them, by the METIS library",
    citation: "Karypis & Kumar 1998",
    complexity: "O(m + k log k) in practice",
    nanoseconds: |n, m| 20_000.0 + 300.0 * n + 400.0 * m,
    bytes: |n, m| 40.0 * n + 90.0 * m,
    version: 1,
    parameters: &[
        parts::CLUSTERS,
        parts::RATIO,
        Parameter { name: "method", default: "kway", help: "kway or recursive" },
        Parameter {
            name: "imbalance",
            default: "0.03",
            help: "how much larger than the average a part may be, in [0.001, 1]",
        },
        Parameter { name: "tries", default: "1", help: "partitions to choose the best from" },
        Parameter { name: "rounds", default: "10", help: "rounds of refinement at every level" },
    ],
    make: |arguments| {
        let parts = Parts::take(arguments)?;
        let few = |count: &usize| (1..=1000).contains(count);
        let method = arguments.take("method", "kway or recursive")?.unwrap_or(Method::Kway);
        let share = |share: &f64| (0.001..=1.0).contains(share);
        let imbalance = arguments.take_or("imbalance", 0.03, "a number in [0.001, 1]", share)?;
        let tries = arguments.take_or("tries", 1, "a whole number from 1 to 1000", few)?;
        let rounds = arguments.take_or("rounds", 10, "a whole number from 1 to 1000", few)?;
        Ok(Box::new(Metis { parts, method, imbalance, tries, rounds }))
    },
};

/// Parts that METIS makes in one call, at most.
const AT_ONCE: usize = 8192;

/// Held from seeding the C library's generator until METIS has drawn the last number from it.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

impl Coarsener for Metis {
    fn coarsen(&self, graph: &Graph, context: &Context<'_>) -> Result<Partition> {
        let n = graph.num_nodes();
        let count = self.parts.count(n, context.level);
        if count == n {
            return Ok(Partition::singletons(n));
        }
        let mut labels = self.partition(graph, count, context)?;
        fill_empty_parts(graph, &mut labels, count);
        Ok(Partition::by_first_node(&labels))
    }

    fn describe(&self) -> String {
        let Metis { parts, method, imbalance, tries, rounds } = self;
        let mut text = format!("metis:{},method={}", parts.describe(), method.name());
        let defaults = Metis::default();
        if *imbalance != defaults.imbalance {
            text += &format!(",imbalance={imbalance}");
        }
        if *tries != defaults.tries {
            text += &format!(",tries={tries}");
        }
        if *rounds != defaults.rounds {
            text += &format!(",rounds={rounds}");
        }
        text
    }
}

impl Metis {
    /// `count` parts, some of them perhaps empty. Very many are made in two steps, which is faster, and METIS loses
    /// its way with shares of a millionth.
    fn partition(&self, graph: &Graph, count: usize, context: &Context<'_>) -> Result<Vec<u32>> {
        check(context.monitor)?;
        if count == 1 || graph.num_edges() == 0 {
            // Nothing to cut.
            let n = graph.num_nodes();
            return Ok((0..n).map(|node| (node * count / n) as u32).collect());
        }
        if count <= AT_ONCE {
            return self.call(graph, count, context);
        }
        let pieces = Partition::by_first_node(&self.call(graph, AT_ONCE, context)?);
        let members = pieces.members();
        let mut labels = vec![0; graph.num_nodes()];
        let (mut seen, mut first) = (0, 0);
        for piece in 0..pieces.num_clusters() as u32 {
            let nodes = members.of(piece);
            seen += nodes.len();
            // As many parts as there are nodes for so far, and one is left for every further piece.
            let spare = count - first - (pieces.num_clusters() - 1 - piece as usize);
            let share = (seen * count / graph.num_nodes()).saturating_sub(first);
            let parts = share.clamp(1, nodes.len().min(spare));
            let within = self.partition(&graph.induced(nodes)?, parts, context)?;
            for (&node, part) in nodes.iter().zip(within) {
                labels[node as usize] = first as u32 + part;
            }
            first += parts;
        }
        Ok(labels)
    }

    /// Hands the graph to METIS. [`Graph`] is symmetric and has no loops, without which METIS may
    /// crash; here sizes are checked, and weights become whole numbers whose sum fits.
    fn call(&self, graph: &Graph, count: usize, context: &Context<'_>) -> Result<Vec<u32>> {
        let entries = graph.targets().len();
        let fits = |number: usize| Idx::try_from(number).is_ok_and(|number| number < Idx::MAX);
        if !fits(entries) || !fits(graph.num_nodes()) {
            return Err(Error::data(format!(
                "METIS holds fewer than 2^31 neighbours, this graph has {entries}; \
                 take `label-propagation`, `louvain` or `leiden`"
            )));
        }
        let offsets: Vec<Idx> = graph.offsets().iter().map(|&offset| offset as Idx).collect();
        let targets: Vec<Idx> = graph.targets().iter().map(|&target| target as Idx).collect();
        let weights = graph.weights().map(whole_numbers);
        let mut labels: Vec<Idx> = vec![0; graph.num_nodes()];
        let seed = context.stream("metis").below(1 << 30) as Idx;

        let problem =
            |e: &dyn std::fmt::Display| Error::data(format!("METIS refuses the graph: {e}"));
        let input = ::metis::Graph::new(1, count as Idx, &offsets, &targets);
        let mut input = input
            .map_err(|e| problem(&e))?
            .set_option(option::Seed(seed))
            .set_option(option::NCuts(self.tries as Idx))
            .set_option(option::NIter(self.rounds as Idx))
            .set_option(option::UFactor(((self.imbalance * 1000.0).round() as Idx).max(1)));
        if let Some(weights) = &weights {
            input = input.set_adjwgt(weights);
        }
        let lock = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        match self.method {
            Method::Kway => input.part_kway(&mut labels),
            Method::Recursive => input.part_recursive(&mut labels),
        }
        .map_err(|e| problem(&e))?;
        drop(lock);
        Ok(labels.into_iter().map(|label| label as u32).collect())
    }
}

/// Weights as METIS wants them: at least 1, and small enough to add up. Whole numbers stay as they are if
/// they can.
fn whole_numbers(weights: &[f32]) -> Vec<Idx> {
    const MOST: f64 = (1 << 29) as f64;
    let total: f64 = weights.iter().map(|&w| f64::from(w)).sum();
    let largest = weights.iter().fold(0f32, |a, &b| a.max(b));
    let whole = weights.iter().all(|w| w.fract() == 0.0);
    let scale = match total {
        total if whole && total <= MOST => 1.0,
        total if total > 0.0 => (MOST / total).min(1000.0 / f64::from(largest)),
        _ => 1.0,
    };
    weights.iter().map(|&w| ((f64::from(w) * scale).round() as Idx).max(1)).collect()
}

/// Gives every empty part half of the part that is largest by then: the half that a breadth-first search
/// reaches first from the node with the fewest neighbours inside.
fn fill_empty_parts(graph: &Graph, labels: &mut [u32], count: usize) {
    let mut used = vec![false; count];
    labels.iter().for_each(|&label| used[label as usize] = true);
    if !used.contains(&false) {
        return;
    }
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); count];
    for (node, &label) in labels.iter().enumerate() {
        members[label as usize].push(node as u32);
    }
    let sizes = members.iter().map(Vec::len).enumerate();
    let mut heap: BinaryHeap<(usize, Reverse<usize>)> =
        sizes.map(|(part, size)| (size, Reverse(part))).collect();
    for empty in 0..count {
        if !members[empty].is_empty() {
            continue;
        }
        // The first of the largest; it has two nodes at least, for there are more nodes than parts.
        let Some((_, Reverse(largest))) = heap.pop() else { return };
        let inside = |node: u32, labels: &[u32]| {
            let near = graph.neighbors(node).iter();
            near.filter(|&&other| labels[other as usize] == largest as u32).count()
        };
        let mut order: Vec<u32> = Vec::new();
        let half = members[largest].len() / 2;
        let start =
            members[largest].iter().copied().min_by_key(|&node| (inside(node, labels), node));
        let mut waiting: std::collections::VecDeque<u32> = start.into_iter().collect();
        while order.len() < half {
            let next = waiting.pop_front().or_else(|| {
                members[largest].iter().copied().find(|&n| labels[n as usize] == largest as u32)
            });
            let Some(node) = next else { break };
            if labels[node as usize] != largest as u32 {
                continue;
            }
            labels[node as usize] = empty as u32;
            order.push(node);
            waiting.extend(graph.neighbors(node));
        }
        members[largest].retain(|&node| labels[node as usize] == largest as u32);
        members[empty] = order;
        heap.push((members[largest].len(), Reverse(largest)));
        heap.push((members[empty].len(), Reverse(empty)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coarsen::parse;

    fn ring(n: u32) -> Graph {
        let edges: Vec<(u32, u32)> = (0..n).map(|u| (u, (u + 1) % n)).collect();
        Graph::from_pairs(n as usize, &edges).unwrap().0
    }

    #[test]
    fn as_many_parts_as_were_asked_for() {
        for n in 3..40 {
            let graph = ring(n);
            for k in 1..=n as usize + 2 {
                for method in ["kway", "recursive"] {
                    let spec = format!("metis:clusters={k},method={method}");
                    let found = parse(&spec).unwrap().coarsen(&graph, &Context::default()).unwrap();
                    assert_eq!(found.num_clusters(), k.min(n as usize), "{spec} of {n} nodes");
                }
            }
        }
    }

    #[test]
    fn very_many_parts_are_made_in_two_steps() {
        let graph = ring(40_000);
        let found =
            parse("metis:clusters=10000").unwrap().coarsen(&graph, &Context::default()).unwrap();
        assert_eq!(found.num_clusters(), 10_000);
        assert!(found.quality(&graph).imbalance < 4.0);
    }

    #[test]
    fn parts_are_nearly_equal() {
        let found = parse("metis:clusters=10,method=recursive").unwrap();
        let graph = ring(1000);
        let quality = found.coarsen(&graph, &Context::default()).unwrap().quality(&graph);
        assert!(quality.imbalance <= 1.031, "{quality:?}");
        assert!(quality.cut <= 12.0, "{quality:?}");
    }

    #[test]
    fn weights_become_whole_numbers_that_add_up() {
        assert_eq!(whole_numbers(&[1.0, 3.0]), [1, 3]);
        assert_eq!(whole_numbers(&[0.0, 0.5, 1.0]), [1, 500, 1000]);
        let huge = whole_numbers(&[f32::MAX, 1.0, f32::MAX]);
        assert!(huge.iter().map(|&w| i64::from(w)).sum::<i64>() < 1 << 30);
        assert!(huge.iter().all(|&w| w >= 1));
    }

    #[test]
    fn empty_parts_take_half_of_the_largest() {
        let graph = ring(8);
        let mut labels = vec![0; 8];
        fill_empty_parts(&graph, &mut labels, 4);
        let partition = Partition::new(labels).unwrap();
        assert_eq!(partition.sizes(), [2, 2, 2, 2].map(|s| s as u32));
    }

    #[test]
    fn heavy_edges_are_kept() {
        // A path whose middle edge is the only light one.
        let pairs: Vec<(u32, u32)> = (0..7).map(|u| (u, u + 1)).collect();
        let weights: Vec<f32> = (0..7).map(|u| if u == 3 { 1.0 } else { 50.0 }).collect();
        let (graph, _) = Graph::from_weighted_pairs(8, &pairs, &weights).unwrap();
        let found =
            parse("metis:clusters=2").unwrap().coarsen(&graph, &Context::default()).unwrap();
        assert_eq!(found.quality(&graph).cut, 1.0);
    }
}
