//! log(1 + eˣ), number by number, right for large and small x; its derivative is the logistic function.

use std::sync::Arc;

use burn::tensor::{Tensor, activation};

use super::{Kept, Operation, apply};

/// log(1 + eˣ).
pub fn softplus(x: Tensor<2>) -> Tensor<2> {
    apply(&Arc::new(Softplus), [x]).unwrap_or_else(|[x]| composed(x))
}

/// The same of tensor operations; at x = 0 exactly, the tape's derivative is 0 instead of ½.
fn composed(x: Tensor<2>) -> Tensor<2> {
    activation::relu(x.clone()) + x.abs().neg().exp().log1p()
}

#[derive(Debug)]
struct Softplus;

impl Operation<1> for Softplus {
    type Saved = ();

    fn shape(&self, shapes: [[usize; 2]; 1]) -> [usize; 2] {
        shapes[0]
    }

    fn forward(&self, [x]: [&[f32]; 1]) -> (Vec<f32>, ()) {
        (x.iter().map(|&x| x.max(0.0) + (-x.abs()).exp().ln_1p()).collect(), ())
    }

    fn backward(&self, kept: Kept<'_, (), 1>, gradient: &[f32]) -> [Vec<f32>; 1] {
        let [x] = kept.inputs;
        let logistic = |x: f32| {
            // The exponent is never positive, so it does not overflow.
            let power = (-x.abs()).exp();
            if x >= 0.0 { 1.0 / (1.0 + power) } else { power / (1.0 + power) }
        };
        [x.iter().zip(gradient).map(|(&x, gradient)| logistic(x) * gradient).collect()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::{cpu, matrix, values};

    #[test]
    fn the_kernel_is_right_from_end_to_end() {
        let x = [-200.0, -20.0, -1.0, 0.0, 1e-3, 2.0, 15.0, 200.0];
        let leaf = matrix(x.to_vec(), [2, 4], &cpu().autodiff()).require_grad();
        let y = softplus(leaf.clone());
        let derivative = values(leaf.grad(&y.clone().sum().backward()).unwrap());
        let twin = values(composed(matrix(x.to_vec(), [2, 4], &cpu())));
        for (i, (&x, y)) in x.iter().zip(values(y)).enumerate() {
            let exact = f64::from(x).max(0.0) + (-f64::from(x).abs()).exp().ln_1p();
            assert!((f64::from(y) - exact).abs() <= 1e-6 * exact + 1e-40, "{x}: {y}");
            assert!((y - twin[i]).abs() <= 1e-6 * y, "{x}: {y}, composed {}", twin[i]);
            let exact = 1.0 / (1.0 + (-f64::from(x)).exp());
            assert!((f64::from(derivative[i]) - exact).abs() <= 1e-6 * exact + 1e-40, "{x}");
        }
    }
}
