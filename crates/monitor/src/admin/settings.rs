//! The configuration in force, key by key in PgBouncer's words, and which keys SET may change.

use std::time::Duration;

use crate::admin::Admin;
use crate::config::{Admission, CLIENTS_MAX, Config, Limits, ROOM, Reuse, Timeouts};
use crate::server_tls::TlsMode;
use pgconsole::{Refusal, Setting};
use pgwire::SqlState;
use pgwire::auth::Method;

/// The longest time that SET takes: a year.
const TIME_MAX: Duration = Duration::from_secs(366 * 86_400);

/// A key that SET may change.
struct Changeable {
    key: &'static str,
    of: Of,
}

/// Its kind, its place, and its default.
enum Of {
    /// A time above zero.
    Time(fn(&mut Config) -> &mut Duration, Duration),
    /// A time above zero, 0 for one without end.
    Endless(fn(&mut Config) -> &mut Duration, Duration),
    /// A time, 0 for none.
    Maybe(fn(&mut Config) -> &mut Option<Duration>),
    /// The longest wait at each gate.
    WaitMax,
    /// A number from 1 to this.
    Number(fn(&mut Config) -> &mut usize, usize, usize),
}

fn changeable() -> [Changeable; 18] {
    let (times, limits) = (Timeouts::default(), Limits::default());
    let time = |key, at, default| Changeable { key, of: Of::Time(at, default) };
    let number = |key, at, default, most| Changeable { key, of: Of::Number(at, default, most) };
    let maybe = |key, at| Changeable { key, of: Of::Maybe(at) };
    [
        time("cancel_wait_timeout", |to| &mut to.timeouts.cancel, times.cancel),
        time("clean_timeout", |to| &mut to.timeouts.clean, times.clean),
        maybe("client_idle_timeout", |to| &mut to.timeouts.client_idle),
        time("client_login_timeout", |to| &mut to.timeouts.login, times.login),
        time("drain_timeout", |to| &mut to.timeouts.drain, times.drain),
        maybe("idle_transaction_timeout", |to| &mut to.timeouts.idle_transaction),
        number("max_client_conn", |to| &mut to.limits.clients, limits.clients, CLIENTS_MAX),
        number("max_pools", |to| &mut to.limits.pools, limits.pools, 1 << 20),
        number("max_server_connecting", |to| &mut to.limits.connecting, limits.connecting, 1 << 20),
        maybe("query_timeout", |to| &mut to.timeouts.query),
        maybe("query_wait_notify", |to| &mut to.timeouts.wait_notice),
        Changeable { key: "query_wait_timeout", of: Of::WaitMax },
        time("server_connect_timeout", |to| &mut to.timeouts.connect, times.connect),
        Changeable {
            key: "server_idle_timeout",
            of: Of::Endless(|to| &mut to.timeouts.server_idle, times.server_idle),
        },
        time("server_lifetime", |to| &mut to.timeouts.server_lifetime, times.server_lifetime),
        time("server_login_retry", |to| &mut to.timeouts.server_retry, times.server_retry),
        time("stats_period", |to| &mut to.admin.stats_period, Admin::default().stats_period),
        maybe("transaction_timeout", |to| &mut to.timeouts.transaction),
    ]
}

/// Keys of PgBouncer's that count when the gate starts and not before, and why.
const AT_THE_START: [(&str, &str); 6] = [
    ("listen_addr", "its sockets are opened when it starts"),
    ("listen_port", "its sockets are opened when it starts"),
    ("listen_backlog", "its sockets are opened when it starts"),
    ("unix_socket_dir", "its sockets are opened when it starts"),
    ("unix_socket_mode", "its sockets are opened when it starts"),
    ("unix_socket_group", "its sockets are opened when it starts"),
];

/// Keys of PgBouncer's that are not of one value here, or that files stand behind: the source of
/// configurations says them, and a new one is made where SET changes them.
const OF_SOURCE: [&str; 46] = [
    "admin_users",
    "auth_dbname",
    "auth_file",
    "auth_hba_file",
    "auth_ident_file",
    "auth_query",
    "auth_type",
    "auth_user",
    "autodb_idle_timeout",
    "client_tls_ca_file",
    "client_tls_cert_file",
    "client_tls_key_file",
    "client_tls_protocols",
    "client_tls_sslmode",
    "default_pool_size",
    "ignore_startup_parameters",
    "log_connections",
    "log_disconnections",
    "log_pooler_errors",
    "log_stats",
    "max_db_client_connections",
    "max_db_connections",
    "max_packet_size",
    "max_prepared_statements",
    "max_user_client_connections",
    "max_user_connections",
    "min_pool_size",
    "pool_mode",
    "reserve_pool_size",
    "reserve_pool_timeout",
    "scram_iterations",
    "server_check_delay",
    "server_check_query",
    "server_round_robin",
    "server_tls_ca_file",
    "server_tls_cert_file",
    "server_tls_key_file",
    "server_tls_protocols",
    "server_tls_sslmode",
    "stats_users",
    "tcp_keepalive",
    "tcp_keepcnt",
    "tcp_keepidle",
    "tcp_keepintvl",
    "tcp_user_timeout",
    "track_extra_parameters",
];

/// Keys of PgBouncer's that change nothing here. A file may have them, and SET takes them.
const WITHOUT_EFFECT: [&str; 33] = [
    "application_name_add_host",
    "auth_ldap_options",
    "client_tls13_ciphers",
    "client_tls_ciphers",
    "client_tls_dheparams",
    "client_tls_ecdhcurve",
    "conffile",
    "disable_pqexec",
    "dns_max_ttl",
    "dns_nxdomain_ttl",
    "dns_zone_check_period",
    "job_name",
    "logfile",
    "peer_id",
    "pidfile",
    "pkt_buf",
    "resolv_conf",
    "sbuf_loopcnt",
    "server_fast_close",
    "server_reset_query",
    "server_reset_query_always",
    "server_tls13_ciphers",
    "server_tls_ciphers",
    "service_name",
    "so_reuseport",
    "suspend_timeout",
    "syslog",
    "syslog_facility",
    "syslog_ident",
    "tcp_defer_accept",
    "tcp_socket_buffer",
    "user",
    "verbose",
];

/// Whether SET changes a key by a configuration that is made anew.
pub(super) fn is_of_source(key: &str) -> bool {
    OF_SOURCE.contains(&key)
}

/// The notice that a key changes nothing here; none if it is no such key.
pub(super) fn without_effect(key: &str) -> Option<String> {
    WITHOUT_EFFECT.contains(&key).then(|| {
        format!(
            "\"{key}\" changes nothing in this gate: docs/pgbouncer.md says what takes its place"
        )
    })
}

/// Why a key that is none of those that SET changes stays as it is, and the way out; none if there is no
/// such key.
fn unchangeable(config: &Config, key: &str) -> Option<(String, String)> {
    let message = |why: &str| format!("\"{key}\" cannot be changed while the gate runs: {why}");
    if let Some((_, why)) = AT_THE_START.iter().find(|(one, _)| *one == key) {
        let hint = "change the file and start the gate again; with --take-over nobody is dropped";
        return Some((message(why), hint.to_owned()));
    }
    let is_fixed = is_of_source(key) || fixed(config).iter().any(|one| one.key == key);
    is_fixed.then(|| {
        let message = format!("\"{key}\" is not changed by SET: the configuration says it");
        let hint = "change it in the file, and RELOAD; without a file, start the gate again";
        (message, hint.to_owned())
    })
}

/// Seconds, as PgBouncer writes times.
fn seconds(time: Duration) -> String {
    format!("{}", time.as_secs_f64())
}

fn endless(time: Duration) -> String {
    seconds(Some(time).filter(|time| *time < Duration::MAX).unwrap_or_default())
}

/// The source of configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// It makes one in which keys are changed.
    Sets,
    /// It does not, or there is none.
    ReadsAtMost,
}

/// Each key with what it is and what it would be, in alphabetic order.
pub(super) fn list(config: &mut Config, source: Source) -> Vec<Setting> {
    let mut found = fixed(config);
    for one in &mut found {
        one.changeable = source == Source::Sets && is_of_source(&one.key);
    }
    for Changeable { key, of } in changeable() {
        let (value, default) = match of {
            Of::Time(at, default) => (seconds(*at(config)), seconds(default)),
            Of::Endless(at, default) => (endless(*at(config)), endless(default)),
            Of::Maybe(at) => (seconds(at(config).unwrap_or_default()), "0".to_owned()),
            Of::Number(at, default, _) => (at(config).to_string(), default.to_string()),
            Of::WaitMax => {
                let each = config.databases.iter().map(|one| one.gate.wait_max.unwrap_or_default());
                (each_once(each.map(seconds)), "120".to_owned())
            }
        };
        found.push(Setting { key: key.to_owned(), value, default, changeable: true });
    }
    found.sort_by(|a, b| a.key.cmp(&b.key));
    found
}

/// Values that differ from database to database, each once.
fn each_once(values: impl Iterator<Item = String>) -> String {
    let mut each: Vec<String> = values.collect();
    each.dedup();
    each.join(", ")
}

/// Settings that are not changed singly.
fn fixed(config: &Config) -> Vec<Setting> {
    let auth = match &config.admission {
        Admission::Rules(_) => "hba".to_owned(),
        Admission::Certificates => "cert".to_owned(),
        Admission::Everybody(Method::ScramSha256) => "scram-sha-256".to_owned(),
        Admission::Everybody(Method::Md5) => "md5".to_owned(),
        Admission::Everybody(Method::Password) => "plain".to_owned(),
        Admission::Everybody(Method::Trust) => "trust".to_owned(),
    };
    let tls = config.tls.as_ref().map_or(TlsMode::Disable, |tls| tls.mode);
    let databases = || config.databases.iter();
    let slots = databases()
        .map(|one| one.gate.servers.iter().map(|server| server.slots).sum::<u32>().to_string());
    [
        ("admin_users", config.admin.users.join(", "), String::new()),
        ("auth_type", auth, "scram-sha-256".to_owned()),
        ("client_tls_sslmode", tls.to_string(), "disable".to_owned()),
        ("default_pool_size", each_once(slots), "20".to_owned()),
        (
            "discipline",
            each_once(databases().map(|one| one.gate.discipline.name().to_owned())),
            "fifo".to_owned(),
        ),
        (
            "http",
            config.admin.http.map(|address| address.to_string()).unwrap_or_default(),
            String::new(),
        ),
        ("listen_addr", listens(config), "127.0.0.1".to_owned()),
        ("listen_port", port(config).to_string(), "6432".to_owned()),
        (
            "pool_mode",
            each_once(databases().map(|one| one.mode.to_string())),
            "transaction".to_owned(),
        ),
        (
            "room",
            each_once(databases().map(|one| one.gate.room.unwrap_or_default().to_string())),
            ROOM.to_string(),
        ),
        (
            "router",
            each_once(databases().map(|one| one.gate.router.name().to_owned())),
            "round-robin".to_owned(),
        ),
        (
            "server_round_robin",
            each_once(databases().map(|one| u8::from(one.reuse == Reuse::Rotate).to_string())),
            "0".to_owned(),
        ),
        ("stats_users", config.admin.stats_users.join(", "), String::new()),
    ]
    .into_iter()
    .map(|(key, value, default)| Setting { key: key.to_owned(), value, default, changeable: false })
    .collect()
}

/// Changes one key. Of one that is [`without_effect`] nobody asks here.
///
/// # Errors
/// If there is no such key, it cannot be changed, or the value is out of its range.
pub(super) fn set(config: &mut Config, key: &str, value: &str) -> Result<(), Refusal> {
    let refused = |sqlstate, message: String, hint: String| {
        Err(Refusal { sqlstate, message, hint: Some(hint) })
    };
    let invalid = SqlState::INVALID_PARAMETER_VALUE;
    let Some(Changeable { of, .. }) = changeable().into_iter().find(|one| one.key == key) else {
        if let Some((message, hint)) = unchangeable(config, key) {
            return refused(SqlState::NOT_IN_PREREQUISITE_STATE, message, hint);
        }
        let keys = changeable().map(|one| one.key);
        let nearest = measure::nearest(key, keys);
        let hint = nearest.map_or("SHOW CONFIG lists the keys".to_owned(), |nearest| {
            format!("did you mean {nearest}? SHOW CONFIG lists the keys")
        });
        return refused(invalid, format!("there is no setting \"{key}\""), hint);
    };
    let time = || {
        let found = read_time(value);
        found.ok_or_else(|| Refusal {
            sqlstate: invalid,
            message: format!("\"{value}\" is no time for \"{key}\""),
            hint: Some("seconds as a number, or a time with its unit as in '250ms'".to_owned()),
        })
    };
    let above_zero = |time: Duration| {
        let least = Duration::from_millis(if key == "stats_period" { 1000 } else { 1 });
        if time >= least {
            return Ok(time);
        }
        let message = format!("{value} is too short for \"{key}\"");
        refused(invalid, message, format!("a time of {least:?} at least")).map(|()| time)
    };
    match of {
        Of::Time(at, _) => *at(config) = above_zero(time()?)?,
        Of::Endless(at, _) => {
            *at(config) = Some(time()?).filter(|time| !time.is_zero()).unwrap_or(Duration::MAX);
        }
        Of::Maybe(at) => *at(config) = Some(time()?).filter(|time| !time.is_zero()),
        Of::WaitMax => {
            let longest = above_zero(time()?)?;
            for database in &mut config.databases {
                database.gate.wait_max = Some(longest);
            }
        }
        Of::Number(at, _, most) => match value.parse() {
            Ok(number) if (1..=most).contains(&number) => *at(config) = number,
            _ => {
                let message = format!("\"{value}\" is no number for \"{key}\"");
                return refused(invalid, message, format!("a whole number, 1 to {most}"));
            }
        },
    }
    Ok(())
}

/// Seconds, or a number with one of these units.
fn read_time(text: &str) -> Option<Duration> {
    let split =
        text.find(|admin_message: char| admin_message.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    let seconds = number.trim().parse::<f64>().ok()? * unit;
    Duration::try_from_secs_f64(seconds).ok().filter(|time| *time <= TIME_MAX)
}

/// The addresses of the network that clients connect to.
fn listens(config: &Config) -> String {
    let addresses: Vec<String> = config.listen.iter().map(|one| one.ip().to_string()).collect();
    addresses.join(",")
}

/// The port of the first of them.
fn port(config: &Config) -> u16 {
    config.listen.first().map_or(0, |address| address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Address, Database};
    use pgwire::secrets::{MockKey, Users};

    fn config() -> Config {
        let server = Address::Tcp(([127, 0, 0, 1], 5432).into());
        let database = Database::new("shop", vec![server], 7);
        let users = Users::parse("", MockKey::new([7; 32])).unwrap();
        Config::new(([127, 0, 0, 1], 6432).into(), vec![database], users)
    }

    #[test]
    fn what_is_set_is_what_is_listed_and_what_is_in_force() {
        let mut config = config();
        let shown = |config: &mut Config, key: &str| {
            list(config, Source::ReadsAtMost).into_iter().find(|one| one.key == key).unwrap().value
        };
        for one in changeable() {
            let value = if let Of::Number(..) = one.of { "77" } else { "12.5" };
            assert_ne!(shown(&mut config, one.key), value);
            set(&mut config, one.key, value).unwrap();
            assert_eq!(shown(&mut config, one.key), value, "{}", one.key);
        }
        assert_eq!(config.limits.clients, 77);
        assert_eq!(config.timeouts.server_lifetime, Duration::from_millis(12_500));
        assert_eq!(config.databases[0].gate.wait_max, Some(Duration::from_millis(12_500)));
        set(&mut config, "client_idle_timeout", "0").unwrap();
        assert_eq!(config.timeouts.client_idle, None);
        set(&mut config, "query_wait_timeout", "250ms").unwrap();
        assert_eq!(shown(&mut config, "query_wait_timeout"), "0.25");
        assert_eq!(shown(&mut config, "default_pool_size"), "7");
        let keys: Vec<_> = list(&mut config, Source::Sets).into_iter().map(|one| one.key).collect();
        assert!(keys.is_sorted() && keys.len() == 31, "{keys:?}");
    }

    /// Of PgBouncer's keys most were none that the console had heard of.
    #[test]
    fn set_of_every_key_of_pgbouncer_changes_it_or_says_why_not() {
        let page = include_str!("../../../../docs/pgbouncer.md");
        let start = page.find("## Keys of [pgbouncer]").unwrap();
        let end = start + page[start..].find("## Keys of [databases]").unwrap();
        let keys = page[start..end].lines().filter_map(|line| line.strip_prefix("| `"));
        let (mut changed, mut of_source, mut told, mut noticed) = (0, 0, 0, 0);
        for key in keys.map(|line| line.split('`').next().unwrap()) {
            if let Some(notice) = without_effect(key) {
                assert!(notice.starts_with(&format!("\"{key}\" changes nothing")), "{notice}");
                noticed += 1;
                continue;
            }
            match set(&mut config(), key, "7") {
                Ok(()) => changed += 1,
                Err(refusal) => {
                    assert_eq!(refusal.sqlstate, SqlState::NOT_IN_PREREQUISITE_STATE, "{key}");
                    assert!(refusal.message.contains(key) && refusal.hint.is_some(), "{key}");
                    // Without a source it is told as well.
                    let by = if is_of_source(key) { &mut of_source } else { &mut told };
                    *by += 1;
                }
            }
        }
        assert_eq!((changed, of_source), (14, OF_SOURCE.len()));
        assert_eq!((told, noticed), (AT_THE_START.len(), WITHOUT_EFFECT.len()));
        let known = changeable().map(|one| one.key);
        assert!(OF_SOURCE.iter().all(|key| !known.contains(key)), "each is changed in one way");
        let has_effect = |key: &&str| known.contains(key) || OF_SOURCE.contains(key);
        assert!(!WITHOUT_EFFECT.iter().any(has_effect), "what counts is no such key");
    }

    #[test]
    fn what_means_nothing_is_refused_and_changes_nothing() {
        let mut config = config();
        let before = list(&mut config, Source::Sets);
        for (key, value, hint) in [
            ("server_lifetime", "0", "1ms at least"),
            ("server_lifetime", "-1", "seconds"),
            ("server_lifetime", "nan", "seconds"),
            ("query_wait_timeout", "1e300", "seconds"),
            ("stats_period", "10ms", "1s at least"),
            ("max_client_conn", "0", "1 to"),
            ("max_client_conn", "16777216", "1 to 16777215"),
            ("max_client_con", "5", "did you mean max_client_conn?"),
            ("pool_mode", "session", "RELOAD"),
            ("listen_port", "6433", "start the gate again"),
        ] {
            let refusal = set(&mut config, key, value).unwrap_err();
            assert!(refusal.hint.as_ref().unwrap().contains(hint), "{key} {value}: {refusal:?}");
        }
        let after = list(&mut config, Source::Sets);
        assert!(before.iter().zip(&after).all(|(a, b)| a.value == b.value));
    }
}
