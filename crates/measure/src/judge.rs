//! Judges a run from its record: what was measured, how far it may be trusted, and whether it may
//! be trusted at all.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::estimate::moments;
use crate::phases;
use crate::quantile::Resolved;
use crate::series::{mser, trend};
use crate::{
    Batches, ClassCounts, ErrorKind, Estimate, Histogram, Interval, LoadShape, RunRecord, Trend,
};

/// Measures of a run, and the verdict on its validity.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The length that was judged: the intervals after the warm-up \[s\].
    pub length_s: f64,
    /// Over all classes.
    pub all: Measures,
    /// By class, in the order of the header.
    pub classes: Vec<Measures>,
    /// Check that the books balance.
    pub little: LittleCheck,
    /// Everything that makes the numbers above worthless; empty if the run is valid.
    pub faults: Vec<Fault>,
    /// Likely end of the warm-up [s since the run began], if the run named none and is long enough
    /// to tell; 0 if it needed none.
    pub warmup_suggested_s: Option<f64>,
}

impl Judgement {
    /// True if the run may be believed.
    pub fn is_valid(&self) -> bool {
        self.faults.is_empty()
    }
}

/// Measures of one class or of all.
#[derive(Clone, Debug, PartialEq)]
pub struct Measures {
    /// Requests that were answered in full.
    pub completed: u64,
    /// Requests that failed, by kind.
    pub errors: BTreeMap<ErrorKind, u64>,
    /// Completions per second \[1/s\].
    pub throughput: Estimate,
    /// Mean response time \[s\]; `None` if nothing completed.
    pub response: Option<Estimate>,
    /// Quantiles of the response time, 0.5, 0.9, 0.95, 0.99 and 0.999; [`RunRecord::quantile`] has any other.
    pub quantiles: Vec<Quantile>,
    /// The longest response time \[s\]; `None` if nothing completed.
    pub response_max_s: Option<f64>,
    /// Mean time to the first byte \[s\]; `None` if nothing completed.
    pub first_byte_mean_s: Option<f64>,
    /// Mean time to open a connection \[s\]; `None` if none was opened.
    pub connect_mean_s: Option<f64>,
    /// Bytes of all responses as a rate \[Mbit/s\].
    pub mbit_per_s: f64,
    /// Response times in all, over the length: the mean number of requests in flight, if the books
    /// balance.
    pub load_factor: f64,
}

impl Measures {
    /// Number of requests that failed, of all kinds.
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }
}

/// A quantile of the response time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantile {
    /// Its order, 0 to 1.
    pub q: f64,
    /// Its value \[s\]; `None` where fewer than ten responses are beyond it, which is too few. The
    /// interval is Student's over the quantiles of blocks of neighbouring intervals (a merged
    /// histogram has forgotten the correlation of neighbours); infinite if there are fewer than
    /// five blocks with ten responses beyond the quantile each, or if it reaches the longest duration
    /// that a histogram tells apart ([`Histogram::LONGEST`]).
    pub response: Option<Estimate>,
}

/// Little's law, L = X R, as a check: L is counted, X R is the sum of response times over the
/// length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LittleCheck {
    /// L: mean number in flight, by counting.
    pub counted: f64,
    /// X R: throughput times mean response, of completed requests.
    pub computed: f64,
    /// Largest difference of the two without an error in the books.
    pub tolerance: f64,
    /// Verdict on their difference.
    pub verdict: LittleVerdict,
}

/// Verdict on Little's law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LittleVerdict {
    /// Both sides agree within the tolerance.
    Closes,
    /// Both sides are further apart than a tenth, which need not be wrong. Either requests that began before the window
    /// or ended after it explain the distance: the window is too short for the longest response times. Or more was in
    /// flight than response times account for, and requests failed, of which is not recorded how long they were in flight.
    CannotTell,
    /// It does not: the generator's books are wrong.
    DoesNot,
}

/// Fault that makes a run worthless.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// No interval lies after the warm-up.
    NoSteadyInterval,
    /// Nothing was completed after the warm-up.
    NothingCompleted,
    /// The generator was the limit, not what it measured.
    Generator(GeneratorLimit),
    /// The run was not stationary.
    Drifts {
        /// Series that drifts: `throughput`, `mean response` or `requests in flight`.
        what: &'static str,
        /// Its drift and p-value.
        trend: Trend,
    },
    /// Little's law does not close.
    Little(LittleCheck),
}

/// Sign that a generator was the limit.
#[derive(Clone, Debug, PartialEq)]
pub enum GeneratorLimit {
    /// A thread that sleeps when it has nothing to do had hardly anything to sleep.
    Cpu {
        /// The thread, from 0.
        thread: usize,
        /// Share of intervals in which it used more than 80 % of a processor.
        intervals: f64,
    },
    /// Requests were sent so late that their response times are the generator's.
    Lag {
        /// 0.99 quantile of the lag.
        p99: Duration,
        /// Mean lag \[s\].
        mean_s: f64,
        /// Mean response time \[s\].
        response_mean_s: f64,
    },
    /// Fewer requests were begun than asked for.
    Starts {
        /// Requests begun per second \[1/s\].
        made: f64,
        /// Requests asked for per second \[1/s\].
        asked: f64,
    },
    /// Connections could not even be tried: no ports, no descriptors, no route.
    Connect {
        /// Number of requests that failed so.
        requests: u64,
    },
}

/// The setting that names a generator's idle strategy, and the value with which its threads use a
/// whole processor however little there is to do.
const IDLE: (&str, &str) = ("idle", "spin");

/// CPU time of a thread over the interval beyond which it is a bottleneck itself.
const CPU_SHARE_MAX: f64 = 0.8;
/// Share of intervals in which that may happen: one slow interval is somebody else's doing.
const CPU_INTERVALS_MAX: f64 = 0.25;
/// Lag as a share of the response time (p99 of the median, mean of the mean).
const LAG_SHARE_MAX: f64 = 0.1;
/// A p99 of the lag below this is the machine's scheduler, whatever the response time \[s\].
const LAG_FLOOR_S: f64 = 1e-3;
/// Fewer completions than this do not tell how long a class is in flight.
const RARE: u64 = 5;
/// Bounds beyond which a drift makes a run invalid: chance of a false alarm (each series), and
/// size.
const DRIFT_ALPHA: f64 = 0.01;
const DRIFT_MIN: f64 = 0.1;

impl RunRecord {
    /// The intervals that lie after the warm-up as a whole.
    pub fn steady(&self) -> &[Interval] {
        let warm = |interval: &Interval| interval.start_s < self.header.warmup_s - 1e-9;
        &self.intervals[self.intervals.iter().take_while(|interval| warm(interval)).count()..]
    }

    /// Number of classes of a mix that were completed too seldom to tell how long they are in
    /// flight: a large document that is asked for once may be in flight from one edge to the other.
    fn rare(&self, steady: &[Interval]) -> usize {
        let classes = self.header.classes.len();
        let completed = |class: usize| -> u64 {
            steady.iter().filter_map(|i| i.classes.get(class)).map(|counts| counts.completed).sum()
        };
        if classes < 2 { 0 } else { (0..classes).filter(|&class| completed(class) < RARE).count() }
    }

    /// Judges the run, all intervals at the given confidence (0.95 is usual).
    ///
    /// # Panics
    /// If the confidence is not between 0 and 1.
    pub fn judge(&self, confidence: f64) -> Judgement {
        self.judge_for(confidence, None)
    }

    /// Judges the run as [`judge`](RunRecord::judge) does, for the sake of a limit on the response time: if
    /// there is one, the lag of the generator is a fault only where its p99 is more than a tenth of the limit.
    /// Of a limit that is far away it decides nothing, however short the responses are.
    ///
    /// # Panics
    /// If the confidence is not between 0 and 1.
    pub fn judge_for(&self, confidence: f64, limit: Option<Duration>) -> Judgement {
        let steady = self.steady();
        let sheet = Sheet::of_all(steady);
        let all = sheet.measures(confidence);
        let varies = self.header.load.varies();
        let little = phases::of_varying(sheet.little(steady, self.rare(steady)), varies);
        let classes = (0..self.header.classes.len())
            .map(|class| Sheet::of_class(steady, class).measures(confidence))
            .collect();
        let mut faults = Vec::new();
        if sheet.length_s() <= 0.0 {
            faults.push(Fault::NoSteadyInterval);
        } else if all.completed == 0 {
            faults.push(Fault::NothingCompleted);
            // Without a limit its lag is held against the responses, of which there are none.
            let tells = |fault: &GeneratorLimit| {
                limit.is_some() || !matches!(fault, GeneratorLimit::Lag { .. })
            };
            let limits = self.generator(&sheet, limit).into_iter().filter(tells);
            faults.extend(limits.map(Fault::Generator));
        } else {
            faults.extend(self.generator(&sheet, limit).into_iter().map(Fault::Generator));
            match varies {
                true => faults.extend(self.starts_by_phase(confidence)),
                false => faults.extend(sheet.drifts(steady)),
            }
            if little.verdict == LittleVerdict::DoesNot {
                faults.push(Fault::Little(little));
            }
        }
        let warmup_suggested_s = self.warmup_suggested_s();
        Judgement { length_s: sheet.length_s(), all, classes, little, faults, warmup_suggested_s }
    }

    /// The quantile `q` of the response time \[s\], of one class (its place in the header) or of all, as in
    /// [`Quantile::response`].
    ///
    /// # Panics
    /// If `q` or the confidence is not between 0 and 1.
    pub fn quantile(&self, class: Option<usize>, q: f64, confidence: f64) -> Option<Estimate> {
        assert!(0.0 < q && q < 1.0, "a quantile of {q}");
        let steady = self.steady();
        let sheet = match class {
            Some(class) => Sheet::of_class(steady, class),
            None => Sheet::of_all(steady),
        };
        sheet.quantile(q, confidence)
    }

    /// MSER on the mean responses of intervals (each a mean over many requests already, so in
    /// batches of one).
    fn warmup_suggested_s(&self) -> Option<f64> {
        if self.header.warmup_s > 0.0 {
            return None;
        }
        let sheet = Sheet::of_all(&self.intervals);
        let seen: Vec<usize> =
            (0..self.intervals.len()).filter(|&i| sheet.completed[i] > 0.0).collect();
        if seen.len() < 10 {
            return None;
        }
        let means: Vec<f64> =
            seen.iter().map(|&i| sheet.response_s[i] / sheet.completed[i]).collect();
        match mser(&means, 1)? {
            0 => Some(0.0),
            cut => Some(self.intervals[seen[cut]].start_s),
        }
    }

    fn generator(&self, sheet: &Sheet, limit: Option<Duration>) -> Vec<GeneratorLimit> {
        let steady = self.steady();
        let mut limits = Vec::new();
        if self.header.settings.get(IDLE.0).is_none_or(|idle| idle != IDLE.1) {
            limits.extend(busiest_thread(steady));
        }
        let mut lag = Histogram::new();
        steady.iter().for_each(|interval| lag.merge(&interval.lag));
        // Among many parts, one machine that cannot keep up is lost in the lag of all.
        let lags = std::iter::once(&lag).chain(self.header.merged.iter().map(|part| &part.lag));
        let response_mean_s = sheet.total.mean_s();
        let median_s = sheet.total.quantile(0.5).as_secs_f64();
        let matters = |p99: Duration, mean_s: f64| match limit {
            Some(limit) => p99.as_secs_f64() > LAG_SHARE_MAX * limit.as_secs_f64(),
            None => {
                p99.as_secs_f64() > (LAG_SHARE_MAX * median_s).max(LAG_FLOOR_S)
                    || mean_s > LAG_SHARE_MAX * response_mean_s
            }
        };
        let late = lags
            .map(|lag| (lag.quantile(0.99), lag.mean_s()))
            .find(|&(p99, mean_s)| matters(p99, mean_s));
        if let Some((p99, mean_s)) = late {
            limits.push(GeneratorLimit::Lag { p99, mean_s, response_mean_s });
        }
        if let LoadShape::Poisson { rate, .. } | LoadShape::Fixed { rate, .. } = self.header.load {
            let started: f64 = steady.iter().map(|interval| interval.started as f64).sum();
            // A part of a run makes its share.
            let rate = rate / self.header.part.map_or(1.0, |part| f64::from(part.part.of()));
            let asked = rate * sheet.length_s();
            // Four standard deviations of a Poisson count, and 1 % for the edges of intervals.
            if started < asked - 4.0 * asked.sqrt() - 0.01 * asked {
                let made = started / sheet.length_s();
                limits.push(GeneratorLimit::Starts { made, asked: rate });
            }
        }
        let requests = sheet.errors.get(&ErrorKind::ConnectOther).copied().unwrap_or(0);
        if requests as f64 > 0.01 * (sheet.failed() as f64 + sheet.total.len() as f64) {
            limits.push(GeneratorLimit::Connect { requests });
        }
        limits
    }
}

/// The thread that most often used most of a processor, if that was too often.
fn busiest_thread(steady: &[Interval]) -> Option<GeneratorLimit> {
    let threads = steady.iter().map(|interval| interval.generator.thread_cpu_s.len()).max()?;
    let busy = |thread: usize| {
        let over = |interval: &&Interval| {
            let cpu_s = interval.generator.thread_cpu_s.get(thread).copied().unwrap_or(0.0);
            cpu_s > CPU_SHARE_MAX * interval.length_s
        };
        steady.iter().filter(over).count() as f64 / steady.len() as f64
    };
    (0..threads)
        .map(|thread| GeneratorLimit::Cpu { thread, intervals: busy(thread) })
        .filter(|limit| {
            matches!(limit, GeneratorLimit::Cpu { intervals, .. } if *intervals > CPU_INTERVALS_MAX)
        })
        .reduce(|a, b| if share(&b) > share(&a) { b } else { a })
}

fn share(limit: &GeneratorLimit) -> f64 {
    if let GeneratorLimit::Cpu { intervals, .. } = limit { *intervals } else { 0.0 }
}

/// A class, or all of them, over intervals: one number an interval, and all of them merged.
struct Sheet<'a> {
    lengths_s: Vec<f64>,
    completed: Vec<f64>,
    /// Sum of the response times that ended in the interval.
    response_s: Vec<f64>,
    /// The response times that ended in the interval, class by class.
    totals: Vec<Vec<&'a Histogram>>,
    total: Histogram,
    first_byte: Histogram,
    connect: Histogram,
    errors: BTreeMap<ErrorKind, u64>,
    bytes: u64,
}

impl<'a> Sheet<'a> {
    fn of_class(intervals: &'a [Interval], class: usize) -> Sheet<'a> {
        Sheet::of(intervals, |interval| interval.classes.get(class..=class).unwrap_or(&[]))
    }

    fn of_all(intervals: &'a [Interval]) -> Sheet<'a> {
        Sheet::of(intervals, |interval| &interval.classes)
    }

    fn of(intervals: &'a [Interval], of: impl Fn(&'a Interval) -> &'a [ClassCounts]) -> Sheet<'a> {
        let mut sheet = Sheet {
            lengths_s: intervals.iter().map(|interval| interval.length_s).collect(),
            completed: Vec::new(),
            response_s: Vec::new(),
            totals: Vec::new(),
            total: Histogram::new(),
            first_byte: Histogram::new(),
            connect: Histogram::new(),
            errors: BTreeMap::new(),
            bytes: 0,
        };
        for interval in intervals {
            let (mut completed, mut response_s, mut totals) = (0u64, 0.0, Vec::new());
            for counts in of(interval) {
                completed = completed.saturating_add(counts.completed);
                response_s += counts.total.mean_s() * counts.total.len() as f64;
                totals.push(&counts.total);
                sheet.total.merge(&counts.total);
                sheet.first_byte.merge(&counts.first_byte);
                sheet.connect.merge(&counts.connect);
                sheet.bytes = sheet.bytes.saturating_add(counts.bytes);
                for (&kind, &count) in &counts.errors {
                    let sum = sheet.errors.entry(kind).or_default();
                    *sum = sum.saturating_add(count);
                }
            }
            sheet.completed.push(completed as f64);
            sheet.response_s.push(response_s);
            sheet.totals.push(totals);
        }
        sheet
    }

    fn length_s(&self) -> f64 {
        self.lengths_s.iter().sum()
    }

    fn failed(&self) -> u64 {
        self.errors.values().fold(0, |sum, &count| sum.saturating_add(count))
    }

    fn measures(&self, confidence: f64) -> Measures {
        let completed = self.completed.iter().sum::<f64>();
        let length_s = self.length_s();
        let known = |histogram: &Histogram| (!histogram.is_empty()).then(|| histogram.mean_s());
        let over_length = |sum: f64| if length_s > 0.0 { sum / length_s } else { 0.0 };
        let ratio = |numerators: &[f64], denominators: &[f64]| {
            Batches::of_ratio(numerators, denominators, confidence).estimate
        };
        Measures {
            completed: completed as u64,
            errors: self.errors.clone(),
            throughput: if length_s > 0.0 {
                ratio(&self.completed, &self.lengths_s)
            } else {
                Estimate::new(0.0, f64::INFINITY, 0, confidence)
            },
            response: (completed > 0.0).then(|| {
                let batched = ratio(&self.response_s, &self.completed);
                self.at_least_as_wide_as_independent(batched)
            }),
            quantiles: [0.5, 0.9, 0.95, 0.99, 0.999]
                .map(|q| Quantile { q, response: self.quantile(q, confidence) })
                .into(),
            response_max_s: (!self.total.is_empty()).then(|| self.total.max().as_secs_f64()),
            first_byte_mean_s: known(&self.first_byte),
            connect_mean_s: known(&self.connect),
            mbit_per_s: over_length(self.bytes as f64 * 8e-6),
            load_factor: over_length(self.response_s.iter().sum()),
        }
    }

    /// A rare class is completed in few of the intervals, and batches of nothing say nothing of its
    /// noise: an interval of batch means is never narrower than if all responses were independent,
    /// and infinite for a single response.
    fn at_least_as_wide_as_independent(&self, batched: Estimate) -> Estimate {
        let n = self.total.len();
        let variance = self.total.stdev_s().powi(2) * n as f64 / n.saturating_sub(1).max(1) as f64;
        let error = if n < 2 { f64::INFINITY } else { (variance / n as f64).sqrt() };
        let independent = Estimate::new(batched.mean, error, n, batched.confidence);
        if batched.half_width >= independent.half_width {
            return batched;
        }
        Estimate { half_width: independent.half_width, ..batched }
    }

    fn quantile(&self, q: f64, confidence: f64) -> Option<Estimate> {
        // Rounded, because 1 - 0.99 is a little more than 0.01.
        let beyond = ((self.total.len() as f64) * (1.0 - q)).round() as usize;
        if beyond < 10 {
            return None;
        }
        let resolved = Resolved::of(&self.total, q);
        let blocks = (beyond / 10).min(self.totals.len()).min(20);
        let quantiles: Vec<f64> = (0..blocks)
            .map(|block| {
                let len = self.totals.len();
                let mut merged = Histogram::new();
                self.totals[block * len / blocks..(block + 1) * len / blocks]
                    .iter()
                    .flatten()
                    .for_each(|total| merged.merge(total));
                merged
            })
            .filter(|block| !block.is_empty())
            .map(|block| Resolved::of(&block, q).value)
            .collect();
        let n = quantiles.len() as u64;
        let error = if n < 5 { f64::INFINITY } else { (moments(&quantiles).1 / n as f64).sqrt() };
        let blocks = Estimate::new(resolved.value, error, n, confidence);
        // Blocks that are all in one bucket agree, and know no more than that.
        let half_width = blocks.half_width.max(resolved.unknown(blocks.high()));
        Some(Estimate { half_width, ..blocks })
    }

    fn drifts(&self, steady: &[Interval]) -> Vec<Fault> {
        // A short rest at the end is no interval of its own.
        let longest = self.lengths_s.iter().fold(0.0f64, |longest, &length| longest.max(length));
        let whole: Vec<usize> =
            (0..steady.len()).filter(|&i| self.lengths_s[i] >= 0.5 * longest).collect();
        let series = |value: &dyn Fn(usize) -> f64| whole.iter().map(|&i| value(i)).collect();
        let throughput: Vec<f64> = series(&|i| self.completed[i] / self.lengths_s[i]);
        let in_flight: Vec<f64> = series(&|i| steady[i].in_flight_mean);
        let response: Vec<f64> = whole
            .iter()
            .filter(|&&i| self.completed[i] > 0.0)
            .map(|&i| self.response_s[i] / self.completed[i])
            .collect();
        [("throughput", throughput), ("mean response", response), ("requests in flight", in_flight)]
            .into_iter()
            .filter_map(|(what, values)| Some((what, trend(&values)?)))
            .filter(|(_, trend)| trend.p_value < DRIFT_ALPHA && trend.drift.abs() > DRIFT_MIN)
            .map(|(what, trend)| Fault::Drifts { what, trend })
            .collect()
    }

    /// Over a window of length T, counting (T L) and the sum of the response times that ended in
    /// it differ by the ages of those in flight at its end, less the ages of those in flight at its
    /// start. A request in flight has an age of mean E\[R^2\] / 2 E\[R\] and second moment
    /// E\[R^3\] / 3 E\[R\] (renewal theory). The two edges cancel in the mean if the window is
    /// stationary; one is empty if it began with the run. So allowed is the mean of one edge and
    /// three standard deviations of both, and what a histogram and the lag (which counting may or
    /// may not include) can add. Those in flight may be held up together, by a flush of a disk say,
    /// so that the standard deviations of their ages add up, not only their variances.
    /// `rare` requests may have been in flight all the time without being seen to end.
    fn little(&self, steady: &[Interval], rare: usize) -> LittleCheck {
        let length_s = self.length_s();
        if length_s <= 0.0 {
            let verdict = LittleVerdict::CannotTell;
            return LittleCheck { counted: 0.0, computed: 0.0, tolerance: 0.0, verdict };
        }
        let time_in_flight: f64 =
            steady.iter().map(|interval| interval.in_flight_mean * interval.length_s).sum();
        let counted = time_in_flight / length_s;
        let computed = self.response_s.iter().sum::<f64>() / length_s;
        let n = self.total.len() as f64;
        let [m1, m2, m3] = [1, 2, 3].map(|power| {
            let sum: f64 = self
                .total
                .counts()
                .map(|(nanos, count)| (nanos as f64 * 1e-9).powi(power) * count as f64)
                .sum();
            if n > 0.0 { sum / n } else { 0.0 }
        });
        let (age, age_squared) =
            if m1 > 0.0 { (m2 / (2.0 * m1), m3 / (3.0 * m1)) } else { (0.0, 0.0) };
        let in_flight = counted.max(computed);
        let edges_s = in_flight * (age + 3.0 * (2.0 * age_squared).sqrt());
        let lag_s: f64 = steady.iter().map(|i| i.lag.mean_s() * i.lag.len() as f64).sum();
        let resolution_s = 1e-3 * time_in_flight + 1e-6 * n;
        let tolerance = (edges_s + lag_s + resolution_s) / length_s + rare as f64;
        let apart = (counted - computed).abs();
        // What would let anything pass confirms nothing.
        let verdict = if apart <= tolerance.min(0.1 * in_flight) {
            LittleVerdict::Closes
        } else if apart <= tolerance || (counted > computed && self.failed() > 0) {
            LittleVerdict::CannotTell
        } else {
            LittleVerdict::DoesNot
        };
        LittleCheck { counted, computed, tolerance, verdict }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::NoSteadyInterval => {
                f.write_str("the run ended before its warm-up; run longer, or warm up less")
            }
            Fault::NothingCompleted => {
                f.write_str("no request was completed after the warm-up; see the errors by kind")
            }
            Fault::Generator(limit) => write!(f, "the generator was the limit: {limit}"),
            Fault::Drifts { what, trend } => write!(
                f,
                "the run was not stationary: {what} changed by {:+.0} % from start to end \
                 (p = {:.1e}); warm up longer, or, under an open load, ask for less",
                100.0 * trend.drift,
                trend.p_value
            ),
            Fault::Little(LittleCheck { counted, computed, tolerance, .. }) => write!(
                f,
                "Little's law does not close: {counted:.4} in flight by counting, {computed:.4} \
                 by throughput times response, at most {tolerance:.4} apart if all is well"
            ),
        }
    }
}

impl fmt::Display for GeneratorLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GeneratorLimit::Cpu { thread, intervals } => write!(
                f,
                "thread {thread} used more than 80 % of a processor in {:.0} % of the intervals",
                100.0 * intervals
            ),
            GeneratorLimit::Lag { p99, mean_s, response_mean_s } => write!(
                f,
                "requests were sent late (1 % by {:.3} ms or more, {:.3} ms on average, of {:.3} ms \
                 mean response)",
                p99.as_secs_f64() * 1e3,
                mean_s * 1e3,
                response_mean_s * 1e3
            ),
            GeneratorLimit::Starts { made, asked } => {
                write!(f, "{made:.1} requests were begun per second, {asked:.1} asked for")
            }
            GeneratorLimit::Connect { requests } => write!(
                f,
                "{requests} requests got no connection for want of ports, descriptors or a route; \
                 keep connections alive, or raise the limits"
            ),
        }
    }
}
