//! A disk without room, at every step of a write: what was answered stays, the cause is told, and when there is
//! room again it goes on. The limit of a process on the size of its files stands for the disk: it tears a write at
//! any byte, as a full disk does.

use std::path::Path;
use std::process::Command;

use agents_store::{Embedded, EmbeddedSpec, Store, StoreError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::killed::{Writer, whole};
use crate::places::Scratch;

const FOLDER: &str = "ASTORE_FULL";

/// Files of this process have at most so many bytes from now on.
fn limit(bytes: Option<u64>) {
    let hard = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: bytes, maximum: hard }).unwrap();
}

/// The process whose files have a limit: this test again, told where by the environment. Without that it has nothing
/// to write.
#[test]
fn the_writer() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let store = Embedded::open(Path::new(&folder), EmbeddedSpec::default()).unwrap();
    let mut writer = Writer::open(&store);
    let (mut refused, mut bytes) = (0, 0);
    for round in 0..120 {
        writer.append();
        writer.commit();
        let before = (writer.version, writer.log_end);
        // A write is torn at another byte in each round, until there is room for a whole one.
        bytes += 1_511;
        limit(Some(bytes));
        let ended = if round % 2 == 0 { writer.try_append() } else { writer.try_commit() };
        if let Some(error) = ended {
            assert!(matches!(error, StoreError::Full { .. }), "round {round}: {error:?}");
            refused += 1;
            // Again, as the core does, and reading: they are told, and nothing is written.
            if let Err(error) = Store::<Vec<u8>>::partitions(&store) {
                assert!(matches!(error, StoreError::Full { .. }), "round {round}: {error:?}");
            }
        }
        limit(None);
        // The same again, as the core asks.
        if round % 2 == 0 {
            writer.append()
        } else {
            writer.commit()
        }
        let now = (writer.version, writer.log_end);
        assert!(now.0 >= before.0 && now.1 >= before.1, "{now:?}, {before:?}");
    }
    assert!(refused > 60, "there was nearly always room: {refused}");
    let written = (writer.version, writer.log_end);
    drop(store);
    let store = Embedded::open(Path::new(&folder), EmbeddedSpec::default()).unwrap();
    assert_eq!(whole(&store), written);
    println!("step whole");
}

#[test]
fn what_was_answered_outlives_a_full_disk_at_every_byte() {
    let scratch = Scratch::new();
    // The signal of the limit is ignored, so that a write fails instead.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$0\" full::the_writer --exact --nocapture"]);
    command.arg(std::env::current_exe().unwrap()).env(FOLDER, scratch.path());
    let ended = command.output().unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success() && out.contains("step whole"), "{out}\n{err}");
}
