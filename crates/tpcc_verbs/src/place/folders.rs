//! The directories that a database is spread over, and which disks they lie on.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cli::Failure;

/// More directories than a machine of tables has use for.
const MOST: usize = 16;
/// Folder in which the kernel tells of block devices.
const SYSFS: &str = "/sys";

/// Disks that several directories lie on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Disks {
    /// Each on disks of its own, as far as the kernel tells.
    Apart,
    /// All on the same one, by name.
    One(String),
    /// Some share one, by name.
    Shared(String),
    /// Nobody here can tell.
    Unknown,
}

impl Disks {
    /// Those of directories of this machine.
    pub(super) fn of(folders: &[PathBuf]) -> Disks {
        let found: Option<Vec<BTreeSet<String>>> =
            folders.iter().map(|folder| disks(Path::new(SYSFS), device(folder)?)).collect();
        found.map_or(Disks::Unknown, |found| Disks::between(&found))
    }

    fn between(found: &[BTreeSet<String>]) -> Disks {
        let Some((first, rest)) = found.split_first() else { return Disks::Unknown };
        let common = rest.iter().fold(first.clone(), |all, one| &all & one);
        if let Some(name) = common.first() {
            return Disks::One(name.clone());
        }
        let shared = found.iter().enumerate().find_map(|(at, one)| {
            found[at + 1..].iter().find_map(|other| (one & other).first().cloned())
        });
        shared.map_or(Disks::Apart, Disks::Shared)
    }

    /// Meaning of that for what is measured, in a sentence.
    pub(super) fn text(&self) -> String {
        match self {
            Disks::Apart => "The directories lie on different disks.".into(),
            Disks::One(name) => format!(
                "All directories lie on the same disk, {name}: nothing is expected to become faster."
            ),
            Disks::Shared(name) => {
                format!("Some of the directories share the disk {name}: name one directory a disk.")
            }
            Disks::Unknown => {
                "Whether the directories lie on different disks cannot be seen from here; on one \
                 disk nothing would become faster."
                    .into()
            }
        }
    }

    /// A word for programs.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Disks::Apart => "apart",
            Disks::One(_) => "one",
            Disks::Shared(_) => "shared",
            Disks::Unknown => "unknown",
        }
    }
}

/// Major and minor number of the device that a file lies on.
fn device(path: &Path) -> Option<(u32, u32)> {
    let device = fs::metadata(path).ok()?.dev();
    Some((libc::major(device), libc::minor(device)))
}

/// The whole disks below a device: of a partition its disk, of a volume those of its parts, of a
/// loop device those of its file.
fn disks(sysfs: &Path, (major, minor): (u32, u32)) -> Option<BTreeSet<String>> {
    let link = sysfs.join(format!("dev/block/{major}:{minor}"));
    let mut found = BTreeSet::new();
    // No block device: a file system of memory or of the network; its number is all there is.
    if major == 0 {
        return None;
    }
    below(sysfs, &fs::canonicalize(link).ok()?, 0, &mut found)?;
    Some(found)
}

fn below(sysfs: &Path, block: &Path, depth: u32, found: &mut BTreeSet<String>) -> Option<()> {
    // Volumes of volumes end; a file that says otherwise is none of the kernel's.
    if depth > 8 {
        return None;
    }
    if block.join("partition").exists() {
        return below(sysfs, block.parent()?, depth + 1, found);
    }
    let parts: Vec<PathBuf> = fs::read_dir(block.join("slaves"))
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    if !parts.is_empty() {
        for part in parts {
            below(sysfs, &fs::canonicalize(part).ok()?, depth + 1, found)?;
        }
        return Some(());
    }
    if let Ok(file) = fs::read_to_string(block.join("loop/backing_file")) {
        let (major, minor) = device(Path::new(file.trim()))?;
        let link = sysfs.join(format!("dev/block/{major}:{minor}"));
        return below(sysfs, &fs::canonicalize(link).ok()?, depth + 1, found);
    }
    found.insert(block.file_name()?.to_string_lossy().into_owned());
    Some(())
}

/// The directories of a server on this machine: they exist, and none is named twice.
pub(super) fn here(folders: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let found = |folder: &PathBuf| {
        let name = folder.display();
        let found = fs::canonicalize(folder).map_err(|error| {
            Failure::Usage(format!("`--on` names {name}: {error}; make it, or name another"))
        })?;
        if !found.is_dir() {
            return Err(Failure::Usage(format!("`--on` names {name}, which is no directory")));
        }
        Ok(found)
    };
    let found: Vec<PathBuf> = folders.iter().map(found).collect::<Result<_, _>>()?;
    different(&found)?;
    Ok(found)
}

/// The directories of a server that may be elsewhere: from the root of its machine.
pub(super) fn there(folders: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    if let Some(folder) = folders.iter().find(|folder| !folder.is_absolute()) {
        return Err(Failure::Usage(format!(
            "`--on` names {}: a directory of the server's machine is named from its root, /...",
            folder.display()
        )));
    }
    different(folders)?;
    Ok(folders.to_vec())
}

fn different(folders: &[PathBuf]) -> Result<(), Failure> {
    let names: BTreeSet<&PathBuf> = folders.iter().collect();
    if names.len() < folders.len() {
        return Err(Failure::Usage("`--on` names a directory twice: name one a disk".into()));
    }
    if !(2..=MOST).contains(&folders.len()) {
        return Err(Failure::Usage(format!(
            "`--on` names {} of the 2 to {MOST} directories that tables can be spread over",
            folders.len()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A kernel's tree: disks vda and vdb, a partition of vda, a volume over both.
    struct Kernel(PathBuf);

    impl Kernel {
        fn new() -> Kernel {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("sekisho-sysfs-{}-{number}", std::process::id());
            let root = std::env::temp_dir().join(name);
            for path in ["vda/slaves", "vda/vda1", "vdb", "dm-0/slaves"] {
                fs::create_dir_all(root.join("devices").join(path)).unwrap();
            }
            fs::write(root.join("devices/vda/vda1/partition"), "1\n").unwrap();
            fs::create_dir_all(root.join("dev/block")).unwrap();
            for (number, path) in
                [("254:0", "vda"), ("254:1", "vda/vda1"), ("254:16", "vdb"), ("253:0", "dm-0")]
            {
                symlink(root.join("devices").join(path), root.join("dev/block").join(number))
                    .unwrap();
            }
            for (name, path) in [("vda1", "vda/vda1"), ("vdb", "vdb")] {
                let link = root.join("devices/dm-0/slaves").join(name);
                symlink(root.join("devices").join(path), link).unwrap();
            }
            Kernel(root)
        }

        fn disks(&self, major: u32, minor: u32) -> Option<BTreeSet<String>> {
            disks(&self.0, (major, minor))
        }
    }

    impl Drop for Kernel {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    #[test]
    fn partitions_and_volumes_lie_on_their_disks() {
        let kernel = Kernel::new();
        let names = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(kernel.disks(254, 0), names(&["vda"]));
        assert_eq!(kernel.disks(254, 1), names(&["vda"]));
        assert_eq!(kernel.disks(253, 0), names(&["vda", "vdb"]));
        assert_eq!(kernel.disks(9, 9), None, "a device that the kernel does not tell of");
        assert_eq!(kernel.disks(0, 40), None, "a file system of memory");
        let all = [kernel.disks(254, 1), kernel.disks(254, 0), kernel.disks(254, 16)];
        let [part, whole, other] = all.map(Option::unwrap);
        let both = kernel.disks(253, 0).unwrap();
        assert_eq!(Disks::between(&[part.clone(), whole.clone()]), Disks::One("vda".into()));
        assert_eq!(Disks::between(&[part.clone(), other.clone()]), Disks::Apart);
        assert_eq!(Disks::between(&[part, other.clone(), both]), Disks::Shared("vda".into()));
        assert_eq!(Disks::between(&[whole, other.clone(), other]), Disks::Shared("vdb".into()));
    }

    #[test]
    fn directories_of_one_place_share_its_disk() {
        let folder = std::env::temp_dir();
        let disks = Disks::of(&[folder.clone(), folder]);
        assert!(matches!(disks, Disks::One(_) | Disks::Unknown), "{disks:?}");
        assert_eq!(Disks::of(&[PathBuf::from("/nowhere/at/all")]), Disks::Unknown);
    }

    #[test]
    fn what_is_no_choice_of_directories_is_refused() {
        let refused = |folders: &[&str], words: &str| {
            let folders: Vec<PathBuf> = folders.iter().map(PathBuf::from).collect();
            for found in [here(&folders), there(&folders)] {
                let Err(error) = found else { panic!("{folders:?} will not do") };
                assert!(error.to_string().contains(words), "{error}");
            }
        };
        refused(&["/"], "names 1 of the 2 to 16");
        refused(&["/tmp", "/tmp"], "twice");
        let error = there(&["/a".into(), "b".into()]).unwrap_err().to_string();
        assert!(error.contains("from its root"), "{error}");
        let error = here(&["/".into(), "/nowhere/at/all".into()]).unwrap_err().to_string();
        assert!(error.contains("make it"), "{error}");
        let error = here(&["/".into(), "/proc/version".into()]).unwrap_err().to_string();
        assert!(error.contains("no directory"), "{error}");
    }
}
