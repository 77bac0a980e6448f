//! Counts of an HTTP gate, as plain values and in the text format of Prometheus.

use std::net::SocketAddr;
use std::time::Duration;

use live::prometheus::{self, GateFigures, ProcessFigures, ServerFigures, Text, Times};
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
    /// Its name in metrics and logs.
    pub fn name(self) -> &'static str {
        UPSTREAM_ERRORS[self as usize].1
    }

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

    /// Number of errors of all kinds.
    pub fn errors_all(&self) -> u64 {
        self.errors.iter().sum()
    }

    pub(crate) fn count_error(&mut self, error: UpstreamError) {
        self.errors[error as usize] += 1;
    }
}

/// Requests and responses of one class, and their sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// By source and hundreds of the status.
    responses: [[u64; 5]; 2],
    /// Of requests that have ended, with their heads \[B\].
    pub received: u64,
    /// Of their responses, with their heads \[B\].
    pub sent: u64,
}

impl Traffic {
    /// Responses begun, of the servers and of the gate itself.
    pub fn responses(&self) -> u64 {
        self.responses.iter().flatten().sum()
    }

    /// Responses of the servers and the gate with a status of so many hundreds, 1 to 5.
    pub(crate) fn with_status(&self, hundreds: usize) -> u64 {
        self.responses.iter().map(|of| of[hundreds - 1]).sum()
    }
}

/// Counts since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Since the start of the gate.
    pub uptime: Duration,
    /// Lines of the access log that could not be written.
    pub log_lines_lost: u64,
    /// Wait so far of the job that has waited longest; zero if none waits.
    pub wait_oldest: Duration,
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
    /// Counts of each class of requests, by its name; `other` are those of none, and the first.
    pub classes: Vec<(String, ClassCounts)>,
    /// Responses and sizes of each class, in the same order.
    pub traffic: Vec<Traffic>,
    /// Each server, in the order of the configuration.
    pub upstreams: Vec<UpstreamStats>,
}

impl UpstreamStats {
    /// Those of a server that is up and has done nothing yet.
    pub(crate) fn new(address: SocketAddr) -> UpstreamStats {
        UpstreamStats {
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
        }
    }
}

impl Stats {
    /// Those of a gate with so many classes, `other` among them, that has done nothing yet.
    pub(crate) fn new(upstreams: &[SocketAddr], classes: usize) -> Stats {
        Stats {
            uptime: Duration::ZERO,
            log_lines_lost: 0,
            wait_oldest: Duration::ZERO,
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
            traffic: vec![Traffic::default(); classes],
            upstreams: upstreams.iter().map(|&address| UpstreamStats::new(address)).collect(),
        }
    }

    pub(crate) fn count_response(&mut self, class: u32, source: Source, status: u16) {
        let responses = &mut self.traffic[class as usize].responses;
        responses[source as usize][usize::from(status / 100 - 1)] += 1;
    }

    pub(crate) fn count_bytes(&mut self, class: u32, (received, sent): (u64, u64)) {
        let traffic = &mut self.traffic[class as usize];
        traffic.received += received;
        traffic.sent += sent;
    }

    /// So many classes there are from now on: what was counted of each goes on under its new number, and
    /// what is of none any more under `other`.
    pub(crate) fn renumber(&mut self, numbers: &[Option<u32>], classes: usize) {
        let had = std::mem::replace(&mut self.traffic, vec![Traffic::default(); classes]);
        for (had, number) in had.into_iter().zip(numbers) {
            if let Some(number) = number {
                self.traffic[*number as usize] = had;
            }
        }
    }

    /// Responses begun, of the servers and of the gate itself.
    pub fn responses(&self) -> u64 {
        self.traffic.iter().map(Traffic::responses).sum()
    }

    /// The text that Prometheus reads (exposition format 0.0.4), with what a model has found.
    pub fn prometheus(&self, model: &[Estimate]) -> String {
        let mut text = Text::new();
        self.write_process(&mut text);
        self.write_requests(&mut text);
        self.write_gate(&mut text);
        self.write_upstreams(&mut text);
        prometheus::write_model(&mut text, model, usize::MAX);
        text.finish()
    }

    fn write_process(&self, text: &mut Text) {
        let process = ProcessFigures {
            gate: "http",
            version: env!("CARGO_PKG_VERSION"),
            uptime: self.uptime,
            connections: self.connections,
            connections_accepted: self.connections_accepted,
            log_lines_lost: self.log_lines_lost,
            paused: self.paused,
            draining: self.draining,
        };
        prometheus::write_process(text, &process);
    }

    fn write_requests(&self, text: &mut Text) {
        let classes = || {
            let names = self.classes.iter().map(|(name, _)| prometheus::label("class", name));
            names.zip(&self.traffic)
        };
        let name = "sekisho_requests_total";
        text.family(name, "counter", "Requests by the hundreds of their status and its source.");
        for (class, traffic) in classes() {
            for (source, statuses) in ["server", "gate"].iter().zip(&traffic.responses) {
                for (hundreds, count) in statuses.iter().enumerate().skip(1) {
                    let status = hundreds + 1;
                    let labels = format!("{class},status=\"{status}xx\",source=\"{source}\"");
                    text.sample(name, &labels, *count);
                }
            }
        }
        type Value = fn(&Traffic) -> u64;
        let plain: [(&str, &str, Value); 2] = [
            ("sekisho_received_bytes_total", "Bytes from clients.", |traffic| traffic.received),
            ("sekisho_sent_bytes_total", "Bytes to clients.", |traffic| traffic.sent),
        ];
        for (name, help, value) in plain {
            text.family(name, "counter", help);
            for (class, traffic) in classes() {
                text.sample(name, &class, value(traffic));
            }
        }
        let name = "sekisho_clients_lost_total";
        text.family(name, "counter", "Clients that left or stalled while they were served.");
        text.sample(name, "", self.clients_lost);
    }

    fn write_gate(&self, text: &mut Text) {
        let sum = |of: fn(&UpstreamStats) -> u32| self.upstreams.iter().map(of).sum();
        let classes = self.classes.iter().map(|(name, counts)| (&**name, counts.clone()));
        let server = |upstream: &UpstreamStats| ServerFigures {
            address: upstream.address.to_string(),
            up: upstream.up,
            slots: upstream.slots,
            busy: upstream.busy,
            started: upstream.wait.count(),
        };
        let gate = GateFigures {
            labels: String::new(),
            slots_dropped: self.slots_dropped,
            slots: sum(|upstream| upstream.slots),
            busy: sum(|upstream| upstream.busy),
            wait_oldest: self.wait_oldest,
            classes: classes.collect(),
            servers: self.upstreams.iter().map(server).collect(),
        };
        prometheus::write_gates(text, &[gate]);
    }

    fn write_upstreams(&self, text: &mut Text) {
        let addresses: Vec<String> =
            self.upstreams.iter().map(|upstream| upstream.address.to_string()).collect();
        let labels = prometheus::server_labels(addresses.iter().map(String::as_str));
        let servers = || labels.iter().zip(&self.upstreams);
        type Value = fn(&UpstreamStats) -> u64;
        let plain: [(&str, &str, Value); 3] = [
            ("sekisho_server_connections_total", "Connections opened.", |u| u.connections_opened),
            ("sekisho_server_reused_total", "Requests on a kept connection.", |u| {
                u.connections_reused
            }),
            ("sekisho_server_retries_total", "Requests sent a second time.", |u| u.retries),
        ];
        for (name, help, value) in plain {
            text.family(name, "counter", help);
            for (label, upstream) in servers() {
                text.sample(name, label, value(upstream));
            }
        }
        let name = "sekisho_server_errors_total";
        text.family(name, "counter", "What went wrong with the server, by kind.");
        for (label, upstream) in servers() {
            for (error, kind) in UPSTREAM_ERRORS {
                let labels = format!("{label},kind=\"{kind}\"");
                text.sample(name, &labels, upstream.errors(error));
            }
        }
        type Of = fn(&UpstreamStats) -> &Times;
        let times: [(&str, &str, Of); 2] = [
            ("sekisho_server_wait_seconds", "From arrival to start of its jobs.", |u| &u.wait),
            ("sekisho_server_hold_seconds", "From start to departure of its jobs.", |u| &u.hold),
        ];
        for (name, help, of) in times {
            text.family(name, "histogram", help);
            for (label, upstream) in servers() {
                text.times(name, label, of(upstream));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_belongs_to_a_family_and_buckets_are_cumulative() {
        let mut stats = Stats::new(&["127.0.0.1:80".parse().unwrap()], 1);
        stats.upstreams[0].wait.observe(Duration::from_micros(150));
        stats.upstreams[0].wait.observe(Duration::from_secs(200));
        stats.upstreams[0].count_error(UpstreamError::Garbage);
        stats.classes = vec![("other".into(), ClassCounts::default())];
        stats.count_response(0, Source::Gate, 503);
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
        has("sekisho_server_wait_seconds_bucket{server=\"127.0.0.1:80\",le=\"0.0001\"} 0");
        has("sekisho_server_wait_seconds_bucket{server=\"127.0.0.1:80\",le=\"0.0002\"} 1");
        has("sekisho_server_wait_seconds_bucket{server=\"127.0.0.1:80\",le=\"100\"} 1");
        has("sekisho_server_wait_seconds_bucket{server=\"127.0.0.1:80\",le=\"+Inf\"} 2");
        has("sekisho_server_wait_seconds_sum{server=\"127.0.0.1:80\"} 200.00015");
        has("sekisho_requests_total{class=\"other\",status=\"5xx\",source=\"gate\"} 1");
        has("sekisho_server_errors_total{server=\"127.0.0.1:80\",kind=\"garbage\"} 1");
    }
}
