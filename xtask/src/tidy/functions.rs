//! A function fits a screen. Those that do not are listed, and the list may only shrink.

use std::collections::BTreeMap;

use super::Finding;
use crate::source::Source;

/// The list of the functions that are allowed to be longer.
pub(super) const LIST: &str = "xtask/long-functions.txt";
/// The longest function that fits a screen, in lines.
const SCREEN: usize = 70;

/// A function by file and name; several in a file may share one.
type Key = (String, String);

/// Functions that are too long, and lines of the list that no longer hold.
pub(super) fn check(sources: &[(&str, Source)], list: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut listed = read(list, &mut findings);
    for (path, source) in sources {
        let mut long: Vec<_> =
            source.functions().into_iter().filter(|one| one.lines > SCREEN).collect();
        // Where functions share a name, the longest belongs to the longest listed.
        long.sort_by_key(|one| std::cmp::Reverse(one.lines));
        for function in long {
            let lines = function.lines;
            let key = ((*path).to_owned(), function.name.clone());
            match listed.get_mut(&key).and_then(Vec::pop) {
                Some((_, allowed)) if lines == allowed => {}
                Some((line, allowed)) if lines < allowed => findings.push(Finding::new(
                    LIST,
                    line,
                    format!(
                        "`{}` of {path} has only {lines} lines now, not {allowed}",
                        function.name
                    ),
                    format!("lower the number to {lines}"),
                )),
                found => findings.push(too_long(path, &function.name, function.line, lines, found)),
            }
        }
    }
    for ((path, name), entries) in listed {
        findings.extend(entries.into_iter().map(|(line, _)| {
            Finding::new(
                LIST,
                line,
                format!("`{name}` of {path} is gone, or fits {SCREEN} lines now"),
                "remove the line",
            )
        }));
    }
    findings
}

fn too_long(
    path: &str,
    name: &str,
    line: usize,
    lines: usize,
    listed: Option<(usize, usize)>,
) -> Finding {
    let limit = listed.map_or(SCREEN, |(_, allowed)| allowed);
    Finding::new(
        path,
        line,
        format!("`{name}` has {lines} lines; at most {limit} are allowed"),
        "split it where a part has a name of its own",
    )
}

/// The listed functions with (line of the list, allowed lines), the longest last.
fn read(list: &str, findings: &mut Vec<Finding>) -> BTreeMap<Key, Vec<(usize, usize)>> {
    let mut listed: BTreeMap<Key, Vec<(usize, usize)>> = BTreeMap::new();
    for (index, text) in list.lines().enumerate() {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let parsed = match words[..] {
            [path, name, lines] => lines.parse().ok().map(|lines| (path, name, lines)),
            _ => None,
        };
        match parsed {
            Some((path, name, lines)) if lines > SCREEN => {
                let key = (path.to_owned(), name.to_owned());
                listed.entry(key).or_default().push((index + 1, lines));
            }
            _ => findings.push(Finding::new(
                LIST,
                index + 1,
                format!("cannot read `{text}`"),
                format!("write path, name and lines (more than {SCREEN}), with spaces between"),
            )),
        }
    }
    for entries in listed.values_mut() {
        entries.sort_by_key(|(_, lines)| *lines);
    }
    listed
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "crates/sim/src/run.rs";

    fn function(lines: usize) -> String {
        format!("fn run() {{\n{}}}\n", "    step(\"}\");\n".repeat(lines - 2))
    }

    fn found(text: &str, list: &str) -> Vec<String> {
        let findings = check(&[(PATH, Source::scan(text))], list);
        findings.iter().map(|one| format!("{}:{} {}", one.path, one.line, one.way_out)).collect()
    }

    #[test]
    fn seventy_lines_pass_and_seventy_one_fail() {
        assert_eq!(found(&function(70), ""), [""; 0]);
        let text = format!("\n{}", function(71));
        assert_eq!(
            found(&text, ""),
            [format!("{PATH}:2 split it where a part has a name of its own")]
        );
    }

    #[test]
    fn a_listed_function_passes_until_it_grows() {
        let list = format!("# why\n{PATH} run 80\n");
        assert_eq!(found(&function(80), &list), [""; 0]);
        assert!(found(&function(81), &list)[0].starts_with(&format!("{PATH}:1 split")));
    }

    #[test]
    fn the_list_shrinks_with_the_function() {
        let list = format!("{PATH} run 80\n");
        assert_eq!(found(&function(75), &list), [format!("{LIST}:1 lower the number to 75")]);
        assert_eq!(found(&function(70), &list), [format!("{LIST}:1 remove the line")]);
        assert_eq!(found("", &list), [format!("{LIST}:1 remove the line")]);
    }

    #[test]
    fn functions_of_one_name_each_need_a_line() {
        let text = format!("{}{}", function(80), function(90));
        let list = format!("{PATH} run 90\n{PATH} run 80\n");
        assert_eq!(found(&text, &list), [""; 0]);
        assert_eq!(found(&text, &format!("{PATH} run 90\n")).len(), 1);
    }

    #[test]
    fn a_line_that_cannot_be_read_fails() {
        for list in ["run 80", "a run many", "a run 70"] {
            assert_eq!(found("", list).len(), 1, "{list}");
        }
    }
}
