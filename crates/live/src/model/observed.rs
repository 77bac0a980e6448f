//! Observations of a gate: how long each number of slots was held, and what was done meanwhile.
//! Bounded: a few blocks of time, of which the oldest is forgotten.

use std::time::Duration;

use gate::Time;

/// Ranges of levels: each of 1 to 16 by itself, then four ranges an octave.
pub(super) const BINS: usize = 32;
/// Blocks of time that are kept at most.
const BLOCKS: usize = 20;
/// Length of a block at first, and at most: so what is known is of the last ten minutes.
const SPAN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(32)];
/// Classes that are told apart; those beyond count as the last.
const CLASSES: usize = 256;

/// The range in which a level lies, which is at least 1; what is above 255 counts as the last.
pub(super) fn bin_of(level: u32) -> usize {
    if level <= 16 {
        return level.max(1) as usize - 1;
    }
    let octave = 31 - level.leading_zeros();
    let quarter = level >> (octave - 2) & 3;
    ((octave * 4 + quarter) as usize).min(BINS - 1)
}

/// Observations while the number of slots held was in one range.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cell {
    /// Time in that range, summed over servers \[s\].
    pub(super) time: f64,
    /// The same times the slots held \[s\].
    pub(super) held: f64,
    /// Jobs that were done.
    pub(super) done: f64,
}

/// Observations of the jobs of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ClassCell {
    pub(super) done: f64,
    /// Their holds \[s\].
    pub(super) held: f64,
    /// As long as they would have held their slots alone \[s\].
    pub(super) alone: f64,
}

/// A stretch of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Block {
    /// Its length \[s\].
    pub(super) span: f64,
    pub(super) cells: Vec<Cell>,
    pub(super) classes: Vec<ClassCell>,
    pub(super) arrived: f64,
    /// The jobs that waited, times how long \[s\].
    pub(super) waited: f64,
}

impl Block {
    /// Both together.
    pub(super) fn add(&mut self, other: &Block) {
        self.span += other.span;
        self.arrived += other.arrived;
        self.waited += other.waited;
        for (at, cell) in other.cells.iter().enumerate() {
            let sum = at_mut(&mut self.cells, at);
            sum.time += cell.time;
            sum.held += cell.held;
            sum.done += cell.done;
        }
        for (at, class) in other.classes.iter().enumerate() {
            let sum = at_mut(&mut self.classes, at);
            sum.done += class.done;
            sum.held += class.held;
            sum.alone += class.alone;
        }
    }

    /// Jobs that were done.
    pub(super) fn done(&self) -> f64 {
        self.cells.iter().map(|cell| cell.done).sum()
    }

    /// Slots held, times how long \[s\].
    pub(super) fn held(&self) -> f64 {
        self.cells.iter().map(|cell| cell.held).sum()
    }
}

fn at_mut<T: Default>(list: &mut Vec<T>, at: usize) -> &mut T {
    if list.len() <= at {
        list.resize_with(at + 1, T::default);
    }
    &mut list[at]
}

/// Observations of a gate.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    /// The slots held at each server.
    levels: Vec<u32>,
    waiting: u64,
    /// Up to when all is counted.
    now: Time,
    /// When the block that is being filled ends.
    until: Time,
    span: Duration,
    current: Block,
    blocks: Vec<Block>,
    /// Speed of each job at a server at its level, as a share of its speed alone, by range.
    speeds: Vec<f64>,
    /// At each server, how far a job would have come by now that was always there \[s\].
    progress: Vec<f64>,
}

impl Observed {
    pub(super) fn new(servers: usize) -> Observed {
        Observed {
            levels: vec![0; servers],
            waiting: 0,
            now: Time::ZERO,
            until: Time::ZERO + SPAN[0],
            span: SPAN[0],
            current: Block::default(),
            blocks: Vec::new(),
            speeds: Vec::new(),
            progress: vec![0.0; servers],
        }
    }

    /// It begins to be seen now.
    pub(super) fn begin(&mut self, now: Time) {
        (self.now, self.until) = (now, now + self.span);
    }

    /// Time has passed. The block that has ended with that, if one has.
    pub(super) fn pass(&mut self, now: Time) -> Option<Block> {
        let passed = now.since(self.now).as_secs_f64();
        self.now = now.max(self.now);
        if passed > 0.0 {
            self.current.span += passed;
            self.current.waited += self.waiting as f64 * passed;
            for (level, progress) in self.levels.iter().zip(&mut self.progress) {
                if *level == 0 {
                    continue;
                }
                let bin = bin_of(*level);
                let cell = at_mut(&mut self.current.cells, bin);
                cell.time += passed;
                cell.held += f64::from(*level) * passed;
                if !self.speeds.is_empty() {
                    *progress += self.speeds[bin] * passed;
                }
            }
        }
        if now < self.until {
            return None;
        }
        let ended = std::mem::take(&mut self.current);
        self.blocks.push(ended.clone());
        if self.blocks.len() == BLOCKS {
            if self.span < SPAN[1] {
                self.blocks = self.blocks.chunks(2).map(together).collect();
                self.span *= 2;
            } else {
                self.blocks.remove(0);
            }
        }
        self.until = self.now + self.span;
        Some(ended)
    }

    /// So many wait, and so many slots of a server are held, from now on.
    pub(super) fn becomes(&mut self, waiting: u64, server: usize, level: u32) {
        self.waiting = waiting;
        self.levels[server] = level;
    }

    pub(super) fn arrived(&mut self) {
        self.current.arrived += 1.0;
    }

    /// Progress that a job would have made by now at this server.
    pub(super) fn progress(&self, server: usize) -> f64 {
        self.progress[server]
    }

    /// A job is done, whose slot still counts as held.
    pub(super) fn done(&mut self, server: usize, class: u32, hold: f64, began: f64) {
        let bin = bin_of(self.levels[server]);
        at_mut(&mut self.current.cells, bin).done += 1.0;
        if !self.speeds.is_empty() && began.is_finite() {
            let class = at_mut(&mut self.current.classes, (class as usize).min(CLASSES - 1));
            class.done += 1.0;
            class.held += hold;
            class.alone += self.progress[server] - began;
        }
    }

    /// Sets how fast jobs go at each level from now on.
    pub(super) fn set_speeds(&mut self, speeds: Vec<f64>) {
        self.speeds = speeds;
    }

    pub(super) fn knows_speeds(&self) -> bool {
        !self.speeds.is_empty()
    }

    /// Forgets what is older than the last blocks: it is not so any more.
    pub(super) fn forget_but(&mut self, last: usize) {
        let old = self.blocks.len().saturating_sub(last);
        self.blocks.drain(..old);
        self.span = SPAN[0].max(self.span / 4);
    }

    /// The blocks that have ended, the oldest first.
    pub(super) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// All of them together.
    pub(super) fn total(&self) -> Block {
        together(&self.blocks)
    }
}

fn together(blocks: &[Block]) -> Block {
    let mut sum = Block::default();
    blocks.iter().for_each(|block| sum.add(block));
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_has_a_range_and_ranges_are_in_order() {
        let bins: Vec<usize> = (1..=300).map(bin_of).collect();
        assert!(bins.windows(2).all(|pair| pair[1] == pair[0] || pair[1] == pair[0] + 1));
        assert_eq!(
            [1, 16, 17, 19, 20, 31, 32, 255, 256, 9999].map(bin_of),
            [0, 15, 16, 16, 17, 19, 20, 31, 31, 31]
        );
    }

    #[test]
    fn time_and_jobs_count_at_the_level_at_which_they_were() {
        let mut seen = Observed::new(1);
        let at = |ms: u64| Time::ZERO + Duration::from_millis(ms);
        seen.pass(at(100));
        seen.becomes(0, 0, 1);
        seen.pass(at(300));
        seen.becomes(3, 0, 2);
        seen.pass(at(600));
        seen.done(0, 0, 0.3, 0.0);
        seen.becomes(2, 0, 1);
        assert!(seen.pass(at(1000)).is_some(), "the block of one second ends");
        let block = &seen.blocks()[0];
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(block.cells[0].time, 0.6) && near(block.cells[1].time, 0.3), "{block:?}");
        assert!(near(block.held(), 0.6 + 0.6) && near(block.waited, 0.9 + 0.8), "{block:?}");
        assert_eq!((block.cells[0].done, block.cells[1].done), (0.0, 1.0));
    }

    #[test]
    fn what_is_kept_is_bounded_and_of_the_last_minutes() {
        let mut seen = Observed::new(2);
        seen.becomes(0, 0, 1);
        for second in 1..7200_u64 {
            seen.pass(Time::ZERO + Duration::from_secs(second));
            assert!(seen.blocks().len() < BLOCKS);
        }
        let kept = seen.total().span;
        assert!((500.0..=32.0 * 20.0).contains(&kept), "{kept} s");
        seen.forget_but(2);
        assert_eq!(seen.blocks().len(), 2);
    }
}
