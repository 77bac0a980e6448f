//! The load engine for HTTP servers: closed and open load, in real time.
//!
//! One OS thread a core, each with its own epoll, connections, chance and histograms; by HTTP/1 two system
//! calls a request. A [`Plan`] says what is to be done, [`run`] does it and hands over the
//! [intervals](measure::Interval) of a run record as they end; [`record`] keeps them.
//!
//! The rules, where a choice was possible:
//!
//! - **From when a latency counts.** In an open load from the arrival that chance or the clock had
//!   laid down, however late the generator was (the lag is recorded beside it). In a closed load from
//!   when the client was ready: its think time over, or its last answer read. With one connection a
//!   request until after the close.
//! - **What fails.** A body that ends before its announced length, or brings more, has the wrong
//!   length; one that ends anywhere else before its time was closed early. A redirection is an
//!   answer. Requests in flight at the end of the run are neither completed nor failed.
//! - **Stale connections.** If a reused connection is closed or reset before the first byte of the
//!   response, the request is sent once more on a new one, its time running on; the summary says how
//!   often. A POST or a PATCH fails instead: it might take effect twice.
//! - **HTTP/2.** A request takes a stream of the first connection that has room, or of a new one; clients own
//!   no connection. Its windows are so large that no server waits for the engine. What the server says that it
//!   has not touched (a refused stream, a GOAWAY that leaves it out) is sent once more, a POST too.
//! - **Parts.** Several processes make the requests of one: the threads of all parts are numbered through, and
//!   the parts take turns with the numbers of requests.
//! - **The deck.** Request `n` of a run draws card `n` of an endless row of shuffled decks, and the
//!   threads take the numbers in blocks of at most 16. So a run of full decks asks for the exact mix
//!   on any number of threads; at any moment it is off by the blocks that are being worked on.
//! - **The bound on requests in flight** of an open load is one for all threads.
//! - **CPU time** of a sleeping thread is without the microseconds that it spins before an arrival.
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//! use load::http::{Load, Plan, PlanSpec, Reach, Target, run};
//! use measure::Until;
//! use workload::Dist;
//!
//! let target = Target::parse("http://127.0.0.1:8080/", Reach::Private)?;
//! let load = Load::Closed { clients: 16, think: Dist::Constant(0.0) };
//! let plan = Plan::new(PlanSpec::new(target, load, Until::Seconds(10.0)))?;
//! let summary = run(&plan, &AtomicBool::new(false), &mut |interval| {
//!     let completed: u64 = interval.classes.iter().map(|class| class.completed).sum();
//!     println!("{:.0} s: {completed} requests", interval.start_s);
//! })?;
//! for warning in &summary.warnings {
//!     println!("{warning}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod collect;
mod conn;
mod exchange;
mod http2;
mod joint;
mod plan;
mod preflight;
mod probe;
mod request;
mod response;
mod run;
mod source;
mod stream;
mod target;
mod tls;
mod trial;
mod worker;

pub(crate) use http2::Frame;

pub use crate::asks::Order;
pub use crate::probe::Probed;
pub use crate::reach::Reach;
pub use crate::schedule::Schedule;
pub use plan::{
    Closing, Connections, Idle, Load, Naming, Plan, PlanError, PlanSpec, Protocol, Resumption,
    Trust,
};
pub use preflight::preflight;
pub use probe::{ProbeError, probe};
pub use request::{Method, Request};
pub use run::{RunError, record, record_part, run};
pub use target::{Scheme, Target, TargetError};
pub use tls::TlsError;
pub use trial::{Answer, Distrust, Fault, Trial, TrialError, try_each};

/// Parts read of a complete response, as far as [`read_response`] tells.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseRead {
    /// Its status.
    pub status: u16,
    /// All its bytes, head and interim responses included.
    pub bytes: u64,
    /// True if the connection may be used again.
    pub keeps_open: bool,
}

/// Reads the response to one request from bytes that come in `portions`, after which the peer
/// closes: the engine's own reader without its sockets, for the fuzzer. No part of the API.
///
/// # Errors
/// As the engine counts what is no complete response.
#[doc(hidden)]
pub fn read_response<'a>(
    method: Method,
    portions: impl IntoIterator<Item = &'a [u8]>,
) -> Result<ResponseRead, measure::ErrorKind> {
    let mut response = response::Response::new();
    response.restart(match method {
        Method::Head => response::Body::Never,
        _ => response::Body::Expected,
    });
    let mut complete = false;
    for portion in portions {
        if matches!(response.feed(portion)?, response::Progress::Complete(_)) {
            complete = true;
            break;
        }
    }
    if !complete {
        response.end()?;
    }
    Ok(ResponseRead {
        status: response.status(),
        bytes: response.bytes(),
        keeps_open: response.keeps_open(),
    })
}
