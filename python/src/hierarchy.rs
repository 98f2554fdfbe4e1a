//! `hdse.Hierarchy` and `hdse.coarsen`.

use std::sync::{Arc, OnceLock};

use hdse::encode::write_clusters;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::array::view;
use crate::error::wrong;
use crate::graph::Graph;
use crate::input::{Given, Options, Settings};
use crate::run;

/// Levels of clusters above a graph: level k + 1 groups the clusters of level k.
#[pyclass(frozen, module = "hdse")]
pub struct Hierarchy {
    graph: Graph,
    inner: Arc<hdse::Hierarchy>,
    coarsener: String,
    clusters: OnceLock<Vec<u32>>,
}

impl Hierarchy {
    pub fn of(graph: Graph, inner: Arc<hdse::Hierarchy>, coarsener: String) -> Hierarchy {
        Hierarchy { graph, inner, coarsener, clusters: OnceLock::new() }
    }

    fn ids(&self) -> &[u32] {
        self.clusters.get_or_init(|| clusters_of(&self.inner))
    }

    fn check(&self, level: usize, least: usize) -> PyResult<()> {
        match level {
            k if (least..=self.inner.levels()).contains(&k) => Ok(()),
            k => {
                let last = self.inner.levels();
                Err(PyIndexError::new_err(format!("level {k} is not between {least} and {last}")))
            }
        }
    }
}

/// Cluster of every node at levels 1 … K, `[n, K]`.
pub fn clusters_of(hierarchy: &hdse::Hierarchy) -> Vec<u32> {
    let mut clusters = vec![0; hierarchy.num_nodes() * hierarchy.levels()];
    write_clusters(hierarchy, &mut clusters);
    clusters
}

#[pymethods]
impl Hierarchy {
    /// Number of levels K above the graph.
    #[getter]
    fn levels(&self) -> usize {
        self.inner.levels()
    }

    /// Number of nodes of the graph.
    #[getter]
    fn num_nodes(&self) -> usize {
        self.inner.num_nodes()
    }

    /// Number of clusters at levels 0 to K; level 0 counts nodes.
    #[getter]
    fn num_clusters(&self) -> Vec<usize> {
        (0..=self.inner.levels()).map(|k| self.inner.num_clusters(k)).collect()
    }

    /// Cluster of every node at levels 1 to K: uint32 [N, K].
    #[getter]
    fn clusters<'py>(slf: &Bound<'py, Self>) -> Bound<'py, PyAny> {
        let this = slf.get();
        view(this.ids(), [this.num_nodes(), this.levels()], slf)
    }

    /// Where the clusters come from, with every parameter.
    #[getter]
    fn coarsener(&self) -> &str {
        &self.coarsener
    }

    /// Whether the graph stopped shrinking before level K; further levels repeat the last one.
    #[getter]
    fn stopped_early(&self) -> bool {
        self.inner.built().len() < self.inner.levels()
    }

    /// The graph of a level; level 0 is the graph itself. Weights count the edges they stand for.
    fn graph(&self, level: usize) -> PyResult<Graph> {
        self.check(level, 0)?;
        if level == 0 || self.inner.built().is_empty() {
            return Ok(self.graph.clone());
        }
        let inner = Arc::new(self.inner.graph(&self.graph.inner, level).clone());
        Ok(Graph { inner, repairs: Default::default() })
    }

    /// How good the clusters of a level are: clusters, cut, cut_fraction, modularity, imbalance.
    #[pyo3(signature = (level=1))]
    fn quality<'py>(&self, py: Python<'py>, level: usize) -> PyResult<Bound<'py, PyDict>> {
        self.check(level, 0)?;
        let quality =
            run::run(py, 1, |_| Ok(self.inner.partition(level).quality(&self.graph.inner)))?;
        let dict = PyDict::new(py);
        dict.set_item("clusters", quality.clusters)?;
        dict.set_item("cut", quality.cut)?;
        dict.set_item("cut_fraction", quality.cut_fraction)?;
        dict.set_item("modularity", quality.modularity)?;
        dict.set_item("imbalance", quality.imbalance)?;
        Ok(dict)
    }

    /// Equal if graph and clusters are, however they were made.
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Hierarchy>().is_ok_and(|other| {
            let other = other.get();
            self.levels() == other.levels()
                && self.graph.inner == other.graph.inner
                && self.ids() == other.ids()
        })
    }

    fn __repr__(&self) -> String {
        let (clusters, coarsener) = (self.num_clusters(), &self.coarsener);
        format!("Hierarchy(num_clusters={clusters:?}, coarsener='{coarsener}')")
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, State<'py>)> {
        let this = slf.get();
        let state = (this.graph.clone(), Hierarchy::clusters(slf), this.coarsener.clone());
        Ok((slf.py().import("hdse._hdse")?.getattr("_hierarchy")?, state))
    }
}

type State<'py> = (Graph, Bound<'py, PyAny>, String);

/// A hierarchy from its pickle.
#[pyfunction]
pub fn _hierarchy(
    py: Python<'_>,
    graph: &Bound<'_, Graph>,
    clusters: numpy::PyReadonlyArray2<'_, u32>,
    coarsener: String,
) -> PyResult<Hierarchy> {
    let (graph, clusters) = (graph.get().clone(), clusters.as_array());
    let (levels, ids) = (clusters.ncols(), clusters.iter().copied().collect::<Vec<_>>());
    let inner = run::run(py, 1, |_| hdse::Hierarchy::from_clusters(&graph.inner, &ids, levels))?;
    Ok(Hierarchy::of(graph, Arc::new(inner), coarsener))
}

/// Groups the nodes of a graph, and the groups again, up to `levels` times.
///
/// `coarsener` is a name with parameters, such as "louvain:resolution=0.5" (`coarseners()` lists them), or
/// a function `(edge_index, num_nodes) -> cluster ids`.
#[pyfunction]
#[pyo3(signature = (
    edge_index, num_nodes=None, coarsener=None, levels=1, *,
    seed=None, weights=None, number=0, threads=None, max_memory=None
))]
#[pyo3(text_signature = "(edge_index, num_nodes=None, coarsener='newman', levels=1, *, seed=0, \
                         weights=None, number=0, threads=None, max_memory=None)")]
#[expect(clippy::too_many_arguments, reason = "keywords in Python")]
pub fn coarsen(
    py: Python<'_>,
    edge_index: &Bound<'_, PyAny>,
    num_nodes: Option<&Bound<'_, PyAny>>,
    coarsener: Option<&Bound<'_, PyAny>>,
    levels: i64,
    seed: Option<&Bound<'_, PyAny>>,
    weights: Option<&Bound<'_, PyAny>>,
    number: usize,
    threads: Option<i64>,
    max_memory: Option<&Bound<'_, PyAny>>,
) -> PyResult<Hierarchy> {
    if levels == 0 {
        return Err(wrong("`--levels 0` leaves nothing to coarsen"));
    }
    let options =
        Options { coarsener, partition: None, levels, max_distance: None, seed, max_memory };
    let settings = Settings::new(py, options)?;
    let given = Given::new(edge_index, num_nodes, weights)?;
    given.check_memory(settings.limit)?;
    let threads = run::threads(py, threads, settings.is_long(given.is_long()))?;
    let encoder = &settings.encoder;
    let built = run::run(py, threads, |monitor| {
        let graph = given.build()?;
        let inner = encoder.hierarchy(&graph.inner, number, monitor)?;
        Ok((graph, inner))
    });
    let (graph, inner) = built.map_err(|e| settings.raised.or(e))?;
    Ok(Hierarchy::of(graph, Arc::new(inner), encoder.describe()))
}

/// The list of coarseners: name, summary, citation, complexity, parameters.
#[pyfunction]
pub fn _coarseners() -> Vec<Coarsener> {
    let parameter = |p: &hdse::coarsen::Parameter| (p.name, p.default, p.help);
    let entry = |entry: &hdse::coarsen::Entry| {
        let parameters = entry.parameters.iter().map(parameter).collect();
        (entry.name, entry.summary, entry.citation, entry.complexity, parameters)
    };
    hdse::coarsen::ALL.iter().map(entry).collect()
}

type Text = &'static str;
type Coarsener = (Text, Text, Text, Text, Vec<(Text, Text, Text)>);

/// Options, checked and written out in full: the coarsener with every parameter, the clip per level.
#[pyfunction]
pub fn _settings(
    py: Python<'_>,
    coarsener: &Bound<'_, PyAny>,
    levels: i64,
    max_distance: &Bound<'_, PyAny>,
) -> PyResult<(String, Vec<u16>)> {
    let options = Options {
        coarsener: Some(coarsener),
        partition: None,
        levels,
        max_distance: Some(max_distance),
        seed: None,
        max_memory: None,
    };
    let encoder = Settings::new(py, options)?.encoder;
    let clip = |k| u16::from(encoder.max_distance.at(k));
    Ok((encoder.describe(), (0..=encoder.levels).map(clip).collect()))
}
