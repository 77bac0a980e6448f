//! SQL texts: by tables, by a real PostgreSQL where it can judge, and with damaged texts.

mod cleanup;
mod damage;
mod judged;
mod settings;
mod texts;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::OnceLock;
use std::time::Duration;

use pgwire::frame::{Backend, HEAD, Tag};
use pgwire::message::{Status, read, write};
use pgwire::startup::{Version, write_startup};
use postgres::Private;

use pgtest::{Bound, Proof, password_of};

/// The server of all tests here; it ends with this process.
fn server() -> &'static Private {
    // PostgreSQL's own number, and more than any test has at once.
    static CONNECTIONS: Bound = Bound::of(100, 15);
    static SERVER: OnceLock<Private> = OnceLock::new();
    CONNECTIONS.enter();
    SERVER.get_or_init(|| {
        let parameters =
            [("fsync", "off"), ("shared_buffers", "16MB"), ("client_min_messages", "error")];
        let parameters =
            parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Private::start(&postgres::Settings { parameters, ..postgres::Settings::default() }).unwrap()
    })
}

/// Reply of a server, as far as it is looked at.
#[derive(Clone, Debug, PartialEq)]
enum Said {
    Complete(Vec<u8>),
    Row(Vec<Option<Vec<u8>>>),
    Error { code: String, message: String, position: Option<usize> },
    Reported(Vec<u8>, Vec<u8>),
    Ready(Status),
}

/// A setting and its value.
type Reported = (Vec<u8>, Vec<u8>);

/// A connection to it.
struct Session {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Session {
    /// A new one, and what it reports at first.
    fn new(settings: &[(&str, &str)]) -> (Session, Vec<Reported>) {
        let stream = TcpStream::connect(("127.0.0.1", server().port())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut session = Session { stream, buffer: Vec::new() };
        let mut out = Vec::new();
        let mut parameters = vec![(&b"user"[..], &b"sekisho"[..]), (b"database", b"postgres")];
        parameters.extend(settings.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
        write_startup(&mut out, Version::V3_0, parameters).unwrap();
        session.stream.write_all(&out).unwrap();
        let (mut proof, mut reported) = (Proof::of(&password_of(server())), Vec::new());
        loop {
            let (tag, body) = session.next();
            match tag {
                Backend::Authentication => {
                    session.stream.write_all(&proof.answer(&body)).unwrap();
                }
                Backend::ParameterStatus => {
                    let (name, value) = read::parameter_status(&body).unwrap();
                    reported.push((name.to_vec(), value.to_vec()));
                }
                Backend::ReadyForQuery => return (session, reported),
                Backend::ErrorResponse => panic!("{}", String::from_utf8_lossy(&body)),
                _ => {}
            }
        }
    }

    fn next(&mut self) -> (Backend, Vec<u8>) {
        loop {
            if let Some((head, body)) = self.buffer.split_first_chunk::<HEAD>() {
                let len = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize - 4;
                if let Some(body) = body.get(..len) {
                    let message = (Backend::from_byte(head[0]).unwrap(), body.to_vec());
                    self.buffer.drain(..HEAD + len);
                    return message;
                }
            }
            let mut portion = [0; 8192];
            let read = self.stream.read(&mut portion).expect("an answer in time");
            assert!(read > 0, "the server closed the connection");
            self.buffer.extend_from_slice(&portion[..read]);
        }
    }

    /// Asks a query, and hears all of the answer.
    fn ask(&mut self, text: &[u8]) -> Vec<Said> {
        let mut out = Vec::new();
        write::message(&mut out, pgwire::frame::Frontend::Query, |out| {
            out.extend_from_slice(text);
            out.push(0);
        });
        self.stream.write_all(&out).unwrap();
        let mut said = Vec::new();
        loop {
            let (tag, body) = self.next();
            match tag {
                Backend::CommandComplete => {
                    said.push(Said::Complete(body[..body.len() - 1].to_vec()))
                }
                Backend::DataRow => said.push(Said::Row(row(&body))),
                Backend::ErrorResponse => {
                    let fields = read::fields(&body).unwrap();
                    let text = |kind| {
                        String::from_utf8_lossy(fields.field(kind).unwrap_or_default()).into_owned()
                    };
                    let (code, message) = (text(b'C'), text(b'M'));
                    said.push(Said::Error { code, message, position: text(b'P').parse().ok() });
                }
                Backend::ParameterStatus => {
                    let (name, value) = read::parameter_status(&body).unwrap();
                    said.push(Said::Reported(name.to_vec(), value.to_vec()));
                }
                Backend::ReadyForQuery => {
                    said.push(Said::Ready(read::ready_for_query(&body).unwrap()));
                    return said;
                }
                _ => {}
            }
        }
    }

    /// All rows of one query that must succeed, as texts.
    fn rows(&mut self, text: &str) -> Vec<String> {
        let said = self.ask(text.as_bytes());
        assert!(!said.iter().any(|said| matches!(said, Said::Error { .. })), "{text}: {said:?}");
        let rows = said.into_iter().filter_map(|said| match said {
            Said::Row(row) => Some(row),
            _ => None,
        });
        rows.map(|row| {
            let texts = row.into_iter().map(|value| match value {
                Some(value) => String::from_utf8_lossy(&value).into_owned(),
                None => "NULL".to_owned(),
            });
            texts.collect::<Vec<_>>().join("|")
        })
        .collect()
    }
}

fn row(body: &[u8]) -> Vec<Option<Vec<u8>>> {
    let (count, mut rest) = body.split_first_chunk::<2>().unwrap();
    let columns = (0..u16::from_be_bytes(*count)).map(|_| {
        let (length, behind) = rest.split_first_chunk::<4>().unwrap();
        let length = usize::try_from(i32::from_be_bytes(*length)).ok();
        let (value, behind) = behind.split_at(length.unwrap_or(0));
        rest = behind;
        length.map(|_| value.to_vec())
    });
    columns.collect()
}

fn status(said: &[Said]) -> Status {
    let Some(Said::Ready(status)) = said.last() else { panic!("{said:?}") };
    *status
}

fn error(said: &[Said]) -> Option<&str> {
    said.iter().find_map(|said| match said {
        Said::Error { code, .. } => Some(code.as_str()),
        _ => None,
    })
}
