//! Several servers: where jobs go by router, by key and by what they declare, and slots beyond the
//! usual ones.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::Duration;

use gate::{
    Action, AtZero, KeyDefault, KeyDown, KeyMap, KeyOf, KeyRow, Length, Queues, Reserve, Role,
    RouterSpec, ServerSpec, Ties, WeightedOrder, Window,
};
use monitor::{Address, Classes, Config, Database, Health, JobClass, Mode, UserTerms};
use pgsession::sql::tokens::LexerMode;
use pgsession::sql::{
    Class, Fingerprint, KeyRule, KeyRules, KeyType, Mapping, Pattern, Rule, Test, Where,
};
use pgwire::frame::Frontend;
use pgwire::message::write;
use pgwire::startup::Version;
use postgres::{Private, Settings};

use super::{
    CONNECTIONS, Gate, Raw, account, ask, database, enter, password, runtime, server, trusting,
};

/// The server of all tests and two more, which have the same password.
pub(super) fn ports() -> [u16; 3] {
    static MORE: OnceLock<[Private; 2]> = OnceLock::new();
    CONNECTIONS.enter();
    let more = MORE.get_or_init(|| [0; 2].map(|_| start()));
    [server().port(), more[0].port(), more[1].port()]
}

/// A database at several servers, each with so many slots.
fn spread(ports: &[u16], slots: u32) -> Database {
    let address = |port: &u16| Address::Tcp(SocketAddr::from(([127, 0, 0, 1], *port)));
    let mut database = database(Mode::Transaction, slots);
    database.servers = ports.iter().map(address).collect();
    database.gate.servers = vec![ServerSpec { slots }; ports.len()];
    database.gate.queues = Queues::PerServer;
    database
}

fn started(gate: &Gate) -> Vec<u64> {
    gate.stats().pools[0].per_server.iter().map(|server| server.started).collect()
}

/// Every router of the gate, over three servers.
fn routers() -> Vec<(RouterSpec, Queues)> {
    let (length, ties) = (Length::InSystem, Ties::Rotate);
    let window = Window::Recent(Duration::from_secs(1));
    let ev = RouterSpec::Ev {
        queue: 1.0,
        utilisation: 1.0,
        length,
        at_zero: AtZero::PlusOne,
        window,
        ties,
    };
    let by_class = |map| RouterSpec::ByKey { of: KeyOf::Class, map, down: KeyDown::Next };
    let table =
        KeyMap::Table { rows: vec![KeyRow { key: 0, server: 2 }], default: KeyDefault::Server(0) };
    let weights = vec![3, 2, 1];
    let rotate = WeightedOrder::Rotate;
    let each = [
        RouterSpec::Random,
        RouterSpec::RoundRobin,
        RouterSpec::ShortestQueue { length, ties },
        RouterSpec::LowestUtilisation { window, ties },
        ev,
        RouterSpec::PowerOfD { d: 2, length, ties },
        RouterSpec::JoinIdleQueue { ties },
        RouterSpec::LeastWork { speed: None, ties },
        RouterSpec::Weighted { weights: weights.clone(), order: rotate },
        RouterSpec::Weighted { weights, order: WeightedOrder::Random },
        by_class(table),
        by_class(KeyMap::Hash),
        by_class(KeyMap::Range { bounds: vec![0, 1] }),
    ];
    let shared = [RouterSpec::RoundRobin, RouterSpec::ShortestQueue { length, ties }];
    let each = each.into_iter().map(|router| (router, Queues::PerServer));
    each.chain(shared.into_iter().map(|router| (router, Queues::Shared))).collect()
}

/// Found here: the keys of a password at one server were shown to the others, whose salts differ, and
/// nobody could log in at two independent servers.
#[test]
fn servers_have_one_password_and_salts_of_their_own() {
    let mut database = spread(&ports(), 1);
    database.gate.router = RouterSpec::RoundRobin;
    let gate = Gate::new(trusting(database));
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    let mut ports = std::collections::BTreeSet::new();
    for _ in 0..6 {
        client.query("select current_setting('port')");
        ports.insert(client.answer().swap_remove(0));
    }
    assert_eq!(ports.len(), 3);
    gate.end();
}

/// What was routed where is what servers were asked, and what the same gate says once more.
#[test]
fn every_router_runs_live_as_its_replay() {
    let ports = ports();
    for (router, queues) in routers() {
        let mut database = spread(&ports, 1);
        (database.gate.router, database.gate.queues) = (router.clone(), queues);
        let gate = Gate::new(trusting(database));
        let mut clients: Vec<Raw> = (0..6).map(|_| Raw::enter(&gate, Version::V3_0, &[])).collect();
        let before = started(&gate);
        let mut asked = BTreeMap::new();
        for _ in 0..5 {
            for client in &mut clients {
                client.query("select current_setting('port')");
            }
            for client in &mut clients {
                let port = client.answer().swap_remove(0).parse::<u16>().unwrap();
                *asked.entry(port).or_insert(0_u64) += 1;
            }
        }
        let after = started(&gate);
        let live: Vec<u64> =
            after.iter().zip(&before).map(|(after, before)| after - before).collect();
        let asked: Vec<u64> =
            ports.iter().map(|port| asked.get(port).copied().unwrap_or(0)).collect();
        assert_eq!(live, asked, "{router:?}");
        assert_eq!(live.iter().sum::<u64>(), 30, "{router:?}");
        match &router {
            RouterSpec::RoundRobin if queues == Queues::PerServer => assert_eq!(live, [10, 10, 10]),
            RouterSpec::Weighted { order: WeightedOrder::Rotate, .. } => {
                assert_eq!(live, [15, 10, 5]);
            }
            RouterSpec::ByKey { map: KeyMap::Table { .. }, .. } => assert_eq!(live, [0, 0, 30]),
            RouterSpec::ByKey { map: KeyMap::Range { .. }, .. } => assert_eq!(live, [0, 30, 0]),
            RouterSpec::ByKey { .. } => assert_eq!(live.iter().max(), Some(&30), "{live:?}"),
            _ => {}
        }
        drop(clients);
        // Its end replays the recording.
        let finished = gate.end();
        let mut recorded = vec![0; 3];
        for step in &finished.recordings[0].as_ref().unwrap().steps {
            for action in &step.actions {
                if let Action::Start { slot, .. } = action {
                    recorded[slot.server as usize] += 1;
                }
            }
        }
        assert_eq!(recorded, after, "{router:?}");
    }
}

fn parse_and_bind(sql: &str, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write::message(&mut out, Frontend::Parse, |out| {
        out.extend_from_slice(format!("\0{sql}\0\0\0").as_bytes());
    });
    bind(&mut out, "", value);
    out
}

fn bind(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    write::message(out, Frontend::Bind, |out| {
        out.extend_from_slice(format!("\0{name}\0\0\0\0\x01").as_bytes());
        out.extend_from_slice(&(value.len() as u32).to_be_bytes());
        out.extend_from_slice(value);
        out.extend_from_slice(b"\0\0");
    });
    write::message(out, Frontend::Execute, |out| out.extend_from_slice(b"\0\0\0\0\0"));
    write::bare(out, Frontend::Sync);
}

#[test]
fn a_key_takes_a_transaction_to_its_server() {
    let ports = ports();
    let fingerprint = |sql: &str| Fingerprint::of(sql.as_bytes(), LexerMode::default()).unwrap();
    let by_parameter = "select current_setting('port') where $1::int8 >= 0";
    let rule = |at| KeyRule { at, of: KeyType::Integer, mapping: Mapping::Number };
    let rules = vec![
        rule(Where::Comment { name: b"key".to_vec() }),
        rule(Where::Parameter { statement: fingerprint(by_parameter), number: 1 }),
        rule(Where::Place {
            statement: fingerprint("select current_setting('port') as of_key where 5 = 5"),
            number: 2,
        }),
    ];
    let mut database = spread(&ports, 2);
    database.gate.router = RouterSpec::ByKey {
        of: KeyOf::Key,
        map: KeyMap::Range { bounds: vec![100, 200] },
        down: KeyDown::Wait,
    };
    database.keys = KeyRules::new(rules);
    database.key_default = 150;
    let gate = Gate::new(trusting(database));
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    let mut out = Vec::new();
    write::message(&mut out, Frontend::Parse, |out| {
        out.extend_from_slice(format!("named\0{by_parameter}\0\0\0").as_bytes());
    });
    write::bare(&mut out, Frontend::Sync);
    client.say(&out);
    client.answer();
    let query = |sql: &str| {
        let mut out = Vec::new();
        write::query(&mut out, sql);
        out
    };
    let named = |value: &[u8]| {
        let mut out = Vec::new();
        bind(&mut out, "named", value);
        out
    };
    let plain = "select current_setting('port')";
    for (words, server, missing) in [
        (query(plain), 1, 0),
        (query(&format!("{plain} /*key='7'*/")), 0, 0),
        (query(&format!("{plain} /*key='200'*/")), 2, 0),
        (parse_and_bind(by_parameter, b"99"), 0, 0),
        (parse_and_bind(by_parameter, b"1000"), 2, 0),
        (named(b"42"), 0, 0),
        (named(b"123"), 1, 0),
        (named(b"234"), 2, 0),
        (query("select current_setting('port') as of_key where 250 = 250"), 2, 0),
        (query("select current_setting('port') as of_key where 3 = 3"), 0, 0),
        (query(&format!("{plain} /*key='none'*/")), 1, 1),
    ] {
        client.say(&words);
        let answer = client.answer();
        let found = answer.iter().any(|word| *word == ports[server].to_string());
        assert!(found, "{}: {answer:?} of {ports:?}", String::from_utf8_lossy(&words));
        assert_eq!(gate.stats().pools[0].counters.keys_missing, missing);
    }
    gate.end();
}

/// Keys from 0 belong to the first server, from 100 to the second, from 200 to the third; who tells
/// none belongs to the second.
fn by_ranges(rules: Vec<KeyRule>) -> Config {
    let mut database = spread(&ports(), 2);
    database.gate.router = RouterSpec::ByKey {
        of: KeyOf::Key,
        map: KeyMap::Range { bounds: vec![100, 200] },
        down: KeyDown::Wait,
    };
    database.keys = KeyRules::new(rules);
    database.key_default = 150;
    trusting(database)
}

fn number_at(at: Where) -> KeyRule {
    KeyRule { at, of: KeyType::Integer, mapping: Mapping::Number }
}

fn number_in_parameter(sql: &str, number: u16) -> KeyRule {
    let statement = Fingerprint::of(sql.as_bytes(), LexerMode::default()).unwrap();
    number_at(Where::Parameter { statement, number })
}

fn number_in_comment() -> KeyRule {
    number_at(Where::Comment { name: b"key".to_vec() })
}

/// Tells its server's port, by the key of its one parameter.
const BY_PARAMETER: &str = "select current_setting('port') where $1::int8 >= 0";

fn queries(texts: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    texts.iter().for_each(|sql| write::query(&mut out, sql));
    out
}

/// Found by reading: all that was readable went to the server of the first transaction, so that what
/// was written behind it for another key was committed there, and nobody was told.
#[test]
fn each_transaction_of_a_pipeline_goes_where_its_key_belongs() {
    let ports = ports();
    let rules = vec![number_in_comment(), number_in_parameter(BY_PARAMETER, 1)];
    let gate = Gate::new(by_ranges(rules));
    directly(ports[0], "drop table if exists rows_of_key; create table rows_of_key (x int)");
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    let port_of = |key: u32| format!("select current_setting('port') /*key='{key}'*/");
    let mut said = parse_and_bind(BY_PARAMETER, b"50");
    said.extend(parse_and_bind(BY_PARAMETER, b"150"));
    said.extend(queries(&[&port_of(250), "copy rows_of_key from stdin /*key='7'*/"]));
    write::message(&mut said, Frontend::CopyData, |out| out.extend_from_slice(b"1\n2\n"));
    write::bare(&mut said, Frontend::CopyDone);
    said.extend(queries(&[&port_of(250), "begin /*key='3'*/", &port_of(250), "commit"]));
    bind(&mut said, "", b"250");
    client.say(&said);
    let mut heard = || {
        let tells = |word: &String| !["ParseComplete", "BindComplete"].contains(&&**word);
        client.answer().into_iter().filter(tells).collect::<Vec<_>>()
    };
    let at = |server: usize, status: &str| {
        vec![ports[server].to_string(), "SELECT 1".to_owned(), status.to_owned()]
    };
    for server in [0, 1, 2] {
        assert_eq!(heard(), at(server, "ZI"));
    }
    assert_eq!(heard(), ["CopyInResponse", "COPY 2", "ZI"]);
    assert_eq!(heard(), at(2, "ZI"));
    assert_eq!(heard(), ["BEGIN", "ZT"]);
    assert_eq!(heard(), at(0, "ZT"), "within a transaction nothing is routed");
    assert_eq!(heard(), ["COMMIT", "ZI"]);
    // A Query has dropped the unnamed statement.
    assert_eq!(heard().len(), 2);
    assert_eq!(directly(ports[0], "select count(*) from rows_of_key"), "2");
    drop(client);
    gate.end();
}

/// Found by reading: the same, with what writes behind what only reads.
#[test]
fn what_is_pipelined_behind_a_reader_goes_to_the_primary() {
    let gate = Gate::new(replicated(Duration::from_secs(600)));
    let [primary, replica, _] = ports();
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    let port = "select current_setting('port')";
    client.say(&queries(&["begin read only", port, "commit", port, "begin read only", port]));
    let mut told = Vec::new();
    for _ in 0..6 {
        let first = client.answer().swap_remove(0);
        told.extend(first.parse::<u16>());
    }
    assert_eq!(told, [replica, primary, primary], "who has written reads at the primary");
    client.query("commit");
    client.answer();
    drop(client);
    gate.end();
}

/// The same of classes by texts.
#[test]
fn each_transaction_of_a_pipeline_goes_where_its_class_belongs() {
    let mut database = spread(&ports(), 2);
    let rows = vec![KeyRow { key: 1, server: 2 }];
    let map = KeyMap::Table { rows, default: KeyDefault::Server(0) };
    database.gate.router = RouterSpec::ByKey { of: KeyOf::Class, map, down: KeyDown::Wait };
    let far = JobClass { name: "far".to_owned(), wait_max: None };
    let test = Test::Tag { name: b"far".to_vec(), value: Pattern::new(b"yes") };
    let rule = Rule { tests: vec![test], class: Class { class: 1, priority: 0 } };
    let mut config = trusting(database);
    config.classes = Classes::new(vec![far], vec![rule]).unwrap();
    let gate = Gate::new(config);
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    let port = "select current_setting('port')";
    let tagged = format!("{port} /*{}*/ /*far='yes'*/", "z".repeat(20_000));
    client.say(&queries(&[port, &tagged, port]));
    for server in [0, 2, 0] {
        assert_eq!(client.answer()[0], ports()[server].to_string());
    }
    drop(client);
    gate.end();
}

/// Who has gone and has said more than was sent on holds nobody's slot.
#[test]
fn who_goes_with_a_transaction_unsent_leaves_its_server() {
    let mut config = by_ranges(vec![number_in_comment()]);
    config.timeouts.clean = Duration::from_millis(500);
    let gate = Gate::new(config);
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    client.say(&queries(&["select pg_sleep(600) /*key='1'*/", "select 2 /*key='200'*/"]));
    gate.until("it is served", |stats| stats.pools[0].busy == 1);
    drop(client);
    gate.until("its slot is back", |stats| stats.pools[0].busy == 0);
    gate.end();
}

/// A Bind of a named statement with these values.
fn bind_all(name: &str, values: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    write::message(&mut out, Frontend::Bind, |out| {
        out.extend_from_slice(format!("\0{name}\0\0\0").as_bytes());
        out.extend_from_slice(&(values.len() as u16).to_be_bytes());
        for value in values {
            out.extend_from_slice(&(value.len() as u32).to_be_bytes());
            out.extend_from_slice(value);
        }
        out.extend_from_slice(b"\0\0");
    });
    write::message(&mut out, Frontend::Execute, |out| out.extend_from_slice(b"\0\0\0\0\0"));
    write::bare(&mut out, Frontend::Sync);
    out
}

/// A gate that knows the key of statements with a document, and a client of it that has prepared
/// them.
fn documents() -> (Gate, Raw) {
    let before = "select current_setting('port') where $1::int8 >= 0 and $2::text <> ''";
    let behind = "select current_setting('port') where $1::text <> '' and $2::int8 >= 0";
    let gate = Gate::new(by_ranges(vec![
        number_in_comment(),
        number_in_parameter(BY_PARAMETER, 1),
        number_in_parameter(before, 1),
        number_in_parameter(behind, 2),
    ]));
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    let mut said = Vec::new();
    for (name, sql) in [("one", BY_PARAMETER), ("before", before), ("behind", behind)] {
        write::message(&mut said, Frontend::Parse, |out| {
            out.extend_from_slice(format!("{name}\0{sql}\0\0\0").as_bytes());
        });
    }
    write::bare(&mut said, Frontend::Sync);
    client.say(&said);
    client.answer();
    (gate, client)
}

/// Found by reading: a slot was asked for as soon as the first message could be looked at, and what
/// was not here of the key then went to the server of those that tell none, without a word.
#[test]
fn a_key_counts_in_whichever_pieces_it_comes() {
    let (gate, mut client) = documents();
    let ports = ports();
    let document = vec![b'x'; 20_000];
    let large = vec![b'y'; 300_000];
    let (key_0, key_2) = (&b"42"[..], &b"1000"[..]);
    let text = |key: u32| {
        let filling = "z".repeat(20_000);
        queries(&[&format!("select current_setting('port') /*{filling}*/ /*key='{key}'*/")])
    };
    let mut closed = Vec::new();
    write::message(&mut closed, Frontend::Close, |out| out.extend_from_slice(b"Snone\0"));
    let closes = closed.len();
    // A text that is new everywhere each time, so that its Parse waits for a server.
    let anew = |number: u8| parse_and_bind(&format!("{BY_PARAMETER} /*{number}*/"), key_0);
    closed.extend(anew(1));
    let behind = |said: &[u8]| said.len() - 34;
    let cases: [(&str, Vec<u8>, &[usize], usize); 10] = [
        ("behind a Parse", anew(2), &[behind(&anew(2))], 0),
        ("within a Bind", anew(3), &[behind(&anew(3)) + 3, behind(&anew(3)) + 14], 0),
        ("behind a Close", closed, &[closes], 0),
        ("a text", text(42), &[9000], 0),
        ("the same", text(1000), &[8500, 17_000], 2),
        ("before a document", bind_all("before", &[key_0, &document]), &[9000], 0),
        ("before a large one", bind_all("before", &[key_2, &large]), &[9000, 100_000], 2),
        ("behind a document", bind_all("behind", &[&document, key_0]), &[9000, 19_000], 0),
        ("behind a large one", bind_all("behind", &[&large, key_2]), &[9000, 100_000], 2),
        ("all at once", bind_all("behind", &[&large, key_0]), &[], 0),
    ];
    for (what, said, cuts, server) in cases {
        let mut from = 0;
        for &to in cuts.iter().chain([&said.len()]) {
            client.say(&said[from..to]);
            // The gate hears it as it comes.
            std::thread::sleep(Duration::from_millis(if to < said.len() { 30 } else { 0 }));
            from = to;
        }
        let answer = client.answer();
        assert!(answer.contains(&ports[server].to_string()), "{what}: {answer:?} of {ports:?}");
    }
    assert_eq!(gate.stats().pools[0].counters.keys_missing, 0);
    drop(client);
    gate.end();
}

#[test]
fn a_key_that_comes_too_late_is_refused_and_the_session_goes_on() {
    let (gate, mut client) = documents();
    let huge = vec![b'x'; 2 << 20];
    let text = format!("select '{}' /*key='42'*/", "x".repeat(2 << 20));
    let mut parsed = Vec::new();
    write::message(&mut parsed, Frontend::Parse, |out| {
        out.extend_from_slice(format!("\0select '{}'\0\0\0", "x".repeat(2 << 20)).as_bytes());
    });
    bind(&mut parsed, "", b"7");
    let refused = [
        "ERROR 54000 it is not said within the first 1048576 bytes of the transaction to which server \
         it belongs",
        "ZI",
    ];
    for said in [bind_all("behind", &[&huge, b"42"]), queries(&[&text]), parsed] {
        client.say(&said);
        assert_eq!(client.answer(), refused);
        client.say(&bind_all("one", &[b"1000"]));
        assert!(client.answer().contains(&ports()[2].to_string()));
    }
    // What it says after its key may be as long as it likes.
    client.say(&bind_all("before", &[b"42", &huge]));
    assert!(client.answer().contains(&ports()[0].to_string()));
    client.say(&queries(&["begin /*key='1000'*/", &text, "commit"]));
    assert_eq!(client.answer(), ["BEGIN", "ZT"]);
    assert_eq!(client.answer().last().unwrap(), "ZT");
    assert_eq!(client.answer(), ["COMMIT", "ZI"]);
    drop(client);
    gate.end();
}

/// Found here: drivers that wait with Flush for the shape of a statement, as asyncpg does, ran it the
/// first time at the server of those that tell no key, since a segment stays where it begins.
#[test]
fn who_asks_for_replies_before_its_key_gets_them_and_goes_where_that_belongs() {
    use pgwire::frame::Backend;
    let (gate, mut client) = documents();
    let prepare = |sql: &str, end| {
        let mut said = Vec::new();
        write::message(&mut said, Frontend::Parse, |out| {
            out.extend_from_slice(format!("\0{sql}\0\0\0").as_bytes());
        });
        write::message(&mut said, Frontend::Describe, |out| out.extend_from_slice(b"S\0"));
        write::bare(&mut said, end);
        said
    };
    let anew = |number: u8| format!("{BY_PARAMETER} /*{number}*/");
    let shape = [Backend::ParseComplete, Backend::ParameterDescription, Backend::RowDescription];
    let at = |server: usize| {
        vec![
            "BindComplete".to_owned(),
            ports()[server].to_string(),
            "SELECT 1".to_owned(),
            "ZI".to_owned(),
        ]
    };
    for (number, end) in [(1, Frontend::Flush), (2, Frontend::Sync)] {
        client.say(&prepare(&anew(number), end));
        assert_eq!(shape.map(|_| client.hear().0), shape);
        if end == Frontend::Sync {
            assert_eq!(client.answer(), ["ZI"]);
        }
        client.say(&bind_all("", &[b"1000"]));
        assert_eq!(client.answer(), at(2), "{end:?}");
    }
    // The same without waiting for them.
    let mut said = prepare(&anew(3), Frontend::Flush);
    said.extend(prepare(&anew(4), Frontend::Flush));
    said.extend(bind_all("", &[b"42"]));
    client.say(&said);
    for expected in [shape, shape].concat() {
        assert_eq!(client.hear().0, expected);
    }
    assert_eq!(client.answer(), at(0));
    // What has failed is passed over up to the client's own end.
    client.say(&prepare("select nothing from nowhere where $1::int8 >= 0", Frontend::Flush));
    assert_eq!(client.hear().0, Backend::ErrorResponse);
    client.say(&bind_all("", &[b"42"]));
    assert_eq!(client.answer(), ["ZI"]);
    client.say(&bind_all("one", &[b"42"]));
    assert_eq!(client.answer(), at(0));
    drop(client);
    gate.end();
}

/// A primary and a replica; both are primaries in truth, and each tells its port.
fn replicated(own_writes: Duration) -> Config {
    let mut database = spread(&ports()[..2], 2);
    database.gate.roles = vec![Role::Primary, Role::Replica];
    database.own_writes = own_writes;
    trusting(database)
}

#[test]
fn what_is_declared_to_be_read_only_goes_to_a_replica() {
    let gate = Gate::new(replicated(Duration::ZERO));
    let reads_only = ("default_transaction_read_only", "on");
    let mut usual = Raw::enter(&gate, Version::V3_0, &[]);
    let mut reader = Raw::enter(&gate, Version::V3_0, &[reads_only]);
    let port = "select current_setting('port')";
    let mut asked = |reads: bool, words: &[&str]| {
        let client = if reads { &mut reader } else { &mut usual };
        let mut found = String::new();
        for sql in words {
            client.query(sql);
            let answer = client.answer();
            if *sql == port {
                found = answer[0].clone();
            }
        }
        found.parse::<u16>().unwrap()
    };
    let [primary, replica, _] = ports();
    assert_eq!(asked(false, &[port]), primary, "a SELECT may write");
    assert_eq!(asked(false, &["begin read only", port, "commit"]), replica);
    assert_eq!(asked(false, &["start transaction read only", port, "commit"]), replica);
    assert_eq!(asked(false, &["begin", port, "commit"]), primary);
    assert_eq!(asked(true, &[port]), replica);
    assert_eq!(asked(true, &["begin", port, "commit"]), replica);
    assert_eq!(asked(true, &["begin read write", port, "commit"]), primary);
    drop((usual, reader));
    gate.end();
}

#[test]
fn who_has_written_reads_at_the_primary_for_a_while() {
    let gate = Gate::new(replicated(Duration::from_secs(600)));
    let [primary, replica, _] = ports();
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    for server in [replica, primary] {
        client.query("begin read only");
        client.answer();
        client.query("select current_setting('port')");
        assert_eq!(client.answer()[0], server.to_string());
        client.query("commit");
        client.answer();
        client.query("select 1");
        client.answer();
    }
    gate.end();
}

/// What the database says of its other users' modes decided it: a session that began with a read was
/// at a replica for good, and all that it wrote later failed.
#[test]
fn a_session_is_at_the_primary_whoever_says_that_it_is_one() {
    let [primary, replica, _] = ports();
    let modes = [(Mode::Transaction, Mode::Session), (Mode::Session, Mode::Transaction)];
    for (of_database, own) in modes {
        let mut config = replicated(Duration::ZERO);
        config.databases[0].mode = of_database;
        let terms = UserTerms { mode: Some(own), ..UserTerms::default() };
        config.terms.insert(b"sekisho".to_vec(), terms);
        let gate = Gate::new(config);
        let mut client = Raw::enter(&gate, Version::V3_0, &[]);
        client.query("begin read only");
        assert_eq!(client.answer(), ["BEGIN", "ZT"]);
        client.query("select current_setting('port')");
        let reads = if own == Mode::Session { primary } else { replica };
        assert_eq!(client.answer()[0], reads.to_string(), "{own}");
        client.query("commit");
        client.answer();
        client.query("select current_setting('port')");
        assert_eq!(client.answer()[0], primary.to_string(), "{own}");
        drop(client);
        gate.end();
    }
}

#[test]
fn who_has_waited_long_gets_a_slot_of_the_reserve() {
    let mut one = database(Mode::Transaction, 1);
    one.gate.reserve = Some(Reserve { slots: 1, after: Duration::from_millis(50) });
    let gate = Gate::new(trusting(one));
    let mut clients: Vec<Raw> = (0..3).map(|_| Raw::enter(&gate, Version::V3_0, &[])).collect();
    // In this order, also where each is heard by another worker.
    clients[0].query("begin");
    assert_eq!(clients[0].answer(), ["BEGIN", "ZT"]);
    clients[1].query("begin");
    assert_eq!(clients[1].answer(), ["BEGIN", "ZT"], "the slot in reserve");
    clients[2].query("begin");
    gate.until("the third waits", |stats| {
        (stats.pools[0].waiting, stats.pools[0].slots, stats.pools[0].busy) == (1, 2, 2)
    });
    clients[0].query("commit");
    clients[0].answer();
    assert_eq!(clients[2].answer(), ["BEGIN", "ZT"]);
    for client in &mut clients[1..] {
        client.query("commit");
        client.answer();
    }
    gate.until("the reserve is back", |stats| stats.pools[0].slots == 1);
    gate.end();
}

#[test]
fn who_would_wait_in_vain_is_told_so_at_once() {
    let hasty = JobClass { name: "hasty".to_owned(), wait_max: Some(Duration::from_millis(10)) };
    let test = Test::ApplicationName(Pattern::new(b"hasty"));
    let rule = Rule { tests: vec![test], class: Class { class: 1, priority: 0 } };
    let mut config = trusting(database(Mode::Transaction, 1));
    config.classes = Classes::new(vec![hasty], vec![rule]).unwrap();
    let gate = Gate::new(config);
    let mut clients: Vec<Raw> = (0..10).map(|_| Raw::enter(&gate, Version::V3_0, &[])).collect();
    // Ten times 0.1 s, one by one: then it is known what the slot can do.
    for client in &mut clients {
        client.query("select pg_sleep(0.1)");
    }
    for client in &mut clients {
        client.answer();
    }
    clients[0].query("begin");
    clients[0].answer();
    let mut hasty = Raw::enter(&gate, Version::V3_0, &[("application_name", "hasty")]);
    hasty.query("select 1");
    assert_eq!(hasty.answer(), ["ERROR 53300 no server would become free in time", "ZI"]);
    clients[1].query("select 'patient'");
    gate.until("it waits", |stats| stats.pools[0].waiting == 1);
    clients[0].query("commit");
    clients[0].answer();
    assert_eq!(clients[1].answer(), ["patient", "SELECT 1", "ZI"]);
    let counters = gate.stats().pools[0].counters;
    assert_eq!((counters.refused_hopeless, counters.refused_deadline), (1, 0));
    gate.end();
}

/// A server of its own, of the same password as all others.
pub(super) fn start() -> Private {
    let parameters = [("fsync", "off"), ("shared_buffers", "4MB")];
    let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let password = String::from_utf8(password()).unwrap();
    let (parameters, password) = (parameters.to_vec(), Some(password));
    Private::start(&Settings { parameters, password, ..Settings::default() }).unwrap()
}

/// Asks a server itself.
pub(super) fn directly(port: u16, sql: &str) -> String {
    runtime().block_on(async {
        let url = account(server().url().as_str());
        let mut account = tokio_postgres::Config::new();
        account.user(url.get_user().unwrap()).password(password());
        account.host("127.0.0.1").port(port).dbname(url.get_dbname().unwrap());
        ask(&enter(&account).await.unwrap(), sql).await.unwrap()
    })
}

/// The replica is an independent server in recovery, with nothing to replay: so it has a role that
/// changes in truth, and is behind as soon as the primary writes.
#[test]
fn writes_follow_the_primary_through_a_failover() {
    let (mut old, mut new) = (start(), start());
    std::fs::write(new.data().join("standby.signal"), "").unwrap();
    new.restart().unwrap();
    // What is configured is wrong; what the servers say counts.
    let mut database = spread(&[new.port(), old.port()], 2);
    database.gate.roles = vec![Role::Primary, Role::Replica];
    database.own_writes = Duration::ZERO;
    let interval = Duration::from_secs(1);
    let health = Health { interval, failures_max: 2, lag_max: None, ..Health::default() };
    database.health = Some(health);
    let gate = Gate::new(trusting(database));
    let server = |gate: &Gate, at: usize| {
        let stats = gate.stats();
        stats.pools.first().map(|pool| (pool.per_server[at].role, pool.per_server[at].up))
    };
    let until = |at: usize, role, up| {
        gate.until("a probe has seen it", |stats| {
            let servers = stats.pools.first().map(|pool| &pool.per_server[at]);
            servers.is_some_and(|server| (server.role, server.up) == (role, up))
        });
    };
    // The sweep that begins probes runs as soon as there is a pool.
    let mut client = Raw::connect(&gate);
    client.start(Version::V3_0, &[]);
    until(0, Role::Replica, true);
    until(1, Role::Primary, true);
    while client.hear().0 != pgwire::frame::Backend::ReadyForQuery {}
    let asks = |client: &mut Raw, words: &[&str]| {
        let mut first = String::new();
        for sql in words {
            client.query(sql);
            let answer = client.answer().swap_remove(0);
            if sql.starts_with("select") {
                first = answer;
            }
        }
        first
    };
    let port = "select current_setting('port')";
    assert_eq!(asks(&mut client, &[port]), old.port().to_string());
    let reads = ["begin read only", port, "commit"];
    assert_eq!(asks(&mut client, &reads), new.port().to_string());
    old.kill().unwrap();
    until(1, Role::Primary, false);
    let mut writes = Raw::enter(&gate, Version::V3_0, &[]);
    writes.query(port);
    gate.until("it waits for a primary", |stats| stats.pools[0].waiting == 1);
    assert_eq!(asks(&mut client, &reads), new.port().to_string(), "reads go on");
    assert_eq!(directly(new.port(), "select pg_promote()"), "t");
    assert_eq!(writes.answer()[0], new.port().to_string());
    assert_eq!(server(&gate, 0), Some((Role::Primary, true)));
    // The old one comes back and takes itself for the primary: it is not used.
    old.restart().unwrap();
    let answers =
        "select count(*) > 0 from pg_stat_activity where application_name like 'primary%'";
    let began = std::time::Instant::now();
    while directly(old.port(), answers) != "t" {
        assert!(began.elapsed() < Duration::from_secs(30), "it is not probed");
        std::thread::sleep(Duration::from_millis(50));
    }
    std::fs::write(old.data().join("standby.signal"), "").unwrap();
    assert_eq!(server(&gate, 1), Some((Role::Primary, false)));
    assert_eq!(asks(&mut writes, &[port]), new.port().to_string());
    old.restart().unwrap();
    until(1, Role::Replica, true);
    assert_eq!(asks(&mut client, &reads), old.port().to_string());
    drop((client, writes));
    gate.end();
}

#[test]
fn a_replica_that_is_behind_is_left_alone() {
    let (primary, mut replica) = (start(), start());
    std::fs::write(replica.data().join("standby.signal"), "").unwrap();
    replica.restart().unwrap();
    // However much the other one wrote when it was made, this is more.
    directly(primary.port(), "create table much as select x from generate_series(1, 300000) x");
    let mut database = spread(&[primary.port(), replica.port()], 2);
    database.gate.roles = vec![Role::Primary, Role::Replica];
    database.health = Some(Health { interval: Duration::from_secs(1), ..Health::default() });
    let gate = Gate::new(trusting(database));
    let reads_only = ("default_transaction_read_only", "on");
    let mut client = Raw::enter(&gate, Version::V3_0, &[reads_only]);
    gate.until("a probe has seen it", |stats| !stats.pools[0].per_server[1].up);
    client.query("select current_setting('port')");
    assert_eq!(client.answer()[0], primary.port().to_string());
    drop(client);
    gate.end();
}

/// Waits until a server was asked by a probe of a gate, and has said that it is a replica.
fn is_asked(port: u16) {
    let answers =
        "select count(*) > 0 from pg_stat_activity where application_name like 'replica%'";
    let began = std::time::Instant::now();
    while directly(port, answers) != "t" {
        assert!(began.elapsed() < Duration::from_secs(30), "it is not probed");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Asks for a while, over more than one round of probes, and holds that both servers answer.
fn serve_both(gate: &Gate, client: &mut Raw, ports: [u16; 2]) {
    let mut asked = std::collections::BTreeSet::new();
    for _ in 0..15 {
        client.query("select current_setting('port')");
        asked.insert(client.answer().swap_remove(0));
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(asked, ports.map(|port| port.to_string()).into());
    for server in &gate.stats().pools[0].per_server {
        assert_eq!((server.role, server.up), (Role::Primary, true), "{server:?}");
    }
}

/// A server in recovery was taken for a replica though nobody had said that there are any: with one
/// queue for all servers the gate ended, and with a queue for each it got no job any more, even where
/// it was alone.
#[test]
fn where_no_replica_is_configured_a_standby_is_asked_everything() {
    let mut standby = start();
    std::fs::write(standby.data().join("standby.signal"), "").unwrap();
    standby.restart().unwrap();
    let health = Health { interval: Duration::from_secs(1), ..Health::default() };
    for queues in [Queues::Shared, Queues::PerServer] {
        let mut database = spread(&[server().port(), standby.port()], 2);
        (database.gate.queues, database.health) = (queues, Some(health));
        let gate = Gate::new(trusting(database));
        let mut client = Raw::enter(&gate, Version::V3_0, &[]);
        is_asked(standby.port());
        serve_both(&gate, &mut client, [server().port(), standby.port()]);
        drop(client);
        gate.end();
    }
    // One that is a replica until a reload says that there are none.
    let with_any_lag = || {
        let mut database = spread(&[server().port(), standby.port()], 2);
        database.health = Some(Health { lag_max: None, ..health });
        database
    };
    let mut before = with_any_lag();
    before.gate.roles = vec![Role::Primary, Role::Replica];
    let gate = Gate::new(trusting(before));
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    is_asked(standby.port());
    client.query("select current_setting('port')");
    assert_eq!(client.answer()[0], server().port().to_string());
    let mut after = with_any_lag();
    after.gate.queues = Queues::Shared;
    gate.handle.reload(trusting(after)).unwrap();
    serve_both(&gate, &mut client, [server().port(), standby.port()]);
    drop(client);
    gate.end();
}
