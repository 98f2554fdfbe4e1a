//! One forward pass of a model, and its gradients.
//!
//! A [`Pass`] makes tensors of the parameters, hands out dropout masks, collects new running
//! statistics, and traces intermediate results for those who ask. Layers are plain structs of
//! [`Param`]s; everything that changes from pass to pass is here.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use burn::tensor::{Device, Int, Tensor, TensorData};

use super::fused::Team;
use super::ops::rows::{Groups, gather};
use super::parameters::{Param, Parameters};
use crate::rng::{Coins, Seed};
use crate::simd::{Kernel, Simd, Vector, WIDTH};
use crate::{MemoryLimit, Result};

/// Training or evaluating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Batch statistics and dropout; all that is random follows the seed of the run and the step.
    Train {
        /// Seed of the run.
        seed: Seed,
        /// Number of the step.
        step: u64,
    },
    /// Running statistics, no dropout.
    Eval,
}

/// The CPU.
pub fn cpu() -> Device {
    Device::flex()
}

/// An intermediate result, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Traced {
    /// Length of both axes.
    pub shape: [usize; 2],
    /// The numbers.
    pub values: Vec<f32>,
}

/// One pass through a model.
#[derive(Debug)]
pub struct Pass<'a> {
    parameters: &'a Parameters,
    /// Made when first asked for.
    tensors: Vec<OnceCell<Tensor<1>>>,
    device: Device,
    mode: Mode,
    statistics: RefCell<Vec<(Param, Vec<f32>)>>,
    trace: Option<RefCell<BTreeMap<String, Traced>>>,
    composed: bool,
    fused: bool,
    simd: Simd,
    team: Arc<Team>,
    /// Derivatives that did not go through the tape.
    flat: Arc<Mutex<Option<Vec<f32>>>>,
    limit: Option<MemoryLimit>,
    wanted: Option<Arc<Groups>>,
}

impl<'a> Pass<'a> {
    /// A pass on `device`; gradients can be had if that is an autodiff device.
    pub fn new(parameters: &'a Parameters, mode: Mode, device: &Device) -> Pass<'a> {
        Pass {
            parameters,
            tensors: parameters.entries().iter().map(|_| OnceCell::new()).collect(),
            device: device.clone(),
            mode,
            statistics: RefCell::default(),
            trace: None,
            composed: false,
            fused: true,
            simd: Simd::detect(),
            team: Arc::default(),
            flat: Arc::default(),
            limit: None,
            wanted: None,
        }
    }

    /// A training pass on the CPU.
    pub fn train(parameters: &'a Parameters, seed: Seed, step: u64) -> Pass<'a> {
        Pass::new(parameters, Mode::Train { seed, step }, &cpu().autodiff())
    }

    /// An evaluating pass on the CPU, without gradients.
    pub fn eval(parameters: &'a Parameters) -> Pass<'a> {
        Pass::new(parameters, Mode::Eval, &cpu())
    }

    /// Keeps intermediate results: states after every layer, biases, attention weights.
    pub fn traced(mut self) -> Pass<'a> {
        self.trace = Some(RefCell::default());
        self
    }

    /// Uses tensor operations only, as devices without our kernels do.
    pub fn composed(mut self) -> Pass<'a> {
        self.composed = true;
        self
    }

    /// Runs all layers as one operation where it can, which is the default, or not.
    pub fn fused(mut self, fused: bool) -> Pass<'a> {
        self.fused = fused;
        self
    }

    /// Uses instructions of every processor only.
    pub fn portable(mut self) -> Pass<'a> {
        self.simd = Simd::portable();
        self
    }

    /// Shares the work among the threads of a team; one thread otherwise.
    pub fn by(mut self, team: &Arc<Team>) -> Pass<'a> {
        self.team = team.clone();
        self
    }

    /// Asks for predictions of these rows only, in that order: models of nodes then skip what no other depends on.
    pub fn of_rows(mut self, rows: &Arc<Groups>) -> Pass<'a> {
        self.wanted = Some(rows.clone());
        self
    }

    /// The rows that are asked for.
    pub(super) fn wanted(&self) -> Option<&Arc<Groups>> {
        self.wanted.as_ref()
    }

    /// Those rows of a matrix with a row for every node; all if all are asked for.
    pub(super) fn chosen(&self, rows: Tensor<2>) -> Tensor<2> {
        match &self.wanted {
            Some(wanted) => gather(self, wanted, rows),
            None => rows,
        }
    }

    /// The rows that are asked for, if those of the last layer can be chosen before it: in evaluation no statistics are of all.
    pub(super) fn wanted_early(&self, is_last: bool) -> Option<&Arc<Groups>> {
        self.wanted.as_ref().filter(|_| is_last && !self.is_training())
    }

    /// Refuses attention that needs more memory than this; 80 % of what is free otherwise.
    pub fn limited(mut self, limit: MemoryLimit) -> Pass<'a> {
        self.limit = Some(limit);
        self
    }

    /// Refuses attention over so many pairs in so many layers, if there is no room for its weights.
    pub(super) fn check_pairs(&self, pairs: usize, heads: usize, layers: usize) -> Result<()> {
        // Weights and masks of all layers are kept for the derivatives.
        let kept = if self.is_training() { 2 * layers } else { 2 };
        let bytes = pairs as u128 * heads as u128 * 4 * kept as u128;
        // Not worth asking what is free.
        const SMALL: u128 = 1 << 26;
        if self.limit.is_none() && bytes <= SMALL {
            return Ok(());
        }
        self.limit.unwrap_or_default().check(
            bytes,
            &format!("attention between all nodes of each graph, {pairs} pairs,"),
            "use smaller batches, smaller graphs or fewer heads, or raise the limit",
        )
    }

    /// Refuses so many layers of message passing on so many rows and arcs, if there is no room for their states.
    pub(super) fn check_rows(
        &self,
        rows: usize,
        arcs: usize,
        dim: usize,
        layers: usize,
    ) -> Result<()> {
        // States that a layer keeps for the derivatives: some of rows, some of arcs.
        let kept = if self.is_training() { layers } else { 1 };
        let bytes = (4 * rows as u128 + 3 * arcs as u128) * dim as u128 * 4 * kept as u128;
        self.limit.unwrap_or_default().check(
            bytes,
            &format!(
                "message passing along {rows} rows and {arcs} arcs that stand for nodes and arcs of the graphs,"
            ),
            "use smaller batches, fewer hops, `extractor.subtree` or fewer `frequencies`, or raise the limit",
        )
    }

    /// Where tensors are.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Whether statistics come from the batch and dropout drops.
    pub fn is_training(&self) -> bool {
        matches!(self.mode, Mode::Train { .. })
    }

    /// Whether intermediate results are kept.
    pub fn is_traced(&self) -> bool {
        self.trace.is_some()
    }

    pub(super) fn is_composed(&self) -> bool {
        self.composed
    }

    pub(super) fn is_fused(&self) -> bool {
        self.fused && !self.composed && !self.is_traced()
    }

    pub(super) fn simd(&self) -> Simd {
        self.simd
    }

    pub(super) fn team(&self) -> &Arc<Team> {
        &self.team
    }

    pub(super) fn parameters(&self) -> &Parameters {
        self.parameters
    }

    /// Where derivatives go that do not go through the tape.
    pub(super) fn flat_gradients(&self) -> &Arc<Mutex<Option<Vec<f32>>>> {
        &self.flat
    }

    /// The tensor of a parameter, in its shape.
    pub fn param<const D: usize>(&self, param: Param) -> Tensor<D> {
        let entry = self.parameters.entry(param);
        let shape: [usize; D] = entry.shape[..]
            .try_into()
            .expect("a layer asks for its parameters in the rank it gave them");
        let tensor = self.tensors[param.0].get_or_init(|| {
            let tensor = vector(self.parameters.values(entry).to_vec(), &self.device);
            if entry.trained && self.device.is_autodiff() { tensor.require_grad() } else { tensor }
        });
        tensor.clone().reshape(shape)
    }

    /// Replaces a running statistic when the pass is over.
    pub(super) fn update(&self, param: Param, values: Vec<f32>) {
        self.statistics.borrow_mut().push((param, values));
    }

    /// New running statistics, to be written by [`Statistics::store`].
    pub fn statistics(self) -> Statistics {
        Statistics(self.statistics.into_inner())
    }

    /// Factors of a dropout: 0 with probability `rate`, else 1 / (1 - rate); none where nothing drops.
    pub(super) fn mask(&self, site: u64, rate: f64, count: usize) -> Option<Vec<f32>> {
        let (coins, simd) = (self.coins(site, rate)?, self.simd);
        Some(self.team.make_rows(count, 1, |first, factors| {
            simd.run(Toss { coins: &coins, first: first as u32, factors });
        }))
    }

    /// The coins of a dropout; none where nothing drops.
    pub(super) fn coins(&self, site: u64, rate: f64) -> Option<Coins> {
        let Mode::Train { seed, step } = self.mode else { return None };
        (rate > 0.0).then(|| seed.coins("dropout", step, site, rate))
    }

    /// A random sign for each of `count` columns, in training.
    pub(super) fn signs(&self, count: usize) -> Option<Vec<f32>> {
        let Mode::Train { seed, step } = self.mode else { return None };
        let mut stream = seed.stream("signs", step, 0);
        Some((0..count).map(|_| if stream.next_u64() >> 63 == 0 { 1.0 } else { -1.0 }).collect())
    }

    /// Keeps an intermediate result, if results are kept.
    pub(super) fn record<const D: usize>(&self, name: impl Fn() -> String, tensor: &Tensor<D>) {
        if self.is_traced() {
            let rows = tensor.dims()[0];
            let values = values(tensor.clone().detach());
            let columns = values.len().checked_div(rows).unwrap_or(0);
            self.record_values(name(), [rows, columns], values);
        }
    }

    pub(super) fn record_values(&self, name: String, shape: [usize; 2], values: Vec<f32>) {
        if let Some(trace) = &self.trace {
            trace.borrow_mut().insert(name, Traced { shape, values });
        }
    }

    /// All results kept so far, by name.
    pub fn trace(&self) -> BTreeMap<String, Traced> {
        self.trace.as_ref().map(|trace| trace.borrow().clone()).unwrap_or_default()
    }

    /// The derivatives of `loss` by all trained numbers, in their flat order; 0 where it does not
    /// depend on them.
    ///
    /// # Panics
    /// If the device of this pass is not an autodiff device.
    pub fn gradients(&self, loss: &Tensor<1>) -> Vec<f32> {
        self.gradients_with(loss, &[]).0
    }

    /// The same, and the derivatives by inputs for which gradients were required.
    ///
    /// # Panics
    /// If the device of this pass is not an autodiff device.
    pub fn gradients_with(
        &self,
        loss: &Tensor<1>,
        inputs: &[&Tensor<2>],
    ) -> (Vec<f32>, Vec<Vec<f32>>) {
        let gradients = loss.backward();
        let flat = self.flat.lock().ok().and_then(|mut flat| flat.take());
        let mut flat = flat.unwrap_or_else(|| vec![0.0; self.parameters.count()]);
        for (entry, tensor) in self.parameters.entries().iter().zip(&self.tensors) {
            // What no tensor was made of is in the derivatives that did not go through the tape.
            let Some(tensor) = tensor.get().filter(|_| entry.trained) else { continue };
            if let Some(gradient) = tensor.grad(&gradients) {
                flat[entry.range.clone()].copy_from_slice(&values(gradient));
            }
        }
        let by_input = |input: &&Tensor<2>| {
            let zeros = || vec![0.0; input.dims().iter().product()];
            input.grad(&gradients).map_or_else(zeros, values)
        };
        (flat, inputs.iter().map(by_input).collect())
    }
}

/// The factors of coins from the first on.
struct Toss<'a> {
    coins: &'a Coins,
    first: u32,
    factors: &'a mut [f32],
}

impl Kernel for Toss<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Toss { coins, first, factors } = self;
        let (vectors, rest) = factors.as_chunks_mut::<WIDTH>();
        let last = vectors.len() * WIDTH;
        for (number, factors) in vectors.iter_mut().enumerate() {
            let first = first.wrapping_add((number * WIDTH) as u32);
            // SAFETY: eight numbers.
            unsafe { V::splat(1.0).toss(coins, first).store(factors.as_mut_ptr()) };
        }
        for (number, factor) in rest.iter_mut().enumerate() {
            *factor = coins.factor(first.wrapping_add((last + number) as u32));
        }
    }
}

/// Running statistics after a training pass.
#[derive(Debug)]
pub struct Statistics(Vec<(Param, Vec<f32>)>);

impl Statistics {
    /// Puts them in place.
    pub fn store(self, parameters: &mut Parameters) {
        for (param, values) in self.0 {
            parameters.values_mut(param).copy_from_slice(&values);
        }
    }
}

/// A tensor of one axis.
pub fn vector(values: Vec<f32>, device: &Device) -> Tensor<1> {
    let shape = [values.len()];
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// A tensor of two axes.
pub fn matrix(values: Vec<f32>, shape: [usize; 2], device: &Device) -> Tensor<2> {
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// Positions as a tensor.
pub(super) fn positions(values: Vec<i64>, device: &Device) -> Tensor<1, Int> {
    let shape = [values.len()];
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// The numbers of a tensor, row-major.
pub fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.try_into_vec_as::<f32>().expect("a tensor of real numbers")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::{Builder, Init};

    #[test]
    fn masks_follow_seed_step_and_site() {
        let parameters = Parameters::default();
        let mask = |seed, step, site, rate| {
            Pass::new(&parameters, Mode::Train { seed: Seed(seed), step }, &cpu())
                .mask(site, rate, 10_001)
        };
        let first = mask(0, 0, 0, 0.25).unwrap();
        assert_eq!(first, mask(0, 0, 0, 0.25).unwrap());
        for other in [mask(1, 0, 0, 0.25), mask(0, 1, 0, 0.25), mask(0, 0, 1, 0.25)] {
            assert_ne!(first, other.unwrap());
        }
        let dropped = first.iter().filter(|&&factor| factor == 0.0).count();
        assert!((2300..2700).contains(&dropped), "{dropped} of 10,001");
        assert!(first.iter().all(|&factor| factor == 0.0 || factor == 1.0 / 0.75));
        assert_eq!(mask(0, 0, 0, 0.0), None);
        assert!(mask(0, 0, 0, 1.0).unwrap().iter().all(|&factor| factor == 0.0));
        assert_eq!(Pass::eval(&parameters).mask(0, 0.5, 10), None);
    }

    #[test]
    fn gradients_lie_where_their_parameters_do() {
        let mut builder = Builder::new(Seed(0));
        let a = builder.root().parameter("a", &[2], Init::Constant(3.0));
        builder.root().statistic("s", &[1], 0.0);
        builder.root().parameter("unused", &[1], Init::Constant(1.0));
        let b = builder.root().parameter("b", &[1, 2], Init::Constant(5.0));
        let parameters = builder.finish();
        let pass = Pass::train(&parameters, Seed(0), 0);
        let product = pass.param::<2>(b).reshape([2]) * pass.param::<1>(a);
        let gradients = pass.gradients(&product.sum());
        assert_eq!(gradients, [5.0, 5.0, 0.0, 3.0, 3.0]);
    }
}
