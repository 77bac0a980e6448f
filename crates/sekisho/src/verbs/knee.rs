//! `sekisho measure http --knee`: the highest open load that holds a limit.
