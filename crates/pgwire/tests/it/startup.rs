//! What a connection begins with: each packet, each way to ask, each length, each place to split.

use pgwire::startup::{
    CancelRequest, Opening, OptionsError, PACKET_MAX, Packet, Replication, Startup, StartupError,
    UnwritableError, Version, write_cancel, write_ssl_request, write_startup,
};

const SSL: &[u8] = b"\0\0\0\x08\x04\xd2\x16\x2f";
const GSSENC: &[u8] = b"\0\0\0\x08\x04\xd2\x16\x30";

/// A start-up packet with these parameters, written by hand.
fn packet(version: u32, parameters: &[u8]) -> Vec<u8> {
    let length = 8 + parameters.len() as u32;
    [&length.to_be_bytes()[..], &version.to_be_bytes(), parameters].concat()
}

fn read(bytes: &[u8]) -> Result<Packet<'_>, StartupError> {
    Opening::in_clear().read(bytes)
}

fn session(bytes: &[u8]) -> Startup<'_> {
    let Ok(Packet::Startup(startup)) = read(bytes) else { panic!("{:?}", read(bytes)) };
    assert_eq!(startup.bytes(), bytes.len());
    startup
}

/// The code and the text of the error.
fn refused(bytes: &[u8]) -> String {
    let error = read(bytes).unwrap_err();
    format!("{} {error}", error.sqlstate())
}

#[test]
fn a_session_has_a_user_a_database_and_settings() {
    let bytes = packet(
        Version::V3_0.code(),
        b"user\0alice\0database\0shop\0options\0-c a=b --c-d=e\0application_name\0me\0\0",
    );
    let startup = session(&bytes);
    assert_eq!((startup.user(), startup.database()), (&b"alice"[..], &b"shop"[..]));
    assert_eq!((startup.version(), startup.negotiates()), (Version::V3_0, false));
    assert_eq!(startup.replication(), Replication::No);
    let settings = format!("{:?}", startup.settings().unwrap());
    assert_eq!(settings, "[a=b, c_d=e, application_name=me]");
    assert_eq!(startup.parameters().count(), 4);
}

#[test]
fn the_database_is_the_users_unless_it_is_said_and_the_last_of_several_counts() {
    for (parameters, user, database) in [
        (&b"user\0a\0\0"[..], "a", "a"),
        (b"user\0a\0database\0\0\0", "a", "a"),
        (b"database\0d\0user\0a\0\0", "a", "d"),
        (b"user\0a\0user\0b\0\0", "b", "b"),
        (b"user\0a\0database\0c\0database\0d\0\0", "a", "d"),
        (b"user\0\xff\xfe\0\0", "\u{fffd}\u{fffd}", "\u{fffd}\u{fffd}"),
    ] {
        let bytes = packet(Version::V3_0.code(), parameters);
        let startup = session(&bytes);
        let [found_user, found_database] =
            [startup.user(), startup.database()].map(String::from_utf8_lossy);
        assert_eq!((&*found_user, &*found_database), (user, database));
    }
}

#[test]
fn what_is_no_start_up_packet_is_refused_as_postgresql_does() {
    let v3 = Version::V3_0.code();
    let layout = "08P01 invalid startup packet layout: expected terminator as last byte";
    let user = "28000 no PostgreSQL user name specified in startup packet";
    for (parameters, expected) in [
        (&b""[..], layout),
        (b"user\0alice\0", layout),
        (b"user\0alice", layout),
        (b"user\0\0\0\0", layout),
        (b"user\0alice\0\0\0", layout),
        (b"user\0alice\0database\0\0", layout),
        (b"\0user\0alice\0\0", layout),
        (b"\0", user),
        (b"user\0\0\0", user),
        (b"database\0shop\0\0", user),
        (
            b"user\0a\0replication\0perhaps\0\0",
            "22023 invalid value for parameter \"replication\": \"perhaps\"",
        ),
    ] {
        let shown = parameters.escape_ascii();
        assert_eq!(refused(&packet(v3, parameters)), expected, "{shown}");
    }
    for (version, shown) in [(2 << 16, "2.0"), (0, "0.0"), (4 << 16 | 1, "4.1"), (1 << 16, "1.0")] {
        let expected =
            format!("0A000 unsupported frontend protocol {shown}: server supports 3.0 to 3.2");
        assert_eq!(refused(&packet(version, b"user\0a\0\0")), expected);
    }
    assert!(refused(b"GET / HTTP/1.1\r\n").starts_with("08P01 invalid length of startup packet"));
}

#[test]
fn versions_and_options_of_the_protocol_are_negotiated() {
    for (minor, granted, negotiates) in
        [(0, 0, false), (1, 0, true), (2, 2, false), (3, 2, true), (9999, 2, true)]
    {
        let bytes = packet(3 << 16 | minor, b"user\0a\0\0");
        let startup = session(&bytes);
        assert_eq!(startup.version().granted(), Version { major: 3, minor: granted });
        assert_eq!(startup.negotiates(), negotiates, "3.{minor}");
    }
    let bytes = packet(3 << 16, b"_pq_.a\0on\0user\0a\0_pq_.test_protocol_negotiation\0\0\0");
    let startup = session(&bytes);
    let unknown: Vec<&[u8]> = startup.unknown_options().collect();
    assert_eq!(unknown, [&b"_pq_.a"[..], b"_pq_.test_protocol_negotiation"]);
    assert!(startup.negotiates() && startup.settings().unwrap().is_empty());
}

#[test]
fn replication_is_a_boolean_or_a_database() {
    for (value, expected) in [
        ("true", Replication::Physical),
        ("T", Replication::Physical),
        ("on", Replication::Physical),
        ("yes", Replication::Physical),
        ("1", Replication::Physical),
        ("database", Replication::Logical),
        ("off", Replication::No),
        ("of", Replication::No),
        ("fal", Replication::No),
        ("n", Replication::No),
        ("0", Replication::No),
    ] {
        let parameters = format!("user\0a\0replication\0{value}\0\0");
        let bytes = packet(Version::V3_0.code(), parameters.as_bytes());
        assert_eq!(session(&bytes).replication(), expected, "{value}");
    }
    for value in ["", "o", "truer", "2", "databases"] {
        let parameters = format!("user\0a\0replication\0{value}\0\0");
        assert!(read(&packet(Version::V3_0.code(), parameters.as_bytes())).is_err(), "{value}");
    }
}

#[test]
fn options_that_are_none_are_refused_when_they_are_asked_for() {
    let bytes = packet(Version::V3_0.code(), b"user\0a\0options\0-S 4096\0\0");
    let error = session(&bytes).settings().unwrap_err();
    assert_eq!(error, OptionsError::Switch { switch: "-S".to_owned() });
}

#[test]
fn encryption_is_asked_for_once_each_and_nothing_in_clear_follows_it() {
    let mut opening = Opening::in_clear();
    assert_eq!(opening.read(GSSENC), Ok(Packet::GssEncRequest));
    assert_eq!(opening.read(SSL), Ok(Packet::SslRequest));
    for again in [SSL, GSSENC] {
        let error = opening.clone().read(again).unwrap_err();
        assert_eq!(error.sqlstate().as_str(), "0A000", "{error}");
    }
    let begun = packet(Version::V3_0.code(), b"user\0a\0\0");
    assert!(matches!(opening.read(&begun), Ok(Packet::Startup(_))));

    for (request, after) in [(SSL, "SSL"), (GSSENC, "GSSAPI encryption")] {
        let injected = [request, &begun].concat();
        assert_eq!(
            refused(&injected),
            format!("08P01 received unencrypted data after {after} request")
        );
        assert!(matches!(refused(&[request, b"\0"].concat()), text if text.starts_with("08P01")));
        let long = [b"\0\0\0\x09", &request[4..], b"\0"].concat();
        assert_eq!(refused(&long), "08P01 invalid length of startup packet: 9 bytes");
    }
    // Inside TLS there is nothing left to ask for.
    for request in [SSL, GSSENC] {
        assert_eq!(Opening::inside_tls().read(request).unwrap_err().sqlstate().as_str(), "0A000");
    }
}

#[test]
fn a_connection_may_begin_with_tls_but_only_begin() {
    let hello = b"\x16\x03\x01\x02\0\x01";
    for end in 1..hello.len() {
        assert_eq!(read(&hello[..end]), Ok(Packet::DirectTls));
    }
    let mut opening = Opening::in_clear();
    assert_eq!(opening.read(SSL), Ok(Packet::SslRequest));
    assert!(opening.read(hello).is_err());
    assert!(Opening::inside_tls().read(hello).is_err());
}

#[test]
fn a_cancel_request_has_a_key_of_4_to_256_bytes() {
    for bytes in 0..=300 {
        let key = vec![7; bytes];
        let mut out = Vec::new();
        let written = write_cancel(&mut out, 0x0102_0304, &key);
        let raw =
            [&(12 + bytes as u32).to_be_bytes()[..], b"\x04\xd2\x16\x2e\x01\x02\x03\x04", &key]
                .concat();
        if (4..=256).contains(&bytes) {
            assert_eq!((written, &out), (Ok(()), &raw));
            let request = CancelRequest { process: 0x0102_0304, key: &key };
            assert_eq!(read(&raw), Ok(Packet::Cancel(request)));
        } else {
            assert_eq!(written, Err(UnwritableError::Key { bytes }));
            assert!(out.is_empty());
            assert_eq!(read(&raw), Err(StartupError::CancelKey { length: bytes }));
        }
    }
    assert!(read(b"\0\0\0\x0a\x04\xd2\x16\x2e\0\0").is_err());
}

#[test]
fn a_packet_of_any_length_is_whole_too_long_or_refused() {
    for length in 0..=PACKET_MAX + 1 {
        // A value fills the packet, which ends as it must.
        let mut body = packet(Version::V3_0.code(), b"user\0a\0z\0")[4..].to_vec();
        body.resize(length.max(body.len()), b'x');
        body.truncate(length);
        if let [.., first, second] = &mut body[..] {
            (*first, *second) = (0, 0);
        }
        let bytes = [&(length as u32 + 4).to_be_bytes()[..], &body].concat();
        let result = read(&bytes);
        // From 15 bytes on there is room for the version, both names and all NULs.
        match length {
            0..=3 | 10_001.. => {
                assert_eq!(result, Err(StartupError::Length { length: length as u32 + 4 }));
            }
            15..=10_000 => {
                assert!(matches!(result, Ok(Packet::Startup(_))), "{length}: {result:?}")
            }
            _ => assert!(!matches!(result, Ok(Packet::More { .. })), "{length}"),
        }
        if (4..=PACKET_MAX).contains(&length) {
            assert_eq!(read(&bytes[..4]), Ok(Packet::More { missing: length }));
        }
    }
    for length in [5, 7, 10_005, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
        assert_eq!(read(&length.to_be_bytes()), Err(StartupError::Length { length }));
    }
}

#[test]
fn a_packet_may_be_split_anywhere() {
    let long = vec![b'x'; 9000];
    let mut startup = Vec::new();
    let parameters = [(&b"user"[..], &b"alice"[..]), (b"application_name", &long)];
    write_startup(&mut startup, Version::V3_2, parameters).unwrap();
    let mut cancel = Vec::new();
    write_cancel(&mut cancel, 7, &[9; 32]).unwrap();
    let mut ssl = Vec::new();
    write_ssl_request(&mut ssl);
    assert_eq!(ssl, SSL);
    for whole in [&startup, &cancel, &ssl] {
        for here in 0..whole.len() {
            let Ok(Packet::More { missing }) = read(&whole[..here]) else { panic!("{here}") };
            assert_eq!(here + missing, if here < 4 { 4 } else { whole.len() });
        }
        assert!(!matches!(read(whole), Ok(Packet::More { .. }) | Err(_)));
    }
    let read = session(&startup);
    assert!(read.parameters().eq(parameters));
}

#[test]
fn what_would_add_a_parameter_or_be_too_long_is_not_written() {
    let mut out = b"before".to_vec();
    for (name, value) in [(&b""[..], &b"x"[..]), (b"a\0b", b"x"), (b"a", b"x\0user\0root")] {
        let pairs = [(&b"user"[..], &b"a"[..]), (name, value)];
        let result = write_startup(&mut out, Version::V3_0, pairs);
        assert_eq!((result, &out[..]), (Err(UnwritableError::Parameter), &b"before"[..]));
    }
    // The version, "user", the NULs of both and of the end leave this much for the value.
    let room = PACKET_MAX - 4 - 5 - 1 - 1;
    let value = vec![b'x'; room + 1];
    let too_long = write_startup(&mut out, Version::V3_0, [(&b"user"[..], &value[..])]);
    assert_eq!(too_long, Err(UnwritableError::TooLong { bytes: PACKET_MAX + 1 }));
    assert_eq!(out, b"before");
    out.clear();
    write_startup(&mut out, Version::V3_0, [(&b"user"[..], &value[..room])]).unwrap();
    assert_eq!(session(&out).user().len(), room);
}
