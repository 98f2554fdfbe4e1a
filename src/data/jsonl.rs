//! Graph sets as JSON lines: one object per graph, with the columns of the Parquet schema.
//!
//! ```text
//! {"num_nodes": 3, "edge_index": [[0, 1, 1, 2], [1, 0, 2, 1]], "node_feat": [[0], [0], [1]], "y": [0.8]}
//! ```

use rayon::prelude::*;
use serde::Deserialize;
use serde_json::Number;

use super::sample::{Lists, NodeBudget, Numbers, Row, check_num_nodes};
use super::{GraphSet, ReadOptions, Sample, Source};
use crate::error::Context as _;
use crate::{Error, Result};

#[derive(Deserialize)]
struct Line {
    num_nodes: i64,
    edge_index: Vec<Vec<i64>>,
    node_feat: Option<Vec<OneOrMany<Number>>>,
    edge_attr: Option<Vec<OneOrMany<Number>>>,
    pos: Option<Vec<OneOrMany<Number>>>,
    y: Option<OneOrMany<Option<Number>>>,
}

/// Only the graph, for when features are not wanted.
#[derive(Deserialize)]
struct Bare {
    num_nodes: i64,
    edge_index: Vec<Vec<i64>>,
}

/// A row of numbers; a row of one may be written as the number itself.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number, or a list of numbers")]
enum OneOrMany<T> {
    Many(Vec<T>),
    One(T),
}

impl<T> OneOrMany<T> {
    fn into_vec(self) -> Vec<T> {
        match self {
            OneOrMany::Many(many) => many,
            OneOrMany::One(one) => vec![one],
        }
    }
}

pub(super) fn read(source: &Source, options: &ReadOptions) -> Result<GraphSet> {
    let text = source.text()?;
    let lines: Vec<(usize, &str)> =
        text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).collect();
    let range = options.shard.map_or(0..lines.len(), |s| s.range(lines.len()));
    let all_nodes = NodeBudget::default();
    let results: Vec<Result<Sample>> = lines[range.clone()]
        .par_iter()
        .map(|&(number, line)| {
            parse(line, &all_nodes, options).context(|| format!("line {}", number + 1))
        })
        .collect();
    Ok(GraphSet {
        samples: results.into_iter().collect::<Result<_>>()?,
        first: range.start,
        total: lines.len(),
        hash: source.hash().to_string(),
        ids: None,
    })
}

fn parse(line: &str, all_nodes: &NodeBudget, options: &ReadOptions) -> Result<Sample> {
    let wrong = |e: serde_json::Error| {
        // Which line it is, the caller knows.
        let reason = e.to_string().replace(" at line 1 column", " at column");
        let nan = if line.contains("NaN") { "; JSON has no NaN" } else { "" };
        Error::data(format!(
            "{reason}{nan}; expected an object with `num_nodes` and `edge_index`, and optionally \
             `node_feat`, `edge_attr`, `pos`, `y`"
        ))
    };
    let line = if options.features {
        serde_json::from_str::<Line>(line).map_err(wrong)?
    } else {
        let Bare { num_nodes, edge_index } = serde_json::from_str(line).map_err(wrong)?;
        Line { num_nodes, edge_index, node_feat: None, edge_attr: None, pos: None, y: None }
    };
    let nodes = check_num_nodes(line.num_nodes)?;
    all_nodes.take(nodes, options.limit)?;
    let edges = Flat::ints(&line.edge_index);
    let node_feat = line.node_feat.map(Flat::numbers);
    let edge_attr = line.edge_attr.map(Flat::numbers);
    let pos = line.pos.map(Flat::numbers);
    let y = line.y.map(Flat::targets);
    Row {
        num_nodes: line.num_nodes,
        edge_index: edges.lists(),
        node_feat: node_feat.as_ref().map(Flat::lists),
        edge_attr: edge_attr.as_ref().map(Flat::lists),
        pos: pos.as_ref().map(Flat::lists),
        y: y.as_ref().map(|y| y.lists().values),
    }
    .into_sample()
}

/// Nested lists laid end to end.
struct Flat {
    offsets: Vec<usize>,
    values: super::Values,
}

impl Flat {
    fn offsets<T>(lists: &[Vec<T>]) -> Vec<usize> {
        let mut end = 0;
        let ends = lists.iter().map(|list| {
            end += list.len();
            end
        });
        std::iter::once(0).chain(ends).collect()
    }

    fn ints(lists: &[Vec<i64>]) -> Flat {
        Flat { offsets: Flat::offsets(lists), values: super::Values::Int(lists.concat()) }
    }

    fn numbers(rows: Vec<OneOrMany<Number>>) -> Flat {
        let rows: Vec<Vec<Number>> = rows.into_iter().map(OneOrMany::into_vec).collect();
        let all = || rows.iter().flatten();
        let values = match all().map(Number::as_i64).collect::<Option<Vec<i64>>>() {
            Some(ints) => super::Values::Int(ints),
            None => super::Values::Float(all().map(real).collect()),
        };
        Flat { offsets: Flat::offsets(&rows), values }
    }

    /// A single list, in which `null` stands for a missing target: JSON has no NaN.
    fn targets(targets: OneOrMany<Option<Number>>) -> Flat {
        let targets = targets.into_vec();
        let whole = |target: &Option<Number>| target.as_ref().and_then(Number::as_i64);
        let values = match targets.iter().map(whole).collect::<Option<Vec<i64>>>() {
            Some(ints) => super::Values::Int(ints),
            None => {
                let number = |target: &Option<Number>| target.as_ref().map_or(f32::NAN, real);
                super::Values::Float(targets.iter().map(number).collect())
            }
        };
        Flat { offsets: vec![0, targets.len()], values }
    }

    fn lists(&self) -> Lists<'_> {
        let values = match &self.values {
            super::Values::Int(v) => Numbers::Int(v),
            super::Values::Float(v) => Numbers::Float(v),
        };
        Lists { offsets: &self.offsets, values }
    }
}

fn real(number: &Number) -> f32 {
    number.as_f64().unwrap_or(f64::NAN) as f32
}

#[cfg(test)]
mod tests {
    use super::super::Values;
    use super::*;

    fn read_text(text: &str) -> Result<GraphSet> {
        read(&Source::test("t.jsonl", text.as_bytes()), &ReadOptions::default())
    }

    #[test]
    fn reads_every_column() {
        let set = read_text(
            "{\"num_nodes\": 2, \"edge_index\": [[0],[1]], \"node_feat\": [[1, 2.5], [3, 4]], \
             \"edge_attr\": [[5]], \"pos\": [[0.0], [1.0]], \"y\": 3, \"extra\": null}\n\n\
             {\"num_nodes\": 1, \"edge_index\": [[],[]]}\n",
        )
        .unwrap();
        assert_eq!(set.samples.len(), 2);
        let first = &set.samples[0];
        assert_eq!(
            first.node_feat.as_ref().unwrap().values,
            Values::Float(vec![1.0, 2.5, 3.0, 4.0])
        );
        assert_eq!(first.y, Some(Values::Int(vec![3])));
        assert_eq!(set.samples[1].graph.num_nodes(), 1);
    }

    #[test]
    fn rows_of_one_and_missing_targets_are_read() {
        let set = read_text(
            "{\"num_nodes\": 2, \"edge_index\": [[0],[1]], \"node_feat\": [4, 5], \
             \"edge_attr\": [0.5], \"y\": [1, null]}\n{\"num_nodes\": 1, \"edge_index\": [[],[]], \"y\": null}",
        )
        .unwrap();
        let first = &set.samples[0];
        let features = first.node_feat.as_ref().unwrap();
        assert_eq!((features.width, &features.values), (1, &Values::Int(vec![4, 5])));
        assert_eq!(first.edge_attr.as_ref().unwrap().width, 1);
        let Some(Values::Float(targets)) = &first.y else { panic!("no real targets") };
        assert!(targets[0] == 1.0 && targets[1].is_nan());
        assert_eq!(set.samples[1].y, None);
    }

    #[test]
    fn mistakes_name_the_line() {
        let good = "{\"num_nodes\": 2, \"edge_index\": [[0],[1]]}\n";
        for (bad, expected) in [
            ("{\"num_nodes\": 2}", "line 2: missing field `edge_index`"),
            ("{\"num_nodes\": 0, \"edge_index\": [[],[]]}", "line 2: `num_nodes` is 0"),
            ("{\"num_nodes\": 2, \"edge_index\": [[0]]}", "has 1 inner lists"),
            ("{\"num_nodes\": 2, \"edge_index\": [[0],[]]}", "1 sources and 0 targets"),
            ("{\"num_nodes\": 2, \"edge_index\": [[0],[2]]}", "edge 0 (0, 2) is out of range"),
            ("{\"num_nodes\": 2, \"edge_index\": [[-1],[0]]}", "edge 0 (-1, 0) is out of range"),
            ("{\"num_nodes\": -5, \"edge_index\": [[],[]]}", "`num_nodes` is -5"),
            ("{\"num_nodes\": 2, \"edge_index\": [[],[]], \"node_feat\": [[1]]}", "has 1 rows"),
            (
                "{\"num_nodes\": 2, \"edge_index\": [[],[]], \"node_feat\": [[1],[1,2]]}",
                "row 1 of `node_feat` has 2 numbers",
            ),
            (
                "{\"num_nodes\": 2, \"edge_index\": [[0],[1]], \"edge_attr\": []}",
                "`edge_attr` has 0 rows, but there are 1 edges",
            ),
            ("{\"num_nodes\": 2, \"edge_index\": [[0],[1]", "line 2: EOF"),
            ("[1, 2]", "line 2: "),
            ("{\"num_nodes\": 1e3, \"edge_index\": [[],[]]}", "line 2: "),
        ] {
            let error = read_text(&format!("{good}{bad}\n")).unwrap_err();
            assert!(error.is_data());
            assert!(format!("{error:#}").contains(expected), "{bad}: {error:#}");
        }
    }

    #[test]
    fn a_node_count_beyond_memory_is_refused() {
        let source = Source::test("t.jsonl", b"{\"num_nodes\": 1000000, \"edge_index\": [[],[]]}");
        let options = ReadOptions { limit: crate::MemoryLimit(1 << 20), ..ReadOptions::default() };
        assert!(read(&source, &options).unwrap_err().is_memory());
    }
}
