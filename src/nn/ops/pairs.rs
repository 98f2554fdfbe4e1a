//! A layer of [`GRIT`](crate::nn::grit), as far as it is about pairs of nodes: one operation.
//!
//! ```text
//! e = BN(s)                 [f, t] = E e                 u_ij = (q_i + k_j) ∘ f_ij
//! ê = relu(√u⁺ − √u⁻ + t)   p_i = softmax_j(clamp(a · ê_ij, ±5) + b)
//! y_i = [Σ_j m_ij p_ij v_j, Σ_j m_ij p_ij ê_ij]          s′ = e + O (m′ ∘ ê)
//! ```
//!
//! with m and m′ the factors of dropout. There are n² times the width of everything, so what is to be saved is memory and ways to it. A few rows
//! of pairs at a time go all the way from s to s′ while they are in the cache, and nothing is kept but s, from
//! which the backward pass makes the rest again, block by block, before it goes back through it.
//!
//! States of pairs do not go through the tape, which would add up, copy and keep them. A [`Link`] hands them from layer to layer, and derivatives
//! back; as the nodes of a layer are made of those before, the tape goes through layers in order. Neither is BatchNorm a pass of its own. Its statistics
//! are those of blocks as they are made; what it does to s is done where s is read, and what it does to the derivative where that is
//! read, in the layer before.
//!
//! Graphs are in up to sixteen shares for any number of threads, each with sums of its own. Those that are not of products are in
//! double precision. The derivative of √ at 0 is taken as 0.

mod blocks;
mod passes;
mod rows;

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::Tensor;

use super::attention::Pairs;
use super::dense::restrided;
use super::{Kept, Operation, apply, has_kernels};
use crate::nn::fused::Team;
use crate::nn::fused::norm::{self, Statistics};
use crate::nn::fused::product::PANEL;
use crate::nn::layers::BatchNorm;
use crate::nn::pass::Pass;
use crate::rng::Coins;
use crate::simd::{Simd, padded};
use blocks::Share;
use passes::{Backward, Common, Ends, Forward, Sums, add_doubles};

/// Scores are cut off here, before the bias.
pub const CLAMP: f32 = 5.0;
/// What keeps a sum of weights from 0.
pub const TINY: f32 = 1e-16;

/// A graph: its nodes and its pairs.
type Graph = (Range<usize>, Range<usize>);

/// Pieces of `numbers`, one for each range, which follow one another; `each` numbers belong to one thing.
pub(super) fn pieces<T>(
    mut numbers: &mut [T],
    ranges: impl Iterator<Item = Range<usize>>,
    each: usize,
) -> Vec<&mut [T]> {
    let mut all = Vec::new();
    for range in ranges {
        let (piece, rest) = std::mem::take(&mut numbers).split_at_mut(range.len() * each);
        all.push(piece);
        numbers = rest;
    }
    all
}

/// What a layer is made of besides states of pairs.
#[derive(Debug)]
pub struct Inputs {
    /// Queries, keys and values `[nodes, dim]`.
    pub ends: [Tensor<2>; 3],
    /// E: for every head, rows of factors and then of terms.
    pub make: (Tensor<2>, Tensor<1>),
    /// a, head by head: `[1, dim]`.
    pub score: Tensor<2>,
    /// b: `[codes, heads]`.
    pub table: Option<Tensor<2>>,
    /// O.
    pub output: (Tensor<2>, Tensor<1>),
    /// How many heads.
    pub heads: usize,
    /// Dropout of weights, counted pair by pair and head by head, and of ê, number by number.
    pub coins: [Option<Coins>; 2],
}

/// States of pairs.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one, and a tensor is passed as it is elsewhere"
)]
pub enum States {
    /// As they come from the encoder: `[pairs, dim]`.
    First(Tensor<2>),
    /// As a layer left them.
    Linked(Arc<Link>),
}

/// What a layer leaves to the next: states of pairs, to be normalised. On the way back, what the next leaves to it.
#[derive(Debug)]
pub struct Link {
    norm: BatchNorm,
    made: Mutex<Option<Arc<Made>>>,
    returned: Mutex<Option<Returned>>,
}

/// States and their statistics, in columns of whole panels.
#[derive(Debug)]
struct Made {
    states: Vec<f32>,
    statistics: Statistics,
}

/// The derivative by what BatchNorm makes of states, and how to get from that to the one by states.
#[derive(Debug)]
struct Returned {
    by_normal: Vec<f32>,
    constants: norm::Backward,
}

impl Link {
    fn new(norm: BatchNorm) -> Arc<Link> {
        Arc::new(Link { norm, made: Mutex::default(), returned: Mutex::default() })
    }

    fn made(&self) -> Arc<Made> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.clone().expect("the layer before has been gone through")
    }

    fn leave(&self, made: Made) {
        *self.made.lock().unwrap_or_else(PoisonError::into_inner) = Some(made.into());
    }

    fn give_back(&self, returned: Returned) {
        *self.returned.lock().unwrap_or_else(PoisonError::into_inner) = Some(returned);
    }

    /// None if nothing depends on the states.
    fn take_back(&self) -> Option<Returned> {
        self.returned.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Whether layers can be done by [`layer`], for pairs of these nodes.
pub fn has_layers(pass: &Pass, nodes: &Tensor<2>) -> bool {
    // In evaluation there are no derivatives to be had from here.
    let differentiable = pass.is_training() || !pass.device().is_autodiff();
    pass.is_fused() && differentiable && has_kernels(nodes) && nodes.dims()[0] > 0
}

/// y `[nodes, 2 dim]`, what nodes and what pairs give; and the new states of pairs, which `norm` is to normalise. Without `is_read`, nothing
/// reads these: their statistics are all that is made of them.
///
/// # Panics
/// Unless [`has_layers`] allows it.
pub fn layer(
    pass: &Pass,
    pairs: &Arc<Pairs>,
    states: States,
    inputs: Inputs,
    norm: &BatchNorm,
    is_read: bool,
) -> (Tensor<2>, States) {
    let Inputs { ends, make, score, table, output, heads, coins } = inputs;
    let [query, key, value] = ends;
    let width = query.dims()[1];
    let nothing = || Tensor::<2>::zeros([1, 1], pass.device());
    let (first, before, scale, shift) = match states {
        States::First(states) => (states, None, nothing(), nothing()),
        States::Linked(link) => {
            let of = [link.norm.weight, link.norm.bias];
            let [scale, shift] = of.map(|param| pass.param::<1>(param).unsqueeze());
            (nothing(), Some(link), scale, shift)
        }
    };
    let running = before.as_ref().filter(|_| !pass.is_training()).map(|link| {
        let [mean, variance] = [link.norm.running_mean, link.norm.running_var].map(|param| {
            let values = pass.parameters().values(pass.parameters().entry(param));
            wide_doubles(values, width.next_multiple_of(PANEL))
        });
        Statistics { mean, variance, rows: pairs.len() as f64 }
    });
    let after = Link::new(norm.clone());
    let kernel = Arc::new(Layer {
        pairs: pairs.clone(),
        heads,
        width,
        before,
        running,
        after: after.clone(),
        makes_states: is_read,
        makes_statistics: pass.is_training(),
        is_biased: table.is_some(),
        coins,
        simd: pass.simd(),
        team: pass.team().clone(),
    });
    let table = table.unwrap_or_else(|| Tensor::zeros([1, heads], pass.device()));
    let row = |bias: Tensor<1>| bias.unsqueeze();
    let inputs = [
        first,
        scale,
        shift,
        query,
        key,
        value,
        make.0,
        row(make.1),
        score,
        table,
        output.0,
        row(output.1),
    ];
    let y = apply(&kernel, inputs).unwrap_or_else(|_| panic!("kernels are there"));
    if pass.is_training() {
        let Statistics { mean, variance, .. } = &after.made().statistics;
        norm.update(pass, pairs.len(), &mean[..width], &variance[..width]);
    }
    (y, States::Linked(after))
}

/// Numbers in double precision, filled up with zeros.
fn wide_doubles(values: &[f32], wide: usize) -> Vec<f64> {
    let values = values.iter().map(|&value| f64::from(value));
    values.chain(std::iter::repeat(0.0)).take(wide).collect()
}

fn single(sums: &[f64]) -> Vec<f32> {
    sums.iter().map(|&sum| sum as f32).collect()
}

#[derive(Debug)]
struct Layer {
    pairs: Arc<Pairs>,
    heads: usize,
    width: usize,
    before: Option<Arc<Link>>,
    /// What to normalise by in evaluation.
    running: Option<Statistics>,
    after: Arc<Link>,
    makes_states: bool,
    makes_statistics: bool,
    is_biased: bool,
    /// Of weights and of ê.
    coins: [Option<Coins>; 2],
    simd: Simd,
    team: Arc<Team>,
}

impl Layer {
    /// Columns of a state: whole panels.
    fn wide(&self) -> usize {
        self.width.next_multiple_of(PANEL)
    }

    /// Columns of a number for every head: whole vectors.
    fn lanes(&self) -> usize {
        padded(self.heads)
    }

    /// Where the factor and the term of a column are among the rows of E.
    fn rows_of(&self, column: usize) -> [usize; 2] {
        let own = self.width / self.heads;
        let first = column / own * 2 * own + column % own;
        [first, first + own]
    }
}

/// Numbers of rows, means and sums of squared deviations of new states, block by block.
type Moments = Vec<(usize, Vec<f64>)>;

impl Operation<12> for Layer {
    type Saved = ();

    fn shape(&self, shapes: [[usize; 2]; 12]) -> [usize; 2] {
        [shapes[3][0], 2 * self.width]
    }

    fn forward(&self, inputs: [&[f32]; 12]) -> (Vec<f32>, ()) {
        let (width, wide) = (self.width, self.wide());
        let made = self.before.as_ref().map(|link| link.made());
        let common = Common::new(self, made.as_deref(), inputs, false);
        let shares = Share::all(&self.pairs);
        let mut y = vec![0.0; inputs[3].len() * 2];
        let ys = pieces(&mut y, shares.iter().map(|share| share.nodes.clone()), 2 * width);
        let mut moments: Vec<Moments> = shares.iter().map(|_| Vec::new()).collect();
        let work = shares.iter().zip(ys).zip(&mut moments);
        let each = if self.makes_states { wide } else { 0 };
        let room = |((share, _), _): &((&Share, _), _)| share.pairs.len() * each;
        let states = self.team.make(work, room, |((share, y), moments), states| {
            let mut pass = Forward::new(&common, share);
            let mut unread = std::mem::take(&mut pass.new);
            let mut rest = y;
            for block in share.blocks() {
                let numbers = block.count() * wide;
                let mut new = match (self.makes_states, self.makes_statistics) {
                    (true, _) => Some(states.next(numbers)),
                    (false, true) => Some(&mut unread[..numbers]),
                    (false, false) => None,
                };
                let y = rest.split_off_mut(..block.rows * 2 * width).expect("a row for every node");
                pass.run(&common, &block, y, new.as_deref_mut());
                if self.makes_statistics
                    && let Some(new) = new
                {
                    let mut place = vec![0.0; 2 * wide];
                    norm::moments(self.simd, new, wide, &mut place);
                    moments.push((block.count(), place));
                }
            }
        });
        let statistics = Statistics::of_parts(wide, |tell| {
            moments.iter().flatten().for_each(|(count, place)| tell(*count, place));
        });
        self.after.leave(Made { states, statistics });
        (y, ())
    }

    fn backward(&self, kept: Kept<'_, (), 12>, gradient: &[f32]) -> [Vec<f32>; 12] {
        let (width, wide, lanes) = (self.width, self.wide(), self.lanes());
        let made = self.before.as_ref().map(|link| link.made());
        let common = Common::new(self, made.as_deref(), kept.inputs, true);
        let (after, returned) = (self.after.made(), self.after.take_back());
        let next = returned.as_ref().map(|returned| (returned, &*after));
        let [_, scale, _, query, _, _, make, make_bias, _, table, output, _] = kept.inputs;
        let codes = table.len() / self.heads;
        let shares = Share::all(&self.pairs);
        let nodes = query.len() / width;
        let mut by_ends = [(); 3].map(|()| vec![0.0; nodes * wide]);
        let [queries, keys, values] = by_ends
            .each_mut()
            .map(|by| pieces(by, shares.iter().map(|share| share.nodes.clone()), wide).into_iter());
        let mut sums: Vec<Sums> = shares.iter().map(|_| Sums::new(self, codes)).collect();
        let ends = shares.iter().zip(queries.zip(keys).zip(values)).map(
            |(share, ((query, key), value))| Ends {
                first: share.nodes.start,
                by: [query, key, value],
            },
        );
        let work = shares.iter().zip(ends).zip(&mut sums);
        let room = |((share, _), _): &((&Share, _), _)| share.pairs.len() * wide;
        let by_normal = self.team.make(work, room, |((share, mut ends), sums), by_normal| {
            let mut pass = Backward::new(&common, share);
            for block in share.blocks() {
                let out = by_normal.next(block.count() * wide);
                pass.run(&common, &block, gradient, next, (&mut ends, sums), out);
                if let Some(made) = &made {
                    let of = [(block.of(&made.states, wide), &made.statistics)];
                    norm::derivative_sums(self.simd, out, of, &mut pass.columns);
                    add_doubles(&mut sums.others[4], &pass.columns);
                }
            }
        });
        let mut total = Sums::new(self, codes);
        sums.iter().for_each(|own| total.add(own));
        let Sums { maps: [by_make, by_output], others } = total;
        let [by_made, by_output_bias, by_a, by_table, by_norm] = &others;
        let mut by_make_bias = vec![0.0; make_bias.len()];
        for column in 0..width {
            let [factor, term] = self.rows_of(column);
            by_make_bias[factor] = by_made[column] as f32;
            by_make_bias[term] = by_made[wide + column] as f32;
        }
        let (by_first, by_scale, by_shift) = match (&self.before, &made) {
            (Some(link), Some(made)) => {
                let (sums, products) = by_norm.split_at(wide);
                let scale = restrided(scale, width, wide);
                let constants = made.statistics.backward(&scale, sums, products);
                let by_scale = made.statistics.by_weight(products).take(width).collect();
                link.give_back(Returned { by_normal, constants });
                (vec![0.0], by_scale, single(&sums[..width]))
            }
            _ => (narrowed(by_normal, wide, width), vec![0.0], vec![0.0]),
        };
        debug_assert_eq!([by_make.len(), by_output.len()], [make.len(), output.len()]);
        let [by_query, by_key, by_value] = by_ends.map(|by| narrowed(by, wide, width));
        let by_table = narrowed(single(by_table), lanes, self.heads);
        let by_a = single(&by_a[..width]);
        let by_output_bias = single(&by_output_bias[..width]);
        [
            by_first,
            by_scale,
            by_shift,
            by_query,
            by_key,
            by_value,
            by_make,
            by_make_bias,
            by_a,
            by_table,
            by_output,
            by_output_bias,
        ]
    }
}

/// Rows without the columns beyond the last.
fn narrowed(rows: Vec<f32>, wide: usize, width: usize) -> Vec<f32> {
    if wide == width { rows } else { restrided(&rows, wide, width).into_owned() }
}

#[cfg(test)]
mod tests {
    use super::super::differences::{check, random, ways};
    use super::*;
    use crate::nn::Builder;
    use crate::rng::Seed;

    /// Three graphs of 3, 1 and 4 nodes.
    const NODES: [usize; 4] = [0, 3, 4, 8];
    const PAIRS: usize = 9 + 1 + 16;
    const CODES: usize = 4;

    /// Two layers, one after the other, each with queries, keys and values of its own: what both attend to.
    #[derive(Debug)]
    struct Two([Layer; 2]);

    impl Operation<24> for Two {
        type Saved = ();

        fn shape(&self, _: [[usize; 2]; 24]) -> [usize; 2] {
            [16, 2 * self.0[0].width]
        }

        fn forward(&self, inputs: [&[f32]; 24]) -> (Vec<f32>, ()) {
            let (of_first, of_second) = halves(inputs);
            let mut y = self.0[0].forward(of_first).0;
            y.extend(self.0[1].forward(of_second).0);
            (y, ())
        }

        fn backward(&self, kept: Kept<'_, (), 24>, gradient: &[f32]) -> [Vec<f32>; 24] {
            let (of_first, of_second) = halves(kept.inputs);
            let (dy, dy_second) = gradient.split_at(gradient.len() / 2);
            let kept = |inputs| Kept { inputs, output: &[], saved: &() };
            let second = self.0[1].backward(kept(of_second), dy_second);
            let first = self.0[0].backward(kept(of_first), dy);
            let mut both = first.into_iter().chain(second);
            std::array::from_fn(|_| both.next().unwrap())
        }
    }

    fn halves(inputs: [&[f32]; 24]) -> ([&[f32]; 12], [&[f32]; 12]) {
        (std::array::from_fn(|i| inputs[i]), std::array::from_fn(|i| inputs[12 + i]))
    }

    fn link(width: usize) -> Arc<Link> {
        Link::new(BatchNorm::new(Builder::new(Seed(0)).root(), width))
    }

    /// Numbers of random sign and of a size in a range.
    fn away(count: usize, range: [f32; 2], seed: u64) -> Vec<f32> {
        let signs = random(count, [-1.0, 1.0], seed + 100);
        let sizes = random(count, range, seed);
        sizes.iter().zip(signs).map(|(size, sign)| size * sign.signum()).collect()
    }

    /// Inputs of a layer, away from kinks: u is never near 0, and terms are beyond any root.
    fn numbers(layer: &Layer, reach: f32, seed: u64) -> [Vec<f32>; 12] {
        let (width, own) = (layer.width, layer.width / layer.heads);
        let is_first = layer.before.is_none();
        let states = if is_first { random(PAIRS * width, [-1.0, 1.0], seed) } else { vec![0.0] };
        let row = |range, key| if is_first { vec![0.0] } else { random(width, range, seed + key) };
        let [factors, terms] = [[1.5, 2.0], [3.5, 4.0]].map(|range| away(width, range, seed + 3));
        let biases = (0..2 * width).map(|row| {
            let column = row / (2 * own) * own + row % own;
            if row % (2 * own) < own { factors[column] } else { terms[column] }
        });
        [
            states,
            row([0.5, 1.0], 1),
            row([-0.5, 0.5], 2),
            random(8 * width, [0.5, 1.0], seed + 4),
            random(8 * width, [0.5, 1.0], seed + 5),
            random(8 * width, [-1.0, 1.0], seed + 6),
            random(2 * width * width, [-0.1, 0.1], seed + 7),
            biases.collect(),
            random(width, [-reach, reach], seed + 8),
            random(CODES * layer.heads, [-1.0, 1.0], seed + 9),
            random(width * width, [-0.3, 0.3], seed + 10),
            random(width, [-0.5, 0.5], seed + 11),
        ]
    }

    #[test]
    fn layers_of_pairs_have_their_derivatives() {
        let codes: Vec<u32> = random(PAIRS, [0.0, 4.0], 5).iter().map(|x| *x as u32).collect();
        let coins = |site| Some(Seed(3).coins("pairs", 0, site, 0.3));
        for (simd, team) in ways() {
            // One head in several vectors, several in one, columns and heads to be filled up; scores that are cut off.
            let cases = [
                (16, 2, true, false, 0.1),
                (12, 4, true, true, 0.1),
                (10, 2, false, true, 1.0),
                (24, 1, true, false, 0.3),
            ];
            for (width, heads, is_biased, drops, reach) in cases {
                let pairs = Pairs::new(NODES.to_vec(), is_biased.then(|| codes.clone()));
                let links = [(); 2].map(|()| link(width));
                let layer = |number: usize, team: &Arc<Team>| Layer {
                    pairs: pairs.clone(),
                    heads,
                    width,
                    before: (number > 0).then(|| links[0].clone()),
                    running: None,
                    after: links[number].clone(),
                    makes_states: number == 0,
                    makes_statistics: true,
                    is_biased,
                    coins: if drops { [coins(1), coins(2)] } else { [None, None] },
                    simd,
                    team: team.clone(),
                };
                let two = |team| Two([layer(0, team), layer(1, team)]);
                let layers = two(&team);
                let [first, second] = [0, 1].map(|i| numbers(&layers.0[i], reach, 20 * i as u64));
                let mut both = first.into_iter().chain(second);
                let inputs: [Vec<f32>; 24] = std::array::from_fn(|_| both.next().unwrap());
                check(&layers, &inputs);
                let results = |layers: &Two| {
                    let inputs = inputs.each_ref().map(Vec::as_slice);
                    let y = layers.forward(inputs).0;
                    let kept = Kept { inputs, output: &[], saved: &() };
                    let by = layers.backward(kept, &y);
                    [y].into_iter().chain(by).flatten().map(f32::to_bits).collect::<Vec<u32>>()
                };
                let alone = Arc::new(Team::new(1).unwrap());
                assert!(results(&layers) == results(&two(&alone)), "any number of threads");
            }
        }
    }
}
