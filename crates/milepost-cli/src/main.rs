//! The command line of Milepost: the binary `milepost`.
//! In: arguments and the environment. Out: data on stdout, messages on stderr, one exit code.

mod agents;
mod cli;
mod command;
mod config;
mod context;
mod error;
mod error_advice;
mod handover;
mod hook;
mod input;
mod present;
mod recorder;
mod supervise;

fn main() -> std::process::ExitCode {
    cli::main()
}
