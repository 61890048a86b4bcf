//! The command line of Milepost.
fn main() {}
