//! A histogram of durations of constant size, however many it records.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

use crate::payload::{self, Bounds, Buckets};

/// A histogram of durations \[ns\], three significant digits from 1 us to 1 h (at most 0.1 % off;
/// below 1 us the resolution is 1 us, above 1 h a duration counts as 1 h). Eight bytes a duration for
/// the first 8192, about 190 KiB from then on; [packed](Histogram::pack), as it is when it was read
/// from a record, a few kilobytes.
#[derive(Clone)]
pub struct Histogram(Form);

#[derive(Clone)]
enum Form {
    /// The durations themselves \[ns\], [`FEW_MAX`] at most, in any order.
    Few(Vec<u64>),
    Open(Counts),
    /// The deflated encoding, of our bounds, known to be readable; and how many it holds.
    Packed(Box<[u8]>, u64),
}

type Counts = hdrhistogram::Histogram<u64>;

const BOUNDS: Bounds = Bounds { low: 1_000, high: 3_600_000_000_000, digits: 3 };

/// So many durations are kept as they are: a run of a thousand classes has ten thousand histograms.
const FEW_MAX: usize = 8192;
/// So many are smaller than a packed histogram.
const UNPACKED_MAX: usize = 32;

/// The side on which a histogram tells durations apart no longer: a quantile there is a bound of the
/// true one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The true one is as long as this, or longer.
    AtLeast,
    /// The true one is as long as this, or shorter.
    AtMost,
}

impl Bound {
    /// The side on which a quantile \[s\] lies; none where it is told apart from others.
    pub fn of(seconds: f64) -> Option<Bound> {
        // The last value of a bucket is up to 0.1 % above what was recorded.
        if seconds >= Histogram::LONGEST.as_secs_f64() {
            Some(Bound::AtLeast)
        } else if seconds <= 1.001 * Histogram::SHORTEST.as_secs_f64() {
            Some(Bound::AtMost)
        } else {
            None
        }
    }

    /// The same for a program: `at-least` or `at-most`.
    pub fn name(self) -> &'static str {
        match self {
            Bound::AtLeast => "at-least",
            Bound::AtMost => "at-most",
        }
    }
}

impl Histogram {
    /// Shorter durations are not told apart.
    pub const SHORTEST: Duration = Duration::from_nanos(BOUNDS.low);
    /// Longer durations count as this long.
    pub const LONGEST: Duration = Duration::from_nanos(BOUNDS.high);

    /// An empty histogram.
    pub const fn new() -> Histogram {
        Histogram(Form::Few(Vec::new()))
    }

    /// Records one duration.
    #[inline]
    pub fn record(&mut self, span: Duration) {
        self.record_nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Records one duration \[ns\].
    #[inline]
    pub fn record_nanos(&mut self, nanos: u64) {
        let nanos = nanos.min(BOUNDS.high);
        match &mut self.0 {
            Form::Open(counts) => counts.saturating_record(nanos),
            Form::Few(all) if all.len() < FEW_MAX => all.push(nanos),
            _ => self.opened().saturating_record(nanos),
        }
    }

    /// Number of durations recorded.
    pub fn len(&self) -> u64 {
        match &self.0 {
            Form::Few(all) => all.len() as u64,
            Form::Open(counts) => counts.len(),
            Form::Packed(_, len) => *len,
        }
    }

    /// True if nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The smallest duration that at least a share `q` (0 to 1) of the durations do not exceed;
    /// zero if nothing was recorded.
    pub fn quantile(&self, q: f64) -> Duration {
        if self.is_empty() {
            return Duration::ZERO;
        }
        let counts = match &self.0 {
            Form::Few(all) => return Duration::from_nanos(few::quantile(all, q)),
            _ => self.open(),
        };
        Duration::from_nanos(counts.value_at_quantile(q).min(counts.max()))
    }

    /// The shortest and the longest duration \[s\] that are not told apart from
    /// [`quantile`](Histogram::quantile): the ends of its bucket.
    pub fn quantile_bounds(&self, q: f64) -> (f64, f64) {
        let top = self.quantile(q).as_nanos() as u64;
        let (low, high) = buckets().around(top);
        (low.min(top) as f64 * 1e-9, high.min(top) as f64 * 1e-9)
    }

    /// The mean \[s\], within the histogram's resolution; 0 if nothing was recorded.
    pub fn mean_s(&self) -> f64 {
        match &self.0 {
            Form::Few(all) => few::mean(all) * 1e-9,
            _ => self.open().mean() * 1e-9,
        }
    }

    /// The standard deviation \[s\], within the histogram's resolution; 0 if nothing was recorded.
    pub fn stdev_s(&self) -> f64 {
        if self.is_empty() { 0.0 } else { self.open().stdev() * 1e-9 }
    }

    /// The longest duration recorded, within the resolution; zero if nothing was recorded.
    pub fn max(&self) -> Duration {
        if self.is_empty() { Duration::ZERO } else { Duration::from_nanos(self.open().max()) }
    }

    /// The shortest duration recorded, within the resolution; zero if nothing was recorded.
    pub fn min(&self) -> Duration {
        if self.is_empty() { Duration::ZERO } else { Duration::from_nanos(self.open().min()) }
    }

    /// Adds all that `other` recorded; exact, in any order.
    pub fn merge(&mut self, other: &Histogram) {
        match &other.0 {
            Form::Few(all) => all.iter().for_each(|&nanos| self.record_nanos(nanos)),
            Form::Open(counts) => {
                self.opened().add(counts).expect("all histograms have the same bounds");
            }
            Form::Packed(bytes, _) => add_packed(self.opened(), bytes),
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        match &mut self.0 {
            Form::Open(counts) => counts.clear(),
            Form::Few(all) => all.clear(),
            Form::Packed(..) => *self = Histogram::new(),
        }
    }

    /// Makes it small, for keeping: some kilobytes at most. Recording opens it again.
    pub fn pack(&mut self) {
        match &mut self.0 {
            Form::Packed(..) => {}
            Form::Few(all) if all.len() <= UNPACKED_MAX => all.shrink_to_fit(),
            Form::Open(counts) if counts.is_empty() => *self = Histogram::new(),
            _ => self.0 = Form::Packed(deflate(&self.open()).into(), self.len()),
        }
    }

    /// The durations that were recorded, shortest first, with their counts \[ns\].
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let bars: Vec<_> = match &self.0 {
            Form::Few(all) => few::bars(all),
            _ => (self.open().iter_recorded())
                .map(|bar| (bar.value_iterated_to(), bar.count_at_value()))
                .collect(),
        };
        bars.into_iter()
    }

    /// The payload of HdrHistogram's log format: base64 of the compressed V2 encoding.
    pub fn encode(&self) -> String {
        match &self.0 {
            Form::Packed(bytes, _) => BASE64.encode(bytes),
            _ => BASE64.encode(deflate(&self.open())),
        }
    }

    /// Reads a payload of HdrHistogram's log format. Payloads of other bounds are read too: their
    /// values are recorded anew here. What it takes in memory is bounded, whatever the payload
    /// announces.
    ///
    /// # Errors
    /// If it is not base64, not an HdrHistogram V2, or inflates to more than any histogram needs.
    pub fn decode(payload: &str) -> Result<Histogram, DecodeError> {
        let bytes = BASE64.decode(payload).map_err(|_| DecodeError::NotBase64)?;
        let (mut bars, mut len) = (Vec::new(), 0);
        let bounds = payload::read(&bytes, |value, count| {
            bars.push((value, count));
            len += count;
        })?;
        if len == 0 {
            return Ok(Histogram::new());
        }
        if bounds == BOUNDS {
            return Ok(Histogram(Form::Packed(bytes.into(), len)));
        }
        let mut counts = no_counts();
        for (value, count) in bars {
            counts.saturating_record_n(value.min(BOUNDS.high), count);
        }
        let mut histogram = Histogram(Form::Open(counts));
        histogram.pack();
        Ok(histogram)
    }

    /// The counts, open for reading.
    fn open(&self) -> Cow<'_, Counts> {
        match &self.0 {
            Form::Few(all) => {
                let mut counts = no_counts();
                all.iter().for_each(|&nanos| counts.saturating_record(nanos));
                Cow::Owned(counts)
            }
            Form::Open(counts) => Cow::Borrowed(counts),
            Form::Packed(bytes, _) => {
                let mut counts = no_counts();
                add_packed(&mut counts, bytes);
                Cow::Owned(counts)
            }
        }
    }

    /// The counts, open for recording from now on.
    #[cold]
    fn opened(&mut self) -> &mut Counts {
        if !matches!(self.0, Form::Open(_)) {
            self.0 = Form::Open(self.open().into_owned());
        }
        let Form::Open(counts) = &mut self.0 else { unreachable!("it was just opened") };
        counts
    }
}

fn no_counts() -> Counts {
    Counts::new_with_bounds(BOUNDS.low, BOUNDS.high, BOUNDS.digits as u8)
        .expect("the bounds are constants in range")
}

fn buckets() -> Buckets {
    Buckets::new(BOUNDS).expect("the bounds are constants in range")
}

fn deflate(counts: &Counts) -> Vec<u8> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(counts, &mut bytes)
        .expect("writing to memory, counts below 2^63");
    bytes
}

fn add_packed(counts: &mut Counts, bytes: &[u8]) {
    payload::read(bytes, |value, count| {
        counts.saturating_record_n(value.min(BOUNDS.high), count);
    })
    .expect("a packed histogram was read before it was kept");
}

/// The readings of a few durations, as the counts would give them: ten thousand histograms are read
/// without opening each.
mod few {
    use super::buckets;

    /// The highest value of each bucket that something lies in, in increasing order, with its count.
    pub(super) fn bars(all: &[u64]) -> Vec<(u64, u64)> {
        let buckets = buckets();
        let mut tops: Vec<u64> = all.iter().map(|&nanos| buckets.around(nanos).1).collect();
        tops.sort_unstable();
        let one_bar = |same: &[u64]| (same[0], same.len() as u64);
        tops.chunk_by(|one, other| one == other).map(one_bar).collect()
    }

    pub(super) fn quantile(all: &[u64], q: f64) -> u64 {
        let mut sorted = all.to_vec();
        let rank = ((q.min(1.0) * all.len() as f64).ceil() as usize).max(1);
        let (_, &mut nanos, _) = sorted.select_nth_unstable(rank - 1);
        let (low, high) = buckets().around(nanos);
        // Nothing that is below the first bucket's end was longer than 0.
        let top = if all.iter().all(|&nanos| nanos == 0) { 0 } else { high };
        if q == 0.0 { low } else { top }
    }

    /// The mean of the buckets' middles \[ns\].
    pub(super) fn mean(all: &[u64]) -> f64 {
        let buckets = buckets();
        let middle = |top| {
            let (low, high) = buckets.around(top);
            low + (high - low).div_ceil(2)
        };
        let total = all.len() as f64;
        bars(all).into_iter().map(|(top, count)| middle(top) as f64 * count as f64 / total).sum()
    }
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Histogram) -> bool {
        self.len() == other.len() && (self.is_empty() || self.open() == other.open())
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("len", &self.len())
            .field("min", &self.min())
            .field("median", &self.quantile(0.5))
            .field("max", &self.max())
            .finish()
    }
}

/// Why a payload is no histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// It is not base64.
    NotBase64,
    /// It is base64, but no HdrHistogram in V2 encoding.
    NotHdrHistogram,
    /// It inflates to more than any histogram needs.
    TooLong,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DecodeError::NotBase64 => "the histogram is not base64",
            DecodeError::NotHdrHistogram => "the histogram is no HdrHistogram in V2 encoding",
            DecodeError::TooLong => "the histogram inflates to more than 1 MiB, which none needs",
        })
    }
}

impl std::error::Error for DecodeError {}

impl Serialize for Histogram {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.encode())
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Histogram {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Histogram".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "contentEncoding": "base64",
            "description": "HdrHistogram of durations in nanoseconds, V2 deflate encoding, base64",
        })
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Histogram, D::Error> {
        let payload = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Histogram::decode(&payload).map_err(serde::de::Error::custom)
    }
}
