//! Single stations under an open load whose answers need more than a line of formula.

mod best;
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
pub use demand::Demand;
pub use finite::Mmck;
pub use gaps::Ekmc;
pub use lps::{Lps, LpsAnswer, LpsMeans};
pub use priority::Mg1Priority;
pub use remaining::Mg1Srpt;
pub use times::{FifoTimes, LpsTimes, PsTimes};
