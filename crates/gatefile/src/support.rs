//! The support table: for every key and feature of PgBouncer what becomes of it here. The keys come
//! from the list that reads them, so that the table cannot say anything else.

use super::keys::{Key, Part, Section, Verdict};

/// Something that PgBouncer has and that no key says.
struct Feature {
    group: &'static str,
    name: &'static str,
    /// Once its part has landed.
    verdict: Verdict,
    part: Part,
    why: &'static str,
}

impl Feature {
    fn verdict(&self) -> Verdict {
        if self.part.has_landed() { self.verdict } else { Verdict::NotYet }
    }
}

const fn kept(group: &'static str, name: &'static str, part: Part) -> Feature {
    Feature { group, name, verdict: Verdict::Kept, part, why: "" }
}

const fn better(group: &'static str, name: &'static str, part: Part, why: &'static str) -> Feature {
    Feature { group, name, verdict: Verdict::Better, part, why }
}

const fn missing(group: &'static str, name: &'static str, why: &'static str) -> Feature {
    Feature { group, name, verdict: Verdict::NotYet, part: Part::Unplanned, why }
}

const POOLS: &str = "Pools";
const PROTOCOL: &str = "Protocol";
const LOGIN: &str = "Logins";
const CONSOLE: &str = "Console";
const RUNNING: &str = "Operation";
const FILES: &str = "Files";

const FEATURES: [Feature; 65] = [
    kept(POOLS, "session, transaction and statement mode", Part::Monitor),
    better(
        POOLS,
        "clients wait in line",
        Part::Monitor,
        "Any discipline of the gate; who is refused is told how long it would have taken, and keeps \
         its session.",
    ),
    kept(POOLS, "databases by name, `*` for the rest", Part::Monitor),
    kept(POOLS, "forced user", Part::Login),
    kept(POOLS, "reserve of connections", Part::Quotas),
    better(
        POOLS,
        "list of hosts",
        Part::Servers,
        "Any router of the gate; what is down is left out.",
    ),
    better(
        POOLS,
        "what a session leaves behind in transaction mode",
        Part::SessionState,
        "The client keeps its slot and the ledger says why, or the statement is refused; there it \
         goes wrong in silence.",
    ),
    better(
        POOLS,
        "`currval` and `lastval` in transaction mode",
        Part::SessionState,
        "Three uses are not seen, and may tell another client's value: functions in C, names that code \
         puts together, and what is made past the gate while its connections last. For these \
         `session-state.sequences = \"discard-always\"`. All others never do: from the first text of a \
         pool that names one, and from the beginning where a function, a default, a view, a rule, a \
         trigger's condition, a constraint or a policy of the database does (each connection is asked \
         that once, in a pool at most one a minute), sequences are discarded before each transaction \
         (a question more to the server), so that PostgreSQL says 55000 of what the same transaction \
         has not moved.",
    ),
    missing(
        POOLS,
        "unnamed statements behind a change of a schema that the gate has not seen",
        "The first Bind of a statement of a pool that has other columns since then is answered with 0A000, once \
         for all clients and statements of the pool; then each is parsed anew. In a transaction the failed Bind \
         has ended it. Outside one what the client has sent behind its Sync may have run by then, so that to \
         send the statement again would turn the order round; docs/sessions.md has the whole reason. A \
         change that goes through the gate is seen.",
    ),
    missing(
        POOLS,
        "RESET and DISCARD ALL in transaction mode, for what follows in the same text or pipeline",
        "A client has what its start-up packet set again only behind the text: until then a setting \
         that was reset has the server's own value. Send RESET as a text of its own.",
    ),
    kept(PROTOCOL, "simple and extended queries, pipelines", Part::Monitor),
    better(
        PROTOCOL,
        "prepared statements of the protocol",
        Part::Monitor,
        "Unknown and failed names are answered as PostgreSQL does, and the client stays.",
    ),
    better(
        PROTOCOL,
        "PREPARE, EXECUTE and DEALLOCATE in SQL",
        Part::Monitor,
        "EXECUTE (also of EXPLAIN and CREATE TABLE AS) runs what the client has prepared by the \
         protocol, DEALLOCATE drops it, and PREPARE of its name is 42P05, as in PostgreSQL, on \
         whatever server; there EXECUTE of it is 26000. Not so from within functions and DO, where \
         it is 26000 here too, and pg_prepared_statements shows the gate's names.",
    ),
    kept(PROTOCOL, "COPY", Part::Monitor),
    kept(PROTOCOL, "cancel requests", Part::Monitor),
    missing(
        PROTOCOL,
        "cancel requests handed on to peers",
        "Each process knows its own clients alone; in a takeover the two ask each other.",
    ),
    better(PROTOCOL, "protocol 3.2", Part::Monitor, "Keys of up to 256 bytes towards both sides."),
    kept(PROTOCOL, "replication connections", Part::Replication),
    kept(LOGIN, "`userlist.txt`", Part::Login),
    kept(LOGIN, "trust, any, plain, MD5, SCRAM-SHA-256", Part::Login),
    better(LOGIN, "SCRAM-SHA-256-PLUS", Part::Encryption, "Channel binding; there is none there."),
    kept(LOGIN, "SCRAM pass-through", Part::Login),
    better(
        LOGIN,
        "`auth_query`",
        Part::Lookup,
        "Its default cannot be led astray by a search_path.",
    ),
    better(
        LOGIN,
        "HBA file",
        Part::Login,
        "Its errors have their line, and nobody gets in by one.",
    ),
    kept(LOGIN, "cert", Part::Encryption),
    kept(LOGIN, "peer, ident maps", Part::Login),
    better(
        LOGIN,
        "clients that have not logged in",
        Part::Login,
        "2 kB each at most without TLS, and what is here of a packet that is longer than usual (10,000 bytes at most); \
         and a number of their own (`limits.login-connections`): beyond it the one that has tried for longest makes room, so that silent connections keep nobody out. There they take the places of \
         `max_client_conn`.",
    ),
    missing(LOGIN, "LDAP", "Nobody can be asked."),
    missing(LOGIN, "PAM", "Nobody can be asked."),
    kept(LOGIN, "TLS towards clients and servers", Part::Encryption),
    kept(LOGIN, "direct TLS", Part::Encryption),
    kept(CONSOLE, "SHOW POOLS", Part::Console),
    kept(CONSOLE, "SHOW STATS, STATS_TOTALS, STATS_AVERAGES, TOTALS", Part::Console),
    kept(CONSOLE, "SHOW CLIENTS", Part::Console),
    kept(CONSOLE, "SHOW SERVERS", Part::Console),
    kept(CONSOLE, "SHOW DATABASES", Part::Console),
    kept(CONSOLE, "SHOW USERS", Part::Console),
    kept(CONSOLE, "SHOW LISTS", Part::Console),
    better(
        CONSOLE,
        "SET",
        Part::Console,
        "Whatever RELOAD would take from the file is set at once, and holds until the next RELOAD; a value that \
         the file could not have there is refused with its cause. Of a key that counts at the start alone it says so; \
         and of a gate without a file, which keys need one. A key that changes nothing here is taken as in a file, \
         with a NOTICE that says so.",
    ),
    missing(
        CONSOLE,
        "SHOW CONFIG of every key",
        "It lists what is in force of 31 keys; SET knows the others too.",
    ),
    kept(CONSOLE, "SHOW VERSION", Part::Console),
    kept(CONSOLE, "SHOW STATE", Part::Console),
    missing(CONSOLE, "SHOW PEERS, PEER_POOLS", "There are no peers: the tables are empty."),
    missing(CONSOLE, "SHOW FDS", "A restart does not go by the console; SHOW SOCKETS lists them."),
    kept(CONSOLE, "SHOW SOCKETS, ACTIVE_SOCKETS", Part::Console),
    kept(CONSOLE, "SHOW MEM", Part::Console),
    missing(
        CONSOLE,
        "SHOW DNS_HOSTS, DNS_ZONES",
        "Names are asked of the system's resolver: the tables are empty.",
    ),
    better(
        CONSOLE,
        "what there is beyond PgBouncer",
        Part::Console,
        "SHOW GATE, SLOTS, QUEUE, PINS, MODEL and WHATIF: the gates, slots over several pools and of \
         each server, who waits, who keeps a server, and what other slots would do.",
    ),
    kept(CONSOLE, "PAUSE, RESUME", Part::Console),
    kept(CONSOLE, "DISABLE, ENABLE", Part::Console),
    kept(CONSOLE, "RECONNECT", Part::Console),
    kept(CONSOLE, "KILL", Part::Console),
    kept(CONSOLE, "KILL_CLIENT", Part::Console),
    missing(CONSOLE, "SUSPEND", "PAUSE starts no job until RESUME; clients stay connected."),
    kept(CONSOLE, "SHUTDOWN, and its waiting forms", Part::Console),
    kept(CONSOLE, "WAIT_CLOSE", Part::Console),
    better(
        CONSOLE,
        "RELOAD",
        Part::Reload,
        "It waits for the file to be read, and says what is wrong with it, by key and line.",
    ),
    kept(RUNNING, "SIGHUP reloads", Part::Reload),
    better(RUNNING, "SIGTERM, SIGINT", Part::Monitor, "A drain with an end."),
    better(
        RUNNING,
        "online restart (`-R`)",
        Part::Restart,
        "`take-over`: each client in clear goes over when it has nothing under way, with its settings, \
         statements and cancel key; transactions end where they are; TLS clients are drained. If the \
         new process fails, the old one serves on.",
    ),
    missing(RUNNING, "daemon (`-d`), `-u`, `-q`, `-v`", "It stays in the foreground, as its user."),
    better(
        RUNNING,
        "several processes on a port",
        Part::Monitor,
        "Several workers in one process, with one gate for each pool.",
    ),
    better(
        FILES,
        "`pgbouncer.ini`, `%include`",
        Part::Reading,
        "A key twice, an unknown key and a cycle are told with their lines.",
    ),
    better(FILES, "own format", Part::Reading, "TOML with units; each is translated to the other."),
    kept(FILES, "per-database and per-user settings", Part::Quotas),
];

const HEAD: &str = "\
# PgBouncer's features and keys

What becomes of each in `sekisho gate postgres`: *kept* means the same; *better* is something else in its place, said
beside it; *not yet* does nothing. A file that asks for what does nothing yet is told so with its line, and refused where
going on would let somebody in. Keys and defaults are those of PgBouncer 1.25.

This page is written by the list that reads the files (`crates/gatefile/src`), and a test compares the two.
";

/// The support table as a document (Markdown).
pub fn support() -> String {
    let mut text = HEAD.to_owned();
    text += "\n## Features\n\n| | feature | | |\n| --- | --- | --- | --- |\n";
    for feature in &FEATURES {
        let why = reason(feature.verdict, feature.part, feature.why);
        let (group, name, verdict) = (feature.group, feature.name, feature.verdict().word());
        text += &format!("| {group} | {name} | {verdict} | {why} |\n");
    }
    for section in Section::ALL {
        text += &format!(
            "\n## Keys of [{}]\n\n| key | default | | here | |\n| --- | --- | --- | --- | --- |\n",
            section.name()
        );
        section.keys().iter().for_each(|key| text += &row(section, key));
    }
    text
}

/// The note beside a verdict. For a part that has not landed, what is missing until then comes
/// first.
pub(super) fn reason(in_the_end: Verdict, part: Part, why: &str) -> String {
    if part.has_landed() || in_the_end == Verdict::NotYet {
        return why.to_owned();
    }
    let then = if why.is_empty() { String::new() } else { format!(" Then: {why}") };
    format!("{}{then}", part.missing())
}

fn row(section: Section, key: &Key) -> String {
    let code = |text: &str| format!("`{}`", text.replace('|', "\\|"));
    let default = key.default.map_or_else(|| "not set".to_owned(), code);
    let table = match section {
        Section::Pgbouncer => "",
        Section::Databases => "database.",
        Section::Users => "user.",
        Section::Peers => "peer.",
    };
    let here = key.says.map_or_else(String::new, |path| code(&format!("{table}{path}")));
    let why = key.reason();
    let verdict = key.verdict().word();
    format!("| `{}` | {default} | {verdict} | {here} | {why} |\n", key.name)
}
