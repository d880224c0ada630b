//! Helpers for tests that run small kernels.
use samebits_ptx_emulator::{Approximate, Device, Error, Launch, Module, Stats};

/// A device with one module and buffers, so that a test need not count bytes.
pub(crate) struct Machine {
    pub(crate) device: Device,
    loaded: samebits_ptx_emulator::Loaded,
}

/// A parameter of a launch.
pub(crate) enum Arg {
    Pointer(u64),
    U32(u32),
}

impl Machine {
    pub(crate) fn new(source: &str) -> Machine {
        Machine::with(source, &Approximate::Refuse)
    }

    pub(crate) fn with(source: &str, approximate: &Approximate) -> Machine {
        let module = Module::parse_with(source, approximate).unwrap_or_else(|error| {
            let line = match &error {
                Error::Load { line, .. } => source.lines().nth(*line as usize - 1),
                _ => None,
            };
            panic!("{error}: {line:?}")
        });
        let mut device = Device::new();
        let loaded = device.load(module).unwrap();
        Machine { device, loaded }
    }

    pub(crate) fn upload(&mut self, bytes: &[u8]) -> u64 {
        let address = self.device.alloc(bytes.len() as u64).unwrap();
        self.device.write(address, bytes).unwrap();
        address
    }

    pub(crate) fn upload_u32(&mut self, values: &[u32]) -> u64 {
        self.upload(&values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>())
    }

    pub(crate) fn upload_u64(&mut self, values: &[u64]) -> u64 {
        self.upload(&values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>())
    }

    pub(crate) fn upload_f32(&mut self, values: &[f32]) -> u64 {
        self.upload(&values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>())
    }

    pub(crate) fn read_u32(&mut self, address: u64, count: usize) -> Vec<u32> {
        let mut bytes = vec![0; 4 * count];
        self.device.read(address, &mut bytes).unwrap();
        bytes.chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect()
    }

    pub(crate) fn read_u64(&mut self, address: u64, count: usize) -> Vec<u64> {
        let mut bytes = vec![0; 8 * count];
        self.device.read(address, &mut bytes).unwrap();
        bytes.chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().unwrap())).collect()
    }

    pub(crate) fn read_f32(&mut self, address: u64, count: usize) -> Vec<f32> {
        self.read_u32(address, count).into_iter().map(f32::from_bits).collect()
    }

    pub(crate) fn launch(
        &mut self,
        kernel: &str,
        launch: Launch,
        args: &[Arg],
    ) -> Result<Stats, Error> {
        let info = self.loaded.entry(kernel).expect("the entry point exists");
        let size = info.params.last().map_or(0, |p| p.offset + p.size) as usize;
        let mut bytes = vec![0; size];
        assert_eq!(args.len(), info.params.len(), "{kernel}");
        for (arg, param) in args.iter().zip(&info.params) {
            let at = param.offset as usize;
            match arg {
                Arg::Pointer(p) => bytes[at..at + 8].copy_from_slice(&p.to_le_bytes()),
                Arg::U32(v) => bytes[at..at + 4].copy_from_slice(&v.to_le_bytes()),
            }
        }
        self.device.launch(&self.loaded, kernel, launch, &bytes)
    }
}

/// Returns a module around one entry point `k` with two pointers `a` and `b` in `%a` and `%b`, the
/// thread index in `%t`, the block index in `%c`, and registers of every class.
pub(crate) fn kernel(body: &str) -> String {
    format!(
        ".version 8.5\n.target sm_80\n.address_size 64\n\
         .visible .entry k(.param .u64 pa, .param .u64 pb) {{\n\
         .reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<19>; .reg .f32 %f<9>;\n\
         .reg .b64 %d<19>; .reg .f64 %g<9>; .reg .b64 %a, %b, %x; .reg .b32 %t, %c;\n\
         ld.param.u64 %a, [pa]; ld.param.u64 %b, [pb];\n\
         cvta.to.global.u64 %a, %a; cvta.to.global.u64 %b, %b;\n\
         mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x;\n\
         {body}\n\
         ret; }}\n"
    )
}

/// Returns the number of the line with the comment `// here`.
pub(crate) fn marked_line(source: &str) -> u32 {
    let at = source.lines().position(|line| line.contains("// here"));
    at.expect("a line is marked") as u32 + 1
}
