//! Cassandra 5: one node with one copy of everything, whose commit log is synced as asked.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::lent::{Kind, Lent, Settings, StartError};
use crate::{maven, programs};

/// Modules of Java that Cassandra looks into, as its own list for Java 17 has them.
const EXPORTS: [&str; 9] = [
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/java.lang.ref",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "jdk.unsupported/sun.misc",
];
const OPENS: [&str; 18] = [
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "jdk.management/com.sun.management.internal",
];

const LOGGING: &str = "<configuration><appender name=\"OUT\" class=\"ch.qos.logback.core.ConsoleAppender\"><encoder>\
    <pattern>%-5level %date{ISO8601} %msg%n</pattern></encoder></appender>\
    <root level=\"WARN\"><appender-ref ref=\"OUT\"/></root></configuration>\n";

/// The moment at which a write is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitLog {
    /// Before it is acknowledged: `commitlog_sync: batch`.
    Batch,
    /// Within 10 s: `commitlog_sync: periodic`, the default of Cassandra.
    Periodic,
}

#[derive(Debug)]
struct Cassandra {
    java: PathBuf,
    jars: PathBuf,
    commit_log: CommitLog,
    heap_mib: u32,
}

impl Lent {
    /// Starts a private Cassandra with a heap of so many MiB; its programs are fetched once, from Maven Central.
    ///
    /// # Errors
    /// If it cannot be fetched, there is no Java for it, or it does not come up; nothing is left running or lying
    /// about then.
    pub fn cassandra(
        settings: &Settings,
        commit_log: CommitLog,
        heap_mib: u32,
    ) -> Result<Self, StartError> {
        let java = programs::java().map_err(|found| StartError::Missing {
            program: "java",
            found,
            reason: "Cassandra 5 runs on Java 17 or 11".to_owned(),
            package: "openjdk-17-jre-headless",
        })?;
        let jars = maven::cassandra(settings)?;
        Self::start(Box::new(Cassandra { java, jars, commit_log, heap_mib }), settings)
    }
}

/// The configuration; everything that it leaves out is Cassandra's own.
fn configuration(folder: &str, [clients, nodes]: [u16; 2], commit_log: CommitLog) -> String {
    let sync = match commit_log {
        CommitLog::Batch => "commitlog_sync: batch",
        CommitLog::Periodic => "commitlog_sync: periodic\ncommitlog_sync_period: 10000ms",
    };
    let folder = folder.replace('\\', "\\\\").replace('"', "\\\"");
    let at = |name: &str| format!("\"{folder}/{name}\"");
    format!(
        "cluster_name: sekisho\nnum_tokens: 1\npartitioner: org.apache.cassandra.dht.Murmur3Partitioner\n{sync}\n\
         data_file_directories:\n  - {}\ncommitlog_directory: {}\nsaved_caches_directory: {}\n\
         hints_directory: {}\ncdc_raw_directory: {}\nseed_provider:\n  \
         - class_name: org.apache.cassandra.locator.SimpleSeedProvider\n    parameters:\n      \
         - seeds: \"127.0.0.1:{nodes}\"\nlisten_address: 127.0.0.1\nstorage_port: {nodes}\n\
         rpc_address: 127.0.0.1\nnative_transport_port: {clients}\nstart_native_transport: true\n\
         endpoint_snitch: SimpleSnitch\ndisk_failure_policy: die\ncommit_failure_policy: die\n\
         auto_snapshot: false\n",
        at("data"),
        at("commitlog"),
        at("saved_caches"),
        at("hints"),
        at("cdc_raw"),
    )
}

impl Kind for Cassandra {
    fn name(&self) -> &'static str {
        "Cassandra"
    }

    fn command(&self, folder: &Path, ports: [u16; 2]) -> io::Result<Command> {
        let (yaml, logging) = (folder.join("cassandra.yaml"), folder.join("logback.xml"));
        let place = folder.to_string_lossy();
        fs::write(&yaml, configuration(&place, ports, self.commit_log))?;
        fs::write(&logging, LOGGING)?;
        let mut command = Command::new(&self.java);
        // Options of the environment are for other programs.
        for name in ["JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "CLASSPATH"] {
            command.env_remove(name);
        }
        for name in EXPORTS {
            command.arg("--add-exports").arg(format!("{name}=ALL-UNNAMED"));
        }
        for name in OPENS {
            command.arg("--add-opens").arg(format!("{name}=ALL-UNNAMED"));
        }
        let heap = self.heap_mib;
        command.args([format!("-Xms{heap}m"), format!("-Xmx{heap}m")]);
        command.args(["-XX:+UseG1GC", "-XX:+ExitOnOutOfMemoryError", "-Xss256k"]);
        command.arg("-Djdk.attach.allowAttachSelf=true");
        for (name, value) in [
            ("cassandra.config", format!("file://{}", yaml.display())),
            ("logback.configurationFile", format!("file://{}", logging.display())),
            ("cassandra.storagedir", place.into_owned()),
            ("java.io.tmpdir", folder.display().to_string()),
            ("cassandra-foreground", "yes".to_owned()),
            // There is nobody to wait for.
            ("cassandra.ring_delay_ms", "100".to_owned()),
            ("cassandra.skip_wait_for_gossip_to_settle", "0".to_owned()),
            ("cassandra.superuser_setup_delay_ms", "-1".to_owned()),
        ] {
            command.arg(format!("-D{name}={value}"));
        }
        command.arg("-cp").arg(self.jars.join("*"));
        command.arg("org.apache.cassandra.service.CassandraDaemon");
        Ok(command)
    }

    fn is_ready(&self, at: SocketAddr) -> bool {
        // The port for clients is opened when all else is done.
        TcpStream::connect_timeout(&at, Duration::from_secs(2)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_names_the_ports_the_folder_and_the_class() {
        let text = configuration("/a \"b\"", [1, 2], CommitLog::Batch);
        for line in [
            "commitlog_sync: batch\n",
            "native_transport_port: 1\n",
            "storage_port: 2\n",
            "commitlog_directory: \"/a \\\"b\\\"/commitlog\"\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let text = configuration("/a", [1, 2], CommitLog::Periodic);
        assert!(text.contains("commitlog_sync_period: 10000ms\n"), "{text}");
    }
}
