//! A file of JSON lines that grows, as a source of messages: the paper's table of prices, without a client.
//!
//! Each line is a message. Its id is its place in the file, so that a line that is offered again is the same
//! message; the place up to which all lines are accepted is kept beside the notifications.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agents::MessageId;
use agents_rules::Message;

use crate::http::Gateway;
use crate::ids::message_id;

/// Pause between two looks at a file that had nothing new.
const EVERY: Duration = Duration::from_millis(200);
/// Pause before lines are offered again that there was no room for.
const AGAIN: Duration = Duration::from_millis(100);
/// Bytes that are read at once: a longer line is refused.
const PART: u64 = 1 << 20;
/// Bytes by which a file is known again.
const TAIL: usize = 64;
/// Most lines that are offered at once.
const LINES_MAX: usize = 1_000;

/// A file whose lines are messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSpec {
    /// The message of the rules: each line is an object of its fields.
    pub message: String,
    /// The file. It may come later, and may be replaced by another one.
    pub file: PathBuf,
}

/// A place in a file, which may be replaced by another of the same name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    device: u64,
    inode: u64,
    /// Times that a file was begun: one that was cut and written anew may have the inode and the places of the one before.
    begun: u64,
    /// Bytes before it.
    offset: u64,
}

impl Place {
    fn text(self) -> String {
        format!("{} {} {} {}", self.device, self.inode, self.begun, self.offset)
    }

    fn read(text: &str) -> Option<Place> {
        let numbers: Option<Vec<u64>> =
            text.split_whitespace().map(|word| word.parse().ok()).collect();
        let [device, inode, begun, offset] = numbers?[..] else { return None };
        Some(Place { device, inode, begun, offset })
    }
}

/// A part of a file: whole lines, each with its place.
#[derive(Debug, Default)]
struct Part {
    lines: Vec<(Place, Vec<u8>)>,
    /// The place of a line that is too long.
    too_long: Option<Place>,
}

/// A source that is read.
#[derive(Debug)]
pub(crate) struct Source {
    spec: SourceSpec,
    /// File of the place; `None` for memory.
    mark: Option<PathBuf>,
    place: Place,
    /// The bytes before the place, as many as there are of [`TAIL`]: a file that has others there was written anew.
    tail: Vec<u8>,
    /// In the midst of a line that is too long.
    is_skipping: bool,
    /// The cause why it could not be read at the last look, so that it is told once.
    error: Option<String>,
}

impl Source {
    /// A source from where it stopped, or from the beginning of the file.
    ///
    /// # Errors
    /// The place cannot be read, or is none.
    pub(crate) fn open(spec: SourceSpec, directory: Option<&Path>) -> io::Result<Source> {
        let name = message_id(&["source", &spec.message, &spec.file.to_string_lossy()]);
        let mark = directory.map(|directory| directory.join(format!("source-{:032x}", name.0)));
        let known = match mark.as_ref().map(fs::read_to_string) {
            Some(Ok(text)) => Some(text),
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Some(Err(_)) | None => None,
        };
        let (place, tail) = match (&mark, known) {
            (Some(mark), Some(text)) => marked(&text).ok_or_else(|| {
                io::Error::other(format!(
                    "{} is no place in a source as this version keeps it; remove it, and {} is read from its \
                     beginning, with the lines that were accepted already",
                    mark.display(),
                    spec.file.display()
                ))
            })?,
            _ => Default::default(),
        };
        Ok(Source { spec, mark, place, tail, is_skipping: false, error: None })
    }

    /// Offers the lines of the file as they come, until the server closes.
    pub(crate) async fn run(mut self, gateway: Arc<Gateway>) {
        while !gateway.is_closing.load(Ordering::Relaxed) {
            let read = tokio::task::spawn_blocking(move || {
                let part = self.part();
                (self, part)
            });
            // It ends with the runtime alone.
            let Ok((own, part)) = read.await else { return };
            self = own;
            let error = part.as_ref().err().map(io::Error::to_string);
            let before = std::mem::replace(&mut self.error, error.clone());
            match part {
                Ok(part) if part.lines.is_empty() && part.too_long.is_none() => {
                    tokio::time::sleep(EVERY).await;
                }
                Ok(part) => {
                    if !self.accept(part, &gateway).await {
                        return;
                    }
                }
                Err(cause) => {
                    if error != before {
                        self.told(&gateway, None, &cause.to_string());
                    }
                    tokio::time::sleep(EVERY).await;
                }
            }
        }
    }

    /// The next whole lines. What the file does not have yet is no line.
    fn part(&mut self) -> io::Result<Part> {
        let mut file = match File::open(&self.spec.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Part::default()),
            file => file?,
        };
        let is = file.metadata()?;
        let is_other = (is.dev(), is.ino()) != (self.place.device, self.place.inode);
        if is_other || is.len() < self.place.offset || !self.goes_on(&mut file)? {
            let begun = self.place.begun + 1;
            self.place = Place { device: is.dev(), inode: is.ino(), begun, offset: 0 };
            self.tail.clear();
            self.is_skipping = false;
        }
        file.seek(SeekFrom::Start(self.place.offset))?;
        let mut bytes = Vec::new();
        file.take(PART).read_to_end(&mut bytes)?;
        let mut part = Part::default();
        let mut at = 0;
        while part.lines.len() < LINES_MAX
            && let Some(len) = bytes[at..].iter().position(|byte| *byte == b'\n')
        {
            let place = Place { offset: self.place.offset + at as u64, ..self.place };
            if !std::mem::take(&mut self.is_skipping) {
                part.lines.push((place, bytes[at..at + len].to_vec()));
            }
            at += len + 1;
        }
        if at == 0 && bytes.len() as u64 == PART {
            part.too_long = (!self.is_skipping).then_some(self.place);
            self.is_skipping = true;
            at = bytes.len();
        }
        self.place.offset += at as u64;
        self.tail.extend_from_slice(&bytes[at.saturating_sub(TAIL)..at]);
        self.tail.drain(..self.tail.len().saturating_sub(TAIL));
        Ok(part)
    }

    /// True if a file has before the place what was read there.
    fn goes_on(&self, file: &mut File) -> io::Result<bool> {
        let mut bytes = vec![0; self.tail.len()];
        file.seek(SeekFrom::Start(self.place.offset - bytes.len() as u64))?;
        file.read_exact(&mut bytes)?;
        Ok(bytes == self.tail)
    }

    /// Offers lines until they are accepted, and keeps the place; false if the server closes before.
    async fn accept(&mut self, part: Part, gateway: &Gateway) -> bool {
        let mut messages = Vec::new();
        for (place, line) in &part.lines {
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            match self.message(gateway, line) {
                Ok(message) => {
                    let told = format!("{}, byte {}", self.spec.file.display(), place.offset);
                    messages.push(Offered { message, id: self.id(*place), told });
                }
                Err(cause) => self.told(gateway, Some(*place), &cause),
            }
        }
        if let Some(place) = part.too_long {
            self.told(gateway, Some(place), &format!("a line of more than {PART} bytes"));
        }
        if !offer(gateway, &messages).await {
            return false;
        }
        if let Some(mark) = &self.mark
            && let Err(error) =
                write(mark, &format!("{}\n{}\n", self.place.text(), hex(&self.tail)))
        {
            self.told(gateway, None, &format!("{}: {error}", mark.display()));
        }
        true
    }

    fn message(&self, gateway: &Gateway, line: &[u8]) -> Result<Message, String> {
        let fields = serde_json::from_slice(line).map_err(|error| format!("no JSON: {error}"))?;
        gateway.rules().event(&self.spec.message, &fields).map_err(|error| error.to_string())
    }

    fn id(&self, place: Place) -> MessageId {
        let file = self.spec.file.to_string_lossy();
        message_id(&["line", &self.spec.message, &file, &place.text()])
    }

    /// Counts and keeps what went wrong, at this place of the file or with the file as a whole.
    fn told(&self, gateway: &Gateway, place: Option<Place>, cause: &str) {
        let file = self.spec.file.display();
        let told = match place {
            Some(place) => format!("{file}, byte {}: {cause}", place.offset),
            None => format!("{file}: {cause}"),
        };
        gateway.figures.line_refused(told);
    }
}

/// A message of a source.
pub(crate) struct Offered {
    pub(crate) message: Message,
    pub(crate) id: MessageId,
    /// Its place in the source, for a person.
    pub(crate) told: String,
}

/// Offers messages until all are accepted, or refused for good; false if the server closes before.
pub(crate) async fn offer(gateway: &Gateway, messages: &[Offered]) -> bool {
    let all = messages.iter().map(|it| (it.message.clone(), it.id));
    let mut next = match gateway.take(all.collect()).await {
        Ok(()) => messages.len(),
        // One by one it is known which cannot be.
        Err(_) => 0,
    };
    while let Some(Offered { message, id, told }) = messages.get(next) {
        match gateway.take(vec![(message.clone(), *id)]).await {
            Ok(()) => next += 1,
            Err((false, cause)) => {
                gateway.figures.line_refused(format!("{told}: {cause}"));
                next += 1;
            }
            Err((true, _)) if gateway.is_closing.load(Ordering::Relaxed) => return false,
            Err((true, _)) => tokio::time::sleep(AGAIN).await,
        }
    }
    true
}

/// A place and the bytes before it, as they are kept.
fn marked(text: &str) -> Option<(Place, Vec<u8>)> {
    let (place, tail) = text.trim_end().split_once('\n').unwrap_or((text, ""));
    let byte = |at: usize| tail.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
    let tail: Option<Vec<u8>> = (0..tail.len()).step_by(2).map(byte).collect();
    let (place, tail) = (Place::read(place)?, tail?);
    (tail.len() as u64 <= place.offset).then_some((place, tail))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes a file whole or not at all, durably.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_data()?;
    fs::rename(new, path)
}
