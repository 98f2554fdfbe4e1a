//! Helpers shared by the tests.

use std::path::PathBuf;

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
    let folder = std::env::var_os("HDSE_DATA")
        .map_or_else(|| checkout().join("../shared/data"), PathBuf::from);
    let path = folder.join(file);
    if !path.exists() {
        println!("skipped: no {}", path.display());
        return None;
    }
    Some(path.to_string_lossy().into_owned())
}

/// The fixtures that come with the source.
pub fn own_golden() -> PathBuf {
    checkout().join("tests/golden")
}

/// The folder that is tested. Not that of the build, which another checkout may have left in a shared build folder.
pub fn checkout() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").map_or(env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}

/// Where golden fixtures are: `HDSE_GOLDEN`, else those that come with the source.
pub fn golden() -> PathBuf {
    std::env::var_os("HDSE_GOLDEN").map_or_else(own_golden, PathBuf::from)
}

/// The ways to run a pass.
#[cfg(feature = "train")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Of tensor operations alone.
    Composed,
    /// With our own operations.
    Kernels,
    /// All layers as one operation, where there is one.
    Fused,
    /// The same with the instructions of every processor.
    Portable,
    /// The same by so many threads that stay, in memory of earlier passes.
    Threads(usize),
}

#[cfg(feature = "train")]
impl Way {
    pub const ALL: [Way; 7] = [
        Way::Composed,
        Way::Kernels,
        Way::Fused,
        Way::Portable,
        Way::Threads(1),
        Way::Threads(2),
        Way::Threads(3),
    ];

    pub fn is_fused(self) -> bool {
        !matches!(self, Way::Composed | Way::Kernels)
    }

    pub fn of(self, pass: hdse::nn::Pass<'_>) -> hdse::nn::Pass<'_> {
        match self {
            Way::Composed => pass.composed(),
            Way::Kernels => pass.fused(false),
            Way::Fused => pass,
            Way::Portable => pass.portable(),
            Way::Threads(count) => pass.by(&team(count)),
        }
    }
}

/// A team that is kept, with the memory of all earlier passes.
#[cfg(feature = "train")]
fn team(threads: usize) -> std::sync::Arc<hdse::nn::fused::Team> {
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::sync::Arc;
    thread_local! {
        static TEAMS: RefCell<BTreeMap<usize, Arc<hdse::nn::fused::Team>>> = RefCell::default();
    }
    TEAMS.with_borrow_mut(|teams| {
        let team = || Arc::new(hdse::nn::fused::Team::new(threads).unwrap());
        teams.entry(threads).or_insert_with(team).clone()
    })
}
