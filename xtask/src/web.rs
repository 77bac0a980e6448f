//! The WebAssembly module of the reports' sliders: built by cargo, and kept with the code, so that a
//! plain `cargo build` embeds it. The same compiler makes the same bytes of it in any folder.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::exec;

/// The compiler's name of a browser.
pub(crate) const TARGET: &str = "wasm32-unknown-unknown";
/// A report must stay a file that one sends by mail.
const BYTES_MAX: usize = 2_000_000;

/// The module that is kept with the code.
const KEPT: &str = "crates/report/web/sekisho.wasm";
/// The compiler and the sources that it was made of; the build of `sekisho` reads this too.
const MADE_OF: &str = "crates/report/web/made-of.txt";

/// Builds the module, for the tests and to be kept with the code.
///
/// # Errors
/// As for [`fresh`], or a file cannot be written.
pub(crate) fn build(root: &Path) -> Result<(), String> {
    let (module, made_of) = fresh(root)?;
    let same = fs::read(root.join(KEPT)).is_ok_and(|kept| kept == module)
        && fs::read(root.join(MADE_OF)).is_ok_and(|kept| kept == made_of.as_bytes());
    if !same {
        let folder = root.join(KEPT);
        let write = || {
            fs::create_dir_all(folder.parent().expect("a file in a folder"))?;
            fs::write(root.join(KEPT), &module)?;
            fs::write(root.join(MADE_OF), &made_of)
        };
        write().map_err(|error: std::io::Error| format!("{KEPT}: cannot be written: {error}"))?;
        println!("{KEPT} and {MADE_OF} are new: commit them with what has changed them");
    }
    Ok(())
}

/// Builds the module for the tests, and compares it with the one that is kept, which must be of the same
/// sources, and of the same bytes where the compiler is the same.
///
/// # Errors
/// As for [`fresh`], or the kept module is another one.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let (module, made_of) = fresh(root)?;
    let kept = fs::read(root.join(KEPT)).unwrap_or_default();
    let kept_of = fs::read_to_string(root.join(MADE_OF)).unwrap_or_default();
    println!("{}", compare((&module, &made_of), (&kept, &kept_of))?);
    Ok(())
}

/// Compares a module and what it was made of with those that are kept; what is to be said of them.
fn compare(fresh: (&[u8], &str), kept: (&[u8], &str)) -> Result<String, String> {
    let way_out = "way out: cargo xtask web, and commit what it writes";
    let fact = |text: &str, name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("none").trim().to_owned()
    };
    let of = |name: &str| (fact(fresh.1, name), fact(kept.1, name));
    if fact(kept.1, "module ") != Checksum::of(kept.0) {
        return Err(format!("{KEPT} is not the module that {MADE_OF} tells of\n    {way_out}"));
    }
    let (sources, kept_sources) = of("sources ");
    if sources != kept_sources {
        return Err(format!("{KEPT} is of older sources\n    {way_out}"));
    }
    let (compiler, kept_compiler) = of("compiler ");
    if compiler != kept_compiler {
        return Ok(format!(
            "{KEPT} is of {kept_compiler}, and this is {compiler}: its bytes were not compared"
        ));
    }
    if fresh.0 != kept.0 {
        return Err(format!("{KEPT} has other bytes than its sources give\n    {way_out}"));
    }
    Ok(format!("{KEPT} has the bytes that its sources give"))
}

/// Builds the module and puts it to `target/web-module/`, with the list of the sources that it was made
/// of; the module, and the text that says what it was made of.
///
/// # Errors
/// The standard library for the browser is missing and cannot be installed, the module does not
/// build, or it is too large.
fn fresh(root: &Path) -> Result<(Vec<u8>, String), String> {
    add_target(root)?;
    let args = ["rustc", "-p", "web", "--crate-type", "cdylib", "--target", TARGET];
    let mut command = exec::cargo(root, &args);
    command.args(["--profile", "web"]);
    command.env("CARGO_ENCODED_RUSTFLAGS", without_folders(root)).env_remove("RUSTFLAGS");
    exec::listen(&mut command, exec::SILENCE_MAX, &mut |line| println!("{line}"))?;
    let target = target_folder(root)?;
    let built = target.join(TARGET).join("web");
    let module = read(&built.join("web.wasm"))?;
    if module.len() > BYTES_MAX {
        return Err(format!(
            "the module has {} bytes, more than {BYTES_MAX}: look for what made it grow",
            module.len()
        ));
    }
    let sources = read(&built.join("web.d"))?;
    put(&target.join("web-module"), &module, &sources)?;
    println!("the module of the sliders: {} bytes", module.len());
    let made_of = made_of(root, &module, &String::from_utf8_lossy(&sources))?;
    Ok((module, made_of))
}

/// The flags that make the compiler name files alike wherever they lie.
fn without_folders(root: &Path) -> String {
    let home = env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")));
    let of = |folder: &Path, name: &str| format!("--remap-path-prefix={}={name}", folder.display());
    let flags = home.iter().map(|home| of(home, "cargo")).chain([of(root, "sekisho")]);
    flags.collect::<Vec<_>>().join("\u{1f}")
}

/// The text that is kept beside the module: the compiler, checksums of module and sources, and the
/// paths of these.
fn made_of(root: &Path, module: &[u8], list: &str) -> Result<String, String> {
    let mut rustc = Command::new("rustc");
    exec::clean(rustc.arg("--version"), root);
    let compiler = exec::output_of(&mut rustc)?;
    let mut paths = Vec::new();
    for source in sources(list) {
        let path = source.strip_prefix(root).map_err(|_| {
            format!("{} is a source of the module, but not in the repository", source.display())
        })?;
        paths.push(path.to_string_lossy().replace('\\', "/"));
    }
    paths.sort();
    let mut sum = Checksum::default();
    for path in &paths {
        sum.add(path.as_bytes());
        sum.add(&read(&root.join(path))?);
    }
    Ok(format!(
        "# Written by `cargo xtask web`: what the module beside this was made of.\n\
         compiler {}\nmodule {}\nsources {:016x}\n{}\n",
        compiler.trim(),
        Checksum::of(module),
        sum.0,
        paths.join("\n")
    ))
}

/// FNV-1a of 64 bits, which the build of `sekisho` computes too: it tells versions apart, no more.
struct Checksum(u64);

impl Default for Checksum {
    fn default() -> Checksum {
        Checksum(0xcbf2_9ce4_8422_2325)
    }
}

impl Checksum {
    /// The checksum of some bytes, as text.
    fn of(bytes: &[u8]) -> String {
        let mut sum = Checksum::default();
        sum.add(bytes);
        format!("{:016x}", sum.0)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(b"\0") {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Puts the module where it is looked for. The same module is put again only when a source is newer:
/// whoever embeds it is built again each time that it changes.
fn put(folder: &Path, module: &[u8], sources: &[u8]) -> Result<(), String> {
    let (to, list) = (folder.join("sekisho.wasm"), folder.join("sekisho.d"));
    let same = fs::read(&to).is_ok_and(|old| old == module)
        && fs::read(&list).is_ok_and(|old| old == sources);
    if same && !is_older_than_a_source(&to, &String::from_utf8_lossy(sources)) {
        return Ok(());
    }
    let write = || {
        fs::create_dir_all(folder)?;
        fs::write(&list, sources)?;
        // Renamed into place: nobody ever reads half a module.
        let half = folder.join("sekisho.wasm.new");
        fs::write(&half, module)?;
        fs::rename(half, &to)
    };
    write().map_err(|error: std::io::Error| format!("{}: cannot be written: {error}", to.display()))
}

/// Is a file older than one of the sources in the list `target: source source ...` that cargo writes?
fn is_older_than_a_source(file: &Path, list: &str) -> bool {
    let time = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    let Some(made) = time(file) else { return true };
    sources(list).iter().any(|source| time(source).is_none_or(|changed| changed > made))
}

/// The sources in a list `target: source source ...`; a space inside a path has a backslash before it.
fn sources(list: &str) -> Vec<PathBuf> {
    let sources = list.split_once(": ").map_or("", |(_, sources)| sources);
    let sources = sources.trim_end().replace("\\ ", "\u{0}");
    sources.split(' ').map(|source| PathBuf::from(source.replace('\u{0}', " "))).collect()
}

fn target_folder(root: &Path) -> Result<PathBuf, String> {
    let args = ["metadata", "--format-version", "1", "--no-deps", "--offline"];
    let text = exec::output_of(&mut exec::cargo(root, &args))?;
    let metadata: Value =
        serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))?;
    let folder = metadata.get("target_directory").and_then(Value::as_str);
    folder.map(PathBuf::from).ok_or_else(|| "cargo metadata: no `target_directory`".to_owned())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: cannot be read: {error}", path.display()))
}

/// Makes sure that the compiler can build for the browser.
fn add_target(root: &Path) -> Result<(), String> {
    let mut rustc = Command::new("rustc");
    exec::clean(rustc.args(["--print", "sysroot"]), root);
    let sysroot = exec::output_of(&mut rustc)?;
    if Path::new(sysroot.trim()).join("lib/rustlib").join(TARGET).is_dir() {
        return Ok(());
    }
    let mut rustup = Command::new("rustup");
    exec::clean(rustup.args(["target", "add", TARGET]), root);
    exec::listen(&mut rustup, exec::SILENCE_MAX, &mut |line| println!("{line}")).map_err(|error| {
        format!(
            "the standard library for {TARGET} is missing and cannot be installed: {error}\n\
                 way out: with rustup, `rustup target add {TARGET}`; else install the package of \
                 your system that holds it"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn the_kept_module_is_of_these_sources_and_this_compiler() {
        let text = |module: &[u8], compiler: u8, sources: u8| {
            let sum = Checksum::of(module);
            format!("# Why.\ncompiler rustc {compiler}\nmodule {sum}\nsources {sources}\na.rs\n")
        };
        let (one, other) = (text(b"one", 1, 1), text(b"two", 2, 1));
        let (one, other) = ((&b"one"[..], &*one), (&b"two"[..], &*other));
        assert!(compare(one, one).unwrap().contains("has the bytes"));
        let said = compare(one, other).unwrap();
        assert!(said.contains("is of rustc 2, and this is rustc 1"), "{said}");
        let bytes = (&b"two"[..], &*text(b"two", 1, 1));
        assert!(compare(one, bytes).unwrap_err().contains("other bytes"));
        let older = compare(one, (b"one", &text(b"one", 1, 2)));
        assert!(older.unwrap_err().contains("older sources"));
        for kept in [(&b"two"[..], one.1), (b"", "")] {
            assert!(compare(one, kept).unwrap_err().contains("is not the module"));
        }
    }

    #[test]
    fn the_checksum_is_fnv_1a() {
        // Of a single zero byte, by the constants of its authors.
        let mut sum = Checksum::default();
        sum.add(b"");
        assert_eq!(sum.0, 0xaf63_bd4c_8601_b7df);
        let mut other = Checksum::default();
        other.add(b"a");
        assert_ne!(other.0, sum.0);
    }

    #[test]
    fn a_module_is_put_again_only_when_it_or_a_source_changed() {
        let folder = std::env::temp_dir().join(format!("sekisho xtask web {}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let source = folder.join("lib.rs");
        fs::write(&source, "old").unwrap();
        let list = format!("web.wasm: {}\n", source.display().to_string().replace(' ', "\\ "));
        let module = folder.join("sekisho.wasm");
        let second = std::time::Duration::from_secs(1);
        let age = |path: &Path, seconds: u32| {
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_modified(SystemTime::now() - second * seconds).unwrap();
        };
        age(&source, 900);
        let made = || fs::metadata(&module).unwrap().modified().unwrap();

        put(&folder, b"one", list.as_bytes()).unwrap();
        age(&module, 600);
        let first = made();
        put(&folder, b"one", list.as_bytes()).unwrap();
        assert_eq!(made(), first, "nothing changed");
        age(&source, 300);
        put(&folder, b"one", list.as_bytes()).unwrap();
        assert!(made() > first, "a source changed, though the module did not");
        age(&module, 200);
        let again = made();
        put(&folder, b"two", list.as_bytes()).unwrap();
        assert!(made() > again && fs::read(&module).unwrap() == b"two");
        fs::remove_file(&source).unwrap();
        assert!(is_older_than_a_source(&module, &list), "a source is gone");
        fs::remove_dir_all(&folder).unwrap();
    }
}
