//! One request of a webhook: an address that is permitted, a connection, a POST with its signature, an answer.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use load::{Reach, resolve};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::signature::Secret;
use crate::unsent::Unsent;

/// A webhook that was checked.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    uri: Uri,
    host: String,
    port: u16,
    is_tls: bool,
    reach: Reach,
    secret: Option<Secret>,
}

/// Bytes of an answer that are read.
const ANSWER_MAX: usize = 64 << 10;

impl Target {
    /// The webhook of a URL.
    pub(crate) fn read(url: &str, reach: Reach, secret: Option<Secret>) -> Result<Target, String> {
        let uri: Uri = url.parse().map_err(|error| format!("`{url}` is no URL: {error}"))?;
        let host = uri.host().ok_or_else(|| format!("`{url}` names no host"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let is_tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        Ok(Target { host, port, is_tls, reach, secret, uri })
    }

    /// An error if it may not be reached, as far as that is known now: an address may change, so that it is
    /// asked again before each connection.
    pub(crate) fn check(&self) -> Result<(), load::ReachError> {
        resolve(&self.host, self.port, self.reach).map(drop)
    }

    /// Sends a notification. The cause if it did not arrive, for a person.
    pub(crate) async fn send(&self, key: &str, body: Bytes) -> Result<(), Unsent> {
        let (host, port, reach) = (self.host.clone(), self.port, self.reach);
        // A name is asked of the system, which blocks; an address is not.
        let addresses = match host.parse::<IpAddr>() {
            Ok(_) => resolve(&host, port, reach),
            Err(_) => {
                let asked = tokio::task::spawn_blocking(move || resolve(&host, port, reach)).await;
                asked.map_err(|error| error.to_string())?
            }
        };
        let addresses = addresses.map_err(|error| error.to_string())?;
        let stream = TcpStream::connect(&addresses[..]).await;
        let stream = stream.map_err(|error| format!("cannot connect: {error}"))?;
        stream.set_nodelay(true).ok();
        if !self.is_tls {
            return self.exchange(stream, key, body).await;
        }
        let name = ServerName::try_from(self.host.clone());
        let name = name.map_err(|error| format!("no name for a certificate: {error}"))?;
        let connector = TlsConnector::from(tls()?);
        let stream = connector.connect(name, stream).await;
        self.exchange(stream.map_err(|error| format!("TLS: {error}"))?, key, body).await
    }

    async fn exchange(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        key: &str,
        body: Bytes,
    ) -> Result<(), Unsent> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| format!("no HTTP: {error}"))?;
        let connection = tokio::spawn(connection);
        let request = self.request(key, body)?;
        let exchanged = async {
            let answer = sender.send_request(request).await;
            let answer = answer.map_err(|error| format!("no answer: {error}"))?;
            let status = answer.status();
            // What it says more is read, up to a bound, so that its side closes in order.
            Limited::new(answer.into_body(), ANSWER_MAX).collect().await.ok();
            judged(status)
        }
        .await;
        connection.abort();
        exchanged
    }

    fn request(&self, key: &str, body: Bytes) -> Result<Request<Full<Bytes>>, String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let path = self.uri.path_and_query().map_or("/", |path| path.as_str());
        let authority = self.uri.authority().map_or("", |it| it.as_str());
        // A password of a URL is no part of a host.
        let host = authority.rsplit('@').next().unwrap_or_default();
        let mut request = Request::post(path)
            .header(HOST, host)
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .header("webhook-id", key)
            .header("webhook-timestamp", now);
        if let Some(secret) = &self.secret {
            request = request.header("webhook-signature", secret.sign(key, now, &body));
        }
        request.body(Full::new(body)).map_err(|error| error.to_string())
    }
}

/// The end of a delivery by its answer. Most of 4xx say that this notification is refused, and would be again; some speak
/// of the destination (who asks, where) or of the moment, and are tried again as if nobody had answered.
fn judged(status: StatusCode) -> Result<(), Unsent> {
    let is_of_others = matches!(status.as_u16(), 401 | 403 | 404 | 407 | 408 | 421 | 425 | 429);
    let is_final = status.is_client_error() && !is_of_others;
    match status.is_success() {
        true => Ok(()),
        false => Err(Unsent { cause: format!("answered {}", status.as_u16()), is_final }),
    }
}

/// The certificates of the machine, read once.
fn tls() -> Result<Arc<rustls::ClientConfig>, String> {
    static CONFIG: OnceLock<Arc<rustls::ClientConfig>> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(config.clone());
    }
    let mut roots = rustls::RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        return Err("this machine has no certificates of authorities".to_owned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| io::Error::other(error).to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(CONFIG.get_or_init(|| Arc::new(config)).clone())
}

#[cfg(test)]
mod tests {
    use hyper::StatusCode;

    use super::judged;

    #[test]
    fn a_refusal_is_told_from_a_destination_that_is_not_well() {
        let told = |status: u16| {
            judged(StatusCode::from_u16(status).unwrap()).map_err(|unsent| unsent.is_final)
        };
        for status in [200, 202, 204, 299] {
            assert_eq!(told(status), Ok(()), "{status}");
        }
        for status in [400, 405, 406, 409, 410, 411, 413, 414, 415, 422, 431, 451] {
            assert_eq!(told(status), Err(true), "{status}");
        }
        // Redirections are not followed: a target is the operator's.
        for status in [301, 308, 401, 403, 404, 407, 408, 421, 425, 429, 500, 502, 503, 507] {
            assert_eq!(told(status), Err(false), "{status}");
        }
    }
}
