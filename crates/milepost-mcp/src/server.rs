//! Implements the protocol. Every request becomes a call to the tool handler on a thread that may block, and
//! every refusal becomes a tool result that the model can read. Only requests without a tool result, such as
//! for a missing resource, return a protocol error.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult,
    ErrorCode, ErrorData, GetPromptRequestParams, GetPromptResponse, GetPromptResult, Implementation,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, Prompt, PromptArgument, PromptMessage, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, ResourceContents, Role, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;

use crate::handler::{Call, ToolError, ToolHandler, ToolOutput};
use crate::{arguments, resource, tool};

/// The instructions that the model gets before its first call.
const INSTRUCTIONS: &str = "Milepost keeps checkpoints of this work, so that it can be continued after a \
crash, a usage limit or in a new session. Call the `resume` tool first, before anything else: it returns the \
brief of the work that was interrupted here, or reports that there is none. If you continue that work, call \
`resume` with start true. While you work, use `tasks` for your plan and its changes, `decide` for decisions \
that must not be reopened, `record` for commands that failed or matter, and `save` with a summary when a step \
or phase ends and before you stop. `patch`, `file` and `restore` compare, read and bring back earlier versions \
of files, and `undo` reverts a restore. Verify the statements of a brief against the files before you act on \
them. Errors have a reason_code and a hint.";

pub(crate) struct Server {
    handler: Arc<dyn ToolHandler>,
    /// Held during a call. Calls run one at a time, in the order they arrived: concurrent calls would only
    /// wait for each other at the store, some of them for too long.
    turn: tokio::sync::Mutex<()>,
}

impl Server {
    pub(crate) fn new(handler: Arc<dyn ToolHandler>) -> Self {
        Self { handler, turn: tokio::sync::Mutex::default() }
    }

    /// Runs a call on a thread that may block, after all earlier calls are done.
    async fn call(&self, call: Call) -> Result<ToolOutput, ToolError> {
        self.call_unless(call, || false).await
    }

    /// Runs a call like [`Self::call`], unless it was cancelled while it waited for the lock.
    async fn call_unless(&self, call: Call, cancelled: impl Fn() -> bool) -> Result<ToolOutput, ToolError> {
        let _turn = self.turn.lock().await;
        if cancelled() {
            return Err(ToolError::interrupted("it was cancelled before it started"));
        }
        let handler = self.handler.clone();
        let asked = tokio::task::spawn_blocking(move || handler.call(call));
        asked.await.unwrap_or_else(|e| Err(ToolError::interrupted(e)))
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let can = ServerCapabilities::builder().enable_tools().enable_resources().enable_prompts().build();
        let mut name = Implementation::new("milepost", env!("CARGO_PKG_VERSION"));
        name.title = Some("Milepost".into());
        ServerConfig::new(can).with_server_info(name).with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tool::definitions()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let answered = match tool::call(&request.name, request.arguments) {
            Ok(call) => self.call_unless(call, || context.ct.is_cancelled()).await,
            Err(error) => Err(error),
        };
        Ok(result(answered).into())
    }

    /// Returns a tool result with the error for a `tools/call` whose params are invalid.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if request.method != "tools/call" {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None));
        }
        let hint = "params has a string `name` and, optionally, an object `arguments`";
        let refused = result(Err(ToolError::usage("tools/call: invalid params", hint)));
        Ok(CustomResult::new(serde_json::to_value(refused).unwrap_or_default()))
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let from = request.and_then(|request| request.cursor).map_or(Ok(0), |cursor| {
            cursor
                .parse::<usize>()
                .map_err(|_| ErrorData::invalid_params(format!("invalid cursor \"{cursor}\""), None))
        })?;
        // If the runs cannot be read, reading the brief reports the reason.
        let runs = self.call(Call::Runs).await.unwrap_or_default();
        let (resources, next) = resource::page(&runs.document, from);
        let mut page = ListResourcesResult::with_all_items(resources);
        page.next_cursor = next.map(|next| next.to_string());
        Ok(page)
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(vec![resource::template()]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        let Some(kind) = resource::at(&uri) else {
            let known = format!("use {} or {}", resource::BRIEF, resource::template().uri_template);
            return Err(ErrorData::resource_not_found(format!("no resource \"{uri}\": {known}"), None));
        };
        let output = self.call(kind.call).await.map_err(|error| not_found(&error))?;
        let content = ResourceContents::text(output.text, uri).with_mime_type(kind.mime);
        Ok(ReadResourceResult::new(vec![content]).into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let run =
            PromptArgument::new("run").with_description("Run to resume. Default: the one interrupted last");
        let budget = PromptArgument::new("budget").with_description("Maximum length of the brief in tokens");
        let arguments = [run, budget].map(|argument| argument.with_required(false)).into();
        let about = "Continue the work that was interrupted here";
        Ok(ListPromptsResult::with_all_items(vec![Prompt::new("resume", Some(about), Some(arguments))]))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if request.name != "resume" {
            let message = format!("no prompt \"{}\"; the only prompt is `resume`", request.name);
            return Err(ErrorData::invalid_params(message, None));
        }
        let call = Call::Resume(prompt_arguments(&request.arguments.unwrap_or_default())?);
        let text = match self.call(call).await {
            Ok(output) => output.text,
            // A person sent the prompt, so the agent gets the error as text to report.
            Err(error) => describe_error(&error),
        };
        let message = PromptMessage::new_text(Role::User, text);
        Ok(GetPromptResult::new(vec![message]).into())
    }
}

/// Parses the arguments of the prompt, which are all strings.
fn prompt_arguments(given: &serde_json::Map<String, Value>) -> Result<arguments::Resume, ErrorData> {
    let text = |name: &str| given.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let number = |text: &str| {
        text.trim().parse().map_err(|_| {
            ErrorData::invalid_params(format!("budget: \"{text}\" is not a whole number, 0 or more"), None)
        })
    };
    let (run, budget) = (text("run").map(str::to_owned), text("budget").map(number).transpose()?);
    Ok(arguments::Resume { run, budget, ..Default::default() })
}

/// The tool result of a call.
fn result(answered: Result<ToolOutput, ToolError>) -> CallToolResult {
    match answered {
        Ok(ToolOutput { document, text, notes }) => {
            let mut content = vec![ContentBlock::text(text)];
            content.extend((!notes.is_empty()).then(|| ContentBlock::text(notes.join("\n"))));
            let mut result = CallToolResult::success(content);
            result.structured_content = Some(document);
            result
        }
        Err(error) => {
            let line = serde_json::to_string(&error).unwrap_or_else(|_| error.message.clone());
            CallToolResult::error(vec![ContentBlock::text(line)])
        }
    }
}

fn describe_error(error: &ToolError) -> String {
    let hint = error.hint.as_ref().map_or(String::new(), |hint| format!("\nHint: {hint}"));
    format!("Milepost could not determine what to resume: {} ({}){hint}", error.message, error.reason_code)
}

fn not_found(error: &ToolError) -> ErrorData {
    let data = serde_json::to_value(error).ok();
    ErrorData::resource_not_found(format!("{} ({})", error.message, error.reason_code), data)
}
