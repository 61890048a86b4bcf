//! Runs the target `git` with libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| milepost_fuzz::find_target("git")
    .expect("a known target")
    .check(data));
