//! Places in a file of another tool, so that whatever is wrong is told with its line.

use std::collections::BTreeMap;

/// The lines in which the parts of a model are declared, by their names.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    file: String,
    by_name: BTreeMap<String, u32>,
}

impl Lines {
    pub(super) fn new(file: &str) -> Lines {
        Lines { file: file.to_owned(), by_name: BTreeMap::new() }
    }

    pub(super) fn file(&self) -> &str {
        &self.file
    }

    pub(super) fn add(&mut self, name: &str, line: u32) {
        self.by_name.entry(name.to_owned()).or_insert(line);
    }

    /// A message with the file before it, and the line of the first part that it names in backquotes.
    pub(super) fn tell(&self, message: &str) -> String {
        let file = &self.file;
        let named = message.split('`').skip(1).step_by(2);
        match named.filter_map(|name| self.by_name.get(name)).next() {
            Some(line) => format!("{file}:{line}: {message}"),
            None => format!("{file}: {message}"),
        }
    }
}

/// The way out for a name that is not known.
pub fn suggest<'n>(name: &str, known: impl Iterator<Item = &'n str> + Clone) -> String {
    match measure::nearest(name, known.clone()) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => {
            let known: Vec<&str> = known.take(12).collect();
            format!("known here: {}", known.join(", "))
        }
    }
}

/// A number that is not negative.
pub(super) fn number(text: &str) -> Result<f64, String> {
    let text = text.trim();
    if text.starts_with('$') {
        return Err(format!(
            "`{text}` is a variable, and these are not supported; write its value"
        ));
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err(format!("`{text}` is not a number from 0 up; correct it")),
    }
}

/// Number of something: at least 1.
pub(super) fn count(text: &str) -> Result<u32, String> {
    let text = text.trim();
    if text.starts_with('$') {
        return Err(format!(
            "`{text}` is a variable, and these are not supported; write its value"
        ));
    }
    match text.parse::<u32>() {
        Ok(count @ 1..) => Ok(count),
        _ => Err(format!("`{text}` is not a whole number from 1 up; correct it")),
    }
}
