//! Launches: from a grid to instructions.

mod access;
mod atomic;
mod bits;
mod block;
mod carry;
mod compute;
mod cvt;
mod lanes;
mod numeric;
mod step;
mod tally;
mod warp;

use crate::{
    Checks, Error, Fault, Launch, Loaded, Schedule, Stats, error::FaultKind, memory::Memory,
    module::Function, op::LANES, race::Clock, region::Region, schedule::Order,
};
use tally::Tally;
pub(crate) use warp::BIT;
use warp::Warp;

/// The largest depth of nested calls.
pub(crate) const CALL_DEPTH: usize = 64;

/// The target and parameters of a launch.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    pub(crate) loaded: &'a Loaded,
    pub(crate) launch: Launch,
    pub(crate) params: &'a [u8],
    pub(crate) checks: Checks,
    pub(crate) schedule: Schedule,
    pub(crate) counting: bool,
    pub(crate) grid_id: u64,
}

/// A broken rule and the lane that broke it.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) kind: FaultKind,
    pub(crate) lane: u32,
    /// The line, if it is not that of the current instruction.
    pub(crate) line: Option<u32>,
}

impl Trouble {
    pub(crate) fn new(kind: FaultKind, lane: u32) -> Box<Trouble> {
        Box::new(Trouble { kind, lane, line: None })
    }
}

pub(crate) type Run<T> = Result<T, Box<Trouble>>;

/// The state shared by the threads of a block.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) target: Target<'a>,
    pub(crate) memory: &'a mut Memory,
    pub(crate) entry: &'a Function,
    pub(crate) shared: Region,
    pub(crate) dynamic: Region,
    pub(crate) clock: Clock,
    pub(crate) order: Order,
    /// The lanes in the order in which the atomics of one instruction take effect.
    pub(crate) lanes: [u8; LANES],
    pub(crate) block: [u32; 3],
    pub(crate) threads: u32,
    /// The slot of the last accessed allocation.
    pub(crate) last_slot: u32,
    pub(crate) stats: Stats,
    pub(crate) tally: Option<Box<Tally>>,
    /// The largest requirements of a device function: registers, predicates, parameter and local
    /// bytes.
    pub(crate) max_regs32: usize,
    pub(crate) max_regs64: usize,
    pub(crate) max_preds: usize,
    pub(crate) max_frame: usize,
    pub(crate) max_local: usize,
}

impl Context<'_> {
    /// Returns `%tid` of a thread, from its number in the block.
    pub(crate) fn tid(&self, thread: u32) -> [u32; 3] {
        let [x, y, _] = self.target.launch.block;
        [thread % x, thread / x % y, thread / x / y]
    }
}

/// Runs a kernel to its end.
pub(crate) fn launch(
    memory: &mut Memory,
    interval: &mut u64,
    kernel: &str,
    target: Target<'_>,
) -> Result<Stats, Error> {
    let entry = check(target.loaded, kernel, target.launch, target.params)?;
    let module = &*target.loaded.module;
    let Launch { grid, block, dynamic_shared } = target.launch;
    let functions = || module.functions.iter().filter(|function| !function.is_entry);
    let max = |size: fn(&Function) -> u32| functions().map(size).max().unwrap_or(0) as usize;
    let mut context = Context {
        entry,
        shared: Region::uninitialised(entry.shared_bytes as usize),
        dynamic: Region::uninitialised(dynamic_shared as usize),
        clock: Clock { launch: *interval, ..Clock::default() },
        order: Order::new(target.schedule),
        lanes: std::array::from_fn(|lane| lane as u8),
        block: [0; 3],
        threads: block[0] * block[1] * block[2],
        last_slot: 0,
        stats: Stats::default(),
        tally: target.counting.then(Box::default),
        max_regs32: max(|f| f.regs32),
        max_regs64: max(|f| f.regs64),
        max_preds: max(|f| f.preds),
        max_frame: max(|f| f.frame_bytes).max(entry.frame_bytes as usize),
        max_local: max(|f| f.local_bytes.next_multiple_of(64)),
        memory,
        target,
    };
    let count = grid[0] * grid[1] * grid[2];
    let mut blocks: Vec<u32> = (0..count).collect();
    context.order.arrange(&mut blocks);
    let mut warps: Vec<Warp> = (0..context.threads.div_ceil(LANES as u32))
        .map(|index| Warp::new(&context, index))
        .collect();
    context.clock.now = *interval;
    for block in blocks {
        context.block = [block % grid[0], block / grid[0] % grid[1], block / grid[0] / grid[1]];
        let done = block::run(&mut context, &mut warps);
        *interval = context.clock.now + 1;
        done.map_err(|(thread, trouble, line)| {
            Error::Fault(Box::new(Fault {
                kernel: kernel.to_owned(),
                line: trouble.line.unwrap_or(line),
                block: context.block,
                thread: context.tid(thread),
                kind: trouble.kind,
            }))
        })?;
    }
    let counts = context.tally.map(|tally| tally.finish());
    Ok(Stats { counts, ..context.stats })
}

/// Returns the entry point, after the checks of a launch.
pub(crate) fn check<'a>(
    loaded: &'a Loaded,
    kernel: &str,
    launch: Launch,
    params: &[u8],
) -> Result<&'a Function, Error> {
    let fail = |message: String| Error::Launch { kernel: kernel.to_owned(), message };
    let entry = loaded.module.function(kernel);
    let entry = entry.ok_or_else(|| fail("no such entry point".to_owned()))?;
    let Launch { grid, block, dynamic_shared } = launch;
    check_shape(entry, grid, block).map_err(fail)?;
    if params.len() != entry.param_bytes as usize {
        let (wanted, found) = (entry.param_bytes, params.len());
        return Err(fail(format!("takes {wanted} bytes of parameters, got {found}")));
    }
    if u64::from(dynamic_shared) + u64::from(entry.shared_bytes) > 227 << 10 {
        return Err(fail(format!(
            "{dynamic_shared} bytes of dynamic and {} of static shared memory exceed 227 KiB",
            entry.shared_bytes
        )));
    }
    Ok(entry)
}

fn check_shape(entry: &Function, grid: [u32; 3], block: [u32; 3]) -> Result<(), String> {
    let threads = block.iter().fold(1u32, |product, &dim| product.saturating_mul(dim));
    if threads == 0 || threads > 1024 || block[2] > 64 {
        return Err(format!("a block of {block:?} threads is empty or larger than 1024"));
    }
    if grid.contains(&0) || grid[1] > 65535 || grid[2] > 65535 || grid[0] > i32::MAX as u32 {
        return Err(format!("a grid of {grid:?} blocks is empty or too large"));
    }
    let blocks = grid.iter().fold(1u32, |product, &dim| product.saturating_mul(dim));
    if blocks > 1 << 28 {
        return Err(format!("a grid of {grid:?} blocks would not finish on an emulator"));
    }
    if let Some(max) = entry.max_threads
        && threads > max
    {
        return Err(format!("{threads} threads exceed the {max} of .maxntid"));
    }
    match entry.required_threads {
        Some(required) if required != block => {
            Err(format!("needs blocks of {required:?} threads, got {block:?}"))
        }
        _ => Ok(()),
    }
}
