//! Messages of the MCP protocol: the server answers any lines with lines that are JSON-RPC, and ends when its input ends.

use std::sync::Arc;

use milepost_mcp::{Call, ToolError, ToolHandler, ToolOutput};
use tokio::io::AsyncReadExt as _;

/// Answers every call with its arguments.
struct Echo;

impl ToolHandler for Echo {
    fn call(&self, call: Call) -> Result<ToolOutput, ToolError> {
        let text = format!("{call:?}");
        if text.contains("fail") {
            return Err(ToolError::usage(text, "call the tool with other arguments"));
        }
        Ok(ToolOutput { document: serde_json::json!({ "call": text }), text, notes: Vec::new() })
    }
}

pub(super) fn run(data: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let input: Arc<[u8]> = data.into();
    let output = runtime.block_on(async move {
        let (writer, mut reader) = tokio::io::duplex(64 << 10);
        let served = tokio::spawn(milepost_mcp::serve_on(Echo, std::io::Cursor::new(input), writer));
        let mut output = Vec::new();
        reader.read_to_end(&mut output).await.expect("the output can be read");
        // The server may refuse the first message, which must be `initialize`.
        drop(served.await.expect("the server does not panic"));
        output
    });
    for line in output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let answer: serde_json::Value = serde_json::from_slice(line).expect("an answer is JSON");
        assert_eq!(answer["jsonrpc"], "2.0");
    }
}
