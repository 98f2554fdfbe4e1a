//! The passes over parameters, gradients and what is remembered.
//!
//! Factors are computed in `f64` and rounded once; elements are `f32`. Only `+ - × / √` are used, each of which
//! rounds in one way on every machine, and never a fused multiply-add: so the result is the same bytes.

use super::config::{Adam, AdamW, Sgd};
use crate::simd::{Kernel, Simd, Vector};

/// One step of AdamW: parameters shrink first, then follow the moments of the bare gradient.
pub(super) fn adamw(
    config: &AdamW,
    step: u64,
    learning_rate: f64,
    parameters: &mut [f32],
    gradients: Gradients,
    moments: [&mut [f32]; 2],
) {
    let kept = (1.0 - learning_rate * config.weight_decay) as f32;
    let scales = Scales::new(config.betas, config.epsilon, step, learning_rate);
    scales.pass(parameters, gradients, moments, |parameter, gradient| {
        *parameter *= kept;
        gradient
    });
}

/// One step of Adam: decay is part of the gradient, and of its moments.
pub(super) fn adam(
    config: &Adam,
    step: u64,
    learning_rate: f64,
    parameters: &mut [f32],
    gradients: Gradients,
    moments: [&mut [f32]; 2],
) {
    let decay = config.weight_decay as f32;
    let scales = Scales::new(config.betas, config.epsilon, step, learning_rate);
    // Without decay nothing is added, so that an infinite parameter gives no NaN.
    if config.weight_decay == 0.0 {
        scales.pass(parameters, gradients, moments, |_, gradient| gradient);
    } else {
        scales.pass(parameters, gradients, moments, |parameter, gradient| {
            gradient + decay * *parameter
        });
    }
}

/// One step of gradient descent without momentum.
pub(super) fn descend(
    config: &Sgd,
    learning_rate: f64,
    parameters: &mut [f32],
    gradients: Gradients,
) {
    let (decay, rate) = (config.weight_decay as f32, learning_rate as f32);
    for (parameter, &gradient) in parameters.iter_mut().zip(gradients.numbers) {
        let gradient = decayed(decay, *parameter, gradient * gradients.factor);
        *parameter -= rate * gradient;
    }
}

/// One step of gradient descent with momentum. The buffer starts at 0, so the first step is the gradient's.
pub(super) fn descend_with_momentum(
    config: &Sgd,
    learning_rate: f64,
    parameters: &mut [f32],
    gradients: Gradients,
    buffer: &mut [f32],
) {
    let (decay, rate) = (config.weight_decay as f32, learning_rate as f32);
    let momentum = config.momentum as f32;
    for ((parameter, &gradient), kept) in parameters.iter_mut().zip(gradients.numbers).zip(buffer) {
        let gradient = decayed(decay, *parameter, gradient * gradients.factor);
        *kept = *kept * momentum + gradient;
        let direction = if config.nesterov { gradient + momentum * *kept } else { *kept };
        *parameter -= rate * direction;
    }
}

fn decayed(decay: f32, parameter: f32, gradient: f32) -> f32 {
    if decay == 0.0 { gradient } else { gradient + decay * parameter }
}

/// The numbers of one step of Adam that are the same for all parameters.
struct Scales {
    mean_weight: f32,
    square_kept: f32,
    square_weight: f32,
    root_correction: f32,
    epsilon: f32,
    step_size: f32,
}

impl Scales {
    fn new([beta1, beta2]: [f64; 2], epsilon: f64, step: u64, learning_rate: f64) -> Scales {
        Scales {
            mean_weight: (1.0 - beta1) as f32,
            square_kept: beta2 as f32,
            square_weight: (1.0 - beta2) as f32,
            root_correction: (1.0 - power(beta2, step)).sqrt() as f32,
            epsilon: epsilon as f32,
            step_size: (learning_rate / (1.0 - power(beta1, step))) as f32,
        }
    }

    /// Moves every parameter; `decay` may change it first, and gives the gradient to use.
    fn pass(
        &self,
        parameters: &mut [f32],
        gradients: Gradients,
        moments: [&mut [f32]; 2],
        decay: impl Fn(&mut f32, f32) -> f32,
    ) {
        Simd::detect().run(Moved { scales: self, parameters, gradients, moments, decay });
    }
}

/// Gradients to be multiplied by a factor first.
#[derive(Clone, Copy)]
pub(super) struct Gradients<'a> {
    pub numbers: &'a [f32],
    pub factor: f32,
}

/// The pass of [`Scales`], for wider instructions where there are some; they round alike.
struct Moved<'a, D> {
    scales: &'a Scales,
    parameters: &'a mut [f32],
    gradients: Gradients<'a>,
    moments: [&'a mut [f32]; 2],
    decay: D,
}

impl<D: Fn(&mut f32, f32) -> f32> Kernel for Moved<'_, D> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self { scales, parameters, gradients, moments: [means, squares], decay } = self;
        let moments = means.iter_mut().zip(squares);
        for ((parameter, &gradient), (mean, square)) in
            parameters.iter_mut().zip(gradients.numbers).zip(moments)
        {
            let gradient = decay(parameter, gradient * gradients.factor);
            *mean = between(*mean, gradient, scales.mean_weight);
            *square = *square * scales.square_kept + scales.square_weight * gradient * gradient;
            let root = square.sqrt() / scales.root_correction + scales.epsilon;
            *parameter -= scales.step_size * *mean / root;
        }
    }
}

/// The point at `weight` of the way from `start` to `end`, from the nearer side: both ends are met exactly.
fn between(start: f32, end: f32, weight: f32) -> f32 {
    let way = end - start;
    if weight < 0.5 { start + weight * way } else { end - way * (1.0 - weight) }
}

/// A power by squaring; the standard library's may differ between machines.
fn power(base: f64, exponent: u64) -> f64 {
    let (mut result, mut square, mut left) = (1.0, base, exponent);
    while left > 0 {
        if left % 2 == 1 {
            result *= square;
        }
        square *= square;
        left /= 2;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_products() {
        let mut product = 1.0;
        for exponent in 0..200 {
            assert!((power(0.999, exponent) - product).abs() < 1e-13);
            product *= 0.999;
        }
        assert_eq!(power(0.0, 0), 1.0);
        assert_eq!(power(0.9, u64::MAX), 0.0);
    }

    #[test]
    fn ends_are_met() {
        assert_eq!(between(0.1, 0.7, 0.0), 0.1);
        assert_eq!(between(0.1, 0.7, 1.0), 0.7);
        assert_eq!(between(1.0, 3.0, 0.25), 1.5);
    }
}
