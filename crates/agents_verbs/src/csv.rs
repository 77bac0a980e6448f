//! Tables as text (RFC 4180), read strictly: a quote that is not closed would swallow the rest of a file without
//! a word. An empty cell has no value; an empty text stands in quotes.

use std::io::{self, BufReader, Bytes, Read};
use std::iter::Peekable;

/// Most bytes of a row: one without end is told before it takes all memory \[B\].
const ROW_MAX: usize = 1 << 20;

/// A cell, with the place of its first character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    /// Its text; `None` if nothing stands there, not even quotes.
    pub(crate) text: Option<String>,
    pub(crate) at: Place,
}

/// A line and a column, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: u64,
    pub(crate) column: u64,
}

/// The cause why a text is no table, and its place.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(crate) at: Place,
    pub(crate) cause: String,
}

/// Rows of a text.
pub(crate) struct Rows<R: Read> {
    bytes: Peekable<Bytes<BufReader<R>>>,
    at: Place,
}

impl<R: Read> Rows<R> {
    pub(crate) fn new(from: R) -> Rows<R> {
        let at = Place { line: 1, column: 1 };
        Rows { bytes: BufReader::new(from).bytes().peekable(), at }
    }

    fn wrong<T>(&self, at: Place, cause: impl Into<String>) -> Result<T, Wrong> {
        Err(Wrong { at, cause: cause.into() })
    }

    /// The next byte, without taking it.
    fn peek(&mut self) -> Result<Option<u8>, Wrong> {
        match self.bytes.peek() {
            None => Ok(None),
            Some(Ok(byte)) => Ok(Some(*byte)),
            Some(Err(error)) => {
                let cause = error.to_string();
                self.wrong(self.at, cause)
            }
        }
    }

    /// Takes the byte that was seen.
    fn take(&mut self, byte: u8) {
        self.bytes.next();
        match byte {
            b'\n' => self.at = Place { line: self.at.line + 1, column: 1 },
            // The rest of a character is in the column of its first byte.
            0x80..=0xbf => {}
            _ => self.at.column += 1,
        }
    }

    /// The next row that is not an empty line; `None` at the end.
    pub(crate) fn row(&mut self) -> Result<Option<Vec<Cell>>, Wrong> {
        loop {
            if self.peek()?.is_none() {
                return Ok(None);
            }
            let (mut cells, mut size) = (Vec::new(), 0);
            while {
                let cell = self.cell(&mut size)?;
                cells.push(cell);
                self.goes_on()?
            } {}
            if !matches!(&cells[..], [Cell { text: None, .. }]) {
                return Ok(Some(cells));
            }
        }
    }

    /// Takes what stands behind a cell; true if another one follows in the row.
    fn goes_on(&mut self) -> Result<bool, Wrong> {
        let at = self.at;
        match self.peek()? {
            None => Ok(false),
            Some(b',') => {
                self.take(b',');
                Ok(true)
            }
            Some(b'\r') => {
                self.take(b'\r');
                match self.peek()? {
                    Some(b'\n') => {
                        self.take(b'\n');
                        Ok(false)
                    }
                    _ => self.wrong(at, "a line ends with a carriage return alone"),
                }
            }
            Some(b'\n') => {
                self.take(b'\n');
                Ok(false)
            }
            Some(_) => self.wrong(
                at,
                "something follows a quote that is closed: a quote within a text is written twice",
            ),
        }
    }

    fn cell(&mut self, size: &mut usize) -> Result<Cell, Wrong> {
        let at = self.at;
        let mut bytes = Vec::new();
        let is_quoted = self.peek()? == Some(b'"');
        if is_quoted {
            self.take(b'"');
        }
        loop {
            *size += 1;
            if *size > ROW_MAX {
                return self.wrong(
                    at,
                    format!("a row of more than {ROW_MAX} bytes; is a quote not closed?"),
                );
            }
            let here = self.at;
            match (self.peek()?, is_quoted) {
                (None, true) => return self.wrong(at, "this quote is not closed"),
                (None | Some(b',' | b'\n' | b'\r'), false) => break,
                (Some(b'"'), true) => {
                    self.take(b'"');
                    if self.peek()? != Some(b'"') {
                        break;
                    }
                    self.take(b'"');
                    bytes.push(b'"');
                }
                (Some(b'"'), false) => {
                    let cause = "a quote within a text: put the text into quotes, and write quotes \
                                 within it twice";
                    return self.wrong(here, cause);
                }
                (Some(byte), _) => {
                    self.take(byte);
                    bytes.push(byte);
                }
            }
        }
        let Ok(text) = String::from_utf8(bytes) else { return self.wrong(at, "this is no UTF-8") };
        Ok(Cell { text: (is_quoted || !text.is_empty()).then_some(text), at })
    }
}

/// A cell as it is written.
pub(crate) fn written(text: Option<&str>) -> String {
    match text {
        None => String::new(),
        Some(text) if text.is_empty() || text.contains([',', '"', '\n', '\r']) => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        Some(text) => text.to_owned(),
    }
}

/// The mark of UTF-8 that some programs put before a table is left out.
pub(crate) fn without_mark(mut from: impl Read) -> io::Result<impl Read> {
    let mut first = Vec::new();
    from.by_ref().take(3).read_to_end(&mut first)?;
    if first == [0xef, 0xbb, 0xbf] {
        first.clear();
    }
    Ok(io::Cursor::new(first).chain(from))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

    use super::*;

    fn read(text: &str) -> Result<Vec<Vec<Option<String>>>, String> {
        let mut rows = Rows::new(text.as_bytes());
        let mut all = Vec::new();
        loop {
            match rows.row() {
                Ok(None) => return Ok(all),
                Ok(Some(row)) => all.push(row.into_iter().map(|cell| cell.text).collect()),
                Err(Wrong { at, cause }) => {
                    return Err(format!("{}:{}: {cause}", at.line, at.column));
                }
            }
        }
    }

    /// All texts of up to five of the characters that matter, in two cells beside one without a value.
    #[test]
    fn what_was_written_is_read_again() {
        let alphabet = ['a', ',', '"', '\n', '\r', 'ü'];
        let mut all = vec![String::new()];
        for _ in 0..5 {
            let longer = all.iter().flat_map(|it| alphabet.map(|c| format!("{it}{c}")));
            all = std::iter::once(String::new()).chain(longer.collect::<Vec<_>>()).collect();
            all.dedup();
        }
        assert!(all.len() > 7_000);
        for text in &all {
            let cells = [Some(text.clone()), None, Some(text.clone())];
            let line: Vec<String> = cells.iter().map(|it| written(it.as_deref())).collect();
            let table = format!("{0}\r\n{0}\n", line.join(","));
            assert_eq!(read(&table).unwrap(), [cells.to_vec(), cells.to_vec()], "{table:?}");
        }
    }

    #[test]
    fn what_is_no_table_is_told_with_its_place() {
        for (text, wanted) in [
            ("a,b\nc,\"d", "2:3: this quote is not closed"),
            ("ü,b\"c\n", "1:4: a quote within a text"),
            ("\"a\" ,b\n", "1:4: something follows a quote that is closed"),
            ("a\rb\n", "1:2: a line ends with a carriage return alone"),
        ] {
            let told = read(text).unwrap_err();
            assert!(told.starts_with(wanted), "{told}");
        }
        let mut bytes = Rows::new(&b"a,\xff\n"[..]);
        assert_eq!(bytes.row().unwrap_err().at, Place { line: 1, column: 3 });
        let long = format!("a,\"{}", "x".repeat(2 << 20));
        assert!(read(&long).unwrap_err().starts_with("1:3: a row of more than"));
        assert_eq!(read("\n\r\na\n\n").unwrap(), [[Some("a".to_owned())]]);
    }
}
