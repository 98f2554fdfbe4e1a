//! The training loop, from top to bottom.
//!
//! Order of examples, dropout and initial weights follow the seed and the step; nothing else is random, and
//! sums have a fixed order. So a run is the same bytes each time, and one that was stopped, by Ctrl-C, by
//! kill or by a power cut, goes on from its last checkpoint as if nothing had happened.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::checkpoint::{Best, Position};
use super::directory::{EpochLine, Outcome, SeedDirectory};
use super::examples::{Batches, Epoch, Goal, Part};
use super::keeper::Keeper;
use super::{Optimizer, clip, swap};
use crate::config::{Config, TrainConfig};
use crate::data::Values;
use crate::error::Context as _;
use crate::monitor::{Monitor, check};
use crate::nn::fused::Team;
use crate::nn::{Batch, Model, Pass, values};
use crate::rng::Seed;
use crate::{Error, MemoryLimit, Result};

/// How often a checkpoint is written within an epoch.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(300);

/// What a run is told besides its configuration.
pub struct Setting<'a> {
    /// The folder of the run.
    pub directory: &'a Path,
    /// Stands for configuration and data: a checkpoint of anything else is refused.
    pub hash: &'a str,
    /// The most memory to take.
    pub limit: MemoryLimit,
    /// Who does the work.
    pub team: &'a Arc<Team>,
    /// Hears of every batch, and may ask to stop.
    pub monitor: &'a dyn Monitor,
    /// Hears of every epoch.
    pub report: &'a mut dyn FnMut(&EpochLine),
}

/// Trains one seed from where its checkpoint says, or from the start, and reports on the test part once.
pub fn train(
    config: &Config,
    data: &dyn Batches,
    seed: u64,
    setting: &mut Setting,
) -> Result<Outcome> {
    let settings = &config.train;
    let directory = SeedDirectory::create(setting.directory, seed)?;
    directory.sweep();
    if let Some(outcome) = directory.outcome()? {
        return Ok(outcome);
    }
    let run = name(setting.hash, seed);
    let seed = Seed(seed);
    let mut model = Model::new(&config.model, seed)?;
    let mut optimizer = Optimizer::new(settings.optimizer, model.parameters.count())?;
    let threads = setting.team.size();
    let (mut keeper, mut position) =
        Keeper::resume(directory.clone(), run, &mut model.parameters, &mut optimizer, threads)?;
    let steps_per_epoch = data.steps(settings)?;
    let fused = settings.fused && model.backbone.is_fused();

    while position.epoch < settings.epochs {
        let rate =
            |epoch, step| settings.schedule.rate(settings.epochs, steps_per_epoch, epoch, step);
        let epoch = Epoch { settings, fused, seed, number: position.epoch };
        let first = position.batch;
        data.epoch(&epoch, first, &mut |batch, goal| {
            let rate = rate(position.epoch, position.step);
            let at = At { seed, step: position.step, rate, limit: setting.limit };
            let Step { loss, norm, targets, .. } =
                step(settings, &mut model, &mut optimizer, (batch, goal), &at, setting.team)?;
            if !loss.is_finite() || !norm.is_finite() {
                return Err(diverged(
                    loss,
                    norm,
                    &position,
                    &data.describe(&epoch, position.batch),
                ));
            }
            position.step += 1;
            position.batch += 1;
            let sum = f64::from_bits(position.loss_bits) + loss * targets as f64;
            position.loss_bits = sum.to_bits();
            position.targets += targets as u64;
            setting.monitor.advance(1);
            let stopped = check(setting.monitor);
            if stopped.is_err() || keeper.since() > CHECKPOINT_EVERY {
                keeper.save(&position, &model.parameters, &optimizer)?;
            }
            stopped
        })?;

        let is_last = position.epoch + 1 == settings.epochs;
        let val = match is_last || (position.epoch + 1).is_multiple_of(settings.eval_every) {
            true => Some(evaluate(config, &model, data, Part::Val, setting)),
            false => None,
        };
        if let Some(Err(error)) = &val
            && error.is_interrupted()
        {
            // All batches are done; the evaluation is made again.
            keeper.save(&position, &model.parameters, &optimizer)?;
        }
        let val = val.transpose().map_err(|e| match e.is_interrupted() {
            true => e,
            false => e.context(format!(
                "validation after step {} (end of epoch {})",
                position.step.saturating_sub(1),
                position.epoch
            )),
        })?;
        let better = val.filter(|val| {
            position.best.as_ref().is_none_or(|best| {
                let best = f64::from_bits(best.value_bits);
                let larger = settings.metric.larger_is_better();
                if larger { val.metric > best } else { val.metric < best }
            })
        });
        let line = EpochLine {
            epoch: position.epoch,
            step: position.step,
            rate: rate(position.epoch, position.step.saturating_sub(1)),
            train_loss: f64::from_bits(position.loss_bits) / position.targets.max(1) as f64,
            val_loss: val.map(|val| val.loss),
            val_metric: val.map(|val| val.metric),
            best: better.is_some(),
        };
        if let Some(val) = better {
            position.best = Some(Best { epoch: position.epoch, value_bits: val.metric.to_bits() });
        }
        position = Position {
            epoch: position.epoch + 1,
            step: position.step,
            best: position.best,
            ..Position::default()
        };
        if better.is_some() {
            keeper.remember(&position, &model.parameters);
        }
        keeper.append(&line)?;
        // Before the checkpoint: a run that is killed between the two reports the epoch again, not never.
        (setting.report)(&line);
        if is_last || keeper.is_due() {
            keeper.save(&position, &model.parameters, &optimizer)?;
        }
    }

    let (Some(best), Some(parameters)) = (position.best, keeper.best()) else {
        return Err(Error::config("no epoch was trained; raise `train.epochs`"));
    };
    model.parameters = parameters.clone();
    let test = evaluate(config, &model, data, Part::Test, setting)?;
    let outcome = Outcome {
        seed: seed.0,
        best_epoch: best.epoch,
        val_metric: f64::from_bits(best.value_bits),
        test_metric: test.metric,
        test_loss: test.loss,
        parameters: model.parameters.count(),
        split: data.split().map(String::from),
    };
    directory.finish(&outcome)?;
    Ok(outcome)
}

/// Where a step is in its run.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// Seed of the run.
    pub seed: Seed,
    /// Number of the step, from 0.
    pub step: u64,
    /// The learning rate.
    pub rate: f64,
    /// The most memory to take.
    pub limit: MemoryLimit,
}

/// What came of a step.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Loss of the batch.
    pub loss: f64,
    /// Length of the gradient, before it was clipped.
    pub norm: f64,
    /// Targets in the batch.
    pub targets: usize,
    /// What the parts of a step took, in the order of [`Step::PARTS`].
    pub times: [Duration; 5],
}

impl Step {
    /// The parts of a step.
    pub const PARTS: [&'static str; 5] = ["forward", "loss", "backward", "clip", "optimizer"];
}

/// One step: predictions, loss, gradients, their clipping, and the change of the model. If loss or gradient are
/// not finite, nothing changes.
pub fn step(
    settings: &TrainConfig,
    model: &mut Model,
    optimizer: &mut Optimizer,
    (batch, goal): (&Batch, &Goal),
    at: &At,
    team: &Arc<Team>,
) -> Result<Step> {
    let mut times = [Duration::ZERO; 5];
    let mut clock = Instant::now();
    let mut lap = |part: usize| {
        times[part] = clock.elapsed();
        clock = Instant::now();
    };
    let pass = Pass::train(&model.parameters, at.seed, at.step).limited(at.limit);
    let pass = pass.by(team).fused(settings.fused);
    let pass = goal.asked(pass);
    let prediction = model.backbone.forward(&pass, batch)?;
    lap(0);
    let targets = targets(settings, batch, goal, || values(prediction.clone().detach()))?;
    let loss = settings.loss.of(prediction, &targets)?;
    lap(1);
    let gradients = pass.gradients(&loss);
    let loss = f64::from(values(loss)[0]);
    lap(2);
    let limit = settings.clip_norm.unwrap_or(f64::INFINITY);
    let (norm, factor) = clip::measure(team, &gradients, limit);
    lap(3);
    if loss.is_finite() && norm.is_finite() {
        pass.statistics().store(&mut model.parameters);
        let parameters = model.parameters.trained_mut();
        optimizer.step_by(team, at.rate, parameters, &gradients, factor)?;
        team.recycle(gradients);
        lap(4);
    }
    Ok(Step { loss, norm, targets: targets.len(), times })
}

/// Takes a little of each part through model and loss, and all targets through the metric: what does not fit
/// shows at once, not after an epoch.
pub fn rehearse(config: &Config, data: &dyn Batches, limit: MemoryLimit) -> Result<()> {
    let model = Model::new(&config.model, Seed(0))?;
    for part in Part::ALL {
        let rehearse = || {
            let (rows, truths) = data.rehearse(part, config, &mut |batch, goal| {
                let pass = Pass::eval(&model.parameters).limited(limit).fused(config.train.fused);
                let pass = goal.asked(pass);
                let prediction = model.backbone.forward(&pass, batch)?;
                let targets = targets(&config.train, batch, goal, || values(prediction.clone()))?;
                config.train.loss.of(prediction, &targets).map(|_| ())
            })?;
            let guess = vec![0.0; rows * config.model.outputs];
            // Nothing is chosen or reported by the metric on what is learned from.
            if part == Part::Train { Ok(0.0) } else { metric(config, &guess, &truths) }
        };
        rehearse().context(|| format!("part `{}`", part.name()))?;
    }
    Ok(())
}

/// What a checkpoint is of: everything that determines the run.
pub fn name(hash: &str, seed: u64) -> String {
    format!("{hash} seed {seed}")
}

/// The targets of a batch, aligned with the predictions where classes are exchangeable.
fn targets(
    settings: &TrainConfig,
    batch: &Batch,
    goal: &Goal,
    logits: impl FnOnce() -> Vec<f32>,
) -> Result<Values> {
    match (settings.up_to_swap, &goal.targets) {
        (false, targets) => Ok(targets.clone()),
        (true, Values::Int(classes)) => {
            let logits = logits();
            if logits.len() != 2 * classes.len() || classes.len() != batch.num_nodes() {
                return Err(Error::data("`train.up_to_swap` needs a class for every node"));
            }
            Ok(Values::Int(swap::align(&logits, classes, &batch.sizes)))
        }
        (true, Values::Float(_)) => {
            Err(Error::data("`train.up_to_swap` needs classes, but targets are real numbers"))
        }
    }
}

/// Loss and metric of a part of the set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluation {
    /// Mean loss.
    pub loss: f64,
    /// Metric.
    pub metric: f64,
}

/// Evaluates a model on a part of the data.
pub fn evaluate(
    config: &Config,
    model: &Model,
    data: &dyn Batches,
    part: Part,
    setting: &Setting,
) -> Result<Evaluation> {
    let settings = &config.train;
    let (mut predictions, mut truths) = (Vec::new(), Vec::new());
    let (mut sum, mut count) = (0.0, 0.0);
    let fused = settings.fused && model.backbone.is_fused();
    data.part(part, settings, fused, &mut |batch, goal| {
        check(setting.monitor)?;
        let pass = Pass::eval(&model.parameters).limited(setting.limit);
        let pass = pass.by(setting.team).fused(settings.fused);
        let pass = goal.asked(pass);
        let prediction = model.backbone.forward(&pass, batch)?;
        let numbers = values(prediction.clone());
        let targets = targets(settings, batch, goal, || numbers.clone())?;
        let loss = f64::from(values(settings.loss.of(prediction, &targets)?)[0]);
        sum += loss * targets.len() as f64;
        count += targets.len() as f64;
        predictions.extend(numbers);
        truths.push(targets);
        Ok(())
    })?;
    let metric = metric(config, &predictions, &truths)?;
    Ok(Evaluation { loss: sum / f64::max(count, 1.0), metric })
}

/// The metric over targets of several batches.
fn metric(config: &Config, predictions: &[f32], truths: &[Values]) -> Result<f64> {
    let (metric, outputs) = (config.train.metric, config.model.outputs);
    if truths.iter().all(|part| matches!(part, Values::Int(_))) {
        let all = truths.iter().flat_map(|part| match part {
            Values::Int(values) => &values[..],
            Values::Float(_) => &[],
        });
        let all: Vec<i64> = all.copied().collect();
        return metric.compute(predictions, outputs, &all[..]);
    }
    let all: Vec<f32> = truths.iter().flat_map(Values::to_floats).collect();
    metric.compute(predictions, outputs, &all[..])
}

fn diverged(loss: f64, norm: f64, position: &Position, batch: &str) -> Error {
    Error::data(format!(
        "the loss is {loss} and the gradient's length {norm} in step {} (epoch {}, batch {}, {batch}); \
         the last checkpoint is from before. Lower the rate, set `train.clip_norm`, or look at this batch",
        position.step, position.epoch, position.batch,
    ))
}
