//! The reader of `g.graphml`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hdse_fuzz::read("g.graphml", bytes));
