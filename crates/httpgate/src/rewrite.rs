//! Changes of a proxy to a head on its way (RFC 9110 section 7.6): fields for the next hop only are
//! taken out, the framing is stated anew, and where the message came from is added. A head is
//! copied field by field into the buffer that is sent next; nothing is allocated.

use std::net::IpAddr;

use super::body::Framing;
use super::buf::Buf;
use super::fields::{Field, field, list};
use super::message::{Request, Response, Version};

/// Treatment of a client's own X-Forwarded-* and Forwarded fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarded {
    /// They are dropped: right for the first proxy that clients reach, for they can write
    /// anything.
    Replace,
    /// They are kept and added to: right behind another trusted proxy.
    Append,
}

/// The client's side of a connection, as forwarded fields name it.
#[derive(Debug)]
pub(crate) struct Origin {
    ip: IpAddr,
    /// The address, `192.0.2.1` or `::1`.
    address: String,
    /// The same as RFC 7239 writes it, `192.0.2.1` or `"[::1]"`.
    node: String,
    scheme: &'static str,
}

impl Origin {
    pub(crate) fn ip(&self) -> IpAddr {
        self.ip
    }

    /// The client's address.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn new(address: IpAddr, scheme: &'static str) -> Origin {
        let address = address.to_canonical();
        let node = match address {
            IpAddr::V4(v4) => v4.to_string(),
            IpAddr::V6(v6) => format!("\"[{v6}]\""),
        };
        Origin { ip: address, address: address.to_string(), node, scheme }
    }
}

/// State of the connection after a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    Keep,
    Close,
}

/// Writes the head of `request` as the server behind gets it.
pub(crate) fn request(
    request: &Request<'_, '_>,
    from: &Origin,
    forwarded: Forwarded,
    after: After,
    out: &mut Buf,
) {
    out.extend(request.method.as_bytes());
    out.extend(b" ");
    out.extend(request.target.lead.as_bytes());
    out.extend(request.target.rest.as_bytes());
    out.extend(b" HTTP/1.1\r\nHost: ");
    out.extend(request.host.as_bytes());
    for header in request.fields {
        match field(header.name) {
            Field::Other if !(request.drops_more && is_named(request.fields, header.name)) => {
                copy(header, out);
            }
            _ => {}
        }
    }
    if let Some(hops) = request.hops_max {
        out.extend(b"\r\nMax-Forwards: ");
        out.extend_number(hops.saturating_sub(1));
    }
    origin(request, from, forwarded, out);
    let via: &[u8] = match request.version {
        Version::Http11 => b"\r\nVia: 1.1 sekisho",
        Version::Http10 => b"\r\nVia: 1.0 sekisho",
    };
    out.extend(via);
    framing(request.framing, out);
    let end: &[u8] = match after {
        After::Keep => b"\r\n\r\n",
        After::Close => b"\r\nConnection: close\r\n\r\n",
    };
    out.extend(end);
}

/// Writes the fields that say where a request came from.
fn origin(request: &Request<'_, '_>, from: &Origin, forwarded: Forwarded, out: &mut Buf) {
    let kept = |wanted: Field| {
        let all = if forwarded == Forwarded::Append { request.fields } else { &[] };
        all.iter().filter(move |header| field(header.name) == wanted)
    };
    out.extend(b"\r\nX-Forwarded-For: ");
    for header in kept(Field::XForwardedFor) {
        out.extend(header.value);
        out.extend(b", ");
    }
    out.extend(from.address.as_bytes());
    let single = [
        (Field::XForwardedProto, &b"\r\nX-Forwarded-Proto: "[..], from.scheme),
        (Field::XForwardedHost, &b"\r\nX-Forwarded-Host: "[..], request.host),
    ];
    for (wanted, name, own) in single {
        out.extend(name);
        out.extend(kept(wanted).next().map_or(own.as_bytes(), |header| header.value));
    }
    out.extend(b"\r\nForwarded: ");
    for header in kept(Field::Forwarded) {
        out.extend(header.value);
        out.extend(b", ");
    }
    out.extend(b"for=");
    out.extend(from.node.as_bytes());
    out.extend(b";host=\"");
    out.extend(request.host.as_bytes());
    out.extend(b"\";proto=");
    out.extend(from.scheme.as_bytes());
}

/// Framing of the body of a response on its way to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    pub(crate) framing: Framing,
    pub(crate) after: After,
}

impl Delivery {
    /// Delivery of `response` to a client of `version` that keeps its connection as `after` says.
    pub(crate) fn of(response: &Response<'_, '_>, version: Version, after: After) -> Delivery {
        let framing = match (response.framing, version) {
            (Framing::Chunked | Framing::UntilClose, Version::Http11) => Framing::Chunked,
            (Framing::Chunked | Framing::UntilClose, Version::Http10) => Framing::UntilClose,
            (known, _) => known,
        };
        let after = if framing == Framing::UntilClose { After::Close } else { after };
        Delivery { framing, after }
    }
}

/// Writes the head of `response` as a client of `version` gets it.
pub(crate) fn response(
    response: &Response<'_, '_>,
    version: Version,
    delivery: Delivery,
    out: &mut Buf,
) {
    status_line(response, out);
    copy_passing(response, out);
    out.extend(b"\r\nVia: 1.1 sekisho");
    match (delivery.framing, response.length) {
        // Without a body it says how long one would have been, except where it may not.
        (Framing::None, Some(length)) if response.status != 204 => {
            framing(Framing::Length(length), out);
        }
        (known, _) => framing(known, out),
    }
    let end: &[u8] = match (delivery.after, version) {
        (After::Keep, Version::Http11) => b"\r\n\r\n",
        (After::Keep, Version::Http10) => b"\r\nConnection: keep-alive\r\n\r\n",
        (After::Close, _) => b"\r\nConnection: close\r\n\r\n",
    };
    out.extend(end);
}

/// Writes the head of an informational response, which has neither framing nor connection.
pub(crate) fn informational(response: &Response<'_, '_>, out: &mut Buf) {
    status_line(response, out);
    copy_passing(response, out);
    out.extend(b"\r\n\r\n");
}

/// Writes the fields of a response that are for more than this hop.
fn copy_passing(response: &Response<'_, '_>, out: &mut Buf) {
    for header in response.fields {
        match field(header.name) {
            Field::Connection
            | Field::ContentLength
            | Field::TransferEncoding
            | Field::Upgrade
            | Field::HopByHop => {}
            _ if response.drops_more && is_named(response.fields, header.name) => {}
            _ => copy(header, out),
        }
    }
}

fn status_line(response: &Response<'_, '_>, out: &mut Buf) {
    out.extend(b"HTTP/1.1 ");
    out.extend_number(u64::from(response.status));
    out.extend(b" ");
    out.extend(response.reason.as_bytes());
}

fn copy(header: &httparse::Header<'_>, out: &mut Buf) {
    out.extend(b"\r\n");
    out.extend(header.name.as_bytes());
    out.extend(b": ");
    out.extend(header.value);
}

fn framing(framing: Framing, out: &mut Buf) {
    match framing {
        Framing::Length(length) => {
            out.extend(b"\r\nContent-Length: ");
            out.extend_number(length);
        }
        Framing::Chunked => out.extend(b"\r\nTransfer-Encoding: chunked"),
        Framing::None | Framing::UntilClose => {}
    }
}

/// True if Connection names this field. To be looked up only if it names anything unusual at all.
fn is_named(fields: &[httparse::Header<'_>], name: &str) -> bool {
    fields
        .iter()
        .filter(|header| field(header.name) == Field::Connection)
        .flat_map(|header| list(header.value))
        .any(|option| option.eq_ignore_ascii_case(name.as_bytes()))
}

/// Writes the size of a chunk.
pub(crate) fn chunk_size(len: usize, out: &mut Buf) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut line = [0; 18];
    let mut at = 16;
    line[16..].copy_from_slice(b"\r\n");
    let mut rest = len;
    loop {
        at -= 1;
        line[at] = DIGITS[rest % 16];
        rest /= 16;
        if rest == 0 {
            break;
        }
    }
    out.extend(&line[at..]);
}

/// End of a chunked body.
pub(crate) const CHUNK_LAST: &[u8] = b"0\r\n\r\n";

/// Most that a chunk costs beyond its content [B]: 16 digits and two line ends.
pub(crate) const CHUNK_EXTRA: usize = 20;

#[cfg(test)]
mod tests {
    use super::super::message::{Asked, room};
    use super::*;

    fn forward(head: &str, forwarded: Forwarded, after: After) -> String {
        let (mut room, mut out) = (room(), Buf::new(64, 4096));
        let parsed = Request::parse(head.as_bytes(), &mut room).unwrap();
        let from = Origin::new("192.0.2.7".parse().unwrap(), "http");
        request(&parsed, &from, forwarded, after, &mut out);
        String::from_utf8(out.filled().to_vec()).unwrap()
    }

    fn back(head: &str, asked: Asked, version: Version, after: After) -> String {
        let (mut room, mut out) = (room(), Buf::new(64, 4096));
        let parsed = Response::parse(head.as_bytes(), asked, &mut room).unwrap();
        response(&parsed, version, Delivery::of(&parsed, version, after), &mut out);
        String::from_utf8(out.filled().to_vec()).unwrap()
    }

    #[test]
    fn a_request_loses_what_is_for_this_hop_and_gains_where_it_came_from() {
        let head = "POST /a HTTP/1.1\r\nHost: h:8\r\nConnection: X-Mine, te\r\nX-Mine: 1\r\n\
            Accept: */*\r\nTE: trailers\r\nKeep-Alive: 5\r\nTrailer: X\r\nContent-Length: 03\r\n\
            Proxy-Connection: x\r\nExpect: 100-continue\r\nX-Forwarded-For: 9.9.9.9\r\n\
            Forwarded: for=evil\r\n\r\n";
        assert_eq!(
            forward(head, Forwarded::Replace, After::Keep),
            "POST /a HTTP/1.1\r\nHost: h:8\r\nAccept: */*\r\nX-Forwarded-For: 192.0.2.7\r\n\
             X-Forwarded-Proto: http\r\nX-Forwarded-Host: h:8\r\n\
             Forwarded: for=192.0.2.7;host=\"h:8\";proto=http\r\n\
             Via: 1.1 sekisho\r\nContent-Length: 3\r\n\r\n"
        );
    }

    #[test]
    fn behind_a_trusted_proxy_its_fields_are_added_to() {
        let head = "GET http://h/ HTTP/1.0\r\nX-Forwarded-For: 1.1.1.1\r\n\
            X-Forwarded-For: 2.2.2.2\r\nX-Forwarded-Proto: https\r\nForwarded: for=1.1.1.1\r\n\
            X-Forwarded-Host: w\r\nVia: 1.1 front\r\n\r\n";
        assert_eq!(
            forward(head, Forwarded::Append, After::Close),
            "GET / HTTP/1.1\r\nHost: h\r\nVia: 1.1 front\r\n\
             X-Forwarded-For: 1.1.1.1, 2.2.2.2, 192.0.2.7\r\nX-Forwarded-Proto: https\r\n\
             X-Forwarded-Host: w\r\nForwarded: for=1.1.1.1, for=192.0.2.7;host=\"h\";proto=http\r\n\
             Via: 1.0 sekisho\r\nConnection: close\r\n\r\n"
        );
        let v6 = Origin::new("2001:db8::1".parse().unwrap(), "https");
        assert_eq!((v6.address.as_str(), v6.node.as_str()), ("2001:db8::1", "\"[2001:db8::1]\""));
        let mapped = Origin::new("::ffff:192.0.2.1".parse().unwrap(), "https");
        assert_eq!(mapped.node, "192.0.2.1");
    }

    #[test]
    fn a_response_is_framed_for_its_client() {
        use Version::{Http10, Http11};
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: X\r\nX: 1\r\n\
            Server: s\r\n\r\n";
        assert_eq!(
            back(chunked, Asked::Other, Http11, After::Keep),
            "HTTP/1.1 200 OK\r\nServer: s\r\nVia: 1.1 sekisho\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
        assert_eq!(
            back(chunked, Asked::Other, Http10, After::Keep),
            "HTTP/1.1 200 OK\r\nServer: s\r\nVia: 1.1 sekisho\r\nConnection: close\r\n\r\n"
        );
        let sized = "HTTP/1.1 404 Not Found\r\nContent-Length: 12\r\n\r\n";
        assert_eq!(
            back(sized, Asked::Head, Http10, After::Keep),
            "HTTP/1.1 404 Not Found\r\nVia: 1.1 sekisho\r\nContent-Length: 12\r\n\
             Connection: keep-alive\r\n\r\n"
        );
        let open = "HTTP/1.0 200 OK\r\n\r\n";
        assert_eq!(
            back(open, Asked::Other, Http11, After::Close),
            "HTTP/1.1 200 OK\r\nVia: 1.1 sekisho\r\nTransfer-Encoding: chunked\r\n\
             Connection: close\r\n\r\n"
        );
        let none = "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(
            back(none, Asked::Other, Http11, After::Keep),
            "HTTP/1.1 204 No Content\r\nVia: 1.1 sekisho\r\n\r\n"
        );
    }

    #[test]
    fn chunk_sizes_are_hexadecimal() {
        for len in [0, 1, 9, 10, 255, 4096, usize::MAX] {
            let mut out = Buf::new(4, 64);
            chunk_size(len, &mut out);
            assert_eq!(out.filled(), format!("{len:x}\r\n").as_bytes());
            assert!(out.len() + 2 <= CHUNK_EXTRA);
        }
    }
}
