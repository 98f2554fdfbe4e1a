//! Configurations and batches that do not fit.

use super::{configs, example};
use hdse::MemoryLimit;
use hdse::data::Values;
use hdse::distance::Codes;
use hdse::nn::{Batch, Model, ModelConfig, Pass};
use hdse::rng::Seed;
use serde_json::{Value, json};

#[test]
fn what_does_not_fit_is_refused() {
    let base = serde_json::to_value(&configs()[0]).unwrap();
    let make = |changes: Value| -> Result<Model, String> {
        let mut config = base.clone();
        for (key, value) in changes.as_object().unwrap() {
            config[key] = value.clone();
        }
        let config: ModelConfig = serde_json::from_value(config).map_err(|e| e.to_string())?;
        Model::new(&config, Seed(0)).map_err(|e| e.to_string())
    };
    for (changes, word) in [
        (json!({ "backbone": "gsp" }), "did you mean `gps`"),
        (json!({ "heads": 3 }), "share"),
        (json!({ "layer": 3 }), "unknown field `layer`"),
        (json!({ "layers": 0 }), "`layers` is 0"),
        (json!({ "levels": u64::MAX }), "`levels + 1`"),
        (json!({ "feed_forward": 1u64 << 60 }), "`feed_forward`"),
        (json!({ "node": { "types": 0 } }), "`node` is 0"),
        (json!({ "node": { "atoms": [] } }), "empty list"),
        (json!({ "edge": { "linear": 0 } }), "`edge` is 0"),
        (json!({ "encoding": { "degree": { "max": u64::MAX, "dim": 4 } } }), "`encoding`"),
        (json!({ "dropout": 1.5 }), "probability"),
        (json!({ "max_distance": [6, 3, 3] }), "`max_distance` has 3"),
        (json!({ "max_distance": 255 }), "254"),
        (json!({ "edge": "none" }), "edge"),
        (json!({ "local": "gcn" }), "arc states"),
        (json!({ "backbone": "gt" }), "gt reads no arcs"),
        (json!({ "encoding": { "eslappe": { "frequencies": 4 } } }), "edge gate"),
        (json!({ "encoding": { "rwse": { "steps": 5 } } }), "`dim`"),
        (json!({ "encoding": { "rwse": { "steps": 5, "dim": 16 } } }), "leave some"),
        (json!({ "encoding": { "rwse": { "steps": 0, "dim": 4 } } }), "`encoding` is 0"),
        (json!({ "node": { "leading": { "columns": 3, "of": 2 } } }), "3 of 2"),
        (json!({ "head": { "plain": 0 } }), "`head` is 0"),
        (
            json!({ "encoding": { "signnet": { "frequencies": 4, "dim": 4, "layers": 0 } } }),
            "layers",
        ),
        (json!({ "backbone": "sgformer", "local": "gcn" }), "reads no `edge`"),
        (json!({ "backbone": "sgformer", "local": "gcn", "edge": "none" }), "`bias = \"none\"`"),
    ] {
        let error = make(changes.clone()).unwrap_err();
        assert!(error.contains(word), "{changes}: {error}");
    }

    let model = make(json!({})).unwrap();
    let refused = |change: fn(&mut Batch)| {
        let mut batch = example(6, 9, 0);
        change(&mut batch);
        let pass = Pass::eval(&model.parameters);
        model.backbone.forward(&pass, &batch).unwrap_err().to_string()
    };
    let cases: [(fn(&mut Batch), &str); 10] = [
        (|b| b.codes = None, "no distance codes"),
        (|b| b.codes = Some(Codes::from_tuples(&[0; 36], 1)), "levels 0 to 1"),
        (|b| b.codes = Some(Codes::from_tuples(&[0; 8], 2)), "36 pairs"),
        (|b| b.sizes = vec![6, 0], "every graph a node"),
        (|b| b.edges.sources[0] = 6, "out of range"),
        (|b| b.sizes = vec![1, 5], "joins graphs"),
        (|b| b.node_features = None, "node features"),
        (
            |b| b.node_features.as_mut().unwrap().values = Values::Int(vec![0, 1, 2, 3, 0, 0]),
            "row 3",
        ),
        (|b| b.random_walk.as_mut().unwrap().width = 3, "random-walk"),
        (|b| b.edge_features.as_mut().unwrap().values = Values::Int(vec![0]), "arcs"),
    ];
    for (change, word) in cases {
        let error = refused(change);
        assert!(error.contains(word), "{word}: {error}");
    }
    let mut wrong = example(6, 9, 0);
    wrong.edges.targets[0] = 7;
    let error = Batch::merge(&[&wrong, &example(6, 9, 0)]).unwrap_err().to_string();
    assert!(error.contains("out of range"), "{error}");
    let pass = Pass::eval(&model.parameters).limited(MemoryLimit(100));
    let error = model.backbone.forward(&pass, &example(6, 9, 0)).unwrap_err();
    assert!(error.is_memory(), "{error}");
    let other = Batch { codes: None, ..example(6, 9, 0) };
    let error = Batch::merge(&[&example(6, 9, 0), &other]).unwrap_err().to_string();
    assert!(error.contains("only 1 of 2 graphs"), "{error}");
}
