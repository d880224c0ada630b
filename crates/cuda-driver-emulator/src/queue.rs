//! The queues of work in streams.
//!
//! The emulator does work as late as the interface allows: it waits in the queue of its stream
//! until a call may rely on its result, and the schedule chooses the order between streams that the
//! program has not ordered. A program that reads before it waits always reads old bytes.

use crate::{
    state::{Driver, Handle, Outcome},
    status::{Code, FILE_NOT_FOUND, ILLEGAL_ADDRESS, from_error, report},
};
use samebits_ptx_emulator::{Counts, Error, Launch, Loaded, Schedule};
use std::{
    collections::BTreeMap, ffi::c_void, fmt::Write as _, fs::File, io::Write as _, path::Path,
    time::Instant,
};

/// The number of pieces of work in a stream beyond which a call first does the oldest.
const QUEUE: usize = 1024;

/// A position in a stream, reached when that number of pieces of work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) stream: Handle,
    position: u64,
}

impl Mark {
    /// Returns the position one piece of work later.
    fn next(self) -> Mark {
        Mark { position: self.position + 1, ..self }
    }
}

/// An address on the host that its owner keeps valid until the work is done.
pub(crate) type HostAddress = usize;

/// One piece of work.
#[derive(Debug)]
pub(crate) enum Work {
    /// Creates memory at addresses that were reserved before.
    Place {
        address: u64,
        size: u64,
    },
    Free {
        address: u64,
        /// Distinguishes it from other times that the address is freed.
        ticket: Handle,
    },
    Launch {
        loaded: Loaded,
        name: String,
        launch: Launch,
        params: Vec<u8>,
    },
    /// Copies bytes that were staged at the call.
    Upload {
        to: u64,
        bytes: Vec<u8>,
    },
    /// Copies bytes of page-locked memory, read when the copy runs.
    UploadPinned {
        to: u64,
        from: HostAddress,
        size: usize,
    },
    Download {
        to: HostAddress,
        from: u64,
        size: usize,
    },
    Copy {
        to: u64,
        from: u64,
        size: usize,
    },
    Fill {
        to: u64,
        size: u64,
        pattern: Vec<u8>,
    },
    Record {
        event: Handle,
    },
    Wait(Mark),
    Call {
        function: unsafe extern "C" fn(*mut c_void),
        data: HostAddress,
    },
}

impl Work {
    /// Returns the number of bytes of memory that this work will allocate.
    pub(crate) fn promised(&self) -> u64 {
        if let Work::Place { size, .. } = self { *size } else { 0 }
    }
}

/// Freed addresses and their tickets, by the number of bytes reserved there; the last one freed is
/// reused first.
#[derive(Debug, Default)]
pub(crate) struct Spare(BTreeMap<u64, Vec<(u64, Handle)>>);

impl Spare {
    pub(crate) fn put(&mut self, room: u64, address: u64, ticket: Handle) {
        self.0.entry(room).or_default().push((address, ticket));
    }

    /// Takes addresses with room for `size` bytes.
    pub(crate) fn take(&mut self, size: u64) -> Option<u64> {
        let (&room, addresses) = self.0.range_mut(size..).next()?;
        let found = addresses.pop();
        if addresses.is_empty() {
            self.0.remove(&room);
        }
        found.map(|(address, _)| address)
    }

    /// Removes this address, if it is here since it was freed with this ticket.
    fn remove(&mut self, room: u64, address: u64, ticket: Handle) -> bool {
        let Some(addresses) = self.0.get_mut(&room) else { return false };
        let Some(at) = addresses.iter().position(|&known| known == (address, ticket)) else {
            return false;
        };
        addresses.remove(at);
        if addresses.is_empty() {
            self.0.remove(&room);
        }
        true
    }
}

impl Driver {
    /// Appends work to a stream.
    pub(crate) fn enqueue(&mut self, stream: Handle, work: Work) {
        self.order_with_legacy(stream);
        if let Work::Record { event } = &work {
            let mark = self.tail(stream).next();
            if let Some(state) = self.events.get_mut(event) {
                (state.mark, state.recorded) = (Some(mark), None);
            }
        }
        self.push(stream, work);
        if self.config.blocking {
            self.reach(self.tail(stream));
        }
        while self.streams.get(&stream).is_some_and(|state| state.queue.len() > QUEUE) {
            self.step(stream);
        }
    }

    fn push(&mut self, stream: Handle, work: Work) {
        if let Some(state) = self.streams.get_mut(&stream) {
            state.queue.push_back(work);
        }
    }

    /// Makes a blocking stream and the legacy stream of its context wait for each other.
    fn order_with_legacy(&mut self, stream: Handle) {
        let Some(state) = self.streams.get(&stream) else { return };
        if !state.blocking {
            return;
        }
        let context = state.context;
        let legacy = self.contexts.get(&context).map_or(0, |state| state.legacy);
        let others: Vec<Handle> = if stream == legacy {
            let blocking = self.streams.iter().filter(|(_, s)| s.blocking && s.context == context);
            blocking.map(|(&other, _)| other).filter(|&other| other != stream).collect()
        } else {
            vec![legacy]
        };
        for other in others {
            let mark = self.tail(other);
            if !self.reached(mark) {
                self.push(stream, Work::Wait(mark));
            }
        }
    }

    /// Returns the position after all work queued in a stream.
    pub(crate) fn tail(&self, stream: Handle) -> Mark {
        let position = self.streams.get(&stream).map_or(0, |s| s.done + s.queue.len() as u64);
        Mark { stream, position }
    }

    /// Returns true if a position has been reached. A destroyed stream has done everything.
    pub(crate) fn reached(&self, mark: Mark) -> bool {
        self.streams.get(&mark.stream).is_none_or(|state| state.done >= mark.position)
    }

    /// Works until a position is reached. An error is stored in the context of the stream.
    pub(crate) fn reach(&mut self, mark: Mark) {
        while !self.reached(mark) {
            self.step(mark.stream);
        }
    }

    /// Does all queued work of the streams for which `wanted` returns true.
    pub(crate) fn drain(&mut self, wanted: impl Fn(Handle) -> bool) {
        let mut streams: Vec<Handle> = self
            .streams
            .iter()
            .filter(|(_, state)| wanted(state.context))
            .map(|(&stream, _)| stream)
            .collect();
        match self.config.schedule {
            Schedule::InOrder => {}
            Schedule::Reversed => streams.reverse(),
            Schedule::Seeded(seed) => {
                let first = seed % streams.len().max(1) as u64;
                streams.rotate_left(first as usize);
            }
        }
        for stream in streams {
            self.reach(self.tail(stream));
        }
    }

    /// Does the oldest piece of work of a stream.
    pub(crate) fn step(&mut self, stream: Handle) {
        let Some(state) = self.streams.get_mut(&stream) else { return };
        let context = state.context;
        let Some(work) = state.queue.pop_front() else { return };
        // Waiting completes, or the work fails, before it counts as done.
        let outcome = match work {
            Work::Wait(mark) => {
                self.reach(mark);
                Ok(())
            }
            Work::Record { event } => {
                let mark = self.streams.get(&stream).map(|s| Mark { stream, position: s.done + 1 });
                if let Some(state) = self.events.get_mut(&event)
                    && state.mark == mark
                {
                    state.recorded = Some(Instant::now());
                }
                Ok(())
            }
            work => self.perform(stream, context, work),
        };
        if let Err(code) = outcome {
            self.poison(context, code);
        }
        if let Some(state) = self.streams.get_mut(&stream) {
            state.done += 1;
            if state.destroyed && state.queue.is_empty() {
                self.streams.remove(&stream);
            }
        }
    }

    /// Marks a context as failed: every later call in it returns `code`, and the queued work of its
    /// streams is never done.
    fn poison(&mut self, context: Handle, code: Code) {
        if let Some(state) = self.contexts.get_mut(&context) {
            state.sticky = Some(code);
        }
        let mut promised = 0;
        for state in self.streams.values_mut().filter(|state| state.context == context) {
            state.done += state.queue.len() as u64;
            promised += state.queue.drain(..).map(|work| work.promised()).sum::<u64>();
        }
        if let Ok(device) = self.state_of(context) {
            device.promised -= promised;
        }
    }

    /// Appends the counts of work that is no launch: bytes of device memory read and written.
    fn note_moved(&self, name: &str, read: u64, written: u64) -> Outcome {
        let Some(path) = &self.config.counts else {
            return Ok(());
        };
        let blocks = read.max(written).div_ceil(SECTOR * 256);
        let mut line = format!("{name} blocks={blocks} threads=256");
        for (what, bytes) in [("loads", read), ("stores", written)] {
            let sectors = bytes.div_ceil(SECTOR);
            // Writing to a string does not fail.
            let _ = write!(line, " {what}_needed={bytes} {what}_asked={sectors}");
            let _ = write!(line, " {what}_fetched={sectors} {what}_touched={sectors}");
        }
        append(path, line)
    }

    fn perform(&mut self, stream: Handle, context: Handle, work: Work) -> Outcome {
        // The call has checked the addresses, so an address that is wrong now became wrong since.
        let late = |error: Error| {
            report(ILLEGAL_ADDRESS, &error.to_string());
            ILLEGAL_ADDRESS
        };
        match work {
            Work::Place { address, size } => {
                let state = self.state_of(context)?;
                state.promised -= size;
                state.device.place(address, size).map_err(|error| from_error(&error))?;
                self.context(context)?.placed.insert(address);
                Ok(())
            }
            Work::Free { address, ticket } => {
                self.device_of(context)?.free(address).map_err(late)?;
                self.context(context)?.placed.remove(&address);
                let room = self.state_of(context)?.room(address);
                let state = self.streams.get_mut(&stream);
                // Unless the stream itself has reused the address, even if it has freed it again.
                if state.is_some_and(|state| state.spare.remove(room, address, ticket)) {
                    self.state_of(context)?.spare.put(room, address, ticket);
                }
                Ok(())
            }
            Work::Launch { loaded, name, launch, params } => {
                let statistics = self.config.statistics;
                let done = self.device_of(context)?.launch(&loaded, &name, launch, &params);
                let stats = done.map_err(|error| from_error(&error))?;
                if statistics {
                    let (warps, lanes) = (stats.warp_instructions, stats.lane_instructions);
                    // A closed standard error stream must not cause a failure.
                    let _ = writeln!(
                        std::io::stderr(),
                        "CUDA driver emulator: {name}: {warps} warp and {lanes} lane instructions"
                    );
                }
                match (&self.config.counts, stats.counts) {
                    (Some(path), Some(counts)) => note(path, &name, launch, &counts),
                    _ => Ok(()),
                }
            }
            Work::Upload { to, bytes } => {
                self.note_moved("memcpy", 0, bytes.len() as u64)?;
                self.owner(to)?.write(to, &bytes).map_err(late)
            }
            Work::UploadPinned { to, from, size } => {
                self.note_moved("memcpy", 0, size as u64)?;
                let from = std::ptr::with_exposed_provenance::<u8>(from);
                // SAFETY: the interface requires that page-locked memory stays valid, and is not
                // written, until the copy is done.
                let bytes = unsafe { std::slice::from_raw_parts(from, size) };
                self.owner(to)?.write(to, bytes).map_err(late)
            }
            Work::Download { to, from, size } => {
                // The destination may be uninitialised memory, so no reference to it is created
                // before it is written.
                let mut bytes = vec![0; size];
                self.owner(from)?.read(from, &mut bytes).map_err(late)?;
                let to = std::ptr::with_exposed_provenance_mut::<u8>(to);
                // SAFETY: the interface requires that the memory stays valid for `size` bytes until
                // the copy is done; fresh memory overlaps nothing.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, size) };
                Ok(())
            }
            Work::Copy { to, from, size } => {
                self.note_moved("memcpy", size as u64, size as u64)?;
                if self.owner(to)?.owns(from) {
                    return self.owner(to)?.copy(to, from, size as u64).map_err(late);
                }
                let mut bytes = vec![0; size];
                self.owner(from)?.read(from, &mut bytes).map_err(late)?;
                self.owner(to)?.write(to, &bytes).map_err(late)
            }
            Work::Fill { to, size, pattern } => {
                self.note_moved("memset", 0, size)?;
                self.owner(to)?.fill(to, size, &pattern).map_err(late)
            }
            Work::Call { function, data } => {
                let data = std::ptr::with_exposed_provenance_mut(data);
                let before = crate::state::IN_CALLBACK.replace(true);
                // SAFETY: the interface requires a function that may be called with `data` when the
                // stream reaches it. Its calls to the driver return an error before they lock.
                unsafe { function(data) };
                crate::state::IN_CALLBACK.set(before);
                Ok(())
            }
            Work::Wait(_) | Work::Record { .. } => Ok(()),
        }
    }

    /// Reserves addresses for memory that work of `stream` will create there, or for memory that
    /// belongs to no stream. Free addresses are reused at once, unless that is disabled.
    pub(crate) fn reserve(
        &mut self,
        context: Handle,
        stream: Option<Handle>,
        size: u64,
    ) -> Outcome<u64> {
        if !self.state_of(context)?.fits(size) {
            // Memory that queued work will free counts as available.
            let ordinal = self.context(context)?.ordinal;
            let here: Vec<Handle> = self.contexts_on(ordinal);
            self.drain(|context| here.contains(&context));
            self.healthy(context)?;
        }
        let reuse = self.config.reuse;
        let state = self.state_of(context)?;
        if !state.fits(size) {
            let (used, capacity) = state.device.memory_info();
            let message = format!("{size} bytes asked for, {used} of {capacity} in use");
            report(crate::status::OUT_OF_MEMORY, &message);
            return Err(crate::status::OUT_OF_MEMORY);
        }
        let own = stream.and_then(|stream| self.streams.get_mut(&stream));
        let own = own.filter(|_| reuse).and_then(|stream| stream.spare.take(size));
        let state = self.state_of(context)?;
        let found = match own {
            Some(address) => address,
            None => match reuse.then(|| state.spare.take(size)).flatten() {
                Some(address) => address,
                None => {
                    let address = state.device.reserve(size);
                    state.rooms.insert(address, size);
                    address
                }
            },
        };
        Ok(found)
    }
}

/// The size of a sector in bytes.
const SECTOR: u64 = 32;

/// Appends a line to a file: the kernel, its number of blocks, the threads of a block, and the
/// counts of the launch.
fn note(path: &Path, name: &str, launch: Launch, counts: &Counts) -> Outcome {
    let [blocks, threads] = [launch.grid, launch.block].map(|dims| dims.iter().product::<u32>());
    let mut line = format!("{name} blocks={blocks} threads={threads}");
    let dynamic = ("dynamic_shared".to_owned(), u64::from(launch.dynamic_shared));
    for (what, count) in counts.fields().chain([dynamic]) {
        // Writing to a string does not fail.
        let _ = write!(line, " {what}={count}");
    }
    append(path, line)
}

fn append(path: &Path, mut line: String) -> Outcome {
    line.push('\n');
    let written = File::options().create(true).append(true).open(path);
    written.and_then(|mut file| file.write_all(line.as_bytes())).map_err(|error| {
        report(FILE_NOT_FOUND, &format!("SAMEBITS_EMULATOR_COUNTS is {path:?}: {error}"));
        FILE_NOT_FOUND
    })
}
