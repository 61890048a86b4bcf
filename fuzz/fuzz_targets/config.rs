//! Runs the target `config` with libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| milepost_fuzz::find_target("config")
    .expect("a known target")
    .check(data));
