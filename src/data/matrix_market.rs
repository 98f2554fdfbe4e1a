//! Matrix Market files (`.mtx`): a square sparse matrix as adjacency.
//!
//! `coordinate` matrices, `pattern`, `real` or `integer`, `general` or `symmetric`; ids count from 1.

use std::fmt::Write as _;

use super::single::{Single, check_size, parse_id};
use super::{GraphSet, ReadOptions, Source};
use crate::error::Context as _;
use crate::graph::check_weight;
use crate::{Error, Graph, Result};

pub(super) fn read(source: &Source, options: &ReadOptions) -> Result<GraphSet> {
    let mut lines = source.text()?.lines().enumerate();
    let banner = lines.next().map_or("", |(_, line)| line).to_ascii_lowercase();
    let words: Vec<&str> = banner.split_whitespace().collect();
    let ["%%matrixmarket", "matrix", "coordinate", field, symmetry] = words[..] else {
        return Err(Error::data(
            "line 1 is not `%%MatrixMarket matrix coordinate FIELD SYMMETRY`; dense matrices are \
             not graphs",
        ));
    };
    let weighted = match field {
        "pattern" => false,
        "real" | "integer" | "double" => true,
        _ => {
            return Err(Error::data(format!("field `{field}`; expected pattern, real or integer")));
        }
    };
    match symmetry {
        "general" | "symmetric" => {}
        _ => {
            return Err(Error::data(format!(
                "symmetry `{symmetry}`; expected general or symmetric"
            )));
        }
    }
    let mut entries = lines.filter(|(_, line)| !line.starts_with('%') && !line.trim().is_empty());
    let (number, sizes) = entries.next().ok_or_else(|| Error::data("no line of sizes"))?;
    let sizes: Vec<usize> = sizes
        .split_whitespace()
        .map(|text| text.parse())
        .collect::<Result<_, _>>()
        .map_err(|_| Error::data(format!("line {}: not `rows columns entries`", number + 1)))?;
    let [rows, columns, count] = sizes[..] else {
        return Err(Error::data(format!("line {}: not `rows columns entries`", number + 1)));
    };
    if rows != columns {
        return Err(Error::data(format!("a {rows} × {columns} matrix; a graph's is square")));
    }
    check_size(rows, count, options)?;
    let mut single = Single { num_nodes: rows, is_matrix: true, ..Single::default() };
    let mut weights = Vec::new();
    for (number, line) in entries {
        let mut fields = line.split_whitespace();
        let mut parse = || -> Result<()> {
            let mut next = || fields.next().ok_or_else(|| Error::data("a number is missing"));
            let (u, v) = (parse_id(next()?, 1, rows)?, parse_id(next()?, 1, rows)?);
            single.arcs.push((u, v));
            if weighted {
                let text = next()?;
                let weight =
                    text.parse().map_err(|_| Error::data(format!("`{text}` is no number")))?;
                check_weight(weight)?;
                weights.push(weight);
            }
            Ok(())
        };
        parse().context(|| format!("line {}", number + 1))?;
    }
    if single.arcs.len() != count {
        return Err(Error::data(format!(
            "{count} entries are stated, but {} are listed",
            single.arcs.len()
        )));
    }
    single.weights = weighted.then_some(weights);
    single.into_set(source, options)
}

/// The graph as a symmetric matrix.
pub(super) fn write(graph: &Graph) -> Result<String> {
    let field = if graph.is_weighted() { "real" } else { "pattern" };
    let mut text = format!("%%MatrixMarket matrix coordinate {field} symmetric\n");
    let n = graph.num_nodes();
    let _ = writeln!(text, "{n} {n} {}", graph.num_edges());
    for (u, v, w) in graph.edges() {
        // The lower triangle: row above column.
        let _ = match graph.is_weighted() {
            true => writeln!(text, "{} {} {w}", v + 1, u + 1),
            false => writeln!(text, "{} {}", v + 1, u + 1),
        };
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<GraphSet> {
        read(&Source::test("t.mtx", text.as_bytes()), &ReadOptions::default())
    }

    #[test]
    fn symmetric_and_general_agree() {
        let symmetric =
            parse("%%MatrixMarket matrix coordinate real symmetric\n% c\n3 3 2\n2 1 0.5\n3 2 4\n");
        let general = parse(
            "%%MatrixMarket matrix coordinate real general\n3 3 4\n1 2 0.5\n2 1 0.5\n2 3 4\n3 2 4\n",
        );
        let (a, b) = (symmetric.unwrap(), general.unwrap());
        assert_eq!(a.samples[0].graph, b.samples[0].graph);
        assert_eq!(a.samples[0].graph.weight(0, 1), Some(0.5));
    }

    #[test]
    fn every_pair_is_judged_by_itself() {
        let mixed = parse(
            "%%MatrixMarket matrix coordinate real general\n4 4 5\n1 2 2\n2 1 2\n4 3 1\n1 3 0\n2 3 5\n",
        );
        let edges: Vec<_> = mixed.unwrap().samples[0].graph.edges().collect();
        assert_eq!(edges, [(0, 1, 2.0), (1, 2, 5.0), (2, 3, 1.0)]);
    }

    #[test]
    fn what_is_written_reads_back() {
        let (graph, _) = Graph::from_weighted_pairs(4, &[(0, 1), (3, 1)], &[0.1, 2e9]).unwrap();
        assert_eq!(*parse(&write(&graph).unwrap()).unwrap().samples[0].graph, graph);
        let plain = graph.without_weights();
        assert_eq!(*parse(&write(&plain).unwrap()).unwrap().samples[0].graph, plain);
    }

    #[test]
    fn mistakes_are_named() {
        let head = "%%MatrixMarket matrix coordinate real general\n";
        for (text, expected) in [
            ("1 2\n".to_string(), "line 1 is not"),
            ("%%MatrixMarket matrix array real general\n".into(), "line 1 is not"),
            ("%%MatrixMarket matrix coordinate complex general\n1 1 0\n".into(), "field `complex`"),
            (
                "%%MatrixMarket matrix coordinate real hermitian\n1 1 0\n".into(),
                "symmetry `hermitian`",
            ),
            (format!("{head}2 3 1\n1 2 1\n"), "a 2 × 3 matrix"),
            (format!("{head}2 2 2\n1 2 1\n"), "2 entries are stated, but 1 are listed"),
            (format!("{head}2 2 1\n1 3 1\n"), "line 3: node 3 is out of range 1 … 2"),
            (format!("{head}2 2 1\n1 2\n"), "line 3: a number is missing"),
            (format!("{head}2 2 1\n1 2 -1\n"), "line 3: weight -1"),
            (format!("{head}2 2\n"), "line 2: not `rows columns entries`"),
        ] {
            let error = parse(&text).err().unwrap();
            assert!(format!("{error:#}").contains(expected), "{text}: {error:#}");
        }
    }
}
