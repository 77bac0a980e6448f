//! Writes messages at the end of a buffer of the caller's.
//!
//! A text ends at a NUL on the wire, so none can hold one; if one does, the NUL is left out. Nothing
//! that others say can therefore add a field or a message.

use super::read::Fields;
use super::{Report, Severity, Status};
use crate::frame::{Backend, Frontend};
use crate::startup::Version;

/// The type of a column of text, and its size, which varies.
const TEXT: u32 = 25;
const VARIES: i16 = -1;

/// A message with the body that `body` writes.
///
/// # Panics
/// If the body has 2 GiB.
pub fn message(out: &mut Vec<u8>, tag: impl Into<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag.into());
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = i32::try_from(out.len() - start).expect("a message of the gate is small");
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// A message without a body: Sync, Flush, Terminate, ParseComplete, CloseComplete and their like.
pub fn bare(out: &mut Vec<u8>, tag: impl Into<u8>) {
    message(out, tag, |_| {});
}

fn text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend(text.iter().filter(|&&byte| byte != 0));
    out.push(0);
}

fn authentication(out: &mut Vec<u8>, code: u32, body: impl FnOnce(&mut Vec<u8>)) {
    message(out, Backend::Authentication, |out| {
        out.extend_from_slice(&code.to_be_bytes());
        body(out);
    });
}

/// AuthenticationOk.
pub fn authentication_ok(out: &mut Vec<u8>) {
    authentication(out, 0, |_| {});
}

/// AuthenticationCleartextPassword.
pub fn authentication_cleartext(out: &mut Vec<u8>) {
    authentication(out, 3, |_| {});
}

/// AuthenticationMD5Password.
pub fn authentication_md5(out: &mut Vec<u8>, salt: [u8; 4]) {
    authentication(out, 5, |out| out.extend_from_slice(&salt));
}

/// AuthenticationSASL: the mechanisms, the preferred one first.
pub fn authentication_sasl(out: &mut Vec<u8>, mechanisms: &[&str]) {
    authentication(out, 10, |out| {
        for mechanism in mechanisms {
            text(out, mechanism.as_bytes());
        }
        out.push(0);
    });
}

/// AuthenticationSASLContinue.
pub fn authentication_sasl_continue(out: &mut Vec<u8>, challenge: &[u8]) {
    authentication(out, 11, |out| out.extend_from_slice(challenge));
}

/// AuthenticationSASLFinal.
pub fn authentication_sasl_final(out: &mut Vec<u8>, outcome: &[u8]) {
    authentication(out, 12, |out| out.extend_from_slice(outcome));
}

/// NegotiateProtocolVersion: the version that is spoken, and the options that are not known.
pub fn negotiate_protocol_version<'a>(
    out: &mut Vec<u8>,
    version: Version,
    unknown: impl IntoIterator<Item = &'a [u8]>,
) {
    message(out, Backend::NegotiateProtocolVersion, |out| {
        out.extend_from_slice(&version.code().to_be_bytes());
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        let mut count = 0_u32;
        for option in unknown {
            text(out, option);
            count += 1;
        }
        out[at..at + 4].copy_from_slice(&count.to_be_bytes());
    });
}

/// ParameterStatus.
pub fn parameter_status(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    message(out, Backend::ParameterStatus, |out| {
        text(out, name);
        text(out, value);
    });
}

/// BackendKeyData. In version 3.0 a key has 4 bytes, in 3.2 it may have up to 256.
pub fn backend_key_data(out: &mut Vec<u8>, process: u32, key: &[u8]) {
    message(out, Backend::BackendKeyData, |out| {
        out.extend_from_slice(&process.to_be_bytes());
        out.extend_from_slice(key);
    });
}

/// ReadyForQuery.
pub fn ready_for_query(out: &mut Vec<u8>, status: Status) {
    message(out, Backend::ReadyForQuery, |out| out.push(status as u8));
}

/// ErrorResponse.
pub fn error_response(out: &mut Vec<u8>, report: &Report<'_>) {
    message(out, Backend::ErrorResponse, |out| fields(out, report));
}

/// ErrorResponse with the fields of another one, but as bad as this.
pub fn error_response_as(out: &mut Vec<u8>, severity: Severity, fields: &Fields<'_>) {
    message(out, Backend::ErrorResponse, |out| {
        for (kind, value) in fields.iter() {
            out.push(kind);
            match kind {
                b'S' | b'V' => text(out, severity.as_str().as_bytes()),
                _ => text(out, value),
            }
        }
        out.push(0);
    });
}

/// NoticeResponse.
pub fn notice_response(out: &mut Vec<u8>, report: &Report<'_>) {
    message(out, Backend::NoticeResponse, |out| fields(out, report));
}

fn fields(out: &mut Vec<u8>, report: &Report<'_>) {
    let severity = report.severity.as_str();
    let fields = [
        (b'S', Some(severity)),
        (b'V', Some(severity)),
        (b'C', Some(report.sqlstate.as_str())),
        (b'M', Some(report.message)),
        (b'D', report.detail),
        (b'H', report.hint),
    ];
    for (kind, value) in fields {
        if let Some(value) = value {
            out.push(kind);
            text(out, value.as_bytes());
        }
    }
    out.push(0);
}

/// RowDescription of columns of text.
///
/// # Panics
/// If there are more than 65,535 columns.
pub fn row_description(out: &mut Vec<u8>, columns: &[&str]) {
    message(out, Backend::RowDescription, |out| {
        out.extend_from_slice(&count(columns.len()));
        for column in columns {
            text(out, column.as_bytes());
            // Of no table, and of no column of one.
            out.extend_from_slice(&[0; 6]);
            out.extend_from_slice(&TEXT.to_be_bytes());
            out.extend_from_slice(&VARIES.to_be_bytes());
            // No modifier of the type; the text format.
            out.extend_from_slice(&(-1_i32).to_be_bytes());
            out.extend_from_slice(&[0; 2]);
        }
    });
}

/// DataRow of texts; `None` is NULL.
///
/// # Panics
/// If there are more than 65,535 columns, or 2 GiB.
pub fn data_row(out: &mut Vec<u8>, values: &[Option<&str>]) {
    message(out, Backend::DataRow, |out| {
        out.extend_from_slice(&count(values.len()));
        for value in values {
            let length = value.map_or(-1, |value| {
                i32::try_from(value.len()).expect("a value of the gate is small")
            });
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(value.unwrap_or_default().as_bytes());
        }
    });
}

fn count(columns: usize) -> [u8; 2] {
    u16::try_from(columns).expect("a row of the gate has few columns").to_be_bytes()
}

/// CommandComplete, as in `SELECT 3`.
pub fn command_complete(out: &mut Vec<u8>, tag: &str) {
    message(out, Backend::CommandComplete, |out| text(out, tag.as_bytes()));
}

/// Query.
pub fn query(out: &mut Vec<u8>, sql: &(impl AsRef<[u8]> + ?Sized)) {
    message(out, Frontend::Query, |out| text(out, sql.as_ref()));
}

/// PasswordMessage: a password, or the hash of one.
pub fn password(out: &mut Vec<u8>, password: &[u8]) {
    message(out, Frontend::Password, |out| text(out, password));
}

/// SASLInitialResponse.
///
/// # Panics
/// If the response has 2 GiB.
pub fn sasl_initial_response(out: &mut Vec<u8>, mechanism: &str, response: &[u8]) {
    message(out, Frontend::Password, |out| {
        text(out, mechanism.as_bytes());
        let length = i32::try_from(response.len()).expect("a response of the gate is small");
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(response);
    });
}

/// SASLResponse.
pub fn sasl_response(out: &mut Vec<u8>, response: &[u8]) {
    message(out, Frontend::Password, |out| out.extend_from_slice(response));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SqlState;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = b"before".to_vec();
        write(&mut out);
        assert!(out.starts_with(b"before"));
        out.split_off(6)
    }

    #[test]
    fn messages_are_what_the_documentation_says() {
        assert_eq!(written(|out| bare(out, Frontend::Sync)), b"S\0\0\0\x04");
        assert_eq!(written(|out| ready_for_query(out, Status::Idle)), b"Z\0\0\0\x05I");
        assert_eq!(written(|out| query(out, "x")), b"Q\0\0\0\x06x\0");
        assert_eq!(written(authentication_ok), b"R\0\0\0\x08\0\0\0\0");
        assert_eq!(
            written(|out| authentication_sasl(out, &["A", "B"])),
            b"R\0\0\0\x0d\0\0\0\x0aA\0B\0\0"
        );
        assert_eq!(
            written(|out| row_description(out, &["a"])),
            b"T\0\0\0\x1a\0\x01a\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0"
        );
        assert_eq!(
            written(|out| data_row(out, &[Some("x"), None, Some("")])),
            b"D\0\0\0\x13\0\x03\0\0\0\x01x\xff\xff\xff\xff\0\0\0\0"
        );
    }

    #[test]
    fn an_error_can_be_told_as_less_bad_than_it_was() {
        let report = Report {
            detail: Some("why"),
            hint: Some("what to do"),
            ..Report::new(Severity::Fatal, SqlState::CANNOT_CONNECT_NOW, "starting up")
        };
        let [fatal, error] = [Severity::Fatal, Severity::Error]
            .map(|severity| written(|out| error_response(out, &Report { severity, ..report })));
        let fields = super::super::read::fields(&fatal[5..]).unwrap();
        assert_eq!(written(|out| error_response_as(out, Severity::Error, &fields)), error);
    }

    #[test]
    fn a_nul_in_a_text_adds_no_field_and_no_message() {
        let message = "who\0Mis\0\0Z\0\0\0\x05I";
        let report = Report::new(Severity::Fatal, SqlState::PROTOCOL_VIOLATION, message);
        let bytes = written(|out| error_response(out, &report));
        assert_eq!(bytes[1..5], (bytes.len() as u32 - 1).to_be_bytes());
        assert_eq!(bytes[5..], *b"SFATAL\0VFATAL\0C08P01\0MwhoMisZ\x05I\0\0");
    }
}
