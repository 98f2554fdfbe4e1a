//! The models of configs/ on the data they are meant for, where it is at hand: `HDSE_DATA`, else
//! ../shared/data. Absent sets are named as skipped.

use crate::models::preset;
use crate::support::find;
use hdse::data::{ReadOptions, Shard, read};
use hdse::distance::{Codes, Distances};
use hdse::nn::{Batch, Model, Pass, prepare, values};
use hdse::rng::Seed;
use hdse::train::{Loss, Optimizer, OptimizerConfig, clip_norm};
use hdse::{Hierarchy, MemoryLimit, coarsen};

#[test]
fn presets_learn_a_batch_of_their_data() {
    for (set, folder, loss) in [
        ("zinc", "zinc", Loss::L1),
        ("mnist", "mnist-superpixels", Loss::CrossEntropy),
        ("cifar10", "cifar10-superpixels", Loss::CrossEntropy),
        ("pattern", "pattern", Loss::WeightedBinaryCrossEntropy),
        ("cluster", "cluster", Loss::WeightedCrossEntropy),
        ("peptides-func", "peptides-func", Loss::BinaryCrossEntropy),
    ] {
        let Some(path) = find(&format!("{folder}/val.parquet")) else { continue };
        let shard = Some(Shard { index: 0, count: 20 });
        let samples = read(&path, &ReadOptions { shard, ..Default::default() }).unwrap().samples;
        for backbone in ["gps", "gt"] {
            for folder in ["", "reference/"] {
                if backbone == "gt" && set.starts_with("peptides") {
                    continue;
                }
                learn(&format!("{folder}{backbone}-{set}"), &samples[..2], loss);
            }
        }
    }
}

fn learn(name: &str, samples: &[hdse::data::Sample], loss: Loss) {
    let mut config = preset(name);
    // Whether a step helps is then no matter of chance.
    (config.dropout, config.attention_dropout) = (0.0, 0.0);
    let louvain = coarsen::parse("louvain").unwrap();
    let clip = config.max_distance.per_level(config.levels).unwrap();
    let batches: Vec<Batch> = samples
        .iter()
        .map(|sample| {
            let context = coarsen::Context::default();
            let levels = config.levels;
            let hierarchy = Hierarchy::build(&sample.graph, &*louvain, levels, &context).unwrap();
            let limit = MemoryLimit::NONE;
            let distances = Distances::new(&sample.graph, &hierarchy, &clip, limit).unwrap();
            prepare(sample, &config, Some(Codes::new(&distances)), limit).unwrap()
        })
        .collect();
    let batch = Batch::merge(&batches.iter().collect::<Vec<_>>()).unwrap();
    // The binary set has one logit for two classes in GPS, and two in GT.
    let loss = match loss {
        Loss::WeightedBinaryCrossEntropy if config.outputs > 1 => Loss::WeightedCrossEntropy,
        loss => loss,
    };
    let mut model = Model::new(&config, Seed(0)).unwrap();
    let mut optimizer =
        Optimizer::new(OptimizerConfig::named("adamw").unwrap(), model.parameters.count()).unwrap();
    let mut losses = Vec::new();
    for step in 0..5 {
        let pass = Pass::train(&model.parameters, Seed(0), step);
        let prediction = model.backbone.forward(&pass, &batch).unwrap();
        let value = loss.of(prediction, batch.targets.as_ref().unwrap()).unwrap();
        let mut gradients = pass.gradients(&value);
        losses.push(values(value)[0]);
        pass.statistics().store(&mut model.parameters);
        assert!(clip_norm(&mut gradients, 1.0).is_finite(), "{name}");
        optimizer.step(1e-3, model.parameters.trained_mut(), &gradients).unwrap();
    }
    assert!(losses.iter().all(|loss| loss.is_finite()), "{name}: {losses:?}");
    assert!(losses[4] < losses[0], "{name}: {losses:?}");
    println!(
        "{name}: {} parameters, loss {} to {}",
        model.parameters.count(),
        losses[0],
        losses[4]
    );
}
