//! Workers that are processes, and the one that forks them.
//!
//! A program with several threads cannot fork safely: a child has one thread and, perhaps for
//! ever, the locks of the others. So the origin starts its own executable once more, with the
//! configuration in an environment variable; that process has one thread, calls
//! [`run_if_supervisor`] as the first thing in its `main`, and forks all workers. Listener and
//! counters are inherited as open files.
//!
//! It ends when its standard input closes: it kills and reaps its workers and exits. If the
//! process that started it dies in any way, the kernel kills it, and then the workers.

/// The environment variable that makes a process a supervisor.
const VARIABLE: &str = "SEKISHO_ORIGIN";

/// Proof that this program calls [`run_if_supervisor`], without which worker processes cannot be
/// started. Hand it down from `main`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supervised(());

/// If this process was started to be an origin's supervisor, does that and exits; otherwise returns
/// at once.
///
/// To be called first in `main`, before any thread is started: the processes of
/// [`PreforkedProcesses`](crate::Serving::PreforkedProcesses) and
/// [`ForkPerRequest`](crate::Serving::ForkPerRequest) are forked by this program's own
/// executable, started again.
///
/// ```no_run
/// let supervised = origin::run_if_supervisor();
/// let serving = origin::Serving::PreforkedProcesses(supervised);
/// // ... the program itself
/// # let _ = serving;
/// ```
pub fn run_if_supervisor() -> Supervised {
    if let Some(order) = std::env::var_os(VARIABLE) {
        system::supervise(order.to_str());
    }
    Supervised(())
}

#[cfg(target_os = "linux")]
pub(crate) use system::Processes;

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::Processes;

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::net::TcpListener;

    use crate::board::Board;
    use crate::origin::{OriginConfig, StartError};

    /// Never made here.
    #[derive(Debug)]
    pub(crate) enum Processes {}

    impl Processes {
        pub(crate) fn start(
            _config: &OriginConfig,
            _listener: &TcpListener,
        ) -> Result<(Board, Processes), StartError> {
            Err(StartError::Unsupported)
        }

        pub(crate) fn pid(&self) -> u32 {
            match *self {}
        }

        pub(crate) fn end(&mut self) {
            match *self {}
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    pub(super) fn supervise(_order: Option<&str>) -> ! {
        std::process::exit(2)
    }
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod system {
    use std::io::{self, BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
    use std::os::unix::process::CommandExt;
    use std::process::{ChildStdin, ChildStdout, Command, Stdio};
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use super::{Supervised, VARIABLE};
    use crate::affinity::pin_current_thread;
    use crate::board::Board;
    use crate::demand::{Demand, thread_cpu_ns};
    use crate::document::Document;
    use crate::kept::{Kept, Pipes, die_with};
    use crate::origin::{OriginConfig, Serving, StartError};
    use crate::worker::{Open, Service, Worker};

    /// The supervisor's message when all is ready. Anything else is why it is not.
    const READY: &str = "ready";
    /// Its message when the CPU cannot be had; the number of the error follows.
    const NOT_PINNED: &str = "not pinned: ";
    /// Time limit of its start, and of its end.
    const PATIENCE: Duration = Duration::from_secs(10);

    /// The supervisor, as seen by who started it.
    #[derive(Debug)]
    pub(crate) struct Processes {
        kept: Kept,
        /// Closing it tells the supervisor to end.
        control: Option<ChildStdin>,
    }

    impl Processes {
        pub(crate) fn start(
            config: &OriginConfig,
            listener: &TcpListener,
        ) -> Result<(Board, Processes), StartError> {
            let file = shared_file().map_err(StartError::system("make the counters"))?;
            let board =
                Board::at(file.as_raw_fd()).map_err(StartError::system("map the counters"))?;
            let fds = [listener.as_raw_fd(), file.as_raw_fd()];
            let mut command = Command::new("/proc/self/exe");
            command.arg0("sekisho-origin").env(VARIABLE, encode(config, fds));
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            // SAFETY: `keep_open` makes system calls only.
            unsafe { command.pre_exec(move || fds.into_iter().try_for_each(keep_open)) };
            let (kept, Pipes { stdin, stdout }) = Kept::spawn(command, libc::SIGKILL)
                .map_err(StartError::system("start the supervisor (/proc/self/exe)"))?;
            let mut processes = Processes { kept, control: stdin };
            let answer = read_line(stdout.expect("a pipe was asked for"));
            if answer == READY {
                return Ok((board, processes));
            }
            processes.end();
            Err(match (answer.strip_prefix(NOT_PINNED), config.cpu) {
                (Some(code), Some(cpu)) => {
                    let source = io::Error::from_raw_os_error(code.parse().unwrap_or_default());
                    StartError::Cpu { cpu, source }
                }
                _ => StartError::Supervisor {
                    reason: match processes.kept.status() {
                        Some(status) if answer.is_empty() => status.to_string(),
                        _ => answer,
                    },
                },
            })
        }

        pub(crate) fn pid(&self) -> u32 {
            self.kept.pid()
        }

        pub(crate) fn end(&mut self) {
            drop(self.control.take());
            self.kept.end(PATIENCE);
        }
    }

    /// A file without a name, for the counters.
    fn shared_file() -> io::Result<OwnedFd> {
        // SAFETY: the name is a C string; the descriptor is new and owned by nobody else.
        let file = unsafe {
            let fd = libc::memfd_create(c"sekisho-origin".as_ptr(), libc::MFD_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        // SAFETY: a plain system call on an open descriptor.
        let result = unsafe { libc::ftruncate(file.as_raw_fd(), Board::SIZE as libc::off_t) };
        if result == 0 { Ok(file) } else { Err(io::Error::last_os_error()) }
    }

    /// Lets a descriptor survive `exec`. Runs between fork and exec: no allocation.
    fn keep_open(fd: RawFd) -> io::Result<()> {
        // SAFETY: a plain system call.
        let result = unsafe { libc::fcntl(fd, libc::F_SETFD, 0) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// The first line that the supervisor says; empty if it says none in time.
    fn read_line(stdout: ChildStdout) -> String {
        let mut line = String::new();
        let ready = loop {
            match wait_readable([stdout.as_raw_fd()], PATIENCE.as_millis() as i32) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        if let Ok([true]) = ready {
            // The supervisor writes its line at once; what is not text is no answer.
            let _ = BufReader::new(stdout).read_line(&mut line);
        }
        line.trim_end().to_owned()
    }

    /// Waits until one of the descriptors has something to read or has been closed; negative ones are
    /// not looked at. A negative `timeout` [ms] is none.
    fn wait_readable<const N: usize>(fds: [RawFd; N], timeout: i32) -> io::Result<[bool; N]> {
        let mut polled = fds.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
        // SAFETY: `polled` is valid for writes of N entries.
        let result = unsafe { libc::poll(polled.as_mut_ptr(), N as libc::nfds_t, timeout) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(polled.map(|entry| entry.revents != 0))
    }

    /// The instructions of a supervisor. Names of documents hold no space, comma or colon.
    fn encode(config: &OriginConfig, [listener, board]: [RawFd; 2]) -> String {
        let serving = match config.serving {
            Serving::Threads => "threads",
            Serving::PreforkedProcesses(_) => "prefork",
            Serving::ForkPerRequest(_) => "fork",
        };
        let documents: Vec<String> =
            config.documents.iter().map(|d| format!("{}:{}", d.name, d.bytes)).collect();
        let cpu = config.cpu.map_or("any".to_owned(), |cpu| cpu.to_string());
        format!(
            "1 {listener} {board} {serving} {} {} {} {} {cpu} {} {} {}",
            config.workers,
            config.bytes_max,
            config.demand.per_byte_s,
            config.demand.base_s,
            config.backlog,
            config.keep_alive,
            documents.join(","),
        )
    }

    /// The configuration and the descriptors of listener and counters.
    fn decode(order: &str) -> Option<(OriginConfig, [RawFd; 2])> {
        let mut words = order.split(' ');
        let mut next = || words.next();
        if next()? != "1" {
            return None;
        }
        let fds = [next()?.parse().ok()?, next()?.parse().ok()?];
        let serving = match next()? {
            "prefork" => Serving::PreforkedProcesses(Supervised(())),
            "fork" => Serving::ForkPerRequest(Supervised(())),
            _ => return None,
        };
        let workers = next()?.parse().ok()?;
        let bytes_max = next()?.parse().ok()?;
        let demand = Demand { per_byte_s: next()?.parse().ok()?, base_s: next()?.parse().ok()? };
        let cpu = match next()? {
            "any" => None,
            cpu => Some(cpu.parse().ok()?),
        };
        let backlog = next()?.parse().ok()?;
        let keep_alive = next()?.parse().ok()?;
        let documents = next()?
            .split(',')
            .filter(|entry| !entry.is_empty())
            .map(|entry| {
                let (name, bytes) = entry.split_once(':')?;
                Some(Document { name: name.to_owned(), bytes: bytes.parse().ok()? })
            })
            .collect::<Option<_>>()?;
        let config = OriginConfig {
            documents,
            bytes_max,
            demand,
            workers,
            serving,
            cpu,
            backlog,
            keep_alive,
        };
        Some((config, fds))
    }

    /// The whole life of a supervisor.
    pub(super) fn supervise(order: Option<&str>) -> ! {
        let answer = match order.and_then(decode) {
            None => format!("{VARIABLE} is set in the environment, but not by this program"),
            Some((config, fds)) => match Supervisor::new(&config, fds) {
                Ok(mut supervisor) => {
                    supervisor.run();
                    std::process::exit(0)
                }
                Err(reason) => reason,
            },
        };
        say(&answer);
        std::process::exit(2)
    }

    fn say(line: &str) {
        // If nobody reads, nobody waits for the answer either.
        let mut out = io::stdout().lock();
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }

    struct Supervisor {
        service: Service,
        serving: Serving,
        /// As many as there may be workers at once.
        workers: usize,
        listener: TcpListener,
        board: Board,
        /// Tells when a worker has ended.
        children: OwnedFd,
        pid: u32,
    }

    impl Supervisor {
        fn new(config: &OriginConfig, [listener, board]: [RawFd; 2]) -> Result<Supervisor, String> {
            let threads = std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
            if threads != 1 {
                return Err(format!("run_if_supervisor was called with {threads} threads running"));
            }
            if let Some(Err(error)) = config.cpu.map(pin_current_thread) {
                return Err(format!("{NOT_PINNED}{}", error.raw_os_error().unwrap_or_default()));
            }
            // SAFETY: the descriptor was inherited for this and belongs to nobody else.
            let listener = unsafe { TcpListener::from_raw_fd(listener) };
            if matches!(config.serving, Serving::ForkPerRequest(_)) {
                // It waits in `poll`; a connection that is gone again must not block `accept`.
                listener.set_nonblocking(true).map_err(|error| format!("listener: {error}"))?;
            }
            Ok(Supervisor {
                service: config.service(),
                serving: config.serving,
                workers: config.workers as usize,
                listener,
                board: Board::at(board).map_err(|error| format!("counters: {error}"))?,
                children: child_signals().map_err(|error| format!("signals: {error}"))?,
                pid: std::process::id(),
            })
        }

        fn run(&mut self) {
            let forks = matches!(self.serving, Serving::ForkPerRequest(_));
            let at_once = if forks { 0 } else { self.workers };
            if let Some(error) = (0..at_once).find_map(|row| self.fork(row, None).err()) {
                say(&format!("cannot fork: {error}"));
                return self.end();
            }
            say(READY);
            loop {
                let free = self.free_row();
                let listener = if forks && free.is_some() { self.listener.as_raw_fd() } else { -1 };
                let fds = [libc::STDIN_FILENO, self.children.as_raw_fd(), listener];
                match wait_readable(fds, -1) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) | Ok([true, ..]) => return self.end(),
                    Ok([false, child, connection]) => {
                        if child {
                            self.reap();
                        }
                        if let (true, Some(row)) = (connection, free) {
                            self.fork_for_connection(row);
                        }
                    }
                }
            }
        }

        fn free_row(&self) -> Option<usize> {
            let rows = &self.board.workers[..self.workers];
            rows.iter().position(|row| row.pid.load(Ordering::Relaxed) == 0)
        }

        fn fork_for_connection(&self, row: usize) {
            let Ok((stream, _)) = self.listener.accept() else { return };
            if self.fork(row, Some(stream)).is_err() {
                self.board.broken.fetch_add(1, Ordering::Relaxed);
            }
        }

        /// Starts the worker of `row`: for one connection, or for all that come.
        fn fork(&self, row: usize, stream: Option<std::net::TcpStream>) -> io::Result<()> {
            // SAFETY: this process has one thread, so the child's memory is whole.
            match unsafe { libc::fork() } {
                -1 => Err(io::Error::last_os_error()),
                0 => self.work(row, stream),
                pid => {
                    self.board.workers[row].pid.store(pid, Ordering::Relaxed);
                    Ok(())
                }
            }
        }

        /// The whole life of a worker.
        fn work(&self, row: usize, stream: Option<std::net::TcpStream>) -> ! {
            if die_with(self.pid, libc::SIGKILL).is_ok() {
                let (service, board, open) = (&self.service, &*self.board, Open::default());
                match stream {
                    None => {
                        Worker::new(service, board, row, &open, thread_cpu_ns()).run(&self.listener)
                    }
                    Some(stream) => {
                        // Its CPU clock began with it. What its forerunners spent after their last
                        // look at the clock is on its account, and what it spends then on others'.
                        let mut worker = Worker::new(service, board, row, &open, 0);
                        worker.owe(board.debt_ns.swap(0, Ordering::Relaxed));
                        worker.serve(stream);
                        board.debt_ns.fetch_add(worker.unpaid_ns(), Ordering::Relaxed);
                    }
                }
            }
            // SAFETY: ends the process at once; what the supervisor would do at its exit is not
            // the worker's to do.
            unsafe { libc::_exit(0) }
        }

        /// Takes note of workers that ended, and replaces those that should not have.
        fn reap(&self) {
            let mut drained = [0_u8; size_of::<libc::signalfd_siginfo>()];
            // SAFETY: `drained` is valid for writes of its length. Signals of one kind that wait
            // are merged, so one read empties it.
            unsafe {
                libc::read(self.children.as_raw_fd(), drained.as_mut_ptr().cast(), drained.len())
            };
            while let Some((pid, cpu)) = wait_for(-1, libc::WNOHANG) {
                let Some(row) = self.forget(pid, cpu) else { continue };
                if matches!(self.serving, Serving::PreforkedProcesses(_)) {
                    self.board.lost.fetch_add(1, Ordering::Relaxed);
                    if self.fork(row, None).is_err() {
                        self.board.workers[row].pid.store(0, Ordering::Relaxed);
                    }
                }
            }
        }

        /// Clears the row of a worker that ended, and returns it.
        fn forget(&self, pid: libc::pid_t, cpu: Duration) -> Option<usize> {
            let has_it = |pid_of_row: i32| pid_of_row == pid;
            let rows = &self.board.workers[..self.workers];
            let row = rows.iter().position(|row| has_it(row.pid.load(Ordering::Relaxed)))?;
            self.board.leave(row);
            // A preforked worker has published what it used since it was ready; a forked one was
            // ready when it began, so that the kernel's count of all it used is the better one.
            let published = rows[row].cpu_ns.swap(0, Ordering::Relaxed).unsigned_abs();
            let used = match self.serving {
                Serving::ForkPerRequest(_) => cpu.as_nanos() as u64,
                _ => published,
            };
            self.board.ended_cpu_ns.fetch_add(used, Ordering::Relaxed);
            rows[row].pid.store(0, Ordering::Relaxed);
            Some(row)
        }

        /// Kills and reaps all workers.
        fn end(&self) {
            for row in &self.board.workers[..self.workers] {
                let pid = row.pid.load(Ordering::Relaxed);
                if pid > 0 {
                    // SAFETY: a plain system call; the worker is not reaped, so the number is its.
                    unsafe { libc::kill(pid, libc::SIGKILL) };
                    if let Some((pid, cpu)) = wait_for(pid, 0) {
                        self.forget(pid, cpu);
                    }
                }
            }
        }
    }

    /// Reaps a child, and returns its number and the CPU time it used.
    fn wait_for(pid: libc::pid_t, options: i32) -> Option<(libc::pid_t, Duration)> {
        // SAFETY: all-zero is a valid `rusage`, and both places are valid for writes.
        let (pid, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            let mut status = 0;
            (libc::wait4(pid, &mut status, options, &mut usage), usage)
        };
        let span = |time: libc::timeval| {
            Duration::from_secs(time.tv_sec.unsigned_abs())
                + Duration::from_micros(time.tv_usec.unsigned_abs())
        };
        (pid > 0).then(|| (pid, span(usage.ru_utime) + span(usage.ru_stime)))
    }

    /// A descriptor that can be read when a child has ended.
    fn child_signals() -> io::Result<OwnedFd> {
        // SAFETY: the set is initialised by `sigemptyset`; the descriptor is new.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGCHLD);
            if libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            let fd = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(OwnedFd::from_raw_fd(fd))
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn an_order_arrives_as_it_was_given() {
            let name = |name: &str, bytes| Document { name: name.to_owned(), bytes };
            let config = OriginConfig {
                documents: vec![name("500b", 500), name("a~_.-Z", u64::MAX)],
                bytes_max: 7,
                demand: Demand { per_byte_s: 4.851e-7, base_s: 0.1 + 0.2 },
                workers: 12,
                serving: Serving::ForkPerRequest(Supervised(())),
                cpu: Some(3),
                backlog: 511,
                keep_alive: true,
            };
            assert_eq!(decode(&encode(&config, [5, 6])), Some((config.clone(), [5, 6])));
            let prefork = Serving::PreforkedProcesses(Supervised(()));
            let other = OriginConfig { documents: vec![], cpu: None, serving: prefork, ..config };
            assert_eq!(decode(&encode(&other, [7, 8])), Some((other, [7, 8])));
            assert_eq!(decode("1 2 3"), None);
            assert_eq!(decode(""), None);
        }
    }
}
