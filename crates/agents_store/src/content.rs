//! The face of a message's content towards a store, which knows bytes alone.

/// The content of a message as bytes and back. What is written today is read by later versions too: the
/// first byte should tell the version.
pub trait Content: Clone + Send + Sync + 'static {
    /// Adds the bytes of the content.
    fn encode(&self, to: &mut Vec<u8>);

    /// The content of these bytes, all of them.
    ///
    /// # Errors
    /// The cause, for a person, why they are none.
    fn decode(bytes: &[u8]) -> Result<Self, String>;
}

impl Content for Vec<u8> {
    fn encode(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(self);
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        Ok(bytes.to_vec())
    }
}

impl Content for u64 {
    fn encode(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        let bytes = bytes.try_into().map_err(|_| format!("{} bytes where 8 are", bytes.len()))?;
        Ok(u64::from_le_bytes(bytes))
    }
}
