//! The two parts of a certificate that authentication needs beyond what TLS has verified: the hash
//! for channel binding, and the common name. Only these two are read, from certificates in DER.

use ring::digest::{SHA256, SHA384, SHA512, digest};

use super::Binding;

const INTEGER: u8 = 0x02;
const OID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// The version of a certificate, and the hash among the parameters of RSASSA-PSS.
const CONTEXT_0: u8 = 0xa0;
/// Texts whose bytes are those of UTF-8: UTF8String, PrintableString, IA5String.
const TEXTS: [u8; 3] = [0x0c, 0x13, 0x16];

/// 1.2.840.113549.1.1: signatures with RSA, whose last number says the hash.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
/// 1.2.840.10045.4: ECDSA with SHA-1, and below 3 with SHA-2.
const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04];
/// 2.16.840.1.101.3.4.2: SHA-2 itself.
const SHA2: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02];
/// 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// The hashes that certificates are signed with and that `tls-server-end-point` uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

impl Binding {
    /// The channel binding of a connection whose server has shown this certificate (RFC 5929,
    /// section 4.1): its hash by the hash of its signature, by SHA-256 where that is MD5 or SHA-1.
    /// Absent where the signature has no such hash, as that of Ed25519 has none, or the certificate
    /// cannot be read.
    pub fn of_certificate(der: &[u8]) -> Binding {
        let algorithm = match signature_hash(der) {
            Some(Hash::Sha256) => &SHA256,
            Some(Hash::Sha384) => &SHA384,
            Some(Hash::Sha512) => &SHA512,
            None => return Binding::Absent,
        };
        Binding::EndPoint(digest(algorithm, der).as_ref().to_vec())
    }
}

/// The first common name of a certificate's subject, as PostgreSQL takes it. None if there is none, or
/// one that holds a NUL.
pub fn common_name(der: &[u8]) -> Option<Vec<u8>> {
    let mut certificate = Reader(der).inside(SEQUENCE)?;
    let mut signed = certificate.inside(SEQUENCE)?;
    if signed.0.first() == Some(&CONTEXT_0) {
        signed.inside(CONTEXT_0)?;
    }
    signed.inside(INTEGER)?;
    // Its signature, who has issued it, and for how long it is good.
    for _ in 0..3 {
        signed.inside(SEQUENCE)?;
    }
    let mut subject = signed.inside(SEQUENCE)?;
    while !subject.0.is_empty() {
        let mut names = subject.inside(SET)?;
        while !names.0.is_empty() {
            let mut name = names.inside(SEQUENCE)?;
            if name.inside(OID)?.0 == COMMON_NAME {
                let (kind, text) = name.next()?;
                let is_text = TEXTS.contains(&kind) && !text.is_empty() && !text.contains(&0);
                return is_text.then(|| text.to_vec());
            }
        }
    }
    None
}

/// The hash that a certificate is signed with.
fn signature_hash(der: &[u8]) -> Option<Hash> {
    let mut certificate = Reader(der).inside(SEQUENCE)?;
    certificate.inside(SEQUENCE)?;
    let mut algorithm = certificate.inside(SEQUENCE)?;
    let name = algorithm.inside(OID)?.0;
    if let Some(kind) = name.strip_prefix(RSA) {
        return match kind {
            // MD5, SHA-1 and SHA-256.
            [4 | 5 | 11] => Some(Hash::Sha256),
            [12] => Some(Hash::Sha384),
            [13] => Some(Hash::Sha512),
            [10] => pss_hash(algorithm),
            _ => None,
        };
    }
    match name.strip_prefix(ECDSA)? {
        [1] | [3, 2] => Some(Hash::Sha256),
        [3, 3] => Some(Hash::Sha384),
        [3, 4] => Some(Hash::Sha512),
        _ => None,
    }
}

/// The hash that the parameters of RSASSA-PSS name; SHA-1 if they name none.
fn pss_hash(mut algorithm: Reader<'_>) -> Option<Hash> {
    let mut parameters = algorithm.inside(SEQUENCE)?;
    if parameters.0.first() != Some(&CONTEXT_0) {
        return Some(Hash::Sha256);
    }
    let mut hash = parameters.inside(CONTEXT_0)?.inside(SEQUENCE)?;
    match hash.inside(OID)?.0.strip_prefix(SHA2)? {
        [1] => Some(Hash::Sha256),
        [2] => Some(Hash::Sha384),
        [3] => Some(Hash::Sha512),
        _ => None,
    }
}

/// DER that was not read yet.
#[derive(Clone, Copy)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The next value: its tag and its bytes.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, mut rest) = rest.split_first()?;
        let mut length = usize::from(first);
        if first >= 0x80 {
            let (bytes, after) = rest.split_at_checked(usize::from(first & 0x7f))?;
            if bytes.is_empty() || bytes.len() > 3 {
                return None;
            }
            length = bytes.iter().fold(0, |length, &byte| length << 8 | usize::from(byte));
            rest = after;
        }
        let (value, after) = rest.split_at_checked(length)?;
        self.0 = after;
        Some((tag, value))
    }

    /// The inside of the next value, which must have this tag.
    fn inside(&mut self, wanted: u8) -> Option<Reader<'a>> {
        let (tag, value) = self.next()?;
        (tag == wanted).then_some(Reader(value))
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD as BASE64;

    use super::*;

    fn der(pem: &str) -> Vec<u8> {
        let lines = pem.lines().filter(|line| !line.starts_with("-----"));
        BASE64.decode(lines.collect::<String>()).unwrap()
    }

    fn alice() -> Vec<u8> {
        der(include_str!("../../../tls/tests/certificates/alice.pem"))
    }

    fn database() -> Vec<u8> {
        der(include_str!("../../../tls/tests/certificates/database.pem"))
    }

    #[test]
    fn a_certificate_is_hashed_as_it_was_signed() {
        let alice = alice();
        let hash = digest(&SHA256, &alice).as_ref().to_vec();
        assert_eq!(Binding::of_certificate(&alice), Binding::EndPoint(hash), "SHA-256");
        let database = database();
        let hash = digest(&SHA384, &database).as_ref().to_vec();
        assert_eq!(Binding::of_certificate(&database), Binding::EndPoint(hash), "SHA-384");
    }

    #[test]
    fn the_hash_of_each_kind_of_signature_is_known() {
        let of = |algorithm: &[u8]| {
            let mut body = vec![SEQUENCE, 0, SEQUENCE, u8::try_from(algorithm.len()).unwrap()];
            body.extend_from_slice(algorithm);
            let mut der = vec![SEQUENCE, u8::try_from(body.len()).unwrap()];
            der.extend_from_slice(&body);
            signature_hash(&der)
        };
        let oid = |name: &[u8], last: &[u8]| {
            let name = [name, last].concat();
            [&[OID, u8::try_from(name.len()).unwrap()], &name[..]].concat()
        };
        for (last, hash) in [
            (4, Some(Hash::Sha256)),
            (5, Some(Hash::Sha256)),
            (11, Some(Hash::Sha256)),
            (12, Some(Hash::Sha384)),
            (13, Some(Hash::Sha512)),
            (14, None),
        ] {
            assert_eq!(of(&oid(RSA, &[last])), hash, "RSA {last}");
        }
        assert_eq!(of(&oid(ECDSA, &[1])), Some(Hash::Sha256));
        assert_eq!(of(&oid(ECDSA, &[3, 4])), Some(Hash::Sha512));
        // Ed25519, 1.3.101.112.
        assert_eq!(of(&oid(&[0x2b, 0x65], &[0x70])), None);
        let named = |last| {
            let hash = oid(SHA2, &[last]);
            let [inner, outer] = [hash.len() as u8, hash.len() as u8 + 2];
            let parameters = [&[CONTEXT_0, outer, SEQUENCE, inner], &hash[..]].concat();
            let parameters = [&[SEQUENCE, parameters.len() as u8], &parameters[..]].concat();
            [oid(RSA, &[10]), parameters].concat()
        };
        assert_eq!(of(&named(1)), Some(Hash::Sha256));
        assert_eq!(of(&named(3)), Some(Hash::Sha512));
        assert_eq!(of(&[oid(RSA, &[10]), vec![SEQUENCE, 0]].concat()), Some(Hash::Sha256));
    }

    #[test]
    fn the_subject_s_common_name_is_found_and_nothing_else() {
        assert_eq!(common_name(&alice()), Some(b"alice".to_vec()));
        assert_eq!(common_name(&database()), Some(b"localhost".to_vec()));
    }

    #[test]
    fn what_is_cut_short_or_damaged_is_no_certificate_and_no_trap() {
        let whole = alice();
        for at in 0..whole.len() {
            let found = common_name(&whole[..at]);
            assert!(found.is_none(), "cut at {at}: {found:?}");
            for byte in [0, 0x7f, 0x80, 0x84, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = byte;
                // Whatever comes out: it ends, and reads nothing that is not there.
                let (_, _) = (common_name(&damaged), Binding::of_certificate(&damaged));
            }
        }
    }
}
