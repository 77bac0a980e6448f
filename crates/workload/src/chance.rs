//! The one source of chance: a named, seeded generator.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// The generator of every draw (xoshiro256++: the same numbers on every machine).
pub type Chance = Xoshiro256PlusPlus;

/// The generator number `stream` of a run with this seed. Streams of one seed are independent for
/// all that a run could see: the two numbers are mixed by SplitMix64 before they seed.
pub fn stream(seed: u64, stream: u64) -> Chance {
    Chance::seed_from_u64(mix(mix(seed).wrapping_add(stream)))
}

/// SplitMix64's output function (Steele, Lea and Flood, OOPSLA 2014).
fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
