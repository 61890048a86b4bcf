//! `agents`: installs Milepost into agents (hooks, /checkpoint, MCP server), shows what is installed, and
//! uninstalls it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use milepost::ReasonCode;

use crate::agents::setup::{
    Access, Action, Plan, ProgramName, Records, apply, find_plugin, inspect, inspect_scopes, plan_install,
    plan_uninstall,
};
use crate::agents::{AGENTS, Agent, Roots, Scope, agent_names, find_agent};
use crate::completion::Values;
use crate::config::{AgentEnvironment, Origin, RECORD, RecordScope};
use crate::context::Context;
use crate::error::{CommandError, Result};
use crate::present::Document as _;
use crate::present::agents::{
    AgentStatus, Failed, Mode, RecordChange, RecordStatus, SetupDocument, StatusDocument, page,
};

/// Install Milepost into agents: hooks, /checkpoint, the MCP server
///
/// Edits the agents' settings files in place. Other entries, comments and white space do not change. A backup
/// of the previous content is kept next to each file, and uninstall restores it. The agent does not have to
/// be installed yet. Hooks record only in projects with a store, which `milepost init` creates. With
/// `install --record all`, they also create a store in every git repository that an agent works in.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  milepost agents install claude-code\n  milepost agents install --all --project --dry-run\n  \
                  milepost agents install --record all\n  milepost agents status\n  milepost agents uninstall --all --everywhere"
)]
pub(crate) struct AgentsArgs {
    #[command(subcommand)]
    action: AgentsAction,
}

#[derive(Debug, clap::Subcommand)]
enum AgentsAction {
    /// Install Milepost into agents, or update an installation
    ///
    /// On a terminal, asks once where hooks record: in every git repository, or only where `milepost init` was
    /// run. The answer is saved as agents.record in your configuration file. Without a terminal, hooks record
    /// only where `milepost init` was run.
    #[command(after_help = "Examples:\n  milepost agents install claude-code codex\n  \
                            milepost agents install claude-code --record all\n  \
                            milepost agents install --record initialised\n  \
                            milepost agents install --all --project --dry-run")]
    Install {
        #[command(flatten)]
        selection: Selection,
        /// Set where hooks record, without asking; needs no NAME
        #[arg(long, value_name = "WHERE", value_enum)]
        record: Option<RecordScope>,
    },
    /// Show what is installed, what is outdated, and what needs your approval
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
        /// Uninstall for this user and in every project set up from this machine
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
    /// Use the project's settings files, which a team can commit, instead of the user's
    #[arg(long)]
    project: bool,
    /// Show the changes as a diff without applying them
    #[arg(long)]
    dry_run: bool,
}

fn agent_help() -> String {
    format!("Agents: {}", agent_names())
}

pub(crate) fn run(args: AgentsArgs, context: &Context<'_>) -> Result<()> {
    let setup = AgentSetup::open(context);
    match args.action {
        AgentsAction::Install { selection, record } => {
            let sets_only_record = record.is_some() && selection.names.is_empty() && !selection.all;
            let agents = match sets_only_record {
                true => Vec::new(),
                false => select_agents(&selection.names, selection.all, &setup)?,
            };
            let requests = setup.requests(Action::Install, &agents, selection.scope())?;
            let document = setup.execute(&requests, selection.dry_run)?;
            let asks = selection.scope() == Scope::User && !selection.dry_run && document.error().is_none();
            let record = record.or_else(|| asks.then(|| setup.ask_where_to_record()).flatten());
            let changed = record.map(|record| setup.write_record(record, selection.dry_run)).transpose()?;
            context.output.present(&document.with_record(changed.flatten()))
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

/// Finds agents by name and drops duplicates.
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

/// The error for an unknown agent name.
pub(crate) fn unknown_agent(name: &str) -> CommandError {
    let mut known = AGENTS.iter().map(|agent| agent.name);
    let near = known.find(|known| known.starts_with(name) || name.starts_with(*known));
    let near = near.map_or(String::new(), |near| format!("did you mean {near}? "));
    CommandError::usage(format!("unknown agent \"{name}\""))
        .with_hint(format!("{near}known agents: {}", agent_names()))
}

fn select_agents(names: &[String], all: bool, setup: &AgentSetup<'_>) -> Result<Vec<Agent>> {
    if all {
        return Ok(AGENTS.to_vec());
    }
    if names.is_empty() {
        let found: Vec<_> = setup.detected_agents().into_iter().map(|agent| agent.name).collect();
        let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
        return Err(CommandError::usage("no agent specified")
            .with_hint(format!("name one or more of {}, or use --all; found here: {found}", agent_names())));
    }
    parse_agents(names)
}

/// Plans and applies the set-up of agents.
pub(crate) struct AgentSetup<'a> {
    context: &'a Context<'a>,
    environment: AgentEnvironment,
    roots: Roots,
}

impl<'a> AgentSetup<'a> {
    pub(crate) fn open(context: &'a Context<'a>) -> Self {
        let environment = AgentEnvironment::read();
        let project = context.config.paths.root.clone();
        let roots = environment.roots(project);
        Self { context, environment, roots }
    }

    /// Agents whose program is installed.
    pub(crate) fn detected_agents(&self) -> Vec<Agent> {
        AGENTS.iter().copied().filter(|agent| self.environment.program(agent.program).is_some()).collect()
    }

    /// Whether the user's set-up of an agent is up to date with this version.
    pub(crate) fn is_current(&self, agent: Agent) -> bool {
        let is_set_up = || inspect(agent, Scope::User, &self.roots).is_current();
        self.environment.user.is_some() && (find_plugin(agent, &self.roots).is_some() || is_set_up())
    }

    /// The records of earlier installs. If they cannot be opened, uninstall relies on the settings files
    /// alone.
    fn records(&self, access: Access) -> Records {
        Records::open(self.environment.state.clone(), access).unwrap_or_else(|e| {
            let state = self.environment.state.clone().unwrap_or_default();
            self.context.output.message(&format!(
                "Warning: cannot open the installation records in {}: {e}",
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

    /// Requests to uninstall agents from the user's files, this project and every recorded project.
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

    /// Plans the requests, asks for confirmation on a terminal, and applies them.
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
                if output.confirm("Continue?") != Some(true) {
                    return Err(CommandError::new(
                        ReasonCode::ConfirmationNeeded,
                        "not confirmed: nothing was changed",
                    ));
                }
            }
        }
        Ok(self.apply(requests))
    }

    /// Applies the requests and returns the results.
    fn apply(&self, requests: &[SetupRequest]) -> SetupDocument {
        self.create_key();
        let mut records = self.records(Access::ReadWrite);
        let mut plans: Vec<Plan> = requests.iter().map(|w| w.plan(&self.roots, &records)).collect();
        let failed = plans.iter_mut().flat_map(|plan| apply(plan, &mut records)).collect();
        self.document(plans, failed, Mode::Done)
    }

    /// Asks where hooks record, unless the user has already decided. `None` if it cannot ask.
    fn ask_where_to_record(&self) -> Option<RecordScope> {
        let output = self.context.output;
        if output.yes || self.context.config.agents.chosen_record.is_some() {
            return None;
        }
        let question = "Record sessions in every git repository? Otherwise they are recorded only in projects where you \
                        run `milepost init`.";
        let everywhere = output.confirm(question)?;
        Some(if everywhere { RecordScope::All } else { RecordScope::Initialised })
    }

    /// Writes where hooks record to the user's configuration file, unless it is already set to that.
    fn write_record(&self, record: RecordScope, dry_run: bool) -> Result<Option<RecordChange>> {
        let config = &self.context.config;
        if config.agents.chosen_record == Some(record) {
            return Ok(None);
        }
        let file = if dry_run { config.user_file()?.to_owned() } else { config.write_record(record)? };
        Ok(Some(RecordChange { record, file: file.display().to_string() }))
    }

    /// Creates the key for signing outbox entries now, because a hook may run where it cannot create the key.
    fn create_key(&self) {
        if let Ok(state) = &self.context.config.trust.state {
            // If this fails, saves that go to the outbox report it.
            let _ = state.create_key();
        }
    }

    /// Installs Milepost into agents for the user.
    pub(crate) fn install_for_user(&self, agents: &[Agent]) -> Result<SetupDocument> {
        Ok(self.apply(&self.requests(Action::Install, agents, Scope::User)?))
    }

    /// The path of the program that hooks run: the one in PATH, or the one that they name.
    fn program(&self) -> Option<String> {
        let on_path = self.environment.program("milepost").map(|path| path.display().to_string());
        match &self.roots.program {
            ProgramName::OnPath => on_path,
            ProgramName::At(path) => Some(path.clone()),
        }
    }

    fn document(&self, plans: Vec<Plan>, failed: Failed, mode: Mode) -> SetupDocument {
        let can_run = self.program().is_some();
        SetupDocument::new(plans, failed, mode, can_run, self.context.config.agents.record())
    }

    fn status(&self, agents: &[Agent], scopes: &[Scope]) -> StatusDocument {
        let has_files = |scope: &&Scope| **scope == Scope::Project || self.environment.user.is_some();
        let scopes: Vec<_> = scopes.iter().filter(has_files).copied().collect();
        let program = |name| self.environment.program(name).map(|path| path.display().to_string());
        let inspect = |agent: &Agent| AgentStatus {
            agent,
            program: program(agent.program),
            plugin: find_plugin(agent, &self.roots).map(|file| file.display().to_string()),
            setups: inspect_scopes(agent, &scopes, &self.roots),
        };
        let records = self.records(Access::ReadOnly);
        let elsewhere: BTreeSet<_> =
            records.all().iter().filter_map(|record| record.project.as_ref()).collect();
        let elsewhere = elsewhere.into_iter().filter(|root| **root != self.roots.project);
        let setting = self.context.config.settings.iter().find(|setting| setting.key == RECORD);
        StatusDocument {
            record: RecordStatus {
                value: self.context.config.agents.record(),
                origin: setting.map_or(Origin::Default, |setting| setting.origin.clone()),
            },
            program: self.program(),
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
