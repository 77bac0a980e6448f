//! Schemas and references against the readers: what is written is what the types say, and a schema refuses
//! and takes what the reader does.

mod defaults;
mod examples;
mod mutations;
mod place;
mod reading;

use std::fs;
use std::path::{Path, PathBuf};

use reference::documents;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_documents_are_what_the_types_say() {
    let stale: Vec<String> = documents()
        .into_iter()
        .filter(|document| {
            fs::read_to_string(root().join(&document.path)).ok().as_ref() != Some(&document.text)
        })
        .map(|document| document.path)
        .collect();
    assert!(
        stale.is_empty(),
        "{} say something else than the types; run `cargo xtask references`",
        stale.join(", ")
    );
}

/// Every link within a page leads to one of its headings, and every row has as many cells as its head.
#[test]
fn the_references_are_sound() {
    for page in documents().iter().filter(|document| document.path.ends_with(".md")) {
        let anchors: Vec<String> = page
            .text
            .lines()
            .filter_map(|line| line.strip_prefix("##"))
            .map(|heading| {
                let kept = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ' ');
                let text: String =
                    heading.trim_start_matches('#').trim().chars().filter(kept).collect();
                text.to_lowercase().replace(' ', "-")
            })
            .collect();
        let links = page.text.split("](#").skip(1).filter_map(|rest| rest.split(')').next());
        let mut n = 0;
        for link in links {
            n += 1;
            let found = anchors.iter().filter(|anchor| *anchor == link).count();
            // The head names `The file` twice on the page of two files; nothing links there.
            assert_eq!(found, 1, "{}: #{link}", page.path);
        }
        assert!(n > 1, "{}: there are links", page.path);
        for row in page.text.lines().filter(|line| line.starts_with('|')) {
            let bars = row.replace("\\|", "").matches('|').count();
            assert_eq!(bars, 7, "{}: {row}", page.path);
        }
    }
}
