//! The texts of clause 4.3.2: random strings, last names, postal codes.

use std::fmt;

use rand::{Rng, RngExt};

use crate::Chance;

/// A text of at most `N` ASCII characters, in place: a row is made of these without allocating.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text<const N: usize> {
    bytes: [u8; N],
    len: u16,
}

const LETTERS: usize = 52;
const ALPHANUMERICS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

impl<const N: usize> Text<N> {
    /// The text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("only ASCII is ever put in")
    }

    /// The text's characters, one byte each.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// A copy of a text that is ASCII and fits.
    pub(super) fn of(text: &str) -> Text<N> {
        assert!(text.is_ascii(), "{text} is ASCII");
        let mut made = Text::blank(text.len());
        made.bytes[..text.len()].copy_from_slice(text.as_bytes());
        made
    }

    /// A text of exactly these ASCII characters.
    pub(super) fn full(bytes: [u8; N]) -> Text<N> {
        assert!(bytes.is_ascii(), "{bytes:?} are ASCII");
        Text { bytes, len: N as u16 }
    }

    /// A-string: letters and digits, of a random length (4.3.2.2).
    pub(super) fn a_string(chance: &mut Chance, length: std::ops::RangeInclusive<usize>) -> Self {
        let mut made = Text::blank(chance.random_range(length));
        fill(chance, ALPHANUMERICS, made.filled());
        made
    }

    /// An a-string of so many letters, without digits.
    pub(super) fn letters(chance: &mut Chance, length: usize) -> Self {
        let mut made = Text::blank(length);
        fill(chance, &ALPHANUMERICS[..LETTERS], made.filled());
        made
    }

    /// N-string: so many digits (4.3.2.2).
    pub(super) fn digits(chance: &mut Chance, length: usize) -> Self {
        let mut made = Text::blank(length);
        for byte in made.filled() {
            *byte = b'0' + chance.random_range(0..10);
        }
        made
    }

    /// The same text with `word` over what stood at a random place.
    pub(super) fn with(mut self, chance: &mut Chance, word: &[u8]) -> Self {
        let at = chance.random_range(0..=usize::from(self.len) - word.len());
        self.bytes[at..at + word.len()].copy_from_slice(word);
        self
    }

    fn blank(len: usize) -> Text<N> {
        assert!(len <= N, "{len} characters do not fit into {N}");
        Text { bytes: [b' '; N], len: len as u16 }
    }

    fn filled(&mut self) -> &mut [u8] {
        &mut self.bytes[..usize::from(self.len)]
    }
}

/// Fills with symbols of an alphabet of at most 64. Ten symbols come from one random word: a
/// warehouse has fifty million of them, and they are what its generation takes.
fn fill(chance: &mut Chance, alphabet: &[u8], bytes: &mut [u8]) {
    let (mut bits, mut left) = (0_u64, 0);
    for byte in bytes {
        *byte = loop {
            if left == 0 {
                (bits, left) = (chance.next_u64(), 10);
            }
            let symbol = (bits & 63) as usize;
            (bits, left) = (bits >> 6, left - 1);
            // Symbols outside the alphabet are drawn again, so that all in it are equally likely.
            if let Some(&symbol) = alphabet.get(symbol) {
                break symbol;
            }
        };
    }
}

impl Text<16> {
    /// The last name of a number; see [`last_name`].
    fn of_syllables(number: u16) -> Text<16> {
        let digits = [number / 100, number / 10 % 10, number % 10];
        let mut made = Text::blank(0);
        for syllable in digits.map(|digit| SYLLABLES[usize::from(digit)].as_bytes()) {
            let from = usize::from(made.len);
            made.bytes[from..from + syllable.len()].copy_from_slice(syllable);
            made.len += syllable.len() as u16;
        }
        made
    }
}

const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// The last name of a number below 1000: the syllables of its three digits (4.3.2.3).
///
/// # Panics
/// If the number is above 999.
///
/// ```
/// assert_eq!(workload::tpcc::last_name(371).as_str(), "PRICALLYOUGHT");
/// ```
pub fn last_name(number: u16) -> Text<16> {
    assert!(number <= 999, "last names have numbers to 999, and this is {number}");
    Text::of_syllables(number)
}

impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
