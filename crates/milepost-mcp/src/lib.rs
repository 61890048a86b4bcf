//! The MCP server of Milepost: what agents call while they work, over stdin and stdout.
//! In: a tool handler. Out: the protocol, and nothing else on stdout. Knows tools, their arguments and
//! schemas, resources and the prompt; opens no store and reads no environment: that is the handler's.

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

pub use handler::{Call, ToolError, ToolHandler, ToolOutput};
pub use tool::definitions;

/// How long calls that were cancelled may take once the agent has gone. Others are answered before the server ends.
const LAST_CALLS: Duration = Duration::from_secs(20);

/// Serves an agent on stdin and stdout until stdin ends and every request has its answer.
pub fn serve(handler: impl ToolHandler) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let server = server::Server::new(Arc::new(handler));
        let transport = transport::LineTransport::new(tokio::io::stdin(), tokio::io::stdout());
        match server.serve(transport).await {
            Ok(running) => running.waiting().await.map(drop).map_err(std::io::Error::other),
            // An agent that goes before it has said anything wanted nothing.
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(e) => Err(std::io::Error::other(e.to_string())),
        }
    });
    // What is being written is written to its end; a read of stdin that nobody answers is not waited for.
    runtime.shutdown_timeout(LAST_CALLS);
    served
}
