//! Attention over sampled neighbours and to moving averages, held to plain loops.

use std::sync::Arc;

use super::{assert_close, predict};
use hdse::data::{Matrix, Values};
use hdse::distance::Codes;
use hdse::nn::{Batch, Clusters, Model, ModelConfig, Pass, Sampled, Samples, values};
use hdse::rng::Seed;
use serde_json::json;

const TARGETS: usize = 6;
const ROWS: usize = 20;
const CLUSTERS: usize = 4;
const FEATURES: usize = 3;
const DIM: usize = 8;
const HEADS: usize = 2;
/// Numbers per target of positions.
const POSITION: usize = 5;

fn model(position: bool) -> Model {
    let encoding =
        if position { json!({ "node2vec": { "dim": POSITION } }) } else { json!("none") };
    let config = json!({
        "backbone": "goat", "dim": DIM, "heads": HEADS, "layers": 1, "node": { "linear": FEATURES },
        "local": { "sampled": [3, 2] }, "clusters": { "count": 5 }, "bias": "slope", "encoding": encoding,
        "pool": "none", "head": { "plain": 1 }, "outputs": 3,
    });
    let config: ModelConfig = serde_json::from_value(config).unwrap();
    let mut model = Model::new(&config, Seed(1)).unwrap();
    // As if something had been learned.
    let mut stream = Seed(2).stream("hops", 0, 0);
    let hops: Vec<f32> = (0..3 * HEADS).map(|_| stream.unit() as f32 - 0.5).collect();
    model.parameters.set("local.hop_emb.weight", &hops).unwrap();
    let wide = if position { DIM + POSITION } else { DIM };
    let statistics: Vec<f32> = (0..wide).map(|_| stream.unit() as f32 + 0.5).collect();
    model.parameters.set("layers.0.codebook.running_mean", &statistics).unwrap();
    model.parameters.set("layers.0.codebook.running_var", &statistics).unwrap();
    model
}

/// Pairs of six targets; the last has itself alone, the one before a single neighbour.
fn pairs() -> Vec<Sampled> {
    let mut stream = Seed(3).stream("pairs", 0, 0);
    let mut pairs = Vec::new();
    for target in 0..TARGETS as u32 {
        pairs.push(Sampled { target, row: target, hop: 0 });
        for _ in 0..[7, 4, 9, 2, 1, 0][target as usize] {
            let row = stream.below(ROWS as u64 - 2) as u32;
            pairs.push(Sampled { target, row, hop: 1 + stream.below(2) as u32 });
        }
    }
    pairs
}

fn random(count: usize, name: &str) -> Vec<f32> {
    let mut stream = Seed(4).stream(name, 0, 0);
    (0..count).map(|_| 2.0 * stream.unit() as f32 - 1.0).collect()
}

fn cluster_of() -> Vec<u32> {
    (0..ROWS as u32).map(|row| row * 7 % 3).collect()
}

/// The clusters of a graph with more nodes than the batch has; cluster 3 has none in the batch.
fn clusters() -> Clusters {
    let tuples: Vec<u8> = (0..CLUSTERS as i32 * CLUSTERS as i32)
        .map(|pair| (pair / CLUSTERS as i32).abs_diff(pair % CLUSTERS as i32) as u8)
        .collect();
    let whole: Vec<u32> = (0..50).map(|node| [0, 1, 2, 3, 3, 3, 1][node % 7]).collect();
    Clusters::new(whole, CLUSTERS, Some(Codes::from_tuples(&tuples, 1)))
}

fn batch(pairs: Vec<Sampled>) -> Batch {
    let matrix = |width: usize, rows: usize, name: &str| Matrix {
        width,
        values: Values::Float(random(width * rows, name)),
    };
    Batch {
        sizes: vec![ROWS],
        node_features: Some(matrix(FEATURES, ROWS, "features")),
        clusters: Some(Arc::new(clusters().with_nodes(cluster_of()))),
        samples: Some(Arc::new(Samples::new([TARGETS, ROWS, 2], pairs))),
        positions: Some(matrix(POSITION, TARGETS, "positions")),
        ..Batch::default()
    }
}

/// x W + b of one row, with the numbers of a map by name.
fn map(model: &Model, name: &str, x: &[f64]) -> Vec<f64> {
    let get = |part: &str| model.parameters.get(&format!("{name}.{part}")).unwrap();
    let rows = get("weight").chunks_exact(x.len()).zip(get("bias"));
    let product = |row: &[f32]| row.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum::<f64>();
    rows.map(|(row, bias)| product(row) + f64::from(*bias)).collect()
}

fn softmax(scores: &[f64]) -> Vec<f64> {
    let largest = scores.iter().copied().fold(f64::MIN, f64::max);
    let powers: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
    powers.iter().map(|power| power / powers.iter().sum::<f64>()).collect()
}

/// What the head reads, given keys and values of all it may read, and what is added to scores.
fn attend(query: &[f64], keys: &[Vec<f64>], values: &[Vec<f64>], added: &[Vec<f64>]) -> Vec<f64> {
    let mut read = Vec::new();
    for head in 0..HEADS {
        let own = |row: &[f64]| row[head * DIM..][..DIM].to_vec();
        let dot =
            |key: &Vec<f64>| -> f64 { own(query).iter().zip(own(key)).map(|(a, b)| a * b).sum() };
        let scores: Vec<f64> = keys
            .iter()
            .zip(added)
            .map(|(key, added)| dot(key) / (DIM as f64).sqrt() + added[head])
            .collect();
        let weights = softmax(&scores);
        for column in 0..DIM {
            let sum = weights.iter().zip(values);
            read.push(sum.map(|(weight, value)| weight * value[head * DIM + column]).sum());
        }
    }
    read
}

#[test]
fn both_branches_are_what_loops_say() {
    for position in [true, false] {
        let model = model(position);
        let batch = batch(pairs());
        let pass = Pass::eval(&model.parameters).traced();
        let prediction = values(model.backbone.forward(&pass, &batch).unwrap());
        assert_eq!(prediction.len(), TARGETS * 3);
        let trace = pass.trace();
        let z: Vec<Vec<f64>> = trace["encoder.h"]
            .values
            .chunks_exact(DIM)
            .map(|row| row.iter().map(|&x| f64::from(x)).collect())
            .collect();
        assert_eq!(z.len(), ROWS);

        let hops = model.parameters.get("local.hop_emb.weight").unwrap();
        let mut expected = Vec::new();
        for target in 0..TARGETS {
            let own: Vec<Sampled> =
                pairs().into_iter().filter(|pair| pair.target as usize == target).collect();
            let of = |name: &str| -> Vec<Vec<f64>> {
                own.iter().map(|pair| map(&model, name, &z[pair.row as usize])).collect()
            };
            let added = own.iter().map(|pair| {
                let alike = own.iter().filter(|other| other.hop == pair.hop).count() as f64;
                let bias = &hops[pair.hop as usize * HEADS..][..HEADS];
                bias.iter().map(|&bias| f64::from(bias) - alike.ln()).collect()
            });
            let added: Vec<Vec<f64>> = added.collect();
            let query = map(&model, "local.q", &z[target]);
            expected.extend(attend(&query, &of("local.k"), &of("local.v"), &added));
        }
        let expected: Vec<f32> = expected.into_iter().map(|x| x as f32).collect();
        assert_close(&trace["local.h"].values, &expected, 1e-5, "local");
        // A target by itself reads its own value.
        let alone = map(&model, "local.v", &z[TARGETS - 1]);
        let alone: Vec<f32> = alone.into_iter().map(|x| x as f32).collect();
        assert_close(
            &trace["local.h"].values[(TARGETS - 1) * HEADS * DIM..],
            &alone,
            1e-5,
            "alone",
        );

        let wide = if position { DIM + POSITION } else { DIM };
        let get = |name: &str| model.parameters.get(&format!("layers.0.{name}")).unwrap();
        let statistics = get("codebook.running_mean"); // the variance, too
        let codes: Vec<Vec<f64>> = get("codebook.sums")
            .chunks_exact(wide)
            .take(CLUSTERS)
            .map(|row| {
                let back = |(&code, &s): (&f32, &f32)| {
                    // Sizes are 1.
                    f64::from(code) * (f64::from(s) + 1e-5).sqrt() + f64::from(s)
                };
                row.iter().zip(statistics).map(back).collect()
            })
            .collect();
        let keys: Vec<Vec<f64>> =
            codes.iter().map(|code| map(&model, "layers.0.k", code)).collect();
        let given: Vec<Vec<f64>> =
            codes.iter().map(|code| map(&model, "layers.0.v", &code[..DIM])).collect();
        let slope = f64::from(get("dist_lin.weight")[0]);
        let positions = random(POSITION * TARGETS, "positions");
        let mut expected = Vec::new();
        for target in 0..TARGETS {
            let mut asked = map(&model, "layers.0.proj", &z[target]);
            if position {
                let own = &positions[target * POSITION..][..POSITION];
                asked.extend(own.iter().map(|&x| f64::from(x)));
            }
            let query = map(&model, "layers.0.q", &asked);
            let clusters = clusters();
            let added = clusters.graph_sizes().iter().enumerate().map(|(cluster, &size)| {
                let distance = cluster.abs_diff(cluster_of()[target] as usize) as f64;
                vec![f64::from(size).ln() + slope * distance; HEADS]
            });
            expected.extend(attend(&query, &keys, &given, &added.collect::<Vec<_>>()));
        }
        let expected: Vec<f32> = expected.into_iter().map(|x| x as f32).collect();
        assert_close(&trace["layers.0.attn"].values, &expected, 1e-5, "global");
        assert_eq!(trace["pred"].values, prediction);
    }
}

#[test]
fn targets_do_not_see_each_other_nor_what_was_not_sampled() {
    let model = model(true);
    let whole = predict(&model, &batch(pairs()));
    let some = pairs().into_iter().filter(|pair| pair.target % 2 == 0 || pair.hop == 0).collect();
    let some = predict(&model, &batch(some));
    for target in (0..TARGETS).filter(|target| target % 2 == 0 || *target == TARGETS - 1) {
        assert_close(&some[target * 3..][..3], &whole[target * 3..][..3], 1e-6, "other targets");
    }
    assert!((0..3).any(|i| (some[3 + i] - whole[3 + i]).abs() > 1e-4), "neighbours count");
    // The last two rows are in no pair.
    let mut other = batch(pairs());
    let Values::Float(features) = &mut other.node_features.as_mut().unwrap().values else {
        panic!("real numbers")
    };
    features[(ROWS - 2) * FEATURES..].fill(9.0);
    assert_close(&predict(&model, &other), &whole, 1e-6, "rows that were not sampled");
}

#[test]
fn a_step_moves_the_averages_of_the_clusters_it_has() {
    let mut model = model(true);
    let before = model.parameters.clone();
    let batch = batch(pairs());
    let pass = Pass::train(&model.parameters, Seed(0), 0);
    let prediction = model.backbone.forward(&pass, &batch).unwrap();
    let gradients = pass.gradients(&prediction.sum());
    assert!(gradients.iter().all(|g| g.is_finite()));
    pass.statistics().store(&mut model.parameters);
    let sizes = model.parameters.get("layers.0.codebook.sizes").unwrap();
    // Targets are in clusters 0, 1 and 2 twice each.
    assert_close(sizes, &[1.01, 1.01, 1.01, 0.99, 0.99], 1e-6, "sizes");
    let name = "layers.0.codebook.sums";
    let wide = DIM + POSITION;
    let [old, new] = [&before, &model.parameters].map(|p| p.get(name).unwrap().to_vec());
    let faded: Vec<f32> = old[3 * wide..].iter().map(|x| x * 0.99).collect();
    assert_close(&new[3 * wide..], &faded, 1e-6, "clusters that the batch has not");
    assert!(new[..wide].iter().zip(&old).any(|(new, old)| (new - old * 0.99).abs() > 1e-4));
}
