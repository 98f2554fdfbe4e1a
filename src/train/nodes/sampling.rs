//! Sampled neighbourhoods: for a target, a few of the nodes whose messages reach it, step by step.
//!
//! ```text
//! S_0 = {t}      S_k = S_{k−1} ∪ {of every node of S_{k−1}, up to size_k of the nodes that have an arc to it}
//! ```
//!
//! Neighbours are drawn without replacement, all of them where there are no more than asked for. A node counts once, with the step in which it
//! came in as its hop; like in the released code, a step draws for all nodes so far, so a neighbour of the target may come in late.
//! Arcs are those of messages, repeated ones once.
//!
//! Draws follow seed, epoch and target, whatever else is in the batch, and neighbours are in the order of their ids: neither batches nor clusters
//! nor threads change a sample. Evaluation draws, too, with a seed of its own that is always the same. To take all neighbours instead would be
//! another model than was trained, one that sees hundreds of nodes at a hop, and of a hub it would see most of the graph.

use super::rows::Rows;
use crate::Graph;
use crate::data::Edges;
use crate::nn::{Sampled, Samples};
use crate::rng::{Seed, Stream};

/// What draws follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// Anew in every epoch.
    Train(Seed, u64),
    /// Always the same.
    Eval,
}

impl Draw {
    fn stream(self, node: u32) -> Stream {
        match self {
            Draw::Train(seed, epoch) => seed.stream("sample", epoch, node.into()),
            Draw::Eval => Seed(0).stream("sample-eval", 0, node.into()),
        }
    }
}

/// Where messages come from, by node, and how many are sampled.
#[derive(Clone, Debug)]
pub struct Sampler {
    offsets: Vec<usize>,
    sources: Vec<u32>,
    sizes: Vec<usize>,
}

/// Targets and what they attend to: rows of the graph, targets first.
#[derive(Clone, Debug)]
pub struct Neighbourhood {
    /// Rows of the graph.
    pub rows: Vec<u32>,
    /// The pairs, by position among the rows.
    pub samples: std::sync::Arc<Samples>,
}

impl Sampler {
    /// Samples along both directions of every edge.
    pub fn undirected(graph: &Graph, sizes: &[usize]) -> Sampler {
        let nodes = 0..graph.num_nodes() as u32;
        let arcs = nodes.flat_map(|node| graph.neighbors(node).iter().map(move |&u| (node, u)));
        Sampler::new(graph.num_nodes(), arcs.collect(), sizes)
    }

    /// Samples against the direction of arcs: who sends to a node.
    pub fn directed(nodes: usize, edges: &Edges, sizes: &[usize]) -> Sampler {
        let arcs = edges.targets.iter().copied().zip(edges.sources.iter().copied());
        Sampler::new(nodes, arcs.collect(), sizes)
    }

    /// By pairs of a node and one that sends to it.
    fn new(nodes: usize, mut arcs: Vec<(u32, u32)>, sizes: &[usize]) -> Sampler {
        arcs.sort_unstable();
        arcs.dedup();
        let mut offsets = vec![0; nodes + 1];
        arcs.iter().for_each(|&(node, _)| offsets[node as usize + 1] += 1);
        for node in 0..nodes {
            offsets[node + 1] += offsets[node];
        }
        let sources = arcs.into_iter().map(|(_, source)| source).collect();
        Sampler { offsets, sources, sizes: sizes.to_vec() }
    }

    fn senders(&self, node: u32) -> &[u32] {
        &self.sources[self.offsets[node as usize]..self.offsets[node as usize + 1]]
    }

    /// The nodes that are sampled for `target`, itself first, with their hops.
    pub fn sample(&self, target: u32, draw: Draw) -> Vec<(u32, u32)> {
        self.sample_with(target, draw, &mut Marks::new(self.offsets.len() - 1))
    }

    fn sample_with(&self, target: u32, draw: Draw, marks: &mut Marks) -> Vec<(u32, u32)> {
        let mut stream = draw.stream(target);
        marks.clear();
        marks.set(target);
        let mut found = vec![(target, 0)];
        let mut drawn = Vec::new();
        for (hop, &size) in (1..).zip(&self.sizes) {
            for place in 0..found.len() {
                let senders = self.senders(found[place].0);
                choose(senders.len(), size, &mut stream, &mut drawn);
                for &sender in drawn.iter().map(|&number| &senders[number]) {
                    if marks.set(sender) {
                        found.push((sender, hop));
                    }
                }
            }
        }
        found
    }

    /// The neighbourhoods of the nodes of these rows.
    pub fn around(&self, rows: &Rows, targets: &[u32], draw: Draw) -> Neighbourhood {
        const NOWHERE: u32 = u32::MAX;
        let mut marks = Marks::new(rows.len());
        let mut place = vec![NOWHERE; rows.len()];
        for (position, &row) in (0..).zip(targets) {
            place[row as usize] = position;
        }
        let mut pairs = Vec::new();
        let mut others = Vec::new();
        for (target, &row) in (0..).zip(targets) {
            for (node, hop) in self.sample_with(rows.nodes()[row as usize], draw, &mut marks) {
                let row = rows.row(node);
                pairs.push(Sampled { target, row, hop });
                if place[row as usize] == NOWHERE {
                    place[row as usize] = 0;
                    others.push(row);
                }
            }
        }
        others.sort_unstable();
        for (position, &row) in (targets.len() as u32..).zip(&others) {
            place[row as usize] = position;
        }
        pairs.iter_mut().for_each(|pair| pair.row = place[pair.row as usize]);
        let all = [targets, &others].concat();
        let samples = Samples::new([targets.len(), all.len(), self.sizes.len()], pairs);
        Neighbourhood { rows: all, samples: samples.into() }
    }
}

/// `size` of the numbers below `count`, each at most once, or all (Floyd's way: Bentley 1987).
fn choose(count: usize, size: usize, stream: &mut Stream, chosen: &mut Vec<usize>) {
    chosen.clear();
    if count <= size {
        chosen.extend(0..count);
        return;
    }
    for last in count - size..count {
        let number = stream.below(last as u64 + 1) as usize;
        chosen.push(if chosen.contains(&number) { last } else { number });
    }
}

/// Which nodes are there, forgotten without going over them.
struct Marks {
    turn: u32,
    of_node: Vec<u32>,
}

impl Marks {
    fn new(nodes: usize) -> Marks {
        Marks { turn: 0, of_node: vec![0; nodes] }
    }

    fn clear(&mut self) {
        self.turn += 1;
    }

    /// Whether the node was not there before.
    fn set(&mut self, node: u32) -> bool {
        std::mem::replace(&mut self.of_node[node as usize], self.turn) != self.turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arcs to node 0 from 1 to 30, to each of these from two of 31 to 90, and a repeated one; 91 is alone.
    fn tree() -> Sampler {
        let mut edges = Edges { sources: vec![5], targets: vec![0] };
        for child in 1..=30 {
            edges.sources.extend([child, 29 + 2 * child, 30 + 2 * child]);
            edges.targets.extend([0, child, child]);
        }
        Sampler::directed(92, &edges, &[20, 2])
    }

    #[test]
    fn samples_go_against_arcs_and_have_their_sizes() {
        let sampler = tree();
        let draw = Draw::Train(Seed(1), 2);
        let found = sampler.sample(0, draw);
        assert_eq!(found[0], (0, 0));
        let of_hop = |hop: u32| -> Vec<u32> {
            found.iter().filter(|node| node.1 == hop).map(|node| node.0).collect()
        };
        let (near, far) = (of_hop(1), of_hop(2));
        assert_eq!(near.len(), 20);
        assert!(near.iter().all(|node| (1..=30).contains(node)));
        // Both senders of each of the twenty, and up to two more of the target.
        assert!((40..=42).contains(&far.len()), "{far:?}");
        for &node in far.iter().filter(|node| **node > 30) {
            assert!(near.contains(&((node - 29) / 2)), "{node} without its target");
        }
        let mut all: Vec<u32> = found.iter().map(|node| node.0).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), found.len(), "every node once");
        assert_eq!(sampler.sample(50, draw), [(50, 0)], "nothing is sent to a leaf");
        assert_eq!(sampler.sample(91, draw), [(91, 0)]);
        assert_eq!(found, sampler.sample(0, draw));
        assert_ne!(found, sampler.sample(0, Draw::Train(Seed(1), 3)));
        assert_ne!(found, sampler.sample(0, Draw::Train(Seed(2), 2)));
        assert_ne!(found, sampler.sample(0, Draw::Eval));
    }

    #[test]
    fn choices_are_distinct_and_uniform() {
        let mut stream = Seed(0).stream("test", 0, 0);
        let (mut counts, mut chosen) = ([0u32; 7], Vec::new());
        for _ in 0..21_000 {
            choose(7, 3, &mut stream, &mut chosen);
            chosen.iter().for_each(|&number| counts[number] += 1);
            assert!(chosen[0] != chosen[1] && chosen[1] != chosen[2] && chosen[0] != chosen[2]);
        }
        assert!(counts.iter().all(|count| (8_700..9_300).contains(count)), "{counts:?}");
        choose(3, 3, &mut stream, &mut chosen);
        assert_eq!(chosen, [0, 1, 2]);
    }

    #[test]
    fn neither_batches_nor_rows_change_a_sample() {
        let sampler = tree();
        let cluster_of: Vec<u32> = (0..92).map(|node| node % 5).collect();
        let seen = |rows: &Rows, targets: &[u32]| {
            let found = sampler.around(rows, targets, Draw::Eval);
            assert_eq!(found.rows[..targets.len()], *targets);
            let mut seen = Vec::new();
            for (target, &row) in targets.iter().enumerate() {
                let pairs = found.samples.by_target().rows(target).iter();
                let other = |&pair: &u32| {
                    let row = found.samples.by_row().of_row()[pair as usize];
                    let hop = found.samples.by_hop().of_row()[pair as usize];
                    (rows.nodes()[found.rows[row as usize] as usize], hop)
                };
                seen.push((rows.nodes()[row as usize], pairs.map(other).collect::<Vec<_>>()));
            }
            seen.sort();
            seen
        };
        let plain = Rows::new(92, None);
        let sorted = Rows::new(92, Some(&cluster_of));
        let some = |rows: &Rows, nodes: &[u32]| {
            let mut rows: Vec<u32> = nodes.iter().map(|&node| rows.row(node)).collect();
            rows.sort_unstable();
            rows
        };
        let expected = seen(&plain, &[0, 3, 40]);
        assert_eq!(expected, seen(&sorted, &some(&sorted, &[0, 3, 40])));
        assert_eq!(expected[0], seen(&plain, &[0])[0]);
        assert_eq!(expected[0].1, sampler.sample(0, Draw::Eval));
    }
}
