//! The core of the PostgreSQL gate: its two sides against each other, against real servers and a real
//! client, and against damaged bytes.

mod checks;
mod clients;
mod console;
mod conversations;
mod damage;
mod frames;
mod hba;
mod monitors;
mod relays;
mod servers;
mod sql;
mod startup;
mod talks;

use postgres::Private;
use proxy::postgres::auth::{Binding, Check, Checked, Credential, Login, LoginStep, Method, Terms};
use proxy::postgres::auth::{CheckError, LoginError};
use proxy::postgres::frame::{Backend, Frames, Frontend, HEAD, Limits, Piece, Tag};
use proxy::postgres::message::read;
use proxy::postgres::secrets::{MockKey, Secret};

/// The key of all mocks here, and chance that is none.
const KEY: [u8; 32] = [42; 32];
const CLIENT_NONCE: [u8; 18] = [1; 18];
const SERVER_NONCE: [u8; 18] = [2; 18];

/// The whole messages in `bytes`, all of them.
fn messages<T: Tag>(bytes: &[u8]) -> Vec<(T, &[u8])> {
    let limits = Limits { whole_max: usize::MAX, ..Limits::SESSION };
    let (mut frames, mut rest, mut found) = (Frames::<T>::new(limits), bytes, Vec::new());
    while !rest.is_empty() {
        let piece = frames.look(rest).unwrap();
        let Piece::Whole { tag, len } = piece else { panic!("{piece:?} of {rest:?}") };
        found.push((tag, &rest[HEAD..len]));
        rest = &rest[frames.take(piece)..];
    }
    found
}

/// The password of the user of a private server, `sekisho`.
fn password_of(server: &Private) -> Vec<u8> {
    let account: tokio_postgres::Config = server.url().as_str().parse().unwrap();
    account.get_password().unwrap().to_vec()
}

/// How this user proves who it is.
struct Proof(Option<Login>);

impl Proof {
    fn of(password: &[u8]) -> Proof {
        let credential = Credential::Password(password.to_vec());
        Proof(Some(Login::new(b"sekisho", credential, Terms::default(), CLIENT_NONCE)))
    }

    /// What it says to an Authentication with this body, which may be nothing.
    fn answer(&mut self, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let asked = read::authentication(body).unwrap();
        let login = self.0.take().expect("who is in is asked no more");
        self.0 = match login.answer(&asked, &mut out).unwrap() {
            LoginStep::Waits(waits) => Some(waits),
            LoginStep::In => None,
        };
        out
    }
}

fn secret(user: &str, stored: &str) -> Secret {
    Secret::stored(user.as_bytes(), stored, &MockKey::new(KEY)).unwrap()
}

/// How a meeting of a client and a server that both are ours failed.
#[derive(Debug, PartialEq)]
enum Failed {
    Check(CheckError),
    Login(LoginError),
}

/// What both sides said, and with what the server knows the client.
#[derive(Debug)]
struct Met {
    passed: Credential,
    said: Vec<u8>,
}

/// Lets a client of ours log in at a server of ours.
fn meet(
    method: Method,
    secret: &Secret,
    offered: Binding,
    credential: Credential,
    terms: Terms,
) -> Result<Met, Failed> {
    meet_through(method, secret, offered, credential, terms, |_| {})
}

/// The same, with somebody in between who changes what the server says.
fn meet_through(
    method: Method,
    secret: &Secret,
    offered: Binding,
    credential: Credential,
    terms: Terms,
    change: impl Fn(&mut Vec<u8>),
) -> Result<Met, Failed> {
    let mut login = Login::new(b"alice", credential, terms, CLIENT_NONCE);
    let (mut to_client, mut to_server, mut said) = (Vec::new(), Vec::new(), Vec::new());
    let mut checked = Check::begin(method, b"alice", secret, offered, SERVER_NONCE, &mut to_client);
    loop {
        change(&mut to_client);
        said.extend_from_slice(&to_client);
        let mut inside = false;
        for (tag, body) in messages::<Backend>(&std::mem::take(&mut to_client)) {
            assert_eq!(tag, Backend::Authentication);
            let asked = read::authentication(body).unwrap();
            match login.answer(&asked, &mut to_server).map_err(Failed::Login)? {
                LoginStep::Waits(waits) => login = waits,
                LoginStep::In => {
                    inside = true;
                    login = Login::new(b"", Credential::Nothing, Terms::default(), [0; 18]);
                }
            }
        }
        said.extend_from_slice(&to_server);
        checked = match checked {
            Checked::Passed(passed) => {
                assert!(inside && to_server.is_empty(), "the sides do not end together");
                return Ok(Met { passed, said });
            }
            Checked::Asks(check) => {
                let answer = std::mem::take(&mut to_server);
                let found = messages::<Frontend>(&answer);
                let [(tag, body)] = found[..] else { panic!("{found:?}") };
                check.answer(tag, body, &mut to_client).map_err(Failed::Check)?
            }
        };
    }
}
