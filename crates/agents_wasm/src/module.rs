//! A compiled module and its calls: each in a fresh instance from a pool, with limits.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use sha2::{Digest, Sha256};
use wasmtime::{
    Config, Engine, ExternType, Instance, InstanceAllocationStrategy, PoolingAllocationConfig,
    Store, StoreLimits, StoreLimitsBuilder, Trap, TypedFunc,
};

use crate::wire::{ABI, Asked, Fields, Message, answers, question};

/// Agents of a call at most.
const BATCH_MAX: usize = 256;
/// Instances of a module at once; further calls wait for one.
const INSTANCES_MAX: u32 = 16;
/// The length of an epoch.
const EPOCH: Duration = Duration::from_millis(100);
/// The most of a table's elements.
const TABLE_MAX: usize = 100_000;

/// The limits of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Memory of an instance \[bytes\].
    pub memory: u64,
    /// Fuel, about one for each instruction.
    pub fuel: u64,
    /// Time, as the last resort.
    pub time: Duration,
}

impl Default for Limits {
    /// 16 MiB, 100 million instructions, 10 s.
    fn default() -> Limits {
        Limits { memory: 16 << 20, fuel: 100_000_000, time: Duration::from_secs(10) }
    }
}

/// The cause why bytes are no handler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModuleError {
    /// The machine has no room for instances.
    #[error("{name}: no room for instances of {memory} bytes: {cause}; lower `memory`")]
    Room {
        /// The module.
        name: String,
        /// The memory of an instance \[bytes\].
        memory: u64,
        /// The cause.
        cause: String,
    },
    /// No module, or none for these limits.
    #[error(
        "{name}: {cause}; a handler is a core module, such as one for wasm32-unknown-unknown, whose memory \
         begins with at most {memory} bytes"
    )]
    Compile {
        /// The module.
        name: String,
        /// The cause.
        cause: String,
        /// The memory of an instance \[bytes\].
        memory: u64,
    },
    /// A module that imports something.
    #[error(
        "{name}: it imports `{import}`; a handler has no imports: build it for wasm32-unknown-unknown"
    )]
    Import {
        /// The module.
        name: String,
        /// The import.
        import: String,
    },
    /// A module that lacks an export, or has it with another type.
    #[error("{name}: it has no export `{export}` of the type {wanted}")]
    Export {
        /// The module.
        name: String,
        /// The export.
        export: &'static str,
        /// Its type.
        wanted: &'static str,
    },
    /// A module for another version of the interface.
    #[error("{name}: it is for version {found} of the interface; known is {ABI}")]
    Version {
        /// The module.
        name: String,
        /// Its version.
        found: i32,
    },
    /// A module that fails before it is asked.
    #[error("{name}: it fails before it is asked: {cause}")]
    Begin {
        /// The module.
        name: String,
        /// The cause.
        cause: String,
    },
}

/// A handler, compiled.
#[derive(Clone)]
pub struct Module(Arc<Inner>);

struct Inner {
    name: String,
    sha256: String,
    limits: Limits,
    engine: Engine,
    module: wasmtime::Module,
    /// Instances that can still be made.
    free: Mutex<u32>,
    freed: Condvar,
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module").field("name", &self.0.name).finish_non_exhaustive()
    }
}

/// The exports of an instance.
struct Exports {
    memory: wasmtime::Memory,
    version: TypedFunc<(), i32>,
    alloc: TypedFunc<u32, u32>,
    handle: TypedFunc<(u32, u32), u64>,
}

fn config(limits: Limits) -> Config {
    let memory = usize::try_from(limits.memory).unwrap_or(usize::MAX);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_core_instances(INSTANCES_MAX)
        .total_memories(INSTANCES_MAX)
        .total_tables(INSTANCES_MAX)
        .max_memory_size(memory)
        .table_elements(TABLE_MAX);
    let mut config = Config::new();
    config
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool))
        // The address space of an instance is its memory and no more: 16 of them fit wherever the server does.
        .memory_reservation(limits.memory)
        .memory_guard_size(64 << 10)
        .consume_fuel(true)
        .epoch_interruption(true)
        // The same bits on each machine.
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true);
    config
}

impl Module {
    /// The SHA-256 of the bytes of a module, in hexadecimal digits.
    pub fn sha256_of(bytes: &[u8]) -> String {
        Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Compiles a module, in bytes or as text (WAT); `name` is that of its file, for errors.
    ///
    /// # Errors
    /// Bytes that are no module, imports, a missing export, another version of the interface, more memory than
    /// the limit.
    pub fn compile(name: &str, bytes: &[u8], limits: Limits) -> Result<Module, ModuleError> {
        let name = name.to_owned();
        let engine = Engine::new(&config(limits)).map_err(|error| ModuleError::Room {
            name: name.clone(),
            memory: limits.memory,
            cause: told(&error),
        })?;
        let module = wasmtime::Module::new(&engine, bytes).map_err(|error| {
            ModuleError::Compile { name: name.clone(), cause: told(&error), memory: limits.memory }
        })?;
        if let Some(import) = module.imports().next() {
            let import = format!("{}.{}", import.module(), import.name());
            return Err(ModuleError::Import { name, import });
        }
        if !matches!(module.get_export("memory"), Some(ExternType::Memory(_))) {
            return Err(ModuleError::Export { name, export: "memory", wanted: "memory" });
        }
        // The thread of the epochs goes when the engine has gone.
        let weak = engine.weak();
        thread::Builder::new()
            .name("wasm-epochs".to_owned())
            .spawn(move || {
                while let Some(engine) = weak.upgrade() {
                    engine.increment_epoch();
                    drop(engine);
                    thread::sleep(EPOCH);
                }
            })
            .map_err(|error| ModuleError::Begin { name: name.clone(), cause: error.to_string() })?;
        let inner = Inner {
            sha256: Module::sha256_of(bytes),
            name: name.clone(),
            limits,
            engine,
            module,
            free: Mutex::new(INSTANCES_MAX),
            freed: Condvar::new(),
        };
        let it = Module(Arc::new(inner));
        match it.version()? {
            ABI => Ok(it),
            found => Err(ModuleError::Version { name, found }),
        }
    }

    /// The name of its file.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The SHA-256 of its bytes, in hexadecimal digits.
    pub fn sha256(&self) -> &str {
        &self.0.sha256
    }

    /// The fields that a message changes in each of these agents, or the cause why the module could not tell.
    pub fn handle(&self, message: Message<'_>, agents: &[Asked]) -> Vec<Result<Fields, String>> {
        let mut all = Vec::with_capacity(agents.len());
        for batch in agents.chunks(BATCH_MAX) {
            self.halve(message, batch, &mut all);
        }
        all
    }

    /// A batch in one call; one that fails in two halves.
    fn halve(&self, message: Message<'_>, agents: &[Asked], all: &mut Vec<Result<Fields, String>>) {
        // An agent that fails may have spoilt the memory for those behind it.
        let is_clean = |answers: &Vec<Result<Fields, String>>| answers.iter().all(Result::is_ok);
        match self.ask(message, agents) {
            Ok(answers) if agents.len() <= 1 || is_clean(&answers) => {
                all.extend(answers.into_iter().map(|it| it.map_err(|cause| self.cause(&cause))));
            }
            Err(cause) if agents.len() <= 1 => all.push(Err(self.cause(&cause))),
            Ok(_) | Err(_) => {
                let (first, second) = agents.split_at(agents.len() / 2);
                self.halve(message, first, all);
                self.halve(message, second, all);
            }
        }
    }

    fn cause(&self, cause: &str) -> String {
        format!("{}: {cause}", self.0.name)
    }

    fn ask(
        &self,
        message: Message<'_>,
        agents: &[Asked],
    ) -> Result<Vec<Result<Fields, String>>, String> {
        let question = question(message, agents);
        let length = u32::try_from(question.len())
            .map_err(|_| "the question is larger than its memory".to_owned())?;
        let _slot = self.slot();
        let (mut store, instance) = self.instance().map_err(|error| self.limit(&error))?;
        let exports = self.exports(&mut store, &instance).map_err(|error| error.to_string())?;
        let place = exports.alloc.call(&mut store, length).map_err(|error| self.limit(&error))?;
        let room = exports.memory.data_mut(&mut store).get_mut(place as usize..);
        let room = room.and_then(|room| room.get_mut(..question.len()));
        room.ok_or_else(|| format!("`alloc` gave a place beyond its memory for {length} bytes"))?
            .copy_from_slice(&question);
        let packed =
            exports.handle.call(&mut store, (place, length)).map_err(|error| self.limit(&error))?;
        let (place, length) = ((packed >> 32) as usize, (packed & 0xffff_ffff) as usize);
        let answer = exports.memory.data(&store).get(place..);
        let answer = answer.and_then(|answer| answer.get(..length));
        let answer = answer.ok_or("its answer is at a place beyond its memory")?;
        answers(answer, agents.len())
    }

    /// An error of a call in words: which limit it was.
    fn limit(&self, error: &wasmtime::Error) -> String {
        match error.downcast_ref::<Trap>() {
            Some(Trap::OutOfFuel) => {
                format!("it took more than {} instructions", self.0.limits.fuel)
            }
            Some(Trap::Interrupt) => format!("it took more than {:?}", self.0.limits.time),
            Some(trap) => format!("it trapped: {trap}"),
            None if told(error).contains("forcing trap when growing memory") => {
                format!("it wants more memory than {} bytes", self.0.limits.memory)
            }
            None => told(error),
        }
    }

    fn version(&self) -> Result<i32, ModuleError> {
        let _slot = self.slot();
        let begin =
            |error| ModuleError::Begin { name: self.0.name.clone(), cause: self.limit(&error) };
        let (mut store, instance) = self.instance().map_err(begin)?;
        let exports = self.exports(&mut store, &instance)?;
        exports.version.call(&mut store, ()).map_err(begin)
    }

    fn instance(&self) -> Result<(Store<StoreLimits>, Instance), wasmtime::Error> {
        let memory = usize::try_from(self.0.limits.memory).unwrap_or(usize::MAX);
        let limits = StoreLimitsBuilder::new().memory_size(memory).trap_on_grow_failure(true);
        let mut store = Store::new(&self.0.engine, limits.build());
        store.limiter(|limits| limits);
        store.set_fuel(self.0.limits.fuel)?;
        let epochs = self.0.limits.time.as_nanos().div_ceil(EPOCH.as_nanos()) + 1;
        store.set_epoch_deadline(u64::try_from(epochs).unwrap_or(u64::MAX));
        let instance = Instance::new(&mut store, &self.0.module, &[])?;
        Ok((store, instance))
    }

    fn exports(
        &self,
        store: &mut Store<StoreLimits>,
        instance: &Instance,
    ) -> Result<Exports, ModuleError> {
        let lacks =
            |export, wanted| ModuleError::Export { name: self.0.name.clone(), export, wanted };
        let memory = instance.get_memory(&mut *store, "memory");
        let version = instance.get_typed_func(&mut *store, "sekisho_agents_abi");
        let alloc = instance.get_typed_func(&mut *store, "alloc");
        let handle = instance.get_typed_func(&mut *store, "handle");
        Ok(Exports {
            memory: memory.ok_or_else(|| lacks("memory", "memory"))?,
            version: version.map_err(|_| lacks("sekisho_agents_abi", "() -> i32"))?,
            alloc: alloc.map_err(|_| lacks("alloc", "(i32) -> i32"))?,
            handle: handle.map_err(|_| lacks("handle", "(i32, i32) -> i64"))?,
        })
    }

    /// A place in the pool; waits for one.
    fn slot(&self) -> Slot<'_> {
        let mut free = self.0.free.lock().unwrap_or_else(PoisonError::into_inner);
        while *free == 0 {
            free = self.0.freed.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= 1;
        Slot(&self.0)
    }
}

/// A place in the pool. It is declared before the store that takes it, so that it is given back after it.
struct Slot<'a>(&'a Inner);

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

/// An error with its causes, in one line.
fn told(error: &wasmtime::Error) -> String {
    format!("{error:#}").replace('\n', " ")
}
