//! Laws of models: sizes, derivatives, symmetry, batches.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::tensor::Tensor;
use hdse::config::Config;
use hdse::data::{Edges, Matrix, Values};
use hdse::distance::{Codes, Distances, MaxDistance};
use hdse::nn::config::{EdgeInput, Encoding, NodeInput};
use hdse::nn::{
    ALL, Batch, BatchNorm, Builder, Groups, Inputs, Mode, Model, ModelConfig, Pairs, Parameters,
    Pass, Spectrum, attention, cpu, gather, matrix, max, sum, values,
};
use hdse::rng::{Seed, Stream};
use hdse::{Graph, Hierarchy, MemoryLimit, coarsen};
use serde_json::{Value, json};

/// The models of configs/: released count, and which of its parameters are never used.
const RELEASED: &[(&str, usize, &[(&str, usize)])] = &[
    ("gps-zinc", 439_989, &[("LayerNorm of the bias", 128), ("key maps of the bias", 2_600)]),
    ("gps-mnist", 125_201, &[("LayerNorm of the bias", 104), ("key maps of the bias", 636)]),
    ("gps-cifar10", 122_549, &[("LayerNorm of the bias", 104), ("key maps of the bias", 636)]),
    ("gps-pattern", 352_695, &[("LayerNorm of the bias", 128), ("key maps of the bias", 1_560)]),
    ("gps-cluster", 523_718, &[("LayerNorm of the bias", 96), ("key maps of the bias", 6_272)]),
    ("gps-peptides-func", 505_434, &[("LayerNorm of the bias", 32)]),
    ("gps-peptides-struct", 505_963, &[("LayerNorm of the bias", 32)]),
    ("gt-zinc", 388_593, &[("structure extractor, edge embedding, LayerNorm", 175_744)]),
    ("gt-mnist", 386_586, &[("structure extractor, LayerNorm", 175_648)]),
    ("gt-cifar10", 386_714, &[("structure extractor, LayerNorm", 175_648)]),
    ("gt-pattern", 386_098, &[("structure extractor, LayerNorm", 175_616)]),
    ("gt-cluster", 577_574, &[("structure extractor, LayerNorm", 265_056)]),
];

/// What the models of the paper's tables have here: a true network in the bias, distances to 30.
const OURS: &[(&str, usize)] = &[
    ("gps-zinc", 438_541),
    ("gps-mnist", 124_714),
    ("gps-cifar10", 122_046),
    ("gps-pattern", 350_985),
    ("gps-cluster", 515_958),
    ("gps-peptides-func", 505_402),
    ("gps-peptides-struct", 506_251),
    ("gt-community-small", 39_762),
    ("gt-zinc", 222_385),
    ("gt-mnist", 220_602),
    ("gt-cifar10", 220_730),
    ("gt-pattern", 220_018),
    ("gt-cluster", 318_134),
];

/// The model of a file in configs/.
pub fn preset(name: &str) -> ModelConfig {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs").join(name);
    let text = std::fs::read_to_string(path.with_extension("toml")).unwrap();
    assert!(text.lines().count() <= 30, "{name} is longer than a page");
    Config::parse(&text, name, &[]).unwrap_or_else(|e| panic!("{e:#}")).model
}

#[test]
fn presets_have_the_published_numbers_of_parameters() {
    let count = |name: &str| Model::new(&preset(name), Seed(0)).unwrap().parameters.count();
    for (name, released, dead) in RELEASED {
        let live = count(&format!("reference/{name}"));
        let dead: usize = dead.iter().map(|(_, count)| count).sum();
        assert_eq!(live + dead, *released, "{name}: {live} live");
    }
    for (name, ours) in OURS {
        assert_eq!(count(name), *ours, "{name}");
    }
}

#[test]
fn every_preset_is_listed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs");
    let names = |folder: PathBuf| -> Vec<String> {
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files = files.filter(|path| path.extension().is_some_and(|e| e == "toml"));
        let mut names: Vec<String> =
            files.map(|path| path.file_stem().unwrap().to_string_lossy().into()).collect();
        names.sort();
        names
    };
    let listed = |all: Vec<&str>| -> Vec<String> {
        let mut all: Vec<String> = all.into_iter().map(String::from).collect();
        all.sort();
        all
    };
    assert_eq!(names(folder.join("reference")), listed(RELEASED.iter().map(|r| r.0).collect()));
    assert_eq!(names(folder), listed(OURS.iter().map(|r| r.0).collect()));
}

/// A model of every sort: what makes it different from the one before.
fn configs() -> Vec<ModelConfig> {
    let base = |backbone: &str| {
        json!({
            "backbone": backbone, "dim": 16, "heads": 4, "layers": 2, "node": { "types": 3 },
            "pool": "mean", "head": { "plain": 2 }, "outputs": 2, "max_distance": [6, 3],
        })
    };
    let with = |backbone: &str, changes: Value| {
        let mut config = base(backbone);
        for (key, value) in changes.as_object().unwrap() {
            config[key] = value.clone();
        }
        serde_json::from_value(config).unwrap()
    };
    vec![
        with(
            "gps",
            json!({ "local": "gine", "edge": { "types": 2 }, "head": "san", "pool": "sum",
            "encoding": { "rwse": { "steps": 5, "dim": 4 } } }),
        ),
        with(
            "gps",
            json!({ "local": "gatedgcn", "edge": "dummy", "head": { "graphgym": 3 },
            "pool": "none", "bias": "linear", "encoding": { "eslappe": { "frequencies": 4 } } }),
        ),
        with(
            "gps",
            json!({ "local": "gatedgcn", "edge": { "types": 2 }, "bias": "none",
            "encoding": { "lappe": { "frequencies": 4, "dim": 6 } } }),
        ),
        with("gps", json!({ "local": "gcn", "unreachable": "own", "pool": "max" })),
        with("gps", json!({ "local": "sage", "combine": "sum", "pool": "none" })),
        with(
            "gps",
            json!({ "local": "gat", "combine": "sum", "bias": "linear",
            "encoding": { "degree": { "max": 3, "dim": 4 } } }),
        ),
        with(
            "gps",
            json!({ "local": { "pna": { "towers": 4,
            "aggregators": ["mean", "sum", "max", "min"] } }, "edge": { "types": 2 } }),
        ),
        with("gps", json!({ "local": "none", "levels": 0, "max_distance": 5 })),
        with(
            "gps",
            json!({ "local": "gine", "edge": { "bonds": [2, 3] }, "node": { "atoms": [3, 2] },
            "encoding": { "lappe": { "frequencies": 4, "dim": 6, "skip": 1 } } }),
        ),
        with(
            "gps",
            json!({ "local": "gatedgcn", "edge": { "linear": 2 }, "node": { "linear": 3 },
            "levels": 1, "bias_dim": 5 }),
        ),
        with(
            "gt",
            json!({ "node": { "leading": { "columns": 1, "of": 3 } },
            "encoding": { "degree": { "max": 4 } } }),
        ),
        with("gt", json!({ "encoding": { "rwse": { "steps": 5 } } })),
        with(
            "gt",
            json!({ "encoding": { "lappe": { "frequencies": 4 } }, "pool": "none",
            "degree_scale": false, "identical_layers": true, "bias": "linear", "combine": "sum" }),
        ),
    ]
}

/// A graph with the features that a model reads.
fn example_of(config: &ModelConfig, nodes: u32, arcs: u32, seed: u64) -> Batch {
    let mut batch = example(nodes, arcs, seed);
    let mut stream = Seed(seed).stream("features", 0, 0);
    let mut columns = |rows: usize, counts: &[usize]| {
        let types = (0..rows * counts.len()).map(|i| stream.below(counts[i % counts.len()] as u64));
        Some(Matrix { width: counts.len(), values: Values::Int(types.map(|t| t as i64).collect()) })
    };
    let (n, m) = (batch.num_nodes(), batch.num_arcs());
    batch.node_features = match &config.node {
        NodeInput::Types(count) => columns(n, &[*count]),
        NodeInput::Atoms(counts) => columns(n, counts),
        NodeInput::Linear(of) | NodeInput::Leading { of, .. } => columns(n, &vec![9; *of]),
    };
    batch.edge_features = match &config.edge {
        EdgeInput::None | EdgeInput::Dummy => None,
        EdgeInput::Types(count) => columns(m, &[*count]),
        EdgeInput::Bonds(counts) => columns(m, counts),
        EdgeInput::Linear(of) => columns(m, &vec![9; *of]),
    };
    if let Encoding::LapPe { skip, .. } = config.encoding {
        let spectrum = batch.spectrum.as_mut().unwrap();
        spectrum.counts = vec![(n - skip.min(n)).min(4)];
    }
    batch
}

/// A graph with features and encodings of all sorts. Its last nodes have no arcs.
fn example(nodes: u32, arcs: u32, seed: u64) -> Batch {
    let mut stream = Seed(seed).stream("test", nodes.into(), arcs.into());
    let linked = (nodes - nodes / 5).max(1);
    let mut node = || stream.below(linked.into()) as u32;
    let pairs: Vec<(u32, u32)> =
        (0..arcs).map(|_| (node(), node())).filter(|(u, v)| u != v).collect();
    let (graph, _) = Graph::from_pairs(nodes as usize, &pairs).unwrap();
    let louvain = coarsen::parse("louvain").unwrap();
    let context = coarsen::Context::default();
    let hierarchy = Hierarchy::build(&graph, &*louvain, 1, &context).unwrap();
    let clip = MaxDistance::new(&[6, 3]).unwrap();
    let distances = Distances::new(&graph, &hierarchy, &clip, MemoryLimit::NONE).unwrap();
    let (sources, targets) = pairs.iter().copied().unzip();
    let count = pairs.len();
    let n = nodes as usize;
    let real = |stream: &mut Stream| stream.unit() as f32 - 0.5;
    Batch {
        sizes: vec![n],
        edges: Edges { sources, targets },
        node_features: Some(Matrix {
            width: 1,
            values: Values::Int((0..n).map(|_| stream.below(3) as i64).collect()),
        }),
        edge_features: Some(Matrix {
            width: 1,
            values: Values::Int((0..count).map(|_| stream.below(2) as i64).collect()),
        }),
        random_walk: Some(Matrix {
            width: 5,
            values: Values::Float((0..n * 5).map(|_| real(&mut stream)).collect()),
        }),
        spectrum: Some(Spectrum {
            frequencies: 4,
            vectors: (0..n * 4).map(|i| if i % 4 < n { real(&mut stream) } else { 0.0 }).collect(),
            values: (0..4).map(|_| real(&mut stream).abs()).collect(),
            counts: vec![n.min(4)],
        }),
        codes: Some(Codes::new(&distances)),
        ..Batch::default()
    }
}

/// The graph with nodes and arcs in another order.
fn shuffled(batch: &Batch, seed: u64) -> (Batch, Vec<usize>) {
    let n = batch.num_nodes();
    let mut order: Vec<usize> = (0..n).collect(); // new place → old node
    let mut arcs: Vec<usize> = (0..batch.num_arcs()).collect();
    let mut stream = Seed(seed).stream("shuffle", 0, 0);
    stream.shuffle(&mut order);
    stream.shuffle(&mut arcs);
    let mut place = vec![0; n];
    for (new, &old) in order.iter().enumerate() {
        place[old] = new as u32;
    }
    let ends = |ids: &[u32]| arcs.iter().map(|&arc| place[ids[arc] as usize]).collect();
    let rows = |matrix: &Option<Matrix>, rows: &[usize]| {
        matrix.as_ref().map(|matrix| {
            let all = rows.iter().flat_map(|&row| row * matrix.width..(row + 1) * matrix.width);
            let values = match &matrix.values {
                Values::Int(values) => Values::Int(all.map(|i| values[i]).collect()),
                Values::Float(values) => Values::Float(all.map(|i| values[i]).collect()),
            };
            Matrix { width: matrix.width, values }
        })
    };
    let spectrum = batch.spectrum.as_ref().map(|spectrum| {
        let k = spectrum.frequencies;
        let vectors = order.iter().flat_map(|&node| spectrum.vectors[node * k..][..k].to_vec());
        Spectrum { vectors: vectors.collect(), ..spectrum.clone() }
    });
    let codes = batch.codes.as_ref().map(|codes| {
        let width = codes.codebook().width();
        let pair = |i: usize| codes.get(order[i / n] * n + order[i % n]);
        let tuples: Vec<u8> =
            (0..n * n).flat_map(|i| codes.codebook().row(pair(i)).to_vec()).collect();
        Codes::from_tuples(&tuples, width)
    });
    let shuffled = Batch {
        sizes: vec![n],
        edges: Edges { sources: ends(&batch.edges.sources), targets: ends(&batch.edges.targets) },
        node_features: rows(&batch.node_features, &order),
        edge_features: rows(&batch.edge_features, &arcs),
        random_walk: rows(&batch.random_walk, &order),
        spectrum,
        codes,
        ..Batch::default()
    };
    (shuffled, order)
}

fn predict(model: &Model, batch: &Batch) -> Vec<f32> {
    let pass = Pass::eval(&model.parameters);
    values(model.backbone.forward(&pass, batch).unwrap())
}

#[track_caller]
fn assert_close(found: &[f32], expected: &[f32], limit: f32, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(1.0, |largest: f32, x| largest.max(x.abs()));
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= limit * largest, "{what}: [{i}] is {a}, not {b}");
    }
}

#[test]
fn the_order_of_nodes_and_arcs_changes_nothing() {
    for config in configs() {
        let model = Model::new(&config, Seed(1)).unwrap();
        let batch = example_of(&config, 13, 30, 5);
        let (other, order) = shuffled(&batch, 7);
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
            for composed in [false, true] {
                let pass = Pass::train(&model.parameters, Seed(0), 0);
                let pass = if composed { pass.composed() } else { pass };
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

#[test]
fn a_pass_repeats_itself_and_the_composed_form_agrees() {
    for mut config in configs() {
        config.dropout = 0.3;
        config.attention_dropout = 0.4;
        let model = Model::new(&config, Seed(4)).unwrap();
        let graphs = [(9, 20), (1, 0), (6, 9)];
        let graphs = graphs.map(|(nodes, arcs)| example_of(&config, nodes, arcs, 0));
        let batch = Batch::merge(&graphs.iter().collect::<Vec<_>>()).unwrap();
        let run = |step: u64, composed: bool| {
            let pass = Pass::train(&model.parameters, Seed(0), step);
            let pass = if composed { pass.composed() } else { pass };
            let prediction = model.backbone.forward(&pass, &batch).unwrap();
            let gradients = pass.gradients(&prediction.clone().square().sum());
            (values(prediction), gradients)
        };
        let (first, gradients) = run(0, false);
        assert_eq!(run(0, false), (first.clone(), gradients.clone()), "{config:?}");
        assert_ne!(run(1, false).0, first, "dropout follows the step: {config:?}");
        let (composed, composed_gradients) = run(0, true);
        assert_close(&composed, &first, 1e-5, &format!("{config:?}"));
        let largest = gradients.iter().fold(0.0, |largest: f32, g| largest.max(g.abs()));
        for entry in model.parameters.entries().iter().filter(|entry| entry.trained) {
            let (found, expected) =
                (&composed_gradients[entry.range.clone()], &gradients[entry.range.clone()]);
            let own = expected.iter().fold(0.0, |own: f32, g| own.max(g.abs()));
            for (a, b) in found.iter().zip(expected) {
                // Through BatchNorms of few rows, rounding grows.
                let limit = 1e-4 * own + 1e-6 * largest;
                assert!((a - b).abs() <= limit, "{}: {a}, not {b}: {config:?}", entry.name);
            }
        }
    }
}

/// Derivatives of Σ out·upstream by finite differences, for a function of matrices.
fn check_derivatives(
    inputs: &[([usize; 2], Vec<f32>)],
    function: impl Fn(&Pass, Vec<Tensor<2>>) -> Tensor<2>,
    what: &str,
) {
    check_layer_derivatives(&Parameters::default(), Mode::Eval, inputs, function, what);
}

/// The same for a layer with parameters.
fn check_layer_derivatives(
    parameters: &Parameters,
    mode: Mode,
    inputs: &[([usize; 2], Vec<f32>)],
    function: impl Fn(&Pass, Vec<Tensor<2>>) -> Tensor<2>,
    what: &str,
) {
    let device = cpu().autodiff();
    let leaves = |inputs: &[([usize; 2], Vec<f32>)]| -> Vec<Tensor<2>> {
        let leaf = |(shape, values): &([usize; 2], Vec<f32>)| {
            matrix(values.clone(), *shape, &device).require_grad()
        };
        inputs.iter().map(leaf).collect()
    };
    let upstream = |shape: [usize; 2]| {
        let mut stream = Seed(9).stream("upstream", 0, 0);
        (0..shape[0] * shape[1]).map(|_| stream.unit() as f32 - 0.5).collect::<Vec<f32>>()
    };
    let mut twins = Vec::new();
    for composed in [false, true] {
        let pass = Pass::new(parameters, mode, &device);
        let pass = if composed { pass.composed() } else { pass };
        let loss = |inputs: &[([usize; 2], Vec<f32>)]| -> f64 {
            let output = function(&pass, leaves(inputs));
            let upstream = upstream(output.dims());
            values(output).iter().zip(upstream).map(|(a, b)| f64::from(*a) * f64::from(b)).sum()
        };
        let leaves = leaves(inputs);
        let output = function(&pass, leaves.clone());
        let weighted = output.clone() * matrix(upstream(output.dims()), output.dims(), &device);
        let gradients = weighted.sum().backward();
        let mut all = values(output);
        for (i, leaf) in leaves.iter().enumerate() {
            let found = leaf.grad(&gradients).map(values);
            let found = found.unwrap_or_else(|| vec![0.0; inputs[i].1.len()]);
            let largest = found.iter().fold(0.0, |largest: f32, g| largest.max(g.abs()));
            for (j, &derivative) in found.iter().enumerate() {
                let at = |change: f32| {
                    let mut inputs = inputs.to_vec();
                    inputs[i].1[j] += change;
                    loss(&inputs)
                };
                let step = 1e-2;
                let expected = (at(step) - at(-step)) / f64::from(2.0 * step);
                let difference = (f64::from(derivative) - expected).abs();
                assert!(
                    difference < f64::from(2e-3 * largest + 1e-4),
                    "{what}, composed {composed}: input {i}[{j}]: {derivative} by the \
                     tape, {expected} by differences",
                );
            }
            all.extend(found);
        }
        twins.push(all);
    }
    assert_close(&twins[0], &twins[1], 1e-5, what);
}

fn random(rows: usize, columns: usize, seed: u64) -> ([usize; 2], Vec<f32>) {
    let mut stream = Seed(seed).stream("random", rows as u64, columns as u64);
    let values = (0..rows * columns).map(|_| 2.0 * stream.unit() as f32 - 1.0).collect();
    ([rows, columns], values)
}

#[test]
fn own_operations_have_right_derivatives() {
    // Group 2 has no rows.
    let groups = Groups::new(vec![3, 0, 0, 1, 3, 3, 1], 5);
    let rows = [random(7, 3, 0)];
    check_derivatives(&rows, |pass, x| sum(pass, &groups, x[0].clone()), "sum");
    check_derivatives(&rows, |pass, x| max(pass, &groups, x[0].clone()), "max");
    let table = [random(5, 3, 1)];
    check_derivatives(&table, |pass, x| gather(pass, &groups, x[0].clone()), "gather");
    let mut rows = [random(4, 5, 2)];
    rows[0].1[10..15].fill(0.0); // its derivative is that of x / 1e-12
    check_zero_row(&rows[0]);
    rows[0].1[10..15].fill(0.25);
    check_derivatives(&rows, |_, x| hdse::nn::normalise_rows(x[0].clone()), "normalise_rows");

    let mut builder = Builder::new(Seed(0));
    let norm = BatchNorm::new(builder.root(), 3);
    let mut parameters = builder.finish();
    parameters.set("weight", &[0.5, -1.0, 2.0]).unwrap();
    for mode in [Mode::Eval, Mode::Train { seed: Seed(0), step: 0 }] {
        let run = |pass: &Pass, x: Vec<Tensor<2>>| norm.forward(pass, x[0].clone());
        check_layer_derivatives(&parameters, mode, &[random(9, 3, 8)], run, "BatchNorm");
        // Scale and shift as inputs, in place of the parameters.
        let run = |x: &[f32], parameters: &Parameters| -> (f64, Vec<f32>) {
            let device = cpu().autodiff();
            let pass = Pass::new(parameters, mode, &device);
            let y = norm.forward(&pass, matrix(x.to_vec(), [9, 3], &device));
            let (shape, upstream) = random(9, 3, 10);
            let weighted = y * matrix(upstream, shape, &device);
            let sum = values(weighted.clone()).iter().map(|&x| f64::from(x)).sum();
            (sum, pass.gradients(&weighted.sum()))
        };
        let (_, x) = random(9, 3, 8);
        let (_, found) = run(&x, &parameters);
        for entry in parameters.entries().iter().filter(|entry| entry.trained) {
            for i in 0..3 {
                let at = |change: f32| {
                    let mut changed = parameters.clone();
                    let mut values = changed.get(&entry.name).unwrap().to_vec();
                    values[i] += change;
                    changed.set(&entry.name, &values).unwrap();
                    run(&x, &changed).0
                };
                let expected = (at(0.1) - at(-0.1)) / 0.2;
                let found = f64::from(found[entry.range.start + i]);
                assert!((found - expected).abs() < 1e-4, "{}[{i}]: {found} {expected}", entry.name);
            }
        }
    }

    let mut stream = Seed(3).stream("codes", 0, 0);
    let sizes = [0, 4, 5, 8];
    let pairs = 16 + 1 + 9;
    let codes: Vec<u32> = (0..pairs).map(|_| stream.below(6) as u32).collect();
    let mask: Vec<f32> = (0..pairs * 2).map(|_| [0.0, 1.5][stream.below(2) as usize]).collect();
    let [biased, plain] = [Some(codes), None].map(|codes| Pairs::new(sizes.to_vec(), codes));
    let inputs = [random(8, 6, 4), random(8, 6, 5), random(8, 6, 6), random(6, 2, 7)];
    for mask in [None, Some(mask)] {
        for pairs in [&biased, &plain] {
            let run = |pass: &Pass, x: Vec<Tensor<2>>| attend(pass, pairs, x, mask.clone());
            check_derivatives(&inputs, run, &format!("attention, mask {}", mask.is_some()));
        }
    }
}

/// A row of zeros stays one, and its derivative is finite.
fn check_zero_row((shape, rows): &([usize; 2], Vec<f32>)) {
    let x = matrix(rows.clone(), *shape, &cpu().autodiff()).require_grad();
    let y = hdse::nn::normalise_rows(x.clone());
    assert_eq!(values(y.clone())[10..15], [0.0; 5]);
    let gradient = values(x.grad(&y.sum().backward()).unwrap());
    assert!(gradient.iter().all(|g| g.is_finite()), "{gradient:?}");
}

fn attend(pass: &Pass, pairs: &Arc<Pairs>, x: Vec<Tensor<2>>, mask: Option<Vec<f32>>) -> Tensor<2> {
    let [query, key, value, table] = x.try_into().expect("four inputs");
    let table = pairs.codes().map(|_| table);
    attention(pass, pairs, 2, Inputs { query, key, value }, table, mask, String::new)
}

#[test]
fn attention_weights_can_be_captured() {
    let config = &configs()[0];
    let model = Model::new(config, Seed(0)).unwrap();
    let batch = Batch::merge(&[&example(5, 9, 0), &example(1, 0, 1)]).unwrap();
    let pass = Pass::eval(&model.parameters).traced();
    let traced = values(model.backbone.forward(&pass, &batch).unwrap());
    assert_eq!(traced, predict(&model, &batch));
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

#[test]
fn backbones_are_listed_once() {
    let mut names: Vec<&str> = ALL.iter().map(|entry| entry.name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), ALL.len());
    let tested = configs();
    for name in names {
        assert!(tested.iter().any(|config| config.backbone == name), "no test of {name}");
    }
}

#[test]
fn burn_stays_in_nn_and_train() {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                if name != "nn" && name != "train" {
                    folders.push(path);
                }
            } else if name.ends_with(".rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(!text.contains("burn"), "{}", path.display());
            }
        }
    }
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
fn mixed_numbers_become_real() {
    let of = |targets: Values| Batch { targets: Some(targets), ..example(2, 2, 0) };
    let (whole, real) = (of(Values::Int(vec![2])), of(Values::Float(vec![0.5])));
    let merged = Batch::merge(&[&whole, &real]).unwrap();
    assert_eq!(merged.targets, Some(Values::Float(vec![2.0, 0.5])));
    let merged = Batch::merge(&[&whole, &whole]).unwrap();
    assert_eq!(merged.targets, Some(Values::Int(vec![2, 2])));
}

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
