//! The text output of hey and of oha, which imitates it.

use advise::{MeanFrom, Pace, Tool, ToolMean, ToolRun};

use super::scan::{
    Broken, Line, Section, blank, clients, count, number, percentile, rounding, time,
};

pub(super) fn starts(line: &str) -> bool {
    line.trim() == "Summary:"
}

pub(super) fn read(section: &Section<'_>) -> Result<ToolRun, Broken> {
    let is_oha = section.find("Success rate:").is_some();
    let tool = if is_oha { Tool::Oha } else { Tool::Hey };
    let total = seconds(section, "Total:")?;
    let fastest = seconds(section, "Fastest:")?;
    let (mean, rounding) = mean(section)?;
    let throughput = section.value("Requests/sec:", 0, "rate", number)?;
    let (answered, bad) = statuses(section)?;
    let lost = errors(section)?;
    let traps = if is_oha {
        "oha does not print its connections (-c, 50 if left out) nor a rate (-q)"
    } else {
        "hey does not print its workers (-c, 50 if left out) nor a rate limit (-q, of each worker); \
         its times have four decimals of a second"
    };
    Ok(ToolRun {
        clients: section.option("-c").and_then(clients),
        pace: Pace::AtOnce,
        throughput,
        response: Some(ToolMean { seconds: mean, rounding, from: MeanFrom::Requests }),
        fastest: Some(fastest).filter(|fastest| *fastest > 0.0),
        quantiles: quantiles(section)?,
        completed: answered,
        failed: bad + lost,
        seconds: Some(total),
        traps: vec![traps.into()],
        ..blank(tool)
    })
}

/// A time that is written `0.0332 secs` (hey), `33.2 ms` or `33.2ms` (oha).
fn with_unit(words: &[&str]) -> Option<f64> {
    match words {
        [value, unit, ..] if time(value).is_none() => time(&format!("{value}{unit}")),
        [value, ..] => time(value),
        [] => None,
    }
}

fn seconds(section: &Section<'_>, label: &str) -> Result<f64, Broken> {
    let line = section.need(label)?;
    with_unit(&line.words(label)).ok_or_else(|| line.broken("time with its unit"))
}

fn mean(section: &Section<'_>) -> Result<(f64, f64), Broken> {
    let line = section.need("Average:")?;
    let words = line.words("Average:");
    let seconds = with_unit(&words).filter(|mean| *mean > 0.0);
    let seconds = seconds.ok_or_else(|| line.broken("time with its unit above 0"))?;
    let text: String = words.iter().take(2).copied().collect();
    Ok((seconds, rounding(&text)))
}

/// The lines below a title, to the first that is empty.
fn below<'s, 'a>(section: &'s Section<'a>, title: &str) -> impl Iterator<Item = &'s Line<'a>> {
    let at = section.lines.iter().position(|line| line.text.trim_start().starts_with(title));
    let from = at.map_or(section.lines.len(), |at| at + 1);
    section.lines[from..].iter().take_while(|line| !line.text.trim().is_empty())
}

/// All answers, and those whose status is a failure.
fn statuses(section: &Section<'_>) -> Result<(u64, u64), Broken> {
    section.need("Status code distribution:")?;
    let (mut all, mut bad) = (0, 0);
    for line in below(section, "Status code distribution:") {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        let status = words.first().and_then(|word| {
            word.strip_prefix('[').and_then(|word| word.strip_suffix(']')).and_then(count)
        });
        let responses = words.get(1).and_then(|word| count(word));
        let (Some(status), Some(responses)) = (status, responses) else {
            return Err(line.broken("status and count, such as `[200] 100 responses`"));
        };
        all += responses;
        bad += if status >= 400 { responses } else { 0 };
    }
    Ok((all, bad))
}

/// Requests without an answer. Those that oha cut off at the end of the run are none.
fn errors(section: &Section<'_>) -> Result<u64, Broken> {
    let mut sum = 0;
    for line in below(section, "Error distribution:") {
        if line.text.contains("aborted due to deadline") {
            continue;
        }
        let inner = line.text.trim().strip_prefix('[').and_then(|text| text.split_once(']'));
        sum += inner
            .and_then(|(number, _)| count(number))
            .ok_or_else(|| line.broken("count, such as `[3]`"))?;
    }
    Ok(sum)
}

fn quantiles(section: &Section<'_>) -> Result<Vec<(f64, f64)>, Broken> {
    let title = ["Latency distribution:", "Response time distribution:"];
    let title = title.into_iter().find(|title| section.find(title).is_some()).unwrap_or("\0");
    let mut found = Vec::new();
    for line in below(section, title) {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        let [share, "in", value @ ..] = &words[..] else {
            return Err(line.broken("percentile, such as `50% in 0.0310 secs`"));
        };
        let q = percentile(share).ok_or_else(|| line.broken("percentile"))?;
        let seconds = with_unit(value).ok_or_else(|| line.broken("time with its unit"))?;
        found.push((q, seconds));
    }
    Ok(found)
}
