//! Numbers, tables and paragraphs as a person reads them, as wide as the terminal is.

use std::ops::Range;

use measure::figures::{PLACES_MAX, WHOLE_MAX, digits, magnitude, time_unit};
pub use measure::figures::{count, rate, time};
use measure::{Bound, Estimate};

use crate::layout::Width;

/// A time with its interval, of two significant figures: `12.34 ms ± 0.43`.
pub fn time_estimate(estimate: &Estimate) -> String {
    let (factor, unit) = time_unit(estimate.mean);
    with_interval(estimate, factor, unit)
}

/// A quantile of a histogram, as far as that tells durations apart: `12.3 ms`, `beyond 1 h`.
pub fn quantile(seconds: f64) -> String {
    untold(seconds).map_or_else(|| time(seconds), str::to_owned)
}

/// The same with its interval: `12.34 ms ± 0.43`.
pub fn quantile_estimate(estimate: &Estimate) -> String {
    untold(estimate.mean).map_or_else(|| time_estimate(estimate), str::to_owned)
}

/// The words for a quantile that a histogram does not tell apart from others.
pub fn untold(seconds: f64) -> Option<&'static str> {
    Bound::of(seconds).map(|bound| match bound {
        Bound::AtLeast => "beyond 1 h",
        Bound::AtMost => "below 1 us",
    })
}

/// Two times in the unit of the second: `12.1/12.3 ms`; a missing one is a dash.
pub fn times(first: Option<f64>, second: Option<f64>) -> String {
    let (factor, unit) = time_unit(second.or(first).unwrap_or(0.0));
    let one = |value: Option<f64>| value.map_or("-".into(), |value| digits(value * factor));
    format!("{}/{} {unit}", one(first), one(second))
}

/// A rate with its interval: `512.3 /s ± 3.1`.
pub fn rate_estimate(estimate: &Estimate) -> String {
    with_interval(estimate, 1.0, "/s")
}

/// A difference in percent, with its sign: `+3.1 %`; of nothing it is a dash.
pub fn percent(share: f64) -> String {
    if !share.is_finite() {
        return "-".into();
    }
    format!("{:+.1} %", share * 100.0)
}

/// A size with its unit: `50 kB`.
pub fn bytes(bytes: u64) -> String {
    let value = bytes as f64;
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", digits(value / 1e3)),
        _ => format!("{} MB", digits(value / 1e6)),
    }
}

/// A number with its interval, of so many decimals at least: `58020 ± 3539`.
pub fn plus_minus(estimate: &Estimate, places: usize) -> String {
    plus_minus_of(estimate, places, "")
}

/// A share in percent with its interval, of so many decimals at least: `80.1 % ± 0.3`.
pub fn percent_estimate(share: &Estimate, places: usize) -> String {
    let Estimate { mean, half_width, .. } = *share;
    let percent = Estimate { mean: mean * 100.0, half_width: half_width * 100.0, ..*share };
    plus_minus_of(&percent, places, " %")
}

fn plus_minus_of(estimate: &Estimate, places: usize, unit: &str) -> String {
    let (mean, half) = (estimate.mean, estimate.half_width);
    match spread(estimate) {
        Spread::Unknown => format!("{mean:.places$}{unit} ± ?"),
        Spread::None => format!("{mean:.places$}{unit} ± 0"),
        Spread::Some => {
            // One that is there is not rounded away.
            let places = places.max((-magnitude(half)).clamp(0, PLACES_MAX) as usize);
            format!("{mean:.places$}{unit} ± {half:.places$}")
        }
    }
}

/// What the parts that an estimate rests on say of its interval.
enum Spread {
    /// They were too few, or so few that differ by nothing: that they agree may be chance.
    Unknown,
    /// All were the same, as what is deterministic is.
    None,
    Some,
}

/// Fewer parts that agree are no interval of no width.
const PARTS_MIN: u64 = 5;

fn spread(estimate: &Estimate) -> Spread {
    // What is narrower is the rounding of sums.
    let is_none = estimate.half_width <= 1e-11 * estimate.mean.abs();
    match () {
        () if !estimate.half_width.is_finite() => Spread::Unknown,
        () if is_none && estimate.n < PARTS_MIN => Spread::Unknown,
        () if is_none => Spread::None,
        () => Spread::Some,
    }
}

fn with_interval(estimate: &Estimate, factor: f64, unit: &str) -> String {
    let mean = estimate.mean * factor;
    let half = estimate.half_width * factor;
    match spread(estimate) {
        Spread::Unknown => return format!("{} {unit} ± ?", digits(mean)),
        Spread::None => return format!("{} {unit} ± 0", digits(mean)),
        Spread::Some => {}
    }
    if mean != 0.0 && magnitude(mean) > WHOLE_MAX {
        return format!("{} {unit} ± {}", digits(mean), digits(half));
    }
    // The interval decides how many digits of the mean mean anything: two of its own. Of a hair's breadth it is
    // told alone, beside a mean of six digits.
    let half = two_figures(half);
    let places = (1 - magnitude(half)).clamp(0, PLACES_MAX);
    if mean != 0.0 && places > 5 - magnitude(mean) && places > 2 {
        let places = (5 - magnitude(mean)).clamp(0, PLACES_MAX) as usize;
        return format!("{mean:.places$} {unit} ± {half:.0e}");
    }
    let places = places as usize;
    format!("{mean:.places$} {unit} ± {half:.places$}")
}

/// A number rounded to two significant figures.
fn two_figures(value: f64) -> f64 {
    format!("{value:.1e}").parse().expect("it was printed as a number")
}

/// A table whose first column is text and whose others are numbers, two spaces between columns.
#[derive(Clone, Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these heads and no rows.
    pub fn new(head: &[&str]) -> Table {
        Table { rows: vec![head.iter().map(|cell| (*cell).to_owned()).collect()] }
    }

    /// Adds a row; cells that are missing at its end are empty.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }
}

impl Table {
    /// The columns beside the first, in parts that fit a line together with it.
    fn parts(widths: &[usize], width: Width) -> Vec<Range<usize>> {
        let first = 2 + widths.first().copied().unwrap_or(0);
        let columns = width.of_table();
        let (mut parts, mut begin, mut used) = (Vec::new(), 1, first);
        for (column, width) in widths.iter().enumerate().skip(1) {
            if column > begin && used + 2 + width > columns {
                parts.push(begin..column);
                (begin, used) = (column, first);
            }
            used += 2 + width;
        }
        parts.push(begin..widths.len());
        parts
    }

    /// Its lines. Columns that do not fit go on below, with the first column again.
    fn laid_out(&self, width: Width) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(widest).collect();
        let mut lines = String::new();
        for (nth, part) in Table::parts(&widths, width).into_iter().enumerate() {
            if nth > 0 {
                lines.push('\n');
            }
            for row in &self.rows {
                let first = row.first().map_or("", String::as_str);
                let mut line = format!("  {first:<width$}", width = widths[0]);
                for column in part.clone() {
                    let cell = row.get(column).map_or("", String::as_str);
                    line += &format!("  {cell:>width$}", width = widths[column]);
                }
                lines += line.trim_end();
                lines.push('\n');
            }
        }
        lines
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.laid_out(Width::of_output()))
    }
}

/// A name of which no more is shown than a table has room for.
pub fn label(name: &str) -> String {
    const SHOWN: usize = 14;
    if name.chars().count() <= SHOWN {
        return name.to_owned();
    }
    name.chars().take(SHOWN - 1).chain(['…']).collect()
}

/// Text broken into lines, indented by two.
pub fn paragraph(text: &str) -> String {
    filled("  ", "  ", text)
}

/// Text broken into lines of which those after the first are indented by two.
pub fn sentence(text: &str) -> String {
    filled("", "  ", text)
}

/// Text broken between words, what stands before the first line and before the others. A word that is
/// longer than a line, a path say, is left whole.
pub fn filled(first: &str, rest: &str, text: &str) -> String {
    filled_to(Width::of_output(), first, rest, text)
}

fn filled_to(width: Width, first: &str, rest: &str, text: &str) -> String {
    let columns = width.of_text();
    let mut lines = String::new();
    let mut line = first.to_owned();
    let mut bare = true;
    for word in text.split_whitespace() {
        if !bare && line.chars().count() + 1 + word.chars().count() > columns - 2 {
            lines.push_str(&line);
            lines.push('\n');
            rest.clone_into(&mut line);
            bare = true;
        }
        if !bare {
            line.push(' ');
        }
        line.push_str(word);
        bare = false;
    }
    if !bare {
        lines.push_str(&line);
        lines.push('\n');
    }
    lines
}

/// Command to type next, broken between words as a shell reads it, so that it can be pasted.
pub fn next(command: &str) -> String {
    next_to(Width::of_output(), command)
}

fn next_to(width: Width, command: &str) -> String {
    let columns = width.of_text();
    let mut lines = String::new();
    let mut line = String::from("  next:");
    for word in words(command) {
        // Two columns are kept for the mark that the command goes on.
        if line.chars().count() + 1 + word.chars().count() > columns - 2 && line.trim() != "next:" {
            lines.push_str(&line);
            lines.push_str(" \\\n");
            line = " ".repeat(9);
        }
        line.push(' ');
        line.push_str(word);
    }
    format!("{lines}{line}\n")
}

/// A command or a statement, broken between words as a shell or PostgreSQL reads them, so that it can
/// be pasted; `mark` stands where it is broken.
pub fn pasted(text: &str, mark: &str) -> String {
    pasted_to(Width::of_output(), text, mark)
}

fn pasted_to(width: Width, text: &str, mark: &str) -> String {
    let columns = width.of_text();
    let mut lines = String::new();
    let mut line = String::from("   ");
    for word in words(text) {
        let length = line.chars().count() + 1 + word.chars().count();
        if length > columns - mark.len() && !line.trim().is_empty() {
            lines.push_str(&line);
            lines.push_str(mark);
            lines.push('\n');
            line = " ".repeat(5);
        }
        line.push(' ');
        line.push_str(word);
    }
    format!("{lines}{line}\n")
}

/// A path as one word of a shell, which no program takes for an option.
pub fn shell_word(path: &std::path::Path) -> String {
    let text = path.display().to_string();
    quoted(&if text.starts_with('-') { format!("./{text}") } else { text })
}

/// A space and an option with its value, as a shell reads it again. A value that begins with `-` is
/// joined to its option, which else would have none.
pub fn option(name: &str, value: &str) -> String {
    let between = if value.starts_with('-') { '=' } else { ' ' };
    format!(" --{name}{between}{}", quoted(value))
}

/// The commands to type after the next one, each as it can be pasted.
pub fn then(command: &str) -> String {
    next(command).replacen("  next:", "  then:", 1)
}

/// A word of a command as a shell reads it again.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:,=@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The words of a command; a space between single quotes does not end one. A quote after a backslash
/// neither opens nor closes, but between quotes a backslash is a letter like others.
fn words(command: &str) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    command
        .split(move |c: char| {
            quoted ^= c == '\'' && !escaped;
            escaped = c == '\\' && !quoted && !escaped;
            c == ' ' && !quoted
        })
        .filter(|word| !word.is_empty())
}

/// A message for standard error, each line that is longer than a terminal's broken between words.
pub fn message(text: &str) -> String {
    message_to(Width::of_errors(), text)
}

fn message_to(width: Width, text: &str) -> String {
    let fits = |line: &str| line.chars().count() <= width.of_text();
    let line = |line: &str| match fits(line) {
        true => format!("{line}\n"),
        false => filled_to(width, "", "  ", line),
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMINAL: Width = Width(Some(80));

    fn estimate(mean: f64, half_width: f64) -> Estimate {
        Estimate { mean, half_width, confidence: 0.95, n: 10 }
    }

    /// The story: "3601 s ± ?" of a response that was looked for beyond an hour.
    #[test]
    fn quantiles_beyond_what_a_histogram_tells_are_told_so() {
        assert_eq!(quantile(3601.0), "beyond 1 h");
        assert_eq!(quantile_estimate(&estimate(3_600.0, f64::INFINITY)), "beyond 1 h");
        assert_eq!(quantile(1e-6), "below 1 us");
        assert_eq!(quantile_estimate(&estimate(1.0005e-6, 1e-6)), "below 1 us");
        assert_eq!(quantile(3599.0), "3599 s");
        assert_eq!(quantile_estimate(&estimate(2e-6, 1e-7)), "2.00 us ± 0.10");
    }

    #[test]
    fn numbers_carry_their_unit_and_only_digits_that_mean_something() {
        assert_eq!(time(0.0), "0 s");
        assert_eq!(time(12.34e-6), "12.3 us");
        assert_eq!(time(1.5), "1.50 s");
        assert_eq!(time(2.5e-9), "2.50 ns");
        assert_eq!(time_estimate(&estimate(12.34e-3, 0.43e-3)), "12.34 ms ± 0.43");
        assert_eq!(time_estimate(&estimate(12.34e-3, 9.96e-3)), "12 ms ± 10");
        assert_eq!(rate_estimate(&estimate(58_020.0, 3_539.0)), "58020 /s ± 3500");
        assert_eq!(time_estimate(&estimate(1.0, f64::INFINITY)), "1.00 s ± ?");
        assert_eq!(rate_estimate(&estimate(512.3, 12.0)), "512 /s ± 12");
        assert_eq!(bytes(500), "500 B");
        assert_eq!(bytes(50_000), "50.0 kB");
        assert_eq!(percent(-0.0312), "-3.1 %");
        // Once every rate below 0.005/s was "0.00 /s", and its interval "± 0.00".
        assert_eq!(rate(0.000_123_4), "0.000123 /s");
        assert_eq!(rate(0.0123), "0.0123 /s");
        assert_eq!(rate(0.362), "0.362 /s");
        assert_eq!(rate(1.234e-12), "1.23e-12 /s");
        assert_eq!(rate_estimate(&estimate(0.000_123_4, 0.000_004)), "0.0001234 /s ± 0.0000040");
        assert_eq!(rate_estimate(&estimate(0.0123, 0.0004)), "0.01230 /s ± 0.00040");
        assert_eq!(rate_estimate(&estimate(0.36, 0.0)), "0.360 /s ± 0");
        assert_eq!(time_estimate(&estimate(1.0, 1e-9)), "1.00000 s ± 1e-9");
        // A mean of equal times was "100.000 s ± 1e-13".
        assert_eq!(time_estimate(&estimate(100.0, 1.4e-13)), "100 s ± 0");
        assert_eq!(time_estimate(&estimate(0.0, 0.0)), "0 s ± 0");
        assert_eq!(percent(3.0 / 0.0), "-");
    }

    /// Two seconds in which as much was done were "58020 ± 0", an interval of 0.04 was "12.3 ± 0.0", and
    /// one of a single second "58020 ± inf".
    #[test]
    fn an_interval_that_is_not_known_or_narrow_is_not_none() {
        let of = |half_width, n| Estimate { n, ..estimate(58_020.0, half_width) };
        assert_eq!(plus_minus(&of(3_539.4, 8), 0), "58020 ± 3539");
        assert_eq!(plus_minus(&of(0.0, 2), 0), "58020 ± ?");
        assert_eq!(plus_minus(&of(f64::INFINITY, 1), 0), "58020 ± ?");
        assert_eq!(plus_minus(&estimate(12.3, 0.04), 1), "12.30 ± 0.04");
        assert_eq!(percent_estimate(&estimate(0.801, 3e-3), 1), "80.1 % ± 0.3");
        assert_eq!(percent_estimate(&estimate(0.801, 3e-5), 1), "80.100 % ± 0.003");
        assert_eq!(rate_estimate(&Estimate { n: 2, ..estimate(512.0, 0.0) }), "512 /s ± ?");
    }

    #[test]
    fn counts_have_their_plural() {
        assert_eq!(count(1, "request"), "1 request");
        assert_eq!(count(0, "request"), "0 requests");
        assert_eq!(count(70_000, "request"), "70000 requests");
    }

    #[test]
    fn a_table_aligns_and_a_paragraph_fits_its_columns() {
        let mut table = Table::new(&["document", "n"]);
        table.row(vec!["5k".into(), "500".into()]);
        assert_eq!(table.laid_out(TERMINAL), "  document    n\n  5k        500\n");
        let text = filled_to(TERMINAL, "  ", "  ", &"word ".repeat(60));
        assert!(text.lines().all(|line| line.len() <= 78 && line.starts_with("  ")));
        assert_eq!(text.split_whitespace().count(), 60);
    }

    #[test]
    fn a_wide_table_goes_on_below_with_its_first_column() {
        let mut table = Table::new(&["at", "one", "two", "three"]);
        table.row(
            ["8c", &"x".repeat(40), &"y".repeat(30), &"z".repeat(70)].map(String::from).into(),
        );
        let text = table.laid_out(TERMINAL);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| line.len() <= 80), "{text}");
        assert_eq!(lines.len(), 5, "{text}");
        assert!(lines[2].is_empty() && lines[3].starts_with("  at  "), "{text}");
        assert!(lines[1].contains("xy") || lines[1].contains("x  y"), "{text}");
        assert!(lines[4].starts_with("  8c  zzz"), "{text}");
        assert_eq!(table.laid_out(Width(Some(160))).lines().count(), 2);
        assert_eq!(table.laid_out(Width(None)).lines().count(), 2);
    }

    #[test]
    fn a_long_command_can_be_pasted() {
        let path = format!(".sekisho/predictions/{}.json", "p".repeat(30));
        let short = "sekisho sim s.toml";
        assert_eq!(next_to(TERMINAL, short), "  next: sekisho sim s.toml\n");
        let limit = "--expect 'p99 <= 50ms'";
        let long = format!("sekisho check RUN.jsonl --prediction {path} {limit}");
        let text = next_to(TERMINAL, &long);
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        assert!(text.lines().count() > 1 && text.contains("'p99 <= 50ms'"), "{text}");
        let joined = text.replace("\\\n", " ").replace("  next:", "");
        assert_eq!(words(joined.trim()).collect::<Vec<_>>(), words(&long).collect::<Vec<_>>());
        assert_eq!(words(limit).collect::<Vec<_>>(), ["--expect", "'p99 <= 50ms'"]);
    }

    #[test]
    fn what_is_to_be_pasted_is_broken_only_between_words() {
        let path = shell_word(std::path::Path::new("/a b/it's"));
        assert_eq!(path, r"'/a b/it'\''s'");
        assert_eq!(shell_word(std::path::Path::new("/var/lib_1/x-y")), "/var/lib_1/x-y");
        assert_eq!(shell_word(std::path::Path::new("-x")), "./-x");
        // The story: a file with a dollar in its name was told without quotes, and a shell took it for a variable.
        assert_eq!(shell_word(std::path::Path::new("a$HOME")), "'a$HOME'");
        assert_eq!(option("of", "-it's a"), r" --of='-it'\''s a'");
        assert_eq!(option("of", "cpu"), " --of cpu");
        let call = r"x 'it'\''s a' 'b\' c";
        assert_eq!(words(call).collect::<Vec<_>>(), ["x", r"'it'\''s a'", r"'b\'", "c"]);
        let text = format!("mv /var/{} {}", "a".repeat(50), "b".repeat(30));
        let lines = pasted_to(TERMINAL, &text, " \\");
        let expected = format!("    mv /var/{} \\\n      {}\n", "a".repeat(50), "b".repeat(30));
        assert_eq!(lines, expected);
        assert_eq!(pasted_to(TERMINAL, "select 1;", ""), "    select 1;\n");
    }

    #[test]
    fn a_message_keeps_its_short_lines() {
        let mark = "   |\n11 | slotz = 4\n   | ^^^^^";
        let text = message_to(TERMINAL, &format!("{} end\n{mark}", "word ".repeat(20)));
        assert!(text.ends_with(&format!("{mark}\n")), "{text}");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }
}
