//! Documents, drawn at random and from decks.

use workload::{Deck, Document, DocumentError, DocumentSet, Draw, Drawing, stream};

fn set(weights: &[u32]) -> DocumentSet {
    let document = |(at, &weight): (usize, &u32)| Document {
        name: format!("d{at}"),
        bytes: 100 * (at as u64 + 1),
        weight,
    };
    DocumentSet::new(weights.iter().enumerate().map(document).collect()).expect("weights above 0")
}

#[test]
fn every_deck_is_exact() {
    let webstone = DocumentSet::webstone();
    let mut deck = Deck::new(&webstone);
    let mut chance = stream(1, 0);
    assert_eq!(deck.size(), 1000);
    let mut orders = Vec::new();
    for _ in 0..200 {
        let cards: Vec<usize> = (0..1000).map(|_| deck.draw(&mut chance)).collect();
        let mut drawn = [0; 5];
        cards.iter().for_each(|&class| drawn[class] += 1);
        assert_eq!(drawn, [350, 500, 140, 9, 1]);
        orders.push(cards);
    }
    orders.sort_unstable();
    orders.dedup();
    assert_eq!(orders.len(), 200, "each is shuffled anew");
}

/// Where in the deck the one large document lies: uniform, mean 499.5, variance (1000^2 - 1) / 12.
#[test]
fn a_deck_is_shuffled_fairly() {
    const DECKS: u32 = 4000;
    let webstone = DocumentSet::webstone();
    let mut deck = Deck::new(&webstone);
    let mut chance = stream(2, 0);
    let mut place = || {
        let cards: Vec<usize> = (0..1000).map(|_| deck.draw(&mut chance)).collect();
        cards.iter().position(|&class| class == 4).unwrap() as f64
    };
    let places: Vec<f64> = (0..DECKS).map(|_| place()).collect();
    let mean = places.iter().sum::<f64>() / f64::from(DECKS);
    let allowed = 4.0 * ((1e6 - 1.0) / 12.0 / f64::from(DECKS)).sqrt();
    assert!((mean - 499.5).abs() <= allowed, "{mean}");
    // Tenths of the deck: chi-square with 9 degrees of freedom, mean 9, variance 18.
    let mut tenths = [0.0; 10];
    places.iter().for_each(|place| tenths[(place / 100.0) as usize] += 1.0);
    let expected = f64::from(DECKS) / 10.0;
    let chi2: f64 = tenths.iter().map(|n: &f64| (n - expected).powi(2) / expected).sum();
    assert!(chi2 <= 9.0 + 4.0 * 18.0_f64.sqrt(), "{chi2} {tenths:?}");
}

#[test]
fn decks_are_as_small_as_the_weights_allow() {
    for (weights, size) in [
        (vec![10, 20, 30], 6),
        (vec![7], 1),
        (vec![1, 1], 2),
        (vec![6, 10, 15], 31),
        (vec![2_000_000_000, 4_000_000_000], 3),
    ] {
        let set = set(&weights);
        let mut deck = Deck::new(&set);
        assert_eq!(deck.size(), size, "{weights:?}");
        let mut chance = stream(3, 0);
        let mut drawn = vec![0.0; set.len()];
        for _ in 0..size * 3 {
            drawn[deck.draw(&mut chance)] += 1.0;
        }
        for (class, drawn) in drawn.iter().enumerate() {
            assert!((drawn / (size as f64 * 3.0) - set.share(class)).abs() < 1e-12, "{weights:?}");
        }
    }
}

/// Pearson's statistic has as many degrees of freedom as there are documents less one; its mean is
/// that, its variance twice that.
#[test]
fn random_draws_follow_the_weights() {
    const N: u32 = 200_000;
    for weights in [vec![350, 500, 140, 9, 1], vec![1; 50], vec![u32::MAX, u32::MAX, 1 << 30]] {
        let set = set(&weights);
        let mut drawing = Drawing::new(&set, Draw::Random);
        let mut chance = stream(4, 0);
        let mut drawn = vec![0.0; set.len()];
        for _ in 0..N {
            drawn[drawing.draw(&mut chance)] += 1.0;
        }
        let expected = |class: usize| f64::from(N) * set.share(class);
        let chi2: f64 = (0..set.len())
            .map(|class| (drawn[class] - expected(class)).powi(2) / expected(class))
            .sum();
        let freedom = (set.len() - 1) as f64;
        assert!(chi2 <= freedom + 4.0 * (2.0 * freedom).sqrt(), "{weights:?}: {chi2}");
        assert!(chi2 > 0.0, "random draws are not a deck");
    }
}

#[test]
fn a_drawing_by_deck_is_the_deck() {
    let set = set(&[3, 2, 1]);
    let (mut deck, mut drawing) = (Deck::new(&set), Drawing::new(&set, Draw::Deck));
    let (mut a, mut b) = (stream(6, 0), stream(6, 0));
    for _ in 0..60 {
        assert_eq!(deck.draw(&mut a), drawing.draw(&mut b));
    }
}

#[test]
fn sets_know_their_weights() {
    let webstone = DocumentSet::webstone();
    assert_eq!((webstone.len(), webstone.total_weight()), (5, 1000));
    assert!(!webstone.is_empty());
    assert_eq!(webstone.share(1), 0.5);
    // 175 + 2500 + 7000 + 4500 + 5000.
    assert!((webstone.mean_of(|document| document.bytes as f64) - 19_175.0).abs() < 1e-9);
    let single = DocumentSet::single("index", 12);
    assert_eq!((single.documents()[0].bytes, single.share(0)), (12, 1.0));
    let full = set(&[u32::MAX; 3]);
    assert_eq!(full.total_weight(), 3 * u64::from(u32::MAX));
}

#[test]
fn bad_sets_are_told() {
    let document = |name: &str, weight| Document { name: name.into(), bytes: 1, weight };
    assert_eq!(DocumentSet::new(vec![]), Err(DocumentError::Empty));
    let no_weight = DocumentSet::new(vec![document("a", 1), document("b", 0)]);
    assert_eq!(no_weight, Err(DocumentError::NoWeight("b".into())));
    let same = DocumentSet::new(vec![document("a", 1), document("b", 1), document("a", 2)]);
    assert_eq!(same, Err(DocumentError::SameName("a".into())));
    assert_eq!(same.unwrap_err().to_string(), "two documents are called `a`");
    assert!(no_weight.unwrap_err().to_string().contains("document `b` has weight 0"));
}

#[cfg(feature = "serde")]
#[test]
fn documents_go_round_through_files() {
    use serde_json::{from_value, json, to_value};
    let document = Document { name: "5k".into(), bytes: 5000, weight: 500 };
    let expected = json!({"name": "5k", "bytes": 5000, "weight": 500});
    assert_eq!(to_value(&document).unwrap(), expected);
    assert_eq!(from_value::<Document>(expected).unwrap(), document);
    let unknown = json!({"name": "5k", "bytes": 5000, "weight": 500, "size": 1});
    let error = from_value::<Document>(unknown).unwrap_err().to_string();
    assert!(error.contains("unknown field `size`"), "{error}");
    for (draw, name) in [(Draw::Random, "random"), (Draw::Deck, "deck")] {
        assert_eq!(to_value(draw).unwrap(), json!(name));
        assert_eq!(from_value::<Draw>(json!(name)).unwrap(), draw);
    }
}
