//! Attributes are most of a node's bytes: packed in one block, ordered by name, until they are large;
//! then each value stands alone, so that copying a path never copies payload.

use std::fmt;
use std::sync::Arc;

/// The most bytes of a packed block \[B\].
const PACKED_MAX: usize = 4096;
/// The most bytes of a name \[B\].
pub(crate) const NAME_MAX: usize = 255;
/// The most bytes of a value \[B\].
pub(crate) const VALUE_MAX: usize = 64 << 20;

/// Names and values of one node, ordered by name.
#[derive(Clone, Default)]
pub struct Attributes(Block);

#[derive(Clone)]
enum Block {
    /// For each: length of the name (1 byte), name, length of the value (2 bytes), value.
    Packed(Arc<[u8]>),
    /// Ordered by name; `None` is without attributes.
    Large(Option<Arc<Vec<Value>>>),
}

type Value = (Arc<str>, Arc<[u8]>);

impl Default for Block {
    fn default() -> Self {
        Self::Large(None)
    }
}

impl Attributes {
    /// These names and values; of a name that comes twice the last value.
    pub fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        let mut pairs: Vec<(&str, &[u8])> = pairs.into_iter().collect();
        // Of equal names the last one comes first, and stays.
        pairs.reverse();
        pairs.sort_by_key(|(name, _)| *name);
        pairs.dedup_by_key(|(name, _)| *name);
        Self(Block::of(&pairs))
    }

    /// The names and values, ordered by name.
    pub fn iter(&self) -> Iter<'_> {
        self.0.iter()
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name)
    }

    /// Sets the value of a name, or with `None` takes the name out.
    pub(crate) fn set(&mut self, name: &str, value: Option<&[u8]>) {
        self.0.set(name, value);
    }
}

impl Block {
    fn of(pairs: &[(&str, &[u8])]) -> Self {
        if pairs.is_empty() {
            return Self::default();
        }
        let bytes: usize = pairs.iter().map(|(name, value)| 3 + name.len() + value.len()).sum();
        // A name that is too long has its place until an edit refuses it.
        if bytes > PACKED_MAX || pairs.iter().any(|(name, _)| name.len() > NAME_MAX) {
            let values = pairs.iter().map(|(name, value)| (Arc::from(*name), Arc::from(*value)));
            return Self::Large(Some(Arc::new(values.collect())));
        }
        let mut block = Vec::with_capacity(bytes);
        for (name, value) in pairs {
            block.push(u8::try_from(name.len()).expect("names have at most 255 bytes"));
            block.extend_from_slice(name.as_bytes());
            let length = u16::try_from(value.len()).expect("a block has at most 4096 bytes");
            block.extend_from_slice(&length.to_le_bytes());
            block.extend_from_slice(value);
        }
        Self::Packed(block.into())
    }

    fn iter(&self) -> Iter<'_> {
        match self {
            Self::Packed(block) => Iter { block, values: [].iter() },
            Self::Large(values) => {
                let values = values.as_ref().map_or(&[][..], |values| values);
                Iter { block: &[], values: values.iter() }
            }
        }
    }

    fn get(&self, name: &str) -> Option<&[u8]> {
        match self {
            Self::Packed(_) => self.iter().find(|(own, _)| *own == name).map(|(_, value)| value),
            Self::Large(values) => {
                let values = values.as_ref()?;
                let at = values.binary_search_by(|(own, _)| (**own).cmp(name)).ok()?;
                Some(&values[at].1)
            }
        }
    }

    fn set(&mut self, name: &str, value: Option<&[u8]>) {
        if let Self::Large(Some(values)) = self {
            // The values are shared: what is copied are their names and places.
            let mut values = (**values).clone();
            let at = values.binary_search_by(|(own, _)| (**own).cmp(name));
            match (at, value) {
                (Ok(at), Some(value)) => values[at].1 = value.into(),
                (Ok(at), None) => drop(values.remove(at)),
                (Err(at), Some(value)) => values.insert(at, (name.into(), value.into())),
                (Err(_), None) => {}
            }
            let bytes: usize =
                values.iter().map(|(name, value)| 3 + name.len() + value.len()).sum();
            *self = if bytes > PACKED_MAX {
                Self::Large(Some(Arc::new(values)))
            } else {
                Self::of(
                    &values.iter().map(|(name, value)| (&**name, &**value)).collect::<Vec<_>>(),
                )
            };
            return;
        }
        let mut pairs: Vec<_> = self.iter().collect();
        let at = pairs.binary_search_by(|(own, _)| (*own).cmp(name));
        match (at, value) {
            (Ok(at), Some(value)) => pairs[at].1 = value,
            (Ok(at), None) => drop(pairs.remove(at)),
            (Err(at), Some(value)) => pairs.insert(at, (name, value)),
            (Err(_), None) => return,
        }
        *self = Self::of(&pairs);
    }

    /// Tells whether both are one block, without a look at the bytes.
    fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Packed(left), Self::Packed(right)) => Arc::ptr_eq(left, right),
            (Self::Large(Some(left)), Self::Large(Some(right))) => Arc::ptr_eq(left, right),
            (Self::Large(None), Self::Large(None)) => true,
            _ => false,
        }
    }
}

impl PartialEq for Attributes {
    fn eq(&self, other: &Self) -> bool {
        self.0.same(&other.0) || self.iter().eq(other.iter())
    }
}

impl Eq for Attributes {}

impl<'a> IntoIterator for &'a Attributes {
    type Item = (&'a str, &'a [u8]);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value| String::from_utf8_lossy(value).into_owned();
        f.debug_map().entries(self.iter().map(|(name, value)| (name, shown(value)))).finish()
    }
}

/// Names and values, ordered by name.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    block: &'a [u8],
    values: std::slice::Iter<'a, Value>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a str, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if let Some((name, value)) = self.values.next() {
            return Some((name, value));
        }
        let (length, rest) = self.block.split_first()?;
        let (name, rest) = rest.split_at(usize::from(*length));
        let (length, rest) = rest.split_first_chunk().expect("a value follows its name");
        let (value, rest) = rest.split_at(usize::from(u16::from_le_bytes(*length)));
        self.block = rest;
        Some((std::str::from_utf8(name).expect("names are text"), value))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn attributes_agree_with_a_map_across_the_border_of_blocks() {
        let (mut attributes, mut model) = (Attributes::default(), BTreeMap::new());
        let mut state = 3_u64;
        for step in 0..2_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let name = format!("n{}", (state >> 40) % 9);
            let length = [0, 5, 300, 3_000, 5_000][(state >> 50) as usize % 5];
            let value = vec![step as u8; length];
            if step == 0 {
                let twice = Attributes::of([("a", &b"1"[..]), ("b", b"2"), ("a", b"3")]);
                assert_eq!(twice, Attributes::of([("a", &b"3"[..]), ("b", b"2")]));
            }
            if state >> 60 < 11 {
                attributes.set(&name, Some(&value));
                model.insert(name, value);
            } else {
                attributes.set(&name, None);
                model.remove(&name);
            }
            let own: Vec<_> = attributes.iter().map(|(n, v)| (n.to_owned(), v.to_vec())).collect();
            assert_eq!(own, model.clone().into_iter().collect::<Vec<_>>(), "step {step}");
            assert!(model.iter().all(|(name, value)| attributes.get(name) == Some(value)));
        }
    }
}
