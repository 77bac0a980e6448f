//! Records: what happened in a run, and what may be concluded from it.
//!
//! The one idea: a record holds enough to run the run again and to judge it: what ran, with which
//! seed, on which host, every interval with its histograms, and how healthy the generator was.
//! Verdicts (is it stationary, does Little's law close, was the generator the limit) are computed
//! from the record, so that a stored record can be judged by somebody else, later.
//!
//! No number stands without its interval:
//!
//! ```
//! use measure::{Estimate, Ratio};
//!
//! // Requests per second of five runs before and five after a change, interleaved.
//! let (before, after) = ([498.0, 510.0, 447.0, 505.0, 492.0], [561.0, 573.0, 508.0, 569.0, 550.0]);
//! let mean = Estimate::from_independent(&before, 0.95);
//! assert!(mean.holds(500.0) && mean.relative() < 0.07);
//! let ratio = Ratio::paired(&before, &after, 0.95);
//! assert!(1.11 < ratio.low && ratio.high < 1.14, "pairs slow down together: {ratio:?}");
//! ```

pub mod figures;
pub mod knee;
pub mod limit;
pub mod parts;

mod account;
mod compare;
mod estimate;
mod file;
mod histogram;
mod judge;
mod knee_record;
mod payload;
mod phases;
mod protocol;
mod quantile;
mod record;
mod recording;
mod sampling;
#[cfg(feature = "schema")]
pub mod schemas;
mod sequential;
mod series;

pub use account::{ClassAccount, GateAccount, JobFate, Times};
pub use compare::{Change, ChangeVerdict, Comparison, compare, compare_runs, differing};
pub use estimate::{Batches, Estimate, Ratio, quantile_interval, t_quantile};
pub use file::{ReadError, RunWriter, nearest, read_run, unknown_name};
pub use histogram::{Bound, DecodeError, Histogram};
pub use judge::{Fault, GeneratorLimit, Judgement, LittleCheck, LittleVerdict, Measures, Quantile};
pub use knee_record::{EndRecord, KneeLimit, KneeRecord, ProbeRecord, Seen, read_knee, write_knee};
pub use parts::{Difference, MergeError, MergedPart, NotAPart, PartRecord, RunPart};
pub use phases::PhaseJudgement;
pub use protocol::BrokenProtocol;
pub use quantile::Parts;
pub use record::{
    ArrivalSpacing, ClassCounts, ClassSpec, Course, CurvePieces, ErrorKind, GeneratorHealth, Host,
    Interval, LoadShape, Phase, RunHeader, RunRecord, RunSummary, Until,
};
pub use recording::{Divergence, GateMeasures, JobTimes, Recording, RecordingReader, Replay, Step};
pub use sampling::SamplingDistribution;
pub use sequential::{ANALYSES, ERROR_RATE, SequentialTest};
pub use series::{Trend, mser, trend};
