//! A terminal: who it is, what it asks for next, and how long its user keys and thinks (5.2).

use std::time::Duration;

use rand::RngExt;

use super::{Inputs, Kind, Purpose, Request, rules, stream};
use crate::{Chance, Deck};

/// A terminal with a home of its own, as an endless stream of cycles.
///
/// It is a function of (seed, warehouse, index) and of what the inputs are drawn from. What it
/// asks for next and how long its user thinks do not depend on the number of active warehouses.
#[derive(Clone, Debug)]
pub struct Terminal {
    inputs: Inputs,
    warehouse: u32,
    district: u8,
    deck: Deck,
    pace: Chance,
    chance: Chance,
}

/// One turn of a terminal (5.2.2): the menu pick, the keying time, the transaction, the think
/// time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// What is picked from the menu and then keyed in.
    pub request: Request,
    /// From the form's appearance to the moment when the terminal sends; constant.
    pub keying: Duration,
    /// From the answer to the next menu pick: negative exponential, cut at ten means.
    pub think: Duration,
}

impl Terminal {
    /// Terminal number `index`, 0 to 9, of `warehouse`. Its Stock-Levels are about district
    /// `index + 1`, so that no two terminals share a warehouse and a district (2.8.1.1).
    ///
    /// # Panics
    /// If the warehouse is not one of the active ones, or there is no such terminal.
    pub fn new(seed: u64, inputs: Inputs, warehouse: u32, index: u8) -> Terminal {
        let active = inputs.active();
        assert!((1..=active).contains(&warehouse), "warehouse {warehouse} of {active} active ones");
        assert!(index < rules::TERMINALS, "a warehouse has no terminal {index}");
        let number = (u64::from(warehouse) << 8) | u64::from(index);
        Terminal {
            inputs,
            warehouse,
            district: index + 1,
            deck: Deck::of(&Kind::ALL.map(|kind| u32::from(kind.rules().cards))),
            pace: stream(seed, Purpose::Pace, number),
            chance: stream(seed, Purpose::Inputs, number),
        }
    }

    /// The next turn. Cards come from a deck of 23 that is shuffled anew whenever it is empty
    /// (5.2.4.2).
    pub fn cycle(&mut self) -> Cycle {
        let kind = Kind::ALL[self.deck.draw(&mut self.pace)];
        let think = think(&mut self.pace, kind.rules().think_mean);
        let request = self.inputs.draw(kind, self.warehouse, self.district, &mut self.chance);
        Cycle { request, keying: kind.rules().keying, think }
    }
}

/// A think time: `-ln(r) * mean`, cut at ten means (5.2.5.4).
fn think(chance: &mut Chance, mean: Duration) -> Duration {
    let r = 1.0 - chance.random::<f64>(); // Above 0, so that its logarithm exists.
    mean.mul_f64((-r.ln()).min(rules::THINK_CUT))
}
