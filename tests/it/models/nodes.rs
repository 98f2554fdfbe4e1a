//! Models of one large graph: order of nodes, ways to run, sparse features, derivatives, what each key changes.

use std::sync::Arc;

use super::{assert_close, check_gradient, predict};
use crate::support::{Way, random_graph};
use hdse::data::nodes::Sparse;
use hdse::data::{Edges, Matrix, Values};
use hdse::distance::Codes;
use hdse::nn::{
    Batch, Clusters, FeatureRows, Groups, Mode, Model, ModelConfig, Pass, Sampled, Samples, cpu,
    values,
};
use hdse::rng::Seed;
use serde_json::{Value, json};

const FEATURES: usize = 11;
/// Numbers per node of positions.
const POSITION: usize = 5;

/// A model of nodes of every sort.
pub fn configs() -> Vec<ModelConfig> {
    let with = |backbone: &str, changes: Value| {
        let mut config = json!({
            "backbone": backbone, "dim": 16, "heads": 2, "layers": 1, "node": { "linear": FEATURES },
            "pool": "none", "head": { "plain": 1 }, "outputs": 3, "max_distance": [9, 6],
        });
        for (key, value) in changes.as_object().unwrap() {
            config[key] = value.clone();
        }
        serde_json::from_value(config).unwrap()
    };
    vec![
        with("goat", json!({ "local": "gcn" })),
        with("goat", json!({ "local": "gcn", "heads": 1, "layers": 2 })),
        with(
            "goat",
            json!({ "local": "sage", "layers": 2, "levels": 2, "bias": "linear",
            "branch": { "layers": 3, "dim": 24, "norm": "batch", "mix": "average" } }),
        ),
        with(
            "goat",
            json!({ "local": "gat", "bias": "scalar",
            "branch": { "layers": 1, "mix": "concat", "dim": 8 },
            "clusters": { "size_prior": false, "pooling": "sqrt" } }),
        ),
        with(
            "goat",
            json!({ "local": "sage", "bias": "slope", "levels": 2,
            "branch": { "layers": 2, "norm": "layer", "stem": true, "mix": "concat" },
            "clusters": { "input": "features", "feed_forward": false } }),
        ),
        with("goat", json!({ "bias": "none", "clusters": { "extra_map": false } })),
        with(
            "goat",
            json!({ "local": "gcn", "branch": { "weight": 0.8 },
            "clusters": { "projection": "codebook", "count": 9 } }),
        ),
        with(
            "goat",
            json!({ "clusters": { "projection": "linformer", "count": 9, "nodes": 400 } }),
        ),
        with(
            "goat",
            json!({ "local": { "sampled": [3, 2] }, "bias": "slope", "levels": 2, "clusters": { "count": 600 },
            "encoding": { "node2vec": { "dim": POSITION } } }),
        ),
        with(
            "goat",
            json!({ "local": { "sampled": [3, 2] }, "levels": 2,
            "clusters": { "count": MANY, "size_prior": false } }),
        ),
        with("gcn", json!({ "branch": { "layers": 3, "norm": "batch" } })),
        with("sage", json!({})),
        with("gat", json!({})),
        with("mlp", json!({ "branch": { "norm": "layer" } })),
        with("sgformer", json!({ "local": "gcn", "branch": { "weight": 0.8 } })),
        with(
            "sgformer",
            json!({ "local": "gcn", "branch": { "layers": 2, "initial": true },
            "clusters": { "projection": "coarsening" } }),
        ),
    ]
}

/// More clusters than two tiles of 256 have.
const MANY: u64 = 2 * 256 + 44;

/// Many clusters, a whole tile of them and more without nodes, and more nodes than a block; every fifth node is alone.
/// Clusters follow the nodes, or not.
fn example(nodes: u32, sorted: bool) -> Batch {
    example_of(nodes, sorted, MANY)
}

/// The same with so many clusters.
fn example_of(nodes: u32, sorted: bool, count: u64) -> Batch {
    let graph = random_graph(nodes, 3 * nodes, 1);
    let arcs = graph.edges().flat_map(|(u, v, _)| [(u, v), (v, u)]);
    let (sources, targets) = arcs.filter(|(u, v)| u % 5 > 0 && v % 5 > 0).unzip();
    let mut stream = Seed(2).stream("test", 0, 0);
    // Nobody is in cluster 3, nor in the second tile.
    let inhabited = |c: u32| if c == 3 || (256..512).contains(&c) { 4 } else { c };
    let cluster_of = (0..nodes).map(|_| inhabited(stream.below(count) as u32));
    let mut cluster_of: Vec<u32> = cluster_of.collect();
    if sorted {
        cluster_of.sort_unstable();
    }
    let tuples: Vec<u8> = (0..count * count)
        .flat_map(|pair| {
            let (a, b) = (pair / count, pair % count);
            let apart = a.abs_diff(b).min(8) as u8;
            [if apart == 8 { 255 } else { apart }, apart / 2]
        })
        .collect();
    let codes = Codes::from_tuples(&tuples, 2);
    let features = (0..nodes as usize * FEATURES).map(|_| match stream.below(3) {
        0 => stream.unit() as f32,
        _ => 0.0,
    });
    Batch {
        sizes: vec![nodes as usize],
        edges: Edges { sources, targets },
        node_features: Some(Matrix { width: FEATURES, values: Values::Float(features.collect()) }),
        clusters: Some(Arc::new(Clusters::new(cluster_of, count as usize, Some(codes)))),
        samples: Some(Arc::new(Samples::new([nodes as usize, nodes as usize, 2], pairs(nodes)))),
        positions: Some(positions(nodes)),
        ..Batch::default()
    }
}

/// Every node attends to itself and up to four others, some to nobody else.
fn pairs(nodes: u32) -> Vec<Sampled> {
    let mut stream = Seed(8).stream("samples", 0, 0);
    let mut pairs = Vec::new();
    for target in 0..nodes {
        pairs.push(Sampled { target, row: target, hop: 0 });
        for _ in 0..target % 5 {
            let [row, hop] = [nodes, 2].map(|below| stream.below(below.into()) as u32);
            pairs.push(Sampled { target, row, hop: hop + 1 });
        }
    }
    pairs
}

fn positions(nodes: u32) -> Matrix {
    let mut stream = Seed(9).stream("positions", 0, 0);
    let numbers = (0..nodes as usize * POSITION).map(|_| stream.unit() as f32 - 0.5).collect();
    Matrix { width: POSITION, values: Values::Float(numbers) }
}

/// The batch with nodes in another order; `order` has the old node of each new place.
fn reordered(batch: &Batch, order: &[usize]) -> Batch {
    let mut place = vec![0; order.len()];
    for (new, &old) in order.iter().enumerate() {
        place[old] = new as u32;
    }
    let ends = |ids: &[u32]| ids.iter().map(|&id| place[id as usize]).collect();
    let moved = |matrix: &Matrix| {
        let (width, numbers) = (matrix.width, matrix.values.to_floats());
        let rows = order.iter().flat_map(|&old| numbers[old * width..][..width].to_vec());
        Matrix { width, values: Values::Float(rows.collect()) }
    };
    let pairs = pairs(order.len() as u32).into_iter().map(|Sampled { target, row, hop }| Sampled {
        target: place[target as usize],
        row: place[row as usize],
        hop,
    });
    let sizes = [order.len(), order.len(), 2];
    let clusters = batch.clusters.as_ref().unwrap();
    let of_node = clusters.nodes().of_row();
    Batch {
        sizes: batch.sizes.clone(),
        edges: Edges { sources: ends(&batch.edges.sources), targets: ends(&batch.edges.targets) },
        node_features: batch.node_features.as_ref().map(moved),
        positions: batch.positions.as_ref().map(moved),
        samples: Some(Arc::new(Samples::new(sizes, pairs.collect()))),
        clusters: Some(Arc::new(
            clusters.with_nodes(order.iter().map(|&old| of_node[old]).collect()),
        )),
        ids: Some(Arc::new(order.iter().map(|&old| old as u32).collect())),
        ..Batch::default()
    }
}

#[test]
fn the_order_of_nodes_permutes_predictions() {
    for config in configs() {
        let model = Model::new(&config, Seed(1)).unwrap();
        let batch = example(400, false);
        let mut order: Vec<usize> = (0..400).collect();
        Seed(3).stream("order", 0, 0).shuffle(&mut order);
        let expected = predict(&model, &batch);
        let expected: Vec<f32> =
            order.iter().flat_map(|&old| expected[old * 3..][..3].to_vec()).collect();
        let found = predict(&model, &reordered(&batch, &order));
        assert_close(&found, &expected, 1e-5, &format!("{config:?}"));
    }
}

#[test]
fn all_ways_agree_and_threads_change_no_bit() {
    for mut config in configs() {
        (config.dropout, config.attention_dropout) = (0.3, 0.4);
        let model = Model::new(&config, Seed(4)).unwrap();
        for (sorted, count) in [(true, MANY), (false, MANY), (true, 20)] {
            let batch = example_of(400, sorted, count);
            // All rows where clusters are sorted, else some.
            let rows: Vec<u32> = (0..400).filter(|row| sorted || row % 7 == 2).collect();
            let rows = Groups::new(rows, 400);
            let run = |way: Way| {
                let pass = way.of(Pass::train(&model.parameters, Seed(0), 0)).of_rows(&rows);
                let prediction = model.backbone.forward(&pass, &batch).unwrap();
                let gradients = pass.gradients(&prediction.clone().square().sum());
                let mut after = model.parameters.clone();
                pass.statistics().store(&mut after);
                (values(prediction), gradients, after)
            };
            let (expected, gradients, after) = run(Way::Composed);
            let fused = run(Way::Fused);
            for way in Way::ALL {
                let found = run(way);
                if let Way::Threads(_) = way {
                    assert!(found == fused, "{way:?} {config:?}");
                }
                let what = format!("{way:?}, sorted {sorted}, {count} clusters: {config:?}");
                assert_close(&found.0, &expected, 2e-5, &what);
                for entry in model.parameters.entries() {
                    let what = format!("{} {what}", entry.name);
                    if entry.trained {
                        let (found, expected) =
                            (&found.1[entry.range.clone()], &gradients[entry.range.clone()]);
                        if size(expected) < 1e-4 * size(&gradients) {
                            // Zero but for rounding: a shift before BatchNorm, the bias of keys.
                            assert!(size(found) < 1e-4 * size(&gradients), "{what}");
                        } else {
                            check_gradient(found, expected, &gradients, &what);
                        }
                    } else {
                        let [found, after] =
                            [&found.2, &after].map(|p| p.get(&entry.name).unwrap());
                        assert_close(found, after, 1e-5, &what);
                    }
                }
            }
        }
    }
}

/// The largest number.
fn size(numbers: &[f32]) -> f32 {
    numbers.iter().fold(0.0, |largest: f32, x| largest.max(x.abs()))
}

#[test]
fn derivatives_agree_with_differences() {
    let examples = [(40, 140), (160, 20)];
    let all = examples.map(|example| configs().into_iter().map(move |config| (example, config)));
    for ((nodes, clusters), mut config) in all.into_iter().flatten() {
        // A code may change its nodes by a small step, and the nearest neighbour then jumps.
        if config.clusters.projection == Some(hdse::nn::config::Projection::Codebook) {
            continue;
        }
        config.dropout = 0.2;
        config.attention_dropout = 0.2;
        if let Some(all) = &mut config.clusters.nodes {
            *all = nodes as usize;
        }
        let batch = example_of(nodes, true, clusters);
        let model = Model::new(&config, Seed(5)).unwrap();
        let loss = |parameters: &hdse::nn::Parameters| {
            let mode = Mode::Train { seed: Seed(0), step: 0 };
            let pass = Pass::new(parameters, mode, &cpu().autodiff());
            let prediction = model.backbone.forward(&pass, &batch).unwrap();
            let loss = prediction.clone().square().sum();
            let sum: f64 = values(prediction).iter().map(|&x| f64::from(x).powi(2)).sum();
            (sum, pass.gradients(&loss))
        };
        let (here, gradients) = loss(&model.parameters);
        // Along the gradient of each parameter by itself, where all of its numbers count.
        for entry in model.parameters.entries().iter().filter(|entry| entry.trained) {
            let own = &gradients[entry.range.clone()];
            let length = own.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
            let all = gradients.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
            if length < 1e-3 * all {
                continue;
            }
            let at = |step: f64| {
                let mut parameters = model.parameters.clone();
                let mut numbers = parameters.get(&entry.name).unwrap().to_vec();
                for (number, g) in numbers.iter_mut().zip(own) {
                    *number += (step * f64::from(*g) / length) as f32;
                }
                parameters.set(&entry.name, &numbers).unwrap();
                loss(&parameters).0
            };
            // Ahead, back and both: a kink of ReLU may lie within a step to one side.
            let slopes = |step: f64| {
                let [ahead, back] = [step, -step].map(at);
                [(ahead - here) / step, (here - back) / step, (ahead - back) / (2.0 * step)]
            };
            let errors = [2e-3, 5e-4].into_iter().flat_map(slopes);
            let error = errors.map(|slope| (slope / length - 1.0).abs()).fold(1.0, f64::min);
            assert!(error < 0.03, "{}: {error} off along its gradient: {config:?}", entry.name);
        }
    }
}

#[test]
fn rows_that_are_asked_for_are_those_of_all() {
    for config in configs() {
        let model = Model::new(&config, Seed(7)).unwrap();
        let batch = example(400, true);
        let all = predict(&model, &batch);
        let rows = vec![399, 0, 17, 18, 200];
        let pass = Pass::eval(&model.parameters).of_rows(&Groups::new(rows.clone(), 400));
        let some = values(model.backbone.forward(&pass, &batch).unwrap());
        let expected: Vec<f32> =
            rows.iter().flat_map(|&row| all[row as usize * 3..][..3].to_vec()).collect();
        assert_close(&some, &expected, 1e-5, &format!("{config:?}"));
    }
}

#[test]
fn sparse_features_are_dense_ones() {
    for config in configs() {
        let model = Model::new(&config, Seed(6)).unwrap();
        let dense = example(400, true);
        let numbers = dense.node_features.as_ref().unwrap().values.to_floats();
        let (mut offsets, mut columns, mut entries) = (vec![0], Vec::new(), Vec::new());
        for row in numbers.chunks_exact(FEATURES) {
            for (column, &x) in row.iter().enumerate().filter(|(_, x)| **x != 0.0) {
                columns.push(column as u32);
                entries.push(x);
            }
            offsets.push(columns.len() as u64);
        }
        let sparse =
            FeatureRows::sparse(&Sparse::new(FEATURES, offsets, columns, entries).unwrap());
        assert_eq!(sparse.to_dense(), numbers);
        assert!(
            FeatureRows::new(FEATURES, numbers.clone()).entries().is_none(),
            "a third is not 0"
        );
        let sparse =
            Batch { node_features: None, features: Some(Arc::new(sparse)), ..dense.clone() };
        let run = |batch: &Batch| {
            let pass = Pass::train(&model.parameters, Seed(0), 0);
            let prediction = model.backbone.forward(&pass, batch).unwrap();
            let gradients = pass.gradients(&prediction.clone().square().sum());
            (values(prediction), gradients)
        };
        let (found, expected) = (run(&sparse), run(&dense));
        assert_close(&found.0, &expected.0, 1e-5, &format!("{config:?}"));
        check_gradient(&found.1, &expected.1, &expected.1, &format!("{config:?}"));
    }
}

#[test]
fn features_that_are_mostly_zeros_become_sparse() {
    let rows = [[0.0; 9], [0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 3.0]].concat();
    let features = FeatureRows::new(9, rows.clone());
    assert_eq!(features.entries(), Some((&[0, 0, 2][..], &[2, 8][..], &[2.0, 3.0][..])));
    assert_eq!(features.to_dense(), rows);
    assert_eq!(features.gather(&[1, 1]).to_dense(), [&rows[9..], &rows[9..]].concat());
}

#[test]
fn single_nodes_train() {
    for mut config in configs() {
        if let Some(nodes) = &mut config.clusters.nodes {
            *nodes = 1;
        }
        let model = Model::new(&config, Seed(3)).unwrap();
        let batch = example(1, true);
        for way in Way::ALL {
            let pass = way.of(Pass::train(&model.parameters, Seed(0), 0));
            let prediction = model.backbone.forward(&pass, &batch).unwrap();
            let gradients = pass.gradients(&prediction.sum());
            assert!(gradients.iter().all(|g| g.is_finite()), "{way:?} {config:?}");
        }
    }
}

#[test]
fn a_bias_of_zero_is_no_bias() {
    for mut config in configs().into_iter().filter(|config| config.backbone == "goat") {
        let mut biased = Model::new(&config, Seed(5)).unwrap();
        config.bias = hdse::nn::config::BiasKind::None;
        let plain = Model::new(&config, Seed(5)).unwrap();
        for entry in biased.parameters.clone().entries() {
            if plain.parameters.get(&entry.name).is_none() {
                let of_bias = entry.name.contains("hdse") || entry.name.contains("dist_");
                assert!(of_bias, "{}", entry.name);
                biased.parameters.set(&entry.name, &vec![0.0; entry.range.len()]).unwrap();
            }
        }
        let batch = example(60, true);
        if config.clusters.nodes.is_none() {
            assert_close(&predict(&biased, &batch), &predict(&plain, &batch), 1e-5, "bias 0");
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_with_what_to_do() {
    let refused = |changes: Value, words: &str| {
        let mut config = serde_json::to_value(&configs()[0]).unwrap();
        for (key, value) in changes.as_object().unwrap() {
            config[key] = value.clone();
        }
        let config: ModelConfig = serde_json::from_value(config).unwrap();
        let error = Model::new(&config, Seed(0)).map_or_else(
            |e| e.to_string(),
            |model| {
                let pass = Pass::eval(&model.parameters);
                let error = model.backbone.forward(&pass, &example(20, true)).unwrap_err();
                error.to_string()
            },
        );
        assert!(error.contains(words), "{words}: {error}");
    };
    refused(json!({ "clusters": { "projection": "codebook" } }), "`clusters.count`");
    refused(json!({ "clusters": { "projection": "linformer", "count": 4 } }), "`clusters.nodes`");
    refused(
        json!({ "clusters": { "projection": "linformer", "count": 4, "nodes": 21 } }),
        "the graph has 20",
    );
    refused(json!({ "bias": "scalar", "levels": 2 }), "`levels = 1`");
    refused(json!({ "clusters": { "level": 2 } }), "`clusters.level` is 2");
    refused(json!({ "local": "gine" }), "gcn, sage, gat or none");
    let sampled = |mut changes: Value| {
        changes["local"] = json!({ "sampled": [3, 2] });
        changes
    };
    refused(sampled(json!({})), "`clusters.count` must say");
    let count = json!({ "count": 5 });
    refused(sampled(json!({ "clusters": count })), "`clusters.count` is 5, but");
    refused(sampled(json!({ "clusters": count, "layers": 2 })), "`layers = 1`");
    refused(sampled(json!({ "clusters": count, "branch": { "layers": 3 } })), "leave out `branch`");
    refused(sampled(json!({ "clusters": { "pooling": "sqrt" } })), "of `clusters`, give `count`");
    refused(
        sampled(json!({ "clusters": { "projection": "codebook", "count": 9 } })),
        "leave out `clusters.projection`",
    );
    refused(sampled(json!({ "clusters": count, "backbone": "gcn" })), "for the backbone goat");
    refused(
        sampled(json!({ "clusters": { "count": 600 }, "encoding": { "node2vec": { "dim": 9 } } })),
        "reads 9 numbers per node of `encoding.node2vec`",
    );
    refused(
        sampled(json!({ "clusters": count, "encoding": { "node2vec": { "context": 99 } } })),
        "a walk has 80 nodes",
    );
    for sizes in [json!([]), json!([3, 0]), json!([2000, 2000]), json!(vec![1; 17])] {
        refused(json!({ "local": { "sampled": sizes } }), "give 1 to 16 numbers");
    }
    refused(
        json!({ "local": { "sampled": [3, 2, 1] }, "clusters": { "count": 600 } }),
        "up to 2 hops away, but the model reads 3",
    );
    refused(json!({ "encoding": { "node2vec": {} } }), "add `local = { sampled");
    refused(json!({ "pool": "mean" }), "`pool = \"none\"`");
    refused(json!({ "node": { "types": 3 } }), "`node = { linear = N }`");
    refused(json!({ "node": { "linear": 5 } }), "nodes have 11 features, but the model reads 5");
    refused(
        json!({ "backbone": "gps", "bias": "slope", "head": "san", "pool": "sum" }),
        "attention to clusters",
    );
}
