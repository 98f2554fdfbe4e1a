//! What the C library does with memory that is given back.
//!
//! By default it returns arrays of a few megabytes to the system at once. A training step takes and gives back dozens of
//! them, and the system clears every page again: a tenth of the time of GOAT on PubMed
//! (`perf stat -e page-faults hdse bench step configs/goat-pubmed.toml`: nine times as many page faults).

/// Keeps memory that is given back, for the arrays of the next step: those of the first thread, and of others below
/// 64 MiB. Elsewhere than on Linux with glibc, nothing happens.
pub(super) fn keep_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: numbers are set, which may be done at any time; what is refused stays as it was.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 30);
        libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
        libc::mallopt(libc::M_TOP_PAD, 1 << 26);
    }
}
