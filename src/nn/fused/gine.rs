//! Sums over arcs for GINE: z_i = x_i + Σ_{j→i} relu(x_j + e_ij), and back.
//!
//! Forward runs over the arcs that enter a row, backward over those that leave it; nothing is scattered, and no
//! matrix with a row for each arc is made but the derivative by e, which is added up over layers.

use super::lanes::Lane;
use crate::simd::{Kernel, Simd, Vector, WIDTH};

/// z from x and e, all in rows of `width` numbers.
pub fn forward(simd: Simd, lane: &Lane, width: usize, [x, e]: [&[f32]; 2], z: &mut [f32]) {
    check(lane, width, [x, z], e);
    simd.run(Forward { lane, width, x, e, z });
}

/// Adds to `dx` and `de` what comes through z.
pub fn backward(
    simd: Simd,
    lane: &Lane,
    width: usize,
    [x, e, dz]: [&[f32]; 3],
    [dx, de]: [&mut [f32]; 2],
) {
    check(lane, width, [x, dz], e);
    check(lane, width, [dx, dz], de);
    simd.run(Backward { lane, width, x, e, dz, dx, de });
}

fn check(lane: &Lane, width: usize, nodes: [&[f32]; 2], arcs: &[f32]) {
    assert!(width.is_multiple_of(WIDTH), "whole vectors");
    assert!(nodes.iter().all(|rows| rows.len() >= lane.rows() * width), "a row for each node");
    assert!(arcs.len() >= lane.num_arcs() * width, "a row for each arc");
}

struct Forward<'a> {
    lane: &'a Lane,
    width: usize,
    x: &'a [f32],
    e: &'a [f32],
    z: &'a mut [f32],
}

impl Kernel for Forward<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self { lane, width, x, e, z } = self;
        for row in 0..lane.rows() {
            for column in (0..width).step_by(WIDTH) {
                // SAFETY: sizes are checked, and sources are rows of the lane.
                unsafe {
                    let at =
                        |of: &[f32], row: usize| V::load(of.as_ptr().add(row * width + column));
                    let mut sum = at(x, row);
                    for arc in lane.entering(row) {
                        let source = lane.sources[arc] as usize;
                        sum = sum.add(at(x, source).add(at(e, arc)).max(V::splat(0.0)));
                    }
                    sum.store(z.as_mut_ptr().add(row * width + column));
                }
            }
        }
    }
}

struct Backward<'a> {
    lane: &'a Lane,
    width: usize,
    x: &'a [f32],
    e: &'a [f32],
    dz: &'a [f32],
    dx: &'a mut [f32],
    de: &'a mut [f32],
}

impl Kernel for Backward<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self { lane, width, x, e, dz, dx, de } = self;
        for row in 0..lane.rows() {
            for column in (0..width).step_by(WIDTH) {
                // SAFETY: sizes are checked, and targets are rows of the lane.
                unsafe {
                    let at =
                        |of: &[f32], row: usize| V::load(of.as_ptr().add(row * width + column));
                    let own = at(x, row);
                    let mut sum = at(dx, row).add(at(dz, row));
                    for &arc in lane.leaving(row) {
                        let arc = arc as usize;
                        let target = lane.targets[arc] as usize;
                        let through = at(dz, target).where_positive(own.add(at(e, arc)));
                        sum = sum.add(through);
                        let place = de.as_mut_ptr().add(arc * width + column);
                        V::load(place).add(through).store(place);
                    }
                    sum.store(dx.as_mut_ptr().add(row * width + column));
                }
            }
        }
    }
}
