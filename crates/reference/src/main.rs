//! Writes the schemas and references into `docs/`.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for document in reference::documents() {
        let path = root.join(&document.path);
        let folder = path.parent().expect("every document lies in a folder");
        let written =
            std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, document.text));
        if let Err(error) = written {
            // No logger: this runs for one person, at a terminal.
            #[allow(clippy::print_stderr)]
            {
                eprintln!("cannot write {}: {error}", path.display());
            }
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
