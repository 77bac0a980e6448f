//! Outputs of load tools, one file a tool: wrk, wrk2, ab, hey, oha, h2load, weighttp, vegeta, pgbench.

mod ab;
mod h2load;
mod hey;
mod json;
mod outputs;
mod pgbench;
mod scan;
mod vegeta;
mod wrk;

use advise::{Pace, Tool, ToolRun};

pub use outputs::{known, runs_of};
pub use scan::Broken;

/// A run of which nothing is known yet.
fn blank(tool: Tool) -> ToolRun {
    ToolRun {
        tool,
        clients: None,
        pace: if tool == Tool::Vegeta { Pace::Open } else { Pace::AtOnce },
        offered: None,
        throughput: 0.0,
        response: None,
        fastest: None,
        quantiles: Vec::new(),
        completed: 0,
        failed: 0,
        seconds: None,
        connecting: None,
        target: None,
        parts: Vec::new(),
        progress: Vec::new(),
        traps: Vec::new(),
    }
}

/// `99%`, or `99.9%`, or `99.00%`, as a share.
fn percentile(text: &str) -> Option<f64> {
    let value = text.strip_suffix('%').and_then(scan::number)?;
    // So that p99.9 is 0.999 and not its neighbour.
    (value <= 100.0).then(|| (value * 1e6).round() / 1e8)
}
