//! The gate's own small server: what it counts, whether it is well, and its controls. Apart from
//! the gate, so that it answers when the gate is full.
//!
//! | request | answer |
//! | --- | --- |
//! | `GET /metrics` | what is counted, as Prometheus reads it |
//! | `GET /health` | 200 while a server is up and the gate does not drain, else 503 |
//! | `POST /slots?server=0&slots=8` | gives that server so many slots |
//! | `POST /report?server=0&waiting=2&busy=8&utilisation=0.9` | says how that server is, to a router that goes by reports |
//! | `POST /pause`, `POST /resume` | starts no jobs; starts them again |
//!
//! The controls answer to loopback addresses only, and to no browser: a page from elsewhere could
//! make one send them.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use gate::{Report, Share};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;

use super::answer::{Answer, WithBody};
use super::buf::Buf;
use super::message::{HeadScan, Request, Version, room};
use super::rewrite::After;
use super::server::Shared;

/// How many may ask at once; more are turned away.
const CONNECTIONS_MAX: usize = 16;

/// How long one request may take in all.
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
        let (status, text) = match scan.scan(&bytes, HEAD_MAX) {
            Ok(None) => continue,
            Ok(Some(span)) => match Request::parse(&bytes[span.start..span.end], &mut fields) {
                Ok(request) => respond(shared, &request, peer),
                Err(error) => refuse(error),
            },
            Err(error) => refuse(error),
        };
        let kind = "text/plain; version=0.0.4; charset=utf-8";
        let answer = Answer { kind, ..Answer::plain(status, &text) };
        answer.write(Version::Http11, WithBody::Yes, After::Close, &mut out);
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

fn respond(shared: &Shared, request: &Request<'_, '_>, peer: SocketAddr) -> (u16, String) {
    let target = request.target.rest;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    match (request.method, path) {
        ("GET", "/metrics") => (200, shared.snapshot().prometheus()),
        ("GET", "/health") => health(shared),
        ("POST", "/slots" | "/report" | "/pause" | "/resume") => {
            let from_page = request.fields.iter().any(|f| f.name.eq_ignore_ascii_case("origin"));
            if !peer.ip().to_canonical().is_loopback() || from_page {
                return (403, "controls answer to programs on this machine only\n".to_owned());
            }
            control(shared, path, query)
        }
        (_, "/metrics" | "/health" | "/slots" | "/report" | "/pause" | "/resume") => {
            (405, "GET /metrics and /health, POST /slots, /report, /pause and /resume\n".to_owned())
        }
        _ => (404, "there are /metrics, /health, /slots, /report, /pause and /resume\n".to_owned()),
    }
}

fn health(shared: &Shared) -> (u16, String) {
    if shared.draining.get() {
        (503, "draining\n".to_owned())
    } else if shared.driver.any_up() {
        (200, "ok\n".to_owned())
    } else {
        (503, "no server is up\n".to_owned())
    }
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
    fn the_query_for_slots_is_taken_only_whole() {
        assert_eq!(parse_slots("server=1&slots=8"), Some((1, 8)));
        assert_eq!(parse_slots("slots=0&server=0"), Some((0, 0)));
        for bad in ["", "server=1", "slots=1", "server=1&slots=x", "server=1&slots=1&slots=2"] {
            assert_eq!(parse_slots(bad), None, "{bad}");
        }
        assert_eq!(parse_slots("server=1&slots=8&x=1"), None);
    }
}
