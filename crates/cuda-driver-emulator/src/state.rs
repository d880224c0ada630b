//! What the driver knows: devices, contexts and handles.

use crate::{
    config::Config,
    status::{
        self, CONTEXT_IS_DESTROYED, Code, INVALID_CONTEXT, INVALID_HANDLE, INVALID_VALUE,
        NOT_INITIALIZED, SUCCESS, UNKNOWN,
    },
};
use parking_lot::Mutex;
use samebits_ptx_emulator::{Device, Loaded};
use std::{
    alloc::Layout,
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    panic::{AssertUnwindSafe, catch_unwind},
    time::Instant,
};

/// An opaque handle, as the caller holds it.
pub(crate) type Handle = usize;

/// One device.
#[derive(Debug)]
pub(crate) struct DeviceState {
    pub(crate) device: Device,
    /// The primary context and how often it is retained.
    pub(crate) primary: Option<(Handle, u32)>,
    /// The pool that stream-ordered allocation uses.
    pub(crate) pool: Handle,
    pub(crate) default_pool: Handle,
}

/// One context.
#[derive(Debug, Default)]
pub(crate) struct ContextState {
    pub(crate) ordinal: usize,
    /// The error that a kernel left behind: every later call returns it.
    pub(crate) sticky: Option<Code>,
    pub(crate) allocations: BTreeSet<u64>,
    pub(crate) limits: BTreeMap<u32, usize>,
    pub(crate) cache: u32,
}

/// One stream: there is nothing to know but where it belongs.
#[derive(Debug)]
pub(crate) struct StreamState {
    pub(crate) context: Handle,
    pub(crate) flags: u32,
    pub(crate) priority: i32,
}

/// One event.
#[derive(Debug)]
pub(crate) struct EventState {
    pub(crate) timed: bool,
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
    /// Bytes of dynamic shared memory that a launch may ask for.
    pub(crate) max_dynamic: u32,
}

/// One memory pool.
#[derive(Debug, Default)]
pub(crate) struct PoolState {
    pub(crate) ordinal: usize,
    pub(crate) attributes: BTreeMap<u32, u64>,
}

/// Everything.
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
    /// Page-locked host memory.
    pub(crate) host: BTreeMap<usize, Layout>,
    next: Handle,
}

static DRIVER: Mutex<Option<Driver>> = Mutex::new(None);

thread_local! {
    /// The stack of current contexts.
    pub(crate) static CURRENT: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
}

pub(crate) type Outcome<T = ()> = Result<T, Code>;

/// Starts the driver; a second time does nothing.
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
        host: BTreeMap::new(),
        next: 0x5a00_0000_0000,
        config,
    };
    for ordinal in 0..fresh.config.devices {
        let mut device = Device::with_memory(ordinal, fresh.config.memory);
        device.set_schedule(fresh.config.schedule);
        device.set_checks(fresh.config.checks);
        let pool = fresh.handle();
        fresh.pools.insert(pool, PoolState { ordinal: ordinal as usize, ..PoolState::default() });
        fresh.devices.push(DeviceState { device, primary: None, pool, default_pool: pool });
    }
    *driver = Some(fresh);
    SUCCESS
}

/// Runs one call of the interface on the driver.
pub(crate) fn call(body: impl FnOnce(&mut Driver) -> Outcome) -> Code {
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

/// Runs one call that needs a current context in good health.
pub(crate) fn call_in_context(body: impl FnOnce(&mut Driver, Handle) -> Outcome) -> Code {
    call(|driver| {
        let context = driver.current()?;
        driver.healthy(context)?;
        body(driver, context)
    })
}

impl Driver {
    /// A handle that has never been used.
    pub(crate) fn handle(&mut self) -> Handle {
        self.next += 16;
        self.next
    }

    /// The current context of this thread.
    pub(crate) fn current(&self) -> Outcome<Handle> {
        let top = CURRENT.with_borrow(|stack| stack.last().copied()).unwrap_or(0);
        if top == 0 {
            return Err(INVALID_CONTEXT);
        }
        if self.contexts.contains_key(&top) { Ok(top) } else { Err(CONTEXT_IS_DESTROYED) }
    }

    /// Fails with the error that a kernel has left behind.
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

    /// The device of a context.
    pub(crate) fn device_of(&mut self, context: Handle) -> Outcome<&mut Device> {
        let ordinal = self.context(context)?.ordinal;
        Ok(&mut self.devices[ordinal].device)
    }

    /// The device that an address belongs to.
    pub(crate) fn owner(&mut self, address: u64) -> Outcome<&mut Device> {
        self.devices
            .iter_mut()
            .map(|state| &mut state.device)
            .find(|device| device.owns(address))
            .ok_or_else(|| {
                status::report(INVALID_VALUE, &format!("{address:#x} is no device address"));
                INVALID_VALUE
            })
    }

    /// Checks a stream handle. The legacy and the per-thread default streams always exist.
    pub(crate) fn stream(&self, stream: Handle) -> Outcome {
        if stream <= 2 || self.streams.contains_key(&stream) { Ok(()) } else { Err(INVALID_HANDLE) }
    }

    /// Makes a context.
    pub(crate) fn create_context(&mut self, ordinal: usize) -> Handle {
        let handle = self.handle();
        self.contexts.insert(handle, ContextState { ordinal, ..ContextState::default() });
        handle
    }

    /// Destroys a context and everything in it.
    pub(crate) fn destroy_context(&mut self, handle: Handle) -> Outcome {
        let state = self.contexts.remove(&handle).ok_or(INVALID_CONTEXT)?;
        let device = &mut self.devices[state.ordinal].device;
        for address in state.allocations {
            // Whatever is left is the context's own.
            device.free(address).map_err(|error| status::from_error(&error))?;
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
        self.streams.retain(|_, stream| stream.context != handle);
        Ok(())
    }

    /// Unloads a module and forgets its functions.
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
    // SAFETY: not null, and so valid by the caller's promise.
    unsafe { to.write(value) };
    Ok(())
}
