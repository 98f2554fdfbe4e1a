//! Targets as the data has them, and the checks that all metrics share.

use crate::data::Values;
use crate::{Error, Result};

/// What predictions are compared with: whole or real numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Targets<'a> {
    /// Whole numbers: classes, labels.
    Int(&'a [i64]),
    /// Real numbers; NaN is a missing label.
    Float(&'a [f32]),
}

impl Targets<'_> {
    /// How many numbers.
    pub fn len(&self) -> usize {
        match self {
            Targets::Int(v) => v.len(),
            Targets::Float(v) => v.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn get(&self, index: usize) -> f64 {
        match self {
            Targets::Int(v) => v[index] as f64,
            Targets::Float(v) => f64::from(v[index]),
        }
    }
}

impl<'a> From<&'a [i64]> for Targets<'a> {
    fn from(values: &'a [i64]) -> Self {
        Targets::Int(values)
    }
}

impl<'a> From<&'a [f32]> for Targets<'a> {
    fn from(values: &'a [f32]) -> Self {
        Targets::Float(values)
    }
}

impl<'a, const N: usize> From<&'a [i64; N]> for Targets<'a> {
    fn from(values: &'a [i64; N]) -> Self {
        Targets::Int(values)
    }
}

impl<'a, const N: usize> From<&'a [f32; N]> for Targets<'a> {
    fn from(values: &'a [f32; N]) -> Self {
        Targets::Float(values)
    }
}

impl<'a> From<&'a Values> for Targets<'a> {
    fn from(values: &'a Values) -> Self {
        match values {
            Values::Int(v) => Targets::Int(v),
            Values::Float(v) => Targets::Float(v),
        }
    }
}

/// Number of rows, at least one, if the sizes fit together and no prediction is NaN.
pub(super) fn check_rows(
    predictions: &[f32],
    width: usize,
    targets: Targets<'_>,
    targets_per_row: usize,
) -> Result<usize> {
    let count = predictions.len();
    if width == 0 {
        return Err(Error::data("predictions in rows of 0 numbers; a row needs at least one"));
    }
    if count == 0 {
        return Err(Error::data("no predictions, so there is nothing to measure"));
    }
    if !count.is_multiple_of(width) {
        return Err(Error::data(format!("{count} predictions are no whole rows of {width}")));
    }
    let rows = count / width;
    // No overflow: at most `width` targets per row, and rows × width predictions exist.
    if targets.len() != rows * targets_per_row {
        return Err(Error::data(format!(
            "{} targets for {rows} rows of predictions; expected {}",
            targets.len(),
            rows * targets_per_row
        )));
    }
    // Checked for all, also where a label is missing: a NaN means that the model has diverged.
    if let Some(i) = predictions.iter().position(|p| p.is_nan()) {
        return Err(Error::data(format!(
            "prediction {} of row {} is NaN; the model has diverged: lower the rate",
            i % width,
            i / width
        )));
    }
    Ok(rows)
}
