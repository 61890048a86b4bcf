//! The binary `milepost`. Everything it does is in the library of this package.

fn main() -> std::process::ExitCode {
    milepost_cli::main()
}
