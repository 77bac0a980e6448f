//! The verbs that ask a running server: each is one request or a few, so that other programs can do the same.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use access_verbs::{Asked, Way};
use clap::Args as ClapArgs;
use cli::Failure;
use cli::text::{next, quoted};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The address of a server where nobody says another one.
const URL: &str = "http://127.0.0.1:7080";
/// The variable of the environment that holds an access token.
const ACCESS_TOKEN: &str = "AGENTS_ACCESS_TOKEN";
/// The most bytes of an answer \[B\].
const ANSWER_MAX: u64 = 64 << 20;

/// The server that is asked, and how its answer is shown.
#[derive(ClapArgs)]
pub(crate) struct ServerArgs {
    /// The server
    #[arg(long, value_name = "URL", default_value = URL)]
    url: String,
    /// A file whose first line is the access token of a user; left out, $AGENTS_ACCESS_TOKEN
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
        if self.url != URL {
            command += &format!(" --url {}", quoted(&self.url));
        }
        command += &self.asked().options();
        next(&command)
    }

    fn asked(&self) -> Asked<'_> {
        Asked {
            option: "--url",
            server: &self.url,
            access_token_file: self.access_token_file.as_deref(),
            variable: ACCESS_TOKEN,
            ca: self.ca.as_deref(),
        }
    }
}

/// A way to a server.
pub(crate) struct Client(Way);

/// The status by which a server says that it has done nothing, and may do it later.
const UNDONE: u16 = 503;

/// The cause why a request has no answer that was wanted.
struct Unanswered {
    /// The status, if there was one.
    status: Option<u16>,
    failure: Failure,
}

impl From<Failure> for Unanswered {
    fn from(failure: Failure) -> Unanswered {
        Unanswered { status: None, failure }
    }
}

impl Client {
    pub(crate) fn new(args: &ServerArgs) -> Result<Client, Failure> {
        Client::within(args, Duration::from_secs(60))
    }

    /// A client whose answers may take long.
    pub(crate) fn without_haste(args: &ServerArgs) -> Result<Client, Failure> {
        Client::within(args, Duration::from_secs(24 * 3_600))
    }

    fn within(args: &ServerArgs, body: Duration) -> Result<Client, Failure> {
        let config = ureq::Agent::config_builder()
            .timeout_connect(Some(Duration::from_secs(10)))
            .timeout_recv_response(Some(Duration::from_secs(60)))
            .timeout_recv_body(Some(body));
        Ok(Client(args.asked().way(config, URL)?))
    }

    /// The answer to a request that may be sent twice; where it does not come, it is asked for again, for a minute.
    pub(crate) fn patiently<T: DeserializeOwned>(
        &self,
        method: &str,
        place: &str,
        body: Option<&Value>,
    ) -> Result<T, Failure> {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            match self.ask(method, place, None, body) {
                Err(Failure::Machine(_)) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(500));
                }
                ended => return ended,
            }
        }
    }

    /// The answer to a request that must not be sent twice. A server that says that it has done nothing for want
    /// of time or room is asked again, for a minute.
    pub(crate) fn once<T: DeserializeOwned>(
        &self,
        method: &str,
        place: &str,
    ) -> Result<T, Failure> {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            match self.sent(method, place, None, None) {
                Err(Unanswered { status: Some(UNDONE), .. }) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(500));
                }
                ended => return ended.map_err(|unanswered| unanswered.failure),
            }
        }
    }

    /// The answer to a request.
    ///
    /// # Errors
    /// There is no server, it does not know what is asked for, refuses it, or answers what is not understood.
    pub(crate) fn ask<T: DeserializeOwned>(
        &self,
        method: &str,
        place: &str,
        id: Option<&str>,
        body: Option<&Value>,
    ) -> Result<T, Failure> {
        self.sent(method, place, id, body).map_err(|unanswered| unanswered.failure)
    }

    fn sent<T: DeserializeOwned>(
        &self,
        method: &str,
        place: &str,
        id: Option<&str>,
        body: Option<&Value>,
    ) -> Result<T, Unanswered> {
        let response = self.response(method, place, id, body)?;
        let status = response.status().as_u16();
        let mut text = String::new();
        let read = response.into_body().into_reader().take(ANSWER_MAX).read_to_string(&mut text);
        read.map_err(|error| Failure::Machine(format!("{}: {error}", self.0.url)))?;
        if (200..300).contains(&status) {
            return Ok(serde_json::from_str(&text).map_err(|error| self.strange(status, &error))?);
        }
        Err(self.refused(status, &text))
    }

    /// Copies the bytes of an answer.
    ///
    /// # Errors
    /// As of [`Client::ask`]; or they cannot be written, which `wrong` tells.
    pub(crate) fn copy(
        &self,
        place: &str,
        to: &mut dyn Write,
        wrong: &dyn Fn(io::Error) -> Failure,
    ) -> Result<(), Failure> {
        let response = self.response("GET", place, None, None).map_err(|it| it.failure)?;
        let status = response.status().as_u16();
        let mut from = response.into_body().into_reader();
        let unread = |error: io::Error| Failure::Machine(format!("{}: {error}", self.0.url));
        if status != 200 {
            let mut text = String::new();
            from.take(ANSWER_MAX).read_to_string(&mut text).map_err(unread)?;
            return Err(self.refused(status, &text).failure);
        }
        let mut part = vec![0; 64 << 10];
        loop {
            match from.read(&mut part).map_err(unread)? {
                0 => return Ok(()),
                len => to.write_all(&part[..len]).map_err(wrong)?,
            }
        }
    }

    fn response(
        &self,
        method: &str,
        place: &str,
        id: Option<&str>,
        body: Option<&Value>,
    ) -> Result<ureq::http::Response<ureq::Body>, Unanswered> {
        let mut request =
            ureq::http::Request::builder().method(method).uri(format!("{}{place}", self.0.url));
        if let Some(said) = &self.0.authorization {
            request = request.header("authorization", said);
        }
        if let Some(id) = id {
            request = request.header("idempotency-key", id);
        }
        let wrong = |error: ureq::http::Error| Failure::Usage(format!("{}: {error}", self.0.url));
        let sent = match body {
            Some(body) => self.0.agent.run(request.body(body.to_string()).map_err(wrong)?),
            // Else it would go in chunks, the end of which comes when the server may have answered.
            None if method == "POST" => self.0.agent.run(request.body("").map_err(wrong)?),
            None => self.0.agent.run(request.body(()).map_err(wrong)?),
        };
        let unanswered = |error: ureq::Error| {
            self.0.unanswered(&error, "--url", "sekisho agents serve rules.toml")
        };
        Ok(sent.map_err(unanswered)?)
    }

    fn strange(&self, status: u16, error: &serde_json::Error) -> Failure {
        Failure::Usage(format!(
            "{}: status {status}, and no answer of agents of this version ({error}): are they there?",
            self.0.url
        ))
    }

    /// The cause that a server tells.
    fn refused(&self, status: u16, text: &str) -> Unanswered {
        let told: Value = match serde_json::from_str(text) {
            Ok(told) => told,
            Err(error) => return self.strange(status, &error).into(),
        };
        let cause = told["error"].as_str().unwrap_or("no cause was told").to_owned();
        let failure = match status {
            401 => Failure::Usage(format!(
                "{cause}; `--access-token-file FILE` or ${ACCESS_TOKEN} has it"
            )),
            // It never will.
            501 => Failure::Usage(format!("{}: {cause}", self.0.url)),
            500.. => Failure::Machine(format!("{}: {cause}", self.0.url)),
            _ => Failure::Usage(cause),
        };
        Unanswered { status: Some(status), failure }
    }
}
