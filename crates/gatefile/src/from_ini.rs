//! PgBouncer's file as a configuration of ours: each key by its row of the list, defaults as
//! PgBouncer has them.

use std::collections::BTreeMap;

use formats::exchange::suggest;
use toml::{Table, Value};

use super::config::GateFile;
use super::convert::{from_ini, shown};
use super::ini::{Entries, Entry, Place, connection};
use super::keys::{Key, Section, Unit, Verdict};
use super::{FORMAT, FileError, Unsupported};

/// A translated file of PgBouncer.
#[derive(Debug)]
pub(super) struct FromIni {
    pub(super) file: GateFile,
    /// The place of each key of ours, by its path.
    pub(super) places: BTreeMap<String, Place>,
    /// Keys that do nothing yet.
    pub(super) unsupported: Vec<Unsupported>,
    /// Keys left out because something better stands in their place, in sentences.
    pub(super) replaced: Vec<String>,
}

/// Reads what the lines mean.
pub(super) fn convert(name: &str, entries: &Entries) -> Result<FromIni, FileError> {
    let mut reading = Reading {
        table: Table::new(),
        places: BTreeMap::new(),
        unsupported: Vec::new(),
        replaced: Vec::new(),
    };
    let general: BTreeMap<&str, &Entry> =
        of(entries, Section::Pgbouncer).map(|entry| (&*entry.key, entry)).collect();
    for entry in general.values() {
        known(Section::Pgbouncer, &entry.key).map_err(|cause| entry.place.error(cause))?;
    }
    for key in Section::Pgbouncer.keys() {
        reading.general(key, general.get(key.name).copied())?;
    }
    reading.listen(&general)?;
    let socket = reading.socket(&general)?;
    for (index, entry) in of(entries, Section::Databases).enumerate() {
        reading.database(index, entry, socket.as_deref())?;
    }
    for (index, entry) in of(entries, Section::Users).enumerate() {
        let mut user = Table::new();
        user.insert("name".into(), Value::String(entry.key.clone()));
        reading.settings(Section::Users, index, entry, &mut user)?;
        reading.push("user", index, &entry.place, user);
    }
    for entry in of(entries, Section::Peers) {
        reading.settings(Section::Peers, 0, entry, &mut Table::new())?;
    }
    reading.table.insert("format".into(), Value::Integer(FORMAT.into()));
    let file: Result<GateFile, _> = Value::Table(reading.table).try_into();
    let file = file.map_err(|error| FileError::new(format!("{name}: {}", error.message())))?;
    let Reading { places, unsupported, replaced, .. } = reading;
    Ok(FromIni { file, places, unsupported, replaced })
}

fn of(entries: &Entries, section: Section) -> impl Iterator<Item = &Entry> {
    entries.all.iter().filter(move |entry| entry.section == section)
}

fn known(section: Section, name: &str) -> Result<&'static Key, String> {
    section.key(name).ok_or_else(|| {
        let known = section.keys().iter().map(|key| key.name);
        format!("unknown key `{}`; {}", shown(name), suggest(name, known))
    })
}

/// Puts a value at a path with points between its names; none is none there.
pub(super) fn set(table: &mut Table, path: &str, value: Option<Value>) {
    match (path.split_once('.'), value) {
        (None, None) => {
            table.remove(path);
        }
        (None, Some(value)) => {
            table.insert(path.into(), value);
        }
        (Some((first, rest)), value) => {
            let inner = table.entry(first).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(inner) = inner {
                set(inner, rest, value);
            }
        }
    }
}

struct Reading {
    table: Table,
    places: BTreeMap<String, Place>,
    unsupported: Vec<Unsupported>,
    replaced: Vec<String>,
}

impl Reading {
    /// A key of the section [pgbouncer], whether it was said or not.
    fn general(&mut self, key: &Key, said: Option<&Entry>) -> Result<(), FileError> {
        if let Some(entry) = said {
            self.note(key, &entry.value, &entry.place);
        }
        let Some(path) = key.says else { return Ok(()) };
        if let Some(entry) = said {
            self.places.insert(path.into(), entry.place.clone());
        }
        // Our own question for secrets is the same with schemas; see its row.
        if key.unit == Unit::Apart || (key.name == "auth_query" && said.is_none()) {
            return Ok(());
        }
        let Some(text) = said.map(|entry| &*entry.value).or(key.default) else { return Ok(()) };
        let value = from_ini(key.unit, text);
        let value = value.map_err(|cause| match said {
            Some(entry) => entry.place.error(format!("`{}`: {cause}", key.name)),
            None => FileError::new(format!("`{}`: {cause}", key.name)),
        })?;
        if value.is_some() {
            set(&mut self.table, path, value);
        }
        Ok(())
    }

    /// Notes a key that does nothing yet or is replaced, if it is set and is not PgBouncer's
    /// default.
    fn note(&mut self, key: &Key, value: &str, place: &Place) {
        let said = from_ini(key.unit, value).ok();
        if said.is_some() && said == from_ini(key.unit, key.default.unwrap_or_default()).ok() {
            return;
        }
        match key.verdict() {
            Verdict::NotYet => {
                self.unsupported.push(Unsupported::of(key, place.to_string(), key.name))
            }
            // With none of ours to say it either, what is asked for is left out.
            Verdict::Better if key.says.is_none() || said == Some(None) => {
                self.replaced.push(format!("{place}: `{}`: {}", key.name, key.why));
            }
            Verdict::Better | Verdict::Kept => {}
        }
    }

    fn listen(&mut self, general: &BTreeMap<&str, &Entry>) -> Result<(), FileError> {
        let port = port(general.get("listen_port").copied(), "6432")?;
        let Some(entry) = general.get("listen_addr") else { return Ok(()) };
        let addresses = entry.value.split(',').map(str::trim).filter(|one| !one.is_empty());
        let listen = addresses.map(|address| {
            let is_v6 = address.parse::<std::net::Ipv6Addr>().is_ok();
            let host = if is_v6 { format!("[{address}]") } else { address.to_owned() };
            Value::String(format!("{host}:{port}"))
        });
        self.table.insert("listen".into(), Value::Array(listen.collect()));
        self.places.insert("listen".into(), entry.place.clone());
        Ok(())
    }

    /// The socket in the file system, and its directory, which servers without a host have too.
    fn socket(&mut self, general: &BTreeMap<&str, &Entry>) -> Result<Option<String>, FileError> {
        let text = |name: &str| {
            let default = Section::Pgbouncer.key(name).and_then(|key| key.default);
            general.get(name).map_or(default.unwrap_or_default(), |entry| &*entry.value)
        };
        let directory = text("unix_socket_dir");
        if directory.is_empty() {
            return Ok(None);
        }
        let port = port(general.get("listen_port").copied(), "6432")?;
        let mut socket = Table::new();
        socket.insert("directory".into(), Value::String(directory.into()));
        socket.insert("port".into(), Value::Integer(port.into()));
        socket.insert("mode".into(), Value::String(text("unix_socket_mode").into()));
        let group = text("unix_socket_group");
        if !group.is_empty() {
            socket.insert("group".into(), Value::String(group.into()));
        }
        self.table.insert("unix-socket".into(), Value::Table(socket));
        Ok(Some(directory.to_owned()))
    }

    fn database(
        &mut self,
        index: usize,
        entry: &Entry,
        socket: Option<&str>,
    ) -> Result<(), FileError> {
        let mut database = Table::new();
        database.insert("name".into(), Value::String(entry.key.clone()));
        let pairs = self.settings(Section::Databases, index, entry, &mut database)?;
        let said = |key: &str| pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value);
        let port = match said("port") {
            None => super::config::server_port(),
            Some(text) => port_of(text).map_err(|cause| entry.place.error(cause))?,
        };
        let hosts: Vec<&str> = match (said("host"), socket) {
            (Some(hosts), _) => hosts.split(',').map(str::trim).collect(),
            (None, Some(directory)) => vec![directory],
            (None, None) => {
                return Err(entry.place.error(
                    "the database has no `host`, and `unix_socket_dir` is empty; say one of them",
                ));
            }
        };
        let servers = hosts.iter().map(|host| {
            let mut server = Table::new();
            server.insert("host".into(), Value::String((*host).into()));
            server.insert("port".into(), Value::Integer(port.into()));
            Value::Table(server)
        });
        database.insert("server".into(), Value::Array(servers.collect()));
        self.push("database", index, &entry.place, database);
        Ok(())
    }

    /// The pairs of an entry; those that one of our keys says stand in `table` too.
    fn settings(
        &mut self,
        section: Section,
        index: usize,
        entry: &Entry,
        table: &mut Table,
    ) -> Result<Vec<(String, String)>, FileError> {
        let wrong = |cause: String| entry.place.error(format!("`{}`: {cause}", shown(&entry.key)));
        let pairs = connection(&entry.value).map_err(wrong)?;
        for (name, text) in &pairs {
            let key = known(section, name).map_err(wrong)?;
            self.note(key, text, &entry.place);
            let Some(path) = key.says.filter(|_| key.unit != Unit::Apart) else { continue };
            let value = from_ini(key.unit, text);
            let value = value.map_err(|cause| wrong(format!("`{name}`: {cause}")))?;
            if value.is_some() {
                set(table, path, value);
            }
        }
        if section == Section::Peers && pairs.is_empty() {
            self.unsupported.extend(
                section
                    .key("host")
                    .map(|key| Unsupported::of(key, entry.place.to_string(), "peers")),
            );
        }
        if section == Section::Databases {
            self.places.insert(format!("database.{index}"), entry.place.clone());
        }
        Ok(pairs)
    }

    fn push(&mut self, kind: &str, index: usize, place: &Place, table: Table) {
        self.places.insert(format!("{kind}.{index}"), place.clone());
        let all = self.table.entry(kind).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(all) = all {
            all.push(Value::Table(table));
        }
    }
}

fn port(said: Option<&Entry>, default: &str) -> Result<u16, FileError> {
    match said {
        None => port_of(default).map_err(FileError::new),
        Some(entry) => port_of(&entry.value).map_err(|cause| entry.place.error(cause)),
    }
}

fn port_of(text: &str) -> Result<u16, String> {
    let port = text.parse::<u16>().ok().filter(|port| *port > 0);
    port.ok_or_else(|| format!("`{}` is no port from 1 to 65535", shown(text)))
}
