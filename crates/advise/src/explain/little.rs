//! Little's law in a run of somebody else's tool: closed or not, and why not.

use measure::figures::time;
use serde::Serialize;

use super::{MeanFrom, Pace, ToolRun};

/// Largest distance of X (R + Z) from N, as a share, beside the parts that rounding and the ends of
/// the run explain: tools disagree with themselves by that much about the moment at which a run
/// begins.
const TOLERANCE: f64 = 0.02;
/// More failures than this make the times those of failures.
const FAILED_MAX: f64 = 0.01;

/// Verdict on N = X (R + Z).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Little {
    /// It does, within the tolerance.
    Closes,
    /// The tool computed the mean from the clients and the throughput: it closes, and says nothing.
    ByConstruction,
    /// The clients are not known, or no mean is told, so that nothing can be checked.
    Unknown,
    /// The load is open, or scheduled: there is no N, and X R is what was outstanding.
    Outstanding,
    /// It does not close.
    Broken,
}

/// Little's law in one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LittleCheck {
    /// The verdict.
    pub little: Little,
    /// N, if it is known.
    pub clients: Option<u32>,
    /// X (R + Z), if a mean is told.
    pub found: Option<f64>,
    /// Largest distance of `found` from N at which the law closes, as a share of N.
    pub tolerance: f64,
    /// The share of requests that failed.
    pub failed: f64,
    /// Why it does not close or cannot be checked, in sentences.
    pub why: Vec<String>,
}

impl LittleCheck {
    /// `found` less N, as a share of N; none where they need not be equal.
    pub fn apart(&self) -> Option<f64> {
        if self.little == Little::Outstanding {
            return None;
        }
        Some(self.found? / f64::from(self.clients?) - 1.0)
    }

    /// True if so many requests failed that the times are those of failures.
    pub fn is_failing(&self) -> bool {
        self.failed > FAILED_MAX
    }
}

pub(super) fn check(run: &ToolRun, clients: Option<u32>, think: f64) -> LittleCheck {
    let asked = run.completed.max(run.failed).max(1) as f64;
    let failed = run.failed as f64 / asked;
    // An open load asks at the rate that it offers, whatever becomes of the requests.
    let rate = run.offered.filter(|_| run.pace == Pace::Open).unwrap_or(run.throughput);
    let cycle = run.response.map(|mean| mean.seconds + think);
    let found = cycle.map(|cycle| rate * cycle);
    let rounding = run.response.map_or(0.0, |mean| mean.rounding / mean.seconds);
    // Those under way when the run ends, and those not yet begun when it begins.
    let ends = clients.map_or(0.0, |clients| f64::from(clients) / asked);
    let tolerance = TOLERANCE + rounding + ends;
    let mut check =
        LittleCheck { little: Little::Unknown, clients, found, tolerance, failed, why: Vec::new() };
    check.little = match (run.pace, run.response.map(|mean| mean.from), check.apart()) {
        (Pace::Open | Pace::Scheduled, Some(_), _) => Little::Outstanding,
        (_, Some(MeanFrom::Derived), _) => Little::ByConstruction,
        (_, _, Some(apart)) if apart.abs() <= tolerance => Little::Closes,
        (_, _, Some(_)) => Little::Broken,
        (_, _, None) => Little::Unknown,
    };
    check.why = why(run, &check, think);
    if check.is_failing() {
        check.why.push(format!(
            "{:.1} % of the requests failed: a failure takes another time than an answer, often \
             almost none, or a whole timeout; mend them before reading any time",
            100.0 * failed
        ));
    }
    check
}

fn why(run: &ToolRun, check: &LittleCheck, think: f64) -> Vec<String> {
    let found = check.found.unwrap_or(0.0);
    match check.little {
        Little::Closes => Vec::new(),
        Little::ByConstruction => vec![
            "the tool computed this mean from the clients and the throughput, so the law closes \
             whatever happened: nothing is checked by it"
                .into(),
        ],
        Little::Unknown if check.found.is_none() => {
            vec!["the output tells no mean response: X (R + Z) cannot be formed".into()]
        }
        Little::Unknown => vec![format!(
            "the output does not tell its clients; the law says that {found:.2} were under way on \
             average: compare that with what you asked for, or give it with --clients"
        )],
        Little::Outstanding => vec![outstanding(run, check, found)],
        Little::Broken => broken(run, check, think),
    }
}

fn outstanding(run: &ToolRun, check: &LittleCheck, found: f64) -> String {
    match (run.pace, check.clients) {
        (Pace::Scheduled, Some(clients))
            if found > f64::from(clients) * (1.0 + check.tolerance) =>
        {
            format!(
                "requests are sent by a schedule and timed from it: {found:.0} were due or under way \
                 for {clients} connections, so {:.0} waited inside the generator; the rate asked for \
                 is beyond what {clients} connections reach, and the times grow with the length of \
                 the run",
                found - f64::from(clients)
            )
        }
        (Pace::Scheduled, Some(clients)) => format!(
            "requests are sent by a schedule: {found:.2} of {clients} connections were busy on \
             average, the others waited for the schedule; N = X (R + Z) says nothing of the server \
             here"
        ),
        _ => format!(
            "the load is open: no number of clients closes the law; {found:.2} requests were under \
             way on average"
        ),
    }
}

/// Causes that make X (R + Z) too small or too large, the likeliest first.
fn broken(run: &ToolRun, check: &LittleCheck, think: f64) -> Vec<String> {
    let (Some(clients), Some(found), Some(mean)) = (check.clients, check.found, run.response)
    else {
        return Vec::new();
    };
    let n = f64::from(clients);
    let mut causes = Vec::new();
    if found > n {
        if mean.from == MeanFrom::Corrected {
            causes.push(
                "this tool adds made-up requests to its histogram for those that it could not send \
                 while it waited (its correction for coordinated omission), so its mean is not the \
                 mean of the requests that it counted"
                    .into(),
            );
        }
        if think > 0.0 {
            causes.push("the think time given with --think may be too long".into());
        }
        causes.push(format!(
            "more requests were under way than the {clients} clients: check the number of clients, \
             and whether the mean is one of means (of threads, or of connections)"
        ));
        return causes;
    }
    let missing = n / run.throughput - mean.seconds - think;
    if let Some(connecting) = run.connecting {
        causes.push(format!(
            "each request connects anew, {} that its response leaves out",
            time(connecting)
        ));
    }
    causes.push(format!(
        "in every cycle {} are missing: a pause or a rate limit of each client (as hey -q), \
         connecting that the response leaves out, or a generator that is itself the bottleneck",
        time(missing)
    ));
    if run.failed > 0 {
        causes.push(format!(
            "{} requests failed, and the time that their clients spent on them is in no response",
            run.failed
        ));
    }
    causes.push(
        "if the clients do pause, say so with --think; if they should not, look at the generator's \
         own processor first"
            .into(),
    );
    causes
}
