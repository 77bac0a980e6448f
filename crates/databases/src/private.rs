//! The private PostgreSQL that a verb starts: which one that is, and what is told while it is looked
//! for.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args as ClapArgs;
use cli::Failure;
use cli::text::sentence;
use postgres::{MAJOR_MAX, MAJOR_MIN, Search, Settings};

use crate::DatabaseArgs;

#[expect(missing_docs, reason = "a comment would become the text of the verb's help")]
#[derive(ClapArgs, Clone, Debug, Default)]
pub struct PrivateArgs {
    /// Which PostgreSQL is started: a release, 14 to 18, or the folder of its programs; left out, the
    /// machine's own, else release 18, which is fetched once
    #[arg(long, value_name = "RELEASE|DIR")]
    postgres: Option<Wanted>,
}

/// The PostgreSQL that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    search: Search,
    /// As it was said.
    word: String,
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Wanted, String> {
        let search = match text.parse() {
            Ok(major) if (MAJOR_MIN..=MAJOR_MAX).contains(&major) => Search::Release(major),
            Ok(_) => return Err(format!("releases {MAJOR_MIN} to {MAJOR_MAX} will do")),
            Err(_) => Search::Folder(programs(Path::new(text))?),
        };
        Ok(Wanted { search, word: text.to_owned() })
    }
}

/// The folder itself, or the one in it where an installation has its programs.
fn programs(folder: &Path) -> Result<PathBuf, String> {
    let inside = folder.join("bin");
    [folder, &inside].into_iter().find(|one| one.join("postgres").is_file()).map_or_else(
        || Err("neither a release such as 15 nor a folder with a program `postgres`".to_owned()),
        |found| std::path::absolute(found).map_err(|error| error.to_string()),
    )
}

impl PrivateArgs {
    /// Settings of a private server with these parameters of its own.
    pub fn settings(
        &self,
        parameters: &[(&str, &str)],
        interrupt: Option<Arc<AtomicBool>>,
    ) -> Settings {
        let parameters = parameters.iter().map(|&(name, value)| (name.into(), value.into()));
        let search = self.postgres.as_ref().map_or(Search::Anywhere, |one| one.search.clone());
        let parameters = parameters.collect();
        Settings { search, parameters, interrupt, notice: tell, ..Settings::default() }
    }

    /// Word that chose it, if any.
    pub fn chosen(&self) -> Option<&str> {
        self.postgres.as_ref().map(|wanted| wanted.word.as_str())
    }

    /// Refuses to choose a private server where none is started.
    pub fn none_beside(&self, database: &DatabaseArgs) -> Result<(), Failure> {
        match &self.postgres {
            Some(Wanted { word, .. }) if database.is_named() => Err(Failure::Usage(format!(
                "`--postgres {word}` chooses a private server, and a database is named (`--db`, \
                 DATABASE_URL, PGHOST ...): leave out one of the two"
            ))),
            _ => Ok(()),
        }
    }
}

/// Tells what takes long before it begins: a download, with its size.
fn tell(line: &str) {
    // Who closed standard error does not want to know.
    let _ = write!(std::io::stderr(), "{}", sentence(line));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_server_is_chosen_by_release_or_folder() {
        let search = |text: &str| text.parse::<Wanted>().map(|wanted| wanted.search);
        assert_eq!(search("15"), Ok(Search::Release(15)));
        assert_eq!(search("18"), Ok(Search::Release(18)));
        assert!(search("13").unwrap_err().contains("14 to 18"));
        assert!(search("/no/such/folder").unwrap_err().contains("`postgres`"));
        let root = std::env::temp_dir().join(format!("sekisho-private-{}", std::process::id()));
        std::fs::create_dir_all(root.join("bin")).unwrap();
        std::fs::write(root.join("bin/postgres"), "").unwrap();
        assert_eq!(search(root.to_str().unwrap()), Ok(Search::Folder(root.join("bin"))));
        assert_eq!(
            search(root.join("bin").to_str().unwrap()),
            Ok(Search::Folder(root.join("bin")))
        );
        std::fs::remove_dir_all(&root).unwrap();
        let args = PrivateArgs { postgres: Some("15".parse().unwrap()) };
        assert_eq!(args.settings(&[], None).search, Search::Release(15));
        assert_eq!(PrivateArgs::default().settings(&[], None).search, Search::Anywhere);
    }
}
