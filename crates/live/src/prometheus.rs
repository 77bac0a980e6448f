//! Counts that both gates have alike, in the text format of Prometheus: times in buckets, and text.
//!
//! The text format is written by hand: it is a page of `write!`, the counters live on one thread
//! and need neither locks nor label maps, and a client library would bring both.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::time::Duration;

use crate::estimate::Estimate;
use crate::tally::ClassCounts;

/// The upper bounds of the buckets, 100 us to 100 s \[us\].
pub const BUCKETS: [u64; 19] = [
    100,
    200,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
];

/// Number of times in each bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Not cumulative; the last is for what is longer than all of [`BUCKETS`].
    counts: [u64; BUCKETS.len() + 1],
    sum: Duration,
}

impl Times {
    /// Counts one time.
    pub fn observe(&mut self, time: Duration) {
        let below_second = u64::from(time.subsec_nanos().div_ceil(1000));
        let micros = time.as_secs().saturating_mul(1_000_000).saturating_add(below_second);
        self.counts[BUCKETS.partition_point(|&bound| bound < micros)] += 1;
        self.sum += time;
    }

    /// Number of times in each bucket, not cumulative; the last is for what is longer than all of
    /// [`BUCKETS`].
    pub fn counts(&self) -> &[u64; BUCKETS.len() + 1] {
        &self.counts
    }

    /// Number of times observed.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Their sum.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// Their mean; `None` if there is none.
    pub fn mean(&self) -> Option<Duration> {
        let count = self.count();
        (count > 0).then(|| self.sum.div_f64(count as f64))
    }

    /// The bounds between which the share `q` (0 to 1) of the times lies: those of the bucket into
    /// which it falls, at most a factor of 2.5 apart. The upper one is `None` beyond the last of
    /// [`BUCKETS`]; all is `None` if there is no time.
    pub fn quantile(&self, q: f64) -> Option<(Duration, Option<Duration>)> {
        let count = self.count();
        let wanted = ((q * count as f64).ceil() as u64).clamp(1, count.max(1));
        let mut below = 0;
        let bucket = self.counts.iter().position(|here| {
            below += here;
            below >= wanted
        })?;
        let bound = |index: usize| BUCKETS.get(index).copied().map(Duration::from_micros);
        let low = bucket.checked_sub(1).and_then(bound).unwrap_or_default();
        Some((low, bound(bucket)))
    }
}

/// Text in Prometheus' exposition format 0.0.4.
#[derive(Debug)]
pub struct Text(String);

impl Text {
    /// An empty text.
    #[expect(clippy::new_without_default, reason = "a text that is begun is written")]
    pub fn new() -> Text {
        Text(String::with_capacity(16 * 1024))
    }

    /// The whole text.
    pub fn finish(self) -> String {
        self.0
    }

    /// Begins the family of a metric: its name, its kind (`counter`, `gauge` or `histogram`) and a
    /// sentence.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// A sample of the family, with its labels as [`label`] writes them, or none.
    pub fn sample(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = if labels.is_empty() {
            writeln!(self.0, "{name} {value}")
        } else {
            writeln!(self.0, "{name}{{{labels}}} {value}")
        };
    }

    /// The buckets, sum \[s\] and count of times, with one label.
    pub fn times(&mut self, name: &str, label: &str, times: &Times) {
        let mut count = 0;
        for (bound, here) in BUCKETS.iter().zip(times.counts) {
            count += here;
            let seconds = *bound as f64 / 1e6;
            let _ = writeln!(self.0, "{name}_bucket{{{label},le=\"{seconds}\"}} {count}");
        }
        count += times.counts[BUCKETS.len()];
        let sum = times.sum.as_secs_f64();
        let _ = writeln!(self.0, "{name}_bucket{{{label},le=\"+Inf\"}} {count}");
        let _ = writeln!(self.0, "{name}_sum{{{label}}} {sum}");
        let _ = writeln!(self.0, "{name}_count{{{label}}} {count}");
    }
}

/// A gate as its metrics tell it.
#[derive(Clone, Debug)]
pub struct GateFigures<'f> {
    /// The labels that tell it from a server's other gates, as [`label`] writes them; empty if it is the
    /// only one.
    pub labels: String,
    /// Slots that came back because their [guard](crate::SlotGuard) was dropped.
    pub slots_dropped: u64,
    /// Its slots.
    pub slots: u32,
    /// Those that are held.
    pub busy: u32,
    /// Wait so far of the job that has waited longest; zero if none waits.
    pub wait_oldest: Duration,
    /// Counts of each of its classes, by name.
    pub classes: Vec<(&'f str, ClassCounts)>,
    /// Each of its servers.
    pub servers: Vec<ServerFigures>,
}

/// A server of a gate as its metrics tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFigures {
    /// Its address.
    pub address: String,
    /// True if it is up, as far as is known.
    pub up: bool,
    /// Its slots.
    pub slots: u32,
    /// Those that are held.
    pub busy: u32,
    /// Jobs that were started there.
    pub started: u64,
}

/// A process with its gates as its metrics tell it.
#[derive(Clone, Debug)]
pub struct ProcessFigures<'p> {
    /// The kind of the gate: `http` or `postgres`.
    pub gate: &'p str,
    /// The version of the program.
    pub version: &'p str,
    /// Since the start.
    pub uptime: Duration,
    /// Open connections of clients.
    pub connections: u64,
    /// Connections of clients accepted since the start.
    pub connections_accepted: u64,
    /// Lines of the log that could not be written since the start.
    pub log_lines_lost: u64,
    /// True while no job starts.
    pub paused: bool,
    /// True while nobody is let in.
    pub draining: bool,
}

/// Writes what every process of a gate tells, by the same names whatever it stands in front of.
pub fn write_process(text: &mut Text, of: &ProcessFigures<'_>) {
    let name = "sekisho_build_info";
    text.family(name, "gauge", "1, with the version of the program and the kind of the gate.");
    let labels = [label("version", of.version), label("gate", of.gate)].join(",");
    text.sample(name, &labels, 1);
    text.family("sekisho_uptime_seconds", "gauge", "Time since the gate began.");
    text.sample("sekisho_uptime_seconds", "", of.uptime.as_secs_f64());
    let plain: [(&str, &str, &str, u64); 5] = [
        ("sekisho_connections", "gauge", "Open connections of clients.", of.connections),
        (
            "sekisho_connections_accepted_total",
            "counter",
            "Accepted connections of clients.",
            of.connections_accepted,
        ),
        (
            "sekisho_log_lines_lost_total",
            "counter",
            "Lines of the log that could not be written.",
            of.log_lines_lost,
        ),
        ("sekisho_paused", "gauge", "1 while the gate starts no job.", of.paused.into()),
        ("sekisho_draining", "gauge", "1 while the gate drains.", of.draining.into()),
    ];
    for (name, kind, help, value) in plain {
        text.family(name, kind, help);
        text.sample(name, "", value);
    }
}

impl GateFigures<'_> {
    /// The labels of a class of its jobs.
    fn of_class(&self, class: &str) -> String {
        self.with(&label("class", class))
    }

    fn with(&self, further: &str) -> String {
        match &*self.labels {
            "" => further.to_owned(),
            labels => format!("{labels},{further}"),
        }
    }
}

/// Writes what every live gate tells, by the same names whatever it stands in front of: slots and who
/// holds them, who waits, who was refused and why, waits and holds.
pub fn write_gates(text: &mut Text, gates: &[GateFigures<'_>]) {
    let name = "sekisho_slots_dropped_total";
    text.family(
        name,
        "counter",
        "Slots that were dropped and not given back: a defect of the gate.",
    );
    for gate in gates {
        text.sample(name, &gate.labels, gate.slots_dropped);
    }
    type OfGate = fn(&GateFigures<'_>) -> u32;
    let plain: [(&str, &str, OfGate); 2] = [
        ("sekisho_slots", "Slots that exist.", |gate| gate.slots),
        ("sekisho_slots_busy", "Slots that are held.", |gate| gate.busy),
    ];
    for (name, help, value) in plain {
        text.family(name, "gauge", help);
        for gate in gates {
            text.sample(name, &gate.labels, value(gate));
        }
    }
    let name = "sekisho_wait_oldest_seconds";
    text.family(name, "gauge", "For how long the job that waits longest has waited.");
    for gate in gates {
        text.sample(name, &gate.labels, gate.wait_oldest.as_secs_f64());
    }
    write_servers(text, gates);
    let classes = || {
        gates.iter().flat_map(|gate| {
            gate.classes.iter().map(|(name, counts)| (gate.of_class(name), counts))
        })
    };
    type OfClass = fn(&ClassCounts) -> u64;
    let plain: [(&str, &str, &str, OfClass); 3] = [
        ("sekisho_waiting", "gauge", "Jobs that wait for a slot.", |class| class.waiting),
        ("sekisho_class_busy", "gauge", "Slots that the class holds.", |class| class.busy.into()),
        ("sekisho_reneged_total", "counter", "Clients that left while they waited.", |class| {
            class.reneged
        }),
    ];
    for (name, kind, help, value) in plain {
        text.family(name, kind, help);
        for (labels, class) in classes() {
            text.sample(name, &labels, value(class));
        }
    }
    let name = "sekisho_refused_total";
    text.family(name, "counter", "Jobs that the gate turned away, by reason.");
    for (labels, class) in classes() {
        for (reason, count) in class.refused_by_reason() {
            text.sample(name, &format!("{labels},{}", label("reason", reason)), count);
        }
    }
    type Of = fn(&ClassCounts) -> &Times;
    let times: [(&str, &str, Of); 2] = [
        ("sekisho_wait_seconds", "From arrival to start of a job.", |class| &class.wait),
        ("sekisho_hold_seconds", "From start to departure of a job.", |class| &class.hold),
    ];
    for (name, help, of) in times {
        text.family(name, "histogram", help);
        for (labels, class) in classes() {
            text.times(name, &labels, of(class));
        }
    }
}

/// The labels of servers with these addresses. The second of one address is `ADDRESS#2`, so that no series is
/// there twice.
pub fn server_labels<'a>(addresses: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut times = BTreeMap::new();
    addresses
        .map(|address| match times.entry(address).and_modify(|times| *times += 1).or_insert(1) {
            1 => label("server", address),
            nth => label("server", &format!("{address}#{nth}")),
        })
        .collect()
}

fn write_servers(text: &mut Text, gates: &[GateFigures<'_>]) {
    type OfServer = fn(&ServerFigures) -> u64;
    let plain: [(&str, &str, &str, OfServer); 4] = [
        ("sekisho_server_up", "gauge", "1 if the server is up, as far as is known.", |server| {
            server.up.into()
        }),
        ("sekisho_server_slots", "gauge", "Its slots that exist.", |server| server.slots.into()),
        ("sekisho_server_busy", "gauge", "Its slots that are held.", |server| server.busy.into()),
        ("sekisho_server_started_total", "counter", "Jobs that were started there.", |server| {
            server.started
        }),
    ];
    for (name, kind, help, value) in plain {
        text.family(name, kind, help);
        for gate in gates {
            let addresses = gate.servers.iter().map(|server| &*server.address);
            for (named, server) in server_labels(addresses).iter().zip(&gate.servers) {
                text.sample(name, &gate.with(named), value(server));
            }
        }
    }
}

/// Writes numbers of models and what they predict, at most so many.
pub fn write_model(text: &mut Text, estimates: &[Estimate], most: usize) {
    let told = || estimates.iter().take(most);
    let labels = |estimate: &Estimate| {
        let labels = [("of", &estimate.of), ("what", &estimate.what), ("unit", &estimate.unit)];
        labels.map(|(name, value)| label(name, value)).join(",")
    };
    let name = "sekisho_model";
    text.family(name, "gauge", "Numbers of the model and what it predicts.");
    for estimate in told() {
        text.sample(name, &labels(estimate), estimate.value);
    }
    let name = "sekisho_model_happened";
    text.family(name, "gauge", "What happened, of predictions whose time has come.");
    for estimate in told() {
        if let Some(happened) = estimate.happened {
            text.sample(name, &labels(estimate), happened);
        }
    }
}

/// A label with its value, escaped.
pub fn label(name: &str, value: &str) -> String {
    let mut text = format!("{name}=\"");
    for letter in value.chars() {
        match letter {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            letter => text.push(letter),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_belongs_to_the_first_bucket_that_is_not_shorter() {
        let mut times = Times::default();
        for micros in [0, 100, 101, 100_000_000, 100_000_001] {
            times.observe(Duration::from_micros(micros));
        }
        times.observe(Duration::from_nanos(100_001));
        assert_eq!((times.counts[0], times.counts[1]), (2, 2));
        assert_eq!((times.counts[18], times.counts[19], times.count()), (1, 1, 6));
    }

    #[test]
    fn a_quantile_lies_between_the_bounds_of_its_bucket() {
        let mut times = Times::default();
        assert_eq!(times.quantile(0.5), None);
        for micros in [50, 150, 150, 4_000] {
            times.observe(Duration::from_micros(micros));
        }
        let micros = Duration::from_micros;
        assert_eq!(times.quantile(0.0), Some((micros(0), Some(micros(100)))));
        assert_eq!(times.quantile(0.5), Some((micros(100), Some(micros(200)))));
        assert_eq!(times.quantile(1.0), Some((micros(2_000), Some(micros(5_000)))));
        times.observe(Duration::from_secs(101));
        assert_eq!(times.quantile(1.0), Some((micros(100_000_000), None)));
    }

    #[test]
    fn a_server_that_is_named_twice_makes_no_series_twice() {
        let labels = server_labels(["a:1", "b:1", "a:1"].into_iter());
        assert_eq!(labels, [r#"server="a:1""#, r#"server="b:1""#, r#"server="a:1#2""#]);
    }

    #[test]
    fn a_label_cannot_end_early() {
        assert_eq!(label("a", "b\"} 1\n\\"), r#"a="b\"} 1\n\\""#);
    }
}
