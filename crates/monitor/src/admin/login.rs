//! Administrators, from their login at the loop until the admin server has their connection.

use subtle::ConstantTimeEq;

use super::{AdminMessage, Admitted};
use crate::client::{SECRET_BYTES, Wanted};
use crate::slab::{Key, Socket};
use crate::state::Loop;
use pgwire::SqlState;
use pgwire::startup::Version;

impl Loop {
    /// True if clients that ask for this database want the console: no database has its name.
    pub(crate) fn is_console(&self, database: &[u8]) -> bool {
        pgconsole::is_console(database)
            && !self.config.databases.iter().any(|one| one.name.as_bytes() == database)
    }

    /// Somebody has proved to be a user who wants the console.
    pub(crate) fn admit(&mut self, key: Key, wanted: &Wanted) {
        let user = String::from_utf8_lossy(&wanted.user).into_owned();
        let access = self.config.admin.access(&wanted.user);
        let (Some(access), Some(_)) = (access, &self.admin.line) else {
            let message = format!("user \"{user}\" is not among the administrators of this gate");
            return self.refuse(key, SqlState::INSUFFICIENT_PRIVILEGE, &message);
        };
        let secret: [u8; SECRET_BYTES] = self.draw();
        let process = self.draw_process();
        let Some(mut client) = self.clients.remove(key) else { return };
        self.logins.remove(&client.id);
        self.deadlines.clear(Socket::Client(key), &mut client.deadline);
        if self.watchers.release(&client.connection).is_err() {
            return client.connection.close(&mut self.buffers);
        }
        let bytes = if wanted.version >= Version::V3_2 { SECRET_BYTES } else { 4 };
        let secret = secret[..bytes].to_vec();
        self.admin.consoles.insert(process, secret.clone());
        let name = wanted.settings().value(b"application_name").unwrap_or_default();
        let admitted = Admitted {
            connection: client.connection,
            access,
            id: client.id,
            user,
            database: String::from_utf8_lossy(&wanted.database).into_owned(),
            application_name: String::from_utf8_lossy(&name).into_owned(),
            ends: client.ends,
            came: self.calendar(client.came),
            process,
            secret,
        };
        if let Some(line) = &self.admin.line {
            line.send(AdminMessage::Admitted(Box::new(admitted)));
        }
    }

    /// A number by which somebody may cancel, and which nobody has.
    pub(crate) fn draw_process(&self) -> u32 {
        loop {
            let process = u32::from_be_bytes(self.draw());
            if self.is_free(process) {
                return process;
            }
        }
    }

    /// True if nobody may cancel by this number, and somebody could.
    pub(crate) fn is_free(&self, process: u32) -> bool {
        let taken =
            self.processes.contains_key(&process) || self.admin.consoles.contains_key(&process);
        process != 0 && !taken
    }

    /// True if a cancel request is one of the console's, to which it is passed on then.
    pub(crate) fn cancel_console(&self, process: u32, secret: &[u8]) -> bool {
        let Some(known) = self.admin.consoles.get(&process) else { return false };
        let fits: bool = known.ct_eq(secret).into();
        if let (true, Some(line)) = (fits, &self.admin.line) {
            line.send(AdminMessage::Cancel(process));
        }
        fits
    }
}
