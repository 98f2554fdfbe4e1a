//! Graphs stacked into one ragged batch: everything a model needs of them, no padding.
//!
//! A batch of one graph and a batch of many are the same thing; [`Batch::merge`] stacks batches.

use std::sync::{Arc, OnceLock};

use super::clusters::Clusters;
use super::fused::lanes::Lanes;
use super::ops::attention::Pairs;
use super::ops::features::FeatureRows;
use super::ops::messages::Links;
use super::ops::propagate::Propagation;
use super::ops::rows::Groups;
use super::pass::Pass;
use super::samples::Samples;
use super::subgraphs::{Subgraphs, Surroundings};
use super::walks::Walks;
use crate::data::{Edges, Matrix, Values};
use crate::distance::Codes;
use crate::{Error, Result};

/// Nodes or arcs of a batch, at most; positions are kept in 32 bits.
const MOST_ROWS: usize = i32::MAX as usize;

fn too_large() -> Error {
    Error::data(format!("a batch has more than {MOST_ROWS} nodes or arcs; use smaller batches"))
}

/// Graphs with their features, one after another.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Number of nodes of every graph.
    pub sizes: Vec<usize>,
    /// Arcs as given, in rows of the stacked nodes.
    pub edges: Edges,
    /// Features of nodes, one row per node.
    pub node_features: Option<Matrix>,
    /// Features of arcs, one row per arc.
    pub edge_features: Option<Matrix>,
    /// Return probabilities of random walks, one row per node.
    pub random_walk: Option<Matrix>,
    /// Eigenvectors of the Laplacian.
    pub spectrum: Option<Spectrum>,
    /// Codes of all pairs of nodes inside every graph.
    pub codes: Option<Codes>,
    /// The surroundings of every node.
    pub subgraphs: Option<Arc<Subgraphs>>,
    /// How many powers of random walks between all nodes are wanted.
    pub walk_powers: Option<usize>,
    /// Features of the nodes of a large graph, instead of `node_features`: shared by batches, perhaps sparse.
    pub features: Option<Arc<FeatureRows>>,
    /// Clusters of nodes, for attention to clusters.
    pub clusters: Option<Arc<Clusters>>,
    /// The node of a larger graph that each row is; none if rows are all its nodes in order.
    pub ids: Option<Arc<Vec<u32>>>,
    /// Which rows are attended to by the first ones, of which predictions are then made.
    pub samples: Option<Arc<Samples>>,
    /// Where nodes of a large graph are in it, one row per node, or per target of samples.
    pub positions: Option<Matrix>,
    /// Targets, row after row, of graphs or of nodes.
    pub targets: Option<Values>,
    /// What [`Batch::settle`] has worked out.
    pub settled: Settled,
}

/// The structure of a batch, if it has been worked out ahead of time. A copy of a batch may be changed, so
/// it begins without.
#[derive(Debug, Default)]
pub struct Settled(Option<Arc<Structure>>);

impl Clone for Settled {
    fn clone(&self) -> Settled {
        Settled::default()
    }
}

/// Eigenvectors of graph Laplacians.
#[derive(Clone, Debug, PartialEq)]
pub struct Spectrum {
    /// Frequencies per graph; those that a small graph does not have are 0.
    pub frequencies: usize,
    /// `[nodes, frequencies]`.
    pub vectors: Vec<f32>,
    /// `[graphs, frequencies]`.
    pub values: Vec<f32>,
    /// How many frequencies every graph has.
    pub counts: Vec<usize>,
}

impl Batch {
    /// Number of graphs.
    pub fn num_graphs(&self) -> usize {
        self.sizes.len()
    }

    /// Number of nodes of all graphs.
    pub fn num_nodes(&self) -> usize {
        self.sizes.iter().sum()
    }

    /// Number of arcs.
    pub fn num_arcs(&self) -> usize {
        self.edges.sources.len()
    }

    /// Bytes of what it has of its own: what other batches share, or what is worked out later, does not count.
    pub fn bytes(&self) -> u128 {
        let Batch { node_features, edge_features, random_walk, positions, .. } = self;
        let matrices = [node_features, edge_features, random_walk, positions];
        let matrices = matrices.into_iter().flatten().map(|matrix| matrix.values.bytes());
        let spectrum = self.spectrum.as_ref().map_or(0, |spectrum| {
            let Spectrum { vectors, values, counts, .. } = spectrum;
            size_of_val(&vectors[..]) + size_of_val(&values[..]) + size_of_val(&counts[..])
        });
        let lists =
            size_of_val(&self.sizes[..]) + 8 * self.num_arcs() + spectrum + size_of::<Batch>();
        lists as u128
            + matrices.sum::<u128>()
            + self.codes.as_ref().map_or(0, Codes::bytes)
            + self.subgraphs.as_ref().map_or(0, |subgraphs| subgraphs.bytes())
            + self.targets.as_ref().map_or(0, Values::bytes)
    }

    /// Which rows belong together, after a check that all parts fit each other.
    pub fn structure(&self) -> Result<Arc<Structure>> {
        if let Some(structure) = &self.settled.0 {
            return Ok(structure.clone());
        }
        self.check()?;
        let codes = self.codes.as_ref().map(|codes| codes.iter().collect());
        let mut structure = Structure::new(&self.sizes, &self.edges, codes);
        let lists = self.subgraphs.as_ref();
        let [nodes, arcs] = [self.num_nodes(), self.num_arcs()];
        structure.surroundings = lists.map(|lists| Arc::new(Surroundings::new(lists, nodes, arcs)));
        let walks = self.walk_powers.map(|powers| Walks::new(&self.sizes, &self.edges, powers));
        structure.walks = walks.transpose()?.map(Arc::new);
        Ok(Arc::new(structure))
    }

    /// Works out the structure now, in this thread, instead of when a model is run, and for a model that is fused
    /// what that needs. Parts of the batch must not change any more.
    pub fn settle(&mut self, fused: bool) -> Result<()> {
        let structure = self.structure()?;
        if fused {
            structure.lanes();
        }
        self.settled = Settled(Some(structure));
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let (nodes, arcs) = (self.num_nodes(), self.num_arcs());
        if self.sizes.is_empty() || self.sizes.contains(&0) {
            return Err(Error::data("a batch needs graphs, and every graph a node"));
        }
        if nodes > MOST_ROWS || arcs > MOST_ROWS {
            return Err(too_large());
        }
        let Edges { sources, targets } = &self.edges;
        if sources.len() != targets.len() {
            return Err(Error::data(format!(
                "arcs have {} sources and {} targets; they need one each",
                sources.len(),
                targets.len()
            )));
        }
        let graphs = self.sizes.iter().enumerate();
        let of_node: Vec<usize> =
            graphs.flat_map(|(graph, &size)| std::iter::repeat_n(graph, size)).collect();
        for (arc, (&u, &v)) in sources.iter().zip(targets).enumerate() {
            match (of_node.get(u as usize), of_node.get(v as usize)) {
                (Some(a), Some(b)) if a == b => {}
                (Some(a), Some(b)) => {
                    return Err(Error::data(format!(
                        "arc {arc}, from row {u} to {v}, joins graphs {a} and {b} of the batch; ids are \
                         rows of all nodes together (`Batch::merge` shifts them)"
                    )));
                }
                _ => {
                    return Err(Error::data(format!(
                        "arc {arc}, from row {u} to {v}, is out of range: the batch has {nodes} nodes"
                    )));
                }
            }
        }
        let targets = self.samples.as_ref().map_or(nodes, |samples| samples.targets());
        let matrices = [
            ("node features", &self.node_features, nodes, "nodes"),
            ("edge features", &self.edge_features, arcs, "arcs"),
            ("random-walk encodings", &self.random_walk, nodes, "nodes"),
            ("positions", &self.positions, targets, "targets"),
        ];
        for (what, matrix, rows, of) in matrices {
            if let Some(matrix) = matrix
                && matrix.values.len() != rows * matrix.width
            {
                return Err(Error::data(format!(
                    "{what} hold {} numbers in rows of {}, but there are {rows} {of}",
                    matrix.values.len(),
                    matrix.width
                )));
            }
        }
        let counts = [
            ("features", self.features.as_ref().map(|features| features.rows())),
            ("clusters", self.clusters.as_ref().map(|clusters| clusters.nodes().of_row().len())),
            ("ids", self.ids.as_ref().map(|ids| ids.len())),
            ("surroundings", self.subgraphs.as_ref().map(|subgraphs| subgraphs.sizes.len())),
            ("samples", self.samples.as_ref().map(|samples| samples.rows())),
        ];
        for (what, count) in counts {
            if let Some(count) = count.filter(|&count| count != nodes) {
                return Err(Error::data(format!(
                    "{what} are of {count} nodes, but there are {nodes}"
                )));
            }
        }
        if let Some(spectrum) = &self.spectrum {
            let Spectrum { frequencies, vectors, values, counts } = spectrum;
            let graphs = self.num_graphs();
            if vectors.len() != nodes * frequencies
                || values.len() != graphs * frequencies
                || counts.len() != graphs
                || counts.iter().any(|count| count > frequencies)
            {
                return Err(Error::data(format!(
                    "eigenvectors do not fit {nodes} nodes in {graphs} graphs with {frequencies} \
                     frequencies"
                )));
            }
        }
        let pairs: usize = self.sizes.iter().map(|size| size * size).sum();
        match &self.codes {
            Some(codes) if codes.len() != pairs => Err(Error::data(format!(
                "there are {} distance codes, but {pairs} pairs of nodes",
                codes.len()
            ))),
            _ => Ok(()),
        }
    }

    /// Stacks batches. All must have the same parts, with rows of the same width; where some hold whole
    /// numbers and some real ones, all become real.
    pub fn merge(batches: &[&Batch]) -> Result<Batch> {
        if let [batch] = batches {
            batch.check()?;
            return Ok((*batch).clone());
        }
        let mut edges = Edges::default();
        let mut offset = 0u32;
        for batch in batches {
            batch.check()?;
            let moved = |ids: &[u32]| ids.iter().map(|id| id + offset).collect::<Vec<u32>>();
            edges.sources.extend(moved(&batch.edges.sources));
            edges.targets.extend(moved(&batch.edges.targets));
            let next = u32::try_from(batch.num_nodes()).ok().and_then(|n| offset.checked_add(n));
            offset = next.filter(|&next| next <= MOST_ROWS as u32).ok_or_else(too_large)?;
        }
        let one_graph = |batch: &&Batch| {
            let Batch { features, clusters, ids, samples, positions, .. } = batch;
            features.is_some()
                || clusters.is_some()
                || ids.is_some()
                || samples.is_some()
                || positions.is_some()
        };
        if batches.iter().any(one_graph) {
            return Err(Error::data(
                "batches of one large graph cannot be stacked; use them one by one",
            ));
        }
        let spectra = same_parts("eigenvectors", batches.iter().map(|b| b.spectrum.as_ref()))?;
        let codes = same_parts("distance codes", batches.iter().map(|b| b.codes.as_ref()))?;
        let powers = same_parts("random walks", batches.iter().map(|b| b.walk_powers.as_ref()))?;
        let powers = powers.and_then(|powers| powers.first().copied().copied());
        let subgraphs = same_parts("surroundings", batches.iter().map(|b| b.subgraphs.as_ref()))?;
        let targets = same_parts("targets", batches.iter().map(|b| b.targets.as_ref()))?;
        let width = |codes: &&Codes| codes.codebook().width();
        if codes.as_ref().is_some_and(|c| c.iter().any(|code| width(code) != width(&c[0]))) {
            return Err(Error::data("distance codes of a batch have different numbers of levels"));
        }
        Ok(Batch {
            sizes: batches.iter().flat_map(|batch| batch.sizes.iter().copied()).collect(),
            edges,
            node_features: stack("node features", batches, |b| b.node_features.as_ref())?,
            edge_features: stack("edge features", batches, |b| b.edge_features.as_ref())?,
            random_walk: stack("random-walk encodings", batches, |b| b.random_walk.as_ref())?,
            spectrum: spectra.map(|spectra| Spectrum::merge(&spectra)).transpose()?,
            codes: codes.map(|codes| Codes::merge(&codes)),
            subgraphs: subgraphs.map(|parts| {
                let parts: Vec<&Subgraphs> = parts.iter().map(|part| &***part).collect();
                let nodes: Vec<usize> = batches.iter().map(|batch| batch.num_nodes()).collect();
                let arcs: Vec<usize> = batches.iter().map(|batch| batch.num_arcs()).collect();
                Arc::new(Subgraphs::merge(&parts, &nodes, &arcs))
            }),
            walk_powers: powers,
            targets: targets.map(|targets| append(&targets)),
            settled: Settled::default(),
            ..Batch::default()
        })
    }
}

/// Which rows of a batch belong together.
#[derive(Clone, Debug)]
pub struct Structure {
    /// Arcs by where they start.
    pub by_source: Arc<Groups>,
    /// Arcs by where they end.
    pub by_target: Arc<Groups>,
    /// Nodes by graph.
    pub by_graph: Arc<Groups>,
    /// Pairs of nodes inside every graph, with their codes.
    pub pairs: Arc<Pairs>,
    /// The surroundings of every node, if a model reads them.
    pub surroundings: Option<Arc<Surroundings>>,
    /// Random walks between all nodes of each graph, if a model reads them.
    pub walks: Option<Arc<Walks>>,
    pair_ends: OnceLock<[Arc<Groups>; 2]>,
    arc_pairs: OnceLock<Arc<Groups>>,
    codes_of_pairs: OnceLock<Arc<Groups>>,
    looped: OnceLock<[Arc<Groups>; 2]>,
    lanes: OnceLock<Arc<Lanes>>,
    links: OnceLock<Links>,
    convolution: OnceLock<Arc<Propagation>>,
    means: OnceLock<Arc<Propagation>>,
    convolved: OnceLock<Option<Arc<FeatureRows>>>,
}

impl Structure {
    /// The structure of graphs with so many nodes each, arcs, and codes of pairs.
    ///
    /// # Panics
    /// If an arc ends at no node, or there are codes, but not one for every pair.
    pub fn new(sizes: &[usize], edges: &Edges, codes: Option<Vec<u32>>) -> Structure {
        let mut offsets = vec![0];
        for size in sizes {
            offsets.push(offsets[offsets.len() - 1] + size);
        }
        let nodes = offsets[sizes.len()];
        let graphs = sizes.iter().zip(0..);
        let of_node = graphs.flat_map(|(&size, graph)| std::iter::repeat_n(graph, size));
        Structure {
            by_source: Groups::new(edges.sources.clone(), nodes),
            by_target: Groups::new(edges.targets.clone(), nodes),
            by_graph: Groups::new(of_node.collect(), sizes.len()),
            pairs: Pairs::new(offsets, codes),
            surroundings: None,
            walks: None,
            pair_ends: OnceLock::new(),
            arc_pairs: OnceLock::new(),
            codes_of_pairs: OnceLock::new(),
            looped: OnceLock::new(),
            lanes: OnceLock::new(),
            links: OnceLock::new(),
            convolution: OnceLock::new(),
            means: OnceLock::new(),
            convolved: OnceLock::new(),
        }
    }

    /// Arcs from nodes to nodes.
    pub fn links(&self) -> &Links {
        self.links.get_or_init(|| Links::of(self))
    }

    /// For every pair of nodes, its first and its second one.
    pub fn pair_ends(&self) -> &[Arc<Groups>; 2] {
        self.pair_ends.get_or_init(|| {
            let nodes = self.pairs.node_offsets();
            let ends = nodes.windows(2).flat_map(|ends| {
                let own = ends[0] as u32..ends[1] as u32;
                own.clone().flat_map(move |first| own.clone().map(move |second| (first, second)))
            });
            let (first, second): (Vec<u32>, Vec<u32>) = ends.unzip();
            [first, second].map(|ends| Groups::new(ends, self.by_graph.of_row().len()))
        })
    }

    /// For every arc, the pair of the node where it ends and the one where it starts.
    pub fn arc_pairs(&self) -> &Arc<Groups> {
        self.arc_pairs.get_or_init(|| {
            let (nodes, starts) = (self.pairs.node_offsets(), self.pairs.pair_offsets());
            let pair = |(&source, &target): (&u32, &u32)| {
                let graph = self.by_graph.of_row()[source as usize] as usize;
                let (first, size) = (nodes[graph], nodes[graph + 1] - nodes[graph]);
                (starts[graph] + (target as usize - first) * size + source as usize - first) as u32
            };
            let ends = self.by_source.of_row().iter().zip(self.by_target.of_row());
            Groups::new(ends.map(pair).collect(), self.pairs.len())
        })
    }

    /// For every pair, its code, of so many.
    ///
    /// # Panics
    /// If pairs have no codes.
    pub fn codes_of_pairs(&self, count: usize) -> &Arc<Groups> {
        self.codes_of_pairs.get_or_init(|| {
            let codes = self.pairs.codes().expect("a bias needs codes");
            Groups::new(codes.to_vec(), count)
        })
    }

    /// The graphs dealt to lanes, for the fused path.
    pub(super) fn lanes(&self) -> Arc<Lanes> {
        self.lanes.get_or_init(|| Arc::new(Lanes::new(self))).clone()
    }

    /// D^-1/2 (A + I) D^-1/2, with D the number of arcs that end at a node, plus 1; loops among the arcs are left out.
    pub fn convolution(&self) -> &Arc<Propagation> {
        self.convolution.get_or_init(|| {
            let [sources, targets] = self.looped();
            let scale: Vec<f32> = targets.sizes().map(|size| 1.0 / (size as f32).sqrt()).collect();
            let ends = sources.of_row().iter().zip(targets.of_row());
            let factors = ends.map(|(&u, &v)| scale[u as usize] * scale[v as usize]).collect();
            Arc::new(Propagation::new(sources.clone(), targets.clone(), factors))
        })
    }

    /// [`Structure::convolution`] of the features of this batch, which never change; none if they are sparse.
    pub(super) fn convolved(
        &self,
        pass: &Pass,
        features: &FeatureRows,
    ) -> Option<Arc<FeatureRows>> {
        let made = || features.propagated(pass, self.convolution()).map(Arc::new);
        self.convolved.get_or_init(made).clone()
    }

    /// The mean over the arcs that end at a node; 0 where none does.
    pub fn means(&self) -> &Arc<Propagation> {
        self.means.get_or_init(|| {
            let targets = &self.by_target;
            let scale: Vec<f32> = targets.sizes().map(|size| 1.0 / size.max(1) as f32).collect();
            let factors = targets.of_row().iter().map(|&v| scale[v as usize]).collect();
            Arc::new(Propagation::new(self.by_source.clone(), targets.clone(), factors))
        })
    }

    /// Arcs that are no loops, then a loop at every node: by where they start, by where they end.
    pub fn looped(&self) -> &[Arc<Groups>; 2] {
        self.looped.get_or_init(|| {
            let ends =
                [&self.by_source, &self.by_target].map(|groups| groups.of_row().iter().copied());
            let [sources, targets] = ends;
            let nodes = self.by_source.len();
            let loops = (0..nodes as u32).map(|node| (node, node));
            let arcs = sources.zip(targets).filter(|(u, v)| u != v);
            let (sources, targets): (Vec<u32>, Vec<u32>) = arcs.chain(loops).unzip();
            [Groups::new(sources, nodes), Groups::new(targets, nodes)]
        })
    }
}

impl Spectrum {
    fn merge(spectra: &[&Spectrum]) -> Result<Spectrum> {
        let frequencies = spectra.first().map_or(0, |spectrum| spectrum.frequencies);
        if spectra.iter().any(|spectrum| spectrum.frequencies != frequencies) {
            return Err(Error::data("graphs of a batch have different numbers of frequencies"));
        }
        let floats = |part: fn(&Spectrum) -> &[f32]| {
            spectra.iter().flat_map(|spectrum| part(spectrum).iter().copied()).collect()
        };
        Ok(Spectrum {
            frequencies,
            vectors: floats(|spectrum| &spectrum.vectors),
            values: floats(|spectrum| &spectrum.values),
            counts: spectra.iter().flat_map(|spectrum| spectrum.counts.iter().copied()).collect(),
        })
    }
}

/// All parts, or none if no batch has one.
fn same_parts<'a, T>(
    what: &str,
    parts: impl ExactSizeIterator<Item = Option<&'a T>>,
) -> Result<Option<Vec<&'a T>>> {
    let count = parts.len();
    let parts: Vec<&T> = parts.flatten().collect();
    match parts.len() {
        0 => Ok(None),
        n if n == count => Ok(Some(parts)),
        n => Err(Error::data(format!("only {n} of {count} graphs of a batch have {what}"))),
    }
}

fn stack(
    what: &str,
    batches: &[&Batch],
    part: impl Fn(&Batch) -> Option<&Matrix>,
) -> Result<Option<Matrix>> {
    let Some(parts) = same_parts(what, batches.iter().map(|batch| part(batch)))? else {
        return Ok(None);
    };
    // A matrix without rows may not know its width.
    let width = parts.iter().find(|m| !m.values.is_empty()).map_or(parts[0].width, |m| m.width);
    if parts.iter().any(|matrix| !matrix.values.is_empty() && matrix.width != width) {
        return Err(Error::data(format!("graphs of a batch have {what} of different widths")));
    }
    let values: Vec<&Values> = parts.iter().map(|matrix| &matrix.values).collect();
    Ok(Some(Matrix { width, values: append(&values) }))
}

fn append(parts: &[&Values]) -> Values {
    let real = |values: &&&Values| matches!(values, Values::Float(_));
    // An empty part has no say in what kind of numbers there are.
    if parts.iter().filter(|values| !values.is_empty()).any(|values| real(&values)) {
        return Values::Float(parts.iter().flat_map(|values| values.to_floats()).collect());
    }
    let whole = |values: &&Values| match values {
        Values::Int(values) => values.clone(),
        Values::Float(_) => Vec::new(),
    };
    Values::Int(parts.iter().flat_map(whole).collect())
}
