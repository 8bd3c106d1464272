//! Collects the tokens in names, and determines which are the program's own.

use super::known;
use super::map::Tokens;
use super::parts::class_of;
use super::script::{self, is_part_byte};
use crate::addr::{Addr, AddrRange, union};
use crate::core::scrubbed_notes;
use crate::image::known_files::{is_public_file, is_system_path, jdk_of};
use crate::image::modules::{ModuleKind, file_name};
use crate::map::Kind;
use crate::memory::Memory;
use crate::session::Session;
use crate::targets::reads::{NameAt, Script};

/// Bytes on each side of a recorded name in which its first or last token may continue.
const CONTEXT: u64 = 1024;

/// Maximum number of bytes read of a name, or of a table of names.
const MAX_NAME: u64 = 64 << 20;

/// Dynamic entries for address and size of the string table (elf.h).
const DT_STRTAB: u64 = 5;
const DT_STRSZ: u64 = 10;

/// Returns the locations of names, by address, and all tokens of a process.
pub(super) fn all(
    session: &Session<'_>,
    mut places: Vec<NameAt>,
    public: &[String],
    notes: &[u8],
) -> (Vec<NameAt>, Tokens) {
    let process = session.process;
    let memory = &process.memory;
    let files = &process.space().files;
    let paths = files.iter().map(|file| &*file.path).chain(process.modules.iter().map(|module| &*module.path));
    let jdks: Vec<String> = paths.filter_map(jdk_of).collect();
    let everybodys = files.iter().filter(|file| is_public_file(&file.path, &jdks)).map(|file| file.range);
    let modules =
        process.modules.iter().filter(|module| is_public_file(&module.path, &jdks)).map(|module| module.range);
    // The kernel's vdso has no file.
    let vdso = session.map().regions.iter().filter(|region| region.kind == Kind::Vdso).map(|region| region.range);
    let everybodys = union(everybodys.chain(modules).chain(vdso).collect());
    let is_public = |at: Addr| {
        let i = everybodys.partition_point(|range| range.end <= at);
        everybodys.get(i).is_some_and(|range| range.contains(at))
    };
    places.extend(process.modules.iter().filter_map(|module| match &module.kind {
        ModuleKind::Elf(image) => {
            let len = crate::image::elf::dynamic_entry(memory, image.dynamic?, DT_STRSZ)?;
            let at = image.dynamic_addr(memory, DT_STRTAB)?;
            Some(NameAt { at, len: len.min(MAX_NAME), script: Script::Utf8 })
        }
        _ => None,
    }));
    let mut tokens = Tokens::default();
    known::words().for_each(|word| tokens.add_public(word));
    public.iter().for_each(|text| add(&mut tokens, text.as_bytes(), Script::Public));
    // A program may import `dup`, which a library's table contains only as the end of
    // `strdup`.
    let symbols = session.symbols().dynamic_names(is_public);
    symbols.iter().for_each(|name| add(&mut tokens, name.as_bytes(), Script::Public));
    places.sort_unstable();
    places.dedup();
    for name in &places {
        // A list of several gigabytes is no list of names.
        let Some((from, bytes)) = whole(memory, name) else { continue };
        let script = if is_public(name.at) { Script::Public } else { name.script };
        // If the name is the end of a longer token, that end is a token too.
        let skip = name.at.since(from) as usize;
        if skip > 0 && matches!(name.script, Script::Utf8 | Script::Public) {
            for span in script::tokens(&bytes, Script::Utf8) {
                let end = span.from + span.token.len();
                if span.from < skip && skip < end && span.token.is_char_boundary(skip - span.from) {
                    let (_, tail) = span.token.split_at(skip - span.from);
                    add(&mut tokens, tail.as_bytes(), script);
                    tokens.tails.entry(span.token.clone()).or_default().insert(tail.len());
                }
            }
        }
        path_or_name(&mut tokens, &bytes, name.script, script, &jdks);
    }
    places.retain(|name| name.script != Script::Public && !is_public(name.at));
    for range in scrubbed_notes::names(notes) {
        let text = notes.get(range).unwrap_or_default();
        for text in text.split(|&b| b == 0) {
            path_or_name(&mut tokens, text, Script::Utf8, Script::Utf8, &jdks);
        }
    }
    (places, tokens)
}

/// Adds the tokens of a name, which may be a path. `of` decides whether they count as
/// public.
fn path_or_name(tokens: &mut Tokens, bytes: &[u8], script: Script, of: Script, jdks: &[String]) {
    let spans = script::tokens(bytes, script);
    // A path with two bytes a character is checked as text too.
    let text: String = match script {
        Script::Units(width) => bytes
            .chunks_exact(usize::from(width.max(1)))
            .filter_map(|unit| unit.first())
            .map(|&b| char::from(b))
            .collect(),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    };
    let text = text.trim_end_matches('\0');
    if of == Script::Public || is_system_path(text) {
        spans.iter().for_each(|span| tokens.add_public(&span.token));
        return;
    }
    if text.starts_with('/') && !text.contains('\0') && is_public_file(text, jdks) {
        script::tokens(file_name(text).as_bytes(), Script::Utf8).iter().for_each(|span| tokens.add_public(&span.token));
    }
    let is_descriptor = script == Script::Java && (text.contains('(') || text.ends_with(';') || text.starts_with('['));
    for span in &spans {
        let before = span.from.checked_sub(1).and_then(|i| bytes.get(i));
        let begins = matches!(before, None | Some(b'(' | b')' | b'[' | b';'));
        match class_of(&span.token).filter(|_| is_descriptor && begins) {
            Some("") => {}
            Some(class) => {
                tokens.add_own(class);
                tokens.add_own(&span.token);
                let letters = span.token.len() - class.len();
                // A token that is public with these letters stays as a whole.
                tokens.descriptors.insert(span.token.clone(), letters);
            }
            None => tokens.add_own(&span.token),
        }
    }
}

fn add(tokens: &mut Tokens, bytes: &[u8], script: Script) {
    for span in script::tokens(bytes, Script::Utf8) {
        match script {
            Script::Public => tokens.add_public(&span.token),
            _ => tokens.add_own(&span.token),
        }
    }
}

/// Returns the bytes of a name, extended to the whole of its first and last tokens, and
/// their address.
pub(super) fn whole(memory: &dyn Memory, name: &NameAt) -> Option<(Addr, Vec<u8>)> {
    let len = memory.readable(name.at, name.len.min(MAX_NAME));
    let own = memory.look(name.at, usize::try_from(len).ok()?).ok()?;
    if !matches!(name.script, Script::Utf8 | Script::Public) {
        return Some((name.at, own));
    }
    let after = own.last().is_some_and(|&b| is_part_byte(b));
    let before = own.first().is_some_and(|&b| is_part_byte(b));
    let end = name.at.saturating_add(len);
    let mut from = name.at;
    let mut out = Vec::new();
    if before {
        let start = name.at.saturating_sub(CONTEXT);
        let parts = memory.readable_parts(AddrRange::new(start, name.at), CONTEXT);
        let part = parts.last().filter(|part| part.end == name.at);
        if let Some(bytes) = part.and_then(|part| memory.look(part.start, part.len() as usize).ok()) {
            let skip = bytes.iter().rposition(|&b| !is_part_byte(b)).map_or(0, |i| i + 1);
            out.extend(bytes.get(skip..).unwrap_or_default());
            from = name.at.saturating_sub(out.len() as u64);
        }
    }
    out.extend(own);
    if after {
        let len = memory.readable(end, CONTEXT);
        let bytes = memory.look(end, len as usize).unwrap_or_default();
        out.extend(bytes.into_iter().take_while(|&b| is_part_byte(b)));
    }
    Some((from, out))
}
