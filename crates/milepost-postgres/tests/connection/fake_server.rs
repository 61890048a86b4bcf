//! A server that speaks just enough of the protocol to be too old, or to be starting up.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use milepost_postgres::connection::{ConnectError, MINIMUM_SERVER_VERSION};

use crate::fixture::open;

/// One message of the protocol.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len() + 4).unwrap();
    [&[kind][..], &len.to_be_bytes(), body].concat()
}

fn error_response(code: &str, text: &str) -> Vec<u8> {
    message(b'E', format!("SFATAL\0VFATAL\0C{code}\0M{text}\0\0").as_bytes())
}

/// Lets everybody in and answers each query with one column.
fn row(text: &str) -> Vec<u8> {
    let len = u32::try_from(text.len()).unwrap().to_be_bytes();
    let column = [b"v\0".as_slice(), &[0; 6], &25u32.to_be_bytes(), &[255, 255], &[255; 4], &[0, 0]].concat();
    [
        message(b'T', &[&[0, 1][..], &column].concat()),
        message(b'D', &[&[0, 1][..], &len, text.as_bytes()].concat()),
        message(b'C', b"SHOW\0"),
        message(b'Z', b"I"),
    ]
    .concat()
}

/// Reads one message. The first one of a connection has no kind.
fn read(client: &mut TcpStream, has_kind: bool) -> Option<()> {
    let mut header = vec![0; if has_kind { 5 } else { 4 }];
    client.read_exact(&mut header).ok()?;
    let len = u32::from_be_bytes(header[header.len() - 4..].try_into().unwrap());
    client.read_exact(&mut vec![0; len as usize - 4]).ok()
}

/// The port of a server that answers the start of a connection, and then each message.
fn server(start: Vec<u8>, answer: Vec<u8>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            if read(&mut client, false).is_none() || client.write_all(&start).is_err() {
                continue;
            }
            while read(&mut client, true).is_some() && client.write_all(&answer).is_ok() {}
        }
    });
    port
}

fn error(port: u16) -> ConnectError {
    open(&format!("host=127.0.0.1 port={port} user=ann sslmode=disable")).err().unwrap()
}

#[test]
fn a_server_that_is_too_old() {
    let start = [message(b'R', &[0; 4]), message(b'Z', b"I")].concat();
    let error = error(server(start.clone(), row("120022")));
    assert!(
        matches!(&error, ConnectError::ServerTooOld { found, minimum, .. } if found == "12.22" && *minimum == MINIMUM_SERVER_VERSION),
        "{error}"
    );
    assert!(!error.is_retryable());
    let port = server(start, row("130001"));
    open(&format!("host=127.0.0.1 port={port} user=ann sslmode=disable")).unwrap();
}

#[test]
fn a_server_that_is_starting_up_or_shutting_down() {
    for (code, text) in [
        ("57P03", "the database system is starting up"),
        ("57P03", "the database system is shutting down"),
        ("57P01", "terminating connection due to administrator command"),
    ] {
        let error = error(server(error_response(code, text), Vec::new()));
        assert!(matches!(&error, ConnectError::NotReady { message, .. } if message == text), "{error}");
        assert!(error.is_retryable());
    }
}
