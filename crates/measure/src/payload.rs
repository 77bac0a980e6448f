//! Reads the V2 encoding of HdrHistogram with every length checked, because a record may come
//! from anywhere: a few bytes can announce gigabytes, or inflate to them.

use std::io::Read;

use flate2::read::ZlibDecoder;

use crate::DecodeError;

/// The cookies of the encodings with variable-length counts.
const COOKIE: u32 = 0x1c84_9313;
const COOKIE_DEFLATED: u32 = 0x1c84_9314;

/// Longest encoding when inflated \[bytes\]. Ours is at most 221 KiB.
const INFLATED_MAX: u64 = 1 << 20;

/// Most durations that a payload may hold: sums of counts below this are exact in floating point.
const COUNT_MAX: u64 = 1 << 53;

/// The range and the resolution that an encoding declares.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) low: u64,
    pub(crate) high: u64,
    pub(crate) digits: u32,
}

/// Reads an encoding, deflated or not, and tells `bar` the highest value of each bucket that
/// something was recorded in, in increasing order, with its count.
pub(crate) fn read(bytes: &[u8], mut bar: impl FnMut(u64, u64)) -> Result<Bounds, DecodeError> {
    let mut input = Input(bytes);
    let inflated;
    let mut cookie = input.u32()?;
    if cookie == COOKIE_DEFLATED {
        let length = input.u32()? as usize;
        inflated = inflate(input.take(length)?)?;
        input = Input(&inflated);
        cookie = input.u32()?;
    }
    if cookie != COOKIE {
        return Err(DecodeError::NotHdrHistogram);
    }
    let length = input.u32()? as usize;
    let offset = input.u32()?;
    let digits = input.u32()?;
    let bounds = Bounds { low: input.u64()?, high: input.u64()?, digits };
    let ratio = f64::from_bits(input.u64()?);
    if offset != 0 || ratio != 1.0 {
        return Err(DecodeError::NotHdrHistogram);
    }
    let buckets = Buckets::new(bounds)?;
    let mut counts = Input(input.take(length)?);
    let (mut index, mut total) = (0u64, 0u64);
    while !counts.0.is_empty() {
        let count = counts.zigzag()?;
        if count <= 0 {
            // A negative number is a run of that many empty buckets; zero is one of them.
            index = index.saturating_add(count.unsigned_abs().max(1));
            continue;
        }
        total = total.saturating_add(count.unsigned_abs());
        if total > COUNT_MAX {
            return Err(DecodeError::NotHdrHistogram);
        }
        bar(buckets.highest_value(index)?, count.unsigned_abs());
        index += 1;
    }
    Ok(bounds)
}

fn inflate(bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut inflated = Vec::new();
    ZlibDecoder::new(bytes)
        .take(INFLATED_MAX + 1)
        .read_to_end(&mut inflated)
        .map_err(|_| DecodeError::NotHdrHistogram)?;
    if inflated.len() as u64 > INFLATED_MAX {
        return Err(DecodeError::TooLong);
    }
    Ok(inflated)
}

/// Layout of the buckets: linear within a power of two, as HdrHistogram has it.
pub(crate) struct Buckets {
    unit_magnitude: u32,
    half_magnitude: u32,
}

impl Buckets {
    pub(crate) fn new(Bounds { low, high, digits }: Bounds) -> Result<Buckets, DecodeError> {
        if digits > 5 || low == 0 || high / 2 < low {
            return Err(DecodeError::NotHdrHistogram);
        }
        let sub_buckets = (2 * 10u64.pow(digits)).next_power_of_two();
        let buckets =
            Buckets { unit_magnitude: low.ilog2(), half_magnitude: sub_buckets.ilog2() - 1 };
        if buckets.unit_magnitude + buckets.half_magnitude + 1 > 62 {
            return Err(DecodeError::NotHdrHistogram);
        }
        Ok(buckets)
    }

    /// The lowest and the highest value that share a bucket with this one.
    pub(crate) fn around(&self, value: u64) -> (u64, u64) {
        let whole = self.unit_magnitude + self.half_magnitude;
        let shift = value.checked_ilog2().unwrap_or(0).max(whole) - self.half_magnitude;
        let low = value >> shift << shift;
        (low, low + ((1 << shift) - 1))
    }

    fn highest_value(&self, index: u64) -> Result<u64, DecodeError> {
        let half = 1u64 << self.half_magnitude;
        let (bucket, within) = (index >> self.half_magnitude, index & (half - 1));
        let (sub_bucket, doublings) =
            if bucket == 0 { (within, 0) } else { (within + half, bucket - 1) };
        let shift = doublings + u64::from(self.unit_magnitude);
        if shift + u64::from(self.half_magnitude) + 1 > 63 {
            return Err(DecodeError::NotHdrHistogram);
        }
        Ok((sub_bucket << shift) + ((1 << shift) - 1))
    }
}

/// Bytes not yet read; numbers are big-endian.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (head, tail) = self.0.split_at_checked(length).ok_or(DecodeError::NotHdrHistogram)?;
        self.0 = tail;
        Ok(head)
    }

    fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_be_bytes(self.take(4)?.try_into().expect("four bytes were taken")))
    }

    fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_be_bytes(self.take(8)?.try_into().expect("eight bytes were taken")))
    }

    /// A signed number of seven bits a byte, the ninth byte whole, the sign in the lowest bit.
    fn zigzag(&mut self) -> Result<i64, DecodeError> {
        let mut number = 0u64;
        for place in 0..9 {
            let byte = u64::from(self.take(1)?[0]);
            let more = place < 8 && byte & 0x80 != 0;
            number |= if place < 8 { byte & 0x7f } else { byte } << (7 * place);
            if !more {
                break;
            }
        }
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }
}
