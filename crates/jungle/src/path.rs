//! A place in one version of a tree, as the papers write it: `<-1,0,2>` is the third child of the first
//! child of the root.

use std::fmt;
use std::str::FromStr;

/// Positions from the root down. The root is `<-1>`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodePath(Vec<usize>);

impl NodePath {
    /// The path of the root, `<-1>`.
    pub fn root() -> Self {
        Self::default()
    }

    /// The path of the child at a position below this one.
    #[must_use]
    pub fn child(&self, position: usize) -> Self {
        let mut positions = self.0.clone();
        positions.push(position);
        Self(positions)
    }

    /// The positions below the root.
    pub fn positions(&self) -> &[usize] {
        &self.0
    }
}

impl From<Vec<usize>> for NodePath {
    fn from(positions: Vec<usize>) -> Self {
        Self(positions)
    }
}

impl<const N: usize> From<[usize; N]> for NodePath {
    fn from(positions: [usize; N]) -> Self {
        Self(positions.to_vec())
    }
}

impl fmt::Display for NodePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<-1")?;
        self.0.iter().try_for_each(|position| write!(f, ",{position}"))?;
        f.write_str(">")
    }
}

/// Why a text is no [`NodePath`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no path of a node; write <-1,0,2> (or -1,0,2): the root, then positions from 0")]
pub struct NodePathError(String);

impl FromStr for NodePath {
    type Err = NodePathError;

    /// Reads `<-1,0,2>`, and `-1,0,2` as in addresses of pages.
    fn from_str(text: &str) -> Result<Self, NodePathError> {
        let wrong = || NodePathError(text.to_owned());
        let inner = text.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).unwrap_or(text);
        let mut words = inner.split(',');
        if words.next() != Some("-1") {
            return Err(wrong());
        }
        let position = |word: &str| word.parse().map_err(|_| wrong());
        words.map(position).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_as_they_are_written() {
        for path in [NodePath::root(), NodePath::from([0, 2]), NodePath::root().child(7)] {
            assert_eq!(path.to_string().parse(), Ok(path));
        }
        assert_eq!("-1,0,2".parse(), Ok(NodePath::from([0, 2])));
        for wrong in ["", "<>", "0,1", "<-1,-1>", "<-1,0", "-1,", "<-1,x>"] {
            assert!(wrong.parse::<NodePath>().is_err(), "{wrong}");
        }
    }
}
