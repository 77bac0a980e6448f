//! Parts of a request to a server of ours: words of its address, and the token that says who asks.

use std::path::Path;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::Failure;

/// Bytes that are not written as they are.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b',');
/// The most MiB of a file with a token.
const TOKEN_MAX_MIB: u64 = 1;

/// The path of these words, each escaped.
pub fn path(words: &[&str]) -> String {
    let word = |word: &&str| format!("/{}", utf8_percent_encode(word, ESCAPED));
    words.iter().map(word).collect()
}

/// A query of those parameters that are said; empty if none is.
pub fn query(pairs: &[(&str, Option<String>)]) -> String {
    let said = pairs.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let pairs: Vec<String> = said
        .map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, ESCAPED)))
        .collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

/// The first line of a file, or the value of a variable of the environment where no file is named. Never an argument:
/// others can list those.
///
/// # Errors
/// The file cannot be read, or its first line is empty.
pub fn access_token(file: Option<&Path>, variable: &str) -> Result<Option<String>, Failure> {
    let Some(file) = file else {
        return Ok(std::env::var(variable).ok().filter(|token| !token.is_empty()));
    };
    let text = formats::bounded::text(file, TOKEN_MAX_MIB)
        .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", file.display())))?;
    match text.lines().next().map(str::trim) {
        Some(token) if !token.is_empty() => Ok(Some(token.to_owned())),
        _ => Err(Failure::Usage(format!("{}: the first line is empty", file.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::{path, query};

    #[test]
    fn words_are_escaped_and_what_is_not_said_is_left_out() {
        assert_eq!(path(&["trees", "shop/a b", "-1,0"]), "/trees/shop%2Fa%20b/-1,0");
        assert_eq!(path(&[]), "");
        let said = [("at", Some("1&2".to_owned())), ("limit", None), ("to", Some("x".to_owned()))];
        assert_eq!(query(&said), "?at=1%262&to=x");
        assert_eq!(query(&said[1..2]), "");
    }
}
