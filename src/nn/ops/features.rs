//! Linear maps of features that are given: dense, or with sparse rows.
//!
//! Features get no derivative, and bags of words are zeros but for a percent. So y = X Wᵀ + b is a sum of a few columns
//! of W for each node, and the derivative by a column of W a sum over the nodes that have it; the latter needs the
//! transpose of X, which is made once.

use std::sync::Arc;

use burn::tensor::Tensor;

use super::{Operation, apply};
use crate::data::nodes::Sparse;
use crate::nn::layers::{Linear, project};
use crate::nn::pass::{Pass, matrix};

/// Features of nodes, one row each.
#[derive(Debug)]
pub struct FeatureRows {
    rows: usize,
    width: usize,
    numbers: Numbers,
}

#[derive(Debug)]
enum Numbers {
    Dense(Vec<f32>),
    Sparse { by_row: Entries, by_column: Entries },
}

/// Entries of a sparse matrix, row by row, or column by column.
#[derive(Debug)]
struct Entries {
    offsets: Vec<usize>,
    places: Vec<u32>,
    values: Vec<f32>,
}

impl Entries {
    fn line(&self, line: usize) -> impl Iterator<Item = (usize, f32)> + '_ {
        let range = self.offsets[line]..self.offsets[line + 1];
        let places = self.places[range.clone()].iter().map(|&place| place as usize);
        places.zip(self.values[range].iter().copied())
    }

    fn transposed(&self, columns: usize) -> Entries {
        let mut offsets = vec![0; columns + 1];
        self.places.iter().for_each(|&column| offsets[column as usize + 1] += 1);
        for column in 0..columns {
            offsets[column + 1] += offsets[column];
        }
        let mut next = offsets.clone();
        let (mut places, mut values) = (vec![0; self.places.len()], vec![0.0; self.places.len()]);
        for row in 0..self.offsets.len() - 1 {
            for (column, value) in self.line(row) {
                (places[next[column]], values[next[column]]) = (row as u32, value);
                next[column] += 1;
            }
        }
        Entries { offsets, places, values }
    }
}

impl FeatureRows {
    /// Rows of `width` numbers, one after another.
    ///
    /// # Panics
    /// If the last row is not complete.
    pub fn dense(width: usize, values: Vec<f32>) -> FeatureRows {
        assert!(width > 0 && values.len().is_multiple_of(width), "complete rows");
        FeatureRows { rows: values.len() / width, width, numbers: Numbers::Dense(values) }
    }

    /// Rows of which most numbers are 0.
    pub fn sparse(matrix: &Sparse) -> FeatureRows {
        let by_row = Entries {
            offsets: matrix.offsets().iter().map(|&offset| offset as usize).collect(),
            places: matrix.columns().to_vec(),
            values: matrix.values().to_vec(),
        };
        let by_column = by_row.transposed(matrix.width());
        let numbers = Numbers::Sparse { by_row, by_column };
        FeatureRows { rows: matrix.rows(), width: matrix.width(), numbers }
    }

    /// These rows, in that order.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn gather(&self, rows: &[u32]) -> FeatureRows {
        let width = self.width;
        let numbers = match &self.numbers {
            Numbers::Dense(values) => {
                let row = |&row: &u32| &values[row as usize * width..][..width];
                Numbers::Dense(rows.iter().flat_map(row).copied().collect())
            }
            Numbers::Sparse { by_row, .. } => {
                let mut some = Entries { offsets: vec![0], places: Vec::new(), values: Vec::new() };
                for &row in rows {
                    let range = by_row.offsets[row as usize]..by_row.offsets[row as usize + 1];
                    some.places.extend_from_slice(&by_row.places[range.clone()]);
                    some.values.extend_from_slice(&by_row.values[range]);
                    some.offsets.push(some.places.len());
                }
                let by_column = some.transposed(width);
                Numbers::Sparse { by_row: some, by_column }
            }
        };
        FeatureRows { rows: rows.len(), width, numbers }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Numbers in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// All numbers of all rows.
    pub fn to_dense(&self) -> Vec<f32> {
        match &self.numbers {
            Numbers::Dense(values) => values.clone(),
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
