//! `hdse wl`: which graphs distances tell apart.
//!
//! Two graphs, all graphs of a set, or the catalogue of hard pairs. The verdict is what is printed; the exit code
//! is 0 whichever it is.

use std::io::Write as _;
use std::path::PathBuf;

use clap::ValueEnum;
use serde_json::{Value, json};

use super::encode::levels_parser;
use super::graph::only_graph;
use super::input::{FormatParser, InputOptions, NameParser, warn_if_slow};
use super::output::{Output, count, object, thousands};
use super::progress::Progress;
use crate::coarsen::parse;
use crate::data::{AtomicFile, Format, GraphSet, Sample, Values};
use crate::distance::MaxDistance;
use crate::encode::{Encoder, Partitions};
use crate::expressive::catalogue::{self, PAIRS, Verdict, judge};
use crate::expressive::{Distance, Refinement, refine_from};
use crate::rng::Seed;
use crate::{Error, Graph, MemoryLimit, Partition, Result};

#[derive(clap::Args)]
pub(super) struct Options {
    /// A graph: a file, or a named one such as named:desargues (`hdse list graphs`)
    #[arg(value_name = "A", requires = "second")]
    #[arg(required_unless_present_any = ["set", "catalogue"])]
    first: Option<String>,
    /// The graph to compare it with
    #[arg(value_name = "B")]
    second: Option<String>,
    /// Group all graphs of a set instead
    #[arg(long, value_name = "INPUT", conflicts_with = "first")]
    set: Option<String>,
    /// Try pairs of graphs that are known to be hard instead
    #[arg(long, conflicts_with_all = ["first", "set"])]
    catalogue: bool,
    /// What nodes see of each other; all by default
    #[arg(long, short, value_name = "NAME", value_enum, value_delimiter = ',')]
    distance: Vec<Name>,
    /// How hdse groups nodes, as NAME or NAME:key=value,...; several for several hierarchies. `hdse list
    /// coarseners` shows all
    #[arg(long, short, value_name = "NAME[:key=value,...]", value_parser = NameParser::Coarseners)]
    #[arg(default_value = "newman")]
    coarsener: Vec<String>,
    /// Number of levels K of hdse
    #[arg(long, short = 'k', value_name = "K", default_value_t = 1)]
    #[arg(value_parser = levels_parser())]
    levels: u8,
    /// Clip distances of hdse at L, at most 254; one value, or one per level as 30/10
    #[arg(long, short = 'l', value_name = "L", default_value = "254")]
    #[arg(value_parser = MaxDistance::parse)]
    max_distance: MaxDistance,
    /// Seed of all random choices
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Let nodes start with their features as colours, not all alike
    #[arg(long, conflicts_with = "catalogue")]
    types: bool,
    /// Renumbered copies of every graph of the catalogue
    #[arg(long, value_name = "N", default_value_t = 50, requires = "catalogue")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    copies: u32,
    /// Print the catalogue as the page of the documentation
    #[arg(long, requires = "catalogue", conflicts_with = "json")]
    markdown: bool,
    /// With --set: write the group of every graph, a row of comma-separated values for each
    #[arg(long, short, value_name = "OUT", requires = "set")]
    output: Option<PathBuf>,
    /// Format of the input; told from its name and first bytes by default
    #[arg(long, value_parser = FormatParser::Input, conflicts_with = "catalogue")]
    input_format: Option<&'static Format>,
    /// Replace the file if it exists
    #[arg(long, requires = "output")]
    force: bool,
}

/// A distance, whatever its hierarchy.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Name {
    /// Same node, neighbours or neither: the plain test, 1-WL
    Adjacency,
    /// Hops of a shortest path
    Spd,
    /// Effective resistance, every edge being one ohm
    Resistance,
    /// Hops, and distances at all levels of a hierarchy
    Hdse,
}

pub(super) fn run(options: &Options, limit: MemoryLimit, output: &Output) -> Result<()> {
    let encoders = options.encoders(limit)?;
    let distances = options.distances(&encoders);
    if options.catalogue {
        return hard_pairs(options, &distances, limit, output);
    }
    if let Some(set) = &options.set {
        return groups(set, options, &distances, limit, output);
    }
    let names: Vec<&str> =
        [&options.first, &options.second].into_iter().flatten().map(String::as_str).collect();
    pair(&names, options, &distances, limit, output)
}

impl Options {
    /// An encoder for every coarsener.
    fn encoders(&self, limit: MemoryLimit) -> Result<Vec<Encoder>> {
        let levels = usize::from(self.levels);
        let has_hierarchy = self.distance.is_empty() || self.distance.contains(&Name::Hdse);
        if !has_hierarchy && (self.coarsener != ["newman"] || self.levels != 1) {
            return Err(Error::config(
                "`--coarsener` and `--levels` are for the distance hdse; add it to `--distance`, or leave them out",
            ));
        }
        if self.max_distance.len() > levels + 1 {
            return Err(Error::config(format!(
                "`--max-distance` has {} values, but there are only levels 0 to {levels}",
                self.max_distance.len()
            )));
        }
        let encoder = |spec: &String| {
            Ok(Encoder {
                partitions: Partitions::Coarsener(parse(spec)?),
                levels,
                max_distance: self.max_distance.clone(),
                seed: Seed(self.seed),
                limit,
            })
        };
        self.coarsener.iter().map(encoder).collect()
    }

    fn distances<'a>(&self, encoders: &'a [Encoder]) -> Vec<Distance<'a>> {
        let names = match &self.distance[..] {
            [] => Name::value_variants(),
            some => some,
        };
        let of = |name: &Name| match name {
            Name::Adjacency => vec![Distance::Adjacency],
            Name::Spd => vec![Distance::Hops],
            Name::Resistance => vec![Distance::Resistance],
            Name::Hdse => encoders.iter().map(Distance::Hierarchy).collect(),
        };
        names.iter().flat_map(of).collect()
    }

    fn read(&self, input: &str, limit: MemoryLimit, output: &Output) -> Result<GraphSet> {
        let options = InputOptions::of(input, self.input_format);
        let set = match self.types {
            true => {
                let set = options.read_whole(limit)?;
                output.repairs(set.repairs());
                set
            }
            false => options.read(None, limit, output)?,
        };
        if self.distance.is_empty() || self.distance.contains(&Name::Hdse) {
            for coarsener in &self.coarsener {
                warn_if_slow(coarsener, &set, output);
            }
        }
        Ok(set)
    }
}

/// Refines graphs by every distance.
fn refine_all(
    samples: &[&Sample],
    options: &Options,
    distances: &[Distance<'_>],
    limit: MemoryLimit,
    output: &Output,
) -> Result<Vec<Refinement>> {
    let graphs: Vec<&Graph> = samples.iter().map(|sample| &*sample.graph).collect();
    let types = match options.types {
        true => types(samples)?,
        false => graphs.iter().map(|graph| vec![0; graph.num_nodes()]).collect(),
    };
    let total = (graphs.len() * distances.len()) as u64;
    let progress = Progress::new(total, "graphs compared", output);
    let refine = |distance| refine_from(&graphs, &types, distance, limit, &progress);
    distances.iter().map(refine).collect()
}

/// A number for every distinct row of node features.
fn types(samples: &[&Sample]) -> Result<Vec<Vec<u32>>> {
    let mut rows: Vec<Vec<u64>> = Vec::new();
    let real = samples.iter().filter_map(|sample| sample.node_feat.as_ref());
    let real = real.into_iter().any(|features| matches!(features.values, Values::Float(_)));
    // Where some are real numbers all are; 0 and −0 are one.
    let bits = |value: f32| u64::from((value + 0.0).to_bits());
    for (number, sample) in samples.iter().enumerate() {
        let features = sample.node_feat.as_ref().filter(|features| features.width > 0);
        let features = features.ok_or_else(|| {
            Error::config(format!("graph {number} has no node features; leave out `--types`"))
        })?;
        let numbers: Vec<u64> = match &features.values {
            Values::Int(values) if real => values.iter().map(|&value| bits(value as f32)).collect(),
            Values::Int(values) => values.iter().map(|&value| value as u64).collect(),
            Values::Float(values) => values.iter().map(|&value| bits(value)).collect(),
        };
        rows.extend(numbers.chunks_exact(features.width).map(<[u64]>::to_vec));
    }
    let types = Partition::from_labels(&rows);
    let mut rest = types.cluster_of();
    let take = |sample: &&Sample| {
        let (own, others) = rest.split_at(sample.graph.num_nodes());
        rest = others;
        own.to_vec()
    };
    Ok(samples.iter().map(take).collect())
}

/// `hdse wl A B`.
fn pair(
    names: &[&str],
    options: &Options,
    distances: &[Distance<'_>],
    limit: MemoryLimit,
    output: &Output,
) -> Result<()> {
    if names == ["-", "-"] {
        return Err(Error::config(
            "standard input can be read once; put one of the graphs into a file",
        ));
    }
    let sets = names.iter().map(|name| options.read(name, limit, output));
    let sets = sets.collect::<Result<Vec<_>>>()?;
    let samples = sets.iter().zip(names).map(|(set, name)| only_graph(set, name));
    let samples = samples.collect::<Result<Vec<&Sample>>>()?;
    let graphs: Vec<&Graph> = samples.iter().map(|sample| &*sample.graph).collect();
    let found = refine_all(&samples, options, distances, limit, output)?;
    let told_apart = |of: &Refinement| of.groups.num_clusters() == 2;
    let told_by = |hierarchies: bool| {
        let is_one = |distance: &Distance<'_>| matches!(distance, Distance::Hierarchy(_));
        let mut rows = distances.iter().zip(&found);
        rows.any(|(distance, of)| is_one(distance) == hierarchies && told_apart(of))
    };
    let same_size = graphs[0].num_nodes() == graphs[1].num_nodes();
    if same_size && told_by(true) && !told_by(false) {
        output.note(
            "hierarchies may hang on the numbering of nodes, and then tell copies of one graph apart as well; \
             docs/expressiveness.md has how often",
        );
    }
    output.result(
        || {
            let row = |(distance, of): (&Distance<'_>, &Refinement)| {
                json!({
                    "distance": distance.describe(), "told_apart": told_apart(of), "rounds": of.rounds(),
                    "colors": [of.num_colors(0), of.num_colors(1)],
                })
            };
            let rows: Vec<Value> = distances.iter().zip(&found).map(row).collect();
            let fields = [("graphs", json!(names)), ("distances", json!(rows))];
            object(fields.into_iter().chain(output.resources()))
        },
        || {
            let mut text = String::new();
            for (name, graph) in names.iter().zip(&graphs) {
                let nodes = count(graph.num_nodes() as u64, "node");
                text += &format!("{name}: {nodes}, {}\n", count(graph.num_edges() as u64, "edge"));
            }
            let mut rows = vec![["distance", "told apart", "colours"].map(String::from).to_vec()];
            for (distance, of) in distances.iter().zip(&found) {
                let verdict = match (told_apart(of), of.rounds()) {
                    (false, _) => "no".into(),
                    (true, 0) if options.types => "by size or types".into(),
                    (true, 0) => "by size".into(),
                    (true, rounds) => format!("after {}", count(rounds as u64, "round")),
                };
                let colors = format!("{} and {}", of.num_colors(0), of.num_colors(1));
                rows.push(vec![distance.describe(), verdict, colors]);
            }
            text + "\n" + &aligned(&rows)
        },
    )
}

/// `hdse wl --set INPUT`.
fn groups(
    input: &str,
    options: &Options,
    distances: &[Distance<'_>],
    limit: MemoryLimit,
    output: &Output,
) -> Result<()> {
    let file = match &options.output {
        Some(path) => {
            let input = InputOptions::of(input, options.input_format);
            Some(input.create(path, options.force)?)
        }
        None => None,
    };
    let set = options.read(input, limit, output)?;
    let graphs: Vec<&Sample> = set.samples.iter().collect();
    let found = refine_all(&graphs, options, distances, limit, output)?;
    if let Some(file) = file {
        write(file, distances, &found, graphs.len())?;
    }
    // Sizes of groups, the largest first.
    let sizes = |of: &Refinement| {
        let mut sizes = of.groups.sizes();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        sizes
    };
    let alone = |sizes: &[u32]| sizes.iter().filter(|&&size| size == 1).count();
    output.result(
        || {
            let row = |(distance, of): (&Distance<'_>, &Refinement)| {
                let sizes = sizes(of);
                json!({
                    "distance": distance.describe(), "groups": sizes.len(), "alone": alone(&sizes),
                    "largest": &sizes[..sizes.len().min(LARGEST)], "groups_after_rounds": of.history,
                })
            };
            let rows: Vec<Value> = distances.iter().zip(&found).map(row).collect();
            let fields = [("graphs", json!(graphs.len())), ("distances", json!(rows))];
            object(fields.into_iter().chain(output.resources()))
        },
        || {
            let head = ["distance", "groups", "alone", "rounds", "largest groups"];
            let mut rows = vec![head.map(String::from).to_vec()];
            for (distance, of) in distances.iter().zip(&found) {
                let sizes = sizes(of);
                let largest = sizes.iter().take(LARGEST).take_while(|&&size| size > 1);
                let largest: Vec<String> = largest.map(|&size| thousands(size.into())).collect();
                rows.push(vec![
                    distance.describe(),
                    thousands(sizes.len() as u64),
                    thousands(alone(&sizes) as u64),
                    of.rounds().to_string(),
                    largest.join(" "),
                ]);
            }
            let head = format!("{input}: {}\n\n", count(graphs.len() as u64, "graph"));
            let wrote = options.output.as_ref().map_or(String::new(), |path| {
                format!("\nwrote {} ({:.1} s)\n", path.display(), output.seconds())
            });
            head + &aligned(&rows) + &wrote
        },
    )
}

/// How many sizes of groups are printed.
const LARGEST: usize = 8;

/// A row for every graph, a column for every distance.
fn write(
    mut file: AtomicFile,
    distances: &[Distance<'_>],
    found: &[Refinement],
    graphs: usize,
) -> Result<()> {
    // Descriptions hold commas.
    let head: String =
        distances.iter().map(|distance| format!(",\"{}\"", distance.describe())).collect();
    let mut text = format!("graph{head}\n");
    for graph in 0..graphs {
        let cell = |of: &Refinement| format!(",{}", of.groups.cluster_of()[graph]);
        text += &format!("{graph}{}\n", found.iter().map(cell).collect::<String>());
    }
    file.write_all(text.as_bytes()).map_err(|e| Error::io("cannot write", file.path(), e))?;
    file.commit()
}

/// `hdse wl --catalogue`.
fn hard_pairs(
    options: &Options,
    distances: &[Distance<'_>],
    limit: MemoryLimit,
    output: &Output,
) -> Result<()> {
    let copies = options.copies as usize;
    let total = PAIRS.len() * distances.len() * 2 * copies;
    let progress = Progress::new(total as u64, "copies compared", output);
    let mut verdicts: Vec<Vec<Verdict>> = Vec::new();
    for pair in PAIRS {
        let [first, second] = catalogue::graphs(pair)?;
        let seed = Seed(options.seed);
        let of = |distance: &Distance<'_>| {
            judge([&first, &second], distance, copies, seed, limit, &progress)
        };
        verdicts.push(distances.iter().map(of).collect::<Result<_>>()?);
    }
    drop(progress);
    if options.markdown {
        return output.print(&page(&verdicts, distances, options));
    }
    output.result(
        || {
            let row = |(pair, verdicts): (&catalogue::Pair, &Vec<Verdict>)| {
                let of = |(distance, verdict): (&Distance<'_>, &Verdict)| {
                    json!({
                        "distance": distance.describe(), "told_apart": verdict.told_apart(),
                        "signatures": verdict.signatures, "common": verdict.common,
                    })
                };
                let found: Vec<Value> = distances.iter().zip(verdicts).map(of).collect();
                json!({ "kind": pair.kind, "graphs": pair.names, "distances": found })
            };
            let rows: Vec<Value> = PAIRS.iter().zip(&verdicts).map(row).collect();
            let fields = [("copies", json!(copies)), ("pairs", json!(rows))];
            object(fields.into_iter().chain(output.resources()))
        },
        || aligned(&table(&verdicts, distances)),
    )
}

/// Head and rows of the catalogue.
fn table(verdicts: &[Vec<Verdict>], distances: &[Distance<'_>]) -> Vec<Vec<String>> {
    let head = ["kind", "graphs"].map(String::from).into_iter();
    let mut rows: Vec<Vec<String>> =
        vec![head.chain(distances.iter().map(Distance::describe)).collect()];
    for (pair, verdicts) in PAIRS.iter().zip(verdicts) {
        let first = [pair.kind.to_string(), pair.names.join(" ")];
        rows.push(first.into_iter().chain(verdicts.iter().map(cell)).collect());
    }
    rows
}

/// "apart", "alike" or "mixed", and how many signatures either graph has unless it is one.
fn cell(verdict: &Verdict) -> String {
    let word = match verdict.common {
        0 => "apart",
        common if verdict.signatures == [common, common] => "alike",
        _ => "mixed",
    };
    match verdict.signatures {
        [1, 1] => word.to_string(),
        [first, second] => format!("{word} {first}/{second}"),
    }
}

/// The catalogue as a page of the documentation.
fn page(verdicts: &[Vec<Verdict>], distances: &[Distance<'_>], options: &Options) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rows = table(verdicts, distances);
    let coarseners: String =
        options.coarsener.iter().map(|coarsener| format!(" -c {coarsener}")).collect();
    let names = options.distance.iter().filter_map(ValueEnum::to_possible_value);
    let names: String = names.map(|name| format!(" -d {}", name.get_name())).collect();
    let clip = match options.max_distance.to_string() {
        clip if clip == "254" => String::new(),
        clip => format!(" -l {clip}"),
    };
    let mut text = "# What distances tell apart\n\nPairs of graphs that are not isomorphic and that the plain \
        Weisfeiler-Leman test (`adjacency`) can't tell apart, and what becomes of them with other distances \
        ([Expressiveness](../expressiveness.md)).\n\n"
        .to_string();
    text += &format!(
        "Written by `hdse wl --catalogue{names}{coarseners} -k {}{clip} --seed {} --copies {} --markdown`.\n\n",
        options.levels, options.seed, options.copies
    );
    text += &line(&rows[0]);
    text += &format!("|{}\n", "---|".repeat(rows[0].len()));
    for row in &rows[1..] {
        text += &line(row);
    }
    text + &format!(
        "\n* Every graph is there {} times, with its nodes numbered at random. *apart*: no copy of the one has a signature that \
         a copy of the other has; *alike*: both have the same signatures; *mixed*: some are shared.\n\
         * a/b: copies of the first graph have a different signatures, those of the second b. Where that is more than one, the \
         hierarchy hangs on the numbering, and *apart* is no proof: copies of one graph are told apart as well.\n\
         * `hdse list graphs` explains the names.\n",
        options.copies
    )
}

/// Columns side by side.
fn aligned(rows: &[Vec<String>]) -> String {
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().enumerate().map(|(i, cell)| format!("{cell:<0$}", width(i)));
        let line = cells.collect::<Vec<_>>().join("  ");
        text += &format!("{}\n", line.trim_end());
    }
    text
}
