//! What training makes small.
//!
//! | name | of | formula |
//! |---|---|---|
//! | `l1` | real targets | mean of \|p − y\| |
//! | `cross-entropy` | classes | mean of −log softmax(p)_y |
//! | `weighted-cross-entropy` | classes | Σ w_y · −log softmax(p)_y / Σ w_y |
//! | `binary-cross-entropy` | labels 0 and 1, NaN if missing | mean over labels there are |
//! | `weighted-binary-cross-entropy` | classes 0 and 1 | mean of w_y · cross entropy |
//!
//! The weight of class c among V rows, n_c of them in c, is (V − n_c) / V, and 0 for a class that is not
//! there (Dwivedi et al. 2023). If all rows are of one class, weighted losses are 0.

use burn::tensor::{Tensor, activation};
use serde::{Deserialize, Serialize};

use crate::data::Values;
use crate::error::did_you_mean;
use crate::nn::{Groups, matrix, softplus};
use crate::{Error, Result};

/// A loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// Mean absolute error.
    L1,
    /// Cross entropy of classes.
    CrossEntropy,
    /// Cross entropy of classes, each weighing more the rarer it is in the batch.
    WeightedCrossEntropy,
    /// Cross entropy of labels, several to a row; missing ones are left out.
    BinaryCrossEntropy,
    /// Cross entropy of one label to a row, each class weighing more the rarer it is in the batch.
    WeightedBinaryCrossEntropy,
}

impl Loss {
    /// Every loss.
    pub const ALL: [Loss; 5] = [
        Loss::L1,
        Loss::CrossEntropy,
        Loss::WeightedCrossEntropy,
        Loss::BinaryCrossEntropy,
        Loss::WeightedBinaryCrossEntropy,
    ];

    /// What it is called in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Loss::L1 => "l1",
            Loss::CrossEntropy => "cross-entropy",
            Loss::WeightedCrossEntropy => "weighted-cross-entropy",
            Loss::BinaryCrossEntropy => "binary-cross-entropy",
            Loss::WeightedBinaryCrossEntropy => "weighted-binary-cross-entropy",
        }
    }

    /// The loss of predictions `[rows, width]`, a single number.
    pub fn of(self, predictions: Tensor<2>, targets: &Values) -> Result<Tensor<1>> {
        let [rows, width] = predictions.dims();
        let expected = match self {
            Loss::L1 | Loss::BinaryCrossEntropy => rows * width,
            _ => rows,
        };
        if targets.len() != expected || rows == 0 || width == 0 {
            return Err(Error::data(format!(
                "loss `{}` of {rows} predictions with {width} number(s) each needs {expected} \
                 targets; there are {}",
                self.name(),
                targets.len()
            )));
        }
        let (shape, device) = ([rows, width], predictions.device());
        match self {
            Loss::L1 => {
                let targets = targets.to_floats();
                if let Some(i) = targets.iter().position(|target| !target.is_finite()) {
                    return Err(Error::data(format!(
                        "target {i} of the batch is {}; loss `l1` needs finite targets",
                        targets[i]
                    )));
                }
                let targets = matrix(targets, shape, &device);
                Ok((predictions - targets).abs().mean())
            }
            Loss::BinaryCrossEntropy => {
                let labels = labels(&targets.to_floats())?;
                let known: Vec<f32> =
                    labels.iter().map(|label| f32::from(label.is_some())).collect();
                let count: f32 = known.iter().sum();
                if count == 0.0 {
                    return Err(Error::data("all labels of a batch are missing"));
                }
                let labels = labels.into_iter().map(Option::unwrap_or_default).collect();
                let losses = binary(predictions, labels);
                Ok((losses * matrix(known, shape, &device)).sum().div_scalar(count))
            }
            Loss::WeightedBinaryCrossEntropy => {
                if width != 1 {
                    return Err(Error::config(format!(
                        "loss `{}` needs predictions of one number, not {width}",
                        self.name()
                    )));
                }
                let classes = classes(targets, 2)?;
                let weights = weights(&classes, 2);
                let labels = classes.iter().map(|&class| class as f32).collect();
                let losses = binary(predictions, labels);
                Ok((losses * matrix(weights, shape, &device)).mean())
            }
            Loss::CrossEntropy => {
                let classes = classes(targets, width)?;
                Ok(likelihood(predictions, &classes, None).div_scalar(rows as f32).neg())
            }
            Loss::WeightedCrossEntropy => {
                let classes = classes(targets, width)?;
                let weights = weights(&classes, width);
                let sum: f32 = weights.iter().sum();
                let sum = if sum > 0.0 { sum } else { 1.0 };
                Ok(likelihood(predictions, &classes, Some(weights)).div_scalar(sum).neg())
            }
        }
    }
}

impl std::str::FromStr for Loss {
    type Err = Error;

    fn from_str(name: &str) -> Result<Loss> {
        Loss::ALL.into_iter().find(|loss| loss.name() == name).ok_or_else(|| {
            let hint = did_you_mean(name, Loss::ALL.map(Loss::name));
            let all = Loss::ALL.map(Loss::name).join(", ");
            Error::config(format!("unknown loss `{name}`{hint} (there are {all})"))
        })
    }
}

/// −y log σ(x) − (1 − y) log σ(−x) for labels 0 and 1, number by number.
fn binary(logits: Tensor<2>, labels: Vec<f32>) -> Tensor<2> {
    let signs = labels.into_iter().map(|label| 1.0 - 2.0 * label).collect();
    let signs = matrix(signs, logits.dims(), &logits.device());
    softplus(logits * signs)
}

/// Σ w · log softmax(x)_class over rows.
fn likelihood(logits: Tensor<2>, classes: &[u32], weights: Option<Vec<f32>>) -> Tensor<1> {
    let shape = logits.dims();
    let mut chosen = vec![0.0; shape[0] * shape[1]];
    for (row, &class) in classes.iter().enumerate() {
        let weight = weights.as_ref().map_or(1.0, |weights| weights[row]);
        chosen[row * shape[1] + class as usize] = weight;
    }
    {
        let device = logits.device();
        (activation::log_softmax(logits, 1) * matrix(chosen, shape, &device)).sum()
    }
}

/// The weight of the class of every row.
fn weights(classes: &[u32], count: usize) -> Vec<f32> {
    let sizes: Vec<usize> = Groups::new(classes.to_vec(), count).sizes().collect();
    let rows = classes.len();
    let weight = |&class: &u32| (rows - sizes[class as usize]) as f32 / rows as f32;
    classes.iter().map(weight).collect()
}

fn labels(targets: &[f32]) -> Result<Vec<Option<f32>>> {
    let label = |(i, &label): (usize, &f32)| match label {
        0.0 | 1.0 => Ok(Some(label)),
        missing if missing.is_nan() => Ok(None),
        other => Err(Error::data(format!(
            "label {i} of the batch is {other}; labels are 0, 1, or NaN where missing"
        ))),
    };
    targets.iter().enumerate().map(label).collect()
}

fn classes(targets: &Values, count: usize) -> Result<Vec<u32>> {
    let class = |(i, value): (usize, f64)| {
        let class = value as u32;
        let valid = f64::from(class) == value && (class as usize) < count;
        valid.then_some(class).ok_or_else(|| {
            Error::data(format!(
                "class {i} of the batch is {value}; the model tells classes 0 to {} apart",
                count - 1
            ))
        })
    };
    match targets {
        Values::Int(values) => values.iter().map(|&v| v as f64).enumerate().map(class).collect(),
        Values::Float(values) => {
            values.iter().map(|&v| f64::from(v)).enumerate().map(class).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::{cpu, values};

    fn loss(loss: Loss, predictions: &[f32], width: usize, targets: &Values) -> Result<f32> {
        let shape = [predictions.len() / width, width];
        let predictions = matrix(predictions.to_vec(), shape, &cpu());
        Ok(values(loss.of(predictions, targets)?)[0])
    }

    #[test]
    fn known_values() {
        let half = std::f32::consts::LN_2;
        let all = [
            (Loss::L1, Values::Float(vec![1.0, -3.0]), 2.0),
            (Loss::BinaryCrossEntropy, Values::Float(vec![1.0, f32::NAN]), half),
            (Loss::WeightedBinaryCrossEntropy, Values::Int(vec![1, 0]), half / 2.0),
            (Loss::CrossEntropy, Values::Int(vec![0, 0]), 0.0),
        ];
        for (kind, targets, expected) in all {
            let found = loss(kind, &[0.0, 0.0], 1, &targets).unwrap();
            assert!((found - expected).abs() < 1e-6, "{kind:?}: {found}");
        }
        // One class only: no weight, no loss, and no division by zero.
        let found = loss(Loss::WeightedCrossEntropy, &[1.0, 2.0], 2, &Values::Int(vec![1]));
        assert_eq!(found.unwrap(), 0.0);
    }

    #[test]
    fn bad_targets_are_refused() {
        let refused = |kind, targets| loss(kind, &[0.5, 1.0], 1, &targets).unwrap_err().to_string();
        assert!(refused(Loss::L1, Values::Float(vec![1.0])).contains("needs 2"));
        assert!(refused(Loss::L1, Values::Float(vec![1.0, f32::NAN])).contains("target 1"));
        let label = refused(Loss::BinaryCrossEntropy, Values::Float(vec![0.0, 2.0]));
        assert!(label.contains("label 1"), "{label}");
        let class = refused(Loss::WeightedBinaryCrossEntropy, Values::Int(vec![0, -1]));
        assert!(class.contains("class 1"), "{class}");
        let missing = refused(Loss::BinaryCrossEntropy, Values::Float(vec![f32::NAN; 2]));
        assert!(missing.contains("missing"), "{missing}");
        assert!("crossentropy".parse::<Loss>().unwrap_err().to_string().contains("cross-entropy"));
    }
}
