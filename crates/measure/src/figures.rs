//! Numbers with their units as a person reads them: three significant digits, whatever the size. One
//! place, so that no text loses the digits of a rate below 0.01/s or of a time below a microsecond.

/// A time \[s\] with its unit: `12.3 ms`.
pub fn time(seconds: f64) -> String {
    let (factor, unit) = time_unit(seconds);
    format!("{} {unit}", digits(seconds * factor))
}

/// A rate [1/s] with its unit: `512 /s`, `0.00123 /s`.
pub fn rate(per_second: f64) -> String {
    format!("{} /s", digits(per_second))
}

/// Number of things, in the plural unless it is one: `1 request`, `3 classes`, `2 queries`.
pub fn count(n: u64, thing: &str) -> String {
    if n == 1 {
        return format!("1 {thing}");
    }
    let before_y = thing.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o', 'u']));
    match before_y {
        Some(stem) => format!("{n} {stem}ies"),
        None if thing.ends_with("ss") => format!("{n} {thing}es"),
        None => format!("{n} {thing}s"),
    }
}

/// Three significant digits; with an exponent only where nobody would count the zeros.
pub fn digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value:.0}");
    }
    let places = 2 - magnitude(value);
    if places > PLACES_MAX || magnitude(value) > WHOLE_MAX {
        return format!("{value:.2e}");
    }
    let places = places.max(0) as usize;
    format!("{value:.places$}")
}

/// The unit in which a time \[s\] is shown, and how many of them a second has.
pub fn time_unit(seconds: f64) -> (f64, &'static str) {
    match seconds.abs() {
        s if s >= 1.0 || s == 0.0 => (1.0, "s"),
        s if s >= 1e-3 => (1e3, "ms"),
        s if s >= 1e-6 => (1e6, "us"),
        _ => (1e9, "ns"),
    }
}

/// The power of ten at or below a number that is not 0.
pub fn magnitude(value: f64) -> i32 {
    value.abs().log10().floor() as i32
}

/// No number has more decimals; a smaller one is written with an exponent.
pub const PLACES_MAX: i32 = 8;

/// From this power of ten on a number is written with an exponent.
pub const WHOLE_MAX: i32 = 11;

#[cfg(test)]
mod tests {
    use super::*;

    /// Rates below 0.05/s were `0.0 /s`, times below a microsecond `0.000 ms`, and 1e300 took 301 columns.
    #[test]
    fn no_size_loses_its_digits_or_takes_a_line() {
        for (value, shown) in [
            (0.0, "0 /s"),
            (512.4, "512 /s"),
            (0.3, "0.300 /s"),
            (0.001_234, "0.00123 /s"),
            (1.234e-7, "1.23e-7 /s"),
            (1e-300, "1.00e-300 /s"),
            (123_456_789.0, "123456789 /s"),
            (1e300, "1.00e300 /s"),
        ] {
            assert_eq!(rate(value), shown);
        }
        for (value, shown) in [
            (0.0123, "12.3 ms"),
            (1.5e-6, "1.50 us"),
            (2e-10, "0.200 ns"),
            (3601.0, "3601 s"),
            (1e-300, "1.00e-291 ns"),
            (1e30, "1.00e30 s"),
        ] {
            assert_eq!(time(value), shown);
        }
    }
}
