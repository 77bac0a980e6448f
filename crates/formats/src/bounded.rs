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
            None => {
                let most = self.most_mib;
                let cause = format!("it is larger than {most} MiB; is it the right file?");
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, cause));
            }
        }
        Ok(read)
    }
}

/// Opens a file that may have so many MiB.
///
/// # Errors
/// If it cannot be opened.
pub fn open(path: &Path, most_mib: u64) -> io::Result<Bounded<File>> {
    Ok(Bounded::new(File::open(path)?, most_mib))
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
    use std::io::{ErrorKind, Read, repeat};

    use super::Bounded;

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
