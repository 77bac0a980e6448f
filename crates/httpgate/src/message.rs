//! Heads of requests and responses: what is read and what is refused. Pure functions of bytes.
//!
//! A head that two programs read differently is how requests are smuggled past a gate. So what
//! RFC 9112 calls invalid, or lets a recipient "repair", is refused here; nothing is guessed.

use std::mem::MaybeUninit;

use thiserror::Error;

use super::body::{Framing, is_token};
use super::fields::{Field, field, list};

/// The most fields that a head may have.
pub const FIELDS_MAX: usize = 100;

/// Room for the fields of one head, kept by the caller.
pub type Room<'b> = [MaybeUninit<httparse::Header<'b>>; FIELDS_MAX];

/// Fresh room for the fields of one head.
pub const fn room<'b>() -> Room<'b> {
    [const { MaybeUninit::uninit() }; FIELDS_MAX]
}

/// Why a head was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HeadError {
    /// A line ends in LF without CR.
    #[error("a line ends in a line feed without a carriage return")]
    BareLf,
    /// A CR is not followed by LF.
    #[error("a carriage return is not followed by a line feed")]
    BareCr,
    /// There is a NUL byte.
    #[error("a NUL byte")]
    Nul,
    /// The first line is longer than the bound on heads.
    #[error("the request target is too long")]
    TargetTooLong,
    /// The head is longer than its bound.
    #[error("the header section is too large")]
    TooLong,
    /// There are more than [`FIELDS_MAX`] fields.
    #[error("there are more than {FIELDS_MAX} header fields")]
    TooManyFields,
    /// The first line or a field does not follow the grammar.
    #[error("the first line or a header field is malformed")]
    Syntax,
    /// The version is neither HTTP/1.0 nor HTTP/1.1.
    #[error("the version is neither HTTP/1.0 nor HTTP/1.1")]
    Version,
    /// A Content-Length is not 1 to 19 digits.
    #[error("Content-Length is not a decimal number")]
    ContentLength,
    /// There is more than one Content-Length.
    #[error("there is more than one Content-Length")]
    ContentLengths,
    /// There are both Content-Length and Transfer-Encoding.
    #[error("there are both Content-Length and Transfer-Encoding")]
    LengthAndCoding,
    /// Transfer-Encoding is not `chunked`, or stands where it must not.
    #[error("Transfer-Encoding is not exactly one \"chunked\" in HTTP/1.1")]
    Coding,
    /// Transfer-Encoding ends in `chunked` but has other codings before it.
    #[error("the only transfer coding that is implemented is \"chunked\"")]
    CodingUnknown,
    /// HTTP/1.1 without Host.
    #[error("Host is missing")]
    HostMissing,
    /// More than one Host.
    #[error("there is more than one Host")]
    Hosts,
    /// Host is not a host with an optional port.
    #[error("Host is not a host with an optional port")]
    Host,
    /// The target is not a path, an absolute http or https URI, or `*` with OPTIONS.
    #[error("the request target is invalid")]
    Target,
    /// CONNECT or TRACE, which this gate does not serve.
    #[error("this gate serves neither CONNECT nor TRACE")]
    Method,
    /// The client asks for another protocol.
    #[error("this gate speaks HTTP/1.1 only and refuses Upgrade")]
    Upgrade,
    /// An Expect other than `100-continue`.
    #[error("the only expectation that is met is \"100-continue\"")]
    Expectation,
    /// A status that is not 100 to 599, or 101, for which nobody asked.
    #[error("the status is invalid")]
    Status,
}

impl HeadError {
    /// The status with which a server answers such a request.
    pub fn status(self) -> u16 {
        match self {
            HeadError::TargetTooLong => 414,
            HeadError::TooLong | HeadError::TooManyFields => 431,
            HeadError::Version => 505,
            HeadError::CodingUnknown | HeadError::Upgrade => 501,
            HeadError::Method => 405,
            HeadError::Expectation => 417,
            _ => 400,
        }
    }
}

/// Finds the end of a head as its bytes come in, each byte looked at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeadScan {
    at: usize,
}

/// Place of a complete head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadSpan {
    /// Its first byte: 0, or 2 after the one empty line that RFC 9112 section 2.2 has servers skip.
    pub start: usize,
    /// One past its last byte.
    pub end: usize,
}

impl HeadScan {
    /// Looks on in `bytes`, which begin with the head and grow from call to call, for the empty
    /// line that ends it; `None` if it is not there yet.
    ///
    /// # Errors
    /// If a line ends wrongly, or the head is longer than `most` bytes.
    pub fn scan(&mut self, bytes: &[u8], most: usize) -> Result<Option<HeadSpan>, HeadError> {
        while let Some(&byte) = bytes.get(self.at) {
            let at = self.at;
            let after_cr = at > 0 && bytes[at - 1] == b'\r';
            match byte {
                b'\n' if !after_cr => return Err(HeadError::BareLf),
                b'\n' if at >= 3 && bytes[at - 3..at] == *b"\r\n\r" => {
                    let start = if bytes.starts_with(b"\r\n") { 2 } else { 0 };
                    return Ok(Some(HeadSpan { start, end: at + 1 }));
                }
                b'\n' => {}
                _ if after_cr => return Err(HeadError::BareCr),
                0 => return Err(HeadError::Nul),
                _ => {}
            }
            if at + 1 >= most {
                let one_line = !bytes[..at].contains(&b'\n');
                return Err(if one_line { HeadError::TargetTooLong } else { HeadError::TooLong });
            }
            self.at += 1;
        }
        Ok(None)
    }
}

/// The version of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
}

/// Target of a request, in origin form: `lead` and `rest` one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'b> {
    /// Part that an absolute target without a path lacks.
    pub lead: &'static str,
    /// The rest of it.
    pub rest: &'b str,
}

/// The head of a request.
#[derive(Debug)]
pub struct Request<'b, 'h> {
    /// Its method.
    pub method: &'b str,
    /// Its target.
    pub target: Target<'b>,
    /// Its version.
    pub version: Version,
    /// All its fields as they came.
    pub fields: &'h [httparse::Header<'b>],
    /// The host that it is for: of an absolute target, else of Host; empty if there is neither.
    pub host: &'b str,
    /// Framing of its body.
    pub framing: Framing,
    /// True if the client keeps the connection open after the response.
    pub persistent: bool,
    /// True if the client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
    /// Number of hops that an OPTIONS may still go.
    pub hops_max: Option<u64>,
    /// True if Connection names fields that must not be passed on.
    pub(crate) drops_more: bool,
}

impl<'b, 'h> Request<'b, 'h> {
    /// Reads a complete head, as [`HeadScan`] delimits it.
    ///
    /// # Errors
    /// If it is not a request that can be understood in exactly one way, or not one that this gate
    /// serves.
    pub fn parse(bytes: &'b [u8], room: &'h mut Room<'b>) -> Result<Request<'b, 'h>, HeadError> {
        no_empty_line_first(bytes)?;
        let mut head = httparse::Request::new(&mut []);
        let read = head.parse_with_uninit_headers(bytes, room).map_err(syntax)?;
        if read != httparse::Status::Complete(bytes.len()) {
            return Err(HeadError::Syntax);
        }
        let (Some(method), Some(raw), Some(minor)) = (head.method, head.path, head.version) else {
            return Err(HeadError::Syntax);
        };
        let version = version(minor);
        let fields: &'h [httparse::Header<'b>] = head.headers;
        let facts = Facts::of(fields, version, Side::Request)?;
        if matches!(method, "CONNECT" | "TRACE") {
            return Err(HeadError::Method);
        }
        if facts.upgrade {
            return Err(HeadError::Upgrade);
        }
        let (target, authority) = target(method, raw)?;
        if version == Version::Http11 && facts.host.is_none() {
            return Err(HeadError::HostMissing);
        }
        let framing = match (facts.chunked, facts.length) {
            (true, _) => Framing::Chunked,
            (false, Some(length)) => Framing::Length(length),
            (false, None) => Framing::None,
        };
        Ok(Request {
            method,
            target,
            version,
            fields,
            host: authority.or(facts.host).unwrap_or(""),
            framing,
            persistent: facts.persistent(version),
            expects_continue: facts.expects_continue && version == Version::Http11,
            hops_max: facts.hops_max.filter(|_| method == "OPTIONS"),
            drops_more: facts.drops_more,
        })
    }

    /// True if doing it twice is as good as doing it once (RFC 9110 section 9.2.2).
    pub fn is_idempotent(&self) -> bool {
        matches!(self.method, "GET" | "HEAD" | "PUT" | "DELETE" | "OPTIONS")
    }
}

/// The head of a response.
#[derive(Debug)]
pub struct Response<'b, 'h> {
    /// Its version.
    pub version: Version,
    /// Its status.
    pub status: u16,
    /// Its reason phrase.
    pub reason: &'b str,
    /// All its fields as they came.
    pub fields: &'h [httparse::Header<'b>],
    /// Framing of its body.
    pub framing: Framing,
    /// The Content-Length that it states, even where it has no body.
    pub length: Option<u64>,
    /// True if the server keeps the connection open after it.
    pub persistent: bool,
    /// True if Connection names fields that must not be passed on.
    pub(crate) drops_more: bool,
}

/// Request that a response answers, as far as its framing depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A HEAD: the response has no body, whatever it says.
    Head,
    /// Anything else.
    Other,
}

impl<'b, 'h> Response<'b, 'h> {
    /// Reads a complete head, as [`HeadScan`] delimits it.
    ///
    /// # Errors
    /// If it is not a response that can be understood in exactly one way.
    pub fn parse(
        bytes: &'b [u8],
        asked: Asked,
        room: &'h mut Room<'b>,
    ) -> Result<Response<'b, 'h>, HeadError> {
        no_empty_line_first(bytes)?;
        let mut head = httparse::Response::new(&mut []);
        let read = httparse::ParserConfig::default()
            .parse_response_with_uninit_headers(&mut head, bytes, room)
            .map_err(syntax)?;
        if read != httparse::Status::Complete(bytes.len()) {
            return Err(HeadError::Syntax);
        }
        let (Some(status), Some(minor)) = (head.code, head.version) else {
            return Err(HeadError::Syntax);
        };
        if !(100..600).contains(&status) || status == 101 {
            return Err(HeadError::Status);
        }
        let version = version(minor);
        let fields: &'h [httparse::Header<'b>] = head.headers;
        let facts = Facts::of(fields, version, Side::Response)?;
        let framing = if asked == Asked::Head || status < 200 || matches!(status, 204 | 304) {
            Framing::None
        } else {
            match (facts.chunked, facts.length) {
                (true, _) => Framing::Chunked,
                (false, Some(length)) => Framing::Length(length),
                (false, None) => Framing::UntilClose,
            }
        };
        Ok(Response {
            version,
            status,
            reason: head.reason.unwrap_or(""),
            fields,
            framing,
            length: facts.length,
            persistent: facts.persistent(version) && framing != Framing::UntilClose,
            drops_more: facts.drops_more,
        })
    }
}

/// Sender of a head: some fields mean something only in a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Request,
    Response,
}

/// Facts about the message itself in the fields of one head.
#[derive(Debug, Default)]
struct Facts<'b> {
    length: Option<u64>,
    chunked: bool,
    host: Option<&'b str>,
    close: bool,
    keep_alive: bool,
    drops_more: bool,
    upgrade: bool,
    expects_continue: bool,
    hops_max: Option<u64>,
}

impl<'b> Facts<'b> {
    fn of(
        fields: &[httparse::Header<'b>],
        version: Version,
        side: Side,
    ) -> Result<Facts<'b>, HeadError> {
        let mut facts = Facts::default();
        for header in fields {
            let value = header.value.trim_ascii();
            if value.iter().any(|&byte| (byte < b' ' && byte != b'\t') || byte == 0x7f) {
                return Err(HeadError::Syntax);
            }
            match field(header.name) {
                Field::Connection => facts.connection(value),
                Field::ContentLength => {
                    let length = decimal(value).ok_or(HeadError::ContentLength)?;
                    if facts.length.replace(length).is_some() {
                        return Err(HeadError::ContentLengths);
                    }
                }
                Field::TransferEncoding => {
                    if facts.chunked || version == Version::Http10 {
                        return Err(HeadError::Coding);
                    }
                    chunked(value)?;
                    facts.chunked = true;
                }
                _ if side == Side::Response => {}
                Field::Host => {
                    let before = facts.host.replace(host(value)?);
                    if before.is_some() {
                        return Err(HeadError::Hosts);
                    }
                }
                Field::Expect => {
                    if !value.eq_ignore_ascii_case(b"100-continue") {
                        return Err(HeadError::Expectation);
                    }
                    facts.expects_continue = true;
                }
                Field::Upgrade => facts.upgrade = true,
                Field::MaxForwards => facts.hops_max = decimal(value),
                Field::Disguised => return Err(HeadError::Syntax),
                _ => {}
            }
        }
        if facts.chunked && facts.length.is_some() {
            return Err(HeadError::LengthAndCoding);
        }
        Ok(facts)
    }

    fn connection(&mut self, value: &[u8]) {
        for option in list(value) {
            if option.eq_ignore_ascii_case(b"close") {
                self.close = true;
            } else if option.eq_ignore_ascii_case(b"keep-alive") {
                self.keep_alive = true;
            } else {
                self.drops_more = true;
            }
        }
    }

    fn persistent(&self, version: Version) -> bool {
        !self.close && (version == Version::Http11 || self.keep_alive)
    }
}

/// The parser below would pass over any number of empty lines.
fn no_empty_line_first(bytes: &[u8]) -> Result<(), HeadError> {
    if matches!(bytes.first(), Some(b'\r' | b'\n')) { Err(HeadError::Syntax) } else { Ok(()) }
}

fn version(minor: u8) -> Version {
    if minor == 0 { Version::Http10 } else { Version::Http11 }
}

fn syntax(error: httparse::Error) -> HeadError {
    match error {
        httparse::Error::TooManyHeaders => HeadError::TooManyFields,
        httparse::Error::Version => HeadError::Version,
        httparse::Error::Status => HeadError::Status,
        _ => HeadError::Syntax,
    }
}

/// A number of 1 to 19 digits, which fits 64 bits, and nothing else around it.
fn decimal(value: &[u8]) -> Option<u64> {
    if value.is_empty() || value.len() > 19 || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(value.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

fn chunked(value: &[u8]) -> Result<(), HeadError> {
    if value.eq_ignore_ascii_case(b"chunked") {
        return Ok(());
    }
    let is_chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
    let mut codings: Vec<&[u8]> = value.split(|&b| b == b',').map(<[u8]>::trim_ascii).collect();
    let last = codings.pop().unwrap_or_default();
    let named = |coding: &&[u8]| !coding.is_empty() && coding.iter().all(|&byte| is_token(byte));
    if is_chunked(last) && codings.iter().all(|coding| named(coding) && !is_chunked(coding)) {
        return Err(HeadError::CodingUnknown);
    }
    Err(HeadError::Coding)
}

/// A host with an optional port; it may be empty (RFC 9110 section 7.2).
fn host(value: &[u8]) -> Result<&str, HeadError> {
    let allowed = |byte: &u8| {
        byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(byte) // RFC 3986, 3.2.2
    };
    if !value.iter().all(allowed) {
        return Err(HeadError::Host);
    }
    let text = std::str::from_utf8(value).map_err(|_| HeadError::Host)?;
    let port = match text.rsplit_once(']') {
        Some((address, rest)) if address.starts_with('[') => rest.strip_prefix(':'),
        Some(_) => return Err(HeadError::Host),
        None if text.starts_with('[') => return Err(HeadError::Host),
        None => text.split_once(':').map(|(_, port)| port),
    };
    let bracketed_rest_is_port =
        text.rsplit_once(']').is_none_or(|(_, rest)| rest.is_empty() || rest.starts_with(':'));
    if !bracketed_rest_is_port || port.is_some_and(|port| !is_port(port)) {
        return Err(HeadError::Host);
    }
    Ok(text)
}

fn is_port(port: &str) -> bool {
    port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit())
}

/// The target in origin form, and the authority if it was an absolute one.
fn target<'b>(method: &str, raw: &'b str) -> Result<(Target<'b>, Option<&'b str>), HeadError> {
    if !raw.bytes().all(|byte| (0x21..0x7f).contains(&byte) && byte != b'#') {
        return Err(HeadError::Target);
    }
    if raw.starts_with('/') || (raw == "*" && method == "OPTIONS") {
        return Ok((Target { lead: "", rest: raw }, None));
    }
    let scheme = ["http://", "https://"]
        .into_iter()
        .find(|scheme| raw.get(..scheme.len()).is_some_and(|s| s.eq_ignore_ascii_case(scheme)))
        .ok_or(HeadError::Target)?;
    let after = &raw[scheme.len()..];
    let (authority, rest) = after.split_at(after.find(['/', '?']).unwrap_or(after.len()));
    let authority = host(authority.as_bytes()).map_err(|_| HeadError::Target)?;
    if authority.is_empty() {
        return Err(HeadError::Target);
    }
    let lead = match rest.as_bytes().first() {
        Some(b'/') => "",
        None if method == "OPTIONS" => "*",
        _ => "/",
    };
    Ok((Target { lead, rest }, Some(authority)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(bytes: &[u8]) -> Result<Option<HeadSpan>, HeadError> {
        HeadScan::default().scan(bytes, 8192)
    }

    fn framing(head: &str) -> Result<Framing, HeadError> {
        let span = scan(head.as_bytes())?.expect("a complete head");
        let mut room = room();
        Request::parse(&head.as_bytes()[span.start..span.end], &mut room).map(|r| r.framing)
    }

    fn answer(head: &str, asked: Asked) -> Result<(Framing, bool), HeadError> {
        let span = scan(head.as_bytes())?.expect("a complete head");
        let mut room = room();
        Response::parse(&head.as_bytes()[span.start..span.end], asked, &mut room)
            .map(|r| (r.framing, r.persistent))
    }

    #[test]
    fn good_requests_have_the_right_framing() {
        let table = [
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", Framing::None),
            ("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Framing::None),
            ("GET / HTTP/1.0\r\n\r\n", Framing::None),
            ("POST /x HTTP/1.1\r\nHost: a:80\r\nContent-Length: 5\r\n\r\n", Framing::Length(5)),
            ("POST /x HTTP/1.1\r\nHost: a\r\ncontent-length:005\r\n\r\n", Framing::Length(5)),
            ("POST /x HTTP/1.0\r\nContent-Length:\t7 \r\n\r\n", Framing::Length(7)),
            ("POST / HTTP/1.1\r\nHost: [::1]:8\r\nTransfer-Encoding: Chunked\r\n\r\n", {
                Framing::Chunked
            }),
            ("OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n", Framing::None),
        ];
        for (head, expected) in table {
            assert_eq!(framing(head), Ok(expected), "{head:?}");
        }
    }

    #[test]
    fn requests_that_could_be_read_in_two_ways_are_refused() {
        use HeadError as E;
        let post = |fields: &str| format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
        let table = [
            (post("Content-Length: 5\r\nTransfer-Encoding: chunked"), E::LengthAndCoding),
            (post("Transfer-Encoding: chunked\r\nContent-Length: 5"), E::LengthAndCoding),
            (post("Content-Length: 5\r\nContent-Length: 6"), E::ContentLengths),
            (post("Content-Length: 5\r\nContent-Length: 5"), E::ContentLengths),
            (post("Content-Length: 5, 5"), E::ContentLength),
            (post("Content-Length: +5"), E::ContentLength),
            (post("Content-Length: -5"), E::ContentLength),
            (post("Content-Length: 5 5"), E::ContentLength),
            (post("Content-Length: 0x5"), E::ContentLength),
            (post("Content-Length: 5a"), E::ContentLength),
            (post("Content-Length: "), E::ContentLength),
            (post("Content-Length: 99999999999999999999"), E::ContentLength),
            (post("Content_Length: 5"), E::Syntax),
            (post("Transfer_Encoding: chunked"), E::Syntax),
            (post("Transfer-Encoding: identity"), E::Coding),
            (post("Transfer-Encoding: chunked, identity"), E::Coding),
            (post("Transfer-Encoding: chunked, chunked"), E::Coding),
            (post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"), E::Coding),
            (post("Transfer-Encoding: xchunked"), E::Coding),
            (post("Transfer-Encoding: \"chunked\""), E::Coding),
            (post("Transfer-Encoding: chunked,"), E::Coding),
            (post("Transfer-Encoding: , chunked"), E::Coding),
            (post("Transfer-Encoding:"), E::Coding),
            (post("Transfer-Encoding: \x0bchunked"), E::Syntax),
            (post("Transfer-Encoding: gzip, chunked"), E::CodingUnknown),
            (post("Transfer-Encoding : chunked"), E::Syntax),
            (post("Content-Length : 5"), E::Syntax),
            (post(" Content-Length: 5"), E::Syntax),
            (post("X: y\r\n Content-Length: 5"), E::Syntax),
            (post("X: y\r\n\tz"), E::Syntax),
            (post("X: y\nContent-Length: 5"), E::BareLf),
            (post("X: y\rContent-Length: 5"), E::BareCr),
            (post("X: y\0"), E::Nul),
            (post("X: y\x7f"), E::Syntax),
            (post("X: \x01"), E::Syntax),
            (post(": y"), E::Syntax),
            (post("X"), E::Syntax),
            (post("X\u{e9}: y"), E::Syntax),
            (post("Host: b"), E::Hosts),
            (post("Expect: 200-ok"), E::Expectation),
            (post("Connection: upgrade\r\nUpgrade: websocket"), E::Upgrade),
            (post(&"A: b\r\n".repeat(FIELDS_MAX)), E::TooManyFields),
        ];
        for (head, error) in table {
            assert_eq!(framing(&head), Err(error), "{head:?}");
        }
    }

    #[test]
    fn first_lines_and_hosts_are_strict() {
        use HeadError as E;
        let table = [
            ("GET / HTTP/1.1\r\n\r\n", E::HostMissing),
            ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", E::Host),
            ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", E::Host),
            ("GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", E::Host),
            ("GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", E::Host),
            ("GET / HTTP/1.1\r\nHost: a:1:2\r\n\r\n", E::Host),
            ("GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", E::Host),
            ("GET / HTTP/1.1\r\nHost: [::1]x\r\n\r\n", E::Host),
            ("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", E::Host),
            ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", E::Syntax),
            ("GET /\tHTTP/1.1\r\nHost: a\r\n\r\n", E::Syntax),
            ("GET / x HTTP/1.1\r\nHost: a\r\n\r\n", E::Version),
            ("GET /#f HTTP/1.1\r\nHost: a\r\n\r\n", E::Target),
            ("GET x HTTP/1.1\r\nHost: a\r\n\r\n", E::Target),
            ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", E::Target),
            ("GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n", E::Target),
            ("GET http://u@h/x HTTP/1.1\r\nHost: a\r\n\r\n", E::Target),
            ("GET ftp://h/x HTTP/1.1\r\nHost: a\r\n\r\n", E::Target),
            ("GET / HTTP/1.2\r\nHost: a\r\n\r\n", E::Version),
            ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", E::Version),
            ("PRI * HTTP/2.0\r\n\r\n", E::Version),
            ("GET /\r\n\r\n", E::Syntax),
            ("GE(T / HTTP/1.1\r\nHost: a\r\n\r\n", E::Syntax),
            ("\r\n\r\n", E::Syntax),
            ("CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", E::Method),
            ("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", E::Method),
            ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", E::Coding),
        ];
        for (head, error) in table {
            assert_eq!(framing(head), Err(error), "{head:?}");
        }
    }

    #[test]
    fn absolute_targets_become_origin_form_and_name_the_host() {
        let table = [
            ("http://h:1/a?b", "", "/a?b", "h:1"),
            ("HTTPS://h", "/", "", "h"),
            ("http://h?q", "/", "?q", "h"),
        ];
        for (raw, lead, rest, host) in table {
            let head = format!("GET {raw} HTTP/1.1\r\nHost: other\r\n\r\n");
            let mut room = room();
            let request = Request::parse(head.as_bytes(), &mut room).unwrap();
            assert_eq!((request.target, request.host), (Target { lead, rest }, host));
        }
        assert_eq!(target("OPTIONS", "http://h").unwrap().0, Target { lead: "*", rest: "" });
    }

    #[test]
    fn connections_persist_as_the_version_says() {
        let table = [
            ("HTTP/1.1", "X: y", true),
            ("HTTP/1.1", "Connection: close", false),
            ("HTTP/1.1", "Connection: x, Close", false),
            ("HTTP/1.0", "X: y", false),
            ("HTTP/1.0", "Connection: Keep-Alive", true),
            ("HTTP/1.0", "Connection: keep-alive, close", false),
        ];
        for (version, field, persistent) in table {
            let head = format!("GET / {version}\r\nHost: a\r\n{field}\r\n\r\n");
            let mut room = room();
            let request = Request::parse(head.as_bytes(), &mut room).unwrap();
            assert_eq!(request.persistent, persistent, "{head:?}");
        }
    }

    #[test]
    fn responses_are_framed_by_status_and_method() {
        let ok = |fields: &str| format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
        let status = |n: u16| format!("HTTP/1.1 {n} X\r\nContent-Length: 5\r\n\r\n");
        let table = [
            (ok("Content-Length: 5\r\n"), Asked::Other, Framing::Length(5), true),
            (ok("Content-Length: 5\r\n"), Asked::Head, Framing::None, true),
            (ok("Transfer-Encoding: chunked\r\n"), Asked::Other, Framing::Chunked, true),
            (ok(""), Asked::Other, Framing::UntilClose, false),
            (ok(""), Asked::Head, Framing::None, true),
            (status(204), Asked::Other, Framing::None, true),
            (status(304), Asked::Other, Framing::None, true),
            (status(100), Asked::Other, Framing::None, true),
            (
                "HTTP/1.1 200\r\nContent-Length: 1\r\n\r\n".into(),
                Asked::Other,
                { Framing::Length(1) },
                true,
            ),
            (
                "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n".into(),
                Asked::Other,
                { Framing::Length(1) },
                false,
            ),
        ];
        for (head, asked, framing, persistent) in table {
            assert_eq!(answer(&head, asked), Ok((framing, persistent)), "{head:?}");
        }
    }

    #[test]
    fn responses_that_could_be_read_in_two_ways_are_refused() {
        use HeadError as E;
        let ok = |fields: &str| format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n");
        let table = [
            (ok("Content-Length: 5\r\nTransfer-Encoding: chunked"), E::LengthAndCoding),
            (ok("Content-Length: 5\r\nContent-Length: 6"), E::ContentLengths),
            (ok("Content-Length: +5"), E::ContentLength),
            (ok("Transfer-Encoding: gzip"), E::Coding),
            (ok("Transfer-Encoding : chunked"), E::Syntax),
            (ok("X: y\r\n z"), E::Syntax),
            (ok("X: y\nZ: z"), E::BareLf),
            ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".into(), E::Coding),
            ("HTTP/1.1 101 Switching\r\n\r\n".into(), E::Status),
            ("HTTP/1.1 099 X\r\n\r\n".into(), E::Status),
            ("HTTP/1.1 600 X\r\n\r\n".into(), E::Status),
            ("HTTP/1.1 20 X\r\n\r\n".into(), E::Status),
            ("HTTP/2.0 200 X\r\n\r\n".into(), E::Version),
            ("SSH-2.0-OpenSSH\r\n\r\n".into(), E::Version),
        ];
        for (head, error) in table {
            assert_eq!(answer(&head, Asked::Other), Err(error), "{head:?}");
        }
    }

    #[test]
    fn long_heads_are_told_by_what_is_long() {
        let scan = |text: &str| HeadScan::default().scan(text.as_bytes(), 64);
        assert_eq!(scan(&"a".repeat(70)), Err(HeadError::TargetTooLong));
        let long = format!("GET / HTTP/1.1\r\nX: {}", "y".repeat(70));
        assert_eq!(scan(&long), Err(HeadError::TooLong));
        assert_eq!(HeadError::TargetTooLong.status(), 414);
        assert_eq!(HeadError::TooLong.status(), 431);
        let fits = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(64 - 23));
        assert_eq!((fits.len(), scan(&fits).is_ok()), (64, true));
    }
}
