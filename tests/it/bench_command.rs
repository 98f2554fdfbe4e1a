//! `hdse bench` as a user runs it.

use std::path::Path;

use hdse::config::Config;
use hdse::nn::Model;
use hdse::rng::Seed;
use safetensors::SafeTensors;
use serde_json::Value;

use crate::train_command::{Experiment, fail, succeed};

fn losses(arguments: &[&str]) -> Vec<f64> {
    let text = succeed(&[arguments, &["--json"]].concat());
    let result: Value = serde_json::from_str(&text).unwrap();
    result["losses"].as_array().unwrap().iter().map(|loss| loss.as_f64().unwrap()).collect()
}

/// An epoch is one step here, so the loss of an epoch is that of a step.
#[test]
fn steps_are_those_of_training() {
    let experiment = Experiment::new();
    let changes = ["train.batch_size=1000", "train.epochs=4", "train.schedule.warmup=1"];
    let sets = changes.map(|change| ["--set", change]).concat();
    let run = experiment.run("run");
    succeed(&[&["train", &experiment.config, "-o", &run][..], &sets].concat());
    let lines = std::fs::read_to_string(Path::new(&run).join("seed-0/metrics.jsonl")).unwrap();
    let trained: Vec<f64> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["train_loss"].as_f64().unwrap())
        .collect();

    let bench = ["bench", "step", &experiment.config, "--steps", "3", "--warmup", "1"];
    let bench = [&bench[..], &changes].concat();
    for threads in ["1", "2"] {
        let found = losses(&[&bench[..], &["-t", threads]].concat());
        let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-12 * b.abs();
        assert!(found.len() == 4 && found.iter().zip(&trained).all(close), "{found:?} {trained:?}");
    }
}

#[test]
fn a_dump_has_parameters_and_batches() {
    let experiment = Experiment::new();
    let path = experiment.run("dump.safetensors");
    let batches = ["--steps", "1", "--warmup", "0", "--dump-batches", "3", "--dump", &path];
    let bench = [&["bench", "step", &experiment.config][..], &batches].concat();
    succeed(&[&bench[..], &["train.batch_size=7"]].concat());
    let bytes = std::fs::read(&path).unwrap();
    let (_, metadata) = SafeTensors::read_metadata(&bytes).unwrap();
    let config: Config =
        serde_json::from_str(&metadata.metadata().as_ref().unwrap()["hdse"]).unwrap();
    assert_eq!(config.train.batch_size, Some(7));

    let arrays = SafeTensors::deserialize(&bytes).unwrap();
    let model = Model::new(&config.model, Seed(0)).unwrap();
    for entry in model.parameters.entries() {
        let array = arrays.tensor(&format!("param.{}", entry.name)).unwrap();
        assert_eq!(array.shape(), entry.shape, "{}", entry.name);
        let expected: Vec<u8> = model
            .parameters
            .get(&entry.name)
            .unwrap()
            .iter()
            .flat_map(|x| x.to_le_bytes())
            .collect();
        assert!(array.data() == expected, "{}", entry.name);
    }
    let numbers = |name: &str| -> Vec<u32> {
        let data = arrays.tensor(name).unwrap().data().to_vec();
        data.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word)).collect()
    };
    for batch in 0..3 {
        let sizes = numbers(&format!("batch.{batch}.sizes"));
        assert_eq!(sizes.len(), 7);
        let nodes: u32 = sizes.iter().sum();
        let pairs: u32 = sizes.iter().map(|size| size * size).sum();
        for ends in ["sources", "targets"] {
            assert!(numbers(&format!("batch.{batch}.{ends}")).iter().all(|&node| node < nodes));
        }
        let book = arrays.tensor(&format!("batch.{batch}.codebook")).unwrap();
        let codes = numbers(&format!("batch.{batch}.codes"));
        assert_eq!(codes.len() as u32, pairs);
        assert!(codes.iter().all(|&code| (code as usize) < book.shape()[0]));
        // The first pair of a batch is a node and itself.
        assert!(
            book.data()[codes[0] as usize * book.shape()[1]..][..book.shape()[1]]
                .iter()
                .all(|&d| d == 0)
        );
        assert_eq!(numbers(&format!("batch.{batch}.y")).len() as u32, nodes);
        let features = arrays.tensor(&format!("batch.{batch}.node_features")).unwrap();
        assert_eq!(features.shape()[0] as u32, nodes);
    }
    assert!(arrays.tensor("batch.3.sizes").is_err());
    assert!(fail(&bench, 2).contains("--force"));
    succeed(&[&bench[..], &["--force"]].concat());
}
