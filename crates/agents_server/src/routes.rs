//! The places at which a server of agents is asked, each with the right that it needs: a place without one cannot be written
//! down.

use crate::users::{Right, Scope};

/// A place at which the server is asked.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// The method.
    pub method: &'static str,
    /// The path; words in capitals are names.
    pub path: &'static str,
    /// The right that it needs.
    pub right: Right,
    /// The agents that it is about.
    pub scope: Scope,
    pub(crate) operation: Operation,
}

/// The operation of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Health,
    Readiness,
    Page,
    PageState,
    Metrics,
    Message,
    MessageToAgent,
    List,
    DeclareAll,
    Declare,
    End,
    Snooze,
    State,
    Why,
    Rules,
    Reload,
    Trial,
    Stream,
    Backup,
    Dead,
    ResendDead,
    Undelivered,
    ResendUndelivered,
}

const fn route(
    method: &'static str,
    path: &'static str,
    right: Right,
    scope: Scope,
    operation: Operation,
) -> Route {
    Route { method, path, right, scope, operation }
}

/// All places.
pub const ROUTES: [Route; 23] = [
    route("GET", "/healthz", Right::Anybody, Scope::Nothing, Operation::Health),
    route("GET", "/readyz", Right::Anybody, Scope::Nothing, Operation::Readiness),
    // It has no numbers; it asks for them, with an access token that a person says.
    route("GET", "/", Right::Anybody, Scope::Nothing, Operation::Page),
    route("GET", "/state.json", Right::Read, Scope::Everything, Operation::PageState),
    route("GET", "/metrics", Right::Read, Scope::Everything, Operation::Metrics),
    route("POST", "/messages/MESSAGE", Right::Send, Scope::Listed, Operation::Message),
    route(
        "POST",
        "/agents/NAME/messages/MESSAGE",
        Right::Send,
        Scope::Named,
        Operation::MessageToAgent,
    ),
    route("GET", "/agents", Right::Read, Scope::Listed, Operation::List),
    route("POST", "/agents", Right::Declare, Scope::Listed, Operation::DeclareAll),
    route("PUT", "/agents/NAME", Right::Declare, Scope::Named, Operation::Declare),
    route("DELETE", "/agents/NAME", Right::Declare, Scope::Named, Operation::End),
    route("POST", "/agents/NAME/snooze", Right::Declare, Scope::Named, Operation::Snooze),
    route("GET", "/agents/NAME", Right::Read, Scope::Named, Operation::State),
    route("GET", "/agents/NAME/why", Right::Read, Scope::Named, Operation::Why),
    route("GET", "/rules", Right::Read, Scope::Nothing, Operation::Rules),
    route("POST", "/rules", Right::Administer, Scope::Everything, Operation::Reload),
    route("POST", "/try", Right::Read, Scope::Everything, Operation::Trial),
    route("GET", "/notifications", Right::Read, Scope::Listed, Operation::Stream),
    route("GET", "/backup", Right::Administer, Scope::Everything, Operation::Backup),
    route("GET", "/dead", Right::Administer, Scope::Everything, Operation::Dead),
    route("POST", "/dead/resend", Right::Administer, Scope::Everything, Operation::ResendDead),
    route("GET", "/undelivered", Right::Administer, Scope::Everything, Operation::Undelivered),
    route(
        "POST",
        "/undelivered/resend",
        Right::Administer,
        Scope::Everything,
        Operation::ResendUndelivered,
    ),
];

impl Route {
    /// The names in a path of these words, if it is one of this place.
    fn names<'a>(&self, words: &[&'a str]) -> Option<Vec<&'a str>> {
        let own: Vec<&str> = self.path.split('/').skip(1).collect();
        if own.len() != words.len() {
            return None;
        }
        let mut names = Vec::new();
        for (own, word) in own.into_iter().zip(words) {
            if !own.is_empty() && own.bytes().all(|byte| byte.is_ascii_uppercase()) {
                names.push(*word);
            } else if own != *word {
                return None;
            }
        }
        Some(names)
    }
}

/// The reason why a request is of no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouteError {
    /// It is done there with another method.
    Method,
    Path,
}

/// The place of a request, and the names in its path.
pub(crate) fn find<'a>(
    method: &str,
    words: &[&'a str],
) -> Result<(Route, Vec<&'a str>), RouteError> {
    let mut error = RouteError::Path;
    for route in ROUTES {
        let Some(names) = route.names(words) else { continue };
        if route.method == method {
            return Ok((route, names));
        }
        error = RouteError::Method;
    }
    Err(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_has_one_place_and_its_names() {
        for route in ROUTES {
            let words: Vec<&str> = route.path.split('/').skip(1).collect();
            let (found, names) = find(route.method, &words).unwrap();
            assert_eq!((found.path, found.method), (route.path, route.method), "found by itself");
            let wanted = route.path.matches("NAME").count() + route.path.matches("MESSAGE").count();
            assert_eq!(names.len(), wanted, "{}", route.path);
            let same = ROUTES.iter().filter(|other| other.operation == route.operation).count();
            assert_eq!(same, 1, "{:?}", route.operation);
        }
        let error = |method: &str, words: &[&str]| find(method, words).map(|_| ()).unwrap_err();
        assert_eq!(error("PATCH", &["agents", "a"]), RouteError::Method);
        assert_eq!(error("GET", &["agents", "a", "b"]), RouteError::Path);
        assert_eq!(error("GET", &["nothing"]), RouteError::Path);
        assert_eq!(error("POST", &[""]), RouteError::Method);
        let (_, names) = find("POST", &["agents", "a", "messages", "tick"]).unwrap();
        assert_eq!(names, ["a", "tick"]);
    }
}
