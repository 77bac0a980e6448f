//! Single stations under an open load whose answers need more than a line of formula.

mod best;
mod clients;
mod demand;
mod finite;
mod gaps;
mod lps;
mod phases;
mod poisson;
mod priority;
mod remaining;
mod slots;
mod sojourn;
mod tagged;
mod times;

pub use best::{BestSlots, Goal, best_slots};
pub use clients::{ClosedLps, Thinking};
pub use demand::Demand;
pub use finite::Mmck;
pub use gaps::Ekmc;
pub use lps::{Lps, LpsAnswer, LpsMeans};
pub use priority::Mg1Priority;
pub use remaining::Mg1Srpt;
pub(crate) use slots::Clients;
pub use times::{FifoTimes, LpsTimes, PsTimes};
