//! The output of ab, ApacheBench.

use advise::{MeanFrom, Pace, Tool, ToolMean, ToolRun};

use super::scan::{Broken, Section, blank, clients, count, number, percentile};

pub(super) fn starts(line: &str) -> bool {
    line.starts_with("This is ApacheBench") || line.starts_with("Server Software:")
}

pub(super) fn read(section: &Section<'_>) -> Result<ToolRun, Broken> {
    let concurrency = section.value("Concurrency Level:", 0, "number of clients", clients)?;
    let took = section.value("Time taken for tests:", 0, "time in seconds", number)?;
    let completed = section.value("Complete requests:", 0, "count", count)?;
    let mut failed = section.maybe("Failed requests:", 0, "count", count)?.unwrap_or(0);
    failed += section.maybe("Non-2xx responses:", 0, "count", count)?.unwrap_or(0);
    let throughput = section.value("Requests per second:", 0, "rate", number)?;
    // Both lines have the same label; the first is the one of a request.
    section.value("Time per request:", 0, "time in milliseconds", number)?;
    let host = section.find("Server Hostname:").and_then(|l| l.words("Server Hostname:").pop());
    let port = section.find("Server Port:").and_then(|line| line.words("Server Port:").pop());
    let path = section.find("Document Path:").and_then(|line| line.words("Document Path:").pop());
    Ok(ToolRun {
        clients: Some(concurrency),
        pace: Pace::AtOnce,
        throughput,
        response: Some(mean(section, concurrency, throughput)?),
        fastest: times(section)?.map(|[fastest, _, _]| fastest).filter(|fastest| *fastest > 0.0),
        quantiles: quantiles(section)?,
        completed,
        failed,
        seconds: Some(took),
        target: host.zip(port).zip(path).map(|((host, port), path)| format!("{host}:{port}{path}")),
        traps: vec![
            "ab's second `Time per request (across all concurrent requests)` is 1/X, no response \
             time; its first is N/X; only `Total:` of the Connection Times was measured, in whole \
             milliseconds; requests whose length differs count as failed"
                .into(),
        ],
        ..blank(Tool::Ab)
    })
}

/// Fastest, mean and slowest of `Total:` \[s\].
fn times(section: &Section<'_>) -> Result<Option<[f64; 3]>, Broken> {
    let Some(line) = section.find("Total:") else { return Ok(None) };
    let words = line.words("Total:");
    let ms = |at: usize| words.get(at).and_then(|word| number(word)).map(|ms| ms / 1e3);
    match (ms(0), ms(1), words.last().and_then(|word| number(word))) {
        (Some(fastest), Some(mean), Some(slowest)) => Ok(Some([fastest, mean, slowest / 1e3])),
        _ => Err(line.broken("times in milliseconds")),
    }
}

/// The measured mean where its milliseconds tell enough, else the one that ab computed.
fn mean(section: &Section<'_>, clients: u32, throughput: f64) -> Result<ToolMean, Broken> {
    let measured = times(section)?.map(|[_, mean, _]| mean).filter(|mean| *mean >= 5e-3);
    Ok(match measured {
        Some(seconds) => ToolMean { seconds, rounding: 0.5e-3, from: MeanFrom::Requests },
        None => {
            let seconds = f64::from(clients) / throughput;
            ToolMean { seconds, rounding: 0.0, from: MeanFrom::Derived }
        }
    })
}

fn quantiles(section: &Section<'_>) -> Result<Vec<(f64, f64)>, Broken> {
    let label = "Percentage of the requests served";
    let below = section.lines.iter().skip_while(|line| !line.text.contains(label));
    let mut found = Vec::new();
    for line in below.skip(1) {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        let [share, value, ..] = words[..] else { break };
        let Some(q) = percentile(share) else { break };
        let ms = number(value).ok_or_else(|| line.broken("time in milliseconds"))?;
        if q < 1.0 {
            found.push((q, ms / 1e3));
        }
    }
    Ok(found)
}
