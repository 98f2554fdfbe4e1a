//! What the core costs per graph, on one thread: `make bench` runs this and writes
//! docs/benchmarks.md from what criterion measured.
//!
//! Real sets are looked for in `HDSE_DATA`, else `../shared/data`; those that are absent are left
//! out and named.

#[cfg(feature = "train")]
mod models;
mod report;
mod sets;

use criterion::{BenchmarkId, Criterion, Throughput};
use hdse::coarsen::{self, Context};
use hdse::data::{AtomicFile, encoded, read};
use hdse::distance::{Codes, Distances, MaxDistance, Scratch};
use hdse::encode::{Encoder, Partitions};
use hdse::encoding::{Laplacian, LaplacianEncoding, SelfLoops, Walk, random_walk};
use hdse::rng::Seed;
use hdse::{Graph, Hierarchy, MemoryLimit};

fn main() {
    let mut criterion = Criterion::default().configure_from_args().sample_size(20);
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global().expect("the first pool");
    let sets = sets::all();
    distances(&mut criterion, &sets);
    codes(&mut criterion, &sets);
    coarseners(&mut criterion, &sets);
    build(&mut criterion, &sets);
    encode(&mut criterion, &sets);
    encodings(&mut criterion, &sets);
    #[cfg(feature = "train")]
    models::training_step(&mut criterion, &sets);
    criterion.final_summary();
    report::write(&sets);
}

fn hierarchies(graphs: &[Graph]) -> Vec<Hierarchy> {
    let louvain = coarsen::parse("louvain").expect("louvain is listed");
    let build = |graph| Hierarchy::build(graph, louvain.as_ref(), 1, &Context::default());
    graphs.iter().map(|graph| build(graph).expect("louvain never fails")).collect()
}

/// Both levels, from graph to the `[n · n, 2]` bytes that are stored.
fn distances(criterion: &mut Criterion, sets: &[sets::Set]) {
    let mut group = criterion.benchmark_group("distances");
    for set in sets {
        let hierarchies = hierarchies(&set.graphs);
        let clip = MaxDistance::default();
        let mut scratch = Scratch::default();
        let mut out = Vec::new();
        group.throughput(Throughput::Elements(set.graphs.len() as u64));
        group.bench_function(BenchmarkId::from_parameter(set.name), |bencher| {
            bencher.iter(|| {
                for (graph, hierarchy) in set.graphs.iter().zip(&hierarchies) {
                    let limit = MemoryLimit::NONE;
                    let distances =
                        Distances::with_scratch(graph, hierarchy, &clip, limit, &mut scratch, &())
                            .expect("no limit");
                    out.resize(graph.num_nodes() * graph.num_nodes() * 2, 0);
                    distances.lift_into(&mut out);
                }
            });
        });
    }
}

fn codes(criterion: &mut Criterion, sets: &[sets::Set]) {
    let mut group = criterion.benchmark_group("codes");
    for set in sets {
        let hierarchies = hierarchies(&set.graphs);
        let clip = MaxDistance::default();
        let lifted: Vec<Vec<u8>> = set
            .graphs
            .iter()
            .zip(&hierarchies)
            .map(|(g, h)| {
                Distances::new(g, h, &clip, MemoryLimit::NONE).expect("no limit").lifted()
            })
            .collect();
        group.throughput(Throughput::Elements(set.graphs.len() as u64));
        group.bench_function(BenchmarkId::from_parameter(set.name), |bencher| {
            bencher.iter(|| lifted.iter().map(|t| Codes::from_tuples(t, 2).len()).sum::<usize>());
        });
    }
}

fn coarseners(criterion: &mut Criterion, sets: &[sets::Set]) {
    for entry in coarsen::ALL {
        let mut group = criterion.benchmark_group(entry.name);
        let coarsener = coarsen::parse(entry.name).expect("its own name");
        for set in sets.iter().filter(|set| entry.name != "newman" || !set.dense) {
            group.throughput(Throughput::Elements(set.graphs.len() as u64));
            group.bench_function(BenchmarkId::from_parameter(set.name), |bencher| {
                bencher.iter(|| {
                    let clusters = |graph| {
                        let partition = coarsener.coarsen(graph, &Context::default());
                        partition.expect("coarseners accept every graph").num_clusters()
                    };
                    set.graphs.iter().map(clusters).sum::<usize>()
                });
            });
        }
    }
}

fn build(criterion: &mut Criterion, sets: &[sets::Set]) {
    let mut group = criterion.benchmark_group("graph from pairs");
    for set in sets {
        let pairs: Vec<Vec<(u32, u32)>> = set
            .graphs
            .iter()
            .map(|g| g.edges().flat_map(|(u, v, _)| [(u, v), (v, u)]).collect())
            .collect();
        group.throughput(Throughput::Elements(set.graphs.len() as u64));
        group.bench_function(BenchmarkId::from_parameter(set.name), |bencher| {
            bencher.iter(|| {
                for (graph, pairs) in set.graphs.iter().zip(&pairs) {
                    Graph::from_pairs(graph.num_nodes(), pairs).expect("valid pairs");
                }
            });
        });
    }
}

fn encodings(criterion: &mut Criterion, sets: &[sets::Set]) {
    let limit = MemoryLimit::NONE;
    let walk = |graph: &Graph| {
        let (sources, targets): (Vec<u32>, Vec<u32>) =
            graph.edges().flat_map(|(u, v, _)| [(u, v), (v, u)]).unzip();
        let walk = Walk::new(graph.num_nodes(), &sources, &targets, SelfLoops::Keep);
        random_walk(&walk.expect("valid arcs"), 20, limit).expect("no limit").len()
    };
    let laplacian = |graph: &Graph| {
        let lowest = LaplacianEncoding::new(graph, Laplacian::Combinatorial, 10, 0, limit);
        lowest.expect("no limit").count
    };
    per_graph(criterion, sets, "random walk", walk);
    per_graph(criterion, sets, "laplacian", laplacian);
}

fn per_graph(
    criterion: &mut Criterion,
    sets: &[sets::Set],
    name: &str,
    work: impl Fn(&Graph) -> usize,
) {
    let mut group = criterion.benchmark_group(name);
    for set in sets {
        group.throughput(Throughput::Elements(set.graphs.len() as u64));
        group.bench_function(BenchmarkId::from_parameter(set.name), |bencher| {
            bencher.iter(|| set.graphs.iter().map(&work).sum::<usize>());
        });
    }
}

/// What `hdse encode INPUT -o OUT.safetensors` does: read, coarsen with `newman`, measure, write.
fn encode(criterion: &mut Criterion, sets: &[sets::Set]) {
    let mut group = criterion.benchmark_group("encode");
    let folder = std::env::temp_dir();
    for set in sets.iter().filter(|set| !set.dense) {
        let out = folder.join(format!("hdse-bench-{}.safetensors", std::process::id()));
        group.throughput(Throughput::Elements(set.graphs.len() as u64));
        group.sample_size(10);
        group.bench_function(BenchmarkId::from_parameter(set.name), |bencher| {
            bencher.iter(|| {
                let graphs = read(&set.input, &set.options).expect("a readable set");
                let encoder = Encoder {
                    partitions: Partitions::Coarsener(coarsen::parse("newman").expect("listed")),
                    levels: 1,
                    max_distance: MaxDistance::default(),
                    seed: Seed(0),
                    limit: MemoryLimit::NONE,
                };
                let metadata = encoder.metadata(&graphs, None);
                let sizes = graphs.samples.iter().map(|s| s.graph.num_nodes() as u32);
                let sizes: Vec<u32> = sizes.collect();
                let file = AtomicFile::create(&out, true).expect("a writable folder");
                let mut writer = encoded::create("safetensors", file, &metadata, &sizes)
                    .expect("a known format");
                encoder.encode_set(&graphs, &(), |chunk| writer.push(&chunk)).expect("no limit");
                writer.finish().expect("room on disk");
            });
        });
        let _ = std::fs::remove_file(out);
    }
}
