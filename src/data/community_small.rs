//! `community-small`: 100 small graphs of two communities, made as in GraphRNN's "caveman_small".
//!
//! For each community size k = 6 … 10, twenty graphs: two cliques of k nodes, every edge kept with
//! probability 0.8, joined by ⌈0.1 k⌉ = 1 random edge between them; the largest component is kept.
//! The target of a node is its community.
//!
//! | graphs | nodes | edges | task |
//! |---|---|---|---|
//! | 100 | 12 to 20 | 47 on average | community of each node (2, exchangeable) |
//!
//! You, Ying, Ren, Hamilton & Leskovec, "GraphRNN", ICML 2018. Generated here, from a fixed seed, so
//! equal in distribution to published copies but not graph by graph.

use super::{Edges, Generated, Sample, Values};
use crate::rng::{Seed, Stream};
use crate::{Graph, Result};

pub(super) const ENTRY: Generated = Generated {
    name: "community-small",
    summary: "100 graphs of 12 to 20 nodes in two communities, generated",
    make,
};

fn make() -> Result<Vec<Sample>> {
    (0..100)
        .map(|i| sample(6 + i / 20, &mut Seed(0).stream("community-small", i.into(), 0)))
        .collect()
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
    let mut arcs: Vec<(u32, u32)> = graph.edges().flat_map(|(u, v, _)| [(u, v), (v, u)]).collect();
    arcs.sort_unstable();
    let (sources, targets) = arcs.into_iter().unzip();
    let mut sample = Sample::bare(Edges { sources, targets }, graph, Default::default());
    sample.y = Some(Values::Int(kept.iter().map(|&u| i64::from(u >= size)).collect()));
    Ok(sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_match_the_recipe() {
        let samples = make().unwrap();
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
}
