//! Folders on other disks that a server is lent: for tablespaces, and for its log.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::account::Account;
use crate::folder;
use crate::private::{Keep, StartError};
use crate::process;
use crate::watchdog::Watchdog;

/// A folder of the server's user somewhere; removed with the server.
#[derive(Debug)]
pub(crate) struct Lent {
    path: PathBuf,
    /// Removes it if we do not, as far as the server's user may.
    _watchdog: Watchdog,
}

impl Lent {
    pub(crate) fn new(
        parent: &Path,
        keep: Keep,
        account: Option<&Account>,
    ) -> Result<Lent, StartError> {
        let system = |what: &str| {
            let what = format!("{what} {}", parent.display());
            move |source: io::Error| StartError::System { what, source }
        };
        let parent = fs::canonicalize(parent).map_err(system("use the folder"))?;
        let path = folder::make(&parent).map_err(system("make a folder in"))?;
        let given = account.map_or(Ok(()), |to| process::give(&path, to.user, to.group));
        let lent = given
            .and_then(|()| Watchdog::new(&path, keep, account))
            .map(|watchdog| Lent { path: path.clone(), _watchdog: watchdog });
        lent.map_err(|source| {
            // The error in hand is the one that matters.
            let _ = folder::remove(&path);
            system("lend a folder in")(source)
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn remove(&self) -> io::Result<()> {
        folder::remove(&self.path)
    }
}
