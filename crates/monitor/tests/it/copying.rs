//! COPY from the client that fails with a Sync inside it, directly and through the gate: whether the
//! server has swallowed the Sync, and so what becomes of all behind it, only the server knows.

use monitor::Mode;
use pgwire::frame::{Backend, Frontend};
use pgwire::message::write::{bare, message, query};
use pgwire::startup::Version;

use super::session_state::at_the_server;
use super::{Gate, Raw, database, shown, trusting};

/// A script in letters: `P` is Parse, Bind and Execute of a SELECT, `C` the same of the COPY, `Q` a
/// Query, `K` the COPY as one, `d` a row and `b` a bad one, `c` CopyDone, `f` CopyFail, `S` Sync, `H`
/// Flush.
fn says(raw: &mut Raw, script: &str) {
    let mut out = Vec::new();
    let copy = "copy pg_temp.rows from stdin";
    for letter in script.chars() {
        match letter {
            'P' => segment(&mut out, "select 'a series'"),
            'C' => segment(&mut out, copy),
            'Q' => query(&mut out, "select 'a query'"),
            'K' => query(&mut out, copy),
            'd' => message(&mut out, Frontend::CopyData, |out| out.extend_from_slice(b"1\n")),
            'b' => message(&mut out, Frontend::CopyData, |out| out.extend_from_slice(b"bad\n")),
            'c' => bare(&mut out, Frontend::CopyDone),
            'f' => message(&mut out, Frontend::CopyFail, |out| out.extend_from_slice(b"no\0")),
            'S' => bare(&mut out, Frontend::Sync),
            'H' => bare(&mut out, Frontend::Flush),
            other => panic!("{other}"),
        }
    }
    raw.say(&out);
}

fn segment(out: &mut Vec<u8>, sql: &str) {
    let parse = [b"\0", sql.as_bytes(), b"\0\0\0"].concat();
    message(out, Frontend::Parse, |out| out.extend_from_slice(&parse));
    message(out, Frontend::Bind, |out| out.extend_from_slice(b"\0\0\0\0\0\0\0\0"));
    message(out, Frontend::Execute, |out| out.extend_from_slice(b"\0\0\0\0\0"));
}

/// What is heard up to a message of this kind.
fn hears(raw: &mut Raw, heard: &mut Vec<String>, last: Backend) {
    loop {
        let (tag, body) = raw.hear();
        heard.push(match tag {
            Backend::ErrorResponse => shown(&body),
            Backend::ReadyForQuery => format!("Z{}", char::from(body[0])),
            tag => format!("{tag:?}"),
        });
        if tag == last {
            return;
        }
    }
}

/// What a session hears in which the COPY has begun when the second part is said, and has failed when
/// the third one is.
fn heard(raw: &mut Raw, parts: [&str; 3]) -> Vec<String> {
    let mut heard = Vec::new();
    raw.query("create temp table if not exists rows (x int)");
    raw.answer();
    says(raw, parts[0]);
    hears(raw, &mut heard, Backend::CopyInResponse);
    says(raw, parts[1]);
    hears(raw, &mut heard, Backend::ErrorResponse);
    says(raw, parts[2]);
    // Whatever the server skips, it goes on behind this, and the last answer is of two columns.
    says(raw, "S");
    raw.query("select 'the', 'end'");
    loop {
        let (tag, body) = raw.hear();
        let is_last = tag == Backend::DataRow && body.starts_with(&[0, 2]);
        heard.push(match tag {
            Backend::ErrorResponse => shown(&body),
            Backend::ReadyForQuery => format!("Z{}", char::from(body[0])),
            tag => format!("{tag:?}"),
        });
        if is_last {
            hears(raw, &mut heard, Backend::ReadyForQuery);
            return heard;
        }
    }
}

/// The gate ended the session: it did not know whether what came behind would be executed.
#[test]
fn what_is_behind_a_failed_copy_with_a_sync_inside_is_skipped_or_done_as_postgresql_does() {
    let scripts = [
        ["CH", "Sb", "PS"],
        ["CH", "bS", "PS"],
        ["CH", "SSb", "PSP"],
        ["CH", "SbS", "PPSP"],
        ["CH", "dSb", "dcPSPS"],
        ["CH", "dSf", "PSQ"],
        ["CH", "dSbS", "QPS"],
        ["CH", "Sb", "HdcfHPS"],
        ["CH", "Sb", ""],
        ["CH", "bSdcPSPS", "PS"],
        ["CH", "SbdcPSPS", "PS"],
        ["CH", "SdbScQ", "PSQ"],
        ["K", "Sb", "QPS"],
        ["K", "bS", "PSQ"],
        ["K", "SSbScPS", "PSQ"],
    ];
    for mode in [Mode::Transaction, Mode::Session] {
        let gate = Gate::new(trusting(database(mode, 1)));
        for script in scripts {
            let mut direct = at_the_server(&[]);
            let mut gated = Raw::enter(&gate, Version::V3_0, &[]);
            let (direct, gated) = (heard(&mut direct, script), heard(&mut gated, script));
            assert_eq!(gated, direct, "{mode} {script:?}");
        }
        gate.end();
    }
}
