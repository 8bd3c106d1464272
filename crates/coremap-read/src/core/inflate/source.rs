use std::io::{self, BufRead, Read};

use crate::progress::Progress;

/// A reader of the compressed bytes with look-ahead. It knows whether a caller wanted more than there is.
pub(super) struct Source<'a, R> {
    inner: R,
    progress: &'a Progress,
    buffer: Vec<u8>,
    /// Start of the unread part of the buffer.
    start: usize,
    end: usize,
    /// Whether bytes beyond the end were requested.
    read_past_end: bool,
}

const BUFFER: usize = 256 << 10;

impl<'a, R: Read> Source<'a, R> {
    pub(super) fn new(inner: R, progress: &'a Progress) -> Source<'a, R> {
        Source { inner, progress, buffer: vec![0; BUFFER], start: 0, end: 0, read_past_end: false }
    }

    /// The next `n` bytes, or fewer at the end, without consuming them.
    pub(super) fn peek(&mut self, n: usize) -> io::Result<&[u8]> {
        if self.end - self.start < n {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            while self.end < n.min(BUFFER) && self.refill()? > 0 {}
        }
        Ok(&self.buffer[self.start..self.end.min(self.start + n)])
    }

    /// Skips zeros. Returns whether anything follows.
    pub(super) fn pass_zeros(&mut self) -> io::Result<bool> {
        loop {
            let there = self.peek(1)?;
            if there.is_empty() {
                return Ok(false);
            }
            let rest = &self.buffer[self.start..self.end];
            let zeros = rest.iter().take_while(|&&b| b == 0).count();
            let all = zeros == rest.len();
            self.start += zeros;
            if !all {
                return Ok(true);
            }
        }
    }

    /// Skips `n` bytes. Returns whether there were that many.
    pub(super) fn pass(&mut self, n: u64) -> io::Result<bool> {
        Ok(io::copy(&mut self.take(n), &mut io::sink())? == n)
    }

    pub(super) fn read_past_end(&self) -> bool {
        self.read_past_end
    }

    fn refill(&mut self) -> io::Result<usize> {
        loop {
            match self.inner.read(&mut self.buffer[self.end..]) {
                Ok(n) => {
                    self.end += n;
                    self.progress.add(n as u64);
                    return Ok(n);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }
}

impl<R: Read> BufRead for Source<'_, R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            self.read_past_end |= self.refill()? == 0;
        }
        Ok(&self.buffer[self.start..self.end])
    }

    fn consume(&mut self, n: usize) {
        self.start = (self.start + n).min(self.end);
    }
}

impl<R: Read> Read for Source<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        let there = self.fill_buf()?;
        let n = there.len().min(out.len());
        out[..n].copy_from_slice(&there[..n]);
        self.consume(n);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_ahead_takes_nothing_away() -> io::Result<()> {
        let silent = Progress::silent();
        let bytes: Vec<u8> = (0..BUFFER as u32 + 100).map(|i| i as u8).collect();
        let mut source = Source::new(&bytes[..], &silent);
        assert_eq!(source.peek(3)?, &bytes[..3]);
        assert!(source.pass(BUFFER as u64 - 1)?);
        assert_eq!(source.peek(50)?, &bytes[BUFFER - 1..BUFFER + 49]);
        let mut rest = Vec::new();
        source.read_to_end(&mut rest)?;
        assert_eq!(rest, &bytes[BUFFER - 1..]);
        assert!(source.read_past_end() && source.peek(1)?.is_empty() && !source.pass(1)?);
        Ok(())
    }

    #[test]
    fn zeros_are_passed_up_to_what_follows_or_the_end() -> io::Result<()> {
        let silent = Progress::silent();
        let mut bytes = vec![0; 2 * BUFFER + 7];
        assert!(!Source::new(&bytes[..], &silent).pass_zeros()?);
        bytes.push(9);
        let mut source = Source::new(&bytes[..], &silent);
        assert!(source.pass_zeros()?);
        assert_eq!(source.peek(2)?, &[9][..]);
        assert!(!source.read_past_end());
        Ok(())
    }
}
