//! `hdse bench`: what a training step takes, part by part.
//!
//! Steps are made as `hdse train` makes them: graphs drawn in an order that follows the seed and merged ahead in a thread
//! of their own, the same forward and backward pass, clipping and optimiser; no validation and no checkpoints. They are
//! its very steps if all training graphs are used (`--graphs`); by default only as many are read as steps need.

mod dump;
mod operations;
mod peak;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Subcommand;
use serde_json::{Value, json};

use super::examples::{Loaded, prepare_part};
use super::output::{Output, count, object, thousands};
use super::progress::Progress;
use super::usage;
use crate::config::{Config, TrainConfig};
use crate::data::sets::Splits;
use crate::memory::human;
use crate::monitor::{Monitor as _, check};
use crate::nn::fused::{Team, profile};
use crate::nn::{Batch, Model, Pass};
use crate::rng::Seed;
use crate::train::Optimizer;
use crate::train::examples::{Batches, Epoch, Examples, Goal, Prepared, Seeded};
use crate::train::nodes::NodeExamples;
use crate::train::run::{At, Step, step};
use crate::{Error, MemoryLimit, Result};
use operations::Rows;

#[derive(clap::Args)]
pub(super) struct Options {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run the first training steps of an experiment, and say what they take
    Step(StepOptions),
}

#[derive(clap::Args)]
struct StepOptions {
    /// The experiment: a TOML file, such as configs/gps-zinc.toml
    config: PathBuf,
    /// Change keys of the experiment, such as model.dim=32
    #[arg(value_name = "KEY=VALUE")]
    changes: Vec<String>,
    /// The same, as other commands take it
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Steps to measure
    #[arg(long, value_name = "N", default_value_t = 30)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// Steps before those
    #[arg(long, value_name = "N", default_value_t = 5)]
    warmup: u32,
    /// Train on the first N graphs only; as many as there are steps for by default
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    graphs: Option<u32>,
    /// Seed of weights, order and dropout
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Write initial parameters and the first batches as safetensors, for other software to compute the same
    #[arg(long, value_name = "FILE")]
    dump: Option<PathBuf>,
    /// How many batches to write
    #[arg(long, value_name = "N", default_value_t = 8, requires = "dump")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    dump_batches: u32,
    /// Replace the file of --dump if it exists
    #[arg(long, requires = "dump")]
    force: bool,
}

pub(super) fn run(options: &Options, limit: MemoryLimit, output: &Output) -> Result<()> {
    match &options.verb {
        Verb::Step(options) => steps(options, limit, output),
    }
}

fn steps(options: &StepOptions, limit: MemoryLimit, output: &Output) -> Result<()> {
    let changes = [&options.set[..], &options.changes].concat();
    let config = Config::read(&options.config, &changes)?;
    let settings = &config.train;
    let (warmup, measured) = (options.warmup as usize, options.steps as usize);
    let dumped = options.dump.as_ref().map_or(0, |_| options.dump_batches as usize);
    let needed = (warmup + measured).max(dumped);
    let named = |e: Error| match e.is_config() {
        true => e.context(options.config.display().to_string()),
        false => e,
    };
    let set = Loaded::read(&config, limit).map_err(named)?;
    set.check(&config, limit).map_err(named)?;
    let label = set.record().label;
    let examples = match set {
        Loaded::Graphs(splits) => graphs(options, &config, splits, needed, limit, output)?,
        Loaded::Nodes(_) if options.graphs.is_some() => {
            return Err(Error::config("`--graphs` is for sets of graphs; leave it out"));
        }
        set @ Loaded::Nodes(_) => set.prepare(&config, limit, output)?,
    };
    let seed = Seed(options.seed);
    let mut model = Model::new(&config.model, seed)?;
    let mut optimizer = Optimizer::new(settings.optimizer, model.parameters.count())?;
    let seeded = examples.of_seed(options.seed)?;
    let batches = seeded.batches();
    let fused = settings.fused && model.backbone.is_fused();
    let in_parts = settings.batch_size.is_some() || config.model.local.sampled().is_some();
    if options.dump.is_some() && matches!(seeded, Seeded::Nodes(_)) && in_parts {
        return Err(named(Error::config(
            "`--dump` writes one large graph whole; leave out `train.batch_size` and `model.local.sampled`",
        )));
    }
    if let Some(path) = &options.dump {
        let file = dump::File { path, replace: options.force, config: &config };
        let mut first = Vec::new();
        each(batches, settings, seed, fused, dumped, |batch, goal| {
            first.push((batch.clone(), goal.clone()));
            Ok(())
        })?;
        dump::write(&file, &model.parameters, &first)?;
    }

    let reading = usage::now().peak_rss_bytes;
    let apart = usage::forget_peak();
    let per_epoch = batches.steps(settings)?.max(1);
    let team = Arc::new(Team::current()?);
    let progress = Progress::new((warmup + measured) as u64, "steps", output);
    if warmup == 0 {
        profile::start();
    }
    let mut found: Vec<Measured> = Vec::new();
    let mut before = usage::now();
    let mut clock = Instant::now();
    each(batches, settings, seed, fused, warmup + measured, |batch, goal| {
        let waited = clock.elapsed();
        check(&progress)?;
        let number = found.len() as u64;
        let rate = settings.schedule.rate(settings.epochs, per_epoch, number / per_epoch, number);
        let at = At { seed, step: number, rate, limit };
        let step = step(settings, &mut model, &mut optimizer, (batch, goal), &at, &team)?;
        if !step.loss.is_finite() || !step.norm.is_finite() {
            return Err(Error::data(format!(
                "the loss is {} and the gradient's length {} in step {number}; lower `train.schedule.rate`",
                step.loss, step.norm
            )));
        }
        let whole = clock.elapsed();
        found.push(Measured { waited, step, whole, rows: Rows::of(batch) });
        progress.advance(1);
        if found.len() == warmup {
            before = usage::now();
            profile::start();
        }
        // What is done for the report does not count.
        clock = Instant::now();
        Ok(())
    })?;
    drop(progress);
    let cpu = (usage::now().cpu_seconds - before.cpu_seconds) * 1e3 / measured as f64;
    let per_step = |(name, time): (_, Duration)| (name, time.as_secs_f64() * 1e3 / measured as f64);
    let kernels = profile::stop().into_iter().map(per_step).collect();
    let evaluation = match &seeded {
        Seeded::Graphs(_) => None,
        Seeded::Nodes(nodes) => Some(evaluate(nodes, settings, &model, &team, limit)?),
    };
    let report = Report {
        kernels,
        config: &config,
        label,
        graphs: match &examples {
            Prepared::Graphs(examples) => examples.train.len(),
            Prepared::Nodes(_) => 1,
        },
        model: &model,
        losses: found.iter().map(|measured| measured.step.loss).collect(),
        cpu,
        memory: apart.then(|| usage::now().peak_rss_bytes),
        peak_memory: usage::now().peak_rss_bytes.max(reading),
        threads: team.size(),
        peak: peak::peak(&team),
        evaluation,
        steps: &found[warmup..],
    };
    output
        .result(|| object(output.resources().into_iter().chain(report.fields())), || report.text())
}

/// Hands the first batches of a run to `work`, epoch after epoch.
fn each(
    batches: &dyn Batches,
    settings: &TrainConfig,
    seed: Seed,
    fused: bool,
    count: usize,
    mut work: impl FnMut(&Batch, &Goal) -> Result<()>,
) -> Result<()> {
    let (mut done, mut number) = (0, 0);
    while done < count {
        let before = done;
        let epoch = Epoch { settings, fused, seed, number };
        let mut enough = false;
        let made = batches.epoch(&epoch, 0, &mut |batch, goal| {
            work(batch, goal)?;
            done += 1;
            enough = done == count;
            // Only an error ends an epoch before its time.
            if enough { Err(Error::config("enough")) } else { Ok(()) }
        });
        if !enough {
            made?;
        }
        if done == before {
            return Err(Error::data("there is nothing to train on"));
        }
        number += 1;
    }
    Ok(())
}

/// Milliseconds that predictions for all nodes take: the median of a few.
fn evaluate(
    nodes: &NodeExamples,
    settings: &TrainConfig,
    model: &Model,
    team: &Arc<Team>,
    limit: MemoryLimit,
) -> Result<f64> {
    const TIMES: usize = 3;
    let mut times = Vec::new();
    for _ in 0..TIMES {
        let start = Instant::now();
        let pass =
            || Ok(Pass::eval(&model.parameters).limited(limit).by(team).fused(settings.fused));
        nodes.predict(settings, &*model.backbone, pass)?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[TIMES / 2])
}

/// The graphs that so many steps need, made ready.
fn graphs(
    options: &StepOptions,
    config: &Config,
    mut splits: Splits,
    steps: usize,
    limit: MemoryLimit,
    output: &Output,
) -> Result<Prepared> {
    let needed = steps.saturating_mul(config.train.graphs_per_step()?);
    splits.train.truncate(options.graphs.map_or(needed, |graphs| graphs as usize));
    let progress = Progress::new(splits.train.len() as u64, "graphs", output);
    let train = prepare_part(config, "train", &splits.train, 0, limit, &progress)?;
    match train.is_empty() {
        true => Err(Error::data(format!("{} has no graphs to train on", config.data.set))),
        false => Ok(Prepared::Graphs(Examples { train, ..Examples::default() })),
    }
}

/// A step with what it was made of.
struct Measured {
    waited: Duration,
    step: Step,
    /// From the end of the step before to the end of this one.
    whole: Duration,
    rows: Rows,
}

/// All that is said of the steps.
struct Report<'a> {
    config: &'a Config,
    label: Option<String>,
    graphs: usize,
    model: &'a Model,
    /// Of all steps, those before the measured ones too.
    losses: Vec<f64>,
    /// Milliseconds of processor time per step, on all threads.
    cpu: f64,
    /// Bytes during the steps, at most, where the system tells.
    memory: Option<u64>,
    /// The same of the whole process, with reading the set.
    peak_memory: u64,
    /// Milliseconds of every kernel of the fused path, on all threads.
    kernels: Vec<(&'static str, f64)>,
    threads: usize,
    /// GFLOP/s of a matrix product.
    peak: f64,
    /// Milliseconds of predictions for all nodes of one large graph.
    evaluation: Option<f64>,
    steps: &'a [Measured],
}

impl Report<'_> {
    /// Milliseconds of all steps, smallest first.
    fn sorted(&self, time: impl Fn(&Measured) -> Duration) -> Vec<f64> {
        let mut times: Vec<f64> =
            self.steps.iter().map(|step| time(step).as_secs_f64() * 1e3).collect();
        times.sort_by(f64::total_cmp);
        times
    }

    fn median(&self, time: impl Fn(&Measured) -> Duration) -> f64 {
        let sorted = self.sorted(time);
        let middle = sorted.len() / 2;
        match sorted.len() % 2 {
            0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
            _ => sorted[middle],
        }
    }

    fn mean(&self, value: impl Fn(&Measured) -> f64) -> f64 {
        self.steps.iter().map(value).sum::<f64>() / self.steps.len() as f64
    }

    /// Name and median milliseconds of every part.
    fn parts(&self) -> Vec<(&'static str, f64)> {
        let waiting = ("waiting", self.median(|measured| measured.waited));
        let part = |(number, name): (usize, &'static str)| {
            (name, self.median(|measured| measured.step.times[number]))
        };
        std::iter::once(waiting).chain(Step::PARTS.into_iter().enumerate().map(part)).collect()
    }

    /// Size of a batch, on average.
    fn batch(&self) -> Vec<(&'static str, f64)> {
        if self.evaluation.is_some() {
            return vec![
                ("nodes", self.mean(|measured| measured.rows.nodes as f64)),
                ("arcs", self.mean(|measured| measured.rows.arcs as f64)),
                ("clusters", self.mean(|measured| measured.rows.clusters as f64)),
            ];
        }
        vec![
            ("graphs", self.mean(|measured| measured.rows.graphs as f64)),
            ("nodes", self.mean(|measured| measured.rows.nodes as f64)),
            ("arcs", self.mean(|measured| measured.rows.arcs as f64)),
            ("pairs", self.mean(|measured| measured.rows.pairs as f64)),
            ("codes", self.mean(|measured| measured.rows.codes as f64)),
        ]
    }

    /// Products of weights and of attention, in GFLOP per step, and all of them per second.
    fn speed(&self) -> (f64, f64, f64) {
        let operations = |measured: &Measured| operations::of(self.model, &measured.rows);
        let products = self.mean(|measured| operations(measured).products as f64) / 1e9;
        let attention = self.mean(|measured| operations(measured).attention as f64) / 1e9;
        let rate = (products + attention) / (self.median(|measured| measured.whole) / 1e3);
        (products, attention, rate)
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        let whole = self.sorted(|measured| measured.whole);
        let milliseconds = json!({
            "median": self.median(|measured| measured.whole),
            "min": whole[0],
            "mean": self.mean(|measured| measured.whole.as_secs_f64() * 1e3),
            "cpu": self.cpu,
            "evaluation": self.evaluation,
            "parts": self.parts().into_iter().collect::<BTreeMap<_, _>>(),
            "kernels": self.kernels.iter().copied().collect::<BTreeMap<_, _>>(),
        });
        let mut fields = vec![
            ("set", json!(self.config.data.set)),
            ("label", json!(self.label)),
            ("graphs", json!(self.graphs)),
            ("batch", object(self.batch().into_iter().map(|(name, mean)| (name, json!(mean))))),
            ("parameters", json!(self.model.parameters.count())),
            ("threads", json!(self.threads)),
            ("steps", json!(self.steps.len())),
            ("milliseconds", milliseconds),
            ("steps_peak_rss_bytes", json!(self.memory)),
            ("peak_rss_bytes", json!(self.peak_memory)),
            ("losses", json!(self.losses)),
        ];
        // Of one large graph, maps may be applied to clusters or to nodes, and features are sparse or not.
        if self.evaluation.is_none() {
            let (products, attention, rate) = self.speed();
            fields.extend([
                ("gflop", json!({ "products": products, "attention": attention })),
                ("gflops", json!(rate)),
                ("peak_gflops", json!(self.peak)),
                ("share_of_peak", json!(rate / self.peak)),
            ]);
        }
        fields
    }

    fn text(&self) -> String {
        let batch = self.batch().into_iter();
        let batch: Vec<String> =
            batch.map(|(name, mean)| format!("{} {name}", number(mean))).collect();
        let batch = batch.join(", ");
        let whole = self.sorted(|measured| measured.whole);
        let used = match self.evaluation {
            Some(_) => "one graph".to_string(),
            None => format!("{} used", count(self.graphs as u64, "graph")),
        };
        let mut text = format!("set         {}, {used}\n", self.config.data.set);
        if let Some(label) = &self.label {
            text += &format!("            ({label})\n");
        }
        text += &format!("batch       {batch}\n");
        text += &format!(
            "model       {}, {} parameters\n",
            self.config.model.backbone,
            thousands(self.model.parameters.count() as u64)
        );
        text += &format!(
            "step        median {:.2} ms, min {:.2}, mean {:.2} over {}; processor time {:.2} ms; {}\n",
            self.median(|measured| measured.whole),
            whole[0],
            self.mean(|measured| measured.whole.as_secs_f64() * 1e3),
            count(self.steps.len() as u64, "step"),
            self.cpu,
            count(self.threads as u64, "thread")
        );
        for (name, milliseconds) in self.parts() {
            text += &format!("  {name:<10}{milliseconds:>9.3} ms\n");
        }
        let kernels = self.kernels.iter().filter(|(_, milliseconds)| *milliseconds > 0.0);
        for (number, (name, milliseconds)) in kernels.enumerate() {
            if number == 0 {
                text += "kernels     of the layers, processor time of all threads\n";
            }
            text += &format!("  {name:<21}{milliseconds:>9.3} ms\n");
        }
        if let Some(evaluation) = self.evaluation {
            text += &format!("evaluation  {evaluation:.2} ms for predictions of all nodes\n");
        } else {
            let (products, attention, rate) = self.speed();
            text += &format!(
                "operations  {products:.3} GFLOP in products, {attention:.3} in attention; {rate:.1} GFLOP/s, {:.0} % of a \
                 matrix product's {:.1}\n",
                100.0 * rate / self.peak,
                self.peak
            );
        }
        let apart = self.memory.map_or(String::new(), |bytes| {
            format!("{} at most in the steps, ", human(bytes.into()))
        });
        let whole = human(self.peak_memory.into());
        text += &format!("memory      {apart}{whole} in the whole process\n");
        let losses: Vec<String> =
            self.losses.iter().take(3).map(|loss| format!("{loss:.9}")).collect();
        text + &format!("losses      {}\n", losses.join(" "))
    }
}

/// "32", "741.6", "1,372".
fn number(mean: f64) -> String {
    match mean {
        mean if mean >= 1000.0 || mean.fract() == 0.0 => thousands(mean.round() as u64),
        mean => format!("{mean:.1}"),
    }
}
