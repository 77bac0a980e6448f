//! Chooses the WebAssembly module of the reports' sliders that is embedded: the one that `cargo xtask web`
//! has put to `target/web-module/`, else the one that is kept with the code, `web/sekisho.wasm`.
//!
//! A module of other sources than those that are there is not embedded: its numbers might be others
//! than those of the command beside it. `SEKISHO_WEB_MODULE` names a module instead, for whoever builds
//! packages; that one must exist, and its sources are not looked at.

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
        None => match fresh().or_else(kept) {
            Some(module) => (Some(module), ""),
            None => (None, "was changed after the module that answers them was built"),
        },
    };
    println!("cargo::rustc-env=SEKISHO_WEB_NONE={why_none}");
    if let Some(path) = module {
        println!("cargo::rustc-env=SEKISHO_WEB_PATH={}", path.display());
        println!("cargo::rustc-cfg=web_module");
    }
}

/// The module in the folder that cargo builds into, unless one of its sources is newer.
fn fresh() -> Option<PathBuf> {
    let folder = target_folder()?.join("web-module");
    // Watched as a folder, which therefore must exist: a file that is missing would count as changed
    // at every build.
    fs::create_dir_all(&folder).ok();
    println!("cargo::rerun-if-changed={}", folder.display());
    let module = folder.join("sekisho.wasm");
    let list = fs::read_to_string(folder.join("sekisho.d")).ok()?;
    let sources = sources(&list);
    for source in sources.iter().filter(|source| source.is_file()) {
        println!("cargo::rerun-if-changed={}", source.display());
    }
    let is_fresh = module.is_file() && !sources.iter().any(|source| is_newer(source, &module));
    is_fresh.then_some(module)
}

/// The module that is kept with the code, if it was made of the sources that are there.
fn kept() -> Option<PathBuf> {
    let folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?);
    let root = folder.ancestors().nth(2)?;
    let list = folder.join("web/made-of.txt");
    println!("cargo::rerun-if-changed={}", folder.join("web").display());
    let text = fs::read_to_string(list).ok()?;
    let (mut wanted, mut sum) = (None, 0xcbf2_9ce4_8422_2325);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(checksum) = line.strip_prefix("sources ") {
            wanted = u64::from_str_radix(checksum, 16).ok();
        } else if !line.starts_with("compiler ") && !line.starts_with("module ") {
            let source = root.join(line);
            println!("cargo::rerun-if-changed={}", source.display());
            sum = fnv_1a(fnv_1a(sum, line.as_bytes()), &fs::read(source).ok()?);
        }
    }
    (wanted == Some(sum)).then(|| folder.join("web/sekisho.wasm"))
}

/// The checksum goes on with these bytes and a zero, as `cargo xtask web` has computed it.
fn fnv_1a(sum: u64, bytes: &[u8]) -> u64 {
    let bytes = bytes.iter().chain(b"\0");
    bytes.fold(sum, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
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
