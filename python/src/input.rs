//! What callers pass: graphs in any form, and the options that mirror the command's.

use std::sync::Arc;

use hdse::data::{GraphSet, Sample};
use hdse::distance::MaxDistance;
use hdse::encode::{Encoder, Partitions, partitions_from_ids};
use hdse::rng::Seed;
use hdse::{MemoryLimit, Result};
use numpy::ndarray::ArrayView2;
use numpy::{PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::coarsener::{self, Raised};
use crate::error::{check, wrong};
use crate::graph::Graph;
use crate::read;

/// Requests below this many bytes are granted without asking how much memory is free.
const SMALL: u128 = 64 << 20;

/// `max_memory`, if it was given.
#[derive(Clone, Copy)]
pub struct Limit(pub Option<MemoryLimit>);

impl Limit {
    /// Takes `"8G"` or a number of bytes.
    pub fn parse(given: Option<&Bound<'_, PyAny>>) -> PyResult<Limit> {
        let Some(given) = given else { return Ok(Limit(None)) };
        let text = given.str()?.to_string();
        Ok(Limit(Some(check(MemoryLimit::parse(&text))?)))
    }

    /// What holds for a request of so many bytes.
    pub fn of(self, bytes: u128) -> MemoryLimit {
        match self.0 {
            Some(limit) => limit,
            None if bytes < SMALL => MemoryLimit::NONE,
            None => MemoryLimit::default(),
        }
    }
}

/// A graph as it was passed, before the work of building it.
pub enum Given {
    Ready(Graph),
    Pairs { num_nodes: usize, pairs: Vec<(u32, u32)>, weights: Option<Vec<f32>> },
}

impl Given {
    /// Takes a graph of this package or an int64 array directly, all else through `hdse._convert`.
    pub fn new(
        graph: &Bound<'_, PyAny>,
        num_nodes: Option<&Bound<'_, PyAny>>,
        weights: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Given> {
        let ready = match (graph.cast::<Graph>(), graph.cast::<read::Sample>()) {
            (Ok(graph), _) => Some(graph.get().clone()),
            (_, Ok(sample)) => Some(sample.get().graph()),
            _ => None,
        };
        if let Some(ready) = ready {
            let nodes = num_nodes.map_or(Ok(ready.inner.num_nodes()), |n| n.extract())?;
            if nodes != ready.inner.num_nodes() || weights.is_some() {
                return Err(wrong("a graph that is built has its nodes and weights already"));
            }
            return Ok(Given::Ready(ready));
        }
        if let (Some(num_nodes), None, Ok(array)) =
            (num_nodes, weights, graph.cast::<PyArray2<i64>>())
            && array.shape()[0] == 2
            && let Ok(num_nodes) = num_nodes.extract()
        {
            let pairs = pairs(array.readonly().as_array(), num_nodes)?;
            return Ok(Given::Pairs { num_nodes, pairs, weights: None });
        }
        let convert = graph.py().import("hdse._convert")?.getattr("arrays")?;
        let (array, num_nodes, weights): (
            PyReadonlyArray2<'_, i64>,
            usize,
            Option<PyReadonlyArray1<'_, f32>>,
        ) = convert.call1((graph, num_nodes, weights))?.extract()?;
        let pairs = pairs(array.as_array(), num_nodes)?;
        let weights = weights.map(|w| w.as_array().to_vec());
        Ok(Given::Pairs { num_nodes, pairs, weights })
    }

    pub fn num_nodes(&self) -> usize {
        match self {
            Given::Ready(graph) => graph.inner.num_nodes(),
            Given::Pairs { num_nodes, .. } => *num_nodes,
        }
    }

    /// Whether it is large enough for several threads.
    pub fn is_long(&self) -> bool {
        let entries = match self {
            Given::Ready(graph) => graph.inner.num_edges(),
            Given::Pairs { pairs, .. } => pairs.len(),
        };
        self.num_nodes() > 512 || entries > 1 << 14
    }

    /// Refuses a graph too large to be built.
    pub fn check_memory(&self, limit: Limit) -> PyResult<()> {
        let Given::Pairs { num_nodes, pairs, .. } = self else { return Ok(()) };
        let bytes = 24 * *num_nodes as u128 + 16 * pairs.len() as u128;
        check(limit.of(bytes).check(
            bytes,
            &format!("a graph of {num_nodes} nodes and {} pairs", pairs.len()),
            "is the number of nodes right? Else raise `--max-memory`",
        ))
    }

    pub fn build(self) -> Result<Graph> {
        let (inner, repairs) = match self {
            Given::Ready(graph) => return Ok(graph),
            Given::Pairs { num_nodes, pairs, weights: None } => {
                hdse::Graph::from_pairs(num_nodes, &pairs)?
            }
            Given::Pairs { num_nodes, pairs, weights: Some(weights) } => {
                hdse::Graph::from_weighted_pairs(num_nodes, &pairs, &weights)?
            }
        };
        Ok(Graph { inner: Arc::new(inner), repairs })
    }
}

/// The columns of a `[2, E]` array as pairs of ids below `num_nodes`.
pub fn pairs(array: ArrayView2<'_, i64>, num_nodes: usize) -> PyResult<Vec<(u32, u32)>> {
    let limit = num_nodes.min(hdse::graph::MAX_NODES) as u64;
    let (sources, targets) = (array.row(0), array.row(1));
    let mut pairs = Vec::with_capacity(sources.len());
    for (at, (&u, &v)) in sources.iter().zip(targets).enumerate() {
        // Negative ids become huge ones.
        if u as u64 >= limit || v as u64 >= limit {
            return Err(wrong(format!(
                "pair {at} ({u}, {v}) is out of range: with {num_nodes} nodes, ids run from 0 to {}",
                num_nodes as i64 - 1
            )));
        }
        pairs.push((u as u32, v as u32));
    }
    Ok(pairs)
}

/// Graphs as the library takes them: a set.
pub fn set_of(graphs: &[Graph], first: usize) -> GraphSet {
    let sample = |graph: &Graph| Sample {
        edges: Default::default(),
        edge_attr: None,
        graph: graph.inner.clone(),
        repairs: graph.repairs,
        node_feat: None,
        pos: None,
        y: None,
    };
    GraphSet {
        samples: graphs.iter().map(sample).collect(),
        first,
        total: first + graphs.len(),
        hash: String::new(),
        ids: None,
    }
}

/// The options that all functions share, checked.
pub struct Settings {
    pub encoder: Encoder,
    pub limit: Limit,
    pub raised: Raised,
    /// Cluster ids per level, in place of a coarsener.
    partition: Option<Vec<Vec<u64>>>,
    /// Functions of Python run one at a time in any case.
    is_function: bool,
}

/// The options as they are passed.
pub struct Options<'a, 'py> {
    pub coarsener: Option<&'a Bound<'py, PyAny>>,
    pub partition: Option<&'a Bound<'py, PyAny>>,
    pub levels: i64,
    pub max_distance: Option<&'a Bound<'py, PyAny>>,
    pub seed: Option<&'a Bound<'py, PyAny>>,
    pub max_memory: Option<&'a Bound<'py, PyAny>>,
}

impl Settings {
    pub fn new(py: Python<'_>, options: Options<'_, '_>) -> PyResult<Settings> {
        let raised = Raised::default();
        let newman = || check(hdse::coarsen::parse("newman"));
        let coarsener = options.coarsener.map_or_else(newman, |c| coarsener::parse(c, &raised))?;
        let partition = match options.partition {
            None => None,
            Some(_) if options.coarsener.is_some() => {
                return Err(wrong("give a coarsener or a partition, not both"));
            }
            Some(given) => {
                let convert = py.import("hdse._convert")?.getattr("partition")?;
                let levels: Vec<PyReadonlyArray1<'_, u64>> = convert.call1((given,))?.extract()?;
                Some(levels.iter().map(|ids| ids.as_array().to_vec()).collect::<Vec<_>>())
            }
        };
        let levels = match (&partition, options.levels) {
            (Some(given), 1) => given.len(),
            (Some(given), levels) if levels != given.len() as i64 => {
                return Err(wrong(format!(
                    "`--levels {levels}` and {} `--partition` level(s); give one per level",
                    given.len()
                )));
            }
            (_, levels @ 0..=64) => levels as usize,
            (_, levels) => {
                return Err(wrong(format!("`--levels {levels}`: take between 0 and 64")));
            }
        };
        let max_distance = options.max_distance.map_or(Ok(MaxDistance::default()), max_distance)?;
        if max_distance.len() > levels + 1 {
            return Err(wrong(format!(
                "`--max-distance` has {} values, but there are only levels 0 to {levels}",
                max_distance.len()
            )));
        }
        let seed = options.seed.map_or(Ok(0), |seed| {
            let whole =
                || wrong(format!("`--seed {seed}`: take a whole number from 0 to 2^64 - 1"));
            seed.extract().map_err(|_| whole())
        })?;
        Ok(Settings {
            encoder: Encoder {
                partitions: Partitions::Coarsener(coarsener),
                levels,
                max_distance,
                seed: Seed(seed),
                limit: MemoryLimit::NONE,
            },
            limit: Limit::parse(options.max_memory)?,
            raised,
            partition,
            is_function: options.coarsener.is_some_and(|c| c.is_callable()),
        })
    }

    /// Whether several threads are of use for work of that length.
    pub fn is_long(&self, long: bool) -> bool {
        long && !self.is_function
    }

    /// Where clusters were given, cuts them to the graphs. The set must be whole.
    pub fn give(&mut self, set: &GraphSet) -> Result<()> {
        if let Some(ids) = &self.partition {
            let of_graph = partitions_from_ids(set, ids)?;
            self.encoder.partitions = Partitions::Given { description: "given".into(), of_graph };
        }
        Ok(())
    }

    /// Given clusters are listed from the first graph on.
    pub fn first(&self, first: usize) -> usize {
        if self.partition.is_some() { 0 } else { first }
    }
}

/// One number for all levels, one per level, or text such as `"30/10"`.
pub fn max_distance(given: &Bound<'_, PyAny>) -> PyResult<MaxDistance> {
    if let Ok(text) = given.extract::<&str>() {
        return check(MaxDistance::parse(text));
    }
    let levels = match given.extract::<i64>() {
        Ok(one) => vec![one],
        Err(_) => given.extract::<Vec<i64>>()?,
    };
    // Negative numbers are refused like other wrong ones, in the same words.
    let text: Vec<String> = levels.iter().map(i64::to_string).collect();
    let levels: Option<Vec<usize>> = levels.iter().map(|&l| l.try_into().ok()).collect();
    match levels {
        Some(levels) => check(MaxDistance::new(&levels)),
        None => check(MaxDistance::parse(&text.join("/"))),
    }
}
