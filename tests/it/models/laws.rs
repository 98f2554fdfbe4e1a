//! What holds for every model: order, batches, tiny graphs, repetition, tracing, files.

use super::{
    assert_close, check_gradient, configs, example, example_of, predict, shuffled, surround,
};
use crate::support::Way;
use hdse::data::Values;
use hdse::nn::config::Encoding;
use hdse::nn::{Batch, Mode, Model, Pass, cpu, values};
use hdse::rng::Seed;

#[test]
fn the_order_of_nodes_and_arcs_changes_nothing() {
    for config in configs() {
        let model = Model::new(&config, Seed(1)).unwrap();
        let batch = example_of(&config, 13, 30, 5);
        let (mut other, order) = shuffled(&batch, 7);
        surround(&config, &mut other);
        let mut expected = predict(&model, &batch);
        if expected.len() > config.outputs {
            let row = |&node: &usize| expected[node * 2..][..2].to_vec();
            expected = order.iter().flat_map(row).collect();
        }
        assert_close(&predict(&model, &other), &expected, 1e-5, &format!("{config:?}"));
    }
}

#[test]
fn splitting_a_batch_changes_no_prediction() {
    for config in configs() {
        let graphs = [(9, 20), (1, 0), (14, 9), (3, 0)];
        let graphs = graphs.map(|(nodes, arcs)| example_of(&config, nodes, arcs, 0));
        let model = Model::new(&config, Seed(2)).unwrap();
        let together = Batch::merge(&graphs.iter().collect::<Vec<_>>()).unwrap();
        let alone: Vec<f32> = graphs.iter().flat_map(|graph| predict(&model, graph)).collect();
        assert_close(&predict(&model, &together), &alone, 1e-5, &format!("{config:?}"));
    }
}

#[test]
fn tiny_graphs_train() {
    for config in configs() {
        let model = Model::new(&config, Seed(3)).unwrap();
        for (nodes, arcs) in [(1, 0), (3, 0), (2, 4)] {
            let batch = example_of(&config, nodes, arcs, 0);
            for way in Way::ALL {
                let pass = way.of(Pass::train(&model.parameters, Seed(0), 0));
                let prediction = model.backbone.forward(&pass, &batch).unwrap();
                let gradients = pass.gradients(&prediction.sum());
                assert!(gradients.iter().all(|g| g.is_finite()), "{config:?}");
                let mut parameters = model.parameters.clone();
                pass.statistics().store(&mut parameters);
                let finite = |entry: &hdse::nn::Entry| {
                    parameters.get(&entry.name).unwrap().iter().all(|x| x.is_finite())
                };
                assert!(parameters.entries().iter().all(finite), "{config:?}");
            }
        }
    }
}

/// Where there are few rows, some kernels leave the work to plain operations.
#[test]
fn all_ways_agree_on_many_rows() {
    let new = |config: &&hdse::nn::ModelConfig| ["sat", "grit"].contains(&config.backbone.as_str());
    for config in configs().iter().filter(new) {
        let model = Model::new(config, Seed(6)).unwrap();
        let graphs: Vec<Batch> = (0..24).map(|seed| example_of(config, 14, 40, seed)).collect();
        let batch = Batch::merge(&graphs.iter().collect::<Vec<_>>()).unwrap();
        assert!(batch.num_nodes() > 300);
        let run = |way: Way| {
            let pass = way.of(Pass::train(&model.parameters, Seed(0), 0));
            let prediction = model.backbone.forward(&pass, &batch).unwrap();
            let gradients = pass.gradients(&prediction.clone().square().sum());
            (values(prediction), gradients)
        };
        let (expected, gradients) = run(Way::Composed);
        let largest = gradients.iter().fold(0.0, |largest: f32, x| largest.max(x.abs()));
        for way in Way::ALL {
            let found = run(way);
            assert_close(&found.0, &expected, 1e-5, &format!("{way:?} {config:?}"));
            let apart = found.1.iter().zip(&gradients).map(|(a, b)| (a - b).abs());
            let apart = apart.fold(0.0, f32::max);
            // The derivative of GRIT's root has no bound near 0.
            let limit = if config.backbone == "grit" { 1e-3 } else { 1e-4 };
            assert!(apart <= limit * largest, "{way:?}: {apart} of {largest}, {config:?}");
        }
        assert_eq!(run(Way::Threads(1)), run(Way::Threads(3)), "{config:?}");
    }
}

#[test]
fn a_pass_repeats_itself_and_all_ways_agree() {
    for mut config in configs() {
        config.dropout = 0.3;
        config.attention_dropout = 0.4;
        let model = Model::new(&config, Seed(4)).unwrap();
        let graphs = [(9, 20), (1, 0), (6, 9)];
        let graphs = graphs.map(|(nodes, arcs)| example_of(&config, nodes, arcs, 0));
        let batch = Batch::merge(&graphs.iter().collect::<Vec<_>>()).unwrap();
        let run = |step: u64, way: Way| {
            let pass = way.of(Pass::train(&model.parameters, Seed(0), step));
            let prediction = model.backbone.forward(&pass, &batch).unwrap();
            let gradients = pass.gradients(&prediction.clone().square().sum());
            let mut after = model.parameters.clone();
            pass.statistics().store(&mut after);
            (values(prediction), gradients, after)
        };
        let first = run(0, Way::Composed);
        assert_ne!(run(1, Way::Composed).0, first.0, "dropout follows the step: {config:?}");
        let (expected, gradients, after) = first;
        let largest = gradients.iter().fold(0.0, |largest: f32, g| largest.max(g.abs()));
        for way in Way::ALL {
            let found = run(0, way);
            assert_eq!(run(0, way), found, "{way:?} {config:?}");
            if let Way::Threads(_) = way {
                assert_eq!(found, run(0, Way::Fused), "{way:?} {config:?}");
            }
            assert_close(&found.0, &expected, 1e-5, &format!("{way:?} {config:?}"));
            for entry in model.parameters.entries() {
                let what = format!("{} {way:?} {config:?}", entry.name);
                if !entry.trained {
                    let [found, after] = [&found.2, &after].map(|p| p.get(&entry.name).unwrap());
                    assert_close(found, after, 1e-5, &what);
                    continue;
                }
                let (found, expected) =
                    (&found.1[entry.range.clone()], &gradients[entry.range.clone()]);
                let own = expected.iter().fold(0.0, |own: f32, g| own.max(g.abs()));
                for (a, b) in found.iter().zip(expected) {
                    // Through BatchNorms of few rows, rounding grows.
                    let limit = 1e-4 * own + 1e-6 * largest;
                    assert!((a - b).abs() <= limit, "{a}, not {b}: {what}");
                }
            }
        }
    }
}

/// Enough rows for several lanes in a group, heads that do not fill vectors, and a small batch in the memory of a large one.
#[test]
fn lanes_threads_and_earlier_batches_change_nothing() {
    let all = configs();
    for (number, dim, heads) in
        [(0, 52, 4), (1, 40, 5), (2, 48, 8), (9, 52, 4), (10, 40, 5), (12, 24, 3)]
    {
        let mut config = all[number].clone();
        (config.dim, config.heads, config.dropout, config.attention_dropout) =
            (dim, heads, 0.1, 0.2);
        let model = Model::new(&config, Seed(5)).unwrap();
        let sizes = (0..45).map(|i| 3 + i * 7 % 31);
        let graphs: Vec<Batch> =
            sizes.map(|nodes| example_of(&config, nodes, 2 * nodes, nodes.into())).collect();
        let large = Batch::merge(&graphs.iter().collect::<Vec<_>>()).unwrap();
        assert!(large.num_nodes() > 700);
        let small = Batch::merge(&[&graphs[3], &graphs[11]]).unwrap();
        for batch in [&large, &small] {
            let run = |way: Way| {
                let pass = way.of(Pass::train(&model.parameters, Seed(0), 0));
                let prediction = model.backbone.forward(&pass, batch).unwrap();
                let gradients = pass.gradients(&prediction.clone().square().sum());
                (values(prediction), gradients)
            };
            let (prediction, gradients) = run(Way::Kernels);
            let fused = run(Way::Fused);
            for way in [Way::Threads(1), Way::Threads(2), Way::Threads(3)] {
                assert!(run(way) == fused, "{way:?} {config:?}");
            }
            for (found, by) in [&fused, &run(Way::Portable)] {
                assert_close(found, &prediction, 2e-5, &format!("{config:?}"));
                for entry in model.parameters.entries().iter().filter(|entry| entry.trained) {
                    let (found, expected) =
                        (&by[entry.range.clone()], &gradients[entry.range.clone()]);
                    check_gradient(
                        found,
                        expected,
                        &gradients,
                        &format!("{} {config:?}", entry.name),
                    );
                }
            }
        }
    }
}

#[test]
fn two_passes_through_a_model_add_up() {
    let config = &configs()[0];
    let model = Model::new(config, Seed(0)).unwrap();
    let batches = [example_of(config, 9, 20, 1), example_of(config, 14, 30, 2)];
    let gradients = |way: Way| {
        let pass = way.of(Pass::train(&model.parameters, Seed(0), 0));
        let [a, b] = batches.each_ref().map(|batch| model.backbone.forward(&pass, batch).unwrap());
        pass.gradients(&(a.square().sum() + b.square().sum()))
    };
    let expected = gradients(Way::Kernels);
    for way in [Way::Fused, Way::Threads(2)] {
        check_gradient(&gradients(way), &expected, &expected, &format!("{way:?}"));
    }
}

#[test]
fn attention_weights_can_be_captured() {
    let config = &configs()[0];
    let model = Model::new(config, Seed(0)).unwrap();
    let batch = Batch::merge(&[&example(5, 9, 0), &example(1, 0, 1)]).unwrap();
    let pass = Pass::eval(&model.parameters).traced();
    let traced = values(model.backbone.forward(&pass, &batch).unwrap());
    assert_close(&traced, &predict(&model, &batch), 1e-5, "not traced");
    let trace = pass.trace();
    let weights = &trace["layers.1.attention"];
    assert_eq!(weights.shape, [26, 4]);
    for head in 0..4 {
        for row in 0..5 {
            let sum: f32 = (0..5).map(|j| weights.values[(row * 5 + j) * 4 + head]).sum();
            assert!((sum - 1.0).abs() < 1e-6, "head {head}, row {row}: {sum}");
        }
        assert_eq!(weights.values[25 * 4 + head], 1.0, "a single node attends to itself");
    }
    assert_eq!(trace["layers.0.bias"].shape, [26, 4]);
}

#[test]
fn a_bias_of_zero_is_the_plain_backbone() {
    for mut config in configs() {
        let mut biased = Model::new(&config, Seed(5)).unwrap();
        config.bias = hdse::nn::config::BiasKind::None;
        let plain = Model::new(&config, Seed(5)).unwrap();
        for entry in biased.parameters.clone().entries() {
            match plain.parameters.get(&entry.name) {
                Some(values) => {
                    let same = biased.parameters.get(&entry.name).unwrap();
                    assert_eq!(same, values, "{}: starts alike", entry.name);
                }
                None => {
                    assert!(entry.name.contains("hdse"), "{}", entry.name);
                    biased.parameters.set(&entry.name, &vec![0.0; entry.range.len()]).unwrap();
                }
            }
        }
        let batch = example_of(&config, 11, 25, 6);
        assert_close(&predict(&biased, &batch), &predict(&plain, &batch), 1e-5, "bias 0");
    }
}

#[test]
fn parameters_survive_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let config = &configs()[1];
    let saved = Model::new(config, Seed(0)).unwrap();
    saved.save(&path, false).unwrap();
    let opened = Model::open(&path).unwrap();
    assert_eq!((&opened.config, &opened.parameters), (&saved.config, &saved.parameters));
    let mut loaded = Model::new(config, Seed(1)).unwrap();
    assert_ne!(loaded.parameters, saved.parameters);
    loaded.parameters.load(&path, "").unwrap();
    assert_eq!(loaded.parameters, saved.parameters);
    let batch = example_of(config, 7, 12, 0);
    assert_eq!(predict(&loaded, &batch), predict(&saved, &batch));
}

#[test]
fn signs_of_eigenvectors_are_drawn_in_training_only() {
    for mut config in configs() {
        let Encoding::LapPe { random_signs, .. } = &mut config.encoding else { continue };
        assert!(*random_signs, "the default");
        for random in [true, false] {
            if let Encoding::LapPe { random_signs, .. } = &mut config.encoding {
                *random_signs = random;
            }
            let model = Model::new(&config, Seed(7)).unwrap();
            let batch = example_of(&config, 8, 12, 1);
            let run = |mode| {
                let pass = Pass::new(&model.parameters, mode, &cpu());
                values(model.backbone.forward(&pass, &batch).unwrap())
            };
            let steps: Vec<Vec<f32>> =
                (0..6).map(|step| run(Mode::Train { seed: Seed(0), step })).collect();
            assert_eq!(steps.iter().any(|step| *step != steps[0]), random, "{config:?}");
            assert_eq!(run(Mode::Eval), run(Mode::Eval));
        }
    }
}

#[test]
fn sign_net_does_not_depend_on_signs() {
    let all = configs();
    let with =
        |config: &&hdse::nn::ModelConfig| matches!(config.encoding, Encoding::SignNet { .. });
    for config in all.iter().filter(with) {
        let model = Model::new(config, Seed(8)).unwrap();
        let batch = example_of(config, 9, 16, 2);
        let mut other = batch.clone();
        let vectors = &mut other.spectrum.as_mut().unwrap().vectors;
        vectors.chunks_exact_mut(4).for_each(|row| {
            row[0] = -row[0];
            row[3] = -row[3];
        });
        let run = |batch: &Batch, mode| {
            let pass = Pass::new(&model.parameters, mode, &cpu());
            values(model.backbone.forward(&pass, batch).unwrap())
        };
        for mode in [Mode::Eval, Mode::Train { seed: Seed(0), step: 0 }] {
            assert_close(&run(&other, mode), &run(&batch, mode), 1e-5, &format!("{config:?}"));
        }
        other.spectrum.as_mut().unwrap().vectors[1] += 0.5;
        let apart = run(&other, Mode::Eval) != run(&batch, Mode::Eval);
        assert!(apart, "eigenvectors are read: {config:?}");
    }
}

#[test]
fn mixed_numbers_become_real() {
    let of = |targets: Values| Batch { targets: Some(targets), ..example(2, 2, 0) };
    let (whole, real) = (of(Values::Int(vec![2])), of(Values::Float(vec![0.5])));
    let merged = Batch::merge(&[&whole, &real]).unwrap();
    assert_eq!(merged.targets, Some(Values::Float(vec![2.0, 0.5])));
    let merged = Batch::merge(&[&whole, &whole]).unwrap();
    assert_eq!(merged.targets, Some(Values::Int(vec![2, 2])));
}
