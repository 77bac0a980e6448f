//! The WebAssembly module of the reports' sliders: built by cargo, put where the build of `sekisho`
//! looks for it. A report of a `sekisho` that was built without it says that it has no sliders.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::exec;

/// The compiler's name of a browser.
pub(crate) const TARGET: &str = "wasm32-unknown-unknown";
/// A report must stay a file that one sends by mail.
const BYTES_MAX: usize = 2_000_000;

/// Builds the module and puts it to `target/web-module/`, with the list of the sources that it was made of.
///
/// # Errors
/// The standard library for the browser is missing and cannot be installed, the module does not
/// build, or it is too large.
pub(crate) fn build(root: &Path) -> Result<(), String> {
    add_target(root)?;
    let args = ["rustc", "-p", "web", "--crate-type", "cdylib", "--target", TARGET];
    let mut command = exec::cargo(root, &args);
    command.args(["--profile", "web"]);
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
    Ok(())
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
    let sources = list.split_once(": ").map_or("", |(_, sources)| sources);
    // A space inside a path is written with a backslash before it.
    let sources = sources.trim_end().replace("\\ ", "\u{0}");
    sources.split(' ').any(|source| {
        time(Path::new(&source.replace('\u{0}', " "))).is_none_or(|changed| changed > made)
    })
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
