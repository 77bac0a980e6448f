//! Frequencies of use in bounded memory, so that a cache knows who is popular among those that it
//! does not hold.

/// A count-min sketch (Cormode and Muthukrishnan, J. Algorithms 2005) whose counts are halved after
/// each sample of uses, as TinyLFU has it (Einziger, Friedman and Manes, ACM TOS 2017). An estimate
/// is never below the count since the last halvings, and above it only by collisions.
#[derive(Clone, Debug)]
pub(super) struct Sketch {
    /// `ROWS` rows of `width` counts, one row after the other; `width` is a power of two.
    counts: Vec<u8>,
    width: usize,
    /// Largest value of a count.
    most: u8,
    /// Uses since the last halving, and the number at which counts are halved.
    uses: u64,
    sample: u64,
    /// Number of halvings.
    epoch: u32,
}

const ROWS: usize = 4;
/// Odd constants that make four hashes of one (fractional parts of square roots).
const SEEDS: [u64; ROWS] =
    [0x6a09_e667_f3bc_c909, 0xbb67_ae85_84ca_a73b, 0x3c6e_f372_fe94_f82b, 0xa54f_f53a_5f1d_36f1];

impl Sketch {
    /// A sketch for a cache of `capacity` entries, with counts up to `most`, halved after `sample`
    /// uses for each entry.
    pub(super) fn new(capacity: u32, most: u8, sample: u32) -> Sketch {
        // Four counts an entry keep collisions rare for the population that a sample can contain.
        let width = (u64::from(capacity).saturating_mul(4)).next_power_of_two().clamp(16, 1 << 26);
        let width = width as usize;
        let sample = u64::from(capacity).saturating_mul(u64::from(sample)).max(1);
        Sketch { counts: vec![0; ROWS * width], width, most, uses: 0, sample, epoch: 0 }
    }

    fn places(&self, identity: u64) -> [usize; ROWS] {
        let mut row = 0;
        SEEDS.map(|seed| {
            let hash = (identity ^ seed).wrapping_mul(seed | 1);
            let hash = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let at = row * self.width + (hash >> 32) as usize % self.width;
            row += 1;
            at
        })
    }

    /// Counts a use. Only the smallest counts grow (conservative update), so that collisions raise an
    /// estimate less.
    pub(super) fn count(&mut self, identity: u64) {
        let least = self.estimate(identity);
        for at in self.places(identity) {
            if self.counts[at] == least && least < self.most {
                self.counts[at] += 1;
            }
        }
        self.uses += 1;
        if self.uses >= self.sample {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            (self.uses, self.epoch) = (self.uses / 2, self.epoch.saturating_add(1));
        }
    }

    /// Uses, as far as they are remembered.
    pub(super) fn estimate(&self, identity: u64) -> u8 {
        let counts = self.places(identity).map(|at| self.counts[at]);
        counts.into_iter().min().unwrap_or(0)
    }

    /// An estimate in a form in which estimates of different moments compare as if all had been halved
    /// equally often: the binary logarithm, with 8 bits after the point of its mantissa.
    pub(super) fn score(&self, identity: u64) -> u64 {
        let count = u64::from(self.estimate(identity)).max(1);
        let exponent = u64::from(count.ilog2());
        // From 256 to 511: the count's leading bits.
        let mantissa = (count << 8) >> exponent;
        ((u64::from(self.epoch) + exponent) << 8) | (mantissa & 0xff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_counts_where_few_are_counted() {
        let mut sketch = Sketch::new(100, 255, 100);
        for identity in 0..50_u64 {
            (0..=identity).for_each(|_| sketch.count(identity));
        }
        for identity in 0..50_u64 {
            assert_eq!(u64::from(sketch.estimate(identity)), identity + 1);
        }
        assert_eq!(sketch.estimate(1_000_000), 0, "never used");
    }

    #[test]
    fn a_use_before_a_halving_counts_half() {
        let mut sketch = Sketch::new(1, 255, 8);
        (0..7).for_each(|_| sketch.count(1));
        let before = sketch.score(1);
        sketch.count(2);
        assert_eq!(sketch.estimate(1), 3, "7 / 2");
        (0..3).for_each(|_| sketch.count(2));
        assert!(sketch.estimate(2) >= 3);
        // 7 uses of the first epoch are worth 3.5 of the second.
        assert!(sketch.score(2) < before && before < sketch.score(2) + 256, "{before}");
    }
}
