//! The documents of a server: documents of a stated size under a safe name, and bytes that do not
//! compress to fill them.

/// A thing that is asked for by name: `GET /<name>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Letters, digits, `-`, `.`, `_`, `~`; not empty, no leading dot, at most 200 of them.
    pub name: String,
    /// Its size \[byte\].
    pub bytes: u64,
}

/// Why a list of documents cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// A name that is not safe as a path.
    #[error(
        "document name {name:?}: use 1 to 200 letters, digits, '-', '.', '_' or '~', without a leading dot"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// Two documents have one name.
    #[error("two documents are named {name:?}: rename one")]
    Twice {
        /// The name.
        name: String,
    },
}

/// Checks that each name is a single, safe component of a path, and that none comes twice.
pub(crate) fn check(documents: &[Document]) -> Result<(), DocumentError> {
    let mut names = std::collections::HashSet::new();
    for Document { name, .. } in documents {
        let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        if !(1..=200).contains(&name.len()) || name.starts_with('.') || !name.bytes().all(safe) {
            return Err(DocumentError::Name { name: name.clone() });
        }
        if !names.insert(name) {
            return Err(DocumentError::Twice { name: name.clone() });
        }
    }
    Ok(())
}

/// The size of a piece of a body \[byte\].
pub(crate) const PIECE: usize = 64 * 1024;

/// The bytes of every piece of the built-in origin's bodies. A body repeats them, but further apart
/// than the 32 KiB over which deflate looks back.
pub(crate) static PIECE_BYTES: [u8; PIECE] = piece();

const fn piece() -> [u8; PIECE] {
    let mut bytes = [0; PIECE];
    let mut noise = Noise(0x5e15);
    let mut at = 0;
    while at < PIECE {
        let word = noise.next().to_le_bytes();
        let mut byte = 0;
        while byte < 8 {
            bytes[at + byte] = word[byte];
            byte += 1;
        }
        at += 8;
    }
    bytes
}

/// A stream of bytes that do not compress: splitmix64 (Steele, Lea, Flood 2014).
pub(crate) struct Noise(pub(crate) u64);

impl Noise {
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Fills `bytes` with the next words.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Document {
        Document { name: name.to_owned(), bytes: 1 }
    }

    #[test]
    fn names_that_leave_the_folder_are_refused() {
        for name in ["", ".", "..", ".htaccess", "a/b", "/a", "a b", "a?b", "a%2e", "é"] {
            let error = check(&[named(name)]).unwrap_err();
            assert_eq!(error, DocumentError::Name { name: name.to_owned() });
        }
        assert!(check(&[named(&"a".repeat(201))]).is_err());
        assert_eq!(check(&[named("5k.bin"), named("a~_-Z")]), Ok(()));
        assert!(matches!(check(&[named("a"), named("a")]), Err(DocumentError::Twice { .. })));
    }

    #[test]
    fn noise_uses_all_bytes_about_equally_often() {
        let mut counts = [0_u32; 256];
        PIECE_BYTES.iter().for_each(|&byte| counts[usize::from(byte)] += 1);
        // 256 each are expected with a standard deviation of 16: six of them on either side.
        assert!(counts.iter().all(|count| (160..352).contains(count)), "{counts:?}");
    }

    #[test]
    fn noise_repeats_with_its_seed() {
        let draw = |seed| {
            let mut bytes = [0; 19];
            Noise(seed).fill(&mut bytes);
            bytes
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
