//! Parts of a representation by `Range` (RFC 9110, section 14): one part of bytes, or the whole.

use std::ops::Range;

/// The answer to a request for a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// All of it: no part is asked for, or in a way that a server is to ignore.
    Whole,
    /// These bytes, at least one.
    Part(Range<u64>),
    /// No byte of the part is there.
    Nothing,
}

/// Bytes of `length` that the headers `Range` and `If-Range` ask for, of what has a strong mark.
///
/// Several parts, other units and what is no range are ignored, as section 14.2 allows and demands.
pub(crate) fn wanted(
    range: Option<&str>,
    if_range: Option<&str>,
    mark: &str,
    length: u64,
) -> Wanted {
    // With another mark, or with a time, what the client has a part of is not this.
    if if_range.is_some_and(|known| known.trim() != mark) {
        return Wanted::Whole;
    }
    let Some(spec) = range.and_then(one) else { return Wanted::Whole };
    let part = match spec {
        Spec::From(first, last) => first..last.map_or(length, |last| length.min(last + 1)),
        Spec::Last(count) => length.saturating_sub(count)..length,
    };
    if part.is_empty() { Wanted::Nothing } else { Wanted::Part(part) }
}

enum Spec {
    /// The first byte and, if it is said, the last.
    From(u64, Option<u64>),
    /// So many at the end.
    Last(u64),
}

/// The one part of `bytes=...`.
fn one(range: &str) -> Option<Spec> {
    let (unit, set) = range.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = set.trim().split_once('-')?;
    match (first, last) {
        ("", last) => number(last).map(Spec::Last),
        (first, "") => number(first).map(|first| Spec::From(first, None)),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(Spec::From(first, Some(last)))
        }
    }
}

/// Digits alone; beyond what a file has there is no difference, and none at the edge of numbers.
fn number(digits: &str) -> Option<u64> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().unwrap_or(u64::MAX - 1).min(u64::MAX - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_part_is_taken_by_the_rules_and_all_else_is_the_whole() {
        for (range, answer) in [
            ("bytes=0-0", Wanted::Part(0..1)),
            ("bytes=2-4", Wanted::Part(2..5)),
            ("Bytes = 8-", Wanted::Part(8..10)),
            ("bytes=8-99", Wanted::Part(8..10)),
            ("bytes=-3", Wanted::Part(7..10)),
            ("bytes=-99", Wanted::Part(0..10)),
            ("bytes=0-18446744073709551615", Wanted::Part(0..10)),
            ("bytes=0-99999999999999999999999", Wanted::Part(0..10)),
            ("bytes=10-", Wanted::Nothing),
            ("bytes=10-12", Wanted::Nothing),
            ("bytes=99999999999999999999999-", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=4-2", Wanted::Whole),
            ("bytes=0-1,4-5", Wanted::Whole),
            ("bytes=-", Wanted::Whole),
            ("bytes=+1-2", Wanted::Whole),
            ("items=0-1", Wanted::Whole),
            ("0-1", Wanted::Whole),
        ] {
            assert_eq!(wanted(Some(range), None, "\"a\"", 10), answer, "{range}");
        }
        assert_eq!(wanted(None, None, "\"a\"", 10), Wanted::Whole);
        assert_eq!(wanted(Some("bytes=0-"), None, "\"a\"", 0), Wanted::Nothing);
        assert_eq!(wanted(Some("bytes=-5"), None, "\"a\"", 0), Wanted::Nothing);
    }

    #[test]
    fn a_part_of_what_the_client_does_not_have_is_not_sent() {
        let of = |known: &str| wanted(Some("bytes=1-2"), Some(known), "\"a\"", 10);
        assert_eq!(of("\"a\""), Wanted::Part(1..3));
        assert_eq!(of("\"b\""), Wanted::Whole);
        assert_eq!(of("W/\"a\""), Wanted::Whole, "a weak mark is none");
        assert_eq!(of("Sat, 28 Nov 2026 01:00:00 GMT"), Wanted::Whole);
    }
}
