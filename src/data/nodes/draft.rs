//! From what a loader finds to a [`NodeSet`]: everything is checked together, in one place.

use std::sync::Arc;

use rayon::prelude::*;

use super::{Features, NodeSet, Split, features};
use crate::data::numpy::Array;
use crate::data::sets::{Level, Problems, Target, Task};
use crate::data::{Edges, Matrix, Values};
use crate::graph::MAX_NODES;
use crate::{Error, Graph, MemoryLimit, Result};

/// A set as a loader finds it, before it is checked.
pub(super) struct Draft {
    pub(super) nodes: usize,
    pub(super) edges: Edges,
    pub(super) directed: bool,
    pub(super) edge_attr: Option<Matrix>,
    pub(super) features: Features,
    pub(super) y: Values,
    /// Labels per node; nothing if targets are classes.
    pub(super) labels: Option<usize>,
    pub(super) years: Option<Vec<i64>>,
    pub(super) species: Option<Vec<i64>>,
    pub(super) splits: Vec<(String, [Vec<u32>; 3])>,
    pub(super) hash: String,
}

impl Draft {
    /// Checks everything, and tells what is wrong together.
    pub(super) fn finish(self, limit: MemoryLimit) -> Result<NodeSet> {
        let (nodes, edges) = (self.nodes, &self.edges);
        let arcs = edges.sources.len();
        if nodes == 0 || nodes > MAX_NODES {
            return Err(Error::data(format!("a graph of {nodes} nodes")));
        }
        limit.check(
            (nodes as u128 + arcs as u128) * 16,
            &format!("a graph of {nodes} nodes and {arcs} arcs"),
            "raise `--max-memory`, or load it on a larger machine",
        )?;
        let mut problems = Problems::default();
        let mut rows = |what: &str, found: Option<usize>, wanted: usize| {
            if let Some(found) = found.filter(|&found| found != wanted) {
                problems.push(Error::data(format!("{found} {what} for {wanted}")));
            }
        };
        let widest = |matrix: &Matrix| matrix.values.len() / matrix.width.max(1);
        let features = match &self.features {
            Features::None => None,
            Features::Dense(matrix) => Some(widest(matrix)),
            Features::Sparse(sparse) => Some(sparse.rows()),
        };
        rows("rows of features of nodes", features, nodes);
        rows("targets", Some(self.y.len()), nodes * self.labels.unwrap_or(1));
        rows("years of nodes", self.years.as_ref().map(Vec::len), nodes);
        rows("species of nodes", self.species.as_ref().map(Vec::len), nodes);
        rows("rows of features of arcs", self.edge_attr.as_ref().map(widest), arcs);
        rows("targets of arcs", Some(edges.targets.len()), arcs);
        let ends = || edges.sources.iter().zip(&edges.targets).enumerate();
        for (arc, (u, v)) in ends().filter(|(_, (u, v))| **u.max(v) as usize >= nodes) {
            problems.push(Error::data(format!(
                "arc {arc} ({u} → {v}) is out of range for {nodes} nodes"
            )));
        }
        if let Some((node, column)) = self.features.not_finite() {
            problems.push(Error::data(format!(
                "feature {column} of node {node} is not a finite number"
            )));
        }
        if let Some((arc, column)) = self.edge_attr.as_ref().and_then(features::not_finite) {
            problems
                .push(Error::data(format!("feature {column} of arc {arc} is not a finite number")));
        }
        let (y, target) = targets(self.y, self.labels, &mut problems);
        let mut splits = Vec::new();
        for (name, parts) in self.splits {
            match Split::new(name, parts, nodes) {
                Ok(split) => splits.push(split),
                Err(problem) => problems.push(problem),
            }
        }
        problems.into_result()?;
        let ends = || edges.sources.par_iter().zip(&edges.targets);
        let stream = || ends().map(|(&u, &v)| (u, v, 1.0));
        let (graph, repairs) = Graph::from_stream(nodes, false, stream)?;
        Ok(NodeSet {
            edges: self.edges,
            directed: self.directed,
            edge_attr: self.edge_attr,
            graph: Arc::new(graph),
            repairs,
            features: self.features,
            y,
            task: Task { level: Level::Node, target },
            years: self.years,
            species: self.species,
            splits,
            label: None,
            hash: self.hash,
        })
    }
}

/// The arcs of an array of pairs, a row per arc, or a row of sources and one of targets.
pub(super) fn arcs(array: Array, by_rows: bool) -> Result<Edges> {
    let Values::Int(ids) = array.values else {
        return Err(Error::data("arcs are not whole numbers"));
    };
    let id = |id: i64| match u32::try_from(id) {
        Ok(id) if (id as usize) < MAX_NODES => Ok(id),
        _ => Err(Error::data(format!("{id} is no node id"))),
    };
    match (by_rows, &array.shape[..]) {
        (true, [_, 2]) => Ok(Edges {
            sources: ids.iter().step_by(2).map(|&u| id(u)).collect::<Result<_>>()?,
            targets: ids.iter().skip(1).step_by(2).map(|&v| id(v)).collect::<Result<_>>()?,
        }),
        (false, [2, count]) => Ok(Edges {
            sources: ids[..*count].iter().map(|&u| id(u)).collect::<Result<_>>()?,
            targets: ids[*count..].iter().map(|&v| id(v)).collect::<Result<_>>()?,
        }),
        (_, shape) => Err(Error::data(format!("arcs of shape {shape:?}"))),
    }
}

/// An array of two axes as rows.
pub(super) fn matrix(array: Array) -> Result<Matrix> {
    match array.shape[..] {
        [_, width] => Ok(Matrix { width, values: array.values }),
        _ => Err(Error::data(format!("an array of shape {:?}; rows have two axes", array.shape))),
    }
}

/// A whole number of every node.
pub(super) fn column(array: Array) -> Result<Vec<i64>> {
    if let Some(&width) = array.shape.get(1).filter(|&&width| width != 1) {
        return Err(Error::data(format!("{width} columns where one should be")));
    }
    match array.values {
        Values::Int(values) => Ok(values),
        Values::Float(_) => Err(Error::data("real numbers where whole ones should be")),
    }
}

/// Targets of an array and how many labels a node has, if it has labels: a single column is of classes.
pub(super) fn labels(array: Array) -> (Values, Option<usize>) {
    let width = array.shape.get(1).copied().filter(|&width| width > 1);
    (array.values, width)
}

/// Targets in the one form that models read.
fn targets(y: Values, labels: Option<usize>, problems: &mut Problems) -> (Values, Target) {
    if let Some(width) = labels {
        let labels = y.to_floats();
        let wrong = |x: f32| x != 0.0 && x != 1.0 && !x.is_nan();
        for (at, &x) in labels.iter().enumerate().filter(|&(_, &x)| wrong(x)) {
            let (node, label) = (at / width, at % width);
            problems.push(Error::data(format!(
                "label {label} of node {node} is {x}; labels are 0, 1 or missing"
            )));
        }
        return (Values::Float(labels), Target::Labels(width));
    }
    let mut classes = Vec::with_capacity(y.len());
    let mut class = |node: usize, class: Option<i64>, x: &dyn std::fmt::Display| {
        // Far more classes than any set has: a column of something else.
        let sound = class.filter(|class| (-1..1 << 20).contains(class));
        if sound.is_none() {
            problems.push(Error::data(format!(
                "node {node} has class {x}; classes are whole, from 0, or -1 if unknown"
            )));
        }
        classes.push(sound.unwrap_or(-1));
    };
    match &y {
        Values::Int(y) => y.iter().enumerate().for_each(|(node, x)| class(node, Some(*x), x)),
        Values::Float(y) => y.iter().enumerate().for_each(|(node, x)| match *x {
            x if x.is_nan() => class(node, Some(-1), &x),
            x => class(node, (x.fract() == 0.0).then_some(x as i64), &x),
        }),
    }
    let count = classes.iter().max().map_or(0, |&last| (last + 1) as usize);
    if count == 0 {
        problems.push(Error::data("no node has a class"));
    }
    (Values::Int(classes), Target::Classes(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft() -> Draft {
        Draft {
            nodes: 4,
            edges: Edges { sources: vec![0, 1, 2], targets: vec![1, 2, 2] },
            directed: false,
            edge_attr: None,
            features: Features::None,
            y: Values::Int(vec![0, 1, -1, 1]),
            labels: None,
            years: None,
            species: None,
            splits: vec![("a".into(), [vec![0], vec![1], vec![3]])],
            hash: String::new(),
        }
    }

    fn explain(change: fn(&mut Draft)) -> String {
        let mut draft = draft();
        change(&mut draft);
        format!("{:#}", draft.finish(MemoryLimit::NONE).unwrap_err())
    }

    #[test]
    fn a_sound_set_is_taken() {
        let set = draft().finish(MemoryLimit::NONE).unwrap();
        assert_eq!((set.num_nodes(), set.graph.num_edges()), (4, 2));
        assert_eq!((set.repairs.self_loops, set.unlabelled()), (1, 1));
        assert_eq!(set.histogram(), [1, 2]);
        assert_eq!(set.edge_homophily(), Some(0.0));
        let names = set.split("b").unwrap_err().to_string();
        assert!(names.contains("did you mean `a`?") && names.contains("random-SEED"), "{names}");
        assert_eq!(set.clone().with_unknown_as(0).histogram(), [2, 2]);
        assert_eq!(set.with_unknown_as(3).histogram(), [1, 2, 0, 1]);
        let y = Values::Float(vec![1.0, f32::NAN, 0.0, 3.0]);
        let set = Draft { y, ..draft() }.finish(MemoryLimit::NONE).unwrap();
        assert_eq!(set.classes(), Some(&[1, -1, 0, 3][..]));
    }

    #[test]
    fn what_is_wrong_is_told_together() {
        let all = explain(|draft| {
            draft.edges.targets[1] = 9;
            draft.y = Values::Float(vec![0.5, 1.0, -2.0]);
            draft.years = Some(vec![1999]);
            draft.features =
                Features::Dense(Matrix { width: 1, values: Values::Float(vec![f32::NAN; 4]) });
            draft.splits[0].1[2] = vec![0];
        });
        for part in [
            "7 problems",
            "3 targets for 4",
            "1 years of nodes for 4",
            "arc 1 (1 → 9) is out of range for 4 nodes",
            "feature 0 of node 0 is not a finite number",
            "node 0 has class 0.5",
            "node 2 has class -2",
            "split `a`: node 0 is in train and again in test",
        ] {
            assert!(all.contains(part), "{part}: {all}");
        }
        assert!(
            explain(|draft| draft.y = Values::Int(vec![-1; 4])).contains("no node has a class")
        );
        let labels = explain(|draft| {
            (draft.labels, draft.y) = (Some(2), Values::Int(vec![0, 1, 0, 1, 0, 2, 0, 0]));
        });
        assert_eq!(labels, "label 1 of node 2 is 2; labels are 0, 1 or missing");
    }
}
