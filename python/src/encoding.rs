//! `hdse.Encoding` and `hdse.encode`: the distances of one graph.

use std::sync::{Arc, OnceLock};

use hdse::distance::{Codes, Distances, MaxDistance, Scratch};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;

use crate::array::{owned, view};
use crate::encodings::Set;
use crate::error::check;
use crate::graph::Graph;
use crate::hierarchy::{Hierarchy, clusters_of};
use crate::input::{Given, Limit, Options, Settings, set_of};
use crate::run;

/// Hierarchical distances of all pairs of nodes of a graph. Immutable; arrays are read-only and share its
/// memory.
#[pyclass(frozen, module = "hdse")]
pub struct Encoding {
    graph: Graph,
    made: Made,
    limit: Limit,
    /// The set this is a part of, and which; distances and clusters lie there.
    part: Option<(Arc<Set>, usize)>,
    hierarchy: OnceLock<Arc<hdse::Hierarchy>>,
    tables: OnceLock<Distances>,
    clusters: OnceLock<Vec<u32>>,
    lifted: OnceLock<Vec<u8>>,
    codes: OnceLock<Codes>,
}

/// How encodings were made.
#[derive(Clone, PartialEq)]
pub struct Made {
    pub levels: usize,
    pub max_distance: MaxDistance,
    pub coarsener: String,
    pub seed: u64,
}

impl Made {
    pub fn of(encoder: &hdse::encode::Encoder) -> Made {
        Made {
            levels: encoder.levels,
            max_distance: encoder.max_distance.clone(),
            coarsener: encoder.describe(),
            seed: encoder.seed.0,
        }
    }

    /// The clip of levels 0 to K.
    pub fn clips(&self) -> Vec<usize> {
        (0..=self.levels).map(|k| self.max_distance.at(k).into()).collect()
    }

    /// The clip as it is written: one number where all levels have the same.
    pub fn clip_text(&self) -> String {
        let clips = self.clips();
        match clips.iter().all(|&l| l == clips[0]) {
            true => clips[0].to_string(),
            false => format!("{clips:?}"),
        }
    }
}

impl Encoding {
    fn empty(graph: Graph, made: Made, limit: Limit) -> Encoding {
        Encoding {
            graph,
            made,
            limit,
            part: None,
            hierarchy: OnceLock::new(),
            tables: OnceLock::new(),
            clusters: OnceLock::new(),
            lifted: OnceLock::new(),
            codes: OnceLock::new(),
        }
    }

    /// Graph number `i` of `set`.
    pub fn of_set(set: &Arc<Set>, i: usize) -> Encoding {
        let mut encoding = Encoding::empty(set.graphs[i].clone(), set.made.clone(), Limit(None));
        encoding.part = Some((set.clone(), i));
        encoding
    }

    fn ids(&self) -> &[u32] {
        match (&self.part, self.hierarchy.get()) {
            (Some((set, i)), _) => set.clusters_of(*i),
            (None, Some(hierarchy)) => self.clusters.get_or_init(|| clusters_of(hierarchy)),
            (None, None) => self.clusters.get().expect("a hierarchy or its clusters"),
        }
    }

    fn core_hierarchy(&self, py: Python<'_>) -> PyResult<&Arc<hdse::Hierarchy>> {
        if self.hierarchy.get().is_none() {
            let (graph, ids, levels) = (&self.graph.inner, self.ids(), self.made.levels);
            let made = run::run(py, 1, |_| hdse::Hierarchy::from_clusters(graph, ids, levels))?;
            let _ = self.hierarchy.set(Arc::new(made));
        }
        Ok(self.hierarchy.get().expect("just set"))
    }

    fn core_tables(&self, py: Python<'_>) -> PyResult<&Distances> {
        if self.tables.get().is_none() {
            let hierarchy = self.core_hierarchy(py)?;
            let (graph, clip) = (&self.graph.inner, &self.made.max_distance);
            let limit = self.limit.of(2 * self.bytes());
            let threads = run::threads(py, None, graph.num_nodes() > 512)?;
            let tables = run::run(py, threads, |monitor| {
                let scratch = &mut Scratch::default();
                Distances::with_scratch(graph, hierarchy, clip, limit, scratch, monitor)
            })?;
            let _ = self.tables.set(tables);
        }
        Ok(self.tables.get().expect("just set"))
    }

    fn core_lifted(&self, py: Python<'_>) -> PyResult<&[u8]> {
        if let Some((set, i)) = &self.part {
            return Ok(set.distances_of(*i));
        }
        if self.lifted.get().is_none() {
            let lifted = self.lift_now(py)?;
            let _ = self.lifted.set(lifted);
        }
        Ok(self.lifted.get().expect("just set"))
    }

    fn lift_now(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        let (tables, bytes) = (self.core_tables(py)?, self.bytes());
        check(self.limit.of(bytes).check(
            bytes,
            &format!("distances of all pairs of {} nodes", self.num_nodes()),
            "read `table(level)`, or raise `--max-memory`",
        ))?;
        run::run(py, 1, |_| Ok(tables.lifted()))
    }

    fn core_codes(&self, py: Python<'_>) -> PyResult<&Codes> {
        if self.codes.get().is_none() {
            let (lifted, width) = (self.core_lifted(py)?, self.made.levels + 1);
            let codes = run::run(py, 1, |_| Ok(Codes::from_tuples(lifted, width)))?;
            let _ = self.codes.set(codes);
        }
        Ok(self.codes.get().expect("just set"))
    }

    /// Bytes of all distances.
    fn bytes(&self) -> u128 {
        (self.num_nodes() as u128).pow(2) * (self.made.levels as u128 + 1)
    }

    fn shape(&self) -> [usize; 3] {
        [self.num_nodes(), self.num_nodes(), self.made.levels + 1]
    }
}

#[pymethods]
impl Encoding {
    /// Number of nodes N.
    #[getter]
    fn num_nodes(&self) -> usize {
        self.graph.inner.num_nodes()
    }

    /// Number of levels K above the graph; every pair has K + 1 distances.
    #[getter]
    fn levels(&self) -> usize {
        self.made.levels
    }

    /// The clip of levels 0 to K.
    #[getter]
    fn max_distance(&self) -> Vec<usize> {
        self.made.clips()
    }

    /// Where the clusters come from, with every parameter.
    #[getter]
    fn coarsener(&self) -> &str {
        &self.made.coarsener
    }

    /// The seed of the coarsener.
    #[getter]
    fn seed(&self) -> u64 {
        self.made.seed
    }

    /// The graph: undirected and simple.
    #[getter]
    fn graph(&self) -> Graph {
        self.graph.clone()
    }

    /// Distances of all pairs at levels 0 to K, 255 where there is no path: uint8 [N, N, K + 1]. Lifted
    /// from the clusters when first asked for.
    #[getter]
    fn distances<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let this = slf.get();
        Ok(view(this.core_lifted(slf.py())?, this.shape(), slf))
    }

    /// The same as a new array that is the caller's to change.
    fn lift<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let values = match (&self.part, self.lifted.get()) {
            (Some((set, i)), _) => set.distances_of(*i).to_vec(),
            (None, Some(lifted)) => lifted.clone(),
            (None, None) => self.lift_now(py)?,
        };
        Ok(owned(py, values, self.shape()))
    }

    /// Distances between all clusters of a level: uint8 [C, C].
    fn table<'py>(slf: &Bound<'py, Self>, level: usize) -> PyResult<Bound<'py, PyAny>> {
        let this = slf.get();
        let levels = this.made.levels;
        if level > levels {
            return Err(PyIndexError::new_err(format!("level {level} is above {levels}")));
        }
        let size = this.core_hierarchy(slf.py())?.num_clusters(level);
        Ok(view(this.core_tables(slf.py())?.table(level), [size, size], slf))
    }

    /// Cluster of every node at levels 1 to K: uint32 [N, K].
    #[getter]
    fn clusters<'py>(slf: &Bound<'py, Self>) -> Bound<'py, PyAny> {
        let this = slf.get();
        view(this.ids(), [this.num_nodes(), this.made.levels], slf)
    }

    /// Row of `codebook` that holds the distances of each pair: uint16 [N, N], or uint32 where there are
    /// more than 65,535 rows.
    #[getter]
    fn codes<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let this = slf.get();
        let codes = this.core_codes(slf.py())?;
        Ok(codes_view(codes, [this.num_nodes(), this.num_nodes()], slf))
    }

    /// The distinct rows of distances, ascending: uint8 [R, K + 1].
    #[getter]
    fn codebook<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Ok(codebook_view(slf.get().core_codes(slf.py())?, slf))
    }

    /// The clusters as levels above the graph.
    #[getter]
    fn hierarchy(&self, py: Python<'_>) -> PyResult<Hierarchy> {
        let inner = self.core_hierarchy(py)?.clone();
        Ok(Hierarchy::of(self.graph.clone(), inner, self.made.coarsener.clone()))
    }

    /// Equal if graph, clusters and clip are, and so all distances, however they were made.
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Encoding>().is_ok_and(|other| {
            let other = other.get();
            self.graph.inner == other.graph.inner
                && self.made.clips() == other.made.clips()
                && self.ids() == other.ids()
        })
    }

    fn __repr__(&self) -> String {
        let graph = &self.graph.inner;
        let levels = self.made.levels;
        let clusters: Vec<u32> = (0..levels)
            .map(|k| self.ids().iter().skip(k).step_by(levels).max().map_or(0, |&id| id + 1))
            .collect();
        format!(
            "Encoding(num_nodes={}, num_edges={}, levels={levels}, clusters={clusters:?}, \
             max_distance={}, coarsener='{}')",
            graph.num_nodes(),
            graph.num_edges(),
            self.made.clip_text(),
            self.made.coarsener,
        )
    }

    /// Graph and clusters; distances are computed again where they are asked for.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, State<'py>)> {
        let this = slf.get();
        let made = (this.made.clips(), this.made.coarsener.clone(), this.made.seed);
        let state = (this.graph.clone(), Encoding::clusters(slf), made);
        Ok((slf.py().import("hdse._hdse")?.getattr("_encoding")?, state))
    }
}

type State<'py> = (Graph, Bound<'py, PyAny>, MadeState);

/// Clips, coarsener, seed.
pub type MadeState = (Vec<usize>, String, u64);

impl Made {
    /// From a pickle.
    pub fn restore((clips, coarsener, seed): MadeState) -> PyResult<Made> {
        let max_distance = check(MaxDistance::new(&clips))?;
        Ok(Made { levels: clips.len() - 1, max_distance, coarsener, seed })
    }
}

/// An encoding from its pickle.
#[pyfunction]
pub fn _encoding(
    py: Python<'_>,
    graph: &Bound<'_, Graph>,
    clusters: numpy::PyReadonlyArray2<'_, u32>,
    made: MadeState,
) -> PyResult<Encoding> {
    let (graph, made) = (graph.get().clone(), Made::restore(made)?);
    let ids: Vec<u32> = clusters.as_array().iter().copied().collect();
    let encoding = Encoding::empty(graph, made, Limit(None));
    let _ = encoding.clusters.set(ids);
    encoding.core_hierarchy(py)?; // a mistake shows now, not later
    Ok(encoding)
}

/// Codes in the given shape.
pub fn codes_view<'py, const D: usize>(
    codes: &Codes,
    shape: [usize; D],
    owner: &Bound<'py, impl Sized>,
) -> Bound<'py, PyAny>
where
    [usize; D]: numpy::ndarray::IntoDimension,
{
    match (codes.as_u16(), codes.as_u32()) {
        (Some(narrow), _) => view(narrow, shape, owner),
        (None, wide) => view(wide.unwrap_or_default(), shape, owner),
    }
}

/// The rows that codes refer to.
pub fn codebook_view<'py>(codes: &Codes, owner: &Bound<'py, impl Sized>) -> Bound<'py, PyAny> {
    let book = codes.codebook();
    view(book.rows(), [book.len(), book.width()], owner)
}

/// Distances of all pairs of nodes of one graph, at the graph and at `levels` levels of clusters.
///
/// `edge_index` is an array of shape [2, E] (numpy, torch, lists), or a graph that knows its nodes: a
/// scipy sparse matrix, a graph of networkx or igraph, an RDKit molecule, a `Graph` or `Sample` of this
/// package. Arcs are taken both ways. `coarsener` is a name with parameters, or a function `(edge_index,
/// num_nodes) -> cluster ids`; `partition` gives the clusters themselves, [N, K] or one list per
/// level. `max_distance` clips, one number or one per level. `number` is the place of the graph in its
/// set, which random coarseners draw by.
#[pyfunction]
#[pyo3(signature = (
    edge_index, num_nodes=None, coarsener=None, levels=1, max_distance=None, seed=None, *,
    weights=None, partition=None, number=0, threads=None, max_memory=None
))]
#[pyo3(text_signature = "(edge_index, num_nodes=None, coarsener='newman', levels=1, \
                         max_distance=30, seed=0, *, weights=None, partition=None, number=0, \
                         threads=None, max_memory=None)")]
#[expect(clippy::too_many_arguments, reason = "keywords in Python")]
pub fn encode(
    py: Python<'_>,
    edge_index: &Bound<'_, PyAny>,
    num_nodes: Option<&Bound<'_, PyAny>>,
    coarsener: Option<&Bound<'_, PyAny>>,
    levels: i64,
    max_distance: Option<&Bound<'_, PyAny>>,
    seed: Option<&Bound<'_, PyAny>>,
    weights: Option<&Bound<'_, PyAny>>,
    partition: Option<&Bound<'_, PyAny>>,
    number: usize,
    threads: Option<i64>,
    max_memory: Option<&Bound<'_, PyAny>>,
) -> PyResult<Encoding> {
    let options = Options { coarsener, partition, levels, max_distance, seed, max_memory };
    let mut settings = Settings::new(py, options)?;
    let given = Given::new(edge_index, num_nodes, weights)?;
    settings.encoder.limit = settings.limit.of(settings.encoder.bytes_of(given.num_nodes()));
    check(settings.encoder.check_memory_of(given.num_nodes(), None))?;
    let (limit, raised) = (settings.limit, settings.raised.clone());
    let threads = run::threads(py, threads, settings.is_long(given.is_long()))?;
    let done = run::run(py, threads, move |monitor| {
        let graph = given.build()?;
        settings.give(&set_of(std::slice::from_ref(&graph), 0))?;
        let encoder = &settings.encoder;
        let hierarchy = encoder.hierarchy(&graph.inner, settings.first(number), monitor)?;
        let (clip, scratch) = (&encoder.max_distance, &mut Scratch::default());
        let limit = encoder.limit;
        let tables =
            Distances::with_scratch(&graph.inner, &hierarchy, clip, limit, scratch, monitor)?;
        Ok((graph, hierarchy, tables, Made::of(encoder)))
    });
    let (graph, hierarchy, tables, made) = done.map_err(|e| raised.or(e))?;
    let encoding = Encoding::empty(graph, made, limit);
    let _ = encoding.hierarchy.set(Arc::new(hierarchy));
    let _ = encoding.tables.set(tables);
    Ok(encoding)
}
