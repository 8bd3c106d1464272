//! Classes with their fields, and threads with their frames: what a heap dump (`.hprof`) has beside objects.
//!
//! The format is Java's. A runtime that implements [`Fields`] can be exported to it.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::facts::{FrameRow, ThreadRow};
use crate::runtimes::api::Root;

/// What a value is, by the number that the format has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A reference.
    Object = 2,
    /// One byte, 0 or 1.
    Boolean = 4,
    /// A unit of UTF-16.
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

impl Type {
    /// Bytes in the file; in memory the same but of references.
    pub fn size(self) -> u64 {
        match self {
            Type::Boolean | Type::Byte => 1,
            Type::Char | Type::Short => 2,
            Type::Float | Type::Int => 4,
            Type::Object | Type::Double | Type::Long => 8,
        }
    }
}

/// A field of instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: Type,
    /// From the start of the instance, in bytes.
    pub offset: u64,
}

/// A static field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Static {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: Type,
    /// The bits of its value; of a reference, the object's address.
    pub value: u64,
}

/// How objects of a class look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// Fields in the order of the file: its own, then those of the class above it, and so on.
    Instance(Vec<(u64, Type)>),
    /// References behind so many bytes.
    Objects(u64),
    /// Values behind so many bytes.
    Values(u64, Type),
    /// Structs, or whatever else, behind so many bytes. The format has no such arrays: one of references stands for them, of the same size,
    /// with the references where they are and none elsewhere.
    Structs(u64),
    /// A text: where it has its length, in characters, and where these are. The format has characters in an array of their own, which
    /// the object refers to: it gets an id that no object has.
    Text(u64, u64),
}

/// From a text to the id of its characters: within the object, where no other begins.
pub(crate) const CHARACTERS: u64 = 8;

/// Ids of classes that are not the runtime's begin here: below all memory.
pub(crate) const MADE_UP: u64 = 0x100;

/// A class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// By which the file knows it: the address of its `java.lang.Class`, or where the runtime has it.
    pub id: u64,
    /// Where the runtime has it, as types of the heap tell.
    pub address: Addr,
    /// Its name, as class files have it: `java/lang/String`, `[I`.
    pub name: String,
    /// The id of the class above it; 0 of none.
    pub above: u64,
    /// The object that loaded it; 0 of the bootstrap loader.
    pub loader: u64,
    /// Bytes of an instance; 0 of an array.
    pub size: u32,
    /// Static fields.
    pub statics: Vec<Static>,
    /// Fields that it declares itself.
    pub fields: Vec<Field>,
    /// Its objects.
    pub form: Form,
    /// Whether it is to be a root for its static fields, beside the runtime's own roots.
    pub is_root: bool,
}

/// All classes of a heap.
#[derive(Clone, Debug, Default)]
pub struct Classes {
    /// In the order of the file.
    pub all: Vec<Class>,
    /// Place in `all`, by where the runtime has it. What has one class in the runtime may have another in the file.
    pub places: HashMap<Addr, u32>,
}

impl Classes {
    /// Classes of which each stands for itself.
    pub fn of(all: Vec<Class>) -> Classes {
        let places = (0..).zip(&all).map(|(place, class)| (class.address, place)).collect();
        Classes { all, places }
    }
}

/// How objects refer to each other in memory.
pub struct References<'r> {
    /// Bytes of a reference.
    pub size: u64,
    /// Bytes from an array's start to its length, which has 32 bits.
    pub length_at: u64,
    /// The address that a reference stands for.
    pub decode: Box<dyn Fn(u64) -> u64 + Sync + 'r>,
}

/// The classes and threads of a runtime, as a heap dump has them.
pub trait Fields: Sync {
    /// Whether the format is another runtime's, so that classes are expressed in terms of Java.
    fn is_foreign(&self) -> bool {
        true
    }

    /// How objects refer to each other.
    fn references(&self) -> References<'_>;

    /// The classes of the heap, with those at `present` among them: the types that objects have.
    fn classes(&self, present: &[Addr]) -> Classes;

    /// The threads of the process, in the order of `rows`, which have their frames.
    fn threads(&self, rows: &[ThreadRow], roots: &[Root]) -> Vec<Thread>;

    /// Roots for what the format can't express otherwise.
    fn more_roots(&self) -> Vec<Root> {
        Vec::new()
    }
}

/// Lines of a frame that has none, and of one of native code.
pub const NO_LINE: i32 = -1;
/// The method is native.
pub const NATIVE_LINE: i32 = -3;

/// A frame of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The method's name alone.
    pub method: String,
    /// What it takes and gives, as class files have it (`(J)V`), or as the runtime's own tools write it.
    pub signature: String,
    /// Where the runtime has its class.
    pub class: Option<Addr>,
    /// The name of its class, where that is none of the heap's.
    pub class_name: String,
    /// Source file.
    pub file: String,
    /// Line, [`NO_LINE`] or [`NATIVE_LINE`].
    pub line: i32,
    /// Its stack pointer.
    pub sp: Addr,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// The system's number.
    pub tid: Option<u32>,
    /// The object that stands for it.
    pub object: Option<Addr>,
    /// Its frames, the innermost first.
    pub frames: Vec<Frame>,
}

impl Thread {
    /// The frame in which a place of its stack is: of methods that were inlined into one another, the innermost. `None` below all of them.
    pub fn frame_at(&self, place: Addr) -> Option<usize> {
        let sp = self.frames.iter().map(|frame| frame.sp).take_while(|sp| *sp <= place).last()?;
        self.frames.iter().position(|frame| frame.sp == sp)
    }
}

impl Frame {
    /// A frame of managed code; `None` if it is of something else.
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

/// The class, the name and the arguments of a method. Names of generic types have points and brackets within brackets.
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
            // A constructor has a point of its own: `Type..ctor`.
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
