//! The gate's own small server: a live page, what it counts, whether it is well, and its controls. Apart
//! from the gate, so that it answers when the gate is full.
//!
//! | request | answer |
//! | --- | --- |
//! | `GET /` | the live page |
//! | `GET /state.json` | what it shows |
//! | `GET /metrics` | what is counted, as Prometheus reads it |
//! | `GET /healthz` | 200 as long as the gate goes on |
//! | `GET /readyz` | 200 while a server is up and the gate does not drain, else 503 |
//! | `GET /model` | what is found of the servers, as JSON: SHOW MODEL of the gate for PostgreSQL |
//! | `GET /whatif?slots=16` | what would be with other `slots`, `arrivals` (`x1.5`), `servers` or `policy` (`shared`), as JSON: SHOW WHATIF |
//! | `POST /slots?server=0&slots=8` | gives that server so many slots |
//! | `POST /report?server=0&waiting=2&busy=8&utilisation=0.9` | says how that server is, to a router that goes by reports |
//! | `POST /pause`, `POST /resume` | starts no jobs; starts them again |
//!
//! The controls answer to loopback addresses only, and to no browser: a page from elsewhere could
//! make one send them. On a loopback address, requests for other names than addresses and `localhost` are
//! refused: a page from elsewhere could have its own name lead here, and read.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use gate::{Report, Share};
use live::{Estimate, WhatIf};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;

use super::answer::{Answer, WithBody};
use super::buf::Buf;
use super::message::{HeadScan, Request, Version, room};
use super::rewrite::After;
use super::server::Shared;
use super::state::{self, PAGE};

/// Limit of connections at once; more are turned away.
const CONNECTIONS_MAX: usize = 16;

/// Time limit of one request in all.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest head [B].
const HEAD_MAX: usize = 8 * 1024;

/// Serves until it is dropped.
pub(crate) async fn serve(shared: Rc<Shared>, listener: TcpListener) {
    let open = Rc::new(());
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        if Rc::strong_count(&open) <= CONNECTIONS_MAX {
            let (shared, open) = (Rc::clone(&shared), Rc::clone(&open));
            spawn_local(async move {
                // A client that is late or leaves gets nothing; there is nobody to tell.
                let _ = tokio::time::timeout(PATIENCE, answer(&shared, stream, peer)).await;
                drop(open);
            });
        }
    }
}

/// Answers one request and closes.
async fn answer(shared: &Shared, mut stream: TcpStream, peer: SocketAddr) -> std::io::Result<()> {
    let (mut bytes, mut scan) = (Vec::with_capacity(1024), HeadScan::default());
    let mut out = Buf::new(1024, usize::MAX);
    loop {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
        let refuse = |error: super::message::HeadError| (error.status(), format!("{error}\n"));
        let mut fields = room();
        let mut body = WithBody::Yes;
        let own = stream.local_addr()?.ip();
        let (status, kind, text) = match scan.scan(&bytes, HEAD_MAX) {
            Ok(None) => continue,
            Ok(Some(span)) => match Request::parse(&bytes[span.start..span.end], &mut fields) {
                Ok(request) if own.to_canonical().is_loopback() && !is_own(request.host) => {
                    plain((
                        421,
                        "ask by an address or as localhost: other names do not lead here\n".into(),
                    ))
                }
                Ok(request) => {
                    if request.method == "HEAD" {
                        body = WithBody::No;
                    }
                    match modelled(shared, &request).await {
                        Some((status, text)) => (status, JSON, text),
                        None => respond(shared, &request, peer),
                    }
                }
                Err(error) => plain(refuse(error)),
            },
            Err(error) => plain(refuse(error)),
        };
        let fields = [("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff")];
        let answer = Answer { kind, fields: &fields, ..Answer::plain(status, &text) };
        answer.write(Version::Http11, body, After::Close, &mut out);
        break;
    }
    stream.write_all(out.filled()).await?;
    stream.shutdown().await?;
    // What the client still sends is read, so that the close does not reset the answer away.
    let mut rest = [0; 1024];
    for _ in 0..16 {
        if stream.read(&mut rest).await? == 0 {
            break;
        }
    }
    Ok(())
}

const JSON: &str = "application/json";

fn plain((status, text): (u16, String)) -> (u16, &'static str, String) {
    (status, "text/plain; charset=utf-8", text)
}

/// Answer of the model, if the request is for one.
async fn modelled(shared: &Shared, request: &Request<'_, '_>) -> Option<(u16, String)> {
    let target = request.target.rest;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let wrong = |cause: String| serde_json::json!({ "error": cause }).to_string() + "\n";
    let right = |rows: &[Estimate]| {
        serde_json::to_string(rows).expect("numbers and texts become JSON") + "\n"
    };
    match (request.method, path) {
        ("GET" | "HEAD", "/model") => Some((200, right(&shared.estimates()))),
        ("GET" | "HEAD", "/whatif") => {
            let Some(asked) = parse_what_if(query) else {
                let wanted = "slots=<n>&arrivals=x<factor>&servers=<n>&policy=<name>, one at least";
                return Some((400, wrong(format!("wanted: /whatif?{wanted}"))));
            };
            let answers = shared.driver.what_if(shared.clients());
            // Reckoning takes a while, in which the gate goes on.
            let answer = tokio::task::spawn_blocking(move || answers(&asked)).await;
            Some(match answer {
                Ok(Ok(rows)) => (200, right(&rows)),
                Ok(Err(refusal)) => (409, wrong(refusal.to_string())),
                Err(_) => (500, wrong("the model could not be asked".to_owned())),
            })
        }
        _ => None,
    }
}

/// Question of a query string: each change at most once, and one at least.
fn parse_what_if(query: &str) -> Option<WhatIf> {
    let mut asked = WhatIf::default();
    for pair in query.split('&') {
        let count = |value: &str| value.parse().ok().filter(|count: &u32| *count > 0);
        let twice = match pair.split_once('=')? {
            ("slots", value) => asked.slots.replace(count(value)?).is_some(),
            ("servers", value) => asked.servers.replace(count(value)?).is_some(),
            ("arrivals", value) => {
                let factor = value.strip_prefix(['x', 'X']).unwrap_or(value).parse().ok();
                let factor = factor.filter(|factor: &f64| factor.is_finite() && *factor > 0.0);
                asked.arrivals.replace(factor?).is_some()
            }
            ("policy", value) if !value.is_empty() => {
                asked.policy.replace(value.to_lowercase()).is_some()
            }
            _ => return None,
        };
        if twice {
            return None;
        }
    }
    Some(asked)
}

/// True if a host is an address, this machine, or none: HTTP/1.0 names none.
fn is_own(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.is_empty() || name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

fn respond(
    shared: &Shared,
    request: &Request<'_, '_>,
    peer: SocketAddr,
) -> (u16, &'static str, String) {
    let target = request.target.rest;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    match (request.method, path) {
        ("GET" | "HEAD", "/" | "") => (200, "text/html; charset=utf-8", PAGE.clone()),
        ("GET" | "HEAD", "/state.json") => (200, JSON, state_json(shared)),
        ("GET" | "HEAD", "/metrics") => {
            let text = shared.snapshot().prometheus(&shared.estimates());
            (200, "text/plain; version=0.0.4; charset=utf-8", text)
        }
        ("GET" | "HEAD", "/healthz") => plain((200, "ok\n".to_owned())),
        ("GET" | "HEAD", "/readyz") => plain(ready(shared)),
        ("POST", "/slots" | "/report" | "/pause" | "/resume") => {
            let from_page = request.fields.iter().any(|f| f.name.eq_ignore_ascii_case("origin"));
            if !peer.ip().to_canonical().is_loopback() || from_page {
                let why = "controls answer to programs on this machine only\n";
                return plain((403, why.to_owned()));
            }
            plain(control(shared, path, query))
        }
        (
            _,
            "/" | "" | "/state.json" | "/metrics" | "/healthz" | "/readyz" | "/model" | "/whatif"
            | "/slots" | "/report" | "/pause" | "/resume",
        ) => plain((405, format!("GET {GETS}, POST {POSTS}\n"))),
        _ => plain((404, format!("there are GET {GETS}, POST {POSTS}\n"))),
    }
}

const GETS: &str = "/, /state.json, /metrics, /healthz, /readyz, /model and /whatif";
const POSTS: &str = "/slots, /report, /pause and /resume";

fn ready(shared: &Shared) -> (u16, String) {
    if !shared.is_open() {
        (503, "draining\n".to_owned())
    } else if shared.driver.any_up() {
        (200, "ok\n".to_owned())
    } else {
        (503, "no server is up\n".to_owned())
    }
}

/// The gate as the live page shows it.
fn state_json(shared: &Shared) -> String {
    let config = shared.config();
    state::json(&shared.snapshot(), &config.gate, SystemTime::now(), &shared.estimates())
}

fn control(shared: &Shared, path: &str, query: &str) -> (u16, String) {
    match path {
        "/pause" => shared.pause(),
        "/resume" => shared.resume(),
        "/report" => {
            let Some((server, report)) = parse_report(query) else {
                let wanted = "server=<index>&waiting=<n>&busy=<n>&utilisation=<0 to 1>";
                return (400, format!("wanted: /report?{wanted}\n"));
            };
            if let Err(error) = shared.report(server, report) {
                return (400, format!("{error}\n"));
            }
        }
        _ => {
            let Some((server, slots)) = parse_slots(query) else {
                return (400, "wanted: /slots?server=<index>&slots=<number>\n".to_owned());
            };
            if let Err(error) = shared.resize(server, slots) {
                return (400, format!("{error}\n"));
            }
        }
    }
    (200, "done\n".to_owned())
}

/// `server=0&slots=8`, each exactly once.
fn parse_slots(query: &str) -> Option<(usize, u32)> {
    let (mut server, mut slots) = (None, None);
    for pair in query.split('&') {
        let twice = match pair.split_once('=')? {
            ("server", value) => server.replace(value.parse().ok()?).is_some(),
            ("slots", value) => slots.replace(value.parse().ok()?).is_some(),
            _ => return None,
        };
        if twice {
            return None;
        }
    }
    Some((server?, slots?))
}

/// All of a report's keys, each exactly once.
fn parse_report(query: &str) -> Option<(usize, Report)> {
    let (mut server, mut waiting, mut busy, mut share) = (None, None, None, None);
    for pair in query.split('&') {
        let twice = match pair.split_once('=')? {
            ("server", value) => server.replace(value.parse().ok()?).is_some(),
            ("waiting", value) => waiting.replace(value.parse().ok()?).is_some(),
            ("busy", value) => busy.replace(value.parse().ok()?).is_some(),
            ("utilisation", value) => share.replace(value.parse::<f64>().ok()?).is_some(),
            _ => return None,
        };
        if twice {
            return None;
        }
    }
    let share = share.filter(|share| (0.0..=1.0).contains(share))?;
    let utilisation = Share::new(share);
    Some((server?, Report { waiting: waiting?, busy: busy?, utilisation, work: 0 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_taken_only_whole() {
        let good = "server=1&waiting=2&busy=3&utilisation=0.25";
        let utilisation = Share::new(0.25);
        let report = Report { waiting: 2, busy: 3, utilisation, work: 0 };
        assert_eq!(parse_report(good), Some((1, report)));
        for bad in [
            "",
            "server=1&waiting=2&busy=3",
            "server=1&waiting=2&busy=3&utilisation=1.5",
            "server=1&waiting=2&busy=3&utilisation=nan",
            "server=1&waiting=2&busy=3&utilisation=0.5&x=1",
            "server=1&server=1&waiting=2&busy=3&utilisation=0.5",
        ] {
            assert_eq!(parse_report(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_question_to_the_model_is_taken_only_whole() {
        let asked = WhatIf { slots: Some(8), arrivals: Some(1.5), ..WhatIf::default() };
        assert_eq!(parse_what_if("slots=8&arrivals=x1.5"), Some(asked));
        let asked = WhatIf { servers: Some(2), policy: Some("shared".into()), ..WhatIf::default() };
        assert_eq!(parse_what_if("policy=Shared&servers=2"), Some(asked));
        for bad in ["", "slots", "slots=0", "slots=1&slots=2", "arrivals=x-1", "policy=", "load=2"]
        {
            assert_eq!(parse_what_if(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_query_for_slots_is_taken_only_whole() {
        assert_eq!(parse_slots("server=1&slots=8"), Some((1, 8)));
        assert_eq!(parse_slots("slots=0&server=0"), Some((0, 0)));
        for bad in ["", "server=1", "slots=1", "server=1&slots=x", "server=1&slots=1&slots=2"] {
            assert_eq!(parse_slots(bad), None, "{bad}");
        }
        assert_eq!(parse_slots("server=1&slots=8&x=1"), None);
    }
}
