use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use coremap::analysis::{Condition, Scope};
use coremap::dotnet::Generation;
use coremap::map::Kind;

use crate::cli::package_args::PackageCommand;
use crate::cli::values::{generation, kind, size};

/// Tells where the memory of a process went, from its Linux core dump alone.
#[derive(Parser, Debug)]
#[command(name = "coremap", version = env!("COREMAP_VERSION"), about, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "\
Exit status: 0 done; 1 nothing found, or a --fail-if holds; 2 wrong usage; 3 input unreadable
or not a core; 4 done, but part of the core could not be read or understood (the report says
what).

A core may be plain ELF or packed (.zst .gz .xz .lz4), or - for standard input.
Addresses: 0x7f42d256e000, 7f42d256e000, 00007f42`d256e000, libc.so.6+0x10.")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(ClapArgs, Debug)]
pub(crate) struct Common {
    /// Form of the answer on stdout
    #[arg(long, global = true, value_enum, default_value_t = Format::Table, value_name = "FORM")]
    pub(crate) format: Format,
    /// Short for --format json
    #[arg(long, global = true, conflicts_with = "format")]
    pub(crate) json: bool,
    /// Where to look for the program's own files; used only if proven the same build
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) symbols: Vec<PathBuf>,
    /// Let it take so much memory, as 4GiB; usual: 256MiB and twice the core's size, at most
    /// half of the machine's
    #[arg(long, global = true, value_name = "SIZE", value_parser = size)]
    pub(crate) memory: Option<u64>,
    /// Tell on stderr how things were found (-vv: more)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

impl Common {
    /// The form asked for.
    pub(crate) fn form(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }
}

/// Forms of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// One object; see the contract
    Json,
    /// The main rows
    Csv,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// The process, its system, its modules, and what the dump holds
    Info {
        /// Print the command line and values of environment variables too, not only names
        #[arg(long)]
        show_data: bool,
        #[command(flatten)]
        core: CoreArg,
    },
    /// Where the memory went: sizes by kind, biggest first
    Summary {
        /// Read all pages and count those that are zero
        #[arg(long)]
        zero_fill: bool,
        /// Exit with 1 if this holds, as 'stack.written>1GiB' or 'malloc.size>40%' (repeatable)
        #[arg(long, value_name = "CONDITION", value_parser = of_summary, long_help = SUMMARY_CONDITION)]
        fail_if: Vec<Condition>,
        #[command(flatten)]
        core: CoreArg,
    },
    /// The whole map: every region with its kind, owner and how sure that is
    Regions {
        /// Only this kind (repeatable)
        #[arg(long, value_name = "KIND", value_parser = kind)]
        kind: Vec<Kind>,
        /// Order of the list
        #[arg(long, value_enum, default_value_t = Sort::Address, value_name = "BY")]
        sort: Sort,
        #[command(flatten)]
        core: CoreArg,
    },
    /// The same map in the columns and words of SOS !maddress
    Maddress {
        /// Only the sums by kind
        #[arg(long)]
        summary: bool,
        #[command(flatten)]
        core: CoreArg,
    },
    /// Thread stacks: reserved, guard, in use, high-water mark
    Stacks {
        /// Read the stacks' pages: what was ever written, what is zero
        #[arg(long)]
        zero_fill: bool,
        #[command(flatten)]
        core: CoreArg,
    },
    /// What every thread is doing: native and managed frames in one stack
    Threads {
        #[command(flatten)]
        args: ThreadsArgs,
        #[command(flatten)]
        core: CoreArg,
    },
    /// What async methods wait for, and who waits for them: SOS dumpasync, equal chains merged
    Async {
        /// Every chain, not only those that differ
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        core: CoreArg,
    },
    /// The managed heap: segments or regions by heap and generation
    Heap {
        /// The loader heaps too: blocks, committed and wasted bytes
        #[arg(long)]
        loader: bool,
        #[command(flatten)]
        core: CoreArg,
    },
    /// The objects on the managed heap: count and size by type, biggest first
    Heapstat {
        #[command(flatten)]
        args: HeapStatArgs,
        #[command(flatten)]
        core: CoreArg,
    },
    /// The objects of types, with address and size
    Objects {
        /// Types whose name matches this regular expression
        #[arg(long, value_name = "RE")]
        r#type: String,
        #[command(flatten)]
        core: CoreArg,
    },
    /// One object: its fields and their values, text, elements, statics of its type
    Object {
        /// The object, or an address within it
        address: String,
        #[command(flatten)]
        core: CoreArg,
    },
    /// Why objects are alive: shortest paths from roots to one, or to all of a type, with field names
    // One list, since clap would take what stands before an option for the core.
    #[command(
        override_usage = "coremap gcroot [OPTIONS] <ADDR> <CORE>\n       coremap gcroot [OPTIONS] --type <RE> <CORE>"
    )]
    Gcroot {
        /// The object, or an address within it; and last the core file, plain or packed, - for standard input
        #[arg(required = true, num_args = 1..=2, value_name = "ADDR CORE")]
        words: Vec<String>,
        /// Paths from all roots that lead to the object, however many
        #[arg(long, conflicts_with = "type")]
        all: bool,
        /// All objects of the types whose name matches this regular expression, grouped by the way they are held
        #[arg(long, value_name = "RE")]
        r#type: Option<String>,
        /// With --type: list at most this many ways, those that keep most
        #[arg(long, value_name = "N", default_value_t = 20)]
        top: usize,
    },
    /// What would be freed with what: types and objects by the bytes that only they keep
    Retained {
        #[command(flatten)]
        args: RetainedArgs,
        #[command(flatten)]
        core: CoreArg,
    },
    /// The GC handles, and the objects they lead to
    Handles {
        #[command(flatten)]
        core: CoreArg,
    },
    /// Objects with finalizers: registered, and ready to be finalized
    Finalizers {
        #[command(flatten)]
        core: CoreArg,
    },
    /// Contended locks: who owns them, who waits
    Syncblocks {
        #[command(flatten)]
        core: CoreArg,
    },
    /// The exception objects on the managed heap
    Exceptions {
        #[command(flatten)]
        core: CoreArg,
    },
    /// Native memory: glibc's malloc by arena, size and blocks that are alike
    Malloc {
        #[command(flatten)]
        args: MallocArgs,
        #[command(flatten)]
        core: CoreArg,
    },
    /// Find text (UTF-8 and UTF-16 at once), a regular expression or bytes
    Search {
        #[command(flatten)]
        args: SearchArgs,
        #[command(flatten)]
        core: CoreArg,
    },
    /// Everything known of one address, with the evidence
    Whatis {
        /// The address
        address: String,
        /// Show this many bytes from there on
        #[arg(long, value_name = "N", default_value_t = 0)]
        bytes: usize,
        #[command(flatten)]
        core: CoreArg,
    },
    /// Who points at an address: registers, stacks, objects, all other memory
    Refs {
        #[command(flatten)]
        args: RefsArgs,
        #[command(flatten)]
        core: CoreArg,
    },
    /// Used blocks of malloc that no pointer reaches, alike ones together
    Leaks {
        /// List every leaked block
        #[arg(long)]
        blocks: bool,
        /// List at most this many clusters, or blocks
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
        #[command(flatten)]
        core: CoreArg,
    },
    /// Native memory that managed objects point at: blocks and bytes by type and field
    Holders {
        /// List at most this many rows
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
        #[command(flatten)]
        core: CoreArg,
    },
    /// Memory that nothing claims: equal blocks, what fills them, who owns them
    Anon {
        #[command(flatten)]
        core: CoreArg,
    },
    /// The method that each code address is of, as SOS ip2md tells it
    // One list, since clap would take what stands before an option for the core.
    #[command(override_usage = "coremap ip2method [OPTIONS] <ADDR>... <CORE>")]
    Ip2method {
        /// Addresses, - for those on standard input; and last the core file, plain or packed, - for standard input
        #[arg(required = true, value_name = "ADDR... CORE")]
        words: Vec<String>,
        /// One line an address
        #[arg(long)]
        short: bool,
    },
    /// Give names to the addresses in the text of perf, heaptrack, memleak or gdb
    Symbolicate {
        /// Print folded stacks, for flame graphs
        #[arg(long)]
        fold: bool,
        /// The text; - for standard input
        #[arg(value_name = "FILE")]
        text: PathBuf,
        #[command(flatten)]
        core: CoreArg,
    },
    /// The map of jitted code that perf reads as /tmp/perf-PID.map
    Perfmap {
        #[command(flatten)]
        core: CoreArg,
    },
    /// Two cores side by side: counts and sizes by kind, types, blocks of malloc
    Diff {
        /// Exit with 1 if this holds, as 'gcheap.delta>20%' or 'threads.new>200' (repeatable)
        #[arg(long, value_name = "CONDITION", value_parser = of_diff, long_help = DIFF_CONDITION)]
        fail_if: Vec<Condition>,
        /// The older core, or what summary --json said of it
        old: PathBuf,
        /// The newer core
        new: PathBuf,
    },
    /// Write a smaller core that still answers some commands
    Shrink {
        /// File to write; must not exist
        #[arg(short, long, value_name = "OUT")]
        out: PathBuf,
        /// Commands it must answer as the whole core does
        #[arg(
            long = "for",
            value_enum,
            value_delimiter = ',',
            value_name = "COMMANDS",
            default_value = "info,summary,regions,stacks,heap"
        )]
        purpose: Vec<Purpose>,
        /// For ip2method: keep what tells these addresses, not all methods (repeatable)
        #[arg(long, value_name = "ADDR")]
        address: Vec<String>,
        #[command(flatten)]
        core: CoreArg,
    },
    /// Check the invariants: every byte has one label, and the sums hold
    Check {
        #[command(flatten)]
        core: CoreArg,
    },
    #[command(flatten)]
    Package(PackageCommand),
}

/// What to search for, and where.
#[derive(ClapArgs, Debug)]
pub(crate) struct SearchArgs {
    /// What to look for
    pub(crate) pattern: String,
    /// Upper and lower case alike
    #[arg(short = 'i', long)]
    pub(crate) ignore_case: bool,
    /// PATTERN is a regular expression
    #[arg(long, conflicts_with = "hex")]
    pub(crate) regex: bool,
    /// PATTERN is bytes in hexadecimal; ?? is any byte
    #[arg(long)]
    pub(crate) hex: bool,
    /// Encodings of text to look for
    #[arg(long, value_enum, default_value_t = Encoding::Both, value_name = "ENC")]
    pub(crate) encoding: Encoding,
    /// Only in regions of this kind (repeatable)
    #[arg(long, value_name = "KIND", value_parser = kind)]
    pub(crate) kind: Vec<Kind>,
    /// List at most this many hits (all are counted)
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// Show the text around each hit
    #[arg(long)]
    pub(crate) context: bool,
}

/// What is pointed at, and from where.
#[derive(ClapArgs, Debug)]
pub(crate) struct RefsArgs {
    /// The address; the whole object or block that it is in, where it is in one
    pub(crate) address: String,
    /// Only pointers to this very address
    #[arg(long, conflicts_with_all = ["length", "region"])]
    pub(crate) exact: bool,
    /// Pointers into this many bytes from the address on
    #[arg(long, value_name = "N", conflicts_with = "region")]
    pub(crate) length: Option<u64>,
    /// Pointers into the whole region that holds the address
    #[arg(long)]
    pub(crate) region: bool,
    /// Only pointers in regions of this kind (repeatable)
    #[arg(long, value_name = "KIND", value_parser = kind)]
    pub(crate) kind: Vec<Kind>,
    /// List at most this many (all are counted)
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) limit: usize,
}

/// Which threads and frames to show, and how.
#[derive(ClapArgs, Debug)]
pub(crate) struct ThreadsArgs {
    /// Only managed frames and the runtime's own marks, as SOS clrstack shows them
    #[arg(long, conflicts_with = "native")]
    pub(crate) managed: bool,
    /// Only native frames
    #[arg(long)]
    pub(crate) native: bool,
    /// Only this thread
    #[arg(long, value_name = "TID")]
    pub(crate) tid: Option<u32>,
    /// Merge equal stacks, those of most threads first
    #[arg(long)]
    pub(crate) group: bool,
    /// Print folded stacks, for flame graphs
    #[arg(long, conflicts_with_all = ["format", "json"])]
    pub(crate) fold: bool,
}

/// Which objects to count.
#[derive(ClapArgs, Debug)]
pub(crate) struct HeapStatArgs {
    /// Only types whose name matches this regular expression
    #[arg(long, value_name = "RE")]
    pub(crate) r#type: Option<String>,
    /// Only this generation: gen0, gen1, gen2, loh, poh or frozen
    #[arg(long, value_name = "G", value_parser = generation)]
    pub(crate) generation: Option<Generation>,
    /// Only this GC heap (server GC has several)
    #[arg(long, value_name = "N")]
    pub(crate) heap: Option<u32>,
    /// Only objects of at least this many bytes
    #[arg(long, value_name = "N")]
    pub(crate) min: Option<u64>,
    /// Only objects of at most this many bytes
    #[arg(long, value_name = "N")]
    pub(crate) max: Option<u64>,
    /// Strings of equal content too: how many, how much they waste, and their text
    #[arg(long)]
    pub(crate) strings: bool,
}

/// What to list of malloc.
#[derive(ClapArgs, Debug)]
pub(crate) struct MallocArgs {
    /// Every chunk: what malloc returned, size, used or free, where it is kept
    #[arg(long)]
    pub(crate) chunks: bool,
    /// List at most this many clusters, or chunks (all are counted)
    #[arg(long, visible_alias = "top", value_name = "N")]
    pub(crate) limit: Option<usize>,
}

/// Whose retained bytes to tell.
#[derive(ClapArgs, Debug)]
pub(crate) struct RetainedArgs {
    /// Only types whose name matches this regular expression, and their objects
    #[arg(long, value_name = "RE")]
    pub(crate) r#type: Option<String>,
    /// Only what this object keeps (or the one that the address is within): where its bytes go
    #[arg(long, value_name = "ADDR")]
    pub(crate) object: Option<String>,
    /// List at most this many types, and as many objects
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) top: usize,
}

/// The core to read.
#[derive(ClapArgs, Debug)]
pub(crate) struct CoreArg {
    /// Core file, plain or packed; - for standard input
    #[arg(value_name = "CORE")]
    pub(crate) core: PathBuf,
}

/// Commands that a shrunk core can be made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Purpose {
    /// info
    Info,
    /// summary, without --zero-fill
    Summary,
    /// regions and maddress
    Regions,
    /// stacks, without --zero-fill and what the threads do (that takes threads)
    Stacks,
    /// heap
    Heap,
    /// check
    Check,
    /// ip2method, symbolicate and perfmap
    Ip2method,
    /// threads
    Threads,
    /// async
    Async,
    /// object, of each --address
    Object,
}

/// Orders of the region list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// By address
    Address,
    /// Biggest first
    Size,
}

/// Encodings of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Encoding {
    /// UTF-8 and UTF-16LE
    Both,
    /// UTF-8
    Utf8,
    /// UTF-16, little-endian
    Utf16,
}

const SUMMARY_CONDITION: &str = "\
Exit with 1 if this holds, and say so on stderr and in the JSON. Repeatable.

KIND.COLUMN, one of > >= < <= ==, and a limit: 'stack.written>1GiB', 'total.in_core>=2GB',
'malloc.size>40%', 'threads.count>200'.
KIND: a kind in any case of letters, total, or threads.
COLUMN: size, in_core, count, largest; with --zero-fill written and zero; of threads count.
Limit: a number, a size (KiB MiB GiB TiB, KB MB GB TB), or a percentage of the total in the
same column (of the total size for largest).";

const DIFF_CONDITION: &str = "\
Exit with 1 if this holds, and say so on stderr and in the JSON. Repeatable.

KIND.COLUMN, one of > >= < <= ==, and a limit: 'gcheap.delta>20%', 'total.delta>100MiB',
'threads.new>200'.
KIND: a kind in any case of letters, total, or threads.
COLUMN: old, new, delta; old_count, new_count, delta_count; old_in_core, new_in_core,
delta_in_core; of threads old, new, delta.
Limit: a number, a size (KiB MiB GiB TiB, KB MB GB TB), or a percentage of the old figure.";

fn of_summary(text: &str) -> Result<Condition, String> {
    Condition::parse(text, Scope::Summary)
}

fn of_diff(text: &str) -> Result<Condition, String> {
    Condition::parse(text, Scope::Diff)
}
