//! Configurations of the gate for HTTP: what the words mean, and what is wrong with a file.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use gate::{DisciplineSpec, EarlyRejection, Queues, Reserve, RouterSpec};
use gatefile::{Files, HttpFile, read_http, to_httpgate};
use httpgate::{Config, Forwarded, Key, LoggedTarget, Probe, Text};

/// A machine on which every file stands but `missing`, and every host but `nowhere` has an address.
struct Machine;

impl Files for Machine {
    fn text(&self, _: &Path) -> Result<String, String> {
        Ok(String::new())
    }

    fn stands(&self, path: &Path) -> Result<(), String> {
        if path.ends_with("missing") { Err("it is not there".into()) } else { Ok(()) }
    }

    fn address(&self, host: &str, port: u16) -> Result<SocketAddr, String> {
        match host.parse() {
            Ok(ip) => Ok(SocketAddr::new(ip, port)),
            Err(_) if host == "nowhere" => Err("not known".into()),
            Err(_) => Ok(([10, 0, 0, 9], port).into()),
        }
    }
}

const LEAST: &str = "format = 1\nlisten = [\"127.0.0.1:8080\"]\npool.slots = 4\n\
                     [[server]]\nhost = \"127.0.0.1\"\nport = 9000\n";

fn config(text: &str) -> Config {
    let file = read_http("g.toml", text, &Machine).unwrap_or_else(|error| panic!("{error}"));
    to_httpgate(&file, &Machine).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_least_file_means_what_the_flags_mean_that_are_left_out() {
    let read = config(LEAST);
    let [listen, server] =
        ["127.0.0.1:8080", "127.0.0.1:9000"].map(|text| text.parse::<SocketAddr>().unwrap());
    let plain = Config::new(listen, vec![server], 4);
    assert_eq!(format!("{read:?}"), format!("{plain:?}"));
}

#[test]
fn every_key_is_told_to_the_gate() {
    let config = config(include_str!("../fixtures/http.toml"));
    assert_eq!(config.upstreams[1], "10.0.0.9:9001".parse().unwrap());
    let gate = &config.gate;
    let slots: Vec<u32> = gate.servers.iter().map(|server| server.slots).collect();
    assert_eq!((slots, gate.room), (vec![8, 2], Some(500)));
    let seconds = Duration::from_secs;
    assert_eq!(gate.wait_max, Some(seconds(10)));
    assert_eq!(gate.unreachable_max, Some(seconds(2)));
    assert_eq!(gate.early_rejection, Some(EarlyRejection { memory: seconds(60) }));
    assert_eq!(gate.reserve, Some(Reserve { slots: 2, after: seconds(3) }));
    assert!(matches!(gate.discipline, DisciplineSpec::PriorityAgeing { .. }), "{gate:?}");
    assert!(matches!(&gate.router, RouterSpec::Weighted { weights, .. } if *weights == [3, 1]));
    assert_eq!(gate.queues, Queues::Shared);
    let [gold, writes] = &config.classes[..] else { panic!("{:?}", config.classes) };
    assert_eq!((&*gold.name, gold.priority, gold.wait_max), ("gold", 9, Some(seconds(1))));
    assert_eq!(gold.fields[0].value, Text::Begins("gold".into()));
    assert_eq!((&writes.path, writes.size), (&Some(Text::Is("/orders".into())), 5));
    assert_eq!(writes.methods, ["POST", "PUT"]);
    assert_eq!((config.key, config.forwarded), (Key::Path, Forwarded::Append));
    assert_eq!(config.health.probe, Probe::Get("/health".into()));
    assert_eq!((config.health.fall, config.health.rise), (2, 4));
    let (limits, timeouts) = (config.limits, config.timeouts);
    assert_eq!((limits.connections, limits.head, limits.pool), (100, 8192, 7));
    assert_eq!((timeouts.drain_delay, timeouts.drain), (seconds(5), seconds(20)));
    assert_eq!((timeouts.response, timeouts.pool_idle), (seconds(15), seconds(9)));
    assert_eq!(config.tls.unwrap().key, Path::new("key.pem"));
    assert_eq!(config.admin, Some("127.0.0.1:9187".parse().unwrap()));
    let log = config.access_log.unwrap();
    assert_eq!(log.file.as_deref(), Some(Path::new("access.log")));
    assert_eq!((log.target, config.record_max), (LoggedTarget::PathAndQuery, 1000));
}

#[test]
fn the_key_of_a_router_by_key_may_be_the_client() {
    let by_key = "key = \"client\"\nrouter = { by-key = {} }\npool";
    assert_eq!(config(&LEAST.replace("pool", by_key)).key, Key::Client);
}

#[test]
fn a_standard_output_and_slots_that_are_sought_have_their_words() {
    let text = LEAST.replace("pool.slots = 4", "pool.slots = \"auto\"\nauto.ceiling = 9");
    let config = config(&(text + "[log]\naccess = \"-\"\n"));
    assert_eq!(config.auto.unwrap().ceiling, 9);
    let log = config.access_log.unwrap();
    assert_eq!((log.file, log.target), (None, LoggedTarget::Path));
}

/// The words of both files are the same where they mean the same: what one writes, the other reads.
#[test]
fn a_key_of_both_gates_has_one_name() {
    let of = |value: &toml::Value, at: &str| {
        let table = value.get(at).and_then(toml::Value::as_table);
        table.map(|table| table.keys().cloned().collect::<Vec<_>>()).unwrap_or_default()
    };
    let http = toml::Value::try_from(HttpFile::default()).unwrap();
    let postgres = toml::Value::try_from(gatefile::GateFile::default()).unwrap();
    for (table, keys) in [
        (
            "pool",
            &["wait-max", "room", "reserve", "reserve-after", "early-rejection", "unreachable"][..],
        ),
        ("auto", &["floor", "ceiling", "shadow"]),
        ("limits", &["connections"]),
        ("timeouts", &["connect", "client-idle", "stalled", "drain-delay", "drain"]),
        ("connections", &["idle"]),
    ] {
        for key in keys {
            for (which, file) in [("http", &http), ("postgres", &postgres)] {
                let has = of(file, table);
                assert!(has.iter().any(|one| one == key), "{table}.{key} of {which}: {has:?}");
            }
        }
    }
}

#[test]
fn what_is_wrong_has_its_line_its_cause_and_the_way_out() {
    let refused = |text: &str| read_http("g.toml", text, &Machine).unwrap_err().to_string();
    let with = |more: &str| refused(&format!("{LEAST}{more}"));
    for (message, wanted) in [
        (
            with("weight = 5\n"),
            "`server.0.weight`: nothing looks at it; say `router = \"weighted\"`",
        ),
        (refused(&LEAST.replace("9000", "0")), "no server listens on port 0; say 1 to 65535"),
        (
            refused(&LEAST.replace("pool", "key = \"client\"\npool")),
            "`key`: nothing looks at it; say `router = { by-key = {} }`",
        ),
        (with("[record]\nfile = \"r\"\nsteps-max = 1000000000000\n"), "only 1 to 100000000"),
        (refused("listen = []\n"), "g.toml:1: the key `format` is missing"),
        (refused(&LEAST.replace("listen", "listne")), "did you mean `listen`"),
        (refused(&LEAST.replace("[\"127.0.0.1:8080\"]", "[]")), "g.toml:2: `listen`: nobody can"),
        (refused(&LEAST.replace("8080\"]", "8080\", \"[::1]:1\"]")), "listens on one address"),
        (
            refused(&LEAST.replace("\"127.0.0.1\"", "\"http://h\"")),
            "g.toml:5: `server.0.host`: `http://h` is a URL",
        ),
        (
            refused(&LEAST.replace("\"127.0.0.1\"", "\"nowhere\"")),
            "there is no host nowhere: not known",
        ),
        (
            refused(&LEAST.replace("pool.slots = 4\n", "")),
            "g.toml:3: `server.0`: it has no slots; say `pool.slots`",
        ),
        (
            refused(&LEAST.replace("slots = 4", "slots = 0")),
            "without `admin.http` nobody can change",
        ),
        (
            refused(&LEAST.replace("slots = 4", "slots = \"some\"")),
            "a number of slots, or \"auto\"",
        ),
        (with("[timeouts]\ndrain = \"5\"\n"), "a time such as \"250ms\""),
        (with("[timeouts]\nresponse = \"0s\"\n"), "g.toml:8: `timeouts.response`: it is no time"),
        (with("[[class]]\nname = \"a\"\n"), "g.toml:7: `class.0`: it names nothing"),
        (with("[[class]]\nname = \"other\"\npath = \"/x\"\n"), "that no class holds"),
        (
            with("[[class]]\nname = \"a\"\npath = \"x\"\n"),
            "g.toml:9: `class.0.path`: `x` does not begin with /",
        ),
        (with("[[class]]\nname = \"a\"\npath = \"/x?y\"\n"), "the query is not compared"),
        (with("[[class]]\nname = \"a\"\nmethod = [\"TRACE\"]\n"), "`TRACE` is not served"),
        (with("[[class]]\nname = \"a\"\nheader = { \"a b\" = \"x\" }\n"), "no name of a field"),
        (with("[[class]]\nname = \"a\"\npath = \"/x\"\npriority = 1\n"), "nothing looks at it"),
        (with("[[class]]\nname = \"a\"\npaht = \"/x\"\n"), "did you mean `path`"),
        (
            with("[tls.clients]\ncert = \"missing\"\nkey = \"k\"\n"),
            "g.toml:8: `tls.clients.cert`: cannot read",
        ),
        (with("[log]\nquery = true\n"), "there is no access log"),
        (with("[router]\nby-key = { bounds = [1, 2, 3, 4] }\n"), "g.toml:7: `router`: "),
    ] {
        assert!(message.contains(wanted), "wanted {wanted}: {message}");
    }
    let column = refused(&format!("{LEAST}[limits]\nconections = 5\n"));
    assert!(column.starts_with("g.toml:8:1: "), "line and column: {column}");
}
