//! Relative links of the documents lead to files that exist.

use super::{Finding, line_of};
use crate::tree::Tree;

/// Links that lead nowhere.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.with_extension("md") {
        let prose = without_code(text);
        for (at, target) in targets(&prose) {
            if let Some(cause) = broken(tree, path, target) {
                let way_out = "correct the link, or add the file";
                findings.push(Finding::new(path, line_of(&prose, at), cause, way_out));
            }
        }
    }
    findings
}

/// What is wrong with a link of the document at `path`.
fn broken(tree: &Tree, path: &str, target: &str) -> Option<String> {
    let file = target.split(['#', '?']).next().unwrap_or_default();
    let has_scheme = file.split_once(':').is_some_and(|(scheme, _)| {
        scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    });
    if file.is_empty() || has_scheme {
        return None;
    }
    if file.starts_with('/') {
        return Some(format!("the link `{target}` is absolute and works on one machine only"));
    }
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    let decoded = percent_decoded(file);
    for part in decoded.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.pop().is_none() => {
                return Some(format!("the link `{target}` leaves the repository"));
            }
            ".." => {}
            name => parts.push(name),
        }
    }
    let resolved = parts.join("/");
    (!tree.has(&resolved))
        .then(|| format!("the link `{target}` leads to {resolved}, which is not there"))
}

/// The targets of inline links, images, reference definitions and HTML attributes, with places.
fn targets(prose: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (at, _) in prose.match_indices("](") {
        found.extend(inline_target(&prose[at + 2..]).map(|target| (at, target)));
    }
    for quote in ["src=\"", "href=\""] {
        for (at, _) in prose.match_indices(quote) {
            let rest = &prose[at + quote.len()..];
            found.extend(rest.split_once('"').map(|(target, _)| (at, target)));
        }
    }
    let mut at = 0;
    for line in prose.split_inclusive('\n') {
        let definition = line.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]:"));
        if let Some((label, target)) = definition
            && !label.contains(']')
            && let Some(target) = target.split_whitespace().next()
        {
            found.push((at, target.trim_matches(['<', '>'])));
        }
        at += line.len();
    }
    found
}

/// The target of the link whose parenthesis has just opened, without its title.
fn inline_target(rest: &str) -> Option<&str> {
    if let Some(angled) = rest.strip_prefix('<') {
        return angled.split_once('>').map(|(target, _)| target);
    }
    let mut depth = 1;
    for (at, c) in rest.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 || c.is_whitespace() {
            return Some(&rest[..at]);
        }
    }
    None
}

/// The document with its code blanked: fences, and spans between backquotes.
fn without_code(text: &str) -> String {
    let mut prose = String::with_capacity(text.len());
    let mut fence: Option<&str> = None;
    for line in text.split_inclusive('\n') {
        let start = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) => {
                prose.push_str(&without_spans(line));
                continue;
            }
            (Some(_), _) => {}
        }
        blank(&mut prose, line);
    }
    prose
}

fn without_spans(line: &str) -> String {
    let mut prose = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(open) = rest.find('`') {
        let ticks = rest[open..].chars().take_while(|c| *c == '`').count();
        let body = open + ticks;
        let Some(close) = rest[body..].find(&rest[open..body]) else { break };
        prose.push_str(&rest[..open]);
        let end = body + close + ticks;
        blank(&mut prose, &rest[open..end]);
        rest = &rest[end..];
    }
    prose.push_str(rest);
    prose
}

/// As many spaces as `text` has bytes, with its line ends.
fn blank(prose: &mut String, text: &str) {
    prose.extend(text.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
}

/// `a%20b` is `a b`; what is no code of two digits stays.
fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        if let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            decoded.push(byte);
            at += 3;
        } else {
            decoded.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(document: &str) -> Vec<(usize, String)> {
        let tree = Tree::of(&[
            ("studies/fujita/README.md", document),
            ("studies/fujita/closed loop.toml", ""),
            ("studies/figure(1).toml", ""),
            ("ARCHITECTURE.md", ""),
        ]);
        check(&tree).into_iter().map(|one| (one.line, one.cause)).collect()
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        for document in [
            "[a](../../ARCHITECTURE.md) and [b](../../ARCHITECTURE.md#map \"title\")",
            "[c](closed%20loop.toml), [c](<closed loop.toml>), ![d](../figure(1).toml)",
            "[folder](..), [root](../..), [here](#heading), [self](README.md)",
            "[web](https://example.org/x.md), [mail](mailto:a@example.org)",
            "[ref]\n\n[ref]: ../../ARCHITECTURE.md",
            "`[code](gone.md)` and ``[`](gone.md)``\n```text\n[code](gone.md)\n```\n",
            "~~~\n```\n[code](gone.md)\n~~~\n",
        ] {
            assert_eq!(found(document), [], "{document}");
        }
    }

    #[test]
    fn links_that_lead_nowhere_fail_with_their_line() {
        for document in [
            "\n[a](gone.md)",
            "\n![a](gone.svg)",
            "\n[a](../fujita/gone.toml#x)",
            "\n[a]: gone.md",
            "\n<img src=\"gone.png\">",
            "\n[a](../../../shared/DESIGN.md)",
            "\n[a](/work/ARCHITECTURE.md)",
            "`open\n[a](gone.md)",
        ] {
            let lines: Vec<usize> = found(document).into_iter().map(|(line, _)| line).collect();
            assert_eq!(lines, [2], "{document}");
        }
        assert!(found("[a](../gone.md)")[0].1.contains("leads to studies/gone.md"));
    }
}
