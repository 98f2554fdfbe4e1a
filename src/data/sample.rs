//! One graph of a set, with everything a model needs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::graph::{MAX_NODES, Repairs};
use crate::{Error, Graph, MemoryLimit, Result};

/// One graph of a set. Arcs as given and the undirected view are two things: message passing uses
/// `edges`, in the order given and possibly one-way; hierarchy and distances use `graph`.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Arcs exactly as given.
    pub edges: Edges,
    /// Features of arcs, one row per arc.
    pub edge_attr: Option<Matrix>,
    /// The undirected simple graph.
    pub graph: Arc<Graph>,
    /// What had to be mended to make `graph` of `edges`.
    pub repairs: Repairs,
    /// Features of nodes, one row per node.
    pub node_feat: Option<Matrix>,
    /// Coordinates of nodes, one row per node.
    pub pos: Option<Matrix>,
    /// Targets: of the graph, or one per node.
    pub y: Option<Values>,
}

/// Arcs from sources to targets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edges {
    /// Where each arc starts.
    pub sources: Vec<u32>,
    /// Where it ends.
    pub targets: Vec<u32>,
}

/// Rows of equal width.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// Numbers per row.
    pub width: usize,
    /// All rows, one after another.
    pub values: Values,
}

impl Matrix {
    /// The rows of `other` behind those here, so many rows, as real numbers.
    pub(crate) fn beside(&self, other: &Matrix, rows: usize) -> Matrix {
        let (left, right) = (self.values.to_floats(), other.values.to_floats());
        let row = |row: usize| {
            let left = &left[row * self.width..][..self.width];
            left.iter().chain(&right[row * other.width..][..other.width])
        };
        let values = (0..rows).flat_map(row).copied().collect();
        Matrix { width: self.width + other.width, values: Values::Float(values) }
    }
}

/// Whole or real numbers, as the input has them.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Whole numbers: types, classes.
    Int(Vec<i64>),
    /// Real numbers.
    Float(Vec<f32>),
}

impl Values {
    /// How many numbers.
    pub fn len(&self) -> usize {
        match self {
            Values::Int(v) => v.len(),
            Values::Float(v) => v.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the numbers.
    pub fn bytes(&self) -> u128 {
        match self {
            Values::Int(v) => size_of_val(&v[..]) as u128,
            Values::Float(v) => size_of_val(&v[..]) as u128,
        }
    }

    /// The numbers as real ones.
    pub fn to_floats(&self) -> Vec<f32> {
        match self {
            Values::Int(v) => v.iter().map(|&x| x as f32).collect(),
            Values::Float(v) => v.clone(),
        }
    }
}

/// Numbers of one row, before they are checked.
#[derive(Clone, Copy)]
pub(super) enum Numbers<'a> {
    Int(&'a [i64]),
    Float(&'a [f32]),
}

impl Numbers<'_> {
    fn slice(&self, range: std::ops::Range<usize>) -> Values {
        match self {
            Numbers::Int(v) => Values::Int(v[range].to_vec()),
            Numbers::Float(v) => Values::Float(v[range].to_vec()),
        }
    }

    pub(super) fn to_values(self) -> Values {
        match self {
            Numbers::Int(v) => Values::Int(v.to_vec()),
            Numbers::Float(v) => Values::Float(v.to_vec()),
        }
    }
}

/// Lists of numbers: list i is `values[offsets[i]..offsets[i + 1]]`.
#[derive(Clone, Copy)]
pub(super) struct Lists<'a> {
    pub offsets: &'a [usize],
    pub values: Numbers<'a>,
}

impl Lists<'_> {
    fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The lists as rows of a matrix.
    fn matrix(&self, column: &str, rows: usize, of: &str) -> Result<Matrix> {
        if self.len() != rows {
            return Err(Error::data(format!(
                "`{column}` has {} rows, but there are {rows} {of}; give each its row",
                self.len()
            )));
        }
        let width = self.offsets.get(1).map_or(0, |&end| end - self.offsets[0]);
        if let Some(row) = self.offsets.windows(2).position(|w| w[1] - w[0] != width) {
            return Err(Error::data(format!(
                "row {row} of `{column}` has {} numbers, the first has {width}; rows must be \
                 equally long",
                self.offsets[row + 1] - self.offsets[row]
            )));
        }
        let range = self.offsets[0]..self.offsets[self.len()];
        Ok(Matrix { width, values: self.values.slice(range) })
    }
}

/// One row of a graph set, as a reader finds it.
pub(super) struct Row<'a> {
    pub num_nodes: i64,
    pub edge_index: Lists<'a>,
    pub node_feat: Option<Lists<'a>>,
    pub edge_attr: Option<Lists<'a>>,
    pub pos: Option<Lists<'a>>,
    pub y: Option<Numbers<'a>>,
}

/// A node count that a file states, if it is possible.
pub(super) fn check_num_nodes(num_nodes: i64) -> Result<usize> {
    match num_nodes {
        0 => Err(Error::data("`num_nodes` is 0; a graph needs at least one node")),
        n if n < 0 || n as u64 > MAX_NODES as u64 => {
            Err(Error::data(format!("`num_nodes` is {n}; it must lie between 1 and {MAX_NODES}")))
        }
        n => Ok(n as usize),
    }
}

/// Nodes of all graphs read so far, against the memory limit: a file may state more nodes than any
/// machine holds, in one graph or in many.
#[derive(Default)]
pub(super) struct NodeBudget(AtomicU64);

impl NodeBudget {
    pub(super) fn take(&self, nodes: usize, limit: MemoryLimit) -> Result<()> {
        let all = self.0.fetch_add(nodes as u64, Relaxed).saturating_add(nodes as u64);
        limit.check(
            u128::from(all) * 16,
            &format!("a set of at least {all} nodes"),
            "check `num_nodes`, encode it in parts with `--shard`, or raise `--max-memory`",
        )
    }
}

impl Row<'_> {
    /// Checks everything and builds the undirected graph.
    pub(super) fn into_sample(self) -> Result<Sample> {
        let num_nodes = check_num_nodes(self.num_nodes)?;
        let lists = self.edge_index;
        if lists.len() != 2 {
            return Err(Error::data(format!(
                "`edge_index` has {} inner lists; it needs two, sources and targets",
                lists.len()
            )));
        }
        let Numbers::Int(ids) = lists.values else {
            return Err(Error::data("`edge_index` holds real numbers; ids must be whole"));
        };
        let sources = &ids[lists.offsets[0]..lists.offsets[1]];
        let targets = &ids[lists.offsets[1]..lists.offsets[2]];
        if sources.len() != targets.len() {
            return Err(Error::data(format!(
                "`edge_index` has {} sources and {} targets; the two lists must be equally long",
                sources.len(),
                targets.len()
            )));
        }
        let mut edges = Edges::default();
        let mut pairs = Vec::with_capacity(sources.len());
        for (i, (&u, &v)) in sources.iter().zip(targets).enumerate() {
            let valid = |id: i64| id >= 0 && id < num_nodes as i64;
            if !valid(u) || !valid(v) {
                return Err(Error::data(format!(
                    "edge {i} ({u}, {v}) is out of range: with {num_nodes} nodes, ids run from 0 \
                     to {}",
                    num_nodes - 1
                )));
            }
            pairs.push((u as u32, v as u32));
        }
        (edges.sources, edges.targets) = pairs.iter().copied().unzip();
        let (graph, repairs) = Graph::from_pairs(num_nodes, &pairs)?;
        let nodes =
            |column: &'static str| move |lists: Lists<'_>| lists.matrix(column, num_nodes, "nodes");
        let num_edges = pairs.len();
        Ok(Sample {
            edges,
            edge_attr: self
                .edge_attr
                .map(|lists| lists.matrix("edge_attr", num_edges, "edges"))
                .transpose()?,
            graph: Arc::new(graph),
            repairs,
            node_feat: self.node_feat.map(nodes("node_feat")).transpose()?,
            pos: self.pos.map(nodes("pos")).transpose()?,
            y: self.y.map(Numbers::to_values),
        })
    }
}

impl Sample {
    /// A sample that is a graph and its arcs only.
    pub(super) fn bare(edges: Edges, graph: Graph, repairs: Repairs) -> Sample {
        Sample {
            edges,
            edge_attr: None,
            graph: Arc::new(graph),
            repairs,
            node_feat: None,
            pos: None,
            y: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arcs_stay_as_given() {
        let row = Row {
            num_nodes: 3,
            edge_index: Lists { offsets: &[0, 3, 6], values: Numbers::Int(&[2, 0, 0, 1, 1, 1]) },
            node_feat: Some(Lists {
                offsets: &[0, 1, 2, 3],
                values: Numbers::Float(&[0.5, 1.5, 2.5]),
            }),
            edge_attr: Some(Lists { offsets: &[0, 1, 2, 3], values: Numbers::Int(&[7, 8, 9]) }),
            pos: None,
            y: Some(Numbers::Float(&[0.25])),
        };
        let sample = row.into_sample().unwrap();
        assert_eq!(sample.edges.sources, [2, 0, 0]);
        assert_eq!(sample.edges.targets, [1, 1, 1]);
        assert_eq!(sample.graph.num_edges(), 2);
        assert_eq!(sample.repairs, Repairs { self_loops: 0, duplicates: 1, one_way: 2 });
        assert_eq!(sample.edge_attr.unwrap().values, Values::Int(vec![7, 8, 9]));
    }
}
