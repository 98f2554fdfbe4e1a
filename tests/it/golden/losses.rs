//! Losses and their gradients.

use super::Fixture;
use hdse::data::Values;
use hdse::nn::{Mode, Parameters, Pass, cpu, matrix, values};
use hdse::train::Loss;

/// Cases that have predictions and a loss.
pub fn is_about(fixture: &Fixture) -> bool {
    let mut cases = cases(fixture).peekable();
    cases.peek().is_some() && cases.all(|case| fixture.has(&format!("out.{case}.loss")))
}

fn cases(fixture: &Fixture) -> impl Iterator<Item = &String> {
    fixture.config["cases"].as_object().into_iter().flat_map(|cases| cases.keys())
}

/// The loss that a case is about, by its name.
fn loss(case: &str) -> Loss {
    match case {
        _ if case.starts_with("weighted_bce") => Loss::WeightedBinaryCrossEntropy,
        _ if case.starts_with("weighted_ce") => Loss::WeightedCrossEntropy,
        _ if case.starts_with("bce") => Loss::BinaryCrossEntropy,
        _ if case.starts_with("ce") || case.starts_with("nll") => Loss::CrossEntropy,
        _ if case.starts_with("l1") => Loss::L1,
        _ => panic!("unknown loss `{case}`"),
    }
}

pub fn check(fixture: &Fixture) {
    let parameters = Parameters::default();
    let pass = Pass::new(&parameters, Mode::Eval, &cpu().autodiff());
    for case in cases(fixture) {
        let shape = fixture.shape(&format!("in.{case}.pred"));
        let shape = [shape[0], shape.get(1).copied().unwrap_or(1)];
        let predictions = fixture.floats(&format!("in.{case}.pred"));
        let predictions = matrix(predictions, shape, pass.device()).require_grad();
        let targets = match loss(case) {
            Loss::L1 | Loss::BinaryCrossEntropy => {
                Values::Float(fixture.floats(&format!("in.{case}.y")))
            }
            _ => Values::Int(fixture.ints(&format!("in.{case}.y"))),
        };
        let loss = loss(case).of(predictions.clone(), &targets).unwrap();
        fixture.output(&format!("out.{case}.loss"), &values(loss.clone()));
        let gradient = predictions.grad(&loss.backward()).expect("a gradient");
        fixture.gradient(&format!("{case}.pred"), &values(gradient));
    }
}
