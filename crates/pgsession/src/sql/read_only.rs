//! Tells whether a text says that its transaction only reads.
//!
//! Only what is said counts. A SELECT may write, through a function or a rule, so it says nothing;
//! nor does a text in which another transaction may follow. What a session says of all its
//! transactions is its setting `default_transaction_read_only`.

use super::reading::{Reader, values};
use super::settings::Value;
use super::tokens::{LexerMode, Unclear};

/// Access that a text claims for its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It reads, and the server holds it to that.
    ReadOnly,
    /// It may write.
    ReadWrite,
    /// Nothing.
    Unsaid,
}

/// The access that `text` claims.
///
/// # Errors
///
/// It cannot be read.
pub fn access(text: &[u8], lexer_mode: LexerMode) -> Result<Access, Unclear> {
    let mut reader = Reader::new(text, lexer_mode)?;
    let (mut access, mut commands) = (Access::Unsaid, 0_usize);
    let (mut ended, mut runs) = (false, false);
    while reader.next_command()? {
        // Behind the end of a transaction there is another.
        if ended {
            return Ok(Access::Unsaid);
        }
        let opens = reader.takes("begin")? || reader.takes("start")?;
        let said = if opens {
            // This one may be another transaction than that of which something was said before.
            if commands > 0 && access != Access::Unsaid {
                return Ok(Access::Unsaid);
            }
            modes(&mut reader)?
        } else if reader.takes("set")? {
            set(&mut reader)?
        } else {
            ended = ["commit", "end", "rollback", "abort", "prepare"]
                .iter()
                .any(|word| reader.is(word))
                && !savepoint(&reader)?;
            runs = true;
            Access::Unsaid
        };
        // Behind a command that may have written, in the same transaction even before BEGIN, the claim
        // to read is of what follows alone.
        if said != Access::Unsaid && !(runs && said == Access::ReadOnly) {
            access = said;
        }
        while !reader.ends() {
            reader.advance()?;
        }
        commands += 1;
    }
    Ok(access)
}

/// True if ROLLBACK goes to a savepoint, and if PREPARE is of a statement.
fn savepoint(reader: &Reader<'_>) -> Result<bool, Unclear> {
    let mut ahead = reader.clone();
    if ahead.takes("prepare")? {
        return Ok(!ahead.is("transaction"));
    }
    ahead.advance()?;
    if !ahead.takes("work")? {
        ahead.takes("transaction")?;
    }
    ahead.takes("to")
}

/// The modes of a transaction; the last one of a kind counts.
fn modes(reader: &mut Reader<'_>) -> Result<Access, Unclear> {
    let mut access = Access::Unsaid;
    while !reader.ends() {
        if reader.takes("isolation")? {
            reader.takes("level")?;
            // READ COMMITTED is a level.
            reader.advance()?;
        } else if reader.takes("read")? {
            if reader.is("only") {
                access = Access::ReadOnly;
            } else if reader.is("write") {
                access = Access::ReadWrite;
            }
        } else {
            reader.advance()?;
        }
    }
    Ok(access)
}

fn set(reader: &mut Reader<'_>) -> Result<Access, Unclear> {
    if reader.takes("session")? && reader.is("characteristics") {
        return Ok(Access::Unsaid);
    }
    reader.takes("local")?;
    if reader.takes("transaction")? {
        return modes(reader);
    }
    if reader.setting()?.as_deref() != Some(b"transaction_read_only") {
        return Ok(Access::Unsaid);
    }
    reader.advance()?;
    let Some(Value::Items(items)) = values(reader)? else { return Ok(Access::Unsaid) };
    let [value] = &items[..] else { return Ok(Access::Unsaid) };
    Ok(match value.to_ascii_lowercase().as_slice() {
        b"on" | b"true" | b"yes" | b"1" | b"t" | b"y" => Access::ReadOnly,
        b"off" | b"false" | b"no" | b"0" | b"f" | b"n" => Access::ReadWrite,
        _ => Access::Unsaid,
    })
}
