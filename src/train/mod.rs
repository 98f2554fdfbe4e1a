//! What training needs besides a model.

pub mod clip;
pub mod metrics;
pub mod optimizer;

pub use clip::clip_norm;
pub use metrics::{Metric, Targets};
pub use optimizer::{Optimizer, OptimizerConfig, OptimizerState};
