//! The server as a whole: what it is made of, how it starts, and how it ends.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Seek, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use access::AccessError;
use agents::{Audience, Envelope, PartitionSpec, Priority, Seq};
use agents_rules::{Delivered, Message, Rules};
use agents_store::Store;
use load::Reach;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, mpsc, watch};

use crate::answer::ReloadAnswer;
use crate::delivery::{Board, Means, Outlet, ToDeliver, dispatch};
use crate::figures::Figures;
use crate::http::{self, Gateway};
use crate::kept::Shelf;
use crate::mail::Mail;
use crate::partition::{self, Handle, Shared};
use crate::reload::{Reload, RulesFile, TEXT_MAX, Wish};
use crate::retention::Retention;
use crate::signature::Secret;
use crate::source::{Source, SourceSpec};
use crate::table::{Polled, PolledError, TableSource};
use crate::users::Users;
use crate::webhook::Target;

/// Who may come, and how what is said is kept from others. By default everybody on this machine.
pub type Access = access::Access<Users>;

/// The parameters of a server.
#[derive(Clone, Debug)]
pub struct ServerSpec {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Number of partitions, at least 1. A store keeps the number that it began with.
    pub partitions: u32,
    /// Memory of states and messages \[bytes\], at least 16 MiB.
    pub memory: u64,
    /// Those who may come; without users only loopback is listened on.
    pub access: Access,
    /// True if every destination may lead to a public address.
    pub public: bool,
    /// The directory of what destinations did not take; `None` for memory.
    pub directory: Option<PathBuf>,
    /// Files whose lines are messages.
    pub sources: Vec<SourceSpec>,
    /// Tables whose rows are messages.
    pub tables: Vec<TableSource>,
    /// The file that the rules came from, if they can be read from it again.
    pub rules_file: Option<RulesFile>,
    /// Time for which messages are kept for questions about the past.
    pub keep: Duration,
    /// Most bytes of them, by estimate; beyond it the oldest are forgotten earlier, once their ids are
    /// \[B\].
    pub keep_bytes: u64,
    /// Time that is left for what is under way when the server ends.
    pub drain: Duration,
}

/// The cause why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Others would reach it, without users or TLS, or the certificate cannot be used.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The address is not to be had.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// A number is out of its range.
    #[error("{0}")]
    Range(&'static str),
    /// A destination cannot be reached as the file says.
    #[error("destination `{name}`: {cause}")]
    Destination {
        /// Its name.
        name: String,
        /// The cause and the way out.
        cause: String,
    },
    /// A source names a message that the rules do not have, or a table cannot be read as one.
    #[error("source {file}: {cause}")]
    Source {
        /// Its file or its table.
        file: String,
        /// The cause and the nearest right spelling.
        cause: String,
    },
    /// A partition cannot be taken over.
    #[error("partition {partition}: {cause}")]
    Partition {
        /// Its number.
        partition: u32,
        /// The cause.
        cause: String,
    },
    /// The store has another number of partitions.
    #[error(
        "the store has {found} partitions, not {asked}: leave `--partitions` out, or say {found}"
    )]
    Partitions {
        /// The number in the store.
        found: u32,
        /// The number that was asked for.
        asked: u32,
    },
    /// What is kept on disk cannot be read or written.
    #[error("{0}")]
    Disk(io::Error),
    /// No thread, or no runtime.
    #[error("the system gives no threads: {0}")]
    Threads(io::Error),
}

/// The numbers of a server that has ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ended {
    /// Deliveries of messages that agents have handled.
    pub handled: u64,
    /// Notifications that arrived.
    pub notified: u64,
    /// Notifications that are kept because a destination did not take them.
    pub kept: u64,
    /// Notifications that wait for digests.
    pub gathered: u64,
    /// True if everything that was accepted had been handled.
    pub is_drained: bool,
    /// True if another owner had taken a partition over.
    pub was_superseded: bool,
}

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    runtime: Option<Runtime>,
    address: SocketAddr,
    gateway: Arc<Gateway>,
    closing: watch::Sender<bool>,
    drain: Duration,
}

impl Server {
    /// Starts a server over a store.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(
        spec: &ServerSpec,
        rules: Arc<Rules>,
        store: Arc<dyn Store<Message>>,
    ) -> Result<Server, StartError> {
        if spec.partitions == 0 {
            return Err(StartError::Range("a server has at least 1 partition"));
        }
        if spec.memory < 16 << 20 {
            return Err(StartError::Range("a server needs at least 16 MiB of memory"));
        }
        let acceptor = spec.access.check(spec.listen)?;
        if rules.text_bytes() as u64 > TEXT_MAX {
            let cause = "rules of a server have at most 1 MiB, since each change of them is kept";
            return Err(StartError::Range(cause));
        }
        let start = Start::of(spec);
        let outlets = start.check(&rules)?;
        prepare(&outlets)?;
        let tables = tables(spec, &rules)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(StartError::Threads)?;
        let listener = runtime
            .block_on(TcpListener::bind(spec.listen))
            .map_err(|error| StartError::Listen(spec.listen, error))?;
        let address =
            listener.local_addr().map_err(|error| StartError::Listen(spec.listen, error))?;
        let shelf = Shelf::open(spec.directory.as_deref()).map_err(StartError::Disk)?;
        let board = Arc::new(Board::start(shelf).map_err(StartError::Threads)?);
        let (parcels, received) = mpsc::unbounded_channel();
        // The first that it hears: a partition may have notifications from before.
        parcels.send(ToDeliver::Routes(rules.clone(), outlets)).ok();
        let partitions = open(spec, &rules, &store, parcels.clone())?;
        runtime.spawn(dispatch(received, board.clone()));
        let gateway = Arc::new(Gateway {
            rules: RwLock::new(rules),
            store,
            partitions,
            board,
            users: spec.access.users.clone(),
            bodies: Arc::new(Semaphore::new(permits(spec.memory))),
            is_closing: AtomicBool::new(false),
            started: Instant::now(),
            memory: spec.memory,
            figures: Figures::default(),
            questions: Semaphore::new(1),
            parcels,
            reload: Reload::new(start),
            directory: spec.directory.clone(),
            backups: Arc::new(Semaphore::new(1)),
        });
        runtime.block_on(follow(&gateway))?;
        for source in &spec.sources {
            let source = Source::open(source.clone(), spec.directory.as_deref());
            runtime.spawn(source.map_err(StartError::Disk)?.run(gateway.clone()));
        }
        for table in tables {
            runtime.spawn(table.run(gateway.clone()));
        }
        let every = FORGET_EVERY.min(spec.keep).max(Duration::from_millis(100));
        runtime.spawn(forget(gateway.clone(), every));
        let (closing, closed) = watch::channel(false);
        runtime.spawn(http::serve(listener, gateway.clone(), acceptor, closed));
        Ok(Server { runtime: Some(runtime), address, gateway, closing, drain: spec.drain })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Number of lines of sources that are no messages, and the cause of the last.
    pub fn lines_refused(&self) -> (u64, Option<String>) {
        self.gateway.figures.lines_refused()
    }

    /// Begins to read the rules anew, after a change that is under way; the receiver gets the end, and an error
    /// says whether anything has changed.
    pub fn reload(&self) -> Receiver<Result<ReloadAnswer, String>> {
        let (told, end) = channel();
        let gateway = self.gateway.clone();
        if let Some(runtime) = &self.runtime {
            runtime.spawn(async move {
                let end = gateway.reload(Wish::InTurn).await.map_err(|refused| refused.cause);
                // Whoever asked may have ended.
                told.send(end).ok();
            });
        }
        end
    }

    /// True if another owner has taken a partition over, so that this server is of no use any more.
    pub fn is_superseded(&self) -> bool {
        self.gateway.partitions.iter().any(|it| it.shown.stopped.load(Ordering::Relaxed))
    }

    /// Takes nothing new, does what was accepted, and ends.
    pub fn end(mut self) -> Ended {
        self.gateway.is_closing.store(true, Ordering::Relaxed);
        self.closing.send(true).ok();
        let until = Instant::now() + self.drain;
        // Seen once: what a timer or a digest begins afterwards was not accepted before the end, and is kept.
        let is_drained = loop {
            if self.is_done() {
                break true;
            }
            if self.is_superseded() || Instant::now() >= until {
                break false;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let gateway = &self.gateway;
        let handled = gateway.partitions.iter().map(|it| it.shown.figures().counts.handled).sum();
        let kept = gateway.board.shelf().counts();
        let ended = Ended {
            handled,
            notified: gateway.board.delivered.load(Ordering::Relaxed),
            kept: (kept.waiting + kept.dead) as u64,
            gathered: kept.gathered as u64,
            is_drained,
            was_superseded: self.is_superseded(),
        };
        self.stop();
        ended
    }

    fn is_done(&self) -> bool {
        let is_idle = |it: &Handle| it.shown.figures().is_idle;
        self.gateway.partitions.iter().all(is_idle)
            && self.gateway.board.in_flight.load(Ordering::Relaxed) == 0
            && self.gateway.figures.open.load(Ordering::Relaxed) == 0
    }

    fn stop(&mut self) {
        self.gateway.partitions.iter().for_each(Handle::end);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Destinations of a file as they are reached.
fn outlets(rules: &Rules, public: bool) -> Result<Vec<Outlet>, StartError> {
    let each = rules.destinations().iter().map(|of| {
        let wrong = |cause: String| StartError::Destination { name: of.name.clone(), cause };
        let means = match &of.to {
            Delivered::Log(path) => {
                if let Some(path) = path {
                    let unwritten = |error| wrong(unwritten(path, &error));
                    check_log(path).map_err(unwritten)?;
                }
                Means::Log(path.clone())
            }
            Delivered::Webhook(webhook) => {
                let reach = if webhook.public || public { Reach::Anywhere } else { Reach::Private };
                let secret = secret(&webhook.secret_env, &webhook.secret_file).map_err(&wrong)?;
                let secret = secret.map(|(place, text)| {
                    Secret::read(&text).map_err(|error| wrong(format!("{place}: {error}")))
                });
                let target = Target::read(&webhook.url, reach, secret.transpose()?);
                let target = target.map_err(&wrong)?;
                reached(target.check()).map_err(wrong)?;
                Means::Webhook(Box::new(target))
            }
            Delivered::Email(email) => {
                let reach = if email.public || public { Reach::Anywhere } else { Reach::Private };
                let secret = secret(&email.secret_env, &email.secret_file).map_err(&wrong)?;
                // A file of a password ends as lines do.
                let password =
                    secret.map(|(_, text)| text.trim_end_matches(['\r', '\n']).to_owned());
                let mail = Mail::new(email, reach, password).map_err(&wrong)?;
                reached(mail.check()).map_err(wrong)?;
                Means::Mail(Box::new(mail))
            }
        };
        Ok(Outlet {
            name: of.name.clone(),
            means,
            slots: of.slots as usize,
            timeout: of.timeout,
            give_up: of.give_up,
            digest: of.digest.clone(),
        })
    });
    each.collect()
}

/// An error for a public address that nobody permitted. What is not known yet is asked again before each
/// connection.
fn reached(checked: Result<(), load::ReachError>) -> Result<(), String> {
    match checked {
        Err(error @ load::ReachError::Public { .. }) => {
            Err(format!("{error}; if that is meant, add `public = true`"))
        }
        _ => Ok(()),
    }
}

/// A log can be written, or there is a folder that it can be made in; nothing is done to it.
fn check_log(path: &Path) -> io::Result<()> {
    match fs::OpenOptions::new().append(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
            fs::metadata(folder.unwrap_or(Path::new("."))).map(|_| ())
        }
        opened => opened.map(|_| ()),
    }
}

/// Makes logs ready. A file that cannot be written is told now and not at the first firing.
pub(crate) fn prepare(outlets: &[Outlet]) -> Result<(), StartError> {
    for outlet in outlets {
        let Means::Log(Some(path)) = &outlet.means else { continue };
        prepare_log(path).map_err(|error| StartError::Destination {
            name: outlet.name.clone(),
            cause: unwritten(path, &error),
        })?;
    }
    Ok(())
}

fn unwritten(path: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}", path.display())
}

/// A log is there, and begins a new line: a crash may have torn the last one.
fn prepare_log(path: &Path) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().create(true).read(true).append(true).open(path)?;
    if file.metadata()?.len() > 0 {
        let mut last = [0];
        file.seek(io::SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
        }
    }
    Ok(())
}

/// Each source, with its message and its name, names a message of the rules.
fn check_sources(sources: &[(String, String)], rules: &Arc<Rules>) -> Result<(), StartError> {
    for (message, file) in sources {
        if rules.messages().any(|known| known == message) {
            continue;
        }
        let unknown = rules.event(message, &serde_json::Value::Null).map(|_| ());
        let cause = unknown.expect_err("no message has this name").to_string();
        return Err(StartError::Source { file: file.clone(), cause });
    }
    Ok(())
}

/// The tables whose rows are messages, as they can be read.
fn tables(spec: &ServerSpec, rules: &Rules) -> Result<Vec<Polled>, StartError> {
    let each = spec.tables.iter().map(|table| {
        let opened = Polled::open(table.clone(), rules, spec.directory.as_deref());
        opened.map_err(|error| match error {
            PolledError::Disk(error) => StartError::Disk(error),
            PolledError::Table(error) => {
                StartError::Source { file: table.table.clone(), cause: error.to_string() }
            }
        })
    });
    each.collect()
}

/// The secret of a destination and its place, from where its file says.
fn secret(
    env: &Option<String>,
    file: &Option<PathBuf>,
) -> Result<Option<(String, String)>, String> {
    match (env, file) {
        (Some(name), _) => {
            let text =
                std::env::var(name).map_err(|_| format!("the variable ${name} is not set"))?;
            Ok(Some((format!("${name}"), text)))
        }
        (None, Some(path)) => {
            let text = fs::read_to_string(path);
            let text = text.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            Ok(Some((path.display().to_string(), text)))
        }
        (None, None) => Ok(None),
    }
}

/// Takes the partitions over and lets them run.
fn open(
    spec: &ServerSpec,
    rules: &Arc<Rules>,
    store: &Arc<dyn Store<Message>>,
    parcels: mpsc::UnboundedSender<ToDeliver>,
) -> Result<Vec<Handle>, StartError> {
    let found = store.partitions();
    let found =
        found.map_err(|error| StartError::Partition { partition: 0, cause: error.to_string() })?;
    let count = found.len() as u32;
    // A first start that was cut off may have left some, which are empty.
    let is_used = |id: &u32| store.log(*id, Seq(0), 1).map(|log| log.end > Seq(0));
    let mut used = false;
    for id in &found {
        used |= is_used(id)
            .map_err(|error| StartError::Partition { partition: *id, cause: error.to_string() })?;
    }
    if count > spec.partitions || (used && count != spec.partitions) {
        return Err(StartError::Partitions { found: count, asked: spec.partitions });
    }
    let shared = Shared { store: store.clone(), rules: rules.clone(), parcels };
    let each = u64::from(spec.partitions);
    let mut handles = Vec::new();
    for id in 0..spec.partitions {
        let wrong = |error: partition::OpenError| StartError::Partition {
            partition: id,
            cause: error.to_string(),
        };
        let limits = Retention { span: spec.keep, bytes: spec.keep_bytes / each };
        let opened = partition::open(partition_spec(id, spec.memory / each), &shared, limits);
        let opened = opened.map_err(wrong)?;
        handles.push(opened.handle());
        opened.run(shared.clone()).map_err(wrong)?;
    }
    Ok(handles)
}

/// Permits for bodies: as JSON in memory they take several times their bytes.
fn permits(memory: u64) -> usize {
    // One of the largest has room in any case.
    (memory as usize / 32).max(http::BODY_MAX + http::PERMIT_BYTES) / http::PERMIT_BYTES
}

/// Half of the memory is for states, a quarter for messages; the rest is what both need around them.
fn partition_spec(id: u32, memory: u64) -> PartitionSpec {
    const AGENT_BYTES: u64 = 256;
    let agents_max = (memory / 2 / AGENT_BYTES).clamp(16, 1 << 26) as u32;
    PartitionSpec {
        state_bytes_max: memory / 2,
        message_bytes_max: memory / 4,
        ..PartitionSpec::new(id, agents_max)
    }
}

/// Time for the store to take the first message.
const FIRST_WITHIN: Duration = Duration::from_secs(30);

/// The parameters of a start that rules are held against, and where it is marked which rules agents follow.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) file: Option<RulesFile>,
    /// The message of each source, and its name.
    sources: Vec<(String, String)>,
    public: bool,
    mark: Option<PathBuf>,
}

impl Start {
    fn of(spec: &ServerSpec) -> Start {
        let files = spec.sources.iter();
        let files = files.map(|it| (it.message.clone(), it.file.display().to_string()));
        let tables = spec.tables.iter().map(|it| (it.message.clone(), it.table.clone()));
        Start {
            file: spec.rules_file.clone(),
            sources: files.chain(tables).collect(),
            public: spec.public,
            mark: spec.directory.as_ref().map(|directory| directory.join("rules")),
        }
    }

    /// The destinations of rules that can hold here.
    pub(crate) fn check(&self, rules: &Arc<Rules>) -> Result<Vec<Outlet>, StartError> {
        let outlets = outlets(rules, self.public)?;
        check_sources(&self.sources, rules)?;
        Ok(outlets)
    }

    /// The rules of today and the owners of the partitions, so many owners ago.
    fn marked(gateway: &Gateway, ago: u64) -> String {
        let epochs = gateway.partitions.iter().map(|it| it.epoch.0.saturating_sub(ago).to_string());
        let epochs: Vec<String> = epochs.collect();
        format!("{:016x} {}\n", gateway.rules().fingerprint(), epochs.join(" "))
    }

    /// True if agents follow the rules of today, as their last owner left them.
    fn is_marked(&self, gateway: &Gateway) -> bool {
        let known = self.mark.as_ref().map(fs::read_to_string);
        known.is_some_and(|known| known.is_ok_and(|known| known == Start::marked(gateway, 1)))
    }

    /// All agents follow the rules of today.
    pub(crate) fn mark(&self, gateway: &Gateway) -> io::Result<()> {
        self.mark.as_ref().map_or(Ok(()), |mark| fs::write(mark, Start::marked(gateway, 0)))
    }

    /// Some agents may follow other rules.
    pub(crate) fn unmark(&self) -> io::Result<()> {
        match self.mark.as_ref().map(fs::remove_file) {
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// If the file has changed, all agents publish their bounds anew before anything else comes. So they do
/// if another server may have had them meanwhile: it may have had another file.
async fn follow(gateway: &Gateway) -> Result<(), StartError> {
    let (start, rules) = (&gateway.reload.start, gateway.rules());
    // What comes behind a change is read by it, also if its rules are the same but for their text.
    let is_last =
        |it: &Handle| it.shown.changes().last().is_none_or(|it| it.is_of_one_text(&rules));
    if start.is_marked(gateway) && gateway.partitions.iter().all(is_last) {
        return start.mark(gateway).map_err(StartError::Disk);
    }
    for handle in &gateway.partitions {
        let envelope = Envelope {
            id: None,
            sender: 0,
            to: agents::Destination::All,
            audience: Audience::Everyone,
            priority: Priority::High,
            message: rules.changed(handle.shown.changes().last()),
        };
        let answer = tokio::time::timeout(FIRST_WITHIN, handle.offer(envelope)).await;
        if !matches!(answer, Ok(Ok(Ok(Seq(_))))) {
            let why = handle.shown.last_error().unwrap_or_else(|| "no answer".to_owned());
            let cause = format!("the store does not take messages: {why}");
            return Err(StartError::Partition { partition: handle.id, cause });
        }
    }
    start.mark(gateway).map_err(StartError::Disk)
}

/// Longest pause between two looks for messages that nobody needs any more.
const FORGET_EVERY: Duration = Duration::from_secs(10);

/// Forgets messages after the time for which they are kept, once they took effect and their ids are
/// forgotten too: or the log grows without end.
async fn forget(gateway: Arc<Gateway>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        for handle in &gateway.partitions {
            let spare = handle.shown.spare();
            let mut first = Seq(0);
            while first <= spare && spare > Seq(0) {
                let (store, id) = (gateway.store.clone(), handle.id);
                let call = move || store.forget(id, spare);
                // What fails now is done at the next look.
                match tokio::task::spawn_blocking(call).await {
                    Ok(Ok(now)) if now > first => {
                        first = now;
                        handle.shown.forgot(Seq(now.0.saturating_sub(1)));
                    }
                    _ => break,
                }
            }
        }
    }
}

/// Numbers with their names, for the metrics.
pub(crate) type Named = BTreeMap<&'static str, u64>;
