//! The log of requests: one JSON object a line for each request that has ended, whatever became of it.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use linelog::{Log, json};
use serde::Serialize;

use super::classes::path_of;
use super::config::{AccessLog, LoggedTarget, StartError};
use super::driver::Numbered;
use super::message::Request;

/// The log of one gate.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    log: Log,
}

/// Part of a request that its line must know when its head is gone.
#[derive(Debug)]
pub(crate) struct Requested {
    began: SystemTime,
    method: String,
    target: String,
}

/// Course of a request, as far as it has come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Course {
    pub(crate) class: Numbered,
    pub(crate) outcome: Option<Ended>,
    pub(crate) status: Option<u16>,
    pub(crate) wait: Option<Duration>,
    pub(crate) hold: Option<Duration>,
    pub(crate) server: Option<usize>,
    /// The cause, for an outcome that has one.
    pub(crate) reason: Option<&'static str>,
    /// From the complete head to the end.
    pub(crate) response: Duration,
    /// Of the request, with its head [B].
    pub(crate) received: u64,
    /// Of the response, with its head [B].
    pub(crate) sent: u64,
}

/// End of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ended {
    /// The client has a whole response of a server.
    Served,
    /// The gate turned it away.
    Refused,
    /// The client left while it waited.
    Reneged,
    /// The server did not answer, and the client was told so.
    Failed,
    /// The response broke off.
    Broken,
    /// The client left, or stopped reading or sending, while it was served.
    ClientLost,
    /// It was no request that the gate understands or serves; the client was told so.
    Invalid,
    /// The gate answered it itself.
    Answered,
    /// The gate ended before it did.
    Cut,
}

/// A line. Times are in seconds, sizes in bytes, and names say so.
#[derive(Serialize)]
struct Line<'l> {
    time: String,
    client: IpAddr,
    class: &'l str,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'l str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'l str>,
    outcome: Ended,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'l str>,
    status: Option<u16>,
    server: Option<String>,
    wait_s: Option<f64>,
    hold_s: Option<f64>,
    response_s: f64,
    received_bytes: u64,
    sent_bytes: u64,
}

impl Requests {
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn open(log: Option<&AccessLog>) -> Result<Requests, StartError> {
        let Some(AccessLog { file, .. }) = log else { return Ok(Requests::default()) };
        let log = match file {
            None => Log::to(std::io::stdout(), json::lost).map_err(StartError::Runtime),
            Some(path) => Log::to_file(path, json::lost)
                .map_err(|source| StartError::AccessLog { path: path.clone(), source }),
        };
        Ok(Requests { log: log? })
    }

    /// The lines from now on go where those of `next` do.
    pub(crate) fn replace(&mut self, next: Requests) {
        self.log.replace(next.log);
    }

    /// True if lines are kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.log.is_kept()
    }

    /// What a line will say of a request; nothing if there is no log.
    pub(crate) fn requested(
        &self,
        request: &Request<'_, '_>,
        target: LoggedTarget,
    ) -> Option<Requested> {
        if !self.log.is_kept() {
            return None;
        }
        let target = match target {
            LoggedTarget::Path => path_of(request),
            LoggedTarget::PathAndQuery => [request.target.lead, request.target.rest],
        };
        let began = SystemTime::now();
        Some(Requested { began, method: request.method.to_owned(), target: target.concat() })
    }

    /// Writes the line of a request that has ended.
    pub(crate) fn ended(
        &self,
        course: &Course,
        requested: Option<&Requested>,
        client: IpAddr,
        (class, server): (&str, Option<String>),
    ) {
        // One that came before there was a log is nobody's to write about.
        let is_unknown = requested.is_none() && course.outcome != Some(Ended::Invalid);
        if !self.log.is_kept() || is_unknown {
            return;
        }
        let began = requested.map_or_else(SystemTime::now, |requested| requested.began);
        let line = Line {
            time: json::time(began),
            client,
            class,
            method: requested.map(|requested| &*requested.method),
            path: requested.map(|requested| &*requested.target),
            outcome: course.outcome.unwrap_or(Ended::Cut),
            reason: course.reason,
            status: course.status,
            server,
            wait_s: course.wait.map(json::seconds),
            hold_s: course.hold.map(json::seconds),
            response_s: json::seconds(course.response),
            received_bytes: course.received,
            sent_bytes: course.sent,
        };
        self.log.line(serde_json::to_string(&line).expect("texts and numbers are always JSON"));
    }

    /// Lines that could not be written so far.
    pub(crate) fn lost(&self) -> u64 {
        self.log.lost()
    }

    /// Opens the file anew: somebody has renamed it.
    pub(crate) fn reopen(&self) {
        self.log.reopen();
    }

    /// Ends the log; the last lines have a second to be written.
    pub(crate) fn end(&mut self) {
        self.log.end();
    }
}
