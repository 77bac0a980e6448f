//! What a configuration of the gate for PostgreSQL may say: plain values as they are written, and
//! in [`Default`] of each table what holds when nothing is said.

use std::collections::BTreeMap;

use advise::{Bytes, DisciplineEntry, RouterEntry, SightEntry, Span};
use gate::{Length, Ties};
use serde::{Deserialize, Serialize};

use super::values::{Hidden, Slots, Timeout};

/// The format that this program reads and writes.
pub const FORMAT: u32 = 1;

/// A configuration of `sekisho gate postgres`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct GateFile {
    /// The version of this format, [`FORMAT`]; a file without it is none.
    #[serde(default = "no_format")]
    pub format: u32,
    /// Where clients connect to with TCP: `host:port`; `*` is every address of the machine.
    pub listen: Vec<String>,
    /// How many threads read and write; all of them serve all clients.
    pub workers: u32,
    /// Where clients connect to on the same machine.
    pub unix_socket: Option<UnixSocket>,
    /// A socket in the file system where the next gate with this file takes over from this one.
    pub take_over: Option<String>,
    /// Who may come in, and how it is proven.
    pub auth: Auth,
    /// Encryption on both sides.
    pub tls: BothTls,
    /// What holds for each pool, unless its database or user says otherwise.
    pub pool: Pool,
    /// The band in which slots are sought that are `"auto"`.
    pub auto: Auto,
    /// Databases that clients may ask for.
    pub database: Vec<Database>,
    /// What is different for single users.
    pub user: Vec<User>,
    /// Who is next, as in a scenario; left out, first in first out.
    pub discipline: Option<DisciplineEntry>,
    /// Where to, as in a scenario; left out, round robin.
    pub router: Option<RouterEntry>,
    /// What routers count that look at queues.
    pub length: Option<Length>,
    /// Which of several equally good servers.
    pub ties: Option<Ties>,
    /// What the router sees.
    pub sight: Option<SightEntry>,
    /// One queue for all servers of a database, or one for each.
    pub queues: QueuesName,
    /// Classes of jobs; the first that matches holds a job.
    pub class: Vec<ClassEntry>,
    /// What a job is about, for routing by key; the first that is for its statement tells. A job that
    /// tells none has the key 0.
    pub key: Vec<KeyEntry>,
    /// What becomes of that which a client leaves in a session.
    pub leftovers: Leftovers,
    /// What is done with parameters of a session's start.
    pub startup: Startup,
    /// How servers are watched; left out, they are not.
    pub health: Option<Health>,
    /// How connections to servers are kept.
    pub connections: Connections,
    /// How many and how large things may be.
    pub limits: Limits,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// Options of TCP connections.
    pub tcp: Tcp,
    /// Who may look at the gate, and where.
    pub admin: Admin,
    /// What is logged.
    pub log: Log,
    /// Where the gate is recorded, to be replayed and simulated.
    pub record: Option<Record>,
}

/// A file that does not say its format has none.
fn no_format() -> u32 {
    0
}

impl Default for GateFile {
    fn default() -> GateFile {
        GateFile {
            format: FORMAT,
            listen: Vec::new(),
            workers: 1,
            unix_socket: None,
            take_over: None,
            auth: Auth::default(),
            tls: BothTls::default(),
            pool: Pool::default(),
            auto: Auto::default(),
            database: Vec::new(),
            user: Vec::new(),
            discipline: None,
            router: None,
            length: None,
            ties: None,
            sight: None,
            queues: QueuesName::Shared,
            class: Vec::new(),
            key: Vec::new(),
            leftovers: Leftovers::default(),
            startup: Startup::default(),
            health: None,
            connections: Connections::default(),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            tcp: Tcp::default(),
            admin: Admin::default(),
            log: Log::default(),
            record: None,
        }
    }
}

/// A socket in the file system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct UnixSocket {
    /// The directory that it is made in; its name is `.s.PGSQL.` and the port.
    pub directory: String,
    /// The port in its name.
    #[serde(default = "listen_port")]
    pub port: u16,
    /// Who may connect, in octal digits.
    #[serde(default = "socket_mode")]
    pub mode: String,
    /// The group that it belongs to; left out, that of the process.
    #[serde(default)]
    pub group: Option<String>,
}

fn listen_port() -> u16 {
    6432
}

fn socket_mode() -> String {
    "0777".into()
}

/// One queue for all servers of a database, or one for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueuesName {
    /// One for all.
    Shared,
    /// One for each, chosen at arrival.
    PerServer,
}

/// Who may come in, and how it is proven.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Auth {
    /// How clients prove who they are.
    pub method: Method,
    /// Users and their secrets, as `userlist.txt` has them.
    pub users_file: Option<String>,
    /// Who may come from where, as `pg_hba.conf` has it.
    pub hba_file: Option<String>,
    /// Which names of the system or of certificates are which users, as `pg_ident.conf` has it.
    pub ident_file: Option<String>,
    /// As whom secrets are looked up that are in no file; left out, they are not.
    pub query_user: Option<String>,
    /// What is asked then: `$1` is the user, the row has a name and a secret.
    pub query: String,
    /// In which database, by its name here; left out, in the one that the client asks for.
    pub query_database: Option<String>,
    /// Iterations of SCRAM secrets that are made here of passwords.
    pub scram_iterations: u32,
    /// Whether clients of other machines are believed without a proof.
    pub trust_remote: bool,
}

impl Default for Auth {
    fn default() -> Auth {
        Auth {
            method: Method::ScramSha256,
            users_file: None,
            hba_file: None,
            ident_file: None,
            query_user: None,
            query: "SELECT rolname, CASE WHEN rolvaliduntil < pg_catalog.now() THEN NULL \
                    ELSE rolpassword END FROM pg_catalog.pg_authid WHERE rolname = $1 \
                    AND rolcanlogin"
                .into(),
            query_database: None,
            scram_iterations: 4096,
            trust_remote: false,
        }
    }
}

/// How clients prove who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Every name is believed, if the user is known.
    Trust,
    /// Every name is believed and none counts: all databases have a forced user.
    Any,
    /// A password in clear text.
    Plain,
    /// PostgreSQL's older hash; SCRAM for those who have a SCRAM secret.
    Md5,
    /// SCRAM-SHA-256.
    #[serde(rename = "scram-sha-256")]
    ScramSha256,
    /// A certificate of the client.
    Cert,
    /// What the HBA file says.
    Hba,
}

/// Encryption on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct BothTls {
    /// Towards clients.
    pub clients: Tls,
    /// Towards servers.
    pub servers: Tls,
}

impl Default for BothTls {
    fn default() -> BothTls {
        let of =
            |mode| Tls { mode, cert: None, key: None, ca: None, min_version: oldest_version() };
        BothTls { clients: of(TlsMode::Disable), servers: of(TlsMode::Prefer) }
    }
}

/// Encryption on one side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tls {
    /// Whether it must be.
    pub mode: TlsMode,
    /// Our certificate and its chain, PEM.
    pub cert: Option<String>,
    /// Its private key, PEM.
    pub key: Option<String>,
    /// Who may sign certificates of the other side, PEM.
    pub ca: Option<String>,
    /// The oldest version that is spoken; left out, 1.2.
    #[serde(default = "oldest_version")]
    pub min_version: TlsVersion,
}

fn oldest_version() -> TlsVersion {
    TlsVersion::V12
}

/// Whether encryption must be, and what is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlsMode {
    /// None.
    Disable,
    /// If the other side wishes.
    Allow,
    /// If the other side can.
    Prefer,
    /// Always; no certificate is verified.
    Require,
    /// Always; the certificate's signature is verified.
    VerifyCa,
    /// Always; signature and name are verified.
    VerifyFull,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TlsVersion {
    /// 1.2
    #[serde(rename = "1.2")]
    V12,
    /// 1.3
    #[serde(rename = "1.3")]
    V13,
}

/// What holds for each pool: (database, user) as the client asked for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Pool {
    /// What a client holds a server connection for.
    pub mode: Mode,
    /// Server connections at most.
    pub slots: Slots,
    /// Server connections that are kept open although nobody needs them.
    pub slots_kept: u32,
    /// Further server connections for clients that have waited long; of several servers each has its
    /// part, rounded up.
    pub reserve: u32,
    /// How long that is; `"off"` leaves the reserve alone.
    pub reserve_after: Timeout,
    /// The longest wait for a slot.
    pub wait_max: Span,
    /// Clients that may wait.
    pub room: u64,
    /// For how long it is remembered how fast a queue moves: a job is refused at once that would wait
    /// in vain at that rate. `"off"` refuses none so.
    pub foresight: Timeout,
    /// For how long a client's reads do not go to replicas after it may have written, so that it finds
    /// what it wrote.
    pub own_writes: Span,
    /// Which idle connection is taken.
    pub reuse: Reuse,
}

impl Default for Pool {
    fn default() -> Pool {
        Pool {
            mode: Mode::Transaction,
            slots: Slots::Fixed(20),
            slots_kept: 0,
            reserve: 0,
            reserve_after: Timeout::After(Span(5.0)),
            wait_max: Span(120.0),
            room: 10_000,
            foresight: Timeout::After(Span(60.0)),
            own_writes: Span(10.0),
            reuse: Reuse::Last,
        }
    }
}

/// What a client holds a server connection for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// All of its connection.
    Session,
    /// A transaction.
    Transaction,
    /// A statement; transactions of several are refused.
    Statement,
}

/// Which idle connection is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reuse {
    /// The one used last, so that few have most of the work.
    Last,
    /// One after the other.
    Turn,
}

/// The band in which slots are sought that are `"auto"`, at each server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Auto {
    /// Slots are never fewer.
    pub floor: u32,
    /// Slots are never more.
    pub ceiling: u32,
    /// Whether it only says what it would do; the slots stay at the ceiling.
    pub shadow: bool,
}

impl Default for Auto {
    fn default() -> Auto {
        Auto { floor: 1, ceiling: 100, shadow: false }
    }
}

/// A database that clients may ask for. What is left out is as the pool's table has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Database {
    /// Its name for clients; `*` is every name that stands nowhere.
    pub name: String,
    /// The PostgreSQL servers that have it.
    pub server: Vec<ServerEntry>,
    /// Its name at the servers; left out, as the client says.
    pub dbname: Option<String>,
    /// As whom every client logs in; left out, as itself.
    pub user: Option<String>,
    /// The forced user's password; left out, the users file has its secret.
    pub password: Option<Hidden>,
    /// What a client holds a server connection for.
    pub mode: Option<Mode>,
    /// Server connections of a pool at most.
    pub slots: Option<Slots>,
    /// Server connections of a pool that are kept open.
    pub slots_kept: Option<u32>,
    /// Server connections of all its pools at most; left out, as `limits.database-slots`.
    pub slots_all: Option<u32>,
    /// Further server connections for clients that have waited long.
    pub reserve: Option<u32>,
    /// The longest wait for a slot.
    pub wait_max: Option<Span>,
    /// Clients that may wait.
    pub room: Option<u64>,
    /// Clients at most; left out, as `limits.database-connections`.
    pub connections_max: Option<u32>,
    /// After how long a server connection is replaced.
    pub lifetime: Option<Span>,
    /// What is asked on a fresh server connection before clients have it.
    pub connect_query: Option<String>,
    /// Which server a new connection goes to.
    pub spread: Option<Spread>,
    /// As whom secrets are looked up.
    pub query_user: Option<String>,
    /// What is asked for them.
    pub query: Option<String>,
    /// In which database.
    pub query_database: Option<String>,
    /// Settings that its server connections start with.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

/// A PostgreSQL server of a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ServerEntry {
    /// A name, an address, or the directory of its socket.
    pub host: String,
    /// Its port.
    #[serde(default = "server_port")]
    pub port: u16,
    /// Its share of the jobs, in whole numbers; `router = "weighted"` goes by it.
    #[serde(default = "server_weight", skip_serializing_if = "is_usual_weight")]
    pub weight: u32,
    /// What it may be asked.
    #[serde(default = "server_role", skip_serializing_if = "is_usual_role")]
    pub role: Role,
}

/// PostgreSQL's own.
pub(super) fn server_port() -> u16 {
    5432
}

fn server_weight() -> u32 {
    1
}

fn is_usual_weight(weight: &u32) -> bool {
    *weight == server_weight()
}

fn server_role() -> Role {
    Role::Primary
}

fn is_usual_role(role: &Role) -> bool {
    *role == server_role()
}

/// What a server may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Everything.
    Primary,
    /// What only reads.
    Replica,
}

/// Which server of several a new connection goes to, where no router decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// One after the other.
    RoundRobin,
    /// The same until it fails.
    Stay,
}

/// What is different for a user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct User {
    /// The name.
    pub name: String,
    /// What a client holds a server connection for.
    pub mode: Option<Mode>,
    /// Server connections of a pool at most.
    pub slots: Option<Slots>,
    /// Server connections of all its pools at most; left out, as `limits.user-slots`.
    pub slots_all: Option<u32>,
    /// Further server connections for clients that have waited long.
    pub reserve: Option<u32>,
    /// Clients at most; left out, as `limits.user-connections`.
    pub connections_max: Option<u32>,
    /// Importance of its jobs that no class holds; larger goes first.
    pub priority: Option<u8>,
    /// The longest wait for a slot.
    pub wait_max: Option<Span>,
    /// How long a query may take.
    pub query: Option<Timeout>,
    /// How long a transaction may be open.
    pub transaction: Option<Timeout>,
    /// How long an open transaction may say nothing.
    pub idle_transaction: Option<Timeout>,
    /// How long a client may say nothing.
    pub client_idle: Option<Timeout>,
}

/// A class of jobs. Everything that it names must match; it names something. A `*` at the end of a
/// name or a tag's value stands for all that begin so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ClassEntry {
    /// Its name, in tables and in policies.
    pub name: String,
    /// Jobs of this user.
    pub user: Option<String>,
    /// Jobs at this database, by its name for clients.
    pub database: Option<String>,
    /// Jobs of clients that call themselves so.
    pub application_name: Option<String>,
    /// Jobs whose statement says so in a comment: `key=value`.
    pub tag: Option<String>,
    /// Jobs whose first statement has this fingerprint, in hexadecimal digits.
    pub fingerprint: Option<String>,
    /// Its importance; larger goes first.
    #[serde(default)]
    pub priority: u8,
    /// The longest wait of its jobs, if that is shorter than the pool's.
    pub deadline: Option<Span>,
}

/// Where it stands what a job is about: `parameter`, `tag` or `statement`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct KeyEntry {
    /// A parameter of its first statement, counted from 1; what stands behind is not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<u16>,
    /// The value that a comment gives to this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// What stands in a statement of a fingerprint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statement: Option<StatementKey>,
    /// How it is read; left out, as the router needs it: an integer for `bounds` and for a table of
    /// numbers, else a text.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<KeyKind>,
}

/// What stands in a statement: `parameter` or `place`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct StatementKey {
    /// The fingerprint, in hexadecimal digits.
    pub fingerprint: String,
    /// Which parameter, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<u16>,
    /// Which of its literals and parameters, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<u16>,
}

/// How a key is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyKind {
    /// As an integer of 2, 4 or 8 bytes.
    Integer,
    /// As a text.
    Text,
}

/// What becomes of that which a client leaves in a session, in transaction and statement mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Leftovers {
    /// LISTEN.
    pub listen: Leftover,
    /// Advisory locks of a session.
    pub advisory_locks: Leftover,
    /// Temporary tables.
    pub temporary_tables: Leftover,
    /// Cursors that outlive their transaction.
    pub held_cursors: Leftover,
    /// PREPARE in SQL.
    pub prepare: Leftover,
    /// SET and what sets without it.
    pub set: SetLeftover,
    /// SET ROLE.
    pub role: SetLeftover,
    /// SET SESSION AUTHORIZATION.
    pub session_authorization: Leftover,
    /// LOAD.
    pub load: Leftover,
    /// DO and CALL, which may do anything unseen.
    pub code: CodeLeftover,
}

impl Default for Leftovers {
    fn default() -> Leftovers {
        Leftovers {
            listen: Leftover::Pin,
            advisory_locks: Leftover::Pin,
            temporary_tables: Leftover::Pin,
            held_cursors: Leftover::Pin,
            prepare: Leftover::Pin,
            set: SetLeftover::Track,
            role: SetLeftover::Track,
            session_authorization: Leftover::Pin,
            load: Leftover::Pin,
            code: CodeLeftover::Clean,
        }
    }
}

/// What becomes of something that would be left in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Leftover {
    /// The client keeps its slot.
    Pin,
    /// The statement is refused.
    Refuse,
}

/// What becomes of a setting of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SetLeftover {
    /// The client keeps its slot.
    Pin,
    /// The statement is refused.
    Refuse,
    /// It is set again wherever the client is served.
    Track,
}

/// What becomes of what code may leave in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CodeLeftover {
    /// It is trusted to leave nothing.
    Trust,
    /// All that it can have left is cleaned up behind it.
    Clean,
    /// The client keeps its slot.
    Pin,
    /// The statement is refused.
    Refuse,
}

/// How servers are watched: on a connection of its own each is asked whether it answers, whether it
/// takes writes, and how far it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Health {
    /// As whom they are asked, with the secret of the users file; left out, as the forced user of the
    /// database. Databases that only `*` names are not watched.
    pub user: Option<String>,
    /// From one question to the next; whole seconds count.
    pub interval: Span,
    /// How long an answer may take.
    pub timeout: Span,
    /// A server is down that has not answered so many in a row.
    pub failures_max: u32,
    /// A replica that is further behind is left alone; `"off"` is no bound.
    pub lag_max: Timeout,
}

impl Default for Health {
    fn default() -> Health {
        Health {
            user: None,
            interval: Span(2.0),
            timeout: Span(5.0),
            failures_max: 3,
            lag_max: Timeout::After(Span(10.0)),
        }
    }
}

/// What is done with parameters of a session's start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Startup {
    /// Parameters that follow a client from server to server, beside those that PostgreSQL's
    /// drivers always send.
    pub track: Vec<String>,
    /// Parameters that are taken and not passed on.
    pub ignore: Vec<String>,
}

impl Default for Startup {
    fn default() -> Startup {
        Startup { track: vec!["IntervalStyle".into()], ignore: Vec::new() }
    }
}

/// How connections to servers are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Connections {
    /// After how long one is replaced.
    pub lifetime: Span,
    /// How long one is kept that nobody needs.
    pub idle: Timeout,
    /// For how long one counts as alive without a check.
    pub check_after: Span,
    /// What checks it; `"off"` is no check, an empty text an empty query.
    pub check: String,
    /// How long a server that let nobody in is left alone.
    pub retry: Span,
    /// How long pools of databases are kept that only `*` names.
    pub unnamed: Timeout,
}

impl Default for Connections {
    fn default() -> Connections {
        Connections {
            lifetime: Span(3600.0),
            idle: Timeout::After(Span(600.0)),
            check_after: Span(30.0),
            check: String::new(),
            retry: Span(15.0),
            unnamed: Timeout::After(Span(3600.0)),
        }
    }
}

/// How many and how large things may be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Limits {
    /// Clients.
    pub connections: u32,
    /// Clients of a database; left out, any number.
    pub database_connections: Option<u32>,
    /// Clients of a user; left out, any number.
    pub user_connections: Option<u32>,
    /// Server connections of all pools; left out, any number.
    pub slots: Option<u32>,
    /// Server connections of a database; left out, any number.
    pub database_slots: Option<u32>,
    /// Server connections of a user; left out, any number.
    pub user_slots: Option<u32>,
    /// Prepared statements that a server connection keeps.
    pub statements: u32,
    /// A message of the protocol.
    pub message: Bytes,
    /// Connections that wait to be accepted.
    pub backlog: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 10_000,
            database_connections: None,
            user_connections: None,
            slots: None,
            database_slots: None,
            user_slots: None,
            statements: 200,
            message: Bytes(1 << 30),
            backlog: 1024,
        }
    }
}

/// How long things may take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Timeouts {
    /// A client's login.
    pub login: Span,
    /// Connecting and logging in at a server.
    pub connect: Span,
    /// A cancel request's wait.
    pub cancel: Span,
    /// A query; its server connection is cut then.
    pub query: Timeout,
    /// A transaction that is open.
    pub transaction: Timeout,
    /// An open transaction that says nothing.
    pub idle_transaction: Timeout,
    /// A client that says nothing.
    pub client_idle: Timeout,
    /// A client that holds a server connection and takes nothing of what was sent to it.
    pub stalled: Timeout,
    /// A wait after which the client is told that it waits.
    pub wait_notice: Timeout,
    /// What is still open when the gate ends.
    pub drain: Span,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            login: Span(60.0),
            connect: Span(15.0),
            cancel: Span(10.0),
            query: Timeout::Off,
            transaction: Timeout::Off,
            idle_transaction: Timeout::Off,
            client_idle: Timeout::Off,
            stalled: Timeout::After(Span(300.0)),
            wait_notice: Timeout::After(Span(5.0)),
            drain: Span(30.0),
        }
    }
}

/// Options of TCP connections; what is left out is as the system has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tcp {
    /// Whether silent connections are probed.
    pub keepalive: bool,
    /// Probes that may be lost.
    pub keepalive_count: Option<u32>,
    /// Silence before the first.
    pub keepalive_idle: Option<Span>,
    /// Time between two.
    pub keepalive_interval: Option<Span>,
    /// How long what was sent may stay unacknowledged.
    pub unacknowledged: Option<Span>,
}

impl Default for Tcp {
    fn default() -> Tcp {
        Tcp {
            keepalive: true,
            keepalive_count: None,
            keepalive_idle: None,
            keepalive_interval: None,
            unacknowledged: None,
        }
    }
}

/// Who may look at the gate, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Admin {
    /// Users who may do everything on the console.
    pub users: Vec<String>,
    /// Users who may look.
    pub stats_users: Vec<String>,
    /// Over how long the console's averages are.
    pub stats_period: Span,
    /// Where metrics and the live page are served.
    pub http: Option<String>,
}

impl Default for Admin {
    fn default() -> Admin {
        Admin { users: Vec::new(), stats_users: Vec::new(), stats_period: Span(60.0), http: None }
    }
}

/// What is logged, on standard error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Log {
    /// Logins.
    pub connections: bool,
    /// Ends of connections, with the reason.
    pub disconnections: bool,
    /// Errors that clients are told.
    pub errors: bool,
    /// A line of figures every `admin.stats-period`.
    pub stats: bool,
}

impl Default for Log {
    fn default() -> Log {
        Log { connections: true, disconnections: true, errors: true, stats: true }
    }
}

/// Where the gate is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Record {
    /// The file.
    pub file: String,
    /// Steps at most.
    #[serde(default = "record_steps")]
    pub steps_max: u64,
}

fn record_steps() -> u64 {
    1_000_000
}
