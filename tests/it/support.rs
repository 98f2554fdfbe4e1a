//! Helpers shared by the tests.

use std::path::{Path, PathBuf};

use hdse::coarsen::{self, Context};
use hdse::rng::Seed;
use hdse::{Graph, Partition};

/// A graph of `n` nodes and about `edges` random edges.
pub fn random_graph(n: u32, edges: u32, seed: u64) -> Graph {
    let mut stream = Seed(seed).stream("test", n.into(), edges.into());
    let mut node = || stream.below(n.into()) as u32;
    let pairs: Vec<(u32, u32)> = (0..edges).map(|_| (node(), node())).collect();
    Graph::from_pairs(n as usize, &pairs).unwrap().0
}

/// A graph of the given pairs.
pub fn graph(n: usize, pairs: &[(u32, u32)]) -> Graph {
    Graph::from_pairs(n, pairs).unwrap().0
}

/// The partition that the coarsener of `spec` makes of `graph`.
pub fn partition(spec: &str, graph: &Graph, seed: u64) -> Partition {
    let context = Context { seed: Seed(seed), ..Context::default() };
    coarsen::parse(spec).unwrap().coarsen(graph, &context).unwrap()
}

/// Clusters numbered by their first node: equal for equal partitions, whatever their ids.
pub fn by_first_node(clusters: &[u32]) -> Vec<u32> {
    let mut ids = std::collections::HashMap::new();
    let mut id = |&cluster| {
        let next = ids.len() as u32;
        *ids.entry(cluster).or_insert(next)
    };
    clusters.iter().map(&mut id).collect()
}

/// A data file in `HDSE_DATA`, else ../shared/data; an absent one is named as skipped.
pub fn find(file: &str) -> Option<String> {
    let folder = std::env::var_os("HDSE_DATA").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data"),
        PathBuf::from,
    );
    let path = folder.join(file);
    if !path.exists() {
        println!("skipped: no {}", path.display());
        return None;
    }
    Some(path.to_string_lossy().into_owned())
}

/// The fixtures that come with the source.
pub fn own_golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Where golden fixtures are: `HDSE_GOLDEN`, else those that come with the source.
pub fn golden() -> PathBuf {
    std::env::var_os("HDSE_GOLDEN").map_or_else(own_golden, PathBuf::from)
}
