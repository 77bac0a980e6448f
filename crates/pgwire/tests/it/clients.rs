//! Our server side against a real client, tokio-postgres, over real sockets.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pgwire::auth::{Binding, Check, Checked, Credential, ITERATIONS, Method, Verifier};
use pgwire::frame::{Frames, Frontend, HEAD, Limits, Piece};
use pgwire::message::{Report, Severity, Status, write};
use pgwire::secrets::{Kind, Looks, MockKey, Secret};
use pgwire::startup::{Opening, Packet};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_postgres::{Config, SimpleQueryMessage};

use super::{KEY, SERVER_NONCE, secret};

const HASH: &[u8] = b"the hash of a certificate";

/// Serves one client: a session in which every query has one row, the query itself.
async fn serve(
    listener: TcpListener,
    method: Method,
    secret: Secret,
    binding: Binding,
) -> Option<Credential> {
    let (mut stream, _) = listener.accept().await.unwrap();
    let (mut buffer, mut out) = (Vec::new(), Vec::new());
    let user = opens(&mut stream, &mut buffer, &mut out, &binding).await?;
    let mut frames = Frames::<Frontend>::new(Limits::AUTHENTICATION);
    let mut checked = Check::begin(method, &user, &secret, binding, SERVER_NONCE, &mut out);
    let passed = loop {
        let check = match checked {
            Checked::Passed(passed) => break passed,
            Checked::Asks(check) => check,
        };
        stream.write_all(&std::mem::take(&mut out)).await.unwrap();
        let (tag, body) = next(&mut stream, &mut buffer, &mut frames).await?;
        match check.answer(tag, &body, &mut out) {
            Ok(next) => checked = next,
            Err(error) => {
                let text = error.to_string();
                let report = Report::new(Severity::Fatal, error.sqlstate(), &text);
                write::error_response(&mut out, &report);
                stream.write_all(&out).await.unwrap();
                return None;
            }
        }
    };
    frames.limit(Limits::SESSION);
    write::parameter_status(&mut out, b"server_version", b"18.1");
    write::parameter_status(&mut out, b"client_encoding", b"UTF8");
    write::backend_key_data(&mut out, 4711, &[1, 2, 3, 4]);
    write::ready_for_query(&mut out, Status::Idle);
    loop {
        stream.write_all(&std::mem::take(&mut out)).await.unwrap();
        match next(&mut stream, &mut buffer, &mut frames).await {
            Some((Frontend::Query, body)) => {
                let sql = std::str::from_utf8(&body[..body.len() - 1]).unwrap();
                let notice = Report {
                    detail: Some("a detail"),
                    hint: Some("a hint"),
                    ..Report::new(Severity::Warning, pgwire::SqlState::SYNTAX_ERROR, sql)
                };
                write::notice_response(&mut out, &notice);
                write::row_description(&mut out, &["query", "nothing"]);
                write::data_row(&mut out, &[Some(sql), None]);
                write::command_complete(&mut out, "SELECT 1");
                write::ready_for_query(&mut out, Status::Idle);
            }
            Some((Frontend::Terminate, _)) | None => return Some(passed),
            other => panic!("{other:?}"),
        }
    }
}

/// Who wants in.
async fn opens(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
    out: &mut Vec<u8>,
    binding: &Binding,
) -> Option<Vec<u8>> {
    let mut opening = Opening::in_clear();
    loop {
        match opening.read(buffer).unwrap() {
            Packet::More { .. } => fill(stream, buffer).await?,
            Packet::SslRequest => {
                // Whoever binds says that this is TLS; the bytes stay as they are.
                let answer = if *binding == Binding::Absent { b"N" } else { b"S" };
                stream.write_all(answer).await.unwrap();
                buffer.clear();
            }
            Packet::Startup(startup) => {
                assert_eq!(startup.database(), b"shop");
                let (user, taken) = (startup.user().to_vec(), startup.bytes());
                if startup.negotiates() {
                    let granted = startup.version().granted();
                    write::negotiate_protocol_version(out, granted, startup.unknown_options());
                }
                buffer.drain(..taken);
                return Some(user);
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Reads what is there; `None` at the end.
async fn fill(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<()> {
    (stream.read_buf(buffer).await.ok()? > 0).then_some(())
}

async fn next(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
    frames: &mut Frames<Frontend>,
) -> Option<(Frontend, Vec<u8>)> {
    loop {
        match frames.look(buffer).unwrap() {
            Piece::More { .. } => fill(stream, buffer).await?,
            Piece::Whole { tag, len } => {
                let message: Vec<u8> = buffer.drain(..len).collect();
                return Some((tag, message[HEAD..].to_vec()));
            }
            piece => panic!("{piece:?}"),
        }
    }
}

/// A stand-in for TLS: it encrypts nothing, but has a certificate to bind to.
struct Bound<S>(S);

impl<S: AsyncRead + Unpin> AsyncRead for Bound<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bound<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Bound<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::tls_server_end_point(HASH.to_vec())
    }
}

struct Binds;

impl<S: AsyncRead + AsyncWrite + Unpin> TlsConnect<S> for Binds {
    type Stream = Bound<S>;
    type Error = io::Error;
    type Future = std::future::Ready<io::Result<Bound<S>>>;

    fn connect(self, stream: S) -> Self::Future {
        std::future::ready(Ok(Bound(stream)))
    }
}

/// Whom a client finds who connects with this password, and what the server knows of it then.
fn talk(
    method: Method,
    secret: Secret,
    binding: Binding,
    config: &Config,
) -> (Result<String, SqlState>, Option<Credential>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limit = Duration::from_secs(30);
    let both = async {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = tokio::spawn(serve(listener, method, secret, binding));
        let stream = TcpStream::connect(address).await.unwrap();
        let heard = match config.connect_raw(stream, Binds).await {
            Ok((client, connection)) => {
                let connection = tokio::spawn(connection);
                let messages = client.simple_query("select 'd\u{e9}j\u{e0}'").await.unwrap();
                let row = messages.iter().find_map(|message| match message {
                    SimpleQueryMessage::Row(row) => {
                        assert_eq!(row.get(1), None);
                        row.get(0)
                    }
                    _ => None,
                });
                let row = row.unwrap().to_owned();
                drop((client, messages));
                connection.await.unwrap().unwrap();
                Ok(row)
            }
            Err(error) => Err(error.code().cloned().unwrap_or_else(|| panic!("{error:?}"))),
        };
        (heard, served.await.unwrap())
    };
    runtime.block_on(async { tokio::time::timeout(limit, both).await.unwrap() })
}

fn config(password: &str) -> Config {
    let mut config = Config::new();
    config.user("alice").dbname("shop").password(password).ssl_mode(SslMode::Disable);
    config
}

#[test]
fn a_real_client_comes_in_by_every_method() {
    let verifier = Verifier::derive(b"secret", b"0123456789abcdef", ITERATIONS).to_text();
    // md5('secretalice')
    let md5 = "md54a0a68b43b6cd5cf266fa02f196e2371";
    let cases = [
        (Method::Trust, "unused"),
        (Method::Password, "secret"),
        (Method::Password, md5),
        (Method::Password, &verifier),
        (Method::Md5, "secret"),
        (Method::Md5, md5),
        (Method::Md5, &verifier),
        (Method::ScramSha256, "secret"),
        (Method::ScramSha256, &verifier),
    ];
    for (method, stored) in cases {
        let stored = secret("alice", stored);
        let (heard, passed) = talk(method, stored.clone(), Binding::Absent, &config("secret"));
        assert_eq!(heard.as_deref(), Ok("select 'd\u{e9}j\u{e0}'"), "{method:?}");
        let passed = passed.unwrap();
        let scram =
            method == Method::ScramSha256 || method == Method::Md5 && stored.kind() == Kind::Scram;
        assert_eq!(matches!(passed, Credential::Keys(_)), scram, "{method:?} {passed:?}");
        if method != Method::Trust {
            let (heard, passed) = talk(method, stored, Binding::Absent, &config("wrong"));
            assert_eq!((heard, passed), (Err(SqlState::INVALID_PASSWORD), None), "{method:?}");
        }
    }
}

#[test]
fn a_real_client_that_is_unknown_hears_what_others_hear() {
    for kind in [Kind::Plain, Kind::Md5, Kind::Scram] {
        for method in [Method::Password, Method::Md5, Method::ScramSha256] {
            let mock =
                Secret::mock(b"alice", Looks { kind, iterations: ITERATIONS }, &MockKey::new(KEY));
            let (heard, passed) = talk(method, mock, Binding::Absent, &config("secret"));
            assert_eq!((heard, passed), (Err(SqlState::INVALID_PASSWORD), None), "{method:?}");
        }
    }
}

#[test]
fn a_real_client_binds_to_its_connection() {
    let mut config = config("secret");
    config.ssl_mode(SslMode::Require);
    config.channel_binding(tokio_postgres::config::ChannelBinding::Require);
    let stored = secret("alice", "secret");
    let offered = Binding::EndPoint(HASH.to_vec());
    let (heard, passed) = talk(Method::ScramSha256, stored.clone(), offered, &config);
    assert!(heard.is_ok() && matches!(passed, Some(Credential::Keys(_))));
    let other = Binding::EndPoint(b"the hash of another certificate".to_vec());
    let (heard, passed) = talk(Method::ScramSha256, stored, other, &config);
    assert_eq!((heard, passed), (Err(SqlState::INVALID_AUTHORIZATION_SPECIFICATION), None));
}
