//! Parameters and batches as a safetensors file, so that other software can make the same steps.
//!
//! | array | what it is |
//! |---|---|
//! | `param.NAME` | initial values, running statistics too |
//! | `batch.I.sizes` | nodes of every graph |
//! | `batch.I.sources`, `.targets` | arcs, in rows of all nodes of the batch |
//! | `batch.I.node_features`, `.edge_features` | a row per node, per arc: whole or real numbers |
//! | `batch.I.random_walk` | a row per node |
//! | `batch.I.spectrum.vectors`, `.values`, `.counts` | a row per node; a row, and a number, per graph |
//! | `batch.I.codes` | of every ordered pair of nodes inside every graph, graph by graph, row by row |
//! | `batch.I.codebook` | a row of distances for every code; 255 if unreachable |
//! | `batch.I.y` | targets, flat |
//!
//! Of one large graph, whose rows are nodes sorted by cluster, there is one batch, without a number:
//!
//! | array | what it is |
//! |---|---|
//! | `edge_index` | sources, then targets of arcs, self-loops left out |
//! | `features`, or `features.offsets`, `.columns`, `.values` | a row per node, dense or in compressed sparse rows |
//! | `cluster` | of every node |
//! | `dist.K` | distance of every pair of clusters at level K, clipped as the model does |
//! | `train_idx`, `y` | nodes with a target to learn from; the class of every node, 0 where it is not one of them |
//!
//! The metadata is the configuration as JSON. docs/command.md lists the same names.

use std::path::Path;

use crate::config::Config;
use crate::data::arrays::{self, ArraySpec, Dtype};
use crate::data::{AtomicFile, Matrix, Values};
use crate::nn::{Batch, Parameters};
use crate::train::examples::Goal;
use crate::{Error, Result};

/// Where to, and what of.
pub(super) struct File<'a> {
    pub path: &'a Path,
    pub replace: bool,
    pub config: &'a Config,
}

/// Writes initial parameters and batches.
pub(super) fn write(file: &File, parameters: &Parameters, batches: &[(Batch, Goal)]) -> Result<()> {
    let metadata = serde_json::to_string(file.config)
        .map_err(|e| Error::config(format!("the configuration cannot be written: {e}")))?;
    let mut found = Arrays::default();
    for entry in parameters.entries() {
        let values = parameters.get(&entry.name).unwrap_or_default();
        found.reals(format!("param.{}", entry.name), &entry.shape, values);
    }
    for (number, (batch, goal)) in batches.iter().enumerate() {
        match goal.rows() {
            None => found.batch(&format!("batch.{number}"), batch)?,
            // All steps have the same one.
            Some(rows) if number == 0 => found.nodes(file.config, batch, rows, &goal.targets)?,
            Some(_) => {}
        }
    }
    let file = AtomicFile::create(file.path, file.replace)?;
    let (specs, bytes): (Vec<ArraySpec>, Vec<Vec<u8>>) = found.0.into_iter().unzip();
    let mut writer = arrays::create("safetensors", file, specs, &metadata)?;
    for (index, bytes) in bytes.iter().enumerate() {
        writer.begin(index)?;
        writer.write(bytes)?;
    }
    writer.finish()
}

/// Arrays with their bytes.
#[derive(Default)]
struct Arrays(Vec<(ArraySpec, Vec<u8>)>);

impl Arrays {
    fn reals(&mut self, name: String, shape: &[usize], values: &[f32]) {
        let spec = ArraySpec::new(name, Dtype::F32, shape);
        self.0.push((spec, bytemuck::cast_slice(values).to_vec()));
    }

    fn whole(&mut self, name: String, shape: &[usize], values: &[u32]) {
        let spec = ArraySpec::new(name, Dtype::U32, shape);
        self.0.push((spec, bytemuck::cast_slice(values).to_vec()));
    }

    fn values(&mut self, name: String, shape: &[usize], values: &Values) -> Result<()> {
        match values {
            Values::Float(values) => self.reals(name, shape, values),
            Values::Int(values) => {
                let small = |&value: &i64| {
                    let problem = || {
                        Error::data(format!("`{name}` has {value}, no number from 0 to 2³² − 1"))
                    };
                    u32::try_from(value).map_err(|_| problem())
                };
                let values = values.iter().map(small).collect::<Result<Vec<u32>>>()?;
                self.whole(name, shape, &values);
            }
        }
        Ok(())
    }

    fn matrix(&mut self, name: String, matrix: Option<&Matrix>) -> Result<()> {
        matrix.map_or(Ok(()), |matrix| {
            let rows = matrix.values.len().checked_div(matrix.width).unwrap_or(0);
            self.values(name, &[rows, matrix.width], &matrix.values)
        })
    }

    /// One large graph.
    fn nodes(
        &mut self,
        config: &Config,
        batch: &Batch,
        rows: &[u32],
        targets: &Values,
    ) -> Result<()> {
        let (nodes, edges) = (batch.num_nodes(), &batch.edges);
        let arcs = edges.sources.iter().zip(&edges.targets).filter(|(u, v)| u != v);
        let (sources, targets_of): (Vec<u32>, Vec<u32>) = arcs.unzip();
        let ends = [sources, targets_of].concat();
        self.whole("edge_index".into(), &[2, ends.len() / 2], &ends);
        if let Some(features) = &batch.features {
            match features.entries() {
                Some((offsets, columns, values)) => {
                    let offsets: Vec<u32> = offsets.iter().map(|&offset| offset as u32).collect();
                    self.whole("features.offsets".into(), &[offsets.len()], &offsets);
                    self.whole("features.columns".into(), &[columns.len()], columns);
                    self.reals("features.values".into(), &[values.len()], values);
                }
                None => {
                    self.reals("features".into(), &[nodes, features.width()], &features.to_dense())
                }
            }
        }
        if let Some(clusters) = &batch.clusters {
            self.whole("cluster".into(), &[nodes], clusters.nodes().of_row());
            let (count, first) = (clusters.len(), config.model.clusters.level);
            let clip = config.model.max_distance.per_level(config.model.levels)?;
            if let Some(codes) = clusters.codes() {
                for level in 0..codes.codebook().width() {
                    let distance =
                        |code: u32| codes.codebook().row(code)[level].min(clip.at(first + level));
                    let bytes = codes.iter().map(distance).collect();
                    let name = format!("dist.{}", first + level);
                    self.0.push((ArraySpec::new(name, Dtype::U8, &[count, count]), bytes));
                }
            }
        }
        self.whole("train_idx".into(), &[rows.len()], rows);
        let Values::Int(classes) = targets else {
            return Err(Error::data(
                "only classes of nodes can be written; take a set with classes",
            ));
        };
        let mut y = vec![0; nodes];
        rows.iter().zip(classes).for_each(|(&row, &class)| y[row as usize] = class);
        self.values("y".into(), &[nodes], &Values::Int(y))
    }

    fn batch(&mut self, place: &str, batch: &Batch) -> Result<()> {
        let name = |part: &str| format!("{place}.{part}");
        let counts =
            |counts: &[usize]| counts.iter().map(|&count| count as u32).collect::<Vec<_>>();
        self.whole(name("sizes"), &[batch.num_graphs()], &counts(&batch.sizes));
        self.whole(name("sources"), &[batch.num_arcs()], &batch.edges.sources);
        self.whole(name("targets"), &[batch.num_arcs()], &batch.edges.targets);
        self.matrix(name("node_features"), batch.node_features.as_ref())?;
        self.matrix(name("edge_features"), batch.edge_features.as_ref())?;
        self.matrix(name("random_walk"), batch.random_walk.as_ref())?;
        if let Some(spectrum) = &batch.spectrum {
            let frequencies = spectrum.frequencies;
            let (vectors, values) =
                ([batch.num_nodes(), frequencies], [batch.num_graphs(), frequencies]);
            self.reals(name("spectrum.vectors"), &vectors, &spectrum.vectors);
            self.reals(name("spectrum.values"), &values, &spectrum.values);
            self.whole(name("spectrum.counts"), &[batch.num_graphs()], &counts(&spectrum.counts));
        }
        if let Some(codes) = &batch.codes {
            let book = codes.codebook();
            self.whole(name("codes"), &[codes.len()], &codes.iter().collect::<Vec<u32>>());
            let spec = ArraySpec::new(name("codebook"), Dtype::U8, &[book.len(), book.width()]);
            self.0.push((spec, book.rows().to_vec()));
        }
        batch.targets.as_ref().map_or(Ok(()), |y| self.values(name("y"), &[y.len()], y))
    }
}
