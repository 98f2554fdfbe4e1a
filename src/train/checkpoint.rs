//! Everything that a run needs to go on as if it had never stopped.
//!
//! One safetensors file: the model's parameters and running statistics under their names, the
//! optimiser's arrays as `optimizer.NAME` (not with the best model, which no run goes on from), and the position as metadata. Random choices follow the seed and the
//! position alone, so there is no generator to save. Written beside its place and renamed when complete.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::optimizer::{Optimizer, OptimizerState};
use crate::data::AtomicFile;
use crate::data::arrays::{self, ArraySpec, Dtype};
use crate::nn::{Entry, Parameters};
use crate::{Error, Result};

/// Where a run is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Complete epochs.
    pub epoch: u64,
    /// Complete batches of the epoch that is not.
    pub batch: u64,
    /// Steps of the optimiser.
    pub step: u64,
    /// Sum of the losses of these batches, times their sizes: bits of an `f64`, which text would round.
    pub loss_bits: u64,
    /// Targets in these batches.
    pub targets: u64,
    /// The best epoch so far.
    pub best: Option<Best>,
}

/// The best epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Best {
    /// Its number, from 0.
    pub epoch: u64,
    /// Its metric on the validation graphs: bits of an `f64`.
    pub value_bits: u64,
}

#[derive(Serialize, Deserialize)]
struct Metadata {
    kind: String,
    /// Of configuration, data and seed: a checkpoint of another run is refused.
    run: String,
    optimizer_step: u64,
    position: Position,
}

const KIND: &str = "hdse checkpoint 1";

/// Writes a checkpoint, with the optimiser if a run is to go on from it.
pub fn save(
    path: &Path,
    run: &str,
    position: &Position,
    parameters: &Parameters,
    optimizer: Option<&Optimizer>,
) -> Result<()> {
    let state = optimizer.map(Optimizer::state);
    let metadata = Metadata {
        kind: KIND.into(),
        run: run.into(),
        optimizer_step: state.as_ref().map_or(0, |state| state.step),
        position: position.clone(),
    };
    let metadata = serde_json::to_string(&metadata)
        .map_err(|e| Error::data(format!("the position cannot be written: {e}")))?;
    let spec = |entry: &Entry| ArraySpec::new(&entry.name, Dtype::F32, &entry.shape);
    let mut specs: Vec<ArraySpec> = parameters.entries().iter().map(spec).collect();
    let arrays = state.as_ref().map_or(&[][..], |state| &state.arrays);
    for (name, values) in arrays {
        specs.push(ArraySpec::new(format!("optimizer.{name}"), Dtype::F32, &[values.len()]));
    }
    let file = AtomicFile::create(path, true)?;
    let mut writer = arrays::create("safetensors", file, specs, &metadata)?;
    let own = parameters.entries().iter().filter_map(|entry| parameters.get(&entry.name));
    for (index, values) in own.chain(arrays.iter().map(|(_, values)| *values)).enumerate() {
        writer.begin(index)?;
        writer.write(bytemuck::cast_slice(values))?;
    }
    writer.finish()
}

/// Reads a checkpoint of the same run into a model's parameters and its optimiser, or only the former.
pub fn load(
    path: &Path,
    run: &str,
    parameters: &mut Parameters,
    optimizer: Option<&mut Optimizer>,
) -> Result<Position> {
    read(path, run, parameters, optimizer).map_err(|e| e.context(path.display().to_string()))
}

fn read(
    path: &Path,
    run: &str,
    parameters: &mut Parameters,
    optimizer: Option<&mut Optimizer>,
) -> Result<Position> {
    let mut reader = arrays::open(path)?;
    let metadata: Metadata = serde_json::from_str(reader.metadata())
        .ok()
        .filter(|metadata: &Metadata| metadata.kind == KIND)
        .ok_or_else(|| Error::data("it is no checkpoint of this version"))?;
    if metadata.run != run {
        return Err(Error::config(
            "it is of another run: configuration, data or seed differ; give a new run directory, or resume \
             with the configuration in this one",
        ));
    }
    let mut floats = |name: &str, axes: usize| -> Result<Vec<f32>> {
        arrays::expect(&*reader, name, Dtype::F32, axes)?;
        let bytes = reader.read(name)?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|&word| f32::from_le_bytes(word)).collect())
    };
    let mut loaded = parameters.clone();
    for entry in parameters.entries() {
        loaded.set(&entry.name, &floats(&entry.name, entry.shape.len())?)?;
    }
    if let Some(optimizer) = optimizer {
        let names = optimizer.config().arrays();
        let arrays = names.iter().map(|name| Ok((*name, floats(&format!("optimizer.{name}"), 1)?)));
        let arrays: Vec<(&str, Vec<f32>)> = arrays.collect::<Result<_>>()?;
        optimizer.restore(&OptimizerState {
            step: metadata.optimizer_step,
            arrays: arrays.iter().map(|(name, values)| (*name, &values[..])).collect(),
        })?;
    }
    *parameters = loaded;
    Ok(metadata.position)
}
