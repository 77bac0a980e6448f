//! A stream is cut into the same messages in whatever portions it comes, within a bounded buffer.

use pgwire::SqlState;
use pgwire::frame::{Backend, FrameError, Frames, Frontend, HEAD, Limits, Piece, Size, Tag};

use pgtest::Chance;

/// Long messages above this come in pieces, so that small streams have them too.
const WHOLE_MAX: usize = 64;
/// Short messages are always whole; in these streams they are this small \[byte\].
const SHORT_MAX: usize = 200;
const LIMITS: Limits = Limits { whole_max: WHOLE_MAX, ..Limits::SESSION };

/// Messages of all kinds with bodies of all sizes, and their bytes.
fn stream<T: Tag>(chance: &mut Chance) -> (Vec<(T, Vec<u8>)>, Vec<u8>) {
    let tags: Vec<T> = (0..=255).filter_map(T::from_byte).collect();
    let (mut sent, mut bytes) = (Vec::new(), Vec::new());
    for _ in 0..chance.below(20) {
        let tag = tags[chance.below(tags.len())];
        let most = if tag.size() == Size::Short { SHORT_MAX - HEAD } else { 400 };
        let body: Vec<u8> = (0..chance.below(most)).map(|_| chance.below(256) as u8).collect();
        bytes.push(tag.byte());
        bytes.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        bytes.extend_from_slice(&body);
        sent.push((tag, body));
    }
    (sent, bytes)
}

/// The bodies of the messages in `bytes`, which come in portions into a buffer of `room` bytes.
fn cut<T: Tag>(bytes: &[u8], room: usize, chance: &mut Chance) -> Vec<(T, Vec<u8>)> {
    let (mut frames, mut buffer, mut at) = (Frames::<T>::new(LIMITS), Vec::new(), 0);
    let mut found: Vec<(T, Vec<u8>)> = Vec::new();
    loop {
        let piece = frames.look(&buffer).unwrap();
        assert_eq!(frames.look(&buffer), Ok(piece), "looking changes something");
        match piece {
            Piece::More { missing } => {
                assert!(missing > 0 && buffer.len() + missing <= room, "{piece:?} does not fit");
                if at == bytes.len() {
                    assert!(buffer.is_empty() && frames.is_between(), "it ends in a message");
                    return found;
                }
                let portion = (1 + chance.below(room - buffer.len())).min(bytes.len() - at);
                buffer.extend_from_slice(&bytes[at..at + portion]);
                at += portion;
                continue;
            }
            Piece::Whole { tag, len } => found.push((tag, buffer[HEAD..len].to_vec())),
            Piece::Begin { tag, len, here } => {
                assert!(here < len && tag.size() != Size::Short, "{piece:?}");
                assert!(tag.size() == Size::Bulk || here >= WHOLE_MAX, "{piece:?}");
                found.push((tag, buffer[HEAD..here].to_vec()));
            }
            Piece::Rest { here, .. } => {
                found.last_mut().unwrap().1.extend_from_slice(&buffer[..here]);
            }
        }
        let taken = frames.take(piece);
        assert_eq!(taken, piece.bytes());
        buffer.drain(..taken);
    }
}

fn any_portions<T: Tag>(chance: &mut Chance) {
    let mut pieces = 0;
    for _ in 0..300 {
        let (sent, bytes) = stream::<T>(chance);
        for room in [SHORT_MAX, 300, 8192] {
            assert_eq!(cut::<T>(&bytes, room, chance), sent);
        }
        pieces += sent.iter().filter(|(_, body)| body.len() > SHORT_MAX).count();
    }
    assert!(pieces > 100, "only {pieces} messages were larger than the least room");
}

#[test]
fn portions_do_not_matter() {
    let mut chance = Chance::new(0x5e15_0101);
    any_portions::<Frontend>(&mut chance);
    any_portions::<Backend>(&mut chance);
}

#[test]
fn what_is_missing_is_missing() {
    let bytes = b"Q\0\0\0\x0dselect 1\0";
    let frames = Frames::<Frontend>::new(Limits::SESSION);
    for here in 0..bytes.len() {
        let Piece::More { missing } = frames.look(&bytes[..here]).unwrap() else {
            panic!("{here} bytes are enough");
        };
        let wanted = if here < HEAD { HEAD } else { bytes.len() };
        assert_eq!(here + missing, wanted);
    }
    assert_eq!(frames.look(bytes), Ok(Piece::Whole { tag: Frontend::Query, len: bytes.len() }));
}

/// The tag and a length, as they stand in front of a message.
fn head(tag: u8, length: u32) -> Vec<u8> {
    [&[tag][..], &length.to_be_bytes()].concat()
}

#[test]
fn a_length_is_within_its_limits_before_anything_is_read() {
    fn look<T: Tag>(limits: Limits, tag: T, length: u32) -> Result<Piece<T>, String> {
        let result = Frames::<T>::new(limits).look(&head(tag.byte(), length));
        result.map_err(|error| {
            assert_eq!(error.sqlstate(), SqlState::PROTOCOL_VIOLATION);
            error.to_string()
        })
    }
    let most = |limits, tag: Frontend| {
        let refused = |length| look(limits, tag, length).is_err();
        // The least length that is refused, by bisection between one that is not and one that is.
        let (mut good, mut bad) = (4, i32::MAX as u32 + 1);
        assert!(!refused(good) && refused(bad));
        while good + 1 < bad {
            let middle = good + (bad - good) / 2;
            if refused(middle) { bad = middle } else { good = middle }
        }
        good
    };
    use Frontend::{
        Bind, Close, CopyData, CopyDone, CopyFail, Describe, Execute, Flush, FunctionCall, Parse,
        Password, Query, Sync, Terminate,
    };
    let (session, before) = (Limits::SESSION, Limits::AUTHENTICATION);
    for tag in [Close, CopyDone, CopyFail, Describe, Execute, Flush, Sync, Terminate] {
        assert_eq!((most(session, tag), most(before, tag)), (10_000, 8191), "{tag:?}");
    }
    for tag in [Bind, CopyData, FunctionCall, Parse, Password, Query] {
        assert_eq!((most(session, tag), most(before, tag)), (0x3fff_ffff, 8191), "{tag:?}");
    }
    for length in [0, 1, 2, 3, 0x8000_0000, 0x8000_0004, u32::MAX, u32::MAX - 3] {
        let error = look(session, Query, length).unwrap_err();
        assert!(error.contains("message type Q: the least is 4"), "{error}");
        look(session, Backend::DataRow, length).unwrap_err();
    }
    // Nothing is waited for before authentication that is larger than its limit.
    assert_eq!(look(before, Password, 8191), Ok(Piece::More { missing: 8187 }));
    assert_eq!(look(session, Backend::ReadyForQuery, 5), Ok(Piece::More { missing: 1 }));
    let error = look(session, Backend::ParameterStatus, 30_001).unwrap_err();
    assert!(error.contains("backend message type S: the most is 30000"), "{error}");
}

#[test]
fn an_unknown_message_is_refused_by_its_first_byte() {
    let known = |byte| Frames::<Frontend>::new(Limits::SESSION).look(&[byte]).is_ok();
    let tags: Vec<u8> = (0..=255).filter(|&byte| known(byte)).collect();
    assert_eq!(tags, b"BCDEFHPQSXcdfp");
    let error = Frames::<Frontend>::new(Limits::SESSION).look(b"!").unwrap_err();
    assert_eq!(error.to_string(), "invalid frontend message type 33");
    assert!(matches!(error, FrameError::UnknownTag { byte: b'!', .. }));
}

#[test]
fn a_gigabyte_passes_through_a_small_buffer_and_nothing_is_kept() {
    let mut frames = Frames::<Frontend>::new(Limits::SESSION);
    let mut buffer = vec![0; 65_536];
    buffer[..HEAD].copy_from_slice(&head(b'P', 0x3fff_ffff));
    let mut passed = 0;
    while !frames.is_between() || passed == 0 {
        let piece = frames.look(&buffer).unwrap();
        assert!(matches!(
            (passed, piece),
            (0, Piece::Begin { tag: Frontend::Parse, len: 0x4000_0000, here: 65_536 })
                | (1.., Piece::Rest { .. })
        ));
        passed += frames.take(piece);
        buffer[..HEAD].copy_from_slice(b"Xrest");
    }
    assert_eq!(passed, 0x4000_0000);
    assert!(!std::mem::needs_drop::<Frames<Frontend>>(), "the state owns memory");
    assert!(!std::mem::needs_drop::<Piece<Frontend>>(), "what is said owns memory");
}
