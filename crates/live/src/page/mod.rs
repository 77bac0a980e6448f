//! The live page of a gate: the parts that the pages of all gates have alike, and the figures of a class
//! as such a page reads them.

use std::time::Duration;

use serde::Serialize;

use crate::prometheus::Times;
use crate::tally::ClassCounts;

const HEAD: &str = include_str!("head.html");
const CHARTS: &str = include_str!("charts.html");
const SCRIPT: &str = include_str!("common.js");
/// The place of the charts in the body of a page.
const CHARTS_HERE: &str = "@charts@";

/// The words of a page outside of its body: HTML, each a part of a sentence.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    /// The title.
    pub title: &'static str,
    /// The state before the first answer.
    pub asking: &'static str,
    /// The two numbers of the first chart, and both together.
    pub now: [&'static str; 3],
    /// The two rates of the second chart, and both together.
    pub rate: [&'static str; 3],
}

/// The words of a gate's page.
pub const GATE: Words = Words {
    title: "Sekisho gate",
    asking: "Asking the gate ...",
    now: ["slots busy", "jobs waiting", "Slots busy and jobs waiting"],
    rate: ["done", "refused or left", "Jobs done per second, and jobs refused or left per second,"],
};

/// A page, one HTML file: `body` is its main element, with `@charts@` where the charts stand, and `script`
/// has a function `show` of the state that the page asks for at `state.json` again and again. Its last
/// line is `forever();`. If it has a function `locked`, that is told the status of an answer to somebody who
/// may not ask, and says what to do.
///
/// # Panics
/// If the body has no place for the charts.
pub fn page(words: &Words, body: &str, script: &str) -> String {
    let (before, after) = body.split_once(CHARTS_HERE).expect("a page has charts");
    let head = HEAD.replace("@title@", words.title).replace("@asking@", words.asking);
    let [now_first, now_second, now] = words.now;
    let [rate_first, rate_second, rate] = words.rate;
    let charts = CHARTS
        .replace("@now-first@", now_first)
        .replace("@now-second@", now_second)
        .replace("@now-aria@", now)
        .replace("@rate-first@", rate_first)
        .replace("@rate-second@", rate_second)
        .replace("@rate-aria@", rate);
    format!("{head}{before}{charts}{after}<script>\n{SCRIPT}{script}</script>\n</html>\n")
}

/// A class of a gate's jobs as a live page reads it. Times are in seconds, and names say so.
#[derive(Debug, Serialize)]
pub struct ClassState<'c> {
    name: &'c str,
    waiting: u64,
    busy: u32,
    wait: TimesState,
    hold: TimesState,
    refused: u64,
    reneged: u64,
}

impl ClassState<'_> {
    /// The class of this name.
    pub fn new<'c>(name: &'c str, counts: &ClassCounts) -> ClassState<'c> {
        ClassState {
            name,
            waiting: counts.waiting,
            busy: counts.busy,
            wait: TimesState::new(&counts.wait),
            hold: TimesState::new(&counts.hold),
            refused: counts.refused(),
            reneged: counts.reneged,
        }
    }
}

#[derive(Debug, Serialize)]
struct TimesState {
    count: u64,
    mean_s: Option<f64>,
    /// Between which bounds it lies; no upper one beyond the last bucket.
    p50_s: Option<(f64, Option<f64>)>,
    p99_s: Option<(f64, Option<f64>)>,
    /// Count of each bucket.
    counts: Vec<u64>,
}

impl TimesState {
    fn new(times: &Times) -> TimesState {
        let quantile = |q| {
            let (low, high): (Duration, Option<Duration>) = times.quantile(q)?;
            Some((low.as_secs_f64(), high.map(|high| high.as_secs_f64())))
        };
        TimesState {
            count: times.count(),
            mean_s: times.mean().map(|mean| mean.as_secs_f64()),
            p50_s: quantile(0.5),
            p99_s: quantile(0.99),
            counts: times.counts().to_vec(),
        }
    }
}
