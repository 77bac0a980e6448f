//! Damaged bytes: whatever comes is cut and read in one way or refused, and what is read and written
//! again is what came. `SEKISHO_SEED` replays a run.

use pgwire::SqlState;
use pgwire::frame::{Backend, FrameError, Frames, Frontend, HEAD, Limits, Piece, Tag};
use pgwire::message::{Authentication, Report, Severity, Status, read, write};
use pgwire::secrets::{Hba, MockKey, Users};
use pgwire::startup::{
    Opening, Packet, StartupError, Version, write_cancel, write_ssl_request, write_startup,
};

use pgtest::Chance;
use pgtest::suite::many;

const LIMITS: Limits = Limits { length_max: 100_000, whole_max: 64 };
/// A short message of a server is the largest that must be whole \[byte\].
const ROOM: usize = Backend::SHORT_MAX as usize + 1;

/// Changes a few bytes: replaces, removes, doubles, inserts, or breaks a length.
fn mutate(bytes: &mut Vec<u8>, chance: &mut Chance) {
    const CRUMBS: [&[u8]; 6] =
        [b"\0", b"\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\x04", b"Z\0\0\0\x05I"];
    for _ in 0..=chance.below(3) {
        let at = chance.below(bytes.len() + 1);
        match chance.below(5) {
            0 if at < bytes.len() => bytes[at] = chance.below(256) as u8,
            1 if at < bytes.len() => drop(bytes.remove(at)),
            2 if at < bytes.len() => bytes[at] ^= 1 << chance.below(8),
            3 => {
                let end = (at + chance.below(20)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                let to = chance.below(bytes.len() + 1);
                bytes.splice(to..to, copy);
            }
            _ => {
                let crumb = CRUMBS[chance.below(CRUMBS.len())];
                bytes.splice(at..at, crumb.iter().copied());
            }
        }
    }
}

/// Messages, as far as they came, and the error that ended the stream.
type Cut<T> = (Vec<(T, Vec<u8>)>, Option<FrameError>);

/// Cuts what comes in portions of at most `most` bytes into a buffer of [`ROOM`].
fn cut<T: Tag>(bytes: &[u8], most: usize, chance: &mut Chance) -> Cut<T> {
    let (mut frames, mut buffer, mut at) = (Frames::<T>::new(LIMITS), Vec::new(), 0);
    let mut found: Vec<(T, Vec<u8>)> = Vec::new();
    loop {
        let piece = match frames.look(&buffer) {
            Ok(piece) => piece,
            Err(error) => return (found, Some(error)),
        };
        match piece {
            Piece::More { missing } => {
                assert!(missing > 0 && buffer.len() + missing <= ROOM, "{piece:?}");
                if at == bytes.len() {
                    return (found, None);
                }
                let end = (at + 1 + chance.below(most)).min(bytes.len());
                buffer.extend_from_slice(&bytes[at..end]);
                at = end;
            }
            Piece::Whole { tag, len } => found.push((tag, buffer[HEAD..len].to_vec())),
            Piece::Begin { tag, here, .. } => found.push((tag, buffer[HEAD..here].to_vec())),
            Piece::Rest { here, .. } => {
                found.last_mut().unwrap().1.extend_from_slice(&buffer[..here]);
            }
        }
        buffer.drain(..frames.take(piece));
    }
}

/// The body of the message that `write` writes.
fn body(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out.split_off(HEAD)
}

/// Reads a server's message; whether it could be, and was written back equal.
fn reads_backend(tag: Backend, bytes: &[u8]) -> bool {
    let written = match tag {
        Backend::Authentication => {
            let Ok(step) = read::authentication(bytes) else { return false };
            match step {
                Authentication::Ok => body(write::authentication_ok),
                Authentication::CleartextPassword => body(write::authentication_cleartext),
                Authentication::Md5Password { salt } => {
                    body(|out| write::authentication_md5(out, salt))
                }
                Authentication::Sasl(mechanisms) => {
                    let names: Result<Vec<_>, _> =
                        mechanisms.iter().map(std::str::from_utf8).collect();
                    let Ok(names) = names else { return true };
                    body(|out| write::authentication_sasl(out, &names))
                }
                Authentication::SaslContinue(said) => {
                    body(|out| write::authentication_sasl_continue(out, said))
                }
                Authentication::SaslFinal(said) => {
                    body(|out| write::authentication_sasl_final(out, said))
                }
                Authentication::Other { code } => {
                    assert!(bytes.starts_with(&code.to_be_bytes()));
                    return true;
                }
            }
        }
        Backend::NegotiateProtocolVersion => {
            let Ok(found) = read::negotiate_protocol_version(bytes) else { return false };
            assert!(found.version.major == 3 && found.version.minor != 1);
            let unknown: Vec<&[u8]> = found.unknown_options().collect();
            let version = found.version;
            let mut written = body(|out| {
                write::negotiate_protocol_version(out, version, unknown.iter().copied());
            });
            // The major version may be left out.
            written[1] &= bytes[1];
            written
        }
        Backend::ParameterStatus => {
            let Ok((name, value)) = read::parameter_status(bytes) else { return false };
            body(|out| write::parameter_status(out, name, value))
        }
        Backend::BackendKeyData => {
            let Ok((process, key)) = read::backend_key_data(bytes) else { return false };
            body(|out| write::backend_key_data(out, process, key))
        }
        Backend::ReadyForQuery => {
            let Ok(status) = read::ready_for_query(bytes) else { return false };
            body(|out| write::ready_for_query(out, status))
        }
        Backend::ErrorResponse | Backend::NoticeResponse => {
            let Ok(fields) = read::fields(bytes) else { return false };
            let seen = (fields.severity(), fields.message(), fields.detail(), fields.hint());
            assert_eq!(seen.1, fields.field(b'M'));
            let mut written = Vec::new();
            for (kind, value) in fields.iter() {
                written.push(kind);
                written.extend_from_slice(value);
                written.push(0);
            }
            written.push(0);
            written
        }
        _ => return false,
    };
    assert_eq!(written, bytes, "{tag:?} is not written as it was read");
    true
}

/// The same for a client's message, which may be an answer of either kind.
fn reads_frontend(tag: Frontend, bytes: &[u8]) -> bool {
    if tag != Frontend::Password {
        return false;
    }
    if let Ok(password) = read::password(bytes) {
        assert_eq!(body(|out| write::password(out, password)), bytes);
    }
    let Ok((mechanism, response)) = read::sasl_initial_response(bytes) else { return false };
    if let (Ok(mechanism), Some(response)) = (std::str::from_utf8(mechanism), response) {
        assert_eq!(body(|out| write::sasl_initial_response(out, mechanism, response)), bytes);
    }
    true
}

/// Messages of a server, from the start of a session on.
fn backend_stream() -> Vec<u8> {
    let mut out = Vec::new();
    let report = Report {
        detail: Some("more of it"),
        hint: Some("the way out"),
        ..Report::new(Severity::Error, SqlState::PROTOCOL_VIOLATION, "it failed")
    };
    let unknown: [&[u8]; 2] = [b"_pq_.a", b"_pq_.b"];
    write::negotiate_protocol_version(&mut out, Version::V3_0, unknown);
    write::authentication_sasl(&mut out, &["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"]);
    write::authentication_sasl_continue(&mut out, b"r=x,s=y,i=1");
    write::authentication_sasl_final(&mut out, b"v=z");
    write::authentication_md5(&mut out, *b"salt");
    write::authentication_cleartext(&mut out);
    write::authentication_ok(&mut out);
    write::parameter_status(&mut out, b"server_version", b"18.1");
    write::backend_key_data(&mut out, 4711, &[7; 32]);
    write::ready_for_query(&mut out, Status::Idle);
    write::row_description(&mut out, &["one", "another"]);
    write::data_row(&mut out, &[Some("value"), None]);
    write::command_complete(&mut out, "SELECT 1");
    write::error_response(&mut out, &report);
    write::notice_response(&mut out, &report);
    write::ready_for_query(&mut out, Status::InFailedTransaction);
    out
}

fn frontend_stream() -> Vec<u8> {
    let mut out = Vec::new();
    write::password(&mut out, b"secret");
    write::sasl_initial_response(&mut out, "SCRAM-SHA-256", b"n,,n=,r=x");
    write::sasl_response(&mut out, b"c=biws,r=xy,p=z");
    write::query(&mut out, "select 1");
    write::message(&mut out, Frontend::Parse, |out| out.extend_from_slice(&[b's'; 300]));
    write::message(&mut out, Frontend::CopyData, |out| out.extend_from_slice(&[b'r'; 300]));
    write::bare(&mut out, Frontend::Sync);
    write::bare(&mut out, Frontend::Terminate);
    out
}

/// Damages a stream again and again; how many messages were read, and how many streams were refused.
fn damage<T: Tag>(stream: &[u8], seed: u64, reads: impl Fn(T, &[u8]) -> bool) -> (usize, usize) {
    let mut chance = Chance::new(seed);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..many(8000) {
        let mut bytes = stream.to_vec();
        mutate(&mut bytes, &mut chance);
        let whole = cut::<T>(&bytes, bytes.len().max(1), &mut chance);
        assert_eq!(cut::<T>(&bytes, 7, &mut chance), whole, "portions matter");
        read += whole.0.iter().filter(|(tag, body)| reads(*tag, body)).count();
        refused += usize::from(whole.1.is_some());
    }
    (read, refused)
}

#[test]
fn a_damaged_stream_is_cut_and_read_in_one_way() {
    let (read, refused) = damage(&backend_stream(), 0x5e15_0110, reads_backend);
    assert!(read > 50_000 && refused > 1000, "{read} read, {refused} refused");
    let (read, refused) = damage(&frontend_stream(), 0x5e15_0111, reads_frontend);
    assert!(read > 4000 && refused > 1000, "{read} read, {refused} refused");
}

#[test]
fn an_undamaged_stream_is_read_to_its_last_message() {
    let (mut chance, stream) = (Chance::new(0x5e15_0112), backend_stream());
    let (found, error) = cut::<Backend>(&stream, 100, &mut chance);
    let read = found.iter().filter(|(tag, body)| reads_backend(*tag, body)).count();
    assert_eq!((found.len(), read, error), (16, 13, None));
    let (found, error) = cut::<Frontend>(&frontend_stream(), 100, &mut chance);
    assert_eq!((found.len(), error), (8, None));
}

#[test]
fn a_reader_takes_any_bytes() {
    let mut chance = Chance::new(0x5e15_0113);
    let tags: Vec<Backend> = (0..=255).filter_map(Backend::from_byte).collect();
    for _ in 0..many(100_000) {
        let bytes: Vec<u8> = (0..chance.below(24))
            .map(|_| if chance.below(2) == 0 { 0 } else { chance.below(256) as u8 })
            .collect();
        reads_backend(tags[chance.below(tags.len())], &bytes);
        reads_frontend(Frontend::Password, &bytes);
    }
}

#[test]
fn a_damaged_opening_is_read_in_one_way_or_refused() {
    let mut startup = Vec::new();
    let parameters: [(&[u8], &[u8]); 5] = [
        (b"user", b"alice"),
        (b"database", b"shop"),
        (b"options", b"-c a=b --c-d=e\\ f"),
        (b"replication", b"database"),
        (b"_pq_.x", b"y"),
    ];
    write_startup(&mut startup, Version { major: 3, minor: 9999 }, parameters).unwrap();
    let (mut cancel, mut ssl) = (Vec::new(), Vec::new());
    write_cancel(&mut cancel, 7, &[9; 32]).unwrap();
    write_ssl_request(&mut ssl);
    let mut chance = Chance::new(0x5e15_0114);
    let (mut sessions, mut refused) = (0, 0);
    for _ in 0..many(30_000) {
        let packets = [&startup, &startup, &startup, &cancel, &ssl];
        let mut bytes = packets[chance.below(packets.len())].clone();
        mutate(&mut bytes, &mut chance);
        if chance.below(2) == 0 && bytes.len() >= 4 {
            // With a length that is right, the damage is seen further in.
            let length = bytes.len() as u32;
            bytes[..4].copy_from_slice(&length.to_be_bytes());
        }
        let whole = Opening::in_clear().read(&bytes);
        match whole {
            Ok(Packet::Startup(startup)) => {
                sessions += 1;
                assert!(!startup.user().is_empty() && !startup.database().is_empty());
                let held: usize = startup.settings().map_or(0, |settings| {
                    settings.iter().map(|one| one.name.len() + one.value.len()).sum()
                });
                assert!(held <= startup.bytes(), "more settings than bytes");
                let _ = (startup.negotiates(), startup.replication(), startup.unknown_options());
                let mut again = Vec::new();
                write_startup(&mut again, startup.version(), startup.parameters()).unwrap();
                assert_eq!(again, bytes[..startup.bytes()]);
            }
            Ok(_) => {}
            Err(ref error) => {
                refused += 1;
                assert_eq!(error.sqlstate().as_str().len(), 5);
            }
        }
        // Of what comes earlier nothing else is said, but that more is missing. Bytes in clear
        // behind a request are seen only when they are there.
        let clear = matches!(whole, Err(StartupError::ClearText { .. }));
        let here = chance.below(bytes.len() + 1);
        match Opening::in_clear().read(&bytes[..here]) {
            Ok(Packet::More { missing }) => assert!(missing > 0),
            said => assert!(said == whole || clear && said.is_ok(), "{said:?} then {whole:?}"),
        }
    }
    assert!(sessions > 3000 && refused > 3000, "{sessions} sessions, {refused} refused");
}

#[test]
fn damaged_lists_of_users_and_rules_are_read_or_refused_with_a_line() {
    let users =
        b"\"alice\" \"md5aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"\n; x\n\"b\"\"ob\" \"\"\n".to_vec();
    let rules = b"local all all trust\nhost a,\"b c\" u 10.0.0.0/8 md5 # x\n\
                  hostssl all all ::1 ffff:: cert\nhost \\\nall all all reject\n"
        .to_vec();
    let mut chance = Chance::new(0x5e15_0115);
    let (mut taken, mut refused) = (0, 0);
    // Few rounds: a hash that is damaged is a password, and takes a millisecond.
    for _ in 0..many(2000) {
        for (text, is_users) in [(&users, true), (&rules, false)] {
            let mut bytes = text.clone();
            mutate(&mut bytes, &mut chance);
            let text = String::from_utf8_lossy(&bytes);
            let lines = text.lines().count();
            let line = if is_users {
                Users::parse(&text, MockKey::new([1; 32])).err().map(|error| error.line)
            } else {
                Hba::parse(&text).err().map(|error| error.line)
            };
            match line {
                Some(line) => {
                    refused += 1;
                    assert!((1..=lines).contains(&line), "line {line} of {lines}: {text:?}");
                }
                None => taken += 1,
            }
        }
    }
    assert!(taken > 500 && refused > 500, "{taken} taken, {refused} refused");
}
