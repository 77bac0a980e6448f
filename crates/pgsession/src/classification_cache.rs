//! Classification cache: the classes of texts that come again and again, so that each is read once
//! and not at the beginning of each transaction. Bounded.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use crate::sql::{Class, Settings};

/// Texts that are remembered, each at the place that its hash names.
const PLACES: usize = 512;

/// Longer ones are read each time \[byte\].
const TEXT_MAX: usize = 4096;

/// The classes of texts of a pool's sessions.
#[derive(Debug, Default)]
pub struct ClassificationCache {
    hasher: RandomState,
    places: Vec<Place>,
}

#[derive(Clone, Debug, Default)]
enum Place {
    #[default]
    Vacant,
    /// A text of this hash was there once. Most that have values in them never come again.
    Seen(u64),
    Read {
        hash: u64,
        text: Box<[u8]>,
        settings: Arc<Settings>,
        /// The client's user, whose name all its clients share.
        user: Option<Arc<[u8]>>,
        class: Class,
    },
}

impl ClassificationCache {
    /// The class of a text in a session of this user with these settings: what `read` has said of it, if
    /// that is remembered.
    pub fn class(
        &mut self,
        (settings, user): (&Arc<Settings>, Option<&Arc<[u8]>>),
        text: &[u8],
        read: impl FnOnce() -> Class,
    ) -> Class {
        if text.len() > TEXT_MAX {
            return read();
        }
        if self.places.is_empty() {
            self.places.resize(PLACES, Place::Vacant);
        }
        let who = user.map_or(0, |user| user.as_ptr() as usize);
        let now = self.hasher.hash_one((Arc::as_ptr(settings) as usize, who, text));
        let place = &mut self.places[now as usize % PLACES];
        match place {
            Place::Read { hash, text: known, settings: of, user: by, class }
                if *hash == now
                    && Arc::ptr_eq(of, settings)
                    && is_same(by.as_ref(), user)
                    && **known == *text =>
            {
                *class
            }
            Place::Seen(hash) if *hash == now => {
                let class = read();
                let (text, settings, user) = (text.into(), Arc::clone(settings), user.cloned());
                *place = Place::Read { hash: now, text, settings, user, class };
                class
            }
            _ => {
                *place = Place::Seen(now);
                read()
            }
        }
    }

    /// The rules have changed.
    pub fn forget(&mut self) {
        self.places.clear();
    }
}

fn is_same(one: Option<&Arc<[u8]>>, other: Option<&Arc<[u8]>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::{SettingsBounds, Side};

    fn settings(name: &[u8]) -> Arc<Settings> {
        let base = [(&b"application_name"[..], name)];
        Arc::new(Settings::new(Side::Client, SettingsBounds::default(), base))
    }

    /// Each transaction had its first text cut into tokens anew.
    #[test]
    fn a_text_that_comes_again_is_not_read_again() {
        let (one, other) = (settings(b"one"), settings(b"other"));
        let (mut classification_cache, mut reads) = (ClassificationCache::default(), 0);
        let mut class = |settings: &Arc<Settings>, text: &[u8]| {
            let number = settings.value(b"application_name").unwrap().len() as u32;
            let read = || {
                reads += 1;
                Class { class: number * 1000 + text.len() as u32, priority: 0 }
            };
            let class = classification_cache.class((settings, None), text, read).class;
            assert_eq!(class, number * 1000 + text.len() as u32);
            reads
        };
        for _ in 0..10 {
            class(&one, b"select 1 /* a */");
        }
        assert_eq!(class(&one, b"select 1 /* a */"), 2, "the first time, and to be remembered");
        assert_eq!(class(&other, b"select 1 /* a */"), 3, "of another program it is another");
        let (auth_query_worker, waiting): (Arc<[u8]>, Arc<[u8]>) =
            (b"clerk"[..].into(), b"guest"[..].into());
        let of = |classification_cache: &mut ClassificationCache, user: &Arc<[u8]>| {
            let read = || Class { class: user.len() as u32 + u32::from(user[0]), priority: 0 };
            classification_cache.class((&other, Some(user)), b"select 2", read).class
        };
        for _ in 0..3 {
            assert_ne!(
                of(&mut classification_cache, &auth_query_worker),
                of(&mut classification_cache, &waiting),
                "each its own"
            );
        }
        let mut class = |settings: &Arc<Settings>, text: &[u8]| {
            let read = || {
                reads += 1;
                Class::default()
            };
            classification_cache.class((settings, None), text, read);
            reads
        };
        for at in 0..10_000 {
            class(&one, format!("select {at}").as_bytes());
        }
        let before = class(&one, &[b'x'; TEXT_MAX + 1]);
        assert_eq!(class(&one, &[b'x'; TEXT_MAX + 1]), before + 1, "it is not remembered");
        assert_eq!(classification_cache.places.len(), PLACES);
        let is_read = |place: &&Place| matches!(place, Place::Read { .. });
        assert!(
            classification_cache.places.iter().filter(is_read).count() <= 2,
            "values never come again"
        );
    }
}
