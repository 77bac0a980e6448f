//! Every key of PgBouncer 1.25: its default and unit as PgBouncer has them, what becomes of it
//! here, and which key of our own format says the same. Reading, translating and the support table
//! all come from this one list.

use super::support::reason;
use Part::*;
use Unit::*;
use Verdict::*;

/// A part of the gate that lands on its own: what a key needs before it does anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Nothing: reading the file is all.
    Reading,
    /// The event loop, from a file: listening, pools, modes, slots, waiting, cancel.
    Monitor,
    /// Bounds of server connections over several pools, the reserve.
    Quotas,
    /// Clients of a database and of a user at most.
    Clients,
    /// Server connections: how they are opened, checked, reset, kept and replaced.
    Maintenance,
    /// Removal of pools of databases that only `*` names, once nobody needs them.
    Sweeping,
    /// Queries, transactions and clients that take too long.
    Deadlines,
    /// Sockets of the file system, options of TCP, sizes of messages.
    Sockets,
    /// Logins of clients and at servers.
    Login,
    /// Secrets that are looked up in a database.
    Lookup,
    /// Encryption on both sides.
    Encryption,
    /// Several servers behind a database.
    Servers,
    /// Roles of servers: what each may be asked, and its share.
    Roles,
    /// Classes of jobs and what they are about.
    Classes,
    /// Connections for replication.
    Replication,
    /// Session state left by SQL, settings that are tracked.
    SessionState,
    /// The console.
    Console,
    /// The file is read again while the gate runs.
    Reload,
    /// Restart without an end of connections.
    Restart,
    /// Logging.
    Logging,
    /// Nobody builds it yet.
    Unplanned,
}

impl Part {
    /// True once the part is there: the one line that changes when it lands.
    pub fn has_landed(self) -> bool {
        match self {
            Reading => true,
            Monitor => true,
            Quotas => true,
            Clients => true,
            Maintenance => true,
            Sweeping => true,
            Deadlines => true,
            Sockets => true,
            Login => true,
            Lookup => true,
            Encryption => true,
            Servers => true,
            Roles => true,
            Classes => true,
            Replication => true,
            SessionState => true,
            Console => true,
            Reload => true,
            Restart => true,
            Logging => true,
            Unplanned => false,
        }
    }

    /// The sentence for a user who asks for it before.
    pub(super) fn missing(self) -> &'static str {
        match self {
            Reading => "It is read.",
            Monitor => "The gate cannot be started from a file.",
            Quotas => "Only slots of a pool are bounded.",
            Clients => "Only clients in all are bounded.",
            Maintenance => "Server connections are made when they are needed and not checked.",
            Sweeping => "Pools of databases that only `*` names are kept.",
            Deadlines => "Queries and transactions may take as long as they like.",
            Sockets => "Only the address of a TCP socket counts.",
            Login => "Logins do not follow the file.",
            Lookup => "Secrets are not looked up in databases.",
            Encryption => "Connections are not encrypted.",
            Servers => "A database has one server.",
            Roles => "Servers differ in nothing but their address.",
            Classes => "All jobs of a pool are alike.",
            Replication => "They are refused.",
            SessionState => "What SQL leaves in a session is not looked at.",
            Console => "There is no console.",
            Reload => "The file is read at the start alone.",
            Restart => "There is no restart without an end of connections.",
            Logging => "What is logged cannot be chosen.",
            Unplanned => "Nothing follows it.",
        }
    }
}

/// Keys of ours that no key of PgBouncer says, and what they need.
pub(super) const OURS: [(&str, Part); 22] = [
    ("take-over", Restart),
    ("auto", Monitor),
    ("database.server.role", Roles),
    ("database.server.weight", Roles),
    ("database.settings", Maintenance),
    ("user.priority", Classes),
    ("discipline", Monitor),
    ("router", Servers),
    ("length", Servers),
    ("ties", Servers),
    ("load-information", Servers),
    ("queues", Servers),
    ("class", Classes),
    ("key", Classes),
    ("session-state", SessionState),
    ("health", Servers),
    ("pool.early-rejection", Monitor),
    ("pool.own-writes", Roles),
    ("timeouts.stalled", Deadlines),
    ("timeouts.drain-delay", Console),
    ("admin.http", Console),
    ("record", Monitor),
];

/// A sentence about a key of ours, with others in it, in the words of PgBouncer's file.
pub(super) fn in_their_words(path: &str, sentence: &str) -> String {
    let section = match path.split('.').next() {
        Some("database") => Section::Databases,
        Some("user") => Section::Users,
        _ => Section::Pgbouncer,
    };
    let mut sentence = sentence.to_owned();
    for key in section.keys().iter().chain(Section::Pgbouncer.keys()) {
        if let Some(path) = key.says.filter(|_| key.unit != Apart) {
            let (ours, theirs) = (format!("`{path}`"), format!("`{}`", key.name));
            sentence = sentence.replace(&ours, &theirs);
        }
    }
    sentence
}

/// The fate of something that PgBouncer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It means the same.
    Kept,
    /// Something better stands in its place.
    Better,
    /// It does nothing yet.
    NotYet,
}

impl Verdict {
    /// As the support table has it.
    pub fn word(self) -> &'static str {
        match self {
            Kept => "kept",
            Better => "better",
            NotYet => "not yet",
        }
    }
}

/// The notation of a value in PgBouncer's file, and in ours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Unit {
    /// A text; empty is none.
    Text,
    /// A text that may be empty.
    AnyText,
    /// Names with commas between them.
    List,
    /// A whole number.
    Count,
    /// A whole number; 0 is none.
    CountOrNone,
    /// Seconds.
    Seconds,
    /// Seconds; 0 is `"off"`.
    SecondsOrOff,
    /// Seconds; 0 is no such key.
    SecondsOrNone,
    /// Seconds; 0, which is without end there, is a day here.
    SecondsOrDay,
    /// Milliseconds; 0 is no such key.
    MillisOrNone,
    /// Bytes.
    Size,
    /// 0 or 1.
    Switch,
    /// A query; `<empty>` is an empty one, and empty is none.
    Check,
    /// One of these; ours beside it.
    Choice(&'static [(&'static str, &'static str)]),
    /// Read together with others.
    Apart,
}

/// The harm of leaving a key aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aside {
    /// Something is missing, and nobody is hurt: a warning.
    Harmless,
    /// Somebody gets in, or reads along, who should not: an error.
    Unsafe,
}

/// A section of PgBouncer's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Section {
    Pgbouncer,
    Databases,
    Users,
    Peers,
}

impl Section {
    pub(super) const ALL: [Section; 4] =
        [Section::Pgbouncer, Section::Databases, Section::Users, Section::Peers];

    pub(super) fn name(self) -> &'static str {
        match self {
            Section::Pgbouncer => "pgbouncer",
            Section::Databases => "databases",
            Section::Users => "users",
            Section::Peers => "peers",
        }
    }

    pub(super) fn keys(self) -> &'static [Key] {
        match self {
            Section::Pgbouncer => &GENERAL,
            Section::Databases => &DATABASE,
            Section::Users => &USER,
            Section::Peers => &PEER,
        }
    }

    pub(super) fn key(self, name: &str) -> Option<&'static Key> {
        self.keys().iter().find(|key| key.name == name)
    }
}

/// A key of PgBouncer.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    /// PgBouncer's; `None` is not set.
    pub(super) default: Option<&'static str>,
    pub(super) unit: Unit,
    /// Its fate once its part has landed.
    verdict: Verdict,
    pub(super) part: Part,
    /// The key of ours that says the same; in the sections of names, within the entry.
    pub(super) says: Option<&'static str>,
    pub(super) aside: Aside,
    /// Our replacement, or the consequence of its doing nothing.
    pub(super) why: &'static str,
}

impl Key {
    /// Its fate as of now.
    pub(super) fn verdict(&self) -> Verdict {
        if self.part.has_landed() { self.verdict } else { NotYet }
    }

    /// The consequence of its doing nothing yet.
    pub(super) fn lack(&self) -> &'static str {
        if self.verdict == NotYet { self.why } else { self.part.missing() }
    }

    /// The note beside its verdict in the support table.
    pub(super) fn reason(&self) -> String {
        reason(self.verdict, self.part, self.why)
    }

    const fn unit(mut self, unit: Unit) -> Key {
        self.unit = unit;
        self
    }

    const fn part(mut self, part: Part) -> Key {
        self.part = part;
        self
    }

    const fn better(mut self, why: &'static str) -> Key {
        self.verdict = Better;
        self.why = why;
        self
    }

    const fn guards(mut self) -> Key {
        self.aside = Aside::Unsafe;
        self
    }

    const fn lacking(mut self, why: &'static str) -> Key {
        self.verdict = NotYet;
        self.why = why;
        self
    }

    const fn because(mut self, why: &'static str) -> Key {
        self.why = why;
        self
    }
}

/// A key that one of ours says; an empty default is not set.
const fn says(name: &'static str, default: &'static str, unit: Unit, says: &'static str) -> Key {
    Key {
        name,
        default: if default.is_empty() { None } else { Some(default) },
        unit,
        verdict: Kept,
        part: Monitor,
        says: Some(says),
        aside: Aside::Harmless,
        why: "",
    }
}

/// A key that nothing of ours says, and why that is for the better.
const fn needless(name: &'static str, default: &'static str, why: &'static str) -> Key {
    Key { says: None, ..says(name, default, AnyText, "") }.better(why).part(Reading)
}

/// A key that does nothing yet, and what that means.
const fn missing(name: &'static str, default: &'static str, why: &'static str) -> Key {
    let key = Key { says: None, ..says(name, default, AnyText, "") };
    key.lacking(why).part(Unplanned)
}

const MODES: Unit =
    Choice(&[("session", "session"), ("transaction", "transaction"), ("statement", "statement")]);
const TLS_MODES: Unit = Choice(&[
    ("disable", "disable"),
    ("allow", "allow"),
    ("prefer", "prefer"),
    ("require", "require"),
    ("verify-ca", "verify-ca"),
    ("verify-full", "verify-full"),
]);
/// The first of those with one meaning is the one that is written.
const TLS_VERSIONS: Unit = Choice(&[
    ("secure", "1.2"),
    ("tlsv1.3", "1.3"),
    ("all", "1.2"),
    ("legacy", "1.2"),
    ("tlsv1.2,tlsv1.3", "1.2"),
    ("tlsv1.2", "1.2"),
]);
const METHODS: Unit = Choice(&[
    ("md5", "md5"),
    ("scram-sha-256", "scram-sha-256"),
    ("plain", "plain"),
    ("trust", "trust"),
    ("any", "any"),
    ("cert", "cert"),
    ("hba", "hba"),
]);
const STDERR: &str = "The log goes to standard error: the service manager keeps and rotates it.";
const ASIDE_CIPHERS: &str = "The list of ciphers is not followed: rustls offers those of TLS 1.2 \
    and 1.3 that are safe, all of them.";
/// PgBouncer's names for what the library of TLS prefers itself.
const CIPHERS: Unit = Choice(&[
    ("default", "default"),
    ("secure", "default"),
    ("fast", "default"),
    ("normal", "default"),
]);
const RESOLVED_ONCE: &str = "A new address counts when the file is read again.";
const SERVICE: &str = "A service of Windows only; this gate runs on Unix.";

static GENERAL: [Key; 99] = [
    // Where it listens, and as whom.
    needless("logfile", "", STDERR),
    needless(
        "pidfile",
        "",
        "The service manager knows the process; nothing has to be written for that.",
    ),
    says("listen_addr", "", Apart, "listen"),
    says("listen_port", "6432", Apart, "listen"),
    says("unix_socket_dir", "/tmp", Apart, "unix-socket.directory").part(Sockets),
    says("unix_socket_mode", "0777", Apart, "unix-socket.mode").part(Sockets),
    says("unix_socket_group", "", Apart, "unix-socket.group").part(Sockets),
    missing(
        "user",
        "",
        "The process stays the user that started it; start it as this \
        one.",
    )
    .guards(),
    needless("conffile", "", "The file that the command line names is read again at a reload."),
    missing("service_name", "pgbouncer", SERVICE),
    missing("job_name", "pgbouncer", SERVICE),
    // Pools.
    says("pool_mode", "session", MODES, "pool.mode"),
    says("max_client_conn", "100", Count, "limits.connections"),
    says("default_pool_size", "20", Count, "pool.slots"),
    says("min_pool_size", "0", Count, "pool.slots-kept").part(Maintenance),
    says("reserve_pool_size", "0", Count, "pool.reserve").part(Quotas),
    says("reserve_pool_timeout", "5", SecondsOrOff, "pool.reserve-after").part(Quotas),
    says("max_db_connections", "0", CountOrNone, "limits.database-slots").part(Quotas),
    says("max_db_client_connections", "0", CountOrNone, "limits.database-connections")
        .part(Clients),
    says("max_user_connections", "0", CountOrNone, "limits.user-slots").part(Quotas),
    says("max_user_client_connections", "0", CountOrNone, "limits.user-connections").part(Clients),
    says("server_round_robin", "0", Choice(&[("0", "last"), ("1", "turn")]), "pool.reuse"),
    says("track_extra_parameters", "IntervalStyle", List, "startup.track")
        .part(SessionState)
        .better(
            "Settings are tracked whether the server reports them or not; SET is seen in the \
            SQL.",
        ),
    says("ignore_startup_parameters", "", List, "startup.ignore").part(SessionState),
    missing(
        "peer_id",
        "0",
        "A cancel request that a load balancer brings to another process is lost there.",
    ),
    missing("disable_pqexec", "0", "Several statements in one simple query pass.").guards(),
    missing(
        "application_name_add_host",
        "0",
        "The server sees the client's name for itself without its address.",
    ),
    says("stats_period", "60", Seconds, "admin.stats-period").part(Logging),
    says("max_prepared_statements", "200", CountOrNone, "limits.statements").better(
        "Also PREPARE, EXECUTE and DEALLOCATE in SQL, errors as PostgreSQL has them, and no \
         client is cut off for a name. They are followed always: with 0, 200 are kept.",
    ),
    says("scram_iterations", "4096", Count, "auth.scram-iterations").part(Login),
    // Who gets in.
    says("auth_type", "md5", METHODS, "auth.method")
        .part(Login)
        .guards()
        .because("`ldap` and `pam` are refused; with `cert` the name must be the certificate's."),
    says("auth_hba_file", "", Text, "auth.hba-file").part(Login).guards(),
    says("auth_ident_file", "", Text, "auth.ident-file")
        .part(Login)
        .guards()
        .because("Names as they are, and `all`; regular expressions are refused."),
    says("auth_file", "", Text, "auth.users-file").part(Login).guards(),
    says("auth_user", "", Text, "auth.query-user").part(Lookup).guards(),
    says("auth_query", DEFAULT_QUERY, Text, "auth.query")
        .part(Lookup)
        .guards()
        .better("The default names its schema, so that nobody's search_path gets between."),
    says("auth_dbname", "", Text, "auth.query-database").part(Lookup).guards(),
    missing("auth_ldap_options", "", "Nobody can be asked by LDAP.").guards(),
    // Logging.
    needless("syslog", "0", STDERR),
    needless("syslog_ident", "pgbouncer", STDERR),
    needless("syslog_facility", "daemon", STDERR),
    says("log_connections", "1", Switch, "log.connections").part(Logging),
    says("log_disconnections", "1", Switch, "log.disconnections").part(Logging),
    says("log_pooler_errors", "1", Switch, "log.errors").part(Logging),
    says("log_stats", "1", Switch, "log.stats").part(Logging),
    missing("verbose", "0", "There is one degree of detail."),
    // The console.
    says("admin_users", "", List, "admin.users").part(Console).guards(),
    says("stats_users", "", List, "admin.stats-users").part(Console).guards(),
    // Servers.
    missing(
        "server_reset_query",
        "DISCARD ALL",
        "What a session has left is discarded with DISCARD ALL, where it has left something; no \
         other text takes its place.",
    ),
    missing(
        "server_reset_query_always",
        "0",
        "In transaction mode nothing is run behind each transaction; `session-state` says what \
         becomes of that which a client leaves.",
    )
    .part(SessionState),
    says("server_check_delay", "30", Seconds, "connections.check-after").part(Maintenance),
    says("server_check_query", "<empty>", Check, "connections.check").part(Maintenance),
    missing("server_fast_close", "0", "A session ends before its server connection is replaced."),
    says("server_lifetime", "3600", Seconds, "connections.lifetime"),
    says("server_idle_timeout", "600", SecondsOrOff, "connections.idle"),
    says("server_connect_timeout", "15", SecondsOrDay, "timeouts.connect"),
    says("server_login_retry", "15", Seconds, "connections.retry").part(Maintenance),
    says("client_login_timeout", "60", SecondsOrDay, "timeouts.login"),
    says("autodb_idle_timeout", "3600", SecondsOrOff, "connections.autodb-idle").part(Sweeping),
    missing("dns_max_ttl", "15", RESOLVED_ONCE),
    missing("dns_nxdomain_ttl", "15", "A name without an address is asked for again every 15 s."),
    missing("dns_zone_check_period", "0", RESOLVED_ONCE),
    missing("resolv_conf", "", "Names are asked as the system's own file says."),
    says("query_wait_notify", "5", SecondsOrOff, "timeouts.wait-notice").part(Deadlines),
    // Encryption.
    says("client_tls_sslmode", "disable", TLS_MODES, "tls.clients.mode").part(Encryption).guards(),
    says("client_tls_key_file", "", Text, "tls.clients.key").part(Encryption).guards(),
    says("client_tls_cert_file", "", Text, "tls.clients.cert").part(Encryption).guards(),
    says("client_tls_ca_file", "", Text, "tls.clients.ca").part(Encryption).guards(),
    says("client_tls_protocols", "secure", TLS_VERSIONS, "tls.clients.min-version")
        .part(Encryption)
        .guards()
        .better("Nothing older than TLS 1.2 is spoken, whatever is allowed."),
    missing("client_tls_ciphers", "default", ASIDE_CIPHERS).unit(CIPHERS).guards(),
    missing("client_tls13_ciphers", "", ASIDE_CIPHERS).guards(),
    missing("client_tls_ecdhcurve", "auto", "The curves are those that rustls prefers."),
    needless("client_tls_dheparams", "auto", "Only elliptic curves are used to agree on keys."),
    says("server_tls_sslmode", "prefer", TLS_MODES, "tls.servers.mode").part(Encryption).guards(),
    says("server_tls_ca_file", "", Text, "tls.servers.ca").part(Encryption).guards(),
    says("server_tls_key_file", "", Text, "tls.servers.key").part(Encryption).guards(),
    says("server_tls_cert_file", "", Text, "tls.servers.cert").part(Encryption).guards(),
    says("server_tls_protocols", "secure", TLS_VERSIONS, "tls.servers.min-version")
        .part(Encryption)
        .guards()
        .better("Nothing older than TLS 1.2 is spoken, whatever is allowed."),
    missing("server_tls_ciphers", "default", ASIDE_CIPHERS).unit(CIPHERS).guards(),
    missing("server_tls13_ciphers", "", ASIDE_CIPHERS).guards(),
    // Deadlines.
    says("query_timeout", "0", SecondsOrOff, "timeouts.query").part(Deadlines),
    says("query_wait_timeout", "120", SecondsOrDay, "pool.wait-max").better(
        "Every wait has an end, at most a day; who is refused is told how long it would have \
         taken, and keeps its session.",
    ),
    says("cancel_wait_timeout", "10", SecondsOrDay, "timeouts.cancel"),
    says("client_idle_timeout", "0", SecondsOrOff, "timeouts.client-idle"),
    says("idle_transaction_timeout", "0", SecondsOrOff, "timeouts.idle-transaction"),
    says("transaction_timeout", "0", SecondsOrOff, "timeouts.transaction").part(Deadlines),
    missing(
        "suspend_timeout",
        "10",
        "There is no SUSPEND; a restart waits as `timeouts.drain` \
        says.",
    )
    .part(Restart),
    // Sockets.
    needless(
        "pkt_buf",
        "4096",
        "Buffers are lent to connections while bytes wait, and large \
        enough.",
    ),
    says("max_packet_size", "2147483647", Size, "limits.message").part(Sockets),
    says("listen_backlog", "128", Count, "limits.backlog").part(Sockets),
    needless("sbuf_loopcnt", "5", "Each connection has its turn, whatever its neighbours send."),
    missing("so_reuseport", "0", "One process listens at a port; its `workers` share the work."),
    missing("tcp_defer_accept", "1", "A connection is accepted before it has said something."),
    missing("tcp_socket_buffer", "0", "The system chooses the size of its buffers."),
    says("tcp_keepalive", "1", Switch, "tcp.keepalive").part(Sockets),
    says("tcp_keepcnt", "0", CountOrNone, "tcp.keepalive-count").part(Sockets),
    says("tcp_keepidle", "0", SecondsOrNone, "tcp.keepalive-idle").part(Sockets),
    says("tcp_keepintvl", "0", SecondsOrNone, "tcp.keepalive-interval").part(Sockets),
    says("tcp_user_timeout", "0", MillisOrNone, "tcp.unacknowledged").part(Sockets),
];

/// PgBouncer's own question for a user's secret.
pub(super) const DEFAULT_QUERY: &str = "SELECT rolname, CASE WHEN rolvaliduntil < now() THEN \
    NULL ELSE rolpassword END FROM pg_authid WHERE rolname=$1 AND rolcanlogin";

static DATABASE: [Key; 23] = [
    says("dbname", "", Text, "dbname"),
    says("host", "", Apart, "server"),
    says("port", "5432", Apart, "server"),
    says("user", "", Text, "user").part(Login),
    says("password", "", Text, "password").part(Login),
    says("auth_user", "", Text, "query-user").part(Lookup).guards(),
    says("auth_query", "", Text, "query").part(Lookup).guards(),
    says("auth_dbname", "", Text, "query-database").part(Lookup).guards(),
    says("pool_size", "", Count, "slots").because(
        "Jobs at once; where these are fewer than the hosts, a connection to each host is kept.",
    ),
    says("min_pool_size", "", Count, "slots-kept").part(Maintenance),
    says("reserve_pool_size", "", Count, "reserve").part(Quotas),
    says("reserve_pool", "", Count, "reserve")
        .because("The older name of `reserve_pool_size`.")
        .part(Quotas),
    says("connect_query", "", Text, "connect-query").part(Maintenance),
    says("pool_mode", "", MODES, "mode"),
    says(
        "load_balance_hosts",
        "round-robin",
        Choice(&[("round-robin", "round-robin"), ("disable", "stay")]),
        "spread",
    )
    .part(Servers)
    .better(
        "Routers look at queues and utilisation, and leave out what is down. The slots of a pool \
         are spread evenly; with `disable` the first server has all as long as it is up.",
    ),
    says("max_db_connections", "", CountOrNone, "slots-all").part(Quotas),
    says("max_db_client_connections", "", CountOrNone, "connections-max").part(Clients),
    says("server_lifetime", "", SecondsOrNone, "lifetime").part(Maintenance),
    says("client_encoding", "", Text, "settings.client_encoding").part(Maintenance),
    says("datestyle", "", Text, "settings.datestyle").part(Maintenance),
    says("timezone", "", Text, "settings.timezone").part(Maintenance),
    says("application_name", "", Text, "settings.application_name").part(Maintenance),
    // In no release of 1.25, but in the description of what follows it.
    says("query_wait_timeout", "", SecondsOrDay, "wait-max")
        .because("Newer than 1.25; read all the same."),
];

static USER: [Key; 10] = [
    says("pool_size", "", Count, "slots"),
    says("reserve_pool_size", "", Count, "reserve").part(Quotas),
    says("pool_mode", "", MODES, "mode"),
    says("max_user_connections", "", CountOrNone, "slots-all").part(Quotas),
    says("max_user_client_connections", "", CountOrNone, "connections-max").part(Clients),
    says("query_timeout", "", SecondsOrNone, "query").part(Deadlines),
    says("idle_transaction_timeout", "", SecondsOrNone, "idle-transaction").part(Deadlines),
    says("transaction_timeout", "", SecondsOrNone, "transaction").part(Deadlines),
    says("client_idle_timeout", "", SecondsOrNone, "client-idle").part(Deadlines),
    says("query_wait_timeout", "", SecondsOrDay, "wait-max")
        .because("Newer than 1.25; read all the same."),
];

const PEERS: &str = "Cancel requests are not handed on to other processes.";

static PEER: [Key; 3] =
    [missing("host", "", PEERS), missing("port", "6432", PEERS), missing("pool_size", "", PEERS)];
