//! Weighted sums over arcs: y_i = Σ_{j → i} f_ji x_j, what graph convolution and means over neighbours are.
//!
//! The derivative is the same over arcs turned round. Both directions are kept in compressed rows with their factors, so
//! that nothing of the size of arcs × width exists, rows are written by one thread each, and sums run in the order
//! of arcs.

use std::sync::Arc;

use burn::tensor::Tensor;

use super::rows::{Groups, gather, sum};
use super::{Kept, Operation, apply};
use crate::nn::fused::Team;
use crate::nn::pass::{Pass, matrix};
use crate::simd::{Kernel, Simd, Vector, WIDTH};

/// Arcs with factors.
#[derive(Debug)]
pub struct Propagation {
    sources: Arc<Groups>,
    targets: Arc<Groups>,
    factors: Vec<f32>,
    forward: Arc<Lines>,
    backward: Arc<Lines>,
}

/// For every node, the nodes that it reads and their factors: a sparse matrix in compressed rows.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) offsets: Vec<usize>,
    pub(super) nodes: Vec<u32>,
    pub(super) factors: Vec<f32>,
}

impl Lines {
    /// The nodes that node `line` reads and their factors.
    pub(super) fn line(&self, line: usize) -> impl Iterator<Item = (usize, f32)> + '_ {
        let range = self.offsets[line]..self.offsets[line + 1];
        let nodes = self.nodes[range.clone()].iter().map(|&node| node as usize);
        nodes.zip(self.factors[range].iter().copied())
    }

    /// Some of the lines.
    pub(super) fn some(&self, lines: &[u32]) -> Lines {
        let mut some = Lines { offsets: vec![0], nodes: Vec::new(), factors: Vec::new() };
        for &line in lines {
            let range = self.offsets[line as usize]..self.offsets[line as usize + 1];
            some.nodes.extend_from_slice(&self.nodes[range.clone()]);
            some.factors.extend_from_slice(&self.factors[range]);
            some.offsets.push(some.nodes.len());
        }
        some
    }

    /// Who reads a node instead of whom it reads; there are so many to be read.
    pub(super) fn transposed(&self, count: usize) -> Lines {
        let mut offsets = vec![0; count + 1];
        self.nodes.iter().for_each(|&node| offsets[node as usize + 1] += 1);
        for node in 0..count {
            offsets[node + 1] += offsets[node];
        }
        let mut next = offsets.clone();
        let (mut nodes, mut factors) = (vec![0; self.nodes.len()], vec![0.0; self.nodes.len()]);
        for line in 0..self.offsets.len() - 1 {
            for (node, factor) in self.line(line) {
                (nodes[next[node]], factors[next[node]]) = (line as u32, factor);
                next[node] += 1;
            }
        }
        Lines { offsets, nodes, factors }
    }

    /// For every line, the sum of the rows it reads times their factors.
    pub(super) fn sums(&self, (team, simd): (&Team, Simd), x: &[f32], width: usize) -> Vec<f32> {
        let mut y = vec![0.0; (self.offsets.len() - 1) * width];
        team.share_rows(&mut y, width, |first, y| {
            simd.run(Along { lines: self, width, first, x, y });
        });
        y
    }

    /// The same as the sums of the transposed lines, of which there are `count`: every line adds its row to what it
    /// reads. For few things that are read by many.
    pub(super) fn scattered(
        &self,
        (team, simd): (&Team, Simd),
        x: &[f32],
        width: usize,
        count: usize,
    ) -> Vec<f32> {
        const PARTS: usize = 8;
        let lines = self.offsets.len() - 1;
        let each = lines.div_ceil(PARTS).max(1);
        let mut parts: Vec<Vec<f32>> = vec![vec![0.0; count * width]; lines.div_ceil(each)];
        team.each(parts.iter_mut().enumerate(), |(part, y)| {
            let lines = part * each..lines.min((part + 1) * each);
            simd.run(Scatter { lines: self, some: lines, width, x, y });
        });
        let mut parts = parts.into_iter();
        let mut sum = parts.next().unwrap_or_default();
        for part in parts {
            sum.iter_mut().zip(&part).for_each(|(sum, own)| *sum += own);
        }
        sum
    }

    fn new(at: &Groups, from: &Groups, factors: &[f32]) -> Lines {
        let mut lines = Lines { offsets: vec![0], nodes: Vec::new(), factors: Vec::new() };
        for node in 0..at.len() {
            for &arc in at.rows(node) {
                lines.nodes.push(from.of_row()[arc as usize]);
                lines.factors.push(factors[arc as usize]);
            }
            lines.offsets.push(lines.nodes.len());
        }
        lines
    }
}

impl Propagation {
    /// Arcs by where they start and where they end, with a factor each.
    ///
    /// # Panics
    /// If there are not as many sources, targets and factors.
    pub fn new(sources: Arc<Groups>, targets: Arc<Groups>, factors: Vec<f32>) -> Propagation {
        let arcs = [sources.of_row().len(), targets.of_row().len()];
        assert_eq!(arcs, [factors.len(); 2], "two ends and a factor for each arc");
        let forward = Lines::new(&targets, &sources, &factors);
        let backward = forward.transposed(sources.len());
        let (forward, backward) = (Arc::new(forward), Arc::new(backward));
        Propagation { sources, targets, factors, forward, backward }
    }
}

impl Propagation {
    /// The sums of rows of `width` numbers, by a team.
    pub(super) fn sums(&self, by: (&Team, Simd), x: &[f32], width: usize) -> Vec<f32> {
        self.forward.sums(by, x, width)
    }
}

/// y_i = Σ_{j → i} f_ji x_j: `[nodes, width]` → `[nodes, width]`.
pub fn propagate(pass: &Pass, arcs: &Arc<Propagation>, x: Tensor<2>) -> Tensor<2> {
    let width = x.dims()[1];
    let composed = |x: Tensor<2>| {
        let factors = matrix(arcs.factors.clone(), [arcs.factors.len(), 1], pass.device());
        sum(pass, &arcs.targets, gather(pass, &arcs.sources, x) * factors)
    };
    if pass.is_composed() {
        return composed(x);
    }
    let (forward, backward) = (arcs.forward.clone(), arcs.backward.clone());
    let (simd, team) = (pass.simd(), pass.team().clone());
    let kernel = Arc::new(Propagate { forward, backward, width, simd, team });
    apply(&kernel, [x]).unwrap_or_else(|[x]| composed(x))
}

/// The same for some nodes only: `[nodes, width]` → `[rows, width]`.
pub fn propagate_to(
    pass: &Pass,
    arcs: &Arc<Propagation>,
    x: Tensor<2>,
    rows: &Arc<Groups>,
) -> Tensor<2> {
    if pass.is_composed() {
        return gather(pass, rows, propagate(pass, arcs, x));
    }
    let forward = arcs.forward.some(rows.of_row());
    let backward = Arc::new(forward.transposed(rows.len()));
    let (width, simd, team) = (x.dims()[1], pass.simd(), pass.team().clone());
    let kernel = Arc::new(Propagate { forward: Arc::new(forward), backward, width, simd, team });
    apply(&kernel, [x]).unwrap_or_else(|[x]| gather(pass, rows, propagate(pass, arcs, x)))
}

#[derive(Debug)]
struct Propagate {
    forward: Arc<Lines>,
    backward: Arc<Lines>,
    width: usize,
    simd: Simd,
    team: Arc<Team>,
}

impl Operation<1> for Propagate {
    type Saved = ();
    const KEEPS_INPUTS: bool = false;

    fn shape(&self, _: [[usize; 2]; 1]) -> [usize; 2] {
        [self.forward.offsets.len() - 1, self.width]
    }

    fn forward(&self, [x]: [&[f32]; 1]) -> (Vec<f32>, ()) {
        (self.forward.sums((&self.team, self.simd), x, self.width), ())
    }

    fn backward(&self, _: Kept<'_, (), 1>, gradient: &[f32]) -> [Vec<f32>; 1] {
        [self.backward.sums((&self.team, self.simd), gradient, self.width)]
    }
}

struct Scatter<'a> {
    lines: &'a Lines,
    some: std::ops::Range<usize>,
    width: usize,
    x: &'a [f32],
    y: &'a mut [f32],
}

impl Kernel for Scatter<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        for line in self.some {
            let x = &self.x[line * self.width..][..self.width];
            let (vectors, rest) = x.as_chunks::<WIDTH>();
            for (node, factor) in self.lines.line(line) {
                let y = &mut self.y[node * self.width..][..self.width];
                let (sums, others) = y.as_chunks_mut::<WIDTH>();
                for (sum, x) in sums.iter_mut().zip(vectors) {
                    // SAFETY: eight numbers each.
                    unsafe {
                        let sums = V::load(sum.as_ptr());
                        V::load(x.as_ptr()).mul_add(V::splat(factor), sums).store(sum.as_mut_ptr());
                    }
                }
                others.iter_mut().zip(rest).for_each(|(sum, x)| *sum += x * factor);
            }
        }
    }
}

struct Along<'a> {
    lines: &'a Lines,
    width: usize,
    first: usize,
    x: &'a [f32],
    y: &'a mut [f32],
}

/// Vectors that are summed up at a time.
const AT_ONCE: usize = 8;

impl Along<'_> {
    /// Adds up `VECTORS` vectors of columns.
    #[inline(always)]
    unsafe fn columns<V: Vector, const VECTORS: usize>(&mut self, column: usize) {
        for (row, y) in self.y.chunks_exact_mut(self.width).enumerate() {
            let line =
                self.lines.offsets[self.first + row]..self.lines.offsets[self.first + row + 1];
            let nodes = &self.lines.nodes[line.clone()];
            // SAFETY: every node has a row of `width` numbers, of which these are columns.
            unsafe {
                let mut sums = [V::splat(0.0); VECTORS];
                for (&node, &factor) in nodes.iter().zip(&self.lines.factors[line]) {
                    let place = node as usize * self.width + column;
                    let x = self.x[place..][..VECTORS * WIDTH].as_ptr();
                    let factor = V::splat(factor);
                    for (v, sum) in sums.iter_mut().enumerate() {
                        *sum = V::load(x.add(v * WIDTH)).mul_add(factor, *sum);
                    }
                }
                let y = y[column..][..VECTORS * WIDTH].as_mut_ptr();
                for (v, sum) in sums.into_iter().enumerate() {
                    sum.store(y.add(v * WIDTH));
                }
            }
        }
    }
}

impl Kernel for Along<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(mut self) {
        let mut column = 0;
        // SAFETY: whole vectors within a row.
        unsafe {
            while column + AT_ONCE * WIDTH <= self.width {
                self.columns::<V, AT_ONCE>(column);
                column += AT_ONCE * WIDTH;
            }
            while column + WIDTH <= self.width {
                self.columns::<V, 1>(column);
                column += WIDTH;
            }
        }
        for (row, y) in self.y.chunks_exact_mut(self.width.max(1)).enumerate() {
            for (column, y) in y.iter_mut().enumerate().skip(column) {
                let line = self.lines.line(self.first + row);
                *y = line.map(|(node, f)| f * self.x[node * self.width + column]).sum();
            }
        }
    }
}
