//! Another configuration for a gate that runs: nobody is dropped, and nothing is half applied.

use std::rc::Rc;
use std::sync::Arc;

use thiserror::Error;

use super::access_log::Requests;
use super::config::{AccessLog, Config, StartError};
use super::server::{ControlError, Shared, Source};

/// Why another configuration was not taken. All is as it was.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// The gate has ended.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// It describes no gate, its certificate cannot be used, or its access log cannot be written.
    #[error(transparent)]
    Invalid(#[from] StartError),
    /// A server is taken away, or they have another order.
    #[error(
        "the first servers must be those that the gate has, in their order: add others at the end, give one \
         that is to go 0 slots, or restart"
    )]
    Servers,
    /// It could not be read.
    #[error("{0}")]
    Unread(String),
}

/// Takes another configuration. Sentences about what counts after a restart only.
///
/// # Errors
/// Why it is not taken; all is as it was.
pub(crate) async fn take(
    shared: &Rc<Shared>,
    mut config: Config,
) -> Result<Vec<String>, ReloadError> {
    let tls = config.tried_out()?;
    let file = |config: &Config| config.access_log.as_ref().map(|log| log.file.clone());
    let mut opened = None;
    let now = loop {
        // From here to the end nothing else happens in the gate, unless there is a log to open.
        let now = shared.config();
        if !config.upstreams.starts_with(&now.upstreams) {
            return Err(ReloadError::Servers);
        }
        if opened.is_some() || file(&config) == file(&now) {
            break now;
        }
        drop(now);
        opened = Some(open(config.access_log.clone()).await?);
    };
    let mut restart = Vec::new();
    let mut later = |what: &str, is_other: bool| {
        if is_other {
            restart.push(format!("{what} counts after a restart"));
        }
    };
    later("another address of clients", config.listen != now.listen);
    later("another address of the live page", config.admin != now.admin);
    later("another recording", config.record_max != now.record_max);
    config.listen = now.listen;
    config.admin = now.admin;
    config.record_max = now.record_max;
    if let Some(requests) = opened.filter(|_| file(&config) != file(&now)) {
        shared.requests.borrow_mut().replace(requests);
    }
    // Whoever listens to the gate goes on listening.
    config.decisions = config.decisions.or(now.decisions);
    drop(now);
    shared.replace(config, tls);
    Ok(restart)
}

/// Opens a log while the gate goes on, since that may take a while.
async fn open(log: Option<AccessLog>) -> Result<Requests, ReloadError> {
    let opened = tokio::task::spawn_blocking(move || Requests::open(log.as_ref())).await;
    Ok(opened.map_err(|error| ReloadError::Unread(error.to_string()))??)
}

/// Reads a configuration and takes it. Sentences about what came of it.
pub(crate) async fn from(shared: &Rc<Shared>, source: Source) -> Vec<String> {
    // It reads files and looks up names, while the gate goes on.
    let read = tokio::task::spawn_blocking(move || match Arc::clone(&source).lock() {
        Ok(mut source) => source().map_err(ReloadError::Unread),
        // The source has panicked: what it holds may be half changed.
        Err(_) => Err(ReloadError::Unread("the configuration cannot be read any more".to_owned())),
    });
    let read = match read.await {
        Ok(read) => read,
        Err(error) => Err(ReloadError::Unread(error.to_string())),
    };
    let taken = match read {
        Ok(config) => take(shared, config).await,
        Err(error) => Err(error),
    };
    match taken {
        Ok(restart) => {
            std::iter::once("has read its configuration anew".to_owned()).chain(restart).collect()
        }
        Err(error) => vec![format!("goes on as it was: {error}")],
    }
}
