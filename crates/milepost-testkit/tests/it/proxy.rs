//! The proxy in front of a server that sends every byte back.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use milepost_testkit::postgres::{Direction, Proxy, Target};

/// A server that returns what it gets.
fn echo() -> Target {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for client in listener.incoming() {
            thread::spawn(move || {
                let client = client.unwrap();
                let _ = std::io::copy(&mut &client, &mut &client);
            });
        }
    });
    Target::Tcp(address)
}

fn client(proxy: &Proxy) -> TcpStream {
    let client = TcpStream::connect(proxy.address()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    client
}

fn read(client: &mut TcpStream, len: usize) -> Vec<u8> {
    let mut buffer = vec![0; len];
    client.read_exact(&mut buffer).unwrap();
    buffer
}

/// Reads until the connection ends.
fn rest(client: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    // A closed connection can also be reported as reset.
    let _ = client.read_to_end(&mut all);
    all
}

#[test]
fn bytes_are_forwarded_and_counted() {
    let proxy = Proxy::start(echo()).unwrap();
    let mut client = client(&proxy);
    client.write_all(b"hello").unwrap();
    assert_eq!(read(&mut client, 5), b"hello");
    assert_eq!((proxy.forwarded(Direction::ToServer), proxy.forwarded(Direction::ToClient)), (5, 5));
}

#[test]
fn a_cut_closes_connections_and_lets_new_ones_in() {
    let proxy = Proxy::start(echo()).unwrap();
    let mut first = client(&proxy);
    first.write_all(b"a").unwrap();
    assert_eq!(read(&mut first, 1), b"a");
    proxy.cut();
    assert_eq!(rest(&mut first), b"");
    let mut second = client(&proxy);
    second.write_all(b"b").unwrap();
    assert_eq!(read(&mut second, 1), b"b");
    proxy.refuse_connections(true);
    assert_eq!(rest(&mut client(&proxy)), b"");
}

#[test]
fn a_cut_at_a_byte_forwards_exactly_the_bytes_before_it() {
    let proxy = Proxy::start(echo()).unwrap();
    let mut first = client(&proxy);
    proxy.cut_after(Direction::ToClient, 3);
    first.write_all(b"hello").unwrap();
    assert_eq!(rest(&mut first), b"hel");
    assert_eq!(proxy.forwarded(Direction::ToServer), 5);
    let mut second = client(&proxy);
    proxy.cut_after(Direction::ToServer, 0);
    second.write_all(b"lost").unwrap();
    assert_eq!(rest(&mut second), b"");
    assert_eq!(proxy.forwarded(Direction::ToServer), 5);
}

#[test]
fn a_pause_keeps_the_bytes_and_the_connection() {
    let proxy = Proxy::start(echo()).unwrap();
    let mut client = client(&proxy);
    proxy.pause_after(Direction::ToClient, 2);
    client.write_all(b"hello").unwrap();
    assert_eq!(read(&mut client, 2), b"he");
    client.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(client.read_exact(&mut [0]).is_err());
    assert!(proxy.is_paused());
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    proxy.resume();
    assert_eq!(read(&mut client, 3), b"llo");
    proxy.pause();
    client.write_all(b"again").unwrap();
    proxy.cut();
    assert_eq!(rest(&mut client), b"");
}
