//! Decompresses zstd frames (RFC 8878). A window that exceeds the memory limit is read back from the output file.

use std::io::{BufRead, Read};

use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective, get_error_name};

use super::sink::Sink;
use super::source::Source;
use super::{InflateError, StreamEnd};
use crate::bytes;
use crate::core::mapped::Window;

/// Largest window that the decoder accepts: 2 GiB, as written by `zstd --long=31`.
const WINDOW_LOG_MAX: u32 = 31;

/// Maximum length of a frame header in bytes.
const HEADER: usize = 18;

/// Maximum memory for a window inside the decoder: that of `zstd --long=27`. For larger ones, it reads back from the
/// file, which takes the same time and almost no memory.
const MAX_INTERNAL_WINDOW: u64 = (128 << 20) + DECODER_OVERHEAD;

/// Memory of the decoder besides its window.
const DECODER_OVERHEAD: u64 = 1 << 20;

/// Maximum number of bytes that a decoder writes beyond its reported position: the literals of a block.
const MAX_OVERRUN: usize = 1 << 20;

/// Decompressed bytes kept in memory before they are written to the file.
const STEP: usize = 16 << 20;

/// Address space for a core of unknown size, if available.
const MAX_UNSIZED: usize = 1 << 42;

/// The sizes in a frame header.
struct Header {
    window: u64,
    content: Option<u64>,
}

impl Header {
    fn parse(head: &[u8]) -> Option<Header> {
        let flags = *head.get(4)?;
        let single = flags & 0x20 != 0;
        let mut at = 5;
        let mut window = 0;
        if !single {
            let byte = u64::from(*head.get(at)?);
            let base = 1u64 << (10 + (byte >> 3));
            window = base + base / 8 * (byte & 7);
            at += 1;
        }
        at += [0, 1, 2, 4][usize::from(flags & 3)];
        let content = match flags >> 6 {
            0 if single => Some(u64::from(*head.get(at)?)),
            0 => None,
            1 => Some(u64::from(bytes::u16_at(head, at)?) + 256),
            2 => Some(u64::from(bytes::u32_at(head, at)?)),
            _ => Some(bytes::u64_at(head, at)?),
        };
        Some(Header { window: content.filter(|_| single).unwrap_or(window), content })
    }
}

/// Decompresses frames with a shared context.
#[derive(Default)]
pub(super) struct Frames {
    context: Option<DCtx<'static>>,
}

impl Frames {
    /// Decompresses the next frame. `memory` limits its window, in bytes.
    pub(super) fn decompress<R: Read>(
        &mut self,
        source: &mut Source<'_, R>,
        sink: &mut Sink,
        memory: u64,
    ) -> Result<StreamEnd, InflateError> {
        let header = Header::parse(source.peek(HEADER).map_err(InflateError::Input)?);
        // Without a valid header, the decoder reports the error.
        let header = header.unwrap_or(Header { window: 0, content: None });
        let needs = header.window.min(header.content.unwrap_or(u64::MAX)).saturating_add(DECODER_OVERHEAD);
        let context = self.context.get_or_insert_with(DCtx::create);
        let whole = |code| StreamEnd::broken(get_error_name(code));
        if let Err(code) = context
            .reset(ResetDirective::SessionAndParameters)
            .and_then(|_| context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)))
        {
            return Ok(whole(code));
        }
        if needs > memory.min(MAX_INTERNAL_WINDOW) {
            decode_in_file(context, source, sink, &header)
        } else {
            decode_in_memory(context, source, sink)
        }
    }
}

/// Decompresses with the window inside the decoder.
fn decode_in_memory<R: Read>(
    context: &mut DCtx<'_>,
    source: &mut Source<'_, R>,
    sink: &mut Sink,
) -> Result<StreamEnd, InflateError> {
    loop {
        let compressed = match source.fill_buf() {
            Ok([]) => return Ok(StreamEnd::cut()),
            Ok(compressed) => compressed,
            Err(e) => return Ok(StreamEnd::broken(&e.to_string())),
        };
        let mut input = InBuffer::around(compressed);
        let mut output = OutBuffer::around(sink.room());
        let code = context.decompress_stream(&mut output, &mut input);
        let (taken, given) = (input.pos(), output.pos());
        source.consume(taken);
        sink.advance(given).map_err(|e| InflateError::output(e, sink))?;
        match code {
            Ok(0) => return Ok(StreamEnd::Whole),
            Ok(_) if sink.is_full() => return Ok(sink.full()),
            Ok(_) => {}
            Err(code) => return Ok(StreamEnd::broken(get_error_name(code))),
        }
    }
}

/// Decompresses into the final memory, where the decoder also looks back. Finished content is written to the file,
/// which is then mapped in place of the memory.
fn decode_in_file<R: Read>(
    context: &mut DCtx<'_>,
    source: &mut Source<'_, R>,
    sink: &mut Sink,
    header: &Header,
) -> Result<StreamEnd, InflateError> {
    sink.flush().map_err(|e| InflateError::output(e, sink))?;
    let begun = sink.len();
    let mut window = reserve(sink, header)?;
    if let Err(code) = context.set_parameter(DParameter::StableOutBuffer(true)) {
        return Ok(StreamEnd::broken(get_error_name(code)));
    }
    let (mut at, mut written) = (0, 0);
    // Decode one block at a time. The decoder returns how many bytes the next block needs.
    let mut wanted = HEADER;
    let ended = loop {
        let compressed = match source.fill_buf() {
            Ok([]) => break StreamEnd::cut(),
            Ok(compressed) => compressed,
            Err(e) => break StreamEnd::broken(&e.to_string()),
        };
        let mut input = InBuffer::around(&compressed[..wanted.clamp(1, compressed.len())]);
        let mut output = OutBuffer::around_pos(window.bytes(), at);
        let code = context.decompress_stream(&mut output, &mut input);
        at = output.pos();
        let taken = input.pos();
        source.consume(taken);
        match code {
            Ok(0) => break StreamEnd::Whole,
            Ok(hint) => wanted = hint,
            Err(code) => break StreamEnd::broken(get_error_name(code)),
        }
        if at - written >= STEP {
            sink.append(&window.bytes()[written..at]).map_err(|e| InflateError::output(e, sink))?;
            written = at;
            let holes = sink.holes_from(begun);
            window.settle(sink.file(), at, holes).map_err(InflateError::Input)?;
        }
        if sink.is_full() {
            break sink.full();
        }
    };
    sink.append(&window.bytes()[written..at]).map_err(|e| InflateError::output(e, sink))?;
    Ok(ended)
}

/// Reserves address space for the frame's content. If its size is not known, reserves as much as is available.
fn reserve(sink: &Sink, header: &Header) -> Result<Window, InflateError> {
    let known_len = header.content.map(|c| usize::try_from(c).unwrap_or(usize::MAX).saturating_add(MAX_OVERRUN));
    let mut len = known_len.unwrap_or(MAX_UNSIZED);
    loop {
        match Window::reserve(sink.file(), sink.len(), len, sink.losses()) {
            Ok(window) => return Ok(window),
            Err(_) if known_len.is_none() && len > STEP => len /= 2,
            Err(_) => {
                let content = header.content.unwrap_or(header.window);
                let what = "address space for unpacking".to_owned();
                return Err(InflateError::Unavailable { what, needs: content });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_tells_its_window_and_its_content() -> std::io::Result<()> {
        let compressed = zstd::encode_all(&[7u8; 100_000][..], 1)?;
        let header = Header::parse(&compressed).ok_or(std::io::ErrorKind::InvalidData)?;
        // A stream's header does not have the content size.
        assert_eq!(header.content, None);
        assert!(header.window >= 100_000, "{}", header.window);
        let compressed = zstd::bulk::compress(&[7u8; 100_000], 1)?;
        let header = Header::parse(&compressed).ok_or(std::io::ErrorKind::InvalidData)?;
        assert_eq!((header.window, header.content), (100_000, Some(100_000)));
        for cut in 0..compressed.len().min(HEADER) {
            let _ = Header::parse(&compressed[..cut]);
        }
        Ok(())
    }
}
