//! Classes, fields and thread frames in the terms of a Java heap dump (`.hprof`).
//!
//! A runtime that implements [`Fields`] can be exported to that format. The writer is in `export/hprof`.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::facts::{FrameRow, ThreadRow};
use crate::runtimes::api::Root;

/// Type of a value, with its number in the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// A reference.
    Object = 2,
    /// One byte, 0 or 1.
    Boolean = 4,
    /// A UTF-16 unit.
    Char = 5,
    /// 4 bytes.
    Float = 6,
    /// 8 bytes.
    Double = 7,
    /// One byte.
    Byte = 8,
    /// 2 bytes.
    Short = 9,
    /// 4 bytes.
    Int = 10,
    /// 8 bytes.
    Long = 11,
}

impl ValueType {
    /// Size in bytes in the file. It is the same in memory, except for references.
    pub fn size(self) -> u64 {
        match self {
            ValueType::Boolean | ValueType::Byte => 1,
            ValueType::Char | ValueType::Short => 2,
            ValueType::Float | ValueType::Int => 4,
            ValueType::Object | ValueType::Double | ValueType::Long => 8,
        }
    }
}

/// An instance field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name of the field.
    pub name: String,
    /// Type of the field's value.
    pub kind: ValueType,
    /// Offset in bytes from the start of the instance.
    pub offset: u64,
}

/// A static field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Static {
    /// Name of the field.
    pub name: String,
    /// Type of the field's value.
    pub kind: ValueType,
    /// Bits of the value. For a reference, the object's address.
    pub value: u64,
}

/// Layout of the objects of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectLayout {
    /// An instance with these fields: offset and type. The order is that of the file: the class's own fields first,
    /// then those of its superclass, and so on.
    Instance(Vec<(u64, ValueType)>),
    /// An array of references that starts at this offset, in bytes.
    Objects(u64),
    /// An array of values of this type that starts at this offset, in bytes.
    Values(u64, ValueType),
    /// An array of structs, or of anything else, that starts at this offset. The format has no such arrays. The file
    /// gets an array of references of the same size, with the references at their positions and null elsewhere.
    Structs(u64),
    /// A string: offsets of its length (in characters) and of the characters. The format stores characters in an array
    /// of their own that the string references. That array gets an ID that no object has.
    Text(u64, u64),
}

/// Distance from a string's address to the ID of its characters. The ID is inside the object, where no other object
/// begins.
pub(crate) const CHARACTERS_ID_OFFSET: u64 = 8;

/// First ID for classes that the runtime does not have. It is below all memory.
pub(crate) const FIRST_SYNTHETIC_ID: u64 = 0x100;

/// A class of the heap dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// ID in the file: the address of the class's `java.lang.Class`, or of its structure in the runtime.
    pub id: u64,
    /// Address of the class's structure in the runtime, as
    /// [`TypeInfo::address`](crate::runtimes::api::TypeInfo::address).
    pub address: Addr,
    /// Name in the form of class files: `java/lang/String`, `[I`.
    pub name: String,
    /// ID of the superclass. 0 if there is none.
    pub superclass: u64,
    /// Address of the class loader object. 0 for the bootstrap loader.
    pub loader: u64,
    /// Size of an instance in bytes. 0 for an array.
    pub size: u32,
    /// Static fields.
    pub statics: Vec<Static>,
    /// Fields that the class itself declares.
    pub fields: Vec<Field>,
    /// Layout of its objects.
    pub layout: ObjectLayout,
    /// Whether the file gets a root for its static fields, in addition to the runtime's own roots.
    pub is_root: bool,
}

/// All classes of a heap.
#[derive(Clone, Debug, Default)]
pub struct Classes {
    /// The classes, in the order of the file.
    pub all: Vec<Class>,
    /// Index into `all` by the address in the runtime. Several of the runtime's types may share a class in the file.
    pub by_address: HashMap<Addr, u32>,
}

impl Classes {
    /// Creates the list for classes that each have one address in the runtime.
    pub fn new(all: Vec<Class>) -> Classes {
        let by_address = (0..).zip(&all).map(|(index, class)| (class.address, index)).collect();
        Classes { all, by_address }
    }
}

/// Encoding of references and array lengths in memory.
pub struct References<'r> {
    /// Size of a reference in bytes.
    pub size: u64,
    /// Offset of an array's 32-bit length, in bytes.
    pub length_at: u64,
    /// Converts a stored reference to an address.
    pub decode: Box<dyn Fn(u64) -> u64 + Sync + 'r>,
}

/// Classes and threads of a runtime, as a heap dump has them.
pub trait Fields: Sync {
    /// Whether the format belongs to another runtime, so that classes are expressed in Java's terms.
    fn is_foreign(&self) -> bool {
        true
    }

    /// Encoding of references in memory.
    fn references(&self) -> References<'_>;

    /// All classes of the heap, including the types at `present`, which objects have.
    fn classes(&self, present: &[Addr]) -> Classes;

    /// Threads of the process, in the order of `rows`, which supply the frames.
    fn threads(&self, rows: &[ThreadRow], roots: &[Root]) -> Vec<Thread>;

    /// Roots for references that the format cannot express otherwise.
    fn more_roots(&self) -> Vec<Root> {
        Vec::new()
    }
}

/// Line number of a frame without a known line.
pub const NO_LINE: i32 = -1;
/// Line number of a native method's frame.
pub const NATIVE_LINE: i32 = -3;

/// A frame of a thread, as the format has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Name of the method, without class and arguments.
    pub method: String,
    /// Signature in the form of class files (`(J)V`), or as the runtime's own tools write it.
    pub signature: String,
    /// Address of the method's class in the runtime.
    pub class: Option<Addr>,
    /// Name of the class, if the class is not in the heap.
    pub class_name: String,
    /// Source file.
    pub file: String,
    /// Line number, [`NO_LINE`] or [`NATIVE_LINE`].
    pub line: i32,
    /// Stack pointer.
    pub sp: Addr,
}

/// A thread, as the format has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// System thread ID.
    pub tid: Option<u32>,
    /// The object that represents the thread.
    pub object: Option<Addr>,
    /// Frames, innermost first.
    pub frames: Vec<Frame>,
}

impl Thread {
    /// Index of the frame that contains the stack address `place`. For inlined methods, the innermost. `None` if
    /// `place` is below all frames.
    pub fn frame_at(&self, place: Addr) -> Option<usize> {
        let sp = self.frames.iter().map(|frame| frame.sp).take_while(|sp| *sp <= place).last()?;
        self.frames.iter().position(|frame| frame.sp == sp)
    }
}

impl Frame {
    /// Converts the row of a managed frame. `None` for any other frame.
    pub fn of(row: &FrameRow) -> Option<Frame> {
        let whole = row.method.as_ref().filter(|_| row.runtime.is_some())?.to_string();
        let (class, method, arguments) = parts(&whole);
        Some(Frame {
            method: method.to_owned(),
            signature: arguments.to_owned(),
            class: None,
            class_name: class.to_owned(),
            file: row.file.as_ref().map(ToString::to_string).unwrap_or_default(),
            line: row.line.and_then(|line| i32::try_from(line).ok()).unwrap_or(NO_LINE),
            sp: row.sp,
        })
    }
}

/// Splits a method's full name into class, name and arguments. Generic type names contain dots and brackets inside
/// brackets.
fn parts(whole: &str) -> (&str, &str, &str) {
    let mut depth = 0_u32;
    let (mut point, mut end) = (None, whole.len());
    for (at, c) in whole.char_indices() {
        match c {
            '(' if depth == 0 && at > 0 => {
                end = at;
                break;
            }
            '[' | '<' | '(' => depth += 1,
            ']' | '>' | ')' => depth = depth.saturating_sub(1),
            // A constructor's name starts with a dot: `Type..ctor`.
            '.' if depth == 0 && (at == 0 || point != Some(at - 1)) => point = Some(at),
            _ => {}
        }
    }
    let (name, arguments) = whole.split_at_checked(end).unwrap_or((whole, ""));
    let split = point.and_then(|at| Some((name.get(..at)?, name.get(at + 1..)?)));
    let (class, method) = split.unwrap_or(("", name));
    (class, method, arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_of_the_stack_is_in_the_innermost_frame_there() {
        let frame = |sp| Frame { sp: Addr::new(sp), ..Frame::default() };
        let thread = Thread { frames: [0x100, 0x140, 0x140, 0x200].map(frame).to_vec(), ..Thread::default() };
        let found = [0xf8, 0x100, 0x138, 0x148, 0x1f8, 0x900].map(|place| thread.frame_at(Addr::new(place)));
        assert_eq!(found, [None, Some(0), Some(0), Some(1), Some(1), Some(3)]);
    }

    #[test]
    fn methods_have_a_class_a_name_and_arguments() {
        assert_eq!(parts("java.lang.Thread.sleep(long)"), ("java.lang.Thread", "sleep", "(long)"));
        assert_eq!(parts("Lab.Plain..ctor(System.String)"), ("Lab.Plain", ".ctor", "(System.String)"));
        assert_eq!(
            parts("A.List`1[[System.__Canon, System.Private.CoreLib]].Add(System.__Canon)"),
            ("A.List`1[[System.__Canon, System.Private.CoreLib]]", "Add", "(System.__Canon)")
        );
        assert_eq!(parts("A.<>c.<Main>b__0_0()"), ("A.<>c", "<Main>b__0_0", "()"));
        assert_eq!(parts("DynamicClass.IL_STUB_PInvoke"), ("DynamicClass", "IL_STUB_PInvoke", ""));
        assert_eq!(parts("plain"), ("", "plain", ""));
    }
}
