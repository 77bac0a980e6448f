//! The file of a run: `.sekisho/runs/ID.tpcc.json`, made when the run begins and written whole when it has ended.

use std::path::{Path, PathBuf};

use ::tpcc::Record;
use cli::{Failure, Session, store, tool};
use measure::RunRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::verified::Verified;

/// The version of the format that is written and read.
const FORMAT: u32 = 1;

/// A run that was kept: what stands in the file, and where that is.
#[derive(Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// Version of the format.
    #[serde(rename = "sekisho-tpcc")]
    format: u32,
    /// Name by which it is stored.
    pub id: String,
    /// When it began, UTC, RFC 3339.
    pub(super) started: String,
    /// Program and version that made it.
    tool: String,
    /// The words of the command line that made it, without secrets.
    pub(super) command: Vec<String>,
    /// Record of the run.
    pub record: Record,
    /// Checks of the database afterwards, if it was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) verified: Option<Verified>,
    /// The file.
    #[serde(skip)]
    pub path: PathBuf,
}

/// Name and place of a run that begins now. Its record's file is there from the beginning, so that no file of another run
/// has the same name, and goes again if nothing is written to it.
pub(super) struct Begun {
    id: String,
    started: String,
    /// The record's file, empty so far.
    path: PathBuf,
}

impl Begun {
    /// A run whose record is the file with this ending.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub(super) fn now(ending: &str) -> Result<Begun, Failure> {
        let (id, path) = store::claimed("runs", &store::new_id(), ending)?;
        Ok(Begun { id, started: store::now_rfc3339(), path })
    }

    /// A run of TPC-C's transactions.
    ///
    /// # Errors
    /// If its file cannot be made.
    pub(super) fn run() -> Result<Begun, Failure> {
        Begun::now("tpcc.json")
    }

    /// Its name.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// When it began, UTC, RFC 3339.
    pub(super) fn started(&self) -> &str {
        &self.started
    }

    /// Its record's file.
    pub(super) fn record(&self) -> &Path {
        &self.path
    }

    /// Another file of this run; `ending` as in `deliveries.jsonl`.
    pub(super) fn path(&self, ending: &str) -> Result<PathBuf, Failure> {
        store::path("runs", &format!("{}.{ending}", self.id))
    }

    /// Writes what came of it.
    pub(super) fn keep(self, record: Record, session: &Session) -> Result<Kept, Failure> {
        let kept = Kept {
            path: self.path.clone(),
            format: FORMAT,
            id: self.id.clone(),
            started: self.started.clone(),
            tool: tool(),
            command: session.command.clone(),
            record,
            verified: None,
        };
        kept.write()?;
        Ok(kept)
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if std::fs::metadata(&self.path).is_ok_and(|metadata| metadata.len() == 0) {
            // An empty file that cannot be removed does no harm.
            std::fs::remove_file(&self.path).ok();
        }
    }
}

impl Kept {
    /// Reads a file that [`Begun::keep`] has written.
    pub(super) fn read(path: &Path) -> Result<Kept, Failure> {
        let text = store::read_text(path, "TPC-C record")?;
        parse(&text, path)
    }

    /// Writes down what was found in the database afterwards.
    pub(super) fn note(&mut self, verified: Option<Verified>) -> Result<(), Failure> {
        if verified.is_some() {
            self.verified = verified;
            self.write()?;
        }
        Ok(())
    }

    fn write(&self) -> Result<(), Failure> {
        let text = serde_json::to_string(self).map_err(Failure::defect)?;
        store::write_whole(&self.path, text + "\n")
    }

    /// The run as a closed load, for what judges, fits and checks such.
    ///
    /// # Errors
    /// The terminals of the run keyed and thought, or nothing was measured.
    pub fn closed(&self) -> Result<RunRecord, Failure> {
        let closed = self.record.closed();
        let mut run = closed.map_err(|why| {
            let page = "`sekisho tpcc report` makes a page of it";
            Failure::Usage(format!("{} is no closed load: {why}; {page}", self.path.display()))
        })?;
        run.header.id.clone_from(&self.id);
        run.header.started.clone_from(&self.started);
        run.header.tool.clone_from(&self.tool);
        run.header.command.clone_from(&self.command);
        Ok(run)
    }
}

/// True if a file is named as the record of a TPC-C run is.
pub fn is_record(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.ends_with(".tpcc.json"))
}

/// Reads the record of any run, of TPC-C's transactions without waits too.
///
/// # Errors
/// The file cannot be read, is no record, or is one of terminals that keyed and thought.
pub fn read_run(path: &Path) -> Result<RunRecord, Failure> {
    if is_record(path) { Kept::read(path)?.closed() } else { store::read_run(path) }
}

fn parse(text: &str, path: &Path) -> Result<Kept, Failure> {
    let refuse = |cause: String| {
        let name = path.display();
        Failure::Usage(format!(
            "{name}: it is no record of a TPC-C run ({cause}): give a file that `tpcc run` or \
             `tpcc stress` has written, .sekisho/runs/ID.tpcc.json"
        ))
    };
    /// The part that every version has.
    #[derive(Deserialize)]
    struct Version {
        #[serde(rename = "sekisho-tpcc")]
        format: u32,
    }
    let Version { format } = serde_json::from_str(text).map_err(|e| refuse(e.to_string()))?;
    if format != FORMAT {
        let cause = format!("its format is {format}, this program reads {FORMAT}");
        return Err(refuse(cause));
    }
    let kept: Kept = serde_json::from_str(text).map_err(|error| refuse(error.to_string()))?;
    Ok(Kept { path: path.to_owned(), ..kept })
}
