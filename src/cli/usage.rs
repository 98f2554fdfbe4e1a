//! CPU time and peak memory of this process.

pub(super) struct Usage {
    pub cpu_seconds: f64,
    pub peak_rss_bytes: u64,
    pub current_rss_bytes: u64,
}

/// What the process has used so far; zeros where the system does not tell.
pub(super) fn now() -> Usage {
    #[cfg(unix)]
    {
        let mut raw = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: `getrusage` fills the struct it is given, and all zeros is a valid one.
        let raw = unsafe {
            libc::getrusage(libc::RUSAGE_SELF, raw.as_mut_ptr());
            raw.assume_init()
        };
        let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
        let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
        Usage {
            cpu_seconds: seconds(raw.ru_utime) + seconds(raw.ru_stime),
            peak_rss_bytes: raw.ru_maxrss as u64 * unit,
            current_rss_bytes: current_rss().unwrap_or(0),
        }
    }
    #[cfg(not(unix))]
    Usage { cpu_seconds: 0.0, peak_rss_bytes: 0, current_rss_bytes: 0 }
}

/// Gives free memory back to the system and forgets the peak so far, so that the next one is that of what follows.
/// False where the system can't.
#[cfg(feature = "train")]
pub(super) fn forget_peak() -> bool {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it may be called at any time, from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
    std::fs::write("/proc/self/clear_refs", "5").is_ok()
}

#[cfg(unix)]
fn current_rss() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}
