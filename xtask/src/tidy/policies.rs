//! The tables of the policies in `docs/gate.md`: they are those of the crate `gate`, which has each policy
//! beside its parameters, so that no policy is described twice.

use std::fs;
use std::path::Path;

use super::{Finding, line_of};
use crate::tree::Tree;

/// The file that has the tables in its documentation.
const CODE: &str = "crates/gate/src/policy.rs";
/// The page that shows them.
const PAGE: &str = "docs/gate.md";
const BEGIN: &str = "<!-- policies: begin -->\n";
const END: &str = "<!-- policies: end -->";

/// A page whose tables are not the code's.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let (Some(code), Some(page)) = (tree.text(CODE), tree.text(PAGE)) else { return Vec::new() };
    let finding = |at: usize, cause: &str| {
        vec![Finding::new(PAGE, line_of(page, at), cause, "run `cargo xtask tidy --policies`")]
    };
    match block(page) {
        None => finding(0, "the two marks of the policies' tables are missing"),
        Some((from, to)) if page[from..to] != tables(code) => {
            finding(from, "the tables of the policies are not those of `gate`")
        }
        Some(_) => Vec::new(),
    }
}

/// Writes the tables of the code into the page.
///
/// # Errors
/// The page or the code cannot be read or written, or the page has no marks.
pub(crate) fn write(root: &Path) -> Result<(), String> {
    let read = |path: &str| {
        fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"))
    };
    let (code, page) = (read(CODE)?, read(PAGE)?);
    let (from, to) = block(&page).ok_or(format!("{PAGE}: `{BEGIN}` or `{END}` is missing"))?;
    let new = [&page[..from], &tables(&code), &page[to..]].concat();
    fs::write(root.join(PAGE), new).map_err(|error| format!("{PAGE}: {error}"))
}

/// The bytes of a page between the two marks.
fn block(page: &str) -> Option<(usize, usize)> {
    let from = page.find(BEGIN)? + BEGIN.len();
    let to = from + page[from..].find(END)?;
    Some((from, to))
}

/// The tables of a file's documentation, an empty line between them, with plain words for links.
fn tables(code: &str) -> String {
    let mut text = String::new();
    let mut was_row = false;
    for line in code.lines() {
        let row = line.strip_prefix("/// ").filter(|row| row.starts_with('|'));
        if let Some(row) = row {
            if !was_row && !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&without_links(row));
            text.push('\n');
        }
        was_row = row.is_some();
    }
    text
}

/// A row in which `` [`Job::size`](crate::Job::size) `` is `size`.
fn without_links(row: &str) -> String {
    let mut text = String::new();
    let mut rest = row;
    while let Some((before, after)) = rest.split_once("[`") {
        let Some((word, end)) = after.split_once("`](") else { break };
        text.push_str(before);
        text.push_str(word.rsplit("::").next().unwrap_or(word));
        rest = end.split_once(')').map_or("", |(_, behind)| behind);
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "| name | next is |\n| --- | --- |\n| `fifo` | the smallest size |\n";

    fn tree(page: &str) -> Tree {
        let code = "/// Who is next.\n///\n/// | name | next is |\n/// | --- | --- |\n\
                    /// | `fifo` | the smallest [`Job::size`](crate::Job::size) |\n///\npub enum A {}\n";
        Tree::of(&[(CODE, code), (PAGE, page)])
    }

    #[test]
    fn a_page_has_the_tables_of_the_code() {
        assert_eq!(check(&tree(&format!("# Gate\n{BEGIN}{TABLE}{END}\n"))), []);
    }

    #[test]
    fn another_table_or_none_is_found() {
        let other = TABLE.replace("smallest", "largest");
        let found = check(&tree(&format!("# Gate\n{BEGIN}{other}{END}\n")));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((&*found[0].path, found[0].line), (PAGE, 3));
        assert_eq!(check(&tree("# Gate\n")).len(), 1);
    }
}
