//! Setting of numbers: the digits of a table's column, and of a number alone.

/// Format of the numbers of one column, chosen once so that their decimal points align.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Digits {
    /// This many decimals.
    Decimals(usize),
    /// Four significant digits each: the column spans too many orders of magnitude to align.
    Significant,
}

/// No aligned number is longer than this; beyond it the digits would pretend a precision.
const ALIGNED_DIGITS_MAX: i32 = 7;

impl Digits {
    /// Four significant digits for the largest of `values`, two for the smallest that is not zero
    /// (three while one decimal is enough), less the zeros at which all of them end.
    pub(super) fn for_column(values: impl Iterator<Item = f64> + Clone) -> Digits {
        if values.clone().all(|value| value.fract() == 0.0 && value.abs() < 1e15) {
            return Digits::Decimals(0);
        }
        let sizes = values.clone().map(f64::abs).filter(|size| *size > 0.0);
        let largest = magnitude(sizes.clone().fold(0.0, f64::max));
        let smallest = magnitude(sizes.fold(f64::INFINITY, f64::min));
        let decimals = (3 - largest).max(1 - smallest).max((2 - smallest).min(1)).max(0);
        if largest.max(0) + 1 + decimals > ALIGNED_DIGITS_MAX {
            return Digits::Significant;
        }
        let mut decimals = decimals as usize;
        while decimals > 0
            && values.clone().all(|value| format!("{value:.decimals$}").ends_with('0'))
        {
            decimals -= 1;
        }
        Digits::Decimals(decimals)
    }

    /// `value` as text, with a true minus sign.
    pub(super) fn format(self, value: f64) -> String {
        match self {
            Digits::Decimals(decimals) => signed(format!("{value:.decimals$}")),
            Digits::Significant => significant(value),
        }
    }
}

/// `value` with four significant digits, or in full if it is an integer.
pub(super) fn significant(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return signed(format!("{value:.0}"));
    }
    let exponent = magnitude(value.abs());
    if !(-4..=6).contains(&exponent) {
        return signed(format!("{value:.3e}"));
    }
    let decimals = (3 - exponent).max(0) as usize;
    let text = format!("{value:.decimals$}");
    if !text.contains('.') {
        return signed(text);
    }
    signed(text.trim_end_matches('0').trim_end_matches('.').to_owned())
}

/// The power of ten at or below a positive number.
fn magnitude(size: f64) -> i32 {
    size.log10().floor() as i32
}

fn signed(text: String) -> String {
    match text.strip_prefix('-') {
        Some(digits) if digits.bytes().all(|digit| matches!(digit, b'0' | b'.')) => digits.into(),
        Some(digits) => format!("\u{2212}{digits}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(values: &[f64]) -> Vec<String> {
        let digits = Digits::for_column(values.iter().copied());
        values.iter().map(|value| digits.format(*value)).collect()
    }

    #[test]
    fn a_column_is_aligned_while_its_range_allows() {
        assert_eq!(column(&[1.0, 64.0]), ["1", "64"]);
        assert_eq!(column(&[0.97, 0.5, 0.0]), ["0.97", "0.50", "0.00"]);
        assert_eq!(column(&[12.4, 0.05]), ["12.40", "0.05"]);
        assert_eq!(column(&[-3.25, 0.0]), ["\u{2212}3.25", "0.00"]);
        assert_eq!(column(&[2210.0, 48.13]), ["2210.0", "48.1"]);
        assert_eq!(column(&[5_000_000.0, 0.0125]), ["5000000", "0.0125"]);
    }

    #[test]
    fn a_number_alone_has_four_significant_digits() {
        let cases = [
            (0.0, "0"),
            (100.0, "100"),
            (0.953957, "0.954"),
            (1234.56, "1235"),
            (-0.00012345, "\u{2212}0.0001234"),
            (1.25e-9, "1.250e-9"),
            (123_456_789.5, "1.235e8"),
        ];
        for (value, text) in cases {
            assert_eq!(significant(value), text, "{value}");
        }
    }

    #[test]
    fn a_number_that_rounds_to_zero_has_no_sign() {
        assert_eq!(Digits::Decimals(1).format(-0.01), "0.0");
    }
}
