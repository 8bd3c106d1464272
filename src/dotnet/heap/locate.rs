//! Which objects addresses are in: one walk for many of them.

use crate::addr::Addr;
use crate::dotnet::heap::{Heap, Losses, Object, Part};

impl Heap<'_> {
    /// Visit `items` with the object that each is in, `Free` ones too; `at` tells an
    /// item's address, and they are sorted by it. What lies between objects, or outside
    /// the heap, is in none. Only parts that hold an item are walked.
    pub fn locate<T>(&self, items: &mut [T], at: impl Fn(&T) -> Addr, mut visit: impl FnMut(&mut T, &Part, &Object)) {
        let mut walker = self.walker();
        for part in self.parts() {
            let from = items.partition_point(|item| at(item) < part.range.start);
            let to = items.partition_point(|item| at(item) < part.range.end);
            let mut here = items.get_mut(from..to).unwrap_or_default().iter_mut().peekable();
            if here.peek().is_none() {
                continue;
            }
            walker.walk(part, &mut Losses::default(), |object| {
                let end = object.addr.saturating_add(object.size.max(1));
                while let Some(item) = here.next_if(|item| at(item) < end) {
                    if at(item) >= object.addr {
                        visit(item, part, object);
                    }
                }
            });
        }
    }
}
