//! Runs the target `redact` with libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| milepost_fuzz::find_target("redact")
    .expect("a known target")
    .check(data));
