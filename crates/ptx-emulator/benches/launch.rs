//! The number of thread instructions that the emulator executes per second.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use samebits_ptx_emulator::{Checks, Device, Launch, Loaded, Module, Stats};

const SOURCE: &str = include_str!("../tests/ptx/speed.ptx");

struct Bench {
    device: Device,
    loaded: Loaded,
    buffers: [u64; 3],
}

impl Bench {
    fn new(races: bool) -> Bench {
        let mut device = Device::new();
        device.set_checks(Checks { races, ..Checks::default() });
        let module = Module::parse(SOURCE).expect("the fixture is valid");
        let loaded = device.load(module).expect("the module has no variables");
        let buffers = [(); 3].map(|()| {
            let buffer = device.alloc(1 << 20).expect("there is memory");
            device.fill(buffer, 1 << 20, &1.5f32.to_le_bytes()).expect("it is in bounds");
            buffer
        });
        Bench { device, loaded, buffers }
    }

    fn run(&mut self, kernel: &str) -> Stats {
        let [a, b, c] = self.buffers.map(u64::to_le_bytes);
        let (launch, params) = match kernel {
            "chain" => (Launch::new(1, 256), [&a[..], &4096i32.to_le_bytes()].concat()),
            "add" => (Launch::new(64, 256), [&a[..], &b, &c, &(1i32 << 18).to_le_bytes()].concat()),
            "product" => (
                Launch { grid: [8, 8, 1], block: [16, 16, 1], dynamic_shared: 0 },
                [&a[..], &b, &c, &128i32.to_le_bytes()].concat(),
            ),
            _ => (Launch::new(64, 256), [&a[..], &c, &(1i32 << 18).to_le_bytes()].concat()),
        };
        self.device.launch(&self.loaded, kernel, launch, &params).expect("the kernel is correct")
    }
}

fn launches(c: &mut Criterion) {
    let mut group = c.benchmark_group("launch");
    group.sample_size(10);
    for kernel in ["chain", "add", "product", "histogram"] {
        for (name, races) in [("checked", true), ("races unchecked", false)] {
            let mut bench = Bench::new(races);
            let stats = bench.run(kernel);
            group.throughput(Throughput::Elements(stats.lane_instructions));
            group.bench_function(BenchmarkId::new(kernel, name), |b| b.iter(|| bench.run(kernel)));
        }
    }
    group.finish();
}

criterion_group!(benches, launches);
criterion_main!(benches);
