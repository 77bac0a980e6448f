//! The rules of who may come in from where, against what PostgreSQL's documentation says of them.

use std::net::IpAddr;

use pgwire::auth::Method;
use pgwire::secrets::{Admission, Certificate, Facts, Hba, Origin, Peer, Refusal, Transport};
use pgwire::startup::Replication;

/// A client of user and database from an address, or from this machine where there is none.
fn facts<'a>(user: &'a str, database: &'a str, address: &str) -> Facts<'a> {
    let (address, transport) = match address.strip_prefix("tls ") {
        Some(address) => (address, Transport::Tls),
        None => (address, Transport::Clear),
    };
    let network = |address: IpAddr| Origin::Network { address, transport };
    Facts {
        origin: address.parse().map_or(Origin::Local, network),
        user: user.as_bytes(),
        database: database.as_bytes(),
        replication: Replication::No,
    }
}

fn decide(text: &str, facts: &Facts<'_>) -> Result<Admission, Refusal> {
    Hba::parse(text).unwrap().decide(facts)
}

/// The number of the line that lets the client in.
fn line(text: &str, user: &str, database: &str, address: &str) -> Option<usize> {
    decide(text, &facts(user, database, address)).ok().map(|admission| admission.line)
}

#[test]
fn the_first_line_that_matches_decides() {
    let text = "# TYPE DATABASE USER ADDRESS METHOD\n\
                local all all trust\n\
                host shop alice 10.0.0.0/8 scram-sha-256\n\
                host shop alice 10.1.0.0/16 trust\n\
                host all mallory all reject # not him\n\
                \n\
                hostssl all all 0.0.0.0/0 md5\n\
                hostnossl all all 192.168.0.0 255.255.0.0 password\n";
    assert_eq!(line(text, "alice", "shop", "local"), Some(2));
    assert_eq!(line(text, "alice", "shop", "10.1.2.3"), Some(3));
    assert_eq!(line(text, "alice", "other", "10.1.2.3"), None);
    assert_eq!(line(text, "alice", "other", "tls 10.1.2.3"), Some(7));
    assert_eq!(line(text, "bob", "shop", "192.168.3.4"), Some(8));
    assert_eq!(line(text, "bob", "shop", "192.169.3.4"), None);
    let mallory = decide(text, &facts("mallory", "shop", "tls 10.1.2.3")).unwrap_err();
    assert!(matches!(mallory, Refusal::Rejected { line: 5, .. }));
    assert_eq!(
        format!("{} {mallory}", mallory.sqlstate()),
        "28000 pg_hba.conf rejects connection for host \"10.1.2.3\", user \"mallory\", \
         database \"shop\", SSL encryption"
    );
    let bob = decide(text, &facts("bob", "shop", "::1")).unwrap_err();
    assert_eq!(
        bob.to_string(),
        "no pg_hba.conf entry for host \"::1\", user \"bob\", database \"shop\", no encryption"
    );
}

#[test]
fn networks_are_compared_by_their_bits() {
    for (network, inside, outside) in [
        ("0.0.0.0/0", "255.255.255.255", "::1"),
        ("10.1.2.3/32", "10.1.2.3", "10.1.2.2"),
        ("10.1.2.3/8", "10.255.0.0", "11.1.2.3"),
        ("10.0.0.0/9", "10.127.255.255", "10.128.0.0"),
        ("10.0.0.1 255.0.0.255", "10.9.9.1", "10.0.0.2"),
        ("::/0", "::1", "127.0.0.1"),
        ("fe80::/10", "febf::1", "fec0::1"),
        ("2001:db8::1/128", "2001:db8::1", "2001:db8::2"),
        ("2001:db8:: ffff:ffff::", "2001:db8:1::", "2001:db9::"),
        // A socket for both families shows an IPv4 address like this.
        ("127.0.0.0/8", "::ffff:127.0.0.1", "::ffff:126.0.0.1"),
    ] {
        let text = format!("host all all {network} trust");
        assert_eq!(line(&text, "u", "d", inside), Some(1), "{network} {inside}");
        assert_eq!(line(&text, "u", "d", outside), None, "{network} {outside}");
    }
    let all = "host all all all trust";
    assert_eq!((line(all, "u", "d", "::1"), line(all, "u", "d", "1.2.3.4")), (Some(1), Some(1)));
    assert_eq!(line(all, "u", "d", "local"), None);
}

#[test]
fn names_may_be_lists_and_quoted_and_keywords_lose_their_meaning_in_quotation_marks() {
    let text = "local a,b , \"c d\" alice,\"bob, the builder\" trust\n\
                local sameuser all trust\n\
                local \"all\" all trust\n\
                local all \"all\" trust\n\
                local \"sameuser\",\\\n\"replication\" \"+group\" trust\n";
    assert_eq!(line(text, "alice", "a", ""), Some(1));
    assert_eq!(line(text, "alice", "b", ""), Some(1));
    assert_eq!(line(text, "bob, the builder", "c d", ""), Some(1));
    assert_eq!(line(text, "alice", "alice", ""), Some(2));
    assert_eq!(line(text, "alice", "all", ""), Some(3));
    assert_eq!(line(text, "all", "x", ""), Some(4));
    assert_eq!(line(text, "+group", "replication", ""), Some(5));
    assert_eq!(line(text, "+group", "sameuser", ""), Some(5));
    assert_eq!(line(text, "Alice", "a", ""), None);
}

#[test]
fn replication_of_the_log_needs_its_keyword_and_that_of_a_database_does_not() {
    let all = "local all all trust";
    let keyword = "local replication all trust";
    let of = |text, replication| {
        decide(text, &Facts { replication, ..facts("alice", "shop", "") }).is_ok()
    };
    for (replication, by_all, by_keyword) in [
        (Replication::No, true, false),
        (Replication::Logical, true, false),
        (Replication::Physical, false, true),
    ] {
        assert_eq!((of(all, replication), of(keyword, replication)), (by_all, by_keyword));
    }
    let facts = Facts { replication: Replication::Physical, ..facts("alice", "shop", "") };
    let error = decide(all, &facts).unwrap_err().to_string();
    assert!(error.contains("for replication connection from host \"[local]\""), "{error}");
}

#[test]
fn methods_and_certificates_are_what_the_line_says() {
    let of = |method: &str| {
        let text = format!("hostssl all all all {method}");
        let admission = decide(&text, &facts("u", "d", "tls ::1")).unwrap();
        (admission.method, admission.certificate)
    };
    assert_eq!(of("trust"), (Method::Trust, Certificate::Unneeded));
    assert_eq!(of("password"), (Method::Password, Certificate::Unneeded));
    assert_eq!(of("md5"), (Method::Md5, Certificate::Unneeded));
    assert_eq!(of("scram-sha-256"), (Method::ScramSha256, Certificate::Unneeded));
    assert_eq!(of("md5 clientcert=verify-ca"), (Method::Md5, Certificate::Verified));
    assert_eq!(of("trust clientcert=verify-full"), (Method::Trust, Certificate::OfUser));
    assert_eq!(of("cert"), (Method::Trust, Certificate::OfUser));
    assert_eq!(
        of("cert clientcert=verify-full clientname=CN"),
        (Method::Trust, Certificate::OfUser)
    );
}

#[test]
fn what_cannot_be_decided_here_is_refused_with_line_cause_and_way_out() {
    for (text, expected) in [
        ("local", "line 1: the database is missing"),
        ("\n\nlocal all", "line 3: the user is missing"),
        ("local all all", "line 1: the method is missing"),
        ("host all all", "line 1: the address is missing"),
        ("host all all 10.0.0.1 trust", "line 1: invalid mask \"trust\""),
        ("host all all 10.0.0.1", "line 1: the mask is missing"),
        ("host all all 10.0.0.1 ::", "line 1: invalid mask \"::\""),
        ("host all all 10.0.0.0/33 trust", "line 1: invalid address \"10.0.0.0/33\""),
        ("host all all 10.0.0.0/+8 trust", "line 1: invalid address \"10.0.0.0/+8\""),
        ("host all all ::/129 trust", "line 1: invalid address \"::/129\""),
        ("host all all 300.0.0.0/8 trust", "line 1: invalid address \"300.0.0.0/8\""),
        ("host all all db.example trust", "line 1: address \"db.example\" cannot be decided here"),
        ("host all all .example trust", "line 1: address \".example\" cannot be decided here"),
        ("host all all samenet trust", "line 1: address \"samenet\" cannot be decided here"),
        ("hostgssenc all all all trust", "line 1: unknown connection type \"hostgssenc\""),
        ("local,host all all trust", "line 1: there are several values for the type"),
        ("local all +staff trust", "line 1: user \"+staff\" cannot be decided here: the gate does"),
        ("local samerole all trust", "line 1: database \"samerole\" cannot be decided here"),
        ("local @dbs all trust", "line 1: database \"@dbs\" cannot be decided here"),
        ("local all /^a trust", "line 1: user \"/^a\" cannot be decided here"),
        ("local \"/^a,b\" all trust", "line 1: database \"/^a,b\" cannot be decided here"),
        ("host all all all peer", "line 1: peer is of this machine, and only local lines"),
        ("local all all trust map=m", "line 1: unsupported option \"map=m\""),
        ("local all all Trust", "line 1: unsupported method \"Trust\""),
        ("local all all cert", "line 1: cert needs a client certificate"),
        ("host all all all md5 clientcert=verify-ca", "line 1: clientcert=verify-ca needs"),
        ("hostssl all all all cert clientcert=verify-ca", "line 1: unsupported option"),
        ("local \"all all trust", "line 1: a quotation mark does not end on its line"),
        (
            "include hba2.conf",
            "line 1: directive \"include\" cannot be decided here: write the lines",
        ),
        ("# x\nlocal all \\\n  all \\\n ident", "line 2: unsupported method \"ident\""),
    ] {
        let error = Hba::parse(text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
    assert_eq!(Hba::parse("# nothing\n\n \t\n").unwrap(), Hba::parse("").unwrap());
}

#[test]
fn the_system_says_who_comes_by_a_socket_and_maps_say_as_whom() {
    let text = "local all clerk peer\nlocal all all peer map=office\n\
                hostssl all all all cert map=papers\n";
    let hba = Hba::parse(text).unwrap();
    let clerk = hba.decide(&facts("clerk", "shop", "local")).unwrap();
    assert_eq!((clerk.method, clerk.peer, clerk.map), (Method::Trust, Peer::OfUser, None));
    let boss = hba.decide(&facts("boss", "shop", "local")).unwrap();
    assert_eq!((boss.peer, boss.map.as_deref()), (Peer::OfUser, Some("office")));
    let far = hba.decide(&facts("boss", "shop", "tls 10.0.0.1")).unwrap();
    assert_eq!((far.peer, far.certificate), (Peer::Unneeded, Certificate::OfUser));
    assert_eq!(hba.maps().collect::<Vec<_>>(), [(2, "office"), (3, "papers")]);
}
