//! Parses one line of input. Returns a JSON-RPC message, or the error response to the line. Does no I/O.

use rmcp::model::{ClientJsonRpcMessage, ErrorCode};
use serde_json::{Value, json};

/// Maximum size of one message: the largest input of a command, 64 MiB, plus the rest of the call.
pub(crate) const MAX_BYTES: usize = 65 << 20;

/// A byte order mark, which JSON parsers may skip (RFC 8259, 8.1).
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The result of parsing a line.
#[derive(Debug)]
pub(crate) enum ParsedLine {
    Message(Box<ClientJsonRpcMessage>),
    /// The line is not a message. Contains the error response.
    Refused(Value),
    /// The line gets no response: it is empty, a malformed notification, or a response to a request that this
    /// server never sent.
    Ignored,
}

/// Parses a line.
pub(crate) fn parse(line: &[u8]) -> ParsedLine {
    let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
    if line.trim_ascii().is_empty() {
        return ParsedLine::Ignored;
    }
    if let Ok(message) = serde_json::from_slice(line) {
        return ParsedLine::Message(Box::new(message));
    }
    let value = match serde_json::from_slice::<Value>(line) {
        Ok(value) => value,
        Err(e) => {
            let why = format!("the message is not valid JSON: {e}");
            return ParsedLine::Refused(error(ErrorCode::PARSE_ERROR, &why, Value::Null));
        }
    };
    let has = |member: &str| value.get(member).is_some();
    let is_response = !has("method") && (has("result") || has("error"));
    let is_notification = value["jsonrpc"] == "2.0" && value["method"].is_string() && !has("id");
    if is_response || is_notification {
        return ParsedLine::Ignored;
    }
    let id = value.get("id").filter(|id| id.is_string() || id.is_number()).cloned();
    let why = "the message is not a JSON-RPC 2.0 request or notification";
    ParsedLine::Refused(error(ErrorCode::INVALID_REQUEST, why, id.unwrap_or_default()))
}

/// The response to a line that is longer than [`MAX_BYTES`]. Its id is unknown: the line was not kept.
pub(crate) fn too_long() -> Value {
    let why = format!("the message is longer than {MAX_BYTES} bytes, the limit for one message");
    error(ErrorCode::INVALID_REQUEST, &why, Value::Null)
}

/// The response to a request with the id of another request that is not answered yet.
pub(crate) fn id_in_use(id: Value) -> Value {
    let why = "a request with this id is still being processed; every request needs a unique id";
    error(ErrorCode::INVALID_REQUEST, why, id)
}

/// An error response. rmcp's own type omits an unknown id, but JSON-RPC requires null.
fn error(code: ErrorCode, message: &str, id: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "tests")]

    use super::*;

    /// The code and id of the error response to a line.
    fn refused(line: &[u8]) -> (i64, Value) {
        match parse(line) {
            ParsedLine::Refused(answer) => {
                assert_eq!(answer["jsonrpc"], "2.0");
                (answer["error"]["code"].as_i64().unwrap_or_default(), answer["id"].clone())
            }
            other => panic!("{}: {other:?}", String::from_utf8_lossy(line)),
        }
    }

    #[test]
    fn what_is_no_json_is_a_parse_error() {
        let deep = "[".repeat(100_000);
        let deep = deep.as_bytes();
        for line in [&b"garbage"[..], b"{", b"{\"id\":1,}", b"\xff\xfe", b"{} {}", b"\0", deep] {
            assert_eq!(refused(line), (-32700, Value::Null));
        }
    }

    #[test]
    fn what_is_no_message_is_an_invalid_request_with_its_id() {
        for (line, id) in [
            ("{}", Value::Null),
            ("[]", Value::Null),
            ("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", Value::Null),
            ("7", Value::Null),
            ("null", Value::Null),
            ("{\"jsonrpc\":\"2.0\",\"id\":7}", json!(7)),
            ("{\"id\":\"a\",\"method\":\"ping\"}", json!("a")),
            ("{\"jsonrpc\":\"1.0\",\"id\":8,\"method\":\"ping\"}", json!(8)),
            ("{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", json!(1.5)),
            ("{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", Value::Null),
            ("{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":5}", json!(9)),
            ("{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"ping\",\"result\":{}}", json!(9)),
            ("{\"jsonrpc\":\"2.0\",\"method\":1,\"params\":\"bar\"}", Value::Null),
        ] {
            assert_eq!(refused(line.as_bytes()), (-32600, id), "{line}");
        }
    }

    #[test]
    fn messages_are_read_and_what_wants_no_answer_gets_none() {
        for line in [
            &b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"[..],
            b"\xEF\xBB\xBF{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r",
            b"{\"jsonrpc\":\"2.0\",\"method\":\"$/unknown\",\"params\":{\"a\":7}}",
        ] {
            assert!(matches!(parse(line), ParsedLine::Message(_)), "{}", String::from_utf8_lossy(line));
        }
        // A response to a response would cause an endless exchange with a peer that echoes its input.
        for line in [
            "",
            "  \r",
            "{\"id\":1,\"result\":{}}",
            "{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":7}",
            "{\"jsonrpc\":\"2.0\",\"method\":\"$/unknown\",\"params\":7}",
        ] {
            assert!(matches!(parse(line.as_bytes()), ParsedLine::Ignored), "{line}");
        }
    }

    #[test]
    fn an_answer_that_is_echoed_is_not_answered() {
        for answer in [too_long(), id_in_use(json!(3))] {
            let echoed = parse(answer.to_string().as_bytes());
            assert!(!matches!(echoed, ParsedLine::Refused(_)), "{echoed:?}");
        }
    }
}
