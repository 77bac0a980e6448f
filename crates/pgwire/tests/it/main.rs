//! The core of the PostgreSQL gate: its two sides against each other, against real servers and a real
//! client, and against damaged bytes.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "real servers and clients are on the other side of a socket, and some of them are late"
)]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "clippy takes only functions marked as tests for tests, not what they share"
)]

mod checks;
mod clients;
mod damage;
mod frames;
mod hba;
mod servers;
mod startup;

use pgtest::messages;
use pgwire::auth::{Binding, Check, Checked, Credential, Login, LoginStep, Method, Terms};
use pgwire::auth::{CheckError, LoginError};
use pgwire::frame::{Backend, Frontend};
use pgwire::message::read;
use pgwire::secrets::{MockKey, Secret};

/// The key of all mocks here, and chance that is none.
const KEY: [u8; 32] = [42; 32];
const CLIENT_NONCE: [u8; 18] = [1; 18];
const SERVER_NONCE: [u8; 18] = [2; 18];

fn secret(user: &str, stored: &str) -> Secret {
    Secret::stored(user.as_bytes(), stored, &MockKey::new(KEY)).unwrap()
}

/// Failure of a meeting of a client and a server that both are ours.
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
