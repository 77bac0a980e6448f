//! A table in columns, as text.

/// Prints rows under heads, the first `left` columns to the left.
pub(crate) fn print(heads: &[&str], rows: &[Vec<String>], left: usize) {
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(String::len);
        cells.chain([heads[at].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let padded =
            cells.iter().zip(&widths).enumerate().map(|(at, (cell, width))| match at < left {
                true => format!("{cell:<width$}"),
                false => format!("{cell:>width$}"),
            });
        println!("  {}", padded.collect::<Vec<_>>().join("  ").trim_end());
    };
    line(heads.to_vec());
    rows.iter().for_each(|row| line(row.iter().map(String::as_str).collect()));
}
