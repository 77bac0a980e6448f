//! Users that no list has: their secrets are looked up in a database while nobody else waits. And
//! those who guess passwords.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use monitor::{
    Admission, Config, Database, LOOKUP_QUERY, Lookup, Mode, Share, TlsMode, UnlistedUsers,
};
use pgwire::auth::{Credential, Method};
use pgwire::secrets::{MockKey, Users};

use super::encrypted_servers::{acting, behind, encrypted_server, named, unnamed, wanted};
use super::{Gate, account, ask, code, config, database, directly, enter, password, runtime};

fn lookup(query: &str) -> Lookup {
    Lookup {
        user: b"sekisho".to_vec(),
        credential: Credential::Password(password()),
        query: query.to_owned(),
        database: None,
    }
}

/// A gate that knows nobody, but where to ask.
fn asking(database: Database) -> Config {
    let mut config = config(database);
    config.users = Users::parse("", MockKey::new([7; 32])).unwrap();
    config
}

fn found(query: &str) -> Config {
    asking(Database { lookup: Some(lookup(query)), ..database(Mode::Transaction, 2) })
}

/// Whoever comes is the same user at the server.
fn forced(query: &str) -> Database {
    let mut database = Database { lookup: Some(lookup(query)), ..database(Mode::Transaction, 2) };
    database.forced = database.login.as_ref().map(|(user, _)| user.clone());
    database
}

fn does(sql: &str) -> String {
    runtime().block_on(async { ask(&directly().await, sql).await.unwrap() })
}

/// As whom a client comes to the server; the code of what it is told if it does not.
async fn comes(gate: &Gate, user: &str, password: &str) -> Result<String, String> {
    let mut account = gate.account();
    account.user(user).password(password);
    let client = enter(&account).await.map_err(|error| code(&error))?;
    ask(&client, "select current_user").await.map_err(|error| code(&error))
}

#[test]
fn users_of_the_database_get_in_with_their_own_passwords_while_these_are_valid() {
    does("create role sought login password 'mine'");
    does("create role late login password 'mine' valid until '2000-01-01'");
    does("create role shut password 'mine'");
    does("create role bare login");
    let gate = Gate::new(found(LOOKUP_QUERY));
    runtime().block_on(async {
        for _ in 0..5 {
            assert_eq!(comes(&gate, "sought", "mine").await, Ok("sought".to_owned()));
            assert_eq!(comes(&gate, "sought", "other").await, Err("28P01".to_owned()));
        }
        for user in ["late", "shut", "bare", "nobody", "it's \"quoted\""] {
            for _ in 0..3 {
                assert_eq!(comes(&gate, user, "mine").await, Err("28P01".to_owned()), "{user}");
            }
        }
    });
    let stats = gate.stats();
    assert!((6..25).contains(&stats.auth_queries), "most were known: {stats:?}");
    assert_eq!((stats.auth_queries_failed, stats.logins_failed), (0, 20), "{stats:?}");
    assert_eq!(stats.pools.len(), 1, "nobody else has a pool: {stats:?}");

    // A new password is found soon after the old one was refused.
    does("alter role sought password 'new'");
    runtime().block_on(async {
        let began = Instant::now();
        while comes(&gate, "sought", "new").await != Ok("sought".to_owned()) {
            assert!(began.elapsed() < Duration::from_secs(30), "{:?}", gate.stats());
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        // And it serves for new connections to the server: there was one before.
        let mut account = gate.account();
        account.user("sought").password("new");
        let clients = [enter(&account).await.unwrap(), enter(&account).await.unwrap()];
        for client in &clients {
            assert_eq!(ask(client, "begin; select current_user").await.unwrap(), "sought");
        }
    });
    gate.end();
    for role in ["sought", "late", "shut", "bare"] {
        does(&format!("drop role {role}"));
    }
}

#[test]
fn users_who_prove_nothing_must_be_known_to_the_database_and_need_no_password() {
    does("create role proven login");
    does("create role unable");
    let mut config = asking(forced(LOOKUP_QUERY));
    config.admission = Admission::Everybody(Method::Trust);
    config.unlisted_users = UnlistedUsers::Refused;
    let gate = Gate::new(config);
    runtime().block_on(async {
        assert_eq!(comes(&gate, "proven", "").await, Ok("sekisho".to_owned()));
        for unknown in ["unable", "nobody"] {
            assert_eq!(comes(&gate, unknown, "").await, Err("28000".to_owned()), "{unknown}");
        }
    });
    assert_eq!(gate.stats().auth_queries, 3);
    gate.end();
    does("drop role proven");
    does("drop role unable");
}

#[test]
fn an_empty_secret_lets_nobody_in() {
    does("create role hollow login");
    for method in [Method::ScramSha256, Method::Md5, Method::Password] {
        // The server is none that would refuse it.
        let query = "select rolname, '' from pg_authid where rolname = $1";
        let mut config = asking(forced(query));
        config.admission = Admission::Everybody(method);
        let gate = Gate::new(config);
        let came = runtime().block_on(comes(&gate, "hollow", ""));
        assert_eq!(came, Err("28P01".to_owned()), "{method:?}");
        gate.end();
    }
    does("drop role hollow");
}

/// What a client is asked for, before it has proved anything: the tag and kind of the message.
fn is_asked(gate: &Gate, user: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(gate.address()).unwrap();
    let name = gate.account().get_dbname().unwrap().to_owned();
    let said = format!("user\0{user}\0database\0{name}\0\0");
    let length = (said.len() + 8) as u32;
    stream
        .write_all(&[&length.to_be_bytes()[..], &[0, 3, 0, 0], said.as_bytes()].concat())
        .unwrap();
    let mut head = [0; 9];
    stream.read_exact(&mut head).unwrap();
    head.to_vec()
}

#[test]
fn who_is_known_cannot_be_told_from_what_is_asked() {
    does("create role scrambled login password 'mine'");
    for method in [Method::ScramSha256, Method::Md5, Method::Password] {
        let mut config = found(LOOKUP_QUERY);
        // The only user of the list has its secret in another form.
        config.users = Users::parse("\"listed\" \"plain\"", MockKey::new([7; 32])).unwrap();
        config.admission = Admission::Everybody(method);
        let gate = Gate::new(config);
        for _ in 0..2 {
            assert_eq!(is_asked(&gate, "nobody"), is_asked(&gate, "scrambled"), "{method:?}");
        }
        gate.end();
    }
    does("drop role scrambled");
}

#[test]
fn what_users_have_made_cannot_stand_in_for_what_is_asked() {
    does("create role planted login password 'mine'");
    does("create table if not exists public.planted (name text, secret text)");
    does(
        "create or replace function public.secret_of(text) returns table (name name, secret text) \
          language sql as 'select rolname, rolpassword from pg_authid where rolname = $1'",
    );
    let refused = [
        ("select name, secret from planted where name = $1", "relation \"planted\" does not exist"),
        ("select rolpassword from pg_authid where rolname = $1", "must return two columns"),
        ("select 'sekisho', rolpassword from pg_authid where rolname = $1", "of another user"),
        (
            "select rolname, rolpassword from pg_authid, generate_series(1, 2) where rolname = $1",
            "several rows",
        ),
        ("no SQL", "syntax error"),
    ];
    for (query, cause) in refused {
        let gate = Gate::new(found(query));
        let came = runtime().block_on(comes(&gate, "planted", "mine"));
        assert_eq!(came, Err("57P03".to_owned()), "{query}");
        let stats = gate.stats();
        assert!(stats.auth_query_fault.as_ref().unwrap().contains(cause), "{query}: {stats:?}");
        gate.end();
    }
    let gate = Gate::new(found("select * from public.secret_of($1)"));
    assert_eq!(runtime().block_on(comes(&gate, "planted", "mine")), Ok("planted".to_owned()));
    gate.end();
    does("drop function public.secret_of(text); drop table public.planted; drop role planted");
}

#[test]
fn nobody_else_waits_for_a_lookup_and_it_ends_by_its_deadline() {
    let mute = |mut stream: TcpStream| drop(stream.read_to_end(&mut Vec::new()));
    let mut elsewhere = database(Mode::Transaction, 1);
    (elsewhere.name, elsewhere.servers) = ("mute".to_owned(), vec![unnamed(acting(mute))]);
    let mut own = database(Mode::Transaction, 1);
    own.lookup = Some(Lookup { database: Some("mute".to_owned()), ..lookup(LOOKUP_QUERY) });
    let mut config = config(own);
    config.databases.push(elsewhere);
    config.timeouts.connect = Duration::from_secs(3);
    let gate = Gate::new(config);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| runtime().block_on(comes(&gate, "sought elsewhere", "mine")));
        gate.until("it is looked up", |stats| stats.auth_queries == 1);
        // Who is known is served; what stands in a list is not looked up.
        runtime().block_on(async {
            let client = gate.connect().await;
            assert_eq!(ask(&client, "select 'served'").await.unwrap(), "served");
        });
        assert_eq!(waits.join().unwrap(), Err("57P03".to_owned()));
    });
    let stats = gate.stats();
    assert_eq!((stats.auth_queries, stats.auth_queries_failed), (1, 1), "{stats:?}");
    gate.end();
}

/// The first server took all of the time, so that no lookup came to the second; and who was looked up
/// elsewhere waited behind those who waited for it.
#[test]
fn a_server_that_does_not_answer_holds_up_no_lookups_elsewhere() {
    does("create role sought_beside login password 'mine'");
    let mute = |mut stream: TcpStream| drop(stream.read_to_end(&mut Vec::new()));
    let mute = unnamed(acting(mute));
    let own = database(Mode::Transaction, 2);
    let looks_in = |name: &str, servers: Vec<_>| {
        let target = Some(own.name.clone());
        let own = Database { target, ..own.clone() };
        let mut secrets = Database { name: format!("secrets of {name}"), ..own.clone() };
        secrets.gate.servers = Share::Each.of(2, servers.len());
        secrets.servers = servers;
        let lookup = Lookup { database: Some(secrets.name.clone()), ..lookup(LOOKUP_QUERY) };
        [secrets, Database { name: name.to_owned(), lookup: Some(lookup), ..own }]
    };
    let mut config = asking(own.clone());
    config.databases.extend(looks_in("dead", vec![mute.clone()]));
    config.databases.extend(looks_in("halved", vec![mute, own.servers[0].clone()]));
    config.timeouts.connect = Duration::from_secs(3);
    let gate = Gate::new(config);
    let comes = |name: &'static str, user: String| {
        let mut account = gate.account();
        account.dbname(name).user(user).password("mine");
        let began = Instant::now();
        let came = runtime().block_on(enter(&account)).map(drop).map_err(|error| code(&error));
        (came, began.elapsed())
    };
    let comes = &comes;
    std::thread::scope(|scope| {
        let dead = [0; 5].map(|_| scope.spawn(|| comes("dead", "nobody".to_owned())));
        let more: Vec<_> =
            (0..5).map(|n| scope.spawn(move || comes("dead", format!("nobody {n}")))).collect();
        gate.until("they are looked up", |stats| stats.auth_queries == 6);
        let (came, took) = comes("halved", "sought_beside".to_owned());
        assert_eq!(came, Ok(()), "after {took:?}: {:?}", gate.stats());
        for waits in dead.into_iter().chain(more) {
            let (came, took) = waits.join().unwrap();
            assert_eq!(came, Err("57P03".to_owned()));
            assert!(
                took < Duration::from_secs(6),
                "it was waited for once, not six times: {took:?}"
            );
        }
    });
    let stats = gate.stats();
    assert_eq!((stats.auth_queries, stats.auth_queries_failed), (7, 6), "{stats:?}");
    gate.end();
    does("drop role sought_beside");
}

#[test]
fn secrets_are_looked_up_on_an_encrypted_way() {
    let full = wanted(TlsMode::VerifyFull, Some("authority.pem"));
    let mut database = behind(named(encrypted_server().port()), &full, "sekisho");
    let (user, credential) = database.login.take().unwrap();
    let query = LOOKUP_QUERY.to_owned();
    database.lookup = Some(Lookup { user, credential, query, database: None });
    let name = account(encrypted_server().url().as_str()).get_dbname().unwrap().to_owned();
    (database.name, database.target) = (name.clone(), Some(name));
    let gate = Gate::new(asking(database.clone()));
    // The rules of the server let this user in with TLS alone, as they do with its secret's keeper.
    assert_eq!(runtime().block_on(comes(&gate, "by_tls", "mine")), Ok("by_tls".to_owned()));
    assert_eq!(runtime().block_on(comes(&gate, "by_tls", "other")), Err("28P01".to_owned()));
    gate.end();
    let other = wanted(TlsMode::VerifyFull, Some("stranger.pem"));
    database.server_tls = monitor::Encryption::load(&other).unwrap();
    let gate = Gate::new(asking(database));
    assert_eq!(runtime().block_on(comes(&gate, "by_tls", "mine")), Err("57P03".to_owned()));
    let fault = gate.stats().auth_query_fault.unwrap();
    assert!(fault.contains("UnknownIssuer"), "{fault}");
    gate.end();
}

#[test]
fn a_forced_user_is_who_comes_to_the_server_whoever_came_to_the_gate() {
    let mut database = database(Mode::Transaction, 2);
    let (user, credential) = database.login.take().unwrap();
    database.forced = Some(user.clone());
    database.login = Some((user, credential));
    for method in [Method::ScramSha256, Method::Password] {
        let mut config = config(database.clone());
        config.users = Users::parse("\"guest\" \"own\"", MockKey::new([7; 32])).unwrap();
        config.admission = Admission::Everybody(method);
        let gate = Gate::new(config);
        runtime().block_on(async {
            let mut account = gate.account();
            account.user("guest").password("own");
            let clients = [enter(&account).await.unwrap(), enter(&account).await.unwrap()];
            for client in &clients {
                assert_eq!(ask(client, "begin; select current_user").await.unwrap(), "sekisho");
            }
            assert_eq!(comes(&gate, "guest", "other").await, Err("28P01".to_owned()));
        });
        gate.end();
    }
}

#[test]
fn wrong_passwords_by_the_hundred_cost_others_nothing() {
    const GUESSERS: usize = 8;
    const GUESSES: usize = 50;
    does("create role guessed login password 'mine'");
    let mut config = found(LOOKUP_QUERY);
    config.users = super::config(database(Mode::Transaction, 1)).users;
    let gate = Gate::new(config);
    std::thread::scope(|scope| {
        for guesser in 0..GUESSERS {
            let gate = &gate;
            scope.spawn(move || {
                runtime().block_on(async {
                    for guess in 0..GUESSES {
                        let user = if guesser % 2 == 0 { "guessed" } else { "sekisho" };
                        let came = comes(gate, user, &format!("guess {guess}")).await;
                        assert_eq!(came, Err("28P01".to_owned()));
                    }
                });
            });
        }
        // Meanwhile somebody works, and somebody with the right password gets in.
        runtime().block_on(async {
            let client = gate.connect().await;
            for n in 0..200 {
                let nonce = n.to_string();
                assert_eq!(ask(&client, &format!("select {nonce}")).await.unwrap(), nonce);
            }
            assert_eq!(comes(&gate, "guessed", "mine").await, Ok("guessed".to_owned()));
        });
    });
    let stats = gate.stats();
    assert_eq!(stats.logins_failed, (GUESSERS * GUESSES) as u64, "{stats:?}");
    assert!(
        stats.auth_queries < (GUESSERS / 2 * GUESSES) as u64,
        "guesses look little up: {stats:?}"
    );
    assert_eq!(stats.auth_queries_failed, 0);
    gate.end();
    does("drop role guessed");
}

#[test]
fn a_database_to_look_up_in_must_be_there() {
    let mut config = found(LOOKUP_QUERY);
    config.databases[0].lookup.as_mut().unwrap().database = Some("nowhere".to_owned());
    let error = monitor::Monitor::bind(config).unwrap_err().to_string();
    assert!(error.contains("looks secrets up in \"nowhere\""), "{error}");
}
