//! Runs the target `files_store` with libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| milepost_fuzz::find_target("files_store")
    .expect("a known target")
    .check(data));
