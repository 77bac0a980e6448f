//! One mail: an address of the mail server that is permitted, a connection, SMTP. The receivers are those of
//! the operator's file alone, whatever a notification holds.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use agents_rules::{Email, MailSecurity};
use lettre::message::Mailbox;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{
    AsyncSmtpConnection, Certificate, CertificateStore, TlsParameters,
};
use lettre::transport::smtp::extension::ClientId;
use lettre::{Address, Message};
use load::{Reach, resolve};
use serde_json::Value;
use tokio::time::timeout;

use crate::unsent::Unsent;

/// Time to say goodbye to a mail server that has taken a mail.
const QUIT_WITHIN: Duration = Duration::from_secs(5);
/// Most characters of a subject, beside the number of notifications.
const SUBJECT_MAX: usize = 120;
/// Answers that speak of the user and not of the mail: authentication is wanted, too weak or failed.
const OF_USER: [u16; 4] = [530, 534, 535, 538];

/// A mail destination that was checked.
pub(crate) struct Mail {
    host: String,
    port: u16,
    security: MailSecurity,
    tls: Option<TlsParameters>,
    hello: ClientId,
    from: Mailbox,
    to: Vec<Mailbox>,
    credentials: Option<Credentials>,
    reach: Reach,
}

impl Mail {
    /// The mails of a destination; `password` is that of its user.
    ///
    /// # Errors
    /// An address of a receiver that is none; an authority that cannot be read.
    pub(crate) fn new(
        email: &Email,
        reach: Reach,
        password: Option<String>,
    ) -> Result<Mail, String> {
        let mailbox = |text: &String| {
            let address: Address =
                text.parse().map_err(|error| format!("`{text}` is no address: {error}"))?;
            Ok::<Mailbox, String>(Mailbox::new(None, address))
        };
        let from = mailbox(&email.from)?;
        let hello = ClientId::Domain(from.email.domain().to_owned());
        let tls = match email.security {
            MailSecurity::Plain => None,
            MailSecurity::Tls | MailSecurity::StartTls => {
                Some(tls(&email.host, email.ca_file.as_deref())?)
            }
        };
        let credentials = email.user.clone().zip(password);
        Ok(Mail {
            host: email.host.clone(),
            port: email.port,
            security: email.security,
            tls,
            hello,
            from,
            to: email.to.iter().map(mailbox).collect::<Result<_, _>>()?,
            credentials: credentials.map(|(user, password)| Credentials::new(user, password)),
            reach,
        })
    }

    /// An error if the mail server may not be reached, as far as that is known now.
    pub(crate) fn check(&self) -> Result<(), load::ReachError> {
        resolve(&self.host, self.port, self.reach).map(drop)
    }

    /// Sends a notification, or a digest of several. The cause if it did not arrive, for a person.
    pub(crate) async fn send(&self, key: &str, payload: &[u8]) -> Result<(), Unsent> {
        let mail = self.mail(key, payload);
        let mail = mail.map_err(|cause| Unsent { cause, is_final: true })?;
        let mut connection = self.connect().await?;
        let sent = connection.send(mail.envelope(), &mail.formatted()).await;
        // What was taken is taken, however it ends.
        let end = async move { timeout(QUIT_WITHIN, connection.quit()).await };
        tokio::spawn(end);
        match sent {
            Ok(_) => Ok(()),
            Err(error) => {
                let code = error.status().map(u16::from);
                let is_of_user = code.is_some_and(|code| OF_USER.contains(&code));
                let is_final = error.is_permanent() && !is_of_user;
                Err(Unsent { cause: told(&error), is_final })
            }
        }
    }

    async fn connect(&self) -> Result<AsyncSmtpConnection, String> {
        let (host, port, reach) = (self.host.clone(), self.port, self.reach);
        // A name is asked of the system, which blocks.
        let asked = tokio::task::spawn_blocking(move || resolve(&host, port, reach)).await;
        let addresses = asked.map_err(|error| error.to_string())?;
        let addresses = addresses.map_err(|error| error.to_string())?;
        let is_elsewhere = |ip: IpAddr| !ip.to_canonical().is_loopback();
        if self.security == MailSecurity::Plain
            && self.credentials.is_some()
            && addresses.iter().any(|it| is_elsewhere(it.ip()))
        {
            let cause = "a password leaves this machine by TLS only: take `tls = \"none\"` away";
            return Err(cause.to_owned());
        }
        let at_once = self.tls.clone().filter(|_| self.security == MailSecurity::Tls);
        let connected =
            AsyncSmtpConnection::connect_tokio1(&addresses[..], None, &self.hello, at_once, None);
        let mut connection = connected.await.map_err(|error| told(&error))?;
        if let (Some(tls), MailSecurity::StartTls) = (&self.tls, self.security) {
            let started = connection.starttls(tls.clone(), &self.hello).await;
            started.map_err(|error| told(&error))?;
        }
        if let Some(credentials) = &self.credentials {
            let mechanisms = [Mechanism::Plain, Mechanism::Login];
            let known = connection.auth(&mechanisms, credentials).await;
            known.map_err(|error| format!("its user: {}", told(&error)))?;
        }
        Ok(connection)
    }

    fn mail(&self, key: &str, payload: &[u8]) -> Result<Message, String> {
        let content: Value = serde_json::from_slice(payload).map_err(|error| error.to_string())?;
        let (subject, text) = match content["notifications"].as_array() {
            Some(all) => digest(&content, all),
            None => (subject_of(&content), paragraph(key, &content)),
        };
        let header = |name: &'static str, value: &str| {
            HeaderValue::new(HeaderName::new_from_ascii_str(name), value.to_owned())
        };
        let domain = self.from.email.domain();
        let mut mail = Message::builder()
            .from(self.from.clone())
            .subject(subject)
            // One that comes again is the same mail.
            .message_id(Some(format!("<{key}@{domain}>")))
            .raw_header(header("Auto-Submitted", "auto-generated"))
            .raw_header(header("Sekisho-Notification", key))
            .header(ContentType::TEXT_PLAIN);
        for one in &self.to {
            mail = mail.to(one.clone());
        }
        mail.body(text).map_err(|error| error.to_string())
    }
}

/// The parameters of TLS: the machine's authorities, or one that the file names.
fn tls(host: &str, ca_file: Option<&Path>) -> Result<TlsParameters, String> {
    let mut builder = TlsParameters::builder(host.to_owned());
    if let Some(path) = ca_file {
        let wrong = |cause: String| format!("`ca-file`: {}: {cause}", path.display());
        let pem = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        let authority = Certificate::from_pem(&pem).map_err(|error| wrong(told(&error)))?;
        builder = builder.certificate_store(CertificateStore::None).add_root_certificate(authority);
    }
    builder.build().map_err(|error| format!("TLS: {}", told(&error)))
}

/// An error with its causes.
fn told(error: &Error) -> String {
    let mut told = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(deeper) = cause {
        let more = deeper.to_string();
        if !told.ends_with(&more) {
            // Writing to a string does not fail.
            write!(told, ": {more}").ok();
        }
        cause = deeper.source();
    }
    told
}

/// A text of one line, without what a terminal or a header would take for more than text.
fn plain(text: &str, most: usize) -> String {
    text.chars().take(most).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn word(value: &Value) -> String {
    match value {
        Value::String(text) => plain(text, SUBJECT_MAX),
        Value::Null => "-".to_owned(),
        other => plain(&other.to_string(), SUBJECT_MAX),
    }
}

fn subject_of(content: &Value) -> String {
    plain(&format!("{}: {}", word(&content["rule"]), word(&content["agent"])), SUBJECT_MAX)
}

/// The subject and the text of a digest.
fn digest(content: &Value, all: &[Value]) -> (String, String) {
    let user = word(&content["user"]);
    let notifications = if all.len() == 1 { "notification" } else { "notifications" };
    let subject = plain(&format!("{} {notifications}: {user}", all.len()), SUBJECT_MAX);
    let paragraphs = all.iter().map(|one| paragraph(&word(&one["id"]), one));
    (subject, paragraphs.collect::<Vec<_>>().join("\r\n"))
}

/// A notification as a paragraph: what fired and when, the fields, the name.
fn paragraph(key: &str, content: &Value) -> String {
    let at = content["at_ns"].as_u64().unwrap_or(0);
    let at = std::time::UNIX_EPOCH + Duration::from_nanos(at);
    let (rule, agent) = (word(&content["rule"]), word(&content["agent"]));
    let message = word(&content["message"]);
    let mut text = format!(
        "{rule}: {agent}, by the message {message}, {}\r\n",
        humantime::format_rfc3339_millis(at)
    );
    for (name, value) in content["fields"].as_object().into_iter().flatten() {
        // Writing to a string does not fail.
        write!(text, "  {}: {}\r\n", plain(name, SUBJECT_MAX), word(value)).ok();
    }
    text + "  notification " + key + "\r\n"
}
