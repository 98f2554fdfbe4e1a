//! Python bindings of [`hdse`]: arrays in, arrays out.
//!
//! This crate holds no algorithm. It turns what Python passes into graphs, runs the library without the
//! interpreter's lock, and lends the results to numpy without a copy. Frameworks (networkx, torch,
//! PyTorch Geometric) are known to small Python files in `hdse/` only.

mod array;
mod coarsener;
mod encoding;
mod encodings;
mod error;
mod graph;
mod hierarchy;
mod high_level;
mod input;
mod read;
mod run;
mod sequence;

use pyo3::prelude::*;

/// The native part of `hdse`; use the package.
#[pymodule]
mod _hdse {
    use std::io::Write as _;

    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::encoding::{_encoding, Encoding, encode};
    #[pymodule_export]
    use crate::encodings::{_encodings, Encodings, encode_many};
    #[pymodule_export]
    use crate::graph::{_graph, Graph};
    #[pymodule_export]
    use crate::hierarchy::{_coarseners, _hierarchy, _settings, Hierarchy, coarsen};
    #[pymodule_export]
    use crate::high_level::{_high_level, HighLevel, high_level};
    #[pymodule_export]
    use crate::read::{_graph_set, _sample, GraphSet, Sample, read};

    /// Stored where no path exists.
    #[pymodule_export]
    const UNREACHABLE: u32 = hdse::distance::UNREACHABLE as u32;

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// Runs the `hdse` command with these arguments and gives its exit code.
    #[pyfunction]
    fn _main(py: Python<'_>, arguments: Vec<std::ffi::OsString>) -> u8 {
        py.detach(|| {
            let code = hdse::cli::exit_code(arguments);
            // Rust flushes when its own `main` ends, and this is Python's.
            let _ = std::io::stdout().flush();
            code
        })
    }

    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::run::loaded();
        Ok(())
    }
}
