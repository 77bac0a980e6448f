//! Where clients connect to: several addresses, and sockets in the file system.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::Duration;

use monitor::{Address, Admission, Keepalive, Mode, Monitor, SocketFile, StartError, Tcp, TlsMode};
use pgwire::secrets::{Hba, IdentMaps};
use pgwire::startup::Version;

use super::encrypting::tls;
use super::{Gate, Raw, ask, code, database, enter, password, runtime, trusting};

/// A directory of its own, taken away with this value.
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("sekisho-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(super) fn socket(&self) -> SocketFile {
        SocketFile { path: self.0.join(".s.PGSQL.6432"), mode: 0o700, group: None }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

#[test]
fn clients_come_by_every_address_and_rules_tell_them_apart() {
    let folder = Folder::new("addresses");
    let mut config = trusting(database(Mode::Transaction, 2));
    config.listen.push("127.0.0.1:0".parse().unwrap());
    let has_v6 = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    if has_v6 {
        config.listen.push("[::1]:0".parse().unwrap());
    }
    config.sockets.push(folder.socket());
    let probes = Keepalive {
        idle: Some(Duration::from_secs(30)),
        interval: Some(Duration::from_secs(5)),
        count: Some(3),
    };
    config.tcp = Tcp { keepalive: Some(probes), unacknowledged: Some(Duration::from_secs(20)) };
    let rules = "local all sekisho trust\nhost all all 127.0.0.1/32 scram-sha-256\n\
                 host all all ::1/128 reject\n";
    config.admission = Admission::Rules(Hba::parse(rules).unwrap());
    let gate = Gate::new(config);
    let addresses = gate.handle.addresses().to_vec();
    assert_eq!(addresses.len(), 3 + usize::from(has_v6), "{addresses:?}");
    let path = folder.socket().path;
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    runtime().block_on(async {
        for address in &addresses {
            let mut account = tokio_postgres::Config::new();
            account.user("sekisho").dbname(gate.account().get_dbname().unwrap());
            match address {
                Address::Tcp(address) => {
                    account.host(address.ip().to_string()).port(address.port());
                }
                Address::Host { .. } | Address::Unresolved { .. } => {
                    panic!("no name is listened on")
                }
                Address::Unix(path) => {
                    account.host_path(path.parent().unwrap()).port(6432);
                }
            }
            let (first, with) = (enter(&account).await, enter(account.password(password())).await);
            match address {
                Address::Unix(_) => {
                    assert_eq!(ask(&first.unwrap(), "select 7").await.unwrap(), "7")
                }
                Address::Tcp(address) if address.ip() == Ipv4Addr::LOCALHOST => {
                    assert_eq!(ask(&with.unwrap(), "select 8").await.unwrap(), "8");
                }
                _ => assert_eq!(code(&with.unwrap_err()), "28000"),
            }
        }
    });
    gate.end();
    assert!(!path.exists(), "the socket went with the gate");
}

#[test]
fn tls_is_asked_of_nobody_who_is_on_this_machine() {
    let folder = Folder::new("clear");
    let mut config = trusting(database(Mode::Transaction, 1));
    config.sockets.push(folder.socket());
    config.tls = Some(tls(TlsMode::Require));
    let gate = Gate::new(config);
    runtime().block_on(async {
        let mut account = tokio_postgres::Config::new();
        account.user("sekisho").dbname(gate.account().get_dbname().unwrap());
        account.host_path(folder.socket().path.parent().unwrap()).port(6432);
        let client = enter(&account).await.unwrap();
        assert_eq!(ask(&client, "select 9").await.unwrap(), "9");
    });
    let mut raw = Raw::connect(&gate);
    raw.start(Version::V3_0, &[]);
    assert!(raw.last_words().starts_with("FATAL 28000 connection requires TLS"));
    gate.end();
}

#[test]
fn who_comes_by_a_socket_is_who_the_system_says() {
    let folder = Folder::new("peers");
    let said = std::process::Command::new("id").arg("-un").output().unwrap();
    let me = String::from_utf8(said.stdout).unwrap().trim().to_owned();
    let maps = format!("office \"{me}\" sekisho\nstrangers nobody-at-all sekisho\n");
    for (rule, is_in) in [
        ("peer map=office", true),
        ("peer map=strangers", false),
        ("peer map=office", true),
        ("peer", me == "sekisho"),
    ] {
        let mut config = trusting(database(Mode::Transaction, 1));
        config.sockets.push(folder.socket());
        config.idents = IdentMaps::parse(&maps).unwrap();
        let rules = format!("local all all {rule}\nhost all all all reject\n");
        config.admission = Admission::Rules(Hba::parse(&rules).unwrap());
        let gate = Gate::new(config);
        runtime().block_on(async {
            let mut account = tokio_postgres::Config::new();
            account.user("sekisho").dbname(gate.account().get_dbname().unwrap());
            account.host_path(folder.socket().path.parent().unwrap()).port(6432);
            match enter(&account).await {
                Ok(client) => {
                    assert!(is_in, "{rule}");
                    assert_eq!(ask(&client, "select 9").await.unwrap(), "9");
                }
                Err(error) => {
                    assert!(!is_in, "{rule}: {error}");
                    let told = error.as_db_error().unwrap();
                    let expected = "peer authentication failed for user \"sekisho\"";
                    assert_eq!((told.code().code(), told.message()), ("28000", expected));
                }
            }
        });
        gate.end();
    }
}

#[test]
fn a_socket_that_nobody_listens_on_is_replaced_and_nothing_else_is() {
    let folder = Folder::new("stale");
    let path = folder.socket().path;
    let config = || {
        let mut config = trusting(database(Mode::Transaction, 1));
        config.listen.clear();
        config.sockets.push(folder.socket());
        config
    };
    let refused = || match Monitor::bind(config()).unwrap_err() {
        StartError::Listen { address, source } => {
            assert_eq!(address, Address::Unix(path.clone()));
            source.kind()
        }
        other => panic!("{other}"),
    };
    let listener = UnixListener::bind(&path).unwrap();
    assert_eq!(refused(), std::io::ErrorKind::AddrInUse, "somebody listens");
    drop(listener);
    assert!(path.exists(), "what is left when its owner is killed");
    let gate = Gate::new(config());
    assert_eq!(gate.handle.addresses(), [Address::Unix(path.clone())]);
    // What somebody else has put there meanwhile is not taken away.
    fs::remove_file(&path).unwrap();
    fs::write(&path, "a note").unwrap();
    let inode = fs::metadata(&path).unwrap().ino();
    gate.end();
    assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
    assert_eq!(refused(), std::io::ErrorKind::AddrInUse, "it is no socket");
    assert_eq!(fs::read_to_string(&path).unwrap(), "a note");
}
