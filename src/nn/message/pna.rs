//! Principal neighbourhood aggregation: several ways of adding up messages at once (Corso et al. 2020), with the
//! identity scaler. For each tower, on its share of the columns,
//!
//! ```text
//! m_ij = M [x_i, x_j, W_e e_ij]        y_i = U [x_i, ⊕₁ m_ij, ⊕₂ m_ij, …]
//! ```
//!
//! then towers side by side through one more map. Without arcs, every aggregate is 0.

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::nn::batch::Structure;
use crate::nn::layers::Linear;
use crate::nn::ops::MANY;
use crate::nn::ops::dense::linear;
use crate::nn::ops::messages::{Links, Maps, aggregated, receive};
use crate::nn::ops::rows::gather;
use crate::nn::parameters::Scope;
use crate::nn::pass::Pass;

const ARCS: &str = "a layer with arc features needs them";

/// A way of adding up messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Aggregator {
    /// Their mean.
    Mean,
    /// Their sum.
    Sum,
    /// The largest, column by column.
    Max,
    /// The smallest, column by column.
    Min,
}

/// The layer; parameters `edge_encoder`, `pre_nns.T.0`, `post_nns.T.0`, `lin`.
#[derive(Clone, Debug)]
pub struct Pna {
    edge: Option<Linear>,
    messages: Vec<Linear>,
    updates: Vec<Linear>,
    output: Linear,
    aggregators: Vec<Aggregator>,
    divide: bool,
}

/// Shape of a [`Pna`] layer.
#[derive(Clone, Debug)]
pub struct PnaShape {
    /// Numbers per node, before.
    pub inputs: usize,
    /// Numbers per node, after.
    pub outputs: usize,
    /// Numbers per arc, if arcs have features.
    pub edges: Option<usize>,
    /// Number of towers.
    pub towers: usize,
    /// Whether a tower gets its share of the input columns, or all of them.
    pub divide: bool,
    /// How messages are added up.
    pub aggregators: Vec<Aggregator>,
}

impl Pna {
    /// A layer of this shape; towers divide the outputs, and the inputs if they share them.
    pub fn new(mut scope: Scope, shape: &PnaShape) -> Pna {
        let PnaShape { inputs, outputs, edges, towers, divide, aggregators } = shape.clone();
        let width = if divide { inputs / towers } else { inputs };
        let edge = edges.map(|edges| Linear::new(scope.at("edge_encoder"), edges, width));
        let parts = if edge.is_some() { 3 } else { 2 };
        let messages = (0..towers)
            .map(|tower| Linear::new(scope.at("pre_nns").at(tower).at(0), parts * width, width))
            .collect();
        let updates = (0..towers)
            .map(|tower| {
                let inputs = (aggregators.len() + 1) * width;
                Linear::new(scope.at("post_nns").at(tower).at(0), inputs, outputs / towers)
            })
            .collect();
        let output = Linear::new(scope.at("lin"), outputs, outputs);
        Pna { edge, messages, updates, output, aggregators, divide }
    }

    /// Nodes `[nodes, inputs]` and arcs `[arcs, edges]` → `[nodes, outputs]`.
    ///
    /// # Panics
    /// If the layer has arc features and `e` is none.
    pub fn forward(
        &self,
        pass: &Pass,
        structure: &Structure,
        x: Tensor<2>,
        e: Option<Tensor<2>>,
    ) -> Tensor<2> {
        if !pass.is_composed() && x.dims()[0] >= MANY {
            return self.along(pass, structure.links(), x, e, false);
        }
        let e = self.edge.as_ref().map(|edge| edge.forward(pass, e.expect(ARCS)));
        let towers = self.messages.iter().zip(&self.updates).enumerate();
        let outputs = towers.map(|(tower, (message, update))| {
            let width = x.dims()[1] / self.messages.len();
            let own =
                if self.divide { x.clone().narrow(1, tower * width, width) } else { x.clone() };
            let ends = [&structure.by_target, &structure.by_source]
                .map(|ends| gather(pass, ends, own.clone()));
            let all = ends.into_iter().chain(e.clone()).collect();
            let messages = message.forward(pass, Tensor::cat(all, 1));
            let aggregates = aggregated(pass, &structure.by_target, &messages, &self.aggregators);
            update.forward(pass, Tensor::cat(vec![own, aggregates], 1))
        });
        self.output.forward(pass, Tensor::cat(outputs.collect(), 1))
    }

    /// The same along any links, with all towers at once, and 0 instead of what is negative if `rectify` says so. A map of [x_i, x_j, e] is
    /// the sum of maps of each, and those that follow the aggregates are one.
    ///
    /// # Panics
    /// If the layer has arc features and `e` is none.
    pub fn along(
        &self,
        pass: &Pass,
        links: &Links,
        x: Tensor<2>,
        e: Option<Tensor<2>>,
        rectify: bool,
    ) -> Tensor<2> {
        let towers = self.messages.len();
        let weights: Vec<Tensor<2>> =
            self.messages.iter().map(|message| pass.param::<2>(message.weight)).collect();
        let biases =
            |maps: &[Linear]| Tensor::cat(maps.iter().map(|map| map.params(pass).1).collect(), 0);
        let own = weights[0].dims()[0];
        let part = |number: usize| {
            let part = |weight: &Tensor<2>| weight.clone().narrow(1, number * own, own);
            Tensor::cat(weights.iter().map(part).collect(), 0) // [towers × own, own]
        };
        let terms = self.edge.as_ref().map(|edge| {
            let e = edge.of_many(pass, e.expect(ARCS));
            linear(pass, e, part(2), None)
        });

        let (last, last_bias) = self.output.params(pass);
        let outputs = last.dims()[0] / towers;
        let folded = self.updates.iter().enumerate().map(|(tower, update)| {
            last.clone().narrow(1, tower * outputs, outputs).matmul(pass.param::<2>(update.weight))
        });
        // Of each tower its states, then its aggregates; wanted are states of all towers, then aggregates of all.
        let folded = Tensor::<2>::cat(folded.collect(), 1);
        let [rows, columns] = folded.dims();
        let own = columns / towers / (self.aggregators.len() + 1);
        let folded = folded.reshape([rows, towers, self.aggregators.len() + 1, own]);
        let folded = folded.swap_dims(1, 2).reshape([rows, columns]);
        let mut of_states = folded.clone().narrow(1, 0, towers * own);
        if !self.divide {
            // All towers read the same states.
            of_states = of_states.reshape([rows, towers, own]).sum_dim(1).reshape([rows, own]);
        }
        let maps = Maps {
            ends: Tensor::cat(vec![part(0), part(1)], 0),
            offset: biases(&self.messages),
            own: of_states,
            aggregates: folded.narrow(1, towers * own, columns - towers * own),
            bias: last.matmul(biases(&self.updates).unsqueeze_dim(1)).reshape([rows]) + last_bias,
        };
        receive(pass, links, x, terms, maps, &self.aggregators, rectify)
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::activation;

    use super::*;
    use crate::data::Edges;
    use crate::nn::parameters::Builder;
    use crate::nn::pass::{matrix, values};
    use crate::rng::Seed;

    /// Towers at once, with rows enough for it, against tower by tower: in one graph, and in many, of which some have no arc.
    #[test]
    fn towers_at_once_are_towers_one_by_one() {
        let mut stream = Seed(0).stream("pna", 0, 0);
        let mut arcs = |sizes: &[usize]| {
            let mut edges = Edges { sources: Vec::new(), targets: Vec::new() };
            let mut first = 0;
            for (number, &size) in sizes.iter().enumerate() {
                let mut end = || first as u32 + stream.below(size as u64 - 5) as u32;
                for _ in 0..if number % 7 == 3 { 0 } else { 2 * size } {
                    edges.sources.push(end());
                    edges.targets.push(end());
                }
                first += size;
            }
            edges
        };
        let graphs = [vec![MANY + 20], vec![40; 60]];
        let edges = graphs.each_ref().map(|sizes| arcs(sizes));
        let mut random =
            |count| (0..count).map(|_| stream.unit() as f32 - 0.5).collect::<Vec<f32>>();
        let (x, e) = (random(40 * 60 * 64), random(2 * 40 * 60 * 3));
        let all = [Aggregator::Mean, Aggregator::Sum, Aggregator::Max, Aggregator::Min];
        // Whole towers or not, whole panels of 16 columns or not.
        for (inputs, towers, divide, with_arcs, count) in [
            (64, 4, true, true, 3),
            (32, 4, true, true, 4),
            (32, 2, true, false, 4),
            (16, 2, false, true, 4),
            (16, 1, true, true, 1),
            (8, 4, true, true, 3),
            (24, 2, true, true, 4),
            (20, 2, false, false, 2),
        ] {
            let shape = PnaShape {
                inputs,
                outputs: if inputs == 20 { 12 } else { 16 },
                edges: with_arcs.then_some(3),
                towers,
                divide,
                aggregators: all[..count].to_vec(),
            };
            let mut builder = Builder::new(Seed(1));
            let pna = Pna::new(builder.root(), &shape);
            let parameters = builder.finish();
            for (sizes, edges) in graphs.iter().zip(&edges) {
                let (nodes, arcs) = (sizes.iter().sum(), edges.sources.len());
                let structure = Structure::new(sizes, edges, None);
                let run = |composed: bool, rectify: bool| {
                    let pass = Pass::train(&parameters, Seed(0), 0);
                    let pass = if composed { pass.composed() } else { pass };
                    let x = matrix(x[..nodes * inputs].into(), [nodes, inputs], pass.device());
                    let e =
                        with_arcs.then(|| matrix(e[..arcs * 3].into(), [arcs, 3], pass.device()));
                    let y = match (composed, rectify) {
                        (false, true) => pna.along(&pass, structure.links(), x, e, true),
                        _ => pna.forward(&pass, &structure, x, e),
                    };
                    let y = if rectify { activation::relu(y) } else { y };
                    let gradients = pass.gradients(&y.clone().square().mean());
                    (values(y), gradients)
                };
                for rectify in [false, true] {
                    let (expected, found) = (run(true, rectify), run(false, rectify));
                    for (a, b) in [(&found.0, &expected.0), (&found.1, &expected.1)] {
                        let largest = b.iter().fold(0.0, |largest: f32, x| largest.max(x.abs()));
                        let apart = a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                        assert!(
                            largest > 0.0 && apart <= 1e-5 * largest,
                            "{shape:?}, {} graphs: {apart} of {largest}",
                            sizes.len()
                        );
                    }
                }
            }
        }
    }
}
