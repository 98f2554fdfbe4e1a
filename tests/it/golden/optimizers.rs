//! Parameters after every step of an optimiser, and learning rates; all settings are read from the sidecar.

use super::Fixture;
use super::words::{number_after, numbers_after};
use hdse::train::optimizer::{Adam, AdamW, Sgd};
use hdse::train::{Optimizer, OptimizerConfig, Schedule, clip_norm};

/// Rates are computed in `f64` on both sides.
const RATE_LIMIT: f64 = 1e-12;

/// Whether cases are described in words; a training run has none.
pub fn is_about(fixture: &Fixture) -> bool {
    let cases = fixture.config["cases"].as_object();
    cases.is_some_and(|cases| cases.values().all(|text| text.is_string()))
}

pub fn check(fixture: &Fixture) {
    let tolerance = &fixture.sidecar["tolerance"]["suggested_limit_for_float32_code"];
    let limit = number_after(tolerance.as_str().unwrap_or_default(), &["absolute"]).unwrap_or(2e-6);
    let cases = fixture.config["cases"].as_object().expect("cases in the config");
    let texts = || cases.values().map(|text| text.as_str().expect("a case in words"));
    // A case that gives no rate has that of the others.
    let common_rate = texts().find_map(|text| number_after(text, &["lr"])).unwrap_or(1e-2);
    for (case, text) in cases.keys().zip(texts()) {
        check_case(fixture, case, text, common_rate, limit);
    }
    for name in fixture.names().iter().filter(|name| name.starts_with("out.schedule.")) {
        let text = fixture.sidecar["tensors"][name]["meaning"].as_str().expect("a meaning");
        let schedule = schedule_of(name, text)
            .unwrap_or_else(|| panic!("{}: {name} is described as `{text}`", fixture.name));
        schedule.check().unwrap();
        let steps = 0..fixture.shape(name)[0] as u64;
        fixture.close(name, steps.map(|step| schedule.rate(step)), RATE_LIMIT);
    }
}

fn check_case(fixture: &Fixture, case: &str, text: &str, common_rate: f64, limit: f64) {
    let starts: Vec<Vec<f32>> = (0..)
        .map(|k| format!("in.w{k}"))
        .take_while(|name| fixture.has(name))
        .map(|name| fixture.floats(&name))
        .collect();
    let gradients: Vec<Vec<f32>> =
        (0..starts.len()).map(|k| fixture.floats(&format!("in.grads{k}"))).collect();
    let steps = fixture.shape("in.grads0")[0];
    let rate = number_after(text, &["lr"]).unwrap_or(common_rate);
    let max_norm = text.contains("clip").then(|| number_after(text, &["norm"]).expect("a norm"));

    let mut parameters = starts.concat();
    let mut optimizer = Optimizer::new(config_of(text), parameters.len()).unwrap();
    let mut found = vec![Vec::new(); starts.len()];
    for step in 0..steps {
        let row = |k: usize| gradients[k].chunks_exact(starts[k].len()).nth(step).unwrap();
        let mut gradient: Vec<f32> = (0..starts.len()).flat_map(|k| row(k).to_vec()).collect();
        if let Some(max_norm) = max_norm {
            clip_norm(&mut gradient, max_norm);
        }
        optimizer.step(rate, &mut parameters, &gradient).unwrap();
        let mut rest = parameters.as_slice();
        for (found, start) in found.iter_mut().zip(&starts) {
            let (own, others) = rest.split_at(start.len());
            found.extend(own.iter().map(|&parameter| f64::from(parameter)));
            rest = others;
        }
    }
    for (k, found) in found.into_iter().enumerate() {
        fixture.close(&format!("out.{case}.w{k}"), found, limit);
    }
}

/// The optimiser of a sentence such as "torch AdamW lr 1e-2, betas .9 .999, decoupled decay 1e-2".
fn config_of(text: &str) -> OptimizerConfig {
    let decay = || {
        let without = text.contains("without decay") || text.contains("no decay");
        if without { Some(0.0) } else { number_after(text, &["decay", "weight_decay", "term"]) }
    };
    let betas = numbers_after(text, &["betas"]).try_into();
    let epsilon = number_after(text, &["eps"]);
    let is = |name: &str| text.split_whitespace().any(|word| word.trim_end_matches(',') == name);
    if is("AdamW") {
        let base = AdamW::default();
        OptimizerConfig::AdamW(AdamW {
            betas: betas.unwrap_or(base.betas),
            epsilon: epsilon.unwrap_or(base.epsilon),
            weight_decay: decay().unwrap_or(base.weight_decay),
        })
    } else if is("Adam") {
        let base = Adam::default();
        OptimizerConfig::Adam(Adam {
            betas: betas.unwrap_or(base.betas),
            epsilon: epsilon.unwrap_or(base.epsilon),
            weight_decay: decay().unwrap_or(base.weight_decay),
        })
    } else if is("SGD") {
        OptimizerConfig::Sgd(Sgd {
            momentum: number_after(text, &["momentum"]).unwrap_or(0.0),
            weight_decay: decay().unwrap_or(0.0),
            nesterov: text.to_lowercase().contains("nesterov"),
        })
    } else {
        panic!("no optimizer in `{text}`");
    }
}

/// The schedule of a tensor, from the numbers in its meaning.
fn schedule_of(name: &str, text: &str) -> Option<Schedule> {
    let whole = |names: &[&str]| number_after(text, names).map(|number| number as u64);
    if name.contains("cosine") {
        return Some(Schedule::Cosine {
            rate: number_after(text, &["base"])?,
            warmup: whole(&["warm-up", "warmup"])?,
            total: whole(&["total"])?,
        });
    }
    let (rise, fall) = text.split_once("then")?;
    let warmup = number_after(rise, &["over"])? as u64;
    let ends = numbers_after(rise, &["linear"]);
    if name.contains("sqrt") {
        let [start, rate] = ends.try_into().ok()?;
        return Some(Schedule::InverseSquareRoot { rate, warmup, start, total: None });
    }
    if name.contains("linear") {
        let [rate] = ends.try_into().ok()?;
        let end = number_after(fall, &["linear"])?;
        let total = number_after(fall, &["update", "step", "iteration"])? as u64;
        return Some(Schedule::Linear { rate, warmup, total, end });
    }
    None
}

#[test]
fn schedules_are_read_from_words() {
    let text = "lr per update s: linear to 3e-4 over 7 updates, then linear to 1e-8 at update 50";
    let expected = Schedule::Linear { rate: 3e-4, warmup: 7, total: 50, end: 1e-8 };
    assert_eq!(schedule_of("out.schedule.linear_decay", text), Some(expected));
    let text =
        "lr per iteration s = 0..9: linear 1e-7 -> 2e-3 over 5 iterations, then 2e-3*sqrt(5/s)";
    let expected = Schedule::InverseSquareRoot { rate: 2e-3, warmup: 5, start: 1e-7, total: None };
    assert_eq!(schedule_of("out.schedule.rsqrt", text), Some(expected));
    let sgd = Sgd { momentum: 0.8, weight_decay: 1e-3, nesterov: true };
    assert_eq!(
        config_of("torch SGD lr .1, momentum .8, nesterov, decay 1e-3"),
        OptimizerConfig::Sgd(sgd)
    );
}
