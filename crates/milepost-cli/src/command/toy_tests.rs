//! A toy command for tests. It shows that a new command needs only this file, its module and one row in the
//! list of commands. A real command also has a document in `present` and a test of the binary.

use clap::Parser as _;
use serde::Serialize;

use super::Command;
use crate::cli::{Cli, full_command};
use crate::config::Config;
use crate::context::Context;
use crate::error::Result;
use crate::present::{Document, Output};

/// Count to a number
#[derive(Debug, clap::Args)]
pub(crate) struct ToyArgs {
    /// The number
    to: u64,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(tag = "schema", rename = "milepost.toy/1")]
pub(crate) struct ToyDocument {
    numbers: Vec<u64>,
}

impl Document for ToyDocument {
    fn render(&self, output: &Output) -> Result<()> {
        self.numbers.iter().for_each(|number| output.message(&number.to_string()));
        Ok(())
    }
}

pub(crate) fn execute(args: ToyArgs, _: &Context<'_>) -> Result<ToyDocument> {
    Ok(ToyDocument { numbers: (1..=args.to).collect() })
}

#[test]
fn a_row_in_the_list_is_all_that_a_command_needs() {
    let cli = Cli::try_parse_from(["milepost", "--color", "never", "toy", "3"]).unwrap();
    let output = Output::collecting();
    let context = Context::new(Config::load(&cli.global).unwrap(), &output);
    let Some(Command::Toy(args)) = cli.command else { panic!("not the toy command") };
    let document = execute(args, &context).unwrap();
    assert_eq!(serde_json::to_string(&document).unwrap(), r#"{"schema":"milepost.toy/1","numbers":[1,2,3]}"#);
    document.render(&output).unwrap();
    assert_eq!(output.collected(), ["1", "2", "3"]);
    assert!(Command::clap_command("toy").is_some());
    assert!(full_command().render_help().to_string().contains("Count to a number"));
}
