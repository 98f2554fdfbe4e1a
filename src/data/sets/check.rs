//! Whether samples hold what their set says, and the one form that models read.
//!
//! Public copies of a set differ: one-hot rows or the class itself, coordinates among the features or in a
//! column of their own, whole numbers written as real ones. What means the same becomes the same here;
//! everything else is an error that names split, row and node.

use rayon::prelude::*;

use super::{Columns, Entry, Level, Parts, Target, Task};
use crate::data::{Matrix, Sample, Values};
use crate::{Error, Result};

/// Files of a split in order, each with its number of rows.
pub(super) type Rows = Vec<(String, usize)>;

/// What is wrong with files: told together, so that they can be mended in one go.
#[derive(Default)]
pub(in crate::data) struct Problems {
    first: Vec<Error>,
    count: usize,
}

impl Problems {
    /// As many are told as fit on a screen.
    const TOLD: usize = 20;

    pub(in crate::data) fn push(&mut self, problem: Error) {
        self.count += 1;
        if self.first.len() < Problems::TOLD {
            self.first.push(problem);
        }
    }

    /// An error if there are any.
    pub(in crate::data) fn into_result(mut self) -> Result<()> {
        match self.count {
            0 => Ok(()),
            1 => Err(self.first.remove(0)),
            count => {
                let mut text = format!("{count} problems");
                self.first.iter().for_each(|problem| text += &format!("\n  {problem:#}"));
                if count > self.first.len() {
                    text += &format!("\n  and {} more", count - self.first.len());
                }
                Err(Error::data(text))
            }
        }
    }
}

/// Checks every sample of the three splits; `rows` says which files they are from.
pub(super) fn every(
    parts: &mut Parts,
    rows: &[Rows; 3],
    problems: &mut Problems,
    check: impl Fn(&mut Sample) -> Result<()> + Sync,
) {
    for (part, rows) in parts.iter_mut().zip(rows) {
        let found: Vec<(usize, Error)> = part
            .par_iter_mut()
            .enumerate()
            .filter_map(|(row, sample)| Some((row, check(sample).err()?)))
            .collect();
        for (row, problem) in found {
            problems.push(problem.context(place(row, rows)));
        }
    }
}

/// The file and row of a sample.
fn place(mut row: usize, rows: &Rows) -> String {
    for (file, count) in rows {
        if row < *count {
            return format!("{file}: row {row} (from 0)");
        }
        row -= count;
    }
    format!("row {row} (from 0)")
}

/// A sample of a listed set: the features its entry declares, and targets of its task.
pub(super) fn listed(sample: &mut Sample, entry: &Entry) -> Result<()> {
    let (nodes, arcs) = (sample.graph.num_nodes(), sample.edges.sources.len());
    let node_feat = sample.node_feat.take();
    sample.node_feat = features(node_feat, sample.pos.as_ref(), entry.nodes, nodes, "node")?;
    sample.edge_attr = features(sample.edge_attr.take(), None, entry.arcs, arcs, "arc")?;
    check_finite(sample.pos.as_ref(), "node", "coordinate")?;
    targets(sample, entry.task)
}

/// A sample of any set: finite features, targets of the task.
pub(super) fn any(sample: &mut Sample, task: Task) -> Result<()> {
    check_finite(sample.node_feat.as_ref(), "node", "feature")?;
    check_finite(sample.edge_attr.as_ref(), "arc", "feature")?;
    check_finite(sample.pos.as_ref(), "node", "coordinate")?;
    targets(sample, task)
}

/// Rows of numbers in the form of `columns`; `of` is what a row belongs to.
fn features(
    given: Option<Matrix>,
    positions: Option<&Matrix>,
    columns: Columns,
    rows: usize,
    of: &str,
) -> Result<Option<Matrix>> {
    let width = columns.width();
    if columns == Columns::None {
        return Ok(None);
    }
    if rows == 0 {
        return Ok(Some(Matrix { width, values: empty(columns) }));
    }
    let Some(given) = given else {
        let column = if of == "node" { "node_feat" } else { "edge_attr" };
        return Err(Error::data(format!("no column `{column}`; the set has {width} per {of}")));
    };
    let wrong_width = || {
        Error::data(format!(
            "{} feature(s) per {of}, but the set has {width}; is it another set?",
            given.width
        ))
    };
    let values = match columns {
        Columns::None => return Ok(None),
        Columns::Types(counts) if given.width == width => {
            Values::Int(types(given.values, counts, of)?)
        }
        Columns::OneHot(_) if given.width == 1 => {
            let types = types(given.values, &[width], of)?;
            let one_hot = |kind| (0..width as i64).map(move |column| i64::from(column == kind));
            Values::Int(types.into_iter().flat_map(one_hot).collect())
        }
        Columns::OneHot(_) if given.width == width => {
            Values::Int(one_hot(given.values, width, of)?)
        }
        Columns::Reals(_) => {
            let matrix = match positions {
                _ if given.width == width => {
                    Matrix { width, values: Values::Float(given.values.to_floats()) }
                }
                Some(positions) if given.width + positions.width == width => {
                    given.beside(positions, rows)
                }
                _ => return Err(wrong_width()),
            };
            check_finite(Some(&matrix), of, "feature")?;
            return Ok(Some(matrix));
        }
        _ => return Err(wrong_width()),
    };
    Ok(Some(Matrix { width, values }))
}

fn empty(columns: Columns) -> Values {
    match columns {
        Columns::Reals(_) => Values::Float(Vec::new()),
        _ => Values::Int(Vec::new()),
    }
}

/// Whole numbers, each below the count of its column.
fn types(values: Values, counts: &[usize], of: &str) -> Result<Vec<i64>> {
    let types = whole(values).map_err(|(place, value)| {
        let (row, column) = (place / counts.len(), place % counts.len());
        Error::data(format!("{of} {row} has type {value} in column {column}; types are whole"))
    })?;
    let wrong = types
        .iter()
        .enumerate()
        .find(|&(place, &kind)| kind < 0 || kind >= counts[place % counts.len()] as i64);
    match wrong {
        None => Ok(types),
        Some((place, kind)) => {
            let (row, column) = (place / counts.len(), place % counts.len());
            Err(Error::data(format!(
                "{of} {row} has type {kind} in column {column}; types run from 0 to {}",
                counts[column] - 1
            )))
        }
    }
}

/// Rows that hold a one among zeros.
fn one_hot(values: Values, width: usize, of: &str) -> Result<Vec<i64>> {
    let wrong = |row: usize| {
        Error::data(format!("the features of {of} {row} are not a one among {} zeros", width - 1))
    };
    let values = whole(values).map_err(|(place, _)| wrong(place / width))?;
    let is_one_hot = |row: &[i64]| {
        row.iter().all(|&value| value == 0 || value == 1) && row.iter().sum::<i64>() == 1
    };
    match values.chunks(width).position(|row| !is_one_hot(row)) {
        Some(row) => Err(wrong(row)),
        None => Ok(values),
    }
}

/// The numbers as whole ones, or the first that is not, with its place.
fn whole(values: Values) -> Result<Vec<i64>, (usize, f32)> {
    // Above this, not every whole number has a float.
    const LARGEST: f32 = (1 << 24) as f32;
    match values {
        Values::Int(values) => Ok(values),
        Values::Float(values) => {
            let convert = |(place, &value): (usize, &f32)| match value {
                _ if value.fract() == 0.0 && value.abs() <= LARGEST => Ok(value as i64),
                _ => Err((place, value)),
            };
            values.iter().enumerate().map(convert).collect()
        }
    }
}

fn check_finite(matrix: Option<&Matrix>, of: &str, what: &str) -> Result<()> {
    let Some(Matrix { width, values: Values::Float(values) }) = matrix else { return Ok(()) };
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(place) => Err(Error::data(format!(
            "{of} {} has {what} {} in column {}; numbers must be finite",
            place / width,
            values[place],
            place % width
        ))),
    }
}

/// Targets of the right number, kind and range; classes become whole numbers.
fn targets(sample: &mut Sample, task: Task) -> Result<()> {
    let rows = match task.level {
        Level::Graph => 1,
        Level::Node => sample.graph.num_nodes(),
    };
    let of = |place: usize| match task.level {
        Level::Graph => "the graph".to_string(),
        Level::Node => format!("node {}", place / task.target.width()),
    };
    let expected = rows * task.target.width();
    let Some(targets) = sample.y.take() else {
        return Err(Error::data(format!("no targets: column `y` is missing; it needs {task}")));
    };
    if targets.len() != expected {
        let nodes = sample.graph.num_nodes();
        return Err(Error::data(format!(
            "`y` has {} number(s), but {task}, with {nodes} nodes, needs {expected}",
            targets.len()
        )));
    }
    sample.y = Some(match task.target {
        Target::Regression(width) => {
            let targets = targets.to_floats();
            if let Some(place) = targets.iter().position(|target| !target.is_finite()) {
                return Err(Error::data(format!(
                    "target {} of {} is {}; it must be finite",
                    place % width,
                    of(place),
                    targets[place]
                )));
            }
            Values::Float(targets)
        }
        Target::Classes(count) => {
            let range = format!("classes are whole, from 0 to {}", count - 1);
            let classes = whole(targets)
                .map_err(|(place, class)| format!("{} has class {class}; {range}", of(place)))
                .map_err(Error::data)?;
            if let Some(place) = classes.iter().position(|&c| c < 0 || c >= count as i64) {
                let message = format!("{} has class {}; {range}", of(place), classes[place]);
                return Err(Error::data(message));
            }
            Values::Int(classes)
        }
        Target::Labels(width) => {
            let labels = targets.to_floats();
            let wrong = |label: &f32| *label != 0.0 && *label != 1.0 && !label.is_nan();
            if let Some(place) = labels.iter().position(wrong) {
                return Err(Error::data(format!(
                    "label {} of {} is {}; labels are 0 or 1, or NaN if missing",
                    place % width,
                    of(place),
                    labels[place]
                )));
            }
            if labels.iter().all(|label| label.is_nan()) {
                return Err(Error::data("none of its labels is known; leave the graph out"));
            }
            Values::Float(labels)
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Dataset as _, SPLITS, block_model, molecules, superpixels};
    use super::*;
    use crate::data::{ReadOptions, read_bytes};

    /// A path of three nodes with other columns, checked.
    fn path(entry: &Entry, columns: &str) -> Result<Sample> {
        let text = format!(r#"{{"num_nodes": 3, "edge_index": [[0, 1], [1, 2]], {columns}}}"#);
        let set = read_bytes("a.jsonl", text.into(), &ReadOptions::default())?;
        let mut parts = [set.samples, Vec::new(), Vec::new()];
        let rows = SPLITS.map(|split| vec![(split.to_string(), 1)]);
        let mut problems = Problems::default();
        every(&mut parts, &rows, &mut problems, |sample| listed(sample, entry));
        problems.into_result()?;
        Ok(parts[0].remove(0))
    }

    #[test]
    fn classes_and_one_hot_rows_become_the_same() {
        let entry = block_model::PATTERN.entry();
        let expected =
            Some(Matrix { width: 3, values: Values::Int(vec![0, 0, 1, 1, 0, 0, 0, 1, 0]) });
        for columns in [
            r#""node_feat": [[2], [0], [1]], "y": [0, 1, 0]"#,
            r#""node_feat": [2, 0, 1], "y": [0.0, 1.0, 0.0]"#,
            r#""node_feat": [[0, 0, 1], [1, 0, 0], [0, 1, 0]], "y": [0, 1, 0]"#,
            r#""node_feat": [[0.0, 0, 1], [1, 0, 0], [0, 1, 0]], "edge_attr": [[1], [1]], "y": [0, 1, 0]"#,
        ] {
            let sample = path(entry, columns).unwrap();
            assert_eq!(sample.node_feat, expected, "{columns}");
            assert_eq!(sample.edge_attr, None, "{columns}");
            assert_eq!(sample.y, Some(Values::Int(vec![0, 1, 0])), "{columns}");
        }
    }

    #[test]
    fn coordinates_may_lie_apart() {
        let entry = superpixels::MNIST.entry();
        let apart = r#""node_feat": [[0.5], [1], [0]], "pos": [[0, 1], [2, 3], [4, 5]], "edge_attr": [[1], [1]], "y": 7"#;
        let among =
            r#""node_feat": [[0.5, 0, 1], [1, 2, 3], [0, 4, 5]], "edge_attr": [1, 1], "y": [7]"#;
        let (apart, among) = (path(entry, apart).unwrap(), path(entry, among).unwrap());
        assert_eq!(apart.node_feat, among.node_feat);
        assert_eq!(apart.edge_attr, among.edge_attr);
        assert!(matches!(among.edge_attr.unwrap().values, Values::Float(_)));
    }

    #[test]
    fn missing_labels_are_kept() {
        let columns = format!(
            r#""node_feat": {:?}, "edge_attr": {:?}, "y": [0, 1, null, 0, 0, 0, 0, 0, 0, 1]"#,
            [[0; 9]; 3], [[0; 3]; 2]
        );
        let sample = path(molecules::PEPTIDES_FUNC.entry(), &columns).unwrap();
        let Some(Values::Float(labels)) = sample.y else { panic!("not floats") };
        assert!(labels[2].is_nan());
        assert_eq!(labels.iter().filter(|&&label| label == 1.0).count(), 2);
    }

    #[test]
    fn mistakes_name_row_and_node() {
        let (pattern, zinc) = (block_model::PATTERN.entry(), molecules::ZINC.entry());
        let mnist = superpixels::MNIST.entry();
        for (entry, columns, expected) in [
            (
                pattern,
                r#""node_feat": [2, 0, 1], "y": [0, 1, 2]"#,
                "train: row 0 (from 0): node 2 has class 2; classes are whole, from 0 to 1",
            ),
            (pattern, r#""node_feat": [2, 0, 1], "y": [0, 0.5, 1]"#, "node 1 has class 0.5"),
            (
                pattern,
                r#""node_feat": [2, 0, 3], "y": [0, 1, 1]"#,
                "node 2 has type 3 in column 0; types run from 0 to 2",
            ),
            (
                pattern,
                r#""node_feat": [[1, 0, 0], [1, 1, 0], [0, 0, 1]], "y": [0, 1, 1]"#,
                "features of node 1 are not a one among 2 zeros",
            ),
            (
                pattern,
                r#""node_feat": [2, 0, 1], "y": [0, 1]"#,
                "`y` has 2 number(s), but one of 2 classes per node, with 3 nodes, needs 3",
            ),
            (pattern, r#""node_feat": [2, 0, 1]"#, "column `y` is missing"),
            (pattern, r#""y": [0, 1, 1]"#, "no column `node_feat`; the set has 3 per node"),
            (
                pattern,
                r#""node_feat": [[1, 2], [1, 2], [1, 2]], "y": [0, 1, 1]"#,
                "2 feature(s) per node, but the set has 3",
            ),
            (
                zinc,
                r#""node_feat": [0, 28, 1], "edge_attr": [1, 1], "y": 0.5"#,
                "node 1 has type 28",
            ),
            (
                zinc,
                r#""node_feat": [0, 2, 1], "edge_attr": [1, -1], "y": 0.5"#,
                "arc 1 has type -1",
            ),
            (
                zinc,
                r#""node_feat": [0, 2.5, 1], "edge_attr": [1, 1], "y": 0.5"#,
                "node 1 has type 2.5 in column 0; types are whole",
            ),
            (
                zinc,
                r#""node_feat": [0, 2, 1], "edge_attr": [1, 1], "y": [null]"#,
                "target 0 of the graph is NaN",
            ),
            (
                mnist,
                r#""node_feat": [[0, 1, 2], [0, 1e60, 2], [0, 1, 2]], "edge_attr": [1, 1], "y": 3"#,
                "node 1 has feature inf in column 1",
            ),
            (
                mnist,
                r#""node_feat": [[0, 1, 2], [0, 1, 2], [0, 1, 2]], "edge_attr": [1, 1], "y": 10"#,
                "the graph has class 10",
            ),
        ] {
            let error = path(entry, columns).unwrap_err();
            assert!(error.is_data());
            assert!(format!("{error:#}").contains(expected), "{columns}: {error:#}");
        }
    }

    #[test]
    fn problems_are_told_together() {
        let rows: [Rows; 3] =
            [vec![("a".into(), 2), ("b".into(), 40)], vec![("v".into(), 1)], vec![("t".into(), 1)]];
        let line = r#"{"num_nodes": 1, "edge_index": [[], []], "y": 0}"#.to_string() + "\n";
        let samples = |count: usize| {
            let text = line.repeat(count);
            read_bytes("a.jsonl", text.into(), &ReadOptions::default()).unwrap().samples
        };
        let tell = |wrong: fn(usize) -> bool| {
            let mut parts = [samples(42), samples(1), samples(1)];
            for (i, sample) in parts.iter_mut().flatten().enumerate() {
                sample.y = Some(Values::Int(vec![i as i64]));
            }
            let mut problems = Problems::default();
            every(&mut parts, &rows, &mut problems, |sample| match &sample.y {
                Some(Values::Int(y)) if wrong(y[0] as usize) => Err(Error::data("bad")),
                _ => Ok(()),
            });
            problems.into_result().map_err(|error| format!("{error:#}"))
        };
        assert_eq!(tell(|_| false), Ok(()));
        assert_eq!(tell(|i| i == 3), Err("b: row 1 (from 0): bad".into()));
        let expected = "3 problems\n  a: row 0 (from 0): bad\n  b: row 0 (from 0): bad\n  \
                        t: row 0 (from 0): bad";
        assert_eq!(tell(|i| [0, 2, 43].contains(&i)), Err(expected.into()));
        let all = tell(|_| true).unwrap_err();
        assert!(all.starts_with("44 problems\n"), "{all}");
        assert!(all.ends_with("b: row 17 (from 0): bad\n  and 24 more"), "{all}");
    }
}
