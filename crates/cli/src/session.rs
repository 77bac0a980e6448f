//! Session of one call, common to every command: where it writes, how it was called, and whether
//! the user has interrupted it.

use std::borrow::Cow;
use std::fmt::Debug;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};
use measure::Interval;

use crate::text::rate;
use crate::{Failure, layout};

/// Time within which several interrupts are one.
const TOGETHER: Duration = Duration::from_millis(300);

/// One call of the program.
#[derive(Debug)]
pub struct Session {
    /// Set when the user asks to stop.
    pub interrupt: Arc<AtomicBool>,
    /// The words of the command line; no secret is ever an argument, but a URL may hold one.
    pub command: Vec<String>,
}

impl Session {
    /// The call with the words of this process, which nobody has interrupted yet.
    #[expect(
        clippy::new_without_default,
        reason = "there is one call of a program, and it is made"
    )]
    pub fn new() -> Session {
        let command = std::env::args().map(|word| without_secret(&word)).collect();
        Session { interrupt: Arc::new(AtomicBool::new(false)), command }
    }

    /// From now on an interrupt sets a flag that long work looks at; a second one ends the program. One that comes
    /// at most 300 ms behind it is the same: `timeout`, for one, sends each signal twice.
    ///
    /// # Errors
    /// If the system does not take the request.
    pub fn catch_interrupts(&self) -> Result<(), Failure> {
        let may_end = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&may_end))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&self.interrupt)))
                .map_err(Failure::machine)?;
        }
        let interrupt = Arc::clone(&self.interrupt);
        let watch = move || {
            while !interrupt.load(Ordering::Relaxed) {
                thread::sleep(TOGETHER);
            }
            thread::sleep(TOGETHER);
            may_end.store(true, Ordering::Relaxed);
        };
        thread::Builder::new()
            .name("sekisho-interrupt".into())
            .spawn(watch)
            .map_err(Failure::machine)?;
        Ok(())
    }

    /// From now on SIGHUP sets the flag that is given back, and does not end the program.
    ///
    /// # Errors
    /// If the system does not take the request.
    pub fn catch_hangups(&self) -> Result<Arc<AtomicBool>, Failure> {
        let flag = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal_hook::consts::SIGHUP, Arc::clone(&flag))
            .map_err(Failure::machine)?;
        Ok(flag)
    }

    /// True if the user has asked to stop.
    pub fn interrupted(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }
}

/// The program and its version, for records.
pub fn tool() -> String {
    format!("sekisho {}", env!("CARGO_PKG_VERSION"))
}

/// A bar for long work. Where standard error is no terminal, a line there says every ten seconds how far it
/// is. Of 0 steps, their number is not known yet.
pub fn progress(steps: u64, what: &str) -> ProgressBar {
    if io::stderr().is_terminal() {
        return bar_on(ProgressDrawTarget::stderr_with_hz(5), steps, what);
    }
    let lines = Lines::new(TOLD_EVERY, io::stderr());
    let bar = lines_on(ProgressDrawTarget::term_like(Box::new(lines)), steps, what);
    bar.enable_steady_tick(TICK);
    bar
}

/// The bar takes what the words leave of a line, and nothing is drawn before all of them are known.
fn bar_on(target: ProgressDrawTarget, steps: u64, what: &str) -> ProgressBar {
    let style =
        ProgressStyle::with_template("  {msg:32} {wide_bar} {elapsed}, {eta} left {prefix}")
            .expect("the template is a constant");
    // A bar of no steps would be drawn as full.
    ProgressBar::with_draw_target((steps > 0).then_some(steps), target)
        .with_style(style)
        .with_message(what.to_owned())
}

/// The same in words, for lines that stay.
fn lines_on(target: ProgressDrawTarget, steps: u64, what: &str) -> ProgressBar {
    let template = match steps {
        0 => "{msg}: {elapsed} so far",
        _ => "{msg}: {elapsed} so far, {percent} %, {eta} left {prefix}",
    };
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    ProgressBar::with_draw_target((steps > 0).then_some(steps), target)
        .with_style(style)
        .with_message(what.to_owned())
}

/// Moves the bar of a measurement, whose steps are tenths of a second, on by an interval; its rate stands
/// behind it.
pub fn advance(bar: &ProgressBar, interval: &Interval) {
    let completed: u64 = interval.classes.iter().map(|class| class.completed).sum();
    bar.set_prefix(rate(completed as f64 / interval.length_s.max(1e-9)));
    bar.inc((interval.length_s * 10.0).round() as u64);
}

/// Something of unknown length that turns while it lasts; where there is no terminal, as [`progress`].
pub fn waiting(what: &str) -> ProgressBar {
    let bar = progress(0, what);
    if io::stderr().is_terminal() { turn(bar) } else { bar }
}

/// Draws at once, and turns from then on. A bar that has a thread to turn it takes no tick but from that
/// thread, which on a busy machine may come after the work has ended.
fn turn(bar: ProgressBar) -> ProgressBar {
    let style = ProgressStyle::with_template("  {spinner} {msg} {elapsed}");
    bar.set_style(style.expect("the template is a constant"));
    bar.tick();
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Work of unknown length, during which something turns on the terminal; it is gone when the work ends,
/// with or without a result. Where standard error is no terminal, a line there says now and then that the
/// work goes on.
pub fn turning<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let bar = waiting(what);
    let result = work();
    bar.finish_and_clear();
    result
}

/// How often work that takes long says so where there is no terminal.
const TOLD_EVERY: Duration = Duration::from_secs(10);
/// How often it is looked at for that.
const TICK: Duration = Duration::from_secs(1);

/// A file or a pipe in place of a terminal: of all that would be drawn it gets a line now and then.
#[derive(Debug)]
struct Lines<W> {
    every: Duration,
    inner: Mutex<Drawn<W>>,
}

#[derive(Debug)]
struct Drawn<W> {
    /// When a line was written, or else the beginning.
    told: Instant,
    latest: String,
    to: W,
}

impl<W> Lines<W> {
    fn new(every: Duration, to: W) -> Lines<W> {
        let drawn = Drawn { told: Instant::now(), latest: String::new(), to };
        Lines { every, inner: Mutex::new(drawn) }
    }

    fn drawn(&self) -> MutexGuard<'_, Drawn<W>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: Write + Debug + Send> TermLike for Lines<W> {
    fn width(&self) -> u16 {
        // Nothing is cut off.
        1000
    }
    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn write_line(&self, line: &str) -> io::Result<()> {
        self.write_str(line)
    }
    fn write_str(&self, text: &str) -> io::Result<()> {
        if !text.trim().is_empty() {
            text.trim().clone_into(&mut self.drawn().latest);
        }
        Ok(())
    }
    fn clear_line(&self) -> io::Result<()> {
        // A bar that is cleared has nothing more to say.
        self.drawn().latest.clear();
        Ok(())
    }
    fn flush(&self) -> io::Result<()> {
        let mut drawn = self.drawn();
        if drawn.told.elapsed() >= self.every && !drawn.latest.is_empty() {
            drawn.told = Instant::now();
            let line = std::mem::take(&mut drawn.latest);
            // Nobody may listen, and the work goes on.
            writeln!(drawn.to, "{line}").ok();
        }
        Ok(())
    }
}

/// Writes what a person asked for, verdicts in colours on a terminal; a closed pipe (`| head`) is no
/// failure.
///
/// # Errors
/// If `out` cannot be written for another reason.
pub fn say(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    let text = match layout::are_colours_wanted_on_output() {
        true => Cow::Owned(layout::coloured(text)),
        false => Cow::Borrowed(text),
    };
    match out.write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Writes why a command ends without its work; nobody may listen.
pub fn complain(text: &str) {
    let text = crate::text::message(text);
    let text = match layout::are_colours_wanted_on_errors() {
        true => layout::coloured(&text),
        false => text,
    };
    io::stderr().write_all(text.as_bytes()).ok();
}

/// A word of the command line without the password of a URL, wherever that stands in it. The user of a
/// database stays, or the command could not be typed again; that of other URLs may itself be a secret.
pub fn without_secret(word: &str) -> String {
    const SECRET: &str = "password=";
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
    if let Some((before, after)) = rest.split_once(SECRET) {
        let after = after.split_once('&').map_or(String::new(), |(_, after)| format!("&{after}"));
        return without_secret(&format!("{scheme}://{before}{after}"));
    }
    // A password of a database may hold a slash: its address ends its user at the first @.
    let is_database = scheme.ends_with("postgresql") || scheme.ends_with("postgres");
    let end = match is_database {
        true => rest.find('@').map_or(0, |at| at + 1),
        false => 0,
    };
    let user = rest[..end].split([':', '@']).next().unwrap_or_default();
    let user = if user.is_empty() { String::new() } else { format!("{user}@") };
    let end = end + rest[end..].find(['/', '?', '#']).unwrap_or(rest[end..].len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://{user}{}", &rest[at + 1..]),
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The story: a simulation of 110 s, and a search for a knee, said nothing at all to a file or a pipe.
    #[test]
    fn work_that_takes_long_says_so_where_there_is_no_terminal() {
        #[derive(Debug, Default, Clone)]
        struct Kept(Arc<Mutex<Vec<u8>>>);
        impl Write for Kept {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().unwrap().write(bytes)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let draw = |every, steps| {
            let kept = Kept::default();
            let lines = Lines::new(every, kept.clone());
            let bar = lines_on(ProgressDrawTarget::term_like(Box::new(lines)), steps, "searching");
            bar.tick();
            bar.set_position(steps / 4);
            bar.set_prefix("512 /s");
            bar.force_draw();
            bar.finish_and_clear();
            String::from_utf8(kept.0.lock().unwrap().clone()).unwrap()
        };
        let told = draw(Duration::ZERO, 100);
        assert!(told.lines().all(|line| line.starts_with("searching: 0s so far, ")), "{told}");
        assert!(told.contains("25 %,") && told.contains(" left 512 /s\n"), "{told}");
        assert!(draw(Duration::ZERO, 0).starts_with("searching: 0s so far\n"));
        assert_eq!(draw(Duration::from_secs(3600), 100), "");
        assert_eq!(turning("simulating", || 7), 7);
    }

    /// A terminal of 80 columns that keeps what is written.
    #[derive(Debug, Default, Clone)]
    struct Screen(Arc<Mutex<String>>);

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            80
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, line: &str) -> io::Result<()> {
            self.write_str(&format!("{line}\n"))
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            self.write_str("\n")
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Bars began full, and with the rate behind them took two lines of a terminal of 80 columns.
    #[test]
    fn a_bar_begins_empty_and_stays_on_its_line() {
        let screen = Screen::default();
        let target = ProgressDrawTarget::term_like(Box::new(screen.clone()));
        let bar = bar_on(target, 0, "loading rows");
        bar.tick();
        let begun = std::mem::take(&mut *screen.0.lock().unwrap());
        assert!(begun.contains("loading rows") && !begun.contains('█'), "{begun}");
        bar.set_length(100);
        bar.set_position(50);
        bar.set_prefix("1215798 rows/s");
        bar.force_draw();
        let drawn = screen.0.lock().unwrap().clone();
        assert!(drawn.contains('█') && drawn.contains("1215798 rows/s"), "{drawn}");
        let widest = drawn.lines().map(|line| line.trim_end().chars().count()).max();
        assert!(widest <= Some(80), "{widest:?} {drawn}");
    }

    /// Work of a millisecond ended before the thread that turns the bar had drawn it.
    #[test]
    fn what_turns_is_there_at_once() {
        let screen = Screen::default();
        let target = ProgressDrawTarget::term_like(Box::new(screen.clone()));
        let bar = turn(bar_on(target, 0, "solving"));
        assert!(screen.0.lock().unwrap().contains("solving"));
        bar.finish_and_clear();
    }

    #[test]
    fn a_record_keeps_no_password() {
        assert_eq!(without_secret("http://me:secret@host:1/a@b"), "http://host:1/a@b");
        assert_eq!(without_secret("http://host/me@home"), "http://host/me@home");
        assert_eq!(without_secret("http://me:secret@host?x=1@b"), "http://host?x=1@b");
        assert_eq!(without_secret("--clients"), "--clients");
        let slash = "--db=postgresql://me:se/cret@host/db";
        assert_eq!(without_secret(slash), "--db=postgresql://me@host/db");
        assert_eq!(without_secret("postgres://me:se@c/r@host/db"), "postgres://me@c/r@host/db");
        let url = "postgresql://me@host/db?password=hidden&x=1";
        assert_eq!(without_secret(url), "postgresql://me@host/db?&x=1");
        assert_eq!(without_secret("postgres://:secret@host/db"), "postgres://host/db");
    }
}
