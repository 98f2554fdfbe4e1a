//! `hdse doctor`: what this program and machine are like, for bug reports.

use serde_json::{Value, json};

use super::output::{Output, object};
use crate::Result;
use crate::data::store::Store;
use crate::memory::{available, human};

pub(super) fn run(output: &Output) -> Result<()> {
    let features: Vec<&str> = [("cli", true), ("parquet", cfg!(feature = "parquet"))]
        .into_iter()
        .filter_map(|(name, on)| on.then_some(name))
        .collect();
    let store = Store::of_user().map(|s| s.folder().to_path_buf());
    let free = store
        .as_ref()
        .ok()
        .and_then(|folder| folder.ancestors().find(|path| path.exists()).and_then(free_disk));
    let rows: Vec<(&'static str, Value)> = vec![
        ("version", json!(env!("CARGO_PKG_VERSION"))),
        ("target", json!(format!("{} {}", std::env::consts::ARCH, std::env::consts::OS))),
        ("features", json!(features.join(", "))),
        ("simd", json!(simd())),
        ("cores", json!(std::thread::available_parallelism().map_or(0, usize::from))),
        ("threads", json!(rayon::current_num_threads())),
        ("cpu quota", json!(cpu_quota().map_or("none".into(), |q| format!("{q:.2} cores")))),
        ("free memory", json!(human(available().into()))),
        (
            "store",
            match &store {
                Ok(folder) => json!(folder.display().to_string()),
                Err(error) => json!(format!("{error:#}")),
            },
        ),
        ("free disk", json!(free.map_or("unknown".into(), |bytes| human(bytes.into())))),
    ];
    output.result(
        || object(rows.clone()),
        || {
            let cell = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_string);
            rows.iter().map(|(name, value)| format!("{name:<12} {}\n", cell(value))).collect()
        },
    )
}

fn simd() -> String {
    #[cfg(target_arch = "x86_64")]
    {
        let found = [
            ("avx2", is_x86_feature_detected!("avx2")),
            ("fma", is_x86_feature_detected!("fma")),
            ("avx512f", is_x86_feature_detected!("avx512f")),
        ];
        let names: Vec<&str> = found.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect();
        names.join(", ")
    }
    #[cfg(not(target_arch = "x86_64"))]
    "portable".to_string()
}

/// Cores that the cgroup of this process may use, if it is limited.
fn cpu_quota() -> Option<f64> {
    let text = crate::memory::cgroup_file("cpu.max")?;
    let mut fields = text.split_whitespace().map(str::parse::<f64>);
    match (fields.next()?, fields.next()?) {
        (Ok(quota), Ok(period)) if period > 0.0 => Some(quota / period),
        _ => None,
    }
}

fn free_disk(path: &std::path::Path) -> Option<u64> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt as _;
        let path = std::ffi::CString::new(path.as_os_str().as_bytes()).ok()?;
        let mut stat = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
        // SAFETY: the path ends in a zero byte, and all zeros is a valid struct to be filled.
        let stat = unsafe {
            if libc::statvfs(path.as_ptr(), stat.as_mut_ptr()) != 0 {
                return None;
            }
            stat.assume_init()
        };
        #[allow(clippy::unnecessary_cast, reason = "the types differ between platforms")]
        Some(stat.f_bavail as u64 * stat.f_frsize as u64)
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}
