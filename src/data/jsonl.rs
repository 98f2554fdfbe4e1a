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
    node_feat: Option<Vec<Vec<Number>>>,
    edge_attr: Option<Vec<Vec<Number>>>,
    pos: Option<Vec<Vec<Number>>>,
    y: Option<OneOrMany>,
}

/// Only the graph, for when features are not wanted.
#[derive(Deserialize)]
struct Bare {
    num_nodes: i64,
    edge_index: Vec<Vec<i64>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(Number),
    Many(Vec<Number>),
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
        Error::data(format!(
            "{e}; expected an object with `num_nodes` and `edge_index`, and optionally \
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
    let node_feat = line.node_feat.as_deref().map(Flat::numbers);
    let edge_attr = line.edge_attr.as_deref().map(Flat::numbers);
    let pos = line.pos.as_deref().map(Flat::numbers);
    let y = line.y.map(|y| match y {
        OneOrMany::One(number) => Flat::numbers(&[vec![number]]),
        OneOrMany::Many(numbers) => Flat::numbers(&[numbers]),
    });
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

    fn numbers(lists: &[Vec<Number>]) -> Flat {
        let all = || lists.iter().flatten();
        let values = match all().map(Number::as_i64).collect::<Option<Vec<i64>>>() {
            Some(ints) => super::Values::Int(ints),
            None => {
                super::Values::Float(all().map(|n| n.as_f64().unwrap_or(f64::NAN) as f32).collect())
            }
        };
        Flat { offsets: Flat::offsets(lists), values }
    }

    fn lists(&self) -> Lists<'_> {
        let values = match &self.values {
            super::Values::Int(v) => Numbers::Int(v),
            super::Values::Float(v) => Numbers::Float(v),
        };
        Lists { offsets: &self.offsets, values }
    }
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
