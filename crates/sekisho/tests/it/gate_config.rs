//! `sekisho gate postgres --config`: the gate as a file describes it, PgBouncer's or our own, before a
//! private server with two databases and two users.

use std::fs;
use std::path::Path;

use gatefile::{Disk, translate};
use postgres::{Private, Settings};
use serde_json::Value;

use crate::browser::Scratch;
use crate::command::{Ended, PATIENCE, lines, sekisho, start, until};
use crate::tpcc::ask;

/// A server with a second database, `second`, and a second user, `clerk`.
struct Office {
    server: Private,
    scratch: Scratch,
    /// The first user's password, and the first database.
    password: String,
    first: String,
}

impl Office {
    fn new() -> Office {
        let parameters = vec![("fsync".to_owned(), "off".to_owned())];
        let server = Private::start(&Settings { parameters, ..Settings::default() });
        let server = server.expect("a server starts");
        let url = server.url().as_str().to_owned();
        for sql in ["create database second", "create user clerk password 'paper'"] {
            ask(&url, sql).expect("it may do so");
        }
        let (account, place) = url.split_once('@').expect("there is a password");
        let password = account.rsplit_once(':').expect("there is one").1.to_owned();
        let first = place.split_once('/').expect("there is a database").1.to_owned();
        let scratch = Scratch::new();
        let users = format!("\"sekisho\" \"{password}\"\n\"clerk\" \"paper\"\n");
        fs::write(scratch.join("userlist.txt"), users).expect("it can be written");
        Office { server, scratch, password, first }
    }

    fn ini(&self) -> String {
        let (port, first) = (self.server.port(), &self.first);
        format!(
            "[databases]\n\
             one = host=127.0.0.1 port={port} dbname={first} pool_size=2\n\
             two = host=localhost port={port} dbname=second pool_mode=session\n\
             forced = host=127.0.0.1 port={port} dbname=second user=clerk password=paper\n\
             * = host=127.0.0.1 port={port}\n\
             [users]\n\
             clerk = pool_mode=statement pool_size=1\n\
             [pgbouncer]\n\
             listen_addr = 127.0.0.1\n\
             unix_socket_dir =\n\
             auth_type = scram-sha-256\n\
             auth_file = userlist.txt\n\
             pool_mode = transaction\n\
             tcp_socket_buffer = 4096\n"
        )
    }

    fn folder(&self) -> std::path::PathBuf {
        self.scratch.join("")
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.scratch.join(name), text).expect("it can be written");
    }
}

/// Address at which a gate listens that has said so in JSON.
fn listening(said: &str) -> String {
    let object: Value = serde_json::from_str(said.lines().next().expect("a line")).expect("JSON");
    object["listening"].as_str().expect("an address").to_owned()
}

/// True if a session may ask for a second time in a transaction.
fn in_block(url: &str) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("it has nothing behind it").block_on(async {
        let (client, connection) =
            tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("it gets in");
        tokio::spawn(connection);
        client.simple_query("begin").await.is_ok() && client.simple_query("select 1").await.is_ok()
    })
}

#[track_caller]
fn refused(folder: &Path, words: &[&str]) -> String {
    let ended = sekisho(folder, &[&["gate", "postgres"], words].concat());
    assert_eq!(ended.code, 2, "{ended:?}");
    // As one line, however it was broken.
    ended.err.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_gate_runs_from_either_kind_of_file() {
    let office = Office::new();
    let folder = office.folder();
    office.write("gate.ini", &office.ini());
    let translated = translate("gate.ini", &office.ini(), &Disk).expect("it can be");
    // Where nothing is said of it in the file, the command line says where clients connect to.
    let elsewhere: Vec<&str> =
        translated.lines().filter(|line| !line.starts_with("listen = ")).collect();
    assert!(elsewhere.len() < translated.lines().count(), "{translated}");
    office.write("gate.toml", &elsewhere.join("\n"));
    for name in ["gate.ini", "gate.toml"] {
        let words = ["gate", "postgres", "--config", name, "--listen", "127.0.0.1:0", "--json"];
        let running = start(&folder, &words);
        let address = listening(&running.says("\n"));
        let through = |user: &str, password: &str, database: &str, sql: &str| {
            ask(&format!("postgresql://{user}:{password}@{address}/{database}"), sql)
        };
        let own = office.password.as_str();
        let sql = "select current_database() || ' ' || current_user";
        let first = format!("{} sekisho", office.first);
        assert_eq!(through("sekisho", own, "one", sql).unwrap(), [first], "{name}");
        assert_eq!(through("clerk", "paper", "two", sql).unwrap(), ["second clerk"]);
        assert_eq!(through("sekisho", own, "forced", sql).unwrap(), ["second clerk"]);
        assert_eq!(through("sekisho", own, "second", sql).unwrap(), ["second sekisho"], "by *");
        let code = |error: tokio_postgres::Error| error.code().unwrap().code().to_owned();
        // Its mode is statement, whatever the database's is: nobody else's is.
        let block = |user: &str, password: &str| {
            in_block(&format!("postgresql://{user}:{password}@{address}/two"))
        };
        assert!(!block("clerk", "paper") && block("sekisho", own), "{name}");
        assert_eq!(code(through("clerk", own, "one", sql).unwrap_err()), "28P01");
        // It is in the log, though the file says nothing of one.
        running.complains(" event=error from=127.0.0.1:");
        running.complains(" tls=no sqlstate=28P01 message=\"password authentication failed");
        assert_eq!(code(through("clerk", "paper", "nowhere", sql).unwrap_err()), "3D000");
        // What is no configuration changes nothing, and one that is, drops nobody.
        office.write(name, "[nonsense]\n");
        running.signal("HUP");
        running.complains("event=reload failed=");
        assert_eq!(through("sekisho", own, "forced", sql).unwrap(), ["second clerk"]);
        let fewer = office.ini().replace("forced = ", "other = ");
        let fewer = match name {
            "gate.ini" => fewer,
            _ => translate("gate.ini", &fewer, &Disk).expect("it can be"),
        };
        office.write(name, &fewer);
        running.signal("HUP");
        running.complains("event=reload databases=");
        assert_eq!(through("sekisho", own, "other", sql).unwrap(), ["second clerk"]);
        assert_eq!(code(through("sekisho", own, "forced", sql).unwrap_err()), "3D000");
        running.signal("TERM");
        let ended = running.ended(PATIENCE);
        ended_well(&ended, name, own);
    }
    office.server.stop().expect("it stops");
}

/// The story: of 99 keys of PgBouncer's SET changed 14, and of 46 others it said that the file must be changed and
/// RELOAD be said, which PgBouncer does not ask for.
#[test]
fn keys_that_the_console_sets_count_until_the_file_is_read_again() {
    let office = Office::new();
    let folder = office.folder();
    let ini = format!("{}admin_users = sekisho\n", office.ini());
    office.write("set.ini", &ini);
    office.write("set.toml", &translate("set.ini", &ini, &Disk).expect("it can be"));
    for name in ["set.ini", "set.toml"] {
        let words = ["gate", "postgres", "--config", name, "--listen", "127.0.0.1:0", "--json"];
        let running = start(&folder, &words);
        let address = listening(&running.says("\n"));
        let url = |database: &str| {
            format!("postgresql://sekisho:{}@{address}/{database}", office.password)
        };
        let code = |sql: &str| {
            let told = ask(&url("pgbouncer"), sql)
                .map_err(|error| error.code().unwrap().code().to_owned());
            told.map(drop)
        };
        let shown = |key: &str| configured(&url("pgbouncer"), key);
        assert!(in_block(&url("one")), "in transaction mode");
        assert_eq!(shown("pool_mode"), ("transaction, session, transaction".into(), "yes".into()));
        assert_eq!(code("set query_wait_timeout = 9"), Ok(()));
        assert_eq!(code("set pool_mode = statement"), Ok(()));
        assert!(!in_block(&url("one")), "{name}: it counts at once");
        assert!(in_block(&url("two")), "what a database says itself stays");
        // Each stays beside the others, whichever way it goes.
        assert_eq!(code("set log_disconnections = 0"), Ok(()));
        assert_eq!(shown("query_wait_timeout").0, "9");
        assert!(!in_block(&url("one")), "{name}");
        // What the file could not say changes nothing.
        for wrong in ["pool_mode = often", "auth_file = '/nowhere/at/all'", "auth_type = ldap"] {
            assert_eq!(code(&format!("set {wrong}")), Err("22023".into()), "{wrong}");
        }
        assert!(!in_block(&url("one")), "{name}");
        // What does not count while it runs is told as before.
        assert_eq!(code("set listen_port = 7"), Err("55000".into()));
        // What changes nothing here is taken as in the file.
        assert_eq!(code("set pidfile = x"), Ok(()));
        assert_eq!(code("reload"), Ok(()));
        assert!(in_block(&url("one")), "{name}: the file says so");
        assert_eq!(shown("query_wait_timeout").0, "120");
        assert_eq!(code("set max_db_connections = 3"), Ok(()));
        assert!(in_block(&url("one")), "what was set before the file was read is forgotten");
        running.signal("TERM");
        assert_eq!(running.ended(PATIENCE).code, 0);
    }
    office.server.stop().expect("it stops");
}

/// The value of a key as the console shows it, and whether it says that SET changes it.
fn configured(console: &str, key: &str) -> (String, String) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("it has nothing behind it").block_on(async {
        let (client, connection) =
            tokio_postgres::connect(console, tokio_postgres::NoTls).await.expect("it gets in");
        tokio::spawn(connection);
        let rows = client.simple_query("show config").await.expect("it is shown");
        let found = rows.into_iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) if row.get("key") == Some(key) => {
                let text = |column| row.get(column).unwrap_or_default().to_owned();
                Some((text("value"), text("changeable")))
            }
            _ => None,
        });
        found.unwrap_or_else(|| panic!("no {key}"))
    })
}

/// Every pool was there, all was logged, and nothing that nobody should know.
fn ended_well(ended: &Ended, name: &str, own: &str) {
    assert_eq!(ended.code, 0, "{ended:?}");
    let last = ended.objects().pop().expect("it says how it ended");
    let pools: Vec<String> = last["pools"]
        .as_array()
        .expect("they are a list")
        .iter()
        .map(|pool| {
            format!(
                "{}/{}",
                pool["database"].as_str().expect("a name"),
                pool["user"].as_str().expect("a name")
            )
        })
        .collect();
    let expected = [
        "one/sekisho",
        "two/clerk",
        "forced/clerk",
        "second/sekisho",
        "two/sekisho",
        "nowhere/clerk",
        "other/clerk",
        "forced/sekisho",
    ];
    assert_eq!(pools, expected);
    // Who came and went is told, and no password.
    let logged = |event: &str| ended.err.contains(&format!(" event={event} "));
    assert!(logged("login") && logged("end") && logged("error"), "{ended:?}");
    assert!(!ended.err.contains("paper") && !ended.err.contains(own), "{ended:?}");
    // What does nothing is told with its line, where the file says it.
    let told = ended.err.contains("note: gate.ini:14: `tcp_socket_buffer` does nothing");
    assert_eq!(told, name == "gate.ini", "{ended:?}");
}

/// The story: SIGUSR1 ended a gate that had no access log, with everybody who was in; and `log.access` of a file that
/// was read anew was taken by nobody and told to nobody.
#[test]
fn an_access_log_begins_moves_and_ends_with_a_reload_and_its_signal_harms_no_gate() {
    let office = Office::new();
    let folder = office.folder();
    let toml = translate("gate.ini", &office.ini(), &Disk).expect("it can be");
    let with = |access: &str| office.write("gate.toml", &format!("{access}\n{toml}"));
    with("");
    let words = ["gate", "postgres", "--config", "gate.toml", "--listen", "127.0.0.1:0", "--json"];
    let running = start(&folder, &words);
    let address = listening(&running.says("\n"));
    let asks_of = |database: &str| {
        let url = format!("postgresql://sekisho:{}@{address}/{database}", office.password);
        assert_eq!(ask(&url, "select 1").expect("it serves"), ["1"]);
    };
    let asks = |times: usize| (0..times).for_each(|_| asks_of("one"));
    let reloaded = |access: &str, wanted: &str| {
        with(access);
        running.signal("HUP");
        running.complains(wanted);
    };
    asks(1);
    running.signal("USR1");
    asks(1);
    let [first, moved, second] =
        ["first.log", "first.log.1", "second.log"].map(|name| folder.join(name));
    reloaded("log.access = \"first.log\"", "event=reload databases=");
    asks(2);
    until("two lines", || lines(&first).len() >= 2);
    // One that cannot be written changes nothing, and says so.
    reloaded(
        "log.access = \"no/such/second.log\"",
        "cannot write the access log no/such/second.log",
    );
    running.complains("name a file in a folder that exists");
    asks(1);
    until("three lines", || lines(&first).len() >= 3);
    fs::rename(&first, &moved).expect("it is there");
    running.signal("USR1");
    until("a file of the old name", || {
        asks(1);
        first.exists()
    });
    with("log.access = \"second.log\"");
    running.signal("HUP");
    until("another file", || second.exists());
    until("a line in it", || {
        asks(1);
        !lines(&second).is_empty()
    });
    // Lines of before may still wait to be written where they were to go; what is asked of this database comes behind.
    asks_of("two");
    let is_behind = |path: &Path| lines(path).iter().any(|line| line["database"] == "two");
    until("its line", || is_behind(&second));
    assert!(!is_behind(&first), "nothing goes there any more");
    running.signal("TERM");
    let ended = running.ended(PATIENCE);
    assert_eq!(ended.code, 0, "{ended:?}");
    office.server.stop().expect("it stops");
}

/// A file that a gate could start from, five lines long.
const GOOD: &str = "[databases]\na = host=127.0.0.1\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
                    auth_file = userlist.txt\n";

/// A folder with the users that it names.
fn with_users() -> Scratch {
    let scratch = Scratch::new();
    fs::write(scratch.join("userlist.txt"), "\"a\" \"b\"\n").expect("it can be written");
    scratch
}

#[test]
fn a_file_that_is_none_is_refused_by_line_before_anything_starts() {
    let scratch = with_users();
    let folder = scratch.join("");
    let write = |name: &str, text: &str| fs::write(scratch.join(name), text).unwrap();
    for (name, text, told) in [
        (
            "g.ini",
            format!("{GOOD}pool_mod = session\n"),
            "g.ini:6: unknown key `pool_mod`; did you mean `pool_mode`?",
        ),
        ("g.ini", format!("{GOOD}client_tls_ciphers = HIGH\n"), "to ignore it would be unsafe"),
        ("g.ini", GOOD.replace("userlist.txt", "nothing.txt"), "g.ini:5: cannot use nothing.txt: "),
        (
            "g.ini",
            format!("{GOOD}[users]\na = pool_size=3000000\n"),
            "g.ini:7: more than 1048576 slots are not possible",
        ),
        (
            "g.toml",
            "format = 1\nlisten = [\"127.0.0.1:0\"]\n[[database]]\nname = \"a\"\nslotz = 3\n"
                .into(),
            "g.toml:5:1: unknown key `slotz`; did you mean `slots`?",
        ),
        (
            "g.toml",
            "format = 1\nauth = { users-file = \"userlist.txt\" }\n[[database]]\nname = \"a\"\n\
             server = [{ host = \"127.0.0.1\" }]\n"
                .into(),
            "nobody can connect; say `listen = [\"127.0.0.1:6432\"]`",
        ),
    ] {
        write(name, &text);
        let said = refused(&folder, &["--config", name]);
        assert!(said.contains(told), "{told}\n{said}");
    }
}

#[test]
fn files_that_it_names_and_flags_beside_it_are_refused_by_name() {
    let scratch = with_users();
    let folder = scratch.join("");
    let write = |name: &str, text: &str| fs::write(scratch.join(name), text).unwrap();
    write(
        "users.ini",
        &GOOD.replace("auth_file", "auth_hba_file = userlist.txt\nauth_type = hba\nauth_file"),
    );
    let said = refused(&folder, &["--config", "users.ini"]);
    assert!(said.contains("`auth.hba-file`: userlist.txt: line 1"), "{said}");
    write("hba.conf", "local all all peer map=office\n");
    write(
        "maps.ini",
        &GOOD.replace("auth_file", "auth_hba_file = hba.conf\nauth_type = hba\nauth_file"),
    );
    let said = refused(&folder, &["--config", "maps.ini"]);
    let told = "`auth.hba-file`: hba.conf: line 1: map `office`: no line of `auth.ident-file`";
    assert!(said.contains(told), "{said}");
    // What the file says, no flag says too; and who is trusted comes from this machine.
    let said = refused(&folder, &["--config", "g.toml", "--admin", "boss"]);
    assert!(said.contains("'--config <FILE>' cannot be used with '--admin"), "{said}");
    let said = refused(&folder, &["--config", "g.toml", "--slots", "3"]);
    assert!(said.contains("cannot be used with"), "{said}");
    write("trust.ini", &GOOD.replace("auth_file", "auth_type = trust\nauth_file"));
    let said = refused(&folder, &["--config", "trust.ini", "--listen", "0.0.0.0:0"]);
    assert!(said.contains("is no loopback address"), "{said}");
}

#[test]
fn a_file_is_looked_at_without_a_gate() {
    let scratch = with_users();
    let folder = scratch.join("");
    let write = |name: &str, text: &str| fs::write(scratch.join(name), text).unwrap();
    write("bad.ini", &format!("{GOOD}[users]\na = pool_size=0\n"));
    let said = refused(&folder, &["--check", "bad.ini"]);
    assert!(said.contains("bad.ini:7: 0 slots let nobody in"), "{said}");
    write("good.ini", &format!("{GOOD}tcp_socket_buffer = 4096\n"));
    let ended = sekisho(&folder, &["gate", "postgres", "--check", "good.ini"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    for said in [
        "good.ini: a gate can start with it: 1 database, 1 known user, 1 class\n",
        "note: good.ini:6: `tcp_socket_buffer` does nothing yet:",
        "sekisho gate postgres --config good.ini",
    ] {
        assert!(ended.out.contains(said), "{said}\n{ended:?}");
    }
    assert!(ended.out.lines().all(|line| line.chars().count() <= 80), "{ended:?}");
    let ended = sekisho(&folder, &["gate", "postgres", "--check", "good.ini", "--json"]);
    assert_eq!(ended.object("gate-postgres-check")["databases"][0], "a", "{ended:?}");
    write(
        "odd.ini",
        &format!(
            "{GOOD}client_tls_sslmode = require\nclient_tls_cert_file = good.ini\n\
                               client_tls_key_file = good.ini\n"
        ),
    );
    let said = refused(&folder, &["--check", "odd.ini"]);
    assert!(said.contains("odd.ini: ") && said.contains("good.ini"), "{said}");
}
