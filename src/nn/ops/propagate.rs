//! Weighted sums over arcs: y_i = Σ_{j → i} f_ji x_j, what graph convolution and means over neighbours are.
//!
//! The derivative is the same over arcs turned round. Both directions are kept in compressed rows with their factors, so
//! that nothing of the size of arcs × width exists, rows are written by one thread each, and sums run in the order
//! of arcs.

use std::sync::Arc;

use burn::tensor::Tensor;

use super::rows::{Groups, gather, sum};
use super::{Kept, Operation, PARTS, apply};
use crate::nn::fused::Team;
use crate::nn::pass::{Pass, matrix};
use crate::simd::{Kernel, Lanes, Simd, Vector};

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

impl Scatter<'_> {
    #[inline(always)]
    unsafe fn add<L: Lanes>(self) {
        let whole = self.width - self.width % L::COUNT;
        for line in self.some {
            let x = &self.x[line * self.width..][..self.width];
            for (node, factor) in self.lines.line(line) {
                let y = &mut self.y[node * self.width..][..self.width];
                for column in (0..whole).step_by(L::COUNT) {
                    // SAFETY: within rows of both.
                    unsafe {
                        let (x, y) = (x.as_ptr().add(column), y.as_mut_ptr().add(column));
                        L::load(x).mul_add(L::splat(factor), L::load(y)).store(y);
                    }
                }
                let rest = y[whole..].iter_mut().zip(&x[whole..]);
                rest.for_each(|(sum, x)| *sum += x * factor);
            }
        }
    }
}

impl Kernel for Scatter<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        // SAFETY: as the caller's.
        unsafe { self.add::<V>() }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn run_wide(self) {
        use std::arch::x86_64::{__m256, __m512};
        // SAFETY: the same. Numbers beyond whole registers are summed with two roundings each.
        unsafe {
            match self.width.is_multiple_of(<__m512 as Lanes>::COUNT) {
                true => self.add::<__m512>(),
                false => self.add::<__m256>(),
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

/// Registers that are summed up at a time.
const AT_ONCE: usize = 8;

impl Along<'_> {
    /// Adds up columns from `column` on as far as they fill registers, and gives the first that do not.
    #[inline(always)]
    unsafe fn whole<L: Lanes>(&mut self, mut column: usize) -> usize {
        // SAFETY: whole registers within a row.
        unsafe {
            while column + AT_ONCE * L::COUNT <= self.width {
                self.columns::<L, AT_ONCE>(column);
                column += AT_ONCE * L::COUNT;
            }
            while column + L::COUNT <= self.width {
                self.columns::<L, 1>(column);
                column += L::COUNT;
            }
        }
        column
    }

    /// Adds up `REGISTERS` registers of columns.
    #[inline(always)]
    unsafe fn columns<L: Lanes, const REGISTERS: usize>(&mut self, column: usize) {
        for (row, y) in self.y.chunks_exact_mut(self.width).enumerate() {
            let line =
                self.lines.offsets[self.first + row]..self.lines.offsets[self.first + row + 1];
            let nodes = &self.lines.nodes[line.clone()];
            // SAFETY: every node has a row of `width` numbers, of which these are columns.
            unsafe {
                let mut sums = [L::splat(0.0); REGISTERS];
                for (&node, &factor) in nodes.iter().zip(&self.lines.factors[line]) {
                    let place = node as usize * self.width + column;
                    let x = self.x[place..][..REGISTERS * L::COUNT].as_ptr();
                    let factor = L::splat(factor);
                    for (v, sum) in sums.iter_mut().enumerate() {
                        *sum = L::load(x.add(v * L::COUNT)).mul_add(factor, *sum);
                    }
                }
                let y = y[column..][..REGISTERS * L::COUNT].as_mut_ptr();
                for (v, sum) in sums.into_iter().enumerate() {
                    sum.store(y.add(v * L::COUNT));
                }
            }
        }
    }

    /// Adds up columns from `column` on, one by one.
    #[inline(always)]
    fn rest(&mut self, column: usize) {
        for (row, y) in self.y.chunks_exact_mut(self.width.max(1)).enumerate() {
            for (column, y) in y.iter_mut().enumerate().skip(column) {
                let line = self.lines.line(self.first + row);
                *y = line.map(|(node, f)| f * self.x[node * self.width + column]).sum();
            }
        }
    }
}

impl Kernel for Along<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(mut self) {
        // SAFETY: as the caller's.
        let column = unsafe { self.whole::<V>(0) };
        self.rest(column);
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn run_wide(mut self) {
        use std::arch::x86_64::{__m256, __m512};
        // SAFETY: the same.
        let column = unsafe {
            let column = self.whole::<__m512>(0);
            self.whole::<__m256>(column)
        };
        self.rest(column);
    }
}

#[cfg(test)]
mod tests {
    use super::super::differences::{random, ways};
    use super::*;

    /// Five lines over seven rows, one of them empty.
    fn lines() -> Lines {
        let nodes = vec![0, 6, 3, 3, 2, 1, 5, 4, 0];
        Lines {
            offsets: vec![0, 2, 2, 5, 6, 9],
            factors: random(nodes.len(), [-1.0, 1.0], 1),
            nodes,
        }
    }

    #[test]
    fn sums_of_all_widths_are_those_of_the_definition_whatever_the_registers() {
        let lines = lines();
        for width in [1, 8, 13, 16, 24, 40, 64, 136, 261] {
            let [read, written] = [7, 5].map(|rows| random(rows * width, [-1.0, 1.0], 2));
            let found: Vec<[Vec<f32>; 2]> = ways()
                .map(|(simd, team)| {
                    let sums = lines.sums((&team, simd), &read, width);
                    [sums, lines.scattered((&team, simd), &written, width, 7)]
                })
                .collect();
            let mut expected = [vec![0.0; 5 * width], vec![0.0; 7 * width]];
            for line in 0..5 {
                for (node, factor) in lines.line(line) {
                    for column in 0..width {
                        let (above, below) = (line * width + column, node * width + column);
                        expected[0][above] += factor * read[below];
                        expected[1][below] += factor * written[above];
                    }
                }
            }
            for found in &found {
                for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
                    assert!((found - expected).abs() < 1e-6, "{width}: {found} {expected}");
                }
            }
            // The first has no fused multiply-add.
            assert!(found[1..].windows(2).all(|two| two[0] == two[1]), "{width}");
        }
    }
}
