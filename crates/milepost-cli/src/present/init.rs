//! The result of `init`: the store, the configuration file and the agents that were set up.

use serde::Serialize;

use super::agents::SetupDocument;
use super::format::clean;
use super::{Document, Output};
use crate::agents::Agent;
use crate::error::{CommandError, Result};

#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.init/1")]
pub(crate) struct InitDocument {
    pub(crate) store: String,
    pub(crate) config: String,
    pub(crate) created: bool,
    pub(crate) config_created: bool,
    pub(crate) agents: Vec<Agent>,
    #[serde(skip)]
    pub(crate) setup: Option<SetupDocument>,
    #[serde(skip)]
    pub(crate) is_on_server: bool,
    /// A warning about the store.
    #[serde(skip)]
    pub(crate) warning: Option<String>,
}

impl Document for InitDocument {
    fn render(&self, output: &Output) -> Result<()> {
        let made = |new| if new { "created" } else { "already exists" };
        let state = if self.is_on_server { "ready" } else { made(self.created) };
        let mut text = format!("Store   {} ({state})\n", clean(&self.store));
        text.push_str(&format!("Config  {} ({})\n", clean(&self.config), made(self.config_created)));
        text.push_str(match self.is_on_server {
            false => {
                "Summaries, tasks, state, briefs and changed files with their contents are\n\
                 recorded in this store and stay on this machine.\n"
            }
            true => {
                "Summaries, tasks, state, briefs and changed files with their contents are\n\
                 sent to this server, where its users can read them. Files in which secrets\n\
                 are found stay on this machine.\n"
            }
        });
        match &self.setup {
            None => text.push_str("Next: milepost save \"what you are doing\"\n"),
            Some(setup) => {
                text.push_str(
                    "Prompts, short tool results and to-do lists of the agents are recorded as well.\n",
                );
                text.push_str(&setup.page());
            }
        }
        if let Some(warning) = &self.warning {
            output.message(&format!("Warning: {warning}"));
        }
        output.write_text(&text)
    }

    fn change(&self) -> Option<String> {
        Some(format!("the store {} is ready", self.store))
    }

    fn error(&self) -> Option<CommandError> {
        self.setup.as_ref().and_then(Document::error)
    }
}
