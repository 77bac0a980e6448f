//! Permission to connect to an address: the one decision that stands before every first connection
//! of whatever presses a server, changes it, or is put in front of one.
//!
//! It is asked of every address that a name has resolved to, and these addresses are the ones that
//! are connected to afterwards: a name is not looked up a second time, when it might say another.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};

use thiserror::Error;

/// Range of addresses that load may go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// To loopback, link-local and private addresses only: load that goes astray is an attack.
    #[default]
    Private,
    /// Anywhere: the user owns the target, and has said so.
    Anywhere,
}

/// Why a connection may not begin.
#[derive(Debug, Error)]
pub enum ReachError {
    /// The name leads nowhere.
    #[error("the host `{host}` cannot be resolved: {error}")]
    Unresolved {
        /// The host.
        host: String,
        /// Why.
        error: io::Error,
    },
    /// The name leads to a public address.
    #[error("`{host}` leads to {address}, which is neither loopback nor private")]
    Public {
        /// The host.
        host: String,
        /// The address.
        address: IpAddr,
    },
}

/// Every address of a name, in the resolver's order, each of them allowed.
///
/// # Errors
/// If it has none, or one of them is out of reach.
pub fn resolve(host: &str, port: u16, reach: Reach) -> Result<Vec<SocketAddr>, ReachError> {
    let unresolved = |error| ReachError::Unresolved { host: host.to_owned(), error };
    let mut addresses = Vec::new();
    for address in (host, port).to_socket_addrs().map_err(unresolved)? {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        return Err(unresolved(io::Error::other("it has no address")));
    }
    judge(host, addresses.iter().map(SocketAddr::ip), reach)?;
    Ok(addresses)
}

/// The decision itself: each of the addresses of a name must be allowed.
///
/// # Errors
/// The first that is not.
pub fn judge(
    host: &str,
    addresses: impl IntoIterator<Item = IpAddr>,
    reach: Reach,
) -> Result<(), ReachError> {
    let mut addresses = addresses.into_iter();
    match addresses.find(|address| reach == Reach::Private && !is_private(*address)) {
        Some(address) => Err(ReachError::Public { host: host.to_owned(), address }),
        None => Ok(()),
    }
}

/// Loopback, this host (0.0.0.0 and ::), link-local (RFC 3927, 4291) and private (RFC 1918, 4193).
///
/// Addresses that a provider shares among its customers (100.64.0.0/10, RFC 6598) are not: others may
/// be behind them. Nor are those that carry an IPv4 address to a translator or a tunnel (64:ff9b::/96,
/// 2002::/16); one that is mapped (::ffff:0:0/96) is what it carries.
fn is_private(address: IpAddr) -> bool {
    let private_v4 = |v4: Ipv4Addr| {
        v4.is_loopback() || v4.is_private() || v4.is_link_local() || v4.is_unspecified()
    };
    match address {
        IpAddr::V4(v4) => private_v4(v4),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => private_v4(v4),
            None => {
                v6.is_loopback()
                    || v6.is_unspecified()
                    || v6.is_unique_local()
                    || v6.is_unicast_link_local()
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Asks the decision alone: nothing is looked up, nothing connected to.
    #[test]
    fn what_is_not_surely_ones_own_must_be_asked_for() {
        let own = [
            "127.0.0.1",
            "127.255.255.254",
            "0.0.0.0",
            "10.0.0.1",
            "10.255.255.255",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.0.1",
            "169.254.1.1",
            "::1",
            "::",
            "fc00::1",
            "fdff::1",
            "fe80::1",
            "febf::1",
            "::ffff:127.0.0.1",
            "::ffff:10.1.2.3",
            "::ffff:192.168.1.1",
        ];
        let others = [
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "172.15.255.255",
            "172.32.0.1",
            "192.167.1.1",
            "192.169.0.1",
            "169.253.1.1",
            "100.64.0.1",
            "100.127.255.254",
            "0.0.0.1",
            "198.18.0.1",
            "203.0.113.1",
            "224.0.0.1",
            "255.255.255.255",
            "2001:4860:4860::8888",
            "2001:db8::1",
            "fbff::1",
            "fe00::1",
            "fec0::1",
            "ff02::1",
            "::ffff:8.8.8.8",
            "::ffff:100.64.0.1",
            "::127.0.0.1",
            "::8.8.8.8",
            "64:ff9b::7f00:1",
            "2002:7f00:1::1",
        ];
        for address in own {
            assert!(judge("name", [ip(address)], Reach::Private).is_ok(), "{address}");
        }
        for address in others {
            let refused = judge("name", [ip(address)], Reach::Private).unwrap_err().to_string();
            let says = format!("`name` leads to {}, which is neither", ip(address));
            assert!(refused.contains(&says), "{refused}");
            assert!(judge("name", [ip(address)], Reach::Anywhere).is_ok(), "{address}");
        }
    }

    #[test]
    fn one_address_of_a_name_that_is_public_is_enough() {
        let both = ["127.0.0.1", "203.0.113.7", "10.0.0.1"].map(ip);
        let refused = judge("name", both, Reach::Private).unwrap_err();
        assert!(matches!(refused, ReachError::Public { address, .. } if address == both[1]));
    }

    #[test]
    fn what_was_judged_is_what_is_connected_to() {
        let found = resolve("127.0.0.1", 80, Reach::Private).unwrap();
        assert_eq!(found, [SocketAddr::from(([127, 0, 0, 1], 80))]);
        assert!(
            resolve("localhost", 80, Reach::Private)
                .unwrap()
                .iter()
                .all(|at| at.ip().is_loopback())
        );
        let public = resolve("203.0.113.7", 80, Reach::Private);
        assert!(matches!(public, Err(ReachError::Public { .. })), "a number is not looked up");
    }
}
