//! Three disks where there is one: files as block devices, each with a file system and a limit on its
//! reads and writes a second.
//!
//! A shell makes them and removes them again: it waits on a pipe whose other end only we hold, so it
//! notices our end however we end. The limit is the kernel's (`blkio.throttle` of the first control
//! groups), by device and for all who use it, so that it slows nobody but who uses these devices. The
//! second control groups limit processes and not devices, and are not used.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Number of devices.
pub(super) const DISKS: usize = 3;
/// Most that a device may come to hold; its file takes only what is written.
const MEGABYTES: u32 = 2_048;
/// Folder of their files.
const PARENT: &str = "/var/tmp";
/// Folder in which the kernel takes limits.
const THROTTLE: &str = "/sys/fs/cgroup/blkio";
/// With so many I/Os a second allowed, ten take half a second.
const TRIED: u32 = 20;

/// `$1` is the folder, `$2` the size \[MB\], `$3` where limits are written.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
folder=$1 loops= numbers=
limit() {
    for number in $numbers; do
        for way in read write; do
            echo "$number $1" > "$throttle/blkio.throttle.${way}_iops_device" || return 1
        done
    done
}
clean() {
    limit 0
    for n in 1 2 3; do
        tries=0
        while ! umount "$folder/disk-$n" && [ -e "$folder/disk-$n/lost+found" ] \
            && [ "$tries" -lt 150 ]; do
            tries=$((tries + 1))
            sleep 0.2
        done
        # Whoever still uses it loses it when they end.
        [ ! -e "$folder/disk-$n/lost+found" ] || umount -l "$folder/disk-$n"
        rmdir "$folder/disk-$n"
    done
    for loop in $loops; do losetup --detach "$loop"; done
    rm -f -- "$folder"/disk-[123].img
    rmdir "$folder"
}
fail() { clean 2> /dev/null; echo "failed: $*"; exit 1; }
throttle=$3
mkdir -m 755 "$folder" || exit 1
[ -w "$throttle/blkio.throttle.write_iops_device" ] \
    || fail "the kernel takes no limits by device ($throttle)"
for n in 1 2 3; do
    truncate -s "$2M" "$folder/disk-$n.img" || fail "no room for a file of a device"
    loop=$(losetup --find --show "$folder/disk-$n.img" 2>&1) || fail "$loop"
    loops="$loops $loop"
    said=$(mkfs.ext4 -q -O ^has_journal -m 0 "$loop" 2>&1) || fail "$said"
    mkdir "$folder/disk-$n" || fail "no room for a folder"
    said=$(mount "$loop" "$folder/disk-$n" 2>&1) || fail "$said"
    numbers="$numbers $(cat "/sys/block/${loop#/dev/}/dev")"
done
echo ready
while read -r what number; do
    case $what in
        limit) limit "$number" ;;
        write) dd if=/dev/zero of="$folder/disk-1/tried" bs=4k count="$number" oflag=direct ;;
    esac && echo ready || echo "failed: $what"
done 2> /dev/null
clean 2> /dev/null
echo removed
"#;

/// Three devices, mounted; gone with this.
pub(super) struct Devices {
    shell: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    folder: PathBuf,
}

impl Devices {
    /// Makes them, and tries whether limits are kept. What this machine refuses comes back in words;
    /// nothing is left then.
    pub(super) fn make() -> Result<Devices, String> {
        Devices::make_limited_by(Path::new(THROTTLE))
    }

    fn make_limited_by(throttle: &Path) -> Result<Devices, String> {
        // A process makes one set at a time, and its number is its own.
        let folder = Path::new(PARENT).join(format!("sekisho-disks-{}", std::process::id()));
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "sekisho-disks"]).arg(&folder).arg(MEGABYTES.to_string());
        command.arg(throttle).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C");
        // A signal for us is none for it: it cleans up when the pipe ends.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut shell = command.spawn().map_err(|error| format!("/bin/sh: {error}"))?;
        let orders = shell.stdin.take();
        let answers = shell.stdout.take().expect("the command asked for a pipe");
        let mut devices = Devices { shell, orders, answers: BufReader::new(answers), folder };
        devices.answer()?;
        devices.try_limit()?;
        Ok(devices)
    }

    /// Folders on which they are mounted.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        (1..=DISKS).map(|n| self.folder.join(format!("disk-{n}"))).collect()
    }

    /// From now on each reads and writes so many times a second at most; 0 is no limit.
    pub(super) fn limit(&mut self, per_second: u32) -> Result<(), String> {
        self.order(&format!("limit {per_second}"))
    }

    /// A limit that is not kept would make one disk of the three.
    fn try_limit(&mut self) -> Result<(), String> {
        let mut timed = |limit| -> Result<Duration, String> {
            self.limit(limit)?;
            let begun = Instant::now();
            self.order(&format!("write {}", TRIED / 2))?;
            Ok(begun.elapsed())
        };
        let (free, limited) = (timed(0)?, timed(TRIED)?);
        timed(0)?;
        if limited < Duration::from_millis(300) || limited < 2 * free {
            return Err(format!(
                "a limit on a device is not kept: {} writes took {} ms and, with {TRIED} a second \
                 allowed, {} ms",
                TRIED / 2,
                free.as_millis(),
                limited.as_millis()
            ));
        }
        Ok(())
    }

    fn order(&mut self, words: &str) -> Result<(), String> {
        let orders = self.orders.as_mut().expect("the pipe is closed only at the end");
        writeln!(orders, "{words}").map_err(|error| format!("the disks' shell: {error}"))?;
        self.answer()
    }

    fn answer(&mut self) -> Result<(), String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(|error| format!("the disks' shell: {error}"))?;
        match line.trim() {
            "ready" => Ok(()),
            "" => Err("the disks' shell ended".into()),
            said => Err(said.trim_start_matches("failed: ").to_owned()),
        }
    }
}

impl Drop for Devices {
    fn drop(&mut self) {
        drop(self.orders.take());
        // It ends by itself, when everything is removed.
        self.shell.wait().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn left(folder: &Path) -> bool {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        folder.exists() || mounts.contains(&folder.display().to_string())
    }

    /// Where the machine can, three file systems are there and gone again; where it cannot, there are
    /// words for it. In both cases nothing is left.
    #[test]
    fn disks_are_made_limited_and_removed_or_refused_in_words() {
        let folder = match Devices::make() {
            Ok(mut devices) => {
                let folders = devices.folders();
                assert_eq!(folders.len(), DISKS);
                assert!(folders.iter().all(|folder| folder.join("lost+found").exists()));
                devices.limit(100).unwrap();
                fs::write(folders[2].join("full"), [0; 1000]).unwrap();
                devices.folder.clone()
            }
            Err(said) => {
                assert!(!said.is_empty());
                Path::new(PARENT).join(format!("sekisho-disks-{}", std::process::id()))
            }
        };
        assert!(!left(&folder));
        let said = Devices::make_limited_by(Path::new("/nowhere/at/all")).err().unwrap();
        assert!(said.contains("takes no limits") || said.contains("ended"), "{said}");
        assert!(!left(&folder));
    }
}
