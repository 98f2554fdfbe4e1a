//! `hdse.Graph`: undirected, simple, compressed sparse rows.

use std::sync::Arc;

use hdse::graph::Repairs;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::array::{owned, view};
use crate::input::{Given, Limit};
use crate::run;

/// An undirected simple graph. Arcs given one way are taken both ways, repeated ones once (their weights
/// add up), self-loops not at all; `repairs` counts them.
///
/// `edge_index` is anything that `encode` takes: an array of shape [2, E], a sparse matrix, a graph of
/// networkx or igraph, a molecule.
#[pyclass(frozen, module = "hdse")]
#[derive(Clone)]
pub struct Graph {
    pub inner: Arc<hdse::Graph>,
    pub repairs: Repairs,
}

#[pymethods]
impl Graph {
    #[new]
    #[pyo3(signature = (edge_index, num_nodes=None, *, weights=None))]
    fn new(
        py: Python<'_>,
        edge_index: &Bound<'_, PyAny>,
        num_nodes: Option<&Bound<'_, PyAny>>,
        weights: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Graph> {
        let given = Given::new(edge_index, num_nodes, weights)?;
        given.check_memory(Limit(None))?;
        let threads = run::threads(py, None, given.is_long())?;
        run::run(py, threads, |_| given.build())
    }

    /// Number of nodes.
    #[getter]
    fn num_nodes(&self) -> usize {
        self.inner.num_nodes()
    }

    /// Number of undirected edges.
    #[getter]
    fn num_edges(&self) -> usize {
        self.inner.num_edges()
    }

    /// Both directions of every edge, by source, then target: int64 [2, 2m], a new array.
    #[getter]
    fn edge_index<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        owned(py, arcs(&self.inner), [2, self.inner.targets().len()])
    }

    /// Where the neighbours of every node start in `indices`: uint64 [n + 1].
    #[getter]
    fn indptr<'py>(slf: &Bound<'py, Self>) -> Bound<'py, PyAny> {
        let offsets = slf.get().inner.offsets();
        view(offsets, [offsets.len()], slf)
    }

    /// Neighbours of all nodes, ascending: uint32 [2m].
    #[getter]
    fn indices<'py>(slf: &Bound<'py, Self>) -> Bound<'py, PyAny> {
        let targets = slf.get().inner.targets();
        view(targets, [targets.len()], slf)
    }

    /// Weights of `indices`: float32 [2m], or None.
    #[getter]
    fn weights<'py>(slf: &Bound<'py, Self>) -> Option<Bound<'py, PyAny>> {
        slf.get().inner.weights().map(|weights| view(weights, [weights.len()], slf))
    }

    /// What was mended: counts of `self_loops` and `duplicates` dropped, and of `one_way` edges.
    #[getter]
    fn repairs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        repairs_dict(py, self.repairs)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Graph>().is_ok_and(|other| self.inner == other.get().inner)
    }

    fn __repr__(&self) -> String {
        let weighted = if self.inner.is_weighted() { ", weighted" } else { "" };
        format!("Graph(num_nodes={}, num_edges={}{weighted})", self.num_nodes(), self.num_edges())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, GraphState<'py>)> {
        let py = slf.py();
        let Repairs { self_loops, duplicates, one_way } = slf.get().repairs;
        let rows = (Graph::indptr(slf), Graph::indices(slf), Graph::weights(slf));
        let state = (rows.0, rows.1, rows.2, (self_loops, duplicates, one_way));
        Ok((py.import("hdse._hdse")?.getattr("_graph")?, state))
    }
}

type GraphState<'py> =
    (Bound<'py, PyAny>, Bound<'py, PyAny>, Option<Bound<'py, PyAny>>, (u64, u64, u64));

/// A graph from its pickle.
#[pyfunction]
pub fn _graph(
    py: Python<'_>,
    indptr: numpy::PyReadonlyArray1<'_, u64>,
    indices: numpy::PyReadonlyArray1<'_, u32>,
    weights: Option<numpy::PyReadonlyArray1<'_, f32>>,
    repairs: (u64, u64, u64),
) -> PyResult<Graph> {
    let (offsets, targets) = (indptr.as_array().to_vec(), indices.as_array().to_vec());
    let weights = weights.map(|w| w.as_array().to_vec());
    let build =
        |_: &dyn hdse::monitor::Monitor| hdse::Graph::from_sorted_rows(offsets, targets, weights);
    let inner = Arc::new(run::run(py, 1, build)?);
    let (self_loops, duplicates, one_way) = repairs;
    Ok(Graph { inner, repairs: Repairs { self_loops, duplicates, one_way } })
}

/// Both directions of every edge, sources first: `[2, 2m]`.
pub fn arcs(graph: &hdse::Graph) -> Vec<i64> {
    let mut arcs = Vec::with_capacity(2 * graph.targets().len());
    for u in 0..graph.num_nodes() as u32 {
        arcs.extend(std::iter::repeat_n(i64::from(u), graph.degree(u)));
    }
    arcs.extend(graph.targets().iter().map(|&v| i64::from(v)));
    arcs
}

pub fn repairs_dict(py: Python<'_>, repairs: Repairs) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("self_loops", repairs.self_loops)?;
    dict.set_item("duplicates", repairs.duplicates)?;
    dict.set_item("one_way", repairs.one_way)?;
    Ok(dict)
}
