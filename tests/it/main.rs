//! All integration tests, one binary.
#![allow(clippy::unwrap_used, clippy::type_complexity)]

mod bad_input;
#[cfg(all(feature = "cli", feature = "train"))]
mod bench_command;
#[cfg(all(feature = "cli", feature = "parquet"))]
mod cli;
mod conformance;
mod distance;
mod encoding;
mod expressive;
#[cfg(all(feature = "cli", feature = "parquet", feature = "fetch"))]
mod fetch;
mod golden;
#[cfg(all(feature = "cli", feature = "train"))]
mod mistakes;
#[cfg(feature = "train")]
mod models;
mod mutations;
#[cfg(all(feature = "cli", feature = "train"))]
mod node_command;
#[cfg(feature = "train")]
mod node_training;
mod nodes;
mod quality;
#[cfg(feature = "parquet")]
mod real_data;
#[cfg(all(feature = "parquet", feature = "train"))]
mod real_models;
mod relabelling;
#[cfg(all(feature = "cli", feature = "train"))]
mod report;
#[cfg(all(feature = "cli", feature = "train"))]
mod reproduce;
mod round_trip;
mod sets;
#[cfg(all(feature = "cli", feature = "parquet"))]
mod store;
mod support;
#[cfg(feature = "train")]
mod tensorboard;
#[cfg(all(feature = "cli", feature = "train"))]
mod train_command;
#[cfg(feature = "train")]
mod training;
