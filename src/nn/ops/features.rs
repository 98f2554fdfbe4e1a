//! Linear maps of features that are given: dense, or with sparse rows.
//!
//! Features get no derivative, and bags of words are zeros but for a percent. So y = X Wᵀ + b is a sum of a few columns
//! of W for each node, and the derivative by a column of W a sum over the nodes that have it: both are
//! [propagation](super::propagate), from features to nodes and back.

use std::sync::Arc;

use burn::tensor::Tensor;

use super::dense::{add_columns, map_rows, restrided, weight_gradient};
use super::propagate::{Lines, Propagation};
use super::{Kept, Operation, apply};
use crate::data::nodes::Sparse;
use crate::nn::fused::Team;
use crate::nn::layers::project;
use crate::nn::pass::{Pass, matrix};
use crate::simd::{Simd, padded};

/// Features of nodes, one row each.
#[derive(Debug)]
pub struct FeatureRows {
    rows: usize,
    width: usize,
    numbers: Numbers,
}

#[derive(Debug)]
enum Numbers {
    /// Rows padded with zeros to whole vectors.
    Dense(Vec<f32>),
    Sparse {
        by_row: Lines,
        by_column: Lines,
    },
}

impl FeatureRows {
    /// Rows of `width` numbers, one after another.
    ///
    /// # Panics
    /// If the last row is not complete.
    pub fn dense(width: usize, values: Vec<f32>) -> FeatureRows {
        assert!(width > 0 && values.len().is_multiple_of(width), "complete rows");
        let rows = values.len() / width;
        FeatureRows {
            rows,
            width,
            numbers: Numbers::Dense(restrided(&values, width, padded(width)).into_owned()),
        }
    }

    /// Rows of `width` numbers, one after another, kept as sparse ones if at most an eighth are not 0: bags of words come
    /// in dense files, too.
    ///
    /// # Panics
    /// If the last row is not complete.
    pub fn new(width: usize, values: Vec<f32>) -> FeatureRows {
        let entries = values.iter().filter(|value| **value != 0.0).count();
        if entries > values.len() / 8 {
            return FeatureRows::dense(width, values);
        }
        let mut by_row = Lines { offsets: vec![0], nodes: Vec::new(), factors: Vec::new() };
        for row in values.chunks_exact(width) {
            for (column, &value) in row.iter().enumerate().filter(|(_, value)| **value != 0.0) {
                by_row.nodes.push(column as u32);
                by_row.factors.push(value);
            }
            by_row.offsets.push(by_row.nodes.len());
        }
        FeatureRows::of_lines(width, by_row)
    }

    /// Rows of which most numbers are 0.
    pub fn sparse(matrix: &Sparse) -> FeatureRows {
        let by_row = Lines {
            offsets: matrix.offsets().iter().map(|&offset| offset as usize).collect(),
            nodes: matrix.columns().to_vec(),
            factors: matrix.values().to_vec(),
        };
        FeatureRows::of_lines(matrix.width(), by_row)
    }

    fn of_lines(width: usize, by_row: Lines) -> FeatureRows {
        let (rows, by_column) = (by_row.offsets.len() - 1, by_row.transposed(width));
        FeatureRows { rows, width, numbers: Numbers::Sparse { by_row, by_column } }
    }

    /// Bytes of the numbers and of where they are.
    pub fn bytes(&self) -> u128 {
        let lines = |Lines { offsets, nodes, factors }: &Lines| {
            size_of_val(&offsets[..]) + size_of_val(&nodes[..]) + size_of_val(&factors[..])
        };
        let bytes = match &self.numbers {
            Numbers::Dense(values) => size_of_val(&values[..]),
            Numbers::Sparse { by_row, by_column } => lines(by_row) + lines(by_column),
        };
        bytes as u128
    }

    /// These rows, in that order.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn gather(&self, rows: &[u32]) -> FeatureRows {
        let width = self.width;
        let numbers = match &self.numbers {
            Numbers::Dense(values) => {
                let stride = padded(width);
                let row = |&row: &u32| &values[row as usize * stride..][..stride];
                Numbers::Dense(rows.iter().flat_map(row).copied().collect())
            }
            Numbers::Sparse { by_row, .. } => {
                let some = by_row.some(rows);
                return FeatureRows::of_lines(width, some);
            }
        };
        FeatureRows { rows: rows.len(), width, numbers }
    }

    /// What sums over arcs make of rows that are dense; none of others, which would fill up.
    pub(in crate::nn) fn propagated(&self, pass: &Pass, arcs: &Propagation) -> Option<FeatureRows> {
        let Numbers::Dense(values) = &self.numbers else { return None };
        let sums = arcs.sums((&**pass.team(), pass.simd()), values, padded(self.width));
        Some(FeatureRows { rows: self.rows, width: self.width, numbers: Numbers::Dense(sums) })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Numbers in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Start of every row, columns and values, where rows are sparse.
    pub fn entries(&self) -> Option<(&[usize], &[u32], &[f32])> {
        match &self.numbers {
            Numbers::Dense(_) => None,
            Numbers::Sparse { by_row, .. } => {
                Some((&by_row.offsets, &by_row.nodes, &by_row.factors))
            }
        }
    }

    /// All numbers of all rows.
    pub fn to_dense(&self) -> Vec<f32> {
        match &self.numbers {
            Numbers::Dense(values) => {
                restrided(values, padded(self.width), self.width).into_owned()
            }
            Numbers::Sparse { by_row, .. } => {
                let mut all = vec![0.0; self.rows * self.width];
                for (row, all) in all.chunks_exact_mut(self.width).enumerate() {
                    by_row.line(row).for_each(|(column, value)| all[column] = value);
                }
                all
            }
        }
    }
}

/// X Wᵀ + b: `[rows, outputs]`.
///
/// # Panics
/// If the map has not as many inputs as there are features.
pub fn map(
    pass: &Pass,
    features: &Arc<FeatureRows>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
) -> Tensor<2> {
    let [outputs, inputs] = weight.dims();
    assert_eq!(inputs, features.width, "a weight for each feature");
    let composed = |weight: Tensor<2>, bias: Option<Tensor<1>>| {
        let x = matrix(features.to_dense(), [features.rows, features.width], pass.device());
        project(x, weight, bias)
    };
    if pass.is_composed() {
        return composed(weight, bias);
    }
    let kernel = Arc::new(MapFeatures {
        features: features.clone(),
        outputs,
        biased: bias.is_some(),
        simd: pass.simd(),
        team: pass.team().clone(),
    });
    let row = match &bias {
        Some(bias) => bias.clone().unsqueeze(),
        None => Tensor::zeros([1, outputs], pass.device()),
    };
    apply(&kernel, [weight, row]).unwrap_or_else(|[weight, _]| composed(weight, bias))
}

#[derive(Debug)]
struct MapFeatures {
    features: Arc<FeatureRows>,
    outputs: usize,
    biased: bool,
    simd: Simd,
    team: Arc<Team>,
}

impl MapFeatures {
    fn bias<'a>(&self, bias: &'a [f32]) -> &'a [f32] {
        if self.biased { bias } else { &[] }
    }
}

impl Operation<2> for MapFeatures {
    type Saved = ();

    fn shape(&self, _: [[usize; 2]; 2]) -> [usize; 2] {
        [self.features.rows, self.outputs]
    }

    fn forward(&self, [weight, bias]: [&[f32]; 2]) -> (Vec<f32>, ()) {
        let (by, width) = ((&*self.team, self.simd), self.features.width);
        let bias = self.bias(bias);
        let y = match &self.features.numbers {
            Numbers::Dense(x) => {
                let weight = restrided(weight, width, padded(width));
                map_rows(by, [&weight, bias], (x, padded(width)))
            }
            Numbers::Sparse { by_row, .. } => {
                let columns = transposed(weight, width);
                let mut y = by_row.sums(by, &columns, self.outputs);
                if self.biased {
                    let rows = y.chunks_exact_mut(self.outputs);
                    rows.for_each(|row| row.iter_mut().zip(bias).for_each(|(y, b)| *y += b));
                }
                y
            }
        };
        (y, ())
    }

    fn backward(&self, kept: Kept<'_, (), 2>, gradient: &[f32]) -> [Vec<f32>; 2] {
        let [weight, _] = kept.inputs;
        let (by, outputs) = ((&*self.team, self.simd), self.outputs);
        let [by_weight, by_bias] = match &self.features.numbers {
            Numbers::Dense(x) => {
                let width = self.features.width;
                let weight = restrided(weight, width, padded(width));
                let x = (&x[..], padded(width));
                let [by_weight, by_bias] = weight_gradient(by, &weight, x, (gradient, outputs));
                [restrided(&by_weight, padded(width), width).into_owned(), by_bias]
            }
            Numbers::Sparse { by_row, by_column } => {
                // Whichever of both matrices is smaller stays in the cache.
                let columns = match self.features.rows > 4 * self.features.width {
                    true => by_row.scattered(by, gradient, outputs, self.features.width),
                    false => by_column.sums(by, gradient, outputs),
                };
                let mut sums = vec![0.0; outputs];
                if self.biased {
                    add_columns(self.simd, gradient, &mut sums);
                }
                let by_bias = sums.into_iter().map(|sum| sum as f32).collect();
                [transposed(&columns, outputs), by_bias]
            }
        };
        [by_weight, if self.biased { by_bias } else { vec![0.0; outputs] }]
    }
}

/// Rows as columns, in squares that stay in the cache.
fn transposed(rows: &[f32], width: usize) -> Vec<f32> {
    const SIDE: usize = 32;
    let height = rows.len() / width;
    let mut columns = vec![0.0; rows.len()];
    for (top, left) in (0..height)
        .step_by(SIDE)
        .flat_map(|top| (0..width).step_by(SIDE).map(move |left| (top, left)))
    {
        for row in top..height.min(top + SIDE) {
            for column in left..width.min(left + SIDE) {
                columns[column * height + row] = rows[row * width + column];
            }
        }
    }
    columns
}
