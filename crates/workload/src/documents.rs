//! What is asked for: documents with sizes and weights, drawn at random or from a shuffled deck.

use std::collections::BTreeSet;
use std::fmt;

use rand::RngExt;
use rand::seq::SliceRandom;

use crate::Chance;

/// A thing that is asked for by name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
pub struct Document {
    /// Its name, also the last part of its path.
    pub name: String,
    /// Its size \[bytes\].
    pub bytes: u64,
    /// How often it is asked for, relative to the others' weights; at least 1.
    pub weight: u32,
}

/// Documents with weights. A document's index in the set is its class in a run record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentSet {
    documents: Vec<Document>,
    /// Sum of all weights.
    total: u64,
}

/// Why documents make no set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentError {
    /// There is none.
    Empty,
    /// A document has weight 0, so that nobody would ever ask for it.
    NoWeight(
        /// Its name.
        String,
    ),
    /// Two documents have one name.
    SameName(
        /// The name.
        String,
    ),
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DocumentError::Empty => write!(f, "a document set needs at least one document"),
            DocumentError::NoWeight(name) => {
                write!(f, "document `{name}` has weight 0: give it 1 or more, or leave it out")
            }
            DocumentError::SameName(name) => write!(f, "two documents are called `{name}`"),
        }
    }
}

impl std::error::Error for DocumentError {}

impl DocumentSet {
    /// A set of these documents.
    ///
    /// # Errors
    /// If there is none, one has no weight, or two have the same name.
    pub fn new(documents: Vec<Document>) -> Result<DocumentSet, DocumentError> {
        if documents.is_empty() {
            return Err(DocumentError::Empty);
        }
        let mut names = BTreeSet::new();
        for document in &documents {
            if document.weight == 0 {
                return Err(DocumentError::NoWeight(document.name.clone()));
            }
            if !names.insert(&document.name) {
                return Err(DocumentError::SameName(document.name.clone()));
            }
        }
        let total = documents.iter().map(|document| u64::from(document.weight)).sum();
        Ok(DocumentSet { documents, total })
    }

    /// The file list of WebStone 2, as fujita used it: 500 B 350, 5 KB 500, 50 KB 140, 500 KB 9
    /// and 5 MB 1, per 1000.
    pub fn webstone() -> DocumentSet {
        let document = |name: &str, bytes, weight| Document { name: name.into(), bytes, weight };
        DocumentSet::new(vec![
            document("500b", 500, 350),
            document("5k", 5_000, 500),
            document("50k", 50_000, 140),
            document("500k", 500_000, 9),
            document("5m", 5_000_000, 1),
        ])
        .expect("five names, no weight of 0")
    }

    /// One document that is always asked for.
    pub fn single(name: &str, bytes: u64) -> DocumentSet {
        let document = Document { name: name.into(), bytes, weight: 1 };
        DocumentSet { documents: vec![document], total: 1 }
    }

    /// The documents, in the order of their classes.
    pub fn documents(&self) -> &[Document] {
        &self.documents
    }

    /// How many documents there are.
    pub fn len(&self) -> usize {
        self.documents.len()
    }

    /// Never: a set has at least one document.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Sum of all weights.
    pub fn total_weight(&self) -> u64 {
        self.total
    }

    /// The share of requests that ask for document `class`, between 0 and 1.
    ///
    /// # Panics
    /// If there is no such document.
    pub fn share(&self, class: usize) -> f64 {
        f64::from(self.documents[class].weight) / self.total as f64
    }

    /// The weighted mean of `of(document)`.
    pub fn mean_of(&self, of: impl Fn(&Document) -> f64) -> f64 {
        let weighted = |document: &Document| f64::from(document.weight) * of(document);
        self.documents.iter().map(weighted).sum::<f64>() / self.total as f64
    }
}

/// How documents are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Draw {
    /// Each request independently, by the weights.
    Random,
    /// From a shuffled deck that holds each document as often as its weight says, so that every
    /// full deck has the exact mix. The rare large documents then vary no longer from run to run.
    Deck,
}

/// Documents being drawn, in either way.
#[derive(Clone, Debug)]
pub enum Drawing {
    /// See [`Draw::Random`]: the sums of the weights up to and including each document.
    Random {
        /// The running sums.
        sums: Vec<u64>,
    },
    /// See [`Draw::Deck`].
    Deck(
        /// The deck.
        Deck,
    ),
}

impl Drawing {
    /// Begins to draw from a set.
    pub fn new(set: &DocumentSet, draw: Draw) -> Drawing {
        let weights: Vec<u32> = set.documents.iter().map(|document| document.weight).collect();
        Drawing::of_weights(&weights, draw)
    }

    /// Begins to draw classes with these weights, of which one is above 0.
    pub fn of_weights(weights: &[u32], draw: Draw) -> Drawing {
        match draw {
            Draw::Deck => Drawing::Deck(Deck::of_weights(weights)),
            Draw::Random => {
                let sums = weights.iter().scan(0, |sum, &weight| {
                    *sum += u64::from(weight);
                    Some(*sum)
                });
                Drawing::Random { sums: sums.collect() }
            }
        }
    }

    /// The class of the next document.
    pub fn draw(&mut self, chance: &mut Chance) -> usize {
        match self {
            Drawing::Deck(deck) => deck.draw(chance),
            Drawing::Random { sums } => {
                let total = *sums.last().expect("a set has at least one document");
                let at = chance.random_range(0..total);
                sums.partition_point(|&sum| sum <= at)
            }
        }
    }
}

/// A shuffled deck: each document as often as its weight says (weights reduced by their greatest
/// common divisor), shuffled anew whenever it is empty.
#[derive(Clone, Debug)]
pub struct Deck {
    cards: Vec<u32>,
    left: usize,
}

impl Deck {
    /// A deck over the set. Decks of weights that sum to millions take as many words of memory.
    pub fn new(set: &DocumentSet) -> Deck {
        let weights: Vec<u32> = set.documents.iter().map(|document| document.weight).collect();
        Deck::of_weights(&weights)
    }

    /// A deck over classes with these weights, of which one is above 0.
    pub fn of_weights(weights: &[u32]) -> Deck {
        let divisor = weights.iter().fold(0, |a, &weight| gcd(a, weight)).max(1);
        Deck::of(&weights.iter().map(|weight| weight / divisor).collect::<Vec<_>>())
    }

    /// Number of cards of a full deck over classes with these weights, without making it.
    pub fn size_of(weights: &[u32]) -> u64 {
        let divisor = weights.iter().fold(0, |a, &weight| gcd(a, weight)).max(1);
        weights.iter().map(|weight| u64::from(weight / divisor)).sum()
    }

    /// A deck with so many cards of each class.
    pub(crate) fn of(counts: &[u32]) -> Deck {
        let cards = counts
            .iter()
            .enumerate()
            .flat_map(|(class, &count)| std::iter::repeat_n(class as u32, count as usize));
        Deck { cards: cards.collect(), left: 0 }
    }

    /// How many cards a full deck has.
    pub fn size(&self) -> usize {
        self.cards.len()
    }

    /// The class of the next document.
    pub fn draw(&mut self, chance: &mut Chance) -> usize {
        if self.left == 0 {
            self.cards.shuffle(chance);
            self.left = self.cards.len();
        }
        self.left -= 1;
        self.cards[self.left] as usize
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}
