//! One graph as text: an edge per line, `u v` or `u v weight`.
//!
//! Fields are separated by tabs, commas, semicolons or blanks, whichever the first edge uses. Lines
//! that start with `#`, `%` or `//` are comments. A first line may name the columns: `source`, `target`,
//! `weight` (or `src`/`dst`, `from`/`to`, `u`/`v`), in any order and among others. A third field `{}` (an empty attribute list, as networkx writes it) is passed over.
//!
//! Ids may be anything. If they are the numbers 0 … n − 1 they stay; other numbers are relabelled in
//! ascending order, other words in order of first appearance, and the mapping is kept
//! ([`GraphSet::ids`](super::GraphSet::ids)).

use std::fmt::Write as _;

use rayon::prelude::*;

use super::single::{Single, label_numbers, label_words};
use super::{GraphSet, ReadOptions, Source};
use crate::error::Context as _;
use crate::graph::check_weight;
use crate::{Error, Graph, Result};

pub(super) fn read(source: &Source, options: &ReadOptions) -> Result<GraphSet> {
    let text = source.text()?;
    let layout = Layout::sniff(text)?;
    parse(text, &layout)?.into_set(source, options)
}

/// The graph as an edge list; `ids` are the names of nodes. Isolated nodes do not appear.
pub(super) fn write(graph: &Graph, ids: Option<&[String]>, delimiter: char) -> Result<String> {
    let name = |u: u32| ids.map_or_else(|| u.to_string(), |ids| ids[u as usize].clone());
    if let Some(bad) = ids.and_then(|ids| ids.iter().find(|id| id.contains([delimiter, '\n', '"'])))
    {
        return Err(Error::data(format!(
            "id `{bad}` can't stand between these delimiters; write .tsv, .gml or .graphml"
        )));
    }
    let mut text = String::new();
    for (u, v, w) in graph.edges() {
        let _ = write!(text, "{}{delimiter}{}", name(u), name(v));
        if graph.is_weighted() {
            let _ = write!(text, "{delimiter}{w}");
        }
        text.push('\n');
    }
    Ok(text)
}

/// How the lines of a file are to be read.
struct Layout {
    delimiter: Option<char>,
    /// Fields of source, target and weight.
    columns: [usize; 3],
    weighted: bool,
    /// How many fields a line has.
    width: usize,
    /// Number of the header line, if there is one.
    header: Option<usize>,
    /// Number of the first edge's line, for messages.
    first: usize,
}

/// Names of columns that are understood.
const NAMES: [&[&str]; 3] = [
    &["source", "src", "from", "u", "node1", "fromnodeid"],
    &["target", "dst", "to", "v", "node2", "tonodeid"],
    &["weight", "w"],
];

impl Layout {
    fn sniff(text: &str) -> Result<Layout> {
        let mut lines = text.lines().enumerate().filter(|(_, line)| is_edge(line));
        let (number, line) = lines
            .next()
            .ok_or_else(|| Error::data("no edge in it: only blank lines and comments"))?;
        let delimiter = ['\t', ',', ';'].into_iter().find(|&d| line.contains(d));
        let fields = |line| split(line, delimiter).collect::<Vec<_>>();
        let names = fields(line);
        let find = |kind: usize| {
            names.iter().position(|n| NAMES[kind].contains(&n.to_ascii_lowercase().as_str()))
        };
        let named = find(0).zip(find(1));
        let is_number = |field: &&str| field.parse::<f64>().is_ok();
        let words = !names.iter().any(is_number);
        let second = lines.next();
        let numbers_below = second.is_some_and(|(_, next)| {
            let next = fields(next);
            next.len() >= 2 && next.iter().take(2).all(is_number)
        });
        // Words above numbers are a header where columns are delimited; blanks need known names.
        let is_header = second.is_some()
            && words
            && (named.is_some() || (delimiter.is_some() && numbers_below));
        let (first, line) =
            if is_header { second.unwrap_or((number, line)) } else { (number, line) };
        let width = fields(line).len();
        let wrong = |what: &str| Err(Error::data(format!("line {}: {what}", first + 1)));
        let (columns, weighted) = match (is_header, named) {
            (true, Some((source, target))) => {
                let weight = find(2);
                ([source, target, weight.unwrap_or(0)], weight.is_some())
            }
            (true, None) if names.len() > 2 => {
                return Err(Error::data(format!(
                    "line {}: columns `{}`; call them source, target and weight, or take the line \
                     away if they stand in that order",
                    number + 1,
                    clip(&names.join(", "))
                )));
            }
            _ => match fields(line)[..] {
                [_, _] | [_, _, "{}"] => ([0, 1, 0], false),
                [_, _, weight] if weight.parse::<f32>().is_ok() => ([0, 1, 2], true),
                _ => {
                    return wrong(&format!("`{}` is neither `u v` nor `u v weight`", clip(line)));
                }
            },
        };
        if columns.iter().any(|&column| column >= width) {
            return wrong(&format!("{width} fields, but the header names {}", names.len()));
        }
        Ok(Layout {
            delimiter,
            columns,
            weighted,
            width,
            header: is_header.then_some(number),
            first,
        })
    }
}

fn is_edge(line: &str) -> bool {
    let line = line.trim_start();
    !(line.is_empty() || line.starts_with(['#', '%']) || line.starts_with("//"))
}

/// The fields of a line; blanks around them and quotes are no part of them.
fn split(line: &str, delimiter: Option<char>) -> impl Iterator<Item = &str> {
    let mut by_blank = line.split_whitespace();
    let mut by_delimiter = delimiter.map(|d| line.split(d));
    std::iter::from_fn(move || match &mut by_delimiter {
        Some(fields) => fields.next(),
        None => by_blank.next(),
    })
    .map(|field| field.trim().trim_matches('"'))
}

fn clip(line: &str) -> &str {
    let end = line.char_indices().nth(60).map_or(line.len(), |(i, _)| i);
    &line[..end]
}

fn parse(text: &str, layout: &Layout) -> Result<Single> {
    let chunks = chunks_of_lines(text);
    let edges = |(first, chunk)| {
        lines_of(chunk, first, layout)
            .map(|(number, line)| edge(line, layout).context(|| format!("line {}", number + 1)))
            .collect::<Result<Vec<_>>>()
    };
    let parsed: Vec<Vec<(&str, &str, f32)>> = in_order(chunks.into_par_iter().map(edges))?;
    let weights = layout.weighted.then(|| parsed.iter().flatten().map(|&(.., w)| w).collect());
    let ends = || parsed.iter().flatten().flat_map(|&(u, v, _)| [u, v]);

    let numbers: Option<Vec<u64>> = ends().map(plain_number).collect();
    let labels = match numbers {
        Some(numbers) => label_numbers(numbers),
        None => label_words(ends()),
    };
    Ok(labels.into_single(weights))
}

/// A number in its plain form, so that `7` and `007` stay two ids.
fn plain_number(id: &str) -> Option<u64> {
    let plain = id == "0" || !id.starts_with(['0', '+']);
    if plain { id.parse().ok() } else { None }
}

fn edge<'a>(line: &'a str, layout: &Layout) -> Result<(&'a str, &'a str, f32)> {
    let wrong = |what: String| Err(Error::data(format!("`{}`: {what}", clip(line))));
    let mut found = [None; 3];
    let mut width = 0;
    for field in split(line, layout.delimiter) {
        for (slot, &column) in found.iter_mut().zip(&layout.columns) {
            if column == width {
                *slot = Some(field);
            }
        }
        width += 1;
    }
    if width != layout.width {
        return wrong(format!(
            "{width} field(s), but line {} has {}",
            layout.first + 1,
            layout.width
        ));
    }
    let [Some(u), Some(v), weight] = found else { return wrong("an id is missing".into()) };
    if u.is_empty() || v.is_empty() {
        return wrong("an id is missing".into());
    }
    match (weight, layout.weighted) {
        (Some(text), true) => match text.parse() {
            Ok(weight) => {
                check_weight(weight)?;
                Ok((u, v, weight))
            }
            Err(_) => wrong(format!("weight `{text}` is not a number")),
        },
        _ => Ok((u, v, 1.0)),
    }
}

/// Pieces of about a megabyte that end with a line, with the number of their first line.
fn chunks_of_lines(text: &str) -> Vec<(usize, &str)> {
    const SIZE: usize = 1 << 20;
    let mut chunks = Vec::new();
    let (mut rest, mut line) = (text, 0);
    while !rest.is_empty() {
        let from = rest.as_bytes().iter().skip(SIZE).position(|&b| b == b'\n');
        let (chunk, tail) = rest.split_at(from.map_or(rest.len(), |at| SIZE + at + 1));
        chunks.push((line, chunk));
        line += chunk.bytes().filter(|&b| b == b'\n').count();
        rest = tail;
    }
    chunks
}

fn lines_of<'a>(
    chunk: &'a str,
    first: usize,
    layout: &Layout,
) -> impl Iterator<Item = (usize, &'a str)> {
    let header = layout.header;
    let numbered = chunk.lines().enumerate().map(move |(i, line)| (first + i, line));
    numbered.filter(move |&(number, line)| is_edge(line) && Some(number) != header)
}

/// Collects in order; the first error in file order wins.
fn in_order<T: Send>(results: impl IndexedParallelIterator<Item = Result<T>>) -> Result<Vec<T>> {
    results.collect::<Vec<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<GraphSet> {
        read(&Source::test("t.txt", text.as_bytes()), &ReadOptions::default())
    }

    fn edges(set: &GraphSet) -> Vec<(u32, u32, f32)> {
        set.samples[0].graph.edges().collect()
    }

    #[test]
    fn delimiters_comments_and_headers() {
        for text in [
            "# a comment\n0 1\n1 2\n",
            "0\t1\n1\t2\n",
            "source,target\n0,1\n1,2\n",
            "0;1\r\n1;2\r\n",
            "% x\n\n 0   1 \n// y\n1 2",
            "0\t1\t{}\n1\t2\t{}\n",
            "u v\n0 1\n1 2",
        ] {
            let set = read_text(text).unwrap();
            assert_eq!(edges(&set), [(0, 1, 1.0), (1, 2, 1.0)], "{text}");
            assert_eq!(set.ids, None);
        }
    }

    #[test]
    fn headers_name_columns() {
        let set = read_text(",source,target\n0,1,2\n1,2,3\n2,3,1\n").unwrap();
        assert_eq!(set.samples[0].graph.num_edges(), 3);
        assert_eq!(set.ids.unwrap(), ["1", "2", "3"]);
        let set = read_text("weight;dst;src\n0.5;1;0\n").unwrap();
        assert_eq!(edges(&set), [(0, 1, 0.5)]);
        // Names of nodes are not taken for a header.
        assert_eq!(read_text("alice bob\n1 2\n2 3\n").unwrap().samples[0].graph.num_edges(), 3);
    }

    #[test]
    fn weights_are_read() {
        let set = read_text("0 1 0.5\n2 1 2e1\n").unwrap();
        assert_eq!(edges(&set), [(0, 1, 0.5), (1, 2, 20.0)]);
        assert!(set.samples[0].graph.is_weighted());
    }

    #[test]
    fn other_ids_are_relabelled() {
        let gaps = read_text("40 7\n7 100\n").unwrap();
        assert_eq!(edges(&gaps), [(0, 1, 1.0), (0, 2, 1.0)]);
        assert_eq!(gaps.ids.unwrap(), ["7", "40", "100"]);
        let words = read_text("bob,alice\nalice,\"carl, jr\"".replace(", jr", " jr").as_str());
        assert_eq!(words.unwrap().ids.unwrap(), ["bob", "alice", "carl jr"]);
        let zeros = read_text("007 7\n").unwrap();
        assert_eq!(zeros.ids.unwrap(), ["007", "7"]);
    }

    #[test]
    fn mistakes_name_the_line() {
        for (text, expected) in [
            ("0 1\n2\n", "line 2: `2`: 1 field(s), but line 1 has 2"),
            ("0 1 2\n1 2\n", "line 2: `1 2`: 2 field(s), but line 1 has 3"),
            ("0 1\n1 2 3\n", "line 2: `1 2 3`: 3 field(s), but line 1 has 2"),
            (",a,b\n0,1,2\n1,2,3\n", "line 1: columns `, a, b`; call them source"),
            ("source,target,weight\n0,1\n", "line 2: 2 fields, but the header names 3"),
            ("0 1 nan\n", "line 1: weight NaN"),
            ("0 1 1\n1 2 -4\n", "line 2: weight -4"),
            ("0 1 1\n1 2 x\n", "line 2: `1 2 x`: weight `x` is not a number"),
            ("# only\n", "no edge in it"),
            ("0 1 2 3 4\n", "line 1: `0 1 2 3 4` is neither"),
            ("0,1\n1,\n", "line 2: `1,`: an id is missing"),
        ] {
            let error = read_text(text).unwrap_err();
            assert!(format!("{error:#}").contains(expected), "{text}: {error:#}");
        }
        let latin = read(&Source::test("t", b"0 1\n\xe9 2\n"), &ReadOptions::default());
        assert!(latin.unwrap_err().to_string().contains("line 2 is not UTF-8"));
    }

    #[test]
    fn long_files_are_cut_at_lines() {
        let text: String = (0..300_000).map(|i| format!("{i} {}\n", i + 1)).collect();
        assert!(chunks_of_lines(&text).len() > 2);
        let set = read_text(&text).unwrap();
        assert_eq!(set.samples[0].graph.num_edges(), 300_000);
        let broken = format!("{text}oops\n");
        let error = read_text(&broken).unwrap_err();
        assert!(format!("{error:#}").contains("line 300001:"), "{error:#}");
    }
}
