//! The reader of `g.txt`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hdse_fuzz::read("g.txt", bytes));
