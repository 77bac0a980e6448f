//! Target of the load: a URL, where it leads, and whether load may go there.

use std::fmt;
use std::net::SocketAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use thiserror::Error;

use crate::reach::{Reach, ReachError, resolve};

/// Scheme of the target's URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Plain HTTP.
    Http,
    /// HTTP over TLS.
    Https,
}

/// A URL that load may go to, resolved.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    pub(crate) scheme: Scheme,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The path with its query, beginning with a slash.
    pub(crate) path: String,
    pub(crate) addresses: Vec<SocketAddr>,
    /// The value of the Authorization header, if the URL had a user.
    pub(crate) authorization: Option<String>,
}

/// Why a URL is no target.
#[derive(Debug, Error)]
pub enum TargetError {
    /// It has no scheme, or another one.
    #[error("`{0}` does not begin with http:// or https://")]
    Scheme(
        /// The URL, without user and password.
        String,
    ),
    /// It names no host.
    #[error("`{0}` names no host; write for example http://127.0.0.1:8080/")]
    Host(
        /// The URL, without user and password.
        String,
    ),
    /// The port is no number from 1 to 65535.
    #[error("the port `{0}` is not a number from 1 to 65535")]
    Port(
        /// The port as it stands there.
        String,
    ),
    /// A character that cannot be sent.
    #[error("the URL holds {0:?}: write it percent-encoded")]
    Character(
        /// The character.
        char,
    ),
    /// The name leads nowhere, or where load may not go.
    #[error(transparent)]
    Reach(
        /// Reason that its address is refused.
        #[from]
        ReachError,
    ),
}

impl Target {
    /// Reads a URL and resolves its host.
    ///
    /// A user and a password in it are sent as basic authorization, and are in nothing that is
    /// recorded or printed.
    ///
    /// # Errors
    /// If it is no http or https URL, does not resolve, or leads where load may not go: each of its
    /// addresses must be allowed.
    pub fn parse(url: &str, reach: Reach) -> Result<Target, TargetError> {
        let (scheme, rest) = split_scheme(url)?;
        let rest = rest.split('#').next().unwrap_or(rest);
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (user, place) = match authority.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, authority),
        };
        let no_host = || TargetError::Host(without_user(url));
        let (host, port) = split_port(place).ok_or_else(no_host)?;
        if host.is_empty() {
            return Err(no_host());
        }
        if let Some(odd) = place.chars().chain(path.chars()).find(|c| !c.is_ascii_graphic()) {
            return Err(TargetError::Character(odd));
        }
        let port = match port {
            Some(port) => match port.parse() {
                Ok(port) if port > 0 => port,
                _ => return Err(TargetError::Port(port.to_owned())),
            },
            None if scheme == Scheme::Http => 80,
            None => 443,
        };
        let addresses = resolve(host, port, reach)?;
        Ok(Target {
            scheme,
            host: host.to_owned(),
            port,
            path: if path.starts_with('/') { path.to_owned() } else { format!("/{path}") },
            addresses,
            authorization: user
                .map(|user| format!("Basic {}", BASE64.encode(percent_decoded(user)))),
        })
    }

    /// The URL without user and password.
    pub fn url(&self) -> String {
        self.url_of(&self.path)
    }

    /// Scheme of its URL.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Addresses that it leads to.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Its path with the query, beginning with a slash.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The path of something below its own: its query is left at the end.
    pub fn path_below(&self, name: &str) -> String {
        let (path, query) = self.path.split_at(self.path.find('?').unwrap_or(self.path.len()));
        format!("{}/{}{query}", path.trim_end_matches('/'), name.trim_start_matches('/'))
    }

    /// True if another URL is at the same server: its scheme, host and port are the same.
    pub fn is_beside(&self, other: &Target) -> bool {
        (self.scheme, self.port) == (other.scheme, other.port)
            && self.host.eq_ignore_ascii_case(&other.host)
    }

    /// The URL of another path at the same server, without user and password.
    pub fn url_of(&self, path: &str) -> String {
        let scheme = if self.scheme == Scheme::Http { "http" } else { "https" };
        format!("{scheme}://{}{path}", self.authority())
    }

    /// The value of the Host header: the port only where it is not the scheme's own.
    pub(crate) fn authority(&self) -> String {
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let default = if self.scheme == Scheme::Http { 80 } else { 443 };
        if self.port == default { host } else { format!("{host}:{}", self.port) }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("url", &self.url()).finish_non_exhaustive()
    }
}

fn split_scheme(url: &str) -> Result<(Scheme, &str), TargetError> {
    let wrong = || TargetError::Scheme(without_user(url));
    let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
    if scheme.eq_ignore_ascii_case("http") {
        Ok((Scheme::Http, rest))
    } else if scheme.eq_ignore_ascii_case("https") {
        Ok((Scheme::Https, rest))
    } else {
        Err(wrong())
    }
}

/// Host and port; IPv6 addresses stand in brackets.
fn split_port(place: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = place.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        return match rest.strip_prefix(':') {
            Some(port) => Some((host, Some(port))),
            None => rest.is_empty().then_some((host, None)),
        };
    }
    match place.split_once(':') {
        Some((host, port)) => Some((host, Some(port))),
        None => Some((place, None)),
    }
}

/// For messages: whatever stands before an `@` of the authority may be a secret.
fn without_user(url: &str) -> String {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    match url[start..end].rfind('@') {
        Some(at) => format!("{}{}", &url[..start], &url[start + at + 1..]),
        None => url.to_owned(),
    }
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = (bytes[at] == b'%')
            .then(|| text.get(at + 1..at + 3))
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(escaped.unwrap_or(bytes[at]));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Target, TargetError> {
        Target::parse(url, Reach::Private)
    }

    #[test]
    fn urls_are_read() {
        for (url, authority, path) in [
            ("http://127.0.0.1", "127.0.0.1", "/"),
            ("http://127.0.0.1:80/a/b?c=d#e", "127.0.0.1", "/a/b?c=d"),
            ("HTTPS://127.0.0.1:8443?x", "127.0.0.1:8443", "/?x"),
            ("http://[::1]:8080/x", "[::1]:8080", "/x"),
            ("https://10.1.2.3:443/", "10.1.2.3", "/"),
        ] {
            let target = parse(url).unwrap();
            assert_eq!((target.authority().as_str(), target.path.as_str()), (authority, path));
        }
    }

    #[test]
    fn what_is_no_target_is_refused_with_its_cause() {
        for (url, says) in [
            ("127.0.0.1:80", "does not begin with http"),
            ("ftp://127.0.0.1/", "does not begin with http"),
            ("http:///x", "names no host"),
            ("http://:80/x", "names no host"),
            ("http://[::1/x", "names no host"),
            ("http://127.0.0.1:0/", "port `0`"),
            ("http://127.0.0.1:99999/", "port `99999`"),
            ("http://127.0.0.1/a b", "' '"),
            ("http://127.0.0.1/a\r\nX: y", "'\\r'"),
        ] {
            let error = parse(url).unwrap_err().to_string();
            assert!(error.contains(says), "{url:?}: {error}");
        }
    }

    #[test]
    fn load_goes_to_private_addresses_unless_told() {
        for public in ["8.8.8.8", "[2001:4860:4860::8888]", "[::ffff:8.8.8.8]", "172.32.0.1"] {
            let url = format!("http://{public}:8080/");
            let error = parse(&url).unwrap_err().to_string();
            assert!(error.contains("neither loopback nor private"), "{error}");
            assert!(
                error.contains(public.trim_matches(['[', ']'])),
                "it names the address: {error}"
            );
            assert!(Target::parse(&url, Reach::Anywhere).is_ok());
        }
        for private in ["192.168.1.1", "172.16.0.1", "[fd00::1]", "[fe80::1]", "[::ffff:10.0.0.1]"]
        {
            assert!(parse(&format!("http://{private}/")).is_ok(), "{private}");
        }
    }

    #[test]
    fn secrets_are_sent_but_never_shown() {
        let target = parse("http://me:p%40ss@127.0.0.1:8080/x").unwrap();
        assert_eq!(target.authorization.as_deref(), Some("Basic bWU6cEBzcw=="));
        assert_eq!(target.url(), "http://127.0.0.1:8080/x");
        assert!(!format!("{target:?}").contains("ss"));
        let error = parse("ftp://me:secret@127.0.0.1/x").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
