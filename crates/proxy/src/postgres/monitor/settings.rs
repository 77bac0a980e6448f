//! The settings that a session has beside the server's defaults: what a client wants, what a server
//! has, and the SQL that makes the one the other.

use std::fmt::Write as _;
use std::hash::{Hash, Hasher};

use crate::postgres::startup::{OptionsError, Startup};

/// Settings by name, each once, in the order of their names, which are in small letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Settings(Vec<(Vec<u8>, Vec<u8>)>);

impl Settings {
    /// Those that a client begins with.
    ///
    /// # Errors
    /// If its options hold something else than settings.
    pub(super) fn of_startup(startup: &Startup<'_>) -> Result<Settings, OptionsError> {
        let mut settings = Settings::default();
        for setting in startup.settings()? {
            settings.set(&setting.name, &setting.value);
        }
        Ok(settings)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Names and values.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().map(|(name, value)| (&name[..], &value[..]))
    }

    /// Their names, for a message.
    pub(super) fn names(&self) -> String {
        let names = self.0.iter().map(|(name, _)| String::from_utf8_lossy(name));
        names.collect::<Vec<_>>().join(", ")
    }

    /// What tells apart those under which a statement may mean something else.
    pub(super) fn scope(&self) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        let others = self.0.iter().filter(|(name, _)| name != b"application_name");
        others.for_each(|setting| setting.hash(&mut hasher));
        hasher.finish()
    }

    /// The value of `name`, if it is set.
    pub(super) fn value(&self, name: &[u8]) -> Option<&[u8]> {
        let at = self.place(&name.to_ascii_lowercase()).ok()?;
        Some(&self.0[at].1)
    }

    pub(super) fn set(&mut self, name: &[u8], value: &[u8]) {
        let name = name.to_ascii_lowercase();
        match self.place(&name) {
            Ok(at) => self.0[at].1 = value.to_vec(),
            Err(at) => self.0.insert(at, (name, value.to_vec())),
        }
    }

    pub(super) fn unset(&mut self, name: &[u8]) {
        if let Ok(at) = self.place(&name.to_ascii_lowercase()) {
            self.0.remove(at);
        }
    }

    fn place(&self, name: &[u8]) -> Result<usize, usize> {
        self.0.binary_search_by(|(one, _)| one[..].cmp(name))
    }

    /// The SQL after which a session that has these has `wanted`; empty if it has them already.
    ///
    /// What is set goes through `set_config`, which reads a value as a configuration file has it: a
    /// list stays a list. All of it is ASCII, so no encoding can make something else of it.
    pub(super) fn become_sql(&self, wanted: &Settings) -> String {
        let mut sql = String::new();
        for (name, _) in &self.0 {
            if wanted.place(name).is_err() {
                let name = String::from_utf8_lossy(name).replace('"', "\"\"");
                let _ = write!(sql, "RESET \"{name}\";");
            }
        }
        let others = wanted.0.iter().filter(|(name, value)| self.value(name) != Some(value));
        let calls: Vec<String> = others
            .map(|(name, value)| {
                let (name, value) = (literal(name), literal(value));
                format!("pg_catalog.set_config({name},{value},false)")
            })
            .collect();
        if !calls.is_empty() {
            let _ = write!(sql, "SELECT {}", calls.join(","));
        }
        sql
    }
}

/// A text as an expression of SQL, whatever `standard_conforming_strings` is.
fn literal(text: &[u8]) -> String {
    if text.iter().all(|byte| (b' '..0x7f).contains(byte)) {
        let text = String::from_utf8_lossy(text).replace('\\', "\\\\").replace('\'', "''");
        return format!("E'{text}'");
    }
    let hex: String = text.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "pg_catalog.convert_from(pg_catalog.decode(E'{hex}','hex'),\
         pg_catalog.getdatabaseencoding())"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        let mut settings = Settings::default();
        for (name, value) in pairs {
            settings.set(name.as_bytes(), value.as_bytes());
        }
        settings
    }

    #[test]
    fn only_what_differs_is_set_and_what_is_not_wanted_is_reset() {
        let has = settings(&[("TimeZone", "UTC"), ("work_mem", "1MB"), ("a.b", "x")]);
        let wanted = settings(&[("timezone", "UTC"), ("WORK_MEM", "2MB")]);
        assert_eq!(
            has.become_sql(&wanted),
            "RESET \"a.b\";SELECT pg_catalog.set_config(E'work_mem',E'2MB',false)"
        );
        assert_eq!(wanted.become_sql(&wanted), "");
        assert_eq!(has.value(b"TIMEZONE"), Some(&b"UTC"[..]));
    }

    #[test]
    fn no_value_ends_its_literal() {
        assert_eq!(literal(br"it's \' x"), r"E'it''s \\'' x'");
        assert!(literal("ä'".as_bytes()).contains("E'c3a427'"));
        let reset = settings(&[("a\"b", "")]).become_sql(&settings(&[]));
        assert_eq!(reset, "RESET \"a\"\"b\";");
    }
}
