//! The numbers of the server as Prometheus reads them.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use super::Gateway;
use crate::server::Named;

impl Gateway {
    pub(super) fn metrics(&self) -> String {
        let mut all = Named::new();
        let mut add = |name: &'static str, value: u64| *all.entry(name).or_insert(0) += value;
        for partition in &self.partitions {
            let figures = partition.shown.figures();
            let counts = figures.counts;
            add("handled_total", counts.handled);
            add("cache_hits_total", counts.hits);
            add("loads_total", counts.loads);
            add("passes_total", counts.passes);
            add("commits_total", counts.commits);
            add("taken_back_total", counts.taken_back);
            add("agents", figures.agents);
            add("agents_cached", figures.cached.into());
            add("state_bytes", figures.state_bytes);
            add("message_bytes", figures.message_bytes);
            add("store_errors_total", partition.shown.store_errors.load(Ordering::Relaxed));
        }
        let full = self.partitions.iter().filter(|it| it.shown.full().is_some()).count();
        add("store_full", full as u64);
        let kept = self.board.shelf().counts();
        add("messages_accepted_total", self.figures.accepted());
        add("requests_refused_total", self.figures.refused());
        let (lines, line_error) = self.figures.lines_refused();
        add("source_lines_refused_total", lines);
        add("notifications_delivered_total", self.board.delivered.load(Ordering::Relaxed));
        add("notification_failures_total", self.board.failed.load(Ordering::Relaxed));
        add("notifications_in_flight", self.board.in_flight.load(Ordering::Relaxed));
        add("notifications_kept", kept.waiting as u64);
        add("notifications_dead", kept.dead as u64);
        add("notifications_gathered", kept.gathered as u64);
        add("rules_changes_total", self.reload.changes.load(Ordering::Relaxed));
        add("uptime_seconds", self.started.elapsed().as_secs());
        let mut text = String::new();
        for (name, value) in all {
            let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
            // Writing to a string does not fail.
            writeln!(text, "# TYPE sekisho_agents_{name} {kind}\nsekisho_agents_{name} {value}")
                .ok();
        }
        for error in self.partitions.iter().filter_map(|it| it.shown.last_error()) {
            writeln!(text, "# last error of the store: {}", error.replace('\n', " ")).ok();
        }
        if let Some(error) = line_error {
            writeln!(text, "# last error of a source: {}", error.replace('\n', " ")).ok();
        }
        if let Some(error) = self.board.last_error() {
            writeln!(text, "# last error of the delivery: {}", error.replace('\n', " ")).ok();
        }
        text
    }
}
