//! The state of the driver: devices, contexts and handles.

use crate::{
    config::Config,
    queue::{Mark, Spare, Work},
    status::{
        self, CONTEXT_IS_DESTROYED, Code, INVALID_CONTEXT, INVALID_HANDLE, INVALID_VALUE,
        NOT_INITIALIZED, NOT_PERMITTED, SUCCESS, UNKNOWN,
    },
};
use parking_lot::Mutex;
use samebits_ptx_emulator::{Device, Loaded};
use std::{
    alloc::Layout,
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

/// An opaque handle of the interface.
pub(crate) type Handle = usize;

/// One device.
#[derive(Debug)]
pub(crate) struct DeviceState {
    pub(crate) device: Device,
    /// The primary context, and its retain count.
    pub(crate) primary: Option<(Handle, u32)>,
    /// The pool of stream-ordered allocation.
    pub(crate) pool: Handle,
    pub(crate) default_pool: Handle,
    /// The number of bytes that queued work will allocate.
    pub(crate) promised: u64,
    /// The number of bytes reserved at each address.
    pub(crate) rooms: BTreeMap<u64, u64>,
    /// Addresses that any stream may reuse.
    pub(crate) spare: Spare,
}

impl DeviceState {
    /// Returns true if the device has memory for `size` more bytes.
    pub(crate) fn fits(&self, size: u64) -> bool {
        let (used, capacity) = self.device.memory_info();
        size <= capacity.saturating_sub(used + self.promised)
    }

    pub(crate) fn room(&self, address: u64) -> u64 {
        self.rooms.get(&address).copied().unwrap_or(0)
    }
}

/// One context.
#[derive(Debug, Default)]
pub(crate) struct ContextState {
    pub(crate) ordinal: usize,
    /// The error that a kernel left: every later call returns it.
    pub(crate) sticky: Option<Code>,
    /// The legacy default stream.
    pub(crate) legacy: Handle,
    /// The default streams of threads, by thread.
    pub(crate) of_threads: BTreeMap<u64, Handle>,
    /// The addresses at which memory of this context exists, whoever owns it.
    pub(crate) placed: BTreeSet<u64>,
    pub(crate) limits: BTreeMap<u32, usize>,
    pub(crate) cache: u32,
}

/// An allocation from the program's view: from the call that returned its address to the call that
/// frees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allocation {
    pub(crate) size: u64,
    pub(crate) context: Handle,
}

/// One stream.
#[derive(Debug, Default)]
pub(crate) struct StreamState {
    pub(crate) context: Handle,
    /// True if it is ordered with the legacy default stream.
    pub(crate) blocking: bool,
    pub(crate) priority: i32,
    pub(crate) queue: VecDeque<Work>,
    /// The number of pieces of work done.
    pub(crate) done: u64,
    /// True if the program has destroyed its handle; the stream is removed when its queue is empty.
    pub(crate) destroyed: bool,
    /// Addresses that this stream will have freed before it reaches work queued now.
    pub(crate) spare: Spare,
}

/// One event.
#[derive(Debug)]
pub(crate) struct EventState {
    pub(crate) context: Handle,
    pub(crate) timed: bool,
    /// The position at which it was last recorded.
    pub(crate) mark: Option<Mark>,
    /// The time at which that position was reached.
    pub(crate) recorded: Option<Instant>,
}

/// One module.
#[derive(Debug)]
pub(crate) struct ModuleState {
    pub(crate) context: Handle,
    pub(crate) loaded: Loaded,
    pub(crate) functions: BTreeMap<String, Handle>,
}

/// One kernel.
#[derive(Debug)]
pub(crate) struct FunctionState {
    pub(crate) module: Handle,
    pub(crate) name: String,
    /// The largest dynamic shared memory of a launch, in bytes.
    pub(crate) max_dynamic: u32,
}

/// One memory pool.
#[derive(Debug, Default)]
pub(crate) struct PoolState {
    pub(crate) ordinal: usize,
    pub(crate) attributes: BTreeMap<u32, u64>,
}

/// The whole state of the driver.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) config: Config,
    pub(crate) devices: Vec<DeviceState>,
    pub(crate) contexts: BTreeMap<Handle, ContextState>,
    pub(crate) streams: BTreeMap<Handle, StreamState>,
    pub(crate) events: BTreeMap<Handle, EventState>,
    pub(crate) modules: BTreeMap<Handle, ModuleState>,
    pub(crate) functions: BTreeMap<Handle, FunctionState>,
    pub(crate) pools: BTreeMap<Handle, PoolState>,
    pub(crate) allocations: BTreeMap<u64, Allocation>,
    /// The page-locked host memory.
    pub(crate) host: BTreeMap<usize, Layout>,
    next: Handle,
}

static DRIVER: Mutex<Option<Driver>> = Mutex::new(None);

thread_local! {
    /// The stack of current contexts.
    pub(crate) static CURRENT: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
    /// The number of this thread.
    static THREAD: u64 = {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    };
    /// True while this thread runs a function that a stream calls.
    pub(crate) static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

pub(crate) type Outcome<T = ()> = Result<T, Code>;

/// Starts the driver; later calls do nothing.
pub(crate) fn initialise() -> Code {
    let mut driver = DRIVER.lock();
    if driver.is_some() {
        return SUCCESS;
    }
    let config = match Config::from_env() {
        Ok(config) => config,
        Err(message) => {
            status::report(INVALID_VALUE, &message);
            return INVALID_VALUE;
        }
    };
    if config.devices == 0 {
        return status::NO_DEVICE;
    }
    let mut fresh = Driver {
        devices: Vec::new(),
        contexts: BTreeMap::new(),
        streams: BTreeMap::new(),
        events: BTreeMap::new(),
        modules: BTreeMap::new(),
        functions: BTreeMap::new(),
        pools: BTreeMap::new(),
        allocations: BTreeMap::new(),
        host: BTreeMap::new(),
        next: 0x5a00_0000_0000,
        config,
    };
    for ordinal in 0..fresh.config.devices {
        let mut device = Device::with_memory(ordinal, fresh.config.memory);
        device.set_schedule(fresh.config.schedule);
        device.set_checks(fresh.config.checks);
        device.set_counting(fresh.config.counts.is_some());
        let pool = fresh.handle();
        fresh.pools.insert(pool, PoolState { ordinal: ordinal as usize, ..PoolState::default() });
        fresh.devices.push(DeviceState {
            device,
            primary: None,
            pool,
            default_pool: pool,
            promised: 0,
            rooms: BTreeMap::new(),
            spare: Spare::default(),
        });
    }
    *driver = Some(fresh);
    SUCCESS
}

/// Runs one call of the interface on the driver.
pub(crate) fn call(body: impl FnOnce(&mut Driver) -> Outcome) -> Code {
    if IN_CALLBACK.get() {
        return NOT_PERMITTED;
    }
    // A panic must not cross the C interface.
    let run = AssertUnwindSafe(|| match DRIVER.lock().as_mut() {
        None => Err(NOT_INITIALIZED),
        Some(driver) => body(driver),
    });
    match catch_unwind(run) {
        Ok(Ok(())) => SUCCESS,
        Ok(Err(code)) => code,
        Err(_) => {
            status::report(UNKNOWN, "the emulator panicked: this is a defect of the emulator");
            UNKNOWN
        }
    }
}

/// Runs one call that needs a current context without a stored error.
pub(crate) fn call_in_context(body: impl FnOnce(&mut Driver, Handle) -> Outcome) -> Code {
    call(|driver| {
        let context = driver.current()?;
        driver.healthy(context)?;
        body(driver, context)
    })
}

/// Runs one call that needs a stream and its context without a stored error. Only a default stream
/// needs a current context.
pub(crate) fn call_on_stream(
    stream: Handle,
    body: impl FnOnce(&mut Driver, Handle, Handle) -> Outcome,
) -> Code {
    call(|driver| {
        let stream = driver.stream(stream)?;
        let context = driver.streams.get(&stream).ok_or(INVALID_HANDLE)?.context;
        driver.healthy(context)?;
        body(driver, stream, context)
    })
}

impl Driver {
    /// Returns a new handle.
    pub(crate) fn handle(&mut self) -> Handle {
        self.next += 16;
        self.next
    }

    /// Returns the current context of this thread.
    pub(crate) fn current(&self) -> Outcome<Handle> {
        let top = CURRENT.with_borrow(|stack| stack.last().copied()).unwrap_or(0);
        if top == 0 {
            return Err(INVALID_CONTEXT);
        }
        if self.contexts.contains_key(&top) { Ok(top) } else { Err(CONTEXT_IS_DESTROYED) }
    }

    /// Returns the error that a kernel has left, if any.
    pub(crate) fn healthy(&self, context: Handle) -> Outcome {
        match self.contexts.get(&context).and_then(|state| state.sticky) {
            Some(code) => Err(code),
            None => Ok(()),
        }
    }

    pub(crate) fn context(&mut self, handle: Handle) -> Outcome<&mut ContextState> {
        self.contexts.get_mut(&handle).ok_or(INVALID_CONTEXT)
    }

    pub(crate) fn device(&mut self, ordinal: i32) -> Outcome<&mut DeviceState> {
        usize::try_from(ordinal)
            .ok()
            .and_then(|ordinal| self.devices.get_mut(ordinal))
            .ok_or(status::INVALID_DEVICE)
    }

    /// Returns the device of a context.
    pub(crate) fn device_of(&mut self, context: Handle) -> Outcome<&mut Device> {
        Ok(&mut self.state_of(context)?.device)
    }

    /// Returns the state of a context's device.
    pub(crate) fn state_of(&mut self, context: Handle) -> Outcome<&mut DeviceState> {
        let ordinal = self.context(context)?.ordinal;
        Ok(&mut self.devices[ordinal])
    }

    /// Returns the contexts of a device.
    pub(crate) fn contexts_on(&self, ordinal: usize) -> Vec<Handle> {
        let here = self.contexts.iter().filter(|(_, state)| state.ordinal == ordinal);
        here.map(|(&handle, _)| handle).collect()
    }

    /// Returns the device that owns an address.
    pub(crate) fn owner(&mut self, address: u64) -> Outcome<&mut Device> {
        self.devices
            .iter_mut()
            .map(|state| &mut state.device)
            .find(|device| device.owns(address))
            .ok_or_else(|| {
                status::report(INVALID_VALUE, &format!("{address:#x} is not a device address"));
                INVALID_VALUE
            })
    }

    /// Returns base and size of the allocation or module variable that contains an address.
    pub(crate) fn allocation(&mut self, address: u64) -> Option<(u64, u64)> {
        if let Some((&base, found)) = self.allocations.range(..=address).next_back()
            && address - base < found.size
        {
            return Some((base, found.size));
        }
        let (base, size) = self.owner(address).ok()?.allocation(address)?;
        // Freed memory may still exist.
        let variable = !self.contexts.values().any(|context| context.placed.contains(&base));
        variable.then_some((base, size))
    }

    /// Checks that `size` bytes at `address` are allocated.
    pub(crate) fn accessible(&mut self, address: u64, size: u64) -> Outcome {
        let found = self.allocation(address);
        if found.is_some_and(|(base, len)| size <= len - (address - base)) {
            return Ok(());
        }
        let message = match found {
            Some((base, len)) => {
                format!("{size} bytes at {address:#x} reach beyond the {len} bytes at {base:#x}")
            }
            None => format!("there is no memory at {address:#x}, or it has been freed"),
        };
        status::report(INVALID_VALUE, &message);
        Err(INVALID_VALUE)
    }

    /// Returns the stream of a handle; a current context has two default streams.
    pub(crate) fn stream(&mut self, stream: Handle) -> Outcome<Handle> {
        match stream {
            0 | 1 => {
                let context = self.current()?;
                Ok(self.context(context)?.legacy)
            }
            2 => {
                let context = self.current()?;
                let thread = THREAD.with(|thread| *thread);
                if let Some(&known) = self.context(context)?.of_threads.get(&thread) {
                    return Ok(known);
                }
                let fresh = self.create_stream(context, true, 0);
                self.context(context)?.of_threads.insert(thread, fresh);
                Ok(fresh)
            }
            other => match self.streams.get(&other) {
                Some(state) if !state.destroyed => Ok(other),
                _ => Err(INVALID_HANDLE),
            },
        }
    }

    pub(crate) fn create_stream(
        &mut self,
        context: Handle,
        blocking: bool,
        priority: i32,
    ) -> Handle {
        let handle = self.handle();
        let state = StreamState { context, blocking, priority, ..StreamState::default() };
        self.streams.insert(handle, state);
        handle
    }

    /// Creates a context.
    pub(crate) fn create_context(&mut self, ordinal: usize) -> Handle {
        let handle = self.handle();
        let legacy = self.create_stream(handle, true, 0);
        self.contexts.insert(handle, ContextState { ordinal, legacy, ..ContextState::default() });
        handle
    }

    /// Destroys a context and everything in it. The queued work of its streams is never done.
    pub(crate) fn destroy_context(&mut self, handle: Handle) -> Outcome {
        let state = self.contexts.remove(&handle).ok_or(INVALID_CONTEXT)?;
        let mut promised = 0;
        for stream in self.streams.values().filter(|stream| stream.context == handle) {
            promised += stream.queue.iter().map(Work::promised).sum::<u64>();
        }
        self.streams.retain(|_, stream| stream.context != handle);
        self.events.retain(|_, event| event.context != handle);
        self.allocations.retain(|_, allocation| allocation.context != handle);
        let device = &mut self.devices[state.ordinal];
        device.promised -= promised;
        for address in state.placed {
            // The remaining memory belongs to the context.
            device.device.free(address).map_err(|error| status::from_error(&error))?;
        }
        let modules: Vec<Handle> = self
            .modules
            .iter()
            .filter(|(_, module)| module.context == handle)
            .map(|(&module, _)| module)
            .collect();
        for module in modules {
            self.unload(module)?;
        }
        Ok(())
    }

    /// Returns a module of the current context.
    pub(crate) fn module(&self, handle: Handle, current: Handle) -> Outcome<&ModuleState> {
        match self.modules.get(&handle) {
            Some(module) if module.context == current => Ok(module),
            Some(_) => {
                status::report(INVALID_CONTEXT, "the module is not of the current context");
                Err(INVALID_CONTEXT)
            }
            None => Err(INVALID_HANDLE),
        }
    }

    /// Unloads a module and removes its functions.
    pub(crate) fn unload(&mut self, handle: Handle) -> Outcome {
        let module = self.modules.remove(&handle).ok_or(INVALID_HANDLE)?;
        self.functions.retain(|_, function| function.module != handle);
        // The context may be the one that is being destroyed.
        let device = self.devices.iter_mut().find(|state| module.loaded.is_on(&state.device));
        match device {
            Some(state) => {
                state.device.unload(&module.loaded).map_err(|error| status::from_error(&error))
            }
            None => Ok(()),
        }
    }
}

/// Writes a result through a pointer of the caller.
///
/// # Safety
///
/// `to` is null or valid for a write.
pub(crate) unsafe fn put<T>(to: *mut T, value: T) -> Outcome {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, so the caller guarantees that it is valid.
    unsafe { to.write(value) };
    Ok(())
}
