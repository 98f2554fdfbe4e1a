//! GML: nested `key value` lists, as many collections of real networks come in.
//!
//! `graph [ directed 0 node [ id 0 label "a" ] edge [ source 0 target 1 weight 2 ] ]`. The id of a node
//! is its label if all labels differ, else its number. A node attribute `gt` or `value` becomes the
//! target, classes numbered by ascending value; an edge attribute `weight` or `value` the weight.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use super::single::Single;
use super::{GraphSet, ReadOptions, Source, Values};
use crate::graph::check_weight;
use crate::{Error, Graph, Partition, Result};

pub(super) fn read(source: &Source, options: &ReadOptions) -> Result<GraphSet> {
    let text = source.text()?;
    let mut tokens = Tokens { text, at: 0 };
    let mut file = Builder::default();
    let mut found = false;
    while let Some(key) = tokens.next()? {
        let Token::Word(key) = key else { return Err(tokens.wrong("expected a key")) };
        if key.eq_ignore_ascii_case("graph") {
            if found {
                return Err(tokens.wrong("a second graph; split the file"));
            }
            found = true;
            file.graph(&mut tokens)?;
        } else {
            tokens.skip_value(0)?;
        }
    }
    if !found {
        return Err(Error::data("no `graph [ … ]` in it"));
    }
    file.finish()?.into_set(source, options)
}

/// The graph as GML; `ids` are labels.
pub(super) fn write(graph: &Graph, ids: Option<&[String]>) -> Result<String> {
    let mut text = String::from("graph [\n  directed 0\n");
    for u in 0..graph.num_nodes() {
        let label = ids.map_or_else(|| u.to_string(), |ids| escape(&ids[u]));
        let _ = writeln!(text, "  node [ id {u} label \"{label}\" ]");
    }
    for (u, v, w) in graph.edges() {
        let weight = if graph.is_weighted() { format!(" weight {w}") } else { String::new() };
        let _ = writeln!(text, "  edge [ source {u} target {v}{weight} ]");
    }
    text.push_str("]\n");
    Ok(text)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;")
}

/// Entities by name and by number; text with others stays as it is.
fn unescape(text: &str) -> String {
    quick_xml::escape::unescape(text).map_or_else(|_| text.to_string(), |text| text.into_owned())
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Token<'a> {
    Word(&'a str),
    Text(&'a str),
    Open,
    Close,
}

struct Tokens<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Tokens<'a> {
    fn wrong(&self, what: &str) -> Error {
        let line = self.text.as_bytes()[..self.at].iter().filter(|&&b| b == b'\n').count() + 1;
        Error::data(format!("line {line}: {what}"))
    }

    fn next(&mut self) -> Result<Option<Token<'a>>> {
        loop {
            let rest = &self.text[self.at..];
            self.at += rest.len() - rest.trim_start().len();
            let rest = &self.text[self.at..];
            let Some(first) = rest.chars().next() else { return Ok(None) };
            let (token, length) = match first {
                '#' => {
                    self.at += rest.find('\n').unwrap_or(rest.len());
                    continue;
                }
                '[' => (Token::Open, 1),
                ']' => (Token::Close, 1),
                '"' => match rest[1..].find('"') {
                    Some(end) => (Token::Text(&rest[1..=end]), end + 2),
                    None => return Err(self.wrong("a quotation is not closed")),
                },
                _ => {
                    let end = rest.find(|c: char| c.is_whitespace() || "[]\"".contains(c));
                    let word = &rest[..end.unwrap_or(rest.len())];
                    (Token::Word(word), word.len())
                }
            };
            self.at += length;
            return Ok(Some(token));
        }
    }

    fn required(&mut self) -> Result<Token<'a>> {
        self.next()?.ok_or_else(|| self.wrong("the file ends within the graph"))
    }

    /// A value that is not wanted, lists included.
    fn skip_value(&mut self, depth: usize) -> Result<()> {
        if depth > 64 {
            return Err(self.wrong("lists are nested too deeply"));
        }
        match self.required()? {
            Token::Word(_) | Token::Text(_) => Ok(()),
            Token::Close => Err(self.wrong("a value is missing before `]`")),
            Token::Open => loop {
                match self.required()? {
                    Token::Close => return Ok(()),
                    Token::Word(_) => self.skip_value(depth + 1)?,
                    _ => return Err(self.wrong("expected a key")),
                }
            },
        }
    }

    /// The plain entries of a list; nested ones are passed over.
    fn entries(&mut self) -> Result<Vec<(&'a str, &'a str)>> {
        if self.required()? != Token::Open {
            return Err(self.wrong("expected `[`"));
        }
        let mut entries = Vec::new();
        loop {
            match self.required()? {
                Token::Close => return Ok(entries),
                Token::Word(key) => {
                    let before = self.at;
                    match self.required()? {
                        Token::Word(value) | Token::Text(value) => entries.push((key, value)),
                        _ => {
                            self.at = before;
                            self.skip_value(0)?;
                        }
                    }
                }
                _ => return Err(self.wrong("expected a key")),
            }
        }
    }
}

#[derive(Default)]
struct Builder<'a> {
    nodes: Vec<(&'a str, Option<&'a str>, Option<&'a str>)>, // id, label, class
    edges: Vec<(&'a str, &'a str, Option<f32>, usize)>,      // source, target, weight, place
}

impl<'a> Builder<'a> {
    fn graph(&mut self, tokens: &mut Tokens<'a>) -> Result<()> {
        if tokens.required()? != Token::Open {
            return Err(tokens.wrong("expected `[` after graph"));
        }
        loop {
            match tokens.required()? {
                Token::Close => return Ok(()),
                Token::Word(key) if key.eq_ignore_ascii_case("node") => self.node(tokens)?,
                Token::Word(key) if key.eq_ignore_ascii_case("edge") => self.edge(tokens)?,
                Token::Word(_) => tokens.skip_value(0)?,
                _ => return Err(tokens.wrong("expected a key")),
            }
        }
    }

    fn node(&mut self, tokens: &mut Tokens<'a>) -> Result<()> {
        let entries = tokens.entries()?;
        let get = |name: &str| {
            entries.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|&(_, v)| v)
        };
        let id = get("id").ok_or_else(|| tokens.wrong("a node without id"))?;
        self.nodes.push((id, get("label"), get("gt").or(get("value"))));
        Ok(())
    }

    fn edge(&mut self, tokens: &mut Tokens<'a>) -> Result<()> {
        let entries = tokens.entries()?;
        let get = |name: &str| {
            entries.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|&(_, v)| v)
        };
        let (Some(source), Some(target)) = (get("source"), get("target")) else {
            return Err(tokens.wrong("an edge without source or target"));
        };
        let weight = match get("weight").or(get("value")) {
            None => None,
            Some(text) => {
                let weight: f32 =
                    text.parse().map_err(|_| tokens.wrong(&format!("`{text}` is no weight")))?;
                check_weight(weight).map_err(|e| tokens.wrong(&e.to_string()))?;
                Some(weight)
            }
        };
        self.edges.push((source, target, weight, tokens.at));
        Ok(())
    }

    fn finish(self) -> Result<Single> {
        let mut known = HashMap::new();
        for (i, &(id, ..)) in self.nodes.iter().enumerate() {
            if known.insert(id, i as u32).is_some() {
                return Err(Error::data(format!("two nodes have the id {id}")));
            }
        }
        let find = |id: &str| {
            known.get(id).copied().ok_or_else(|| {
                Error::data(format!("an edge names node {id}, which is not among the nodes"))
            })
        };
        let arcs = self
            .edges
            .iter()
            .map(|&(u, v, ..)| Ok((find(u)?, find(v)?)))
            .collect::<Result<Vec<_>>>()?;
        // Files with the value 1 at every edge mean a plain graph.
        let weighted = self.edges.iter().any(|&(_, _, w, _)| w.is_some_and(|w| w != 1.0));
        let weights =
            weighted.then(|| self.edges.iter().map(|&(_, _, w, _)| w.unwrap_or(1.0)).collect());
        let labels: Vec<Option<&str>> = self.nodes.iter().map(|&(_, label, _)| label).collect();
        let distinct: BTreeMap<&str, ()> = labels.iter().flatten().map(|&l| (l, ())).collect();
        let names: Vec<String> = if distinct.len() == self.nodes.len() {
            labels.iter().flatten().map(|l| unescape(l)).collect()
        } else {
            self.nodes.iter().map(|(id, ..)| id.to_string()).collect()
        };
        let plain = names.iter().enumerate().all(|(i, name)| *name == i.to_string());
        let classes: Option<Vec<&str>> = self.nodes.iter().map(|&(.., class)| class).collect();
        let y = classes.filter(|c| !c.is_empty()).map(|classes| {
            let classes = Partition::from_labels(&classes);
            Values::Int(classes.cluster_of().iter().map(|&c| c.into()).collect())
        });
        Ok(Single {
            num_nodes: self.nodes.len(),
            arcs,
            weights,
            ids: (!plain).then_some(names),
            y,
            ..Single::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<GraphSet> {
        read(&Source::test("t.gml", text.as_bytes()), &ReadOptions::default())
    }

    #[test]
    fn both_styles_are_read() {
        let set = parse(
            "Creator \"x [ y\"\n# c\ngraph\n[\n directed 1\n node\n [\n id 7\n label \"O'Brien B\"\n gt \"n\"\n ]\n\
             node [ id 9 label \"b\" gt \"c\" graphics [ x 1 fill [ a 2 ] ] ]\n\
             edge [ source 9 target 7 value 3 ]\n]\n",
        )
        .unwrap();
        assert_eq!(set.samples[0].graph.edges().collect::<Vec<_>>(), [(0, 1, 3.0)]);
        assert_eq!(set.samples[0].edges.sources, [1]);
        assert_eq!(set.samples[0].y, Some(Values::Int(vec![1, 0])));
        assert_eq!(set.ids.unwrap(), ["O'Brien B", "b"]);
    }

    #[test]
    fn entities_and_capitals_are_understood() {
        let set = parse("Graph [ Node [ Id 0 Label \"&#233;&#x41;\" ] node [ id 1 label \"b\" ] ]")
            .unwrap();
        assert_eq!(set.ids.unwrap(), ["éA", "b"]);
    }

    #[test]
    fn what_is_written_reads_back() {
        let (graph, _) = Graph::from_weighted_pairs(3, &[(0, 1)], &[0.25]).unwrap();
        let ids = ["a \"b\" & c".to_string(), "d".into(), "e".into()];
        let back = parse(&write(&graph, Some(&ids)).unwrap()).unwrap();
        assert_eq!((&*back.samples[0].graph, back.ids.unwrap()), (&graph, ids.to_vec()));
        let back = parse(&write(&graph, None).unwrap()).unwrap();
        assert_eq!((&*back.samples[0].graph, back.ids), (&graph, None));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            ("Creator \"x\"\n", "no `graph"),
            ("graph [\n node [ id 0 ]\n", "ends within the graph"),
            ("graph [\n node [ label \"a\" ]\n]", "line 2: a node without id"),
            (
                "graph [ node [ id 0 ]\n edge [ source 0 ] ]",
                "line 2: an edge without source or target",
            ),
            ("graph [ node [ id 0 ] node [ id 0 ] ]", "two nodes have the id 0"),
            ("graph [ node [ id 0 ] edge [ source 0 target 5 ] ]", "names node 5"),
            ("graph [ node [ id 0 ] edge [ source 0 target 0 weight x ] ]", "`x` is no weight"),
            ("graph [ node [ id \"0 ] ]", "quotation is not closed"),
            ("graph [ ] graph [ ]", "a second graph"),
            ("graph [ ]", "no node"),
        ] {
            let error = parse(text).err().unwrap();
            assert!(format!("{error:#}").contains(expected), "{text}: {error:#}");
        }
        let deep = format!("graph [ x {} ]", "[ x ".repeat(10_000));
        assert!(parse(&deep).is_err());
    }
}
