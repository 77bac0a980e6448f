//! The way of a client verb to its server: TLS, and the header that names the user.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use cli::Failure;
use cli::request::access_token;
use cli::text::shell_word;
use ureq::config::ConfigBuilder;
use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::typestate::AgentScope;

/// The server that is asked, as arguments and environment name it.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// The option that names the server, such as `--server`.
    pub option: &'a str,
    /// The server: a URL, or HOST:PORT.
    pub server: &'a str,
    /// The file whose first line is an access token.
    pub access_token_file: Option<&'a Path>,
    /// The variable of the environment that has one where no file is named.
    pub variable: &'a str,
    /// The certificate of the authority that signed the server's; left out, those of this machine.
    pub ca: Option<&'a Path>,
}

/// A way to a server.
pub struct Way {
    /// The client of HTTP.
    pub agent: ureq::Agent,
    /// The URL of the server, without a slash at its end.
    pub url: String,
    /// The header `Authorization`, if there is an access token.
    pub authorization: Option<String>,
}

/// Tells whether an address is of this machine. It is read as the client reads it that connects: what stands before
/// an @ (`localhost:80@elsewhere`) is a user and no host.
fn is_loopback(url: &str) -> bool {
    let Ok(url) = url.parse::<Uri>() else { return false };
    let host = url.host().unwrap_or_default();
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host == "localhost" || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// TLS that trusts one authority, or those of this machine.
fn encryption(ca: Option<&Path>) -> Result<TlsConfig, Failure> {
    let found = match ca {
        Some(file) => tls::certificates(file).map_err(Failure::usage)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    if found.is_empty() {
        let none = "no certificate of an authority is known; name it with `--ca FILE`";
        return Err(Failure::Usage(none.to_owned()));
    }
    let roots: Vec<Certificate<'static>> =
        found.iter().map(|one| Certificate::from_der(one).to_owned()).collect();
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .build())
}

impl Asked<'_> {
    /// The way to it. `config` has the times that the client waits; `example` is the server's usual address.
    ///
    /// # Errors
    /// The address is none, the access token or the authority cannot be read, or others could read the access token on its
    /// way.
    pub fn way(&self, config: ConfigBuilder<AgentScope>, example: &str) -> Result<Way, Failure> {
        let named = self.server.trim_end_matches('/');
        let url = if named.contains("://") { named.to_owned() } else { format!("http://{named}") };
        let is_tls = url.starts_with("https://");
        let (option, server) = (self.option, self.server);
        if !is_tls && !url.starts_with("http://") {
            return Err(Failure::Usage(format!(
                "`{option} {server}`: an address such as {example} or https://HOST:PORT is wanted"
            )));
        }
        let access_token = access_token(self.access_token_file, self.variable)?;
        if access_token.is_some() && !is_tls && !is_loopback(&url) {
            return Err(Failure::Usage(format!(
                "`{option} {server}` is of another machine and without TLS, so that others could read the \
                 access token on its way; use https://"
            )));
        }
        let mut config = config.http_status_as_error(false).proxy(None);
        if is_tls {
            config = config.tls_config(encryption(self.ca)?);
        }
        let authorization = access_token.map(|token| format!("Bearer {token}"));
        Ok(Way { agent: config.build().into(), url, authorization })
    }

    /// The options behind a command to type next, so that it asks as this one did.
    pub fn options(&self) -> String {
        let mut options = String::new();
        for (option, file) in [("--access-token-file", self.access_token_file), ("--ca", self.ca)] {
            if let Some(file) = file {
                options.push_str(&format!(" {option} {}", shell_word(file)));
            }
        }
        options
    }
}

impl Way {
    /// The failure of a request that has no answer; `start` is the command that starts a server.
    pub fn unanswered(&self, error: &ureq::Error, option: &str, start: &str) -> Failure {
        let url = &self.url;
        if error.to_string().contains("UnknownIssuer") {
            return Failure::Usage(format!(
                "{url}: {error}; `--ca FILE` names the authority that signed it"
            ));
        }
        Failure::Machine(format!(
            "{url}: {error}; is a server there? `{start}` starts one, `{option}` names it"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_token_leaves_this_machine_by_tls_alone() {
        let file = std::env::temp_dir().join(format!("access-token-{}", std::process::id()));
        std::fs::write(&file, "secret\n").unwrap();
        let way = |server: &str, access_token_file: Option<&Path>| {
            let variable = "SEKISHO_NO_SUCH_VARIABLE";
            let asked = Asked { option: "--server", server, access_token_file, variable, ca: None };
            asked.way(ureq::Agent::config_builder(), "http://127.0.0.1:1")
        };
        for server in [
            "http://127.0.0.1:1",
            "localhost:1",
            "http://[::1]:1/",
            "http://[::1]/",
            "http://[::1]",
            "http://localhost",
            "127.1.2.3:1",
        ] {
            let way = way(server, Some(&file)).unwrap_or_else(|_| panic!("{server}"));
            assert_eq!(way.authorization.as_deref(), Some("Bearer secret"));
        }
        for server in [
            "http://192.0.2.1:1",
            "db.internal:1",
            "http://localhost.evil.example:1",
            "http://evil.example?127.0.0.1:1",
            "http://127.0.0.1@evil.example:1",
            "http://localhost:80@evil.example",
            "http://[2001:db8::1]/",
        ] {
            let Err(Failure::Usage(told)) = way(server, Some(&file)) else { panic!("{server}") };
            assert!(told.contains("use https://"), "{told}");
            assert!(way(server, None).is_ok(), "{server}: no token, no harm");
        }
        let Err(Failure::Usage(told)) = way("ftp://127.0.0.1", None) else { panic!("no HTTP") };
        assert!(told.contains("such as http://127.0.0.1:1"), "{told}");
        std::fs::remove_file(file).unwrap();
    }
}
