//! The shape of a statement: its parameters and the columns of its rows, as far as PostgreSQL holds a
//! prepared statement to them.

use ring::digest::{Context, SHA256};

use super::statement_cache::EntryId;
use pgwire::frame::Limits;

/// The shape of a statement, told apart by digests, which are the same in every program: a client that another one has handed over
/// is held to what it was told there. Two shapes with the same are taken for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// A digest of its parameters' types.
    pub parameters: u64,
    /// A digest of its columns.
    pub rows: u64,
}

/// A client's statement, and the shape that it had when the client prepared it. That is not known
/// before the server has replied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) id: EntryId,
    pub(super) shape: Option<Shape>,
}

/// The digest of a ParameterDescription.
pub(super) fn of_parameters(body: &[u8]) -> u64 {
    let mut digest = Context::new(&SHA256);
    digest.update(body);
    finish(digest)
}

fn finish(digest: Context) -> u64 {
    let digest = digest.finish();
    let first = digest.as_ref().first_chunk().expect("SHA-256 has 32 bytes");
    u64::from_be_bytes(*first)
}

/// The digest of a RowDescription: of each column name, type, and length and modifier of that, as
/// PostgreSQL compares them. The table may be another one. Of a description that is longer than a
/// relay waits for, it is the length and the columns at its front.
pub(super) fn of_rows(body: &[u8], length: usize) -> u64 {
    // Table (4), column (2), type (4), its length (2), its modifier (4), format (2).
    const BEHIND_NAME: usize = 18;
    let mut digest = Context::new(&SHA256);
    // Of a longer description more may be readable here than there, by chance. Only what is always there
    // may count, or one shape would have two digests.
    let front = &body[..body.len().min(Limits::SESSION.whole_max - pgwire::frame::HEAD)];
    // The columns behind the front count by this alone.
    if length > front.len() {
        digest.update(&(length as u64).to_be_bytes());
    }
    let (count, mut rest) = front.split_at(front.len().min(2));
    digest.update(count);
    while let Some(end) = rest.iter().position(|&byte| byte == 0) {
        // The last column of the front may be cut off.
        let Some(fields) = rest.get(end + 1..end + 1 + BEHIND_NAME) else { break };
        digest.update(&rest[..=end]);
        // Behind the table and the number there, before the format.
        digest.update(&fields[6..16]);
        rest = &rest[end + 1 + BEHIND_NAME..];
    }
    finish(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(all: &[(&str, u32, [u8; 10])]) -> Vec<u8> {
        let mut body = (all.len() as u16).to_be_bytes().to_vec();
        for (name, table, of) in all {
            body.extend_from_slice(name.as_bytes());
            body.push(0);
            body.extend_from_slice(&table.to_be_bytes());
            body.extend_from_slice(&[0, 1]);
            body.extend_from_slice(of);
            body.extend_from_slice(&[0, 0]);
        }
        body
    }

    #[test]
    fn columns_are_told_apart_by_what_a_prepared_statement_is_held_to() {
        let of = |all: &[(&str, u32, [u8; 10])]| {
            let body = columns(all);
            of_rows(&body, body.len())
        };
        let (one, two) = ([1; 10], [2; 10]);
        let known = of(&[("a", 7, one), ("b", 7, two)]);
        assert_eq!(of(&[("a", 8, one), ("b", 9, two)]), known, "of another table");
        for other in [
            &[("a", 7, one)][..],
            &[("a", 7, two), ("b", 7, two)],
            &[("a", 7, one), ("c", 7, two)],
            &[("b", 7, two), ("a", 7, one)],
        ] {
            assert_ne!(of(other), known, "{other:?}");
        }
        let long = columns(&[("a", 7, one); 1000]);
        assert_eq!(of_rows(&long, long.len()), of_rows(&long[..9000], long.len()), "in portions");
        assert_ne!(of_rows(&long, long.len()), of_rows(&long, long.len() + 1));
    }
}
