//! Programs of the user that handle messages: a file of rules names their modules, and somebody else runs them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value as Json};
use toml::Spanned;

use crate::file::{Read, Reader};

/// A module as a file names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleFile {
    /// The file.
    pub path: PathBuf,
    /// The SHA-256 of its bytes, in hexadecimal digits; `None` if the file of rules has none yet.
    pub sha256: Option<String>,
    /// The most memory of an instance \[bytes\].
    pub memory: u64,
    /// The most instructions for a message to an agent.
    pub instructions: u64,
}

/// An agent that gets a message.
#[derive(Clone, Debug, PartialEq)]
pub struct AskedAgent {
    /// Its name.
    pub agent: String,
    /// The fields of its state that have a value.
    pub state: Map<String, Json>,
}

/// A program that says which fields of an agent a message changes.
pub trait Program: Send + Sync + fmt::Debug {
    /// Of each agent the fields that change, or the cause why it cannot tell. An answer depends on this agent and
    /// this message alone.
    fn handle(
        &self,
        message: &str,
        fields: &Map<String, Json>,
        agents: &[AskedAgent],
    ) -> Vec<Result<Map<String, Json>, String>>;
}

/// The modules that a file may name.
pub trait Modules: Send + Sync + fmt::Debug {
    /// The program that a module is.
    ///
    /// # Errors
    /// The cause why there is none, and the way out.
    fn module(&self, file: &ModuleFile) -> Result<Arc<dyn Program>, String>;
}

/// No modules: a file that names one is refused.
#[derive(Clone, Copy, Debug)]
pub struct NoModules;

impl Modules for NoModules {
    fn module(&self, _file: &ModuleFile) -> Result<Arc<dyn Program>, String> {
        Err("this program was built without WebAssembly; build it with \
             `cargo build --release -p sekisho --features wasm`"
            .to_owned())
    }
}

/// Those modules alone that rules run already: for a text of somebody who must not name files here.
#[derive(Debug)]
pub(crate) struct Running(pub(crate) Vec<(ModuleFile, Arc<dyn Program>)>);

impl Modules for Running {
    fn module(&self, file: &ModuleFile) -> Result<Arc<dyn Program>, String> {
        let known = self.0.iter().find(|(known, _)| known == file);
        known.map(|(_, program)| program.clone()).ok_or_else(|| {
            "the server does not run this module; rules are tried with modules that it runs alone".to_owned()
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModuleEntry {
    file: Spanned<String>,
    sha256: Option<Spanned<String>>,
    memory: Option<Spanned<String>>,
    instructions: Option<Spanned<u64>>,
}

/// The memory of an instance, if the file has no other \[MiB\].
const MEMORY_MIB: u64 = 16;
/// The most of it \[MiB\].
const MEMORY_MIB_MAX: u64 = 1_024;
/// The instructions for a message to an agent, if the file has no others.
const INSTRUCTIONS: u64 = 100_000_000;

/// A module of a file of rules.
#[derive(Clone, Debug)]
pub(crate) struct NamedProgram {
    pub(crate) name: String,
    pub(crate) file: ModuleFile,
    pub(crate) program: Arc<dyn Program>,
}

impl Reader<'_> {
    pub(crate) fn module(
        &self,
        name: &str,
        entry: &Spanned<ModuleEntry>,
        modules: &dyn Modules,
    ) -> Read<Arc<NamedProgram>> {
        let it = entry.get_ref();
        if it.file.get_ref().is_empty() {
            return self.wrong(it.file.span(), "a module is a file, such as \"portfolio.wasm\"");
        }
        let sha256 = match &it.sha256 {
            Some(text) => {
                let is_hash = text.get_ref().len() == 64
                    && text.get_ref().bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
                if !is_hash {
                    return self.wrong(
                        text.span(),
                        "a SHA-256 is 64 digits, 0 to 9 and a to f: as `sha256sum` prints it",
                    );
                }
                Some(text.get_ref().clone())
            }
            None => None,
        };
        let memory = match &it.memory {
            Some(text) => self.mebibytes(text)?,
            None => MEMORY_MIB << 20,
        };
        let instructions = match &it.instructions {
            Some(number) if *number.get_ref() == 0 => {
                return self.wrong(number.span(), "a module needs at least 1 instruction");
            }
            Some(number) => *number.get_ref(),
            None => INSTRUCTIONS,
        };
        let file = ModuleFile { path: it.file.get_ref().into(), sha256, memory, instructions };
        match modules.module(&file) {
            Ok(program) => Ok(Arc::new(NamedProgram { name: name.to_owned(), file, program })),
            Err(cause) => self.wrong(it.file.span(), &cause),
        }
    }

    fn mebibytes(&self, text: &Spanned<String>) -> Read<u64> {
        let number = text.get_ref().strip_suffix("MiB").and_then(|it| it.trim().parse().ok());
        match number {
            Some(number @ 1..=MEMORY_MIB_MAX) => Ok(number << 20),
            _ => self.wrong(
                text.span(),
                &format!("a size such as \"16MiB\" is wanted, 1 to {MEMORY_MIB_MAX} MiB"),
            ),
        }
    }
}
