//! A look at the server before any load: what will not work is told with its cause and the way out, instead
//! of a record full of failures.

use std::time::Duration;

use cli::text::{next, quoted};
use cli::{Failure, Session};
use load::http::{
    Answer, Distrust, Fault, Method, Order, Plan, PlanSpec, Scheme, Target, Trial, TrialError,
    try_each,
};

/// Makes one request of each class, writes down the sizes that the answers announce, and returns facts that
/// the user must know. Of an interrupt nothing is told: the caller looks for it.
///
/// # Errors
/// If a class is not answered, or not with what can be measured. Of a log, whose requests may well have
/// failed when it was written, only a server that does not answer at all.
pub fn preflight(
    spec: &mut PlanSpec,
    within: Duration,
    session: &Session,
) -> Result<Vec<String>, Failure> {
    let plan = Plan::new(spec.clone()).map_err(Failure::usage)?;
    let tried = try_each(&plan, Trial { within }, &session.interrupt);
    let answers =
        tried.map_err(|error| Failure::Usage(unanswered(&error, &spec.target, session)))?;
    let is_log = matches!(spec.order, Order::Listed(_));
    let mut notes = Vec::new();
    if is_log {
        notes.extend(odd_of_log(&answers));
    } else {
        for answer in &answers {
            check(answer, &spec.target, session)?;
        }
    }
    if spec.connections == load::http::Connections::KeepAlive
        && !answers.is_empty()
        && answers.iter().all(|answer| !answer.keeps_open)
    {
        notes.push(
            "the server closes each connection after its answer, so that each request opens a new one"
                .into(),
        );
    }
    if !is_log {
        let classes = plan.classes().iter().map(|class| &class.name);
        // An answer to HEAD announces a size that it does not have.
        let sized = answers.iter().zip(classes).filter(|(answer, _)| answer.method != Method::Head);
        for (answer, class) in sized {
            let same = spec.requests.iter_mut().filter(|request| request.class == *class);
            same.for_each(|request| request.bytes = request.bytes.or(answer.bytes));
        }
    }
    Ok(notes)
}

/// The end of each message: the load can be made all the same.
const ANYWAY: &str = "`--no-preflight` makes the load all the same";

fn unanswered(error: &TrialError, target: &Target, session: &Session) -> String {
    let TrialError { method, path, address, fault } = error;
    let way_out = match fault {
        Fault::Refused => "start the service, or mend the host and port".into(),
        Fault::NoConnection(_) => "mend the host and port, or look for a firewall on the way".into(),
        Fault::Unreachable(_) => "mend the host, or the route to it".into(),
        // It names its own way out.
        Fault::Setup(_) => return error.fault.to_string(),
        Fault::Certificate(Distrust::Unknown) => {
            "name the certificate of its authority with `--ca FILE`, or trust everybody with \
             `--insecure`"
                .into()
        }
        Fault::Certificate(Distrust::Name) => {
            "write the host as its certificate has it, or trust everybody with `--insecure`".into()
        }
        Fault::Certificate(_) => {
            "give the server a certificate that is valid, or trust everybody with `--insecure`".into()
        }
        Fault::Alert(_) => {
            "it may want a client's certificate, another name or another version of TLS: its log says \
             which"
                .into()
        }
        Fault::Tls(_) => "see whether it speaks TLS there at all".into(),
        Fault::SpeaksPlain | Fault::SpeaksTls => {
            let other = target.url_of(path).replacen(
                if target.scheme() == Scheme::Https { "https" } else { "http" },
                if target.scheme() == Scheme::Https { "http" } else { "https" },
                1,
            );
            return format!(
                "no load was made: {address}: {fault}; write {other}{}",
                command_with(session, path, &other)
            );
        }
        Fault::Closed(0) | Fault::Reset => {
            "see whether it is an HTTP server, and in its log why it closes".into()
        }
        Fault::Closed(_) => "see in its log why it breaks off".into(),
        Fault::SpeaksHttp1 => {
            "leave out `--http2`, or let the server speak it at this port".into()
        }
        Fault::SpeaksHttp2 => "say `--http2`".into(),
        Fault::NotHttp2(_) => "see whether the port is the right one".into(),
        Fault::StreamReset(_) | Fault::GoAway(_) => {
            "see in its log why it does not answer".into()
        }
        Fault::Silent(_) | Fault::Unanswered(_) => {
            "see whether it hangs; if it needs longer, allow it with `--preflight 10s`".into()
        }
        Fault::Endless(..) => {
            "if it is no endless stream, allow it longer with `--preflight 10s`".into()
        }
        Fault::NotHttp(_) => "see whether the port is the right one".into(),
    };
    let way_out: String = way_out;
    format!("no load was made: {method} {path} at {address}: {fault}: {way_out}; {ANYWAY}")
}

/// An answer that cannot be measured, or is not the one that was meant.
fn check(answer: &Answer, target: &Target, session: &Session) -> Result<(), Failure> {
    let Answer { method, path, status, .. } = answer;
    let detail = answer.detail.as_deref();
    let wrong = |cause: String| {
        let says = match detail {
            Some(words) if !matches!(status, 300..=399 | 401 | 407) => format!(" ({words})"),
            _ => String::new(),
        };
        let text =
            format!("no load was made: {method} {path} is answered with {status}{says}: {cause}");
        Err(Failure::Usage(text))
    };
    match status {
        200..=299 => {}
        304 => return wrong(format!("leave out the conditions in the headers; {ANYWAY}")),
        300..=399 => {
            let Some(location) = detail else {
                return wrong(format!("a redirection that leads nowhere; {ANYWAY}"));
            };
            let place = leads_to(target, path, location);
            let command = command_with(session, path, &place);
            let text = format!("it redirects to {location}, and redirections are not followed");
            return match command.is_empty() {
                true => wrong(format!("{text}: name that place instead; {ANYWAY}")),
                false => wrong(format!("{text}{command}")),
            };
        }
        401 | 407 => {
            let asked = detail.map_or(String::new(), |detail| format!(" ({detail})"));
            return wrong(format!(
                "it asks who you are{asked}: write http://USER:PASSWORD@HOST/, or give \
                 `--header 'Authorization: ...'`; {ANYWAY}"
            ));
        }
        403 => return wrong(format!("it is forbidden: give the headers that allow it; {ANYWAY}")),
        404 | 410 => return wrong(format!("there is nothing at this path: mend it; {ANYWAY}")),
        405 | 501 => {
            return wrong(format!("it takes no {method} there: give another method; {ANYWAY}"));
        }
        411 | 413 | 415 | 422 | 400 => {
            return wrong(format!(
                "it does not take this request: mend its body and headers; {ANYWAY}"
            ));
        }
        429 => {
            return wrong(format!(
                "it limits how often it is asked: lift its limit for this client; {ANYWAY}"
            ));
        }
        503 => return wrong(format!("it refuses even without load: see in its log why; {ANYWAY}")),
        500..=599 => return wrong(format!("it fails even without load: see its log; {ANYWAY}")),
        _ => return wrong(format!("the request is wrong, or the server; {ANYWAY}")),
    }
    if let (Some(planned), Some(bytes)) = (answer.planned, answer.bytes)
        && planned != bytes
    {
        return wrong(format!(
            "its body has {bytes} B, and {planned} B were said: mend the size, or leave it out; {ANYWAY}"
        ));
    }
    Ok(())
}

/// The URL that a redirection of a path leads to.
fn leads_to(target: &Target, path: &str, location: &str) -> String {
    let scheme = if target.scheme() == Scheme::Https { "https:" } else { "http:" };
    if location.contains("://") {
        location.to_owned()
    } else if location.starts_with("//") {
        format!("{scheme}{location}")
    } else if location.starts_with('/') {
        target.url_of(location)
    } else {
        let base = path.split('?').next().unwrap_or(path);
        let folder = base.rsplit_once('/').map_or("", |(folder, _)| folder);
        target.url_of(&format!("{folder}/{location}"))
    }
}

/// The command to type: this one with another URL in the place of the one that has this path; nothing if
/// the path was not named by a URL.
fn command_with(session: &Session, path: &str, url: &str) -> String {
    let words = &session.command;
    let names = |word: &String| {
        let rest = word.split_once("://").filter(|(scheme, _)| scheme.starts_with("http"));
        rest.is_some_and(|(_, rest)| {
            let of = rest.find(['/', '?']).map_or("/", |at| &rest[at..]);
            of.split('#').next() == Some(path) || (path == "/" && of == "/")
        })
    };
    let Some(at) = words.iter().position(names) else { return String::new() };
    let mut command = String::from("sekisho");
    for (nth, word) in words.iter().enumerate().skip(1) {
        let word = if nth == at { url } else { word };
        command.push(' ');
        command.push_str(&quoted(word));
    }
    format!(":\n{}", next(&command))
}

/// Answers to a log's kinds of requests that are no successes.
fn odd_of_log(answers: &[Answer]) -> Option<String> {
    let odd: Vec<String> = answers
        .iter()
        .filter(|answer| !(200..300).contains(&answer.status))
        .map(|answer| match answer.method {
            Method::Get => format!("{} {}", answer.status, answer.path),
            method => format!("{} {method} {}", answer.status, answer.path),
        })
        .collect();
    if odd.is_empty() {
        return None;
    }
    let shown = odd.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
    let more = if odd.len() > 3 { ", and more" } else { "" };
    Some(format!(
        "of the log's {} kinds of requests {} are not answered with a success now: {shown}{more}",
        answers.len(),
        odd.len()
    ))
}
