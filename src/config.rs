//! One experiment, as a TOML file of at most thirty lines.
//!
//! ```toml
//! [data]
//! set = "zinc"
//!
//! [hierarchy]
//! coarsener = "newman"
//!
//! [model]          # see hdse::nn::ModelConfig
//! backbone = "gps"
//! # …
//!
//! [train]
//! epochs = 2000
//! batch_size = 32
//! clip_norm = 1.0
//! optimizer = { name = "adamw", weight_decay = 1e-5 }
//! schedule = { name = "cosine", rate = 1e-3, warmup = 50 }
//! ```
//!
//! An unknown key is refused with the nearest name, and every message says in which file and line.

mod keys;

pub use keys::{KEYS, Key};

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::data::nodes::Own;
use crate::data::sets::Task;
use crate::error::did_you_mean;
use crate::nn::ModelConfig;
use crate::train::{Loss, Metric, OptimizerConfig, Schedule};
use crate::{Error, Result, coarsen, nn};

/// One experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Which graphs.
    pub data: DataConfig,
    /// How they are coarsened.
    #[serde(default)]
    pub hierarchy: HierarchyConfig,
    /// What is trained.
    pub model: ModelConfig,
    /// How.
    pub train: TrainConfig,
}

/// Which graphs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataConfig {
    /// Name of the set.
    pub set: String,
    /// Where its files are, if not where sets usually are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The first so many graphs of every part; all if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graphs: Option<usize>,
    /// What is to be predicted, for a set of one's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    /// The files of a graph of one's own with targets on its nodes, in `path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Own>,
    /// Which split of the nodes of one graph, `{seed}` for the seed; that of the paper if not given.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "name")]
    pub split: Option<String>,
    /// Whether messages pass along arcs in their own direction only; as the set has it if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directed: Option<bool>,
    /// Whether features of a node are divided by their sum.
    #[serde(default, skip_serializing_if = "is_false")]
    pub normalise: bool,
    /// The class of nodes of unknown class, which are left out if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_class: Option<u32>,
}

impl DataConfig {
    /// A key that is about the nodes of one graph, if there is one.
    pub fn node_key(&self) -> Option<&'static str> {
        let keys = [
            ("nodes", self.nodes.is_some()),
            ("split", self.split.is_some()),
            ("directed", self.directed.is_some()),
            ("normalise", self.normalise),
            ("unknown_class", self.unknown_class.is_some()),
        ];
        keys.iter().find(|(_, is_given)| *is_given).map(|(key, _)| *key)
    }
}

/// How graphs are coarsened; the number of levels is that of the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HierarchyConfig {
    /// `NAME` or `NAME:key=value,…`.
    pub coarsener: String,
}

impl Default for HierarchyConfig {
    fn default() -> Self {
        HierarchyConfig { coarsener: "newman".into() }
    }
}

/// How to train.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainConfig {
    /// Passes over the training graphs.
    pub epochs: u64,
    /// Graphs per step, or nodes of one graph; all its nodes if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_size: Option<usize>,
    /// Nodes of one graph that are evaluated together; all if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_batch_size: Option<usize>,
    /// Epochs from one validation to the next.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub eval_every: u64,
    /// What is made small.
    pub loss: Loss,
    /// What is reported, and chooses the best epoch on the validation graphs.
    pub metric: Metric,
    /// The longest the gradient may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip_norm: Option<f64>,
    /// Loss and metric up to a swap of the two classes within each graph, where classes are
    /// exchangeable.
    #[serde(default)]
    pub up_to_swap: bool,
    /// All layers as one operation on the CPU, where they can be; otherwise operation by operation.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub fused: bool,
    /// How parameters follow gradients.
    pub optimizer: OptimizerConfig,
    /// How fast.
    pub schedule: ScheduleConfig,
    /// The epochs of the configuration that this one shortens; warm-up was scaled in proportion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortened_from: Option<u64>,
}

/// A name, which may be a number.
fn name<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected the name of a split")]
    enum Name {
        Word(String),
        Number(u64),
    }
    Ok(Some(match Name::deserialize(deserializer)? {
        Name::Word(name) => name,
        Name::Number(number) => number.to_string(),
    }))
}

impl TrainConfig {
    /// Graphs per step.
    ///
    /// # Errors
    /// If the key is missing, as it may for one graph.
    pub fn graphs_per_step(&self) -> Result<usize> {
        self.batch_size.ok_or_else(|| {
            Error::config("key `train.batch_size` is missing; say how many graphs are in a step")
        })
    }
}

fn yes() -> bool {
    true
}

fn one() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_one(value: &u64) -> bool {
    *value == 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_false(value: &bool) -> bool {
    !*value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_true(value: &bool) -> bool {
    *value
}

/// The learning rate; how long the run is follows from the epochs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ScheduleConfig {
    /// Always the same.
    Constant {
        /// The rate.
        rate: f64,
    },
    /// Half a cosine wave down to 0, epoch by epoch.
    Cosine {
        /// The largest rate.
        rate: f64,
        /// Epochs until then.
        #[serde(default)]
        warmup: u64,
    },
    /// Falling with the root of the step, step by step.
    InverseSquareRoot {
        /// The largest rate.
        rate: f64,
        /// Steps until then.
        #[serde(default)]
        warmup: u64,
    },
    /// Falling in a line, step by step.
    Linear {
        /// The largest rate.
        rate: f64,
        /// Steps until then.
        #[serde(default)]
        warmup: u64,
        /// The last rate.
        #[serde(default)]
        end: f64,
    },
}

impl ScheduleConfig {
    /// The learning rate of a step of a run.
    pub fn rate(&self, epochs: u64, steps_per_epoch: u64, epoch: u64, step: u64) -> f64 {
        match *self {
            Self::Constant { rate } => rate,
            Self::Cosine { rate, warmup } => {
                Schedule::Cosine { rate, warmup, total: epochs }.rate(epoch)
            }
            Self::InverseSquareRoot { rate, warmup } => {
                Schedule::InverseSquareRoot { rate, warmup, start: 1e-6, total: None }.rate(step)
            }
            Self::Linear { rate, warmup, end } => {
                Schedule::Linear { rate, warmup, total: epochs * steps_per_epoch, end }.rate(step)
            }
        }
    }

    /// Whether the rates are rates, and the warm-up ends where the run is known to.
    fn check(&self, epochs: u64) -> Result<()> {
        let rates = match *self {
            Self::Linear { rate, end, .. } => [rate, end],
            Self::Constant { rate }
            | Self::Cosine { rate, .. }
            | Self::InverseSquareRoot { rate, .. } => [rate, rate],
        };
        if let Some(rate) = rates.iter().find(|rate| !(0.0..f64::INFINITY).contains(*rate)) {
            return Err(Error::config(format!("{rate} is no rate; take a number, 0 or more")));
        }
        match *self {
            Self::Cosine { warmup, .. } if warmup > epochs => Err(Error::config(format!(
                "a warm-up of {warmup} epochs is longer than the run of {epochs}; lower `warmup`, or \
                 shorten the run with `--epochs`, which shortens both"
            ))),
            _ => Ok(()),
        }
    }

    fn warmup_mut(&mut self) -> Option<&mut u64> {
        match self {
            Self::Constant { .. } => None,
            Self::Cosine { warmup, .. }
            | Self::InverseSquareRoot { warmup, .. }
            | Self::Linear { warmup, .. } => Some(warmup),
        }
    }
}

impl Config {
    /// Reads a file, with changes of the form `model.dim=32` made to it.
    pub fn read(path: &Path, changes: &[String]) -> Result<Config> {
        let name = path.display().to_string();
        if path.is_dir() {
            return Err(Error::config(format!("{name} is a directory; give a TOML file")));
        }
        let bytes = std::fs::read(path).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => {
                Error::io("cannot read", path, "there is no such file; `configs/` has examples")
            }
            _ => Error::io("cannot read", path, e),
        })?;
        let text = str::from_utf8(&bytes).map_err(|e| {
            let line = bytes[..e.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count() + 1;
            Error::config(format!("{name}, line {line}: not UTF-8 text; save it as UTF-8"))
        })?;
        Config::parse(text, &name, changes)
    }

    /// The configuration in `text`, which is called `name` in messages.
    pub fn parse(text: &str, name: &str, changes: &[String]) -> Result<Config> {
        let config: Config = if changes.is_empty() {
            // From the text itself, so that messages have lines.
            toml::from_str(text).map_err(|e| explain(&e, text, name, true))?
        } else {
            let mut table: toml::Table =
                toml::from_str(text).map_err(|e| explain(&e, text, name, true))?;
            for change in changes {
                set(&mut table, change)?;
            }
            let text = toml::to_string(&table)
                .map_err(|e| Error::config(format!("{name} with changes: {e}")))?;
            toml::from_str(&text)
                .map_err(|e| explain(&e, &text, &format!("{name}, changed by --set"), false))?
        };
        config.check().map_err(|e| e.context(name.to_string()))?;
        Ok(config)
    }

    /// The configuration as TOML.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self)
            .map_err(|e| Error::config(format!("the configuration cannot be written: {e}")))
    }

    /// Keys in which another configuration differs, all values filled in.
    pub fn differences(&self, other: &Config) -> Result<Vec<Difference>> {
        let values = |config: &Config| -> Result<toml::Table> {
            let text = config.to_toml()?;
            text.parse()
                .map_err(|e| Error::config(format!("the configuration cannot be read: {e}")))
        };
        let mut found = Vec::new();
        compare("", &values(self)?, &values(other)?, &mut found);
        Ok(found)
    }

    /// The same experiment in fewer epochs, warm-up in proportion.
    pub fn shortened(&self, epochs: u64) -> Config {
        let mut config = self.clone();
        let from = self.train.epochs;
        if epochs != from {
            config.train.epochs = epochs;
            config.train.shortened_from = Some(self.train.shortened_from.unwrap_or(from));
            if let Some(warmup) = config.train.schedule.warmup_mut() {
                *warmup = ((*warmup as f64) * epochs as f64 / from.max(1) as f64).round() as u64;
            }
        }
        config
    }

    fn check(&self) -> Result<()> {
        let model = nn::backbone(&self.model.backbone).and_then(|_| self.model.check());
        model.map_err(|e| e.context("[model]"))?;
        coarsen::parse(&self.hierarchy.coarsener)
            .map_err(|e| e.context("key `hierarchy.coarsener`"))?;
        self.train.optimizer.check().map_err(|e| e.context("key `train.optimizer`"))?;
        let train = &self.train;
        let size = |size: Option<usize>| size.map_or(1, |size| size as u64);
        for (key, value) in [
            ("epochs", train.epochs),
            ("batch_size", size(train.batch_size)),
            ("eval_batch_size", size(train.eval_batch_size)),
            ("eval_every", train.eval_every),
        ] {
            if !(1..=1 << 32).contains(&value) {
                return Err(Error::config(format!(
                    "key `train.{key}` is {value}; it must lie between 1 and {}",
                    1u64 << 32
                )));
            }
        }
        if self.data.graphs == Some(0) || (self.data.graphs.is_some() && self.data.nodes.is_some())
        {
            return Err(Error::config(
                "key `data.graphs` takes the first so many graphs of a set, 1 or more; leave it out for all of them, or for one graph",
            ));
        }
        train.schedule.check(train.epochs).map_err(|e| e.context("key `train.schedule`"))?;
        if let Some(norm) = train.clip_norm.filter(|norm| norm.is_nan() || *norm <= 0.0) {
            return Err(Error::config(format!(
                "key `train.clip_norm` is {norm}; it must be more than 0, or left out"
            )));
        }
        if train.up_to_swap && self.model.outputs != 2 {
            return Err(Error::config(
                "key `train.up_to_swap` is for two exchangeable classes, but `model.outputs` is not 2; \
                 leave it out, or set that to 2",
            ));
        }
        Ok(())
    }
}

/// A key with its values in both configurations.
pub type Difference = (String, Option<toml::Value>, Option<toml::Value>);

/// Finds the keys in which two tables differ, sections one by one and values as a whole.
fn compare(place: &str, first: &toml::Table, second: &toml::Table, found: &mut Vec<Difference>) {
    let keys: std::collections::BTreeSet<&String> = first.keys().chain(second.keys()).collect();
    for key in keys {
        let name = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
        match (first.get(key), second.get(key)) {
            (a, b) if a == b => {}
            (Some(toml::Value::Table(a)), Some(toml::Value::Table(b))) if place.is_empty() => {
                compare(&name, a, b, found);
            }
            (a, b) => found.push((name, a.cloned(), b.cloned())),
        }
    }
}

/// Makes one change: `a.b.c=value`, the value as TOML has it, else as text.
fn set(table: &mut toml::Table, change: &str) -> Result<()> {
    let Some((path, text)) = change.split_once('=') else {
        return Err(Error::config(format!(
            "`--set {change}` has no value; write it as model.dim=32"
        )));
    };
    let value = toml::from_str::<toml::Table>(&format!("value = {text}"))
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| toml::Value::String(text.to_string()));
    let mut keys: Vec<&str> = path.split('.').map(str::trim).collect();
    if keys.contains(&"") {
        return Err(Error::config(format!(
            "`--set {change}` names no key; write it as model.dim=32"
        )));
    }
    let last = keys.pop().unwrap_or_default();
    let mut place = table;
    for key in keys {
        let entry =
            place.entry(key.to_string()).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        place = entry.as_table_mut().ok_or_else(|| {
            Error::config(format!("`--set {change}`: `{key}` holds a value, not further keys; leave out what follows it"))
        })?;
    }
    place.insert(last.to_string(), value);
    Ok(())
}

/// What is wrong, in which line, and what to do. Lines have numbers only where `text` is the user's own.
fn explain(error: &toml::de::Error, text: &str, name: &str, numbered: bool) -> Error {
    let mut place = String::new();
    if let Some(span) = error.span() {
        let number = text.get(..span.start).unwrap_or_default().matches('\n').count();
        if numbered {
            place += &format!(", line {}", number + 1);
        }
        let line: String = text.lines().nth(number).unwrap_or_default().chars().take(80).collect();
        if !line.trim().is_empty() && !line.starts_with('#') {
            place += &format!(", `{}`", line.trim());
        }
    }
    Error::config(format!("{name}{place}: {}", plain(error.message())))
}

/// The parser's message in plain words, with what to do.
fn plain(message: &str) -> String {
    let all: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    if let [word, names @ ..] = &all[..]
        && message.starts_with("unknown")
    {
        let hint = did_you_mean(word, names.iter().copied());
        // The nearest name says more than all of them.
        let short = message.split(", expected").next().unwrap_or(message);
        return if hint.is_empty() { message.to_string() } else { format!("{short}{hint}") };
    }
    if let Some(keys) = message.strip_prefix("unexpected keys in table: ")
        && let Some((wrong, right)) = keys.split_once(", available keys: ")
    {
        let hint = did_you_mean(wrong, right.split(", "));
        return format!("unknown field `{wrong}`{hint} (there are: {right})");
    }
    let table = |text: String| match text.split_once("expected struct ") {
        Some((before, _)) => format!("{before}expected a table of keys"),
        None => match text.split_once("expected internally tagged enum ") {
            Some((before, _)) => format!("{before}expected a table, as {{ name = \"…\" }}"),
            None => text,
        },
    };
    let whole = "expected a whole number, 0 or more";
    let valued = "a name alone, expected one with a value, as { name = 2 }";
    let words = [
        ("expected usize", whole),
        ("expected u64", whole),
        ("expected f64", "expected a number"),
        (" as i128", ""),
        ("unit variant, expected newtype variant", valued),
        ("unit variant, expected struct variant", valued),
        ("duplicate key", "duplicate key; keep one"),
    ];
    let text = words.iter().fold(message.to_string(), |text, (from, to)| text.replace(from, to));
    let add = if message.starts_with("missing field") { "; add it" } else { "" };
    table(text) + add
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = r#"
[data]
set = "community-small"

[model]
backbone = "gt"
layers = 2
dim = 16
heads = 2
node = { linear = 8 }
pool = "none"
head = { plain = 2 }
outputs = 2

[train]
epochs = 100
batch_size = 8
loss = "cross-entropy"
metric = "accuracy"
optimizer = { name = "adamw" }
schedule = { name = "cosine", rate = 1e-3, warmup = 10 }
"#;

    fn changed(changes: &[&str]) -> Result<Config> {
        let changes: Vec<String> = changes.iter().map(|change| change.to_string()).collect();
        Config::parse(EXAMPLE, "a.toml", &changes)
    }

    #[test]
    fn a_configuration_survives_its_text() {
        let config = changed(&[]).unwrap();
        assert_eq!(config.hierarchy.coarsener, "newman");
        assert_eq!(Config::parse(&config.to_toml().unwrap(), "b.toml", &[]).unwrap(), config);
    }

    #[test]
    fn changes_reach_every_table() {
        let config =
            changed(&["model.dim=32", "train.schedule.rate=0.5", "model.bias=none"]).unwrap();
        assert_eq!(config.model.dim, 32);
        assert_eq!(config.train.schedule.rate(10, 1, 10, 0), 0.0);
        assert_eq!(config.model.bias, crate::nn::config::BiasKind::None);
    }

    #[test]
    fn shorter_runs_scale_their_warm_up() {
        let config = changed(&[]).unwrap().shortened(20);
        assert_eq!(config.train.epochs, 20);
        assert_eq!(config.train.shortened_from, Some(100));
        assert_eq!(config.train.schedule, ScheduleConfig::Cosine { rate: 1e-3, warmup: 2 });
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let broken = |from: &str, to: &str| {
            let error = Config::parse(&EXAMPLE.replace(from, to), "a.toml", &[]).unwrap_err();
            format!("{error:#}")
        };
        for (from, to, words) in [
            ("layers = 2", "layer = 2", "a.toml, line 7, `layer = 2`: unknown field `layer`"),
            ("layers = 2", "layer = 2", "did you mean `layers`?"),
            ("\"cross-entropy\"", "\"crossentropy\"", "did you mean `cross-entropy`?"),
            ("heads = 2", "heads = 3", "a.toml: [model]: `dim` is 16, which 3 `heads`"),
            ("epochs = 100", "epochs = 0", "`train.epochs` is 0"),
            ("name = \"adamw\"", "name = \"adamv\"", "adamw"),
        ] {
            let error = broken(from, to);
            assert!(error.contains(words), "{words}: {error}");
        }
        let error = format!("{:#}", changed(&["hierarchy.coarsener=luvain"]).unwrap_err());
        assert!(error.contains("did you mean `louvain`"), "{error}");
        let error = format!("{:#}", changed(&["model.dim"]).unwrap_err());
        assert!(error.contains("has no value"), "{error}");
        let error =
            format!("{:#}", changed(&["train.up_to_swap=true", "model.outputs=3"]).unwrap_err());
        assert!(error.contains("up_to_swap"), "{error}");
    }
}
