//! Authentication and encryption, as a configuration has them.

use serde::{Deserialize, Serialize};

/// Authentication: who may come in, and how it is proven.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Auth {
    /// The proof that clients give of who they are.
    pub method: Method,
    /// Users and their secrets, as `userlist.txt` has them.
    pub users_file: Option<String>,
    /// The rules for who may come from where, as `pg_hba.conf` has them.
    pub hba_file: Option<String>,
    /// The map from names of the system or of certificates to users, as `pg_ident.conf` has it.
    pub ident_file: Option<String>,
    /// User as whom secrets that stand in no file are looked up; left out, none are.
    pub query_user: Option<String>,
    /// The query then: `$1` is the user, the row has a name and a secret.
    pub query: String,
    /// Database of that query, by its name here; left out, the one that the client asks for.
    pub query_database: Option<String>,
    /// Iterations of SCRAM secrets that are made here of passwords.
    pub scram_iterations: u32,
    /// True if clients of other machines are believed without a proof.
    pub trust_remote: bool,
}

impl Default for Auth {
    fn default() -> Auth {
        Auth {
            method: Method::ScramSha256,
            users_file: None,
            hba_file: None,
            ident_file: None,
            query_user: None,
            query: "SELECT rolname, CASE WHEN rolvaliduntil < pg_catalog.now() THEN NULL \
                    ELSE rolpassword END FROM pg_catalog.pg_authid WHERE rolname = $1 \
                    AND rolcanlogin"
                .into(),
            query_database: None,
            scram_iterations: 4096,
            trust_remote: false,
        }
    }
}

/// A proof of who a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Every name is believed, if the user is known.
    Trust,
    /// Every name is believed and none counts: all databases have a forced user.
    Any,
    /// A password in clear text.
    Plain,
    /// PostgreSQL's older hash; SCRAM for those who have a SCRAM secret.
    Md5,
    /// SCRAM-SHA-256.
    #[serde(rename = "scram-sha-256")]
    ScramSha256,
    /// A certificate of the client.
    Cert,
    /// By the rules of the HBA file.
    Hba,
}

/// Encryption on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct BothTls {
    /// Towards clients; left out, its `mode` is `"disable"`.
    pub clients: Tls,
    /// Towards servers; left out, its `mode` is `"prefer"`.
    pub servers: Tls,
}

impl Default for BothTls {
    fn default() -> BothTls {
        let of =
            |mode| Tls { mode, cert: None, key: None, ca: None, min_version: oldest_version() };
        BothTls { clients: of(TlsMode::Disable), servers: of(TlsMode::Prefer) }
    }
}

/// Encryption on one side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::tls))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tls {
    /// The demand for it, and for a verified certificate.
    pub mode: TlsMode,
    /// Our certificate and its chain, PEM.
    pub cert: Option<String>,
    /// Its private key, PEM.
    pub key: Option<String>,
    /// The certificate authorities of the other side, PEM.
    pub ca: Option<String>,
    /// The oldest version that is spoken; left out, 1.2.
    #[serde(default = "oldest_version")]
    pub min_version: TlsVersion,
}

fn oldest_version() -> TlsVersion {
    TlsVersion::V12
}

/// The demand for encryption, and for a verified certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TlsMode {
    /// None.
    Disable,
    /// If the other side wishes.
    Allow,
    /// If the other side can.
    Prefer,
    /// Always; no certificate is verified.
    Require,
    /// Always; the certificate's signature is verified.
    VerifyCa,
    /// Always; signature and name are verified.
    VerifyFull,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum TlsVersion {
    /// 1.2
    #[serde(rename = "1.2")]
    V12,
    /// 1.3
    #[serde(rename = "1.3")]
    V13,
}
