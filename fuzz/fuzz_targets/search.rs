//! Runs the target `search` with libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| milepost_fuzz::find_target("search")
    .expect("a known target")
    .check(data));
