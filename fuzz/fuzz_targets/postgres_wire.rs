//! What a connection to the PostgreSQL gate begins with, and the messages of both sides, are read in
//! one way in whatever portions they come, and mean the same when they are written anew.
//!
//! Input: a byte that seeds the portions, a byte that says what follows (0 a connection, 1 a client's
//! messages, 2 a server's), the bytes.
#![no_main]

mod portions;

use libfuzzer_sys::fuzz_target;
use pgwire::frame::{Backend, FrameError, Frames, Frontend, HEAD, Limits, Piece, Tag};
use pgwire::message::{Authentication, read, write};
use pgwire::startup::{Opening, Packet, StartupError, write_cancel, write_startup};

/// Small enough to be reached by a fuzzer.
const LIMITS: Limits = Limits { length_max: 1 << 16, whole_max: 32 };
/// A short message of a server is the largest that must be whole.
const ROOM: usize = Backend::SHORT_MAX as usize + 1;

fuzz_target!(|input: &[u8]| {
    let [seed, what, bytes @ ..] = input else { return };
    match what % 3 {
        0 => opening(*seed, bytes),
        1 => messages::<Frontend>(*seed, bytes, |tag, body| {
            if tag == Frontend::Password {
                answer(body);
            }
        }),
        _ => messages::<Backend>(*seed, bytes, backend),
    }
});

/// The first packet: nothing is said of it until it is whole, and it is written as it was read.
fn opening(seed: u8, bytes: &[u8]) {
    let whole = Opening::in_clear().read(bytes);
    let clear = matches!(whole, Err(StartupError::ClearText { .. }));
    for end in portions::ends(seed, bytes.len()) {
        match Opening::in_clear().read(&bytes[..end]) {
            Ok(Packet::More { missing }) => assert!(missing > 0),
            said => {
                assert!(said == whole || clear && said.is_ok(), "{said:?} then {whole:?}");
                break;
            }
        }
    }
    let mut again = Vec::new();
    match whole {
        Ok(Packet::Startup(startup)) => {
            write_startup(&mut again, startup.version(), startup.parameters())
                .expect("what was read can be written");
            assert_eq!(again, bytes[..startup.bytes()]);
            let settings = startup.settings().unwrap_or_default();
            let held: usize = settings.iter().map(|one| one.name.len() + one.value.len()).sum();
            assert!(held <= startup.bytes(), "more settings than bytes");
            let unknown = startup.unknown_options().count();
            assert!(startup.negotiates() || unknown == 0);
        }
        Ok(Packet::Cancel(cancel)) => {
            write_cancel(&mut again, cancel.process, cancel.key).expect("the key was read");
            assert!(bytes.starts_with(&again));
        }
        _ => {}
    }
}

/// Messages, as far as they came, and the error that ended the stream.
type Cut<T> = (Vec<(T, Vec<u8>)>, Option<FrameError>);

fn messages<T: Tag>(seed: u8, bytes: &[u8], read: impl Fn(T, &[u8])) {
    let whole = cut::<T>(bytes, &[bytes.len()]);
    assert_eq!(cut::<T>(bytes, &portions::ends(seed, bytes.len())), whole, "portions matter");
    whole.0.iter().for_each(|(tag, body)| read(*tag, body));
}

/// Cuts bytes that become known up to each of `ends` in turn.
fn cut<T: Tag>(bytes: &[u8], ends: &[usize]) -> Cut<T> {
    let (mut frames, mut at) = (Frames::<T>::new(LIMITS), 0);
    let mut found: Vec<(T, Vec<u8>)> = Vec::new();
    for &end in ends {
        loop {
            let readable = &bytes[at..end];
            let piece = match frames.look(readable) {
                Ok(piece) => piece,
                Err(error) => return (found, Some(error)),
            };
            match piece {
                Piece::More { missing } => {
                    assert!(missing > 0 && readable.len() + missing <= ROOM, "{piece:?}");
                    break;
                }
                Piece::Whole { tag, len } => found.push((tag, readable[HEAD..len].to_vec())),
                Piece::Begin { tag, here, .. } => found.push((tag, readable[HEAD..here].to_vec())),
                Piece::Rest { here, .. } => {
                    let (_, body) = found.last_mut().expect("a rest follows a beginning");
                    body.extend_from_slice(&readable[..here]);
                }
            }
            at += frames.take(piece);
        }
    }
    (found, None)
}

/// The body of the message that `write` writes.
fn body(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out.split_off(HEAD)
}

fn answer(bytes: &[u8]) {
    if let Ok(password) = read::password(bytes) {
        assert_eq!(body(|out| write::password(out, password)), bytes);
    }
    let Ok((mechanism, Some(response))) = read::sasl_initial_response(bytes) else { return };
    if let Ok(mechanism) = std::str::from_utf8(mechanism) {
        assert_eq!(body(|out| write::sasl_initial_response(out, mechanism, response)), bytes);
    }
}

fn backend(tag: Backend, bytes: &[u8]) {
    match tag {
        Backend::Authentication => {
            let Ok(Authentication::Sasl(mechanisms)) = read::authentication(bytes) else { return };
            let names: Result<Vec<_>, _> = mechanisms.iter().map(std::str::from_utf8).collect();
            if let Ok(names) = names {
                assert_eq!(body(|out| write::authentication_sasl(out, &names)), bytes);
            }
        }
        Backend::NegotiateProtocolVersion => {
            let Ok(found) = read::negotiate_protocol_version(bytes) else { return };
            let (version, unknown) = (found.version, found.unknown_options());
            let mut written = body(|out| write::negotiate_protocol_version(out, version, unknown));
            // The major version may be left out.
            written[1] &= bytes[1];
            assert_eq!(written, bytes);
        }
        Backend::ParameterStatus => {
            let Ok((name, value)) = read::parameter_status(bytes) else { return };
            assert_eq!(body(|out| write::parameter_status(out, name, value)), bytes);
        }
        Backend::BackendKeyData => {
            let Ok((process, key)) = read::backend_key_data(bytes) else { return };
            assert_eq!(body(|out| write::backend_key_data(out, process, key)), bytes);
        }
        Backend::ReadyForQuery => {
            let Ok(status) = read::ready_for_query(bytes) else { return };
            assert_eq!(body(|out| write::ready_for_query(out, status)), bytes);
        }
        Backend::ErrorResponse | Backend::NoticeResponse => {
            let Ok(fields) = read::fields(bytes) else { return };
            let texts = fields.iter().map(|(_, text)| text.len() + 2);
            assert_eq!(texts.sum::<usize>() + 1, bytes.len());
            assert_eq!(fields.message(), fields.field(b'M'));
        }
        _ => {}
    }
}
