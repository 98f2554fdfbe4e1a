//! Steps of training on one thread.

use criterion::{BenchmarkId, Criterion, Throughput};
use hdse::config::Config;
use hdse::data::{Edges, Matrix, Values};
use hdse::distance::{Codes, Distances, MaxDistance};
use hdse::encoding::{SelfLoops, Walk, random_walk};
use hdse::nn::{Batch, Model, Pass};
use hdse::rng::Seed;
use hdse::train::{Loss, Optimizer, OptimizerConfig, clip_norm};
use hdse::{Graph, MemoryLimit};

use crate::sets::Set;

/// The model of configs/gps-zinc.toml on graphs of any set, with made-up types.
pub fn training_step(criterion: &mut Criterion, sets: &[Set]) {
    let text = include_str!("../../configs/gps-zinc.toml");
    let config = Config::parse(text, "gps-zinc", &[]).expect("a configuration").model;
    let mut group = criterion.benchmark_group("training step");
    group.sample_size(10);
    for set in sets.iter().filter(|set| !set.dense) {
        let graphs = &set.graphs;
        let hierarchies = crate::hierarchies(graphs);
        let examples: Vec<Batch> = graphs
            .iter()
            .zip(&hierarchies)
            .map(|(graph, hierarchy)| example(graph, hierarchy))
            .collect();
        let batches: Vec<Batch> = examples
            .chunks(32)
            .map(|chunk| Batch::merge(&chunk.iter().collect::<Vec<_>>()).expect("equal parts"))
            .collect();
        let mut model = Model::new(&config, Seed(0)).expect("a valid configuration");
        let settings = OptimizerConfig::named("adamw").expect("listed");
        let mut optimizer = Optimizer::new(settings, model.parameters.count()).expect("valid");
        group.throughput(Throughput::Elements(graphs.len() as u64));
        let mut step = 0;
        group.bench_function(BenchmarkId::from_parameter(set.name), |bencher| {
            bencher.iter(|| {
                for batch in &batches {
                    train(&mut model, &mut optimizer, batch, step);
                    step += 1;
                }
            });
        });
    }
}

fn train(model: &mut Model, optimizer: &mut Optimizer, batch: &Batch, step: u64) {
    let pass = Pass::train(&model.parameters, Seed(0), step);
    let prediction = model.backbone.forward(&pass, batch).expect("all parts");
    let targets = batch.targets.as_ref().expect("targets");
    let loss = Loss::L1.of(prediction, targets).expect("one target a graph");
    let mut gradients = pass.gradients(&loss);
    pass.statistics().store(&mut model.parameters);
    clip_norm(&mut gradients, 1.0);
    optimizer.step(1e-3, model.parameters.trained_mut(), &gradients).expect("equal lengths");
}

fn example(graph: &Graph, hierarchy: &hdse::Hierarchy) -> Batch {
    let nodes = graph.num_nodes();
    let (sources, targets): (Vec<u32>, Vec<u32>) =
        graph.edges().flat_map(|(u, v, _)| [(u, v), (v, u)]).unzip();
    let limit = MemoryLimit::NONE;
    let walk = Walk::new(nodes, &sources, &targets, SelfLoops::Keep).expect("valid arcs");
    let walks = random_walk(&walk, 20, limit).expect("no limit");
    let distances =
        Distances::new(graph, hierarchy, &MaxDistance::default(), limit).expect("no limit");
    let types = |count, rows| {
        let values = (0..rows as i64).map(|row| row % count).collect();
        Some(Matrix { width: 1, values: Values::Int(values) })
    };
    Batch {
        sizes: vec![nodes],
        node_features: types(28, nodes),
        edge_features: types(4, sources.len()),
        edges: Edges { sources, targets },
        random_walk: Some(Matrix { width: 20, values: Values::Float(walks) }),
        codes: Some(Codes::new(&distances)),
        targets: Some(Values::Float(vec![nodes as f32 / 20.0])),
        ..Batch::default()
    }
}
