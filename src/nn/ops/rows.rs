//! Copying rows to where they are needed, and adding them up: the two halves of message passing.
//!
//! With g(r) the group of row r, [`gather`] gives y_r = x_g(r) and [`sum`] gives
//! y_g = Σ_{r: g(r) = g} x_r. Each is the other's derivative. Sums run over the rows of a group in
//! ascending order, which a counting sort provides (compressed sparse rows of the group): no two
//! writers meet, and the result is the same each time.

use std::sync::Arc;

use burn::tensor::{IndexingUpdateOp, Int, Tensor};

use super::{Kept, Operation, apply};
use crate::nn::pass::{Pass, positions};

/// Rows and the groups they belong to.
#[derive(Debug, PartialEq, Eq)]
pub struct Groups {
    of_row: Vec<u32>,
    offsets: Vec<u32>,
    rows: Vec<u32>,
}

impl Groups {
    /// Rows in `count` groups, by the group of every row.
    ///
    /// # Panics
    /// If a group is not below `count`.
    pub fn new(of_row: Vec<u32>, count: usize) -> Arc<Groups> {
        let mut offsets = vec![0u32; count + 1];
        for &group in &of_row {
            offsets[group as usize + 1] += 1;
        }
        for group in 0..count {
            offsets[group + 1] += offsets[group];
        }
        let mut next = offsets.clone();
        let mut rows = vec![0; of_row.len()];
        for (row, &group) in of_row.iter().enumerate() {
            let place = &mut next[group as usize];
            rows[*place as usize] = row as u32;
            *place += 1;
        }
        Arc::new(Groups { of_row, offsets, rows })
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there is no group.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The group of every row.
    pub fn of_row(&self) -> &[u32] {
        &self.of_row
    }

    /// Number of rows of every group.
    pub fn sizes(&self) -> impl Iterator<Item = usize> + '_ {
        self.offsets.windows(2).map(|pair| (pair[1] - pair[0]) as usize)
    }

    /// Number of rows of all groups before one.
    pub fn first(&self, group: usize) -> usize {
        self.offsets[group] as usize
    }

    /// The rows of one group, ascending.
    pub fn rows(&self, group: usize) -> &[u32] {
        &self.rows[self.offsets[group] as usize..self.offsets[group + 1] as usize]
    }

    /// The group of every row, as a tensor.
    fn positions(&self, pass: &Pass) -> Tensor<1, Int> {
        positions(self.of_row.iter().map(|&group| i64::from(group)).collect(), pass.device())
    }

    fn copy(&self, groups: &[f32], width: usize) -> Vec<f32> {
        let mut rows = Vec::with_capacity(self.of_row.len() * width);
        for &group in &self.of_row {
            rows.extend_from_slice(&groups[group as usize * width..][..width]);
        }
        rows
    }

    fn add(&self, rows: &[f32], width: usize) -> Vec<f32> {
        let mut sums = vec![0.0; self.len() * width];
        if width == 0 {
            return sums;
        }
        for (group, sum) in sums.chunks_exact_mut(width).enumerate() {
            for &row in self.rows(group) {
                add(sum, &rows[row as usize * width..][..width]);
            }
        }
        sums
    }
}

#[inline(always)]
pub(super) fn add(sum: &mut [f32], row: &[f32]) {
    sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
}

/// Copies the row of its group to every row: `[groups, width]` → `[rows, width]`.
pub fn gather(pass: &Pass, groups: &Arc<Groups>, tensor: Tensor<2>) -> Tensor<2> {
    let composed = |tensor: Tensor<2>| tensor.select(0, groups.positions(pass));
    if pass.is_composed() {
        return composed(tensor);
    }
    let kernel = Arc::new(Gather { groups: groups.clone(), width: tensor.dims()[1] });
    apply(&kernel, [tensor]).unwrap_or_else(|[tensor]| composed(tensor))
}

/// Adds up the rows of every group: `[rows, width]` → `[groups, width]`.
pub fn sum(pass: &Pass, groups: &Arc<Groups>, tensor: Tensor<2>) -> Tensor<2> {
    let composed = |tensor: Tensor<2>| {
        let zeros = Tensor::zeros([groups.len(), tensor.dims()[1]], pass.device());
        let rows = groups.positions(pass);
        zeros.select_assign(0, rows, tensor, IndexingUpdateOp::Add)
    };
    if pass.is_composed() {
        return composed(tensor);
    }
    let kernel = Arc::new(Sum { groups: groups.clone(), width: tensor.dims()[1] });
    apply(&kernel, [tensor]).unwrap_or_else(|[tensor]| composed(tensor))
}

#[derive(Debug)]
struct Gather {
    groups: Arc<Groups>,
    width: usize,
}

impl Operation<1> for Gather {
    type Saved = ();
    const KEEPS_INPUTS: bool = false;

    fn shape(&self, _: [[usize; 2]; 1]) -> [usize; 2] {
        [self.groups.of_row.len(), self.width]
    }

    fn forward(&self, [groups]: [&[f32]; 1]) -> (Vec<f32>, ()) {
        (self.groups.copy(groups, self.width), ())
    }

    fn backward(&self, _: Kept<'_, (), 1>, gradient: &[f32]) -> [Vec<f32>; 1] {
        [self.groups.add(gradient, self.width)]
    }
}

#[derive(Debug)]
struct Sum {
    groups: Arc<Groups>,
    width: usize,
}

impl Operation<1> for Sum {
    type Saved = ();
    const KEEPS_INPUTS: bool = false;

    fn shape(&self, _: [[usize; 2]; 1]) -> [usize; 2] {
        [self.groups.len(), self.width]
    }

    fn forward(&self, [rows]: [&[f32]; 1]) -> (Vec<f32>, ()) {
        (self.groups.add(rows, self.width), ())
    }

    fn backward(&self, _: Kept<'_, (), 1>, gradient: &[f32]) -> [Vec<f32>; 1] {
        [self.groups.copy(gradient, self.width)]
    }
}

/// The largest row of every group, column by column, 0 for a group without rows:
/// `[rows, width]` → `[groups, width]`. The derivative goes to the first row that is largest.
pub fn max(pass: &Pass, groups: &Arc<Groups>, tensor: Tensor<2>) -> Tensor<2> {
    let [rows, width] = tensor.dims();
    if rows == 0 || width == 0 {
        return Tensor::zeros([groups.len(), width], pass.device());
    }
    let values = crate::nn::pass::values(tensor.clone().detach());
    let mut places = Vec::with_capacity(groups.len() * width);
    let mut filled = Vec::with_capacity(groups.len() * width);
    for group in 0..groups.len() {
        let members = groups.rows(group);
        for column in 0..width {
            let place = |&row: &u32| row as usize * width + column;
            let first = members
                .iter()
                .map(place)
                .reduce(|best, next| if values[next] > values[best] { next } else { best });
            places.push(first.unwrap_or(0) as i64);
            filled.push(f32::from(first.is_some()));
        }
    }
    let picked = tensor.reshape([rows * width]).select(0, positions(places, pass.device()));
    let shape = [groups.len(), width];
    picked.reshape(shape) * crate::nn::pass::matrix(filled, shape, pass.device())
}
