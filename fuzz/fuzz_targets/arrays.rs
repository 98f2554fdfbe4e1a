//! Encoded sets and arrays: safetensors, npz and Parquet files that we wrote once.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hdse_fuzz::read_encoded(bytes));
