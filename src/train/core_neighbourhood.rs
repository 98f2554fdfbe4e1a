//! The problem that the paper's third proposition is about, and the network that it is about.
//!
//! Nodes of a graph have features, some of which speak for a class. The label of node i is what most such features say in its
//! *hierarchical core neighbourhood* {j : D_ij = D*}; how many more there are is the *winning margin*. The network has one
//! layer, and a number for every distance,
//!
//! ```text
//! F(h_n) = relu(Σ_u softmax_u(b[D_nu] + h_n W_Q (h_u W_K)ᵀ / √d) h_u W_V W_O) · a
//! ```
//!
//! trained on some labels by stochastic gradient descent on the hinge loss max(0, 1 − y F). Given hop distances alone, it sees
//! nodes of D* only together with others as many hops away, whose features have nothing to do with the label.
//!
//! The graph is a planted partition, whose communities are the clusters of level 1. Nodes whose margin is below the one asked
//! for have no label; they are there for the others. Noise is uniform, since logarithms are not the same everywhere.
//!
//! Luo et al. 2024, proposition 3 and its companion; Li et al., "What improves the generalization of graph transformers?", 2024,
//! for the network and what is known of it with hop distances.

use burn::tensor::{Tensor, activation};

use crate::distance::{Codes, Distances, MaxDistance};
use crate::nn::{Builder, Groups, Init, Parameters, Pass, gather, matrix, values};
use crate::rng::{Seed, Stream};
use crate::{Error, Graph, Hierarchy, MemoryLimit, Partition, Result};

/// Nodes of a community.
const COMMUNITY: usize = 25;
/// Edges of a node inside its community and outside of it, on average.
const DEGREES: [f64; 2] = [6.0, 2.0];
/// Features there are; the first two speak for a class.
const FEATURES: usize = 6;
/// D*: two hops away, in the same cluster.
const CORE: [u8; 2] = [2, 0];
/// Widths of queries, keys and values, and of what follows.
const WIDTH: usize = 16;
const HIDDEN: usize = 32;
/// Steps, nodes in each, and the learning rate, for which the proposition wants less than 1.
const STEPS: u64 = 1_500;
const BATCH: usize = 32;
const RATE: f32 = 0.9;

/// What a problem is made by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Nodes of the graph, in communities of 25.
    pub nodes: usize,
    /// Labels that are known.
    pub labels: usize,
    /// Winning margin of nodes with a label, at least.
    pub margin: i32,
    /// Standard deviation of the noise on every number of a feature.
    pub noise: f64,
}

/// A graph with features and labels.
#[derive(Debug)]
pub struct Problem {
    features: Vec<f32>,
    /// One for each pair of nodes, row by row.
    codes: Codes,
    votes: Vec<i32>,
    votes_by_hops: Vec<i32>,
    /// Nodes with a label: known ones first.
    labelled: Vec<usize>,
    known: usize,
    /// Nodes in a core neighbourhood, on average.
    pub core: f64,
    /// Nodes as many hops away, on average.
    pub hops: f64,
}

/// What the network is given of distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// Distances of both levels; b starts at minus their sum, so that near nodes count more.
    Hdse,
    /// The same, but b starts at 0.
    HdseFromZero,
    /// Hop distances.
    Spd,
    /// Nothing.
    None,
    /// Nothing, but which nodes are in the core neighbourhood: attention is over these.
    Core,
}

impl Given {
    /// Every way.
    pub const ALL: [Given; 5] =
        [Given::Core, Given::None, Given::Spd, Given::HdseFromZero, Given::Hdse];

    /// As tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Given::Hdse => "HDSE",
            Given::HdseFromZero => "HDSE, b from 0",
            Given::Spd => "SPD",
            Given::None => "no distances",
            Given::Core => "core neighbourhood alone",
        }
    }
}

impl Problem {
    /// The problem of a seed.
    ///
    /// # Errors
    /// If too few nodes have such a margin, no label is to be known, or distances do not fit into memory.
    pub fn new(setting: &Setting, seed: Seed, limit: MemoryLimit) -> Result<Problem> {
        let Setting { nodes, labels, margin, noise } = *setting;
        if labels == 0 {
            return Err(Error::config(
                "without known labels there is nothing to learn from; take some",
            ));
        }
        limit.check(
            (nodes as u128).pow(2) * 8,
            &format!("distances between {nodes} nodes"),
            "take fewer nodes, or raise the limit",
        )?;
        let community = |node: usize| node / COMMUNITY;
        let graph = planted(nodes, &mut seed.stream("core-graph", 0, 0))?;
        let clusters: Vec<usize> = (0..nodes).map(community).collect();
        let partition = Partition::from_labels(&clusters);
        let hierarchy = Hierarchy::from_partitions(&graph, vec![partition])?;
        let distances = Distances::new(&graph, &hierarchy, &MaxDistance::default(), limit)?;
        let codes = Codes::new(&distances);

        let stream = &mut seed.stream("core-features", 0, 0);
        let kinds: Vec<usize> = (0..nodes).map(|_| kind(stream)).collect();
        let spread = noise * 3f64.sqrt();
        let features = kinds.iter().flat_map(|&kind| (0..FEATURES).map(move |i| i == kind));
        let features = features.map(|is_own| {
            (f64::from(u8::from(is_own)) + spread * (2.0 * stream.unit() - 1.0)) as f32
        });
        let features = features.collect();

        let book = codes.codebook();
        let is_core: Vec<bool> = (0..book.len() as u32).map(|c| book.row(c) == CORE).collect();
        let is_near: Vec<bool> =
            (0..book.len() as u32).map(|c| book.row(c)[0] == CORE[0]).collect();
        let speaks = |node: usize| [1, -1].get(kinds[node]).copied().unwrap_or(0);
        let count = |chosen: &[bool], of: &dyn Fn(usize) -> i32| -> Vec<i32> {
            let is_chosen = |i: usize, j: usize| chosen[codes.get(i * nodes + j) as usize];
            let row = |i: usize| (0..nodes).filter(|&j| is_chosen(i, j)).map(of).sum();
            (0..nodes).map(row).collect()
        };
        let votes = count(&is_core, &speaks);
        let mean = |counts: Vec<i32>| counts.iter().sum::<i32>() as f64 / nodes as f64;
        let (core, hops) = (mean(count(&is_core, &|_| 1)), mean(count(&is_near, &|_| 1)));
        let mut labelled: Vec<usize> =
            (0..nodes).filter(|&node| votes[node].abs() >= margin.max(1)).collect();
        seed.stream("core-labels", 0, 0).shuffle(&mut labelled);
        if labelled.len() <= labels {
            return Err(Error::config(format!(
                "{} of {nodes} nodes have a winning margin of {margin} or more, but {labels} labels are to be known and some \
                 to be tested; take more nodes, fewer labels, or a smaller margin",
                labelled.len()
            )));
        }
        let votes_by_hops = count(&is_near, &speaks);
        Ok(Problem { features, codes, votes, votes_by_hops, labelled, known: labels, core, hops })
    }

    /// How many of the unknown labels a majority of all nodes as many hops away gets right; a tie is half right.
    pub fn by_hops(&self) -> f64 {
        let right = self.unknown().iter().map(|&node| {
            match self.votes_by_hops[node] * self.votes[node].signum() {
                0 => 0.5,
                vote => f64::from(u8::from(vote > 0)),
            }
        });
        right.sum::<f64>() / self.unknown().len() as f64
    }

    /// Trains the network and gives its accuracy on unknown labels.
    pub fn learn(&self, given: Given, seed: Seed) -> f64 {
        let network = Network::new(self, given, seed);
        let mut parameters = network.initial.clone();
        let mut stream = seed.stream("core-batches", 0, 0);
        for step in 0..STEPS {
            let nodes: Vec<usize> = (0..BATCH)
                .map(|_| self.labelled[stream.below(self.known as u64) as usize])
                .collect();
            let pass = Pass::train(&parameters, seed, step);
            let scores = network.forward(&pass, &nodes);
            let signs = nodes.iter().map(|&node| self.votes[node].signum() as f32).collect();
            let agreement = scores * matrix(signs, [BATCH, 1], pass.device());
            let loss = activation::relu(agreement.neg() + 1.0).mean();
            let gradients = pass.gradients(&loss);
            for (value, gradient) in parameters.trained_mut().iter_mut().zip(gradients) {
                *value -= RATE * gradient;
            }
        }
        let pass = Pass::eval(&parameters);
        let some = self.unknown().chunks(BATCH).map(|nodes| values(network.forward(&pass, nodes)));
        let scores: Vec<f32> = some.flatten().collect();
        let right = scores.iter().zip(self.unknown());
        let right =
            right.filter(|(score, node)| **score * self.votes[**node].signum() as f32 > 0.0);
        right.count() as f64 / scores.len() as f64
    }

    fn nodes(&self) -> usize {
        self.votes.len()
    }

    fn unknown(&self) -> &[usize] {
        &self.labelled[self.known..]
    }
}

/// A planted partition.
fn planted(nodes: usize, stream: &mut Stream) -> Result<Graph> {
    let inside = DEGREES[0] / (COMMUNITY - 1) as f64;
    let outside = DEGREES[1] / (nodes.saturating_sub(COMMUNITY)).max(1) as f64;
    let mut pairs = Vec::new();
    for u in 0..nodes {
        for v in u + 1..nodes {
            let chance = if u / COMMUNITY == v / COMMUNITY { inside } else { outside };
            if stream.unit() < chance {
                pairs.push((u as u32, v as u32));
            }
        }
    }
    Ok(Graph::from_pairs(nodes, &pairs)?.0)
}

/// A feature: one that speaks for a class or the other, or, as often as not, one that does not.
fn kind(stream: &mut Stream) -> usize {
    match stream.below(2) {
        0 => stream.below(2) as usize,
        _ => 2 + stream.below(FEATURES as u64 - 2) as usize,
    }
}

/// The network on a problem.
struct Network<'a> {
    problem: &'a Problem,
    /// b for every code: the number of a parameter, or fixed numbers.
    bias: Bias,
    maps: [crate::nn::Param; 4],
    initial: Parameters,
}

enum Bias {
    /// Codes → entries of b.
    Learned(crate::nn::Param, Vec<u32>),
    Fixed(Vec<f32>),
}

impl Network<'_> {
    fn new(problem: &Problem, given: Given, seed: Seed) -> Network<'_> {
        let book = problem.codes.codebook();
        let rows: Vec<&[u8]> = (0..book.len() as u32).map(|code| book.row(code)).collect();
        let mut builder = Builder::new(seed);
        let mut scope = builder.root();
        let sum = |row: &[u8]| row.iter().map(|&distance| f32::from(distance)).sum::<f32>();
        let (bias, starts): (Bias, Vec<f32>) = match given {
            Given::None => (Bias::Fixed(vec![0.0; rows.len()]), Vec::new()),
            Given::Core => {
                let away = |row: &&[u8]| if **row == CORE { 0.0 } else { -1e9 };
                (Bias::Fixed(rows.iter().map(away).collect()), Vec::new())
            }
            Given::Spd => {
                let longest = rows.iter().map(|row| row[0]).max().unwrap_or(0);
                let b = scope.parameter("b", &[usize::from(longest) + 1, 1], Init::Constant(0.0));
                let entries = rows.iter().map(|row| u32::from(row[0])).collect();
                (Bias::Learned(b, entries), (0..=longest).map(|hops| -f32::from(hops)).collect())
            }
            Given::Hdse | Given::HdseFromZero => {
                let b = scope.parameter("b", &[rows.len(), 1], Init::Constant(0.0));
                let from_zero = given == Given::HdseFromZero;
                let start = |row: &&[u8]| if from_zero { 0.0 } else { -sum(row) };
                (
                    Bias::Learned(b, (0..rows.len() as u32).collect()),
                    rows.iter().map(start).collect(),
                )
            }
        };
        let mut map = |name: &str, from: usize, to: usize| {
            scope.parameter(name, &[from, to], Init::Normal(1.0 / (from as f64).sqrt()))
        };
        let maps = [
            map("W_Q", FEATURES, WIDTH),
            map("W_K", FEATURES, WIDTH),
            map("W_V", FEATURES, WIDTH),
            map("W_O", WIDTH, HIDDEN),
        ];
        let mut initial = builder.finish();
        if !starts.is_empty() {
            initial.set("b", &starts).expect("b is there, and as long");
        }
        Network { problem, bias, maps, initial }
    }

    /// F of some nodes: `[nodes, 1]`.
    fn forward(&self, pass: &Pass, nodes: &[usize]) -> Tensor<2> {
        let all = self.problem.nodes();
        let features = |rows: &[usize]| {
            let rows =
                rows.iter().flat_map(|row| &self.problem.features[row * FEATURES..][..FEATURES]);
            rows.copied().collect::<Vec<f32>>()
        };
        let own = matrix(features(nodes), [nodes.len(), FEATURES], pass.device());
        let others = matrix(self.problem.features.clone(), [all, FEATURES], pass.device());
        let [query, key, value, out] = self.maps.map(|map| pass.param::<2>(map));
        let scores = own.matmul(query).matmul(others.clone().matmul(key).transpose());
        let code = |node: usize, other: usize| self.problem.codes.get(node * all + other) as usize;
        let pairs = nodes.iter().flat_map(|&node| (0..all).map(move |other| code(node, other)));
        let bias = match &self.bias {
            Bias::Learned(b, entries) => {
                let b = pass.param::<2>(*b);
                let entries = pairs.map(|code| entries[code]).collect();
                gather(pass, &Groups::new(entries, b.dims()[0]), b)
            }
            Bias::Fixed(numbers) => {
                let numbers = pairs.map(|code| numbers[code]).collect::<Vec<f32>>();
                matrix(numbers, [nodes.len() * all, 1], pass.device())
            }
        };
        let scores = scores / (WIDTH as f32).sqrt() + bias.reshape([nodes.len(), all]);
        let seen = activation::softmax(scores, 1).matmul(others); // [nodes, features]
        let hidden = activation::relu(seen.matmul(value).matmul(out));
        let half = HIDDEN / 2;
        let sign = (0..HIDDEN).map(|i| if i < half { 1.0 } else { -1.0 } / (HIDDEN as f32).sqrt());
        hidden.matmul(matrix(sign.collect(), [HIDDEN, 1], pass.device()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Setting = Setting { nodes: 250, labels: 60, margin: 2, noise: 0.0 };

    #[test]
    fn labels_are_majorities_in_core_neighbourhoods() {
        let problem = Problem::new(&SMALL, Seed(0), MemoryLimit::NONE).unwrap();
        let speaks = |node: usize| {
            let own = &problem.features[node * FEATURES..][..FEATURES];
            own[0] as i32 - own[1] as i32
        };
        let book = problem.codes.codebook();
        for &node in &problem.labelled {
            let row = |other: usize| book.row(problem.codes.get(node * 250 + other));
            let core = (0..250).filter(|&other| row(other) == [2, 0]);
            assert!(core.clone().all(|other| other / COMMUNITY == node / COMMUNITY));
            let vote: i32 = core.map(speaks).sum();
            assert_eq!(vote, problem.votes[node]);
            assert!(vote.abs() >= 2);
        }
        assert!(problem.core < problem.hops);
        let error = Problem::new(&Setting { labels: 240, ..SMALL }, Seed(0), MemoryLimit::NONE);
        assert!(error.unwrap_err().to_string().contains("fewer labels"));
    }

    #[test]
    fn distances_of_both_levels_generalise_where_hops_do_not() {
        let problem = Problem::new(&SMALL, Seed(1), MemoryLimit::NONE).unwrap();
        let [hdse, spd, none, core] = [Given::Hdse, Given::Spd, Given::None, Given::Core]
            .map(|given| problem.learn(given, Seed(1)));
        assert!(hdse > 0.95 && core > 0.95, "{hdse} {core}");
        assert!(spd < 0.9 && none < 0.75, "{spd} {none}");
        assert_eq!(hdse, problem.learn(Given::Hdse, Seed(1)));
    }
}
