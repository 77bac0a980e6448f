//! The JSON outputs: of oha, of vegeta, and of weighttp, which prints it below its greeting.

use advise::{MeanFrom, Tool, ToolMean, ToolRun};
use serde_json::Value;

use super::scan::{Broken, Section, blank};
use super::vegeta;

/// True if an object is one of those that are known.
pub(super) fn is_known(value: &Value) -> bool {
    value.get("summary").is_some()
        || value.get("latencies").is_some()
        || value.get("reqs_per_sec").is_some()
}

/// A number of an object, by its path; it must be there, and not below 0.
struct Object<'a> {
    value: &'a Value,
    line: usize,
}

impl Object<'_> {
    fn maybe(&self, path: &str) -> Result<Option<f64>, Broken> {
        match self.value.pointer(path) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_f64().filter(|v| (0.0..1e18).contains(v)) {
                Some(number) => Ok(Some(number)),
                None => Err(self.broken(path, "is no number from 0")),
            },
        }
    }

    fn need(&self, path: &str) -> Result<f64, Broken> {
        self.maybe(path)?.ok_or_else(|| self.broken(path, "is missing"))
    }

    fn count(&self, path: &str) -> Result<u64, Broken> {
        self.need(path).map(|value| value as u64)
    }

    fn broken(&self, path: &str, cause: &str) -> Broken {
        let path = path.trim_start_matches('/').replace('/', ".");
        Broken { line: self.line, cause: format!("`{path}` {cause}") }
    }

    /// The sum of the counts of those keys of a table of statuses that `is_meant`.
    fn statuses(&self, path: &str, is_meant: impl Fn(&str) -> bool) -> Result<u64, Broken> {
        let Some(table) = self.value.pointer(path).and_then(Value::as_object) else { return Ok(0) };
        let mut sum = 0u64;
        for (status, count) in table {
            let Some(count) = count.as_u64() else {
                return Err(self.broken(path, "has a count that is none"));
            };
            sum = sum.saturating_add(if is_meant(status) { count } else { 0 });
        }
        Ok(sum)
    }
}

fn is_bad(status: &str) -> bool {
    status.starts_with(['4', '5']) || status == "0"
}

pub(super) fn read(value: &Value, section: &Section<'_>) -> Result<ToolRun, Broken> {
    let line = section.lines.first().map_or(1, |line| line.number);
    let object = Object { value, line };
    if value.get("latencies").is_some() {
        vegeta_report(&object)
    } else if value.get("reqs_per_sec").is_some() {
        weighttp(&object, section)
    } else {
        oha(&object, section)
    }
}

fn vegeta_report(object: &Object<'_>) -> Result<ToolRun, Broken> {
    let latency = |name: &str| object.need(&format!("/latencies/{name}")).map(|ns| ns / 1e9);
    let mut quantiles = Vec::new();
    for (name, q) in [("50th", 0.5), ("90th", 0.9), ("95th", 0.95), ("99th", 0.99)] {
        quantiles.push((q, latency(name)?));
    }
    let completed = object.count("/requests")?;
    let success = object.need("/success")?.min(1.0);
    Ok(ToolRun {
        pace: vegeta::pace(),
        offered: Some(object.need("/rate")?),
        throughput: object.need("/throughput")?,
        response: Some(ToolMean {
            seconds: latency("mean")?,
            rounding: 0.5e-9,
            from: MeanFrom::Requests,
        }),
        fastest: Some(latency("min")?),
        quantiles,
        completed,
        failed: (completed as f64 * (1.0 - success)).round() as u64,
        seconds: Some((object.need("/duration")? + object.need("/wait")?) / 1e9),
        traps: vec![vegeta::TRAP.into()],
        ..blank(Tool::Vegeta)
    })
}

fn oha(object: &Object<'_>, section: &Section<'_>) -> Result<ToolRun, Broken> {
    let mut quantiles = Vec::new();
    for (name, q) in [("p50", 0.5), ("p75", 0.75), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)] {
        let value = object.maybe(&format!("/latencyPercentiles/{name}"))?;
        quantiles.extend(value.map(|seconds| (q, seconds)));
    }
    let answered = object.statuses("/statusCodeDistribution", |_| true)?;
    let bad = object.statuses("/statusCodeDistribution", is_bad)?;
    let lost = object.statuses("/errorDistribution", |e| !e.contains("aborted due to deadline"))?;
    Ok(ToolRun {
        clients: section.option("-c").and_then(super::scan::clients),
        throughput: object.need("/summary/requestsPerSec")?,
        response: object.maybe("/summary/average")?.map(|seconds| ToolMean {
            seconds,
            rounding: 0.0,
            from: MeanFrom::Requests,
        }),
        fastest: object.maybe("/summary/fastest")?,
        quantiles,
        completed: answered,
        failed: bad.saturating_add(lost),
        seconds: Some(object.need("/summary/total")?),
        traps: vec![
            "oha does not tell its connections (-c, 50 if left out); its requestsPerSec counts \
             failures too"
                .into(),
        ],
        ..blank(Tool::Oha)
    })
}

fn weighttp(object: &Object<'_>, section: &Section<'_>) -> Result<ToolRun, Broken> {
    let mut clients = 0u32;
    for line in section.lines.iter().filter(|l| l.text.starts_with("spawning thread #")) {
        let of = line.text.split_once(": ").and_then(|(_, rest)| rest.split(' ').next());
        let of = of.and_then(super::scan::clients);
        let of = of.ok_or_else(|| line.broken("number of concurrent requests"))?;
        clients = clients.saturating_add(of);
    }
    let unit = match object.value.pointer("/total_times/unit").and_then(Value::as_str) {
        None | Some("us") => 1e-6,
        Some("ms") => 1e-3,
        Some("s") => 1.0,
        Some(_) => return Err(object.broken("/total_times/unit", "is not us, ms or s")),
    };
    let mean = object.maybe("/total_times/avg")?;
    let mut quantiles = Vec::new();
    for (name, q) in [("50%", 0.5), ("75%", 0.75), ("90%", 0.9), ("95%", 0.95), ("99%", 0.99)] {
        let value = object.maybe(&format!("/total_times/{name}"))?;
        quantiles.extend(value.map(|value| (q, value * unit)));
    }
    let took = object.need("/secs_elapsed")?;
    let completed = object.count("/request_counts/retired")?;
    if took <= 0.0 {
        return Err(object.broken("/secs_elapsed", "is 0"));
    }
    object.need("/reqs_per_sec")?;
    Ok(ToolRun {
        clients: (clients > 0).then_some(clients),
        // The printed rate is a whole number.
        throughput: completed as f64 / took,
        response: mean.filter(|mean| *mean > 0.0).map(|mean| ToolMean {
            seconds: mean * unit,
            rounding: 0.5 * unit,
            from: MeanFrom::Requests,
        }),
        fastest: object.maybe("/total_times/0%")?.map(|value| value * unit).filter(|v| *v > 0.0),
        quantiles,
        completed,
        failed: object
            .count("/response_counts/fail")?
            .saturating_add(object.count("/response_counts/errs")?),
        seconds: Some(took),
        traps: vec![
            "weighttp's reqs_per_sec is cut to a whole number; kBps is of 1024 bytes; without -k \
             every request connects anew, and total_times includes that while response_times does \
             not"
            .into(),
        ],
        ..blank(Tool::Weighttp)
    })
}
