//! A configuration of ours as a file of PgBouncer; what cannot be said there becomes comments.

use std::fmt::Write;

use toml::{Table, Value};

use super::config::GateFile;
use super::convert::to_ini;
use super::ini::{connection_value, line_key};
use super::keys::{Section, Unit};
use super::written::{fits_in_comment, table_of};

/// The text of the file.
pub(super) fn write(file: &GateFile) -> String {
    let mut table = table_of(file);
    let defaults = table_of(&GateFile::default());
    let mut lines = Lines { text: String::new(), unsaid: Vec::new() };
    let general = general(&mut table, &defaults, &mut lines.unsaid);
    let databases = names(Section::Databases, &mut table, &mut lines.unsaid);
    let users = names(Section::Users, &mut table, &mut lines.unsaid);
    for (key, value) in &table {
        if key != "format" && defaults.get(key) != Some(value) {
            unsaid(&mut lines.unsaid, key, value, defaults.get(key));
        }
    }
    if !lines.unsaid.is_empty() {
        lines.add("; PgBouncer has nothing that says:");
        for line in std::mem::take(&mut lines.unsaid) {
            lines.add(&format!(";   {}", fits_in_comment(&line)));
        }
        lines.add("");
    }
    for (section, entries) in [("databases", databases), ("users", users), ("pgbouncer", general)] {
        if !entries.is_empty() {
            lines.add(&format!("[{section}]"));
            entries.iter().for_each(|entry| lines.add(entry));
            lines.add("");
        }
    }
    lines.text.truncate(lines.text.trim_end().len());
    lines.text.push('\n');
    lines.text
}

struct Lines {
    text: String,
    unsaid: Vec<String>,
}

impl Lines {
    fn add(&mut self, line: &str) {
        // Writing to a string does not fail.
        writeln!(self.text, "{line}").ok();
    }
}

/// The lines of [pgbouncer]; what they say is taken out of the table.
fn general(table: &mut Table, defaults: &Table, unsaid: &mut Vec<String>) -> Vec<String> {
    let mut lines = listen(table, unsaid);
    for key in Section::Pgbouncer.keys() {
        let Some(path) = key.says.filter(|_| key.unit != Unit::Apart) else { continue };
        let Some(value) = at(table, path) else {
            // What is not said here means none, which is 0 there.
            if key.unit == Unit::CountOrNone && key.default.is_some_and(|default| default != "0") {
                lines.push(format!("{} = 0", key.name));
            }
            continue;
        };
        let text = to_ini(key.unit, value);
        let is_ours = key.name == "auth_query" && at(defaults, path) == Some(value);
        if let Some(text) = text {
            take(table, path);
            if !is_ours && Some(&*text) != key.default.or(Some("")) {
                lines.push(format!("{} = {text}", key.name));
            }
        }
    }
    lines
}

/// PgBouncer listens at one port on all addresses and on its socket.
fn listen(table: &mut Table, unsaid: &mut Vec<String>) -> Vec<String> {
    let socket = table.remove("unix-socket");
    let socket_port = socket.as_ref().and_then(|socket| socket.get("port")?.as_integer());
    let listen = table.remove("listen");
    let listen = listen.as_ref().and_then(Value::as_array).cloned().unwrap_or_default();
    let mut port = socket_port.map(|port| port.to_string());
    let mut addresses: Vec<String> = Vec::new();
    for address in listen.iter().filter_map(Value::as_str) {
        let (host, its) = address.rsplit_once(':').unwrap_or((address, "6432"));
        if port.as_deref().is_some_and(|port| port != its) {
            unsaid.push(format!("listen: {address}, a second port"));
            continue;
        }
        port = Some(its.to_owned());
        addresses.push(host.trim_start_matches('[').trim_end_matches(']').to_owned());
    }
    let mut lines = Vec::new();
    if !addresses.is_empty() {
        lines.push(format!("listen_addr = {}", addresses.join(", ")));
    }
    lines.extend(port.filter(|port| port != "6432").map(|port| format!("listen_port = {port}")));
    let part = |name: &str| socket.as_ref().and_then(|socket| socket.get(name)?.as_str());
    for (key, name) in [
        ("unix_socket_dir", "directory"),
        ("unix_socket_mode", "mode"),
        ("unix_socket_group", "group"),
    ] {
        let default = Section::Pgbouncer.key(key).and_then(|key| key.default).unwrap_or_default();
        match part(name) {
            Some(text) if text != default => lines.push(format!("{key} = {text}")),
            None if key == "unix_socket_dir" => lines.push(format!("{key} =")),
            _ => {}
        }
    }
    lines
}

/// The lines of a section of names; what they say is taken out of the table.
fn names(section: Section, table: &mut Table, unsaid: &mut Vec<String>) -> Vec<String> {
    let kind = if section == Section::Databases { "database" } else { "user" };
    let Some(Value::Array(all)) = table.remove(kind) else { return Vec::new() };
    let mut lines = Vec::new();
    for entry in all {
        let Value::Table(mut entry) = entry else { continue };
        let Some(Value::String(name)) = entry.remove("name") else { continue };
        let mut pairs = Vec::new();
        if section == Section::Databases {
            pairs = servers(&name, &mut entry, unsaid);
        }
        for key in section.keys() {
            let Some(path) = key.says.filter(|_| key.unit != Unit::Apart) else { continue };
            let Some(text) = at(&entry, path).and_then(|value| to_ini(key.unit, value)) else {
                continue;
            };
            if text.is_empty() {
                continue;
            }
            take(&mut entry, path);
            pairs.push(format!("{}={}", key.name, connection_value(&text)));
        }
        for (key, value) in &entry {
            let place = format!("{kind} {name}: {key}");
            let is_empty = value.as_table().is_some_and(Table::is_empty);
            if !is_empty {
                unsaid.push(format!("{place} = {value}"));
            }
        }
        if name.contains(['\n', '\r']) {
            unsaid.push(format!("{kind} {name}: a name of several lines"));
            continue;
        }
        let line = format!("{} = {}", line_key(&name), pairs.join(" "));
        lines.push(line.trim_end().to_owned());
    }
    lines
}

/// The hosts and the port of a database; PgBouncer has one port, no weights and no roles.
fn servers(name: &str, entry: &mut Table, unsaid: &mut Vec<String>) -> Vec<String> {
    let Some(Value::Array(all)) = entry.remove("server") else { return Vec::new() };
    let mut hosts: Vec<&str> = Vec::new();
    let mut port = None;
    for server in &all {
        let host = server.get("host").and_then(Value::as_str).unwrap_or_default();
        let its = server.get("port").and_then(Value::as_integer);
        let weight = server.get("weight").and_then(Value::as_integer);
        let role = server.get("role").and_then(Value::as_str);
        if role == Some("replica") {
            unsaid.push(format!("database {name}: {host}, a replica"));
            continue;
        }
        if port.is_some() && port != its {
            unsaid.push(format!("database {name}: {host}, a second port"));
            continue;
        }
        if weight.is_some_and(|weight| weight != 1) {
            unsaid.push(format!("database {name}: the weight of {host}"));
        }
        port = its;
        hosts.push(host);
    }
    let mut pairs = vec![format!("host={}", connection_value(&hosts.join(",")))];
    pairs.extend(port.filter(|port| *port != 5432).map(|port| format!("port={port}")));
    pairs
}

/// Writes down what is left of a table and differs from its default.
fn unsaid(into: &mut Vec<String>, path: &str, value: &Value, default: Option<&Value>) {
    match value {
        Value::Table(table) => {
            for (key, value) in table {
                let default = default.and_then(|default| default.get(key));
                if default != Some(value) {
                    unsaid(into, &format!("{path}.{key}"), value, default);
                }
            }
        }
        value => into.push(format!("{path} = {value}")),
    }
}

fn at<'t>(table: &'t Table, path: &str) -> Option<&'t Value> {
    match path.split_once('.') {
        None => table.get(path),
        Some((first, rest)) => at(table.get(first)?.as_table()?, rest),
    }
}

fn take(table: &mut Table, path: &str) {
    match path.split_once('.') {
        None => {
            table.remove(path);
        }
        Some((first, rest)) => {
            if let Some(Value::Table(inner)) = table.get_mut(first) {
                take(inner, rest);
            }
        }
    }
}
