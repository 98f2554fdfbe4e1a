//! Accuracy, over rows and over classes.
//!
//! With t_c rows of class c and h_c of them predicted right, recall is r_c = h_c / t_c. Accuracy is
//! Σ h_c / Σ t_c; averages over classes give each class the same say, however rare:
//!
//! * `class-average-sbm`: mean of r_c over classes in targets *or predictions*, with r_c = 0 where t_c = 0.
//!   The benchmarks with stochastic block models report it (Dwivedi et al., JMLR 2023).
//! * `class-average-present`: mean of r_c over classes in the targets; also called balanced accuracy.
//!
//! The predicted class is the largest logit, the first if several are equal. With one logit per row it is
//! class 1 where the logit is above 0, else class 0.

use super::mean;
use super::targets::{Targets, check_rows};
use crate::{Error, Result};

/// How often one class occurs, is predicted, and both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCount {
    /// Rows of this class.
    pub truth: u64,
    /// Rows predicted to be of it.
    pub predicted: u64,
    /// Rows of this class and predicted so.
    pub correct: u64,
}

impl ClassCount {
    /// Share of the rows of this class that are predicted; nothing if there is no row.
    pub fn recall(&self) -> Option<f64> {
        (self.truth > 0).then(|| self.correct as f64 / self.truth as f64)
    }

    /// Share of the rows predicted as this class that are of it; nothing if there is none.
    pub fn precision(&self) -> Option<f64> {
        (self.predicted > 0).then(|| self.correct as f64 / self.predicted as f64)
    }
}

/// The counts of every class, from rows of `width` logits; two classes if `width` is 1.
///
/// # Errors
/// If sizes do not fit, there is no row, a logit is NaN, or a target is no class.
pub fn class_counts<'a>(
    logits: &[f32],
    width: usize,
    targets: impl Into<Targets<'a>>,
) -> Result<Vec<ClassCount>> {
    let targets = targets.into();
    check_rows(logits, width, targets, 1)?;
    let classes = width.max(2);
    let mut counts = vec![ClassCount::default(); classes];
    for (row, logits) in logits.chunks_exact(width).enumerate() {
        let number = targets.get(row);
        let truth = number as usize;
        if truth as f64 != number || truth >= classes {
            return Err(Error::data(format!(
                "target of row {row} is {number}; {classes} classes are numbered from 0"
            )));
        }
        let predicted = predicted_class(logits);
        counts[truth].truth += 1;
        counts[predicted].predicted += 1;
        counts[truth].correct += u64::from(truth == predicted);
    }
    Ok(counts)
}

fn predicted_class(logits: &[f32]) -> usize {
    if let [logit] = logits {
        return usize::from(*logit > 0.0);
    }
    let larger = |best, i| if logits[i] > logits[best] { i } else { best };
    (1..logits.len()).fold(0, larger)
}

/// Share of rows whose class is predicted; NaN without rows.
pub fn accuracy(counts: &[ClassCount]) -> f64 {
    let sum = |of: fn(&ClassCount) -> u64| counts.iter().map(of).sum::<u64>() as f64;
    sum(|count| count.correct) / sum(|count| count.truth)
}

/// Mean recall of the classes in targets or predictions, 0 for those in predictions alone; NaN without rows.
pub fn class_average_sbm(counts: &[ClassCount]) -> f64 {
    let occurring = counts.iter().filter(|count| count.truth + count.predicted > 0);
    mean(occurring.map(|count| count.recall().unwrap_or(0.0)))
}

/// Mean recall of the classes in the targets; NaN without rows.
pub fn class_average_present(counts: &[ClassCount]) -> f64 {
    mean(counts.iter().filter_map(ClassCount::recall))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(logits: &[f32], width: usize, targets: &[i64]) -> Vec<ClassCount> {
        class_counts(logits, width, targets).unwrap()
    }

    #[test]
    fn one_logit_means_two_classes() {
        let found = counts(&[0.5, 0.0, -0.5, 2.0], 1, &[1, 0, 1, 1]);
        assert_eq!(found[0], ClassCount { truth: 1, predicted: 2, correct: 1 });
        assert_eq!(found[1], ClassCount { truth: 3, predicted: 2, correct: 2 });
        assert_eq!(found[0].precision(), Some(0.5));
    }

    #[test]
    fn the_first_of_equal_logits_is_taken() {
        assert_eq!(predicted_class(&[1.0, 2.0, 2.0]), 1);
        assert_eq!(predicted_class(&[f32::NEG_INFINITY; 3]), 0);
    }

    /// Class 2 is predicted but absent; class 3 occurs nowhere and counts in neither average.
    #[test]
    fn averages_differ_by_absent_classes() {
        let one_hot = |class: usize| (0..4).map(move |c| f32::from(u8::from(c == class)));
        let logits: Vec<f32> = [0, 0, 1, 2].into_iter().flat_map(one_hot).collect();
        let found = counts(&logits, 4, &[0, 0, 1, 1]);
        assert_eq!(accuracy(&found), 0.75);
        assert_eq!(class_average_present(&found), (1.0 + 0.5) / 2.0);
        assert_eq!(class_average_sbm(&found), (1.0 + 0.5 + 0.0) / 3.0);
    }

    #[test]
    fn targets_that_are_no_class_are_refused() {
        for target in [-1.0, 0.5, 3.0, f32::NAN, f32::INFINITY] {
            let error = class_counts(&[0.0, 0.0, 1.0], 3, &[target]).unwrap_err();
            assert!(error.is_data() && error.to_string().contains("3 classes"), "{error}");
        }
        assert!(class_counts(&[0.0], 1, &[i64::MIN]).is_err());
        assert!(class_counts(&[0.0], 1, &[i64::MAX]).is_err());
    }

    proptest! {
        #[test]
        fn order_of_rows_does_not_matter(
            rows in proptest::collection::vec((0..4i64, [-2..3i8, -2..3, -2..3, -2..3]), 1..40)
        ) {
            let both = |rows: &[(i64, [i8; 4])]| {
                let logits: Vec<f32> =
                    rows.iter().flat_map(|(_, logits)| logits.map(f32::from)).collect();
                let targets: Vec<i64> = rows.iter().map(|row| row.0).collect();
                let right = rows.iter().filter(|(class, logits)| {
                    let largest = logits.iter().max().unwrap();
                    logits.iter().position(|x| x == largest) == Some(*class as usize)
                });
                let found = counts(&logits, 4, &targets);
                assert_eq!(accuracy(&found), right.count() as f64 / rows.len() as f64);
                found
            };
            let reversed: Vec<_> = rows.iter().rev().copied().collect();
            prop_assert_eq!(both(&rows), both(&reversed));
        }
    }
}
