//! Chance for one run (splitmix64): the numbers are the same on every machine. A run that fails prints what
//! replays it.

pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x5eed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// True `percent` times of a hundred.
    pub(crate) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// Runs seeds from 0, ten times as many in the long suite, or the one that `SEKISHO_SEED` names. `test` is what
/// `cargo test` finds the test by.
pub(crate) fn seeds(test: &str, count: u64, mut run: impl FnMut(u64, &mut Chance)) {
    struct Replay<'a>(&'a str, u64);
    impl Drop for Replay<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                println!(
                    "replay: SEKISHO_SEED={} cargo test -p {} {} -- --nocapture",
                    self.1,
                    env!("CARGO_PKG_NAME"),
                    self.0
                );
            }
        }
    }
    let seeds = match std::env::var("SEKISHO_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("SEKISHO_SEED is a number");
            seed..seed + 1
        }
        Err(_) => 0..count * if std::env::var_os("SEKISHO_LONG").is_some() { 10 } else { 1 },
    };
    for seed in seeds {
        let _replay = Replay(test, seed);
        run(seed, &mut Chance::new(seed));
    }
}
