//! Runs the target `nova26` with libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| milepost_fuzz::find_target("nova26")
    .expect("a known target")
    .check(data));
