//! One request to a server, and its answer: a value, a refusal, or the reason why there is none.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use access_verbs::{Asked, Way};
use clap::Args as ClapArgs;
use cli::Failure;
use cli::text::{next, quoted};
use jungle_server::Problem;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The address that a server listens on where nobody says another one.
pub(crate) const LISTEN: &str = "127.0.0.1:7420";
/// The same as an address.
const SERVER: &str = "http://127.0.0.1:7420";
/// The variable of the environment that holds an access token.
const ACCESS_TOKEN: &str = "JUNGLE_ACCESS_TOKEN";
/// The most bytes of an answer \[B\].
const ANSWER_MAX: u64 = 1 << 30;

/// The server that is asked, and how its answer is shown.
#[derive(ClapArgs)]
pub(crate) struct ServerArgs {
    /// The server
    #[arg(long, value_name = "URL", default_value = SERVER)]
    pub(crate) server: String,
    /// A file whose first line is the access token of a user; left out, $JUNGLE_ACCESS_TOKEN
    #[arg(long, value_name = "FILE")]
    access_token_file: Option<PathBuf>,
    /// The certificate of the authority that signed the server's; left out, those of this machine
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl ServerArgs {
    /// A command to type next, to the same server.
    pub(crate) fn next(&self, command: &str) -> String {
        let mut command = command.to_owned();
        if self.server != SERVER {
            command.push_str(&format!(" --server {}", quoted(&self.server)));
        }
        command.push_str(&self.asked().options());
        next(&command)
    }

    fn asked(&self) -> Asked<'_> {
        Asked {
            option: "--server",
            server: &self.server,
            access_token_file: self.access_token_file.as_deref(),
            variable: ACCESS_TOKEN,
            ca: self.ca.as_deref(),
        }
    }
}

/// Who and why, for the history.
#[derive(ClapArgs)]
pub(crate) struct AuthorArgs {
    /// The author of the commit; left out, the user of the access token, else $USER
    #[arg(long, value_name = "NAME")]
    author: Option<String>,
    /// The reason of the commit
    #[arg(long, short, value_name = "TEXT", default_value = "")]
    message: String,
}

/// A way to a server.
pub(crate) struct Client(Way);

/// An answer that ended well, or was refused because of what others did.
pub(crate) enum Answered<T> {
    Done(T),
    Refused(Problem),
}

/// A request of a client.
pub(crate) struct Wish<'a> {
    pub(crate) method: &'a str,
    pub(crate) place: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Option<Vec<u8>>,
    /// A file that is sent as the body.
    pub(crate) file: Option<(std::fs::File, u64)>,
    /// The author where the server knows no users.
    author: Option<String>,
}

impl<'a> Wish<'a> {
    pub(crate) fn get(place: String) -> Self {
        Self::bare("GET", place)
    }

    /// A request with a body of JSON.
    pub(crate) fn of(method: &'a str, place: String, body: &Value) -> Self {
        let headers = vec![("content-type", "application/json".to_owned())];
        Self { headers, body: Some(body.to_string().into_bytes()), ..Self::bare(method, place) }
    }

    pub(crate) fn bare(method: &'a str, place: String) -> Self {
        Self { method, place, headers: Vec::new(), body: None, file: None, author: None }
    }

    pub(crate) fn by(mut self, author: &AuthorArgs) -> Self {
        let given = [
            ("jungle-author", author.author.clone().unwrap_or_default()),
            ("jungle-message", author.message.clone()),
        ];
        self.author = author.author.is_none().then(|| std::env::var("USER").ok()).flatten();
        self.headers.extend(given.into_iter().filter(|(_, value)| !value.is_empty()));
        self
    }

    pub(crate) fn with(mut self, name: &'static str, value: Option<&String>) -> Self {
        self.headers.extend(value.map(|value| (name, value.clone())));
        self
    }
}

impl Client {
    pub(crate) fn new(args: &ServerArgs) -> Result<Self, Failure> {
        let config = ureq::Agent::config_builder()
            .timeout_connect(Some(Duration::from_secs(10)))
            .timeout_recv_response(Some(Duration::from_secs(120)));
        Ok(Self(args.asked().way(config, SERVER)?))
    }

    /// The response to a request, of whatever status.
    pub(crate) fn send(
        &self,
        wish: &Wish<'_>,
    ) -> Result<ureq::http::Response<ureq::Body>, Failure> {
        let mut request = ureq::http::Request::builder()
            .method(wish.method)
            .uri(format!("{}{}", self.0.url, wish.place));
        for (name, value) in &wish.headers {
            request = request.header(*name, value.as_bytes());
        }
        match (&self.0.authorization, &wish.author) {
            (Some(said), _) => request = request.header("authorization", said.as_bytes()),
            (None, Some(author)) => request = request.header("jungle-author", author.as_bytes()),
            (None, None) => {}
        }
        let wrong = |error: ureq::http::Error| Failure::Usage(format!("{}: {error}", self.0.url));
        let sent = match (&wish.file, &wish.body) {
            (Some((file, bytes)), _) => {
                // Else it would go in chunks, and be refused too late if it is too long.
                let request = request.header("content-length", bytes.to_string());
                self.0.agent.run(request.body(file).map_err(wrong)?)
            }
            (None, Some(body)) => self.0.agent.run(request.body(body.clone()).map_err(wrong)?),
            // Else it would go in chunks, the end of which comes when the server may have answered.
            (None, None) if wish.method == "POST" => {
                self.0.agent.run(request.body("").map_err(wrong)?)
            }
            (None, None) => self.0.agent.run(request.body(()).map_err(wrong)?),
        };
        sent.map_err(|error| self.0.unanswered(&error, "--server", "sekisho jungle serve DIR"))
    }

    /// The bytes of an answer.
    pub(crate) fn bytes(&self, wish: &Wish<'_>) -> Result<Answered<Vec<u8>>, Failure> {
        self.read(self.send(wish)?)
    }

    /// The same of a response.
    pub(crate) fn read(
        &self,
        response: ureq::http::Response<ureq::Body>,
    ) -> Result<Answered<Vec<u8>>, Failure> {
        let status = response.status().as_u16();
        let mut body = Vec::new();
        let read = response.into_body().into_reader().take(ANSWER_MAX + 1).read_to_end(&mut body);
        read.map_err(|error| Failure::Machine(format!("{}: {error}", self.0.url)))?;
        if body.len() as u64 > ANSWER_MAX {
            return Err(Failure::Usage(
                "the answer has more than 1 GiB; ask for a part of it".into(),
            ));
        }
        if (200..300).contains(&status) {
            return Ok(Answered::Done(body));
        }
        let problem: Problem = serde_json::from_slice(&body).map_err(|_| {
            Failure::Usage(format!(
                "{}: status {status}, and no answer of Jungle: is it one?",
                self.0.url
            ))
        })?;
        match status {
            // What others did is an outcome.
            409 | 412 => Ok(Answered::Refused(problem)),
            500 => Err(Failure::Machine(problem.detail.into())),
            _ => Err(Failure::Usage(problem.detail.into())),
        }
    }

    /// The answer as a value.
    pub(crate) fn ask<T: DeserializeOwned>(&self, wish: &Wish<'_>) -> Result<Answered<T>, Failure> {
        Ok(match self.bytes(wish)? {
            Answered::Refused(problem) => Answered::Refused(problem),
            Answered::Done(body) => {
                Answered::Done(serde_json::from_slice(&body).map_err(|error| {
                    Failure::Usage(format!(
                        "{}: no answer of this version of Jungle: {error}",
                        self.0.url
                    ))
                })?)
            }
        })
    }
}
