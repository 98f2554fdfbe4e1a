//! AdamW, Adam and SGD on one flat array of parameters.
//!
//! With gradient g, learning rate η, decay λ and step t = 1, 2, …:
//!
//! | name | step |
//! |---|---|
//! | `adamw` | θ ← (1 − ηλ) θ, then as `adam` without decay (Loshchilov & Hutter, ICLR 2019) |
//! | `adam` | g ← g + λθ; m ← β₁m + (1 − β₁)g; v ← β₂v + (1 − β₂)g²; θ ← θ − η m̂ / (√v̂ + ε), with m̂ = m / (1 − β₁ᵗ), v̂ = v / (1 − β₂ᵗ) (Kingma & Ba, ICLR 2015) |
//! | `sgd` | g ← g + λθ; b ← μb + g; θ ← θ − ηb, or − η(g + μb) with `nesterov` (Sutskever et al., ICML 2013) |
//!
//! Operations and their order follow PyTorch, and so do defaults. A step is one pass, in
//! the order of the array and without fused operations: the same bytes on every machine. The learning rate
//! is an argument because it belongs to the [`Schedule`](super::Schedule).
//!
//! What is remembered is a step count and named arrays as long as the parameters. Saved and restored, they
//! continue as if nothing had happened, bit for bit:
//!
//! ```
//! use hdse::train::{Optimizer, OptimizerConfig};
//! let config = OptimizerConfig::named("adamw")?;
//! let mut optimizer = Optimizer::new(config, 2)?;
//! let mut parameters = [1.0, -1.0];
//! optimizer.step(1e-3, &mut parameters, &[0.5, 0.25])?;
//!
//! let mut other = Optimizer::new(config, 2)?;
//! other.restore(&optimizer.state())?;
//! assert_eq!(other, optimizer);
//! assert_eq!(other.state().arrays[0].0, "exp_avg");
//! # Ok::<(), hdse::Error>(())
//! ```

mod config;
mod passes;

pub use config::{Adam, AdamW, OptimizerConfig, Sgd};

use std::sync::Mutex;

use crate::error::did_you_mean;
use crate::nn::fused::Team;
use crate::{Error, Result};
use passes::Gradients;

/// Changes parameters by their gradients.
#[derive(Clone, Debug, PartialEq)]
pub struct Optimizer {
    config: OptimizerConfig,
    len: usize,
    step: u64,
    arrays: Vec<Vec<f32>>, // as `config.arrays()` names them, each of `len`
}

/// What an optimiser remembers, borrowed: write it to a checkpoint, or read it from one.
#[derive(Clone, Debug, PartialEq)]
pub struct OptimizerState<'a> {
    /// How many steps were made.
    pub step: u64,
    /// Names and arrays, in any order.
    pub arrays: Vec<(&'a str, &'a [f32])>,
}

impl Optimizer {
    /// An optimiser of `len` parameters before its first step.
    ///
    /// # Errors
    /// If a setting is out of its range.
    pub fn new(config: OptimizerConfig, len: usize) -> Result<Optimizer> {
        config.check()?;
        let arrays = config.arrays().iter().map(|_| vec![0.0; len]).collect();
        Ok(Optimizer { config, len, step: 0, arrays })
    }

    /// Its settings.
    pub fn config(&self) -> &OptimizerConfig {
        &self.config
    }

    /// Number of parameters.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no parameter.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Makes a step. Gradients are used as they are: a NaN among them makes its parameter NaN, which
    /// [`clip_norm`](super::clip_norm) tells beforehand.
    ///
    /// # Errors
    /// If parameters or gradients are not as many as this optimiser was made for, or the learning rate is
    /// not a number ≥ 0. Nothing has changed then.
    pub fn step(
        &mut self,
        learning_rate: f64,
        parameters: &mut [f32],
        gradients: &[f32],
    ) -> Result<()> {
        self.step_by(&Team::default(), learning_rate, parameters, gradients, 1.0)
    }

    /// The same with gradients times a factor, in one pass shared by a team. It comes to the same bytes.
    ///
    /// # Errors
    /// As of [`Optimizer::step`].
    pub fn step_by(
        &mut self,
        team: &Team,
        learning_rate: f64,
        parameters: &mut [f32],
        gradients: &[f32],
        factor: f32,
    ) -> Result<()> {
        if parameters.len() != self.len || gradients.len() != self.len {
            return Err(Error::config(format!(
                "{} parameters and {} gradients for an optimizer of {} parameters",
                parameters.len(),
                gradients.len(),
                self.len
            )));
        }
        if !(0.0..f64::INFINITY).contains(&learning_rate) {
            return Err(Error::config(format!(
                "`{learning_rate}` is no learning rate; expected a number ≥ 0"
            )));
        }
        self.step = self.step.saturating_add(1);
        let (step, rate) = (self.step, learning_rate);
        let config = &self.config;
        // A piece of every array for each member.
        let length = self.len.div_ceil(team.size()).max(1);
        let mut arrays: Vec<_> =
            self.arrays.iter_mut().map(|array| array.chunks_mut(length)).collect();
        let pieces: Vec<_> = parameters
            .chunks_mut(length)
            .zip(gradients.chunks(length))
            .map(|(parameters, numbers)| {
                let arrays: Vec<&mut [f32]> =
                    arrays.iter_mut().filter_map(Iterator::next).collect();
                Mutex::new((parameters, Gradients { numbers, factor }, arrays))
            })
            .collect();
        team.share(pieces.len(), |own| {
            for piece in &pieces[own] {
                let mut piece = piece.lock().expect("no other member has this piece");
                let (parameters, gradients, arrays) = &mut *piece;
                match (config, arrays.as_mut_slice()) {
                    (OptimizerConfig::AdamW(config), [means, squares]) => {
                        passes::adamw(config, step, rate, parameters, *gradients, [means, squares]);
                    }
                    (OptimizerConfig::Adam(config), [means, squares]) => {
                        passes::adam(config, step, rate, parameters, *gradients, [means, squares]);
                    }
                    (OptimizerConfig::Sgd(config), [buffer]) => {
                        passes::descend_with_momentum(config, rate, parameters, *gradients, buffer);
                    }
                    (OptimizerConfig::Sgd(config), []) => {
                        passes::descend(config, rate, parameters, *gradients);
                    }
                    (config, arrays) => {
                        unreachable!("{} arrays of {}", arrays.len(), config.name())
                    }
                }
            }
        });
        Ok(())
    }

    /// What it remembers.
    pub fn state(&self) -> OptimizerState<'_> {
        let names = self.config.arrays().iter().copied();
        let arrays = self.arrays.iter().map(Vec::as_slice);
        OptimizerState { step: self.step, arrays: names.zip(arrays).collect() }
    }

    /// Continues from `state`, which an optimiser of the same settings and size gave.
    ///
    /// # Errors
    /// If an array is unknown, given twice, missing or of another length. Nothing has changed then.
    pub fn restore(&mut self, state: &OptimizerState<'_>) -> Result<()> {
        let names = self.config.arrays();
        for &(name, array) in &state.arrays {
            if !names.contains(&name) {
                return Err(Error::data(format!(
                    "optimizer `{}` has no array `{name}`{}",
                    self.config.name(),
                    did_you_mean(name, names.iter().copied())
                )));
            }
            if array.len() != self.len {
                return Err(Error::data(format!(
                    "array `{name}` has {} numbers for {} parameters; is it of another model?",
                    array.len(),
                    self.len
                )));
            }
        }
        let mut found = Vec::with_capacity(names.len());
        for &name in names {
            let mut named = state.arrays.iter().filter(|array| array.0 == name);
            match (named.next(), named.next()) {
                (Some(array), None) => found.push(array.1),
                (None, _) => {
                    return Err(Error::data(format!(
                        "array `{name}` of optimizer `{}` is missing",
                        self.config.name()
                    )));
                }
                _ => return Err(Error::data(format!("array `{name}` is given twice"))),
            }
        }
        self.step = state.step;
        for (own, array) in self.arrays.iter_mut().zip(found) {
            own.copy_from_slice(array);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
