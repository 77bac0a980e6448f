//! Parquet files have the rows of the CSV file beside them, where the command was built to write them.

use std::fs;

use crate::arguments::SCENARIO;
use crate::browser::Scratch;
use crate::command::sekisho;

/// Without the feature nothing is simulated that could not be kept.
#[cfg(not(feature = "parquet"))]
#[test]
fn a_build_that_writes_none_says_so_at_once() {
    let scratch = Scratch::new();
    fs::write(scratch.join("s.toml"), SCENARIO).expect("a folder of our own");
    let words = ["sim", "s.toml", "--csv", "s.csv", "--parquet", "s.parquet"];
    let ended = sekisho(&scratch.join(""), &words);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert_eq!(ended.out, "");
    let message = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(message.contains("writes no Parquet files"), "{message}");
    assert!(message.contains("--features parquet"), "{message}");
    assert!(!scratch.join("s.csv").exists(), "nothing was done");
}

/// Without the feature no file of agents is made or read, and no server is asked.
#[cfg(not(feature = "parquet"))]
#[test]
fn agents_are_not_moved_by_a_build_without_parquet() {
    let scratch = Scratch::new();
    fs::write(scratch.join("in.parquet"), "PAR1").expect("a folder of our own");
    for (verb, file) in [("export", "out.PARQUET"), ("import", "in.parquet")] {
        let ended = sekisho(&scratch.join(""), &["agents", verb, file]);
        assert_eq!((ended.code, &*ended.out), (2, ""), "{ended:?}");
        let message = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(message.contains(file), "{message}");
        assert!(message.contains("neither writes nor reads Parquet files"), "{message}");
        assert!(message.contains(".csv") && message.contains("--features parquet"), "{message}");
    }
    assert!(!scratch.join("out.PARQUET").exists(), "nothing was made");
}

#[cfg(feature = "parquet")]
mod written {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::{Row, RowAccessor};

    use super::*;

    /// Every row of the file, read by the library's own reader.
    fn rows(scratch: &Scratch, text: impl Fn(&Row) -> String) -> Vec<String> {
        let file = fs::File::open(scratch.join("s.parquet")).expect("it was written");
        let reader = SerializedFileReader::new(file).expect("it is a Parquet file");
        let rows = reader.get_row_iter(None).expect("it has rows");
        rows.map(|row| text(&row.expect("it can be read"))).collect()
    }

    /// Some fields of every line of the CSV file but the first.
    fn lines(scratch: &Scratch, fields: std::ops::Range<usize>) -> Vec<String> {
        let csv = fs::read_to_string(scratch.join("s.csv")).expect("it was written");
        let some = |line: &str| line.split(',').collect::<Vec<_>>()[fields.clone()].join(",");
        csv.lines().skip(1).map(some).collect()
    }

    #[test]
    fn a_sweep_has_the_rows_of_the_csv_file() {
        let scratch = Scratch::new();
        fs::write(scratch.join("s.toml"), SCENARIO).expect("a folder of our own");
        let words = "sim s.toml --max-requests 20000 --sweep gate.pool.slots=1..2 \
            --sweep class.web.rate=20/s,60/s,200/s --csv s.csv --parquet s.parquet";
        let words: Vec<&str> = words.split_whitespace().collect();
        let ended = sekisho(&scratch.join(""), &words);
        assert_eq!(ended.code, 4, "20,000 requests are not precise: {ended:?}");
        let found = rows(&scratch, |row| {
            let text = |at: usize| row.get_string(at).expect("a text").clone();
            let texts: Vec<String> = (0..6).map(text).collect();
            format!("{},{}", texts.join(","), row.get_double(6).expect("a number"))
        });
        assert!(!found.is_empty());
        assert_eq!(found, lines(&scratch, 0..7));
    }

    /// Files had 3600 s and no interval, as if it were a time that nobody knows well.
    #[test]
    fn a_quantile_that_is_a_bound_says_so() {
        let scratch = Scratch::new();
        fs::write(scratch.join("s.toml"), crate::beyond::LONG).expect("a folder of our own");
        let words = "sim s.toml --precision 20% --csv s.csv --parquet s.parquet";
        let words: Vec<&str> = words.split_whitespace().collect();
        let ended = sekisho(&scratch.join(""), &words);
        assert!([0, 4].contains(&ended.code), "{ended:?}");
        let bounds = rows(&scratch, |row| row.get_string(7).expect("a text").clone());
        assert!(bounds.contains(&"at-least".to_owned()), "{bounds:?}");
        assert_eq!(bounds, lines(&scratch, 7..8));
    }
}
