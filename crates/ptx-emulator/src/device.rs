//! A device: memory, placed modules, launches.

use crate::{
    Counts, Error, Module, Schedule,
    exec::{self, Target},
    load::CODE_WINDOW,
    memory::Memory,
    module::{EntryInfo, Symbol},
    op::{LANES, V32, V64},
    region::Region,
};
use std::sync::Arc;

/// The rules that are checked; by default, all of them.
///
/// Bounds, alignment and address spaces are always checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checks {
    /// If true, reads of memory that was never written are reported.
    pub uninitialised: bool,
    /// If true, data races are reported.
    pub races: bool,
    /// The number of instructions that a warp may execute in one launch.
    pub step_limit: u64,
}

impl Default for Checks {
    fn default() -> Checks {
        Checks { uninitialised: true, races: true, step_limit: 1 << 32 }
    }
}

/// The shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The number of blocks along each axis.
    pub grid: [u32; 3],
    /// The number of threads along each axis of a block.
    pub block: [u32; 3],
    /// The size of dynamic shared memory in bytes.
    pub dynamic_shared: u32,
}

impl Launch {
    /// Returns a launch along one axis, without dynamic shared memory.
    pub fn new(blocks: u32, threads: u32) -> Launch {
        Launch { grid: [blocks, 1, 1], block: [threads, 1, 1], dynamic_shared: 0 }
    }
}

/// Statistics of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The number of instructions executed by warps.
    pub warp_instructions: u64,
    /// The number of instructions executed by threads: each warp instruction counts once per active
    /// lane.
    pub lane_instructions: u64,
    /// The costs of the launch, if [`Device::set_counting`] enabled counting.
    pub counts: Option<Counts>,
}

/// A module placed on a device.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub(crate) module: Arc<Module>,
    pub(crate) c32: Arc<Vec<V32>>,
    pub(crate) c64: Arc<Vec<V64>>,
    /// The address of each variable.
    pub(crate) variables: Arc<Vec<u64>>,
}

impl Loaded {
    /// Returns the module that was placed.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Returns address and size of the variable `name`.
    pub fn variable(&self, name: &str) -> Option<(u64, u64)> {
        let index = self.module.variables.iter().position(|variable| variable.name == name)?;
        Some((self.variables[index], self.module.variables[index].data.len() as u64))
    }

    /// Returns a description of the entry point `name`.
    pub fn entry(&self, name: &str) -> Option<EntryInfo> {
        self.module.entry(name)
    }

    /// Returns true if the module was placed on `device`. A module without variables is on no
    /// device.
    pub fn is_on(&self, device: &Device) -> bool {
        self.variables.first().is_some_and(|&address| device.owns(address))
    }
}

/// A device with its memory.
///
/// # Examples
///
/// ```
/// use samebits_ptx_emulator::{Device, Launch, Module};
///
/// let module = Module::parse(
///     ".version 8.5\n.target sm_70\n.address_size 64\n\
///      .visible .entry index(.param .u64 out) {\n\
///        .reg .b32 %r<2>; .reg .b64 %rd<4>;\n\
///        ld.param.u64 %rd1, [out]; cvta.to.global.u64 %rd1, %rd1;\n\
///        mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;\n\
///        st.global.u32 [%rd3], %r1; ret; }",
/// )?;
/// let mut device = Device::new();
/// let loaded = device.load(module)?;
/// let out = device.alloc(64 * 4)?;
/// device.launch(&loaded, "index", Launch::new(1, 64), &out.to_le_bytes())?;
/// let mut bytes = [0; 4];
/// device.read(out + 63 * 4, &mut bytes)?;
/// assert_eq!(u32::from_le_bytes(bytes), 63);
/// # Ok::<(), samebits_ptx_emulator::Error>(())
/// ```
#[derive(Debug)]
pub struct Device {
    memory: Memory,
    /// The next race-detection interval.
    interval: u64,
    checks: Checks,
    schedule: Schedule,
    counting: bool,
    launches: u64,
}

impl Default for Device {
    fn default() -> Device {
        Device::new()
    }
}

impl Device {
    /// Returns a device with 16 GiB of memory, all checks enabled, and the in-order schedule.
    pub fn new() -> Device {
        Device::with_memory(0, 16 << 30)
    }

    /// Returns the device number `ordinal`, which determines its addresses, with `capacity` bytes.
    pub fn with_memory(ordinal: u32, capacity: u64) -> Device {
        // Far from zero, so that small integers are never addresses, and far from other devices, so
        // that a pointer to another device is out of bounds.
        let start = 0x7000_0000_0000 + (u64::from(ordinal) << 38);
        Device {
            memory: Memory::new(start, capacity),
            interval: 1,
            checks: Checks::default(),
            schedule: Schedule::InOrder,
            counting: false,
            launches: 0,
        }
    }

    /// Sets the order of execution for later launches.
    pub fn set_schedule(&mut self, schedule: Schedule) {
        self.schedule = schedule;
    }

    /// Sets the checks for later launches.
    pub fn set_checks(&mut self, checks: Checks) {
        self.checks = checks;
    }

    /// Sets whether later launches count their costs.
    pub fn set_counting(&mut self, counting: bool) {
        self.counting = counting;
    }

    /// Returns the number of bytes in use, and of all bytes.
    pub fn memory_info(&self) -> (u64, u64) {
        (self.memory.used(), self.memory.capacity())
    }

    /// Allocates uninitialised memory at addresses that have never been used. Even an allocation of
    /// zero bytes has an address.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if the device has too little memory.
    pub fn alloc(&mut self, size: u64) -> Result<u64, Error> {
        self.memory.insert(|memory| memory.uninitialised(size as usize), size, 1, false)
    }

    /// Reserves addresses for up to `size` bytes, without memory: an access is a fault until
    /// [`place`](Device::place). Returns the first address.
    pub fn reserve(&mut self, size: u64) -> u64 {
        self.memory.reserve(size, 1)
    }

    /// Creates `size` bytes of uninitialised memory at an address that [`reserve`](Device::reserve)
    /// returned for at least `size` bytes. It may be called again after [`free`](Device::free).
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if the device has too little memory, or memory already exists there.
    pub fn place(&mut self, address: u64, size: u64) -> Result<(), Error> {
        self.memory.place(address, |memory| memory.uninitialised(size as usize), size, false)
    }

    /// Frees the allocation that starts at `address`.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if no allocation starts there.
    pub fn free(&mut self, address: u64) -> Result<(), Error> {
        self.memory.remove(address)
    }

    /// Returns base address and size of the allocation that contains `address`.
    pub fn allocation(&self, address: u64) -> Option<(u64, u64)> {
        self.memory.range(address)
    }

    /// Returns true if `address` is, was or may become an address of this device.
    pub fn owns(&self, address: u64) -> bool {
        self.memory.owns(address)
    }

    /// Writes bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if they do not lie in one allocation.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        if bytes.is_empty() {
            return Ok(());
        }
        let (region, at) = self.memory.host("write", address, bytes.len() as u64)?;
        region.write(at, bytes);
        Ok(())
    }

    /// Reads bytes. Uninitialised bytes read as `0xff`.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if they do not lie in one allocation.
    pub fn read(&mut self, address: u64, out: &mut [u8]) -> Result<(), Error> {
        if out.is_empty() {
            return Ok(());
        }
        let (region, at) = self.memory.host("read", address, out.len() as u64)?;
        out.copy_from_slice(region.bytes(at, out.len()));
        Ok(())
    }

    /// Fills `size` bytes with a repeated pattern.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if they do not lie in one allocation, or the pattern is empty.
    pub fn fill(&mut self, address: u64, size: u64, pattern: &[u8]) -> Result<(), Error> {
        if size == 0 {
            return Ok(());
        }
        if pattern.is_empty() {
            let message = "the pattern is empty".to_owned();
            return Err(Error::Memory { op: "fill", address, size, message });
        }
        let (region, at) = self.memory.host("fill", address, size)?;
        region.fill(at, size as usize, pattern);
        Ok(())
    }

    /// Copies `size` bytes, and their initialisation state.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if either side does not lie in one allocation.
    pub fn copy(&mut self, to: u64, from: u64, size: u64) -> Result<(), Error> {
        if size == 0 {
            return Ok(());
        }
        let (source, from_at) = self.memory.host("copy", from, size)?;
        let source = std::mem::take(source);
        let copied = if self.memory.find(to) == self.memory.find(from) {
            // The source is taken out of its slot, so the copy is within it.
            let (base, len) = (from - from_at as u64, source.len() as u64);
            let offset = to.wrapping_sub(base);
            let mut source = source;
            let fits = offset < len && size <= len - offset;
            if fits {
                source.copy_within(offset as usize, from_at, size as usize);
            }
            self.put_back(base, source);
            return if fits { Ok(()) } else { self.memory.host("copy", to, size).map(|_| ()) };
        } else {
            match self.memory.host("copy", to, size) {
                Ok((region, at)) => {
                    region.copy_from(at, &source, from_at, size as usize);
                    Ok(())
                }
                Err(error) => Err(error),
            }
        };
        self.put_back(from - from_at as u64, source);
        copied
    }

    /// Restores a region that [`copy`](Device::copy) took out of the allocation at `base`.
    fn put_back(&mut self, base: u64, region: Region) {
        self.memory.restore(base, region);
    }

    /// Places a module: allocates its variables and fills their addresses into its code.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if the device has too little memory.
    pub fn load(&mut self, module: impl Into<Arc<Module>>) -> Result<Loaded, Error> {
        let module: Arc<Module> = module.into();
        let mut variables = Vec::with_capacity(module.variables.len());
        for variable in &module.variables {
            let (data, align) = (&variable.data, u64::from(variable.align));
            let make = |_: &mut _| Region::initialised(data.clone());
            variables.push(self.memory.insert(
                make,
                data.len() as u64,
                align,
                variable.constant,
            )?);
        }
        let resolve = |symbol: Symbol, addend: i64| {
            let base = match symbol {
                Symbol::Variable(index) => variables[index as usize],
                Symbol::Function(index) => CODE_WINDOW + u64::from(index),
            };
            base.wrapping_add_signed(addend)
        };
        for (variable, &address) in module.variables.iter().zip(&variables) {
            for &(offset, width, symbol, addend) in &variable.pointers {
                let bytes = resolve(symbol, addend).to_le_bytes();
                let (region, at) =
                    self.memory.host("write", address + u64::from(offset), u64::from(width))?;
                region.write(at, &bytes[..width as usize]);
            }
        }
        let mut c64 = module.c64.clone();
        for relocation in &module.relocations {
            c64[relocation.constant as usize] = resolve(relocation.symbol, relocation.addend);
        }
        Ok(Loaded {
            c32: Arc::new(module.c32.iter().map(|&value| [value; LANES]).collect()),
            c64: Arc::new(c64.iter().map(|&value| [value; LANES]).collect()),
            variables: Arc::new(variables),
            module,
        })
    }

    /// Frees a module's variables.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if it was unloaded before.
    pub fn unload(&mut self, loaded: &Loaded) -> Result<(), Error> {
        loaded.variables.iter().try_for_each(|&address| self.memory.remove(address))
    }

    /// Runs the entry point `kernel` and waits for it. `params` is the parameter buffer, with the
    /// layout of [`EntryInfo::params`].
    ///
    /// # Errors
    ///
    /// [`Error::Launch`] if the shape or the parameters do not fit, [`Error::Fault`] if a check
    /// fails; memory then holds what was written before the fault.
    pub fn launch(
        &mut self,
        loaded: &Loaded,
        kernel: &str,
        launch: Launch,
        params: &[u8],
    ) -> Result<Stats, Error> {
        self.launches += 1;
        let target = Target {
            loaded,
            launch,
            params,
            checks: self.checks,
            schedule: self.schedule,
            counting: self.counting,
            grid_id: self.launches,
        };
        exec::launch(&mut self.memory, &mut self.interval, kernel, target)
    }

    /// Checks everything about a launch that can be checked before it runs.
    ///
    /// # Errors
    ///
    /// The [`Error::Launch`] that [`launch`](Device::launch) would return.
    pub fn check(
        loaded: &Loaded,
        kernel: &str,
        launch: Launch,
        params: &[u8],
    ) -> Result<(), Error> {
        exec::check(loaded, kernel, launch, params).map(|_| ())
    }
}
