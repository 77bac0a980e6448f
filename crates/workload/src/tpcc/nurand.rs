//! The non-uniform random numbers of clause 2.1.6, and the constants C that shift them.

use rand::RngExt;

use super::{Purpose, stream};
use crate::Chance;

/// A non-uniform distribution on `[x, y]` (2.1.6):
/// `(((random[0..A] | random[x..y]) + C) % (y - x + 1)) + x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NuRand {
    a: u32,
    x: u32,
    y: u32,
    c: u32,
}

impl NuRand {
    /// Numbers of last names: `NURand(255, 0, 999)`.
    pub fn last(c: u16) -> NuRand {
        NuRand::new(255, 0, 999, c)
    }

    /// Customers: `NURand(1023, 1, 3000)`.
    pub fn customer(c: u16) -> NuRand {
        NuRand::new(1023, 1, super::rules::CUSTOMERS, c)
    }

    /// Items: `NURand(8191, 1, 100000)`.
    pub fn item(c: u16) -> NuRand {
        NuRand::new(8191, 1, super::rules::ITEMS, c)
    }

    fn new(a: u32, x: u32, y: u32, c: u16) -> NuRand {
        assert!(u32::from(c) <= a, "C is in [0..{a}], and it is {c}");
        NuRand { a, x, y, c: c.into() }
    }

    /// A number in `[x, y]`.
    pub fn draw(&self, chance: &mut Chance) -> u32 {
        let either = chance.random_range(0..=self.a) | chance.random_range(self.x..=self.y);
        (either + self.c) % (self.y - self.x + 1) + self.x
    }
}

/// The constants C of a run, one for each field, the same for all terminals (2.1.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constants {
    /// C-Run of C_LAST, in `[0..255]`.
    pub last: u16,
    /// C of C_ID, in `[0..1023]`.
    pub customer: u16,
    /// C of OL_I_ID, in `[0..8191]`.
    pub item: u16,
}

impl Constants {
    /// The constants of a run against a database that was populated with `c_load`: drawn from the
    /// seed, C-Run among those at an allowed distance from C-Load (2.1.6.1).
    ///
    /// # Panics
    /// If `c_load` is above 255.
    pub fn for_run(seed: u64, c_load: u16) -> Constants {
        assert!(c_load <= 255, "C-Load is in [0..255], and it is {c_load}");
        let mut chance = stream(seed, Purpose::Constants, 0);
        let allowed: Vec<u16> = (0..=255).filter(|&c| delta_is_allowed(c, c_load)).collect();
        Constants {
            last: allowed[chance.random_range(0..allowed.len())],
            customer: chance.random_range(0..=1023),
            item: chance.random_range(0..=8191),
        }
    }
}

/// C-Load of a population: the constant of its last names, in `[0..255]`.
pub fn c_load(seed: u64) -> u16 {
    stream(seed, Purpose::Constants, 1).random_range(0..=255)
}

/// Whether a run may use `c_run` on a population with `c_load`: they differ by 65 to 119, but
/// neither by 96 nor by 112 (2.1.6.1).
pub fn delta_is_allowed(c_run: u16, c_load: u16) -> bool {
    let delta = c_run.abs_diff(c_load);
    (65..=119).contains(&delta) && delta != 96 && delta != 112
}
