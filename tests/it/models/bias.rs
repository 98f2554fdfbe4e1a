//! The bias against its formula.

use super::assert_close;
use hdse::data::{Matrix, Values};
use hdse::distance::Codes;
use hdse::nn::{Batch, Model, ModelConfig, Parameters, Pass};
use hdse::rng::Seed;
use serde_json::json;

/// The bias of every form, from the definition.
#[test]
fn biases_are_what_their_formula_says() {
    // Distances beyond the clips, and unreachable ones; level 2 is there, and not used by most.
    let tuples: [[u8; 3]; 5] = [[0, 0, 0], [2, 1, 1], [9, 5, 1], [255, 255, 0], [4, 2, 255]];
    let clips = [4, 2, 1];
    let batch = Batch {
        sizes: vec![2, 1],
        codes: Some(Codes::from_tuples(tuples.as_flattened(), 3)),
        ..Batch::default()
    };
    let codebook = batch.codes.as_ref().unwrap().codebook().clone();
    for kind in ["linear", "mlp"] {
        for combine in ["concat", "sum"] {
            for unreachable in ["clip", "own"] {
                for levels in 0..3 {
                    let config: ModelConfig = serde_json::from_value(json!({
                        "backbone": "gt", "dim": 4, "heads": 2, "layers": 1, "node": { "types": 1 },
                        "pool": "none", "head": { "plain": 1 }, "outputs": 1, "bias": kind,
                        "combine": combine, "unreachable": unreachable, "levels": levels,
                        "max_distance": clips[..=levels], "bias_dim": 3,
                    }))
                    .unwrap();
                    let model = Model::new(&config, Seed(6)).unwrap();
                    let pass = Pass::eval(&model.parameters).traced();
                    let features = Some(Matrix { width: 1, values: Values::Int(vec![0; 3]) });
                    let batch = Batch { node_features: features, ..batch.clone() };
                    model.backbone.forward(&pass, &batch).unwrap();
                    let found = &pass.trace()["layers.0.bias"].values;
                    let expected: Vec<f32> = (batch.codes.as_ref().unwrap().iter())
                        .flat_map(|code| formula(&config, &model.parameters, codebook.row(code)))
                        .collect();
                    assert_close(found, &expected, 1e-5, &format!("{config:?}"));
                }
            }
        }
    }
}

fn formula(config: &ModelConfig, parameters: &Parameters, distances: &[u8]) -> Vec<f32> {
    let own = serde_json::to_value(config.unreachable).unwrap() == "own";
    let concat = serde_json::to_value(config.combine).unwrap() == "concat";
    let mlp = serde_json::to_value(config.bias).unwrap() == "mlp";
    let clips = config.max_distance.per_level(config.levels).unwrap();
    let mut rows = Vec::new();
    for (level, &distance) in distances.iter().enumerate().take(config.levels + 1) {
        let clip = clips.at(level);
        let row = match distance {
            255 if own => usize::from(clip) + 1,
            distance => usize::from(distance.min(clip)),
        };
        let table = parameters.get(&format!("hdse.tables.{level}.weight")).unwrap();
        assert_eq!(table.len(), (usize::from(clip) + 1 + usize::from(own)) * 3);
        rows.push(table[row * 3..][..3].to_vec());
    }
    let combined = match concat {
        true => rows.concat(),
        false => (0..3).map(|i| rows.iter().map(|row| row[i]).sum()).collect(),
    };
    let linear = |name: &str, x: &[f32]| -> Vec<f32> {
        let weight = parameters.get(&format!("{name}.weight")).unwrap().chunks_exact(x.len());
        let products = weight.map(|row| row.iter().zip(x).map(|(a, b)| a * b).sum::<f32>());
        products.zip(parameters.get(&format!("{name}.bias")).unwrap()).map(|(y, b)| y + b).collect()
    };
    let mut hidden = combined;
    if concat || mlp {
        hidden = linear("hdse.proj", &hidden);
    } else {
        assert_eq!(parameters.get("hdse.proj.weight"), None);
    }
    if mlp {
        hidden.iter_mut().for_each(|x| *x = x.max(0.0));
    }
    linear("layers.0.hdse_map", &hidden)
}
