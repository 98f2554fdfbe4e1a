//! Whole models: states after every layer, biases, predictions, loss, running statistics and every
//! gradient; in every way a pass can be run.

use std::sync::Arc;

use super::Fixture;
use crate::support::Way;
use hdse::MemoryLimit;
use hdse::data::{Edges, Matrix, Values};
use hdse::distance::Codes;
use hdse::nn::{
    Batch, Clusters, Groups, Mode, Model, ModelConfig, Parameters, Pass, Spectrum, Subgraphs,
    Walks, cpu, values,
};
use hdse::rng::Seed;
use hdse::train::Loss;
use serde_json::{Value, json};

/// Models that are implemented; others are named as not covered.
pub fn is_about(fixture: &Fixture) -> bool {
    matches!(fixture.config["model"].as_str(), Some("gps" | "goat" | "gt" | "grit"))
}

/// Our configuration of a fixture about GOAT.
fn goat_config(fixture: &Value) -> ModelConfig {
    let hdse = &fixture["hdse"];
    let mut config = json!({
        "backbone": "goat", "dim": fixture["dim"], "heads": fixture["heads"], "layers": fixture["layers"],
        "local": if fixture["local"] == true { "gcn" } else { "none" },
        "node": { "linear": fixture["in_dim"] }, "pool": "none", "head": { "plain": 1 },
        "outputs": fixture["classes"],
    });
    match hdse["mode"].as_str().expect("a mode") {
        "off" => config["bias"] = json!("none"),
        "reference" => config["bias"] = json!("scalar"),
        mode => {
            config["bias"] = json!(mode);
            config["levels"] = hdse["K"].clone();
            config["bias_dim"] = hdse["d_b"].clone();
            // Of levels 1 on; there is no level 0.
            let clips = hdse["L"].as_array().expect("a clip for each level");
            config["max_distance"] = [json!(30)].iter().chain(clips).cloned().collect();
        }
    }
    serde_json::from_value(config).unwrap()
}

/// Our configuration of a fixture's.
pub fn config(fixture: &Value) -> ModelConfig {
    if fixture["model"] == "goat" {
        return goat_config(fixture);
    }
    let gps = fixture["model"] == "gps";
    let hdse = &fixture["hdse"];
    let mut config = json!({
        "backbone": fixture["model"], "dim": fixture["dim"], "heads": fixture["heads"],
        "layers": fixture["layers"], "pool": fixture["pool"], "outputs": fixture["out"],
    });
    let mut set = |key: &str, value: Value| {
        config[key] = value;
    };
    match hdse["mode"].as_str().expect("a mode") {
        "off" => set("bias", json!("none")),
        mode => {
            set("bias", json!(mode));
            set("levels", hdse["K"].clone());
            set("max_distance", hdse["L"].clone());
            set("bias_dim", hdse["d_b"].clone());
        }
    }
    if gps {
        set("local", fixture["local"].clone());
    }
    if fixture["model"] == "grit" {
        set("node", json!({ "types": fixture["node_types"] }));
        set("edge", json!({ "types": fixture["edge_types"] }));
        set("encoding", json!({ "rrwp": { "steps": fixture["rrwp_steps"] } }));
        set("head", json!("san"));
        return serde_json::from_value(config).unwrap();
    }
    match fixture["encoder"].as_str().expect("an encoder") {
        "zinc" => {
            set("node", json!({ "types": fixture["node_types"] }));
            set("edge", json!({ "types": fixture["edge_types"] }));
            let (steps, dim) = (&fixture["rwse_steps"], &fixture["dim_pe"]);
            set("encoding", json!({ "rwse": { "steps": steps, "dim": dim } }));
        }
        "pattern" => {
            set("node", json!({ "linear": fixture["in_dim"] }));
            set("edge", json!("dummy"));
            if fixture["edge_gate"] == true {
                set("encoding", json!({ "eslappe": { "frequencies": fixture["freqs"] } }));
            }
        }
        "peptides" => {
            set("node", json!({ "atoms": fixture["atom_vocab"] }));
            set("edge", json!({ "bonds": fixture["bond_vocab"] }));
            let (frequencies, dim) = (&fixture["freqs"], &fixture["dim_pe"]);
            set(
                "encoding",
                json!({ "lappe": {
                "frequencies": frequencies, "dim": dim, "random_signs": false
            } }),
            );
        }
        encoder @ ("type" | "onehot") => {
            set(
                "node",
                match encoder {
                    "type" => json!({ "types": fixture["node_types"] }),
                    _ => json!({ "linear": fixture["in_dim"] }),
                },
            );
            if let Some(steps) = fixture.get("pe_dim") {
                set("encoding", json!({ "rwse": { "steps": steps } }));
            }
        }
        other => panic!("unknown encoder `{other}`"),
    }
    if let Some(kind @ ("subtree" | "subgraph")) = fixture["extractor"].as_str() {
        set("backbone", json!("sat"));
        set("extractor", json!({ kind: fixture["hops"] }));
        let aggregators = json!(["mean", "sum", "max"]);
        set("local", json!({ "pna": { "towers": fixture["towers"], "aggregators": aggregators } }));
        if let Some(types) = fixture.get("edge_types") {
            set("edge", json!({ "types": types }));
            set("edge_dim", fixture["edge_dim"].clone());
        }
    }
    set(
        "head",
        match fixture["head"].as_str() {
            Some("san") => json!("san"),
            Some("graphgym") => json!({ "graphgym": fixture["head_layers"] }),
            Some(other) => panic!("unknown head `{other}`"),
            None => json!({ "plain": 2 }),
        },
    );
    serde_json::from_value(config).unwrap()
}

/// The loss of a fixture's configuration.
pub fn loss(fixture: &Value) -> Loss {
    if fixture["model"] == "goat" {
        return Loss::CrossEntropy;
    }
    match fixture["loss"].as_str().expect("a loss") {
        "l1" => Loss::L1,
        "bce" => Loss::BinaryCrossEntropy,
        "ce" => Loss::CrossEntropy,
        "weighted_bce" => Loss::WeightedBinaryCrossEntropy,
        "weighted_ce" => Loss::WeightedCrossEntropy,
        other => panic!("unknown loss `{other}`"),
    }
}

/// The inputs whose names start with `prefix`.
pub fn batch(fixture: &Fixture, prefix: &str) -> Batch {
    let name = |name: &str| format!("{prefix}{name}");
    let ptr = match fixture.has(&name("ptr")) {
        true => fixture.ints(&name("ptr")),
        false => vec![0, fixture.shape(&name("x"))[0] as i64],
    };
    let sizes: Vec<usize> = ptr.windows(2).map(|ends| (ends[1] - ends[0]) as usize).collect();
    let all: Vec<u32> = fixture.ints(&name("edge_index")).iter().map(|&id| id as u32).collect();
    let (sources, targets) = all.split_at(all.len() / 2);
    let width = |name: &str| fixture.shape(name).get(1).copied().unwrap_or(1);
    let ints = |names: [&str; 2]| {
        let name = names.map(name).into_iter().find(|name| fixture.has(name))?;
        Some(Matrix { width: width(&name), values: Values::Int(fixture.ints(&name)) })
    };
    let reals = |names: [&str; 2]| {
        let name = names.map(name).into_iter().find(|name| fixture.has(name))?;
        Some(Matrix { width: width(&name), values: Values::Float(fixture.floats(&name)) })
    };
    let first_rows = || ptr[..sizes.len()].iter().map(|&row| row as usize);
    let spectrum = fixture.has(&name("eigvecs")).then(|| {
        let frequencies = width(&name("eigvecs"));
        let rows = |all: Vec<f32>| -> Vec<f32> {
            first_rows().flat_map(|row| all[row * frequencies..][..frequencies].to_vec()).collect()
        };
        let eigenvalues = fixture.has(&name("eigvals"));
        let mask = fixture.has(&name("eig_mask")).then(|| fixture.bytes(&name("eig_mask")));
        let count = |row: usize| match mask {
            Some(mask) => {
                mask[row * frequencies..][..frequencies].iter().map(|&m| m as usize).sum()
            }
            None => frequencies,
        };
        Spectrum {
            frequencies,
            vectors: fixture.floats(&name("eigvecs")),
            values: match eigenvalues {
                true => rows(fixture.floats(&name("eigvals"))),
                false => vec![0.0; sizes.len() * frequencies],
            },
            counts: first_rows().map(count).collect(),
        }
    });
    let clusters = fixture.has(&name("cluster")).then(|| clusters(fixture, prefix));
    let levels: Vec<&[u8]> = (0..)
        .map(|level| name(&format!("dist.{level}")))
        .take_while(|name| fixture.has(name))
        .map(|name| fixture.bytes(&name))
        .collect();
    let codes = levels.first().map(|first| {
        let tuples: Vec<u8> =
            (0..first.len()).flat_map(|pair| levels.iter().map(move |level| level[pair])).collect();
        Codes::from_tuples(&tuples, levels.len())
    });
    let scored = fixture.has(&name("train_idx")).then(|| fixture.ints(&name("train_idx")));
    let y = fixture.has(&name("y")).then(|| match (fixture.dtype(&name("y")).as_str(), &scored) {
        ("I64", Some(rows)) => {
            let classes = fixture.ints(&name("y"));
            Values::Int(rows.iter().map(|&row| classes[row as usize]).collect())
        }
        ("I64", None) => Values::Int(fixture.ints(&name("y"))),
        _ => Values::Float(fixture.floats(&name("y"))),
    });
    let edges = Edges { sources: sources.to_vec(), targets: targets.to_vec() };
    let subgraphs = fixture.has(&name("sub_node")).then(|| {
        let hops = fixture.config["hops"].as_u64().expect("hops") as usize;
        let nodes = sizes.iter().sum();
        let found = Subgraphs::new(nodes, &edges, hops, MemoryLimit::NONE).unwrap();
        let nodes: Vec<i64> = found.nodes.iter().map(|&node| i64::from(node)).collect();
        assert_eq!(nodes, fixture.ints(&name("sub_node")), "{}", fixture.name);
        assert_eq!(found.arcs.len(), fixture.ints(&name("sub_edge_type")).len());
        std::sync::Arc::new(found.with_levels(hops, MemoryLimit::NONE).unwrap())
    });
    let walk_powers = fixture.has(&name("rrwp")).then(|| {
        let powers = width(&name("rrwp"));
        let walks = Walks::new(&sizes, &edges, powers).unwrap();
        fixture.output(&name("rrwp"), &walks.values);
        powers
    });
    Batch {
        sizes,
        edges,
        subgraphs,
        walk_powers,
        node_features: ints(["node_type", "atom"]).or_else(|| reals(["x", "x"])),
        edge_features: ints(["edge_type", "bond"]),
        random_walk: reals(["rwse", "pe"]),
        spectrum,
        codes,
        clusters,
        targets: y,
        ..Batch::default()
    }
}

/// Clusters and their distances at all levels that there are.
fn clusters(fixture: &Fixture, prefix: &str) -> Arc<Clusters> {
    let cluster_of = fixture.ints(&format!("{prefix}cluster")).iter().map(|&c| c as u32).collect();
    let levels: Vec<&[u8]> = (1..)
        .map(|level| format!("{prefix}dist.{level}"))
        .take_while(|name| fixture.has(name))
        .map(|name| fixture.bytes(&name))
        .collect();
    let pairs = levels[0].len();
    let tuples: Vec<u8> =
        (0..pairs).flat_map(|pair| levels.iter().map(move |level| level[pair])).collect();
    let codes = Codes::from_tuples(&tuples, levels.len());
    Arc::new(Clusters::new(cluster_of, pairs.isqrt(), Some(codes)))
}

/// Compares the gradients of all parameters.
pub fn check_gradients(fixture: &Fixture, parameters: &Parameters, flat: &[f32], prefix: &str) {
    for entry in parameters.entries().iter().filter(|entry| entry.trained) {
        let name = format!("{prefix}{}", entry.name);
        fixture.gradient(&name, &flat[entry.range.clone()]);
    }
}

/// Compares a loss. One that is tiny beside the predictions is in the tail of a logistic function, where its relative
/// error is the *absolute* error of a prediction: losses change by no more than predictions do, so it is held to
/// the limit of those.
fn check_loss(fixture: &Fixture, prefix: &str, found: f32, way: Way) {
    let name = format!("{prefix}loss");
    let (expected, predictions) =
        (fixture.floats(&name)[0], fixture.floats(&format!("{prefix}pred")));
    let largest = predictions.iter().fold(0.0, |largest: f32, p| largest.max(p.abs()));
    if expected.abs() < 1e-4 * largest {
        let apart = (found - expected).abs();
        assert!(
            apart <= 1e-5 * largest,
            "{}: {name} is {found}, not {expected}: {way:?}",
            fixture.name
        );
        // As far as the loss is determined: its logarithm within the same limit.
        assert!(
            (found / expected).ln().abs() <= 1e-5 * largest,
            "{}: {name} {way:?}",
            fixture.name
        );
        fixture.mark(&name);
    } else {
        fixture.output(&name, &[found]);
    }
}

pub fn check(fixture: &Fixture) {
    let config = config(&fixture.config);
    let mut model = Model::new(&config, Seed(0)).unwrap();
    model.parameters.load(&fixture.path, "param.").unwrap();
    let batch = batch(fixture, "in.");
    if fixture.has("in.deg_scale") {
        let structure = batch.structure().unwrap();
        let degrees = structure.by_source.sizes();
        let scale: Vec<f32> = degrees.map(|degree| 1.0 / (1.0 + degree as f32).sqrt()).collect();
        let expected = fixture.floats("in.deg_scale");
        let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-7;
        assert!(
            scale.iter().zip(&expected).all(near) && scale.len() == expected.len(),
            "{}",
            fixture.name
        );
    }
    let scored = fixture.has("in.train_idx").then(|| {
        let rows = fixture.ints("in.train_idx").into_iter().map(|row| row as u32).collect();
        Groups::new(rows, batch.num_nodes())
    });
    let loss = loss(&fixture.config);
    let targets = batch.targets.as_ref().expect("targets");
    for way in Way::ALL {
        for train in [true, false] {
            let mode = if train { Mode::Train { seed: Seed(0), step: 0 } } else { Mode::Eval };
            // Only operation by operation can be traced, and differentiated in evaluation.
            let device = if train || !way.is_fused() { cpu().autodiff() } else { cpu() };
            let pass = way.of(Pass::new(&model.parameters, mode, &device));
            let pass = if way.is_fused() { pass } else { pass.traced() };
            let prediction = model.backbone.forward(&pass, &batch).unwrap();
            let prefix = if train { "out." } else { "out.eval." };
            fixture.output(&format!("{prefix}pred"), &values(prediction.clone()));
            let trace = pass.trace();
            // A loss over some nodes is that of a pass which asks for these alone.
            let (pass, prediction) = match &scored {
                Some(rows) => {
                    let pass = way.of(Pass::new(&model.parameters, mode, &device)).of_rows(rows);
                    let prediction = model.backbone.forward(&pass, &batch).unwrap();
                    (pass, prediction)
                }
                None => (pass, prediction),
            };
            let value = loss.of(prediction, targets).unwrap();
            check_loss(fixture, prefix, values(value.clone())[0], way);
            if !train {
                continue;
            }
            for (name, traced) in trace {
                let name = format!("out.{name}");
                if fixture.has(&name) {
                    fixture.output(&name, &traced.values);
                }
            }
            check_gradients(fixture, &model.parameters, &pass.gradients(&value), "");
            let mut after = model.parameters.clone();
            pass.statistics().store(&mut after);
            for entry in after.entries().iter().filter(|entry| !entry.trained) {
                let found = after.get(&entry.name).expect("a statistic");
                fixture.output(&format!("out.after.{}", entry.name), found);
            }
        }
    }
}
