//! Average precision and area under the ROC curve, task by task.
//!
//! A task ranks rows by score. Rows without a label (NaN) are left out; a task needs a positive and a
//! negative label, or it is skipped. With P_n and R_n the precision and recall of all rows whose score is
//! at least the n-th largest distinct score,
//!
//! * AP = Σ_n (R_n − R_{n−1}) · P_n, without interpolation;
//! * AUC = share of (positive, negative) pairs in the right order, a pair of equal scores counting half
//!   (Hanley & McNeil, Radiology 1982).
//!
//! Equal scores are one threshold, so the order of rows has no influence on any bit of the result. Only the
//! order of scores counts: logits do as well as probabilities. O(n log n) per task.
//!
//! ```
//! use hdse::train::metrics::task_scores;
//! let scores = [0.9, 0.2, 0.8, 0.3, 0.1, 0.4]; // three rows, two tasks
//! let labels = [1.0, f32::NAN, 0.0, 1.0, 1.0, 1.0]; // the second task has no negative label
//! let tasks = task_scores(&scores, 2, &labels)?;
//! assert_eq!(tasks.len(), 1);
//! assert_eq!((tasks[0].task, tasks[0].auc), (0, 0.5));
//! # Ok::<(), hdse::Error>(())
//! ```

use super::targets::{Targets, check_rows};
use crate::{Error, Result};

/// How well one task is ranked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskScore {
    /// Number of the task: its column.
    pub task: usize,
    /// Rows labelled 1.
    pub positives: usize,
    /// Rows labelled 0.
    pub negatives: usize,
    /// Average precision.
    pub average_precision: f64,
    /// Area under the ROC curve.
    pub auc: f64,
}

/// The scores of every task with labels of both kinds, ascending; rows of `width` tasks.
///
/// # Errors
/// If sizes do not fit, there is no row, a score is NaN, a label is none of 0, 1 and NaN, or no task has
/// labels of both kinds.
pub fn task_scores<'a>(
    scores: &[f32],
    width: usize,
    labels: impl Into<Targets<'a>>,
) -> Result<Vec<TaskScore>> {
    let labels = labels.into();
    let rows = check_rows(scores, width, labels, width)?;
    let mut labelled = Vec::with_capacity(rows);
    let mut tasks = Vec::new();
    for task in 0..width {
        labelled.clear();
        for row in 0..rows {
            let place = row * width + task;
            match labels.get(place) {
                label if label.is_nan() => {}
                label if label == 0.0 || label == 1.0 => {
                    labelled.push((scores[place], label == 1.0));
                }
                label => {
                    return Err(Error::data(format!(
                        "label {task} of row {row} is {label}; expected 0, 1 or NaN for missing"
                    )));
                }
            }
        }
        tasks.extend(rank(task, &mut labelled));
    }
    if tasks.is_empty() {
        return Err(Error::data(format!(
            "none of {width} tasks has both a positive and a negative label in {rows} rows; average \
             precision and AUC need both"
        )));
    }
    Ok(tasks)
}

/// The scores of a task from (score, is positive) of its rows; nothing without both kinds.
fn rank(task: usize, rows: &mut [(f32, bool)]) -> Option<TaskScore> {
    let positives = rows.iter().filter(|row| row.1).count();
    let negatives = rows.len() - positives;
    if positives == 0 || negatives == 0 {
        return None;
    }
    rows.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    let (mut hits, mut misses) = (0, 0);
    let mut precision_sum = 0.0;
    // Pairs in the right order count 2 and ties 1, to stay with whole numbers.
    let mut half_pairs = 0u128;
    // Equality, not the total order: 0 and -0 are next to each other and one threshold.
    for tied in rows.chunk_by(|a, b| a.0 == b.0) {
        let new_hits = tied.iter().filter(|row| row.1).count();
        let new_misses = tied.len() - new_hits;
        hits += new_hits;
        misses += new_misses;
        precision_sum += new_hits as f64 * (hits as f64 / (hits + misses) as f64);
        half_pairs += new_hits as u128 * (2 * (negatives - misses) + new_misses) as u128;
    }
    Some(TaskScore {
        task,
        positives,
        negatives,
        average_precision: precision_sum / positives as f64,
        auc: half_pairs as f64 / (2.0 * positives as f64 * negatives as f64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::Metric;
    use proptest::prelude::*;

    /// Average precision by its definition, a pass over all rows per threshold.
    fn slow_average_precision(rows: &[(f32, bool)]) -> f64 {
        let positives = rows.iter().filter(|row| row.1).count() as f64;
        let mut thresholds: Vec<f32> = rows.iter().map(|row| row.0).collect();
        thresholds.sort_by(|a, b| b.partial_cmp(a).unwrap());
        thresholds.dedup();
        let (mut sum, mut last_recall) = (0.0, 0.0);
        for threshold in thresholds {
            let above = rows.iter().filter(|row| row.0 >= threshold);
            let (hits, all) = above.fold((0.0, 0.0), |(h, n), row| (h + f64::from(row.1), n + 1.0));
            sum += (hits / positives - last_recall) * (hits / all);
            last_recall = hits / positives;
        }
        sum
    }

    /// Area under the ROC curve by counting pairs.
    fn slow_auc(rows: &[(f32, bool)]) -> f64 {
        let (mut right, mut pairs) = (0.0, 0.0);
        for (high, _) in rows.iter().filter(|row| row.1) {
            for (low, _) in rows.iter().filter(|row| !row.1) {
                pairs += 1.0;
                right += if high > low { 1.0 } else { f64::from(high == low) / 2.0 };
            }
        }
        right / pairs
    }

    proptest! {
        #[test]
        fn equals_the_definition_in_any_order(
            rows in proptest::collection::vec((-4..5i8, any::<bool>()), 0..40),
            seed in any::<u64>(),
        ) {
            // Few distinct scores, so that ties are common; -0 among them.
            let mut rows: Vec<(f32, bool)> =
                rows.into_iter().map(|(score, label)| (f32::from(score) * -0.5, label)).collect();
            let found = rank(0, &mut rows.clone());
            let usable = rows.iter().any(|row| row.1) && rows.iter().any(|row| !row.1);
            prop_assert_eq!(found.is_some(), usable);
            if let Some(found) = found {
                prop_assert!((found.average_precision - slow_average_precision(&rows)).abs() < 1e-12);
                prop_assert!((found.auc - slow_auc(&rows)).abs() < 1e-12);
            }
            crate::rng::Seed(seed).stream("test", 0, 0).shuffle(&mut rows);
            prop_assert_eq!(rank(0, &mut rows), found);
        }
    }

    #[test]
    fn zeros_of_both_signs_are_one_threshold() {
        let score = rank(0, &mut [(0.0, true), (-0.0, false)]).unwrap();
        assert_eq!((score.auc, score.average_precision), (0.5, 0.5));
    }

    #[test]
    fn missing_labels_and_one_sided_tasks_are_left_out() {
        let nan = f32::NAN;
        let scores = [0.9, 0.5, 0.1, 0.2, 0.6, 0.3, f32::INFINITY, 0.4, 0.2];
        let labels = [1.0, 1.0, nan, 0.0, 1.0, nan, nan, 0.0, nan];
        let tasks = task_scores(&scores, 3, &labels).unwrap();
        assert_eq!(tasks.iter().map(|t| t.task).collect::<Vec<_>>(), [0, 1]);
        assert_eq!((tasks[0].positives, tasks[0].negatives), (1, 1));
        assert_eq!((tasks[1].positives, tasks[1].negatives), (2, 1));
        assert_eq!(Metric::MeanAuc.compute(&scores, 3, &labels).unwrap(), 1.0);
    }

    #[test]
    fn unusable_labels_are_errors() {
        let none = task_scores(&[0.1, 0.2], 1, &[1.0, f32::NAN]).unwrap_err();
        assert!(none.to_string().contains("none of 1 tasks has both"), "{none}");
        let odd = task_scores(&[0.1, 0.2], 1, &[1, 2]).unwrap_err();
        assert!(odd.to_string().contains("label 0 of row 1 is 2"), "{odd}");
    }
}
