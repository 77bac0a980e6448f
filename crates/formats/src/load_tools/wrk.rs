//! The output of wrk, and of wrk2, which is wrk with a rate.

use advise::{MeanFrom, Pace, Tool, ToolMean, ToolRun};

use super::scan::{
    Broken, Section, blank, clients, count, number, percentile, rounding, target, time,
};

pub(super) fn starts(line: &str) -> bool {
    line.starts_with("Running ") && line.contains(" test @ ")
}

pub(super) fn read(section: &Section<'_>) -> Result<ToolRun, Broken> {
    let head = section.need("Running ")?;
    let url = head.text.split_once(" test @ ").map(|(_, url)| url.trim());
    let threads = section
        .lines
        .iter()
        .find(|line| line.text.contains(" threads and ") && line.text.contains(" connections"))
        .ok_or_else(|| {
            section.at_end("the output has no line of threads and connections".into())
        })?;
    let connections = threads.text.split_whitespace().nth(3).and_then(clients);
    let connections = connections.ok_or_else(|| threads.broken("number of connections"))?;
    let rated = section.lines.iter().any(|line| {
        line.text.contains("Thread calibration:") || line.text.contains("(HdrHistogram - ")
    }) || section.find("Req/Sec").is_some_and(|line| line.text.contains("-nan"));
    let latency = section.need("Latency ")?;
    // Mean, deviation, slowest, and the share within one deviation.
    let [word, _, _, _] = latency.words("Latency ")[..] else {
        return Err(latency.broken("four values"));
    };
    let seconds = time(word).filter(|mean| *mean > 0.0);
    let seconds = seconds.ok_or_else(|| latency.broken("mean latency, such as 12.3ms"))?;
    let total =
        section.lines.iter().find(|line| line.text.contains(" requests in ")).ok_or_else(|| {
            section.at_end("the output ends without the total of requests".into())
        })?;
    let words: Vec<&str> = total.text.split_whitespace().collect();
    let completed = words.first().and_then(|word| count(word));
    let completed = completed.ok_or_else(|| total.broken("number of requests"))?;
    let took = words.get(3).and_then(|word| time(word));
    let took = took.ok_or_else(|| total.broken("length of the run"))?;
    let throughput = section.value("Requests/sec:", 0, "rate", number)?;
    let mut failed = section.maybe("Non-2xx or 3xx responses:", 0, "count", count)?.unwrap_or(0);
    failed += socket_errors(section)?;
    let from = if rated { MeanFrom::Requests } else { MeanFrom::Corrected };
    let (pace, tool) =
        if rated { (Pace::Scheduled, Tool::Wrk2) } else { (Pace::AtOnce, Tool::Wrk) };
    Ok(ToolRun {
        clients: Some(connections),
        pace,
        throughput,
        response: Some(ToolMean { seconds, rounding: rounding(word), from }),
        quantiles: quantiles(section)?,
        completed,
        failed,
        seconds: Some(took),
        target: url.map(target),
        traps: vec![trap(tool).into()],
        ..blank(tool)
    })
}

fn trap(tool: Tool) -> &'static str {
    match tool {
        Tool::Wrk2 => {
            "wrk2 times each request from when it was due, so a backlog inside the generator counts \
             (as it should); its Req/Sec line is of one thread, and -nan before the calibration of \
             10 s is over"
        }
        _ => {
            "wrk's Req/Sec line is of one thread, only Requests/sec is of all; Max is the slowest of \
             all, +/- Stdev the share within one deviation"
        }
    }
}

fn socket_errors(section: &Section<'_>) -> Result<u64, Broken> {
    let Some(line) = section.find("Socket errors:") else { return Ok(0) };
    let mut sum = 0;
    for part in line.text.trim_start().trim_start_matches("Socket errors:").split(',') {
        let of = part.split_whitespace().last().and_then(count);
        sum += of.ok_or_else(|| line.broken("count of each kind of error"))?;
    }
    Ok(sum)
}

/// The lines below `Latency Distribution`.
fn quantiles(section: &Section<'_>) -> Result<Vec<(f64, f64)>, Broken> {
    let below = section.lines.iter().skip_while(|l| !l.text.contains("Latency Distribution"));
    let mut found = Vec::new();
    for line in below.skip(1) {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        let [share, value] = words[..] else { break };
        let Some(q) = percentile(share) else { break };
        let seconds = time(value).ok_or_else(|| line.broken("time"))?;
        if q < 1.0 {
            found.push((q, seconds));
        }
    }
    Ok(found)
}
