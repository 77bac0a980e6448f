//! Imports between the files of a crate: what `use` names, and every path from `crate`, `super` or
//! `self`, followed through modules and re-exports to the file that defines it. A module's call of its
//! own part, `part::f()`, is none: the two are read together.

use std::collections::{BTreeMap, BTreeSet};

use crate::manifest::Package;
use crate::source::Source;

/// The depth at which a chain of re-exports is taken for a ring.
const CHAIN_MAX: usize = 16;

/// The imports of one crate: each file with the files that it imports from.
pub(super) type Imports<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// A piece of code that the reader of modules tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    /// `::`
    Colons,
    /// Any other byte.
    Sign(u8),
}

/// A module: a file, or a part of one in braces.
#[derive(Debug)]
struct Module<'a> {
    path: &'a str,
    parent: Option<usize>,
    children: BTreeMap<&'a str, usize>,
    /// Items that are defined here.
    items: BTreeSet<&'a str>,
    /// Names that `use` makes known here, each with its path.
    bound: BTreeMap<&'a str, Vec<&'a str>>,
    /// Modules whose every name `use` makes known here.
    globs: Vec<Vec<&'a str>>,
    /// Paths of the code, of which some are imports.
    mentioned: Vec<Vec<&'a str>>,
    /// Is it compiled for tests alone?
    is_test: bool,
}

/// The end of a path.
enum End {
    Module(usize),
    /// An item of this module.
    Item(usize),
}

/// The modules of one crate.
#[derive(Debug, Default)]
struct Modules<'a> {
    all: Vec<Module<'a>>,
}

/// The imports within a package's `src`.
pub(super) fn of_package<'a>(
    package: &Package,
    sources: &'a [(&'a str, Source<'a>)],
) -> Imports<'a> {
    let folder = source_folder(package);
    let files = sources.iter().filter(|(path, _)| path.starts_with(&folder));
    let mut modules = Modules::default();
    let mut roots = BTreeMap::new();
    let mut files: Vec<(&str, Vec<&str>, &Source)> =
        files.map(|(path, source)| (*path, module_path(&path[folder.len()..]), source)).collect();
    // A parent stands before its children.
    files.sort_by_key(|(path, names, _)| (names.len(), *path));
    for (path, names, source) in &files {
        let id = modules.place(&mut roots, path, names);
        modules.read(id, &tokens(source));
    }
    modules.imports()
}

/// The folder of a package's source, with a slash at its end.
pub(super) fn source_folder(package: &Package) -> String {
    let folder = package.manifest.strip_suffix("Cargo.toml").unwrap_or(&package.manifest);
    format!("{folder}src/")
}

/// The names from the root to the module of a file below `src`: `a/b.rs` and `a/b/mod.rs` are both
/// `a`, `b`. Each root has a name of its own, so that a library and a command beside it stay apart.
fn module_path(path: &str) -> Vec<&str> {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    if stem == "main" || stem.starts_with("bin/") {
        return vec![stem];
    }
    if stem == "lib" {
        return vec![""];
    }
    std::iter::once("").chain(stem.split('/')).collect()
}

fn tokens<'a>(source: &Source<'a>) -> Vec<Token<'a>> {
    let code = source.code();
    let mut tokens = Vec::new();
    let mut words = source.words().peekable();
    let mut at = 0;
    while at < code.len() {
        if let Some((_, word)) = words.next_if(|(start, _)| *start == at) {
            tokens.push(Token::Word(word));
            at += word.len();
        } else if code[at..].starts_with(b"::") {
            tokens.push(Token::Colons);
            at += 2;
        } else {
            if !code[at].is_ascii_whitespace() {
                tokens.push(Token::Sign(code[at]));
            }
            at += 1;
        }
    }
    tokens
}

impl Module<'_> {
    /// Does a path that begins with this word lead to another module, as it is written?
    fn imports(&self, first: &str) -> bool {
        matches!(first, "crate" | "super" | "self") || self.bound.contains_key(first)
    }
}

impl<'a> Modules<'a> {
    /// The module of a file. A crate that is a command alone has `main.rs` as its root: there the
    /// files beside it are `main.rs`'s children.
    fn place(
        &mut self,
        roots: &mut BTreeMap<&'a str, usize>,
        path: &'a str,
        names: &[&'a str],
    ) -> usize {
        let (root, below) = names.split_first().expect("every module has a root");
        let found = roots.get(root).or_else(|| roots.get("main"));
        let Some(root) = found.filter(|_| !below.is_empty()).copied() else {
            let id = self.add(path, None);
            roots.insert(root, id);
            return id;
        };
        let mut id = root;
        for name in below {
            id = match self.all[id].children.get(name) {
                Some(child) => *child,
                None => {
                    let child = self.add(path, Some(id));
                    self.all[id].children.insert(name, child);
                    child
                }
            };
        }
        self.all[id].path = path;
        id
    }

    fn add(&mut self, path: &'a str, parent: Option<usize>) -> usize {
        let is_test = parent.is_some_and(|parent| self.all[parent].is_test);
        self.all.push(Module {
            path,
            parent,
            children: BTreeMap::new(),
            items: BTreeSet::new(),
            bound: BTreeMap::new(),
            globs: Vec::new(),
            mentioned: Vec::new(),
            is_test,
        });
        self.all.len() - 1
    }

    fn child(&mut self, id: usize, name: &'a str, is_test: bool) -> usize {
        let child = self.all[id].children.get(name).copied().unwrap_or_else(|| {
            let child = self.add(self.all[id].path, Some(id));
            self.all[id].children.insert(name, child);
            child
        });
        self.all[child].is_test |= is_test;
        child
    }

    /// Reads the code of a file.
    fn read(&mut self, file: usize, tokens: &[Token<'a>]) {
        let mut reader = Reader { tokens, at: 0, open: Vec::new(), depth: 0, is_test: false };
        let mut id = file;
        while let Some(token) = reader.tokens.get(reader.at).copied() {
            match token {
                Token::Sign(b'#') => reader.attribute(),
                Token::Word("mod") => id = self.read_mod(id, &mut reader),
                Token::Word("use") => self.read_use(id, &mut reader),
                Token::Word(word) => self.read_word(id, word, &mut reader),
                Token::Sign(sign) => id = reader.sign(sign, id),
                Token::Colons => reader.at += 1,
            }
        }
    }

    /// `mod name;` or `mod name {`; the module that the code after it belongs to.
    fn read_mod(&mut self, id: usize, reader: &mut Reader<'_, 'a>) -> usize {
        let name = reader.word(1);
        let opens = reader.tokens.get(reader.at + 2) == Some(&Token::Sign(b'{'));
        reader.at += 1;
        let Some(name) = name else { return id };
        let child = self.child(id, name, reader.is_test);
        reader.is_test = false;
        if !opens {
            return id;
        }
        reader.at += 2;
        reader.depth += 1;
        reader.open.push((reader.depth, id));
        child
    }

    /// A word that is neither `mod` nor `use`: an item's beginning, a path, or nothing of ours.
    fn read_word(&mut self, id: usize, word: &'a str, reader: &mut Reader<'_, 'a>) {
        if is_item(word) {
            if reader.is_outside() {
                self.all[id].items.extend(reader.word(1));
            }
            reader.at += 1;
            return;
        }
        let is_name = reader.at > 0
            && matches!(reader.tokens[reader.at - 1], Token::Colons | Token::Sign(b'.'));
        let path = reader.path();
        if !is_name {
            self.all[id].mentioned.push(path);
        }
    }

    /// `use TREE;`, which names things of other files, and may be there for others alone.
    fn read_use(&mut self, id: usize, reader: &mut Reader<'_, 'a>) {
        let is_for_others = reader.at > 0
            && matches!(reader.tokens[reader.at - 1], Token::Word("pub") | Token::Sign(b')'));
        let is_for_tests = std::mem::take(&mut reader.is_test);
        reader.at += 1;
        if !matches!(reader.tokens.get(reader.at), Some(Token::Word(_) | Token::Sign(b'{'))) {
            return; // `use<'a>` of a type
        }
        let mut leaves = Vec::new();
        reader.tree(&mut Vec::new(), &mut leaves);
        for (path, name) in leaves {
            match name {
                Some(name) => {
                    self.all[id].bound.insert(name, path);
                    if !is_for_others && !is_for_tests {
                        self.all[id].mentioned.push(vec![name]);
                    }
                }
                None => self.all[id].globs.push(path),
            }
        }
    }

    /// The end of a path as it is read in a module; `None` where it leaves the crate.
    fn resolve(&self, id: usize, path: &[&'a str], chain: usize) -> Option<End> {
        let (first, mut rest) = path.split_first()?;
        let mut end = match *first {
            "crate" => End::Module(self.root(id)),
            "self" => End::Module(id),
            "super" => End::Module(self.all[id].parent?),
            name => self.look_up(id, name, chain)?,
        };
        while let (End::Module(at), Some((name, after))) = (&end, rest.split_first()) {
            rest = after;
            end = match *name {
                "self" => End::Module(*at),
                "super" => End::Module(self.all[*at].parent?),
                // What is not seen here was made by a macro.
                name => self.look_up(*at, name, chain).unwrap_or(End::Item(*at)),
            };
        }
        Some(end)
    }

    fn look_up(&self, id: usize, name: &'a str, chain: usize) -> Option<End> {
        let module = &self.all[id];
        if let Some(child) = module.children.get(name) {
            return Some(End::Module(*child));
        }
        if module.items.contains(name) {
            return Some(End::Item(id));
        }
        if chain == CHAIN_MAX {
            return None;
        }
        if let Some(path) = module.bound.get(name).filter(|path| **path != [name]) {
            return self.resolve(id, path, chain + 1);
        }
        module.globs.iter().find_map(|path| match self.resolve(id, path, chain + 1)? {
            End::Module(at) if at != id => self.look_up(at, name, chain + 1),
            _ => None,
        })
    }

    fn root(&self, id: usize) -> usize {
        std::iter::successors(Some(id), |id| self.all[*id].parent).last().unwrap_or(id)
    }

    /// Every file with the files that hold what it mentions. Naming a module is no import yet.
    fn imports(&self) -> Imports<'a> {
        let mut imports = Imports::new();
        for (id, module) in self.all.iter().enumerate().filter(|(_, module)| !module.is_test) {
            let found = imports.entry(module.path).or_default();
            for path in module.mentioned.iter().filter(|path| module.imports(path[0])) {
                if let Some(End::Item(at)) = self.resolve(id, path, 0)
                    && self.all[at].path != module.path
                {
                    found.insert(self.all[at].path);
                }
            }
        }
        imports
    }
}

fn is_item(word: &str) -> bool {
    matches!(
        word,
        "struct" | "enum" | "union" | "trait" | "type" | "fn" | "const" | "static" | "macro_rules"
    )
}

/// A place in the tokens of a file.
struct Reader<'t, 'a> {
    tokens: &'t [Token<'a>],
    at: usize,
    /// The modules in braces that are open: the depth of each, and the module around it.
    open: Vec<(usize, usize)>,
    depth: usize,
    /// Does the next item stand behind `#[cfg(test)]`?
    is_test: bool,
}

impl<'a> Reader<'_, 'a> {
    fn word(&self, ahead: usize) -> Option<&'a str> {
        match self.tokens.get(self.at + ahead) {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        }
    }

    /// Is this place outside of every item?
    fn is_outside(&self) -> bool {
        self.depth == self.open.last().map_or(0, |(depth, _)| *depth)
    }

    /// Passes over `#[...]` and `#![...]`.
    fn attribute(&mut self) {
        let is_inner = self.tokens.get(self.at + 1) == Some(&Token::Sign(b'!'));
        let open = self.at + 1 + usize::from(is_inner);
        self.at += 1;
        if self.tokens.get(open) != Some(&Token::Sign(b'[')) {
            return;
        }
        let mut depth = 0_i32;
        let mut end = open;
        for token in &self.tokens[open..] {
            match token {
                Token::Sign(b'[') => depth += 1,
                Token::Sign(b']') => depth -= 1,
                _ => {}
            }
            end += 1;
            if depth == 0 {
                break;
            }
        }
        let words = |wanted| self.tokens[open..end].contains(&Token::Word(wanted));
        self.is_test |= words("cfg") && words("test") && !words("not");
        self.at = end;
    }

    /// Passes over a sign; the module that the code after it belongs to.
    fn sign(&mut self, sign: u8, id: usize) -> usize {
        self.at += 1;
        match sign {
            b'{' => self.depth += 1,
            b'}' => {
                let closed = self.open.pop_if(|(depth, _)| *depth == self.depth);
                self.depth = self.depth.saturating_sub(1);
                self.is_test = false;
                return closed.map_or(id, |(_, around)| around);
            }
            b';' => self.is_test = false,
            _ => {}
        }
        id
    }

    /// Reads `a::b::c`, at least one word.
    fn path(&mut self) -> Vec<&'a str> {
        let mut path: Vec<&str> = self.word(0).into_iter().collect();
        self.at += 1;
        while self.tokens.get(self.at) == Some(&Token::Colons) {
            let Some(word) = self.word(1) else { break };
            path.push(word);
            self.at += 2;
        }
        path
    }

    /// Reads the tree of a `use` up to its end: every path with the name that it gets, or without one
    /// where all names of a module are meant.
    fn tree(
        &mut self,
        above: &mut Vec<&'a str>,
        leaves: &mut Vec<(Vec<&'a str>, Option<&'a str>)>,
    ) {
        let length = above.len();
        while let Some(token) = self.tokens.get(self.at).copied() {
            self.at += 1;
            match token {
                Token::Word("as") => {
                    if let (Some(name), Some(leaf)) = (self.word(0), leaves.last_mut()) {
                        leaf.1 = Some(name);
                    }
                    self.at += 1;
                }
                Token::Word(word) => {
                    above.push(word);
                    if self.tokens.get(self.at) != Some(&Token::Colons) {
                        leaves.push(leaf(above));
                    }
                }
                Token::Sign(b'*') => leaves.push((above.clone(), None)),
                Token::Sign(b'{') => self.tree(above, leaves),
                Token::Sign(b',') => above.truncate(length),
                Token::Sign(b'}' | b';') => break,
                Token::Colons | Token::Sign(_) => {}
            }
        }
        above.truncate(length);
    }
}

/// The path of a tree's end with its name: `a::self` is `a`.
fn leaf<'a>(path: &[&'a str]) -> (Vec<&'a str>, Option<&'a str>) {
    let path = match path {
        [before @ .., "self"] if !before.is_empty() => before,
        whole => whole,
    };
    (path.to_vec(), path.last().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The imports of a crate `a` as lines `from > to`, without the folder.
    fn imports(files: &[(&str, &str)]) -> Vec<String> {
        let paths: Vec<String> = files.iter().map(|(path, _)| format!("a/src/{path}")).collect();
        let texts = files.iter().map(|(_, text)| Source::scan(text));
        let sources: Vec<_> = paths.iter().map(String::as_str).zip(texts).collect();
        let package =
            Package { name: "a".to_owned(), manifest: "a/Cargo.toml".to_owned(), uses: Vec::new() };
        let found = of_package(&package, &sources);
        let short = |path: &str| path["a/src/".len()..].to_owned();
        let lines = found.iter().flat_map(|(from, to)| {
            to.iter().map(move |to| format!("{} > {}", short(from), short(to)))
        });
        lines.collect()
    }

    #[test]
    fn paths_are_followed_from_the_root_the_parent_and_the_module_itself() {
        for text in [
            "use crate::b::c::D;",
            "use super::b::c::D;",
            "use crate::{b::{c::{D, E as F}, G}};",
            "fn f() { crate::b::c::D::new() }",
            "fn f(x: super::b::c::D) {}",
            "use super::b::c; fn f() { c::D }",
            "use crate::b::c::*; use crate::b::c::D;",
            "mod inner { use super::super::b::c::D; }",
        ] {
            let b = "pub mod c; use self::c::D as H; pub struct G;";
            let files = [
                ("lib.rs", "mod a; mod b;"),
                ("a.rs", text),
                ("b/mod.rs", b),
                ("b/c.rs", "pub struct D; pub struct E;"),
            ];
            let found = imports(&files);
            assert!(found.contains(&"a.rs > b/c.rs".to_owned()), "{text}: {found:?}");
            assert!(found.contains(&"b/mod.rs > b/c.rs".to_owned()), "{text}: {found:?}");
            let two = usize::from(text.contains('G'));
            assert_eq!(found.len(), 2 + two, "{text}: {found:?}");
        }
    }

    #[test]
    fn a_name_that_is_passed_on_leads_to_the_file_that_defines_it() {
        let files = [
            ("lib.rs", "mod face; mod user;"),
            (
                "face.rs",
                "mod inside; pub(crate) use inside::Thing; pub use inside::*; pub fn own() {}",
            ),
            ("face/inside.rs", "use super::own; pub struct Thing; pub struct Other;"),
            ("user.rs", "use crate::face::{Thing, Other};"),
        ];
        // The face is no user of what it passes on: there is no circle.
        assert_eq!(imports(&files), ["face/inside.rs > face.rs", "user.rs > face/inside.rs"]);
        let used = [files[0], ("face.rs", "mod inside; pub use inside::Thing; fn f(x: Thing) {}")];
        let used = [used[0], used[1], ("face/inside.rs", "pub struct Thing;")];
        assert_eq!(imports(&used), ["face.rs > face/inside.rs"]);
    }

    #[test]
    fn tests_other_crates_and_words_outside_code_are_no_imports() {
        let files = [
            ("main.rs", "mod a; mod b; #[cfg(test)] mod checks;"),
            (
                "a.rs",
                "use std::fmt; use serde::b; // crate::b::B\nconst S: &str = \"crate::b::B\";
                #[cfg(test)] use crate::b::B;
                #[cfg(test)] mod tests { use crate::b::B; mod deep { use crate::b::B; } }
                fn f() -> impl Sized + use<> { x.b() }",
            ),
            ("b.rs", "pub struct B; impl B { fn crate_b(&self) {} }"),
            ("checks.rs", "use crate::b::B;"),
        ];
        assert_eq!(imports(&files), [""; 0]);
        let after = [files[0], ("a.rs", "#[cfg(test)] mod t { } use crate::b::B;"), files[2]];
        assert_eq!(imports(&after), ["a.rs > b.rs"]);
    }

    #[test]
    fn a_command_beside_a_library_is_a_crate_of_its_own() {
        let files = [
            ("lib.rs", "pub mod b; fn f() {}"),
            ("main.rs", "use a::b::B; fn g() { crate::f() }"),
            ("b.rs", "use crate::f; pub struct B;"),
        ];
        assert_eq!(imports(&files), ["b.rs > lib.rs"]);
    }

    #[test]
    fn rings_of_re_exports_and_unfinished_code_end() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "pub use crate::b::*; pub use crate::b::X; use super::super::Y; mod"),
            ("b.rs", "pub use crate::a::*; pub use crate::a::X; fn f(x: X, y: Z) {} use {"),
        ];
        assert_eq!(imports(&files), [""; 0]);
    }
}
