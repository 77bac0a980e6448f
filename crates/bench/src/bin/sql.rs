//! Cost of reading a SQL text for the PostgreSQL gate by the byte, against a bare look at each byte
//! in the same run.
//!
//! The text is a short statement of TPC-C and a tag. Interleaved; the least of many rounds, since
//! whatever disturbs only adds.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use pgsession::sql::tokens::{Kind, LexerMode, Tokens};
use pgsession::sql::{
    Choices, Decision, Fingerprint, Prefilter, Settings, SettingsBounds, Side, Tags, access,
    decide, effects, prefilter,
};

const TEXT: &[u8] = b"SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse \
    WHERE w_id = $1 AND c_w_id = w_id AND c_d_id = $2 AND c_id = 'abc def' /*class='x',key='42'*/";
const ROUNDS: usize = 200;
const TURNS: usize = 200;

fn main() {
    let lexer_mode = LexerMode::default();
    let tokens = |text: &[u8]| {
        let mut tokens = Tokens::new(text, lexer_mode).expect("it is ASCII");
        let mut count = 0;
        while tokens.read().expect("it ends").kind != Kind::End {
            count += 1;
        }
        count
    };
    let choices = Choices::default();
    let client = Settings::new(Side::Client, SettingsBounds::default(), []);
    let mut server = Settings::new(Side::Server, SettingsBounds::default(), []);
    Settings::handed_over(&mut server, &mut client.clone());
    type Work<'a> = (&'static str, Box<dyn Fn(&[u8]) -> u64 + 'a>);
    let works: [Work<'_>; 8] = [
        (
            "bare look at each byte",
            Box::new(|text| text.iter().fold(0, |sum, &byte| sum ^ u64::from(black_box(byte)))),
        ),
        ("glance", Box::new(|text| u64::from(prefilter(text, lexer_mode) == Prefilter::Nothing))),
        ("tokens", Box::new(|text| tokens(text))),
        (
            "leaves and decide",
            Box::new(|text| {
                u64::from(decide(&effects(text, lexer_mode), &choices) == Decision::Pass)
            }),
        ),
        (
            "fingerprint",
            Box::new(|text| Fingerprint::of(text, lexer_mode).map_or(0, |found| found.0)),
        ),
        (
            "tags",
            Box::new(|text| {
                Tags::of(text, lexer_mode).map_or(0, |tags| u64::from(tags.value(b"key").is_some()))
            }),
        ),
        ("read only", Box::new(|text| access(text, lexer_mode).map_or(0, |found| found as u64))),
        (
            "nothing to hand over",
            Box::new(|_| u64::from(Settings::difference(&server, &client) == Ok(None))),
        ),
    ];
    let mut least = [f64::INFINITY; 8];
    for _ in 0..ROUNDS {
        for (least, (_, work)) in least.iter_mut().zip(&works) {
            let begun = Instant::now();
            for _ in 0..TURNS {
                black_box(work(black_box(TEXT)));
            }
            *least = least.min(begun.elapsed().as_nanos() as f64 / TURNS as f64);
        }
    }
    println!("a text of {} bytes", TEXT.len());
    println!("{:<24} {:>9} {:>9} {:>9}", "", "ns/text", "ns/byte", "x bare");
    for (least_of, (name, _)) in least.iter().zip(&works) {
        let by_byte = least_of / TEXT.len() as f64;
        println!("{name:<24} {least_of:>9.0} {by_byte:>9.2} {:>9.2}", least_of / least[0]);
    }
}
