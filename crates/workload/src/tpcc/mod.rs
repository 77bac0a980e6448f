//! TPC-C, revision 5.11: what terminals ask for, when, and what the tables hold before they begin.
//! Pure: no clock and no database, so that every rule of the specification can be tested on
//! numbers, and so that a seed gives the same load on every machine.
//!
//! The specification's clauses are named where they are followed ("2.4.1.5"); [`rules`] holds its
//! figures. Money is in cents, rates in ten-thousandths: integers from here to the database.
//!
//! ```
//! use workload::tpcc::{Constants, Inputs, Terminal, c_load};
//!
//! let constants = Constants::for_run(1, c_load(7));
//! let inputs = Inputs::new(constants, 4); // Four active warehouses.
//! let mut terminal = Terminal::new(1, inputs, 3, 0);
//! let cycle = terminal.cycle();
//! assert_eq!(cycle.request.warehouse(), 3, "a terminal has one home");
//! assert_eq!(cycle.keying, cycle.request.kind().rules().keying);
//! ```

mod nurand;
pub mod population;
mod request;
pub mod rules;
mod terminal;
mod text;

pub use nurand::{Constants, NuRand, c_load, delta_is_allowed};
pub use request::{
    CustomerBy, Delivery, Inputs, Kind, Line, NewOrder, OrderStatus, Payment, Request, StockLevel,
};
pub use terminal::{Cycle, Terminal};
pub use text::{Text, last_name};

use crate::Chance;

/// What a stream of chance is for: no two purposes ever draw from the same one.
#[derive(Clone, Copy)]
enum Purpose {
    /// The constants C of a run, and C-Load.
    Constants = 1,
    /// Decks and think times of a terminal.
    Pace = 2,
    /// The inputs of a terminal's transactions.
    Inputs = 3,
    /// The rows of tables.
    Population = 4,
}

/// The stream number `number`, below 2^56, of those for this purpose.
fn stream(seed: u64, purpose: Purpose, number: u64) -> Chance {
    crate::stream(seed, ((purpose as u64) << 56) | number)
}
