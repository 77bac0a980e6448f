//! A histogram of durations of constant size, however many it records.

use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

/// A histogram of durations [ns], three significant digits from 1 us to 1 h (at most 0.1 % off;
/// below 1 us the resolution is 1 us, above 1 h a duration counts as 1 h). About 190 KiB.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

const LOWEST_NS: u64 = 1_000;
const HIGHEST_NS: u64 = 3_600_000_000_000;

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Histogram {
        let histogram = hdrhistogram::Histogram::new_with_bounds(LOWEST_NS, HIGHEST_NS, 3);
        Histogram(histogram.expect("the bounds are constants in range"))
    }

    /// Records one duration.
    #[inline]
    pub fn record(&mut self, span: Duration) {
        self.record_nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Records one duration [ns].
    #[inline]
    pub fn record_nanos(&mut self, nanos: u64) {
        self.0.saturating_record(nanos);
    }

    /// How many durations were recorded.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The smallest duration that at least a share `q` (0 to 1) of the durations do not exceed;
    /// zero if nothing was recorded.
    pub fn quantile(&self, q: f64) -> Duration {
        if self.is_empty() {
            return Duration::ZERO;
        }
        Duration::from_nanos(self.0.value_at_quantile(q).min(self.0.max()))
    }

    /// The mean [s], within the histogram's resolution; 0 if nothing was recorded.
    pub fn mean_s(&self) -> f64 {
        self.0.mean() * 1e-9
    }

    /// The standard deviation [s], within the histogram's resolution; 0 if nothing was recorded.
    pub fn stdev_s(&self) -> f64 {
        self.0.stdev() * 1e-9
    }

    /// The longest duration recorded, within the resolution.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }

    /// The shortest duration recorded, within the resolution; zero if nothing was recorded.
    pub fn min(&self) -> Duration {
        if self.is_empty() { Duration::ZERO } else { Duration::from_nanos(self.0.min()) }
    }

    /// Adds all that `other` recorded; exact, in any order.
    pub fn merge(&mut self, other: &Histogram) {
        self.0.add(&other.0).expect("all histograms have the same bounds");
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The durations that were recorded, shortest first, with their counts [ns].
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter_recorded().map(|bar| (bar.value_iterated_to(), bar.count_at_value()))
    }

    /// The payload of HdrHistogram's log format: base64 of the compressed V2 encoding.
    pub fn encode(&self) -> String {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.0, &mut bytes)
            .expect("writing to memory, counts below 2^63");
        BASE64.encode(bytes)
    }

    /// Reads a payload of HdrHistogram's log format. Payloads of other bounds are read too: their
    /// values are recorded anew here.
    ///
    /// # Errors
    /// If it is not base64, or not an HdrHistogram V2.
    pub fn decode(payload: &str) -> Result<Histogram, DecodeError> {
        let bytes = BASE64.decode(payload).map_err(|_| DecodeError::NotBase64)?;
        let read: hdrhistogram::Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|_| DecodeError::NotHdrHistogram)?;
        let mut histogram = Histogram::new();
        for bar in read.iter_recorded() {
            let value = bar.value_iterated_to().min(HIGHEST_NS);
            histogram.0.saturating_record_n(value, bar.count_at_value());
        }
        Ok(histogram)
    }
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

/// Why a payload is no histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// It is not base64.
    NotBase64,
    /// It is base64, but no HdrHistogram in V2 encoding.
    NotHdrHistogram,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DecodeError::NotBase64 => "the histogram is not base64",
            DecodeError::NotHdrHistogram => "the histogram is no HdrHistogram in V2 encoding",
        })
    }
}

impl std::error::Error for DecodeError {}

impl Serialize for Histogram {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.encode())
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Histogram, D::Error> {
        let payload = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Histogram::decode(&payload).map_err(serde::de::Error::custom)
    }
}
