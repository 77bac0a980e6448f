//! Tests: the two sides of PostgreSQL's protocol as tests have them, raw, message by message. Only tests use
//! this crate.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on stops, and prints what replays it"
)]

mod bound;
mod certified;
mod newest;
pub mod script;
pub mod suite;

pub use bound::Bound;
pub use certified::{certify, fixture};
pub use newest::Newest;

use pgwire::auth::{Credential, Login, LoginStep, Terms};
use pgwire::frame::{Frames, HEAD, Limits, Piece, Tag};
use pgwire::message::read;
use postgres::Private;

/// Chance that is none, for the nonces of a client.
pub const CLIENT_NONCE: [u8; 18] = [1; 18];

/// The whole messages in `bytes`, all of them.
pub fn messages<T: Tag>(bytes: &[u8]) -> Vec<(T, &[u8])> {
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
pub fn password_of(server: &Private) -> Vec<u8> {
    let account: tokio_postgres::Config = server.url().as_str().parse().unwrap();
    account.get_password().unwrap().to_vec()
}

/// The login of the user `sekisho`, until it is in.
#[derive(Debug)]
pub struct Proof(Option<Login>);

impl Proof {
    /// The proof of a user with this password.
    pub fn of(password: &[u8]) -> Proof {
        let credential = Credential::Password(password.to_vec());
        Proof(Some(Login::new(b"sekisho", credential, Terms::default(), CLIENT_NONCE)))
    }

    /// Its answer to an Authentication with this body, which may be nothing.
    pub fn answer(&mut self, body: &[u8]) -> Vec<u8> {
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

/// Chance of a seed that is printed, by xorshift64*: enough for choosing mutations.
#[derive(Debug)]
pub struct Chance(u64);

impl Chance {
    /// Of the seed that `SEKISHO_SEED` says, or of this one.
    ///
    /// # Panics
    /// Never; a `SEKISHO_SEED` that is no number counts as none.
    pub fn new(default: u64) -> Chance {
        let seed = std::env::var("SEKISHO_SEED").ok().and_then(|text| text.parse().ok());
        let seed = seed.unwrap_or(default);
        println!("SEKISHO_SEED={seed}");
        Chance(seed.max(1))
    }

    /// Of this seed, whatever the environment says.
    pub fn of(seed: u64) -> Chance {
        Chance(seed.max(1))
    }

    /// A number below `n`, which is above 0.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize) % n
    }
}
