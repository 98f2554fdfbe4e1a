//! Every kernel against its formula in double precision, and its derivatives against finite differences of that;
//! with all sorts of instructions that this processor has.

use super::attention::{self, Heads};
use super::gated_gcn::{self, Derivatives, EdgeGate, MAPS, Results};
use super::gine;
use super::lanes::{GROUPS, Lane, Lanes};
use super::norm::{self, Exchange, Statistics};
use super::product::Tosses;
use crate::data::Edges;
use crate::nn::batch::Structure;
use crate::rng::{Seed, Stream};
use crate::simd::{Kernel, Simd, Vector, WIDTH, padded};

fn numbers(count: usize, key: u64) -> Vec<f32> {
    let mut stream = Seed(key).stream("fused", 0, 0);
    (0..count).map(|_| 2.0 * stream.unit() as f32 - 1.0).collect()
}

/// Graphs of these sizes with random arcs, and codes below `codes`.
fn structure(sizes: &[usize], codes: u64) -> Structure {
    let mut stream = Seed(7).stream("graphs", 0, 0);
    let (mut edges, mut start) = (Edges::default(), 0u64);
    for &size in sizes {
        for _ in 0..size * 2 {
            let node = |stream: &mut Stream| (start + stream.below(size as u64)) as u32;
            edges.sources.push(node(&mut stream));
            edges.targets.push(node(&mut stream));
        }
        start += size as u64;
    }
    let pairs: usize = sizes.iter().map(|size| size * size).sum();
    Structure::new(sizes, &edges, Some((0..pairs).map(|_| stream.below(codes) as u32).collect()))
}

/// Compares derivatives by some of the inputs with central differences of `loss`.
fn check_derivatives(loss: impl Fn(&[f64]) -> f64, at: &[f32], found: &[f32], what: &str) {
    let at: Vec<f64> = at.iter().map(|&x| f64::from(x)).collect();
    assert_eq!(at.len(), found.len(), "{what}");
    for i in (0..at.len()).step_by(1 + at.len() / 60) {
        let moved = |by: f64| {
            let mut moved = at.clone();
            moved[i] += by;
            loss(&moved)
        };
        let expected = (moved(1e-5) - moved(-1e-5)) / 2e-5;
        let apart = (f64::from(found[i]) - expected).abs();
        assert!(apart <= 1e-4 * (1.0 + expected.abs()), "{what}[{i}]: {} {expected}", found[i]);
    }
}

fn assert_close(found: &[f32], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((f64::from(*a) - b).abs() <= 2e-5 * (1.0 + b.abs()), "{what}[{i}]: {a} {b}");
    }
}

/// Weights of a loss that is their sum with outputs.
fn dot(weights: &[f32], outputs: &[f64]) -> f64 {
    weights.iter().zip(outputs).map(|(&w, y)| f64::from(w) * y).sum()
}

struct Functions<'a> {
    x: &'a [f32; WIDTH],
    out: &'a mut [[f32; WIDTH]; 5],
}

impl Kernel for Functions<'_> {
    unsafe fn run<V: Vector>(self) {
        unsafe {
            let x = V::load(self.x.as_ptr());
            let coins = Seed(3).coins("test", 0, 0, 0.3);
            x.exp().store(self.out[0].as_mut_ptr());
            x.sigmoid().store(self.out[1].as_mut_ptr());
            V::splat(1.0).toss(&coins, u32::MAX - 3).store(self.out[2].as_mut_ptr());
            self.out[3][..2].copy_from_slice(&[x.sum(), x.largest()]);
            let rows = std::array::from_fn(|r| x.mul(V::splat(r as f32)));
            V::transpose(rows)[5].store(self.out[4].as_mut_ptr());
        }
    }
}

#[test]
fn vectors_do_what_numbers_do() {
    for simd in Simd::all() {
        for scale in [0.01, 1.0, 20.0, 86.0] {
            let x: [f32; WIDTH] = numbers(WIDTH, 1).try_into().unwrap();
            let x = x.map(|x| x * scale);
            let mut out = [[0.0; WIDTH]; 5];
            simd.run(Functions { x: &x, out: &mut out });
            let coins = Seed(3).coins("test", 0, 0, 0.3);
            for (i, &number) in x.iter().enumerate() {
                let exact = f64::from(number).exp();
                assert!((f64::from(out[0][i]) / exact - 1.0).abs() < 3e-7, "exp({number})");
                let exact = 1.0 / (1.0 + (-f64::from(number)).exp());
                assert!((f64::from(out[1][i]) - exact).abs() < 3e-7, "sigmoid({number})");
                assert_eq!(out[2][i], coins.factor((u32::MAX - 3).wrapping_add(i as u32)));
                assert_eq!(out[4][i], x[5] * i as f32);
            }
            assert!((out[3][0] - x.iter().sum::<f32>()).abs() < 1e-5 * scale);
            assert_eq!(out[3][1], x.iter().copied().fold(f32::MIN, f32::max));
        }
        let extremes = [f32::NEG_INFINITY, -1e30, -87.5, 0.0, 88.0, -0.0, 1e-30, -86.9];
        let mut out = [[0.0; WIDTH]; 5];
        simd.run(Functions { x: &extremes, out: &mut out });
        assert_eq!(out[0][..4], [0.0, 0.0, 0.0, 1.0]);
        assert!(out[0].iter().all(|e| e.is_finite()));
        let mut out = [[0.0; WIDTH]; 5];
        simd.run(Functions { x: &[f32::NAN; WIDTH], out: &mut out });
        assert!(out[0].iter().all(|e| e.is_nan()), "what is no number stays none");
    }
}

#[test]
fn lanes_have_every_node_and_arc_once() {
    for sizes in [vec![1], vec![3, 1, 9], vec![20; 40], (1..60).collect(), vec![400, 1, 1, 900]] {
        let structure = structure(&sizes, 5);
        let lanes = Lanes::new(&structure);
        assert!(lanes.groups() <= GROUPS && lanes.all().iter().all(|lane| lane.rows() > 0));
        let (mut nodes, mut arcs) = (Vec::<u32>::new(), Vec::<u32>::new());
        for lane in lanes.all() {
            nodes.extend(&lane.nodes);
            arcs.extend(&lane.arcs);
            for span in &lane.spans.graphs {
                for row in span.rows.clone() {
                    for arc in lane.entering(row) {
                        let batch_arc = lane.arcs[arc] as usize;
                        let ends = [&structure.by_source, &structure.by_target];
                        let [source, target] = ends.map(|groups| groups.of_row()[batch_arc]);
                        assert_eq!(lane.nodes[lane.sources[arc] as usize], source);
                        assert_eq!((lane.nodes[row], lane.targets[arc]), (target, row as u32));
                        assert!(span.rows.contains(&(lane.sources[arc] as usize)));
                    }
                    let leaving = lane.leaving(row).iter();
                    assert!(leaving.clone().all(|&arc| lane.sources[arc as usize] == row as u32));
                }
                let codes = &structure.pairs.codes().unwrap()[span.batch_pairs..];
                for (i, code) in codes.iter().enumerate().take(span.size().pow(2)) {
                    let (row, column) = (i / span.size(), i % span.size());
                    assert_eq!(lane.spans.codes[span.pairs + row * span.stride() + column], *code);
                }
            }
            let all: usize = (0..lane.rows()).map(|row| lane.leaving(row).len()).sum();
            assert_eq!(all, lane.num_arcs());
        }
        nodes.sort_unstable();
        arcs.sort_unstable();
        assert!(nodes.iter().copied().eq(0..sizes.iter().sum::<usize>() as u32));
        assert!(arcs.iter().copied().eq(0..structure.by_source.of_row().len() as u32));
        for threads in [1, 2, 3, 20] {
            let mut shared = lanes.shares(threads).concat();
            shared.sort_unstable();
            assert!(shared.into_iter().eq(0..lanes.all().len()));
        }
    }
}

/// The formula of attention; one coin for each pair, head by head.
fn attend(
    lane: &Lane,
    heads: Heads,
    packed: &[f64],
    table: &[f64],
    factor: impl Fn(u32) -> f64,
) -> Vec<f64> {
    let codes = table.len() / heads.count;
    let mut out = vec![0.0; lane.rows() * heads.out_stride];
    for span in &lane.spans.graphs {
        for head in 0..heads.count {
            let size = span.size();
            let at = |part: usize, row: usize, c: usize| {
                let column = (part * heads.count + head) * heads.padded() + c;
                packed[(span.rows.start + row) * heads.stride + column]
            };
            let first = span.batch_pairs * heads.count + head * size * size;
            for i in 0..size {
                let score = |j: usize| {
                    let products = (0..heads.width).map(|c| at(0, i, c) * at(1, j, c));
                    let code = lane.spans.codes[span.pairs + i * span.stride() + j] as usize;
                    products.sum::<f64>() / (heads.width as f64).sqrt() + table[head * codes + code]
                };
                let powers: Vec<f64> = (0..size).map(|j| score(j).exp()).collect();
                let sum: f64 = powers.iter().sum();
                for (j, power) in powers.iter().enumerate() {
                    let weight = power / sum * factor((first + i * size + j) as u32);
                    for c in 0..heads.width {
                        let row = (span.rows.start + i) * heads.out_stride;
                        out[row + head * heads.padded() + c] += weight * at(2, j, c);
                    }
                }
            }
        }
    }
    out
}

#[test]
fn attention_is_its_formula() {
    for simd in Simd::all() {
        for (count, width) in [(4, 16), (2, 13), (5, 6), (1, 24)] {
            for coins in [None, Some(Seed(1).coins("dropout", 0, 0, 0.4))] {
                let all = count * padded(width);
                let stride = (3 * all).next_multiple_of(16);
                let heads = Heads { count, width, stride, out_stride: all.next_multiple_of(16) };
                let structure = structure(&[1, 9, 16, 3], 7);
                let lanes = Lanes::new(&structure);
                let lane = lanes.all().iter().max_by_key(|lane| lane.rows()).unwrap();
                let mut packed = numbers(lane.rows() * stride, 2);
                // Columns between heads are zero.
                for (i, number) in packed.iter_mut().enumerate() {
                    let column = i % stride;
                    if column >= 3 * all || column % padded(width) >= width {
                        *number = 0.0;
                    }
                }
                let table = numbers(7 * count, 3);
                let mut weights = vec![9.0; lane.pairs() * count];
                let mut mixed = vec![0.0; lane.rows() * heads.out_stride];
                let mut scratch = attention::Scratch::default();
                let bias = Some((&table[..], 7));
                let drop = coins.as_ref();
                let forward = attention::forward;
                forward(
                    simd,
                    heads,
                    &lane.spans,
                    &packed,
                    bias,
                    drop,
                    &mut weights,
                    &mut mixed,
                    &mut scratch,
                );
                let factor = |i| coins.map_or(1.0, |coins| f64::from(coins.factor(i)));
                let double =
                    |numbers: &[f32]| -> Vec<f64> { numbers.iter().map(|&x| x.into()).collect() };
                let expected = attend(lane, heads, &double(&packed), &double(&table), factor);
                assert_close(&mixed, &expected, "mixed");

                let by_mixed: Vec<f32> = numbers(mixed.len(), 4);
                let mut by_packed = vec![0.0; packed.len()];
                let mut by_bias = vec![0.0; table.len()];
                attention::backward(
                    simd,
                    heads,
                    &lane.spans,
                    &packed,
                    &weights,
                    &by_mixed,
                    drop,
                    &mut by_packed,
                    Some(&mut by_bias),
                    &mut scratch,
                );
                let by_packed: Vec<f32> = by_packed
                    .iter()
                    .zip(&packed)
                    .map(|(&d, &x)| if x == 0.0 { 0.0 } else { d })
                    .collect();
                let loss = |packed: &[f64]| {
                    dot(&by_mixed, &attend(lane, heads, packed, &double(&table), factor))
                };
                check_derivatives(loss, &packed, &by_packed, "packed");
                // Kept as [codes, heads], times √w.
                let by_table: Vec<f32> = (0..table.len())
                    .map(|i| (by_bias[i % 7 * count + i / 7] * (width as f64).sqrt()) as f32)
                    .collect();
                let loss = |table: &[f64]| {
                    dot(&by_mixed, &attend(lane, heads, &double(&packed), table, factor))
                };
                check_derivatives(loss, &table, &by_table, "table");
            }
        }
    }
}

#[test]
fn gine_is_its_formula() {
    let structure = structure(&[5, 1, 12], 2);
    let lanes = Lanes::new(&structure);
    let width = 16;
    for (simd, lane) in Simd::all().flat_map(|simd| lanes.all().iter().map(move |l| (simd, l))) {
        let (nodes, arcs) = (lane.rows() * width, lane.num_arcs() * width);
        let formula = |inputs: &[f64]| {
            let (x, e) = inputs.split_at(nodes);
            let mut z = x.to_vec();
            for arc in 0..lane.num_arcs() {
                let [source, target] =
                    [lane.sources[arc], lane.targets[arc]].map(|row| row as usize * width);
                for c in 0..width {
                    z[target + c] += (x[source + c] + e[arc * width + c]).max(0.0);
                }
            }
            z
        };
        let inputs = numbers(nodes + arcs, 5);
        let (x, e) = inputs.split_at(nodes);
        let mut z = vec![0.0; nodes];
        gine::forward(simd, lane, width, [x, e], &mut z);
        let double: Vec<f64> = inputs.iter().map(|&x| x.into()).collect();
        assert_close(&z, &formula(&double), "z");
        let dz = numbers(nodes, 6);
        let mut found = vec![0.0; nodes + arcs];
        let (dx, de) = found.split_at_mut(nodes);
        gine::backward(simd, lane, width, [x, e, &dz], [dx, de]);
        check_derivatives(|inputs| dot(&dz, &formula(inputs)), &inputs, &found, "x and e");
    }
}

#[test]
fn gated_gcn_is_its_formula() {
    let structure = structure(&[6, 1, 11], 2);
    let lanes = Lanes::new(&structure);
    let width = 16;
    for (simd, lane) in Simd::all().flat_map(|simd| lanes.all().iter().map(move |l| (simd, l))) {
        let (nodes, arcs) = (lane.rows() * width, lane.num_arcs() * width);
        // Maps of nodes, maps of arcs, edge gate → updates, then gates of arcs.
        let formula = |inputs: &[f64], gated: bool| {
            let (maps, rest) = inputs.split_at(MAPS * nodes);
            let (c, gate) = rest.split_at(arcs);
            let map = |which: usize, row: u32, column: usize| {
                maps[(row as usize * MAPS + which) * width + column]
            };
            let mut sums = vec![[1e-6, 0.0]; nodes];
            let mut gates = vec![0.0; arcs];
            for arc in 0..lane.num_arcs() {
                let (source, target) = (lane.sources[arc], lane.targets[arc]);
                for column in 0..width {
                    let g =
                        map(2, target, column) + map(3, source, column) + c[arc * width + column];
                    gates[arc * width + column] = g;
                    let weight = 1.0 / (1.0 + (-g).exp()) * if gated { gate[arc] } else { 1.0 };
                    let sums = &mut sums[target as usize * width + column];
                    *sums = [sums[0] + weight, sums[1] + weight * map(1, source, column)];
                }
            }
            let update = |(i, [weights, values]): (usize, &[f64; 2])| {
                map(0, (i / width) as u32, i % width) + values / weights
            };
            sums.iter().enumerate().map(update).chain(gates).collect::<Vec<f64>>()
        };
        for gated in [false, true] {
            let mut inputs = numbers(MAPS * nodes + arcs + lane.num_arcs(), 8);
            inputs[MAPS * nodes + arcs..]
                .iter_mut()
                .for_each(|gate| *gate = 0.5 + gate.abs() / 2.0);
            let (maps, rest) = inputs.split_at(MAPS * nodes);
            let (c, gate) = rest.split_at(arcs);
            let gate = gated.then_some(gate);
            let mut gates = c.to_vec();
            let mut kept = [vec![0.0; nodes], vec![0.0; nodes], vec![0.0; nodes]];
            let [inverse, received, update] = &mut kept;
            let results = Results { gates: &mut gates, inverse, received, update };
            gated_gcn::forward(simd, lane, width, maps, gate, results);
            let double: Vec<f64> = inputs.iter().map(|&x| x.into()).collect();
            let outputs = [&kept[2][..], &gates].concat();
            assert_close(&outputs, &formula(&double, gated), "update and gates");

            let weights = numbers(nodes + arcs, 9);
            let (by_update, by_gates) = weights.split_at(nodes);
            let mut all_by_gates = by_gates.to_vec();
            let mut by_maps = vec![0.0; MAPS * nodes];
            let mut by_gate = vec![7.0; lane.num_arcs()];
            let of = gated_gcn::Kept {
                maps,
                gate,
                gates: &gates,
                inverse: &kept[0],
                received: &kept[1],
            };
            let by = gated.then_some(&mut by_gate[..]);
            let into = Derivatives { gates: &mut all_by_gates, maps: &mut by_maps, gate: by };
            gated_gcn::backward(simd, lane, width, of, by_update, into);
            if !gated {
                by_gate.fill(0.0);
            }
            let found = [&by_maps[..], &all_by_gates, &by_gate].concat();
            let loss = |inputs: &[f64]| dot(&weights, &formula(inputs, gated));
            check_derivatives(loss, &inputs, &found, "maps, arcs, gate");
        }
    }
}

#[test]
fn the_edge_gate_is_its_formula() {
    let (width, arcs) = (5, 12);
    let inputs: Vec<f32> = numbers(3 * width + 1 + arcs, 10);
    let formula = |inputs: &[f64]| -> Vec<f64> {
        let gate = |q: &f64| {
            let hidden = (0..width)
                .map(|c| (inputs[c] * q + inputs[width + c]).max(0.0) * inputs[2 * width + c]);
            1.0 / (1.0 + (-(hidden.sum::<f64>() + inputs[3 * width])).exp())
        };
        inputs[3 * width + 1..].iter().map(gate).collect()
    };
    let (parameters, distances) = inputs.split_at(3 * width + 1);
    let gate = EdgeGate {
        first: &parameters[..width],
        first_bias: &parameters[width..2 * width],
        second: &parameters[2 * width..3 * width],
        second_bias: parameters[3 * width],
    };
    let mut found = vec![0.0; arcs];
    gate.forward(distances, &mut found);
    let double: Vec<f64> = inputs.iter().map(|&x| x.into()).collect();
    assert_close(&found, &formula(&double), "gate");
    let by_gate = numbers(arcs, 11);
    let mut by_distances = vec![0.0; arcs];
    let by = gate.backward(distances, [&found, &by_gate], &mut by_distances);
    let all = [&by[..], &by_distances].concat();
    check_derivatives(|inputs| dot(&by_gate, &formula(inputs)), &inputs, &all, "edge gate");
}

#[test]
fn batch_norm_in_lanes_is_that_of_all_rows() {
    let (width, counts) = (32, [5usize, 1, 0, 40]);
    for simd in Simd::all() {
        for shift in [0.0, 1000.0] {
            let rows: usize = counts.iter().sum();
            let s: Vec<f32> = numbers(rows * width, 12).iter().map(|x| x + shift).collect();
            let [weight, bias] = [numbers(width, 13), numbers(width, 14)];
            let formula = |s: &[f64]| {
                let mut y = vec![0.0; s.len()];
                for c in 0..width {
                    let column = || s.iter().skip(c).step_by(width);
                    let mean = column().sum::<f64>() / rows as f64;
                    let variance = column().map(|x| (x - mean).powi(2)).sum::<f64>() / rows as f64;
                    for (row, x) in column().enumerate() {
                        let normal = (x - mean) / (variance + crate::nn::layers::EPSILON).sqrt();
                        y[row * width + c] = normal * f64::from(weight[c]) + f64::from(bias[c]);
                    }
                }
                y
            };
            let lanes = || {
                counts.iter().enumerate().scan(0, |start, (lane, count)| {
                    *start += count * width;
                    Some((lane, *start - count * width..*start))
                })
            };
            let mut exchange = Exchange::default();
            exchange.resize(counts.len());
            for (lane, range) in lanes().filter(|(_, range)| !range.is_empty()) {
                let rows = &s[range];
                exchange.put(lane, 2 * width, |place| norm::moments(simd, rows, width, place));
            }
            let statistics = Statistics::of_lanes(&exchange, width, &counts);
            let affine = statistics.forward(&weight, &bias);
            let mut y = vec![0.0; s.len()];
            norm::apply(simd, [(&s, &affine)], &mut y);
            let double: Vec<f64> = s.iter().map(|&x| x.into()).collect();
            for (found, expected) in y.iter().zip(formula(&double)) {
                // Of a thousand, some six digits are left.
                let limit = if shift > 0.0 { 1e-3 } else { 1e-5 };
                assert!((f64::from(*found) - expected).abs() < limit, "{found} {expected}");
            }

            let dy = numbers(s.len(), 15);
            let mut exchange = Exchange::default();
            exchange.resize(counts.len());
            for (lane, range) in lanes() {
                let (dy, s) = (&dy[range.clone()], &s[range]);
                exchange.put(lane, 2 * width, |place| {
                    norm::derivative_sums(simd, dy, [(s, &statistics)], place);
                });
            }
            let sums = exchange.sum(2 * width);
            let constants = statistics.backward(&weight, &sums[..width], &sums[width..]);
            let mut ds = vec![0.0; s.len()];
            let coins = Seed(5).coins("dropout", 0, 0, 0.5);
            let firsts: Vec<u32> = (0..rows as u32).map(|row| row * 32).collect();
            let mut dropped = vec![0.0; s.len()];
            let tosses = Tosses { coins: &coins, firsts: &firsts };
            norm::backward(simd, &constants, [&dy, &s], &mut ds, Some((tosses, &mut dropped)));
            for (i, (&ds, &dropped)) in ds.iter().zip(&dropped).enumerate() {
                assert_eq!(ds * coins.factor(i as u32), dropped);
            }
            if shift == 0.0 {
                check_derivatives(|s| dot(&dy, &formula(s)), &s, &ds, "s");
            }
            for c in 0..width {
                let column = ds.iter().skip(c).step_by(width).map(|&ds| f64::from(ds));
                let (sum, size) =
                    column.fold((0.0, 0.0), |(sum, size), d| (sum + d, size + d.abs()));
                assert!(sum.abs() <= 1e-6 * size * (1.0 + f64::from(shift)), "{sum} of {size}");
            }
            let by_weight: Vec<f32> = statistics.by_weight(&sums[width..]).collect();
            for c in 0..width {
                let normal =
                    |i: usize| (f64::from(y[i]) - f64::from(bias[c])) / f64::from(weight[c]);
                let expected: f64 =
                    (0..rows).map(|r| f64::from(dy[r * width + c]) * normal(r * width + c)).sum();
                let limit = if shift > 0.0 { 0.05 } else { 1e-3 };
                assert!(
                    (f64::from(by_weight[c]) - expected).abs() < limit,
                    "{} {expected}",
                    by_weight[c]
                );
            }
        }
    }
}
