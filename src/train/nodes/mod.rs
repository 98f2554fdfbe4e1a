//! Nodes of one graph made ready for training: from a [`NodeSet`] to batches.
//!
//! A model sees rows, of which every node is one. Where it attends to clusters, rows are sorted by cluster, so that the nodes of
//! a cluster lie side by side; [`Rows`] alone knows which row a node is.
//!
//! A step takes the whole graph, which is built once and never copied, or with `train.batch_size` a random part of its nodes with the
//! arcs between these: every epoch deals all nodes to such parts. Clusters and their distances are those of the whole
//! graph; a part may have no node of some. Evaluation takes the whole graph, or with `train.eval_batch_size` runs of rows one
//! after another. Where a model attends to [sampled neighbours](Sampler), a step takes some nodes of the training part and what is
//! sampled around them, from anywhere in the graph.
//!
//! | of | is |
//! |---|---|
//! | arcs | both directions of every edge; arcs as given where these have a direction |
//! | features | as given, sparse if they are; where nodes have none, the mean of those of their arcs |
//! | targets | those of nodes in the split; unknown ones are never scored |

mod arcs;
mod batches;
mod positions;
mod rows;
mod sampling;

pub use arcs::Arcs;
pub use batches::NodeExamples;
pub use rows::Rows;
pub use sampling::{Draw, Neighbourhood, Sampler};

use std::path::Path;
use std::sync::Arc;

use crate::coarsen::{self, Context};
use crate::config::{Config, TrainConfig};
use crate::data::nodes::{self, Features, NodeSet};
use crate::data::{Edges, Matrix, Values};
use crate::distance::HighLevel;
use crate::monitor::Monitor;
use crate::nn::{Batch, Clusters, FeatureRows};
use crate::rng::Seed;
use crate::{Error, Hierarchy, MemoryLimit, Result};
use positions::positions;
use rows::pick;

/// One graph in rows.
#[derive(Debug)]
pub struct NodeGraph {
    rows: Rows,
    arcs: Arcs,
    features: Arc<FeatureRows>,
    clusters: Option<Arc<Clusters>>,
    /// Where neighbours are sampled.
    sampler: Option<Sampler>,
    /// Vectors of nodes, in order of rows, and their width.
    positions: Option<(usize, Vec<f32>)>,
    /// Targets in order of rows.
    targets: Values,
    width: usize,
    /// The graph as one batch, without targets; nothing if it is never used as such.
    whole: Option<Batch>,
    /// What is left of the set: targets and splits.
    set: NodeSet,
    split: String,
}

impl NodeGraph {
    /// Makes a set ready, clusters included. Vectors that random walks gave are kept in a folder, if there is one.
    pub fn new(
        config: &Config,
        set: NodeSet,
        kept: Option<&Path>,
        limit: MemoryLimit,
        monitor: &dyn Monitor,
    ) -> Result<NodeGraph> {
        let clusters = match config.model.attends_to_clusters() {
            true => Some(clusters(config, &set, limit, monitor)?),
            false => None,
        };
        let walks = config.model.encoding.node2vec();
        let vectors = walks.map(|walks| positions(walks, &set.graph, kept, limit, monitor));
        let vectors = vectors.transpose()?;
        let mut graph = NodeGraph::with_clusters(config, set, clusters)?;
        if let (Some(walks), Some(vectors)) = (walks, vectors) {
            graph.positions = Some((walks.dim, graph.rows.by_row(&vectors, walks.dim)));
        }
        Ok(graph)
    }

    /// Makes a set ready with the clusters given, of nodes in their own order, and without positions.
    pub fn with_clusters(
        config: &Config,
        mut set: NodeSet,
        clusters: Option<Clusters>,
    ) -> Result<NodeGraph> {
        let split = split_name(config, &set)?;
        if let Some(class) = config.data.unknown_class {
            set = set.with_unknown_as(class);
        }
        let cluster_of = clusters.as_ref().map(|clusters| clusters.nodes().of_row());
        let rows = Rows::new(set.num_nodes(), cluster_of);
        let clusters = clusters.map(|clusters| {
            let sorted = rows.by_row(clusters.nodes().of_row(), 1);
            Arc::new(clusters.with_nodes(sorted))
        });
        let directed = config.data.directed.unwrap_or(set.directed);
        let sampler = config.model.local.sampled().map(|sizes| match directed {
            true => Sampler::directed(set.num_nodes(), &set.edges, sizes),
            false => Sampler::undirected(&set.graph, sizes),
        });
        let arcs = match (&sampler, directed) {
            (Some(_), _) => Arcs::directed(&Edges::default(), &rows),
            (None, true) => Arcs::directed(&set.edges, &rows),
            (None, false) => Arcs::undirected(&set.graph, &rows),
        };
        if config.data.normalise {
            set.features.normalise();
        }
        let features = Arc::new(features(&set)?.gather(rows.nodes()));
        let width = set.task.target.width();
        let targets = match &set.y {
            Values::Int(values) => Values::Int(rows.by_row(values, width)),
            Values::Float(values) => Values::Float(rows.by_row(values, width)),
        };
        (set.features, set.edges, set.edge_attr) = (Features::None, Edges::default(), None);
        let mut graph = NodeGraph {
            rows,
            arcs,
            features,
            clusters,
            sampler,
            positions: None,
            targets,
            width,
            whole: None,
            set,
            split,
        };
        let TrainConfig { batch_size, eval_batch_size, .. } = config.train;
        if graph.sampler.is_none() && (batch_size.is_none() || eval_batch_size.is_none()) {
            let mut whole = Batch {
                sizes: vec![graph.rows.len()],
                edges: graph.arcs.edges(),
                features: Some(graph.features.clone()),
                clusters: graph.clusters.clone(),
                ids: Some(Arc::new(graph.rows.nodes().to_vec())),
                ..Batch::default()
            };
            whole.settle(false)?;
            graph.whole = Some(whole);
        }
        Ok(graph)
    }

    /// Bytes of its features, arcs and vectors.
    pub fn bytes(&self) -> u128 {
        let vectors = self.positions.as_ref().map_or(0, |(_, vectors)| size_of_val(&vectors[..]));
        let whole = self.whole.as_ref().map_or(0, Batch::bytes);
        self.features.bytes() + self.arcs.bytes() + self.targets.bytes() + vectors as u128 + whole
    }

    /// Steps of an epoch, at most.
    pub fn steps(&self, settings: &TrainConfig) -> u64 {
        settings.batch_size.map_or(1, |size| self.rows.len().div_ceil(size) as u64)
    }

    /// Which row a node is.
    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    /// What is sampled around these rows, without targets.
    fn sampled(&self, sampler: &Sampler, targets: &[u32], draw: Draw) -> Result<Batch> {
        let Neighbourhood { rows, samples } = sampler.around(&self.rows, targets, draw);
        let positions = self.positions.as_ref().map(|(width, vectors)| Matrix {
            width: *width,
            values: Values::Float(pick(vectors, *width, targets)),
        });
        let batch = Batch { samples: Some(samples), positions, ..self.inside(&rows) };
        settled(batch)
    }

    /// A batch of these rows, which are ascending, without targets: the part of the graph on them, or what is sampled around them.
    fn batch(&self, rows: &[u32], draw: Draw) -> Result<Batch> {
        match &self.sampler {
            Some(sampler) => self.sampled(sampler, rows, draw),
            None => settled(self.inside(rows)),
        }
    }

    /// The part of the graph on these rows.
    fn inside(&self, rows: &[u32]) -> Batch {
        let clusters = self.clusters.as_ref().map(|clusters| {
            let cluster_of = pick(clusters.nodes().of_row(), 1, rows);
            Arc::new(clusters.with_nodes(cluster_of))
        });
        Batch {
            sizes: vec![rows.len()],
            edges: self.arcs.inside(rows),
            features: Some(Arc::new(self.features.gather(rows))),
            clusters,
            ids: Some(Arc::new(pick(self.rows.nodes(), 1, rows))),
            ..Batch::default()
        }
    }

    /// The targets of these rows.
    fn targets(&self, rows: &[u32]) -> Values {
        match &self.targets {
            Values::Int(values) => Values::Int(pick(values, self.width, rows)),
            Values::Float(values) => Values::Float(pick(values, self.width, rows)),
        }
    }

    /// Whether a row has a target that is known.
    fn is_known(&self, row: u32) -> bool {
        match &self.targets {
            Values::Int(classes) => classes[row as usize * self.width] >= 0,
            Values::Float(labels) => {
                labels[row as usize * self.width..][..self.width].iter().any(|x| !x.is_nan())
            }
        }
    }

    /// What a seed learns from.
    ///
    /// # Errors
    /// If there is no split for it, or a part of it has no node whose target is known.
    pub fn of_seed(&self, seed: u64) -> Result<NodeExamples<'_>> {
        let split =
            self.set.split_of_seed(&self.split, seed).map_err(|e| e.context("key `data.split`"))?;
        NodeExamples::new(self, &split)
    }
}

fn settled(mut batch: Batch) -> Result<Batch> {
    batch.settle(false)?;
    Ok(batch)
}

/// The split that is asked for, or that of the paper.
fn split_name(config: &Config, set: &NodeSet) -> Result<String> {
    if let Some(name) = &config.data.split {
        return Ok(name.clone());
    }
    let entry = nodes::find(&config.data.set).filter(|_| config.data.nodes.is_none());
    match (entry, &set.splits[..]) {
        (Some(entry), _) => Ok(entry.split()),
        (None, [split]) => Ok(split.name.clone()),
        (None, splits) => {
            let names: Vec<&str> = splits.iter().map(|split| split.name.as_str()).collect();
            Err(Error::config(format!(
                "key `data.split` is missing, and the set has {} splits{}{}; name one, or random-{{seed}}",
                splits.len(),
                if names.is_empty() { "" } else { ": " },
                names.join(", ")
            )))
        }
    }
}

/// The clusters that nodes attend to, with distances between them.
fn clusters(
    config: &Config,
    set: &NodeSet,
    limit: MemoryLimit,
    monitor: &dyn Monitor,
) -> Result<Clusters> {
    let model = &config.model;
    let level = model.clusters.level;
    let levels = model.levels.max(level);
    let coarsener = coarsen::parse(&config.hierarchy.coarsener)?;
    let context = Context { seed: Seed(0), graph: 0, level: 1, monitor, limit };
    let hierarchy = Hierarchy::build(&set.graph, &*coarsener, levels, &context)?;
    let clip = model.max_distance.per_level(levels)?;
    let distances = HighLevel::watched(&set.graph, &hierarchy, level, &clip, limit, monitor)?;
    Ok(Clusters::of(&distances, levels))
}

/// Features that a model gets of a node.
pub fn width(set: &NodeSet) -> usize {
    match (&set.features, &set.edge_attr) {
        (Features::None, Some(arcs)) => arcs.width,
        (features, _) => features.width(),
    }
}

/// Features in the order of nodes.
fn features(set: &NodeSet) -> Result<FeatureRows> {
    match &set.features {
        Features::Sparse(sparse) => Ok(FeatureRows::sparse(sparse)),
        Features::Dense(matrix) if matrix.width > 0 => {
            Ok(FeatureRows::new(matrix.width, matrix.values.to_floats()))
        }
        _ => {
            let matrix =
                set.edge_attr.as_ref().filter(|matrix| matrix.width > 0).ok_or_else(|| {
                    Error::data("neither nodes nor arcs have features, and a model needs some")
                })?;
            let values = matrix.values.to_floats();
            Ok(FeatureRows::dense(matrix.width, of_arcs(&set.edges, &values, set.num_nodes())))
        }
    }
}

/// For every node the mean of the features of all arcs that start or end at it; zeros if there is none.
fn of_arcs(edges: &Edges, features: &[f32], nodes: usize) -> Vec<f32> {
    let width = features.len() / edges.sources.len().max(1);
    let (mut sums, mut counts) = (vec![0f64; nodes * width], vec![0u32; nodes]);
    let mut add = |node: u32, row: &[f32]| {
        counts[node as usize] += 1;
        let sums = &mut sums[node as usize * width..][..width];
        sums.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
    };
    let arcs = edges.sources.iter().zip(&edges.targets);
    for ((&source, &target), row) in arcs.zip(features.chunks_exact(width.max(1))) {
        add(source, row);
        if source != target {
            add(target, row);
        }
    }
    let mean = |(place, sum): (usize, f64)| (sum / f64::from(counts[place / width].max(1))) as f32;
    sums.into_iter().enumerate().map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_the_mean_of_their_arcs() {
        let edges = Edges { sources: vec![0, 1, 2], targets: vec![1, 2, 2] };
        let means = of_arcs(&edges, &[1.0, 0.0, 3.0, 0.5, 5.0, 1.0], 4);
        assert_eq!(means, [1.0, 0.0, 2.0, 0.25, 4.0, 0.75, 0.0, 0.0]);
    }
}
