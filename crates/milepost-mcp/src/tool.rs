//! The tools: one table of names, arguments and results. The doc comment on a tool's arguments is the
//! description that the model reads.

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::handler::{Call, ToolError};
use crate::{arguments, documents, schema};

/// The effect of a tool.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Changes nothing.
    Reads,
    /// Adds data and removes none.
    Adds,
    /// Changes or deletes files of the project.
    ChangesFiles,
}

struct Entry {
    name: &'static str,
    effect: Effect,
    describe: fn(&'static str, Effect) -> Tool,
    read: fn(JsonObject) -> Result<Call, ToolError>,
}

macro_rules! tools {
    ($( $name:literal $effect:ident $arguments:ty => $answer:ty, |$read:ident| $call:expr; )*) => {
        const TOOLS: &[Entry] = &[$( Entry {
            name: $name,
            effect: Effect::$effect,
            describe: describe::<$arguments, $answer>,
            read: |given| read::<$arguments>($name, given).map(|$read| $call),
        }, )*];
    };
}

tools! {
    "resume" Adds arguments::Resume => documents::Resume, |a| Call::Resume(a);
    "save" Adds arguments::Save => documents::Saved, |a| Call::Save(Box::new(a));
    "tasks" Adds arguments::Tasks => documents::Tasks, |a| Call::Tasks(a);
    "step" Adds arguments::Step => documents::Saved, |a| Call::Step(a);
    "decide" Adds arguments::Decide => documents::Saved, |a| Call::Decide(a);
    "record" Adds arguments::Record => documents::Saved, |a| Call::Record(a);
    "list" Reads arguments::List => documents::List, |a| Call::List(a);
    "search" Reads arguments::Search => documents::Search, |a| Call::Search(a);
    "show" Reads arguments::Show => documents::Show, |a| Call::Show(a);
    "diff" Reads arguments::Diff => documents::Diff, |a| Call::Diff(a);
    "complete" Adds arguments::Complete => documents::Complete, |a| Call::Complete(a);
    "patch" Reads arguments::Patch => documents::Patch, |a| Call::Patch(a);
    "file" Reads arguments::File => documents::File, |a| Call::File(a);
    "restore" ChangesFiles arguments::Restore => documents::Restore, |a| Call::Restore(a);
    "undo" ChangesFiles arguments::Undo => documents::Undo, |a| Call::Undo(a);
}

/// The definition of every tool, as agents see it.
pub fn definitions() -> Vec<Tool> {
    TOOLS.iter().map(|tool| (tool.describe)(tool.name, tool.effect)).collect()
}

/// Parses a tool call.
pub(crate) fn call(name: &str, given: Option<JsonObject>) -> Result<Call, ToolError> {
    let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) else {
        let names = TOOLS.iter().map(|tool| tool.name).collect::<Vec<_>>().join(", ");
        return Err(ToolError::usage(format!("no tool \"{name}\""), format!("the tools are {names}")));
    };
    (tool.read)(given.unwrap_or_default())
}

fn describe<A: JsonSchema, B: JsonSchema>(name: &'static str, effect: Effect) -> Tool {
    let about = schemars::schema_for!(A);
    let about = about.get("description").and_then(Value::as_str).unwrap_or_default();
    let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
    let hints = ToolAnnotations::new().open_world(false);
    let hints = match effect {
        Effect::Reads => hints.read_only(true),
        Effect::Adds => hints.read_only(false).destructive(false),
        Effect::ChangesFiles => hints.read_only(false).destructive(true),
    };
    let mut tool = Tool::new(name, about, schema::of_arguments::<A>());
    tool.output_schema = Some(schema::of_document::<B>().into());
    tool.annotations = Some(hints);
    tool
}

fn read<A: DeserializeOwned>(tool: &str, given: JsonObject) -> Result<A, ToolError> {
    let parse = |given: JsonObject| serde_json::from_value::<A>(Value::Object(given));
    parse(given.clone()).map_err(|e| {
        let why = e.to_string();
        // The argument without which the error would be different or absent.
        let culprit = given.keys().find(|name| {
            let mut rest = given.clone();
            rest.remove(*name);
            parse(rest).map_or_else(|other| other.to_string() != why, |_| true)
        });
        let argument = culprit.filter(|name| !why.contains(&format!("`{name}`")));
        let argument = argument.map_or(String::new(), |name| format!(", argument `{name}`"));
        ToolError::usage(format!("{tool}{argument}: {why}"), "tools/list returns the arguments of each tool")
    })
}
