//! Notifications by mail: to the receivers of the file alone, with their protection, at least once.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use agents_server::{Server, StartError};
use agents_store::Memory;

use crate::delivering::{accepted, rules, spec, start};
use crate::mailbox::{Conduct, Mailbox, Offers, certificates};
use crate::sink::request;

/// The lines of a destination that is this mail server.
pub(crate) fn mails(to: &Mailbox, scheme: &str, more: &str) -> String {
    format!(
        "email = \"{scheme}://localhost:{}\"\nfrom = \"alerts@example.org\"\nto = [\"ann@example.org\", \
         \"bob@example.org\"]\n{more}",
        to.address.port()
    )
}

fn authority() -> String {
    format!("ca-file = {:?}\n", certificates().join("authority.pem").to_str().unwrap())
}

/// An agent of this name that has fired once.
pub(crate) fn fire(server: &Server, agent: &str) {
    let body = r#"{"symbol": "A", "high": 10}"#;
    accepted(server, &format!("PUT /agents/{agent}"), body);
    let line = format!("POST /agents/{agent}/messages/tick");
    accepted(server, &line, r#"{"symbol": "A", "price": 11}"#);
}

struct Password(PathBuf);

impl Password {
    fn new(name: &str) -> Password {
        let path = std::env::temp_dir().join(format!("agents-mail-{name}-{}", std::process::id()));
        fs::write(&path, "secret word\n").unwrap();
        Password(path)
    }

    fn lines(&self) -> String {
        format!("user = \"sekisho\"\nsecret-file = {:?}\n", self.0.to_str().unwrap())
    }
}

impl Drop for Password {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok();
    }
}

#[track_caller]
fn undelivered(
    server: &Server,
    fits: impl Fn(&[serde_json::Value]) -> bool,
) -> Vec<serde_json::Value> {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let (_, _, text) = request(server.address(), "GET /undelivered", &[], "");
        let told: serde_json::Value = serde_json::from_str(&text).unwrap();
        let all = told["notifications"].as_array().unwrap().clone();
        if fits(&all) {
            return all;
        }
        assert!(Instant::now() < until, "{all:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_notification_is_a_mail_to_the_receivers_of_the_file() {
    let mailbox = Mailbox::start(Conduct::Takes, Offers::Plain);
    let server = start(rules(&[("mail", mails(&mailbox, "smtp", "tls = \"none\""))]));
    fire(&server, "alice");
    let taken = mailbox.wait_for(1).remove(0);
    assert_eq!(taken.from, "alerts@example.org");
    assert_eq!(taken.to, ["ann@example.org", "bob@example.org"]);
    assert_eq!((taken.login.as_deref(), taken.is_over_tls), (None, false));
    assert_eq!(taken.header("Subject"), "too-high: alice");
    assert_eq!(taken.header("To"), "ann@example.org, bob@example.org");
    assert_eq!(taken.header("Auto-Submitted"), "auto-generated");
    let key = taken.header("Sekisho-Notification");
    assert_eq!(taken.header("Message-ID"), format!("<{key}@example.org>"));
    for line in [
        "too-high: alice, by the message tick, ",
        "  price: 11.0",
        &format!("  notification {key}"),
    ] {
        assert!(taken.body().contains(line), "{line}: {}", taken.body());
    }
    let ended = server.end();
    assert_eq!((ended.notified, ended.kept, ended.is_drained), (1, 0, true), "{ended:?}");
}

/// What agents are called adds no header and no receiver.
#[test]
fn a_name_of_an_agent_is_a_text_and_nothing_else() {
    let mailbox = Mailbox::start(Conduct::Takes, Offers::Plain);
    let server = start(rules(&[("mail", mails(&mailbox, "smtp", "tls = \"none\""))]));
    fire(
        &server,
        "x%0D%0ABcc:%20eve@example.org%0D%0A%0D%0A.%0D%0AMAIL%20FROM:%3Ceve@example.org%3E",
    );
    fire(&server, "%E5%A4%AA%E9%83%8E%20%F0%9F%94%94");
    let taken = mailbox.wait_for(2);
    for one in &taken {
        assert_eq!((one.from.as_str(), one.to.len()), ("alerts@example.org", 2));
        let (head, _) = one.text.split_once("\n\n").unwrap();
        assert!(!head.to_lowercase().contains("\nbcc"), "{head}");
        assert!(one.header("Subject").len() < 300);
        assert!(!one.body().to_lowercase().contains("\nbcc"), "{}", one.body());
    }
    server.end();
    assert_eq!(mailbox.taken.lock().unwrap().len(), 2);
}

#[test]
fn a_mail_leaves_by_tls_with_the_password_of_its_user() {
    let password = Password::new("tls");
    // `AUTH PLAIN` of "\0sekisho\0secret word".
    let login = "AHNla2lzaG8Ac2VjcmV0IHdvcmQ=";
    for (offers, scheme) in [(Offers::Tls, "smtps"), (Offers::StartTls, "smtp")] {
        let mailbox = Mailbox::start(Conduct::Takes, offers);
        let more = password.lines() + &authority();
        let server = start(rules(&[("mail", mails(&mailbox, scheme, &more))]));
        fire(&server, "alice");
        let taken = mailbox.wait_for(1).remove(0);
        assert_eq!((taken.login.as_deref(), taken.is_over_tls), (Some(login), true), "{scheme}");
        server.end();
    }
}

/// No mail and no password in clear where the file wants TLS, and none to a server that is not who it should be.
#[test]
fn a_mail_waits_where_its_protection_is_not_to_be_had() {
    let password = Password::new("none");
    let stranger = certificates().join("stranger.pem");
    let stranger = format!("ca-file = {:?}\n", stranger.to_str().unwrap());
    for (offers, scheme, ca, cause) in [
        (Offers::Plain, "smtp", authority(), "STARTTLS"),
        (Offers::StartTls, "smtp", stranger.clone(), "certificate"),
        (Offers::Tls, "smtps", stranger, "certificate"),
    ] {
        let mailbox = Mailbox::start(Conduct::Takes, offers);
        let more = password.lines() + &ca;
        let server = start(rules(&[("mail", mails(&mailbox, scheme, &more))]));
        fire(&server, "alice");
        let kept = undelivered(&server, |all| !all.is_empty());
        let told = kept[0]["cause"].as_str().unwrap();
        assert!(told.contains(cause), "{scheme}: {told}");
        assert_eq!(kept[0]["is_dead"], false);
        server.end();
        assert!(mailbox.taken.lock().unwrap().is_empty(), "{scheme}");
    }
}

#[test]
fn a_mail_that_was_put_off_comes_again_as_the_same_mail() {
    let mailbox = Mailbox::start(Conduct::Later, Offers::Plain);
    let server = start(rules(&[("mail", mails(&mailbox, "smtp", "tls = \"none\""))]));
    fire(&server, "alice");
    let kept = undelivered(&server, |all| !all.is_empty());
    assert!(kept[0]["cause"].as_str().unwrap().contains("later"), "{kept:?}");
    mailbox.set(Conduct::Takes);
    let taken = mailbox.wait_for(1).remove(0);
    assert_eq!(taken.header("Sekisho-Notification"), kept[0]["id"].as_str().unwrap());
    undelivered(&server, |all| all.is_empty());
}

/// One that its server will never take is dead at once, and holds up no other; a password that is wrong is no
/// fault of the mail.
#[test]
fn a_mail_that_is_refused_for_good_is_dead_and_holds_up_no_other() {
    let mailbox = Mailbox::start(Conduct::Never, Offers::Plain);
    let server = start(rules(&[("mail", mails(&mailbox, "smtp", "tls = \"none\""))]));
    fire(&server, "alice");
    let kept = undelivered(&server, |all| !all.is_empty());
    assert_eq!(kept[0]["is_dead"], true, "{kept:?}");
    assert!(kept[0]["cause"].as_str().unwrap().contains("no such user"), "{kept:?}");
    mailbox.set(Conduct::Takes);
    fire(&server, "bob");
    let taken = mailbox.wait_for(1).remove(0);
    assert_eq!(taken.header("Subject"), "too-high: bob");
    let (status, ..) = request(server.address(), "POST /undelivered/resend", &[], "");
    assert_eq!(status, 200);
    mailbox.wait_for(2);
    undelivered(&server, |all| all.is_empty());
    server.end();

    let password = Password::new("locked");
    let mailbox = Mailbox::start(Conduct::Locked, Offers::Plain);
    let more = password.lines() + "tls = \"none\"";
    let server = start(rules(&[("mail", mails(&mailbox, "smtp", &more))]));
    fire(&server, "alice");
    let kept = undelivered(&server, |all| !all.is_empty());
    assert_eq!(kept[0]["is_dead"], false, "{kept:?}");
    assert!(kept[0]["cause"].as_str().unwrap().starts_with("its user: "), "{kept:?}");
    mailbox.set(Conduct::Takes);
    mailbox.wait_for(1);
}

/// A mail that was taken is taken, also if the server does not say goodbye after it.
#[test]
fn a_mail_is_sent_once_to_a_server_that_does_not_say_goodbye() {
    let mailbox = Mailbox::start(Conduct::Sullen, Offers::Plain);
    let more = "tls = \"none\"\ntimeout = \"2s\"";
    let server = start(rules(&[("mail", mails(&mailbox, "smtp", more))]));
    fire(&server, "alice");
    mailbox.wait_for(1);
    fire(&server, "bob");
    mailbox.wait_for(2);
    thread::sleep(Duration::from_secs(3));
    assert!(undelivered(&server, |_| true).is_empty());
    assert_eq!(mailbox.taken.lock().unwrap().len(), 2);
}

#[test]
fn a_public_mail_server_is_refused_unless_the_file_says_so() {
    let lines = |more: &str| {
        "email = \"smtp://192.0.2.1\"\nfrom = \"a@example.org\"\nto = \"b@example.org\"\n"
            .to_owned()
            + more
    };
    let start = |more: &str| {
        let rules = rules(&[("far", "tls = \"none\"\n".to_owned() + &lines(more))]);
        Server::start(&spec(), rules, Arc::new(Memory::new()))
    };
    let told = start("").unwrap_err().to_string();
    assert!(told.starts_with("destination `far`: `192.0.2.1` leads to"), "{told}");
    assert!(told.ends_with("add `public = true`"), "{told}");
    // Nothing is connected to before something fires.
    drop(start("public = true").unwrap());
    let missing = start("user = \"a\"\nsecret-env = \"AGENTS_NO_SUCH_PASSWORD\"\n").unwrap_err();
    assert!(matches!(missing, StartError::Destination { .. }));
    let told = missing.to_string();
    assert_eq!(told, "destination `far`: the variable $AGENTS_NO_SUCH_PASSWORD is not set");
}
