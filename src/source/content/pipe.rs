//! Text that comes once and cannot be read again: standard input.
//!
//! It is one text of unknown length. Its last part is held, so that a document can be read again from its start.
//! Anything before that is gone.

use std::fmt;
use std::io::{self, Read};

use super::ReadEnd;

/// How many bytes before the furthest read are held at least.
const HELD_BYTES: usize = 1 << 20;

/// How much is read at a time to skip bytes.
const SKIP_BYTES: usize = 256 << 10;

/// A text that is read once, from its start.
pub(crate) struct Pipe {
    input: Box<dyn Read + Send>,
    /// The last bytes that were read, and the offset after them.
    held: Vec<u8>,
    at: u64,
    is_ended: bool,
}

impl fmt::Debug for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipe").field("at", &self.at).field("is_ended", &self.is_ended).finish_non_exhaustive()
    }
}

impl Pipe {
    pub(crate) fn new(input: impl Read + Send + 'static) -> Self {
        Self { input: Box::new(input), held: Vec::new(), at: 0, is_ended: false }
    }

    /// Appends at most `n` bytes from `from` on: held bytes, or else the next ones that come. Waits only for the first
    /// of them, so that slow input is delivered as it comes.
    pub(super) fn read(&mut self, from: u64, n: usize, into: &mut Vec<u8>) -> io::Result<ReadEnd> {
        while self.at < from && !self.is_ended {
            let left = usize::try_from(from - self.at).unwrap_or(SKIP_BYTES);
            self.pull(left.min(SKIP_BYTES))?;
        }
        if self.at <= from && !self.is_ended && n > 0 {
            self.pull(n)?;
        }
        if from >= self.at {
            return Ok(if self.is_ended { ReadEnd::End } else { ReadEnd::More });
        }
        let back = usize::try_from(self.at - from).ok().filter(|back| *back <= self.held.len());
        let Some(back) = back else {
            let what = format!("byte {from} of standard input has gone by and cannot be read again");
            return Err(io::Error::other(what));
        };
        let bytes = &self.held[self.held.len() - back..];
        let taken = bytes.len().min(n);
        into.extend_from_slice(&bytes[..taken]);
        Ok(if self.is_ended && taken == bytes.len() { ReadEnd::End } else { ReadEnd::More })
    }

    /// Reads up to `n` more bytes.
    fn pull(&mut self, n: usize) -> io::Result<()> {
        if self.held.len() >= 2 * HELD_BYTES.max(n) {
            let gone = self.held.len() - HELD_BYTES.max(n);
            self.held.drain(..gone);
        }
        let held = self.held.len();
        self.held.resize(held + n, 0);
        let read = loop {
            match self.input.read(&mut self.held[held..]) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.held.truncate(held + read.as_ref().map_or(0, |read| *read));
        self.at += read.as_ref().map_or(0, |read| *read as u64);
        self.is_ended = read? == 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Gives its bytes in pieces of these lengths.
    struct Trickle {
        bytes: Vec<u8>,
        at: usize,
        pieces: Vec<usize>,
    }

    impl Read for Trickle {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.pieces.rotate_left(1);
            let n = self.pieces[0].min(into.len()).min(self.bytes.len() - self.at);
            into[..n].copy_from_slice(&self.bytes[self.at..self.at + n]);
            self.at += n;
            Ok(n)
        }
    }

    proptest! {
        #[test]
        fn gives_the_bytes_from_any_place_that_has_not_gone_by(
            bytes in prop::collection::vec(any::<u8>(), 0..500),
            pieces in prop::collection::vec(1_usize..40, 1..5),
            reads in prop::collection::vec((0_usize..600, 0_usize..90), 1..30),
        ) {
            let mut pipe = Pipe::new(Trickle { bytes: bytes.clone(), at: 0, pieces });
            for (from, n) in reads {
                let mut into = b"x".to_vec();
                let after = pipe.read(from as u64, n, &mut into).expect("no error");
                let rest = bytes.get(from..).unwrap_or_default();
                prop_assert!(rest.starts_with(&into[1..]) && into.len() <= n + 1);
                prop_assert!(after == ReadEnd::End || n == 0 || into.len() > 1, "it waits for one byte or more");
                prop_assert!(after != ReadEnd::End || into.len() - 1 == rest.len());
            }
        }
    }

    #[test]
    fn holds_no_more_than_it_must() {
        let mut pipe = Pipe::new(io::repeat(b'a'));
        for piece in 0..40 {
            pipe.read(piece * 300_000, 300_000, &mut Vec::new()).expect("no error");
            assert!(pipe.held.capacity() <= 5 * HELD_BYTES);
        }
        let error = pipe.read(5, 1, &mut Vec::new()).expect_err("it is gone");
        assert_eq!(error.to_string(), "byte 5 of standard input has gone by and cannot be read again");
    }
}
