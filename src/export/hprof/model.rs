//! What a heap dump tells beside objects: classes with their fields, and threads with their frames.

use std::collections::HashMap;

use crate::addr::Addr;

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
pub(super) const CHARACTERS: u64 = 8;

/// Ids of classes that are not the runtime's begin here: below all memory.
pub(super) const MADE_UP: u64 = 0x100;

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
}
