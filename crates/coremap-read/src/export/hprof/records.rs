//! Encodes records: one byte of type, four of time, four of length, and a body. The heap is in segment records, which
//! consist of sub-records.

use std::collections::HashMap;
use std::io::Write;

use crate::addr::Addr;
use crate::export::ExportError;
use crate::runtimes::api::fields::{Class, Frame, Static, Thread};
use crate::runtimes::api::{Root, RootKind};

/// Types of records.
pub(super) mod tag {
    /// A name with its id.
    pub(crate) const STRING: u8 = 0x01;
    /// A class with its name.
    pub(crate) const LOAD_CLASS: u8 = 0x02;
    pub(crate) const FRAME: u8 = 0x04;
    /// A stack trace of a thread.
    pub(crate) const TRACE: u8 = 0x05;
    /// A segment of the heap.
    pub(crate) const SEGMENT: u8 = 0x1c;
    /// The end of the heap.
    pub(crate) const END: u8 = 0x2c;
}

/// Types of sub-records.
pub(super) mod sub {
    /// A root of another kind.
    pub(crate) const UNKNOWN: u8 = 0xff;
    /// A root held by native code until it is released.
    pub(crate) const JNI_GLOBAL: u8 = 0x01;
    /// A root held by native code until it returns.
    pub(crate) const JNI_LOCAL: u8 = 0x02;
    /// A root in a variable of a frame.
    pub(crate) const JAVA_FRAME: u8 = 0x03;
    /// A root: a class that is never unloaded.
    pub(crate) const STICKY_CLASS: u8 = 0x05;
    /// A root: a thread.
    pub(crate) const THREAD_OBJECT: u8 = 0x08;
    pub(crate) const CLASS: u8 = 0x20;
    /// An object with fields.
    pub(crate) const INSTANCE: u8 = 0x21;
    /// An array of references.
    pub(crate) const OBJECT_ARRAY: u8 = 0x22;
    /// An array of values.
    pub(crate) const VALUE_ARRAY: u8 = 0x23;
}

/// Trace number for objects and threads without a trace.
pub(super) const NO_TRACE: u32 = 1;

/// Name of the root kind for threads, in heap dumps' terms.
pub(super) const THREAD_OBJECT: &str = "thread object";

/// Frame number of a root that is in no particular frame.
pub(super) const NO_FRAME: i32 = -1;

pub(super) fn record(out: &mut dyn Write, tag: u8, body: &[u8]) -> Result<(), ExportError> {
    head(out, tag, body.len() as u64)?;
    Ok(out.write_all(body)?)
}

/// Writes the header of a record with `len` bytes.
pub(super) fn head(out: &mut dyn Write, tag: u8, len: u64) -> Result<(), ExportError> {
    let len = u32::try_from(len).map_err(|_| {
        ExportError::Unfit(
            "the heap is too large for HPROF: a record has more \
        than 4 GiB"
                .into(),
        )
    })?;
    out.write_all(&[tag, 0, 0, 0, 0])?;
    Ok(out.write_all(&len.to_be_bytes())?)
}

/// Writes a segment of the heap, unless it is empty.
pub(super) fn segment(out: &mut dyn Write, piece: &[u8]) -> Result<(), ExportError> {
    if piece.is_empty() { Ok(()) } else { record(out, tag::SEGMENT, piece) }
}

/// Names with their ids.
#[derive(Default)]
pub(super) struct Names {
    ids: HashMap<String, u64>,
    all: Vec<String>,
}

impl Names {
    /// Returns the id of a name. 0 for an empty name.
    pub(super) fn id(&mut self, name: &str) -> u64 {
        if name.is_empty() {
            return 0;
        }
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        self.all.push(name.to_owned());
        let id = self.all.len() as u64;
        self.ids.insert(name.to_owned(), id);
        id
    }

    /// Writes a record for each name.
    pub(super) fn write(&self, out: &mut dyn Write) -> Result<(), ExportError> {
        let mut body = Vec::new();
        for (id, name) in (1_u64..).zip(&self.all) {
            body.clear();
            body.extend(id.to_be_bytes());
            body.extend(name.as_bytes());
            record(out, tag::STRING, &body)?;
        }
        Ok(())
    }
}

/// Appends a class with its static fields and the fields of its instances.
pub(super) fn put_class(out: &mut Vec<u8>, class: &Class, names: &mut Names) {
    out.push(sub::CLASS);
    out.extend(class.id.to_be_bytes());
    out.extend(NO_TRACE.to_be_bytes());
    // Superclass, loader, signers, protection domain, and two reserved ids.
    for id in [class.superclass, class.loader, 0, 0, 0, 0] {
        out.extend(id.to_be_bytes());
    }
    out.extend(class.size.to_be_bytes());
    // No constant pool.
    out.extend(0_u16.to_be_bytes());
    let statics = class.statics.get(..usize::from(u16::MAX)).unwrap_or(&class.statics);
    out.extend((statics.len() as u16).to_be_bytes());
    for Static { name, kind, value } in statics {
        out.extend(names.id(name).to_be_bytes());
        out.push(*kind as u8);
        let bytes = value.to_be_bytes();
        out.extend(bytes.iter().skip(bytes.len() - kind.size() as usize));
    }
    let fields = class.fields.get(..usize::from(u16::MAX)).unwrap_or(&class.fields);
    out.extend((fields.len() as u16).to_be_bytes());
    for field in fields {
        out.extend(names.id(&field.name).to_be_bytes());
        out.push(field.kind as u8);
    }
}

/// Appends a thread's object as a root, with its trace.
pub(super) fn put_thread(out: &mut Vec<u8>, object: Addr, serial: u32) {
    out.push(sub::THREAD_OBJECT);
    out.extend(object.get().to_be_bytes());
    out.extend(serial.to_be_bytes());
    out.extend(trace_of(serial).to_be_bytes());
}

/// Appends a class that is never unloaded, as a root.
pub(super) fn put_sticky(out: &mut Vec<u8>, class: u64) {
    out.push(sub::STICKY_CLASS);
    out.extend(class.to_be_bytes());
}

/// Appends a root. `place` is the serial number of its thread, and the number of its frame.
pub(super) fn put_root(out: &mut Vec<u8>, root: &Root, place: Option<(u32, i32)>) {
    let id = root.object.get().to_be_bytes();
    let mut put = |tag: u8| {
        out.push(tag);
        out.extend(id);
    };
    match (root.kind, place) {
        (RootKind::Stack | RootKind::StackWord, Some((serial, frame))) => {
            put(sub::JAVA_FRAME);
            out.extend(serial.to_be_bytes());
            out.extend(frame.to_be_bytes());
        }
        (RootKind::Of(_, "JNI local"), Some((serial, _))) => {
            put(sub::JNI_LOCAL);
            out.extend(serial.to_be_bytes());
            out.extend(NO_FRAME.to_be_bytes());
        }
        (RootKind::Of(_, "sticky class"), _) => put(sub::STICKY_CLASS),
        (RootKind::Of(_, name), _) if name == "JNI global" || name.ends_with("Handle") => {
            put(sub::JNI_GLOBAL);
            out.extend(root.address.get().to_be_bytes());
        }
        _ => put(sub::UNKNOWN),
    }
}

/// Returns the trace number of a thread. The first number means no trace.
fn trace_of(serial: u32) -> u32 {
    NO_TRACE + serial
}

/// Appends a record that a class is loaded.
pub(super) fn put_loaded(out: &mut Vec<u8>, serial: u32, id: u64, name: u64) -> Result<(), ExportError> {
    let mut body = Vec::new();
    body.extend(serial.to_be_bytes());
    body.extend(id.to_be_bytes());
    body.extend(NO_TRACE.to_be_bytes());
    body.extend(name.to_be_bytes());
    record(out, tag::LOAD_CLASS, &body)
}

/// Appends a record for each frame, and one for each thread. `serial` returns the serial number of a frame's class.
pub(super) fn put_traces(
    out: &mut Vec<u8>,
    threads: &[Thread],
    serial: &mut dyn FnMut(&Frame) -> u32,
    names: &mut Names,
) -> Result<(), ExportError> {
    let trace = |out: &mut Vec<u8>, number: u32, thread: u32, frames: &[u64]| {
        let mut body = Vec::new();
        [number, thread, frames.len() as u32].iter().for_each(|n| body.extend(n.to_be_bytes()));
        frames.iter().for_each(|id| body.extend(id.to_be_bytes()));
        record(out, tag::TRACE, &body)
    };
    trace(out, NO_TRACE, 0, &[])?;
    let mut next = 1_u64;
    for (number, thread) in (1_u32..).zip(threads) {
        let mut ids = Vec::new();
        for frame in &thread.frames {
            let mut body = Vec::new();
            body.extend(next.to_be_bytes());
            for name in [&frame.method, &frame.signature, &frame.file] {
                body.extend(names.id(name).to_be_bytes());
            }
            body.extend(serial(frame).to_be_bytes());
            body.extend(frame.line.to_be_bytes());
            record(out, tag::FRAME, &body)?;
            ids.push(next);
            next += 1;
        }
        trace(out, trace_of(number), number, &ids)?;
    }
    Ok(())
}

/// Appends the header of an object's sub-record.
pub(super) fn put_object(out: &mut Vec<u8>, tag: u8, id: u64) {
    out.push(tag);
    out.extend(id.to_be_bytes());
    out.extend(NO_TRACE.to_be_bytes());
}
