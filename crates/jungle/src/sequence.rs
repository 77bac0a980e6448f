//! Ordered children must not cost their number at each edit: a persistent B-tree that counts, so that
//! a position is found, inserted and removed by copying one short path.
//!
//! Every chunk is shared by reference count. An edit copies those chunks of its path that somebody else
//! holds too, and changes the others in place: a batch of edits on a private root copies each once.
//! Each entry of an inner chunk carries a measure of all that lies below it (for children: the newest
//! change and the oldest id; for maps: the last key), by which searches and differences prune.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The most items of a leaf.
pub(crate) const LEAF_MAX: usize = 32;
/// The most entries of an inner chunk. An entry has four times the bytes of an item, and an edit copies one
/// chunk of each level: `docs/jungle.md` tells what 32 cost instead.
const INNER_MAX: usize = 16;

/// An item and the measure that chunks keep of it.
pub(crate) trait Item: Clone {
    type Measure: Clone + PartialEq + fmt::Debug;
    fn measure(&self) -> Self::Measure;
    /// The measure of what lies left, followed by what lies right. What is added anywhere but at the end may be joined
    /// from the left: a measure is either of the last item, or the same in any order.
    fn join(left: &Self::Measure, right: &Self::Measure) -> Self::Measure;
}

/// A persistent ordered list with positions.
pub(crate) struct Sequence<T: Item> {
    root: Option<Arc<Chunk<T>>>,
}

pub(crate) enum Chunk<T: Item> {
    Leaf(Vec<T>),
    Inner(Vec<Entry<T>>),
}

pub(crate) struct Entry<T: Item> {
    chunk: Arc<Chunk<T>>,
    count: u32,
    measure: T::Measure,
}

/// A part of a sequence as seen beside another: a chunk that both have, with its number of items, or an
/// item of this one.
pub(crate) enum Part<'a, T: Item> {
    Shared(*const Chunk<T>, usize),
    Item(&'a T),
}

impl<T: Item> Clone for Entry<T> {
    fn clone(&self) -> Self {
        Self { chunk: Arc::clone(&self.chunk), count: self.count, measure: self.measure.clone() }
    }
}

impl<T: Item> Clone for Sequence<T> {
    fn clone(&self) -> Self {
        Self { root: self.root.clone() }
    }
}

impl<T: Item> Default for Sequence<T> {
    fn default() -> Self {
        Self { root: None }
    }
}

impl<T: Item> fmt::Debug for Sequence<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sequence({} items)", self.len())
    }
}

impl<T: Item> Chunk<T> {
    fn len(&self) -> usize {
        match self {
            Self::Leaf(items) => items.len(),
            Self::Inner(entries) => entries.len(),
        }
    }

    /// The most that it holds.
    fn most(&self) -> usize {
        match self {
            Self::Leaf(_) => LEAF_MAX,
            Self::Inner(_) => INNER_MAX,
        }
    }

    fn count(&self) -> usize {
        match self {
            Self::Leaf(items) => items.len(),
            Self::Inner(entries) => entries.iter().map(|entry| entry.count as usize).sum(),
        }
    }

    fn measure(&self) -> Option<T::Measure> {
        match self {
            Self::Leaf(items) => {
                items.iter().map(Item::measure).reduce(|left, right| T::join(&left, &right))
            }
            Self::Inner(entries) => {
                let mut measures = entries.iter().map(|entry| &entry.measure);
                let first = measures.next()?.clone();
                Some(measures.fold(first, |left, right| T::join(&left, right)))
            }
        }
    }

    fn height(&self) -> usize {
        let mut height = 0;
        let mut chunk = self;
        while let Self::Inner(entries) = chunk {
            height += 1;
            chunk = &entries[0].chunk;
        }
        height
    }

    /// A copy with room for one more, so that an insertion does not allocate twice.
    fn copy(&self) -> Self {
        fn roomy<U: Clone>(from: &[U], most: usize) -> Vec<U> {
            let mut copy = Vec::with_capacity((from.len() + 1).min(most));
            copy.extend_from_slice(from);
            copy
        }
        match self {
            Self::Leaf(items) => Self::Leaf(roomy(items, LEAF_MAX)),
            Self::Inner(entries) => Self::Inner(roomy(entries, INNER_MAX)),
        }
    }
}

/// The chunk, copied first if somebody else holds it too.
fn unshare<T: Item>(chunk: &mut Arc<Chunk<T>>) -> &mut Chunk<T> {
    if Arc::get_mut(chunk).is_none() {
        *chunk = Arc::new(chunk.copy());
    }
    Arc::get_mut(chunk).expect("it was just made, or nobody else holds it")
}

fn entry<T: Item>(chunk: Chunk<T>) -> Entry<T> {
    let count = u32::try_from(chunk.count()).expect("at most 2^32 - 1 items");
    let measure = chunk.measure().expect("no chunk is empty");
    Entry { chunk: Arc::new(chunk), count, measure }
}

fn refresh<T: Item>(entry: &mut Entry<T>) {
    entry.count = u32::try_from(entry.chunk.count()).expect("at most 2^32 - 1 items");
    entry.measure = entry.chunk.measure().expect("no chunk is empty");
}

/// Inserts into a full or roomy list; the right half if it had to be split. At an end nothing is
/// halved: lists that only grow keep full chunks.
fn insert_split<U>(list: &mut Vec<U>, at: usize, item: U, most: usize) -> Option<Vec<U>> {
    if list.len() < most {
        list.insert(at, item);
        return None;
    }
    if at == list.len() {
        return Some(vec![item]);
    }
    if at == 0 {
        return Some(std::mem::replace(list, vec![item]));
    }
    let half = list.len() / 2;
    let mut right = Vec::with_capacity(most);
    right.extend(list.drain(half..));
    if at <= half {
        list.insert(at, item);
    } else {
        right.insert(at - half, item);
    }
    Some(right)
}

/// The entry that holds position `at`, and the position inside of it; the last one takes the end.
fn locate<T: Item>(entries: &[Entry<T>], mut at: usize) -> (usize, usize) {
    for (index, entry) in entries.iter().enumerate() {
        if at < entry.count as usize || index + 1 == entries.len() {
            return (index, at);
        }
        at -= entry.count as usize;
    }
    (0, at)
}

fn insert<T: Item>(chunk: &mut Arc<Chunk<T>>, at: usize, item: T) -> Option<Chunk<T>> {
    match unshare(chunk) {
        Chunk::Leaf(items) => insert_split(items, at, item, LEAF_MAX).map(Chunk::Leaf),
        Chunk::Inner(entries) => {
            let (index, inside) = locate(entries, at);
            let (added, entry_) = (item.measure(), &mut entries[index]);
            let is_last = inside == entry_.count as usize;
            let split = insert(&mut entry_.chunk, inside, item);
            if split.is_some() {
                refresh(entry_);
            } else {
                // Without a look at the others: each would be a miss of the cache.
                entry_.count = entry_.count.checked_add(1).expect("at most 2^32 - 1 items");
                let own = &entry_.measure;
                let (left, right) = if is_last { (own, &added) } else { (&added, own) };
                entry_.measure = T::join(left, right);
            }
            split
                .and_then(|right| insert_split(entries, index + 1, entry(right), INNER_MAX))
                .map(Chunk::Inner)
        }
    }
}

fn remove<T: Item>(chunk: &mut Arc<Chunk<T>>, at: usize) -> T {
    match unshare(chunk) {
        Chunk::Leaf(items) => items.remove(at),
        Chunk::Inner(entries) => {
            let (index, inside) = locate(entries, at);
            let item = remove(&mut entries[index].chunk, inside);
            let left = entries[index].chunk.len();
            if left == 0 {
                entries.remove(index);
            } else {
                refresh(&mut entries[index]);
                // A thin chunk is joined with a neighbour where both fit into one.
                if left < entries[index].chunk.most() / 4 {
                    join_neighbour(entries, index);
                }
            }
            item
        }
    }
}

/// Joins a thin chunk with the neighbour on either side, if one chunk can hold both.
fn join_neighbour<T: Item>(entries: &mut Vec<Entry<T>>, index: usize) {
    let fits = |left: usize| {
        left + 1 < entries.len()
            && entries[left].chunk.len() + entries[left + 1].chunk.len()
                <= entries[left].chunk.most()
    };
    let Some(left) = [Some(index), index.checked_sub(1)].into_iter().flatten().find(|i| fits(*i))
    else {
        return;
    };
    let right = entries.remove(left + 1);
    match (unshare(&mut entries[left].chunk), &*right.chunk) {
        (Chunk::Leaf(items), Chunk::Leaf(more)) => items.extend_from_slice(more),
        (Chunk::Inner(inner), Chunk::Inner(more)) => inner.extend_from_slice(more),
        _ => unreachable!("chunks side by side have the same height"),
    }
    refresh(&mut entries[left]);
}

impl<T: Item> Sequence<T> {
    /// All items at once, in full chunks.
    pub(crate) fn from_items(items: Vec<T>) -> Self {
        let mut level: Vec<Chunk<T>> = even(items, LEAF_MAX).map(Chunk::Leaf).collect();
        while level.len() > 1 {
            let entries = level.into_iter().map(entry).collect();
            level = even(entries, INNER_MAX).map(Chunk::Inner).collect();
        }
        Self { root: level.pop().map(Arc::new) }
    }

    pub(crate) fn len(&self) -> usize {
        self.root.as_ref().map_or(0, |root| root.count())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    pub(crate) fn same(&self, other: &Self) -> bool {
        match (&self.root, &other.root) {
            (Some(left), Some(right)) => Arc::ptr_eq(left, right),
            (None, None) => true,
            _ => false,
        }
    }

    pub(crate) fn get(&self, mut at: usize) -> Option<&T> {
        let mut chunk = self.root.as_deref()?;
        loop {
            match chunk {
                Chunk::Leaf(items) => return items.get(at),
                Chunk::Inner(entries) => {
                    let (index, inside) = locate(entries, at);
                    chunk = &entries[index].chunk;
                    at = inside;
                }
            }
        }
    }

    /// The item at `at`, to be changed. `touch` brings the measures above it up to what it will be.
    pub(crate) fn get_mut(
        &mut self,
        mut at: usize,
        touch: impl Fn(&mut T::Measure),
    ) -> Option<&mut T> {
        if at >= self.len() {
            return None;
        }
        let mut chunk = self.root.as_mut()?;
        loop {
            match unshare(chunk) {
                Chunk::Leaf(items) => return items.get_mut(at),
                Chunk::Inner(entries) => {
                    let (index, inside) = locate(entries, at);
                    touch(&mut entries[index].measure);
                    chunk = &mut entries[index].chunk;
                    at = inside;
                }
            }
        }
    }

    /// Inserts before position `at`.
    ///
    /// # Panics
    /// If `at` lies beyond the end.
    pub(crate) fn insert(&mut self, at: usize, item: T) {
        assert!(at <= self.len(), "insert at {at} of {}", self.len());
        let Some(root) = &mut self.root else {
            self.root = Some(Arc::new(Chunk::Leaf(vec![item])));
            return;
        };
        if let Some(right) = insert(root, at, item) {
            let chunk = Arc::clone(root);
            let count = u32::try_from(chunk.count()).expect("at most 2^32 - 1 items");
            let measure = chunk.measure().expect("no chunk is empty");
            let left = Entry { chunk, count, measure };
            self.root = Some(Arc::new(Chunk::Inner(vec![left, entry(right)])));
        }
    }

    /// Takes the item at `at` out.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn remove(&mut self, at: usize) -> T {
        assert!(at < self.len(), "remove {at} of {}", self.len());
        let root = self.root.as_mut().expect("it has an item");
        let item = remove(root, at);
        loop {
            let lower = match &**root {
                Chunk::Inner(entries) if entries.len() == 1 => Some(Arc::clone(&entries[0].chunk)),
                _ => None,
            };
            match lower {
                Some(lower) => *root = lower,
                None => break,
            }
        }
        if root.len() == 0 {
            self.root = None;
        }
        item
    }

    /// The first position whose measure (that of the item alone) does not fulfil `before`, if items that
    /// do come first and measures grow along the sequence; with the item there.
    pub(crate) fn search(&self, before: impl Fn(&T::Measure) -> bool) -> (usize, Option<&T>) {
        let Some(mut chunk) = self.root.as_deref() else { return (0, None) };
        let mut position = 0;
        loop {
            match chunk {
                Chunk::Leaf(items) => {
                    let index = items.partition_point(|item| before(&item.measure()));
                    return (position + index, items.get(index));
                }
                Chunk::Inner(entries) => {
                    let found = entries.iter().position(|entry| !before(&entry.measure));
                    let index = found.unwrap_or(entries.len() - 1);
                    position +=
                        entries[..index].iter().map(|entry| entry.count as usize).sum::<usize>();
                    chunk = &entries[index].chunk;
                }
            }
        }
    }

    /// The position of the last item that `is`, in chunks whose measure `may` hold it.
    pub(crate) fn find_last(
        &self,
        may: &impl Fn(&T::Measure) -> bool,
        is: &impl Fn(&T) -> bool,
    ) -> Option<usize> {
        fn find<T: Item>(
            chunk: &Chunk<T>,
            may: &impl Fn(&T::Measure) -> bool,
            is: &impl Fn(&T) -> bool,
        ) -> Option<usize> {
            match chunk {
                Chunk::Leaf(items) => items.iter().rposition(is),
                Chunk::Inner(entries) => {
                    let candidates = entries.iter().enumerate().rev();
                    let mut found = candidates
                        .filter(|(_, entry)| may(&entry.measure))
                        .filter_map(|(index, entry)| Some((index, find(&entry.chunk, may, is)?)));
                    let (index, inside) = found.next()?;
                    let left: usize =
                        entries[..index].iter().map(|entry| entry.count as usize).sum();
                    Some(left + inside)
                }
            }
        }
        find(self.root.as_deref()?, may, is)
    }

    /// Hands over the items of all chunks that were not seen before.
    pub(crate) fn unseen(&self, seen: &mut BTreeSet<*const Chunk<T>>, each: &mut impl FnMut(&T)) {
        fn below<T: Item>(
            chunk: &Arc<Chunk<T>>,
            seen: &mut BTreeSet<*const Chunk<T>>,
            each: &mut impl FnMut(&T),
        ) {
            if !seen.insert(Arc::as_ptr(chunk)) {
                return;
            }
            match &**chunk {
                Chunk::Leaf(items) => items.iter().for_each(each),
                Chunk::Inner(entries) => {
                    entries.iter().for_each(|entry| below(&entry.chunk, seen, each));
                }
            }
        }
        if let Some(root) = &self.root {
            below(root, seen, each);
        }
    }

    pub(crate) fn iter(&self) -> Iter<'_, T> {
        self.range(0..self.len())
    }

    /// The items at these positions; positions beyond the end have none.
    pub(crate) fn range(&self, range: Range<usize>) -> Iter<'_, T> {
        let end = range.end.min(self.len());
        let mut iter =
            Iter { stack: Vec::new(), leaf: [].iter(), left: end.saturating_sub(range.start) };
        if iter.left > 0 {
            let mut at = range.start;
            let mut chunk = self.root.as_deref();
            while let Some(Chunk::Inner(entries)) = chunk {
                let (index, inside) = locate(entries, at);
                iter.stack.push(entries[index + 1..].iter());
                chunk = Some(&entries[index].chunk);
                at = inside;
            }
            if let Some(Chunk::Leaf(items)) = chunk {
                iter.leaf = items[at..].iter();
            }
        }
        iter
    }

    /// Hands over the items of those chunks that nobody else holds, and lets go of the others.
    pub(crate) fn consume(self, each: &mut impl FnMut(T)) {
        fn consume<T: Item>(chunk: Arc<Chunk<T>>, each: &mut impl FnMut(T)) {
            match Arc::into_inner(chunk) {
                Some(Chunk::Leaf(items)) => items.into_iter().for_each(each),
                Some(Chunk::Inner(entries)) => {
                    entries.into_iter().for_each(|entry| consume(entry.chunk, each));
                }
                None => {}
            }
        }
        if let Some(root) = self.root {
            consume(root, each);
        }
    }

    /// Both sequences in order, as chunks that both hold and as items of chunks that only one holds. The
    /// time is by the chunks that differ, which `visited` counts.
    pub(crate) fn beside<'a>(
        &'a self,
        other: &'a Self,
        visited: &mut u64,
    ) -> (Vec<Part<'a, T>>, Vec<Part<'a, T>>) {
        let heights =
            [self, other].map(|side| side.root.as_ref().map_or(0, |root| root.height() + 1));
        let start = |side: &'a Self| side.root.iter().map(Piece::Chunk).collect::<Vec<_>>();
        let (mut left, mut right) = (start(self), start(other));
        for height in (0..heights[0].max(heights[1])).rev() {
            let pointers = |pieces: &[Piece<'a, T>]| {
                pieces.iter().filter_map(Piece::pointer).collect::<BTreeSet<_>>()
            };
            let both: BTreeSet<_> =
                pointers(&left).intersection(&pointers(&right)).copied().collect();
            left = expand(left, height, &both, visited);
            right = expand(right, height, &both, visited);
        }
        (parts(left), parts(right))
    }

    #[cfg(test)]
    pub(crate) fn assert_sound(&self) {
        fn sound<T: Item>(chunk: &Chunk<T>) -> usize {
            assert!((1..=chunk.most()).contains(&chunk.len()), "a chunk of {}", chunk.len());
            let Chunk::Inner(entries) = chunk else { return 0 };
            let mut heights = entries.iter().map(|entry| {
                assert_eq!(entry.count as usize, entry.chunk.count());
                assert_eq!(Some(&entry.measure), entry.chunk.measure().as_ref());
                sound(&entry.chunk)
            });
            let first = heights.next().expect("an entry");
            assert!(heights.all(|height| height == first), "leaves at different heights");
            first + 1
        }
        if let Some(root) = &self.root {
            sound(root);
        }
    }
}

/// Lists of at most so many, as even as can be, in order.
fn even<U>(all: Vec<U>, most: usize) -> impl Iterator<Item = Vec<U>> {
    let (count, lists) = (all.len(), all.len().div_ceil(most));
    let mut all = all.into_iter();
    (0..lists).map(move |list| {
        all.by_ref().take(count * (list + 1) / lists - count * list / lists).collect()
    })
}

enum Piece<'a, T: Item> {
    Chunk(&'a Arc<Chunk<T>>),
    Shared(&'a Arc<Chunk<T>>),
    Item(&'a T),
}

impl<T: Item> Piece<'_, T> {
    fn pointer(&self) -> Option<*const Chunk<T>> {
        match self {
            Self::Chunk(chunk) => Some(Arc::as_ptr(chunk)),
            _ => None,
        }
    }
}

/// Marks chunks that both have, and replaces the others of this height by what they hold.
fn expand<'a, T: Item>(
    pieces: Vec<Piece<'a, T>>,
    height: usize,
    both: &BTreeSet<*const Chunk<T>>,
    visited: &mut u64,
) -> Vec<Piece<'a, T>> {
    let mut expanded = Vec::with_capacity(pieces.len());
    for piece in pieces {
        match piece {
            Piece::Chunk(chunk) if both.contains(&Arc::as_ptr(chunk)) => {
                expanded.push(Piece::Shared(chunk));
            }
            Piece::Chunk(chunk) if chunk.height() == height => {
                *visited += 1;
                match &**chunk {
                    Chunk::Leaf(items) => expanded.extend(items.iter().map(Piece::Item)),
                    Chunk::Inner(entries) => {
                        expanded.extend(entries.iter().map(|entry| Piece::Chunk(&entry.chunk)));
                    }
                }
            }
            other => expanded.push(other),
        }
    }
    expanded
}

fn parts<T: Item>(pieces: Vec<Piece<'_, T>>) -> Vec<Part<'_, T>> {
    let part = |piece| match piece {
        Piece::Shared(chunk) => Part::Shared(Arc::as_ptr(chunk), chunk.count()),
        Piece::Item(item) => Part::Item(item),
        Piece::Chunk(_) => unreachable!("every height was expanded"),
    };
    pieces.into_iter().map(part).collect()
}

/// Items in order.
pub(crate) struct Iter<'a, T: Item> {
    stack: Vec<std::slice::Iter<'a, Entry<T>>>,
    leaf: std::slice::Iter<'a, T>,
    left: usize,
}

impl<T: Item> fmt::Debug for Iter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Iter({} left)", self.left)
    }
}

impl<'a, T: Item> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        if self.left == 0 {
            return None;
        }
        loop {
            if let Some(item) = self.leaf.next() {
                self.left -= 1;
                return Some(item);
            }
            let mut chunk = loop {
                match self.stack.last_mut()?.next() {
                    Some(entry) => break &*entry.chunk,
                    None => drop(self.stack.pop()),
                }
            };
            while let Chunk::Inner(entries) = chunk {
                let mut entries = entries.iter();
                chunk = &entries.next().expect("no chunk is empty").chunk;
                self.stack.push(entries);
            }
            if let Chunk::Leaf(items) = chunk {
                self.leaf = items.iter();
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T: Item> ExactSizeIterator for Iter<'_, T> {}

#[cfg(test)]
mod tests {
    use super::*;

    impl Item for u64 {
        type Measure = u64;
        fn measure(&self) -> u64 {
            *self
        }
        fn join(left: &u64, right: &u64) -> u64 {
            *left.max(right)
        }
    }

    /// A linear congruential generator, for tests only.
    fn chance(state: &mut u64, below: usize) -> usize {
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) as usize % below
    }

    #[test]
    fn random_edits_agree_with_a_vector_and_leave_older_versions_alone() {
        for seed in 0..20 {
            let mut state = seed;
            let (mut sequence, mut vector) = (Sequence::default(), Vec::new());
            let mut kept = Vec::new();
            for step in 0..3_000_u64 {
                let growing = chance(&mut state, 100) < if step < 2_000 { 70 } else { 20 };
                if growing || vector.is_empty() {
                    let at = [vector.len(), 0, chance(&mut state, vector.len() + 1)]
                        [chance(&mut state, 3)];
                    sequence.insert(at, step);
                    vector.insert(at, step);
                } else if chance(&mut state, 2) == 0 {
                    let at = chance(&mut state, vector.len());
                    assert_eq!(sequence.remove(at), vector.remove(at), "seed {seed}");
                } else {
                    let at = chance(&mut state, vector.len());
                    let new = vector[at].max(step);
                    *sequence.get_mut(at, |most| *most = new.max(*most)).expect("it is there") =
                        new;
                    vector[at] = new;
                }
                if step % 250 == 0 {
                    sequence.assert_sound();
                    kept.push((sequence.clone(), vector.clone()));
                }
            }
            for (sequence, vector) in kept {
                assert!(sequence.iter().eq(&vector), "seed {seed}: an older version changed");
                let from = chance(&mut state, vector.len() + 1);
                assert!(sequence.range(from..from + 40).eq(vector[from..].iter().take(40)));
            }
        }
    }

    #[test]
    fn all_at_once_is_one_after_the_other() {
        for count in [0, 1, 31, 32, 33, 1_023, 1_024, 1_025, 40_000] {
            let items: Vec<u64> = (0..count).collect();
            let sequence = Sequence::from_items(items.clone());
            sequence.assert_sound();
            assert!(sequence.iter().eq(&items));
            assert_eq!(sequence.search(|most| *most < count / 2).0 as u64, count / 2);
        }
    }

    #[test]
    fn sequences_side_by_side_show_few_items_after_few_edits() {
        let before = Sequence::from_items((0..100_000_u64).collect());
        let mut after = before.clone();
        after.insert(50_000, 1_000_000);
        after.remove(99_999);
        after.remove(0);
        let mut visited = 0;
        let (left, right) = before.beside(&after, &mut visited);
        assert!(visited <= 30, "{visited} chunks visited");
        let items = |parts: &[Part<'_, u64>]| {
            parts.iter().filter(|part| matches!(part, Part::Item(_))).count()
        };
        assert!(items(&left) <= 4 * LEAF_MAX && items(&right) <= 4 * LEAF_MAX);
    }
}
