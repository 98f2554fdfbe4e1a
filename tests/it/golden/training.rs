//! Twenty steps of training: losses, gradient norms, learning rates, parameters.

use super::Fixture;
use super::models::{batch, config, loss};
use crate::support::Way;
use hdse::nn::{Batch, Entry, Model, Pass, values};
use hdse::rng::Seed;
use hdse::train::{Optimizer, OptimizerConfig, Schedule, clip_norm};
use serde_json::json;

pub fn is_about(fixture: &Fixture) -> bool {
    fixture.config.get("batch_order").is_some() && super::models::is_about(fixture)
}

pub fn check(fixture: &Fixture) {
    Way::ALL.iter().for_each(|way| check_way(fixture, *way));
}

fn check_way(fixture: &Fixture, way: Way) {
    let mut model = Model::new(&config(&fixture.config), Seed(0)).unwrap();
    model.parameters.load(&fixture.path, "param.").unwrap();
    let loss = loss(&fixture.config);
    let settings = &fixture.config["optimizer"];
    let number = |key: &str| settings[key].as_f64().unwrap_or_else(|| panic!("no `{key}`"));
    let schedule = Schedule::Cosine {
        rate: number("lr"),
        warmup: number("warmup") as u64,
        total: number("total") as u64,
    };
    let name = settings["optimizer"].as_str().expect("an optimiser").to_lowercase();
    let optimizer: OptimizerConfig = serde_json::from_value(json!({
        "name": name, "betas": settings["betas"], "eps": settings["eps"],
        "weight_decay": settings["weight_decay"],
    }))
    .unwrap();
    let mut optimizer = Optimizer::new(optimizer, model.parameters.count()).unwrap();

    let order: Vec<usize> = fixture.config["batch_order"]
        .as_array()
        .expect("an order")
        .iter()
        .map(|batch| batch.as_u64().expect("a batch") as usize)
        .collect();
    let count = order.iter().max().expect("a batch") + 1;
    let batches: Vec<Batch> = (0..count).map(|i| batch(fixture, &format!("in.{i}."))).collect();
    let limit = |key: &str| {
        let path = format!("tolerance.suggested_limit_for_float32_code.{key}");
        fixture.number(&path).unwrap_or_else(|| panic!("{}: no {path}", fixture.name))
    };

    let (mut losses, mut norms, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    for (step, &number) in order.iter().enumerate() {
        let batch = &batches[number];
        let pass = way.of(Pass::train(&model.parameters, Seed(0), step as u64));
        let prediction = model.backbone.forward(&pass, batch).unwrap();
        let value = loss.of(prediction, batch.targets.as_ref().unwrap()).unwrap();
        let mut gradients = pass.gradients(&value);
        losses.push(f64::from(values(value)[0]));
        pass.statistics().store(&mut model.parameters);
        norms.push(clip_norm(&mut gradients, settings["clip_norm"].as_f64().expect("a norm")));
        rates.push(schedule.rate(step as u64));
        optimizer.step(rates[step], model.parameters.trained_mut(), &gradients).unwrap();
        check_parameters(fixture, &model, &rates, limit("parameters_abs"));
    }
    fixture.close("out.loss", losses, limit("loss_abs"));
    fixture.close("out.lr", rates, 1e-12);
    let relative = limit("grad_norm_relative");
    let expected = fixture.doubles("out.grad_norm");
    for (found, expected) in norms.iter().zip(&expected) {
        assert!((found - expected).abs() <= relative * expected, "{found} {expected}");
    }
    assert_eq!(norms.len(), expected.len());
    fixture.mark("out.grad_norm");

    let mut eval_losses = Vec::new();
    for (number, batch) in batches.iter().enumerate() {
        let pass = way.of(Pass::eval(&model.parameters));
        let prediction = model.backbone.forward(&pass, batch).unwrap();
        let found = values(prediction.clone()).into_iter().map(f64::from);
        fixture.close(&format!("out.eval_pred.{number}"), found, limit("eval_pred_abs"));
        let value = loss.of(prediction, batch.targets.as_ref().unwrap()).unwrap();
        eval_losses.push(f64::from(values(value)[0]));
    }
    fixture.close("out.eval_loss", eval_losses, limit("eval_loss_abs"));
}

/// Compares all parameters after so many steps, if the fixture has them.
fn check_parameters(fixture: &Fixture, model: &Model, rates: &[f64], limit: f64) {
    let step = rates.len();
    for entry in model.parameters.entries() {
        let name = format!("out.step{step}.{}", entry.name);
        if !fixture.has(&name) {
            continue;
        }
        let found = model.parameters.get(&entry.name).expect("a parameter");
        let (expected, start) =
            (fixture.floats(&name), fixture.floats(&format!("param.{}", entry.name)));
        assert_eq!(found.len(), expected.len(), "{}: {name}", fixture.name);
        for (i, (a, b)) in found.iter().zip(&expected).enumerate() {
            if is_listed(fixture, entry, i) {
                continue;
            }
            // The value third of the packed bias is a shift before a BatchNorm, too: the weights of
            // attention add up to 1. Where the reference has moved it by its decay only, noise may
            // move ours, by a rate a step.
            let decay = fixture.config["optimizer"]["weight_decay"].as_f64().unwrap_or(0.0);
            let decayed =
                rates.iter().fold(f64::from(start[i]), |x, rate| x * (1.0 - rate * decay));
            let still = (f64::from(*b) - decayed).abs() <= 1e-6;
            let value = entry.name.ends_with("attn.in_proj_bias") && i >= found.len() / 3 * 2;
            let noise = value && still;
            let limit = if noise { rates.iter().sum() } else { limit };
            let difference = f64::from((a - b).abs());
            assert!(difference <= limit, "{}: {name}[{i}] is {a}, not {b}", fixture.name);
        }
        fixture.mark(&name);
    }
}

/// Whether the sidecar lists a number as undetermined: where the gradient is zero in exact arithmetic,
/// the optimiser makes steps of rounding noise.
fn is_listed(fixture: &Fixture, entry: &Entry, index: usize) -> bool {
    let listed = &fixture.sidecar["tolerance"]["parameters_not_to_compare_in_float32"];
    let listed: Vec<&str> =
        listed.as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect();
    if listed.contains(&entry.name.as_str()) {
        return true;
    }
    let says = |words: &[&str]| listed.iter().any(|text| words.iter().all(|w| text.contains(w)));
    if entry.name.ends_with("attn.in_proj_bias") && says(&["attn.in_proj_bias", "key"]) {
        let third = entry.range.len() / 3;
        return (third..2 * third).contains(&index);
    }
    let norm = entry.name.contains(".norm_") && entry.name.ends_with("running_mean");
    norm && says(&["norm_", "running_mean"])
}
