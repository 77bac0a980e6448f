//! Figures of every crate, for whoever cuts or rewords one: its size, its largest circle of imports, its
//! notes, and the doc comments that begin with a question word.

use std::fmt::Write as _;

use super::circles::circles;
use super::imports::{of_package, source_folder};
use super::openings;
use crate::manifest::Package;
use crate::source::{Kind, Source};

/// A table with a line for every crate.
pub(super) fn table(sources: &[(&str, Source)], packages: &[Package]) -> String {
    let mut text = format!(
        "{:<24}{:>8}{:>8}{:>9}{:>10}\n",
        "crate", "lines", "circle", "notes %", "openings %"
    );
    for package in packages {
        let folder = source_folder(package);
        let circle = circles(&of_package(package, sources)).first().map_or(0, Vec::len);
        line(&mut text, sources, &package.name, &folder, &circle.to_string());
    }
    text
}

fn line(text: &mut String, sources: &[(&str, Source)], name: &str, folder: &str, circle: &str) {
    let (mut lines, mut notes) = (0, 0);
    for (_, source) in sources.iter().filter(|(path, _)| path.starts_with(folder)) {
        lines += source.text.lines().count();
        notes += notes_of(source);
    }
    let share = if lines == 0 { 0.0 } else { 100.0 * notes as f64 / lines as f64 };
    let asking = openings::of_folder(sources, folder).percent();
    writeln!(text, "{name:<24}{lines:>8}{circle:>8}{share:>9.1}{asking:>10}")
        .expect("a String takes every text");
}

/// Lines that are a comment and nothing else, and no documentation.
fn notes_of(source: &Source) -> usize {
    let mut at = 0;
    let mut notes = 0;
    for line in source.text.split_inclusive('\n') {
        let text = line.trim_start();
        let start = at + line.len() - text.len();
        at += line.len();
        let is_doc = text.starts_with("//!") || text.starts_with("///");
        let is_note = text.starts_with("//") && !is_doc;
        notes += usize::from(is_note && source.kind(start) == Kind::Comment);
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_has_a_line() {
        let package = Package {
            name: "proxy".to_owned(),
            manifest: "crates/proxy/Cargo.toml".to_owned(),
            uses: Vec::new(),
        };
        let a = "//! A part.\nuse super::b::B;\n// Why.\npub struct A; // no line of its own\n";
        let b = "//! What else.\nuse super::a::A;\n\npub struct B;\n";
        let sources = [
            ("crates/proxy/src/monitor/a.rs", Source::scan(a)),
            ("crates/proxy/src/monitor/b.rs", Source::scan(b)),
            ("crates/proxy/src/lib.rs", Source::scan("//! All.\nmod monitor;\n")),
        ];
        let table = table(&sources, &[package]);
        let lines: Vec<Vec<&str>> =
            table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["proxy", "10", "2", "10.0", "34"]);
        assert_eq!(lines.len(), 2);
    }
}
