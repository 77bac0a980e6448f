//! A server for a test, and requests to it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use jungle_server::{Access, Server, ServerSettings};
use serde_json::Value;

use crate::described;

/// A directory of a test, removed with it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("jungle-server-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// The settings of a test, on a port that is free.
pub(crate) fn settings() -> ServerSettings {
    let mut settings = ServerSettings::at("127.0.0.1:0".parse().unwrap());
    settings.store.segment_bytes = 1 << 20;
    settings
}

/// A server with a client.
pub(crate) struct Site {
    pub(crate) server: Server,
    pub(crate) agent: ureq::Agent,
    pub(crate) url: String,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: ureq::http::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn of(mut answered: ureq::http::Response<ureq::Body>) -> Self {
        Self {
            status: answered.status().as_u16(),
            headers: answered.headers().clone(),
            text: answered.body_mut().read_to_string().unwrap(),
        }
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// A problem of this status, which says so much.
    #[track_caller]
    pub(crate) fn is_problem(&self, status: u16, words: &[&str]) {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], status, "{self:?}");
        assert!(problem["type"].as_str().unwrap().starts_with("/problems/"), "{self:?}");
        for name in ["title", "instance"] {
            assert_ne!(problem[name].as_str(), Some(""), "{name}: {self:?}");
        }
        let detail = problem["detail"].as_str().unwrap();
        for word in words {
            assert!(detail.contains(word), "no `{word}`: {self:?}");
        }
    }

    #[track_caller]
    pub(crate) fn is(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        self.json()
    }
}

pub(crate) fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(120)))
        .proxy(None);
    config.build().into()
}

impl Site {
    pub(crate) fn start(folder: &Path) -> Self {
        Self::with(folder, settings())
    }

    pub(crate) fn with(folder: &Path, settings: ServerSettings) -> Self {
        Self::for_users(folder, settings, Access::default())
    }

    pub(crate) fn for_users(folder: &Path, settings: ServerSettings, access: Access) -> Self {
        let server = Server::start(folder, settings, access).unwrap();
        let url = format!("http://{}", server.address());
        Self { server, agent: agent(), url }
    }

    pub(crate) fn ask(&self, method: &str, place: &str, body: Option<&Value>) -> Answer {
        self.ask_with(method, place, body, &[])
    }

    pub(crate) fn ask_with(
        &self,
        method: &str,
        place: &str,
        body: Option<&Value>,
        headers: &[(&str, &str)],
    ) -> Answer {
        let mut request =
            ureq::http::Request::builder().method(method).uri(format!("{}{place}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answered = match body {
            Some(body) => self.agent.run(request.body(body.to_string()).unwrap()),
            None => self.agent.run(request.body(()).unwrap()),
        };
        let answer = Answer::of(answered.unwrap());
        let kind = headers.iter().find(|(name, _)| *name == "content-type").map(|(_, kind)| *kind);
        described::hold(method, place, body, kind, &answer);
        answer
    }

    /// Asks for what is no text.
    pub(crate) fn ask_bytes(&self, place: &str) -> Answer {
        let mut answered = self.agent.get(format!("{}{place}", self.url)).call().unwrap();
        let bytes = answered.body_mut().read_to_vec().unwrap();
        let (status, headers) = (answered.status().as_u16(), answered.headers().clone());
        let answer = Answer { status, headers, text: format!("{} B", bytes.len()) };
        described::hold("GET", place, None, None, &answer);
        answer
    }

    pub(crate) fn get(&self, place: &str) -> Answer {
        self.ask("GET", place, None)
    }

    pub(crate) fn post(&self, place: &str, body: &Value) -> Answer {
        self.ask("POST", place, Some(body))
    }

    pub(crate) fn put(&self, place: &str, body: Option<&Value>) -> Answer {
        self.ask("PUT", place, body)
    }

    pub(crate) fn patch(&self, place: &str, kind: &str, body: &Value) -> Answer {
        self.ask_with("PATCH", place, Some(body), &[("content-type", kind)])
    }
}
