//! HTTP/2 against a real server, the library's own, plain and over TLS: what it may do to streams and
//! connections, and what the record says of it.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use h2::Reason;
use h2::server::{Builder, SendResponse};
use load::http::{Fault, Load, Method, Plan, PlanSpec, Protocol, Request, Trial, Trust, try_each};
use measure::{ErrorKind, Until};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot};
use tokio_rustls::TlsAcceptor;
use workload::Arrivals;

use crate::server::Server as Http1;
use crate::{closed, completed, failed, failed_in_all, responses, run, spec, sum, warns};

/// Behaviour of a server.
#[derive(Clone, Copy, Debug)]
struct Nature {
    /// The most streams of a connection that it announces.
    streams_max: Option<u32>,
    /// It says goodbye (GOAWAY) after so many requests of a connection.
    goes_after: u64,
    /// It closes the connection without a word after so many requests of it.
    breaks_after: u64,
    /// It resets the first so many streams with this reason.
    resets: (u64, Reason),
}

const GOOD: Nature = Nature {
    streams_max: None,
    goes_after: u64::MAX,
    breaks_after: u64::MAX,
    resets: (0, Reason::NO_ERROR),
};

/// Numbers of what a server saw.
#[derive(Debug, Default)]
struct Seen {
    connections: AtomicU64,
    requests: AtomicU64,
    /// Bytes of bodies that came.
    body: AtomicU64,
    /// Streams at once, at most, over all connections.
    at_once: AtomicU64,
    /// Streams at once now.
    now: AtomicU64,
    reset_by_client: AtomicU64,
    /// Times that the client's windows had less room than was left of a body.
    held_up: AtomicU64,
}

struct Server {
    address: SocketAddr,
    seen: Arc<Seen>,
    /// Lets the answers to `/held` go.
    held: Arc<Notify>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn new(nature: Nature, tls: Option<&'static [u8]>) -> Server {
        let seen = Arc::new(Seen::default());
        let held = Arc::new(Notify::new());
        let (tell, told) = std::sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let (of_server, of_held) = (Arc::clone(&seen), Arc::clone(&held));
        let thread = thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let local = tokio::task::LocalSet::new();
            let serve = async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                tell.send(listener.local_addr().unwrap()).unwrap();
                let acceptor = tls.map(acceptor);
                loop {
                    let (socket, _) = listener.accept().await.unwrap();
                    socket.set_nodelay(true).unwrap();
                    of_server.connections.fetch_add(1, Ordering::SeqCst);
                    let (seen, held) = (Arc::clone(&of_server), Arc::clone(&of_held));
                    let acceptor = acceptor.clone();
                    tokio::task::spawn_local(async move {
                        match acceptor {
                            None => serve(socket, nature, seen, held).await,
                            Some(acceptor) => {
                                // A client that does not want what it is offered goes.
                                if let Ok(stream) = acceptor.accept(socket).await {
                                    serve(stream, nature, seen, held).await;
                                }
                            }
                        }
                    });
                }
            };
            local.block_on(&runtime, async {
                select(pin!(serve), pin!(stopped)).await;
            });
        });
        let address = told.recv().unwrap();
        Server { address, seen, held, stop: Some(stop), thread: Some(thread) }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    fn saw(&self, of: fn(&Seen) -> &AtomicU64) -> u64 {
        of(&self.seen).load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn acceptor(protocol: &'static [u8]) -> TlsAcceptor {
    let chain = vec![CertificateDer::from_pem_slice(include_bytes!("certs/server.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("certs/server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    // None at all, where it knows nothing of ALPN.
    config.alpn_protocols = if protocol.is_empty() { Vec::new() } else { vec![protocol.to_vec()] };
    TlsAcceptor::from(Arc::new(config))
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + 'static>(
    socket: S,
    nature: Nature,
    seen: Arc<Seen>,
    held: Arc<Notify>,
) {
    let mut builder = Builder::new();
    builder.initial_window_size(1 << 20).initial_connection_window_size(1 << 20);
    if let Some(most) = nature.streams_max {
        builder.max_concurrent_streams(most);
    }
    let Ok(mut connection) = builder.handshake::<_, Bytes>(socket).await else { return };
    let mut served = 0;
    while let Some(Ok((request, respond))) = connection.accept().await {
        served += 1;
        let number = seen.requests.fetch_add(1, Ordering::SeqCst);
        if served > nature.breaks_after {
            return;
        }
        if served == nature.goes_after {
            connection.graceful_shutdown();
        }
        let now = seen.now.fetch_add(1, Ordering::SeqCst) + 1;
        seen.at_once.fetch_max(now, Ordering::SeqCst);
        let (seen, held) = (Arc::clone(&seen), Arc::clone(&held));
        tokio::task::spawn_local(async move {
            answer(request, respond, number, nature, &seen, &held).await;
            seen.now.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

async fn answer(
    request: http::Request<h2::RecvStream>,
    mut respond: SendResponse<Bytes>,
    number: u64,
    nature: Nature,
    seen: &Seen,
    held: &Notify,
) {
    if number < nature.resets.0 {
        return respond.send_reset(nature.resets.1);
    }
    let (head, mut body) = request.into_parts();
    while let Some(Ok(data)) = body.data().await {
        seen.body.fetch_add(data.len() as u64, Ordering::SeqCst);
        let _ = body.flow_control().release_capacity(data.len());
    }
    let path = head.uri.path().trim_start_matches('/').to_owned();
    let reply = http::Response::builder();
    let (status, length) = match path.as_str() {
        "slow" => {
            tokio::time::sleep(Duration::from_millis(50)).await;
            (200, 10)
        }
        "held" => {
            let reset = pin!(poll_fn(|context| respond.poll_reset(context)));
            if let Either::Right(_) = select(pin!(held.notified()), reset).await {
                seen.reset_by_client.fetch_add(1, Ordering::SeqCst);
                return;
            }
            (200, 10)
        }
        "moved" => {
            let reply = reply.status(302).header("location", "/100").body(()).unwrap();
            return drop(respond.send_response(reply, true));
        }
        "short" => {
            let reply = reply.header("content-length", "100").body(()).unwrap();
            let mut stream = respond.send_response(reply, false).unwrap();
            return drop(stream.send_data(Bytes::from_static(b"ten bytes."), true));
        }
        "missing" => (404, 10),
        length => (200, length.parse().unwrap_or(10)),
    };
    let ends = head.method == http::Method::HEAD;
    let reply = reply.status(status).header("content-length", length).body(()).unwrap();
    let Ok(mut stream) = respond.send_response(reply, ends) else { return };
    let mut left = if ends { 0 } else { length };
    while left > 0 {
        stream.reserve_capacity(left);
        let Some(Ok(room)) = poll_fn(|context| stream.poll_capacity(context)).await else { return };
        let chunk = room.min(left);
        // The library's own buffer holds some hundred kB, whatever the windows.
        if room < left.min(100_000) {
            seen.held_up.fetch_add(1, Ordering::SeqCst);
        }
        left -= chunk;
        if stream.send_data(Bytes::from(vec![b'x'; chunk]), left == 0).is_err() {
            return;
        }
    }
}

fn http2(mut spec: PlanSpec, streams_max: u32) -> PlanSpec {
    spec.protocol = Protocol::Http2 { streams_max };
    spec
}

#[test]
fn many_clients_share_few_connections() {
    let server = Server::new(GOOD, None);
    for (streams_max, connections) in [(100, 1), (5, 4), (1, 20)] {
        let before = server.saw(|seen| &seen.connections);
        let run = run(http2(closed(&server.url("100"), 20, Until::Requests(2_000)), streams_max));
        assert_eq!((completed(&run), failed_in_all(&run)), (2_000, 0));
        assert_eq!(sum(&run, |class| class.bytes), 200_000, "the bytes of bodies");
        assert_eq!(responses(&run).len(), 2_000);
        let connects: u64 = run.intervals.iter().map(|interval| interval.connects).sum();
        assert_eq!(connects, connections, "{streams_max} streams a connection");
        assert_eq!(server.saw(|seen| &seen.connections) - before, connections);
        assert_eq!(run.header.settings["http-version"], "2");
        assert_eq!(run.header.settings["streams-max"], streams_max.to_string());
    }
    assert!(server.saw(|seen| &seen.at_once) > 5, "they are in service at once");
}

#[test]
fn a_server_that_allows_fewer_streams_gets_more_connections() {
    let server = Server::new(Nature { streams_max: Some(3), ..GOOD }, None);
    let run = run(http2(closed(&server.url("slow"), 12, Until::Requests(240)), 100));
    assert_eq!((completed(&run), failed_in_all(&run)), (240, 0), "{:?}", run.summary);
    let connections = server.saw(|seen| &seen.connections);
    // Those of the first moment, before its bound is known, are refused and sent again on others.
    assert!((2..=5).contains(&connections), "{connections} connections");
}

/// The deck, the methods, the bodies and the fields are those of HTTP/1; several threads make the exact number.
#[test]
fn requests_arrive_as_asked_for() {
    let server = Server::new(GOOD, None);
    let mut plan = http2(closed(&server.url(""), 8, Until::Requests(400)), 100);
    let body: Arc<[u8]> = vec![b'y'; 300].into();
    plan.requests = vec![
        Request { weight: 2, ..Request::get("/100") },
        Request { body, ..Request::new(Method::Post, "/7") },
        Request::new(Method::Head, "/5000"),
    ];
    plan.headers = vec![("X-Tenant".into(), "7".into())];
    plan.threads = 3;
    let run = run(plan);
    assert_eq!((completed(&run), failed_in_all(&run)), (400, 0));
    let by_class = |nth: usize| -> u64 {
        run.intervals.iter().map(|interval| interval.classes[nth].completed).sum()
    };
    assert_eq!([0, 1, 2].map(by_class), [200, 100, 100]);
    assert_eq!(server.saw(|seen| &seen.body), 30_000);
    assert_eq!(sum(&run, |class| class.bytes), 200 * 100 + 100 * 7);
}

/// Twenty bodies of 200 kB at once are far beyond the windows of the standard (64 kB, of a stream and of a
/// connection): no server waits for this client.
#[test]
fn flow_control_holds_no_server_up() {
    let server = Server::new(GOOD, None);
    let run = run(http2(closed(&server.url("200000"), 20, Until::Requests(400)), 100));
    assert_eq!((completed(&run), failed_in_all(&run)), (400, 0));
    assert_eq!(server.saw(|seen| &seen.held_up), 0);
}

/// A large body needs many frames and many turns.
#[test]
fn large_bodies_come_in_full_side_by_side() {
    let server = Server::new(GOOD, None);
    let run = run(http2(closed(&server.url("3000000"), 4, Until::Requests(24)), 100));
    assert_eq!((completed(&run), failed_in_all(&run)), (24, 0));
    assert_eq!(sum(&run, |class| class.bytes), 24 * 3_000_000);
    for class in run.intervals.iter().flat_map(|interval| &interval.classes) {
        assert!(class.first_byte.max() <= class.total.max());
    }
}

#[test]
fn over_tls_it_is_agreed_on() {
    let server = Server::new(GOOD, Some(b"h2"));
    let url = format!("https://localhost:{}/20000", server.address.port());
    let mut plan = http2(closed(&url, 6, Until::Requests(300)), 4);
    plan.trust = Trust::File(crate::tls::ca());
    let tried = Plan::new(plan.clone()).unwrap();
    let within = Trial { within: Duration::from_secs(10) };
    let answers = try_each(&tried, within, &Default::default()).unwrap();
    assert_eq!((answers[0].status, answers[0].bytes), (200, Some(20_000)));
    let run = run(plan);
    assert_eq!((completed(&run), failed_in_all(&run)), (300, 0));
    // Beside the trial's; and a name may lead to two addresses, of which one is tried first.
    let connects: u64 = run.intervals.iter().map(|interval| interval.connects).sum();
    assert_eq!(connects, 2);
}

/// Every 50 requests a connection is ended with a GOAWAY, as nginx does every 1,000: what it leaves out is made
/// on the next one, and no request fails.
#[test]
fn a_goaway_loses_nothing_and_is_counted() {
    let server = Server::new(Nature { goes_after: 50, ..GOOD }, None);
    let run = run(http2(closed(&server.url("100"), 10, Until::Requests(1_000)), 100));
    assert_eq!((completed(&run), failed_in_all(&run)), (1_000, 0), "{:?}", run.summary);
    assert!(warns(&run, "the server ended (GOAWAY) "), "{:?}", run.summary);
    assert!(warns(&run, "with NO_ERROR"), "{:?}", run.summary);
    assert!(server.saw(|seen| &seen.connections) >= 10);
}

#[test]
fn a_reset_stream_fails_alone_and_is_named() {
    let resets = (25, Reason::INTERNAL_ERROR);
    let server = Server::new(Nature { resets, ..GOOD }, None);
    let run = run(http2(closed(&server.url("100"), 10, Until::Requests(500)), 100));
    assert_eq!((completed(&run), failed(&run, ErrorKind::StreamReset)), (475, 25));
    assert_eq!(failed_in_all(&run), 25);
    assert!(warns(&run, "the server reset (RST_STREAM) 25 streams: 25 with INTERNAL_ERROR"));
    assert_eq!(server.saw(|seen| &seen.connections), 1, "the connection goes on");
}

/// A refused stream was not touched (RFC 9113, section 8.7): it is sent once more, even a POST.
#[test]
fn a_refused_stream_is_sent_once_more() {
    let resets = (5, Reason::REFUSED_STREAM);
    let server = Server::new(Nature { resets, ..GOOD }, None);
    let mut plan = http2(closed(&server.url(""), 1, Until::Requests(100)), 100);
    plan.requests = vec![Request::new(Method::Post, "/100")];
    let run = run(plan);
    // One client: its first request is refused twice and fails, so does the second; the third comes through.
    assert_eq!((completed(&run), failed(&run, ErrorKind::StreamReset)), (98, 2));
    assert!(warns(&run, "3 requests sent again"), "{:?}", run.summary);
    assert!(warns(&run, "5 with REFUSED_STREAM"));
}

#[test]
fn a_connection_that_breaks_fails_what_may_not_be_repeated() {
    for (method, repeated) in [(Method::Get, true), (Method::Post, false)] {
        let server = Server::new(Nature { breaks_after: 20, ..GOOD }, None);
        let mut plan = http2(closed(&server.url(""), 1, Until::Requests(105)), 100);
        plan.requests = vec![Request::new(method, "/100")];
        let run = run(plan);
        assert_eq!(failed_in_all(&run), if repeated { 0 } else { 5 }, "{method}");
        assert_eq!(completed(&run) + failed_in_all(&run), 105);
        assert_eq!(warns(&run, "sent again because"), repeated, "{method}");
        let kinds = failed(&run, ErrorKind::ClosedEarly) + failed(&run, ErrorKind::Reset);
        assert_eq!(kinds, failed_in_all(&run));
    }
}

#[test]
fn statuses_and_lengths_are_counted_as_of_http1() {
    let server = Server::new(GOOD, None);
    let missing = run(http2(closed(&server.url("missing"), 2, Until::Requests(10)), 100));
    assert_eq!(failed(&missing, ErrorKind::Status4xx), 10);
    let short = run(http2(closed(&server.url("short"), 2, Until::Requests(10)), 100));
    assert_eq!(failed(&short, ErrorKind::WrongLength), 10, "{:?}", short.intervals);
    let moved = run(http2(closed(&server.url("moved"), 2, Until::Requests(10)), 100));
    assert_eq!(completed(&moved), 10, "a redirection is an answer");
}

/// The server answers nothing for a second: the open load goes on, and each response counts from its intended
/// start, on one connection as on many.
#[test]
fn a_stall_shows_in_the_responses_of_an_open_load() {
    for streams_max in [1_000, 10] {
        let server = Server::new(GOOD, None);
        let load = Load::Open { arrivals: Arrivals::Fixed { rate: 100.0 }, in_flight_max: 1_000 };
        let held = Arc::clone(&server.held);
        let plan = http2(spec(&server.url("held"), load, Until::Seconds(2.0)), streams_max);
        let release = thread::spawn(move || {
            thread::sleep(Duration::from_secs(1));
            // Whoever came so far, and whoever comes from now on.
            for _ in 0..1_000 {
                held.notify_waiters();
                held.notify_one();
                thread::sleep(Duration::from_millis(1));
            }
        });
        let run = run(plan);
        release.join().unwrap();
        assert_eq!(failed_in_all(&run), 0);
        let all = responses(&run);
        // Half of the arrivals were held up, by half a second in the mean.
        assert!(all.max() >= Duration::from_millis(900), "{:?}", all.max());
        assert!(all.quantile(0.75) >= Duration::from_millis(350), "{:?}", all.quantile(0.75));
        let in_flight =
            run.intervals.iter().map(|interval| interval.in_flight_mean).fold(0.0, f64::max);
        assert!(in_flight > 60.0, "{in_flight} in flight at most");
    }
}

#[test]
fn a_request_that_takes_too_long_is_given_up_and_the_server_told() {
    let server = Server::new(GOOD, None);
    let mut plan = http2(closed(&server.url("held"), 3, Until::Seconds(1.0)), 100);
    plan.response_max = Duration::from_millis(200);
    let run = run(plan);
    assert!(failed(&run, ErrorKind::Timeout) >= 6, "{:?}", run.summary);
    assert_eq!(completed(&run), 0);
    assert!(server.saw(|seen| &seen.reset_by_client) >= 3);
    assert_eq!(server.saw(|seen| &seen.connections), 1);
}

/// A way to a server that loses everything on its first connection after so long, in both directions and without a
/// word, as a firewall does that forgot it. Other connections go through.
fn lossy(server: SocketAddr, after: Duration) -> SocketAddr {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for (number, client) in listener.incoming().enumerate() {
            let (client, origin) = (client.unwrap(), std::net::TcpStream::connect(server).unwrap());
            let begun = std::time::Instant::now();
            let ways =
                [(client.try_clone().unwrap(), origin.try_clone().unwrap()), (origin, client)];
            for (mut from, mut to) in ways {
                to.set_nodelay(true).unwrap();
                thread::spawn(move || {
                    let mut bytes = [0; 16 << 10];
                    while let Ok(count @ 1..) = from.read(&mut bytes) {
                        let lost = number == 0 && begun.elapsed() >= after;
                        if !lost && to.write_all(&bytes[..count]).is_err() {
                            break;
                        }
                    }
                    drop(to.shutdown(std::net::Shutdown::Both));
                });
            }
        }
    });
    address
}

/// A peer that vanished used to keep its connection, and each request that was put on it, until TCP gave up: a run
/// of a minute was a minute of time-outs. Those in flight time out, and the others go on by another connection.
#[test]
fn a_connection_whose_peer_vanished_is_left() {
    let server = Server::new(GOOD, None);
    let way = lossy(server.address, Duration::from_millis(500));
    let mut plan = http2(closed(&format!("http://{way}/slow"), 4, Until::Seconds(3.0)), 100);
    plan.response_max = Duration::from_secs(1);
    let run = run(plan);
    assert_eq!(failed(&run, ErrorKind::Timeout), 4, "{:?}", run.summary);
    assert_eq!(failed_in_all(&run), 4, "{:?}", run.summary);
    assert!(completed(&run) > 60, "it went on: {}", completed(&run));
    assert_eq!(server.saw(|seen| &seen.connections), 2);
    assert!(warns(&run, "1 connection given up"), "{:?}", run.summary);
}

fn fault(spec: PlanSpec) -> Fault {
    let plan = Plan::new(spec).unwrap();
    let within = Trial { within: Duration::from_secs(3) };
    try_each(&plan, within, &Default::default()).unwrap_err().fault
}

#[test]
fn the_preflight_names_what_a_server_speaks() {
    let one = |url: &str| http2(closed(url, 1, Until::Requests(1)), 100);
    let http1 =
        Http1::answering(|_| b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".into());
    assert!(matches!(fault(one(&http1.url())), Fault::SpeaksHttp1));
    let silent = Http1::answering(|_| Vec::new());
    let said = fault(one(&silent.url()));
    assert!(matches!(said, Fault::Silent(_)), "{said:?}");
    let strange = Http1::new(|mut stream| {
        drop(std::io::Write::write_all(&mut stream, b"SSH-2.0-x\r\n"));
        drop(stream.shutdown(std::net::Shutdown::Write));
        // Closing with bytes unread would be a reset, which may take along what was written.
        drop(std::io::copy(&mut stream, &mut std::io::sink()));
    });
    let said = fault(one(&strange.url()));
    assert!(matches!(&said, Fault::NotHttp2(text) if text.starts_with("SSH-2.0")), "{said:?}");
    // TLS: a server that offers HTTP/1 alone, and one that knows nothing of ALPN.
    for protocol in [&b"http/1.1"[..], b""] {
        let server = Server::new(GOOD, Some(protocol));
        let mut spec = one(&format!("https://localhost:{}/", server.address.port()));
        spec.trust = Trust::File(crate::tls::ca());
        let said = fault(spec);
        assert!(matches!(said, Fault::SpeaksHttp1), "{said:?}");
    }
    let tls = Server::new(GOOD, Some(b"h2"));
    let said = fault(one(&tls.url("")));
    assert!(matches!(said, Fault::SpeaksTls), "{said:?}");
    let plain = Server::new(GOOD, None);
    let said = fault(closed(&plain.url(""), 1, Until::Requests(1)));
    assert!(matches!(said, Fault::SpeaksHttp2), "{said:?}");
    let reset = Server::new(Nature { resets: (9, Reason::INTERNAL_ERROR), ..GOOD }, None);
    let said = fault(one(&reset.url("")));
    assert!(matches!(&said, Fault::StreamReset(code) if code == "INTERNAL_ERROR"), "{said:?}");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(matches!(fault(one(&format!("http://{free}/"))), Fault::Refused));
    let answers = |path: &str| {
        let plan = Plan::new(one(&plain.url(path))).unwrap();
        let within = Trial { within: Duration::from_secs(3) };
        try_each(&plan, within, &Default::default()).unwrap().remove(0)
    };
    assert_eq!(answers("moved").detail.as_deref(), Some("/100"));
    assert_eq!((answers("missing").status, answers("700").bytes), (404, Some(700)));
    let held = http2(closed(&plain.url("held"), 1, Until::Requests(1)), 100);
    let said = fault(held);
    assert!(matches!(said, Fault::Unanswered(_) | Fault::Silent(_)), "{said:?}");
}

#[test]
fn plans_that_http2_cannot_carry_are_refused() {
    let url = "http://127.0.0.1:9/";
    let refused = |change: &dyn Fn(&mut PlanSpec)| {
        let mut spec = http2(closed(url, 1, Until::Requests(1)), 100);
        change(&mut spec);
        Plan::new(spec).unwrap_err().to_string()
    };
    let single = refused(&|spec| spec.connections = load::http::Connections::PerRequest);
    assert!(single.contains("HTTP/2 keeps its connections"), "{single}");
    let upgrade = refused(&|spec| spec.headers.push(("Upgrade".into(), "x".into())));
    assert!(upgrade.contains("`Upgrade` is one of HTTP/1's connections"), "{upgrade}");
    let none = refused(&|spec| spec.protocol = Protocol::Http2 { streams_max: 0 });
    assert!(none.contains("the number of streams must be 1 to 10000"), "{none}");
}
