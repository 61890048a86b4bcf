//! The byte stream of a connection: negotiates TLS with the server, and gives the driver one kind of stream,
//! with and without TLS. Must not decide whether TLS is wanted, or limit the time: the caller does.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Asks the server for TLS: a length of 8 and the code 80877103.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// How a connection begins.
#[derive(Clone)]
pub(super) enum Negotiation {
    /// Without TLS.
    Plain,
    /// With TLS if the server offers it, else without if that is allowed.
    Ask { tls: MakeRustlsConnect, is_plain_allowed: bool },
    /// With TLS at once.
    Direct { tls: MakeRustlsConnect },
}

/// Why TLS could not be used.
#[derive(Debug, Error)]
pub(super) enum TlsFailure {
    #[error("the server does not offer TLS")]
    NotOffered,
    #[error(transparent)]
    Handshake(io::Error),
}

/// Makes connections for the driver, which must be told to begin with TLS directly: this type negotiates.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) negotiation: Negotiation,
}

type Tls = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

impl MakeTlsConnect<Socket> for Connector {
    type Stream = Stream;
    type TlsConnect = Connection;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Connection> {
        Ok(Connection { connector: self.clone(), host: host.to_owned() })
    }
}

/// One connection that is about to begin.
pub(super) struct Connection {
    connector: Connector,
    host: String,
}

impl TlsConnect<Socket> for Connection {
    type Stream = Stream;
    type Error = TlsFailure;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, TlsFailure>> + Send>>;

    fn connect(self, stream: Socket) -> Self::Future {
        Box::pin(async move {
            match self.connector.negotiation {
                Negotiation::Plain => Ok(Stream::Plain(stream)),
                Negotiation::Direct { tls } => handshake(tls, &self.host, stream).await,
                Negotiation::Ask { tls, is_plain_allowed } => {
                    let mut stream = stream;
                    let is_offered = ask(&mut stream).await.map_err(TlsFailure::Handshake)?;
                    match (is_offered, is_plain_allowed) {
                        (true, _) => handshake(tls, &self.host, stream).await,
                        (false, true) => Ok(Stream::Plain(stream)),
                        (false, false) => Err(TlsFailure::NotOffered),
                    }
                }
            }
        })
    }
}

/// Whether the server offers TLS. Reads a single byte: more could have been injected before encryption.
async fn ask(stream: &mut Socket) -> io::Result<bool> {
    stream.write_all(&SSL_REQUEST).await?;
    stream.flush().await?;
    match stream.read_u8().await? {
        b'S' => Ok(true),
        b'N' => Ok(false),
        // A server that is overloaded or not PostgreSQL.
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "unexpected answer to the request for TLS")),
    }
}

async fn handshake(mut tls: MakeRustlsConnect, host: &str, stream: Socket) -> Result<Stream, TlsFailure> {
    let connect = match MakeTlsConnect::<Socket>::make_tls_connect(&mut tls, host) {
        Ok(connect) => connect,
        Err(never) => match never {},
    };
    connect.connect(stream).await.map(|tls| Stream::Tls(Box::new(tls))).map_err(TlsFailure::Handshake)
}

/// A stream with or without TLS.
pub(super) enum Stream {
    Plain(Socket),
    Tls(Box<Tls>),
}

impl TlsStream for Stream {
    fn channel_binding(&self) -> ChannelBinding {
        match self {
            Self::Plain(_) => ChannelBinding::none(),
            Self::Tls(tls) => tls.channel_binding(),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
