//! The reader of `g.jsonl`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hdse_fuzz::read("g.jsonl", bytes));
