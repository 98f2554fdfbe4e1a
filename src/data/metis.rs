//! METIS graphs (`.graph`): a header `n m [fmt [ncon]]`, then a line of neighbours per node.
//!
//! Ids count from 1 and every edge is listed at both ends. The digits of `fmt` say what else a line
//! holds: 100 a size, 10 `ncon` weights of the node, both first; 1 a weight after each neighbour.
//! Sizes and weights of nodes become node features. Lines starting with `%` are comments.

use std::fmt::Write as _;

use super::single::{Single, check_size, matrix_edges, parse_id};
use super::{GraphSet, Matrix, ReadOptions, Source, Values};
use crate::error::Context as _;
use crate::graph::check_weight;
use crate::{Error, Graph, Result};

pub(super) fn read(source: &Source, options: &ReadOptions) -> Result<GraphSet> {
    let mut lines =
        source.text()?.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with('%'));
    let (number, header) = lines
        .find(|(_, line)| !line.trim().is_empty())
        .ok_or_else(|| Error::data("no header `n m [fmt [ncon]]`"))?;
    let header = Header::parse(header).context(|| format!("line {}", number + 1))?;
    check_size(header.nodes, 2 * header.edges, options)?;
    let mut single = Single { num_nodes: header.nodes, is_matrix: true, ..Single::default() };
    let mut weights = Vec::new();
    let mut node_feat = Vec::new();
    for node in 0..header.nodes {
        let (number, line) = lines.next().ok_or_else(|| {
            Error::data(format!(
                "the header states {} nodes, but only {node} lines follow",
                header.nodes
            ))
        })?;
        let mut fields = line.split_whitespace();
        let mut parse = || -> Result<()> {
            for _ in 0..header.features {
                let text = fields.next().ok_or_else(|| Error::data("a node weight is missing"))?;
                let weight: i64 =
                    text.parse().map_err(|_| Error::data(format!("`{text}` is no node weight")))?;
                node_feat.push(weight);
            }
            while let Some(text) = fields.next() {
                single.arcs.push((node as u32, parse_id(text, 1, header.nodes)?));
                if header.edge_weights {
                    let text =
                        fields.next().ok_or_else(|| Error::data("an edge weight is missing"))?;
                    let weight: f32 =
                        text.parse().map_err(|_| Error::data(format!("`{text}` is no weight")))?;
                    check_weight(weight)?;
                    weights.push(weight);
                }
            }
            Ok(())
        };
        parse().context(|| format!("line {}", number + 1))?;
    }
    if let Some((number, _)) = lines.find(|(_, line)| !line.trim().is_empty()) {
        return Err(Error::data(format!(
            "line {}: more lines than the {} nodes the header states",
            number + 1,
            header.nodes
        )));
    }
    let ones = vec![1.0; if header.edge_weights { 0 } else { single.arcs.len() }];
    let edges = matrix_edges(&single.arcs, if header.edge_weights { &weights } else { &ones });
    if edges.uneven > 0 {
        return Err(Error::data(
            "some edge is listed at one end only, or with two weights; every edge must stand in the \
             lines of both its nodes",
        ));
    }
    let loops = single.arcs.iter().filter(|(u, v)| u == v).count();
    let listed = (single.arcs.len() - loops) / 2;
    if listed != header.edges {
        return Err(Error::data(format!(
            "the header states {} edges, but {listed} are listed",
            header.edges
        )));
    }
    single.weights = header.edge_weights.then_some(weights);
    single.node_feat = (header.features > 0)
        .then_some(Matrix { width: header.features, values: Values::Int(node_feat) });
    single.into_set(source, options)
}

struct Header {
    nodes: usize,
    edges: usize,
    edge_weights: bool,
    /// Numbers before the neighbours: a size and node weights.
    features: usize,
}

impl Header {
    fn parse(line: &str) -> Result<Header> {
        let wrong = || Error::data(format!("`{line}` is not a header `n m [fmt [ncon]]`"));
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |i: usize| fields.get(i).map(|f| f.parse::<u32>().map_err(|_| wrong()));
        let (Some(nodes), Some(edges)) = (number(0), number(1)) else { return Err(wrong()) };
        let format = number(2).transpose()?.unwrap_or(0);
        let digit = |power: u32| match format / power % 10 {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(wrong()),
        };
        if fields.len() > 4 || format > 111 {
            return Err(wrong());
        }
        let (sizes, node_weights, edge_weights) = (digit(100)?, digit(10)?, digit(1)?);
        let constraints = number(3).transpose()?.unwrap_or(1) as usize;
        if constraints > 1000 {
            return Err(wrong());
        }
        let features = usize::from(sizes) + if node_weights { constraints } else { 0 };
        Ok(Header { nodes: nodes? as usize, edges: edges? as usize, edge_weights, features })
    }
}

/// The graph as METIS reads it.
///
/// # Errors
/// If a weight is not a whole number above 0, which METIS can't hold.
pub(super) fn write(graph: &Graph) -> Result<String> {
    let weighted = graph.is_weighted();
    let mut text = format!("{} {}", graph.num_nodes(), graph.num_edges());
    text += if weighted { " 1\n" } else { "\n" };
    for u in 0..graph.num_nodes() as u32 {
        let mut first = true;
        for (v, w) in graph.weighted_neighbors(u) {
            let separator = if std::mem::take(&mut first) { "" } else { " " };
            let _ = write!(text, "{separator}{}", v + 1);
            if weighted {
                if w < 1.0 || w.fract() != 0.0 {
                    return Err(Error::data(format!(
                        "edge ({u}, {v}) has weight {w}; METIS files hold whole weights above 0"
                    )));
                }
                let _ = write!(text, " {w}");
            }
        }
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<GraphSet> {
        read(&Source::test("t.graph", text.as_bytes()), &ReadOptions::default())
    }

    #[test]
    fn plain_weighted_and_with_node_weights() {
        let plain = parse("% c\n4 3\n2 3\n1 3\n1 2\n\n").unwrap();
        assert_eq!(plain.samples[0].graph.num_edges(), 3);
        assert_eq!(plain.samples[0].repairs, Default::default());
        let weighted = parse("3 2 001\n2 5\n1 5 3 7\n2 7\n").unwrap();
        let edges: Vec<_> = weighted.samples[0].graph.edges().collect();
        assert_eq!(edges, [(0, 1, 5.0), (1, 2, 7.0)]);
        let all = parse("2 1 111 2\n9 1 2 2 4\n8 3 4 1 4\n").unwrap();
        let features = all.samples[0].node_feat.as_ref().unwrap();
        assert_eq!((features.width, &features.values), (3, &Values::Int(vec![9, 1, 2, 8, 3, 4])));
        assert_eq!(all.samples[0].graph.weight(0, 1), Some(4.0));
    }

    #[test]
    fn what_is_written_reads_back() {
        let (graph, _) = Graph::from_weighted_pairs(4, &[(0, 1), (1, 2)], &[3.0, 2.0]).unwrap();
        let back = parse(&write(&graph).unwrap()).unwrap();
        assert_eq!(*back.samples[0].graph, graph);
        let (odd, _) = Graph::from_weighted_pairs(2, &[(0, 1)], &[0.5]).unwrap();
        assert!(write(&odd).unwrap_err().to_string().contains("whole weights"));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            ("3 1\n2\n1\n", "only 2 lines follow"),
            ("2 1\n2\n1\n7\n", "line 4: more lines than the 2 nodes"),
            ("2 2\n2\n1\n", "states 2 edges, but 1 are listed"),
            ("2 1\n2\n\n", "listed at one end only"),
            ("2 1 1\n2 5\n1 6\n", "with two weights"),
            ("2 1\n3\n1\n", "line 2: node 3 is out of range 1 … 2"),
            ("2 1\n0\n1\n", "line 2: node 0 is out of range"),
            ("2 1 1\n2\n1 4\n", "an edge weight is missing"),
            ("2 1 7\n2\n1\n", "is not a header"),
            ("x y\n", "is not a header"),
            ("0 0\n", "no node"),
            ("4000000000 0\n", "the limit is"),
        ] {
            let options = ReadOptions { limit: crate::MemoryLimit(1 << 24), ..Default::default() };
            let error = read(&Source::test("t", text.as_bytes()), &options).err().unwrap();
            assert!(format!("{error:#}").contains(expected), "{text}: {error:#}");
        }
    }
}
