//! The output of h2load of nghttp2.

use advise::{MeanFrom, Pace, Tool, ToolMean, ToolRun};

use super::scan::{Broken, Section, blank, clients, count, number, rounding, time};

pub(super) fn starts(line: &str) -> bool {
    line.starts_with("spawning thread #0:") && line.contains("total client(s)")
}

pub(super) fn read(section: &Section<'_>) -> Result<ToolRun, Broken> {
    let mut all = 0u32;
    for line in section.lines.iter().filter(|line| line.text.starts_with("spawning thread #")) {
        let of = line.text.split_once(": ").and_then(|(_, rest)| rest.split(' ').next());
        let of = of.and_then(clients).ok_or_else(|| line.broken("number of clients"))?;
        all = all.saturating_add(of);
    }
    let finished = section.need("finished in ")?;
    let words = finished.words("finished in ");
    let took = words.first().and_then(|word| time(word));
    let took = took.ok_or_else(|| finished.broken("length of the run"))?;
    let throughput = words.get(1).and_then(|word| number(word));
    let throughput = throughput.ok_or_else(|| finished.broken("rate"))?;
    let requests = section.need("requests:")?;
    let counts = requests.words("requests:");
    let counted = |name: &str| {
        let at = counts.iter().position(|word| word.trim_end_matches(',') == name)?;
        counts.get(at.checked_sub(1)?).and_then(|word| count(word))
    };
    let completed = counted("done").ok_or_else(|| requests.broken("count of those done"))?;
    let lost = counted("failed").ok_or_else(|| requests.broken("count of those failed"))?;
    let line = section.need("time for request:")?;
    let times = line.words("time for request:");
    let read = |at: usize| times.get(at).and_then(|word| time(word));
    let (Some(fastest), Some(_), Some(seconds), 5) = (read(0), read(1), read(2), times.len())
    else {
        return Err(line.broken("times: min, max, mean"));
    };
    // With a main duration, what was done before and after it is in no rate.
    let timed = section.lines.iter().any(|line| line.text.contains("Timing-based test"));
    Ok(ToolRun {
        clients: Some(all),
        pace: Pace::AtOnce,
        throughput,
        response: (seconds > 0.0).then(|| ToolMean {
            seconds,
            rounding: rounding(times[2]),
            from: MeanFrom::Requests,
        }),
        fastest: Some(fastest).filter(|fastest| *fastest > 0.0),
        completed,
        failed: lost + bad_statuses(section)?,
        seconds: Some(took).filter(|_| !timed),
        traps: vec![
            "h2load's columns are min, max, mean, sd: the second is the slowest, not the mean; its \
             last line `req/s` is of one client; with -m, several requests of a client are under way \
             at once and N is -c times -m (say it with --clients)"
                .into(),
        ],
        ..blank(Tool::H2load)
    })
}

fn bad_statuses(section: &Section<'_>) -> Result<u64, Broken> {
    let Some(line) = section.find("status codes:") else { return Ok(0) };
    let words = line.words("status codes:");
    let mut bad = 0;
    for pair in words.chunks(2) {
        let of = count(pair[0]).ok_or_else(|| line.broken("count of each status"))?;
        bad += if pair.get(1).is_some_and(|kind| kind.starts_with(['4', '5'])) { of } else { 0 };
    }
    Ok(bad)
}
