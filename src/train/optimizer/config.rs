//! What an optimiser is set to. Defaults are those of PyTorch.

use serde::{Deserialize, Serialize};

use crate::error::did_you_mean;
use crate::{Error, Result};

/// An optimiser and its settings; in configuration `{"name": "adamw", "weight_decay": 1e-5}`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "lowercase")]
pub enum OptimizerConfig {
    /// Adam with decoupled weight decay.
    AdamW(AdamW),
    /// Adam, with decay as part of the gradient.
    Adam(Adam),
    /// Gradient descent, with or without momentum.
    Sgd(Sgd),
}

/// Settings of AdamW.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdamW {
    /// How much the running means of gradient and squared gradient keep per step: β₁, β₂.
    pub betas: [f64; 2],
    /// Added to the root of the mean square: ε.
    #[serde(alias = "eps")]
    pub epsilon: f64,
    /// Share of a parameter that is lost per step and unit of learning rate: λ.
    pub weight_decay: f64,
}

/// Settings of Adam.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Adam {
    /// How much the running means of gradient and squared gradient keep per step: β₁, β₂.
    pub betas: [f64; 2],
    /// Added to the root of the mean square: ε.
    #[serde(alias = "eps")]
    pub epsilon: f64,
    /// Share of a parameter that is added to its gradient: λ.
    pub weight_decay: f64,
}

/// Settings of gradient descent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sgd {
    /// How much of the last change is kept: μ.
    pub momentum: f64,
    /// Share of a parameter that is added to its gradient: λ.
    pub weight_decay: f64,
    /// Whether the gradient is corrected by where momentum leads (Nesterov).
    pub nesterov: bool,
}

impl Default for AdamW {
    fn default() -> Self {
        AdamW { betas: [0.9, 0.999], epsilon: 1e-8, weight_decay: 1e-2 }
    }
}

impl Default for Adam {
    fn default() -> Self {
        Adam { betas: [0.9, 0.999], epsilon: 1e-8, weight_decay: 0.0 }
    }
}

impl OptimizerConfig {
    /// The names to choose from.
    pub const NAMES: [&'static str; 3] = ["adamw", "adam", "sgd"];

    /// The optimiser of that name, with default settings.
    ///
    /// # Errors
    /// If the name is unknown; the nearest one is suggested.
    pub fn named(name: &str) -> Result<OptimizerConfig> {
        match name {
            "adamw" => Ok(OptimizerConfig::AdamW(AdamW::default())),
            "adam" => Ok(OptimizerConfig::Adam(Adam::default())),
            "sgd" => Ok(OptimizerConfig::Sgd(Sgd::default())),
            _ => Err(Error::config(format!(
                "unknown optimizer `{name}`{} (there are: {})",
                did_you_mean(name, OptimizerConfig::NAMES),
                OptimizerConfig::NAMES.join(", ")
            ))),
        }
    }

    /// The name to choose it by.
    pub fn name(&self) -> &'static str {
        match self {
            OptimizerConfig::AdamW(_) => "adamw",
            OptimizerConfig::Adam(_) => "adam",
            OptimizerConfig::Sgd(_) => "sgd",
        }
    }

    /// Names of the arrays that it remembers from step to step.
    pub fn arrays(&self) -> &'static [&'static str] {
        match self {
            OptimizerConfig::AdamW(_) | OptimizerConfig::Adam(_) => &["exp_avg", "exp_avg_sq"],
            OptimizerConfig::Sgd(sgd) if sgd.momentum != 0.0 => &["momentum_buffer"],
            OptimizerConfig::Sgd(_) => &[],
        }
    }

    /// Checks that every setting is in its range.
    ///
    /// # Errors
    /// If one is not; the message names it.
    pub fn check(&self) -> Result<()> {
        match *self {
            OptimizerConfig::AdamW(AdamW { betas, epsilon, weight_decay })
            | OptimizerConfig::Adam(Adam { betas, epsilon, weight_decay }) => {
                for beta in betas {
                    let valid = (0.0..1.0).contains(&beta);
                    self.require(valid, "betas", beta, "numbers from 0 to below 1")?;
                }
                self.require(is_amount(epsilon), "epsilon", epsilon, "a number ≥ 0")?;
                self.require(is_amount(weight_decay), "weight_decay", weight_decay, "a number ≥ 0")
            }
            OptimizerConfig::Sgd(Sgd { momentum, weight_decay, nesterov }) => {
                self.require(is_amount(momentum), "momentum", momentum, "a number ≥ 0")?;
                let moving = !nesterov || momentum > 0.0;
                self.require(moving, "momentum", momentum, "a number > 0 for `nesterov`")?;
                self.require(is_amount(weight_decay), "weight_decay", weight_decay, "a number ≥ 0")
            }
        }
    }

    fn require(&self, valid: bool, key: &str, value: f64, expected: &str) -> Result<()> {
        if valid {
            return Ok(());
        }
        Err(Error::config(format!(
            "`{value}` is no value for `{key}` of optimizer `{}`; expected {expected}",
            self.name()
        )))
    }
}

/// Whether a number is finite and not negative.
fn is_amount(number: f64) -> bool {
    (0.0..f64::INFINITY).contains(&number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_defaults_are_one_list() {
        for name in OptimizerConfig::NAMES {
            let config = OptimizerConfig::named(name).unwrap();
            assert_eq!(config.name(), name);
            let short = format!("{{\"name\": \"{name}\"}}");
            assert_eq!(serde_json::from_str::<OptimizerConfig>(&short).unwrap(), config);
            let long = serde_json::to_string(&config).unwrap();
            assert_eq!(serde_json::from_str::<OptimizerConfig>(&long).unwrap(), config, "{long}");
            config.check().unwrap();
        }
        let error = OptimizerConfig::named("adamv").unwrap_err();
        assert!(error.to_string().contains("did you mean `adamw`?"), "{error}");
    }

    #[test]
    fn unknown_keys_are_refused() {
        let wrong = r#"{"name": "adam", "decay": 0.1}"#;
        let error = serde_json::from_str::<OptimizerConfig>(wrong).unwrap_err();
        assert!(error.to_string().contains("unknown field `decay`"), "{error}");
        let short = r#"{"name": "adam", "eps": 1e-6}"#;
        let config: OptimizerConfig = serde_json::from_str(short).unwrap();
        assert_eq!(config, OptimizerConfig::Adam(Adam { epsilon: 1e-6, ..Adam::default() }));
    }

    #[test]
    fn ranges_are_checked() {
        let adam = Adam::default();
        let sgd = Sgd::default();
        for (config, key) in [
            (OptimizerConfig::Adam(Adam { betas: [1.0, 0.9], ..adam }), "betas"),
            (OptimizerConfig::Adam(Adam { betas: [0.9, f64::NAN], ..adam }), "betas"),
            (OptimizerConfig::Adam(Adam { epsilon: -1e-8, ..adam }), "epsilon"),
            (OptimizerConfig::Adam(Adam { weight_decay: f64::INFINITY, ..adam }), "weight_decay"),
            (OptimizerConfig::Sgd(Sgd { momentum: -0.9, ..sgd }), "momentum"),
            (OptimizerConfig::Sgd(Sgd { nesterov: true, ..sgd }), "momentum"),
        ] {
            let error = config.check().unwrap_err();
            assert!(error.is_config() && error.to_string().contains(key), "{error}");
        }
    }
}
