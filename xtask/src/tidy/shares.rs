//! Servers that tests share: each test takes a share of the connections first, however many tests run at once.

use super::Finding;
use crate::source::Source;

/// The type of a server of its own, and the start of a static that is made once for all tests.
const SERVER: &str = "Private";
const SHARED: &str = "OnceLock<";
const WAY_OUT: &str =
    "put a `pgtest::Bound` beside it, and `enter` that before the server is got or started";

/// A server that all tests of a file share without a bound on their connections: by itself, among others, or
/// as a part of what the file puts around it.
pub(super) fn check(path: &str, source: &Source) -> Vec<Finding> {
    // What a comment or a literal says holds nothing, and bounds nothing.
    let code = String::from_utf8_lossy(source.code());
    let holders = holders(&code);
    let is_server = |word: &str| word == SERVER || holders.contains(&word);
    let mut findings = Vec::new();
    for (at, start) in code.match_indices(SHARED) {
        let rest = &code[at + start.len()..];
        let until = rest.find("get_or_init").unwrap_or(rest.len());
        if words(argument(rest)).any(is_server) && !rest[..until].contains(".enter();") {
            let cause = "tests share this server without a bound on their connections";
            findings.push(Finding::new(path, source.line(at), cause, WAY_OUT));
        }
    }
    findings
}

/// The type that code begins with, up to the `>` that closes it.
fn argument(code: &str) -> &str {
    let mut open = 1;
    for (at, letter) in code.bytes().enumerate() {
        match letter {
            b'<' => open += 1,
            // The arrow of a function's type closes nothing.
            b'>' if !code[..at].ends_with('-') => open -= 1,
            _ => {}
        }
        if open == 0 {
            return &code[..at];
        }
    }
    code
}

/// The structures of a file that have a server, or one that has it.
fn holders(code: &str) -> Vec<&str> {
    let made = code.match_indices("struct ").filter_map(|(at, start)| {
        let structure = structure(&code[at + start.len()..]);
        Some((words(structure).next()?, structure))
    });
    let made: Vec<(&str, &str)> = made.collect();
    let mut found: Vec<&str> = Vec::new();
    loop {
        let has = |(name, body): &&(&str, &str)| {
            let mut parts = words(body).skip(1);
            !found.contains(name) && parts.any(|part| part == SERVER || found.contains(&part))
        };
        let Some((name, _)) = made.iter().find(has) else { return found };
        found.push(name);
    }
}

/// The structure whose name code begins with, up to the brace or the semicolon that ends it: those within other
/// brackets, as in `[Private; 2]`, do not.
fn structure(code: &str) -> &str {
    let mut open = 0;
    for (at, letter) in code.bytes().enumerate() {
        match letter {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open -= 1,
            _ => {}
        }
        if open <= 0 && matches!(letter, b'}' | b';') {
            return &code[..at];
        }
    }
    code
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> usize {
        check("crates/a/tests/it/main.rs", &Source::scan(text)).len()
    }

    #[test]
    fn a_server_without_a_bound_fails() {
        let one = "static S: OnceLock<Private> = OnceLock::new();\nS.get_or_init(start)";
        let more = "static S: OnceLock<[Private; 2]> = OnceLock::new();\nS.get_or_init(start)";
        assert_eq!((found(one), found(more)), (1, 1));
        let around = "struct Office {\n    server: Private,\n}\nstruct Town(Office);\n";
        let part =
            format!("{around}static S: OnceLock<Office> = OnceLock::new();\nS.get_or_init(start)");
        let nested =
            format!("{around}static S: OnceLock<Town> = OnceLock::new();\nS.get_or_init(start)");
        assert_eq!((found(&part), found(&nested)), (1, 1), "a part of something is a server still");
        let with =
            |of: &str| format!("static S: OnceLock<{of}> = OnceLock::new();\nS.get_or_init(start)");
        for of in [
            "(Private, Url)",
            "\n    Private,\n",
            "Result<Url, Private>",
            "fn() -> Result<Private, Url>",
        ] {
            assert_eq!(found(&with(of)), 1, "{of}: all of the type counts");
        }
        for part in [
            "{\n    // One; of many }\n    server: Private,\n}",
            "{\n    word: &'static str, // \"}\"\n    place: [u8; 4],\n    server: Private,\n}",
            "([u8; 4], Private);",
            "<T> {\n    of: fn() -> (T, Private),\n}",
        ] {
            let text = format!("struct Office{part}\n{}", with("Office"));
            assert_eq!(found(&text), 1, "{part}: all of the structure counts");
        }
        let told = with("Private").replace("S.get", "// CONNECTIONS.enter();\nS.get");
        assert_eq!(found(&told), 1, "a comment bounds nothing");
        let late = format!("{one};\nCONNECTIONS.enter();");
        assert_eq!(found(&late), 1, "too many may have connected by then");
    }

    #[test]
    fn a_server_with_a_bound_passes() {
        let bound = "static S: OnceLock<Private> = OnceLock::new();\nCONNECTIONS.enter();\n\
                     S.get_or_init(start)";
        assert_eq!(found(bound), 0);
        assert_eq!(found("// OnceLock<Private> is told here"), 0);
        let other = "struct Privately {\n    word: String,\n}\nstatic S: OnceLock<Privately> = OnceLock::new();";
        assert_eq!(found(other), 0, "no server");
        assert_eq!(found("let words = \"OnceLock<Private>\";"), 0);
        for (parts, of) in [
            ("struct Office;\nstruct Town(Private);", "Office"),
            ("struct Office(/* a Private */ Url);", "Office"),
            ("struct Office { word: Url }\nfn start() -> Private {}", "Office"),
            ("fn start() -> Private {}", "fn() -> Url"),
        ] {
            let text = format!("{parts}\nstatic S: OnceLock<{of}> = OnceLock::new();");
            assert_eq!(found(&text), 0, "{parts}");
        }
    }
}
