//! Our own operations against finite differences and their composed twins.

use std::sync::Arc;

use super::assert_close;
use burn::tensor::Tensor;
use hdse::nn::{
    BatchNorm, Builder, Groups, Inputs, Mode, Pairs, Parameters, Pass, attention, cpu, gather,
    matrix, max, sum, values,
};
use hdse::rng::{Coins, Seed};

/// Derivatives of Σ out·upstream by finite differences, for a function of matrices.
fn check_derivatives(
    inputs: &[([usize; 2], Vec<f32>)],
    function: impl Fn(&Pass, Vec<Tensor<2>>) -> Tensor<2>,
    what: &str,
) {
    check_layer_derivatives(&Parameters::default(), Mode::Eval, inputs, function, what);
}

/// The same for a layer with parameters.
fn check_layer_derivatives(
    parameters: &Parameters,
    mode: Mode,
    inputs: &[([usize; 2], Vec<f32>)],
    function: impl Fn(&Pass, Vec<Tensor<2>>) -> Tensor<2>,
    what: &str,
) {
    let device = cpu().autodiff();
    let leaves = |inputs: &[([usize; 2], Vec<f32>)]| -> Vec<Tensor<2>> {
        let leaf = |(shape, values): &([usize; 2], Vec<f32>)| {
            matrix(values.clone(), *shape, &device).require_grad()
        };
        inputs.iter().map(leaf).collect()
    };
    let upstream = |shape: [usize; 2]| {
        let mut stream = Seed(9).stream("upstream", 0, 0);
        (0..shape[0] * shape[1]).map(|_| stream.unit() as f32 - 0.5).collect::<Vec<f32>>()
    };
    let mut twins = Vec::new();
    for composed in [false, true] {
        let pass = Pass::new(parameters, mode, &device);
        let pass = if composed { pass.composed() } else { pass };
        let loss = |inputs: &[([usize; 2], Vec<f32>)]| -> f64 {
            let output = function(&pass, leaves(inputs));
            let upstream = upstream(output.dims());
            values(output).iter().zip(upstream).map(|(a, b)| f64::from(*a) * f64::from(b)).sum()
        };
        let leaves = leaves(inputs);
        let output = function(&pass, leaves.clone());
        let weighted = output.clone() * matrix(upstream(output.dims()), output.dims(), &device);
        let gradients = weighted.sum().backward();
        let mut all = values(output);
        for (i, leaf) in leaves.iter().enumerate() {
            let found = leaf.grad(&gradients).map(values);
            let found = found.unwrap_or_else(|| vec![0.0; inputs[i].1.len()]);
            let largest = found.iter().fold(0.0, |largest: f32, g| largest.max(g.abs()));
            for (j, &derivative) in found.iter().enumerate() {
                let at = |change: f32| {
                    let mut inputs = inputs.to_vec();
                    inputs[i].1[j] += change;
                    loss(&inputs)
                };
                let step = 1e-2;
                let expected = (at(step) - at(-step)) / f64::from(2.0 * step);
                let difference = (f64::from(derivative) - expected).abs();
                assert!(
                    difference < f64::from(2e-3 * largest + 1e-4),
                    "{what}, composed {composed}: input {i}[{j}]: {derivative} by the \
                     tape, {expected} by differences",
                );
            }
            all.extend(found);
        }
        twins.push(all);
    }
    assert_close(&twins[0], &twins[1], 1e-5, what);
}

fn random(rows: usize, columns: usize, seed: u64) -> ([usize; 2], Vec<f32>) {
    let mut stream = Seed(seed).stream("random", rows as u64, columns as u64);
    let values = (0..rows * columns).map(|_| 2.0 * stream.unit() as f32 - 1.0).collect();
    ([rows, columns], values)
}

#[test]
fn own_operations_have_right_derivatives() {
    // Group 2 has no rows.
    let groups = Groups::new(vec![3, 0, 0, 1, 3, 3, 1], 5);
    let rows = [random(7, 3, 0)];
    check_derivatives(&rows, |pass, x| sum(pass, &groups, x[0].clone()), "sum");
    check_derivatives(&rows, |pass, x| max(pass, &groups, x[0].clone()), "max");
    let table = [random(5, 3, 1)];
    check_derivatives(&table, |pass, x| gather(pass, &groups, x[0].clone()), "gather");
    let mut rows = [random(4, 5, 2)];
    rows[0].1[10..15].fill(0.0); // its derivative is that of x / 1e-12
    check_zero_row(&rows[0]);
    rows[0].1[10..15].fill(0.25);
    check_derivatives(&rows, |_, x| hdse::nn::normalise_rows(x[0].clone()), "normalise_rows");

    let mut builder = Builder::new(Seed(0));
    let norm = BatchNorm::new(builder.root(), 3);
    let mut parameters = builder.finish();
    parameters.set("weight", &[0.5, -1.0, 2.0]).unwrap();
    for mode in [Mode::Eval, Mode::Train { seed: Seed(0), step: 0 }] {
        let run = |pass: &Pass, x: Vec<Tensor<2>>| norm.forward(pass, x[0].clone());
        check_layer_derivatives(&parameters, mode, &[random(9, 3, 8)], run, "BatchNorm");
        // Scale and shift as inputs, in place of the parameters.
        let run = |x: &[f32], parameters: &Parameters| -> (f64, Vec<f32>) {
            let device = cpu().autodiff();
            let pass = Pass::new(parameters, mode, &device);
            let y = norm.forward(&pass, matrix(x.to_vec(), [9, 3], &device));
            let (shape, upstream) = random(9, 3, 10);
            let weighted = y * matrix(upstream, shape, &device);
            let sum = values(weighted.clone()).iter().map(|&x| f64::from(x)).sum();
            (sum, pass.gradients(&weighted.sum()))
        };
        let (_, x) = random(9, 3, 8);
        let (_, found) = run(&x, &parameters);
        for entry in parameters.entries().iter().filter(|entry| entry.trained) {
            for i in 0..3 {
                let at = |change: f32| {
                    let mut changed = parameters.clone();
                    let mut values = changed.get(&entry.name).unwrap().to_vec();
                    values[i] += change;
                    changed.set(&entry.name, &values).unwrap();
                    run(&x, &changed).0
                };
                let expected = (at(0.1) - at(-0.1)) / 0.2;
                let found = f64::from(found[entry.range.start + i]);
                assert!((found - expected).abs() < 1e-4, "{}[{i}]: {found} {expected}", entry.name);
            }
        }
    }

    let mut stream = Seed(3).stream("codes", 0, 0);
    let sizes = [0, 4, 5, 8];
    let pairs = 16 + 1 + 9;
    let codes: Vec<u32> = (0..pairs).map(|_| stream.below(6) as u32).collect();
    let [biased, plain] = [Some(codes), None].map(|codes| Pairs::new(sizes.to_vec(), codes));
    let inputs = [random(8, 6, 4), random(8, 6, 5), random(8, 6, 6), random(6, 2, 7)];
    for coins in [None, Some(Seed(3).coins("dropout", 0, 0, 0.4))] {
        for pairs in [&biased, &plain] {
            let run = |pass: &Pass, x: Vec<Tensor<2>>| attend(pass, pairs, x, coins);
            check_derivatives(&inputs, run, &format!("attention, dropout {}", coins.is_some()));
        }
    }
}

/// A row of zeros stays one, and its derivative is finite.
fn check_zero_row((shape, rows): &([usize; 2], Vec<f32>)) {
    let x = matrix(rows.clone(), *shape, &cpu().autodiff()).require_grad();
    let y = hdse::nn::normalise_rows(x.clone());
    assert_eq!(values(y.clone())[10..15], [0.0; 5]);
    let gradient = values(x.grad(&y.sum().backward()).unwrap());
    assert!(gradient.iter().all(|g| g.is_finite()), "{gradient:?}");
}

fn attend(pass: &Pass, pairs: &Arc<Pairs>, x: Vec<Tensor<2>>, coins: Option<Coins>) -> Tensor<2> {
    let [query, key, value, table] = x.try_into().expect("four inputs");
    let table = pairs.codes().map(|_| table);
    attention(pass, pairs, 2, Inputs { query, key, value }, table, coins, String::new)
}
