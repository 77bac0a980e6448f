//! A client's settings as plain values, while nothing of it is under way: what another process needs
//! to go on with them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Failed, Settings, SettingsBounds, Side, Value};

/// Settings by name.
pub type Named<T> = Vec<(Vec<u8>, T)>;

/// The settings of a client with nothing under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportedSettings {
    /// The settings that it began with.
    pub begun: Named<Value>,
    /// The settings that it has set.
    pub set: Named<Value>,
    /// The values that it was told by ParameterStatus last.
    pub reported: Named<Vec<u8>>,
    /// The values that it was told first.
    pub first: Named<Vec<u8>>,
}

impl Settings {
    /// True if nothing of a client's is under way, and all is known.
    pub fn can_export(&self) -> bool {
        self.open.is_empty()
            && self.unknown.is_empty()
            && self.forgotten.is_empty()
            && self.lost.is_none()
            && self.side == Side::Client
    }

    /// All that is to be known of a client's, if that [can go](Settings::can_export).
    pub fn export(&self) -> Option<ExportedSettings> {
        self.can_export().then(|| ExportedSettings {
            begun: listed(&self.base),
            set: listed(&self.set),
            reported: listed(&self.reported),
            first: listed(&self.first),
        })
    }

    /// The settings of a client that had nothing under way. More than the bounds let be are
    /// [lost](Settings::lost).
    pub fn of_export(export: ExportedSettings, bounds: SettingsBounds) -> Settings {
        let ExportedSettings { begun, set, reported, first } = export;
        let mut settings = Settings {
            side: Side::Client,
            bounds,
            base: begun.into_iter().collect(),
            set: set.into_iter().collect(),
            open: Vec::new(),
            unknown: BTreeSet::new(),
            forgotten: BTreeSet::new(),
            untold: BTreeSet::new(),
            reported: reported.into_iter().collect(),
            first: first.into_iter().collect(),
            failed: Failed::No,
            lost: None,
            agreed: None,
            digest: None,
        };
        // They come from another process, whose bounds may be wider.
        settings.check_bounds();
        settings
    }
}

fn listed<T: Clone>(map: &BTreeMap<Vec<u8>, T>) -> Named<T> {
    map.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::EffectKind;
    use pgwire::message::Status;

    #[test]
    fn what_rests_is_taken_up_as_it_was() {
        let begun = [(&b"search_path"[..], &b"a, b"[..])];
        let mut settings = Settings::new(Side::Client, SettingsBounds::default(), begun);
        settings.reported(b"TimeZone", b"UTC");
        let set = EffectKind::Set {
            name: b"work_mem".to_vec(),
            value: Some(Value::Items(vec![b"1MB".to_vec()])),
        };
        settings.completed([&set], b"SET");
        assert_eq!(settings.export(), None, "its transaction is open");
        settings.ready(Status::Idle);
        settings.reported(b"TimeZone", b"Asia/Tokyo");
        let export = settings.export().unwrap();
        let taken = Settings::of_export(export.clone(), SettingsBounds::default());
        assert!(taken.is_same(&settings));
        assert_eq!(taken.export(), Some(export));
        assert_eq!(taken.scope(), settings.scope());
        let names = |one: &Settings| one.names().map(<[u8]>::to_vec).collect::<Vec<_>>();
        assert_eq!(names(&taken), names(&settings));
        // A server that has nothing of it is told the same for both.
        let server = Settings::new(Side::Server, SettingsBounds::default(), []);
        assert_eq!(Settings::difference(&server, &taken), Settings::difference(&server, &settings));
    }

    #[test]
    fn more_than_the_bounds_let_be_is_lost_and_no_more_at_rest() {
        let set = vec![(b"a.b".to_vec(), Value::Whole(vec![b'x'; 1 << 17]))];
        let export = ExportedSettings { set, ..ExportedSettings::default() };
        let settings = Settings::of_export(export, SettingsBounds::default());
        assert!(settings.lost().is_some());
        assert_eq!(settings.export(), None);
    }
}
