//! The distance bias of all layers at once.
//!
//! Every layer maps the same rows, one for each code, to its heads; side by side these maps are one product. The
//! result is turned, so that a head of a layer looks its codes up in a row of its own.

use std::sync::Mutex;

use super::network::Network;
use super::product::{Biased, PANEL, Store};
use super::stack::{UNBROKEN, fit};
use super::weights::{Map, Rows, Run, Slot};
use crate::nn::parameters::Parameters;
use crate::simd::Simd;

/// Maps of all layers, and what they give.
#[derive(Debug, Default)]
pub struct BiasTables {
    map: Map,
    width: usize,
    heads: usize,
    codes: usize,
    /// Rows that are mapped, padded.
    rows: Vec<f32>,
    out: Vec<f32>,
    /// `[layers, heads, codes]`
    tables: Vec<f32>,
    /// For each layer, `[codes, heads]`.
    by_tables: Vec<Mutex<Vec<f64>>>,
}

impl BiasTables {
    /// The maps of a network, without numbers.
    pub fn new(network: &Network, parameters: &Parameters) -> BiasTables {
        let (width, heads) = (network.bias_width, network.heads);
        let maps = network.layers.iter().enumerate().filter_map(|(number, layer)| {
            let map = layer.bias.as_ref()?;
            let start = |param| parameters.entry(param).range.start;
            Some(Rows {
                weight: start(map.weight),
                bias: map.bias.map(start),
                count: heads,
                column: number * heads,
            })
        });
        let map = Map::new(width, vec![Run { from: 0, count: width, column: 0 }], maps.collect());
        let by_tables = network.layers.iter().map(|_| Mutex::default()).collect();
        BiasTables { map, width, heads, by_tables, ..BiasTables::default() }
    }

    /// Whether there is a bias.
    fn is_used(&self) -> bool {
        self.width > 0
    }

    /// Takes over the present numbers.
    pub fn pack(&mut self, parameters: &Parameters, training: bool) {
        self.map.pack(parameters.trained(), training);
    }

    /// Computes the bias of all layers for rows `[codes, width]`.
    pub fn forward(&mut self, simd: Simd, rows: &[f32], codes: usize) {
        if !self.is_used() {
            return;
        }
        self.codes = codes;
        let padded = self.width.next_multiple_of(PANEL);
        let own = fit(&mut self.rows, codes * padded);
        for (own, row) in own.chunks_exact_mut(padded).zip(rows.chunks_exact(self.width)) {
            own[..self.width].copy_from_slice(row);
        }
        let columns = self.map.outputs();
        let out = fit(&mut self.out, codes * columns);
        let biased = Biased { out, stride: columns, bias: self.map.bias() };
        self.map.forward(simd, codes, &self.rows, padded, biased);
        let used = self.by_tables.len() * self.heads;
        let tables = fit(&mut self.tables, used * codes);
        for (code, row) in self.out.chunks_exact(columns).take(codes).enumerate() {
            for (column, &bias) in row[..used].iter().enumerate() {
                tables[column * codes + code] = bias;
            }
        }
    }

    /// The bias of a layer, `[heads, codes]`.
    pub fn tables(&self, layer: usize) -> &[f32] {
        let count = self.heads * self.codes;
        &self.tables[layer * count..][..count]
    }

    /// Keeps the derivative by the bias of a layer, `[codes, heads]`.
    pub fn keep(&self, layer: usize, by_bias: Vec<f64>) {
        *self.by_tables[layer].lock().expect(UNBROKEN) = by_bias;
    }

    /// From the derivatives kept, times `factor`, those by the rows, and into `parameters` those by the maps.
    pub fn backward(&mut self, simd: Simd, factor: f64, parameters: &mut [f32]) -> Vec<f32> {
        if !self.is_used() {
            return Vec::new();
        }
        let (codes, heads, columns) = (self.codes, self.heads, self.map.outputs());
        let padded = self.width.next_multiple_of(PANEL);
        let by_out = fit(&mut self.out, codes * columns);
        by_out.fill(0.0);
        for (layer, kept) in self.by_tables.iter_mut().enumerate() {
            let kept = kept.get_mut().expect(UNBROKEN);
            for (row, kept) in by_out.chunks_exact_mut(columns).zip(kept.chunks_exact(heads)) {
                for (by_out, sum) in row[layer * heads..][..heads].iter_mut().zip(kept) {
                    *by_out = (sum * factor) as f32;
                }
            }
        }
        let into = Slot { numbers: parameters, start: 0, add: false };
        self.map.gradient(simd, codes, by_out, &self.rows, padded, into);
        let mut by_rows = vec![0.0; codes * padded];
        self.map.backward(simd, codes, by_out, Store::new(&mut by_rows, padded));
        let mut unpadded = Vec::with_capacity(codes * self.width);
        for row in by_rows.chunks_exact(padded) {
            unpadded.extend_from_slice(&row[..self.width]);
        }
        unpadded
    }
}
