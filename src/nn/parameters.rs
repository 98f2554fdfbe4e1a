//! The numbers that a model learns, by name.
//!
//! All trained parameters lie in one flat array, all running statistics in a second one; a name owns
//! a range of either. An optimiser is then one linear pass, a checkpoint is two arrays, and a layer is
//! a handful of [`Param`]s, which are nothing but positions. Names are dotted paths such as
//! `layers.0.attn.in_proj_weight`, those of PyTorch where it has the layer, and linear maps are
//! stored `[out, in]`.
//!
//! Initial values come from streams keyed by *(seed, name)* (where they are normal, through the logarithm and
//! cosine of the platform, before rounding to single precision): taking a part out of a model, such as
//! the distance bias, leaves every other initial value as it was, so two runs compare like with like.
//!
//! ```
//! use hdse::nn::{Builder, Init};
//! use hdse::rng::Seed;
//! let mut builder = Builder::new(Seed(0));
//! builder.root().at("head").parameter("weight", &[2, 3], Init::Uniform(0.5));
//! let parameters = builder.finish();
//! assert_eq!(parameters.count(), 6);
//! assert_eq!(parameters.entries()[0].name, "head.weight");
//! assert!(parameters.get("head.weight").unwrap().iter().all(|x| x.abs() <= 0.5));
//! ```

use std::ops::Range;
use std::path::Path;

use crate::data::AtomicFile;
use crate::data::arrays::{self, ArraySpec, Dtype};
use crate::error::did_you_mean;
use crate::rng::{Seed, Stream};
use crate::{Error, Result};

/// Position of an array among the parameters of its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param(pub(super) usize);

/// Name, shape and place of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Dotted path.
    pub name: String,
    /// Length of every axis, row-major.
    pub shape: Vec<usize>,
    /// Learned, or a running statistic.
    pub trained: bool,
    /// Where its numbers are in the flat array of its sort.
    pub range: Range<usize>,
}

/// Everything a model learns, and its running statistics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters {
    entries: Vec<Entry>,
    trained: Vec<f32>,
    statistics: Vec<f32>,
}

impl Parameters {
    /// Every array, in the order of the model.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// How many numbers are trained.
    pub fn count(&self) -> usize {
        self.trained.len()
    }

    /// All trained numbers, flat.
    pub fn trained(&self) -> &[f32] {
        &self.trained
    }

    /// All trained numbers, flat, to be changed by an optimiser.
    pub fn trained_mut(&mut self) -> &mut [f32] {
        &mut self.trained
    }

    /// The numbers of one name.
    pub fn get(&self, name: &str) -> Option<&[f32]> {
        self.entries.iter().find(|entry| entry.name == name).map(|entry| self.values(entry))
    }

    /// Replaces the numbers of one name.
    pub fn set(&mut self, name: &str, values: &[f32]) -> Result<()> {
        let position = self.entries.iter().position(|entry| entry.name == name);
        let Some(position) = position else {
            let hint = did_you_mean(name, self.entries.iter().map(|entry| entry.name.as_str()));
            return Err(Error::data(format!("the model has no parameter `{name}`{hint}")));
        };
        let entry = &self.entries[position];
        if values.len() != entry.range.len() {
            return Err(Error::data(format!(
                "parameter `{name}` is {:?} in the model, {} numbers; {} were given",
                entry.shape,
                entry.range.len(),
                values.len()
            )));
        }
        self.values_mut(Param(position)).copy_from_slice(values);
        Ok(())
    }

    /// The numbers of an array.
    pub(super) fn values(&self, entry: &Entry) -> &[f32] {
        let all = if entry.trained { &self.trained } else { &self.statistics };
        &all[entry.range.clone()]
    }

    pub(super) fn entry(&self, param: Param) -> &Entry {
        &self.entries[param.0]
    }

    pub(super) fn values_mut(&mut self, param: Param) -> &mut [f32] {
        let entry = &self.entries[param.0];
        let all = if entry.trained { &mut self.trained } else { &mut self.statistics };
        &mut all[entry.range.clone()]
    }

    /// Writes parameters and running statistics as safetensors, under their names, with a text of
    /// metadata.
    pub fn save(&self, path: &Path, replace: bool, metadata: &str) -> Result<()> {
        let spec = |entry: &Entry| ArraySpec::new(&entry.name, Dtype::F32, &entry.shape);
        let specs = self.entries.iter().map(spec).collect();
        let file = AtomicFile::create(path, replace)?;
        let mut writer = arrays::create("safetensors", file, specs, metadata)?;
        for (index, entry) in self.entries.iter().enumerate() {
            writer.begin(index)?;
            writer.write(bytemuck::cast_slice(self.values(entry)))?;
        }
        writer.finish()
    }

    /// Replaces all numbers by those of a file, in which every name has `prefix` before it. Every
    /// array of the model must be there in its shape, and the model must have every array of real
    /// numbers under the prefix; nothing changes unless all fit.
    pub fn load(&mut self, path: &Path, prefix: &str) -> Result<()> {
        let mut reader = arrays::open(path)?;
        let named = |e: Error| e.context(path.display().to_string());
        let reals = reader.specs().iter().filter(|spec| spec.dtype == Dtype::F32);
        for name in reals.filter_map(|spec| spec.name.strip_prefix(prefix)) {
            if !self.entries.iter().any(|entry| entry.name == name) {
                let hint = did_you_mean(name, self.entries.iter().map(|e| e.name.as_str()));
                let message = format!("the model has no parameter `{name}`{hint}");
                return Err(named(Error::data(message)));
            }
        }
        let mut loaded = self.clone();
        for (index, entry) in self.entries.iter().enumerate() {
            let name = format!("{prefix}{}", entry.name);
            let axes = entry.shape.len();
            if let Some((_, dtype)) = reader.others().iter().find(|(other, _)| *other == name) {
                return Err(named(Error::data(format!(
                    "parameter `{name}` is {dtype} in the file; convert it to F32"
                ))));
            }
            let spec = arrays::expect(&*reader, &name, Dtype::F32, axes).map_err(named)?;
            if spec.shape != entry.shape {
                return Err(named(Error::data(format!(
                    "parameter `{name}` is {:?} in the file and {:?} in the model",
                    spec.shape, entry.shape
                ))));
            }
            let bytes = reader.read(&name).map_err(named)?;
            let words = bytes.as_chunks::<4>().0;
            let values: Vec<f32> = words.iter().map(|&word| f32::from_le_bytes(word)).collect();
            loaded.values_mut(Param(index)).copy_from_slice(&values);
        }
        *self = loaded;
        Ok(())
    }
}

/// How an array starts out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// One number everywhere.
    Constant(f32),
    /// Normal with mean 0 and this standard deviation.
    Normal(f64),
    /// Uniform in ±bound.
    Uniform(f64),
}

impl Init {
    /// Uniform in ±1/√inputs, as PyTorch starts linear maps.
    pub fn fan_in(inputs: usize) -> Init {
        Init::Uniform(1.0 / (inputs.max(1) as f64).sqrt())
    }

    /// Uniform in ±√(6 / (inputs + outputs)) (Glorot & Bengio 2010).
    pub fn xavier_uniform(inputs: usize, outputs: usize) -> Init {
        Init::Uniform((6.0 / (inputs + outputs).max(1) as f64).sqrt())
    }

    fn fill(self, values: &mut Vec<f32>, count: usize, mut stream: Stream) {
        match self {
            Init::Constant(value) => values.resize(values.len() + count, value),
            Init::Uniform(bound) => {
                values.extend((0..count).map(|_| ((2.0 * stream.unit() - 1.0) * bound) as f32));
            }
            Init::Normal(deviation) => {
                // Box & Muller 1958; 1 - u keeps the logarithm finite.
                let mut normal = || {
                    let radius = (-2.0 * (1.0 - stream.unit()).ln()).sqrt();
                    radius * (std::f64::consts::TAU * stream.unit()).cos() * deviation
                };
                values.extend((0..count).map(|_| normal() as f32));
            }
        }
    }
}

/// Collects the parameters of a model while its layers are made.
#[derive(Debug)]
pub struct Builder {
    seed: Seed,
    parameters: Parameters,
    dropouts: u64,
}

impl Builder {
    /// No parameter yet; initial values follow `seed`.
    pub fn new(seed: Seed) -> Builder {
        Builder { seed, parameters: Parameters::default(), dropouts: 0 }
    }

    /// Where names without a dot are.
    pub fn root(&mut self) -> Scope<'_> {
        Scope { builder: self, path: String::new(), key: String::new() }
    }

    /// The parameters with their initial values.
    pub fn finish(self) -> Parameters {
        self.parameters
    }
}

/// A place in the tree of names, where a layer puts its parameters.
#[derive(Debug)]
pub struct Scope<'a> {
    builder: &'a mut Builder,
    path: String,
    /// The path that initial values are drawn for; differs where layers start alike.
    key: String,
}

impl Scope<'_> {
    /// The scope `name` in this one.
    pub fn at(&mut self, name: impl std::fmt::Display) -> Scope<'_> {
        let name = name.to_string();
        self.like(&name, &name)
    }

    /// The scope `name`, whose initial values are those that `other` would have.
    pub fn like(
        &mut self,
        name: impl std::fmt::Display,
        other: impl std::fmt::Display,
    ) -> Scope<'_> {
        let path = format!("{}{name}.", self.path);
        let key = format!("{}{other}.", self.key);
        Scope { builder: self.builder, path, key }
    }

    /// A trained array.
    pub fn parameter(&mut self, name: &str, shape: &[usize], init: Init) -> Param {
        self.add(name, shape, init, true)
    }

    /// A running statistic.
    pub fn statistic(&mut self, name: &str, shape: &[usize], value: f32) -> Param {
        self.add(name, shape, Init::Constant(value), false)
    }

    /// A running statistic that does not start with the same number everywhere.
    pub fn statistic_from(&mut self, name: &str, shape: &[usize], init: Init) -> Param {
        self.add(name, shape, init, false)
    }

    fn add(&mut self, name: &str, shape: &[usize], init: Init, trained: bool) -> Param {
        let key = blake3::hash(format!("{}{name}", self.key).as_bytes());
        let [first, ..] = key.as_bytes().as_chunks::<8>().0 else {
            unreachable!("a hash has 32 bytes")
        };
        let stream = self.builder.seed.stream("init", u64::from_le_bytes(*first), 0);
        let parameters = &mut self.builder.parameters;
        let values = if trained { &mut parameters.trained } else { &mut parameters.statistics };
        let start = values.len();
        init.fill(values, shape.iter().product(), stream);
        let entry = Entry {
            name: format!("{}{name}", self.path),
            shape: shape.to_vec(),
            trained,
            range: start..values.len(),
        };
        parameters.entries.push(entry);
        Param(parameters.entries.len() - 1)
    }

    /// A number of its own for every dropout of the model, in the order they are made.
    pub(super) fn dropout_site(&mut self) -> u64 {
        self.builder.dropouts += 1;
        self.builder.dropouts - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(with_bias: bool, seed: u64) -> Parameters {
        let mut builder = Builder::new(Seed(seed));
        let mut root = builder.root();
        if with_bias {
            root.at("hdse").parameter("weight", &[3], Init::Normal(1.0));
        }
        for layer in 0..2 {
            root.at("layers").like(layer, 0).parameter("weight", &[2, 2], Init::fan_in(2));
        }
        root.statistic("mean", &[2], 0.0);
        builder.finish()
    }

    #[test]
    fn initial_values_depend_on_seed_and_name_alone() {
        let (with, without) = (example(true, 0), example(false, 0));
        assert_eq!(with.get("layers.0.weight"), without.get("layers.0.weight"));
        assert_eq!(with.get("layers.0.weight"), with.get("layers.1.weight"), "made alike");
        assert_ne!(with.get("layers.0.weight"), example(true, 1).get("layers.0.weight"));
        assert_eq!(without.get("hdse.weight"), None);
    }

    #[test]
    fn normal_and_uniform_have_their_moments() {
        let moments = |init: Init| {
            let mut values = Vec::new();
            init.fill(&mut values, 100_000, Seed(1).stream("test", 0, 0));
            let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / 1e5;
            let square = values.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / 1e5;
            (mean, square)
        };
        let (mean, square) = moments(Init::Normal(2.0));
        assert!(mean.abs() < 0.02 && (square - 4.0).abs() < 0.05, "{mean} {square}");
        let (mean, square) = moments(Init::Uniform(3.0));
        assert!(mean.abs() < 0.02 && (square - 3.0).abs() < 0.05, "{mean} {square}");
    }

    #[test]
    fn a_file_gives_back_all_or_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.safetensors");
        let saved = example(true, 3);
        saved.save(&path, false, "").unwrap();
        let mut loaded = example(true, 4);
        loaded.load(&path, "").unwrap();
        assert_eq!(loaded, saved);

        let mut smaller = example(false, 4);
        let before = smaller.clone();
        let error = format!("{:#}", smaller.load(&path, "").unwrap_err());
        assert!(error.contains("hdse.weight") && error.contains("a.safetensors"), "{error}");
        assert_eq!(smaller, before);
        let error = format!("{:#}", smaller.load(&path, "param.").unwrap_err());
        assert!(error.contains("param.layers.0.weight"), "{error}");
        assert_eq!(smaller, before);
    }

    #[test]
    fn setting_an_unknown_or_misshapen_array_is_refused() {
        let mut parameters = example(true, 0);
        let error = parameters.set("layer.0.weight", &[0.0; 4]).unwrap_err().to_string();
        assert!(error.contains("layers.0.weight"), "{error}");
        assert!(parameters.set("mean", &[1.0]).is_err());
        parameters.set("mean", &[1.0, 2.0]).unwrap();
        assert_eq!(parameters.get("mean").unwrap(), [1.0, 2.0]);
    }
}
