//! Names of hosts that had no address when the gate was told of them: they are asked for again, so that a
//! name that is there later brings its database back without anybody's doing.

use std::sync::{Arc, Mutex};

use gatefile::{AGAIN, Disk, Files, GateFile, to_monitor};
use monitor::{Address, Config, Handle, ReloadError};
use pgwire::secrets::MockKey;

/// The file as it was read last, and the hosts in it that had no address then.
#[derive(Debug)]
pub(super) struct Names {
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
        Names { missing: missing.collect(), file }
    }

    /// A configuration in which names have addresses that had none; none if there is no such name. What
    /// else the file says is as it was read last.
    fn found(&mut self, files: &dyn Files, key: &MockKey) -> Option<Config> {
        let is_there = |(host, port): &(String, u16)| files.address(host, *port).is_ok();
        if !self.missing.iter().any(is_there) {
            return None;
        }
        let config = to_monitor(&self.file, files, key).ok()?;
        *self = Names::new(self.file.clone(), &config);
        Some(config)
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
        let found = names.lock().map(|mut names| names.found(&Disk, key));
        let Ok(found) = found else { return };
        let Some(mut config) = found else { continue };
        let taken = finish(&mut config).and_then(|()| match handle.reload(config) {
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

    use super::*;
    use gatefile::{read, unresolved};

    /// A machine on which a name has an address from some moment on.
    struct Later(Cell<bool>);

    impl Files for Later {
        fn text(&self, _: &Path) -> Result<String, String> {
            Ok(String::new())
        }

        fn stands(&self, _: &Path) -> Result<(), String> {
            Ok(())
        }

        fn address(&self, host: &str, port: u16) -> Result<SocketAddr, String> {
            assert_eq!(host, "db.example");
            let address = SocketAddr::from(([127, 0, 0, 9], port));
            if self.0.get() { Ok(address) } else { Err("not known".into()) }
        }
    }

    #[test]
    fn a_name_without_an_address_puts_out_its_database_alone_until_it_has_one() {
        let text = "format = 1\nlisten = [\"127.0.0.1:0\"]\n\
                    [[database]]\nname = \"a\"\nserver = [{ host = \"db.example\", port = 5433 }]\n\
                    [[database]]\nname = \"b\"\nserver = [{ host = \"127.0.0.1\", port = 5434 }]\n";
        let files = Later(Cell::new(false));
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
