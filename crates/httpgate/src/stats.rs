//! Counts of an HTTP gate, as plain values and in the text format of Prometheus.

use std::net::SocketAddr;

use live::prometheus::{self, GateFigures, Text, Times};
use live::{ClassCounts, Estimate};

/// Origin of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Upstream,
    Gate,
}

/// Failure of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamError {
    /// It could not be connected to.
    Connect,
    /// It did not accept the connection in time.
    ConnectTimeout,
    /// It closed before it answered.
    Closed,
    /// It sent something that is no response.
    Garbage,
    /// It did not answer in time, or stalled in its answer.
    Timeout,
    /// It closed in the middle of its answer.
    Truncated,
}

impl UpstreamError {
    /// True if the server never saw the request.
    pub(crate) fn is_connect(self) -> bool {
        matches!(self, UpstreamError::Connect | UpstreamError::ConnectTimeout)
    }
}

const UPSTREAM_ERRORS: [(UpstreamError, &str); 6] = [
    (UpstreamError::Connect, "connect"),
    (UpstreamError::ConnectTimeout, "connect-timeout"),
    (UpstreamError::Closed, "closed"),
    (UpstreamError::Garbage, "garbage"),
    (UpstreamError::Timeout, "timeout"),
    (UpstreamError::Truncated, "truncated"),
];

/// Counts of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamStats {
    /// Its address.
    pub address: SocketAddr,
    /// True if it is up.
    pub up: bool,
    /// Its slots held.
    pub busy: u32,
    /// Its slots in all.
    pub slots: u32,
    /// From arrival to start, of the jobs that started.
    pub wait: Times,
    /// From start to departure of a slot.
    pub hold: Times,
    /// Connections opened to it.
    pub connections_opened: u64,
    /// Requests sent on a connection that was kept from an earlier one.
    pub connections_reused: u64,
    /// Requests sent a second time because a kept connection was found closed.
    pub retries: u64,
    errors: [u64; UPSTREAM_ERRORS.len()],
}

impl UpstreamStats {
    /// Number of errors of this kind.
    pub fn errors(&self, error: UpstreamError) -> u64 {
        self.errors[error as usize]
    }

    pub(crate) fn count_error(&mut self, error: UpstreamError) {
        self.errors[error as usize] += 1;
    }
}

/// Counts since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Clients' connections that are open.
    pub connections: u64,
    /// Clients' connections accepted.
    pub connections_accepted: u64,
    /// Jobs that wait.
    pub waiting: u64,
    /// Requests refused because the queue was full.
    pub refused_queue_full: u64,
    /// Requests refused because they had waited too long.
    pub refused_deadline: u64,
    /// Requests refused on arrival because they would have waited too long.
    pub refused_hopeless: u64,
    /// Requests refused because no server was up.
    pub refused_unreachable: u64,
    /// Clients that left while they waited.
    pub reneged: u64,
    /// Clients that left, or stopped reading or sending, while they were served.
    pub clients_lost: u64,
    /// Slots that came back because their guard was dropped.
    pub slots_dropped: u64,
    /// True if the gate is paused.
    pub paused: bool,
    /// True if the gate lets out what is in and lets nothing in.
    pub draining: bool,
    /// Counts of each class of requests, by its prefix; `other` are those of none.
    pub classes: Vec<(String, ClassCounts)>,
    /// Each server, in the order of the configuration.
    pub upstreams: Vec<UpstreamStats>,
    /// By source and hundreds of the status.
    responses: [[u64; 5]; 2],
}

impl Stats {
    pub(crate) fn new(upstreams: &[SocketAddr]) -> Stats {
        let upstream = |&address: &SocketAddr| UpstreamStats {
            address,
            up: true,
            busy: 0,
            slots: 0,
            wait: Times::default(),
            hold: Times::default(),
            connections_opened: 0,
            connections_reused: 0,
            retries: 0,
            errors: [0; UPSTREAM_ERRORS.len()],
        };
        Stats {
            connections: 0,
            connections_accepted: 0,
            waiting: 0,
            refused_queue_full: 0,
            refused_deadline: 0,
            refused_hopeless: 0,
            refused_unreachable: 0,
            reneged: 0,
            clients_lost: 0,
            slots_dropped: 0,
            paused: false,
            draining: false,
            classes: Vec::new(),
            upstreams: upstreams.iter().map(upstream).collect(),
            responses: [[0; 5]; 2],
        }
    }

    pub(crate) fn count_response(&mut self, source: Source, status: u16) {
        self.responses[source as usize][usize::from(status / 100 - 1)] += 1;
    }

    /// Responses begun, of the servers and of the gate itself.
    pub fn responses(&self) -> u64 {
        self.responses.iter().flatten().sum()
    }

    /// The text that Prometheus reads (exposition format 0.0.4), with what a model has found.
    pub fn prometheus(&self, model: &[Estimate]) -> String {
        let mut text = Text::new();
        self.write_clients(&mut text);
        self.write_gate(&mut text);
        self.write_upstreams(&mut text);
        prometheus::write_model(&mut text, model, usize::MAX);
        text.finish()
    }

    fn write_clients(&self, text: &mut Text) {
        text.family("sekisho_connections", "gauge", "Open connections of clients.");
        text.sample("sekisho_connections", "", self.connections);
        let accepted = "sekisho_connections_accepted_total";
        text.family(accepted, "counter", "Accepted connections of clients.");
        text.sample(accepted, "", self.connections_accepted);
        let name = "sekisho_requests_total";
        text.family(name, "counter", "Requests by the class of their status and its source.");
        for (source, classes) in ["upstream", "gate"].iter().zip(&self.responses) {
            for (class, count) in classes.iter().enumerate().skip(1) {
                let labels = format!("status=\"{}xx\",source=\"{source}\"", class + 1);
                text.sample(name, &labels, *count);
            }
        }
        let name = "sekisho_clients_lost_total";
        text.family(name, "counter", "Clients that left or stalled while they were served.");
        text.sample(name, "", self.clients_lost);
    }

    fn write_gate(&self, text: &mut Text) {
        let sum = |of: fn(&UpstreamStats) -> u32| self.upstreams.iter().map(of).sum();
        let classes = self.classes.iter().map(|(name, counts)| (&**name, counts.clone()));
        let gate = GateFigures {
            labels: String::new(),
            slots_dropped: self.slots_dropped,
            slots: sum(|upstream| upstream.slots),
            busy: sum(|upstream| upstream.busy),
            classes: classes.collect(),
        };
        prometheus::write_gates(text, &[gate]);
        text.family("sekisho_paused", "gauge", "1 while the gate starts no job.");
        text.sample("sekisho_paused", "", u64::from(self.paused));
        text.family("sekisho_draining", "gauge", "1 while the gate drains.");
        text.sample("sekisho_draining", "", u64::from(self.draining));
    }

    fn write_upstreams(&self, text: &mut Text) {
        type Value = fn(&UpstreamStats) -> u64;
        let plain: [(&str, &str, &str, Value); 6] = [
            ("sekisho_upstream_up", "gauge", "1 if the server is up.", |u| u64::from(u.up)),
            ("sekisho_upstream_busy", "gauge", "Its slots that are held.", |u| u64::from(u.busy)),
            ("sekisho_upstream_slots", "gauge", "Its slots that exist.", |u| u64::from(u.slots)),
            ("sekisho_upstream_connections_total", "counter", "Connections opened.", |u| {
                u.connections_opened
            }),
            ("sekisho_upstream_reused_total", "counter", "Requests on a kept connection.", |u| {
                u.connections_reused
            }),
            ("sekisho_upstream_retries_total", "counter", "Requests sent a second time.", |u| {
                u.retries
            }),
        ];
        for (name, kind, help, value) in plain {
            text.family(name, kind, help);
            for upstream in &self.upstreams {
                text.sample(name, &label(upstream), value(upstream));
            }
        }
        let name = "sekisho_upstream_errors_total";
        text.family(name, "counter", "What went wrong with the server, by kind.");
        for upstream in &self.upstreams {
            for (error, kind) in UPSTREAM_ERRORS {
                let labels = format!("{},kind=\"{kind}\"", label(upstream));
                text.sample(name, &labels, upstream.errors(error));
            }
        }
        type Of = fn(&UpstreamStats) -> &Times;
        let times: [(&str, &str, Of); 2] = [
            ("sekisho_upstream_wait_seconds", "From arrival to start of its jobs.", |u| &u.wait),
            ("sekisho_upstream_hold_seconds", "From start to departure of its jobs.", |u| &u.hold),
        ];
        for (name, help, of) in times {
            text.family(name, "histogram", help);
            for upstream in &self.upstreams {
                text.times(name, &label(upstream), of(upstream));
            }
        }
    }
}

fn label(upstream: &UpstreamStats) -> String {
    prometheus::label("upstream", &upstream.address.to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_sample_belongs_to_a_family_and_buckets_are_cumulative() {
        let mut stats = Stats::new(&["127.0.0.1:80".parse().unwrap()]);
        stats.upstreams[0].wait.observe(Duration::from_micros(150));
        stats.upstreams[0].wait.observe(Duration::from_secs(200));
        stats.upstreams[0].count_error(UpstreamError::Garbage);
        stats.count_response(Source::Gate, 503);
        let text = stats.prometheus(&[]);
        let mut family = "";
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                family = help.split(' ').next().unwrap();
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                assert!(kind.starts_with(family));
            } else {
                assert!(line.starts_with(family), "{line} in {family}");
                assert!(line.rsplit(' ').next().unwrap().parse::<f64>().is_ok(), "{line}");
            }
        }
        let has = |line: &str| assert!(text.contains(&format!("{line}\n")), "{line} in {text}");
        has("sekisho_upstream_wait_seconds_bucket{upstream=\"127.0.0.1:80\",le=\"0.0001\"} 0");
        has("sekisho_upstream_wait_seconds_bucket{upstream=\"127.0.0.1:80\",le=\"0.0002\"} 1");
        has("sekisho_upstream_wait_seconds_bucket{upstream=\"127.0.0.1:80\",le=\"100\"} 1");
        has("sekisho_upstream_wait_seconds_bucket{upstream=\"127.0.0.1:80\",le=\"+Inf\"} 2");
        has("sekisho_upstream_wait_seconds_sum{upstream=\"127.0.0.1:80\"} 200.00015");
        has("sekisho_requests_total{status=\"5xx\",source=\"gate\"} 1");
        has("sekisho_upstream_errors_total{upstream=\"127.0.0.1:80\",kind=\"garbage\"} 1");
    }
}
