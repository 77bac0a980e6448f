//! Numbers of names, the same on every machine and for ever.

use agents::MessageId;

/// A number of a name that a client gives, the same for ever.
pub(crate) fn message_id(parts: &[&str]) -> MessageId {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part.as_bytes());
    }
    let digest = context.finish();
    let bytes = digest.as_ref().first_chunk::<16>().expect("SHA-256 has 32 bytes");
    MessageId(u128::from_le_bytes(*bytes))
}
