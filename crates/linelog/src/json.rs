//! Words that the JSON lines of all access logs share.

use std::time::{Duration, SystemTime};

/// A moment, UTC, RFC 3339, in milliseconds.
pub fn time(at: SystemTime) -> String {
    humantime::format_rfc3339_millis(at).to_string()
}

/// A span \[s\], rounded to microseconds: a wait is known no better.
pub fn seconds(span: Duration) -> f64 {
    (span.as_secs_f64() * 1e6).round() / 1e6
}

/// The line that tells how many were lost.
pub fn lost(lines: u64) -> String {
    format!("{{\"lines_lost\":{lines},\"time\":\"{}\"}}", time(SystemTime::now()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_lost_lines_are_as_told() {
        assert_eq!(seconds(Duration::from_nanos(1_234_567_890)), 1.234_568);
        assert_eq!(time(SystemTime::UNIX_EPOCH), "1970-01-01T00:00:00.000Z");
        assert!(lost(3).starts_with("{\"lines_lost\":3,\"time\":\"20"), "{}", lost(3));
    }
}
