//! `community-small`: 100 small graphs of two communities, made as in GraphRNN's "caveman_small".
//!
//! For each community size k = 6 … 10, twenty graphs: two cliques of k nodes, every edge kept with
//! probability 0.8, joined by ⌈0.1 k⌉ = 1 random edge between them; the largest component is kept.
//! The target of a node is its community; its features are eight random numbers, which tell nodes apart
//! and say nothing of communities.
//!
//! | graphs | nodes | edges | task |
//! |---|---|---|---|
//! | 100 | 12 to 20 | 47 on average | community of each node (2, exchangeable) |
//!
//! The graphs are always the same ones. The seed draws the features and which 60 graphs are for training,
//! which 20 each for validation and test; inside a split they stay in order.
//!
//! The two communities are alike, so which one is called 0 can't be learned, and a model that does not see
//! the order of nodes gets half of them right on average. Accuracy means the better of the two ways to name
//! the communities of a graph.
//!
//! You, Ying, Ren, Hamilton & Leskovec, "GraphRNN", ICML 2018. Generated here, from a fixed seed, so
//! not equal to published copies graph by graph; these have fewer edges, and the label says so.

use super::{Columns, Entry, Generated, Level, Parts, Statistics, Target, Task};
use crate::data::{Matrix, Sample, Values, both_directions};
use crate::rng::{Seed, Stream};
use crate::{Error, Graph, Result};

/// Graphs there are.
const GRAPHS: usize = 100;

/// Random features of a node.
const FEATURES: usize = 8;

pub(super) const COMMUNITY_SMALL: Generated = Generated {
    entry: Entry {
        name: "community-small",
        folders: &[],
        summary: "100 graphs of 12 to 20 nodes in two communities, generated",
        task: Task { level: Level::Node, target: Target::Classes(2) },
        metric: "accuracy, the better of two namings per graph",
        nodes: Columns::Reals(FEATURES),
        arcs: Columns::None,
        published: Statistics { graphs: [60, 20, 20], mean_nodes: 15.28, mean_arcs: 70.30 },
        licence: "MIT",
        citation: "You et al., GraphRNN, ICML 2018",
        source: "https://github.com/JiaxuanYou/graph-generation",
        generated: true,
    },
    graphs: [60, 20, 20],
    make,
};

fn make(seed: Seed, graphs: [usize; 3]) -> Result<Parts> {
    let wanted = graphs.iter().fold(0usize, |sum, &count| sum.saturating_add(count));
    if wanted > GRAPHS {
        return Err(Error::config(format!("{wanted} graphs are asked for; it has {GRAPHS}")));
    }
    let mut order: Vec<usize> = (0..GRAPHS).collect();
    seed.stream("community-split", 0, 0).shuffle(&mut order);
    let mut parts = [Vec::new(), Vec::new(), Vec::new()];
    let mut rest = &mut order[..];
    for (part, count) in parts.iter_mut().zip(graphs) {
        let (chosen, others) = rest.split_at_mut(count);
        chosen.sort_unstable();
        *part = chosen.iter().map(|&i| featured(seed, i as u32)).collect::<Result<_>>()?;
        rest = others;
    }
    Ok(parts)
}

/// Graph `index` with features of the seed.
fn featured(seed: Seed, index: u32) -> Result<Sample> {
    let graph_stream = &mut Seed(0).stream("community-small", index.into(), 0);
    let mut sample = sample(6 + index / 20, graph_stream)?;
    let stream = &mut seed.stream("community-nodes", index.into(), 0);
    let count = sample.graph.num_nodes() * FEATURES;
    // From −1 to 1; uniform, because logarithms are not the same on all platforms.
    let values = (0..count).map(|_| (2.0 * stream.unit() - 1.0) as f32).collect();
    sample.node_feat = Some(Matrix { width: FEATURES, values: Values::Float(values) });
    Ok(sample)
}

fn sample(size: u32, stream: &mut Stream) -> Result<Sample> {
    let mut pairs = Vec::new();
    for base in [0, size] {
        for u in 0..size {
            for v in 0..u {
                if stream.unit() < 0.8 {
                    pairs.push((base + v, base + u));
                }
            }
        }
    }
    for _ in 0..size.div_ceil(10) {
        let (u, v) = (stream.below(size.into()) as u32, stream.below(size.into()) as u32);
        pairs.push((u, size + v));
    }
    let (whole, _) = Graph::from_pairs(2 * size as usize, &pairs)?;
    let components = whole.components();
    let sizes = components.sizes();
    let largest = (0..sizes.len()).rev().max_by_key(|&c| sizes[c]).unwrap_or(0) as u32;
    let members = components.members();
    let kept = members.of(largest);
    let graph = whole.induced(kept)?;
    let mut sample = Sample::bare(both_directions(&graph), graph, Default::default());
    sample.y = Some(Values::Int(kept.iter().map(|&u| i64::from(u >= size)).collect()));
    Ok(sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_match_the_recipe() {
        let samples = make(Seed(0), [60, 20, 20]).unwrap().concat();
        assert_eq!(samples.len(), 100);
        let nodes: usize = samples.iter().map(|s| s.graph.num_nodes()).sum();
        let edges: usize = samples.iter().map(|s| s.graph.num_edges()).sum();
        // Expected: 16 nodes less a few cut off, 0.8 k (k − 1) + 1 edges, 47.4 on average.
        assert!((1590..=1600).contains(&nodes), "{nodes}");
        assert!((4600..=4900).contains(&edges), "{edges}");
        for sample in &samples {
            assert_eq!(sample.graph.components().num_clusters(), 1);
            assert_eq!(sample.y.as_ref().unwrap().len(), sample.graph.num_nodes());
        }
    }
    #[test]
    fn seeds_draw_splits_of_the_same_graphs() {
        let sorted = |seed| {
            let mut arcs: Vec<_> = make(Seed(seed), [60, 20, 20]).unwrap().concat();
            arcs.sort_by_key(|sample| sample.edges.sources.clone());
            arcs.into_iter().map(|sample| sample.edges).collect::<Vec<_>>()
        };
        assert_eq!(sorted(0), sorted(1));
        let train = |seed| make(Seed(seed), [60, 20, 20]).unwrap()[0].clone();
        assert!(train(0).iter().zip(train(1)).any(|(a, b)| a.edges != b.edges));
        assert!(make(Seed(0), [60, 20, 21]).is_err());
        assert!(make(Seed(0), [usize::MAX, 1, 1]).is_err());
    }
}
