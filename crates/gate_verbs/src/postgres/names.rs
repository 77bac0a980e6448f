//! Names of hosts that had no address when the gate was told of them: they are asked for again, so that a
//! name that is there later brings its database back without anybody's doing.

use std::sync::{Arc, Mutex};

use gatefile::{AGAIN, Disk, Files, GateFile, to_monitor};
use monitor::{Address, Config, Handle, ReloadError};
use pgwire::secrets::MockKey;

/// The file as it was read last, and the hosts in it that had no address then.
#[derive(Debug)]
pub(super) struct Names {
    read: GateFile,
    /// The same with what the console has set since.
    file: GateFile,
    missing: Vec<(String, u16)>,
}

impl Names {
    pub(super) fn new(file: GateFile, config: &Config) -> Names {
        let servers = config.databases.iter().flat_map(|database| &database.servers);
        let missing = servers.filter_map(|server| match server {
            Address::Unresolved { name, port } => Some((name.clone(), *port)),
            _ => None,
        });
        Names { missing: missing.collect(), read: file.clone(), file }
    }

    /// The configuration of the file as it was read last, with these keys of PgBouncer's changed.
    ///
    /// # Errors
    /// If a key cannot have its value, or `finish` says why the gate must not run with it.
    pub(super) fn changed(
        &mut self,
        sets: &[(String, String)],
        files: &dyn Files,
        key: &MockKey,
        finish: impl Fn(&mut Config) -> Result<(), String>,
    ) -> Result<Config, String> {
        let mut file = self.read.clone();
        for (name, value) in sets {
            file = file.with(name, value, files).map_err(|error| error.to_string())?;
        }
        let mut config = to_monitor(&file, files, key).map_err(|error| error.to_string())?;
        finish(&mut config)?;
        let read = self.read.clone();
        *self = Names { read, ..Names::new(file, &config) };
        Ok(config)
    }

    /// A configuration in which names have addresses that had none; none if there is no such name. What
    /// else the file says is as it was read last.
    fn found(&mut self, files: &dyn Files, key: &MockKey) -> Option<Config> {
        let is_there = |(host, port): &(String, u16)| files.address(host, *port).is_ok();
        if !self.missing.iter().any(is_there) {
            return None;
        }
        let config = to_monitor(&self.file, files, key).ok()?;
        let read = self.read.clone();
        *self = Names { read, ..Names::new(self.file.clone(), &config) };
        Some(config)
    }

    /// The same, for a gate to go on with; or why it must not, which is told once.
    fn judged(
        &mut self,
        files: &dyn Files,
        key: &MockKey,
        finish: impl Fn(&mut Config) -> Result<(), String>,
    ) -> Option<Result<Config, String>> {
        let mut config = self.found(files, key)?;
        Some(finish(&mut config).map(|()| config))
    }
}

/// Asks for names again as long as the gate runs. `finish` does to a configuration what is done to each,
/// or says why the gate must not run with it.
pub(super) fn ask_again(
    names: &Arc<Mutex<Names>>,
    handle: &Handle,
    key: &MockKey,
    finish: impl Fn(&mut Config) -> Result<(), String>,
    tell: impl Fn(&str),
) {
    loop {
        std::thread::sleep(AGAIN);
        let judged = names.lock().map(|mut names| names.judged(&Disk, key, &finish));
        let Ok(judged) = judged else { return };
        let Some(judged) = judged else { continue };
        let taken = judged.and_then(|config| match handle.reload(config) {
            Err(ReloadError::Ended) => Ok(false),
            other => other.map(|_| true).map_err(|error| error.to_string()),
        });
        match taken {
            Ok(true) => tell("a host has an address now that had none"),
            Ok(false) => return,
            Err(cause) => tell(&cause),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::net::SocketAddr;
    use std::path::Path;

    use super::super::from_file::reached;
    use super::*;
    use gatefile::{read, unresolved};

    /// A machine on which a name has an address from some moment on.
    struct Later(Cell<bool>, [u8; 4]);

    impl Files for Later {
        fn text(&self, _: &Path) -> Result<String, String> {
            Ok(String::new())
        }

        fn stands(&self, _: &Path) -> Result<(), String> {
            Ok(())
        }

        fn address(&self, host: &str, port: u16) -> Result<SocketAddr, String> {
            assert_eq!(host, "db.example");
            let address = SocketAddr::from((self.1, port));
            if self.0.get() { Ok(address) } else { Err("not known".into()) }
        }
    }

    /// Asks the decision, and connects nowhere. A name without an address passes when the gate starts, and
    /// what it turns out to be is judged before anybody connects there.
    #[test]
    fn a_name_that_turns_out_to_be_public_is_asked_for_as_any_other() {
        let text = "format = 1\nlisten = [\"127.0.0.1:0\"]\n\
                    [[database]]\nname = \"a\"\nserver = [{ host = \"db.example\", port = 5433 }]\n";
        let key = MockKey::new([7; 32]);
        for (address, public, passes) in
            [([203, 0, 113, 9], 0, false), ([203, 0, 113, 9], 1, true), ([10, 0, 0, 9], 0, true)]
        {
            let files = Later(Cell::new(false), address);
            let file = read("g.toml", text, &files).unwrap().file;
            let config = to_monitor(&file, &files, &key).expect("its name may be there later");
            assert!(reached(&config, 0).is_ok(), "nobody knows yet where it is");
            let mut names = Names::new(file, &config);
            let mut look = || {
                names.judged(&files, &key, |config| {
                    reached(config, public).map_err(|failure| failure.to_string())
                })
            };
            assert!(look().is_none());
            files.0.set(true);
            match look().expect("it is there now") {
                Ok(config) => {
                    assert!(passes, "{address:?} with --public {public} times");
                    assert!(unresolved(&config).is_empty());
                }
                Err(why) => {
                    assert!(!passes, "{address:?} with --public {public} times: {why}");
                    let says = why.contains("db.example") && why.contains("203.0.113.9");
                    assert!(says && why.contains("`--public` says"), "{why}");
                }
            }
            assert!(look().is_none(), "it is told once");
        }
    }

    #[test]
    fn a_name_without_an_address_puts_out_its_database_alone_until_it_has_one() {
        let text = "format = 1\nlisten = [\"127.0.0.1:0\"]\n\
                    [[database]]\nname = \"a\"\nserver = [{ host = \"db.example\", port = 5433 }]\n\
                    [[database]]\nname = \"b\"\nserver = [{ host = \"127.0.0.1\", port = 5434 }]\n";
        let files = Later(Cell::new(false), [127, 0, 0, 9]);
        let file = read("g.toml", text, &files).unwrap().file;
        let key = MockKey::new([7; 32]);
        let config = to_monitor(&file, &files, &key).expect("b is served");
        let told = unresolved(&config);
        assert!(told.len() == 1 && told[0].contains("database `a`: there is no host db.example"));
        let mut names = Names::new(file, &config);
        assert!(names.found(&files, &key).is_none());
        files.0.set(true);
        let config = names.found(&files, &key).expect("it is there now");
        let address = SocketAddr::from(([127, 0, 0, 9], 5433));
        let found = Address::Host { name: "db.example".into(), address };
        assert_eq!(config.databases[0].servers, [found]);
        assert!(unresolved(&config).is_empty());
        assert!(names.found(&files, &key).is_none(), "nothing is missing any more");
    }
}
