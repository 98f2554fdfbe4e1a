//! `hdse.HighLevel` and `hdse.high_level`: distances between clusters, for graphs too large for all
//! pairs of nodes.

use std::sync::{Arc, OnceLock};

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;

use crate::array::view;
use crate::encoding::{Made, MadeState};
use crate::error::wrong;
use crate::graph::Graph;
use crate::hierarchy::{Hierarchy, clusters_of};
use crate::input::{Given, Limit, Options, Settings, set_of};
use crate::run;

/// Distances between the clusters of level c at levels c to K, and the cluster of every node.
#[pyclass(frozen, module = "hdse")]
pub struct HighLevel {
    graph: Graph,
    made: Made,
    hierarchy: Arc<hdse::Hierarchy>,
    inner: hdse::distance::HighLevel,
    clusters: OnceLock<Vec<u32>>,
    stacked: OnceLock<Vec<u8>>,
}

impl HighLevel {
    fn size(&self) -> usize {
        self.inner.num_clusters()
    }

    /// All tables with the level last.
    fn stack(&self) -> Vec<u8> {
        let tables: Vec<&[u8]> =
            (self.inner.level()..=self.made.levels).map(|k| self.inner.table(k)).collect();
        (0..self.size().pow(2)).flat_map(|pair| tables.iter().map(move |t| t[pair])).collect()
    }
}

#[pymethods]
impl HighLevel {
    /// The level c whose clusters are rows and columns.
    #[getter]
    fn level(&self) -> usize {
        self.inner.level()
    }

    /// Number of levels K above the graph.
    #[getter]
    fn levels(&self) -> usize {
        self.made.levels
    }

    /// Number of nodes N.
    #[getter]
    fn num_nodes(&self) -> usize {
        self.graph.inner.num_nodes()
    }

    /// Number of clusters C of level c.
    #[getter]
    fn num_clusters(&self) -> usize {
        self.size()
    }

    /// Where the clusters come from, with every parameter.
    #[getter]
    fn coarsener(&self) -> &str {
        &self.made.coarsener
    }

    /// Cluster of every node at level c: uint32 [N].
    #[getter]
    fn cluster_of<'py>(slf: &Bound<'py, Self>) -> Bound<'py, PyAny> {
        let ids = slf.get().inner.cluster_of();
        view(ids, [ids.len()], slf)
    }

    /// Cluster of every node at levels 1 to K: uint32 [N, K].
    #[getter]
    fn clusters<'py>(slf: &Bound<'py, Self>) -> Bound<'py, PyAny> {
        let this = slf.get();
        let ids = this.clusters.get_or_init(|| clusters_of(&this.hierarchy));
        view(ids, [this.num_nodes(), this.made.levels], slf)
    }

    /// Distances between all clusters at levels c to K: uint8 [C, C, K - c + 1].
    #[getter]
    fn distances<'py>(slf: &Bound<'py, Self>) -> Bound<'py, PyAny> {
        let this = slf.get();
        let depth = this.made.levels - this.inner.level() + 1;
        let shape = [this.size(), this.size(), depth];
        match depth {
            1 => view(this.inner.table(this.inner.level()), shape, slf),
            _ => view(this.stacked.get_or_init(|| this.stack()), shape, slf),
        }
    }

    /// Distances between all clusters of level c, measured at `level`: uint8 [C, C].
    fn table<'py>(slf: &Bound<'py, Self>, level: usize) -> PyResult<Bound<'py, PyAny>> {
        let this = slf.get();
        let (least, most) = (this.inner.level(), this.made.levels);
        if !(least..=most).contains(&level) {
            let text = format!("level {level} is not between {least} and {most}");
            return Err(PyIndexError::new_err(text));
        }
        Ok(view(this.inner.table(level), [this.size(), this.size()], slf))
    }

    /// The clusters as levels above the graph.
    #[getter]
    fn hierarchy(&self) -> Hierarchy {
        Hierarchy::of(self.graph.clone(), self.hierarchy.clone(), self.made.coarsener.clone())
    }

    /// Equal if graph, clusters and tables are, however they were made.
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<HighLevel>().is_ok_and(|other| {
            let other = other.get();
            self.inner == other.inner
                && self.hierarchy == other.hierarchy
                && self.graph.inner == other.graph.inner
        })
    }

    fn __repr__(&self) -> String {
        format!(
            "HighLevel(num_nodes={}, num_clusters={}, level={}, levels={}, max_distance={}, \
             coarsener='{}')",
            self.num_nodes(),
            self.size(),
            self.inner.level(),
            self.made.levels,
            self.made.clip_text(),
            self.made.coarsener,
        )
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, State<'py>)> {
        let this = slf.get();
        let made = (this.made.clips(), this.made.coarsener.clone(), this.made.seed);
        let state = (this.graph.clone(), HighLevel::clusters(slf), this.inner.level(), made);
        Ok((slf.py().import("hdse._hdse")?.getattr("_high_level")?, state))
    }
}

type State<'py> = (Graph, Bound<'py, PyAny>, usize, MadeState);

/// High-level distances from their pickle: computed again.
#[pyfunction]
pub fn _high_level(
    py: Python<'_>,
    graph: &Bound<'_, Graph>,
    clusters: numpy::PyReadonlyArray2<'_, u32>,
    level: usize,
    made: MadeState,
) -> PyResult<HighLevel> {
    let (graph, made) = (graph.get().clone(), Made::restore(made)?);
    let ids: Vec<u32> = clusters.as_array().iter().copied().collect();
    let threads = run::threads(py, None, graph.inner.num_nodes() > 512)?;
    run::run(py, threads, move |monitor| {
        let hierarchy = hdse::Hierarchy::from_clusters(&graph.inner, &ids, made.levels)?;
        finish(graph, hierarchy, level, made, Limit(None), monitor)
    })
}

fn finish(
    graph: Graph,
    hierarchy: hdse::Hierarchy,
    level: usize,
    made: Made,
    limit: Limit,
    monitor: &dyn hdse::monitor::Monitor,
) -> hdse::Result<HighLevel> {
    let bytes = (hierarchy.num_clusters(level) as u128).pow(2) * (made.levels as u128 + 1);
    let (limit, clip) = (limit.of(bytes), &made.max_distance);
    let inner =
        hdse::distance::HighLevel::watched(&graph.inner, &hierarchy, level, clip, limit, monitor)?;
    Ok(HighLevel {
        graph,
        made,
        hierarchy: Arc::new(hierarchy),
        inner,
        clusters: OnceLock::new(),
        stacked: OnceLock::new(),
    })
}

/// Distances between clusters only, from level `level` up, for one graph too large for all pairs of nodes.
///
/// Options are those of `encode`.
#[pyfunction]
#[pyo3(signature = (
    edge_index, num_nodes=None, coarsener=None, levels=1, max_distance=None, seed=None, *,
    level=1, weights=None, partition=None, threads=None, max_memory=None
))]
#[pyo3(text_signature = "(edge_index, num_nodes=None, coarsener='newman', levels=1, \
                         max_distance=30, seed=0, *, level=1, weights=None, partition=None, \
                         threads=None, max_memory=None)")]
#[expect(clippy::too_many_arguments, reason = "keywords in Python")]
pub fn high_level(
    py: Python<'_>,
    edge_index: &Bound<'_, PyAny>,
    num_nodes: Option<&Bound<'_, PyAny>>,
    coarsener: Option<&Bound<'_, PyAny>>,
    levels: i64,
    max_distance: Option<&Bound<'_, PyAny>>,
    seed: Option<&Bound<'_, PyAny>>,
    level: usize,
    weights: Option<&Bound<'_, PyAny>>,
    partition: Option<&Bound<'_, PyAny>>,
    threads: Option<i64>,
    max_memory: Option<&Bound<'_, PyAny>>,
) -> PyResult<HighLevel> {
    let options = Options { coarsener, partition, levels, max_distance, seed, max_memory };
    let mut settings = Settings::new(py, options)?;
    let levels = settings.encoder.levels;
    if !(1..=levels).contains(&level) {
        return Err(wrong(format!(
            "`--high-level {level}` needs a level between 1 and `--levels` ({levels})"
        )));
    }
    let given = Given::new(edge_index, num_nodes, weights)?;
    given.check_memory(settings.limit)?;
    let (limit, raised) = (settings.limit, settings.raised.clone());
    let threads = run::threads(py, threads, settings.is_long(given.is_long()))?;
    let done = run::run(py, threads, move |monitor| {
        let graph = given.build()?;
        settings.give(&set_of(std::slice::from_ref(&graph), 0))?;
        let hierarchy = settings.encoder.hierarchy(&graph.inner, 0, monitor)?;
        finish(graph, hierarchy, level, Made::of(&settings.encoder), limit, monitor)
    });
    done.map_err(|e| raised.or(e))
}
