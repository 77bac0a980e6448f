//! Authentication: [`Check`] asks clients who they are, [`Login`] proves it to servers.
//!
//! Both are state machines: the body of a message in, messages and an outcome out. A client that
//! proves itself with SCRAM leaves the [`Keys`] of its password behind, with which the gate can log
//! in as this user at a server that stores the same secret, without ever knowing the password.

mod certificate;
mod check;
mod keys;
mod login;
mod scram;

pub use certificate::common_name;
pub use check::{Check, CheckError, Checked, Method};
pub use keys::{ITERATIONS, Keys, Verifier, VerifierError};
pub(crate) use keys::{Md5Hash, digits, hmac, md5_said, md5_stored};
pub use login::{Cleartext, ITERATIONS_MAX, Login, LoginError, LoginStep, Terms};
pub use scram::ScramError;

/// Chance for one exchange; the caller draws it anew for each.
pub type Nonce = [u8; 18];

/// Channel binding of an exchange to its TLS connection: the hash of the server's certificate, as
/// `tls-server-end-point` (RFC 5929) has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Binding {
    /// Nothing: there is no TLS, or no binding is wanted.
    #[default]
    Absent,
    /// This hash.
    EndPoint(Vec<u8>),
}

/// With what the gate can log in at a server.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// With nothing: only where the server asks for nothing.
    Nothing,
    /// With a password: everywhere.
    Password(Vec<u8>),
    /// With the hash that is stored for MD5, of 32 hexadecimal digits: where the server asks for MD5.
    Md5([u8; 32]),
    /// With the keys of a password: where the server stores the same SCRAM secret.
    Keys(Keys),
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Credential::Nothing => "Nothing",
            Credential::Password(_) => "Password(***)",
            Credential::Md5(_) => "Md5(***)",
            Credential::Keys(_) => "Keys(***)",
        })
    }
}
