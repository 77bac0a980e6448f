//! A mail server on loopback, of blocking sockets: it takes mails and tells what it was told.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tls::Tls;

/// The conduct of a mail server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conduct {
    Takes,
    /// It says 451 after a mail.
    Later,
    /// It says 550 of a receiver.
    Never,
    /// It takes no mail before somebody has logged in, and takes no password.
    Locked,
    /// It never answers.
    Hangs,
    /// It takes a mail, and does not say goodbye.
    Sullen,
}

/// The protection that it offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offers {
    Plain,
    StartTls,
    Tls,
}

/// A mail that it was sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taken {
    pub(crate) from: String,
    pub(crate) to: Vec<String>,
    /// What was said to log in, in base64.
    pub(crate) login: Option<String>,
    pub(crate) is_over_tls: bool,
    /// Headers and text, lines ended by `\n`.
    pub(crate) text: String,
}

impl Taken {
    /// The value of a header that stands once.
    pub(crate) fn header(&self, name: &str) -> String {
        let (head, _) = self.text.split_once("\n\n").unwrap();
        let unfolded = head.replace("\n ", " ");
        let mut found = unfolded.lines().filter_map(|line| line.strip_prefix(&format!("{name}: ")));
        let value = found.next().unwrap_or_else(|| panic!("no {name}: {head}")).to_owned();
        assert!(found.next().is_none(), "{name} twice: {head}");
        value
    }

    pub(crate) fn body(&self) -> &str {
        self.text.split_once("\n\n").unwrap().1
    }
}

#[derive(Clone)]
pub(crate) struct Mailbox {
    pub(crate) address: SocketAddr,
    pub(crate) taken: Arc<Mutex<Vec<Taken>>>,
    /// Connections so far.
    pub(crate) calls: Arc<Mutex<usize>>,
    conduct: Arc<Mutex<Conduct>>,
    offers: Offers,
    tls: Arc<ServerConfig>,
}

pub(crate) fn certificates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tls/tests/certificates")
}

trait Stream: Read + Write + Send {}
impl<S: Read + Write + Send> Stream for S {}

impl Mailbox {
    pub(crate) fn start(conduct: Conduct, offers: Offers) -> Mailbox {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let files =
            Tls { cert: certificates().join("database.pem"), key: certificates().join("leaf.key") };
        let mailbox = Mailbox {
            address: listener.local_addr().unwrap(),
            taken: Arc::default(),
            calls: Arc::default(),
            conduct: Arc::new(Mutex::new(conduct)),
            offers,
            tls: tls::load(&files, b"smtp").unwrap(),
        };
        let own = mailbox.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, own) = (stream.unwrap(), own.clone());
                // A client that goes away ends its conversation.
                thread::spawn(move || own.serve(stream).ok());
            }
        });
        mailbox
    }

    pub(crate) fn set(&self, conduct: Conduct) {
        *self.conduct.lock().unwrap() = conduct;
    }

    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        *self.calls.lock().unwrap() += 1;
        if *self.conduct.lock().unwrap() == Conduct::Hangs {
            thread::sleep(Duration::from_secs(60));
            return Ok(());
        }
        if self.offers == Offers::Tls {
            let server = ServerConnection::new(self.tls.clone()).map_err(io::Error::other)?;
            return self.converse(Box::new(StreamOwned::new(server, stream)), true, true).map(drop);
        }
        let start = self.converse(Box::new(stream.try_clone()?), false, true)?;
        if start {
            let server = ServerConnection::new(self.tls.clone()).map_err(io::Error::other)?;
            self.converse(Box::new(StreamOwned::new(server, stream)), true, false)?;
        }
        Ok(())
    }

    /// True if the client wants TLS.
    fn converse(
        &self,
        stream: Box<dyn Stream>,
        is_over_tls: bool,
        greets: bool,
    ) -> io::Result<bool> {
        let mut stream = BufReader::new(stream);
        let fresh = Taken { is_over_tls, ..Taken::default() };
        let (mut mail, mut line) = (fresh.clone(), String::new());
        if greets {
            stream.get_mut().write_all(b"220 here\r\n")?;
        }
        loop {
            line.clear();
            if stream.read_line(&mut line)? == 0 {
                return Ok(false);
            }
            let conduct = *self.conduct.lock().unwrap();
            let said = line.trim_end().to_owned();
            let argument = |name: &str| said.strip_prefix(name).map(str::to_owned);
            let answer = if said.starts_with("EHLO ") {
                let more = if self.offers == Offers::StartTls && !is_over_tls {
                    "250-STARTTLS\r\n"
                } else {
                    ""
                };
                format!("250-here\r\n{more}250-AUTH PLAIN LOGIN\r\n250 8BITMIME")
            } else if said == "STARTTLS" {
                stream.get_mut().write_all(b"220 go on\r\n")?;
                return Ok(true);
            } else if let Some(login) = argument("AUTH PLAIN ") {
                mail.login = Some(login);
                if conduct == Conduct::Locked { "535 no" } else { "235 yes" }.to_owned()
            } else if let Some(from) = argument("MAIL FROM:") {
                mail.from = from.split_once('>').unwrap().0[1..].to_owned();
                "250 ok".to_owned()
            } else if let Some(to) = argument("RCPT TO:") {
                mail.to.push(to.split_once('>').unwrap().0[1..].to_owned());
                if conduct == Conduct::Never { "550 no such user" } else { "250 ok" }.to_owned()
            } else if said == "DATA" {
                stream.get_mut().write_all(b"354 go on\r\n")?;
                mail.text = text(&mut stream)?;
                if conduct == Conduct::Later {
                    "451 later".to_owned()
                } else {
                    self.taken.lock().unwrap().push(std::mem::replace(&mut mail, fresh.clone()));
                    "250 taken".to_owned()
                }
            } else if said == "QUIT" {
                if conduct == Conduct::Sullen {
                    thread::sleep(Duration::from_secs(60));
                }
                "221 bye".to_owned()
            } else {
                format!("500 {said}")
            };
            stream.get_mut().write_all(format!("{answer}\r\n").as_bytes())?;
        }
    }

    /// Waits until it has taken so many.
    #[track_caller]
    pub(crate) fn wait_for(&self, count: usize) -> Vec<Taken> {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let taken = self.taken.lock().unwrap().clone();
            if taken.len() >= count {
                return taken;
            }
            assert!(Instant::now() < until, "{} of {count}", taken.len());
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A mail up to its last line.
fn text(stream: &mut impl BufRead) -> io::Result<String> {
    let mut text = String::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        match line.trim_end_matches(['\r', '\n']) {
            "." => return Ok(text),
            line => text += &format!("{}\n", line.strip_prefix('.').unwrap_or(line)),
        }
    }
}
