//! `ui`: serves the local page until its terminal closes. The page itself is in the crate `milepost-ui`; this command
//! provides the projects, prints the address and opens the browser.

mod projects;
mod stop;

use std::net::IpAddr;
use std::process::Stdio;

use milepost::ReasonCode;
use milepost_ui::{Server, StopHandle};

use self::projects::PageProjects;
use crate::cli::Global;
use crate::config::{Config, agent_variable, graphical_browser};
use crate::context::Context;
use crate::error::{CommandError, Result};
use crate::present::Output;
use crate::present::ui::UiDocument;

/// Show projects, runs and checkpoints in a browser
///
/// Serves a page on this machine only, and opens it: all projects, the timeline of a run, checkpoints with their
/// briefs and files, comparisons and search. The page changes nothing. Whoever has the printed address can read
/// everything that it shows. Ends with Ctrl-C, and when the terminal is closed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost ui\n  milepost ui --port 7070 --no-open\n  \
                        ssh -L 7070:127.0.0.1:7070 build-host milepost ui --port 7070 --no-open")]
pub(crate) struct UiArgs {
    /// Port to listen on [default: any free port]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Print the address, but do not open a browser
    #[arg(long)]
    no_open: bool,
    /// Address to listen on; must be a loopback address
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    listen: String,
}

pub(crate) fn serve(args: &UiArgs, global: &Global, output: &Output) -> Result<()> {
    super::change_directory(global)?;
    // A wrong setting, or a chosen store that cannot be read, is reported before the page is served.
    let context = Context::new(Config::load(global)?, output);
    if context.config.store_is_chosen {
        context.open_read_only()?;
    }
    let address = loopback(&args.listen)?;
    let server = Server::bind(address, args.port).map_err(|error| {
        let port = args.port.map_or_else(|| "a port".to_owned(), |port| format!("port {port}"));
        CommandError::new(ReasonCode::ListenFailed, format!("cannot listen on {port} of {address}: {error}"))
            .with_hint("choose another port with --port, or leave it out to use a free one")
    })?;
    let stop = StopHandle::new();
    stop::stop_with_terminal(stop.clone()).map_err(|error| {
        CommandError::new(ReasonCode::ListenFailed, format!("cannot catch signals: {error}"))
    })?;
    let opens = !args.no_open && output.is_terminal() && agent_variable().is_none();
    let browser = graphical_browser().filter(|_| opens);
    let document = UiDocument { url: server.url(), port: server.port(), opens: browser.is_some() };
    output.present(&document)?;
    if let Some(mut browser) = browser {
        let opened = server.one_time_url().and_then(|url| {
            browser.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
        });
        match opened {
            // Waits, so that the browser does not remain as a zombie.
            Ok(mut child) => drop(std::thread::spawn(move || child.wait())),
            Err(e) => {
                output.message(&format!("Warning: cannot start {}: {e}", browser.get_program().display()))
            }
        }
    }
    let notices = output.clone();
    let served = server.run(PageProjects::new(global), &stop, move |line| notices.message(line));
    served.map_err(|error| {
        CommandError::new(ReasonCode::ListenFailed, format!("the page cannot be served: {error}"))
    })
}

/// Refuses every address that other machines can reach.
fn loopback(text: &str) -> Result<IpAddr> {
    let address = if text == "localhost" { Ok(IpAddr::from([127, 0, 0, 1])) } else { text.parse::<IpAddr>() };
    match address {
        Ok(address) if address.to_canonical().is_loopback() => Ok(address.to_canonical()),
        Ok(_) => Err(CommandError::usage(format!(
            "--listen {text}: other machines could reach this address"
        ))
        .with_hint(
            "to use the page from another machine, forward a port with `ssh -L`; see `milepost ui --help`",
        )),
        Err(_) => Err(CommandError::usage(format!("--listen {text} is not an IP address"))
            .with_hint("leave out --listen to use 127.0.0.1")),
    }
}
