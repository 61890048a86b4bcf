//! The transport of the server: one JSON-RPC message per line over a pair of streams, such as stdin and
//! stdout. Passes messages to rmcp and writes its responses. Responds itself to lines that are not messages.
//! Reports the end of input to rmcp only after every response is written, because rmcp drops calls that take
//! longer than five seconds after the end.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

use crate::line::{Line, LineReader};
use crate::message::{self, ParsedLine};

/// Messages over a pair of streams.
pub(crate) struct LineTransport<R, W> {
    lines: LineReader<BufReader<R>>,
    output: Arc<Mutex<W>>,
    /// Requests that have been read but not yet answered.
    unanswered: watch::Sender<HashSet<RequestId>>,
    /// Error responses that the transport writes itself. A separate task writes each one: rmcp drops the
    /// future of `receive` when it has other work, which would truncate a line.
    refusals: JoinSet<()>,
}

impl<R, W> LineTransport<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    pub(crate) fn new(input: R, output: W) -> Self {
        Self {
            lines: LineReader::new(BufReader::with_capacity(64 << 10, input), message::MAX_BYTES),
            output: Arc::new(Mutex::new(output)),
            unanswered: watch::Sender::default(),
            refusals: JoinSet::new(),
        }
    }

    fn refuse(&mut self, answer: &serde_json::Value) {
        let (output, line) = (self.output.clone(), answer.to_string());
        self.refusals.spawn(async move {
            // If stdout is closed, the error cannot be reported.
            let _ = write(&output, line.into_bytes()).await;
        });
    }

    /// Whether a message is passed to rmcp.
    fn accepts(&mut self, message: &ClientJsonRpcMessage) -> bool {
        match message {
            JsonRpcMessage::Request(request) => {
                let is_new = self.unanswered.send_if_modified(|ids| ids.insert(request.id.clone()));
                if !is_new {
                    self.refuse(&message::id_in_use(request.id.clone().into_json_value()));
                }
                is_new
            }
            // Only cancellations are passed: the server uses no other notification, and rmcp fails on one
            // that precedes `initialize`.
            JsonRpcMessage::Notification(notification) => match &notification.notification {
                ClientNotification::CancelledNotification(cancelled) => {
                    let id = cancelled.params.request_id.as_ref();
                    // rmcp does not respond to a cancelled request.
                    id.is_some_and(|id| self.unanswered.send_if_modified(|ids| ids.remove(id)))
                }
                _ => false,
            },
            // The server sends no requests, so it expects no responses.
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => false,
        }
    }
}

impl<R, W> Transport<RoleServer> for LineTransport<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = io::Error;

    /// The name in error messages.
    fn name() -> Cow<'static, str> {
        "stdio".into()
    }

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (output, unanswered) = (self.output.clone(), self.unanswered.clone());
        async move {
            let written = match serde_json::to_vec(&message) {
                Ok(line) => write(&output, line).await,
                Err(e) => Err(e.into()),
            };
            let answered = match &message {
                JsonRpcMessage::Response(response) => Some(&response.id),
                JsonRpcMessage::Error(error) => error.id.as_ref(),
                _ => None,
            };
            if let Some(id) = answered {
                unanswered.send_if_modified(|ids| ids.remove(id));
            }
            written
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            // A peer that sends invalid lines faster than it reads the responses must wait, so that the
            // responses do not accumulate.
            while self.refusals.join_next().await.is_some() {}
            match self.lines.next().await {
                Ok(Line::Whole(line)) => match message::parse(&line) {
                    ParsedLine::Message(message) if self.accepts(&message) => return Some(*message),
                    ParsedLine::Message(_) | ParsedLine::Ignored => {}
                    ParsedLine::Refused(answer) => self.refuse(&answer),
                },
                Ok(Line::TooLong) => self.refuse(&message::too_long()),
                Ok(Line::End) | Err(_) => break,
            }
        }
        let _ = self.unanswered.subscribe().wait_for(HashSet::is_empty).await;
        None
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.output.lock().await.flush().await
    }
}

/// Writes one complete line. Holds the lock, so that concurrent lines are not interleaved.
async fn write(output: &Mutex<impl AsyncWrite + Unpin>, mut line: Vec<u8>) -> io::Result<()> {
    line.push(b'\n');
    let mut output = output.lock().await;
    output.write_all(&line).await?;
    output.flush().await
}
