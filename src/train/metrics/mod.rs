//! Metrics: one number for how well predictions fit.
//!
//! Predictions are rows of `width` numbers, one row per graph or node. What a row means is the metric's:
//!
//! | metric | a row of predictions | targets |
//! |---|---|---|
//! | `mae` | values | as many values |
//! | `accuracy`, `class-average-sbm`, `class-average-present` | logits of classes, or one logit of class 1 | one class per row |
//! | `mean-ap`, `mean-auc` | a score per task | 0, 1 or NaN (missing) per task |
//!
//! [`Metric`] gives the number of a table; [`absolute_errors`], [`class_counts`] and [`task_scores`] give
//! what it is the mean of. Sums are `f64`. A prediction that is NaN, a target that cannot be, sizes that do
//! not fit and a mean over nothing are errors, never a number. Infinite predictions rank as they compare and
//! have an infinite absolute error.
//!
//! ```
//! use hdse::train::Metric;
//! let metric: Metric = "accuracy".parse()?;
//! let logits = [0.1, 2.0, 1.5, -1.0, 0.0, 0.3]; // three rows, two classes
//! let value = metric.compute(&logits, 2, &[1, 0, 0])?;
//! assert_eq!(value, 2.0 / 3.0);
//! assert!(metric.larger_is_better());
//! # Ok::<(), hdse::Error>(())
//! ```

mod classes;
mod ranking;
mod targets;

pub use classes::{ClassCount, accuracy, class_average_present, class_average_sbm, class_counts};
pub use ranking::{TaskScore, task_scores};
pub use targets::Targets;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::did_you_mean;
use crate::{Error, Result};
use targets::check_rows;

/// A number that says how well predictions fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Mean absolute error over all entries.
    Mae,
    /// Share of rows whose class is predicted.
    Accuracy,
    /// Mean recall of the classes in targets or predictions; see [`class_average_sbm`].
    ClassAverageSbm,
    /// Mean recall of the classes in the targets; see [`class_average_present`].
    ClassAveragePresent,
    /// Mean average precision over tasks; see [`task_scores`].
    MeanAp,
    /// Mean area under the ROC curve over tasks; see [`task_scores`].
    MeanAuc,
}

impl Metric {
    /// Every metric, in the order of the documentation.
    pub const ALL: [Metric; 6] = [
        Metric::Mae,
        Metric::Accuracy,
        Metric::ClassAverageSbm,
        Metric::ClassAveragePresent,
        Metric::MeanAp,
        Metric::MeanAuc,
    ];

    /// The name to choose it by.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Mae => "mae",
            Metric::Accuracy => "accuracy",
            Metric::ClassAverageSbm => "class-average-sbm",
            Metric::ClassAveragePresent => "class-average-present",
            Metric::MeanAp => "mean-ap",
            Metric::MeanAuc => "mean-auc",
        }
    }

    /// What it is, in a sentence of a footnote.
    pub fn definition(self) -> &'static str {
        match self {
            Metric::Mae => "mean absolute error over all targets",
            Metric::Accuracy => "share of targets whose class is predicted",
            Metric::ClassAverageSbm => {
                "mean over classes of the share of their nodes that is predicted, classes with predictions but no nodes counted as 0"
            }
            Metric::ClassAveragePresent => {
                "mean over classes of the share of their targets that is predicted"
            }
            Metric::MeanAp => "average precision, mean over tasks that have both labels",
            Metric::MeanAuc => "area under the ROC curve, mean over tasks that have both labels",
        }
    }

    /// Whether tables give it in percent.
    pub fn is_percent(self) -> bool {
        !matches!(self, Metric::Mae | Metric::MeanAp)
    }

    /// Whether a larger number means better predictions.
    pub fn larger_is_better(self) -> bool {
        self != Metric::Mae
    }

    /// The metric of `predictions`, rows of `width` numbers.
    ///
    /// # Errors
    /// If sizes do not fit, a prediction is NaN, a target cannot be, or there is nothing to take the mean
    /// of: no row, or no task with labels of both kinds.
    pub fn compute<'a>(
        self,
        predictions: &[f32],
        width: usize,
        targets: impl Into<Targets<'a>>,
    ) -> Result<f64> {
        let targets = targets.into();
        let counts = || class_counts(predictions, width, targets);
        let tasks = || task_scores(predictions, width, targets);
        match self {
            Metric::Mae => absolute_errors(predictions, width, targets).map(mean),
            Metric::Accuracy => Ok(accuracy(&counts()?)),
            Metric::ClassAverageSbm => Ok(class_average_sbm(&counts()?)),
            Metric::ClassAveragePresent => Ok(class_average_present(&counts()?)),
            Metric::MeanAp => Ok(mean(tasks()?.iter().map(|task| task.average_precision))),
            Metric::MeanAuc => Ok(mean(tasks()?.iter().map(|task| task.auc))),
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Metric {
    type Err = Error;

    fn from_str(name: &str) -> Result<Metric> {
        let names = || Metric::ALL.into_iter().map(Metric::name);
        Metric::ALL.into_iter().find(|metric| metric.name() == name).ok_or_else(|| {
            Error::config(format!(
                "unknown metric `{name}`{} (there are: {})",
                did_you_mean(name, names()),
                names().collect::<Vec<_>>().join(", ")
            ))
        })
    }
}

/// Mean absolute error of every column; their mean is the mean over all entries.
///
/// # Errors
/// If sizes do not fit, there is no row, a prediction is NaN or a target is not finite.
pub fn absolute_errors<'a>(
    predictions: &[f32],
    width: usize,
    targets: impl Into<Targets<'a>>,
) -> Result<Vec<f64>> {
    let targets = targets.into();
    let rows = check_rows(predictions, width, targets, width)?;
    let mut sums = vec![0.0; width];
    for (i, &prediction) in predictions.iter().enumerate() {
        let target = targets.get(i);
        if !target.is_finite() {
            return Err(Error::data(format!(
                "target {} of row {} is {target}; an absolute error needs a finite number",
                i % width,
                i / width
            )));
        }
        sums[i % width] += (f64::from(prediction) - target).abs();
    }
    Ok(sums.into_iter().map(|sum| sum / rows as f64).collect())
}

/// The mean of numbers that are known to be there.
fn mean(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for number in numbers {
        sum += number;
        count += 1.0;
    }
    sum / count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_list() {
        for metric in Metric::ALL {
            assert_eq!(metric.name().parse::<Metric>().unwrap(), metric);
            let json = format!("\"{metric}\"");
            assert_eq!(serde_json::to_string(&metric).unwrap(), json);
            assert_eq!(serde_json::from_str::<Metric>(&json).unwrap(), metric);
        }
        let error = "acuracy".parse::<Metric>().unwrap_err();
        assert!(error.is_config() && error.to_string().contains("did you mean `accuracy`?"));
    }

    #[test]
    fn errors_are_per_column() {
        let predictions = [1.0, 2.0, 3.0, 4.0];
        let errors = absolute_errors(&predictions, 2, &[0.0, 2.0, 1.0, 7.0]).unwrap();
        assert_eq!(errors, [1.5, 1.5]);
        assert_eq!(Metric::Mae.compute(&predictions, 2, &[0, 2, 1, 7]).unwrap(), 1.5);
        assert_eq!(Metric::Mae.compute(&[f32::INFINITY], 1, &[0.0]).unwrap(), f64::INFINITY);
    }

    /// Whatever the metric, a mistake is an error that names it.
    #[test]
    fn mistakes_are_named() {
        for metric in Metric::ALL {
            let wrong = |predictions: &[f32], width, targets: &[f32], expected: &str| {
                let error = metric.compute(predictions, width, targets).unwrap_err();
                assert!(error.is_data(), "{metric}: {error}");
                assert!(error.to_string().contains(expected), "{metric}: {error}");
            };
            wrong(&[], 1, &[], "no predictions");
            wrong(&[1.0], 0, &[1.0], "rows of 0 numbers");
            wrong(&[1.0, 2.0, 3.0], 2, &[1.0], "3 predictions are no whole rows of 2");
            wrong(&[1.0, 2.0, 3.0], 1, &[1.0, 0.0], "2 targets for 3 rows");
            wrong(&[1.0, f32::NAN], 1, &[1.0, 0.0], "prediction 0 of row 1 is NaN");
            wrong(&[1.0, 2.0], 1, &[f32::INFINITY, 0.0], "of row 0 is inf");
        }
    }
}
