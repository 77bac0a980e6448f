//! Pages of the board as HTML: a pure function of what is stored, so that two stores with the same contents give the
//! same bytes.

use std::fmt::Write as _;

use crate::post::{Message, PAGE, Span, Thread};

const HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
    <meta name=\"viewport\" content=\"width=device-width\">\n<style>body{font:16px/1.5 sans-serif;\
    max-width:45rem;margin:1rem auto;padding:0 1rem}article{border-top:1px solid #ccc;padding:.5rem 0}\
    small{color:#555}p{white-space:pre-wrap;margin:0;overflow-wrap:anywhere}\
    textarea,input{width:100%;box-sizing:border-box;font:inherit}</style>\n";

fn escape(page: &mut String, text: &str) {
    let mut rest = text;
    while let Some(at) = rest.find(['&', '<', '>', '"', '\'']) {
        page.push_str(&rest[..at]);
        page.push_str(match rest.as_bytes()[at] {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            _ => "&#39;",
        });
        rest = &rest[at + 1..];
    }
    page.push_str(rest);
}

macro_rules! put {
    ($page:expr, $($text:tt)*) => {
        write!($page, $($text)*).expect("writing to memory does not fail")
    };
}

/// A moment as text, UTC, to the second: `2026-11-27 08:00:05`.
fn moment(page: &mut String, micros: u64) {
    let seconds = micros / 1_000_000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days to a date of the Gregorian calendar (Hinnant, chrono-compatible low-level date algorithms): years begin in
    // March, so that the leap day is the last.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let in_year = day - (365 * year + year / 4 - year / 100);
    let from_march = (5 * in_year + 2) / 153;
    let date = in_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    put!(
        page,
        "{year:04}-{month:02}-{date:02} {:02}:{:02}:{:02}",
        second / 3_600,
        second / 60 % 60,
        second % 60
    );
}

/// What is shown of what was read (one more than a page), and the id behind which the next page begins.
fn shown<T>(read: &[T], span: Span, id: impl Fn(&T) -> u64) -> (&[T], Option<u64>) {
    match span {
        Span::Newest => (&read[read.len().saturating_sub(PAGE)..], None),
        Span::After(_) if read.len() > PAGE => (&read[..PAGE], Some(id(&read[PAGE - 1]))),
        Span::After(_) => (read, None),
    }
}

fn links(page: &mut String, span: Span, next: Option<u64>) {
    page.push_str("<nav>");
    if span != Span::After(0) {
        page.push_str("<a href=\"?after=0\">first</a> ");
    }
    if let Some(next) = next {
        put!(page, "<a href=\"?after={next}\">next</a> ");
    }
    if span != Span::Newest {
        page.push_str("<a href=\"?newest\">newest</a>");
    }
    page.push_str("</nav>\n");
}

/// The page of threads; `read` has one more than a page, if there are more.
pub(crate) fn threads(read: &[Thread], span: Span) -> String {
    let (shown, next) = shown(read, span, |thread| thread.id);
    let mut page = String::with_capacity(1_024 + 160 * shown.len());
    page.push_str(HEAD);
    page.push_str("<title>Board</title>\n<h1>Board</h1>\n");
    for thread in shown {
        put!(page, "<article><a href=\"/threads/{}\">", thread.id);
        escape(&mut page, &thread.title);
        page.push_str("</a> <small>");
        escape(&mut page, &thread.author);
        page.push_str(", ");
        moment(&mut page, thread.time);
        page.push_str("</small></article>\n");
    }
    links(&mut page, span, next);
    page.push_str(
        "<form method=\"post\" action=\"/threads\"><label>Title <input name=\"title\" required></label>\
         <label>Author <input name=\"author\" required></label><button>Open a thread</button></form>\n",
    );
    page
}

/// The page of messages; `read` has one more than a page, if there are more.
pub(crate) fn messages(thread: &Thread, read: &[Message], span: Span) -> String {
    let (shown, next) = shown(read, span, |message| message.id);
    let bodies: usize = shown.iter().map(|message| message.body.len()).sum();
    let mut page = String::with_capacity(1_200 + 128 * shown.len() + bodies);
    page.push_str(HEAD);
    page.push_str("<title>");
    escape(&mut page, &thread.title);
    page.push_str("</title>\n<nav><a href=\"/\">Board</a></nav>\n<h1>");
    escape(&mut page, &thread.title);
    page.push_str("</h1>\n");
    for message in shown {
        put!(page, "<article id=\"m{}\"><small>", message.id);
        escape(&mut page, &message.author);
        page.push_str(", ");
        moment(&mut page, message.time);
        if let Some(edited) = message.edited {
            page.push_str(", edited ");
            moment(&mut page, edited);
        }
        page.push_str("</small><p>");
        escape(&mut page, &message.body);
        page.push_str("</p></article>\n");
    }
    links(&mut page, span, next);
    put!(
        page,
        "<form method=\"post\" action=\"/threads/{}/messages\"><label>Author <input name=\"author\" \
         required></label><label>Message <textarea name=\"body\" required></textarea></label>\
         <button>Append</button></form>\n",
        thread.id
    );
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_dates_of_the_calendar() {
        let text = |seconds: u64| {
            let mut page = String::new();
            moment(&mut page, seconds * 1_000_000);
            page
        };
        assert_eq!(text(0), "1970-01-01 00:00:00");
        assert_eq!(text(951_782_399), "2000-02-28 23:59:59");
        assert_eq!(text(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(text(1_795_766_405), "2026-11-27 08:00:05");
        assert_eq!(text(4_107_542_400), "2100-03-01 00:00:00");
    }

    #[test]
    fn what_people_write_is_text_and_no_markup() {
        let thread = Thread { id: 1, time: 0, author: "a\"".into(), title: "<b>&'".into() };
        let page = threads(&[thread], Span::After(0));
        assert!(page.contains("&lt;b&gt;&amp;&#39;</a> <small>a&quot;, 1970"), "{page}");
    }
}
