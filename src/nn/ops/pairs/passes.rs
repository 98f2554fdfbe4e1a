//! A block of rows of pairs through a layer, forward and back.

use std::borrow::Cow;
use std::ops::Range;

use super::super::dense::{packed, restrided};
use super::super::rows::add;
use super::blocks::{Block, Share};
use super::rows::{Attended, Drop, Heads, Scores, See, Tosses, Unsee, Unweigh, Weigh};
use super::{Layer, Made, Returned};
use crate::nn::fused::norm::{self, Affine};
use crate::nn::fused::product::{Biased, Left, Residual, Right, Store, product};
use crate::nn::fused::weights::{Map, Rows, Run, Slot};
use crate::simd::WIDTH;

/// What is the same for all blocks.
pub(super) struct Common<'a> {
    of: &'a Layer,
    /// s, and what BatchNorm makes of it.
    states: Cow<'a, [f32]>,
    affine: Option<Affine>,
    query: Cow<'a, [f32]>,
    key: Cow<'a, [f32]>,
    value: Cow<'a, [f32]>,
    /// E: columns of factors, then of terms.
    make: Map,
    make_bias: Vec<f32>,
    output: Map,
    output_bias: Cow<'a, [f32]>,
    score: Cow<'a, [f32]>,
    table: Cow<'a, [f32]>,
    of_column: Vec<u32>,
}

impl<'a> Common<'a> {
    pub fn new(
        of: &'a Layer,
        made: Option<&'a Made>,
        inputs: [&'a [f32]; 12],
        backward: bool,
    ) -> Common<'a> {
        let [first, scale, shift, query, key, value, make, make_bias, score, table, output, bias] =
            inputs;
        let (width, wide, heads) = (of.width, of.wide(), of.heads);
        let widened = |numbers: &'a [f32]| restrided(numbers, width, wide);
        let own = width / heads;
        let rows = (0..heads).flat_map(|head| {
            let [factors, terms] = of.rows_of(head * own);
            let rows = |row, column| Rows { weight: row * width, bias: None, count: own, column };
            [rows(factors, head * own), rows(terms, wide + head * own)]
        });
        let all = vec![Run { from: 0, count: width, column: 0 }];
        let mut make_map = Map::new(width, all, rows.collect());
        make_map.pack(make, backward);
        let mut biases = vec![0.0; 2 * wide];
        for column in 0..width {
            let [factor, term] = of.rows_of(column);
            (biases[column], biases[wide + column]) = (make_bias[factor], make_bias[term]);
        }
        let affine = made.map(|made| {
            let statistics = of.running.as_ref().unwrap_or(&made.statistics);
            statistics.forward(&widened(scale), &widened(shift))
        });
        Common {
            of,
            states: made.map_or_else(|| widened(first), |made| made.states[..].into()),
            affine,
            query: widened(query),
            key: widened(key),
            value: widened(value),
            make: make_map,
            make_bias: biases,
            output: packed(output, &[], width, backward),
            output_bias: widened(bias),
            score: widened(score),
            table: restrided(table, heads, of.lanes()),
            of_column: (0..wide).map(|column| (column / own).min(heads - 1) as u32).collect(),
        }
    }

    fn heads(&self) -> Heads<'_> {
        let is_even = (self.of.width / self.of.heads).is_multiple_of(WIDTH);
        Heads { of_column: &self.of_column, is_even }
    }

    /// The numbers of a row, each in the column of its head, rows `stride` apart: what makes sums over heads a product.
    fn spread(&self, row: &[f32], columns: &mut [f32], stride: usize) {
        for (column, (number, head)) in row.iter().zip(&self.of_column).enumerate() {
            columns[column * stride + *head as usize] = *number;
        }
    }

    /// e of a block.
    fn normal<'s>(&'s self, block: &Block, room: &'s mut [f32]) -> &'s [f32] {
        let states = block.of(&self.states, self.of.wide());
        let Some(affine) = &self.affine else { return states };
        let e = &mut room[..states.len()];
        norm::apply(self.of.simd, [(states, affine)], e);
        e
    }

    /// What E makes of e, and ê, of a block.
    fn see(&self, block: &Block, e: &[f32], made: &mut [f32], seen: &mut [f32]) {
        let (wide, simd, count) = (self.of.wide(), self.of.simd, block.count());
        let (made, seen) = (&mut made[..count * 2 * wide], &mut seen[..count * wide]);
        let biased = Biased { out: made, stride: 2 * wide, bias: &self.make_bias };
        self.make.forward(simd, count, e, wide, biased);
        let query = &self.query[(block.nodes.start + block.row) * wide..][..block.rows * wide];
        let key = &self.key[block.nodes.start * wide..block.nodes.end * wide];
        simd.run(See { wide, size: block.size(), query, key, made, seen });
    }

    /// ê of a block as O reads it: with dropout, a copy.
    fn dropped<'s>(&self, block: &Block, seen: &'s [f32], room: &'s mut [f32]) -> &'s [f32] {
        let seen = &seen[..block.count() * self.of.wide()];
        if self.of.coins[1].is_none() {
            return seen;
        }
        let copy = &mut room[..seen.len()];
        copy.copy_from_slice(seen);
        self.drop(block, copy);
        copy
    }

    /// Dropout of ê, or of the derivative by what comes of it.
    fn drop(&self, block: &Block, numbers: &mut [f32]) {
        let (Layer { width, simd, .. }, wide) = (self.of, self.of.wide());
        if let Some(coins) = &self.of.coins[1] {
            simd.run(Drop { coins, width: *width, wide, first: block.first, numbers });
        }
    }

    /// What the weights of a row, its pairs from `first` on, are made of.
    fn scores<'s>(
        &'s self,
        first: usize,
        size: usize,
        found: &'s [f32],
        stride: usize,
    ) -> Scores<'s> {
        let codes = self.of.pairs.codes().filter(|_| self.of.is_biased);
        let codes = codes.map(|codes| &codes[first..][..size]);
        Scores { lanes: self.of.lanes(), found, stride, codes, table: &self.table }
    }

    fn tosses(&self, first: usize) -> Option<Tosses<'_>> {
        let coins = self.of.coins[0].as_ref();
        coins.map(|coins| Tosses { coins, first, heads: self.of.heads })
    }
}

/// Memory for one block after another.
pub(super) struct Forward {
    e: Vec<f32>,
    made: Vec<f32>,
    seen: Vec<f32>,
    dropped: Vec<f32>,
    pub new: Vec<f32>,
    found: Vec<f32>,
    weights: Vec<f32>,
    sums: Vec<f32>,
    /// a, each number in the column of its head.
    score: Vec<f32>,
}

impl Forward {
    pub fn new(common: &Common, share: &Share) -> Forward {
        let (width, wide, lanes) = (common.of.width, common.of.wide(), common.of.lanes());
        let [most, size] = share.most();
        let rows = || vec![0.0; most * wide];
        let mut score = vec![0.0; wide * lanes];
        common.spread(&common.score[..width], &mut score, lanes);
        Forward {
            e: rows(),
            made: vec![0.0; most * 2 * wide],
            seen: rows(),
            dropped: rows(),
            new: rows(),
            found: vec![0.0; most * lanes],
            weights: vec![0.0; size * lanes],
            sums: vec![0.0; 2 * wide],
            score,
        }
    }

    /// Goes through a block: writes y of its nodes and, if asked for, new states.
    pub fn run(&mut self, common: &Common, block: &Block, y: &mut [f32], new: Option<&mut [f32]>) {
        let Layer { width, simd, .. } = *common.of;
        let (wide, lanes, size, count) =
            (common.of.wide(), common.of.lanes(), block.size(), block.count());
        let e = common.normal(block, &mut self.e);
        common.see(block, e, &mut self.made, &mut self.seen);
        let (seen, found) = (&self.seen[..count * wide], &mut self.found[..count * lanes]);
        let (left, right) = (Left::rows(seen, wide), Right::rows(&self.score, lanes));
        product(simd, [count, lanes, width], left, right, Store::new(found, lanes));
        let value = &common.value[block.nodes.start * wide..block.nodes.end * wide];
        let rows = found.chunks_exact(size * lanes).zip(seen.chunks_exact(size * wide));
        for (row, (y, (found, seen))) in y.chunks_exact_mut(2 * width).zip(rows).enumerate() {
            let (first, heads) = (block.first + row * size, common.heads());
            let scores = common.scores(first, size, found, lanes);
            let weights = &mut self.weights[..size * lanes];
            simd.run(Weigh { scores, tosses: common.tosses(first), weights });
            let sums = &mut self.sums;
            simd.run(Attended { wide, lanes, heads, weights, value, seen, sums });
            y[..width].copy_from_slice(&self.sums[..width]);
            y[width..].copy_from_slice(&self.sums[wide..][..width]);
        }
        if let Some(out) = new {
            let x = common.dropped(block, seen, &mut self.dropped);
            let (bias, scales, tosses) = (&common.output_bias[..], None, None);
            let sum = Residual { out, residual: e, stride: wide, bias, scales, tosses };
            common.output.forward(simd, count, x, wide, sum);
        }
    }
}

/// What one share adds to derivatives of what all have in common.
pub(super) struct Sums {
    /// By E and O.
    pub maps: [Vec<f32>; 2],
    /// By both biases, by a, by the bias of codes, and what BatchNorm asks for: Σ de and Σ de (s − mean).
    pub others: [Vec<f64>; 5],
}

impl Sums {
    pub fn new(layer: &Layer, codes: usize) -> Sums {
        let (square, wide) = (layer.width * layer.width, layer.wide());
        Sums {
            maps: [2 * square, square].map(|count| vec![0.0; count]),
            others: [2 * wide, wide, wide, codes * layer.lanes(), 2 * wide]
                .map(|count| vec![0.0; count]),
        }
    }

    pub fn add(&mut self, own: &Sums) {
        self.maps.iter_mut().zip(&own.maps).for_each(|(sum, own)| add(sum, own));
        self.others.iter_mut().zip(&own.others).for_each(|(sum, own)| add_doubles(sum, own));
    }
}

pub(super) fn add_doubles(sums: &mut [f64], own: &[f64]) {
    sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
}

/// What goes back to nodes: derivatives by queries, keys and values of a share.
pub(super) struct Ends<'a> {
    pub first: usize,
    pub by: [&'a mut [f32]; 3],
}

/// Memory for one block after another on the way back.
pub(super) struct Backward {
    e: Vec<f32>,
    made: Vec<f32>,
    seen: Vec<f32>,
    dropped: Vec<f32>,
    by_new: Vec<f32>,
    by_seen: Vec<f32>,
    by_made: Vec<f32>,
    found: Vec<f32>,
    of_values: Vec<f32>,
    weights: Vec<f32>,
    by_score: Vec<f32>,
    /// The derivatives by what nodes and what pairs give.
    given: Vec<f32>,
    by_a: Vec<f32>,
    /// a and the second of them, and the first, each number in the column of its head.
    of_seen: Vec<f32>,
    of_nodes: Vec<f32>,
    pub columns: Vec<f64>,
    zeros: Vec<f32>,
}

impl Backward {
    pub fn new(common: &Common, share: &Share) -> Backward {
        let (width, wide, lanes) = (common.of.width, common.of.wide(), common.of.lanes());
        let [most, size] = share.most();
        let rows = || vec![0.0; most * wide];
        let row = || vec![0.0; size * lanes];
        let mut of_seen = vec![0.0; wide * 2 * lanes];
        common.spread(&common.score[..width], &mut of_seen, 2 * lanes);
        Backward {
            e: rows(),
            made: vec![0.0; most * 2 * wide],
            seen: rows(),
            dropped: rows(),
            by_new: rows(),
            by_seen: rows(),
            by_made: vec![0.0; most * 2 * wide],
            found: vec![0.0; size * 2 * lanes],
            of_values: row(),
            weights: row(),
            by_score: row(),
            given: vec![0.0; 2 * wide],
            by_a: vec![0.0; wide],
            of_seen,
            of_nodes: vec![0.0; wide * lanes],
            columns: vec![0.0; 2 * wide],
            zeros: vec![0.0; wide],
        }
    }

    /// Goes back through a block: writes the derivative by e, and adds to all others. `next` is what the layer after gave back, and its states.
    pub fn run(
        &mut self,
        common: &Common,
        block: &Block,
        dy: &[f32],
        next: Option<(&Returned, &Made)>,
        (ends, sums): (&mut Ends, &mut Sums),
        by_normal: &mut [f32],
    ) {
        let (simd, wide, count) = (common.of.simd, common.of.wide(), block.count());
        let e = common.normal(block, &mut self.e);
        common.see(block, e, &mut self.made, &mut self.seen);
        let [by_make, by_output] = &mut sums.maps;
        let [by_make_bias, by_output_bias, by_a, by_table, _] = &mut sums.others;
        let by_new = &mut self.by_new[..count * wide];
        let by_seen = &mut self.by_seen[..count * wide];
        match next {
            Some((returned, made)) => {
                let both = [&returned.by_normal, &made.states].map(|rows| block.of(rows, wide));
                norm::backward(simd, &returned.constants, both, by_new, None);
                common.output.backward(simd, count, by_new, Store::new(by_seen, wide));
                common.drop(block, by_seen);
                let x = common.dropped(block, &self.seen, &mut self.dropped);
                let slot = Slot { numbers: by_output, start: 0, add: true };
                common.output.gradient(simd, count, by_new, x, wide, slot);
                let columns = &mut self.columns[..wide];
                norm::derivative_sums(simd, by_new, [], columns);
                add_doubles(by_output_bias, columns);
            }
            None => by_seen.fill(0.0),
        }
        for row in 0..block.rows {
            self.unattend(common, block, row, dy, ends, by_table);
            by_a.iter_mut().zip(&self.by_a).for_each(|(sum, own)| *sum += f64::from(*own));
        }
        let e = match &common.affine {
            Some(_) => &self.e[..count * wide],
            None => block.of(&common.states, wide),
        };
        let by_made = &self.by_made[..count * 2 * wide];
        let slot = Slot { numbers: by_make, start: 0, add: true };
        common.make.gradient(simd, count, by_made, e, wide, slot);
        norm::derivative_sums(simd, by_made, [], &mut self.columns);
        add_doubles(by_make_bias, &self.columns);
        if next.is_some() {
            let residual = &self.by_new[..count * wide];
            let (bias, scales, tosses) = (&self.zeros[..], None, None);
            let sum = Residual { out: by_normal, residual, stride: wide, bias, scales, tosses };
            common.make.backward(simd, count, by_made, sum);
        } else {
            common.make.backward(simd, count, by_made, Store::new(by_normal, wide));
        }
    }

    /// Goes back through attention and what is seen, for a row of a block: from `by_seen` to `by_made`.
    fn unattend(
        &mut self,
        common: &Common,
        block: &Block,
        row: usize,
        dy: &[f32],
        ends: &mut Ends,
        by_table: &mut [f64],
    ) {
        let Layer { width, simd, .. } = *common.of;
        let (wide, lanes, size) = (common.of.wide(), common.of.lanes(), block.size());
        let (node, first) = (block.nodes.start + block.row + row, block.first + row * size);
        let graph = block.nodes.start * wide..block.nodes.end * wide;
        let of_row = |each: usize| row * size * each..(row + 1) * size * each;
        let seen = &self.seen[of_row(wide)];
        let dy = &dy[node * 2 * width..][..2 * width];
        self.given[..width].copy_from_slice(&dy[..width]);
        self.given[wide..][..width].copy_from_slice(&dy[width..]);
        common.spread(&dy[..width], &mut self.of_nodes, lanes);
        common.spread(&dy[width..], &mut self.of_seen[lanes..], 2 * lanes);
        let found = &mut self.found[..size * 2 * lanes];
        let (left, right) = (Left::rows(seen, wide), Right::rows(&self.of_seen, 2 * lanes));
        product(simd, [size, 2 * lanes, width], left, right, Store::new(found, 2 * lanes));
        let of_values = &mut self.of_values[..size * lanes];
        let left = Left::rows(&common.value[graph.clone()], wide);
        let right = Right::rows(&self.of_nodes, lanes);
        product(simd, [size, lanes, width], left, right, Store::new(of_values, lanes));
        let weights = &mut self.weights[..size * lanes];
        let by_score = &mut self.by_score[..size * lanes];
        simd.run(Unweigh {
            scores: common.scores(first, size, found, 2 * lanes),
            tosses: common.tosses(first),
            of_values,
            weights,
            by_score,
            by_table,
        });
        self.by_a.fill(0.0);
        let here =
            |range: Range<usize>| range.start - ends.first * wide..range.end - ends.first * wide;
        let (of_node, of_graph) = (here(node * wide..(node + 1) * wide), here(graph.clone()));
        let [by_query, by_key, by_value] = &mut ends.by;
        simd.run(Unsee {
            wide,
            lanes,
            heads: common.heads(),
            query: &common.query[node * wide..][..wide],
            key: &common.key[graph],
            made: &self.made[of_row(2 * wide)],
            seen,
            weights,
            by_score,
            score: &common.score,
            given: &self.given,
            by_seen: &self.by_seen[of_row(wide)],
            by_made: &mut self.by_made[of_row(2 * wide)],
            by_query: &mut by_query[of_node],
            by_key: &mut by_key[of_graph.clone()],
            by_value: &mut by_value[of_graph],
            by_a: &mut self.by_a,
        });
    }
}
