//! Linear maps as the products want them.
//!
//! Parameters lie row by row, `[outputs, inputs]`. A product wants them in panels of 16 columns: 16 outputs for
//! y = W x, 16 inputs for the derivative by x. Both copies are made anew in every pass, which takes a percent
//! of its time. A [`Map`] can put together rows of several parameters (query, key and value; the four maps of
//! GatedGCN) and leave columns free between heads, so that every head begins a vector; columns that no
//! parameter has are zero.

use super::product::{Epilogue, Left, PANEL, Right, outer, product};
use crate::simd::{Kernel, Simd, Vector};

/// Neighbouring inputs and the columns they are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First input of the parameter.
    pub from: usize,
    /// How many.
    pub count: usize,
    /// First column.
    pub column: usize,
}

/// Rows of one parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Where the weights of the first row are among all trained numbers.
    pub weight: usize,
    /// Where its bias is.
    pub bias: Option<usize>,
    /// How many rows.
    pub count: usize,
    /// The column of the first.
    pub column: usize,
}

/// A linear map: where its parameters are, and both packed copies.
#[derive(Clone, Debug, Default)]
pub struct Map {
    /// Inputs that parameters have.
    inputs: usize,
    from: Vec<Run>,
    to: Vec<Rows>,
    /// Columns of inputs and outputs, in whole panels.
    width: [usize; 2],
    /// Columns of inputs, and of outputs, up to the last that is used.
    inner: usize,
    outer: usize,
    forward: Vec<f32>,
    backward: Vec<f32>,
    bias: Vec<f32>,
}

impl Map {
    /// A map of `inputs` numbers, found in the columns that `from` says, to rows of parameters.
    pub fn new(inputs: usize, from: Vec<Run>, to: Vec<Rows>) -> Map {
        let inner = from.iter().map(|run| run.column + run.count).max().unwrap_or(0);
        let outer = to.iter().map(|rows| rows.column + rows.count).max().unwrap_or(0);
        let width = [inner, outer].map(|count| count.next_multiple_of(PANEL));
        let to = joined(to, inputs);
        Map { inputs, from, to, width, inner, outer, ..Map::default() }
    }

    /// Columns of the output.
    pub fn outputs(&self) -> usize {
        self.width[1]
    }

    /// The bias of every column.
    pub fn bias(&self) -> &[f32] {
        &self.bias
    }

    /// Packs the weights anew.
    pub fn pack(&mut self, trained: &[f32], with_backward: bool) {
        let [ins, outs] = self.width;
        let inner = self.inner;
        // Columns without a parameter stay zero from the first time on.
        self.forward.resize(outs * inner, 0.0);
        self.bias.resize(outs, 0.0);
        if with_backward {
            self.backward.resize(ins * outs, 0.0);
        }
        for rows in &self.to {
            for row in 0..rows.count {
                let column = rows.column + row;
                let weights = &trained[rows.weight + row * self.inputs..][..self.inputs];
                let panel = &mut self.forward[column / PANEL * inner * PANEL..][..inner * PANEL];
                let places = panel.as_chunks_mut::<PANEL>().0;
                for run in &self.from {
                    let weights = &weights[run.from..][..run.count];
                    for (&weight, place) in weights.iter().zip(&mut places[run.column..]) {
                        place[column % PANEL] = weight;
                    }
                    if with_backward {
                        // As far as the next panel at a time.
                        let (mut input, mut weights) = (run.column, weights);
                        while !weights.is_empty() {
                            let count = weights.len().min(PANEL - input % PANEL);
                            let (own, others) = weights.split_at(count);
                            let place = (input / PANEL * outs + column) * PANEL + input % PANEL;
                            self.backward[place..][..count].copy_from_slice(own);
                            (input, weights) = (input + count, others);
                        }
                    }
                }
                if let Some(bias) = rows.bias {
                    self.bias[column] = trained[bias + row];
                }
            }
        }
    }

    /// f(x W ᵀ) for rows of x, `stride` apart.
    pub fn forward(&self, simd: Simd, rows: usize, x: &[f32], stride: usize, f: impl Epilogue) {
        let right = Right::packed(&self.forward, self.inner);
        product(simd, [rows, self.width[1], self.inner], Left::rows(x, stride), right, f);
    }

    /// f(d W) for rows of the derivative by the output.
    pub fn backward(&self, simd: Simd, rows: usize, d: &[f32], f: impl Epilogue) {
        let [ins, outs] = self.width;
        let right = Right::packed(&self.backward, outs);
        product(simd, [rows, ins, self.outer], Left::rows(d, outs), right, f);
    }

    /// The derivatives by weights and bias. Rows of x are `stride` apart, those of d as the output has them.
    pub fn gradient(
        &self,
        simd: Simd,
        count: usize,
        d: &[f32],
        x: &[f32],
        stride: usize,
        into: Slot<'_>,
    ) {
        let Slot { numbers, start, add } = into;
        let outs = self.width[1];
        for rows in &self.to {
            for run in &self.from {
                let size = [count, rows.count, run.count];
                let into = &mut numbers[rows.weight - start + run.from..];
                let (d, x) = (d.get(rows.column..), x.get(run.column..));
                let (d, x) = (d.unwrap_or_default(), x.unwrap_or_default());
                outer(simd, size, (d, outs), (x, stride), (into, self.inputs), add);
            }
            if let Some(bias) = rows.bias {
                let into = &mut numbers[bias - start..][..rows.count];
                simd.run(ColumnSums {
                    rows: count,
                    d,
                    stride: outs,
                    column: rows.column,
                    into,
                    add,
                });
            }
        }
    }
}

/// Where derivatives by parameters go: a copy of the parameters from number `start` on.
#[derive(Debug)]
pub struct Slot<'a> {
    pub numbers: &'a mut [f32],
    pub start: usize,
    /// Add to what is there, instead of replacing it.
    pub add: bool,
}

impl Slot<'_> {
    /// The same, to be used once more.
    pub fn again(&mut self) -> Slot<'_> {
        Slot { numbers: self.numbers, start: self.start, add: self.add }
    }
}

/// Rows that follow each other in parameters and columns, taken as one.
fn joined(rows: Vec<Rows>, inputs: usize) -> Vec<Rows> {
    let mut joined: Vec<Rows> = Vec::new();
    for next in rows {
        match joined.last_mut() {
            Some(last)
                if last.weight + last.count * inputs == next.weight
                    && last.bias.map(|bias| bias + last.count) == next.bias
                    && last.column + last.count == next.column =>
            {
                last.count += next.count;
            }
            _ => joined.push(next),
        }
    }
    joined
}

struct ColumnSums<'a> {
    rows: usize,
    d: &'a [f32],
    stride: usize,
    column: usize,
    into: &'a mut [f32],
    add: bool,
}

impl Kernel for ColumnSums<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        if !self.add {
            self.into.fill(0.0);
        }
        for row in 0..self.rows {
            let d = &self.d[row * self.stride + self.column..][..self.into.len()];
            for (sum, d) in self.into.iter_mut().zip(d) {
                *sum += d;
            }
        }
    }
}
