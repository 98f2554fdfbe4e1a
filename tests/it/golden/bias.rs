//! The distance bias alone, and the distances it is made of.

use burn::tensor::Tensor;

use super::Fixture;
use super::models::{batch, config};
use hdse::distance::{Distances, MaxDistance};
use hdse::nn::{Bias, Builder, Groups, Mode, Pass, cpu, gather, matrix, values};
use hdse::rng::Seed;
use hdse::{Graph, Hierarchy, MemoryLimit, Partition};
use serde_json::json;

pub fn check(fixture: &Fixture) {
    recompute_distances(fixture);
    let keys = ["mode", "K", "L", "d_b"];
    let hdse: serde_json::Map<_, _> =
        keys.iter().map(|&key| (key.to_string(), fixture.config[key].clone())).collect();
    let (heads, layers) = (fixture.size("heads"), fixture.size("layers"));
    let config = config(&json!({
        "model": "gt", "encoder": "type", "node_types": 1, "dim": heads, "heads": heads,
        "layers": layers, "pool": "mean", "out": 1, "hdse": hdse
    }));

    let mut builder = Builder::new(Seed(0));
    let bias = Bias::new(&mut builder.root(), &config).unwrap().expect("a bias");
    let maps: Vec<_> = (0..layers)
        .map(|layer| bias.layer(&mut builder.root().at("layers").at(layer), heads))
        .collect();
    let mut parameters = builder.finish();
    parameters.load(&fixture.path, "param.").unwrap();

    let device = cpu().autodiff();
    let pass = Pass::new(&parameters, Mode::Eval, &device);
    let batch = batch(fixture, "in.");
    let codes = batch.codes.as_ref().expect("codes");
    let pairs = Groups::new(codes.iter().collect(), codes.codebook().len());
    let hidden = bias.forward(&pass, &batch).unwrap();
    let mut loss = Tensor::<1>::zeros([1], &device);
    for (layer, map) in maps.iter().enumerate() {
        let table = map.forward(&pass, hidden.clone());
        let bias = gather(&pass, &pairs, table);
        fixture.output(&format!("out.layers.{layer}.bias"), &values(bias.clone()));
        let upstream = fixture.floats(&format!("in.gy.layers.{layer}.bias"));
        loss = loss + (bias * matrix(upstream, [codes.len(), heads], &device)).sum();
    }
    super::models::check_gradients(fixture, &parameters, &pass.gradients(&loss), "");
}

/// The distances of the fixture, from its edges and clusters.
fn recompute_distances(fixture: &Fixture) {
    let ptr = fixture.ints("in.ptr");
    let edges = fixture.ints("in.edge_index");
    let (sources, targets) = edges.split_at(edges.len() / 2);
    let clips: Vec<usize> = fixture.config["L"]
        .as_array()
        .expect("clips")
        .iter()
        .map(|clip| clip.as_u64().expect("a clip") as usize)
        .collect();
    let mut found: Vec<Vec<u8>> = vec![Vec::new(); clips.len()];
    for (graph, ends) in ptr.windows(2).enumerate() {
        let inside = |&(u, _): &(i64, i64)| (ends[0]..ends[1]).contains(&u);
        let pairs: Vec<(u32, u32)> = (sources.iter().copied().zip(targets.iter().copied()))
            .filter(inside)
            .map(|(u, v)| ((u - ends[0]) as u32, (v - ends[0]) as u32))
            .collect();
        let (built, _) = Graph::from_pairs((ends[1] - ends[0]) as usize, &pairs).unwrap();
        let partitions = (1..clips.len()).map(|level| {
            let all = fixture.ints(&format!("in.part.{level}"));
            let ptr = fixture.ints(&format!("in.part_ptr.{level}"));
            let ids = &all[ptr[graph] as usize..ptr[graph + 1] as usize];
            Partition::new(ids.iter().map(|&id| id as u32).collect()).unwrap()
        });
        let hierarchy = Hierarchy::from_partitions(&built, partitions.collect()).unwrap();
        let clip = MaxDistance::new(&clips).unwrap();
        let distances = Distances::new(&built, &hierarchy, &clip, MemoryLimit::NONE).unwrap();
        for (pair, row) in distances.lifted().chunks_exact(clips.len()).enumerate() {
            for (level, &distance) in row.iter().enumerate() {
                assert!(pair < built.num_nodes().pow(2));
                found[level].push(distance.min(clips[level] as u8));
            }
        }
    }
    for (level, found) in found.iter().enumerate() {
        assert_eq!(found, fixture.bytes(&format!("in.dist.{level}")), "{}", fixture.name);
    }
}
