//! Openings of doc comments: a thing is named by a noun, not described by a relative clause. The list of
//! the crates that have more such openings than they may can only shrink.

use super::Finding;
use super::imports::source_folder;
use crate::manifest::Package;
use crate::source::{Kind, Source};

/// The list of the crates that have more, each with its share in whole percent, rounded up.
pub(super) const LIST: &str = "xtask/question-openings.txt";
/// The share that a crate may have [%].
const SHARE_MAX: u64 = 10;
/// The words that open a relative clause.
const WORDS: [&str; 7] = ["What", "Who", "Whose", "Whether", "How", "Where", "Which"];

/// The doc comments of some files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Openings {
    /// All of them.
    docs: u64,
    /// Those that begin with one of the words.
    asking: u64,
}

impl Openings {
    /// Adds those of a file.
    pub(super) fn add(&mut self, source: &Source) {
        let mut before = "";
        let mut at = 0;
        for line in source.text.split_inclusive('\n') {
            let text = line.trim_start();
            let start = at + line.len() - text.len();
            at += line.len();
            let mark = mark(text).filter(|_| source.kind(start) == Kind::Comment).unwrap_or("");
            if !mark.is_empty() && mark != before {
                let first = text[mark.len()..].trim_start();
                let word = first.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
                self.docs += 1;
                self.asking += u64::from(WORDS.contains(&word));
            }
            before = mark;
        }
    }

    /// The share of those that ask, in whole percent, rounded up.
    pub(super) fn percent(self) -> u64 {
        if self.docs == 0 { 0 } else { (100 * self.asking).div_ceil(self.docs) }
    }
}

/// The beginning of a line of a doc comment.
fn mark(line: &str) -> Option<&'static str> {
    let is_doc = line.starts_with("///") && !line.starts_with("////");
    if is_doc { Some("///") } else { line.starts_with("//!").then_some("//!") }
}

/// Crates with more such openings than they may have, and lines of the list that no longer hold.
pub(super) fn check(sources: &[(&str, Source)], packages: &[Package], list: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut listed = read(list, &mut findings);
    for package in packages {
        let percent = of_folder(sources, &source_folder(package)).percent();
        let at = listed.iter().position(|(_, name, _)| *name == package.name);
        let (line, allowed) = match at.map(|at| listed.swap_remove(at)) {
            Some((line, _, allowed)) => (line, allowed),
            None => (0, SHARE_MAX),
        };
        if percent > allowed {
            findings.push(Finding::new(
                &package.manifest,
                1,
                format!(
                    "{percent} % of the doc comments of `{}` begin with What, Who, Whose, Whether, How, \
                     Where or Which; at most {allowed} % may",
                    package.name
                ),
                "name the thing by a noun first (STYLE.md, Docs and comments)",
            ));
        } else if line > 0 && percent < allowed {
            let way_out = match percent {
                0..=SHARE_MAX => "remove the line".to_owned(),
                more => format!("lower the number to {more}"),
            };
            let cause = format!("`{}` has only {percent} % now, not {allowed} %", package.name);
            findings.push(Finding::new(LIST, line, cause, way_out));
        }
    }
    for (line, name, _) in listed {
        let cause = format!("`{name}` is no crate of ours");
        findings.push(Finding::new(LIST, line, cause, "remove the line"));
    }
    findings
}

/// The doc comments below a folder.
pub(super) fn of_folder(sources: &[(&str, Source)], folder: &str) -> Openings {
    let mut openings = Openings::default();
    let files = sources.iter().filter(|(path, _)| path.starts_with(folder));
    files.for_each(|(_, source)| openings.add(source));
    openings
}

/// The lines of the list: where each stands, the crate, and its share.
fn read<'a>(list: &'a str, findings: &mut Vec<Finding>) -> Vec<(usize, &'a str, u64)> {
    let mut listed = Vec::new();
    for (index, text) in list.lines().enumerate() {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let share =
            text.split_once(' ').and_then(|(name, share)| Some((name, share.parse().ok()?)));
        match share {
            Some((name, share)) if share > SHARE_MAX => listed.push((index + 1, name, share)),
            _ => findings.push(Finding::new(
                LIST,
                index + 1,
                format!("cannot read `{text}`"),
                format!("write the crate and its share in percent (more than {SHARE_MAX})"),
            )),
        }
    }
    listed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with so many doc comments, of which some ask.
    fn text(docs: usize, asking: usize) -> String {
        let asks = "/// Whether it is.\n/// What follows is the same comment.\nfn f() {}\n";
        let names = "/// The limit.\n///\n/// How it is found.\nfn g() {}\n";
        format!("//! A file.\n{}{}", asks.repeat(asking), names.repeat(docs - 1 - asking))
    }

    fn found(text: &str, list: &str) -> Vec<String> {
        let gate = Package {
            name: "gate".to_owned(),
            manifest: "crates/gate/Cargo.toml".to_owned(),
            uses: Vec::new(),
        };
        let sources = [
            ("crates/gate/src/lib.rs", Source::scan(text)),
            ("crates/gate/tests/it/main.rs", Source::scan("//! What is tested.\n")),
        ];
        let findings = check(&sources, &[gate], list);
        findings.iter().map(|one| format!("{}: {}", one.path, one.way_out)).collect()
    }

    #[test]
    fn ten_percent_pass_and_more_fail() {
        assert_eq!(found(&text(20, 2), ""), [""; 0]);
        assert!(found(&text(20, 3), "")[0].starts_with("crates/gate/Cargo.toml: name the thing"));
    }

    #[test]
    fn a_listed_share_can_only_fall() {
        let list = "# crate, percent\ngate 20\n";
        assert_eq!(found(&text(20, 4), list), [""; 0]);
        assert!(found(&text(20, 5), list)[0].starts_with("crates/gate/Cargo.toml"));
        assert_eq!(found(&text(20, 3), list), [format!("{LIST}: lower the number to 15")]);
        assert_eq!(found(&text(20, 2), list), [format!("{LIST}: remove the line")]);
        assert_eq!(found(&text(20, 2), "gone 20\n"), [format!("{LIST}: remove the line")]);
        for wrong in ["gate", "gate many", "gate 10", "gate 20 %"] {
            assert_eq!(found(&text(20, 2), wrong).len(), 1, "{wrong}");
        }
    }

    #[test]
    fn only_first_lines_of_doc_comments_count() {
        let mut openings = Openings::default();
        openings.add(&Source::scan(
            "//! What is here.\n// Who is no doc comment.\nfn f() {} // How\n/// Whoever asks.\n\
             fn g() {}\n//// Which is none.\nconst S: &str = \"\n/// Where it is text\n\";\n\
             mod m {\n    //! Whose it is.\n    /// How: it counts.\n    fn h() {}\n}\n",
        ));
        assert_eq!(openings, Openings { docs: 4, asking: 3 });
        assert_eq!(openings.percent(), 75);
        assert_eq!(Openings::default().percent(), 0);
    }
}
