//! The names of header fields that mean something to a proxy.

/// The fields that a proxy must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Connection,
    ContentLength,
    TransferEncoding,
    Host,
    Expect,
    Upgrade,
    MaxForwards,
    Forwarded,
    XForwardedFor,
    XForwardedHost,
    XForwardedProto,
    /// Means something to the next hop only.
    HopByHop,
    /// Looks to a CGI-like server as a field that this gate sets or judges.
    Disguised,
    Other,
}

/// Field of a name.
pub(crate) fn field(name: &str) -> Field {
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    match name.len() {
        2 if is("te") => Field::HopByHop,
        4 if is("host") => Field::Host,
        6 if is("expect") => Field::Expect,
        7 if is("upgrade") => Field::Upgrade,
        7 if is("trailer") => Field::HopByHop,
        9 if is("forwarded") => Field::Forwarded,
        10 if is("connection") => Field::Connection,
        10 if is("keep-alive") => Field::HopByHop,
        12 if is("max-forwards") => Field::MaxForwards,
        14 if is("content-length") => Field::ContentLength,
        14 if is("http2-settings") => Field::HopByHop,
        15 if is("x-forwarded-for") => Field::XForwardedFor,
        16 if is("x-forwarded-host") => Field::XForwardedHost,
        16 if is("proxy-connection") => Field::HopByHop,
        17 if is("transfer-encoding") => Field::TransferEncoding,
        17 if is("x-forwarded-proto") => Field::XForwardedProto,
        18 if is("proxy-authenticate") => Field::HopByHop,
        19 if is("proxy-authorization") => Field::HopByHop,
        14..=17 if name.contains('_') => disguised(name),
        _ => Field::Other,
    }
}

/// CGI, WSGI and their like turn `-` and `_` into the same letter, so `Content_Length` would reach
/// the application as a second Content-Length.
fn disguised(name: &str) -> Field {
    match field(&name.replace('_', "-")) {
        Field::Other => Field::Other,
        _ => Field::Disguised,
    }
}

/// The members of a comma-separated list.
pub(crate) fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_in_any_case_and_in_disguise() {
        assert_eq!(field("CONTENT-Length"), Field::ContentLength);
        assert_eq!(field("te"), Field::HopByHop);
        assert_eq!(field("X-Forwarded-For"), Field::XForwardedFor);
        for name in ["Content_Length", "transfer_encoding", "X-Forwarded_For"] {
            assert_eq!(field(name), Field::Disguised, "{name}");
        }
        for name in ["content-lengths", "x_request_id_of_me", "", "Te "] {
            assert_eq!(field(name), Field::Other, "{name}");
        }
    }

    #[test]
    fn lists_may_have_empty_members() {
        let members: Vec<&[u8]> = list(b" a,, b ,\t").collect();
        assert_eq!(members, [b"a", b"b"]);
    }
}
