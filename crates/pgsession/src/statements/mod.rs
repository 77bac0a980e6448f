//! Prepared statements of many clients on few servers, when a client has another server in each
//! transaction.
//!
//! ```text
//!   Client: "a" ─┐                 ┌─▶ Server: sekisho.SECRET.7, sekisho.SECRET.9
//!   Client: ""  ─┴─▶ Statement cache: 7 ─┴─▶ Server: sekisho.SECRET.7
//! ```
//!
//! Each client has names of its own, the unnamed one among them. What they stand for is in the
//! [`StatementCache`], once by content. Each server has some of that prepared, under names of ours.
//! For each message of a client there is what goes to the server instead, for each reply what the
//! client gets; what is outstanding, and for whom, is the [pipeline](super::pipeline)'s to
//! know, and a [relay](super::relay) brings the two together.
//!
//! No name of a client ever reaches a server, so none can mean another client's statement. What is
//! an error at PostgreSQL is made by PostgreSQL: it gets a name that it lacks (or has, for a
//! duplicate), and its words reach the client with the client's name in them. So a transaction fails
//! when it must, and texts, codes and languages are the server's. A Parse of what the server has is
//! answered here only while the transaction cannot have failed; else the server parses it once more,
//! as its unnamed statement.
//!
//! `DEALLOCATE`, also within other statements, gets a name of ours that is prepared for that purpose
//! alone: the server says and counts it as ever, and nobody else's statement goes. `DISCARD ALL` is
//! meant for the whole session and passes; the server has nothing prepared behind it. What follows
//! either waits for its outcome ([`Stop::Later`](super::relay::Stop::Later)), and so does whatever
//! would need to know how an earlier batch ends, or what becomes of a COPY, that is not answered yet.
//!
//! A client's names, the unnamed one and what its portals are stand at once as they will be when all
//! that was asked is done, and each request that is expected keeps what was there before: an error
//! undoes what its server then skips, the last first. A request that changes the unnamed statement
//! says so even where that changes nothing, and what is undone lands behind the changes of later
//! batches, which stay. Where a meaning depends on how an earlier batch ends, the message waits.
//!
//! A text is one statement within a scope: all that changes what texts mean, as far as settings tell, those
//! among them that end with the transaction. Where that is not known, behind code or a value that no
//! text shows, nothing is shared: each Parse reaches the server, and what it has made there is for that
//! transaction. So is what is prepared for a Bind in another scope than its Parse's.
//!
//! Whoever parses a text gets what the server would make of it now: a Parse is answered here only if nothing
//! was seen since that may have changed a schema, by any client of the database (DDL, `DO`, `CALL`
//! unless code is trusted, and the end of a transaction that has done so; or a statement that has another
//! shape than before), and never if a literal of it may say when it is read, such as `'now'`, nor if the
//! client gives it a name and it has a shape. From then on a Bind finds no older one at any server.
//!
//! PostgreSQL holds a prepared statement to the parameters and columns that it had at its Parse, and says
//! 0A000 where a schema has changed them. So a Describe of ours goes with each Parse, in the same send, and
//! a client's name keeps the shape that was told, whether the client has asked for it or not; of a Parse
//! that the gate has answered, the one that the server has when that is used first without an error. Where a
//! server gets a statement by the gate's own Parse, the message that needs it waits for that reply, and is
//! refused in PostgreSQL's words if the shape is another one: once for each statement and server. Of a
//! description longer than 8 KiB the columns behind that count by their length alone. Parameters keep the
//! types that they had, as in PostgreSQL: a server that would find others is told them with the Parse.
//!
//! SQL's `EXECUTE` of such a statement, also of `EXPLAIN` and `CREATE TABLE AS`, goes on with the name that
//! its server knows it by, as does a `PREPARE` of a name that is taken; in the protocol such a text is
//! parsed with each Bind and Describe of it. So the statement is there once, held to the shape that its
//! client was told, and no name of a client's at a server has to be closed behind the text; what it costs
//! is that positions in errors are counted back. What the statement leaves is followed as if its own text
//! had come. A Parse of a name that SQL has prepared is tried under that name first, for the server to
//! refuse.
//!
//! In a failed transaction a statement that its server lacks cannot be prepared: whatever uses it is
//! told of the failed transaction, where PostgreSQL may see another fault first, or describe it.
//!
//! A session tells what it has moved of sequences (`currval`, `lastval`), whoever had it then. Whether
//! something in the database asks for that unseen is said from outside
//! ([`StatementCache::asked_of_sequences`]). A text that
//! asks for that where others may have moved some waits until these are discarded
//! ([`Stop::Sequences`](super::relay::Stop::Sequences)), and is refused where its own transaction has begun.
//!
//! What a text leaves in its session is looked at once: with the entry, or at a prefilter. Whatever it
//! leaves is followed until its replies have come ([`Followed`](super::sql::Followed)), and a text that
//! the gate's choices refuse fails at the server as any other.
//!
//! Known gaps, in which a client hears something else than from a server of its own:
//!
//! - Types of parameters: if one client prepares a text under two names and two values that no text
//!   shows, in one transaction, both have the types of the last Parse.
//! - How a text is cut behind a `standard_conforming_strings` of such a value, in the same segment.
//! - Changes of a schema that the gate does not see: by functions, by `SELECT INTO`, past the gate, or
//!   under another name of the database. The first client that uses an unnamed statement of what was
//!   changed is told 0A000. From then on all Parses are the server's again.
//! - Literals that say when they are read: they are as of the last Parse, by whichever client and at
//!   whichever server. A `time with time zone` has the summer time of the day of any earlier Parse.
//! - `EXECUTE` and `DEALLOCATE` within a function or `DO`: they find no statement of the protocol.
//! - `pg_prepared_statements`: the names in it are the gate's.
//! - `EXECUTE` that is refused here, as with another shape: what its text does before it is not done.
//! - A name that is closed or parsed anew between Bind and Execute of a text that executes it.
//! - `EXECUTE` behind a `ROLLBACK` in one text, of what the server of a failed transaction lacks.
//! - `EXECUTE` of a statement that is itself `EXECUTE`, `PREPARE` or `DEALLOCATE`.
//! - The position in an error of the statement that is executed, if its own text is so long that the
//!   place may be one of the arguments.
//! - The unnamed statement behind a Parse or Query whose bytes its server cannot read in the client's
//!   encoding: PostgreSQL keeps it.

mod client;
mod export;
mod recent;
mod server;
mod shape;
mod sql;
mod statement_cache;

pub use client::Client;
pub use export::{ExportedName, ExportedStatement};
pub(super) use server::{Completed, Forward, Message, Server, Treatment};
pub use shape::Shape;
pub use statement_cache::StatementCache;

/// The bytes by which a server tells names apart (NAMEDATALEN - 1) \[byte\].
const NAME_MAX: usize = 63;

/// Limits of what is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Names of one client.
    pub client_max: usize,
    /// The size of what these stand for, whoever else has it, and what is to be replied to before
    /// it goes \[byte\].
    pub client_bytes_max: usize,
    /// Statements in the statement cache. An eighth of them, as of their bytes, is for unnamed ones alone.
    pub entries_max: usize,
    /// Their texts \[byte\].
    pub bytes_max: usize,
    /// The text of one, as its Parse or its Query has it \[byte\]; a longer Query is not read.
    pub statement_max: usize,
    /// Prepared statements of one server; at least 1.
    pub server_max: usize,
    /// Replies that one server owes; what comes then waits.
    pub replies_max: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            client_max: 1000,
            client_bytes_max: 8 << 20,
            entries_max: 10_000,
            bytes_max: 64 << 20,
            statement_max: 1 << 20,
            // As `max_prepared_statements` of PgBouncer.
            server_max: 200,
            // No more than a pipeline has room for (`OWED_MAX`).
            replies_max: 4096,
        }
    }
}
