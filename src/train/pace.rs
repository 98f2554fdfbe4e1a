//! How long an epoch takes, from a few steps of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Optimizer;
use super::examples::{Batches, Epoch, Part};
use super::run::{At, step};
use crate::config::Config;
use crate::monitor::{Monitor, check};
use crate::nn::fused::Team;
use crate::nn::{Model, Pass};
use crate::rng::Seed;
use crate::{Error, MemoryLimit, Result};

/// How long steps are measured.
const TRAINING: Duration = Duration::from_secs(4);
/// How long evaluation is measured.
const EVALUATION: Duration = Duration::from_secs(1);
/// Epochs that are measured at most.
const MOST_EPOCHS: u64 = 200;

/// Seconds of an epoch with its validation, of a model that is then thrown away.
pub fn pace(
    config: &Config,
    data: &dyn Batches,
    limit: MemoryLimit,
    team: &Arc<Team>,
    monitor: &dyn Monitor,
) -> Result<f64> {
    let settings = &config.train;
    let seed = Seed(0);
    let mut model = Model::new(&config.model, seed)?;
    let mut optimizer = Optimizer::new(settings.optimizer, model.parameters.count())?;
    let fused = settings.fused && model.backbone.is_fused();

    let (mut start, mut steps, mut is_over) = (Instant::now(), 0u32, false);
    for number in 0..MOST_EPOCHS {
        let epoch = Epoch { settings, fused, seed, number };
        let measured = data.epoch(&epoch, 0, &mut |batch, goal| {
            check(monitor)?;
            let at = At { seed, step: u64::from(steps), rate: 0.0, limit };
            step(settings, &mut model, &mut optimizer, (batch, goal), &at, team)?;
            if steps == 0 {
                // The first one touches memory that later ones find touched.
                start = Instant::now();
            }
            steps += 1;
            is_over = steps > 1 && start.elapsed() > TRAINING;
            if is_over { Err(enough()) } else { Ok(()) }
        });
        if is_over {
            break;
        }
        measured?;
    }
    let each = start.elapsed().as_secs_f64() / f64::from(steps.saturating_sub(1).max(1));
    let training = each * data.steps(settings)? as f64;

    let (_, truths) = data.rehearse(Part::Val, config, &mut |_, _| Ok(()))?;
    let all: usize = truths.iter().map(|part| part.len()).sum();
    let (start, mut seen, mut is_over) = (Instant::now(), 0, false);
    let measured = data.part(Part::Val, settings, fused, &mut |batch, goal| {
        check(monitor)?;
        let pass = Pass::eval(&model.parameters).limited(limit).by(team).fused(settings.fused);
        model.backbone.forward(&goal.asked(pass), batch)?;
        seen += goal.targets.len();
        is_over = start.elapsed() > EVALUATION;
        if is_over { Err(enough()) } else { Ok(()) }
    });
    if !is_over {
        measured?;
    }
    let evaluation = start.elapsed().as_secs_f64() * all as f64 / f64::max(seen as f64, 1.0);
    Ok(training + evaluation / settings.eval_every as f64)
}

/// What ends a measurement before its batches do.
fn enough() -> Error {
    Error::config("enough was measured")
}
