//! The readers of the files as one: what a text means, or why it means nothing.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use gatefile::Files;
use pgwire::secrets::MockKey;
use reference::File;
use serde_json::Value;

/// A machine on which every file stands and is empty, and every host has an address.
struct Machine;

impl Files for Machine {
    fn text(&self, _: &Path) -> Result<String, String> {
        Ok(String::new())
    }

    fn stands(&self, _: &Path) -> Result<(), String> {
        Ok(())
    }

    fn address(&self, host: &str, port: u16) -> Result<SocketAddr, String> {
        Ok(SocketAddr::new(host.parse().unwrap_or([10, 0, 0, 9].into()), port))
    }
}

/// What a file means, as a text that differs where the meaning does; `folder` is where it lies.
///
/// # Errors
/// As its reader says.
pub(crate) fn meaning(file: File, text: &str, folder: &Path) -> Result<String, String> {
    match file {
        File::Scenario => {
            let path = folder.join("s.toml");
            let beside = formats::scenario_file::beside(&path);
            let scenario = formats::scenario_file::parse("s.toml", text, beside)?;
            let network = scenario.network().map_err(|error| error.to_string())?;
            Ok(format!("{network:?}"))
        }
        File::GateHttp => {
            let read = gatefile::read_http("g.toml", text, &Machine);
            let read = read.map_err(|error| error.to_string())?;
            let config = gatefile::to_httpgate(&read, &Machine);
            config.map(|config| format!("{config:?}")).map_err(|error| error.to_string())
        }
        File::GatePostgres => {
            let read = gatefile::read("g.toml", text, &Machine);
            let read =
                read.and_then(gatefile::Loaded::to_run).map_err(|error| error.to_string())?;
            // The gate itself would read certificates, which lie nowhere.
            let tls = &read.0.tls;
            if [&tls.clients.cert, &tls.servers.ca].into_iter().any(Option::is_some) {
                return Ok(format!("{read:?}"));
            }
            let config = gatefile::to_monitor(&read.0, &Machine, &MockKey::new([7; 32]));
            config.map(|config| format!("{config:?}")).map_err(|error| error.to_string())
        }
        File::Documents => {
            let path = written(text);
            let read = formats::document_file::read_documents(&path);
            let read = read.map_err(|error| error.to_string())?;
            let document = |one: formats::document_file::FiledDocument| workload::Document {
                name: one.name,
                bytes: one.bytes,
                weight: one.weight,
            };
            let set = workload::DocumentSet::new(read.into_iter().map(document).collect());
            set.map(|set| format!("{set:?}")).map_err(|error| error.to_string())
        }
        File::Requests => {
            // Bodies lie beside it.
            let path = written(text);
            for body in ["body.bin", "order.json"] {
                fs::write(path.with_file_name(body), "body").expect("it can be written");
            }
            let read = formats::request_file::read_requests(&path);
            let read = read.map_err(|error| error.to_string())?;
            // The line is no part of the meaning.
            let all = read.into_iter().map(|one| {
                let formats::request_file::FiledRequest { line: _, .. } = one;
                format!("{:?}", formats::request_file::FiledRequest { line: 0, ..one })
            });
            Ok(all.collect())
        }
    }
}

/// The text in a file of the thread's own.
fn written(text: &str) -> std::path::PathBuf {
    let name = format!("{:?}", std::thread::current().id());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reference");
    let folder = folder.join(name.replace(['(', ')'], "-"));
    fs::create_dir_all(&folder).expect("a folder for the test");
    let path = folder.join("f.toml");
    fs::write(&path, text).expect("it can be written");
    path
}

/// The text of a file with these values.
pub(crate) fn text_of(value: &Value) -> String {
    toml::to_string(value).expect("values of TOML")
}

/// True if a reader's message is about the shape of a file, which its schema knows too: a key that is
/// unknown or missing, a value of another type.
pub(crate) fn is_about_shape(message: &str) -> bool {
    [
        "unknown key `",
        "unknown name `",
        ", expected ",
        "` is missing",
        " is not a time",
        " is not a rate",
        " is not a size",
    ]
    .iter()
    .any(|words| message.contains(words))
}
