//! Looks for the WebAssembly module of the reports' sliders, which `cargo xtask web` puts to
//! `target/web-module/sekisho.wasm`, and tells the report whether there is one to embed.
//!
//! A module that is older than one of the sources that it was made of is not embedded: its numbers
//! might be others than those of the command beside it. `SEKISHO_WEB_MODULE` names a module instead,
//! for whoever builds packages; that one must exist, and its age is not looked at.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// Names a module to embed.
const VARIABLE: &str = "SEKISHO_WEB_MODULE";

fn main() {
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(web_module)");
    let (module, why_none) = match env::var_os(VARIABLE) {
        Some(named) => {
            let path = PathBuf::from(named);
            println!("cargo::rerun-if-changed={}", path.display());
            assert!(path.is_file(), "{VARIABLE} names {}, which is no file", path.display());
            (Some(path), "")
        }
        None => find(),
    };
    println!("cargo::rustc-env=SEKISHO_WEB_NONE={why_none}");
    if let Some(path) = module {
        println!("cargo::rustc-env=SEKISHO_WEB_PATH={}", path.display());
        println!("cargo::rustc-cfg=web_module");
    }
}

/// The module in the folder that cargo builds into, or why there is none to embed.
fn find() -> (Option<PathBuf>, &'static str) {
    let Some(target) = target_folder() else {
        return (None, "was built without the module that answers them");
    };
    let folder = target.join("web-module");
    // Watched as a folder, which therefore must exist: a file that is missing would count as changed
    // at every build.
    fs::create_dir_all(&folder).ok();
    println!("cargo::rerun-if-changed={}", folder.display());
    let module = folder.join("sekisho.wasm");
    let Ok(list) = fs::read_to_string(folder.join("sekisho.d")) else {
        return (None, "was built without the module that answers them");
    };
    let sources = sources(&list);
    for source in sources.iter().filter(|source| source.is_file()) {
        println!("cargo::rerun-if-changed={}", source.display());
    }
    if !module.is_file() {
        return (None, "was built without the module that answers them");
    }
    if sources.iter().any(|source| is_newer(source, &module)) {
        return (None, "was changed after the module that answers them was built");
    }
    (Some(module), "")
}

/// The folder that cargo builds into: `OUT_DIR` is `target/[TRIPLE/]PROFILE/build/NAME/out` in it.
fn target_folder() -> Option<PathBuf> {
    let out = PathBuf::from(env::var_os("OUT_DIR")?);
    let above_profile = out.ancestors().nth(4)?;
    let triple = env::var_os("TARGET")?;
    let is_triple = above_profile.file_name() == Some(&triple);
    let target = if is_triple { above_profile.parent()? } else { above_profile };
    Some(target.to_path_buf())
}

/// The sources in a list `target: source source ...`; a space inside a path has a backslash before it.
fn sources(list: &str) -> Vec<PathBuf> {
    let list = list.split_once(": ").map_or("", |(_, sources)| sources).trim_end();
    let list = list.replace("\\ ", "\u{0}");
    list.split(' ').map(|source| PathBuf::from(source.replace('\u{0}', " "))).collect()
}

/// A source that is gone counts as changed.
fn is_newer(source: &Path, module: &Path) -> bool {
    let time = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    match (time(source), time(module)) {
        (Some(source), Some(module)) => source > module,
        _ => true,
    }
}
