//! Single layers, in training and evaluation, by the kernels and composed.

use std::collections::BTreeMap;

use burn::tensor::Tensor;

use super::Fixture;
use super::models::check_gradients;
use hdse::data::Edges;
use hdse::nn::message::{Aggregator, Gat, GatedGcn, Gcn, Gine, Pna, PnaShape, Sage};
use hdse::nn::{
    BatchNorm, Builder, LayerNorm, Mode, Parameters, Pass, Scope, States, Structure, cpu, matrix,
    values,
};
use hdse::rng::Seed;

/// Inputs by name.
type Inputs = BTreeMap<String, Tensor<2>>;

/// A layer made of its fixture's configuration: inputs to outputs, by name.
type Layer = Box<dyn Fn(&Pass, &Structure, &Inputs) -> Vec<(&'static str, Tensor<2>)>>;

pub fn check(fixture: &Fixture) {
    let mut builder = Builder::new(Seed(0));
    let layer = layer(fixture, builder.root());
    let mut parameters = builder.finish();
    parameters.load(&fixture.path, "param.").unwrap();
    let statistics = parameters.entries().iter().any(|entry| !entry.trained);
    for composed in [false, true] {
        run(fixture, &layer, &parameters, true, composed);
        if statistics {
            run(fixture, &layer, &parameters, false, composed);
        }
    }
}

fn layer(fixture: &Fixture, scope: Scope) -> Layer {
    let name = fixture.config["layer"].as_str().expect("a layer");
    let inputs = fixture.size("in_dim");
    let x = |inputs: &Inputs| inputs["x"].clone();
    let e = |inputs: &Inputs| inputs["e"].clone();
    // The first axis of a weight is its number of outputs.
    let outputs = |name: &str| fixture.shape(&format!("param.{name}"))[0];
    match name.split('-').next().expect("a name") {
        "gcn" => {
            let layer = Gcn::new(scope, inputs, outputs("lin.weight"));
            Box::new(move |pass, structure, i| {
                vec![("y", layer.forward(pass, structure, &States::Made(x(i))))]
            })
        }
        "sage" => {
            let layer = Sage::new(scope, inputs, outputs("lin_l.weight"));
            Box::new(move |pass, structure, i| {
                vec![("y", layer.forward(pass, structure, &States::Made(x(i))))]
            })
        }
        "gat" => {
            let shape = fixture.shape("param.att_src");
            let layer = Gat::new(scope, inputs, shape[1], shape[2], 0.0);
            assert_eq!(shape[1], fixture.size("heads"));
            Box::new(move |pass, structure, i| {
                vec![("y", layer.forward(pass, structure, &States::Made(x(i))))]
            })
        }
        "gine" => {
            let layer = Gine::new(scope, inputs, outputs("nn.0.weight"), outputs("nn.2.weight"));
            Box::new(move |pass, structure, i| {
                vec![("y", layer.forward(pass, structure, x(i), e(i)))]
            })
        }
        "gatedgcn" => {
            let gate = fixture.config["edge_gate"].as_bool().expect("edge_gate");
            let layer = GatedGcn::new(scope, inputs, gate, 0.0);
            Box::new(move |pass, structure, i| {
                let (y, e) = layer.forward(pass, structure, x(i), e(i), i.get("pe"));
                vec![("y", y), ("e", e)]
            })
        }
        "pna" => {
            let towers = fixture.size("towers");
            let shape = PnaShape {
                inputs,
                outputs: outputs("lin.weight"),
                edges: fixture.config["edge_dim"].as_u64().map(|edges| edges as usize),
                towers,
                divide: outputs("pre_nns.0.0.weight") * towers == inputs,
                aggregators: vec![Aggregator::Mean, Aggregator::Sum, Aggregator::Max],
            };
            let layer = Pna::new(scope, &shape);
            Box::new(move |pass, structure, i| {
                vec![("y", layer.forward(pass, structure, x(i), i.get("ed").cloned()))]
            })
        }
        "batchnorm" => {
            let layer = BatchNorm::new(scope, inputs);
            Box::new(move |pass, _, i| vec![("y", layer.forward(pass, x(i)))])
        }
        "layernorm" => {
            let layer = LayerNorm::new(scope, inputs);
            Box::new(move |pass, _, i| vec![("y", layer.forward(pass, x(i)))])
        }
        other => panic!("{}: unknown layer `{other}`", fixture.name),
    }
}

fn run(fixture: &Fixture, layer: &Layer, parameters: &Parameters, train: bool, composed: bool) {
    let device = cpu().autodiff();
    let mode = if train { Mode::Train { seed: Seed(0), step: 0 } } else { Mode::Eval };
    let pass = Pass::new(parameters, mode, &device);
    let pass = if composed { pass.composed() } else { pass };
    let inputs: Inputs = ["x", "e", "ed", "pe"]
        .into_iter()
        .filter(|name| fixture.has(&format!("in.{name}")))
        .map(|name| {
            let full = format!("in.{name}");
            let shape: [usize; 2] = fixture.shape(&full).try_into().expect("two axes");
            (name.to_string(), matrix(fixture.floats(&full), shape, &device).require_grad())
        })
        .collect();
    let mut edges = Edges::default();
    if fixture.has("in.edge_index") {
        let all: Vec<u32> = fixture.ints("in.edge_index").iter().map(|&id| id as u32).collect();
        let (sources, targets) = all.split_at(all.len() / 2);
        edges = Edges { sources: sources.to_vec(), targets: targets.to_vec() };
    }
    let structure = Structure::new(&[inputs["x"].dims()[0]], &edges, None);

    let prefix = if train { "" } else { "eval." };
    let mut loss = Tensor::<1>::zeros([1], &device);
    for (name, output) in layer(&pass, &structure, &inputs) {
        fixture.output(&format!("out.{prefix}{name}"), &values(output.clone()));
        let upstream = fixture.floats(&format!("in.gy.{name}"));
        loss = loss + (output.clone() * matrix(upstream, output.dims(), &device)).sum();
    }
    let (flat, by_input) = pass.gradients_with(&loss, &inputs.values().collect::<Vec<_>>());
    for (name, found) in inputs.keys().zip(&by_input) {
        fixture.gradient(&format!("{prefix}in.{name}"), found);
    }
    check_gradients(fixture, parameters, &flat, prefix);
    if train {
        let mut after = parameters.clone();
        pass.statistics().store(&mut after);
        for entry in after.entries().iter().filter(|entry| !entry.trained) {
            let found = after.get(&entry.name).expect("a statistic");
            fixture.output(&format!("out.after.{}", entry.name), found);
        }
    }
}
