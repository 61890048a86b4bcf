//! `agents`: sets agents up so that they tell Milepost what happens, says how that stands, and takes it back.

use std::collections::BTreeSet;
use std::path::PathBuf;

use milepost::ReasonCode;

use crate::agents::setup::{
    Access, Action, Plan, Records, apply, inspect, inspect_scopes, plan_install, plan_uninstall,
};
use crate::agents::{AGENTS, Agent, Roots, Scope, agent_names, find_agent};
use crate::completion::Values;
use crate::config::AgentEnvironment;
use crate::context::Context;
use crate::error::{CommandError, Result};
use crate::present::agents::{AgentStatus, Failed, Mode, SetupDocument, StatusDocument, page};

/// Install Milepost into agents: hooks, /checkpoint, the MCP server
///
/// Edits the settings of agents in place: other entries, comments and white space stay as they are, the previous content
/// is kept beside the file, and uninstall restores it. An agent need not be installed yet. Hooks do nothing in projects
/// without a store.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  milepost agents install claude-code\n  milepost agents install --all --project --dry-run\n  \
                  milepost agents status\n  milepost agents uninstall --all --everywhere"
)]
pub(crate) struct AgentsArgs {
    #[command(subcommand)]
    action: AgentsAction,
}

#[derive(Debug, clap::Subcommand)]
enum AgentsAction {
    /// Install Milepost into agents, or update what is installed
    #[command(after_help = "Examples:\n  milepost agents install claude-code codex\n  \
                            milepost agents install --all --project --dry-run")]
    Install(Selection),
    /// Show what is installed, what is stale, and what you have to approve
    #[command(after_help = "Examples:\n  milepost agents status\n  milepost agents status codex --json")]
    Status {
        #[arg(value_name = "NAME", help = format!("{} [default: all]", agent_help()), add = Values::Agent)]
        names: Vec<String>,
        /// All agents
        #[arg(long)]
        all: bool,
        /// Only what is installed in this project
        #[arg(long)]
        project: bool,
    },
    /// Remove what was installed and restore the files
    #[command(after_help = "Examples:\n  milepost agents uninstall gemini\n  \
                            milepost agents uninstall --all --project\n  milepost agents uninstall --all --everywhere")]
    Uninstall {
        #[command(flatten)]
        selection: Selection,
        /// For this user and in every project where it was installed from this machine
        #[arg(long, conflicts_with = "project")]
        everywhere: bool,
    },
}

#[derive(Debug, clap::Args)]
struct Selection {
    #[arg(value_name = "NAME", help = agent_help(), add = Values::Agent)]
    names: Vec<String>,
    /// All agents
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Use this project's files, which a team commits, instead of the user's
    #[arg(long)]
    project: bool,
    /// Show the changes as a diff, and change nothing
    #[arg(long)]
    dry_run: bool,
}

fn agent_help() -> String {
    format!("Agents: {}", agent_names())
}

pub(crate) fn run(args: AgentsArgs, context: &Context<'_>) -> Result<()> {
    let setup = AgentSetup::open(context);
    match args.action {
        AgentsAction::Install(selection) => {
            let agents = select_agents(&selection.names, selection.all, &setup)?;
            let requests = setup.requests(Action::Install, &agents, selection.scope())?;
            context.output.present(&setup.execute(&requests, selection.dry_run)?)
        }
        AgentsAction::Uninstall { selection, everywhere } => {
            let agents = select_agents(&selection.names, selection.all, &setup)?;
            let requests = match everywhere {
                true => setup.uninstall_requests_everywhere(&agents),
                false => setup.requests(Action::Uninstall, &agents, selection.scope())?,
            };
            context.output.present(&setup.execute(&requests, selection.dry_run)?)
        }
        AgentsAction::Status { names, all, project } => {
            let agents = if names.is_empty() { AGENTS.to_vec() } else { select_agents(&names, all, &setup)? };
            let scopes: &[Scope] = if project { &[Scope::Project] } else { &[Scope::User, Scope::Project] };
            context.output.present(&setup.status(&agents, scopes))
        }
    }
}

impl Selection {
    fn scope(&self) -> Scope {
        if self.project { Scope::Project } else { Scope::User }
    }
}

/// Agents by their names.
pub(crate) fn parse_agents(names: &[String]) -> Result<Vec<Agent>> {
    let mut agents = Vec::new();
    for name in names {
        let agent = find_agent(name).ok_or_else(|| unknown_agent(name))?;
        if !agents.contains(&agent) {
            agents.push(agent);
        }
    }
    Ok(agents)
}

/// The error for a name that no agent has.
pub(crate) fn unknown_agent(name: &str) -> CommandError {
    let mut known = AGENTS.iter().map(|agent| agent.name);
    let near = known.find(|known| known.starts_with(name) || name.starts_with(*known));
    let near = near.map_or(String::new(), |near| format!("did you mean {near}? "));
    CommandError::usage(format!("no agent \"{name}\""))
        .with_hint(format!("{near}agents are {}", agent_names()))
}

fn select_agents(names: &[String], all: bool, setup: &AgentSetup<'_>) -> Result<Vec<Agent>> {
    if all {
        return Ok(AGENTS.to_vec());
    }
    if names.is_empty() {
        let found: Vec<_> = setup.detected_agents().into_iter().map(|agent| agent.name).collect();
        let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
        return Err(CommandError::usage("no agent is named")
            .with_hint(format!("name some of {}, or --all; found here: {found}", agent_names())));
    }
    parse_agents(names)
}

/// Everything that setting agents up needs.
pub(crate) struct AgentSetup<'a> {
    context: &'a Context<'a>,
    environment: AgentEnvironment,
    roots: Roots,
}

impl<'a> AgentSetup<'a> {
    pub(crate) fn open(context: &'a Context<'a>) -> Self {
        let environment = AgentEnvironment::read();
        let project = context.config.paths.root.clone();
        let roots = Roots { project, user: environment.user.clone() };
        Self { context, environment, roots }
    }

    /// Agents whose program is there.
    pub(crate) fn detected_agents(&self) -> Vec<Agent> {
        AGENTS.iter().copied().filter(|agent| self.environment.program(agent.program).is_some()).collect()
    }

    /// Whether an agent is set up for the user as this version does it.
    pub(crate) fn is_current(&self, agent: Agent) -> bool {
        self.environment.user.is_some() && inspect(agent, Scope::User, &self.roots).is_current()
    }

    /// What is known about earlier installs. Where it cannot be written down, removal goes by the files alone.
    fn records(&self, access: Access) -> Records {
        Records::open(self.environment.state.clone(), access).unwrap_or_else(|e| {
            let state = self.environment.state.clone().unwrap_or_default();
            self.context.output.message(&format!(
                "Warning: what is installed cannot be written down in {}: {e}",
                state.display()
            ));
            Records::none()
        })
    }

    pub(crate) fn requests(
        &self,
        action: Action,
        agents: &[Agent],
        scope: Scope,
    ) -> Result<Vec<SetupRequest>> {
        if scope == Scope::User && self.environment.user.is_none() {
            return Err(CommandError::usage("HOME is not set: the user's settings cannot be found")
                .with_hint("set HOME, or use --project"));
        }
        Ok(agents
            .iter()
            .map(|agent| SetupRequest { action, agent, scope, root: self.roots.project.clone() })
            .collect())
    }

    /// Everything that is recorded of some agents, and this user's and project's files besides.
    fn uninstall_requests_everywhere(&self, agents: &[Agent]) -> Vec<SetupRequest> {
        let records = self.records(Access::ReadOnly);
        let mut roots: Vec<PathBuf> = vec![self.roots.project.clone()];
        for record in records.all() {
            if let Some(root) = record.project.as_ref().filter(|root| !roots.contains(root)) {
                roots.push(root.clone());
            }
        }
        let mut requests = Vec::new();
        for agent in agents {
            let of = |scope, root: &PathBuf| SetupRequest {
                action: Action::Uninstall,
                agent,
                scope,
                root: root.clone(),
            };
            if self.environment.user.is_some() {
                requests.push(of(Scope::User, &self.roots.project));
            }
            requests.extend(roots.iter().map(|root| of(Scope::Project, root)));
        }
        requests
    }

    /// Plans, asks on a terminal, and does it.
    fn execute(&self, requests: &[SetupRequest], dry_run: bool) -> Result<SetupDocument> {
        let output = self.context.output;
        let asks = !output.yes && output.can_ask();
        if dry_run || asks {
            let records = self.records(Access::ReadOnly);
            let plans: Vec<Plan> = requests.iter().map(|w| w.plan(&self.roots, &records)).collect();
            if dry_run {
                return Ok(self.document(plans, Vec::new(), Mode::DryRun));
            }
            let n = plans
                .iter()
                .filter(|p| p.has_changes())
                .flat_map(|p| &p.changes)
                .filter(|c| c.has_effect())
                .count();
            if n > 0 {
                output.message_page(page(&plans, Mode::Preview).trim_end());
                if output.confirm("Go on?") != Some(true) {
                    return Err(CommandError::new(
                        ReasonCode::ConfirmationNeeded,
                        "not confirmed: nothing was changed",
                    ));
                }
            }
        }
        Ok(self.apply(requests))
    }

    /// Does it, and gives what became of it.
    fn apply(&self, requests: &[SetupRequest]) -> SetupDocument {
        self.create_key();
        let mut records = self.records(Access::ReadWrite);
        let mut plans: Vec<Plan> = requests.iter().map(|w| w.plan(&self.roots, &records)).collect();
        let failed = plans.iter_mut().flat_map(|plan| apply(plan, &mut records)).collect();
        self.document(plans, failed, Mode::Done)
    }

    /// Makes the key that signs entries of the outbox: a hook may run where it cannot be made.
    fn create_key(&self) {
        if let Ok(state) = &self.context.config.trust.state {
            // Without one, saves that have to wait say so.
            let _ = state.create_key();
        }
    }

    /// Sets agents up for the user.
    pub(crate) fn install_for_user(&self, agents: &[Agent]) -> Result<SetupDocument> {
        Ok(self.apply(&self.requests(Action::Install, agents, Scope::User)?))
    }

    fn document(&self, plans: Vec<Plan>, failed: Failed, mode: Mode) -> SetupDocument {
        let on_path = self.environment.program("milepost").is_some();
        SetupDocument::new(plans, failed, mode, on_path)
    }

    fn status(&self, agents: &[Agent], scopes: &[Scope]) -> StatusDocument {
        let has_files = |scope: &&Scope| **scope == Scope::Project || self.environment.user.is_some();
        let scopes: Vec<_> = scopes.iter().filter(has_files).copied().collect();
        let program = |name| self.environment.program(name).map(|path| path.display().to_string());
        let inspect = |agent: &Agent| AgentStatus {
            agent,
            program: program(agent.program),
            setups: inspect_scopes(agent, &scopes, &self.roots),
        };
        let records = self.records(Access::ReadOnly);
        let elsewhere: BTreeSet<_> =
            records.all().iter().filter_map(|record| record.project.as_ref()).collect();
        let elsewhere = elsewhere.into_iter().filter(|root| **root != self.roots.project);
        StatusDocument {
            program: program("milepost"),
            agents: agents.iter().map(inspect).collect(),
            elsewhere: elsewhere.map(|root| root.display().to_string()).collect(),
        }
    }
}

/// An install or uninstall of one agent in one scope.
pub(crate) struct SetupRequest {
    action: Action,
    agent: Agent,
    scope: Scope,
    root: PathBuf,
}

impl SetupRequest {
    fn plan(&self, roots: &Roots, records: &Records) -> Plan {
        let roots = Roots { project: self.root.clone(), ..roots.clone() };
        match self.action {
            Action::Install => plan_install(self.agent, self.scope, &roots, records),
            Action::Uninstall => plan_uninstall(self.agent, self.scope, &roots, records),
        }
    }
}
