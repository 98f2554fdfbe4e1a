//! The learning rate of every step.
//!
//! A schedule is a pure function of the step, so a resumed run needs nothing but its step count. With base
//! rate η, warm-up W and total E, at step s = 0, 1, …:
//!
//! | name | a step is | warm-up, s < W | then |
//! |---|---|---|---|
//! | `constant` | anything | | η |
//! | `cosine` | an epoch | η · max(10⁻⁶, s/W) | η · ½(1 + cos(π (s − W)/(E − W))), 0 from E on (Loshchilov & Hutter, ICLR 2017) |
//! | `inverse-square-root` | an iteration | from `start` in a line to η | η · √(W/s) (Vaswani et al., NeurIPS 2017) |
//! | `linear` | an iteration | η · s/W | from η in a line to `end`, which stays from E on |
//!
//! Without warm-up (W = 0) all begin at η; `inverse-square-root` then falls as if W were 1. With E = W the end
//! follows warm-up at once. The cosine is computed here, by additions and multiplications alone, because that
//! of the standard library differs between machines.
//!
//! ```
//! use hdse::train::Schedule;
//! let schedule = Schedule::Cosine { rate: 1e-3, warmup: 5, total: 100 };
//! assert_eq!(schedule.rate(5), 1e-3);
//! assert_eq!(schedule.rate(100), 0.0);
//! let shorter = schedule.scaled(20);
//! assert_eq!(shorter, Schedule::Cosine { rate: 1e-3, warmup: 1, total: 20 });
//! ```

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// How the learning rate changes; in configuration
/// `{"name": "cosine", "rate": 1e-3, "warmup": 5, "total": 100}`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Schedule {
    /// Always the same.
    Constant {
        /// The rate.
        rate: f64,
    },
    /// Half a cosine wave from the rate to 0.
    Cosine {
        /// The largest rate.
        rate: f64,
        /// Steps until then.
        #[serde(default)]
        warmup: u64,
        /// Steps until 0.
        total: u64,
    },
    /// Falling with the root of the step, without end.
    InverseSquareRoot {
        /// The largest rate.
        rate: f64,
        /// Steps until then.
        #[serde(default)]
        warmup: u64,
        /// The rate at step 0, if there is a warm-up.
        #[serde(default = "default_start")]
        start: f64,
        /// Steps of the whole run, where known: only [`Schedule::scaled`] asks.
        #[serde(default)]
        total: Option<u64>,
    },
    /// A line down.
    Linear {
        /// The largest rate.
        rate: f64,
        /// Steps until then.
        #[serde(default)]
        warmup: u64,
        /// Steps until the last rate.
        total: u64,
        /// The last rate.
        #[serde(default)]
        end: f64,
    },
}

fn default_start() -> f64 {
    1e-6
}

impl Schedule {
    /// The names to choose from.
    pub const NAMES: [&'static str; 4] = ["constant", "cosine", "inverse-square-root", "linear"];

    /// The learning rate at `step`, counted from 0.
    pub fn rate(&self, step: u64) -> f64 {
        match *self {
            Schedule::Constant { rate } => rate,
            Schedule::Cosine { total, .. } if step >= total => 0.0,
            Schedule::Cosine { rate, warmup, .. } if step < warmup => {
                rate * share(step, warmup).max(1e-6)
            }
            Schedule::Cosine { rate, warmup, total } => {
                rate * (0.5 * (1.0 + cosine(share(step - warmup, total - warmup))))
            }
            Schedule::InverseSquareRoot { rate, warmup, start, .. } if step < warmup => {
                start + (rate - start) * share(step, warmup)
            }
            Schedule::InverseSquareRoot { rate, warmup, .. } => {
                rate * share(warmup.max(1), step.max(1)).sqrt()
            }
            Schedule::Linear { total, end, .. } if step >= total => end,
            Schedule::Linear { rate, warmup, .. } if step < warmup => rate * share(step, warmup),
            Schedule::Linear { rate, warmup, total, end } => {
                end + (rate - end) * (1.0 - share(step - warmup, total - warmup))
            }
        }
    }

    /// The same schedule for a run of `new_total` steps: warm-up keeps its share of the run, to the nearest
    /// step. A run of unknown length keeps its warm-up, at most `new_total`.
    pub fn scaled(&self, new_total: u64) -> Schedule {
        let scale = |warmup: u64, total: u64| match total {
            0 => warmup.min(new_total),
            // At most `new_total`, as warm-up is at most the total; the rest is cut off.
            _ => nearest(warmup.min(total), new_total, total),
        };
        let mut schedule = *self;
        match &mut schedule {
            Schedule::Constant { .. } => {}
            Schedule::Cosine { warmup, total, .. } | Schedule::Linear { warmup, total, .. } => {
                *warmup = scale(*warmup, *total);
                *total = new_total;
            }
            Schedule::InverseSquareRoot { warmup, total, .. } => {
                *warmup = scale(*warmup, total.unwrap_or(0));
                *total = Some(new_total);
            }
        }
        schedule
    }

    /// Checks that rates are finite and not negative, and that warm-up is no longer than the run.
    ///
    /// # Errors
    /// If they are not; the message says which.
    pub fn check(&self) -> Result<()> {
        let (rates, warmup, total) = match *self {
            Schedule::Constant { rate } => ([rate, rate], 0, None),
            Schedule::Cosine { rate, warmup, total } => ([rate, rate], warmup, Some(total)),
            Schedule::InverseSquareRoot { rate, warmup, start, total } => {
                ([rate, start], warmup, total)
            }
            Schedule::Linear { rate, warmup, total, end } => ([rate, end], warmup, Some(total)),
        };
        if let Some(rate) = rates.iter().find(|rate| !(0.0..f64::INFINITY).contains(*rate)) {
            return Err(Error::config(format!(
                "`{rate}` is no learning rate of a schedule; expected a number ≥ 0"
            )));
        }
        match total {
            Some(total) if warmup > total => Err(Error::config(format!(
                "a warm-up of {warmup} steps is longer than the run of {total}; lower `warmup` or raise \
                 `total`"
            ))),
            _ => Ok(()),
        }
    }
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

/// `count * numerator / denominator`, rounded half up; for `count` ≤ `denominator`.
fn nearest(count: u64, numerator: u64, denominator: u64) -> u64 {
    let (count, numerator, denominator) =
        (u128::from(count), u128::from(numerator), u128::from(denominator));
    ((count * numerator + denominator / 2) / denominator) as u64
}

/// cos(π x) for x from 0 to 1, within some 10⁻¹⁶.
fn cosine(x: f64) -> f64 {
    use std::f64::consts::PI;
    // Taylor series, good up to π/4: 1 - t²/(1·2) (1 - t²/(3·4) (1 - …)), and likewise for the sine.
    let series = |angle: f64, first: u32| {
        let factors = (0..9).rev().map(|k| f64::from((first + 2 * k) * (first + 2 * k + 1)));
        factors.fold(1.0, |inner, factor| 1.0 - angle * angle / factor * inner)
    };
    if x > 0.5 {
        -cosine(1.0 - x)
    } else if x > 0.25 {
        let angle = PI * (0.5 - x);
        angle * series(angle, 2)
    } else {
        series(PI * x, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(rate: f64, warmup: u64, total: u64) -> [Schedule; 4] {
        [
            Schedule::Constant { rate },
            Schedule::Cosine { rate, warmup, total },
            Schedule::InverseSquareRoot { rate, warmup, start: 1e-6, total: Some(total) },
            Schedule::Linear { rate, warmup, total, end: 1e-9 },
        ]
    }

    #[test]
    fn names_and_keys_are_checked() {
        for (schedule, name) in all(1e-3, 5, 100).into_iter().zip(Schedule::NAMES) {
            let json = serde_json::to_string(&schedule).unwrap();
            assert!(json.contains(&format!("\"name\":\"{name}\"")), "{json}");
            assert_eq!(serde_json::from_str::<Schedule>(&json).unwrap(), schedule);
            let wrong = json.replace("\"rate\"", "\"base\":1,\"rate\"");
            let error = serde_json::from_str::<Schedule>(&wrong).unwrap_err();
            assert!(error.to_string().contains("unknown field `base`"), "{error}");
        }
        let short = r#"{"name": "inverse-square-root", "rate": 0.1}"#;
        let schedule: Schedule = serde_json::from_str(short).unwrap();
        let expected =
            Schedule::InverseSquareRoot { rate: 0.1, warmup: 0, start: 1e-6, total: None };
        assert_eq!(schedule, expected);
    }

    #[test]
    fn the_cosine_is_that_of_the_library() {
        for i in 0..=1000 {
            let x = f64::from(i) / 1000.0;
            assert!((cosine(x) - (std::f64::consts::PI * x).cos()).abs() < 4e-16, "{x}");
        }
        assert_eq!([cosine(0.0), cosine(0.5), cosine(1.0)], [1.0, 0.0, -1.0]);
    }

    proptest! {
        /// The peak is at the end of warm-up, met from both sides, and never exceeded.
        #[test]
        fn warm_up_is_met_continuously(rate in 1e-5..1.0f64, warmup in 1..500u64, more in 1..5000u64) {
            for schedule in all(rate, warmup, warmup + more) {
                prop_assert!((schedule.rate(warmup) - rate).abs() <= 1e-15);
                let step_before = rate - schedule.rate(warmup - 1);
                prop_assert!(step_before <= rate / warmup as f64 + 1e-15);
                for step in 0..warmup + more + 10 {
                    let found = schedule.rate(step);
                    prop_assert!((0.0..=rate * (1.0 + 1e-15)).contains(&found), "{schedule:?}");
                    let rises = schedule.rate(step + 1) >= found;
                    let flat = schedule.rate(step + 1) == found;
                    prop_assert!(flat || rises == (step < warmup), "{schedule:?} at {step}");
                }
            }
        }

        #[test]
        fn scaling_keeps_proportions(warmup in 0..1000u64, more in 0..1000u64, new in 0..5000u64) {
            let total = (warmup + more).max(1);
            for schedule in all(0.1, warmup, total) {
                schedule.check().unwrap();
                let scaled = schedule.scaled(new);
                scaled.check().unwrap();
                prop_assert_eq!(schedule.scaled(total), schedule);
                if let Schedule::Cosine { warmup: found, total: end, .. } = scaled {
                    prop_assert_eq!(end, new);
                    prop_assert!((found as f64 - share(warmup * new, total)).abs() <= 0.5);
                }
            }
        }
    }

    #[test]
    fn edges_are_defined() {
        for schedule in all(0.1, 0, 10) {
            assert_eq!([schedule.rate(0)], [0.1], "{schedule:?} without warm-up");
        }
        let [_, cosine, root, linear] = all(0.1, 10, 10);
        assert_eq!([9, 10, 11].map(|s| cosine.rate(s)), [0.1 * 0.9, 0.0, 0.0]);
        assert_eq!([10, 40].map(|s| root.rate(s)), [0.1, 0.05]);
        assert_eq!([9, 10, 11].map(|s| linear.rate(s)), [0.1 * 0.9, 1e-9, 1e-9]);
        let [_, _, root, _] = all(0.1, 0, 10);
        assert_eq!([0, 1, 4].map(|s| root.rate(s)), [0.1, 0.1, 0.05]);
        for schedule in all(0.1, 0, 0).into_iter().chain(all(0.1, u64::MAX, u64::MAX)) {
            for step in [0, 1, u64::MAX] {
                assert!(schedule.rate(step).is_finite(), "{schedule:?}");
            }
            assert!(schedule.scaled(u64::MAX).check().is_ok());
        }
        let unknown = Schedule::InverseSquareRoot { rate: 0.1, warmup: 9, start: 0.0, total: None };
        assert!(matches!(unknown.scaled(5), Schedule::InverseSquareRoot { warmup: 5, .. }));
        assert!(matches!(unknown.scaled(50), Schedule::InverseSquareRoot { warmup: 9, .. }));
    }

    #[test]
    fn mistakes_are_named() {
        for schedule in all(f64::NAN, 1, 2).into_iter().chain(all(-1.0, 1, 2)) {
            assert!(schedule.check().unwrap_err().to_string().contains("no learning rate"));
        }
        for schedule in &all(0.1, 3, 2)[1..] {
            let error = schedule.check().unwrap_err();
            assert!(error.is_config() && error.to_string().contains("longer than the run of 2"));
        }
    }
}
