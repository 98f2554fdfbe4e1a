use super::*;
use crate::rng::Seed;
use proptest::prelude::*;

/// Every optimiser, with each of its branches.
fn configs() -> Vec<OptimizerConfig> {
    let adam = Adam::default();
    let sgd = Sgd { momentum: 0.9, weight_decay: 1e-4, nesterov: false };
    vec![
        OptimizerConfig::AdamW(AdamW::default()),
        OptimizerConfig::AdamW(AdamW { betas: [0.3, 0.5], ..AdamW::default() }),
        OptimizerConfig::Adam(adam),
        OptimizerConfig::Adam(Adam { weight_decay: 5e-4, ..adam }),
        OptimizerConfig::Sgd(Sgd::default()),
        OptimizerConfig::Sgd(Sgd { momentum: 0.0, ..sgd }),
        OptimizerConfig::Sgd(sgd),
        OptimizerConfig::Sgd(Sgd { nesterov: true, ..sgd }),
    ]
}

fn random(count: usize, seed: u64) -> Vec<f32> {
    let mut stream = Seed(seed).stream("test", 0, 0);
    (0..count).map(|_| (stream.unit() * 4.0 - 2.0) as f32).collect()
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

/// The formulas of the module documentation, one parameter at a time, in f64.
fn slow(config: &OptimizerConfig, rate: f64, start: f64, gradients: &[f64]) -> f64 {
    let (mut theta, mut m, mut v, mut b) = (start, 0.0, 0.0, 0.0);
    for (t, &gradient) in (1..).zip(gradients) {
        let mut adam = |theta: f64, g: f64, [beta1, beta2]: [f64; 2], epsilon: f64| {
            m = beta1 * m + (1.0 - beta1) * g;
            v = beta2 * v + (1.0 - beta2) * g * g;
            let (m, v) = (m / (1.0 - beta1.powi(t)), v / (1.0 - beta2.powi(t)));
            theta - rate * m / (v.sqrt() + epsilon)
        };
        theta = match config {
            OptimizerConfig::AdamW(c) => {
                adam((1.0 - rate * c.weight_decay) * theta, gradient, c.betas, c.epsilon)
            }
            OptimizerConfig::Adam(c) => {
                adam(theta, gradient + c.weight_decay * theta, c.betas, c.epsilon)
            }
            OptimizerConfig::Sgd(c) => {
                let g = gradient + c.weight_decay * theta;
                b = c.momentum * b + g;
                theta - rate * if c.nesterov { g + c.momentum * b } else { b }
            }
        };
    }
    theta
}

#[test]
fn steps_follow_the_formulas() {
    for config in configs() {
        let mut parameters = random(9, 1);
        let start = parameters.clone();
        let gradients: Vec<Vec<f32>> = (2..27).map(|seed| random(9, seed)).collect();
        let mut optimizer = Optimizer::new(config, 9).unwrap();
        for gradient in &gradients {
            optimizer.step(1e-2, &mut parameters, gradient).unwrap();
        }
        for i in 0..9 {
            let column: Vec<f64> = gradients.iter().map(|g| f64::from(g[i])).collect();
            let expected = slow(&config, 1e-2, f64::from(start[i]), &column);
            assert!((f64::from(parameters[i]) - expected).abs() < 4e-6, "{config:?}: {i}");
        }
    }
}

/// At the first step m̂ = g and v̂ = g², so θ₁ = (1 − ηλ) θ₀ − η g / (|g| + ε).
#[test]
fn the_first_step_of_adamw_has_a_closed_form() {
    let config = AdamW { weight_decay: 0.1, epsilon: 1e-3, ..AdamW::default() };
    let mut parameters = [2.0];
    let mut optimizer = Optimizer::new(OptimizerConfig::AdamW(config), 1).unwrap();
    optimizer.step(0.5, &mut parameters, &[-0.25]).unwrap();
    let expected = (1.0 - 0.5 * 0.1) * 2.0 + 0.5 * 0.25 / (0.25 + 1e-3);
    assert!((f64::from(parameters[0]) - expected).abs() < 1e-6);
}

proptest! {
    #[test]
    fn restored_continues_bit_for_bit(
        seed in any::<u64>(), len in 0..20usize, before in 0..6u64, after in 1..6u64
    ) {
        for config in configs() {
            let mut optimizer = Optimizer::new(config, len).unwrap();
            let mut parameters = random(len, seed);
            let mut run = |optimizer: &mut Optimizer, steps: std::ops::Range<u64>| {
                for step in steps {
                    let gradients = random(len, seed ^ (step + 1));
                    optimizer.step(1e-2, &mut parameters, &gradients).unwrap();
                }
                parameters.clone()
            };
            let middle = run(&mut optimizer, 0..before);
            let mut other = Optimizer::new(config, len).unwrap();
            let mut state = optimizer.state();
            state.arrays.reverse();
            other.restore(&state).unwrap();
            let end = run(&mut optimizer, before..before + after);
            parameters = middle;
            for step in before..before + after {
                other.step(1e-2, &mut parameters, &random(len, seed ^ (step + 1))).unwrap();
            }
            prop_assert_eq!(bits(&parameters), bits(&end));
            for (a, b) in optimizer.state().arrays.iter().zip(other.state().arrays) {
                prop_assert_eq!((a.0, bits(a.1)), (b.0, bits(b.1)));
            }
            prop_assert_eq!(optimizer.state().step, before + after);
        }
    }
}

#[test]
fn wrong_states_are_refused_and_change_nothing() {
    let adam = OptimizerConfig::Adam(Adam::default());
    let mut optimizer = Optimizer::new(adam, 2).unwrap();
    optimizer.step(0.1, &mut [1.0, 2.0], &[0.1, 0.2]).unwrap();
    let kept = optimizer.clone();
    let (two, three) = ([1.0; 2], [1.0; 3]);
    for (arrays, expected) in [
        (vec![("exp_avg", &two[..])], "`exp_avg_sq` of optimizer `adam` is missing"),
        (vec![("exp_avg", &two), ("exp_avg_sq", &three)], "3 numbers for 2 parameters"),
        (vec![("exp_avg", &two), ("exp_avg_sqr", &two)], "did you mean `exp_avg_sq`?"),
        (vec![("exp_avg", &two), ("exp_avg", &two), ("exp_avg_sq", &two)], "given twice"),
    ] {
        let error = optimizer.restore(&OptimizerState { step: 9, arrays }).unwrap_err();
        assert!(error.is_data() && error.to_string().contains(expected), "{error}");
        assert_eq!(optimizer, kept);
    }
}

#[test]
fn wrong_arguments_are_refused_and_change_nothing() {
    let mut optimizer = Optimizer::new(OptimizerConfig::named("sgd").unwrap(), 2).unwrap();
    let mut parameters = [1.0, 2.0];
    assert!(optimizer.step(0.1, &mut parameters, &[1.0]).unwrap_err().is_config());
    assert!(optimizer.step(0.1, &mut parameters[..1], &[1.0, 1.0]).is_err());
    for rate in [-0.1, f64::NAN, f64::INFINITY] {
        let error = optimizer.step(rate, &mut parameters, &[1.0, 1.0]).unwrap_err();
        assert!(error.to_string().contains("is no learning rate"), "{error}");
    }
    assert_eq!((optimizer.state().step, parameters), (0, [1.0, 2.0]));
}

#[test]
fn a_rate_of_zero_moves_nothing() {
    for config in configs() {
        let mut parameters = random(5, 3);
        let mut optimizer = Optimizer::new(config, 5).unwrap();
        optimizer.step(0.0, &mut parameters, &random(5, 4)).unwrap();
        assert_eq!(parameters, random(5, 3), "{config:?}");
    }
}
