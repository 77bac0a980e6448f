//! Ways in: each proof of a password and each kind of encryption that a server may ask for, and several hosts.

use std::net;

use measure::Until;
use pgtest::{certify, fixture};
use postgres::Private;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tpcc::{Config, Verify};

use super::{Protocol, RunError, ask, closed, completed, failed, run, spec, start};

/// The roles' names say how they come in.
const RULES: &str = "local all all scram-sha-256\n\
    hostssl all by_tls all scram-sha-256\n\
    hostssl all alice,bob all cert\n\
    hostnossl all by_md5 all md5\n\
    hostnossl all by_word all password\n\
    hostnossl all by_scram all scram-sha-256\n\
    hostnossl all sekisho all scram-sha-256\n";

/// A server with a certificate and these rules.
fn guarded() -> Private {
    let mut server = start();
    let own = server.url();
    for sql in [
        "create role by_tls login password 'mine'",
        "create role by_word login password 'mine'",
        "create role by_scram login password 'mine'",
        "create role alice login; create role bob login",
        "set password_encryption = 'md5'; create role by_md5 login password 'mine'",
    ] {
        ask(own.as_str(), sql);
    }
    let kinds = "select rolname, left(rolpassword, 3) from pg_authid where rolname like 'by_m%'";
    assert_eq!(ask(own.as_str(), kinds), ["by_md5|md5"]);
    certify(&mut server, RULES);
    server
}

/// Twenty transactions of two clients, to their end.
fn measured(url: &str) -> Result<u64, RunError> {
    measured_at(url.parse().unwrap())
}

fn measured_at(config: Config) -> Result<u64, RunError> {
    let (url, until) = ("postgresql://127.0.0.1/x", Until::Requests(20));
    let mut spec = spec(url, "select 1", Protocol::Prepared, closed(2), until);
    spec.config = config;
    let record = run(spec)?;
    assert_eq!(failed(&record), []);
    Ok(completed(&record))
}

fn certificates(name: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_file_iter(fixture(name)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn every_proof_and_encryption_that_a_server_asks_for_is_given() {
    let server = guarded();
    let port = server.port();
    for url in [
        format!("postgresql://by_scram:mine@127.0.0.1:{port}/postgres?sslmode=disable"),
        format!("postgresql://by_md5:mine@127.0.0.1:{port}/postgres?sslmode=disable"),
        format!("postgresql://by_word:mine@127.0.0.1:{port}/postgres?sslmode=disable"),
        format!("postgresql://by_tls:mine@127.0.0.1:{port}/postgres?sslmode=require"),
        // Left out, it is tried.
        format!("postgresql://by_tls:mine@127.0.0.1:{port}/postgres"),
    ] {
        assert_eq!(measured(&url).unwrap_or_else(|error| panic!("{url}: {error}")), 20, "{url}");
    }
    // What the rules refuse, and a wrong password, are told before the load.
    let at = format!("127.0.0.1:{port}/postgres?sslmode=disable");
    for (url, cause) in [
        (format!("postgresql://by_tls:mine@{at}"), "pg_hba.conf"),
        (format!("postgresql://by_md5:wrong@{at}"), "password"),
    ] {
        let error = measured(&url).expect_err(&url).to_string();
        assert!(error.contains(cause), "{url}: {error}");
    }
    server.stop().unwrap();
}

/// Certificates of servers are verified as libpq does it, and one's own is shown. What fails is told before the load, with
/// the cause and the way out.
#[test]
fn certificates_are_verified_and_shown() {
    let server = guarded();
    let port = server.port();
    let at = |host: &str, user: &str, verify: Verify, authority: &str, shown: Option<&str>| {
        let url = format!("postgresql://{user}:mine@{host}:{port}/postgres");
        let mut config: Config = url.parse().unwrap();
        config.verify(verify, certificates(authority)).unwrap();
        if let Some(name) = shown {
            let key = PrivateKeyDer::from_pem_file(fixture("leaf.key")).unwrap();
            config.identify(certificates(name), key).unwrap();
        }
        measured_at(config)
    };
    let (ours, strangers) = ("authority.pem", "stranger.pem");
    let (full, ca) = (Verify::AuthorityAndHost, Verify::Authority);
    for (host, user, verify, shown) in [
        ("localhost", "by_tls", full, None),
        ("127.0.0.1", "by_tls", ca, None),
        ("localhost", "alice", full, Some("alice.pem")),
        // One that nobody asks for does no harm.
        ("localhost", "by_tls", full, Some("alice.pem")),
    ] {
        let done = at(host, user, verify, ours, shown);
        assert_eq!(done.unwrap_or_else(|error| panic!("{host} {user}: {error}")), 20);
    }
    for (host, user, verify, authority, shown, cause, way_out) in [
        ("127.0.0.1", "by_tls", full, ours, None, "not valid for name", "sslmode=verify-ca"),
        ("localhost", "by_tls", full, strangers, None, "UnknownIssuer", "sslrootcert=/"),
        ("127.0.0.1", "by_tls", ca, strangers, None, "UnknownIssuer", "sslrootcert=/"),
        ("localhost", "alice", full, ours, None, "valid client certificate", "sslcert=FILE"),
        ("localhost", "bob", full, ours, Some("alice.pem"), "failed for user", "pg_ident.conf"),
        ("localhost", "alice", full, ours, Some("mallory.pem"), "fatal alert", "ssl_ca_file"),
    ] {
        let error = at(host, user, verify, authority, shown).expect_err(user).to_string();
        assert!(error.contains(cause) && error.contains(way_out), "{host} {user}: {error}");
    }
    let key = PrivateKeyDer::from_pem_file(fixture("server.key")).unwrap();
    assert!(Config::new().identify(certificates("alice.pem"), key).is_err(), "another's key");
    server.stop().unwrap();
}

/// As behind a pooler that gives each transaction another connection, and knows no prepared statements.
#[test]
fn a_statement_that_is_not_prepared_any_more_is_told_with_the_way_out() {
    let url = super::server().url();
    let text = "select 1; deallocate all;";
    let until = Until::Requests(6);
    let lost = run(spec(url.as_str(), text, Protocol::Prepared, closed(1), until)).unwrap();
    let told = super::warnings(&lost);
    assert!(told.contains("26000") && told.contains("max_prepared_statements"), "{told}");
    assert!(told.contains("`--protocol extended`"), "{told}");
    let kept = run(spec(url.as_str(), text, Protocol::Extended, closed(1), until)).unwrap();
    assert_eq!((completed(&kept), super::warnings(&kept).contains("26000")), (6, false));
}

/// Of several hosts the first that answers is pressed, as libpq takes them.
#[test]
fn of_several_hosts_the_first_that_answers_is_taken() {
    let server = super::server().url();
    let (account, place) = server.as_str().split_once('@').unwrap();
    let (host, database) = place.split_once('/').unwrap();
    let nobody = net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for hosts in [format!("{nobody},{host}"), format!("{host},{nobody}")] {
        assert_eq!(measured(&format!("{account}@{hosts}/{database}")).unwrap(), 20, "{hosts}");
    }
}
