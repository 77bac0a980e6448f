//! Destinations of a file: ways of notifications out of the server, and digests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use crate::file::{Read, Reader};
use crate::rules::{Delivered, Destination, Digest, Email, MailSecurity, StateField, Webhook};

/// Most receivers of a mail.
const RECEIVERS_MAX: usize = 100;
/// Longest window of a digest.
const WINDOW_MAX: Duration = Duration::from_secs(7 * 86_400);

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct DestinationEntry {
    webhook: Option<Spanned<String>>,
    log: Option<Spanned<String>>,
    email: Option<Spanned<String>>,
    tls: Option<Spanned<TlsEntry>>,
    from: Option<Spanned<String>>,
    to: Option<Spanned<Receivers>>,
    user: Option<Spanned<String>>,
    ca_file: Option<Spanned<String>>,
    secret_env: Option<Spanned<String>>,
    secret_file: Option<Spanned<String>>,
    slots: Option<Spanned<u32>>,
    timeout: Option<Spanned<String>>,
    give_up: Option<Spanned<String>>,
    digest: Option<Spanned<DigestEntry>>,
    #[serde(default)]
    public: bool,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum TlsEntry {
    None,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "an address such as \"ann@example.org\", or a list of such")]
enum Receivers {
    One(String),
    Several(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct DigestEntry {
    every: Spanned<String>,
    count: Option<Spanned<u32>>,
    by: Option<Spanned<String>>,
}

impl Reader<'_> {
    pub(crate) fn destinations(
        &self,
        entries: &BTreeMap<String, Spanned<DestinationEntry>>,
        state: &[StateField],
    ) -> Read<Vec<Destination>> {
        let mut all = Vec::new();
        let mut logs = BTreeSet::new();
        for (name, entry) in entries {
            let it = entry.get_ref();
            let to = self.way(name, entry)?;
            if let Delivered::Log(path) = &to
                && !logs.insert(path.clone())
            {
                return self.wrong(entry.span(), "two destinations write to one file");
            }
            let slots = it.slots.as_ref().map_or(4, |slots| *slots.get_ref());
            if !(1..=1_000).contains(&slots) {
                let span = it.slots.as_ref().map_or(entry.span(), Spanned::span);
                return self.wrong(span, "a destination has 1 to 1,000 slots");
            }
            let span = |text: &Option<Spanned<String>>, usual: u64| match text {
                Some(text) => self.span(text),
                None => Ok(Duration::from_secs(usual)),
            };
            all.push(Destination {
                name: name.clone(),
                to,
                slots,
                timeout: span(&it.timeout, 10)?,
                give_up: span(&it.give_up, 86_400)?,
                digest: it.digest.as_ref().map(|it| self.digest(it, state)).transpose()?,
            });
        }
        Ok(all)
    }

    fn way(&self, name: &str, entry: &Spanned<DestinationEntry>) -> Read<Delivered> {
        let it = entry.get_ref();
        if let (Some(_), Some(file)) = (&it.secret_env, &it.secret_file) {
            return self.wrong(file.span(), "there is one secret: `secret-env` or `secret-file`");
        }
        if it.email.is_none() {
            self.no_key_of_mail(it)?;
        }
        let (secret_env, secret_file) = it.secret();
        match (&it.webhook, &it.log, &it.email) {
            (Some(url), None, None) => {
                if !["http://", "https://"].iter().any(|scheme| url.get_ref().starts_with(scheme)) {
                    return self.wrong(url.span(), "a URL begins with http:// or https://");
                }
                let (url, public) = (url.get_ref().clone(), it.public);
                Ok(Delivered::Webhook(Webhook { url, secret_env, secret_file, public }))
            }
            (None, Some(path), None) => {
                let path = path.get_ref();
                Ok(Delivered::Log((path != "-").then(|| PathBuf::from(path))))
            }
            (None, None, Some(server)) => self.email(entry, server).map(Delivered::Email),
            _ => self.wrong(
                entry.span(),
                &format!(
                    "`{name}` needs one way: `webhook = \"http://...\"`, `email = \"smtps://...\"` \
                     or `log = \"FILE\"`"
                ),
            ),
        }
    }

    /// An error for a key that only mails have.
    fn no_key_of_mail(&self, it: &DestinationEntry) -> Read<()> {
        let own = [
            ("tls", it.tls.as_ref().map(Spanned::span)),
            ("from", it.from.as_ref().map(Spanned::span)),
            ("to", it.to.as_ref().map(Spanned::span)),
            ("user", it.user.as_ref().map(Spanned::span)),
            ("ca-file", it.ca_file.as_ref().map(Spanned::span)),
        ];
        match own.into_iter().find_map(|(key, span)| Some((key, span?))) {
            Some((key, span)) => {
                self.wrong(span, &format!("`{key}` is for mails: `email = \"smtps://...\"`"))
            }
            None => Ok(()),
        }
    }

    fn email(&self, entry: &Spanned<DestinationEntry>, server: &Spanned<String>) -> Read<Email> {
        let it = entry.get_ref();
        let (security, host, port) = self.mail_server(server, it.tls.as_ref())?;
        let Some(from) = &it.from else {
            return self
                .wrong(entry.span(), "a mail needs a sender: `from = \"alerts@example.org\"`");
        };
        self.mail_address(from.get_ref(), from)?;
        let Some(to) = &it.to else {
            return self
                .wrong(entry.span(), "a mail needs receivers: `to = [\"ann@example.org\"]`");
        };
        let receivers = match to.get_ref() {
            Receivers::One(one) => vec![one.clone()],
            Receivers::Several(all) => all.clone(),
        };
        if receivers.is_empty() || receivers.len() > RECEIVERS_MAX {
            return self.wrong(to.span(), "a mail has 1 to 100 receivers");
        }
        for one in &receivers {
            self.mail_address(one, to)?;
        }
        let (secret_env, secret_file) = it.secret();
        let has_secret = secret_env.is_some() || secret_file.is_some();
        match &it.user {
            Some(user) if !has_secret => {
                let cause = "a user needs a password: `secret-env` or `secret-file`";
                return self.wrong(user.span(), cause);
            }
            None if has_secret => {
                let cause = "a secret of a mail server is a password: say whose, `user = \"NAME\"`";
                return self.wrong(entry.span(), cause);
            }
            _ => {}
        }
        Ok(Email {
            host,
            port,
            security,
            from: from.get_ref().clone(),
            to: receivers,
            user: it.user.as_ref().map(|it| it.get_ref().clone()),
            secret_env,
            secret_file,
            ca_file: it.ca_file.as_ref().map(|it| PathBuf::from(it.get_ref())),
            public: it.public,
        })
    }

    /// The protection, the host and the port of a mail server.
    fn mail_server(
        &self,
        server: &Spanned<String>,
        tls: Option<&Spanned<TlsEntry>>,
    ) -> Read<(MailSecurity, String, u16)> {
        let text = server.get_ref();
        let (security, usual, rest) = match (text.split_once("://"), tls) {
            (Some(("smtps", _)), Some(tls)) => {
                let cause = "`smtps://` is TLS: take `smtp://`, or leave `tls` out";
                return self.wrong(tls.span(), cause);
            }
            (Some(("smtps", rest)), None) => (MailSecurity::Tls, 465, rest),
            (Some(("smtp", rest)), None) => (MailSecurity::StartTls, 587, rest),
            (Some(("smtp", rest)), Some(_)) => (MailSecurity::Plain, 25, rest),
            _ => {
                let cause = "a mail server is `smtps://HOST` (TLS), or `smtp://HOST` (STARTTLS)";
                return self.wrong(server.span(), cause);
            }
        };
        let wrong = "after `smtp://` comes HOST or HOST:PORT; a user and a password have keys of \
                     their own";
        let (host, port) = match rest.strip_prefix('[').and_then(|it| it.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':').or(port.is_empty().then_some(""))),
            None => match rest.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (rest, Some("")),
            },
        };
        let is_host = !host.is_empty()
            && host.chars().all(|c| c.is_ascii_alphanumeric() || ".-_:".contains(c));
        let port = match port {
            Some("") if !rest.ends_with(':') => Some(usual),
            Some(digits) => digits.parse::<u16>().ok().filter(|port| *port > 0),
            None => None,
        };
        match (is_host, port) {
            (true, Some(port)) => Ok((security, host.to_owned(), port)),
            _ => self.wrong(server.span(), wrong),
        }
    }

    /// Finds what cannot be an address; its mail server alone knows the rest.
    fn mail_address<T>(&self, text: &str, place: &Spanned<T>) -> Read<()> {
        let is_one = text.len() <= 320
            && !text.chars().any(|c| c.is_control() || c == ',' || c == ';')
            && text.split_once('@').is_some_and(|(own, host)| !own.is_empty() && !host.is_empty());
        match is_one {
            true => Ok(()),
            false => {
                let shown: String = text.chars().take(60).collect();
                let cause = format!("`{shown}` is no address such as \"ann@example.org\"");
                self.wrong(place.span(), &cause)
            }
        }
    }

    fn digest(&self, entry: &Spanned<DigestEntry>, state: &[StateField]) -> Read<Digest> {
        let it = entry.get_ref();
        let every = self.span(&it.every)?;
        if every > WINDOW_MAX {
            return self.wrong(it.every.span(), "a digest waits for at most 7 days");
        }
        let count = it.count.as_ref().map_or(100, |count| *count.get_ref());
        if !(1..=1_000).contains(&count) {
            let span = it.count.as_ref().map_or(entry.span(), Spanned::span);
            return self.wrong(span, "a digest has 1 to 1,000 notifications");
        }
        let by = match &it.by {
            Some(by) => {
                self.named(by, "field", state.iter().map(|field| field.name.as_str()))?;
                Some(by.get_ref().clone())
            }
            None => None,
        };
        Ok(Digest { every, count, by })
    }
}

impl DestinationEntry {
    /// The variable and the file of its secret.
    fn secret(&self) -> (Option<String>, Option<PathBuf>) {
        let text = |it: &Option<Spanned<String>>| it.as_ref().map(|it| it.get_ref().clone());
        (text(&self.secret_env), text(&self.secret_file).map(PathBuf::from))
    }
}
