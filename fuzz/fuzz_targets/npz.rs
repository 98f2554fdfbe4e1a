//! The reader of `g.npz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hdse_fuzz::read("g.npz", bytes));
