//! Cuts bytes into the portions in which a network might have delivered them.

/// The ends of the portions of `bytes`, increasing, none empty: they follow from `seed` alone, so
/// that an input that fails fails again.
pub fn ends(seed: u8, length: usize) -> Vec<usize> {
    // xorshift64*; the constant keeps seed 0 from being its fixed point.
    let mut chance = u64::from(seed) ^ 0x9e37_79b9_7f4a_7c15;
    let most = if seed < 128 { 4 } else { 64 };
    let mut ends = Vec::new();
    let mut at = 0;
    while at < length {
        chance ^= chance >> 12;
        chance ^= chance << 25;
        chance ^= chance >> 27;
        let portion = 1 + (chance.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % most;
        at = (at + portion).min(length);
        ends.push(at);
    }
    ends
}

/// The portions themselves.
#[allow(dead_code, reason = "some targets hand over growing prefixes instead")]
pub fn cut(seed: u8, bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut start = 0;
    ends(seed, bytes.len()).into_iter().map(move |end| {
        let portion = &bytes[start..end];
        start = end;
        portion
    })
}
