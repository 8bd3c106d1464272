//! Decompresses .xz streams within a limit on the dictionary's memory.

use crate::host::FileAt;
use std::fs::File;
use std::io::{BufRead, Read};

use liblzma::stream::{Action, Error, Status, Stream};

use super::sink::Sink;
use super::source::Source;
use super::{InflateError, StreamEnd};
use crate::bytes;

/// Length of a stream's header, and of its footer, in bytes.
const EDGE: u64 = 12;

/// Maximum bytes read of an index. It has about 10 bytes per block, and blocks are several MiB.
const MAX_INDEX: u64 = 16 << 20;

/// Decompresses the next stream. `memory` limits the dictionary, in bytes. `known_size` is the decompressed size
/// according to the file's indexes.
pub(super) fn decompress<R: Read>(
    source: &mut Source<'_, R>,
    sink: &mut Sink,
    memory: u64,
    known_size: Option<u64>,
) -> Result<StreamEnd, InflateError> {
    let mut stream = match Stream::new_stream_decoder(memory, 0) {
        Ok(stream) => stream,
        Err(e) => return Ok(StreamEnd::broken(&e.to_string())),
    };
    // Memory needed, once it is known to exceed the limit.
    let mut needs = None;
    loop {
        let (compressed, action) = match source.fill_buf() {
            Ok([]) => (&[][..], Action::Finish),
            Ok(compressed) => (compressed, Action::Run),
            Err(e) => return Ok(StreamEnd::broken(&e.to_string())),
        };
        let (before_in, before_out) = (stream.total_in(), stream.total_out());
        let cut = compressed.is_empty();
        let status = stream.process(compressed, sink.room(), action);
        let (taken, given) = (stream.total_in() - before_in, stream.total_out() - before_out);
        source.consume(taken as usize);
        sink.advance(given as usize).map_err(|e| InflateError::output(e, sink))?;
        if let Some(needs) = needs.filter(|_| stream.total_out() > memory) {
            return Err(too_large(needs, memory));
        }
        match status {
            Ok(Status::StreamEnd) => return Ok(StreamEnd::Whole),
            Ok(_) if sink.is_full() => return Ok(sink.full()),
            Ok(_) if cut && given == 0 => return Ok(StreamEnd::cut()),
            Ok(_) => {}
            // A dictionary uses only as much memory as was decompressed.
            Err(Error::MemLimit) if needs.is_none() => {
                let all = usage(&mut stream, memory);
                if known_size.is_some_and(|known_size| known_size > memory) {
                    return Err(too_large(all, memory));
                }
                needs = Some(all);
                if stream.set_memlimit(u64::MAX).is_err() {
                    return Err(too_large(all, memory));
                }
            }
            Err(Error::Mem) => {
                let needs = needs.unwrap_or(memory);
                return Err(InflateError::Unavailable { what: "memory for the dictionary".to_owned(), needs });
            }
            Err(e) => return Ok(StreamEnd::broken(&e.to_string())),
        }
    }
}

fn too_large(needs: u64, allowed: u64) -> InflateError {
    InflateError::Memory { what: "the dictionary".to_owned(), needs, allowed }
}

/// Memory that a decoder needs after it refused `limit`: the lowest limit that it accepts.
fn usage(stream: &mut Stream, limit: u64) -> u64 {
    // Dictionaries have up to 4 GiB.
    let (mut refused, mut taken) = (limit, 1 << 33);
    if stream.set_memlimit(taken).is_err() {
        return taken;
    }
    while taken - refused > 1 {
        let middle = refused + (taken - refused) / 2;
        if stream.set_memlimit(middle).is_ok() { taken = middle } else { refused = middle }
    }
    taken
}

/// Decompressed size of all streams of `file`, by their indexes. `None` if the file does not end like an .xz file. Only
/// a hint, because nothing is verified.
pub(super) fn decompressed_size(file: &File) -> Option<u64> {
    let mut end = file.metadata().ok()?.len();
    let mut total = 0u64;
    // Each stream ends with its index, whose size is in the footer.
    for _ in 0..1024 {
        let mut footer = [0; EDGE as usize];
        let at = |end: u64, len: u64| end.checked_sub(len);
        file.read_exact_at(&mut footer, at(end, EDGE)?).ok()?;
        if footer.iter().all(|&b| b == 0) || footer[8..] == [0; 4] {
            // Padding.
            end = at(end, 4)?;
            continue;
        }
        if footer[10..] != *b"YZ" {
            return None;
        }
        let len = (u64::from(bytes::u32_at(&footer, 4)?) + 1) * 4;
        let mut index = vec![0; usize::try_from(len.min(MAX_INDEX)).ok()?];
        file.read_exact_at(&mut index, at(end, EDGE + len)?).ok()?;
        let (compressed, decompressed) = sums(&index)?;
        total = total.saturating_add(decompressed);
        end = at(end, compressed.saturating_add(len + 2 * EDGE))?;
        if end == 0 {
            return Some(total);
        }
    }
    Some(total)
}

/// Compressed and decompressed size of the blocks in an index.
fn sums(index: &[u8]) -> Option<(u64, u64)> {
    let (&0, mut rest) = index.split_first()? else { return None };
    let mut number = || {
        let mut value = 0u64;
        for i in 0..9 {
            let (&byte, after) = rest.split_first()?;
            rest = after;
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    };
    let (mut compressed, mut decompressed) = (0u64, 0u64);
    for _ in 0..number()? {
        let Some(size) = number() else { break };
        compressed = compressed.saturating_add(size.checked_next_multiple_of(4)?);
        decompressed = decompressed.saturating_add(number()?);
    }
    Some((compressed, decompressed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn indexes_tell_what_comes_out_of_all_streams() -> std::io::Result<()> {
        let mut file = tempfile::tempfile()?;
        for (size, padding) in [(1_000_000, 8), (3, 0), (70_000, 4)] {
            let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
            encoder.write_all(&vec![5; size])?;
            file.write_all(&encoder.finish()?)?;
            file.write_all(&vec![0; padding])?;
        }
        assert_eq!(decompressed_size(&file), Some(1_070_003));
        file.write_all(b"more")?;
        assert_eq!(decompressed_size(&file), None);
        Ok(())
    }
}
