//! The handler of tool calls. The server speaks the protocol and calls the handler, on a thread that may block.

use serde_json::Value;

use crate::arguments;

/// What an agent asks for, its arguments read and checked.
#[derive(Debug, Clone)]
pub enum Call {
    /// The tool `save`.
    Save(Box<arguments::Save>),
    /// The tool `list`.
    List(arguments::List),
    /// The tool `show`.
    Show(arguments::Show),
    /// The tool `diff`.
    Diff(arguments::Diff),
    /// The tool `resume`, and the prompt of that name.
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
    /// The resource that is the latest brief.
    LatestBrief,
    /// The list of runs, of which each is a resource.
    Runs,
    /// The resource that is one run.
    Run(String),
}

/// The result of a call.
#[derive(Debug, Clone, Default)]
pub struct ToolOutput {
    /// The document that the command of that name gives with `--json`.
    pub document: Value,
    /// What the model reads.
    pub text: String,
    /// Notes that accompany the document.
    pub notes: Vec<String>,
}

/// The error of a call.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ToolError {
    /// Always `error`.
    pub r#type: &'static str,
    /// The word for programs.
    pub reason_code: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The exit code that the command would have had.
    pub exit: u8,
}

impl ToolError {
    /// Arguments that are wrong.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            r#type: "error",
            reason_code: milepost::ReasonCode::Usage.to_string(),
            message: message.into(),
            hint: Some(hint.into()),
            exit: 2,
        }
    }

    /// A call that ended without an answer, which is a mistake of this program's.
    pub(crate) fn interrupted(why: impl std::fmt::Display) -> Self {
        Self {
            r#type: "error",
            reason_code: "internal_error".to_owned(),
            message: format!("the call ended without an answer: {why}"),
            hint: Some(
                "look whether it is there before you repeat it; `milepost doctor` may say more".into(),
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
