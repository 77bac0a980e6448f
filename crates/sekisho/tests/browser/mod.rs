//! A real browser for tests: opens a page from disk without a window and tells what became of it.
//!
//! A test binary includes it with `#[path = "../browser/mod.rs"] mod browser;`; the tests of the
//! report itself and of its sliders come with it.

mod devtools;
mod report;
mod sliders;

pub(crate) use devtools::Driven;

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// The names under which Chromium is installed, in the order of trial.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A page is small; a browser that needs longer hangs. A slow machine has ten times what it needs.
const PATIENCE: Duration = Duration::from_secs(90);

/// Theme that is asked of pages that adapt to the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Theme {
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}

/// A page after its scripts have run.
#[derive(Debug)]
pub(crate) struct Page {
    /// The document as it stands then.
    pub(crate) dom: String,
    /// Log of the browser, console messages included.
    pub(crate) log: String,
}

impl Page {
    /// The value of `data-<name>` of the root element.
    pub(crate) fn root_data(&self, name: &str) -> Option<&str> {
        let (_, rest) = self.dom.split_once("<html")?;
        let (root, _) = rest.split_once('>')?;
        let (_, value) = root.split_once(&format!("data-{name}=\""))?;
        value.split_once('"').map(|(value, _)| value)
    }

    /// The lines of the log that a script of the page caused.
    pub(crate) fn script_messages(&self) -> Vec<&str> {
        self.log.lines().filter(|line| line.contains("CONSOLE")).collect()
    }
}

/// A directory of its own that is gone afterwards.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("sekisho-browser-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("the temporary directory must be writable");
        Scratch(path)
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A browser that is just ending may still hold a file; the system's temporary directory
        // then keeps it, which harms no test.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Keeps `bytes` for a person to look at, where one asked for it.
pub(crate) fn keep(name: &str, bytes: &[u8]) {
    if let Some(directory) = env::var_os("SEKISHO_SCREENSHOTS") {
        fs::create_dir_all(&directory).expect("the directory for screenshots must be writable");
        fs::write(Path::new(&directory).join(name), bytes).expect("a screenshot can be written");
    }
}

/// Opens the file and returns what became of it.
pub(crate) fn open(file: &Path, (width, height): (u32, u32)) -> Page {
    let window = format!("--window-size={width},{height}");
    let (dom, log) = run(Theme::Light, [window.into(), "--dump-dom".into(), url(file)]);
    Page { dom, log }
}

/// Takes a picture of the upper left of the page, as PNG, and returns its bytes.
pub(crate) fn screenshot(file: &Path, (width, height): (u32, u32), theme: Theme) -> Vec<u8> {
    let scratch = Scratch::new();
    let picture = scratch.join("page.png");
    let window = format!("--window-size={width},{height}");
    let mut target = OsString::from("--screenshot=");
    target.push(&picture);
    let (_, log) = run(theme, [window.into(), "--hide-scrollbars".into(), target, url(file)]);
    fs::read(&picture).unwrap_or_else(|error| panic!("no screenshot: {error}\n{log}"))
}

/// Prints the page and returns the bytes of the PDF.
pub(crate) fn print(file: &Path) -> Vec<u8> {
    let scratch = Scratch::new();
    let paper = scratch.join("page.pdf");
    let mut target = OsString::from("--print-to-pdf=");
    target.push(&paper);
    // A reader with a dark screen still has white paper.
    let (_, log) = run(Theme::Dark, ["--no-pdf-header-footer".into(), target, url(file)]);
    fs::read(&paper).unwrap_or_else(|error| panic!("nothing was printed: {error}\n{log}"))
}

/// A page that shows `html` in a frame `width` px wide. A browser's window cannot be as narrow as a
/// phone, a frame can. When the frame has loaded, its root's `data-*` become those of this page.
pub(crate) fn framed(html: &str, width: u32, height: u32) -> String {
    let source = html.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<!DOCTYPE html><html><meta charset=\"utf-8\">\
         <style>body{{margin:0}}iframe{{border:0}}</style>\
         <iframe width=\"{width}\" height=\"{height}\" srcdoc=\"{source}\" onload=\"\
         Object.assign(document.documentElement.dataset,\
         this.contentDocument.documentElement.dataset)\"></iframe></html>"
    )
}

fn url(file: &Path) -> OsString {
    let mut url = OsString::from("file://");
    url.push(file.canonicalize().expect("the page must exist"));
    url
}

/// The browser's program.
fn program() -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = env::split_paths(&path).collect();
    NAMES
        .iter()
        .flat_map(|name| places.iter().map(move |place| place.join(name)))
        .find(|candidate| candidate.is_file())
        .unwrap_or_else(|| {
            panic!(
                "this test needs a browser, and none of {NAMES:?} is on PATH; run:\n    \
                 sudo apt-get install --yes chromium"
            )
        })
}

/// Runs the browser once and returns what it wrote to its output and to its log.
fn run<const N: usize>(theme: Theme, arguments: [OsString; N]) -> (String, String) {
    let profile = Scratch::new();
    let mut user_data = OsString::from("--user-data-dir=");
    user_data.push(profile.join("profile"));
    let mut command = Command::new(program());
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-extensions",
        "--enable-logging=stderr",
        "--v=0",
        "--virtual-time-budget=5000",
    ]);
    if theme == Theme::Dark {
        command.arg("--blink-settings=preferredColorScheme=0");
    }
    command.arg(user_data).args(arguments);
    let mut browser = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the browser must start");
    let output = drain(browser.stdout.take().expect("piped above"));
    let log = drain(browser.stderr.take().expect("piped above"));
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = browser.try_wait().expect("the browser is our child") {
            break status;
        }
        if Instant::now() > deadline {
            browser.kill().expect("the browser is our child");
            browser.wait().expect("the browser is our child");
            panic!("the browser did not end within {PATIENCE:?}");
        }
        thread::sleep(Duration::from_millis(20));
    };
    let [output, log] = [output, log].map(|reader| reader.join().expect("a reader cannot fail"));
    assert!(status.success(), "the browser ended with {status}:\n{log}");
    (output, log)
}

/// Reads a pipe to its end beside the others, so that none of them fills up.
fn drain(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("a pipe can be read until it closes");
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
