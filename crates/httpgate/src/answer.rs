//! Responses of the gate itself, without a server.

use std::time::{SystemTime, UNIX_EPOCH};

use super::buf::Buf;
use super::message::Version;
use super::rewrite::After;

/// An answer of the gate itself: a status, a line of plain text that says why, and fields.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) text: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) fields: &'a [(&'a str, &'a str)],
}

impl<'a> Answer<'a> {
    pub(crate) fn plain(status: u16, text: &'a str) -> Answer<'a> {
        Answer { status, text, kind: "text/plain; charset=utf-8", fields: &[] }
    }

    /// Writes it. `body` says whether the request allows one.
    pub(crate) fn write(&self, version: Version, body: WithBody, after: After, out: &mut Buf) {
        let put = |out: &mut Buf, parts: &[&str]| {
            for part in parts {
                out.extend(part.as_bytes());
            }
        };
        out.extend(b"HTTP/1.1 ");
        out.extend_number(u64::from(self.status));
        put(out, &[" ", phrase(self.status), "\r\nDate: ", &date(SystemTime::now())]);
        for (name, value) in self.fields {
            put(out, &["\r\n", name, ": ", value]);
        }
        put(out, &["\r\nContent-Type: ", self.kind, "\r\nContent-Length: "]);
        out.extend_number(self.text.len() as u64);
        match (after, version) {
            (After::Keep, Version::Http11) => {}
            (After::Keep, Version::Http10) => put(out, &["\r\nConnection: keep-alive"]),
            (After::Close, _) => put(out, &["\r\nConnection: close"]),
        }
        out.extend(b"\r\n\r\n");
        if body == WithBody::Yes {
            out.extend(self.text.as_bytes());
        }
    }
}

/// Permission of a response to have a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WithBody {
    Yes,
    /// The request was HEAD.
    No,
}

fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        414 => "URI Too Long",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Unknown",
    }
}

/// A date as HTTP writes it (RFC 9110 section 5.6.7).
fn date(at: SystemTime) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = at.duration_since(UNIX_EPOCH).map_or(0, |span| span.as_secs());
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Days from 1 March 0000, in eras of 400 years; a leap day is then the last day of its year.
    let since = days + 719_468;
    let (era, of_era) = (since / 146_097, since % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = (march_month + 2) % 12;
    let year = era * 400 + year_of_era + u64::from(month < 2);
    format!(
        "{}, {day:02} {} {year} {:02}:{:02}:{:02} GMT",
        DAYS[(days % 7) as usize],
        MONTHS[month as usize],
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_are_right_around_leap_days() {
        let table = [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT"),
            (1_735_689_599, "Tue, 31 Dec 2024 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        ];
        for (seconds, text) in table {
            assert_eq!(date(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn a_head_request_gets_the_length_but_not_the_body() {
        let mut out = Buf::new(64, 1024);
        let answer = Answer { fields: &[("A", "b")], ..Answer::plain(503, "no\n") };
        answer.write(Version::Http11, WithBody::No, After::Close, &mut out);
        let text = String::from_utf8(out.filled().to_vec()).unwrap();
        assert!(text.starts_with("HTTP/1.1 503 Service Unavailable\r\nDate: "));
        assert!(text.contains("\r\nA: b\r\n") && text.contains("\r\nContent-Length: 3\r\n"));
        assert!(text.ends_with("\r\nConnection: close\r\n\r\n"));
    }
}
