//! Graph sets of the TU collection: a folder of text files, `NAME_A.txt` and its companions.
//!
//! | file | a line is |
//! |---|---|
//! | `_A.txt` | an arc `u, v`; nodes of all graphs are numbered together from 1 |
//! | `_graph_indicator.txt` | the graph of a node, from 1 |
//! | `_graph_labels.txt`, `_graph_attributes.txt` | target of a graph |
//! | `_node_labels.txt`, `_node_attributes.txt` | features of a node |
//! | `_edge_labels.txt`, `_edge_attributes.txt` | features of an arc |
//!
//! Attributes are preferred to labels as features where both are there; graph labels to attributes as
//! targets. Named by its folder, or by its `_A.txt`. Morris et al., "TUDataset", 2020.

use std::path::{Path, PathBuf};

use super::sample::{Lists, Numbers, Row};
use super::{GraphSet, ReadOptions, Source, Values};
use crate::error::Context as _;
use crate::{Error, Result};

/// The `NAME_A.txt` that a path names, if it names a TU set.
pub(super) fn find(path: &Path) -> Option<PathBuf> {
    let is_arcs = |p: &Path| {
        let name = p.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let stem = name.strip_suffix(".gz").unwrap_or(&name).strip_suffix("_A.txt")?.to_string();
        companion(p, &stem, "graph_indicator").map(|_| p.to_path_buf())
    };
    if path.is_file() {
        return is_arcs(path);
    }
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(path).ok()?.flatten().map(|e| e.path()).collect();
    files.sort();
    files.iter().find_map(|p| is_arcs(p))
}

/// `STEM_SUFFIX.txt` beside `path`, plain or gzipped, if it is there.
fn companion(path: &Path, stem: &str, suffix: &str) -> Option<PathBuf> {
    let candidates =
        [".txt", ".txt.gz"].map(|end| path.with_file_name(format!("{stem}_{suffix}{end}")));
    candidates.into_iter().find(|candidate| candidate.is_file())
}

pub(super) fn read(arcs: &Path, options: &ReadOptions) -> Result<GraphSet> {
    let mut hasher = blake3::Hasher::new();
    let mut table = |suffix: &str| -> Result<Option<Table>> {
        let name = arcs.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let stem = name.split("_A.txt").next().unwrap_or_default();
        let Some(path) = companion(arcs, stem, suffix) else { return Ok(None) };
        let source = Source::load(&path.to_string_lossy(), options.limit)?;
        hasher.update(source.bytes());
        Table::parse(source.text()?).map(Some).context(|| path.display().to_string())
    };
    let required = |table: Option<Table>, what: &str| {
        table.ok_or_else(|| Error::data(format!("no file `…_{what}.txt` beside it")))
    };
    let arcs_table = required(table("A")?, "A")?;
    let indicator = required(table("graph_indicator")?, "graph_indicator")?;
    let mut wanted = |first: &str, second: &str| -> Result<Option<Table>> {
        if !options.features {
            return Ok(None);
        }
        let preferred = table(first)?;
        if preferred.is_some() { Ok(preferred) } else { table(second) }
    };
    let node_feat = wanted("node_attributes", "node_labels")?;
    let edge_attr = wanted("edge_attributes", "edge_labels")?;
    let y = wanted("graph_labels", "graph_attributes")?;

    let graph_of = indicator.ints("graph_indicator")?;
    let nodes = graph_of.len();
    if !graph_of.is_sorted() || graph_of.first() != Some(&1) {
        return Err(Error::data("`_graph_indicator.txt` does not number graphs 1, 2, … in order"));
    }
    if let Some(gap) = graph_of.windows(2).find(|pair| pair[1] > pair[0] + 1) {
        return Err(Error::data(format!(
            "`_graph_indicator.txt` has no node of graph {}",
            gap[0] + 1
        )));
    }
    let total = graph_of[nodes - 1] as usize;
    if total > nodes {
        return Err(Error::data(format!("{total} graphs for {nodes} nodes")));
    }
    for (rows, table, name) in [
        (nodes, &node_feat, "node features"),
        (arcs_table.rows(), &edge_attr, "edge features"),
        (total, &y, "graph targets"),
    ] {
        if let Some(table) = table
            && table.rows() != rows
        {
            return Err(Error::data(format!("{} lines of {name}, expected {rows}", table.rows())));
        }
    }
    let mut first_node = vec![0; total + 1];
    for &g in graph_of {
        first_node[g as usize] += 1;
    }
    for g in 0..total {
        first_node[g + 1] += first_node[g];
    }

    // Arcs of every graph, in the order of the file.
    if arcs_table.width != 2 {
        return Err(Error::data("`_A.txt` needs two numbers per line"));
    }
    let mut arcs_of: Vec<Vec<(usize, i64, i64)>> = vec![Vec::new(); total];
    for (i, pair) in arcs_table.ints("A")?.as_chunks::<2>().0.iter().enumerate() {
        let graph = |node: i64| {
            let index = usize::try_from(node - 1).ok().filter(|&i| i < nodes);
            index.map(|i| graph_of[i] as usize - 1).ok_or_else(|| {
                Error::data(format!(
                    "_A.txt, line {}: node {node} is out of range 1 … {nodes}",
                    i + 1
                ))
            })
        };
        let (g, h) = (graph(pair[0])?, graph(pair[1])?);
        if g != h {
            return Err(Error::data(format!(
                "_A.txt, line {}: an arc from graph {} to graph {}",
                i + 1,
                g + 1,
                h + 1
            )));
        }
        let base = first_node[g] as i64 + 1;
        arcs_of[g].push((i, pair[0] - base, pair[1] - base));
    }

    let range = options.shard.map_or(0..total, |s| s.range(total));
    let sample = |g: usize| {
        let ids: Vec<i64> = arcs_of[g]
            .iter()
            .map(|&(_, u, _)| u)
            .chain(arcs_of[g].iter().map(|&(.., v)| v))
            .collect();
        let count = arcs_of[g].len();
        let lines = |table: &Option<Table>, lines: &mut dyn Iterator<Item = usize>| {
            table.as_ref().map(|t| t.select(lines))
        };
        let node_feat = lines(&node_feat, &mut (first_node[g]..first_node[g + 1]));
        let edge_attr = lines(&edge_attr, &mut arcs_of[g].iter().map(|&(i, ..)| i));
        let y = lines(&y, &mut std::iter::once(g));
        Row {
            num_nodes: (first_node[g + 1] - first_node[g]) as i64,
            edge_index: Lists { offsets: &[0, count, 2 * count], values: Numbers::Int(&ids) },
            node_feat: node_feat.as_ref().map(Selected::lists),
            edge_attr: edge_attr.as_ref().map(Selected::lists),
            pos: None,
            y: y.as_ref().map(|y| y.lists().values),
        }
        .into_sample()
        .context(|| format!("graph {}", g + 1))
    };
    Ok(GraphSet {
        samples: range.clone().map(sample).collect::<Result<_>>()?,
        first: range.start,
        total,
        hash: hasher.finalize().to_hex().to_string(),
        ids: None,
    })
}

/// Lines of numbers, all of one width.
struct Table {
    width: usize,
    values: Values,
}

impl Table {
    fn parse(text: &str) -> Result<Table> {
        let mut width = None;
        let mut numbers: Vec<&str> = Vec::new();
        for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let before = numbers.len();
            numbers.extend(line.split(',').map(str::trim));
            let here = numbers.len() - before;
            if *width.get_or_insert(here) != here {
                return Err(Error::data(format!(
                    "line {} has {here} numbers, the first has {}",
                    i + 1,
                    width.unwrap_or(0)
                )));
            }
        }
        let wrong = |text: &&str| Error::data(format!("`{text}` is not a number"));
        let ints: Option<Vec<i64>> = numbers.iter().map(|n| n.parse().ok()).collect();
        let values = match ints {
            Some(ints) => Values::Int(ints),
            None => Values::Float(
                numbers.iter().map(|n| n.parse().map_err(|_| wrong(n))).collect::<Result<_>>()?,
            ),
        };
        Ok(Table { width: width.unwrap_or(1), values })
    }

    fn rows(&self) -> usize {
        self.values.len() / self.width
    }

    fn ints(&self, name: &str) -> Result<&[i64]> {
        match &self.values {
            Values::Int(values) => Ok(values),
            Values::Float(_) => Err(Error::data(format!("`_{name}.txt` holds real numbers"))),
        }
    }

    fn select(&self, lines: &mut dyn Iterator<Item = usize>) -> Selected {
        let cells = lines.flat_map(|line| line * self.width..(line + 1) * self.width);
        let values = match &self.values {
            Values::Int(v) => Values::Int(cells.map(|i| v[i]).collect()),
            Values::Float(v) => Values::Float(cells.map(|i| v[i]).collect()),
        };
        let rows = values.len() / self.width;
        Selected { offsets: (0..=rows).map(|i| i * self.width).collect(), values }
    }
}

/// Some lines of a table.
struct Selected {
    offsets: Vec<usize>,
    values: Values,
}

impl Selected {
    fn lists(&self) -> Lists<'_> {
        let values = match &self.values {
            Values::Int(v) => Numbers::Int(v),
            Values::Float(v) => Numbers::Float(v),
        };
        Lists { offsets: &self.offsets, values }
    }
}
