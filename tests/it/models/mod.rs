//! Models: their sizes, laws and derivatives, and what they refuse. Here is what these tests share: a model of
//! every sort, and graphs to run it on.

mod bias;
mod derivatives;
mod laws;
mod nodes;
mod presets;
mod propositions;
mod refusals;
mod samples;

#[cfg(feature = "parquet")]
pub use presets::preset;

use std::sync::Arc;

use hdse::data::{Edges, Matrix, Values};
use hdse::distance::{Codes, Distances, MaxDistance};
use hdse::nn::config::{EdgeInput, Encoding, Extractor, Local, NodeInput};
use hdse::nn::{Batch, Model, ModelConfig, Pass, Spectrum, Subgraphs, values};
use hdse::rng::{Seed, Stream};
use hdse::{Graph, Hierarchy, MemoryLimit, coarsen};
use serde_json::{Value, json};

/// A model of every sort: what makes it different from the one before.
pub fn configs() -> Vec<ModelConfig> {
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
        with(
            "sat",
            json!({ "local": { "pna": { "towers": 2, "aggregators": ["mean", "sum", "max"] } },
            "edge": { "types": 2 }, "edge_dim": 5, "extractor": { "subgraph": 2 } }),
        ),
        with(
            "grit",
            json!({ "edge": { "types": 2 }, "encoding": { "rrwp": { "steps": 4 } }, "pool": "sum" }),
        ),
        with(
            "grit",
            json!({ "encoding": { "rrwp": { "steps": 3 } }, "pool": "none", "bias": "none",
            "node": { "linear": 3 } }),
        ),
        with("sat", json!({ "local": "gcn", "extractor": { "subtree": 2 }, "pool": "none" })),
        with(
            "sat",
            json!({ "local": "gine", "edge": "dummy", "extractor": { "subgraph": 1 }, "bias": "none",
            "encoding": { "rwse": { "steps": 5 } } }),
        ),
        with(
            "sgformer",
            json!({ "local": "gcn", "bias": "none", "branch": { "norm": "batch", "weight": 0.5 },
            "encoding": { "rwse": { "steps": 5, "dim": 4 } } }),
        ),
        with("sgformer", json!({ "local": "none", "bias": "none", "pool": "none" })),
        with(
            "gps",
            json!({ "local": "gcn", "encoding": { "signnet": { "frequencies": 4, "dim": 6,
            "hidden": 8, "layers": 3, "post_layers": 2 } } }),
        ),
        with(
            "gt",
            json!({ "encoding": { "signnet": { "frequencies": 4, "hidden": 8, "layers": 2,
            "combine": "sum" } } }),
        ),
    ]
}

/// A graph with the features that a model reads.
pub fn example_of(config: &ModelConfig, nodes: u32, arcs: u32, seed: u64) -> Batch {
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
    surround(config, &mut batch);
    if let Encoding::LapPe { skip, .. } | Encoding::SignNet { skip, .. } = config.encoding {
        let spectrum = batch.spectrum.as_mut().unwrap();
        spectrum.counts = vec![(n - skip.min(n)).min(4)];
    }
    batch
}

/// Gives a graph what follows from its arcs, if the model reads it.
pub fn surround(config: &ModelConfig, batch: &mut Batch) {
    if let Some(Extractor::Subgraph(hops)) = config.extractor {
        let found = Subgraphs::new(batch.num_nodes(), &batch.edges, hops, MemoryLimit::NONE);
        let alike = matches!(config.local, Local::Pna { .. });
        let levels = |found: Subgraphs| match alike {
            true => found.with_levels(hops, MemoryLimit::NONE).unwrap(),
            false => found,
        };
        batch.subgraphs = Some(Arc::new(levels(found.unwrap())));
    }
    if let Encoding::Rrwp { steps } = config.encoding {
        batch.walk_powers = Some(steps);
    }
}

/// A graph with features and encodings of all sorts. Its last nodes have no arcs.
pub fn example(nodes: u32, arcs: u32, seed: u64) -> Batch {
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
pub fn shuffled(batch: &Batch, seed: u64) -> (Batch, Vec<usize>) {
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

pub fn predict(model: &Model, batch: &Batch) -> Vec<f32> {
    let pass = Pass::eval(&model.parameters);
    values(model.backbone.forward(&pass, batch).unwrap())
}

#[track_caller]
pub fn assert_close(found: &[f32], expected: &[f32], limit: f32, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(1.0, |largest: f32, x| largest.max(x.abs()));
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= limit * largest, "{what}: [{i}] is {a}, not {b}");
    }
}

/// Of hundreds of thousands of inputs of ReLU, one or the other lies so near zero that rounding decides on which side. Such
/// a unit moves few numbers of a gradient, by about a thousandth: all but a hundredth must agree closely, and the whole
/// nearly.
pub fn check_gradient(found: &[f32], expected: &[f32], all: &[f32], what: &str) {
    let largest = all.iter().fold(0.0, |largest: f32, g| largest.max(g.abs()));
    let own = expected.iter().fold(0.0, |own: f32, g| own.max(g.abs()));
    let apart: Vec<f32> = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).collect();
    let off = apart.iter().filter(|apart| **apart > 1e-4 * own + 3e-6 * largest).count();
    assert!(off * 100 <= apart.len(), "{off} of {} are off: {what}", apart.len());
    let length =
        |numbers: &[f32]| numbers.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    let limit = 3e-3 * length(expected) + 1e-5 * f64::from(largest) * (apart.len() as f64).sqrt();
    assert!(length(&apart) <= limit, "{} of {}: {what}", length(&apart), length(expected));
}
