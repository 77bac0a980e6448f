//! Records: what happened in a run, and what may be concluded from it.
//!
//! The one idea: a record holds enough to run the run again and to judge it: what ran, with which
//! seed, on which host, every interval with its histograms, and how healthy the generator was.
//! Verdicts (is it stationary, does Little's law close, was the generator the limit) are computed
//! from the record, so that a stored record can be judged by somebody else, later.

mod compare;
mod estimate;
mod file;
mod histogram;
mod judge;
mod payload;
mod protocol;
mod record;
mod recording;
mod series;

pub use compare::{Change, ChangeVerdict, Comparison, compare};
pub use estimate::{Batches, Estimate, Ratio, quantile_interval, t_quantile};
pub use file::{ReadError, RunWriter, read_run};
pub use histogram::{DecodeError, Histogram};
pub use judge::{Fault, GeneratorLimit, Judgement, LittleCheck, LittleVerdict, Measures, Quantile};
pub use protocol::BrokenProtocol;
pub use record::{
    ClassCounts, ClassSpec, ErrorKind, GeneratorHealth, Host, Interval, LoadShape, RunHeader,
    RunRecord, RunSummary, Until,
};
pub use recording::{Divergence, GateMeasures, JobTimes, Recording, Step};
pub use series::{Trend, mser, trend};
