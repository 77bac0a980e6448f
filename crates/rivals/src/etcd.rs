//! etcd: one member, which syncs its log before it answers, whatever is asked of it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::lent::{Kind, Lent, Settings, StartError};
use crate::programs;

/// Bytes of its data beyond which it takes no more writes \[B\]; the default, 2 GiB, is soon full of old versions.
const QUOTA: u64 = 8 << 30;
/// Time for an answer about its health.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
struct Etcd {
    program: PathBuf,
}

impl Lent {
    /// Starts a private etcd: a program that is given, else the one of this machine.
    ///
    /// # Errors
    /// If there is none, or it does not come up; nothing is left running or lying about then.
    pub fn etcd(settings: &Settings, program: Option<&Path>) -> Result<Self, StartError> {
        let found = program.map(Path::to_owned).or_else(|| programs::on_path("etcd"));
        let program = found.ok_or_else(|| StartError::Missing {
            program: "etcd",
            found: Vec::new(),
            reason: "it is the server of this store".to_owned(),
            package: "etcd-server",
        })?;
        Self::start(Box::new(Etcd { program }), settings)
    }
}

impl Kind for Etcd {
    fn name(&self) -> &'static str {
        "etcd"
    }

    fn command(&self, folder: &Path, [clients, peers]: [u16; 2]) -> io::Result<Command> {
        let mut command = Command::new(&self.program);
        // What the environment says of another etcd is not for this one.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("ETCD_") {
                command.env_remove(name);
            }
        }
        let clients = format!("http://127.0.0.1:{clients}");
        let peers = format!("http://127.0.0.1:{peers}");
        command.args(["--name", "sekisho", "--data-dir"]).arg(folder.join("data"));
        command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.args(["--initial-cluster", &format!("sekisho={peers}")]);
        command.args(["--quota-backend-bytes", &QUOTA.to_string(), "--logger", "zap"]);
        // Old versions are not asked for by a board, and go with time.
        command.args(["--auto-compaction-mode", "periodic", "--auto-compaction-retention", "5m"]);
        Ok(command)
    }

    fn is_ready(&self, at: SocketAddr) -> bool {
        health(at).is_ok_and(|answer| answer.contains("\"health\":\"true\""))
    }
}

fn health(at: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&at, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /health HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(4096).read_to_string(&mut answer)?;
    Ok(answer)
}
