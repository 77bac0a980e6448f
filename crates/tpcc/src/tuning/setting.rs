//! Changes a setting of a server and takes the change back: `ALTER SYSTEM`, and what was there before.

use std::time::{Duration, Instant};

use tokio_postgres::Client;

use super::{TuneError, with};
use crate::connection::Config;

/// Time limit until a setting that a server has read is in force.
const PATIENCE: Duration = Duration::from_secs(10);
/// After this, a server has read its file.
const SETTLE: Duration = Duration::from_millis(200);
const LOOK: Duration = Duration::from_millis(20);

/// State of a setting under `ALTER SYSTEM` before it was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Before {
    setting: String,
    /// `None` where it said nothing.
    value: Option<String>,
}

impl Before {
    /// The statement that takes the change back.
    pub fn statement(&self) -> String {
        match &self.value {
            Some(value) => statement(&self.setting, value),
            None => format!("alter system reset {}", self.setting),
        }
    }
}

/// A name of a setting is a word, from our own list; a value may be anything.
fn statement(setting: &str, value: &str) -> String {
    format!("alter system set {setting} = '{}'", value.replace('\'', "''"))
}

/// Writes a setting and lets the server read it. One that needs a restart is not in force yet.
///
/// # Errors
/// If the server refuses, or reads it and does not take it; then it is taken back.
pub fn set(config: &Config, setting: &str, value: &str) -> Result<Before, TuneError> {
    with(config, async |client| {
        let sql = "select setting from pg_file_settings where name = $1 \
            and sourcefile like '%/postgresql.auto.conf' order by seqno desc limit 1";
        let row = client.query_opt(sql, &[&setting]).await;
        let row = row.map_err(|source| refused(setting, source))?;
        let before = Before { setting: setting.to_owned(), value: row.map(|row| row.get(0)) };
        let set = change(client, setting, &statement(setting, value)).await;
        if set.is_err() {
            // The error in hand is the one that matters.
            change(client, setting, &before.statement()).await.ok();
        }
        set.map(|()| before)
    })
}

/// Takes a change back. One that needs a restart is in force until then.
///
/// # Errors
/// If the server refuses, or does not take it.
pub fn restore(config: &Config, before: &Before) -> Result<(), TuneError> {
    with(config, async |client| change(client, &before.setting, &before.statement()).await)
}

/// Makes the server write out all that it has, so that what comes next begins as after any other
/// checkpoint.
///
/// # Errors
/// If the server refuses.
pub fn checkpoint(config: &Config) -> Result<(), TuneError> {
    with(config, async |client| {
        let done = client.batch_execute("checkpoint").await;
        done.map_err(|source| TuneError::Unread { what: "end of a checkpoint", source })
    })
}

/// True if the server answers at all.
pub fn answers(config: &Config) -> bool {
    let simple = async |client: &Client| {
        let asked = client.simple_query("select 1").await;
        asked.map_err(|source| TuneError::Unread { what: "answer", source })
    };
    with(config, simple).is_ok()
}

fn refused(setting: &str, source: tokio_postgres::Error) -> TuneError {
    TuneError::Refused { setting: setting.to_owned(), source }
}

/// Executes an `ALTER SYSTEM`, and waits until what the file says is what is in force, or until the
/// server says that it needs a restart for it.
async fn change(client: &Client, setting: &str, sql: &str) -> Result<(), TuneError> {
    let before = look(client, setting).await?;
    client.batch_execute(sql).await.map_err(|source| refused(setting, source))?;
    let reload = client.batch_execute("select pg_reload_conf()").await;
    reload.map_err(|source| refused(setting, source))?;
    let began = Instant::now();
    loop {
        tokio::time::sleep(LOOK).await;
        let now = look(client, setting).await?;
        if (&now.value, now.restart) != (&before.value, before.restart) {
            return Ok(());
        }
        let waited_s = began.elapsed().as_secs();
        let refuse = |why| TuneError::NotInForce { setting: setting.to_owned(), waited_s, why };
        match now.error {
            // A change to the value that is in force already changes nothing that could be seen.
            None if now.applied && began.elapsed() > SETTLE => return Ok(()),
            Some(error) if began.elapsed() > SETTLE => return Err(refuse(error)),
            _ if began.elapsed() > PATIENCE => {
                return Err(refuse("the server still has the value of before".to_owned()));
            }
            _ => {}
        }
    }
}

/// A setting as it is in force, and what is to become of it.
struct Seen {
    value: String,
    restart: bool,
    error: Option<String>,
    applied: bool,
}

async fn look(client: &Client, setting: &str) -> Result<Seen, TuneError> {
    let sql = "select s.setting, s.pending_restart, \
            (select string_agg(error, '; ') from pg_file_settings where name = s.name \
                and error is not null \
                and error <> 'setting could not be applied'), \
            coalesce((select bool_and(applied) from pg_file_settings f where f.name = s.name \
                and f.seqno = (select max(seqno) from pg_file_settings where name = s.name)), true) \
        from pg_settings s where s.name = $1";
    let row = client.query_one(sql, &[&setting]).await;
    let row = row.map_err(|source| refused(setting, source))?;
    Ok(Seen { value: row.get(0), restart: row.get(1), error: row.get(2), applied: row.get(3) })
}
