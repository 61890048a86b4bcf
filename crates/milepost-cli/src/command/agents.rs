//! `agents`: sets agents up so that they tell Milepost what happens, says how that stands, and takes it back.

use std::path::PathBuf;

use milepost::{Exit, ReasonCode};

use crate::agents::{self, Action, Agent, Plan, Records, Roots, Scope, Turn};
use crate::config::Surroundings;
use crate::context::Context;
use crate::error::CommandError;
use crate::present::agents as present;

/// Set agents up: hooks, the /checkpoint command and the MCP server
///
/// Agents: claude-code, gemini, codex, opencode. Their settings are edited in place: every other entry, comment and
/// blank stays as it is, what stood there before is kept beside the file, and uninstall puts it back. An agent need not
/// be installed yet. Hooks do nothing where no store is, and say nothing where milepost is not installed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  milepost agents install claude-code\n  milepost agents install --all --project --dry-run\n  \
                  milepost agents status\n  milepost agents uninstall --all --everywhere"
)]
pub(crate) struct AgentsArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Set agents up, or bring what is set up to this version
    #[command(after_help = "Examples:\n  milepost agents install claude-code codex\n  \
                            milepost agents install --all --project --dry-run")]
    Install(Choice),
    /// Show what is set up, what is stale, and what is left for you to approve
    #[command(after_help = "Examples:\n  milepost agents status\n  milepost agents status codex --json")]
    Status {
        /// The agents; all unless given
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// All agents
        #[arg(long)]
        all: bool,
        /// Only what is set up for this project
        #[arg(long)]
        project: bool,
    },
    /// Take back what was set up; the files are as they were before
    #[command(after_help = "Examples:\n  milepost agents uninstall gemini\n  \
                            milepost agents uninstall --all --project\n  milepost agents uninstall --all --everywhere")]
    Uninstall {
        #[command(flatten)]
        choice: Choice,
        /// For this user and in every project where it was set up from this machine
        #[arg(long, conflicts_with = "project")]
        everywhere: bool,
    },
}

#[derive(Debug, clap::Args)]
struct Choice {
    /// claude-code, gemini, codex or opencode
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// All four agents
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// In this project's files, which a team commits, instead of the user's
    #[arg(long)]
    project: bool,
    /// Show the changes as a diff, and change nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(args: &AgentsArgs, context: &Context<'_>) -> Result<(), CommandError> {
    match &args.what {
        What::Install(choice) => {
            let shop = Shop::open(context);
            let plans =
                shop.plans(Action::Install, &chosen(&choice.names, choice.all, &shop)?, choice.scope())?;
            shop.carry_out(plans, choice.dry_run)
        }
        What::Uninstall { choice, everywhere } => {
            let shop = Shop::open(context);
            let agents = chosen(&choice.names, choice.all, &shop)?;
            let plans = match everywhere {
                true => shop.everywhere(&agents),
                false => shop.plans(Action::Uninstall, &agents, choice.scope())?,
            };
            shop.carry_out(plans, choice.dry_run)
        }
        What::Status { names, all, project } => {
            let shop = Shop::open(context);
            let agents = if names.is_empty() { Agent::ALL.to_vec() } else { chosen(names, *all, &shop)? };
            let scopes: &[Scope] = if *project { &[Scope::Project] } else { &[Scope::User, Scope::Project] };
            shop.status(&agents, scopes)
        }
    }
}

impl Choice {
    fn scope(&self) -> Scope {
        if self.project { Scope::Project } else { Scope::User }
    }
}

/// Agents by their names.
pub(crate) fn named(names: &[String]) -> Result<Vec<Agent>, CommandError> {
    let known = Agent::ALL.map(Agent::name);
    let mut agents = Vec::new();
    for name in names {
        let agent = name.parse().map_err(|()| {
            let near =
                known.iter().find(|known| known.starts_with(name.as_str()) || name.starts_with(**known));
            let hint = near
                .map_or(format!("agents are {}", known.join(", ")), |near| format!("did you mean {near}?"));
            CommandError::usage(format!("no agent \"{name}\"")).with_hint(hint)
        })?;
        if !agents.contains(&agent) {
            agents.push(agent);
        }
    }
    Ok(agents)
}

fn chosen(names: &[String], all: bool, shop: &Shop<'_>) -> Result<Vec<Agent>, CommandError> {
    if all {
        return Ok(Agent::ALL.to_vec());
    }
    if names.is_empty() {
        let found: Vec<_> = shop.found().into_iter().map(Agent::name).collect();
        let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
        return Err(CommandError::usage("no agent is named").with_hint(format!(
            "name some of {}, or --all; found here: {found}",
            Agent::ALL.map(Agent::name).join(", ")
        )));
    }
    named(names)
}

/// Files that could not be written.
type Failed = Vec<(PathBuf, std::io::Error)>;

/// Everything that setting agents up needs.
pub(crate) struct Shop<'a> {
    context: &'a Context<'a>,
    around: Surroundings,
    roots: Roots,
}

impl<'a> Shop<'a> {
    pub(crate) fn open(context: &'a Context<'a>) -> Self {
        let around = Surroundings::read();
        let project = context.config.place.root.clone();
        let roots = Roots { project, user: around.home.clone().unwrap_or_default() };
        Self { context, around, roots }
    }

    /// Agents whose program is there.
    pub(crate) fn found(&self) -> Vec<Agent> {
        Agent::ALL.into_iter().filter(|agent| self.around.program(agent.program()).is_some()).collect()
    }

    /// Whether an agent is set up for the user as this version does it.
    pub(crate) fn is_current(&self, agent: Agent) -> bool {
        self.around.home.is_some() && agents::look(agent, Scope::User, &self.roots).is_current()
    }

    /// What is known about earlier installs. Where it cannot be written down, removal goes by the files alone.
    fn records(&self, turn: Turn) -> Records {
        Records::open(self.around.state.clone(), turn).unwrap_or_else(|e| {
            let state = self.around.state.clone().unwrap_or_default();
            self.context.output.message(&format!(
                "Warning: what is installed cannot be written down in {}: {e}",
                state.display()
            ));
            Records::none()
        })
    }

    pub(crate) fn plans(
        &self,
        action: Action,
        agents: &[Agent],
        scope: Scope,
    ) -> Result<Vec<Wanted>, CommandError> {
        if scope == Scope::User && self.around.home.is_none() {
            return Err(CommandError::usage("HOME is not set: the user's settings cannot be found")
                .with_hint("set HOME, or use --project"));
        }
        Ok(agents
            .iter()
            .map(|agent| Wanted { action, agent: *agent, scope, root: self.roots.project.clone() })
            .collect())
    }

    /// Everything that is recorded of some agents, and this user's and project's files besides.
    fn everywhere(&self, agents: &[Agent]) -> Vec<Wanted> {
        let records = self.records(Turn::Leave);
        let mut roots: Vec<PathBuf> = vec![self.roots.project.clone()];
        for record in records.all() {
            if let Some(root) = record.project.as_ref().filter(|root| !roots.contains(root)) {
                roots.push(root.clone());
            }
        }
        let mut wanted = Vec::new();
        for agent in agents {
            let of = |scope, root: &PathBuf| Wanted {
                action: Action::Uninstall,
                agent: *agent,
                scope,
                root: root.clone(),
            };
            if self.around.home.is_some() {
                wanted.push(of(Scope::User, &self.roots.project));
            }
            wanted.extend(roots.iter().map(|root| of(Scope::Project, root)));
        }
        wanted
    }

    /// Plans, asks on a terminal, and does it.
    pub(crate) fn carry_out(&self, wanted: Vec<Wanted>, dry_run: bool) -> Result<(), CommandError> {
        let output = self.context.output;
        let asks = !output.yes && output.can_ask();
        if dry_run || asks {
            let records = self.records(Turn::Leave);
            let plans: Vec<Plan> = wanted.iter().map(|w| w.plan(&self.roots, &records)).collect();
            if dry_run {
                return self.shown(plans, &Vec::new(), present::Mode::DryRun);
            }
            let n = plans
                .iter()
                .filter(|p| p.changes_something())
                .flat_map(|p| &p.changes)
                .filter(|c| c.is_one())
                .count();
            if n > 0 {
                output.message_page(present::page(&plans, present::Mode::Question).trim_end());
                if output.confirm("Go on?") != Some(true) {
                    return Err(CommandError::new(
                        ReasonCode::ConfirmationNeeded,
                        "not confirmed: nothing was changed",
                    ));
                }
            }
        }
        let (plans, failed) = self.done(&wanted)?;
        self.shown(plans, &failed, present::Mode::Done)
    }

    /// Does it, and gives what became of it.
    fn done(&self, wanted: &[Wanted]) -> Result<(Vec<Plan>, Failed), CommandError> {
        self.create_key();
        let mut records = self.records(Turn::Take);
        let mut plans: Vec<Plan> = wanted.iter().map(|w| w.plan(&self.roots, &records)).collect();
        let failed = plans.iter_mut().flat_map(|plan| agents::apply(plan, &mut records)).collect();
        self.context.output.record_change("the agents' files were changed");
        Ok((plans, failed))
    }

    /// Makes the key that signs entries of the outbox: a hook may run where it cannot be made.
    fn create_key(&self) {
        if let Ok(state) = &self.context.config.trust.state {
            // Without one, saves that have to wait say so.
            let _ = state.create_key();
        }
    }

    /// Sets agents up for the user, for a command that says the rest itself: the page for people, and how it ended.
    pub(crate) fn set_up(
        &self,
        agents: &[Agent],
    ) -> Result<(String, Result<(), CommandError>), CommandError> {
        let (plans, failed) = self.done(&self.plans(Action::Install, agents, Scope::User)?)?;
        Ok((present::page(&plans, present::Mode::Done), outcome(&plans, &failed)))
    }

    fn shown(&self, plans: Vec<Plan>, failed: &Failed, mode: present::Mode) -> Result<(), CommandError> {
        let output = self.context.output;
        let missing = self.around.program("milepost").is_none();
        if output.json {
            output.document(&present::Document::of(&plans, mode))?;
        } else {
            output.text(&present::page(&plans, mode))?;
            let installs = plans.iter().any(|plan| plan.action == Action::Install && plan.is_possible());
            if missing && installs {
                output.message(
                    "Warning: milepost is not on PATH: hooks and the MCP server stay silent until it is",
                );
            }
        }
        outcome(&plans, failed)
    }

    fn status(&self, agents: &[Agent], scopes: &[Scope]) -> Result<(), CommandError> {
        let output = self.context.output;
        let scopes = scopes.iter().filter(|scope| **scope == Scope::Project || self.around.home.is_some());
        let scopes: Vec<_> = scopes.copied().collect();
        let look = |agent: &Agent| {
            let program = self.around.program(agent.program());
            present::Found { agent: *agent, program, setups: agents::look_at(*agent, &scopes, &self.roots) }
        };
        let found: Vec<_> = agents.iter().map(look).collect();
        let records = self.records(Turn::Leave);
        let mut elsewhere: Vec<_> =
            records.all().iter().filter_map(|record| record.project.clone()).collect();
        elsewhere.retain(|root| *root != self.roots.project);
        elsewhere.sort();
        elsewhere.dedup();
        let program = self.around.program("milepost");
        let status = present::Status { found, program, elsewhere };
        if output.json { output.document(&status.document()) } else { output.text(&status.page(output)) }
    }
}

/// What is wanted of one agent in one place.
pub(crate) struct Wanted {
    action: Action,
    agent: Agent,
    scope: Scope,
    root: PathBuf,
}

impl Wanted {
    fn plan(&self, roots: &Roots, records: &Records) -> Plan {
        let roots = Roots { project: self.root.clone(), ..roots.clone() };
        match self.action {
            Action::Install => agents::install(self.agent, self.scope, &roots, records),
            Action::Uninstall => agents::uninstall(self.agent, self.scope, &roots, records),
        }
    }
}

/// What was refused or failed decides how it ends.
fn outcome(plans: &[Plan], failed: &Failed) -> Result<(), CommandError> {
    let refused: Vec<_> = plans.iter().flat_map(|plan| &plan.refused).collect();
    let some = plans.iter().any(|plan| plan.is_possible() && !plan.changes.is_empty());
    let exit = if some && failed.len() < plans.iter().map(|plan| plan.changes.len()).sum() {
        Exit::Partly
    } else {
        Exit::Failed
    };
    if let Some((path, e)) = failed.first() {
        let more = if failed.len() > 1 { format!(", and {} more", failed.len() - 1) } else { String::new() };
        let message = format!("{} could not be written: {e}{more}", path.display());
        return Err(CommandError::new(ReasonCode::CheckpointAtomicWriteFailed, message)
            .with_exit(exit)
            .with_hint("mend that and say it again: what is done is not done twice"));
    }
    let Some((path, why)) = refused.first() else { return Ok(()) };
    let more = if refused.len() > 1 {
        format!(" (and {} more, see above)", refused.len() - 1)
    } else {
        String::new()
    };
    let message = format!("{} is left as it is: {why}{more}", path.display());
    Err(CommandError::new(ReasonCode::AgentSettingsInvalid, message)
        .with_exit(exit)
        .with_hint("mend the file and say it again; the agent may not read it as it is, either"))
}
