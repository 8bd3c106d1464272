use serde::Serialize;

use crate::addr::Addr;

/// `object`: one object, its fields and their values. What can't be read, or is
/// not known, is `null`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ObjectReport {
    /// Where it begins.
    pub object: Addr,
    /// Its type; `null` where there is no object.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// Its MethodTable.
    pub method_table: Option<Addr>,
    /// Its size.
    pub size: Option<u64>,
    /// Generation that it is in.
    pub generation: Option<&'static str>,
    /// Number of its GC heap.
    pub heap: Option<u32>,
    /// File of the module that defines the type.
    pub module: Option<String>,
    /// Text of a string, number in a box.
    pub value: Option<String>,
    /// Elements of an array.
    pub length: Option<u64>,
    /// The first of them.
    pub elements: Vec<ElementRow>,
    /// Fields, by offset.
    pub fields: Vec<FieldRow>,
    /// Static fields that the type itself declares.
    pub statics: Vec<FieldRow>,
}

/// A field.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FieldRow {
    /// Its name.
    pub name: String,
    /// Its offset: in an object from its start, in a struct from the struct's,
    /// for statics from their base.
    pub offset: u64,
    /// Its type, as declared.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// instance, static, thread static or static in the image.
    pub storage: &'static str,
    /// Where its value is.
    pub address: Option<Addr>,
    /// Its value as text: numbers, `null`, text of strings.
    pub value: Option<String>,
    /// The object that it leads to.
    pub object: Option<Addr>,
    /// That object's type.
    pub object_type: Option<Name>,
    /// Fields of a struct.
    pub fields: Vec<FieldRow>,
}

/// An element of an array.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ElementRow {
    /// Its index, counted over all dimensions.
    pub index: u64,
    /// Its value as text.
    pub value: Option<String>,
    /// The object that it leads to.
    pub object: Option<Addr>,
    /// That object's type.
    pub object_type: Option<Name>,
    /// Fields of a struct.
    pub fields: Vec<FieldRow>,
}

/// `objects`: objects of the types asked for.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ObjectsReport {
    /// By address.
    pub objects: Vec<ListedObject>,
    /// Bytes of those listed.
    pub size: u64,
    /// How many more there are.
    pub more: u64,
}

/// An object in a list.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ListedObject {
    /// Where it begins.
    pub address: Addr,
    /// Its type.
    #[serde(rename = "type")]
    pub name: Name,
    /// Its size.
    pub size: u64,
    /// Generation that it is in.
    pub generation: &'static str,
    /// Number of its GC heap.
    pub heap: u32,
}

/// `finalizers`: objects with finalizers.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FinalizersReport {
    /// In the order of the GC's queue.
    pub objects: Vec<FinalizerRow>,
    /// Their types.
    pub types: Vec<FinalizerTypeRow>,
    /// Objects whose finalizer is not due.
    pub registered: u64,
    /// Objects whose finalizer is due and has not run.
    pub ready: u64,
}

/// An object with a finalizer.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FinalizerRow {
    /// The object.
    pub object: Addr,
    /// Its type.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// Its size.
    pub size: Option<u64>,
    /// registered or ready.
    pub state: &'static str,
    /// Generation it is registered for.
    pub generation: Option<&'static str>,
    /// Number of its GC heap.
    pub heap: u32,
}

/// Objects of one type with finalizers.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FinalizerTypeRow {
    /// The type.
    #[serde(rename = "type")]
    pub name: Name,
    /// registered or ready.
    pub state: &'static str,
    /// How many.
    pub count: u64,
}

/// `syncblocks`: locks that are contended, or were.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SyncBlocksReport {
    /// By index.
    pub blocks: Vec<SyncBlockRow>,
}

/// A sync block.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SyncBlockRow {
    /// Its index.
    pub index: u32,
    /// Where it is.
    pub address: Option<Addr>,
    /// The object.
    pub object: Addr,
    /// Its type.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// Whether its lock is held.
    pub held: bool,
    /// Who holds it.
    pub owner: Option<LockThreadRow>,
    /// How many times.
    pub recursion: u32,
    /// Threads that want the lock.
    pub waiting: u32,
    /// Threads in Monitor.Wait on it.
    pub pulse: Vec<LockThreadRow>,
}

/// A thread with a lock, or that wants one.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct LockThreadRow {
    /// Its Thread.
    pub address: Option<Addr>,
    /// The system's number of it.
    pub tid: Option<u32>,
    /// The number that managed code knows it by.
    pub managed_id: Option<u32>,
}

/// `exceptions`: exception objects on the heap.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ExceptionsReport {
    /// By address.
    pub exceptions: Vec<ExceptionRow>,
    /// How many more there are.
    pub more: u64,
}

/// An exception.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ExceptionRow {
    /// The object.
    pub object: Addr,
    /// Its type.
    #[serde(rename = "type")]
    pub name: Name,
    /// Its message, where it has one of its own.
    pub message: Option<String>,
    /// Its HRESULT.
    pub hresult: Option<String>,
    /// The exception within it.
    pub inner: Option<Addr>,
    /// Whether it has a stack trace, as those do that were thrown.
    pub thrown: Option<bool>,
    /// Generation that it is in.
    pub generation: &'static str,
}

/// A name that many rows have, kept once: one name may have 16 KiB.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(std::sync::Arc<str>);

impl From<String> for Name {
    fn from(name: String) -> Name {
        Name(name.into())
    }
}

impl std::ops::Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Serialize for Name {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Name {
    /// As it stands in a table for people: its beginning, where it is long.
    pub fn shown(&self) -> String {
        match self.0.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}…", self.0.get(..end).unwrap_or_default()),
            None => self.0.to_string(),
        }
    }
}

/// Characters of a name in a table of many rows.
const SHOWN: usize = 500;
