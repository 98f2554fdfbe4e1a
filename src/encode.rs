//! From graphs to distances: the pipeline behind `hdse encode`.
//!
//! An [`Encoder`] holds every parameter. [`Encoder::encode_set`] runs a whole set through it, a
//! window of graphs at a time on all threads, and hands the results on in order while the next
//! window is computed; memory stays bounded and the output does not depend on the thread count.

use rayon::prelude::*;

use crate::coarsen::{Coarsener, Context};
use crate::data::encoded::{Chunk, Metadata, SCHEMA};
use crate::data::{GraphSet, Sample};
use crate::distance::{Distances, MaxDistance, Scratch, UNREACHABLE};
use crate::error::Context as _;
use crate::monitor::{self, Monitor};
use crate::rng::Seed;
use crate::{Graph, Hierarchy, MemoryLimit, Partition, Result};

/// Bytes of distances computed per window; a larger graph is a window of its own.
const WINDOW: usize = 8 << 20;

/// All parameters of an encoding.
pub struct Encoder {
    /// Where partitions come from.
    pub partitions: Partitions,
    /// Number of levels K above the graph.
    pub levels: usize,
    /// Clip per level.
    pub max_distance: MaxDistance,
    /// Seed of the coarsener.
    pub seed: Seed,
    /// The most memory one graph may take.
    pub limit: MemoryLimit,
}

/// Where the partitions of a hierarchy come from.
pub enum Partitions {
    /// An algorithm.
    Coarsener(Box<dyn Coarsener>),
    /// Given ones: for every graph of the set, one partition per level.
    Given {
        /// What they are, for the metadata.
        description: String,
        /// Partitions of every graph.
        of_graph: Vec<Vec<Partition>>,
    },
}

/// What an encoding of a set looked like.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Graphs.
    pub graphs: usize,
    /// Nodes of all graphs.
    pub nodes: u64,
    /// Edges of all graphs.
    pub edges: u64,
    /// Node pairs of all graphs.
    pub pairs: u64,
    /// Levels 0 to K.
    pub levels: Vec<LevelSummary>,
    /// Graphs whose hierarchy stopped shrinking before level K.
    pub stopped_early: usize,
}

/// What one level of a set looked like.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LevelSummary {
    /// Clusters of all graphs.
    pub clusters: u64,
    /// Largest clipped distance in any graph.
    pub farthest: u8,
    /// Graphs with unreachable pairs.
    pub disconnected: usize,
}

impl Summary {
    fn add(&mut self, graph: &Graph, hierarchy: &Hierarchy, farthest: &[(u8, bool)]) {
        self.graphs += 1;
        self.nodes += graph.num_nodes() as u64;
        self.edges += graph.num_edges() as u64;
        self.pairs += (graph.num_nodes() as u64).pow(2);
        self.stopped_early += usize::from(hierarchy.built().len() < hierarchy.levels());
        self.levels.resize(farthest.len(), LevelSummary::default());
        for (k, (level, &(far, disconnected))) in self.levels.iter_mut().zip(farthest).enumerate() {
            level.clusters += hierarchy.num_clusters(k) as u64;
            level.farthest = level.farthest.max(far);
            level.disconnected += usize::from(disconnected);
        }
    }
}

impl Encoder {
    /// The coarsener with all its parameters, for the metadata.
    pub fn describe(&self) -> String {
        match &self.partitions {
            Partitions::Coarsener(coarsener) => coarsener.describe(),
            Partitions::Given { description, .. } => description.clone(),
        }
    }

    /// What is stored beside the encodings of `set`, or of its distances from level `high_level` up.
    pub fn metadata(&self, set: &GraphSet, high_level: Option<usize>) -> Metadata {
        Metadata {
            schema: SCHEMA,
            hdse: env!("CARGO_PKG_VERSION").to_string(),
            kind: if high_level.is_some() { "high-level" } else { "graph-set" }.to_string(),
            coarsener: self.describe(),
            levels: self.levels,
            max_distance: (0..=self.levels).map(|k| self.max_distance.at(k)).collect(),
            seed: self.seed.0,
            graphs: set.total,
            input_blake3: set.hash.clone(),
            high_level,
            shard: None,
        }
    }

    /// The hierarchy of graph number `number` of a set.
    pub fn hierarchy(
        &self,
        graph: &Graph,
        number: usize,
        monitor: &dyn Monitor,
    ) -> Result<Hierarchy> {
        match &self.partitions {
            Partitions::Coarsener(coarsener) => {
                let context = Context {
                    seed: self.seed,
                    graph: number as u64,
                    level: 1,
                    monitor,
                    limit: self.limit,
                };
                Hierarchy::build(graph, coarsener.as_ref(), self.levels, &context)
            }
            Partitions::Given { of_graph, .. } => {
                Hierarchy::from_partitions(graph, of_graph[number].clone())
            }
        }
    }

    /// Encodes all graphs of `set` and hands the results to `sink` in order.
    pub fn encode_set(
        &self,
        set: &GraphSet,
        monitor: &dyn Monitor,
        mut sink: impl FnMut(Chunk) -> Result<()> + Send,
    ) -> Result<Summary> {
        let mut summary = Summary {
            levels: vec![LevelSummary::default(); self.levels + 1],
            ..Summary::default()
        };
        self.check_memory(set)?;
        let mut finished: Option<Chunk> = None;
        let mut first = 0;
        loop {
            let window = self.window(&set.samples[first..]);
            let number = set.first + first;
            let mut encode = || self.encode_window(window, number, monitor, &mut summary);
            // Write the last window while this one is computed.
            let (next, written) = match finished.take() {
                Some(chunk) => rayon::join(encode, || sink(chunk)),
                None => (encode(), Ok(())),
            };
            written?;
            if window.is_empty() {
                return Ok(summary);
            }
            finished = Some(next?);
            first += window.len();
        }
    }

    /// Refuses, before any work, a set with a graph whose distances do not fit into memory.
    fn check_memory(&self, set: &GraphSet) -> Result<()> {
        for (i, sample) in set.samples.iter().enumerate() {
            let number = (set.total != 1).then_some(set.first + i);
            self.check_memory_of(sample.graph.num_nodes(), number)?;
        }
        Ok(())
    }

    /// Refuses one graph whose distances do not fit; `number` says which one of a set it is.
    ///
    /// # Errors
    /// If [`Encoder::bytes_of`] the graph are more than the limit.
    pub fn check_memory_of(&self, num_nodes: usize, number: Option<usize>) -> Result<()> {
        let graph = number.map_or(String::new(), |number| format!("graph {number}: "));
        let instead = match number {
            None => "use `--high-level 1` (distances between clusters), or raise `--max-memory`",
            Some(_) => "take it out of the set, or raise `--max-memory`",
        };
        let levels = self.levels + 1;
        self.limit.check(
            self.bytes_of(num_nodes),
            &format!("{graph}distances of all pairs of {num_nodes} nodes at {levels} levels"),
            instead,
        )
    }

    /// Memory that the distances of one graph take, twice: the result and the tables it is lifted
    /// from.
    pub fn bytes_of(&self, num_nodes: usize) -> u128 {
        2 * (num_nodes as u128).pow(2) * (self.levels as u128 + 1)
    }

    /// The first graphs whose distances fit a window, at least one.
    fn window<'a>(&self, samples: &'a [Sample]) -> &'a [Sample] {
        let mut bytes = 0;
        let fits = |sample: &&Sample| {
            let n = sample.graph.num_nodes();
            bytes += n * n * (self.levels + 1);
            bytes <= WINDOW
        };
        let count = samples.iter().take_while(fits).count();
        &samples[..count.max(1).min(samples.len())]
    }

    fn encode_window(
        &self,
        samples: &[Sample],
        number: usize,
        monitor: &dyn Monitor,
        summary: &mut Summary,
    ) -> Result<Chunk> {
        let nodes = |s: &Sample| s.graph.num_nodes();
        let total: usize = samples.iter().map(nodes).sum();
        let pairs: usize = samples.iter().map(|s| nodes(s) * nodes(s)).sum();
        let mut chunk = Chunk {
            num_nodes: samples.iter().map(|s| nodes(s) as u32).collect(),
            distances: vec![0; pairs * (self.levels + 1)],
            clusters: vec![0; total * self.levels],
        };
        let mut jobs = Vec::with_capacity(samples.len());
        let (mut distances, mut clusters) = (&mut chunk.distances[..], &mut chunk.clusters[..]);
        for (i, sample) in samples.iter().enumerate() {
            let (n, distances_here, clusters_here);
            n = nodes(sample);
            (distances_here, distances) = distances.split_at_mut(n * n * (self.levels + 1));
            (clusters_here, clusters) = clusters.split_at_mut(n * self.levels);
            jobs.push((number + i, sample, distances_here, clusters_here));
        }
        let encode = |scratch: &mut Scratch, (number, sample, distances, clusters): Job<'_>| {
            monitor::check(monitor)?;
            let done =
                self.encode_graph(&sample.graph, number, distances, clusters, scratch, monitor);
            monitor.advance(1);
            done.context(|| format!("graph {number}"))
        };
        let done: Vec<Result<(Hierarchy, Farthest)>> =
            jobs.into_par_iter().map_init(Scratch::default, encode).collect();
        for (sample, done) in samples.iter().zip(done) {
            let (hierarchy, farthest) = done?;
            summary.add(&sample.graph, &hierarchy, &farthest);
        }
        Ok(chunk)
    }

    /// Encodes one graph into `distances` `[n · n, K + 1]` and `clusters` `[n, K]`.
    fn encode_graph(
        &self,
        graph: &Graph,
        number: usize,
        distances: &mut [u8],
        clusters: &mut [u32],
        scratch: &mut Scratch,
        monitor: &dyn Monitor,
    ) -> Result<(Hierarchy, Farthest)> {
        let hierarchy = self.hierarchy(graph, number, monitor)?;
        let clip = &self.max_distance;
        let tables =
            Distances::with_scratch(graph, &hierarchy, clip, self.limit, scratch, monitor)?;
        tables.lift_into(distances);
        write_clusters(&hierarchy, clusters);
        let farthest = (0..=self.levels).map(|k| farthest(tables.table(k))).collect();
        Ok((hierarchy, farthest))
    }
}

/// Per level, the largest distance and whether some pair is unreachable.
type Farthest = Vec<(u8, bool)>;

type Job<'a> = (usize, &'a Sample, &'a mut [u8], &'a mut [u32]);

/// Writes the cluster of every node at levels 1 … K to `out`, `[n, K]`.
pub fn write_clusters(hierarchy: &Hierarchy, out: &mut [u32]) {
    let levels = hierarchy.levels();
    for level in 1..=levels {
        let cells = out.iter_mut().skip(level - 1).step_by(levels);
        for (cell, &cluster) in cells.zip(hierarchy.ancestors(level).iter()) {
            *cell = cluster;
        }
    }
}

/// The largest distance, and whether any pair is unreachable.
fn farthest(hops: &[u8]) -> (u8, bool) {
    let far = hops.iter().map(|&d| if d == UNREACHABLE { 0 } else { d }).max();
    (far.unwrap_or(0), hops.contains(&UNREACHABLE))
}

/// Cuts given cluster ids, listed for all nodes of all graphs one after another, into partitions.
///
/// The ids of level 1 number the nodes of each graph. Those of a further level number either the
/// clusters of the level below or again all nodes, whichever their count says; in the latter case
/// clusters must nest. Ids need not be contiguous: each graph's clusters are numbered by ascending
/// id.
///
/// # Errors
/// If the count fits neither, or clusters do not nest.
pub fn partitions_from_ids(set: &GraphSet, levels: &[Vec<u64>]) -> Result<Vec<Vec<Partition>>> {
    let mut of_graph: Vec<Vec<Partition>> = vec![Vec::new(); set.samples.len()];
    let nodes: Vec<usize> = set.samples.iter().map(|s| s.graph.num_nodes()).collect();
    for (k, ids) in levels.iter().enumerate() {
        let below: Vec<usize> = of_graph
            .iter()
            .zip(&nodes)
            .map(|(p, &n)| p.last().map_or(n, Partition::num_clusters))
            .collect();
        let nodes_total: usize = nodes.iter().sum();
        let below_total: usize = below.iter().sum();
        // Where both would fit, every node has a cluster of its own below, and ids number nodes.
        let per_cluster = ids.len() == below_total && ids.len() != nodes_total;
        if !per_cluster && ids.len() != nodes_total {
            let also = match k {
                0 => String::new(),
                _ => format!(", or {below_total} for the clusters of level {k}"),
            };
            return Err(crate::Error::data(format!(
                "the partition of level {} has {} ids; it needs {nodes_total} for the nodes{also}",
                k + 1,
                ids.len(),
            )));
        }
        let mut rest = &ids[..];
        for (g, partitions) in of_graph.iter_mut().enumerate() {
            let (here, after) = rest.split_at(if per_cluster { below[g] } else { nodes[g] });
            rest = after;
            let partition = match per_cluster {
                true => Partition::from_labels(here),
                false => {
                    nest(partitions, here).context(|| format!("level {}, graph {g}", k + 1))?
                }
            };
            partitions.push(partition);
        }
    }
    Ok(of_graph)
}

/// The partition of the topmost clusters that ids given per node describe.
fn nest(below: &[Partition], ids: &[u64]) -> Result<Partition> {
    let Some((first, rest)) = below.split_first() else { return Ok(Partition::from_labels(ids)) };
    let cluster = rest.iter().fold(first.clone(), |all, level| all.compose(level));
    let mut id_of: Vec<Option<u64>> = vec![None; cluster.num_clusters()];
    for (node, (&c, &id)) in cluster.cluster_of().iter().zip(ids).enumerate() {
        match id_of[c as usize] {
            Some(other) if other != id => {
                return Err(crate::Error::data(format!(
                    "node {node} is in cluster {id}, but others of its cluster {c} one level below \
                     are in {other}; clusters must nest"
                )));
            }
            _ => id_of[c as usize] = Some(id),
        }
    }
    Ok(Partition::from_labels(&id_of))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coarsen;
    use crate::data::{ReadOptions, read};

    fn encoder(spec: &str, levels: usize) -> Encoder {
        Encoder {
            partitions: Partitions::Coarsener(coarsen::parse(spec).unwrap()),
            levels,
            max_distance: MaxDistance::default(),
            seed: Seed(0),
            limit: MemoryLimit::NONE,
        }
    }

    fn encode(encoder: &Encoder, set: &GraphSet) -> (Chunk, Summary) {
        let mut all = Chunk::default();
        let summary = encoder
            .encode_set(set, &(), |chunk| {
                all.num_nodes.extend(chunk.num_nodes);
                all.distances.extend(chunk.distances);
                all.clusters.extend(chunk.clusters);
                Ok(())
            })
            .unwrap();
        (all, summary)
    }

    #[test]
    fn thread_counts_do_not_matter() {
        let set = read("community-small", &ReadOptions::default()).unwrap();
        for spec in ["newman", "louvain", "random", "random:like=louvain", "newman:ties=random"] {
            let run = |threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| encode(&encoder(spec, 2), &set))
            };
            assert_eq!(run(1), run(2));
            assert_eq!(run(1), run(7));
        }
    }

    #[test]
    fn given_partitions_equal_the_coarsener_that_made_them() {
        let set = read("community-small", &ReadOptions::default()).unwrap();
        let (expected, _) = encode(&encoder("louvain", 2), &set);
        let column = |k: usize| -> Vec<u64> {
            expected.clusters.iter().skip(k).step_by(2).map(|&c| c.into()).collect()
        };
        let of_graph = partitions_from_ids(&set, &[column(0), column(1)]).unwrap();
        let given = Encoder {
            partitions: Partitions::Given { description: "given".into(), of_graph },
            ..encoder("louvain", 2)
        };
        assert_eq!(encode(&given, &set).0, expected);
    }

    #[test]
    fn given_partitions_are_checked() {
        let mut set = read("community-small", &ReadOptions::default()).unwrap();
        set.samples.truncate(1);
        let n = set.samples[0].graph.num_nodes() as u64;
        let halves: Vec<u64> = (0..n).map(|u| u % 2 * 10).collect();
        let thirds: Vec<u64> = (0..n).map(|u| u % 3).collect();
        let ok = partitions_from_ids(&set, &[halves.clone(), vec![5, 5]]).unwrap();
        assert_eq!(ok[0][1].num_clusters(), 1);
        let error = partitions_from_ids(&set, &[halves.clone(), thirds]).unwrap_err();
        assert!(format!("{error:#}").contains("clusters must nest"), "{error:#}");
        // A level of singletons in another order: ids still number nodes.
        let reversed: Vec<u64> = (0..n).rev().collect();
        let nodes: Vec<u64> = (0..n).map(|u| u64::from(u == 0)).collect();
        let both = partitions_from_ids(&set, &[reversed, nodes]).unwrap();
        assert_eq!(both[0][0].compose(&both[0][1]).cluster_of()[..2], [1, 0]);
        let error = partitions_from_ids(&set, &[halves, vec![1, 2, 3]]).unwrap_err();
        assert!(error.to_string().contains("or 2 for the clusters of level 1"), "{error}");
    }

    #[test]
    fn a_stop_is_an_error() {
        struct Stop;
        impl Monitor for Stop {
            fn stopped(&self) -> bool {
                true
            }
        }
        let set = read("community-small", &ReadOptions::default()).unwrap();
        let error = encoder("newman", 1).encode_set(&set, &Stop, |_| Ok(())).unwrap_err();
        assert!(error.is_interrupted());
    }
}
