//! `sekisho tpcc` and `sekisho gate postgres` over TLS, in libpq's modes, against a server that lets
//! nobody in without.
//!
//! The certificates in `tests/fixtures/tls` are good for a hundred years: an authority (`ca.pem`), a
//! server of the name `localhost` under it (`server.pem` with its key), and another authority
//! (`other.pem`).

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use postgres::{Private, Settings};

use crate::browser::Scratch;
use crate::command::{Ended, PATIENCE, sekisho, start};
use crate::tpcc::ask;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls").join(name)
}

/// A server whose connections over TCP must be encrypted.
fn encrypting_server() -> Private {
    let mut server = Private::start(&Settings {
        parameters: vec![("fsync".to_owned(), "off".to_owned())],
        ..Settings::default()
    })
    .expect("a server starts");
    let data = server.data();
    for name in ["server.pem", "server.key"] {
        let place = data.join(name);
        fs::copy(fixture(name), &place).expect("its folder is there");
        fs::set_permissions(&place, fs::Permissions::from_mode(0o600)).expect("it is ours");
        if let Some((user, group)) = server.user() {
            chown(&place, Some(user), Some(group)).expect("it is ours");
        }
    }
    for setting in ["ssl = on", "ssl_cert_file = 'server.pem'", "ssl_key_file = 'server.key'"] {
        let url = server.url();
        ask(url.as_str(), &format!("alter system set {setting}")).expect("it is one's own");
    }
    let rules = "hostssl all all all scram-sha-256\nlocal all all scram-sha-256\n";
    fs::write(data.join("pg_hba.conf"), rules).expect("its folder is there");
    server.restart().expect("it starts again");
    server
}

#[test]
fn a_server_that_demands_encryption_is_loaded_pressed_and_verified() {
    let server = encrypting_server();
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let url = server.url();
    let named = url.as_str().replace("127.0.0.1", "localhost");
    let address = |mode: &str| format!("{}?{mode}", url.as_str());
    let ends = |verb: &[&str], address: &str| -> Ended {
        sekisho(&folder, &[&["tpcc"], verb, &["--db", address]].concat())
    };
    let load = ["load", "--warehouses", "1"];

    let refused = ends(&load, &address("sslmode=disable"));
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("no encryption"), "the server lets nobody in: {refused:?}");

    let ca = fixture("ca.pem");
    let authority = format!("sslrootcert={}", ca.display());
    let full = format!("{named}?sslmode=verify-full&{authority}");
    let loaded = ends(&load, &full);
    assert_eq!(loaded.code, 0, "{loaded:?}");
    let stress = ["stress", "--ramp", "0s", "--measure", "500ms", "--connections", "2"];
    let pressed = ends(&stress, &address("sslmode=require"));
    // The inputs that a seed draws deviate by chance (3) in one run of twenty, which is not asked here; that each
    // transaction goes well is.
    assert!([0, 3].contains(&pressed.code), "{pressed:?}");
    assert!(pressed.out.contains("Verified: all"), "{pressed:?}");
    let record = std::fs::read_to_string(folder.join(pressed.after("record"))).expect("it is kept");
    assert!(record.contains("\"tls\":\"TLSv1."), "the record says so");
    let record: serde_json::Value = serde_json::from_str(&record).expect("it is JSON");
    assert_eq!(record["record"]["errors"], serde_json::json!({}), "{record}");
    // Nothing is said of encryption: the server's wish counts.
    assert_eq!(ends(&["verify"], url.as_str()).code, 0);
    // The certificate is for another name than the address; who signed it is right.
    let by_authority = ends(&["verify"], &address(&format!("sslmode=verify-ca&{authority}")));
    assert_eq!(by_authority.code, 0, "{by_authority:?}");

    let other = format!("sslrootcert={}", fixture("other.pem").display());
    for (address, words) in [
        (address(&format!("sslmode=verify-full&{authority}")), "not valid for name"),
        (address(&format!("sslmode=verify-ca&{other}")), "UnknownIssuer"),
        (address(&format!("sslmode=require&{other}")), "UnknownIssuer"),
        (format!("{named}?sslmode=verify-full&{other}"), "UnknownIssuer"),
        (format!("{named}?sslmode=verify-full"), "UnknownIssuer"),
    ] {
        for verb in [&["verify"][..], &load, &["run", "--measure", "1s"]] {
            let ended = ends(verb, &address);
            assert_eq!(ended.code, 2, "{address}: {ended:?}");
            let said = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(said.contains(words), "{address}: {ended:?}");
        }
    }
    server.stop().expect("it stops");
}

/// Own SQL takes the same words of libpq; what is wrong is told before the load, with the cause and the way out.
#[test]
fn own_sql_is_measured_on_a_way_that_is_verified() {
    let server = encrypting_server();
    let scratch = Scratch::new();
    let folder = scratch.join("");
    fs::write(folder.join("one.sql"), "select 1;\n").expect("a folder of our own");
    let url = server.url();
    let named = url.as_str().replace("127.0.0.1", "localhost");
    let measured = |address: &str| {
        let load = ["--clients", "2", "--requests", "50", "--warmup", "0s"];
        let words = [&["measure", "postgres", "one.sql", "--db", address][..], &load].concat();
        sekisho(&folder, &words)
    };
    let [ca, other] =
        ["ca.pem", "other.pem"].map(|name| format!("sslrootcert={}", fixture(name).display()));
    for address in [
        format!("{named}?sslmode=verify-full&{ca}"),
        format!("{}?sslmode=verify-ca&{ca}", url.as_str()),
    ] {
        let ended = measured(&address);
        assert!([0, 5].contains(&ended.code), "{address}: {ended:?}");
    }
    let runs = || fs::read_dir(folder.join(".sekisho/runs")).expect("it is there").count();
    let kept = runs();
    let cert = format!("sslcert={}", fixture("ca.pem").display());
    let key = format!("sslkey={}", fixture("server.key").display());
    for (address, cause, way_out) in [
        (
            format!("{}?sslmode=verify-full&{ca}", url.as_str()),
            "not valid for name",
            "sslmode=verify-ca",
        ),
        (
            format!("{named}?sslmode=verify-full&{other}"),
            "UnknownIssuer",
            "sslrootcert=/etc/ssl/ca.pem",
        ),
        (
            format!("{named}?sslmode=verify-full&{ca}&{cert}"),
            "belong together",
            "name both, or neither",
        ),
        (
            format!("{named}?sslmode=verify-full&{ca}&{cert}&{key}"),
            "cannot use the certificate",
            "name the key",
        ),
    ] {
        let ended = measured(&address);
        assert_eq!(ended.code, 2, "{address}: {ended:?}");
        let said = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(cause) && said.contains(way_out), "{address}: {ended:?}");
    }
    assert_eq!(runs(), kept, "nothing was measured");
    server.stop().expect("it stops");
}

#[test]
fn a_gate_reaches_a_server_that_demands_encryption() {
    let server = encrypting_server();
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let url = server.url();
    let named = url.as_str().replace("127.0.0.1", "localhost");
    let listens = ["gate", "postgres", "--listen", "127.0.0.1:0", "--slots", "2"];
    let through = |db: &str| {
        let running = start(&folder, &[&listens[..], &["--db", db]].concat());
        let said = running.says("next: psql ");
        let (_, rest) = said.split_once("listening on ").expect("it says so");
        let address = rest.split(' ').next().expect("it says where").to_owned();
        let (account, place) = url.as_str().split_once('@').expect("there is a password");
        let (_, database) = place.split_once('/').expect("there is a database");
        let sql = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
        let told = ask(&format!("{account}@{address}/{database}"), sql);
        running.signal("TERM");
        let ended = running.ended(PATIENCE);
        assert_eq!(ended.code, 0, "{ended:?}");
        told.map_err(|error| error.as_db_error().expect("it is told").message().to_owned())
    };
    let ca = format!("sslrootcert={}", fixture("ca.pem").display());
    let full = format!("{named}?sslmode=verify-full&{ca}");
    // Nothing said is libpq's `prefer`.
    for db in [url.as_str(), &format!("{}?sslmode=require", url.as_str()), &full] {
        assert_eq!(through(db), Ok(vec!["t".to_owned()]), "{db}");
    }
    let misnamed = through(&format!("{}?sslmode=verify-full&{ca}", url.as_str())).unwrap_err();
    assert!(misnamed.contains("not valid for name"), "{misnamed}");
    let clear = through(&format!("{}?sslmode=disable", url.as_str())).unwrap_err();
    assert!(clear.contains("no encryption"), "{clear}");
    server.stop().expect("it stops");
}

#[test]
fn a_file_says_how_both_sides_are_encrypted() {
    let server = encrypting_server();
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let url = server.url();
    let (account, place) = url.as_str().split_once('@').expect("there is a password");
    let (_, database) = place.split_once('/').expect("there is a database");
    let password = account.rsplit_once(':').expect("there is one").1;
    fs::write(folder.join("users.txt"), format!("\"sekisho\" \"{password}\"\n")).unwrap();
    let port = server.port();
    let through = |host: &str, tls: &str| {
        let text = format!(
            "format = 1\nlisten = [\"127.0.0.1:0\"]\nauth = {{ users-file = \"users.txt\" }}\n{tls}\n\
             [[database]]\nname = \"{database}\"\n\
             server = [{{ host = \"{host}\", port = {port} }}]\n"
        );
        fs::write(folder.join("gate.toml"), text).expect("it can be written");
        let running = start(&folder, &["gate", "postgres", "--config", "gate.toml"]);
        let said = running.says("clients connect to ");
        let (_, rest) = said.split_once("listening on ").expect("it says so");
        let address = rest.split(' ').next().expect("it says where").to_owned();
        let sql = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
        let told = ask(&format!("{account}@{address}/{database}"), sql);
        running.signal("TERM");
        assert_eq!(running.ended(PATIENCE).code, 0);
        told.map_err(|error| error.as_db_error().expect("it is told").message().to_owned())
    };
    let (ca, other) = (fixture("ca.pem"), fixture("other.pem"));
    let servers = |mode: &str, ca: &Path| {
        format!("[tls.servers]\nmode = \"{mode}\"\nca = \"{}\"", ca.display())
    };
    assert_eq!(through("127.0.0.1", ""), Ok(vec!["t".to_owned()]), "it is preferred");
    assert_eq!(through("localhost", &servers("verify-full", &ca)), Ok(vec!["t".to_owned()]));
    assert_eq!(through("127.0.0.1", &servers("require", &other)), Ok(vec!["t".to_owned()]));
    let refused = through("localhost", &servers("verify-full", &other)).unwrap_err();
    assert!(refused.contains("UnknownIssuer"), "{refused}");
    let clear = through("127.0.0.1", "[tls.servers]\nmode = \"disable\"").unwrap_err();
    assert!(clear.contains("no encryption"), "{clear}");
    let identity = ["server.pem", "server.key"].map(|name| fixture(name).display().to_string());
    let clients = format!(
        "[tls.clients]\nmode = \"require\"\ncert = \"{}\"\nkey = \"{}\"",
        identity[0], identity[1]
    );
    let clear = through("127.0.0.1", &clients).unwrap_err();
    assert!(clear.contains("TLS") || clear.contains("SSL") || clear.contains("encrypt"), "{clear}");
    server.stop().expect("it stops");
}
