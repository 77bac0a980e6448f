//! Imports: what is made only if all can be read, and files that are named where they do not fit.
#![allow(
    clippy::unwrap_used,
    reason = "clippy takes only functions marked as tests for tests, not what they share"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use clap::Parser;
use cli::{Failure, Session, Verdict};
use jungle_server::{Access, Server, ServerSettings};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: jungle_verbs::Args,
}

/// A server in a folder of its own, removed with it.
struct Served {
    folder: PathBuf,
    server: Server,
}

impl Served {
    fn start() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("jungle-verbs-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        let settings = ServerSettings::at("127.0.0.1:0".parse().unwrap());
        let server = Server::start(&folder.join("data"), settings, Access::default()).unwrap();
        Self { folder, server }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn says(&self, words: &[&str]) -> Result<(Verdict, String), String> {
        let server = format!("http://{}", self.server.address());
        let words = [&["jungle"], words, &["--server", &server]].concat();
        let line = Line::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
        let mut out = Vec::new();
        match jungle_verbs::run(&line.args, &Session::new(), &mut out) {
            Ok(verdict) => Ok((verdict, String::from_utf8(out).unwrap())),
            Err(Failure::Usage(cause)) => Err(cause),
            Err(other) => panic!("{other:?}"),
        }
    }

    fn import(&self, tree: &str, file: &Path, more: &[&str]) -> Result<(Verdict, String), String> {
        self.says(&[&["import", tree, file.to_str().unwrap()], more].concat())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// The story: the tree was made, and then the file was opened.
#[test]
fn an_import_of_a_file_that_is_not_there_makes_no_tree() {
    let served = Served::start();
    let none = served.path("none.jsonl");
    for more in [&["--lines"][..], &[]] {
        let refused = served.import("notes", &none, more).unwrap_err();
        assert!(refused.contains("none.jsonl"), "{refused}");
    }
    let (_, stats) = served.says(&["stats"]).unwrap();
    assert!(stats.starts_with("commit 0,"), "{stats}");
    fs::write(&none, "{\"a\": 1}\n[2]\n").unwrap();
    let (verdict, _) = served.import("notes", &none, &["--lines"]).unwrap();
    assert_eq!(verdict, Verdict::Holds);
    let (_, stats) = served.says(&["stats"]).unwrap();
    assert!(stats.starts_with("commit 3,"), "{stats}");
}

/// The story: the server refused the whole folder, and did not know in which file the depth was.
#[test]
fn a_file_that_makes_the_document_too_deep_is_named() {
    let served = Served::start();
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let inner = served.path("pages/a/b");
    fs::create_dir_all(&inner).unwrap();
    fs::write(inner.join("deep.json"), nested(123)).unwrap();
    fs::write(inner.join("flat.json"), nested(1)).unwrap();
    let (verdict, _) = served.import("notes", &served.path("pages"), &[]).unwrap();
    assert_eq!(verdict, Verdict::Holds, "126 are what there may be");
    fs::write(inner.join("deep.json"), nested(124)).unwrap();
    let refused = served.import("others", &served.path("pages"), &[]).unwrap_err();
    assert!(refused.contains("a/b/deep.json: with it the document is 127"), "{refused}");
    let alone = served.path("alone.json");
    fs::write(&alone, nested(126)).unwrap();
    assert_eq!(served.import("notes", &alone, &[]).unwrap().0, Verdict::Holds);
    fs::write(&alone, nested(127)).unwrap();
    let refused = served.import("others", &alone, &[]).unwrap_err();
    assert!(refused.contains("alone.json: with it"), "{refused}");
    fs::write(&alone, nested(300)).unwrap();
    let refused = served.import("others", &alone, &[]).unwrap_err();
    assert!(refused.contains("alone.json: it is too deep; import it in parts"), "{refused}");
    let (_, stats) = served.says(&["stats"]).unwrap();
    assert!(stats.starts_with("commit 3,"), "{stats}");
}

/// The story: a line was read in part, and the part was called no JSON.
#[test]
fn a_line_that_is_too_long_is_named() {
    let served = Served::start();
    let file = served.path("notes.jsonl");
    let text = |bytes: usize| format!("\"{}\"\n", "a".repeat(bytes - 2));
    fs::write(&file, format!("1\n{}", text((8 << 20) + 1))).unwrap();
    let refused = served.import("notes", &file, &["--lines"]).unwrap_err();
    assert!(refused.contains("notes.jsonl, line 2: it is longer than"), "{refused}");
    // The cut may lie within a character, or behind a blank.
    for part in ["\u{3042}", " a"] {
        fs::write(&file, format!("1\n\"{}\"\n", part.repeat(5 << 20))).unwrap();
        let refused = served.import("notes", &file, &["--lines"]).unwrap_err();
        assert!(refused.contains("notes.jsonl, line 2: it is longer than"), "{refused}");
    }
    // Of JSON that is broken the line is named too.
    fs::write(&file, "1\n{\n").unwrap();
    let refused = served.import("notes", &file, &["--lines"]).unwrap_err();
    assert!(refused.contains("notes.jsonl, line 2: it is no JSON"), "{refused}");
    assert!(refused.contains("; up to line 1 all is imported: import the rest"), "{refused}");
    assert!(refused.contains("tail -n +2"), "{refused}");
    fs::write(&file, "\n[\n1\n").unwrap();
    let refused = served.import("notes", &file, &["--lines"]).unwrap_err();
    assert!(refused.ends_with("; nothing is imported"), "{refused}");
}

/// Editors of some systems begin a file with the mark of its order of bytes, which is no JSON.
#[test]
fn a_mark_of_the_order_of_bytes_is_no_part_of_a_document() {
    let served = Served::start();
    for (name, text, rest) in
        [("one.json", "{\"a\": 1}", [].as_slice()), ("many.jsonl", "1\n2\n", &["--lines"])]
    {
        let file = served.path(name);
        fs::write(&file, format!("\u{feff}{text}")).unwrap();
        served.import("notes", &file, rest).unwrap();
    }
    let (_, stats) = served.says(&["stats"]).unwrap();
    assert!(stats.starts_with("commit 4,"), "{stats}");
}
