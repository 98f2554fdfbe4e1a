//! Metrics of given predictions, their mean and, where the fixture has them, per task.

use super::Fixture;
use super::words::number_after;
use hdse::train::metrics::{Targets, task_scores};
use hdse::train::{Metric, metrics};

/// Whether cases give values of metrics; losses have gradients.
pub fn is_about(fixture: &Fixture) -> bool {
    let Some(cases) = fixture.config["cases"].as_object() else { return false };
    let mut values = cases.values().filter_map(|case| case["values"].as_object());
    values.any(|values| values.keys().any(|key| metric(key).is_some()))
        && !fixture.names().iter().any(|name| name.starts_with("grad."))
}

/// The metric that fixtures call `key`.
fn metric(key: &str) -> Option<Metric> {
    key.replace('_', "-").parse().ok()
}

pub fn check(fixture: &Fixture) {
    let text = fixture.sidecar["tolerance"]["suggested_limit"].as_str().unwrap_or_default();
    let limit = number_after(text, &["absolute"]).unwrap_or(1e-9);
    for (id, case) in fixture.config["cases"].as_object().expect("cases in the config") {
        let input = ["pred", "logits", "scores"]
            .map(|kind| format!("in.{id}.{kind}"))
            .into_iter()
            .find(|name| fixture.has(name))
            .unwrap_or_else(|| panic!("{}: no predictions of {id}", fixture.name));
        let predictions = fixture.floats(&input);
        let width = fixture.shape(&input).get(1).copied().unwrap_or(1);
        let y = format!("in.{id}.y");
        let (ints, floats);
        let targets = if fixture.sidecar["tensors"][&y]["dtype"] == "int64" {
            ints = fixture.ints(&y);
            Targets::Int(&ints)
        } else {
            floats = fixture.floats(&y);
            Targets::Float(&floats)
        };
        for (key, value) in case["values"].as_object().expect("values of a case") {
            let metric = metric(key).unwrap_or_else(|| panic!("{}: no metric {key}", fixture.name));
            let found = metric.compute(&predictions, width, targets).unwrap();
            fixture.close(&format!("out.{id}.{key}"), [found], limit);
            let stated = value.as_f64().expect("a number");
            assert!((found - stated).abs() <= limit, "{}: {key} of {id}", fixture.name);
        }
        if fixture.has(&format!("out.{id}.used_tasks")) {
            let tasks = task_scores(&predictions, width, targets).unwrap();
            check_tasks(fixture, id, &tasks, limit);
        }
    }
}

fn check_tasks(fixture: &Fixture, id: &str, tasks: &[metrics::TaskScore], limit: f64) {
    let used = format!("out.{id}.used_tasks");
    let found: Vec<i64> = tasks.iter().map(|task| task.task as i64).collect();
    assert_eq!(found, fixture.ints(&used), "{}: {used}", fixture.name);
    fixture.mark(&used);
    let (ap, auc) = (format!("out.{id}.ap_per_task"), format!("out.{id}.auc_per_task"));
    fixture.close(&ap, tasks.iter().map(|task| task.average_precision), limit);
    fixture.close(&auc, tasks.iter().map(|task| task.auc), limit);
}
