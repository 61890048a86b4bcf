//! The MCP server of Milepost, which agents call over stdin and stdout while they work. Takes a tool handler,
//! and defines the tools with their arguments and schemas, the resources and the prompt. Must not write
//! anything but the protocol to stdout, open a store or read the environment: the handler does the work.

pub mod arguments;
pub mod documents;
mod handler;
mod line;
mod message;
mod resource;
mod schema;
mod server;
mod tool;
mod transport;

use std::sync::Arc;
use std::time::Duration;

use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use tokio::io::{AsyncRead, AsyncWrite};

pub use handler::{Call, ToolError, ToolHandler, ToolOutput};
pub use tool::definitions;

/// Maximum time for cancelled calls to finish after the agent has disconnected. All other calls are answered
/// before the server exits.
const LAST_CALLS: Duration = Duration::from_secs(20);

/// Serves an agent on stdin and stdout until stdin ends and every request is answered.
pub fn serve(handler: impl ToolHandler) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(serve_on(handler, tokio::io::stdin(), tokio::io::stdout()));
    // Waits for running calls, but not for a pending read of stdin.
    runtime.shutdown_timeout(LAST_CALLS);
    served
}

/// Serves an agent on a pair of streams until the input ends and every request is answered.
pub async fn serve_on(
    handler: impl ToolHandler,
    input: impl AsyncRead + Unpin + Send + 'static,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> std::io::Result<()> {
    let server = server::Server::new(Arc::new(handler));
    match server.serve(transport::LineTransport::new(input, output)).await {
        Ok(running) => running.waiting().await.map(drop).map_err(std::io::Error::other),
        // The agent disconnected before it sent a message.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(e) => Err(std::io::Error::other(e.to_string())),
    }
}
