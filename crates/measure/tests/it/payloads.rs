//! Histograms: what they keep, what they refuse, what they cost.

use std::io::Write;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer, V2Serializer};
use measure::{DecodeError, Histogram};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

fn random(rng: &mut Xoshiro256PlusPlus, len: usize) -> Histogram {
    let mut histogram = Histogram::new();
    for _ in 0..len {
        // From 0.1 us to 10 h: beyond both ends of the range.
        histogram.record(Duration::from_secs_f64(10f64.powf(rng.random_range(-7.0..4.5))));
    }
    histogram
}

#[test]
fn packing_and_files_keep_everything() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    for len in [0, 1, 2, 50, 20_000] {
        let open = random(&mut rng, len);
        let mut packed = open.clone();
        packed.pack();
        let read = Histogram::decode(&open.encode()).unwrap();
        for copy in [&packed, &read] {
            assert_eq!(copy, &open);
            assert_eq!(copy.len(), len as u64);
            assert_eq!(copy.encode(), open.encode());
            assert_eq!((copy.min(), copy.max()), (open.min(), open.max()));
            assert_eq!((copy.mean_s(), copy.stdev_s()), (open.mean_s(), open.stdev_s()));
            assert_eq!(copy.quantile(0.9), open.quantile(0.9));
            assert!(copy.counts().eq(open.counts()));
        }
        // Recording goes on where it was left.
        let (mut a, mut b) = (open, packed);
        a.record_nanos(5_000_000);
        b.record_nanos(5_000_000);
        assert_eq!(a, b);
    }
}

/// A histogram keeps its first durations as they are: what it tells is what counts of them would.
#[test]
fn a_few_durations_are_read_as_many_are() {
    const LONGEST: u64 = Histogram::LONGEST.as_nanos() as u64;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(9);
    for len in [0, 1, 2, 3, 100, 8192, 8193] {
        let mut few = Histogram::new();
        let mut counts =
            hdrhistogram::Histogram::<u64>::new_with_bounds(1_000, LONGEST, 3).unwrap();
        for at in 0..len {
            // Some are zero, some are equal, and some lie beyond both ends of the range.
            let drawn = 10f64.powf(rng.random_range(-1.0..14.0)) as u64;
            let nanos = [drawn, drawn, 0, 1_048_576][at % 4];
            few.record_nanos(nanos);
            counts.saturating_record(nanos.min(LONGEST));
        }
        assert_eq!((few.len(), few.mean_s()), (len as u64, counts.mean() * 1e-9));
        for q in [0.0, 1e-9, 0.01, 0.3, 0.5, 0.9, 0.999, 1.0] {
            let known = counts.value_at_quantile(q).min(counts.max());
            assert_eq!(few.quantile(q).as_nanos() as u64, known, "{q} of {len}");
        }
        let bars =
            counts.iter_recorded().map(|bar| (bar.value_iterated_to(), bar.count_at_value()));
        assert!(few.counts().eq(bars));
    }
    let mut zeros = Histogram::new();
    zeros.record_nanos(0);
    assert_eq!((zeros.quantile(1.0), zeros.max()), (Duration::ZERO, Duration::ZERO));
}

#[test]
fn merging_is_recording_into_one_in_any_order() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(8);
    let mut parts: Vec<Histogram> =
        [0, 10, 9000, 1].map(|len| random(&mut rng, len)).into_iter().collect();
    parts[2].pack();
    let merged = |order: &[usize]| {
        let mut all = Histogram::new();
        order.iter().for_each(|&part| all.merge(&parts[part]));
        all
    };
    let all = merged(&[0, 1, 2, 3]);
    assert_eq!(all.len(), 9011);
    assert_eq!(all, merged(&[3, 2, 1, 0]));
    let sum: f64 = parts.iter().map(|part| part.mean_s() * part.len() as f64).sum();
    assert!((all.mean_s() * 9011.0 - sum).abs() < 1e-9 * sum);
    let mut cleared = all.clone();
    cleared.clear();
    assert_eq!(cleared, Histogram::new());
    assert_ne!(all, Histogram::new());
}

#[test]
fn payloads_of_others_are_recorded_anew() {
    // Other bounds, and one plain instead of deflated.
    let mut other = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 1 << 40, 2).unwrap();
    other.record_n(2_000_000, 3).unwrap();
    other.record_n(700_000_000, 1).unwrap();
    let (mut deflated, mut plain) = (Vec::new(), Vec::new());
    V2DeflateSerializer::new().serialize(&other, &mut deflated).unwrap();
    V2Serializer::new().serialize(&other, &mut plain).unwrap();
    for bytes in [deflated, plain] {
        let read = Histogram::decode(&BASE64.encode(bytes)).unwrap();
        assert_eq!(read.len(), 4);
        // Two digits: 1 % wide buckets.
        assert!((read.quantile(0.5).as_secs_f64() / 2e-3 - 1.0).abs() < 0.011);
        assert!((read.max().as_secs_f64() / 0.7 - 1.0).abs() < 0.011);
    }
}

/// A deflated payload around what would be inside.
fn payload(inner: &[u8]) -> String {
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
    zlib.write_all(inner).unwrap();
    let body = zlib.finish().unwrap();
    let mut bytes = 0x1c84_9314u32.to_be_bytes().to_vec();
    bytes.extend((body.len() as u32).to_be_bytes());
    bytes.extend(body);
    BASE64.encode(bytes)
}

/// The inside of a payload with our bounds.
fn inner(declared: u32, digits: u32, low: u64, counts: &[u8]) -> Vec<u8> {
    let mut bytes = 0x1c84_9313u32.to_be_bytes().to_vec();
    bytes.extend(declared.to_be_bytes());
    bytes.extend(0u32.to_be_bytes());
    bytes.extend(digits.to_be_bytes());
    bytes.extend(low.to_be_bytes());
    bytes.extend(3_600_000_000_000u64.to_be_bytes());
    bytes.extend(1f64.to_be_bytes());
    bytes.extend(counts);
    bytes
}

#[test]
fn lies_and_bombs_are_refused() {
    // The helper makes what is read: one duration in bucket 2.
    let honest = payload(&inner(3, 3, 1_000, &[0, 0, 2]));
    assert_eq!(Histogram::decode(&honest).unwrap().len(), 1);
    let lowest = [0x81u8; 8].iter().copied().chain([0xff]).collect::<Vec<u8>>();
    for (story, payload, error) in [
        ("announces 4 GiB", payload(&inner(u32::MAX, 3, 1_000, &[0, 0, 2])), None),
        ("inflates to 100 MiB", payload(&vec![0; 100 << 20]), Some(DecodeError::TooLong)),
        ("a billion billion durations", payload(&inner(9, 3, 1_000, &[0xfe; 9])), None),
        (
            "a bucket beyond all time",
            payload(&inner(10, 3, 1_000, &[&lowest[..], &[2]].concat())),
            None,
        ),
        ("twelve digits", payload(&inner(1, 12, 1_000, &[2])), None),
        ("nothing as the lowest", payload(&inner(1, 3, 0, &[2])), None),
        ("the lowest above the highest", payload(&inner(1, 3, u64::MAX, &[2])), None),
        ("half a number", payload(&inner(1, 3, 1_000, &[0x82])), None),
        ("nothing at all", String::new(), None),
        ("no base64", "HISTF*".into(), Some(DecodeError::NotBase64)),
    ] {
        let error = error.unwrap_or(DecodeError::NotHdrHistogram);
        assert_eq!(Histogram::decode(&payload), Err(error), "{story}");
    }
}

#[test]
fn changed_payloads_never_panic() {
    let seed = 20261120;
    println!("seed {seed}");
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut whole = Vec::new();
    let mut counts = hdrhistogram::Histogram::<u64>::new_with_bounds(1_000, 1 << 41, 3).unwrap();
    (1..200u64).for_each(|i| counts.record_n(i * i * 10_000, i).unwrap());
    V2Serializer::new().serialize(&counts, &mut whole).unwrap();
    let mut read = 0;
    for round in 0..5_000 {
        let mut bytes = whole.clone();
        for _ in 0..rng.random_range(1..4) {
            let at = rng.random_range(0..bytes.len());
            bytes[at] = rng.random();
        }
        let cut = rng.random_range(0..=bytes.len());
        if rng.random_bool(0.2) {
            bytes.truncate(cut);
        }
        // Deflated every other time, so that what is inside is what was changed.
        let text = if round % 2 == 0 { BASE64.encode(&bytes) } else { payload(&bytes) };
        if let Ok(mut histogram) = Histogram::decode(&text) {
            read += 1;
            histogram.record_nanos(1);
            let other = histogram.clone();
            histogram.merge(&other);
            assert!(histogram.mean_s().is_finite() && histogram.stdev_s() >= 0.0);
            assert!(histogram.quantile(0.5) <= histogram.max());
        }
    }
    assert!(read > 200, "only {read} were read at all");
}
