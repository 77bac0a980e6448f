//! Frequencies of use in bounded memory, so that a cache knows who is popular among those that it
//! does not hold.

/// A count-min sketch (Cormode and Muthukrishnan, J. Algorithms 2005) whose counts are halved after
/// each sample of uses, as TinyLFU has it (Einziger, Friedman and Manes, ACM TOS 2017). An estimate
/// is never below the count since the last halvings, and above it only by collisions. The counts of an
/// identity lie in one block, so that a use meets one line of a processor's cache and not four.
#[derive(Clone, Debug)]
pub(super) struct Sketch {
    /// Blocks of `ROWS` rows of `PLACES` counts; their number is a power of two.
    counts: Vec<[[u8; PLACES]; ROWS]>,
    /// Largest value of a count.
    most: u8,
    /// Uses since the last halving, and the number at which counts are halved.
    uses: u64,
    sample: u64,
    /// Number of halvings.
    epoch: u32,
}

const ROWS: usize = 4;
/// Places of a row in a block: with the rows they fill 64 bytes.
const PLACES: usize = 16;

impl Sketch {
    /// A sketch for a cache of `capacity` entries, with counts up to `most`, halved after `sample`
    /// uses for each entry.
    pub(super) fn new(capacity: u32, most: u8, sample: u32) -> Sketch {
        // Four counts an entry keep collisions rare for the population that a sample can contain.
        let width = (u64::from(capacity).saturating_mul(4)).next_power_of_two().clamp(16, 1 << 26);
        let sample = u64::from(capacity).saturating_mul(u64::from(sample)).max(1);
        let counts = vec![[[0; PLACES]; ROWS]; width as usize / PLACES];
        Sketch { counts, most, uses: 0, sample, epoch: 0 }
    }

    /// The block of an identity, and its place in each row of it.
    fn places(&self, identity: u64) -> (usize, [usize; ROWS]) {
        // The mixing of SplitMix64 (Steele, Lea and Flood 2014).
        let mut hash = identity.wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
        let places = [0, 4, 8, 12].map(|shift| (hash >> shift) as usize % PLACES);
        ((hash >> 32) as usize % self.counts.len(), places)
    }

    /// Counts a use; the [score](Sketch::score) then. Only the smallest counts grow (conservative update),
    /// so that collisions raise an estimate less.
    pub(super) fn count(&mut self, identity: u64) -> u64 {
        let (block, places) = self.places(identity);
        let rows = &mut self.counts[block];
        let least = rows.iter().zip(places).map(|(row, at)| row[at]).min().unwrap_or(0);
        if least < self.most {
            for (row, at) in rows.iter_mut().zip(places) {
                row[at] += u8::from(row[at] == least);
            }
        }
        self.uses += 1;
        if self.uses >= self.sample {
            let all = self.counts.as_flattened_mut().as_flattened_mut();
            all.iter_mut().for_each(|count| *count /= 2);
            (self.uses, self.epoch) = (self.uses / 2, self.epoch.saturating_add(1));
            return self.score(identity);
        }
        self.scored(least.saturating_add(1).min(self.most))
    }

    /// Uses, as far as they are remembered.
    pub(super) fn estimate(&self, identity: u64) -> u8 {
        let (block, places) = self.places(identity);
        let counts = self.counts[block].iter().zip(places).map(|(row, at)| row[at]);
        counts.min().unwrap_or(0)
    }

    /// An estimate in a form in which estimates of different moments compare as if all had been halved
    /// equally often: the binary logarithm, with 8 bits after the point of its mantissa.
    pub(super) fn score(&self, identity: u64) -> u64 {
        self.scored(self.estimate(identity))
    }

    fn scored(&self, count: u8) -> u64 {
        let count = u64::from(count).max(1);
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
            (0..=identity).for_each(|_| _ = sketch.count(identity));
        }
        for identity in 0..50_u64 {
            assert_eq!(u64::from(sketch.estimate(identity)), identity + 1);
        }
        assert_eq!(sketch.estimate(1_000_000), 0, "never used");
    }

    #[test]
    fn a_use_before_a_halving_counts_half() {
        let mut sketch = Sketch::new(1, 255, 8);
        (0..7).for_each(|_| _ = sketch.count(1));
        let before = sketch.score(1);
        sketch.count(2);
        assert_eq!(sketch.estimate(1), 3, "7 / 2");
        (0..3).for_each(|_| _ = sketch.count(2));
        assert!(sketch.estimate(2) >= 3);
        // 7 uses of the first epoch are worth 3.5 of the second.
        assert!(sketch.score(2) < before && before < sketch.score(2) + 256, "{before}");
    }
}
