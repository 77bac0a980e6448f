//! Asks: who asks, when, and for what. The same distributions, arrivals and document sets feed the
//! simulator in virtual time and the load engine in real time.
//!
//! The one idea: everything drawn by chance is a pure function of a seed and a stream number, so
//! that two variants of a system can be given the identical load, on any number of threads.
//!
//! ```
//! use workload::{Deck, DocumentSet, stream};
//!
//! let set = DocumentSet::webstone();
//! let mut deck = Deck::new(&set);
//! let mut chance = stream(7, 0);
//! let mut drawn = vec![0; set.len()];
//! for _ in 0..1000 {
//!     drawn[deck.draw(&mut chance)] += 1;
//! }
//! assert_eq!(drawn, [350, 500, 140, 9, 1], "a deck is exact, per 1000");
//! ```

mod arrivals;
mod chance;
mod curve;
mod dist;
mod documents;
pub mod tpcc;
mod trace;

pub use arrivals::Arrivals;
pub use chance::{Chance, stream};
pub use curve::{CurveError, Pieces, RateCurve};
pub use dist::{Dist, DistError};
pub use documents::{Deck, Document, DocumentError, DocumentSet, Draw, Drawing};
pub use trace::{RecordedJob, RecordedOrder, Trace, TraceError, TraceJob};
