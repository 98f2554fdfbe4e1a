//! GraphML, read and written; GEXF, written. Both open in Gephi.
//!
//! Read are nodes, edges and the edge attribute called `weight`; written are also integer attributes
//! of nodes, such as their cluster at every level.

use std::collections::HashMap;
use std::fmt::Write as _;

use quick_xml::escape::escape;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

use super::single::Single;
use super::{GraphSet, ReadOptions, Source};
use crate::graph::check_weight;
use crate::{Error, Graph, Result};

pub(super) fn read(source: &Source, options: &ReadOptions) -> Result<GraphSet> {
    let text = source.text()?;
    let mut reader = Reader::from_str(text);
    let mut parser = Parser::default();
    loop {
        let before = reader.buffer_position() as usize;
        let wrong = |what: String| {
            let end = before.min(text.len());
            let line = text.as_bytes()[..end].iter().filter(|&&b| b == b'\n').count() + 1;
            Error::data(format!("line {line}: {what}"))
        };
        match reader.read_event().map_err(|e| wrong(format!("broken XML: {e}")))? {
            Event::Eof => break,
            Event::Start(tag) => parser.open(&tag, true).map_err(wrong)?,
            Event::Empty(tag) => parser.open(&tag, false).map_err(wrong)?,
            Event::Text(text) => parser.text(&text),
            Event::CData(text) => parser.text(&text),
            Event::End(tag) => parser.close(tag.local_name().as_ref()).map_err(wrong)?,
            _ => {}
        }
    }
    parser.finish()?.into_set(source, options)
}

#[derive(Default)]
struct Parser {
    graphs: usize,
    /// Key of the edge attribute `weight`.
    weight_key: Option<String>,
    ids: Vec<String>,
    known: HashMap<String, u32>,
    /// Weight of edges that do not give one.
    default_weight: Option<f32>,
    edges: Vec<(String, String, Option<f32>)>,
    in_edge: bool,
    in_weight_key: bool,
    /// Text of a weight, while one is read.
    weight: Option<String>,
}

impl Parser {
    fn open(&mut self, tag: &BytesStart<'_>, has_content: bool) -> Result<(), String> {
        let attribute = |name: &str| -> Result<Option<String>, String> {
            let found = tag.try_get_attribute(name).map_err(|e| e.to_string())?;
            let value = |a: quick_xml::events::attributes::Attribute<'_>| {
                let text = quick_xml::escape::unescape(&a.value).map_err(|e| e.to_string())?;
                Ok(text.into_owned())
            };
            found.map(value).transpose()
        };
        let required = |name: &str, of: &str| {
            attribute(name)?.ok_or_else(|| format!("{of} without attribute `{name}`"))
        };
        match tag.local_name().as_ref() {
            "key" => {
                let name = attribute("attr.name")?;
                let of = attribute("for")?.unwrap_or_else(|| "all".into());
                if name.as_deref() == Some("weight") && (of == "edge" || of == "all") {
                    self.weight_key = Some(required("id", "a key")?);
                    self.in_weight_key = has_content;
                }
            }
            "graph" => {
                self.graphs += 1;
                if self.graphs > 1 {
                    return Err("a second or nested graph; split the file".into());
                }
            }
            "node" => {
                let id = required("id", "a node")?;
                if self.known.insert(id.clone(), self.ids.len() as u32).is_some() {
                    return Err(format!("two nodes have the id `{id}`"));
                }
                self.ids.push(id);
            }
            "edge" => {
                self.edges.push((
                    required("source", "an edge")?,
                    required("target", "an edge")?,
                    None,
                ));
                self.in_edge = has_content;
            }
            "hyperedge" => return Err("a hyperedge; only edges of two nodes make a graph".into()),
            "data" if self.in_edge && has_content && self.weight_key.is_some() => {
                let is_weight = attribute("key")? == self.weight_key;
                self.weight = is_weight.then(String::new);
            }
            "default" if self.in_weight_key && has_content => self.weight = Some(String::new()),
            _ => {}
        }
        Ok(())
    }

    fn text(&mut self, text: &str) {
        if let Some(weight) = &mut self.weight {
            weight.push_str(text);
        }
    }

    fn close(&mut self, tag: &str) -> Result<(), String> {
        match tag {
            "edge" => self.in_edge = false,
            "key" => self.in_weight_key = false,
            "data" | "default" => {
                let Some(text) = self.weight.take() else { return Ok(()) };
                let weight: f32 =
                    text.trim().parse().map_err(|_| format!("`{}` is no weight", text.trim()))?;
                check_weight(weight).map_err(|e| e.to_string())?;
                match self.edges.last_mut() {
                    Some(edge) if tag == "data" => edge.2 = Some(weight),
                    _ => self.default_weight = Some(weight),
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(self) -> Result<Single> {
        if self.graphs == 0 {
            return Err(Error::data("no <graph> in it"));
        }
        let find = |id: &String| {
            self.known.get(id).copied().ok_or_else(|| {
                Error::data(format!("an edge names node `{id}`, which is not among the nodes"))
            })
        };
        let arcs = self
            .edges
            .iter()
            .map(|(u, v, _)| Ok((find(u)?, find(v)?)))
            .collect::<Result<Vec<_>>>()?;
        let weighted =
            self.default_weight.is_some() || self.edges.iter().any(|(.., w)| w.is_some());
        let default = self.default_weight.unwrap_or(1.0);
        let weights =
            weighted.then(|| self.edges.iter().map(|(.., w)| w.unwrap_or(default)).collect());
        // Ids n0, n1, … are the custom of writers that have numbers, ours among them.
        let number = |id: &String, i| *id == format!("n{i}") || *id == format!("{i}");
        let plain = self.ids.iter().enumerate().all(|(i, id)| number(id, i));
        Ok(Single {
            num_nodes: self.ids.len(),
            arcs,
            weights,
            ids: (!plain).then_some(self.ids),
            ..Single::default()
        })
    }
}

/// Integer attributes of nodes, by name.
pub(super) type NodeAttributes<'a> = &'a [(String, Vec<u32>)];

/// The graph as GraphML.
pub(super) fn write(
    graph: &Graph,
    ids: Option<&[String]>,
    attributes: NodeAttributes<'_>,
) -> Result<String> {
    let mut text = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n",
    );
    for (i, (name, _)) in attributes.iter().enumerate() {
        let _ = writeln!(
            text,
            "  <key id=\"a{i}\" for=\"node\" attr.name=\"{}\" attr.type=\"int\"/>",
            escape(name)
        );
    }
    if graph.is_weighted() {
        text += "  <key id=\"w\" for=\"edge\" attr.name=\"weight\" attr.type=\"double\"/>\n";
    }
    text += "  <graph edgedefault=\"undirected\">\n";
    let id = |u: usize| ids.map_or_else(|| format!("n{u}"), |ids| escape(&ids[u]).into_owned());
    for u in 0..graph.num_nodes() {
        let _ = write!(text, "    <node id=\"{}\">", id(u));
        for (i, (_, values)) in attributes.iter().enumerate() {
            let _ = write!(text, "<data key=\"a{i}\">{}</data>", values[u]);
        }
        text += "</node>\n";
    }
    for (u, v, w) in graph.edges() {
        let _ =
            write!(text, "    <edge source=\"{}\" target=\"{}\">", id(u as usize), id(v as usize));
        if graph.is_weighted() {
            let _ = write!(text, "<data key=\"w\">{w}</data>");
        }
        text += "</edge>\n";
    }
    text += "  </graph>\n</graphml>\n";
    Ok(text)
}

/// The graph as GEXF 1.3.
pub(super) fn write_gexf(
    graph: &Graph,
    ids: Option<&[String]>,
    attributes: NodeAttributes<'_>,
) -> Result<String> {
    let mut text = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <gexf xmlns=\"http://gexf.net/1.3\" version=\"1.3\">\n  \
         <graph defaultedgetype=\"undirected\">\n",
    );
    if !attributes.is_empty() {
        text += "    <attributes class=\"node\">\n";
        for (i, (name, _)) in attributes.iter().enumerate() {
            let name = escape(name);
            let _ =
                writeln!(text, "      <attribute id=\"{i}\" title=\"{name}\" type=\"integer\"/>");
        }
        text += "    </attributes>\n";
    }
    text += "    <nodes>\n";
    for u in 0..graph.num_nodes() {
        let label = ids.map_or_else(|| u.to_string(), |ids| escape(&ids[u]).into_owned());
        let _ = write!(text, "      <node id=\"{u}\" label=\"{label}\">");
        if !attributes.is_empty() {
            text += "<attvalues>";
            for (i, (_, values)) in attributes.iter().enumerate() {
                let _ = write!(text, "<attvalue for=\"{i}\" value=\"{}\"/>", values[u]);
            }
            text += "</attvalues>";
        }
        text += "</node>\n";
    }
    text += "    </nodes>\n    <edges>\n";
    for (i, (u, v, w)) in graph.edges().enumerate() {
        let weight = if graph.is_weighted() { format!(" weight=\"{w}\"") } else { String::new() };
        let _ = writeln!(text, "      <edge id=\"{i}\" source=\"{u}\" target=\"{v}\"{weight}/>");
    }
    text += "    </edges>\n  </graph>\n</gexf>\n";
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<GraphSet> {
        read(&Source::test("t.graphml", text.as_bytes()), &ReadOptions::default())
    }

    #[test]
    fn networkx_style_is_read() {
        let set = parse(
            "<?xml version='1.0' encoding='utf-8'?>\n<graphml xmlns=\"x\">\
             <key id=\"d0\" for=\"edge\" attr.name=\"weight\" attr.type=\"double\"/>\
             <key id=\"d1\" for=\"node\" attr.name=\"color\" attr.type=\"string\"/>\
             <graph edgedefault=\"directed\"><node id=\"a &amp; b\"><data key=\"d1\">5</data></node>\
             <node id=\"c\"/><edge source=\"c\" target=\"a &amp; b\"><data key=\"d0\"> 2.5 </data></edge>\
             </graph></graphml>",
        )
        .unwrap();
        assert_eq!(set.samples[0].graph.edges().collect::<Vec<_>>(), [(0, 1, 2.5)]);
        assert_eq!(set.samples[0].edges.sources, [1]);
        assert_eq!(set.ids.unwrap(), ["a & b", "c"]);
    }

    #[test]
    fn defaults_and_cdata_are_weights_too() {
        let set = parse(
            "<graphml><key id='w' for='edge' attr.name='weight'><default>3</default></key><graph>\
             <node id='a'/><node id='b'/><node id='c'/><edge source='a' target='b'/>\
             <edge source='b' target='c'><data key='w'><![CDATA[ 2.5 ]]></data></edge></graph></graphml>",
        )
        .unwrap();
        let edges: Vec<_> = set.samples[0].graph.edges().collect();
        assert_eq!(edges, [(0, 1, 3.0), (1, 2, 2.5)]);
    }

    #[test]
    fn what_is_written_reads_back() {
        let (graph, _) = Graph::from_weighted_pairs(3, &[(0, 1), (2, 1)], &[0.5, 3.0]).unwrap();
        let attributes = [("level_1".to_string(), vec![0, 0, 1])];
        let ids = ["<a>".to_string(), "b\"c".into(), "d".into()];
        let text = write(&graph, Some(&ids), &attributes).unwrap();
        let back = parse(&text).unwrap();
        assert_eq!((&*back.samples[0].graph, back.ids.unwrap()), (&graph, ids.to_vec()));
        let plain = graph.without_weights();
        let back = parse(&write(&plain, None, &[]).unwrap()).unwrap();
        assert_eq!((&*back.samples[0].graph, back.ids), (&plain, None));
        let gexf = write_gexf(&plain, Some(&ids), &attributes).unwrap();
        assert!(
            gexf.contains(
                "<node id=\"2\" label=\"d\"><attvalues><attvalue for=\"0\" value=\"1\"/>"
            )
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            ("<graphml></graphml>", "no <graph>"),
            ("<graphml><graph><node/></graph></graphml>", "a node without attribute `id`"),
            (
                "<graph><node id=\"a\"/>\n<node id=\"a\"/></graph>",
                "line 2: two nodes have the id `a`",
            ),
            (
                "<graph><node id=\"a\"/><edge source=\"a\"/></graph>",
                "an edge without attribute `target`",
            ),
            ("<graph><node id=\"a\"/><edge source=\"a\" target=\"b\"/></graph>", "names node `b`"),
            ("<graph><node id=\"a\"></graph>", "broken XML"),
            ("<graph><hyperedge/></graph>", "a hyperedge"),
            ("<graph></graph>", "no node"),
        ] {
            let error = parse(text).err().unwrap();
            assert!(format!("{error:#}").contains(expected), "{text}: {error:#}");
        }
    }
}
