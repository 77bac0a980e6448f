//! Files of a check for a pipeline: JUnit XML, which build servers show, and Markdown for a comment.

use std::fmt::Write;
use std::path::Path;

use cli::text::count;
use cli::{Failure, Verdict, store};

use crate::outcome::Outcome;

/// What was checked: a run, or several runs against others.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Name of the run, or of the comparison.
    pub name: String,
    /// Its load in words.
    pub load: String,
    /// The worst of its outcomes.
    pub verdict: Verdict,
    /// Of each expectation.
    pub outcomes: Vec<Outcome>,
}

/// Writes the files that were asked for.
///
/// # Errors
/// If one cannot be written.
pub fn write(
    junit: Option<&Path>,
    markdown: Option<&Path>,
    checked: &[Checked],
) -> Result<(), Failure> {
    if let Some(path) = junit {
        store::write_whole(path, junit_text(checked))?;
    }
    if let Some(path) = markdown {
        store::write_whole(path, markdown_text(checked))?;
    }
    Ok(())
}

/// A suite for each run, a case for each limit. What fails is a failure; what cannot be told, or was measured
/// wrongly, is an error: a pipeline that passes says that everything holds.
fn junit_text(checked: &[Checked]) -> String {
    let count = |of: &[Outcome], wanted: fn(Verdict) -> bool| {
        of.iter().filter(|outcome| wanted(outcome.verdict)).count()
    };
    let fails: fn(Verdict) -> bool = |verdict| verdict == Verdict::Fails;
    let errs: fn(Verdict) -> bool = |verdict| !matches!(verdict, Verdict::Fails | Verdict::Holds);
    let all: Vec<&[Outcome]> = checked.iter().map(|one| &one.outcomes[..]).collect();
    let sum = |wanted| all.iter().map(|of| count(of, wanted)).sum::<usize>();
    let tests: usize = all.iter().map(|of| of.len()).sum();
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let mut line = |line: String| {
        text += &line;
        text.push('\n');
    };
    line(format!(
        "<testsuites name=\"sekisho check\" tests=\"{tests}\" failures=\"{}\" errors=\"{}\">",
        sum(fails),
        sum(errs)
    ));
    for one in checked {
        line(format!(
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\">",
            xml(&format!("{}: {}", one.name, one.load)),
            one.outcomes.len(),
            count(&one.outcomes, fails),
            count(&one.outcomes, errs)
        ));
        for outcome in &one.outcomes {
            let (class, name) = (xml(&one.name), xml(&outcome.name));
            let case = format!("<testcase classname=\"{class}\" name=\"{name}\"");
            let (word, said) = (outcome.verdict.word(), xml(&outcome.line));
            line(match outcome.verdict {
                Verdict::Holds => format!("    {case}><system-out>{said}</system-out></testcase>"),
                Verdict::Fails => format!("    {case}><failure message=\"{said}\"/></testcase>"),
                _ => format!("    {case}><error type=\"{word}\" message=\"{said}\"/></testcase>"),
            });
        }
        line("  </testsuite>".into());
    }
    line("</testsuites>".into());
    text
}

/// Text as XML holds it, in an attribute too; what it cannot hold at all is a question mark.
fn xml(text: &str) -> String {
    let mut safe = String::new();
    for letter in text.chars() {
        match letter {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\n' | '\t' | '\r' => safe.push(' '),
            letter if letter.is_control() => safe.push('?'),
            letter => safe.push(letter),
        }
    }
    safe
}

fn markdown_text(checked: &[Checked]) -> String {
    let verdict = checked.iter().fold(Verdict::Holds, |all, one| all.and(one.verdict));
    let runs = count(checked.len() as u64, "check");
    let mut text = format!("### sekisho: {} ({runs})\n\n", verdict.word());
    text += "| run | load | verdict | |\n| --- | --- | --- | --- |\n";
    for one in checked {
        for outcome in &one.outcomes {
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} |",
                cell(&one.name),
                cell(&one.load),
                outcome.verdict.word(),
                cell(&outcome.line)
            );
        }
    }
    text
}

/// Text as a cell of a table holds it.
fn cell(text: &str) -> String {
    let text = text.replace('\\', r"\\").replace('|', r"\|").replace('<', "&lt;");
    text.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Kind;

    fn checked() -> Vec<Checked> {
        let outcome = |verdict, name, line| Outcome::new(Kind::Limit, verdict, name, line);
        vec![Checked {
            name: "run & co".into(),
            load: "open load, 5 /s".into(),
            verdict: Verdict::Fails,
            outcomes: vec![
                outcome(Verdict::Holds, "p99<50ms", "it is 12 ms ± 1.0"),
                outcome(Verdict::Fails, "mean<\"1\"ms", "it is 2 | ms"),
                outcome(Verdict::Inconclusive, "errors<1%", "too few"),
            ],
        }]
    }

    #[test]
    fn a_build_server_sees_a_failure_and_an_error_apart() {
        let text = junit_text(&checked());
        assert!(text.contains("tests=\"3\" failures=\"1\" errors=\"1\""), "{text}");
        assert!(text.contains("name=\"p99&lt;50ms\""), "{text}");
        assert!(
            text.contains("<failure message=\"mean&lt;&quot;1&quot;ms: it is 2 | ms\"/>"),
            "{text}"
        );
        assert!(text.contains("<error type=\"inconclusive\""), "{text}");
        assert!(text.contains("classname=\"run &amp; co\""), "{text}");
    }

    #[test]
    fn a_comment_has_a_row_for_each_limit() {
        let text = markdown_text(&checked());
        assert!(text.starts_with("### sekisho: fails (1 check)\n"), "{text}");
        assert!(text.contains("| fails | mean&lt;\"1\"ms: it is 2 \\| ms |"), "{text}");
        assert_eq!(text.lines().count(), 7, "{text}");
    }
}
