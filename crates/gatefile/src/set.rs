//! A configuration with one key changed while the gate runs, as the console's SET has it.

use super::keys::{self, Section, Unit};
use super::{FileError, Files, GateFile, check, convert, from_ini, written};

impl GateFile {
    /// The same with a key of PgBouncer's section `[pgbouncer]` changed, its value written as there.
    ///
    /// # Errors
    /// If there is no such key, nothing that a gate reads while it runs says it, or it cannot have this value,
    /// alone or beside what else the configuration says.
    pub fn with(&self, name: &str, text: &str, files: &dyn Files) -> Result<GateFile, FileError> {
        let section = Section::Pgbouncer;
        let wrong = |cause: &str| FileError::new(format!("\"{name}\": {cause}"));
        let known = section.key(name).filter(|key| key.unit != Unit::Apart);
        let Some((key, path)) = known.and_then(|key| Some((key, key.says?))) else {
            return Err(wrong("it is said by no single key of a configuration"));
        };
        let value = convert::from_ini(key.unit, text).map_err(|cause| wrong(&cause))?;
        let mut table = written::table_of(self);
        from_ini::set(&mut table, path, value);
        let file: Result<GateFile, _> = toml::Value::Table(table).try_into();
        let file = file.map_err(|error| wrong(error.message()))?;
        let before = check::check(self, files);
        let new = check::check(&file, files).into_iter().find(|found| !before.contains(found));
        match new {
            None => Ok(file),
            Some(found) => Err(wrong(&keys::in_their_words(&found.path, &found.cause))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{Loaded, read};
    use super::*;

    /// A machine that has every file, and nothing in it.
    struct All;

    impl Files for All {
        fn text(&self, _: &Path) -> Result<String, String> {
            Ok(String::new())
        }

        fn stands(&self, _: &Path) -> Result<(), String> {
            Ok(())
        }
    }

    const FILE: &str = "[databases]\na = host=127.0.0.1\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
                        auth_file = users.txt\n";

    fn loaded(more: &str) -> Loaded {
        read("pgbouncer.ini", &format!("{FILE}{more}"), &All).unwrap()
    }

    /// A value that is not the default.
    fn other(unit: Unit) -> &'static str {
        match unit {
            Unit::Text | Unit::AnyText | Unit::List | Unit::Check => "nobody",
            Unit::Switch => "0",
            Unit::Choice(choices) => choices[choices.len() - 1].0,
            Unit::MillisOrNone | Unit::Size => "7000",
            _ => "7",
        }
    }

    /// Whatever a line in the file does, SET does to what was read without it; and what the line would be
    /// refused for, SET is.
    #[test]
    fn a_key_that_is_set_is_as_in_the_file() {
        let (mut done, mut refused) = (0, 0);
        for key in Section::Pgbouncer.keys().iter().filter(|key| key.unit != Unit::Apart) {
            let (name, value) = (key.name, other(key.unit));
            if key.says.is_none() {
                let error = loaded("").file.with(name, value, &All).unwrap_err();
                assert!(error.to_string().contains(name), "{error}");
                continue;
            }
            // The file of users cannot stand there twice.
            let file =
                FILE.replace("auth_file", if name == "auth_file" { "; " } else { "auth_file" });
            let there = read("pgbouncer.ini", &format!("{file}{name} = {value}\n"), &All).unwrap();
            match loaded("").file.with(name, value, &All) {
                Ok(set) => {
                    assert_eq!(set, there.file, "{name} = {value}");
                    assert!(there.contradictions.is_empty(), "{name}: {:?}", there.contradictions);
                    done += 1;
                }
                Err(error) => {
                    assert!(error.to_string().starts_with(&format!("\"{name}\": ")), "{error}");
                    assert!(!there.contradictions.is_empty(), "{name} = {value}: {error}");
                    refused += 1;
                }
            }
        }
        assert!(done >= 50 && refused >= 5, "{done} and {refused}");
    }

    #[test]
    fn what_a_key_cannot_be_is_told_with_its_name() {
        let file = loaded("").file;
        for (name, value, says) in [
            ("pool_mode", "often", "`often` is not possible"),
            ("default_pool_size", "-1", "no whole number"),
            ("listen_port", "7", "no single key"),
            ("pidfile", "x", "no single key"),
            ("nothing", "7", "no single key"),
        ] {
            let error = file.with(name, value, &All).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains(name), "{error}");
        }
        let set = file.with("auth_user", "asker", &All).unwrap();
        assert_ne!(set, file);
        assert_eq!(set.with("auth_user", "", &All).unwrap(), file, "empty is none");
    }
}
