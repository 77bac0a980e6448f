//! The reports of vegeta, as text.

use advise::{MeanFrom, Pace, Tool, ToolMean, ToolRun};

use super::scan::{Broken, Section, blank, count, number, rounding, time};

pub(super) fn starts(line: &str) -> bool {
    line.starts_with("Requests ") && line.contains("[total, rate")
}

/// Value after the brackets of a row, at the place of a name within them.
fn column<'a>(section: &Section<'a>, label: &str, name: &str) -> Result<&'a str, Broken> {
    let line = section.need(label)?;
    let found = line.text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    let value = found.and_then(|(names, values)| {
        let at = names.split(", ").position(|column| column == name)?;
        values.trim().split(", ").nth(at)
    });
    value.map(str::trim).ok_or_else(|| line.broken(&format!("column `{name}`")))
}

pub(super) fn read(section: &Section<'_>) -> Result<ToolRun, Broken> {
    let of = |label: &str, name: &str| column(section, label, name);
    let wrong = |label: &str, wanted: &str| match section.need(label) {
        Ok(line) => line.broken(wanted),
        Err(error) => error,
    };
    let rate = |name: &str| {
        number(of("Requests", name)?).ok_or_else(|| wrong("Requests", "rates that are numbers"))
    };
    let all = count(of("Requests", "total")?).ok_or_else(|| wrong("Requests", "total"))?;
    let success = of("Success", "ratio")?.strip_suffix('%').and_then(number);
    let success = success.filter(|share| *share <= 100.0);
    let success = success.ok_or_else(|| wrong("Success", "ratio in %"))? / 100.0;
    let latency = |name: &str| {
        time(of("Latencies", name)?).ok_or_else(|| wrong("Latencies", "times with units"))
    };
    let mean = of("Latencies", "mean")?;
    let mut quantiles = Vec::new();
    for (name, q) in [("50", 0.5), ("90", 0.9), ("95", 0.95), ("99", 0.99)] {
        quantiles.push((q, latency(name)?));
    }
    let total = time(of("Duration", "total")?).ok_or_else(|| wrong("Duration", "times"))?;
    Ok(ToolRun {
        offered: Some(rate("rate")?),
        throughput: rate("throughput")?,
        response: Some(ToolMean {
            seconds: latency("mean")?,
            rounding: rounding(mean),
            from: MeanFrom::Requests,
        }),
        fastest: Some(latency("min")?).filter(|fastest| *fastest > 0.0),
        quantiles,
        completed: all,
        failed: (all as f64 * (1.0 - success)).round() as u64,
        // The rate is of the attack, the throughput of the whole with its last wait.
        seconds: Some(total),
        traps: vec![TRAP.into()],
        ..blank(Tool::Vegeta)
    })
}

pub(super) const TRAP: &str = "vegeta's rate is what was sent, its throughput what succeeded; its times include failures, and \
     a timeout counts as its whole length; out of workers (-max-workers) it sends less than asked";

/// An empty open run.
pub(super) fn pace() -> Pace {
    Pace::Open
}
