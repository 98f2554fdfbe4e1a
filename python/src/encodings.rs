//! `hdse.Encodings` and `hdse.encode_many`: the distances of many graphs, one after another.

use std::sync::{Arc, OnceLock};

use hdse::distance::Codes;
use hdse::encode::Encoder;
use hdse::monitor::Monitor;
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList, PySlice, PyTuple};
use rayon::prelude::*;

use crate::array::view;
use crate::encoding::{Encoding, Made, MadeState, codebook_view, codes_view};
use crate::error::{check, wrong};
use crate::graph::Graph;
use crate::input::{Given, Limit, Options, Settings, pairs, set_of};
use crate::read::GraphSet;
use crate::run;
use crate::sequence::item;

/// Encodings in one piece of memory.
pub struct Set {
    pub graphs: Vec<Graph>,
    pub made: Made,
    num_nodes: Vec<u32>,
    node_offsets: Vec<i64>,
    pair_offsets: Vec<i64>,
    distances: Vec<u8>, // [pairs, K + 1]
    clusters: Vec<u32>, // [nodes, K]
}

impl Set {
    fn new(graphs: Vec<Graph>, made: Made, distances: Vec<u8>, clusters: Vec<u32>) -> Set {
        let num_nodes: Vec<u32> = graphs.iter().map(|g| g.inner.num_nodes() as u32).collect();
        let offsets = |size: fn(i64) -> i64| {
            let mut sum = 0;
            let mut next = |&n: &u32| {
                sum += size(n.into());
                sum
            };
            std::iter::once(0).chain(num_nodes.iter().map(&mut next)).collect()
        };
        let (node_offsets, pair_offsets) = (offsets(|n| n), offsets(|n| n * n));
        Set { graphs, made, num_nodes, node_offsets, pair_offsets, distances, clusters }
    }

    /// Distances of graph `i`, `[n · n, K + 1]`.
    pub fn distances_of(&self, i: usize) -> &[u8] {
        part(&self.distances, &self.pair_offsets, i, self.made.levels + 1)
    }

    /// Clusters of graph `i`, `[n, K]`.
    pub fn clusters_of(&self, i: usize) -> &[u32] {
        part(&self.clusters, &self.node_offsets, i, self.made.levels)
    }

    fn pairs(&self) -> usize {
        self.distances.len() / (self.made.levels + 1)
    }
}

fn part<'a, T>(values: &'a [T], offsets: &[i64], i: usize, width: usize) -> &'a [T] {
    &values[offsets[i] as usize * width..offsets[i + 1] as usize * width]
}

/// Hierarchical distances of many graphs: a sequence of `Encoding`, and all of them as ragged arrays.
/// Rows `pair_offsets[i]` to `pair_offsets[i + 1]` of `distances` and `codes`, and rows `node_offsets[i]` to
/// `node_offsets[i + 1]` of `clusters`, are those of graph i.
#[pyclass(frozen, sequence, module = "hdse")]
pub struct Encodings {
    set: Arc<Set>,
    codes: OnceLock<Codes>,
}

impl Encodings {
    fn core_codes(&self, py: Python<'_>) -> PyResult<&Codes> {
        if self.codes.get().is_none() {
            let (set, width) = (&self.set, self.set.made.levels + 1);
            let codes = run::run(py, 1, |_| Ok(Codes::from_tuples(&set.distances, width)))?;
            let _ = self.codes.set(codes);
        }
        Ok(self.codes.get().expect("just set"))
    }
}

#[pymethods]
impl Encodings {
    /// Number of levels K above the graphs.
    #[getter]
    fn levels(&self) -> usize {
        self.set.made.levels
    }

    /// The clip of levels 0 to K.
    #[getter]
    fn max_distance(&self) -> Vec<usize> {
        self.set.made.clips()
    }

    /// Where the clusters come from, with every parameter.
    #[getter]
    fn coarsener(&self) -> &str {
        &self.set.made.coarsener
    }

    /// The seed of the coarsener.
    #[getter]
    fn seed(&self) -> u64 {
        self.set.made.seed
    }

    /// Nodes of every graph: uint32 [G].
    #[getter]
    fn num_nodes<'py>(slf: &Bound<'py, Self>) -> Bound<'py, PyAny> {
        let set = &slf.get().set;
        view(&set.num_nodes, [set.num_nodes.len()], slf)
    }

    /// First row of every graph in `clusters`, and the end: int64 [G + 1].
    #[getter]
    fn node_offsets<'py>(slf: &Bound<'py, Self>) -> Bound<'py, PyAny> {
        let set = &slf.get().set;
        view(&set.node_offsets, [set.node_offsets.len()], slf)
    }

    /// First row of every graph in `distances`, and the end: int64 [G + 1].
    #[getter]
    fn pair_offsets<'py>(slf: &Bound<'py, Self>) -> Bound<'py, PyAny> {
        let set = &slf.get().set;
        view(&set.pair_offsets, [set.pair_offsets.len()], slf)
    }

    /// Distances of all pairs of the first graph, then of the next: uint8 [pairs, K + 1].
    #[getter]
    fn distances<'py>(slf: &Bound<'py, Self>) -> Bound<'py, PyAny> {
        let set = &slf.get().set;
        view(&set.distances, [set.pairs(), set.made.levels + 1], slf)
    }

    /// Clusters of all nodes of the first graph, then of the next: uint32 [nodes, K].
    #[getter]
    fn clusters<'py>(slf: &Bound<'py, Self>) -> Bound<'py, PyAny> {
        let set = &slf.get().set;
        let nodes = set.node_offsets.last().map_or(0, |&n| n as usize);
        view(&set.clusters, [nodes, set.made.levels], slf)
    }

    /// Row of `codebook` that holds the distances of each pair: uint16 [pairs], or uint32 where there
    /// are more than 65,535 rows.
    #[getter]
    fn codes<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let this = slf.get();
        Ok(codes_view(this.core_codes(slf.py())?, [this.set.pairs()], slf))
    }

    /// The distinct rows of distances of all graphs, ascending: uint8 [R, K + 1].
    #[getter]
    fn codebook<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Ok(codebook_view(slf.get().core_codes(slf.py())?, slf))
    }

    fn __len__(&self) -> usize {
        self.set.graphs.len()
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        item(key, self.__len__(), |i| Encoding::of_set(&self.set, i))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.__getitem__(PySlice::full(py).as_any())?.try_iter()
    }

    /// Equal if all graphs, clusters and clips are, however they were made.
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Encodings>().is_ok_and(|other| {
            let (a, b) = (&self.set, &other.get().set);
            let same = |(a, b): (&Graph, &Graph)| a.inner == b.inner;
            a.made.clips() == b.made.clips()
                && a.graphs.len() == b.graphs.len()
                && a.clusters == b.clusters
                && a.graphs.iter().zip(&b.graphs).all(same)
        })
    }

    fn __repr__(&self) -> String {
        let Made { levels, coarsener, .. } = &self.set.made;
        format!(
            "Encodings(graphs={}, nodes={}, pairs={}, levels={levels}, max_distance={}, \
             coarsener='{coarsener}')",
            self.set.graphs.len(),
            self.set.node_offsets.last().unwrap_or(&0),
            self.set.pairs(),
            self.set.made.clip_text(),
        )
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, State<'py>)> {
        let set = &slf.get().set;
        let made = (set.made.clips(), set.made.coarsener.clone(), set.made.seed);
        let arrays = (Encodings::distances(slf), Encodings::clusters(slf));
        let state = (set.graphs.clone(), arrays.0, arrays.1, made);
        Ok((slf.py().import("hdse._hdse")?.getattr("_encodings")?, state))
    }
}

type State<'py> = (Vec<Graph>, Bound<'py, PyAny>, Bound<'py, PyAny>, MadeState);

/// Encodings from their pickle.
#[pyfunction]
pub fn _encodings(
    graphs: Vec<Bound<'_, Graph>>,
    distances: numpy::PyReadonlyArray2<'_, u8>,
    clusters: numpy::PyReadonlyArray2<'_, u32>,
    made: MadeState,
) -> PyResult<Encodings> {
    let graphs: Vec<Graph> = graphs.iter().map(|graph| graph.get().clone()).collect();
    let distances = distances.as_array().iter().copied().collect();
    let clusters = clusters.as_array().iter().copied().collect();
    let set = Set::new(graphs, Made::restore(made)?, distances, clusters);
    let width = set.made.levels + 1;
    let (nodes, pairs) = (set.node_offsets.last(), set.pair_offsets.last());
    if pairs.map(|&p| p as usize * width) != Some(set.distances.len())
        || nodes.map(|&n| n as usize * (width - 1)) != Some(set.clusters.len())
    {
        return Err(wrong("distances and clusters do not fit the graphs"));
    }
    Ok(Encodings { set: Arc::new(set), codes: OnceLock::new() })
}

/// Distances of all pairs of nodes of many graphs, in one call and on all cores.
///
/// `graphs` is a list of whatever `encode` takes, or of pairs (edge_index, num_nodes); or the graphs that
/// `read` gives; or one array [2, E] of the arcs of all graphs, where `offsets` [G + 1] says which
/// columns belong to which graph and ids start from 0 in each. `num_nodes` has a number per graph where
/// these do not know it. `partition` lists the clusters of all nodes of all graphs, [nodes, K]. `first`
/// is the number of the first graph within a larger set. Other options are those of `encode`.
#[pyfunction]
#[pyo3(signature = (
    graphs, num_nodes=None, coarsener=None, levels=1, max_distance=None, seed=None, *,
    offsets=None, weights=None, partition=None, first=None, threads=None, max_memory=None
))]
#[pyo3(text_signature = "(graphs, num_nodes=None, coarsener='newman', levels=1, \
                         max_distance=30, seed=0, *, offsets=None, weights=None, partition=None, \
                         first=None, threads=None, max_memory=None)")]
#[expect(clippy::too_many_arguments, reason = "keywords in Python")]
pub fn encode_many(
    py: Python<'_>,
    graphs: &Bound<'_, PyAny>,
    num_nodes: Option<&Bound<'_, PyAny>>,
    coarsener: Option<&Bound<'_, PyAny>>,
    levels: i64,
    max_distance: Option<&Bound<'_, PyAny>>,
    seed: Option<&Bound<'_, PyAny>>,
    offsets: Option<&Bound<'_, PyAny>>,
    weights: Option<&Bound<'_, PyAny>>,
    partition: Option<&Bound<'_, PyAny>>,
    first: Option<usize>,
    threads: Option<i64>,
    max_memory: Option<&Bound<'_, PyAny>>,
) -> PyResult<Encodings> {
    let options = Options { coarsener, partition, levels, max_distance, seed, max_memory };
    let mut settings = Settings::new(py, options)?;
    let (given, listed_first) = match (graphs.cast::<GraphSet>(), offsets) {
        (Ok(_), _) if num_nodes.is_some() || offsets.is_some() || weights.is_some() => {
            return Err(wrong("a set that was read has its nodes and weights already"));
        }
        (Ok(set), _) => (set.get().given(), set.get().first()),
        (_, Some(offsets)) => (ragged(graphs, num_nodes, offsets, weights)?, 0),
        (_, None) => (list(graphs, num_nodes, weights)?, 0),
    };
    let first = settings.first(first.unwrap_or(listed_first));
    check_memory(&given, &mut settings.encoder, settings.limit, first)?;
    let nodes: usize = given.iter().map(Given::num_nodes).sum();
    let threads = run::threads(py, threads, settings.is_long(nodes > 1000))?;
    let raised = settings.raised.clone();
    let done = run::run(py, threads, move |monitor| {
        let build = |(i, given): (usize, Given)| {
            given.build().map_err(|e| e.context(format!("graph {}", first + i)))
        };
        // All of them, then the first mistake: the same one for any number of threads.
        let built: Vec<hdse::Result<Graph>> =
            given.into_par_iter().enumerate().map(build).collect();
        let graphs = built.into_iter().collect::<hdse::Result<_>>()?;
        encode_set(graphs, first, &mut settings, monitor)
    });
    let set = done.map_err(|e| raised.or(e))?;
    Ok(Encodings { set: Arc::new(set), codes: OnceLock::new() })
}

fn encode_set(
    graphs: Vec<Graph>,
    first: usize,
    settings: &mut Settings,
    monitor: &dyn Monitor,
) -> hdse::Result<Set> {
    let set = set_of(&graphs, first);
    settings.give(&set)?;
    let (encoder, nodes) = (&settings.encoder, graphs.iter().map(|g| g.inner.num_nodes()));
    let pairs: usize = nodes.clone().map(|n| n * n).sum();
    let mut distances = Vec::with_capacity(pairs * (encoder.levels + 1));
    let mut clusters = Vec::with_capacity(nodes.sum::<usize>() * encoder.levels);
    encoder.encode_set(&set, monitor, |chunk| {
        distances.extend_from_slice(&chunk.distances);
        clusters.extend_from_slice(&chunk.clusters);
        Ok(())
    })?;
    Ok(Set::new(graphs, Made::of(encoder), distances, clusters))
}

/// Refuses, before any work, what does not fit: a graph by its number, then all of them.
fn check_memory(
    given: &[Given],
    encoder: &mut Encoder,
    limit: Limit,
    first: usize,
) -> PyResult<()> {
    let bytes = |graph: &Given| encoder.bytes_of(graph.num_nodes()) / 2;
    let total: u128 = given.iter().map(bytes).sum();
    encoder.limit = limit.of(2 * total);
    let number = |i| (given.len() != 1).then_some(first + i);
    for (i, graph) in given.iter().enumerate() {
        check(encoder.check_memory_of(graph.num_nodes(), number(i)))?;
    }
    check(encoder.limit.check(
        total,
        &format!("distances of all pairs of {} graphs", given.len()),
        "encode fewer at a time, or raise `--max-memory`",
    ))
}

/// A list of graphs, or of (edge_index, num_nodes).
fn list(
    graphs: &Bound<'_, PyAny>,
    num_nodes: Option<&Bound<'_, PyAny>>,
    weights: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Given>> {
    let mut sizes = num_nodes.map(|sizes| sizes.try_iter()).transpose()?;
    // One per graph, or the name of an attribute that all graphs have.
    let per_graph =
        weights.is_some_and(|w| w.is_instance_of::<PyList>() || w.is_instance_of::<PyTuple>());
    let mut given = Vec::with_capacity(graphs.len().unwrap_or(0));
    for (i, graph) in graphs.try_iter()?.enumerate() {
        let graph = graph?;
        let size = match &mut sizes {
            Some(sizes) => Some(sizes.next().ok_or_else(|| {
                wrong(format!("`num_nodes` has {i} numbers; it needs one per graph"))
            })??),
            None => None,
        };
        let weights = match weights {
            Some(list) if per_graph => Some(list.get_item(i)?),
            other => other.cloned(),
        };
        let made = match graph.cast::<PyTuple>() {
            Ok(pair) if pair.len() == 2 && size.is_none() => {
                Given::new(&pair.get_item(0)?, Some(&pair.get_item(1)?), weights.as_ref())
            }
            _ => Given::new(&graph, size.as_ref(), weights.as_ref()),
        };
        given.push(made.map_err(|e| in_graph(graph.py(), e, i))?);
    }
    if let Some(sizes) = &mut sizes
        && sizes.next().is_some()
    {
        let count = given.len();
        return Err(wrong(format!("`num_nodes` has more than {count} numbers, one per graph")));
    }
    Ok(given)
}

/// The same exception, with the graph named in front.
fn in_graph(py: Python<'_>, error: PyErr, i: usize) -> PyErr {
    match error.get_type(py).call1((format!("graph {i}: {}", error.value(py)),)) {
        Ok(named) => PyErr::from_value(named),
        Err(_) => error,
    }
}

/// Graphs out of one array of arcs.
fn ragged(
    edge_index: &Bound<'_, PyAny>,
    num_nodes: Option<&Bound<'_, PyAny>>,
    offsets: &Bound<'_, PyAny>,
    weights: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Given>> {
    let py = edge_index.py();
    let Some(num_nodes) = num_nodes else {
        return Err(wrong("`offsets` needs `num_nodes`, a number per graph"));
    };
    type Ragged<'py> = (
        numpy::PyReadonlyArray2<'py, i64>,
        PyReadonlyArray1<'py, i64>,
        PyReadonlyArray1<'py, i64>,
        Option<PyReadonlyArray1<'py, f32>>,
    );
    let convert = py.import("hdse._convert")?.getattr("ragged")?;
    let (arcs, sizes, offsets, weights): Ragged<'_> =
        convert.call1((edge_index, num_nodes, offsets, weights))?.extract()?;
    let (arcs, sizes, offsets) = (arcs.as_array(), sizes.as_array(), offsets.as_array());
    let weights = weights.as_ref().map(|w| w.as_array());
    let graph = |i: usize| {
        let range = offsets[i] as usize..offsets[i + 1] as usize;
        let num_nodes = sizes[i] as usize;
        let columns = numpy::ndarray::s![.., range.clone()];
        let pairs = pairs(arcs.slice(columns), num_nodes).map_err(|e| in_graph(py, e, i))?;
        let weights = weights.map(|w| w.slice(numpy::ndarray::s![range]).to_vec());
        Ok(Given::Pairs { num_nodes, pairs, weights })
    };
    (0..sizes.len()).map(graph).collect()
}
