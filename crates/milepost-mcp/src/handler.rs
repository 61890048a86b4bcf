//! The handler of tool calls: what the server calls, on a thread that may block, and what it returns. The
//! server itself implements only the protocol.

use serde_json::Value;

use crate::arguments;

/// A call from an agent, with parsed arguments.
#[derive(Debug, Clone)]
pub enum Call {
    /// The tool `save`.
    Save(Box<arguments::Save>),
    /// The tool `list`.
    List(arguments::List),
    /// The tool `search`.
    Search(arguments::Search),
    /// The tool `show`.
    Show(arguments::Show),
    /// The tool `diff`.
    Diff(arguments::Diff),
    /// The tool `resume`, and the prompt of the same name.
    Resume(arguments::Resume),
    /// The tool `decide`.
    Decide(arguments::Decide),
    /// The tool `record`.
    Record(arguments::Record),
    /// The tool `tasks`.
    Tasks(arguments::Tasks),
    /// The tool `step`.
    Step(arguments::Step),
    /// The tool `complete`.
    Complete(arguments::Complete),
    /// The tool `restore`.
    Restore(arguments::Restore),
    /// The tool `undo`.
    Undo(arguments::Undo),
    /// The tool `file`.
    File(arguments::File),
    /// The tool `patch`.
    Patch(arguments::Patch),
    /// The resource of the latest brief.
    LatestBrief,
    /// The list of runs. Each run is a resource.
    Runs,
    /// The resource of one run.
    Run(String),
}

/// The result of a call.
#[derive(Debug, Clone, Default)]
pub struct ToolOutput {
    /// The document that the command of the same name prints with `--json`.
    pub document: Value,
    /// The text that the model reads.
    pub text: String,
    /// Notes that accompany the document.
    pub notes: Vec<String>,
}

/// The error of a call.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ToolError {
    /// Always `error`.
    pub r#type: &'static str,
    /// The reason code, for programs.
    pub reason_code: String,
    /// What happened.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The exit code of the corresponding command.
    pub exit: u8,
}

impl ToolError {
    /// An error for invalid arguments.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            r#type: "error",
            reason_code: milepost::ReasonCode::Usage.to_string(),
            message: message.into(),
            hint: Some(hint.into()),
            exit: 2,
        }
    }

    /// An error for a call that ended without a result, because it was cancelled or because of a bug.
    pub(crate) fn interrupted(why: impl std::fmt::Display) -> Self {
        Self {
            r#type: "error",
            reason_code: "internal_error".to_owned(),
            message: format!("the call ended without a result: {why}"),
            hint: Some(
                "check whether it took effect before you repeat it; `milepost doctor` may report more".into(),
            ),
            exit: 1,
        }
    }
}

/// Handles calls, one at a time.
pub trait ToolHandler: Send + Sync + 'static {
    /// Handles a call. May block.
    fn call(&self, call: Call) -> Result<ToolOutput, ToolError>;
}
