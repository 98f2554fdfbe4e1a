//! `hdse.read`: graphs out of files, as the command reads them.

use std::sync::{Arc, OnceLock};

use hdse::data::{self, Edges, Matrix, ReadOptions, Shard, Values};
use numpy::{PyArrayDyn, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyFileNotFoundError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PySlice};

use crate::array::{owned, view};
use crate::error::{check, wrong};
use crate::graph::{Graph, arcs, repairs_dict};
use crate::input::{Given, Limit, pairs};
use crate::run;
use crate::sequence::item;

/// One graph of a set, with features and targets as the file has them.
#[pyclass(frozen, module = "hdse")]
pub struct Sample {
    inner: Arc<data::Sample>,
    arcs: OnceLock<Vec<i64>>,
}

impl Sample {
    fn of(sample: data::Sample) -> Sample {
        Sample { inner: Arc::new(sample), arcs: OnceLock::new() }
    }

    /// The graph that hierarchy and distances use.
    pub fn graph(&self) -> Graph {
        graph_of(&self.inner)
    }

    /// Arcs as given; both directions of every edge where only the graph was read.
    fn arcs(&self) -> &[i64] {
        self.arcs.get_or_init(|| {
            let Edges { sources, targets } = &self.inner.edges;
            if sources.is_empty() {
                return arcs(&self.inner.graph);
            }
            sources.iter().chain(targets).map(|&node| node.into()).collect()
        })
    }
}

fn graph_of(sample: &data::Sample) -> Graph {
    Graph { inner: sample.graph.clone(), repairs: sample.repairs }
}

fn matrix<'py>(matrix: Option<&Matrix>, owner: &Bound<'py, Sample>) -> Option<Bound<'py, PyAny>> {
    let matrix = matrix?;
    let shape = [matrix.values.len() / matrix.width.max(1), matrix.width];
    Some(match &matrix.values {
        Values::Int(values) => view(values, shape, owner),
        Values::Float(values) => view(values, shape, owner),
    })
}

#[pymethods]
impl Sample {
    /// Number of nodes N.
    #[getter]
    fn num_nodes(&self) -> usize {
        self.inner.graph.num_nodes()
    }

    /// The undirected simple graph.
    #[getter(graph)]
    fn graph_object(&self) -> Graph {
        self.graph()
    }

    /// Arcs as the file lists them: int64 [2, E].
    #[getter]
    fn edge_index<'py>(slf: &Bound<'py, Self>) -> Bound<'py, PyAny> {
        let arcs = slf.get().arcs();
        view(arcs, [2, arcs.len() / 2], slf)
    }

    /// Features of arcs, int64 or float32 [E, F], or None.
    #[getter]
    fn edge_attr<'py>(slf: &Bound<'py, Self>) -> Option<Bound<'py, PyAny>> {
        matrix(slf.get().inner.edge_attr.as_ref(), slf)
    }

    /// Features of nodes, int64 or float32 [N, F], or None.
    #[getter]
    fn node_feat<'py>(slf: &Bound<'py, Self>) -> Option<Bound<'py, PyAny>> {
        matrix(slf.get().inner.node_feat.as_ref(), slf)
    }

    /// Coordinates of nodes, float32 [N, D], or None.
    #[getter]
    fn pos<'py>(slf: &Bound<'py, Self>) -> Option<Bound<'py, PyAny>> {
        matrix(slf.get().inner.pos.as_ref(), slf)
    }

    /// Targets of the graph, or one per node: int64 or float32, or None.
    #[getter]
    fn y<'py>(slf: &Bound<'py, Self>) -> Option<Bound<'py, PyAny>> {
        Some(match slf.get().inner.y.as_ref()? {
            Values::Int(values) => view(values, [values.len()], slf),
            Values::Float(values) => view(values, [values.len()], slf),
        })
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Sample>().is_ok_and(|other| {
            let (a, b) = (&self.inner, &other.get().inner);
            a.graph == b.graph
                && self.arcs() == other.get().arcs()
                && (&a.edge_attr, &a.node_feat, &a.pos) == (&b.edge_attr, &b.node_feat, &b.pos)
                && a.y == b.y
        })
    }

    fn __repr__(&self) -> String {
        let mut text = format!("Sample(num_nodes={}", self.num_nodes());
        text += &format!(", edge_index=[2, {}]", self.arcs().len() / 2);
        let matrices = [&self.inner.edge_attr, &self.inner.node_feat, &self.inner.pos];
        for (name, matrix) in ["edge_attr", "node_feat", "pos"].iter().zip(matrices) {
            if let Some(Matrix { width, values }) = matrix {
                text += &format!(", {name}=[{}, {width}]", values.len() / (*width).max(1));
            }
        }
        if let Some(y) = &self.inner.y {
            text += &format!(", y=[{}]", y.len());
        }
        text + ")"
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, State<'py>)> {
        let columns = (Sample::edge_attr(slf), Sample::node_feat(slf), Sample::pos(slf));
        let state = (slf.get().graph(), Sample::edge_index(slf), columns, Sample::y(slf));
        Ok((slf.py().import("hdse._hdse")?.getattr("_sample")?, state))
    }
}

type Column<'py> = Option<Bound<'py, PyAny>>;
type Columns<'py> = (Column<'py>, Column<'py>, Column<'py>);
type State<'py> = (Graph, Bound<'py, PyAny>, Columns<'py>, Column<'py>);

/// A sample from its pickle.
#[pyfunction]
pub fn _sample(
    graph: &Bound<'_, Graph>,
    edge_index: PyReadonlyArray2<'_, i64>,
    columns: Columns<'_>,
    y: Column<'_>,
) -> PyResult<Sample> {
    let graph = graph.get();
    let (sources, targets) =
        pairs(edge_index.as_array(), graph.inner.num_nodes())?.into_iter().unzip();
    let (edge_attr, node_feat, pos) = columns;
    let matrix = |column: Column<'_>| column.map(|array| restore(&array)).transpose();
    Ok(Sample::of(data::Sample {
        edges: Edges { sources, targets },
        edge_attr: matrix(edge_attr)?,
        graph: graph.inner.clone(),
        repairs: graph.repairs,
        node_feat: matrix(node_feat)?,
        pos: matrix(pos)?,
        y: matrix(y)?.map(|matrix| matrix.values),
    }))
}

fn restore(array: &Bound<'_, PyAny>) -> PyResult<Matrix> {
    if let Ok(array) = array.cast::<PyArrayDyn<i64>>() {
        let width = array.shape().get(1).copied().unwrap_or(1);
        return Ok(Matrix { width, values: Values::Int(array.to_vec()?) });
    }
    let array = array.cast::<PyArrayDyn<f32>>()?;
    let width = array.shape().get(1).copied().unwrap_or(1);
    Ok(Matrix { width, values: Values::Float(array.to_vec()?) })
}

/// The graphs of a file or generated set: a sequence of `Sample`, which `encode_many` takes as it is.
#[pyclass(frozen, sequence, module = "hdse")]
pub struct GraphSet {
    samples: Vec<Arc<data::Sample>>,
    first: usize,
    total: usize,
    hash: String,
    ids: Option<Vec<String>>,
}

impl GraphSet {
    /// The graphs, ready to be encoded.
    pub fn given(&self) -> Vec<Given> {
        self.samples.iter().map(|sample| Given::Ready(graph_of(sample))).collect()
    }

    pub fn first(&self) -> usize {
        self.first
    }
}

#[pymethods]
impl GraphSet {
    /// Number of the first graph within the whole input; not 0 for a shard.
    #[getter(first)]
    fn first_number(&self) -> usize {
        self.first
    }

    /// Number of graphs in the whole input.
    #[getter]
    fn total(&self) -> usize {
        self.total
    }

    /// blake3 of the input, in hexadecimal.
    #[getter]
    fn hash(&self) -> &str {
        &self.hash
    }

    /// Names of the nodes of a single graph that were not numbers 0, 1, …: entry i is node i.
    #[getter]
    fn ids(&self) -> Option<Vec<String>> {
        self.ids.clone()
    }

    /// What was mended in all graphs together: see `Graph.repairs`.
    #[getter]
    fn repairs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let mut sum = hdse::graph::Repairs::default();
        for sample in &self.samples {
            sum += sample.repairs;
        }
        repairs_dict(py, sum)
    }

    /// Nodes of every graph: uint32 [G], a new array.
    #[getter]
    fn num_nodes<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        let sizes: Vec<u32> = self.samples.iter().map(|s| s.graph.num_nodes() as u32).collect();
        owned(py, sizes, [self.samples.len()])
    }

    fn __len__(&self) -> usize {
        self.samples.len()
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let sample = |i: usize| Sample { inner: self.samples[i].clone(), arcs: OnceLock::new() };
        item(key, self.samples.len(), sample)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.__getitem__(PySlice::full(py).as_any())?.try_iter()
    }

    /// Equal if made of the same graphs, features and targets.
    fn __eq__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<bool> {
        let Ok(other) = other.cast::<GraphSet>() else { return Ok(false) };
        let (a, b) = (slf.get(), other.get());
        let all = || PySlice::full(slf.py());
        Ok((a.first, a.total, &a.ids) == (b.first, b.total, &b.ids)
            && a.__getitem__(all().as_any())?.eq(b.__getitem__(all().as_any())?)?)
    }

    fn __repr__(&self) -> String {
        let nodes: usize = self.samples.iter().map(|s| s.graph.num_nodes()).sum();
        let edges: usize = self.samples.iter().map(|s| s.graph.num_edges()).sum();
        format!("GraphSet(graphs={}, nodes={nodes}, edges={edges})", self.samples.len())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, SetState<'py>)> {
        let samples = self.__getitem__(PySlice::full(py).as_any())?;
        let state = (samples, self.first, self.total, self.hash.clone(), self.ids.clone());
        Ok((py.import("hdse._hdse")?.getattr("_graph_set")?, state))
    }
}

type SetState<'py> = (Bound<'py, PyAny>, usize, usize, String, Option<Vec<String>>);

/// A set from its pickle.
#[pyfunction]
pub fn _graph_set(
    samples: Vec<Bound<'_, Sample>>,
    first: usize,
    total: usize,
    hash: String,
    ids: Option<Vec<String>>,
) -> GraphSet {
    let samples = samples.iter().map(|sample| sample.get().inner.clone()).collect();
    GraphSet { samples, first, total, hash, ids }
}

/// Reads graphs from a file or folder, or makes those of a generated set such as "community-small".
///
/// `format` is told from the name and the first bytes by default (`hdse list formats`). Without `features`
/// only the graphs are read. `shard` takes part i of N, as "i/N" or (i, N).
#[pyfunction]
#[pyo3(signature = (path, *, format=None, features=true, shard=None, threads=None, max_memory=None))]
pub fn read(
    py: Python<'_>,
    path: &Bound<'_, PyAny>,
    format: Option<&str>,
    features: bool,
    shard: Option<&Bound<'_, PyAny>>,
    threads: Option<i64>,
    max_memory: Option<&Bound<'_, PyAny>>,
) -> PyResult<GraphSet> {
    let path: String = py.import("os")?.getattr("fspath")?.call1((path,))?.extract()?;
    if path == "-" {
        return Err(wrong("standard input belongs to the command; name a file"));
    }
    let shard = match shard {
        None => None,
        Some(given) => Some(match given.extract::<(usize, usize)>() {
            Ok((index, count)) => check(Shard::parse(&format!("{index}/{count}")))?,
            Err(_) => check(Shard::parse(&given.str()?.to_string()))?,
        }),
    };
    let options = ReadOptions {
        format: format
            .map(data::format_by_name)
            .transpose()
            .map_err(|e| crate::error::raise(&e))?,
        features,
        shard,
        limit: Limit::parse(max_memory)?.0.unwrap_or_default(),
    };
    let threads = run::threads(py, threads, true)?;
    let set = match run::run(py, threads, |_| data::read(&path, &options)) {
        Err(e) if !std::path::Path::new(&path).exists() => {
            return Err(PyFileNotFoundError::new_err(e.value(py).to_string()));
        }
        set => set?,
    };
    let data::GraphSet { samples, first, total, hash, ids } = set;
    let samples = samples.into_iter().map(Arc::new).collect();
    Ok(GraphSet { samples, first, total, hash, ids })
}
