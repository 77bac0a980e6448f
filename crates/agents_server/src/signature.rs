//! Signatures of webhooks by the Standard Webhooks specification: HMAC-SHA256 over id, time and body.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

/// A secret that signs webhooks.
#[derive(Clone)]
pub struct Secret(hmac::Key);

/// The cause why a text is no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a secret is `whsec_` and base64 of 24 to 64 bytes, such as `openssl rand -base64 32` gives"
)]
pub struct SecretError;

impl Secret {
    /// The secret of a text: `whsec_` and base64 of 24 to 64 bytes; the prefix may be missing.
    ///
    /// # Errors
    /// Any other text.
    pub fn read(text: &str) -> Result<Secret, SecretError> {
        let text = text.trim();
        let coded = text.strip_prefix("whsec_").unwrap_or(text);
        let bytes = STANDARD.decode(coded).map_err(|_| SecretError)?;
        match bytes.len() {
            24..=64 => Ok(Secret(hmac::Key::new(hmac::HMAC_SHA256, &bytes))),
            _ => Err(SecretError),
        }
    }

    /// The value of `webhook-signature`.
    pub(crate) fn sign(&self, id: &str, seconds: u64, body: &[u8]) -> String {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(format!("{id}.{seconds}.").as_bytes());
        context.update(body);
        format!("v1,{}", STANDARD.encode(context.sign()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::{Secret, SecretError};

    /// The example of the specification (standardwebhooks.com, and svix's libraries).
    #[test]
    fn a_signature_is_that_of_the_specification() {
        let secret = Secret::read("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed =
            secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_short_secret_is_none() {
        for text in ["whsec_c2hvcnQ=", "", "whsec_!"] {
            assert_eq!(Secret::read(text).unwrap_err(), SecretError, "{text}");
        }
    }
}
