//! The first packets that the gate sends on a connection to a server.

use thiserror::Error;

use super::{CANCEL_REQUEST, KEY_BYTES, PACKET_MAX, SSL_REQUEST, Version};

/// Why a packet cannot be written; nothing was then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum UnwritableError {
    /// A name or a value holds what ends it, or a name is empty.
    #[error("a start-up parameter is empty or holds a NUL byte")]
    Parameter,
    /// No server would read it.
    #[error("the start-up parameters have {bytes} bytes; the most is {PACKET_MAX}")]
    TooLong {
        /// Its bytes after the length \[byte\].
        bytes: usize,
    },
    /// No such key was ever given out.
    #[error("a key for cancelling has {bytes} bytes, not 4 to 256")]
    Key {
        /// Its bytes \[byte\].
        bytes: usize,
    },
}

/// Asks for TLS; the server answers with one byte, `S` or `N`, and nothing else may follow it.
pub fn write_ssl_request(out: &mut Vec<u8>) {
    out.extend_from_slice(&8_u32.to_be_bytes());
    out.extend_from_slice(&SSL_REQUEST.to_be_bytes());
}

/// Asks that the query of a session be cancelled.
///
/// # Errors
/// If `key` has not 4 to 256 bytes.
pub fn write_cancel(out: &mut Vec<u8>, process: u32, key: &[u8]) -> Result<(), UnwritableError> {
    if !KEY_BYTES.contains(&key.len()) {
        return Err(UnwritableError::Key { bytes: key.len() });
    }
    out.extend_from_slice(&(12 + key.len() as u32).to_be_bytes());
    out.extend_from_slice(&CANCEL_REQUEST.to_be_bytes());
    out.extend_from_slice(&process.to_be_bytes());
    out.extend_from_slice(key);
    Ok(())
}

/// Asks for a session, with the parameters in their order.
///
/// # Errors
/// If a parameter would end too early or the packet would be too long.
pub fn write_startup<'a>(
    out: &mut Vec<u8>,
    version: Version,
    parameters: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
) -> Result<(), UnwritableError> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&version.code().to_be_bytes());
    for (name, value) in parameters {
        if name.is_empty() || name.contains(&0) || value.contains(&0) {
            out.truncate(start);
            return Err(UnwritableError::Parameter);
        }
        for text in [name, value] {
            out.extend_from_slice(text);
            out.push(0);
        }
    }
    out.push(0);
    let length = out.len() - start;
    if length > PACKET_MAX + 4 {
        out.truncate(start);
        return Err(UnwritableError::TooLong { bytes: length - 4 });
    }
    out[start..start + 4].copy_from_slice(&(length as u32).to_be_bytes());
    Ok(())
}
