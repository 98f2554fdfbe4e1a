//! Proposition 2 and its corollary: models tell apart no more than the test with their distances, and some do tell apart what it
//! does.
//!
//! The second half needs a model whose attention can count. A softmax is a weighted mean, and where all nodes are alike, the mean of
//! equal values is that value whatever the bias: the plain form tells no two graphs apart then. GRIT adds what pairs say to what
//! nodes say, and with walks of no step pairs say no more than "same node" or "another one"; that is enough.

use super::example_of;
use crate::expressive::given;
use hdse::data::{Edges, Matrix, Values};
use hdse::distance::{Codes, Distances, MaxDistance};
use hdse::expressive::{Distance, refine_from};
use hdse::graph::named::named;
use hdse::nn::{Batch, Model, ModelConfig, Pass, values};
use hdse::rng::Seed;
use hdse::{Graph, Hierarchy, MemoryLimit, Partition, coarsen};
use serde_json::{Value, json};

const TYPES: usize = 3;

/// A graph with types of its nodes and a partition.
struct Case {
    graph: Graph,
    types: Vec<u32>,
    partition: Partition,
}

impl Case {
    fn new(graph: Graph, types: Vec<u32>, coarsener: &str) -> Case {
        let coarsener = coarsen::parse(coarsener).unwrap();
        let partition = coarsener.coarsen(&graph, &coarsen::Context::default()).unwrap();
        Case { graph, types, partition }
    }

    fn named(name: &str, coarsener: &str) -> Case {
        let graph = named(name).unwrap();
        let types = vec![0; graph.num_nodes()];
        Case::new(graph, types, coarsener)
    }

    /// As a batch with distances of so many levels.
    fn batch(&self, levels: usize) -> Batch {
        let hierarchy = match levels {
            0 => Hierarchy::flat(self.graph.num_nodes()),
            _ => Hierarchy::from_partitions(&self.graph, vec![self.partition.clone()]).unwrap(),
        };
        let clip = MaxDistance::new(&[254]).unwrap();
        let found = Distances::new(&self.graph, &hierarchy, &clip, MemoryLimit::NONE).unwrap();
        let pairs: Vec<(u32, u32)> = self.graph.edges().map(|(u, v, _)| (u, v)).collect();
        let (sources, targets) = pairs.iter().flat_map(|&(u, v)| [(u, v), (v, u)]).unzip();
        let types = self.types.iter().map(|&kind| i64::from(kind)).collect();
        Batch {
            sizes: vec![self.graph.num_nodes()],
            edges: Edges { sources, targets },
            node_features: Some(Matrix { width: 1, values: Values::Int(types) }),
            codes: Some(Codes::new(&found)),
            walk_powers: Some(1),
            ..Batch::default()
        }
    }
}

/// Colours of all nodes of all cases, by hops alone or by both levels.
fn colors(cases: &[Case], levels: usize) -> Vec<u32> {
    let graphs: Vec<&Graph> = cases.iter().map(|case| &case.graph).collect();
    let types: Vec<Vec<u32>> = cases.iter().map(|case| case.types.clone()).collect();
    let encoder = given(cases.iter().map(|case| case.partition.clone()).collect());
    let distance = if levels == 0 { Distance::Hops } else { Distance::Hierarchy(&encoder) };
    let found = refine_from(&graphs, &types, &distance, MemoryLimit::NONE, &()).unwrap();
    found.colors.concat()
}

fn config(backbone: &str, levels: usize, changes: Value) -> ModelConfig {
    let mut config = json!({
        "backbone": backbone, "dim": 16, "heads": 4, "layers": 3, "node": { "types": TYPES },
        "pool": "none", "head": { "plain": 2 }, "outputs": 4, "levels": levels, "max_distance": 254,
    });
    for (key, value) in changes.as_object().unwrap() {
        config[key] = value.clone();
    }
    serde_json::from_value(config).unwrap()
}

fn grit(levels: usize) -> ModelConfig {
    config("grit", levels, json!({ "encoding": { "rrwp": { "steps": 1 } } }))
}

/// What a model with random parameters predicts of all nodes of all cases, four numbers each.
fn outputs(config: &ModelConfig, cases: &[Case], seed: u64) -> Vec<f32> {
    let mut model = Model::new(config, Seed(seed)).unwrap();
    // What training starts from says little of distances; here they should matter.
    for entry in model.parameters.clone().entries().iter().filter(|entry| entry.trained) {
        let factor = if entry.name.contains("hdse") { 10.0 } else { 2.0 };
        let raised: Vec<f32> =
            model.parameters.get(&entry.name).unwrap().iter().map(|x| x * factor).collect();
        model.parameters.set(&entry.name, &raised).unwrap();
    }
    let of = |case: &Case| {
        let pass = Pass::eval(&model.parameters);
        values(model.backbone.forward(&pass, &case.batch(config.levels)).unwrap())
    };
    cases.iter().flat_map(of).collect()
}

/// The largest number.
fn scale(outputs: &[f32]) -> f32 {
    outputs.iter().fold(1e-3, |largest: f32, x| largest.max(x.abs()))
}

#[test]
fn nodes_of_equal_colour_have_equal_outputs() {
    let mut cases = Vec::new();
    for name in ["dodecahedron", "desargues", "decalin", "prism-5", "rook-4", "cycles-4-4"] {
        for coarsener in ["newman:clusters=2", "louvain"] {
            cases.push(Case::named(name, coarsener));
        }
    }
    for seed in 0..20 {
        let batch = example_of(&config("gt", 1, json!({})), 12, 16, seed);
        let pairs: Vec<(u32, u32)> =
            batch.edges.sources.iter().copied().zip(batch.edges.targets.iter().copied()).collect();
        let graph = Graph::from_pairs(12, &pairs).unwrap().0;
        let types = (0..12).map(|node| node % 2 * (seed % 2) as u32).collect();
        cases.push(Case::new(graph, types, "louvain"));
    }
    let models = |levels| {
        [
            config("gt", levels, json!({})),
            config("gps", levels, json!({ "local": "gcn" })),
            config("sat", levels, json!({ "local": "gcn", "extractor": { "subtree": 2 } })),
            grit(levels),
        ]
    };
    for levels in [0, 1] {
        let colors = colors(&cases, levels);
        let distinct = *colors.iter().max().unwrap() as usize + 1;
        assert!(distinct > 40 && distinct < colors.len() - 40, "{distinct} of {}", colors.len());
        for config in models(levels) {
            for seed in 0..5 {
                let outputs = outputs(&config, &cases, seed);
                let scale = scale(&outputs);
                let mut first = vec![None; distinct];
                for (row, &color) in outputs.chunks_exact(4).zip(&colors) {
                    let first = *first[color as usize].get_or_insert(row);
                    let apart = row.iter().zip(first).map(|(a, b)| (a - b).abs());
                    let apart = apart.fold(0.0, f32::max);
                    assert!(apart < 2e-5 * scale, "{}, {levels} levels: {apart}", config.backbone);
                }
            }
        }
    }
}

/// By how much the mean outputs of two graphs differ, in terms of the largest number: the most of some initialisations.
fn margin(config: &ModelConfig, cases: &[Case; 2], seeds: u64) -> f32 {
    let of = |seed| {
        let outputs = outputs(config, cases, seed);
        let mean = |side: &[f32], column: usize| {
            let column = side.iter().skip(column).step_by(4);
            column.map(|&x| f64::from(x)).sum::<f64>() / (side.len() / 4) as f64
        };
        let (first, second) = outputs.split_at(cases[0].graph.num_nodes() * 4);
        let apart = (0..4).map(|column| (mean(first, column) - mean(second, column)).abs());
        apart.fold(0.0, f64::max) as f32 / scale(&outputs)
    };
    (0..seeds).map(of).fold(0.0, f32::max)
}

#[test]
fn what_the_test_separates_some_model_does() {
    // Those that hops do not tell apart, but hierarchies with one signature each do; then some that hops do.
    let pairs = [
        ("dodecahedron", "desargues", false),
        ("rook-4", "shrikhande", false),
        ("prism-3", "bipartite-3-3", false),
        ("decalin", "bicyclopentyl", true),
        ("cycles-3-3", "cycles-6", true),
    ];
    for (first, second, by_hops) in pairs {
        let cases = [first, second].map(|name| Case::named(name, "newman:clusters=2,exact=true"));
        let separated = |levels| {
            let colors = colors(&cases, levels);
            let (first, second) = colors.split_at(cases[0].graph.num_nodes());
            let [mut first, mut second] = [first.to_vec(), second.to_vec()];
            first.sort_unstable();
            second.sort_unstable();
            first != second
        };
        assert!(separated(1), "{first}, {second}");
        assert_eq!(separated(0), by_hops, "{first}, {second}");
        let hierarchical = margin(&grit(1), &cases, 10);
        let hops = margin(&grit(0), &cases, 10);
        println!("{first}, {second}: {hierarchical:.1e} with HDSE, {hops:.1e} with hops");
        assert!(hierarchical > 1e-3, "{first}, {second}: {hierarchical}");
        assert!(if by_hops { hops > 1e-3 } else { hops < 1e-5 }, "{first}, {second}: {hops}");
        // Plain attention averages equal values, whatever the weights; degrees are all that tells nodes apart.
        if cases[0].graph.num_edges() * 2 == cases[0].graph.num_nodes() * cases[0].graph.degree(0) {
            let plain = margin(&config("gt", 1, json!({})), &cases, 10);
            assert!(plain < 1e-5, "{first}, {second}: {plain} by gt");
        }
    }
}
