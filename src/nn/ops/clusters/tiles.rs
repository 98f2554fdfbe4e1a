//! The kernel: blocks of nodes against tiles of clusters.

use std::sync::Arc;

use super::super::{Kept, Operation};
use crate::nn::fused::Team;
use crate::nn::fused::product::{Left, PANEL, Right, Store, product};
use crate::nn::ops::rows::Groups;
use crate::rng::Coins;
use crate::simd::{Kernel, Simd, Vector, WIDTH, padded};

/// Nodes of a block: enough that keys and values are read seldom, few enough that scores stay in the cache.
const BLOCK: usize = 120;
/// Clusters of a tile.
const TILE: usize = 128;
/// Parts of sums over all nodes, each summed in order.
const PARTS: usize = 8;

/// Attention to clusters in blocks and tiles.
#[derive(Debug)]
pub(super) struct Tiles {
    pub nodes: Arc<Groups>,
    /// The code of each pair of clusters, row by row, if there is a bias.
    pub codes: Option<Vec<u32>>,
    /// What is added to the scores of each cluster.
    pub prior: Vec<f32>,
    pub heads: usize,
    /// Of a head.
    pub width: usize,
    pub coins: Option<Coins>,
    pub simd: Simd,
    pub team: Arc<Team>,
}

/// What the backward pass needs: for every node and head the logarithm of the sum of powers, nodes in order of clusters.
pub(super) type Logarithms = Vec<f32>;

impl Operation<4> for Tiles {
    type Saved = Logarithms;
    const KEEPS_OUTPUT: bool = true;

    fn shape(&self, shapes: [[usize; 2]; 4]) -> [usize; 2] {
        shapes[0]
    }

    fn forward(&self, [query, key, value, bias]: [&[f32]; 4]) -> (Vec<f32>, Logarithms) {
        let order = Order::new(&self.nodes);
        let (dim, query) = (self.heads * self.width, order.sorted(query, self.heads * self.width));
        let keys = self.turned(key);
        let mut out = vec![0.0; query.len()];
        let mut logarithms = vec![0.0; self.nodes.of_row().len() * self.heads];
        let blocks = out.chunks_mut(BLOCK * dim).zip(logarithms.chunks_mut(BLOCK * self.heads));
        self.team.each(blocks.enumerate(), |(number, (out, logarithms))| {
            let mut work = Work::new(self, &order, number * BLOCK, out.len() / dim);
            let query = &query[number * BLOCK * dim..][..out.len()];
            for head in 0..self.heads {
                work.forward(head, query, &keys[head], (value, bias), out, logarithms);
            }
        });
        (order.unsorted(out, dim), logarithms)
    }

    fn backward(&self, kept: Kept<'_, Logarithms, 4>, gradient: &[f32]) -> [Vec<f32>; 4] {
        let [query, key, value, bias] = kept.inputs;
        let order = Order::new(&self.nodes);
        let dim = self.heads * self.width;
        let [query, out, gradient] =
            [query, kept.output, gradient].map(|rows| order.sorted(rows, dim));
        let [keys, values] = [key, value].map(|rows| self.turned(rows));
        let nodes = self.nodes.of_row().len();
        let count = nodes.div_ceil(PARTS).next_multiple_of(BLOCK).max(BLOCK);
        let mut by_query = vec![0.0; query.len()];
        let mut sums: Vec<Sums> =
            (0..nodes.div_ceil(count)).map(|_| Sums::new(key.len(), bias.len())).collect();
        let parts = by_query.chunks_mut(count * dim).zip(&mut sums).enumerate();
        self.team.each(parts, |(part, (by_query, sums))| {
            for (number, by_query) in by_query.chunks_mut(BLOCK * dim).enumerate() {
                let first = part * count + number * BLOCK;
                let mut work = Work::new(self, &order, first, by_query.len() / dim);
                let block = |rows: &'_ [f32]| -> Vec<f32> {
                    rows[first * dim..][..by_query.len()].to_vec()
                };
                let (query, out, gradient) = (block(&query), block(&out), block(&gradient));
                let logarithms = &kept.saved[first * self.heads..][..by_query.len() / self.width];
                for head in 0..self.heads {
                    let rows = [&query[..], &out, &gradient];
                    let turned = [&keys[head][..], &values[head]];
                    work.backward(head, rows, turned, (key, bias), logarithms, by_query, sums);
                }
            }
        });
        let mut all = Sums::new(key.len(), bias.len());
        sums.iter().for_each(|part| all.add(part));
        let by_bias = all.by_bias.into_iter().map(|sum| sum as f32).collect();
        [order.unsorted(by_query, dim), all.by_key, all.by_value, by_bias]
    }
}

/// Sums over nodes.
#[derive(Clone, Debug)]
struct Sums {
    by_key: Vec<f32>,
    by_value: Vec<f32>,
    by_bias: Vec<f64>,
}

impl Sums {
    fn new(keys: usize, bias: usize) -> Sums {
        Sums { by_key: vec![0.0; keys], by_value: vec![0.0; keys], by_bias: vec![0.0; bias] }
    }

    fn add(&mut self, part: &Sums) {
        self.by_key.iter_mut().zip(&part.by_key).for_each(|(sum, own)| *sum += own);
        self.by_value.iter_mut().zip(&part.by_value).for_each(|(sum, own)| *sum += own);
        self.by_bias.iter_mut().zip(&part.by_bias).for_each(|(sum, own)| *sum += own);
    }
}

/// Nodes cluster by cluster.
struct Order<'a> {
    groups: &'a Groups,
    /// The node at each place; none where nodes are in order as they are.
    nodes: Option<Vec<u32>>,
}

impl Order<'_> {
    fn new(groups: &Groups) -> Order<'_> {
        let sorted = groups.of_row().is_sorted();
        let nodes =
            || (0..groups.len()).flat_map(|cluster| groups.rows(cluster)).copied().collect();
        Order { groups, nodes: (!sorted).then(nodes) }
    }

    fn node(&self, place: usize) -> usize {
        self.nodes.as_ref().map_or(place, |nodes| nodes[place] as usize)
    }

    fn cluster(&self, place: usize) -> usize {
        self.groups.of_row()[self.node(place)] as usize
    }

    fn sorted<'r>(&self, rows: &'r [f32], width: usize) -> std::borrow::Cow<'r, [f32]> {
        let Some(nodes) = &self.nodes else { return rows.into() };
        nodes.iter().flat_map(|&node| &rows[node as usize * width..][..width]).copied().collect()
    }

    fn unsorted(&self, sorted: Vec<f32>, width: usize) -> Vec<f32> {
        let Some(nodes) = &self.nodes else { return sorted };
        let mut rows = vec![0.0; sorted.len()];
        for (&node, row) in nodes.iter().zip(sorted.chunks_exact(width)) {
            rows[node as usize * width..][..width].copy_from_slice(row);
        }
        rows
    }
}

impl Tiles {
    fn clusters(&self) -> usize {
        self.prior.len()
    }

    /// The rows of clusters as columns, in panels for products, for each head.
    fn turned(&self, rows: &[f32]) -> Vec<Vec<f32>> {
        let dim = self.heads * self.width;
        let head = |head: usize| {
            let mut panels = vec![0.0; self.clusters().next_multiple_of(PANEL) * self.width];
            for (cluster, row) in rows.chunks_exact(dim).enumerate() {
                let panel = &mut panels[cluster / PANEL * PANEL * self.width..];
                for (column, &x) in row[head * self.width..][..self.width].iter().enumerate() {
                    panel[column * PANEL + cluster % PANEL] = x;
                }
            }
            panels
        };
        (0..self.heads).map(head).collect()
    }

    fn scale(&self) -> f32 {
        1.0 / (self.width as f32).sqrt()
    }
}

/// A block of nodes, with memory for one tile.
struct Work<'a> {
    tiles: &'a Tiles,
    rows: usize,
    /// The clusters of these nodes, and which of them each node is in.
    clusters: Vec<usize>,
    cluster_of_row: Vec<u32>,
    /// The first coin of each node for head 0.
    coins: Vec<u32>,
    /// Bias and prior of each of these clusters.
    bias: Vec<f32>,
    scores: Vec<f32>,
    second: Vec<f32>,
}

/// Clusters of a tile, without and with padding.
#[derive(Clone, Copy)]
struct Range {
    start: usize,
    count: usize,
    padded: usize,
}

impl<'a> Work<'a> {
    fn new(tiles: &'a Tiles, order: &Order, first: usize, rows: usize) -> Work<'a> {
        let (mut clusters, mut cluster_of_row, mut coins) = (Vec::new(), Vec::new(), Vec::new());
        for place in first..first + rows {
            let cluster = order.cluster(place);
            if clusters.last() != Some(&cluster) {
                clusters.push(cluster);
            }
            cluster_of_row.push(clusters.len() as u32 - 1);
            coins.push((order.node(place) * tiles.clusters()) as u32);
        }
        let bias = vec![0.0; clusters.len() * TILE];
        let scores = vec![0.0; rows * TILE];
        Work { tiles, rows, clusters, cluster_of_row, coins, bias, scores, second: Vec::new() }
    }

    fn ranges(&self) -> impl Iterator<Item = Range> + use<> {
        let count = self.tiles.clusters();
        (0..count).step_by(TILE).map(move |start| {
            let count = TILE.min(count - start);
            Range { start, count, padded: padded(count) }
        })
    }

    /// Looks up bias and prior of a tile; nothing has no weight.
    fn look_up(&mut self, range: Range, head: usize, table: &[f32]) {
        let Tiles { codes, prior, heads, .. } = self.tiles;
        let all = prior.len();
        let prior = &prior[range.start..][..range.count];
        for (&cluster, row) in self.clusters.iter().zip(self.bias.chunks_exact_mut(TILE)) {
            row[..range.count].copy_from_slice(prior);
            row[range.count..range.padded].fill(f32::NEG_INFINITY);
            if let Some(codes) = codes {
                let codes = &codes[cluster * all + range.start..][..range.count];
                let pairs = row.iter_mut().zip(codes);
                pairs.for_each(|(bias, &code)| *bias += table[code as usize * heads + head]);
            }
        }
    }

    /// Scores of a tile, before the bias.
    fn score(&mut self, range: Range, head: usize, query: &[f32], keys: &[f32]) {
        let Tiles { heads, width, simd, .. } = *self.tiles;
        let left = Left::rows(&query[head * width..], heads * width);
        let right = Right::packed(&keys[range.start * width..], width);
        let mut store = Store::new(&mut self.scores, TILE);
        store.factor = self.tiles.scale();
        product(simd, [self.rows, range.padded, width], left, right, store);
    }

    /// The coins of a tile.
    fn tosses(&self, range: Range, head: usize) -> Option<(&'a Coins, u32)> {
        let nodes = self.tiles.nodes.of_row().len();
        let first = (head * nodes * self.tiles.clusters() + range.start) as u32;
        self.tiles.coins.as_ref().map(|coins| (coins, first))
    }

    fn forward(
        &mut self,
        head: usize,
        query: &[f32],
        keys: &[f32],
        (value, bias): (&[f32], &[f32]),
        out: &mut [f32],
        logarithms: &mut [f32],
    ) {
        let Tiles { heads, width, simd, .. } = *self.tiles;
        let dim = heads * width;
        let mut largest = vec![f32::NEG_INFINITY; self.rows];
        let mut sums = vec![0.0; self.rows];
        let mut factors = vec![0.0; self.rows];
        for range in self.ranges() {
            self.look_up(range, head, bias);
            self.score(range, head, query, keys);
            let coins =
                self.tosses(range, head).map(|(coins, first)| (coins, first, &self.coins[..]));
            simd.run(Powers {
                columns: range.padded,
                bias: (&self.bias, &self.cluster_of_row),
                scores: &mut self.scores,
                largest: &mut largest,
                sums: &mut sums,
                factors: &mut factors,
                coins,
            });
            if range.start > 0 {
                scale_rows(out, dim, head * width..(head + 1) * width, &factors);
            }
            let left = Left::rows(&self.scores, TILE);
            let right = Right::rows(&value[range.start * dim + head * width..], dim);
            let store = Store::adding(&mut out[head * width..], dim);
            product(simd, [self.rows, width, range.count], left, right, store);
        }
        for (row, sum) in sums.iter_mut().enumerate() {
            logarithms[row * heads + head] = largest[row] + sum.ln();
            *sum = 1.0 / *sum;
        }
        scale_rows(out, dim, head * width..(head + 1) * width, &sums);
    }

    #[expect(clippy::too_many_arguments, reason = "all of it is one operation")]
    fn backward(
        &mut self,
        head: usize,
        [query, out, gradient]: [&[f32]; 3],
        [keys, values]: [&[f32]; 2],
        (key, bias): (&[f32], &[f32]),
        logarithms: &[f32],
        by_query: &mut [f32],
        sums: &mut Sums,
    ) {
        let Tiles { heads, width, simd, ref codes, .. } = *self.tiles;
        let (dim, scale) = (heads * width, self.tiles.scale());
        let columns = head * width..(head + 1) * width;
        let pairs = out.chunks_exact(dim).zip(gradient.chunks_exact(dim));
        let means: Vec<f32> = pairs
            .map(|(y, dy)| {
                y[columns.clone()].iter().zip(&dy[columns.clone()]).map(|(y, dy)| y * dy).sum()
            })
            .collect();
        let logarithms: Vec<f32> = logarithms.iter().skip(head).step_by(heads).copied().collect();
        self.second.resize(self.rows * TILE, 0.0);
        for range in self.ranges() {
            self.look_up(range, head, bias);
            self.score(range, head, query, keys);
            let left = Left::rows(&gradient[head * width..], dim);
            let right = Right::packed(&values[range.start * width..], width);
            let store = Store::new(&mut self.second, TILE);
            product(simd, [self.rows, range.padded, width], left, right, store);
            let coins =
                self.tosses(range, head).map(|(coins, first)| (coins, first, &self.coins[..]));
            simd.run(Derivatives {
                columns: range.padded,
                bias: (&self.bias, &self.cluster_of_row),
                scores: &mut self.scores,
                by_weight: &mut self.second,
                logarithms: &logarithms,
                means: &means,
                coins,
            });
            let place = range.start * dim + head * width;
            let size = [range.count, width, self.rows];
            let left = Left::transposed(&self.scores, TILE);
            let right = Right::rows(&gradient[head * width..], dim);
            product(simd, size, left, right, Store::adding(&mut sums.by_value[place..], dim));

            let left = Left::transposed(&self.second, TILE);
            let right = Right::rows(&query[head * width..], dim);
            let mut store = Store::adding(&mut sums.by_key[place..], dim);
            store.factor = scale;
            product(simd, size, left, right, store);

            let left = Left::rows(&self.second, TILE);
            let right = Right::rows(&key[place..], dim);
            let mut store = Store::adding(&mut by_query[head * width..], dim);
            store.factor = scale;
            product(simd, [self.rows, width, range.count], left, right, store);
            if let Some(codes) = codes {
                self.histogram(range, head, codes, &mut sums.by_bias);
            }
        }
    }

    /// Adds derivatives by scores to those of their codes; those of a cluster's nodes are added up first.
    fn histogram(&self, range: Range, head: usize, codes: &[u32], by_bias: &mut [f64]) {
        let (all, heads) = (self.tiles.clusters(), self.tiles.heads);
        let mut row = 0;
        for (number, &cluster) in self.clusters.iter().enumerate() {
            let mut sum = [0.0; TILE];
            while self.cluster_of_row.get(row) == Some(&(number as u32)) {
                let scores = &self.second[row * TILE..][..range.count];
                sum.iter_mut().zip(scores).for_each(|(sum, score)| *sum += score);
                row += 1;
            }
            let codes = &codes[cluster * all + range.start..][..range.count];
            for (&code, &sum) in codes.iter().zip(&sum) {
                by_bias[code as usize * heads + head] += f64::from(sum);
            }
        }
    }
}

/// Multiplies some columns of each row by its factor.
fn scale_rows(rows: &mut [f32], dim: usize, columns: std::ops::Range<usize>, factors: &[f32]) {
    for (row, factor) in rows.chunks_exact_mut(dim).zip(factors) {
        row[columns.clone()].iter_mut().for_each(|x| *x *= factor);
    }
}

/// From scores of a tile to powers, which dropout may take out; sums and largest scores are carried along.
struct Powers<'a> {
    columns: usize,
    /// Rows of bias, and which of them each row has.
    bias: (&'a [f32], &'a [u32]),
    scores: &'a mut [f32],
    largest: &'a mut [f32],
    sums: &'a mut [f32],
    /// What is left of earlier sums.
    factors: &'a mut [f32],
    coins: Option<(&'a Coins, u32, &'a [u32])>,
}

impl Kernel for Powers<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let (bias, which) = self.bias;
        for (row, scores) in self.scores.chunks_exact_mut(TILE).enumerate() {
            let scores = &mut scores.as_chunks_mut::<WIDTH>().0[..self.columns / WIDTH];
            let bias = &bias[which[row] as usize * TILE..].as_chunks::<WIDTH>().0[..scores.len()];
            // SAFETY: eight numbers each.
            unsafe {
                let mut largest = V::splat(self.largest[row]);
                for (score, bias) in scores.iter_mut().zip(bias) {
                    let sum = V::load(score.as_ptr()).add(V::load(bias.as_ptr()));
                    sum.store(score.as_mut_ptr());
                    largest = largest.max(sum);
                }
                let largest = largest.largest();
                let shift = V::splat(largest);
                let mut sum = V::splat(0.0);
                for (number, score) in scores.iter_mut().enumerate() {
                    let mut power = V::load(score.as_ptr()).sub(shift).exp();
                    sum = sum.add(power);
                    if let Some((coins, first, firsts)) = self.coins {
                        let first = first.wrapping_add(firsts[row]);
                        power = power.toss(coins, first.wrapping_add((number * WIDTH) as u32));
                    }
                    power.store(score.as_mut_ptr());
                }
                let factor = (self.largest[row] - largest).exp();
                self.factors[row] = factor;
                self.sums[row] = self.sums[row] * factor + sum.sum();
                self.largest[row] = largest;
            }
        }
    }
}

/// From scores and derivatives by weights after dropout to these weights and derivatives by scores.
struct Derivatives<'a> {
    columns: usize,
    bias: (&'a [f32], &'a [u32]),
    scores: &'a mut [f32],
    by_weight: &'a mut [f32],
    logarithms: &'a [f32],
    /// Σ p dp of each row.
    means: &'a [f32],
    coins: Option<(&'a Coins, u32, &'a [u32])>,
}

impl Kernel for Derivatives<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let (bias, which) = self.bias;
        let rows = self.scores.chunks_exact_mut(TILE).zip(self.by_weight.chunks_exact_mut(TILE));
        for (row, (scores, by_weight)) in rows.enumerate() {
            let scores = &mut scores.as_chunks_mut::<WIDTH>().0[..self.columns / WIDTH];
            let by_weight = by_weight.as_chunks_mut::<WIDTH>().0;
            let bias = bias[which[row] as usize * TILE..].as_chunks::<WIDTH>().0;
            // SAFETY: eight numbers each.
            unsafe {
                let (shift, mean) = (V::splat(self.logarithms[row]), V::splat(self.means[row]));
                let all = scores.iter_mut().zip(by_weight).zip(bias).enumerate();
                for (number, ((score, by_weight), bias)) in all {
                    let sum = V::load(score.as_ptr()).add(V::load(bias.as_ptr()));
                    let weight = sum.sub(shift).exp();
                    let (mut kept, mut by) = (weight, V::load(by_weight.as_ptr()));
                    if let Some((coins, first, firsts)) = self.coins {
                        let first = first.wrapping_add(firsts[row]);
                        let first = first.wrapping_add((number * WIDTH) as u32);
                        kept = weight.toss(coins, first);
                        by = by.toss(coins, first);
                    }
                    kept.store(score.as_mut_ptr());
                    by.sub(mean).mul(weight).store(by_weight.as_mut_ptr());
                }
            }
        }
    }
}
