//! Writes a run record in the formats of others: CSV for spreadsheets, and the two text formats of
//! HdrHistogram for its plotters and for merging over machines. Pure functions.

use std::fmt::Write;

use measure::{ClassCounts, ErrorKind, Histogram, Interval, RunRecord};

/// Every kind of error, in the order of the columns.
const KINDS: [ErrorKind; 34] = [
    ErrorKind::ConnectRefused,
    ErrorKind::ConnectTimeout,
    ErrorKind::ConnectOther,
    ErrorKind::Tls,
    ErrorKind::Reset,
    ErrorKind::ClosedEarly,
    ErrorKind::Malformed,
    ErrorKind::WrongLength,
    ErrorKind::Timeout,
    ErrorKind::Status4xx,
    ErrorKind::Refused,
    ErrorKind::Status5xx,
    ErrorKind::StatusOther,
    ErrorKind::StreamReset,
    ErrorKind::GoAway,
    ErrorKind::InFlightBound,
    ErrorKind::SerializationFailure,
    ErrorKind::Deadlock,
    ErrorKind::SqlRollback,
    ErrorKind::SqlConnection,
    ErrorKind::SqlUnsupported,
    ErrorKind::SqlData,
    ErrorKind::SqlConstraint,
    ErrorKind::SqlTransactionState,
    ErrorKind::SqlAuthorization,
    ErrorKind::SqlSyntaxOrAccess,
    ErrorKind::SqlResources,
    ErrorKind::SqlLimit,
    ErrorKind::SqlPrerequisite,
    ErrorKind::SqlOperator,
    ErrorKind::SqlSystem,
    ErrorKind::SqlRaised,
    ErrorKind::SqlInternal,
    ErrorKind::SqlOther,
];

/// The name of a kind's column. A new kind needs a name here, and a place in the list above.
fn column(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::ConnectRefused => "connect_refused",
        ErrorKind::ConnectTimeout => "connect_timeout",
        ErrorKind::ConnectOther => "connect_other",
        ErrorKind::Tls => "tls",
        ErrorKind::Reset => "reset",
        ErrorKind::ClosedEarly => "closed_early",
        ErrorKind::Malformed => "malformed",
        ErrorKind::WrongLength => "wrong_length",
        ErrorKind::Timeout => "timeout",
        ErrorKind::Status4xx => "status_4xx",
        ErrorKind::Refused => "refused",
        ErrorKind::Status5xx => "status_5xx",
        ErrorKind::StatusOther => "status_other",
        ErrorKind::StreamReset => "stream_reset",
        ErrorKind::GoAway => "go_away",
        ErrorKind::InFlightBound => "in_flight_bound",
        ErrorKind::SerializationFailure => "serialization_failure",
        ErrorKind::Deadlock => "deadlock",
        ErrorKind::SqlRollback => "sqlstate_40",
        ErrorKind::SqlConnection => "sqlstate_08",
        ErrorKind::SqlUnsupported => "sqlstate_0a",
        ErrorKind::SqlData => "sqlstate_22",
        ErrorKind::SqlConstraint => "sqlstate_23",
        ErrorKind::SqlTransactionState => "sqlstate_25",
        ErrorKind::SqlAuthorization => "sqlstate_28",
        ErrorKind::SqlSyntaxOrAccess => "sqlstate_42",
        ErrorKind::SqlResources => "sqlstate_53",
        ErrorKind::SqlLimit => "sqlstate_54",
        ErrorKind::SqlPrerequisite => "sqlstate_55",
        ErrorKind::SqlOperator => "sqlstate_57",
        ErrorKind::SqlSystem => "sqlstate_58",
        ErrorKind::SqlRaised => "sqlstate_p0",
        ErrorKind::SqlInternal => "sqlstate_xx",
        ErrorKind::SqlOther => "sqlstate_other",
    }
}

/// A row for each interval and class. Times are in seconds, sizes in bytes; the last columns are the
/// interval's and stand in the row of each class.
pub fn csv(record: &RunRecord) -> String {
    let mut out = String::from(
        "start_s,length_s,class,completed,bytes,response_mean_s,response_p50_s,response_p90_s,\
         response_p99_s,response_p999_s,response_max_s,first_byte_p50_s,first_byte_p99_s,\
         connect_p50_s,connect_p99_s",
    );
    for kind in KINDS {
        let _ = write!(out, ",{}", column(kind));
    }
    out.push_str(",in_flight_mean,started,connects,lag_p99_s,generator_cpu_s\n");
    for interval in &record.intervals {
        let lag_p99 = interval.lag.quantile(0.99).as_secs_f64();
        let cpu_s: f64 = interval.generator.thread_cpu_s.iter().sum();
        for (class, counts) in interval.classes.iter().enumerate() {
            let _ = write!(out, "{},{},", interval.start_s, interval.length_s);
            out.push_str(&quoted(class_name(record, class)));
            csv_counts(&mut out, counts);
            let Interval { in_flight_mean, started, connects, .. } = interval;
            let _ = writeln!(out, ",{in_flight_mean},{started},{connects},{lag_p99},{cpu_s}");
        }
    }
    out
}

fn csv_counts(out: &mut String, counts: &ClassCounts) {
    let at = |histogram: &Histogram, q: f64| histogram.quantile(q).as_secs_f64();
    let total = &counts.total;
    let _ = write!(out, ",{},{},{}", counts.completed, counts.bytes, total.mean_s());
    for q in [0.5, 0.9, 0.99, 0.999] {
        let _ = write!(out, ",{}", at(total, q));
    }
    let _ = write!(out, ",{}", total.max().as_secs_f64());
    for histogram in [&counts.first_byte, &counts.connect] {
        let _ = write!(out, ",{},{}", at(histogram, 0.5), at(histogram, 0.99));
    }
    for kind in KINDS {
        let _ = write!(out, ",{}", counts.errors.get(&kind).copied().unwrap_or(0));
    }
}

/// A field that may hold anything (RFC 4180).
fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn class_name(record: &RunRecord, class: usize) -> &str {
    record.header.classes.get(class).map_or("", |spec| &spec.name)
}

/// An interval log of HdrHistogram, version 1.3: the response times \[ns\] of each interval, tagged by
/// class. Logs of several machines can be merged without loss.
pub fn interval_log(record: &RunRecord) -> String {
    let mut out = String::from("#[Histogram log format version 1.3]\n");
    let start = epoch_s(&record.header.started);
    if let Some(start) = start {
        let started = &record.header.started;
        let _ = writeln!(out, "#[StartTime: {start:.3} (seconds since epoch), {started}]");
        // Timestamps below count from here.
        let _ = writeln!(out, "#[BaseTime: {start:.3} (seconds since epoch)]");
    }
    out.push_str(
        "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n",
    );
    for interval in &record.intervals {
        for (class, counts) in interval.classes.iter().enumerate() {
            if counts.total.is_empty() {
                continue;
            }
            // Nothing of a log's own syntax may stand in a tag.
            let tag = class_name(record, class)
                .replace(|c: char| c == ',' || c == '#' || c.is_whitespace(), "_");
            let max_ms = counts.total.max().as_secs_f64() * 1e3;
            let _ = writeln!(
                out,
                "Tag={tag},{:.3},{:.3},{max_ms:.3},{}",
                interval.start_s,
                interval.length_s,
                counts.total.encode()
            );
        }
    }
    out
}

/// A percentile distribution of the response times after the warm-up \[ms\], in the text format that
/// HdrHistogram's plotters read (`.hgrm`): of one class, or of all.
pub fn percentiles(record: &RunRecord, class: Option<usize>) -> String {
    let mut all = Histogram::new();
    for interval in record.steady() {
        for (at, counts) in interval.classes.iter().enumerate() {
            if class.is_none_or(|class| class == at) {
                all.merge(&counts.total);
            }
        }
    }
    percentile_text(&all)
}

/// Ticks for each halving of the distance to 100 %.
const TICKS: f64 = 5.0;

fn percentile_text(histogram: &Histogram) -> String {
    let mut out = String::from("       Value     Percentile TotalCount 1/(1-Percentile)\n\n");
    let bars: Vec<(u64, u64)> = histogram.counts().collect();
    let total = histogram.len();
    let (mut level, mut below) = (0.0_f64, 0);
    for (at, &(nanos, count)) in bars.iter().enumerate() {
        below += count;
        let reached = below as f64 / total as f64;
        let value_ms = nanos as f64 * 1e-6;
        if at + 1 == bars.len() {
            let _ = writeln!(out, "{value_ms:12.3} {:14.12} {below:10}", 1.0);
            break;
        }
        while reached >= level {
            let inverse = 1.0 / (1.0 - level);
            let _ = writeln!(out, "{value_ms:12.3} {level:14.12} {below:10} {inverse:14.2}");
            let halvings = inverse.log2().floor() + 1.0;
            level += 1.0 / (TICKS * halvings.exp2());
        }
    }
    let (mean_ms, stdev_ms) = (histogram.mean_s() * 1e3, histogram.stdev_s() * 1e3);
    let max_ms = histogram.max().as_secs_f64() * 1e3;
    let _ = writeln!(out, "#[Mean    = {mean_ms:12.3}, StdDeviation   = {stdev_ms:12.3}]");
    let _ = writeln!(out, "#[Max     = {max_ms:12.3}, Total count    = {total:12}]");
    out
}

/// A moment of RFC 3339 in UTC (`2026-11-20T11:30:00Z`, a fraction allowed) \[s since 1970\].
fn epoch_s(moment: &str) -> Option<f64> {
    let (date, time) = moment.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.splitn(3, '-').map(str::parse::<i64>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    let mut time = time.splitn(3, ':').map(str::parse::<f64>);
    let (hour, minute, second) = (time.next()?.ok()?, time.next()?.ok()?, time.next()?.ok()?);
    // Days since 1970 in the proleptic Gregorian calendar; years begin in March, so that the leap
    // day is the last one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (153 * month + 2) / 5
        + day
        - 719_469;
    Some(days as f64 * 86_400.0 + hour * 3600.0 + minute * 60.0 + second)
}

#[cfg(test)]
#[path = "export_tests.rs"]
mod tests;
