//! `man`: prints the manual page of the program or of one command, or installs all pages.

use std::path::{Path, PathBuf};

use milepost::Error;
use milepost::internal::fs::atomic;

use crate::cli::{find_command, full_command};
use crate::completion::Values;
use crate::error::{CommandError, Result};
use crate::present::reference::{InstalledManual, ManualDocument, PrintedManual};

/// Print or install manual pages
///
/// --install writes milepost.1 and a page for every command, such as milepost-save.1 and milepost-task-set.1.
/// `man` finds them in ~/.local/share/man/man1 if ~/.local/bin is in PATH, and in /usr/local/share/man/man1.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost man | man -l -\n  milepost man save | man -l -\n  \
                        milepost man --install ~/.local/share/man/man1 && man milepost-save")]
pub(crate) struct ManArgs {
    /// Command whose page to print
    #[arg(value_name = "COMMAND", conflicts_with = "install", add = Values::Command)]
    command: Vec<String>,
    /// Write all pages to this folder
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    install: Option<PathBuf>,
}

pub(crate) fn execute(args: &ManArgs) -> Result<ManualDocument> {
    match &args.install {
        Some(folder) => install(folder).map(ManualDocument::Installed),
        None => {
            let page = render(&find_command(&args.command)?)?;
            Ok(ManualDocument::Printed(PrintedManual { page }))
        }
    }
}

/// Writes a page for every command.
fn install(folder: &Path) -> Result<InstalledManual> {
    std::fs::create_dir_all(folder).map_err(Error::file(folder, "written"))?;
    let mut command = full_command();
    command.build();
    let mut pages = Vec::new();
    write_pages(&command, folder, &mut pages)?;
    Ok(InstalledManual { folder: folder.display().to_string(), pages })
}

fn write_pages(command: &clap::Command, folder: &Path, pages: &mut Vec<String>) -> Result<()> {
    let name = format!("{}.1", page_name(command));
    let file = folder.join(&name);
    atomic::write(&file, render(command)?.as_bytes(), atomic::Mode::Shared)
        .map_err(Error::file(&file, "written"))?;
    pages.push(name);
    command.get_subcommands().try_for_each(|inner| write_pages(inner, folder, pages))
}

/// The name of a command's page, such as `milepost-task-set`.
fn page_name(command: &clap::Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

/// Renders the page of a command. The examples become a separate section.
fn render(command: &clap::Command) -> Result<String> {
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let version = concat!("milepost ", env!("CARGO_PKG_VERSION"));
    let manual = clap_mangen::Man::new(command.clone().after_help(None::<&str>)).source(version);
    let mut page = Vec::new();
    manual.render(&mut page).map_err(CommandError::Stdout)?;
    let mut page = String::from_utf8_lossy(&page).into_owned();
    if let Some(examples) = examples.strip_prefix("Examples:\n") {
        let line = |line: &str| line.replace('\\', "\\e").replace('-', "\\-");
        let (commands, rest) = examples.split_once("\n\n").unwrap_or((examples, ""));
        page.push_str(".SH EXAMPLES\n.nf\n");
        commands.lines().for_each(|example| page.push_str(&format!("\\&{}\n", line(example))));
        page.push_str(".fi\n");
        rest.lines()
            .filter(|text| !text.is_empty())
            .for_each(|text| page.push_str(&format!(".PP\n{}\n", line(text))));
    }
    Ok(page)
}
