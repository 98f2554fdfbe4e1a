//! When checkpoints are written: often enough to lose little, seldom enough to cost little.
//!
//! The best model so far is kept in memory. Both checkpoints are written at the end of an epoch, unless that would take more
//! than a fiftieth of the time since they were written last: an epoch on a small graph is shorter than a write that survives a power
//! cut. A run that is killed goes on from the last checkpoint and makes the epochs since then again, to the same bytes.

use std::time::{Duration, Instant};

use super::checkpoint::{self, Position};
use super::clock::{Clock, peak_memory};
use super::directory::{EpochLine, SeedDirectory};
use super::optimizer::Optimizer;
use super::record::Cost;
use crate::Result;
use crate::nn::Parameters;

/// Checkpoints take at most one part in so many of the time.
const SHARE: u32 = 50;

/// Keeps the checkpoints of a seed.
pub struct Keeper {
    directory: SeedDirectory,
    run: String,
    best: Option<Best>,
    /// What the seed had taken when it was saved.
    spent: Cost,
    /// The epoch that was under way then.
    epoch: u64,
    clock: Clock,
    saved: Instant,
    /// How long the last write took.
    cost: Option<Duration>,
}

/// The best model so far.
struct Best {
    position: Position,
    parameters: Parameters,
    is_written: bool,
}

impl Keeper {
    /// Takes up a run where its checkpoint says, or at the start.
    pub fn resume(
        directory: SeedDirectory,
        run: String,
        parameters: &mut Parameters,
        optimizer: &mut Optimizer,
        threads: usize,
    ) -> Result<(Keeper, Position)> {
        let (mut position, mut best) = (Position::default(), None);
        let last = directory.last();
        if last.exists() {
            position = checkpoint::load(&last, &run, parameters, Some(optimizer))?;
        }
        if position.best.is_some() {
            let mut parameters = parameters.clone();
            let position = checkpoint::load(&directory.best(), &run, &mut parameters, None)?;
            best = Some(Best { position, parameters, is_written: true });
        }
        directory.keep(position.epoch)?;
        // A run that is begun again has taken nothing.
        let spent = directory.cost().filter(|_| last.exists()).unwrap_or_default();
        let spent = Cost { threads, ..spent };
        let clock = Clock::start(threads);
        Ok((
            Keeper {
                directory,
                run,
                best,
                spent,
                epoch: position.epoch,
                clock,
                saved: Instant::now(),
                cost: None,
            },
            position,
        ))
    }

    /// Time since the checkpoints were written, or the run was taken up.
    pub fn since(&self) -> Duration {
        self.saved.elapsed()
    }

    /// Remembers a model as the best so far.
    pub fn remember(&mut self, position: &Position, parameters: &Parameters) {
        let (position, parameters) = (position.clone(), parameters.clone());
        self.best = Some(Best { position, parameters, is_written: false });
    }

    /// The parameters of the best epoch.
    pub fn best(&self) -> Option<&Parameters> {
        self.best.as_ref().map(|best| &best.parameters)
    }

    /// Adds the line of an epoch.
    pub fn append(&self, line: &EpochLine) -> Result<()> {
        self.directory.append(line)
    }

    /// Whether it is time to write.
    pub fn is_due(&self) -> bool {
        self.cost.is_none_or(|cost| self.since() >= cost * SHARE)
    }

    /// Writes both checkpoints.
    pub fn save(
        &mut self,
        position: &Position,
        parameters: &Parameters,
        optimizer: &Optimizer,
    ) -> Result<()> {
        let (seconds, cpu_seconds) = self.clock.lap();
        let before = self.spent;
        let sum = |(before, now): (f64, f64)| before + now;
        self.spent = Cost {
            epochs: before.epochs + position.epoch.saturating_sub(self.epoch),
            seconds: before.seconds + seconds,
            cpu_seconds: match before.seconds > 0.0 {
                true => before.cpu_seconds.zip(cpu_seconds).map(sum),
                false => cpu_seconds,
            },
            threads: before.threads,
            peak_bytes: before.peak_bytes.max(peak_memory()),
        };
        let start = Instant::now();
        // What is resumed from comes last: all that it refers to is there.
        self.directory.sync()?;
        if let Some(best) = self.best.as_mut().filter(|best| !best.is_written) {
            let path = self.directory.best();
            checkpoint::save(&path, &self.run, &best.position, &best.parameters, None)?;
            best.is_written = true;
        }
        let path = self.directory.last();
        checkpoint::save(&path, &self.run, position, parameters, Some(optimizer))?;
        self.cost = Some(start.elapsed());
        self.epoch = position.epoch;
        self.directory.write_cost(&self.spent)?;
        self.saved = Instant::now();
        Ok(())
    }
}
