//! Requests of a measurement, from whatever the user has: URLs, paths with methods and bodies, a file, a set
//! of documents, an access log.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::load::DrawName;
use clap::Args as ClapArgs;
use cli::Failure;
use cli::text::count;
use formats::document_file::{FiledDocument, read_documents};
use formats::request_file::{FiledRequest, read_body, read_requests};
use formats::sources::{Replay, read_replay};
use load::http::{Method, Order, Reach, Request, Schedule, Target};
use workload::{Document, DocumentSet};

#[derive(ClapArgs)]
#[command(next_help_heading = "Requests")]
pub(crate) struct RequestArgs {
    /// GET this path of the server; repeat it for several, `9:/cheap` for a weight of 9
    #[arg(long, value_name = "PATH")]
    get: Vec<String>,
    /// HEAD this path
    #[arg(long, value_name = "PATH")]
    head: Vec<String>,
    /// POST this body, a text or `@FILE`, to this path; repeat it for several
    #[arg(long, num_args = 2, value_names = ["PATH", "BODY"])]
    post: Vec<String>,
    /// PUT this body to this path
    #[arg(long, num_args = 2, value_names = ["PATH", "BODY"])]
    put: Vec<String>,
    /// PATCH this path with this body
    #[arg(long, num_args = 2, value_names = ["PATH", "BODY"])]
    patch: Vec<String>,
    /// DELETE this path
    #[arg(long, value_name = "PATH")]
    delete: Vec<String>,
    /// The method for the URLs themselves
    #[arg(long, value_name = "METHOD", default_value = "GET")]
    method: Method,
    /// The body for the URLs themselves, a text or `@FILE`
    #[arg(long, value_name = "BODY")]
    body: Option<String>,
    /// A file of requests: TOML with [[request]] method, path, headers, body (or body-file), weight,
    /// name, size; or targets as vegeta reads them
    #[arg(long, value_name = "FILE", conflicts_with_all = ["documents", "log"])]
    targets: Option<PathBuf>,
    /// A set of documents below the URL: `webstone`, `lognormal:MU,SIGMA` (asks for size/BYTES), or a TOML
    /// file with [[document]] name, size, weight
    #[arg(long, value_name = "SET", conflicts_with = "log")]
    documents: Option<String>,
    /// Replay an access log (Common, Combined or JSON lines) in its order; with its own gaps, unless
    /// `--clients` or `--rate` says otherwise
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// The methods that are replayed of a log, without the bodies, which no log has
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "METHOD,...",
        requires = "log",
        default_value = "GET,HEAD"
    )]
    log_methods: Vec<Method>,
    /// Divide a log's own gaps by this: 2 is twice as fast
    #[arg(long, value_name = "FACTOR", requires = "log", conflicts_with_all = ["clients", "rate"],
          value_parser = speed)]
    speed: Option<f64>,
    /// How requests are drawn
    #[arg(long, value_enum, default_value = "deck", conflicts_with = "log")]
    draw: DrawName,
}

fn speed(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix(['x', 'X']).unwrap_or(text);
    let speed: Option<f64> = number.parse().ok();
    speed
        .filter(|speed| (1e-3..=1e6).contains(speed))
        .ok_or_else(|| format!("`{text}` is no factor such as 2 or 0.5, from 0.001 to 1000000"))
}

/// Requests of a measurement, and what a log says beside them.
#[derive(Clone)]
pub(crate) struct Mix {
    pub(crate) requests: Vec<Request>,
    pub(crate) order: Order,
    /// The log's own gaps.
    pub(crate) schedule: Option<Schedule>,
    /// Facts about a log that its reader must know.
    pub(crate) notes: Vec<String>,
}

impl RequestArgs {
    /// The requests that are asked for, at the server of the first of these URLs.
    pub(crate) fn mix(
        &self,
        urls: &[String],
        target: &Target,
        reach: Reach,
    ) -> Result<Mix, Failure> {
        self.refuse_several_sources(urls)?;
        let order = self.draw.order();
        let mix = |requests| Mix { requests, order, schedule: None, notes: Vec::new() };
        if let Some(log) = &self.log {
            return self.replay(log);
        }
        if let Some(set) = &self.documents {
            return Ok(mix(Request::documents(target, &documents(set)?)));
        }
        if let Some(file) = &self.targets {
            return Ok(mix(self.filed(file, target, reach)?));
        }
        let mut requests = self.named(target, reach)?;
        if requests.is_empty() {
            for url in urls {
                let path = path_at(target, url, reach)?;
                let mut request = Request::new(self.method, &path);
                with_body(&mut request, self.body.as_deref())?;
                requests.push(request);
            }
        }
        told_apart(&mut requests);
        Ok(mix(requests))
    }

    /// True if paths are named beside the URL.
    fn names_paths(&self) -> bool {
        let lists = [&self.get, &self.head, &self.post, &self.put, &self.patch, &self.delete];
        lists.iter().any(|list| !list.is_empty())
    }

    fn refuse_several_sources(&self, urls: &[String]) -> Result<(), Failure> {
        let wrong = |text: &str| Err(Failure::Usage(text.into()));
        let listed = self.targets.is_some() || self.documents.is_some() || self.log.is_some();
        if listed && self.names_paths() {
            return wrong(
                "paths are named, and a list of requests too (`--targets`, `--documents` or `--log`): \
                 keep one of the two, or put the paths into the file",
            );
        }
        if urls.len() > 1 && (listed || self.names_paths()) {
            return wrong(
                "several URLs are given, and other requests too: give one URL, the server's, and name \
                 each path with `--get PATH` or `--post PATH BODY`",
            );
        }
        let of_urls = self.body.is_some() || self.method != Method::Get;
        if of_urls && (listed || self.names_paths()) {
            return wrong(
                "`--method` and `--body` belong to the URLs themselves, and other requests are named: \
                 use `--post PATH BODY` and its like, or a file with `--targets`",
            );
        }
        Ok(())
    }

    /// Requests of `--get`, `--post` and their like.
    fn named(&self, target: &Target, reach: Reach) -> Result<Vec<Request>, Failure> {
        let mut requests = Vec::new();
        for (method, paths) in
            [(Method::Get, &self.get), (Method::Head, &self.head), (Method::Delete, &self.delete)]
        {
            for path in paths {
                requests.push(weighted(method, path, target, reach)?);
            }
        }
        for (method, pairs) in
            [(Method::Post, &self.post), (Method::Put, &self.put), (Method::Patch, &self.patch)]
        {
            for pair in pairs.chunks_exact(2) {
                let mut request = weighted(method, &pair[0], target, reach)?;
                with_body(&mut request, Some(&pair[1]))?;
                requests.push(request);
            }
        }
        Ok(requests)
    }

    fn filed(&self, file: &Path, target: &Target, reach: Reach) -> Result<Vec<Request>, Failure> {
        let mut requests = Vec::new();
        for filed in read_requests(file)? {
            let place = |cause: String| {
                Failure::Usage(format!("{}:{}: {cause}", file.display(), filed.line))
            };
            let request =
                of_file(&filed, target, reach).map_err(|error| place(error.to_string()))?;
            requests.push(request);
        }
        told_apart(&mut requests);
        Ok(requests)
    }

    fn replay(&self, log: &Path) -> Result<Mix, Failure> {
        let methods: Vec<&str> = self.log_methods.iter().map(|method| method.name()).collect();
        let replay = read_replay(log, &methods)?;
        let notes = notes_on(&replay, log);
        let speed = self.speed.unwrap_or(1.0);
        let moments = replay.rows.iter().map(|(at, _)| at / speed).collect();
        // By class, the most frequent first, as a record is to have them.
        let mut by_class: Vec<u32> = (0..replay.requests.len() as u32).collect();
        by_class.sort_by_key(|request| replay.requests[*request as usize].class);
        let mut place = vec![0; by_class.len()];
        by_class.iter().zip(0..).for_each(|(request, at)| place[*request as usize] = at);
        let list: Vec<u32> = replay.rows.iter().map(|(_, one)| place[*one as usize]).collect();
        let mut requests = Vec::with_capacity(replay.requests.len());
        for request in by_class {
            let logged = &replay.requests[request as usize];
            let method: Method = logged.method.parse().map_err(Failure::Usage)?;
            let class = replay.classes[logged.class as usize].clone();
            requests.push(Request { class, ..Request::new(method, &logged.path) });
        }
        for &number in &list {
            let weight = &mut requests[number as usize].weight;
            *weight = weight.saturating_add(1);
        }
        // Each was made with a weight of 1.
        requests.iter_mut().for_each(|request| request.weight = (request.weight - 1).max(1));
        Ok(Mix {
            requests,
            order: Order::Listed(list.into()),
            schedule: Some(Schedule::log(moments, speed)),
            notes,
        })
    }
}

/// Facts about a log that its reader must know.
fn notes_on(replay: &Replay, log: &Path) -> Vec<String> {
    let name = log.display();
    let mut notes = vec![format!(
        "{name}: {} are replayed, {} of them different",
        count(replay.rows.len() as u64, "request"),
        replay.requests.len()
    )];
    if let Some(line) = replay.cut_off {
        notes.push(format!(
            "{name}: only its first {} are used, as many as are kept in memory; give another \
             part of it to replay that",
            count(line as u64, "line")
        ));
    }
    if !replay.left_out.is_empty() {
        let methods = replay.left_out.iter().map(|(method, lines)| format!("{lines} {method}"));
        notes.push(format!(
            "{name}: left out are {}: a log has no bodies, and they may change the server; \
             `--log-methods` takes them all the same",
            methods.collect::<Vec<_>>().join(", ")
        ));
    }
    if replay.unusable > 0 {
        let lines = count(replay.unusable, "line");
        notes.push(format!("{name}: {lines} name no path of a server and are left out"));
    }
    if replay.spread {
        notes.push(format!(
            "{name}: its times are whole seconds: the requests of a second are spread evenly over it"
        ));
    }
    notes
}

/// A request of a path, perhaps with a weight before it: `9:/cheap`.
fn weighted(method: Method, text: &str, target: &Target, reach: Reach) -> Result<Request, Failure> {
    let (weight, place) = match text.split_once(':') {
        Some((weight, place))
            if weight.bytes().all(|c| c.is_ascii_digit()) && !weight.is_empty() =>
        {
            let weight: Option<u32> = weight.parse().ok().filter(|weight| *weight > 0);
            let wrong =
                || Failure::Usage(format!("the weight of `{text}` is from 1 to 4294967295"));
            (weight.ok_or_else(wrong)?, place)
        }
        _ => (1, text),
    };
    let path = path_at(target, place, reach)?;
    Ok(Request { weight, ..Request::new(method, &path) })
}

fn of_file(filed: &FiledRequest, target: &Target, reach: Reach) -> Result<Request, Failure> {
    let method: Method = filed.method.parse().map_err(Failure::Usage)?;
    let path = path_at(target, &filed.place, reach)?;
    let mut request = Request::new(method, &path);
    request.headers.clone_from(&filed.headers);
    request.body = Arc::from(filed.body.as_slice());
    request.weight = filed.weight;
    request.bytes = filed.bytes;
    if let Some(name) = &filed.name {
        request.class.clone_from(name);
    }
    add_type(&mut request);
    Ok(request)
}

/// The path of a place at the target's server: a URL, a path, or a name below the target's own path.
fn path_at(target: &Target, place: &str, reach: Reach) -> Result<String, Failure> {
    if place.contains("://") {
        let other = Target::parse(place, reach).map_err(super::http_target::refused)?;
        if !target.is_beside(&other) {
            return Err(Failure::Usage(format!(
                "{} is at another server than {}: a run loads one server; measure the other one in a \
                 run of its own",
                other.url(),
                target.url()
            )));
        }
        return Ok(other.path().to_owned());
    }
    let place = place.split('#').next().unwrap_or(place);
    Ok(if place.starts_with('/') { place.to_owned() } else { target.path_below(place) })
}

fn with_body(request: &mut Request, body: Option<&str>) -> Result<(), Failure> {
    let body = match body {
        None => return Ok(()),
        Some(text) => match text.strip_prefix('@') {
            Some(file) => read_body(Path::new(file)).map_err(Failure::Usage)?,
            None => text.as_bytes().to_vec(),
        },
    };
    request.body = body.into();
    add_type(request);
    Ok(())
}

/// Says what a body is where nobody has: servers refuse a body without a type.
fn add_type(request: &mut Request) {
    let named = |(name, _): &(String, String)| name.eq_ignore_ascii_case("content-type");
    if request.body.is_empty() || request.headers.iter().any(named) {
        return;
    }
    let kind = match std::str::from_utf8(&request.body) {
        Ok(text) if serde_json::from_str::<serde_json::Value>(text).is_ok() => "application/json",
        Ok(text) if is_form(text) => "application/x-www-form-urlencoded",
        Ok(_) => "text/plain; charset=utf-8",
        Err(_) => "application/octet-stream",
    };
    request.headers.push(("Content-Type".into(), kind.into()));
}

/// `a=1&b=2`, as a form sends it.
fn is_form(text: &str) -> bool {
    let sent = |c: char| c.is_ascii_alphanumeric() || "-._~%+*".contains(c);
    text.split('&').all(|pair| {
        pair.split_once('=').is_some_and(|(name, value)| {
            !name.is_empty() && name.chars().chain(value.chars()).all(sent)
        })
    })
}

/// Requests of the same name that are not the same get a number, so that each has its own numbers.
fn told_apart(requests: &mut [Request]) {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for request in requests {
        let times = seen.entry(request.class.clone()).or_default();
        *times += 1;
        if *times > 1 {
            request.class = format!("{} #{times}", request.class);
        }
    }
}

/// Number of documents of equal chance that a lognormal size is cut into.
const LOGNORMAL_DOCUMENTS: u32 = 100;

fn documents(set: &str) -> Result<DocumentSet, Failure> {
    if set == "webstone" {
        return Ok(DocumentSet::webstone());
    }
    if let Some(parameters) = set.strip_prefix("lognormal:") {
        let numbers: Option<Vec<f64>> =
            parameters.split(',').map(|text| text.parse().ok()).collect();
        let Some([mu, sigma]) = numbers.as_deref() else {
            return Err(Failure::Usage(format!(
                "`{set}` is not a set: write `lognormal:7.811,1.573` (mean and standard deviation of \
                 the natural logarithm of the bytes)"
            )));
        };
        return lognormal(*mu, *sigma);
    }
    document_file(Path::new(set))
}

/// Documents `size/BYTES` at the middles of equally likely parts of a lognormal size.
fn lognormal(mu: f64, sigma: f64) -> Result<DocumentSet, Failure> {
    let mut sizes: Vec<u64> = (0..LOGNORMAL_DOCUMENTS)
        .map(|part| {
            let q = (f64::from(part) + 0.5) / f64::from(LOGNORMAL_DOCUMENTS);
            (mu + sigma * measure::t_quantile(q, 1e9)).exp().round().max(1.0) as u64
        })
        .collect();
    sizes.dedup();
    let document = |bytes: u64| Document { name: format!("size/{bytes}"), bytes, weight: 1 };
    DocumentSet::new(sizes.into_iter().map(document).collect()).map_err(Failure::usage)
}

fn document_file(path: &Path) -> Result<DocumentSet, Failure> {
    let document = |filed: FiledDocument| Document {
        name: filed.name,
        bytes: filed.bytes,
        weight: filed.weight,
    };
    DocumentSet::new(read_documents(path)?.into_iter().map(document).collect())
        .map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))
}
