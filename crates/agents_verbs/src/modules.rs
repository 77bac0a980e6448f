//! Programs that are WebAssembly modules in files of this machine.

use std::fs::File;
use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use agents_rules::{AskedAgent, ModuleFile, Modules, Program};
use agents_wasm::{Asked, Fields, Limits, Message, Module};

/// Most bytes of a module.
const BYTES_MAX: u64 = 64 << 20;

/// Modules in files; one that runs is not compiled again.
#[derive(Debug, Default)]
pub(crate) struct ModuleFiles(Mutex<Vec<(ModuleFile, Weak<dyn Program>)>>);

/// A module as a program.
#[derive(Debug)]
struct Compiled(Module);

impl Program for Compiled {
    fn handle(
        &self,
        message: &str,
        fields: &Fields,
        agents: &[AskedAgent],
    ) -> Vec<Result<Fields, String>> {
        let agents = agents.iter().cloned();
        let agents: Vec<Asked> =
            agents.map(|AskedAgent { agent, state }| Asked { agent, state }).collect();
        self.0.handle(Message { name: message, fields }, &agents)
    }
}

impl Modules for ModuleFiles {
    fn module(&self, file: &ModuleFile) -> Result<Arc<dyn Program>, String> {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|(_, program)| program.strong_count() > 0);
        let known = running.iter().find(|(known, _)| known == file);
        if let Some(program) = known.and_then(|(_, program)| program.upgrade()) {
            return Ok(program);
        }
        let name = file.path.display().to_string();
        let bytes = bytes(file)?;
        let found = Module::sha256_of(&bytes);
        match &file.sha256 {
            Some(wanted) if *wanted == found => {}
            Some(wanted) => {
                return Err(format!(
                    "{name} is another module than the one that the rules are for: its SHA-256 is {found}, and \
                     {wanted} stands here"
                ));
            }
            // Kept messages are handled anew by the text of the rules of then: it must say which bytes these were.
            None => {
                return Err(format!(
                    "a module is known by its bytes: add `sha256 = \"{found}\"`, which is that of {name} as it is"
                ));
            }
        }
        let limits = Limits { memory: file.memory, fuel: file.instructions, ..Limits::default() };
        let module = Module::compile(&name, &bytes, limits).map_err(|error| error.to_string())?;
        let program: Arc<dyn Program> = Arc::new(Compiled(module));
        running.push((file.clone(), Arc::downgrade(&program)));
        Ok(program)
    }
}

fn bytes(file: &ModuleFile) -> Result<Vec<u8>, String> {
    let name = file.path.display();
    let wrong = |error: std::io::Error| format!("cannot read the module {name}: {error}");
    let mut bytes = Vec::new();
    let opened = File::open(&file.path).map_err(wrong)?;
    opened.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(wrong)?;
    match bytes.len() as u64 > BYTES_MAX {
        true => Err(format!("the module {name} has more than {} MiB", BYTES_MAX >> 20)),
        false => Ok(bytes),
    }
}
