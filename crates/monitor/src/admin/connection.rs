//! Administrators at the admin server: what they say is heard one message at a time, and nothing more is read
//! from one who waits or does not read.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::server::{AdminThread, Killed};
use super::{Admitted, Answer, Ask, Refusal};
use crate::connection::{Connection, Filled};
use crate::deadlines::Deadline;
use crate::slab::{Key, Socket};
use pgconsole::{Control, Heard, Reply, Session, Snapshot, Want};
use pgwire::SqlState;
use pgwire::frame::{Frames, Frontend, HEAD, Limits, Piece};
use pgwire::message::{Report, Severity, Status, write};

/// Time that an administrator may take to read what was said to it.
const READ_MAX: Duration = Duration::from_secs(60);

/// Somebody at the admin server.
pub(super) enum AdminConnection {
    Administrator(Box<Administrator>),
    Reader(Reader),
}

/// Somebody who has logged in at the console.
pub(super) struct Administrator {
    pub(super) connection: Connection,
    pub(super) deadline: Deadline,
    session: Session,
    frames: Frames<Frontend>,
    doing: Doing,
    pub(super) id: u64,
    pub(super) user: Arc<str>,
    pub(super) database: Arc<str>,
    pub(super) application_name: Arc<str>,
    pub(super) ends: (Option<SocketAddr>, Option<SocketAddr>),
    pub(super) came: SystemTime,
    pub(super) requested: SystemTime,
    /// By which it may cancel.
    pub(super) process: u32,
}

/// State of an administrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// It is listened to.
    Asks,
    /// It waits for the loop.
    Waits,
    /// It goes when it has what was written.
    Effects,
}

/// Somebody who asks over HTTP.
pub(super) struct Reader {
    pub(super) connection: Connection,
    pub(super) deadline: Deadline,
    pub(super) state: super::http::State,
}

impl Reader {
    pub(super) fn new(connection: Connection) -> Reader {
        Reader { connection, deadline: Deadline::default(), state: super::http::State::Asks }
    }
}

impl AdminConnection {
    pub(super) fn connection_mut(&mut self) -> &mut Connection {
        match self {
            AdminConnection::Administrator(administrator) => &mut administrator.connection,
            AdminConnection::Reader(reader) => &mut reader.connection,
        }
    }

    pub(super) fn deadline_mut(&mut self) -> &mut Deadline {
        match self {
            AdminConnection::Administrator(administrator) => &mut administrator.deadline,
            AdminConnection::Reader(reader) => &mut reader.deadline,
        }
    }

    pub(super) fn into_connection(self) -> Connection {
        match self {
            AdminConnection::Administrator(administrator) => administrator.connection,
            AdminConnection::Reader(reader) => reader.connection,
        }
    }
}

impl Administrator {
    /// One who has just come, and what it hears first.
    pub(super) fn new(admitted: Admitted) -> (Administrator, Vec<u8>) {
        let mut out = Vec::new();
        let session = Session::begin(admitted.access, env!("CARGO_PKG_VERSION"), &mut out);
        write::backend_key_data(&mut out, admitted.process, &admitted.secret);
        write::ready_for_query(&mut out, Status::Idle);
        let administrator = Administrator {
            connection: admitted.connection,
            deadline: Deadline::default(),
            session,
            frames: Frames::new(Limits::AUTHENTICATION),
            doing: Doing::Asks,
            id: admitted.id,
            user: admitted.user.into(),
            database: admitted.database.into(),
            application_name: admitted.application_name.into(),
            ends: admitted.ends,
            came: admitted.came,
            requested: admitted.came,
            process: admitted.process,
        };
        (administrator, out)
    }
}

/// Outcome of what an administrator has sent.
enum Next {
    /// There may be more.
    Goes,
    /// Nothing more until something happens.
    Rests,
    /// It has gone, or must.
    Parts,
}

impl AdminThread {
    fn administrator(&mut self, key: Key) -> Option<&mut Administrator> {
        match self.admin_connections.get_mut(key) {
            Some(AdminConnection::Administrator(administrator)) => Some(administrator),
            _ => None,
        }
    }

    /// Something happened to an administrator's connection.
    pub(super) fn hear_administrator(&mut self, key: Key) {
        let Some(AdminConnection::Administrator(one)) = self.admin_connections.get_mut(key) else {
            return;
        };
        if one.connection.flush(&mut self.buffers).is_err() {
            return self.part(key);
        }
        loop {
            match self.step(key) {
                Next::Goes => {}
                Next::Rests => return self.watch(key),
                Next::Parts => return self.part(key),
            }
        }
    }

    fn step(&mut self, key: Key) -> Next {
        let Some(AdminConnection::Administrator(one)) = self.admin_connections.get_mut(key) else {
            return Next::Rests;
        };
        if one.connection.is_blocked() {
            return if one.connection.has_hung_up() { Next::Parts } else { Next::Rests };
        }
        match one.doing {
            Doing::Effects => return Next::Parts,
            Doing::Waits if one.connection.has_hung_up() => return Next::Parts,
            Doing::Waits => return Next::Rests,
            Doing::Asks => {}
        }
        let mut out = Vec::new();
        let heard = match one.frames.look(one.connection.read()) {
            Ok(Piece::Whole { tag, len }) => {
                let heard = one.session.hear(tag, &one.connection.read()[HEAD..len], &mut out);
                one.connection.take(len, &mut self.buffers);
                one.requested = SystemTime::now();
                heard
            }
            Ok(Piece::More { .. }) => {
                return match one.connection.fill(&mut self.buffers) {
                    Filled::Bytes(_) => Next::Goes,
                    Filled::Nothing => Next::Rests,
                    Filled::Ended(_) | Filled::NoRoom => Next::Parts,
                };
            }
            Ok(_) => {
                let message = "the message is longer than the console takes";
                fatal(&mut out, SqlState::PROGRAM_LIMIT_EXCEEDED, message);
                Heard::Ends
            }
            Err(error) => {
                fatal(&mut out, error.sqlstate(), &error.to_string());
                Heard::Ends
            }
        };
        self.go_on(key, heard, &out);
        Next::Goes
    }

    /// Says what a session has written, and sees to what it wants.
    fn go_on(&mut self, key: Key, heard: Heard, out: &[u8]) {
        self.say(key, out);
        let Some(one) = self.administrator(key) else { return };
        one.doing = match heard {
            Heard::Answered => Doing::Asks,
            Heard::Wants(_) => Doing::Waits,
            Heard::Ends => Doing::Effects,
        };
        match heard {
            Heard::Wants(Want::Snapshot) => self.look(key),
            Heard::Wants(Want::Estimates(what)) => self.ask(key, Ask::Models(what)),
            Heard::Wants(Want::Control(Control::KillClient(id))) => {
                if self.kill(id) == Killed::Gone {
                    self.reply_administrator(key, &Answer::Done);
                } else {
                    self.ask(key, Ask::Control(Control::KillClient(id)));
                }
            }
            Heard::Wants(Want::Control(control)) => self.ask(key, Ask::Control(control)),
            Heard::Answered | Heard::Ends => {}
        }
    }

    fn reply(&mut self, key: Key, reply: Reply<'_>) {
        let Some(one) = self.administrator(key) else { return };
        // What it waited for may have been given up meanwhile.
        if one.doing != Doing::Waits {
            return;
        }
        let mut out = Vec::new();
        let heard = one.session.reply(reply, &mut out);
        self.go_on(key, heard, &out);
        self.again.push(key);
    }

    pub(super) fn show_administrator(&mut self, key: Key, snapshot: &Snapshot) {
        self.reply(key, Reply::Snapshot(snapshot));
    }

    pub(super) fn reply_administrator(&mut self, key: Key, answer: &Answer) {
        match answer {
            Answer::Done => self.reply(key, Reply::Done),
            Answer::Told(sentences) => self.reply(key, Reply::Told(sentences)),
            Answer::Refused(refusal) => self.reply(key, Reply::Refused(refusal)),
            Answer::Models(what, models) => match models.what_if(what) {
                Ok(estimates) => self.reply(key, Reply::Estimates(&estimates)),
                Err(cause) => {
                    let hint = "SHOW MODEL has what is known, SHOW GATE what was measured";
                    self.reply(key, Reply::Refused(&Refusal::state(cause.to_string(), hint)));
                }
            },
            // Nobody at the console asks for these.
            Answer::Snapshot(..) | Answer::Pulse(_) => {}
        }
    }

    /// Somebody wants an administrator's command cancelled: what waits is given up.
    pub(super) fn cancel_administrator(&mut self, key: Key) {
        if self.administrator(key).is_some_and(|one| one.doing == Doing::Waits) {
            self.ask(key, Ask::Withdraw);
        }
    }

    /// One who does not read what was said to it has a deadline.
    fn watch(&mut self, key: Key) {
        let Some(AdminConnection::Administrator(one)) = self.admin_connections.get_mut(key) else {
            return;
        };
        let socket = Socket::Client(key);
        if !one.connection.is_blocked() {
            self.deadlines.clear(socket, &mut one.deadline);
        } else if one.deadline == Deadline::default() {
            self.deadlines.set(socket, &mut one.deadline, self.now + READ_MAX);
        }
    }
}

fn fatal(out: &mut Vec<u8>, sqlstate: SqlState, message: &str) {
    write::error_response(out, &Report::new(Severity::Fatal, sqlstate, message));
}
