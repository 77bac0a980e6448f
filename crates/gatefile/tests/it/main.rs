//! Configurations of the gate for PostgreSQL: both formats, each as the other, and what is wrong.

mod http;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use advise::{Span, Unreachable};
use gate::{KeyDefault, KeyDown, KeyMap, RouterSpec};
use gatefile::{
    Disk, Files, GateFile, Loaded, Method, Mode, Part, Reuse, Role, Slots, Spread, StatePolicy,
    Timeout, TlsMode, TlsVersion, load, read, support, to_monitor, translate,
};
use monitor::Share;
use pgwire::secrets::MockKey;

const INI: &str = include_str!("../fixtures/office.ini");
const TOML: &str = include_str!("../fixtures/office.toml");

/// Files that a test names; every other one stands and is empty, but those called `missing`.
#[derive(Default)]
struct Shelf(BTreeMap<String, String>);

impl Files for Shelf {
    fn text(&self, path: &Path) -> Result<String, String> {
        self.0.get(&path.display().to_string()).cloned().ok_or_else(|| "it is not there".into())
    }

    fn stands(&self, path: &Path) -> Result<(), String> {
        match path.ends_with("missing") {
            true => Err("it is not there".into()),
            false => Ok(()),
        }
    }
}

fn shelf(files: &[(&str, &str)]) -> Shelf {
    Shelf(files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect())
}

fn loaded(name: &str, text: &str) -> Loaded {
    read(name, text, &Shelf::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(name: &str, text: &str) -> String {
    read(name, text, &Shelf::default()).expect_err(text).to_string()
}

/// The contradictions of our good file with `from` replaced by `to`.
fn contradictions(from: &str, to: &str) -> Vec<String> {
    assert!(TOML.contains(from), "`{from}` stands in the file");
    loaded("g.toml", &TOML.replacen(from, to, 1)).contradictions
}

/// The line of the good file, from 1, on which a text stands.
fn line(of: &str) -> usize {
    1 + TOML[..TOML.find(of).expect("it stands there")].matches('\n').count()
}

#[test]
fn our_own_format_is_read_and_what_it_leaves_out_is_as_stated() {
    let Loaded { file, contradictions, .. } = loaded("g.toml", TOML);
    assert_eq!(contradictions, [""; 0]);
    assert_eq!(file.pool.slots, Slots::Auto);
    assert_eq!((file.pool.mode, file.pool.wait_max), (Mode::Transaction, Span(30.0)));
    assert_eq!(file.database[0].server[0].port, 5432);
    assert_eq!(file.database[0].server[1].role, Role::Replica);
    assert_eq!(file.session_state.listen, StatePolicy::Refuse);
    assert_eq!(file.session_state.temporary_tables, StatePolicy::Pin);
    assert_eq!(file.limits.message.0, 8_000_000);
    assert_eq!(file.user[0].query, Some(Timeout::Off));
    assert_eq!(file.tls.servers.mode, TlsMode::Prefer);
    let printed = format!("{file:?}");
    assert!(!printed.contains("quoted"), "a password is not printed: {printed}");
}

#[test]
fn a_file_of_pgbouncer_is_read_with_its_defaults() {
    let Loaded { file, warnings, replaced, unsupported, contradictions } = loaded("o.ini", INI);
    assert_eq!((warnings, contradictions), (Vec::new(), Vec::new()));
    assert_eq!(file.listen, ["localhost:6543", "[::1]:6543"]);
    let socket = file.unix_socket.as_ref().unwrap();
    assert_eq!((&*socket.directory, socket.port, &*socket.mode), ("/run/pooler", 6543, "0770"));
    assert_eq!(file.auth.method, Method::ScramSha256);
    assert_eq!((file.pool.slots, file.pool.reuse), (Slots::Fixed(25), Reuse::Turn));
    assert_eq!(file.pool.reserve_after, Timeout::After(Span(2.5)));
    assert_eq!(file.pool.wait_max, Span(86_400.0), "a wait without end ends after a day");
    assert_eq!(file.connections.idle, Timeout::Off);
    assert_eq!(file.connections.lifetime, Span(3600.0), "a default of PgBouncer");
    assert_eq!(file.startup.ignore, ["extra_float_digits", "options"]);
    assert_eq!(file.limits.database_slots, None);
    assert_eq!(file.limits.user_slots, Some(90));
    assert_eq!(file.tcp.unacknowledged, Some(Span(12.345)));
    assert_eq!(file.tls.clients.min_version, TlsVersion::V13);
    assert!(!file.log.connections && file.log.disconnections);
    let names: Vec<&str> = file.database.iter().map(|database| &*database.name).collect();
    assert_eq!(names, ["orders", "stock", "ledger", "forced", "with space", "*"]);
    let [orders, stock, ledger, forced, spaced, _] = &file.database[..] else { panic!() };
    assert_eq!((&*orders.server[0].host, orders.server[0].port), ("/run/pooler", 5432));
    assert_eq!((stock.slots, stock.reserve), (Some(Slots::Fixed(50)), Some(10)));
    assert_eq!(stock.server[0].port, 5433);
    assert_eq!((ledger.server.len(), ledger.spread), (2, Some(Spread::Stay)));
    assert_eq!(forced.password.as_ref().unwrap().0, "it's a secret");
    assert_eq!(forced.connect_query.as_deref(), Some("SET x = 'y z'"));
    assert_eq!(forced.settings["timezone"], "Asia/Tokyo");
    assert_eq!(spaced.query_user.as_deref(), Some("keeper"));
    // There 0 of a user or a database is what is said for all.
    assert_eq!(file.user[1].client_idle, None);
    let zero = loaded("z.ini", &INI.replace("server_lifetime=900", "server_lifetime=0"));
    let forced = zero.file.database.iter().find(|one| one.name == "forced").unwrap();
    assert_eq!(forced.lifetime, None);
    assert!(replaced.iter().any(|line| line.starts_with("o.ini:20: `logfile`")), "{replaced:?}");
    let of =
        |key: &str| unsupported.iter().any(|one| one.to_string().contains(&format!("`{key}`")));
    assert!(of("application_name_add_host") && of("so_reuseport"), "{unsupported:?}");
}

#[test]
fn what_nothing_is_said_of_is_as_pgbouncer_has_it() {
    let file = loaded("p.ini", "[databases]\na = host=b\n[pgbouncer]\nauth_file = users\n").file;
    assert_eq!((file.pool.mode, file.pool.slots), (Mode::Session, Slots::Fixed(20)));
    assert_eq!((file.limits.connections, file.limits.backlog), (100, 128));
    assert_eq!((file.auth.method, file.listen.len()), (Method::Md5, 0));
    assert_eq!(file.unix_socket.unwrap().directory, "/tmp");
    assert_eq!(file.auth.query, GateFile::default().auth.query);
    assert_eq!((file.pool.wait_max, file.timeouts.login), (Span(120.0), Span(60.0)));
}

#[test]
fn from_ini_to_toml_the_same_is_said() {
    let first = loaded("o.ini", INI).file;
    let text = translate("o.ini", INI, &Shelf::default()).unwrap();
    assert_eq!(loaded("o.toml", &text).file, first, "{text}");
    assert!(text.contains("# Without a counterpart:"), "{text}");
    assert!(text.contains("o.ini:60: `so_reuseport`"), "{text}");
    assert!(text.contains("o.ini:17: `host`"), "what is said of peers: {text}");
    assert!(!text.contains("scram-iterations"), "what holds anyway is left out: {text}");
    // And from there back: it is the same again, but for what PgBouncer alone has.
    let back = translate("o.toml", &text, &Shelf::default()).unwrap();
    assert_eq!(loaded("back.ini", &back).file, first, "{back}");
}

#[test]
fn from_toml_to_ini_what_cannot_be_said_stands_in_comments() {
    let text = translate("g.toml", TOML, &Shelf::default()).unwrap();
    for said in [
        "; PgBouncer has nothing that says:",
        ";   database orders: db2, a replica",
        ";   auto.floor = 4",
        ";   pool.slots = \"auto\"",
        ";   session-state.listen = \"refuse\"",
        ";   user batch: priority = 1",
        ";   admin.http = \"127.0.0.1:9090\"",
        "orders = host=db1 pool_size=12 reserve_pool_size=0 max_db_connections=40",
        "* = host=/run/postgresql user=clerk password='a ''quoted'' secret'",
        "listen_addr = 127.0.0.1, ::1",
        "auth_type = hba",
        "query_wait_timeout = 30",
    ] {
        assert!(text.lines().any(|line| line == said), "`{said}` stands in:\n{text}");
    }
    let weighted = TOML.replace("{ host = \"db1\" }", "{ host = \"db1\", weight = 3 }");
    let told = translate("g.toml", &weighted, &Shelf::default()).unwrap();
    assert!(told.contains(";   database orders: the weight of db1\n"), "{told}");
    let back = loaded("back.ini", &text).file;
    let file = loaded("g.toml", TOML).file;
    assert_eq!((&back.listen, &back.auth, &back.tls), (&file.listen, &file.auth, &file.tls));
    assert_eq!((&back.timeouts, &back.limits), (&file.timeouts, &file.limits));
    assert_eq!(back.database[1], file.database[1]);
}

#[test]
fn every_key_of_a_table_survives_both_ways() {
    // Each general key with a value that is not its default, one file each.
    let values = ["1", "77", "0", "transaction", "require", "tlsv1.3", "hba", "some text"];
    let mut tried = 0;
    for line in support().lines() {
        let Some(key) = line.strip_prefix("| `").and_then(|rest| rest.split('`').next()) else {
            continue;
        };
        for value in values {
            let ini = format!("[databases]\na = host=b\n[pgbouncer]\n{key} = {value}\n");
            let Ok(first) = read("a.ini", &ini, &Shelf::default()) else { continue };
            let toml = translate("a.ini", &ini, &Shelf::default()).unwrap();
            let second = loaded("b.toml", &toml).file;
            assert_eq!(second, first.file, "{ini}{toml}");
            let back = translate("b.toml", &toml, &Shelf::default()).unwrap();
            assert_eq!(loaded("c.ini", &back).file, first.file, "{ini}{toml}{back}");
            tried += 1;
        }
    }
    assert!(tried > 200, "only {tried} were possible");
}

#[test]
fn unknown_keys_and_sections_name_the_nearest_known_one() {
    let error = refused("g.toml", &TOML.replace("slots = 12", "slotz = 12"));
    let at = line("slots = 12");
    assert!(
        error.starts_with(&format!("g.toml:{at}:1: unknown key `slotz`; did you mean `slots`?"))
    );
    assert_eq!(
        refused("p.ini", "[pgbouncer]\npool_mod = session"),
        "p.ini:2: unknown key `pool_mod`; did you mean `pool_mode`?"
    );
    assert_eq!(
        refused("p.ini", "[databases]\na = host=b pool_sise=3"),
        "p.ini:2: `a`: unknown key `pool_sise`; did you mean `pool_size`?"
    );
    assert_eq!(
        refused("p.ini", "[database]"),
        "p.ini:1: unknown section `database`; did you mean `databases`?"
    );
    let wrong = TOML.replace("listen = \"refuse\"", "listen = \"track\"");
    assert!(refused("g.toml", &wrong).contains("known here: pin, refuse"));
}

#[test]
fn what_is_wrong_in_an_ini_has_its_line_and_the_way_out() {
    for (text, told) in [
        ("a = b", "p.ini:1: `a` stands before any section; begin with `[pgbouncer]`"),
        ("[pgbouncer", "p.ini:1: a section's name ends with `]`"),
        ("[pgbouncer] x", "p.ini:1: something follows the section's name; give it a line"),
        ("[pgbouncer]\nverbose", "p.ini:2: `verbose` is no `key = value`"),
        (
            "[pgbouncer]\nverbose = 1\nverbose = 2",
            "p.ini:3: `verbose` stands on line 2 already; remove one of the two lines",
        ),
        (
            "[pgbouncer]\ndefault_pool_size = many",
            "p.ini:2: `default_pool_size`: `many` is no whole number from 0 to 2147483647",
        ),
        (
            "[pgbouncer]\ndefault_pool_size = 99999999999",
            "p.ini:2: `default_pool_size`: `99999999999` is no whole number from 0 to 2147483647",
        ),
        (
            "[pgbouncer]\nquery_timeout = 1e300",
            "p.ini:2: `query_timeout`: `1e300` seconds are more than ten years",
        ),
        (
            "[pgbouncer]\nquery_timeout = -1",
            "p.ini:2: `query_timeout`: `-1` is no number of seconds from 0 up",
        ),
        ("[pgbouncer]\nlisten_port = 70000", "p.ini:2: `70000` is no port from 1 to 65535"),
        ("[pgbouncer]\nlog_stats = yes", "p.ini:2: `log_stats`: `yes` is neither 0 nor 1"),
        (
            "[pgbouncer]\npool_mode = sessions",
            "p.ini:2: `pool_mode`: `sessions` is not possible; did you mean `session`?",
        ),
        ("[databases]\na = host='b", "p.ini:2: `a`: the value of `host` has no closing mark"),
        ("[databases]\na = host=b host=c", "p.ini:2: `a`: `host` stands there twice; remove one"),
        ("[databases]\na = host= ", "p.ini:2: `a`: `host` has no value; leave it out"),
        (
            "[pgbouncer]\nlogfile = a\0b",
            "p.ini:2: U+0000 stands here, which no text has; is it the right file?",
        ),
        ("[pgbouncer]\n%include ", "p.ini:2: `%include` is followed by a blank and a file's name"),
        (
            "[pgbouncer]\nunix_socket_dir =\n[databases]\na =",
            "p.ini:4: the database has no `host`, and `unix_socket_dir` is empty; say one of them",
        ),
    ] {
        assert_eq!(refused("p.ini", text), told);
    }
    let ldap = refused("p.ini", "[pgbouncer]\nauth_type = ldap");
    assert!(ldap.starts_with("p.ini:2: `auth_type`: `ldap` is not possible; known here: md5"));
}

#[test]
fn files_include_files_but_never_themselves_nor_without_end() {
    let main = "[databases]\na = host=b\n%include more.ini\npool_mode = statement\n";
    let more = "[pgbouncer]\nauth_file = u\npool_mode = session\n%include ./last.ini";
    let last = "; the section goes on\ndefault_pool_size = 7";
    let files = shelf(&[("more.ini", more), ("./last.ini", last)]);
    let loaded = read("m.ini", main, &files).unwrap();
    assert_eq!(loaded.file.pool.slots, Slots::Fixed(7));
    assert_eq!(loaded.file.pool.mode, Mode::Statement);
    assert_eq!(loaded.warnings, ["m.ini:4: `pool_mode` counts; more.ini:3 is overridden"]);

    let cyclic = shelf(&[("a.ini", "%include ./b.ini"), ("./b.ini", "\n%include ././a.ini")]);
    let error = read("c.ini", "%include a.ini", &cyclic).unwrap_err().to_string();
    assert_eq!(error, "./b.ini:2: `././a.ini` includes itself; remove the line");

    let chain: Vec<(String, String)> =
        (0..20).map(|at| (format!("{at}"), format!("%include {}", at + 1))).collect();
    let deep = Shelf(chain.into_iter().collect());
    let error = read("d.ini", "%include 0", &deep).unwrap_err().to_string();
    assert_eq!(error, "9:1: files include files 10 deep; not deeper");

    let twice = |next: usize| format!("%include w{next}\n%include w{next}\n");
    let wide = Shelf((0..10).map(|at| (format!("w{at}"), twice(at + 1))).collect());
    let error = read("w.ini", "%include w0", &wide).unwrap_err().to_string();
    assert!(error.contains("deep") || error.contains("more than 256 files"), "{error}");
    let mut wide = wide;
    wide.0.insert("w8".into(), "; nothing".into());
    let error = read("w.ini", "%include w0", &wide).unwrap_err().to_string();
    assert!(error.ends_with("more than 256 files are included"), "{error}");

    let error = read("n.ini", "%include nowhere", &wide).unwrap_err().to_string();
    assert_eq!(error, "n.ini:1: cannot include nowhere: it is not there");
}

#[test]
fn what_contradicts_itself_is_told_with_its_key_and_line() {
    let told = |from: &str, to: &str| contradictions(from, to).join("\n");
    for (from, to, key, cause) in [
        ("slots = 12", "slots = 0", "database.0.slots", "0 slots let nobody in"),
        ("slots = 12", "slots = 4000000", "database.0.slots", "more than 1048576 slots"),
        (
            "{ host = \"db1\" }",
            "{ host = \"db1\", role = \"replica\" }",
            "database.0.server",
            "replicas and no primary",
        ),
        (
            "{ host = \"db1\" }",
            "{ host = \"db1\", weight = 3 }",
            "database.0.server.0.weight",
            "nothing looks at it",
        ),
        (
            "queues = \"per-server\"",
            "",
            "database.0.server",
            "a replica needs a queue for each server",
        ),
        ("reserve = 0", "reserve = 2", "database.0.reserve", "a reserve needs one queue"),
        (
            "name = \"batch\"",
            "name = \"batch\"\nmode = \"session\"",
            "user.0.mode",
            "not for sessions",
        ),
        ("name = \"*\"", "name = \"rest\"\nmode = \"session\"", "database.1", "not for sessions"),
        ("[limits]", "[health]\n[limits]", "database.0", "say `user` in the table `health`"),
        ("name = \"*\"", "name = \"orders\"", "database.1.name", "stands there twice"),
        ("name = \"*\"", "name = \"pgbouncer\"", "database.1.name", "the console's own name"),
        ("floor = 4", "floor = 41", "auto.floor", "the floor 41 is above the ceiling 40"),
        (
            "users-file = \"userlist.txt\"",
            "users-file = \"missing\"",
            "auth.users-file",
            "it is not there",
        ),
        ("hba-file = \"hba.conf\"", "", "auth.method", "`hba` needs `auth.hba-file`"),
        ("key = \"key.pem\"", "", "tls.clients", "`cert` and `key` belong together"),
        ("mode = \"0700\"", "mode = \"0800\"", "unix-socket.mode", "`0800` is no mode"),
        ("tag = \"kind=report\"", "", "class.1", "the class matches nothing in particular"),
        ("name = \"report\"", "name = \"desk\"", "class.1.name", "give another name"),
        ("deadline = \"250ms\"", "deadline = \"0s\"", "class.0.deadline", "a time of 0"),
        ("wait-max = \"30s\"", "wait-max = \"90000d\"", "pool.wait-max", "more than ten years"),
        ("router = \"shortest-queue\"", "router = \"random\"", "router", "`ties` is of routers"),
        ("\"127.0.0.1:9090\"", "\"here\"", "admin.http", "`here` is no address"),
    ] {
        let told = told(from, to);
        // A key that was taken away is told where its table stands.
        let first = told.split('`').next().unwrap_or_default();
        assert!(first.starts_with("g.toml:") && first.ends_with(": "), "{told}");
        assert!(told.contains(&format!(": `{key}`: ")) && told.contains(cause), "{told}");
    }
    let at = line("slots = 12");
    assert!(told("slots = 12", "slots = 0").starts_with(&format!("g.toml:{at}: ")));
    let at = line("deadline");
    assert!(told("\"250ms\"", "\"0s\"").starts_with(&format!("g.toml:{at}: ")));
    let unranked = contradictions("discipline =", "#");
    assert!(unranked.iter().any(|told| told.contains("`class.0.priority`: nothing looks at it")));
}

/// The story: `gate http` and scenarios knew a time, and this file `"wait"` and `"refuse"` alone.
#[test]
fn an_unreachable_server_is_waited_for_as_long_as_the_file_says() {
    let text = |said: &str| {
        format!(
            "format = 1\nlisten = [\"127.0.0.1:0\"]\nauth.users-file = \"u\"\n\
             pool.unreachable = \"{said}\"\n[[database]]\nname = \"one\"\n\
             server = [{{ host = \"127.0.0.1\" }}]\n"
        )
    };
    for (said, unreachable, limit) in [
        ("5s", Unreachable::AtMost(Span(5.0)), Some(Duration::from_secs(5))),
        ("refuse", Unreachable::Refuse, Some(Duration::ZERO)),
        ("wait", Unreachable::Wait, None),
    ] {
        let Loaded { file, contradictions, .. } = loaded("g.toml", &text(said));
        assert_eq!((file.pool.unreachable, contradictions), (unreachable, Vec::new()));
        let key = MockKey::new([7; 32]);
        let config =
            to_monitor(&file, &shelf(&[("u", "")]), &key).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(config.unreachable_max, limit, "{said}");
    }
    assert_eq!(loaded("g.toml", TOML).file.pool.unreachable, Unreachable::Wait);
    let error = refused("g.toml", &text("later"));
    assert!(error.contains("nor \"refuse\" or \"wait\""), "{error}");
    let told = loaded("g.toml", &text("100000h")).contradictions;
    assert!(told.iter().any(|one| one.contains("pool.unreachable")), "{told:?}");
}

#[test]
fn what_a_job_is_about_is_said_where_it_is_looked_at() {
    let policies = "router = \"shortest-queue\"\nties = \"random\"\n";
    let with = |text: &str| contradictions(policies, &format!("{text}\n"));
    let routed = "router = { by-key = {} }";
    assert!(with(routed)[0].starts_with("g.toml:5: `router`: `by-key` needs to know"));
    let statement = "{ statement = { fingerprint = \"1f\", place = 2 }, type = \"integer\" }";
    let parameter = "{ parameter = 2, type = \"text\" }";
    for key in [parameter, "{ tag = \"shop\" }", statement] {
        assert_eq!(with(&format!("{routed}\nkey = [{key}]")), [""; 0]);
    }
    let ranges = "router = { by-key = { bounds = [10] } }";
    let texts = "router = { by-key = { table = { tokyo = 1 } } }";
    for (router, key, cause) in [
        (routed, "{ parameter = 0 }", "are counted from 1"),
        (routed, "{ tag = \"a\", parameter = 1 }", "say one of the three"),
        (routed, "{ statement = { fingerprint = \"1f\" } }", "say one"),
        (
            routed,
            "{ statement = { fingerprint = \"xyz\", parameter = 1 } }",
            "1 to 16 hexadecimal digits",
        ),
        (ranges, "{ tag = \"a\", type = \"text\" }", "the router goes by numbers"),
        // Found by reading: 42 as a text, as int4 and as int8 were three keys, on up to three servers.
        (routed, "{ parameter = 1 }", "in several forms; say `type = \"integer\"`"),
        (routed, "{ statement = { fingerprint = \"1f\", place = 1 } }", "say `type = \"integer\"`"),
    ] {
        let told = with(&format!("{router}\nkey = [{key}]"));
        assert!(told[0].starts_with("g.toml:6: `key.0`: ") && told[0].contains(cause), "{told:?}");
    }
    assert_eq!(with(&format!("{ranges}\nkey = [{{ parameter = 1 }}]")), [""; 0]);
    let told = with(&format!("{texts}\nkey = [{{ tag = \"city\" }}]"));
    assert!(told[0].contains("what it does not name must have a place"), "{told:?}");
    let told = with("router = { by-key = { down = \"wait\" } }\nkey = [{ tag = \"shop\" }]");
    assert!(told[0].contains("`down = \"wait\"` beside a replica"), "{told:?}");
    assert!(with("key = [{ tag = \"shop\" }]")[0].contains("`key`: nothing looks at it"));
    assert!(
        with("router = \"join-idle-queue\"\nload-information = \"reported\"")[0]
            .contains("nobody reports")
    );
}

#[test]
fn what_contradicts_itself_in_an_ini_is_told_in_its_own_words() {
    let ini = "[databases]\na = host=b pool_size=5 min_pool_size=7\n\
               [pgbouncer]\nauth_type = hba\n";
    assert_eq!(
        loaded("p.ini", ini).contradictions,
        [
            "p.ini:4: `hba` needs `auth_hba_file`; say it",
            "p.ini:2: 7 connections are kept of 5 slots; keep fewer",
        ]
    );
}

/// A maximum over several pools may be less than one of them: then it is what bounds.
#[test]
fn a_maximum_below_a_pool_is_taken_and_bounds_it() {
    for (database, more) in [
        ("a = host=b pool_size=50 max_db_connections=40", ""),
        ("a = host=b pool_size=50", "max_db_connections = 40\n"),
        ("a = host=b pool_size=50", "max_user_connections = 40\n"),
        ("a = host=b", "default_pool_size = 50\nmax_db_connections = 40\n"),
        ("a = host=b", "max_user_connections = 10\n[users]\nu = pool_size=12\n"),
        ("a = host=b", "[users]\nu = pool_size=12 max_user_connections=10\n"),
    ] {
        let ini = format!("[databases]\n{database}\n[pgbouncer]\nauth_file = users\n{more}");
        let read = loaded("p.ini", &ini);
        assert_eq!(read.contradictions, [""; 0], "{ini}");
        let text = translate("p.ini", &ini, &Shelf::default()).unwrap();
        assert_eq!(loaded("p.toml", &text).file, read.file, "{text}");
    }
}

/// The story: with `max_db_connections=1` before two hosts jobs went by turns, and each had a connection made
/// and the other host's closed for it. PgBouncer chooses a host for a new connection alone.
#[test]
fn a_database_without_a_connection_for_each_host_stays_at_one() {
    let stays = |database: &str, more: &str| {
        let ini = format!("[databases]\n{database}\n[pgbouncer]\nauth_file = u\n{more}");
        let Loaded { file, contradictions, .. } = loaded("p.ini", &ini);
        assert_eq!(contradictions, [""; 0], "{ini}");
        let config = to_monitor(&file, &shelf(&[("u", "")]), &MockKey::new([7; 32])).unwrap();
        let database = &config.databases[0];
        assert_eq!(database.scarce, None, "{ini}");
        match (&database.gate.router, database.share) {
            (RouterSpec::RoundRobin, Share::Together) => false,
            (RouterSpec::ByKey { map, down: KeyDown::Next, .. }, Share::Each) => {
                let first = KeyDefault::Server(0);
                assert_eq!(map, &KeyMap::Table { rows: Vec::new(), default: first }, "{ini}");
                // As many as in all: they are at one server.
                assert!(database.gate.servers.iter().all(|server| server.slots == 6), "{ini}");
                true
            }
            other => panic!("{other:?}"),
        }
    };
    let hosts = "a = host=127.0.0.1,127.0.0.2,127.0.0.3 pool_size=6";
    for most in ["max_db_connections", "max_user_connections"] {
        for (number, is_scarce) in [(1, true), (2, true), (3, false), (0, false)] {
            assert_eq!(stays(hosts, &format!("{most} = {number}\n")), is_scarce, "{most} {number}");
        }
    }
    assert!(stays(&format!("{hosts} max_db_connections=2"), "max_db_connections = 9\n"));
    assert!(!stays(&format!("{hosts} max_db_connections=9"), "max_db_connections = 2\n"));
    assert!(stays(&format!("{hosts} reserve_pool_size=2"), "max_db_connections = 1\n"));
}

#[test]
fn no_prepared_statements_there_are_the_usual_number_here() {
    let ini = "[databases]\na = host=b\n[pgbouncer]\nauth_file = u\nmax_prepared_statements = 0\n";
    let read = loaded("p.ini", ini);
    assert_eq!(read.contradictions, [""; 0]);
    assert_eq!(read.file.limits.statements, 200);
    let told = read.replaced.iter().any(|line| line.starts_with("p.ini:5: `max_prepared"));
    assert!(told, "{:?}", read.replaced);
}

#[test]
fn whoever_is_believed_from_afar_is_believed_on_purpose() {
    let file = |listen: &str, more: &str| {
        format!(
            "format = 1\nlisten = [\"{listen}\"]\n[auth]\nmethod = \"trust\"\n{more}\n\
             [[database]]\nname = \"a\"\nserver = [{{ host = \"b\" }}]\n"
        )
    };
    for (listen, more, is_fine) in [
        ("127.0.0.1:1", "", true),
        ("[::1]:1", "", true),
        ("localhost:1", "", true),
        ("0.0.0.0:1", "", false),
        ("*:1", "", false),
        ("localhost.example:1", "", false),
        ("192.168.0.1:1", "trust-remote = true", true),
    ] {
        let found = loaded("t.toml", &file(listen, more)).contradictions;
        assert_eq!(found.is_empty(), is_fine, "{listen}: {found:?}");
        if !is_fine {
            assert!(found[0].starts_with("t.toml:4: `auth.method`: everybody who reaches "));
        }
    }
    let ini = "[databases]\na = host=b\n[pgbouncer]\nlisten_addr = *\nauth_type = trust\n";
    let loaded = loaded("t.ini", ini);
    assert!(loaded.contradictions[0].starts_with("t.ini:5: everybody"), "{loaded:?}");
    assert!(loaded.to_run().is_err());
}

#[test]
fn what_the_gate_does_not_do_yet_is_told_and_refused_where_that_is_unsafe() {
    let ini = |more: &str| format!("[databases]\na = host=b\n[pgbouncer]\nauth_file = u\n{more}\n");
    let harmless = loaded("u.ini", &ini("tcp_socket_buffer = 4096"));
    let one = harmless.unsupported.iter().find(|one| !one.is_unsafe()).expect("it is not done");
    assert_eq!(
        one.to_string(),
        "u.ini:5: `tcp_socket_buffer` does nothing yet: The system chooses the size of its \
         buffers. So it is ignored."
    );
    let guarded = loaded("u.ini", &ini("client_tls_ciphers = HIGH"));
    let error = guarded.to_run().expect_err("it would be unsafe").to_string();
    assert!(error.contains("u.ini:5: `client_tls_ciphers` does nothing yet: "), "{error}");
    assert!(error.contains("to ignore it would be unsafe"), "{error}");
    // Of what is only waiting for a part of the gate, that part is named.
    let waits = loaded("u.ini", &ini("query_wait_timeout = 7")).unsupported;
    let told: Vec<String> = waits.iter().map(ToString::to_string).collect();
    let waiting = "u.ini:5: `query_wait_timeout` does nothing yet: The gate cannot be started from \
                   a file. So it is ignored.";
    assert_eq!(Part::Monitor.has_landed(), !told.iter().any(|told| told == waiting), "{told:?}");
    // What is said as it would be anyway asks for nothing, however it is written.
    assert!(
        loaded("u.ini", &ini("client_tls_ciphers = fast\ndisable_pqexec = 0"))
            .unsupported
            .iter()
            .all(|one| !one.to_string().contains("ciphers") && !one.to_string().contains("pqexec"))
    );
}

#[test]
fn files_that_are_none_are_told() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("files-that-are-none");
    fs::create_dir_all(&folder).unwrap();
    let error = load(&folder.join(".")).unwrap_err().to_string();
    assert!(error.ends_with("it is a directory; name a file in it"), "{error}");
    let bytes = folder.join("bytes.ini");
    fs::write(&bytes, b"[pgbouncer]\n; \xff\xfe\n").unwrap();
    let error = load(&bytes).unwrap_err().to_string();
    assert!(error.ends_with("line 2 is no UTF-8; save the file in that encoding"), "{error}");
    let device = load(Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(device.ends_with("it is a pipe or a device; name a file"), "{device}");
    let good = folder.join("good.toml");
    fs::write(&good, format!("\u{feff}{TOML}")).unwrap();
    let loaded = load(&good).unwrap();
    assert!(loaded.contradictions[0].contains("cannot use userlist.txt"), "{loaded:?}");
    assert!(Disk.stands(&good).is_ok());
    for (text, told) in [
        ("listen = []", ":1: the key `format` is missing; the file begins with `format = 1`"),
        ("format = 2", ":1: `format = 2` is not known; this program reads 1"),
    ] {
        assert_eq!(refused("f.toml", text), format!("f.toml{told}"));
    }
}

#[test]
fn the_support_table_is_what_the_reader_does() {
    let written = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pgbouncer.md");
    let expected = support();
    if fs::read_to_string(&written).ok().as_deref() != Some(&*expected) {
        let new = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pgbouncer.md");
        fs::write(&new, &expected).unwrap();
        panic!("docs/pgbouncer.md says something else; cp {} docs/", new.display());
    }
}

/// Mutations of both files, by a multiplicative generator (Knuth) with a fixed seed: an error or a
/// configuration, but never a panic, and what was read can be written and read again.
#[test]
fn no_mutation_of_a_file_is_a_panic() {
    for (name, text) in [("m.ini", INI), ("m.toml", TOML)] {
        let mut state = 5u64;
        let mut next = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let pieces =
            ["=", "'", "\"", "[", "]", "\n", "%include m.ini", "0", "-", "é", "\0", "{", ".", "#"];
        let mut good = 0;
        for round in 0..1500 {
            let mut chars: Vec<char> = text.chars().collect();
            for _ in 0..=next(3) {
                let at = next(chars.len());
                match next(4) {
                    0 => drop(chars.remove(at)),
                    1 => chars.truncate(at.max(1)),
                    2 => chars.extend_from_within(at..(at + next(200)).min(chars.len())),
                    _ => {
                        let piece = pieces[next(pieces.len())];
                        chars.splice(at..at, piece.chars());
                    }
                }
            }
            let mutant: String = chars.into_iter().collect();
            match read(name, &mutant, &Shelf::default()) {
                Err(error) => {
                    let error = error.to_string();
                    assert!(error.starts_with(name), "round {round}: {error}\n{mutant}");
                }
                Ok(first) => {
                    good += 1;
                    let other = translate(name, &mutant, &Shelf::default()).unwrap();
                    let other_name = if name == "m.ini" { "o.toml" } else { "o.ini" };
                    let second = read(other_name, &other, &Shelf::default());
                    if name == "m.ini" {
                        let second = second.unwrap_or_else(|error| panic!("{error}\n{other}"));
                        assert_eq!(second.file, first.file, "round {round}: {mutant}");
                    }
                }
            }
        }
        assert!(good > 100, "only {good} mutations of {name} could be read");
    }
}

#[test]
fn ten_thousand_databases_are_read() {
    let mut ini = "[pgbouncer]\nauth_file = u\n[databases]\n".to_owned();
    (0..10_000).for_each(|at| ini += &format!("d{at} = host=h{at} pool_size=3\n"));
    let toml = translate("m.ini", &ini, &Shelf::default()).unwrap();
    let loaded = loaded("m.toml", &toml);
    assert_eq!((loaded.file.database.len(), loaded.contradictions.len()), (10_000, 0));
}
