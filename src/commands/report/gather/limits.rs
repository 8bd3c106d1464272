//! Limits of the answers in a page. They keep a page to a few megabytes. If it is larger all the same, because of long
//! names, it is made again with half of each limit.

/// Maximum number of rows of each list in a page.
#[derive(Clone, Copy, Debug)]
pub(in crate::commands::report) struct Limits {
    /// Types of managed heaps, by own and by retained bytes.
    pub(in crate::commands::report) types: usize,
    /// Objects of the dominator tree.
    pub(in crate::commands::report) dominators: usize,
    /// Children of one object of that tree.
    pub(in crate::commands::report) children: usize,
    /// Minimum retained bytes of an object of that tree, in thousandths of all live objects.
    pub(in crate::commands::report) least_thousandths: u64,
    /// Regions in the data, as listed by `regions`.
    pub(in crate::commands::report) regions: usize,
    /// Regions in the strip. With more regions, adjacent ones of one kind are drawn as one.
    pub(in crate::commands::report) strip: usize,
    /// Regions in the table.
    pub(in crate::commands::report) region_rows: usize,
    /// Threads, in the data and in the table.
    pub(in crate::commands::report) threads: usize,
    /// Merged stacks in the data.
    pub(in crate::commands::report) groups: usize,
    /// Frames of all merged stacks together.
    pub(in crate::commands::report) frames: usize,
    /// Nodes of a flame graph.
    pub(in crate::commands::report) flames: usize,
    pub(in crate::commands::report) modules: usize,
    /// Types that own native memory.
    pub(in crate::commands::report) holders: usize,
    /// Rows of every other list.
    pub(in crate::commands::report) rows: usize,
    /// Children of a box of the treemap.
    pub(in crate::commands::report) boxes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            types: 400,
            dominators: 3000,
            children: 20,
            least_thousandths: 2,
            regions: 4000,
            strip: 100_000,
            region_rows: 300,
            threads: 1000,
            groups: 300,
            frames: 6000,
            flames: 3000,
            modules: 500,
            holders: 100,
            rows: 200,
            boxes: 40,
        }
    }
}

impl Limits {
    pub(in crate::commands::report) fn halved(self) -> Limits {
        let half = |n: usize| (n / 2).max(1);
        Limits {
            types: half(self.types),
            dominators: half(self.dominators),
            children: self.children,
            least_thousandths: self.least_thousandths,
            regions: half(self.regions),
            strip: half(self.strip),
            region_rows: half(self.region_rows),
            threads: half(self.threads),
            groups: half(self.groups),
            frames: half(self.frames),
            flames: half(self.flames),
            modules: half(self.modules),
            holders: half(self.holders),
            rows: half(self.rows),
            boxes: half(self.boxes),
        }
    }
}
