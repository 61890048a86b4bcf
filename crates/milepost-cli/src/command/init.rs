//! `init`: creates the store and a commented configuration file if they are missing, and offers to set up
//! agents.

use milepost::internal::fs::atomic;
use std::path::Path;

use crate::agents::{AGENTS, Agent, agent_names};
use crate::command::agents::{AgentSetup, parse_agents};
use crate::completion::Values;
use crate::config::{Origin, guarded_in, trusted_entry};
use crate::context::Context;
use crate::error::Result;
use crate::present::init::InitDocument;

/// Create the store and milepost.toml for this project
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  milepost init\n  milepost init --agents claude-code\n  milepost init --agents none --yes\n  \
                        milepost init --store files:checkpoints"
)]
pub(crate) struct InitArgs {
    #[arg(
        long,
        value_name = "NAME",
        num_args = 1..,
        value_delimiter = ',',
        help = format!("Agents to install Milepost into: all, none, {} [default: ask]", agent_names()),
        add = Values::AgentOrAll
    )]
    agents: Vec<String>,
}

const TEMPLATE: &str = include_str!("init_template.toml");

pub(crate) fn execute(args: InitArgs, context: &Context<'_>) -> Result<InitDocument> {
    let setup = AgentSetup::open(context);
    let requested = requested_agents(&args)?;
    let url = context.url();
    let created = !url.exists();
    let mp = context.open_or_create()?;
    let file = &context.config.file;
    let config_created = !file.exists();
    if config_created {
        atomic::write(file, template(context).as_bytes(), atomic::Mode::Shared)
            .map_err(milepost::Error::file(file, "written"))?;
    }
    let info = mp.store().info()?;
    drop(mp);
    if config_created || context.config.server.is_some() {
        trust_written(context)?;
    }
    let agents = requested.unwrap_or_else(|| ask_for_agents(context, &setup));
    let setup = (!agents.is_empty()).then(|| setup.install_for_user(&agents)).transpose()?;
    Ok(InitDocument {
        store: url.to_string(),
        config: file.display().to_string(),
        created,
        config_created,
        agents,
        setup,
        is_on_server: context.config.server.is_some(),
        warning: info.warning().clone(),
    })
}

/// Trusts the guarded values of the file that was just written, and creates the key that signs outbox
/// entries.
fn trust_written(context: &Context<'_>) -> Result<()> {
    let config = &context.config;
    let Ok(state) = &config.trust.state else { return Ok(()) };
    let mut guarded = guarded_in(&config.file)?;
    if config.server.is_some() {
        // The record of a server is that of its copy on this machine.
        context.create_local_copy(state)?;
        guarded.extend(config.guarded.clone());
    }
    let (_, record) = config.trust.evaluate(&config.local_url(), &config.paths);
    if let Some(mut record) = record
        && record.add_project(trusted_entry(&config.paths, &guarded))
    {
        // If this fails, the settings are ignored, and every command reports that.
        let _ = state.write_record(&record);
    }
    let _ = state.create_key();
    Ok(())
}

/// The agents that `--agents` names; `None` without the flag.
fn requested_agents(args: &InitArgs) -> Result<Option<Vec<Agent>>> {
    match args.agents.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => Ok(None),
        ["none"] => Ok(Some(Vec::new())),
        ["all"] => Ok(Some(AGENTS.to_vec())),
        _ => parse_agents(&args.agents).map(Some),
    }
}

/// Offers to set up the installed agents that are not set up yet. Returns none unless the user agrees.
fn ask_for_agents(context: &Context<'_>, setup: &AgentSetup<'_>) -> Vec<Agent> {
    let output = context.output;
    if output.yes || !output.can_ask() {
        return Vec::new();
    }
    let found: Vec<_> =
        setup.detected_agents().into_iter().filter(|agent| !setup.is_current(agent)).collect();
    if found.is_empty() {
        return found;
    }
    let names = found.iter().map(|agent| agent.name).collect::<Vec<_>>().join(", ");
    let question = format!(
        "Set up {names} (hooks, /checkpoint, MCP server) to record sessions in projects with a store, so that they \
         can be resumed? `milepost agents uninstall` undoes this."
    );
    if output.confirm(&question) == Some(true) { found } else { Vec::new() }
}

/// The template, with the values of `--store` and `--profile` filled in for later commands.
fn template(context: &Context<'_>) -> String {
    let mut text = TEMPLATE.to_owned();
    for setting in &context.config.settings {
        if let (Origin::Flag(_), "store" | "profile") = (&setting.origin, setting.key) {
            let text_of =
                if setting.key == "store" { store_from_root(context) } else { setting.value.clone() };
            let value = toml::Value::String(text_of);
            let start = format!("# {} = ", setting.key);
            let line = text.lines().find(|line| line.starts_with(&start)).map(str::to_owned);
            if let Some(line) = line {
                text = text.replace(&line, &format!("{} = {value}", setting.key));
            }
        }
    }
    text
}

/// The store's URL relative to the project's root. The path in the flag is relative to the current folder.
fn store_from_root(context: &Context<'_>) -> String {
    let from_root = |path: &Path| {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        path.strip_prefix(&context.config.paths.root).map_or(path.clone(), Path::to_owned)
    };
    context.url().map_path(from_root).to_string()
}
