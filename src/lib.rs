#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! | module | what it holds |
//! |---|---|
//! | [`graph`] | [`Graph`]: undirected, simple, compressed sparse rows |
//! | [`partition`] | [`Partition`]: the cluster of every node, and how good it is |
//! | [`coarsen`] | algorithms that make partitions; [`coarsen::ALL`] lists them |
//! | [`hierarchy`] | [`Hierarchy`]: coarsen, contract, repeat |
//! | [`distance`] | distances at every level, codes, high-level distances |
//! | [`encoding`] | node encodings: random walks, Laplacian eigenvectors, degrees |
//! | [`encode`] | the pipeline from graphs to distances, for whole sets |
//! | [`expressive`] | which graphs distances can tell apart |
#![cfg_attr(feature = "train", doc = "| [`config`] | one experiment |")]
#![cfg_attr(feature = "train", doc = "| [`experiments`] | those of the paper, with its numbers |")]
//! | [`data`] | samples, file formats, data sets, encoded sets on disk |
#![cfg_attr(feature = "train", doc = "| [`nn`] | graph transformers and their parts |")]
#![cfg_attr(feature = "train", doc = "| [`report`] | what runs came to: tables, tests, curves |")]
#![cfg_attr(feature = "train", doc = "| [`train`] | losses, metrics, optimisers, learning rates |")]
//! | [`rng`], [`memory`], [`monitor`], [`error`] | seeds, limits, progress, errors |

mod buffer;
pub mod coarsen;
pub mod data;
pub mod distance;
pub mod encode;
pub mod encoding;
pub mod error;
pub mod expressive;
pub mod graph;
pub mod hierarchy;
pub mod memory;
pub mod monitor;
pub mod partition;
pub mod rng;
#[cfg_attr(not(feature = "train"), allow(dead_code, reason = "models use most of it"))]
mod simd;
mod spectrum;
#[cfg_attr(not(feature = "cli"), allow(dead_code, reason = "the command prints most"))]
mod text;

#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "train")]
pub mod config;
#[cfg(feature = "train")]
pub mod experiments;
#[cfg(feature = "train")]
pub mod nn;
#[cfg(feature = "train")]
pub mod report;
#[cfg(feature = "train")]
pub mod train;

pub use error::{Error, Result};
pub use graph::Graph;
pub use hierarchy::Hierarchy;
pub use memory::MemoryLimit;
pub use partition::Partition;
