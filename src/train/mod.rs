//! What training needs besides a model.

pub mod metrics;

pub use metrics::{Metric, Targets};
