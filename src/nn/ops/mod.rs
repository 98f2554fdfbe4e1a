//! Operations of our own: kernels on plain slices with their own derivatives.
//!
//! A kernel is an [`Operation`]: a forward and a backward function on `f32` slices. [`apply`]
//! enters it into burn's tape on the CPU; on any other device it gives the inputs back, and the
//! caller composes the same result of tensor operations. Every kernel has such a composed twin, and
//! tests hold both together. No other file touches burn's backends.

pub mod attention;
pub mod clusters;
pub mod dense;
#[cfg(test)]
mod differences;
pub mod features;
pub mod layer_norm;
pub mod linear_attention;
pub mod messages;
pub mod norm;
pub mod pairs;
pub mod propagate;
pub mod rectify;
pub mod rows;
pub mod samples;
pub mod softplus;

use std::fmt::Debug;
use std::sync::Arc;

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::{Autodiff, Flex};
use burn::tensor::{Tensor, TensorData};
use burn_flex::FlexTensor;

/// From so many rows on it pays to share them out; fewer are worked through in the plainest way.
pub const MANY: usize = 256;

/// Parts that sums over all rows are made of: as many for any number of threads, so that the result is the same.
const PARTS: usize = 8;

/// A differentiable function of `N` matrices to one.
pub trait Operation<const N: usize>: Debug + Send + Sync + 'static {
    /// What the backward function needs besides inputs and output.
    type Saved: Debug + Send + Sync + 'static;
    /// Whether it needs the inputs.
    const KEEPS_INPUTS: bool = true;
    /// Whether it needs the output.
    const KEEPS_OUTPUT: bool = false;

    /// Rows and columns of the output.
    fn shape(&self, inputs: [[usize; 2]; N]) -> [usize; 2];

    /// The output, row-major.
    fn forward(&self, inputs: [&[f32]; N]) -> (Vec<f32>, Self::Saved);

    /// The gradients of the inputs, given that of the output.
    fn backward(&self, kept: Kept<'_, Self::Saved, N>, gradient: &[f32]) -> [Vec<f32>; N];
}

/// What is left of a forward pass for the backward one.
#[derive(Debug)]
pub struct Kept<'a, S, const N: usize> {
    /// The inputs, if the operation keeps them.
    pub inputs: [&'a [f32]; N],
    /// The output, if it keeps that.
    pub output: &'a [f32],
    /// What else it kept.
    pub saved: &'a S,
}

/// Carries out `operation` on the CPU; on other devices, gives back the inputs.
pub fn apply<O: Operation<N>, const N: usize>(
    operation: &Arc<O>,
    inputs: [Tensor<2>; N],
) -> Result<Tensor<2>, [Tensor<2>; N]> {
    let shapes = inputs.each_ref().map(Tensor::dims);
    if inputs.iter().any(|input| input.clone().try_into_primitive::<Autodiff<Flex>>().is_err()) {
        let plain: Option<Vec<FlexTensor>> = inputs
            .iter()
            .map(|input| input.clone().try_into_primitive::<Flex>().ok())
            .map(|tensor| Some(tensor?.to_contiguous()))
            .collect();
        let Some(plain) = plain.and_then(|plain| <[FlexTensor; N]>::try_from(plain).ok()) else {
            return Err(inputs);
        };
        let (output, _) = operation.forward(plain.each_ref().map(slice));
        return Ok(Tensor::from_primitive::<Flex>(flex(output, operation.shape(shapes))));
    }
    let mut nodes = Vec::with_capacity(N);
    let tensors = inputs.map(|input| {
        let tensor = input.try_into_primitive::<Autodiff<Flex>>().expect("checked above");
        let (tensor, node) = tensor.into_parts();
        nodes.push(node);
        tensor.to_contiguous()
    });
    let nodes = <[_; N]>::try_from(nodes).unwrap_or_else(|_| unreachable!("one node per input"));
    let (output, saved) = operation.forward(tensors.each_ref().map(slice));
    let output = flex(output, operation.shape(shapes));
    let step = Step::<O, N>(std::marker::PhantomData);
    let output = match step.prepare::<NoCheckpointing>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => {
            let state = State {
                operation: operation.clone(),
                tensors: O::KEEPS_INPUTS.then_some(tensors),
                output: O::KEEPS_OUTPUT.then(|| output.clone()),
                shapes,
                saved: saved.into(),
            };
            prepared.finish(state, output)
        }
        OpsKind::UnTracked(prepared) => prepared.finish(output),
    };
    Ok(Tensor::from_primitive::<Autodiff<Flex>>(output))
}

/// Whether a tensor is where our kernels run.
pub fn has_kernels(tensor: &Tensor<2>) -> bool {
    let tensor = || tensor.clone();
    tensor().try_into_primitive::<Autodiff<Flex>>().is_ok()
        || tensor().try_into_primitive::<Flex>().is_ok()
}

fn slice(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice::<f32>().expect("a contiguous tensor of f32")
}

fn flex(values: Vec<f32>, shape: [usize; 2]) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, shape))
}

/// The step of the tape that an operation is.
struct Step<O, const N: usize>(std::marker::PhantomData<O>);

impl<O, const N: usize> Debug for Step<O, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(std::any::type_name::<O>())
    }
}

/// What a step keeps for its backward pass.
#[derive(Debug)]
struct State<O: Operation<N>, const N: usize> {
    operation: Arc<O>,
    tensors: Option<[FlexTensor; N]>,
    output: Option<FlexTensor>,
    shapes: [[usize; 2]; N],
    saved: Arc<O::Saved>,
}

impl<O: Operation<N>, const N: usize> Clone for State<O, N> {
    fn clone(&self) -> Self {
        State {
            operation: self.operation.clone(),
            tensors: self.tensors.clone(),
            output: self.output.clone(),
            shapes: self.shapes,
            saved: self.saved.clone(),
        }
    }
}

impl<O: Operation<N>, const N: usize> Backward<Flex, N> for Step<O, N> {
    type State = State<O, N>;

    fn backward(self, ops: Ops<Self::State, N>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = gradients.consume::<Flex>(&ops.node).to_contiguous();
        let State { operation, tensors, output, shapes, saved } = ops.state;
        let inputs = tensors.as_ref().map_or([&[][..]; N], |tensors| tensors.each_ref().map(slice));
        let output = output.as_ref().map_or(&[][..], slice);
        let kept = Kept { inputs, output, saved: &*saved };
        let found = operation.backward(kept, slice(&gradient));
        for ((parent, values), shape) in ops.parents.into_iter().zip(found).zip(shapes) {
            if let Some(parent) = parent {
                gradients.register::<Flex>(parent.id, flex(values, shape));
            }
        }
    }
}
