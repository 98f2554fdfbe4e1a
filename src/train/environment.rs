//! Where and how a run was made, to be kept with its results.
//!
//! Numbers of a run are the same on every machine, its speed is not; and who reads a result a year later asks for the
//! version, the command and the processor. [`Environment`] is that record, a JSON object. What can't be
//! found out on a machine is `null`; nothing here fails. The clock is not read: the time is an argument.
//!
//! The processor and the memory are those that Linux tells in `/proc`. The commit is known if the
//! build was given it: `HDSE_COMMIT=$(git rev-parse HEAD) cargo build`.
//!
//! Days become dates by counting in cycles of 400 years from a 1 March, so that the leap day is the last of
//! a year and months need no table (the Gregorian calendar as in Richards, Explanatory Supplement to the
//! Astronomical Almanac, 2013, chapter 15).
//!
//! ```
//! use hdse::train::Environment;
//! let arguments = ["hdse".to_string(), "train".to_string()];
//! let environment = Environment::collect(4, &arguments, 1_700_000_000);
//! assert_eq!(environment.started, "2023-11-14T22:13:20Z");
//! assert_eq!((environment.threads, environment.command.len()), (4, 2));
//! let text = serde_json::to_string(&environment).unwrap();
//! assert_eq!(serde_json::from_str::<Environment>(&text).unwrap(), environment);
//! ```

use std::fs;

use serde::{Deserialize, Serialize};

/// What a run was made with. Records of versions that knew less can be read: what they lack is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// Version of this crate.
    pub version: String,
    /// Commit of its source, if the build was told.
    pub commit: Option<String>,
    /// Operating system that it was built for.
    pub os: String,
    /// Processor architecture that it was built for.
    pub arch: String,
    /// Model of the processor.
    pub cpu: Option<String>,
    /// Vector instructions of the processor that fast kernels ask for.
    pub cpu_features: Vec<String>,
    /// Logical cores that the process may use.
    pub cores: Option<usize>,
    /// Threads that the run uses.
    pub threads: usize,
    /// Bytes of memory of the machine, free or not.
    pub memory: Option<u64>,
    /// The command line, program first.
    pub command: Vec<String>,
    /// When the run started, in UTC: `2023-11-14T22:13:20Z`.
    pub started: String,
}

impl Environment {
    /// The environment of this process, which uses `threads` threads, was called with `arguments` and started
    /// `seconds` after 1970.
    pub fn collect(threads: usize, arguments: &[String], seconds: u64) -> Environment {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Environment {
            version: env!("CARGO_PKG_VERSION").to_string(),
            commit: option_env!("HDSE_COMMIT").filter(|c| !c.is_empty()).map(str::to_string),
            os: std::env::consts::OS.to_string(),
            arch: std::env::consts::ARCH.to_string(),
            cpu: cpu_model(&read("/proc/cpuinfo")),
            cpu_features: cpu_features(),
            cores: std::thread::available_parallelism().ok().map(usize::from),
            threads,
            memory: total_memory(&read("/proc/meminfo")),
            command: arguments.to_vec(),
            started: iso_8601(seconds),
        }
    }
}

/// The model of the first processor in `/proc/cpuinfo`; the names are those of Intel and AMD, ARM, and POWER.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    ["model name", "Hardware", "cpu"].iter().find_map(|name| value_of(cpuinfo, name))
}

/// Bytes of memory by `/proc/meminfo`.
fn total_memory(meminfo: &str) -> Option<u64> {
    let text = value_of(meminfo, "MemTotal")?;
    let kibibytes: u64 = text.strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The value of the first line `name : value`, unless it is empty.
fn value_of(text: &str, name: &str) -> Option<String> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(found, value)| found.trim() == name && !value.trim().is_empty())
        .map(|(_, value)| value.trim().to_string())
}

#[cfg(target_arch = "x86_64")]
fn cpu_features() -> Vec<String> {
    [("avx2", is_x86_feature_detected!("avx2")), ("fma", is_x86_feature_detected!("fma"))]
        .into_iter()
        .filter(|(_, found)| *found)
        .map(|(name, _)| name.to_string())
        .collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn cpu_features() -> Vec<String> {
    Vec::new()
}

/// Seconds since 1970 as date and time in UTC, without leap seconds: `1970-01-01T00:00:00Z`.
fn iso_8601(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil_date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month and day, counted from 1, of a number of days since 1 January 1970.
fn civil_date(days: u64) -> (u64, u64, u64) {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    const DAYS_FROM_YEAR_0: u64 = 719_468; // 1 March of year 0 to 1 January 1970
    let days = days + DAYS_FROM_YEAR_0;
    let (cycle, day) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    // Leap days up to this one: each is the last of 1461 days, but most centuries end without one.
    let leap_days = day / 1460 - day / 36_524 + day / (DAYS_OF_400_YEARS - 1);
    let year = (day - leap_days) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // From March on, lengths 31, 30, 31, 30, 31 repeat: 153 days for five months.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let in_next_year = month >= 10; // January and February
    let month = if in_next_year { month - 9 } else { month + 3 };
    (400 * cycle + year + u64::from(in_next_year), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_a_calendar_leafed_through() {
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..900 * 366 {
            assert_eq!(civil_date(days), (year, month, day));
            let is_leap = year % 4 == 0 && year % 100 != 0 || year % 400 == 0;
            let last = match month {
                2 => 28 + u64::from(is_leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > last {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }

    #[test]
    fn times_are_those_of_other_software() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_000_000_000, "2001-09-09T01:46:40Z"),
            (2_147_483_647, "2038-01-19T03:14:07Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(iso_8601(seconds), expected);
        }
        assert!(iso_8601(u64::MAX).ends_with('Z'));
    }

    #[test]
    fn processor_and_memory_are_read_or_unknown() {
        let intel = "processor\t: 0\ncpu family\t: 6\nmodel name\t: A CPU @ 2 GHz: fast\n\nmodel name\t: B\n";
        assert_eq!(cpu_model(intel).as_deref(), Some("A CPU @ 2 GHz: fast"));
        assert_eq!(cpu_model("cpu\t\t: POWER9\n").as_deref(), Some("POWER9"));
        assert_eq!(cpu_model("model name\t:\nBogoMIPS\t: 50.00\n"), None);
        assert_eq!(total_memory("MemFree: 1 kB\nMemTotal:       16 kB\n"), Some(16 << 10));
        for text in ["", "MemTotal:", "MemTotal: 16", "MemTotal: x kB", "MemTotal: -1 kB"] {
            assert_eq!(total_memory(text), None, "{text}");
        }
        assert_eq!(total_memory(&format!("MemTotal: {} kB", u64::MAX)), None);
    }

    #[test]
    fn this_machine_has_an_environment() {
        let environment = Environment::collect(3, &["hdse".into(), "a b".into()], 1);
        assert_eq!(environment.version, env!("CARGO_PKG_VERSION"));
        assert_eq!(environment.command, ["hdse", "a b"]);
        assert!(environment.cores.is_none_or(|cores| cores > 0));
        if cfg!(target_os = "linux") {
            assert!(environment.memory.unwrap() > 1 << 20);
        }
    }

    #[test]
    fn records_of_other_versions_can_be_read() {
        let found: Environment =
            serde_json::from_str(r#"{"version": "0.0.1", "gpu": "none"}"#).unwrap();
        assert_eq!(found, Environment { version: "0.0.1".into(), ..Environment::default() });
    }
}
