//! Writes lines of a log on a thread of its own, so that a log that cannot be written never holds up
//! whoever has something to say.
//!
//! ```text
//!   Log::line ──▶ bounded queue ──▶ thread "log" ──▶ sink: standard error, a file
//!       └── full: lost, counted
//! ```
//!
//! Lines that could not be written are counted, and told as soon as something can be written again. A log in
//! a file opens that anew after somebody has renamed it, and a log may [take the place](Log::replace) of
//! another.

pub mod json;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError};
use std::time::{Duration, Instant};

/// Lines that wait to be written; those beyond are lost, and counted. They are three seconds' worth
/// at 5,000 lines a second.
pub const LINES_MAX: usize = 16 * 1024;
/// Lines that are there are written in one go, up to so many.
const BATCH_MAX: usize = 256;
/// Time for the last lines when the log ends.
const LAST: Duration = Duration::from_secs(1);

/// The file of a log by its name on a command line or in a configuration; none for `-`, which is standard output.
pub fn file_named(name: &Path) -> Option<PathBuf> {
    (name != Path::new("-")).then(|| name.to_owned())
}

/// The way of lines to the log's thread. The default is a log that keeps nothing.
#[derive(Debug, Default)]
pub struct Log {
    lines: Option<SyncSender<String>>,
    /// Has the file opened anew, if it is one.
    anew: Option<Arc<AtomicBool>>,
    thread: Option<Thread>,
    /// Those of the logs whose place it took, as long as they have lines to write.
    before: Vec<Thread>,
    /// The lines that the others of those have lost.
    lost_before: u64,
}

/// Thread of a log, as far as others see it.
#[derive(Debug)]
struct Thread {
    lost: Arc<AtomicU64>,
    /// The lines that wait, or are being written.
    unwritten: Arc<AtomicU64>,
    /// Told when the last line is written.
    ended: Receiver<()>,
}

impl Thread {
    fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Log {
    /// One that writes to `sink`, on a thread of its own. `told` is the line that says how many were lost.
    ///
    /// # Errors
    /// If the system starts no thread.
    pub fn to(sink: impl Write + Send + 'static, told: fn(u64) -> String) -> io::Result<Log> {
        let (lines, waiting) = mpsc::sync_channel(LINES_MAX);
        let (end, ended) = mpsc::channel();
        let lost = Arc::new(AtomicU64::new(0));
        let unwritten = Arc::new(AtomicU64::new(0));
        let counts = (Arc::clone(&lost), Arc::clone(&unwritten));
        std::thread::Builder::new().name("log".into()).spawn(move || {
            write_all(&waiting, sink, told, (&counts.0, &counts.1));
            // Whoever waited may have given up.
            let _ = end.send(());
        })?;
        let thread = Some(Thread { lost, unwritten, ended });
        Ok(Log { lines: Some(lines), thread, ..Log::default() })
    }

    /// One that adds to a file, which is made if there is none.
    ///
    /// # Errors
    /// If the system does not let the file be written, or starts no thread.
    pub fn to_file(path: &Path, told: fn(u64) -> String) -> io::Result<Log> {
        let file = LogFile::open(path)?;
        let anew = Some(Arc::clone(&file.anew));
        Ok(Log { anew, ..Log::to(file, told)? })
    }

    /// Opens its file anew with the next line, after somebody has renamed it: the file that has the name by
    /// then, which is made if there is none. A log without a file goes on.
    pub fn reopen(&self) {
        if let Some(anew) = &self.anew {
            anew.store(true, Ordering::Relaxed);
        }
    }

    /// Puts `next` in its place. Lines that it has are still written where they were to go, and what it has lost
    /// stays counted.
    pub fn replace(&mut self, next: Log) {
        let Log { thread, mut before, lost_before, .. } = std::mem::replace(self, next);
        before.extend(thread);
        self.before.append(&mut before);
        self.lost_before += lost_before;
        let lost_before = &mut self.lost_before;
        self.before.retain(|thread| {
            let is_writing = thread.ended.try_recv() == Err(TryRecvError::Empty);
            *lost_before += if is_writing { 0 } else { thread.lost() };
            is_writing
        });
    }

    /// True if lines are kept.
    pub fn is_kept(&self) -> bool {
        self.lines.is_some()
    }

    /// The lines that are lost so far.
    pub fn lost(&self) -> u64 {
        let threads = self.before.iter().chain(&self.thread);
        self.lost_before + threads.map(Thread::lost).sum::<u64>()
    }

    /// Writes a line, which has no end yet, as soon as may be.
    pub fn line(&self, line: impl Into<String>) {
        let (Some(lines), Some(thread)) = (&self.lines, &self.thread) else { return };
        // Before it is there: it may be written at once.
        thread.unwritten.fetch_add(1, Ordering::Relaxed);
        if lines.try_send(line.into() + "\n").is_err() {
            thread.unwritten.fetch_sub(1, Ordering::Relaxed);
            thread.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends the log, and gives the last lines a second to be written.
    pub fn end(&mut self) {
        self.end_within(LAST);
    }

    /// Ends the log. Lines that are not written by then are lost.
    fn end_within(&mut self, longest: Duration) {
        self.lines = None;
        let until = Instant::now() + longest;
        for thread in self.before.drain(..).chain(self.thread.take()) {
            let rest = until.saturating_duration_since(Instant::now());
            let has_ended = thread.ended.recv_timeout(rest).is_ok();
            let unwritten = if has_ended { 0 } else { thread.unwritten.load(Ordering::Relaxed) };
            self.lost_before += thread.lost() + unwritten;
        }
    }
}

/// Writes what comes until nothing more can come.
fn write_all(
    lines: &Receiver<String>,
    mut sink: impl Write,
    told_as: fn(u64) -> String,
    (lost, unwritten): (&AtomicU64, &AtomicU64),
) {
    let mut told = 0;
    let lines_lost = |lost: u64| told_as(lost) + "\n";
    while let Ok(line) = lines.recv() {
        let now = lost.load(Ordering::Relaxed);
        let mut batch = if now > told { lines_lost(now - told) } else { String::new() };
        batch += &line;
        let mut count = 1;
        for line in lines.try_iter().take(BATCH_MAX - 1) {
            batch += &line;
            count += 1;
        }
        match sink.write_all(batch.as_bytes()).and_then(|()| sink.flush()) {
            Ok(()) => told = now,
            Err(_) => {
                lost.fetch_add(count, Ordering::Relaxed);
            }
        }
        unwritten.fetch_sub(count, Ordering::Relaxed);
    }
    let now = lost.load(Ordering::Relaxed);
    if now > told {
        // Nobody is left to be told that this is lost as well.
        let _ = sink.write_all(lines_lost(now - told).as_bytes()).and_then(|()| sink.flush());
    }
}

/// A file that a log adds to.
#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    file: File,
    anew: Arc<AtomicBool>,
}

impl LogFile {
    fn open(path: &Path) -> io::Result<LogFile> {
        let file = append(path)?;
        Ok(LogFile { path: path.to_owned(), file, anew: Arc::default() })
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A file that cannot be opened now is tried again with the next line; this one is kept where
        // the others are.
        if self.anew.load(Ordering::Relaxed)
            && let Ok(file) = append(&self.path)
        {
            self.file = file;
            self.anew.store(false, Ordering::Relaxed);
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn told(lost: u64) -> String {
        format!("lost {lost}")
    }

    /// A sink that is full as long as it is told so.
    #[derive(Clone, Default)]
    struct Disk(Arc<Mutex<(bool, String)>>);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut disk = self.0.lock().unwrap();
            if disk.0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            disk.1 += std::str::from_utf8(bytes).unwrap();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_a_full_disk_has_lost_is_counted_and_told() {
        let disk = Disk::default();
        disk.0.lock().unwrap().0 = true;
        let mut log = Log::to(disk.clone(), told).unwrap();
        log.line("one");
        log.line("two");
        while log.lost() < 2 {
            std::thread::yield_now();
        }
        disk.0.lock().unwrap().0 = false;
        log.line("three");
        log.end();
        assert_eq!(disk.0.lock().unwrap().1, "lost 2\nthree\n");
        assert_eq!(log.lost(), 2);
    }

    /// Three seconds without a write at 5,000 lines a second.
    #[test]
    fn a_burst_waits_until_it_can_be_written() {
        struct Slow(Receiver<()>, Arc<Mutex<(usize, usize)>>);
        impl Write for Slow {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                // Until the burst is over.
                let _ = self.0.recv();
                let mut written = self.1.lock().unwrap();
                written.0 += 1;
                written.1 += bytes.iter().filter(|byte| **byte == b'\n').count();
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (release, held) = mpsc::channel();
        let written = Arc::new(Mutex::new((0, 0)));
        let log = Log::to(Slow(held, Arc::clone(&written)), told).unwrap();
        (0..15_000).for_each(|_| log.line("many"));
        assert_eq!(log.lost(), 0);
        drop(release);
        while written.lock().unwrap().1 < 15_000 {
            std::thread::yield_now();
        }
        let writes = written.lock().unwrap().0;
        assert!(writes <= 15_000 / BATCH_MAX + 2, "{writes}");
    }

    #[test]
    fn a_sink_that_takes_nothing_holds_nobody_up() {
        struct Stuck(Receiver<()>);
        impl Write for Stuck {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                // Until the test ends.
                let _ = self.0.recv();
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (release, stuck) = mpsc::channel();
        let mut log = Log::to(Stuck(stuck), told).unwrap();
        (0..3 * LINES_MAX).for_each(|_| log.line("many"));
        assert!(log.lost() >= (2 * LINES_MAX - BATCH_MAX) as u64, "{}", log.lost());
        // The others have waited in vain as well.
        log.end_within(Duration::ZERO);
        assert_eq!(log.lost(), 3 * LINES_MAX as u64);
        drop(release);
    }

    /// A change of the place drops nothing, also while the old place takes nothing yet.
    #[test]
    fn a_log_that_takes_the_place_of_another_lets_it_write_its_lines_and_counts_what_it_lost() {
        struct Held(Receiver<()>, Disk);
        impl Write for Held {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                // Until the test lets it go on.
                let _ = self.0.recv();
                self.1.write(bytes)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (release, held) = mpsc::channel();
        let [old, new, broken] = [(); 3].map(|()| Disk::default());
        broken.0.lock().unwrap().0 = true;
        let mut log = Log::default();
        log.line("nowhere");
        log.replace(Log::to(broken.clone(), told).unwrap());
        log.line("lost");
        while log.lost() < 1 {
            std::thread::yield_now();
        }
        log.replace(Log::to(Held(held, old.clone()), told).unwrap());
        log.line("one");
        log.replace(Log::to(new.clone(), told).unwrap());
        log.line("two");
        log.replace(Log::default());
        assert!(!log.is_kept());
        log.line("nowhere");
        drop(release);
        log.end();
        let text = |disk: &Disk| disk.0.lock().unwrap().1.clone();
        assert_eq!((text(&old), text(&new), log.lost()), ("one\n".into(), "two\n".into(), 1));
        assert_eq!(text(&broken), "");
    }

    #[test]
    fn a_file_that_was_renamed_is_made_anew_when_that_is_asked_for() {
        let folder = std::env::temp_dir().join(format!("sekisho-linelog-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [path, old] = ["log", "log.1"].map(|name| folder.join(name));
        std::fs::write(&path, "zero\n").unwrap();
        let mut file = LogFile::open(&path).unwrap();
        let anew = Arc::clone(&file.anew);
        let reopen = || anew.store(true, Ordering::Relaxed);
        file.write_all(b"one\n").unwrap();
        std::fs::rename(&path, &old).unwrap();
        file.write_all(b"two\n").unwrap();
        reopen();
        file.write_all(b"three\n").unwrap();
        file.write_all(b"four\n").unwrap();
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "zero\none\ntwo\n", "added to");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "three\nfour\n");
        std::fs::remove_dir_all(&folder).unwrap();
        reopen();
        file.write_all(b"five\n").expect("the file that is open takes it");
        assert!(LogFile::open(&path).is_err());
    }
}
