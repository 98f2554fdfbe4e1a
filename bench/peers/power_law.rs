//! A large graph with planted communities, made from a seed: power-law degrees and community sizes,
//! random node ids, as in a degree-corrected block model.
//!
//! `power-law` has 612,257 nodes and 15.4 million edges, 39 % of them between communities.
//! `power-law:NODES` is alike in another size. Every node has a drawn number of stubs and lies in a
//! drawn community; an edge joins the node of a random stub to that of another one, in the same
//! community or anywhere.

use hdse::rng::{Seed, Stream};
use hdse::{Error, Graph, Partition, Result};

/// The input's name.
const NAME: &str = "power-law";
const NODES: usize = 612_257;
const MEAN_DEGREE: f64 = 50.3;
const DEGREE_EXPONENT: f64 = 2.5;
const NODES_PER_COMMUNITY: usize = 306;
const SIZE_EXPONENT: f64 = 2.0;
/// Largest over smallest community.
const SIZE_RATIO: f64 = 200.0;
/// The share of draws inside a community. More than the 61 % of edges that come out: there, more
/// pairs are drawn twice.
const INSIDE: f64 = 0.64;
/// Draws per edge that comes out.
const DRAWS: f64 = 1.085;

/// The graph and its communities, if `input` names it.
pub fn generate(input: &str) -> Result<Option<(Graph, Partition)>> {
    let (name, nodes) = input.split_once(':').unwrap_or((input, ""));
    if name != NAME {
        return Ok(None);
    }
    let nodes = match nodes {
        "" => Ok(NODES),
        text => text.parse().map_err(|_| Error::config(format!("`{text}` is no number of nodes"))),
    }?;
    let planted = Planted::draw(nodes);
    let (graph, _) = Graph::from_pairs(nodes, &planted.pairs())?;
    Ok(Some((graph, Partition::from_labels(&planted.community_of))))
}

struct Planted {
    community_of: Vec<u32>,
    /// Every node as often as its degree is expected to be, community after community.
    stubs: Vec<u32>,
    /// Where the stubs of every community begin, and the end of the last.
    begin: Vec<usize>,
}

impl Planted {
    fn draw(nodes: usize) -> Planted {
        let degrees = degrees(nodes);
        let community_of = communities(&degrees);
        let mut order: Vec<u32> = (0..nodes as u32).collect();
        order.sort_by_key(|&node| community_of[node as usize]);
        let (mut stubs, mut begin) = (Vec::new(), Vec::new());
        for &node in &order {
            // Communities that got no node begin where the next one does.
            begin.resize(community_of[node as usize] as usize + 1, stubs.len());
            stubs.extend(std::iter::repeat_n(node, degrees[node as usize]));
        }
        begin.push(stubs.len());
        Planted { community_of, stubs, begin }
    }

    fn pairs(&self) -> Vec<(u32, u32)> {
        let mut stream = Seed(0).stream(NAME, 0, 2);
        let count = (self.stubs.len() as f64 / 2.0 * DRAWS) as usize;
        let any = 0..self.stubs.len();
        let mut node = |range: std::ops::Range<usize>| {
            self.stubs[range.start + stream.below(range.len() as u64) as usize]
        };
        let mut inside = Seed(0).stream(NAME, 0, 3);
        let mut pair = |_| {
            let source = node(any.clone());
            let community = self.community_of[source as usize] as usize;
            let own = self.begin[community]..self.begin[community + 1];
            (source, node(if inside.unit() < INSIDE { own } else { any.clone() }))
        };
        (0..count).map(&mut pair).collect()
    }
}

/// Expected degrees.
fn degrees(nodes: usize) -> Vec<usize> {
    let mut stream = Seed(0).stream(NAME, 0, 0);
    // With this exponent, the mean is about three times the least.
    let ratio = 10.0 * (nodes as f64).sqrt() / (MEAN_DEGREE / 3.0);
    let raw: Vec<f64> =
        (0..nodes).map(|_| power_law(&mut stream, DEGREE_EXPONENT, ratio)).collect();
    let scale = MEAN_DEGREE * nodes as f64 / raw.iter().sum::<f64>();
    raw.into_iter().map(|degree| (degree * scale).round() as usize).collect()
}

/// The community of every node: a random one, large ones more often, but none that is too small for
/// the edges the node shall have inside.
fn communities(degrees: &[usize]) -> Vec<u32> {
    let mut stream = Seed(0).stream(NAME, 0, 1);
    let nodes = degrees.len();
    let count = (nodes / NODES_PER_COMMUNITY).max(1);
    let raw: Vec<f64> =
        (0..count).map(|_| power_law(&mut stream, SIZE_EXPONENT, SIZE_RATIO)).collect();
    let total: f64 = raw.iter().sum();
    let sizes: Vec<f64> = raw.iter().map(|size| size / total * nodes as f64).collect();
    let largest = sizes.iter().copied().fold(0.0, f64::max);
    let up_to: Vec<f64> = sizes
        .iter()
        .scan(0.0, |sum, size| {
            *sum += size;
            Some(*sum)
        })
        .collect();
    let mut draw = |degree: &usize| {
        let needed = (2.0 * INSIDE * *degree as f64).min(largest);
        loop {
            let at = stream.unit() * nodes as f64;
            let community = up_to.partition_point(|&end| end <= at).min(count - 1);
            if sizes[community] >= needed {
                return community as u32;
            }
        }
    };
    degrees.iter().map(&mut draw).collect()
}

/// A number between 1 and `ratio`, with density falling as x^−exponent.
fn power_law(stream: &mut Stream, exponent: f64, ratio: f64) -> f64 {
    let least = ratio.powf(1.0 - exponent);
    (least + (1.0 - least) * stream.unit()).powf(1.0 / (1.0 - exponent))
}
