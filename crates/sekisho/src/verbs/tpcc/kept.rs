//! The file of a run: `.sekisho/runs/ID.tpcc.json`, written whole when the run has ended.

use std::path::{Path, PathBuf};

use ::load::tpcc::Record;
use measure::RunRecord;
use serde::{Deserialize, Serialize};

use crate::session::{Session, tool};
use crate::store;
use crate::verdict::Failure;

/// The version of the format that is written and read.
const FORMAT: u32 = 1;

/// A run that was kept.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) record: Record,
    pub(super) id: String,
    /// When it began, UTC, RFC 3339.
    pub(super) started: String,
    /// The words of the command line that made it, without secrets.
    pub(super) command: Vec<String>,
    pub(super) path: PathBuf,
    tool: String,
}

/// What stands in the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(rename = "sekisho-tpcc")]
    format: u32,
    id: String,
    started: String,
    tool: String,
    command: Vec<String>,
    record: Record,
}

/// Where a run that begins now will be kept, and under which name.
pub(super) struct Begun {
    id: String,
    started: String,
}

impl Begun {
    pub(super) fn now() -> Begun {
        Begun { id: store::new_id(), started: store::now_rfc3339() }
    }

    /// Its name.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// When it began, UTC, RFC 3339.
    pub(super) fn started(&self) -> &str {
        &self.started
    }

    /// A file of this run; `ending` as in `deliveries.jsonl`.
    pub(super) fn path(&self, ending: &str) -> Result<PathBuf, Failure> {
        store::path("runs", &format!("{}.{ending}", self.id))
    }

    /// Writes what came of it.
    pub(super) fn keep(self, record: Record, session: &Session) -> Result<Kept, Failure> {
        let path = self.path("tpcc.json")?;
        let document = Document {
            format: FORMAT,
            id: self.id,
            started: self.started,
            tool: tool(),
            command: session.command.clone(),
            record,
        };
        let text = serde_json::to_string(&document).map_err(Failure::machine)?;
        store::write_whole(&path, text + "\n")?;
        let Document { id, started, tool, command, record, .. } = document;
        Ok(Kept { record, id, started, command, path, tool })
    }
}

impl Kept {
    /// Reads a file that [`Begun::keep`] has written.
    pub(super) fn read(path: &Path) -> Result<Kept, Failure> {
        let text = store::read_text(path, "TPC-C record")?;
        parse(&text, path)
    }

    /// The run as a closed load, for what judges, fits and checks such.
    pub(super) fn closed(&self) -> Result<RunRecord, Failure> {
        let closed = self.record.closed();
        let mut run = closed.map_err(|why| {
            Failure::Usage(format!("{} is no closed load: {why}", self.path.display()))
        })?;
        run.header.id.clone_from(&self.id);
        run.header.started.clone_from(&self.started);
        run.header.tool.clone_from(&self.tool);
        run.header.command.clone_from(&self.command);
        Ok(run)
    }
}

/// Whether a file is named as the record of a TPC-C run is.
pub(crate) fn is_record(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.ends_with(".tpcc.json"))
}

/// Reads the record of any run, of TPC-C's transactions without waits too.
pub(crate) fn read_run(path: &Path) -> Result<RunRecord, Failure> {
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
    let document = serde_json::from_str(text).map_err(|error| refuse(error.to_string()))?;
    let Document { id, started, tool, command, record, .. } = document;
    Ok(Kept { record, id, started, command, path: path.to_owned(), tool })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::parse;

    #[test]
    fn what_is_no_record_says_what_one_is() {
        for (text, cause) in [
            ("", "EOF"),
            ("{\"sekisho-tpcc\": 2}", "its format is 2, this program reads 1"),
            ("{\"sekisho-tpcc\": 1, \"record\": 3}", "invalid type"),
            ("{\"sekisho-prediction\": 1}", "missing field `sekisho-tpcc`"),
        ] {
            let error = parse(text, Path::new("some.json")).unwrap_err().to_string();
            assert!(error.starts_with("some.json: it is no record"), "{error}");
            assert!(error.contains(cause) && error.contains("ID.tpcc.json"), "{error}");
        }
    }
}
