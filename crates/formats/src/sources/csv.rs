//! Comma-separated values (RFC 4180): quoted fields, also over several lines.

use std::path::Path;

use super::wrong;
use crate::ReadError;

/// A record and the line on which it begins, from 1.
pub(super) struct Record {
    pub(super) line: usize,
    pub(super) fields: Vec<String>,
}

/// All records, without empty lines; all have as many fields as the first.
pub(super) fn records(path: &Path, text: &str) -> Result<Vec<Record>, ReadError> {
    let mut records: Vec<Record> = Vec::new();
    let mut chars = text.trim_start_matches('\u{feff}').chars().peekable();
    let mut line = 1;
    while chars.peek().is_some() {
        let begins = line;
        let mut fields = vec![String::new()];
        let mut quoted = false;
        loop {
            let field = fields.last_mut().expect("there is always one");
            match chars.next() {
                Some('"') if quoted && chars.peek() == Some(&'"') => {
                    chars.next();
                    field.push('"');
                }
                Some('"') if quoted => quoted = false,
                Some('"') if field.is_empty() => quoted = true,
                Some(',') if !quoted => fields.push(String::new()),
                Some('\n') if !quoted => {
                    line += 1;
                    break;
                }
                Some('\r') if !quoted => {}
                Some(c) => {
                    line += usize::from(c == '\n');
                    field.push(c);
                }
                None if quoted => return Err(wrong(path, begins, "a quote is never closed")),
                None => break,
            }
        }
        if fields.len() == 1 && fields[0].trim().is_empty() {
            continue;
        }
        if let Some(first) = records.first()
            && first.fields.len() != fields.len()
        {
            let (has, wanted) = (fields.len(), first.fields.len());
            return Err(wrong(path, begins, format!("it has {has} fields, the header {wanted}")));
        }
        records.push(Record { line: begins, fields });
    }
    Ok(records)
}

/// The column of one of these names, whatever its case.
pub(super) fn column(header: &Record, names: &[&str]) -> Option<usize> {
    header.fields.iter().position(|field| names.contains(&field.trim().to_lowercase().as_str()))
}
