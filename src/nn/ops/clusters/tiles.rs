//! The kernel: blocks of nodes against tiles of clusters.

use std::sync::Arc;

use super::super::{Kept, Operation, PARTS};
use super::softmax::{Derivatives, Powers};
use crate::nn::fused::Team;
use crate::nn::fused::product::{Left, PANEL, Right, Store, pack, product};
use crate::nn::ops::dense::add_columns;
use crate::nn::ops::rows::Groups;
use crate::rng::Coins;
use crate::simd::{Simd, WIDTH, padded};

/// Nodes of a block: enough that keys and values are read seldom, few enough that scores stay in the cache.
const BLOCK: usize = 120;
/// Clusters of a tile.
pub(super) const TILE: usize = 256;

/// Attention to clusters in blocks and tiles.
#[derive(Debug)]
pub(super) struct Tiles {
    pub nodes: Arc<Groups>,
    /// The code of each pair of clusters, row by row, if there is a bias.
    pub codes: Option<Arc<Vec<u32>>>,
    /// What is added to the scores of each cluster.
    pub prior: Vec<f32>,
    pub heads: usize,
    /// Numbers of a key, and of a value, of one head.
    pub widths: [usize; 2],
    /// Whether all heads read the same query, and add to the same output.
    pub shared: bool,
    /// What products of queries and keys are multiplied by.
    pub scale: f32,
    pub coins: Option<Coins>,
    pub simd: Simd,
    pub team: Arc<Team>,
}

/// What the backward pass needs: for every node and head the logarithm of the sum of powers, nodes in order of clusters.
pub(super) type Logarithms = Vec<f32>;

/// What clusters have: keys, values, the bias of codes, what is added to scores; and what is added to the output.
#[derive(Clone, Copy)]
struct Given<'a> {
    key: &'a [f32],
    value: &'a [f32],
    bias: &'a [f32],
    shift: &'a [f32],
    start: &'a [f32],
}

/// Where a head is in rows, and how long these are.
#[derive(Clone, Copy)]
struct Columns {
    first: usize,
    width: usize,
    stride: usize,
}

impl Operation<6> for Tiles {
    type Saved = Logarithms;
    const KEEPS_OUTPUT: bool = true;

    fn shape(&self, shapes: [[usize; 2]; 6]) -> [usize; 2] {
        [shapes[0][0], self.of_node(1, 0).stride]
    }

    fn forward(&self, inputs: [&[f32]; 6]) -> (Vec<f32>, Logarithms) {
        let [query, key, value, bias, shift, start] = inputs;
        let given = Given { key, value, bias, shift, start };
        let order = Order::new(&self.nodes);
        let [ins, outs] = [0, 1].map(|part| self.of_node(part, 0).stride);
        let query = order.sorted(query, ins);
        let (keys, values) = (self.turned(key, 0), self.packed(value, 1));
        let nodes = self.nodes.of_row().len();
        let mut out = vec![0.0; nodes * outs];
        let mut logarithms = vec![0.0; nodes * self.heads];
        let blocks = out.chunks_mut(BLOCK * outs).zip(logarithms.chunks_mut(BLOCK * self.heads));
        self.team.each(blocks.enumerate(), |(number, (out, logarithms))| {
            let rows = out.len() / outs;
            let mut work = Work::new(self, &order, number * BLOCK, rows);
            let query = &query[number * BLOCK * ins..][..rows * ins];
            for head in 0..self.heads {
                work.forward(head, query, [&keys[head], &values[head]], given, out, logarithms);
            }
        });
        (order.unsorted(out, outs), logarithms)
    }

    fn backward(&self, kept: Kept<'_, Logarithms, 6>, gradient: &[f32]) -> [Vec<f32>; 6] {
        let [query, key, value, bias, shift, start] = kept.inputs;
        let given = Given { key, value, bias, shift, start };
        let order = Order::new(&self.nodes);
        let [ins, outs] = [0, 1].map(|part| self.of_node(part, 0).stride);
        let query = order.sorted(query, ins);
        let [out, gradient] = [kept.output, gradient].map(|rows| order.sorted(rows, outs));
        let turned = [self.turned(key, 0), self.turned(value, 1), self.packed(key, 0)];
        let nodes = self.nodes.of_row().len();
        let count = nodes.div_ceil(PARTS).next_multiple_of(BLOCK).max(BLOCK);
        let mut by_query = vec![0.0; query.len()];
        let mut sums: Vec<Sums> = (0..nodes.div_ceil(count)).map(|_| Sums::new(given)).collect();
        let parts = by_query.chunks_mut(count * ins).zip(&mut sums).enumerate();
        self.team.each(parts, |(part, (by_query, sums))| {
            for (number, by_query) in by_query.chunks_mut(BLOCK * ins).enumerate() {
                let (first, rows) = (part * count + number * BLOCK, by_query.len() / ins);
                let mut work = Work::new(self, &order, first, rows);
                let [out, gradient] =
                    [&out, &gradient].map(|all| &all[first * outs..][..rows * outs]);
                let query = &query[first * ins..][..rows * ins];
                let logarithms = &kept.saved[first * self.heads..][..rows * self.heads];
                if start.len() == outs {
                    add_columns(self.simd, gradient, &mut sums.by_start);
                }
                for head in 0..self.heads {
                    let turned = turned.each_ref().map(|heads| &heads[head][..]);
                    let rows = [query, out, gradient];
                    work.backward(head, rows, turned, given, logarithms, by_query, sums);
                }
            }
        });
        let mut all = Sums::new(given);
        sums.iter().for_each(|part| all.add(part));
        let single = |sums: Vec<f64>| sums.into_iter().map(|sum| sum as f32).collect();
        let Sums { by_key, by_value, by_bias, by_shift, by_start } = all;
        let by_query = order.unsorted(by_query, ins);
        [by_query, by_key, by_value, single(by_bias), single(by_shift), single(by_start)]
    }
}

/// Sums over nodes.
#[derive(Clone, Debug)]
struct Sums {
    by_key: Vec<f32>,
    by_value: Vec<f32>,
    by_bias: Vec<f64>,
    by_shift: Vec<f64>,
    by_start: Vec<f64>,
}

impl Sums {
    fn new(given: Given) -> Sums {
        Sums {
            by_key: vec![0.0; given.key.len()],
            by_value: vec![0.0; given.value.len()],
            by_bias: vec![0.0; given.bias.len()],
            by_shift: vec![0.0; given.shift.len()],
            by_start: vec![0.0; given.start.len()],
        }
    }

    fn add(&mut self, part: &Sums) {
        fn add<T: Copy + std::ops::AddAssign>(sums: &mut [T], own: &[T]) {
            sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += *own);
        }
        add(&mut self.by_key, &part.by_key);
        add(&mut self.by_value, &part.by_value);
        add(&mut self.by_bias, &part.by_bias);
        add(&mut self.by_shift, &part.by_shift);
        add(&mut self.by_start, &part.by_start);
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

    /// Whether something is added to the scores of clusters besides bias and prior.
    fn is_shifted(&self, given: Given) -> bool {
        given.shift.len() == self.clusters() * self.heads
    }

    /// Where a head is in rows of nodes: queries (0), outputs (1).
    fn of_node(&self, part: usize, head: usize) -> Columns {
        let width = self.widths[part];
        match self.shared {
            true => Columns { first: 0, width, stride: width },
            false => self.of_cluster(part, head),
        }
    }

    /// Where a head is in rows of clusters: keys (0), values (1).
    fn of_cluster(&self, part: usize, head: usize) -> Columns {
        let width = self.widths[part];
        Columns { first: head * width, width, stride: self.heads * width }
    }

    /// Keys (0) or values (1) in panels for products, for each head.
    fn packed(&self, rows: &[f32], part: usize) -> Vec<Vec<f32>> {
        let head = |head: usize| {
            let Columns { first, width, stride } = self.of_cluster(part, head);
            let mut panels = Vec::new();
            pack(&rows[first..], stride, [self.clusters(), width], &mut panels);
            panels
        };
        (0..self.heads).map(head).collect()
    }

    /// Keys (0) or values (1) as columns, in panels for products, for each head.
    fn turned(&self, rows: &[f32], part: usize) -> Vec<Vec<f32>> {
        let head = |head: usize| {
            let Columns { first, width, stride } = self.of_cluster(part, head);
            let mut panels = vec![0.0; self.clusters().next_multiple_of(PANEL) * width];
            for (cluster, row) in rows.chunks_exact(stride).enumerate() {
                let panel = &mut panels[cluster / PANEL * PANEL * width..];
                for (column, &x) in row[first..][..width].iter().enumerate() {
                    panel[column * PANEL + cluster % PANEL] = x;
                }
            }
            panels
        };
        (0..self.heads).map(head).collect()
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
    mixed: Vec<f32>,
    /// From a row of scores or bias to the next.
    stride: usize,
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
        // An odd number of vectors: rows that are a power of two apart meet in the same places of the cache.
        let vectors = tiles.clusters().min(TILE).div_ceil(WIDTH);
        let stride = (vectors + 1 - vectors % 2) * WIDTH;
        let bias = vec![0.0; clusters.len() * stride];
        let scores = vec![0.0; rows * stride];
        let (second, mixed) = (Vec::new(), Vec::new());
        Work { tiles, rows, clusters, cluster_of_row, coins, bias, scores, second, mixed, stride }
    }

    fn ranges(&self) -> impl Iterator<Item = Range> + use<> {
        let count = self.tiles.clusters();
        (0..count).step_by(TILE).map(move |start| {
            let count = TILE.min(count - start);
            Range { start, count, padded: padded(count) }
        })
    }

    /// Looks up bias and prior of a tile; nothing has no weight.
    fn look_up(&mut self, range: Range, head: usize, given: Given) {
        let Tiles { codes, prior, heads, .. } = self.tiles;
        let all = prior.len();
        let prior = &prior[range.start..][..range.count];
        for (&cluster, row) in self.clusters.iter().zip(self.bias.chunks_exact_mut(self.stride)) {
            row[..range.count].copy_from_slice(prior);
            row[range.count..range.padded].fill(f32::NEG_INFINITY);
            if let Some(codes) = codes {
                let codes = &codes[cluster * all + range.start..][..range.count];
                let pairs = row.iter_mut().zip(codes);
                pairs.for_each(|(bias, &code)| *bias += given.bias[code as usize * heads + head]);
            }
            if self.tiles.is_shifted(given) {
                let shift = given.shift.iter().skip(range.start * heads + head).step_by(*heads);
                row[..range.count].iter_mut().zip(shift).for_each(|(bias, shift)| *bias += shift);
            }
        }
    }

    /// Scores of a tile, before the bias.
    fn score(&mut self, range: Range, head: usize, query: &[f32], keys: &[f32]) {
        let Columns { first, width, stride } = self.tiles.of_node(0, head);
        let left = Left::rows(&query[first..], stride);
        let right = Right::packed(&keys[range.start * width..], width);
        let mut store = Store::new(&mut self.scores, self.stride);
        store.factor = self.tiles.scale;
        product(self.tiles.simd, [self.rows, range.padded, width], left, right, store);
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
        [keys, values]: [&[f32]; 2],
        given: Given,
        out: &mut [f32],
        logarithms: &mut [f32],
    ) {
        let Tiles { heads, simd, .. } = *self.tiles;
        let place = self.tiles.of_node(1, head);
        let width = place.width;
        self.mixed.resize(self.rows * width, 0.0);
        let mut largest = vec![f32::NEG_INFINITY; self.rows];
        let mut sums = vec![0.0; self.rows];
        let mut factors = vec![0.0; self.rows];
        for range in self.ranges() {
            self.look_up(range, head, given);
            self.score(range, head, query, keys);
            let coins =
                self.tosses(range, head).map(|(coins, first)| (coins, first, &self.coins[..]));
            simd.run(Powers {
                size: [range.padded, self.stride],
                bias: (&self.bias, &self.cluster_of_row),
                scores: &mut self.scores,
                largest: &mut largest,
                sums: &mut sums,
                factors: &mut factors,
                coins,
            });
            let left = Left::rows(&self.scores, self.stride);
            let right = Right::packed(&values[range.start * PANEL..], self.tiles.clusters());
            let mut store = Store::new(&mut self.mixed, width);
            if range.start > 0 {
                for (row, factor) in store.out.chunks_exact_mut(width).zip(&factors) {
                    row.iter_mut().for_each(|x| *x *= factor);
                }
                store.add = true;
            }
            product(simd, [self.rows, width, range.count], left, right, store);
        }
        let start = match given.start.len() == place.stride && head == 0 {
            true => Some(given.start),
            false => None,
        };
        let rows = out.chunks_exact_mut(place.stride).zip(self.mixed.chunks_exact(width));
        for (row, (out, mixed)) in rows.enumerate() {
            logarithms[row * heads + head] = largest[row] + sums[row].ln();
            let factor = 1.0 / sums[row];
            let own = &mut out[place.first..][..width];
            own.iter_mut().zip(mixed).for_each(|(y, x)| *y += x * factor);
            if let Some(start) = start {
                out.iter_mut().zip(start).for_each(|(y, x)| *y += x);
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "all of it is one operation")]
    fn backward(
        &mut self,
        head: usize,
        [query, out, gradient]: [&[f32]; 3],
        [keys, values, packed_keys]: [&[f32]; 3],
        given: Given,
        logarithms: &[f32],
        by_query: &mut [f32],
        sums: &mut Sums,
    ) {
        let Tiles { heads, simd, scale, ref codes, .. } = *self.tiles;
        let [asked, made] = [0, 1].map(|part| self.tiles.of_node(part, head));
        let [key, value] = [0, 1].map(|part| self.tiles.of_cluster(part, head));
        let logarithms: Vec<f32> = logarithms.iter().skip(head).step_by(heads).copied().collect();
        let means = (self.tiles.clusters() > TILE).then(|| self.means(made, out, gradient, given));
        self.second.resize(self.rows * self.stride, 0.0);
        let (mut queries, mut gradients) = (Vec::new(), Vec::new());
        pack(&query[asked.first..], asked.stride, [self.rows, asked.width], &mut queries);
        pack(&gradient[made.first..], made.stride, [self.rows, made.width], &mut gradients);
        for range in self.ranges() {
            self.look_up(range, head, given);
            self.score(range, head, query, keys);
            let by_out = &gradient[made.first..];
            let right = Right::packed(&values[range.start * made.width..], made.width);
            let store = Store::new(&mut self.second, self.stride);
            let size = [self.rows, range.padded, made.width];
            product(simd, size, Left::rows(by_out, made.stride), right, store);
            let coins =
                self.tosses(range, head).map(|(coins, first)| (coins, first, &self.coins[..]));
            simd.run(Derivatives {
                size: [range.padded, self.stride],
                bias: (&self.bias, &self.cluster_of_row),
                scores: &mut self.scores,
                by_weight: &mut self.second,
                logarithms: &logarithms,
                means: means.as_deref(),
                coins,
            });
            let into = &mut sums.by_value[range.start * value.stride + value.first..];
            let left = Left::transposed(&self.scores, self.stride);
            let size = [range.count, value.width, self.rows];
            let right = Right::packed(&gradients, self.rows);
            product(simd, size, left, right, Store::adding(into, value.stride));

            let place = range.start * key.stride + key.first;
            let left = Left::transposed(&self.second, self.stride);
            let right = Right::packed(&queries, self.rows);
            let mut store = Store::adding(&mut sums.by_key[place..], key.stride);
            store.factor = scale;
            product(simd, [range.count, key.width, self.rows], left, right, store);

            let left = Left::rows(&self.second, self.stride);
            let right = Right::packed(&packed_keys[range.start * PANEL..], self.tiles.clusters());
            let mut store = Store::adding(&mut by_query[asked.first..], asked.stride);
            store.factor = scale;
            product(simd, [self.rows, key.width, range.count], left, right, store);
            let shifted = self.tiles.is_shifted(given);
            if shifted || codes.is_some() {
                self.histogram(range, head, codes.as_ref().map(|codes| &codes[..]), shifted, sums);
            }
        }
    }

    /// Σ p dp of each row, which is that of output and its derivative.
    fn means(&self, made: Columns, out: &[f32], gradient: &[f32], given: Given) -> Vec<f32> {
        let has_start = given.start.len() == made.stride;
        assert!(!self.tiles.shared || self.tiles.heads == 1, "the output of one head");
        let rows = out.chunks_exact(made.stride).zip(gradient.chunks_exact(made.stride));
        let product = |(y, dy): (&[f32], &[f32])| {
            let own = made.first..made.first + made.width;
            let start = given.start.get(own.clone()).filter(|_| has_start);
            let pairs = y[own.clone()].iter().zip(&dy[own]).enumerate();
            pairs.map(|(i, (y, dy))| (y - start.map_or(0.0, |start| start[i])) * dy).sum()
        };
        rows.map(product).collect()
    }

    /// Adds derivatives by scores to those of their codes and clusters; those of a cluster's nodes are added up first.
    fn histogram(
        &self,
        range: Range,
        head: usize,
        codes: Option<&[u32]>,
        shifted: bool,
        sums: &mut Sums,
    ) {
        let (all, heads) = (self.tiles.clusters(), self.tiles.heads);
        let mut row = 0;
        for (number, &cluster) in self.clusters.iter().enumerate() {
            let mut sum = [0.0; TILE];
            while self.cluster_of_row.get(row) == Some(&(number as u32)) {
                let scores = &self.second[row * self.stride..][..range.count];
                sum.iter_mut().zip(scores).for_each(|(sum, score)| *sum += score);
                row += 1;
            }
            if let Some(codes) = codes {
                let codes = &codes[cluster * all + range.start..][..range.count];
                for (&code, &sum) in codes.iter().zip(&sum) {
                    sums.by_bias[code as usize * heads + head] += f64::from(sum);
                }
            }
            if shifted {
                let own = sums.by_shift.iter_mut().skip(range.start * heads + head).step_by(heads);
                own.zip(&sum[..range.count]).for_each(|(own, sum)| *own += f64::from(*sum));
            }
        }
    }
}
