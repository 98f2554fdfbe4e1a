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

use crate::data::sets::Task;
use crate::error::did_you_mean;
use crate::nn::ModelConfig;
use crate::train::{Loss, Metric, OptimizerConfig, Schedule};
use crate::{Error, Result, coarsen};

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
    /// What is to be predicted, for a set of one's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
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
    /// Graphs per step.
    pub batch_size: usize,
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
    /// How parameters follow gradients.
    pub optimizer: OptimizerConfig,
    /// How fast.
    pub schedule: ScheduleConfig,
    /// The epochs of the configuration that this one shortens; warm-up was scaled in proportion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortened_from: Option<u64>,
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
        let text = std::fs::read_to_string(path).map_err(|e| Error::io("cannot read", path, e))?;
        Config::parse(&text, &path.display().to_string(), changes)
    }

    /// The configuration in `text`, which is called `name` in messages.
    pub fn parse(text: &str, name: &str, changes: &[String]) -> Result<Config> {
        let config: Config = if changes.is_empty() {
            // From the text itself, so that messages have lines.
            toml::from_str(text).map_err(|e| explain(&e, text, name))?
        } else {
            let mut table: toml::Table =
                toml::from_str(text).map_err(|e| explain(&e, text, name))?;
            for change in changes {
                set(&mut table, change)?;
            }
            let text = toml::to_string(&table)
                .map_err(|e| Error::config(format!("{name} with changes: {e}")))?;
            toml::from_str(&text)
                .map_err(|e| explain(&e, &text, &format!("{name}, changed by --set")))?
        };
        config.check().map_err(|e| e.context(name.to_string()))?;
        Ok(config)
    }

    /// The configuration as TOML.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self)
            .map_err(|e| Error::config(format!("the configuration cannot be written: {e}")))
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
        self.model.check().map_err(|e| e.context("[model]"))?;
        coarsen::parse(&self.hierarchy.coarsener)
            .map_err(|e| e.context("key `hierarchy.coarsener`"))?;
        self.train.optimizer.check().map_err(|e| e.context("key `train.optimizer`"))?;
        let train = &self.train;
        for (key, value) in [("epochs", train.epochs), ("batch_size", train.batch_size as u64)] {
            if !(1..=1 << 32).contains(&value) {
                return Err(Error::config(format!(
                    "key `train.{key}` is {value}; take at least 1"
                )));
            }
        }
        let rate = train.schedule.rate(u64::MAX, 1, 0, 0);
        if !rate.is_finite() || rate < 0.0 {
            return Err(Error::config(
                "key `train.schedule`: the rate must be a number, 0 or more",
            ));
        }
        if train.clip_norm.is_some_and(|norm| norm.is_nan() || norm <= 0.0) {
            return Err(Error::config("key `train.clip_norm` must be more than 0"));
        }
        if train.up_to_swap && self.model.outputs != 2 {
            return Err(Error::config(
                "key `train.up_to_swap` is for two exchangeable classes, but `model.outputs` is not 2",
            ));
        }
        Ok(())
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
    let last = keys.pop().unwrap_or_default();
    let mut place = table;
    for key in keys {
        let entry =
            place.entry(key.to_string()).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        place = entry.as_table_mut().ok_or_else(|| {
            Error::config(format!("`--set {change}`: `{key}` holds a value, not further keys"))
        })?;
    }
    place.insert(last.to_string(), value);
    Ok(())
}

/// What is wrong, in which line, and the nearest name for an unknown one.
fn explain(error: &toml::de::Error, text: &str, name: &str) -> Error {
    let message = error.message();
    let mut quoted = message.split('`').skip(1).step_by(2);
    let unknown = message.starts_with("unknown");
    let hint = match quoted.next() {
        Some(word) if unknown => did_you_mean(word, quoted),
        _ => String::new(),
    };
    let place = error.span().map_or(String::new(), |span| {
        let before = text.get(..span.start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        format!(", line {line}")
    });
    // The nearest name says more than all of them.
    let message = match message.split_once(", expected one of") {
        Some((message, _)) if !hint.is_empty() => message,
        _ => message,
    };
    Error::config(format!("{name}{place}: {message}{hint}"))
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
            ("layers = 2", "layer = 2", "a.toml, line 7: unknown field `layer`"),
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
