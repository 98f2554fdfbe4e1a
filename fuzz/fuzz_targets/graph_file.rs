//! Our own graph file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hdse_fuzz::read_graph_file(bytes));
