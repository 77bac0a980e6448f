//! Files are read up to a bound, so that a device, a pipe without end or the wrong file is an error and
//! never all of the memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Reader up to a bound.
#[derive(Debug)]
pub struct Bounded<R> {
    inner: R,
    left: u64,
    most_mib: u64,
}

impl<R: Read> Bounded<R> {
    /// At most so many MiB.
    pub fn new(inner: R, most_mib: u64) -> Bounded<R> {
        Bounded { inner, left: most_mib << 20, most_mib }
    }

    /// All of it.
    ///
    /// # Errors
    /// If it cannot be read, or goes on beyond the bound.
    pub fn whole(mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

impl<R: Read> Read for Bounded<R> {
    /// # Errors
    /// If `inner` fails, or goes on beyond the bound.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        match self.left.checked_sub(read as u64) {
            Some(left) => self.left = left,
            None => return Err(too_large(self.most_mib)),
        }
        Ok(read)
    }
}

/// Opens a file that may have so many MiB.
///
/// # Errors
/// If it cannot be opened, or is known to be larger before it is read.
pub fn open(path: &Path, most_mib: u64) -> io::Result<Bounded<File>> {
    let file = File::open(path)?;
    if file.metadata()?.len() > most_mib << 20 {
        return Err(too_large(most_mib));
    }
    Ok(Bounded::new(file, most_mib))
}

fn too_large(most_mib: u64) -> io::Error {
    let cause = format!("it is larger than {most_mib} MiB; is it the right file?");
    io::Error::new(io::ErrorKind::FileTooLarge, cause)
}

/// The text of a file that may have so many MiB.
///
/// # Errors
/// If it cannot be read, is larger, or is no UTF-8.
pub fn text(path: &Path, most_mib: u64) -> io::Result<String> {
    let mut text = String::new();
    open(path, most_mib)?.read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{ErrorKind, Read, repeat};

    use super::{Bounded, open};

    /// Half a gigabyte was read before a file of a gigabyte was refused.
    #[test]
    fn a_file_whose_size_is_beyond_the_bound_is_refused_before_it_is_read() {
        let path = std::env::temp_dir().join(format!("bounded-{}", std::process::id()));
        let file = File::create(&path).expect("a file of our own");
        file.set_len(1 << 20).expect("it has holes");
        let fits = open(&path, 1);
        file.set_len((1 << 20) + 1).expect("it has holes");
        let larger = open(&path, 1);
        std::fs::remove_file(&path).expect("it is ours");
        assert!(fits.is_ok(), "{fits:?}");
        let error = larger.expect_err("it is larger");
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert!(error.to_string().contains("larger than 1 MiB"), "{error}");
    }

    #[test]
    fn what_has_no_end_is_an_error_and_what_fits_is_read_whole() {
        let error = Bounded::new(repeat(b'x'), 1).whole().expect_err("it has no end");
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert!(error.to_string().contains("larger than 1 MiB"), "{error}");
        let most = Bounded::new(repeat(b'x').take(1 << 20), 1).whole().expect("it just fits");
        assert_eq!(most.len(), 1 << 20);
        assert!(Bounded::new(repeat(b'x').take((1 << 20) + 1), 1).whole().is_err());
    }
}
