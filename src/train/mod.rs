//! What training needs besides a model: how wrong it is, how to change it, how fast.
//!
//! But for the losses and the records of a run, everything is plain arithmetic on slices. A model's parameters
//! are one flat array, so an optimiser is a pass over it and a checkpoint is a step count and a few arrays of
//! the same length. No result depends on threads.
//!
//! | module | what it holds |
//! |---|---|
//! | [`loss`] | [`Loss`]: what training makes small |
//! | [`metrics`] | [`Metric`]: what a table reports; results per class and task |
//! | [`optimizer`] | [`Optimizer`]: AdamW, Adam and SGD, with a state that can be saved |
//! | [`clip`] | [`clip_norm`]: a limit to the length of the gradient |
//! | [`run`] | the training loop |
//! | [`fit`] | whether model, loss and metric fit the data |
//! | [`examples`], [`nodes`] | graphs made ready for it, or nodes of one graph |
//! | [`checkpoint`], [`keeper`], [`directory`] | what it leaves behind, and goes on from |
//! | [`swap`] | classes without names |
//! | [`schedule`] | [`Schedule`]: the learning rate of every step |
//! | [`tensorboard`] | [`EventWriter`]: curves for TensorBoard |
//! | [`environment`] | [`Environment`]: where and how a run was made |
//!
//! ```
//! use hdse::train::{Optimizer, OptimizerConfig, Schedule, clip_norm};
//! // The minimum of (x - 3)² / 2, whose gradient is x - 3.
//! let schedule = Schedule::Cosine { rate: 0.5, warmup: 5, total: 100 };
//! let mut optimizer = Optimizer::new(OptimizerConfig::named("adamw")?, 1)?;
//! let mut x = [0.0];
//! for step in 0..100 {
//!     let mut gradient = [x[0] - 3.0];
//!     assert!(clip_norm(&mut gradient, 1.0).is_finite());
//!     optimizer.step(schedule.rate(step), &mut x, &gradient)?;
//! }
//! assert!((x[0] - 3.0).abs() < 0.05);
//! # Ok::<(), hdse::Error>(())
//! ```

pub mod checkpoint;
pub mod clip;
pub mod clock;
pub mod core_neighbourhood;
pub mod directory;
pub mod environment;
pub mod examples;
pub mod fit;
pub mod keeper;
pub mod loss;
pub mod metrics;
pub mod nodes;
pub mod optimizer;
pub mod pace;
pub mod record;
pub mod run;
pub mod schedule;
pub mod swap;
pub mod tensorboard;

pub use clip::clip_norm;
pub use environment::Environment;
pub use loss::Loss;
pub use metrics::{Metric, Targets};
pub use optimizer::{Optimizer, OptimizerConfig, OptimizerState};
pub use schedule::Schedule;
pub use tensorboard::EventWriter;
