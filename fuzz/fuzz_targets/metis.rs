//! The reader of `g.graph`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hdse_fuzz::read("g.graph", bytes));
