//! Memory as an error predicted, not met.
//!
//! Whatever needs memory quadratic in the nodes, or of a size read from a file, asks a
//! [`MemoryLimit`] before it allocates. The refusal names the bytes needed and the ways out.

use crate::{Error, Result};

/// The most bytes one request may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimit(pub u64);

impl Default for MemoryLimit {
    /// 80 % of the memory that is free now.
    fn default() -> Self {
        MemoryLimit(available().saturating_mul(4) / 5)
    }
}

impl MemoryLimit {
    /// No limit at all.
    pub const NONE: MemoryLimit = MemoryLimit(u64::MAX);

    /// Reads `8G`, `512MiB`, `1.5T` or a plain number of bytes; units are powers of 1024.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = || {
            Error::config(format!("`{text}` is not an amount of memory; write 8G, 512M or bytes"))
        };
        let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
        let number: f64 = text[..split].trim().parse().map_err(|_| wrong())?;
        let power = match text[split..].to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 1,
            "m" | "mb" | "mib" => 2,
            "g" | "gb" | "gib" => 3,
            "t" | "tb" | "tib" => 4,
            _ => return Err(wrong()),
        };
        let bytes = number * 1024f64.powi(power);
        if !(bytes >= 1.0 && bytes < u64::MAX as f64) {
            return Err(wrong());
        }
        Ok(MemoryLimit(bytes as u64))
    }

    /// What is left of it beside so many bytes that are kept.
    pub fn beside(self, bytes: u128) -> MemoryLimit {
        MemoryLimit(self.0.saturating_sub(u64::try_from(bytes).unwrap_or(u64::MAX)))
    }

    /// Refuses `bytes` above the limit. `what` says what they are for, `instead` what else to do.
    pub fn check(self, bytes: u128, what: &str, instead: &str) -> Result<()> {
        if bytes <= u128::from(self.0) {
            return Ok(());
        }
        Err(Error::memory(format!(
            "{what} needs {} and the limit is {}; {instead}",
            human(bytes),
            human(u128::from(self.0))
        )))
    }
}

/// Bytes this process may still take: free memory of the machine or of its cgroup, whichever is
/// less. Unlimited where neither can be read.
pub fn available() -> u64 {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find(|l| l.starts_with("MemAvailable:"))?;
        Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
    });
    machine.unwrap_or(u64::MAX).min(cgroup_available().unwrap_or(u64::MAX))
}

/// What the cgroup of this process leaves; page cache that can be dropped counts as free.
fn cgroup_available() -> Option<u64> {
    let limit: u64 = cgroup_file("memory.max")?.trim().parse().ok()?;
    let used: u64 = cgroup_file("memory.current")?.trim().parse().ok()?;
    let droppable = cgroup_file("memory.stat")
        .and_then(|stat| {
            let line = stat.lines().find_map(|line| line.strip_prefix("inactive_file "))?;
            line.trim().parse().ok()
        })
        .unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(droppable)))
}

/// A file of the control group of this process (version 2).
pub(crate) fn cgroup_file(name: &str) -> Option<String> {
    let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    std::fs::read_to_string(format!("/sys/fs/cgroup{}/{name}", path.trim_end_matches('/'))).ok()
}

/// `1536` → "1.5 KiB".
pub fn human(bytes: u128) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_units() {
        assert_eq!(MemoryLimit::parse("1.5G").unwrap().0, 3 << 29);
        assert_eq!(MemoryLimit::parse("512MiB").unwrap().0, 512 << 20);
        assert_eq!(MemoryLimit::parse("100").unwrap().0, 100);
        for wrong in ["", "G", "-1G", "nan", "1X", "0", "1e300T"] {
            assert!(MemoryLimit::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn refuses_with_the_size_needed() {
        let error = MemoryLimit(1024).check(1536, "a table", "use less").unwrap_err();
        assert!(error.is_memory());
        assert_eq!(error.to_string(), "a table needs 1.5 KiB and the limit is 1.0 KiB; use less");
    }

    #[test]
    fn what_is_kept_leaves_less() {
        assert_eq!(MemoryLimit(1024).beside(1000), MemoryLimit(24));
        assert_eq!(MemoryLimit(1024).beside(u128::MAX), MemoryLimit(0));
    }

    #[test]
    fn something_is_available() {
        assert!(available() > 1 << 20);
    }
}
